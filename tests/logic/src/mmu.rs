// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/mmu`.

#[allow(clippy::all)]
#[path = "../../../rust/mmu/lazy_vec.rs"]
mod lazy_vec;
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
    use crate::gpu::Gpu;

    /// Memory of a BO: addresses that PTEs have, and bytes in one piece.
    pub(super) struct Placement(pub(super) Vec<(u64, u64)>);

    impl Placement {
        /// Returns the address for byte `at`, and the bytes that follow in one piece. `EINVAL`
        /// beyond the end.
        pub(super) fn run(
            &self,
            _gpu: &Gpu,
            _peer: Option<&PeerUse>,
            at: u64,
        ) -> Result<(u64, u64)> {
            let mut first = 0;
            for (address, len) in &self.0 {
                if at < first + len {
                    return Ok((address + (at - first), first + len - at));
                }
                first += len;
            }
            Err(EINVAL)
        }

        /// Calls `f` with the address and the bytes of each piece of `part`.
        pub(super) fn for_runs(
            &self,
            gpu: &Gpu,
            peer: Option<&PeerUse>,
            part: Range<u64>,
            mut f: impl FnMut(u64, u64) -> Result,
        ) -> Result {
            let mut at = part.start;
            while at < part.end {
                let (address, len) = self.run(gpu, peer, at)?;
                let len = len.min(part.end - at);
                f(address, len)?;
                at += len;
            }
            Ok(())
        }
    }
}
