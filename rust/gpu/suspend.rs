// SPDX-License-Identifier: GPL-2.0

//! Suspend of the device: what it loses with its power, and how it gets that back.
//!
//! VRAM is copied to system memory by the DMA engines, and back by the processor, before anything
//! runs on the GPU again: what has to be built anew anyway comes after that. Registers, rings and
//! firmware are not saved; the GPU is brought up as if it had never run. Queues are off when this
//! begins, and user space is frozen.

use kernel::{prelude::*, sizes::*, sync::Arc};

use super::{dma, Gpu};
use crate::kapi::{dma::Pages, numa};

/// What is copied in one go.
const CHUNK: u64 = 16 * SZ_1M as u64;

/// A part of VRAM.
struct Part {
    offset: u64,
    len: u64,
    pages: Pages,
}

/// What VRAM held.
pub(super) struct Image(KVVec<Part>);

impl Image {
    /// Copies all of VRAM that belongs to somebody.
    fn save(gpu: &Gpu) -> Result<Self> {
        let held = gpu.vram.held()?;
        let bytes: u64 = held.iter().map(|(_, len)| *len).sum();
        let free = numa::available();
        if bytes > free {
            // Asking for it would only wake the killer of processes, which are frozen.
            dev_err!(
                gpu.dev(),
                "no suspend: {} MiB are in VRAM, but only {} MiB of system memory are left for them\n",
                bytes >> 20,
                free >> 20
            );
            return Err(ENOMEM);
        }
        // What the processor wrote must be there before it is read.
        gpu.hub.hdp_flush()?;
        let mut parts = KVVec::new();
        for (start, len) in held {
            let mut done = 0;
            while done < len {
                let part = Part::save(gpu, start + done, CHUNK.min(len - done))?;
                done += part.len;
                parts.push(part, GFP_KERNEL)?;
            }
        }
        dev_dbg!(gpu.dev(), "{} MiB of VRAM saved\n", bytes >> 20);
        Ok(Self(parts))
    }

    /// Writes all back.
    fn restore(&self, gpu: &Gpu) -> Result {
        let bar = gpu.vram.bar();
        for part in &self.0 {
            let (offset, len) = (usize::try_from(part.offset)?, usize::try_from(part.len)?);
            part.pages.for_runs(|at, bytes| {
                let bytes = &bytes[..bytes.len().min(len.saturating_sub(at))];
                bar.write(offset + at, bytes)
            })?;
        }
        Ok(())
    }
}

impl Part {
    fn save(gpu: &Gpu, offset: u64, len: u64) -> Result<Self> {
        let pages = Pages::new(gpu.dev(), usize::try_from(len)?)?;
        dma::save(gpu, offset, &pages, len)?;
        Ok(Self { offset, len, pages })
    }
}

impl Gpu {
    /// Whether the GPU could be brought back after a suspend.
    pub(crate) fn check_suspend(&self) -> Result {
        if self.psp.is_none() {
            dev_err!(
                self.dev(),
                "no suspend: without power the card loses its firmware, which rkfd cannot load on this card\n"
            );
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }

    /// Saves what the GPU would lose with its power and takes it down. After an error it runs as
    /// before.
    pub(crate) fn suspend(self: &Arc<Self>) -> Result {
        if self.is_hung() {
            // Nothing runs, and what was in VRAM is nobody's any more.
            return Ok(());
        }
        // What is given back from now on stays dirty.
        self.vram.detach();
        let saved = self
            .sdma()
            .and_then(|sdma| sdma.drain())
            .and_then(|()| Image::save(self));
        match saved {
            Ok(image) => *self.image.lock() = Some(image),
            Err(e) => {
                self.vram.attach(self)?;
                return Err(e);
            }
        }
        self.take_down();
        Ok(())
    }

    /// Brings the GPU back after [`Gpu::suspend`]. It hangs if that is not possible.
    pub(crate) fn resume(self: &Arc<Self>) -> Result {
        let up = self
            .reset_if_awake()
            .and_then(|()| self.bring_up())
            .and_then(|()| self.vram.attach(self));
        if let Err(e) = up {
            dev_err!(self.dev(), "the GPU does not run after a suspend: {e:?}\n");
            self.vram.forget_contents();
            self.declare_hung("it did not come back from a suspend");
        }
        up
    }

    /// Makes a card that was not without power, because the machine did not fall asleep after all or
    /// did not sleep deeply, like one that was: firmware that runs would not be loaded again.
    fn reset_if_awake(&self) -> Result {
        let psp = self.psp.as_ref().ok_or(EOPNOTSUPP)?;
        if psp.is_alive(self.mmio()?)? {
            dev_info!(
                self.dev(),
                "the card kept its power while the machine slept, and is reset\n"
            );
            self.close();
            self.reset_card()?;
        }
        Ok(())
    }

    /// Gives VRAM back what was saved, if anything was. The host path to VRAM is open, nothing
    /// runs.
    pub(super) fn restore_vram(&self) -> Result {
        // What is not restored holds anything.
        self.vram.forget_contents();
        let image = self.image.lock().take();
        image.map_or(Ok(()), |image| image.restore(self))
    }
}
