// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Instructions specific to gfx1201: scalar floats, NaN-propagating minimum and maximum, register
//! halves, DPP8 and row permutes, VOPD, dot products, OCP 8-bit floats.

use super::small::{half, wide};
use crate::common::bench::{
    case, check_12, check_on, f, q, s, s64, vcc, w, Case, Fill, Lane, State,
};
use crate::common::llvm::Target;

const BITS: [Fill; 4] = [Fill::Bits; 4];
const FLOATS: [Fill; 4] = [Fill::Floats; 4];
const HALVES: [Fill; 4] = [Fill::Halves; 4];

fn x(st: &State, n: usize) -> f32 {
    f32::from_bits(st.s[n])
}

/// Expects the f32 `f` in s24; any NaN for a NaN.
fn sf(asm: &'static str, f: impl Fn(&State) -> f32 + 'static) -> Case {
    case(asm, move |before, after| {
        let (want, got) = (f(before), f32::from_bits(after.s[24]));
        if want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan()) {
            return Ok(());
        }
        let (a, b) = (x(before, 16), x(before, 17));
        Err(format!(
            "got {got:e}, expected {want:e}; s16 {a:e} s17 {b:e}"
        ))
    })
}

/// `minimum` and `maximum`: NaN propagates, -0 is less than +0.
fn extreme(a: f32, b: f32, max: bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        return f32::NAN;
    }
    let mut v = [a, b];
    v.sort_by(f32::total_cmp);
    v[usize::from(max)]
}

/// `minimumNumber` and `maximumNumber`: a number takes precedence over NaN.
fn number(a: f32, b: f32, max: bool) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => extreme(a, b, max),
    }
}

#[test]
fn scalar_floats() {
    check_12(
        &FLOATS,
        &[
            sf("s_add_f32 s24, s16, s17", |l| x(l, 16) + x(l, 17)),
            sf("s_sub_f32 s24, s16, s17", |l| x(l, 16) - x(l, 17)),
            sf("s_mul_f32 s24, s16, s17", |l| x(l, 16) * x(l, 17)),
            sf("s_add_f32 s24, s16, 0.5", |l| x(l, 16) + 0.5),
            sf("s_add_f32 s24, s16, 0x40490fdb", |l| {
                x(l, 16) + std::f32::consts::PI
            }),
            sf("s_fmac_f32 s24, s16, s17", |l| {
                x(l, 16).mul_add(x(l, 17), x(l, 24))
            }),
            sf("s_fmaak_f32 s24, s16, s17, 0x40490fdb", |l| {
                x(l, 16).mul_add(x(l, 17), std::f32::consts::PI)
            }),
            sf("s_fmamk_f32 s24, s16, 0x40490fdb, s17", |l| {
                x(l, 16).mul_add(std::f32::consts::PI, x(l, 17))
            }),
            sf("s_min_num_f32 s24, s16, s17", |l| {
                number(x(l, 16), x(l, 17), false)
            }),
            sf("s_max_num_f32 s24, s16, s17", |l| {
                number(x(l, 16), x(l, 17), true)
            }),
            sf("s_minimum_f32 s24, s16, s17", |l| {
                extreme(x(l, 16), x(l, 17), false)
            }),
            sf("s_maximum_f32 s24, s16, s17", |l| {
                extreme(x(l, 16), x(l, 17), true)
            }),
            sf("s_ceil_f32 s24, s16", |l| x(l, 16).ceil()),
            sf("s_floor_f32 s24, s16", |l| x(l, 16).floor()),
            sf("s_trunc_f32 s24, s16", |l| x(l, 16).trunc()),
            sf("s_rndne_f32 s24, s16", |l| x(l, 16).round_ties_even()),
            sf("s_cvt_f32_i32 s24, s16", |l| l.s[16] as i32 as f32),
            sf("s_cvt_f32_u32 s24, s16", |l| l.s[16] as f32),
            s("s_cvt_i32_f32 s24, s16", |l| (x(l, 16) as i32 as u32, None)),
            s("s_cvt_u32_f32 s24, s16", |l| (x(l, 16) as u32, None)),
            s("s_cmp_lt_f32 s16, s17", |l| {
                (l.s[24], Some(x(l, 16) < x(l, 17)))
            }),
            s("s_cmp_eq_f32 s16, s17", |l| {
                (l.s[24], Some(x(l, 16) == x(l, 17)))
            }),
            s("s_cmp_lg_f32 s16, s17", |l| {
                (l.s[24], Some(x(l, 16) < x(l, 17) || x(l, 16) > x(l, 17)))
            }),
            s("s_cmp_nge_f32 s16, s17", |l| {
                (l.s[24], Some(!(x(l, 16) >= x(l, 17))))
            }),
            s("s_cmp_neq_f32 s16, s17", |l| {
                (l.s[24], Some(x(l, 16) != x(l, 17)))
            }),
            s("s_cmp_nlt_f32 s16, s17", |l| {
                (l.s[24], Some(!(x(l, 16) < x(l, 17))))
            }),
            s("s_cmp_u_f32 s16, s17", |l| {
                (l.s[24], Some(x(l, 16).is_nan() || x(l, 17).is_nan()))
            }),
            s("s_cmp_o_f32 s16, s17", |l| {
                (l.s[24], Some(!x(l, 16).is_nan() && !x(l, 17).is_nan()))
            }),
        ],
    );
    let n = |l: &State, at: usize| wide(l.s[at] & 0xffff);
    let number = |v: u32| if v & 0x7fff > 0x7c00 { 0x7e00 } else { v };
    let sh = move |asm: &'static str, f: fn(f64, f64, f64) -> f64| {
        case(asm, move |before, after| {
            let want = half(f(n(before, 16), n(before, 17), n(before, 24)));
            let got = after.s[24];
            if number(want & 0x7fff) == number(got & 0x7fff) && (got < 0x1_0000) {
                return Ok(());
            }
            Err(format!("got {got:x}, expected {want:x}"))
        })
    };
    check_12(
        &HALVES,
        &[
            sh("s_add_f16 s24, s16, s17", |a, b, _| a + b),
            sh("s_sub_f16 s24, s16, s17", |a, b, _| a - b),
            sh("s_mul_f16 s24, s16, s17", |a, b, _| a * b),
            sh("s_ceil_f16 s24, s16", |a, _, _| a.ceil()),
            sh("s_floor_f16 s24, s16", |a, _, _| a.floor()),
            sh("s_rndne_f16 s24, s16", |a, _, _| a.round_ties_even()),
            sf("s_cvt_f32_f16 s24, s16", move |l| n(l, 16) as f32),
            sf("s_cvt_hi_f32_f16 s24, s16", |l| wide(l.s[16] >> 16) as f32),
            s("s_cmp_gt_f16 s16, s17", move |l| {
                (l.s[24], Some(n(l, 16) > n(l, 17)))
            }),
        ],
    );
}

