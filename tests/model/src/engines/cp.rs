// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The command processor: hardware queues, their doorbells and the packets they carry.
//!
//! BAR accesses arrive on the thread that serves the guest and must return at once; work is
//! handed to [`Cp::run`], which has a thread of its own, through the mailbox.

use crate::gpu::Gpu;
use crate::mailbox::{Mailbox, Recv};
use crate::regs::{Decl, RegId, Selector};
use crate::strict;

/// Registers that the command processor handles itself (declared with `Unit::Cp`).
pub const REGISTERS: &[Decl] = &[];

/// What wakes the engine thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A doorbell: dword index on BAR2, value, width in bytes (4 or 8).
    Doorbell(u32, u64, u8),
}

/// The command processor of one XCC.
#[derive(Default)]
pub struct Cp {
    wake: Mailbox<Wake>,
}

impl Cp {
    /// A register was read through the bank that `sel` names.
    pub fn reg_read(&self, gpu: &Gpu, sel: Selector, reg: RegId) -> u32 {
        strict!(
            gpu.strict,
            "cp",
            "read of register {reg:?} {sel:?} that is not modelled"
        );
        0
    }

    /// A register was written through the bank that `sel` names.
    pub fn reg_write(&self, gpu: &Gpu, sel: Selector, reg: RegId, value: u32) {
        strict!(
            gpu.strict,
            "cp",
            "write of {value:#x} to register {reg:?} {sel:?} that is not modelled"
        );
    }

    /// A doorbell outside the SDMA/IH/VCN window was rung.
    pub fn doorbell(&self, _gpu: &Gpu, index: u32, value: u64, width: u8) {
        self.wake.send(Wake::Doorbell(index, value, width));
    }

    /// Back to power-on state. The engine thread keeps running.
    pub fn reset(&self, _gpu: &Gpu) {}

    /// Body of the engine thread; returns after [`stop`](Self::stop).
    pub fn run(&self, gpu: &Gpu) {
        while let Recv::Message(Wake::Doorbell(index, value, _)) = self.wake.recv(None) {
            strict!(
                gpu.strict,
                "cp",
                "doorbell {index:#x} value {value:#x} outside of any mapped queue"
            );
        }
    }

    /// Lets [`run`](Self::run) return.
    pub fn stop(&self) {
        self.wake.close();
    }
}
