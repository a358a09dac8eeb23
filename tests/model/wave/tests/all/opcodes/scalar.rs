// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SOP1, SOP2, SOPC, SOPK, SOPP, SMEM.

use crate::common::bench::{case, check, s, s64, Case, Fill, State, SPACE};

const FILLS: [Fill; 6] = [Fill::Bits; 6];

fn a(x: &State) -> u32 {
    x.s[16]
}

fn b(x: &State) -> u32 {
    x.s[17]
}

fn sa(x: &State) -> i64 {
    i64::from(a(x) as i32)
}

fn sb(x: &State) -> i64 {
    i64::from(b(x) as i32)
}

fn la(x: &State) -> u64 {
    x.s64(16)
}

fn lb(x: &State) -> u64 {
    x.s64(18)
}

/// Result with SCC = nonzero.
fn z(v: u32) -> (u32, Option<bool>) {
    (v, Some(v != 0))
}

fn z64(v: u64) -> (u64, Option<bool>) {
    (v, Some(v != 0))
}

fn overflows(v: i64) -> (u32, Option<bool>) {
    (v as u32, Some(i32::try_from(v).is_err()))
}

#[test]
fn add_and_subtract() {
    let carry = |text| text;
    check(
        &FILLS,
        &[
            s("s_add_u32 s24, s16, s17", |x| {
                let sum = u64::from(a(x)) + u64::from(b(x));
                (sum as u32, Some(sum > 0xffff_ffff))
            }),
            s("s_sub_u32 s24, s16, s17", |x| {
                (a(x).wrapping_sub(b(x)), Some(b(x) > a(x)))
            }),
            s("s_add_i32 s24, s16, s17", |x| overflows(sa(x) + sb(x))),
            s("s_sub_i32 s24, s16, s17", |x| overflows(sa(x) - sb(x))),
            s(
                carry("s_cmp_eq_u32 s16, s16\n s_addc_u32 s24, s16, s17"),
                |x| {
                    let sum = u64::from(a(x)) + u64::from(b(x)) + 1;
                    (sum as u32, Some(sum > 0xffff_ffff))
                },
            ),
            s("s_cmp_lg_u32 s16, s16\n s_addc_u32 s24, s16, s17", |x| {
                let sum = u64::from(a(x)) + u64::from(b(x));
                (sum as u32, Some(sum > 0xffff_ffff))
            }),
            s("s_cmp_eq_u32 s16, s16\n s_subb_u32 s24, s16, s17", |x| {
                let difference = i128::from(a(x)) - i128::from(b(x)) - 1;
                (difference as u32, Some(difference < 0))
            }),
            s("s_absdiff_i32 s24, s16, s17", |x| {
                z(((sa(x) - sb(x)) as i32).unsigned_abs())
            }),
            s("s_mul_i32 s24, s16, s17", |x| {
                ((sa(x) * sb(x)) as u32, None)
            }),
            s("s_mul_hi_u32 s24, s16, s17", |x| {
                ((u128::from(a(x)) * u128::from(b(x)) >> 32) as u32, None)
            }),
            s("s_mul_hi_i32 s24, s16, s17", |x| {
                (((sa(x) * sb(x)) >> 32) as u32, None)
            }),
            s("s_lshl1_add_u32 s24, s16, s17", |x| shift_add(x, 1)),
            s("s_lshl2_add_u32 s24, s16, s17", |x| shift_add(x, 2)),
            s("s_lshl3_add_u32 s24, s16, s17", |x| shift_add(x, 3)),
            s("s_lshl4_add_u32 s24, s16, s17", |x| shift_add(x, 4)),
            s("s_min_i32 s24, s16, s17", |x| {
                (sa(x).min(sb(x)) as u32, Some(sa(x) < sb(x)))
            }),
            s("s_max_i32 s24, s16, s17", |x| {
                (sa(x).max(sb(x)) as u32, Some(sa(x) > sb(x)))
            }),
            s("s_min_u32 s24, s16, s17", |x| {
                (a(x).min(b(x)), Some(a(x) < b(x)))
            }),
            s("s_max_u32 s24, s16, s17", |x| {
                (a(x).max(b(x)), Some(a(x) > b(x)))
            }),
            s("s_addk_i32 s24, 0x7ffe", |x| {
                overflows(i64::from(x.s[24] as i32) + 0x7ffe)
            }),
            s("s_addk_i32 s24, -3", |x| {
                overflows(i64::from(x.s[24] as i32) - 3)
            }),
            s("s_mulk_i32 s24, -7", |x| {
                ((i64::from(x.s[24] as i32) * -7) as u32, None)
            }),
            s("s_abs_i32 s24, s16", |x| z(sa(x).unsigned_abs() as u32)),
        ],
    );
}

