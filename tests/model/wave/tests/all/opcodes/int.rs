// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector integers.

use crate::common::bench::{case, check, check_12, check_on, q, vcc, w, Case, Fill, Lane};
use crate::common::llvm::Target;

const FILLS: [Fill; 3] = [Fill::Bits; 3];

fn i24(v: u32) -> i64 {
    i64::from(v << 8) << 32 >> 40
}

fn saturate(v: i128, min: i128, max: i128) -> u32 {
    v.clamp(min, max) as u32
}

const U32: (i128, i128) = (0, 0xffff_ffff);
const I32: (i128, i128) = (-0x8000_0000, 0x7fff_ffff);

#[test]
fn two_operands() {
    let u = |l: &Lane<'_>, n| i128::from(l.u(n));
    let i = |l: &Lane<'_>, n| i128::from(l.i(n));
    check(
        &FILLS,
        &[
            w("v_mov_b32 v10, v1", |l| l.u(1)),
            w("v_mov_b32 v10, s16", |l| l.state.s[16]),
            w("v_mov_b32 v10, 0x12345678", |_| 0x1234_5678),
            w("v_add_u32 v10, v1, v2", move |l| {
                (u(&l, 1) + u(&l, 2)) as u32
            }),
            w("v_add_u32 v10, -3, v2", |l| l.u(2).wrapping_sub(3)),
            w("v_add_u32 v10, v1, v2 clamp", move |l| {
                saturate(u(&l, 1) + u(&l, 2), U32.0, U32.1)
            }),
            w("v_sub_u32 v10, v1, v2", move |l| {
                (u(&l, 1) - u(&l, 2)) as u32
            }),
            w("v_sub_u32 v10, v1, v2 clamp", move |l| {
                saturate(u(&l, 1) - u(&l, 2), U32.0, U32.1)
            }),
            w("v_subrev_u32 v10, v1, v2", move |l| {
                (u(&l, 2) - u(&l, 1)) as u32
            }),
            w("v_add_i32 v10, v1, v2", move |l| {
                (i(&l, 1) + i(&l, 2)) as u32
            }),
            w("v_add_i32 v10, v1, v2 clamp", move |l| {
                saturate(i(&l, 1) + i(&l, 2), I32.0, I32.1)
            }),
            w("v_sub_i32 v10, v1, v2 clamp", move |l| {
                saturate(i(&l, 1) - i(&l, 2), I32.0, I32.1)
            }),
            w("v_and_b32 v10, v1, v2", |l| l.u(1) & l.u(2)),
            w("v_or_b32 v10, v1, v2", |l| l.u(1) | l.u(2)),
            w("v_xor_b32 v10, v1, v2", |l| l.u(1) ^ l.u(2)),
            w("v_xnor_b32 v10, v1, v2", |l| l.u(1) ^ !l.u(2)),
            w("v_not_b32 v10, v1", |l| u32::MAX - l.u(1)),
            w("v_lshlrev_b32 v10, v1, v2", |l| l.u(2) << (l.u(1) % 32)),
            w("v_lshrrev_b32 v10, v1, v2", |l| l.u(2) >> (l.u(1) % 32)),
            w("v_ashrrev_i32 v10, v1, v2", |l| {
                (l.i(2) >> (l.u(1) % 32)) as u32
            }),
            w("v_min_i32 v10, v1, v2", |l| {
                if l.i(1) < l.i(2) {
                    l.u(1)
                } else {
                    l.u(2)
                }
            }),
            w("v_max_i32 v10, v1, v2", |l| {
                if l.i(1) > l.i(2) {
                    l.u(1)
                } else {
                    l.u(2)
                }
            }),
            w("v_min_u32 v10, v1, v2", |l| {
                if l.u(1) < l.u(2) {
                    l.u(1)
                } else {
                    l.u(2)
                }
            }),
            w("v_max_u32 v10, v1, v2", |l| {
                if l.u(1) > l.u(2) {
                    l.u(1)
                } else {
                    l.u(2)
                }
            }),
            w("v_mul_i32_i24 v10, v1, v2", |l| {
                (i24(l.u(1)) * i24(l.u(2))) as u32
            }),
            w("v_mul_hi_i32_i24 v10, v1, v2", |l| {
                ((i24(l.u(1)) * i24(l.u(2))) >> 32) as u32
            }),
            w("v_mul_u32_u24 v10, v1, v2", |l| {
                (u64::from(l.u(1) % (1 << 24)) * u64::from(l.u(2) % (1 << 24))) as u32
            }),
            w("v_mul_hi_u32_u24 v10, v1, v2", |l| {
                (u64::from(l.u(1) % (1 << 24)) * u64::from(l.u(2) % (1 << 24)) >> 32) as u32
            }),
            w("v_mul_lo_u32 v10, v1, v2", move |l| {
                (u(&l, 1) * u(&l, 2)) as u32
            }),
            w("v_mul_hi_u32 v10, v1, v2", move |l| {
                (u(&l, 1) * u(&l, 2) >> 32) as u32
            }),
            w("v_mul_hi_i32 v10, v1, v2", move |l| {
                ((i(&l, 1) * i(&l, 2)) >> 32) as u32
            }),
            w("v_bfm_b32 v10, v1, v2", |l| {
                ((1u64 << (l.u(1) % 32)) - 1 << (l.u(2) % 32)) as u32
            }),
            w("v_bcnt_u32_b32 v10, v1, v2", |l| {
                (0..32).fold(l.u(2), |c, n| c.wrapping_add(l.u(1) >> n & 1))
            }),
            w("v_cvt_pk_u16_u32 v10, v1, v2", |l| {
                l.u(1).min(65535) | l.u(2).min(65535) << 16
            }),
            w("v_cvt_pk_i16_i32 v10, v1, v2", |l| {
                l.i(1).clamp(-32768, 32767) as u32 & 0xffff
                    | (l.i(2).clamp(-32768, 32767) as u32) << 16
            }),
        ],
    );
}

