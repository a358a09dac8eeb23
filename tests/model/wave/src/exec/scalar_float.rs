// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Float arithmetic of the scalar unit (gfx1201): f32 and f16, with rounding and denormal mode of
//! MODE.

use crate::float::{self, round};
use crate::inst::Salu;
use crate::op::Op;
use crate::wave::Wave;

/// Result: a 32-bit value, or SCC.
pub(super) enum Out {
    Value(u32),
    Condition(bool),
}

/// Returns `b`, negated if `turn`.
fn negated(b: f64, turn: bool) -> f64 {
    if turn {
        -b
    } else {
        b
    }
}

/// Returns the relation as a bit: less, equal, greater, unordered; comparison opcodes enumerate the
/// unions.
fn relation(a: f64, b: f64) -> usize {
    match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Less) => 1,
        Some(std::cmp::Ordering::Equal) => 2,
        Some(std::cmp::Ordering::Greater) => 4,
        None => 8,
    }
}

impl Wave {
    fn scalar32(&self, bits: u32) -> f32 {
        let x = f32::from_bits(bits);
        if self.mode >> 4 & 1 != 0 {
            x
        } else {
            float::flush32(x)
        }
    }

    /// Rounds an exact or odd-rounded result; a NaN result is that of `operands`.
    fn scalar_out32(&self, x: f64, operands: &[f32]) -> Option<Out> {
        let r = if x.is_nan() {
            float::nan32(operands)
        } else {
            float::to_f32(x, self.round32())
        };
        let r = if self.mode >> 5 & 1 != 0 {
            r
        } else {
            float::flush32(r)
        };
        Some(Out::Value(r.to_bits()))
    }

    fn scalar_out16(&self, x: f64, operands: &[f64]) -> Option<Out> {
        let x = if x.is_nan() {
            float::nan64(operands)
        } else {
            x
        };
        Some(Out::Value(self.round_f16(x).into()))
    }
}

pub(super) fn step(w: &Wave, i: &Salu, [a, b]: [u32; 2]) -> Option<Out> {
    use Op::*;
    let op = i.op as usize;
    let value = |v: u32| Some(Out::Value(v));
    if (s_cmp_lt_f32 as usize..=s_cmp_nlt_f32 as usize).contains(&op) {
        let found = relation(w.scalar32(a).into(), w.scalar32(b).into());
        let wanted = op - s_cmp_lt_f32 as usize + 1;
        return Some(Out::Condition(wanted & found != 0));
    }
    if (s_cmp_lt_f16 as usize..=s_cmp_nlt_f16 as usize).contains(&op) {
        let found = relation(w.widen16(a & 0xffff), w.widen16(b & 0xffff));
        let wanted = op - s_cmp_lt_f16 as usize + 1;
        return Some(Out::Condition(wanted & found != 0));
    }
    match i.op {
        s_add_f32 | s_sub_f32 | s_mul_f32 => {
            let (x, y) = (w.scalar32(a), w.scalar32(b));
            let exact = match i.op {
                s_mul_f32 => f64::from(x) * f64::from(y),
                _ => float::add_odd(x.into(), negated(y.into(), i.op == s_sub_f32)),
            };
            w.scalar_out32(exact, &[x, y])
        }
        s_fmac_f32 | s_fmaak_f32 | s_fmamk_f32 => {
            let (x, y) = (w.scalar32(a), w.scalar32(b));
            let constant = w.scalar32(i.literal);
            let (x, y, z) = match i.op {
                s_fmac_f32 => (x, y, w.scalar32(w.s[usize::from(i.dst)])),
                s_fmaak_f32 => (x, y, constant),
                _ => (x, constant, y),
            };
            w.scalar_out32(float::fma_odd(x, y, z), &[x, y, z])
        }
        s_min_num_f32 | s_max_num_f32 => {
            let (x, y) = (w.scalar32(a), w.scalar32(b));
            let r = float::pick32(x, y, i.op == s_max_num_f32, false);
            w.scalar_out32(r.into(), &[r])
        }
        s_minimum_f32 | s_maximum_f32 => {
            let (x, y) = (w.scalar32(a), w.scalar32(b));
            let r = float::extreme32(x, y, i.op == s_maximum_f32);
            w.scalar_out32(r.into(), &[r])
        }
        s_ceil_f32 | s_floor_f32 | s_trunc_f32 | s_rndne_f32 => {
            let x = w.scalar32(a);
            let r = match i.op {
                s_ceil_f32 => x.ceil(),
                s_floor_f32 => x.floor(),
                s_trunc_f32 => x.trunc(),
                _ => x.round_ties_even(),
            };
            w.scalar_out32(r.into(), &[x])
        }
        s_cvt_f32_i32 => w.scalar_out32(f64::from(a as i32), &[]),
        s_cvt_f32_u32 => w.scalar_out32(f64::from(a), &[]),
        // Rust's casts match the hardware: toward zero, saturating, NaN to zero.
        s_cvt_i32_f32 => value(w.scalar32(a) as i32 as u32),
        s_cvt_u32_f32 => value(w.scalar32(a) as u32),
        s_cvt_f16_f32 => {
            let x = f64::from(w.scalar32(a));
            w.scalar_out16(x, &[x])
        }
        s_cvt_f32_f16 => {
            let x = w.widen16(a & 0xffff);
            w.scalar_out32(x, &[x as f32])
        }
        s_cvt_hi_f32_f16 => {
            let x = w.widen16(a >> 16);
            w.scalar_out32(x, &[x as f32])
        }
        s_cvt_pk_rtz_f16_f32 => {
            let half = |v: u32| u32::from(float::f32_to_f16(w.scalar32(v), round::ZERO));
            value(half(a) | half(b) << 16)
        }
        s_add_f16 | s_sub_f16 | s_mul_f16 | s_fmac_f16 => {
            let (x, y) = (w.widen16(a & 0xffff), w.widen16(b & 0xffff));
            let z = w.widen16(w.s[usize::from(i.dst)] & 0xffff);
            let exact = match i.op {
                s_mul_f16 => x * y,
                s_fmac_f16 => float::add_odd(x * y, z),
                _ => x + negated(y, i.op == s_sub_f16),
            };
            let operands = [x, y, z];
            let count = if i.op == s_fmac_f16 { 3 } else { 2 };
            w.scalar_out16(exact, &operands[..count])
        }
        s_min_num_f16 | s_max_num_f16 => {
            let (x, y) = (w.widen16(a & 0xffff), w.widen16(b & 0xffff));
            let r = float::pick64(x, y, i.op == s_max_num_f16, false);
            w.scalar_out16(r, &[r])
        }
        s_minimum_f16 | s_maximum_f16 => {
            let (x, y) = (w.widen16(a & 0xffff), w.widen16(b & 0xffff));
            let r = float::extreme64(x, y, i.op == s_maximum_f16);
            w.scalar_out16(r, &[r])
        }
        s_ceil_f16 | s_floor_f16 | s_trunc_f16 | s_rndne_f16 => {
            let x = w.widen16(a & 0xffff);
            let r = match i.op {
                s_ceil_f16 => x.ceil(),
                s_floor_f16 => x.floor(),
                s_trunc_f16 => x.trunc(),
                _ => x.round_ties_even(),
            };
            w.scalar_out16(r, &[x])
        }
        _ => None,
    }
}
