// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PSP (platform security processor): mailboxes, kernel ring and commands of versions 13.0.6 (MP0)
//! and 14.0.3 (MPASP), whose mailboxes are the same registers.
//!
//! Sources: `amdgpu/psp_gfx_if.h` (commands and structures), `amdgpu/amdgpu_psp.h` (boot loader),
//! `amdgpu/psp_v13_0.c` and `psp_v14_0.c` (registers). Two mailboxes and a ring:
//!
//! * Boot loader mailbox, used until the secure OS (SOS) runs: when [`BOOTLOADER`] reads [`READY`],
//!   the driver writes an address >> [`BOOTLOADER_ADDRESS_SHIFT`] to [`BOOTLOADER_ADDRESS`] and a
//!   [`bootloader`] command to [`BOOTLOADER`], which reads [`READY`] again on completion. Bits 7:0
//!   are nonzero if the command failed.
//! * SOS mailbox, usable while [`SIGN_OF_LIFE`] is nonzero: [`control`] commands in [`COMMAND`],
//!   completed with [`READY`] and a status in bits 15:0.
//! * Kernel ring (GPCOM): [`frame`]s of 64 bytes, each with the addresses of a command buffer
//!   ([`cmd_buf`]) and a fence; [`RING_WPTR`] is in dwords and wraps at the size of the ring. All
//!   addresses are in VMID 0.

pub mod xgmi;

use crate::bits::{Field, Field64};
use crate::regs::{mp_13_0_6 as regs, name, Reg, Untyped};

/// Reads [`READY`] when the boot loader's mailbox is usable.
pub const MAILBOX: Reg<name::MP0_SMN_C2PMSG_33> = regs::regMP0_SMN_C2PMSG_33;
/// Boot loader mailbox: command and status.
pub const BOOTLOADER: Reg<name::MP0_SMN_C2PMSG_35> = regs::regMP0_SMN_C2PMSG_35;
/// Boot loader mailbox: address of the image to load, in MiB.
pub const BOOTLOADER_ADDRESS: Reg<name::MP0_SMN_C2PMSG_36> = regs::regMP0_SMN_C2PMSG_36;
/// Version of the running secure OS; not on 14.0.3.
pub const VERSION: Reg<name::MP0_SMN_C2PMSG_58> = regs::regMP0_SMN_C2PMSG_58;
/// SOS mailbox: command and status.
pub const COMMAND: Reg<name::MP0_SMN_C2PMSG_64> = regs::regMP0_SMN_C2PMSG_64;
/// Write pointer of the kernel ring, in dwords.
pub const RING_WPTR: Reg<name::MP0_SMN_C2PMSG_67> = regs::regMP0_SMN_C2PMSG_67;
/// Address of the kernel ring, low half.
pub const RING_ADDRESS_LO: Reg<name::MP0_SMN_C2PMSG_69> = regs::regMP0_SMN_C2PMSG_69;
/// Address of the kernel ring, high half.
pub const RING_ADDRESS_HI: Reg<name::MP0_SMN_C2PMSG_70> = regs::regMP0_SMN_C2PMSG_70;
/// Size of the kernel ring, in bytes.
pub const RING_SIZE: Reg<name::MP0_SMN_C2PMSG_71> = regs::regMP0_SMN_C2PMSG_71;
/// Nonzero while the secure OS runs; changes when it is loaded.
pub const SIGN_OF_LIFE: Reg<name::MP0_SMN_C2PMSG_81> = regs::regMP0_SMN_C2PMSG_81;
/// Boot loader progress and errors, for diagnostics.
pub const BOOTLOADER_STATUS: Reg<name::MP0_SMN_C2PMSG_92> = regs::regMP0_SMN_C2PMSG_92;
/// RAS capabilities of the card. Not in the 13.0.6 headers; the driver uses those of 13.0.2.
pub const RAS_CAPABILITY: Reg<Untyped> = Reg::new("regMP0_SMN_C2PMSG_127", 0, 0x00bf);
/// The version of the system management firmware: byte address in SMN (`MP1_PUB_SCRATCH0`).
pub const SMU_VERSION_SMN: u32 = 0x03b1_0090;
/// Flags of SMU firmware: byte address in SMN (`MP1_FIRMWARE_FLAGS`). Bit 0: it runs.
pub const SMU_FLAGS_SMN: u32 = 0x03b1_0028;
/// SMU firmware below this version needs the auxiliary SOS (`psp_v13_0_is_aux_sos_load_required`).
pub const SMU_VERSION_NO_AUX: u32 = 0x0055_7300;

