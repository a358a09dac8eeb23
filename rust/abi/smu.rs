// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU (system management unit): mailbox of firmware 13.0.6 (MP1).
//!
//! Sources: `pm/swsmu/inc/pmfw_if/smu_v13_0_6_ppsmc.h` (messages, responses),
//! `pm/swsmu/smu13/smu_v13_0.c` (registers). The driver clears [`RESPONSE`], writes [`ARGUMENT`],
//! then [`MESSAGE`]. The message is complete when [`RESPONSE`] is nonzero; [`ARGUMENT`] then holds
//! its return value, if any.

use crate::regs::{mp_13_0_6 as regs, name, Reg};

/// Message register; a write starts the message.
pub const MESSAGE: Reg<name::MP1_SMN_C2PMSG_66> = regs::regMP1_SMN_C2PMSG_66;
/// Register of the argument and the return value.
pub const ARGUMENT: Reg<name::MP1_SMN_C2PMSG_82> = regs::regMP1_SMN_C2PMSG_82;
/// Response register.
pub const RESPONSE: Reg<name::MP1_SMN_C2PMSG_90> = regs::regMP1_SMN_C2PMSG_90;

/// Messages (`PPSMC_MSG_*`).
pub mod msg {
    /// Returns the argument + 1.
    pub const TEST_MESSAGE: u32 = 0x1;
    /// Returns the firmware version.
    pub const GET_SMU_VERSION: u32 = 0x2;
    /// Resets the GPU; the argument is the reset mode.
    pub const GFX_DRIVER_RESET: u32 = 0x3;
    /// Returns the driver interface version.
    pub const GET_DRIVER_IF_VERSION: u32 = 0x4;
    /// Prepares the firmware for driver unload.
    pub const PREPARE_FOR_DRIVER_UNLOAD: u32 = 0x34;
    /// Resets SDMA engines; bit n of the argument is physical engine n of the package.
    pub const RESET_SDMA: u32 = 0x4d;
    /// All messages with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("TestMessage", TEST_MESSAGE),
        ("GetSmuVersion", GET_SMU_VERSION),
        ("GfxDriverReset", GFX_DRIVER_RESET),
        ("GetDriverIfVersion", GET_DRIVER_IF_VERSION),
        ("PrepareForDriverUnload", PREPARE_FOR_DRIVER_UNLOAD),
        ("ResetSDMA", RESET_SDMA),
    ];
}

/// Responses (`PPSMC_Result_*`). Zero while the message is in progress.
pub mod response {
    /// Success.
    pub const OK: u32 = 0x1;
    /// Failure.
    pub const FAILED: u32 = 0xff;
    /// Unknown message.
    pub const UNKNOWN_CMD: u32 = 0xfe;
    /// Rejected: prerequisite missing.
    pub const REJECTED_PREREQ: u32 = 0xfd;
    /// Rejected: another message is in progress.
    pub const REJECTED_BUSY: u32 = 0xfc;
    /// All responses with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("OK", OK),
        ("Failed", FAILED),
        ("UnknownCmd", UNKNOWN_CMD),
        ("CmdRejectedPrereq", REJECTED_PREREQ),
        ("CmdRejectedBusy", REJECTED_BUSY),
    ];
}
