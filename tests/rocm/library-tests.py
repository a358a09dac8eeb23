#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Test programs of ROCm's libraries, as Debian packages them, with parts of their tests.

library-tests.list has the programs, their arguments and the number of tests that have to pass. A
program fails if one of its tests does, or if another number passes. Arguments name programs.
"""

import os
import re
import sys

import counted

FOLDER = "/usr/libexec/rocm"
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library-tests.list")
# Arguments that the list names `first`.
FIRST = ["--gtest_filter=*/0.*:*/0:-*Large*"]
# Number of tests that passed, of googletest and of rocThrust.
PASSED = r"^(?:\[  PASSED  \] (\d+) test|Totals: .* and (\d+) passes)"


def programs(names):
    """Returns the programs of the list with these names, or all of them."""
    with open(LIST, encoding="ascii") as f:
        lines = [[word.strip() for word in line.split("|")] for line in f if line[0] not in "#\n"]
    for program, count, arguments in lines:
        folder, name = program.split("/")
        if not names or name in names:
            command = [f"{FOLDER}/{program}"]
            command += FIRST if arguments == "first" else arguments.split()
            env = {"LD_LIBRARY_PATH": f"{FOLDER}/{folder}"}
            yield re.sub(r"\W", "_", name).lower(), command, env, int(count)


if __name__ == "__main__":
    sys.exit(counted.report("library-tests", list(programs(sys.argv[1:])), PASSED))
