#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Compares the results of a boot with tests/vm/outcomes, which lists every test of every boot and
# whether it passes or is skipped, or writes them there.
#
# usage: outcomes.py compare BOOT LOG    prints deviations, then `= PASSED FAILED SKIPPED`
#        outcomes.py record BOOT LOG     replaces the boot's part of the list
#        outcomes.py lint                checks the list against the boots and `differ`, and that
#                                        Documentation/testing.rst has each boot, "Boots"
#        outcomes.py totals              prints the numbers of skipped tests
#
# LOG is the KTAP output of the boot, or does not exist. Every deviation counts as a failure: a
# listed test without a result, a result that is not listed, a test that passes and should be
# skipped or the reverse. A test that fails is recorded as one that should pass. The results of a
# boot without a list are counted as they are, with a note.

import collections
import fnmatch
import os
import re
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests")
LIST = os.path.join(TESTS, "vm/outcomes")
DOCUMENT = "Documentation/testing.rst"
SHOWN = 20
PASS, SKIP, FAIL = "passed", "skipped", "failed"
# Tests of `init` by the kernel's suffix of the boot's name.
KERNEL_TESTS = {
    "-debug": ["lockdep_is_on", "no_dma_api_error", "no_leak", "no_report_in_the_log"],
    "-kasan": ["kasan_is_on", "no_report_in_the_log"],
}
HEAD = """\
# SPDX-License-Identifier: GPL-2.0
#
# The tests of the boots of vm/boots and vm/boots-amdgpu: BOOT... | PROGRAM | TEST...
#
# A test passes, or is skipped where its name has a `-` in front; `.` is a program without tests of
# its own. A boot with KERNEL=debug or kasan has the tests of the stock kernel, those of `init`, and
# those listed for itself; a boot named long-* those of the one without. Written by `scripts/check
# --record`.

"""


def results(path):
    """Returns the (program, test, outcome) of each result line."""
    try:
        with open(path, "rb") as f:
            text = f.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines():
        m = re.match(r"(not )?ok \d+ (\S+)(?: # (SKIP))?", line)
        if m:
            program, _, test = m[2].partition(".")
            found.append((program, test or ".", FAIL if m[1] else SKIP if m[3] else PASS))
    return found


def read_list():
    """Returns {boot: {program: [test or -test]}}."""
    boots = collections.defaultdict(dict)
    try:
        with open(LIST, encoding="utf-8") as f:
            lines = f.readlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        names, program, tests = (part.split() for part in line.split("|"))
        for name in names:
            boots[name][program[0]] = tests
    return boots


def write_list(boots):
    groups = collections.defaultdict(list)
    for boot, programs in boots.items():
        for program, tests in programs.items():
            groups[program, tuple(tests)].append(boot)
    rows = sorted((program, sorted(names), tests) for (program, tests), names in groups.items())
    with open(LIST + ".new", "w", encoding="utf-8") as f:
        f.write(HEAD)
        for program, names, tests in rows:
            f.write(f"{' '.join(names)} | {program} | {' '.join(tests)}\n")
    os.replace(LIST + ".new", LIST)


def base_of(boot):
    """Returns the boot whose tests this one has, or None."""
    if boot.endswith("-kasan"):
        # The configuration of the debug kernel, but for what costs most of its time.
        return boot.removesuffix("-kasan") + "-debug"
    if boot.endswith("-debug"):
        return boot.removesuffix("-debug")
    if boot.startswith("long-"):
        return boot[len("long-"):]
    return None


def expected(boots, boot):
    base = base_of(boot)
    programs = dict(expected(boots, base)) if base else {}
    for kernel, tests in KERNEL_TESTS.items():
        if boot.endswith(kernel):
            programs["kernel"] = tests
    return {**programs, **boots.get(boot, {})}


def compare(boot, log):
    listed = collections.defaultdict(list)
    for program, tests in expected(read_list(), boot).items():
        for test in tests:
            skipped = test.startswith("-")
            listed[program, test.removeprefix("-")].append(SKIP if skipped else PASS)
    count = collections.Counter()
    deviations = []
    if not listed:
        count.update(outcome for _, _, outcome in results(log))
        print(f"# tests/vm/outcomes has no list of {boot}")
        print("=", count[PASS], count[FAIL], count[SKIP])
        return
    for program, test, outcome in results(log):
        name = program if test == "." else f"{program}.{test}"
        wanted = listed.get((program, test))
        if not wanted:
            deviations.append(f"{name} {outcome}, and is not listed")
            count[FAIL] += 1
            continue
        if outcome in wanted or outcome == FAIL:
            # The output of the test shows a failure.
            wanted.remove(outcome if outcome in wanted else wanted[0])
            count[outcome] += 1
        else:
            deviations.append(f"{name} {outcome}, listed as {wanted.pop(0)}")
            count[FAIL] += 1
    for (program, test), wanted in listed.items():
        name = program if test == "." else f"{program}.{test}"
        for outcome in wanted:
            deviations.append(f"{name} did not run, listed as {outcome}")
            count[FAIL] += 1
    for text in deviations[:SHOWN]:
        print(f"not ok outcome of {boot}: {text}")
    if len(deviations) > SHOWN:
        print(f"# and {len(deviations) - SHOWN} further deviations from tests/vm/outcomes")
    print("=", count[PASS], count[FAIL], count[SKIP])


