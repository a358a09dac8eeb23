#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# Finds and applies the mutants of tests/mutants/families.
#
# usage: mutants.py list [FAMILY...]   prints one mutant per line: ID, boots and source, by tabs
#        mutants.py apply ID TREE      changes the file of that mutant below TREE
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
}


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


def mutants(wanted):
    """Yields (id, boots, source line, path, replacement) of each mutant of the families."""
    for name, operator, patterns, call, boots in families():
        if wanted and name not in wanted:
            continue
        paths = {p for pattern in patterns for p in glob.glob(pattern, root_dir=ROOT, recursive=True)}
        for path in sorted(paths):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                text = f.read()
            seen = {}
            other = replacement(operator)
            found = sites(text, call) if other is None else words(text, call)
            for line, start, arguments, end in found:
                number = seen[line] = seen.get(line, -1) + 1
                ident = f"{name}:{path}:{line}" + (f"+{number}" if number else "")
                if other is not None:
                    ident += operator
                    changed = text[:start] + other + text[end:]
                elif operator == "zero":
                    if text[arguments:end] == "(0)":
                        continue
                    changed = text[:arguments] + "(0)" + text[end:]
                else:
                    changed = text[:start] + OPERATORS[operator] + text[end:]
                yield ident, boots, text.splitlines()[line - 1].strip(), path, changed


def main(arguments):
    if arguments[:1] == ["list"]:
        known = [family[0] for family in families()]
        for name in arguments[1:]:
            if name not in known:
                sys.exit(f"no family {name}: use one of {' '.join(known)}")
        for ident, boots, source, _, _ in mutants(arguments[1:]):
            print(ident, " ".join(boots), source, sep="\t")
    elif arguments[:1] == ["apply"] and len(arguments) == 3:
        for ident, _, _, path, changed in mutants([arguments[1].partition(":")[0]]):
            if ident == arguments[1]:
                with open(os.path.join(arguments[2], path), "w", encoding="utf-8") as f:
                    f.write(changed)
                return
        sys.exit(f"no mutant {arguments[1]}")
    else:
        sys.exit("usage: mutants.py list [FAMILY...] | apply ID TREE")


main(sys.argv[1:])
