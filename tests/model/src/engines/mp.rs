// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Mailboxes of the security processor (MP0) and the power processor (MP1), warm.
//!
//! The secure OS runs and all firmware is loaded, as after a boot with another driver. Commands
//! that would load firmware or make a ring belong to the cold start, which this model does not
//! have: they get no answer, and a strict line.

use rkfd_abi::regs::{mp_13_0_6 as mp, mp_14_0_2 as mp14, Reg};
use rkfd_abi::smu::{self, msg, response};

use crate::gpu::Gpu;
use crate::regs::{Ip, RegId, Slot};
use crate::{event, strict};

const BOOTLOADER: RegId = RegId::new(0, mp::regMP0_SMN_C2PMSG_35.off);
const RING: RegId = RegId::new(0, mp::regMP0_SMN_C2PMSG_64.off);
const SMU_MESSAGE: RegId = RegId::new(0, smu::MESSAGE.off);
/// The same of MP1 14.0, in its second segment.
const SMU_MESSAGE_14: RegId = RegId::new(1, mp14::regMP1_SMN_C2PMSG_66.off);

/// Same as `MP1_PUB_SCRATCH0`.
const SMU_VERSION: u32 = 0x0055_7b00;
/// `SMU13_0_6_DRIVER_IF_VERSION`.
const DRIVER_IF_VERSION: u32 = 0x0804_2024;

/// A register was written.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) {
    match slot.id {
        BOOTLOADER | RING => {
            slot.set(value & 0x7fff_ffff);
            strict!(
                gpu.strict,
                "psp",
                "command {value:#x} in {}: the security processor is only modelled as already booted",
                slot.name
            );
        }
        SMU_MESSAGE_14 => {
            slot.set(value);
            strict!(
                gpu.strict,
                "smu",
                "message {value:#x}: the power processor of this card is not modelled"
            );
        }
        SMU_MESSAGE => {
            slot.set(value);
            smu_message(gpu, value);
        }
        _ => gpu.store(slot, value),
    }
}

/// Sets a register of the power processor's mailbox.
fn put(gpu: &Gpu, reg: Reg, value: u32) {
    if let Some(slot) = gpu.regs.by_id(gpu.chip, Ip::Mp0, reg) {
        slot.set(value);
    }
}

fn smu_message(gpu: &Gpu, message: u32) {
    let get = |reg| gpu.regs.by_id(gpu.chip, Ip::Mp0, reg).map_or(0, Slot::get);
    let argument = get(smu::ARGUMENT);
    event!(
        gpu.trace,
        "smu",
        "message",
        "message={message:#x} argument={argument:#x}"
    );
    if get(smu::RESPONSE) != 0 {
        strict!(
            gpu.strict,
            "smu",
            "message {message:#x} while the response register was not cleared"
        );
    }
    let answer = match message {
        msg::TEST_MESSAGE => {
            put(gpu, smu::ARGUMENT, argument.wrapping_add(1));
            response::OK
        }
        msg::GET_SMU_VERSION => {
            put(gpu, smu::ARGUMENT, SMU_VERSION);
            response::OK
        }
        msg::GET_DRIVER_IF_VERSION => {
            put(gpu, smu::ARGUMENT, DRIVER_IF_VERSION);
            response::OK
        }
        msg::RESET_SDMA => {
            // The answer comes when the engines have stopped.
            let then = |gpu: &Gpu| put(gpu, smu::RESPONSE, response::OK);
            if gpu.sdma.reset_engines(argument, then) {
                return;
            }
            strict!(gpu.strict, "smu", "ResetSDMA of engines {argument:#x}");
            response::FAILED
        }
        _ => {
            strict!(gpu.strict, "smu", "message {message:#x} is not modelled");
            response::UNKNOWN_CMD
        }
    };
    put(gpu, smu::RESPONSE, answer);
}
