// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The platform security processor, as version 13.0.6 speaks with a driver (IP block MP0).
//!
//! Sources: `amdgpu/psp_gfx_if.h` (commands and structures), `amdgpu/amdgpu_psp.h` (boot loader),
//! `amdgpu/psp_v13_0.c` (registers). Two mailboxes and a ring:
//!
//! * The boot loader, until the secure operating system runs: [`BOOTLOADER`] reads [`READY`], the
//!   driver writes an address >> [`BOOTLOADER_ADDRESS_SHIFT`] to [`BOOTLOADER_ADDRESS`] and a
//!   [`bootloader`] command to [`BOOTLOADER`], which reads [`READY`] again afterwards; bits 7:0 are
//!   not zero when the command failed.
//! * The secure operating system, alive when [`SIGN_OF_LIFE`] is not zero: commands of [`control`]
//!   in [`COMMAND`], answered by [`READY`] and a status in bits 15:0.
//! * The kernel's ring: [`frame`]s of 64 bytes, each naming a command buffer ([`cmd_buf`]) and a
//!   fence; [`RING_WPTR`] counts dwords and wraps at the ring's size. All addresses are those of
//!   address space 0.

use crate::bits::{Field, Field64};
use crate::regs::{mp_13_0_6 as regs, name, Reg, Untyped};

/// Reads [`READY`] when the boot loader's mailbox can be used.
pub const MAILBOX: Reg<name::MP0_SMN_C2PMSG_33> = regs::regMP0_SMN_C2PMSG_33;
/// The boot loader's command and answer.
pub const BOOTLOADER: Reg<name::MP0_SMN_C2PMSG_35> = regs::regMP0_SMN_C2PMSG_35;
/// The address of what the boot loader is to load, in units of 1 MiB.
pub const BOOTLOADER_ADDRESS: Reg<name::MP0_SMN_C2PMSG_36> = regs::regMP0_SMN_C2PMSG_36;
/// The version of the secure operating system that runs.
pub const VERSION: Reg<name::MP0_SMN_C2PMSG_58> = regs::regMP0_SMN_C2PMSG_58;
/// Command and answer of the secure operating system.
pub const COMMAND: Reg<name::MP0_SMN_C2PMSG_64> = regs::regMP0_SMN_C2PMSG_64;
/// The kernel ring's write pointer, in dwords.
pub const RING_WPTR: Reg<name::MP0_SMN_C2PMSG_67> = regs::regMP0_SMN_C2PMSG_67;
/// The kernel ring's address, low half.
pub const RING_ADDRESS_LO: Reg<name::MP0_SMN_C2PMSG_69> = regs::regMP0_SMN_C2PMSG_69;
/// The kernel ring's address, high half.
pub const RING_ADDRESS_HI: Reg<name::MP0_SMN_C2PMSG_70> = regs::regMP0_SMN_C2PMSG_70;
/// The kernel ring's size in bytes.
pub const RING_SIZE: Reg<name::MP0_SMN_C2PMSG_71> = regs::regMP0_SMN_C2PMSG_71;
/// Not zero while the secure operating system runs; changes when it was loaded.
pub const SIGN_OF_LIFE: Reg<name::MP0_SMN_C2PMSG_81> = regs::regMP0_SMN_C2PMSG_81;
/// Progress and errors of the boot loader, for a report.
pub const BOOTLOADER_STATUS: Reg<name::MP0_SMN_C2PMSG_92> = regs::regMP0_SMN_C2PMSG_92;
/// What the card's error protection covers. The headers of 13.0.6 lack it, the driver takes it from
/// those of 13.0.2.
pub const RAS_CAPABILITY: Reg<Untyped> = Reg::new("regMP0_SMN_C2PMSG_127", 0, 0x00bf);
/// The version of the system management firmware: byte address in SMN (`MP1_PUB_SCRATCH0`).
pub const SMU_VERSION_SMN: u32 = 0x03b1_0090;
/// Below this version of the system management firmware the other half of the boot files is for it
/// (`psp_v13_0_is_aux_sos_load_required`).
pub const SMU_VERSION_NO_AUX: u32 = 0x0055_7300;

/// A mailbox is ready, or its command was answered.
pub const READY: u32 = 1 << 31;
/// Status of a [`control`] command; zero is success.
pub const STATUS: Field = Field::span(15, 0);
/// The command's number in [`COMMAND`].
pub const COMMAND_ID: Field = Field::span(19, 16);
/// Blocks of [`RAS_CAPABILITY`] that are protected.
pub const RAS_BLOCKS: Field = Field::span(23, 0);
/// Whether a damaged word is marked and followed ([`RAS_CAPABILITY`]).
pub const RAS_POISON: Field = Field::span(24, 24);

