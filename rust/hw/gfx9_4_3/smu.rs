// SPDX-License-Identifier: GPL-2.0

//! SMU mailbox of firmware 13.0.6: features, metrics, mode-1 reset and SDMA engine reset.

use kernel::{io::poll::read_poll_timeout, prelude::*, time::Delta};
use rkfd_abi::{
    bits::{hi32, join, lo32},
    discovery::hwid,
    ih::source,
    psp::{SMU_FLAGS_SMN, SMU_VERSION_SMN},
    regs::{mp_13_0_6 as mp, Value},
    smu::{i2c, interrupt, metrics, msg, response, ARGUMENT, MESSAGE, RESPONSE},
};

use super::user_metrics::{self, Scope};
use crate::{
    asic::{
        mmio::Mmio,
        xcc::{Xcc, MAX_XCCS},
    },
    hw::smu::{Sensor, SmuFacts, SmuHal, EEPROM_READ},
};

pub(super) struct Smu;

/// Message timeout in ms (C: `default_timeout`, `__smu_msg_v1_poll_stat`, `smu_cmn.c`).
const TIMEOUT_MS: i64 = 2000;

/// Sends a message and waits for the response. `ETIMEDOUT` without a response, `EIO` when it
/// failed, `EOPNOTSUPP` for an unknown message, `EINVAL` when a prerequisite is missing, `EBUSY`
/// when firmware is busy, `EREMOTEIO` for other responses (`smu_msg_v1_decode_response`,
/// `smu_cmn.c`).
fn send(mmio: &Mmio, message: u32, argument: u32) -> Result {
    let b = mmio.block(hwid::MP1, 0)?;
    let _guard = mmio.lock_mailbox();
    b.wr(RESPONSE, 0)?;
    b.wr(ARGUMENT, argument)?;
    b.wr(MESSAGE, message)?;
    let response = read_poll_timeout(
        || b.rd(RESPONSE).map(Value::raw),
        |v| *v != 0,
        Delta::from_micros(10),
        Delta::from_millis(TIMEOUT_MS),
    )?;
    match response {
        response::OK => Ok(()),
        response::FAILED => Err(EIO),
        response::UNKNOWN_CMD => Err(EOPNOTSUPP),
        response::REJECTED_PREREQ => Err(EINVAL),
        response::REJECTED_BUSY => Err(EBUSY),
        _ => Err(EREMOTEIO),
    }
}

/// Starts a mode-1 reset; firmware responds before it begins. Errors as [`send`].
pub(super) fn mode1_reset(mmio: &Mmio) -> Result {
    const MODE_1: u32 = 1;
    send(mmio, msg::GFX_DRIVER_RESET, MODE_1)
}

/// Reads the version of the firmware. `ENODEV` after unbind.
pub(super) fn version(mmio: &Mmio) -> Result<u32> {
    mmio.read(SMU_VERSION_SMN / 4)
}

/// Returns whether firmware of a version resets SDMA engines one by one (`smu_v13_0_6_init_caps`,
/// `smu_v13_0_6_ppt.c`).
fn resets_sdma(version: u32) -> bool {
    match version >> 24 {
        0 => version >= 0x0055_7900,
        4 => version >= 0x0455_7000,
        7 => version >= 0x0755_0700,
        _ => false,
    }
}

/// Resets an SDMA engine, by its logical number; firmware takes a mask of physical ones
/// (`sdma_v4_4_2_soft_reset_engine`, `amdgpu/sdma_v4_4_2.c`). Errors as [`send`], `ENODEV` when
/// there is no such engine and `EOPNOTSUPP` when firmware is too old.
pub(super) fn reset_sdma(mmio: &Mmio, engine: u32) -> Result {
    let engine = mmio
        .instances()
        .physical(hwid::SDMA0, u8::try_from(engine)?)?;
    if !resets_sdma(version(mmio)?) {
        return Err(EOPNOTSUPP);
    }
    send(mmio, msg::RESET_SDMA, 1 << engine)
}

/// Returns a value with 10 fractional bits as an integer.
fn round(value: u32) -> u32 {
    user_metrics::round(value.into()) as u32
}

