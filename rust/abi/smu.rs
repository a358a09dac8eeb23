// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The system management unit's mailbox, as firmware 13.0.6 speaks it (IP block MP1).
//!
//! Sources: `pm/swsmu/inc/pmfw_if/smu_v13_0_6_ppsmc.h` (messages, responses), `pm/swsmu/smu13/smu_v13_0.c`
//! (registers). The driver clears [`RESPONSE`], writes [`ARGUMENT`], then [`MESSAGE`]; the answer is
//! there when [`RESPONSE`] is not zero, a value that the message returns then is in [`ARGUMENT`].

use crate::regs::{mp_13_0_6 as regs, name, Reg};

/// The mailbox register that takes a message; writing it starts the firmware.
pub const MESSAGE: Reg<name::MP1_SMN_C2PMSG_66> = regs::regMP1_SMN_C2PMSG_66;
/// The mailbox register of the message's argument and of the value that it returns.
pub const ARGUMENT: Reg<name::MP1_SMN_C2PMSG_82> = regs::regMP1_SMN_C2PMSG_82;
/// The mailbox register of the response.
pub const RESPONSE: Reg<name::MP1_SMN_C2PMSG_90> = regs::regMP1_SMN_C2PMSG_90;

/// Messages.
pub mod msg {
    /// Answers OK, and the argument + 1.
    pub const TEST_MESSAGE: u32 = 0x1;
    /// Returns the firmware's version.
    pub const GET_SMU_VERSION: u32 = 0x2;
    /// Resets the graphics part; the argument is the reset's mode.
    pub const GFX_DRIVER_RESET: u32 = 0x3;
    /// Returns the version of the interface between driver and firmware.
    pub const GET_DRIVER_IF_VERSION: u32 = 0x4;
    /// Makes the firmware ready for a driver that goes away.
    pub const PREPARE_FOR_DRIVER_UNLOAD: u32 = 0x34;
    /// Resets SDMA engines; bit n of the argument is engine n of the package (its
    /// physical number).
    pub const RESET_SDMA: u32 = 0x4d;
    /// All of them with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("TestMessage", TEST_MESSAGE),
        ("GetSmuVersion", GET_SMU_VERSION),
        ("GfxDriverReset", GFX_DRIVER_RESET),
        ("GetDriverIfVersion", GET_DRIVER_IF_VERSION),
        ("PrepareForDriverUnload", PREPARE_FOR_DRIVER_UNLOAD),
        ("ResetSDMA", RESET_SDMA),
    ];
}

/// Responses. Zero: the firmware is still busy.
pub mod response {
    /// Done.
    pub const OK: u32 = 0x1;
    /// It could not be done.
    pub const FAILED: u32 = 0xff;
    /// No such message.
    pub const UNKNOWN_CMD: u32 = 0xfe;
    /// Something has to be done first.
    pub const REJECTED_PREREQ: u32 = 0xfd;
    /// Another message is being worked on.
    pub const REJECTED_BUSY: u32 = 0xfc;
    /// All of them with AMD's names.
    pub const ALL: &[(&str, u32)] = &[
        ("OK", OK),
        ("Failed", FAILED),
        ("UnknownCmd", UNKNOWN_CMD),
        ("CmdRejectedPrereq", REJECTED_PREREQ),
        ("CmdRejectedBusy", REJECTED_BUSY),
    ];
}
