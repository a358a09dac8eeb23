// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Scratch memory of AQL queues: selection for a dispatch, and asynchronous reclaim.
//!
//! A runtime assigns one scratch buffer to a queue. A runtime with asynchronous reclaim
//! (`amd_queue_v2_t`) may assign a second, the alternate, for grids up to a limit, and reclaims
//! either while the queue lives: it unmaps the queue, sets the last packet that may use the buffer,
//! and checks which packet did. The MEC firmware of gfx942 supports this from version 177 on; the
//! protocol is described in ROCr's `amd_aql_queue.cpp` (AsyncReclaimMainScratch).

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc};
use gpu_wave::abi::KernelDescriptor;
use gpu_wave::Scratch;
use rkfd_abi::aql::queue::{self as amd_queue, v2};

use crate::chips::Generation;
use crate::engines::gmc::VmFault;

use super::engine::Engine;
use super::queue::Queue;

/// Scratch requirements of a dispatch.
pub(super) struct Need {
    /// Bytes per work-item.
    pub private: u32,
    /// Waves per workgroup.
    pub waves: u64,
    /// Work-items.
    pub grid: [u32; 3],
}

/// Offsets of a scratch buffer's fields in the queue descriptor.
struct Piece {
    lane: usize,
    ring: usize,
    base: usize,
    descriptor: usize,
    last_allowed: usize,
    last_used: usize,
}

const MAIN: Piece = Piece {
    lane: amd_queue::SCRATCH_WAVE64_LANE_BYTE_SIZE,
    ring: amd_queue::COMPUTE_TMPRING_SIZE,
    base: amd_queue::SCRATCH_BACKING_MEMORY_LOCATION,
    descriptor: amd_queue::SCRATCH_RESOURCE_DESCRIPTOR,
    last_allowed: v2::SCRATCH_MAX_USE_INDEX,
    last_used: v2::SCRATCH_LAST_USED_INDEX,
};

const ALTERNATE: Piece = Piece {
    lane: v2::ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE,
    ring: v2::ALT_COMPUTE_TMPRING_SIZE,
    base: v2::ALT_SCRATCH_BACKING_MEMORY_LOCATION,
    descriptor: v2::ALT_SCRATCH_RESOURCE_DESCRIPTOR,
    last_allowed: v2::ALT_SCRATCH_MAX_USE_INDEX,
    last_used: v2::SCRATCH_LAST_USED_INDEX + 8,
};

/// A scratch buffer, and its buffer descriptor.
type Found = (Scratch, [u32; 4]);

impl Engine<'_> {
    /// Announces support for asynchronous reclaim to the runtime when a queue is mapped. If the
    /// descriptor is not accessible, the first packet reports that.
    pub(super) fn connect(&self, queue: &Queue) {
        let (Generation::Gfx9, Some(at)) = (self.generation(), Self::amd_queue(queue)) else {
            return;
        };
        let (vmid, at) = (queue.config.vmid, at.wrapping_add(amd_queue::CAPS as u64));
        if let Ok(caps) = self.env.read32(vmid, at) {
            let known = caps | amd_queue::CAPS_CP_ASYNC_RECLAIM.mask;
            let _ = self.env.write32(vmid, at, known);
        }
    }

    /// Returns the scratch buffer for the dispatch in packet `index`. `None`: it is not sufficient.
    pub(super) fn scratch(
        &self,
        queue: &Queue,
        index: u64,
        kernel: &KernelDescriptor,
        need: &Need,
    ) -> Result<Option<Found>, VmFault> {
        if need.private == 0 {
            return Ok(Some(Default::default()));
        }
        let Some(at) = Self::amd_queue(queue) else {
            return Ok(None);
        };
        let vmid = queue.config.vmid;
        let caps = self
            .env
            .read32(vmid, at.wrapping_add(amd_queue::CAPS as u64))?;
        let reclaims = amd_queue::CAPS_CP_ASYNC_RECLAIM.is_set(caps)
            && amd_queue::CAPS_SW_ASYNC_RECLAIM.is_set(caps);
        if !reclaims {
            return self.piece(vmid, at, &MAIN, kernel, need);
        }
        let (piece, found) = match self.piece(vmid, at, &MAIN, kernel, need)? {
            Some(found) => (&MAIN, found),
            None => {
                for (n, &items) in need.grid.iter().enumerate() {
                    let limit = v2::ALT_SCRATCH_DISPATCH_LIMIT + 4 * n;
                    if items > self.env.read32(vmid, at.wrapping_add(limit as u64))? {
                        return Ok(None);
                    }
                }
                match self.piece(vmid, at, &ALTERNATE, kernel, need)? {
                    Some(found) => (&ALTERNATE, found),
                    None => return Ok(None),
                }
            }
        };
        let allowed = at.wrapping_add(piece.last_allowed as u64);
        if index > self.env.read64(vmid, allowed)? {
            return Ok(None);
        }
        // Each XCC has an entry for the two pieces.
        for n in 0..self.sites(queue).len() as u64 {
            let used = at.wrapping_add(piece.last_used as u64 + n * 16);
            self.env.write64(vmid, used, index)?;
        }
        Ok(Some(found))
    }

    /// Returns the scratch memory at an address that COMPUTE_TMPRING_SIZE describes.
    pub(super) fn scratch_of(&self, ring: u32, base: u64) -> Scratch {
        match self.generation() {
            // Number of waves, and size per wave in KiB.
            Generation::Gfx9 => Scratch {
                base,
                wave_stride: u64::from(gc::COMPUTE_TMPRING_SIZE__WAVESIZE.get(ring)) << 10,
                slots: gc::COMPUTE_TMPRING_SIZE__WAVES.get(ring).into(),
            },
            // Waves per shader engine, and size per wave in units of 256 bytes.
            Generation::Gfx12 => {
                let waves = u64::from(gc12::COMPUTE_TMPRING_SIZE__WAVES.get(ring));
                Scratch {
                    base,
                    wave_stride: u64::from(gc12::COMPUTE_TMPRING_SIZE__WAVESIZE.get(ring)) << 8,
                    slots: waves * u64::from(self.env.shader_engines()),
                }
            }
        }
    }

    /// Returns a scratch buffer, if it is sufficient.
    fn piece(
        &self,
        vmid: u8,
        at: u64,
        piece: &Piece,
        kernel: &KernelDescriptor,
        need: &Need,
    ) -> Result<Option<Found>, VmFault> {
        let u32_at = |offset: usize| self.env.read32(vmid, at.wrapping_add(offset as u64));
        let lanes: u32 = if kernel.wave32() { 32 } else { 64 };
        let lane = u64::from(u32_at(piece.lane)?);
        if lane * 64 < u64::from(need.private) * u64::from(lanes) {
            return Ok(None);
        }
        let ring = u32_at(piece.ring)?;
        let base = self.env.read64(vmid, at.wrapping_add(piece.base as u64))?;
        let scratch = self.scratch_of(ring, base);
        let wave = kernel.scratch_wave_bytes(self.isa(), need.private);
        if scratch.slots < need.waves || scratch.wave_stride < wave {
            return Ok(None);
        }
        let mut descriptor = [0; 4];
        for (n, word) in descriptor.iter_mut().enumerate() {
            *word = u32_at(piece.descriptor + 4 * n)?;
        }
        Ok(Some((scratch, descriptor)))
    }
}