/// Returns such a value in thousandths, rounded down (`SMUQ10_TO_MILLIWATT`).
fn milli(value: u32) -> u32 {
    (value >> 10) * 1000 + ((value & 0x3ff) * 1000 >> 10)
}

impl SmuHal for Smu {
    fn table_bytes(&self) -> usize {
        metrics::SIZE
    }

    fn start(&self, mmio: &Mmio, table: u64) -> Result {
        /// `MP1_FIRMWARE_FLAGS.INTERRUPTS_ENABLED`.
        const INTERRUPTS_ENABLED: u32 = 1;
        if mmio.read(SMU_FLAGS_SMN / 4)? & INTERRUPTS_ENABLED == 0 {
            return Err(EIO);
        }
        send(mmio, msg::SET_DRIVER_DRAM_ADDR_HIGH, hi32(table))?;
        send(mmio, msg::SET_DRIVER_DRAM_ADDR_LOW, lo32(table))?;
        send(mmio, msg::ENABLE_ALL_SMU_FEATURES, 0)?;
        // `smu_v13_0_6_set_irq_state`.
        let b = mmio.block(hwid::MP1, 0)?;
        b.set(
            mp::regMP1_SMN_IH_SW_INT,
            &[
                (mp::MP1_SMN_IH_SW_INT__ID, source::SMU_TO_DRIVER),
                (mp::MP1_SMN_IH_SW_INT__VALID, 0),
            ],
        )?;
        b.set(
            mp::regMP1_SMN_IH_SW_INT_CTRL,
            &[(mp::MP1_SMN_IH_SW_INT_CTRL__INT_MASK, 0)],
        )
    }

    fn write_metrics(&self, mmio: &Mmio) -> Result {
        send(mmio, msg::GET_METRICS_TABLE, 0)
    }

    fn facts(&self, mmio: &Mmio, read: &dyn Fn(usize) -> Result<u32>) -> Result<SmuFacts> {
        if read(metrics::ACCUMULATION_COUNTER)? == 0 {
            return Err(EAGAIN);
        }
        let version = version(mmio)?;
        let levels = metrics::UCLK_FREQUENCY_TABLE;
        let mut memory = (u32::MAX, 0);
        for at in (levels..levels + 16).step_by(4) {
            let mhz = round(read(at)?);
            memory = (memory.0.min(mhz), memory.1.max(mhz));
        }
        let serial = |at| -> Result<u64> { Ok(join(read(at)?, read(at + 4)?)) };
        let mut xcc_serials = [0; MAX_XCCS];
        for (n, xcc) in xcc_serials.iter_mut().enumerate() {
            *xcc = serial(metrics::PUBLIC_SERIAL_NUMBER_XCD + 8 * n)?;
        }
        Ok(SmuFacts {
            serial: serial(metrics::PUBLIC_SERIAL_NUMBER_AID)?,
            xcc_serials,
            version,
            engine_mhz: (
                round(read(metrics::MIN_GFXCLK_FREQUENCY)?),
                round(read(metrics::MAX_GFXCLK_FREQUENCY)?),
            ),
            memory_mhz: memory,
            resets_sdma: resets_sdma(version),
        })
    }

    // `smu_v13_0_6_read_sensor`.
    fn sensor(
        &self,
        mmio: &Mmio,
        sensor: Sensor,
        read: &dyn Fn(usize) -> Result<u32>,
    ) -> Result<u32> {
        let at = match sensor {
            Sensor::EngineClock => {
                let first = mmio.instances().physical(hwid::GC, 0)?;
                metrics::GFXCLK_FREQUENCY + 4 * usize::from(first)
            }
            Sensor::MemoryClock => metrics::UCLK_FREQUENCY,
            Sensor::Load => metrics::SOCKET_GFX_BUSY,
            Sensor::MemoryLoad => metrics::DRAM_BANDWIDTH_UTILIZATION,
            Sensor::Power => return Ok(milli(read(metrics::SOCKET_POWER)?)),
            Sensor::Temperature => return Ok(milli(read(metrics::MAX_SOCKET_TEMPERATURE)?)),
            Sensor::MemoryTemperature => return Ok(milli(read(metrics::MAX_HBM_TEMPERATURE)?)),
        };
        Ok(round(read(at)?))
    }

