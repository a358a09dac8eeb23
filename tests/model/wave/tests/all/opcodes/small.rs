// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector f16 and 16-bit integers, and conversions. Expected f16 values come from a search in the
//! table of all f16.

use crate::common::bench::{check, d, f, vcc, w, Case, Fill, Lane};
use std::sync::OnceLock;

const FILLS: [Fill; 4] = [Fill::Halves; 4];

/// Returns the value of an f16, computed from the format's definition.
pub fn wide(h: u32) -> f64 {
    let sign = if h >> 15 & 1 != 0 { -1.0 } else { 1.0 };
    let (e, m) = ((h >> 10 & 31) as i32, f64::from(h & 1023));
    sign * match e {
        0 => m * 2f64.powi(-24),
        31 if m == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + m) * 2f64.powi(e - 25),
    }
}

/// Returns all finite magnitudes in order; the index is the encoding.
fn magnitudes() -> &'static [f64] {
    static TABLE: OnceLock<Vec<f64>> = OnceLock::new();
    TABLE.get_or_init(|| (0..0x7c00).map(wide).collect())
}

/// Returns the f16 nearest to `x`, ties to even. `x` must be exact.
pub fn half(x: f64) -> u32 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    if x.is_nan() {
        return 0x7e00;
    }
    let (x, table) = (x.abs(), magnitudes());
    if x >= 65520.0 {
        return sign | 0x7c00;
    }
    let above = table.partition_point(|&m| m < x);
    if above == table.len() {
        return sign | 0x7bff;
    }
    if above == 0 || table[above] == x {
        return sign | above as u32;
    }
    let (low, high) = (x - table[above - 1], table[above] - x);
    let up = high < low || (high == low && above % 2 == 0);
    sign | (above - usize::from(!up)) as u32
}

fn is_nan(h: u32) -> bool {
    h & 0x7fff > 0x7c00
}

/// Expects the f16 `x` in the low half of v10; the high half depends on the target.
fn h(asm: &'static str, x: impl Fn(Lane<'_>) -> f64 + 'static) -> Case {
    crate::common::bench::case(asm, move |before, after| {
        for n in 0..64 {
            let rest = before.lane(n).rest();
            let want = half(x(before.lane(n)));
            let got = after.v[10][n] ^ rest;
            if got != want && !(is_nan(want) && is_nan(got) && got >> 16 == 0) {
                let l = before.lane(n);
                return Err(format!(
                    "lane {n}: got {got:x}, expected {want:x}; v1 {:x} v2 {:x} v3 {:x} v10 {:x}",
                    l.u(1),
                    l.u(2),
                    l.u(3),
                    l.u(10)
                ));
            }
        }
        Ok(())
    })
}

/// Expects `f` in the low half of v10; the high half depends on the target.
fn w16(asm: &'static str, f: impl Fn(Lane<'_>) -> u32 + 'static) -> Case {
    w(asm, move |l| f(l) | l.rest())
}

fn a(l: Lane<'_>) -> f64 {
    wide(l.lo(1))
}

fn b(l: Lane<'_>) -> f64 {
    wide(l.lo(2))
}

