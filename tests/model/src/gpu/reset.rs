// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Reset and power-on of the card.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rkfd_abi::{discovery::TMR_SIZE, mmio::DRIVER_SCRATCH};

use super::{Boot, Gpu, Reset};
use crate::chips::Generation;
use crate::{discovery, event, strict};

/// Returns the duration of a mode-1 reset, less than drivers wait: 500 ms and 1 s
/// (`SMU13_MODE1_RESET_WAIT_TIME_IN_MS`, `smu_v14_0_2_mode1_reset`). `msleep()` counts ticks: on a
/// busy host it ends up to 100 ms early.
fn mode1_time(generation: Generation) -> Duration {
    Duration::from_millis(match generation {
        Generation::Gfx9 => 300,
        Generation::Gfx12 => 800,
    })
}

impl Gpu {
    /// Sets the state that boot firmware establishes: the discovery binary near the top of VRAM,
    /// the running PSP.
    pub(super) fn boot(&self, kind: Reset) {
        self.psp.reset(self, kind);
        self.memory.reset(self, kind);
        // The C driver has stopped the RLCs of a warm card when it was unbound
        // (`smu_disable_dpms`).
        if self.is_warm() && self.chip.generation == Generation::Gfx9 {
            self.xccs.iter().for_each(|xcc| xcc.gc.stop_rlc(self));
        }
        if self.knobs.gmc_semaphore.on() && self.gmc.take_semaphores() {
            self.knobs.gmc_semaphore.hit();
        }
        let is_gfx9 = self.chip.generation == Generation::Gfx9;
        if self.knobs.cp_kiq_active.on() && is_gfx9 && kind != Reset::Mode1 {
            self.knobs.cp_kiq_active.hit();
            self.xccs.iter().for_each(|xcc| xcc.cp.leave_kiq_active());
        }
        let defects = discovery::Defects {
            checksum: self.knobs.discovery_bad_checksum.on(),
            repeated: self.knobs.discovery_repeated.on(),
            sizes: self.knobs.discovery_sizes.on(),
        };
        if defects.sizes {
            self.knobs.discovery_sizes.hit();
        }
        if defects.checksum {
            self.knobs.discovery_bad_checksum.hit();
        }
        if defects.repeated {
            self.knobs.discovery_repeated.hit();
        }
        let mut partitions = self.memory.partitions(self);
        if self.knobs.discovery_no_nps.on() && partitions.take().is_some() {
            self.knobs.discovery_no_nps.hit();
        }
        let binary = discovery::defective(self.chip, partitions.as_ref(), defects);
        let mut at = self.vram.len() - discovery::TMR_OFFSET;
        if self.knobs.discovery_moved.on() {
            self.knobs.discovery_moved.hit();
            at -= 1 << 20;
            let place = [at as u32, (at >> 32) as u32, TMR_SIZE as u32];
            for (register, value) in DRIVER_SCRATCH.into_iter().zip(place) {
                if let Some(slot) = self.regs.get(register) {
                    slot.set(value);
                }
            }
        }
        if self.vram.write(at, &binary).is_err() {
            strict!(
                self.strict,
                "gpu",
                "video memory is too small for the discovery binary"
            );
        }
    }

    /// Reports interrupts that the driver has not handled for some time.
    pub fn check_interrupts(&self) {
        self.ih.check();
        self.smu.check(&self.strict);
    }

    /// Resets the card as firmware of the SMU does on request: for a while only its mailbox can be
    /// accessed. Drivers disable bus mastering before (`amdgpu_device_mode1_reset`).
    pub fn mode1_reset(&self) {
        if self.dma.is_master() {
            strict!(
                self.strict,
                "pci",
                "mode-1 reset with bus mastering enabled"
            );
        }
        let time = mode1_time(self.chip.generation);
        let end = self.trace.now() + time.as_nanos() as u64;
        self.reset(Reset::Mode1);
        self.await_boot();
        self.mode1_end.store(end, Ordering::Release);
    }

