// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The page-table walker.
//!
//! A context has `depth` levels of directories above a page table. PDEs carry the block fragment
//! size: the number of 4 KiB pages (log2) that one PTE of the page table below covers. On gfx9 a
//! PTE may be "translate further": it then points to a table of smaller pages. A PDE with the P bit
//! is itself the PTE of a huge page.

use rkfd_abi::bits::Field64;
use rkfd_abi::pte::{
    self, gfx12, EXECUTABLE as EXECUTE, PDE_ADDR, PTE_ADDR, READABLE as READ, SNOOPED, SYSTEM,
    VALID, WRITEABLE as WRITE,
};

use super::directory::Cache;
use super::suspects::{Suspect, Suspects};
use super::tlb::{Entry, Mtype};
use super::FaultKind;
use crate::chips::Generation;
use crate::dma::GuestMemory;
use crate::log::Strict;
use crate::strict;
use crate::vram::Vram;

/// PDE and PTE formats that differ between generations.
#[derive(Debug)]
pub struct Format {
    /// PRT bit: partially resident.
    prt: u64,
    /// In a PDE: the entry is a PTE.
    page: u64,
    /// Whether that bit is also set in PTEs of the page table.
    page_everywhere: bool,
    /// In a PTE: translate further. 0 if not supported.
    further: u64,
    fragment: Field64,
    /// In a PTE: memory type.
    mtype: Field64,
    /// Reserved bits of a PDE.
    pde_reserved: u64,
    /// Reserved bits of a PTE.
    pte_reserved: u64,
    /// Address bits of system memory (`gmc_v9_0_sw_init`, `gmc_v12_0_sw_init`).
    system_bits: u32,
}

static GFX9: Format = Format {
    prt: pte::PRT,
    page: pte::PDE_PTE,
    page_everywhere: false,
    further: pte::TF,
    fragment: pte::PDE_BFS,
    mtype: pte::MTYPE,
    // TMZ, R, X, 53:48 and 58:55. The W bit of a PDE is ignored.
    pde_reserved: 1 << 3 | 1 << 4 | 1 << 5 | 0x3f << 48 | 0xf << 55,
    // 50:48, 53:52 and 63:59.
    pte_reserved: 7 << 48 | 3 << 52 | 0x1f << 59,
    system_bits: 48,
};

static GFX12: Format = Format {
    prt: gfx12::PRT,
    page: gfx12::IS_PTE,
    page_everywhere: true,
    further: 0,
    fragment: gfx12::PDE_BFS,
    mtype: gfx12::MTYPE,
    // Bit 56 may be set by the chip itself: accessed.
    pde_reserved: !gfx12::PDE_KNOWN & !(1 << 56),
    pte_reserved: !gfx12::PTE_KNOWN,
    system_bits: 44,
};

impl Format {
    /// Returns the format of a generation.
    pub fn of(generation: Generation) -> &'static Self {
        match generation {
            Generation::Gfx9 => &GFX9,
            Generation::Gfx12 => &GFX12,
        }
    }

    /// Returns the address of the table in VRAM that an entry of a directory points to, if it is
    /// the kind of entry that does.
    pub fn table(&self, entry: u64) -> Option<u64> {
        let further = entry & self.further != 0;
        let is_pde = entry & (self.page | self.pde_reserved) == 0;
        (entry & (VALID | SYSTEM) == VALID && (further || is_pde)).then_some(entry & PDE_ADDR)
    }

    /// Returns whether the table that a PDE points to has entries that point to other tables.
    pub fn translates_further(&self, pde: u64) -> bool {
        self.further != 0 && self.fragment.get(pde) != 0
    }
}

/// A VM context.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// PDE and PTE format.
    pub format: &'static Format,
    /// Whether the context is enabled.
    pub enabled: bool,
    /// Number of directory levels.
    pub depth: u8,
    /// A page table covers 2^(9 + this) pages.
    pub block_size: u8,
    /// Root PDE: address and flags.
    pub root: u64,
    /// First page number.
    pub first_page: u64,
    /// Last page number.
    pub last_page: u64,
}

