// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The page-table walker.
//!
//! A context has `depth` levels of directories over a page table. Directory entries carry the
//! block fragment size: it says how many 4 KiB pages one entry of the page table below covers.
//! On gfx9 an entry of a page table may be "translate further": it then points to a table of
//! smaller pages. A directory entry with the P bit is itself a page-table entry of a huge page.

use rkfd_abi::bits::Field64;
use rkfd_abi::pte::{
    self, gfx12, EXECUTABLE as EXECUTE, PDE_ADDR, PTE_ADDR, READABLE as READ, SYSTEM, VALID,
    WRITEABLE as WRITE,
};

use super::tlb::Entry;
use super::FaultKind;
use crate::chips::Generation;
use crate::dma::GuestMemory;
use crate::log::Strict;
use crate::strict;
use crate::vram::Vram;

/// What differs between the entries of generations.
#[derive(Debug)]
pub struct Format {
    /// Partially resident.
    prt: u64,
    /// In a directory: the entry is a page.
    page: u64,
    /// An entry that is a page carries that bit in the page table too.
    page_everywhere: bool,
    /// In a page table: the entry points on. 0 if there is no such thing.
    further: u64,
    fragment: Field64,
    /// Bits of a directory entry that mean nothing.
    pde_reserved: u64,
    /// Bits of a page-table entry that mean nothing.
    pte_reserved: u64,
}

static GFX9: Format = Format {
    prt: pte::PRT,
    page: pte::PDE_PTE,
    page_everywhere: false,
    further: pte::TF,
    fragment: pte::PDE_BFS,
    // TMZ, R, X, 53:48 and 58:55. The W bit of a directory is left alone.
    pde_reserved: 1 << 3 | 1 << 4 | 1 << 5 | 0x3f << 48 | 0xf << 55,
    // 50:48, 53:52 and 63:59.
    pte_reserved: 7 << 48 | 3 << 52 | 0x1f << 59,
};

static GFX12: Format = Format {
    prt: gfx12::PRT,
    page: gfx12::IS_PTE,
    page_everywhere: true,
    further: 0,
    fragment: gfx12::PDE_BFS,
    // Bit 56 is one that the chip itself may set: the entry was used.
    pde_reserved: !gfx12::PDE_KNOWN & !(1 << 56),
    pte_reserved: !gfx12::PTE_KNOWN,
};

impl Format {
    /// That of a generation.
    pub fn of(generation: Generation) -> &'static Self {
        match generation {
            Generation::Gfx9 => &GFX9,
            Generation::Gfx12 => &GFX12,
        }
    }
}

/// An address space.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// How entries look.
    pub format: &'static Format,
    /// It may be used.
    pub enabled: bool,
    /// Directory levels.
    pub depth: u8,
    /// A page table covers 2^(9 + this) pages.
    pub block_size: u8,
    /// Root entry: address and flags.
    pub root: u64,
    /// First page number.
    pub first_page: u64,
    /// Last page number.
    pub last_page: u64,
}

/// Where tables are read from.
pub struct TableMemory<'a> {
    /// Video memory.
    pub vram: &'a Vram,
    /// Guest memory.
    pub dma: &'a GuestMemory,
    /// Physical address of VRAM's first byte.
    pub vram_base: u64,
}

impl TableMemory<'_> {
    fn entry(&self, table: u64, system: bool, index: u64) -> Option<u64> {
        let addr = table + index * 8;
        if system {
            self.dma.load64(addr).ok()
        } else {
            self.vram.load64(addr.checked_sub(self.vram_base)?).ok()
        }
    }
}

/// The entries that a walk met, the root first.
#[derive(Debug, Default, Clone, Copy)]
pub struct Path {
    entries: [u64; 8],
    len: usize,
}

impl Path {
    fn push(&mut self, entry: u64) {
        if let Some(slot) = self.entries.get_mut(self.len) {
            *slot = entry;
            self.len += 1;
        }
    }

