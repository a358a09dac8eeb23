// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector integer instructions of 16, 32 and 64 bits.

use super::valu::Tried;
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{lanes_of, Wave, LANES};

fn sext24(a: u32) -> i64 {
    i64::from((a << 8) as i32 >> 8)
}

fn low24(a: u32) -> u64 {
    u64::from(a & 0xff_ffff)
}

fn clamp_u32(v: i64) -> u32 {
    v.clamp(0, i64::from(u32::MAX)) as u32
}

fn clamp_i32(v: i64) -> u32 {
    v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32
}

fn bfe_u32(a: u32, offset: u32, width: u32) -> u32 {
    let (offset, width) = (offset & 31, width & 31);
    a >> offset & ((1u32 << width) - 1)
}

fn bfe_i32(a: u32, offset: u32, width: u32) -> u32 {
    let (offset, width) = (offset & 31, width & 31);
    match width {
        0 => 0,
        _ => {
            // Bits above 31 are copies of the sign.
            let field = (a as i32 >> offset) as u32;
            ((field << (32 - width)) as i32 >> (32 - width)) as u32
        }
    }
}

fn ffbh_i32(a: u32) -> u32 {
    let same = if (a as i32) < 0 {
        a.leading_ones()
    } else {
        a.leading_zeros()
    };
    if same == 32 {
        !0
    } else {
        same
    }
}

fn median<T: Ord>(a: T, b: T, c: T) -> T {
    let mut v = [a, b, c];
    v.sort();
    let [_, m, _] = v;
    m
}

/// Byte selection of `v_perm_b32`: 0-3 of `b`, 4-7 of `a`, 8-11 signs, 12 zero, above 0xff.
fn perm(a: u32, b: u32, sel: u32) -> u32 {
    let bytes = u64::from(a) << 32 | u64::from(b);
    (0..4).fold(0, |out, n| {
        let byte = match sel >> (8 * n) & 0xff {
            s @ 0..=7 => (bytes >> (8 * s)) as u32 & 0xff,
            s @ 8..=11 => {
                let bit = 16 * (s - 8) + 15;
                if bytes >> bit & 1 != 0 {
                    0xff
                } else {
                    0
                }
            }
            12 => 0,
            _ => 0xff,
        };
        out | byte << (8 * n)
    })
}

fn bytes(v: u32) -> [u32; 4] {
    v.to_le_bytes().map(u32::from)
}

pub(super) fn sad_u8(a: u32, b: u32) -> u32 {
    bytes(a)
        .iter()
        .zip(bytes(b))
        .map(|(a, b)| a.abs_diff(b))
        .sum()
}

/// `v_msad_u8`: ignores bytes whose reference is zero.
pub(super) fn msad_u8(a: u32, b: u32) -> u32 {
    let each = bytes(a).into_iter().zip(bytes(b));
    each.map(|(a, b)| if b == 0 { 0 } else { a.abs_diff(b) })
        .sum()
}

fn lerp_u8(a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (bytes(a), bytes(b), bytes(c));
    (0..4).fold(0, |out, n| out | (a[n] + b[n] + (c[n] & 1)) / 2 << (8 * n))
}

