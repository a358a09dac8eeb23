# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Reads imported functions and file offsets of exported functions from an ELF file."""

import struct

SHT_DYNSYM = 11
PT_LOAD = 1
STT_FUNC = 2


class Elf:
    """The dynamic symbols of a 64-bit little-endian ELF file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not a 64-bit ELF file")
        self.segments = self.table(0x20, 0x36, "<IIQQQQQQ")
        self.sections = self.table(0x28, 0x3A, "<IIQQQQIIQQ")

    def table(self, offset_at, size_at, form):
        start = struct.unpack_from("<Q", self.data, offset_at)[0]
        size, count = struct.unpack_from("<HH", self.data, size_at)
        return [struct.unpack_from(form, self.data, start + i * size) for i in range(count)]

    def symbols(self):
        """Yields (name, kind, section, value) of each dynamic symbol."""
        for section in self.sections:
            if section[1] != SHT_DYNSYM:
                continue
            strings = self.sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                end = self.data.index(b"\0", strings + name)
                yield self.data[strings + name:end].decode(), info & 15, index, value

    def needed(self):
        """Returns the names of undefined symbols."""
        return {name for name, _, section, _ in self.symbols() if section == 0 and name}

    def offered(self):
        """Returns the file offset of each exported function by name."""
        return {name: self.file_offset(value) for name, kind, section, value in self.symbols()
                if section and kind == STT_FUNC}

    def file_offset(self, address):
        for kind, _, offset, start, _, size, _, _ in self.segments:
            if kind == PT_LOAD and start <= address < start + size:
                return address - start + offset
        raise ValueError(f"address {address:#x} is in no segment")
