// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector f32, and conversions to and from it.

use crate::common::bench::{case, check, f, near, vcc, w, Fill, Lane};

const FILLS: [Fill; 4] = [Fill::Floats; 4];

/// Minimum or maximum with MODE.IEEE.
fn pick(a: f32, b: f32, max: bool) -> f32 {
    let signalling = |x: f32| x.is_nan() && x.to_bits() >> 22 & 1 == 0;
    if signalling(a) || signalling(b) {
        return f32::NAN;
    }
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == 0.0 && b == 0.0 => {
            let negative = if max {
                a.is_sign_negative() && b.is_sign_negative()
            } else {
                a.is_sign_negative() || b.is_sign_negative()
            };
            if negative {
                -0.0
            } else {
                0.0
            }
        }
        _ if (a < b) == max => b,
        _ => a,
    }
}

fn clamp(x: f32) -> f32 {
    if x > 1.0 {
        1.0
    } else if x > 0.0 {
        x
    } else {
        0.0
    }
}

#[test]
fn arithmetic() {
    check(
        &FILLS,
        &[
            f("v_add_f32 v10, v1, v2", |l| l.f(1) + l.f(2)),
            f("v_sub_f32 v10, v1, v2", |l| l.f(1) - l.f(2)),
            f("v_subrev_f32 v10, v1, v2", |l| l.f(2) - l.f(1)),
            f("v_mul_f32 v10, v1, v2", |l| l.f(1) * l.f(2)),
            f("v_add_f32 v10, -v1, |v2|", |l| -l.f(1) + l.f(2).abs()),
            f("v_mul_f32 v10, -|v1|, v2", |l| -l.f(1).abs() * l.f(2)),
            f("v_add_f32 v10, 1.0, v2", |l| 1.0 + l.f(2)),
            f("v_add_f32 v10, 0x40490fdb, v2", |l| {
                std::f32::consts::PI + l.f(2)
            }),
            f("v_mul_f32 v10, 0.15915494, v2", |l| {
                f32::from_bits(0x3e22_f983) * l.f(2)
            }),
            f("v_mul_f32 v10, 3, v2", |l| f32::from_bits(3) * l.f(2)),
            f("v_add_f32 v10, s16, v2", |l| {
                f32::from_bits(l.state.s[16]) + l.f(2)
            }),
            f("v_add_f32 v10, v1, v2 clamp", |l| clamp(l.f(1) + l.f(2))),
            f("v_mul_f32 v10, v1, v2 clamp", |l| clamp(l.f(1) * l.f(2))),
            f("v_mul_legacy_f32 v10, v1, v2", |l| {
                if l.f(1) == 0.0 || l.f(2) == 0.0 {
                    0.0
                } else {
                    l.f(1) * l.f(2)
                }
            }),
            f("v_fma_f32 v10, v1, v2, v3", |l| {
                l.f(1).mul_add(l.f(2), l.f(3))
            }),
            f("v_fma_f32 v10, -v1, v2, |v3|", |l| {
                (-l.f(1)).mul_add(l.f(2), l.f(3).abs())
            }),
            f("v_fmac_f32 v10, v1, v2", |l| {
                l.f(1).mul_add(l.f(2), l.f(10))
            }),
            f("v_fmamk_f32 v10, v1, 0x40490fdb, v2", |l| {
                l.f(1).mul_add(std::f32::consts::PI, l.f(2))
            }),
            f("v_fmaak_f32 v10, v1, v2, 0x40490fdb", |l| {
                l.f(1).mul_add(l.f(2), std::f32::consts::PI)
            }),
            f("v_min_f32 v10, v1, v2", |l| pick(l.f(1), l.f(2), false)),
            f("v_max_f32 v10, v1, v2", |l| pick(l.f(1), l.f(2), true)),
            f("v_min3_f32 v10, v1, v2, v3", |l| {
                pick(pick(l.f(1), l.f(2), false), l.f(3), false)
            }),
            f("v_max3_f32 v10, v1, v2, v3", |l| {
                pick(pick(l.f(1), l.f(2), true), l.f(3), true)
            }),
            f("v_med3_f32 v10, v1, v2, v3", |l| {
                let mut v = [1, 2, 3].map(|n| l.f(n));
                if v.iter().any(|x| x.is_nan()) {
                    return pick(pick(v[0], v[1], false), v[2], false);
                }
                v.sort_by(f32::total_cmp);
                v[1]
            }),
        ],
    );
}

