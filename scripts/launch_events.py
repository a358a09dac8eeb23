# SPDX-License-Identifier: GPL-2.0
"""Events of a recorded run: the steps of the program and the driver's trace events from the guest,
and the GPU model's event log, in tracks on one clock, with edges from cause to effect.

The guest and the GPU model have separate clocks. They are aligned by events that both sides record.
Causality bounds the offset: a doorbell write reaches the GPU after the driver traced its packet,
and the driver handles an interrupt after the GPU wrote its IH entry.
"""

import bisect
import collections
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/rocm"))
from names import KFD  # noqa: E402

PM4 = {0x10: "NOP", 0x37: "WRITE_DATA", 0x3C: "WAIT_REG_MEM", 0x40: "COPY_DATA", 0x49: "RELEASE_MEM",
       0x58: "ACQUIRE_MEM", 0x79: "SET_UCONFIG_REG", 0xA0: "SET_RESOURCES", 0xA1: "MAP_PROCESS",
       0xA2: "MAP_QUEUES", 0xA3: "UNMAP_QUEUES", 0xA4: "QUERY_STATUS", 0xA5: "RUN_LIST",
       0xA6: "INVALIDATE_TLBS", 0xA7: "QUEUE_RESET"}
# Resolution of the guest's trace events in ns: the trace file has microseconds.
RESOLUTION = 1000
# Time in ns between a trace point of the driver and the doorbell write that follows it: usually,
# and if another thread ran in between.
AGREE, DELAY = 1_000_000, 20_000_000
# Lanes in the order of the path, each with its tracks in order of first appearance.
LANES = ("program", "runtime", "kernel", "rings", "command processor", "XCCs", "SDMA", "memory",
         "interrupts", "other")


def pairs(text):
    return dict(re.findall(r"(\w+)=(\S+)", text))


def integer(text):
    """Returns the value of a number in any notation, or None."""
    try:
        return int(text, 0)
    except (TypeError, ValueError):
        return None


def guest_steps(path):
    """Returns the `rkfd-demo:` lines of the last recording: (start ns, took ns, layer, step,
    values, thread or 0)."""
    pattern = re.compile(r"rkfd-demo: t=(\d+) layer=(\S+) step=(\S+) took=(\d+)(?: tid=(\d+))? ?(.*)")
    steps = []
    with open(path, errors="replace") as lines:
        for line in lines:
            match = pattern.search(line)
            if match:
                t, layer, step, took, tid, values = match.groups()
                steps.append((int(t), int(took), layer, step, values.strip(), int(tid or 0)))
            elif line.startswith("rkfd-demo: begin"):
                steps = []
    return steps


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
    """Returns the difference of guest time and model time in ns by the doorbell write that starts
    the first dispatch, or None without one."""
    rung = next((t for t, _, _, step, *_ in steps if step == "doorbell_rung"), None)
    first = next((i for i, event in enumerate(events) if is_dispatch(event)), None)
    if rung is None or first is None:
        return None
    doorbell = next((e for e in reversed(events[:first]) if "doorbell" in e[2]), None)
    return None if doorbell is None else rung - doorbell[0]


class Event:
    """An event: start and duration in ns of the guest's clock, recorded as `step` of `layer` (gpu:
    LAYER.EVENT of the model), values as text, thread (0: none); lane, track in it and name to show.
    `at` is the number in its list."""

    __slots__ = ("t", "took", "layer", "step", "lane", "track", "name", "text", "tid", "at", "v")

    def __init__(self, t, took, source, shown, text, tid=0):
        self.t, self.took, (self.layer, self.step) = t, took, source
        (self.lane, self.track, self.name), self.text, self.tid, self.at = shown, text, tid, None
        self.v = pairs(text)

    @property
    def end(self):
        return self.t + self.took

    def number(self, key):
        return integer(self.v.get(key))


