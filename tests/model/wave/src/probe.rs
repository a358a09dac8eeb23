// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Looks at single instructions without running them: for tests, and for who wants to know what
//! this interpreter makes of a program.

use crate::decode::{self, Bad, Limits};
use crate::inst::{Body, VectorOp};
use crate::Isa;

/// What the decoder says of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// An instruction of `bytes`; its mnemonic where the tables have one of its own.
    Instruction {
        /// Length.
        bytes: usize,
        /// Mnemonic.
        name: Option<String>,
    },
    /// Known, but its operands break a rule.
    Violation(String),
    /// Not known.
    Illegal(String),
}

/// Decodes the instruction of gfx942 that begins with `first`, for a wave that has all registers.
pub fn instruction(first: u32, second: u32) -> Probe {
    let limits = Limits {
        isa: Isa::Gfx942,
        wave32: false,
        arch: 256,
        acc: 256,
        sgprs: 102,
        privileged: true,
    };
    look([first, second, 0], &limits)
}

/// Decodes an instruction of gfx1201 for a wave that has all registers.
pub fn gfx1201(words: [u32; 3], wave32: bool) -> Probe {
    let limits = Limits {
        isa: Isa::Gfx1201,
        wave32,
        arch: 256,
        acc: 0,
        sgprs: 106,
        privileged: true,
    };
    let found = look(words, &limits);
    match (found, decode::gfx1201::mnemonic(words[0])) {
        (Probe::Instruction { bytes, .. }, Some(name)) => Probe::Instruction {
            bytes,
            name: Some(name.to_owned()),
        },
        (found, _) => found,
    }
}

fn look(words: [u32; 3], limits: &Limits) -> Probe {
    match decode::decode(words, limits) {
        Ok(inst) => {
            let name = match inst.body {
                Body::Salu(i) => Some(format!("{:?}", i.op)),
                Body::Smem(i) => Some(format!("{:?}", i.op)),
                Body::Valu(i) => match i.op {
                    VectorOp::Op(op) => Some(format!("{op:?}")),
                    VectorOp::Cmp { .. } => None,
                },
                Body::Dual(pair) => Some(format!("{:?} :: {:?}", pair[0].op, pair[1].op)),
                _ => None,
            };
            Probe::Instruction {
                bytes: inst.bytes.into(),
                name,
            }
        }
        Err(Bad::Violation(text)) => Probe::Violation(text),
        Err(Bad::Illegal(text)) => Probe::Illegal(text),
    }
}

/// Length in bytes of the instruction of gfx942 that begins with `first`, known or not.
pub fn length(first: u32) -> usize {
    decode::length(Isa::Gfx942, &[first]) * 4
}
