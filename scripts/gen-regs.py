#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes rust/abi/regs/*.rs from AMD's asic_reg headers.

Input is a kernel source tree (argument, or RKFD_KERNEL_SRC), the list of headers
beside this script (gen-regs.list), and the driver's source, which decides which
registers and fields are written: those that rust/hw, rust/asic and rust/abi
name. Address, base index, field shift and field mask come from the headers. The
output is committed, so building the module needs no kernel source tree beyond
what Kbuild has; `gen-regs.py --check` fails if it is out of date and
lists the registers and fields that are missing or unused.
"""

import argparse
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIST = HERE / "gen-regs.list"
RUST = HERE.parent / "rust"
OUT = RUST / "abi" / "regs"
ASIC_REG = "drivers/gpu/drm/amd/include/asic_reg"

OFFSET = re.compile(r"^#define\s+reg(\w+)\s+(0x[0-9a-fA-F]+|\d+)\s*$")
BASE_IDX = re.compile(r"^#define\s+reg(\w+)_BASE_IDX\s+(\d+)\s*$")
SHIFT = re.compile(r"^#define\s+(\w+?)__(\w+)__SHIFT\s+(0x[0-9a-fA-F]+|\d+)")
MASK = re.compile(r"^#define\s+(\w+?)__(\w+)_MASK\s+(0x[0-9a-fA-F]+|\d+)")
# A register or a field in the driver's source.
TOKEN = r"(reg[A-Z]\w*|[A-Z]\w*__\w+)"


def fail(text):
    sys.exit(f"gen-regs: {text}")


class Module:
    """One generated file: its source headers and the rules for the types of its registers."""

    def __init__(self, name, stem, about):
        self.name, self.stem, self.about = name, stem, about
        self.rename, self.alias = [], []

    def type_of(self, register):
        """The path below `name` of the register's type."""
        for pattern, to in self.rename:
            name, count = re.subn(pattern, to, register)
            if count:
                return name
        return register

    def alias_of(self, path):
        """The type whose layout the type at `path` has, if that is another one."""
        for pattern, to in self.alias:
            if path != to and fnmatch.fnmatchcase(path, pattern):
                return to
        return None


def read_list(path):
    modules = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        head = re.fullmatch(r"\[(\w+)\s+(\S+)\s+(.+)\]", line)
        rename = re.fullmatch(r"/(.+)/(.*)/", line)
        alias = re.fullmatch(r"=(\S+)=(\S+)", line)
        if head:
            modules.append(Module(*head.groups()))
        elif rename and modules:
            modules[-1].rename.append(rename.groups())
        elif alias and modules:
            modules[-1].alias.append(alias.groups())
        elif line:
            fail(f"{path.name}:{number}: not a section head and not a rule in a section")
    return modules


def read_header(path, pattern):
    if not path.is_file():
        fail(f"{path} is missing: is this the kernel source tree?")
    for line in path.read_text(errors="replace").splitlines():
        found = pattern.match(line)
        if found:
            yield found.groups()


def notice(path):
    """The licence notice of a header, as lines of a Rust comment."""
    found = re.match(r"/\*\n(.*?)\*/", path.read_text(errors="replace"), re.S)
    if not found or "Permission is hereby granted" not in found.group(1):
        fail(f"{path} does not start with the notice of the MIT licence")
    lines = [line.strip().removeprefix("*").strip() for line in found.group(1).splitlines()]
    return [f"// {line}".rstrip() for line in "\n".join(lines).strip().splitlines()]


def source(path):
    """A file of the driver without comments and tests."""
    text = path.read_text().split("#[cfg(test)]", 1)[0]
    return re.sub(r"//[^\n]*", "", text)


