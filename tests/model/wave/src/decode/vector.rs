// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VOP1, VOP2, VOPC, VOP3 and VOP3P, with DPP and SDWA.

use super::operand::Limits;
use super::{bits, illegal, violation, Bad, Decoded, DPP, SDWA};
use crate::inst::{Body, Cmp, Dpp, Inst, Sdwa, Shape, Src, Valu, VectorOp};
use crate::op::{self, Info, Op, Ty};

/// Completes an instruction with a table entry.
fn vector(mut valu: Valu, info: &Info) -> Decoded {
    registers(&mut valu, info);
    finish(valu)
}

fn finish(valu: Valu) -> Decoded {
    Ok(Inst {
        bytes: 0,
        body: Body::Valu(valu),
    })
}

/// Sets the operand widths.
fn registers(valu: &mut Valu, info: &Info) {
    if !matches!(info.dst, Ty::None | Ty::Sgpr) {
        valu.dst_regs = info.dst.regs() as u8;
    }
    for (regs, ty) in valu.src_regs.iter_mut().zip(info.src) {
        *regs = ty.regs() as u8;
    }
}

fn blank(op: VectorOp, limits: &Limits) -> Valu {
    Valu {
        op,
        dst: 0,
        sdst: limits.vcc(),
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

fn destination(limits: &Limits, ty: Ty, reg: u32) -> Result<u16, Bad> {
    match ty {
        Ty::None => Ok(0),
        Ty::Sgpr => limits.sgpr_dst(reg, 1).map(u16::from),
        Ty::Acc => limits.accumulator(reg, 1),
        _ => limits.vgpr(reg, ty.regs()),
    }
}

/// Returns the comparison and its operand types.
fn comparison(code: u32) -> Option<(Cmp, bool, Ty, Ty)> {
    let float = |bits| match bits {
        16 => Ty::F16,
        32 => Ty::F32,
        _ => Ty::F64,
    };
    let low = code as u8 & 0xf;
    match code {
        0x10..=0x15 => {
            let bits = [32, 64, 16][usize::from(low / 2)];
            Some((Cmp::Class { bits }, code & 1 == 1, float(bits), Ty::B32))
        }
        0x20..=0x7f => {
            let bits = [16, 32, 64][(code >> 5) as usize - 1];
            // 8..15 are the negations of 7..0: the bits less, equal, greater, unordered of 8..15
            // are those of 0..7 with unordered set.
            let ty = float(bits);
            Some((
                Cmp::Float {
                    relation: low,
                    bits,
                },
                code & 0x10 != 0,
                ty,
                ty,
            ))
        }
        0xa0..=0xff => {
            let bits = [16, 32, 64][(code >> 5) as usize - 5];
            let ty = [Ty::B16, Ty::B32, Ty::B64][(code >> 5) as usize - 5];
            let cmp = Cmp::Int {
                relation: low & 7,
                bits,
                signed: low & 8 == 0,
            };
            Some((cmp, code & 0x10 != 0, ty, ty))
        }
        _ => None,
    }
}

/// Source 0 of the short encodings, with an optional DPP or SDWA word.
struct Short<'a> {
    word: u32,
    second: u32,
    limits: &'a Limits,
    name: &'a str,
}

impl Short<'_> {
    /// Sets sources 0 and 1 and the modifiers in the second word.
    fn sources(&self, v: &mut Valu, types: &[Ty], compare: bool) -> Result<(), Bad> {
        let (word, second, limits) = (self.word, self.second, self.limits);
        let src1 = || bits(word, 16, 9);
        let ty = |n: usize| types.get(n).copied().unwrap_or(Ty::None);
        let has1 = types.len() > 1;
        match bits(word, 8, 0) {
            DPP => {
                if ty(0).regs() > 1 && !(0x150..=0x15f).contains(&bits(second, 16, 8)) {
                    return violation(format!("{}: 64-bit DPP other than row_newbcast", self.name));
                }
                v.src[0] = Src::Vgpr(limits.vgpr(bits(second, 7, 0), ty(0).regs())?);
                if has1 {
                    v.src[1] = Src::Vgpr(limits.vgpr(src1(), ty(1).regs())?);
                }
                v.neg = (bits(second, 20, 20) | bits(second, 22, 22) << 1) as u8;
                v.abs = (bits(second, 21, 21) | bits(second, 23, 23) << 1) as u8;
                v.shape = Shape::Dpp(Dpp {
                    ctrl: bits(second, 16, 8) as u16,
                    bound_ctrl: bits(second, 19, 19) == 1,
                    bank_mask: bits(second, 27, 24) as u8,
                    row_mask: bits(second, 31, 28) as u8,
                    inactive: false,
                });
            }
            SDWA => self.sdwa(v, &ty, has1, compare)?,
            src0 => {
                v.src[0] = limits.src(src0, ty(0), second)?;
                if has1 {
                    v.src[1] = Src::Vgpr(limits.vgpr(src1(), ty(1).regs())?);
                }
            }
        }
        Ok(())
    }

    fn sdwa(
        &self,
        v: &mut Valu,
        ty: &dyn Fn(usize) -> Ty,
        has1: bool,
        compare: bool,
    ) -> Result<(), Bad> {
        let (word, second, limits) = (self.word, self.second, self.limits);
        if ty(0).regs() > 1 || ty(1).regs() > 1 {
            return violation(format!("{}: SDWA on a 64-bit operand", self.name));
        }
        let scalar0 = bits(second, 23, 23) << 8 ^ 256;
        v.src[0] = limits.src(bits(second, 7, 0) | scalar0, ty(0), 0)?;
        if has1 {
            let scalar1 = bits(second, 31, 31) << 8 ^ 256;
            v.src[1] = limits.src(bits(word, 16, 9) | scalar1, ty(1), 0)?;
        }
        let mut sdwa = Sdwa {
            dst_sel: 6,
            dst_unused: 0,
            src_sel: [bits(second, 18, 16) as u8, bits(second, 26, 24) as u8],
            sext: [bits(second, 19, 19) == 1, bits(second, 27, 27) == 1],
        };
        v.neg = (bits(second, 20, 20) | bits(second, 28, 28) << 1) as u8;
        v.abs = (bits(second, 21, 21) | bits(second, 29, 29) << 1) as u8;
        if compare {
            if bits(second, 15, 15) == 1 {
                v.sdst = limits.sgpr_dst(bits(second, 14, 8), 2)?;
            }
        } else {
            sdwa.dst_sel = bits(second, 10, 8) as u8;
            sdwa.dst_unused = bits(second, 12, 11) as u8;
            v.clamp = bits(second, 13, 13) == 1;
            v.omod = bits(second, 15, 14) as u8;
        }
        if sdwa.dst_sel == 7 || sdwa.dst_unused == 3 || sdwa.src_sel.contains(&7) {
            return violation(format!("{}: reserved SDWA selection", self.name));
        }
        v.shape = Shape::Sdwa(sdwa);
        Ok(())
    }
}

