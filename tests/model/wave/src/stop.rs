// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Why a workgroup stopped before its end.

use crate::{Fault, Message};
use std::fmt;

/// The wave and instruction at which a workgroup stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Where {
    /// Address of the instruction.
    pub pc: u64,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Index of the wave in its workgroup.
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

/// What stopped a workgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A memory access was refused: silicon raises a VM fault.
    Fault {
        /// Address and reason.
        fault: Fault,
        /// Is it a write or an atomic?
        write: bool,
        /// The wave.
        at: Where,
    },
    /// Not an instruction of this GPU, or one that this interpreter lacks.
    IllegalInstruction {
        /// The wave.
        at: Where,
        /// The first two dwords (the second 0 when there is none).
        words: [u32; 2],
        /// Encoding, opcode number and, when known, mnemonic.
        text: String,
    },
    /// An instruction used what the wave does not have or broke a rule: a register outside of its
    /// allocation, a misaligned register pair, an address outside of the LDS, a reserved bit.
    Violation {
        /// The wave.
        at: Where,
        /// What was wrong.
        text: String,
    },
    /// `s_trap id` with no trap handler.
    Trap {
        /// The wave.
        at: Where,
        /// Trap id of the instruction.
        id: u8,
    },
    /// `s_sendmsg` that the host does not take.
    Message(Message),
    /// No wave of the workgroup can ever go on: one that others wait for is halted, or all are.
    Halted {
        /// The first halted wave, and where it would go on.
        at: Where,
    },
    /// [`Host::poll`](crate::Host::poll) asked for it. The workgroup can go on.
    Interrupted,
    /// The dispatch makes no sense (a workgroup of zero or too many work-items, too much LDS ...).
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
            Stop::Message(m) => write!(f, "s_sendmsg {} op {:#x} not taken", m.id, m.op),
            Stop::Halted { at } => write!(f, "halted ({at})"),
            Stop::Interrupted => write!(f, "interrupted"),
            Stop::BadDispatch(text) => write!(f, "bad dispatch: {text}"),
        }
    }
}

impl std::error::Error for Stop {}
