// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decodes gfx1201 instruction words to [`Inst`](crate::inst::Inst): encodings and lengths.

mod buffer;
mod ds;
mod flat;
mod operand;
mod scalar;
mod smem;
mod vector;
mod vopd;

use super::{bits, illegal, Decoded, Limits, WORDS};
use crate::op::{gfx1201 as op, Info};

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
    Vopd,
    Vds,
    Vflat,
    Vscratch,
    Vglobal,
    Vbuffer,
    /// VINTERP, VIMAGE, VSAMPLE, VEXPORT and unassigned encodings.
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
    match word >> 24 {
        0xcc => Encoding::Vop3p,
        0xec => Encoding::Vflat,
        0xed => Encoding::Vscratch,
        0xee => Encoding::Vglobal,
        _ => match word >> 26 {
            0b11_0010 => Encoding::Vopd,
            0b11_0101 => Encoding::Vop3,
            0b11_0110 => Encoding::Vds,
            0b11_0001 => Encoding::Vbuffer,
            0b11_1101 => Encoding::Smem,
            _ => Encoding::Other,
        },
    }
}

/// Source operand code: literal constant in the last word.
const LITERAL: u32 = 255;
/// Operand code of source 0: DPP16 word follows.
const DPP16: u32 = 250;
/// Operand codes of source 0: DPP8 word follows; with the second (FI), inactive lanes are read.
const DPP8: u32 = 233;
const DPP8_FI: u32 = 234;

/// Returns whether this operand code of source 0 needs one more word.
fn follows(code: u32) -> bool {
    matches!(code, LITERAL | DPP16 | DPP8 | DPP8_FI)
}

/// Returns the number of words of the instruction that starts with `words`; more than given if they
/// do not determine it.
pub(super) fn length(words: &[u32]) -> usize {
    let word = words[0];
    let has = |shift: u32| bits(word, shift + 7, shift) == LITERAL;
    match encoding(word) {
        Encoding::Sop2 => {
            1 + usize::from(has(0) || has(8) || scalar::has_constant(bits(word, 29, 23)))
        }
        Encoding::Sopc => 1 + usize::from(has(0) || has(8)),
        Encoding::Sop1 => 1 + usize::from(has(0)),
        Encoding::Sopk => 1 + usize::from(bits(word, 27, 23) == scalar::SETREG_IMM32),
        Encoding::Sopp => 1,
        Encoding::Vop2 if vector::has_constant(bits(word, 30, 25)) => 2,
        Encoding::Vop2 | Encoding::Vop1 | Encoding::Vopc => {
            1 + usize::from(follows(bits(word, 8, 0)))
        }
        Encoding::Vop3 | Encoding::Vop3p => match words.get(1) {
            None => 2,
            Some(&second) => {
                let literal = [9, 18].map(|at| bits(second, at + 8, at) == LITERAL);
                2 + usize::from(follows(bits(second, 8, 0)) || literal.contains(&true))
            }
        },
        Encoding::Vopd => match words.get(1) {
            None => 2,
            Some(&second) => 2 + usize::from(vopd::has_constant(word, second)),
        },
        Encoding::Smem | Encoding::Vds => 2,
        Encoding::Vflat | Encoding::Vscratch | Encoding::Vglobal | Encoding::Vbuffer => 3,
        // VIMAGE and VSAMPLE have three words, the others two.
        Encoding::Other if matches!(word >> 26, 0b11_0100 | 0b11_1001) => 3,
        Encoding::Other if matches!(word >> 26, 0b11_0011 | 0b11_1110) => 2,
        Encoding::Other => 1,
    }
}

/// Decodes an instruction; ignores words beyond its [`length`].
pub(super) fn decode(words: [u32; WORDS], limits: &Limits) -> Decoded {
    let [first, second, _] = words;
    let length = match length(&words[..1]) {
        1 => 1,
        _ => length(&words[..2]),
    };
    let last = words[length - 1];
    let mut inst = match encoding(first) {
        Encoding::Sop2 => scalar::sop2(first, last, limits),
        Encoding::Sopk => scalar::sopk(first, last, limits),
        Encoding::Sop1 => scalar::sop1(first, last, limits),
        Encoding::Sopc => scalar::sopc(first, last, limits),
        Encoding::Sopp => scalar::sopp(first),
        Encoding::Smem => smem::smem(first, second, limits),
        Encoding::Vop2 => vector::vop2(first, last, limits),
        Encoding::Vop1 => vector::vop1(first, last, limits),
        Encoding::Vopc => vector::vopc(first, last, limits),
        Encoding::Vop3 => vector::vop3(first, second, last, limits),
        Encoding::Vop3p => vector::vop3p(first, second, last, limits),
        Encoding::Vopd => vopd::vopd(first, second, last, limits),
        Encoding::Vds => ds::ds(first, second, limits),
        Encoding::Vflat => flat::flat(words, limits),
        Encoding::Vscratch => flat::scratch(words, limits),
        Encoding::Vglobal => flat::global(words, limits),
        Encoding::Vbuffer => buffer::buffer(words, limits),
        Encoding::Other => illegal(format!("encoding {:#08b}", first >> 26)),
    }?;
    inst.bytes = length as u8 * 4;
    Ok(inst)
}

/// Returns the mnemonic of a scalar or vector ALU instruction, if it has a table entry.
pub(crate) fn mnemonic(word: u32) -> Option<&'static str> {
    info(word).map(|info| info.name)
}

/// Returns the table entry of an instruction.
pub(crate) fn info(word: u32) -> Option<&'static Info> {
    match encoding(word) {
        Encoding::Sop2 => op::sop2(bits(word, 29, 23) as u16),
        Encoding::Sopk => op::sopk(bits(word, 27, 23) as u16),
        Encoding::Sop1 => op::sop1(bits(word, 15, 8) as u16),
        Encoding::Sopc => op::sopc(bits(word, 22, 16) as u16),
        Encoding::Sopp => op::sopp(bits(word, 22, 16) as u16),
        Encoding::Smem => op::smem(bits(word, 18, 13) as u16),
        Encoding::Vop2 => op::vop2(bits(word, 30, 25) as u16),
        Encoding::Vop1 => op::vop1(bits(word, 16, 9) as u16),
        Encoding::Vop3 => vector::vop3_info(bits(word, 25, 16)).ok(),
        Encoding::Vop3p => op::vop3p(bits(word, 22, 16) as u16),
        _ => None,
    }
}