    /// The entries.
    pub fn entries(&self) -> &[u64] {
        &self.entries[..self.len]
    }
}

/// Walks the tables for the page of `va`, and notes the way in `path`.
pub fn walk(
    memory: &TableMemory<'_>,
    context: &Context,
    va: u64,
    path: &mut Path,
    strict: &Strict,
) -> Result<Entry, FaultKind> {
    if !context.enabled {
        return Err(FaultKind::ContextDisabled);
    }
    let page = va >> 12;
    if page < context.first_page || page > context.last_page {
        return Err(FaultKind::Range);
    }
    if context.root & VALID == 0 {
        return Err(FaultKind::Pde(context.depth.saturating_sub(1)));
    }
    let format = context.format;
    let page = page - context.first_page;
    let block_bits = 9 + u32::from(context.block_size);
    let mut pde = context.root;
    path.push(pde);
    for level in (0..context.depth).rev() {
        // Bits of the page number below this directory's index.
        let covered = block_bits + 9 * u32::from(level);
        let mut index = page >> covered;
        // The root directory takes all bits that are left.
        if level + 1 != context.depth {
            index &= 0x1ff;
        }
        let table = pde & PDE_ADDR;
        let Some(entry) = memory.entry(table, pde & SYSTEM != 0, index) else {
            strict!(
                strict,
                "gmc",
                "page directory at {table:#x} of va {va:#x} is nowhere"
            );
            return Err(FaultKind::Bus);
        };
        path.push(entry);
        if entry & VALID == 0 {
            return Err(FaultKind::Pde(level));
        }
        if entry & format.page != 0 {
            return leaf(memory, format, entry, page, covered, va, strict);
        }
        if entry & format.pde_reserved != 0 {
            strict!(
                strict,
                "gmc",
                "directory entry {entry:#x} (level {level}, va {va:#x}) has reserved bits"
            );
        }
        pde = entry;
    }
    // The page table: its entries cover 2^fragment pages, as the last directory entry says.
    let (fragment, bits) = match context.depth {
        // A flat table is as large as its context.
        0 => (0, 36),
        _ => (format.fragment.get(pde) as u32, block_bits),
    };
    if fragment > block_bits {
        strict!(
            strict,
            "gmc",
            "block fragment {fragment} in {pde:#x} exceeds a block, va {va:#x}"
        );
        return Err(FaultKind::Pde(0));
    }
    let index = (page & mask(bits)) >> fragment;
    let table = pde & PDE_ADDR;
    let Some(pte) = memory.entry(table, pde & SYSTEM != 0, index) else {
        strict!(
            strict,
            "gmc",
            "page table at {table:#x} of va {va:#x} is nowhere"
        );
        return Err(FaultKind::Bus);
    };
    path.push(pte);
    if pte & format.further == 0 {
        let place = Place {
            table: pde,
            index,
            entries: mask(bits - fragment) + 1,
            covers: fragment,
        };
        uniform(memory, &place, pte, va, strict);
        return leaf(memory, format, pte, page, fragment, va, strict);
    }
    if pte & VALID == 0 {
        return Err(FaultKind::NotPresent);
    }
    if fragment == 0 {
        strict!(
            strict,
            "gmc",
            "entry {pte:#x} of va {va:#x} translates further below 4 KiB"
        );
        return Err(FaultKind::NotPresent);
    }
    let table = pte & PDE_ADDR;
    let Some(last) = memory.entry(table, pte & SYSTEM != 0, page & mask(fragment)) else {
        strict!(
            strict,
            "gmc",
            "small-page table at {table:#x} of va {va:#x} is nowhere"
        );
        return Err(FaultKind::Bus);
    };
    path.push(last);
    if last & format.further != 0 && last & VALID != 0 {
        strict!(
            strict,
            "gmc",
            "entry {last:#x} of va {va:#x} translates further twice"
        );
        return Err(FaultKind::NotPresent);
    }
    let place = Place {
        table: pte,
        index: page & mask(fragment),
        entries: mask(fragment) + 1,
        covers: 0,
    };
    uniform(memory, &place, last, va, strict);
    leaf(memory, format, last, page, 0, va, strict)
}

