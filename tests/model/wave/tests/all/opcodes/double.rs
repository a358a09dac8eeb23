// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector f64, and conversions to and from it.

use crate::common::bench::{check, d, f, vcc, w, Fill};

const FILLS: [Fill; 4] = [Fill::Doubles; 4];

fn pick(a: f64, b: f64, max: bool) -> f64 {
    let signalling = |x: f64| x.is_nan() && x.to_bits() >> 51 & 1 == 0;
    if signalling(a) || signalling(b) {
        return f64::NAN;
    }
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if max => {
            if a.total_cmp(&b).is_lt() {
                b
            } else {
                a
            }
        }
        _ => {
            if a.total_cmp(&b).is_gt() {
                b
            } else {
                a
            }
        }
    }
}

#[test]
fn arithmetic() {
    check(
        &FILLS,
        &[
            d("v_add_f64 v[10:11], v[2:3], v[4:5]", |l| l.d(2) + l.d(4)),
            d("v_add_f64 v[10:11], -v[2:3], |v[4:5]|", |l| {
                -l.d(2) + l.d(4).abs()
            }),
            d("v_add_f64 v[10:11], v[2:3], 1.0", |l| l.d(2) + 1.0),
            d("v_add_f64 v[10:11], v[2:3], 0.15915494309189532", |l| {
                l.d(2) + f64::from_bits(0x3fc4_5f30_6dc9_c882)
            }),
            d("v_mul_f64 v[10:11], v[2:3], v[4:5]", |l| l.d(2) * l.d(4)),
            d("v_mul_f64 v[10:11], v[2:3], v[4:5] clamp", |l| {
                let x = l.d(2) * l.d(4);
                if x > 0.0 {
                    x.min(1.0)
                } else {
                    0.0
                }
            }),
            d("v_fma_f64 v[10:11], v[2:3], v[4:5], -v[6:7]", |l| {
                l.d(2).mul_add(l.d(4), -l.d(6))
            }),
            d("v_fmac_f64 v[10:11], v[2:3], v[4:5]", |l| {
                l.d(2).mul_add(l.d(4), l.d(10))
            }),
            d("v_min_f64 v[10:11], v[2:3], v[4:5]", |l| {
                pick(l.d(2), l.d(4), false)
            }),
            d("v_max_f64 v[10:11], v[2:3], v[4:5]", |l| {
                pick(l.d(2), l.d(4), true)
            }),
            d("v_trunc_f64 v[10:11], v[2:3]", |l| l.d(2).trunc()),
            d("v_ceil_f64 v[10:11], v[2:3]", |l| l.d(2).ceil()),
            d("v_floor_f64 v[10:11], v[2:3]", |l| l.d(2).floor()),
            d("v_rndne_f64 v[10:11], v[2:3]", |l| l.d(2).round_ties_even()),
            d("v_fract_f64 v[10:11], v[2:3]", |l| {
                let x = l.d(2) - l.d(2).floor();
                if x >= 1.0 {
                    f64::from_bits(0x3fef_ffff_ffff_ffff)
                } else {
                    x
                }
            }),
            d("v_rcp_f64 v[10:11], v[2:3]", |l| 1.0 / l.d(2)),
            d("v_rsq_f64 v[10:11], v[2:3]", |l| 1.0 / l.d(2).sqrt()),
            d("v_sqrt_f64 v[10:11], v[2:3]", |l| l.d(2).sqrt()),
            d(
                "v_and_b32 v4, 0x1f, v4\n v_ldexp_f64 v[10:11], v[2:3], v4",
                |l| l.d(2) * f64::from(1u32 << (l.u(4) & 31)),
            ),
            d(
                "v_mov_b32 v4, 0xfffffc00\n v_ldexp_f64 v[10:11], v[2:3], v4",
                |l| {
                    // Exact except for the last step.
                    l.d(2) * 2f64.powi(-2) * f64::from_bits(1 << 52)
                },
            ),
            d(
                "v_mov_b32 v4, 0x7ff\n v_ldexp_f64 v[10:11], v[2:3], v4",
                |l| l.d(2) * 2f64.powi(1000) * 2f64.powi(1000) * 2f64.powi(47),
            ),
            d("v_frexp_mant_f64 v[10:11], v[2:3]", |l| {
                let x = l.d(2);
                if x == 0.0 || !x.is_finite() {
                    return x;
                }
                let x = if x.is_subnormal() {
                    x * 2f64.powi(100)
                } else {
                    x
                };
                f64::from_bits(x.to_bits() & !(0x7ff << 52) | 0x3fe << 52)
            }),
            w("v_frexp_exp_i32_f64 v10, v[2:3]", |l| {
                let x = l.d(2);
                if x == 0.0 || !x.is_finite() {
                    return 0;
                }
                let (x, by) = if x.is_subnormal() {
                    (x * 2f64.powi(100), 100)
                } else {
                    (x, 0)
                };
                ((x.to_bits() >> 52 & 0x7ff) as i32 - 1022 - by) as u32
            }),
        ],
    );
}

#[test]
fn division() {
    let text = "v_div_scale_f64 v[6:7], s[20:21], v[4:5], v[4:5], v[2:3]\n\
                v_rcp_f64 v[8:9], v[6:7]\n\
                v_fma_f64 v[12:13], -v[6:7], v[8:9], 1.0\n\
                v_fmac_f64 v[8:9], v[8:9], v[12:13]\n\
                v_fma_f64 v[12:13], -v[6:7], v[8:9], 1.0\n\
                v_fmac_f64 v[8:9], v[8:9], v[12:13]\n\
                v_div_scale_f64 v[12:13], vcc, v[2:3], v[4:5], v[2:3]\n\
                v_mul_f64 v[10:11], v[12:13], v[8:9]\n\
                v_fma_f64 v[6:7], -v[6:7], v[10:11], v[12:13]\n\
                s_nop 1\n\
                v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[10:11]\n\
                v_div_fixup_f64 v[10:11], v[6:7], v[4:5], v[2:3]";
    check(&[Fill::Doubles; 12], &[d(text, |l| l.d(2) / l.d(4))]);
}

