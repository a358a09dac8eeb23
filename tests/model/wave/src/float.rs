// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Float arithmetic of the vector unit where it differs from Rust's: f16, rounding modes,
//! denormals, NaN.

/// Rounding modes of MODE.FP_ROUND.
pub(crate) mod round {
    pub(crate) const NEAREST: u32 = 0;
    pub(crate) const UP: u32 = 1;
    pub(crate) const DOWN: u32 = 2;
    pub(crate) const ZERO: u32 = 3;
}

/// Default NaN of an invalid operation.
pub(crate) const NAN32: u32 = 0x7fc0_0000;
pub(crate) const NAN64: u64 = 0x7ff8_0000_0000_0000;

/// Returns the next number above or below `x`, which is not NaN.
fn next32(x: f32, up: bool) -> f32 {
    let bits = x.to_bits();
    match x {
        _ if x == 0.0 => f32::from_bits(if up { 1 } else { 0x8000_0001 }),
        _ if (x > 0.0) == up => f32::from_bits(bits + 1),
        _ => f32::from_bits(bits - 1),
    }
}

/// Returns the next number above or below `x`, which is not NaN.
fn next64(x: f64, up: bool) -> f64 {
    let bits = x.to_bits();
    match x {
        _ if x == 0.0 => f64::from_bits(if up { 1 } else { 1 << 63 | 1 }),
        _ if (x > 0.0) == up => f64::from_bits(bits + 1),
        _ => f64::from_bits(bits - 1),
    }
}

/// Rounds an f64 that is exact or rounded to odd to f32, correctly.
pub(crate) fn to_f32(x: f64, mode: u32) -> f32 {
    let r = x as f32;
    let back = f64::from(r);
    match mode {
        round::UP if back < x => next32(r, true),
        round::DOWN if back > x => next32(r, false),
        round::ZERO if back.abs() > x.abs() => next32(r, x < 0.0),
        _ => r,
    }
}

/// Returns `a + b` rounded to odd: rounding to fewer bits afterwards gives the correct result.
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    if error == 0.0 || !sum.is_finite() || error.is_nan() || bits & 1 == 1 {
        return sum;
    }
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { bits + 1 } else { bits - 1 })
}

/// Returns `a * b + c` of f32, exact or rounded to odd.
pub(crate) fn fma_odd(a: f32, b: f32, c: f32) -> f64 {
    add_odd(f64::from(a) * f64::from(b), f64::from(c))
}

/// Returns the f64 sum in a rounding mode.
pub(crate) fn add64(a: f64, b: f64, mode: u32) -> f64 {
    let sum = a + b;
    if mode == round::NEAREST || !sum.is_finite() {
        return sum;
    }
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    adjust(sum, error, mode)
}

/// Returns the f64 product in a rounding mode.
pub(crate) fn mul64(a: f64, b: f64, mode: u32) -> f64 {
    let product = a * b;
    if mode == round::NEAREST || !product.is_finite() {
        return product;
    }
    adjust(product, a.mul_add(b, -product), mode)
}

/// Adjusts a result rounded to nearest, `error` below the exact one, to rounding mode `mode`.
fn adjust(r: f64, error: f64, mode: u32) -> f64 {
    match mode {
        round::UP if error > 0.0 => next64(r, true),
        round::DOWN if error < 0.0 => next64(r, false),
        round::ZERO if error < 0.0 && r > 0.0 => next64(r, false),
        round::ZERO if error > 0.0 && r < 0.0 => next64(r, true),
        _ => r,
    }
}

