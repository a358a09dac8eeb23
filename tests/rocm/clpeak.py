#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""clpeak on a GPU whose largest buffer is small.

clpeak derives its sizes from the largest buffer that the device allows, up to 2 GiB, and from the
number of CUs: with the defaults one launch has 33 million work-items. Two variables of ROCm's
OpenCL lower that limit. clpeak does not check what its kernels compute: the tests check its times,
by events and by the CPU's clock.
"""

import os
import subprocess
import sys
from xml.etree import ElementTree

import topology
from ktap import Report

# Percent of VRAM for buffers: those of the bandwidths need more. A buffer has one percent of it.
HEAP_OF_BANDWIDTHS, HEAP_OF_COMPUTE = 10, 2
RESULTS = "/tmp/clpeak.xml"
# Most by which a kernel may be slower and faster by events than by the CPU's clock, in two runs:
# the load of the host differs, and the CPU's time has the latency of a launch, too.
SLOWER, FASTER = 8, 64
WIDTHS = ("", "2", "4", "8", "16")
# Sections of the results: name, results.
KERNELS = (
    ("global_memory_bandwidth", [f"float{n}" for n in WIDTHS]),
    ("single_precision_compute", [f"float{n}" for n in WIDTHS]),
    ("double_precision_compute", [f"double{n}" for n in WIDTHS]),
    ("integer_compute", [f"int{n}" for n in WIDTHS]),
)
COMPUTE = ("--compute-sp", "--compute-dp", "--compute-integer")
TRANSFERS = ("enqueuewritebuffer", "enqueuereadbuffer", "enqueuewritebuffer_nonblocking",
             "enqueuereadbuffer_nonblocking", "enqueuemapbuffer", "memcpy_from_mapped_ptr",
             "enqueueunmap", "memcpy_to_mapped_ptr")


def run(heap, *options):
    """Runs clpeak; returns its results for the device by section, and the device."""
    limits = {"GPU_MAX_HEAP_SIZE": str(heap), "GPU_SINGLE_ALLOC_PERCENT": "1"}
    command = ["clpeak", "-i", "1", *options, "--enable-xml-dump", "-f", RESULTS]
    subprocess.run(command, env={**os.environ, **limits}, check=True)
    device = ElementTree.parse(RESULTS).find("platform/device")
    sections = {section.tag: {result.tag: float(result.text) for result in section}
                for section in device}
    return sections, device


class Tests:
    """The tests, on the results of four runs, of which the first compiles the kernels: ROCm's
    compiler keeps its products."""

    def __init__(self):
        self.report = Report("clpeak", 4)
        self.by_cpu, self.card = run(HEAP_OF_BANDWIDTHS, "--global-bandwidth",
                                     "--transfer-bandwidth")
        self.by_cpu.update(run(HEAP_OF_COMPUTE, *COMPUTE)[0])
        by_events = ("--use-event-timer",)
        self.by_events = run(HEAP_OF_BANDWIDTHS, *by_events, "--global-bandwidth")[0]
        self.by_events.update(run(HEAP_OF_COMPUTE, *by_events, *COMPUTE)[0])

    def device(self):
        """The device has the properties of the topology."""
        for name, wanted in (("compute_units", topology.compute_units()),
                             ("clock_frequency", topology.clock())):
            shown = self.card.get(name)
            self.report.expect(shown == str(wanted), f"{name} is {shown}, {wanted} in the topology")
        self.report.done("device_is_that_of_the_topology")

    def positive(self, section, names):
        """Fails the current test unless the section has these results, all positive."""
        shown = self.by_cpu.get(section, {})
        for name in names:
            value = shown.get(name, 0)
            self.report.expect(value > 0, f"{section}: {name} is {value}")

    def kernels(self):
        """Each kernel has a result."""
        for section, names in KERNELS:
            self.positive(section, names)
        self.report.done("kernels")

    def transfers(self):
        """Each kind of transfer has a result."""
        self.positive("transfer_bandwidth", TRANSFERS)
        self.report.done("transfers")

    def events(self):
        """Times of events agree with those by the CPU's clock."""
        for section, names in KERNELS:
            for name in names:
                cpu = self.by_cpu.get(section, {}).get(name, 0)
                gpu = self.by_events.get(section, {}).get(name, 0)
                self.report.expect(cpu / SLOWER < gpu < cpu * FASTER,
                                   f"{section}: {name} is {gpu} by events, {cpu} by the CPU")
        self.report.done("times_of_events")


def main():
    """Runs the tests."""
    tests = Tests()
    for test in (tests.device, tests.kernels, tests.transfers, tests.events):
        test()
    return tests.report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
