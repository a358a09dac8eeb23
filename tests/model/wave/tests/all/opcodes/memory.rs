// SPDX-License-Identifier: GPL-2.0 OR MIT

//! GLOBAL, FLAT, SCRATCH and MUBUF. s[12:13] is the address of memory for the case.

use crate::common::bench::{
    case, check, q, s, state, w, Bench, Case, Fill, Lane, State, PRIVATE, SPACE,
};
use gpu_wave::{Fault, FaultKind, Stop};

const FILLS: [Fill; 2] = [Fill::Bits; 2];

/// v12: offset of the lane's 16 bytes; v[8:9]: their address; v[6:7]: the same as flat LDS.
const OWN: &str = "v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n \
                   v_lshlrev_b32 v12, 4, v12\n v_mov_b32 v9, s13\n \
                   v_add_co_u32 v8, vcc, s12, v12\n v_addc_co_u32 v9, vcc, 0, v9, vcc\n";

fn own(text: &str) -> &'static str {
    format!("{OWN} {text}\n s_waitcnt vmcnt(0) lgkmcnt(0)").leak()
}

fn byte(l: &Lane<'_>, at: usize) -> u32 {
    u32::from(l.state.space[16 * l.lane + at])
}

fn dword(l: &Lane<'_>, at: usize) -> u32 {
    (0..4).fold(0, |v, n| v | byte(l, at + n) << (8 * n))
}

fn short(l: &Lane<'_>, at: usize) -> u32 {
    byte(l, at) | byte(l, at + 1) << 8
}

#[test]
fn loads() {
    check(&FILLS, &[
        w(own("global_load_ubyte v10, v12, s[12:13] offset:1"), |l| byte(&l, 1)),
        w(own("global_load_sbyte v10, v12, s[12:13] offset:1"), |l| byte(&l, 1) as i8 as u32),
        w(own("global_load_ushort v10, v12, s[12:13] offset:2"), |l| short(&l, 2)),
        w(own("global_load_sshort v10, v12, s[12:13] offset:2"), |l| short(&l, 2) as i16 as u32),
        w(own("global_load_dword v10, v12, s[12:13]"), |l| dword(&l, 0)),
        w(own("global_load_dword v10, v[8:9], off offset:4"), |l| dword(&l, 4)),
        w(own("v_add_u32 v12, 64, v12\n global_load_dword v10, v12, s[12:13] offset:-64"), |l| dword(&l, 0)),
        q(own("global_load_dwordx2 v[10:11], v12, s[12:13] offset:8"), |l| {
            u64::from(dword(&l, 8)) | u64::from(dword(&l, 12)) << 32
        }),
        q(own("global_load_dwordx3 v[2:4], v12, s[12:13] offset:4\n s_waitcnt vmcnt(0)\n v_mov_b32 v10, v2\n v_mov_b32 v11, v4"), |l| {
            u64::from(dword(&l, 4)) | u64::from(dword(&l, 12)) << 32
        }),
        q(own("global_load_dwordx4 v[2:5], v12, s[12:13]\n s_waitcnt vmcnt(0)\n v_mov_b32 v10, v3\n v_mov_b32 v11, v5"), |l| {
            u64::from(dword(&l, 4)) | u64::from(dword(&l, 12)) << 32
        }),
        // Without SRAM ECC, which the card does not report, a d16 load preserves the other half.
        w(own("global_load_short_d16 v10, v12, s[12:13]"), |l| l.hi(10) << 16 | short(&l, 0)),
        w(own("global_load_short_d16_hi v10, v12, s[12:13]"), |l| short(&l, 0) << 16 | l.lo(10)),
        w(own("global_load_ubyte_d16 v10, v12, s[12:13]"), |l| l.hi(10) << 16 | byte(&l, 0)),
        w(own("global_load_sbyte_d16_hi v10, v12, s[12:13]"), |l| (byte(&l, 0) as i8 as u32) << 16 | l.lo(10)),
        w(own("flat_load_dword v10, v[8:9] offset:8"), |l| dword(&l, 8)),
        w(own("flat_load_ubyte v10, v[8:9] offset:3"), |l| byte(&l, 3)),
        w(own("s_mov_b64 exec, s[18:19]\n global_load_dword v10, v12, s[12:13]"), |l| dword(&l, 0)),
        w(own("global_load_dword a1, v12, s[12:13]\n s_waitcnt vmcnt(0)\n v_accvgpr_read_b32 v10, a1"), |l| dword(&l, 0)),
        // Consecutive, equal and reversed addresses.
        w("v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v12, 2, v12\n global_load_dword v10, v12, s[12:13]\n s_waitcnt vmcnt(0)", |l| {
            (0..4).fold(0, |v, n| v | u32::from(l.state.space[4 * l.lane + n]) << (8 * n))
        }),
        w("v_mov_b32 v12, 20\n global_load_dword v10, v12, s[12:13]\n s_waitcnt vmcnt(0)", |l| {
            (0..4).fold(0, |v, n| v | u32::from(l.state.space[20 + n]) << (8 * n))
        }),
        w("v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_sub_u32 v12, 63, v12\n v_lshlrev_b32 v12, 2, v12\n global_load_dword v10, v12, s[12:13]\n s_waitcnt vmcnt(0)", |l| {
            (0..4).fold(0, |v, n| v | u32::from(l.state.space[4 * (63 - l.lane) + n]) << (8 * n))
        }),
    ]);
}

