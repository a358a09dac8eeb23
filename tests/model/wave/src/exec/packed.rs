// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VOP3P: packed 16-bit and 32-bit operations, mixed precision, dot products.

use super::f16;
use super::valu::Tried;
use crate::float;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{Lanes, Wave, LANES};
use crate::Isa;

/// MODE.FP_DENORM.
const DENORMALS: u32 = 0xf << 4;

impl Wave {
    /// Returns the halves of source `n` for the low and the high operation.
    pub(super) fn halves(&self, i: &Valu, n: usize) -> [Lanes; 2] {
        let lanes = self.raw(i, n);
        let take = |high: bool| lanes.map(|v| if high { v >> 16 } else { v & 0xffff });
        [
            take(i.op_sel >> n & 1 != 0),
            take(i.op_sel_hi >> n & 1 != 0),
        ]
    }

    fn put_halves(&mut self, i: &Valu, low: Lanes, high: Lanes) {
        self.put(i, std::array::from_fn(|l| low[l] & 0xffff | high[l] << 16));
    }

    fn pk2(&mut self, i: &Valu, f: impl Fn(u32, u32) -> u32) {
        let (a, b) = (self.halves(i, 0), self.halves(i, 1));
        let half = |h: usize| std::array::from_fn(|l| f(a[h][l], b[h][l]));
        self.put_halves(i, half(0), half(1));
    }

    fn pk3(&mut self, i: &Valu, f: impl Fn(u32, u32, u32) -> u32) {
        let (a, b, c) = (self.halves(i, 0), self.halves(i, 1), self.halves(i, 2));
        let half = |h: usize| std::array::from_fn(|l| f(a[h][l], b[h][l], c[h][l]));
        self.put_halves(i, half(0), half(1));
    }

    /// Returns the f16 halves of source `n` as f64, with `neg` and `neg_hi` applied.
    pub(super) fn float_halves(&self, i: &Valu, n: usize) -> [[f64; LANES]; 2] {
        let [low, high] = self.halves(i, n);
        let sign = |set: u8| if set >> n & 1 != 0 { 0x8000 } else { 0 };
        let (low_sign, high_sign) = (sign(i.neg), sign(i.neg_hi));
        [
            low.map(|h| self.widen16(h ^ low_sign)),
            high.map(|h| self.widen16(h ^ high_sign)),
        ]
    }

    pub(super) fn pk_f16(&mut self, i: &Valu, count: usize, f: impl Fn([f64; 3]) -> f64) {
        let zero = [[0.0; LANES]; 2];
        let mut sources = [zero; 3];
        for (n, source) in sources.iter_mut().enumerate().take(count) {
            *source = self.float_halves(i, n);
        }
        let half = |h: usize| {
            std::array::from_fn(|l| {
                let operands = [sources[0][h][l], sources[1][h][l], sources[2][h][l]];
                self.narrow16(i, f16::keep_nan(f(operands), &operands[..count]))
            })
        };
        let (low, high) = (half(0), half(1));
        self.put_halves(i, low, high);
    }

    /// Returns the dword of source `n` for operation `half`, as bits.
    fn word(&self, i: &Valu, n: usize, half: usize) -> Lanes {
        let select = if half == 0 { i.op_sel } else { i.op_sel_hi };
        let high = select >> n & 1 != 0;
        self.raw64(i, n)
            .map(|v| if high { (v >> 32) as u32 } else { v as u32 })
    }

    fn pk_f32(&mut self, i: &Valu, count: usize, f: impl Fn([f32; 3]) -> f32) {
        let (flush_in, flush_out) = (self.mode >> 4 & 1 == 0, self.mode >> 5 & 1 == 0);
        let mut out = [[0; LANES]; 2];
        for (half, out) in out.iter_mut().enumerate() {
            let mut operands = [[0f32; 3]; LANES];
            for n in 0..count {
                let negate = if half == 0 { i.neg } else { i.neg_hi };
                let sign = if negate >> n & 1 != 0 { 0x8000_0000 } else { 0 };
                let lanes = self.word(i, n, half);
                for (operands, bits) in operands.iter_mut().zip(lanes) {
                    let x = f32::from_bits(bits ^ sign);
                    operands[n] = if flush_in { float::flush32(x) } else { x };
                }
            }
            *out = operands.map(|operands| {
                let r = f(operands);
                let r = if r.is_nan() {
                    float::nan32(&operands[..count])
                } else {
                    r
                };
                let r = if flush_out { float::flush32(r) } else { r };
                let r = if i.clamp { self.clamp32(r) } else { r };
                r.to_bits()
            });
        }
        let [low, high] = out;
        let lanes = std::array::from_fn(|l| u64::from(low[l]) | u64::from(high[l]) << 32);
        self.put64(i, &lanes);
    }

