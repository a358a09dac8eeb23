// SPDX-License-Identifier: GPL-2.0

//! Files of a card by which administrators read and limit clocks, power and temperatures
//! (`amdgpu_pm.c`): `power_dpm_state`, `power_dpm_force_performance_level`, `pp_dpm_*`,
//! `pp_od_clk_voltage`, and of the hardware monitoring device `power1_cap*`, `temp*_crit` and
//! `temp*_emergency`.

use core::fmt::Write;

use kernel::prelude::*;

use super::file::{decimal, line, number, with_smu, Action, Fact};
use crate::{
    card::{
        limits::{Level, Limit},
        smu::Smu,
    },
    gpu::Gpu,
    hw::smu::{Clock, Levels, Sensor},
    kapi::kobject::Text,
};

/// Files of the PCI device, and the effects of writes.
pub(super) const DEVICE: [(Fact, Action); 9] = [
    ((c"power_dpm_state", show_state), store_state),
    (
        (c"power_dpm_force_performance_level", show_level),
        store_level,
    ),
    (
        (c"pp_dpm_sclk", |gpu, out| levels(gpu, Clock::Engine, out)),
        |gpu, text| {
            let mask = mask(text)?;
            with_smu(gpu, |smu, mmio| smu.force_engine_levels(mmio, mask))
        },
    ),
    (
        (c"pp_dpm_mclk", |gpu, out| levels(gpu, Clock::Memory, out)),
        refuse,
    ),
    (
        (c"pp_dpm_socclk", |gpu, out| levels(gpu, Clock::Soc, out)),
        refuse,
    ),
    (
        (c"pp_dpm_fclk", |gpu, out| levels(gpu, Clock::Fabric, out)),
        refuse,
    ),
    (
        (c"pp_dpm_vclk", |gpu, out| levels(gpu, Clock::Video, out)),
        refuse,
    ),
    (
        (c"pp_dpm_dclk", |gpu, out| levels(gpu, Clock::Decoder, out)),
        refuse,
    ),
    ((c"pp_od_clk_voltage", show_limits), store_limits),
];

/// The power limit, a file of the hardware monitoring device, and the effect of a write.
pub(super) const CAP: (Fact, Action) = (
    (c"power1_cap", |gpu, out| {
        line(out, microwatts(with_smu(gpu, Smu::power_limit)?))
    }),
    |gpu, text| {
        let microwatts = decimal(text)?;
        with_smu(gpu, |smu, mmio| {
            smu.set_power_limit(mmio, microwatts / 1_000_000)
        })
    },
);

/// Other files of the hardware monitoring device: power in uW, temperatures in mC.
pub(super) const LIMITS: [Fact; 7] = [
    (c"power1_cap_default", |gpu, out| {
        line(out, microwatts(gpu.smu_facts().max_power))
    }),
    (c"power1_cap_max", |gpu, out| {
        line(out, microwatts(gpu.smu_facts().max_power))
    }),
    (c"power1_cap_min", |_, out| line(out, 0)),
    (c"temp2_crit", |gpu, out| {
        line(out, millidegrees(gpu.smu_facts().temperature.throttled))
    }),
    (c"temp2_emergency", |gpu, out| {
        line(out, millidegrees(gpu.smu_facts().temperature.critical))
    }),
    (c"temp3_crit", |gpu, out| {
        let limits = gpu.smu_facts().memory_temperature;
        line(out, millidegrees(limits.throttled))
    }),
    (c"temp3_emergency", |gpu, out| {
        let limits = gpu.smu_facts().memory_temperature;
        line(out, millidegrees(limits.critical))
    }),
];

/// The performance levels and their names.
const LEVELS: [(Level, &str); 3] = [
    (Level::Auto, "auto"),
    (Level::Manual, "manual"),
    (Level::Determinism, "perf_determinism"),
];

fn microwatts(watts: u32) -> u64 {
    u64::from(watts) * 1_000_000
}

fn millidegrees(degrees: u32) -> u64 {
    u64::from(degrees) * 1000
}

/// Returns the words of a text.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Parses a list of levels. Returns a mask of them, `EINVAL` if it is empty.
fn mask(text: &[u8]) -> Result<u32> {
    let mut mask = 0u32;
    for word in words(text) {
        let level: u32 = number(word)?;
        mask |= 1u32.checked_shl(level).ok_or(EINVAL)?;
    }
    if mask == 0 {
        return Err(EINVAL);
    }
    Ok(mask)
}

fn show_level(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let level = with_smu(gpu, |smu, _| Ok(smu.level()))?;
    let name = LEVELS.iter().find(|(l, _)| *l == level).ok_or(EINVAL)?.1;
    Ok(writeln!(out, "{name}")?)
}