#[test]
fn arithmetic() {
    check(
        &FILLS,
        &[
            h("v_add_f16 v10, v1, v2", |l| a(l) + b(l)),
            h("v_sub_f16 v10, v1, v2", |l| a(l) - b(l)),
            h("v_subrev_f16 v10, v1, v2", |l| b(l) - a(l)),
            h("v_mul_f16 v10, v1, v2", |l| a(l) * b(l)),
            h("v_add_f16 v10, 2.0, v2", |l| 2.0 + b(l)),
            h("v_add_f16 v10, -v1, |v2|", |l| -a(l) + b(l).abs()),
            h("v_mac_f16 v10, v1, v2", |l| {
                wide(half(a(l) * b(l))) + wide(l.lo(10))
            }),
            h("v_rcp_f16 v10, v1", |l| 1.0 / a(l)),
            h("v_sqrt_f16 v10, v1", |l| a(l).sqrt()),
            h("v_floor_f16 v10, v1", |l| a(l).floor()),
            h("v_ceil_f16 v10, v1", |l| a(l).ceil()),
            h("v_trunc_f16 v10, v1", |l| a(l).trunc()),
            h("v_rndne_f16 v10, v1", |l| a(l).round_ties_even()),
            h("v_exp_f16 v10, v1", |l| a(l).exp2()),
            h("v_log_f16 v10, v1", |l| a(l).log2()),
            h("v_ldexp_f16 v10, v1, 3", |l| a(l) * 8.0),
            h("v_ldexp_f16 v10, v1, -3", |l| a(l) / 8.0),
            h("v_fma_legacy_f16 v10, v1, 1.0, v2", |l| a(l) + b(l)),
            h(
                "v_add_f16_sdwa v10, v1, v2 dst_sel:DWORD src0_sel:WORD_1 src1_sel:WORD_0",
                |l| wide(l.hi(1)) + b(l),
            ),
        ],
    );
}

#[test]
fn half_selection() {
    let keep = |l: &Lane<'_>, v: u32| l.u(10) & 0xffff_0000 | v;
    // Integer instructions, so that no NaN rules interfere.
    check(
        &[Fill::Bits; 3],
        &[
            w("v_mad_u16 v10, v1, v2, v3", move |l| {
                keep(
                    &l,
                    l.lo(1).wrapping_mul(l.lo(2)).wrapping_add(l.lo(3)) & 0xffff,
                )
            }),
            w("v_mad_u16 v10, v1, v2, v3 op_sel:[1,0,1,0]", move |l| {
                keep(
                    &l,
                    l.hi(1).wrapping_mul(l.lo(2)).wrapping_add(l.hi(3)) & 0xffff,
                )
            }),
            w("v_mad_u16 v10, v1, v2, v3 op_sel:[0,1,0,1]", |l| {
                let r = l.lo(1).wrapping_mul(l.hi(2)).wrapping_add(l.lo(3));
                r << 16 | l.lo(10)
            }),
            w("v_mad_i16 v10, v1, v2, v3", move |l| {
                keep(
                    &l,
                    l.lo(1).wrapping_mul(l.lo(2)).wrapping_add(l.lo(3)) & 0xffff,
                )
            }),
            w("v_mad_legacy_u16 v10, v1, v2, v3", |l| {
                l.lo(1).wrapping_mul(l.lo(2)).wrapping_add(l.lo(3)) & 0xffff
            }),
            w("v_mad_u32_u16 v10, v1, v2, v3", |l| {
                (l.lo(1) * l.lo(2)).wrapping_add(l.u(3))
            }),
            w("v_mad_i32_i16 v10, v1, v2, v3", |l| {
                let p = i32::from(l.lo(1) as i16) * i32::from(l.lo(2) as i16);
                p.wrapping_add(l.i(3)) as u32
            }),
            w("v_pack_b32_f16 v10, v1, v2 op_sel:[1,0,0]", |l| {
                l.hi(1) | l.lo(2) << 16
            }),
        ],
    );
}

fn i(v: u32) -> i32 {
    i32::from(v as u16 as i16)
}

fn middle<T: Ord + Copy>(mut v: [T; 3]) -> T {
    v.sort();
    v[1]
}

