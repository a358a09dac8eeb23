// SPDX-License-Identifier: GPL-2.0

//! SMU: HAL trait for features and metrics of the power firmware.

use kernel::prelude::*;

use crate::asic::{
    mmio::Mmio,
    xcc::{Xcc, MAX_XCCS},
};

/// A clock of the card that has levels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Shader clock.
    Engine,
    /// Memory clock.
    Memory,
    /// SOC clock.
    Soc,
    /// Fabric clock.
    Fabric,
    /// Clocks of the video decoder.
    Video,
    Decoder,
}

impl Clock {
    /// All clocks, by number.
    pub(crate) const ALL: [Self; 6] = [
        Self::Engine,
        Self::Memory,
        Self::Soc,
        Self::Fabric,
        Self::Video,
        Self::Decoder,
    ];
}

/// Levels of a clock in MHz, lowest first.
#[derive(Clone, Copy, Default)]
pub(crate) struct Levels {
    mhz: [u32; Self::MAX],
    count: usize,
}

impl Levels {
    /// Maximum number of levels.
    pub(crate) const MAX: usize = 4;

    /// Appends a level. `EINVAL` if there is no room.
    pub(crate) fn push(&mut self, mhz: u32) -> Result {
        *self.mhz.get_mut(self.count).ok_or(EINVAL)? = mhz;
        self.count += 1;
        Ok(())
    }

    /// Returns the levels.
    pub(crate) fn all(&self) -> &[u32] {
        &self.mhz[..self.count]
    }

    /// Returns the lowest and the highest level, 0 without any.
    pub(crate) fn range(&self) -> (u32, u32) {
        let of = |level: Option<&u32>| level.copied().unwrap_or(0);
        (of(self.all().first()), of(self.all().last()))
    }
}

/// A policy of the power firmware, one of whose levels is selected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Power states of the SOC.
    Soc,
    /// Power-down of single xGMI links.
    Xgmi,
}

impl Policy {
    /// All policies, by number.
    pub(crate) const ALL: [Self; 2] = [Self::Soc, Self::Xgmi];

    /// Returns the name, and the names of the levels (`smu_soc_policy_get_desc`,
    /// `smu_xgmi_plpd_policy_get_desc`, `smu_cmn.c`).
    pub(crate) fn names(self) -> (&'static CStr, &'static [&'static str]) {
        match self {
            Self::Soc => (
                c"soc_pstate",
                &[
                    "soc_pstate_default",
                    "soc_pstate_0",
                    "soc_pstate_1",
                    "soc_pstate_2",
                ],
            ),
            Self::Xgmi => (
                c"xgmi_plpd",
                &["plpd_disallow", "plpd_default", "plpd_optimized"],
            ),
        }
    }

    /// Returns the level that firmware starts with.
    pub(crate) fn first(self) -> u32 {
        match self {
            Self::Soc => 0,
            Self::Xgmi => 1,
        }
    }
}

/// Temperatures in degrees Celsius at which a part is throttled and at which the card is shut down;
/// 0 if unknown.
#[derive(Clone, Copy, Default)]
pub(crate) struct TemperatureLimits {
    pub(crate) throttled: u32,
    pub(crate) critical: u32,
}

/// Properties of a card that its power firmware reports.
#[derive(Clone, Copy, Default)]
pub(crate) struct SmuFacts {
    /// Serial number of the package.
    pub(crate) serial: u64,
    /// Serial numbers of the XCCs by physical number; 0 if unknown.
    pub(crate) xcc_serials: [u64; MAX_XCCS],
    /// Firmware version.
    pub(crate) version: u32,
    /// Levels by the number of the clock; the shader clock has any frequency between two.
    pub(crate) clocks: [Levels; Clock::ALL.len()],
    /// Highest power limit of the socket in W.
    pub(crate) max_power: u32,
    /// Limits of the dies.
    pub(crate) temperature: TemperatureLimits,
    /// Limits of the memory.
    pub(crate) memory_temperature: TemperatureLimits,
    /// Which policies firmware has, by number.
    pub(crate) policies: [bool; Policy::ALL.len()],
    /// SDMA engines can be reset one by one.
    pub(crate) resets_sdma: bool,
}

impl SmuFacts {
    /// Returns the levels of a clock.
    pub(crate) fn levels(&self, clock: Clock) -> &Levels {
        &self.clocks[clock as usize]
    }
}

/// A value that power firmware measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sensor {
    /// A clock in MHz.
    Clock(Clock),
    /// Load of the graphics cores in percent.
    Load,
    /// Load of the memory in percent.
    MemoryLoad,
    /// Power of the socket in mW.
    Power,
    /// Temperature of the hottest die in mC.
    Temperature,
    /// Temperature of the memory in mC.
    MemoryTemperature,
}

