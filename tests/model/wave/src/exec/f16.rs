// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector f16 instructions. Sums and products of two f16 are exact in f64, so a single rounding at
//! the end is correct.

use super::f64::Doubles;
use super::valu::Tried;
use crate::float;
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{Lanes, Wave, LANES};
use std::f64::consts::TAU;

impl Wave {
    /// Returns whether f16 input denormals are preserved.
    pub(super) fn denormal_in16(&self) -> bool {
        self.mode >> 6 & 1 != 0
    }

    /// Returns whether f16 output denormals are preserved.
    pub(super) fn denormal_out16(&self) -> bool {
        self.mode >> 7 & 1 != 0
    }

    /// Returns an f16 source as bits, with `abs` and `neg` applied.
    pub(super) fn modified16(&self, i: &Valu, n: usize) -> Lanes {
        let and = if i.abs >> n & 1 != 0 { 0x7fff } else { 0xffff };
        let xor = if i.neg >> n & 1 != 0 { 0x8000 } else { 0 };
        self.raw16(i, n).map(|h| h & and ^ xor)
    }

    /// Converts an f16 operand to f64, flushing denormals as in MODE.
    pub(super) fn widen16(&self, h: u32) -> f64 {
        let h = if self.denormal_in16() {
            h as u16
        } else {
            float::flush16(h as u16)
        };
        f64::from(float::from_f16(h))
    }

    /// Returns source `n` as f64, with denormals flushed as in MODE.
    pub(super) fn f16s(&self, i: &Valu, n: usize) -> Doubles {
        self.modified16(i, n).map(|h| self.widen16(h))
    }

    /// Rounds to f16 with `clamp` and output denormal mode.
    pub(super) fn narrow16(&self, i: &Valu, x: f64) -> u32 {
        let factor = self.output_factor(i, self.denormal_out16());
        let x = factor.map_or(x, |factor| x * f64::from(factor));
        let x = match i.clamp {
            true if x.is_nan() => {
                if self.dx10_clamp() {
                    0.0
                } else {
                    x
                }
            }
            true if x > 0.0 => x.min(1.0),
            true => 0.0,
            false => x,
        };
        match u32::from(self.round_f16(x)) {
            // The modifier flushes negative zero, too.
            0x8000 if factor.is_some() => 0,
            h => h,
        }
    }

    /// Rounds to f16 with the rounding, overflow and output denormal modes.
    pub(super) fn round_f16(&self, x: f64) -> u16 {
        let h = to_f16(x, self.round64(), self.fp16_ovfl());
        if self.denormal_out16() {
            h
        } else {
            float::flush16(h)
        }
    }

    pub(super) fn put_f16(&mut self, i: &Valu, values: Doubles, keep_high: bool) {
        let lanes = values.map(|x| self.narrow16(i, x));
        self.put16(i, lanes, keep_high);
    }

    fn e1(&mut self, i: &Valu, f: impl Fn(f64) -> f64) {
        let a = self.f16s(i, 0);
        self.put_f16(i, a.map(|a| keep_nan(f(a), &[a])), false);
    }

    pub(super) fn e2(&mut self, i: &Valu, f: impl Fn(f64, f64) -> f64) {
        let (a, b) = (self.f16s(i, 0), self.f16s(i, 1));
        let out = std::array::from_fn(|l| keep_nan(f(a[l], b[l]), &[a[l], b[l]]));
        self.put_f16(i, out, false);
    }

    pub(super) fn e3(&mut self, i: &Valu, keep_high: bool, f: impl Fn(f64, f64, f64) -> f64) {
        let (a, b, c) = (self.f16s(i, 0), self.f16s(i, 1), self.f16s(i, 2));
        let out = std::array::from_fn(|l| keep_nan(f(a[l], b[l], c[l]), &[a[l], b[l], c[l]]));
        self.put_f16(i, out, keep_high);
    }