#[test]
fn scalar_integers() {
    check_12(
        &BITS,
        &[
            s64("s_add_nc_u64 s[24:25], s[16:17], s[18:19]", |l| {
                (l.s64(16).wrapping_add(l.s64(18)), None)
            }),
            s64("s_sub_nc_u64 s[24:25], s[16:17], s[18:19]", |l| {
                (l.s64(16).wrapping_sub(l.s64(18)), None)
            }),
            s64("s_mul_u64 s[24:25], s[16:17], s[18:19]", |l| {
                (l.s64(16).wrapping_mul(l.s64(18)), None)
            }),
            s("s_pack_hl_b32_b16 s24, s16, s17", |l| {
                (l.s[16] >> 16 | l.s[17] << 16, None)
            }),
            s("s_mov_b32 s24, null", |_| (0, None)),
            s64("s_mov_b64 s[24:25], null", |_| (0, None)),
            s("s_add_co_u32 null, s16, s17\n s_mov_b32 s24, null", |l| {
                (0, Some(l.s[16].checked_add(l.s[17]).is_none()))
            }),
            s("s_mov_b32 m0, s16\n s_add_co_i32 s24, m0, 1", |l| {
                let (r, o) = (l.s[16] as i32).overflowing_add(1);
                (r as u32, Some(o))
            }),
            s("s_and_b32 m0, s16, 7\n s_movrels_b32 s24, s16", |l| {
                (l.s[16 + (l.s[16] & 7) as usize], Some(l.s[16] & 7 != 0))
            }),
        ],
    );
    let exec = |asm: &'static str, f: fn(u32, u32) -> u32, saves: bool| {
        case(asm, move |before, after| {
            let (old, new) = (before.s[17], f(before.s[16], before.s[17]));
            let want = (u64::from(new), if saves { old } else { new }, new != 0);
            let got = (after.exec, after.s[24], after.scc);
            if want != got {
                return Err(format!("got {got:x?}, expected {want:x?}"));
            }
            Ok(())
        })
    };
    let text =
        |op: &str| -> &'static str { format!("s_mov_b32 exec_lo, s17\n {op} s24, s16").leak() };
    check_on(
        Target::Wave32,
        &BITS,
        &[
            exec(text("s_and_saveexec_b32"), |a, e| a & e, true),
            exec(text("s_or_saveexec_b32"), |a, e| a | e, true),
            exec(text("s_xor_saveexec_b32"), |a, e| a ^ e, true),
            exec(text("s_nand_saveexec_b32"), |a, e| !(a & e), true),
            exec(text("s_nor_saveexec_b32"), |a, e| !(a | e), true),
            exec(text("s_xnor_saveexec_b32"), |a, e| !(a ^ e), true),
            exec(text("s_and_not0_saveexec_b32"), |a, e| !a & e, true),
            exec(text("s_or_not0_saveexec_b32"), |a, e| !a | e, true),
            exec(text("s_and_not1_saveexec_b32"), |a, e| a & !e, true),
            exec(text("s_or_not1_saveexec_b32"), |a, e| a | !e, true),
            exec(text("s_and_not0_wrexec_b32"), |a, e| !a & e, false),
            exec(text("s_and_not1_wrexec_b32"), |a, e| a & !e, false),
        ],
    );
}

