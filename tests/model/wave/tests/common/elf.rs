// SPDX-License-Identifier: GPL-2.0 OR MIT

//! ELF loader for AMD code objects.

use super::Ram;
use std::collections::HashMap;

fn number(image: &[u8], at: usize, bytes: usize) -> u64 {
    image[at..at + bytes]
        .iter()
        .rev()
        .fold(0, |v, &b| v << 8 | u64::from(b))
}

fn text(image: &[u8], at: usize) -> String {
    let end = image[at..]
        .iter()
        .position(|&b| b == 0)
        .expect("unterminated string")
        + at;
    String::from_utf8_lossy(&image[at..end]).into_owned()
}

/// Section header: name offset, type, address, offset, size, link.
struct Section {
    name: usize,
    kind: u64,
    offset: usize,
    size: usize,
    link: usize,
}

fn sections(image: &[u8]) -> Vec<Section> {
    assert_eq!(&image[..5], b"\x7fELF\x02", "not a 64-bit ELF file");
    let table = number(image, 40, 8) as usize;
    let (size, count) = (number(image, 58, 2) as usize, number(image, 60, 2) as usize);
    let field = |at: usize, offset: usize, bytes| number(image, at + offset, bytes) as usize;
    (0..count)
        .map(|n| table + n * size)
        .map(|at| Section {
            name: field(at, 0, 4),
            kind: number(image, at + 4, 4),
            offset: field(at, 24, 8),
            size: field(at, 32, 8),
            link: field(at, 40, 4),
        })
        .collect()
}

/// Returns the contents of a section.
pub fn section<'a>(image: &'a [u8], name: &str) -> &'a [u8] {
    let sections = sections(image);
    let names = sections[number(image, 62, 2) as usize].offset;
    let found = sections
        .iter()
        .find(|s| text(image, names + s.name) == name);
    let found = found.unwrap_or_else(|| panic!("no section {name}"));
    &image[found.offset..found.offset + found.size]
}

/// Code object in memory.
pub struct Object {
    symbols: HashMap<String, u64>,
}

impl Object {
    /// Copies the segments to `base` plus their addresses and applies relative relocations.
    pub fn load(image: &[u8], base: u64, ram: &Ram) -> Self {
        let table = number(image, 32, 8) as usize;
        let (size, count) = (number(image, 54, 2) as usize, number(image, 56, 2) as usize);
        for at in (0..count).map(|n| table + n * size) {
            const PT_LOAD: u64 = 1;
            if number(image, at, 4) == PT_LOAD {
                let (offset, va) = (number(image, at + 8, 8) as usize, number(image, at + 16, 8));
                let len = number(image, at + 32, 8) as usize;
                ram.put(base + va, &image[offset..offset + len]);
            }
        }
        let sections = sections(image);
        const SHT_RELA: u64 = 4;
        for rela in sections.iter().filter(|s| s.kind == SHT_RELA) {
            for at in (rela.offset..rela.offset + rela.size).step_by(24) {
                const R_AMDGPU_RELATIVE64: u64 = 13;
                let kind = number(image, at + 8, 4);
                assert_eq!(kind, R_AMDGPU_RELATIVE64, "relocation type");
                let value = base.wrapping_add(number(image, at + 16, 8));
                ram.put(base + number(image, at, 8), &value.to_le_bytes());
            }
        }
        const SHT_DYNSYM: u64 = 11;
        let mut symbols = HashMap::new();
        for dynsym in sections.iter().filter(|s| s.kind == SHT_DYNSYM) {
            let names = sections[dynsym.link].offset;
            for at in (dynsym.offset..dynsym.offset + dynsym.size).step_by(24) {
                let name = text(image, names + number(image, at, 4) as usize);
                symbols.insert(name, base + number(image, at + 8, 8));
            }
        }
        Object { symbols }
    }

    pub fn symbol(&self, name: &str) -> u64 {
        *self
            .symbols
            .get(name)
            .unwrap_or_else(|| panic!("no symbol {name}"))
    }
}
