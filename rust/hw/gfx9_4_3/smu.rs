// SPDX-License-Identifier: GPL-2.0

//! SMU mailbox of firmware 13.0.6: features, metrics, mode-1 reset and SDMA engine reset.

use kernel::{io::poll::read_poll_timeout, prelude::*, time::Delta};
use rkfd_abi::{
    bits::{hi32, join, lo32},
    discovery::hwid,
    fru::FRU_AT,
    ih::source,
    psp::{SMU_FLAGS_SMN, SMU_VERSION_SMN},
    regs::{mp_13_0_6 as mp, Value},
    smu::{
        clock, feature, i2c, interrupt, metrics, msg, part, plpd, response, throttled, ARGUMENT,
        MESSAGE, RESPONSE,
    },
};

use super::{
    features,
    user_metrics::{self, Scope},
};
use crate::{
    asic::{
        mmio::Mmio,
        xcc::{Xcc, MAX_XCCS},
    },
    hw::smu::{Clock, Levels, Policy, Sensor, SmuFacts, SmuHal, TemperatureLimits, EEPROM_READ},
};

pub(super) struct Smu;

/// Message timeout in ms (C: `default_timeout`, `__smu_msg_v1_poll_stat`, `smu_cmn.c`).
const TIMEOUT_MS: i64 = 2000;

/// Sends a message and waits for the response. Errors as [`query`].
fn send(mmio: &Mmio, message: u32, argument: u32) -> Result {
    query(mmio, message, argument).map(drop)
}

/// Sends a message, waits for the response and returns the value of the argument register.
/// `ETIMEDOUT` without a response, `EIO` when it failed, `EOPNOTSUPP` for an unknown message,
/// `EINVAL` when a prerequisite is missing, `EBUSY` when firmware is busy, `EREMOTEIO` for other
/// responses (`smu_msg_v1_decode_response`, `smu_cmn.c`). `ETIMEDOUT`, too, while a message before
/// has no response, as the mailbox does not distinguish responses; a reset is sent without that
/// check (`SMU_MSG_NO_PRECHECK`).
fn query(mmio: &Mmio, message: u32, argument: u32) -> Result<u32> {
    let b = mmio.block(hwid::MP1, 0)?;
    let mut is_pending = mmio.lock_mailbox();
    if *is_pending && message != msg::GFX_DRIVER_RESET && b.rd(RESPONSE)?.raw() == 0 {
        return Err(ETIMEDOUT);
    }
    b.wr(RESPONSE, 0)?;
    b.wr(ARGUMENT, argument)?;
    b.wr(MESSAGE, message)?;
    *is_pending = true;
    let response = read_poll_timeout(
        || b.rd(RESPONSE).map(Value::raw),
        |v| *v != 0,
        Delta::from_micros(10),
        Delta::from_millis(TIMEOUT_MS),
    )?;
    *is_pending = false;
    match response {
        response::OK => Ok(b.rd(ARGUMENT)?.raw()),
        response::FAILED => Err(EIO),
        response::UNKNOWN_CMD => Err(EOPNOTSUPP),
        response::REJECTED_PREREQ => Err(EINVAL),
        response::REJECTED_BUSY => Err(EBUSY),
        _ => Err(EREMOTEIO),
    }
}

/// Starts a mode-1 reset; firmware responds before it begins. Errors as [`query`].
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

/// Returns whether firmware of a version has the policies of [`Policy`], by number: that of the SOC
/// from 85.96 on (`smu_v13_0_6_init_caps`), that of xGMI with its feature
/// (`smu_init_xgmi_plpd_mode`).
fn policies(version: u32, features: u64) -> [bool; Policy::ALL.len()] {
    const SOC_SINCE: u32 = 0x0055_6000;
    let xgmi = features >> feature::XGMI_PER_LINK_PWR_DOWN & 1 != 0;
    Policy::ALL.map(|policy| match policy {
        Policy::Soc => version >= SOC_SINCE,
        Policy::Xgmi => xgmi,
    })
}

/// Resets an SDMA engine, by its logical number; firmware takes a mask of physical ones
/// (`sdma_v4_4_2_soft_reset_engine`, `amdgpu/sdma_v4_4_2.c`). Errors as [`query`], `ENODEV` when
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

