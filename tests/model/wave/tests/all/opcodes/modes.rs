// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MODE: denormals, rounding, clamp of NaN.

use super::small::{half, wide};
use crate::common::bench::{check, check_12, check_on, d, f, s, w, Case, Fill, Lane};
use crate::common::llvm::Target;

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
            let over = near == 0x7c00 && x.is_finite() || wide(near) > x;
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

/// Sets the denormal modes, DX10_CLAMP and IEEE to `mode`, then runs `text`.
fn in_mode(mode: u32, text: &str) -> &'static str {
    format!("s_setreg_imm32_b32 hwreg(1, 4, 6), {mode}\n {text}").leak()
}

/// Denormal modes, DX10_CLAMP and IEEE.
const FLUSH: u32 = 0x10;
const IEEE: u32 = 0x20;
const FLUSH_RESULT: u32 = 0x15;
const DENORMAL: u32 = 0x1f;

/// Applied output modifiers flush negative zero, too.
fn scaled(x: f32, by: f32) -> f32 {
    let r = flush(x * by);
    if r == 0.0 {
        0.0
    } else {
        r
    }
}

fn modified(lacks_ieee: bool) -> Vec<Case> {
    let product = |l: &Lane<'_>| flush(l.f(1)) * flush(l.f(2));
    let finite = "v_mov_b32 v1, 0x2aaa\n v_mov_b32 v2, 0xaaaa\n";
    let mut cases = vec![
        f(in_mode(FLUSH, "v_mul_f32 v10, v1, v2 mul:2"), move |l| {
            scaled(product(&l), 2.0)
        }),
        f(in_mode(FLUSH, "v_mul_f32 v10, v1, v2 mul:4"), move |l| {
            scaled(product(&l), 4.0)
        }),
        f(in_mode(FLUSH_RESULT, "v_mul_f32 v10, v1, v2 div:2"), |l| {
            scaled(l.f(1) * l.f(2), 0.5)
        }),
        // Ignored with denormal results.
        f(in_mode(DENORMAL, "v_mul_f32 v10, v1, v2 mul:2"), |l| {
            l.f(1) * l.f(2)
        }),
        w(
            in_mode(FLUSH, &format!("{finite} v_mul_f16 v10, v1, v2 mul:4")),
            move |l| {
                let x = half(wide(0x2aaa) * wide(0xaaaa) * 4.0);
                x | l.rest()
            },
        ),
        w(
            in_mode(DENORMAL, &format!("{finite} v_mul_f16 v10, v1, v2 mul:4")),
            |l| half(wide(0x2aaa) * wide(0xaaaa)) | l.rest(),
        ),
        w(
            in_mode(
                FLUSH,
                "v_mov_b32 v1, 0x8000\n v_mov_b32 v2, 0x3c00\n v_mul_f16 v10, v1, v2 mul:4",
            ),
            |l| l.rest(),
        ),
    ];
    if !lacks_ieee {
        cases.push(f(
            in_mode(FLUSH | IEEE, "v_mul_f32 v10, v1, v2 mul:2"),
            move |l| flush(product(&l)),
        ));
    }
    cases
}

/// Output modifiers need flushed denormal results, and no MODE.IEEE.
#[test]
fn output_modifiers() {
    check_on(Target::Gfx942, &FILLS, &modified(false));
    check_12(&FILLS, &modified(true));
    let doubles = [
        d(in_mode(FLUSH, "v_add_f64 v[10:11], 2.0, 1.0 mul:4"), |_| {
            12.0
        }),
        d(
            in_mode(DENORMAL, "v_add_f64 v[10:11], 2.0, 1.0 mul:4"),
            |_| 3.0,
        ),
    ];
    check_on(Target::Gfx942, &[Fill::Doubles], &doubles);
    check_12(&[Fill::Doubles], &doubles);
    check_12(
        &FILLS,
        &[s(in_mode(DENORMAL, "v_s_sqrt_f32 s24, 4.0 mul:4"), |_| {
            (2f32.to_bits(), None)
        })],
    );
}

/// Dot products of floats have their own modes.
#[test]
fn dot_products() {
    let values = |a: u32, b: u32, c: u32, text: &str| -> &'static str {
        format!("v_mov_b32 v1, {a:#x}\n v_mov_b32 v2, {b:#x}\n v_mov_b32 v3, {c:#x}\n {text}")
            .leak()
    };
    // gfx942 flushes denormal operands.
    let dot = "v_dot2_f32_f16 v10, v1, v2, v3";
    check_on(
        Target::Gfx942,
        &FILLS,
        &[
            f(values(0x0001_3c00, 0x7bff_3c00, 0, dot), |_| 1.0),
            f(values(0x3c00_3c00, 0x83ff_4000, 0, dot), |_| 2.0),
            f(values(0, 0, 0x7f_ffff, dot), |_| 0.0),
            f(values(0, 0, 0x80_0000, dot), |_| f32::MIN_POSITIVE),
            f(
                values(
                    0x0001_3c00,
                    0x7bff_3c00,
                    1,
                    "v_mov_b32 v10, v3\n v_dot2c_f32_f16 v10, v1, v2",
                ),
                |_| 1.0,
            ),
        ],
    );
    // Of f16 it is to nearest with denormals, of bf16 without them.
    let halves = "s_setreg_imm32_b32 hwreg(1, 0, 8), 5\n v_dot2_f16_f16 v10, v1, v2, v3";
    let bf16 = "v_dot2_bf16_bf16 v10, v1, v2, v3";
    check_12(
        &FILLS,
        &[
            w(values(0x3c00, 0x3c00, 1, halves), |l| 0x3c00 | l.rest()),
            w(values(1, 0x3c00, 0, halves), |l| 1 | l.rest()),
            w(values(0, 0, 0x3ff, halves), |l| 0x3ff | l.rest()),
            w(values(0x3f80, 1, 0, bf16), |l| l.rest()),
            w(values(0, 0, 1, bf16), |l| l.rest()),
            w(values(0x80, 0x3f00, 0, bf16), |l| l.rest()),
            w(values(0x80, 0x3f80, 0, bf16), |l| 0x80 | l.rest()),
        ],
    );
}

/// These instructions of gfx1201 flush denormals in any mode.
#[test]
fn special_functions_flush() {
    check_12(
        &FILLS,
        &[
            f("v_mov_b32 v1, 0x7f000000\n v_rcp_f32 v10, v1", |_| 0.0),
            f("v_mov_b32 v1, 0x807fffff\n v_rcp_f32 v10, v1", |_| {
                f32::NEG_INFINITY
            }),
            f("v_mov_b32 v1, 0x7fffff\n v_sqrt_f32 v10, v1", |_| 0.0),
            f("v_mov_b32 v1, 0xc2fe0000\n v_exp_f32 v10, v1", |_| 0.0),
            f("v_mov_b32 v1, 1\n v_log_f32 v10, v1", |_| f32::NEG_INFINITY),
            f(
                "v_mov_b32 v1, 0x7fffff\n v_fma_dx9_zero_f32 v10, 1.0, v1, 0",
                |_| 0.0,
            ),
        ],
    );
}
