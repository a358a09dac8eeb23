// SPDX-License-Identifier: GPL-2.0

//! Register access of a bound card, HDP flush and TLB invalidation by VMID.

use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Release},
        Arc, Mutex, SpinLock,
    },
};

use crate::{
    asic::mmio::Mmio,
    hw::{FlushType, Generation, HubSetup, Hubs, McLayout},
};

/// The registers of a card and the HALs of its generation.
#[pin_data]
pub(crate) struct Hub {
    mmio: Arc<Mmio>,
    generation: &'static Generation,
    /// Serializes invalidations, which share an engine.
    #[pin]
    invalidate: Mutex<()>,
    /// A card reset is in progress: flushes are skipped. Held across an HDP flush.
    #[pin]
    closed: SpinLock<bool>,
    /// The graphics core has power and GFXHUBs are programmed, see [`Hub::start_core`].
    core: Atomic<bool>,
    /// The driver was unbound; as `drm_dev_is_unplugged()`.
    unplugged: Atomic<bool>,
}

impl Hub {
    /// Returns the hub of a bound card.
    pub(crate) fn new(
        mmio: Arc<Mmio>,
        generation: &'static Generation,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            mmio,
            generation,
            invalidate <- new_mutex!(()),
            closed <- new_spinlock!(false),
            core: Atomic::new(false),
            unplugged: Atomic::new(false),
        })
    }

    /// Returns the registers, also after [`Hub::set_unplugged`]: for teardown.
    pub(crate) fn raw_mmio(&self) -> &Mmio {
        &self.mmio
    }

    /// Returns the registers, or `ENODEV` once the device is unplugged.
    pub(crate) fn mmio(&self) -> Result<&Mmio> {
        if self.is_unplugged() {
            return Err(ENODEV);
        }
        Ok(&self.mmio)
    }

    /// Returns whether the device is unplugged: the driver was unbound.
    pub(crate) fn is_unplugged(&self) -> bool {
        self.unplugged.load(Acquire)
    }

    /// Marks the device as unplugged, after which [`Hub::mmio`] fails.
    pub(crate) fn set_unplugged(&self) {
        self.unplugged.store(true, Release);
    }

    /// Returns the generation.
    pub(crate) fn generation(&self) -> &'static Generation {
        self.generation
    }

    /// Skips flushes and invalidations until [`Hub::open`], because the card is about to be reset:
    /// its graphics core has no power then if it needs firmware. Waits for those that have begun.
    pub(crate) fn close(&self) {
        let _guard = self.invalidate.lock();
        *self.closed.lock() = true;
        self.core.store(!self.core_needs_firmware(), Release);
    }

    /// Sets up the bus interface: NBIO and HDP. Ends [`Hub::close`], and [`Hub::start_core`] on a
    /// card whose graphics core needs firmware. Errors as accesses of registers.
    pub(crate) fn open(&self, layout: &McLayout) -> Result {
        let g = self.generation;
        g.nbio.start(&self.mmio, g.caps.hdp_remap)?;
        g.gmc.start_hdp(&self.mmio, layout)?;
        self.core.store(!self.core_needs_firmware(), Release);
        *self.closed.lock() = false;
        Ok(())
    }

    /// Returns whether the graphics core has no power until its firmware is loaded.
    pub(crate) fn core_needs_firmware(&self) -> bool {
        self.generation.psp.autoloads()
    }

    /// Returns whether the registers of the graphics core may be accessed.
    pub(crate) fn has_core(&self) -> bool {
        self.core.load(Acquire)
    }

    /// Programs the memory hubs that need no firmware. Errors as accesses of registers.
    pub(crate) fn start(&self, setup: &HubSetup) -> Result {
        self.generation.gmc.start(&self.mmio, self.hubs(), setup)
    }

    /// Programs GFXHUBs whose core has got its firmware, and flushes VMID 0 there. `ETIMEDOUT`
    /// without an ACK.
    pub(crate) fn start_core(&self, setup: &HubSetup) -> Result {
        if self.has_core() {
            return Ok(());
        }
        let gmc = self.generation.gmc;
        gmc.start(&self.mmio, Hubs::Core, setup)?;
        let _guard = self.invalidate.lock();
        gmc.flush_vmid(&self.mmio, Hubs::Core, 0, FlushType::Legacy)?;
        self.core.store(true, Release);
        Ok(())
    }

    /// Disables translation. Errors as accesses of registers.
    pub(crate) fn stop(&self) -> Result {
        self.generation.gmc.stop(&self.mmio, self.hubs())
    }

    /// Returns the hubs that may be accessed.
    fn hubs(&self) -> Hubs {
        match self.has_core() {
            true => Hubs::All,
            false => Hubs::Memory,
        }
    }

    /// Flushes the HDP: CPU writes to VRAM become visible to the GPU.
    pub(crate) fn hdp_flush(&self) -> Result {
        let closed = self.closed.lock();
        if *closed {
            return Ok(());
        }
        let remap = self.generation.caps.hdp_remap;
        self.generation.nbio.hdp_flush(&self.mmio, remap)
    }

    /// Invalidates the TLBs of `vmid` in all hubs. Complete on return; `ETIMEDOUT` without an ACK.
    pub(crate) fn flush_vmid(&self, vmid: u32, kind: FlushType) -> Result {
        let _guard = self.invalidate.lock();
        if *self.closed.lock() {
            return Ok(());
        }
        let gmc = self.generation.gmc;
        gmc.flush_vmid(&self.mmio, self.hubs(), vmid, kind)
    }
}
