#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Runs programs in containers of podman that have some of the devices of the GPUs: `--device`, the
device cgroup and the PID namespace. The files of a container are those of the guest's Debian root.
With two cards also two containers, each with one of them.
"""

import json
import os
import re
import subprocess
import sys
import time

from ktap import Report

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
PROCESSES = "/sys/devices/virtual/kfd/kfd/proc"
CGROUP = "/sys/fs/cgroup"
LEDGER = "/sys/kernel/debug/kfd/vram"
# The root of containers, the folder that they share with this program, podman's storage.
IMAGE, SHARED, STORAGE = "/run/image", "/run/shared", "/var/lib/containers"
PODMAN = ("podman", "--cgroup-manager=cgroupfs", "--events-backend=none")
# Tests of contained.c read the kernel log.
KERNEL_LOG = ("--device=/dev/kmsg:/dev/kmsg:r", "--cap-add=SYSLOG")
FACTOR = int(os.environ.get("KTAP_TIME_FACTOR", "1"))
# Seconds: podman and ROCm take long under emulation.
LIMIT = 240 * FACTOR
# Seconds for VRAM to be free after a kill, and what the driver may need besides, in bytes.
FREED_WITHIN, SLACK = 5 * FACTOR, 8 << 20
HELD = 512 << 20


def number(path, base=10):
    """Returns the number in a file."""
    with open(path, encoding="ascii") as f:
        return int(f.read(), base)


class Card:
    """A GPU node of the topology."""

    def __init__(self, node):
        with open(f"{NODES}/{node}/properties", encoding="ascii") as f:
            properties = dict(line.split() for line in f)
        self.node, self.gpu_id = node, number(f"{NODES}/{node}/gpu_id")
        self.minor = int(properties["drm_render_minor"])
        self.bdf_id = int(properties["location_id"])
        self.render = f"/dev/dri/renderD{self.minor}"

    def used(self):
        """Returns the bytes of VRAM in use."""
        return number(f"/sys/class/drm/renderD{self.minor}/device/mem_info_vram_used")

    def uses_of_processes(self):
        """Returns the bytes of BOs of /dev/kfd, by debugfs; None without the file."""
        if not os.path.exists(LEDGER):
            return None
        with open(LEDGER, encoding="ascii") as f:
            section = f.read().partition(f"gpu_id {self.gpu_id:x}:\n")[2]
        return int(re.search(r"^ *kfd_bos +(\d+)", section, re.M)[1])


def cards():
    """Returns the GPUs."""
    nodes = sorted(int(node) for node in os.listdir(NODES))
    return [Card(node) for node in nodes if number(f"{NODES}/{node}/gpu_id")]


def run(*command, limit=LIMIT):
    """Runs a command; returns its status and both outputs."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=limit, check=False)
    return done.returncode, done.stdout


def eventually(condition, limit):
    """Waits until a condition holds; returns the seconds that it took, None if it did not."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > limit:
            return None
        time.sleep(0.05)
    return time.monotonic() - start


def runs(pid):
    """Returns whether a process has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def mount(kind, source, folder, options):
    """Mounts a file system; the root has no mount(8)."""
    os.makedirs(folder, exist_ok=True)
    subprocess.run(("busybox", "mount", "-t", kind, "-o", options, source, folder), check=True)


