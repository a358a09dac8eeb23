// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Firmware files as AMD packs them for Linux: byte offsets of their headers.
//!
//! Sources: `amdgpu/amdgpu_ucode.h` (headers), `amdgpu/amdgpu_ucode.c` (which part of the payload is
//! which firmware), and for [`signed`] the files of the `linux-firmware` collection themselves; Linux
//! hands those bytes to the security processor without looking at them.
//!
//! A file begins with [`common`]; its [`common::HEADER_VERSION_MAJOR`] and `_MINOR` say which of the
//! other headers follows. All numbers are little-endian.

/// The beginning of every file (`struct common_firmware_header`).
pub mod common {
    /// Bytes of the whole file.
    pub const SIZE_BYTES: usize = 0;
    /// Bytes of the header.
    pub const HEADER_SIZE_BYTES: usize = 4;
    /// Version of the header, 16 bits.
    pub const HEADER_VERSION_MAJOR: usize = 8;
    /// 16 bits.
    pub const HEADER_VERSION_MINOR: usize = 10;
    /// Version of the block that the firmware is for, 16 bits.
    pub const IP_VERSION_MAJOR: usize = 12;
    /// 16 bits.
    pub const IP_VERSION_MINOR: usize = 14;
    /// Version of the firmware.
    pub const UCODE_VERSION: usize = 16;
    /// Bytes of the payload.
    pub const UCODE_SIZE_BYTES: usize = 20;
    /// Where the payload begins.
    pub const UCODE_ARRAY_OFFSET_BYTES: usize = 24;
    /// A checksum that no driver looks at.
    pub const CRC32: usize = 28;
    /// Bytes.
    pub const SIZE: usize = 32;
}

/// Command processors, version 1.0 (`struct gfx_firmware_header_v1_0`).
pub mod gfx_v1_0 {
    /// Version of the interface.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// The jump table, in dwords from the payload's begin.
    pub const JT_OFFSET: usize = 36;
    /// Its dwords; it is the payload's end.
    pub const JT_SIZE: usize = 40;
    /// Bytes.
    pub const SIZE: usize = 44;
}

/// DMA engines, version 1.0 (`struct sdma_firmware_header_v1_0`).
pub mod sdma_v1_0 {
    /// Version of the interface.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Version of the change.
    pub const UCODE_CHANGE_VERSION: usize = 36;
    /// The jump table, in dwords from the payload's begin.
    pub const JT_OFFSET: usize = 40;
    /// Its dwords.
    pub const JT_SIZE: usize = 44;
    /// Bytes.
    pub const SIZE: usize = 48;
}

/// Run list controller, version 2.0 (`struct rlc_firmware_header_v2_0`).
pub mod rlc_v2_0 {
    /// Version of the interface.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Jump table.
    pub const JT_OFFSET: usize = 36;
    /// Its size.
    pub const JT_SIZE: usize = 40;
    /// Save and restore.
    pub const SAVE_AND_RESTORE_OFFSET: usize = 44;
    /// Clear state.
    pub const CLEAR_STATE_DESCRIPTOR_OFFSET: usize = 48;
    /// Scratch memory.
    pub const AVAIL_SCRATCH_RAM_LOCATIONS: usize = 52;
    /// Restore list.
    pub const REG_RESTORE_LIST_SIZE: usize = 56;
    /// Format of the list.
    pub const REG_LIST_FORMAT_START: usize = 60;
    /// Format of the list.
    pub const REG_LIST_FORMAT_SEPARATE_START: usize = 64;
    /// Starting offsets.
    pub const STARTING_OFFSETS_START: usize = 68;
    /// Format of the list: bytes.
    pub const REG_LIST_FORMAT_SIZE_BYTES: usize = 72;
    /// Where in the file.
    pub const REG_LIST_FORMAT_ARRAY_OFFSET_BYTES: usize = 76;
    /// The list: bytes.
    pub const REG_LIST_SIZE_BYTES: usize = 80;
    /// Where in the file.
    pub const REG_LIST_ARRAY_OFFSET_BYTES: usize = 84;
    /// Bytes.
    pub const SIZE: usize = 104;
}

