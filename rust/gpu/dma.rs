// SPDX-License-Identifier: GPL-2.0

//! What memory management asks of the DMA engines: fills, moves between VRAM and system memory,
//! entries of page tables. The one place that knows how to ask.

use kernel::{prelude::*, sizes::*, sync::aref::ARef};

use super::{gart::Window, memory::VramRange, Gpu};
use crate::{
    kapi::{
        dma::Pages,
        fence::{Fence, Timeout},
    },
    ring::sdma::Move,
};

pub(crate) use crate::ring::sdma::PteRun;

/// What is moved through one window of system memory.
const CHUNK: u64 = 16 * SZ_1M as u64;

/// Waits until a fence is signaled.
///
/// Jobs that hang are ended by their scheduler, so that this ends.
pub(crate) fn wait(fence: &Fence) -> Result {
    fence.wait();
    fence.result()
}

/// Waits until a fence is signaled or the current task gets a signal.
pub(crate) fn wait_interruptible(fence: &Fence) -> Result {
    fence.wait_interruptible(Timeout::FOREVER)?;
    fence.result()
}

/// Fills parts of VRAM, given by offset and length, with zeroes.
pub(super) fn clear<'a>(
    gpu: &Gpu,
    pieces: impl Iterator<Item = &'a (u64, u64)>,
) -> Result<ARef<Fence>> {
    gpu.check_usable()?;
    let mut list: KVVec<(u64, u64)> = KVVec::new();
    for (start, len) in pieces {
        list.push((gpu.vram_mc(*start), *len), GFP_KERNEL)?;
    }
    gpu.sdma()?.fill(&list, 0, &[], KBox::new((), GFP_KERNEL)?)
}

/// Which way memory is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToSystem,
    ToVram,
}

/// Copies `size` bytes between VRAM and system memory; complete on return, also after an error.
pub(crate) fn transfer(gpu: &Gpu, vram: &VramRange, pages: &Pages, size: u64, way: Way) -> Result {
    // The chunk before goes on while the next is prepared.
    let mut last: Option<Chunk> = None;
    let mut done = 0;
    while done < size {
        let len = CHUNK.min(size - done);
        // Dropped, which waits, after an error.
        let next = Chunk::start(gpu, vram, pages, done, len, way)?;
        if let Some(last) = last.replace(next) {
            last.finish()?;
        }
        done += len;
    }
    last.map_or(Ok(()), Chunk::finish)
}

/// Copies `len` bytes of VRAM from `offset` on to system memory; complete on return, also after an
/// error.
pub(super) fn save(gpu: &Gpu, offset: u64, pages: &Pages, len: u64) -> Result {
    let window = gpu.window(pages, 0, len)?;
    let moves = [Move {
        src: gpu.vram_mc(offset),
        dst: window.addr(),
        len,
    }];
    let keep = KBox::new((), GFP_KERNEL)?;
    let fence = gpu.sdma()?.copy(&moves, &[], keep)?;
    wait(&fence)
}

/// A part of a transfer that is under way.
struct Chunk {
    fence: ARef<Fence>,
    /// The engine copies through it.
    _window: Window,
}

impl Chunk {
    fn start(
        gpu: &Gpu,
        vram: &VramRange,
        pages: &Pages,
        at: u64,
        len: u64,
        way: Way,
    ) -> Result<Self> {
        let window = gpu.window(pages, at, len)?;
        let mut moves: KVec<Move> = KVec::new();
        let mut done = 0;
        while done < len {
            let (offset, run) = vram.run(at + done)?;
            let run = run.min(len - done);
            let (local, system) = (gpu.vram_mc(offset), window.addr() + done);
            let (src, dst) = match way {
                Way::ToSystem => (local, system),
                Way::ToVram => (system, local),
            };
            moves.push(Move { src, dst, len: run }, GFP_KERNEL)?;
            done += run;
        }
        let keep = KBox::new((), GFP_KERNEL)?;
        Ok(Self {
            fence: gpu.sdma()?.copy(&moves, &[], keep)?,
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

/// Engines are there that take work.
pub(crate) fn is_up(gpu: &Gpu) -> bool {
    gpu.check_usable().is_ok() && gpu.sdma().is_ok()
}

/// The VMIDs in which jobs of an address space run, or ran last: one bit each.
pub(crate) fn vmids_of(gpu: &Gpu, pasid: u32) -> u32 {
    gpu.sdma().map_or(0, |sdma| sdma.vmids_of(pasid))
}

/// An address space goes; its PASID may become another's.
pub(crate) fn forget(gpu: &Gpu, pasid: u32) {
    if let Ok(sdma) = gpu.sdma() {
        sdma.forget(pasid);
    }
}

/// Writes entries of page tables; complete on return.
pub(crate) fn write_ptes(gpu: &Gpu, runs: &[PteRun]) -> Result {
    gpu.check_usable()?;
    let fence = gpu
        .sdma()?
        .write_ptes(runs, &[], KBox::new((), GFP_KERNEL)?)?;
    wait(&fence)
}
