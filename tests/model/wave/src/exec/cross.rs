// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Moves between lanes, between scalar and vector registers, and to and from accumulators.

use super::valu::Tried;
use crate::inst::{Shape, Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Lanes, Wave, LANES};

fn vgpr(src: Src, what: &str) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(reg) => Ok(usize::from(reg)),
        _ => violation(format!("{what} of a scalar")),
    }
}

/// Returns the lane selected by a scalar.
fn lane(w: &Wave, src: Src) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(_) => violation("lane select is a vector register"),
        src if w.wave32 => Ok(w.scalar(src) as usize % (LANES / 2)),
        src => Ok(w.scalar(src) as usize % LANES),
    }
}

/// Exchanges halves of two registers.
fn swap_halves(w: &mut Wave, i: &Valu) -> Result<(), Halt> {
    let (a, b, mask) = (vgpr(i.src[0], "v_swap_b16")?, usize::from(i.dst), w.mask);
    let (from, to) = (w.raw16(i, 0), {
        let shift = if i.op_sel & 8 != 0 { 16 } else { 0 };
        w.v[b].map(|v| v >> shift & 0xffff)
    });
    let put = |w: &mut Wave, reg: usize, high: bool, half: &Lanes| {
        let shift = if high { 16 } else { 0 };
        let old = w.v[reg];
        let new = std::array::from_fn(|l| old[l] & !(0xffff << shift) | half[l] << shift);
        w.write(reg, mask, &new);
    };
    put(w, b, i.op_sel & 8 != 0, &from);
    put(w, a, i.op_sel & 1 != 0, &to);
    Ok(())
}

/// Moves the value of a lane of the same row of 16, or of the `other` row of the pair, to each
/// lane. `op_sel`: whether inactive lanes are read (FI), and whether they give zero.
fn permute_row(w: &mut Wave, i: &Valu, other: bool, select: impl Fn(usize) -> usize) {
    let (exec, a) = (w.exec(), w.raw(i, 0));
    let (inactive, zero) = (i.op_sel & 1 != 0, i.op_sel & 2 != 0);
    let mut out = w.v[usize::from(i.dst)];
    for (l, out) in out.iter_mut().enumerate() {
        let row = (l & !15) ^ if other { 16 } else { 0 };
        let from = row + select(l);
        if inactive || exec >> from & 1 != 0 {
            *out = a[from];
        } else if zero {
            *out = 0;
        }
    }
    w.put(i, out);
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_readfirstlane_b32 => {
            let first = match w.exec() {
                0 => 0,
                exec => exec.trailing_zeros() as usize,
            };
            if i.shape != Shape::Plain {
                return violation("v_readfirstlane with DPP or SDWA");
            }
            let value = w.v[vgpr(i.src[0], "v_readfirstlane")?][first];
            w.s[usize::from(i.dst)] = value;
        }
        v_readlane_b32 => {
            let from = lane(w, i.src[1])?;
            let value = w.v[vgpr(i.src[0], "v_readlane")?][from];
            w.s[usize::from(i.dst)] = value;
        }
        v_writelane_b32 => {
            let to = lane(w, i.src[1])?;
            if let Src::Vgpr(_) = i.src[0] {
                return violation("v_writelane of a vector register");
            }
            w.v[usize::from(i.dst)][to] = w.scalar(i.src[0]);
        }
        v_mbcnt_lo_u32_b32 => {
            let (a, b) = (w.raw(i, 0), w.raw(i, 1));
            w.put(
                i,
                std::array::from_fn(|l| {
                    let below = if l >= 32 { !0 } else { (1u32 << l) - 1 };
                    (a[l] & below).count_ones().wrapping_add(b[l])
                }),
            );
        }
        v_mbcnt_hi_u32_b32 => {
            let (a, b) = (w.raw(i, 0), w.raw(i, 1));
            w.put(
                i,
                std::array::from_fn(|l| {
                    let below = if l <= 32 { 0 } else { (1u32 << (l - 32)) - 1 };
                    (a[l] & below).count_ones().wrapping_add(b[l])
                }),
            );
        }
        v_swap_b32 => {
            let (a, b) = (vgpr(i.src[0], "v_swap")?, usize::from(i.dst));
            let (from, to, mask) = (w.v[a], w.v[b], w.mask);
            w.write(b, mask, &from);
            w.write(a, mask, &to);
        }
        v_swap_b16 => swap_halves(w, i)?,
        // Exchanges the halves of a wave64; no effect in a wave32.
        v_permlane64_b32 if w.wave32 => {}
        v_permlane64_b32 => {
            let a = w.raw(i, 0);
            w.put(i, std::array::from_fn(|l| a[l ^ 32]));
        }
        v_permlane16_b32 | v_permlanex16_b32 => {
            let [low, high] = [1, 2].map(|n| u64::from(w.scalar(i.src[n])));
            let lanes = low | high << 32;
            let other = op == v_permlanex16_b32;
            permute_row(w, i, other, |l| (lanes >> (4 * (l & 15)) & 15) as usize);
        }
        v_permlane16_var_b32 | v_permlanex16_var_b32 => {
            let select = w.raw(i, 1);
            let other = op == v_permlanex16_var_b32;
            permute_row(w, i, other, |l| (select[l] & 15) as usize);
        }
        v_accvgpr_read_b32 | v_accvgpr_write_b32 | v_accvgpr_mov_b32 => w.u1(i, |a| a),
        _ => return Ok(false),
    }
    Ok(true)
}