/// Run list controller, version 2.1 (`struct rlc_firmware_header_v2_1`): the lists that the security
/// processor loads. Offsets are from the file's begin.
pub mod rlc_v2_1 {
    /// Control list: version.
    pub const SAVE_RESTORE_LIST_CNTL_UCODE_VER: usize = 108;
    /// Version of what it can do.
    pub const SAVE_RESTORE_LIST_CNTL_FEATURE_VER: usize = 112;
    /// Bytes.
    pub const SAVE_RESTORE_LIST_CNTL_SIZE_BYTES: usize = 116;
    /// Where in the file.
    pub const SAVE_RESTORE_LIST_CNTL_OFFSET_BYTES: usize = 120;
    /// Code: version.
    pub const SAVE_RESTORE_LIST_GPM_UCODE_VER: usize = 124;
    /// Version of what it can do.
    pub const SAVE_RESTORE_LIST_GPM_FEATURE_VER: usize = 128;
    /// Bytes.
    pub const SAVE_RESTORE_LIST_GPM_SIZE_BYTES: usize = 132;
    /// Where in the file.
    pub const SAVE_RESTORE_LIST_GPM_OFFSET_BYTES: usize = 136;
    /// Memory: version.
    pub const SAVE_RESTORE_LIST_SRM_UCODE_VER: usize = 140;
    /// Version of what it can do.
    pub const SAVE_RESTORE_LIST_SRM_FEATURE_VER: usize = 144;
    /// Bytes.
    pub const SAVE_RESTORE_LIST_SRM_SIZE_BYTES: usize = 148;
    /// Where in the file.
    pub const SAVE_RESTORE_LIST_SRM_OFFSET_BYTES: usize = 152;
    /// Bytes.
    pub const SIZE: usize = 156;
}

/// Run list controller, version 2.2 (`struct rlc_firmware_header_v2_2`).
pub mod rlc_v2_2 {
    /// Instruction memory: bytes.
    pub const RLC_IRAM_UCODE_SIZE_BYTES: usize = 156;
    /// Where in the file.
    pub const RLC_IRAM_UCODE_OFFSET_BYTES: usize = 160;
    /// Data memory: bytes.
    pub const RLC_DRAM_UCODE_SIZE_BYTES: usize = 164;
    /// Where in the file.
    pub const RLC_DRAM_UCODE_OFFSET_BYTES: usize = 168;
    /// Bytes.
    pub const SIZE: usize = 172;
}

/// A part of a packed file (`struct psp_fw_bin_desc`): byte offsets in it.
pub mod bin_desc {
    /// A [`super::psp_type`] or [`super::ta_type`].
    pub const FW_TYPE: usize = 0;
    /// Version of the part.
    pub const FW_VERSION: usize = 4;
    /// Where, from the payload's begin.
    pub const OFFSET_BYTES: usize = 8;
    /// Bytes.
    pub const SIZE_BYTES: usize = 12;
    /// Bytes of the descriptor.
    pub const SIZE: usize = 16;
}

/// Parts of the security processor's own firmware, version 2.0 (`struct psp_firmware_header_v2_0`).
pub mod psp_v2_0 {
    /// How many parts.
    pub const BIN_COUNT: usize = 32;
    /// The first [`super::bin_desc`].
    pub const BINS: usize = 36;
}

/// The same, version 2.1 (`struct psp_firmware_header_v2_1`): two sets of parts in one file.
pub mod psp_v2_1 {
    /// How many parts, of both sets.
    pub const BIN_COUNT: usize = 32;
    /// Index of the first part of the second set.
    pub const AUX_BIN_INDEX: usize = 36;
    /// The first [`super::bin_desc`].
    pub const BINS: usize = 40;
}

