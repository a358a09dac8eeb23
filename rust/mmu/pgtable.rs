// SPDX-License-Identifier: GPL-2.0

//! Page tables of an address space: a tree of 4 KiB tables in VRAM, with a copy of its structure in
//! kernel memory.
//!
//! The format of PDEs and PTEs is that of the generation. The CPU writes few entries through the
//! BAR; SDMA writes many at once. The caller flushes HDP and the TLBs afterwards. Tables that
//! became empty are freed only after that, see [`Update`].
//!
//! Neither write combining nor the HDP keep stores in order. The PDE of a new table is written
//! after a flush of the table and its entries, at the end of the update: see [`Tree::write_out`].

use core::ops::Range;

use kernel::{page::PAGE_SIZE, prelude::*, sizes::SZ_4K, sync::Arc};

use super::{
    placement::Placement,
    pte::{self, Row, Span, Writer, ENTRY_BYTES, MAX_FRAGMENT, PAGE_BITS},
    source::{Source, Target},
};
use crate::{card::vram::VramRange, gpu::Gpu, hw::Level};

/// Entries per table.
const ENTRIES: usize = 512;
const ENTRY_BITS: u32 = 9;
/// Level of the root (PDB2).
const ROOT: Level = 3;
/// Level whose entries may be PTEs of 2 MiB pages instead of PDEs (PDB0).
const BLOCK: Level = 1;
/// Returns the bytes mapped by an entry at `level`.
const fn span(level: Level) -> u64 {
    1 << (PAGE_BITS + level * ENTRY_BITS)
}

/// Returns the end of the part of `at..end` that the entry for `at` at `level` maps.
fn part_end(level: Level, at: u64, end: u64) -> u64 {
    ((at | (span(level) - 1)) + 1).min(end)
}

/// Returns the index of the entry for `va` in a table at `level`.
fn index(level: Level, va: u64) -> usize {
    (va >> (PAGE_BITS + level * ENTRY_BITS)) as usize % ENTRIES
}

type Children = [Option<KBox<Table>>; ENTRIES];

/// A page table.
struct Table {
    _range: VramRange,
    /// Offset in VRAM.
    start: u64,
    level: Level,
    /// Bitmap of entries that are PTEs.
    leaves: [u64; ENTRIES / 64],
    /// Tables that PDEs point to; `None` at level 0.
    children: Option<KBox<Children>>,
    /// Number of valid entries, and one more while it is pinned.
    used: usize,
    /// [`Tree::pin`] returned its address: it is neither freed nor replaced.
    pinned: bool,
    /// Its PDE is written, and those of the tables above it: walks find it.
    linked: bool,
    /// Of [`Tables`].
    next: Option<KBox<Table>>,
}

/// An empty table of each level but the root's, kept for reuse: alternate map and unmap calls
/// neither allocate nor clear a table. Their contents are flushed.
type Kept = [Option<KBox<Table>>; ROOT as usize];

/// Tables outside of a tree, the last added one first. The list needs no memory of its own.
#[derive(Default)]
struct Tables(Option<KBox<Table>>);

impl Tables {
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn push(&mut self, mut table: KBox<Table>) {
        table.next = self.0.take();
        self.0 = Some(table);
    }

    fn pop(&mut self) -> Option<KBox<Table>> {
        let mut table = self.0.take()?;
        self.0 = table.next.take();
        Some(table)
    }

    /// Removes and returns an empty table of this level, if there is one.
    fn take_empty(&mut self, level: Level) -> Option<KBox<Table>> {
        let mut at = &mut self.0;
        // A table replaced by a 2 MiB page still holds PTEs.
        while at.as_ref()?.level != level || at.as_ref()?.used != 0 {
            at = &mut at.as_mut()?.next;
        }
        let mut table = at.take()?;
        *at = table.next.take();
        Some(table)
    }

