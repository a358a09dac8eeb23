// SPDX-License-Identifier: GPL-2.0

//! Memory partitions of a card: the ranges of VRAM of its NPS mode, and what is reserved and
//! allocated in each.

use core::ops::Range;

use kernel::{
    new_spinlock, pci,
    prelude::*,
    sizes::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, SpinLock,
    },
};

use crate::asic::{discovery::MemoryTable, partition::NpsModes};

/// Bytes of a page.
const PAGE: u64 = SZ_4K as u64;

/// Granularity of [`Reserved::in_blocks`]: the rest of a partly used block only serves small BOs.
pub(super) const VRAM_BLOCK: u64 = SZ_2M as u64;

/// Bytes reserved by BOs of processes, independent of their current placement.
#[derive(Default)]
pub(super) struct Reserved {
    bytes: u64,
    in_blocks: u64,
}

impl Reserved {
    /// Adds a BO of `bytes`. `ENOMEM` when all BOs would have more than `limit` bytes.
    pub(super) fn add(&mut self, bytes: u64, limit: u64) -> Result {
        let sum = self.bytes.checked_add(bytes).filter(|sum| *sum <= limit);
        self.bytes = sum.ok_or(ENOMEM)?;
        self.in_blocks += bytes.next_multiple_of(VRAM_BLOCK);
        Ok(())
    }

    /// Removes a BO of `bytes`.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.in_blocks -= bytes.next_multiple_of(VRAM_BLOCK);
    }

    /// Returns the bytes, with each BO rounded up to a block of 2 MiB.
    pub(super) fn in_blocks(&self) -> u64 {
        self.in_blocks
    }
}

/// A memory partition: a range of VRAM.
#[pin_data]
pub(crate) struct MemoryPartition {
    index: u32,
    range: Range<u64>,
    /// The part of the range that can be allocated.
    usable: Range<u64>,
    #[pin]
    pub(super) reserved: SpinLock<Reserved>,
    /// Bytes of `usable` that cannot be allocated: in use, or waiting to be cleared.
    taken: Atomic<u64>,
    /// Bytes allocated by page tables.
    pub(super) tables: Atomic<u64>,
}

impl MemoryPartition {
    /// Returns partition `index`, `range` of VRAM, of which `usable` bytes from the start of VRAM
    /// on can be allocated. `ENOMEM` without memory.
    pub(super) fn new(index: u32, range: Range<u64>, usable: u64) -> Result<Arc<Self>> {
        let part = range.start.min(usable)..range.end.min(usable);
        Arc::pin_init(
            pin_init!(Self {
                index,
                range,
                usable: part,
                reserved <- new_spinlock!(Reserved::default(), "rkfd_promised"),
                taken: Atomic::new(0),
                tables: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the index on the card.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the part that can be allocated.
    pub(crate) fn usable(&self) -> &Range<u64> {
        &self.usable
    }

    /// Returns the bytes that can be allocated now.
    pub(super) fn free(&self) -> u64 {
        let size = self.usable.end - self.usable.start;
        size.saturating_sub(self.taken.load(Relaxed))
    }

    /// Counts what is in the partition of pieces of VRAM that are allocated.
    pub(super) fn take(&self, pieces: &[(u64, u64)]) {
        self.taken.fetch_add(self.part_of(pieces), Relaxed);
    }

    /// Undoes [`MemoryPartition::take`].
    pub(super) fn give_back(&self, pieces: &[(u64, u64)]) {
        self.taken.fetch_sub(self.part_of(pieces), Relaxed);
    }

    /// Returns the bytes of pieces of VRAM that are in the partition.
    fn part_of(&self, pieces: &[(u64, u64)]) -> u64 {
        let parts = pieces.iter().map(|(start, len)| {
            let end = (start + len).min(self.usable.end);
            end.saturating_sub(*start.max(&self.usable.start))
        });
        parts.sum()
    }
}

/// Returns the ranges of VRAM of a card with `modes`, from the `table` of the discovery binary if
/// it is valid, else equal parts (`amdgpu_gmc_init_sw_mem_ranges`). `offset` is that of VRAM in the
/// frame buffer. There is at least one. `ENOMEM` without memory.
pub(super) fn ranges(
    pdev: &pci::Device,
    modes: Option<&NpsModes>,
    table: Option<&MemoryTable>,
    offset: u64,
    vram_size: u64,
) -> Result<KVec<Range<u64>>> {
    let Some(modes) = modes else {
        let mut all = KVec::new();
        all.push(0..vram_size, GFP_KERNEL)?;
        return Ok(all);
    };
    let expected = modes.current.map(|mode| mode.partitions());
    let listed = match table {
        Some(table) => check(pdev, table, expected, offset, vram_size)?,
        None => None,
    };
    let mut ranges = match listed {
        Some(ranges) => ranges,
        None => {
            if expected.is_none() {
                dev_warn!(
                    pdev,
                    "the memory partition mode is unknown: taken as NPS1\n"
                );
            }
            divide(vram_size, expected.unwrap_or(1))?
        }
    };
    if let Some(last) = ranges.iter_mut().max_by_key(|range| range.end) {
        last.end = vram_size;
    }
    // `amdgpu_gmc_validate_partition_info`.
    let known = modes.current.is_none_or(|mode| {
        modes.capability & 1 << (mode.number() - 1) != 0 && mode.partitions() == ranges.len() as u32
    });
    if !known {
        dev_warn!(
            pdev,
            "{} memory partitions in mode {:?} of a card with modes {:#x}\n",
            ranges.len(),
            modes.current,
            modes.capability
        );
    }
    Ok(ranges)
}

/// Returns the ranges of a table in VRAM; `None`, with a message, if it is not valid.
fn check(
    pdev: &pci::Device,
    table: &MemoryTable,
    expected: Option<u32>,
    offset: u64,
    vram_size: u64,
) -> Result<Option<KVec<Range<u64>>>> {
    if table.ranges.is_empty() || expected.is_some_and(|n| n as usize != table.ranges.len()) {
        dev_warn!(
            pdev,
            "the NPS table lists {} memory partitions in mode {}, expected are {expected:?}\n",
            table.ranges.len(),
            table.mode
        );
        return Ok(None);
    }
    let mut ranges: KVec<Range<u64>> = KVec::new();
    for (first, last) in &table.ranges {
        let range = first
            .checked_sub(offset)
            .zip(
                last.checked_sub(offset)
                    .and_then(|last| last.checked_add(1)),
            )
            .filter(|(start, end)| end - 1 > *start && *start % PAGE == 0 && *end <= vram_size)
            .map(|(start, end)| start..end / PAGE * PAGE)
            .filter(|new| {
                let mut earlier = ranges.iter();
                !earlier.any(|old| new.start < old.end && old.start < new.end)
            });
        let Some(range) = range else {
            dev_warn!(
                pdev,
                "memory partition {first:#x} to {last:#x} of the NPS table is outside of VRAM or overlaps another\n"
            );
            return Ok(None);
        };
        ranges.push(range, GFP_KERNEL)?;
    }
    Ok(Some(ranges))
}

/// Divides VRAM, with 16 MiB behind it that firmware has, into equal parts.
fn divide(vram_size: u64, count: u32) -> Result<KVec<Range<u64>>> {
    let count = u64::from(count);
    let size = (vram_size + SZ_16M as u64) / PAGE / count * PAGE;
    let mut ranges = KVec::new();
    for n in 0..count {
        ranges.push(n * size..((n + 1) * size).min(vram_size), GFP_KERNEL)?;
    }
    Ok(ranges)
}