/// Mailbox is ready, or its command completed.
pub const READY: u32 = 1 << 31;
/// Status of a [`control`] command; zero for success.
pub const STATUS: Field = Field::span(15, 0);
/// Command id in [`COMMAND`].
pub const COMMAND_ID: Field = Field::span(19, 16);
/// Blocks with RAS support ([`RAS_CAPABILITY`]).
pub const RAS_BLOCKS: Field = Field::span(23, 0);
/// Bits of [`RAS_BLOCKS`] (`enum amdgpu_ras_block`).
pub mod ras_block {
    /// Memory controllers.
    pub const UMC: u32 = 0;
    /// Graphics cores.
    pub const GFX: u32 = 2;
}

/// Shift of the address in [`BOOTLOADER_ADDRESS`].
pub const BOOTLOADER_ADDRESS_SHIFT: u32 = 20;
/// Size and alignment of the firmware transfer buffer, in bytes (`PSP_1_MEG`).
pub const TRANSFER_SIZE: u64 = 0x10_0000;
/// TMR size if the TOC does not give one, in bytes (`PSP_TMR_SIZE`).
pub const TMR_SIZE: u64 = 0x40_0000;
/// TMR alignment, in bytes (`PSP_TMR_ALIGNMENT`).
pub const TMR_ALIGN: u64 = 0x10_0000;
/// Alignment of addresses in commands, in bytes.
pub const ADDRESS_ALIGN: u64 = 0x1000;

numbers! {
    /// Boot loader commands (`enum psp_bootloader_cmd`).
    bootloader: u32 {
        /// Loads the system driver.
        LOAD_SYSDRV = 0x10000,
        /// Loads and starts the secure OS.
        LOAD_SOSDRV = 0x20000,
        /// Loads the key database.
        LOAD_KEY_DATABASE = 0x80000,
        /// Loads the SoC driver.
        LOAD_SOCDRV = 0xb0000,
        /// Loads the debug driver.
        LOAD_DBGDRV = 0xc0000,
        /// Loads the interface driver.
        LOAD_INTFDRV = 0xd0000,
        /// Loads the RAS driver.
        LOAD_RASDRV = 0xe0000,
        /// Loads the IP key manager driver.
        LOAD_IPKEYMGRDRV = 0xf0000,
        /// Long memory training, from scratch.
        DRAM_LONG_TRAIN = 0x10_0000,
        /// Short memory training, from saved results.
        DRAM_SHORT_TRAIN = 0x20_0000,
        /// Loads the security patch level (SPL) table.
        LOAD_TOS_SPL_TABLE = 0x1000_0000,
        /// Loads the SPDM driver.
        LOAD_SPDMDRV = 0x2000_0000,
    }
}

numbers! {
    /// SOS mailbox commands, written to [`COMMAND`].
    control: u32 {
        /// Creates the user ring (RBI).
        INIT_RBI_RING = 0x10000,
        /// Creates the kernel ring (GPCOM).
        INIT_GPCOM_RING = 0x20000,
        /// Destroys all rings.
        DESTROY_RINGS = 0x30000,
        /// Queries whether a ring can be created.
        CAN_INIT_RINGS = 0x40000,
        /// Mode-1 reset before version 13; on 13.0.6 the SMU performs it.
        MODE1_RST = 0x70000,
        /// Makes the PSP re-read the write pointer (virtual functions).
        CONSUME_CMD = 0x90000,
        /// Destroys the kernel ring (virtual functions).
        DESTROY_GPCOM_RING = 0xc0000,
    }
}

