// SPDX-License-Identifier: GPL-2.0

//! PSP 13.0.6: firmware files, boot chain.

use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    firmware::{gfx_v1_0, p2s_table, psp_type, sdma_v1_0, smc_v2_1, soft_pptable, ta_type},
    psp::{self, bootloader, fw_type},
};

use super::{sdma::PER_AID, smu};
use crate::{
    asic::{
        firmware::{Bad, FirmwareFile, Image, Refusal, Why},
        mmio::{Block, Mmio},
    },
    hw::psp::{
        parts::{application, boot_parts, part, release, rlc_lists, rlc_releases, steps, BootStep},
        wait_ready, FirmwarePlan, FirmwareVersions, Part, PspVersion,
    },
};

pub(super) struct Psp;

/// File names, in the order of [`FILES`].
pub(super) const PATHS: [&str; 6] = [
    "amdgpu/psp_13_0_6_sos.bin",
    "amdgpu/psp_13_0_6_ta.bin",
    "amdgpu/gc_9_4_3_rlc.bin",
    "amdgpu/gc_9_4_3_mec.bin",
    "amdgpu/sdma_4_4_2.bin",
    "amdgpu/smu_13_0_6.bin",
];
const SOS: usize = 0;
const TA: usize = 1;
const RLC: usize = 2;
const MEC: usize = 3;
const SDMA: usize = 4;
const SMU: usize = 5;

static FILES: [FirmwareFile; 6] = [
    FirmwareFile::new(PATHS[SOS], 2, 0..=1, (13, 0)),
    FirmwareFile::new(PATHS[TA], 2, 0..=0, (13, 0)),
    FirmwareFile::new(PATHS[RLC], 2, 1..=5, (9, 4)),
    FirmwareFile::new(PATHS[MEC], 1, 0..=0, (9, 4)),
    FirmwareFile::new(PATHS[SDMA], 1, 0..=1, (4, 4)),
    FirmwareFile::new(PATHS[SMU], 2, 1..=1, (13, 0)),
];

/// Boot chain in order. No file of 13.0.6 has patch levels (SPL), for which `psp_v13_0.c` passes
/// the key database again.
const BOOT: &[BootStep] = &[
    steps::KEY_DATABASE,
    steps::SYSTEM_DRIVER,
    steps::CHIP_DRIVER,
    steps::INTERFACE_DRIVER,
    (
        psp_type::DBG_DRV,
        bootloader::LOAD_DBGDRV,
        "debug driver",
        false,
    ),
    steps::RAS_DRIVER,
    (
        psp_type::SPDM_DRV,
        bootloader::LOAD_SPDMDRV,
        "security protocol driver",
        false,
    ),
    steps::SECURE_OS,
];

/// First version of the secure OS that takes a P2S table (`psp_load_p2s_table`, `amdgpu_psp.c`).
const P2S_OS: u32 = 0x0036_003c;

/// Minimum duration of a mode-1 reset (`SMU13_MODE1_RESET_WAIT_TIME_IN_MS`).
const RESET: Delta = Delta::from_millis(500);

