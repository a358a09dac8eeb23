// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector f32 instructions.

use super::valu::Tried;
use crate::float::{self, round};
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{lanes_of, Wave, LANES};
use crate::Isa;
use std::f64::consts::TAU;

/// One f32 per lane.
pub(super) type Floats = [f32; LANES];

/// MODE bits.
const DX10_CLAMP: u32 = 1 << 8;
const IEEE: u32 = 1 << 9;

impl Wave {
    /// Returns the rounding mode of f32.
    pub(super) fn round32(&self) -> u32 {
        self.mode & 3
    }

    /// Returns the rounding mode of f16 and f64.
    pub(super) fn round64(&self) -> u32 {
        self.mode >> 2 & 3
    }

    pub(super) fn ieee(&self) -> bool {
        self.mode & IEEE != 0 && self.isa == Isa::Gfx942
    }

    /// Returns whether `clamp` turns NaN into zero. Always true on gfx1201.
    pub(super) fn dx10_clamp(&self) -> bool {
        self.mode & DX10_CLAMP != 0 || self.isa == Isa::Gfx1201
    }

    fn denormal_in32(&self) -> bool {
        self.mode >> 4 & 1 != 0
    }

    fn denormal_out32(&self) -> bool {
        self.mode >> 5 & 1 != 0
    }

    /// Returns source `n` with `abs` and `neg` applied.
    pub(super) fn f32s_unflushed(&self, i: &Valu, n: usize) -> Floats {
        let and = if i.abs >> n & 1 != 0 {
            0x7fff_ffff
        } else {
            u32::MAX
        };
        let xor = if i.neg >> n & 1 != 0 { 0x8000_0000 } else { 0 };
        self.raw(i, n).map(|v| f32::from_bits(v & and ^ xor))
    }

    /// Returns source `n` with `abs` and `neg` applied, denormals flushed as in MODE.
    pub(super) fn f32s(&self, i: &Valu, n: usize) -> Floats {
        let floats = self.f32s_unflushed(i, n);
        if self.denormal_in32() {
            floats
        } else {
            floats.map(float::flush32)
        }
    }

    /// Returns whether the operands have no modifiers.
    fn unmodified(&self, i: &Valu) -> bool {
        i.abs | i.neg == 0 && self.denormal_in32()
    }

    /// Clamps a value to 0..1.
    pub(super) fn clamp32(&self, x: f32) -> f32 {
        if x.is_nan() {
            return if self.dx10_clamp() { 0.0 } else { x };
        }
        // Also turns negative zero into positive zero.
        if x > 0.0 {
            x.min(1.0)
        } else {
            0.0
        }
    }

    /// Applies the output modifier, which also flushes negative zero.
    fn scaled32(&self, i: &Valu, x: f32) -> f32 {
        match self.output_factor(i, self.denormal_out32()) {
            Some(factor) => float::flush32(x * factor) + 0.0,
            None => x,
        }
    }

    /// Writes an f32 result with output modifier, denormal mode and clamp.
    pub(super) fn put_f32(&mut self, i: &Valu, mut floats: Floats) {
        if i.omod != 0 {
            floats = floats.map(|x| self.scaled32(i, x));
        }
        if !self.denormal_out32() {
            floats = floats.map(float::flush32);
        }
        if i.clamp {
            floats = floats.map(|x| self.clamp32(x));
        }
        self.put(i, floats.map(f32::to_bits));
    }

    /// Executes a unary operation; NaN results follow the NaN rules.
    pub(super) fn f1(&mut self, i: &Valu, f: impl Fn(f32) -> f32) {
        let a = self.f32s(i, 0);
        let out = a.map(|a| {
            let r = f(a);
            if r.is_nan() {
                float::nan32(&[a])
            } else {
                r
            }
        });
        self.put_f32(i, out);
    }

    /// Executes a binary operation; NaN results follow the NaN rules.
    pub(super) fn f2(&mut self, i: &Valu, f: impl Fn(f32, f32) -> f32) {
        let mut out = [0.0; LANES];
        let mut nan = false;
        if self.unmodified(i) {
            let (ra, rb);
            let (a, b) = (lanes_of!(self, i, 0, ra), lanes_of!(self, i, 1, rb));
            for l in 0..LANES {
                out[l] = f(f32::from_bits(a[l]), f32::from_bits(b[l]));
                nan |= out[l].is_nan();
            }
        } else {
            let (a, b) = (self.f32s(i, 0), self.f32s(i, 1));
            for l in 0..LANES {
                out[l] = f(a[l], b[l]);
                nan |= out[l].is_nan();
            }
        }
        if nan {
            let (a, b) = (self.f32s(i, 0), self.f32s(i, 1));
            for l in 0..LANES {
                if out[l].is_nan() {
                    out[l] = float::nan32(&[a[l], b[l]]);
                }
            }
        }
        self.put_f32(i, out);
    }

