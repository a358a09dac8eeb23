// SPDX-License-Identifier: GPL-2.0

//! Addresses of the memory that PTEs map.

use core::ops::Range;

use kernel::prelude::*;

use super::{peer::PeerUse, placement::Placement};
use crate::{gpu::Gpu, hw::PteAttrs, kapi::dma::DmaRuns};

/// Memory that PTEs map.
pub(super) struct Target<'a> {
    /// Placement of the BO.
    pub(super) placement: &'a Placement,
    /// Use of the memory by a device that is not its owner.
    pub(super) peer: Option<&'a PeerUse>,
    /// Attributes of the PTEs.
    pub(super) attrs: PteAttrs,
    /// Offset in the BO that the first PTE maps, in bytes.
    pub(super) offset: u64,
}

/// The memory of a [`Target`], mapped from a VA on.
pub(super) struct Source<'a> {
    gpu: &'a Gpu,
    target: &'a Target<'a>,
    va: u64,
    /// VAs of the last run, and its physical address.
    last: Range<u64>,
    pa: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(gpu: &'a Gpu, target: &'a Target<'a>, va: u64) -> Self {
        Self {
            gpu,
            target,
            va,
            last: 0..0,
            pa: 0,
        }
    }

    /// Returns the offset in the BO that `at` maps.
    fn offset(&self, at: u64) -> u64 {
        self.target.offset + (at - self.va)
    }

    /// Returns the physical address that `at` maps, and the bytes that follow in one piece. Errors
    /// as [`Placement::run`].
    pub(super) fn run(&mut self, at: u64) -> Result<(u64, u64)> {
        if !self.last.contains(&at) {
            let Target {
                placement, peer, ..
            } = self.target;
            let (pa, len) = placement.run(self.gpu, *peer, self.offset(at))?;
            self.last = at..at + len;
            self.pa = pa;
        }
        Ok((self.pa + (at - self.last.start), self.last.end - at))
    }

    /// Returns the DMA addresses between `va` and `end`. See [`Placement::dma_runs`].
    pub(super) fn dma_runs(&self, va: u64, end: u64) -> Result<Option<DmaRuns<'a>>> {
        let Target {
            placement, peer, ..
        } = self.target;
        placement.dma_runs(*peer, self.offset(va)..self.offset(end))
    }

    /// Calls `f` with the VAs and the physical address of each piece between `va` and `end`.
    /// Returns its first error; others as [`Placement::run`].
    pub(super) fn for_runs(
        &mut self,
        va: u64,
        end: u64,
        mut f: impl FnMut(Range<u64>, u64) -> Result,
    ) -> Result {
        let mut at = va;
        while at < end {
            let (pa, len) = self.run(at)?;
            let next = at + len.min(end - at);
            f(at..next, pa)?;
            at = next;
        }
        Ok(())
    }
}
