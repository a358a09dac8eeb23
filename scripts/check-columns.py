#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that comment and documentation lines have at most 100 columns; a tab advances to the next
multiple of 8.

Checked are comments in Rust, C, OpenCL, HIP, assembler, Python, shell and make, docstrings, and
prose in .rst and .md files. Exempt are code, tables and literal blocks in .rst and .md, text
without a blank to break at (links), and generated register definitions. An .rst file also has to
begin with a heading, and each underline is on a line of its own.

Takes the names of the files to check, relative to the checkout, on standard input.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 100

C_LIKE = {".rs", ".c", ".h", ".s", ".cl", ".hip"}
PROSE = {".rst", ".md"}
GENERATED = re.compile(r"rust/abi/regs/(?!name\.rs).*\.rs")
# Licence texts, lock files, Cargo manifests and images are not wrapped.
SKIPPED = re.compile(r"LICENSES/|COPYING$|.*\.lock$|.*\.toml$|.*\.png$")
# A term of a definition list that rkfd-compare reads: patterns on one line.
RST_KEYS = re.compile(r"(``[^`]+``(, )?)+")
RST_BORDER = re.compile(r"=+( +=+)+\s*$")
# An underline that was wrapped into its heading.
RST_WRAPPED = re.compile(r"\w.* ([-=~])\1{3,}")
RST_TITLE = re.compile(r"(=+\n)?\S.*\n=+\n")


def width(line):
    return len(line.expandtabs(8))


def breakable(line):
    """Returns whether the text after indent and comment marker has a blank to break at."""
    text = re.sub(r"^\s*(//[/!]?|/\*+|\*|#+|\.\.|[-*])?\s*", "", line)
    return " " in text.rstrip()


def c_comments(lines):
    """Yields the numbers of the lines that hold a comment or part of one."""
    inside = False
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        if inside or "//" in code or "/*" in code:
            yield number
        opened, closed = code.rfind("/*"), code.rfind("*/")
        if opened > closed:
            inside = True
        elif closed > opened:
            inside = False


def hash_comments(lines):
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#") or line.lstrip().startswith("@#"):
            yield number


def docstrings(lines):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, kinds) and ast.get_docstring(node):
            yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def prose(lines, markdown):
    """Yields the numbers of all lines but those of tables and literal blocks."""
    table, fence, literal = False, False, None
    for number, line in enumerate(lines, 1):
        following = lines[number] if number < len(lines) else ""
        indent = len(line) - len(line.lstrip())
        if markdown and line.lstrip().startswith("```"):
            fence = not fence
        elif fence or markdown and line.startswith("|"):
            continue
        elif not markdown and RST_BORDER.match(line):
            table = not table or following.strip() != ""
        elif table:
            continue
        elif literal is not None and (not line.strip() or indent > literal):
            continue
        else:
            literal = indent if not markdown and line.endswith("::") else None
            if markdown or not RST_KEYS.fullmatch(line):
                yield number


def lines_to_check(path, lines):
    if path.suffix in PROSE:
        return prose(lines, path.suffix == ".md")
    if path.suffix in C_LIKE:
        return c_comments(lines)
    if path.suffix == ".py":
        return [*hash_comments(lines), *docstrings(lines)]
    return hash_comments(lines)


def main():
    failed = False
    for name in sys.stdin.read().splitlines():
        path = ROOT / name
        if GENERATED.fullmatch(name) or SKIPPED.match(name) or not path.is_file():
            continue
        text = path.read_text()
        lines = text.split("\n")
        if path.suffix == ".rst":
            wrapped = [n for n, line in enumerate(lines, 1) if RST_WRAPPED.fullmatch(line)]
            if not RST_TITLE.match(re.sub(r"^(\.\. .*\n|\n)*", "", text)):
                wrapped.insert(0, 1)
            for number in wrapped:
                print(f"{name}:{number}: a heading without its underline below")
            failed = failed or bool(wrapped)
        if all(width(line) <= COLUMNS for line in lines):
            continue
        for number in sorted(set(lines_to_check(path, lines))):
            line = lines[number - 1]
            if width(line) > COLUMNS and breakable(line):
                print(f"{name}:{number}: {width(line)} columns")
                failed = True
    return failed


sys.exit(main())
