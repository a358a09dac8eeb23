# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Traces an unmodified program in HIP, HSA, kernel and driver.

Library calls are recorded by uprobes and uretprobes, ioctls by syscall trace events, the driver by
its own trace events, all in a private tracefs instance.
"""

import glob
import os
import re
import subprocess
import time

from elf import Elf
from names import ioctl_name

TRACEFS = "/sys/kernel/tracing"
INSTANCE = TRACEFS + "/instances/rocm"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# KiB per CPU.
BUFFER = 32768
EVENTS = ("rkfd", "gpu_scheduler", "syscalls/sys_enter_ioctl", "syscalls/sys_exit_ioctl",
          "syscalls/sys_enter_mmap", "syscalls/sys_exit_mmap")
# Mapping type: the upper two bits of an mmap offset of /dev/kfd.
MAP_DOORBELLS = 3
LINE = re.compile(r"^\s*(.+)-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+\.\d+): (\w+)(:|\(| ->) ?(.*)$")
RETURNED = "__ret"


class Event:
    """One line of a trace; `ends` marks the exit of a system call."""

    def __init__(self, tid, when, name, text, ends=False):
        self.tid, self.when, self.name, self.text, self.ends = tid, when, name, text, ends

    def __getitem__(self, key):
        """Returns the value of `key=value` in the line."""
        return re.search(rf"\b{key}=(\S+)", self.text).group(1)


class Call:
    """A call: thread, function, start and end in seconds."""

    def __init__(self, tid, name, start, end):
        self.tid, self.name, self.start, self.end = tid, name, start, end

    @property
    def us(self):
        return (self.end - self.start) * 1e6


def library(stem):
    """Returns the path of an installed library, or None."""
    found = sorted(glob.glob(f"{LIBRARIES}/{stem}.so.*"))
    return os.path.realpath(found[0]) if found else None


def probes(program):
    """Yields (group, function, file, offset) of the HIP and HSA functions that are called, none for
    a script."""
    with open(program, "rb") as f:
        if f.read(4) != b"\x7fELF":
            return
    hip, hsa = library("libamdhip64"), library("libhsa-runtime64")
    wanted = Elf(program).needed()
    if hip:
        offered = Elf(hip).offered()
        yield from (("hip", name, hip, offered[name]) for name in sorted(wanted & offered.keys()))
        wanted |= Elf(hip).needed()
    offered = Elf(hsa).offered()
    yield from (("hsa", name, hsa, offered[name]) for name in sorted(wanted & offered.keys()))


def write(path, text, mode="w"):
    with open(path, mode) as f:
        f.write(text)


class Recording:
    """A tracefs instance with all events of interest enabled while a program runs."""

    def __init__(self, program):
        self.groups = set()
        self.stop_probes()
        # Not open(): it seeks, which uprobe_events does not support.
        fd = os.open(TRACEFS + "/uprobe_events", os.O_WRONLY | os.O_APPEND)
        for group, name, path, offset in probes(program):
            for kind, suffix in (("p", ""), ("r", RETURNED)):
                os.write(fd, f"{kind}:{group}/{name}{suffix} {path}:{offset:#x}\n".encode())
            self.groups.add(group)
        os.close(fd)
        if os.path.isdir(INSTANCE):
            os.rmdir(INSTANCE)
        os.mkdir(INSTANCE)
        write(INSTANCE + "/tracing_on", "0")
        write(INSTANCE + "/buffer_size_kb", str(BUFFER))
        write(INSTANCE + "/trace_clock", "mono")

    def stop_probes(self):
        write(TRACEFS + "/uprobe_events", "")

    def run(self, command):
        """Runs the program; returns exit status, output and elapsed seconds."""
        for event in EVENTS + tuple(self.groups):
            if os.path.exists(f"{INSTANCE}/events/{event}/enable"):
                write(f"{INSTANCE}/events/{event}/enable", "1")
        write(INSTANCE + "/tracing_on", "1")
        start = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        took = time.monotonic() - start
        write(INSTANCE + "/tracing_on", "0")
        return done.returncode, done.stdout, took

    def lost(self):
        """Returns the number of dropped events."""
        count = 0
        for path in glob.glob(INSTANCE + "/per_cpu/cpu*/stats"):
            with open(path) as f:
                numbers = re.findall(r"^(?:commit )?overrun: (\d+)", f.read(), re.M)
                count += sum(int(n) for n in numbers)
        return count

    def events(self):
        with open(INSTANCE + "/trace", errors="replace") as f:
            for line in f:
                match = LINE.match(line)
                if match:
                    yield Event(int(match[2]), float(match[4]), match[5], match[7],
                                match[6] == " ->")

    def close(self):
        write(INSTANCE + "/events/enable", "0")
        os.rmdir(INSTANCE)
        self.stop_probes()


def system_call(event):
    """Returns the command of an ioctl, or a name for an mmap."""
    if event.name == "sys_ioctl":
        return int(re.search(r"cmd: ([0-9a-fx]+)", event.text)[1], 16)
    offset = int(re.search(r"off: ([0-9a-fx]+)", event.text)[1], 16)
    return "mmap of doorbells" if offset >> 62 == MAP_DOORBELLS else "mmap"


def calls(events):
    """Pairs entry and return of library functions, ioctl() and mmap() per thread."""
    open_calls, done = {}, []
    for event in events:
        name = event.name
        if name in ("sys_ioctl", "sys_mmap"):
            if not event.ends:
                open_calls[(event.tid, name)] = (event.when, system_call(event))
            elif (event.tid, name) in open_calls:
                start, what = open_calls.pop((event.tid, name))
                done.append(Call(event.tid, what, start, event.when))
        elif name.endswith(RETURNED):
            plain = name[:-len(RETURNED)]
            stack = open_calls.get((event.tid, plain))
            if stack:
                done.append(Call(event.tid, plain, stack.pop(), event.when))
        elif name.startswith(("hip", "__hip", "hsa_")):
            open_calls.setdefault((event.tid, name), []).append(event.when)
    # Calls still running at the end of the recording.
    for (tid, name), stack in open_calls.items():
        if isinstance(stack, list):
            done += [Call(tid, name, start, start) for start in stack]
    return sorted(done, key=lambda call: call.start)


def layer(call):
    """Returns the layer that a call is to: HIP, HSA, kfd, drm, other or mmap."""
    if isinstance(call.name, int):
        return ioctl_name(call.name)[0]
    if call.name.startswith("mmap"):
        return "mmap"
    return "HSA" if call.name.startswith("hsa_") else "HIP"


def print_journal(events, all_calls, out=None):
    """Prints library calls, ioctls of render nodes and the driver's events, a machine-readable line
    each, as tests/workloads/journal.c does."""
    rows = []
    for call in all_calls:
        where, name = layer(call), call.name
        # The driver's own event has the result too.
        if where == "kfd" or name == "mmap":
            continue
        if isinstance(name, int):
            name = f"{where}:{ioctl_name(name)[1]}"
        where = {"HIP": "hip", "HSA": "hsa"}.get(where, "syscall")
        rows.append((call.start, where, name.replace(" ", "_"), call.end - call.start, call.tid, ""))
    for event in events:
        if event.name.startswith("rkfd_"):
            name = event.name[len("rkfd_"):]
            detail = re.search(r" (?:step|what)=(\S+)", event.text)
            rows.append((event.when, "kernel", f"{name}:{detail[1]}" if detail else name, 0.0, event.tid, event.text))
    for start, where, name, took, tid, text in sorted(rows):
        print(f"rkfd-demo: t={round(start * 1e9)} layer={where} step={name} took={round(took * 1e9)} tid={tid} {text}",
              file=out)
