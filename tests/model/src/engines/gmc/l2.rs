// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L2 caches, in adversarial mode: one per XCC, between its shaders and memory. Gfx12 has one.
//! Between them and the shaders are the caches of the CUs ([`cu`](super::cu)).
//!
//! A line has 128 bytes of a physical address, and a mask of those that were stored and not written
//! back. The PTE's MTYPE selects the handling of an access (LLVM, AMDGPUUsage, "Memory Model
//! GFX942", for RW and NC; "Memory Model GFX12" has NC and UC, and the scopes; the choices of the C
//! driver are in `gmc_v9_0_get_coherence_flags` and `gmc_v12_0_get_vm_pte`, which uses UC and NC
//! only):
//!
//! * UC: no line.
//! * CC: stores are written through, and a line is invalidated by writes of others: like no line.
//! * RW: there is a line. Stores stay in it until it is written back, and then invalidate the lines
//!   of the other XCCs (probe), if the PTE has SNOOPED. Writes of SDMA and of the host probe too;
//!   for those of SDMA the PTE has SNOOPED, or the driver has set the override of its memory hub
//!   (`mmhub_v1_8_init_snoop_override_regs`).
//! * NC: the same, but a line is not probed. It is stale until an invalidation.
//!
//! Dirty bytes of a line are not visible to SDMA of gfx942, the host and other XCCs. Lines are
//! written back
//!
//! * by `buffer_wbl2` or `global_wb`, at the end of an AQL packet with a release scope, by
//!   RELEASE_MEM and ACQUIRE_MEM with TC_WB or TC action, on gfx12 with GL2_WB, which GCR_REQ of
//!   SDMA may have, too,
//! * by a store of scope agent or system (SC1, SCOPE),
//! * at any time, if the adversary chooses the line.
//!
//! NC lines are invalidated by `buffer_inv` or `global_inv`, before an AQL packet with an acquire
//! scope, and by GL2_INV; all lines by a TC action. A load of scope agent or system invalidates its
//! line, if that is NC. Scope agent has these effects only if the agent has several XCCs.
//!
//! Where no description of the silicon is public, the milder rule is modelled:
//!
//! * the command processor, atomics, and SDMA of gfx12, which is a client of the L2, access memory,
//!   past the line, which is written back and invalidated before; so does an access by a PTE with
//!   UC to a line of another mapping;
//! * bytes that were stored survive an invalidation;
//! * a GCR request acts on the whole L2, whatever its range is;
//! * an L2 of gfx12 is not larger than one of gfx942;
//! * the HWS and MES write lines back when they unmap a queue;
//! * a heavyweight TLB flush writes back and invalidates all lines. The C driver documents this for
//!   PTEs in the L2 of gfx9 (`gmc_v9_0_hw_init`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_regs::mmhub_1_8_0 as mm;
use gpu_wave::Scope;

use super::tlb::Mtype;
use super::{Pa, Target};
use crate::adversary::Adversary;
use crate::dma::GuestMemory;
use crate::log::Strict;
use crate::masked::{pieces, Masked};
use crate::regs::RegId;
use crate::strict;
use crate::vram::Vram;

/// Bytes of a line.
const LINE: usize = 128;
/// Channels of an L2, by address.
const CHANNELS: usize = 16;
/// Lines of a channel: 4 MiB per L2.
const LINES: usize = (4 << 20) / LINE / CHANNELS;
/// One in so many new lines has another one written back.
const EARLY: usize = 32;
/// Client of SDMA in the override registers (`mmhub_v1_8_init_snoop_override_regs`).
const SDMA_CLIENT: u32 = 1 << 15;
/// DAGBs of a memory hub.
const DAGBS: u32 = 5;

/// There is no memory at the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

/// Address of a line: bit 0 is set in guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key(u64);

impl Key {
    fn target(self) -> Target {
        match self.0 & 1 {
            0 => Target::Vram(self.0),
            _ => Target::System(self.0 & !1),
        }
    }

    fn channel(self) -> usize {
        (self.0 >> 7 ^ self.0 >> 11) as usize % CHANNELS
    }
}

/// Calls `f` for the piece of each line in `len` bytes.
fn lines(target: Target, len: usize, mut f: impl FnMut(Key, usize, std::ops::Range<usize>)) {
    let (at, space) = match target {
        Target::Vram(at) => (at, 0),
        Target::System(at) => (at, 1),
    };
    pieces::<LINE>(at, len, |line, start, range| {
        f(Key(line | space), start, range);
    });
}

struct Line {
    data: Masked<LINE>,
    /// The bytes that are not stored are those of memory.
    filled: bool,
    mtype: Mtype,
    snooped: bool,
}

#[derive(Default)]
struct Channel {
    lines: HashMap<Key, Line>,
    /// The keys of `lines`.
    order: Vec<Key>,
}

type L2 = [Mutex<Channel>; CHANNELS];

/// The L2s of all XCCs.
pub struct Caches {
    memory: Memory,
    adversary: Arc<Adversary>,
    xccs: Vec<L2>,
    /// By memory hub: the DAGBs with the override, and those with its value.
    overrides: Vec<[AtomicU32; 2]>,
}

