// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VOP1, VOP2, VOPC, VOP3 and VOP3P of gfx1201, with DPP.
//!
//! A 16-bit operand is half of a register, selected by the highest bit of the register number in
//! short encodings and by `op_sel` in VOP3. Both are stored as `op_sel`.

use super::super::operand::code;
use super::super::{bits, illegal, violation, Bad, Decoded, Limits};
use super::operand::{regs, sgpr_dst, src, vgpr, VGPR};
use super::{DPP16, DPP8, DPP8_FI};
use crate::inst::{Body, Cmp, Dpp, Dpp8, Inst, Shape, Src, Valu, VectorOp};
use crate::op::{gfx1201 as op, Info, Op, Ty};

/// Returns whether the VOP2 opcode is followed by a constant (`v_fmamk`, `v_fmaak`).
pub(super) fn has_constant(code: u32) -> bool {
    matches!(code, 0x2c | 0x2d | 0x37 | 0x38)
}

pub(super) fn finish(valu: Valu) -> Decoded {
    Ok(Inst {
        bytes: 0,
        body: Body::Valu(valu),
    })
}

pub(super) fn blank(op: VectorOp) -> Valu {
    Valu {
        op,
        dst: 0,
        sdst: code::VCC,
        src: [Src::None; 3],
        dst_regs: 0,
        src_regs: [0; 3],
        abs: 0,
        neg: 0,
        neg_hi: 0,
        op_sel: 0,
        op_sel_hi: 0,
        omod: 0,
        clamp: false,
        vop3: false,
        shape: Shape::Plain,
        matrix: [0; 3],
    }
}

/// Sets the operand widths.
fn widths(valu: &mut Valu, info: &Info) {
    if !matches!(info.dst, Ty::None | Ty::Sgpr) {
        valu.dst_regs = info.dst.regs() as u8;
    }
    for (regs, ty) in valu.src_regs.iter_mut().zip(info.src) {
        *regs = ty.regs() as u8;
    }
}

fn destination(limits: &Limits, ty: Ty, reg: u32) -> Result<u16, Bad> {
    match ty {
        Ty::None => Ok(0),
        Ty::Sgpr => sgpr_dst(limits, reg, 1).map(u16::from),
        _ => vgpr(limits, reg, ty.regs()),
    }
}

/// Returns whether the operand is half of a register.
fn is_half(ty: Ty) -> bool {
    matches!(ty, Ty::B16 | Ty::F16 | Ty::Bf16)
}

/// Returns the comparison, its operand types, and whether it writes EXEC.
fn comparison(opcode: u32) -> Option<(Cmp, Ty, Ty, bool)> {
    let write_exec = opcode & 0x80 != 0;
    let low = opcode as u8 & 0xf;
    let (cmp, a, b) = match opcode & 0x7f {
        n @ 0x00..=0x2f if (1..=14).contains(&low) => {
            let bits = [16, 32, 64][(n >> 4) as usize];
            let ty = [Ty::F16, Ty::F32, Ty::F64][(n >> 4) as usize];
            // 8..14 are the negations of 7..1: the bits less, equal, greater, unordered of 8..14
            // are those of 0..6 with unordered set.
            let relation = low;
            (Cmp::Float { relation, bits }, ty, ty)
        }
        n @ 0x30..=0x5f if (1..=6).contains(&(low & 7)) => {
            let at = (n >> 4) as usize - 3;
            let ty = [Ty::B16, Ty::B32, Ty::B64][at];
            let cmp = Cmp::Int {
                relation: low & 7,
                bits: [16, 32, 64][at],
                signed: low & 8 == 0,
            };
            (cmp, ty, ty)
        }
        0x7d => (Cmp::Class { bits: 16 }, Ty::F16, Ty::B16),
        0x7e => (Cmp::Class { bits: 32 }, Ty::F32, Ty::B32),
        0x7f => (Cmp::Class { bits: 64 }, Ty::F64, Ty::B32),
        _ => return None,
    };
    Some((cmp, a, b, write_exec))
}