#[test]
fn integers() {
    let keep = |l: &Lane<'_>, v: i32| l.u(10) & 0xffff_0000 | v as u32 & 0xffff;
    check(
        &[Fill::Bits; 4],
        &[
            w16("v_add_u16 v10, v1, v2", |l| (l.lo(1) + l.lo(2)) & 0xffff),
            w16("v_add_u16 v10, v1, v2 clamp", |l| {
                (l.lo(1) + l.lo(2)).min(0xffff)
            }),
            w16("v_sub_u16 v10, v1, v2", |l| {
                l.lo(1).wrapping_sub(l.lo(2)) & 0xffff
            }),
            w16("v_sub_u16 v10, v1, v2 clamp", |l| {
                l.lo(1).saturating_sub(l.lo(2))
            }),
            w("v_subrev_u16 v10, v1, v2", |l| {
                l.lo(2).wrapping_sub(l.lo(1)) & 0xffff
            }),
            w("v_add_i16 v10, v1, v2", move |l| {
                keep(&l, i(l.u(1)) + i(l.u(2)))
            }),
            w("v_add_i16 v10, v1, v2 clamp", move |l| {
                keep(&l, (i(l.u(1)) + i(l.u(2))).clamp(-32768, 32767))
            }),
            w("v_sub_i16 v10, v1, v2", move |l| {
                keep(&l, i(l.u(1)) - i(l.u(2)))
            }),
            w16("v_mul_lo_u16 v10, v1, v2", |l| l.lo(1) * l.lo(2) & 0xffff),
            w16("v_lshlrev_b16 v10, v1, v2", |l| {
                l.lo(2) << (l.u(1) % 16) & 0xffff
            }),
            w16("v_lshrrev_b16 v10, v1, v2", |l| l.lo(2) >> (l.u(1) % 16)),
            w16("v_ashrrev_i16 v10, v1, v2", |l| {
                (i(l.u(2)) >> (l.u(1) % 16)) as u32 & 0xffff
            }),
            w16("v_max_u16 v10, v1, v2", |l| l.lo(1).max(l.lo(2))),
            w16("v_min_u16 v10, v1, v2", |l| l.lo(1).min(l.lo(2))),
            w16("v_max_i16 v10, v1, v2", |l| {
                i(l.u(1)).max(i(l.u(2))) as u32 & 0xffff
            }),
            w16("v_min_i16 v10, v1, v2", |l| {
                i(l.u(1)).min(i(l.u(2))) as u32 & 0xffff
            }),
            w("v_min3_i16 v10, v1, v2, v3", move |l| {
                keep(&l, i(l.u(1)).min(i(l.u(2))).min(i(l.u(3))))
            }),
            w("v_max3_u16 v10, v1, v2, v3", move |l| {
                keep(&l, l.lo(1).max(l.lo(2)).max(l.lo(3)) as i32)
            }),
            w("v_med3_i16 v10, v1, v2, v3", move |l| {
                keep(&l, middle([i(l.u(1)), i(l.u(2)), i(l.u(3))]))
            }),
            w("v_med3_u16 v10, v1, v2, v3", move |l| {
                keep(&l, middle([l.lo(1), l.lo(2), l.lo(3)]) as i32)
            }),
            w16("v_sat_pk_u8_i16 v10, v1", |l| {
                (i(l.u(1)).clamp(0, 255) | i(l.hi(1)).clamp(0, 255) << 8) as u32
            }),
            w16("v_add_u16 v10, -1, v2", |l| l.u(2).wrapping_sub(1) & 0xffff),
        ],
    );
}

