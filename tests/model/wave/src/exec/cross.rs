// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Instructions that move data between lanes, between scalar and vector registers, and to and
//! from accumulators.

use super::valu::Tried;
use crate::inst::{Shape, Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Wave, LANES};

fn vgpr(src: Src, what: &str) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(reg) => Ok(usize::from(reg)),
        _ => violation(format!("{what} of a scalar")),
    }
}

/// The scalar that selects a lane.
fn lane(w: &Wave, src: Src) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(_) => violation("a lane selected by a vector register"),
        src if w.wave32 => Ok(w.scalar(src) as usize % (LANES / 2)),
        src => Ok(w.scalar(src) as usize % LANES),
    }
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
        v_accvgpr_read_b32 | v_accvgpr_write_b32 | v_accvgpr_mov_b32 => w.u1(i, |a| a),
        _ => return Ok(false),
    }
    Ok(true)
}
