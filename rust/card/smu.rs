// SPDX-License-Identifier: GPL-2.0

//! The power firmware (SMU) of a card: enables its features, reads properties of the card, limits
//! clocks and power.

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::Mutex,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

use super::{
    gart::Buffer,
    limits::{Edits, Level, Limit, Limits, Settings},
};
use crate::{
    asic::{mmio::Mmio, xcc::Xcc},
    hw::smu::{Clock, Policy, Sensor, SmuFacts, SmuHal, EEPROM_READ},
};

/// Attempts to read the first metrics, and the time between them, as in the C driver
/// (`smu_v13_0_6_setup_driver_pptable`, `smu_v13_0_6_ppt.c`).
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

/// Interrupts about throttling.
struct Throttling {
    count: u64,
    /// Interrupts are reported.
    enabled: bool,
    /// Seconds between two reports, plus 1.
    interval: u32,
    reported: Option<Instant<Monotonic>>,
}

impl Throttling {
    /// The first interval (`throttling_logging_rs`, `amdgpu_device_init`).
    const INTERVAL: u32 = 60;

    /// Returns the state without interrupts.
    const fn new() -> Self {
        Self {
            count: 0,
            enabled: true,
            interval: Self::INTERVAL,
            reported: None,
        }
    }

    /// Returns whether an interrupt is reported now.
    fn is_due(&self) -> bool {
        let interval = Delta::from_secs(i64::from(self.interval) - 1);
        self.enabled && self.reported.is_none_or(|at| at.elapsed() >= interval)
    }
}

#[derive(Default)]
struct State {
    /// The driver's table, from the first start on.
    table: Option<Buffer>,
    /// Features are enabled.
    managed: bool,
    /// The facts have what is in the metrics.
    known: bool,
    settings: Settings,
}

/// Time between the limits of the shader clock and the begin of determinism
/// (`smu_v13_0_6_set_soft_freq_limited_range`).
const BEFORE_DETERMINISM: Delta = Delta::from_micros(500);

/// Separates errors of a response from those without one, which the outer result has: `ETIMEDOUT`,
/// and `ENODEV` when the device is unplugged.
fn accepted(result: Result) -> Result<Result> {
    match result {
        Err(e) if e == ETIMEDOUT || e == ENODEV => Err(e),
        other => Ok(other),
    }
}

