# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Reports of programs that print how many of their tests passed: one KTAP test per program."""

import os
import re
import subprocess
import time

from ktap import Report

# Seconds until a program is killed, and lines of its output that a failure shows.
LIMIT, SHOWN = 900, 30


def run(command, env, pattern):
    """Runs a program. Returns its status, the number of tests that passed, and its output."""
    try:
        done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LIMIT, text=True, errors="replace",
                              check=False)
        status, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        status, text = f"none after {LIMIT} s", (expired.stdout or b"").decode(errors="replace")
    found = re.search(pattern, text, re.MULTILINE)
    return status, int(found.group(found.lastindex)) if found else 0, text


def report(name, programs, pattern):
    """Runs `programs`: test, command, environment, and the number of tests that have to pass, which
    `pattern` finds in the output. Returns the exit status."""
    ktap = Report(name, len(programs))
    for test, command, env, count in programs:
        start = time.monotonic()
        status, passed, text = run(command, env, pattern)
        print(f"# {test}: {passed} tests passed, {time.monotonic() - start:.0f} s")
        if not ktap.expect((status, passed) == (0, count),
                           f"status {status}, {passed} tests passed instead of {count}"):
            for line in text.splitlines()[-SHOWN:]:
                print(f"# {line}")
        ktap.done(test)
    return ktap.failed != 0
