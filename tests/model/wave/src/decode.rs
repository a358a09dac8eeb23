// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decodes instruction words to [`Inst`]. gfx942 encodings; those of gfx1201 are in [`gfx1201`].

pub(crate) mod gfx1201;
mod lds;
mod operand;
mod scalar;
mod vector;
mod vmem;

use crate::inst::Inst;
use crate::op::{self, Info};
use crate::Isa;
pub(crate) use operand::{code, Limits};

/// Reason why words cannot be executed.
#[derive(Clone, Debug)]
pub(crate) enum Bad {
    /// Unknown opcode.
    Illegal(String),
    /// Known opcode with invalid operands.
    Violation(String),
}

type Decoded = Result<Inst, Bad>;

fn illegal<T>(text: String) -> Result<T, Bad> {
    Err(Bad::Illegal(text))
}

fn violation<T>(text: String) -> Result<T, Bad> {
    Err(Bad::Violation(text))
}

/// Returns bits `hi:lo` of a word.
fn bits(word: u32, hi: u32, lo: u32) -> u32 {
    word >> lo & (u32::MAX >> (31 - (hi - lo)))
}

/// Encoding, by the fixed bits of the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Sop2,
    Sopk,
    Sop1,
    Sopc,
    Sopp,
    Smem,
    Vop2,
    Vop1,
    Vopc,
    Vop3,
    Vop3p,
    Ds,
    Flat,
    Mubuf,
    Mtbuf,
    /// VINTRP, MIMG, EXP and unassigned encodings.
    Other,
}

fn encoding(word: u32) -> Encoding {
    if word >> 31 == 0 {
        return match bits(word, 30, 25) {
            62 => Encoding::Vopc,
            63 => Encoding::Vop1,
            _ => Encoding::Vop2,
        };
    }
    if word >> 30 == 0b10 {
        return match bits(word, 31, 23) {
            0b1_0111_1101 => Encoding::Sop1,
            0b1_0111_1110 => Encoding::Sopc,
            0b1_0111_1111 => Encoding::Sopp,
            _ if word >> 28 == 0b1011 => Encoding::Sopk,
            _ => Encoding::Sop2,
        };
    }
    match word >> 26 {
        0b11_0000 => Encoding::Smem,
        0b11_0100 if bits(word, 25, 23) == 0b111 => Encoding::Vop3p,
        0b11_0100 => Encoding::Vop3,
        0b11_0110 => Encoding::Ds,
        0b11_0111 => Encoding::Flat,
        0b11_1000 => Encoding::Mubuf,
        0b11_1010 => Encoding::Mtbuf,
        _ => Encoding::Other,
    }
}

/// Source operand code: literal constant in the next word.
const LITERAL: u32 = 255;
/// Operand code of source 0: DPP word follows.
const DPP: u32 = 250;
/// Operand code of source 0: SDWA word follows.
const SDWA: u32 = 249;

/// Maximum number of words of an instruction.
pub(crate) const WORDS: usize = 3;

/// Returns the number of words of the instruction that starts with `words`; more than given if they
/// do not determine it.
pub(crate) fn length(isa: Isa, words: &[u32]) -> usize {
    match isa {
        Isa::Gfx942 => self::words(words[0]),
        Isa::Gfx1201 => gfx1201::length(words),
    }
}

/// Decodes an instruction; ignores words beyond its [`length`].
pub(crate) fn decode(words: [u32; WORDS], limits: &Limits) -> Decoded {
    match limits.isa {
        Isa::Gfx942 => gfx942(words[0], words[1], limits),
        Isa::Gfx1201 => gfx1201::decode(words, limits),
    }
}

/// Returns the number of words of the gfx942 instruction that starts with `word`.
fn words(word: u32) -> usize {
    let has = |shift: u32| bits(word, shift + 7, shift) == LITERAL;
    let two = match encoding(word) {
        Encoding::Sop2 | Encoding::Sopc => has(0) || has(8),
        Encoding::Sop1 => has(0),
        Encoding::Sopk => bits(word, 27, 23) == 0x14,
        Encoding::Sopp => false,
        Encoding::Vop2 if matches!(bits(word, 30, 25), 0x17 | 0x18 | 0x24 | 0x25) => true,
        Encoding::Vop2 | Encoding::Vop1 | Encoding::Vopc => {
            matches!(bits(word, 8, 0), LITERAL | DPP | SDWA)
        }
        Encoding::Other => false,
        _ => true,
    };
    1 + usize::from(two)
}

/// Decodes a gfx942 instruction; ignores `second` unless [`words`] is 2.
fn gfx942(word: u32, second: u32, limits: &Limits) -> Decoded {
    let mut inst = match encoding(word) {
        Encoding::Sop2 => scalar::sop2(word, second, limits),
        Encoding::Sopk => scalar::sopk(word, second, limits),
        Encoding::Sop1 => scalar::sop1(word, second, limits),
        Encoding::Sopc => scalar::sopc(word, second, limits),
        Encoding::Sopp => scalar::sopp(word),
        Encoding::Smem => scalar::smem(word, second, limits),
        Encoding::Vop2 => vector::vop2(word, second, limits),
        Encoding::Vop1 => vector::vop1(word, second, limits),
        Encoding::Vopc => vector::vopc(word, second, limits),
        Encoding::Vop3 => vector::vop3(word, second, limits),
        Encoding::Vop3p => vector::vop3p(word, second, limits),
        Encoding::Ds => lds::ds(word, second, limits),
        Encoding::Flat => vmem::flat(word, second, limits),
        Encoding::Mubuf => vmem::mubuf(word, second, limits),
        Encoding::Mtbuf => vmem::mtbuf(word, second, limits),
        Encoding::Other => illegal(format!("encoding {:#08b}", word >> 26)),
    }?;
    inst.bytes = words(word) as u8 * 4;
    Ok(inst)
}

/// Returns the table entry of a scalar ALU or control instruction.
pub(crate) fn scalar(isa: Isa, word: u32) -> Option<&'static Info> {
    match (isa, encoding(word)) {
        (Isa::Gfx1201, _) => gfx1201::info(word),
        (Isa::Gfx942, Encoding::Sop2) => op::sop2(bits(word, 29, 23) as u16),
        (Isa::Gfx942, Encoding::Sopk) => op::sopk(bits(word, 27, 23) as u16),
        (Isa::Gfx942, Encoding::Sop1) => op::sop1(bits(word, 15, 8) as u16),
        (Isa::Gfx942, Encoding::Sopc) => op::sopc(bits(word, 22, 16) as u16),
        (Isa::Gfx942, _) => None,
    }
}
