// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VOP3P and dot products.

use super::small::{half, wide};
use crate::common::bench::{case, check, f, q, w, Case, Fill, Lane};

/// Expects f16 in both halves of v10.
fn hh(asm: &'static str, x: impl Fn(Lane<'_>) -> [f64; 2] + 'static) -> Case {
    case(asm, move |before, after| {
        for n in 0..64 {
            let want = x(before.lane(n)).map(half);
            let got = [after.v[10][n] & 0xffff, after.v[10][n] >> 16];
            for k in 0..2 {
                let nan = |h: u32| h & 0x7fff > 0x7c00;
                if got[k] != want[k] && !(nan(got[k]) && nan(want[k])) {
                    return Err(format!("lane {n}: got {got:x?}, expected {want:x?}"));
                }
            }
        }
        Ok(())
    })
}

#[test]
fn floats() {
    let lo = |l: &Lane<'_>, n| wide(l.lo(n));
    let hi = |l: &Lane<'_>, n| wide(l.hi(n));
    check(
        &[Fill::Halves; 4],
        &[
            hh("v_pk_add_f16 v10, v1, v2", move |l| {
                [lo(&l, 1) + lo(&l, 2), hi(&l, 1) + hi(&l, 2)]
            }),
            hh("v_pk_mul_f16 v10, v1, v2", move |l| {
                [lo(&l, 1) * lo(&l, 2), hi(&l, 1) * hi(&l, 2)]
            }),
            hh(
                "v_pk_mul_f16 v10, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]",
                move |l| [hi(&l, 1) * lo(&l, 2), lo(&l, 1) * hi(&l, 2)],
            ),
            hh(
                "v_pk_add_f16 v10, v1, v2 neg_lo:[1,0] neg_hi:[0,1]",
                move |l| [-lo(&l, 1) + lo(&l, 2), hi(&l, 1) - hi(&l, 2)],
            ),
            hh("v_pk_add_f16 v10, v1, 1.0 op_sel_hi:[1,0]", move |l| {
                [lo(&l, 1) + 1.0, hi(&l, 1) + 1.0]
            }),
            hh(
                "v_pk_fma_f16 v10, v1, 1.0, v2 op_sel_hi:[1,0,1]",
                move |l| [lo(&l, 1) + lo(&l, 2), hi(&l, 1) + hi(&l, 2)],
            ),
            f(
                "v_fma_mix_f32 v10, v1, v2, v3 op_sel:[0,1,0] op_sel_hi:[1,1,0]",
                |l| (wide(l.lo(1)) as f32).mul_add(wide(l.hi(2)) as f32, l.f(3)),
            ),
            f("v_fma_mix_f32 v10, -v1, |v2|, v3", |l| {
                (-l.f(1)).mul_add(l.f(2).abs(), l.f(3))
            }),
        ],
    );
    check(
        &[Fill::Floats; 4],
        &[
            case(
                "v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7]",
                |before, after| {
                    for n in 0..64 {
                        let l = before.lane(n);
                        for k in 0..2 {
                            let want = l.f(2 + k).mul_add(l.f(4 + k), l.f(6 + k));
                            let got = f32::from_bits(after.v[10 + k][n]);
                            if got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan()) {
                                return Err(format!("lane {n}: {got} {want}"));
                            }
                        }
                    }
                    Ok(())
                },
            ),
            case(
                "v_pk_add_f32 v[10:11], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,0]",
                |before, after| {
                    for n in 0..64 {
                        let l = before.lane(n);
                        let want = [l.f(3) + l.f(4), l.f(2) + l.f(4)];
                        for k in 0..2 {
                            let got = f32::from_bits(after.v[10 + k][n]);
                            if got != want[k] && !(got.is_nan() && want[k].is_nan()) {
                                return Err(format!("lane {n}: {got} {want:?}"));
                            }
                        }
                    }
                    Ok(())
                },
            ),
            q("v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]", |l| {
                u64::from(l.u(3)) | u64::from(l.u(4)) << 32
            }),
        ],
    );
}

fn pair(low: u32, high: u32) -> u32 {
    low & 0xffff | high << 16
}

fn i(v: u32) -> i64 {
    i64::from(v as u16 as i16)
}