#[test]
fn conversions() {
    check(
        &FILLS,
        &[
            f("v_cvt_f32_f16 v10, v1", |l| a(l) as f32),
            w16("v_cvt_u16_f16 v10, v1", |l| a(l) as u16 as u32),
            w16("v_cvt_i16_f16 v10, v1", |l| a(l) as i16 as u16 as u32),
            f(
                "v_cvt_f32_f16_sdwa v10, v1 dst_sel:DWORD src0_sel:WORD_1",
                |l| wide(l.hi(1)) as f32,
            ),
            w("v_cvt_pknorm_u16_f16 v10, v1, v2", |l| {
                let norm = |x: f64| (x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u32;
                norm(a(l)) | norm(b(l)) << 16
            }),
        ],
    );
    check(
        &[Fill::Floats; 4],
        &[
            h("v_cvt_f16_f32 v10, v1", |l| f64::from(l.f(1))),
            h("v_cvt_f16_u16 v10, v1", |l| f64::from(l.lo(1))),
            h("v_cvt_f16_i16 v10, v1", |l| f64::from(i(l.u(1)))),
            w(
                "v_max_f32 v1, v1, v1\n v_max_f32 v2, v2, v2\n v_cvt_pkrtz_f16_f32 v10, v1, v2",
                |l| {
                    let toward_zero = |x: f32| {
                        if x.is_nan() {
                            // Unchanged except for the bits that an f16 lacks.
                            return (x.to_bits() >> 16 & 0x8000)
                                | 0x7e00
                                | x.to_bits() >> 13 & 0x3ff;
                        }
                        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
                        let x = f64::from(x.abs());
                        if x.is_infinite() {
                            return sign | 0x7c00;
                        }
                        sign | (magnitudes().partition_point(|&m| m <= x) - 1) as u32
                    };
                    toward_zero(l.f(1)) | toward_zero(l.f(2)) << 16
                },
            ),
        ],
    );
    check(
        &[Fill::Doubles; 1],
        &[d("v_cvt_f64_f32 v[10:11], v1", |l| f64::from(l.f(1)))],
    );
}

#[test]
fn comparisons() {
    check(
        &FILLS,
        &[
            vcc("v_cmp_lt_f16 vcc, v1, v2", |l| a(l) < b(l)),
            vcc("v_cmp_eq_f16 vcc, v1, v1", |l| !a(l).is_nan()),
            vcc("v_cmp_nge_f16 vcc, v1, -v2", |l| !(a(l) >= -b(l))),
            vcc("v_cmp_u_f16 vcc, v1, v2", |l| {
                a(l).is_nan() || b(l).is_nan()
            }),
            vcc("s_movk_i32 s16, 0x60\n v_cmp_class_f16 vcc, v1, s16", |l| {
                a(l) == 0.0
            }),
            vcc("s_movk_i32 s16, 0x1\n v_cmp_class_f16 vcc, v1, s16", |l| {
                l.lo(1) & 0x7e00 == 0x7c00 && l.lo(1) & 0x1ff != 0
            }),
        ],
    );
}

/// Returns the value of an 8-bit float, from the definition: no infinities, 0x80 is the only NaN.
fn tiny(bits: u32, mantissa_bits: u32) -> f32 {
    let bias = [0, 0, 16, 8][mantissa_bits as usize];
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let steps = f64::from(1u32 << mantissa_bits);
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1)) / steps;
    let value = match (bits & 0x7f) >> mantissa_bits {
        _ if bits == 0x80 => f64::NAN,
        0 => mantissa * 2f64.powi(1 - bias),
        e => (1.0 + mantissa) * 2f64.powi(e as i32 - bias),
    };
    (sign * value) as f32
}

#[test]
fn eight_bit_floats() {
    use crate::common::bench::case;
    let pair = |asm: &'static str, bits: u32, shift: u32| {
        case(asm, move |before, after| {
            for n in 0..64 {
                let v = before.v[1][n] >> shift;
                let want = [tiny(v & 0xff, bits), tiny(v >> 8 & 0xff, bits)];
                let got = [10, 11].map(|k: usize| f32::from_bits(after.v[k][n]));
                if (0..2).any(|k| got[k] != want[k] && !(got[k].is_nan() && want[k].is_nan())) {
                    return Err(format!("lane {n}: got {got:?}, expected {want:?}"));
                }
            }
            Ok(())
        })
    };
    check(
        &[Fill::Bits; 4],
        &[
            f("v_cvt_f32_fp8 v10, v1", |l| tiny(l.u(1) & 0xff, 3)),
            f("v_cvt_f32_bf8 v10, v1", |l| tiny(l.u(1) & 0xff, 2)),
            f("v_cvt_f32_fp8_sdwa v10, v1 src0_sel:BYTE_3", |l| {
                tiny(l.u(1) >> 24, 3)
            }),
            pair("v_cvt_pk_f32_fp8 v[10:11], v1", 3, 0),
            pair("v_cvt_pk_f32_bf8 v[10:11], v1", 2, 0),
            pair("v_cvt_pk_f32_bf8_sdwa v[10:11], v1 src0_sel:WORD_1", 2, 16),
        ],
    );
}

