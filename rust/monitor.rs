// SPDX-License-Identifier: GPL-2.0

//! Files of a card in sysfs that tools for administrators use: memory, board, product, serial
//! number, VBIOS, firmware versions, load, IP blocks; [`power`] has those of clocks and power,
//! [`policy`] those of the policies of the power firmware, [`smu`] others about it, [`resets`]
//! those about resets, [`isolation`] that about processes. Names and texts are those of the C
//! driver (`amdgpu_vram_mgr.c`, `amdgpu_gtt_mgr.c`, `amdgpu_ucode.c`, `amdgpu_pm.c`,
//! `amdgpu_atombios.c`, `amdgpu_device.c`, `amdgpu_fru_eeprom.c`).

use core::fmt::Write;

use kernel::{prelude::*, sync::Arc};

use crate::{
    asic::{fru::Product, vbios::Vbios},
    card::account,
    gpu::Gpu,
    hw::smu::{Clock, Sensor},
    kapi::{
        device_file::DeviceFile,
        hwmon::Hwmon,
        kobject::{Dir, File, Parent, Text},
    },
};

mod discovery;
mod file;
mod isolation;
mod policy;
mod power;
mod resets;
mod smu;

use file::{attribute, file, line, with_smu, Fact};

/// The files. Dropping it removes them and waits for their readers.
pub(crate) struct Files {
    _facts: KVec<DeviceFile>,
    _hwmon: Option<Hwmon>,
    _policies: Option<Dir>,
    _firmware: Dir,
    _discovery: discovery::Tree,
}

/// Files of each card.
const CARD: [Fact; 7] = [
    (c"board_info", |gpu, out| {
        Ok(writeln!(out, "type : {}", gpu.config().board)?)
    }),
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

/// Vendors of VRAM, by the number that the VBIOS leaves (`include/atombios.h`).
const VENDORS: [(u32, &str); 10] = [
    (1, "samsung"),
    (2, "infineon"),
    (3, "elpida"),
    (4, "etron"),
    (5, "nanya"),
    (6, "hynix"),
    (7, "mosel"),
    (8, "winbond"),
    (9, "esmt"),
    (15, "micron"),
];

/// The vendor of the VRAM, if it is known.
const VENDOR: Fact = (c"mem_info_vram_vendor", |gpu, out| {
    let number = gpu.config().vram_vendor;
    let found = VENDORS.iter().find(|vendor| vendor.0 == number);
    Ok(writeln!(
        out,
        "{}",
        found.map_or("unknown", |vendor| vendor.1)
    )?)
});

/// Part number of the VBIOS, if there is one.
const VBIOS_VERSION: Fact = (c"vbios_version", |gpu, out| {
    text(gpu.vbios().map(Vbios::part_number), out)
});

/// Build number of the VBIOS, if it has one.
const VBIOS_BUILD: Fact = (c"vbios_build", |gpu, out| {
    text(gpu.vbios().map(Vbios::build), out)
});

/// Files of a card with an SMU.
const POWER: [Fact; 4] = [
    // Empty as long as the SMU has not given it (`amdgpu_get_unique_id`).
    (c"unique_id", |gpu, out| match gpu.smu_facts().serial {
        0 => Ok(()),
        serial => Ok(writeln!(out, "{serial:016x}")?),
    }),
    (c"gpu_busy_percent", |gpu, out| {
        sensor(gpu, Sensor::Load, 1, out)
    }),
    (c"mem_busy_percent", |gpu, out| {
        sensor(gpu, Sensor::MemoryLoad, 1, out)
    }),
    (c"gpu_metrics", |gpu, out| {
        let metrics = with_smu(gpu, |smu, mmio| smu.user_metrics(mmio, None))?;
        out.push_bytes(&metrics)
    }),
];

/// Files of the hardware monitoring device: clocks in Hz, power in uW, temperatures in mC.
/// `temp1_input` would be the temperature of the edge, which the SMU does not have.
const SENSORS: [Fact; 10] = [
    (c"freq1_input", |gpu, out| {
        sensor(gpu, Sensor::Clock(Clock::Engine), 1_000_000, out)
    }),
    (c"freq1_label", |_, out| Ok(writeln!(out, "sclk")?)),
    (c"freq2_input", |gpu, out| {
        sensor(gpu, Sensor::Clock(Clock::Memory), 1_000_000, out)
    }),
    (c"freq2_label", |_, out| Ok(writeln!(out, "mclk")?)),
    (c"power1_input", |gpu, out| {
        sensor(gpu, Sensor::Power, 1000, out)
    }),
    (c"power1_label", |_, out| Ok(writeln!(out, "PPT")?)),
    (c"temp2_input", |gpu, out| {
        sensor(gpu, Sensor::Temperature, 1, out)
    }),
    (c"temp2_label", |_, out| Ok(writeln!(out, "junction")?)),
    (c"temp3_input", |gpu, out| {
        sensor(gpu, Sensor::MemoryTemperature, 1, out)
    }),
    (c"temp3_label", |_, out| Ok(writeln!(out, "mem")?)),
];

/// Product data of a board with a FRU EEPROM.
const PRODUCT: [Fact; 5] = [
    (c"product_name", |gpu, out| {
        text(gpu.product().map(Product::name), out)
    }),
    (c"product_number", |gpu, out| {
        text(gpu.product().map(Product::number), out)
    }),
    (c"serial_number", |gpu, out| {
        text(gpu.product().map(Product::serial), out)
    }),
    (c"fru_id", |gpu, out| {
        text(gpu.product().map(Product::id), out)
    }),
    (c"manufacturer", |gpu, out| {
        text(gpu.product().map(Product::manufacturer), out)
    }),
];

impl Files {
    /// Creates the files of a card. `ENOMEM` without memory.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let mut facts = KVec::new();
        for fact in [CARD.as_slice(), &resets::RESETS].into_iter().flatten() {
            facts.push(file(gpu, fact, None)?, GFP_KERNEL)?;
        }
        let (fact, action) = &isolation::ISOLATION;
        facts.push(file(gpu, fact, Some(*action))?, GFP_KERNEL)?;
        if gpu.config().vram_vendor != 0 {
            facts.push(file(gpu, &VENDOR, None)?, GFP_KERNEL)?;
        }
        if let Some(vbios) = gpu.vbios() {
            facts.push(file(gpu, &VBIOS_VERSION, None)?, GFP_KERNEL)?;
            if !vbios.build().is_empty() {
                facts.push(file(gpu, &VBIOS_BUILD, None)?, GFP_KERNEL)?;
            }
        }
        if gpu.product().is_some() {
            for fact in &PRODUCT {
                facts.push(file(gpu, fact, None)?, GFP_KERNEL)?;
            }
        }
        let (mut hwmon, mut policies) = (None, None);
        if gpu.smu().is_some() {
            for fact in &POWER {
                facts.push(file(gpu, fact, None)?, GFP_KERNEL)?;
            }
            for fact in [&smu::FEATURES, &smu::METRICS] {
                facts.push(file(gpu, fact, None)?, GFP_KERNEL)?;
            }
            for (fact, action) in [power::DEVICE.as_slice(), &[smu::THROTTLING]]
                .into_iter()
                .flatten()
            {
                facts.push(file(gpu, fact, Some(*action))?, GFP_KERNEL)?;
            }
            let mut sensors = KVec::new();
            for fact in [SENSORS.as_slice(), &power::LIMITS].into_iter().flatten() {
                sensors.push(attribute(gpu, fact, None)?, GFP_KERNEL)?;
            }
            let (fact, action) = &power::CAP;
            sensors.push(attribute(gpu, fact, Some(*action))?, GFP_KERNEL)?;
            // The name by which tools find it.
            hwmon = Some(Hwmon::new(gpu.dev(), c"amdgpu", sensors)?);
            policies = policy::dir(gpu)?;
        }
        Ok(Self {
            _facts: facts,
            _hwmon: hwmon,
            _policies: policies,
            _firmware: firmware(gpu)?,
            _discovery: discovery::Tree::new(gpu)?,
        })
    }
}

