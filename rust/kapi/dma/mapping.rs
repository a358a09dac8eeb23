// SPDX-License-Identifier: GPL-2.0

//! Streaming mappings of system pages, removed at unbind.

use core::ops::Range;

use kernel::{
    bindings,
    device,
    num::casts::u32_as_usize,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

use super::{
    device::{unmap, Device, Memory, Registered, ATTRS},
    runs::{DmaRuns, Run, Runs},
};
use crate::{
    bindings as ours,
    kapi::raw_device as raw, //
};

/// Maps pages, which are at physical addresses, in runs of at most `limit` pages. `ENOMEM` on
/// failure, with nothing mapped.
///
/// # Safety
///
/// `dev` is bound, its mask does not change, and the pages exist.
unsafe fn map(dev: &device::Device, pages: &[Run], limit: u32) -> Result<KVVec<Run>> {
    let parts = |run: &Run| match run.count <= limit {
        true => 1,
        false => u32_as_usize(run.count.div_ceil(limit)),
    };
    let mut runs = KVVec::<Run>::with_capacity(pages.iter().map(parts).sum(), GFP_KERNEL)?;
    for run in pages {
        let mut skip = 0;
        while skip < run.count {
            let count = limit.min(run.count - skip);
            // SAFETY: The device is valid and the pages exist by the safety requirement.
            let addr = unsafe {
                bindings::dma_map_phys(
                    raw(dev),
                    run.addr_of(u32_as_usize(skip)),
                    u32_as_usize(count) * PAGE_SIZE,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    ATTRS,
                )
            };
            // SAFETY: The device is valid; `addr` is what was returned for it.
            if unsafe { ours::rkfd_helper_dma_mapping_error(raw(dev), addr) } {
                // SAFETY: The runs were mapped above; the list is dropped.
                unsafe { unmap(dev, &runs) };
                return Err(ENOMEM);
            }
            let first = run.first + skip;
            runs.push_within_capacity(Run { first, count, addr })?;
            skip += count;
        }
    }
    Ok(runs)
}

/// A mapping of pages for another device than the one that they were mapped for first.
pub(crate) struct PeerMapping {
    // Field order: unmapped before the memory is freed.
    mapping: Mapping,
    _owner: Option<Arc<dyn Send + Sync>>,
}

impl PeerMapping {
    /// Returns a mapping, with the owner of its pages if they are allocated as long as it lives.
    pub(in crate::kapi) fn new(mapping: Mapping, owner: Option<Arc<dyn Send + Sync>>) -> Self {
        Self {
            mapping,
            _owner: owner,
        }
    }
}

impl Runs for PeerMapping {
    fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.mapping.dma_run(page)
    }

    fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>> {
        self.mapping.dma_runs(pages)
    }
}

/// Largest run in pages: 1 GiB.
const MAX_RUN: u32 = 1 << 18;

/// System pages that are mapped for a device in both directions.
pub(in crate::kapi) struct Mapping(Registered);

impl Mapping {
    /// Maps pages at physical addresses, whose runs are in order and follow each other. `ENODEV`
    /// after the unbind, `ENOMEM` without memory or DMA addresses.
    ///
    /// # Safety
    ///
    /// The pages exist. If the device is made to access the result, they stay allocated meanwhile,
    /// or the caller stops the access.
    pub(in crate::kapi) unsafe fn new(device: &Arc<Device>, pages: &[Run]) -> Result<Self> {
        let acquire = |dev: &device::Device| {
            // SAFETY: The device is valid.
            let max = unsafe { bindings::dma_max_mapping_size(raw(dev)) } / PAGE_SIZE;
            let mut limit = u32::try_from(max).map_or(MAX_RUN, |max| max.clamp(1, MAX_RUN));
            loop {
                // SAFETY: `Registered::new()` calls this before the unbind is over; the pages exist
                // by the safety requirement.
                match unsafe { map(dev, pages, limit) } {
                    Ok(runs) => break Ok(Memory::Runs(runs)),
                    // DMA addresses may be fragmented: try shorter runs.
                    Err(e) if limit == 1 => break Err(e),
                    Err(_) => {
                        let largest = pages.iter().map(|run| run.count).max().unwrap_or(1);
                        limit = limit.min(largest).div_ceil(2);
                    }
                }
            }
        };
        // SAFETY: `acquire` returns runs that were mapped for its argument.
        unsafe { Registered::new(device, acquire) }.map(Self)
    }

    fn runs(&self) -> Result<&[Run]> {
        match self.0.memory() {
            Some(Memory::Runs(runs)) => Ok(runs),
            _ => Err(EINVAL),
        }
    }

    /// See [`Runs::dma_run`].
    pub(in crate::kapi) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        let (run, skip) = Run::find(self.runs()?, page)?;
        Ok((run.addr_of(skip), u32_as_usize(run.count) - skip))
    }

    /// See [`Runs::dma_runs`].
    pub(in crate::kapi) fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>> {
        DmaRuns::new(self.runs()?, pages)
    }
}