fn fraction(x: f32) -> f32 {
    if x.is_infinite() {
        return f32::NAN;
    }
    let r = (f64::from(x) - f64::from(x).floor()) as f32;
    if r >= 1.0 {
        f32::from_bits(0x3f7f_ffff)
    } else {
        r
    }
}

/// Returns exponent `e` with x = m * 2^e, 0.5 <= |m| < 1, by search.
fn exponent(x: f64) -> i32 {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    (-1100..=1100)
        .find(|&e| x.abs() * 2f64.powi(-e / 2) * 2f64.powi(-e + e / 2) < 1.0)
        .unwrap()
}

#[test]
fn rounding_and_parts() {
    check(
        &FILLS,
        &[
            f("v_trunc_f32 v10, v1", |l| l.f(1).trunc()),
            f("v_ceil_f32 v10, v1", |l| l.f(1).ceil()),
            f("v_floor_f32 v10, v1", |l| l.f(1).floor()),
            f("v_rndne_f32 v10, v1", |l| l.f(1).round_ties_even()),
            f("v_fract_f32 v10, v1", |l| fraction(l.f(1))),
            w("v_frexp_exp_i32_f32 v10, v1", |l| {
                exponent(f64::from(l.f(1))) as u32
            }),
            f("v_frexp_mant_f32 v10, v1", |l| {
                let x = f64::from(l.f(1));
                if x == 0.0 || !x.is_finite() {
                    l.f(1)
                } else {
                    (x * 2f64.powi(-exponent(x))) as f32
                }
            }),
            f(
                "v_and_b32 v2, 15, v2\n v_sub_u32 v2, v2, 7\n v_ldexp_f32 v10, v1, v2",
                |l| (f64::from(l.f(1)) * 2f64.powi((l.u(2) & 15) as i32 - 7)) as f32,
            ),
            f("v_mov_b32 v2, 0xffffff6b\n v_ldexp_f32 v10, v1, v2", |l| {
                (f64::from(l.f(1)) * 2f64.powi(-149)) as f32
            }),
        ],
    );
}

fn no_denormal(x: f32) -> f64 {
    if x.is_subnormal() {
        0f64.copysign(x.into())
    } else {
        x.into()
    }
}

#[test]
fn special_functions() {
    let turn = std::f64::consts::TAU;
    let beyond = |x: f64| x.is_finite() && x.abs() > 256.0;
    check(
        &FILLS,
        &[
            near("v_rcp_f32 v10, v1", |l| 1.0 / no_denormal(l.f(1))),
            near("v_rcp_iflag_f32 v10, v1", |l| 1.0 / no_denormal(l.f(1))),
            near("v_rsq_f32 v10, v1", |l| 1.0 / no_denormal(l.f(1)).sqrt()),
            near("v_sqrt_f32 v10, v1", |l| no_denormal(l.f(1)).sqrt()),
            near("v_exp_f32 v10, v1", |l| no_denormal(l.f(1)).exp2()),
            near("v_log_f32 v10, v1", |l| no_denormal(l.f(1)).log2()),
            near("v_sin_f32 v10, v1", move |l| {
                let x = no_denormal(l.f(1));
                if beyond(x) {
                    0.0
                } else {
                    (x * turn).sin()
                }
            }),
            near("v_cos_f32 v10, v1", move |l| {
                let x = no_denormal(l.f(1));
                if beyond(x) {
                    1.0
                } else {
                    (x * turn).cos()
                }
            }),
        ],
    );
}