fn shift_add(x: &State, n: u32) -> (u32, Option<bool>) {
    let sum = (u128::from(a(x)) << n) + u128::from(b(x));
    (sum as u32, Some(sum > 0xffff_ffff))
}

#[test]
fn logic() {
    check(
        &FILLS,
        &[
            s("s_and_b32 s24, s16, s17", |x| z(a(x) & b(x))),
            s("s_or_b32 s24, s16, s17", |x| z(a(x) | b(x))),
            s("s_xor_b32 s24, s16, s17", |x| z(a(x) ^ b(x))),
            s("s_andn2_b32 s24, s16, s17", |x| z(a(x) & !b(x))),
            s("s_orn2_b32 s24, s16, s17", |x| z(a(x) | !b(x))),
            s("s_nand_b32 s24, s16, s17", |x| z(!a(x) | !b(x))),
            s("s_nor_b32 s24, s16, s17", |x| z(!a(x) & !b(x))),
            s("s_xnor_b32 s24, s16, s17", |x| z(a(x) ^ !b(x))),
            s("s_not_b32 s24, s16", |x| z(!a(x))),
            s64("s_and_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(la(x) & lb(x))
            }),
            s64("s_or_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(la(x) | lb(x))
            }),
            s64("s_xor_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(la(x) ^ lb(x))
            }),
            s64("s_andn2_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(la(x) & !lb(x))
            }),
            s64("s_orn2_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(la(x) | !lb(x))
            }),
            s64("s_nand_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(!la(x) | !lb(x))
            }),
            s64("s_nor_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(!la(x) & !lb(x))
            }),
            s64("s_xnor_b64 s[24:25], s[16:17], s[18:19]", |x| {
                z64(la(x) ^ !lb(x))
            }),
            s64("s_not_b64 s[24:25], s[16:17]", |x| z64(!la(x))),
            s64("s_and_b64 s[24:25], s[16:17], 0x80000001", |x| {
                z64(la(x) & 0x8000_0001)
            }),
            s64("s_and_b64 s[24:25], s[16:17], -2", |x| z64(la(x) & !1)),
            s64("s_mov_b64 s[24:25], 1.0", |_| (1f64.to_bits(), None)),
            s("s_mov_b32 s24, -4.0", |_| ((-4f32).to_bits(), None)),
            s("s_mov_b32 s24, 0.15915494", |_| (0x3e22_f983, None)),
            s("s_mov_b32 s24, 0x12345678", |_| (0x1234_5678, None)),
            s("s_mov_b32 s24, s16", |x| (a(x), None)),
            s64("s_mov_b64 s[24:25], s[16:17]", |x| (la(x), None)),
            s("s_movk_i32 s24, -5", |_| (-5i32 as u32, None)),
        ],
    );
}

