# SPDX-License-Identifier: GPL-2.0
"""The call graph of a kernel module, from its symbols, relocations and instructions.

Calls through pointers are not resolved: a function whose address is in data (a table of operations,
a vtable) or is loaded by code may have any caller. A reference to data leads to all functions in
the object there, which ends at the next address that is referenced.
"""

import bisect
import collections
import re
import subprocess

# Entries that no call of the fuzzer's programs leads to: bring-up and removal, power management,
# reset, interrupts, workers, threads of the scheduler, the store of a partition mode, and the
# output of tracepoints. Parts of mangled names.
NOT_BY_CALLS = re.compile(
    r"init_module|cleanup_module|probe_callback|remove_callback|post_unbind|devres"
    r"|10pci_driver|6driverNtB\d+_2Up3new|kapi3irq|WorkItem"
    r"|5Store5store|10store_file|trace_raw_output|__traceiter"
)


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Graph:
    """Functions by name, and the edges between them and objects of data."""

    def __init__(self, module):
        self.edges = collections.defaultdict(set)
        self.pointed = set()
        self._functions = collections.defaultdict(list)
        self._read_symbols(module)
        references = list(self._references(module))
        objects = collections.defaultdict(set)
        for _, _, section, address, _ in references:
            objects[section].add(address)
        self._objects = {section: sorted(found) for section, found in objects.items()}
        for section, offset, target, address, is_call in references:
            source = self.function(section, offset) or self._object(section, offset)
            name = self.function(target, address)
            self.edges[source].add(name or self._object(target, address))
            if name and not is_call:
                self.pointed.add(name)
        for offset, address, is_call in self._local_references(module):
            source, name = self.function(".text", offset), self.function(".text", address)
            if source and name and source != name:
                self.edges[source].add(name)
                if not is_call:
                    self.pointed.add(name)

    def _read_symbols(self, module):
        sections = dict(re.findall(r"^ *\[ *(\d+)\] (\S+)", _output("readelf", "-SW", module), re.M))
        self._symbols = {}
        for line in _output("readelf", "-sW", module).splitlines():
            words = line.split()
            if len(words) != 8 or not words[0][:-1].isdigit() or words[6] not in sections:
                continue
            section, address, size = sections[words[6]], int(words[1], 16), int(words[2], 0)
            self._symbols[words[7]] = section, address
            if words[3] == "FUNC":
                self._functions[section].append((address, address + size, words[7]))
        for found in self._functions.values():
            found.sort()

    def _references(self, module):
        """Yields section and offset of each relocation, what it refers to, and whether it is a
        call."""
        section = None
        for line in _output("readelf", "-rW", module).splitlines():
            words = line.split()
            if line.startswith("Relocation section"):
                section = re.search(r"'\.rela(.*)'", line)[1]
            elif len(words) > 4 and words[2].startswith("R_") and re.search(r"text|data", section) and "debug" not in section:
                addend = int(words[6], 16) * (-1 if words[5] == "-" else 1) if len(words) > 6 else 0
                relative = words[2] in ("R_X86_64_PC32", "R_X86_64_PLT32")
                target, address = self._symbols.get(words[4], (words[4], 0))
                if target.startswith("."):
                    is_call = words[2] == "R_X86_64_PLT32"
                    yield section, int(words[0], 16), target, address + addend + 4 * relative, is_call

    @staticmethod
    def _local_references(module):
        """Yields those within .text that have no relocation."""
        for line in _output("objdump", "-d", "--no-show-raw-insn", "-j", ".text", module).splitlines():
            if m := re.match(r" *([0-9a-f]+):\t(?:call|j\w+) +([0-9a-f]+) <", line):
                yield int(m[1], 16), int(m[2], 16), True
            elif m := re.match(r" *([0-9a-f]+):\tlea .*# ([0-9a-f]+) <", line):
                yield int(m[1], 16), int(m[2], 16), False

    def function(self, section, address):
        """Returns the name of the function at an address, None if there is none."""
        functions = self._functions.get(section, [])
        i = bisect.bisect(functions, address, key=lambda f: f[0]) - 1
        return functions[i][2] if i >= 0 and address < functions[i][1] else None

    def _object(self, section, address):
        objects = self._objects.get(section, [])
        i = bisect.bisect(objects, address) - 1
        return section, objects[i] if i >= 0 else 0

    def reachable(self):
        """Returns the functions that calls of programs can reach, and more, as pointers are not
        resolved."""
        stack = [name for name in self.pointed if not NOT_BY_CALLS.search(name)]
        found = set(stack)
        while stack:
            for node in self.edges[stack.pop()]:
                if node not in found and not NOT_BY_CALLS.search(str(node)):
                    found.add(node)
                    stack.append(node)
        return found
