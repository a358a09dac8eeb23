// SPDX-License-Identifier: GPL-2.0

//! PSP 13.0.6: firmware files, boot chain, mailboxes.

use kernel::{
    io::poll::read_poll_timeout,
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    bits::{hi32, lo32},
    discovery::hwid,
    firmware::{bin_desc, gfx_v1_0, psp_type, psp_v2_0, psp_v2_1, rlc_v2_0, rlc_v2_1},
    firmware::{common, sdma_v1_0, ta_type, ta_v2_0, MAX_BINS},
    firmware::{p2s_table, smc_v2_1, soft_pptable},
    psp::{self, bootloader, control, fw_type},
    regs::{Reg, Value},
};

use super::{sdma::PER_AID, smu};
use crate::{
    asic::{
        firmware::{Bad, FirmwareFile, Image, Why},
        mmio::{Block, Mmio},
    },
    hw::psp::{FirmwarePlan, FirmwareVersions, MailboxResult, Part, PspHal, Release},
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
    FirmwareFile {
        path: PATHS[SOS],
        header_major: 2,
        header_minor: 0..=1,
        ip: (13, 0),
    },
    FirmwareFile {
        path: PATHS[TA],
        header_major: 2,
        header_minor: 0..=0,
        ip: (13, 0),
    },
    FirmwareFile {
        path: PATHS[RLC],
        header_major: 2,
        header_minor: 1..=5,
        ip: (9, 4),
    },
    FirmwareFile {
        path: PATHS[MEC],
        header_major: 1,
        header_minor: 0..=0,
        ip: (9, 4),
    },
    FirmwareFile {
        path: PATHS[SDMA],
        header_major: 1,
        header_minor: 0..=1,
        ip: (4, 4),
    },
    FirmwareFile {
        path: PATHS[SMU],
        header_major: 2,
        header_minor: 1..=1,
        ip: (13, 0),
    },
];

/// Boot chain in order: type of the part, command, name, whether it is required.
const BOOT: &[(u32, u32, &str, bool)] = &[
    (
        psp_type::KDB,
        bootloader::LOAD_KEY_DATABASE,
        "key database",
        true,
    ),
    (
        psp_type::SYS_DRV,
        bootloader::LOAD_SYSDRV,
        "system driver",
        true,
    ),
    (
        psp_type::SOC_DRV,
        bootloader::LOAD_SOCDRV,
        "chip driver",
        false,
    ),
    (
        psp_type::INTF_DRV,
        bootloader::LOAD_INTFDRV,
        "interface driver",
        false,
    ),
    (
        psp_type::DBG_DRV,
        bootloader::LOAD_DBGDRV,
        "debug driver",
        false,
    ),
    (
        psp_type::RAS_DRV,
        bootloader::LOAD_RASDRV,
        "error protection driver",
        false,
    ),
    (
        psp_type::IPKEYMGR_DRV,
        bootloader::LOAD_IPKEYMGRDRV,
        "key manager",
        false,
    ),
    (
        psp_type::SPDM_DRV,
        bootloader::LOAD_SPDMDRV,
        "security protocol driver",
        false,
    ),
    (
        psp_type::SOS,
        bootloader::LOAD_SOSDRV,
        "secure operating system",
        true,
    ),
];

/// First version of the secure OS that takes a P2S table (`psp_load_p2s_table`, `amdgpu_psp.c`).
const P2S_OS: u32 = 0x0036_003c;

/// Boot loader timeout: a tenth of C's 3000 times 100 ms (`psp_v13_0_wait_for_bootloader`).
const BOOT_TIMEOUT: Delta = Delta::from_millis(30_000);
/// Timeout of the secure OS mailbox.
const MAILBOX_TIMEOUT: Delta = Delta::from_millis(2_000);
/// Delay between a command and polling its mailbox (`mdelay(20)`, `psp_v13_0.c`).
const SETTLE: Delta = Delta::from_millis(20);
/// Minimum duration of a mode-1 reset (`SMU13_MODE1_RESET_WAIT_TIME_IN_MS`).
const RESET: Delta = Delta::from_millis(500);

fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::MP0, 0)
}

fn wait<R>(b: Block<'_>, reg: Reg<R>, timeout: Delta, done: impl Fn(u32) -> bool) -> Result<u32> {
    read_poll_timeout(
        || b.rd(reg).map(Value::raw),
        |v| done(*v),
        Delta::from_micros(100),
        timeout,
    )
}

/// Waits for the secure OS mailbox and returns its status. `ETIMEDOUT` when it does not respond.
fn response(b: Block<'_>) -> Result<MailboxResult> {
    fsleep(SETTLE);
    let value = wait(b, psp::COMMAND, MAILBOX_TIMEOUT, |v| {
        v & psp::READY != 0 && v != u32::MAX
    })?;
    Ok(match psp::STATUS.get(value) {
        0 => Ok(()),
        status => Err(status),
    })
}