impl Smu {
    /// Creates the state of a card's SMU; sends no message.
    pub(crate) fn new(hal: &'static dyn SmuHal) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                hal,
                state <- new_mutex!(State::default(), "rkfd_smu"),
                facts <- new_mutex!(SmuFacts::default(), "rkfd_smu_facts"),
                throttling <- new_mutex!(Throttling::new(), "rkfd_throttling"),
            }),
            GFP_KERNEL,
        )
    }

    /// Enables all features and reads the properties of the card, once. PSP, memory hubs and GART
    /// run. Without metrics in time clocks, serial numbers and limits are unknown until metrics are
    /// read later, as in the C driver (`smu_v13_0_6_set_default_dpm_table`). Settings that firmware
    /// rejects are dropped. `alloc` allocates memory of firmware and driver in VRAM, where the C
    /// driver has that of cards (`smu_v13_0_6_tables_init`). `EIO` when firmware does not run,
    /// `ETIMEDOUT` when it does not respond.
    pub(crate) fn start(&self, mmio: &Mmio, alloc: impl FnOnce(usize) -> Result<Buffer>) -> Result {
        let state = &mut *self.state.lock();
        if state.table.is_none() {
            let bytes = self.hal.table_bytes().next_multiple_of(PAGE_SIZE);
            state.table = Some(alloc(bytes)?);
        }
        let table = state.table.as_ref().ok_or(ENOMEM)?;
        // Also if the last message times out: firmware may have executed it.
        state.managed = true;
        self.hal.start(mmio, table.gpu_addr())?;
        for _ in 0..ATTEMPTS {
            if state.known {
                break;
            }
            let written = accepted(self.hal.write_metrics(mmio))?;
            state.known = written.is_ok() && self.read_facts(mmio, table)?;
            if !state.known {
                fsleep(INTERVAL);
            }
        }
        if !state.known {
            dev_warn!(
                mmio.dev(),
                "the SMU has no metrics yet: clocks and serial number are unknown\n"
            );
            *self.facts.lock() = self.hal.basic_facts(mmio)?;
        }
        let facts = self.facts();
        self.restore(mmio, state, &facts)
    }

    /// Reads the properties of the card from metrics in `table`; returns false if firmware has no
    /// sample yet. Errors of firmware.
    fn read_facts(&self, mmio: &Mmio, table: &Buffer) -> Result<bool> {
        match self.hal.facts(mmio, &|at| table.read32(at)) {
            Ok(facts) => {
                *self.facts.lock() = facts;
                Ok(true)
            }
            Err(e) if e == EAGAIN => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Restores the settings in firmware that was started with the defaults of the card. Those that
    /// firmware rejects are dropped with a warning. Errors as [`accepted`].
    fn restore(&self, mmio: &Mmio, state: &mut State, facts: &SmuFacts) -> Result {
        if let Some(watts) = state.settings.power {
            if let Err(e) = accepted(self.hal.set_power_limit(mmio, watts))? {
                dev_warn!(
                    mmio.dev(),
                    "the SMU rejects the power limit of {watts} W: {e:?}\n"
                );
                state.settings.power = None;
            }
        }
        let determinism = core::mem::take(&mut state.settings.determinism);
        if let Some(limits) = state.settings.limits.take() {
            if let Err(e) = accepted(self.limit(mmio, state, facts, limits, determinism))? {
                dev_warn!(
                    mmio.dev(),
                    "the SMU rejects the limits of the clocks: {e:?}\n"
                );
                // It may have accepted some: back to those of the card.
                let card = Limits::of(facts);
                if accepted(self.limit(mmio, state, facts, card, false))?.is_ok() {
                    state.settings.limits = None;
                }
            }
        }
        for policy in Policy::ALL {
            let selected = &mut state.settings.policies[policy as usize];
            if let Some(level) = *selected {
                if let Err(e) = accepted(self.hal.select(mmio, policy, level))? {
                    let (name, _) = policy.names();
                    dev_warn!(
                        mmio.dev(),
                        "the SMU rejects level {level} of policy {name:?}: {e:?}\n"
                    );
                    *selected = None;
                }
            }
        }
        Ok(())
    }

    /// Calls `f` with the state. `ENODEV` before [`Smu::start`] and after a reset.
    fn with_state<T>(&self, f: impl FnOnce(&mut State, &SmuFacts) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        if !state.managed {
            return Err(ENODEV);
        }
        let facts = self.facts();
        f(&mut state, &facts)
    }

    /// Limits the clocks, the shader clock by determinism or by its limits. Errors of firmware,
    /// after which some limits may have changed.
    fn limit(
        &self,
        mmio: &Mmio,
        state: &mut State,
        facts: &SmuFacts,
        to: Limits,
        determinism: bool,
    ) -> Result {
        if !to.are_known() {
            return Ok(());
        }
        let card = Limits::of(facts);
        let engine = match determinism {
            true => card.engine,
            false => to.engine,
        };
        // Those in force as far as firmware accepts the messages.
        let settings = &mut state.settings;
        let now = settings.limits.get_or_insert(card);
        if determinism || engine != now.engine {
            self.hal.limit_engine_highest(mmio, engine.1)?;
            now.engine.1 = engine.1;
            self.hal.limit_engine_lowest(mmio, engine.0)?;
            now.engine.0 = engine.0;
        }
        if determinism {
            fsleep(BEFORE_DETERMINISM);
            self.hal.set_determinism(mmio, Some(to.engine.1))?;
            settings.determinism = true;
            now.engine.1 = to.engine.1;
        }
        for (clock, now, to) in [
            (Clock::Memory, &mut now.memory, to.memory),
            (Clock::Fabric, &mut now.fabric, to.fabric),
        ] {
            if to != *now {
                self.hal.limit(mmio, clock, to)?;
                *now = to;
            }
        }
        Ok(())
    }

    /// Returns the performance level.
    pub(crate) fn level(&self) -> Level {
        self.state.lock().settings.level
    }

    /// Sets the performance level; [`Level::Auto`] removes all limits of clocks. Errors as
    /// [`Smu::sensor`].
    pub(crate) fn set_level(&self, mmio: &Mmio, level: Level) -> Result {
        self.with_state(|state, facts| self.enter(mmio, state, facts, level))
    }

    /// Changes the performance level, which stays after an error. Errors of firmware.
    fn enter(&self, mmio: &Mmio, state: &mut State, facts: &SmuFacts, level: Level) -> Result {
        if state.settings.level == Level::Determinism && level != Level::Determinism {
            self.hal.set_determinism(mmio, None)?;
            state.settings.determinism = false;
            let mut limits = state.settings.limits(facts);
            // The lowest one may be from before.
            limits.engine.1 = Limits::of(facts).engine.1;
            if limits.are_known() {
                state.settings.limits = Some(limits);
            }
        }
        if level == Level::Auto {
            self.limit(mmio, state, facts, Limits::of(facts), false)?;
            state.settings.limits = None;
            state.settings.edits = Edits::default();
        }
        state.settings.level = level;
        Ok(())
    }

    /// Makes limits those in force, in the current level. Errors as [`Smu::limit`].
    fn apply(&self, mmio: &Mmio, state: &mut State, facts: &SmuFacts, to: Limits) -> Result {
        let determinism = state.settings.level == Level::Determinism;
        self.limit(mmio, state, facts, to, determinism)
    }

    /// Limits the shader clock to the range between the lowest and the highest of a mask of its
    /// levels. `EINVAL` except in the level [`Level::Manual`], and for levels that do not exist,
    /// errors as [`Smu::sensor`].
    pub(crate) fn force_engine_levels(&self, mmio: &Mmio, mask: u32) -> Result {
        self.with_state(|state, facts| {
            let levels = facts.levels(Clock::Engine).all();
            let bit = |n: u32| levels.get(n as usize).copied().ok_or(EINVAL);
            if state.settings.level != Level::Manual {
                return Err(EINVAL);
            }
            let mask = mask.max(1);
            let mut limits = state.settings.limits(facts);
            limits.engine = (bit(mask.trailing_zeros())?, bit(mask.ilog2())?);
            self.apply(mmio, state, facts, limits)
        })
    }

    /// Returns the limits of the clocks.
    pub(crate) fn limits(&self) -> Limits {
        let state = self.state.lock();
        state.settings.limits(&self.facts())
    }

    /// Sets a limit of the next [`Smu::commit`]. Errors as [`Settings::edit`], `ENODEV` before
    /// [`Smu::start`].
    pub(crate) fn edit(&self, limit: Limit, mhz: u32) -> Result {
        self.with_state(|state, facts| state.settings.edit(facts, limit, mhz))
    }

    /// Makes the edited limits those in force. Errors as [`Settings::edited`], and as
    /// [`Smu::sensor`].
    pub(crate) fn commit(&self, mmio: &Mmio) -> Result {
        self.with_state(|state, facts| {
            let limits = state.settings.edited(facts)?;
            self.apply(mmio, state, facts, limits)
        })
    }

    /// Makes the limits of the card those in force, in the current level. `EINVAL` in the level
    /// [`Level::Auto`], errors as [`Smu::sensor`].
    pub(crate) fn reset_limits(&self, mmio: &Mmio) -> Result {
        self.with_state(|state, facts| {
            if state.settings.level == Level::Auto {
                return Err(EINVAL);
            }
            state.settings.edits = Edits::default();
            self.apply(mmio, state, facts, Limits::of(facts))
        })
    }

    /// Returns the power limit of the socket in W. Errors as [`Smu::sensor`].
    pub(crate) fn power_limit(&self, mmio: &Mmio) -> Result<u32> {
        self.with_state(|_, _| self.hal.power_limit(mmio))
    }

    /// Sets the power limit of the socket in W; 0 changes nothing. `EINVAL` above that of the card,
    /// errors as [`Smu::sensor`].
    pub(crate) fn set_power_limit(&self, mmio: &Mmio, watts: u32) -> Result {
        self.with_state(|state, facts| {
            if watts > facts.max_power {
                return Err(EINVAL);
            }
            if watts != 0 {
                self.hal.set_power_limit(mmio, watts)?;
                state.settings.power = Some(watts);
            }
            Ok(())
        })
    }

    /// Returns the level of a policy.
    pub(crate) fn policy(&self, policy: Policy) -> u32 {
        let selected = self.state.lock().settings.policies[policy as usize];
        selected.unwrap_or(policy.first())
    }

    /// Selects a level of a policy. `EINVAL` if there is no such level, errors as [`Smu::sensor`].
    pub(crate) fn select(&self, mmio: &Mmio, policy: Policy, level: u32) -> Result {
        self.with_state(|state, _| {
            let selected = &mut state.settings.policies[policy as usize];
            if selected.unwrap_or(policy.first()) != level {
                self.hal.select(mmio, policy, level)?;
                *selected = (level != policy.first()).then_some(level);
            }
            Ok(())
        })
    }

    /// Calls `f` with the table of the driver. `ENODEV` before [`Smu::start`] and after a reset.
    fn with_table<T>(&self, f: impl FnOnce(&Buffer) -> Result<T>) -> Result<T> {
        self.with_state(|state, _| f(state.table.as_ref().ok_or(ENODEV)?))
    }

    /// Calls `f` with the table of the driver, to which firmware has written its metrics. Reads the
    /// properties of the card if [`Smu::start`] has not. Errors as [`Smu::sensor`].
    fn with_metrics<T>(&self, mmio: &Mmio, f: impl FnOnce(&Buffer) -> Result<T>) -> Result<T> {
        let state = &mut *self.state.lock();
        if !state.managed {
            return Err(ENODEV);
        }
        let table = state.table.as_ref().ok_or(ENODEV)?;
        self.hal.write_metrics(mmio)?;
        if !state.known {
            // None of its messages writes to the table.
            state.known = self.read_facts(mmio, table)?;
        }
        f(table)
    }

    /// Reads a sensor. `ENODEV` before [`Smu::start`] and after a reset, or an errno of the
    /// response of firmware.
    pub(crate) fn sensor(&self, mmio: &Mmio, sensor: Sensor) -> Result<u32> {
        self.with_metrics(mmio, |table| {
            self.hal.sensor(mmio, sensor, &|at| table.read32(at))
        })
    }

    /// Returns the version and the content of the metrics table. Errors as [`Smu::user_metrics`].
    pub(crate) fn table(&self, mmio: &Mmio) -> Result<(u32, KVec<u8>)> {
        // Before the lock, as there.
        let mut out = KVec::with_capacity(PAGE_SIZE, GFP_KERNEL)?;
        let version = self.with_metrics(mmio, |table| {
            let version = self.hal.metrics_version(mmio)?;
            for at in (0..self.hal.table_bytes()).step_by(4) {
                for byte in table.read32(at)?.to_le_bytes() {
                    out.push_within_capacity(byte)?;
                }
            }
            Ok(version)
        })?;
        Ok((version, out))
    }

    /// Returns the metrics of a partition with these XCCs, or of the card without any, in the
    /// format of user space. Errors as [`Smu::sensor`], `ENOMEM` without memory.
    pub(crate) fn user_metrics(&self, mmio: &Mmio, partition: Option<&[Xcc]>) -> Result<KVec<u8>> {
        // Before the lock, which a reset takes: it does not wait for reclaim.
        let mut out = KVec::with_capacity(PAGE_SIZE, GFP_KERNEL)?;
        self.with_metrics(mmio, |table| {
            self.hal
                .user_metrics(mmio, partition, &|at| table.read32(at), &mut out)
        })?;
        Ok(out)
    }

    /// Returns the address of the FRU EEPROM on the bus of the board, if it has one.
    pub(crate) fn fru(&self) -> Option<u32> {
        self.hal.fru()
    }

    /// Reads from an EEPROM of the board at an address on its bus. Errors as [`Smu::sensor`],
    /// `EIO` when it does not respond.
    pub(crate) fn read_eeprom(&self, mmio: &Mmio, address: u32, to: &mut [u8]) -> Result {
        self.with_table(|table| {
            let addresses = (address..).step_by(EEPROM_READ);
            for (address, part) in addresses.zip(to.chunks_mut(EEPROM_READ)) {
                self.hal.read_eeprom(
                    mmio,
                    address,
                    part,
                    &|bytes| {
                        table.write_bytes(0, bytes)?;
                        table.publish()
                    },
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

    /// Handles an interrupt with two context words. Returns the reasons of throttling and the
    /// number of throttling interrupts, when they are to be reported.
    pub(crate) fn interrupt(&self, mmio: &Mmio, what: u32, data: u32) -> Option<(u64, u64)> {
        let reasons = self.hal.interrupt(mmio, what, data).ok()??;
        let mut state = self.throttling.lock();
        state.count += 1;
        if !state.is_due() {
            return None;
        }
        state.reported = Some(Instant::now());
        (reasons != 0).then_some((reasons, state.count))
    }

    /// Returns whether throttling is reported, and the interval in seconds: 1 more than the minimum
    /// time between two reports.
    pub(crate) fn throttling_reports(&self) -> (bool, u32) {
        let state = self.throttling.lock();
        (state.enabled, state.interval)
    }

    /// Sets that interval, which begins again, or ends the reports with 0.
    pub(crate) fn set_throttling_reports(&self, seconds: u32) {
        let mut state = self.throttling.lock();
        state.enabled = seconds != 0;
        if state.enabled {
            state.interval = seconds;
            state.reported = None;
        }
    }

    /// Returns the enabled features, one bit each. Errors as [`Smu::sensor`].
    pub(crate) fn features(&self, mmio: &Mmio) -> Result<u64> {
        self.with_state(|_, _| self.hal.features(mmio))
    }

    /// Returns the bits and names of features that have a name, in ascending order.
    pub(crate) fn feature_names(&self) -> &'static [(u32, &'static str)] {
        self.hal.feature_names()
    }

    /// Announces the unload of the driver if [`Smu::start`] enabled the features, and removes
    /// limits and policies from firmware: they are set again by the next start of this driver only.
    pub(crate) fn stop(&self, mmio: &Mmio) -> Result {
        let state = &mut *self.state.lock();
        if !core::mem::take(&mut state.managed) {
            return Ok(());
        }
        let (settings, facts) = (state.settings, self.facts());
        let mut removed =
            self.enter(mmio, state, &facts, Level::Auto)
                .and_then(|()| match settings.power {
                    Some(_) => self.hal.set_power_limit(mmio, facts.max_power),
                    None => Ok(()),
                });
        for policy in Policy::ALL {
            if settings.policies[policy as usize].is_some() {
                removed = removed.and(self.hal.select(mmio, policy, policy.first()));
            }
        }
        state.settings = settings;
        self.hal.stop(mmio).and(removed)
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