struct Memory {
    strict: Arc<Strict>,
    vram: Arc<Vram>,
    dma: Arc<GuestMemory>,
}

impl Memory {
    /// Reads a line, by words: the guest may write them meanwhile.
    fn read(&self, key: Key) -> Result<[u8; LINE], NoMemory> {
        let mut data = [0; LINE];
        for (n, word) in data.chunks_exact_mut(8).enumerate() {
            let ok = match key.target() {
                Target::Vram(at) => self.vram.read(at + 8 * n as u64, word).is_ok(),
                Target::System(at) => self.dma.read(at + 8 * n as u64, word).is_ok(),
            };
            if !ok {
                return Err(NoMemory);
            }
        }
        Ok(data)
    }

    fn is_writable(&self, key: Key) -> bool {
        match key.target() {
            Target::Vram(at) => at < self.vram.len(),
            Target::System(at) => self.dma.enter().find(at, true).is_some(),
        }
    }

    /// Writes a line back. Returns its address, if others are to be probed.
    fn write_back(&self, key: Key, line: &mut Line) -> Option<Key> {
        if line.data.is_clean() {
            return None;
        }
        let result = match key.target() {
            Target::Vram(to) => line
                .data
                .write_back(|at, data| self.vram.write(to + at, data).map_err(|_| NoMemory)),
            Target::System(to) => line
                .data
                .write_back(|at, data| self.dma.write(to + at, data).map_err(|_| NoMemory)),
        };
        if result.is_err() && self.dma.is_master() {
            strict!(
                self.strict,
                "l2",
                "write-back of a line to {:x?}: no memory",
                key.target()
            );
        }
        line.snooped.then_some(key)
    }
}

impl Channel {
    /// Returns the line of `key`. A new one may take the place of another, or the adversary may
    /// choose one to be written back; that one is returned too.
    fn line(
        &mut self,
        (memory, adversary): (&Memory, &Adversary),
        key: Key,
        pa: Pa,
    ) -> (&mut Line, Option<Key>) {
        let mut written = None;
        if !self.lines.contains_key(&key) {
            let count = self.order.len();
            if count == LINES {
                let victim = self.order.swap_remove(adversary.below(count));
                let line = self.lines.remove(&victim);
                written = line.and_then(|mut line| memory.write_back(victim, &mut line));
            } else if count != 0 && adversary.below(EARLY) == 0 {
                let early = self.order[adversary.below(count)];
                let line = self.lines.get_mut(&early);
                written = line.and_then(|line| memory.write_back(early, line));
            }
            self.order.push(key);
        }
        let line = self.lines.entry(key).or_insert_with(|| Line {
            data: Masked::default(),
            filled: false,
            mtype: pa.mtype,
            snooped: pa.snooped,
        });
        (line, written)
    }
}

fn lock(channel: &Mutex<Channel>) -> MutexGuard<'_, Channel> {
    channel.lock().unwrap_or_else(|e| e.into_inner())
}

impl Caches {
    /// Returns the empty L2s of `xccs` XCCs, on a card with `hubs` memory hubs.
    pub fn new(
        strict: Arc<Strict>,
        vram: Arc<Vram>,
        dma: Arc<GuestMemory>,
        adversary: Arc<Adversary>,
        [xccs, hubs]: [usize; 2],
    ) -> Self {
        Self {
            memory: Memory { strict, vram, dma },
            adversary,
            xccs: (0..xccs).map(|_| L2::default()).collect(),
            overrides: (0..hubs).map(|_| Default::default()).collect(),
        }
    }

    /// Returns whether accesses to a page use a line.
    pub fn caches(pa: Pa) -> bool {
        matches!(pa.mtype, Mtype::Nc | Mtype::Rw)
    }

    /// Probes the other XCCs for lines that `xcc` has written.
    fn probe_others(&self, xcc: u8, written: &[Key]) {
        for key in written {
            self.probe(key.target(), LINE as u64, Some(xcc));
        }
    }

    /// Loads for a shader of an XCC.
    pub fn read(&self, xcc: u8, pa: Pa, buf: &mut [u8], scope: Scope) -> Result<(), NoMemory> {
        let mut result = Ok(());
        let mut written = Vec::new();
        lines(pa.target, buf.len(), |key, start, range| {
            let mut channel = lock(&self.xccs[usize::from(xcc)][key.channel()]);
            let (line, other) = channel.line((&self.memory, &self.adversary), key, pa);
            written.extend(other);
            if scope >= Scope::Agent && pa.mtype == Mtype::Nc {
                line.filled = false;
            }
            if !line.filled && !line.data.covers(start, range.len()) {
                match self.memory.read(key) {
                    Ok(data) => {
                        line.data.fill(&data);
                        line.filled = true;
                        line.mtype = pa.mtype;
                    }
                    Err(e) => result = Err(e),
                }
            }
            let end = start + range.len();
            buf[range].copy_from_slice(&line.data.bytes()[start..end]);
        });
        self.probe_others(xcc, &written);
        result
    }