#[test]
fn shifts_and_fields() {
    let field = |v: u128, offset: u32, width: u32| -> u128 {
        if width == 0 {
            0
        } else {
            v >> offset & ((1 << width) - 1)
        }
    };
    let signed = |v: u128, width: u32| -> i128 {
        if width == 0 {
            0
        } else {
            (v << (128 - width)) as i128 >> (128 - width)
        }
    };
    check(
        &FILLS,
        &[
            s("s_lshl_b32 s24, s16, s17", |x| z(a(x) << (b(x) % 32))),
            s("s_lshr_b32 s24, s16, s17", |x| z(a(x) >> (b(x) % 32))),
            s("s_ashr_i32 s24, s16, s17", |x| {
                z((sa(x) >> (b(x) % 32)) as u32)
            }),
            s64("s_lshl_b64 s[24:25], s[16:17], s18", |x| {
                z64(la(x) << (x.s[18] % 64))
            }),
            s64("s_lshr_b64 s[24:25], s[16:17], s18", |x| {
                z64(la(x) >> (x.s[18] % 64))
            }),
            s64("s_ashr_i64 s[24:25], s[16:17], s18", |x| {
                z64((la(x) as i64 >> (x.s[18] % 64)) as u64)
            }),
            s("s_bfm_b32 s24, s16, s17", |x| {
                (((1u64 << (a(x) % 32)) - 1 << (b(x) % 32)) as u32, None)
            }),
            s64("s_bfm_b64 s[24:25], s16, s17", |x| {
                (((1u128 << (a(x) % 64)) - 1 << (b(x) % 64)) as u64, None)
            }),
            s("s_bfe_u32 s24, s16, 0x80004", |x| z(a(x) >> 4 & 0xff)),
            s("s_bfe_u32 s24, s16, s17", move |x| {
                let (offset, width) = (b(x) % 32, (b(x) >> 16 & 0x7f).min(32));
                z(field(a(x).into(), offset, width) as u32)
            }),
            s("s_bfe_i32 s24, s16, s17", move |x| {
                let offset = b(x) % 32;
                let width = (b(x) >> 16 & 0x7f).min(32 - offset);
                z(signed(field(a(x).into(), offset, width), width) as u32)
            }),
            s64("s_bfe_u64 s[24:25], s[16:17], s18", move |x| {
                let (offset, width) = (x.s[18] % 64, (x.s[18] >> 16 & 0x7f).min(64));
                z64(field(la(x).into(), offset, width) as u64)
            }),
            s64("s_bfe_i64 s[24:25], s[16:17], s18", move |x| {
                let offset = x.s[18] % 64;
                let width = (x.s[18] >> 16 & 0x7f).min(64 - offset);
                z64(signed(field(la(x).into(), offset, width), width) as u64)
            }),
            s("s_pack_ll_b32_b16 s24, s16, s17", |x| {
                ((b(x) & 0xffff) << 16 | a(x) & 0xffff, None)
            }),
            s("s_pack_lh_b32_b16 s24, s16, s17", |x| {
                ((b(x) >> 16) << 16 | a(x) & 0xffff, None)
            }),
            s("s_pack_hh_b32_b16 s24, s16, s17", |x| {
                ((b(x) >> 16) << 16 | a(x) >> 16, None)
            }),
            s("s_sext_i32_i8 s24, s16", |x| {
                (i32::from(a(x) as i8) as u32, None)
            }),
            s("s_sext_i32_i16 s24, s16", |x| {
                (i32::from(a(x) as i16) as u32, None)
            }),
        ],
    );
}

fn every_bit(v: u64, bits: u32, f: impl Fn(u32, bool) -> bool) -> Option<u32> {
    (0..bits).find(|&n| f(n, v >> n & 1 != 0))
}