#[test]
fn integers() {
    let sat = |v: i64| v.clamp(-32768, 32767) as u32;
    check(
        &[Fill::Bits; 4],
        &[
            w("v_pk_add_u16 v10, v1, v2", |l| {
                pair(l.lo(1) + l.lo(2), l.hi(1) + l.hi(2))
            }),
            w("v_pk_add_u16 v10, v1, v2 clamp", |l| {
                pair(
                    (l.lo(1) + l.lo(2)).min(65535),
                    (l.hi(1) + l.hi(2)).min(65535),
                )
            }),
            w("v_pk_sub_u16 v10, v1, v2", |l| {
                pair(l.lo(1).wrapping_sub(l.lo(2)), l.hi(1).wrapping_sub(l.hi(2)))
            }),
            w("v_pk_add_i16 v10, v1, v2", |l| {
                pair(l.lo(1) + l.lo(2), l.hi(1) + l.hi(2))
            }),
            w("v_pk_add_i16 v10, v1, v2 clamp", move |l| {
                pair(sat(i(l.lo(1)) + i(l.lo(2))), sat(i(l.hi(1)) + i(l.hi(2))))
            }),
            w("v_pk_sub_i16 v10, v1, v2 clamp", move |l| {
                pair(sat(i(l.lo(1)) - i(l.lo(2))), sat(i(l.hi(1)) - i(l.hi(2))))
            }),
            w("v_pk_mul_lo_u16 v10, v1, v2", |l| {
                pair(l.lo(1) * l.lo(2), l.hi(1) * l.hi(2))
            }),
            w("v_pk_mad_u16 v10, v1, v2, v3", |l| {
                pair(
                    (l.lo(1) * l.lo(2)).wrapping_add(l.lo(3)),
                    (l.hi(1) * l.hi(2)).wrapping_add(l.hi(3)),
                )
            }),
            w("v_pk_mad_i16 v10, v1, v2, v3 clamp", move |l| {
                pair(
                    sat(i(l.lo(1)) * i(l.lo(2)) + i(l.lo(3))),
                    sat(i(l.hi(1)) * i(l.hi(2)) + i(l.hi(3))),
                )
            }),
            w("v_pk_lshlrev_b16 v10, v1, v2", |l| {
                pair(l.lo(2) << (l.lo(1) % 16), l.hi(2) << (l.hi(1) % 16))
            }),
            w("v_pk_lshrrev_b16 v10, v1, v2", |l| {
                pair(l.lo(2) >> (l.lo(1) % 16), l.hi(2) >> (l.hi(1) % 16))
            }),
            w("v_pk_ashrrev_i16 v10, 3, v2 op_sel_hi:[0,1]", |l| {
                pair((i(l.lo(2)) >> 3) as u32, (i(l.hi(2)) >> 3) as u32)
            }),
            w("v_pk_max_i16 v10, v1, v2", |l| {
                pair(
                    i(l.lo(1)).max(i(l.lo(2))) as u32,
                    i(l.hi(1)).max(i(l.hi(2))) as u32,
                )
            }),
            w("v_pk_min_i16 v10, v1, v2", |l| {
                pair(
                    i(l.lo(1)).min(i(l.lo(2))) as u32,
                    i(l.hi(1)).min(i(l.hi(2))) as u32,
                )
            }),
            w("v_pk_max_u16 v10, v1, v2", |l| {
                pair(l.lo(1).max(l.lo(2)), l.hi(1).max(l.hi(2)))
            }),
            w("v_pk_min_u16 v10, v1, v2", |l| {
                pair(l.lo(1).min(l.lo(2)), l.hi(1).min(l.hi(2)))
            }),
        ],
    );
}

/// An inline float is an f32 for packed integers: 1.0 has the halves 0 and 0x3f80.
#[test]
fn float_constants_of_integers() {
    check(
        &[Fill::Bits; 4],
        &[
            w("v_pk_add_u16 v10, v1, 1.0", |l| {
                pair(l.lo(1), l.hi(1) + 0x3f80)
            }),
            w("v_pk_add_u16 v10, v1, 1.0 op_sel_hi:[1,0]", |l| l.u(1)),
            w("v_pk_add_u16 v10, v1, 0x3e22f983 op_sel_hi:[1,0]", |l| {
                pair(l.lo(1) + 0xf983, l.hi(1) + 0xf983)
            }),
            w("v_pk_max_i16 v10, 1.0, v1", |l| {
                pair(i(l.lo(1)).max(0) as u32, i(l.hi(1)).max(0x3f80) as u32)
            }),
            w(
                "v_pk_max_i16 v10, 1.0, v1 op_sel:[1,0] op_sel_hi:[0,1]",
                |l| pair(i(l.lo(1)).max(0x3f80) as u32, i(l.hi(1)).max(0) as u32),
            ),
            // LLVM has no `op_sel` here.
            w("v_dot2_i32_i16 v10, v1, 1.0, v3", |l| {
                (i(l.hi(1)) * 0x3f80 + i64::from(l.i(3))) as u32
            }),
            w("v_dot2c_i32_i16 v10, 1.0, v1", |l| {
                (i(l.hi(1)) * 0x3f80 + i64::from(l.i(10))) as u32
            }),
        ],
    );
}

