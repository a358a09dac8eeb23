// SPDX-License-Identifier: GPL-2.0

//! PSP 14.0.3: firmware files, boot chain. Once the PSP has loaded all firmware of the graphics
//! core, the RLC loads the engines (autoload).

use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    bits::join,
    firmware::{gfx_v2_0, imu_v1_0, mes_v1_0, psp_type, rlc_v2_2, sdma_v3_0},
    psp::{self, bootloader, fw_type},
};

use super::smu;
use crate::{
    asic::{
        config::EntryPoints,
        firmware::{Bad, FirmwareFile, Image, Refusal},
        mmio::{Block, Mmio},
    },
    hw::psp::{
        parts::{
            boot_parts, firmware_list, part, release, rlc_lists, rlc_releases, steps, BootStep,
        },
        wait_ready, FirmwarePlan, FirmwareVersions, Part, PspVersion,
    },
};

pub(super) struct Psp;

/// File names, in the order of [`FILES`].
pub(super) const PATHS: [&str; 9] = [
    "amdgpu/psp_14_0_3_sos.bin",
    "amdgpu/smu_14_0_3.bin",
    "amdgpu/sdma_7_0_1.bin",
    "amdgpu/gc_12_0_1_pfp.bin",
    "amdgpu/gc_12_0_1_me.bin",
    "amdgpu/gc_12_0_1_mec.bin",
    "amdgpu/gc_12_0_1_uni_mes.bin",
    "amdgpu/gc_12_0_1_imu.bin",
    "amdgpu/gc_12_0_1_rlc.bin",
];
const SOS: usize = 0;
const SMU: usize = 1;
const SDMA: usize = 2;
const PFP: usize = 3;
const ME: usize = 4;
const MEC: usize = 5;
const MES: usize = 6;
const IMU: usize = 7;
const RLC: usize = 8;

static FILES: [FirmwareFile; 9] = [
    FirmwareFile::new(PATHS[SOS], 2, 0..=0, (14, 0)),
    FirmwareFile::new(PATHS[SMU], 2, 0..=0, (14, 0)),
    FirmwareFile::new(PATHS[SDMA], 3, 0..=0, (7, 0)),
    FirmwareFile::new(PATHS[PFP], 2, 0..=0, (12, 0)),
    FirmwareFile::new(PATHS[ME], 2, 0..=0, (12, 0)),
    FirmwareFile::new(PATHS[MEC], 2, 0..=0, (12, 0)),
    FirmwareFile::new(PATHS[MES], 1, 0..=0, (12, 0)),
    FirmwareFile::new(PATHS[IMU], 1, 0..=0, (12, 0)),
    FirmwareFile::new(PATHS[RLC], 2, 2..=2, (12, 0)),
];

/// Boot chain in order (`psp_hw_start`).
const BOOT: &[BootStep] = &[
    steps::KEY_DATABASE,
    (
        psp_type::SPL,
        bootloader::LOAD_TOS_SPL_TABLE,
        "security patch levels",
        false,
    ),
    steps::SYSTEM_DRIVER,
    steps::CHIP_DRIVER,
    steps::INTERFACE_DRIVER,
    // The place of the debug driver, `PSP_BL__LOAD_HADDRV`.
    (
        psp_type::DBG_DRV,
        bootloader::LOAD_DBGDRV,
        "HAD driver",
        false,
    ),
    steps::RAS_DRIVER,
    steps::KEY_MANAGER,
    steps::SECURE_OS,
];

/// Duration of a mode-1 reset (`smu_v14_0_2_mode1_reset`).
const RESET: Delta = Delta::from_millis(1000);

