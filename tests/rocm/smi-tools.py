#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Compares what rocm-smi and amd-smi print with sysfs, value by value.

A value whose file is absent has to be absent or N/A in the output: a driver need not have all of
them, but the tools have to find those that it has. amd-smi 6.1 shows no power, clocks, performance
level and processes, with the C driver of 7.3 neither.
"""

import fcntl
import glob
import json
import os
import re
import struct
import subprocess
import sys

from ktap import Report

MIB = 1 << 20
NODES = "/sys/class/kfd/kfd/topology/nodes"
# AMDKFD_IOC_ACQUIRE_VM and AMDKFD_IOC_ALLOC_MEMORY_OF_GPU (include/uapi/linux/kfd_ioctl.h).
ACQUIRE_VM = 0x40084B15
ALLOC_MEMORY = 0xC0284B16
ALLOC_VRAM = 1 | 1 << 31
ADDRESS, SIZE = 0x100000000000, 48 * MIB
# Values that are not available.
NONE = ("N/A", "n/a", "", "UNKNOWN", "0x0", "None")


def read(path):
    """Returns the text of a file without the end of the line, None without the file."""
    try:
        with open(path, encoding="ascii") as f:
            return f.read().rstrip("\n")
    except OSError:
        return None


def number(path, base=10):
    """Returns the number in a file, None without the file."""
    text = read(path)
    return None if text is None else int(text, base)


def plain(value):
    """Returns a value of the output as text: without unit, None if it is not available."""
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    text = str(value)
    return None if text in NONE else text


def version(text):
    """Returns the numbers of a version, without a leading 0."""
    numbers = [int(part) for part in text.split(".")] if text else []
    return numbers[1:] if numbers[:1] == [0] else numbers


class Tool:
    """A tool, called once for each set of options."""

    def __init__(self, report, *command):
        self.report, self.command = report, command

    def run(self, *options):
        """Returns the JSON that the tool prints, after warnings; {} without any."""
        done = subprocess.run([*self.command, *options, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        start = re.search(r"^[\[{]", done.stdout, re.M)
        what = f"{' '.join([*self.command, *options])}: status {done.returncode}: {done.stdout!r}"
        if not self.report.expect(done.returncode == 0 and (start or not done.stdout), what):
            return {}
        if not start:
            return {}
        try:
            return json.loads(done.stdout[start.start():])
        except ValueError as error:
            self.report.expect(False, f"{what}: {error}")
            return {}


class Card:
    """The GPU in sysfs."""

    def __init__(self):
        paths = glob.glob("/sys/bus/pci/devices/*/mem_info_vram_total")
        self.folder = os.path.dirname(paths[0])
        self.bdf = os.path.basename(self.folder)
        hwmon = glob.glob(f"{self.folder}/hwmon/hwmon*")
        self.hwmon = hwmon[0] if hwmon else "/nowhere"
        self.node = next(path for path in glob.glob(f"{NODES}/*")
                         if number(f"{path}/gpu_id") not in (0, None))
        self.gpu_id = number(f"{self.node}/gpu_id")
        with open(f"{self.node}/properties", encoding="ascii") as f:
            self.properties = dict(line.split() for line in f)

    def text(self, name):
        """Returns the text of a file of the device."""
        return read(f"{self.folder}/{name}")

    def number(self, name, base=10):
        """Returns the number in a file of the device."""
        return number(f"{self.folder}/{name}", base)

    def sensor(self, *names, unit):
        """Returns a sensor in the unit, of the first of the names that there is."""
        for name in names:
            value = number(f"{self.hwmon}/{name}")
            if value is not None:
                return value // unit
        return None

    def firmware(self, name):
        """Returns the version of a firmware."""
        return self.number(f"fw_version/{name}_fw_version", 16)

    def render_node(self):
        """Returns the path of the render node."""
        return f"/dev/dri/renderD{self.properties['drm_render_minor']}"


class Smi:
    """The tests of one card."""

    def __init__(self):
        self.report = Report("smi-tools", 6)
        self.card = Card()
        self.rocm_smi, self.amd_smi = Tool(self.report, "rocm-smi"), Tool(self.report, "amd-smi")
        self.all, self.static, self.metric = {}, {}, {}
        # The output of amd-smi 6.1 is a list.
        self.old = False

    def same(self, what, shown, wanted):
        """Expects a value of the output to be one of sysfs; None is one that there is not."""
        shown, wanted = plain(shown), None if wanted is None else str(wanted)
        self.report.expect(shown == wanted, f"{what} is {shown!r}, in sysfs {wanted!r}")

    def number(self, what, shown, wanted):
        """Expects a number of the output to be that of sysfs, without regard to its form."""
        shown = plain(shown)
        try:
            shown = None if shown is None else float(re.sub(r"[()]|Mhz", "", shown))
        except ValueError:
            pass
        self.report.expect(shown == wanted, f"{what} is {shown!r}, in sysfs {wanted!r}")

    def rocm(self, *options):
        """Returns the values of the card that rocm-smi prints."""
        return self.rocm_smi.run(*options).get("card0", {})

    def amd(self, *command):
        """Returns the values of the card that amd-smi prints."""
        output = self.amd_smi.run(*command)
        if command[0] == "static":
            self.old = isinstance(output, list)
        cards = output.get("gpu_data", []) if isinstance(output, dict) else output
        return cards[0] if cards else {}

    def identity(self):
        """Numbers and names of the card."""
        card = self.card
        unique = card.text("unique_id")
        self.all = self.rocm("-a")
        self.same("Device ID", self.all.get("Device ID"), card.text("device"))
        self.same("GUID", self.all.get("GUID"), card.gpu_id)
        self.same("Unique ID", self.all.get("Unique ID"), unique and f"0x{unique}")
        self.same("PCI Bus", self.all.get("PCI Bus"), card.bdf)
        self.same("VBIOS version", self.all.get("VBIOS version"), card.text("vbios_version"))
        self.static = self.amd("static")
        asic = self.static.get("asic", {})
        self.same("bdf", self.static.get("bus", {}).get("bdf"), card.bdf)
        self.same("device_id", asic.get("device_id"), card.text("device"))
        serial = plain(asic.get("asic_serial"))
        self.same("asic_serial", serial and serial.lower(), unique and f"0x{unique}")
        slot = (card.text("board_info") or "").rpartition(" ")[2]
        # Without gpu_metrics amd-smi shows nothing of the slot.
        if not self.old and os.path.exists(f"{card.folder}/gpu_metrics"):
            self.same("slot_type", self.static.get("bus", {}).get("slot_type"), slot.upper())
        cus = int(card.properties["simd_count"]) // int(card.properties["simd_per_cu"])
        self.number("num_compute_units", asic.get("num_compute_units", cus), cus)
        vbios = self.static.get("ifwi") or self.static.get("vbios", {})
        self.same("part_number", vbios.get("part_number"), card.text("vbios_version"))
        self.report.done("identity")

    def memory(self):
        """Sizes, use and vendor of memory."""
        card = self.card
        shown = self.rocm("--showmeminfo", "vram", "vis_vram", "gtt", "--showmemvendor")
        for kind in ("vram", "vis_vram", "gtt"):
            for what, file in (("", "total"), ("Used ", "used")):
                key = f"{kind.upper()} Total {what}Memory (B)"
                self.number(key, shown.get(key), card.number(f"mem_info_{kind}_{file}"))
        vendor = card.text("mem_info_vram_vendor")
        self.same("memory vendor", shown.get("GPU memory vendor"), vendor)
        self.metric = self.amd("metric")
        usage = self.metric.get("mem_usage", {})
        for kind, file in (("vram", "vram"), ("visible_vram", "vis_vram"), ("gtt", "gtt")):
            for what in ("total", "used"):
                wanted = card.number(f"mem_info_{file}_{what}") // MIB
                self.number(f"{what}_{kind}", usage.get(f"{what}_{kind}"), wanted)
        vram = self.static.get("vram", {})
        shown = plain(vram.get("vendor") or vram.get("vram_vendor"))
        self.same("vendor in amd-smi", shown and shown.lower(), vendor)
        self.report.done("memory")

    def sensors(self):
        """Temperatures, power, clocks, load, limits and the performance level of the idle GPU."""
        card, all_ = self.card, self.all
        junction = card.sensor("temp2_input", unit=1000)
        memory = card.sensor("temp3_input", unit=1000)
        power = card.sensor("power1_input", "power1_average", unit=1000000)
        engine = card.sensor("freq1_input", unit=1000000)
        level = card.text("power_dpm_force_performance_level")
        for kind, wanted in (("junction", junction), ("memory", memory)):
            key = f"Temperature (Sensor {kind}) (C)"
            self.number(key, all_.get(key), wanted)
        shown = [value for key, value in all_.items()
                 if re.fullmatch(r"(Current Socket|Average) Graphics Package Power \(W\)", key)]
        self.number("power", shown[0] if shown else None, power)
        key = "Max Graphics Package Power (W)"
        self.number(key, all_.get(key), card.sensor("power1_cap", unit=1000000))
        self.number("sclk", all_.get("sclk clock speed:"), engine)
        self.number("mclk", all_.get("mclk clock speed:"), card.sensor("freq2_input", unit=1000000))
        self.number("GPU use (%)", all_.get("GPU use (%)"), card.number("gpu_busy_percent"))
        self.same("Performance Level", all_.get("Performance Level"), level)
        shown = self.metric.get("temperature", {})
        self.number("hotspot", shown.get("hotspot"), junction)
        self.number("mem", shown.get("mem"), memory)
        if not self.old:
            self.number("socket_power", self.metric.get("power", {}).get("socket_power"), power)
            self.number("gfx_0", self.metric.get("clock", {}).get("gfx_0", {}).get("clk"), engine)
            shown = plain(self.metric.get("perf_level"))
            self.same("perf_level", shown and shown.rsplit("_", 1)[-1].lower(), level)
        self.report.done("sensors")

    def firmware(self):
        """Versions of firmware."""
        card = self.card
        smu = card.firmware("smc")
        smu = smu and ".".join(f"{smu >> shift & 0xff:02}" for shift in (24, 16, 8, 0))
        for name, file in (("MEC", "mec"), ("RLC", "rlc"), ("SDMA", "sdma")):
            key = f"{name} firmware version"
            self.number(key, self.all.get(key), card.firmware(file))
        self.same("SMC firmware version", self.all.get("SMC firmware version"), smu)
        key, wanted = "SOS firmware version", card.firmware("sos")
        self.same(key, self.all.get(key), wanted and f"0x{wanted:08x}")
        shown = {entry["fw_id"]: entry["fw_version"]
                 for entry in self.amd("firmware").get("fw_list", [])}
        for name, file in (("CP_MEC1", "mec"), ("RLC", "rlc"), ("SDMA0", "sdma")):
            self.number(name, shown.get(name), card.firmware(file))
        shown = version(shown.get("PM"))
        self.report.expect(shown == version(smu), f"PM is {shown}, in sysfs {smu}")
        self.report.done("firmware")

    def partitions(self):
        """Modes of compute and memory partitions."""
        card = self.card
        compute, memory = (card.text(f"current_{kind}_partition") for kind in ("compute", "memory"))
        shown = self.rocm("--showcomputepartition", "--showmemorypartition")
        self.same("Compute Partition", shown.get("Compute Partition"), compute)
        self.same("Memory Partition", shown.get("Memory Partition"), memory)
        self.report.done("partitions")

    def processes(self):
        """A process with memory of the GPU: this one."""
        card = self.card
        kfd = os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC)
        drm = os.open(card.render_node(), os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(kfd, ACQUIRE_VM, struct.pack("=II", drm, card.gpu_id))
        memory = struct.pack("=QQQQII", ADDRESS, SIZE, 0, 0, card.gpu_id, ALLOC_VRAM)
        fcntl.ioctl(kfd, ALLOC_MEMORY, memory)
        used = number(f"/sys/class/kfd/kfd/proc/{os.getpid()}/vram_{card.gpu_id}")
        self.report.expect(used >= SIZE, f"{used} bytes of VRAM in sysfs")
        shown = self.rocm_smi.run("--showpids").get("system", {})
        shown = re.split(r", *", shown.get(f"PID{os.getpid()}", ""))
        self.report.expect(shown[2:3] == [str(used)], f"rocm-smi has {shown}, not {used}")
        if not self.old:
            found = [process.get("process_info", process)
                     for process in self.amd("process").get("process_list", [])]
            found = [plain(process.get("mem_usage")) for process in found
                     if isinstance(process, dict) and process.get("pid") == os.getpid()]
            self.report.expect(found == [str(used)], f"amd-smi has {found}, not {used}")
        os.close(drm)
        os.close(kfd)
        self.report.done("processes")


def main():
    """Runs the tests."""
    smi = Smi()
    for test in (smi.identity, smi.memory, smi.sensors, smi.firmware, smi.partitions,
                 smi.processes):
        test()
    return smi.report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
