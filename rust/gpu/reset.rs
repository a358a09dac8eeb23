// SPDX-License-Identifier: GPL-2.0

//! What happens when the GPU does not answer any more.
//!
//! A reset that brings the card back (mode 1 through the security processor) is not there yet.
//! What is done is honest about that: the GPU is marked hung, everything that would need it
//! answers `EIO` from then on, and whoever registered is told, so that processes can end.

use kernel::{prelude::*, sync::atomic::Full};

use super::Gpu;
use crate::trace;

impl Gpu {
    /// Tells the process with this PASID that a queue of its was lost. Locks as [`Sink::gpu_reset`].
    ///
    /// [`Sink::gpu_reset`]: super::irq::Sink::gpu_reset
    pub(crate) fn queue_was_reset(&self, pasid: u32) {
        if let Some(sink) = super::irq::sink() {
            sink.queue_reset(self, pasid);
        }
    }

    /// Marks the GPU hung. Returns whether this is news.
    pub(crate) fn declare_hung(&self, why: &str) -> bool {
        if self.hung.xchg(true, Full) {
            return false;
        }
        dev_err!(
            self.dev(),
            "GPU {:#x} hangs ({why}); its queues stay stopped until the driver is bound again\n",
            self.id
        );
        trace::gpu_hang(self.id);
        // Memory of processes is going to be freed without the scheduler's word that nothing uses
        // it any more: so the GPU is cut off from it.
        if let Some(mes) = self.generation().mes {
            if let Err(e) = mes.halt(self.hub.mmio()) {
                dev_err!(self.dev(), "MES could not be halted: {e:?}\n");
            }
        }
        for xcc in 0..self.config.num_xcc {
            if let Err(e) = self.generation().gfx.halt(self.hub.mmio(), xcc) {
                dev_err!(self.dev(), "XCC {xcc} could not be halted: {e:?}\n");
            }
        }
        crate::kapi::pci::clear_master(&self.pdev);
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.give_up();
        }
        if let Some(sink) = super::irq::sink() {
            sink.gpu_reset(self);
        }
        true
    }
}
