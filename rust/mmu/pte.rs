// SPDX-License-Identifier: GPL-2.0

//! Writes of PTEs: at once by the CPU through the BAR, in rows by SDMA, or deferred.

use core::ops::Range;

use kernel::{page::PAGE_SIZE, prelude::*};

use crate::{
    gpu::{
        dma::{self, PteRun},
        Gpu, //
    },
    kapi::dma::DmaRuns,
};

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 8;
/// Log2 of the bytes that an entry at level 0 maps.
pub(super) const PAGE_BITS: u32 = 12;
/// Largest fragment, in log2 pages.
pub(super) const MAX_FRAGMENT: u32 = 9;

/// Minimum size of a change, in bytes, for SDMA to write its rows.
const DMA_MIN_BYTES: u64 = 4096 * PAGE_SIZE as u64;
/// Minimum entries of a row for SDMA: shorter ones cost less to write than to submit.
const DMA_MIN_ROW: usize = 32;

/// Entries of short rows that are collected before they are written.
const BATCH: usize = 16;

/// Writes entries at an offset in VRAM.
fn write(gpu: &Gpu, offset: u64, entries: &[u64]) -> Result {
    let bar = gpu.vram().bar();
    bar.write64s(usize::try_from(offset)?, entries)
}

/// Writes `count` times the same entry at an offset in VRAM.
pub(super) fn fill(gpu: &Gpu, offset: u64, count: usize, entry: u64) -> Result {
    let bar = gpu.vram().bar();
    bar.fill64(usize::try_from(offset)?, count, entry)
}

/// Calls `f` with the address, the physical address and log2 of the pages of each fragment of `va`:
/// the largest ones that are aligned in both addresses. Returns its first error.
pub(super) fn for_fragments(
    va: Range<u64>,
    pa: u64,
    mut f: impl FnMut(u64, u64, u32) -> Result,
) -> Result {
    let mut at = va.start;
    while at < va.end {
        let phys = pa + (at - va.start);
        let pages = (va.end - at) / PAGE_SIZE as u64;
        let fragment = ((at | phys) >> PAGE_BITS)
            .trailing_zeros()
            .min(pages.ilog2())
            .min(MAX_FRAGMENT);
        f(at, phys, fragment)?;
        at += (PAGE_SIZE << fragment) as u64;
    }
    Ok(())
}

/// Consecutive entries: address of the first and increment per entry.
#[derive(Clone, Copy)]
pub(super) struct Row {
    count: usize,
    addr: u64,
    step: u64,
    /// Other bits of all entries.
    flags: u64,
}

impl Row {
    /// Returns `count` times the same entry.
    pub(super) fn same(count: usize, entry: u64) -> Self {
        Self {
            count,
            addr: 0,
            step: 0,
            flags: entry,
        }
    }

    /// Returns the PTEs of the pages of a fragment.
    pub(super) fn pages(addr: u64, fragment: u32, flags: u64) -> Self {
        Self::new(1 << fragment, addr, PAGE_SIZE as u64, flags)
    }

    /// Returns `count` entries of memory at `addr`, each of which maps `step` bytes.
    pub(super) fn new(count: usize, addr: u64, step: u64, flags: u64) -> Self {
        Self {
            count,
            addr,
            step,
            flags,
        }
    }

    fn entry(&self, i: usize) -> u64 {
        (self.addr + i as u64 * self.step) | self.flags
    }

    /// Writes the entries with the CPU at an offset in VRAM. Allocates no memory.
    fn write(&self, gpu: &Gpu, offset: u64) -> Result {
        if self.step == 0 {
            return fill(gpu, offset, self.count, self.entry(0));
        }
        let mut batch = [0; BATCH];
        let mut done = 0;
        while done < self.count {
            let count = self.store(done, &mut batch);
            write(gpu, offset + (done * ENTRY_BYTES) as u64, &batch[..count])?;
            done += count;
        }
        Ok(())
    }

    /// Stores the entries from `first` on, as far as there is room. Returns how many.
    fn store(&self, first: usize, to: &mut [u64]) -> usize {
        let count = to.len().min(self.count - first);
        for (to, i) in to[..count].iter_mut().zip(first..) {
            *to = self.entry(i);
        }
        count
    }
}

/// Consecutive PTEs.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Offset in VRAM, in bytes.
    offset: u64,
    count: usize,
    /// Value of an invalid entry.
    empty: u64,
}

impl Span {
    /// Returns `count` PTEs at an offset in VRAM.
    pub(super) fn new(offset: u64, count: usize, empty: u64) -> Self {
        Self {
            offset,
            count,
            empty,
        }
    }

    /// Returns the offset of the end in VRAM, in bytes.
    fn end(&self) -> u64 {
        self.offset + (self.count * ENTRY_BYTES) as u64
    }