    /// Returns an operand of `v_fma_mix`: f32, or the f16 half selected by `op_sel`.
    fn mixed(&self, i: &Valu, n: usize) -> [f32; LANES] {
        let is_half = i.op_sel_hi >> n & 1 != 0;
        let shift = if i.op_sel >> n & 1 != 0 { 16 } else { 0 };
        let (absolute, negative) = (i.neg_hi >> n & 1 != 0, i.neg >> n & 1 != 0);
        let flush = self.mode >> 4 & 1 == 0;
        let lanes = self.raw(i, n);
        lanes.map(|v| {
            let x = if is_half {
                self.widen16(v >> shift & 0xffff) as f32
            } else if flush {
                float::flush32(f32::from_bits(v))
            } else {
                f32::from_bits(v)
            };
            let x = if absolute { x.abs() } else { x };
            if negative {
                -x
            } else {
                x
            }
        })
    }

    fn mixed_fma(&self, i: &Valu) -> [f64; LANES] {
        let (a, b, c) = (self.mixed(i, 0), self.mixed(i, 1), self.mixed(i, 2));
        std::array::from_fn(|l| {
            let r = float::fma_odd(a[l], b[l], c[l]);
            f16::keep_nan(r, &[a[l].into(), b[l].into(), c[l].into()])
        })
    }
}

fn signed(h: u32) -> i32 {
    i32::from(h as u16 as i16)
}

fn nibble(v: u32, n: u32, sign: bool) -> i64 {
    let x = v >> (4 * n) & 0xf;
    if sign {
        i64::from((x << 28) as i32 >> 28)
    } else {
        i64::from(x)
    }
}

fn byte(v: u32, n: u32, sign: bool) -> i64 {
    let x = v >> (8 * n) & 0xff;
    if sign {
        i64::from(x as u8 as i8)
    } else {
        i64::from(x)
    }
}

fn half(v: u32, n: u32, sign: bool) -> i64 {
    let x = v >> (16 * n) & 0xffff;
    if sign {
        i64::from(signed(x))
    } else {
        i64::from(x)
    }
}

/// Integer dot product of `parts` parts, added to `c`.
fn dot(w: &mut Wave, i: &Valu, c: Lanes, parts: u32, sign: bool, part: fn(u32, u32, bool) -> i64) {
    let (a, b, clamp) = (w.raw(i, 0), w.raw(i, 1), i.clamp);
    w.put(
        i,
        std::array::from_fn(|l| {
            let c = if sign {
                i64::from(c[l] as i32)
            } else {
                i64::from(c[l])
            };
            let sum: i64 = (0..parts)
                .map(|n| part(a[l], n, sign) * part(b[l], n, sign))
                .sum();
            let r = sum + c;
            match (clamp, sign) {
                (true, true) => r.clamp(i32::MIN.into(), i32::MAX.into()) as u32,
                (true, false) => r.clamp(0, u32::MAX.into()) as u32,
                _ => r as u32,
            }
        }),
    );
}

/// `v_dot2_f32_f16`: two exact products and an f32, summed in that order and rounded to nearest.
/// gfx942 flushes denormals in any mode.
fn dot2_f32(w: &mut Wave, i: &Valu, addend: impl FnOnce(&Wave) -> [f32; LANES]) {
    if w.isa == Isa::Gfx942 {
        w.in_mode(DENORMALS, 0, |w| dot2_f32_in_mode(w, i, addend(w)));
    } else {
        let c = addend(w);
        dot2_f32_in_mode(w, i, c);
    }
}

