// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/mmu`.

#[allow(clippy::all)]
#[path = "../../../rust/mmu/pages.rs"]
mod pages;
#[path = "../../../rust/mmu/pgtable.rs"]
mod pgtable;
#[cfg(test)]
mod pgtable_check;
#[allow(clippy::all)]
#[path = "../../../rust/mmu/pte.rs"]
mod pte;
#[allow(clippy::all)]
#[path = "../../../rust/mmu/source.rs"]
mod source;

pub(crate) use pages::{Pages, BLOCK_PAGES};

/// `rust/mmu/peer.rs`.
mod peer {
    /// Use of memory by another device, which no test has.
    pub(super) struct PeerUse;
}

/// `rust/mmu/placement.rs`.
mod placement {
    use std::ops::Range;

    use kernel::prelude::*;

    use super::peer::PeerUse;
    use crate::{
        gpu::Gpu,
        kapi::dma::{DmaRuns, Run},
    };

    const PAGE: u64 = 4096;

    /// Memory of a BO.
    pub(super) struct Placement {
        runs: Vec<Run>,
        is_system: bool,
    }

    impl Placement {
        /// Returns memory in pieces: addresses that PTEs have, and bytes.
        pub(super) fn new(pieces: &[(u64, u64)], is_system: bool) -> Self {
            let mut first = 0;
            let runs = pieces.iter().map(|(addr, len)| {
                let count = (len / PAGE) as u32;
                first += count;
                Run {
                    first: first - count,
                    count,
                    addr: *addr,
                }
            });
            Self {
                runs: runs.collect(),
                is_system,
            }
        }

        /// Returns the address for byte `at`, and the bytes that follow in one piece. `EINVAL`
        /// beyond the end.
        pub(super) fn run(
            &self,
            _gpu: &Gpu,
            _peer: Option<&PeerUse>,
            at: u64,
        ) -> Result<(u64, u64)> {
            let (run, skip) = Run::find(&self.runs, (at / PAGE) as usize)?;
            let len = (u64::from(run.count) - skip as u64) * PAGE - at % PAGE;
            Ok((run.addr_of(skip) + at % PAGE, len))
        }

        /// Returns the addresses of `part`, `None` for VRAM.
        pub(super) fn dma_runs<'a>(
            &'a self,
            _peer: Option<&'a PeerUse>,
            part: Range<u64>,
        ) -> Result<Option<DmaRuns<'a>>> {
            let pages = (part.start / PAGE) as usize..(part.end / PAGE) as usize;
            let runs = self.is_system.then(|| DmaRuns::new(&self.runs, pages));
            runs.transpose()
        }
    }
}
