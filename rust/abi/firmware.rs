// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Firmware files in AMD's container format: byte offsets of their headers.
//!
//! Sources: `amdgpu/amdgpu_ucode.h` (headers), `amdgpu/amdgpu_ucode.c` (payload ranges). [`signed`]
//! is not described by any header of Linux, which passes those bytes to the PSP unparsed: its
//! source are the files of `linux-firmware`.
//!
//! A file begins with [`common`]; [`common::HEADER_VERSION_MAJOR`] and `_MINOR` select the header
//! that extends it. All values are u32 unless noted, little endian.

/// Start of every file (`struct common_firmware_header`).
pub mod common {
    /// Size of the file, in bytes.
    pub const SIZE_BYTES: usize = 0;
    /// Size of the header, in bytes.
    pub const HEADER_SIZE_BYTES: usize = 4;
    /// u16: major version of the header.
    pub const HEADER_VERSION_MAJOR: usize = 8;
    /// u16: minor version of the header.
    pub const HEADER_VERSION_MINOR: usize = 10;
    /// u16: major version of the IP block.
    pub const IP_VERSION_MAJOR: usize = 12;
    /// u16: minor version of the IP block.
    pub const IP_VERSION_MINOR: usize = 14;
    /// Version of the firmware.
    pub const UCODE_VERSION: usize = 16;
    /// Size of the payload, in bytes.
    pub const UCODE_SIZE_BYTES: usize = 20;
    /// File offset of the payload, in bytes.
    pub const UCODE_ARRAY_OFFSET_BYTES: usize = 24;
    /// CRC32; not checked by drivers.
    pub const CRC32: usize = 28;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 32;
}

/// CP firmware, version 1.0 (`struct gfx_firmware_header_v1_0`).
pub mod gfx_v1_0 {
    /// Feature version.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Jump table: offset in the payload, in dwords.
    pub const JT_OFFSET: usize = 36;
    /// Jump table: size in dwords; it is the end of the payload.
    pub const JT_SIZE: usize = 40;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 44;
}

/// CP firmware of 64-bit engines, version 2.0 (`struct gfx_firmware_header_v2_0`).
pub mod gfx_v2_0 {
    /// Feature version.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Code: size in bytes.
    pub const UCODE_SIZE_BYTES: usize = 36;
    /// Data: size in bytes.
    pub const DATA_SIZE_BYTES: usize = 44;
    /// Data: file offset in bytes.
    pub const DATA_OFFSET_BYTES: usize = 48;
    /// Entry point in bytes, low half.
    pub const UCODE_START_ADDR_LO: usize = 52;
    /// Entry point in bytes, high half.
    pub const UCODE_START_ADDR_HI: usize = 56;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 60;
}

/// MES firmware, version 1.0 (`struct mes_firmware_header_v1_0`).
pub mod mes_v1_0 {
    /// Code: size in bytes.
    pub const MES_UCODE_SIZE_BYTES: usize = 36;
    /// Code: file offset in bytes.
    pub const MES_UCODE_OFFSET_BYTES: usize = 40;
    /// Data: size in bytes.
    pub const MES_UCODE_DATA_SIZE_BYTES: usize = 48;
    /// Data: file offset in bytes.
    pub const MES_UCODE_DATA_OFFSET_BYTES: usize = 52;
    /// Entry point in bytes, low half.
    pub const MES_UC_START_ADDR_LO: usize = 56;
    /// Entry point in bytes, high half.
    pub const MES_UC_START_ADDR_HI: usize = 60;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 72;
}

/// IMU firmware, version 1.0 (`struct imu_firmware_header_v1_0`). The data follow the code.
pub mod imu_v1_0 {
    /// Code: size in bytes.
    pub const IMU_IRAM_UCODE_SIZE_BYTES: usize = 32;
    /// Data: size in bytes.
    pub const IMU_DRAM_UCODE_SIZE_BYTES: usize = 40;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 48;
}

/// SDMA firmware, version 3.0 (`struct sdma_firmware_header_v3_0`).
pub mod sdma_v3_0 {
    /// Feature version.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Size in bytes.
    pub const UCODE_SIZE_BYTES: usize = 40;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 44;
}

/// SDMA firmware, version 1.0 (`struct sdma_firmware_header_v1_0`).
pub mod sdma_v1_0 {
    /// Feature version.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Change version.
    pub const UCODE_CHANGE_VERSION: usize = 36;
    /// Jump table: offset in the payload, in dwords.
    pub const JT_OFFSET: usize = 40;
    /// Jump table: size in dwords.
    pub const JT_SIZE: usize = 44;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 48;
}