fn find(v: u32, from_top: bool, skip: impl Fn(u32) -> bool) -> u32 {
    for n in 0..32 {
        let bit = if from_top {
            v >> (31 - n) & 1
        } else {
            v >> n & 1
        };
        if !skip(bit) {
            return n;
        }
    }
    u32::MAX
}

#[test]
fn one_operand() {
    check(&FILLS, &[
        w("v_bfrev_b32 v10, v1", |l| (0..32).fold(0, |r, n| r | (l.u(1) >> n & 1) << (31 - n))),
        w("v_ffbh_u32 v10, v1", |l| find(l.u(1), true, |b| b == 0)),
        w("v_ffbl_b32 v10, v1", |l| find(l.u(1), false, |b| b == 0)),
        w("v_ffbh_i32 v10, v1", |l| find(l.u(1), true, |b| b == l.u(1) >> 31)),
        q("v_mov_b64 v[10:11], v[2:3]", |l| l.q(2)),
        q("v_mov_b64 v[10:11], s[16:17]", |l| l.state.s64(16)),
        case("v_swap_b32 v1, v2", |before, after| {
            if after.v[1] == before.v[2] && after.v[2] == before.v[1] {
                Ok(())
            } else {
                Err("not swapped".into())
            }
        }),
        w("v_accvgpr_write_b32 a3, v1\n v_accvgpr_mov_b32 a4, a3\n v_accvgpr_read_b32 v10, a4", |l| l.u(1)),
    ]);
}

fn bytes(v: u32) -> [i64; 4] {
    v.to_le_bytes().map(i64::from)
}

fn sum_of_differences(a: u32, b: u32) -> u32 {
    (0..4)
        .map(|n| (bytes(a)[n] - bytes(b)[n]).unsigned_abs() as u32)
        .sum()
}

fn middle(mut v: [i64; 3]) -> u32 {
    v.sort_unstable();
    v[1] as u32
}

fn permuted(l: Lane<'_>) -> u32 {
    let source: Vec<u8> = [l.u(2), l.u(1)]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let pick = |s: u8| match s {
        0..=7 => source[usize::from(s)],
        8..=11 => (source[usize::from(s - 8) * 2 + 1] as i8 >> 7) as u8,
        12 => 0,
        _ => 255,
    };
    u32::from_le_bytes(l.u(3).to_le_bytes().map(pick))
}