/// Returns the number of a clock in messages, the feature that changes it, and the offsets of its
/// levels and its frequency in the metrics table. `EINVAL` for the shader clock, which is
/// different.
fn place(clock: Clock) -> Result<(u32, u32, usize, usize)> {
    use metrics::*;
    Ok(match clock {
        Clock::Engine => return Err(EINVAL),
        Clock::Memory => (
            clock::UCLK,
            feature::DPM_UCLK,
            UCLK_FREQUENCY_TABLE,
            UCLK_FREQUENCY,
        ),
        Clock::Soc => (
            clock::SOCCLK,
            feature::DPM_SOCCLK,
            SOCCLK_FREQUENCY_TABLE,
            SOCCLK_FREQUENCY,
        ),
        Clock::Fabric => (
            clock::FCLK,
            feature::DPM_FCLK,
            FCLK_FREQUENCY_TABLE,
            FCLK_FREQUENCY,
        ),
        Clock::Video => (
            clock::VCLK,
            feature::DPM_VCN,
            VCLK_FREQUENCY_TABLE,
            VCLK_FREQUENCY,
        ),
        Clock::Decoder => (
            clock::DCLK,
            feature::DPM_VCN,
            DCLK_FREQUENCY_TABLE,
            DCLK_FREQUENCY,
        ),
    })
}

/// Reads the levels of a clock; a clock whose feature is not among `features` has one
/// (`smu_v13_0_6_set_default_dpm_table`). Errors as [`query`], `EINVAL` for too many.
fn levels(
    mmio: &Mmio,
    of: Clock,
    features: u64,
    read: &dyn Fn(usize) -> Result<u32>,
) -> Result<Levels> {
    /// Level of `GET_DPM_FREQ_BY_INDEX` that returns the number of the last one.
    const LAST: u32 = 0xff;
    let mut levels = Levels::default();
    let changes = |feature| features >> feature & 1 != 0;
    if of == Clock::Engine {
        levels.push(round(read(metrics::MIN_GFXCLK_FREQUENCY)?))?;
        if changes(feature::DPM_GFXCLK) {
            levels.push(round(read(metrics::MAX_GFXCLK_FREQUENCY)?))?;
        }
        return Ok(levels);
    }
    let (id, feature, table, _) = place(of)?;
    let last = match changes(feature) {
        true => query(mmio, msg::GET_DPM_FREQ_BY_INDEX, id << 16 | LAST)? as usize,
        false => 0,
    };
    for n in 0..=last.min(Levels::MAX) {
        levels.push(round(read(table + 4 * n)?))?;
    }
    Ok(levels)
}

