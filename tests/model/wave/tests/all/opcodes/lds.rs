// SPDX-License-Identifier: GPL-2.0 OR MIT

//! DS instructions on memory. Each case writes v1.. to LDS and reads it back.

use crate::common::bench::{case, check, q, w, Case, Fill, Lane, LDS};

const FILLS: [Fill; 2] = [Fill::Bits; 2];

/// v12 is the byte offset of the lane's own 16 bytes.
const OWN: &str = "v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n \
                   v_lshlrev_b32 v12, 4, v12\n";

fn own(text: &str) -> &'static str {
    format!("{OWN} {text}\n s_waitcnt lgkmcnt(0)").leak()
}

#[test]
fn widths() {
    check(&FILLS, &[
        w(own("ds_write_b32 v12, v1\n ds_read_b32 v10, v12"), |l| l.u(1)),
        w(own("ds_write_b32 v12, v1 offset:1024\n v_add_u32 v12, 1024, v12\n ds_read_b32 v10, v12"), |l| l.u(1)),
        w(own("ds_write_b32 v12, v1\n ds_write_b8 v12, v2 offset:1\n ds_read_b32 v10, v12"), |l| {
            l.u(1) & !0xff00 | (l.u(2) & 0xff) << 8
        }),
        w(own("ds_write_b32 v12, v1\n ds_write_b16 v12, v2 offset:2\n ds_read_b32 v10, v12"), |l| {
            l.lo(1) | l.lo(2) << 16
        }),
        w(own("ds_write_b32 v12, v1\n ds_write_b8_d16_hi v12, v2\n ds_read_b32 v10, v12"), |l| {
            l.u(1) & !0xff | l.hi(2) & 0xff
        }),
        w(own("ds_write_b32 v12, v1\n ds_write_b16_d16_hi v12, v2\n ds_read_b32 v10, v12"), |l| {
            l.u(1) & 0xffff_0000 | l.hi(2)
        }),
        w(own("ds_write_b32 v12, v1\n ds_read_u8 v10, v12 offset:3"), |l| l.u(1) >> 24),
        w(own("ds_write_b32 v12, v1\n ds_read_i8 v10, v12 offset:3"), |l| (l.i(1) >> 24) as u32),
        w(own("ds_write_b32 v12, v1\n ds_read_u16 v10, v12 offset:2"), |l| l.hi(1)),
        w(own("ds_write_b32 v12, v1\n ds_read_i16 v10, v12 offset:2"), |l| (l.i(1) >> 16) as u32),
        w(own("ds_write_b32 v12, v1\n ds_read_u16_d16 v10, v12"), |l| l.hi(10) << 16 | l.lo(1)),
        w(own("ds_write_b32 v12, v1\n ds_read_u8_d16_hi v10, v12"), |l| (l.u(1) & 0xff) << 16 | l.lo(10)),
        q(own("ds_write_b64 v12, v[2:3]\n ds_read_b64 v[10:11], v12"), |l| l.q(2)),
        q(own("ds_write_b96 v12, v[2:4]\n ds_read_b64 v[10:11], v12 offset:4"), |l| l.q(3)),
        q(own("ds_write_b128 v12, v[2:5]\n ds_read_b96 v[6:8], v12\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v10, v6\n v_mov_b32 v11, v8"), |l| {
            u64::from(l.u(2)) | u64::from(l.u(4)) << 32
        }),
        q(own("ds_write_b128 v12, v[2:5]\n ds_read_b128 v[6:9], v12\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v10, v7\n v_mov_b32 v11, v9"), |l| {
            u64::from(l.u(3)) | u64::from(l.u(5)) << 32
        }),
        q(own("ds_write2_b32 v12, v1, v2 offset0:1 offset1:3\n ds_read2_b32 v[10:11], v12 offset0:3 offset1:1"), |l| {
            u64::from(l.u(2)) | u64::from(l.u(1)) << 32
        }),
        q(own("ds_write2st64_b32 v12, v1, v2 offset0:0 offset1:8\n ds_read2st64_b32 v[10:11], v12 offset0:8 offset1:0"), |l| {
            u64::from(l.u(2)) | u64::from(l.u(1)) << 32
        }),
        q(own("ds_write2_b64 v12, v[2:3], v[4:5] offset1:1\n ds_read2_b64 v[6:9], v12 offset1:1\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v10, v6\n v_mov_b32 v11, v9"), |l| {
            u64::from(l.u(2)) | u64::from(l.u(5)) << 32
        }),
        q(own("ds_write2_b32 v12, v1, v2 offset1:1\n s_waitcnt lgkmcnt(0)\n ds_wrxchg2_rtn_b32 v[10:11], v12, v3, v4 offset1:1"), |l| {
            u64::from(l.u(1)) | u64::from(l.u(2)) << 32
        }),
        // Equal offsets are one access.
        w(own("ds_write2_b32 v12, v1, v2 offset0:2 offset1:2\n ds_read_b32 v10, v12 offset:8"), |l| l.u(1)),
        q(own("ds_write2_b32 v12, v1, v2 offset1:1\n s_waitcnt lgkmcnt(0)\n ds_wrxchg2_rtn_b32 v[4:5], v12, v3, v4\n ds_read_b64 v[10:11], v12"), |l| {
            u64::from(l.u(3)) | u64::from(l.u(2)) << 32
        }),
        w(own("ds_write_b32 v12, v1\n ds_read_b32 a2, v12\n s_waitcnt lgkmcnt(0)\n v_accvgpr_read_b32 v10, a2"), |l| l.u(1)),
        // Unaligned access, as enabled by the driver.
        w(own("ds_write_b32 v12, v1 offset:1\n ds_read_b32 v10, v12 offset:1"), |l| l.u(1)),
        w("s_mov_b32 m0, 64\n ds_write_addtid_b32 v1 offset:4\n ds_read_addtid_b32 v10 offset:4\n s_waitcnt lgkmcnt(0)", |l| l.u(1)),
        w("s_mov_b32 m0, 0\n v_mov_b32 v12, 0\n v_mov_b32 v3, 7\n ds_write_b32 v12, v3 offset:8\n ds_append v9 offset:8\n ds_consume v9 offset:8\n ds_append v9 offset:8\n ds_read_b32 v10, v12 offset:8\n s_waitcnt lgkmcnt(0)", |_| 71),
    ]);
}

