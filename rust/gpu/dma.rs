// SPDX-License-Identifier: GPL-2.0

//! What memory management asks of the DMA engines: fills, moves between VRAM and system memory,
//! entries of page tables. The one place that knows how to ask. None is driven yet: all fails with
//! `ENODEV`, and who asks does without.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{memory::VramRange, Gpu};
use crate::kapi::{
    dma::Pages,
    fence::{Fence, Timeout},
};

/// Entries of a page table that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct PteRun {
    /// Where the first one is, for kernel queues.
    #[allow(dead_code, reason = "for the DMA engines")]
    pub(crate) pe: u64,
    /// The address in the first one.
    pub(crate) addr: u64,
    /// The other bits of all.
    pub(crate) flags: u64,
    /// By how much the address grows.
    pub(crate) incr: u32,
    pub(crate) count: u32,
}

/// Waits until a fence is signaled.
///
/// Jobs that hang are ended by their scheduler, so that this ends.
pub(crate) fn wait(fence: &Fence) -> Result {
    fence.wait();
    fence.result()
}

/// Waits until a fence is signaled or the current task gets a signal.
pub(crate) fn wait_interruptible(fence: &Fence) -> Result {
    fence.wait_interruptible(Timeout::FOREVER)?;
    fence.result()
}

/// Fills parts of VRAM, given by offset and length, with zeroes.
pub(super) fn clear<'a>(
    _gpu: &Gpu,
    _pieces: impl Iterator<Item = &'a (u64, u64)>,
) -> Result<ARef<Fence>> {
    Err(ENODEV)
}

/// Which way memory is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToSystem,
    ToVram,
}

/// Copies `size` bytes between VRAM and system memory; complete on return, also after an error.
pub(crate) fn transfer(
    _gpu: &Gpu,
    _vram: &VramRange,
    _pages: &Pages,
    _size: u64,
    _way: Way,
) -> Result {
    Err(ENODEV)
}

/// Engines are there that take work.
pub(crate) fn is_up(_gpu: &Gpu) -> bool {
    false
}

/// The VMIDs in which jobs of an address space run, or ran last: one bit each.
pub(crate) fn vmids_of(_gpu: &Gpu, _pasid: u32) -> u32 {
    0
}

/// Writes entries of page tables; complete on return.
pub(crate) fn write_ptes(_gpu: &Arc<Gpu>, _runs: &[PteRun]) -> Result {
    Err(ENODEV)
}