/// Collects the engine firmware, in the order of C's `enum AMDGPU_UCODE_ID`.
fn engine_parts(images: &[Image<'_>; 6], sdma: u32, list: &mut KVec<Part>) -> Result<(), Refusal> {
    let mut push = |part| list.push(part, GFP_KERNEL);
    let image = &images[SDMA];
    // All AIDs load the same firmware, once per engine number.
    for engine in 0..sdma.min(PER_AID.into()) {
        let code = psp::sdma_fw_type(engine).unwrap_or(fw_type::SDMA0);
        let place = image.payload()?;
        push(part(image, SDMA, "DMA engine", code, true, place)?)?;
    }

    let image = &images[MEC];
    let (at, len) = image.payload()?;
    let table = image.word(gfx_v1_0::JT_SIZE)?.saturating_mul(4);
    let code = len
        .checked_sub(table)
        .ok_or_else(|| image.bad(Why::NoPart("jump table")))?;
    let name = "compute engine";
    push(part(image, MEC, name, fw_type::CP_MEC, true, (at, code))?)?;
    let offset = image.word(gfx_v1_0::JT_OFFSET)?.saturating_mul(4);
    let place = (at.saturating_add(offset), table);
    let name = "jump table";
    push(part(image, MEC, name, fw_type::CP_MEC_ME1, true, place)?)?;

    let image = &images[RLC];
    rlc_lists(image, RLC, list)?;
    let place = image.payload()?;
    let name = "run list controller";
    let part = part(image, RLC, name, fw_type::RLC_G, true, place)?;
    Ok(list.push(part, GFP_KERNEL)?)
}

/// Returns the P2S table of the card with PCI device id `device`
/// (`smu_v13_0_6_init_microcode`, `smu_v13_0_6_ppt.c`); `None` when the file has none.
fn p2s_part(image: &Image<'_>, device: u16) -> Result<Option<Part>, Bad> {
    let id = match device & 0xf {
        5 => p2s_table::THREE,
        _ => p2s_table::X,
    };
    let count = image.word(smc_v2_1::PPTABLE_COUNT)?;
    let first = image.word(smc_v2_1::PPTABLE_ENTRY_OFFSET)?;
    for index in 0..count {
        let entry = first.saturating_add(index.saturating_mul(soft_pptable::SIZE));
        image.slice(entry, soft_pptable::SIZE)?;
        if image.word(entry + soft_pptable::ID)? != id as usize {
            continue;
        }
        let place = (
            image.word(entry + soft_pptable::PPT_OFFSET_BYTES)?,
            image.word(entry + soft_pptable::PPT_SIZE_BYTES)?,
        );
        let code = fw_type::P2S_TABLE;
        return part(image, SMU, "P2S table", code, false, place).map(Some);
    }
    Ok(None)
}

/// Reads the versions of the engine files.
fn releases(images: &[Image<'_>; 6], versions: &mut FirmwareVersions) -> Result<(), Bad> {
    versions.mec = release(&images[MEC], gfx_v1_0::UCODE_FEATURE_VERSION)?;
    versions.mec2 = versions.mec;
    versions.sdma = release(&images[SDMA], sdma_v1_0::UCODE_FEATURE_VERSION)?;
    rlc_releases(&images[RLC], versions)
}

impl PspVersion for Psp {
    const FILES: &'static [FirmwareFile] = &FILES;
    // `psp_v13_0_is_reload_needed`.
    const REPLACES: bool = true;
    // Bits 7:0 are an error code (`psp_v13_0_wait_for_bootloader`).
    const BOOTLOADER_MASK: u32 = u32::MAX;
    // 3,000 times 100 ms (`PSP_VMBX_POLLING_LIMIT`): firmware may test all memory after a reset.
    const BOOT_TIMEOUT_S: i64 = 300;

    fn plan(
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
        device: u16,
    ) -> Result<FirmwarePlan, Refusal> {
        let images: &[Image<'_>; 6] = images.try_into().map_err(|_| EINVAL)?;
        let smu = smu::version(mmio)?;
        let mut plan = FirmwarePlan::default();
        let second = smu < psp::SMU_VERSION_NO_AUX;
        boot_parts(&images[SOS], SOS, BOOT, second, &mut plan)?;
        if plan.versions.os >= P2S_OS {
            if let Some(part) = p2s_part(&images[SMU], device)? {
                plan.engines.push(part, GFP_KERNEL)?;
            }
        }
        engine_parts(images, sdma, &mut plan.engines)?;
        let ta = &images[TA];
        let name = "driver of trusted applications";
        if let Some((part, version)) = application(ta, TA, ta_type::ASD, name)? {
            plan.driver = Some(part);
            plan.versions.ta_driver = version;
        }
        let name = "xGMI application";
        if let Some((part, version)) = application(ta, TA, ta_type::XGMI, name)? {
            plan.xgmi = Some(part);
            plan.versions.ta_xgmi = version;
        }
        releases(images, &mut plan.versions)?;
        Ok(plan)
    }

    fn wait_bootloader(b: Block<'_>) -> Result {
        // Only a warning in the C driver, too (`psp_v13_0_wait_for_bootloader_steady_state`), which
        // waits for a register without other bits.
        if let Err(e) = wait_ready::<Self, _>(b, psp::MAILBOX, psp::READY) {
            dev_warn!(
                b.dev(),
                "the mailbox of the boot loader is not ready: {e:?}\n"
            );
        }
        wait_ready::<Self, _>(b, psp::BOOTLOADER, Self::BOOTLOADER_MASK)
    }

    fn mode1_reset(mmio: &Mmio) -> Result {
        smu::mode1_reset(mmio)?;
        fsleep(RESET);
        Ok(())
    }
}