#[test]
fn masks_of_a_wave32() {
    // The register after a mask is preserved.
    let kept = |before: &State, after: &State| before.s[25] == after.s[25];
    check_on(
        Target::Wave32,
        &BITS,
        &[
            vcc("v_cmp_lt_u32 vcc_lo, v1, v2", |l| l.u(1) < l.u(2)),
            case("v_cmp_lt_u32 s24, v1, v2", move |before, after| {
                let lane = |n: usize| u32::from(before.v[1][n] < before.v[2][n]) << n;
                let want: u32 = (0..32).map(lane).sum();
                if after.s[24] != want || !kept(before, after) {
                    return Err(format!("got {:x}, expected {want:x}", after.s[24]));
                }
                Ok(())
            }),
            case("v_cmpx_lt_u32 v1, v2", |before, after| {
                let lane = |n: usize| u64::from(before.v[1][n] < before.v[2][n]) << n;
                let want: u64 = (0..32).map(lane).sum();
                if after.exec != want || after.vcc != before.vcc & 0xffff_ffff {
                    return Err(format!("got {:x}, expected {want:x}", after.exec));
                }
                Ok(())
            }),
            w("v_cndmask_b32 v10, v1, v2, s17", |l| {
                l.u(if l.state.s[17] >> l.lane & 1 != 0 {
                    2
                } else {
                    1
                })
            }),
            w("v_add_co_ci_u32 v10, vcc_lo, v1, v2, vcc_lo", |l| {
                l.u(1).wrapping_add(l.u(2)).wrapping_add(l.vcc().into())
            }),
            w("v_add_co_u32 v10, null, v1, v2", |l| {
                l.u(1).wrapping_add(l.u(2))
            }),
            q("v_mad_co_u64_u32 v[10:11], null, v1, v2, v[3:4]", |l| {
                (u64::from(l.u(1)) * u64::from(l.u(2))).wrapping_add(l.q(3))
            }),
            s("v_readlane_b32 s24, v1, 35", |l| (l.v[1][3], None)),
        ],
    );
}