    /// Executes a ternary operation; NaN results follow the NaN rules.
    fn f3(&mut self, i: &Valu, c: Floats, f: impl Fn(f32, f32, f32) -> f32) {
        let (a, b) = (self.f32s(i, 0), self.f32s(i, 1));
        let mut out = [0.0; LANES];
        for l in 0..LANES {
            out[l] = f(a[l], b[l], c[l]);
            if out[l].is_nan() {
                out[l] = float::nan32(&[a[l], b[l], c[l]]);
            }
        }
        self.put_f32(i, out);
    }

    /// Executes a ternary operation; only modifiers are applied to the result.
    pub(super) fn f3_raw(&mut self, i: &Valu, f: impl Fn(f32, f32, f32) -> f32) {
        let (a, b, c) = (self.f32s(i, 0), self.f32s(i, 1), self.f32s(i, 2));
        self.put_f32(i, std::array::from_fn(|l| f(a[l], b[l], c[l])));
    }

    /// Executes a sum or product in the rounding mode of MODE.
    fn sum(&mut self, i: &Valu, f: impl Fn(f32, f32) -> (f32, f32)) {
        match self.round32() {
            round::NEAREST => self.f2(i, |a, b| {
                let (a, b) = f(a, b);
                a + b
            }),
            mode => self.f2(i, |a, b| {
                let (a, b) = f(a, b);
                float::to_f32(float::add_odd(f64::from(a), f64::from(b)), mode)
            }),
        }
    }

    fn product(&mut self, i: &Valu) {
        match self.round32() {
            round::NEAREST => self.f2(i, |a, b| a * b),
            mode => self.f2(i, |a, b| float::to_f32(f64::from(a) * f64::from(b), mode)),
        }
    }

    pub(super) fn fused(&mut self, i: &Valu, c: Floats) {
        let mode = self.round32();
        if mode == round::NEAREST {
            let (a, b) = (self.f32s(i, 0), self.f32s(i, 1));
            let mut out = [0.0; LANES];
            let mut doubtful = false;
            for l in 0..LANES {
                let sum = f64::from(a[l]) * f64::from(b[l]) + f64::from(c[l]);
                out[l] = sum as f32;
                // Rounded twice: possibly wrong only if the first result is halfway between two f32
                // or those are denormal; NaN has its own rules.
                let middle = sum.to_bits() & 0x1fff_ffff == 0x1000_0000;
                let denormal = (sum.abs() < f64::from(f32::MIN_POSITIVE)) & (sum != 0.0);
                doubtful |= middle | denormal | sum.is_nan();
            }
            if !doubtful {
                self.put_f32(i, out);
                return;
            }
        }
        self.f3(i, c, |a, b, c| float::to_f32(float::fma_odd(a, b, c), mode));
    }

    /// Writes a special function of scalar operand and scalar result.
    fn scalar_result(&mut self, i: &Valu, f: impl Fn(f64) -> f64) {
        let x = self.f32s(i, 0)[0];
        let r = special(f)(x);
        let r = if r.is_nan() { float::nan32(&[x]) } else { r };
        let r = self.scaled32(i, r);
        let r = if i.clamp { self.clamp32(r) } else { r };
        self.s[usize::from(i.dst)] = r.to_bits();
    }

    /// Returns the destination as an operand (multiply-accumulate).
    pub(super) fn accumulator32(&self, i: &Valu) -> Floats {
        let floats = self.v[usize::from(i.dst)].map(f32::from_bits);
        if self.denormal_in32() {
            floats
        } else {
            floats.map(float::flush32)
        }
    }
}

/// Flushes input and output denormals of a special function.
fn special(f: impl Fn(f64) -> f64) -> impl Fn(f32) -> f32 {
    move |x| float::flush32(f(f64::from(float::flush32(x))) as f32)
}

fn fract(x: f32) -> f32 {
    let r = x - x.floor();
    if r >= 1.0 {
        f32::from_bits(0x3f7f_ffff)
    } else {
        r
    }
}

fn exponent(x: f32) -> i32 {
    (x.to_bits() >> 23 & 0xff) as i32
}