/// Memory that contains the page tables.
pub struct TableMemory<'a> {
    /// Video memory.
    pub vram: &'a Vram,
    /// Guest memory.
    pub dma: &'a GuestMemory,
    /// Physical address of the start of VRAM.
    pub vram_base: u64,
    /// Whether all guest memory is cached by its processors.
    pub cached: bool,
    /// Cached directory entries, if any are.
    pub cache: Option<Cache<'a>>,
    /// Receives PTEs whose fragment has other neighbours, with the VMID.
    pub suspects: Option<(&'a Suspects, u8)>,
}

impl TableMemory<'_> {
    /// Returns the directory entry of level `level` for page number `page`, of which `covered` bits
    /// are below the directory's index: from the cache, or from the table.
    fn directory(
        &self,
        (table, system, index): (u64, bool, u64),
        level: u8,
        page: u64,
        covered: u32,
    ) -> Option<u64> {
        let cached = self.cache.as_ref();
        cached
            .and_then(|cache| cache.find(level, page >> covered))
            .or_else(|| self.entry(table, system, index))
    }

    /// Caches a valid directory entry.
    fn keep(&self, level: u8, page: u64, covered: u32, entry: u64) {
        if let Some(cache) = &self.cache {
            cache.insert(level, page >> covered, entry);
        }
    }

    /// Returns the fault of a table at `table` without memory, and reports it, unless the card may
    /// not access the bus.
    fn missing(&self, what: &str, table: u64, va: u64, strict: &Strict) -> FaultKind {
        if !self.dma.is_master() {
            return FaultKind::NoMaster;
        }
        strict!(
            strict,
            "gmc",
            "{what} at {table:#x} of va {va:#x}: no memory"
        );
        FaultKind::Bus
    }

    fn entry(&self, table: u64, system: bool, index: u64) -> Option<u64> {
        let addr = table + index * 8;
        if system {
            self.dma.load64(addr).ok()
        } else {
            self.vram.load64(addr.checked_sub(self.vram_base)?).ok()
        }
    }
}

/// Entries read during a walk, the root first.
#[derive(Debug, Default, Clone, Copy)]
pub struct Path {
    entries: [u64; 8],
    len: usize,
    fragment: u32,
}