/// Returns whether the instruction has a form with DPP.
fn has_dpp(op: Op) -> bool {
    !matches!(
        op,
        Op::v_nop
            | Op::v_clrexcp
            | Op::v_readfirstlane_b32
            | Op::v_swap_b32
            | Op::v_accvgpr_mov_b32
            | Op::v_pk_fmac_f16
    )
}

/// Returns whether the instruction has a form with SDWA.
fn has_sdwa(op: Op) -> bool {
    has_dpp(op)
        && !matches!(
            op,
            Op::v_cvt_f64_f32
                | Op::v_cvt_f64_i32
                | Op::v_cvt_f64_u32
                | Op::v_mac_f16
                | Op::v_fmac_f32
                | Op::v_dot2c_f32_f16
                | Op::v_dot2c_i32_i16
                | Op::v_dot4c_i32_i8
                | Op::v_dot8c_i32_i4
        )
}

/// Refuses DPP and SDWA for instructions that do not have these forms.
fn check_form(info: &Info, word: u32) -> Result<(), Bad> {
    match bits(word, 8, 0) {
        DPP if !has_dpp(info.op) => illegal(format!("{} with DPP", info.name)),
        SDWA if !has_sdwa(info.op) => illegal(format!("{} with SDWA", info.name)),
        _ => Ok(()),
    }
}