/// [`BOOTLOADER_ADDRESS`] has the address shifted by this.
pub const BOOTLOADER_ADDRESS_SHIFT: u32 = 20;
/// Bytes of the buffer in which a driver hands over what is loaded; its alignment, too.
pub const TRANSFER_SIZE: u64 = 0x10_0000;
/// Bytes of the trusted memory region where firmware does not say how many it needs.
pub const TMR_SIZE: u64 = 0x40_0000;
/// Alignment of the trusted memory region.
pub const TMR_ALIGN: u64 = 0x10_0000;
/// Alignment of addresses in commands.
pub const ADDRESS_ALIGN: u64 = 0x1000;

/// Commands of the boot loader.
pub mod bootloader {
    /// Loads the system driver.
    pub const LOAD_SYSDRV: u32 = 0x10000;
    /// Loads and starts the secure operating system.
    pub const LOAD_SOSDRV: u32 = 0x20000;
    /// Loads the key database.
    pub const LOAD_KEY_DATABASE: u32 = 0x80000;
    /// Loads the driver of the chip.
    pub const LOAD_SOCDRV: u32 = 0xb0000;
    /// Loads the debugger's driver.
    pub const LOAD_DBGDRV: u32 = 0xc0000;
    /// Loads the interface driver.
    pub const LOAD_INTFDRV: u32 = 0xd0000;
    /// Loads the driver of error protection.
    pub const LOAD_RASDRV: u32 = 0xe0000;
    /// Loads the key manager.
    pub const LOAD_IPKEYMGRDRV: u32 = 0xf0000;
    /// Trains the memory from nothing.
    pub const DRAM_LONG_TRAIN: u32 = 0x10_0000;
    /// Trains the memory with what an earlier training found.
    pub const DRAM_SHORT_TRAIN: u32 = 0x20_0000;
    /// Loads the table of security patch levels.
    pub const LOAD_TOS_SPL_TABLE: u32 = 0x1000_0000;
    /// Loads the driver of the security protocol.
    pub const LOAD_SPDMDRV: u32 = 0x2000_0000;
    /// All of them with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("LOAD_SYSDRV", LOAD_SYSDRV),
        ("LOAD_SOSDRV", LOAD_SOSDRV),
        ("LOAD_KEY_DATABASE", LOAD_KEY_DATABASE),
        ("LOAD_SOCDRV", LOAD_SOCDRV),
        ("LOAD_DBGDRV", LOAD_DBGDRV),
        ("LOAD_INTFDRV", LOAD_INTFDRV),
        ("LOAD_RASDRV", LOAD_RASDRV),
        ("LOAD_IPKEYMGRDRV", LOAD_IPKEYMGRDRV),
        ("DRAM_LONG_TRAIN", DRAM_LONG_TRAIN),
        ("DRAM_SHORT_TRAIN", DRAM_SHORT_TRAIN),
        ("LOAD_TOS_SPL_TABLE", LOAD_TOS_SPL_TABLE),
        ("LOAD_SPDMDRV", LOAD_SPDMDRV),
    ];
}

/// Commands of the secure operating system in [`COMMAND`].
pub mod control {
    /// Creates the user ring.
    pub const INIT_RBI_RING: u32 = 0x10000;
    /// Creates the kernel ring.
    pub const INIT_GPCOM_RING: u32 = 0x20000;
    /// Destroys all rings.
    pub const DESTROY_RINGS: u32 = 0x30000;
    /// Asks whether a ring may be created.
    pub const CAN_INIT_RINGS: u32 = 0x40000;
    /// Resets the card on parts before version 13; 13.0.6 does not have it, there the system
    /// management firmware resets.
    pub const MODE1_RST: u32 = 0x70000;
    /// Reads the write pointer again (virtual functions).
    pub const CONSUME_CMD: u32 = 0x90000;
    /// Destroys the kernel ring (virtual functions).
    pub const DESTROY_GPCOM_RING: u32 = 0xc0000;
    /// Those with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("INIT_RBI_RING", INIT_RBI_RING),
        ("INIT_GPCOM_RING", INIT_GPCOM_RING),
        ("DESTROY_RINGS", DESTROY_RINGS),
        ("CAN_INIT_RINGS", CAN_INIT_RINGS),
        ("MODE1_RST", MODE1_RST),
        ("CONSUME_CMD", CONSUME_CMD),
        ("DESTROY_GPCOM_RING", DESTROY_GPCOM_RING),
    ];
}

