// SPDX-License-Identifier: GPL-2.0 OR MIT

//! DPP, SDWA, and moves between lanes.

use crate::common::bench::{case, check, s, w, Case, Fill, Lane};

const FILLS: [Fill; 2] = [Fill::Bits; 2];

/// `v_mov_b32_dpp v10, v1 <control>`: `from` returns the source lane, if any.
fn dpp(control: &str, from: fn(usize) -> Option<usize>) -> Vec<Case> {
    let mut cases = Vec::new();
    let masked = |rows: u32, banks: u32, lane: usize| {
        rows >> (lane / 16) & 1 != 0 && banks >> (lane / 4 % 4) & 1 != 0
    };
    for (rows, banks) in [(15, 15), (10, 15), (15, 6)] {
        for zero in [false, true] {
            for partial in [false, true] {
                let bound = if zero { "bound_ctrl:0" } else { "" };
                let exec = if partial {
                    "s_mov_b64 exec, s[18:19]\n"
                } else {
                    ""
                };
                let asm = format!(
                    "{exec} v_mov_b32_dpp v10, v1 {control} row_mask:{rows:#x} \
                     bank_mask:{banks:#x} {bound}"
                );
                cases.push(case(asm.leak(), move |before, after| {
                    let exec = if partial { before.s64(18) } else { u64::MAX };
                    for lane in 0..64 {
                        let source = from(lane).filter(|&l| exec >> l & 1 != 0);
                        let want = match source {
                            _ if !masked(rows, banks, lane) || exec >> lane & 1 == 0 => None,
                            Some(l) => Some(before.v[1][l]),
                            None => zero.then_some(0),
                        };
                        let want = want.unwrap_or(before.v[10][lane]);
                        if after.v[10][lane] != want {
                            let got = after.v[10][lane];
                            return Err(format!("lane {lane}: got {got:x}, expected {want:x}"));
                        }
                    }
                    Ok(())
                }));
            }
        }
    }
    cases
}

#[test]
fn data_parallel_primitives() {
    let mut cases = Vec::new();
    cases.extend(dpp("quad_perm:[1,0,3,2]", |l| Some(l ^ 1)));
    cases.extend(dpp("quad_perm:[2,2,0,3]", |l| {
        Some(l / 4 * 4 + [2, 2, 0, 3][l % 4])
    }));
    cases.extend(dpp("row_shl:1", |l| (l % 16 < 15).then_some(l + 1)));
    cases.extend(dpp("row_shl:15", |l| (l % 16 == 0).then_some(l + 15)));
    cases.extend(dpp("row_shr:1", |l| (l % 16 > 0).then(|| l - 1)));
    cases.extend(dpp("row_shr:8", |l| (l % 16 > 7).then(|| l - 8)));
    cases.extend(dpp("row_ror:3", |l| Some(l / 16 * 16 + (l + 13) % 16)));
    cases.extend(dpp("wave_shl:1", |l| (l < 63).then_some(l + 1)));
    cases.extend(dpp("wave_rol:1", |l| Some((l + 1) % 64)));
    cases.extend(dpp("wave_shr:1", |l| l.checked_sub(1)));
    cases.extend(dpp("wave_ror:1", |l| Some((l + 63) % 64)));
    cases.extend(dpp("row_mirror", |l| Some(l ^ 15)));
    cases.extend(dpp("row_half_mirror", |l| Some(l ^ 7)));
    cases.extend(dpp("row_bcast:15", |l| (l / 16 * 16).checked_sub(1)));
    cases.extend(dpp("row_bcast:31", |l| (l >= 32).then_some(31)));
    cases.extend(dpp("row_newbcast:5", |l| Some(l / 16 * 16 + 5)));
    check(&FILLS, &cases);
}

