// SPDX-License-Identifier: GPL-2.0

//! Names of [`super::acpi`], [`super::cpufeature`], [`super::cpufreq`] and [`super::pci`] for users
//! that import them from here.

pub(crate) use super::{
    acpi::oem,
    cpufeature::in_guest,
    cpufreq::cpu_max_mhz,
    pci::{completes_atomics, link, sends_atomics},
};
