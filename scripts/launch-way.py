#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the path of a launch: the demo's steps, the driver's trace events and the GPU model's
events, on one clock (launch_events.py).
"""

import re
import sys

from launch_events import PM4, Run, is_dispatch, pairs

USAGE = "usage: scripts/launch-way.py [--fault] GUEST_OUTPUT [GPU_TRACE]"
# --fault: steps of the GPU from the wave that waits for a page to its end, and on to the CPU's
# access, in these orders. A pattern matches "layer.event values".
FAULT = ((r"aql\.kernel_dispatch ", r"gmc\.retry .*NotPresent", r"ih\.entry .*source=0 ", r"sdma\.packet .*op=COPY ",
          r"aql\.dispatch_end ", r"aql\.signal ", r"sdma\.packet .*op=COPY "),
         (r"ih\.entry .*source=0 ", r"sdma\.packet .*op=COPY ", r"ih\.retry_ack "))
# Packets of the GPU that are not part of the launch: ring padding.
IGNORED = re.compile(r"op=0x10 ")


def scheduling(event):
    """Returns the scheduler command of this event (a MES frame, or a packet that maps or unmaps
    queues), or None."""
    _, layer, name, values = event
    if layer == "mes" and name == "frame":
        # The rings of MES itself are mapped by such frames too.
        op = pairs(values).get("op", "?")
        return None if "legacy" in values else op
    op = PM4.get(int(pairs(values)["op"], 0)) if (layer, name) == ("cp", "packet") else None
    return op if op in ("MAP_QUEUES", "UNMAP_QUEUES", "RUN_LIST") else None


def no_command_between_launches(events):
    """Prints all scheduler commands; returns whether there were none between first and last launch
    and as many queues were removed as added."""
    launches = [i for i, event in enumerate(events) if is_dispatch(event)]
    commands = [op for op in map(scheduling, events) if op]
    between = [op for op in map(scheduling, events[launches[0]:launches[-1]]) if op]
    counts = ", ".join(f"{op} {commands.count(op)}" for op in sorted(set(commands)))
    print(f"scheduler commands: {counts}; between the launches: {', '.join(between) or 'none'}")
    added, removed = commands.count("ADD_QUEUE"), commands.count("REMOVE_QUEUE")
    if added != removed:
        print(f"launch-way: {added} queues were added, {removed} removed", file=sys.stderr)
    return not between and added == removed and bool(commands)


def in_order(events, patterns):
    """Returns the first of `patterns` that no event matches after those of the former, or None."""
    names = iter(f"{event.step} {event.text}" for event in events)
    return next((p for p in patterns if not any(re.search(p, name) for name in names)), None)


def main():
    fault = sys.argv[1:2] == ["--fault"]
    if fault:
        del sys.argv[1]
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        print(USAGE)
        return 2
    try:
        run = Run(*sys.argv[1:])
    except ValueError as error:
        print(f"launch-way: {error}", file=sys.stderr)
        return 1
    gpu = [event for event in run.events if event.layer == "gpu"]
    rows = [(e.t, e.took, e.layer, e.step, e.text) for e in run.events
            if e.layer != "gpu" or not IGNORED.search(f"{e.text} ")]
    if run.log:
        if not no_command_between_launches(run.log):
            return 1
        missing = next(filter(None, (in_order(gpu, patterns) for patterns in FAULT)), None) if fault else None
        if missing:
            print(f"launch-way: the trace of the GPU has no step {missing} in its place", file=sys.stderr)
            return 1
        print(run.clock.describe())
    if fault:
        # The steps before the mmap are those of the vector add.
        rows = rows[next((i for i, row in enumerate(rows) if row[3] == "mmap"), 0):]
    epoch = rows[0][0]
    print(f"{'at (us)':>11} {'took (us)':>10}  {'layer':6}  {'step':26} values")
    for t, took, layer, step, values in rows:
        duration = f"{took / 1e3:.1f}" if took else ""
        print(f"{(t - epoch) / 1e3:11.1f} {duration:>10}  {layer:6}  {step:26} {values}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