class Container:
    """A container with /dev/kfd, unless `kfd` is false, and the render nodes of cards."""

    def __init__(self, name, devices, *command, kfd=True, options=(), environment=None):
        self.name = name
        variables = {"PATH": os.environ["PATH"], "SHARED": "/shared", "KTAP_TIME_FACTOR": FACTOR}
        variables.update(environment or {})
        self.arguments = [
            *PODMAN, "run", "--rm", "--name", name, "--network=none", "--log-driver=none",
            "--volume=/tests:/tests:ro", f"--volume={SHARED}:/shared",
            *(f"--device={device}" for device in (["/dev/kfd"] if kfd else []) + devices),
            *(f"--env={key}={value}" for key, value in variables.items()), *options,
            "--rootfs", f"{IMAGE}:O", *command]
        self.process = None

    def run(self):
        """Runs it to its end; returns status and output."""
        return self.start().end()

    def start(self):
        """Starts it in the background."""
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return self

    def end(self):
        """Waits for its end; returns status and output."""
        try:
            output = self.process.communicate(timeout=LIMIT)[0]
        except subprocess.TimeoutExpired:
            self.kill()
            output = self.process.communicate()[0]
        return self.process.returncode, output

    def kill(self):
        """Kills all processes in it."""
        return run(*PODMAN, "kill", self.name)

    def inspect(self, what):
        """Returns a value that podman has of it."""
        return run(*PODMAN, "inspect", "--format", what, self.name)[1].strip()

    def pids(self):
        """Returns the ids of its processes, outside."""
        folder = self.inspect("{{.State.CgroupPath}}")
        found = []
        for path, _, files in os.walk(CGROUP + folder):
            if "cgroup.procs" in files:
                with open(f"{path}/cgroup.procs", encoding="ascii") as f:
                    found += [int(pid) for pid in f.read().split()]
        return found


def contained(name, card, *tests, other=None, options=(), **variables):
    """Returns a container with a card that runs tests of contained.c; `other` is the other card."""
    variables.update(OWN_GPU=card.gpu_id)
    if other:
        variables.update(OTHER_GPU=other.gpu_id, OTHER_NODE=other.node, OTHER_MINOR=other.minor)
    return Container(name, [card.render], "contained", *tests, environment=variables,
                     options=(*KERNEL_LOG, *options))


def agents(output):
    """Returns the bus, device and function of each GPU agent in the output of rocminfo."""
    return [int(re.search(r"BDFID: +(\d+)", agent)[1])
            for agent in re.split(r"\n\*+ *\nAgent \d+", output)
            if re.search(r"Device Type: +GPU", agent)]


