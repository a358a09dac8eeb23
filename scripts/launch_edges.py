# SPDX-License-Identifier: GPL-2.0
"""Edges from cause to effect between the events of a run (launch_events.py).

An effect follows from the latest earlier event of the kind that causes it and has the same key:
thread, doorbell, MQD, job, fence, or event id.
"""

import bisect
import collections
import re

from launch_events import ih_key

# An effect may be traced this much (ns) before its cause: the trace points have a resolution of
# 1 us.
SLACK = 2000


class Edges:
    """The edges in `found`: numbers of cause and effect, and whether the effect is the end of its
    event."""

    def __init__(self, run):
        self.run, self.found = run, set()
        self.by_step = collections.defaultdict(list)
        for event in run.events:
            self.by_step[event.step].append(event)
        self.doorbell_of = self.doorbells()
        self.nesting()
        self.submissions()
        self.scheduler()
        self.dispatches()
        self.copies()
        self.interrupts()

    def of(self, *steps):
        """Returns the events recorded as one of these steps; a step that ends in * is a prefix."""
        found = []
        for step in steps:
            if step.endswith("*"):
                for name, events in self.by_step.items():
                    found += events if name.startswith(step[:-1]) else []
            else:
                found += self.by_step.get(step, ())
        return sorted(found, key=lambda event: event.at)

    def link(self, causes, effects, key, effect_key=None, ends=False):
        """Links each effect with the latest earlier cause of the same key. `ends`: with the end of
        the effect. Keys of None do not match."""
        known = collections.defaultdict(list)
        for cause in causes:
            known[key(cause)].append(cause)
        known.pop(None, None)
        for effect in effects:
            when = effect.end if ends else effect.t
            place = known.get((effect_key or key)(effect), [])
            at = bisect.bisect_right(place, when + SLACK, key=lambda cause: cause.t)
            if at and place[at - 1] is not effect:
                self.found.add((place[at - 1].at, effect.at, ends))

    def doorbells(self):
        """Returns a function: the doorbell index of the queue of a CP event."""
        starts = collections.defaultdict(list)
        for event in self.run.before + self.of("cp.queue_start"):
            if event.step == "cp.queue_start":
                starts[event.v["xcc"], event.v["queue"]].append(event)

        def doorbell_of(event):
            known = starts.get((event.v.get("xcc"), event.v.get("queue")), [])
            at = bisect.bisect_right(known, event.t, key=lambda start: start.t)
            return known[at - 1].number("doorbell") if at else None
        return doorbell_of

    def nesting(self):
        """A call causes the events of the same thread until it returns."""
        open_calls = collections.defaultdict(list)
        for event in self.run.events:
            if not event.tid:
                continue
            stack = open_calls[event.tid]
            while stack and stack[-1].end < event.end - SLACK:
                stack.pop()
            if stack:
                self.found.add((stack[-1].at, event.at, False))
            if event.took:
                stack.append(event)

    def submissions(self):
        """Packet of the driver, doorbell, and the fetch by the CP; on MES, frame and completion."""
        packets, rung = self.of("packet"), self.of("nbio.doorbell")
        rings = self.run.clock.rings
        self.link(packets, rung, lambda p: (rings.get(p.v["ring"]), p.number("wptr")),
                  lambda d: (d.number("index"), d.number("value")))
        self.link(rung, self.of("cp.packet"), lambda d: d.number("index"), self.doorbell_of)
        by_thread = [(self.of("runlist"), self.of("packet")), (self.of("mes_submit"), self.of("packet"))]
        for causes, effects in by_thread:
            for cause in causes:
                at = bisect.bisect_left(effects, cause.at, key=lambda event: event.at)
                # The packet is the next of the same thread.
                same = (e for e in effects[at:at + 16] if e.tid == cause.tid)
                effect = next(same, None)
                if effect and cause.tid:
                    self.found.add((cause.at, effect.at, False))
        op = lambda event: event.v.get("op")  # noqa: E731
        frames = self.of("mes.frame")
        self.link(self.of("mes_submit"), frames, op)
        self.link(frames, self.of("mes.done"), lambda e: (e.v.get("pipe"), op(e)))
        self.link(self.of("mes.done"), self.of("mes_done"), op, ends=True)

    def scheduler(self):
        """From the packet to the queue on the hardware: runlist, MQD, HQD."""
        xcc = lambda event: event.v.get("xcc")  # noqa: E731

        def packets(step, op):
            return [event for event in self.of(step) if event.number("op") == op]
        for op, *steps in ((0xA5, "hws.runlist_packet", "hws.run_list"), (0xA3, "hws.unmap_queues"),
                           (0xA2, "hws.kiq_map"), (0xA0, "hws.set_resources"), (0xA4, "hws.query_status")):
            for step in steps:
                self.link(packets("cp.packet", op), self.of(step), xcc)
        self.link(packets("hws.runlist_packet", 0xA1), self.of("hws.map_process"), xcc)
        self.link(packets("hws.runlist_packet", 0xA2), self.of("hws.map_queues"), xcc)
        self.link(self.of("hws.map_process"), self.of("hws.map_queues", "hws.vmid"), xcc)
        # Each XCC has an MQD of its own behind the one that the packet names.
        bell = lambda event: (xcc(event), event.number("doorbell"))  # noqa: E731
        self.link(self.of("hws.map_queues", "hws.kiq_map"), self.of("cp.queue_start", "hws.sdma_map"), bell)
        self.link(self.of("hws.unmap_queues"), self.of("cp.unmap_start", "hws.unmap_done", "hws.sdma_unmap"), xcc)
        queue = lambda event: (xcc(event), event.v.get("queue"))  # noqa: E731
        self.link(self.of("cp.unmap_start"), self.of("cp.queue_end"), queue)
        doorbell = lambda event: event.number("doorbell")  # noqa: E731
        self.link(self.of("mes.frame"), self.of("mes.queue"), lambda e: e.number("doorbell_offset"), doorbell)
        self.link(self.of("mes.queue"), self.of("mes.mapped"), doorbell)
        self.link(self.of("mes.mapped"), self.of("cp.queue_start", "sdma.queue_start"), doorbell)

    def dispatches(self):
        """From the doorbell of a user queue to the end of the wait."""
        rung = self.of("nbio.doorbell")
        launches = self.of("aql.kernel_dispatch", "cp.dispatch_begin")
        self.link(self.of("packet_written"), self.of("doorbell_rung"), lambda event: event.tid)
        user = {self.doorbell_of(event) for event in launches}
        rung = [event for event in rung if event.number("index") in user]
        value = lambda event: event.number("value")  # noqa: E731
        self.link(self.of("doorbell_rung"), rung, value)
        # ROCr's doorbells are signals: the only store to one at that time.
        stores = self.of("hsa_signal_store*", "hsa_signal_silent_store*")
        for doorbell in rung:
            during = [s for s in stores if s.t - SLACK <= doorbell.t <= s.end]
            if len(during) == 1:
                self.found.add((during[0].at, doorbell.at, False))
        packets = self.of("aql.kernel_dispatch", "aql.barrier", "aql.pm4_ib", "cp.dispatch_begin")
        self.link(rung, packets, lambda event: event.number("index"), self.doorbell_of)
        job = lambda event: event.v.get("job")  # noqa: E731
        self.link(launches, self.of("sq.waves_start"), job)
        ended = {job(event): event for event in self.of("aql.dispatch_end", "cp.dispatch_end")}
        for shares in self.of("sq.waves_start"):
            if shares.took and job(shares) in ended:
                self.found.add((shares.at, ended[job(shares)].at, False))
        queue = lambda event: (event.v.get("xcc"), event.v.get("queue"))  # noqa: E731
        # A packet names its signal; one with PM4 (the vendor's) is logged without it.
        of_job = {job(event): event.v.get("signal") for event in launches}
        named = lambda event: (*queue(event), event.v.get("signal") or of_job.get(job(event)))  # noqa: E731
        signals, cause = self.of("aql.signal"), self.of("aql.dispatch_end", "aql.barrier")
        known = {named(event) for event in cause}
        at = lambda event: (*queue(event), event.v.get("va"))  # noqa: E731
        self.link(cause, signals, named, at)
        # HIP gives its signal to a barrier behind the dispatch.
        self.link(self.of("aql.dispatch_end"), self.of("aql.barrier"), queue)
        self.link(self.of("aql.pm4_ib"), [event for event in signals if at(event) not in known], queue)
        self.link(signals, self.of("aql.mailbox"), queue)

    def copies(self):
        """SDMA: job of the driver or doorbell of a user queue, and its packets."""
        rung = self.of("nbio.doorbell")
        self.link(rung, self.of("sdma.doorbell"), lambda event: event.number("index"))
        engine = lambda event: event.v.get("engine")  # noqa: E731
        queue = lambda event: (engine(event), event.v.get("queue"))  # noqa: E731
        self.link(self.of("sdma.doorbell"), self.of("sdma.packet"), queue)
        # Traced after the packet.
        jobs = [p for p in self.of("packet") if p.v.get("packet") == "job"]
        self.link(jobs, self.of("sdma_job"), lambda event: event.tid or None)

    def interrupts(self):
        """From the unit that raises an interrupt to the wait for it."""
        entries = self.of("ih.entry")
        context = lambda event: ih_key(event.text)[3]  # noqa: E731
        event_id = lambda event: event.number("event")  # noqa: E731
        end_of_pipe = [e for e in entries if e.number("source") == 181]
        self.link(self.of("aql.mailbox"), end_of_pipe, event_id, context)
        traps = [p for p in self.of("sdma.packet") if p.v.get("op") == "TRAP"]
        by_sdma = [e for e in entries if e.number("source") in (49, 224)]
        self.link(traps, by_sdma, lambda p: int(words(p)[-1], 16), context)
        # Faults: the context is the page.
        page = lambda event: event.number("va") >> 12 & 0xFFFFFFFF  # noqa: E731
        faults = [e for e in entries if e.number("source") == 0]
        self.link(self.of("gmc.retry", "gmc.fault"), faults, lambda _: 0)
        self.link(self.of("ih"), self.of("svm:fault"), context, page)
        self.link(self.of("svm:fault"), self.of("svm:m*", "svm:acknowledged"), lambda event: event.tid)
        self.link(entries, self.of("ih.msi"), lambda _: 0)
        handled = self.of("ih")
        self.link(entries, handled, lambda event: ih_key(event.text))
        raised = self.of("event:*")
        signalled = [e for e in raised if e.step == "event:interrupt"]
        self.link(handled, signalled, context, lambda e: e.number("event_id"))
        wakes = self.of("event:wake")
        by_id = lambda event: event.number("event_id")  # noqa: E731
        self.link(signalled, wakes, by_id)
        for wait in self.of("ioctl"):
            if wait.number("nr") != 0x0C:
                continue
            ended = [e for e in wakes if e.tid == wait.tid and wait.t <= e.t <= wait.end + SLACK]
            calls = [self.run.events[cause] for cause, effect, ends in self.found if effect == wait.at and not ends]
            for cause, effect in [(e, wait) for e in ended] + [(wait, call) for call in calls]:
                self.found.add((cause.at, effect.at, True))


def words(event):
    """Returns the hexadecimal words in brackets."""
    match = re.search(r"words=\[([^]]*)\]", event.text)
    return match[1].split(", ") if match else ["0"]


def edges(run):
    return sorted(Edges(run).found)