/// Returns a comparison with destination EXEC or VCC.
fn compare(opcode: u32, encoding: &str) -> Result<(Valu, [Ty; 2]), Bad> {
    let Some((cmp, a, b, write_exec)) = comparison(opcode) else {
        return illegal(format!("{encoding} opcode {opcode:#x}"));
    };
    let mut v = blank(VectorOp::Cmp { cmp, write_exec });
    v.src_regs = [a.regs() as u8, b.regs() as u8, 0];
    if write_exec {
        v.sdst = code::EXEC;
    }
    Ok((v, [a, b]))
}

/// Decodes a DPP word; returns the register of source 0.
fn dpp(v: &mut Valu, field: u32, word: u32) -> u32 {
    if field == DPP16 {
        // Zero in VOP3, which has its own modifiers.
        v.neg |= (bits(word, 20, 20) | bits(word, 22, 22) << 1) as u8;
        v.abs |= (bits(word, 21, 21) | bits(word, 23, 23) << 1) as u8;
        v.shape = Shape::Dpp(Dpp {
            ctrl: bits(word, 16, 8) as u16,
            bound_ctrl: bits(word, 19, 19) == 1,
            inactive: bits(word, 18, 18) == 1,
            bank_mask: bits(word, 27, 24) as u8,
            row_mask: bits(word, 31, 28) as u8,
        });
    } else {
        v.shape = Shape::Dpp8(Dpp8 {
            lanes: word >> 8,
            inactive: field == DPP8_FI,
        });
    }
    bits(word, 7, 0)
}

/// Returns the register of a short encoding; sets `op_sel` for 16-bit operands.
fn short(limits: &Limits, v: &mut Valu, n: usize, reg: u32, ty: Ty) -> Result<u16, Bad> {
    if is_half(ty) {
        v.op_sel |= ((reg >> 7) as u8) << n;
        return vgpr(limits, reg & 0x7f, 1);
    }
    vgpr(limits, reg, ty.regs())
}

/// Sets source 0 of a short encoding.
fn short0(limits: &Limits, v: &mut Valu, field: u32, last: u32, ty: Ty) -> Result<(), Bad> {
    v.src[0] = match field {
        DPP16 | DPP8 | DPP8_FI => {
            if ty.regs() > 1 {
                return violation("DPP of a 64-bit operand".into());
            }
            let reg = dpp(v, field, last);
            Src::Vgpr(short(limits, v, 0, reg, ty)?)
        }
        VGPR.. => Src::Vgpr(short(limits, v, 0, field - VGPR, ty)?),
        _ => src(limits, field, ty, last)?,
    };
    Ok(())
}

/// Returns whether the instruction has forms with DPP, unless it is VOP3P.
fn has_dpp(info: &Info) -> bool {
    let wide = |ty: &Ty| *ty != Ty::Mask && ty.regs() > 1;
    let scalar = info.dst == Ty::Sgpr || info.src.is_empty();
    let other = matches!(
        info.op,
        Op::v_swap_b16
            | Op::v_swap_b32
            | Op::v_swaprel_b32
            | Op::v_permlane64_b32
            | Op::v_permlane16_b32
            | Op::v_permlanex16_b32
            | Op::v_permlane16_var_b32
            | Op::v_permlanex16_var_b32
            | Op::v_writelane_b32
            | Op::v_mul_lo_u32
            | Op::v_mul_hi_u32
            | Op::v_mul_hi_i32
            | Op::v_div_scale_f32
            | Op::v_div_fmas_f32
            | Op::v_div_fixup_f32
            | Op::v_fma_dx9_zero_f32
            | Op::v_fmamk_f32
            | Op::v_fmaak_f32
            | Op::v_fmamk_f16
            | Op::v_fmaak_f16
    );
    !(scalar || other || wide(&info.dst) || info.src.iter().any(wide))
}

/// Returns whether the VOP3P instruction has forms with DPP.
fn has_packed_dpp(op: Op) -> bool {
    matches!(
        op,
        Op::v_fma_mix_f32
            | Op::v_fma_mixlo_f16
            | Op::v_fma_mixhi_f16
            | Op::v_dot2_f32_f16
            | Op::v_dot4_f32_fp8_bf8
            | Op::v_dot4_f32_bf8_fp8
            | Op::v_dot4_f32_fp8_fp8
            | Op::v_dot4_f32_bf8_bf8
    )
}