#[test]
fn dot_products() {
    let bytes = |v: u32| v.to_le_bytes();
    let nibble = |v: u32, n: u32| v >> (4 * n) & 15;
    let signed = |v: u32| i64::from(v) - if v > 7 { 16 } else { 0 };
    let dot4 = move |l: &Lane<'_>, c: i32| {
        let (a, b) = (bytes(l.u(1)), bytes(l.u(2)));
        (0..4)
            .map(|n| i64::from(a[n] as i8) * i64::from(b[n] as i8))
            .sum::<i64>()
            + i64::from(c)
    };
    let dot2 =
        |l: &Lane<'_>, c: i32| i(l.lo(1)) * i(l.lo(2)) + i(l.hi(1)) * i(l.hi(2)) + i64::from(c);
    check(
        &[Fill::Bits; 4],
        &[
            w("v_dot2_i32_i16 v10, v1, v2, v3", move |l| {
                dot2(&l, l.i(3)) as u32
            }),
            w("v_dot2_u32_u16 v10, v1, v2, v3", |l| {
                let p = u64::from(l.lo(1)) * u64::from(l.lo(2));
                (p + u64::from(l.hi(1)) * u64::from(l.hi(2)) + u64::from(l.u(3))) as u32
            }),
            w("v_dot4_i32_i8 v10, v1, v2, v3", move |l| {
                dot4(&l, l.i(3)) as u32
            }),
            w("v_dot4_i32_i8 v10, v1, v2, v3 clamp", move |l| {
                dot4(&l, l.i(3)).clamp(i32::MIN.into(), i32::MAX.into()) as u32
            }),
            w("v_dot4_u32_u8 v10, v1, v2, v3", move |l| {
                let (a, b) = (bytes(l.u(1)), bytes(l.u(2)));
                let sum: u32 = (0..4).map(|n| u32::from(a[n]) * u32::from(b[n])).sum();
                sum.wrapping_add(l.u(3))
            }),
            w("v_dot8_i32_i4 v10, v1, v2, v3", move |l| {
                let part = |n| signed(nibble(l.u(1), n)) * signed(nibble(l.u(2), n));
                ((0..8).map(part).sum::<i64>() + i64::from(l.i(3))) as u32
            }),
            w("v_dot8_u32_u4 v10, v1, v2, v3", move |l| {
                let part = |n| nibble(l.u(1), n) * nibble(l.u(2), n);
                (0..8).map(part).sum::<u32>().wrapping_add(l.u(3))
            }),
            w("v_dot2c_i32_i16 v10, v1, v2", move |l| {
                dot2(&l, l.i(10)) as u32
            }),
            w("v_dot4c_i32_i8 v10, v1, v2", move |l| {
                dot4(&l, l.i(10)) as u32
            }),
        ],
    );
    // Small integers as f16: exact in any order of summation.
    let prepare = |text: &str| -> &'static str {
        format!(
            "v_and_b32 v1, 0x000f000f, v1\n v_and_b32 v2, 0x000f000f, v2\n v_and_b32 v3, 15, v3\n\
             v_cvt_f16_u16 v4, v1\n v_lshrrev_b32 v1, 16, v1\n v_cvt_f16_u16 v1, v1\n\
             v_pack_b32_f16 v1, v4, v1\n v_cvt_f16_u16 v4, v2\n v_lshrrev_b32 v2, 16, v2\n\
             v_cvt_f16_u16 v2, v2\n v_pack_b32_f16 v2, v4, v2\n v_cvt_f32_u32 v3, v3\n\
             v_mov_b32 v10, 4.0\n {text}"
        )
        .leak()
    };
    let small =
        |l: &Lane<'_>| ((l.lo(1) & 15) * (l.lo(2) & 15) + (l.hi(1) & 15) * (l.hi(2) & 15)) as f32;
    check(
        &[Fill::Bits; 2],
        &[
            f(prepare("v_dot2_f32_f16 v10, v1, v2, v3"), move |l| {
                small(&l) + (l.u(3) & 15) as f32
            }),
            f(prepare("v_dot2c_f32_f16 v10, v1, v2"), move |l| {
                small(&l) + 4.0
            }),
        ],
    );
}