#[test]
fn counting() {
    let or_minus = |v: Option<u32>| v.unwrap_or(u32::MAX);
    let ones = |v: u64| (0..64).filter(|n| v >> n & 1 != 0).count() as u32;
    check(
        &FILLS,
        &[
            s("s_brev_b32 s24, s16", |x| {
                (
                    (0..32).fold(0, |r, n| r | (a(x) >> n & 1) << (31 - n)),
                    None,
                )
            }),
            s64("s_brev_b64 s[24:25], s[16:17]", |x| {
                (
                    (0..64).fold(0, |r, n| r | (la(x) >> n & 1) << (63 - n)),
                    None,
                )
            }),
            s("s_bcnt0_i32_b32 s24, s16", move |x| {
                z(32 - ones(a(x).into()))
            }),
            s("s_bcnt1_i32_b32 s24, s16", move |x| z(ones(a(x).into()))),
            s(
                "s_bcnt0_i32_b64 s24, s[16:17]",
                move |x| z(64 - ones(la(x))),
            ),
            s("s_bcnt1_i32_b64 s24, s[16:17]", move |x| z(ones(la(x)))),
            s("s_ff0_i32_b32 s24, s16", move |x| {
                (or_minus(every_bit(a(x).into(), 32, |_, set| !set)), None)
            }),
            s("s_ff1_i32_b32 s24, s16", move |x| {
                (or_minus(every_bit(a(x).into(), 32, |_, set| set)), None)
            }),
            s("s_ff0_i32_b64 s24, s[16:17]", move |x| {
                (or_minus(every_bit(la(x), 64, |_, set| !set)), None)
            }),
            s("s_ff1_i32_b64 s24, s[16:17]", move |x| {
                (or_minus(every_bit(la(x), 64, |_, set| set)), None)
            }),
            s("s_flbit_i32_b32 s24, s16", move |x| {
                (
                    or_minus(every_bit(a(x).reverse_bits().into(), 32, |_, set| set)),
                    None,
                )
            }),
            s("s_flbit_i32_b64 s24, s[16:17]", move |x| {
                (
                    or_minus(every_bit(la(x).reverse_bits(), 64, |_, set| set)),
                    None,
                )
            }),
            s("s_flbit_i32 s24, s16", move |x| {
                let v = u64::from(a(x).reverse_bits());
                (
                    or_minus(every_bit(v, 32, |_, set| set != (v & 1 != 0))),
                    None,
                )
            }),
            s("s_flbit_i32_i64 s24, s[16:17]", move |x| {
                let v = la(x).reverse_bits();
                (
                    or_minus(every_bit(v, 64, |_, set| set != (v & 1 != 0))),
                    None,
                )
            }),
            s("s_bitset0_b32 s24, s16", |x| {
                (x.s[24] & !(1 << (a(x) % 32)), None)
            }),
            s("s_bitset1_b32 s24, s16", |x| {
                (x.s[24] | 1 << (a(x) % 32), None)
            }),
            s64("s_bitset0_b64 s[24:25], s16", |x| {
                (x.s64(24) & !(1 << (a(x) % 64)), None)
            }),
            s64("s_bitset1_b64 s[24:25], s16", |x| {
                (x.s64(24) | 1 << (a(x) % 64), None)
            }),
            s("s_wqm_b32 s24, s16", |x| {
                z((0..32)
                    .filter(|n| a(x) >> (n & !3) & 15 != 0)
                    .fold(0, |r, n| r | 1 << n))
            }),
            s64("s_wqm_b64 s[24:25], s[16:17]", |x| {
                z64((0..64)
                    .filter(|n| la(x) >> (n & !3) & 15 != 0)
                    .fold(0, |r, n| r | 1 << n))
            }),
            s("s_quadmask_b32 s24, s16", |x| {
                z((0..8)
                    .filter(|n| a(x) >> (n * 4) & 15 != 0)
                    .fold(0, |r, n| r | 1 << n))
            }),
            s64("s_quadmask_b64 s[24:25], s[16:17]", |x| {
                z64((0..16)
                    .filter(|n| la(x) >> (n * 4) & 15 != 0)
                    .fold(0, |r, n| r | 1 << n))
            }),
            s64("s_bitreplicate_b64_b32 s[24:25], s16", |x| {
                (
                    (0..64).fold(0, |r, n| r | u64::from(a(x) >> (n / 2) & 1) << n),
                    None,
                )
            }),
        ],
    );
}

/// Expects `f` in SCC; all else is preserved.
fn scc(asm: &'static str, f: impl Fn(&State) -> bool + 'static) -> Case {
    s(asm, move |x| (x.s[24], Some(f(x))))
}