/// Refuses DPP in source 0 of an instruction that does not have the form.
fn check_form(info: &Info, field: u32, has: bool) -> Result<(), Bad> {
    match field {
        DPP16 | DPP8 | DPP8_FI if !has => illegal(format!("{} with DPP", info.name)),
        _ => Ok(()),
    }
}

pub(super) fn vop1(word: u32, last: u32, limits: &Limits) -> Decoded {
    let opcode = bits(word, 16, 9);
    let Some(info) = op::vop1(opcode as u16) else {
        return illegal(format!("VOP1 opcode {opcode:#x}"));
    };
    check_form(info, bits(word, 8, 0), has_dpp(info))?;
    let mut v = blank(VectorOp::Op(info.op));
    if let Some(&ty) = info.src.first() {
        short0(limits, &mut v, bits(word, 8, 0), last, ty)?;
    }
    vop1_destination(&mut v, info, bits(word, 24, 17), limits)?;
    widths(&mut v, info);
    finish(v)
}

fn vop1_destination(v: &mut Valu, info: &Info, reg: u32, limits: &Limits) -> Result<(), Bad> {
    v.vop3 = true;
    v.dst = match info.dst {
        ty if is_half(ty) => short(limits, v, 3, reg, ty)?,
        ty => destination(limits, ty, reg)?,
    };
    Ok(())
}

pub(super) fn vop2(word: u32, last: u32, limits: &Limits) -> Decoded {
    let opcode = bits(word, 30, 25);
    let Some(info) = op::vop2(opcode as u16) else {
        return illegal(format!("VOP2 opcode {opcode:#x}"));
    };
    check_form(info, bits(word, 8, 0), has_dpp(info))?;
    let mut v = blank(VectorOp::Op(info.op));
    short0(limits, &mut v, bits(word, 8, 0), last, info.src[0])?;
    let ty = info.src[1];
    let constant = Src::Imm(u64::from(last));
    match info.op {
        Op::v_fmamk_f32 | Op::v_fmamk_f16 => {
            v.src[1] = constant;
            v.src[2] = Src::Vgpr(short(limits, &mut v, 2, bits(word, 16, 9), ty)?);
        }
        Op::v_fmaak_f32 | Op::v_fmaak_f16 => {
            v.src[1] = Src::Vgpr(short(limits, &mut v, 1, bits(word, 16, 9), ty)?);
            v.src[2] = constant;
        }
        _ => v.src[1] = Src::Vgpr(short(limits, &mut v, 1, bits(word, 16, 9), ty)?),
    }
    if info.src.get(2) == Some(&Ty::Mask) {
        v.src[2] = Src::Sgpr(code::VCC);
    }
    vop1_destination(&mut v, info, bits(word, 24, 17), limits)?;
    widths(&mut v, info);
    finish(v)
}

pub(super) fn vopc(word: u32, last: u32, limits: &Limits) -> Decoded {
    let (mut v, [a, b]) = compare(bits(word, 24, 17), "VOPC")?;
    v.vop3 = true;
    short0(limits, &mut v, bits(word, 8, 0), last, a)?;
    v.src[1] = Src::Vgpr(short(limits, &mut v, 1, bits(word, 16, 9), b)?);
    finish(v)
}

pub(super) fn vop3_info(opcode: u32) -> Result<&'static Info, Bad> {
    let info = match opcode {
        0x100..=0x13f if has_constant(opcode - 0x100) => None,
        0x100..=0x13f => {
            op::vop2(opcode as u16 - 0x100).filter(|info| info.op != Op::v_pk_fmac_f16)
        }
        0x180..=0x1ff => op::vop1(opcode as u16 - 0x180).filter(|info| {
            !matches!(
                info.op,
                Op::v_readfirstlane_b32
                    | Op::v_swap_b32
                    | Op::v_swap_b16
                    | Op::v_swaprel_b32
                    | Op::v_permlane64_b32
            )
        }),
        0..=0xff => None,
        _ => op::vop3(opcode as u16),
    };
    match info {
        Some(info) => Ok(info),
        None => illegal(format!("VOP3 opcode {opcode:#x}")),
    }
}

