// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the interpreter needs from the GPU around it: memory by virtual address, and the few
//! signals that leave a compute unit.

use crate::{Gws, GwsAnswer, Where};
use std::fmt;

/// Why an access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No valid translation.
    NotPresent,
    /// Mapped, but not readable.
    Read,
    /// Mapped, but not writable.
    Write,
    /// Mapped, but not executable.
    Execute,
    /// The address is not aligned as the access needs it.
    Misaligned,
}

/// A refused access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first byte that was refused.
    pub va: u64,
    /// Why.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:#x}", self.kind, self.va)
    }
}

/// Memory as a wave sees it: the virtual addresses of one process (one VMID).
///
/// The LDS and scratch apertures never come here: the interpreter resolves them (scratch becomes
/// an access to the scratch backing memory). A wave's access to consecutive addresses comes as one
/// call, so a call can be up to 1 KiB long and can cross pages; the implementation splits it, and
/// names the first byte refused. A refused call may have transferred the bytes before that one.
/// Addresses are as the program made them, not necessarily aligned or canonical.
pub trait Memory: Sync {
    /// Reads `buf.len()` bytes at `va`.
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault>;

    /// Writes `data` at `va`.
    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault>;

    /// Fetches instructions; needs execute permission.
    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault>;

    /// Replaces the naturally aligned value of `size` (4 or 8) bytes at `va` by `f` of it, in one
    /// indivisible step against every other `atomic`, and returns the old value. `f` may be called
    /// more than once.
    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault>;
}

/// What `s_sendmsg` carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Message id, `simm16[3:0]`: 1 is `MSG_INTERRUPT`. On gfx1201 `simm16[7:0]`.
    pub id: u8,
    /// The rest of the immediate.
    pub op: u16,
    /// M0; for `MSG_INTERRUPT` bits 23:0 go to the interrupt entry.
    pub m0: u32,
    /// Was it sent by a trap handler?
    pub privileged: bool,
    /// Address of the `s_sendmsg`.
    pub pc: u64,
    /// The workgroup that sent it.
    pub workgroup: [u32; 3],
    /// The wave inside the workgroup.
    pub wave: u32,
}

/// The signals of a compute unit that are not memory.
pub trait Host: Sync {
    /// `s_sendmsg`. `false` if nobody takes such a message; the wave then stops with
    /// [`Stop::Message`](crate::Stop::Message).
    fn message(&self, message: &Message) -> bool;

    /// A wave goes to the trap handler; `why` is for people.
    fn trapped(&self, at: &Where, why: &str) {
        let _ = (at, why);
    }

    /// `ds_gws_*`. `None` if the process has no such resource; the wave then stops.
    fn gws(&self, request: &Gws) -> Option<GwsAnswer> {
        let _ = request;
        None
    }

    /// Is the wait over for which [`Host::gws`] gave this ticket? Asked once in every turn.
    fn gws_over(&self, ticket: u64) -> bool {
        let _ = ticket;
        true
    }

    /// `s_memrealtime`, `MSG_RTN_GET_REALTIME`: the 100 MHz counter.
    fn realtime(&self) -> u64;

    /// `s_memtime`, `SHADER_CYCLES`: the shader clock.
    fn shader_clock(&self) -> u64;

    /// Asked after each turn of a wave, a few thousand instructions: `true` to stop with
    /// [`Stop::Interrupted`](crate::Stop::Interrupted). Also called while all waves sleep or spin, so
    /// it is the place to yield the processor.
    fn poll(&self) -> bool {
        false
    }
}