#[test]
fn dpp_in_arithmetic() {
    let shifted = |l: &Lane<'_>| l.state.v[1][l.lane.saturating_sub(1)];
    check(&FILLS, &[
        w("v_add_u32_dpp v10, v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf", move |l| {
            if l.lane % 16 == 0 { l.u(10) } else { shifted(&l).wrapping_add(l.u(2)) }
        }),
        w("v_and_b32 v1, 0x7fffff, v1\n v_and_b32 v2, 0x7fffff, v2\n v_sub_f32_dpp v10, -v1, |v2| quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf", |l| {
            let f = |v: u32| f32::from_bits(v & 0x7f_ffff);
            (-f(l.state.v[1][l.lane & !3]) - f(l.u(2))).to_bits()
        }),
        // A prefix sum over a row, as compilers emit it.
        w("v_mov_b32 v10, v1\n\
           v_add_u32_dpp v10, v10, v10 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0\n\
           v_add_u32_dpp v10, v10, v10 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0\n\
           v_add_u32_dpp v10, v10, v10 row_shr:4 row_mask:0xf bank_mask:0xf bound_ctrl:0\n\
           v_add_u32_dpp v10, v10, v10 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:0", |l| {
            let row = l.lane / 16 * 16;
            (row..=l.lane).fold(0, |s, n| s.wrapping_add(l.state.v[1][n]))
        }),
    ]);
}

fn part(v: u32, sel: &str) -> u32 {
    match sel {
        "BYTE_0" => v & 0xff,
        "BYTE_1" => v >> 8 & 0xff,
        "BYTE_2" => v >> 16 & 0xff,
        "BYTE_3" => v >> 24,
        "WORD_0" => v & 0xffff,
        "WORD_1" => v >> 16,
        _ => v,
    }
}

#[test]
fn sub_dword_addressing() {
    let sels = [
        "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD",
    ];
    let mut cases = Vec::new();
    for (n, sel) in sels.into_iter().enumerate() {
        let other = sels[(n + 3) % 7];
        let asm = format!(
            "v_add_u32_sdwa v10, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{sel} \
             src1_sel:{other}"
        );
        cases.push(w(asm.leak(), move |l| {
            part(l.u(1), sel).wrapping_add(part(l.u(2), other))
        }));
        let asm = format!(
            "v_mov_b32_sdwa v10, sext(v1) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{sel}"
        );
        cases.push(w(asm.leak(), move |l| {
            let v = part(l.u(1), sel);
            match sel.as_bytes()[0] {
                b'B' => v as u8 as i8 as u32,
                b'W' => v as u16 as i16 as u32,
                _ => v,
            }
        }));
        for unused in ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"] {
            let asm = format!(
                "v_add_u32_sdwa v10, v1, v2 dst_sel:{sel} dst_unused:{unused} src0_sel:DWORD \
                 src1_sel:DWORD"
            );
            cases.push(w(asm.leak(), move |l| {
                let sum = l.u(1).wrapping_add(l.u(2));
                let (shift, bits) = match n {
                    0..=3 => (8 * n, 8),
                    4 | 5 => (16 * (n - 4), 16),
                    _ => return sum,
                };
                let value = u64::from(sum) & ((1 << bits) - 1);
                let placed = value << shift;
                let field = ((1u64 << bits) - 1) << shift;
                match unused {
                    "UNUSED_PAD" => placed as u32,
                    "UNUSED_SEXT" if value >> (bits - 1) != 0 => {
                        (placed | !((1u64 << (shift + bits)) - 1)) as u32
                    }
                    "UNUSED_SEXT" => placed as u32,
                    _ => l.u(10) & !(field as u32) | placed as u32,
                }
            }));
        }
    }
    cases.push(w(
        "v_and_b32_sdwa v10, s16, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 \
         src1_sel:WORD_1",
        |l| l.state.s[16] >> 8 & 0xff & l.hi(2),
    ));
    cases.push(case(
        "v_cmp_eq_u32_sdwa s[24:25], v1, v1 src0_sel:BYTE_0 src1_sel:BYTE_1",
        |b, a| {
            let bits = (0..64).filter(|&n| b.v[1][n] & 0xff == b.v[1][n] >> 8 & 0xff);
            let want = bits.fold(0u64, |m, n| m | 1 << n);
            if a.s64(24) == want {
                Ok(())
            } else {
                Err(format!("{:x} {want:x}", a.s64(24)))
            }
        },
    ));
    check(&FILLS, &cases);
}