impl Path {
    fn push(&mut self, entry: u64) {
        if let Some(slot) = self.entries.get_mut(self.len) {
            *slot = entry;
            self.len += 1;
        }
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[u64] {
        &self.entries[..self.len]
    }

    /// Returns log2 of the number of pages that an L1 TLB may cache by the last entry.
    pub fn fragment(&self) -> u32 {
        self.fragment
    }
}

/// Returns the 48 bits of a canonical address that page tables translate; others are unchanged, and
/// so beyond the end of each address space.
fn strip_sign(va: u64) -> u64 {
    match va >> 47 {
        0x1_ffff => va & ((1 << 48) - 1),
        _ => va,
    }
}

/// Walks the tables for the page of `va`, and records the entries in `path`.
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
    let page = strip_sign(va) >> 12;
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
        // The root directory uses all remaining bits.
        if level + 1 != context.depth {
            index &= 0x1ff;
        }
        let table = pde & PDE_ADDR;
        let from = (table, pde & SYSTEM != 0, index);
        let Some(entry) = memory.directory(from, level, page, covered) else {
            return Err(memory.missing("page directory", table, va, strict));
        };
        path.push(entry);
        if entry & VALID == 0 {
            return Err(FaultKind::Pde(level));
        }
        if entry & format.page != 0 {
            path.fragment = covered;
            return leaf(memory, format, entry, page, covered, va, strict);
        }
        if entry & format.pde_reserved != 0 {
            strict!(
                strict,
                "gmc",
                "PDE {entry:#x} (level {level}, va {va:#x}) has reserved bits"
            );
        }
        memory.keep(level, page, covered, entry);
        pde = entry;
    }
    // The page table: its PTEs cover 2^fragment pages, given by the last PDE.
    let (fragment, bits) = match context.depth {
        // A flat table is as large as its context.
        0 => (0, 36),
        _ => (format.fragment.get(pde) as u32, block_bits),
    };
    if fragment > block_bits {
        strict!(
            strict,
            "gmc",
            "block fragment {fragment} in PDE {pde:#x} exceeds a block, va {va:#x}"
        );
        return Err(FaultKind::Pde(0));
    }
    let index = (page & mask(bits)) >> fragment;
    let table = pde & PDE_ADDR;
    let Some(pte) = memory.entry(table, pde & SYSTEM != 0, index) else {
        return Err(memory.missing("page table", table, va, strict));
    };
    path.push(pte);
    if pte & format.further == 0 {
        let place = Place {
            table: pde,
            index,
            entries: mask(bits - fragment) + 1,
            covers: fragment,
        };
        path.fragment = place.fragment(pte);
        uniform(memory, place, pte, va);
        return leaf(memory, format, pte, page, fragment, va, strict);
    }
    if pte & VALID == 0 {
        return Err(FaultKind::NotPresent);
    }
    if fragment == 0 {
        strict!(
            strict,
            "gmc",
            "PTE {pte:#x} of va {va:#x} translates further below 4 KiB"
        );
        return Err(FaultKind::NotPresent);
    }
    let table = pte & PDE_ADDR;
    let Some(last) = memory.entry(table, pte & SYSTEM != 0, page & mask(fragment)) else {
        return Err(memory.missing("small-page table", table, va, strict));
    };
    path.push(last);
    if last & format.further != 0 && last & VALID != 0 {
        strict!(
            strict,
            "gmc",
            "PTE {last:#x} of va {va:#x} translates further twice"
        );
        return Err(FaultKind::NotPresent);
    }
    let place = Place {
        table: pte,
        index: page & mask(fragment),
        entries: mask(fragment) + 1,
        covers: 0,
    };
    path.fragment = place.fragment(last);
    uniform(memory, place, last, va);
    leaf(memory, format, last, page, 0, va, strict)
}

/// Location of a PTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The PDE that points to its table.
    table: u64,
    index: u64,
    /// Number of entries in the table.
    entries: u64,
    /// log2 of the pages that each entry covers.
    covers: u32,
}

/// Fragment field of a PTE.
const FRAGMENT: u64 = 0x1f << 7;

/// Returns the fragment field of a PTE.
fn fragment_of(pte: u64) -> u32 {
    ((pte & FRAGMENT) >> FRAGMENT.trailing_zeros()) as u32
}

impl Place {
    /// Returns log2 of the number of pages in the group of a PTE at this place.
    fn fragment(&self, pte: u64) -> u32 {
        let table = self.entries.trailing_zeros() + self.covers;
        fragment_of(pte).clamp(self.covers, table)
    }
}

/// An entry of the group of a PTE that translates otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement {
    index: u64,
    entry: u64,
    expected: u64,
}

/// Returns an entry of the group of a PTE that translates otherwise: of its ends, and of those
/// whose index differs in one bit, so that each entry is compared with some others. The fragments
/// may differ: a driver that maps a part of the group again makes it smaller there.
fn disagreement(memory: &TableMemory<'_>, place: &Place, pte: u64) -> Option<Disagreement> {
    let fragment = place.fragment(pte);
    if pte & VALID == 0 || fragment == place.covers {
        return None;
    }
    let bits = fragment - place.covers;
    let first = place.index & !mask(bits);
    let near = (0..bits).map(|bit| place.index ^ 1 << bit);
    [first, first + mask(bits)]
        .into_iter()
        .chain(near)
        .find_map(|index| {
            let table = place.table & PDE_ADDR;
            let entry = memory.entry(table, place.table & SYSTEM != 0, index);
            let entry = entry.unwrap_or(0);
            let distance = index.wrapping_sub(place.index) << (place.covers + 12);
            let expected = (pte & PTE_ADDR).wrapping_add(distance) & PTE_ADDR | pte & !PTE_ADDR;
            let differs = entry & VALID != 0 && (entry ^ expected) & !FRAGMENT != 0;
            differs.then_some(Disagreement {
                index,
                entry,
                expected,
            })
        })
}

