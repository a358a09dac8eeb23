#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares the locks of the driver with the table of Documentation/dataflow.rst, "Locks".

Locks are fields of structs and variants of enums in rust/ whose type is or owns a lock, and statics
of global_mutex! and global_spinlock!. Each is named in one row of the table, and each name in the
second column is that of a lock: `Type::field`, `Enum::Variant`, `module::STATIC`. Modules before
the type tell types of the same name apart. A name with a `/` is a path.

Takes the names of the files to check, relative to the checkout, on standard input.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "Documentation/dataflow.rst"
# Their files wrap the lock of C.
WRAPPERS = {"rust/kapi/global.rs", "rust/kapi/resv.rs", "rust/kapi/sched_mm.rs"}
LOCK = re.compile(r"\b(Mutex|NoReclaimMutex|SpinLock|RawSpinLock|RwSemaphore|Srcu|Resv)\b")
REFERENCE = re.compile(r"&\s*(?:'\w+\s+)?(?:mut\s+)?\w+")
ITEM = re.compile(r"\b(struct|enum)\s+(\w+)[^;{(]*([{(])")
MEMBER = re.compile(r"\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(\w+)\s*(?::|\((?=.))", re.S)
STATIC = re.compile(r"\bglobal_(?:mutex|spinlock)!\s*\{\s*(\w+)\s*:")
BORDER = re.compile(r"=+( +=+)+\s*$")

Lock = collections.namedtuple("Lock", "path line module owner name")


def code_of(text):
    """Returns the text without comments and the contents of strings, with the same lines."""
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*", "", text)


def members(text, start):
    """Yields offset and text of each member of the block that opens before `start`."""
    depth, begin = 1, start
    for at in range(start, len(text)):
        # The `>` of an arrow closes nothing.
        if text[at] in "{([<":
            depth += 1
        elif text[at] in "})]" or text[at] == ">" and text[at - 1] not in "-=":
            depth -= 1
        if depth == 0 or depth == 1 and text[at] == ",":
            yield begin, text[begin:at]
            begin = at + 1
        if depth == 0:
            return


def locks_of(path):
    text = code_of((ROOT / path).read_text())
    module = tuple(path.removeprefix("rust/").removesuffix(".rs").split("/"))

    def lock(offset, owner, name):
        return Lock(path, text.count("\n", 0, offset) + 1, module, owner, name)

    for found in STATIC.finditer(text):
        yield lock(found.start(1), None, found[1])
    for item in ITEM.finditer(text):
        for offset, member in members(text, item.end()):
            name = MEMBER.match(member)
            if name and LOCK.search(REFERENCE.sub("", member[name.end() :])):
                yield lock(offset + name.start(1), item[2], name[1])


def rows():
    """Yields line number and name of each lock in the table."""
    lines = (ROOT / TABLE).read_text().split("\n")
    borders = [n for n in range(lines.index("Locks"), len(lines)) if BORDER.match(lines[n])]
    top, head, bottom = borders[:3]
    start, end = (match.start() for match in list(re.finditer("=+", lines[top]))[1:3])
    for number in range(head + 1, bottom):
        for name in re.findall("``([^`]+)``", lines[number][start:end]):
            if "/" not in name:
                yield number + 1, name


def is_named(lock, name):
    """Returns whether a name is that of the lock: its modules are some of the lock's, in order."""
    *modules, last = name.split("::")
    if last != lock.name or lock.owner and modules[-1:] != [lock.owner]:
        return False
    if lock.owner:
        modules.pop()
    elif not modules:
        return False
    rest = iter(lock.module)
    return all(module in rest for module in modules)


def main():
    paths = [p for p in sys.stdin.read().split() if re.fullmatch(r"rust/(?!abi/).*(?<!_generated)\.rs", p)]
    locks = [lock for path in sorted(set(paths) - WRAPPERS) for lock in locks_of(path)]
    findings, named = [], collections.Counter()
    for line, name in rows():
        matches = [lock for lock in locks if is_named(lock, name)]
        named.update(matches)
        if len(matches) != 1:
            what = "no lock" if not matches else f"{len(matches)} locks"
            findings.append(f"{TABLE}:{line}: {what} of the name {name}")
    for lock in locks:
        if named[lock] != 1:
            name = f"{lock.owner or lock.module[-1]}::{lock.name}"
            findings.append(f"{lock.path}:{lock.line}: {name} is in {named[lock]} rows of {TABLE}, Locks")
    print("\n".join(findings), end="\n" if findings else "")
    return bool(findings)


sys.exit(main())