fn median(a: f32, b: f32, c: f32, ieee: bool) -> f32 {
    let min = |a, b| float::pick32(a, b, false, ieee);
    let max = |a, b| float::pick32(a, b, true, ieee);
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}

/// `v_div_fixup_f32`: the special cases of `c / b`, else the quotient `a` with the correct sign.
fn div_fixup(a: f32, b: f32, c: f32) -> f32 {
    let negative = b.is_sign_negative() != c.is_sign_negative();
    let sign = |x: f32| if negative { -x.abs() } else { x.abs() };
    if c.is_nan() {
        float::quiet32(c)
    } else if b.is_nan() {
        float::quiet32(b)
    } else if (b == 0.0 && c == 0.0) || (b.is_infinite() && c.is_infinite()) {
        f32::from_bits(0xffc0_0000)
    } else if b == 0.0 || c.is_infinite() {
        sign(f32::INFINITY)
    } else if b.is_infinite() || c == 0.0 || exponent(c) - exponent(b) < -150 {
        sign(0.0)
    } else if a.is_nan() {
        sign(f32::INFINITY)
    } else {
        sign(a)
    }
}

/// `v_div_scale_f32`: scales an operand of `c / b` (`a` is one of the two) away from overflow and
/// denormals. Also returns whether `v_div_fmas` has to scale back.
fn div_scale(a: f32, b: f32, c: f32) -> (f32, bool) {
    let scale = |n: i32| (f64::from(a) * 2f64.powi(n)) as f32;
    let up_if = |is: bool| if is { scale(64) } else { a };
    let quotient = f64::from(c) / f64::from(b);
    let tiny = |x: f64| x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE);
    if b == 0.0 || c == 0.0 {
        (f32::from_bits(float::NAN32), false)
    } else if exponent(c) - exponent(b) >= 96 {
        (up_if(a == b), true)
    } else if b.is_subnormal() {
        (scale(64), false)
    } else if tiny(1.0 / f64::from(b)) && tiny(quotient) {
        // Denominator only: the quotient grows and `v_div_fmas` scales it back.
        (if a == b { scale(-64) } else { a }, true)
    } else if tiny(1.0 / f64::from(b)) {
        (scale(-64), false)
    } else if tiny(quotient) {
        (up_if(a == c), true)
    } else if exponent(c) <= 23 {
        (scale(64), false)
    } else {
        (a, false)
    }
}

/// MODE.FP_DENORM of f32.
const DENORMALS: u32 = 3 << 4;

/// Returns whether the instruction flushes denormals in any mode of gfx1201.
fn flushes(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        v_fma_dx9_zero_f32
            | v_exp_f32
            | v_log_f32
            | v_rcp_f32
            | v_rcp_iflag_f32
            | v_rsq_f32
            | v_sqrt_f32
            | v_cos_f32
    )
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    if w.isa == Isa::Gfx1201 && flushes(op) {
        return w.in_mode(DENORMALS, 0, |w| execute(w, i, op));
    }
    execute(w, i, op)
}