/// Atomic with return: v10 is the old value, then v11 the new one.
fn rmw(text: &'static str, f: impl Fn(Lane<'_>) -> u32 + 'static) -> Case {
    let asm = own(&format!(
        "ds_write_b32 v12, v1\n {text}\n ds_read_b32 v11, v12"
    ));
    let returns = text.contains("rtn");
    case(asm, move |before, after| {
        for n in 0..64 {
            let l = before.lane(n);
            let old = if returns { l.u(1) } else { l.u(10) };
            let (want, got) = ((old, f(l)), (after.v[10][n], after.v[11][n]));
            let nan = f32::from_bits(want.1).is_nan() && f32::from_bits(got.1).is_nan();
            if got != want && !(text.contains("f32") && got.0 == want.0 && nan) {
                return Err(format!("lane {n}: got {got:x?}, expected {want:x?}"));
            }
        }
        Ok(())
    })
}

#[test]
fn atomics() {
    check(
        &FILLS,
        &[
            rmw("ds_add_u32 v12, v2", |l| l.u(1).wrapping_add(l.u(2))),
            rmw("ds_add_rtn_u32 v10, v12, v2", |l| {
                l.u(1).wrapping_add(l.u(2))
            }),
            rmw("ds_sub_rtn_u32 v10, v12, v2", |l| {
                l.u(1).wrapping_sub(l.u(2))
            }),
            rmw("ds_rsub_rtn_u32 v10, v12, v2", |l| {
                l.u(2).wrapping_sub(l.u(1))
            }),
            rmw("ds_inc_rtn_u32 v10, v12, v2", |l| {
                if l.u(1) >= l.u(2) {
                    0
                } else {
                    l.u(1) + 1
                }
            }),
            rmw("ds_dec_rtn_u32 v10, v12, v2", |l| {
                if l.u(1) == 0 || l.u(1) > l.u(2) {
                    l.u(2)
                } else {
                    l.u(1) - 1
                }
            }),
            rmw("ds_min_rtn_i32 v10, v12, v2", |l| l.i(1).min(l.i(2)) as u32),
            rmw("ds_max_rtn_i32 v10, v12, v2", |l| l.i(1).max(l.i(2)) as u32),
            rmw("ds_min_rtn_u32 v10, v12, v2", |l| l.u(1).min(l.u(2))),
            rmw("ds_max_rtn_u32 v10, v12, v2", |l| l.u(1).max(l.u(2))),
            rmw("ds_and_rtn_b32 v10, v12, v2", |l| l.u(1) & l.u(2)),
            rmw("ds_or_rtn_b32 v10, v12, v2", |l| l.u(1) | l.u(2)),
            rmw("ds_xor_rtn_b32 v10, v12, v2", |l| l.u(1) ^ l.u(2)),
            rmw("ds_wrxchg_rtn_b32 v10, v12, v2", |l| l.u(2)),
            rmw("ds_mskor_rtn_b32 v10, v12, v2, v3", |l| {
                l.u(1) & !l.u(2) | l.u(3)
            }),
            rmw("ds_cmpst_rtn_b32 v10, v12, v1, v3", |l| l.u(3)),
            rmw("ds_cmpst_rtn_b32 v10, v12, v2, v3", |l| {
                if l.u(1) == l.u(2) {
                    l.u(3)
                } else {
                    l.u(1)
                }
            }),
            rmw("ds_wrap_rtn_b32 v10, v12, v2, v3", |l| {
                if l.u(1) >= l.u(2) {
                    l.u(1) - l.u(2)
                } else {
                    l.u(1).wrapping_add(l.u(3))
                }
            }),
            rmw("ds_add_f32 v12, v2", |l| (l.f(1) + l.f(2)).to_bits()),
            rmw("ds_add_rtn_f32 v10, v12, v2", |l| {
                (l.f(1) + l.f(2)).to_bits()
            }),
        ],
    );
    check(&FILLS, &[
        q(own("ds_write_b64 v12, v[2:3]\n ds_add_u64 v12, v[4:5]\n ds_read_b64 v[10:11], v12"), |l| {
            l.q(2).wrapping_add(l.q(4))
        }),
        q(own("ds_write_b64 v12, v[2:3]\n ds_add_rtn_u64 v[10:11], v12, v[4:5]"), |l| l.q(2)),
        q(own("ds_write_b64 v12, v[2:3]\n ds_max_i64 v12, v[4:5]\n ds_read_b64 v[10:11], v12"), |l| {
            (l.q(2) as i64).max(l.q(4) as i64) as u64
        }),
        q(own("ds_write_b64 v12, v[2:3]\n ds_min_u64 v12, v[4:5]\n ds_read_b64 v[10:11], v12"), |l| {
            l.q(2).min(l.q(4))
        }),
        q(own("ds_write_b64 v12, v[2:3]\n ds_cmpst_b64 v12, v[2:3], v[4:5]\n ds_read_b64 v[10:11], v12"), |l| l.q(4)),
        q(own("ds_write_b64 v12, v[2:3]\n ds_wrxchg_rtn_b64 v[10:11], v12, v[4:5]"), |l| l.q(2)),
        // Stores the dwords with bit 31 set, without it.
        q(own("ds_write_b64 v12, v[2:3]\n ds_condxchg32_rtn_b64 v[6:7], v12, v[4:5]\n ds_read_b64 v[10:11], v12"), |l| {
            let half = |old: u32, new: u32| if new >> 31 != 0 { new & 0x7fff_ffff } else { old };
            u64::from(half(l.u(2), l.u(4))) | u64::from(half(l.u(3), l.u(5))) << 32
        }),
        q(own("ds_write_b64 v12, v[2:3]\n ds_condxchg32_rtn_b64 v[10:11], v12, v[4:5]"), |l| l.q(2)),
    ]);
    // All lanes add to one cell.
    check(&FILLS, &[w(
        "v_mov_b32 v12, 0\n v_mov_b32 v11, 0\n ds_write_b32 v12, v11\n ds_add_u32 v12, v1\n ds_read_b32 v10, v12\n s_waitcnt lgkmcnt(0)",
        |l| l.state.v[1].iter().fold(0, |s, v| s.wrapping_add(*v)),
    )]);
}

