// SPDX-License-Identifier: GPL-2.0

//! Ranges of VRAM of memory partitions. It uses no hardware: `tests/logic` checks it.

use core::ops::Range;

use kernel::{fmt, prelude::*, sizes::*};
use rkfd_abi::pte::PAGE_SIZE;

use crate::asic::discovery::MemoryTable;

/// Error in a table of memory partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// Number of partitions that the mode does not have.
    Count {
        listed: usize,
        mode: u32,
        expected: Option<u32>,
    },
    /// First and last address of a range that is not in VRAM, in another one, or does not begin at
    /// a page.
    Place(u64, u64),
    /// First and last address of a range without a whole page.
    Short(u64, u64),
    /// Out of memory.
    Memory,
}

impl From<kernel::alloc::AllocError> for Bad {
    fn from(_: kernel::alloc::AllocError) -> Self {
        Bad::Memory
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Bad::Count {
                listed,
                mode,
                expected,
            } => f.write_fmt(fmt!(
                "the NPS table lists {listed} memory partitions in mode {mode}, expected are {expected:?}"
            )),
            Bad::Place(first, last) => f.write_fmt(fmt!(
                "memory partition {first:#x} to {last:#x} of the NPS table is outside of VRAM, overlaps another or is unaligned"
            )),
            Bad::Short(first, last) => f.write_fmt(fmt!(
                "memory partition {first:#x} to {last:#x} of the NPS table is shorter than a page"
            )),
            Bad::Memory => f.write_fmt(fmt!("no memory")),
        }
    }
}

/// Returns the ranges of a table, in whole pages. `expected` is their number if it is known,
/// `offset` that of VRAM in the frame buffer.
///
/// The last range ends where VRAM does, whatever the table has as its end: firmware may count what
/// it has taken from the end of VRAM (`amdgpu_gmc_init_sw_mem_ranges`).
///
/// A range without a whole page is an error: nothing could be allocated in its partition. The C
/// driver makes it one page (`amdgpu_gmc_get_nps_memranges`), which may be part of another range.
pub(super) fn check(
    table: &MemoryTable,
    expected: Option<u32>,
    offset: u64,
    vram_size: u64,
) -> Result<KVec<Range<u64>>, Bad> {
    if table.ranges.is_empty() || expected.is_some_and(|n| n as usize != table.ranges.len()) {
        return Err(Bad::Count {
            listed: table.ranges.len(),
            mode: table.mode,
            expected,
        });
    }
    let top = table.ranges.iter().map(|(_, last)| *last).max();
    let mut ranges: KVec<Range<u64>> = KVec::new();
    for &(first, last) in &table.ranges {
        let end = if Some(last) == top {
            (last >= first).then_some(vram_size)
        } else {
            last.checked_sub(offset).and_then(|n| n.checked_add(1))
        };
        let range = first
            .checked_sub(offset)
            .zip(end)
            .filter(|(start, end)| end > start && *start % PAGE_SIZE == 0 && *end <= vram_size)
            .map(|(start, end)| start..end / PAGE_SIZE * PAGE_SIZE)
            .filter(|new| {
                let mut earlier = ranges.iter();
                !earlier.any(|old| new.start < old.end && old.start < new.end)
            })
            .ok_or(Bad::Place(first, last))?;
        if range.is_empty() {
            return Err(Bad::Short(first, last));
        }
        ranges.push(range, GFP_KERNEL)?;
    }
    Ok(ranges)
}

/// Divides VRAM, with 16 MiB behind it that firmware has, into equal parts. `ENOSPC` if a part has
/// no VRAM.
pub(super) fn divide(vram_size: u64, count: u32) -> Result<KVec<Range<u64>>> {
    let count = u64::from(count);
    let size = (vram_size + SZ_16M as u64) / PAGE_SIZE / count * PAGE_SIZE;
    let mut ranges = KVec::new();
    for n in 0..count {
        let part = n * size..((n + 1) * size).min(vram_size);
        if part.is_empty() {
            return Err(ENOSPC);
        }
        ranges.push(part, GFP_KERNEL)?;
    }
    Ok(ranges)
}
