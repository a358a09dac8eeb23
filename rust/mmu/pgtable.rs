// SPDX-License-Identifier: GPL-2.0

//! Page tables: a tree of 4 KiB tables in VRAM and the driver's picture of it.
//!
//! The format of entries is the generation's. The CPU writes entries through the BAR; the caller
//! flushes the host data path and the TLBs afterwards. Tables that became empty are freed only
//! after that, see [`Update`].

use kernel::{page::PAGE_SIZE, prelude::*, sizes::SZ_4K, sync::Arc};

use super::bo::Bo;
use crate::{
    gpu::{
        memory::VramRange,
        Gpu, //
    },
    hw::Level,
};

/// Entries of a table.
const ENTRIES: usize = 512;
const ENTRY_BITS: u32 = 9;
const ENTRY_BYTES: usize = 8;
const PAGE_BITS: u32 = 12;
/// The level of the root.
const ROOT: Level = 3;
/// The level whose entries may map a block instead of pointing to a table: 2 MiB.
const BLOCK: Level = 1;
/// Largest fragment in log2 pages.
const MAX_FRAGMENT: u32 = 9;

/// Bytes that an entry of a table at `level` covers.
const fn span(level: Level) -> u64 {
    1 << (PAGE_BITS + level * ENTRY_BITS)
}

/// The number of the entry for `va` in a table at `level`.
fn index(level: Level, va: u64) -> usize {
    (va >> (PAGE_BITS + level * ENTRY_BITS)) as usize % ENTRIES
}

/// A table.
struct Table {
    range: VramRange,
    level: Level,
    /// Entries that map memory themselves.
    leaves: [u64; ENTRIES / 64],
    /// Entries that point to tables; empty at level 0.
    children: KVVec<Option<KBox<Table>>>,
    /// How many entries are in use.
    used: usize,
}

impl Table {
    fn new(gpu: &Gpu, level: Level) -> Result<KBox<Self>> {
        let range = gpu.vram().alloc(SZ_4K as u64, true)?;
        let mut children = KVVec::new();
        if level > 0 {
            children.reserve(ENTRIES, GFP_KERNEL)?;
            for _ in 0..ENTRIES {
                children.push(None, GFP_KERNEL)?;
            }
        }
        let table = KBox::new(
            Self {
                range,
                level,
                leaves: [0; ENTRIES / 64],
                children,
                used: 0,
            },
            GFP_KERNEL,
        )?;
        let empty = gpu.generation().gmc.empty(level);
        table.write(gpu, 0, ENTRIES, |_| empty)?;
        Ok(table)
    }

    fn write(
        &self,
        gpu: &Gpu,
        first: usize,
        count: usize,
        value: impl FnMut(usize) -> u64,
    ) -> Result {
        let at = usize::try_from(self.range.start())? + first * ENTRY_BYTES;
        gpu.vram().bar().write64s(at, count, value)
    }

    fn is_leaf(&self, i: usize) -> bool {
        self.leaves[i / 64] & (1 << (i % 64)) != 0
    }

    fn set_leaf(&mut self, i: usize, leaf: bool) {
        if leaf == self.is_leaf(i) {
            return;
        }
        self.leaves[i / 64] ^= 1 << (i % 64);
        if leaf {
            self.used += 1;
        } else {
            self.used -= 1;
        }
    }

    /// Maps the bytes from `va` to `end`, all below this table, to physical memory from `pa` on.
    fn map(&mut self, cx: &Update<'_>, va: u64, end: u64, pa: u64, flags: u64) -> Result {
        if self.level == 0 {
            return self.map_pages(cx, va, end, pa, flags);
        }
        let gmc = cx.gpu.generation().gmc;
        let step = span(self.level);
        let mut at = va;
        while at < end {
            let next = ((at / step + 1) * step).min(end);
            let phys = pa + (at - va);
            let i = index(self.level, at);
            let whole = at % step == 0 && next - at == step && phys % step == 0;
            if self.level == BLOCK && whole && self.children[i].is_none() {
                let entry = gmc.leaf(self.level, phys, flags, MAX_FRAGMENT);
                self.write(cx.gpu, i, 1, |_| entry)?;
                self.set_leaf(i, true);
            } else {
                if self.children[i].is_none() {
                    let child = Table::new(cx.gpu, self.level - 1)?;
                    let entry = gmc.table(self.level, cx.gpu.vram_pa(child.range.start()));
                    self.write(cx.gpu, i, 1, |_| entry)?;
                    self.children[i] = Some(child);
                    self.used += 1;
                }
                let child = self.children[i].as_mut().ok_or(EINVAL)?;
                child.map(cx, at, next, phys, flags)?;
            }
            at = next;
        }
        Ok(())
    }

