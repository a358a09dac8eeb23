// SPDX-License-Identifier: GPL-2.0

//! Parts of firmware files, as the PSP takes them.

use kernel::prelude::*;
use rkfd_abi::{
    firmware::{bin_desc, common, psp_type, psp_v2_0, psp_v2_1, rlc_v2_0, rlc_v2_1},
    firmware::{ta_v2_0, MAX_BINS},
    psp::{self, bootloader, fw_type},
};

use super::{FirmwarePlan, FirmwareVersions, Part, Release};
use crate::asic::firmware::{Bad, Image, Refusal, Why};

/// A step of the boot chain: type of the part, command, name, whether it is required.
pub(crate) type BootStep = (u32, u32, &'static str, bool);

/// Steps that several versions have.
pub(crate) mod steps {
    use super::{bootloader as command, psp_type as kind, BootStep};

    pub(crate) const KEY_DATABASE: BootStep =
        (kind::KDB, command::LOAD_KEY_DATABASE, "key database", true);
    pub(crate) const SYSTEM_DRIVER: BootStep =
        (kind::SYS_DRV, command::LOAD_SYSDRV, "system driver", true);
    pub(crate) const CHIP_DRIVER: BootStep =
        (kind::SOC_DRV, command::LOAD_SOCDRV, "chip driver", false);
    pub(crate) const INTERFACE_DRIVER: BootStep = (
        kind::INTF_DRV,
        command::LOAD_INTFDRV,
        "interface driver",
        false,
    );
    pub(crate) const RAS_DRIVER: BootStep = (
        kind::RAS_DRV,
        command::LOAD_RASDRV,
        "error protection driver",
        false,
    );
    pub(crate) const KEY_MANAGER: BootStep = (
        kind::IPKEYMGR_DRV,
        command::LOAD_IPKEYMGRDRV,
        "key manager",
        false,
    );
    pub(crate) const SECURE_OS: BootStep = (
        kind::SOS,
        command::LOAD_SOSDRV,
        "secure operating system",
        true,
    );
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

/// Returns a part of a file, whose bytes are at `at`, `len` long.
pub(crate) fn part(
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

/// Adds the boot chain and the list of protected registers to a plan: from the file `file`, whose
/// second set is that of the card if `second`. `ENOMEM` for the lists.
pub(crate) fn boot_parts(
    image: &Image<'_>,
    file: usize,
    chain: &[BootStep],
    second: bool,
    plan: &mut FirmwarePlan,
) -> Result<(), Refusal> {
    let (bins, set) = boot_set(image, second)?;
    for &(kind, command, name, needed) in chain {
        match find(image, bins, set.clone(), kind)? {
            Some(bin) => {
                if kind == psp_type::SOS {
                    plan.versions.os = bin.version;
                }
                let part = part(image, file, name, command, true, (bin.at, bin.len))?;
                plan.boot.push(part, GFP_KERNEL)?;
            }
            None if needed => return Err(image.bad(Why::NoPart(name)).into()),
            None => {}
        }
    }
    let name = "list of protected registers";
    let registers = list_part(image, file, second, (psp_type::RL, name, fw_type::REG_LIST))?;
    if let Some(part) = registers {
        plan.late.push(part, GFP_KERNEL)?;
    }
    Ok(())
}

/// Returns a list that is not part of the boot chain, by its type, name and `GFX_FW_TYPE_*`; `None`
/// when the file has none.
fn list_part(
    image: &Image<'_>,
    file: usize,
    second: bool,
    (kind, name, code): (u32, &'static str, u32),
) -> Result<Option<Part>, Bad> {
    let (bins, set) = boot_set(image, second)?;
    find(image, bins, set, kind)?
        .map(|bin| part(image, file, name, code, false, (bin.at, bin.len)))
        .transpose()
}

/// Returns the list of firmware (TOC) of a file with one set of parts; `None` when it has none.
pub(crate) fn firmware_list(image: &Image<'_>, file: usize) -> Result<Option<Part>, Bad> {
    let what = (psp_type::TOC, "list of firmware", fw_type::TOC);
    list_part(image, file, false, what)
}

/// Collects the save and restore lists of the RLC from the file `file`.
pub(crate) fn rlc_lists(
    image: &Image<'_>,
    file: usize,
    list: &mut KVec<Part>,
) -> Result<(), Refusal> {
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
            list.push(part(image, file, name, code, false, place)?, GFP_KERNEL)?;
        }
    }
    Ok(())
}

/// Reads the versions of the RLC and of its lists.
pub(crate) fn rlc_releases(image: &Image<'_>, versions: &mut FirmwareVersions) -> Result<(), Bad> {
    versions.rlc = release(image, rlc_v2_0::UCODE_FEATURE_VERSION)?;
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
            version: image.word(version)? as u32,
            feature: image.word(feature)? as u32,
        };
    }
    Ok(())
}

/// Returns version and feature version of an engine's file; the header has the latter at byte
/// `feature`.
pub(crate) fn release(image: &Image<'_>, feature: usize) -> Result<Release, Bad> {
    Ok(Release {
        version: image.version()?,
        feature: image.word(feature)? as u32,
    })
}

/// Returns the trusted application of a type, and its version.
pub(crate) fn application(
    image: &Image<'_>,
    file: usize,
    kind: u32,
    name: &'static str,
) -> Result<Option<(Part, u32)>, Bad> {
    let count = image.word(ta_v2_0::BIN_COUNT)?;
    if count >= MAX_BINS {
        return Err(image.bad(Why::NoPart("list of parts that is not too long")));
    }
    find(image, ta_v2_0::BINS, 0..count, kind)?
        .map(|bin| {
            let part = part(image, file, name, 0, false, (bin.at, bin.len))?;
            Ok((part, bin.version))
        })
        .transpose()
}
