// SPDX-License-Identifier: GPL-2.0

//! SDMA jobs of the driver: zeroing VRAM, copies between VRAM and system memory, PTE writes.

use kernel::{prelude::*, sizes::*, sync::aref::ARef};

use super::Gpu;
use crate::{
    card::{clear::ClearEngine, copy_window::CopyWindow, vram::VramRange},
    kapi::{dma::Pages, fence::Fence, hmm::Mapped},
    ring::sdma::Move,
};

pub(crate) use crate::ring::sdma::PteRun;

/// Bytes copied through one GART mapping.
pub(super) const CHUNK: u64 = 16 * SZ_1M as u64;

/// Waits until `fence` has signaled and returns its result. Bounded by the job timeout.
fn wait(fence: &Fence) -> Result {
    fence.wait();
    fence.result()
}

impl ClearEngine for Gpu {
    fn clear(&self, pieces: &mut dyn Iterator<Item = (u64, u64)>) -> Result<ARef<Fence>> {
        self.check_usable()?;
        let mut list: KVVec<(u64, u64)> = KVVec::new();
        for (start, len) in pieces {
            list.push((self.vram_mc(start), len), GFP_KERNEL)?;
        }
        self.sdma()?.clients().clear(&list)
    }
}

/// Direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From VRAM to system memory.
    ToSystem,
    /// From system memory to VRAM.
    ToVram,
}

impl Direction {
    /// Returns the copy of `len` bytes between MC addresses of VRAM and of system memory.
    fn copy(self, local: u64, system: u64, len: u64) -> Move {
        let (src, dst) = match self {
            Self::ToSystem => (local, system),
            Self::ToVram => (system, local),
        };
        Move { src, dst, len }
    }
}

/// Submits copies. The ring flushes the HDP first, which makes stores of the CPU to VRAM visible.
fn submit(gpu: &Gpu, moves: &[Move]) -> Result<ARef<Fence>> {
    gpu.sdma()?.clients().copy(moves)
}

/// Copies `size` bytes between VRAM and system memory. Complete on return, also after an error:
/// `EIO` when the device is hung, `ENODEV` when the device is unplugged, `ENOMEM` without memory.
pub(crate) fn transfer(
    gpu: &Gpu,
    vram: &VramRange,
    pages: &Pages,
    size: u64,
    direction: Direction,
) -> Result {
    // The previous chunk is copied while the next one is prepared.
    let mut last: Option<Chunk> = None;
    let mut done = 0;
    while done < size {
        let len = CHUNK.min(size - done);
        // Dropping `last` after an error waits.
        let window = match gpu.copy_windows().try_open(pages, done, len)? {
            Some(window) => window,
            None => {
                if let Some(last) = last.take() {
                    last.finish()?;
                }
                gpu.copy_windows().open(pages, done, len)?
            }
        };
        let next = Chunk::start(gpu, vram, window, done, len, direction)?;
        if let Some(last) = last.replace(next) {
            last.finish()?;
        }
        done += len;
    }
    last.map_or(Ok(()), Chunk::finish)
}

/// Copies `len` bytes of VRAM from `offset` on to system memory. Complete on return, also after an
/// error, as of [`transfer`].
pub(super) fn save(gpu: &Gpu, offset: u64, pages: &Pages, len: u64) -> Result {
    let window = gpu.copy_windows().open(pages, 0, len)?;
    let copy = Direction::ToSystem.copy(gpu.vram_mc(offset), window.addr(), len);
    wait(&*submit(gpu, &[copy])?)
}

/// Copies pages of a process between system memory, in the order of `system`, and VRAM, whose parts
/// `vram` are offset and bytes. Complete on return, also after an error, as of [`transfer`].
pub(super) fn migrate(
    gpu: &Gpu,
    system: &Mapped,
    vram: &[(u64, u64)],
    direction: Direction,
) -> Result {
    gpu.check_usable()?;
    let len = vram.iter().map(|(_, len)| len).sum();
    let window = gpu.copy_windows().open(system, 0, len)?;
    let mut moves = KVVec::with_capacity(vram.len(), GFP_KERNEL)?;
    let mut done = 0;
    for (offset, len) in vram {
        let next = direction.copy(gpu.vram_mc(*offset), window.addr() + done, *len);
        moves.push_within_capacity(next)?;
        done += len;
    }
    wait(&*submit(gpu, &moves)?)
}

/// A chunk of a transfer in progress.
struct Chunk {
    fence: ARef<Fence>,
    /// The engine accesses system memory through it.
    _window: CopyWindow,
}

impl Chunk {
    fn start(
        gpu: &Gpu,
        vram: &VramRange,
        window: CopyWindow,
        at: u64,
        len: u64,
        direction: Direction,
    ) -> Result<Self> {
        let mut moves: KVec<Move> = KVec::new();
        let mut done = 0;
        while done < len {
            let (offset, run) = vram.run(at + done)?;
            let run = run.min(len - done);
            let next = direction.copy(gpu.vram_mc(offset), window.addr() + done, run);
            moves.push(next, GFP_KERNEL)?;
            done += run;
        }
        Ok(Self {
            fence: submit(gpu, &moves)?,
            _window: window,
        })
    }

    fn finish(self) -> Result {
        wait(&self.fence)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.fence.wait();
    }
}

/// Returns whether SDMA jobs can be submitted.
pub(crate) fn is_up(gpu: &Gpu) -> bool {
    gpu.check_usable().is_ok() && gpu.sdma().is_ok()
}

/// Returns the mask of kernel VMIDs in which jobs of an address space run, or ran last.
pub(crate) fn vmids_of(gpu: &Gpu, pasid: u32) -> u32 {
    gpu.sdma().map_or(0, |sdma| sdma.vmids_of(pasid))
}

/// Drops an address space that is about to be freed from all VMIDs of the kernel's rings.
pub(crate) fn drop_owner(gpu: &Gpu, pasid: u32) {
    if let Ok(sdma) = gpu.sdma() {
        sdma.drop_owner(pasid);
    }
}

/// Writes page table entries. Complete on return; errors as [`transfer`].
pub(crate) fn write_ptes(gpu: &Gpu, runs: &[PteRun]) -> Result {
    gpu.check_usable()?;
    let fence = gpu.sdma()?.clients().write_ptes(runs)?;
    wait(&fence)
}
