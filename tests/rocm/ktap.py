# SPDX-License-Identifier: GPL-2.0 OR MIT
"""KTAP reports of programs in Python, as tests/kselftest/ktap.h writes them."""


class Report:
    """The report of `count` tests of a program."""

    def __init__(self, program, count):
        self.program, self.number, self.failed, self.wrong = program, 0, 0, 0
        print(f"KTAP version 1\n1..{count}", flush=True)

    def expect(self, right, text):
        """Fails the current test unless `right`, which is returned."""
        if not right:
            self.wrong += 1
            print(f"# failed: {text}")
        return right

    def done(self, name):
        """Ends the current test."""
        self.number += 1
        print(f"{'not ok' if self.wrong else 'ok'} {self.number} {self.program}.{name}", flush=True)
        self.failed += self.wrong
        self.wrong = 0

    def skip(self, name, reason):
        """Skips a test."""
        self.number += 1
        print(f"ok {self.number} {self.program}.{name} # SKIP {reason}", flush=True)