    fn map_pages(&mut self, cx: &Update<'_>, va: u64, end: u64, pa: u64, flags: u64) -> Result {
        let gmc = cx.gpu.generation().gmc;
        let mut at = va;
        while at < end {
            let phys = pa + (at - va);
            let pages = (end - at) / PAGE_SIZE as u64;
            // The largest block of pages that is aligned on both sides.
            let fragment = (at >> PAGE_BITS)
                .trailing_zeros()
                .min((phys >> PAGE_BITS).trailing_zeros())
                .min(pages.ilog2())
                .min(MAX_FRAGMENT);
            let count = 1usize << fragment;
            let first = index(0, at);
            self.write(cx.gpu, first, count, |i| {
                gmc.leaf(0, phys + (i * PAGE_SIZE) as u64, flags, fragment)
            })?;
            for i in first..first + count {
                self.set_leaf(i, true);
            }
            at += (count * PAGE_SIZE) as u64;
        }
        Ok(())
    }

    /// Clears the entries for the bytes from `va` to `end`. A block that is only partly inside is
    /// an error: mappings are taken away as they were made.
    fn unmap(&mut self, cx: &mut Update<'_>, va: u64, end: u64) -> Result {
        let empty = cx.gpu.generation().gmc.empty(self.level);
        let step = span(self.level);
        if self.level == 0 {
            let first = index(0, va);
            let count = ((end - va) / step) as usize;
            self.write(cx.gpu, first, count, |_| empty)?;
            for i in first..first + count {
                self.set_leaf(i, false);
            }
            return Ok(());
        }
        let mut at = va;
        while at < end {
            let next = ((at / step + 1) * step).min(end);
            let i = index(self.level, at);
            if self.is_leaf(i) {
                if at % step != 0 || next - at != step {
                    return Err(EINVAL);
                }
                self.write(cx.gpu, i, 1, |_| empty)?;
                self.set_leaf(i, false);
            } else if let Some(child) = self.children[i].as_mut() {
                child.unmap(cx, at, next)?;
                // Without memory for the list the empty table stays where it is.
                if child.used == 0 && cx.garbage.reserve(1, GFP_KERNEL).is_ok() {
                    self.write(cx.gpu, i, 1, |_| empty)?;
                    if let Some(child) = self.children[i].take() {
                        self.used -= 1;
                        cx.garbage.push(child, GFP_KERNEL)?;
                    }
                }
            }
            at = next;
        }
        Ok(())
    }
}

/// A change of page tables. Holds the tables that it made superfluous; drop it when the TLBs have
/// forgotten them.
pub(super) struct Update<'a> {
    gpu: &'a Gpu,
    garbage: KVec<KBox<Table>>,
}

impl<'a> Update<'a> {
    /// Starts a change.
    pub(super) fn new(gpu: &'a Arc<Gpu>) -> Self {
        Self {
            gpu,
            garbage: KVec::new(),
        }
    }
}

/// The page tables of an address space.
pub(super) struct Tree {
    root: KBox<Table>,
}

impl Tree {
    /// Makes empty page tables.
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        Ok(Self {
            root: Table::new(gpu, ROOT)?,
        })
    }

    /// The address of the root as the hardware wants it.
    pub(super) fn root_pa(&self, gpu: &Gpu) -> u64 {
        gpu.vram_pa(self.root.range.start())
    }

    /// Maps `len` bytes of `bo` from `offset` on at `va`.
    pub(super) fn map(
        &mut self,
        cx: &mut Update<'_>,
        va: u64,
        bo: &Bo,
        offset: u64,
        len: u64,
    ) -> Result {
        let flags = cx.gpu.generation().gmc.pte_flags(bo.attrs());
        let mut done = 0;
        while done < len {
            let (pa, run) = bo.run(cx.gpu, offset + done)?;
            let run = run.min(len - done);
            let at = va + done;
            self.root.map(cx, at, at + run, pa, flags)?;
            done += run;
        }
        Ok(())
    }

    /// Clears all entries for the `len` bytes from `va` on.
    pub(super) fn unmap(&mut self, cx: &mut Update<'_>, va: u64, len: u64) -> Result {
        self.root.unmap(cx, va, va + len)
    }
}
