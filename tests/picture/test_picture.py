#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of the picture of a launch, on a short log of two XCCs: clock, arrows, HTML and Perfetto
trace. scripts/browse-picture opens a real one in a browser. And of the table of what tokens take.
"""

import importlib.util
import io
import json
import os
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
sys.path.insert(0, SCRIPTS)
import launch_edges  # noqa: E402
import launch_events  # noqa: E402


def script(name):
    """Imports a script, whose name is not that of a module."""
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), f"{SCRIPTS}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURE, COSTS = script("launch-picture"), script("token-costs")

# Times in us; the guest's clock is 5 s ahead of the GPU's, and a write arrives after 3 us or more.
AHEAD = 5_000_000
GUEST = """
100 user create_queue 900 7 queue=0 doorbell_offset=0x4000
900 kernel ioctl 0 7 pid=7 nr=0x02 ret=0 ns=700000
300 kernel runlist 0 7 gpu_id=1 ib=0xfd000 dwords=28 processes=1 queues=1 oversubscribed=0
310 kernel packet 0 7 gpu_id=1 ring=HIQ packet=RUN_LIST dwords=4 wptr=24
880 kernel queue_step:map 0 7 pid=7 qid=0 step=map ns=600000
1000 user alloc 500 7 kind=vram
1100 kernel packet 0 9 gpu_id=1 ring=sdma0.0 packet=job dwords=22 wptr=128
1110 kernel sdma_job 0 9 gpu_id=1 engine=0 vmid=0 seq=1 ibs=0
1400 kernel ih 0 8 gpu_id=1 node=0 client=8 source=224 ring=0 vmid=0 pasid=0 ctx0=0x1
2000 user packet_written 10 7 index=0 header=0x1502 kernarg=0xaa000 signal=0xbb000
2020 user doorbell_rung 60 7 address=0x7f0000 value=0
2100 user wait_events 900 7 event=2 signal_value=0
2900 kernel ioctl 0 7 pid=7 nr=0x0c ret=0 ns=750000
2700 kernel ih 0 8 gpu_id=1 node=1 client=20 source=181 ring=36 vmid=3 pasid=1 ctx0=0x2
2710 kernel event:interrupt 0 8 pid=7 event_id=2 what=interrupt
2200 kernel ih 0 8 gpu_id=1 node=1 client=27 source=0 ring=24 vmid=3 pasid=1 ctx0=0xf37bc2b9
2210 kernel svm:fault 0 8 pid=7 gpu_id=1 what=fault va=0x7f37bc2b9000 bytes=0x0
2300 kernel svm:migrate_to_vram 0 8 pid=7 gpu_id=1 what=migrate_to_vram va=0x7f37bc2b9000 bytes=0x10000
2800 kernel event:wake 0 7 pid=7 event_id=2 what=wake
"""
QUEUE = "class=Normal format=Aql vmid=3 pasid=1 doorbell=0x1000 mqd"
GPU = f"""
10 cp queue_start xcc=0 queue=2.0.0 class=Hiq format=Pm4 vmid=0 pasid=0 doorbell=0x800 mqd=0x1
10 cp queue_start xcc=1 queue=2.0.0 class=Hiq format=Pm4 vmid=0 pasid=0 doorbell=0x800 mqd=0x2
314 nbio doorbell index=0x800 value=0x18 width=8
320 cp packet xcc=0 queue=2.0.0 op=0xa5 words=[c002a500, fd000, 0, 180001c]
321 cp packet xcc=1 queue=2.0.0 op=0xa5 words=[c002a500, fd000, 0, 180001c]
330 hws runlist_packet xcc=0 op=0xa1 words=[c013a100, 14000001]
331 hws runlist_packet xcc=1 op=0xa1 words=[c013a100, 14000001]
332 hws map_process xcc=0 pasid=1 root=0x2f queues=1
333 hws map_process xcc=1 pasid=1 root=0x2f queues=1
334 hws runlist_packet xcc=0 op=0xa2 words=[c005a200, 20000010]
335 hws runlist_packet xcc=1 op=0xa2 words=[c005a200, 20000010]
336 hws map_queues xcc=0 mqd=0xaf000 wptr=0x7f doorbell=0x1000 engine=0
337 hws map_queues xcc=1 mqd=0xaf000 wptr=0x7f doorbell=0x1000 engine=0
340 cp queue_start xcc=0 queue=1.0.2 {QUEUE}=0xaf000
341 cp queue_start xcc=1 queue=1.0.2 {QUEUE}=0xb3000
1103 nbio doorbell index=0x200 value=0x80 width=8
1104 sdma doorbell engine=0 index=0x200 value=0x80 queue=gfx
1110 sdma packet engine=0 queue=gfx vmid=0 ib=0 op=FENCE words=[5, 41080, 0, 1]
1111 sdma packet engine=0 queue=gfx vmid=0 ib=0 op=TRAP words=[6, 1]
1112 ih entry client=0x8 source=224 ring=0x0 vmid=0 pasid=0 node=0 ctx=[1, 0, 0, 0] wptr=0x0
2026 nbio doorbell index=0x1000 value=0x0 width=8
2040 aql kernel_dispatch xcc=0 queue=1.0.2 pasid=1 vmid=3 packet=0x0 job=1 header=0x1502 grid=[1024, 1, 1] \
workgroup=[256, 1, 1] workgroups=4 kernel=0xcc000 kernarg=0xaa000 signal=0xbb000
2050 sq waves_start job=1 xcc=0 workgroups=2 waves=8 cus=38
2055 sq waves_start job=1 xcc=1 workgroups=2 waves=8 cus=38
2060 gmc retry Gfx hub vmid 3 Read at 0x7f37bc2b9000: NotPresent cid=8
2061 ih entry client=0x1b source=0 ring=0x18 vmid=3 pasid=1 node=1 ctx=[f37bc2b9, c7, 0, 0] wptr=0x40
2070 gmc retry Gfx hub vmid 3 Read at 0x7f37bc2b9000: NotPresent cid=8
2080 gmc retry Gfx hub vmid 3 Read at 0x7f37bc2b9000: NotPresent cid=8
2500 sq waves_end job=1 xcc=1
2510 sq waves_end job=1 xcc=0
2520 aql dispatch_end xcc=0 queue=1.0.2 job=1 packet=0x0
2530 aql signal xcc=0 queue=1.0.2 va=0xbb000 value=0 start=1 end=2
2531 aql mailbox xcc=0 queue=1.0.2 va=0xdd000 event=2
2532 ih entry client=0x14 source=181 ring=0x24 vmid=3 pasid=1 node=1 ctx=[2, 0, 0, 0] wptr=0x20
2540 ih msi vector=0 delivered=1
"""
ARROWS = (
    ("create_queue", "ioctl"), ("ioctl", "queue_step:map"), ("queue_step:map", "runlist"), ("runlist", "packet"),
    ("packet", "nbio.doorbell"), ("nbio.doorbell", "cp.packet"), ("cp.packet", "hws.runlist_packet"),
    ("hws.map_process", "hws.map_queues"), ("hws.map_queues", "cp.queue_start"), ("packet_written", "doorbell_rung"),
    ("doorbell_rung", "nbio.doorbell"), ("nbio.doorbell", "aql.kernel_dispatch"),
    ("aql.kernel_dispatch", "sq.waves_start"), ("sq.waves_start", "aql.dispatch_end"),
    ("aql.dispatch_end", "aql.signal"), ("aql.signal", "aql.mailbox"), ("aql.mailbox", "ih.entry"),
    ("ih.entry", "ih.msi"), ("ih.entry", "ih"), ("ih", "event:interrupt"), ("event:interrupt", "event:wake"),
    ("event:wake", "ioctl"), ("ioctl", "wait_events"), ("nbio.doorbell", "sdma.doorbell"),
    ("sdma.doorbell", "sdma.packet"), ("sdma.packet", "ih.entry"), ("gmc.retry", "ih.entry"), ("ih", "svm:fault"),
    ("svm:fault", "svm:migrate_to_vram"),
)


def logs(folder, guest=GUEST, gpu=GPU):
    """Writes the logs as the guest and the model do; returns their paths."""
    paths = os.path.join(folder, "out.log"), os.path.join(folder, "gpu.trace")
    with open(paths[0], "w", encoding="utf-8") as file:
        for line in guest.strip().splitlines():
            t, layer, step, took, tid, text = line.split(" ", 5)
            file.write(f"rkfd-demo: t={(int(t) + AHEAD) * 1000} layer={layer} step={step} took={int(took) * 1000} "
                       f"tid={tid} {text}\n")
    with open(paths[1], "w", encoding="utf-8") as file:
        for line in gpu.strip().splitlines():
            t, rest = line.split(" ", 1)
            file.write(f"{int(t) * 1000} {rest}\n")
    return paths


class Picture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def read(self, **changed):
        run = launch_events.Run(*logs(self.folder, **changed))
        return run, launch_edges.edges(run)

    def draw(self, **changed):
        """Returns the exit status, HTML, Perfetto trace and messages of the script."""
        html, trace = (os.path.join(self.folder, name) for name in ("x.html", "x.json"))
        errors, before = io.StringIO(), sys.argv
        sys.argv = ["launch-picture.py", "</script> & two XCCs", *logs(self.folder, **changed), html, trace]
        try:
            with redirect_stderr(errors), redirect_stdout(io.StringIO()):
                status = PICTURE.main()
        finally:
            sys.argv = before
        if status:
            return status, None, None, errors.getvalue()
        with open(html, encoding="utf-8") as a, open(trace, encoding="utf-8") as b:
            return status, a.read(), b.read(), ""

    def test_clock_is_bounded_by_doorbells_and_interrupts(self):
        clock = self.read()[0].clock
        ahead = AHEAD * 1000
        # The fastest write took 3 us, an interrupt 139 us; trace points have 1 us.
        self.assertEqual((clock.low - ahead, clock.high - ahead), (-3000, 140_000))
        self.assertEqual((clock.offset - ahead, clock.pairs), (-3000, (2, 3)))
        self.assertEqual(clock.rings, {"HIQ": 0x800, "sdma0.0": 0x200})

    def test_clock_without_the_programs_doorbell(self):
        guest = GUEST.replace("doorbell_rung", "stored")
        run, _ = self.read(guest=guest)
        self.assertEqual(run.clock.offset - AHEAD * 1000, -3000)
        with self.assertRaises(ValueError):
            self.read(guest="1 user open 1 7 fd=3")

    def test_arrows(self):
        run, edges = self.read()
        steps = {(run.events[cause].step, run.events[effect].step) for cause, effect, _ in edges}
        self.assertEqual([arrow for arrow in ARROWS if arrow not in steps], [])
        for cause, effect, ends in edges:
            a, b = run.events[cause], run.events[effect]
            self.assertLessEqual(a.t, (b.end if ends else b.t) + launch_edges.SLACK, f"{a.step} -> {b.step}")

    def test_repeated_accesses_are_one_event(self):
        run, _ = self.read()
        retries = [event for event in run.events if event.step == "gmc.retry"]
        self.assertEqual([(event.took, event.text[-9:]) for event in retries], [(20_000, "(3 times)")])

    def test_each_xcc_has_its_own_arrows(self):
        run, edges = self.read()
        for cause, effect, _ in edges:
            a, b = run.events[cause], run.events[effect]
            if a.step.startswith("hws.") and "xcc" in b.v:
                self.assertEqual(a.v["xcc"], b.v["xcc"], f"{a.step} -> {b.step}")
        for cause, step in (("aql.kernel_dispatch", "sq.waves_start"), ("hws.runlist_packet", "hws.map_queues"),
                            ("hws.map_queues", "cp.queue_start")):
            mine = {effect for at, effect, _ in edges if run.events[at].step == cause}
            self.assertEqual(sum(run.events[at].step == step for at in mine), 2, step)
        waves = [event for event in run.events if event.step == "sq.waves_start"]
        self.assertEqual([event.took for event in waves], [460_000, 445_000])

    def test_page_needs_nothing_else(self):
        _, html, _, _ = self.draw()
        self.assertIsNone(re.search(r"https?:|\b(src|href)=|@import|url\(|\bfetch\(|XMLHttp|import\(", html))
        self.assertEqual(html.count("</script>"), 2)
        data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', html, re.S)[1])
        self.assertEqual(data["title"], "</script> & two XCCs")
        count = len(data["events"])
        self.assertTrue(all(0 <= end < count for a, b, _ in data["edges"] for end in (a, b)))
        self.assertEqual(data["events"][data["doorbell"]][3], "doorbell_rung")
        self.assertEqual([view[0] for view in data["views"]], ["whole run", "create queue", "launch"])
        self.assertEqual(data["expected"], ["aql.kernel_dispatch", "kernarg=0xaa000", "signal=0xbb000"])
        name, start, end, _ = data["views"][2]
        self.assertEqual((start, end), (1_900_000, 2_900_000), name)

    def test_perfetto_flows_end_in_slices(self):
        trace = json.loads(self.draw()[2])["traceEvents"]
        slices = [e for e in trace if e["ph"] == "X"]
        flows = {}
        for e in trace:
            if e["ph"] not in "sf":
                continue
            flows.setdefault(e["id"], {})[e["ph"]] = e
            inside = [s for s in slices if (s["pid"], s["tid"]) == (e["pid"], e["tid"]) and
                      s["ts"] <= e["ts"] <= s["ts"] + s["dur"]]
            self.assertTrue(inside, e)
        self.assertTrue(flows and all(len(pair) == 2 for pair in flows.values()))
        names = {e["args"]["name"] for e in trace if e["name"] == "process_name"}
        self.assertLessEqual({"program", "kernel", "rings", "command processor", "XCCs", "SDMA", "interrupts"}, names)

    def test_perfetto_slices_of_a_thread_nest(self):
        guest = GUEST + "880 kernel queue_step:mqd 0 9 pid=7 qid=0 step=mqd ns=300000\n"
        guest += "950 kernel queue_step:id 0 9 pid=7 qid=0 step=id ns=400000"
        trace = json.loads(self.draw(guest=guest)[2])["traceEvents"]
        slices = [(e["pid"], e["tid"], round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3))
                  for e in trace if e["ph"] == "X"]
        for n, (pid, tid, start, end) in enumerate(slices):
            for other in slices[:n]:
                if other[:2] == (pid, tid):
                    self.assertTrue(other[3] <= start or end <= other[2] or other[2] <= start and end <= other[3] or
                                    start <= other[2] and other[3] <= end, (slices[n], other))

    def test_incomplete_path_is_an_error(self):
        for lost in ("waves_start", "aql signal", "kernel_dispatch"):
            gpu = "\n".join(line for line in GPU.splitlines() if lost not in line)
            status, _, _, errors = self.draw(gpu=gpu)
            self.assertEqual(status, 1, lost)
            self.assertIn("no arrow leads to", errors)


class TokenCosts(unittest.TestCase):
    def costs(self, tokens):
        """Returns the exit status of the script and the rows of its table."""
        copies = [f"{t} sdma packet engine=0 queue={queue} vmid=3 ib=0 op={op} words=[1, ff]\n"
                  for t, queue, op in ((1300, "rlc0", "COPY"), (1310, "gfx", "COPY"), (2600, "rlc1", "COPY"),
                                       (2610, "rlc1", "FENCE"))]
        output, before = io.StringIO(), sys.argv
        with tempfile.TemporaryDirectory() as folder:
            sys.argv = ["token-costs.py", *logs(folder, gpu=GPU + "".join(copies))]
            with open(sys.argv[1], "a", encoding="utf-8") as file:
                file.writelines(f"token {token}: from {(AHEAD + start) * 1000} ns to {(AHEAD + end) * 1000} ns\n"
                                for token, start, end in tokens)
            try:
                with redirect_stdout(output), redirect_stderr(io.StringIO()):
                    status = COSTS.main()
            finally:
                sys.argv = before
        return status, [line.split() for line in output.getvalue().splitlines() if line.strip()]

    def test_events_count_for_the_token_in_whose_time_they_are(self):
        status, rows = self.costs([(7, 1000, 2000), (9, 2000, 3000)])
        self.assertEqual(status, 0)
        self.assertEqual(rows, [["ms", "ioctls", "queues", "launches", "copies"],
                                ["before", "1", "1", "0", "0"],
                                ["token", "7", "1", "0", "0", "0", "1"],
                                ["token", "9", "1", "1", "0", "1", "1"]])

    def test_no_tokens_are_an_error(self):
        self.assertEqual(self.costs([]), (1, []))


if __name__ == "__main__":
    unittest.main()