#[test]
fn conversions() {
    check(
        &FILLS,
        &[
            w("v_cvt_u32_f32 v10, v1", |l| {
                let x = f64::from(l.f(1));
                if x.is_nan() {
                    0
                } else {
                    x.trunc().clamp(0.0, 4294967295.0) as u64 as u32
                }
            }),
            w("v_cvt_i32_f32 v10, v1", |l| {
                let x = f64::from(l.f(1));
                if x.is_nan() {
                    0
                } else {
                    x.trunc().clamp(-2147483648.0, 2147483647.0) as i64 as u32
                }
            }),
            w("v_cvt_flr_i32_f32 v10, v1", |l| {
                l.f(1).floor() as i32 as u32
            }),
            w("v_cvt_rpi_i32_f32 v10, v1", |l| {
                (f64::from(l.f(1)) + 0.5).floor() as i32 as u32
            }),
            w("v_cvt_pknorm_i16_f32 v10, v1, v2", |l| {
                let norm = |x: f32| {
                    let x = f64::from(x).clamp(-1.0, 1.0) * 32767.0;
                    if x.is_nan() {
                        0
                    } else {
                        x.round_ties_even() as i32 as u32 & 0xffff
                    }
                };
                norm(l.f(1)) | norm(l.f(2)) << 16
            }),
            w("v_cvt_pknorm_u16_f32 v10, v1, v2", |l| {
                let norm = |x: f32| {
                    let x = f64::from(x).clamp(0.0, 1.0) * 65535.0;
                    if x.is_nan() {
                        0
                    } else {
                        x.round_ties_even() as u32
                    }
                };
                norm(l.f(1)) | norm(l.f(2)) << 16
            }),
        ],
    );
    check(
        &[Fill::Bits; 3],
        &[
            f("v_cvt_f32_i32 v10, v1", |l| l.i(1) as f32),
            f("v_cvt_f32_u32 v10, v1", |l| l.u(1) as f32),
            f("v_cvt_f32_ubyte0 v10, v1", |l| (l.u(1) % 256) as f32),
            f("v_cvt_f32_ubyte1 v10, v1", |l| (l.u(1) / 256 % 256) as f32),
            f("v_cvt_f32_ubyte2 v10, v1", |l| {
                (l.u(1) / 65536 % 256) as f32
            }),
            f("v_cvt_f32_ubyte3 v10, v1", |l| (l.u(1) / 16777216) as f32),
            f("v_cvt_off_f32_i4 v10, v1", |l| {
                [
                    0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.,
                ][(l.u(1) % 16) as usize]
                    / 16.0
            }),
        ],
    );
}

#[test]
fn division() {
    // The code that compilers emit for an IEEE division.
    let text = "v_div_scale_f32 v3, s[20:21], v2, v2, v1\n v_rcp_f32 v4, v3\n\
                v_fma_f32 v5, -v3, v4, 1.0\n v_fmac_f32 v4, v5, v4\n\
                v_div_scale_f32 v5, vcc, v1, v2, v1\n v_mul_f32 v6, v5, v4\n\
                v_fma_f32 v7, -v3, v6, v5\n v_fmac_f32 v6, v7, v4\n v_fma_f32 v3, -v3, v6, v5\n\
                v_div_fmas_f32 v3, v3, v4, v6\n v_div_fixup_f32 v10, v3, v2, v1";
    check(&[Fill::Floats; 12], &[f(text, |l| l.f(1) / l.f(2))]);
    check(&[Fill::Bits; 40], &[f(text, |l| l.f(1) / l.f(2))]);
}

