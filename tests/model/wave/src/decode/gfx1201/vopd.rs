// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VOPD of gfx1201: dual-issued vector instructions.

use super::super::operand::code;
use super::super::{bits, illegal, violation, Bad, Decoded, Limits};
use super::operand::{src, vgpr};
use super::vector::blank;
use super::LITERAL;
use crate::inst::{Body, Inst, Src, Valu, VectorOp};
use crate::op::{Op, Ty};

/// Opcodes of X and Y that are followed by a constant.
const FMAAK: u32 = 1;
const FMAMK: u32 = 2;

/// Returns whether a constant follows.
pub(super) fn has_constant(first: u32, second: u32) -> bool {
    let constant = |opcode: u32| matches!(opcode, FMAAK | FMAMK);
    constant(bits(first, 25, 22))
        || constant(bits(first, 21, 17))
        || bits(first, 8, 0) == LITERAL
        || bits(second, 8, 0) == LITERAL
}

/// Returns the instruction and its number of encoded sources.
fn instruction(opcode: u32) -> Option<(Op, usize)> {
    Some(match opcode {
        0 => (Op::v_fmac_f32, 2),
        FMAAK => (Op::v_fmaak_f32, 2),
        FMAMK => (Op::v_fmamk_f32, 2),
        3 => (Op::v_mul_f32, 2),
        4 => (Op::v_add_f32, 2),
        5 => (Op::v_sub_f32, 2),
        6 => (Op::v_subrev_f32, 2),
        7 => (Op::v_mul_legacy_f32, 2),
        8 => (Op::v_mov_b32, 1),
        9 => (Op::v_cndmask_b32, 2),
        10 => (Op::v_max_f32, 2),
        11 => (Op::v_min_f32, 2),
        16 => (Op::v_add_u32, 2),
        17 => (Op::v_lshlrev_b32, 2),
        18 => (Op::v_and_b32, 2),
        _ => return None,
    })
}

/// Decodes one half: opcode, source 0, source 1, destination.
fn half(limits: &Limits, fields: [u32; 4], literal: u32) -> Result<Valu, Bad> {
    let [opcode, src0, src1, dst] = fields;
    let Some((op, sources)) = instruction(opcode) else {
        return illegal(format!("VOPD opcode {opcode:#x}"));
    };
    let integer = matches!(
        op,
        Op::v_mov_b32 | Op::v_cndmask_b32 | Op::v_add_u32 | Op::v_lshlrev_b32 | Op::v_and_b32
    );
    let ty = if integer { Ty::B32 } else { Ty::F32 };
    let mut v = blank(VectorOp::Op(op));
    v.src[0] = src(limits, src0, ty, literal)?;
    if sources == 2 {
        v.src[1] = Src::Vgpr(vgpr(limits, src1, 1)?);
    }
    match op {
        Op::v_fmaak_f32 => v.src[2] = Src::Imm(literal.into()),
        Op::v_fmamk_f32 => {
            v.src[2] = v.src[1];
            v.src[1] = Src::Imm(literal.into());
        }
        Op::v_cndmask_b32 => v.src[2] = Src::Sgpr(code::VCC),
        _ => {}
    }
    v.dst = vgpr(limits, dst, 1)?;
    v.dst_regs = 1;
    v.src_regs = [1; 3];
    Ok(v)
}

pub(super) fn vopd(first: u32, second: u32, literal: u32, limits: &Limits) -> Decoded {
    if !limits.wave32 {
        return violation("VOPD in a wave64".into());
    }
    let x_dst = bits(second, 31, 24);
    // One destination is even, the other odd: the lowest bit of Y's is not encoded.
    let y_dst = bits(second, 23, 17) << 1 | x_dst & 1 ^ 1;
    let x_op = bits(first, 25, 22);
    let y_op = bits(first, 21, 17);
    let x = [x_op, bits(first, 8, 0), bits(first, 16, 9), x_dst];
    let y = [y_op, bits(second, 8, 0), bits(second, 16, 9), y_dst];
    let pair = [half(limits, x, literal)?, half(limits, y, literal)?];
    Ok(Inst {
        bytes: 0,
        body: Body::Dual(Box::new(pair)),
    })
}