#[test]
fn conversions() {
    check(
        &FILLS,
        &[
            w("v_cvt_i32_f64 v10, v[2:3]", |l| l.d(2) as i32 as u32),
            w("v_cvt_u32_f64 v10, v[2:3]", |l| l.d(2) as u32),
            f("v_cvt_f32_f64 v10, v[2:3]", |l| l.d(2) as f32),
            d("v_cvt_f64_i32 v[10:11], v1", |l| f64::from(l.i(1))),
            d("v_cvt_f64_u32 v[10:11], v1", |l| f64::from(l.u(1))),
            d("v_cvt_f64_f32 v[10:11], v1", |l| f64::from(l.f(1))),
        ],
    );
}

#[test]
fn comparisons() {
    check(
        &FILLS,
        &[
            vcc("v_cmp_lt_f64 vcc, v[2:3], v[4:5]", |l| l.d(2) < l.d(4)),
            vcc("v_cmp_eq_f64 vcc, v[2:3], v[2:3]", |l| !l.d(2).is_nan()),
            vcc("v_cmp_ge_f64 vcc, v[2:3], v[4:5]", |l| l.d(2) >= l.d(4)),
            vcc("v_cmp_u_f64 vcc, v[2:3], v[4:5]", |l| {
                l.d(2).is_nan() || l.d(4).is_nan()
            }),
            vcc("v_cmp_nlt_f64 vcc, v[2:3], -v[4:5]", |l| {
                !(l.d(2) < -l.d(4))
            }),
            vcc("v_cmp_lg_f64 vcc, v[2:3], v[4:5]", |l| {
                l.d(2) < l.d(4) || l.d(2) > l.d(4)
            }),
            vcc(
                "s_movk_i32 s16, 0x204\n v_cmp_class_f64 vcc, v[2:3], s16",
                |l| l.d(2).is_infinite(),
            ),
            vcc(
                "s_movk_i32 s16, 0x3\n v_cmp_class_f64 vcc, v[2:3], s16",
                |l| l.d(2).is_nan(),
            ),
            vcc(
                "s_movk_i32 s16, 0x90\n v_cmp_class_f64 vcc, v[2:3], s16",
                |l| l.d(2).is_subnormal(),
            ),
        ],
    );
}

/// Returns the fraction bits of 2 / pi, computed independently of the table by Machin's formula for
/// pi in integers of 32-bit digits.
fn two_by_pi() -> Vec<bool> {
    const DIGITS: usize = 80;
    type Big = Vec<u32>;
    // Digit 0 is the integer part, the others the fraction.
    let divide = |x: &Big, by: u64| -> Big {
        let mut rest = 0u64;
        let digit = |&d: &u32| {
            let all = rest << 32 | u64::from(d);
            rest = all % by;
            (all / by) as u32
        };
        x.iter().map(digit).collect()
    };
    let combine = |x: &mut Big, y: &Big, subtract: bool| {
        let mut carry = 0i64;
        for (a, &b) in x.iter_mut().zip(y).rev() {
            let b = if subtract {
                -i64::from(b)
            } else {
                i64::from(b)
            };
            let sum = i64::from(*a) + b + carry;
            *a = sum as u32;
            carry = sum >> 32;
        }
    };
    let arctangent_of_one_by = |n: u64, times: u32| -> Big {
        let mut term = vec![0; DIGITS];
        term[0] = times;
        term = divide(&term, n);
        let mut sum = term.clone();
        for k in 1..1200u64 {
            term = divide(&term, n * n);
            combine(&mut sum, &divide(&term, 2 * k + 1), k % 2 == 1);
        }
        sum
    };
    let mut pi = arctangent_of_one_by(5, 16);
    combine(&mut pi, &arctangent_of_one_by(239, 4), true);
    // Long division of 2 by pi, bit by bit.
    let mut rest = vec![0; DIGITS];
    rest[0] = 2;
    (0..1200)
        .map(|_| {
            let twice = rest.clone();
            combine(&mut rest, &twice, false);
            let fits = rest >= pi;
            if fits {
                combine(&mut rest, &pi, true);
            }
            fits
        })
        .collect()
}

#[test]
fn range_reduction() {
    let bits = std::sync::Arc::new(two_by_pi());
    let expected = move |x: f64, segment: u32| {
        let exponent = (x.to_bits() >> 52 & 0x7ff) as i32;
        let shift = 53 * (segment & 31) as i32 + (exponent - 1077).max(0);
        let up = if exponent >= 1968 { 128 } else { 0 };
        let window = bits.iter().enumerate().skip(shift as usize).take(53);
        let ones = window.filter(|(_, &one)| one);
        ones.fold(0.0, |sum, (n, _)| sum + 2f64.powi(up - 1 - n as i32))
    };
    let case = |asm: &'static str, segment: u32| {
        let expected = expected.clone();
        d(asm, move |l| expected(l.d(2), segment))
    };
    check(
        &FILLS,
        &[
            case("v_trig_preop_f64 v[10:11], v[2:3], 0", 0),
            case("v_trig_preop_f64 v[10:11], |v[2:3]|, 1", 1),
            case("v_trig_preop_f64 v[10:11], v[2:3], 2", 2),
            case("v_trig_preop_f64 v[10:11], v[2:3], 7", 7),
        ],
    );
}
