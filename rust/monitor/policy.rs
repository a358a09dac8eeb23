// SPDX-License-Identifier: GPL-2.0

//! `pm_policy` of a card: the policies of its power firmware and their levels, one of which is
//! selected (`amdgpu_pm.c`, `amdgpu_smu.c`).

use core::fmt::Write;

use kernel::{prelude::*, sync::Arc};

use super::file::{number, with_smu};
use crate::{
    gpu::Gpu,
    hw::smu::Policy,
    kapi::kobject::{Dir, File, Parent, Text},
};

/// Creates the directory, with a file for each policy that the firmware has; `None` without any.
/// `ENOMEM` without memory.
pub(super) fn dir(gpu: &Arc<Gpu>) -> Result<Option<Dir>> {
    let has = gpu.smu_facts().policies;
    let mut files = KVec::new();
    for policy in Policy::ALL {
        if has[policy as usize] {
            let (reader, writer) = (gpu.clone(), gpu.clone());
            let file = File::new(policy.names().0, move |out: &mut Text<'_>| {
                show(&reader, policy, out)
            })?;
            let file = file.writable(move |text: &[u8]| store(&writer, policy, text))?;
            files.push(file, GFP_KERNEL)?;
        }
    }
    match files.is_empty() {
        true => Ok(None),
        false => Dir::new(&Parent::Device(gpu.dev()), c"pm_policy", files).map(Some),
    }
}

/// Prints the levels of a policy, also while the card cannot be used.
fn show(gpu: &Gpu, policy: Policy, out: &mut Text<'_>) -> Result {
    let selected = gpu.smu().ok_or(EOPNOTSUPP)?.policy(policy);
    for (level, name) in (0..).zip(policy.names().1) {
        let mark = if level == selected { "*" } else { "" };
        writeln!(out, "{level} : {name}{mark}")?;
    }
    Ok(())
}

/// Selects a level. `EINVAL` for anything but the number of one.
fn store(gpu: &Gpu, policy: Policy, text: &[u8]) -> Result {
    let level: i64 = number(text.trim_ascii())?;
    with_smu(gpu, |smu, mmio| {
        let level = u32::try_from(level).map_err(|_| EINVAL)?;
        smu.select(mmio, policy, level)
    })
}