/// The state that a VBIOS of older GPUs had; these GPUs have one (`smu_get_current_power_state`).
fn show_state(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    with_smu(gpu, |_, _| Ok(()))?;
    Ok(writeln!(out, "performance")?)
}

/// Accepts the three states, which are one here. `EINVAL` for other words.
fn store_state(gpu: &Gpu, text: &[u8]) -> Result {
    match text.strip_suffix(b"\n").unwrap_or(text) {
        b"battery" | b"balanced" | b"performance" => with_smu(gpu, |_, _| Ok(())),
        _ => Err(EINVAL),
    }
}

/// `EINVAL` also for levels that only other GPUs have (`low`, `high`, `profile_*`).
fn store_level(gpu: &Gpu, text: &[u8]) -> Result {
    let name = text.strip_suffix(b"\n").unwrap_or(text);
    let level = LEVELS.iter().find(|(_, n)| n.as_bytes() == name);
    let (level, _) = level.ok_or(EINVAL)?;
    with_smu(gpu, |smu, mmio| smu.set_level(mmio, *level))
}

/// Levels of clocks other than the shader clock cannot be chosen.
fn refuse(_: &Gpu, _: &[u8]) -> Result {
    Err(EINVAL)
}

/// Prints the levels of a clock and marks the current one. The shader clock has any frequency
/// between two: it is a line of its own (`smu_cmn_print_dpm_clk_levels`).
fn levels(gpu: &Gpu, clock: Clock, out: &mut Text<'_>) -> Result {
    /// Difference in MHz up to which two frequencies are the same.
    const TOLERANCE: u32 = 25;
    let now = with_smu(gpu, |smu, mmio| smu.sensor(mmio, Sensor::Clock(clock)))?;
    let facts = gpu.smu_facts();
    let levels = facts.levels(clock).all();
    let (lowest, _) = facts.levels(clock).range();
    let mut index = 0;
    if now < lowest / 2 {
        // Deep sleep.
        writeln!(out, "S: {now}Mhz *")?;
        index = 1;
    }
    let is_level = |mhz: u32| index == 0 && mhz.abs_diff(now) <= TOLERANCE;
    let is_between = clock == Clock::Engine
        && levels.len() > 1
        && index == 0
        && !levels.iter().any(|mhz| is_level(*mhz));
    let mut lines = KVec::with_capacity(Levels::MAX + 1, GFP_KERNEL)?;
    for mhz in levels {
        if is_between && lines.len() == 1 {
            lines.push((now, true), GFP_KERNEL)?;
        }
        lines.push((*mhz, is_level(*mhz)), GFP_KERNEL)?;
    }
    for (n, (mhz, is_current)) in lines.iter().enumerate() {
        let mark = if *is_current { "*" } else { "" };
        writeln!(out, "{}: {mhz}Mhz {mark}", index + n)?;
    }
    Ok(())
}

/// Prints the limits of the clocks; those of memory and fabric have a lowest level that cannot be
/// changed.
fn show_limits(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let limits = with_smu(gpu, |smu, _| Ok(smu.limits()))?;
    let facts = gpu.smu_facts();
    let lowest = |clock| facts.levels(clock).range().0;
    for (name, (lowest, highest)) in [
        ("SCLK", limits.engine),
        ("MCLK", (lowest(Clock::Memory), limits.memory)),
        ("FCLK", (lowest(Clock::Fabric), limits.fabric)),
    ] {
        writeln!(out, "OD_{name}:")?;
        writeln!(out, "0: {lowest}Mhz")?;
        writeln!(out, "1: {highest}Mhz")?;
    }
    Ok(())
}

/// Executes a command: `s 0 MHZ` and `s 1 MHZ` edit the limits of the shader clock, `m 1 MHZ` and
/// `f 1 MHZ` those of the memory and the fabric clock, `c` commits them, `r` resets all to those of
/// the card. `EINVAL` for other commands.
fn store_limits(gpu: &Gpu, text: &[u8]) -> Result {
    let (command, rest) = text.split_first().ok_or(EINVAL)?;
    let mut arguments = words(rest).map(number::<u32>);
    let mut next = || arguments.next().transpose();
    let (which, mhz) = (next()?, next()?);
    if next()?.is_some() {
        return Err(EINVAL);
    }
    let limit = match (command, which) {
        (b's', Some(0)) => Limit::EngineLowest,
        (b's', Some(1)) => Limit::EngineHighest,
        (b'm', Some(1)) => Limit::Memory,
        (b'f', Some(1)) => Limit::Fabric,
        (b'c', None) => return with_smu(gpu, Smu::commit),
        (b'r', None) => return with_smu(gpu, Smu::reset_limits),
        _ => return Err(EINVAL),
    };
    let mhz = mhz.ok_or(EINVAL)?;
    with_smu(gpu, |smu, _| smu.edit(limit, mhz))
}
