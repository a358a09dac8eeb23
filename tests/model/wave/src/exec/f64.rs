// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector f64 instructions.

use super::valu::Tried;
use crate::float::{self, round};
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{violation, Halt, Wave, LANES};

/// One f64 per lane.
pub(super) type Doubles = [f64; LANES];

impl Wave {
    pub(super) fn f64s_unflushed(&self, i: &Valu, n: usize) -> Doubles {
        let and = if i.abs >> n & 1 != 0 {
            u64::MAX >> 1
        } else {
            u64::MAX
        };
        let xor = if i.neg >> n & 1 != 0 { 1 << 63 } else { 0 };
        self.raw64(i, n).map(|v| f64::from_bits(v & and ^ xor))
    }

    /// Returns source `n` with `abs` and `neg` applied, denormals flushed as in MODE.
    pub(super) fn f64s(&self, i: &Valu, n: usize) -> Doubles {
        let doubles = self.f64s_unflushed(i, n);
        if self.mode >> 6 & 1 != 0 {
            doubles
        } else {
            doubles.map(float::flush64)
        }
    }

    /// Writes an f64 result with output modifier, denormal mode and clamp.
    pub(super) fn put_f64(&mut self, i: &Valu, mut doubles: Doubles) {
        let keeps_denormals = self.mode >> 7 & 1 != 0;
        if let Some(factor) = self.output_factor(i, keeps_denormals) {
            // Negative zero is flushed, too.
            doubles = doubles.map(|x| float::flush64(x * f64::from(factor)) + 0.0);
        }
        if !keeps_denormals {
            doubles = doubles.map(float::flush64);
        }
        if i.clamp {
            let dx10 = self.dx10_clamp();
            doubles = doubles.map(|x| match x {
                x if x.is_nan() && !dx10 => x,
                x if x > 0.0 => x.min(1.0),
                _ => 0.0,
            });
        }
        self.put64(i, &doubles.map(f64::to_bits));
    }

    fn d1(&mut self, i: &Valu, f: impl Fn(f64) -> f64) {
        let a = self.f64s(i, 0);
        self.put_f64(
            i,
            a.map(|a| {
                let r = f(a);
                if r.is_nan() {
                    float::nan64(&[a])
                } else {
                    r
                }
            }),
        );
    }

    pub(super) fn d2(&mut self, i: &Valu, f: impl Fn(f64, f64) -> f64) {
        let (a, b) = (self.f64s(i, 0), self.f64s(i, 1));
        self.put_f64(
            i,
            std::array::from_fn(|l| {
                let r = f(a[l], b[l]);
                if r.is_nan() {
                    float::nan64(&[a[l], b[l]])
                } else {
                    r
                }
            }),
        );
    }

    fn d3(&mut self, i: &Valu, c: Doubles, f: impl Fn(f64, f64, f64) -> f64) {
        let (a, b) = (self.f64s(i, 0), self.f64s(i, 1));
        self.put_f64(
            i,
            std::array::from_fn(|l| {
                let r = f(a[l], b[l], c[l]);
                if r.is_nan() {
                    float::nan64(&[a[l], b[l], c[l]])
                } else {
                    r
                }
            }),
        );
    }

    /// Returns an error unless f64 rounds to nearest: fused operations support no other mode.
    fn nearest64(&self) -> Result<(), Halt> {
        match self.round64() {
            round::NEAREST => Ok(()),
            mode => violation(format!("f64 fused multiply-add in rounding mode {mode}")),
        }
    }
}

fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32
}

fn fract(x: f64) -> f64 {
    let r = x - x.floor();
    if r >= 1.0 {
        f64::from_bits(0x3fef_ffff_ffff_ffff)
    } else {
        r
    }
}

/// `v_div_fixup_f64`, as for f32.
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
    } else if b.is_infinite() || c == 0.0 || exponent(c) - exponent(b) < -1075 {
        sign(0.0)
    } else if a.is_nan() {
        sign(f64::INFINITY)
    } else {
        sign(a)
    }
}

/// `v_div_scale_f64`, as for f32.
fn div_scale(a: f64, b: f64, c: f64) -> (f64, bool) {
    let scale = |n: i32| float::ldexp64(a, n);
    let up_if = |is: bool| if is { scale(128) } else { a };
    let inverse_tiny = (1.0 / b).is_subnormal();
    // The quotient may round to zero: only its exponent is meaningful.
    let tiny = (c / b).is_subnormal() || (c / b == 0.0 && !b.is_infinite());
    if b == 0.0 || c == 0.0 {
        (f64::from_bits(float::NAN64), false)
    } else if exponent(c) - exponent(b) >= 768 {
        (up_if(a == b), true)
    } else if b.is_subnormal() {
        (scale(128), false)
    } else if inverse_tiny && tiny {
        (if a == b { scale(-128) } else { a }, true)
    } else if inverse_tiny {
        (scale(-128), false)
    } else if tiny {
        (up_if(a == c), true)
    } else if exponent(c) <= 53 {
        (scale(128), false)
    } else {
        (a, false)
    }
}