#[test]
fn three_operands() {
    let wide = |l: &Lane<'_>| u64::from(l.u(1)) << 32 | u64::from(l.u(2));
    check(
        &FILLS,
        &[
            w("v_mad_i32_i24 v10, v1, v2, v3", |l| {
                (i24(l.u(1)) * i24(l.u(2)) + i64::from(l.i(3))) as u32
            }),
            w("v_mad_u32_u24 v10, v1, v2, v3", |l| {
                (u64::from(l.u(1) & 0xff_ffff) * u64::from(l.u(2) & 0xff_ffff) + u64::from(l.u(3)))
                    as u32
            }),
            w("v_bfe_u32 v10, v1, v2, v3", |l| {
                let (offset, width) = (l.u(2) % 32, l.u(3) % 32);
                (u64::from(l.u(1)) >> offset & ((1 << width) - 1)) as u32
            }),
            w("v_bfe_i32 v10, v1, v2, v3", |l| {
                let (offset, width) = (l.u(2) % 32, l.u(3) % 32);
                if width == 0 {
                    return 0;
                }
                let field = i64::from(l.i(1)) >> offset;
                (field << (64 - width) >> (64 - width)) as u32
            }),
            w("v_bfi_b32 v10, v1, v2, v3", |l| {
                l.u(1) & l.u(2) | !l.u(1) & l.u(3)
            }),
            w("v_lerp_u8 v10, v1, v2, v3", |l| {
                let [a, b, c] = [1, 2, 3].map(|n| bytes(l.u(n)));
                u32::from_le_bytes([0, 1, 2, 3].map(|n| ((a[n] + b[n] + (c[n] & 1)) >> 1) as u8))
            }),
            w("v_alignbit_b32 v10, v1, v2, v3", move |l| {
                (wide(&l) >> (l.u(3) % 32)) as u32
            }),
            w("v_alignbyte_b32 v10, v1, v2, v3", move |l| {
                (wide(&l) >> (8 * (l.u(3) % 4))) as u32
            }),
            w("v_min3_i32 v10, v1, v2, v3", |l| {
                l.i(1).min(l.i(2)).min(l.i(3)) as u32
            }),
            w("v_max3_i32 v10, v1, v2, v3", |l| {
                l.i(1).max(l.i(2)).max(l.i(3)) as u32
            }),
            w("v_med3_i32 v10, v1, v2, v3", |l| {
                middle([1, 2, 3].map(|n| i64::from(l.i(n))))
            }),
            w("v_min3_u32 v10, v1, v2, v3", |l| {
                l.u(1).min(l.u(2)).min(l.u(3))
            }),
            w("v_max3_u32 v10, v1, v2, v3", |l| {
                l.u(1).max(l.u(2)).max(l.u(3))
            }),
            w("v_med3_u32 v10, v1, v2, v3", |l| {
                middle([1, 2, 3].map(|n| i64::from(l.u(n))))
            }),
            w("v_sad_u8 v10, v1, v2, v3", |l| {
                sum_of_differences(l.u(1), l.u(2)).wrapping_add(l.u(3))
            }),
            w("v_sad_hi_u8 v10, v1, v2, v3", |l| {
                (sum_of_differences(l.u(1), l.u(2)) << 16).wrapping_add(l.u(3))
            }),
            w("v_sad_u16 v10, v1, v2, v3", |l| {
                let sum = l.lo(1).abs_diff(l.lo(2)) + l.hi(1).abs_diff(l.hi(2));
                sum.wrapping_add(l.u(3))
            }),
            w("v_sad_u32 v10, v1, v2, v3", |l| {
                l.u(1).abs_diff(l.u(2)).wrapping_add(l.u(3))
            }),
            w("v_msad_u8 v10, v1, v2, v3", |l| {
                let (a, b) = (bytes(l.u(1)), bytes(l.u(2)));
                let used = (0..4).filter(|&n| b[n] != 0);
                let sum: u64 = used.map(|n| (a[n] - b[n]).unsigned_abs()).sum();
                (sum as u32).wrapping_add(l.u(3))
            }),
            w("v_perm_b32 v10, v1, v2, v3", permuted),
            w("v_perm_b32 v10, v1, v2, s16", |l| {
                let mut state = l.state.clone();
                state.v[3] = [l.state.s[16]; 64];
                permuted(state.lane(l.lane))
            }),
            w(
                "s_mov_b32 s16, 0x0c0d0802\n v_perm_b32 v10, v1, v2, s16",
                |l| {
                    let byte = l.u(2) >> 16 & 0xff;
                    let sign = if l.u(2) >> 15 & 1 != 0 { 0xff } else { 0 };
                    byte | sign << 8 | 0xff << 16
                },
            ),
            w("v_xad_u32 v10, v1, v2, v3", |l| {
                (l.u(1) ^ l.u(2)).wrapping_add(l.u(3))
            }),
            w("v_lshl_add_u32 v10, v1, v2, v3", |l| {
                (l.u(1) << (l.u(2) % 32)).wrapping_add(l.u(3))
            }),
            w("v_add_lshl_u32 v10, v1, v2, v3", |l| {
                l.u(1).wrapping_add(l.u(2)) << (l.u(3) % 32)
            }),
            w("v_add3_u32 v10, v1, v2, v3", |l| {
                (u64::from(l.u(1)) + u64::from(l.u(2)) + u64::from(l.u(3))) as u32
            }),
            w("v_lshl_or_b32 v10, v1, v2, v3", |l| {
                l.u(1) << (l.u(2) % 32) | l.u(3)
            }),
            w("v_and_or_b32 v10, v1, v2, v3", |l| l.u(1) & l.u(2) | l.u(3)),
            w("v_or3_b32 v10, v1, v2, v3", |l| l.u(1) | l.u(2) | l.u(3)),
            w("v_cndmask_b32 v10, v1, v2, vcc", |l| {
                if l.vcc() {
                    l.u(2)
                } else {
                    l.u(1)
                }
            }),
            w("v_cndmask_b32 v10, v1, v2, s[16:17]", |l| {
                if l.state.s64(16) >> l.lane & 1 != 0 {
                    l.u(2)
                } else {
                    l.u(1)
                }
            }),
            w("v_cndmask_b32 v10, -v1, |v2|, vcc", |l| {
                if l.vcc() {
                    l.u(2) & 0x7fff_ffff
                } else {
                    l.u(1) ^ 0x8000_0000
                }
            }),
        ],
    );
}