    /// Resets the card as its bus is reset: with `pci.power_on` everything, else the function.
    pub fn bus_reset(&self) {
        if !self.knobs.pci_power_on.on() {
            return self.reset(Reset::Flr);
        }
        self.knobs.pci_power_on.hit();
        self.reset(Reset::PowerOn);
        self.await_boot();
    }

    /// Clears the location of VRAM until the boot firmware, which sets it, is ready: the C driver
    /// waits for the boot loader first (`amdgpu_device_asic_init`, `amdgpu_device_mode1_reset`).
    fn await_boot(&self) {
        if self.psp.is_booting() && !self.fb_lost.load(Ordering::Acquire) {
            self.gmc.await_fb_location();
        }
    }

    /// Resets every engine, register, ring and translation to power-on state; drops waves and
    /// packets. Returns once nothing of the old state runs any more.
    pub fn reset(&self, kind: Reset) {
        event!(self.trace, "gpu", "reset", "kind={kind:?}");
        // A driver may start a mode-1 reset because of interrupts that were not handled.
        if kind != Reset::Mode1 {
            self.check_interrupts();
        }
        self.restart(kind);
    }

    fn restart(&self, kind: Reset) {
        // The control socket has a thread of its own.
        let _one = self.resets.lock().unwrap_or_else(|e| e.into_inner());
        match kind {
            Reset::PowerOn => self.warm.store(self.boot == Boot::Warm, Ordering::Release),
            Reset::Mode1 => {
                self.warm.store(false, Ordering::Release);
                self.config_lost.store(true, Ordering::Release);
                // The host of a virtual machine does not know that, until MSI-X is disabled and
                // enabled (`amdgpu_restore_msix`).
                self.msix.lose();
            }
            Reset::Flr => {}
        }
        if self.config_lost.load(Ordering::Acquire) {
            self.dma.set_master(false);
        }
        self.psp.quiesce();
        self.smu.reset(kind);
        self.selfring.reset();
        self.hdp_requests.reset();
        self.firmware.reset(self.is_warm());
        for xcc in &self.xccs {
            xcc.cp.reset(self);
            xcc.mes.reset();
        }
        // The command processors read pending doorbells until here.
        self.doorbells.reset();
        self.shared.reset();
        self.sdma.reset(self);
        self.ih.reset();
        self.gmc.reset();
        let lost = self.knobs.gmc_fb_lost.get();
        self.fb_lost.store(lost != 0, Ordering::Release);
        if lost != 0 {
            self.knobs.gmc_fb_lost.hit();
            self.gmc.lose_fb_location();
        }
        if lost == 2 {
            self.knobs.gmc_fb_lost.set(0);
        }
        self.xccs.iter().for_each(|xcc| xcc.gc.reset());
        self.late.clear();
        self.regs.reset();
        if kind != Reset::Flr {
            self.hdp.discard();
            if let Err(e) = self.vram.clear() {
                eprintln!("rkfd-gpu: cannot clear video memory for a reset: {e}");
            }
        }
        self.boot(kind);
    }

    /// Resets the card as a power cycle does, which may come at any time: interrupts that are not
    /// handled yet are no defect of the driver.
    pub fn power_cycle(&self) {
        event!(self.trace, "gpu", "power_cycle");
        self.config_lost.store(true, Ordering::Release);
        self.restart(Reset::PowerOn);
    }

    /// Sets the knob `name` at run time; returns false if it does not exist. The card is as after
    /// power-on when `pci.gone` ends.
    pub fn set_knob(&self, name: &str, value: u64) -> bool {
        let gone = self.knobs.pci_gone.on();
        if name != "pci.gone" || gone == (value != 0) {
            return self.knobs.set(name, value);
        }
        if gone {
            self.power_cycle();
        }
        let known = self.knobs.set(name, value);
        if !gone {
            self.power_cycle();
        }
        known
    }
}
