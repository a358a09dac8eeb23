// SPDX-License-Identifier: GPL-2.0

//! Partitions of a device: their modes in sysfs.
//!
//! A card with compute partitions has the files `current_compute_partition`,
//! `available_compute_partition` and `current_memory_partition`, with texts and errnos of the C
//! driver (`amdgpu_gfx.c`, `amdgpu_gmc.c`). One memory partition (NPS1) is supported: as in the C
//! driver, its file is then read-only, and there is no `available_memory_partition`.

use core::fmt::Write;

use kernel::{prelude::*, sync::Arc};

use crate::{
    asic::partition::ComputePartition,
    gpu::Gpu,
    kapi::{
        device_file::{DeviceFile, Store},
        kobject::Text,
    },
};

/// The files of a device. Dropping them removes them and waits for their users.
pub(crate) struct Files {
    _files: KVec<DeviceFile>,
}

impl Files {
    /// Creates the files of a device; none for a card without compute partitions. `ENOMEM` without
    /// memory.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let mut files = KVec::new();
        if gpu.memory_partitions()?.is_none() {
            return Ok(Self { _files: files });
        }
        let dev = gpu.dev();
        let (reader, writer) = (gpu.clone(), gpu.clone());
        let store: KBox<dyn Store> =
            KBox::new(move |text: &[u8]| store_compute(&writer, text), GFP_KERNEL)?;
        files.push(
            DeviceFile::new(
                dev,
                c"current_compute_partition",
                move |out: &mut Text<'_>| {
                    check_reset(&reader)?;
                    Ok(writeln!(out, "{}", ComputePartition::Spx.name())?)
                },
                Some(store),
            )?,
            GFP_KERNEL,
        )?;
        let reader = gpu.clone();
        files.push(
            DeviceFile::new(
                dev,
                c"available_compute_partition",
                move |out: &mut Text<'_>| show_available(&reader, out),
                None,
            )?,
            GFP_KERNEL,
        )?;
        let reader = gpu.clone();
        files.push(
            DeviceFile::new(
                dev,
                c"current_memory_partition",
                move |out: &mut Text<'_>| show_memory(&reader, out),
                None,
            )?,
            GFP_KERNEL,
        )?;
        Ok(Self { _files: files })
    }
}

/// Returns `EPERM` for a device that hangs or is being reset.
fn check_reset(gpu: &Gpu) -> Result {
    gpu.check_usable().map_err(|_| EPERM)
}

/// Prints the modes of the card.
fn show_available(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    let mut separator = "";
    for mode in ComputePartition::ALL {
        if mode.is_available(gpu.xccs()) {
            write!(out, "{separator}{}", mode.name())?;
            separator = ", ";
        }
    }
    if separator.is_empty() {
        write!(out, "Not supported")?;
    }
    Ok(writeln!(out)?)
}

/// Prints the mode of the memory.
fn show_memory(gpu: &Gpu, out: &mut Text<'_>) -> Result {
    check_reset(gpu)?;
    Ok(match gpu.memory_partitions()? {
        Some(number @ (1..=4 | 6 | 8)) => writeln!(out, "NPS{number}")?,
        _ => writeln!(out, "UNKNOWN")?,
    })
}

/// Sets the compute partition mode. `EINVAL` for an unknown mode or one that the card does not
/// have, `EPERM` while the device hangs or is being reset, `EOPNOTSUPP` for another than SPX.
fn store_compute(gpu: &Gpu, text: &[u8]) -> Result {
    let mode = ComputePartition::parse(text).ok_or(EINVAL)?;
    if gpu.xccs().len() % 2 != 0 || !mode.is_available(gpu.xccs()) {
        return Err(EINVAL);
    }
    check_reset(gpu)?;
    match mode {
        ComputePartition::Spx => Ok(()),
        _ => Err(EOPNOTSUPP),
    }
}
