// SPDX-License-Identifier: GPL-2.0

//! Memory partitions of a card: the ranges of VRAM of its NPS mode, and the bytes reserved and
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

mod ranges;

use ranges::Bad;

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

    /// Accounts for allocated pieces of VRAM, as far as they are in the partition.
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
    let listed = match table.map(|table| ranges::check(table, expected, offset, vram_size)) {
        Some(Ok(ranges)) => Some(ranges),
        Some(Err(Bad::Memory)) => return Err(ENOMEM),
        Some(Err(bad)) => {
            dev_warn!(pdev, "{bad}\n");
            None
        }
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
            ranges::divide(vram_size, expected.unwrap_or(1))?
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
