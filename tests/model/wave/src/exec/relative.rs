// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Moves between vector registers indexed relative to M0 (gfx1201).

use super::valu::Tried;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Wave};

/// Returns register `reg` plus `index`. Fails outside of the allocation.
fn relative(w: &Wave, reg: u16, index: u32) -> Result<usize, Halt> {
    let at = u64::from(reg) + u64::from(index);
    if at < u64::from(w.arch) {
        Ok(at as usize)
    } else {
        violation(format!("v{reg} relative to M0: v{at} of {} VGPRs", w.arch))
    }
}

/// Returns the vector register of source 0.
fn source(i: &Valu) -> Result<u16, Halt> {
    match i.src[0] {
        Src::Vgpr(reg) => Ok(reg),
        _ => violation("a relative move of a scalar"),
    }
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    let (m0, mask) = (w.m0(), w.mask);
    match op {
        v_movreld_b32 => {
            let to = relative(w, i.dst, m0)?;
            let value = w.raw(i, 0);
            w.write(to, mask, &value);
        }
        v_movrels_b32 => {
            let value = w.v[relative(w, source(i)?, m0)?];
            w.write(i.dst.into(), mask, &value);
        }
        v_movrelsd_b32 => {
            let value = w.v[relative(w, source(i)?, m0)?];
            let to = relative(w, i.dst, m0)?;
            w.write(to, mask, &value);
        }
        // M0 holds two indices: source and destination.
        v_movrelsd_2_b32 => {
            let value = w.v[relative(w, source(i)?, m0 & 0x3ff)?];
            let to = relative(w, i.dst, m0 >> 16 & 0x3ff)?;
            w.write(to, mask, &value);
        }
        v_swaprel_b32 => {
            let a = relative(w, source(i)?, m0 & 0x3ff)?;
            let b = relative(w, i.dst, m0 >> 16 & 0x3ff)?;
            let (from, to) = (w.v[a], w.v[b]);
            w.write(b, mask, &from);
            w.write(a, mask, &to);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
