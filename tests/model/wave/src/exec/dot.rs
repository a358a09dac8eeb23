// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Dot products of gfx1201: f16, bf16 and 8-bit float, and integers with signedness selected by the
//! instruction.

use super::convert::widen8;
use super::f16::keep_nan;
use super::valu::Tried;
use crate::float;
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{Lanes, Wave, LANES};

/// Returns part `n` of `bits` bits as an integer.
fn part(v: u32, n: u32, bits: u32, signed: bool) -> i64 {
    let up = v << (32 - bits * (n + 1));
    if signed {
        i64::from(up as i32 >> (32 - bits))
    } else {
        i64::from(up >> (32 - bits))
    }
}

/// Integer dot product of parts of `bits` bits; `neg` selects signed operands.
fn integers(w: &mut Wave, i: &Valu, bits: u32) {
    let (a, b, c) = (w.raw(i, 0), w.raw(i, 1), w.raw(i, 2));
    let signed = [i.neg & 1 != 0, i.neg & 2 != 0];
    let lane = |l: usize| {
        let product = |n: u32| part(a[l], n, bits, signed[0]) * part(b[l], n, bits, signed[1]);
        let sum = (0..32 / bits).map(product).sum::<i64>() + i64::from(c[l] as i32);
        if i.clamp {
            sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32
        } else {
            sum as u32
        }
    };
    w.put(i, std::array::from_fn(lane));
}

/// Returns exact products and an addend, summed from the last to the first and rounded once.
fn sum(products: impl Iterator<Item = f64>, addend: f64) -> f64 {
    products.fold(addend, float::add_odd)
}

/// Returns source 2 of a VOP3P instruction: `neg` negates, `neg_hi` is the absolute value.
fn addend(w: &Wave, i: &Valu) -> [f32; LANES] {
    let flush = w.mode >> 4 & 1 == 0;
    w.raw(i, 2).map(|bits| {
        let x = f32::from_bits(bits);
        let x = if flush { float::flush32(x) } else { x };
        let x = if i.neg_hi & 4 != 0 { x.abs() } else { x };
        if i.neg & 4 != 0 {
            -x
        } else {
            x
        }
    })
}

/// Writes f32 results, rounded to nearest.
fn put(w: &mut Wave, i: &Valu, sums: [f64; LANES]) {
    let rounded = sums.map(|x| {
        if x.is_nan() {
            f32::from_bits(float::NAN32)
        } else {
            x as f32
        }
    });
    w.put_f32(i, rounded);
}

/// Dot product of four 8-bit floats.
fn bytes(w: &mut Wave, i: &Valu, [a_fp8, b_fp8]: [bool; 2]) {
    let (from_a, from_b) = (widen8(w.isa, a_fp8), widen8(w.isa, b_fp8));
    let (a, b, c) = (w.raw(i, 0), w.raw(i, 1), addend(w, i));
    let lane = |l: usize| {
        let pairs = a[l].to_le_bytes().into_iter().zip(b[l].to_le_bytes());
        let product = |(x, y)| f64::from(from_a(x)) * f64::from(from_b(y));
        sum(pairs.map(product), c[l].into())
    };
    let sums = std::array::from_fn(lane);
    put(w, i, sums);
}

/// Returns the bf16 halves of source `n`, with VOP3P `neg` and `neg_hi` applied.
fn bf16_halves(w: &Wave, i: &Valu, n: usize) -> [[f64; LANES]; 2] {
    let [low, high]: [Lanes; 2] = if i.vop3 {
        let lanes = w.raw(i, n);
        [lanes.map(|v| v & 0xffff), lanes.map(|v| v >> 16)]
    } else {
        w.halves(i, n)
    };
    let signs = if i.vop3 {
        [i.neg, i.neg]
    } else {
        [i.neg, i.neg_hi]
    };
    let sign = |set: u8| if set >> n & 1 != 0 { 0x8000 } else { 0 };
    let widen = |h: u32, sign: u32| f64::from(float::from_bf16((h ^ sign) as u16));
    [
        low.map(|h| widen(h, sign(signs[0]))),
        high.map(|h| widen(h, sign(signs[1]))),
    ]
}

/// Bits of MODE for f16: rounding and denormals, and the latter.
const MODE_16: u32 = 3 << 2 | DENORMALS_16;
const DENORMALS_16: u32 = 3 << 6;

/// `v_dot2_f16_f16`, which has no output modifier.
fn halves(w: &mut Wave, i: &Valu) {
    let mut straight = *i;
    straight.op_sel_hi = 7;
    straight.op_sel = 0;
    straight.neg_hi = i.neg;
    let (a, b) = (w.float_halves(&straight, 0), w.float_halves(&straight, 1));
    let c = w.f16s(i, 2);
    let lane = |l: usize| {
        let products = [a[0][l] * b[0][l], a[1][l] * b[1][l]];
        keep_nan(sum(products.into_iter(), c[l]), &[c[l]])
    };
    let sums = std::array::from_fn(lane);
    w.put_f16(i, sums, true);
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_dot4_i32_iu8 => integers(w, i, 8),
        v_dot8_i32_iu4 => integers(w, i, 4),
        v_dot4_f32_fp8_fp8 => bytes(w, i, [true, true]),
        v_dot4_f32_fp8_bf8 => bytes(w, i, [true, false]),
        v_dot4_f32_bf8_fp8 => bytes(w, i, [false, true]),
        v_dot4_f32_bf8_bf8 => bytes(w, i, [false, false]),
        v_dot2_f32_bf16 => {
            let (a, b, c) = (bf16_halves(w, i, 0), bf16_halves(w, i, 1), addend(w, i));
            let lane = |l: usize| sum([0, 1].map(|h| a[h][l] * b[h][l]).into_iter(), c[l].into());
            let sums = std::array::from_fn(lane);
            put(w, i, sums);
        }
        v_dot2_f16_f16 => w.in_mode(MODE_16, DENORMALS_16, |w| halves(w, i)),
        v_dot2_bf16_bf16 => {
            let flushed = |x: f64| float::flush32(x as f32).into();
            let [a, b] = [0, 1].map(|n| bf16_halves(w, i, n).map(|half| half.map(flushed)));
            let c = w.modified16(i, 2);
            let lane = |l: usize| {
                let products = [a[0][l] * b[0][l], a[1][l] * b[1][l]];
                let c = flushed(float::from_bf16(c[l] as u16).into());
                let bits = float::f64_to_bf16(sum(products.into_iter(), c));
                // The exponent of an f32.
                u32::from(if bits & 0x7f80 == 0 {
                    bits & 0x8000
                } else {
                    bits
                })
            };
            let sums = std::array::from_fn(lane);
            w.put16(i, sums, true);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