class Tests:
    """The tests; each prints what it saw if it fails."""

    def __init__(self):
        self.cards = cards()
        tests = [self.rocm, self.without_kfd, self.without_render_node, self.process_ids,
                 self.debuggers, self.killed, self.denied_while_in_use, self.contents_on_one_card,
                 self.each_has_its_card, self.other_card_is_unknown, self.both_at_once,
                 self.contents_on_two_cards]
        self.report = Report("containers", len(tests))
        prepare()
        for test in tests:
            for name in os.listdir(SHARED):
                os.unlink(f"{SHARED}/{name}")
            start = time.monotonic()
            if test.__doc__.startswith("Two cards") and len(self.cards) < 2:
                self.report.skip(test.__name__, "one GPU")
                continue
            test()
            print(f"# {time.monotonic() - start:.1f} s")
            self.report.done(test.__name__)

    def succeeds(self, what, result):
        """Expects status 0; prints the output otherwise."""
        status, output = result
        if not self.report.expect(status == 0, f"{what}: status {status}"):
            print("".join(f"# {line}\n" for line in output.splitlines()), end="")
        return output

    def expect_text(self, what, output, pattern):
        """Expects a pattern in an output."""
        if not self.report.expect(re.search(pattern, output), f"{what}: no '{pattern}'"):
            print("".join(f"# {line}\n" for line in output.splitlines()), end="")

    def told(self, name):
        """Waits until a container tells something."""
        self.report.expect(eventually(lambda: os.path.exists(f"{SHARED}/{name}"), LIMIT) is not None,
                           f"no '{name}' of the container")

    @staticmethod
    def tell(name):
        """Tells a container something."""
        with open(f"{SHARED}/{name}", "w", encoding="ascii"):
            pass

    def rocm(self):
        """rocminfo lists the card, and a HIP program works."""
        card = self.cards[0]
        output = self.succeeds("rocminfo", Container("info", [card.render], "rocminfo").run())
        self.report.expect(agents(output) == [card.bdf_id], f"GPU agents {agents(output)}")
        self.succeeds("vecadd", Container("hip", [card.render], "vecadd", "64").run())

    def without_kfd(self):
        """Without /dev/kfd there is no GPU: ENOENT, and EPERM if a file of it is made."""
        card = self.cards[0]
        output = Container("info", [card.render], "rocminfo", kfd=False).run()[1]
        self.report.expect(not agents(output), f"GPU agents {agents(output)}")
        self.expect_text("rocminfo", output, "/dev/kfd.*No such file or directory")
        status, output = Container("hip", [card.render], "vecadd", "64", kfd=False).run()
        self.report.expect(status != 0, f"status {status}")
        self.expect_text("vecadd", output, "no ROCm-capable device is detected")
        device = os.stat("/dev/kfd").st_rdev
        script = f"mknod /dev/kfd c {os.major(device)} {os.minor(device)} && exec 3<>/dev/kfd"
        status, output = Container("made", [card.render], "sh", "-c", script, kfd=False,
                                   options=("--cap-add=MKNOD",)).run()
        self.report.expect(status != 0, f"status {status}")
        self.expect_text("open", output, "cannot create /dev/kfd: Operation not permitted")

    def without_render_node(self):
        """With no render node all nodes are hidden, and /dev/kfd cannot be opened: EINVAL."""
        script = (f"exec 2>&1; for card in {' '.join(str(card.node) for card in self.cards)}; do "
                  f"cat {NODES}/$card/properties; done; cat {NODES}/0/properties >/dev/null && "
                  "echo processor; exec 3<>/dev/kfd")
        status, output = Container("none", [], "sh", "-c", script).run()
        self.report.expect(status != 0, f"status {status}")
        self.expect_text("topology", output, f"(?s)(.*Operation not permitted){{{len(self.cards)}}}")
        self.expect_text("topology", output, "(?m)^processor$")
        self.expect_text("open", output, "cannot create /dev/kfd: Invalid argument")
        output = Container("info", [], "rocminfo").run()[1]
        self.report.expect(not agents(output), f"GPU agents {agents(output)}")
        self.expect_text("rocminfo", output, "/dev/kfd.*Invalid argument")

    def process_ids(self):
        """Ids are those of the container; processes outside are neither seen nor debugged."""
        card = self.cards[0]
        # Of two containers, one has what the other must not see.
        holder = contained("holder", card, "holds_vram").start()
        self.told("holds")
        outside = [pid for pid in holder.pids() if os.path.exists(f"{PROCESSES}/{pid}")]
        self.report.expect(len(outside) == 1, f"{outside} in sysfs")
        for pid in (*outside, os.getpid()):
            self.succeeds("outside", contained("debugger", card, "processes_outside_are_unknown",
                                               OUTSIDE_PID=pid).run())
        watcher = contained("watcher", card, "events_of_processes_outside_are_not_seen").start()
        self.told("listens")
        self.succeeds("smi", run("smi", "eviction_by_mmu_notifier", "process_start_and_end"))
        holder.kill()
        holder.end()
        self.tell("events")
        self.succeeds("watcher", watcher.end())

    def debuggers(self):
        """A debugger in a container debugs its child, by the ids there."""
        tests = ("only_a_tracer_may_debug", "debug_before_the_first_open")
        self.succeeds("debug", Container("debugger", [self.cards[0].render], "debug", *tests,
                                         options=KERNEL_LOG).run())

    def killed(self):
        """A killed container gives back its VRAM."""
        card = self.cards[0]
        before, of_processes = card.used(), card.uses_of_processes()
        holder = contained("holder", card, "holds_vram").start()
        self.told("holds")
        used = card.used() - before
        self.report.expect(used >= HELD, f"{used} bytes of VRAM in use")
        if of_processes is not None:
            used = card.uses_of_processes() - of_processes
            self.report.expect(used >= HELD, f"{used} bytes of processes in debugfs")
        pids = holder.pids()
        # podman takes seconds to send the signal, and to remove the container.
        with subprocess.Popen((*PODMAN, "kill", holder.name), stdout=subprocess.DEVNULL):
            ended = eventually(lambda: not any(map(runs, pids)), LIMIT)
            self.report.expect(ended is not None, "podman kill kills no process")
            took = eventually(lambda: card.used() <= before + SLACK and
                              card.uses_of_processes() == of_processes, FREED_WITHIN)
        self.report.expect(took is not None, f"{card.used() - before} bytes are still in use, "
                           f"{card.uses_of_processes()} of processes, {of_processes} before")
        print(f"# free {took} s after the end of the processes")
        holder.end()
        left = [pid for pid in pids if os.path.exists(f"{PROCESSES}/{pid}")]
        self.report.expect(not left, f"{left} still in sysfs")

    def denied_while_in_use(self):
        """The cgroup denies the card later: a process that has it keeps it."""
        card = self.cards[0]
        user = contained("user", card, "open_card_stays").start()
        self.told("open")
        rules = [{"allow": False, "access": "rwm"}]
        for path, access in (("/dev/kfd", "rw"), ("/dev/null", "rw"), ("/dev/kmsg", "r")):
            device = os.stat(path).st_rdev
            rules.append({"allow": True, "type": "c", "major": os.major(device),
                          "minor": os.minor(device), "access": access})
        with open("/run/resources", "w", encoding="ascii") as f:
            json.dump({"devices": rules}, f)
        self.succeeds("update", run("crun", "update", "--resources=/run/resources",
                                    user.inspect("{{.Id}}")))
        self.tell("denied")
        self.succeeds("contained", user.end())

    def each_has_its_card(self):
        """Two cards, two containers: each lists its card only."""
        for i, card in enumerate(self.cards):
            output = self.succeeds("rocminfo", Container("info", [card.render], "rocminfo").run())
            self.report.expect(agents(output) == [card.bdf_id], f"card {i}: {agents(output)}")
        both = [card.render for card in self.cards]
        output = self.succeeds("rocminfo", Container("info", both, "rocminfo").run())
        self.report.expect(agents(output) == [card.bdf_id for card in self.cards],
                           f"both: {agents(output)}")

    def other_card_is_unknown(self):
        """Two cards: nothing of the other one can be read, opened or named."""
        tests = ("own_card_works", "topology_of_the_other_is_unreadable",
                 "devices_of_the_other_cannot_be_opened", "ioctls_do_not_know_the_other")
        for card, other in zip(self.cards, self.cards[::-1]):
            self.succeeds("contained", contained("one", card, *tests, other=other,
                                                 options=("--cap-add=MKNOD",)).run())

    def both_at_once(self):
        """Two cards: HIP programs in two containers at the same time, each on its card."""
        before = [card.used() for card in self.cards]
        running = [Container(f"hip{i}", [card.render], "vecadd", "64", "20").start()
                   for i, card in enumerate(self.cards)]
        seen = eventually(lambda: all(card.used() > used for card, used
                                      in zip(self.cards, before)), LIMIT)
        self.report.expect(seen is not None, "both never had VRAM in use at the same time")
        for container in running:
            self.succeeds("vecadd", container.end())

    def contents_on_two_cards(self):
        """Two cards: VRAM of both has its own contents, at the same time."""
        self.separate(*self.cards[:2])

    def contents_on_one_card(self):
        """Two containers with the same card: VRAM of both has its own contents."""
        self.separate(self.cards[0], self.cards[0])

    def separate(self, first, second):
        """Runs two containers that fill VRAM."""
        running = [contained(f"fill{seed}", card, "contents_are_separate", SEED=seed,
                             OTHER_SEED=3 - seed).start()
                   for seed, card in ((1, first), (2, second))]
        for container in running:
            self.succeeds("contained", container.end())


def prepare():
    """Mounts what podman needs, and the files of containers."""
    mount("cgroup2", "none", CGROUP, "nosuid,nodev,noexec")
    mount("erofs", "/dev/disk/root", IMAGE, "ro")
    # Overlays cannot be on the overlay of the guest's root.
    mount("tmpfs", "none", STORAGE, "mode=700")
    os.makedirs(SHARED, exist_ok=True)


if __name__ == "__main__":
    sys.exit(Tests().report.failed != 0)
