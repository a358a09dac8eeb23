// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The mailbox of the SMU, which is the same in its versions: registers of a message, its argument
//! and the response. Failures of a message are responses.

use gpu_regs::Reg;
use rkfd_abi::bits::join;
use rkfd_abi::smu::response;

use crate::engines::gmc::{Hub, VmFault};
use crate::gpu::Gpu;
use crate::regs::{Ip, Slot};
use crate::{event, strict};

/// Registers of a mailbox.
pub struct Mailbox {
    /// Block of the registers.
    pub ip: Ip,
    /// Argument, and the value that a message returns.
    pub argument: Reg,
    /// Response; 0 while there is none.
    pub response: Reg,
}

impl Mailbox {
    fn slot<'a>(&self, gpu: &'a Gpu, reg: Reg) -> Option<&'a Slot> {
        gpu.regs.by_id(gpu.chip, self.ip, reg)
    }

    /// Checks that a message may be sent now. Returns its argument.
    pub fn receive(&self, gpu: &Gpu, message: u32) -> u32 {
        let argument = self.slot(gpu, self.argument).map_or(0, Slot::get);
        event!(
            gpu.trace,
            "smu",
            "message",
            "message={message:#x} argument={argument:#x}"
        );
        let answer = self.slot(gpu, self.response);
        if answer.is_some_and(|slot| slot.get() != 0) {
            strict!(
                gpu.strict,
                "smu",
                "message {message:#x} while the response register is not cleared"
            );
        }
        if answer.is_some_and(|slot| gpu.awaits_response(slot)) {
            strict!(
                gpu.strict,
                "smu",
                "message {message:#x} while the last one is not answered"
            );
        }
        argument
    }

    /// Writes a response.
    pub fn respond(&self, gpu: &Gpu, response: u32) {
        if let Some(slot) = self.slot(gpu, self.response) {
            gpu.respond(slot, response);
        }
    }

    /// Writes the response to a message: the value that it returns, or a failure.
    pub fn answer(&self, gpu: &Gpu, result: Result<u32, u32>) {
        let response = match result {
            Ok(value) => {
                if let Some(slot) = self.slot(gpu, self.argument) {
                    slot.set(value);
                }
                response::OK
            }
            Err(response) => response,
        };
        self.respond(gpu, response);
    }
}

/// Reports an unknown message. Returns the response.
pub fn refused(gpu: &Gpu, message: u32, argument: u32) -> u32 {
    strict!(
        gpu.strict,
        "smu",
        "message {message:#x} with argument {argument:#x} is not modelled"
    );
    response::UNKNOWN_CMD
}

/// Returns the `levels` of a clock; reports that there are none.
pub fn known<T>(gpu: &Gpu, clock: u32, levels: Option<T>) -> Result<T, u32> {
    levels.ok_or_else(|| {
        strict!(gpu.strict, "smu", "there is no clock {clock}");
        response::FAILED
    })
}

/// Returns the address of the driver's table, high and low half, which `message` needs.
pub fn driver_table(gpu: &Gpu, [high, low]: [u32; 2], message: u32) -> Result<u64, u32> {
    match join(low, high) {
        0 => {
            strict!(
                gpu.strict,
                "smu",
                "message {message:#x} without the address of the driver's table"
            );
            Err(response::REJECTED_PREREQ)
        }
        table => {
            let vram = gpu.placement.start()..gpu.placement.start() + gpu.vram.len();
            if !vram.contains(&table) {
                strict!(
                    gpu.strict,
                    "smu",
                    "the driver's table at {table:#x} is not in VRAM"
                );
            }
            Ok(table)
        }
    }
}

/// Reads from the driver's table.
pub fn read_table(gpu: &Gpu, table: u64, bytes: &mut [u8]) -> Result<(), u32> {
    let result = gpu.gmc.vm_read(Hub::MM, 0, table, bytes);
    accessible(gpu, table, result)
}

/// Writes to the driver's table.
pub fn write_table(gpu: &Gpu, table: u64, bytes: &[u8]) -> Result<(), u32> {
    let result = gpu.gmc.vm_write(Hub::MM, 0, table, bytes);
    accessible(gpu, table, result)
}

/// Reports a fault of an access to the driver's table.
fn accessible(gpu: &Gpu, table: u64, result: Result<(), VmFault>) -> Result<(), u32> {
    result.map_err(|fault| {
        strict!(
            gpu.strict,
            "smu",
            "the driver's table at {table:#x} is not accessible: {fault:?}"
        );
        response::FAILED
    })
}