    /// Reads a line of a cache of the CUs of an XCC.
    pub fn fill(&self, xcc: u8, pa: Pa, buf: &mut [u8]) -> Result<(), NoMemory> {
        if Self::caches(pa) {
            return self.read(xcc, pa, buf, Scope::Wave);
        }
        self.sync(xcc, pa.target, buf.len());
        let mut result = Ok(());
        lines(pa.target, buf.len(), |key, start, range| {
            match self.memory.read(key) {
                Ok(data) => buf[range.clone()].copy_from_slice(&data[start..start + range.len()]),
                Err(e) => result = Err(e),
            };
        });
        result
    }

    /// Stores for a shader of an XCC. Nothing is stored if there is no memory.
    pub fn write(&self, xcc: u8, pa: Pa, data: &[u8], scope: Scope) -> Result<(), NoMemory> {
        let mut result = Ok(());
        let mut written = Vec::new();
        lines(pa.target, data.len(), |key, start, range| {
            if !self.memory.is_writable(key) {
                result = Err(NoMemory);
                return;
            }
            let mut channel = lock(&self.xccs[usize::from(xcc)][key.channel()]);
            let (line, other) = channel.line((&self.memory, &self.adversary), key, pa);
            written.extend(other);
            line.data.store(start, &data[range]);
            (line.mtype, line.snooped) = (pa.mtype, pa.snooped);
            if scope >= Scope::Agent {
                written.extend(self.memory.write_back(key, line));
            }
        });
        self.probe_others(xcc, &written);
        result
    }

    /// Writes back and invalidates the lines of an XCC in a range, for an access past them.
    pub fn sync(&self, xcc: u8, target: Target, len: usize) {
        let mut written = Vec::new();
        lines(target, len, |key, _, _| {
            let mut channel = lock(&self.xccs[usize::from(xcc)][key.channel()]);
            if let Some(line) = channel.lines.get_mut(&key) {
                written.extend(self.memory.write_back(key, line));
                line.filled = false;
            }
        });
        self.probe_others(xcc, &written);
    }

    /// Invalidates the RW lines of all XCCs but `except` in a range that was written.
    pub fn probe(&self, target: Target, len: u64, except: Option<u8>) {
        for (n, l2) in self.xccs.iter().enumerate() {
            if except.is_some_and(|xcc| usize::from(xcc) == n) {
                continue;
            }
            lines(target, len as usize, |key, _, _| {
                let mut channel = lock(&l2[key.channel()]);
                if let Some(line) = channel.lines.get_mut(&key) {
                    line.filled &= line.mtype == Mtype::Nc;
                }
            });
        }
    }

    /// Calls `f` for all lines of an XCC.
    fn for_each(&self, xcc: u8, mut f: impl FnMut(Key, &mut Line)) {
        for channel in &self.xccs[usize::from(xcc)] {
            let mut channel = lock(channel);
            channel
                .lines
                .iter_mut()
                .for_each(|(key, line)| f(*key, line));
        }
    }

    /// Writes back all lines of an XCC.
    pub fn write_back(&self, xcc: u8) {
        let mut written = Vec::new();
        self.for_each(xcc, |key, line| {
            written.extend(self.memory.write_back(key, line));
        });
        self.probe_others(xcc, &written);
    }

    /// Invalidates the NC lines of an XCC.
    pub fn invalidate(&self, xcc: u8) {
        self.for_each(xcc, |_, line| line.filled &= line.mtype != Mtype::Nc);
    }

    /// Writes back and invalidates all lines of an XCC.
    pub fn flush(&self, xcc: u8) {
        self.write_back(xcc);
        self.for_each(xcc, |_, line| line.filled = false);
    }

    /// Drops all lines, dirty ones included, as a reset does.
    pub fn discard(&self) {
        for channel in self.xccs.iter().flatten() {
            *lock(channel) = Channel::default();
        }
        for value in self.overrides.iter().flatten() {
            value.store(0, Ordering::Relaxed);
        }
    }

    /// Handles a write to a register of a memory hub.
    pub fn hub_register(&self, hub: u8, reg: RegId, value: u32) {
        let first = RegId::from(mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE);
        let distance = mm::regDAGB1_WRCLI_GPU_SNOOP_OVERRIDE.off - first.off;
        let at = reg.off.wrapping_sub(first.off);
        let (dagb, which) = (at / distance, (at % distance) as usize);
        if reg.seg != first.seg || dagb >= DAGBS || which > 1 {
            return;
        }
        let dagbs = &self.overrides[usize::from(hub)][which];
        match value & SDMA_CLIENT {
            0 => dagbs.fetch_and(!(1 << dagb), Ordering::AcqRel),
            _ => dagbs.fetch_or(1 << dagb, Ordering::AcqRel),
        };
    }

    /// Returns whether writes of the SDMA engines at a memory hub probe in any case: a DAGB has the
    /// override. It is unknown which DAGB serves the SDMA engines.
    pub fn is_overridden(&self, hub: u8) -> bool {
        let [enabled, value] = &self.overrides[usize::from(hub)];
        enabled.load(Ordering::Acquire) & value.load(Ordering::Acquire) != 0
    }
}

#[cfg(test)]
mod tests;
