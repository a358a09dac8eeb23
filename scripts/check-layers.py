#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks rules of the source tree that the compiler does not check.

1. A file of rust/ imports only files listed above it in rust/ORDER, also by way of re-exports: no
   circular imports, and no lower layer names a higher one.
2. No hidden upward edge: no downcast, no static that holds a trait object set at run time.
3. `unsafe` is confined to kapi/, uapi.rs, bindings.rs and trace.rs.
4. Only hw/ and abi/ name a hardware generation.
5. Every source file starts with its SPDX line, every Rust file has a //! line.
6. The GPU model imports nothing of the driver but rkfd_abi.

Takes the names of the files to check, relative to the checkout, on standard input.
With --circles it prints the groups of files of rust/ that import each other instead.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUST = ROOT / "rust"
ORDER = RUST / "ORDER"

UNSAFE_ROOMS = re.compile(r"^rust/(kapi(\.rs|/)|uapi\.rs|bindings\.rs|trace\.rs)")
GENERATION = re.compile(r"gfx_?(9_4_3|942|v9_4_3|12|1201)|(?<![a-z])(Gfx9|Gfx12)", re.I)
DISGUISES = (
    (re.compile(r"\bdowncast(_ref|_mut)?\s*(::<[^>]*>)?\("), "downcast: pass the type or a trait down instead"),
    (re.compile(r"\bstatic\s+\w+\s*:\s*SetOnce<[^;=]*\bdyn\b"), "static hook: pass the trait object to a constructor instead"),
)
USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
ITEM = r"\b(struct|enum|fn|const|static|trait|type|mod|union)\s+%s\b"

complaints = []


def complain(path, line, text):
    complaints.append(f"{path}:{line}: {text}")


def code_of(line):
    """The line without its comment and without the text of its strings."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return line.split("//")[0]


def use_paths(tree):
    """Flattens a use tree: (path, name in scope), the name `*` for a glob."""
    tokens = re.findall(r"\w+|::|[{},*]", tree)
    found, at = [], 0

    def walk(prefix):
        nonlocal at
        path = list(prefix)
        while at < len(tokens) and tokens[at] not in ",}":
            token = tokens[at]
            at += 1
            if token == "{":
                while tokens[at] != "}":
                    walk(path)
                    at += tokens[at] == ","
                at += 1
                return
            if token == "as":
                found.append((tuple(path), tokens[at]))
                at += 1
                return
            if token != "::":
                path.append(token)
        if path[-1] == "self" and len(path) > 1:
            path.pop()
        if path != list(prefix):
            found.append((tuple(path), path[-1]))

    walk([])
    return found


class Crate:
    """The import graph of the driver, file by file. A module is the tuple of its path's names."""

    def __init__(self):
        self.text, self.names, self.globs = {}, {}, {}
        for path in sorted(RUST.rglob("*.rs")):
            name = path.relative_to(RUST).as_posix()
            if name.startswith("abi/") or name.endswith("_generated.rs"):
                continue
            module = () if name == "rkfd.rs" else tuple(name.removesuffix(".rs").split("/"))
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            self.text[module] = "\n".join(code_of(line) for line in text.split("\n"))
        for module, text in self.text.items():
            self.names[module], self.globs[module] = {}, []
            for found in USE.finditer(text):
                public = bool(found[1])
                for path, name in use_paths(found[2]):
                    if name == "*":
                        self.globs[module].append((path[:-1], public))
                    else:
                        self.names[module][name] = (path, public)
        self.edges = {module: self.imports(module) for module in self.text}

    def absolute(self, module, path):
        """The path from the crate root, or None if it leads out of the crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return module + path
        if module + (path[0],) in self.text:
            return module + path
        if path[0] in self.names[module]:
            target, _ = self.names[module][path[0]]
            if target != (path[0],):
                base = self.absolute(module, target)
                return None if base is None else base + path[1:]
        return None

    def files_of(self, path, depth=0):
        """The files that a path names: where it leads, and every file that re-exports it."""
        module, rest = (), list(path)
        while rest and module + (rest[0],) in self.text:
            module += (rest.pop(0),)
        found = [module]
        if not rest or depth > 8:
            return found
        name = rest[0]
        if name in self.names[module]:
            target, public = self.names[module][name]
            base = self.absolute(module, target) if public else None
            if base is not None:
                found += self.files_of(base + tuple(rest[1:]), depth + 1)
            return found
        for target, public in self.globs[module]:
            base = self.absolute(module, target) if public else None
            if base in self.text and re.search(ITEM % re.escape(name), self.text[base]):
                found += self.files_of(base + tuple(rest), depth + 1)
        return found

    def imports(self, module):
        """The files that a file imports, each with one of the names that cause it."""
        paths = [path for path, _ in self.names[module].values()]
        paths += [path for path, _ in self.globs[module]]
        body = USE.sub("", self.text[module])
        paths += [tuple(found[1].split("::")) for found in re.finditer(r"(?<![\w:])(\w+(?:::\w+)+)", body)]
        edges = {}
        for path in paths:
            base = self.absolute(module, path)
            for file in self.files_of(base) if base else ():
                # The root declares modules and parameters; nothing of it is imported.
                if file not in (module, ()):
                    edges.setdefault(file, "::".join(path))
        return edges

    def circles(self):
        """Groups of files that import each other, by Tarjan's algorithm."""
        index, low, stack, groups = {}, {}, [], []

        def visit(module):
            index[module] = low[module] = len(index)
            stack.append(module)
            for other in self.edges[module]:
                if other not in index:
                    visit(other)
                if other in stack:
                    low[module] = min(low[module], low[other])
            if low[module] == index[module]:
                at = stack.index(module)
                if len(stack) - at > 1:
                    groups.append(sorted(stack[at:]))
                del stack[at:]

        sys.setrecursionlimit(10000)
        for module in self.text:
            if module not in index:
                visit(module)
        return groups