/// Size of the kernel ring, in bytes (`psp_ring_init`).
pub const RING_BYTES: u32 = 0x1000;

/// Ring frame: byte offsets (`struct psp_gfx_rb_frame`).
pub mod frame {
    /// Address of the command buffer, low half.
    pub const CMD_BUF_ADDR_LO: usize = 0;
    /// Address of the command buffer, high half.
    pub const CMD_BUF_ADDR_HI: usize = 4;
    /// Size of the command buffer, in bytes; Linux writes 0.
    pub const CMD_BUF_SIZE: usize = 8;
    /// Address of the fence, low half.
    pub const FENCE_ADDR_LO: usize = 12;
    /// Address of the fence, high half.
    pub const FENCE_ADDR_HI: usize = 16;
    /// 32-bit fence value, written on completion.
    pub const FENCE_VALUE: usize = 20;
    /// User ring: session id, low half.
    pub const SID_LO: usize = 24;
    /// User ring: session id, high half.
    pub const SID_HI: usize = 28;
    /// u8: VMID of all addresses in the frame.
    pub const VMID: usize = 32;
    /// u8, user ring: 1 destroys a context.
    pub const FRAME_TYPE: usize = 33;
    /// Reserved, must be zero (2 bytes).
    pub const RESERVED1: usize = 34;
    /// Reserved, must be zero (7 dwords).
    pub const RESERVED2: usize = 36;
    /// Size of a frame, in bytes.
    pub const SIZE: usize = 64;
}

/// Command buffer: byte offsets (`struct psp_gfx_cmd_resp`).
pub mod cmd_buf {
    /// Size of the buffer; Linux writes 0.
    pub const BUF_SIZE: usize = 0;
    /// [`super::BUFFER_VERSION`], or 0 as Linux writes.
    pub const BUF_VERSION: usize = 4;
    /// Command id, one of [`super::cmd`].
    pub const CMD_ID: usize = 8;
    /// Response buffer address; zero on the kernel ring from here to [`CMD`].
    pub const RESP_BUF_ADDR_LO: usize = 12;
    /// Command-specific structure.
    pub const CMD: usize = 28;
    /// Response, see [`super::resp`].
    pub const RESP: usize = 864;
    /// Size of the buffer, in bytes.
    pub const SIZE: usize = 1024;
}

/// Version of the command buffer (`PSP_GFX_CMD_BUF_VERSION`).
pub const BUFFER_VERSION: u32 = 1;

/// Response: byte offsets in it (`struct psp_gfx_resp`).
pub mod resp {
    /// One of [`super::status`].
    pub const STATUS: usize = 0;
    /// Session id of a loaded TA.
    pub const SESSION_ID: usize = 4;
    /// Address of the firmware in the TMR, low half.
    pub const FW_ADDR_LO: usize = 8;
    /// Address of the firmware in the TMR, high half.
    pub const FW_ADDR_HI: usize = 12;
    /// Required TMR size in bytes (after [`super::cmd::LOAD_TOC`]).
    pub const TMR_SIZE: usize = 16;
    /// Command-specific response.
    pub const URESP: usize = 64;
    /// Size of the response, in bytes.
    pub const SIZE: usize = 96;
}

numbers! {
    /// Response status (`enum tee_error_code`, `PSP_ERR_UNKNOWN_COMMAND`).
    status: u32 {
        /// Success.
        SUCCESS "TEE_SUCCESS" = 0,
        /// Unknown command.
        UNKNOWN_COMMAND "PSP_ERR_UNKNOWN_COMMAND" = 0x100,
        /// Cancelled: already loaded.
        CANCEL "TEE_ERROR_CANCEL" = 0xffff_0002,
        /// Known but not supported.
        NOT_SUPPORTED "TEE_ERROR_NOT_SUPPORTED" = 0xffff_000a,
        => values {
            /// Further TEE error codes of the same family, from GlobalPlatform's "TEE Client API
            /// Specification" 1.0, table 4-2; Linux does not define them.
            pub mod tee {
                /// Generic error.
                pub const GENERIC: u32 = 0xffff_0000;
                /// Access denied.
                pub const ACCESS_DENIED: u32 = 0xffff_0001;
                /// Bad format.
                pub const BAD_FORMAT: u32 = 0xffff_0005;
                /// Bad parameters.
                pub const BAD_PARAMETERS: u32 = 0xffff_0006;
                /// Bad state.
                pub const BAD_STATE: u32 = 0xffff_0007;
                /// Item not found.
                pub const ITEM_NOT_FOUND: u32 = 0xffff_0008;
                /// Out of memory.
                pub const OUT_OF_MEMORY: u32 = 0xffff_000c;
                /// Security error: signature mismatch.
                pub const SECURITY: u32 = 0xffff_000f;
            }
        }
    }
}