def tables(files):
    """For each macro that fills a table of names!: the names in that table."""
    out = {}
    for text in files.values():
        for found in re.finditer(r"names! \{ \$\n.*?\n\}", text, re.S):
            head = re.search(r"struct \w+, (\w+) of \w+ \{", found.group())
            if not head:
                continue
            names = set()
            section = re.compile(r"(regs|fields) \{((?:[^{}]|\{[^{}]*\})*)\}")
            for kind, body in section.findall(found.group()[head.end():]):
                for reg, inner in re.findall(r"(\w+)(?: \{([^{}]*)\})?,", body):
                    if kind == "regs":
                        names.add(f"reg{reg}")
                    names |= {f"{reg}__{field}" for field in re.findall(r"\w+", inner)}
            out[head.group(1)] = names
    return out


def scan(modules):
    """The registers (with their `reg` prefix) and fields that the driver names, by module."""
    known = {m.name for m in modules}
    paths = [p for room in ("hw", "asic", "abi") for p in sorted((RUST / room).rglob("*.rs"))]
    paths += [RUST / "hw.rs", RUST / "asic.rs"]
    files = {p: source(p) for p in paths if OUT not in p.parents}
    fills = tables(files)
    used = {name: set() for name in known}
    for text in files.values():
        alias = {}
        for name, other in re.findall(r"\b([a-z]+(?:_\d+){2,3})\b(?: as (\w+))?", text):
            if name in known:
                alias[other or name] = name
        for fill, short, prefix in re.findall(r"(\w+)!\((\w+)(?:, (\w+))?\)", text):
            if fill in fills and short in alias:
                for name in fills[fill]:
                    reg = name.startswith("reg")
                    name = name.removeprefix("reg") if reg else name
                    used[alias[short]].add(("reg" if reg else "") + prefix + name)
        for short, name in alias.items():
            used[name] |= set(re.findall(rf"\b{short}::{TOKEN}", text))
            if re.search(rf"\buse (?:\w+::)*{short}::\*", text):
                used[name] |= set(re.findall(rf"(?<![:\w.]){TOKEN}", text))
    return used


def emit(module, src, used):
    """The text of a module, and the types that it needs: path and alias."""
    head = src / ASIC_REG / (module.stem + "_offset.h")
    mask_head = src / ASIC_REG / (module.stem + "_sh_mask.h")
    offsets, segs, shifts, masks = {}, {}, {}, {}
    for name, value in read_header(head, OFFSET):
        if not name.endswith("_BASE_IDX"):
            offsets[name] = int(value, 0)
    for name, value in read_header(head, BASE_IDX):
        segs[name] = int(value)
    for reg, field, value in read_header(mask_head, SHIFT):
        shifts[f"{reg}__{field}"] = int(value, 0)
    for reg, field, value in read_header(mask_head, MASK):
        masks[f"{reg}__{field}"] = int(value, 0)

    items = {}
    for name in used:
        reg = name.removeprefix("reg") if name.startswith("reg") else name.split("__", 1)[0]
        if reg not in offsets or (reg != name.removeprefix("reg") and name not in shifts):
            fail(f"[{module.name}] the headers have no {name}")
        items.setdefault(reg, []).append(name)
    types = {}
    out = []
    for reg in sorted(items, key=lambda r: (segs[r], offsets[r], r)):
        path = module.type_of(reg)
        types[path] = module.alias_of(path)
        if f"reg{reg}" in items[reg]:
            out.append(f'pub const reg{reg}: Reg<name::{path}> = Reg::new("reg{reg}", {segs[reg]}, {offsets[reg]:#06x});')
        for field in sorted((f for f in items[reg] if "__" in f), key=lambda f: (shifts[f], f)):
            shift, mask = shifts[field], masks.get(field, 0)
            if mask == 0 or mask > 0xFFFFFFFF or (mask >> shift) << shift != mask or not (mask >> shift) & 1:
                fail(f"{field}: shift {shift} does not fit mask {mask:#x}")
            out.append(f"pub const {field}: Field<name::{path}> = Field::new({shift}, {mask:#010x});")
    regs = "Reg" if any(": Reg<" in line for line in out) else ""
    fields = "Field" if any(": Field<" in line for line in out) else ""
    text = [
        "// SPDX-License-Identifier: MIT",
        "//",
        *notice(head),
        "",
        f"//! Registers of the {module.about}.",
        "//!",
        f"//! Generated by `scripts/gen-regs.py` from AMD's `{ASIC_REG}/`",
        f"//! `{module.stem}_offset.h` and `{module.stem.rsplit('/')[-1]}_sh_mask.h`; do not edit.",
        "",
        "// The names are AMD's and the documentation.",
        "#![allow(missing_docs)]",
        "",
        f"use super::{{name, {', '.join(filter(None, [fields, regs]))}}};",
        "",
        *out,
    ]
    return "\n".join(text) + "\n", types


