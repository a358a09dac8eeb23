// SPDX-License-Identifier: GPL-2.0

//! Page tables: a tree of 4 KiB tables in VRAM and the driver's picture of it.
//!
//! The format of entries is the generation's. The CPU writes few entries through the BAR; many at
//! once are left to the DMA engines. The caller flushes the host data path and the TLBs afterwards.
//! Tables that became empty are freed only after that, see [`Update`].

use kernel::{page::PAGE_SIZE, prelude::*, sizes::SZ_4K, sync::Arc};

use super::placement::Placement;
use crate::{
    card::vram::VramRange,
    gpu::{
        dma::{self, PteRun},
        Gpu, //
    },
    hw::{Level, PteAttrs},
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

/// Changes of so many bytes are left to the DMA engines as far as entries are in rows.
const DMA_MIN_BYTES: u64 = 4096 * PAGE_SIZE as u64;
/// Shorter rows the CPU writes in any case: an engine's packet for each would not be less work.
const DMA_MIN_ROW: usize = 32;

/// Bytes that an entry of a table at `level` covers.
const fn span(level: Level) -> u64 {
    1 << (PAGE_BITS + level * ENTRY_BITS)
}

/// The number of the entry for `va` in a table at `level`.
fn index(level: Level, va: u64) -> usize {
    (va >> (PAGE_BITS + level * ENTRY_BITS)) as usize % ENTRIES
}

type Children = [Option<KBox<Table>>; ENTRIES];

/// A table.
struct Table {
    range: VramRange,
    level: Level,
    /// Entries that map memory themselves.
    leaves: [u64; ENTRIES / 64],
    /// Entries that point to tables; not there at level 0.
    children: Option<KBox<Children>>,
    /// How many entries are in use.
    used: usize,
}

/// One empty table of each level, for the next that is needed: who maps and unmaps in turn should neither wait for
/// new ones nor have the old ones cleared.
type Kept = [Option<KBox<Table>>; ROOT as usize];

/// Tables of pages that were made in advance.
pub(super) struct Spare(KVVec<KBox<Table>>);

impl Spare {
    /// No tables.
    pub(super) const fn none() -> Self {
        Self(KVVec::new())
    }

    /// Makes `count` tables. There is no room made for them: this is for those who make room.
    pub(super) fn new(gpu: &Gpu, count: usize) -> Result<Self> {
        let mut tables = KVVec::with_capacity(count, GFP_KERNEL)?;
        while tables.len() < count {
            match Table::new(gpu, 0) {
                Ok(table) => tables.push_within_capacity(table)?,
                Err(e) if e == ENOMEM && gpu.vram().wait_for_cleared()? => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self(tables))
    }
}

/// Entries that follow each other in a table: the address of the first, and by how much it grows.
struct Row {
    first: usize,
    count: usize,
    addr: u64,
    step: u64,
    /// What all entries hold besides the address.
    flags: u64,
}

impl Table {
    fn new(gpu: &Gpu, level: Level) -> Result<KBox<Self>> {
        let range = gpu.vram().alloc_table(SZ_4K as u64)?;
        let children = match level {
            0 => None,
            _ => Some(KBox::zeroed(GFP_KERNEL)?),
        };
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

    /// Writes a row of entries, now or with [`Update::write_out`] or [`Update::write_all`].
    fn write_row(&self, cx: &mut Update<'_>, row: &Row) -> Result {
        if cx.put_off || cx.by_dma && row.count >= DMA_MIN_ROW {
            let offset = self.range.start() + (row.first * ENTRY_BYTES) as u64;
            cx.rows
                .push((offset, run(cx.gpu, offset, row)), GFP_KERNEL)?;
            return Ok(());
        }
        self.write(cx.gpu, row.first, row.count, |i| {
            (row.addr + i as u64 * row.step) | row.flags
        })
    }

    /// Writes the table, and those below, as if they mapped nothing yet.
    fn rewrite(&self, gpu: &Gpu) -> Result {
        let gmc = gpu.generation().gmc;
        let empty = gmc.empty(self.level);
        self.write(gpu, 0, ENTRIES, |i| match self.child(i) {
            Some(child) => gmc.table(self.level, gpu.vram_pa(child.range.start())),
            None => empty,
        })?;
        let children = self.children.iter().flat_map(|all| all.iter());
        children.flatten().try_for_each(|child| child.rewrite(gpu))
    }

    fn child(&self, i: usize) -> Option<&Table> {
        self.children.as_ref()?[i].as_deref()
    }

    fn child_mut(&mut self, i: usize) -> Option<&mut Table> {
        self.children.as_mut()?[i].as_deref_mut()
    }

    /// Hangs a table in, or takes one out.
    fn replace_child(&mut self, i: usize, new: Option<KBox<Table>>) -> Option<KBox<Table>> {
        let children = self.children.as_mut()?;
        self.used += usize::from(new.is_some());
        let old = core::mem::replace(&mut children[i], new);
        self.used -= usize::from(old.is_some());
        old
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
    /// What was mapped there before, if anything, was one mapping.
    fn map(&mut self, cx: &mut Update<'_>, va: u64, end: u64, pa: u64, flags: u64) -> Result {
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
            // Reserve first: once the child is detached its PDE has to be overwritten.
            let block = self.level == BLOCK && whole && cx.rows.reserve(1, GFP_KERNEL).is_ok();
            if block && self.clear_child(cx, i) {
                let row = Row {
                    first: i,
                    count: 1,
                    addr: phys,
                    step: 0,
                    flags: gmc.leaf(self.level, 0, flags, MAX_FRAGMENT),
                };
                self.write_row(cx, &row)?;
                self.set_leaf(i, true);
            } else {
                if self.child(i).is_none() {
                    let child = cx.table(self.level - 1)?;
                    let entry = gmc.table(self.level, cx.gpu.vram_pa(child.range.start()));
                    self.write(cx.gpu, i, 1, |_| entry)?;
                    self.set_leaf(i, false);
                    self.replace_child(i, Some(child));
                }
                let child = self.child_mut(i).ok_or(EINVAL)?;
                child.map(cx, at, next, phys, flags)?;
            }
            at = next;
        }
        Ok(())
    }

    /// Lets the entry stand for a block: a table below it goes. False if it has to stay, for want
    /// of memory.
    fn clear_child(&mut self, cx: &mut Update<'_>, i: usize) -> bool {
        let Some(child) = self.child(i) else {
            return true;
        };
        debug_assert!(child.used > 0);
        if cx.garbage.reserve(1, GFP_KERNEL).is_err() {
            return false;
        }
        self.replace_child(i, None)
            .is_none_or(|child| cx.garbage.push_within_capacity(child).is_ok())
    }

    fn map_pages(&mut self, cx: &mut Update<'_>, va: u64, end: u64, pa: u64, flags: u64) -> Result {
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
            let row = Row {
                first,
                count,
                addr: phys,
                step: PAGE_SIZE as u64,
                flags: gmc.leaf(0, 0, flags, fragment),
            };
            self.write_row(cx, &row)?;
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
            let row = Row {
                first: index(0, va),
                count: ((end - va) / step) as usize,
                addr: 0,
                step: 0,
                flags: empty,
            };
            for i in row.first..row.first + row.count {
                self.set_leaf(i, false);
            }
            return self.write_row(cx, &row);
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
            } else if let Some(child) = self.child_mut(i) {
                child.unmap(cx, at, next)?;
                // Without memory for the list the empty table stays where it is.
                if child.used == 0 && cx.garbage.reserve(1, GFP_KERNEL).is_ok() {
                    self.write(cx.gpu, i, 1, |_| empty)?;
                    if let Some(child) = self.replace_child(i, None) {
                        cx.garbage.push(child, GFP_KERNEL)?;
                    }
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Blocks that stand for themselves among the bytes from `va` to `end`.
    fn blocks(&self, va: u64, end: u64) -> usize {
        if self.level < BLOCK {
            return 0;
        }
        let step = span(self.level);
        let mut count = 0;
        let mut at = va;
        while at < end {
            let next = ((at / step + 1) * step).min(end);
            let i = index(self.level, at);
            if self.is_leaf(i) {
                count += 1;
            } else if let Some(child) = self.child(i) {
                count += child.blocks(at, next);
            }
            at = next;
        }
        count
    }
}

/// The row at `offset` of VRAM as the DMA engines want it.
fn run(gpu: &Gpu, offset: u64, row: &Row) -> PteRun {
    PteRun {
        pe: gpu.vram_mc(offset),
        addr: row.addr,
        flags: row.flags,
        incr: row.step,
        count: row.count as u32,
    }
}

/// A change of page tables. Holds the tables that it made superfluous; drop it when the TLBs have
/// forgotten them.
pub(super) struct Update<'a> {
    gpu: &'a Arc<Gpu>,
    garbage: KVec<KBox<Table>>,
    spare: Spare,
    /// Those of the tree, while it changes.
    kept: Kept,
    /// Rows that are still to be written, and where in VRAM.
    rows: KVVec<(u64, PteRun)>,
    by_dma: bool,
    /// All entries that lead to memory are put off.
    put_off: bool,
}

/// Entries of page tables that follow each other and lead to memory.
pub(super) struct Span {
    /// Where in VRAM.
    offset: u64,
    count: usize,
    /// What they hold when they lead nowhere.
    empty: u64,
}

impl Span {
    /// Lets the entries lead nowhere.
    pub(super) fn clear(&self, gpu: &Gpu) -> Result {
        let at = usize::try_from(self.offset)?;
        gpu.vram().bar().write64s(at, self.count, |_| self.empty)
    }
}

impl<'a> Update<'a> {
    /// Starts a change of `bytes` of addresses.
    pub(super) fn new(gpu: &'a Arc<Gpu>, bytes: u64) -> Self {
        Self::with_spare(gpu, bytes, Spare::none())
    }

    /// As [`Self::new`], with tables for what has to be split.
    pub(super) fn with_spare(gpu: &'a Arc<Gpu>, bytes: u64, spare: Spare) -> Self {
        Self {
            gpu,
            garbage: KVec::new(),
            spare,
            kept: Kept::default(),
            rows: KVVec::new(),
            by_dma: bytes >= DMA_MIN_BYTES && dma::is_up(gpu),
            put_off: false,
        }
    }

    /// A change that is left to the CPU altogether.
    pub(super) fn by_cpu(gpu: &'a Arc<Gpu>) -> Self {
        Self::new(gpu, 0)
    }

    /// A change that lets entries lead to memory only with [`Self::write_all`].
    pub(super) fn put_off(gpu: &'a Arc<Gpu>) -> Self {
        Self {
            put_off: true,
            ..Self::new(gpu, 0)
        }
    }

    /// What [`Self::write_all`] is going to write.
    pub(super) fn spans(&self) -> Result<KVVec<Span>> {
        let gmc = self.gpu.generation().gmc;
        let mut spans: KVVec<Span> = KVVec::new();
        for (offset, run) in &self.rows {
            let level = if run.incr == 0 { BLOCK } else { 0 };
            let (offset, count) = (*offset, run.count as usize);
            let empty = gmc.empty(level);
            match spans.last_mut() {
                Some(last)
                    if last.empty == empty
                        && last.offset + (last.count * ENTRY_BYTES) as u64 == offset =>
                {
                    last.count += count;
                }
                _ => spans.push(
                    Span {
                        offset,
                        count,
                        empty,
                    },
                    GFP_KERNEL,
                )?,
            }
        }
        Ok(spans)
    }

    /// Writes what was put off, without memory of its own and without the DMA engines.
    pub(super) fn write_all(&mut self) -> Result {
        let bar = self.gpu.vram().bar();
        let mut rest = &self.rows[..];
        while let Some((first, _)) = rest.first() {
            // Rows that follow each other are written together.
            let mut end = *first;
            let mut rows = 0;
            for (offset, run) in rest {
                if *offset != end {
                    break;
                }
                end += u64::from(run.count) * ENTRY_BYTES as u64;
                rows += 1;
            }
            let (group, tail) = rest.split_at(rows);
            let mut entries = group.iter().flat_map(|(_, run)| {
                (0..u64::from(run.count)).map(|i| (run.addr + i * run.incr) | run.flags)
            });
            let count = (end - first) as usize / ENTRY_BYTES;
            bar.write64s(usize::try_from(*first)?, count, |_| {
                entries.next().unwrap_or_default()
            })?;
            rest = tail;
        }
        self.rows.clear();
        Ok(())
    }

    /// An empty table.
    fn table(&mut self, level: Level) -> Result<KBox<Table>> {
        if let Some(table) = self.kept[level as usize].take() {
            return Ok(table);
        }
        match self.spare.0.pop() {
            Some(table) if level == 0 => Ok(table),
            _ => Table::new(self.gpu, level),
        }
    }

    /// Tables were made superfluous: the TLBs have to forget them.
    pub(super) fn has_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    /// Forgets what was put off: it is going to be unmapped.
    pub(super) fn give_up(&mut self) {
        self.rows.clear();
    }

    /// Writes what was put off. The tables may be used when this returns.
    pub(super) fn write_out(&mut self) -> Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        // The engines must find what the CPU wrote before, not under it.
        self.gpu.hub().hdp_flush()?;
        let mut runs: KVVec<PteRun> = KVVec::new();
        let listed = self
            .rows
            .iter()
            .try_for_each(|(_, run)| runs.push(*run, GFP_KERNEL).map_err(Error::from));
        if listed
            .and_then(|()| dma::write_ptes(self.gpu, &runs))
            .is_err()
        {
            return self.write_all();
        }
        self.rows.clear();
        Ok(())
    }
}

/// Where entries shall lead.
pub(super) struct Target<'a> {
    pub(super) placement: &'a Placement,
    pub(super) attrs: PteAttrs,
    /// The byte of the memory that the first entry stands for.
    pub(super) offset: u64,
}

/// The page tables of an address space.
pub(super) struct Tree {
    root: KBox<Table>,
    kept: Kept,
}

impl Tree {
    /// Makes empty page tables.
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        Ok(Self {
            root: Table::new(gpu, ROOT)?,
            kept: Kept::default(),
        })
    }

    /// The address of the root as the hardware wants it.
    pub(super) fn root_pa(&self, gpu: &Gpu) -> u64 {
        gpu.vram_pa(self.root.range.start())
    }

    /// Maps `len` bytes of memory at `va`, where nothing or the same memory in another place was
    /// mapped before.
    pub(super) fn map(
        &mut self,
        cx: &mut Update<'_>,
        va: u64,
        len: u64,
        target: &Target<'_>,
    ) -> Result {
        core::mem::swap(&mut cx.kept, &mut self.kept);
        let result = self.map_runs(cx, va, len, target);
        core::mem::swap(&mut cx.kept, &mut self.kept);
        result
    }

    fn map_runs(&mut self, cx: &mut Update<'_>, va: u64, len: u64, target: &Target<'_>) -> Result {
        let flags = cx.gpu.generation().gmc.pte_flags(target.attrs);
        let mut done = 0;
        while done < len {
            let (pa, run) = target.placement.run(cx.gpu, target.offset + done)?;
            let run = run.min(len - done);
            let at = va + done;
            self.root.map(cx, at, at + run, pa, flags)?;
            done += run;
        }
        Ok(())
    }

    /// Ends a change that the TLBs know of. An empty table of each level is kept, the others go.
    pub(super) fn end(&mut self, mut update: Update<'_>) {
        while let Some(table) = update.garbage.pop() {
            let kept = &mut self.kept[table.level as usize];
            // What a block has replaced still holds entries.
            if table.used == 0 && kept.is_none() {
                *kept = Some(table);
            }
        }
    }

    /// Clears all entries for the `len` bytes from `va` on.
    pub(super) fn unmap(&mut self, cx: &mut Update<'_>, va: u64, len: u64) -> Result {
        self.root.unmap(cx, va, va + len)
    }

    /// Writes all tables as if nothing was mapped. What is mapped has to be mapped again.
    pub(super) fn rewrite(&self, gpu: &Gpu) -> Result {
        self.root.rewrite(gpu)?;
        let mut kept = self.kept.iter().flatten();
        kept.try_for_each(|table| table.rewrite(gpu))
    }

    /// How many tables are needed to map the `len` bytes from `va` on in single pages.
    pub(super) fn blocks(&self, va: u64, len: u64) -> usize {
        self.root.blocks(va, va + len)
    }
}
