// SPDX-License-Identifier: GPL-2.0

//! Hang and reset of a device.
//!
//! [`Card::wedge`] marks the device hung and halts it; everything that needs it returns `EIO` from
//! then on, all jobs end, processes are notified, and the [`ResetHandler`] is called. Between
//! [`Gpu::begin_reset`] and [`Gpu::end_reset`] only the task that resets may use the device.
//! Without a handler, or when the reset fails, the device stays hung.
//!
//! [`Card::wedge`]: crate::card::Card::wedge
//! [`ResetHandler`]: super::ResetHandler

use kernel::{device::Core, pci, prelude::*, sync::atomic::Relaxed, time::Delta};
use rkfd_abi::mmio::RCC_CONFIG_MEMSIZE;

use super::{for_each, Gpu};
use crate::{
    card::HangHandler,
    kapi::{self, pci::SavedConfig},
    ring::sdma::SdmaHost, //
};

/// Time that a card may take to answer after a reset of its link (`amdgpu_pci_slot_reset`).
const LINK_TIMEOUT: Delta = Delta::from_secs(10);

impl HangHandler for Gpu {
    fn will_reset(&self) -> bool {
        self.reset_handler().is_some()
    }

    fn before_halt(&self, why: &str) {
        // All registers of a card that has left the bus read as ones.
        if !self.hub().is_frozen() && kapi::pci::is_present(self.pdev()) {
            self.record_coredump(why, |_| Ok(()), |_| Ok(()));
        }
    }

    fn on_hang(&self) {
        self.fail_jobs();
        self.sink().gpu_reset(self);
        if let Some(handler) = self.reset_handler() {
            handler.schedule_reset();
        }
    }
}

impl SdmaHost for Gpu {
    fn without_user_queues(&self, f: &mut dyn FnMut()) {
        // Resumes those that it has suspended: nodes may start or end meanwhile.
        let all = self.all_user_queues();
        if let Err(e) = for_each(&all, |queues| queues.suspend()) {
            dev_err!(
                self.dev(),
                "user queues were not unmapped before an SDMA engine reset: {e:?}\n"
            );
        }
        f();
        if let Err(e) = for_each(&all, |queues| queues.resume()) {
            dev_err!(
                self.dev(),
                "user queues were not mapped after an SDMA engine reset: {e:?}\n"
            );
        }
    }

    fn drain_interrupts(&self) -> Result {
        self.drain_ih()
    }
}

impl Gpu {
    /// Restores the configuration of a closed card, which was `config`, after a reset of its
    /// function, and resets the card if its firmware runs and would not be loaded again. If none
    /// runs, as that reset was one of the whole card, waits for the boot loader: `ETIMEDOUT` if it
    /// is not ready in time. `ENODEV` if the card has left the bus, else errors as
    /// [`Card::mode1_reset`].
    ///
    /// The PCI core restores what it saved before that reset: no addresses, if the link was reset
    /// shortly before.
    ///
    /// [`Card::mode1_reset`]: crate::card::Card::mode1_reset
    pub(crate) fn reset_firmware(
        &self,
        pdev: &pci::Device<Core<'_>>,
        config: &SavedConfig,
    ) -> Result {
        if !kapi::pci::is_present(pdev) {
            return Err(ENODEV);
        }
        self.restore_config(pdev, config)?;
        let mmio = self.hub().raw_mmio();
        if self.psp().needs_reset(mmio)? {
            return self.mode1_reset(pdev);
        }
        if !self.psp().is_alive(mmio)? {
            self.clear_firmware_state();
            self.psp().wait_for_reset(mmio)?;
        }
        Ok(())
    }

    /// Restores the configuration of a closed card, which was `config`, after a reset of its link,
    /// and resets the card if that left its firmware running. `ENODEV` if the card does not answer
    /// on the bus, else errors as [`Card::mode1_reset`].
    ///
    /// [`Card::mode1_reset`]: crate::card::Card::mode1_reset
    pub(crate) fn restore_link(
        &self,
        pdev: &pci::Device<Core<'_>>,
        config: &SavedConfig,
    ) -> Result {
        self.restore_config(pdev, config)?;
        self.clear_firmware_state();
        self.reset_if_alive(pdev, "its firmware runs after a reset of the link")
    }