/// Bytes of the ring that drivers use (`psp_ring_init`).
pub const RING_BYTES: u32 = 0x1000;

/// A frame of the ring: byte offsets (`struct psp_gfx_rb_frame`).
pub mod frame {
    /// The command buffer's address, low half.
    pub const CMD_BUF_ADDR_LO: usize = 0;
    /// High half.
    pub const CMD_BUF_ADDR_HI: usize = 4;
    /// Its size in bytes; Linux leaves it zero.
    pub const CMD_BUF_SIZE: usize = 8;
    /// The fence's address, low half.
    pub const FENCE_ADDR_LO: usize = 12;
    /// High half.
    pub const FENCE_ADDR_HI: usize = 16;
    /// What is written there, 32 bits, when the command is done.
    pub const FENCE_VALUE: usize = 20;
    /// Session of a user ring's frame, low half.
    pub const SID_LO: usize = 24;
    /// High half.
    pub const SID_HI: usize = 28;
    /// Address space of all addresses of the frame (8 bits).
    pub const VMID: usize = 32;
    /// 1 destroys a context, user ring only (8 bits).
    pub const FRAME_TYPE: usize = 33;
    /// Must be zero from here (2 bytes).
    pub const RESERVED1: usize = 34;
    /// Must be zero (7 dwords).
    pub const RESERVED2: usize = 36;
    /// Bytes.
    pub const SIZE: usize = 64;
}

/// A command buffer: byte offsets (`struct psp_gfx_cmd_resp`).
pub mod cmd_buf {
    /// Its size; Linux leaves it zero.
    pub const BUF_SIZE: usize = 0;
    /// [`super::BUFFER_VERSION`], or zero as Linux leaves it.
    pub const BUF_VERSION: usize = 4;
    /// A [`super::cmd`].
    pub const CMD_ID: usize = 8;
    /// Zero on the kernel's ring, from here to [`CMD`].
    pub const RESP_BUF_ADDR_LO: usize = 12;
    /// The command's own structure.
    pub const CMD: usize = 28;
    /// The response.
    pub const RESP: usize = 864;
    /// Bytes.
    pub const SIZE: usize = 1024;
}

/// `PSP_GFX_CMD_BUF_VERSION`.
pub const BUFFER_VERSION: u32 = 1;

/// The response in a command buffer: byte offsets in it (`struct psp_gfx_resp`).
pub mod resp {
    /// A [`super::status`].
    pub const STATUS: usize = 0;
    /// Session of a trusted application that was loaded.
    pub const SESSION_ID: usize = 4;
    /// Where firmware was put in the trusted memory region, low half.
    pub const FW_ADDR_LO: usize = 8;
    /// High half.
    pub const FW_ADDR_HI: usize = 12;
    /// Bytes that the trusted memory region needs (after [`super::cmd::LOAD_TOC`]).
    pub const TMR_SIZE: usize = 16;
    /// A command's own response.
    pub const URESP: usize = 64;
    /// Bytes.
    pub const SIZE: usize = 96;
}

/// Statuses of a response.
pub mod status {
    /// Done.
    pub const SUCCESS: u32 = 0;
    /// No such command.
    pub const UNKNOWN_COMMAND: u32 = 0x100;
    /// Cancelled: it was loaded already.
    pub const CANCEL: u32 = 0xffff_0002;
    /// Known, but not to be had here.
    pub const NOT_SUPPORTED: u32 = 0xffff_000a;
    /// All of them with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("TEE_SUCCESS", SUCCESS),
        ("PSP_ERR_UNKNOWN_COMMAND", UNKNOWN_COMMAND),
        ("TEE_ERROR_CANCEL", CANCEL),
        ("TEE_ERROR_NOT_SUPPORTED", NOT_SUPPORTED),
    ];
    /// Further codes of trusted execution environments, of the same family by GlobalPlatform's
    /// "TEE Client API Specification" 1.0, table 4-2; Linux has no name for them.
    pub mod tee {
        /// Something failed.
        pub const GENERIC: u32 = 0xffff_0000;
        /// Not allowed.
        pub const ACCESS_DENIED: u32 = 0xffff_0001;
        /// Data of the wrong format.
        pub const BAD_FORMAT: u32 = 0xffff_0005;
        /// A parameter is wrong.
        pub const BAD_PARAMETERS: u32 = 0xffff_0006;
        /// Not in this state.
        pub const BAD_STATE: u32 = 0xffff_0007;
        /// No such thing.
        pub const ITEM_NOT_FOUND: u32 = 0xffff_0008;
        /// No memory left.
        pub const OUT_OF_MEMORY: u32 = 0xffff_000c;
        /// A signature does not fit.
        pub const SECURITY: u32 = 0xffff_000f;
    }
}