/// Returns the 8-bit float below the magnitude of `x`, and the position of `x` between it and the
/// one above. None is above the largest.
fn around(x: f64, mantissa_bits: u32) -> (u32, f64) {
    let magnitude = |code: u32| f64::from(tiny(code, mantissa_bits));
    let below = (0..128).rfind(|&c| magnitude(c) <= x.abs()).unwrap_or(0);
    let step = if below == 127 {
        magnitude(127) - magnitude(126)
    } else {
        magnitude(below + 1) - magnitude(below)
    };
    (below, (x.abs() - magnitude(below)) / step)
}

/// Returns an 8-bit float of a number; `up` selects rounding up.
fn to_tiny(x: f32, mantissa_bits: u32, up: impl Fn(u32, f64) -> bool) -> u32 {
    if !x.is_finite() {
        return 0x80;
    }
    let (below, rest) = around(x.into(), mantissa_bits);
    let code = below + u32::from(up(below, rest));
    match code {
        _ if code > 127 || rest >= 1.0 => 0x80,
        0 => 0,
        _ if x < 0.0 => code | 0x80,
        _ => code,
    }
}

fn nearest(x: f32, mantissa_bits: u32) -> u32 {
    let up = |below: u32, rest: f64| rest > 0.5 || (rest == 0.5 && below & 1 == 1);
    to_tiny(x, mantissa_bits, up)
}

#[test]
fn to_eight_bit_floats() {
    let low = |l: Lane<'_>, bits| nearest(l.f(1), bits) | nearest(-l.f(2), bits) << 8;
    let random = |l: Lane<'_>, bits: u32| {
        let lost = 23 - bits;
        let r = f64::from(l.u(2) >> (32 - lost)) / 2f64.powi(lost as i32);
        to_tiny(l.f(1), bits, |_, rest| rest + r >= 1.0)
    };
    check(
        &[Fill::Floats; 8],
        &[
            w("v_cvt_pk_fp8_f32 v10, v1, -v2", move |l| {
                l.u(10) & 0xffff_0000 | low(l, 3)
            }),
            w("v_cvt_pk_fp8_f32 v10, v1, -v2 op_sel:[0,0,1]", move |l| {
                l.u(10) & 0xffff | low(l, 3) << 16
            }),
            w("v_cvt_pk_bf8_f32 v10, v1, -v2", move |l| {
                l.u(10) & 0xffff_0000 | low(l, 2)
            }),
            w("v_cvt_sr_fp8_f32 v10, v1, v2", move |l| {
                l.u(10) & 0xffff_ff00 | random(l, 3)
            }),
            w("v_cvt_sr_bf8_f32 v10, v1, v2 op_sel:[0,0,1,0]", move |l| {
                l.u(10) & 0xffff_00ff | random(l, 2) << 8
            }),
            w("v_cvt_sr_fp8_f32 v10, v1, v2 op_sel:[0,0,1,1]", move |l| {
                l.u(10) & 0x00ff_ffff | random(l, 3) << 24
            }),
            // MODE.FP16_OVFL.
            w(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n v_cvt_pk_fp8_f32 v10, v1, v1",
                |l| {
                    let x = l.f(1);
                    let code = match nearest(x, 3) {
                        0x80 if !x.is_nan() => 0x7f | if x < 0.0 { 0x80 } else { 0 },
                        code => code,
                    };
                    l.u(10) & 0xffff_0000 | code * 0x101
                },
            ),
        ],
    );
}

#[test]
fn bytes_of_floats() {
    let byte = |x: f32| u32::from(x.round_ties_even() as u8);
    check(
        &[Fill::Floats; 4],
        &[
            w("v_cvt_pk_u8_f32 v10, v1, 2, v3", move |l| {
                l.u(3) & 0xff00_ffff | byte(l.f(1)) << 16
            }),
            w("v_cvt_pk_u8_f32 v10, |v1|, v2, v3", move |l| {
                let shift = 8 * (l.u(2) & 3);
                l.u(3) & !(0xff << shift) | byte(l.f(1).abs()) << shift
            }),
            w("v_cvt_pkaccum_u8_f32 v10, v1, 1", move |l| {
                l.u(10) & 0xffff_00ff | byte(l.f(1)) << 8
            }),
        ],
    );
}
