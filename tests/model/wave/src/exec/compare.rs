// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector comparisons.

use crate::float;
use crate::inst::{Cmp, Valu};
use crate::wave::{Step, Wave, LANES};
use std::cmp::Ordering;

/// Bits of a relation.
const LESS: u8 = 1;
const EQUAL: u8 = 2;
const GREATER: u8 = 4;
const UNORDERED: u8 = 8;

fn bit(ordering: Option<Ordering>) -> u8 {
    match ordering {
        Some(Ordering::Less) => LESS,
        Some(Ordering::Equal) => EQUAL,
        Some(Ordering::Greater) => GREATER,
        None => UNORDERED,
    }
}

fn collect(f: impl Fn(usize) -> bool) -> u64 {
    (0..LANES).fold(0, |bits, l| bits | u64::from(f(l)) << l)
}

/// Returns the class bit of a float: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0,
/// +denormal, +normal, +inf.
fn class(nan: bool, signalling: bool, negative: bool, magnitude: u32) -> u32 {
    // `magnitude`: 0 zero, 1 denormal, 2 normal, 3 infinite.
    match (nan, signalling, negative) {
        (true, true, _) => 1,
        (true, false, _) => 2,
        (_, _, true) => 1 << (5 - magnitude),
        (_, _, false) => 1 << (6 + magnitude),
    }
}

fn magnitude(zero: bool, denormal: bool, infinite: bool) -> u32 {
    match (zero, denormal, infinite) {
        (true, _, _) => 0,
        (_, true, _) => 1,
        (_, _, true) => 3,
        _ => 2,
    }
}

fn class32(x: f32) -> u32 {
    let m = magnitude(x == 0.0, x.is_subnormal(), x.is_infinite());
    class(x.is_nan(), float::signalling32(x), x.is_sign_negative(), m)
}

fn class64(x: f64) -> u32 {
    let m = magnitude(x == 0.0, x.is_subnormal(), x.is_infinite());
    class(x.is_nan(), float::signalling64(x), x.is_sign_negative(), m)
}

fn class16(h: u16) -> u32 {
    let (exponent, mantissa) = (h >> 10 & 0x1f, h & 0x3ff);
    let nan = exponent == 31 && mantissa != 0;
    let m = magnitude(h & 0x7fff == 0, exponent == 0, exponent == 31);
    class(nan, nan && mantissa & 0x200 == 0, h >> 15 != 0, m)
}

pub(super) fn step(w: &mut Wave, i: &Valu, cmp: Cmp, write_exec: bool) -> Step {
    let bits = match cmp {
        Cmp::Int {
            relation,
            bits: 64,
            signed,
        } => {
            let (a, b) = (w.raw64(i, 0), w.raw64(i, 1));
            if signed {
                ordered(relation, |l| (a[l] as i64).cmp(&(b[l] as i64)))
            } else {
                ordered(relation, |l| a[l].cmp(&b[l]))
            }
        }
        Cmp::Int {
            relation,
            bits: 16,
            signed,
        } => {
            let (a, b) = (w.raw16(i, 0), w.raw16(i, 1));
            if signed {
                ordered(relation, |l| (a[l] as i16).cmp(&(b[l] as i16)))
            } else {
                ordered(relation, |l| a[l].cmp(&b[l]))
            }
        }
        Cmp::Int {
            relation, signed, ..
        } => {
            let (a, b) = (w.raw(i, 0), w.raw(i, 1));
            if signed {
                ordered(relation, |l| (a[l] as i32).cmp(&(b[l] as i32)))
            } else {
                ordered(relation, |l| a[l].cmp(&b[l]))
            }
        }
        Cmp::Float { relation, bits: 64 } => {
            let (a, b) = (w.f64s(i, 0), w.f64s(i, 1));
            collect(|l| relation & bit(a[l].partial_cmp(&b[l])) != 0)
        }
        Cmp::Float { relation, bits: 16 } => {
            let (a, b) = (w.f16s(i, 0), w.f16s(i, 1));
            collect(|l| relation & bit(a[l].partial_cmp(&b[l])) != 0)
        }
        Cmp::Float { relation, .. } => {
            let (a, b) = (w.f32s(i, 0), w.f32s(i, 1));
            collect(|l| relation & bit(a[l].partial_cmp(&b[l])) != 0)
        }
        // Class tests do not flush denormals.
        Cmp::Class { bits: 64 } => {
            let (a, b) = (w.f64s_unflushed(i, 0), w.raw(i, 1));
            collect(|l| class64(a[l]) & b[l] != 0)
        }
        Cmp::Class { bits: 16 } => {
            let (a, b) = (w.modified16(i, 0), w.raw16(i, 1));
            collect(|l| class16(a[l] as u16) & b[l] != 0)
        }
        Cmp::Class { .. } => {
            let (a, b) = (w.f32s_unflushed(i, 0), w.raw(i, 1));
            collect(|l| class32(a[l]) & b[l] != 0)
        }
    };
    w.put_mask(i, bits);
    if write_exec {
        let mask = w.mask;
        w.set_exec(bits & mask);
    }
    Ok(())
}

/// One loop per relation, so that the relation is a constant in it.
fn ordered(relation: u8, f: impl Fn(usize) -> Ordering) -> u64 {
    const LESS_EQUAL: u8 = LESS | EQUAL;
    const GREATER_EQUAL: u8 = GREATER | EQUAL;
    const OTHER: u8 = LESS | GREATER;
    match relation & 7 {
        0 => 0,
        LESS => collect(|l| f(l).is_lt()),
        EQUAL => collect(|l| f(l).is_eq()),
        LESS_EQUAL => collect(|l| f(l).is_le()),
        GREATER => collect(|l| f(l).is_gt()),
        OTHER => collect(|l| f(l).is_ne()),
        GREATER_EQUAL => collect(|l| f(l).is_ge()),
        _ => u64::MAX,
    }
}