#[test]
fn addresses_wrap_at_32_bits() {
    let pair = |l: Lane<'_>| u64::from(l.u(1)) | u64::from(l.u(2)) << 32;
    check(&FILLS, &[
        w(own("v_sub_u32 v12, 0, v12\n ds_write_b32 v12, v1 offset:1020\n v_add_u32 v12, 1020, v12\n ds_read_b32 v10, v12"), |l| l.u(1)),
        w(own("v_sub_u32 v12, 1020, v12\n ds_write_b32 v12, v1\n v_add_u32 v12, -1020, v12\n ds_read_b32 v10, v12 offset:1020"), |l| l.u(1)),
        w(own("v_sub_u32 v12, 1020, v12\n ds_write_b32 v12, v1\n v_add_u32 v12, -1020, v12\n ds_add_rtn_u32 v10, v12, v2 offset:1020"), |l| l.u(1)),
        q(own("v_sub_u32 v12, 0, v12\n ds_write2_b32 v12, v1, v2 offset0:254 offset1:255\n v_add_u32 v12, 1016, v12\n ds_read_b64 v[10:11], v12"), pair),
        q(own("v_sub_u32 v12, 1016, v12\n ds_write2_b32 v12, v1, v2 offset1:1\n v_add_u32 v12, -1016, v12\n ds_read2_b32 v[10:11], v12 offset0:254 offset1:255"), pair),
        // Of a pair only the offset that wraps is inside.
        q("v_mov_b32 v12, -4\n ds_write2_b32 v12, v1, v2 offset1:1\n ds_read2_b32 v[10:11], v12 offset1:1\n s_waitcnt lgkmcnt(0)", |l| {
            u64::from(l.state.v[2][63]) << 32
        }),
    ]);
}