/// RLC firmware, version 2.0 (`struct rlc_firmware_header_v2_0`).
pub mod rlc_v2_0 {
    /// Feature version.
    pub const UCODE_FEATURE_VERSION: usize = 32;
    /// Jump table: offset.
    pub const JT_OFFSET: usize = 36;
    /// Jump table: size.
    pub const JT_SIZE: usize = 40;
    /// Save and restore: offset.
    pub const SAVE_AND_RESTORE_OFFSET: usize = 44;
    /// Clear state descriptor: offset.
    pub const CLEAR_STATE_DESCRIPTOR_OFFSET: usize = 48;
    /// Available scratch RAM locations.
    pub const AVAIL_SCRATCH_RAM_LOCATIONS: usize = 52;
    /// Register restore list: size.
    pub const REG_RESTORE_LIST_SIZE: usize = 56;
    /// Register list format: start.
    pub const REG_LIST_FORMAT_START: usize = 60;
    /// Register list format: separate start.
    pub const REG_LIST_FORMAT_SEPARATE_START: usize = 64;
    /// Starting offsets: start.
    pub const STARTING_OFFSETS_START: usize = 68;
    /// Register list format: size in bytes.
    pub const REG_LIST_FORMAT_SIZE_BYTES: usize = 72;
    /// Register list format: file offset in bytes.
    pub const REG_LIST_FORMAT_ARRAY_OFFSET_BYTES: usize = 76;
    /// Register list: size in bytes.
    pub const REG_LIST_SIZE_BYTES: usize = 80;
    /// Register list: file offset in bytes.
    pub const REG_LIST_ARRAY_OFFSET_BYTES: usize = 84;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 104;
}

/// RLC firmware, version 2.1 (`struct rlc_firmware_header_v2_1`): the save/restore lists that the
/// PSP loads. Offsets are from the start of the file.
pub mod rlc_v2_1 {
    /// CNTL list: firmware version.
    pub const SAVE_RESTORE_LIST_CNTL_UCODE_VER: usize = 108;
    /// CNTL list: feature version.
    pub const SAVE_RESTORE_LIST_CNTL_FEATURE_VER: usize = 112;
    /// CNTL list: size in bytes.
    pub const SAVE_RESTORE_LIST_CNTL_SIZE_BYTES: usize = 116;
    /// CNTL list: file offset in bytes.
    pub const SAVE_RESTORE_LIST_CNTL_OFFSET_BYTES: usize = 120;
    /// GPM list: firmware version.
    pub const SAVE_RESTORE_LIST_GPM_UCODE_VER: usize = 124;
    /// GPM list: feature version.
    pub const SAVE_RESTORE_LIST_GPM_FEATURE_VER: usize = 128;
    /// GPM list: size in bytes.
    pub const SAVE_RESTORE_LIST_GPM_SIZE_BYTES: usize = 132;
    /// GPM list: file offset in bytes.
    pub const SAVE_RESTORE_LIST_GPM_OFFSET_BYTES: usize = 136;
    /// SRM list: firmware version.
    pub const SAVE_RESTORE_LIST_SRM_UCODE_VER: usize = 140;
    /// SRM list: feature version.
    pub const SAVE_RESTORE_LIST_SRM_FEATURE_VER: usize = 144;
    /// SRM list: size in bytes.
    pub const SAVE_RESTORE_LIST_SRM_SIZE_BYTES: usize = 148;
    /// SRM list: file offset in bytes.
    pub const SAVE_RESTORE_LIST_SRM_OFFSET_BYTES: usize = 152;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 156;
}

/// RLC firmware, version 2.2 (`struct rlc_firmware_header_v2_2`).
pub mod rlc_v2_2 {
    /// IRAM: size in bytes.
    pub const RLC_IRAM_UCODE_SIZE_BYTES: usize = 156;
    /// IRAM: file offset in bytes.
    pub const RLC_IRAM_UCODE_OFFSET_BYTES: usize = 160;
    /// DRAM: size in bytes.
    pub const RLC_DRAM_UCODE_SIZE_BYTES: usize = 164;
    /// DRAM: file offset in bytes.
    pub const RLC_DRAM_UCODE_OFFSET_BYTES: usize = 168;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 172;
}

/// Descriptor of one part of a packed file (`struct psp_fw_bin_desc`): byte offsets.
pub mod bin_desc {
    /// One of [`super::psp_type`] or [`super::ta_type`].
    pub const FW_TYPE: usize = 0;
    /// Firmware version of the part.
    pub const FW_VERSION: usize = 4;
    /// Offset in the payload, in bytes.
    pub const OFFSET_BYTES: usize = 8;
    /// Size of the part, in bytes.
    pub const SIZE_BYTES: usize = 12;
    /// Size of the descriptor, in bytes.
    pub const SIZE: usize = 16;
}

