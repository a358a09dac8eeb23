#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""OpenCL by pyopencl: its arrays, reductions and scans, and kernels, against results of numpy, and
times of events against the CPU's clock.

The kernels are compiled at run time. Integers and small whole numbers make all results exact.
"""

import glob
import importlib.util
import os
import sys
import time
import warnings

import topology
from ktap import Report

COUNT = 20000

KERNELS = """
kernel void histogram(global const uint *from, uint count, global uint *bins, local uint *mine)
{
    for (uint i = get_local_id(0); i < 64; i += get_local_size(0))
        mine[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_global_id(0); i < count; i += get_global_size(0))
        atomic_inc(&mine[from[i] & 63]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < 64; i += get_local_size(0))
        atomic_add(&bins[i], mine[i]);
}

kernel void product(global const double *a, global const double *b, global double *c, uint n)
{
    local double left[16][16], right[16][16];
    uint x = get_local_id(0), y = get_local_id(1);
    double sum = 0;

    for (uint k = 0; k < n; k += 16) {
        left[y][x] = a[get_global_id(1) * n + k + x];
        right[y][x] = b[(k + y) * n + get_global_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < 16; i++)
            sum += left[y][i] * right[i][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[get_global_id(1) * n + get_global_id(0)] = sum;
}

kernel void collatz(global const uint *from, global uint *steps)
{
    uint n = from[get_global_id(0)], count = 0;

    for (; n != 1; count++)
        n = n & 1 ? 3 * n + 1 : n / 2;
    steps[get_global_id(0)] = count;
}
"""


def bytecode(module):
    """Returns (number of modules with bytecode, those whose bytecode is not used)."""
    folder = os.path.dirname(importlib.util.find_spec(module).origin)
    found, stale = 0, []
    for path in glob.glob(f"{folder}/*.py"):
        cached = importlib.util.cache_from_source(path)
        if not os.path.exists(cached):
            continue
        found += 1
        with open(cached, "rb") as f:
            head = f.read(16)
        # Bit 0: validated by a hash instead of the time and size of the source.
        if head[4] & 1:
            continue
        status = os.stat(path)
        wanted = (int(status.st_mtime) & 0xffffffff, status.st_size & 0xffffffff)
        if (int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")) != wanted:
            stale.append(path)
    return found, stale


class Tests:
    """The tests, of which those after `start` use its queue."""

    def __init__(self):
        self.report = Report("opencl-python", 9)

    def expect(self, right, text):
        """Fails the current test unless `right`."""
        return self.report.expect(bool(right), text)

    def same(self, shown, wanted, what):
        """Fails the current test unless both arrays are equal."""
        wrong = np.flatnonzero(np.asarray(shown).ravel() != np.asarray(wanted).ravel())
        self.expect(len(wrong) == 0, f"{what}: {len(wrong)} elements differ, first {wrong[:1]}")

    def imports(self):
        """Modules are loaded from the bytecode of their packages: otherwise Python compiles them in
        each boot, 40 s under emulation."""
        for module in ("numpy", "pytools", "pyopencl"):
            found, stale = bytecode(module)
            self.expect(found, f"{module} has no bytecode")
            self.expect(not stale, f"{module}: bytecode of {len(stale)} modules is not current")
        self.report.done("bytecode_is_current")

    def start(self):
        """The device has the properties of the topology."""
        self.device = cl.get_platforms()[0].get_devices(cl.device_type.GPU)[0]
        device = self.device
        self.expect(device.name.startswith("gfx"), f"the device is {device.name}")
        shown, wanted = device.max_compute_units, topology.compute_units()
        self.expect(shown == wanted, f"{shown} compute units, {wanted} in the topology")
        shown, wanted = device.max_clock_frequency, topology.clock()
        self.expect(shown == wanted, f"{shown} MHz, {wanted} in the topology")
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(
            self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.program = cl.Program(self.context, KERNELS).build()
        self.report.done("device_is_that_of_the_topology")

    def arrays(self):
        """Arithmetic of arrays, on the GPU and back."""
        a = np.arange(COUNT, dtype=np.int32)
        b = (a * 7919) % 10007
        on_a, on_b = cl_array.to_device(self.queue, a), cl_array.to_device(self.queue, b)
        self.same((on_a + 3 * on_b).get(), a + 3 * b, "a + 3b")
        self.same((on_a * on_b).get(), a * b, "ab")
        self.report.done("arrays")

    def sums(self):
        """Reductions."""
        a = (np.arange(COUNT, dtype=np.int64) * 7919) % 10007
        on_a = cl_array.to_device(self.queue, a)
        self.same(cl_array.sum(on_a).get(), a.sum(), "sum")
        self.same(cl_array.max(on_a).get(), a.max(), "max")
        self.report.done("reductions")

    def scans(self):
        """Prefix sums."""
        a = ((np.arange(COUNT, dtype=np.int64) * 7919) % 10007).astype(np.int32)
        on_a = cl_array.to_device(self.queue, a)
        add = InclusiveScanKernel(self.context, np.int32, "a + b", neutral="0")
        add(on_a, queue=self.queue)
        self.same(on_a.get(), np.cumsum(a, dtype=np.int32), "prefix sums")
        self.report.done("scan")

    def histogram(self):
        """Atomics in local and in global memory."""
        a = ((np.arange(COUNT, dtype=np.uint64) * 2654435761) >> 7).astype(np.uint32)
        on_a, bins = cl_array.to_device(self.queue, a), cl_array.zeros(self.queue, 64, np.uint32)
        self.program.histogram(self.queue, (16 * 256,), (256,), on_a.data, np.uint32(COUNT),
                               bins.data, cl.LocalMemory(64 * 4))
        self.same(bins.get(), np.bincount(a & 63, minlength=64), "histogram")
        self.report.done("histogram")

    def product(self):
        """A product of matrices of doubles."""
        n = 64
        a = (np.arange(n * n, dtype=np.float64) % 97).reshape(n, n)
        b = (np.arange(n * n, dtype=np.float64) % 89).reshape(n, n)
        on_a, on_b = cl_array.to_device(self.queue, a), cl_array.to_device(self.queue, b)
        c = cl_array.empty_like(on_a)
        self.program.product(self.queue, (n, n), (16, 16), on_a.data, on_b.data, c.data,
                             np.uint32(n))
        self.same(c.get(), a @ b, "product")
        self.report.done("product_of_doubles")

    def shared(self):
        """Coarse-grained shared virtual memory."""
        a = np.arange(1, 4097, dtype=np.uint32)
        memory = cl.SVM(cl.csvm_empty(self.context, len(a), np.uint32))
        with memory.map_rw(self.queue) as mapped:
            mapped[:] = a
        steps = cl_array.zeros(self.queue, len(a), np.uint32)
        self.program.collatz(self.queue, a.shape, (64,), memory, steps.data)
        wanted = []
        for n in range(1, len(a) + 1):
            count = 0
            while n != 1:
                n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
            wanted.append(count)
        self.same(steps.get(), wanted, "steps")
        self.report.done("shared_memory")

    def profile(self):
        """Times of events are in order, and no longer than the CPU's time."""
        a = np.full(COUNT, 837799, dtype=np.uint32)
        on_a, steps = cl_array.to_device(self.queue, a), cl_array.zeros(self.queue, COUNT, np.uint32)
        self.queue.finish()
        start, events = time.monotonic_ns(), []
        for _ in range(4):
            events.append(self.program.collatz(self.queue, a.shape, None, on_a.data, steps.data))
        self.queue.finish()
        passed = time.monotonic_ns() - start
        self.same(steps.get(), np.full(COUNT, 524), "steps")
        times = [(e.profile.queued, e.profile.submit, e.profile.start, e.profile.end)
                 for e in events]
        for i, one in enumerate(times):
            self.expect(list(one) == sorted(one) and one[2] < one[3], f"times {i} are {one}")
            self.expect(not i or times[i - 1][3] <= one[2], f"kernel {i} overlaps that before it")
        ran = sum(end - begin for *_, begin, end in times)
        self.expect(passed / 50 < ran <= passed, f"kernels ran {ran} ns in {passed} ns")
        self.report.done("profile")


def main():
    """Runs the tests. pyopencl and numpy are imported by the second one."""
    # pylint: disable=global-statement,import-outside-toplevel
    global np, cl, cl_array, InclusiveScanKernel
    tests = Tests()
    tests.imports()
    # Of generated code that is generated again.
    warnings.filterwarnings("ignore", module="pytools")
    import numpy as np
    import pyopencl as cl
    import pyopencl.array as cl_array
    from pyopencl.scan import InclusiveScanKernel
    for test in (tests.start, tests.arrays, tests.sums, tests.scans, tests.histogram,
                 tests.product, tests.shared, tests.profile):
        test()
    return tests.report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
