// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The data fabric, DF 4.15: whether atomic operations on system memory reach the bus.

use gpu_regs::df_4_15::{
    regNCSConfigurationRegister1, NCSConfigurationRegister1__DisIntAtomicsLclProcessing as DISABLE,
};

use crate::gpu::Gpu;
use crate::regs::{RegId, Slot};

/// Kinds of operations that the fabric must not process (`df_v4_15_hw_init`).
const KINDS: u32 = 1 << 1 | 1 << 2 | 1 << 13;

/// Handles a register write.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) {
    gpu.store(slot, value);
    if slot.id == RegId::from(regNCSConfigurationRegister1) {
        let forwards = DISABLE.get(slot.get()) & KINDS == KINDS;
        gpu.gmc.set_fabric_forwards_atomics(forwards);
    }
}
