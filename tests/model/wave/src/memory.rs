// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Interface to the surrounding GPU: virtual memory, and the signals that leave a compute unit.

use crate::{Gws, GwsReply, Where};
use std::fmt;

/// Cause of a refused access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No valid translation.
    NotPresent,
    /// Mapped but not readable.
    Read,
    /// Mapped but not writable.
    Write,
    /// Mapped but not executable.
    Execute,
    /// Address not sufficiently aligned.
    Misaligned,
}

/// Refused access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// First byte refused.
    pub va: u64,
    /// Cause.
    pub kind: FaultKind,
    /// The wave waits and executes the access again (XNACK).
    pub retry: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:#x}", self.kind, self.va)
    }
}

/// Scope of an access or of a cache control instruction (SC1 and SC0 of gfx942, SCOPE of gfx1201):
/// the participants that see the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The wave; `SCOPE_CU`.
    #[default]
    Wave,
    /// The workgroup; `SCOPE_SE`.
    Workgroup,
    /// The XCCs of the agent; `SCOPE_DEV`.
    Agent,
    /// The whole system; `SCOPE_SYS`.
    System,
}

impl Scope {
    /// Returns the scope of the bits SC0 and SC1.
    pub(crate) const fn new(sc0: bool, sc1: bool) -> Self {
        match (sc0, sc1) {
            (false, false) => Self::Wave,
            (true, false) => Self::Workgroup,
            (false, true) => Self::Agent,
            (true, true) => Self::System,
        }
    }
}

/// Memory of a wave: the virtual address space of one process (one VMID).
///
/// LDS and scratch apertures are resolved by the interpreter and never reach this trait (scratch
/// becomes an access to its backing memory). An access of a wave to consecutive addresses is one
/// call, so a call can be up to 1 KiB long and cross pages; the implementation splits it and
/// reports the first byte refused. A refused call may have transferred the bytes before that one.
/// Addresses are those of the program, not necessarily aligned or canonical.
pub trait Memory: Sync {
    /// Reads `buf.len()` bytes at `va`.
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault>;

    /// Writes `data` at `va`.
    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault>;

    /// Fetches instructions; needs execute permission.
    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault>;

    /// Replaces the naturally aligned value of `size` (4 or 8) bytes at `va` by `f(value)` and
    /// returns the old value. Atomic with respect to every other `atomic`. `f` may be called more
    /// than once.
    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault>;

    /// Reads as an instruction of this scope does. [`read`](Self::read) is one of scope
    /// [`Scope::Wave`].
    fn load(&self, va: u64, buf: &mut [u8], _: Scope) -> Result<(), Fault> {
        self.read(va, buf)
    }

    /// Writes as an instruction of this scope does.
    fn store(&self, va: u64, data: &[u8], _: Scope) -> Result<(), Fault> {
        self.write(va, data)
    }

    /// Makes the stores so far visible to a scope (`buffer_wbl2`, `global_wb`). Memory without
    /// caches does nothing.
    fn write_back(&self, _: Scope) {}

    /// Makes later loads see what a scope has stored (`buffer_inv`, `global_inv`).
    fn invalidate(&self, _: Scope) {}

    /// Reads as a scalar load of this scope does. It may hit in the scalar cache if that is
    /// [`Scope::Wave`].
    fn load_scalar(&self, va: u64, buf: &mut [u8], _: Scope) -> Result<(), Fault> {
        self.read(va, buf)
    }

    /// Writes as a scalar store of this scope does. It may stay in the scalar cache if that is
    /// [`Scope::Wave`].
    fn store_scalar(&self, va: u64, data: &[u8], _: Scope) -> Result<(), Fault> {
        self.write(va, data)
    }

    /// Writes the scalar cache back (`s_dcache_wb`). Scalar atomics do the same.
    fn write_back_scalar(&self) {}

    /// Invalidates the scalar cache (`s_dcache_inv`). Scalar stores and atomics do the same.
    fn invalidate_scalar(&self) {}