#[test]
fn comparisons() {
    check(
        &FILLS,
        &[
            scc("s_cmp_eq_i32 s16, s17", |x| sa(x) == sb(x)),
            scc("s_cmp_lg_i32 s16, s17", |x| sa(x) != sb(x)),
            scc("s_cmp_gt_i32 s16, s17", |x| sa(x) > sb(x)),
            scc("s_cmp_ge_i32 s16, s17", |x| sa(x) >= sb(x)),
            scc("s_cmp_lt_i32 s16, s17", |x| sa(x) < sb(x)),
            scc("s_cmp_le_i32 s16, s17", |x| sa(x) <= sb(x)),
            scc("s_cmp_eq_u32 s16, s16", |_| true),
            scc("s_cmp_lg_u32 s16, s17", |x| a(x) != b(x)),
            scc("s_cmp_gt_u32 s16, s17", |x| a(x) > b(x)),
            scc("s_cmp_ge_u32 s16, s17", |x| a(x) >= b(x)),
            scc("s_cmp_lt_u32 s16, s17", |x| a(x) < b(x)),
            scc("s_cmp_le_u32 s16, s17", |x| a(x) <= b(x)),
            scc("s_cmp_eq_u64 s[16:17], s[18:19]", |x| la(x) == lb(x)),
            scc("s_cmp_eq_u64 s[16:17], s[16:17]", |_| true),
            scc("s_cmp_lg_u64 s[16:17], s[18:19]", |x| la(x) != lb(x)),
            scc("s_bitcmp0_b32 s16, s17", |x| a(x) >> (b(x) % 32) & 1 == 0),
            scc("s_bitcmp1_b32 s16, s17", |x| a(x) >> (b(x) % 32) & 1 == 1),
            scc("s_bitcmp0_b64 s[16:17], s18", |x| {
                la(x) >> (x.s[18] % 64) & 1 == 0
            }),
            scc("s_bitcmp1_b64 s[16:17], s18", |x| {
                la(x) >> (x.s[18] % 64) & 1 == 1
            }),
            scc("s_cmpk_eq_i32 s24, -1", |x| x.s[24] == u32::MAX),
            scc("s_cmpk_lg_i32 s24, -1", |x| x.s[24] != u32::MAX),
            scc("s_cmpk_gt_i32 s24, -9", |x| x.s[24] as i32 > -9),
            scc("s_cmpk_ge_i32 s24, 1", |x| x.s[24] as i32 >= 1),
            scc("s_cmpk_lt_i32 s24, -1", |x| (x.s[24] as i32) < -1),
            scc("s_cmpk_le_i32 s24, 0x7fff", |x| x.s[24] as i32 <= 0x7fff),
            scc("s_cmpk_eq_u32 s24, 0xffff", |x| x.s[24] == 0xffff),
            scc("s_cmpk_lg_u32 s24, 0xffff", |x| x.s[24] != 0xffff),
            scc("s_cmpk_gt_u32 s24, 0xfff0", |x| x.s[24] > 0xfff0),
            scc("s_cmpk_ge_u32 s24, 0xffff", |x| x.s[24] >= 0xffff),
            scc("s_cmpk_lt_u32 s24, 0x8000", |x| x.s[24] < 0x8000),
            scc("s_cmpk_le_u32 s24, 0x8000", |x| x.s[24] <= 0x8000),
        ],
    );
}

