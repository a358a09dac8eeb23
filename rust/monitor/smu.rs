// SPDX-License-Identifier: GPL-2.0

//! Files of a card about its power firmware: enabled features, its metrics table, and reports of
//! throttling (`amdgpu_pm.c`, `smu_cmn.c`).

use core::fmt::Write;

use kernel::prelude::*;
use rkfd_abi::discovery::hwid;

use super::file::{number, with_smu, Action, Fact};
use crate::{asic::mmio::Version, card::smu::Smu, gpu::Gpu, kapi::kobject::Text};

/// The features; read-only, as no firmware of these cards changes single features.
pub(super) const FEATURES: Fact = (c"pp_features", show_features);

/// The metrics table of the firmware, as it is, after a header.
pub(super) const METRICS: Fact = (c"pm_metrics", show_metrics);

/// Reports of throttling, and the effect of a write. They exist also while the card cannot be used.
pub(super) const THROTTLING: (Fact, Action) = (
    (c"thermal_throttling_logging", show_throttling),
    store_throttling,
);

/// Prints the mask of the enabled features, and the state of each that has a name
/// (`smu_cmn_get_pp_feature_mask`).
fn show_features(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let features = with_smu(gpu, Smu::features)?;
    let names = with_smu(gpu, |smu, _| Ok(smu.feature_names()))?;
    writeln!(
        out,
        "features high: {:#010x} low: {:#010x}",
        features >> 32,
        features as u32
    )?;
    writeln!(out, "No. {:<20}  Bit : State", "Feature")?;
    for (n, (bit, name)) in names.iter().enumerate() {
        let state = match features >> bit & 1 {
            0 => "disabled",
            _ => "enabled",
        };
        writeln!(out, "{n:02}. {name:<20} ({bit:2}) : {state}")?;
    }
    Ok(())
}

/// Writes the header, `struct amdgpu_pmmetrics_header`: bytes of the file, version of the SMU's
/// block, of its firmware and of the table; and the table (`smu_v13_0_6_get_pm_metrics`).
fn show_metrics(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    /// Bytes of the header.
    const HEADER: usize = 16;
    let (version, table) = with_smu(gpu, Smu::table)?;
    let mut blocks = gpu.listed().iter().map(|ip| &ip.instance);
    let block = blocks.find(|ip| ip.hw_id == hwid::MP1).ok_or(ENODEV)?;
    let Version { major, minor, rev } = block.version;
    out.push_bytes(&((HEADER + table.len()) as u32).to_le_bytes())?;
    out.push_bytes(&[0, rev, minor, major])?;
    out.push_bytes(&gpu.smu_facts().version.to_le_bytes())?;
    out.push_bytes(&version.to_le_bytes())?;
    out.push_bytes(&table)
}

fn show_throttling(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let (enabled, seconds) = gpu.smu().ok_or(EOPNOTSUPP)?.throttling_reports();
    let name = gpu.dev().name().to_str()?;
    let state = if enabled { "enabled" } else { "disabled" };
    Ok(writeln!(
        out,
        "{name}: thermal throttling logging {state}, with interval {seconds} seconds"
    )?)
}

/// Sets the interval of the reports in seconds, 0: there are none. `EINVAL` for other texts, and
/// above an hour.
fn store_throttling(gpu: &Gpu, text: &[u8]) -> Result {
    /// Longest interval.
    const MAX: u32 = 3600;
    let seconds = number::<u32>(text)?;
    if seconds > MAX {
        return Err(EINVAL);
    }
    gpu.smu().ok_or(EOPNOTSUPP)?.set_throttling_reports(seconds);
    Ok(())
}