#[test]
fn integers() {
    check_12(
        &BITS,
        &[
            w("v_xor3_b32 v10, v1, v2, v3", |l| l.u(1) ^ l.u(2) ^ l.u(3)),
            w("v_maxmin_u32 v10, v1, v2, v3", |l| {
                l.u(1).max(l.u(2)).min(l.u(3))
            }),
            w("v_minmax_u32 v10, v1, v2, v3", |l| {
                l.u(1).min(l.u(2)).max(l.u(3))
            }),
            w("v_maxmin_i32 v10, v1, v2, v3", |l| {
                l.i(1).max(l.i(2)).min(l.i(3)) as u32
            }),
            w("v_minmax_i32 v10, v1, v2, v3", |l| {
                l.i(1).min(l.i(2)).max(l.i(3)) as u32
            }),
            // VOP3 with a literal, and odd register pairs.
            w("v_add3_u32 v10, v1, 0x12345678, v3", |l| {
                l.u(1).wrapping_add(0x1234_5678).wrapping_add(l.u(3))
            }),
            q("v_lshlrev_b64 v[10:11], 3, v[3:4]", |l| l.q(3) << 3),
            w("v_cvt_i32_i16 v10, v1", |l| {
                l.lo(1) as u16 as i16 as i32 as u32
            }),
            w("v_cvt_u32_u16 v10, v1", |l| l.lo(1)),
            w("v_not_b16 v10, v1", |l| {
                l.u(10) & 0xffff_0000 | !l.lo(1) & 0xffff
            }),
            w("v_and_b16 v10, v1, v2", |l| {
                l.u(10) & 0xffff_0000 | l.lo(1) & l.lo(2)
            }),
            w("v_xor_b16 v10, v1, v2", |l| {
                l.u(10) & 0xffff_0000 | l.lo(1) ^ l.lo(2)
            }),
            w("v_mul_lo_u16 v10, v1, v2", |l| {
                l.u(10) & 0xffff_0000 | l.lo(1).wrapping_mul(l.lo(2)) & 0xffff
            }),
            w("v_add_nc_u16 v10, v1, v2 op_sel:[0,1,1]", |l| {
                l.lo(1).wrapping_add(l.hi(2)) << 16 | l.lo(10)
            }),
            w("v_lshlrev_b16 v10, 3, v2", |l| {
                l.u(10) & 0xffff_0000 | l.u(2) << 3 & 0xffff
            }),
            // v_mov_b16 v10.h, v1.l
            w(".long 0x7f143901", |l| l.lo(1) << 16 | l.lo(10)),
            // v_mov_b16 v10.l, v1.h
            w(".long 0x7e143981", |l| l.u(10) & 0xffff_0000 | l.hi(1)),
            // v_swap_b16 v10.h, v1.l
            w(".long 0x7f14cd01", |l| l.lo(1) << 16 | l.lo(10)),
            w("v_dot4_i32_iu8 v10, v1, v2, v3 neg_lo:[1,0,0]", |l| {
                let part = |n: u32| i32::from((l.u(1) >> n) as i8) * (l.u(2) >> n & 0xff) as i32;
                let sum: i32 = [0, 8, 16, 24].map(part).iter().sum();
                (sum as u32).wrapping_add(l.u(3))
            }),
            w("v_dot8_i32_iu4 v10, v1, v2, v3 neg_lo:[0,1,0]", |l| {
                let signed = |n: u32| (l.u(2) << (28 - n)) as i32 >> 28;
                let sum: i32 = (0..8)
                    .map(|n| (l.u(1) >> (4 * n) & 15) as i32 * signed(4 * n))
                    .sum();
                (sum as u32).wrapping_add(l.u(3))
            }),
        ],
    );
}

#[test]
fn dual_issue() {
    let two = |asm: &'static str, first: fn(Lane<'_>) -> u32, second: fn(Lane<'_>) -> u32| {
        case(asm, move |before, after| {
            for n in 0..32 {
                let lane = before.lane(n);
                let want = [first(lane), second(lane)];
                let got = [after.v[10][n], after.v[11][n]];
                if got != want {
                    return Err(format!("lane {n}: got {got:x?}, expected {want:x?}"));
                }
            }
            Ok(())
        })
    };
    check_on(
        Target::Wave32,
        &BITS,
        &[
            two(
                "v_dual_mov_b32 v10, v11 :: v_dual_mov_b32 v11, v10",
                |l| l.u(11),
                |l| l.u(10),
            ),
            two(
                "v_dual_mov_b32 v10, s16 :: v_dual_add_nc_u32 v11, v1, v2",
                |l| l.state.s[16],
                |l| l.u(1).wrapping_add(l.u(2)),
            ),
            two(
                "v_dual_cndmask_b32 v10, v1, v2 :: v_dual_and_b32 v11, 0x12345, v3",
                |l| l.u(if l.vcc() { 2 } else { 1 }),
                |l| 0x12345 & l.u(3),
            ),
            two(
                "v_dual_mov_b32 v10, 7 :: v_dual_lshlrev_b32 v11, 5, v10",
                |_| 7,
                |l| l.u(10) << 5,
            ),
        ],
    );
    check_on(
        Target::Wave32,
        &FLOATS,
        &[
            f(
                "v_dual_fmac_f32 v10, v1, v2 :: v_dual_mov_b32 v11, v4",
                |l| l.f(1).mul_add(l.f(2), l.f(10)),
            ),
            f(
                "v_dual_mul_f32 v11, v1, v2 :: v_dual_fmamk_f32 v10, v3, 0x40490fdb, v4",
                |l| l.f(3).mul_add(std::f32::consts::PI, l.f(4)),
            ),
            f(
                "v_dual_sub_f32 v10, v1, v2 :: v_dual_fmaak_f32 v11, v3, v4, 0x40490fdb",
                |l| l.f(1) - l.f(2),
            ),
        ],
    );
}

