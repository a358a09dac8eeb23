// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SOP2, SOPK, SOP1, SOPC and SOPP of gfx1201.

use super::super::{bits, illegal, Bad, Decoded, Limits};
use super::operand::{sgpr, sgpr_dst, src};
use super::LITERAL;
use crate::inst::{Body, Inst, Salu, Src};
use crate::op::{gfx1201 as op, Info, Op, Ty};

/// SOPK opcode of `s_setreg_imm32_b32`, which is followed by a constant.
pub(super) const SETREG_IMM32: u32 = 0x13;

/// Returns whether the SOP2 opcode is followed by a constant (`s_fmaak_f32`, `s_fmamk_f32`).
pub(super) fn has_constant(code: u32) -> bool {
    matches!(code, 0x45 | 0x46)
}

fn find(encoding: &str, info: Option<&'static Info>, code: u32) -> Result<&'static Info, Bad> {
    match info {
        Some(info) => Ok(info),
        None => illegal(format!("{encoding} opcode {code:#x}")),
    }
}

fn scalar(salu: Salu) -> Decoded {
    Ok(Inst {
        bytes: 0,
        body: Body::Salu(salu),
    })
}

/// Returns a source operand. Signed 64-bit operations sign-extend a literal, all others
/// zero-extend.
fn source(limits: &Limits, info: &Info, n: usize, code: u32, literal: u32) -> Result<Src, Bad> {
    let ty = info.src.get(n).copied().unwrap_or(Ty::None);
    if ty == Ty::None {
        return Ok(Src::None);
    }
    if code == LITERAL && ty == Ty::B64 && info.name.ends_with("_i64") {
        return Ok(Src::Imm(i64::from(literal as i32) as u64));
    }
    src(limits, code, ty, literal)
}

fn destination(limits: &Limits, info: &Info, code: u32) -> Result<u8, Bad> {
    match info.dst.regs() {
        0 => Ok(0),
        n => sgpr_dst(limits, code, n),
    }
}

pub(super) fn sop2(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 29, 23);
    let info = find("SOP2", op::sop2(code as u16), code)?;
    scalar(Salu {
        op: info.op,
        dst: destination(limits, info, bits(word, 22, 16))?,
        src: [
            source(limits, info, 0, bits(word, 7, 0), literal)?,
            source(limits, info, 1, bits(word, 15, 8), literal)?,
        ],
        imm: 0,
        literal,
    })
}

pub(super) fn sopk(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 27, 23);
    let info = find("SOPK", op::sopk(code as u16), code)?;
    let reg = bits(word, 22, 16);
    let dst = match info.op {
        Op::s_setreg_imm32_b32 | Op::s_version => 0,
        Op::s_setreg_b32 => sgpr(limits, reg, 1)?,
        _ => sgpr_dst(limits, reg, info.dst.regs())?,
    };
    scalar(Salu {
        op: info.op,
        dst,
        src: [Src::None; 2],
        imm: i32::from(word as u16 as i16),
        literal,
    })
}

pub(super) fn sop1(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 15, 8);
    let info = find("SOP1", op::sop1(code as u16), code)?;
    scalar(Salu {
        op: info.op,
        dst: destination(limits, info, bits(word, 22, 16))?,
        src: [
            source(limits, info, 0, bits(word, 7, 0), literal)?,
            Src::None,
        ],
        // Message id of s_sendmsg_rtn.
        imm: bits(word, 7, 0) as i32,
        literal,
    })
}

pub(super) fn sopc(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 22, 16);
    let info = find("SOPC", op::sopc(code as u16), code)?;
    scalar(Salu {
        op: info.op,
        dst: 0,
        src: [
            source(limits, info, 0, bits(word, 7, 0), literal)?,
            source(limits, info, 1, bits(word, 15, 8), literal)?,
        ],
        imm: 0,
        literal,
    })
}

pub(super) fn sopp(word: u32) -> Decoded {
    let code = bits(word, 22, 16);
    let info = find("SOPP", op::sopp(code as u16), code)?;
    scalar(Salu {
        op: info.op,
        dst: 0,
        src: [Src::None; 2],
        imm: i32::from(word as u16 as i16),
        literal: 0,
    })
}