    /// Returns whether registers can be read: their accesses have not ended because of an error of
    /// the link, and the card answers.
    pub(crate) fn answers(&self) -> bool {
        let size = self.hub().raw_mmio().read(RCC_CONFIG_MEMSIZE);
        size.is_ok_and(|size| size != u32::MAX)
    }

    /// Restores the configuration of a card after a reset of its function or link, without bus
    /// mastering: engines may run. `ENODEV` if the card does not answer on the bus.
    pub(crate) fn restore_config(
        &self,
        pdev: &pci::Device<Core<'_>>,
        config: &SavedConfig,
    ) -> Result {
        kapi::pci::wait_present(pdev, LINK_TIMEOUT)?;
        config.restore(pdev)?;
        kapi::pci::clear_master(pdev);
        Ok(())
    }

    /// Resets a card whose secure OS runs, for the reason `why`: firmware that runs would not be
    /// loaded again. Otherwise waits for the boot loader, before which neither VRAM nor registers
    /// of engines can be written (`amdgpu_device_asic_init`); as there, a timeout is no error.
    /// `ENODEV` if the card has left the bus, else errors as [`Card::mode1_reset`].
    ///
    /// [`Card::mode1_reset`]: crate::card::Card::mode1_reset
    pub(super) fn reset_if_alive(&self, pdev: &pci::Device<Core<'_>>, why: &str) -> Result {
        if !kapi::pci::is_present(pdev) {
            return Err(ENODEV);
        }
        let mmio = self.hub().raw_mmio();
        if self.psp().is_alive(mmio)? {
            dev_info!(self.dev(), "resetting the card: {why}\n");
            self.close();
            self.mode1_reset(pdev)?;
        } else if let Err(e) = self.psp().wait_for_reset(mmio) {
            dev_warn!(
                self.dev(),
                "the boot loader of the PSP is not ready: {e:?}\n"
            );
        }
        Ok(())
    }

    /// Ends all jobs of the kernel's SDMA rings with `EIO`, those of user space with `ECANCELED`.
    fn fail_jobs(&self) {
        if let Some(sdma) = self.sdma.as_ref() {
            sdma.fail_all_jobs();
        }
    }

    /// Counts a queue that was reset, and reports that to user space. Any locks may be held.
    pub(crate) fn queue_was_reset(&self) {
        self.queue_resets.fetch_add(1, Relaxed);
        if let Some(handler) = self.reset_handler() {
            handler.report_queue_reset();
        }
    }

    /// Returns the number of calls of [`Self::queue_was_reset`].
    pub(crate) fn queue_resets(&self) -> u32 {
        self.queue_resets.load(Relaxed)
    }

    /// Returns the number of resets that have begun: of the device, of SDMA engines after a job
    /// timeout, and of queues by MES (`gpu_reset_counter`).
    pub(crate) fn begun_resets(&self) -> u32 {
        let engines = self.sdma.as_ref().map_or(0, |sdma| sdma.job_resets());
        engines
            .wrapping_add(self.health().hangs())
            .wrapping_add(self.queue_resets())
    }

    /// Begins a reset: exclusive use of the hung device.
    pub(crate) fn begin_reset(&self) {
        self.health().begin_reset();
    }

    /// Ends a reset. After an error the device is hung as before.
    pub(crate) fn end_reset(&self, result: Result) {
        match result {
            Ok(()) => {
                let resets = self.health().end_reset(true);
                dev_info!(self.dev(), "the GPU was reset ({resets})\n");
                self.sink().gpu_back(self);
            }
            Err(e) => {
                dev_err!(
                    self.dev(),
                    "the GPU was not reset: {e:?}; its queues stay stopped until the driver is bound again\n"
                );
                self.halt_engines();
                self.fail_jobs();
                self.vram().end_loss();
                self.health().end_reset(false);
            }
        }
    }

    /// Rewrites the page tables of all address spaces after VRAM was lost. The caller alone uses
    /// the device. TLBs are not flushed: they are empty.
    pub(crate) fn rewrite_page_tables(&self) -> Result {
        self.spaces().rewrite_all()?;
        self.hub().hdp_flush()
    }
}
