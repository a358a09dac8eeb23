// SPDX-License-Identifier: GPL-2.0

//! Files of a card about its power firmware: enabled features, and reports of throttling
//! (`amdgpu_pm.c`, `smu_cmn.c`).

use core::fmt::Write;

use kernel::prelude::*;

use super::fact::{number, with_smu, Action, Fact};
use crate::{card::smu::Smu, gpu::Gpu, kapi::kobject::Text};

/// The features; read-only, as no firmware of these cards changes single features.
pub(super) const FEATURES: Fact = (c"pp_features", show_features);

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