#[test]
fn comparisons() {
    let names = [
        "f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq",
        "nlt", "tru",
    ];
    let rel = |r: usize, a: f32, b: f32| -> bool {
        let unordered = a.is_nan() || b.is_nan();
        match r {
            0 => false,
            1 => a < b,
            2 => a == b,
            3 => a <= b,
            4 => a > b,
            5 => a < b || a > b,
            6 => a >= b,
            7 => !unordered,
            8 => unordered,
            9 => !(a >= b),
            10 => !(a < b || a > b),
            11 => !(a > b),
            12 => !(a <= b),
            13 => a != b,
            14 => !(a < b),
            _ => true,
        }
    };
    let mut cases = Vec::new();
    for (r, name) in names.iter().enumerate() {
        let text: &'static str = format!("v_cmp_{name}_f32 vcc, v1, v2").leak();
        cases.push(vcc(text, move |l| rel(r, l.f(1), l.f(2))));
        let text: &'static str = format!("v_cmp_{name}_f32 vcc, -v1, |v1|").leak();
        cases.push(vcc(text, move |l| rel(r, -l.f(1), l.f(1).abs())));
        let text: &'static str = format!("v_cmpx_{name}_f32 vcc, v1, v1").leak();
        cases.push(vcc(text, move |l| rel(r, l.f(1), l.f(1))));
    }
    let class = |l: Lane<'_>| {
        let x = l.f(1);
        let negative = x.is_sign_negative();
        let bit = match x.classify() {
            std::num::FpCategory::Nan => return if l.u(1) >> 22 & 1 == 0 { 1 } else { 2 },
            std::num::FpCategory::Infinite => {
                if negative {
                    2
                } else {
                    9
                }
            }
            std::num::FpCategory::Normal => {
                if negative {
                    3
                } else {
                    8
                }
            }
            std::num::FpCategory::Subnormal => {
                if negative {
                    4
                } else {
                    7
                }
            }
            std::num::FpCategory::Zero => {
                if negative {
                    5
                } else {
                    6
                }
            }
        };
        1u32 << bit
    };
    cases.push(vcc("v_cmp_class_f32 vcc, v1, v2", move |l| {
        class(l) & l.u(2) != 0
    }));
    for bit in 0..10 {
        let text = format!(
            "s_movk_i32 s16, {}\n v_cmp_class_f32 vcc, v1, s16",
            1 << bit
        )
        .leak();
        cases.push(vcc(text, move |l| class(l) == 1 << bit));
    }
    check(&FILLS, &cases);
}

#[test]
fn several_results_at_once() {
    check(
        &FILLS,
        &[case(
            "v_pk_mul_f32 v[10:11], v[2:3], v[4:5]",
            |before, after| {
                for n in 0..64 {
                    let l = before.lane(n);
                    for k in 0..2 {
                        let want = l.f(2 + k) * l.f(4 + k);
                        let got = f32::from_bits(after.v[10 + k][n]);
                        if got != want && !(got.is_nan() && want.is_nan()) {
                            return Err(format!("lane {n}: {got} {want}"));
                        }
                    }
                }
                Ok(())
            },
        )],
    );
}

#[test]
fn cube_maps() {
    // Axis and sign of the face.
    let face = |l: Lane<'_>| {
        let v = [l.f(1), l.f(2), l.f(3)];
        let m = v.map(f32::abs);
        let axis = if m[2] >= m[0] && m[2] >= m[1] {
            2
        } else {
            usize::from(m[1] >= m[0])
        };
        (axis, v[axis] < 0.0, v)
    };
    check(
        &FILLS,
        &[
            f("v_cubeid_f32 v10, v1, v2, v3", move |l| {
                let (axis, negative, _) = face(l);
                (2 * axis) as f32 + f32::from(negative)
            }),
            f("v_cubema_f32 v10, v1, v2, v3", move |l| {
                let (axis, _, v) = face(l);
                2.0 * v[axis]
            }),
            f("v_cubesc_f32 v10, v1, v2, v3", move |l| match face(l) {
                (0, negative, v) => v[2] * if negative { 1.0 } else { -1.0 },
                (1, _, v) => v[0],
                (_, negative, v) => v[0] * if negative { -1.0 } else { 1.0 },
            }),
            f("v_cubetc_f32 v10, v1, v2, v3", move |l| match face(l) {
                (1, negative, v) => v[2] * if negative { -1.0 } else { 1.0 },
                (_, _, v) => -v[1],
            }),
        ],
    );
}