/// v12 is the last dword of LDS, which v1 is written to.
fn end(text: &str) -> &'static str {
    let last = LDS - 4;
    format!("v_mov_b32 v12, {last:#x}\n ds_write_b32 v12, v1\n {text}\n s_waitcnt lgkmcnt(0)")
        .leak()
}

/// All lanes store to the same dword; the last lane wins.
#[test]
fn beyond_the_end_loads_return_zero_and_stores_are_dropped() {
    let last = |l: &Lane<'_>| l.state.v[1][63];
    check(&FILLS, &[
        w(end("ds_read_b32 v10, v12 offset:4"), |_| 0),
        w(end("ds_read_u16 v10, v12 offset:3"), |_| 0),
        q(end("ds_read_b64 v[10:11], v12"), |_| 0),
        q(end("ds_read2_b32 v[10:11], v12 offset0:0 offset1:1"), move |l| last(&l).into()),
        w(end("ds_write_b32 v12, v2 offset:1\n ds_write_b64 v12, v[2:3]\n ds_read_b32 v10, v12"), move |l| last(&l)),
        w(end("ds_add_u32 v12, v2 offset:4\n ds_add_rtn_u32 v10, v12, v2 offset:4"), |_| 0),
        w(end("s_mov_b32 m0, 0x2000\n ds_append v10 offset:0\n ds_read_addtid_b32 v10"), |_| 0),
        w(end("s_mov_b64 s[20:21], src_shared_base\n v_mov_b32 v9, s21\n v_add_u32 v8, 4, v12\n flat_store_dword v[8:9], v2\n flat_load_dword v10, v[8:9]\n s_waitcnt vmcnt(0)"), |_| 0),
    ]);
}