#[test]
fn floats() {
    check_12(
        &FLOATS,
        &[
            f("v_min_num_f32 v10, v1, v2", |l| {
                number(l.f(1), l.f(2), false)
            }),
            f("v_max_num_f32 v10, v1, v2", |l| {
                number(l.f(1), l.f(2), true)
            }),
            f("v_med3_num_f32 v10, v1, v2, v3", |l| {
                let mut v = [1, 2, 3].map(|n| l.f(n));
                if v.iter().any(|x| x.is_nan()) {
                    return number(number(v[0], v[1], false), v[2], false);
                }
                v.sort_by(f32::total_cmp);
                v[1]
            }),
            f("v_minimum_f32 v10, v1, v2", |l| {
                extreme(l.f(1), l.f(2), false)
            }),
            f("v_maximum_f32 v10, v1, v2", |l| {
                extreme(l.f(1), l.f(2), true)
            }),
            f("v_minimum3_f32 v10, v1, v2, v3", |l| {
                extreme(extreme(l.f(1), l.f(2), false), l.f(3), false)
            }),
            f("v_maximumminimum_f32 v10, v1, v2, v3", |l| {
                extreme(extreme(l.f(1), l.f(2), true), l.f(3), false)
            }),
            f("v_minmax_num_f32 v10, v1, v2, v3", |l| {
                number(number(l.f(1), l.f(2), false), l.f(3), true)
            }),
            // It flushes denormals in any mode.
            f("v_fma_dx9_zero_f32 v10, v1, v2, v3", |l| {
                let flush = |x: f32| if x.is_subnormal() { x * 0.0 } else { x };
                let [a, b, c] = [1, 2, 3].map(|n| flush(l.f(n)));
                if a == 0.0 || b == 0.0 {
                    c
                } else {
                    flush(a.mul_add(b, c))
                }
            }),
            f("v_fma_f32 v10, v1, 0x40490fdb, -v3", |l| {
                l.f(1).mul_add(std::f32::consts::PI, -l.f(3))
            }),
            w("v_cvt_pk_i16_f32 v10, v1, v2", |l| {
                let part = |x: f32| x as i16 as u16;
                u32::from(part(l.f(1))) | u32::from(part(l.f(2))) << 16
            }),
            sf("v_s_sqrt_f32 s24, s16", |l| {
                let v = x(l, 16);
                if v.is_subnormal() {
                    0f32.copysign(v)
                } else {
                    f64::from(v).sqrt() as f32
                }
            }),
            sf("v_s_rcp_f32 s24, s16", |l| {
                let flush = |v: f32| {
                    if v.is_subnormal() {
                        0f32.copysign(v)
                    } else {
                        v
                    }
                };
                flush((1.0 / f64::from(flush(x(l, 16)))) as f32)
            }),
        ],
    );
}

/// Expects the f16 `x` in the low half of v10, the high half preserved.
fn h(asm: &'static str, x: impl Fn(Lane<'_>) -> f64 + 'static) -> Case {
    case(asm, move |before, after| {
        for n in 0..after.lanes {
            let (want, got) = (half(x(before.lane(n))), after.v[10][n]);
            let nan = |v: u32| v & 0x7fff > 0x7c00;
            let same = got & 0xffff == want || (nan(want) && nan(got));
            if !same || got >> 16 != before.v[10][n] >> 16 {
                return Err(format!("lane {n}: got {got:x}, expected {want:x}"));
            }
        }
        Ok(())
    })
}