/// Collects the engine firmware, in the order of C's `enum AMDGPU_UCODE_ID` but for that of the
/// SMU, which is first (`psp_load_non_psp_fw`). The RLC's own is last.
fn engine_parts(images: &[Image<'_>; 9], list: &mut KVec<Part>) -> Result<(), Refusal> {
    let add = |list: &mut KVec<Part>, file: usize, name, code, place| -> Result<(), Refusal> {
        let part = part(&images[file], file, name, code, true, place)?;
        Ok(list.push(part, GFP_KERNEL)?)
    };
    // The payload is at the offset of the common header, whatever the offset of the header of the
    // kind (`amdgpu_ucode_init_single_fw`).
    let code = |file: usize, size| -> Result<_, Bad> {
        Ok((images[file].payload()?.0, images[file].word(size)?))
    };
    let place = |file: usize, (at, size)| -> Result<_, Bad> {
        Ok((images[file].word(at)?, images[file].word(size)?))
    };

    let place_of_smu = images[SMU].payload()?;
    add(list, SMU, "SMU", fw_type::SMU, place_of_smu)?;
    let sdma = code(SDMA, sdma_v3_0::UCODE_SIZE_BYTES)?;
    add(list, SDMA, "DMA engine", fw_type::SDMA_UCODE_TH0, sdma)?;
    for (file, name, kind) in [
        (PFP, "prefetch parser", fw_type::RS64_PFP),
        (ME, "micro engine", fw_type::RS64_ME),
        (MEC, "compute engine", fw_type::RS64_MEC),
    ] {
        let code = code(file, gfx_v2_0::UCODE_SIZE_BYTES)?;
        add(list, file, name, kind, code)?;
    }
    let data = (gfx_v2_0::DATA_OFFSET_BYTES, gfx_v2_0::DATA_SIZE_BYTES);
    for (file, name, kind) in [
        (PFP, "prefetch parser's data", fw_type::RS64_PFP_P0_STACK),
        (ME, "micro engine's data", fw_type::RS64_ME_P0_STACK),
        (MEC, "compute engine's data", fw_type::RS64_MEC_P0_STACK),
        (MEC, "compute engine's data", fw_type::RS64_MEC_P1_STACK),
    ] {
        add(list, file, name, kind, place(file, data)?)?;
    }
    let text = (
        mes_v1_0::MES_UCODE_OFFSET_BYTES,
        mes_v1_0::MES_UCODE_SIZE_BYTES,
    );
    let data = (
        mes_v1_0::MES_UCODE_DATA_OFFSET_BYTES,
        mes_v1_0::MES_UCODE_DATA_SIZE_BYTES,
    );
    // Both pipes of MES have the same firmware.
    for (name, kind, at) in [
        ("scheduler", fw_type::CP_MES, text),
        ("scheduler's data", fw_type::MES_STACK, data),
        ("scheduler", fw_type::CP_MES_KIQ, text),
        ("scheduler's data", fw_type::MES_KIQ_STACK, data),
    ] {
        add(list, MES, name, kind, place(MES, at)?)?;
    }
    let (at, len) = code(IMU, imu_v1_0::IMU_IRAM_UCODE_SIZE_BYTES)?;
    add(list, IMU, "IMU code", fw_type::IMU_I, (at, len))?;
    let size = images[IMU].word(imu_v1_0::IMU_DRAM_UCODE_SIZE_BYTES)?;
    let data = (at.saturating_add(len), size);
    add(list, IMU, "IMU data", fw_type::IMU_D, data)?;

    rlc_lists(&images[RLC], RLC, list)?;
    for (name, kind, at, size) in [
        (
            "RLC code",
            fw_type::RLC_IRAM,
            rlc_v2_2::RLC_IRAM_UCODE_OFFSET_BYTES,
            rlc_v2_2::RLC_IRAM_UCODE_SIZE_BYTES,
        ),
        (
            "RLC data",
            fw_type::RLC_DRAM_BOOT,
            rlc_v2_2::RLC_DRAM_UCODE_OFFSET_BYTES,
            rlc_v2_2::RLC_DRAM_UCODE_SIZE_BYTES,
        ),
    ] {
        add(list, RLC, name, kind, place(RLC, (at, size))?)?;
    }
    let own = images[RLC].payload()?;
    add(list, RLC, "run list controller", fw_type::RLC_G, own)
}

/// Reads the versions of the engine files.
fn releases(images: &[Image<'_>; 9], versions: &mut FirmwareVersions) -> Result<(), Bad> {
    versions.mec = release(&images[MEC], gfx_v2_0::UCODE_FEATURE_VERSION)?;
    versions.pfp = release(&images[PFP], gfx_v2_0::UCODE_FEATURE_VERSION)?;
    versions.me = release(&images[ME], gfx_v2_0::UCODE_FEATURE_VERSION)?;
    versions.imu = images[IMU].version()?;
    versions.sdma = release(&images[SDMA], sdma_v3_0::UCODE_FEATURE_VERSION)?;
    rlc_releases(&images[RLC], versions)
}

/// Reads the entry points of the engines that the driver starts.
fn entry_points(images: &[Image<'_>; 9]) -> Result<EntryPoints, Bad> {
    let address = |file: usize, low, high| -> Result<u64, Bad> {
        let image = &images[file];
        Ok(join(image.word(low)? as u32, image.word(high)? as u32))
    };
    Ok(EntryPoints {
        mec: address(
            MEC,
            gfx_v2_0::UCODE_START_ADDR_LO,
            gfx_v2_0::UCODE_START_ADDR_HI,
        )?,
        mes: address(
            MES,
            mes_v1_0::MES_UC_START_ADDR_LO,
            mes_v1_0::MES_UC_START_ADDR_HI,
        )?,
    })
}

impl PspVersion for Psp {
    const FILES: &'static [FirmwareFile] = &FILES;
    const AUTOLOAD: bool = true;
    const BOOTLOADER_MASK: u32 = psp::READY;
    // The C driver waits 10 times 100 ms (`psp_v14_0_wait_for_bootloader`).
    const BOOT_TIMEOUT_S: i64 = 30;
    // `psp_update_fw_reservation`.
    const MEMORY_SINCE: Option<u32> = Some(0x3a_0e14);

    fn plan(
        _mmio: &Mmio,
        images: &[Image<'_>],
        _sdma: u32,
        _device: u16,
    ) -> Result<FirmwarePlan, Refusal> {
        let images: &[Image<'_>; 9] = images.try_into().map_err(|_| EINVAL)?;
        let mut plan = FirmwarePlan::default();
        boot_parts(&images[SOS], SOS, BOOT, false, &mut plan)?;
        engine_parts(images, &mut plan.engines)?;
        plan.list = firmware_list(&images[SOS], SOS)?;
        plan.entries = entry_points(images)?;
        releases(images, &mut plan.versions)?;
        Ok(plan)
    }

    fn wait_bootloader(b: Block<'_>) -> Result {
        wait_ready::<Self, _>(b, psp::BOOTLOADER, Self::BOOTLOADER_MASK)
    }

    fn mode1_reset(mmio: &Mmio) -> Result {
        smu::mode1_reset(mmio)?;
        fsleep(RESET);
        Ok(())
    }
}