/// PSP firmware, version 2.0 (`struct psp_firmware_header_v2_0`).
pub mod psp_v2_0 {
    /// Number of parts.
    pub const BIN_COUNT: usize = 32;
    /// First [`super::bin_desc`].
    pub const BINS: usize = 36;
}

/// PSP firmware, version 2.1 (`struct psp_firmware_header_v2_1`): two sets of parts in one file.
pub mod psp_v2_1 {
    /// Number of parts, of both sets.
    pub const BIN_COUNT: usize = 32;
    /// Index of the first part of the auxiliary set.
    pub const AUX_BIN_INDEX: usize = 36;
    /// First [`super::bin_desc`].
    pub const BINS: usize = 40;
}

/// Trusted applications (TA), version 2.0 (`struct ta_firmware_header_v2_0`).
pub mod ta_v2_0 {
    /// Number of parts.
    pub const BIN_COUNT: usize = 32;
    /// First [`super::bin_desc`].
    pub const BINS: usize = 36;
}

/// Power firmware, version 2.1 (`struct smc_firmware_header_v2_1`). The file holds tables only; the
/// firmware itself is on the board.
pub mod smc_v2_1 {
    /// Number of tables.
    pub const PPTABLE_COUNT: usize = 36;
    /// File offset of the first [`super::soft_pptable`].
    pub const PPTABLE_ENTRY_OFFSET: usize = 40;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 44;
}

/// Descriptor of one table of power firmware (`struct smc_soft_pptable_entry`): byte offsets.
pub mod soft_pptable {
    /// For P2S tables one of `P2S_TABLE_ID_*`.
    pub const ID: usize = 0;
    /// File offset of the table.
    pub const PPT_OFFSET_BYTES: usize = 4;
    /// Size of the table, in bytes.
    pub const PPT_SIZE_BYTES: usize = 8;
    /// Size of the descriptor, in bytes.
    pub const SIZE: usize = 12;
}

/// P2S tables of MP1 13.0.6 (`smu_v13_0_6_ppt.c`).
pub mod p2s_table {
    /// `P2S_TABLE_ID_X`: cards.
    pub const X: u32 = 0x5032_5358;
    /// `P2S_TABLE_ID_3`: cards whose device id ends in 5.
    pub const THREE: u32 = 0x5032_5303;
}

/// Maximum number of parts of a file (`UCODE_MAX_PSP_PACKAGING`).
pub const MAX_BINS: usize = 26;

numbers! {
    /// Parts of the PSP firmware (`enum psp_fw_type`).
    psp_type: u32 {
        /// Secure OS (SOS).
        SOS = 1,
        /// System driver.
        SYS_DRV = 2,
        /// Key database.
        KDB = 3,
        /// Table of contents (TOC): the list of firmware.
        TOC = 4,
        /// Security patch level (SPL) table.
        SPL = 5,
        /// Register list (RL): protected registers.
        RL = 6,
        /// SoC driver.
        SOC_DRV = 7,
        /// Interface driver.
        INTF_DRV = 8,
        /// Debug driver.
        DBG_DRV = 9,
        /// RAS driver.
        RAS_DRV = 10,
        /// IP key manager driver.
        IPKEYMGR_DRV = 11,
        /// SPDM driver.
        SPDM_DRV = 12,
    }
}

numbers! {
    /// Trusted applications (`enum ta_fw_type`).
    ta_type: u32 {
        /// ASD: driver of the other trusted applications.
        ASD = 1,
        /// XGMI.
        XGMI = 2,
        /// RAS.
        RAS = 3,
        /// Auxiliary XGMI, for APUs.
        XGMI_AUX = 8,
    }
}

/// Image that the PSP verifies: header, firmware body, signature. No header of Linux describes the
/// format; it is derived from the firmware files of GC 9.4.3.
pub mod signed {
    /// Offset of [`MAGIC`].
    pub const MAGIC_AT: usize = 0x10;
    /// `$PS1`.
    pub const MAGIC: [u8; 4] = *b"$PS1";
    /// Size of the body that follows the header, in bytes.
    pub const BODY_BYTES: usize = 0x14;
    /// Firmware id.
    pub const ID_AT: usize = 0x58;
    /// Version of the firmware.
    pub const VERSION: usize = 0x60;
    /// Size of header, body and signature, in bytes.
    pub const TOTAL_BYTES: usize = 0x6c;
    /// Size of the header, in bytes.
    pub const SIZE: usize = 0x100;
}
