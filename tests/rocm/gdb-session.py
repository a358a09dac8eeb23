#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""A session of GDB with a HIP program (stepped.hip): a breakpoint in the kernel, the threads, which
are waves, variables and the registers of all lanes before and after a step, and the end of the
program, whose result must be right. Prints the session.
"""

import os
import re
import subprocess
import sys

from ktap import Report

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stepped")
# Of stepped.hip.
BLOCKS, FACTOR = 3, 7
# Seconds: GDB and HIP take minutes under emulation.
LIMIT = 1200
# Waves stop at the first instruction of weigh() after its wait: `lane` is in v0, `factor` in v1.
SETTINGS = """\
set style enabled off
set pagination off
set confirm off
set width 0
set print elements unlimited
set print repeats unlimited
set breakpoint pending on
set startup-with-shell off
"""
# Steps with scheduler-locking move the wave that stopped and no other.
SESSION = (
    "break weigh",
    "run",
    "info threads",
    "print lane",
    "print factor",
    "print $v0",
    "print $v1",
    "set scheduler-locking on",
    "x/i $pc",
    "stepi",
    "print $v0",
    "step",
    "print weight",
    "next",
    "set scheduler-locking off",
    "continue",
    "print $v0",
    "continue",
    "print $v0",
    "delete",
    "continue",
)


def run():
    """Runs GDB. Returns the outputs of the commands of SESSION."""
    commands = SETTINGS + "".join(f"echo \\n=== {i}\\n\n{command}\n"
                                  for i, command in enumerate(SESSION))
    try:
        text = subprocess.run(["gdb", "-nx", "-nh", "-q", PROGRAM], input=commands, text=True,
                              env={**os.environ, "TERM": "dumb"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                              check=False).stdout
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode()
    parts = re.split(r"^(?:\(gdb\) )*=== \d+\n", text.replace("(gdb) ", ""), flags=re.M)
    outputs = [part.strip() for part in parts[1:]]
    if len(outputs) < len(SESSION):
        print(f"# GDB ended early: {text[-4000:]!r}")
    return outputs + [""] * (len(SESSION) - len(outputs))


def lanes(output):
    """Returns the values of a register in all lanes."""
    values = re.search(r"= \{(.*)\}", output)
    return [int(value) for value in values[1].split(",")] if values else []


def check(report, outputs):
    """Compares the outputs of SESSION with the kernel of stepped.hip."""
    answer = iter(outputs)
    pending = next(answer)
    stop = re.compile(r"hit Breakpoint 1.*, weigh \(lane=0, factor=7\) at stepped.hip:(\d+)")
    place = re.compile(r"^\[Switching to thread \d+ \(AMDGPU Wave \S+ \((\d+),0,0\)/0\)\]", re.M)
    report.expect("Breakpoint 1 (weigh) pending" in pending, "the breakpoint is not pending")
    stops = [next(answer)]
    line = stop.search(stops[0])
    report.expect(line, "no wave stopped at the breakpoint")
    report.done("breakpoint_in_kernel")

    threads = next(answer)
    waves = re.findall(r"AMDGPU Wave \S+ \((\d+),0,0\)/0", threads)
    report.expect(waves and len(set(waves)) == len(waves) <= BLOCKS, f"waves {waves}")
    report.expect(re.search(r'Thread 0x\w+ \(LWP \d+\) "stepped"', threads), "no host thread")
    report.done("threads_are_waves")

    report.expect(next(answer).endswith("= 0"), "lane")
    report.expect(next(answer).endswith(f"= {FACTOR}"), "factor")
    first, factors = lanes(next(answer)), lanes(next(answer))
    report.expect(len(first) in (32, 64) and first == list(range(len(first))), f"v0 {first}")
    report.expect(factors == [FACTOR] * len(first), f"v1 {factors}")
    report.done("variables_of_lanes")

    next(answer)
    report.expect(re.search(r"v_mad_(co_)?u64_u32", next(answer)), "instruction")
    report.expect(line and f"\t{line[1]}\t" in next(answer), "stepi left the line")
    product = lanes(next(answer))
    report.expect(product == [lane * FACTOR + 1 for lane in first], f"v0 {product}")
    report.expect(re.match(r"scale \(.*\) at stepped.hip:\d+", next(answer)), "step to the caller")
    report.expect(next(answer).endswith("= 1"), "weight")
    report.expect(re.match(r"\d+\t", next(answer)), "next")
    report.done("steps")

    next(answer)
    for _ in range(1, BLOCKS):
        stops.append(next(answer))
        report.expect(stop.search(stops[-1]), "no further wave stopped")
        report.expect(lanes(next(answer)) == first, "v0 of another wave")
    blocks = [int(block) for text in stops for block in place.findall(text)]
    report.expect(sorted(blocks) == list(range(BLOCKS)), f"blocks {blocks}")
    report.done("each_wave_stops")

    next(answer)
    end = next(answer)
    report.expect("0 wrong" in end, "wrong result")
    report.expect("exited normally" in end, "the program did not end")
    report.done("program_ends")


def main():
    outputs = run()
    for command, output in zip(SESSION, outputs):
        print(f"# (gdb) {command}")
        for line in output.splitlines():
            print(f"# {line}")
    report = Report("gdb-session", 6)
    check(report, outputs)
    return report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
