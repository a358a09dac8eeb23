// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Caches of the compute units, in adversarial mode, between shaders and the L2 of their XCC: the
//! scalar cache (K$), the instruction cache (I$), and one of vector memory for each CU (L1, TCP; L0
//! on gfx12). They are not probed: lines are stale until they are invalidated. Only scalar stores
//! write to lines.
//!
//! * A line is filled through the L2 ([`l2`](super::l2)), from pages of any MTYPE: for kernel
//!   arguments, which are UC so that the L2 needs no invalidation, that of the L1 is required
//!   (LLVM, AMDGPUUsage, "Memory Model GFX942" and "Memory Model GFX12").
//! * Scalar loads with GLC of gfx942, or with a SCOPE above `SCOPE_CU` on gfx12, miss ("Memory
//!   Model GFX12": a cache forwards accesses of a wider scope than its own).
//! * Scalar stores of gfx942 without GLC stay in the scalar cache until `s_dcache_wb`, ACQUIRE_MEM
//!   with the SH_KCACHE_WB action, or any time, if the adversary chooses the line; the end of a
//!   wave, an AQL release and unmapping a queue do not write it back (AMD's ISA document of CDNA3;
//!   the trap handler of the C driver stores with GLC). They are not visible to vector
//!   instructions, the command processor and other XCCs.
//! * Vector stores go to the L2 at once, atomics past the vector cache ("Memory Model GFX942");
//!   both drop the line of their CU, as do loads with SC0 or SC1, or a SCOPE above `SCOPE_CU`,
//!   which miss.
//! * The vector cache of a CU is invalidated by `buffer_inv`, and by `global_inv` with a SCOPE
//!   above `SCOPE_CU` (the same sections, for synchronization between workgroups).
//! * All lines of the XCC are invalidated by `s_dcache_inv` and `s_icache_inv` (AMD's ISA documents
//!   of CDNA3 and RDNA4), before an AQL packet with an acquire scope (`hsa.h`: without one the
//!   packet relies on other fences), by ACQUIRE_MEM with SH_KCACHE, SH_ICACHE and TCL1 actions, on
//!   gfx12 with GLK_INV, GLI_INV and GLV_INV (the C driver requests them in
//!   `gfx_v9_4_3_emit_mem_sync` and `gfx_v12_0_emit_mem_sync`), which GCR_REQ of SDMA may have,
//!   too, and by RELEASE_MEM with TCL1 or GLV_INV. The L1 of gfx12 is a buffer without lines
//!   (LLVM).
//! * The firmware invalidates them when it maps a queue or assigns a VMID. It has to: VMIDs and the
//!   addresses of trap handlers are those of former processes, and the C driver requests it for
//!   gfx7 only (`deallocate_vmid`).
//! * Stores of vector instructions, the host and SDMA do not reach them: the scalar and vector
//!   caches are not coherent (LLVM, both).
//!
//! Where no description of the silicon is public, or two disagree, the milder rule is modelled:
//!
//! * according to LLVM the CP invalidates these caches between dispatches, according to HSA an
//!   acquire fence does. The adversary chooses, for each packet without one;
//! * a line belongs to a VMID and a physical address, and an access is translated before: it never
//!   hits in what another process, or this one by a former mapping, has loaded. Hence invalidations
//!   of the TLB do not matter. Vector caches of CDNA are looked up by physical addresses (AMD, ROCm
//!   Compute Profiler, "Vector L1 cache");
//! * a SCOPE of `global_inv` above `SCOPE_CU` includes the scalar cache;
//! * the range of a request is ignored, and so is the difference of volatile lines;
//! * one scalar and one instruction cache serve all CUs of an XCC, and are as large as those of a
//!   group of CUs; both CUs of a workgroup processor have one vector cache;
//! * vector caches have no lines of UC and CC pages, and none of those is longer than 64 bytes;
//! * SC0 alone, with which waves of a workgroup may hit, is a miss, and so are NT and temporal
//!   hints;
//! * `buffer_inv` without SC0 and SC1 invalidates the vector cache;
//! * nothing is prefetched;
//! * scalar stores and atomics, which compilers do not emit for gfx942, invalidate the scalar
//!   cache; those with GLC, atomics, and loads with GLC write it back before;
//! * bytes that were stored survive an invalidation, and are lost when their VMID gets an owner;
//! * the adversary fetches a line again at any time.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_wave::{Isa, WaveSlots};

pub mod stored;

use super::l2::NoMemory;
use super::tlb::Mtype;
use super::{Pa, Target};
use crate::adversary::Adversary;
use crate::masked::pieces;
use stored::{Line, Stored};

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
    /// Of vector memory.
    Vector,
}

impl Cache {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Code, Self::Vector];

    /// Returns the number of lines: 16 KiB, 64 KiB, 16 KiB.
    const fn lines(self) -> usize {
        match self {
            Self::Scalar | Self::Vector => (16 << 10) / LINE,
            Self::Code => (64 << 10) / LINE,
        }
    }

    /// Returns the number of caches of an XCC.
    const fn count(self) -> usize {
        match self {
            Self::Scalar | Self::Code => 1,
            Self::Vector => CuNumber::COUNT,
        }
    }
}

/// A CU of an XCC that has a vector cache; on gfx12 a workgroup processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CuNumber(u8);