/// Returns whether the VOP3 form has a scalar destination in addition to the vector one.
fn is_vop3sd(op: Op) -> bool {
    matches!(
        op,
        Op::v_add_co_u32
            | Op::v_sub_co_u32
            | Op::v_subrev_co_u32
            | Op::v_addc_co_u32
            | Op::v_subb_co_u32
            | Op::v_subbrev_co_u32
            | Op::v_div_scale_f32
            | Op::v_div_scale_f64
            | Op::v_mad_u64_u32
            | Op::v_mad_i64_i32
    )
}

/// Sets the three sources of VOP3 and VOP3P.
fn sources(v: &mut Valu, types: &[Ty], second: u32, last: u32, limits: &Limits) -> Result<(), Bad> {
    let fields = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    for (n, &ty) in types.iter().enumerate() {
        v.src[n] = match fields[n] {
            field @ (DPP16 | DPP8 | DPP8_FI) if n == 0 => {
                if ty.regs() > 1 {
                    return violation("DPP of a 64-bit operand".into());
                }
                Src::Vgpr(vgpr(limits, dpp(v, field, last), ty.regs())?)
            }
            field => {
                let is_half = v.op_sel_hi >> n & 1 != 0;
                src(limits, field, ty.mixed(is_half), last)?
            }
        };
    }
    Ok(())
}

pub(super) fn vop3(word: u32, second: u32, last: u32, limits: &Limits) -> Decoded {
    let opcode = bits(word, 25, 16);
    let mut v;
    if opcode < 0x100 {
        let types;
        (v, types) = compare(opcode, "VOP3")?;
        sources(&mut v, &types, second, last, limits)?;
        let sdst = sgpr_dst(limits, bits(word, 7, 0), regs(limits, Ty::Mask))?;
        if v.sdst == code::EXEC && sdst != code::EXEC {
            return violation("v_cmpx with a destination other than EXEC".into());
        }
        v.sdst = sdst;
    } else {
        let info = vop3_info(opcode)?;
        check_form(info, bits(second, 8, 0), has_dpp(info))?;
        v = blank(VectorOp::Op(info.op));
        sources(&mut v, info.src, second, last, limits)?;
        v.dst = destination(limits, info.dst, bits(word, 7, 0))?;
        widths(&mut v, info);
        if is_vop3sd(info.op) {
            v.sdst = sgpr_dst(limits, bits(word, 14, 8), regs(limits, Ty::Mask))?;
            v.neg |= bits(second, 31, 29) as u8;
            v.omod = bits(second, 28, 27) as u8;
            v.clamp = bits(word, 15, 15) == 1;
            return finish(v);
        }
    }
    v.vop3 = true;
    v.abs |= bits(word, 10, 8) as u8;
    v.op_sel = bits(word, 14, 11) as u8;
    v.clamp = bits(word, 15, 15) == 1;
    v.neg |= bits(second, 31, 29) as u8;
    v.omod = bits(second, 28, 27) as u8;
    finish(v)
}

pub(super) fn vop3p(word: u32, second: u32, last: u32, limits: &Limits) -> Decoded {
    let opcode = bits(word, 22, 16);
    let Some(info) = op::vop3p(opcode as u16) else {
        return illegal(format!("VOP3P opcode {opcode:#x}"));
    };
    check_form(info, bits(second, 8, 0), has_packed_dpp(info.op))?;
    let mut v = blank(VectorOp::Op(info.op));
    v.op_sel_hi = (bits(second, 28, 27) | bits(word, 14, 14) << 2) as u8;
    sources(&mut v, info.src, second, last, limits)?;
    v.dst = destination(limits, info.dst, bits(word, 7, 0))?;
    v.neg_hi = bits(word, 10, 8) as u8;
    v.op_sel = bits(word, 13, 11) as u8;
    v.clamp = bits(word, 15, 15) == 1;
    v.neg |= bits(second, 31, 29) as u8;
    widths(&mut v, info);
    finish(v)
}