pub(super) fn vop1(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 16, 9);
    let Some(info) = op::vop1(code as u16) else {
        return illegal(format!("VOP1 opcode {code:#x}"));
    };
    check_form(info, word)?;
    let mut v = blank(VectorOp::Op(info.op), limits);
    if !info.src.is_empty() {
        let short = Short {
            word,
            second,
            limits,
            name: info.name,
        };
        short.sources(&mut v, info.src, false)?;
    }
    v.dst = destination(limits, info.dst, bits(word, 24, 17))?;
    vector(v, info)
}

pub(super) fn vop2(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 30, 25);
    let Some(info) = op::vop2(code as u16) else {
        return illegal(format!("VOP2 opcode {code:#x}"));
    };
    check_form(info, word)?;
    let mut v = blank(VectorOp::Op(info.op), limits);
    let short = Short {
        word,
        second,
        limits,
        name: info.name,
    };
    match info.op {
        Op::v_fmamk_f32 | Op::v_madmk_f16 => {
            v.src[0] = limits.src(bits(word, 8, 0), info.src[0], second)?;
            v.src[1] = Src::Imm(u64::from(second));
            v.src[2] = Src::Vgpr(limits.vgpr(bits(word, 16, 9), 1)?);
        }
        Op::v_fmaak_f32 | Op::v_madak_f16 => {
            v.src[0] = limits.src(bits(word, 8, 0), info.src[0], second)?;
            v.src[1] = Src::Vgpr(limits.vgpr(bits(word, 16, 9), 1)?);
            v.src[2] = Src::Imm(u64::from(second));
        }
        _ => short.sources(&mut v, &info.src[..2], false)?,
    }
    if info.src.get(2) == Some(&Ty::Mask) {
        v.src[2] = Src::Sgpr(limits.vcc());
    }
    v.dst = destination(limits, info.dst, bits(word, 24, 17))?;
    vector(v, info)
}

pub(super) fn vopc(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 24, 17);
    let Some((cmp, write_exec, a, b)) = comparison(code) else {
        return illegal(format!("VOPC opcode {code:#x}"));
    };
    if bits(word, 8, 0) == DPP {
        return illegal("VOPC with DPP".into());
    }
    let mut v = blank(VectorOp::Cmp { cmp, write_exec }, limits);
    Short {
        word,
        second,
        limits,
        name: "v_cmp",
    }
    .sources(&mut v, &[a, b], true)?;
    v.src_regs = [a.regs() as u8, b.regs() as u8, 0];
    finish(v)
}

fn vop3_info(code: u32) -> Result<&'static Info, Bad> {
    let info = match code {
        0x100..=0x13f => op::vop2(code as u16 - 0x100).filter(|info| {
            !matches!(
                info.op,
                Op::v_fmamk_f32
                    | Op::v_fmaak_f32
                    | Op::v_madmk_f16
                    | Op::v_madak_f16
                    | Op::v_pk_fmac_f16
            )
        }),
        0x140..=0x1bf => op::vop1(code as u16 - 0x140).filter(|info| {
            !matches!(
                info.op,
                Op::v_readfirstlane_b32 | Op::v_swap_b32 | Op::v_accvgpr_mov_b32
            )
        }),
        _ => op::vop3(code as u16),
    };
    match info {
        Some(info) => Ok(info),
        None => illegal(format!("VOP3 opcode {code:#x}")),
    }
}