/// Sends a boot loader command. `EINVAL` for a misaligned address, `ETIMEDOUT` when the boot loader
/// is not ready.
fn boot_command(b: Block<'_>, command: u32, address: u64) -> Result {
    let units = u32::try_from(address >> psp::BOOTLOADER_ADDRESS_SHIFT)?;
    if u64::from(units) << psp::BOOTLOADER_ADDRESS_SHIFT != address {
        return Err(EINVAL);
    }
    wait(b, psp::BOOTLOADER, BOOT_TIMEOUT, |v| v == psp::READY)?;
    b.wr(psp::BOOTLOADER_ADDRESS, units)?;
    b.wr(psp::BOOTLOADER, command)
}

/// A descriptor of a packed file (`struct psp_fw_bin_desc`).
struct Bin {
    kind: u32,
    version: u32,
    at: usize,
    len: usize,
}

fn bin(image: &Image<'_>, bins: usize, index: usize) -> Result<Bin, Bad> {
    let at = bins + index * bin_desc::SIZE;
    Ok(Bin {
        kind: image.word(at + bin_desc::FW_TYPE)? as u32,
        version: image.word(at + bin_desc::FW_VERSION)? as u32,
        at: image
            .payload()?
            .0
            .saturating_add(image.word(at + bin_desc::OFFSET_BYTES)?),
        len: image.word(at + bin_desc::SIZE_BYTES)?,
    })
}

/// Returns the last descriptor of a kind.
fn find(
    image: &Image<'_>,
    bins: usize,
    range: core::ops::Range<usize>,
    kind: u32,
) -> Result<Option<Bin>, Bad> {
    let mut found = None;
    for index in range {
        let bin = bin(image, bins, index)?;
        if bin.kind == kind && bin.len > 0 {
            found = Some(bin);
        }
    }
    Ok(found)
}

fn part(
    image: &Image<'_>,
    file: usize,
    name: &'static str,
    code: u32,
    needed: bool,
    (at, len): (usize, usize),
) -> Result<Part, Bad> {
    image.check_signed(name, at, len)?;
    if len as u64 > psp::TRANSFER_SIZE {
        return Err(image.bad(Why::NoPart(name)));
    }
    Ok(Part {
        name,
        file,
        at,
        len,
        code,
        needed,
    })
}

/// Returns the boot set of this card, in a file with sets for two generations of SMU firmware.
fn boot_set(image: &Image<'_>, second: bool) -> Result<(usize, core::ops::Range<usize>), Bad> {
    let minor = image.word(common::HEADER_VERSION_MAJOR)? >> 16;
    let (count, bins) = match minor {
        0 => (image.word(psp_v2_0::BIN_COUNT)?, psp_v2_0::BINS),
        _ => (image.word(psp_v2_1::BIN_COUNT)?, psp_v2_1::BINS),
    };
    if count >= MAX_BINS {
        return Err(image.bad(Why::NoPart("list of parts that is not too long")));
    }
    if minor == 0 {
        return Ok((bins, 0..count));
    }
    let aux = image.word(psp_v2_1::AUX_BIN_INDEX)?;
    if aux > count {
        return Err(image.bad(Why::NoPart("second set of parts")));
    }
    // As in C (`psp_init_sos_microcode`): the first set is as long as the rest after the second.
    Ok((bins, if second { aux..count } else { 0..count - aux }))
}

fn boot_parts(image: &Image<'_>, second: bool, plan: &mut FirmwarePlan) -> Result<Result<(), Bad>> {
    let (bins, set) = match boot_set(image, second) {
        Ok(set) => set,
        Err(bad) => return Ok(Err(bad)),
    };
    for &(kind, command, name, needed) in BOOT {
        let found = find(image, bins, set.clone(), kind).and_then(|bin| match bin {
            Some(bin) => {
                if kind == psp_type::SOS {
                    plan.versions.os = bin.version;
                }
                part(image, SOS, name, command, true, (bin.at, bin.len)).map(Some)
            }
            None if needed => Err(image.bad(Why::NoPart(name))),
            None => Ok(None),
        });
        match found {
            Ok(Some(part)) => plan.boot.push(part, GFP_KERNEL)?,
            Ok(None) => {}
            Err(bad) => return Ok(Err(bad)),
        }
    }
    let registers = find(image, bins, set, psp_type::RL).and_then(|bin| {
        bin.map(|bin| {
            let place = (bin.at, bin.len);
            let name = "list of protected registers";
            part(image, SOS, name, fw_type::REG_LIST, false, place)
        })
        .transpose()
    });
    match registers {
        Ok(Some(part)) => plan.late.push(part, GFP_KERNEL)?,
        Ok(None) => {}
        Err(bad) => return Ok(Err(bad)),
    }
    Ok(Ok(()))
}

