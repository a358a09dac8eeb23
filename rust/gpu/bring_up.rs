// SPDX-License-Identifier: GPL-2.0

//! Bring-up and take-down of a device, in the order in which the hardware needs it.

use kernel::{
    device::Core,
    pci,
    prelude::*,
    sizes::*,
    sync::{atomic::Relaxed, Arc},
};

use super::Gpu;
use crate::{
    card::{vram::VramUser, Card},
    hw::{HubSetup, McLayout},
    kapi::{self, irq::Irq},
    ring::{
        kiq::Kiqs,
        mes::Mes,
        sdma::{Sdma, SdmaHost},
    },
};

impl Gpu {
    /// Brings the device up for the first time. [`Gpu::stop`] undoes it, also after an error.
    ///
    /// `EIO` or `ETIMEDOUT` when an engine does not start, `ENOMEM` without memory.
    pub(crate) fn start(self: &Arc<Self>, pdev: &pci::Device<Core<'_>>) -> Result {
        self.set_hang_handler(Some(self.clone()));
        *self.irq.lock() = Some(Irq::new(pdev, c"rkfd", self.clone())?);
        self.bring_up()?;
        self.read_product()?;
        self.vram().attach(self.clone())
    }

    /// Brings up NBIO, memory hubs, interrupts, firmware, SMU, RLC, XCCs, KIQ or MES, and SDMA
    /// rings.
    ///
    /// Relies neither on registers nor on VRAM: also used after [`Gpu::take_down`] and a card
    /// reset. After an error the device may be partly up. Errors as [`Gpu::start`].
    pub(crate) fn bring_up(self: &Arc<Self>) -> Result {
        let g = self.generation();
        self.check_frame_buffer()?;
        self.hub().open(self.layout())?;
        let mmio = self.mmio()?;
        if let Some(df) = g.df.filter(|_| self.config().pci_atomics) {
            df.forward_atomics(mmio)?;
        }
        self.restore_vram()?;
        self.gart().restore()?;
        self.vram()
            .bar()
            .zero(usize::try_from(self.scratch().start())?, SZ_4K)?;
        let setup = HubSetup {
            layout: *self.layout(),
            gart_table: self.vram_pa(self.gart().table_offset()),
            gart_start: self.gart().start(),
            gart_end: self.gart().end(),
            scratch_pa: self.vram_pa(self.scratch().start()),
            dummy_dma: self.ih().dummy_dma(),
        };
        self.hub().start(&setup)?;
        self.gart().flush()?;
        // A kernel before this one may have left its interrupt rings enabled.
        self.ih().stop()?;
        kapi::pci::set_master(self.pdev());
        // The doorbell that acknowledges an interrupt would be lost before it is routed.
        g.nbio.route_doorbells(mmio, g.caps)?;
        self.ih().start(self.gart())?;
        g.nbio.open_selfring(mmio, self.doorbells().phys())?;
        self.psp().start(&self.psp_context()?)?;
        self.leave_firmware_memory()?;
        if let Some(smu) = self.smu() {
            let alloc = |bytes| self.vram_buffer(bytes, VramUser::Driver);
            smu.start(mmio, alloc).inspect_err(|e| {
                dev_err!(self.dev(), "the SMU does not start: {e:?}\n");
            })?;
        }
        self.retire_bad_pages()?;

        for xcc in self.xccs().iter() {
            g.gfx.start_rlc(mmio, *xcc).inspect_err(|_| {
                dev_err!(self.dev(), "the RLC of XCC {} does not run\n", xcc.logical);
            })?;
        }
        self.hub().start_core(&setup)?;
        let config = self.config();
        config.set_core(|| g.gfx.read_core(mmio, self.xccs(), config))?;
        self.partition(self.partitions())?;
        for xcc in self.xccs().iter() {
            g.gfx.start(mmio, *xcc, self.config())?;
        }
        if g.kiq.is_some() {
            let kiqs = Kiqs::start(self)?;
            let before = core::mem::replace(&mut *self.kiqs.lock(), kiqs);
            drop(before);
        }
        if g.mes.is_some() {
            match self.mes.as_ref() {
                Some(mes) => mes.restart(self)?,
                None => {
                    self.mes.populate(Mes::start(self)?);
                }
            }
        }
        match self.sdma.as_ref() {
            Some(sdma) => sdma.restart(self)?,
            None => {
                let host: Arc<dyn SdmaHost> = self.clone();
                self.sdma.populate(Sdma::start(self.card(), &host)?);
            }
        }
        Ok(())
    }

    /// Checks that the frame buffer aperture is where it was at probe: the boot firmware has set it
    /// again after a reset. `EIO` if it has not.
    fn check_frame_buffer(&self) -> Result {
        let of = |layout: &McLayout| [layout.fb_start, layout.fb_end];
        let before = of(self.layout());
        let now = self.generation().gmc.layout(self.hub().raw_mmio());
        match now.map(|layout| of(&layout)) {
            Ok(now) if now == before => Ok(()),
            now => {
                dev_err!(
                    self.dev(),
                    "the boot firmware has not restored the frame buffer aperture: {before:x?}, now {now:x?}\n"
                );
                Err(EIO)
            }
        }
    }