/// Returns whether the VOP3 form has a scalar destination in addition to the vector one.
fn is_vop3b(op: Op) -> bool {
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

pub(super) fn vop3(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 25, 16);
    let fields = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    if fields.iter().any(|&f| matches!(f, 249 | 250 | 255)) {
        return violation(format!("VOP3 opcode {code:#x} with a literal"));
    }
    let mut v;
    if code < 0x100 {
        let Some((cmp, write_exec, a, b)) = comparison(code) else {
            return illegal(format!("VOP3 opcode {code:#x}"));
        };
        v = blank(VectorOp::Cmp { cmp, write_exec }, limits);
        v.src[0] = limits.src(fields[0], a, 0)?;
        v.src[1] = limits.src(fields[1], b, 0)?;
        v.src_regs = [a.regs() as u8, b.regs() as u8, 0];
        v.sdst = limits.sgpr_dst(bits(word, 7, 0), 2)?;
    } else {
        let info = vop3_info(code)?;
        v = blank(VectorOp::Op(info.op), limits);
        for (n, &ty) in info.src.iter().enumerate() {
            v.src[n] = limits.src(fields[n], ty, 0)?;
        }
        v.dst = destination(limits, info.dst, bits(word, 7, 0))?;
        registers(&mut v, info);
        if is_vop3b(info.op) {
            v.sdst = limits.sgpr_dst(bits(word, 14, 8), 2)?;
            v.neg = bits(second, 31, 29) as u8;
            v.omod = bits(second, 28, 27) as u8;
            v.clamp = bits(word, 15, 15) == 1;
            return finish(v);
        }
    }
    v.vop3 = true;
    v.abs = bits(word, 10, 8) as u8;
    v.op_sel = bits(word, 14, 11) as u8;
    v.clamp = bits(word, 15, 15) == 1;
    v.neg = bits(second, 31, 29) as u8;
    v.omod = bits(second, 28, 27) as u8;
    finish(v)
}

pub(super) fn vop3p(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 22, 16);
    let Some(info) = op::vop3p(code as u16) else {
        return illegal(format!("VOP3P opcode {code:#x}"));
    };
    let fields = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    if fields.iter().any(|&f| matches!(f, 249 | 250 | 255)) {
        return violation(format!("{} with a literal", info.name));
    }
    let mut v = blank(VectorOp::Op(info.op), limits);
    if info.name.contains("mfma") || info.name.contains("smfmac") {
        return matrix(v, info, word, second, limits);
    }
    v.op_sel_hi = (bits(second, 28, 27) | bits(word, 14, 14) << 2) as u8;
    for (n, &ty) in info.src.iter().enumerate() {
        v.src[n] = limits.src(fields[n], ty.mixed(v.op_sel_hi >> n & 1 != 0), 0)?;
    }
    v.dst = destination(limits, info.dst, bits(word, 7, 0))?;
    v.neg_hi = bits(word, 10, 8) as u8;
    v.op_sel = bits(word, 13, 11) as u8;
    v.clamp = bits(word, 15, 15) == 1;
    v.neg = bits(second, 31, 29) as u8;
    vector(v, info)
}

/// Decodes a matrix instruction: operands can be accumulators.
fn matrix(mut v: Valu, info: &Info, word: u32, second: u32, limits: &Limits) -> Decoded {
    let acc_cd = bits(word, 15, 15) == 1;
    let fields = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    let acc = [bits(second, 27, 27) == 1, bits(second, 28, 28) == 1, acc_cd];
    // A constant C is an element.
    let addend = match info.src[0] {
        Ty::F64 => Ty::F64,
        _ => Ty::F32,
    };
    for (n, &ty) in info.src.iter().enumerate() {
        let sparse_index = n == 2 && info.name.contains("smfmac");
        v.src[n] = match fields[n] {
            reg @ 256.. => {
                Src::Vgpr(limits.either(acc[n] && !sparse_index, reg - 256, ty.regs())?)
            }
            field if n == 2 && !sparse_index => limits.src(field, addend, 0)?,
            field => return violation(format!("{}: source operand code {field}", info.name)),
        };
    }
    v.dst = limits.either(acc_cd, bits(word, 7, 0), info.dst.regs())?;
    v.matrix = [
        bits(word, 10, 8) as u8,
        bits(word, 14, 11) as u8,
        bits(second, 31, 29) as u8,
    ];
    vector(v, info)
}
