#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the rules of the house that a compiler does not know.

1. Imports go downwards: a lower layer of rust/ never names a higher one.
2. `unsafe` lives in its rooms, and each use has a SAFETY comment.
3. Only hw/ and abi/ name a hardware generation.
4. Every source file starts with its SPDX line, and every Rust file says what it is for.
5. The GPU model imports nothing of the driver but rkfd_abi.

Takes the names of the files to check, relative to the checkout, on standard input.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Lower floors first. Modules of one set may name each other.
FLOORS = [
    {"bindings", "uapi"},
    {"kapi", "trace"},
    {"asic"},
    {"hw", "gpu", "mmu", "ring", "doorbell"},
    {"mqd"},
    {"dqm"},
    {"queue"},
    {"process"},
    {"ioctl", "chardev", "drm", "topology", "debugfs", "compat", "recovery"},
    {"driver"},
]
FLOOR_OF = {name: level for level, names in enumerate(FLOORS) for name in names}
# Rooms where `unsafe` may be written.
UNSAFE_ROOMS = re.compile(r"^rust/(kapi(\.rs|/)|uapi\.rs|bindings\.rs|ring/writer\.rs|trace\.rs)")
GENERATION = re.compile(r"gfx_?(9_4_3|942|v9_4_3|12|1201)|(?<![a-z])(Gfx9|Gfx12)", re.I)

complaints = []


def complain(path, line, text):
    complaints.append(f"{path}:{line}: {text}")


def code_of(line):
    """The line without its comment and without the text of its strings."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return line.split("//")[0]


def floor_of(path):
    parts = path.relative_to(ROOT / "rust").parts
    return parts[0].removesuffix(".rs")


def names_of_crate(lines):
    """Each `crate::name`, also those inside `crate::{..}`: (line number, name)."""
    text = "\n".join(code_of(line) for line in lines)
    for match in re.finditer(r"\bcrate::", text):
        number = text.count("\n", 0, match.start()) + 1
        rest = text[match.end():]
        if not rest.startswith("{"):
            yield number, re.match(r"\w*", rest).group()
            continue
        depth = 0
        for token in re.finditer(r"[{}]|\w+", rest):
            if token.group() == "{":
                depth += 1
            elif token.group() == "}":
                depth -= 1
                if depth == 0:
                    break
            elif depth == 1 and rest[:token.start()].rstrip()[-1:] in ("{", ","):
                yield number + rest.count("\n", 0, token.start()), token.group()


def check_driver_file(path):
    relative = path.relative_to(ROOT).as_posix()
    room = floor_of(path)
    lines = path.read_text().splitlines()
    for number, name in names_of_crate(lines):
        if room in FLOOR_OF and name in FLOOR_OF and FLOOR_OF[name] > FLOOR_OF[room]:
            complain(relative, number, f"{room} names {name}, which lies above it")
    for number, line in enumerate(lines, 1):
        code = code_of(line)
        if re.search(r"\bunsafe\b", code) and "unsafe_op_in_unsafe_fn" not in code:
            if not UNSAFE_ROOMS.match(relative):
                complain(relative, number, "unsafe outside its rooms (kapi/, uapi.rs, ring/writer.rs, trace.rs)")
        if room not in ("hw", "rkfd") and GENERATION.search(code):
            complain(relative, number, "names a hardware generation outside hw/")


def check_header(path):
    relative = path.relative_to(ROOT).as_posix()
    lines = path.read_text().splitlines()[:12]
    head = "\n".join(lines[:3])
    if "SPDX-License-Identifier:" not in head:
        complain(relative, 1, "no SPDX line")
    if path.suffix == ".rs" and not any(line.startswith("//!") or "//!" in line for line in lines):
        complain(relative, 1, "does not open with what it is responsible for (//!)")


def check_model_file(path):
    relative = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.search(r"#\[path\s*=|include!\(\s*\"\.\./", code_of(line)) and "rust/" in line:
            complain(relative, number, "the model takes code of the driver; it may share rkfd_abi only")


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 2
    tracked = sys.stdin.read().split()
    for name in sorted(set(tracked)):
        path = ROOT / name
        if not path.is_file():
            continue
        if path.suffix in (".rs", ".c", ".h", ".py", ".sh", ".cl") or name.startswith(("scripts/", ".ci/")):
            check_header(path)
        if name.startswith("rust/") and path.suffix == ".rs" and not name.startswith("rust/abi/"):
            check_driver_file(path)
        if name.startswith("tests/model/") and path.suffix == ".rs":
            check_model_file(path)
    for complaint in complaints:
        print(complaint)
    print(f"layers: {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
