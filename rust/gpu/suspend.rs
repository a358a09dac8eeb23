// SPDX-License-Identifier: GPL-2.0

//! Suspend and resume.
//!
//! VRAM is copied to system memory by SDMA, and back by the CPU before anything runs on the device
//! again. Registers, rings and firmware are not saved: the device is brought up as after power-on.
//! Queues are unmapped and user space is frozen.

use kernel::{device::Core, pci, prelude::*, sync::Arc};

use super::{
    dma,
    image::{Part, VramImage},
    Gpu,
};
use crate::kapi::{
    dma::{Contents, Pages},
    meminfo,
};

/// Copies all allocated VRAM. `ENOMEM` when system memory is too small.
fn save_vram(gpu: &Gpu) -> Result<VramImage> {
    let held = gpu.vram().held()?;
    let bytes: u64 = held.iter().map(|(_, len)| *len).sum();
    let free = meminfo::available();
    if bytes > free {
        // Rather than to invoke the OOM killer on frozen processes.
        dev_err!(
            gpu.dev(),
            "suspend refused: {} MiB of VRAM exceed {} MiB of available memory\n",
            bytes >> 20,
            free >> 20
        );
        return Err(ENOMEM);
    }
    let mut parts = KVVec::new();
    for (start, len) in held {
        let mut done = 0;
        while done < len {
            let (offset, len) = (start + done, dma::CHUNK.min(len - done));
            let pages = Pages::new(gpu.dma(), usize::try_from(len)?, Contents::Undefined)?;
            dma::save(gpu, offset, &pages, len)?;
            done += len;
            parts.push(Part { offset, len, pages }, GFP_KERNEL)?;
        }
    }
    dev_dbg!(gpu.dev(), "{} MiB of VRAM saved\n", bytes >> 20);
    Ok(VramImage(parts))
}

impl Gpu {
    /// Saves VRAM and takes the device down; jobs are kept off the rings until
    /// [`Gpu::unpause_sdma`]. After an error it runs as before. `ENOMEM` without system memory,
    /// `ETIME` when jobs do not end.
    pub(crate) fn suspend(self: &Arc<Self>) -> Result {
        if self.is_hung() {
            // Nothing runs, and the contents of VRAM are lost.
            return Ok(());
        }
        // Memory freed from now on stays dirty.
        self.vram().detach(self.dev());
        let saved = self
            .sdma()
            .and_then(|sdma| sdma.pause().and_then(|()| sdma.drain()))
            .and_then(|()| save_vram(self));
        match saved {
            Ok(image) => *self.image.lock() = Some(image),
            Err(e) => {
                self.unpause_sdma();
                self.attach_clearing();
                return Err(e);
            }
        }
        self.take_down();
        if self.is_hung() {
            // An engine did not stop.
            self.abandon_image();
        }
        Ok(())
    }

    /// Drops the VRAM contents that [`Gpu::suspend`] saved, if any, on a device that is hung or
    /// will be: a reset must not write them over memory that others own by then.
    pub(crate) fn abandon_image(self: &Arc<Self>) {
        let image = self.image.lock().take();
        drop(image);
        self.attach_clearing();
    }

    /// Zeroes freed VRAM by SDMA again. Without memory the CPU zeroes it on allocation.
    fn attach_clearing(self: &Arc<Self>) {
        if let Err(e) = self.vram().attach(self.clone()) {
            dev_warn!(self.dev(), "freed VRAM stays uncleared: {e:?}\n");
        }
    }

    /// Brings the device up after [`Gpu::suspend`]. After an error, as of [`Gpu::bring_up`], it is
    /// hung.
    pub(crate) fn resume(self: &Arc<Self>, pdev: &pci::Device<Core<'_>>) -> Result {
        let up = self
            // The machine did not suspend after all, or not deeply.
            .reset_if_alive(pdev, "it kept its power in suspend")
            .and_then(|()| self.bring_up())
            // MMU notifiers zap PTEs also while VRAM is saved, and later.
            .and_then(|()| self.spaces().zap_all_again());
        match up {
            Ok(()) => self.attach_clearing(),
            Err(e) => {
                dev_err!(self.dev(), "resume failed: {e:?}\n");
                self.abandon_image();
                self.vram().end_loss();
                self.wedge("resume failed");
            }
        }
        up
    }

    /// Restores saved VRAM contents, if any. The BAR works, nothing runs.
    pub(super) fn restore_vram(&self) -> Result {
        // Contents that are not restored are undefined.
        self.vram().end_loss();
        let image = self.image.lock().take();
        image.map_or(Ok(()), |image| image.restore(self))
    }
}