def from_guest(given):
    """Returns the event of a guest step."""
    t, took, layer, step, text, tid = given
    name = step
    v = pairs(text)
    ns = integer(v.get("ns"))
    # The driver traces operations with a duration at their end.
    if layer == "kernel" and ns and not took:
        t, took = t - ns, ns
    lane, track = "kernel", "driver"
    if layer in ("user", "hip"):
        lane, track = "program", "program" if layer == "user" else "HIP"
    elif layer == "hsa":
        lane, track = "runtime", "HSA"
    elif name == "ioctl":
        track, name = "ioctl", f"ioctl {KFD.get(integer(v.get('nr')), v.get('nr'))}"
    elif layer == "syscall":
        track = "system calls"
    elif name == "packet":
        lane, track, name = "rings", v.get("ring", "?"), f"{v.get('packet', '?')} packet"
    elif name == "ih":
        lane, track, name = "interrupts", "driver", "IH entry handled"
    elif name.startswith("event:"):
        lane, track = "interrupts", "driver"
    elif name in ("vm_map", "bo_move") or name.startswith("svm"):
        lane, track = "memory", "driver"
    if name in ("packet_written", "doorbell_rung"):
        lane, track = "rings", "AQL queue"
    return Event(t, took, (layer, step), (lane, track, name), text, tid)


def from_gpu(event, offset):
    """Returns the event of a line of the model's log."""
    t, layer, what, text = event
    v = pairs(text)
    name = f"{layer}.{what}"
    if (layer, what) == ("cp", "packet"):
        name = f"{PM4.get(integer(v.get('op')), v.get('op'))} fetched"
    elif (layer, what) == ("hws", "runlist_packet"):
        name = f"runlist: {PM4.get(integer(v.get('op')), v.get('op'))}"
    elif (layer, what) == ("cp", "queue_start"):
        name = "MQD loaded to HQD"
    elif (layer, what) == ("nbio", "doorbell"):
        name = f"doorbell {v.get('index')}"
    elif (layer, what) == ("sdma", "packet"):
        name = f"SDMA {v.get('op', '?')}"
    elif (layer, what) == ("mes", "frame"):
        name = f"MES {v.get('op', '?')}"
    lane, track = {
        "nbio": ("rings", "doorbell BAR"),
        "cp": ("command processor", f"XCC {v.get('xcc', 0)}"),
        "hws": ("command processor", f"XCC {v.get('xcc', 0)}"),
        "aql": ("command processor", f"XCC {v.get('xcc', 0)}"),
        "mes": ("command processor", "MES"),
        "sq": ("XCCs", f"XCC {v.get('xcc', 0)}"),
        "sdma": ("SDMA", f"engine {v.get('engine', '?')}"),
        "gmc": ("memory", "GPU"),
        "hdp": ("memory", "GPU"),
        "ih": ("interrupts", "IH ring"),
    }.get(layer, ("other", layer))
    return Event(t + offset, 0, ("gpu", f"{layer}.{what}"), (lane, track, name), text)


def densest(values, width):
    """Returns the start of the interval of this width that contains most of the values, or None."""
    values = sorted(values)
    counts = [bisect.bisect_right(values, value + width) - at for at, value in enumerate(values)]
    return values[counts.index(max(counts))] if values else None


class Clock:
    """Alignment of the model's clock: `offset` is added to its times; `low` and `high` are the
    bounds by causality (None: no such pair), `pairs` the number of pairs, `rings` the doorbell
    index of each ring of the driver."""

    def __init__(self, steps, events):
        self.rings = {}
        down, up = self.crossings(steps, events)
        self.low = max((guest - model for guest, model in down), default=None)
        self.high = min((guest - model for guest, model in up), default=None)
        self.pairs = len(down), len(up)
        self.offset = clock_offset(steps, events)
        self.how = "the doorbell write that starts the first dispatch"
        if self.low is not None and (self.offset is None or self.offset < self.low):
            self.offset, self.how = self.low, "the fastest doorbell write of the driver"

    def crossings(self, steps, events):
        """Returns the pairs (guest ns, model ns) of doorbell writes by the driver, and of
        interrupts of the GPU. A ring's write pointers, and the context of an interrupt, identify
        them."""
        packets = [(t, pairs(text)) for t, _, layer, name, text, _ in steps
                   if layer == "kernel" and name == "packet"]
        doorbells = collections.defaultdict(list)
        for t, layer, name, text in events:
            if (layer, name) == ("nbio", "doorbell"):
                v = pairs(text)
                doorbells[integer(v["value"])].append((t, integer(v["index"])))
        # Rings start with equal write pointers: the right pairs are those that agree in the offset.
        matches = [(t, v["ring"], *doorbell) for t, v in packets for doorbell in doorbells[integer(v["wptr"])]]
        start = densest([guest - model for guest, _, model, _ in matches], AGREE)
        matches = [m for m in matches if -DELAY <= m[0] - m[2] - start <= AGREE]
        votes = collections.defaultdict(collections.Counter)
        for guest, ring, model, index in matches:
            votes[ring][index] += 10 if guest - model >= start else 1
        self.rings = {ring: max(count, key=count.get) for ring, count in votes.items()}
        down = [(guest, model) for guest, ring, model, index in matches if self.rings[ring] == index]
        if not down:
            return [], []
        # Interrupts repeat: the last entry that was written before, by the bound of the doorbells.
        low = max(guest - model for guest, model in down)
        entries = collections.defaultdict(list)
        for t, layer, name, text in events:
            if (layer, name) == ("ih", "entry"):
                entries[ih_key(text)].append(t)
        up = []
        for t, _, layer, name, text, _ in steps:
            times = entries.get(ih_key(text), ()) if (layer, name) == ("kernel", "ih") else ()
            place = bisect.bisect_right(times, t - low + RESOLUTION)
            if place:
                up.append((t + RESOLUTION, times[place - 1]))
        return down, up

    def describe(self):
        def ns(bound):
            return "unbounded" if bound is None else f"{(bound - self.offset) / 1e3:+.1f} us"
        return (f"The GPU model's clock is aligned with the guest's CLOCK_MONOTONIC at {self.how}. "
                f"Causality of {self.pairs[0]} doorbell writes by the driver and {self.pairs[1]} "
                f"interrupts bounds the error: {ns(self.low)} to {ns(self.high)}.")