fn dot2_f32_in_mode(w: &mut Wave, i: &Valu, c: [f32; LANES]) {
    let (a, b) = (w.float_halves(i, 0), w.float_halves(i, 1));
    let out = std::array::from_fn(|l| {
        let products = float::add_odd(a[0][l] * b[0][l], a[1][l] * b[1][l]);
        let r = float::add_odd(products, f64::from(c[l])) as f32;
        if r.is_nan() {
            float::nan32(&[c[l]])
        } else {
            r
        }
    });
    w.put_f32(i, out);
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    let clamp = i.clamp;
    let ieee = w.ieee();
    let unsigned = |v: i64| {
        if clamp {
            v.clamp(0, 0xffff) as u32
        } else {
            v as u32
        }
    };
    let saturated = |v: i64| {
        if clamp {
            v.clamp(-0x8000, 0x7fff) as u32
        } else {
            v as u32
        }
    };
    let s = |h: u32| i64::from(signed(h));
    match op {
        v_pk_mad_i16 => w.pk3(i, |a, b, c| saturated(s(a) * s(b) + s(c))),
        v_pk_mad_u16 => w.pk3(i, |a, b, c| {
            unsigned(i64::from(a) * i64::from(b) + i64::from(c))
        }),
        v_pk_mul_lo_u16 => w.pk2(i, u32::wrapping_mul),
        v_pk_add_i16 => w.pk2(i, |a, b| saturated(s(a) + s(b))),
        v_pk_sub_i16 => w.pk2(i, |a, b| saturated(s(a) - s(b))),
        v_pk_add_u16 => w.pk2(i, |a, b| unsigned(i64::from(a) + i64::from(b))),
        v_pk_sub_u16 => w.pk2(i, |a, b| unsigned(i64::from(a) - i64::from(b))),
        v_pk_lshlrev_b16 => w.pk2(i, |a, b| b << (a & 15)),
        v_pk_lshrrev_b16 => w.pk2(i, |a, b| b >> (a & 15)),
        v_pk_ashrrev_i16 => w.pk2(i, |a, b| (signed(b) >> (a & 15)) as u32),
        v_pk_max_i16 => w.pk2(i, |a, b| signed(a).max(signed(b)) as u32),
        v_pk_min_i16 => w.pk2(i, |a, b| signed(a).min(signed(b)) as u32),
        v_pk_max_u16 => w.pk2(i, u32::max),
        v_pk_min_u16 => w.pk2(i, u32::min),
        v_pk_add_f16 => w.pk_f16(i, 2, |[a, b, _]| a + b),
        v_pk_mul_f16 => w.pk_f16(i, 2, |[a, b, _]| a * b),
        v_pk_min_f16 => w.pk_f16(i, 2, |[a, b, _]| float::pick64(a, b, false, ieee)),
        v_pk_max_f16 => w.pk_f16(i, 2, |[a, b, _]| float::pick64(a, b, true, ieee)),
        v_pk_fma_f16 => w.pk_f16(i, 3, |[a, b, c]| f16::fma(a, b, c)),
        v_pk_fmac_f16 => {
            // VOP2: both halves in place, the destination is the addend.
            let mut full = *i;
            full.src[2] = Src::Vgpr(i.dst);
            full.op_sel_hi = 7;
            w.pk_f16(&full, 3, |[a, b, c]| f16::fma(a, b, c));
        }
        v_pk_add_f32 => {
            let mode = w.round32();
            w.pk_f32(i, 2, |[a, b, _]| {
                float::to_f32(float::add_odd(f64::from(a), f64::from(b)), mode)
            });
        }
        v_pk_mul_f32 => {
            let mode = w.round32();
            w.pk_f32(i, 2, |[a, b, _]| {
                float::to_f32(f64::from(a) * f64::from(b), mode)
            });
        }
        v_pk_fma_f32 => {
            let mode = w.round32();
            w.pk_f32(i, 3, |[a, b, c]| {
                float::to_f32(float::fma_odd(a, b, c), mode)
            });
        }
        v_pk_mov_b32 => {
            // The low result comes from source 0, the high one from source 1; `op_sel` selects the
            // dword.
            let (a, b) = (w.word(i, 0, 0), w.word(i, 1, 0));
            let out = std::array::from_fn(|l| u64::from(a[l]) | u64::from(b[l]) << 32);
            w.put64(i, &out);
        }
        v_fma_mix_f32 => {
            let (out, mode) = (w.mixed_fma(i), w.round32());
            let mut plain = *i;
            plain.omod = 0;
            w.put_f32(&plain, out.map(|x| float::to_f32(x, mode)));
        }
        v_fma_mixlo_f16 | v_fma_mixhi_f16 => {
            let out = w.mixed_fma(i).map(|x| w.narrow16(i, x));
            let old = w.v[usize::from(i.dst)];
            let high = op == v_fma_mixhi_f16;
            w.put(
                i,
                std::array::from_fn(|l| {
                    if high {
                        out[l] << 16 | old[l] & 0xffff
                    } else {
                        out[l] | old[l] & 0xffff_0000
                    }
                }),
            );
        }
        v_dot2_f32_f16 => {
            dot2_f32(w, i, |w| w.f32s(i, 2));
        }
        v_dot2_i32_i16 | v_dot2_u32_u16 => {
            let c = w.raw(i, 2);
            dot(w, i, c, 2, op == v_dot2_i32_i16, half);
        }
        v_dot4_i32_i8 | v_dot4_u32_u8 => {
            let c = w.raw(i, 2);
            dot(w, i, c, 4, op == v_dot4_i32_i8, byte);
        }
        v_dot8_i32_i4 | v_dot8_u32_u4 => {
            let c = w.raw(i, 2);
            dot(w, i, c, 8, op == v_dot8_i32_i4, nibble);
        }
        v_dot2c_f32_f16 => {
            let mut full = *i;
            full.op_sel_hi = 7;
            dot2_f32(w, &full, |w| w.accumulator32(i));
        }
        v_dot2c_i32_i16 | v_dot4c_i32_i8 | v_dot8c_i32_i4 => {
            let c = w.v[usize::from(i.dst)];
            match op {
                v_dot2c_i32_i16 => dot(w, i, c, 2, true, half),
                v_dot4c_i32_i8 => dot(w, i, c, 4, true, byte),
                _ => dot(w, i, c, 8, true, nibble),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