numbers! {
    /// Commands of the kernel ring (`enum psp_gfx_cmd_id`).
    cmd: u32 {
        /// Loads a TA (trusted application).
        LOAD_TA = 0x1,
        /// Unloads a TA.
        UNLOAD_TA = 0x2,
        /// Invokes a TA command.
        INVOKE_CMD = 0x3,
        /// Loads the ASD, the driver of the trusted applications.
        LOAD_ASD = 0x4,
        /// Sets up the TMR (trusted memory region).
        SETUP_TMR = 0x5,
        /// Loads firmware of an IP block.
        LOAD_IP_FW = 0x6,
        /// Destroys the TMR.
        DESTROY_TMR = 0x7,
        /// Saves or restores firmware of an IP block.
        SAVE_RESTORE = 0x8,
        /// [`SETUP_TMR`] of a virtual function.
        SETUP_VMR = 0x9,
        /// [`DESTROY_TMR`] of a virtual function.
        DESTROY_VMR = 0xa,
        /// Writes a protected register.
        PROG_REG = 0xb,
        /// Returns the location of the firmware attestation records.
        GET_FW_ATTESTATION = 0xf,
        /// Loads the TOC (list of firmware).
        LOAD_TOC = 0x20,
        /// All firmware is loaded: starts the RLC autoload.
        AUTOLOAD_RLC = 0x21,
        /// Boot configuration.
        BOOT_CFG = 0x22,
        /// Sets the compute partition mode.
        SRIOV_SPATIAL_PART = 0x27,
        /// Overrides of SQ clock gating for profilers.
        CONFIG_SQ_PERFMON = 0x46,
        /// Sets the NPS (memory partition) mode of the next reset.
        FB_NPS_MODE = 0x48,
        /// Queries or sets the PTL (peak TOPS limiter).
        PERF_HW = 0x4c,
        /// Queries the memory reserved by firmware.
        FB_FW_RESERV_ADDR = 0x50,
        /// Queries the extension of the memory reserved by firmware.
        FB_FW_RESERV_EXT_ADDR = 0x51,
        /// Sets the MMHUB ECO security level.
        SET_MMHUB_ECO_SEC_LEVEL = 0x5d,
    }
}