#[test]
fn select_and_move() {
    check(&FILLS, &[
        s("s_cmp_lt_u32 s18, s19\n s_cselect_b32 s24, s16, s17", |x| {
            (if x.s[18] < x.s[19] { a(x) } else { b(x) }, None)
        }),
        s64("s_cmp_lt_u32 s20, s21\n s_cselect_b64 s[24:25], s[16:17], s[18:19]", |x| {
            (if x.s[20] < x.s[21] { la(x) } else { lb(x) }, None)
        }),
        s("s_cmp_lt_u32 s18, s19\n s_cmov_b32 s24, s16", |x| {
            (if x.s[18] < x.s[19] { a(x) } else { x.s[24] }, None)
        }),
        s64("s_cmp_lt_u32 s18, s19\n s_cmov_b64 s[24:25], s[16:17]", |x| {
            (if x.s[18] < x.s[19] { la(x) } else { x.s64(24) }, None)
        }),
        s("s_cmp_lt_u32 s18, s19\n s_cmovk_i32 s24, 0x1234", |x| {
            (if x.s[18] < x.s[19] { 0x1234 } else { x.s[24] }, None)
        }),
        s("s_mov_b32 m0, 3\n s_movrels_b32 s24, s16", |x| (x.s[19], None)),
        s64("s_mov_b32 m0, 4\n s_movrels_b64 s[24:25], s[16:17]", |x| (x.s64(20), None)),
        s("s_mov_b32 m0, 8\n s_movreld_b32 s16, s17", |x| (b(x), None)),
        s64("s_mov_b32 m0, 8\n s_movreld_b64 s[16:17], s[18:19]", |x| (lb(x), None)),
        s64("s_getpc_b64 s[24:25]\n s_getpc_b64 s[26:27]\n s_sub_u32 s24, s26, s24\n s_mov_b32 s25, 0", |_| (4, None)),
        s("s_call_b64 s[26:27], 1\n s_branch 2\n s_movk_i32 s24, 9\n s_setpc_b64 s[26:27]", |_| (9, None)),
        s("s_mov_b32 s24, 1\n s_branch 1\n s_mov_b32 s24, 2\n s_nop 0", |_| (1, None)),
        s("s_mov_b32 s24, 1\n s_getpc_b64 s[26:27]\n s_add_u32 s26, s26, 20\n s_addc_u32 s27, s27, 0\n s_setpc_b64 s[26:27]\n s_mov_b32 s24, 2\n s_nop 1", |_| (1, None)),
        s("s_getpc_b64 s[26:27]\n s_add_u32 s26, s26, 12\n s_addc_u32 s27, s27, 0\n s_swappc_b64 s[28:29], s[26:27]\n s_sub_u32 s24, s28, s26", |_| {
            (0, Some(false))
        }),
    ]);
}

/// Saves EXEC in s[24:25] and changes it.
fn saveexec(asm: &'static str, f: impl Fn(u64, u64) -> u64 + 'static) -> Case {
    case(asm, move |before, after| {
        let source = before.s64(16);
        let old = before.s64(18);
        let new = f(source, old);
        let wrexec = asm.contains("wrexec");
        let saved = if wrexec { new } else { old };
        if (after.exec, after.s64(24), after.scc) != (new, saved, new != 0) {
            return Err(format!(
                "exec {:x} saved {:x} scc {}, expected {new:x} {saved:x}",
                after.exec,
                after.s64(24),
                after.scc
            ));
        }
        Ok(())
    })
}

#[test]
fn exec_masks() {
    check(
        &FILLS,
        &[
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_and_saveexec_b64 s[24:25], s[16:17]",
                |s, e| s & e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_or_saveexec_b64 s[24:25], s[16:17]",
                |s, e| s | e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_xor_saveexec_b64 s[24:25], s[16:17]",
                |s, e| s ^ e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_andn2_saveexec_b64 s[24:25], s[16:17]",
                |s, e| s & !e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_orn2_saveexec_b64 s[24:25], s[16:17]",
                |s, e| s | !e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_nand_saveexec_b64 s[24:25], s[16:17]",
                |s, e| !(s & e),
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_nor_saveexec_b64 s[24:25], s[16:17]",
                |s, e| !(s | e),
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_xnor_saveexec_b64 s[24:25], s[16:17]",
                |s, e| !(s ^ e),
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_andn1_saveexec_b64 s[24:25], s[16:17]",
                |s, e| !s & e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_orn1_saveexec_b64 s[24:25], s[16:17]",
                |s, e| !s | e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_andn1_wrexec_b64 s[24:25], s[16:17]",
                |s, e| !s & e,
            ),
            saveexec(
                "s_mov_b64 exec, s[18:19]\n s_andn2_wrexec_b64 s[24:25], s[16:17]",
                |s, e| s & !e,
            ),
        ],
    );
}