/// Collects the engine firmware, in the order of C's `enum AMDGPU_UCODE_ID`.
fn engine_parts(
    images: &[Image<'_>; 6],
    sdma: u32,
    mut push: impl FnMut(Part) -> Result<(), Bad>,
) -> Result<(), Bad> {
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
    image.slice(0, rlc_v2_1::SIZE)?;
    for (name, code, size, offset) in [
        (
            "control list",
            fw_type::RLC_RESTORE_LIST_SRM_CNTL,
            rlc_v2_1::SAVE_RESTORE_LIST_CNTL_SIZE_BYTES,
            rlc_v2_1::SAVE_RESTORE_LIST_CNTL_OFFSET_BYTES,
        ),
        (
            "code list",
            fw_type::RLC_RESTORE_LIST_GPM_MEM,
            rlc_v2_1::SAVE_RESTORE_LIST_GPM_SIZE_BYTES,
            rlc_v2_1::SAVE_RESTORE_LIST_GPM_OFFSET_BYTES,
        ),
        (
            "memory list",
            fw_type::RLC_RESTORE_LIST_SRM_MEM,
            rlc_v2_1::SAVE_RESTORE_LIST_SRM_SIZE_BYTES,
            rlc_v2_1::SAVE_RESTORE_LIST_SRM_OFFSET_BYTES,
        ),
    ] {
        let place = (image.word(offset)?, image.word(size)?);
        if place.1 > 0 {
            push(part(image, RLC, name, code, false, place)?)?;
        }
    }
    let place = image.payload()?;
    let name = "run list controller";
    push(part(image, RLC, name, fw_type::RLC_G, true, place)?)
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

/// Returns version and feature version of an engine's file; the header has the latter at byte
/// `feature`.
fn release(image: &Image<'_>, feature: usize) -> Result<Release, Bad> {
    Ok(Release {
        version: image.version()?,
        feature: image.word(feature)? as u32,
    })
}

/// Reads the versions of the engine files.
fn releases(images: &[Image<'_>; 6], versions: &mut FirmwareVersions) -> Result<(), Bad> {
    versions.mec = release(&images[MEC], gfx_v1_0::UCODE_FEATURE_VERSION)?;
    versions.sdma = release(&images[SDMA], sdma_v1_0::UCODE_FEATURE_VERSION)?;
    let rlc = &images[RLC];
    versions.rlc = release(rlc, rlc_v2_0::UCODE_FEATURE_VERSION)?;
    for (list, version, feature) in [
        (
            0,
            rlc_v2_1::SAVE_RESTORE_LIST_CNTL_UCODE_VER,
            rlc_v2_1::SAVE_RESTORE_LIST_CNTL_FEATURE_VER,
        ),
        (
            1,
            rlc_v2_1::SAVE_RESTORE_LIST_GPM_UCODE_VER,
            rlc_v2_1::SAVE_RESTORE_LIST_GPM_FEATURE_VER,
        ),
        (
            2,
            rlc_v2_1::SAVE_RESTORE_LIST_SRM_UCODE_VER,
            rlc_v2_1::SAVE_RESTORE_LIST_SRM_FEATURE_VER,
        ),
    ] {
        versions.rlc_lists[list] = Release {
            version: rlc.word(version)? as u32,
            feature: rlc.word(feature)? as u32,
        };
    }
    Ok(())
}

/// Returns the trusted application of a type, and its version.
fn application(
    image: &Image<'_>,
    kind: u32,
    name: &'static str,
) -> Result<Option<(Part, u32)>, Bad> {
    let count = image.word(ta_v2_0::BIN_COUNT)?;
    if count >= MAX_BINS {
        return Err(image.bad(Why::NoPart("list of parts that is not too long")));
    }
    find(image, ta_v2_0::BINS, 0..count, kind)?
        .map(|bin| {
            let part = part(image, TA, name, 0, false, (bin.at, bin.len))?;
            Ok((part, bin.version))
        })
        .transpose()
}

impl PspHal for Psp {
    fn files(&self) -> &'static [FirmwareFile] {
        &FILES
    }

    fn plan(
        &self,
        mmio: &Mmio,
        images: &[Image<'_>],
        sdma: u32,
        device: u16,
    ) -> Result<Result<FirmwarePlan, Bad>> {
        let images: &[Image<'_>; 6] = images.try_into().map_err(|_| EINVAL)?;
        let smu = smu::version(mmio)?;
        let mut plan = FirmwarePlan {
            boot: KVec::new(),
            engines: KVec::new(),
            driver: None,
            xgmi: None,
            late: KVec::new(),
            versions: FirmwareVersions::default(),
        };
        if let Err(bad) = boot_parts(&images[SOS], smu < psp::SMU_VERSION_NO_AUX, &mut plan)? {
            return Ok(Err(bad));
        }
        if plan.versions.os >= P2S_OS {
            match p2s_part(&images[SMU], device) {
                Ok(Some(part)) => plan.engines.push(part, GFP_KERNEL)?,
                Ok(None) => {}
                Err(bad) => return Ok(Err(bad)),
            }
        }
        let mut room = Ok(());
        let engines = &mut plan.engines;
        let parts = engine_parts(images, sdma, |part| {
            room = room.and(engines.push(part, GFP_KERNEL));
            Ok(())
        });
        room?;
        let rest = parts.and_then(|()| {
            let ta = &images[TA];
            let name = "driver of trusted applications";
            if let Some((part, version)) = application(ta, ta_type::ASD, name)? {
                plan.driver = Some(part);
                plan.versions.ta_driver = version;
            }
            let name = "xGMI application";
            plan.xgmi = application(ta, ta_type::XGMI, name)?.map(|(part, _)| part);
            releases(images, &mut plan.versions)
        });
        Ok(rest.map(|()| plan))
    }

    fn is_alive(&self, mmio: &Mmio) -> Result<bool> {
        Ok(block(mmio)?.rd(psp::SIGN_OF_LIFE)?.raw() != 0)
    }

    fn os_version(&self, mmio: &Mmio) -> Result<u32> {
        block(mmio)?.rd(psp::VERSION).map(Value::raw)
    }

    fn wait_bootloader(&self, mmio: &Mmio) -> Result {
        let b = block(mmio)?;
        wait(b, psp::MAILBOX, BOOT_TIMEOUT, |v| v == psp::READY)?;
        wait(b, psp::BOOTLOADER, BOOT_TIMEOUT, |v| v == psp::READY)?;
        Ok(())
    }

    fn boot(&self, mmio: &Mmio, command: u32, address: u64) -> Result<MailboxResult> {
        let b = block(mmio)?;
        boot_command(b, command, address)?;
        let value = wait(b, psp::BOOTLOADER, BOOT_TIMEOUT, |v| {
            v & psp::READY != 0 && v != u32::MAX
        })?;
        Ok(match value & !psp::READY {
            0 => Ok(()),
            status => Err(status),
        })
    }

    fn boot_os(&self, mmio: &Mmio, command: u32, address: u64) -> Result<MailboxResult> {
        let b = block(mmio)?;
        boot_command(b, command, address)?;
        fsleep(SETTLE);
        let alive = wait(b, psp::SIGN_OF_LIFE, MAILBOX_TIMEOUT, |v| {
            v != 0 && v != u32::MAX
        });
        match alive {
            Ok(_) => Ok(Ok(())),
            Err(e) if e == ETIMEDOUT => match b.rd(psp::BOOTLOADER)?.raw() & !psp::READY {
                0 => Err(ETIMEDOUT),
                status => Ok(Err(status)),
            },
            Err(e) => Err(e),
        }
    }

    fn create_ring(&self, mmio: &Mmio, address: u64, bytes: u32) -> Result<MailboxResult> {
        let b = block(mmio)?;
        wait(b, psp::COMMAND, MAILBOX_TIMEOUT, |v| {
            v & psp::READY != 0 && v != u32::MAX
        })?;
        b.wr(psp::RING_ADDRESS_LO, lo32(address))?;
        b.wr(psp::RING_ADDRESS_HI, hi32(address))?;
        b.wr(psp::RING_SIZE, bytes)?;
        b.wr(psp::COMMAND, control::INIT_GPCOM_RING)?;
        response(b)
    }

    fn destroy_ring(&self, mmio: &Mmio) -> Result<MailboxResult> {
        let b = block(mmio)?;
        b.wr(psp::COMMAND, control::DESTROY_RINGS)?;
        response(b)
    }

    fn wptr(&self, mmio: &Mmio) -> Result<u32> {
        block(mmio)?.rd(psp::RING_WPTR).map(Value::raw)
    }

    fn set_wptr(&self, mmio: &Mmio, wptr: u32) -> Result {
        block(mmio)?.wr(psp::RING_WPTR, wptr)
    }

    fn mode1_reset(&self, mmio: &Mmio) -> Result {
        smu::mode1_reset(mmio)?;
        fsleep(RESET);
        Ok(())
    }
}