    /// Adds those of `tables` that are empty, and frees the others.
    fn add_empty(&mut self, mut tables: Self) {
        while let Some(table) = tables.pop() {
            if table.used == 0 {
                self.push(table);
            }
        }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // One by one, not recursively.
        while self.pop().is_some() {}
    }
}

/// Empty tables outside of a tree, for an update: preallocated ones of level 0, or those that a
/// failed update detached, for its repetition.
#[derive(Default)]
pub(super) struct Spare {
    tables: Tables,
    /// Of detached tables: [`Tree::rewrites`] at that time. A card reset since then has lost their
    /// contents. All entries of preallocated tables are written when they are used.
    rewrites: Option<u64>,
}

impl Spare {
    /// Allocates `count` tables in a memory partition, or anywhere, without eviction: for callers
    /// that evict. `ENOMEM` without memory.
    pub(super) fn new(gpu: &Gpu, memory: Option<u32>, count: usize) -> Result<Self> {
        let mut tables = Tables::default();
        let mut left = count;
        while left > 0 {
            match Table::new(gpu, memory, 0) {
                Ok(table) => {
                    tables.push(table);
                    left -= 1;
                }
                Err(e) if e == ENOMEM && gpu.vram().wait_for_freed()? => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self {
            tables,
            rewrites: None,
        })
    }

    /// Adds tables.
    pub(super) fn add(&mut self, tables: Self) {
        if self.tables.is_empty() {
            *self = tables;
        } else {
            self.tables.add_empty(tables.tables);
        }
    }
}

impl Table {
    fn new(gpu: &Gpu, memory: Option<u32>, level: Level) -> Result<KBox<Self>> {
        let range = gpu.vram().alloc_table(SZ_4K as u64, memory)?;
        let children = match level {
            0 => None,
            _ => Some(KBox::zeroed(GFP_KERNEL)?),
        };
        let table = KBox::new(
            Self {
                start: range.start(),
                _range: range,
                level,
                leaves: [0; ENTRIES / 64],
                children,
                used: 0,
                pinned: false,
                linked: false,
                next: None,
            },
            GFP_KERNEL,
        )?;
        let empty = gpu.generation().gmc.empty(level);
        pte::fill(gpu, table.start, ENTRIES, empty)?;
        Ok(table)
    }

    /// Returns the offset of an entry in VRAM.
    fn offset(&self, i: usize) -> u64 {
        self.start + (i * ENTRY_BYTES) as u64
    }

    /// Writes an entry at once.
    fn write(&self, gpu: &Gpu, i: usize, entry: u64) -> Result {
        pte::fill(gpu, self.offset(i), 1, entry)
    }

    /// Writes the PDE of a child table.
    fn write_pde(&self, gpu: &Gpu, i: usize, child: &Self) -> Result {
        let gmc = gpu.generation().gmc;
        self.write(gpu, i, gmc.table(self.level, gpu.vram_pa(child.start)))
    }

    /// Writes the PDEs that are missing for addresses in `range`.
    fn link(&mut self, gpu: &Gpu, range: Range<u64>) -> Result {
        if self.level == 0 {
            return Ok(());
        }
        let mut at = range.start;
        while at < range.end {
            let next = part_end(self.level, at, range.end);
            let i = index(self.level, at);
            if let Some(child) = self.child(i).filter(|child| !child.linked) {
                self.write_pde(gpu, i, child)?;
                self.child_mut(i).into_iter().for_each(Self::set_linked);
            } else if let Some(child) = self.child_mut(i) {
                child.link(gpu, at..next)?;
            }
            at = next;
        }
        Ok(())
    }

    /// Records that walks find the table and its children.
    fn set_linked(&mut self) {
        self.linked = true;
        let children = self.children.iter_mut().flat_map(|all| all.iter_mut());
        children.flatten().for_each(|child| child.set_linked());
    }

    /// Returns `count` entries from `first` on.
    fn span(&self, gpu: &Gpu, first: usize, count: usize) -> Span {
        let empty = gpu.generation().gmc.empty(self.level);
        Span::new(self.offset(first), count, empty)
    }

