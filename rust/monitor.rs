// SPDX-License-Identifier: GPL-2.0

//! Files of a card in sysfs that tools for administrators read: memory, serial number, firmware
//! versions, load, IP blocks. Names and texts are those of the C driver (`amdgpu_vram_mgr.c`,
//! `amdgpu_gtt_mgr.c`, `amdgpu_ucode.c`, `amdgpu_pm.c`).

use core::fmt::Write;

use kernel::{prelude::*, sync::Arc};

use crate::{
    card::account,
    gpu::Gpu,
    hw::smu::Sensor,
    kapi::{
        device_file::DeviceFile,
        kobject::{Dir, File, Parent, Text},
    },
};

mod discovery;

/// The files. Dropping it removes them and waits for their readers.
pub(crate) struct Files {
    _facts: KVec<DeviceFile>,
    _firmware: Dir,
    _discovery: discovery::Tree,
}

/// A file: its name and its text.
type Fact = (&'static CStr, fn(&Gpu, &mut Text<'_>) -> Result);

/// Files of each card.
const MEMORY: [Fact; 6] = [
    (c"mem_info_vram_total", |gpu, out| {
        line(out, gpu.vram().size())
    }),
    (c"mem_info_vram_used", |gpu, out| {
        line(out, gpu.vram().used_or_reserved())
    }),
    (c"mem_info_vis_vram_total", |gpu, out| {
        line(out, gpu.vram().visible())
    }),
    (c"mem_info_vis_vram_used", |gpu, out| {
        line(out, gpu.vram().used_or_reserved().min(gpu.vram().visible()))
    }),
    (c"mem_info_gtt_total", |_, out| {
        line(out, account::gtt_limit())
    }),
    (c"mem_info_gtt_used", |gpu, out| line(out, gpu.gtt_used())),
];

/// Files of a card with an SMU.
const POWER: [Fact; 3] = [
    (c"unique_id", |gpu, out| {
        Ok(writeln!(out, "{:016x}", gpu.smu_facts().serial)?)
    }),
    (c"gpu_busy_percent", |gpu, out| {
        sensor(gpu, Sensor::Load, out)
    }),
    (c"mem_busy_percent", |gpu, out| {
        sensor(gpu, Sensor::MemoryLoad, out)
    }),
];

impl Files {
    /// Creates the files of a card. `ENOMEM` without memory.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let mut facts = KVec::new();
        let power: &[Fact] = if gpu.smu().is_some() { &POWER } else { &[] };
        for (name, show) in [&MEMORY[..], power].into_iter().flatten() {
            let (reader, show) = (gpu.clone(), *show);
            let show = move |out: &mut Text<'_>| show(&reader, out);
            facts.push(DeviceFile::new(gpu.dev(), name, show, None)?, GFP_KERNEL)?;
        }
        Ok(Self {
            _facts: facts,
            _firmware: firmware(gpu)?,
            _discovery: discovery::Tree::new(gpu)?,
        })
    }
}

/// Prints a number of bytes.
fn line(out: &mut Text<'_>, bytes: u64) -> Result {
    Ok(writeln!(out, "{bytes}")?)
}

/// Prints a sensor. `EBUSY` while the card hangs, is being reset or suspended, or an errno of the
/// response of the SMU.
fn sensor(gpu: &Gpu, sensor: Sensor, out: &mut Text<'_>) -> Result {
    gpu.check_usable().map_err(|_| EBUSY)?;
    let smu = gpu.smu().ok_or(EOPNOTSUPP)?;
    Ok(writeln!(out, "{}", smu.sensor(gpu.mmio()?, sensor)?)?)
}

/// Creates `fw_version`, with a file for each firmware that runs. `ENOMEM` without memory.
fn firmware(gpu: &Gpu) -> Result<Dir> {
    let versions = gpu.firmware_versions();
    let mut files = KVec::new();
    for (name, version) in [
        (c"rlc_fw_version", versions.rlc.version),
        (c"rlc_srlc_fw_version", versions.rlc_lists[0].version),
        (c"rlc_srlg_fw_version", versions.rlc_lists[1].version),
        (c"rlc_srls_fw_version", versions.rlc_lists[2].version),
        (c"mec_fw_version", versions.mec.version),
        // Both MECs have the same firmware.
        (c"mec2_fw_version", versions.mec.version),
        (c"sos_fw_version", versions.os),
        (c"asd_fw_version", versions.ta_driver),
        (c"smc_fw_version", gpu.smu_facts().version),
        (c"sdma_fw_version", versions.sdma.version),
        (
            c"sdma2_fw_version",
            if gpu.config().num_sdma > 1 {
                versions.sdma.version
            } else {
                0
            },
        ),
    ] {
        if version != 0 {
            let show = move |out: &mut Text<'_>| Ok(writeln!(out, "{version:#010x}")?);
            files.push(File::new(name, show)?, GFP_KERNEL)?;
        }
    }
    Dir::new(&Parent::Device(gpu.dev()), c"fw_version", files)
}