#[test]
fn halves() {
    let a = |l: Lane<'_>| wide(l.lo(1));
    let b = |l: Lane<'_>| wide(l.lo(2));
    check_12(
        &HALVES,
        &[
            h("v_add_f16 v10, v1, v2", move |l| a(l) + b(l)),
            h("v_mul_f16 v10, v1, v2", move |l| a(l) * b(l)),
            h("v_add_f16 v10, 2.0, v2", move |l| 2.0 + b(l)),
            h("v_add_f16_e64 v10, -v1, |v2|", move |l| -a(l) + b(l).abs()),
            h("v_fmac_f16 v10, v1, 1.0", move |l| a(l) + wide(l.lo(10))),
            h("v_fmamk_f16 v10, v1, 0x3c00, v2", move |l| a(l) + b(l)),
            h("v_fmaak_f16 v10, v1, v2, 0", move |l| a(l) * b(l) + 0.0),
            h("v_sqrt_f16 v10, v1", move |l| a(l).sqrt()),
            h("v_rcp_f16 v10, v1", move |l| 1.0 / a(l)),
            h("v_ldexp_f16 v10, v1, 3", move |l| a(l) * 8.0),
            h("v_cvt_f16_f32 v10, v3", |l| f64::from(l.f(3))),
            f("v_cvt_f32_f16 v10, v1", move |l| a(l) as f32),
            // v_cvt_f32_f16 v10, v1.h
            f(".long 0x7e141781", |l| wide(l.hi(1)) as f32),
            // v_add_f16 v10.l, v1.h, v2.l
            h(".long 0x64140581", move |l| wide(l.hi(1)) + b(l)),
            h("v_dot2_f16_f16 v10, v1, 1.0, v3", move |l| {
                a(l) + wide(l.hi(1)) + wide(l.lo(3))
            }),
        ],
    );
}

#[test]
fn small_floats() {
    // OCP: fp8 has one NaN, bf8 is the upper half of f16.
    let fp8 = |b: u32| {
        let sign = if b & 0x80 != 0 { -1.0 } else { 1.0 };
        let (e, m) = ((b >> 3 & 15) as i32, f64::from(b & 7));
        match (e, b & 7) {
            (15, 7) => f64::NAN,
            (0, _) => sign * m * 2f64.powi(-9),
            _ => sign * (8.0 + m) * 2f64.powi(e - 10),
        }
    };
    let bf8 = |b: u32| wide((b & 0xff) << 8);
    let nearest = move |x: f32| -> u32 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let x = f64::from(x.abs());
        if !(x < 464.0) {
            return sign | if x == 464.0 { 0x7e } else { 0x7f };
        }
        let off = |c: u32| (fp8(c) - x).abs();
        let best = (0..0x7f).min_by(|&a, &b| off(a).total_cmp(&off(b)).then((a & 1).cmp(&(b & 1))));
        sign | best.unwrap_or(0)
    };
    check_12(
        &BITS,
        &[
            f("v_cvt_f32_fp8 v10, v1", move |l| fp8(l.u(1) & 0xff) as f32),
            f("v_cvt_f32_bf8 v10, v1", move |l| bf8(l.u(1)) as f32),
            f("v_cvt_f32_fp8_e64 v10, v1 byte_sel:1", move |l| {
                fp8(l.u(1) >> 8 & 0xff) as f32
            }),
            f("v_cvt_f32_fp8_e64 v10, v1 byte_sel:2", move |l| {
                fp8(l.u(1) >> 16 & 0xff) as f32
            }),
            f("v_cvt_f32_bf8_e64 v10, v1 byte_sel:3", move |l| {
                bf8(l.u(1) >> 24) as f32
            }),
        ],
    );
    check_12(
        &FLOATS,
        &[
            w("v_cvt_pk_fp8_f32 v10, v1, v2", move |l| {
                nearest(l.f(1)) | nearest(l.f(2)) << 8 | l.u(10) & 0xffff_0000
            }),
            w("v_cvt_pk_fp8_f32 v10, v1, v2 op_sel:[0,0,1]", move |l| {
                (nearest(l.f(1)) | nearest(l.f(2)) << 8) << 16 | l.lo(10)
            }),
        ],
    );
}

