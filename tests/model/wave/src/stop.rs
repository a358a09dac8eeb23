// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Reasons for stopping a workgroup before its end.

use crate::{Fault, Message};
use std::fmt;

/// Wave and instruction at which a workgroup stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Where {
    /// Address of the instruction.
    pub pc: u64,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Index of the wave in the workgroup.
    pub wave: u32,
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(
            f,
            "pc {:#x}, workgroup {x},{y},{z}, wave {}",
            self.pc, self.wave
        )
    }
}

/// Reason for stopping a workgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Refused memory access: silicon raises a VM fault.
    Fault {
        /// Address and cause.
        fault: Fault,
        /// Write or atomic access.
        write: bool,
        /// The wave.
        at: Where,
    },
    /// Illegal or unimplemented instruction.
    IllegalInstruction {
        /// The wave.
        at: Where,
        /// First two dwords of the instruction (0 if there is no second).
        words: [u32; 2],
        /// Encoding, opcode and, if known, mnemonic.
        text: String,
    },
    /// Invalid operand or access: a register outside of the allocation, a misaligned register
    /// tuple, an address outside of LDS, a reserved bit.
    Violation {
        /// The wave.
        at: Where,
        /// Description.
        text: String,
    },
    /// `s_trap id` without a trap handler.
    Trap {
        /// The wave.
        at: Where,
        /// Trap id of the instruction.
        id: u8,
    },
    /// `s_sendmsg` not supported by the host.
    Message(Message),
    /// No wave of the workgroup can continue: all are halted, or wait for a halted one.
    Halted {
        /// First halted wave and the address where it would continue.
        at: Where,
    },
    /// All waves have ended or are saved ([`Workgroup::save`](crate::Workgroup::save)).
    Saved,
    /// Requested by [`Host::poll`](crate::Host::poll). The workgroup can be resumed.
    Interrupted,
    /// Invalid dispatch (empty or oversized workgroup, too much LDS, ...).
    BadDispatch(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Fault { fault, write, at } => {
                let what = if *write { "write" } else { "read" };
                write!(f, "memory fault, {what}: {fault} ({at})")
            }
            Stop::IllegalInstruction {
                at,
                words: [a, b],
                text,
            } => {
                write!(f, "illegal instruction {a:08x} {b:08x}: {text} ({at})")
            }
            Stop::Violation { at, text } => write!(f, "violation: {text} ({at})"),
            Stop::Trap { at, id } => write!(f, "s_trap {id} without a handler ({at})"),
            Stop::Message(m) => write!(f, "s_sendmsg {} op {:#x} not supported", m.id, m.op),
            Stop::Halted { at } => write!(f, "halted ({at})"),
            Stop::Saved => write!(f, "saved"),
            Stop::Interrupted => write!(f, "interrupted"),
            Stop::BadDispatch(text) => write!(f, "bad dispatch: {text}"),
        }
    }
}

impl std::error::Error for Stop {}