/// Converts f16 to f32, exactly.
pub(crate) fn from_f16(h: u16) -> f32 {
    let sign = u32::from(h >> 15) << 31;
    let (exponent, mantissa) = (u32::from(h >> 10 & 0x1f), u32::from(h & 0x3ff));
    let magnitude = match exponent {
        0 => (mantissa as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        31 => 0x7f80_0000 | mantissa << 13,
        e => (e + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Rounds an f64 that is exact or rounded to odd to f16, correctly.
pub(crate) fn to_f16(x: f64, mode: u32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 63) as u16) << 15;
    if x.is_nan() {
        return sign | 0x7e00 | (bits >> 42 & 0x3ff) as u16;
    }
    if x.is_infinite() {
        return sign | 0x7c00;
    }
    let away = match mode {
        round::UP => sign == 0,
        round::DOWN => sign != 0,
        _ => false,
    };
    let magnitude = x.abs();
    let overflow = if mode == round::NEAREST || away {
        0x7c00
    } else {
        0x7bff
    };
    if magnitude >= 65536.0 {
        return sign | overflow;
    }
    let exponent = ((bits >> 52 & 0x7ff) as i32 - 1023).max(-14);
    // In units of the last place; exact, as a division by a power of two.
    let units = magnitude / 2f64.powi(exponent - 10);
    let whole = units.trunc();
    let rest = units - whole;
    let n = whole as u32;
    let up = match mode {
        round::NEAREST => rest > 0.5 || (rest == 0.5 && n & 1 == 1),
        _ => away && rest > 0.0,
    };
    let n = n + u32::from(up);
    // A carry out of the mantissa increments the exponent.
    let h = (exponent + 14) as u32 * 1024 + n;
    sign | (h as u16).min(0x7c00)
}

/// Converts f32 to f16.
pub(crate) fn f32_to_f16(x: f32, mode: u32) -> u16 {
    to_f16(f64::from(x), mode)
}

/// Converts bf16 to f32, exactly.
pub(crate) fn from_bf16(b: u16) -> f32 {
    f32::from_bits(u32::from(b) << 16)
}

/// Converts f32 to bf16, nearest even.
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Rounds an f64 that is exact or rounded to odd to bf16, nearest even.
pub(crate) fn f64_to_bf16(x: f64) -> u16 {
    if x.is_nan() {
        return (quiet64(x).to_bits() >> 48) as u16 & 0x8000 | 0x7fc0;
    }
    // Toward zero with the lowest bit set if inexact: rounded to odd again.
    let cut = to_f32(x, round::ZERO);
    let sticky = u32::from(f64::from(cut) != x && cut.is_finite());
    let bits = if cut.is_finite() {
        cut.to_bits() | sticky
    } else {
        cut.to_bits()
    };
    ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
}

/// Converts an 8-bit float of gfx942 (fnuz: no infinities, no negative zero) to f32, exactly.
fn from_8_bits(bits: u8, mantissa_bits: i32, bias: i32) -> f32 {
    let bits = i32::from(bits);
    if bits == 0x80 {
        return f32::from_bits(NAN32);
    }
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let (whole, exponent) = match (bits & 0x7f) >> mantissa_bits {
        0 => (mantissa, 1),
        e => (mantissa + (1 << mantissa_bits), e),
    };
    sign * whole as f32 * 2f32.powi(exponent - bias - mantissa_bits)
}

/// Converts fp8 (4-bit exponent) to f32, exactly.
pub(crate) fn from_fp8(bits: u8) -> f32 {
    from_8_bits(bits, 3, 8)
}

/// Converts bf8 (5-bit exponent) to f32, exactly.
pub(crate) fn from_bf8(bits: u8) -> f32 {
    from_8_bits(bits, 2, 16)
}

/// Converts f32 to an 8-bit float of gfx942. `random` in [0, 1) is added to the discarded fraction
/// (stochastic rounding); without it nearest even. Overflow gives the largest number if `saturate`,
/// else NaN.
fn to_8_bits(x: f32, mantissa_bits: i32, bias: i32, saturate: bool, random: Option<f64>) -> u8 {
    const NAN: u8 = 0x80;
    if x.is_nan() {
        return NAN;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let overflow = if saturate { sign | 0x7f } else { NAN };
    if x.is_infinite() {
        return overflow;
    }
    if x == 0.0 {
        return 0;
    }
    let magnitude = f64::from(x.abs());
    let exponent = (frexp64(magnitude).1 - 1).max(1 - bias);
    // In units of the last place; exact, as a division by a power of two.
    let units = magnitude / 2f64.powi(exponent - mantissa_bits);
    let (whole, rest) = (units.trunc(), units.fract());
    let odd = whole % 2.0 == 1.0;
    let up = match random {
        None => rest > 0.5 || (rest == 0.5 && odd),
        Some(r) => rest + r >= 1.0,
    };
    // A carry out of the mantissa increments the exponent.
    let code = f64::from((exponent + bias - 1) << mantissa_bits) + whole + f64::from(u8::from(up));
    if code > 127.0 {
        return overflow;
    }
    match code as u8 {
        // No negative zero.
        0 => 0,
        code => sign | code,
    }
}

/// Converts f32 to fp8 (4-bit exponent).
pub(crate) fn to_fp8(x: f32, saturate: bool, random: Option<f64>) -> u8 {
    to_8_bits(x, 3, 8, saturate, random)
}

/// Converts f32 to bf8 (5-bit exponent).
pub(crate) fn to_bf8(x: f32, saturate: bool, random: Option<f64>) -> u8 {
    to_8_bits(x, 2, 16, saturate, random)
}

/// Converts OCP fp8 (gfx1201; 4-bit exponent, no infinities) to f32, exactly.
pub(crate) fn from_ocp_fp8(bits: u8) -> f32 {
    match bits & 0x7f {
        0x7f => f32::from_bits(NAN32 | u32::from(bits & 0x80) << 24),
        0 => f32::from_bits(u32::from(bits) << 24),
        _ => from_8_bits(bits, 3, 7),
    }
}

/// Converts OCP bf8 (gfx1201; upper byte of an f16) to f32, exactly.
pub(crate) fn from_ocp_bf8(bits: u8) -> f32 {
    let x = from_f16(u16::from(bits) << 8);
    if x.is_nan() {
        quiet32(x)
    } else {
        x
    }
}

/// Converts f32 to an OCP 8-bit float. `infinity` and `largest` are codes without the sign:
/// overflow gives the first, or the second if `saturate`.
fn to_ocp(
    x: f32,
    [mantissa_bits, bias]: [i32; 2],
    [infinity, largest]: [u8; 2],
    saturate: bool,
    random: Option<f64>,
) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_nan() {
        return sign | 0x7f;
    }
    let overflow = sign | if saturate { largest } else { infinity };
    if x.is_infinite() {
        return overflow;
    }
    if x == 0.0 {
        return sign;
    }
    let magnitude = f64::from(x.abs());
    let exponent = (frexp64(magnitude).1 - 1).max(1 - bias);
    // In units of the last place; exact, as a division by a power of two.
    let units = magnitude / 2f64.powi(exponent - mantissa_bits);
    let (whole, rest) = (units.trunc(), units.fract());
    let odd = whole % 2.0 == 1.0;
    let up = match random {
        None => rest > 0.5 || (rest == 0.5 && odd),
        Some(r) => rest + r >= 1.0,
    };
    // A carry out of the mantissa increments the exponent.
    let code = f64::from((exponent + bias - 1) << mantissa_bits) + whole + f64::from(u8::from(up));
    if code > f64::from(largest) {
        return overflow;
    }
    sign | code as u8
}

/// Converts f32 to OCP fp8.
pub(crate) fn to_ocp_fp8(x: f32, saturate: bool, random: Option<f64>) -> u8 {
    to_ocp(x, [3, 7], [0x7f, 0x7e], saturate, random)
}

/// Converts f32 to OCP bf8.
pub(crate) fn to_ocp_bf8(x: f32, saturate: bool, random: Option<f64>) -> u8 {
    to_ocp(x, [2, 15], [0x7c, 0x7b], saturate, random)
}

/// Flushes a denormal to signed zero.
pub(crate) fn flush32(x: f32) -> f32 {
    if x.is_subnormal() {
        f32::from_bits(x.to_bits() & 0x8000_0000)
    } else {
        x
    }
}

/// Flushes a denormal to signed zero.
pub(crate) fn flush64(x: f64) -> f64 {
    if x.is_subnormal() {
        f64::from_bits(x.to_bits() & 1 << 63)
    } else {
        x
    }
}

/// Flushes a denormal f16 to signed zero.
pub(crate) fn flush16(h: u16) -> u16 {
    if h & 0x7c00 == 0 {
        h & 0x8000
    } else {
        h
    }
}

/// Returns whether `x` is a signalling NaN.
pub(crate) fn signalling32(x: f32) -> bool {
    x.is_nan() && x.to_bits() & 0x40_0000 == 0
}

/// Returns whether `x` is a signalling NaN.
pub(crate) fn signalling64(x: f64) -> bool {
    x.is_nan() && x.to_bits() >> 51 & 1 == 0
}

/// Quiets a NaN.
pub(crate) fn quiet32(x: f32) -> f32 {
    f32::from_bits(x.to_bits() | 0x40_0000)
}

/// Quiets a NaN.
pub(crate) fn quiet64(x: f64) -> f64 {
    f64::from_bits(x.to_bits() | 1 << 51)
}

/// Returns the result of an operation that produced NaN: the first NaN operand, quieted, or the
/// default.
pub(crate) fn nan32(operands: &[f32]) -> f32 {
    match operands.iter().find(|x| x.is_nan()) {
        Some(&x) => quiet32(x),
        None => f32::from_bits(NAN32),
    }
}

/// Returns the result of an operation that produced NaN: the first NaN operand, quieted, or the
/// default.
pub(crate) fn nan64(operands: &[f64]) -> f64 {
    match operands.iter().find(|x| x.is_nan()) {
        Some(&x) => quiet64(x),
        None => f64::from_bits(NAN64),
    }
}

/// Minimum or maximum: a number takes precedence over NaN; with `ieee` a signalling NaN over both,
/// quieted.
pub(crate) fn pick32(a: f32, b: f32, max: bool, ieee: bool) -> f32 {
    if ieee && signalling32(a) {
        return quiet32(a);
    }
    if ieee && signalling32(b) {
        return quiet32(b);
    }
    if a.is_nan() {
        return if b.is_nan() { quiet32(a) } else { b };
    }
    if b.is_nan() {
        return a;
    }
    let less = a < b || (a == b && a.is_sign_negative() && !b.is_sign_negative());
    if less == max {
        b
    } else {
        a
    }
}

/// Minimum or maximum that propagates NaN, quieted (`minimum` of IEEE 754-2019).
pub(crate) fn extreme32(a: f32, b: f32, max: bool) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => quiet32(a),
        (_, true) => quiet32(b),
        _ => pick32(a, b, max, false),
    }
}

