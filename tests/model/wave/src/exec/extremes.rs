// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Minimum and maximum of gfx1201: NaN-propagating ones of IEEE 754-2019, and combined min-max.

use super::valu::Tried;
use crate::float::{extreme32, extreme64, pick32, pick64};
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{Wave, LANES};

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_minimum_f32 | v_maximum_f32 => {
            let (a, b) = (w.f32s(i, 0), w.f32s(i, 1));
            let lane = |l: usize| extreme32(a[l], b[l], op == v_maximum_f32);
            w.put_f32(i, std::array::from_fn::<_, LANES, _>(lane));
        }
        v_minimum_f64 | v_maximum_f64 => w.d2(i, |a, b| extreme64(a, b, op == v_maximum_f64)),
        v_minimum_f16 | v_maximum_f16 => w.e2(i, |a, b| extreme64(a, b, op == v_maximum_f16)),
        v_minimum3_f32 | v_maximum3_f32 => w.f3_raw(i, |a, b, c| {
            let max = op == v_maximum3_f32;
            extreme32(extreme32(a, b, max), c, max)
        }),
        v_minimum3_f16 | v_maximum3_f16 => w.e3(i, true, |a, b, c| {
            let max = op == v_maximum3_f16;
            extreme64(extreme64(a, b, max), c, max)
        }),
        v_minimummaximum_f32 | v_maximumminimum_f32 => w.f3_raw(i, |a, b, c| {
            let max = op == v_maximumminimum_f32;
            extreme32(extreme32(a, b, max), c, !max)
        }),
        v_minimummaximum_f16 | v_maximumminimum_f16 => w.e3(i, true, |a, b, c| {
            let max = op == v_maximumminimum_f16;
            extreme64(extreme64(a, b, max), c, !max)
        }),
        v_minmax_num_f32 | v_maxmin_num_f32 => w.f3_raw(i, |a, b, c| {
            let max = op == v_maxmin_num_f32;
            pick32(pick32(a, b, max, false), c, !max, false)
        }),
        v_minmax_num_f16 | v_maxmin_num_f16 => w.e3(i, true, |a, b, c| {
            let max = op == v_maxmin_num_f16;
            pick64(pick64(a, b, max, false), c, !max, false)
        }),
        v_pk_minimum_f16 | v_pk_maximum_f16 => {
            let max = op == v_pk_maximum_f16;
            w.pk_f16(i, 2, |[a, b, _]| extreme64(a, b, max));
        }
        _ => return Ok(false),
    }
    Ok(true)
}
