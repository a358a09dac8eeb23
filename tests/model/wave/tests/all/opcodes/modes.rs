// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MODE: denormals, rounding, clamp of NaN.

use super::small::half;
use crate::common::bench::{check, check_12, d, f, s, w, Fill, Lane};

const FILLS: [Fill; 6] = [Fill::Floats; 6];

fn flush(x: f32) -> f32 {
    if x.is_subnormal() {
        0f32.copysign(x)
    } else {
        x
    }
}

#[test]
fn denormals() {
    check(
        &FILLS,
        &[
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n v_add_f32 v10, v1, v2",
                |l| flush(flush(l.f(1)) + flush(l.f(2))),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1\n v_mul_f32 v10, v1, v2",
                |l| flush(l.f(1) * l.f(2)),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 2\n v_mul_f32 v10, v1, v2",
                |l| flush(l.f(1)) * flush(l.f(2)),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n v_fma_f32 v10, v1, v2, v3",
                |l| flush(flush(l.f(1)).mul_add(flush(l.f(2)), flush(l.f(3)))),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 0\n v_add_f32 v10, v1, v2 clamp",
                |l| {
                    let x = l.f(1) + l.f(2);
                    if x.is_nan() {
                        x
                    } else if x > 0.0 {
                        x.min(1.0)
                    } else {
                        0.0
                    }
                },
            ),
        ],
    );
    check(
        &[Fill::Doubles; 3],
        &[d(
            "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0\n v_add_f64 v[10:11], v[2:3], v[4:5]",
            |l| {
                let flush = |x: f64| {
                    if x.is_subnormal() {
                        0f64.copysign(x)
                    } else {
                        x
                    }
                };
                flush(flush(l.d(2)) + flush(l.d(4)))
            },
        )],
    );
}

/// Returns the f32 next to `exact` in the rounding direction. f64 is exact for products of f32.
fn toward(exact: f64, mode: u32) -> f32 {
    let near = exact as f32;
    if exact.is_nan() || f64::from(near) == exact {
        return near;
    }
    let is_above = f64::from(near) > exact;
    let want_above = match mode {
        1 => true,
        2 => false,
        _ => exact < 0.0,
    };
    if is_above == want_above {
        return near;
    }
    // The other neighbour, in the order of bit patterns.
    let key = |x: f32| {
        let bits = x.to_bits() as i32;
        i64::from(if bits < 0 {
            i32::MIN.wrapping_sub(bits)
        } else {
            bits
        })
    };
    let unkey = |k: i64| {
        let k = k as i32;
        f32::from_bits(if k < 0 {
            i32::MIN.wrapping_sub(k) as u32
        } else {
            k as u32
        })
    };
    let zero_key = key(near);
    if want_above {
        unkey(zero_key + 1).abs().copysign(near)
    } else if near == 0.0 {
        -f32::from_bits(1)
    } else {
        unkey(zero_key - 1)
    }
}

#[test]
fn rounding() {
    let product = |l: &Lane<'_>| f64::from(l.f(1)) * f64::from(l.f(2));
    check(
        &FILLS,
        &[
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\n v_mul_f32 v10, v1, v2",
                move |l| toward(product(&l), 1),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 2\n v_mul_f32 v10, v1, v2",
                move |l| toward(product(&l), 2),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3\n v_mul_f32 v10, v1, v2",
                move |l| toward(product(&l), 3),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3\n v_cvt_f32_u32 v10, v1",
                |l| toward(f64::from(l.u(1)), 3),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\n v_cvt_f32_i32 v10, v1",
                |l| toward(f64::from(l.i(1)), 1),
            ),
        ],
    );
    check(
        &[Fill::Doubles; 3],
        &[
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3\n v_cvt_f32_f64 v10, v[2:3]",
                |l| toward(l.d(2), 3),
            ),
            f(
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 2\n v_cvt_f32_f64 v10, v[2:3]",
                |l| toward(l.d(2), 2),
            ),
        ],
    );
    check(&[Fill::Floats; 2], &[
        w("v_max_f32 v1, 0, v1\n s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 3\n v_cvt_f16_f32 v10, v1", |l| {
            if l.f(1).is_nan() && l.u(1) >> 22 & 1 == 0 {
                // The maximum propagates a signalling NaN, quieted.
                return l.u(1) >> 16 & 0x8000 | 0x7e00 | l.u(1) >> 13 & 0x3ff;
            }
            let x = f64::from(l.f(1).max(0.0));
            let near = half(x);
            let over = near == 0x7c00 && x.is_finite() || super::small::wide(near) > x;
            near - u32::from(over)
        }),
    ]);
}

/// Runs `text` on f16 and f32 values at the edges, with or without MODE.FP16_OVFL.
fn large(overflow: bool, text: &str) -> &'static str {
    format!(
        "v_mov_b32 v1, 0x7bff7800\n v_mov_b32 v2, 0xfbff7bff\n v_mov_b32 v3, 0xc7800000\n\
         v_mov_b32 v4, 0x7c00fc00\n v_mov_b32 v5, 0xff800000\n v_mov_b32 v10, 0\n\
         s_mov_b32 s16, 0x7bff\n s_mov_b32 s17, 0x7c00\n\
         s_setreg_imm32_b32 hwreg(1, 23, 1), {}\n {text}",
        u32::from(overflow)
    )
    .leak()
}

/// Finite results saturate; infinite operands and poles give infinity.
#[test]
fn overflow_of_f16() {
    let cases = [
        ("v_add_f16 v10, v1, v2", 0x7c00, 0x7bff),
        ("v_sub_f16 v10, v4, v2", 0xfc00, 0xfc00),
        ("v_cvt_f16_f32 v10, v3", 0xfc00, 0xfbff),
        ("v_cvt_f16_f32 v10, v5", 0xfc00, 0xfc00),
        ("v_exp_f16 v10, v2", 0x7c00, 0x7bff),
        ("v_rcp_f16 v10, v10", 0x7c00, 0x7c00),
        ("v_pk_mul_f16 v10, v1, v2", 0xfc00_7c00, 0xfbff_7bff),
        ("v_pk_mul_f16 v10, v4, v1", 0x7c00_fc00, 0x7c00_fc00),
        ("v_fma_mixlo_f16 v10, v3, 2.0, v3", 0xfc00, 0xfbff),
    ];
    let words = |cases: &[(&'static str, u32, u32)]| -> Vec<_> {
        let both = |&(text, off, on): &(&'static str, u32, u32)| {
            let case = move |is_on, want| w(large(is_on, text), move |_| want);
            [case(false, off), case(true, on)]
        };
        cases.iter().flat_map(both).collect()
    };
    check(&[Fill::Halves], &words(&cases));
    check(
        &[Fill::Halves],
        // The product saturates, too.
        &words(&[("v_mad_f16 v10, v1, v2, -v2", 0x7c00, 0)]),
    );
    check_12(&[Fill::Halves], &words(&cases));
    check_12(
        &[Fill::Halves],
        &[
            s(large(false, "s_add_f16 s24, s16, s16"), |_| (0x7c00, None)),
            s(large(true, "s_add_f16 s24, s16, s16"), |_| (0x7bff, None)),
            s(large(true, "s_add_f16 s24, s16, s17"), |_| (0x7c00, None)),
        ],
    );
}
