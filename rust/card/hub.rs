// SPDX-License-Identifier: GPL-2.0

//! Register access of a bound card, HDP flush and TLB invalidation by VMID.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Release},
        Mutex,
    },
};

use crate::{
    asic::mmio::Mmio,
    hw::{FlushType, Generation, HubSetup, Hubs, McLayout},
};

/// The registers of a card and the HALs of its generation.
#[pin_data]
pub(crate) struct Hub {
    mmio: Mmio,
    /// Accesses the same registers during a card reset.
    reset_mmio: Mmio,
    generation: &'static Generation,
    /// Serializes invalidations, which share an engine. The value is whether hubs are programmed.
    #[pin]
    invalidate: Mutex<bool>,
    /// The graphics core has power and GFXHUBs are programmed, see [`Hub::start_core`].
    core: Atomic<bool>,
    /// The driver was unbound; as `drm_dev_is_unplugged()`.
    unplugged: Atomic<bool>,
}

/// Returns the result of a flush. Closed or frozen registers (`EIO`) are no error: a card reset
/// follows, or goes on.
fn unless_closed(flushed: Result) -> Result {
    match flushed {
        Err(e) if e == EIO => Ok(()),
        flushed => flushed,
    }
}

impl Hub {
    /// Returns the hub of a bound card.
    pub(crate) fn new(mmio: Mmio, generation: &'static Generation) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            reset_mmio: mmio.for_reset(),
            mmio,
            generation,
            invalidate <- new_mutex!(false),
            core: Atomic::new(false),
            unplugged: Atomic::new(false),
        })
    }

    /// Returns the registers for teardown and reset, also after [`Hub::set_unplugged`] and
    /// [`Hub::close`]. Accesses fail with `EIO` after [`Hub::freeze`].
    pub(crate) fn raw_mmio(&self) -> &Mmio {
        &self.reset_mmio
    }

    /// Ends all accesses of registers, also those of teardown and reset, until [`Hub::thaw`].
    pub(crate) fn freeze(&self) {
        self.mmio.freeze();
    }

    /// Ends [`Hub::freeze`].
    pub(crate) fn thaw(&self) {
        self.mmio.thaw();
    }

    /// Returns whether no registers can be accessed, see [`Hub::freeze`].
    pub(crate) fn is_frozen(&self) -> bool {
        self.reset_mmio.is_closed()
    }

    /// Returns the registers. `ENODEV` once the device is unplugged, `EIO` during a card reset.
    pub(crate) fn mmio(&self) -> Result<&Mmio> {
        if self.is_unplugged() {
            return Err(ENODEV);
        }
        if self.mmio.is_closed() {
            return Err(EIO);
        }
        Ok(&self.mmio)
    }

    /// Returns the registers if those of the graphics core may be accessed. `ENODEV` once the
    /// device is unplugged.
    pub(crate) fn core_mmio(&self) -> Result<Option<&Mmio>> {
        match self.mmio() {
            Err(e) if e == EIO => Ok(None),
            mmio => mmio.map(|mmio| self.has_core().then_some(mmio)),
        }
    }

    /// Runs `f` with the registers of the graphics core. `None` while they may not be accessed,
    /// `ENODEV` once the device is unplugged, else the error of `f`.
    pub(crate) fn with_core<R>(&self, f: impl FnOnce(&Mmio) -> Result<R>) -> Result<Option<R>> {
        let Some(mmio) = self.core_mmio()? else {
            return Ok(None);
        };
        match f(mmio) {
            // A reset has begun in the meantime.
            Err(e) if e == EIO => Ok(None),
            result => result.map(Some),
        }
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

    /// Ends accesses of registers until [`Hub::open`], because the card is about to be reset: its
    /// graphics core has no power then if it needs firmware. Waits for flushes and invalidations
    /// that have begun; later ones are skipped. Other sequences of accesses end with `EIO`.
    pub(crate) fn close(&self) {
        *self.invalidate.lock() = false;
        self.mmio.close();
        self.core.store(!self.core_needs_firmware(), Release);
    }

    /// Sets up the bus interface: NBIO and HDP. Ends [`Hub::close`], and [`Hub::start_core`] on a
    /// card whose graphics core needs firmware. Errors as accesses of registers.
    pub(crate) fn open(&self, layout: &McLayout) -> Result {
        let g = self.generation;
        g.nbio.start(&self.reset_mmio, g.caps.hdp_remap)?;
        g.gmc.start_hdp(&self.reset_mmio, layout)?;
        self.core.store(!self.core_needs_firmware(), Release);
        self.mmio.open();
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

    /// Programs the memory hubs that need no firmware. The caller invalidates TLBs afterwards:
    /// [`Hub::flush_vmid`] has had no effect before. Errors as accesses of registers.
    pub(crate) fn start(&self, setup: &HubSetup) -> Result {
        let mut is_started = self.invalidate.lock();
        let gmc = self.generation.gmc;
        gmc.start(&self.mmio, self.hubs(), setup)?;
        *is_started = true;
        Ok(())
    }

    /// Programs GFXHUBs whose core has got its firmware, and flushes VMID 0 there. `ETIMEDOUT`
    /// without an ACK.
    pub(crate) fn start_core(&self, setup: &HubSetup) -> Result {
        if self.has_core() {
            return Ok(());
        }
        let _guard = self.invalidate.lock();
        let gmc = self.generation.gmc;
        gmc.start(&self.mmio, Hubs::Core, setup)?;
        gmc.flush_vmid(&self.mmio, Hubs::Core, 0, FlushType::Legacy)?;
        self.core.store(true, Release);
        Ok(())
    }

    /// Disables translation. Errors as accesses of registers.
    pub(crate) fn stop(&self) -> Result {
        *self.invalidate.lock() = false;
        self.generation.gmc.stop(&self.mmio, self.hubs())
    }

    /// Returns the hubs that may be accessed.
    fn hubs(&self) -> Hubs {
        match self.has_core() {
            true => Hubs::All,
            false => Hubs::Memory,
        }
    }

    /// Flushes the HDP: CPU writes to VRAM become visible to the GPU. Does nothing during a card
    /// reset, which loses VRAM.
    pub(crate) fn hdp_flush(&self) -> Result {
        let remap = self.generation.caps.hdp_remap;
        unless_closed(self.generation.nbio.hdp_flush(&self.mmio, remap))
    }

    /// Invalidates the TLBs of `vmid` in all hubs that are programmed. Complete on return;
    /// `ETIMEDOUT` without an ACK. Does nothing during a card reset or an error of the link, which
    /// a reset follows: TLBs are empty after it.
    pub(crate) fn flush_vmid(&self, vmid: u32, kind: FlushType) -> Result {
        let is_started = self.invalidate.lock();
        if !*is_started {
            return Ok(());
        }
        let gmc = self.generation.gmc;
        unless_closed(gmc.flush_vmid(&self.mmio, self.hubs(), vmid, kind))
    }
}