#[test]
fn branches() {
    // A taken branch skips the second move.
    let body =
        |asm, taken: fn(&State) -> bool| s(asm, move |x| (if taken(x) { 1 } else { 2 }, None));
    check(&FILLS, &[
        body("s_mov_b32 s24, 1\n s_cmp_lt_u32 s16, s17\n s_cbranch_scc1 1\n s_mov_b32 s24, 2", |x| a(x) < b(x)),
        body("s_mov_b32 s24, 1\n s_cmp_lt_u32 s16, s17\n s_cbranch_scc0 1\n s_mov_b32 s24, 2", |x| a(x) >= b(x)),
        body("s_mov_b32 s24, 1\n s_cbranch_vccz 1\n s_mov_b32 s24, 2", |x| x.vcc == 0),
        body("s_mov_b32 s24, 1\n s_mov_b64 vcc, 0\n s_cbranch_vccz 1\n s_mov_b32 s24, 2", |_| true),
        body("s_mov_b32 s24, 1\n s_cbranch_vccnz 1\n s_mov_b32 s24, 2", |x| x.vcc != 0),
        body("s_mov_b32 s24, 1\n s_cbranch_execz 1\n s_mov_b32 s24, 2", |_| false),
        body("s_mov_b32 s24, 1\n s_mov_b64 exec, 0\n s_cbranch_execz 1\n s_mov_b32 s24, 2", |_| true),
        body("s_mov_b32 s24, 1\n s_cbranch_execnz 1\n s_mov_b32 s24, 2", |_| true),
        body("s_mov_b32 s24, 1\n s_cbranch_cdbgsys 1\n s_mov_b32 s24, 2", |_| false),
        // A loop of ten iterations.
        s("s_mov_b32 s24, 0\n s_movk_i32 s25, 10\n s_add_u32 s24, s24, s25\n s_sub_u32 s25, s25, 1\n s_cmp_lg_u32 s25, 0\n s_cbranch_scc1 -4", |_| (55, None)),
        s("s_mov_b32 s24, src_scc\n s_cmp_eq_u32 s24, s24\n s_addc_u32 s24, 0, 0", |_| (1, None)),
        s("s_mov_b64 exec, 0\n s_mov_b32 s24, src_execz", |_| (1, None)),
        s("s_mov_b64 vcc, 0\n s_mov_b32 s24, src_vccz", |_| (1, None)),
        s64("s_mov_b64 s[24:25], src_shared_base", |_| (1 << 48, None)),
        s64("s_mov_b64 s[24:25], src_private_base", |_| (2 << 48, None)),
        s64("s_mov_b64 s[24:25], src_shared_limit", |_| (1 << 48 | 0xffff_ffff, None)),
        s64("s_mov_b64 s[24:25], src_private_limit", |_| (2 << 48 | 0xffff_ffff, None)),
        s("s_mov_b32 s24, src_shared_base", |_| (0, None)),
        s("s_nop 3\n s_waitcnt vmcnt(0)\n s_setprio 1\n s_sleep 1\n s_barrier\n s_icache_inv\n s_sethalt 0\n s_dcache_inv\n s_dcache_wb\n s_wakeup\n s_mov_b32 s24, 9", |_| {
            (9, None)
        }),
    ]);
}

