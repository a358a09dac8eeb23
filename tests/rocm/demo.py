#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Traces vecadd on HIP: number and cost of HIP calls, HSA calls, ioctls, driver steps, interrupts.
Checks that launches cause neither ioctls nor driver activity.

usage: demo.py [--journal] [table] [quiet]     (default: both)
--journal: also print the events of the table
"""

import collections
import os
import re
import sys

from ktap import Report
from names import CLIENTS, SOURCES, ioctl_name
from traceway import TRACEFS, Recording, calls, layer, print_journal, system_call

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vecadd")

# Expected calls: (layer, name, number in the study, functions in any version of the libraries,
# most calls beyond that number; None if the number depends on the time that the GPU takes).
STUDY = (
    ("HIP", "hipMalloc", 3, ("hipMalloc",), 0),
    ("HIP", "hipMemcpy", 3, ("hipMemcpy",), 0),
    ("HIP", "launch", 1, ("hipLaunchKernel",), 0),
    ("HIP", "hipDeviceSynchronize", 1, ("hipDeviceSynchronize",), 0),
    ("HIP", "hipFree", 3, ("hipFree",), 0),
    ("HSA", "queue create", 1, ("hsa_queue_create",), 0),
    ("HSA", "async copy", 3,
     ("hsa_amd_memory_async_copy", "hsa_amd_memory_async_copy_on_engine"), 0),
    # 8 with ROCm 6.4.
    ("HSA", "pool allocation", 7, ("hsa_amd_memory_pool_allocate",), 1),
    ("HSA", "host lock", 3, ("hsa_amd_memory_lock", "hsa_amd_memory_lock_to_pool"), 0),
    ("HSA", "signal wait", 6, ("hsa_signal_wait_scacquire", "hsa_signal_wait_relaxed"), None),
)


def say(text=""):
    print(f"# {text}".rstrip())


def table(title, rows):
    """Prints a table of {name: durations in us}."""
    say()
    say(f"{title:<46}{'count':>7}{'total us':>12}{'mean us':>10}{'max us':>10}")
    for name, times in sorted(rows.items(), key=lambda row: -sum(row[1])):
        mean = sum(times) / len(times)
        say(f"  {name:<44}{len(times):>7}{sum(times):>12.1f}{mean:>10.1f}{max(times):>10.1f}")


def grouped(all_calls, wanted):
    rows = collections.defaultdict(list)
    for call in all_calls:
        if layer(call) == wanted:
            name = call.name if isinstance(call.name, str) else ioctl_name(call.name)[1]
            rows[name].append(call.us)
    return rows


def driver_rows(events):
    """Returns the number of driver actions by name."""
    rows = collections.Counter()
    for event in events:
        if event.name == "rkfd_runlist":
            rows[f"runlist of {event['queues']} queues"] += 1
        elif event.name == "rkfd_packet":
            rows[f"packet {event['packet']} on ring {event['ring']}"] += 1
        elif event.name == "rkfd_sdma_job":
            rows["job on a kernel SDMA ring (fills, page tables)"] += 1
        elif event.name == "rkfd_ih":
            client, source = int(event["client"]), int(event["source"])
            name = f"{SOURCES.get(source, source)} from {CLIENTS.get(client, client)}"
            rows[f"interrupt: {name}"] += 1
        elif event.name == "rkfd_doorbell_map":
            rows["doorbell page mapped"] += 1
        elif event.name == "rkfd_event":
            rows[f"event: {re.search('what=(.*)', event.text)[1]}"] += 1
        elif event.name in ("rkfd_vm_map", "rkfd_bo_move") or event.name.startswith("drm_"):
            kind = " (unmap)" if event.text.endswith("unmap") else ""
            rows[event.name + kind] += 1
    return rows


def queue_creation(events, all_calls):
    """Returns the cost of the first hsa_queue_create by part: (name, us, depth)."""
    whole = next((c for c in all_calls if c.name == "hsa_queue_create"), None)
    if not whole:
        return []
    inside = [c for c in all_calls if layer(c) in ("kfd", "drm", "mmap")
              and c.tid == whole.tid and whole.start <= c.start <= whole.end]
    rows = [("hsa_queue_create", whole.us, 0)]
    for call in inside:
        if call.name == "mmap":
            continue
        kind, name = ("kfd", call.name)
        if isinstance(call.name, int):
            kind, name = ioctl_name(call.name)
        rows.append((f"{kind}: {name}", call.us, 1))
        if name != "CREATE_QUEUE":
            continue
        steps = [e for e in events if e.name == "rkfd_queue_step" and e.tid == whole.tid
                 and call.start <= e.when <= call.end + 1e-6]
        rows += [(f"step {re.search('step=(.*) ns', e.text)[1]}", int(e["ns"]) / 1e3, 2)
                 for e in steps]
    rows.append(("other mmap", sum(c.us for c in inside if c.name == "mmap"), 1))
    rows.append(("user space and other system calls", whole.us - sum(c.us for c in inside), 1))
    return rows


def record(arguments, report):
    """Runs vecadd under a recording; returns its events and calls."""
    recording = Recording(PROGRAM)
    try:
        status, output, took = recording.run([PROGRAM, *arguments])
        events, lost = list(recording.events()), recording.lost()
    finally:
        recording.close()
    for line in output.splitlines():
        say(f"vecadd: {line}")
    report.expect(status == 0, f"exit status {status}")
    report.expect(lost == 0, f"{lost} events lost")
    report.expect(any(e.name == "sys_ioctl" for e in events), "no ioctl recorded")
    say(f"took {took:.1f} s, {len(events)} events recorded")
    return events, calls(events)


def show_table(report, journal):
    """Prints calls, ioctls, driver actions and the steps of queue creation; checks the counts."""
    events, all_calls = record([], report)
    if journal:
        print_journal(events, all_calls)
    counts = collections.Counter(call.name for call in all_calls)
    say()
    say(f"{'calls':<34}{'expected':>14}{'counted':>8}")
    for where, what, studied, functions, beyond in STUDY:
        here = sum(counts[name] for name in functions)
        say(f"  {where} {what:<28}{studied:>14}{here:>8}")
        right = here > 0 if beyond is None else studied <= here <= studied + beyond
        report.expect(right, f"{here} times {what}, expected {studied}")
    table("HIP calls", grouped(all_calls, "HIP"))
    table("HSA calls of HIP", grouped(all_calls, "HSA"))
    table("/dev/kfd ioctls", grouped(all_calls, "kfd"))
    table("render node ioctls", grouped(all_calls, "drm"))
    say()
    say(f"{'driver actions':<58}{'count':>7}")
    for name, count in sorted(driver_rows(events).items()):
        say(f"  {name:<56}{count:>7}")
    say()
    say(f"{'hsa_queue_create, step by step':<58}{'us':>10}")
    for name, us, depth in queue_creation(events, all_calls):
        say(f"  {'  ' * depth + name:<56}{us:>10.1f}")
    # The C driver has no trace events for these.
    traced = os.path.exists(TRACEFS + "/events/rkfd/rkfd_queue_step")
    report.expect(not traced or any(e.name == "rkfd_queue_step" for e in events),
                  "no rkfd_queue_step event")


def show_quiet(report, _journal):
    """Checks that launches cause no ioctl (but WAIT_EVENTS of other threads), job or runlist."""
    launches = 200
    events, all_calls = record(["16", str(launches)], report)
    series = [c for c in all_calls if c.name == "hipLaunchKernel"]
    report.expect(len(series) == launches, f"{len(series)} launches, expected {launches}")
    warm_up = launches // 4
    if len(series) <= warm_up + 1:
        return
    # The first one loads the code object; other threads of the runtime may finish that later.
    begin, end, tid = series[warm_up].end, series[-1].end, series[0].tid
    between = [e for e in events if begin < e.when < end]
    ioctls = [e for e in between if e.name == "sys_ioctl" and not e.ends]
    own = [e for e in ioctls if e.tid == tid]
    others = collections.Counter(ioctl_name(system_call(e))[1] for e in ioctls if e.tid != tid)
    say(f"{len(series) - warm_up - 1} launches in {(end - begin) * 1e3:.1f} ms, {len(own)} ioctls of their "
        f"thread; of other threads: {dict(others)}")
    report.expect(not own, f"{len(own)} ioctls of that thread: {own[0].text if own else ''}")
    report.expect(set(others) <= {"WAIT_EVENTS"}, f"ioctls of other threads: {dict(others)}")
    for name in ("rkfd_runlist", "rkfd_packet", "rkfd_queue_step", "rkfd_sdma_job", "rkfd_vm_map",
                 "drm_run_job", "drm_sched_job_run"):
        count = sum(e.name == name for e in between)
        report.expect(count == 0, f"{count} times {name} between the launches")


def main():
    parts = {"table": show_table, "quiet": show_quiet}
    journal = sys.argv[1:2] == ["--journal"]
    wanted = sys.argv[1 + journal:] or list(parts)
    if not set(wanted) <= parts.keys():
        print(__doc__)
        return 2
    report = Report("demo", len(wanted))
    for name in wanted:
        parts[name](report, journal)
        report.done(name)
    return report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