numbers! {
    /// Types of [`cmd::LOAD_IP_FW`] on these chips (`enum psp_gfx_fw_type`).
    fw_type: u32 {
        /// None.
        NONE = 0,
        /// MEC.
        CP_MEC = 4,
        /// Jump table of MEC 1.
        CP_MEC_ME1 = 5,
        /// Jump table of MEC 2.
        CP_MEC_ME2 = 6,
        /// RLC of virtual functions.
        RLC_V = 7,
        /// RLC.
        RLC_G = 8,
        /// SDMA engine 0.
        SDMA0 = 9,
        /// SDMA engine 1.
        SDMA1 = 10,
        /// VCN.
        VCN = 13,
        /// SMU.
        SMU = 18,
        /// RLC save/restore list GPM.
        RLC_RESTORE_LIST_GPM_MEM = 20,
        /// RLC save/restore list SRM.
        RLC_RESTORE_LIST_SRM_MEM = 21,
        /// RLC save/restore list CNTL.
        RLC_RESTORE_LIST_SRM_CNTL = 22,
        /// TOC (list of firmware).
        TOC = 24,
        /// RLC instruction memory.
        RLC_IRAM = 26,
        /// MES, pipe 0.
        CP_MES = 33,
        /// Data of MES, pipe 0.
        MES_STACK = 34,
        /// RLC data memory.
        RLC_DRAM_BOOT = 48,
        /// SDMA engine 2.
        SDMA2 = 52,
        /// SDMA engine 3.
        SDMA3 = 53,
        /// SDMA engine 4.
        SDMA4 = 54,
        /// SDMA engine 5.
        SDMA5 = 55,
        /// SDMA engine 6.
        SDMA6 = 56,
        /// SDMA engine 7.
        SDMA7 = 57,
        /// Capabilities of a virtual function.
        CAP = 62,
        /// List of protected registers.
        REG_LIST = 67,
        /// IMU instructions.
        IMU_I = 68,
        /// IMU data.
        IMU_D = 69,
        /// SDMA, all engines.
        SDMA_UCODE_TH0 = 71,
        /// MES, pipe 1.
        CP_MES_KIQ = 81,
        /// Data of MES, pipe 1.
        MES_KIQ_STACK = 82,
        /// PFP.
        RS64_PFP = 87,
        /// ME.
        RS64_ME = 88,
        /// MEC, 64-bit.
        RS64_MEC = 89,
        /// Data of PFP, pipe 0.
        RS64_PFP_P0_STACK = 90,
        /// Data of ME, pipe 0.
        RS64_ME_P0_STACK = 92,
        /// Data of MEC, pipe 0.
        RS64_MEC_P0_STACK = 94,
        /// Data of MEC, pipe 1.
        RS64_MEC_P1_STACK = 95,
        /// P2S (power and frequency) table.
        P2S_TABLE = 129,
    }
}

/// Returns the [`fw_type`] of SDMA engine `engine`.
pub const fn sdma_fw_type(engine: u32) -> Option<u32> {
    match engine {
        0 | 1 => Some(fw_type::SDMA0 + engine),
        2..=7 => Some(fw_type::SDMA2 + engine - 2),
        _ => None,
    }
}

/// [`cmd::LOAD_TA`] and [`cmd::LOAD_ASD`]: byte offsets from [`cmd_buf::CMD`] (`struct
/// psp_gfx_cmd_load_ta`).
pub mod load_ta {
    /// Address of the TA image, low half.
    pub const APP_ADDR_LO: usize = 0;
    /// Address of the TA image, high half.
    pub const APP_ADDR_HI: usize = 4;
    /// Size of the TA image, in bytes.
    pub const APP_LEN: usize = 8;
    /// Address of the command buffer, low half; unused if its size is 0.
    pub const CMD_BUF_ADDR_LO: usize = 12;
    /// Address of the command buffer, high half.
    pub const CMD_BUF_ADDR_HI: usize = 16;
    /// Size of the command buffer, in bytes.
    pub const CMD_BUF_LEN: usize = 20;
}

/// [`cmd::UNLOAD_TA`] (`struct psp_gfx_cmd_unload_ta`).
pub mod unload_ta {
    /// Session id.
    pub const SESSION_ID: usize = 0;
}

/// [`cmd::INVOKE_CMD`] (`struct psp_gfx_cmd_invoke_cmd`).
pub mod invoke {
    /// Session id.
    pub const SESSION_ID: usize = 0;
    /// Command id of the TA.
    pub const TA_CMD_ID: usize = 4;
}

/// [`cmd::SETUP_TMR`] (`struct psp_gfx_cmd_setup_tmr`).
pub mod setup_tmr {
    use super::Field;

    /// Address of the TMR, low half; address and size zero select the region reserved at boot.
    pub const BUF_ADDR_LO: usize = 0;
    /// Address of the TMR, high half.
    pub const BUF_ADDR_HI: usize = 4;
    /// Size of the TMR, in bytes.
    pub const BUF_SIZE: usize = 8;
    /// Flags, `FLAG_*`.
    pub const FLAGS: usize = 12;
    /// Physical address of the TMR in VRAM, low half.
    pub const SYSTEM_ADDR_LO: usize = 16;
    /// Physical address of the TMR in VRAM, high half.
    pub const SYSTEM_ADDR_HI: usize = 20;
    /// Flag: virtual function.
    pub const FLAG_SRIOV: Field = Field::span(0, 0);
    /// Flag: both addresses are given.
    pub const FLAG_VIRT_PHY_ADDR: Field = Field::span(1, 1);
}