    /// Writes the table and its children with their PDEs only, without PTEs.
    fn rewrite(&self, gpu: &Gpu) -> Result {
        let empty = gpu.generation().gmc.empty(self.level);
        pte::fill(gpu, self.start, ENTRIES, empty)?;
        let children = self.children.iter().flat_map(|all| all.iter());
        for (i, child) in children.enumerate() {
            if let Some(child) = child {
                self.write_pde(gpu, i, child)?;
                child.rewrite(gpu)?;
            }
        }
        Ok(())
    }

    fn child(&self, i: usize) -> Option<&Table> {
        self.children.as_ref()?[i].as_deref()
    }

    fn child_mut(&mut self, i: usize) -> Option<&mut Table> {
        self.children.as_mut()?[i].as_deref_mut()
    }

    /// Attaches a child table, or detaches one. Returns the old one.
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
        self.set_leaves(i, 1, leaf);
    }

    /// Records whether `count` entries from `first` on are PTEs.
    fn set_leaves(&mut self, first: usize, count: usize, leaf: bool) {
        let mut i = first;
        while i < first + count {
            let bits = (64 - i % 64).min(first + count - i);
            let mask = (!0u64 >> (64 - bits)) << (i % 64);
            let word = &mut self.leaves[i / 64];
            let changed = if leaf { mask & !*word } else { mask & *word };
            *word ^= changed;
            match leaf {
                true => self.used += changed.count_ones() as usize,
                false => self.used -= changed.count_ones() as usize,
            }
            i += bits;
        }
    }

    /// Maps addresses from `va` to `end`, all within this table, to memory of `source`. An earlier
    /// mapping of the range must be a single one.
    fn map(
        &mut self,
        cx: &mut Update<'_>,
        va: u64,
        end: u64,
        source: &mut Source<'_>,
        flags: u64,
    ) -> Result {
        if self.level == 0 {
            let (first, count) = (index(0, va), ((end - va) / PAGE_SIZE as u64) as usize);
            let mut rows = cx.ptes.rows(self.span(cx.gpu, first, count))?;
            // After an error the caller unmaps the range.
            self.set_leaves(first, count, true);
            let gmc = cx.gpu.generation().gmc;
            let leaf = |fragment| gmc.leaf(0, 0, flags, fragment);
            match source.dma_runs(va, end)? {
                Some(runs) => rows.add_pages(va, runs, leaf)?,
                None => source.for_runs(va, end, |part, pa| rows.add(part, pa, leaf))?,
            }
            return rows.write_batch();
        }
        let step = span(self.level);
        let mut at = va;
        while at < end {
            let next = part_end(self.level, at, end);
            let i = index(self.level, at);
            if self.level == BLOCK && next - at == step {
                let (phys, run) = source.run(at)?;
                let most = (run.min(end - at) / step) as usize;
                if phys % step == 0 && most != 0 {
                    let count = self.map_blocks(cx, i..ENTRIES.min(i + most), phys, flags)?;
                    if count != 0 {
                        at += count as u64 * step;
                        continue;
                    }
                }
            }
            let child = self.child_or_new(cx, at)?;
            child.map(cx, at, next, source, flags)?;
            at = next;
        }
        Ok(())
    }

    /// Makes the first of `entries`, and those that follow and have no child table, PTEs of memory
    /// at `phys`. Returns how many: none if the child table of the first one is pinned, or without
    /// memory.
    fn map_blocks(
        &mut self,
        cx: &mut Update<'_>,
        entries: Range<usize>,
        phys: u64,
        flags: u64,
    ) -> Result<usize> {
        let first = entries.start;
        let next = entries.skip(1).take_while(|i| self.child(*i).is_none());
        let count = 1 + next.count();
        // Reserve first: once the child is detached its PDE has to be overwritten.
        if !cx.ptes.reserve(count) || !self.clear_child(cx, first) {
            return Ok(0);
        }
        let other = cx
            .gpu
            .generation()
            .gmc
            .leaf(self.level, 0, flags, MAX_FRAGMENT);
        let mut rows = cx.ptes.rows(self.span(cx.gpu, first, count))?;
        rows.add_row(&Row::new(count, phys, span(self.level), other))?;
        rows.write_batch()?;
        self.set_leaves(first, count, true);
        Ok(count)
    }