/// Trusted applications, version 2.0 (`struct ta_firmware_header_v2_0`).
pub mod ta_v2_0 {
    /// How many parts.
    pub const BIN_COUNT: usize = 32;
    /// The first [`super::bin_desc`].
    pub const BINS: usize = 36;
}

/// More parts than this no file has (`UCODE_MAX_PSP_PACKAGING`).
pub const MAX_BINS: usize = 26;

/// Parts of the security processor's firmware (`enum psp_fw_type`).
pub mod psp_type {
    /// Secure operating system.
    pub const SOS: u32 = 1;
    /// System driver.
    pub const SYS_DRV: u32 = 2;
    /// Key database.
    pub const KDB: u32 = 3;
    /// List of firmware.
    pub const TOC: u32 = 4;
    /// Security patch levels.
    pub const SPL: u32 = 5;
    /// List of protected registers.
    pub const RL: u32 = 6;
    /// Driver of the chip.
    pub const SOC_DRV: u32 = 7;
    /// Interface driver.
    pub const INTF_DRV: u32 = 8;
    /// Debugger's driver.
    pub const DBG_DRV: u32 = 9;
    /// Driver of error protection.
    pub const RAS_DRV: u32 = 10;
    /// Key manager.
    pub const IPKEYMGR_DRV: u32 = 11;
    /// Driver of the security protocol.
    pub const SPDM_DRV: u32 = 12;
    /// All of them with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("SOS", SOS),
        ("SYS_DRV", SYS_DRV),
        ("KDB", KDB),
        ("TOC", TOC),
        ("SPL", SPL),
        ("RL", RL),
        ("SOC_DRV", SOC_DRV),
        ("INTF_DRV", INTF_DRV),
        ("DBG_DRV", DBG_DRV),
        ("RAS_DRV", RAS_DRV),
        ("IPKEYMGR_DRV", IPKEYMGR_DRV),
        ("SPDM_DRV", SPDM_DRV),
    ];
}

/// Trusted applications (`enum ta_fw_type`).
pub mod ta_type {
    /// The driver of all others.
    pub const ASD: u32 = 1;
    /// Links between cards.
    pub const XGMI: u32 = 2;
    /// Error protection.
    pub const RAS: u32 = 3;
    /// Links between cards, on parts with processors.
    pub const XGMI_AUX: u32 = 8;
    /// All of them with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("ASD", ASD),
        ("XGMI", XGMI),
        ("RAS", RAS),
        ("XGMI_AUX", XGMI_AUX),
    ];
}

/// What the security processor is given: a header, the firmware, its signature. No header of Linux
/// describes it; every file of generation 9.4.3 shows this.
pub mod signed {
    /// [`MAGIC`].
    pub const MAGIC_AT: usize = 0x10;
    /// `$PS1`.
    pub const MAGIC: [u8; 4] = *b"$PS1";
    /// Bytes of the firmware, which follows the header.
    pub const BODY_BYTES: usize = 0x14;
    /// What kind of firmware; see [`id`].
    pub const ID_AT: usize = 0x58;
    /// Version of the firmware.
    pub const VERSION: usize = 0x60;
    /// Bytes of header, firmware and signature.
    pub const TOTAL_BYTES: usize = 0x6c;
    /// Bytes of the header.
    pub const SIZE: usize = 0x100;

    /// Ids, as the files of generation 9.4.3 have them.
    pub mod id {
        /// Compute engines.
        pub const CP_MEC: u32 = 0x8101_2004;
        /// Their jump table.
        pub const CP_MEC_JT: u32 = 0x8101_2005;
        /// Run list controller.
        pub const RLC_G: u32 = 0x8101_2009;
        /// Save and restore list: code.
        pub const RLC_GPM: u32 = 0x8101_200b;
        /// Save and restore list: memory.
        pub const RLC_SRM: u32 = 0x8101_200c;
        /// Save and restore list: control.
        pub const RLC_CNTL: u32 = 0x8101_200d;
        /// DMA engines.
        pub const SDMA: u32 = 0x8101_2025;
    }
}
