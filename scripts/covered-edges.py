#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints how many edges of the module are covered, by folder, and how many source lines with edges.

usage: covered-edges.py [--calls] [--also LINES]... MODULE COVERED [PLACE]
       covered-edges.py --list MODULE COVERED

LINES has source lines that other runs cover, `rust/FILE:NUMBER` each: the output of --list,
which prints those with covered edges, for another build of the module, or lines of tests on the
host. They add a column, and do not count as missed. COVERED has lines `= OFFSET`: the output of
`fuzz-cover --dump`, or logs of scripts/coverage. With --calls, edges that ioctls and other calls of
programs can reach (scripts/callgraph.py) are counted, too. Of PLACE, the beginning of a path below
rust/, two lists follow the table: the lines that are not covered, and the functions none of whose
edges is; with --calls only those in reach. An edge, of scripts/coverage a block, is a call of
__sanitizer_cov_trace_pc() in the section .text; its address is that behind the call. Runs in the
build root.
"""

import argparse
import collections
import os
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
        own = [line for line in lines if "/obj/module-" in line] or lines
        found.append(re.sub(r"^.*?/obj/module-\w+/(\./)?", "", own[0]))
    return found


def folder(position):
    """Returns the folder below rust/, or the crate of the kernel, of a position."""
    path = position.split(":")[0]
    m = re.match(r"rust/(\w+)", path)
    return m[1] if m else "crates of the kernel" if "rust" in path else "C"


def share(hit, total):
    """Returns a number, its total, and the part in percent."""
    return f"{hit:6} of {total:6} {100 * hit / total:5.1f} %"


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("module")
    parser.add_argument("covered")
    parser.add_argument("place", nargs="?")
    options = parser.parse_args()
    calls, module, covered_file = options.calls, options.module, options.covered
    wanted = options.place
    with open(covered_file, encoding="ascii", errors="replace") as f:
        covered = {int(line[2:], 16) for line in f if line.startswith("= 0x")}
    offsets, panics = edges(module)
    unit = "edges" if calls else "blocks"
    if not options.list:
        print(f"{len(panics)} of {len(offsets)} {unit} lead to a panic, and are not counted")
    offsets = [offset for offset in offsets if offset not in panics]
    # Sections behind .text, such as that of the module's exit, do not count.
    covered = {offset for offset in covered if offset <= max(offsets)}
    unknown = covered.difference(offsets, panics)
    if unknown:
        sys.exit(f"{len(unknown)} offsets of {covered_file} are no {unit} of {module}")
    place_of = dict(zip(offsets, positions(module, offsets)))
    reached = {place_of[offset] for offset in place_of.keys() & covered}
    if options.list:
        print("\n".join(sorted(reached)))
        return
    # Cumulative: a column for each source.
    columns = [("source lines with any", reached)]
    for path in options.also:
        with open(path, encoding="utf-8") as f:
            reached = reached | set(f.read().split())
        name = os.path.splitext(os.path.basename(path))[0]
        columns.append((f"or {name}", reached))
    print(" ".join([f"{'':24}", *(f"{name:>23}" for name in (unit, *(c[0] for c in columns)))]))
    rows = collections.defaultdict(list)
    for offset, position in place_of.items():
        rows[folder(position)].append((offset, position))
    for name, found in [*sorted(rows.items()), ("all", place_of.items())]:
        lines = {position for _, position in found}
        hit = sum(offset in covered for offset, _ in found)
        shares = [share(len(lines & column), len(lines)) for _, column in columns]
        print(" ".join([f"{name:24}", share(hit, len(found)), *shares]))
    if not calls and wanted is None:
        return
    graph = callgraph.Graph(module)
    function_of = {offset: graph.function(".text", offset - 1) for offset in offsets}
    within = set(offsets)
    if calls:
        reachable = graph.reachable()
        within = {offset for offset in offsets if function_of[offset] in reachable}
        print(f"{'in reach of programs':24} {share(len(covered & within), len(within))}")
        # As a check of the call graph.
        wrong = collections.Counter(function_of[o] for o in covered & set(offsets) - within)
        for name, count in wrong.most_common():
            print(f"{count:6} covered, but not in reach: {name}")
    if wanted is None:
        return
    for position in sorted(set(place_of.values()) - reached):
        if position.startswith(f"rust/{wanted}"):
            print(position)
    # A function is where most of its edges are: others are inlined.
    entered = {function_of[offset] for offset in covered & set(offsets)}
    others = collections.defaultdict(collections.Counter)
    for offset in within:
        if function_of[offset] not in entered:
            others[function_of[offset]][place_of[offset].split(":")[0]] += 1
    for name, places in sorted(others.items(), key=lambda item: -item[1].total()):
        if places.most_common(1)[0][0].startswith(f"rust/{wanted}"):
            print(f"{places.total():6} {name}")


if __name__ == "__main__":
    main()
