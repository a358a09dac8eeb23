// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decodes single instructions without executing them: for tests and inspection.

use crate::decode::{self, Bad, Limits};
use crate::inst::{Body, VectorOp};
use crate::Isa;

mod effects;

pub use effects::{effects, Effects, Unit};

/// Decoder result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// An instruction; its mnemonic if it has a table entry.
    Instruction {
        /// Length, in bytes.
        bytes: usize,
        /// Mnemonic.
        name: Option<String>,
    },
    /// Known opcode with invalid operands.
    Violation(String),
    /// Unknown opcode.
    Illegal(String),
}

/// Returns the limits of a wave with all registers.
fn limits(isa: Isa, wave32: bool) -> Limits {
    let (acc, sgprs) = match isa {
        Isa::Gfx942 => (256, 102),
        Isa::Gfx1201 => (0, 106),
    };
    Limits {
        isa,
        wave32,
        arch: 256,
        acc,
        sgprs,
        alias: decode::code::FLAT_SCRATCH,
        privileged: true,
    }
}

/// Decodes the gfx942 instruction that starts with `first`, for a wave with all registers.
pub fn instruction(first: u32, second: u32) -> Probe {
    probe([first, second, 0], &limits(Isa::Gfx942, false))
}

/// Decodes a gfx1201 instruction for a wave with all registers.
pub fn gfx1201(words: [u32; 3], wave32: bool) -> Probe {
    let found = probe(words, &limits(Isa::Gfx1201, wave32));
    match (found, decode::gfx1201::mnemonic(words[0])) {
        (Probe::Instruction { bytes, .. }, Some(name)) => Probe::Instruction {
            bytes,
            name: Some(name.to_owned()),
        },
        (found, _) => found,
    }
}

fn probe(words: [u32; 3], limits: &Limits) -> Probe {
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

/// Returns the length in bytes of the gfx942 instruction that starts with `first`, known or not.
pub fn length(first: u32) -> usize {
    decode::length(Isa::Gfx942, &[first]) * 4
}
