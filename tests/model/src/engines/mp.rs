// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Mailboxes of the security processor (MP0) and the power processor (MP1), warm.
//!
//! The secure OS runs and all firmware is loaded, as after a boot with another driver. Commands
//! that would load firmware or make a ring belong to the cold start, which this model does not
//! have: they get no answer, and a strict line.

use rkfd_abi::regs::mp_13_0_6 as mp;

use crate::gpu::Gpu;
use crate::regs::{Ip, RegId, Slot};
use crate::strict;

const BOOTLOADER: RegId = RegId::new(0, mp::regMP0_SMN_C2PMSG_35.off);
const RING: RegId = RegId::new(0, mp::regMP0_SMN_C2PMSG_64.off);
const SMU_MESSAGE: RegId = RegId::new(0, mp::regMP1_SMN_C2PMSG_66.off);

/// Messages of the power processor that the model answers.
const SMU_TEST: u32 = 1;
const SMU_GET_VERSION: u32 = 2;
const SMU_OK: u32 = 1;
const SMU_UNKNOWN: u32 = 0xfe;
/// Same as `MP1_PUB_SCRATCH0`.
const SMU_VERSION: u32 = 0x0055_7b00;

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
        SMU_MESSAGE => {
            slot.set(value);
            smu_message(gpu, value);
        }
        _ => gpu.store(slot, value),
    }
}

fn smu_message(gpu: &Gpu, message: u32) {
    let register = |reg| gpu.regs.by_id(gpu.chip, Ip::Mp0, reg);
    let (Some(argument), Some(response)) = (
        register(mp::regMP1_SMN_C2PMSG_82),
        register(mp::regMP1_SMN_C2PMSG_90),
    ) else {
        return;
    };
    response.set(match message {
        SMU_TEST => {
            argument.set(argument.get().wrapping_add(1));
            SMU_OK
        }
        SMU_GET_VERSION => {
            argument.set(SMU_VERSION);
            SMU_OK
        }
        _ => {
            strict!(gpu.strict, "smu", "message {message:#x} is not modelled");
            SMU_UNKNOWN
        }
    });
}
