# SPDX-License-Identifier: GPL-2.0
"""Controls a QEMU by its monitor (QMP), for scripts/vm and scripts/vm-snapshot.

usage: qmp.py SOCKET save FILE               stop the machine, write its state to FILE, end it
       qmp.py SOCKET restore FILE DEVICE...  read the state, add devices (their properties as JSON),
                                             start the machine

A FILE that ends in `.zst` is compressed. Standard input of `restore` is a lock of the state,
released when it is read. Exit status 3: QEMU does not read it.
"""

import fcntl
import json
import shlex
import socket
import sys
import time

# Time limit of each wait, in seconds; QEMU replies within milliseconds on an idle host.
LIMIT = 300


class Unreadable(Exception):
    """The state of the machine is not read."""


class Monitor:
    """A connection to the monitor, in command mode."""

    def __init__(self, path):
        self.socket = connect(path)
        self.socket.settimeout(LIMIT)
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self.command("qmp_capabilities")

    def command(self, name, **arguments):
        """Returns the result of a command; events before it are dropped."""
        line = json.dumps({"execute": name, "arguments": arguments})
        self.socket.sendall(line.encode() + b"\n")
        for line in self.lines:
            reply = json.loads(line)
            if "error" in reply:
                raise RuntimeError(f"{name}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]
        raise RuntimeError(f"{name}: QEMU has ended")

    def wait(self, name, wanted, failed=()):
        """Repeats a query until its status is `wanted`."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            reply = self.command(name)
            if reply.get("status") == wanted:
                return
            if reply.get("status") in failed:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{name}: {json.dumps(reply)}")


def connect(path):
    """Connects to a socket that QEMU may not have created yet."""
    end = time.monotonic() + LIMIT
    while True:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(path)
            return client
        except OSError:
            client.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def main():
    path, action, file, *devices = sys.argv[1:]
    monitor = Monitor(path)
    if file.endswith(".zst"):
        to, source = f"exec:zstd -q -1 >{shlex.quote(file)}", f"exec:zstd -qdc {shlex.quote(file)}"
    else:
        to = source = f"file:{file}"
        # Memory at fixed offsets of a sparse file: pages of zeros are neither written nor read.
        monitor.command("migrate-set-capabilities", capabilities=[{"capability": "mapped-ram", "state": True}])
    if action == "save":
        monitor.command("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        monitor.command("stop")
        monitor.command("migrate", uri=to)
        monitor.wait("query-migrate", "completed", failed=("failed", "cancelled"))
        monitor.command("quit")
        return
    try:
        try:
            monitor.command("migrate-incoming", uri=source)
            monitor.wait("query-status", "paused")
        except (OSError, RuntimeError, ValueError) as error:
            raise Unreadable(error) from error
        fcntl.flock(0, fcntl.LOCK_UN)
        for properties in devices:
            monitor.command("device_add", **json.loads(properties))
        monitor.command("cont")
    except (OSError, RuntimeError, ValueError, Unreadable):
        try:
            monitor.command("quit")
        except (OSError, RuntimeError):
            pass
        raise


try:
    main()
except (OSError, RuntimeError, ValueError) as error:
    sys.exit(f"rkfd: QEMU's monitor: {error}")
except Unreadable as error:
    print(f"rkfd: QEMU's monitor: {error}", file=sys.stderr)
    sys.exit(3)