def emit_names(types):
    """The module of the registers' types."""
    rooms = {}
    for path, to in types.items():
        room, _, name = path.rpartition("::")
        rooms.setdefault(room, []).append((name, to and to.rpartition("::")[2]))
        if to and to not in types:
            rooms.setdefault(to.rpartition("::")[0], []).append((to.rpartition("::")[2], None))

    def lines(room):
        for name, to in sorted(set(rooms.get(room, []))):
            yield f"pub type {name} = {to};" if to else f"pub enum {name} {{}}"

    text = [
        "// SPDX-License-Identifier: GPL-2.0 OR MIT",
        "",
        "//! Types that stand for the names of registers, see [`super::Reg`].",
        "//!",
        "//! Generated by `scripts/gen-regs.py`; do not edit.",
        "",
        "// The names are AMD's and the documentation.",
        "#![allow(missing_docs, non_camel_case_types)]",
        "",
        *lines(""),
    ]
    for room in sorted(filter(None, rooms)):
        text += ["", f"/// Registers of the SDMA engines{', of each queue' if 'queue' in room else ''}.",
                 f"pub mod {room} {{", *lines(room), "}"]
    return "\n".join(text) + "\n"


def rustfmt(text):
    done = subprocess.run(
        ["rustfmt", "--edition", "2021", "--emit", "stdout"],
        input=text, capture_output=True, text=True, check=False,
    )
    if done.returncode:
        fail(f"rustfmt: {done.stderr.strip()}")
    return done.stdout


def constants(text):
    return set(re.findall(r"\bpub (?:const|enum|type) (\w+)", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default=os.environ.get("RKFD_KERNEL_SRC"),
                        help="kernel source tree (default: RKFD_KERNEL_SRC)")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file is out of date")
    args = parser.parse_args()
    if not args.source:
        fail("no kernel source tree: pass its path or set RKFD_KERNEL_SRC")
    modules = read_list(LIST)
    used = scan(modules)
    texts, types = {}, {}
    for module in modules:
        if not used[module.name]:
            fail(f"[{module.name}] the driver uses none of its registers: remove it from {LIST.name}")
        texts[f"{module.name}.rs"], own = emit(module, Path(args.source), used[module.name])
        for path, alias in own.items():
            types[path] = types.get(path) or alias
    texts["name.rs"] = emit_names(types)

    stale = [path.name for path in OUT.glob("*.rs") if path.name not in texts]
    for name, text in texts.items():
        path, text = OUT / name, rustfmt(text)
        old = path.read_text() if path.is_file() else ""
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"{name}: {len(constants(text))} names")
        elif old != text:
            stale.append(name)
            for what, names in (("missing", constants(text) - constants(old)),
                                ("not used", constants(old) - constants(text))):
                if names:
                    print(f"gen-regs: {name}: {what}: {' '.join(sorted(names))}", file=sys.stderr)
    if stale and args.check:
        fail("out of date: " + ", ".join(stale) + "; run scripts/gen-regs.py")
    for name in stale:
        (OUT / name).unlink()


if __name__ == "__main__":
    main()
