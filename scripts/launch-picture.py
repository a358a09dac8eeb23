#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draws a recorded run: an HTML page without external parts, and a trace for Perfetto in Chrome's
JSON trace format. Fails if the path of a launch is incomplete; --any: if there is no event.

launch_events.py has the events and describes their clock, launch_edges.py the arrows.
"""

import json
import os
import re
import sys

from launch_edges import edges
from launch_events import LANES, Run

USAGE = "usage: scripts/launch-picture.py [--any] TITLE GUEST_OUTPUT GPU_TRACE HTML PERFETTO"
TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch-picture.html")
# The path of a launch: each of these steps is caused by one before it.
PATH = (r"aql\.kernel_dispatch|cp\.dispatch_begin", r"sq\.waves_start", r"aql\.dispatch_end|cp\.dispatch_end",
        r"aql\.signal", r"ih\.entry", r"ih$", r"event:interrupt")


def effects_of(found):
    after = {}
    for cause, effect, ends in found:
        after.setdefault(cause, []).append((effect, ends))
    return after


def follow(start, after):
    """Returns the numbers of all effects of an event, and their effects. The end of an event causes
    ends only."""
    seen, queue = {start}, [(start, False)]
    while queue:
        at, at_end = queue.pop()
        for effect, ends in after.get(at, ()):
            if effect not in seen and (ends or not at_end):
                seen.add(effect)
                queue.append((effect, ends))
    return seen


def launch_doorbell(run, found):
    """Returns the doorbell that starts the launch: the program's step, else the GPU's event."""
    events = run.events
    # A runtime also copies by kernels: the launch is the largest one.
    launches = [e for e in events if re.match(PATH[0], e.step)]
    if not launches:
        return None
    launch = max(launches, key=lambda e: e.number("workgroups"))
    doorbell = next((c for c, e, _ in found if e == launch.at and events[c].step == "nbio.doorbell"), None)
    if doorbell is None:
        return None
    return next((c for c, e, _ in found if e == doorbell and events[c].step == "doorbell_rung"), doorbell)


def views(run, doorbell, after):
    """Returns named parts of the run: (name, from, to, selected event or -1), times in ns."""
    found = [("whole run", run.begin, run.end, -1)]
    queue = next((e for e in run.events if e.name == "ioctl CREATE_QUEUE"), None)
    if queue:
        reached = [run.events[at] for at in follow(queue.at, after)]
        end = max(e.end for e in reached if e.end <= queue.end + queue.took)
        found.append(("create queue", queue.t, end, queue.at))
    if doorbell is None:
        return found
    reached = [run.events[at] for at in follow(doorbell, after)]
    start = run.events[doorbell].t
    written = [e.t for e in run.events if e.step == "packet_written" and e.t <= start]
    found.append(("launch", written[-1] if written else start, max(e.end for e in reached), doorbell))
    return found


def page(run, title, found, doorbell, after):
    tracks = run.tracks()
    number = {track: n for n, track in enumerate(tracks)}
    begin = run.begin
    rows = [[e.t - begin, e.took, number[e.lane, e.track], e.name, e.text] for e in run.events]
    expected = []
    if doorbell is not None:
        reached = [run.events[at] for at in sorted(follow(doorbell, after))]
        kernel = max((e for e in reached if re.match(PATH[0], e.step)), key=lambda e: e.number("workgroups"))
        expected = [kernel.name] + [f"{key}={kernel.v[key]}" for key in ("kernarg", "signal") if key in kernel.v]
    data = {"title": title, "clock": run.clock.describe(), "tracks": tracks, "events": rows, "edges": found,
            "views": [(name, start - begin, end - begin, at) for name, start, end, at in views(run, doorbell, after)],
            "doorbell": doorbell, "expected": expected}
    # "</" would end the script element.
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    with open(TEMPLATE, encoding="utf-8") as template:
        return template.read().replace("DATA</script>", text + "</script>")


def length(event):
    """Returns the duration of a slice in ns: flows end in slices only, those of events without
    duration have 1 ns."""
    return max(event.took, 1)


def nested(run):
    """Returns process and thread of each event. Slices of a thread have to nest: a track gets
    several threads if its events overlap otherwise."""
    numbers = {track: 100 * n for n, track in enumerate(run.tracks(), 1)}
    ids, open_slices = [], {}
    for event in run.events:
        rows = open_slices.setdefault(numbers[event.lane, event.track], [])
        for row in rows + [[]]:
            while row and row[-1] <= event.t:
                row.pop()
            if not row or event.t + length(event) <= row[-1]:
                break
        if not any(row is other for other in rows):
            rows.append(row)
        row.append(event.t + length(event))
        tid = numbers[event.lane, event.track] + next(n for n, other in enumerate(rows) if other is row)
        ids.append({"pid": LANES.index(event.lane) + 1, "tid": tid})
    return ids


def perfetto(run, title, found):
    """Returns the run in Chrome's JSON trace format: lanes are processes, tracks are threads,
    arrows are flows. Times are in us."""
    out, ids = [], nested(run)
    threads = {}
    for event, at in zip(run.events, ids):
        threads.setdefault((at["pid"], at["tid"]), (event.lane, event.track))
    for (pid, tid), (lane, track) in sorted(threads.items()):
        for what, key, value in (("process_name", "name", lane), ("process_sort_index", "sort_index", pid),
                                 ("thread_name", "name", track), ("thread_sort_index", "sort_index", tid)):
            out.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: value}})

    def us(ns):
        return (ns - run.begin) / 1e3
    for event in run.events:
        out.append({"ph": "X", "name": event.name, "cat": event.lane, "ts": us(event.t), "dur": length(event) / 1e3,
                    **ids[event.at], "args": {"at": event.at, **(event.v or {"text": event.text})}})
    for n, (cause, effect, ends) in enumerate(found):
        a, b = run.events[cause], run.events[effect]
        start = min(max(a.t, min(a.end, b.end if ends else b.t)), max(a.end - 1, a.t))
        for phase, event, t in (("s", a, start), ("f", b, max(b.end - 1, b.t) if ends else b.t)):
            out.append({"ph": phase, "id": n, "name": "cause", "cat": "cause", "ts": us(t), "bp": "e",
                        **ids[event.at]})
    return json.dumps({"traceEvents": out, "displayTimeUnit": "ns",
                       "otherData": {"title": title, "clock": run.clock.describe()}}, separators=(",", ":"))


def missing(run, reached):
    """Returns the first step of the path that none of these events is, or None."""
    steps = [run.events[at].step for at in reached]
    return next((p for p in PATH if not any(re.match(p, step) for step in steps)), None)


def main():
    required = sys.argv[1:2] != ["--any"]
    if not required:
        del sys.argv[1]
    if len(sys.argv) != 6 or sys.argv[1] in ("-h", "--help"):
        print(USAGE)
        return 2
    title, guest, gpu, html, trace = sys.argv[1:]
    try:
        run = Run(guest, gpu)
    except ValueError as error:
        print(f"launch-picture: {error}", file=sys.stderr)
        return 1
    found = edges(run)
    after = effects_of(found)
    doorbell = launch_doorbell(run, found)
    step = "doorbell" if doorbell is None else missing(run, follow(doorbell, after))
    if required and step:
        print(f"launch-picture: no arrow leads to the step {step} of the launch", file=sys.stderr)
        return 1
    with open(html, "w", encoding="utf-8") as file:
        file.write(page(run, title, found, doorbell, after))
    with open(trace, "w", encoding="utf-8") as file:
        file.write(perfetto(run, title, found))
    print(f"{len(run.events)} events, {len(found)} arrows")
    print(run.clock.describe())
    return 0


if __name__ == "__main__":
    sys.exit(main())
