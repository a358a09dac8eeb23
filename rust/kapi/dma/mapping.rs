// SPDX-License-Identifier: GPL-2.0

//! Streaming mappings of system pages, removed at unbind.

use core::{ops::Range, ptr::NonNull};

use kernel::{
    bindings,
    device,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

use super::device::{unmap, Device, Memory, Registered, Run, ATTRS};
use crate::{
    bindings as ours,
    kapi::raw_device as raw, //
};

/// Physically contiguous pages.
#[derive(Clone, Copy)]
pub(in crate::kapi) struct Extent {
    pub(in crate::kapi) page: NonNull<bindings::page>,
    /// Number of the first page in the whole.
    pub(in crate::kapi) first: usize,
    pub(in crate::kapi) count: usize,
}

/// Maps extents in runs of at most `limit` pages. `ENOMEM` on failure, with nothing mapped.
///
/// # Safety
///
/// `dev` is bound, its mask does not change, and the pages of `extents` exist.
unsafe fn map(dev: &device::Device, extents: &[Extent], limit: usize) -> Result<KVVec<Run>> {
    let count = extents.iter().map(|e| e.count.div_ceil(limit)).sum();
    let mut runs = KVVec::<Run>::with_capacity(count, GFP_KERNEL)?;
    for extent in extents {
        for skip in (0..extent.count).step_by(limit) {
            let count = limit.min(extent.count - skip);
            // SAFETY: The device is valid and the pages exist by the safety requirement; the range
            // is part of the extent, which is contiguous.
            let dma = unsafe {
                bindings::dma_map_page_attrs(
                    raw(dev),
                    extent.page.as_ptr(),
                    skip * PAGE_SIZE,
                    count * PAGE_SIZE,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    ATTRS,
                )
            };
            // SAFETY: The device is valid; `dma` is what was returned for it.
            if unsafe { ours::rkfd_helper_dma_mapping_error(raw(dev), dma) } {
                // SAFETY: The runs were mapped above; the list is dropped.
                unsafe { unmap(dev, &runs) };
                return Err(ENOMEM);
            }
            let first = extent.first + skip;
            runs.push_within_capacity(Run { first, count, dma })?;
        }
    }
    Ok(runs)
}

/// Pages with DMA addresses.
pub(crate) trait Runs {
    /// Returns the DMA address of page `page`, and the number of pages that are contiguous from it
    /// on, itself included. `EINVAL` out of bounds. The address is not valid after the unbind.
    fn dma_run(&self, page: usize) -> Result<(u64, usize)>;

    /// Returns the DMA address and the number of pages of each contiguous part of some pages, in
    /// order. Errors as those of [`Self::dma_run`].
    fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>>;
}

/// See [`Runs::dma_runs`].
pub(crate) struct DmaRuns<'a> {
    runs: core::slice::Iter<'a, Run>,
    pages: Range<usize>,
}

impl Iterator for DmaRuns<'_> {
    type Item = (u64, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.pages.is_empty() {
            return None;
        }
        let run = self.runs.next()?;
        let skip = self.pages.start - run.first;
        let count = (run.count - skip).min(self.pages.len());
        self.pages.start += count;
        Some((run.dma + (skip * PAGE_SIZE) as u64, count))
    }
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
const MAX_RUN: usize = 1 << 18;

/// System pages that are mapped for a device in both directions.
pub(in crate::kapi) struct Mapping(Registered);

impl Mapping {
    /// Maps extents, which are in order and follow each other. `ENODEV` after the unbind, `ENOMEM`
    /// without memory or DMA addresses.
    ///
    /// # Safety
    ///
    /// The pages exist. If the device is made to access the result, they stay allocated meanwhile,
    /// or the caller stops the access.
    pub(in crate::kapi) unsafe fn new(device: &Arc<Device>, extents: &[Extent]) -> Result<Self> {
        let acquire = |dev: &device::Device| {
            // SAFETY: The device is valid.
            let max = unsafe { bindings::dma_max_mapping_size(raw(dev)) } / PAGE_SIZE;
            let mut limit = max.clamp(1, MAX_RUN);
            loop {
                // SAFETY: `Registered::new()` calls this before the unbind is over; the pages exist
                // by the safety requirement.
                match unsafe { map(dev, extents, limit) } {
                    Ok(runs) => break Ok(Memory::Runs(runs)),
                    // DMA addresses may be fragmented: try shorter runs.
                    Err(e) if limit == 1 => break Err(e),
                    Err(_) => {
                        let largest = extents.iter().map(|e| e.count).max().unwrap_or(1);
                        limit = limit.min(largest).div_ceil(2);
                    }
                }
            }
        };
        // SAFETY: `acquire` returns runs that were mapped for its argument.
        unsafe { Registered::new(device, acquire) }.map(Self)
    }

    /// See [`Runs::dma_run`].
    pub(in crate::kapi) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        let Some(Memory::Runs(runs)) = self.0.memory() else {
            return Err(EINVAL);
        };
        let after = runs.partition_point(|run| run.first <= page);
        let run = after.checked_sub(1).and_then(|i| runs.get(i));
        let run = run.ok_or(EINVAL)?;
        let skip = page - run.first;
        if skip >= run.count {
            return Err(EINVAL);
        }
        Ok((run.dma + (skip * PAGE_SIZE) as u64, run.count - skip))
    }

    /// See [`Runs::dma_runs`].
    pub(in crate::kapi) fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>> {
        let Some(Memory::Runs(runs)) = self.0.memory() else {
            return Err(EINVAL);
        };
        // Runs follow each other from page 0 on.
        let count = runs.last().map_or(0, |run| run.first + run.count);
        if pages.end > count {
            return Err(EINVAL);
        }
        let first = runs.partition_point(|run| run.first + run.count <= pages.start);
        Ok(DmaRuns {
            runs: runs.get(first..).unwrap_or_default().iter(),
            pages,
        })
    }
}
