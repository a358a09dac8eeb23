// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Clocks, limits and serial numbers of the power firmware, and its metrics table.
//!
//! The highest shader clock, the power limit and the memory clock are those of AMD's data sheet;
//! the other frequencies, the power of an idle socket and all temperatures are chosen. While a wave
//! runs, load and power are at their maximum.

use std::time::Duration;

use rkfd_abi::smu::{clock, metrics, part, throttled};

use super::State;
use crate::chips::XCCS_PER_AID;
use crate::gpu::Gpu;
use crate::regs::Ip;

/// Range of the shader clock in MHz.
pub const GFXCLK: [u32; 2] = [132, 2100];
/// Power limit of the socket in W.
pub const POWER: u32 = 750;
/// Power of an idle socket in W.
const IDLE: u32 = 140;
/// Temperatures in degrees Celsius: now, throttling, critical.
const TEMPERATURE: u32 = 40;
const THROTTLE: u32 = 95;
const CRITICAL: u32 = 105;

/// Serial number of the first AID; those of other dies differ in the low 12 bits.
const SERIAL: u64 = 0x5fd0_3a7c_91e2_4000;

/// Returns the levels of a clock in MHz, lowest first; `None` if there is no such clock.
pub fn levels(id: u32) -> Option<[u32; 4]> {
    Some(match id {
        clock::VCLK => [600, 800, 1000, 1200],
        clock::DCLK => [500, 700, 850, 1000],
        clock::SOCCLK => [400, 600, 800, 1000],
        clock::UCLK => [900, 1100, 1200, 1300],
        clock::FCLK => [1200, 1600, 1900, 2100],
        clock::LCLK => [300, 600, 800, 1000],
        _ => return None,
    })
}

/// Returns the temperature at which a part is throttled.
pub fn throttle_limit(part: u32) -> Option<u32> {
    matches!(part, throttled::SOCKET | throttled::HBM).then_some(THROTTLE)
}

/// Returns the critical temperature of a part.
pub fn critical_limit(part: u32) -> Option<u32> {
    matches!(part, part::AID | part::XCD | part::HBM).then_some(CRITICAL)
}

/// Returns the metrics table.
pub fn table(gpu: &Gpu, state: &State) -> [u8; metrics::SIZE] {
    let mut table = [0; metrics::SIZE];
    let mut put = |at: usize, value: &[u8]| table[at..at + value.len()].copy_from_slice(value);
    let word = |value: u32| value.to_le_bytes();
    let q10 = |value: u32| word(value << 10);
    let milliseconds = gpu.clock() / 100_000;
    let late = Duration::from_millis(gpu.knobs.smu_late.get());
    if state.enabled.is_some_and(|since| since.elapsed() < late) {
        gpu.knobs.smu_late.hit();
        return table;
    }
    put(
        metrics::ACCUMULATION_COUNTER,
        &word(milliseconds as u32 | 1),
    );
    put(metrics::TIMESTAMP, &gpu.clock().to_le_bytes());
    for at in [
        metrics::MAX_SOCKET_TEMPERATURE,
        metrics::MAX_VR_TEMPERATURE,
        metrics::MAX_HBM_TEMPERATURE,
    ] {
        put(at, &q10(TEMPERATURE));
    }
    put(metrics::SOCKET_POWER_LIMIT, &q10(state.power));
    put(metrics::MAX_SOCKET_POWER_LIMIT, &q10(POWER));
    let busy = gpu.xccs.iter().any(|xcc| xcc.cp.is_busy());
    put(metrics::SOCKET_GFX_BUSY, &q10(if busy { 100 } else { 0 }));
    let power = if busy { POWER } else { IDLE };
    put(metrics::SOCKET_POWER, &q10(power.min(state.power)));
    put(metrics::GFXCLK_FREQUENCY_LIMIT, &q10(state.gfxclk[1]));
    put(metrics::MIN_GFXCLK_FREQUENCY, &q10(GFXCLK[0]));
    put(metrics::MAX_GFXCLK_FREQUENCY, &q10(GFXCLK[1]));
    let aids = || gpu.chip.instances(Ip::Mmhub).map(usize::from);
    for (id, at, every_aid, range) in [
        (
            clock::FCLK,
            metrics::FCLK_FREQUENCY,
            false,
            metrics::FCLK_FREQUENCY_TABLE,
        ),
        (
            clock::UCLK,
            metrics::UCLK_FREQUENCY,
            false,
            metrics::UCLK_FREQUENCY_TABLE,
        ),
        (
            clock::SOCCLK,
            metrics::SOCCLK_FREQUENCY,
            true,
            metrics::SOCCLK_FREQUENCY_TABLE,
        ),
        (
            clock::VCLK,
            metrics::VCLK_FREQUENCY,
            true,
            metrics::VCLK_FREQUENCY_TABLE,
        ),
        (
            clock::DCLK,
            metrics::DCLK_FREQUENCY,
            true,
            metrics::DCLK_FREQUENCY_TABLE,
        ),
        (
            clock::LCLK,
            metrics::LCLK_FREQUENCY,
            true,
            metrics::LCLK_FREQUENCY_TABLE,
        ),
    ] {
        for (n, level) in levels(id).into_iter().flatten().enumerate() {
            put(range + 4 * n, &q10(level));
        }
        for aid in aids().take(if every_aid { usize::MAX } else { 1 }) {
            put(at + 4 * aid, &q10(state.soft[id as usize][0]));
        }
    }
    for xcc in &gpu.xccs {
        let load = if xcc.cp.is_busy() { 100 } else { 0 };
        put(
            metrics::GFX_BUSY + 4 * usize::from(xcc.instance),
            &q10(load),
        );
    }
    for xcc in gpu.chip.instances(Ip::Gc) {
        let (n, aid) = (usize::from(xcc), u64::from(xcc / XCCS_PER_AID));
        let serial = SERIAL + aid + (u64::from(xcc) + 1 << 8);
        put(metrics::GFXCLK_FREQUENCY + 4 * n, &q10(state.gfxclk[0]));
        put(
            metrics::PUBLIC_SERIAL_NUMBER_XCD + 8 * n,
            &serial.to_le_bytes(),
        );
    }
    for aid in aids() {
        let serial = SERIAL + aid as u64;
        put(
            metrics::PUBLIC_SERIAL_NUMBER_AID + 8 * aid,
            &serial.to_le_bytes(),
        );
    }
    table
}