    /// Zaps the PTEs.
    pub(super) fn clear(&self, gpu: &Gpu) -> Result {
        fill(gpu, self.offset, self.count, self.empty)
    }
}

/// PTEs that [`Writer::write_deferred`] writes.
#[derive(Default)]
struct Deferred {
    spans: KVVec<Span>,
    /// Those of all spans.
    entries: KVVec<u64>,
    /// Number of `entries` that were added.
    added: usize,
}

impl Deferred {
    /// Makes room for a span. Without memory it returns false.
    fn reserve(&mut self, count: usize) -> bool {
        let Self { spans, entries, .. } = self;
        spans.reserve(1, GFP_KERNEL).is_ok() && entries.reserve(count, GFP_KERNEL).is_ok()
    }

    /// Adds a span, whose PTEs are stored in [`Self::room`]. `ENOMEM` without memory.
    fn begin(&mut self, span: Span) -> Result {
        if self.entries.capacity() == 0 {
            self.entries = KVVec::zeroed(span.count, GFP_KERNEL)?;
        } else {
            let count = self.entries.len() + span.count;
            self.entries.resize(count, 0, GFP_KERNEL)?;
        }
        match self.spans.last_mut() {
            Some(last) if last.empty == span.empty && last.end() == span.offset => {
                last.count += span.count;
            }
            _ => self.spans.push(span, GFP_KERNEL)?,
        }
        Ok(())
    }

    /// Returns the PTEs of the last span that are not added yet.
    fn room(&mut self) -> &mut [u64] {
        self.entries.get_mut(self.added..).unwrap_or_default()
    }
}

/// Writes entries of page tables.
pub(super) struct Writer<'a> {
    gpu: &'a Gpu,
    /// Rows that SDMA writes, with their offsets in VRAM. `None`: the drop of an empty list
    /// calls the allocator, too.
    rows: Option<KVVec<(u64, Row)>>,
    by_dma: bool,
    /// `Some`: all PTEs are deferred.
    deferred: Option<Deferred>,
}

impl<'a> Writer<'a> {
    /// Starts a change of `bytes` of addresses.
    pub(super) fn new(gpu: &'a Gpu, bytes: u64) -> Self {
        Self {
            gpu,
            rows: None,
            by_dma: bytes >= DMA_MIN_BYTES && dma::is_up(gpu),
            deferred: None,
        }
    }

    /// Starts a change that is written by [`Self::write_deferred`] only.
    pub(super) fn deferred(gpu: &'a Gpu) -> Self {
        Self {
            gpu,
            rows: None,
            by_dma: false,
            deferred: Some(Deferred::default()),
        }
    }

    /// Starts rows of PTEs that replace or are replaced by others. `ENOMEM` without memory for PTEs
    /// that must be deferred.
    pub(super) fn rows(&mut self, span: Span) -> Result<Rows<'_, 'a>> {
        if let Some(deferred) = &mut self.deferred {
            deferred.begin(span)?;
        }
        Ok(Rows {
            next: span.offset,
            writer: self,
            batch: [0; BATCH],
            len: 0,
        })
    }

    /// Reserves memory for a span of `count` PTEs if they must be deferred. Returns false without
    /// memory. Entries that are written at once need none: a rewrite after a reset must not fail.
    pub(super) fn reserve(&mut self, count: usize) -> bool {
        let deferred = self.deferred.as_mut();
        deferred.is_none_or(|deferred| deferred.reserve(count))
    }

    /// Writes a row of entries at an offset in VRAM, which cannot be deferred, at once or by
    /// [`Self::write_out`].
    pub(super) fn row(&mut self, offset: u64, row: &Row) -> Result {
        let by_dma = self.by_dma && row.count >= DMA_MIN_ROW;
        if by_dma {
            let rows = self.rows.get_or_insert_with(KVVec::new);
            if rows.push((offset, *row), GFP_KERNEL).is_ok() {
                return Ok(());
            }
        }
        row.write(self.gpu, offset)
    }

    /// Returns the deferred PTEs. `ENOMEM` without memory.
    pub(super) fn spans(&self) -> Result<KVVec<Span>> {
        let deferred = self.deferred.iter().flat_map(|all| &all.spans);
        let mut spans = KVVec::new();
        for span in deferred {
            spans.push(*span, GFP_KERNEL)?;
        }
        Ok(spans)
    }

    /// Writes the deferred PTEs with the CPU. Allocates no memory.
    pub(super) fn write_deferred(&mut self) -> Result {
        let Some(deferred) = &mut self.deferred else {
            return Ok(());
        };
        if deferred.added != deferred.entries.len() {
            return Err(EINVAL);
        }
        let mut rest = &deferred.entries[..];
        for span in &deferred.spans {
            let (here, tail) = rest.split_at_checked(span.count).ok_or(EINVAL)?;
            write(self.gpu, span.offset, here)?;
            rest = tail;
        }
        deferred.spans.clear();
        deferred.entries.clear();
        deferred.added = 0;
        Ok(())
    }

