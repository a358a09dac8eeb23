#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Finds and applies the mutants of tests/mutants/families.
#
# usage: mutants.py list [FAMILY...]         prints a line for each mutant: ID, boots and source
#        mutants.py apply TREE ID            changes the file of that mutant below TREE
#        mutants.py select TREE EXCLUDED [FAMILY...]
#                                            puts all mutants into TREE but those whose ID is a line
#                                            of EXCLUDED: the module parameter `mutant` selects the
#                                            one in that line of the list, from 1 on
#        mutants.py blame LOG [FAMILY...]    prints the IDs of those at the errors of a build's log
#
# ID is FAMILY:FILE:LINE, followed by +N for the N-th further match in the line.

import glob
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FAMILIES = os.path.join(ROOT, "tests/mutants/families")
PAIRS = {")": "(", "]": "["}
OPERATORS = {
    "skip": "Ok::<(), kernel::error::Error>(())",
    "none": "()",
    "zero": None,
    "flip": None,
}
# The operator `flip`, which is put into the driver.
FLIP = """
fn mutant_flip<T: core::ops::Not<Output = T>>(value: T) -> T {
    !value
}
"""


def replacement(operator):
    """Returns the expression of an operator `=EXPRESSION`, without blanks; else None."""
    return operator[1:] if operator.startswith("=") else None