/// 2 / pi, fraction bits.
const TWO_BY_PI: [u32; 37] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
];

/// `v_trig_preop_f64`: 53 bits of 2 / pi, from the first bit that a range reduction of `x` needs,
/// or further down by `segment`.
fn trig_preop(x: f64, segment: u32) -> f64 {
    let exponent = exponent(x);
    let shift = (segment & 31) * 53 + (exponent - 1077).max(0) as u32;
    let at = (shift / 32) as usize;
    let Some(&[a, b, c]) = TWO_BY_PI.get(at..at + 3).and_then(|w| w.first_chunk()) else {
        return 0.0;
    };
    let window = u128::from(a) << 64 | u128::from(b) << 32 | u128::from(c);
    let bits = (window >> (43 - shift % 32)) as u64 & ((1 << 53) - 1);
    // For the largest numbers the bits are scaled away from denormals.
    let scale = if exponent >= 1968 { 128 } else { 0 };
    float::ldexp64(bits as f64, scale - 53 - shift as i32)
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    let (ieee, mode) = (w.ieee(), w.round64());
    match op {
        v_add_f64 => w.d2(i, |a, b| float::add64(a, b, mode)),
        v_mul_f64 => w.d2(i, |a, b| float::mul64(a, b, mode)),
        v_fma_f64 => {
            w.nearest64()?;
            let c = w.f64s(i, 2);
            w.d3(i, c, f64::mul_add);
        }
        v_fmac_f64 => {
            w.nearest64()?;
            let at = usize::from(i.dst);
            let (low, high) = (w.v[at], w.v[at + 1]);
            let c = std::array::from_fn(|l| {
                f64::from_bits(u64::from(low[l]) | u64::from(high[l]) << 32)
            });
            w.d3(i, c, f64::mul_add);
        }
        v_min_f64 | v_max_f64 => {
            let (a, b, max) = (w.f64s(i, 0), w.f64s(i, 1), op == v_max_f64);
            w.put_f64(
                i,
                std::array::from_fn(|l| float::pick64(a[l], b[l], max, ieee)),
            );
        }
        v_ldexp_f64 => {
            let (a, b) = (w.f64s(i, 0), w.raw(i, 1));
            w.put_f64(
                i,
                std::array::from_fn(|l| {
                    let r = float::ldexp64(a[l], b[l] as i32);
                    if r.is_nan() {
                        float::nan64(&[a[l]])
                    } else {
                        r
                    }
                }),
            );
        }
        v_trunc_f64 => w.d1(i, f64::trunc),
        v_ceil_f64 => w.d1(i, f64::ceil),
        v_floor_f64 => w.d1(i, f64::floor),
        v_rndne_f64 => w.d1(i, f64::round_ties_even),
        v_fract_f64 => w.d1(i, fract),
        v_rcp_f64 => w.d1(i, |x| 1.0 / x),
        v_rsq_f64 => w.d1(i, |x| 1.0 / x.sqrt()),
        v_sqrt_f64 => w.d1(i, f64::sqrt),
        v_frexp_exp_i32_f64 => {
            let a = w.f64s(i, 0);
            w.put(i, a.map(|x| float::frexp64(x).1 as u32));
        }
        v_frexp_mant_f64 => w.d1(i, |x| float::frexp64(x).0),
        v_trig_preop_f64 => {
            let (a, b) = (w.f64s(i, 0), w.raw(i, 1));
            w.put_f64(i, std::array::from_fn(|l| trig_preop(a[l], b[l])));
        }
        v_div_fixup_f64 => {
            let c = w.f64s(i, 2);
            let (a, b) = (w.f64s(i, 0), w.f64s(i, 1));
            w.put_f64(i, std::array::from_fn(|l| div_fixup(a[l], b[l], c[l])));
        }
        v_div_scale_f64 => {
            let [a, b, c] = [0, 1, 2].map(|n| w.f64s_unflushed(i, n));
            let mut out = [0; LANES];
            let mut bits = 0;
            for l in 0..LANES {
                let (r, flag) = div_scale(a[l], b[l], c[l]);
                out[l] = r.to_bits();
                bits |= u64::from(flag) << l;
            }
            w.put64(i, &out);
            w.put_mask(i, bits);
        }
        v_div_fmas_f64 => {
            w.nearest64()?;
            let (a, b, c) = (w.f64s(i, 0), w.f64s(i, 1), w.f64s(i, 2));
            let vcc = w.vcc();
            w.put_f64(
                i,
                std::array::from_fn(|l| {
                    let r = a[l].mul_add(b[l], c[l]);
                    let r = match (vcc >> l & 1 != 0, exponent(c[l]) > 1023) {
                        (false, _) => r,
                        (true, true) => float::ldexp64(r, 128),
                        (true, false) => float::ldexp64(r, -128),
                    };
                    if r.is_nan() {
                        float::nan64(&[a[l], b[l], c[l]])
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