#[test]
fn lanes() {
    check(
        &FILLS,
        &[
            s("v_readfirstlane_b32 s24, v1", |x| (x.v[1][0], None)),
            s("s_mov_b64 exec, 0x30\n v_readfirstlane_b32 s24, v1", |x| {
                (x.v[1][4], None)
            }),
            s("s_mov_b64 exec, 0\n v_readfirstlane_b32 s24, v1", |x| {
                (x.v[1][0], None)
            }),
            s("v_readlane_b32 s24, v1, 37", |x| (x.v[1][37], None)),
            s("s_mov_b64 exec, 0\n v_readlane_b32 s24, v1, s16", |x| {
                (x.v[1][(x.s[16] % 64) as usize], None)
            }),
            case(
                "s_mov_b64 exec, 0\n v_writelane_b32 v10, s16, 9",
                |before, after| {
                    let mut want = before.v[10];
                    want[9] = before.s[16];
                    if after.v[10] == want {
                        Ok(())
                    } else {
                        Err("v10 differs".into())
                    }
                },
            ),
            case(
                "s_mov_b32 m0, 21\n v_writelane_b32 v10, 5, m0",
                |before, after| {
                    let mut want = before.v[10];
                    want[21] = 5;
                    if after.v[10] == want {
                        Ok(())
                    } else {
                        Err("v10 differs".into())
                    }
                },
            ),
            w("v_mbcnt_lo_u32_b32 v10, s16, v2", |l| {
                let below = (0..l.lane.min(32))
                    .filter(|n| l.state.s[16] >> n & 1 != 0)
                    .count();
                (below as u32).wrapping_add(l.u(2))
            }),
            w(
                "v_mbcnt_lo_u32_b32 v10, -1, 0\n v_mbcnt_hi_u32_b32 v10, -1, v10",
                |l| l.lane as u32,
            ),
            w(
                "v_mbcnt_lo_u32_b32 v10, vcc_lo, 0\n v_mbcnt_hi_u32_b32 v10, vcc_hi, v10",
                |l| (0..l.lane).filter(|n| l.state.vcc >> n & 1 != 0).count() as u32,
            ),
            w(
                "ds_swizzle_b32 v10, v1 offset:swizzle(QUAD_PERM,3,2,1,0)\n s_waitcnt lgkmcnt(0)",
                |l| l.state.v[1][l.lane ^ 3],
            ),
            w(
                "ds_swizzle_b32 v10, v1 offset:swizzle(SWAP,16)\n s_waitcnt lgkmcnt(0)",
                |l| l.state.v[1][l.lane ^ 16],
            ),
            w(
                "ds_swizzle_b32 v10, v1 offset:swizzle(BROADCAST,8,3)\n s_waitcnt lgkmcnt(0)",
                |l| l.state.v[1][l.lane / 8 * 8 + 3],
            ),
            w(
                "ds_swizzle_b32 v10, v1 offset:swizzle(REVERSE,32)\n s_waitcnt lgkmcnt(0)",
                |l| l.state.v[1][l.lane ^ 31],
            ),
            // FFT: without a mask the bits of the lane are reversed.
            w(
                "ds_swizzle_b32 v10, v1 offset:0xe000\n s_waitcnt lgkmcnt(0)",
                |l| {
                    let from = (l.lane as u32 & 31).reverse_bits() >> 27;
                    l.state.v[1][l.lane & 32 | from as usize]
                },
            ),
            // The lowest bits are reversed, the bits in the mask stay.
            w(
                "ds_swizzle_b32 v10, v1 offset:0xe010\n s_waitcnt lgkmcnt(0)",
                |l| {
                    let from = (l.lane as u32 & 15).reverse_bits() >> 28;
                    l.state.v[1][l.lane & 48 | from as usize]
                },
            ),
            w(
                "ds_swizzle_b32 v10, v1 offset:0xe01f\n s_waitcnt lgkmcnt(0)",
                |l| l.u(1),
            ),
            w(
                "ds_bpermute_b32 v10, v1, v2 offset:4\n s_waitcnt lgkmcnt(0)",
                |l| l.state.v[2][(l.u(1).wrapping_add(4) / 4 % 64) as usize],
            ),
            w(
                "s_mov_b64 exec, s[18:19]\n ds_bpermute_b32 v10, v1, v2\n s_waitcnt lgkmcnt(0)",
                |l| {
                    let from = (l.u(1) / 4 % 64) as usize;
                    if l.state.s64(18) >> from & 1 != 0 {
                        l.state.v[2][from]
                    } else {
                        0
                    }
                },
            ),
            w("ds_permute_b32 v10, v1, v2\n s_waitcnt lgkmcnt(0)", |l| {
                let to = |n: usize| (l.state.v[1][n] / 4 % 64) as usize;
                (0..64)
                    .rev()
                    .find(|&n| to(n) == l.lane)
                    .map_or(0, |n| l.state.v[2][n])
            }),
        ],
    );
}