macro_rules! numbers {
    ($(#[$meta:meta])* $module:ident { $($(#[$doc:meta])* $name:ident = $value:expr,)* }) => {
        $(#[$meta])*
        pub mod $module {
            $($(#[$doc])* pub const $name: u32 = $value;)*
            /// All of them with AMD's names.
            pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $name),)*];

            /// AMD's name of a number.
            pub fn name(value: u32) -> Option<&'static str> {
                ALL.iter().find(|(_, v)| *v == value).map(|(name, _)| *name)
            }
        }
    };
}

numbers! {
    /// Commands of the kernel's ring (`GFX_CMD_ID_...`).
    cmd {
        /// Loads a trusted application.
        LOAD_TA = 0x1,
        /// Unloads one.
        UNLOAD_TA = 0x2,
        /// Calls one.
        INVOKE_CMD = 0x3,
        /// Loads the driver of the trusted applications.
        LOAD_ASD = 0x4,
        /// Sets the trusted memory region.
        SETUP_TMR = 0x5,
        /// Loads the firmware of an engine.
        LOAD_IP_FW = 0x6,
        /// Gives the trusted memory region back.
        DESTROY_TMR = 0x7,
        /// Saves or restores the firmware of an engine.
        SAVE_RESTORE = 0x8,
        /// [`SETUP_TMR`] of a virtual function.
        SETUP_VMR = 0x9,
        /// [`DESTROY_TMR`] of a virtual function.
        DESTROY_VMR = 0xa,
        /// Writes a register that is protected.
        PROG_REG = 0xb,
        /// Says where the records of what was loaded are.
        GET_FW_ATTESTATION = 0xf,
        /// Loads the list of firmware.
        LOAD_TOC = 0x20,
        /// Says that all firmware was given.
        AUTOLOAD_RLC = 0x21,
        /// Boot configuration.
        BOOT_CFG = 0x22,
        /// Divides the card into partitions.
        SRIOV_SPATIAL_PART = 0x27,
        /// Overrides of clock gating for profilers.
        CONFIG_SQ_PERFMON = 0x46,
        /// Divides the memory, from the next reset.
        FB_NPS_MODE = 0x48,
        /// Limits of matrix throughput.
        PERF_HW = 0x4c,
        /// Asks where firmware reserved memory.
        FB_FW_RESERV_ADDR = 0x50,
        /// Asks for the extension of that.
        FB_FW_RESERV_EXT_ADDR = 0x51,
        /// Security level of the memory hub.
        SET_MMHUB_ECO_SEC_LEVEL = 0x5d,
    }
}

numbers! {
    /// Types of [`cmd::LOAD_IP_FW`] that these generations have (`GFX_FW_TYPE_...`).
    fw_type {
        /// None.
        NONE = 0,
        /// Compute engines.
        CP_MEC = 4,
        /// Their jump table.
        CP_MEC_ME1 = 5,
        /// The jump table of the second compute engine.
        CP_MEC_ME2 = 6,
        /// Run list controller of virtual functions.
        RLC_V = 7,
        /// Run list controller.
        RLC_G = 8,
        /// First DMA engine.
        SDMA0 = 9,
        /// Second DMA engine.
        SDMA1 = 10,
        /// Video.
        VCN = 13,
        /// System management.
        SMU = 18,
        /// Register save and restore list: code.
        RLC_RESTORE_LIST_GPM_MEM = 20,
        /// Register save and restore list: memory.
        RLC_RESTORE_LIST_SRM_MEM = 21,
        /// Register save and restore list: control.
        RLC_RESTORE_LIST_SRM_CNTL = 22,
        /// List of firmware.
        TOC = 24,
        /// DMA engine 2.
        SDMA2 = 52,
        /// DMA engine 3.
        SDMA3 = 53,
        /// DMA engine 4.
        SDMA4 = 54,
        /// DMA engine 5.
        SDMA5 = 55,
        /// DMA engine 6.
        SDMA6 = 56,
        /// DMA engine 7.
        SDMA7 = 57,
        /// What a virtual function may do.
        CAP = 62,
        /// Registers that are protected.
        REG_LIST = 67,
        /// Table of power and frequency.
        P2S_TABLE = 129,
    }
}