/// Checks the fragment field: the aligned group of 2^fragment pages around the PTE must be
/// contiguous and have equal flags, since the chip's L1 TLB caches the group as one. An invalid
/// neighbour is not an error: the driver may be about to map or unmap the group. With retry faults
/// it may do so while waves access it, so that the group is checked again later.
fn uniform(memory: &TableMemory<'_>, place: Place, pte: u64, va: u64) {
    let Some((suspects, vmid)) = memory.suspects else {
        return;
    };
    if let Some(neighbour) = disagreement(memory, &place, pte) {
        suspects.add(Suspect {
            vmid,
            va,
            place,
            pte,
            neighbour,
        });
    }
}

/// Returns whether a PTE and its neighbour are unchanged.
pub fn still(memory: &TableMemory<'_>, suspect: &Suspect) -> bool {
    let Suspect { place, pte, .. } = suspect;
    let table = place.table & PDE_ADDR;
    memory.entry(table, place.table & SYSTEM != 0, place.index) == Some(*pte)
        && disagreement(memory, place, *pte) == Some(suspect.neighbour)
}

/// Reports a PTE whose fragment has other neighbours.
pub fn report(suspect: &Suspect, strict: &Strict) {
    let Suspect { place, pte, va, .. } = suspect;
    let Disagreement {
        index,
        entry,
        expected,
    } = suspect.neighbour;
    strict!(
        strict,
        "gmc",
        "PTE {pte:#x} of va {va:#x} claims a fragment of 2^{} pages, but entry {index:#x} of its \
         table at {:#x} is {entry:#x} and not {expected:#x}",
        fragment_of(*pte),
        place.table & PDE_ADDR
    );
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Returns the translation of page number `page` by `pte`, which covers 2^`bits` pages.
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
    // Valid, PRT and without permissions: a driver's PTE for no-retry faults.
    if pte & format.prt != 0 {
        if pte & (READ | WRITE | EXECUTE) != 0 {
            strict!(
                strict,
                "gmc",
                "PTE {pte:#x} of va {va:#x}: PRT is not modelled"
            );
        }
        return Err(FaultKind::NoRetry);
    }
    if format.page_everywhere && pte & format.page == 0 {
        strict!(
            strict,
            "gmc",
            "PTE {pte:#x} of va {va:#x} is a leaf without the bit for PTEs"
        );
    }
    if pte & format.pte_reserved != 0 {
        strict!(
            strict,
            "gmc",
            "PTE {pte:#x} of va {va:#x} has reserved bits"
        );
    }
    let base = pte & PTE_ADDR;
    // The offset is added, so memory need not be aligned to the fragment: the C driver merges PTEs
    // of neighbouring pages as soon as the virtual address is aligned (amdgpu_vm_update_range,
    // amdgpu_vm_pte_fragment).
    let system = pte & SYSTEM != 0;
    let physical = base + ((page & mask(bits)) << 12);
    let page = if system {
        if physical >> format.system_bits != 0 {
            strict!(
                strict,
                "gmc",
                "PTE {pte:#x} of va {va:#x}: more than {} address bits",
                format.system_bits
            );
        }
        if memory.cached && pte & SNOOPED == 0 {
            strict!(
                strict,
                "gmc",
                "PTE {pte:#x} of va {va:#x}: cached memory without SNOOPED"
            );
        }
        physical
    } else {
        match physical.checked_sub(memory.vram_base) {
            Some(offset) if offset < memory.vram.len() => offset,
            _ => {
                strict!(
                    strict,
                    "gmc",
                    "PTE {pte:#x} of va {va:#x}: {physical:#x} is outside VRAM"
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
        mtype: Mtype::new(format.mtype.get(pte)),
        snooped: pte & SNOOPED != 0,
    })
}