pub(super) fn step32(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_mov_b32 if i.abs | i.neg != 0 => {
            let lanes = w.f32s_unflushed(i, 0).map(f32::to_bits);
            w.put(i, lanes);
        }
        v_mov_b32 => w.u1(i, |a| a),
        v_add_u32 if i.clamp => w.u2(i, |a, b| a.saturating_add(b)),
        v_add_u32 => w.u2(i, u32::wrapping_add),
        v_sub_u32 if i.clamp => w.u2(i, |a, b| a.saturating_sub(b)),
        v_sub_u32 => w.u2(i, u32::wrapping_sub),
        v_subrev_u32 if i.clamp => w.u2(i, |a, b| b.saturating_sub(a)),
        v_subrev_u32 => w.u2(i, |a, b| b.wrapping_sub(a)),
        v_add_i32 if i.clamp => w.u2(i, |a, b| (a as i32).saturating_add(b as i32) as u32),
        v_add_i32 => w.u2(i, u32::wrapping_add),
        v_sub_i32 if i.clamp => w.u2(i, |a, b| (a as i32).saturating_sub(b as i32) as u32),
        v_sub_i32 => w.u2(i, u32::wrapping_sub),
        v_and_b32 => w.u2(i, |a, b| a & b),
        v_or_b32 => w.u2(i, |a, b| a | b),
        v_xor_b32 => w.u2(i, |a, b| a ^ b),
        v_xnor_b32 => w.u2(i, |a, b| !(a ^ b)),
        v_not_b32 => w.u1(i, |a| !a),
        v_lshlrev_b32 => w.u2(i, |a, b| b << (a & 31)),
        v_lshrrev_b32 => w.u2(i, |a, b| b >> (a & 31)),
        v_ashrrev_i32 => w.u2(i, |a, b| (b as i32 >> (a & 31)) as u32),
        v_min_i32 => w.u2(i, |a, b| (a as i32).min(b as i32) as u32),
        v_max_i32 => w.u2(i, |a, b| (a as i32).max(b as i32) as u32),
        v_min_u32 => w.u2(i, u32::min),
        v_max_u32 => w.u2(i, u32::max),
        v_mul_i32_i24 => w.u2(i, |a, b| (sext24(a) * sext24(b)) as u32),
        v_mul_hi_i32_i24 => w.u2(i, |a, b| (sext24(a) * sext24(b) >> 32) as u32),
        v_mul_u32_u24 => w.u2(i, |a, b| (low24(a) * low24(b)) as u32),
        v_mul_hi_u32_u24 => w.u2(i, |a, b| (low24(a) * low24(b) >> 32) as u32),
        v_mul_lo_u32 => w.u2(i, u32::wrapping_mul),
        v_mul_hi_u32 => w.u2(i, |a, b| (u64::from(a) * u64::from(b) >> 32) as u32),
        v_mul_hi_i32 => {
            w.u2(i, |a, b| {
                (i64::from(a as i32) * i64::from(b as i32) >> 32) as u32
            });
        }
        v_mad_i32_i24 if i.clamp => {
            w.u3(i, |a, b, c| {
                clamp_i32(sext24(a) * sext24(b) + i64::from(c as i32))
            });
        }
        v_mad_i32_i24 => {
            w.u3(i, |a, b, c| {
                ((sext24(a) * sext24(b)) as u32).wrapping_add(c)
            });
        }
        v_mad_u32_u24 if i.clamp => {
            w.u3(i, |a, b, c| {
                clamp_u32((low24(a) * low24(b) + u64::from(c)) as i64)
            });
        }
        v_mad_u32_u24 => w.u3(i, |a, b, c| ((low24(a) * low24(b)) as u32).wrapping_add(c)),
        v_bfrev_b32 => w.u1(i, u32::reverse_bits),
        v_ffbh_u32 => w.u1(i, |a| if a == 0 { !0 } else { a.leading_zeros() }),
        v_ffbl_b32 => w.u1(i, |a| if a == 0 { !0 } else { a.trailing_zeros() }),
        v_ffbh_i32 => w.u1(i, ffbh_i32),
        v_bfe_u32 => w.u3(i, bfe_u32),
        v_bfe_i32 => w.u3(i, bfe_i32),
        v_bfi_b32 => w.u3(i, |a, b, c| a & b | !a & c),
        v_bfm_b32 => w.u2(i, |a, b| ((1u32 << (a & 31)) - 1) << (b & 31)),
        v_bcnt_u32_b32 => w.u2(i, |a, b| a.count_ones().wrapping_add(b)),
        v_lerp_u8 => w.u3(i, lerp_u8),
        v_alignbit_b32 => {
            w.u3(i, |a, b, c| {
                ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
            });
        }
        v_alignbyte_b32 => {
            w.u3(i, |a, b, c| {
                ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
            });
        }
        v_min3_i32 => w.u3(i, |a, b, c| (a as i32).min(b as i32).min(c as i32) as u32),
        v_min3_u32 => w.u3(i, |a, b, c| a.min(b).min(c)),
        v_max3_i32 => w.u3(i, |a, b, c| (a as i32).max(b as i32).max(c as i32) as u32),
        v_max3_u32 => w.u3(i, |a, b, c| a.max(b).max(c)),
        v_med3_i32 => w.u3(i, |a, b, c| median(a as i32, b as i32, c as i32) as u32),
        v_med3_u32 => w.u3(i, median),
        v_sad_u8 => w.u3(i, |a, b, c| sad_u8(a, b).wrapping_add(c)),
        v_sad_hi_u8 => w.u3(i, |a, b, c| (sad_u8(a, b) << 16).wrapping_add(c)),
        v_sad_u16 => w.u3(i, |a, b, c| {
            let low = (a & 0xffff).abs_diff(b & 0xffff);
            (low + (a >> 16).abs_diff(b >> 16)).wrapping_add(c)
        }),
        v_sad_u32 => w.u3(i, |a, b, c| a.abs_diff(b).wrapping_add(c)),
        v_msad_u8 => w.u3(i, |a, b, c| msad_u8(a, b).wrapping_add(c)),
        v_perm_b32 => w.u3(i, perm),
        v_xad_u32 => w.u3(i, |a, b, c| (a ^ b).wrapping_add(c)),
        v_lshl_add_u32 => w.u3(i, |a, b, c| (a << (b & 31)).wrapping_add(c)),
        v_add_lshl_u32 => w.u3(i, |a, b, c| a.wrapping_add(b) << (c & 31)),
        v_add3_u32 => w.u3(i, |a, b, c| a.wrapping_add(b).wrapping_add(c)),
        v_lshl_or_b32 => w.u3(i, |a, b, c| a << (b & 31) | c),
        v_and_or_b32 => w.u3(i, |a, b, c| a & b | c),
        v_xor3_b32 => w.u3(i, |a, b, c| a ^ b ^ c),
        v_maxmin_u32 => w.u3(i, |a, b, c| a.max(b).min(c)),
        v_minmax_u32 => w.u3(i, |a, b, c| a.min(b).max(c)),
        v_maxmin_i32 => w.u3(i, |a, b, c| (a as i32).max(b as i32).min(c as i32) as u32),
        v_minmax_i32 => w.u3(i, |a, b, c| (a as i32).min(b as i32).max(c as i32) as u32),
        // Arithmetic exceptions are not raised: there is none to clear.
        v_nop | v_pipeflush | v_clrexcp => {}
        v_or3_b32 => w.u3(i, |a, b, c| a | b | c),
        v_cndmask_b32 => cndmask(w, i),
        v_add_co_u32 => carry(w, i, |a, b, _| a + b),
        v_sub_co_u32 => carry(w, i, |a, b, _| a.wrapping_sub(b)),
        v_subrev_co_u32 => carry(w, i, |a, b, _| b.wrapping_sub(a)),
        v_addc_co_u32 => carry(w, i, |a, b, c| a + b + c),
        v_subb_co_u32 => carry(w, i, |a, b, c| a.wrapping_sub(b).wrapping_sub(c)),
        v_subbrev_co_u32 => carry(w, i, |a, b, c| b.wrapping_sub(a).wrapping_sub(c)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn cndmask(w: &mut Wave, i: &Valu) {
    // Modifiers flip signs, as for floats.
    let modify = |n: usize, v: u32| {
        let v = if i.abs >> n & 1 != 0 {
            v & 0x7fff_ffff
        } else {
            v
        };
        if i.neg >> n & 1 != 0 {
            v ^ 0x8000_0000
        } else {
            v
        }
    };
    let (a, b, mask) = (w.raw(i, 0), w.raw(i, 1), w.carry_in(i));
    let lanes = std::array::from_fn(|l| {
        if mask >> l & 1 != 0 {
            modify(1, b[l])
        } else {
            modify(0, a[l])
        }
    });
    w.put(i, lanes);
}

/// Adds or subtracts in 64 bits; bit 32 is carry or borrow. `clamp` saturates.
fn carry(w: &mut Wave, i: &Valu, f: impl Fn(u64, u64, u64) -> u64) {
    let (a, b) = (w.raw(i, 0), w.raw(i, 1));
    let carry_in = w.carry_in(i);
    let mut out = [0; LANES];
    let mut bits = 0;
    for l in 0..LANES {
        let r = f(u64::from(a[l]), u64::from(b[l]), carry_in >> l & 1);
        out[l] = r as u32;
        let over = r >> 32 & 1;
        if i.clamp && over != 0 {
            // A borrow sets all upper bits, a carry only bit 32.
            out[l] = if r >> 63 != 0 { 0 } else { u32::MAX };
        }
        bits |= over << l;
    }
    w.put(i, out);
    w.put_mask(i, bits);
}

pub(super) fn step_wide(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_mov_b64 => {
            let a = w.f64s_unflushed(i, 0).map(f64::to_bits);
            w.put64(i, &a);
        }
        v_lshlrev_b64 => w.shift64(i, |a, b| b << (a & 63)),
        v_lshrrev_b64 => w.shift64(i, |a, b| b >> (a & 63)),
        v_ashrrev_i64 => w.shift64(i, |a, b| (b as i64 >> (a & 63)) as u64),
        v_lshl_add_u64 => {
            let rb;
            let b = lanes_of!(w, i, 1, rb);
            let (a, c) = (w.raw64(i, 0), w.raw64(i, 2));
            // More than 4 is no shift.
            let by = |l: usize| Some(b[l] & 7).filter(|&by| by <= 4).unwrap_or(0);
            let out = std::array::from_fn(|l| (a[l] << by(l)).wrapping_add(c[l]));
            w.put64(i, &out);
        }
        v_mad_u64_u32 => mad64(w, i, |a, b, c| {
            let (r, over) = (u64::from(a) * u64::from(b)).overflowing_add(c);
            (if over && i.clamp { u64::MAX } else { r }, over)
        }),
        v_mad_i64_i32 => mad64(w, i, |a, b, c| {
            let product = i64::from(a as i32) * i64::from(b as i32);
            let (r, over) = product.overflowing_add(c as i64);
            let saturated = if c as i64 >= 0 { i64::MAX } else { i64::MIN };
            ((if over && i.clamp { saturated } else { r }) as u64, over)
        }),
        _ => return Ok(false),
    }
    Ok(true)
}

fn mad64(w: &mut Wave, i: &Valu, f: impl Fn(u32, u32, u64) -> (u64, bool)) {
    let (a, b, c) = (w.raw(i, 0), w.raw(i, 1), w.raw64(i, 2));
    let mut out = [0; LANES];
    let mut bits = 0;
    for l in 0..LANES {
        let (r, over) = f(a[l], b[l], c[l]);
        out[l] = r;
        bits |= u64::from(over) << l;
    }
    w.put64(i, &out);
    w.put_mask(i, bits);
}

fn sext16(a: u32) -> i32 {
    i32::from(a as u16 as i16)
}

fn clamp_u16(v: i32) -> u32 {
    v.clamp(0, 0xffff) as u32
}

fn clamp_i16(v: i32) -> u32 {
    v.clamp(-0x8000, 0x7fff) as u32
}

impl Wave {
    fn h1(&mut self, i: &Valu, f: impl Fn(u32) -> u32) {
        let a = self.raw16(i, 0);
        self.put16(i, a.map(|v| f(v) & 0xffff), true);
    }

    fn h2(&mut self, i: &Valu, keep_high: bool, f: impl Fn(u32, u32) -> u32) {
        let (a, b) = (self.raw16(i, 0), self.raw16(i, 1));
        self.put16(i, std::array::from_fn(|l| f(a[l], b[l])), keep_high);
    }

    fn h3(&mut self, i: &Valu, keep_high: bool, f: impl Fn(u32, u32, u32) -> u32) {
        let (a, b, c) = (self.raw16(i, 0), self.raw16(i, 1), self.raw16(i, 2));
        self.put16(i, std::array::from_fn(|l| f(a[l], b[l], c[l])), keep_high);
    }
}

pub(super) fn step16(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    let clamp = i.clamp;
    let unsigned = |v: i32| if clamp { clamp_u16(v) } else { v as u32 };
    let signed = |v: i32| if clamp { clamp_i16(v) } else { v as u32 };
    match op {
        v_add_u16 => w.h2(i, false, |a, b| unsigned((a + b) as i32)),
        v_sub_u16 => w.h2(i, false, |a, b| unsigned(a as i32 - b as i32)),
        v_subrev_u16 => w.h2(i, false, |a, b| unsigned(b as i32 - a as i32)),
        v_add_i16 => w.h2(i, true, |a, b| signed(sext16(a) + sext16(b))),
        v_sub_i16 => w.h2(i, true, |a, b| signed(sext16(a) - sext16(b))),
        v_mul_lo_u16 => w.h2(i, false, u32::wrapping_mul),
        v_lshlrev_b16 => w.h2(i, false, |a, b| b << (a & 15)),
        v_lshrrev_b16 => w.h2(i, false, |a, b| b >> (a & 15)),
        v_ashrrev_i16 => w.h2(i, false, |a, b| (sext16(b) >> (a & 15)) as u32),
        v_max_u16 => w.h2(i, false, u32::max),
        v_min_u16 => w.h2(i, false, u32::min),
        v_max_i16 => w.h2(i, false, |a, b| sext16(a).max(sext16(b)) as u32),
        v_min_i16 => w.h2(i, false, |a, b| sext16(a).min(sext16(b)) as u32),
        v_mad_u16 | v_mad_legacy_u16 => w.h3(i, op == v_mad_u16, |a, b, c| {
            let r = u64::from(a) * u64::from(b) + u64::from(c);
            if clamp {
                r.min(0xffff) as u32
            } else {
                r as u32
            }
        }),
        v_mad_i16 | v_mad_legacy_i16 => w.h3(i, op == v_mad_i16, |a, b, c| {
            let r = i64::from(sext16(a)) * i64::from(sext16(b)) + i64::from(sext16(c));
            if clamp {
                r.clamp(-0x8000, 0x7fff) as u32
            } else {
                r as u32
            }
        }),
        v_min3_u16 => w.h3(i, true, |a, b, c| a.min(b).min(c)),
        v_max3_u16 => w.h3(i, true, |a, b, c| a.max(b).max(c)),
        v_med3_u16 => w.h3(i, true, median),
        v_min3_i16 => w.h3(i, true, |a, b, c| {
            sext16(a).min(sext16(b)).min(sext16(c)) as u32
        }),
        v_max3_i16 => w.h3(i, true, |a, b, c| {
            sext16(a).max(sext16(b)).max(sext16(c)) as u32
        }),
        v_med3_i16 => w.h3(i, true, |a, b, c| {
            median(sext16(a), sext16(b), sext16(c)) as u32
        }),
        v_mad_u32_u16 => mad_mixed(w, i, |a, b, c| {
            let r = u64::from(a) * u64::from(b) + u64::from(c);
            if clamp {
                clamp_u32(r as i64)
            } else {
                r as u32
            }
        }),
        v_mad_i32_i16 => mad_mixed(w, i, |a, b, c| {
            let r = i64::from(sext16(a)) * i64::from(sext16(b)) + i64::from(c as i32);
            if clamp {
                clamp_i32(r)
            } else {
                r as u32
            }
        }),
        v_mov_b16 => w.h1(i, |a| a),
        v_not_b16 => w.h1(i, |a| !a),
        v_and_b16 => w.h2(i, true, |a, b| a & b),
        v_or_b16 => w.h2(i, true, |a, b| a | b),
        v_xor_b16 => w.h2(i, true, |a, b| a ^ b),
        v_cndmask_b16 => {
            let (a, b, mask) = (w.modified16(i, 0), w.modified16(i, 1), w.carry_in(i));
            let pick = |l: usize| if mask >> l & 1 != 0 { b[l] } else { a[l] };
            w.put16(i, std::array::from_fn(pick), true);
        }
        v_cvt_i32_i16 => {
            let a = w.raw16(i, 0);
            w.put(i, a.map(|v| sext16(v) as u32));
        }
        v_cvt_u32_u16 => {
            let a = w.raw16(i, 0);
            w.put(i, a);
        }
        v_sat_pk_u8_i16 => {
            let a = w.raw(i, 0);
            let byte = |v: u32| sext16(v).clamp(0, 255) as u32;
            w.put16(i, a.map(|v| byte(v) | byte(v >> 16) << 8), false);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Multiply-add with 16-bit factors and a 32-bit addend.
fn mad_mixed(w: &mut Wave, i: &Valu, f: impl Fn(u32, u32, u32) -> u32) {
    let (a, b, c) = (w.raw16(i, 0), w.raw16(i, 1), w.raw(i, 2));
    w.put(i, std::array::from_fn(|l| f(a[l], b[l], c[l])));
}
