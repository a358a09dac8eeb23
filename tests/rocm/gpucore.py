#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Checks the core files of a HIP program that a memory fault ends: that of ROCr, which debugs its
own process for it (DBG_TRAP) and has the memory and the queues of the GPU, and that of the kernel,
which has neither.
"""

import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile

from ktap import Report

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crash")
CORE_PATTERN = "/proc/sys/kernel/core_pattern"
OVERCOMMIT = "/proc/sys/vm/overcommit_memory"
ET_CORE, EM_X86_64, EM_AMDGPU = 4, 62, 224
PT_LOAD, PT_NOTE = 1, 4
NT_AMDGPU_CORE_STATE = 33


class Core:
    """An ELF core file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.kind, self.machine = struct.unpack_from("<HH", self.bytes, 16)
        offset, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        self.segments = [struct.unpack_from("<IIQQQQQ", self.bytes, offset + i * size)
                         for i in range(count)]

    def notes(self):
        """Yields the type and the content of each note."""
        for kind, _, offset, _, _, size, _ in self.segments:
            at = offset
            while kind == PT_NOTE and at < offset + size:
                name, content, number = struct.unpack_from("<III", self.bytes, at)
                at += 12 + (name + 3) // 4 * 4
                yield number, self.bytes[at:at + content]
                at += (content + 3) // 4 * 4

    def memory(self, address, size):
        """Returns the bytes at an address, or None if the file has none."""
        for kind, _, offset, start, _, in_file, _ in self.segments:
            if kind == PT_LOAD and start <= address and address + size <= start + in_file:
                return self.bytes[offset + address - start:][:size]
        return None


def change(path, value):
    """Writes a file of sysctl; returns its former content."""
    with open(path, encoding="ascii") as f:
        former = f.read()
    with open(path, "w", encoding="ascii") as f:
        f.write(value)
    return former


def main():
    report = Report("gpucore", 2)
    folder = tempfile.mkdtemp()
    pattern = change(CORE_PATTERN, "core")
    # For the snapshot of the GPUs ROCr 6.4 allocates 4 GiB, of which it touches little.
    overcommit = change(OVERCOMMIT, "1")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    run = subprocess.run([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         cwd=folder, timeout=300, check=False,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited))
    change(CORE_PATTERN, pattern)
    change(OVERCOMMIT, overcommit)
    for line in (run.stdout + run.stderr).splitlines():
        print(f"# {line}")
    report.expect(run.returncode == -signal.SIGABRT, f"status {run.returncode}")
    words, waves, mark = (int(word, 0) for word in run.stdout.split())
    files = sorted(os.listdir(folder))
    print(f"# files: {files}")
    names = [name for name in files if name.startswith("gpucore.")]
    if report.expect(len(names) == 1, f"GPU core files {names}"):
        core = Core(os.path.join(folder, names[0]))
        report.expect(core.kind == ET_CORE, f"type {core.kind}")
        report.expect(core.machine == EM_AMDGPU, f"machine {core.machine}")
        states = [content for number, content in core.notes() if number == NT_AMDGPU_CORE_STATE]
        report.expect(len(states) == 1, f"{len(states)} notes of the state")
        for state in states:
            # Version, that of KFD, and the snapshots: runtime, GPUs, queues.
            *_, size, gpus, of_gpu, queues, of_queue = struct.unpack_from("<QIIQIIII", state)
            print(f"# {gpus} GPUs, {queues} queues")
            report.expect(gpus >= 1 and queues >= 2, "GPUs or queues are missing")
            size += struct.calcsize("<QIIQIIII") + gpus * of_gpu + queues * of_queue
            report.expect(len(state) == size, f"{len(state)} bytes of {size}")
        marks = core.memory(words, waves * 4)
        report.expect(marks == struct.pack(f"<{waves}I", *[mark] * waves),
                      f"device memory {marks and marks.hex()}")
    report.done("of_the_runtime")
    names = [name for name in files if name == "core" or name.startswith("core.")]
    if report.expect(len(names) == 1, f"core files {names}"):
        core = Core(os.path.join(folder, names[0]))
        report.expect(core.kind == ET_CORE and core.machine == EM_X86_64, "header")
        report.expect(core.memory(words, 4) is None, "it has device memory")
    report.done("of_the_kernel")
    return report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