fn execute(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    let ieee = w.ieee();
    match op {
        v_add_f32 => w.sum(i, |a, b| (a, b)),
        v_sub_f32 => w.sum(i, |a, b| (a, -b)),
        v_subrev_f32 => w.sum(i, |a, b| (b, -a)),
        v_mul_f32 => w.product(i),
        v_mul_legacy_f32 => w.f2(i, |a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
        v_fma_f32 | v_fmamk_f32 | v_fmaak_f32 => {
            let c = w.f32s(i, 2);
            w.fused(i, c);
        }
        v_fmac_f32 => {
            let c = w.accumulator32(i);
            w.fused(i, c);
        }
        v_min_f32 | v_max_f32 => {
            let (a, b, max) = (w.f32s(i, 0), w.f32s(i, 1), op == v_max_f32);
            w.put_f32(
                i,
                std::array::from_fn(|l| float::pick32(a[l], b[l], max, ieee)),
            );
        }
        // Zero times anything is zero.
        v_fma_dx9_zero_f32 => {
            let (a, b, c) = (w.f32s(i, 0), w.f32s(i, 1), w.f32s(i, 2));
            let mode = w.round32();
            let lane = |l: usize| {
                if a[l] == 0.0 || b[l] == 0.0 {
                    return c[l];
                }
                let r = float::to_f32(float::fma_odd(a[l], b[l], c[l]), mode);
                if r.is_nan() {
                    float::nan32(&[a[l], b[l], c[l]])
                } else {
                    r
                }
            };
            w.put_f32(i, std::array::from_fn(lane));
        }
        v_mullit_f32 => w.f3_raw(i, |a, b, c| {
            if b == f32::MIN || b == f32::NEG_INFINITY || b.is_nan() || c.is_nan() || c <= 0.0 {
                f32::MIN
            } else if a == 0.0 || b == 0.0 {
                0.0
            } else {
                a * b
            }
        }),
        v_s_exp_f32 => w.scalar_result(i, f64::exp2),
        v_s_log_f32 => w.scalar_result(i, f64::log2),
        v_s_rcp_f32 => w.scalar_result(i, |x| 1.0 / x),
        v_s_rsq_f32 => w.scalar_result(i, |x| 1.0 / x.sqrt()),
        v_s_sqrt_f32 => w.scalar_result(i, f64::sqrt),
        v_min3_f32 | v_max3_f32 => w.f3_raw(i, |a, b, c| {
            let max = op == v_max3_f32;
            float::pick32(float::pick32(a, b, max, ieee), c, max, ieee)
        }),
        v_med3_f32 => w.f3_raw(i, |a, b, c| median(a, b, c, ieee)),
        v_trunc_f32 => w.f1(i, f32::trunc),
        v_ceil_f32 => w.f1(i, f32::ceil),
        v_floor_f32 => w.f1(i, f32::floor),
        v_rndne_f32 => w.f1(i, f32::round_ties_even),
        v_fract_f32 => w.f1(i, fract),
        v_exp_f32 | v_exp_legacy_f32 => w.f1(i, special(f64::exp2)),
        v_log_f32 | v_log_legacy_f32 => w.f1(i, special(f64::log2)),
        v_rcp_f32 | v_rcp_iflag_f32 => w.f1(i, special(|x| 1.0 / x)),
        v_rsq_f32 => w.f1(i, special(|x| 1.0 / x.sqrt())),
        v_sqrt_f32 => w.f1(i, special(f64::sqrt)),
        // The argument is in turns; out of range beyond 256.
        v_sin_f32 => w.f1(
            i,
            special(|x| {
                if x.is_finite() && x.abs() > 256.0 {
                    0.0
                } else {
                    (x * TAU).sin()
                }
            }),
        ),
        v_cos_f32 => w.f1(
            i,
            special(|x| {
                if x.is_finite() && x.abs() > 256.0 {
                    1.0
                } else {
                    (x * TAU).cos()
                }
            }),
        ),
        v_frexp_exp_i32_f32 => {
            let a = w.f32s(i, 0);
            w.put(i, a.map(|x| float::frexp64(f64::from(x)).1 as u32));
        }
        v_frexp_mant_f32 => w.f1(i, |x| float::frexp64(f64::from(x)).0 as f32),
        v_ldexp_f32 => {
            let (a, b, mode) = (w.f32s(i, 0), w.raw(i, 1), w.round32());
            w.put_f32(
                i,
                std::array::from_fn(|l| {
                    let n = (b[l] as i32).clamp(-512, 512);
                    let r = float::to_f32(f64::from(a[l]) * 2f64.powi(n), mode);
                    if r.is_nan() {
                        float::nan32(&[a[l]])
                    } else {
                        r
                    }
                }),
            );
        }
        v_div_fixup_f32 => w.f3_raw(i, div_fixup),
        v_div_scale_f32 => {
            let [a, b, c] = [0, 1, 2].map(|n| w.f32s_unflushed(i, n));
            let mut out = [0; LANES];
            let mut bits = 0;
            for l in 0..LANES {
                let (r, flag) = div_scale(a[l], b[l], c[l]);
                out[l] = r.to_bits();
                bits |= u64::from(flag) << l;
            }
            w.put(i, out);
            w.put_mask(i, bits);
        }
        v_div_fmas_f32 => {
            let (a, b, c) = (w.f32s(i, 0), w.f32s(i, 1), w.f32s(i, 2));
            let (vcc, mode) = (w.vcc(), w.round32());
            w.put_f32(
                i,
                std::array::from_fn(|l| {
                    let exact = float::fma_odd(a[l], b[l], c[l]);
                    let scale = match (vcc >> l & 1 != 0, exponent(c[l]) > 127) {
                        (false, _) => 0,
                        (true, true) => 64,
                        (true, false) => -64,
                    };
                    let r = float::to_f32(exact * 2f64.powi(scale), mode);
                    if r.is_nan() {
                        float::nan32(&[a[l], b[l], c[l]])
                    } else {
                        r
                    }
                }),
            );
        }
        _ => return Ok(false),
    }
    Ok(true)
}