    fn user_metrics(
        &self,
        mmio: &Mmio,
        partition: Option<&[Xcc]>,
        read: &dyn Fn(usize) -> Result<u32>,
        out: &mut KVec<u8>,
    ) -> Result {
        let version = version(mmio)?;
        match partition {
            Some(xccs) => user_metrics::write(version, Scope::Partition, xccs, read, out),
            None => {
                let xccs = mmio.instances().xccs()?;
                user_metrics::write(version, Scope::Card, &xccs, read, out)
            }
        }
    }

    // `smu_v13_0_6_irq_process`.
    fn interrupt(&self, mmio: &Mmio, what: u32, data: u32) -> Result<Option<u64>> {
        let b = mmio.block(hwid::MP1, 0)?;
        b.set(
            mp::regMP1_SMN_IH_SW_INT_CTRL,
            &[(mp::MP1_SMN_IH_SW_INT_CTRL__INT_ACK, 1)],
        )?;
        if what != interrupt::THROTTLING {
            return Ok(None);
        }
        let bits = (0..).zip(interrupt::COMMON_BITS);
        let reasons = bits.filter(|(own, _)| data >> own & 1 != 0);
        Ok(Some(reasons.fold(0, |all, (_, bit)| all | 1u64 << bit)))
    }

    // `smu_v13_0_6_i2c_xfer`.
    fn read_eeprom(
        &self,
        mmio: &Mmio,
        address: u32,
        to: &mut [u8],
        write: &dyn Fn(&[u8]) -> Result,
        read: &dyn Fn(usize) -> Result<u32>,
    ) -> Result {
        /// Bytes of an address within a device.
        const ADDRESS: usize = 2;
        const _: () = assert!(ADDRESS + EEPROM_READ <= i2c::COMMANDS_MAX);
        let mut request = [0u8; i2c::SIZE];
        let commands = request[i2c::COMMANDS..].chunks_exact_mut(2);
        let count = ADDRESS + to.len();
        for (n, command) in commands.take(count).enumerate() {
            let [byte, flags] = command else {
                return Err(EINVAL);
            };
            match n {
                0 => (*byte, *flags) = ((address >> 8) as u8, i2c::WRITE),
                1 => (*byte, *flags) = (address as u8, i2c::WRITE),
                ADDRESS => *flags = i2c::RESTART,
                _ => {}
            }
            if n + 1 == count {
                *flags = *flags & !i2c::RESTART | i2c::STOP;
            }
        }
        request[i2c::SPEED] = i2c::FAST_400K;
        // An EEPROM, and bits 16 to 18 of the address.
        request[i2c::ADDRESS] = 0xa0 | (address >> 16 & 7) as u8 * 2;
        request[i2c::COUNT] = u8::try_from(count)?;
        let transfer = || {
            write(&request)?;
            send(mmio, msg::REQUEST_I2C_TRANSACTION, 0)
        };
        // Another master may have had the bus.
        transfer().or_else(|_| transfer())?;
        for (n, byte) in to.iter_mut().enumerate() {
            let at = i2c::COMMANDS + 2 * (ADDRESS + n);
            *byte = (read(at / 4 * 4)? >> (at % 4 * 8)) as u8;
        }
        Ok(())
    }

    fn set_bad_pages(&self, mmio: &Mmio, records: u32) -> Result {
        send(mmio, msg::SET_NUM_BAD_HBM_PAGES_RETIRED, records)
    }

    fn stop(&self, mmio: &Mmio) -> Result {
        let b = mmio.block(hwid::MP1, 0)?;
        b.set(
            mp::regMP1_SMN_IH_SW_INT_CTRL,
            &[(mp::MP1_SMN_IH_SW_INT_CTRL__INT_MASK, 1)],
        )?;
        send(mmio, msg::PREPARE_FOR_DRIVER_UNLOAD, 0)
    }
}
