// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The boot loader: accepted components and their order.
//!
//! The order is that of `psp_hw_start`. The kinds of the containers are those in the firmware files
//! of this chip.

use rkfd_abi::psp::{bootloader as cmd, BOOTLOADER_ADDRESS_SHIFT, TRANSFER_SIZE};

use super::blob::{self, Blob, BlobError};
use crate::chips::Generation;
use crate::gpu::Gpu;
use crate::{event, strict};

/// Status in the low byte: nonzero is a failure. The codes are not published.
const REFUSED: u32 = 1;
const BAD_BLOB: u32 = 2;

/// A component of the chain.
struct Step {
    command: u32,
    name: &'static str,
    /// Kind in the container's header.
    kind: u16,
    /// Whether this chip requires it before the secure OS.
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

/// The chain of 13.0.6. Optional components are not in the firmware files of this chip.
const CHAIN_13: &[Step] = &[
    step(cmd::LOAD_KEY_DATABASE, "KDB", 0x4f, true),
    // psp_v13_0.c:291 passes the key database again instead of the patch levels.
    step(cmd::LOAD_TOS_SPL_TABLE, "SPL", 0x4f, false),
    step(cmd::LOAD_SYSDRV, "SYSDRV", 0x0a, true),
    step(cmd::LOAD_SOCDRV, "SOCDRV", 0x14a, true),
    step(cmd::LOAD_INTFDRV, "INTFDRV", 0x14c, true),
    step(cmd::LOAD_DBGDRV, "DBGDRV", 0x14b, true),
    step(cmd::LOAD_RASDRV, "RASDRV", 0x152, true),
    step(cmd::LOAD_SOSDRV, "SOSDRV", 0x09, true),
];

/// The chain of 14.0.3. LOAD_DBGDRV is LOAD_HADDRV there (`amdgpu_psp.h`).
const CHAIN_14: &[Step] = &[
    step(cmd::LOAD_KEY_DATABASE, "KDB", 0x4f, true),
    step(cmd::LOAD_TOS_SPL_TABLE, "SPL", 0x56, true),
    step(cmd::LOAD_SYSDRV, "SYSDRV", 0x0a, true),
    step(cmd::LOAD_SOCDRV, "SOCDRV", 0x14a, true),
    step(cmd::LOAD_INTFDRV, "INTFDRV", 0x14c, true),
    step(cmd::LOAD_DBGDRV, "HADDRV", 0x14b, true),
    step(cmd::LOAD_RASDRV, "RASDRV", 0x152, true),
    step(cmd::LOAD_IPKEYMGRDRV, "IPKEYMGRDRV", 0x1e1, true),
    step(cmd::LOAD_SOSDRV, "SOSDRV", 0x09, true),
];

fn chain(generation: Generation) -> &'static [Step] {
    match generation {
        Generation::Gfx9 => CHAIN_13,
        Generation::Gfx12 => CHAIN_14,
    }
}

/// Progress of the chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Completed steps, by position.
    done: u16,
}

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The boot loader is ready for the next command.
    Loaded,
    /// Rejected; the status.
    Failed(u32),
    /// The secure OS runs; its version.
    Started(u32),
}

/// Executes `command` with the address in [`gpu_regs::psp::BOOTLOADER_ADDRESS`].
pub fn command(gpu: &Gpu, progress: &mut Progress, command: u32, address: u32) -> Outcome {
    let addr = u64::from(address) << BOOTLOADER_ADDRESS_SHIFT;
    let chain = chain(gpu.chip.generation);
    let Some(at) = chain.iter().position(|step| step.command == command) else {
        strict!(
            gpu.strict,
            "psp",
            "boot loader: command {command:#x} is not one of this chip"
        );
        return Outcome::Failed(REFUSED);
    };
    let step = &chain[at];
    let missing = |step: &&Step| {
        let at = chain.iter().position(|s| s.command == step.command);
        step.needed && at.is_some_and(|at| progress.done >> at & 1 == 0)
    };
    if let Some(before) = chain[..at].iter().find(missing) {
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
            "boot loader: {}, or a later component, was loaded already",
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

fn check(gpu: &Gpu, step: &Step, addr: u64) -> Result<Blob, BlobError> {
    let blob = blob::read(gpu, addr, TRANSFER_SIZE as u32)?;
    if blob.kind != step.kind {
        return Err(BlobError::Kind {
            kind: blob.kind,
            required: step.kind,
        });
    }
    Ok(blob)
}