/// v10 and VCC: sum or difference with carry.
fn carry(asm: &'static str, f: impl Fn(Lane<'_>) -> i128 + 'static) -> Case {
    case(asm, move |before, after| {
        for n in 0..64 {
            let r = f(before.lane(n));
            let over = !(0..=0xffff_ffff).contains(&r);
            let got = (after.v[10][n], after.vcc >> n & 1 != 0);
            if got != (r as u32, over) {
                return Err(format!("lane {n}: got {got:x?}, expected {r:x}"));
            }
        }
        Ok(())
    })
}

#[test]
fn carries() {
    let u = |l: &Lane<'_>, n| i128::from(l.u(n));
    let c = |l: &Lane<'_>| i128::from(l.vcc());
    check(
        &FILLS,
        &[
            carry("v_add_co_u32 v10, vcc, v1, v2", move |l| {
                u(&l, 1) + u(&l, 2)
            }),
            carry("v_sub_co_u32 v10, vcc, v1, v2", move |l| {
                u(&l, 1) - u(&l, 2)
            }),
            carry("v_subrev_co_u32 v10, vcc, v1, v2", move |l| {
                u(&l, 2) - u(&l, 1)
            }),
            carry("v_addc_co_u32 v10, vcc, v1, v2, vcc", move |l| {
                u(&l, 1) + u(&l, 2) + c(&l)
            }),
            carry("v_subb_co_u32 v10, vcc, v1, v2, vcc", move |l| {
                u(&l, 1) - u(&l, 2) - c(&l)
            }),
            carry("v_subbrev_co_u32 v10, vcc, v1, v2, vcc", move |l| {
                u(&l, 2) - u(&l, 1) - c(&l)
            }),
            carry("v_addc_co_u32 v10, vcc, v1, v2, s[16:17]", move |l| {
                u(&l, 1) + u(&l, 2) + i128::from(l.state.s64(16) >> l.lane & 1)
            }),
            w("v_add_co_u32 v10, s[20:21], v1, v2", move |l| {
                (u(&l, 1) + u(&l, 2)) as u32
            }),
            w("v_sub_co_u32 v10, vcc, v1, v2 clamp", move |l| {
                saturate(u(&l, 1) - u(&l, 2), U32.0, U32.1)
            }),
        ],
    );
}