    /// Detaches the child table, if there is one, of an entry that becomes a PTE. Returns false if
    /// it has to stay because it is pinned. It may be empty: one that a failed map has left.
    fn clear_child(&mut self, cx: &mut Update<'_>, i: usize) -> bool {
        if self.child(i).is_some_and(|child| child.pinned) {
            return false;
        }
        if let Some(child) = self.replace_child(i, None) {
            cx.garbage.push(child);
        }
        true
    }

    /// Clears the entries from `va` to `end`. `EINVAL` for a 2 MiB page that is only partly within:
    /// mappings are removed as they were made.
    fn unmap(&mut self, cx: &mut Update<'_>, va: u64, end: u64) -> Result {
        if self.level == 0 {
            let (first, count) = (index(0, va), ((end - va) / PAGE_SIZE as u64) as usize);
            self.set_leaves(first, count, false);
            let empty = || cx.gpu.generation().gmc.empty(0);
            return match cx.zapped {
                true => Ok(()),
                false => cx.ptes.row(self.offset(first), &Row::same(count, empty())),
            };
        }
        let step = span(self.level);
        let mut at = va;
        while at < end {
            let next = part_end(self.level, at, end);
            let i = index(self.level, at);
            if self.is_leaf(i) {
                if at % step != 0 || next - at != step {
                    return Err(EINVAL);
                }
                // With those that follow: an access to the BAR costs more than an entry.
                let most = ((end - at) / step) as usize;
                let count = (i..i + most).take_while(|i| self.is_leaf(*i)).count();
                let empty = cx.gpu.generation().gmc.empty(self.level);
                pte::fill(cx.gpu, self.offset(i), count, empty)?;
                self.set_leaves(i, count, false);
                at += count as u64 * step;
                continue;
            } else if let Some(child) = self.child_mut(i) {
                child.unmap(cx, at, next)?;
                if child.used == 0 {
                    self.detach(cx, i)?;
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Pins the table of level 0 for `va`, see [`Tree::pin`].
    fn pin(&mut self, cx: &mut Update<'_>, va: u64) -> Result<u64> {
        if self.level == 0 {
            if core::mem::replace(&mut self.pinned, true) {
                return Err(EBUSY);
            }
            self.used += 1;
            return Ok(self.start);
        }
        if self.is_leaf(index(self.level, va)) {
            return Err(EADDRINUSE);
        }
        self.child_or_new(cx, va)?.pin(cx, va)
    }

    /// Undoes [`Self::pin`]. `EINVAL` without such a table.
    fn unpin(&mut self, cx: &mut Update<'_>, va: u64) -> Result {
        if self.level == 0 {
            if !core::mem::replace(&mut self.pinned, false) {
                return Err(EINVAL);
            }
            self.used -= 1;
            return Ok(());
        }
        let i = index(self.level, va);
        let child = self.child_mut(i).ok_or(EINVAL)?;
        child.unpin(cx, va)?;
        match child.used {
            0 => self.detach(cx, i),
            _ => Ok(()),
        }
    }

    /// Detaches a child table without entries.
    fn detach(&mut self, cx: &mut Update<'_>, i: usize) -> Result {
        let empty = cx.gpu.generation().gmc.empty(self.level);
        self.write(cx.gpu, i, empty)?;
        if let Some(child) = self.replace_child(i, None) {
            cx.garbage.push(child);
        }
        Ok(())
    }

    /// Writes the entry of a page at level 0.
    fn put(&mut self, cx: &mut Update<'_>, va: u64, entry: u64) -> Result {
        let i = index(self.level, va);
        if self.level == 0 {
            self.write(cx.gpu, i, entry)?;
            self.set_leaf(i, true);
            return Ok(());
        }
        if self.is_leaf(i) {
            return Err(EADDRINUSE);
        }
        self.child_or_new(cx, va)?.put(cx, va, entry)
    }

    /// Returns the child table for `va`, a new one if there is none, also in place of a PTE.
    /// `ENOMEM` without memory.
    ///
    /// Its PDE follows at the end of the update if walks could find what VRAM held before, or not
    /// yet what replaces the PTE.
    fn child_or_new(&mut self, cx: &mut Update<'_>, va: u64) -> Result<&mut Self> {
        let i = index(self.level, va);
        if self.child(i).is_none() {
            let (mut child, is_flushed) = cx.table(self.level - 1)?;
            child.linked = self.linked && is_flushed && !self.is_leaf(i);
            if self.linked && !child.linked {
                cx.link_later(va);
            } else {
                self.write_pde(cx.gpu, i, &child)?;
            }
            self.set_leaf(i, false);
            self.replace_child(i, Some(child));
        }
        self.child_mut(i).ok_or(EINVAL)
    }

    /// Returns the number of 2 MiB pages between `va` and `end` whose address `splits` accepts.
    /// Returns the first error of `splits`.
    fn blocks(
        &self,
        va: u64,
        end: u64,
        splits: &mut impl FnMut(u64) -> Result<bool>,
    ) -> Result<usize> {
        if self.level < BLOCK {
            return Ok(0);
        }
        let mut count = 0;
        let mut at = va;
        while at < end {
            let next = part_end(self.level, at, end);
            let i = index(self.level, at);
            if self.is_leaf(i) {
                count += usize::from(splits(at)?);
            } else if let Some(child) = self.child(i) {
                count += child.blocks(at, next, splits)?;
            }
            at = next;
        }
        Ok(count)
    }
}

/// An update of page tables. Holds the tables that it detached; drop it after the TLB flush.
pub(super) struct Update<'a> {
    gpu: &'a Arc<Gpu>,
    /// Memory partition of new tables: that of the tree.
    memory: Option<u32>,
    garbage: Tables,
    spare: Spare,
    /// Kept tables of the tree, during the update.
    kept: Kept,
    /// As [`Tree::unlinked`], during the update.
    unlinked: Range<u64>,
    ptes: Writer<'a>,
    /// The PTEs that are unmapped are invalid already.
    zapped: bool,
}

impl<'a> Update<'a> {
    /// Starts an update of `bytes` of addresses.
    pub(super) fn new(gpu: &'a Arc<Gpu>, bytes: u64) -> Self {
        Self::with_spare(gpu, bytes, Spare::default())
    }

    /// As [`Self::new`], with tables that are used before others are allocated.
    pub(super) fn with_spare(gpu: &'a Arc<Gpu>, bytes: u64, spare: Spare) -> Self {
        Self {
            gpu,
            memory: None,
            garbage: Tables::default(),
            spare,
            kept: Kept::default(),
            unlinked: 0..0,
            ptes: Writer::new(gpu, bytes),
            zapped: false,
        }
    }

    /// Sets whether the PTEs that are unmapped next are invalid already.
    pub(super) fn set_zapped(&mut self, zapped: bool) {
        self.zapped = zapped;
    }

    /// Starts an update that is written by the CPU only.
    pub(super) fn by_cpu(gpu: &'a Arc<Gpu>) -> Self {
        Self::new(gpu, 0)
    }

    /// Starts an update whose PTEs are written by [`Self::write_all`] only.
    pub(super) fn deferred(gpu: &'a Arc<Gpu>, spare: Spare) -> Self {
        Self {
            ptes: Writer::deferred(gpu),
            ..Self::with_spare(gpu, 0, spare)
        }
    }

    /// Returns the PTEs that [`Self::write_all`] writes. `ENOMEM` without memory.
    pub(super) fn spans(&self) -> Result<KVVec<Span>> {
        self.ptes.spans()
    }

    /// Writes the deferred PTEs with the CPU. Allocates no memory.
    pub(super) fn write_all(&mut self) -> Result {
        self.ptes.write_deferred()
    }

    /// Returns an empty table, and whether its contents are flushed. `ENOMEM` without memory.
    fn table(&mut self, level: Level) -> Result<(KBox<Table>, bool)> {
        if let Some(table) = self.kept[level as usize].take() {
            return Ok((table, true));
        }
        match self.spare.tables.take_empty(level) {
            Some(table) => Ok((table, false)),
            None => Ok((Table::new(self.gpu, self.memory, level)?, false)),
        }
    }

    /// Adds an address whose PDE is missing.
    fn link_later(&mut self, va: u64) {
        let range = &mut self.unlinked;
        *range = match range.is_empty() {
            true => va..va + 1,
            false => range.start.min(va)..range.end.max(va + 1),
        };
    }

    /// Returns whether tables were detached, so that the TLBs have to be flushed.
    pub(super) fn has_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    /// Drops the rows for SDMA: the addresses are unmapped next.
    pub(super) fn discard_rows(&mut self) {
        self.ptes.discard_rows();
    }
}

/// Page tables of an address space.
pub(super) struct Tree {
    /// Memory partition of the tables; `None`: any.
    memory: Option<u32>,
    root: KBox<Table>,
    kept: Kept,
    /// Contains the addresses of tables whose PDE is missing.
    unlinked: Range<u64>,
    /// How often [`Tree::rewrite`] was called.
    rewrites: u64,
}

impl Tree {
    /// Allocates empty page tables in a memory partition, or anywhere. `ENOMEM` without memory.
    pub(super) fn new(gpu: &Gpu, memory: Option<u32>) -> Result<Self> {
        let mut root = Table::new(gpu, memory, ROOT)?;
        root.linked = true;
        Ok(Self {
            memory,
            root,
            kept: Kept::default(),
            unlinked: 0..0,
            rewrites: 0,
        })
    }

    /// Returns the physical address of the root, for the page table base.
    pub(super) fn root_pa(&self, gpu: &Gpu) -> u64 {
        gpu.vram_pa(self.root.start)
    }

    /// Maps `len` bytes at `va`, which maps nothing or the same memory at an earlier placement.
    /// `ENOMEM` without memory.
    pub(super) fn map(
        &mut self,
        cx: &mut Update<'_>,
        va: u64,
        len: u64,
        target: &Target<'_>,
    ) -> Result {
        let flags = cx.gpu.generation().gmc.pte_flags(target.attrs);
        self.with_new_tables(cx, |root, cx| {
            let gpu: &Gpu = cx.gpu;
            root.map(cx, va, va + len, &mut Source::new(gpu, target, va), flags)
        })
    }

    /// Calls `f` with the root and an update that takes new tables from those of the tree, or
    /// allocates them in its memory partition.
    fn with_new_tables<T>(
        &mut self,
        cx: &mut Update<'_>,
        f: impl FnOnce(&mut Table, &mut Update<'_>) -> Result<T>,
    ) -> Result<T> {
        cx.memory = self.memory;
        if cx.spare.rewrites.is_some_and(|n| n != self.rewrites) {
            cx.spare = Spare::default();
        }
        core::mem::swap(&mut cx.kept, &mut self.kept);
        core::mem::swap(&mut cx.unlinked, &mut self.unlinked);
        let result = f(&mut self.root, cx);
        core::mem::swap(&mut cx.kept, &mut self.kept);
        core::mem::swap(&mut cx.unlinked, &mut self.unlinked);
        result
    }

    /// Writes the rest of an update: the rows with SDMA, or with the CPU if that fails, and after a
    /// flush the PDEs of new tables. The tables are complete on return. Errors as
    /// [`Update::write_all`].
    pub(super) fn write_out(&mut self, update: &mut Update<'_>) -> Result {
        update.ptes.write_out()?;
        if self.unlinked.is_empty() {
            return Ok(());
        }
        update.gpu.hub().hdp_flush()?;
        self.root.link(update.gpu, self.unlinked.clone())?;
        self.unlinked = 0..0;
        Ok(())
    }

    /// Returns the empty tables that are left of an update that has ended.
    pub(super) fn spare_of(&self, update: Update<'_>) -> Spare {
        let Update {
            garbage, mut spare, ..
        } = update;
        spare.tables.add_empty(garbage);
        spare.rewrites = Some(self.rewrites);
        spare
    }

    /// Ends an update after the TLB flush: an empty table of each level is kept. Others are freed
    /// with the update.
    pub(super) fn end(&mut self, update: &mut Update<'_>) {
        for (level, kept) in self.kept.iter_mut().enumerate() {
            if kept.is_none() {
                *kept = update.garbage.take_empty(level as Level);
            }
        }
    }

    /// Zaps the entries of `len` bytes from `va`. `EINVAL` for a part of a 2 MiB page.
    pub(super) fn unmap(&mut self, cx: &mut Update<'_>, va: u64, len: u64) -> Result {
        self.root.unmap(cx, va, va + len)
    }

    /// Pins the table of level 0 for the 2 MiB block at `va` and returns its offset in VRAM: it is
    /// neither freed nor replaced by a 2 MiB page until [`Tree::unpin`], so that PTEs in it can be
    /// written without the lock of the tree. `EADDRINUSE` if a 2 MiB page is mapped there, `EBUSY`
    /// if it is pinned already, `ENOMEM` without memory.
    pub(super) fn pin(&mut self, cx: &mut Update<'_>, va: u64) -> Result<u64> {
        self.with_new_tables(cx, |root, cx| root.pin(cx, va))
    }

    /// Undoes [`Tree::pin`]. The PTEs that were written are invalid.
    pub(super) fn unpin(&mut self, cx: &mut Update<'_>, va: u64) -> Result {
        self.root.unpin(cx, va)
    }

    /// Writes an entry for the page at `va` that makes accesses fault without retry. `EADDRINUSE`
    /// if a 2 MiB page is mapped there, `ENOMEM` without memory.
    pub(super) fn refuse(&mut self, cx: &mut Update<'_>, va: u64) -> Result {
        let entry = cx.gpu.generation().gmc.no_retry();
        self.with_new_tables(cx, |root, cx| root.put(cx, va, entry))
    }

    /// Writes all tables without PTEs, after VRAM was lost. The caller maps everything again.
    pub(super) fn rewrite(&mut self, gpu: &Gpu) -> Result {
        self.rewrites += 1;
        self.root.rewrite(gpu)?;
        self.root.set_linked();
        self.unlinked = 0..0;
        let mut kept = self.kept.iter().flatten();
        kept.try_for_each(|table| table.rewrite(gpu))
    }

    /// Returns whether a 2 MiB page is mapped at `va`.
    pub(super) fn is_block(&self, va: u64) -> Result<bool> {
        let start = va - va % span(BLOCK);
        let blocks = self
            .root
            .blocks(start, start + span(BLOCK), &mut |_| Ok(true));
        Ok(blocks? != 0)
    }

    /// Returns the number of tables that a map of `len` bytes at `va`, which are mapped already,
    /// needs: one for each 2 MiB page that becomes smaller ones. Errors as [`Placement::run`].
    pub(super) fn splits(
        &self,
        gpu: &Gpu,
        va: u64,
        len: u64,
        (placement, offset): (&Placement, u64),
    ) -> Result<usize> {
        self.root.blocks(va, va + len, &mut |at| {
            // BOs of other devices do not move.
            let (pa, run) = placement.run(gpu, None, offset + (at - va))?;
            Ok(pa % span(BLOCK) != 0 || run < span(BLOCK))
        })
    }
}