def record(boot, log):
    boots = read_list()
    programs = {}
    for program, test, outcome in results(log):
        if outcome == FAIL:
            print(f"# {program}.{test} of {boot} failed, and is recorded as one that should pass")
        programs.setdefault(program, []).append("-" + test if outcome == SKIP else test)
    boots.pop(boot, None)
    base = base_of(boot)
    if base:
        inherited = expected(boots, boot)
        programs = {p: tests for p, tests in programs.items() if inherited.get(p) != tests}
    if programs:
        boots[boot] = programs
    write_list(boots)


def lines_of(path):
    with open(os.path.join(TESTS, path), encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip() and not line.startswith("#")]


def documented():
    """Returns the boots of DOCUMENT: the terms of the definition list in its section "Boots"."""
    with open(os.path.join(TESTS, "..", DOCUMENT), encoding="utf-8") as f:
        section = re.split(r"^Boots\n-+\n", f.read(), flags=re.M)[1]
    return {name for terms in re.findall(r"^``.*\n(?= )", section, re.M) for name in re.findall("``(.*?)``", terms)}


def described_groups():
    """Returns the names and patterns of the groups that the start of `run-list` describes: the
    first words of its entries, and words in front of a colon or between commas."""
    found = set()
    with open(os.path.join(TESTS, "kselftest/run-list"), encoding="utf-8") as f:
        for line in f:
            if m := re.match(r"# (\S.*)", line):
                names = re.match(r"[\w*-]+(, [\w*-]+)*", m[1])
                found |= set(names[0].split(", ")) if names else set()
            if line.startswith("#"):
                found |= set(re.findall(r"([\w-]+): ", line))
    return found


def outcomes_by_driver(listed):
    """Returns the sets of (driver, PROGRAM.TEST) that are skipped and that pass in some boot."""
    skipped, passed = set(), set()
    for boot, programs in listed.items():
        driver = "amdgpu" if "-amdgpu" in boot or boot.startswith("stock-") else "rkfd"
        for program, tests in programs.items():
            for test in tests:
                name = test.removeprefix("-")
                found = skipped if test.startswith("-") else passed
                found.add((driver, program if name == "." else f"{program}.{name}"))
    return skipped, passed


def totals(listed):
    """Returns the numbers of tests that are skipped in all boots of each driver, and in some."""
    skipped, passed = outcomes_by_driver(listed)
    rows = {"in all boots": skipped - passed, "in some boots": skipped & passed}
    return {row: [sum(driver == d for d, _ in tests) for driver in ("rkfd", "amdgpu")] for row, tests in rows.items()}


def lint():
    """Every boot has its tests listed, and the reverse; every line of `differ` skips a test; every
    boot is documented, without `long-`, and every group at the start of `run-list`."""
    listed = read_list()
    findings = []
    exist, kinds = set(), set()
    for path, suffix in (("vm/boots", ""), ("vm/boots-amdgpu", "-amdgpu")):
        for line in lines_of(path):
            name, chips, _, command = (part.strip() for part in line.split("|", 3))
            kinds.add(name.removeprefix("long-"))
            boots = {f"{name}-{chip}{suffix}" for chip in chips.split()}
            # The list of NAME may be that of long-NAME only.
            named = boots | {base for base in map(base_of, boots) if base}
            exist |= named | {boot + kernel for boot in named for kernel in KERNEL_TESTS}
            # A program that is not run by run-tests.sh has its exit status only.
            if "run-tests.sh" in command:
                findings += [f"no tests of {b}" for b in sorted(boots) if not expected(listed, b)]
    findings += [f"there is no boot {boot}" for boot in sorted(listed.keys() - exist)]
    findings += [f"{DOCUMENT} lacks the boot {kind}" for kind in sorted(kinds - documented())]
    findings += [f"{DOCUMENT}: there is no boot {kind}" for kind in sorted(documented() - kinds)]
    skipped, _ = outcomes_by_driver(listed)
    for line in lines_of("kselftest/differ"):
        driver, name = line.split()[:2]
        if (driver, name) not in skipped:
            findings.append(f"tests/kselftest/differ: no boot with {driver} has {name}")
    described = described_groups()
    groups = {line.split()[0] for line in lines_of("kselftest/run-list")}
    findings += [
        f"tests/kselftest/run-list does not describe the group {group}"
        for group in sorted(groups)
        if not any(fnmatch.fnmatch(group, name) for name in described)
    ]
    for finding in findings:
        print(finding)
    sys.exit(bool(findings))


if __name__ == "__main__":
    if sys.argv[1:] == ["lint"]:
        lint()
    if sys.argv[1:] == ["totals"]:
        for row, (rkfd, amdgpu) in totals(read_list()).items():
            print(f"number {row:<27} {rkfd:<5} {amdgpu}")
        sys.exit()
    if len(sys.argv) != 4 or sys.argv[1] not in ("compare", "record"):
        sys.exit("usage: outcomes.py compare|record BOOT LOG, or outcomes.py lint|totals")
    {"compare": compare, "record": record}[sys.argv[1]](*sys.argv[2:])