#[test]
fn sixty_four_bits() {
    check(
        &FILLS,
        &[
            q("v_lshlrev_b64 v[10:11], v1, v[4:5]", |l| {
                l.q(4) << (l.u(1) % 64)
            }),
            q("v_lshrrev_b64 v[10:11], v1, v[4:5]", |l| {
                l.q(4) >> (l.u(1) % 64)
            }),
            q("v_ashrrev_i64 v[10:11], v1, v[4:5]", |l| {
                (l.q(4) as i64 >> (l.u(1) % 64)) as u64
            }),
            q("v_lshl_add_u64 v[10:11], v[4:5], 3, v[6:7]", |l| {
                (l.q(4) << 3).wrapping_add(l.q(6))
            }),
            q("v_lshl_add_u64 v[10:11], s[16:17], 0, v[6:7]", |l| {
                l.state.s64(16).wrapping_add(l.q(6))
            }),
            q("v_mad_u64_u32 v[10:11], vcc, v1, v2, v[6:7]", |l| {
                (u128::from(l.u(1)) * u128::from(l.u(2)) + u128::from(l.q(6))) as u64
            }),
            vcc("v_mad_u64_u32 v[10:11], vcc, v1, v2, v[6:7]", |l| {
                u128::from(l.u(1)) * u128::from(l.u(2)) + u128::from(l.q(6)) >> 64 != 0
            }),
            q("v_mad_i64_i32 v[10:11], vcc, v1, v2, v[6:7]", |l| {
                (i128::from(l.i(1)) * i128::from(l.i(2)) + i128::from(l.q(6) as i64)) as u64
            }),
            q("v_mad_u64_u32 v[10:11], vcc, s16, s16, 0", |l| {
                u64::from(l.state.s[16]) * u64::from(l.state.s[16])
            }),
        ],
    );
}

#[test]
fn comparisons() {
    // Relation bits: less 1, equal 2, greater 4.
    let rel = |r: u8, o: std::cmp::Ordering| match o {
        std::cmp::Ordering::Less => r & 1 != 0,
        std::cmp::Ordering::Equal => r & 2 != 0,
        std::cmp::Ordering::Greater => r & 4 != 0,
    };
    let names = ["f", "lt", "eq", "le", "gt", "ne", "ge", "t"];
    let mut cases = Vec::new();
    for (r, name) in (0u8..).zip(names) {
        let text = |suffix: &str, operands: &str| -> &'static str {
            format!("v_cmp_{name}_{suffix} vcc, {operands}").leak()
        };
        cases.push(vcc(text("i32", "v1, v2"), move |l| {
            rel(r, l.i(1).cmp(&l.i(2)))
        }));
        cases.push(vcc(text("u32", "v1, v2"), move |l| {
            rel(r, l.u(1).cmp(&l.u(2)))
        }));
        cases.push(vcc(text("i16", "v1, v2"), move |l| {
            rel(r, (l.lo(1) as i16).cmp(&(l.lo(2) as i16)))
        }));
        cases.push(vcc(text("u16", "v1, v2"), move |l| {
            rel(r, l.lo(1).cmp(&l.lo(2)))
        }));
        cases.push(vcc(text("i64", "v[4:5], v[6:7]"), move |l| {
            rel(r, (l.q(4) as i64).cmp(&(l.q(6) as i64)))
        }));
        cases.push(vcc(text("u64", "v[4:5], v[6:7]"), move |l| {
            rel(r, l.q(4).cmp(&l.q(6)))
        }));
        cases.push(vcc(text("u32", "v1, v1"), move |_| r & 2 != 0));
        let x = format!("s_mov_b64 exec, s[18:19]\n v_cmpx_{name}_u32 vcc, v1, v2").leak();
        cases.push(case(x, move |before, after| {
            let bits = (0..64).filter(|&n| {
                let lane = before.lane(n);
                before.s64(18) >> n & 1 != 0 && rel(r, lane.u(1).cmp(&lane.u(2)))
            });
            let want = bits.fold(0u64, |m, n| m | 1 << n);
            if (after.vcc, after.exec) == (want, want) {
                Ok(())
            } else {
                Err(format!(
                    "vcc {:x} exec {:x}, expected {want:x}",
                    after.vcc, after.exec
                ))
            }
        }));
    }
    cases.push(case("v_cmp_lt_u32 s[24:25], v1, v2", |before, after| {
        let want = (0..64)
            .filter(|&n| before.v[1][n] < before.v[2][n])
            .fold(0, |m, n| m | 1 << n);
        if after.s64(24) == want {
            Ok(())
        } else {
            Err(format!("{:x}", after.s64(24)))
        }
    }));
    check(&FILLS, &cases);
}

