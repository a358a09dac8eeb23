// SPDX-License-Identifier: GPL-2.0

//! The power firmware (SMU) of a card: enables its features, and reads properties of the card.

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, Mutex},
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

use super::gart::{Buffer, Gart};
use crate::{
    asic::{mmio::Mmio, xcc::Xcc},
    hw::smu::{Sensor, SmuFacts, SmuHal, EEPROM_READ},
};

/// Attempts to read the first metrics, and the time between them. The C driver has as many and then
/// fails with `ETIME` (`smu_v13_0_6_setup_driver_pptable`, `smu_v13_0_6_ppt.c`).
const ATTEMPTS: usize = 99;
const INTERVAL: Delta = Delta::from_millis(1);

/// The SMU.
#[pin_data]
pub(crate) struct Smu {
    hal: &'static dyn SmuHal,
    #[pin]
    state: Mutex<State>,
    #[pin]
    facts: Mutex<SmuFacts>,
    #[pin]
    throttling: Mutex<Throttling>,
}

/// Interval of the reports of throttling (`throttling_logging_rs`, `amdgpu_device_init`).
const REPORT_INTERVAL: Delta = Delta::from_secs(59);

/// Interrupts about throttling.
#[derive(Default)]
struct Throttling {
    count: u64,
    reported: Option<Instant<Monotonic>>,
}

#[derive(Default)]
struct State {
    /// The driver's table, from the first start on.
    table: Option<Buffer>,
    /// Features are enabled.
    managed: bool,
}

impl Smu {
    /// Creates the state of a card's SMU; sends no message.
    pub(crate) fn new(hal: &'static dyn SmuHal) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                hal,
                state <- new_mutex!(State::default(), "rkfd_smu"),
                facts <- new_mutex!(SmuFacts::default(), "rkfd_smu_facts"),
                throttling <- new_mutex!(Throttling::default(), "rkfd_throttling"),
            }),
            GFP_KERNEL,
        )
    }

    /// Enables all features and reads the properties of the card. PSP, memory hubs and GART run.
    /// `EIO` when firmware does not run, `ETIMEDOUT` when it does not respond or has no metrics.
    pub(crate) fn start(&self, mmio: &Mmio, gart: &Arc<Gart>) -> Result {
        let state = &mut *self.state.lock();
        if state.table.is_none() {
            state.table = Some(Buffer::system(gart, self.hal.table_bytes(), 1)?);
        }
        let table = state.table.as_ref().ok_or(ENOMEM)?;
        // Also if the last message times out: firmware may have executed it.
        state.managed = true;
        self.hal.start(mmio, table.gpu_addr())?;
        for _ in 0..ATTEMPTS {
            self.hal.write_metrics(mmio)?;
            match self.hal.facts(mmio, &|at| table.read32(at)) {
                Ok(facts) => {
                    *self.facts.lock() = facts;
                    return Ok(());
                }
                Err(e) if e == EAGAIN => fsleep(INTERVAL),
                Err(e) => return Err(e),
            }
        }
        Err(ETIMEDOUT)
    }

    /// Calls `f` with the table of the driver. `ENODEV` before [`Smu::start`] and after a reset.
    fn with_table<T>(&self, f: impl FnOnce(&Buffer) -> Result<T>) -> Result<T> {
        let state = self.state.lock();
        let table = state.table.as_ref().filter(|_| state.managed);
        f(table.ok_or(ENODEV)?)
    }

    /// Reads a sensor. `ENODEV` before [`Smu::start`] and after a reset, or an errno of the
    /// response of firmware.
    pub(crate) fn sensor(&self, mmio: &Mmio, sensor: Sensor) -> Result<u32> {
        self.with_table(|table| {
            self.hal.write_metrics(mmio)?;
            self.hal.sensor(mmio, sensor, &|at| table.read32(at))
        })
    }

    /// Returns the metrics of a partition with these XCCs, or of the card without any, in the
    /// format of user space. Errors as [`Smu::sensor`], `ENOMEM` without memory.
    pub(crate) fn user_metrics(&self, mmio: &Mmio, partition: Option<&[Xcc]>) -> Result<KVec<u8>> {
        // Before the lock, which a reset takes: it does not wait for reclaim.
        let mut out = KVec::with_capacity(PAGE_SIZE, GFP_KERNEL)?;
        self.with_table(|table| {
            self.hal.write_metrics(mmio)?;
            self.hal
                .user_metrics(mmio, partition, &|at| table.read32(at), &mut out)
        })?;
        Ok(out)
    }

    /// Reads from the EEPROM of the board at an address on its bus. Errors as [`Smu::sensor`],
    /// `EIO` when it does not respond.
    pub(crate) fn read_eeprom(&self, mmio: &Mmio, address: u32, to: &mut [u8]) -> Result {
        self.with_table(|table| {
            let addresses = (address..).step_by(EEPROM_READ);
            for (address, part) in addresses.zip(to.chunks_mut(EEPROM_READ)) {
                self.hal.read_eeprom(
                    mmio,
                    address,
                    part,
                    &|bytes| table.write_bytes(0, bytes),
                    &|at| table.read32(at),
                )?;
            }
            Ok(())
        })
    }

    /// Sets the number of records of bad pages. Errors as [`Smu::sensor`].
    pub(crate) fn set_bad_pages(&self, mmio: &Mmio, records: u32) -> Result {
        self.hal.set_bad_pages(mmio, records)
    }

    /// Handles an interrupt with two context words. Returns why the card is throttled and how many
    /// interrupts said so, when that is to be reported.
    pub(crate) fn interrupt(&self, mmio: &Mmio, what: u32, data: u32) -> Option<(u64, u64)> {
        let reasons = self.hal.interrupt(mmio, what, data).ok()??;
        let mut state = self.throttling.lock();
        state.count += 1;
        if state
            .reported
            .is_some_and(|at| at.elapsed() < REPORT_INTERVAL)
        {
            return None;
        }
        state.reported = Some(Instant::now());
        (reasons != 0).then_some((reasons, state.count))
    }

    /// Announces the unload of the driver if [`Smu::start`] enabled the features.
    pub(crate) fn stop(&self, mmio: &Mmio) -> Result {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.managed) {
            return Ok(());
        }
        self.hal.stop(mmio)
    }

    /// Records that a reset has ended the management: no message is sent until [`Smu::start`].
    pub(crate) fn clear_state(&self) {
        self.state.lock().managed = false;
    }

    /// Returns the properties of the card; zeroes before [`Smu::start`].
    pub(crate) fn facts(&self) -> SmuFacts {
        *self.facts.lock()
    }
}