    /// Writes a special function of scalar operand and scalar result.
    fn scalar_result16(&mut self, i: &Valu, f: impl Fn(f64) -> f64) {
        let x = self.f16s(i, 0)[0];
        self.s[usize::from(i.dst)] = self.narrow16(i, keep_nan(f(x), &[x]));
    }

    /// Returns the destination as an operand.
    fn accumulator16(&self, i: &Valu) -> Doubles {
        self.v[usize::from(i.dst)].map(|v| self.widen16(v & 0xffff))
    }
}

/// Replaces a NaN result by the first NaN operand or the default NaN.
pub(super) fn keep_nan(r: f64, operands: &[f64]) -> f64 {
    if r.is_nan() {
        float::nan64(operands)
    } else {
        r
    }
}

/// Fused multiply-add: exact or rounded to odd, so rounding to f16 is correct.
pub(super) fn fma(a: f64, b: f64, c: f64) -> f64 {
    float::add_odd(a * b, c)
}

/// Rounds to f16. With `saturate` an overflow gives the largest f16; infinity remains.
fn to_f16(x: f64, mode: u32, saturate: bool) -> u16 {
    let h = float::to_f16(x, mode);
    if saturate && x.is_finite() && h & 0x7fff == 0x7c00 {
        h - 1
    } else {
        h
    }
}

fn round16(x: f64, (mode, saturate): (u32, bool)) -> f64 {
    f64::from(float::from_f16(to_f16(x, mode, saturate)))
}

/// The result of a finite `x` is finite: it overflows f16, not f64.
fn exp2(x: f64) -> f64 {
    if x.is_finite() {
        x.min(100.0).exp2()
    } else {
        x.exp2()
    }
}

fn fract(x: f64) -> f64 {
    let r = x - x.floor();
    if r >= 1.0 {
        f64::from(float::from_f16(0x3bff))
    } else {
        r
    }
}

fn median(a: f64, b: f64, c: f64, ieee: bool) -> f64 {
    let min = |a, b| float::pick64(a, b, false, ieee);
    let max = |a, b| float::pick64(a, b, true, ieee);
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}