#[test]
fn inactive_lanes_keep_their_values() {
    check(
        &FILLS,
        &[
            w("s_mov_b64 exec, s[18:19]\n v_add_u32 v10, v1, v2", |l| {
                l.u(1).wrapping_add(l.u(2))
            }),
            q(
                "s_mov_b64 exec, s[18:19]\n v_lshlrev_b64 v[10:11], 4, v[4:5]",
                |l| l.q(4) << 4,
            ),
            vcc("s_mov_b64 exec, s[18:19]\n v_cmp_lt_u32 vcc, v1, v2", |l| {
                l.u(1) < l.u(2)
            }),
            w("s_mov_b64 exec, 0\n v_mov_b32 v10, 7", |_| 7),
        ],
    );
}

/// Returns the sum of absolute differences of `bytes[at..at + 4]` and the bytes of `b`.
fn window(bytes: u64, at: usize, b: u32, masked: bool) -> u32 {
    let (bytes, b) = (bytes.to_le_bytes(), b.to_le_bytes());
    (0..4)
        .filter(|&n| !(masked && b[n] == 0))
        .map(|n| u32::from(bytes[at + n].abs_diff(b[n])))
        .sum()
}

#[test]
fn sliding_sums() {
    let packed = |l: Lane<'_>, masked: bool| {
        (0..4).fold(0, |out, n| {
            let part = (l.q(6) >> (16 * n)) as u32 & 0xffff;
            let sum = part + window(l.q(2), n, l.u(4), masked);
            out | u64::from(sum & 0xffff) << (16 * n)
        })
    };
    check(
        &[Fill::Bits; 4],
        &[
            q("v_qsad_pk_u16_u8 v[10:11], v[2:3], v4, v[6:7]", move |l| {
                packed(l, false)
            }),
            q("v_mqsad_pk_u16_u8 v[10:11], v[2:3], v4, v[6:7]", move |l| {
                packed(l, true)
            }),
            case(
                "v_mqsad_u32_u8 v[10:13], v[2:3], v4, v[6:9]",
                |before, after| {
                    for n in 0..64 {
                        let l = before.lane(n);
                        for k in 0..4 {
                            let sum = window(l.q(2), k, l.u(4), true);
                            let (want, got) = (l.u(6 + k).wrapping_add(sum), after.v[10 + k][n]);
                            if want != got {
                                return Err(format!("lane {n}: {got:x}, expected {want:x}"));
                            }
                        }
                    }
                    Ok(())
                },
            ),
        ],
    );
}

/// The count has three bits; more than 4 is no shift.
#[test]
fn shifted_sums() {
    check(
        &FILLS,
        &[
            q("v_lshl_add_u64 v[10:11], v[2:3], v1, v[4:5]", |l| {
                let by = match l.u(1) & 7 {
                    by @ 0..=4 => by,
                    _ => 0,
                };
                (l.q(2) << by).wrapping_add(l.q(4))
            }),
            q("v_lshl_add_u64 v[10:11], v[2:3], 5, v[4:5]", |l| {
                l.q(2).wrapping_add(l.q(4))
            }),
        ],
    );
}

/// Moves have the sign modifiers of floats, which the assembler does not know.
#[test]
fn signs_of_moves() {
    let negative = |l: Lane<'_>| l.u(1) ^ 0x8000_0000;
    let magnitude = |l: Lane<'_>| l.u(1) & 0x7fff_ffff;
    check_on(
        Target::Gfx942,
        &FILLS,
        &[
            // v_mov_b32 v10, -v1; v_mov_b32 v10, -|v1|
            w(".long 0xd141000a, 0x20000101", negative),
            w(".long 0xd141010a, 0x20000101", |l| l.u(1) | 0x8000_0000),
            // v_mov_b32_dpp v10, |v1| quad_perm:[0,1,2,3]
            w(".long 0x7e1402fa, 0xff20e401", magnitude),
            // v_mov_b64 v[10:11], -v[2:3]; v_mov_b64 v[10:11], |v[2:3]|
            q(".long 0xd178000a, 0x20000102", |l| l.q(2) ^ 1 << 63),
            q(".long 0xd178010a, 0x00000102", |l| l.q(2) & !(1 << 63)),
        ],
    );
    check_12(
        &FILLS,
        &[
            w(".long 0xd581000a, 0x20000101", negative),
            w(".long 0xd581010a, 0x00000101", magnitude),
        ],
    );
}
