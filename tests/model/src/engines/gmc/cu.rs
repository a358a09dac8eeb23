// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Caches of the compute units, in adversarial mode, between shaders and the L2 of their XCC: the
//! scalar cache (K$) and the instruction cache (I$). Nothing is stored in their lines, and nobody
//! probes them: they are stale until they are invalidated.
//!
//! * A line is filled through the L2 ([`l2`](super::l2)), from pages of any MTYPE: for kernel
//!   arguments, which are UC so that the L2 needs no invalidation, that of the L1 is required
//!   (LLVM, AMDGPUUsage, "Memory Model GFX942" and "Memory Model GFX12").
//! * Scalar loads with GLC of gfx942, or with a SCOPE above `SCOPE_CU` on gfx12, miss ("Memory
//!   Model GFX12": a cache forwards accesses of a wider scope than its own).
//! * All lines of the XCC are invalidated by `s_dcache_inv` and `s_icache_inv` (AMD's ISA documents
//!   of CDNA3 and RDNA4), before an AQL packet with an acquire scope (`hsa.h`: without one the
//!   packet relies on other fences), by ACQUIRE_MEM with SH_KCACHE and SH_ICACHE actions, on gfx12
//!   with GLK_INV and GLI_INV (the C driver requests them in `gfx_v9_4_3_emit_mem_sync` and
//!   `gfx_v12_0_emit_mem_sync`), which GCR_REQ of SDMA may have, too.
//! * The firmware invalidates them when it maps a queue or assigns a VMID. It has to: VMIDs and the
//!   addresses of trap handlers are those of former processes, and the C driver requests nothing.
//! * Stores of vector instructions, the host and SDMA do not reach them: the scalar and vector
//!   caches are not coherent (LLVM, both).
//!
//! Where no description of the silicon is public, or two disagree, the milder rule is modelled:
//!
//! * according to LLVM the CP invalidates these caches between dispatches, according to HSA an
//!   acquire fence does. The adversary chooses, for each packet without one;
//! * a line belongs to a VMID and a physical address, and an access is translated before: it never
//!   hits in what another process, or this one by a former mapping, has loaded. Hence invalidations
//!   of the TLB do not matter;
//! * a SCOPE of `global_inv` above `SCOPE_CU` includes the scalar cache;
//! * the range of a request is ignored, and so is the difference of volatile lines;
//! * one cache serves all CUs of an XCC, and is as large as that of a group of CUs;
//! * nothing is prefetched;
//! * scalar stores and atomics, which compilers do not emit for gfx942, invalidate the scalar
//!   cache;
//! * the adversary fetches a line again at any time.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use super::l2::NoMemory;
use super::{Pa, Target};
use crate::adversary::Adversary;
use crate::masked::pieces;

/// Bytes of a line.
pub const LINE: usize = 64;
/// One in so many hits fetches the line again.
const AGAIN: usize = 16;

/// A kind of cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Of scalar loads.
    Scalar,
    /// Of instructions.
    Code,
}

impl Cache {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Scalar, Self::Code];

    /// Returns the number of lines: 16 KiB, 64 KiB.
    const fn lines(self) -> usize {
        match self {
            Self::Scalar => (16 << 10) / LINE,
            Self::Code => (64 << 10) / LINE,
        }
    }
}

/// VMID and location of a line.
type Key = (u8, Target);

/// A direct-mapped cache. Empty until its first line is filled.
#[derive(Default)]
struct Lines(Vec<Option<(Key, [u8; LINE])>>);

impl Lines {
    /// Returns the place of a line.
    fn place(&mut self, cache: Cache, key: Key) -> &mut Option<(Key, [u8; LINE])> {
        if self.0.is_empty() {
            self.0.resize(cache.lines(), None);
        }
        let (vmid, Target::Vram(at) | Target::System(at)) = key;
        let number = (at / LINE as u64) as usize;
        let place = (number ^ number / cache.lines() ^ usize::from(vmid)) % cache.lines();
        &mut self.0[place]
    }
}

/// Caches of an XCC, by [`Cache`].
type Xcc = [Mutex<Lines>; Cache::ALL.len()];

/// The caches of all XCCs.
pub struct CuCaches {
    adversary: Arc<Adversary>,
    xccs: Vec<Xcc>,
}

/// Calls `f` for the piece of each line in `len` bytes: line, start there, range of the data.
fn lines(target: Target, len: usize, mut f: impl FnMut(Target, usize, Range<usize>)) {
    match target {
        Target::Vram(at) => pieces::<LINE>(at, len, |line, start, range| {
            f(Target::Vram(line), start, range);
        }),
        Target::System(at) => pieces::<LINE>(at, len, |line, start, range| {
            f(Target::System(line), start, range);
        }),
    }
}

impl CuCaches {
    /// Returns the empty caches of `xccs` XCCs.
    pub fn new(adversary: Arc<Adversary>, xccs: usize) -> Self {
        Self {
            adversary,
            xccs: (0..xccs).map(|_| Xcc::default()).collect(),
        }
    }

    fn lock(&self, xcc: u8, cache: Cache) -> MutexGuard<'_, Lines> {
        let lines = &self.xccs[usize::from(xcc)][cache as usize];
        lines.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Loads for a shader. `fill` reads a line.
    pub fn read(
        &self,
        (xcc, vmid): (u8, u8),
        cache: Cache,
        pa: Pa,
        buf: &mut [u8],
        fill: impl Fn(Pa, &mut [u8]) -> Result<(), NoMemory>,
    ) -> Result<(), NoMemory> {
        let mut result = Ok(());
        lines(pa.target, buf.len(), |target, start, range| {
            let key = (vmid, target);
            let mut lines = self.lock(xcc, cache);
            let place = lines.place(cache, key);
            let hit = place.as_ref().filter(|line| line.0 == key);
            let kept = hit.filter(|_| self.adversary.below(AGAIN) != 0);
            let bytes = match kept {
                Some((_, bytes)) => *bytes,
                None => {
                    let mut bytes = [0; LINE];
                    if let Err(e) = fill(Pa { target, ..pa }, &mut bytes) {
                        result = Err(e);
                        return;
                    }
                    *place = Some((key, bytes));
                    bytes
                }
            };
            let end = start + range.len();
            buf[range].copy_from_slice(&bytes[start..end]);
        });
        result
    }

    /// Invalidates caches of an XCC.
    pub fn invalidate(&self, xcc: u8, caches: &[Cache]) {
        for cache in caches {
            self.lock(xcc, *cache).0.clear();
        }
    }

    /// Invalidates caches of an XCC, or not.
    pub fn may_invalidate(&self, xcc: u8, caches: &[Cache]) {
        if self.adversary.below(2) == 0 {
            self.invalidate(xcc, caches);
        }
    }

    /// Drops all lines, as a reset does.
    pub fn discard(&self) {
        for xcc in 0..self.xccs.len() {
            self.invalidate(xcc as u8, &Cache::ALL);
        }
    }
}

#[cfg(test)]
mod tests;