/// Minimum or maximum: a number takes precedence over NaN; with `ieee` a signalling NaN over both,
/// quieted.
pub(crate) fn pick64(a: f64, b: f64, max: bool, ieee: bool) -> f64 {
    if ieee && signalling64(a) {
        return quiet64(a);
    }
    if ieee && signalling64(b) {
        return quiet64(b);
    }
    if a.is_nan() {
        return if b.is_nan() { quiet64(a) } else { b };
    }
    if b.is_nan() {
        return a;
    }
    let less = a < b || (a == b && a.is_sign_negative() && !b.is_sign_negative());
    if less == max {
        b
    } else {
        a
    }
}

/// Minimum or maximum that propagates NaN, quieted (`minimum` of IEEE 754-2019).
pub(crate) fn extreme64(a: f64, b: f64, max: bool) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => quiet64(a),
        (_, true) => quiet64(b),
        _ => pick64(a, b, max, false),
    }
}

/// Returns `x * 2^n`, rounded once.
pub(crate) fn ldexp64(x: f64, n: i32) -> f64 {
    // Two steps within the normal range, so that only the last one rounds.
    let n = n.clamp(-2200, 2200);
    let step = |x: f64, n: i32| x * f64::from_bits(((n + 1023) as u64) << 52);
    match n {
        -1022..=1023 => step(x, n),
        1024.. => step(step(step(x, 1023), (n - 1023).min(1023)), (n - 2046).max(0)),
        _ => {
            // The mantissa keeps all bits until the single rounding at the end.
            let (m, e) = frexp64(x);
            let total = e + n;
            if x == 0.0 || !x.is_finite() {
                return x;
            }
            if total < -1080 {
                return 0f64.copysign(x);
            }
            if total >= -1021 {
                return step(m, total);
            }
            subnormal(m, total)
        }
    }
}

/// Returns `m * 2^e` with 0.5 <= |m| < 1 and a subnormal result, nearest even.
fn subnormal(m: f64, e: i32) -> f64 {
    let scaled = m * 2f64.powi(e + 1074);
    let n = scaled.round_ties_even();
    f64::from_bits(n.abs() as u64).copysign(m)
}

/// Returns mantissa in [0.5, 1) and exponent.
pub(crate) fn frexp64(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (scaled, bias) = if x.is_subnormal() {
        (x * 2f64.powi(64), 64)
    } else {
        (x, 0)
    };
    let bits = scaled.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    (
        f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52),
        exponent - bias,
    )
}
