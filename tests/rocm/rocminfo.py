#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Compares the output of rocminfo with sysfs, value by value; its exit status is meaningless.

The program `agents` prints what rocminfo leaves out (links, each cache).
"""

import glob
import re
import subprocess
import sys

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
LINK_PCIE = 2
NO_ATOMICS_32, NO_ATOMICS_64 = 4, 8
CACHE_OF_CUS = 8
# By name and number of XCCs: marketing name, number of CUs. libdrm has one name for all devices
# that it does not know.
GPUS = {
    ("gfx942", 1): ("AMD Instinct MI300X", 38),
    ("gfx942", 4): ("AMD Instinct MI308X", 80),
    ("gfx942", 8): ("AMD Instinct MI300X", 304),
    ("gfx1201", 1): ("AMD Radeon RX 9070", 56),
}
# Target features of the ISA name.
FEATURES = {"gfx942": ":sramecc-:xnack-", "gfx1201": ""}
COLORS = re.compile(r"\x1b\[[0-9;]*m")
# Heap type of VRAM: public with a large BAR, else private.
HEAP_SYSTEM, HEAP_PUBLIC, HEAP_PRIVATE = 0, 1, 2


class Report:
    """KTAP report."""

    def __init__(self):
        self.lines, self.wrong, self.failed = [], [], False

    def equal(self, what, here, wanted):
        if here != wanted:
            self.wrong.append(f"{what} is {here!r}, expected {wanted!r}")

    def done(self, name):
        self.lines += [f"# failed: {text}" for text in self.wrong]
        number = sum(not line.startswith("#") for line in self.lines) + 1
        self.lines.append(f"{'not ok' if self.wrong else 'ok'} {number} rocminfo.{name}")
        self.failed |= bool(self.wrong)
        self.wrong = []

    def show(self):
        print("KTAP version 1")
        print(f"1..{sum(not line.startswith('#') for line in self.lines)}")
        print("\n".join(self.lines))


def properties(path):
    """Returns the decimal values of a properties file, without lists."""
    with open(path) as f:
        return {key: int(value) for key, value in (line.split() for line in f) if value.isdigit()}


def folder(node, kind):
    """Returns the memory banks, caches or links of a node."""
    paths = glob.glob(f"{NODES}/{node}/{kind}/*/properties")
    return [properties(path) for path in sorted(paths, key=lambda path: int(path.split("/")[-2]))]


def number(text):
    """Returns the first number of a value: `38`, `29857(0x74a1)`, `8388608(0x800000) KB`."""
    match = re.match(r"\d+", text)
    return int(match[0]) if match else None


class Agent:
    """An agent in the output of rocminfo: values, pools, ISA names."""

    def __init__(self, text):
        head, _, rest = text.partition("Pool Info:")
        pools, _, isas = rest.partition("ISA Info:")
        self.values = self.pairs(head)
        self.pools = [self.pairs(pool) for pool in re.split(r"\n\s*Pool \d+\s*\n", pools)[1:]]
        self.isas = re.findall(r"Name:\s+(\S+)", isas)

    @staticmethod
    def pairs(text):
        found = re.findall(r"^\s*([^:\n]+):+ *(.*?)\s*$", text, re.M)
        return {key.strip(" :"): value.strip() for key, value in found}

    def __getitem__(self, key):
        return self.values.get(key, "")

    def caches(self):
        return {level: number(self[f"L{level}"]) for level in range(1, 5) if self[f"L{level}"]}

    def pool_sizes(self, segment):
        return {number(pool["Size"]) for pool in self.pools if pool["Segment"].startswith(segment)}


def check_cpu(report, agent, node):
    node_properties = properties(f"{NODES}/{node}/properties")
    report.equal("Device Type", agent["Device Type"], "CPU")
    report.equal("Internal Node ID", number(agent["Internal Node ID"]), node)
    report.equal("Compute Unit", number(agent["Compute Unit"]), node_properties["cpu_cores_count"])
    size = sum(bank["size_in_bytes"] for bank in folder(node, "mem_banks"))
    report.equal("pool sizes in KiB", agent.pool_sizes("GLOBAL"), {size // 1024})
    kinds = " ".join(pool["Segment"] for pool in agent.pools)
    for kind in ("FINE GRAINED", "COARSE GRAINED", "KERNARG"):
        report.equal(f"a {kind} pool", kind in kinds, True)
    report.done("cpu")


def check_gpu(report, agent, node):
    p = properties(f"{NODES}/{node}/properties")
    version = p["gfx_target_version"]
    name = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    report.equal("a modelled GPU", (name, p["num_xcc"]) in GPUS, True)
    marketing_name, cus = GPUS[name, p["num_xcc"]]
    with open("/usr/share/libdrm/amdgpu.ids", encoding="utf-8") as f:
        if marketing_name not in f.read():
            marketing_name = "AMD Radeon Graphics"
    report.equal("Name", agent["Name"], name)
    report.equal("Marketing Name", agent["Marketing Name"], marketing_name)
    report.equal("number of CUs", p["simd_count"] // p["simd_per_cu"], cus)
    values = {
        "Internal Node ID": node,
        "Compute Unit": p["simd_count"] // p["simd_per_cu"],
        "SIMDs per CU": p["simd_per_cu"],
        "Shader Engines": p["array_count"] // p["simd_arrays_per_engine"],
        "Shader Arrs. per Eng.": p["simd_arrays_per_engine"],
        "Max Waves Per CU": p["simd_per_cu"] * p["max_waves_per_simd"],
        "Wavefront Size": p["wave_front_size"],
        "Chip ID": p["device_id"],
        "BDFID": p["location_id"],
        "Max Clock Freq. (MHz)": p["max_engine_clk_fcompute"],
        "Packet Processor uCode": p["fw_version"] & 0x3FF,
        "SDMA engine uCode": p["sdma_fw_version"] & 0x3FF,
    }
    for key, value in values.items():
        report.equal(key, number(agent[key]), value)
    report.equal("Features", agent["Features"], "KERNEL_DISPATCH")
    report.equal("Device Type", agent["Device Type"], "GPU")
    report.done("gpu")

    banks = folder(node, "mem_banks")
    heaps = {bank["heap_type"] for bank in banks}
    report.equal("heap type", heaps <= {HEAP_PUBLIC, HEAP_PRIVATE}, True)
    size = sum(bank["size_in_bytes"] for bank in banks)
    report.equal("VRAM pools in KiB", agent.pool_sizes("GLOBAL"), {size // 1024})
    report.equal("pool of LDS in KiB", agent.pool_sizes("GROUP"), {p["lds_size_in_kb"]})
    report.done("pools")

    caches = [cache for cache in folder(node, "caches")
              if cache["type"] & CACHE_OF_CUS and cache["type"] & 1]
    report.equal("caches_count", len(folder(node, "caches")), p["caches_count"])
    report.equal("cache levels", set(agent.caches()), {cache["level"] for cache in caches})
    for level, size in agent.caches().items():
        sizes = {cache["size"] for cache in caches if cache["level"] == level}
        report.equal(f"size of L{level} in sysfs", size in sizes, True)
    lines = {cache["cache_line_size"] for cache in caches if cache["level"] == 2}
    report.equal("Cacheline Size", {number(agent["Cacheline Size"])}, lines)
    report.done("caches")

    report.equal("instruction sets", agent.isas[0], f"amdgcn-amd-amdhsa--{name}{FEATURES[name]}")
    report.done("isa")


def check_links(report, cpu, gpu):
    output = subprocess.run(["agents"], stdout=subprocess.PIPE, text=True).stdout
    links = [dict(re.findall(r"(\w+)=(\d+)", line)) for line in output.splitlines()
             if line.startswith("link ")]
    for source, target in ((cpu, gpu), (gpu, cpu)):
        told = [link for link in folder(source, "io_links") if link["node_to"] == target]
        seen = [link for link in links if (int(link["from"]), int(link["to"])) == (source, target)]
        report.equal(f"links in sysfs from {source} to {target}", len(told), 1)
        report.equal(f"pool links in HSA from {source} to {target}", bool(seen), True)
        for link in seen if told else []:
            wanted = {"hops": 1, "type": LINK_PCIE, "distance": told[0]["weight"],
                      "atomic32": int(not told[0]["flags"] & NO_ATOMICS_32),
                      "atomic64": int(not told[0]["flags"] & NO_ATOMICS_64)}
            here = {key: int(link[key]) for key in wanted}
            report.equal(f"link from {source} to {target}", here, wanted)
    report.done("links")


def main():
    report = Report()
    output = subprocess.run(["rocminfo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True).stdout
    output = COLORS.sub("", output)
    report.equal("last line", output.rstrip().rsplit("\n", 1)[-1].strip(), "*** Done ***")
    agents = [Agent(text) for text in re.split(r"\*+\s*\nAgent \d+\s*\n\*+\s*\n", output)[1:]]
    report.equal("number of agents", len(agents), len(glob.glob(NODES + "/*")))
    report.done("output_is_complete")
    if not report.failed:
        gpu = next(i for i, agent in enumerate(agents) if agent["Device Type"] == "GPU")
        check_cpu(report, agents[0], 0)
        check_gpu(report, agents[gpu], gpu)
        check_links(report, 0, gpu)
    if report.failed:
        report.lines += [f"# {line}" for line in output.splitlines()]
    report.show()
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
