#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the GPU's view of each process: doorbells, dispatches, copies, signals. None of these
involve the driver.

The GPU identifies a process by its PASID. A doorbell is attributed to the queue that is mapped to
it at that moment.
"""

import collections
import re
import sys

from launch_events import gpu_events, pairs

USAGE = "usage: scripts/gpu-side.py GPU_TRACE"
# SDMA COPY: bytes minus one in the second word.
COPY_BYTES = re.compile(r"op=COPY words=\[[0-9a-f]+, ([0-9a-f]+),")


class Processes:
    """Counts of each process, in order of first appearance."""

    def __init__(self):
        self.rows = {}
        # Doorbell to process and queue type; queue or VMID to process.
        self.doorbells, self.compute, self.sdma = {}, {}, {}

    def add(self, pasid, what, count=1):
        self.rows.setdefault(pasid, collections.Counter())[what] += count

    def event(self, layer, event, text):
        values = pairs(text)
        if event == "queue_start" and values.get("pasid", "0") != "0":
            kind = "SDMA" if layer == "sdma" else "AQL"
            self.doorbells[values["doorbell"]] = (values["pasid"], f"{kind} queue at {values['doorbell']}")
            if kind == "SDMA":
                self.sdma[values["engine"], values["queue"]] = values["pasid"]
            else:
                self.compute[values["queue"]] = values["pasid"]
        elif (layer, event) == ("nbio", "doorbell") and values["index"] in self.doorbells:
            pasid, queue = self.doorbells[values["index"]]
            self.add(pasid, f"stores to the doorbell of the {queue}")
        elif layer == "aql":
            self.aql(event, values)
        elif (layer, event) == ("sdma", "packet") and (values["engine"], values["queue"]) in self.sdma:
            pasid = self.sdma[values["engine"], values["queue"]]
            copy = COPY_BYTES.search(text)
            self.add(pasid, f"SDMA packet {values['op']}")
            if copy:
                self.add(pasid, "bytes copied by SDMA", int(copy[1], 16) + 1)

    def aql(self, event, values):
        pasid = values.get("pasid") or self.compute.get(values.get("queue"))
        if pasid is None:
            return
        names = {"kernel_dispatch": "kernels dispatched", "signal": "completion signals counted down",
                 "mailbox": "events raised by signals", "barrier": "barrier packets", "pm4_ib": "vendor packets with PM4"}
        if event in names:
            self.add(pasid, names[event])
        if event == "kernel_dispatch":
            self.add(pasid, "workgroups run", int(values["workgroups"]))


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if len(sys.argv) != 2:
        print(USAGE, file=sys.stderr)
        return 2
    processes = Processes()
    for _, layer, event, text in gpu_events(sys.argv[1]):
        processes.event(layer, event, text)
    for number, (pasid, counts) in enumerate(processes.rows.items(), 1):
        print(f"\n{f'GPU events of process {number} (PASID {pasid})':<58}{'count':>9}")
        for what, count in sorted(counts.items()):
            print(f"  {what:<54}{count:>11}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