    /// Drops the rows for SDMA: the addresses are unmapped next.
    pub(super) fn discard_rows(&mut self) {
        self.rows = None;
    }

    /// Writes the rows with SDMA, or with the CPU if that fails. All are written on return. Errors
    /// as those of [`Self::write_deferred`].
    pub(super) fn write_out(&mut self) -> Result {
        let Some(rows) = self.rows.take() else {
            return Ok(());
        };
        let mut runs: KVVec<PteRun> = KVVec::new();
        let listed = rows
            .iter()
            .try_for_each(|(offset, row)| runs.push(self.run(*offset, row), GFP_KERNEL));
        let listed = listed.map_err(Error::from);
        let written = listed.and_then(|()| dma::write_ptes(self.gpu, &runs));
        if written.is_err() {
            rows.iter()
                .try_for_each(|(offset, row)| row.write(self.gpu, *offset))?;
        }
        Ok(())
    }

    /// Returns the SDMA request for a row at an offset in VRAM.
    fn run(&self, offset: u64, row: &Row) -> PteRun {
        PteRun {
            pe: self.gpu.vram_mc(offset),
            addr: row.addr,
            flags: row.flags,
            incr: row.step,
            count: row.count as u32,
        }
    }
}

/// Rows of PTEs that follow each other. Call [`Self::write_batch`] after the last one.
pub(super) struct Rows<'w, 'a> {
    writer: &'w mut Writer<'a>,
    /// Offset in VRAM behind the last row that is written.
    next: u64,
    /// Entries of short rows that are not written yet: an access to the BAR is checked for the
    /// unbind, which costs more than a PTE.
    batch: [u64; BATCH],
    len: usize,
}

impl Rows<'_, '_> {
    /// Adds the PTEs of memory at `pa`, to be mapped at `va`; `leaf` returns their other bits, by
    /// the log2 of the pages of a fragment. Errors as those of [`Self::push`].
    pub(super) fn add(&mut self, va: Range<u64>, pa: u64, leaf: impl Fn(u32) -> u64) -> Result {
        for_fragments(va, pa, |_, addr, fragment| {
            self.push(&Row::pages(addr, fragment, leaf(fragment)))
        })
    }

    /// Adds the PTEs of pages, to be mapped from `va` on; otherwise as [`Self::add`].
    pub(super) fn add_pages(
        &mut self,
        va: u64,
        mut runs: DmaRuns<'_>,
        leaf: impl Fn(u32) -> u64,
    ) -> Result {
        let single = leaf(0);
        let mut at = va;
        loop {
            let mut pages = self.put(|room| runs.take_pages(room, single))?;
            if pages == 0 {
                let Some((addr, count)) = runs.next() else {
                    return Ok(());
                };
                self.add(at..at + (count * PAGE_SIZE) as u64, addr, &leaf)?;
                pages = count;
            }
            at += (pages * PAGE_SIZE) as u64;
        }
    }

    /// Adds a row. `ENOMEM` for one that must be deferred and is beyond the span.
    pub(super) fn push(&mut self, row: &Row) -> Result {
        if self.writer.deferred.is_none() && row.count >= BATCH {
            self.write_batch()?;
            self.writer.row(self.next, row)?;
            self.next += (row.count * ENTRY_BYTES) as u64;
            return Ok(());
        }
        self.add_row(row)
    }

    /// Adds a row that the CPU writes, with the next ones; otherwise as [`Self::push`].
    pub(super) fn add_row(&mut self, row: &Row) -> Result {
        let mut added = 0;
        while added < row.count {
            let count = self.put(|room| row.store(added, room))?;
            if count == 0 {
                return Err(ENOMEM);
            }
            added += count;
        }
        Ok(())
    }

    /// Adds the entries that `f` stores in the room for them: their number is its result. Entries
    /// that must be deferred have none beyond the span.
    #[inline]
    fn put(&mut self, f: impl FnOnce(&mut [u64]) -> usize) -> Result<usize> {
        if let Some(deferred) = &mut self.writer.deferred {
            let count = f(deferred.room());
            deferred.added += count;
            return Ok(count);
        }
        if self.len == BATCH {
            self.write_batch()?;
        }
        let count = f(&mut self.batch[self.len..]);
        self.len += count;
        Ok(count)
    }

    /// Writes the entries that are not written yet.
    pub(super) fn write_batch(&mut self) -> Result {
        let batch = &self.batch[..self.len];
        if !batch.is_empty() {
            write(self.writer.gpu, self.next, batch)?;
        }
        self.next += size_of_val(batch) as u64;
        self.len = 0;
        Ok(())
    }
}
