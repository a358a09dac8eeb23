#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints the path of a launch: the demo's steps, the driver's trace events and the GPU model's
events, on one clock.

The guest and the GPU model have separate clocks. They are aligned at the doorbell write that starts
the first dispatch, which both sides record.
"""

import itertools
import re
import sys

USAGE = "usage: scripts/launch-way.py [--fault] GUEST_OUTPUT [GPU_TRACE]"
# --fault: steps of the GPU from the wave that waits for a page to its end, and on to the CPU's
# access, in these orders. A pattern matches "layer.event values".
FAULT = ((r"aql\.kernel_dispatch ", r"gmc\.retry .*NotPresent", r"ih\.entry .*source=0 ", r"sdma\.packet .*op=COPY ",
          r"aql\.dispatch_end ", r"aql\.signal ", r"sdma\.packet .*op=COPY "),
         (r"ih\.entry .*source=0 ", r"sdma\.packet .*op=COPY ", r"ih\.retry_ack "))
# Events of the GPU model that are not part of the launch: ring padding, register accesses.
IGNORED = re.compile(r"op=0x10 |^(mmio|reg)_(read|write) ")


def pairs(text):
    return dict(re.findall(r"(\w+)=(\S+)", text))


def guest_steps(path):
    """The `rkfd-demo:` lines: (start ns, took ns, layer, step, values)."""
    pattern = re.compile(r"rkfd-demo: t=(\d+) layer=(\S+) step=(\S+) took=(\d+) ?(.*)")
    with open(path, errors="replace") as lines:
        for line in lines:
            match = pattern.search(line)
            if match:
                t, layer, step, took, values = match.groups()
                yield int(t), int(took), layer, step, values.strip()


def gpu_events(path):
    """Lines of the model's trace: (ns, layer, event, values)."""
    with open(path, errors="replace") as lines:
        for line in lines:
            words = line.split(None, 3)
            if len(words) >= 3 and words[0].isdigit():
                yield int(words[0]), words[1], words[2], words[3].strip() if len(words) > 3 else ""


def is_dispatch(event):
    return event[1] in ("aql", "cp", "dispatch") and "dispatch" in event[2]


def clock_offset(steps, events):
    """Returns the difference of guest time and model time in ns, or None."""
    rung = next((t for t, _, _, step, _ in steps if step == "doorbell_rung"), None)
    first = next((i for i, event in enumerate(events) if is_dispatch(event)), None)
    if rung is None or first is None:
        return None
    doorbell = next((e for e in reversed(events[:first]) if "doorbell" in e[2]), None)
    return None if doorbell is None else rung - doorbell[0]


def scheduling(event):
    """Returns the scheduler command of this event (a MES frame, or a packet that maps or unmaps
    queues), or None."""
    _, layer, name, values = event
    if layer == "mes" and name == "frame":
        # The rings of MES itself are mapped by such frames too.
        op = pairs(values).get("op", "?")
        return None if "legacy" in values else op
    packet = re.search(r"\bop=0x(a[235])\b", values) if layer == "cp" and name == "packet" else None
    return {"a2": "MAP_QUEUES", "a3": "UNMAP_QUEUES", "a5": "RUN_LIST"}[packet[1]] if packet else None


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
    names = iter(f"{layer}.{event} {values}" for _, layer, event, values in events)
    return next((p for p in patterns if not any(re.search(p, name) for name in names)), None)


def merged(rows):
    """Merges successive rows of the GPU that differ in time only: a repeated access."""
    for _, same in itertools.groupby(rows, lambda row: row[2:] if row[2] == "gpu" else row):
        *first, values = next(same)
        count = 1 + sum(1 for _ in same)
        yield (*first, values + (f" ({count} times)" if count > 1 else ""))


def main():
    fault = sys.argv[1:2] == ["--fault"]
    if fault:
        del sys.argv[1]
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        print(USAGE)
        return 2
    steps = list(guest_steps(sys.argv[1]))
    if not steps:
        print("launch-way: the demo printed no steps", file=sys.stderr)
        return 1
    rows = [(t, took, layer, step, values) for t, took, layer, step, values in steps]
    if len(sys.argv) == 3:
        events = list(gpu_events(sys.argv[2]))
        offset = clock_offset(steps, events)
        if offset is None:
            print("launch-way: the trace of the GPU has no dispatch after the demo's doorbell write", file=sys.stderr)
            return 1
        begin = min(t for t, *_ in steps)
        end = max(t + took for t, took, *_ in steps)
        rows += [(t + offset, 0, "gpu", f"{layer}.{event}", values) for t, layer, event, values in events
                 if not IGNORED.search(f"{event} {values} ") and begin <= t + offset <= end]
        if not no_command_between_launches(events):
            return 1
        shown = [e for e in events if begin <= e[0] + offset <= end]
        missing = next(filter(None, (in_order(shown, patterns) for patterns in FAULT)), None) if fault else None
        if missing:
            print(f"launch-way: the trace of the GPU has no step {missing} in its place", file=sys.stderr)
            return 1
    rows.sort(key=lambda row: row[0])
    rows = list(merged(rows))
    if fault:
        # What precedes is the same as of the vector add.
        rows = rows[next((i for i, row in enumerate(rows) if row[3] == "mmap"), 0):]
    epoch = rows[0][0]
    print(f"{'at (us)':>11} {'took (us)':>10}  {'layer':6}  {'step':26} values")
    for t, took, layer, step, values in rows:
        duration = f"{took / 1e3:.1f}" if took else ""
        print(f"{(t - epoch) / 1e3:11.1f} {duration:>10}  {layer:6}  {step:26} {values}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