impl CuNumber {
    /// Upper limit of their number.
    const COUNT: usize = 1 << 8;

    /// Returns the CU of a workgroup.
    pub fn of(slots: &WaveSlots, isa: Isa) -> Self {
        let cu = match isa {
            Isa::Gfx942 => slots.cu,
            Isa::Gfx1201 => slots.cu / 2,
        };
        Self(((slots.se & 7) << 5 | (slots.sh & 1) << 4 | cu & 0xf) as u8)
    }
}

/// The cache that an access goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The scalar cache.
    Scalar,
    /// The instruction cache.
    Code,
    /// The vector cache of a CU.
    Vector(CuNumber),
}

impl Via {
    /// Returns the kind of the cache, and its number in the XCC.
    fn place(self) -> (Cache, usize) {
        match self {
            Self::Scalar => (Cache::Scalar, 0),
            Self::Code => (Cache::Code, 0),
            Self::Vector(CuNumber(n)) => (Cache::Vector, n.into()),
        }
    }

    /// Returns whether the cache has lines of a page.
    pub fn caches(self, pa: Pa) -> bool {
        !matches!(self, Self::Vector(_)) || matches!(pa.mtype, Mtype::Nc | Mtype::Rw)
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
type Xcc = [Vec<Mutex<Lines>>; Cache::ALL.len()];

/// The caches of all XCCs.
pub struct CuCaches {
    adversary: Arc<Adversary>,
    xccs: Vec<Xcc>,
    /// By XCC.
    stored: Vec<Mutex<Stored>>,
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

fn lock<T>(lines: &Mutex<T>) -> MutexGuard<'_, T> {
    lines.lock().unwrap_or_else(|e| e.into_inner())
}

impl CuCaches {
    /// Returns the empty caches of `xccs` XCCs.
    pub fn new(adversary: Arc<Adversary>, xccs: usize) -> Self {
        let empty = |cache: Cache| (0..cache.count()).map(|_| Mutex::default()).collect();
        Self {
            adversary,
            xccs: (0..xccs).map(|_| Cache::ALL.map(empty)).collect(),
            stored: (0..xccs).map(|_| Mutex::default()).collect(),
        }
    }

    fn lock(&self, xcc: u8, via: Via) -> MutexGuard<'_, Lines> {
        let (cache, n) = via.place();
        lock(&self.xccs[usize::from(xcc)][cache as usize][n])
    }

    /// Loads for a shader. `fill` reads a line.
    pub fn read(
        &self,
        (xcc, vmid): (u8, u8),
        via: Via,
        pa: Pa,
        buf: &mut [u8],
        fill: impl Fn(Pa, &mut [u8]) -> Result<(), NoMemory>,
    ) -> Result<(), NoMemory> {
        let mut result = Ok(());
        lines(pa.target, buf.len(), |target, start, range| {
            let key = (vmid, target);
            let mut lines = self.lock(xcc, via);
            let place = lines.place(via.place().0, key);
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
            buf[range.clone()].copy_from_slice(&bytes[start..end]);
            if via == Via::Scalar {
                self.stored(xcc).overlay(key, start, range, buf);
            }
        });
        result
    }

    fn stored(&self, xcc: u8) -> MutexGuard<'_, Stored> {
        lock(&self.stored[usize::from(xcc)])
    }

    /// Stores to the scalar cache. Returns lines that are to be written back.
    pub fn store(&self, (xcc, vmid): (u8, u8), pa: Pa, data: &[u8]) -> Vec<Line> {
        let mut victims = Vec::new();
        lines(pa.target, data.len(), |target, start, range| {
            let line = ((vmid, target), Pa { target, ..pa });
            let mut stored = self.stored(xcc);
            victims.extend(stored.store(&self.adversary, line, start, &data[range]));
        });
        victims
    }

    /// Takes the lines that are to be written back by `s_dcache_wb`.
    pub fn take_stored(&self, xcc: u8) -> Vec<Line> {
        self.stored(xcc).take()
    }

    /// Drops bytes that the former owner of a VMID has stored.
    pub fn forget_stored(&self, xcc: u8, vmid: u8) {
        self.stored(xcc).forget(vmid);
    }

    /// Drops the lines of a range that a shader has stored to, or loads past the cache.
    pub fn forget(&self, (xcc, vmid): (u8, u8), via: Via, target: Target, len: usize) {
        let mut cache = self.lock(xcc, via);
        if cache.0.is_empty() {
            return;
        }
        lines(target, len, |target, _, _| {
            let key = (vmid, target);
            let place = cache.place(via.place().0, key);
            if place.as_ref().is_some_and(|line| line.0 == key) {
                *place = None;
            }
        });
    }

    /// Invalidates caches of an XCC, of a kind those of all CUs.
    pub fn invalidate(&self, xcc: u8, caches: &[Cache]) {
        for cache in caches {
            for lines in &self.xccs[usize::from(xcc)][*cache as usize] {
                lock(lines).0.clear();
            }
        }
    }

    /// Invalidates the vector cache of a CU.
    pub fn invalidate_cu(&self, xcc: u8, cu: CuNumber) {
        self.lock(xcc, Via::Vector(cu)).0.clear();
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
            self.take_stored(xcc as u8);
        }
    }
}

#[cfg(test)]
mod tests;
