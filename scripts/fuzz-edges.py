#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints how many edges of the module the fuzzer has covered, by source file.

usage: fuzz-edges.py MODULE COVERED [FOLDER]

COVERED holds the output of `fuzz-cover --dump`. Of FOLDER, two lists follow the table: the lines
that are not covered, and the functions that programs can call (scripts/callgraph.py) but did not.
An edge is a call of KCOV in the section .text; its address is that behind the call. Runs in the
build root.
"""

import collections
import re
import subprocess
import sys

import callgraph

# Functions that end in a panic: edges to them are checks that never fail.
PANIC = re.compile(r"panic|_fail(ed)?\b|_fail(ed)?[EhR]|bounds|handle_error|handle_alloc")
# Bytes between the call of KCOV and that of the panic.
BLOCK = 64


def edges(module):
    """Returns the offsets of all edges in the module's text, and of those that lead to a panic."""
    text = False
    calls = []
    listing = subprocess.run(
        ["readelf", "-rW", module], capture_output=True, text=True, check=True
    ).stdout
    for line in listing.splitlines():
        words = line.split()
        if line.startswith("Relocation section"):
            text = "'.rela.text'" in line
        elif text and len(words) > 4 and words[2] == "R_X86_64_PLT32":
            calls.append((int(words[0], 16) + 4, words[4]))
    calls.sort()
    found, panics = [], set()
    for (offset, name), (following, target) in zip(calls, calls[1:] + [(0, "")]):
        if name != "__sanitizer_cov_trace_pc":
            continue
        found.append(offset)
        if PANIC.search(target) and following - offset < BLOCK:
            panics.add(offset)
    return found, panics


def positions(module, offsets):
    """Returns the source line of each offset: the innermost one in the module's own sources, as
    functions of the kernel's crates are inlined."""
    result = subprocess.run(
        ["addr2line", "-a", "-i", "-j", ".text", "-e", module],
        input="\n".join(f"{offset - 1:#x}" for offset in offsets),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = []
    for frames in re.split(r"^0x[0-9a-f]+\n", result, flags=re.MULTILINE)[1:]:
        lines = [line.split(" ")[0] for line in frames.splitlines()]
        own = [line for line in lines if "/obj/" in line] or lines
        found.append(re.sub(r"^.*?/obj/(\./)?", "", own[0]))
    return found


def folder(position):
    """Returns the folder below rust/, or the crate of the kernel, of a position."""
    path = position.split(":")[0]
    m = re.match(r"rust/(\w+)", path)
    return m[1] if m else "crates of the kernel" if "rust" in path else "C"


def main():
    module, covered_file = sys.argv[1:3]
    wanted = sys.argv[3] if len(sys.argv) > 3 else None
    with open(covered_file, encoding="ascii", errors="replace") as f:
        covered = {int(line[2:], 16) for line in f if line.startswith("= 0x")}
    offsets, panics = edges(module)
    print(f"{len(panics)} of {len(offsets)} edges lead to a panic, and are not counted")
    offsets = [offset for offset in offsets if offset not in panics]
    graph = callgraph.Graph(module)
    reachable = graph.reachable()
    function_of = {offset: graph.function(".text", offset - 1) for offset in offsets}
    table = collections.defaultdict(lambda: [0, 0])
    missed = collections.Counter()
    for offset, position in zip(offsets, positions(module, offsets)):
        row = table[folder(position)]
        row[1] += 1
        if offset in covered:
            row[0] += 1
        else:
            missed[position] += 1
    for name, (hit, total) in sorted(table.items()):
        print(f"{name:24} {hit:6} of {total:6} {100 * hit / total:5.1f} %")
    hit = len(covered & set(offsets))
    print(f"{'all':24} {hit:6} of {len(offsets):6} {100 * hit / len(offsets):5.1f} %")
    within = {offset for offset in offsets if function_of[offset] in reachable}
    hit = len(covered & within)
    print(f"{'in reach of programs':24} {hit:6} of {len(within):6} {100 * hit / len(within):5.1f} %")
    # As a check of the call graph.
    wrong = collections.Counter(function_of[o] for o in covered & set(offsets) - within)
    for name, count in wrong.most_common():
        print(f"{count:6} covered, but not in reach: {name}")
    if not wanted:
        return
    for position in sorted(missed):
        if position.startswith(f"rust/{wanted}"):
            print(position)
    entered = {function_of[offset] for offset in covered & set(offsets)}
    others = collections.Counter(function_of[offset] for offset in within)
    for name, count in others.most_common():
        if name not in entered and wanted in name:
            print(f"{count:6} {name}")


if __name__ == "__main__":
    main()
