// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory instructions of gfx1201: VGLOBAL, VFLAT, VSCRATCH, VBUFFER, VDS, SMEM. s[12:13] is the
//! address of memory for the case.

use crate::common::bench::{
    case, check_12, check_on, q, s, s64, state, w, Bench, Case, Fill, Lane, State, LDS, SPACE,
};
use crate::common::llvm::Target;
use gpu_wave::{Fault, FaultKind, Stop};

const FILLS: [Fill; 2] = [Fill::Bits; 2];

/// v12: offset of the lane's 16 bytes; v[8:9]: their address.
const OWN: &str = "v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n \
                   v_lshlrev_b32 v12, 4, v12\n v_mov_b32 v8, s12\n v_mov_b32 v9, s13\n \
                   v_add_nc_u32 v8, v8, v12\n";
/// Waits for all memory accesses of a case.
const DONE: &str = "s_wait_loadcnt_dscnt 0\n s_wait_storecnt 0\n s_wait_kmcnt 0";

fn own(text: &str) -> &'static str {
    format!("{OWN} {text}\n {DONE}").leak()
}

fn plain(text: &str) -> &'static str {
    format!("{text}\n {DONE}").leak()
}

fn byte(l: &Lane<'_>, at: usize) -> u32 {
    u32::from(l.state.space[16 * l.lane + at])
}

fn short(l: &Lane<'_>, at: usize) -> u32 {
    byte(l, at) | byte(l, at + 1) << 8
}

fn dword(l: &Lane<'_>, at: usize) -> u32 {
    short(l, at) | short(l, at + 2) << 16
}