/// Prints a text of the VBIOS or the FRU EEPROM.
fn text(text: Option<&[u8]>, out: &mut Text<'_>) -> Result {
    out.push_bytes(text.unwrap_or_default())?;
    Ok(writeln!(out)?)
}

/// Prints a sensor times `unit`. `EBUSY` while the card hangs, is being reset or suspended, or an
/// errno of the response of the SMU.
fn sensor(gpu: &Gpu, sensor: Sensor, unit: u64, out: &mut Text<'_>) -> Result {
    let value = with_smu(gpu, |smu, mmio| smu.sensor(mmio, sensor))?;
    line(out, u64::from(value) * unit)
}

/// Creates `fw_version`, with a file for each firmware that runs. `ENOMEM` without memory.
fn firmware(gpu: &Gpu) -> Result<Dir> {
    let versions = gpu.firmware_versions();
    let mes = gpu.mes_version().scheduler;
    let mut files = KVec::new();
    for (name, version) in [
        (c"rlc_fw_version", versions.rlc.version),
        (c"rlc_srlc_fw_version", versions.rlc_lists[0].version),
        (c"rlc_srlg_fw_version", versions.rlc_lists[1].version),
        (c"rlc_srls_fw_version", versions.rlc_lists[2].version),
        (c"mec_fw_version", versions.mec.version),
        (c"mec2_fw_version", versions.mec2.version),
        (c"pfp_fw_version", versions.pfp.version),
        (c"me_fw_version", versions.me.version),
        (c"imu_fw_version", versions.imu),
        (c"mes_fw_version", mes),
        (c"mes_kiq_fw_version", mes),
        (c"ta_xgmi_fw_version", versions.ta_xgmi),
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