    /// Invalidates the instruction cache (`s_icache_inv`).
    fn invalidate_code(&self) {}

    /// Returns and clears the watchpoints that accesses have hit: bit n for watchpoint n.
    fn take_watched(&self) -> u32 {
        0
    }
}

/// How waves start (`SPI_GDBG_PER_VMID_CNTL`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaveStart {
    /// Halted.
    pub halted: bool,
    /// In single-step mode.
    pub single_step: bool,
    /// Exceptions that trap, in the order of `MODE.EXCP_EN`.
    pub exceptions: u32,
    /// They replace those of the kernel.
    pub replace: bool,
    /// A trap precedes the first instruction.
    pub trap_on_start: bool,
    /// A memory of the wave had an uncorrectable error (`STATUS.ECC_ERR` of gfx942).
    pub ecc_error: bool,
}

/// Message of `s_sendmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Message id, `simm16[3:0]`: 1 is `MSG_INTERRUPT`. On gfx1201 `simm16[7:0]`.
    pub id: u8,
    /// The rest of the immediate.
    pub op: u16,
    /// M0; for `MSG_INTERRUPT` bits 23:0 go to the interrupt entry.
    pub m0: u32,
    /// Sent by a trap handler.
    pub privileged: bool,
    /// Address of the `s_sendmsg`.
    pub pc: u64,
    /// Workgroup of the sender.
    pub workgroup: [u32; 3],
    /// Index of the sending wave in the workgroup.
    pub wave: u32,
}

/// Signals of a compute unit other than memory accesses.
pub trait Host: Sync {
    /// `s_sendmsg`. Returns `false` if the message is not supported; the wave then stops with
    /// [`Stop::Message`](crate::Stop::Message).
    fn message(&self, message: &Message) -> bool;

    /// Returns how the waves of a workgroup start. Called before its first instruction.
    fn wave_start(&self) -> WaveStart {
        WaveStart::default()
    }

    /// Returns whether results of memory instructions come late, as the waits of a program permit,
    /// and a seed of the choices in a workgroup. Called before it runs first.
    fn late(&self) -> Option<u64> {
        None
    }

    /// A wave enters the trap handler; `why` is for logs.
    fn trapped(&self, at: &Where, why: &str) {
        let _ = (at, why);
    }

    /// An access has to be retried; the wave waits until its next slice. Called for each attempt.
    fn nack(&self, fault: &Fault, write: bool) {
        let _ = (fault, write);
    }

    /// `ds_gws_*`. Returns `None` if the process has no such resource; the wave then stops.
    fn gws(&self, request: &Gws) -> Option<GwsReply> {
        let _ = request;
        None
    }

    /// Returns whether the wait with this ticket of [`Host::gws`] is over. Called once per slice.
    fn gws_over(&self, ticket: u64) -> bool {
        let _ = ticket;
        true
    }

    /// Cancels the wait with this ticket of [`Host::gws`]. Returns `false` if it is over.
    fn cancel_gws(&self, ticket: u64) -> bool {
        let _ = ticket;
        false
    }

    /// All waves of a workgroup that have not ended have sent MSG_SAVEWAVE. Returns the addresses
    /// of their records in the context save area, in the order of `waves`, the indices of the
    /// waves in the workgroup; the record of the first is followed by LDS. `None` if there is no
    /// area: the waves wait for ever.
    fn save_waves(&self, workgroup: [u32; 3], waves: &[u32]) -> Option<Vec<u64>> {
        let _ = (workgroup, waves);
        None
    }

    /// `s_memrealtime`, `MSG_RTN_GET_REALTIME`: the 100 MHz counter.
    fn realtime(&self) -> u64;

    /// `s_memtime`, `SHADER_CYCLES`: the shader clock.
    fn shader_clock(&self) -> u64;

    /// Called after each slice of a wave, a few thousand instructions: returns `true` to stop with
    /// [`Stop::Interrupted`](crate::Stop::Interrupted). Also called while all waves sleep or spin,
    /// so implementations can yield the CPU here.
    fn poll(&self) -> bool {
        false
    }
}