/// As for f32; the quotient `a` comes from f32 arithmetic, so no scaling is needed.
fn div_fixup(a: f64, b: f64, c: f64) -> f64 {
    let negative = b.is_sign_negative() != c.is_sign_negative();
    let sign = |x: f64| if negative { -x.abs() } else { x.abs() };
    if c.is_nan() {
        float::quiet64(c)
    } else if b.is_nan() {
        float::quiet64(b)
    } else if (b == 0.0 && c == 0.0) || (b.is_infinite() && c.is_infinite()) {
        f64::from_bits(0xfff8 << 48)
    } else if b == 0.0 || c.is_infinite() {
        sign(f64::INFINITY)
    } else if b.is_infinite() || c == 0.0 {
        sign(0.0)
    } else {
        sign(a)
    }
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    let (ieee, mode) = (w.ieee(), (w.round64(), w.fp16_ovfl()));
    match op {
        v_add_f16 => w.e2(i, |a, b| a + b),
        v_sub_f16 => w.e2(i, |a, b| a - b),
        v_subrev_f16 => w.e2(i, |a, b| b - a),
        v_mul_f16 => w.e2(i, |a, b| a * b),
        // The product is rounded separately.
        v_mad_f16 | v_mad_legacy_f16 | v_madmk_f16 | v_madak_f16 => {
            w.e3(i, op == v_mad_f16, |a, b, c| round16(a * b, mode) + c);
        }
        v_mac_f16 => {
            let (a, b, c) = (w.f16s(i, 0), w.f16s(i, 1), w.accumulator16(i));
            let out = std::array::from_fn(|l| {
                keep_nan(round16(a[l] * b[l], mode) + c[l], &[a[l], b[l], c[l]])
            });
            w.put_f16(i, out, false);
        }
        v_fma_f16 | v_fmamk_f16 | v_fmaak_f16 => w.e3(i, true, fma),
        v_fmac_f16 => {
            let (a, b) = (w.f16s(i, 0), w.f16s(i, 1));
            let shift = if i.op_sel & 8 != 0 { 16 } else { 0 };
            let c = w.v[usize::from(i.dst)].map(|v| w.widen16(v >> shift & 0xffff));
            let lane = |l: usize| keep_nan(fma(a[l], b[l], c[l]), &[a[l], b[l], c[l]]);
            w.put_f16(i, std::array::from_fn(lane), true);
        }
        v_s_exp_f16 => w.scalar_result16(i, exp2),
        v_s_log_f16 => w.scalar_result16(i, f64::log2),
        v_s_rcp_f16 => w.scalar_result16(i, |x| 1.0 / x),
        v_s_rsq_f16 => w.scalar_result16(i, |x| 1.0 / x.sqrt()),
        v_s_sqrt_f16 => w.scalar_result16(i, f64::sqrt),
        v_fma_legacy_f16 => w.e3(i, false, fma),
        v_min_f16 | v_max_f16 => {
            let (a, b, max) = (w.f16s(i, 0), w.f16s(i, 1), op == v_max_f16);
            let out = std::array::from_fn(|l| float::pick64(a[l], b[l], max, ieee));
            w.put_f16(i, out, false);
        }
        v_min3_f16 | v_max3_f16 => w.e3(i, true, |a, b, c| {
            let max = op == v_max3_f16;
            float::pick64(float::pick64(a, b, max, ieee), c, max, ieee)
        }),
        v_med3_f16 => w.e3(i, true, |a, b, c| median(a, b, c, ieee)),
        v_rcp_f16 => w.e1(i, |x| 1.0 / x),
        v_sqrt_f16 => w.e1(i, f64::sqrt),
        v_rsq_f16 => w.e1(i, |x| 1.0 / x.sqrt()),
        v_log_f16 => w.e1(i, f64::log2),
        v_exp_f16 => w.e1(i, exp2),
        v_floor_f16 => w.e1(i, f64::floor),
        v_ceil_f16 => w.e1(i, f64::ceil),
        v_trunc_f16 => w.e1(i, f64::trunc),
        v_rndne_f16 => w.e1(i, f64::round_ties_even),
        v_fract_f16 => w.e1(i, fract),
        v_sin_f16 => w.e1(i, |x| {
            if x.is_finite() && x.abs() > 256.0 {
                0.0
            } else {
                (x * TAU).sin()
            }
        }),
        v_cos_f16 => w.e1(i, |x| {
            if x.is_finite() && x.abs() > 256.0 {
                1.0
            } else {
                (x * TAU).cos()
            }
        }),
        v_frexp_mant_f16 => w.e1(i, |x| float::frexp64(x).0),
        v_frexp_exp_i16_f16 => {
            let a = w.f16s(i, 0);
            w.put16(i, a.map(|x| float::frexp64(x).1 as u32), false);
        }
        v_ldexp_f16 => {
            let (a, b) = (w.f16s(i, 0), w.raw16(i, 1));
            let out = std::array::from_fn(|l| {
                let n = i32::from(b[l] as u16 as i16).clamp(-64, 64);
                keep_nan(a[l] * 2f64.powi(n), &[a[l]])
            });
            w.put_f16(i, out, false);
        }
        v_div_fixup_f16 | v_div_fixup_legacy_f16 => {
            let (a, b, c) = (w.f16s(i, 0), w.f16s(i, 1), w.f16s(i, 2));
            let out = std::array::from_fn(|l| div_fixup(a[l], b[l], c[l]));
            w.put_f16(i, out, op == v_div_fixup_f16);
        }
        v_pack_b32_f16 => {
            let (a, b) = (w.modified16(i, 0), w.modified16(i, 1));
            let mut out = [0; LANES];
            for l in 0..LANES {
                out[l] = a[l] | b[l] << 16;
            }
            w.put(i, out);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
