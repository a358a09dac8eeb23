// SPDX-License-Identifier: GPL-2.0

//! What memory management needs of the hardware: registers, the generation's functions, and the
//! two operations that make CPU writes and page table changes visible to the GPU.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use super::mmio::Mmio;
use crate::hw::{FlushType, Generation};

/// Registers and the generation's functions.
#[pin_data]
pub(crate) struct Hub {
    mmio: Arc<Mmio>,
    generation: &'static Generation,
    /// One invalidation at a time: they share an engine.
    #[pin]
    invalidate: Mutex<()>,
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

    /// Makes writes of the CPU to VRAM visible to the GPU.
    pub(crate) fn hdp_flush(&self) -> Result {
        let remap = self.generation.caps.hdp_remap;
        self.generation.nbio.hdp_flush(&self.mmio, remap)
    }

    /// Drops the translations of a VMID in every hub; complete on return.
    pub(crate) fn flush_vmid(&self, vmid: u32, kind: FlushType) -> Result {
        let _guard = self.invalidate.lock();
        self.generation.gmc.flush_vmid(&self.mmio, vmid, kind)
    }
}
