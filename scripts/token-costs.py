#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the tokens that `tinygrad-nn.py --tokens` generated under `trace`, and the costs of each:
ioctls and created queues by the guest's recording, launches and copies by the log of the GPU model,
on one clock (launch_events.py).
"""

import re
import sys

from launch_events import Clock, gpu_events, guest_steps, integer, pairs

USAGE = "usage: scripts/token-costs.py OUT_LOG GPU_TRACE"
TOKEN = re.compile(r"token (\d+): from (\d+) ns to (\d+) ns")
CREATE_QUEUE = 0x02


def tokens(path):
    """Returns the tokens: (number of the token, start and end in ns of the guest's clock)."""
    with open(path, errors="replace") as lines:
        found = (TOKEN.search(line) for line in lines)
        return [tuple(map(int, match.groups())) for match in found if match]


def is_ioctl(layer, step):
    return (layer, step) == ("kernel", "ioctl") or layer == "syscall" and step.startswith("drm:")


def kind(layer, event, text):
    """Returns what a line of the GPU's log counts as, or None."""
    if (layer, event) == ("aql", "kernel_dispatch") or (layer, event) == ("cp", "dispatch_begin"):
        return "launch"
    # Queues of the kernel are named otherwise.
    if (layer, event) == ("sdma", "packet") and " queue=rlc" in text and "op=COPY" in text:
        return "copy"
    return None


def main():
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(USAGE)
        return 2
    steps, log = guest_steps(sys.argv[1]), list(gpu_events(sys.argv[2]))
    rows, offset = tokens(sys.argv[1]), Clock(steps, log).offset
    if not rows or offset is None:
        print("no tokens, or no event that guest and GPU have in common", file=sys.stderr)
        return 1
    ioctls = [(t, integer(pairs(text).get("nr"))) for t, _, layer, step, text, _ in steps
              if is_ioctl(layer, step)]
    work = [(t + offset, kind(layer, event, text)) for t, layer, event, text in log]
    print(f"\n{'':<18}{'ms':>9}{'ioctls':>9}{'queues':>9}{'launches':>10}{'copies':>9}")
    for name, start, end in [("before", 0, rows[0][1])] + [(f"token {token}", start, end)
                                                           for token, start, end in rows]:
        calls = [nr for t, nr in ioctls if start <= t < end]
        did = [what for t, what in work if start <= t < end]
        took = f"{(end - start) / 1e6:.0f}" if start else ""
        print(f"  {name:<16}{took:>9}{len(calls):>9}{calls.count(CREATE_QUEUE):>9}"
              f"{did.count('launch'):>10}{did.count('copy'):>9}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
