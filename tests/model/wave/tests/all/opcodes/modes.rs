// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MODE: denormals, rounding, clamp of NaN.

use super::small::half;
use crate::common::bench::{check, d, f, w, Fill, Lane};

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