def ih_key(text):
    """Returns client, source, PASID and first context word of an IH entry on either side."""
    v = pairs(text)
    context = integer(v.get("ctx0"))
    if context is None:
        match = re.search(r"ctx=\[([0-9a-f]+)", text)
        context = int(match[1], 16) if match else None
    return integer(v.get("client")), integer(v.get("source")), integer(v.get("pasid")), context


class Run:
    """The events of a run in order of time."""

    def __init__(self, out_log, gpu_trace=None):
        steps = guest_steps(out_log)
        if not steps:
            raise ValueError("the program printed no steps")
        self.log = log = list(gpu_events(gpu_trace)) if gpu_trace else []
        self.clock = Clock(steps, log)
        if log and self.clock.offset is None:
            raise ValueError("guest and GPU have no event in common")
        begin = min(step[0] for step in steps)
        end = max(step[0] + step[1] for step in steps)
        self.events = [from_guest(step) for step in steps]
        offset = self.clock.offset or 0
        known = [from_gpu(event, offset) for event in log if event[1] not in ("mmio", "reg")]
        # Queues mapped before the first step are needed to attribute doorbells.
        self.before = [event for event in known if event.t < begin]
        self.events += [event for event in known if begin <= event.t <= end]
        self.events = waves(self.events)
        self.events.sort(key=lambda event: (event.t, -event.took))
        self.events = merged(self.events)
        for at, event in enumerate(self.events):
            event.at = at
        self.begin, self.end = begin, end

    def tracks(self):
        """Returns the (lane, track) in order."""
        found = {(event.lane, event.track) for event in self.events}
        return sorted(found, key=lambda at: (LANES.index(at[0]), in_words(at[1])))


def in_words(text):
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", text)]


def waves(events):
    """Merges start and end of the waves of a dispatch on an XCC."""
    started, merged = {}, []
    for event in events:
        if event.step == "sq.waves_start":
            event.name = f"{event.v['waves']} wave{'s' * (event.v['waves'] != '1')}"
            started[event.v["job"], event.v["xcc"]] = event
        elif event.step == "sq.waves_end":
            start = started.pop((event.v["job"], event.v["xcc"]), None)
            if start:
                start.took = event.t - start.t
            continue
        merged.append(event)
    return merged


def merged(events):
    """Merges accesses to memory that the GPU repeats, such as retries of a fault."""
    last, kept, count = {}, [], collections.Counter()
    for event in events:
        first = last.get(event.track) if (event.layer, event.lane) == ("gpu", "memory") else None
        if first and (first.step, first.text) == (event.step, event.text):
            first.took = event.t - first.t
            count[first] += 1
            continue
        if event.lane == "memory":
            last[event.track] = event
        kept.append(event)
    for event, more in count.items():
        event.text += f" ({more + 1} times)"
    return kept