/// Memory after stores: `f` returns offset and bytes that each lane writes to its cell.
fn stores(text: &str, f: impl Fn(Lane<'_>) -> (usize, Vec<u8>) + 'static) -> Case {
    case(own(text), move |before, after| {
        let mut want = before.space.clone();
        for n in 0..64 {
            if after.exec >> n & 1 != 0 {
                let (at, bytes) = f(before.lane(n));
                want[16 * n + at..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        match (0..want.len()).find(|&n| want[n] != after.space[n]) {
            None => Ok(()),
            Some(n) => Err(format!("byte {n}: {:x}, not {:x}", after.space[n], want[n])),
        }
    })
}

fn words(l: &Lane<'_>, regs: std::ops::Range<usize>) -> Vec<u8> {
    regs.flat_map(|n| l.u(n).to_le_bytes()).collect()
}

#[test]
fn stores_of_every_width() {
    check(
        &FILLS,
        &[
            stores("global_store_byte v12, v1, s[12:13] offset:1", |l| {
                (1, vec![l.u(1) as u8])
            }),
            stores("global_store_byte_d16_hi v12, v1, s[12:13]", |l| {
                (0, vec![l.hi(1) as u8])
            }),
            stores("global_store_short v12, v1, s[12:13] offset:2", |l| {
                (2, words(&l, 1..2)[..2].to_vec())
            }),
            stores("global_store_short_d16_hi v12, v1, s[12:13]", |l| {
                (0, words(&l, 1..2)[2..].to_vec())
            }),
            stores("global_store_dword v12, v1, s[12:13]", |l| {
                (0, words(&l, 1..2))
            }),
            stores("global_store_dword v[8:9], v1, off offset:4", |l| {
                (4, words(&l, 1..2))
            }),
            stores("global_store_dwordx2 v12, v[2:3], s[12:13] offset:8", |l| {
                (8, words(&l, 2..4))
            }),
            stores("global_store_dwordx3 v12, v[2:4], s[12:13]", |l| {
                (0, words(&l, 2..5))
            }),
            stores("global_store_dwordx4 v12, v[2:5], s[12:13]", |l| {
                (0, words(&l, 2..6))
            }),
            stores("flat_store_dword v[8:9], v1 offset:8", |l| {
                (8, words(&l, 1..2))
            }),
            stores("flat_store_byte v[8:9], v1", |l| (0, vec![l.u(1) as u8])),
            stores(
                "s_mov_b64 exec, s[18:19]\n global_store_dword v12, v1, s[12:13]",
                |l| (0, words(&l, 1..2)),
            ),
            stores(
                "v_accvgpr_write_b32 a5, v1\n global_store_dword v12, a5, s[12:13]",
                |l| (0, words(&l, 1..2)),
            ),
        ],
    );
}

/// Global atomic with return; `f` returns the new value of the cell.
fn rmw(text: &'static str, bytes: usize, f: impl Fn(Lane<'_>, u64) -> u64 + 'static) -> Case {
    case(own(text), move |before, after| {
        for n in 0..64 {
            let l = before.lane(n);
            let load = |space: &[u8]| {
                space[16 * n..16 * n + bytes]
                    .iter()
                    .rev()
                    .fold(0, |v, &b| v << 8 | u64::from(b))
            };
            let (old, new) = (load(&before.space), load(&after.space));
            let want = f(l, old) & (u64::MAX >> (64 - 8 * bytes));
            let got = u64::from(after.v[10][n]) | u64::from(after.v[11][n]) << 32;
            let returned = got & (u64::MAX >> (64 - 8 * bytes));
            let float = text.contains("_f") || text.contains("_pk");
            if (new != want && !float) || (returned != old && text.contains("sc0")) {
                return Err(format!(
                    "lane {n}: {old:x} -> {new:x} {returned:x}, expected {want:x}"
                ));
            }
            let nan = |v: u64| {
                if bytes == 4 {
                    f32::from_bits(v as u32).is_nan()
                } else {
                    f64::from_bits(v).is_nan()
                }
            };
            if float && new != want && !(nan(new) && nan(want)) {
                return Err(format!("lane {n}: {old:x} -> {new:x}, expected {want:x}"));
            }
        }
        Ok(())
    })
}

#[test]
fn atomics() {
    let s = |v: u64| i64::from(v as u32 as i32);
    let d = |l: &Lane<'_>| u64::from(l.u(1));
    check(&FILLS, &[
        rmw("global_atomic_swap v10, v12, v1, s[12:13] sc0", 4, move |l, _| d(&l)),
        rmw("global_atomic_add v10, v12, v1, s[12:13] sc0", 4, move |l, o| o + d(&l)),
        rmw("global_atomic_add v12, v1, s[12:13]", 4, move |l, o| o + d(&l)),
        rmw("global_atomic_sub v10, v12, v1, s[12:13] sc0", 4, move |l, o| o.wrapping_sub(d(&l))),
        rmw("global_atomic_smin v10, v12, v1, s[12:13] sc0", 4, move |l, o| s(o).min(s(d(&l))) as u64),
        rmw("global_atomic_umin v10, v12, v1, s[12:13] sc0", 4, move |l, o| o.min(d(&l))),
        rmw("global_atomic_smax v10, v12, v1, s[12:13] sc0", 4, move |l, o| s(o).max(s(d(&l))) as u64),
        rmw("global_atomic_umax v10, v12, v1, s[12:13] sc0", 4, move |l, o| o.max(d(&l))),
        rmw("global_atomic_and v10, v12, v1, s[12:13] sc0", 4, move |l, o| o & d(&l)),
        rmw("global_atomic_or v10, v12, v1, s[12:13] sc0", 4, move |l, o| o | d(&l)),
        rmw("global_atomic_xor v10, v12, v1, s[12:13] sc0", 4, move |l, o| o ^ d(&l)),
        rmw("global_atomic_inc v10, v12, v1, s[12:13] sc0", 4, move |l, o| if o >= d(&l) { 0 } else { o + 1 }),
        rmw("global_atomic_dec v10, v12, v1, s[12:13] sc0", 4, move |l, o| {
            if o == 0 || o > d(&l) { d(&l) } else { o - 1 }
        }),
        rmw("global_load_dword v3, v12, s[12:13]\n s_waitcnt vmcnt(0)\n v_mov_b32 v2, v1\n global_atomic_cmpswap v10, v12, v[2:3], s[12:13] sc0", 4, move |l, _| d(&l)),
        rmw("global_atomic_cmpswap v10, v12, v[2:3], s[12:13] sc0", 4, |l, o| {
            if o == u64::from(l.u(3)) { l.u(2).into() } else { o }
        }),
        rmw("global_atomic_add_f32 v10, v12, v1, s[12:13] sc0", 4, |l, o| {
            (f32::from_bits(o as u32) + l.f(1)).to_bits().into()
        }),
        rmw("global_atomic_add_f64 v[10:11], v12, v[2:3], s[12:13] sc0", 8, |l, o| (f64::from_bits(o) + l.d(2)).to_bits()),
        rmw("global_atomic_add_x2 v[10:11], v12, v[2:3], s[12:13] sc0", 8, |l, o| o.wrapping_add(l.q(2))),
        rmw("global_atomic_swap_x2 v[10:11], v12, v[2:3], s[12:13] sc0", 8, |l, _| l.q(2)),
        rmw("global_atomic_smax_x2 v[10:11], v12, v[2:3], s[12:13] sc0", 8, |l, o| (o as i64).max(l.q(2) as i64) as u64),
        rmw("global_atomic_umin_x2 v[10:11], v12, v[2:3], s[12:13] sc0", 8, |l, o| o.min(l.q(2))),
        rmw("global_atomic_cmpswap_x2 v[10:11], v12, v[2:5], s[12:13] sc0", 8, |l, o| if o == l.q(4) { l.q(2) } else { o }),
        rmw("flat_atomic_add v10, v[8:9], v1 sc0", 4, move |l, o| o + d(&l)),
        rmw("flat_atomic_or_x2 v[10:11], v[8:9], v[2:3] sc0", 8, |l, o| o | l.q(2)),
    ]);
}

#[test]
fn scratch() {
    let slot = |text: &str| own(text);
    check(&FILLS, &[
        w(slot("scratch_store_dword off, v1, off offset:8\n scratch_load_dword v10, off, off offset:8"), |l| l.u(1)),
        w(slot("s_movk_i32 s20, 16\n scratch_store_dword off, v1, s20 offset:4\n v_mov_b32 v12, 20\n scratch_load_dword v10, v12, off"), |l| l.u(1)),
        w(slot("v_and_b32 v12, 0x70, v12\n s_movk_i32 s20, 16\n scratch_store_dword v12, v1, s20\n scratch_load_dword v10, v12, off offset:16"), |l| l.u(1)),
        q(slot("scratch_store_dwordx4 off, v[2:5], off offset:16\n scratch_load_dwordx2 v[10:11], off, off offset:24"), |l| l.q(4)),
        q(slot("scratch_store_dwordx3 off, v[2:4], off offset:16\n scratch_load_dwordx2 v[10:11], off, off offset:20"), |l| l.q(3)),
        w(slot("scratch_store_dword off, v1, off\n scratch_store_byte off, v2, off offset:2\n scratch_store_short off, v3, off\n scratch_load_dword v10, off, off"), |l| {
            l.u(1) & 0xff00_0000 | (l.u(2) & 0xff) << 16 | l.lo(3)
        }),
        w(slot("scratch_store_dword off, v1, off\n scratch_load_sbyte v10, off, off offset:3"), |l| (l.i(1) >> 24) as u32),
        w(slot("scratch_store_dword off, v1, off\n scratch_load_ushort v10, off, off offset:2"), |l| l.hi(1)),
        q(slot("scratch_store_dwordx2 off, v[2:3], off offset:3\n scratch_load_dwordx2 v[10:11], off, off offset:3"), |l| l.q(2)),
        // Through the flat scratch window.
        w(slot("scratch_store_dword off, v1, off offset:12\n s_mov_b64 s[20:21], src_private_base\n v_mov_b32 v8, 12\n v_mov_b32 v9, s21\n flat_load_dword v10, v[8:9]"), |l| l.u(1)),
        w(slot("s_mov_b64 s[20:21], src_private_base\n v_mov_b32 v8, 12\n v_mov_b32 v9, s21\n flat_store_dword v[8:9], v1\n scratch_load_dword v10, off, off offset:12"), |l| l.u(1)),
    ]);
}

#[test]
fn flat_lds() {
    let lds = "s_mov_b64 s[20:21], src_shared_base\n v_mov_b32 v8, v12\n v_mov_b32 v9, s21\n";
    let asm = |text: &str| own(&format!("{lds} {text}"));
    check(&FILLS, &[
        w(asm("flat_store_dword v[8:9], v1\n s_waitcnt vmcnt(0) lgkmcnt(0)\n ds_read_b32 v10, v12"), |l| l.u(1)),
        w(asm("ds_write_b32 v12, v1\n s_waitcnt lgkmcnt(0)\n flat_load_ushort v10, v[8:9] offset:2"), |l| l.hi(1)),
        w(asm("ds_write_b32 v12, v1\n s_waitcnt lgkmcnt(0)\n flat_atomic_add v[8:9], v2\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v10, v12"), |l| l.u(1).wrapping_add(l.u(2))),
        w(asm("ds_write_b32 v12, v1\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v3, v1\n flat_atomic_cmpswap v[8:9], v[2:3]\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v10, v12"), |l| l.u(2)),
    ]);
}

#[test]
fn loads_to_lds() {
    let filled = |resource: &str| {
        buffer(resource, "v_lshrrev_b32 v13, 2, v12\n ds_write_b32 v13, v1\n s_mov_b32 m0, 0\n s_waitcnt lgkmcnt(0)\n \
            buffer_load_dword v12, s[20:23], 0 offen lds\n s_waitcnt vmcnt(0)\n ds_read_b32 v10, v13")
    };
    check(&FILLS, &[
        // Out of bounds of the buffer: zero.
        w(filled(RAW), |l| if l.lane < 32 { dword(&l, 0) } else { 0 }),
        w("v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v11, 4, v12\n v_lshlrev_b32 v12, 2, v12\n s_movk_i32 m0, 0x200\n global_load_lds_dword v11, s[12:13]\n s_waitcnt vmcnt(0)\n ds_read_b32 v10, v12 offset:0x200\n s_waitcnt lgkmcnt(0)", |l| dword(&l, 0)),
        w("v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v11, 4, v12\n v_lshlrev_b32 v12, 2, v12\n s_movk_i32 m0, 0x200\n global_load_lds_ubyte v11, s[12:13]\n s_waitcnt vmcnt(0)\n ds_read_b32 v10, v12 offset:0x200\n s_waitcnt lgkmcnt(0)", |l| byte(&l, 0)),
    ]);
}

/// s[20:23]: a raw buffer of 512 bytes.
const RAW: &str = "s_mov_b32 s20, s12\n s_mov_b32 s21, s13\n s_movk_i32 s22, 0x200\n \
                   s_mov_b32 s23, 0x20000\n";
/// The same with a stride of 16 and 20 records.
const STRIDE: &str = "s_mov_b32 s20, s12\n s_or_b32 s21, s13, 0x100000\n s_movk_i32 s22, 20\n \
                      s_mov_b32 s23, 0x20000\n";

fn buffer(resource: &str, text: &str) -> &'static str {
    own(&format!("{resource} v_lshrrev_b32 v13, 4, v12\n {text}"))
}

#[test]
fn buffers() {
    let inside = |l: &Lane<'_>| l.lane < 32;
    check(
        &FILLS,
        &[
            w(
                buffer(RAW, "buffer_load_dword v10, v12, s[20:23], 0 offen"),
                move |l| {
                    if inside(&l) {
                        dword(&l, 0)
                    } else {
                        0
                    }
                },
            ),
            w(
                buffer(
                    RAW,
                    "s_movk_i32 s19, 4\n buffer_load_dword v10, v12, s[20:23], s19 offen offset:4",
                ),
                move |l| {
                    if inside(&l) {
                        dword(&l, 8)
                    } else {
                        0
                    }
                },
            ),
            w(
                buffer(
                    RAW,
                    "buffer_load_ubyte v10, v12, s[20:23], 0 offen offset:3",
                ),
                move |l| {
                    if inside(&l) {
                        byte(&l, 3)
                    } else {
                        0
                    }
                },
            ),
            w(
                buffer(RAW, "buffer_load_dword v10, off, s[20:23], 0 offset:16"),
                |l| (0..4).fold(0, |v, n| v | u32::from(l.state.space[16 + n]) << (8 * n)),
            ),
            q(
                buffer(RAW, "buffer_load_dwordx2 v[10:11], v12, s[20:23], 0 offen"),
                move |l| {
                    if inside(&l) {
                        u64::from(dword(&l, 0)) | u64::from(dword(&l, 4)) << 32
                    } else {
                        0
                    }
                },
            ),
            w(
                buffer(
                    STRIDE,
                    "buffer_load_dword v10, v13, s[20:23], 0 idxen offset:8",
                ),
                |l| {
                    if l.lane < 20 {
                        dword(&l, 8)
                    } else {
                        0
                    }
                },
            ),
            case(
                buffer(RAW, "buffer_store_dword v1, v12, s[20:23], 0 offen"),
                |before, after| {
                    let mut want = before.space.clone();
                    for n in 0..32 {
                        want[16 * n..16 * n + 4].copy_from_slice(&before.v[1][n].to_le_bytes());
                    }
                    if after.space == want {
                        Ok(())
                    } else {
                        Err("memory differs".into())
                    }
                },
            ),
            case(
                buffer(RAW, "buffer_atomic_add v1, v12, s[20:23], 0 offen"),
                |before, after| {
                    let mut want = before.space.clone();
                    for n in 0..32 {
                        let sum = dword(&before.lane(n), 0).wrapping_add(before.v[1][n]);
                        want[16 * n..16 * n + 4].copy_from_slice(&sum.to_le_bytes());
                    }
                    if after.space == want {
                        Ok(())
                    } else {
                        Err("memory differs".into())
                    }
                },
            ),
            // The end of 508 bytes in the cell of lane 31: dwords are in bounds one by one.
            q(
                buffer(
                    RAW,
                    "s_movk_i32 s22, 0x1fc\n buffer_load_dwordx4 v[2:5], v12, s[20:23], 0 offen\n \
                     s_waitcnt vmcnt(0)\n v_mov_b32 v10, v4\n v_mov_b32 v11, v5",
                ),
                move |l| match l.lane {
                    0..=30 => u64::from(dword(&l, 8)) | u64::from(dword(&l, 12)) << 32,
                    31 => dword(&l, 8).into(),
                    _ => 0,
                },
            ),
            case(
                buffer(
                    RAW,
                    "s_movk_i32 s22, 0x1fc\n buffer_store_dwordx3 v[2:4], v12, s[20:23], 0 offen offset:4",
                ),
                |before, after| {
                    let mut want = before.space.clone();
                    for n in 0..32 {
                        for k in 0..if n == 31 { 2 } else { 3 } {
                            let value = before.v[2 + k][n].to_le_bytes();
                            want[16 * n + 4 + 4 * k..][..4].copy_from_slice(&value);
                        }
                    }
                    if after.space == want {
                        Ok(())
                    } else {
                        Err("memory differs".into())
                    }
                },
            ),
            // An atomic is in bounds as a whole.
            q(
                buffer(
                    RAW,
                    "s_movk_i32 s22, 0x1fc\n v_mov_b32 v10, v2\n v_mov_b32 v11, v3\n \
                     buffer_atomic_add_x2 v[10:11], v12, s[20:23], 0 offen offset:8 sc0",
                ),
                |l| match l.lane {
                    0..=30 => u64::from(dword(&l, 8)) | u64::from(dword(&l, 12)) << 32,
                    _ => 0,
                },
            ),
            w("buffer_wbl2 sc1\n buffer_inv sc1\n v_mov_b32 v10, 3", |_| 3),
        ],
    );
}

fn stops(asm: &str) -> Stop {
    let bench = Bench::new([asm].into_iter());
    bench
        .run(0, &state(1, Fill::Bits), 0)
        .err()
        .unwrap_or_else(|| panic!("{asm}: no stop"))
}

#[test]
fn faults() {
    let far = SPACE - 0x1000_0000;
    let load = |op: &str| {
        stops(&format!(
            "v_mov_b32 v8, {:#x}\n v_mov_b32 v9, {:#x}\n {op}",
            far as u32,
            far >> 32
        ))
    };
    let expected = Fault {
        va: far,
        kind: FaultKind::NotPresent,
        retry: false,
    };
    for (op, is_write) in [
        ("global_load_dword v10, v[8:9], off", false),
        ("flat_load_dwordx4 v[2:5], v[8:9]", false),
        ("global_store_dword v[8:9], v1, off", true),
        ("global_atomic_add v[8:9], v1, off", true),
    ] {
        match load(op) {
            Stop::Fault { fault, write, .. } => assert_eq!((fault, write), (expected, is_write)),
            other => panic!("{op}: {other}"),
        }
    }
    let misaligned = "v_mov_b32 v12, 2\n global_atomic_add v12, v1, s[12:13]";
    match stops(misaligned) {
        Stop::Fault { fault, .. } => assert_eq!(fault.kind, FaultKind::Misaligned),
        other => panic!("{other}"),
    }
    let scratch = format!("v_mov_b32 v12, {PRIVATE}\n scratch_load_dword v10, v12, off");
    assert!(matches!(stops(&scratch), Stop::Violation { .. }));
    assert!(matches!(stops("s_trap 3"), Stop::Trap { id: 3, .. }));
    assert!(matches!(stops("s_sethalt 1"), Stop::Halted { .. }));
    assert!(matches!(stops("v_mov_b32 v48, 0"), Stop::Violation { .. }));
    assert!(matches!(stops("s_mov_b32 s50, 0"), Stop::Violation { .. }));
    assert!(matches!(
        stops("v_accvgpr_write_b32 a16, 0"),
        Stop::Violation { .. }
    ));
    assert!(matches!(
        stops("s_mov_b32 flat_scratch_lo, 0"),
        Stop::Violation { .. }
    ));
    assert!(matches!(
        stops("s_mov_b32 s20, ttmp3"),
        Stop::Violation { .. }
    ));
    match stops(".long 0xbf9f0000") {
        Stop::IllegalInstruction { words, text, .. } => {
            assert_eq!(words, [0xbf9f_0000, 0]);
            assert!(text.contains("SOPP opcode 0x1f"), "{text}");
        }
        other => panic!("{other}"),
    }
}

/// Scalar atomic on the cell at offset 16, with `s[24:27]` from `s[16:19]`; `f` returns the new
/// value.
fn scalar(text: &str, bytes: usize, f: impl Fn(u64, &State) -> u64 + 'static) -> Case {
    let asm = format!(
        "s_mov_b64 s[24:25], s[16:17]\n s_mov_b64 s[26:27], s[18:19]\n \
         s_mov_b64 s[20:21], s[12:13]\n s_movk_i32 s22, 24\n s_mov_b32 s23, 0\n {text}\n \
         s_waitcnt lgkmcnt(0)"
    );
    let returns = text.contains("glc");
    case(asm.leak(), move |before, after| {
        let cell = |st: &State| {
            let bytes = st.space[16..16 + bytes].iter().rev();
            bytes.fold(0, |v, &b| v << 8 | u64::from(b))
        };
        let all = u64::MAX >> (64 - 8 * bytes);
        let (old, new) = (cell(before), cell(after));
        let want = f(old, before) & all;
        let operand = before.s64(16) & all;
        let returned = after.s64(24) & all;
        let wanted = if returns { old } else { operand };
        if (new, returned) == (want, wanted) && after.space[24..] == before.space[24..] {
            return Ok(());
        }
        Err(format!(
            "{old:x} -> {new:x} {returned:x}, expected {want:x} {wanted:x}"
        ))
    })
}

#[test]
fn scalar_atomics() {
    let d = |st: &State| u64::from(st.s[16]);
    let s = |v: u64| i64::from(v as u32 as i32);
    let sd = |st: &State| i64::from(st.s[16] as i32);
    check(&FILLS, &[
        scalar("s_atomic_swap s24, s[12:13], 0x10 glc", 4, move |_, st| d(st)),
        scalar("s_atomic_add s24, s[12:13], 0x10 glc", 4, move |o, st| o + d(st)),
        scalar("s_atomic_add s24, s[12:13], 0x10", 4, move |o, st| o + d(st)),
        scalar("s_atomic_sub s24, s[12:13], 0x10 glc", 4, move |o, st| o.wrapping_sub(d(st))),
        scalar("s_atomic_smin s24, s[12:13], 0x10 glc", 4, move |o, st| s(o).min(sd(st)) as u64),
        scalar("s_atomic_umin s24, s[12:13], 0x10 glc", 4, move |o, st| o.min(d(st))),
        scalar("s_atomic_smax s24, s[12:13], 0x10 glc", 4, move |o, st| s(o).max(sd(st)) as u64),
        scalar("s_atomic_umax s24, s[12:13], 0x10 glc", 4, move |o, st| o.max(d(st))),
        scalar("s_atomic_and s24, s[12:13], 0x10 glc", 4, move |o, st| o & d(st)),
        scalar("s_atomic_or s24, s[12:13], 0x10 glc", 4, move |o, st| o | d(st)),
        scalar("s_atomic_xor s24, s[12:13], 0x10 glc", 4, move |o, st| o ^ d(st)),
        scalar("s_atomic_inc s24, s[12:13], 0x10 glc", 4, move |o, st| if o >= d(st) { 0 } else { o + 1 }),
        scalar("s_atomic_dec s24, s[12:13], 0x10 glc", 4, move |o, st| {
            if o == 0 || o > d(st) { d(st) } else { o - 1 }
        }),
        scalar("s_atomic_cmpswap s[24:25], s[12:13], 0x10 glc", 4, |o, st| {
            if o == u64::from(st.s[17]) { st.s[16].into() } else { o }
        }),
        scalar("s_load_dword s25, s[12:13], 0x10\n s_waitcnt lgkmcnt(0)\n s_atomic_cmpswap s[24:25], s[12:13], 0x10 glc", 4, move |_, st| d(st)),
        scalar("s_atomic_add_x2 s[24:25], s[12:13], 0x10 glc", 8, |o, st| o.wrapping_add(st.s64(16))),
        scalar("s_atomic_umax_x2 s[24:25], s[12:13], 0x10 glc", 8, |o, st| o.max(st.s64(16))),
        scalar("s_atomic_smin_x2 s[24:25], s[12:13], 0x10 glc", 8, |o, st| (o as i64).min(st.s64(16) as i64) as u64),
        scalar("s_load_dwordx2 s[26:27], s[12:13], 0x10\n s_waitcnt lgkmcnt(0)\n s_atomic_cmpswap_x2 s[24:27], s[12:13], 0x10 glc", 8, |_, st| st.s64(16)),
        scalar("s_buffer_atomic_add s24, s[20:23], 0x10 glc", 4, move |o, st| o + d(st)),
        scalar("s_buffer_atomic_or_x2 s[24:25], s[20:23], 0x10 glc", 8, |o, st| o | st.s64(16)),
        // Beyond the 24 bytes: dropped, and returns zero.
        scalar("s_buffer_atomic_add s24, s[20:23], 0x18", 4, |o, _| o),
        scalar("s_buffer_atomic_add_x2 s[24:25], s[20:23], 0x18", 8, |o, _| o),
    ]);
    let zero = "s_mov_b64 s[20:21], s[12:13]\n s_movk_i32 s22, 24\n s_mov_b32 s23, 0\n \
                s_mov_b32 s24, 5\n s_buffer_atomic_add s24, s[20:23], 0x18 glc\n s_waitcnt lgkmcnt(0)";
    check(
        &FILLS,
        &[case(zero, |_, after| match after.s[24] {
            0 => Ok(()),
            value => Err(format!("{value:x} returned")),
        })],
    );
    match stops("s_atomic_add s24, s[12:13], 0x2") {
        Stop::Fault { fault, write, .. } => {
            assert_eq!((fault.kind, write), (FaultKind::Misaligned, true));
        }
        other => panic!("{other}"),
    }
    match stops("s_sub_u32 s13, s13, 1\n s_atomic_add s24, s[12:13], 0x10") {
        Stop::Fault { fault, .. } => assert_eq!(fault.kind, FaultKind::NotPresent),
        other => panic!("{other}"),
    }
}

/// The scalar register of scratch accesses counts cells of 64 bytes.
#[test]
fn scalar_scratch() {
    let at = |st: &State, at: usize| u32::from_le_bytes(st.space[at..at + 4].try_into().unwrap());
    let load = "s_mov_b32 s20, 1\n s_scratch_load_dword s24, s[12:13], s20\n s_waitcnt lgkmcnt(0)";
    let store =
        "s_mov_b32 s20, 2\n s_scratch_store_dword s16, s[12:13], s20\n s_waitcnt lgkmcnt(0)";
    check(
        &FILLS,
        &[
            case(load, move |before, after| {
                match after.s[24] == at(before, 64) {
                    true => Ok(()),
                    false => Err(format!("{:x}", after.s[24])),
                }
            }),
            case(store, move |before, after| {
                match at(after, 128) == before.s[16] {
                    true => Ok(()),
                    false => Err("not stored".into()),
                }
            }),
        ],
    );
}

/// Bounds by the resource of gfx9: with index and stride records, else bytes, without the scalar
/// offset; none with the thread id in place of an index.
#[test]
fn buffer_bounds() {
    let with = |stride: u32, records: u32, word3: u32, text: &str| {
        let resource = format!(
            "s_mov_b32 s20, s12\n s_or_b32 s21, s13, {:#x}\n s_movk_i32 s22, {records}\n \
             s_mov_b32 s23, {word3:#x}\n",
            stride << 16
        );
        buffer(&resource, text)
    };
    let below = |l: &Lane<'_>, limit: usize, value: u32| if l.lane < limit { value } else { 0 };
    let format = 4 << 15;
    check(
        &FILLS,
        &[
            // A stride without an index: bytes.
            w(
                with(
                    16,
                    320,
                    format,
                    "buffer_load_dword v10, v12, s[20:23], 0 offen",
                ),
                move |l| below(&l, 20, dword(&l, 0)),
            ),
            w(
                with(
                    16,
                    20,
                    format,
                    "buffer_load_dword v10, v13, s[20:23], 0 idxen offset:4",
                ),
                move |l| below(&l, 20, dword(&l, 4)),
            ),
            // An index without a stride: bytes, all at the same offset.
            w(
                with(
                    0,
                    8,
                    format,
                    "buffer_load_dword v10, v13, s[20:23], 0 idxen offset:8",
                ),
                |_| 0,
            ),
            w(
                with(
                    0,
                    12,
                    format,
                    "buffer_load_dword v10, v13, s[20:23], 0 idxen offset:8",
                ),
                |l| (0..4).fold(0, |v, n| v | u32::from(l.state.space[8 + n]) << (8 * n)),
            ),
            // The scalar offset is not checked.
            w(
                with(
                    0,
                    320,
                    format,
                    "s_movk_i32 s19, 8\n buffer_load_dword v10, v12, s[20:23], s19 offen",
                ),
                move |l| below(&l, 20, dword(&l, 8)),
            ),
            w(
                with(
                    0,
                    4,
                    format,
                    "s_movk_i32 s19, 8\n buffer_load_dword v10, off, s[20:23], s19",
                ),
                |l| (0..4).fold(0, |v, n| v | u32::from(l.state.space[8 + n]) << (8 * n)),
            ),
            // The thread id as the index; the stride has no bits in the format.
            w(
                with(
                    16,
                    0,
                    1 << 23,
                    "buffer_load_dword v10, off, s[20:23], 0 offset:12",
                ),
                |l| dword(&l, 12),
            ),
        ],
    );
}

/// The two lowest bits of base, offset and register are ignored, each.
#[test]
fn scalar_addresses_are_aligned() {
    let word = |before: &State, at: usize| {
        let bytes = before.space[at..at + 4].try_into().expect("4 bytes");
        (u32::from_le_bytes(bytes), None)
    };
    let odd = |text: &str| -> &'static str {
        format!(
            "s_add_u32 s20, s12, 3\n s_addc_u32 s21, s13, 0\n s_movk_i32 s22, 23\n {text}\n \
             s_waitcnt lgkmcnt(0)"
        )
        .leak()
    };
    let buffer = |text: &str| {
        odd(&format!(
            "s_mov_b32 s26, s22\n s_movk_i32 s22, 64\n s_mov_b32 s23, 0\n {text}"
        ))
    };
    check(
        &[Fill::Bits],
        &[
            s(odd("s_load_dword s24, s[20:21], 0x12"), move |b| {
                word(b, 0x10)
            }),
            s(odd("s_load_dword s24, s[20:21], s22"), move |b| word(b, 20)),
            s(
                odd("s_load_dword s24, s[20:21], s22 offset:0x13"),
                move |b| word(b, 0x10 + 20),
            ),
            s(
                odd(
                    "s_store_dword s22, s[20:21], 0x12\n s_waitcnt lgkmcnt(0)\n \
                     s_load_dword s24, s[20:21], 0x10",
                ),
                |_| (23, None),
            ),
            s(
                buffer("s_buffer_load_dword s24, s[20:23], s26 offset:0x3"),
                move |b| word(b, 20),
            ),
        ],
    );
}
