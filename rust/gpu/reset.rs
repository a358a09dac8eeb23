// SPDX-License-Identifier: GPL-2.0

//! What happens when the GPU does not answer any more, and how it comes back.
//!
//! Whoever finds out declares the GPU hung: it is cut off from memory, everything that would need it
//! answers `EIO` from then on, whoever registered is told, so that processes can end, and the
//! [`Rescuer`] is asked to bring it back. Between [`Gpu::begin_reset`] and [`Gpu::end_reset`] nobody
//! but the task that resets may use the GPU. Where there is no rescuer, or a reset fails, the GPU stays
//! hung.

use core::ptr;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Mutex, //
    },
};

use super::Gpu;
use crate::{kapi, trace};

/// Who brings a hanging GPU back.
pub(crate) trait Rescuer: Send + Sync {
    /// The GPU was found to hang. Called with any locks held: only note it.
    fn rescue(&self);
}

/// The GPU can be used.
const WORKS: u32 = 0;
/// It does not answer.
const HANGS: u32 = 1;
/// It is being reset.
const RESETTING: u32 = 2;

/// Can the GPU be used?
#[pin_data]
pub(super) struct Health {
    state: Atomic<u32>,
    /// The task that resets, an address that is only compared.
    by: Atomic<usize>,
    /// How often the whole GPU has been reset.
    resets: Atomic<u32>,
    /// A leaf.
    #[pin]
    rescuer: Mutex<Option<KBox<dyn Rescuer>>>,
}

fn this_task() -> usize {
    ptr::from_ref::<kernel::task::Task>(kernel::current!()) as usize
}

impl Health {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(WORKS),
            by: Atomic::new(0),
            resets: Atomic::new(0),
            rescuer <- new_mutex!(None, "rkfd_rescuer"),
        })
    }

    /// Not for the current task to use.
    pub(super) fn is_bad(&self) -> bool {
        match self.state.load(Acquire) {
            WORKS => false,
            RESETTING => self.by.load(Relaxed) != this_task(),
            _ => true,
        }
    }
}

impl Gpu {
    /// Tells the process with this PASID that a queue of its was lost. Locks as [`Sink::gpu_reset`].
    ///
    /// [`Sink::gpu_reset`]: super::irq::Sink::gpu_reset
    pub(crate) fn queue_was_reset(&self, pasid: u32) {
        if let Some(sink) = super::irq::sink() {
            sink.queue_reset(self, pasid);
        }
    }

    /// Says who brings the GPU back when it hangs; `None`: nobody does.
    pub(crate) fn set_rescuer(&self, rescuer: Option<KBox<dyn Rescuer>>) {
        let before = core::mem::replace(&mut *self.health.rescuer.lock(), rescuer);
        drop(before);
    }

    /// The driver knows how to reset the whole card, and to bring it up afterwards.
    pub(crate) fn can_reset(&self) -> bool {
        self.psp.is_some()
    }

    /// How often the whole GPU has been reset.
    pub(crate) fn resets(&self) -> u32 {
        self.health.resets.load(Relaxed)
    }

    /// Marks the GPU hung. Returns whether this is news.
    pub(crate) fn declare_hung(&self, why: &str) -> bool {
        // Whoever resets it sees for himself.
        if self.health.state.cmpxchg(WORKS, HANGS, Full).is_err() {
            return false;
        }
        let rescuer = self.health.rescuer.lock();
        let prospect = if rescuer.is_some() && self.can_reset() {
            "it is going to be reset"
        } else {
            "its queues stay stopped until the driver is bound again"
        };
        drop(rescuer);
        dev_err!(self.dev(), "GPU {:#x} hangs ({why}); {prospect}\n", self.id);
        trace::gpu_hang(self.id);
        self.cut_off();
        if let Some(sink) = super::irq::sink() {
            sink.gpu_reset(self);
        }
        if let Some(rescuer) = &*self.health.rescuer.lock() {
            rescuer.rescue();
        }
        true
    }

    /// Keeps a GPU that nobody can talk to from memory of others: memory of processes is going to be
    /// freed without the scheduler's word that nothing uses it any more.
    pub(super) fn cut_off(&self) {
        let mmio = self.hub.mmio();
        if let Some(mes) = self.generation().mes {
            if let Err(e) = mes.halt(mmio) {
                dev_err!(self.dev(), "MES could not be halted: {e:?}\n");
            }
        }
        for xcc in 0..self.config.num_xcc {
            if let Err(e) = self.generation().gfx.halt(mmio, xcc) {
                dev_err!(self.dev(), "XCC {xcc} could not be halted: {e:?}\n");
            }
        }
        kapi::pci::clear_master(&self.pdev);
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.give_up();
        }
    }

    /// Nobody talks to the card any more, which is about to be reset.
    pub(crate) fn close(&self) {
        self.hub.close();
        self.vram.begin_loss();
    }

    /// From now on only the current task uses the GPU, which hangs.
    pub(crate) fn begin_reset(&self) {
        self.health.by.store(this_task(), Relaxed);
        self.health.state.store(RESETTING, Release);
    }

    /// Resets the whole card. Its firmware is gone afterwards, what was in VRAM counts as lost, and no
    /// register is as it was. `EOPNOTSUPP` if it has no reset that the driver knows.
    pub(crate) fn reset_card(&self) -> Result {
        let psp = self.psp.as_ref().ok_or(EOPNOTSUPP)?;
        let mmio = self.hub.mmio();
        kapi::pci::save_state(&self.pdev)?;
        kapi::pci::clear_master(&self.pdev);
        psp.mode1_reset(mmio)?;
        kapi::pci::restore_state(&self.pdev);
        psp.wait_for_reset(mmio)
    }

    /// Ends a reset. After an error the GPU hangs as before.
    pub(crate) fn end_reset(&self, result: Result) {
        let state = match result {
            Ok(()) => {
                let resets = self.health.resets.fetch_add(1, Relaxed).wrapping_add(1);
                dev_info!(self.dev(), "GPU {:#x} was reset ({resets})\n", self.id);
                WORKS
            }
            Err(e) => {
                dev_err!(
                    self.dev(),
                    "GPU {:#x} was not reset: {e:?}; its queues stay stopped until the driver is bound again\n",
                    self.id
                );
                self.cut_off();
                self.vram.forget_contents();
                HANGS
            }
        };
        self.health.by.store(0, Relaxed);
        self.health.state.store(state, Release);
        if let Some(sink) = super::irq::sink().filter(|_| result.is_ok()) {
            sink.gpu_back(self);
        }
    }
}