/// Type of the firmware of DMA engine `engine`.
pub const fn sdma_fw_type(engine: u32) -> Option<u32> {
    match engine {
        0 | 1 => Some(fw_type::SDMA0 + engine),
        2..=7 => Some(fw_type::SDMA2 + engine - 2),
        _ => None,
    }
}

/// [`cmd::LOAD_TA`] and [`cmd::LOAD_ASD`]: byte offsets from [`cmd_buf::CMD`].
pub mod load_ta {
    /// The program's address, low half.
    pub const APP_ADDR_LO: usize = 0;
    /// High half.
    pub const APP_ADDR_HI: usize = 4;
    /// Its bytes.
    pub const APP_LEN: usize = 8;
    /// The buffer for calls, low half; none when its length is zero.
    pub const CMD_BUF_ADDR_LO: usize = 12;
    /// High half.
    pub const CMD_BUF_ADDR_HI: usize = 16;
    /// Its bytes.
    pub const CMD_BUF_LEN: usize = 20;
}

/// [`cmd::UNLOAD_TA`].
pub mod unload_ta {
    /// The session.
    pub const SESSION_ID: usize = 0;
}

/// [`cmd::INVOKE_CMD`].
pub mod invoke {
    /// The session.
    pub const SESSION_ID: usize = 0;
    /// What the application is to do.
    pub const TA_CMD_ID: usize = 4;
}

/// [`cmd::SETUP_TMR`].
pub mod setup_tmr {
    use super::Field;

    /// The region's address, low half; zero with size zero: the region that the boot firmware set
    /// aside.
    pub const BUF_ADDR_LO: usize = 0;
    /// High half.
    pub const BUF_ADDR_HI: usize = 4;
    /// Its bytes.
    pub const BUF_SIZE: usize = 8;
    /// Flags.
    pub const FLAGS: usize = 12;
    /// The region's address in the card's memory, low half.
    pub const SYSTEM_ADDR_LO: usize = 16;
    /// High half.
    pub const SYSTEM_ADDR_HI: usize = 20;
    /// Flag: a virtual function.
    pub const FLAG_SRIOV: Field = Field::span(0, 0);
    /// Flag: both addresses are given.
    pub const FLAG_VIRT_PHY_ADDR: Field = Field::span(1, 1);
}

/// [`cmd::LOAD_IP_FW`].
pub mod load_ip_fw {
    /// The firmware's address, low half.
    pub const FW_ADDR_LO: usize = 0;
    /// High half.
    pub const FW_ADDR_HI: usize = 4;
    /// Its bytes.
    pub const FW_SIZE: usize = 8;
    /// A [`super::fw_type`].
    pub const FW_TYPE: usize = 12;
}

/// [`cmd::PROG_REG`].
pub mod prog_reg {
    /// The value.
    pub const REG_VALUE: usize = 0;
    /// Which register.
    pub const REG_ID: usize = 4;
}

/// [`cmd::LOAD_TOC`].
pub mod load_toc {
    /// The list's address, low half.
    pub const TOC_ADDR_LO: usize = 0;
    /// High half.
    pub const TOC_ADDR_HI: usize = 4;
    /// Its bytes.
    pub const TOC_SIZE: usize = 8;
}

/// [`cmd::SRIOV_SPATIAL_PART`].
pub mod spatial_part {
    /// How many partitions.
    pub const MODE: usize = 0;
    /// Zero.
    pub const OVERRIDE_IPS: usize = 4;
    /// Zero.
    pub const OVERRIDE_XCDS_AVAIL: usize = 8;
    /// Zero.
    pub const OVERRIDE_THIS_AID: usize = 12;
}

/// [`cmd::FB_NPS_MODE`].
pub mod memory_part {
    /// The mode: number of memory partitions.
    pub const MODE: usize = 0;
}

/// [`cmd::PERF_HW`].
pub mod perf_hw {
    /// What is asked.
    pub const REQ: usize = 0;
}

/// An address in the card's memory or in system memory of address space 0, 48 bits.
pub const ADDRESS: Field64 = Field64::span(47, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_dma_engines() {
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
    fn control_commands_are_in_their_field() {
        for (name, value) in control::ALL {
            assert_eq!(*value & !COMMAND_ID.mask, 0, "{name}");
        }
    }
}