/// Expects v1 of lane `from` in v10, if it exists and is active.
fn moved(asm: &str, from: fn(usize) -> Option<usize>, zero: bool, inactive: bool) -> Vec<Case> {
    [false, true]
        .map(|partial| {
            let exec = if partial {
                "s_mov_b64 exec, s[18:19]\n"
            } else {
                ""
            };
            case(format!("{exec} {asm}").leak(), move |before, after| {
                let exec = if partial { before.s64(18) } else { u64::MAX };
                for lane in 0..after.lanes {
                    let active = |l: usize| inactive || exec >> l & 1 != 0;
                    let want = match from(lane).filter(|&l| active(l)) {
                        _ if exec >> lane & 1 == 0 => None,
                        Some(l) => Some(before.v[1][l]),
                        None => zero.then_some(0),
                    };
                    let want = want.unwrap_or(before.v[10][lane]);
                    let got = after.v[10][lane];
                    if got != want {
                        return Err(format!("lane {lane}: got {got:x}, expected {want:x}"));
                    }
                }
                Ok(())
            })
        })
        .into()
}

#[test]
fn lanes() {
    const ALL: &str = "row_mask:0xf bank_mask:0xf";
    let mut cases = Vec::new();
    let mut dpp = |control: &str, from: fn(usize) -> Option<usize>| {
        let text = format!("v_mov_b32_dpp v10, v1 {control} {ALL}");
        cases.extend(moved(&text, from, false, false));
        cases.extend(moved(&format!("{text} bound_ctrl:1"), from, true, false));
        cases.extend(moved(&format!("{text} fi:1"), from, false, true));
    };
    dpp("quad_perm:[1,0,3,2]", |l| Some(l ^ 1));
    dpp("row_shl:3", |l| (l % 16 < 13).then_some(l + 3));
    dpp("row_shr:1", |l| (l % 16 > 0).then(|| l - 1));
    dpp("row_ror:3", |l| Some(l / 16 * 16 + (l + 13) % 16));
    dpp("row_mirror", |l| Some(l ^ 15));
    dpp("row_half_mirror", |l| Some(l ^ 7));
    dpp("row_share:5", |l| Some(l / 16 * 16 + 5));
    dpp("row_xmask:6", |l| Some(l ^ 6));
    let rotate: fn(usize) -> Option<usize> = |l| Some(l & !7 | (l + 3) % 8);
    let dpp8 = "v_mov_b32_dpp v10, v1 dpp8:[3,4,5,6,7,0,1,2]";
    cases.extend(moved(dpp8, rotate, true, false));
    cases.extend(moved(&format!("{dpp8} fi:1"), rotate, true, true));
    let vop3 = format!("v_add3_u32_e64_dpp v10, v1, 0, 0 row_xmask:6 {ALL}");
    cases.extend(moved(&vop3, |l| Some(l ^ 6), false, false));
    // Lanes 15 to 0.
    let select = "s_mov_b32 s20, 0x89abcdef\n s_mov_b32 s21, 0x01234567\n";
    let reverse: fn(usize) -> Option<usize> = |l| Some(l ^ 15);
    let other: fn(usize) -> Option<usize> = |l| Some(l ^ 31);
    let text = format!("{select} v_permlane16_b32 v10, v1, s20, s21");
    cases.extend(moved(&text, reverse, false, false));
    cases.extend(moved(&format!("{text} op_sel:[1,0]"), reverse, false, true));
    cases.extend(moved(&format!("{text} op_sel:[0,1]"), reverse, true, false));
    let text = format!("{select} v_permlanex16_b32 v10, v1, s20, s21");
    cases.extend(moved(&text, other, false, false));
    check_12(&BITS, &cases);
    check_12(
        &BITS,
        &[
            w("v_permlane16_var_b32 v10, v1, v2", |l| {
                l.state.v[1][l.lane & !15 | l.lo(2) as usize & 15]
            }),
            w("s_mov_b32 m0, 2\n v_movrels_b32 v10, v1", |l| l.u(3)),
            w("s_mov_b32 m0, 2\n v_movreld_b32 v8, v1", |l| l.u(1)),
            w("s_mov_b32 m0, 0x20001\n v_movrelsd_2_b32 v8, v1", |l| {
                l.u(2)
            }),
        ],
    );
    check_on(
        Target::Wave64,
        &BITS,
        &[w("v_permlane64_b32 v10, v1", |l| l.state.v[1][l.lane ^ 32])],
    );
}