fn at(st: &State, at: usize, bytes: usize) -> u64 {
    let cell = st.space[at..at + bytes].iter().rev();
    cell.fold(0, |v, &b| v << 8 | u64::from(b))
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[test]
fn loads() {
    let wait = "s_wait_loadcnt 0";
    check_12(&FILLS, &[
        w(own("global_load_u8 v10, v12, s[12:13] offset:1"), |l| byte(&l, 1)),
        w(own("global_load_i8 v10, v12, s[12:13] offset:1"), |l| byte(&l, 1) as i8 as u32),
        w(own("global_load_u16 v10, v12, s[12:13] offset:2 scope:SCOPE_SYS"), |l| short(&l, 2)),
        w(own("global_load_i16 v10, v12, s[12:13] offset:2 th:TH_LOAD_NT"), |l| short(&l, 2) as i16 as u32),
        w(own("global_load_b32 v10, v12, s[12:13]"), |l| dword(&l, 0)),
        w(own("global_load_b32 v10, v[8:9], off offset:4"), |l| dword(&l, 4)),
        w(own("v_add_nc_u32 v12, 64, v12\n global_load_b32 v10, v12, s[12:13] offset:-64"), |l| dword(&l, 0)),
        q(own("global_load_b64 v[10:11], v12, s[12:13] offset:8"), |l| pair(dword(&l, 8), dword(&l, 12))),
        q(own(&format!("global_load_b96 v[3:5], v12, s[12:13] offset:4\n {wait}\n v_mov_b32 v10, v3\n v_mov_b32 v11, v5")), |l| {
            pair(dword(&l, 4), dword(&l, 12))
        }),
        q(own(&format!("global_load_b128 v[3:6], v12, s[12:13]\n {wait}\n v_mov_b32 v10, v4\n v_mov_b32 v11, v6")), |l| {
            pair(dword(&l, 4), dword(&l, 12))
        }),
        // The other half is preserved.
        w(own("global_load_d16_b16 v10, v12, s[12:13]"), |l| short(&l, 0) | l.u(10) & 0xffff_0000),
        w(own("global_load_d16_hi_b16 v10, v12, s[12:13]"), |l| short(&l, 0) << 16 | l.lo(10)),
        w(own("global_load_d16_u8 v10, v12, s[12:13]"), |l| byte(&l, 0) | l.u(10) & 0xffff_0000),
        w(own("global_load_d16_i8 v10, v12, s[12:13]"), |l| {
            byte(&l, 0) as i8 as u32 & 0xffff | l.u(10) & 0xffff_0000
        }),
        w(own("global_load_d16_hi_i8 v10, v12, s[12:13]"), |l| (byte(&l, 0) as i8 as u32) << 16 | l.lo(10)),
        w(own("flat_load_b32 v10, v[8:9] offset:8"), |l| dword(&l, 8)),
        w(own("flat_load_u8 v10, v[8:9] offset:3"), |l| byte(&l, 3)),
        w(own("s_mov_b32 exec_lo, s18\n global_load_b32 v10, v12, s[12:13]"), |l| dword(&l, 0)),
        w(plain("global_load_addtid_b32 v10, s[12:13] offset:8"), |l| at(l.state, 8 + 4 * l.lane, 4) as u32),
        w(plain("v_mov_b32 v12, 20\n global_load_b32 v10, v12, s[12:13]"), |l| at(l.state, 20, 4) as u32),
        w(own("global_inv scope:SCOPE_SYS\n global_wb scope:SCOPE_DEV\n global_wbinv\n v_mov_b32 v10, 3"), |_| 3),
    ]);
}

/// Memory after stores: `f` returns offset and bytes that each lane writes to its cell.
fn stores(text: &str, f: impl Fn(Lane<'_>) -> (usize, Vec<u8>) + 'static) -> Case {
    case(own(text), move |before, after| {
        let mut want = before.space.clone();
        for n in 0..after.lanes {
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
    check_12(
        &FILLS,
        &[
            stores("global_store_b8 v12, v1, s[12:13] offset:1", |l| {
                (1, vec![l.u(1) as u8])
            }),
            stores("global_store_d16_hi_b8 v12, v1, s[12:13]", |l| {
                (0, vec![l.hi(1) as u8])
            }),
            stores("global_store_b16 v12, v1, s[12:13] offset:2", |l| {
                (2, words(&l, 1..2)[..2].to_vec())
            }),
            stores("global_store_d16_hi_b16 v12, v1, s[12:13]", |l| {
                (0, words(&l, 1..2)[2..].to_vec())
            }),
            stores("global_store_b32 v12, v1, s[12:13]", |l| {
                (0, words(&l, 1..2))
            }),
            stores(
                "global_store_b32 v[8:9], v1, off offset:4 scope:SCOPE_SYS",
                |l| (4, words(&l, 1..2)),
            ),
            stores("global_store_b64 v12, v[1:2], s[12:13] offset:8", |l| {
                (8, words(&l, 1..3))
            }),
            stores("global_store_b96 v12, v[1:3], s[12:13]", |l| {
                (0, words(&l, 1..4))
            }),
            stores("global_store_b128 v12, v[1:4], s[12:13]", |l| {
                (0, words(&l, 1..5))
            }),
            stores("flat_store_b32 v[8:9], v1 offset:8", |l| {
                (8, words(&l, 1..2))
            }),
            stores("flat_store_b8 v[8:9], v1", |l| (0, vec![l.u(1) as u8])),
            stores(
                "s_mov_b32 exec_lo, s18\n global_store_b32 v12, v1, s[12:13]",
                |l| (0, words(&l, 1..2)),
            ),
        ],
    );
}

/// Global atomic; `f` returns the new value of the cell.
fn rmw(text: &'static str, bytes: usize, f: impl Fn(Lane<'_>, u64) -> u64 + 'static) -> Case {
    case(own(text), move |before, after| {
        let all = u64::MAX >> (64 - 8 * bytes);
        let nan = |v: u64| f32::from_bits(v as u32).is_nan();
        for n in 0..after.lanes {
            let l = before.lane(n);
            let (old, new) = (at(before, 16 * n, bytes), at(after, 16 * n, bytes));
            let want = f(l, old) & all;
            let same = new == want || text.contains("_f32") && nan(new) && nan(want);
            let returned = pair(after.v[10][n], after.v[11][n]) & all;
            if !same || (returned != old && text.contains("RETURN")) {
                return Err(format!(
                    "lane {n}: {old:x} -> {new:x} {returned:x}, expected {want:x}"
                ));
            }
        }
        Ok(())
    })
}

#[test]
fn atomics() {
    let s = |v: u64| i64::from(v as u32 as i32);
    let d = |l: &Lane<'_>| u64::from(l.u(1));
    check_12(&FILLS, &[
        rmw("global_atomic_swap_b32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, _| d(&l)),
        rmw("global_atomic_add_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN scope:SCOPE_SYS", 4, move |l, o| o + d(&l)),
        rmw("global_atomic_add_u32 v12, v1, s[12:13]", 4, move |l, o| o + d(&l)),
        rmw("global_atomic_sub_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o.wrapping_sub(d(&l))),
        rmw("global_atomic_sub_clamp_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o.saturating_sub(d(&l))),
        rmw("global_atomic_cond_sub_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| {
            if o >= d(&l) { o - d(&l) } else { o }
        }),
        rmw("global_atomic_min_i32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| s(o).min(s(d(&l))) as u64),
        rmw("global_atomic_min_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o.min(d(&l))),
        rmw("global_atomic_max_i32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| s(o).max(s(d(&l))) as u64),
        rmw("global_atomic_max_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o.max(d(&l))),
        rmw("global_atomic_and_b32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o & d(&l)),
        rmw("global_atomic_or_b32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o | d(&l)),
        rmw("global_atomic_xor_b32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| o ^ d(&l)),
        rmw("global_atomic_inc_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| if o >= d(&l) { 0 } else { o + 1 }),
        rmw("global_atomic_dec_u32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, o| {
            if o == 0 || o > d(&l) { d(&l) } else { o - 1 }
        }),
        rmw("global_load_b32 v3, v12, s[12:13]\n s_wait_loadcnt 0\n v_mov_b32 v2, v1\n global_atomic_cmpswap_b32 v10, v12, v[2:3], s[12:13] th:TH_ATOMIC_RETURN", 4, move |l, _| d(&l)),
        rmw("global_atomic_cmpswap_b32 v10, v12, v[2:3], s[12:13] th:TH_ATOMIC_RETURN", 4, |l, o| {
            if o == u64::from(l.u(3)) { l.u(2).into() } else { o }
        }),
        rmw("global_atomic_add_f32 v10, v12, v1, s[12:13] th:TH_ATOMIC_RETURN", 4, |l, o| {
            (f32::from_bits(o as u32) + l.f(1)).to_bits().into()
        }),
        rmw("global_atomic_add_u64 v[10:11], v12, v[3:4], s[12:13] th:TH_ATOMIC_RETURN", 8, |l, o| o.wrapping_add(l.q(3))),
        rmw("global_atomic_swap_b64 v[10:11], v12, v[3:4], s[12:13] th:TH_ATOMIC_RETURN", 8, |l, _| l.q(3)),
        rmw("global_atomic_max_i64 v[10:11], v12, v[3:4], s[12:13] th:TH_ATOMIC_RETURN", 8, |l, o| (o as i64).max(l.q(3) as i64) as u64),
        rmw("global_atomic_min_u64 v[10:11], v12, v[3:4], s[12:13] th:TH_ATOMIC_RETURN", 8, |l, o| o.min(l.q(3))),
        rmw("global_atomic_cmpswap_b64 v[10:11], v12, v[3:6], s[12:13] th:TH_ATOMIC_RETURN", 8, |l, o| if o == l.q(5) { l.q(3) } else { o }),
        rmw("flat_atomic_add_u32 v10, v[8:9], v1 th:TH_ATOMIC_RETURN", 4, move |l, o| o + d(&l)),
        rmw("flat_atomic_or_b64 v[10:11], v[8:9], v[3:4] th:TH_ATOMIC_RETURN", 8, |l, o| o | l.q(3)),
    ]);
}

#[test]
fn scratch() {
    let slot = |text: &str| own(text);
    let wait = "s_wait_storecnt 0";
    check_12(&FILLS, &[
        w(slot("scratch_store_b32 off, v1, off offset:8\n scratch_load_b32 v10, off, off offset:8"), |l| l.u(1)),
        w(slot("s_movk_i32 s20, 16\n scratch_store_b32 off, v1, s20 offset:4\n v_mov_b32 v12, 20\n scratch_load_b32 v10, v12, off"), |l| l.u(1)),
        w(slot("v_and_b32 v12, 0x70, v12\n s_movk_i32 s20, 16\n scratch_store_b32 v12, v1, s20\n scratch_load_b32 v10, v12, off offset:16"), |l| l.u(1)),
        // Offsets are signed.
        w(slot("s_movk_i32 s20, -16\n v_mov_b32 v12, 20\n scratch_store_b32 v12, v1, s20 offset:4\n v_mov_b32 v12, -4\n scratch_load_b32 v10, v12, off offset:12"), |l| l.u(1)),
        q(slot("scratch_store_b128 off, v[1:4], off offset:16\n scratch_load_b64 v[10:11], off, off offset:24"), |l| l.q(3)),
        q(slot("scratch_store_b96 off, v[1:3], off offset:16\n scratch_load_b64 v[10:11], off, off offset:20"), |l| l.q(2)),
        w(slot(&format!("scratch_store_b32 off, v1, off\n {wait}\n scratch_store_b8 off, v2, off offset:2\n {wait}\n scratch_store_b16 off, v3, off\n {wait}\n scratch_load_b32 v10, off, off")), |l| {
            l.u(1) & 0xff00_0000 | (l.u(2) & 0xff) << 16 | l.lo(3)
        }),
        w(slot("scratch_store_b32 off, v1, off\n scratch_load_i8 v10, off, off offset:3"), |l| (l.i(1) >> 24) as u32),
        w(slot("scratch_store_b32 off, v1, off\n scratch_load_d16_hi_b16 v10, off, off offset:2"), |l| l.hi(1) << 16 | l.lo(10)),
        q(slot("scratch_store_b64 off, v[2:3], off offset:3\n scratch_load_b64 v[10:11], off, off offset:3"), |l| l.q(2)),
        // Through the flat scratch window.
        w(slot("scratch_store_b32 off, v1, off offset:12\n s_mov_b64 s[20:21], src_private_base\n v_mov_b32 v8, 12\n v_mov_b32 v9, s21\n flat_load_b32 v10, v[8:9]"), |l| l.u(1)),
        w(slot("s_mov_b64 s[20:21], src_private_base\n v_mov_b32 v8, 12\n v_mov_b32 v9, s21\n flat_store_b32 v[8:9], v1\n scratch_load_b32 v10, off, off offset:12"), |l| l.u(1)),
    ]);
    // Lanes are interleaved by dwords: the stride is halved in a wave32.
    check_12(&FILLS, &[case(
        own("s_getreg_b32 s24, hwreg(HW_REG_SCRATCH_BASE_LO)\n s_getreg_b32 s25, hwreg(HW_REG_SCRATCH_BASE_HI)\n \
             scratch_store_b32 off, v1, off offset:4\n s_wait_storecnt 0\n v_lshrrev_b32 v12, 2, v12\n \
             v_mov_b32 v3, exec_hi\n s_getreg_b32 s26, hwreg(HW_REG_STATUS, 29, 1)\n \
             s_lshl_b32 s26, 128, s26\n v_add_nc_u32 v12, s26, v12\n global_load_b32 v10, v12, s[24:25]"),
        |before, after| match (0..after.lanes).find(|&l| after.v[10][l] != before.v[1][l]) {
            None => Ok(()),
            Some(l) => Err(format!("lane {l}: {:x}", after.v[10][l])),
        },
    )]);
}

#[test]
fn flat_lds() {
    let lds = "s_mov_b64 s[20:21], src_shared_base\n v_mov_b32 v8, v12\n v_mov_b32 v9, s21\n";
    let asm = |text: &str| own(&format!("{lds} {text}"));
    check_12(&FILLS, &[
        w(asm("flat_store_b32 v[8:9], v1\n s_wait_dscnt 0\n ds_load_b32 v10, v12"), |l| l.u(1)),
        w(asm("ds_store_b32 v12, v1\n s_wait_dscnt 0\n flat_load_u16 v10, v[8:9] offset:2"), |l| l.hi(1)),
        w(asm("ds_store_b32 v12, v1\n s_wait_dscnt 0\n flat_atomic_add_u32 v[8:9], v2\n s_wait_dscnt 0\n ds_load_b32 v10, v12"), |l| l.u(1).wrapping_add(l.u(2))),
        w(asm("ds_store_b32 v12, v1\n s_wait_dscnt 0\n v_mov_b32 v3, v1\n flat_atomic_cmpswap_b32 v[8:9], v[2:3]\n s_wait_dscnt 0\n ds_load_b32 v10, v12"), |l| l.u(2)),
    ]);
}

/// s[20:23]: a buffer; `bounds` is its OOB_SELECT.
fn buffer(records: u32, stride: u32, bounds: u32, text: &str) -> &'static str {
    let (stride, word3) = (stride << 16, bounds << 28 | 0x14000);
    own(&format!(
        "s_mov_b32 s20, s12\n s_or_b32 s21, s13, {stride:#x}\n s_movk_i32 s22, {records}\n \
         s_mov_b32 s23, {word3:#x}\n v_lshrrev_b32 v13, 4, v12\n {text}"
    ))
}

#[test]
fn buffers() {
    let inside = |l: &Lane<'_>, limit: usize, value: u32| if l.lane < limit { value } else { 0 };
    check_12(
        &FILLS,
        &[
            w(
                buffer(256, 0, 3, "buffer_load_b32 v10, v12, s[20:23], null offen"),
                move |l| inside(&l, 16, dword(&l, 0)),
            ),
            w(
                buffer(
                    256,
                    0,
                    3,
                    "s_movk_i32 s19, 4\n buffer_load_b32 v10, v12, s[20:23], s19 offen offset:4",
                ),
                move |l| inside(&l, 16, dword(&l, 8)),
            ),
            w(
                buffer(
                    250,
                    0,
                    3,
                    "buffer_load_b64 v[10:11], v12, s[20:23], null offen offset:8",
                ),
                move |l| inside(&l, 15, dword(&l, 8)),
            ),
            // The end of 252 bytes in the cell of lane 15.
            q(
                buffer(
                    252,
                    0,
                    3,
                    "buffer_load_b64 v[10:11], v12, s[20:23], null offen offset:8",
                ),
                move |l| match l.lane {
                    0..=14 => u64::from(dword(&l, 8)) | u64::from(dword(&l, 12)) << 32,
                    15 => dword(&l, 8).into(),
                    _ => 0,
                },
            ),
            w(
                buffer(0, 0, 2, "buffer_load_b32 v10, v12, s[20:23], null offen"),
                |_| 0,
            ),
            w(
                buffer(
                    1,
                    0,
                    2,
                    "buffer_load_u8 v10, v12, s[20:23], null offen offset:3",
                ),
                |l| byte(&l, 3),
            ),
            w(
                buffer(
                    20,
                    16,
                    0,
                    "buffer_load_b32 v10, v13, s[20:23], null idxen offset:8",
                ),
                move |l| inside(&l, 20, dword(&l, 8)),
            ),
            w(
                buffer(
                    20,
                    16,
                    0,
                    "buffer_load_b32 v10, v13, s[20:23], null idxen offset:13",
                ),
                |_| 0,
            ),
            w(
                buffer(
                    20,
                    16,
                    1,
                    "buffer_load_b32 v10, v13, s[20:23], null idxen offset:12",
                ),
                move |l| inside(&l, 20, dword(&l, 12)),
            ),
            w(
                buffer(
                    256,
                    0,
                    3,
                    "buffer_load_d16_hi_b16 v10, v12, s[20:23], null offen",
                ),
                move |l| inside(&l, 16, short(&l, 0)) << 16 | l.lo(10),
            ),
            // The other half stays, also out of bounds.
            w(
                buffer(
                    256,
                    0,
                    3,
                    "buffer_load_d16_b16 v10, v12, s[20:23], null offen",
                ),
                move |l| inside(&l, 16, short(&l, 0)) | l.u(10) & 0xffff_0000,
            ),
            case(
                buffer(256, 0, 3, "buffer_store_b32 v1, v12, s[20:23], null offen"),
                |before, after| {
                    let mut want = before.space.clone();
                    for n in 0..16 {
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
                buffer(
                    256,
                    0,
                    3,
                    "buffer_atomic_add_u32 v10, v12, s[20:23], null offen th:TH_ATOMIC_RETURN",
                ),
                |before, after| {
                    for n in 0..16 {
                        let old = at(before, 16 * n, 4) as u32;
                        let sum = old.wrapping_add(before.v[10][n]);
                        if (after.v[10][n], at(after, 16 * n, 4) as u32) != (old, sum) {
                            return Err(format!("lane {n}"));
                        }
                    }
                    Ok(())
                },
            ),
        ],
    );
}

#[test]
fn scalar_loads() {
    check_12(&FILLS, &[
        s(plain("s_load_b32 s24, s[12:13], 0x10"), |b| (at(b, 16, 4) as u32, None)),
        s(plain("s_load_u8 s24, s[12:13], 0x11"), |b| (at(b, 17, 1) as u32, None)),
        s(plain("s_load_i8 s24, s[12:13], 0x11"), |b| (at(b, 17, 1) as i8 as u32, None)),
        s(plain("s_load_u16 s24, s[12:13], 0x12"), |b| (at(b, 18, 2) as u32, None)),
        s(plain("s_load_i16 s24, s[12:13], 0x12"), |b| (at(b, 18, 2) as i16 as u32, None)),
        s64(plain("s_load_b64 s[24:25], s[12:13], 0x10 scope:SCOPE_SYS"), |b| (at(b, 16, 8), None)),
        s64(plain("s_movk_i32 s20, 0x20\n s_load_b64 s[24:25], s[12:13], s20 offset:0x8"), |b| (at(b, 40, 8), None)),
        s64(plain("s_add_nc_u64 s[20:21], s[12:13], 0x40\n s_load_b64 s[24:25], s[20:21], -8"), |b| (at(b, 56, 8), None)),
        s64(plain("s_load_b96 s[16:18], s[12:13], 0x4\n s_wait_kmcnt 0\n s_mov_b32 s24, s16\n s_mov_b32 s25, s18"), |b| {
            (pair(at(b, 4, 4) as u32, at(b, 12, 4) as u32), None)
        }),
        s64(plain("s_load_b512 s[16:31], s[12:13], 0x100"), |b| (at(b, 0x120, 8), None)),
        s64(plain("s_load_b64 null, s[12:13], 0x0\n s_mov_b64 s[24:25], 7"), |_| (7, None)),
        // Dwords beyond a buffer are zero.
        s64(plain("s_mov_b64 s[20:21], s[12:13]\n s_movk_i32 s22, 20\n s_mov_b32 s23, 0\n s_buffer_load_b64 s[24:25], s[20:23], 0x10"), |b| {
            (at(b, 16, 4), None)
        }),
        s(plain("s_mov_b64 s[20:21], s[12:13]\n s_movk_i32 s22, 20\n s_mov_b32 s23, 0\n s_buffer_load_u16 s24, s[20:23], 0x12"), |b| {
            (at(b, 18, 2) as u32, None)
        }),
        s(plain("s_mov_b32 s24, 5\n s_prefetch_data s[12:13], 0x0, null, 3\n s_prefetch_inst_pc_rel 0x0, null, 0\n s_dcache_inv"), |_| (5, None)),
    ]);
}

/// LDS atomic: v10 is the old value, then v11 the new one.
fn lds(text: &'static str, f: impl Fn(Lane<'_>) -> u32 + 'static) -> Case {
    let asm = own(&format!(
        "ds_store_b32 v12, v1\n {text}\n ds_load_b32 v11, v12"
    ));
    let returns = text.contains("rtn");
    case(asm, move |before, after| {
        for n in 0..after.lanes {
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
fn local_data() {
    check_12(&FILLS, &[
        w(own("ds_store_b32 v12, v1\n ds_load_b32 v10, v12"), |l| l.u(1)),
        w(own("ds_store_b32 v12, v1\n ds_store_b8 v12, v2 offset:1\n ds_load_b32 v10, v12"), |l| l.u(1) & !0xff00 | (l.u(2) & 0xff) << 8),
        w(own("ds_store_b32 v12, v1\n ds_store_b16_d16_hi v12, v2\n ds_load_b32 v10, v12"), |l| l.u(1) & 0xffff_0000 | l.hi(2)),
        w(own("ds_store_b32 v12, v1\n ds_load_u16_d16 v10, v12"), |l| l.lo(1) | l.u(10) & 0xffff_0000),
        w(own("ds_store_b32 v12, v1\n ds_load_u8_d16_hi v10, v12"), |l| (l.u(1) & 0xff) << 16 | l.lo(10)),
        w(own("ds_store_b32 v12, v1\n ds_load_i16 v10, v12 offset:2"), |l| (l.i(1) >> 16) as u32),
        q(own("ds_store_b64 v12, v[1:2]\n ds_load_b64 v[10:11], v12"), |l| l.q(1)),
        q(own("ds_store_b96 v12, v[1:3]\n ds_load_b64 v[10:11], v12 offset:4"), |l| l.q(2)),
        q(own("ds_store_b128 v12, v[1:4]\n ds_load_b128 v[5:8], v12\n s_wait_dscnt 0\n v_mov_b32 v10, v6\n v_mov_b32 v11, v8"), |l| pair(l.u(2), l.u(4))),
        q(own("ds_store_2addr_b32 v12, v1, v2 offset0:1 offset1:3\n ds_load_2addr_b32 v[10:11], v12 offset0:3 offset1:1"), |l| pair(l.u(2), l.u(1))),
        q(own("ds_store_2addr_stride64_b32 v12, v1, v2 offset0:0 offset1:8\n ds_load_2addr_stride64_b32 v[10:11], v12 offset0:8 offset1:0"), |l| pair(l.u(2), l.u(1))),
        q(own("ds_store_2addr_b32 v12, v1, v2 offset1:1\n ds_storexchg_2addr_rtn_b32 v[10:11], v12, v3, v4 offset1:1"), |l| l.q(1)),
        w(plain("s_mov_b32 m0, 64\n ds_store_addtid_b32 v1 offset:4\n ds_load_addtid_b32 v10 offset:4"), |l| l.u(1)),
        lds("ds_add_u32 v12, v2", |l| l.u(1).wrapping_add(l.u(2))),
        lds("ds_rsub_rtn_u32 v10, v12, v2", |l| l.u(2).wrapping_sub(l.u(1))),
        lds("ds_min_rtn_i32 v10, v12, v2", |l| l.i(1).min(l.i(2)) as u32),
        lds("ds_sub_clamp_rtn_u32 v10, v12, v2", |l| l.u(1).saturating_sub(l.u(2))),
        lds("ds_cond_sub_rtn_u32 v10, v12, v2", |l| l.u(1).checked_sub(l.u(2)).unwrap_or(l.u(1))),
        lds("ds_storexchg_rtn_b32 v10, v12, v2", |l| l.u(2)),
        lds("ds_mskor_rtn_b32 v10, v12, v2, v3", |l| l.u(1) & !l.u(2) | l.u(3)),
        // The value to store precedes the one to compare with.
        lds("ds_cmpstore_rtn_b32 v10, v12, v3, v1", |l| l.u(3)),
        lds("ds_cmpstore_rtn_b32 v10, v12, v3, v2", |l| if l.u(1) == l.u(2) { l.u(3) } else { l.u(1) }),
        lds("ds_add_rtn_f32 v10, v12, v2", |l| (l.f(1) + l.f(2)).to_bits()),
        q(own("ds_store_b64 v12, v[2:3]\n ds_condxchg32_rtn_b64 v[4:5], v12, v[6:7]\n ds_load_b64 v[10:11], v12"), |l| {
            let half = |old: u32, new: u32| if new >> 31 != 0 { new & !(1 << 31) } else { old };
            pair(half(l.u(2), l.u(6)), half(l.u(3), l.u(7)))
        }),
        q(own("ds_store_b64 v12, v[2:3]\n ds_cmpstore_b64 v12, v[4:5], v[2:3]\n ds_load_b64 v[10:11], v12"), |l| l.q(4)),
    ]);
}

#[test]
fn lds_addresses_wrap_at_32_bits() {
    check_12(&FILLS, &[
        w(own("v_sub_nc_u32 v12, 0, v12\n ds_store_b32 v12, v1 offset:1020\n v_add_nc_u32 v12, 1020, v12\n ds_load_b32 v10, v12"), |l| l.u(1)),
        q(own("v_sub_nc_u32 v12, 0, v12\n ds_store_2addr_b32 v12, v1, v2 offset0:254 offset1:255\n v_add_nc_u32 v12, 1016, v12\n ds_load_b64 v[10:11], v12"), |l| l.q(1)),
        q(own("v_sub_nc_u32 v12, 1016, v12\n ds_store_2addr_b32 v12, v1, v2 offset1:1\n v_add_nc_u32 v12, -1016, v12\n ds_load_2addr_b32 v[10:11], v12 offset0:254 offset1:255"), |l| l.q(1)),
    ]);
}

/// The base is aligned to dwords, the address to the data.
#[test]
fn scalar_addresses_are_aligned() {
    let odd = |text: &str| plain(&format!("s_add_nc_u64 s[20:21], s[12:13], 3\n {text}"));
    check_12(
        &FILLS,
        &[
            s(odd("s_load_b32 s24, s[20:21], 0x13"), |b| {
                (at(b, 16, 4) as u32, None)
            }),
            s(odd("s_load_u16 s24, s[20:21], 0x13"), |b| {
                (at(b, 18, 2) as u32, None)
            }),
            s(odd("s_load_u8 s24, s[20:21], 0x13"), |b| {
                (at(b, 19, 1) as u32, None)
            }),
            s(
                odd(
                    "s_mov_b32 s23, 0\n s_movk_i32 s22, 24\n s_buffer_load_b32 s24, s[20:23], 0x16",
                ),
                |b| (at(b, 20, 4) as u32, None),
            ),
        ],
    );
}

/// v12 is 6 bytes before the end of LDS, where dwords 2 and 3 of v[1:4] are partly and wholly
/// beyond it.
#[test]
fn at_the_end_of_lds_each_dword_and_byte_counts() {
    let end = |text: &str| {
        let at = LDS - 6;
        plain(&format!(
            "v_mov_b32 v12, {at:#x}\n v_mov_b32 v13, {:#x}\n v_readfirstlane_b32 s20, v1\n \
             v_readfirstlane_b32 s21, v2\n v_mov_b32 v1, s20\n v_mov_b32 v2, s21\n {text}",
            LDS - 8
        ))
    };
    let first = |l: &Lane<'_>, n: usize| l.state.v[n][0];
    check_12(&FILLS, &[
        q(end("ds_store_b64 v13, v[1:2]\n ds_load_b64 v[10:11], v12"), move |l| {
            u64::from(first(&l, 1) >> 16 | first(&l, 2) << 16)
        }),
        q(end("ds_store_b64 v12, v[1:2]\n ds_store_b16 v13, v1\n ds_load_b64 v[10:11], v13"), move |l| {
            let (a, b) = (first(&l, 1), first(&l, 2));
            u64::from(a & 0xffff | a << 16) | u64::from(a >> 16 | b << 16) << 32
        }),
        q(end("ds_store_b64 v13, v[1:2]\n ds_load_2addr_b32 v[10:11], v12 offset0:0 offset1:1"), move |l| {
            u64::from(first(&l, 1) >> 16 | first(&l, 2) << 16)
        }),
        w(end("ds_store_b64 v13, v[1:2]\n ds_store_2addr_b32 v12, v2, v1 offset0:0 offset1:1\n ds_load_b32 v10, v13 offset:4"), move |l| {
            first(&l, 2) >> 16 | first(&l, 1) << 16
        }),
        w(end("ds_store_b64 v13, v[1:2]\n ds_store_b32 v12, v1 offset:4\n ds_load_b32 v10, v13 offset:4"), move |l| {
            first(&l, 2) & 0xffff | first(&l, 1) << 16
        }),
    ]);
}

#[test]
fn between_lanes() {
    let from = |l: Lane<'_>, lane: usize| l.state.v[1][lane];
    for lanes in [32, 64] {
        let target = if lanes == 32 {
            Target::Wave32
        } else {
            Target::Wave64
        };
        let rotate = plain("v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v12, 2, v12\n ds_bpermute_b32 v10, v12, v1 offset:20");
        let push = plain("v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v12, 2, v12\n ds_permute_b32 v10, v12, v1 offset:20");
        crate::common::bench::check_on(
            target,
            &FILLS,
            &[
                w(rotate, move |l| from(l, (l.lane + 5) % lanes)),
                w(push, move |l| from(l, (l.lane + lanes - 5) % lanes)),
                w(plain("ds_swizzle_b32 v10, v1 offset:0x041f"), move |l| {
                    from(l, l.lane ^ 1)
                }),
                w(plain("s_mov_b32 exec_lo, s18\n v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v12, 2, v12\n ds_bpermute_b32 v10, v12, v1 offset:20"), move |l| {
                    let lane = (l.lane + 5) % lanes;
                    let inactive = lane < 32 && l.state.s[18] >> lane & 1 == 0;
                    if inactive { 0 } else { from(l, lane) }
                }),
                // ds_bpermute_fi_b32 v10, v12, v1 offset:20
                w(plain("s_mov_b32 exec_lo, s18\n v_mbcnt_lo_u32_b32 v12, -1, 0\n v_mbcnt_hi_u32_b32 v12, -1, v12\n v_lshlrev_b32 v12, 2, v12\n .long 0xdb340014\n .long 0x0a00010c"), move |l| {
                    from(l, (l.lane + 5) % lanes)
                }),
            ],
        );
    }
}

fn stops(asm: &str) -> Stop {
    let bench = Bench::on(Target::Wave32, [asm].into_iter());
    bench
        .run(0, &state(1, Fill::Bits), 0)
        .err()
        .unwrap_or_else(|| panic!("{asm}: no stop"))
}

#[test]
fn faults_and_violations() {
    let far = SPACE - 0x1000_0000;
    let to = |op: &str| {
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
        ("global_load_b32 v10, v[8:9], off", false),
        ("flat_load_b128 v[2:5], v[8:9]", false),
        ("global_store_b32 v[8:9], v1, off", true),
        ("global_atomic_add_u32 v[8:9], v1, off", true),
    ] {
        match to(op) {
            Stop::Fault { fault, write, .. } => assert_eq!((fault, write), (expected, is_write)),
            other => panic!("{op}: {other}"),
        }
    }
    for asm in [
        "v_mov_b32 v12, 512\n scratch_load_b32 v10, v12, off",
        "v_mov_b32 v12, -4\n scratch_load_b32 v10, v12, off",
        "s_mov_b32 s20, ttmp3",
        "s_mov_b32 ttmp9, 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_STATE_PRIV), 0",
        "s_sendmsg_rtn_b64 s[20:21], sendmsg(MSG_RTN_GET_TMA)",
        "s_barrier_wait -2",
        "v_mov_b32 v64, 0",
    ] {
        assert!(matches!(stops(asm), Stop::Violation { .. }), "{asm}");
    }
    assert!(matches!(stops("s_trap 3"), Stop::Trap { id: 3, .. }));
    assert!(matches!(stops("s_sethalt 1"), Stop::Halted { .. }));
    assert!(matches!(
        stops("s_code_end"),
        Stop::IllegalInstruction { .. }
    ));
}

/// v8: the address, from s[12:13] on, at which a lane reads 8 elements of a row-major 16x16 matrix
/// so that the registers hold it column-major, as WMMA has its operands. Lanes from 32 on are far
/// away.
fn transposed(element: u32) -> String {
    let tile = match element {
        // Tiles of 8x8 elements: row 8 * (l / 16) + l % 8, column 8 * (l / 8 % 2).
        2 => {
            "v_and_b32 v9, 7, v13\n v_lshrrev_b32 v8, 1, v13\n v_and_b32 v8, 8, v8\n \
              v_or_b32 v8, v8, v9\n v_lshlrev_b32 v8, 5, v8\n v_and_b32 v9, 8, v13\n \
              v_lshlrev_b32 v9, 1, v9\n v_or_b32 v8, v8, v9"
        }
        // Row 4 * (l / 8) + l % 4, column 8 * (l / 4 % 2).
        _ => {
            "v_and_b32 v9, 3, v13\n v_lshrrev_b32 v8, 1, v13\n v_and_b32 v8, 12, v8\n \
              v_or_b32 v8, v8, v9\n v_lshlrev_b32 v8, 4, v8\n v_and_b32 v9, 4, v13\n \
              v_lshlrev_b32 v9, 1, v9\n v_or_b32 v8, v8, v9"
        }
    };
    format!(
        "v_mbcnt_lo_u32_b32 v13, -1, 0\n v_mbcnt_hi_u32_b32 v13, -1, v13\n {tile}\n \
         v_and_b32 v9, 32, v13\n v_lshlrev_b32 v9, 22, v9\n v_add_nc_u32 v8, v8, v9"
    )
}

/// The layout is that measured on silicon in a wave32; a wave64 has the second half of a lane's
/// elements 32 lanes above, as its WMMA operands.
#[test]
fn transposing_loads() {
    for target in [Target::Wave32, Target::Wave64] {
        let load = |element: usize, text: &str| {
            let asm = plain(&format!("{}\n {text}", transposed(element as u32)));
            case(asm, move |before, after| {
                let count = 256 / after.lanes;
                for lane in 0..after.lanes {
                    let (within, half) = (lane % 32, lane / 32);
                    for n in 0..count {
                        let row = 8 * (within / 16) + half * count + n;
                        let want = at(before, element * (16 * row + within % 16), element);
                        let bit = 8 * element * n;
                        let got = after.v[1 + bit / 32][lane] >> (bit % 32);
                        let got = u64::from(got) & (1 << (8 * element)) - 1;
                        if got != want {
                            return Err(format!("lane {lane} {n}: {got:x}, not {want:x}"));
                        }
                    }
                }
                Ok(())
            })
        };
        let cases = match target {
            Target::Wave32 => [
                load(2, "global_load_tr_b128 v[1:4], v8, s[12:13]"),
                load(1, "global_load_tr_b64 v[1:2], v8, s[12:13]"),
            ],
            _ => [
                load(2, "global_load_tr_b128 v[1:2], v8, s[12:13]"),
                load(1, "global_load_tr_b64 v1, v8, s[12:13]"),
            ],
        };
        check_on(target, &FILLS, &cases);
    }
    let partly = "s_mov_b32 exec_lo, 0xffff\n v_mov_b32 v8, 0\n \
                  global_load_tr_b64 v[1:2], v8, s[12:13]";
    let run = |asm: &'static str| {
        let bench = Bench::on(Target::Wave32, [asm].into_iter());
        bench.run(0, &state(1, Fill::Bits), 0).err()
    };
    assert!(matches!(run(partly), Some(Stop::Violation { .. })));
    let idle = "s_mov_b32 exec_lo, 0\n global_load_tr_b64 v[1:2], v8, s[12:13]";
    assert!(run(idle).is_none());
}

/// Dwords and registers that are clear in M0 are skipped; those behind v13 are not stored by the
/// bench.
#[test]
fn blocks() {
    check_12(&FILLS, &[
        q(own("s_mov_b32 m0, 6\n global_load_block v[9:40], v12, s[12:13]"), |l| pair(dword(&l, 4), dword(&l, 8))),
        q(own("s_mov_b32 m0, 3\n global_load_block v[10:41], v[8:9], off offset:8"), |l| pair(dword(&l, 8), dword(&l, 12))),
        w(own("s_mov_b32 m0, 0\n global_load_block v[10:41], v12, s[12:13]"), |l| l.u(10)),
        stores("s_mov_b32 m0, 5\n global_store_block v12, v[1:32], s[12:13]\n s_wait_storecnt 0\n v_mov_b32 v13, v2\n global_store_b32 v12, v13, s[12:13] offset:4", |l| (0, words(&l, 1..4))),
        q(own("s_mov_b32 m0, 3\n s_movk_i32 s20, 16\n scratch_store_block off, v[1:32], s20\n s_wait_storecnt 0\n scratch_load_block v[10:41], off, s20"), |l| pair(l.u(1), l.u(2))),
    ]);
    let beyond = "s_mov_b32 m0, 0x80000000\n global_store_block v12, v[60:91], s[12:13]";
    let bench = Bench::on(Target::Wave32, [beyond].into_iter());
    let stop = bench.run(0, &state(1, Fill::Bits), 0).err();
    assert!(matches!(stop, Some(Stop::Violation { .. })), "{stop:?}");
}