/// [`cmd::LOAD_IP_FW`] (`struct psp_gfx_cmd_load_ip_fw`).
pub mod load_ip_fw {
    /// Address of the firmware, low half.
    pub const FW_ADDR_LO: usize = 0;
    /// Address of the firmware, high half.
    pub const FW_ADDR_HI: usize = 4;
    /// Size of the firmware, in bytes.
    pub const FW_SIZE: usize = 8;
    /// A [`super::fw_type`].
    pub const FW_TYPE: usize = 12;
}

/// [`cmd::PROG_REG`] (`struct psp_gfx_cmd_reg_prog`).
pub mod prog_reg {
    /// Value of the register.
    pub const REG_VALUE: usize = 0;
    /// Id of the register.
    pub const REG_ID: usize = 4;
}

/// [`cmd::LOAD_TOC`] (`struct psp_gfx_cmd_load_toc`).
pub mod load_toc {
    /// Address of the TOC, low half.
    pub const TOC_ADDR_LO: usize = 0;
    /// Address of the TOC, high half.
    pub const TOC_ADDR_HI: usize = 4;
    /// Size of the TOC, in bytes.
    pub const TOC_SIZE: usize = 8;
}

/// [`cmd::SRIOV_SPATIAL_PART`] (`struct psp_gfx_cmd_sriov_spatial_part`).
pub mod spatial_part {
    /// Number of partitions.
    pub const MODE: usize = 0;
    /// Zero.
    pub const OVERRIDE_IPS: usize = 4;
    /// Zero.
    pub const OVERRIDE_XCDS_AVAIL: usize = 8;
    /// Zero.
    pub const OVERRIDE_THIS_AID: usize = 12;
}

/// [`cmd::FB_NPS_MODE`] (`struct psp_gfx_cmd_fb_memory_part`).
pub mod memory_part {
    /// NPS mode: number of memory partitions.
    pub const MODE: usize = 0;
}

/// Response of [`cmd::FB_FW_RESERV_ADDR`] and [`cmd::FB_FW_RESERV_EXT_ADDR`]: byte offsets from
/// [`resp::URESP`] (`struct psp_gfx_uresp_fw_reserve_info`).
pub mod fw_reserve {
    /// Offset in VRAM, high half.
    pub const BASE_HI: usize = 0;
    /// Offset in VRAM, low half.
    pub const BASE_LO: usize = 4;
    /// Size, in bytes.
    pub const SIZE: usize = 8;
}

/// [`cmd::PERF_HW`] (`struct psp_gfx_cmd_req_perf_hw`).
pub mod perf_hw {
    /// Request.
    pub const REQ: usize = 0;
}

/// An address in VMID 0, of VRAM or system memory: 48 bits.
pub const ADDRESS: Field64 = Field64::span(47, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fw_types_of_sdma_engines() {
        assert_eq!(sdma_fw_type(0), Some(fw_type::SDMA0));
        assert_eq!(sdma_fw_type(1), Some(fw_type::SDMA1));
        assert_eq!(sdma_fw_type(2), Some(fw_type::SDMA2));
        assert_eq!(sdma_fw_type(7), Some(fw_type::SDMA7));
        assert_eq!(sdma_fw_type(8), None);
        assert_eq!(fw_type::name(67), Some("REG_LIST"));
        assert_eq!(cmd::name(0x27), Some("SRIOV_SPATIAL_PART"));
        assert_eq!(cmd::name(0x28), None);
    }

    #[test]
    fn control_commands_fit_command_id() {
        for (name, value) in control::ALL {
            assert_eq!(*value & !COMMAND_ID.mask, 0, "{name}");
        }
    }
}