def families():
    """Yields (name, operator, files, pattern, boots) of each family."""
    with open(FAMILIES, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            # A pattern may contain bars, which have no blanks around them.
            parts = [part.strip() for part in re.split(r"\s\|\s", line)]
            if len(parts) != 5 or not (parts[1] in OPERATORS or replacement(parts[1])):
                sys.exit(f"{FAMILIES}:{number}: needs NAME | operator | files | calls | boots")
            yield parts[0], parts[1], parts[2].split(), re.compile(parts[3]), parts[4].split()


def code_only(text):
    """Returns the text with comments and strings blanked: same length, same lines."""
    pattern = r'//[^\n]*|"(?:\\.|[^"\\])*"|/\*.*?\*/'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def closing(text, opening):
    """Returns the position behind the parenthesis that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0:
                return at + 1
    sys.exit(f"unbalanced parentheses from byte {opening}")


def last_argument(text, opening, end):
    """Returns start and end of the last argument of a call, whose parentheses are those from
    `opening` to `end`."""
    depth, start = 0, opening + 1
    for at in range(opening, end):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        elif text[at] == "," and depth == 1 and text[at + 1 : end - 1].strip():
            start = at + 1
    return start, end - 1 - (text[end - 2] == ",")


def receiver(text, at):
    """Returns the start of the method chain or path that ends at `at`."""
    while at > 0:
        char = text[at - 1]
        if char in PAIRS:
            depth, at = 1, at - 1
            while depth:
                at -= 1
                depth += (text[at] == char) - (text[at] == PAIRS[char])
        elif char.isalnum() or char in "_.?":
            at -= 1
        elif text[at - 2 : at] == "::":
            at -= 2
        elif char.isspace() and text[at:].startswith("."):
            at -= 1
            while text[at - 1].isspace():
                at -= 1
        else:
            return at
    return 0


def sites(text, pattern):
    """Yields (line, expression start, arguments start, end) of each matching call."""
    code = code_only(text)
    for match in pattern.finditer(code):
        if code[match.end() : match.end() + 1] != "(":
            continue
        start = receiver(code, match.start() if code[match.start()] == "." else match.end())
        if re.search(r"\bfn\s+$", code[:start]):
            continue
        yield code.count("\n", 0, match.start()) + 1, start, match.end(), closing(code, match.end())


def words(text, pattern):
    """Yields the same of each match, which has no arguments."""
    code = code_only(text)
    for match in pattern.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, match.start(), match.end(), match.end()


class Mutant:
    """A change of one expression: from `start` to `end` of the text of `path`."""

    def __init__(self, ident, boots, path, text, start, end, change):
        self.ident, self.boots, self.path = ident, boots, path
        self.start, self.end, self.change = start, end, change
        self.first = text.count("\n", 0, start) + 1
        self.last = text.count("\n", 0, end) + 1


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def mutants(wanted):
    """Yields (mutant, source line) for each mutant of the families."""
    for name, operator, patterns, call, boots in families():
        if wanted and name not in wanted:
            continue
        paths = {p for pattern in patterns for p in glob.glob(pattern, root_dir=ROOT, recursive=True)}
        for path in sorted(paths):
            text = read(path)
            seen = {}
            other = replacement(operator)
            found = sites(text, call) if other is None else words(text, call)
            for line, start, arguments, end in found:
                number = seen[line] = seen.get(line, -1) + 1
                ident = f"{name}:{path}:{line}" + (f"+{number}" if number else "")
                change = other
                if other is not None:
                    ident += operator
                elif operator == "zero":
                    if text[arguments:end] == "(0)":
                        continue
                    start, end, change = arguments + 1, end - 1, "0"
                elif operator == "flip":
                    start, end = last_argument(code_only(text), arguments, end)
                    change = f"crate::mutant_flip({text[start:end].strip()})"
                else:
                    change = OPERATORS[operator]
                source = text.splitlines()[line - 1].strip()
                yield Mutant(ident, boots, path, text, start, end, change), source


def write(tree, path, text):
    with open(os.path.join(tree, path), "w", encoding="utf-8") as f:
        f.write(text)


def apply(tree, ident):
    """Changes the file of a mutant."""
    for mutant, _ in mutants([ident.partition(":")[0]]):
        if mutant.ident == ident:
            text = read(mutant.path)
            write(tree, mutant.path, text[: mutant.start] + mutant.change + text[mutant.end :])
            with open(os.path.join(tree, "rust/rkfd.rs"), "a", encoding="utf-8") as f:
                f.write(FLIP)
            return
    sys.exit(f"no mutant {ident}")


def select(tree, excluded, wanted):
    """Puts all mutants but the excluded ones into the tree, by insertions: no line moves."""
    insertions = {}
    for number, (mutant, _) in enumerate(mutants(wanted), 1):
        if mutant.ident in excluded:
            continue
        condition = f"crate::module_parameters::mutant.value() == {number}"
        length = mutant.end - mutant.start
        # At the same place: the longer expression starts first and ends last.
        before = (mutant.start, 1, -length, number, f"(if {condition} {{ {mutant.change} }} else {{ ")
        after = (mutant.end, 0, length, -number, " })")
        insertions.setdefault(mutant.path, []).extend([before, after])
    for path, parts in insertions.items():
        text = read(path)
        for at, *_, part in sorted(parts, reverse=True):
            text = text[:at] + part + text[at:]
        write(tree, path, text)
    parameter = 'mutant: u32 { default: 0, description: "", }, '
    text = read("rust/rkfd.rs")
    at = re.search(r"\bparams: \{\s*", text).end()
    write(tree, "rust/rkfd.rs", text[:at] + parameter + text[at:] + FLIP)


def blame(log, wanted):
    """Yields the IDs of the mutants at the errors of a log of the compiler."""
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    places = re.findall(r"^error\b.*\n\s*--> ([^:\n]+):(\d+):", text, flags=re.M)
    places = {(path, int(line)) for path, line in places}
    for mutant, _ in mutants(wanted):
        lines = range(mutant.first, mutant.last + 1)
        if any(path == mutant.path and line in lines for path, line in places):
            yield mutant.ident


def main(arguments):
    known = {family[0] for family in families()}
    first = {"list": 1, "select": 3, "blame": 2}.get(arguments[0] if arguments else "")
    if first is not None and len(arguments) >= first:
        wanted = arguments[first:]
        for name in wanted:
            if name not in known:
                sys.exit(f"no family {name}: use one of {' '.join(sorted(known))}")
        if arguments[0] == "list":
            for mutant, source in mutants(wanted):
                print(mutant.ident, " ".join(mutant.boots), source, sep="\t")
        elif arguments[0] == "select":
            with open(arguments[2], encoding="utf-8") as f:
                select(arguments[1], set(f.read().split("\n")), wanted)
        else:
            print("\n".join(blame(arguments[1], wanted)))
    elif arguments[:1] == ["apply"] and len(arguments) == 3:
        apply(arguments[1], arguments[2])
    else:
        sys.exit("usage: see the first lines of mutants.py")


main(sys.argv[1:])