/// Where an entry was found.
struct Place {
    /// The entry that pointed to its table.
    table: u64,
    index: u64,
    /// Entries of the table.
    entries: u64,
    /// Each of them covers 2^this pages.
    covers: u32,
}

/// Checks the promise of the fragment field: the aligned group of 2^fragment pages around the
/// entry is contiguous and has the same flags. The L1 TLB of the chip caches the group as one.
/// An invalid neighbour says nothing: the driver may be about to map or unmap the group.
fn uniform(memory: &TableMemory<'_>, place: &Place, pte: u64, va: u64, strict: &Strict) {
    let fragment = (pte >> 7 & 0x1f) as u32;
    if pte & VALID == 0 || fragment <= place.covers {
        return;
    }
    let group = (1u64 << (fragment - place.covers)).min(place.entries);
    let first = place.index & !(group - 1);
    for index in [first, first + group - 1] {
        let table = place.table & PDE_ADDR;
        let entry = memory.entry(table, place.table & SYSTEM != 0, index);
        let entry = entry.unwrap_or(0);
        let distance = index.wrapping_sub(place.index) << (place.covers + 12);
        let expected = (pte & PTE_ADDR).wrapping_add(distance) & PTE_ADDR | pte & !PTE_ADDR;
        if entry & VALID != 0 && entry != expected {
            strict!(
                strict,
                "gmc",
                "entry {pte:#x} of va {va:#x} claims a fragment of 2^{fragment} pages, but entry \
                 {index:#x} of its table at {table:#x} is {entry:#x} and not {expected:#x}"
            );
        }
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The page that `pte`, covering 2^`bits` pages, gives to page number `page`.
fn leaf(
    memory: &TableMemory<'_>,
    format: &Format,
    pte: u64,
    page: u64,
    bits: u32,
    va: u64,
    strict: &Strict,
) -> Result<Entry, FaultKind> {
    if pte & VALID == 0 {
        return Err(FaultKind::NotPresent);
    }
    // Valid, partially resident and without any right: what a driver writes to get no-retry
    // faults.
    if pte & format.prt != 0 {
        if pte & (READ | WRITE | EXECUTE) != 0 {
            strict!(
                strict,
                "gmc",
                "entry {pte:#x} of va {va:#x}: PRT pages are not modelled"
            );
        }
        return Err(FaultKind::NotPresent);
    }
    if format.page_everywhere && pte & format.page == 0 {
        strict!(
            strict,
            "gmc",
            "entry {pte:#x} of va {va:#x} is a page without the bit that says so"
        );
    }
    if pte & format.pte_reserved != 0 {
        strict!(
            strict,
            "gmc",
            "entry {pte:#x} of va {va:#x} has reserved bits"
        );
    }
    let base = pte & PTE_ADDR;
    // The offset is added, so that the memory may lie anywhere: the C driver makes one entry of
    // neighbouring pages as soon as the virtual address is aligned (amdgpu_vm_update_range,
    // amdgpu_vm_pte_fragment).
    let system = pte & SYSTEM != 0;
    let physical = base + ((page & mask(bits)) << 12);
    let page = if system {
        physical
    } else {
        match physical.checked_sub(memory.vram_base) {
            Some(offset) if offset < memory.vram.len() => offset,
            _ => {
                strict!(
                    strict,
                    "gmc",
                    "entry {pte:#x} of va {va:#x}: {physical:#x} is outside VRAM"
                );
                return Err(FaultKind::Bus);
            }
        }
    };
    Ok(Entry {
        page,
        system,
        read: pte & READ != 0,
        write: pte & WRITE != 0,
        execute: pte & EXECUTE != 0,
    })
}
