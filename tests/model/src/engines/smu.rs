// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMU (MP1) mailbox: versions, resets.
//!
//! Its firmware runs in every state of the rest of the card.

use gpu_regs::{mp_14_0_2 as mp14, smu as mailbox, Reg};
use rkfd_abi::smu::{msg, response};

use crate::chips::Generation;
use crate::gpu::{Gpu, Reset};
use crate::regs::{Ip, RegId, Slot};
use crate::{event, strict};

const MESSAGE: RegId = RegId::new(0, mailbox::MESSAGE.off);
/// The same of MP1 14.0, in its second segment.
const MESSAGE_14: RegId = RegId::new(1, mp14::regMP1_SMN_C2PMSG_66.off);

/// Same as `MP1_PUB_SCRATCH0`.
const SMU_VERSION: u32 = 0x0055_7b00;
/// `SMU13_0_6_DRIVER_IF_VERSION`.
const DRIVER_IF_VERSION: u32 = 0x0804_2024;
/// `SMU_RESET_MODE_1`, in the low half of the argument of a reset.
const MODE_1: u32 = 1;

/// Handles a write to a mailbox register; returns false for other registers.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) -> bool {
    match slot.id {
        MESSAGE_14 => {
            slot.set(value);
            strict!(
                gpu.strict,
                "smu",
                "message {value:#x}: the SMU of this card is not modelled"
            );
        }
        MESSAGE if gpu.chip.generation == Generation::Gfx9 => {
            slot.set(value);
            message(gpu, value);
        }
        _ => return false,
    }
    true
}

/// Sets a mailbox register.
fn put(gpu: &Gpu, reg: Reg, value: u32) {
    if let Some(slot) = gpu.regs.by_id(gpu.chip, Ip::Mp0, reg) {
        slot.set(value);
    }
}

fn message(gpu: &Gpu, message: u32) {
    let get = |reg| gpu.regs.by_id(gpu.chip, Ip::Mp0, reg).map_or(0, Slot::get);
    let argument = get(mailbox::ARGUMENT);
    event!(
        gpu.trace,
        "smu",
        "message",
        "message={message:#x} argument={argument:#x}"
    );
    if get(mailbox::RESPONSE) != 0 {
        strict!(
            gpu.strict,
            "smu",
            "message {message:#x} while the response register is not cleared"
        );
    }
    let response = match message {
        msg::TEST_MESSAGE => {
            put(gpu, mailbox::ARGUMENT, argument.wrapping_add(1));
            response::OK
        }
        msg::GET_SMU_VERSION => {
            put(gpu, mailbox::ARGUMENT, SMU_VERSION);
            response::OK
        }
        msg::GET_DRIVER_IF_VERSION => {
            put(gpu, mailbox::ARGUMENT, DRIVER_IF_VERSION);
            response::OK
        }
        // The upper half contains whether a fatal error was the reason (smu_v13_0_6_mode1_reset).
        msg::GFX_DRIVER_RESET if argument & 0xffff == MODE_1 && argument >> 17 == 0 => {
            // The mailbox is not reset: the driver reads its response.
            gpu.reset(Reset::Mode1);
            response::OK
        }
        msg::RESET_SDMA => {
            // The response is written when the engines are reset.
            let then = |gpu: &Gpu| put(gpu, mailbox::RESPONSE, response::OK);
            if gpu.sdma.request_reset(argument, then) {
                return;
            }
            strict!(gpu.strict, "smu", "ResetSDMA of engines {argument:#x}");
            response::FAILED
        }
        _ => {
            strict!(
                gpu.strict,
                "smu",
                "message {message:#x} with argument {argument:#x} is not modelled"
            );
            response::UNKNOWN_CMD
        }
    };
    put(gpu, mailbox::RESPONSE, response);
}
