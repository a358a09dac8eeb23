// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The boot loader: what it takes, and in which order.
//!
//! The order is that of `psp_hw_start`. The numbers by which a container says what it is are those
//! of the files for this chip.

use rkfd_abi::psp::{bootloader as cmd, BOOTLOADER_ADDRESS_SHIFT, TRANSFER_SIZE};

use super::blob::{self, Blob};
use crate::gpu::Gpu;
use crate::{event, strict};

/// Answers in the low byte: any but zero is a failure; which means what is not known.
const REFUSED: u32 = 1;
const BAD_BLOB: u32 = 2;

/// One step of the chain.
struct Step {
    command: u32,
    name: &'static str,
    /// What the container says it is.
    kind: u16,
    /// Whether this chip needs it before the secure OS.
    needed: bool,
}

const fn step(command: u32, name: &'static str, kind: u16, needed: bool) -> Step {
    Step {
        command,
        name,
        kind,
        needed,
    }
}

/// The chain. What is optional is not in the files of this chip.
const CHAIN: &[Step] = &[
    step(cmd::LOAD_KEY_DATABASE, "KDB", 0x4f, true),
    // psp_v13_0.c:291 gives the key database again where the patch levels are meant.
    step(cmd::LOAD_TOS_SPL_TABLE, "SPL", 0x4f, false),
    step(cmd::LOAD_SYSDRV, "SYSDRV", 0x0a, true),
    step(cmd::LOAD_SOCDRV, "SOCDRV", 0x14a, true),
    step(cmd::LOAD_INTFDRV, "INTFDRV", 0x14c, true),
    step(cmd::LOAD_DBGDRV, "DBGDRV", 0x14b, true),
    step(cmd::LOAD_RASDRV, "RASDRV", 0x152, true),
    step(cmd::LOAD_SOSDRV, "SOSDRV", 0x09, true),
];

/// How far the chain has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps done, by their position.
    done: u16,
}

/// What a command ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The boot loader takes the next command.
    Loaded,
    /// It was refused; the low byte of the answer.
    Failed(u32),
    /// The secure OS runs; its version.
    Started(u32),
}

/// Carries out `command` with what [`gpu_regs::psp::BOOTLOADER_ADDRESS`] holds.
pub fn command(gpu: &Gpu, progress: &mut Progress, command: u32, address: u32) -> Outcome {
    let addr = u64::from(address) << BOOTLOADER_ADDRESS_SHIFT;
    let Some(at) = CHAIN.iter().position(|step| step.command == command) else {
        strict!(
            gpu.strict,
            "psp",
            "boot loader: command {command:#x} is not one of this chip"
        );
        return Outcome::Failed(REFUSED);
    };
    let step = &CHAIN[at];
    let missing = |step: &&Step| {
        let at = CHAIN.iter().position(|s| s.command == step.command);
        step.needed && at.is_some_and(|at| progress.done >> at & 1 == 0)
    };
    if let Some(before) = CHAIN[..at].iter().find(missing) {
        strict!(
            gpu.strict,
            "psp",
            "boot loader: {} before {}",
            step.name,
            before.name
        );
        return Outcome::Failed(REFUSED);
    }
    if progress.done >> at != 0 {
        strict!(
            gpu.strict,
            "psp",
            "boot loader: {} was loaded already, or what comes after it",
            step.name
        );
        return Outcome::Failed(REFUSED);
    }
    match check(gpu, step, addr) {
        Ok(blob) => {
            progress.done |= 1 << at;
            event!(
                gpu.trace,
                "psp",
                "boot",
                "step={} addr={addr:#x} bytes={:#x} version={:#x}",
                step.name,
                blob.total,
                blob.version
            );
            match command {
                cmd::LOAD_SOSDRV => Outcome::Started(blob.version),
                _ => Outcome::Loaded,
            }
        }
        Err(why) => {
            strict!(
                gpu.strict,
                "psp",
                "boot loader: {} at {addr:#x}: {why}",
                step.name
            );
            Outcome::Failed(BAD_BLOB)
        }
    }
}

fn check(gpu: &Gpu, step: &Step, addr: u64) -> Result<Blob, String> {
    let blob = blob::read(gpu, addr, TRANSFER_SIZE as u32)?;
    if blob.kind != step.kind {
        return Err(format!(
            "it is of kind {:#x}, this step takes {:#x}",
            blob.kind, step.kind
        ));
    }
    Ok(blob)
}
