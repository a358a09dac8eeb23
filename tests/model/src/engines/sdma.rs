// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The DMA engines as far as they exist: their registers, idle. They carry out nothing, so
//! switching one of their rings on is refused loudly.

use rkfd_abi::regs::sdma_4_4_2 as sdma;

use crate::gpu::Gpu;
use crate::regs::Slot;
use crate::strict;

/// A register was written.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) {
    let enables = sdma::SDMA_GFX_RB_CNTL__RB_ENABLE.is_set(value);
    if slot.name.ends_with("_RB_CNTL") && enables {
        strict!(
            gpu.strict,
            "sdma",
            "engine {}: {} = {value:#x} enables a ring, but DMA engines are not modelled",
            slot.instance,
            slot.name
        );
    }
    gpu.store(slot, value);
}