def name_of(module):
    return "/".join(module) + ".rs" if module else "rkfd.rs"


def check_order(crate):
    lines = [line.strip() for line in ORDER.read_text().splitlines()]
    place = {}
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            if line in place:
                complain("rust/ORDER", number, f"{line} is listed twice")
            place[line] = number
    files = {name_of(module): module for module in crate.text}
    for file in sorted(set(place) - set(files)):
        complain("rust/ORDER", place[file], f"{file} does not exist")
    for file, module in files.items():
        if file not in place:
            complain(f"rust/{file}", 1, "is not listed in rust/ORDER")
            continue
        for other, why in crate.edges[module].items():
            if place.get(name_of(other), 0) > place[file]:
                complain(f"rust/{file}", 1, f"imports {why} from {name_of(other)}, which rust/ORDER lists below it")
    for group in crate.circles():
        complain("rust/ORDER", 1, "circle: " + ", ".join(name_of(module) for module in group))


def check_driver_file(path):
    relative = path.relative_to(ROOT).as_posix()
    room = path.relative_to(RUST).parts[0].removesuffix(".rs")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = code_of(line)
        if re.search(r"\bunsafe\b", code) and "unsafe_op_in_unsafe_fn" not in code:
            if not UNSAFE_ROOMS.match(relative):
                complain(relative, number, "unsafe outside kapi/, uapi.rs, bindings.rs, trace.rs")
        if room not in ("hw", "rkfd") and GENERATION.search(code):
            complain(relative, number, "names a hardware generation outside hw/")
        for pattern, text in DISGUISES:
            if pattern.search(code):
                complain(relative, number, text)


def check_header(path):
    relative = path.relative_to(ROOT).as_posix()
    lines = path.read_text().splitlines()[:40]
    head = "\n".join(lines[:3])
    if "SPDX-License-Identifier:" not in head:
        complain(relative, 1, "no SPDX line")
    if path.suffix == ".rs" and not any("//!" in line for line in lines):
        complain(relative, 1, "has no //! line that states its responsibility")


def check_model_file(path):
    relative = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.search(r"#\[path\s*=|include!\(\s*\"\.\./", code_of(line)) and "rust/" in line:
            complain(relative, number, "includes code of the driver; the model shares rkfd_abi only")


def main():
    crate = Crate()
    if sys.argv[1:] == ["--circles"]:
        circles = crate.circles()
        for group in circles:
            print(", ".join(name_of(module) for module in group))
        print(f"{len(crate.text)} files, {sum(map(len, crate.edges.values()))} imports, {len(circles)} circles")
        return 0
    if len(sys.argv) > 1:
        print(__doc__)
        return 2
    check_order(crate)
    for name in sorted(set(sys.stdin.read().split())):
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
