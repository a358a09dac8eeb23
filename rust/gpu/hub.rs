// SPDX-License-Identifier: GPL-2.0

//! What memory management needs of the hardware: registers, the generation's functions, and the
//! two operations that make CPU writes and page table changes visible to the GPU.

use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    sync::{Arc, Mutex, SpinLock},
};

use crate::{
    asic::mmio::Mmio,
    hw::{FlushType, Generation},
};

/// Registers and the generation's functions.
#[pin_data]
pub(crate) struct Hub {
    mmio: Arc<Mmio>,
    generation: &'static Generation,
    /// One invalidation at a time: they share an engine.
    #[pin]
    invalidate: Mutex<()>,
    /// The card is being reset: there is nothing to flush, and nobody who would answer. Held while
    /// a flush is under way.
    #[pin]
    closed: SpinLock<bool>,
}

impl Hub {
    /// Makes the hub.
    pub(crate) fn new(
        mmio: Arc<Mmio>,
        generation: &'static Generation,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            mmio,
            generation,
            invalidate <- new_mutex!(()),
            closed <- new_spinlock!(false),
        })
    }

    /// Registers.
    pub(crate) fn mmio(&self) -> &Mmio {
        &self.mmio
    }

    /// The generation.
    pub(crate) fn generation(&self) -> &'static Generation {
        self.generation
    }

    /// Until [`Hub::open`] flushes and invalidations do nothing, as the card is being reset. Those that
    /// have begun are over when this returns.
    pub(crate) fn close(&self) {
        let _guard = self.invalidate.lock();
        *self.closed.lock() = true;
    }

    /// The bus interface is set up.
    pub(super) fn open(&self) {
        *self.closed.lock() = false;
    }

    /// Makes writes of the CPU to VRAM visible to the GPU.
    pub(crate) fn hdp_flush(&self) -> Result {
        let closed = self.closed.lock();
        if *closed {
            return Ok(());
        }
        let remap = self.generation.caps.hdp_remap;
        self.generation.nbio.hdp_flush(&self.mmio, remap)
    }

    /// Drops the translations of a VMID in every hub; complete on return.
    pub(crate) fn flush_vmid(&self, vmid: u32, kind: FlushType) -> Result {
        let _guard = self.invalidate.lock();
        if *self.closed.lock() {
            return Ok(());
        }
        self.generation.gmc.flush_vmid(&self.mmio, vmid, kind)
    }
}
