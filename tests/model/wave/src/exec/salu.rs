// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SOP1, SOP2, SOPC and SOPK; SOPP is in [`control`](super::control), float arithmetic in
//! [`scalar_float`](super::scalar_float).

use super::{control, scalar_float, Ctx};
use crate::decode::code;
use crate::inst::Salu;
use crate::op::Op;
use crate::wave::{violation, Halt, Step, Wave};
use crate::Isa;

/// Returns the register of a relative move, `base` plus `index`. Fails outside of the allocation,
/// which a trap handler accesses as a whole: of 112 SGPRs the last four do not exist.
fn relative(w: &Wave, ctx: &Ctx<'_>, base: u8, count: u32, index: u32) -> Result<u8, Halt> {
    let at = u64::from(base) + u64::from(index);
    let limit = match w.privileged {
        true => ctx.dispatch.allocated_sgprs() as u64,
        false => ctx.dispatch.sgprs() as u64,
    };
    if w.isa == Isa::Gfx942 && at >= u64::from(code::TTMP0) && at < limit {
        return Ok(code::SINK);
    }
    if at + u64::from(count) > limit || (count == 2 && at % 2 != 0) {
        return violation(format!("relative move of s{base} by M0 = {:#x}", w.m0()));
    }
    Ok(at as u8)
}

/// Bit-field extract operand: offset in the low bits, width in bits 22:16.
fn field(b: u32, bits: u32) -> (u32, u32) {
    (b & (bits - 1), b >> 16 & 0x7f)
}

fn bfe_u64(a: u64, offset: u32, width: u32) -> u64 {
    match width {
        0 => 0,
        1..=63 => a >> offset & ((1 << width) - 1),
        _ => a >> offset,
    }
}

fn bfe_i64(a: u64, offset: u32, width: u32, bits: u32) -> u64 {
    let width = width.min(bits - offset);
    match width {
        0 => 0,
        n => ((bfe_u64(a, offset, n) << (64 - n)) as i64 >> (64 - n)) as u64,
    }
}

/// Per group of 4 bits: all ones if any is set (whole quad mode), or one bit per quad.
fn quads(a: u64, whole: bool) -> u64 {
    let mut out = 0;
    for quad in 0..16 {
        if a >> (quad * 4) & 0xf != 0 {
            out |= if whole { 0xf << (quad * 4) } else { 1 << quad };
        }
    }
    out
}

pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Salu, bytes: u8) -> Step {
    use Op::*;
    let d = usize::from(i.dst);
    let a = w.scalar(i.src[0]);
    let b = w.scalar(i.src[1]);
    let a64 = || w.scalar64(i.src[0]);
    let b64 = || w.scalar64(i.src[1]);
    let (sa, sb) = (a as i32, b as i32);
    // Result: a 32-bit or 64-bit value, and SCC if the instruction sets it.
    enum Out {
        W(u32),
        WS(u32, bool),
        /// Sets SCC to "not zero".
        WZ(u32),
        D(u64),
        DZ(u64),
        S(bool),
        None,
    }
    use Out::{D, DZ, S, W, WS, WZ};
    let carry = u32::from(w.scc);
    let out = match i.op {
        s_add_u32 => {
            let (r, c) = a.overflowing_add(b);
            WS(r, c)
        }
        s_sub_u32 => {
            let (r, c) = a.overflowing_sub(b);
            WS(r, c)
        }
        s_add_i32 => {
            let (r, o) = sa.overflowing_add(sb);
            WS(r as u32, o)
        }
        s_sub_i32 => {
            let (r, o) = sa.overflowing_sub(sb);
            WS(r as u32, o)
        }
        s_addc_u32 => {
            let sum = u64::from(a) + u64::from(b) + u64::from(carry);
            WS(sum as u32, sum >> 32 != 0)
        }
        s_subb_u32 => {
            let take = u64::from(b) + u64::from(carry);
            WS(a.wrapping_sub(take as u32), take > u64::from(a))
        }
        s_min_i32 => WS(sa.min(sb) as u32, sa < sb),
        s_min_u32 => WS(a.min(b), a < b),
        s_max_i32 => WS(sa.max(sb) as u32, sa > sb),
        s_max_u32 => WS(a.max(b), a > b),
        s_cselect_b32 => W(if w.scc { a } else { b }),
        s_cselect_b64 => D(if w.scc { a64() } else { b64() }),
        s_and_b32 => WZ(a & b),
        s_and_b64 => DZ(a64() & b64()),
        s_or_b32 => WZ(a | b),
        s_or_b64 => DZ(a64() | b64()),
        s_xor_b32 => WZ(a ^ b),
        s_xor_b64 => DZ(a64() ^ b64()),
        s_andn2_b32 => WZ(a & !b),
        s_andn2_b64 => DZ(a64() & !b64()),
        s_orn2_b32 => WZ(a | !b),
        s_orn2_b64 => DZ(a64() | !b64()),
        s_nand_b32 => WZ(!(a & b)),
        s_nand_b64 => DZ(!(a64() & b64())),
        s_nor_b32 => WZ(!(a | b)),
        s_nor_b64 => DZ(!(a64() | b64())),
        s_xnor_b32 => WZ(!(a ^ b)),
        s_xnor_b64 => DZ(!(a64() ^ b64())),
        s_lshl_b32 => WZ(a << (b & 31)),
        s_lshl_b64 => DZ(a64() << (b & 63)),
        s_lshr_b32 => WZ(a >> (b & 31)),
        s_lshr_b64 => DZ(a64() >> (b & 63)),
        s_ashr_i32 => WZ((sa >> (b & 31)) as u32),
        s_ashr_i64 => DZ((a64() as i64 >> (b & 63)) as u64),
        s_bfm_b32 => W(((1u32 << (a & 31)) - 1) << (b & 31)),
        s_bfm_b64 => D(((1u64 << (a & 63)) - 1) << (b & 63)),
        s_mul_i32 => W(a.wrapping_mul(b)),
        s_mul_hi_u32 => W((u64::from(a) * u64::from(b) >> 32) as u32),
        s_mul_hi_i32 => W((i64::from(sa) * i64::from(sb) >> 32) as u32),
        s_bfe_u32 => {
            let (offset, width) = field(b, 32);
            WZ(bfe_u64(u64::from(a), offset, width) as u32)
        }
        s_bfe_i32 => {
            let (offset, width) = field(b, 32);
            WZ(bfe_i64(u64::from(a), offset, width, 32) as u32)
        }
        s_bfe_u64 => {
            let (offset, width) = field(b, 64);
            DZ(bfe_u64(a64(), offset, width))
        }
        s_bfe_i64 => {
            let (offset, width) = field(b, 64);
            DZ(bfe_i64(a64(), offset, width, 64))
        }
        s_absdiff_i32 => WZ(sa.wrapping_sub(sb).unsigned_abs()),
        s_lshl1_add_u32 | s_lshl2_add_u32 | s_lshl3_add_u32 | s_lshl4_add_u32 => {
            let shift = match i.op {
                s_lshl1_add_u32 => 1,
                s_lshl2_add_u32 => 2,
                s_lshl3_add_u32 => 3,
                _ => 4,
            };
            let sum = (u64::from(a) << shift) + u64::from(b);
            WS(sum as u32, sum >> 32 != 0)
        }
        s_pack_ll_b32_b16 => W(a & 0xffff | b << 16),
        s_pack_lh_b32_b16 => W(a & 0xffff | b & 0xffff_0000),
        s_pack_hh_b32_b16 => W(a >> 16 | b & 0xffff_0000),
        s_pack_hl_b32_b16 => W(a >> 16 | b << 16),
        s_add_nc_u64 => D(a64().wrapping_add(b64())),
        s_sub_nc_u64 => D(a64().wrapping_sub(b64())),
        s_mul_u64 => D(a64().wrapping_mul(b64())),

        s_mov_b32 => W(a),
        s_mov_b64 => D(a64()),
        s_cmov_b32 => {
            if w.scc {
                W(a)
            } else {
                Out::None
            }
        }
        s_cmov_b64 => {
            if w.scc {
                D(a64())
            } else {
                Out::None
            }
        }
        s_not_b32 => WZ(!a),
        s_not_b64 => DZ(!a64()),
        s_wqm_b32 => WZ(quads(u64::from(a), true) as u32),
        s_wqm_b64 => DZ(quads(a64(), true)),
        s_quadmask_b32 => WZ(quads(u64::from(a), false) as u32),
        s_quadmask_b64 => DZ(quads(a64(), false)),
        s_brev_b32 => W(a.reverse_bits()),
        s_brev_b64 => D(a64().reverse_bits()),
        s_bcnt0_i32_b32 => WZ(a.count_zeros()),
        s_bcnt0_i32_b64 => WZ(a64().count_zeros()),
        s_bcnt1_i32_b32 => WZ(a.count_ones()),
        s_bcnt1_i32_b64 => WZ(a64().count_ones()),
        s_ff0_i32_b32 => W(if a == !0 { !0 } else { a.trailing_ones() }),
        s_ff0_i32_b64 => W(if a64() == !0 {
            !0
        } else {
            a64().trailing_ones()
        }),
        s_ff1_i32_b32 => W(if a == 0 { !0 } else { a.trailing_zeros() }),
        s_ff1_i32_b64 => W(if a64() == 0 {
            !0
        } else {
            a64().trailing_zeros()
        }),
        s_flbit_i32_b32 => W(if a == 0 { !0 } else { a.leading_zeros() }),
        s_flbit_i32_b64 => W(if a64() == 0 {
            !0
        } else {
            a64().leading_zeros()
        }),
        s_flbit_i32 => W(sign_bits(i64::from(sa), 32)),
        s_flbit_i32_i64 => W(sign_bits(a64() as i64, 64)),
        s_sext_i32_i8 => W(i32::from(a as i8) as u32),
        s_sext_i32_i16 => W(i32::from(a as i16) as u32),
        s_bitset0_b32 => W(w.s[d] & !(1 << (a & 31))),
        s_bitset1_b32 => W(w.s[d] | 1 << (a & 31)),
        s_bitset0_b64 => D(w.s64(i.dst) & !(1 << (a & 63))),
        s_bitset1_b64 => D(w.s64(i.dst) | 1 << (a & 63)),
        s_abs_i32 => WZ(sa.unsigned_abs()),
        s_bitreplicate_b64_b32 => {
            D((0..32).fold(0, |r, n| r | u64::from(a >> n & 1) * 3 << (2 * n)))
        }
        s_getpc_b64 => D(w.pc),
        s_setpc_b64 => {
            w.pc = a64();
            Out::None
        }
        s_rfe_b64 | s_rfe_restore_b64 => {
            w.return_from_trap(a64())?;
            Out::None
        }
        s_swappc_b64 => {
            let target = a64();
            let back = w.pc;
            w.pc = target;
            D(back)
        }
        s_call_b64 => {
            let back = w.pc;
            w.pc = back.wrapping_add_signed(i64::from(i.imm) * 4);
            D(back)
        }
        s_movrels_b32 => match i.src[0] {
            crate::inst::Src::Sgpr(base) => W(w.s[usize::from(relative(w, ctx, base, 1, w.m0())?)]),
            _ => return violation("s_movrels of a constant"),
        },
        s_movrels_b64 => match i.src[0] {
            crate::inst::Src::Sgpr(base) => D(w.s64(relative(w, ctx, base, 2, w.m0())?)),
            _ => return violation("s_movrels of a constant"),
        },
        s_movreld_b32 => {
            let to = relative(w, ctx, i.dst, 1, w.m0())?;
            w.s[usize::from(to)] = a;
            Out::None
        }
        s_movreld_b64 => {
            let (to, value) = (relative(w, ctx, i.dst, 2, w.m0())?, a64());
            w.set_s64(to, value);
            Out::None
        }
        s_movrelsd_2_b32 => match i.src[0] {
            crate::inst::Src::Sgpr(base) => {
                // M0 holds two indices: source and destination.
                let m0 = w.m0();
                let from = relative(w, ctx, base, 1, m0 & 0x3ff)?;
                let to = relative(w, ctx, i.dst, 1, m0 >> 16 & 0x3ff)?;
                w.s[usize::from(to)] = w.s[usize::from(from)];
                Out::None
            }
            _ => return violation("s_movrelsd_2 of a constant"),
        },
        s_and_saveexec_b32 | s_or_saveexec_b32 | s_xor_saveexec_b32 | s_andn2_saveexec_b32
        | s_orn2_saveexec_b32 | s_nand_saveexec_b32 | s_nor_saveexec_b32 | s_xnor_saveexec_b32
        | s_andn1_saveexec_b32 | s_orn1_saveexec_b32 | s_andn1_wrexec_b32 | s_andn2_wrexec_b32 => {
            let exec = usize::from(code::EXEC);
            let old = w.s[exec];
            let new = match i.op {
                s_and_saveexec_b32 => a & old,
                s_or_saveexec_b32 => a | old,
                s_xor_saveexec_b32 => a ^ old,
                s_andn2_saveexec_b32 | s_andn2_wrexec_b32 => a & !old,
                s_orn2_saveexec_b32 => a | !old,
                s_nand_saveexec_b32 => !(a & old),
                s_nor_saveexec_b32 => !(a | old),
                s_xnor_saveexec_b32 => !(a ^ old),
                s_andn1_saveexec_b32 | s_andn1_wrexec_b32 => !a & old,
                _ => !a | old,
            };
            w.s[exec] = new;
            w.scc = new != 0;
            W(if matches!(i.op, s_andn1_wrexec_b32 | s_andn2_wrexec_b32) {
                new
            } else {
                old
            })
        }
        s_and_saveexec_b64 | s_or_saveexec_b64 | s_xor_saveexec_b64 | s_andn2_saveexec_b64
        | s_orn2_saveexec_b64 | s_nand_saveexec_b64 | s_nor_saveexec_b64 | s_xnor_saveexec_b64
        | s_andn1_saveexec_b64 | s_orn1_saveexec_b64 | s_andn1_wrexec_b64 | s_andn2_wrexec_b64 => {
            let (source, old) = (a64(), w.exec());
            let new = match i.op {
                s_and_saveexec_b64 => source & old,
                s_or_saveexec_b64 => source | old,
                s_xor_saveexec_b64 => source ^ old,
                s_andn2_saveexec_b64 | s_andn2_wrexec_b64 => source & !old,
                s_orn2_saveexec_b64 => source | !old,
                s_nand_saveexec_b64 => !(source & old),
                s_nor_saveexec_b64 => !(source | old),
                s_xnor_saveexec_b64 => !(source ^ old),
                s_andn1_saveexec_b64 | s_andn1_wrexec_b64 => !source & old,
                _ => !source | old,
            };
            w.set_exec(new);
            w.scc = new != 0;
            D(if matches!(i.op, s_andn1_wrexec_b64 | s_andn2_wrexec_b64) {
                new
            } else {
                old
            })
        }

        s_setvskip => {
            let skip = a >> (b & 31) & 1 != 0;
            w.mode = w.mode & !control::VSKIP | if skip { control::VSKIP } else { 0 };
            Out::None
        }
        s_cmp_eq_i32 | s_cmp_eq_u32 => S(a == b),
        s_cmp_lg_i32 | s_cmp_lg_u32 => S(a != b),
        s_cmp_gt_i32 => S(sa > sb),
        s_cmp_ge_i32 => S(sa >= sb),
        s_cmp_lt_i32 => S(sa < sb),
        s_cmp_le_i32 => S(sa <= sb),
        s_cmp_gt_u32 => S(a > b),
        s_cmp_ge_u32 => S(a >= b),
        s_cmp_lt_u32 => S(a < b),
        s_cmp_le_u32 => S(a <= b),
        s_bitcmp0_b32 => S(a >> (b & 31) & 1 == 0),
        s_bitcmp1_b32 => S(a >> (b & 31) & 1 == 1),
        s_bitcmp0_b64 => S(a64() >> (b & 63) & 1 == 0),
        s_bitcmp1_b64 => S(a64() >> (b & 63) & 1 == 1),
        s_cmp_eq_u64 => S(a64() == b64()),
        s_cmp_lg_u64 => S(a64() != b64()),

        s_version => Out::None,
        s_movk_i32 => W(i.imm as u32),
        s_cmovk_i32 => {
            if w.scc {
                W(i.imm as u32)
            } else {
                Out::None
            }
        }
        s_cmpk_eq_i32 => S(w.s[d] as i32 == i.imm),
        s_cmpk_lg_i32 => S(w.s[d] as i32 != i.imm),
        s_cmpk_gt_i32 => S(w.s[d] as i32 > i.imm),
        s_cmpk_ge_i32 => S(w.s[d] as i32 >= i.imm),
        s_cmpk_lt_i32 => S((w.s[d] as i32) < i.imm),
        s_cmpk_le_i32 => S(w.s[d] as i32 <= i.imm),
        s_cmpk_eq_u32 => S(w.s[d] == i.imm as u32 & 0xffff),
        s_cmpk_lg_u32 => S(w.s[d] != i.imm as u32 & 0xffff),
        s_cmpk_gt_u32 => S(w.s[d] > i.imm as u32 & 0xffff),
        s_cmpk_ge_u32 => S(w.s[d] >= i.imm as u32 & 0xffff),
        s_cmpk_lt_u32 => S(w.s[d] < i.imm as u32 & 0xffff),
        s_cmpk_le_u32 => S(w.s[d] <= i.imm as u32 & 0xffff),
        s_addk_i32 => {
            let (r, o) = (w.s[d] as i32).overflowing_add(i.imm);
            WS(r as u32, o)
        }
        s_mulk_i32 => W(w.s[d].wrapping_mul(i.imm as u32)),
        s_getreg_b32 => W(control::getreg(w, ctx, i.imm)?),
        s_setreg_b32 => {
            control::setreg(w, ctx, i.imm, w.s[d])?;
            Out::None
        }
        s_setreg_imm32_b32 => {
            control::setreg(w, ctx, i.imm, i.literal)?;
            Out::None
        }
        _ => match scalar_float::step(w, i, [a, b]) {
            Some(scalar_float::Out::Value(v)) => W(v),
            Some(scalar_float::Out::Condition(scc)) => S(scc),
            None => return control::step(w, ctx, i, bytes),
        },
    };
    match out {
        W(v) => w.s[d] = v,
        WS(v, scc) => {
            w.s[d] = v;
            w.scc = scc;
        }
        WZ(v) => {
            w.s[d] = v;
            w.scc = v != 0;
        }
        D(v) => w.set_s64(i.dst, v),
        DZ(v) => {
            w.set_s64(i.dst, v);
            w.scc = v != 0;
        }
        S(scc) => w.scc = scc,
        Out::None => {}
    }
    debug_assert!(usize::from(i.dst) < code::COUNT);
    Ok(())
}

/// Returns the number of leading bits equal to the sign bit; all ones for 0 and -1.
fn sign_bits(a: i64, bits: u32) -> u32 {
    if a == 0 || a == -1 {
        return !0;
    }
    let same = if a < 0 {
        a.leading_ones()
    } else {
        a.leading_zeros()
    };
    same - (64 - bits)
}
