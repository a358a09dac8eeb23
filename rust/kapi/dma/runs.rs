// SPDX-License-Identifier: GPL-2.0

//! Runs of pages at consecutive addresses.

use core::{ops::Range, slice};

use kernel::{num::casts::u32_as_usize, page::PAGE_SIZE, prelude::*};

/// Pages that follow each other: `count` pages of a whole from page `first` on, at physical or DMA
/// address `addr`.
pub(crate) use crate::bindings::rkfd_run as Run;

impl Run {
    /// Returns the number of the page behind the last one.
    pub(crate) fn end(&self) -> usize {
        u32_as_usize(self.first) + u32_as_usize(self.count)
    }

    /// Returns the address of page `skip` of the run.
    pub(crate) fn addr_of(&self, skip: usize) -> u64 {
        self.addr + (skip * PAGE_SIZE) as u64
    }

    /// Returns the run of page `page`, and the number of the page in it. `runs` are in order and
    /// follow each other from page 0 on; `EINVAL` beyond their end.
    pub(crate) fn find(runs: &[Self], page: usize) -> Result<(&Self, usize)> {
        let at = runs.partition_point(|run| run.end() <= page);
        let run = runs.get(at).ok_or(EINVAL)?;
        Ok((run, page - u32_as_usize(run.first)))
    }
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
    runs: slice::Iter<'a, Run>,
    pages: Range<usize>,
}

impl<'a> DmaRuns<'a> {
    /// Returns the parts of `pages` in `runs`, which are as those of [`Run::find`].
    pub(crate) fn new(runs: &'a [Run], pages: Range<usize>) -> Result<Self> {
        if pages.end > runs.last().map_or(0, Run::end) {
            return Err(EINVAL);
        }
        let first = runs.partition_point(|run| run.end() <= pages.start);
        Ok(Self {
            runs: runs.get(first..).unwrap_or_default().iter(),
            pages,
        })
    }

    /// Removes single pages that come next, and stores their addresses, with `flags`, as far as
    /// there is room. Returns how many, 0 if several pages come next.
    #[inline]
    pub(crate) fn take_pages(&mut self, to: &mut [u64], flags: u64) -> usize {
        let runs = self.runs.as_slice();
        let most = self.pages.len().min(runs.len());
        let mut count = 0;
        for (to, run) in to.iter_mut().zip(&runs[..most]) {
            if run.count != 1 {
                break;
            }
            *to = run.addr | flags;
            count += 1;
        }
        self.runs = runs[count..].iter();
        self.pages.start += count;
        count
    }
}

impl Iterator for DmaRuns<'_> {
    type Item = (u64, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.pages.is_empty() {
            return None;
        }
        let run = self.runs.next()?;
        let skip = self.pages.start - u32_as_usize(run.first);
        let count = (u32_as_usize(run.count) - skip).min(self.pages.len());
        self.pages.start += count;
        Some((run.addr_of(skip), count))
    }
}