    /// Leaves the VRAM that firmware uses to it. `EBUSY` when the driver has allocated there.
    fn leave_firmware_memory(&self) -> Result {
        for range in self.psp().memory().into_iter().flatten() {
            self.vram().leave_to_firmware(&range).inspect_err(|e| {
                dev_err!(
                    self.dev(),
                    "VRAM {:#x} to {:#x}, which firmware uses, is allocated: {e:?}\n",
                    range.start,
                    range.end
                );
            })?;
        }
        Ok(())
    }

    /// Divides the XCCs into `count` partitions. No HIQ is mapped. `EIO` when an XCC is in a
    /// partition of another size afterwards, since the PSP has refused it.
    pub(crate) fn partition(&self, count: u32) -> Result {
        if !self.generation().caps.partitions {
            return Ok(());
        }
        self.psp().set_partitions(&self.psp_context()?, count)?;
        let size = self.xccs().partition(0, count)?.count();
        for xcc in self.xccs().iter() {
            let xccs = self.generation().gfx.partition_xccs(self.mmio()?, *xcc)?;
            if xccs != size {
                dev_err!(
                    self.dev(),
                    "XCC {} is in a partition of {xccs} XCCs, not of {size}\n",
                    xcc.logical
                );
                return Err(EIO);
            }
        }
        self.partitions.store(count, Relaxed);
        Ok(())
    }

    /// Undoes [`Gpu::bring_up`], as far as it got; memory stays allocated. Pending and later SDMA
    /// jobs end with `EIO`, those of user space with `ECANCELED`, until the device is brought up
    /// again.
    pub(super) fn take_down(&self) {
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.halt(self);
        }
        self.take_down_rest();
    }

    /// Takes down everything but the SDMA rings.
    fn take_down_rest(&self) {
        // A hung card was halted.
        let kiqs = self.kiqs.lock().take();
        self.log_failure("KIQ", kiqs.stop(self));
        let has_core = self.hub().has_core();
        if let Some(mes) = self.mes.as_ref().filter(|_| has_core) {
            self.log_failure("MES", mes.stop(self));
        }
        let g = self.generation();
        let mmio = self.hub().raw_mmio();
        if has_core {
            for xcc in self.xccs().iter() {
                self.log_failure("XCC", g.gfx.halt(mmio, *xcc));
            }
        }
        if let Some(smu) = self.smu() {
            self.log_failure("SMU", smu.stop(mmio));
        }
        if self.is_hung() {
            self.psp().clear_state();
        } else {
            let stopped = self.psp_context().and_then(|cx| self.psp().stop(&cx));
            self.log_failure("PSP", stopped);
        }
        self.log_failure("interrupt ring", self.ih().stop());
        self.log_failure("memory hubs", self.hub().stop());
        self.log_failure("doorbells", g.nbio.stop(mmio));
        // DMA still in flight must not reach memory that is about to be freed.
        kapi::pci::clear_master(self.pdev());
    }

    /// Undoes [`Gpu::start`], as far as it got. The device cannot be used any more. Resets a hung
    /// card, whose PSP keeps its ring and would reject a new one.
    pub(crate) fn stop(&self, pdev: &pci::Device<Core<'_>>) {
        self.vram().detach(self.dev());
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.unpause();
            sdma.stop(self);
        }
        self.take_down_rest();
        // Waits for the interrupt handler.
        let irq = self.irq.lock().take();
        drop(irq);
        self.set_hang_handler(None);
        self.coredump.end();
        self.reset_if_hung(pdev, |card| card.mode1_reset(pdev));
        self.hub().set_unplugged();
    }

    /// Ends DMA by the device: the machine is shut down, or starts another kernel. Memory stays
    /// allocated, as user space may run; its calls fail with `ENODEV` from now on.
    pub(crate) fn shut_down(&self, pdev: &pci::Device<Core<'_>>) {
        self.vram().detach(self.dev());
        self.take_down();
        // Firmware may take minutes to boot, which nothing here needs.
        self.reset_if_hung(pdev, |card| card.begin_mode1_reset(pdev));
        self.hub().set_unplugged();
    }

    fn reset_if_hung(&self, pdev: &pci::Device<Core<'_>>, reset: impl FnOnce(&Card) -> Result) {
        if self.is_hung() && kapi::pci::is_present(pdev) {
            self.hub().close();
            if let Err(e) = reset(self.card()) {
                dev_err!(self.dev(), "the hung card was not reset: {e:?}\n");
            }
            kapi::pci::clear_master(pdev);
        }
    }

    fn log_failure(&self, what: &str, result: Result) {
        if let Err(e) = result {
            dev_err!(self.dev(), "{what} did not stop: {e:?}\n");
        }
    }
}