/// Reads the temperatures at which dies and memory are throttled and critical; zeroes with firmware
/// before 85.69 (`smu_v13_0_6_get_thermal_temperature_range`). Errors as [`query`].
fn temperatures(mmio: &Mmio, version: u32) -> Result<[TemperatureLimits; 2]> {
    /// `CTF_LIMIT` of `smu_v13_0_6_init_caps`.
    const SINCE: u32 = 0x0055_4500;
    if version < SINCE {
        return Ok([TemperatureLimits::default(); 2]);
    }
    let critical = |part| query(mmio, msg::GET_CTF_LIMIT, part);
    let throttled = |part| query(mmio, msg::READ_THROTTLER_LIMIT, part);
    Ok([
        TemperatureLimits {
            throttled: throttled(throttled::SOCKET)?,
            critical: critical(part::AID)?.max(critical(part::XCD)?),
        },
        TemperatureLimits {
            throttled: throttled(throttled::HBM)?,
            critical: critical(part::HBM)?,
        },
    ])
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
        // A message from before a reset has no response.
        *mmio.lock_mailbox() = false;
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

    fn features(&self, mmio: &Mmio) -> Result<u64> {
        Ok(join(
            query(mmio, msg::GET_ENABLED_SMU_FEATURES_LOW, 0)?,
            query(mmio, msg::GET_ENABLED_SMU_FEATURES_HIGH, 0)?,
        ))
    }

    fn feature_names(&self) -> &'static [(u32, &'static str)] {
        &features::NAMES
    }

    fn write_metrics(&self, mmio: &Mmio) -> Result {
        send(mmio, msg::GET_METRICS_TABLE, 0)
    }

    fn metrics_version(&self, mmio: &Mmio) -> Result<u32> {
        query(mmio, msg::GET_METRICS_VERSION, 0)
    }

    fn basic_facts(&self, mmio: &Mmio) -> Result<SmuFacts> {
        let version = version(mmio)?;
        let features = self.features(mmio)?;
        let [temperature, memory_temperature] = temperatures(mmio, version)?;
        Ok(SmuFacts {
            version,
            temperature,
            memory_temperature,
            policies: policies(version, features),
            resets_sdma: resets_sdma(version),
            ..SmuFacts::default()
        })
    }

    fn facts(&self, mmio: &Mmio, read: &dyn Fn(usize) -> Result<u32>) -> Result<SmuFacts> {
        if read(metrics::ACCUMULATION_COUNTER)? == 0 {
            return Err(EAGAIN);
        }
        let features = self.features(mmio)?;
        let mut clocks = [Levels::default(); Clock::ALL.len()];
        for clock in Clock::ALL {
            clocks[clock as usize] = levels(mmio, clock, features, read)?;
        }
        let serial = |at| -> Result<u64> { Ok(join(read(at)?, read(at + 4)?)) };
        let mut xcc_serials = [0; MAX_XCCS];
        for (n, xcc) in xcc_serials.iter_mut().enumerate() {
            *xcc = serial(metrics::PUBLIC_SERIAL_NUMBER_XCD + 8 * n)?;
        }
        Ok(SmuFacts {
            serial: serial(metrics::PUBLIC_SERIAL_NUMBER_AID)?,
            xcc_serials,
            clocks,
            max_power: round(read(metrics::MAX_SOCKET_POWER_LIMIT)?),
            ..self.basic_facts(mmio)?
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
            Sensor::Clock(Clock::Engine) => {
                let first = mmio.instances().physical(hwid::GC, 0)?;
                metrics::GFXCLK_FREQUENCY + 4 * usize::from(first)
            }
            // Of the first die.
            Sensor::Clock(other) => place(other)?.3,
            Sensor::Load => metrics::SOCKET_GFX_BUSY,
            Sensor::MemoryLoad => metrics::DRAM_BANDWIDTH_UTILIZATION,
            Sensor::Power => return Ok(milli(read(metrics::SOCKET_POWER)?)),
            Sensor::Temperature => return Ok(milli(read(metrics::MAX_SOCKET_TEMPERATURE)?)),
            Sensor::MemoryTemperature => return Ok(milli(read(metrics::MAX_HBM_TEMPERATURE)?)),
        };
        Ok(round(read(at)?))
    }

    // `smu_v13_0_6_set_gfx_soft_freq_limited_range`.
    fn limit_engine_lowest(&self, mmio: &Mmio, lowest: u32) -> Result {
        send(mmio, msg::SET_SOFT_MIN_GFX_CLK, lowest & 0xffff)
    }

    fn limit_engine_highest(&self, mmio: &Mmio, highest: u32) -> Result {
        send(mmio, msg::SET_SOFT_MAX_GFX_CLK, highest & 0xffff)
    }

    fn limit(&self, mmio: &Mmio, of: Clock, highest: u32) -> Result {
        let (id, ..) = place(of)?;
        send(
            mmio,
            msg::SET_SOFT_MAX_BY_FREQ,
            id << 16 | (highest & 0xffff),
        )
    }

    fn set_determinism(&self, mmio: &Mmio, highest: Option<u32>) -> Result {
        match highest {
            Some(mhz) => send(mmio, msg::ENABLE_DETERMINISM, mhz),
            None => send(mmio, msg::DISABLE_DETERMINISM, 0),
        }
    }

    // `smu_v13_0_6_select_policy_soc_pstate`, `smu_v13_0_6_select_plpd_policy`.
    fn select(&self, mmio: &Mmio, policy: Policy, level: u32) -> Result {
        match (policy, level) {
            (Policy::Soc, 0..=3) => send(mmio, msg::SET_THROTTLING_POLICY, level),
            (Policy::Xgmi, 0) => send(mmio, msg::GMI_PWR_DN_CONTROL, 0),
            (Policy::Xgmi, 1) => send(mmio, msg::SELECT_PLPD_MODE, plpd::DEFAULT),
            (Policy::Xgmi, 2) => send(mmio, msg::SELECT_PLPD_MODE, plpd::OPTIMIZED),
            _ => Err(EINVAL),
        }
    }

    fn power_limit(&self, mmio: &Mmio) -> Result<u32> {
        query(mmio, msg::GET_PPT_LIMIT, 0)
    }

    fn set_power_limit(&self, mmio: &Mmio, watts: u32) -> Result {
        send(mmio, msg::SET_PPT_LIMIT, watts)
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

    // `is_fru_eeprom_supported`.
    fn fru(&self) -> Option<u32> {
        Some(FRU_AT)
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
        // The address of EEPROMs, and bits 16 to 19 of the address (`MAKE_I2C_ADDR`).
        request[i2c::ADDRESS] = 0xa0 | (address >> 16 & 0xf) as u8 * 2;
        request[i2c::COUNT] = u8::try_from(count)?;
        let transfer = || {
            write(&request)?;
            send(mmio, msg::REQUEST_I2C_TRANSACTION, 0)
        };
        // Retry: another master may have held the bus.
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