/// Maximum bytes of one read of the EEPROM: the commands of an I2C transaction less two for the
/// address.
pub(crate) const EEPROM_READ: usize = 22;

/// SMU. Methods return `ETIMEDOUT` when firmware does not respond, `ENODEV` after unbind, and an
/// errno of its response when it rejects a message.
pub(crate) trait SmuHal: Sync {
    /// Returns the bytes of the driver's table.
    fn table_bytes(&self) -> usize;

    /// Sets the GPU address of the driver's table and enables all features. `EIO` when firmware
    /// does not run.
    fn start(&self, mmio: &Mmio, table: u64) -> Result;

    /// Returns the enabled features, one bit each.
    fn features(&self, mmio: &Mmio) -> Result<u64>;

    /// Returns the bits and names of features that have a name, in ascending order.
    fn feature_names(&self) -> &'static [(u32, &'static str)];

    /// Makes firmware write its metrics to the driver's table.
    fn write_metrics(&self, mmio: &Mmio) -> Result;

    /// Returns the version of the metrics table.
    fn metrics_version(&self, mmio: &Mmio) -> Result<u32>;

    /// Reads the properties that are not part of the metrics; the others are zeroes.
    fn basic_facts(&self, mmio: &Mmio) -> Result<SmuFacts>;

    /// Reads all properties; `read` returns the dword of the driver's table, with metrics, at a
    /// byte offset. `EAGAIN` when firmware has no sample yet.
    fn facts(&self, mmio: &Mmio, read: &dyn Fn(usize) -> Result<u32>) -> Result<SmuFacts>;

    /// Reads a sensor from the metrics, as [`SmuHal::facts`].
    fn sensor(
        &self,
        mmio: &Mmio,
        sensor: Sensor,
        read: &dyn Fn(usize) -> Result<u32>,
    ) -> Result<u32>;

    /// Limits the shader clock from below, in MHz.
    fn limit_engine_lowest(&self, mmio: &Mmio, lowest: u32) -> Result;

    /// Limits the shader clock from above, in MHz.
    fn limit_engine_highest(&self, mmio: &Mmio, highest: u32) -> Result;

    /// Limits another clock from above, in MHz. `EINVAL` if it cannot be limited.
    fn limit(&self, mmio: &Mmio, clock: Clock, highest: u32) -> Result;

    /// Begins determinism, in which the shader clock is below a frequency in MHz and does not
    /// depend on the load, or ends it.
    fn set_determinism(&self, mmio: &Mmio, highest: Option<u32>) -> Result;

    /// Selects a level of a policy. `EINVAL` if there is no such level.
    fn select(&self, mmio: &Mmio, policy: Policy, level: u32) -> Result;

    /// Returns the power limit of the socket in W.
    fn power_limit(&self, mmio: &Mmio) -> Result<u32>;

    /// Sets the power limit of the socket in W.
    fn set_power_limit(&self, mmio: &Mmio, watts: u32) -> Result;

    /// Writes the metrics of a partition with these XCCs, or of the card without any, in the format
    /// of user space, to the spare capacity of `out`; `read` as in [`SmuHal::facts`]. `ENOSPC` if
    /// there is not enough.
    fn user_metrics(
        &self,
        mmio: &Mmio,
        partition: Option<&[Xcc]>,
        read: &dyn Fn(usize) -> Result<u32>,
        out: &mut KVec<u8>,
    ) -> Result;

    /// Acknowledges an interrupt with context words `what` and `data`. Returns the reasons
    /// (`SMU_THROTTLER_*`) of a throttling interrupt, `None` for others.
    fn interrupt(&self, mmio: &Mmio, what: u32, data: u32) -> Result<Option<u64>>;

    /// Returns the address of the FRU EEPROM on the bus of the board, `None` if boards have none.
    fn fru(&self) -> Option<u32>;

    /// Reads [`EEPROM_READ`] bytes at most of an EEPROM of the board at an address on its bus.
    /// `write` stores bytes at the start of the driver's table, `read` as [`SmuHal::facts`].
    /// `EIO` when the EEPROM does not respond.
    fn read_eeprom(
        &self,
        mmio: &Mmio,
        address: u32,
        to: &mut [u8],
        write: &dyn Fn(&[u8]) -> Result,
        read: &dyn Fn(usize) -> Result<u32>,
    ) -> Result;

    /// Sets the number of records of bad pages, for other readers on the bus of the SMU.
    fn set_bad_pages(&self, mmio: &Mmio, records: u32) -> Result;

    /// Announces that no driver manages the card any more.
    fn stop(&self, mmio: &Mmio) -> Result;
}
