// SPDX-License-Identifier: GPL-2.0

//! SMU: HAL trait for features and metrics of the power firmware.

use kernel::prelude::*;

use crate::asic::{
    mmio::Mmio,
    xcc::{Xcc, MAX_XCCS},
};

/// Properties of a card that its power firmware reports.
#[derive(Clone, Copy, Default)]
pub(crate) struct SmuFacts {
    /// Serial number of the package.
    pub(crate) serial: u64,
    /// Serial numbers of the XCCs by physical number; 0 if unknown.
    pub(crate) xcc_serials: [u64; MAX_XCCS],
    /// Firmware version.
    pub(crate) version: u32,
    /// Lowest and highest shader clock in MHz.
    pub(crate) engine_mhz: (u32, u32),
    /// Lowest and highest memory clock in MHz.
    pub(crate) memory_mhz: (u32, u32),
    /// SDMA engines can be reset one by one.
    pub(crate) resets_sdma: bool,
}

/// A value that power firmware measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sensor {
    /// Shader clock in MHz.
    EngineClock,
    /// Memory clock in MHz.
    MemoryClock,
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

    /// Makes firmware write its metrics to the driver's table.
    fn write_metrics(&self, mmio: &Mmio) -> Result;

    /// Reads properties from the metrics; `read` returns the dword of the driver's table at a byte
    /// offset. `EAGAIN` when firmware has no sample yet.
    fn facts(&self, mmio: &Mmio, read: &dyn Fn(usize) -> Result<u32>) -> Result<SmuFacts>;

    /// Reads a sensor from the metrics, as [`SmuHal::facts`].
    fn sensor(
        &self,
        mmio: &Mmio,
        sensor: Sensor,
        read: &dyn Fn(usize) -> Result<u32>,
    ) -> Result<u32>;

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

    /// Acknowledges an interrupt. Returns why firmware throttles the card (`SMU_THROTTLER_*`), if
    /// it is about that; `what` and `data` are its context words.
    fn interrupt(&self, mmio: &Mmio, what: u32, data: u32) -> Result<Option<u64>>;

    /// Reads [`EEPROM_READ`] bytes at most of the EEPROM of the board at an address on its
    /// bus. `write` stores bytes at the start of the driver's table, `read` as [`SmuHal::facts`].
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