#[test]
fn hardware_registers() {
    check(&FILLS[..1], &[
        // Denormals enabled, DX10_CLAMP and IEEE.
        s("s_getreg_b32 s24, hwreg(HW_REG_MODE)", |_| (0x3f0, None)),
        s("s_getreg_b32 s24, hwreg(HW_REG_MODE, 4, 4)", |_| (0xf, None)),
        s("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1\n s_getreg_b32 s24, hwreg(HW_REG_MODE)", |_| {
            (0x3d0, None)
        }),
        s("s_mov_b32 s20, 6\n s_setreg_b32 hwreg(HW_REG_MODE, 0, 3), s20\n s_getreg_b32 s24, hwreg(HW_REG_MODE, 0, 8)", |_| {
            (0xf6, None)
        }),
        s("s_getreg_b32 s24, hwreg(HW_REG_SH_MEM_BASES, 0, 16)", |_| (2, None)),
        s("s_getreg_b32 s24, hwreg(HW_REG_SH_MEM_BASES, 16, 16)", |_| (1, None)),
        s("s_getreg_b32 s24, hwreg(HW_REG_XCC_ID)", |_| (0, None)),
        s("s_memrealtime s[24:25]\n s_memrealtime s[26:27]\n s_waitcnt lgkmcnt(0)\n s_sub_u32 s24, s26, s24", |_| {
            (1, Some(false))
        }),
        s("s_memtime s[24:25]\n s_memtime s[26:27]\n s_waitcnt lgkmcnt(0)\n s_sub_u32 s24, s26, s24", |_| {
            (20, Some(false))
        }),
    ]);
}

fn dword(x: &State, at: usize) -> u32 {
    u32::from_le_bytes(x.space[at..at + 4].try_into().unwrap())
}

#[test]
fn scalar_memory() {
    let loads = |asm, at: usize, count: usize| {
        case(asm, move |before, after| {
            for n in 0..count {
                let want = dword(before, at + 4 * n);
                let got = after.s[16 + n];
                if got != want {
                    return Err(format!("dword {n}: got {got:x}, expected {want:x}"));
                }
            }
            Ok(())
        })
    };
    check(&FILLS[..2], &[
        loads("s_load_dword s16, s[12:13], 0x10", 0x10, 1),
        loads("s_load_dwordx2 s[16:17], s[12:13], 0x18", 0x18, 2),
        loads("s_load_dwordx4 s[16:19], s[12:13], 0x20", 0x20, 4),
        loads("s_load_dwordx8 s[16:23], s[12:13], 0x40", 0x40, 8),
        loads("s_load_dwordx16 s[16:31], s[12:13], 0x80", 0x80, 16),
        loads("s_movk_i32 s20, 0x100\n s_load_dword s16, s[12:13], s20", 0x100, 1),
        loads("s_movk_i32 s20, 0x100\n s_load_dword s16, s[12:13], s20 offset:0x24", 0x124, 1),
        loads("s_add_u32 s14, s12, 0x200\n s_addc_u32 s15, s13, 0\n s_load_dword s16, s[14:15], -0x8", 0x1f8, 1),
        // A buffer of 64 bytes.
        loads("s_mov_b32 s20, s12\n s_mov_b32 s21, s13\n s_mov_b32 s22, 64\n s_mov_b32 s23, 0x20000\n s_buffer_load_dwordx4 s[16:19], s[20:23], 0x10", 0x10, 4),
        case("s_mov_b32 s20, s12\n s_mov_b32 s21, s13\n s_mov_b32 s22, 20\n s_mov_b32 s23, 0x20000\n s_buffer_load_dwordx4 s[16:19], s[20:23], 0x10", |before, after| {
            let want = [dword(before, 16), 0, 0, 0];
            if after.s[16..20] == want { Ok(()) } else { Err(format!("{:x?}", &after.s[16..20])) }
        }),
        case("s_store_dwordx2 s[16:17], s[12:13], 0x8\n s_store_dword s18, s[12:13], 0x30\n s_store_dwordx4 s[20:23], s[12:13], 0x40", |before, after| {
            let mut want = before.space.clone();
            for (at, reg) in [(8, 16), (12, 17), (48, 18), (64, 20), (68, 21), (72, 22), (76, 23)] {
                want[at..at + 4].copy_from_slice(&before.s[reg].to_le_bytes());
            }
            if after.space == want { Ok(()) } else { Err("memory differs".into()) }
        }),
        s64("s_mov_b64 s[24:25], s[12:13]", |_| (SPACE, None)),
    ]);
}
