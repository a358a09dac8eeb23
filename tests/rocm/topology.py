# SPDX-License-Identifier: GPL-2.0 OR MIT
"""The GPU in the topology of KFD, for programs of OpenCL."""

import glob

NODES = "/sys/class/kfd/kfd/topology/nodes"


def gpu():
    """Returns the properties of the first GPU: name and number."""
    for path in sorted(glob.glob(f"{NODES}/*/properties")):
        with open(path, encoding="ascii") as f:
            values = {name: int(value) for name, value in (line.split() for line in f)}
        if values["simd_count"]:
            return values
    raise RuntimeError("no GPU in the topology")


def compute_units():
    """Returns the number of CUs that OpenCL has."""
    values = gpu()
    return values["simd_count"] // values["simd_per_cu"]


def clock():
    """Returns the highest clock of the CUs in MHz."""
    return gpu()["max_engine_clk_fcompute"]
