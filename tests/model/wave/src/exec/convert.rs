// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Conversions between number formats.

use super::valu::Tried;
use crate::float::{self, round};
use crate::inst::Valu;
use crate::op::Op;
use crate::wave::{Wave, LANES};
use crate::Isa;

fn sat_i16(x: f64) -> u32 {
    u32::from(x.clamp(-32768.0, 32767.0) as i16 as u16)
}

fn sat_u16(x: f64) -> u32 {
    u32::from(x as u16)
}

/// Converts to a normalised integer: -1..1 (0..1 if unsigned) maps to the full integer range.
fn norm_i16(x: f64) -> u32 {
    sat_i16((x.clamp(-1.0, 1.0) * 32767.0).round_ties_even())
}

fn norm_u16(x: f64) -> u32 {
    sat_u16((x.clamp(0.0, 1.0) * 65535.0).round_ties_even())
}

type Narrow8 = fn(f32, bool, Option<f64>) -> u8;

/// Returns the conversion to an 8-bit float.
fn narrow8(isa: Isa, fp8: bool) -> Narrow8 {
    match (isa, fp8) {
        (Isa::Gfx942, true) => float::to_fp8,
        (Isa::Gfx942, false) => float::to_bf8,
        (Isa::Gfx1201, true) => float::to_ocp_fp8,
        (Isa::Gfx1201, false) => float::to_ocp_bf8,
    }
}

/// Returns the conversion from an 8-bit float.
pub(super) fn widen8(isa: Isa, fp8: bool) -> fn(u8) -> f32 {
    match (isa, fp8) {
        (Isa::Gfx942, true) => float::from_fp8,
        (Isa::Gfx942, false) => float::from_bf8,
        (Isa::Gfx1201, true) => float::from_ocp_fp8,
        (Isa::Gfx1201, false) => float::from_ocp_bf8,
    }
}

/// Converts to a byte in a rounding mode, saturating; NaN gives 0.
fn to_u8(x: f32, mode: u32) -> u8 {
    let rounded = match mode {
        round::NEAREST => x.round_ties_even(),
        round::UP => x.ceil(),
        round::DOWN => x.floor(),
        _ => x,
    };
    rounded as u8
}

/// Returns `old` with byte `at` (low two bits) replaced.
fn byte_at(old: u32, at: u32, byte: u8) -> u32 {
    let shift = 8 * (at & 3);
    old & !(0xff << shift) | u32::from(byte) << shift
}

impl Wave {
    /// MODE.FP16_OVFL: overflow saturates.
    pub(super) fn fp16_ovfl(&self) -> bool {
        self.mode >> 23 & 1 != 0
    }

    /// Writes f32 results of values that are exact in f64.
    fn put_narrow(&mut self, i: &Valu, values: [f64; LANES]) {
        let mode = self.round32();
        self.put_f32(i, values.map(|x| float::to_f32(x, mode)));
    }

    fn pair(&mut self, i: &Valu, f: impl Fn(f32, f32) -> u32) {
        let (a, b) = (self.f32s(i, 0), self.f32s(i, 1));
        self.put(i, std::array::from_fn(|l| f(a[l], b[l])));
    }
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_cvt_f32_i32 => {
            let a = w.raw(i, 0);
            w.put_narrow(i, a.map(|v| f64::from(v as i32)));
        }
        v_cvt_f32_u32 => {
            let a = w.raw(i, 0);
            w.put_narrow(i, a.map(f64::from));
        }
        v_cvt_f32_ubyte0 | v_cvt_f32_ubyte1 | v_cvt_f32_ubyte2 | v_cvt_f32_ubyte3 => {
            let shift = match op {
                v_cvt_f32_ubyte0 => 0,
                v_cvt_f32_ubyte1 => 8,
                v_cvt_f32_ubyte2 => 16,
                _ => 24,
            };
            let a = w.raw(i, 0);
            w.put_f32(i, a.map(|v| (v >> shift & 0xff) as f32));
        }
        v_cvt_off_f32_i4 => {
            let a = w.raw(i, 0);
            w.put_f32(i, a.map(|v| ((v << 28) as i32 >> 28) as f32 / 16.0));
        }
        // Rust's casts match the hardware: toward zero, saturating, NaN to zero.
        v_cvt_u32_f32 => {
            let a = w.f32s(i, 0);
            w.put(i, a.map(|x| x as u32));
        }
        v_cvt_i32_f32 => {
            let a = w.f32s(i, 0);
            w.put(i, a.map(|x| x as i32 as u32));
        }
        v_cvt_rpi_i32_f32 => {
            let a = w.f32s(i, 0);
            w.put(i, a.map(|x| (f64::from(x) + 0.5).floor() as i32 as u32));
        }
        v_cvt_flr_i32_f32 => {
            let a = w.f32s(i, 0);
            w.put(i, a.map(|x| x.floor() as i32 as u32));
        }
        v_cvt_u32_f64 => {
            let a = w.f64s(i, 0);
            w.put(i, a.map(|x| x as u32));
        }
        v_cvt_i32_f64 => {
            let a = w.f64s(i, 0);
            w.put(i, a.map(|x| x as i32 as u32));
        }
        v_cvt_f64_i32 => {
            let a = w.raw(i, 0);
            w.put_f64(i, a.map(|v| f64::from(v as i32)));
        }
        v_cvt_f64_u32 => {
            let a = w.raw(i, 0);
            w.put_f64(i, a.map(f64::from));
        }
        v_cvt_f32_f64 => {
            let a = w.f64s(i, 0);
            w.put_narrow(i, a);
        }
        v_cvt_f64_f32 => {
            let a = w.f32s(i, 0);
            w.put_f64(i, a.map(f64::from));
        }
        v_cvt_f16_f32 => {
            let a = w.f32s(i, 0);
            let out = a.map(|x| w.narrow16(i, f64::from(x)));
            w.put16(i, out, false);
        }
        v_cvt_f32_f16 => {
            let a = w.f16s(i, 0);
            w.put_narrow(i, a);
        }
        v_cvt_f32_fp8 | v_cvt_f32_bf8 => {
            let a = w.raw(i, 0);
            let convert = widen8(w.isa, op == v_cvt_f32_fp8);
            // VOP3 of gfx1201: `op_sel` selects the byte, the higher bit first.
            let byte = match w.isa {
                Isa::Gfx942 => 0,
                Isa::Gfx1201 => i.op_sel << 1 & 2 | i.op_sel >> 1 & 1,
            };
            w.put_f32(i, a.map(|v| convert((v >> (8 * byte)) as u8)));
        }
        v_cvt_pk_f32_fp8 | v_cvt_pk_f32_bf8 => {
            let a = match w.isa {
                Isa::Gfx942 => w.raw(i, 0),
                Isa::Gfx1201 => w.raw16(i, 0),
            };
            let convert = widen8(w.isa, op == v_cvt_pk_f32_fp8);
            let bits = |v: u32| u64::from(convert(v as u8).to_bits());
            w.put64(i, &a.map(|v| bits(v) | bits(v >> 8) << 32));
        }
        v_cvt_f16_u16 | v_cvt_f16_i16 => {
            let a = w.raw16(i, 0);
            let signed = op == v_cvt_f16_i16;
            let out = a.map(|v| {
                let x = if signed {
                    f64::from(v as u16 as i16)
                } else {
                    f64::from(v)
                };
                w.narrow16(i, x)
            });
            w.put16(i, out, false);
        }
        v_cvt_u16_f16 => {
            let a = w.f16s(i, 0);
            w.put16(i, a.map(sat_u16), false);
        }
        v_cvt_i16_f16 => {
            let a = w.f16s(i, 0);
            w.put16(i, a.map(sat_i16), false);
        }
        v_cvt_norm_i16_f16 => {
            let a = w.f16s(i, 0);
            w.put16(i, a.map(norm_i16), false);
        }
        v_cvt_norm_u16_f16 => {
            let a = w.f16s(i, 0);
            w.put16(i, a.map(norm_u16), false);
        }
        v_cvt_pkrtz_f16_f32 => w.pair(i, |a, b| {
            let half = |x| u32::from(float::f32_to_f16(x, round::ZERO));
            half(a) | half(b) << 16
        }),
        v_cvt_pknorm_i16_f32 => {
            w.pair(i, |a, b| {
                norm_i16(f64::from(a)) | norm_i16(f64::from(b)) << 16
            });
        }
        v_cvt_pknorm_u16_f32 => {
            w.pair(i, |a, b| {
                norm_u16(f64::from(a)) | norm_u16(f64::from(b)) << 16
            });
        }
        v_cvt_pknorm_i16_f16 => {
            let (a, b) = (w.f16s(i, 0), w.f16s(i, 1));
            w.put(
                i,
                std::array::from_fn(|l| norm_i16(a[l]) | norm_i16(b[l]) << 16),
            );
        }
        v_cvt_pknorm_u16_f16 => {
            let (a, b) = (w.f16s(i, 0), w.f16s(i, 1));
            w.put(
                i,
                std::array::from_fn(|l| norm_u16(a[l]) | norm_u16(b[l]) << 16),
            );
        }
        v_cvt_pk_fp8_f32 | v_cvt_pk_bf8_f32 => {
            let (convert, saturate) = (narrow8(w.isa, op == v_cvt_pk_fp8_f32), w.fp16_ovfl());
            let (a, b) = (w.f32s(i, 0), w.f32s(i, 1));
            let old = w.v[usize::from(i.dst)];
            let shift = if i.op_sel & 8 != 0 { 16 } else { 0 };
            let pair = |l: usize| {
                let byte = |x| u32::from(convert(x, saturate, None));
                byte(a[l]) | byte(b[l]) << 8
            };
            w.put(
                i,
                std::array::from_fn(|l| old[l] & !(0xffff << shift) | pair(l) << shift),
            );
        }
        v_cvt_sr_fp8_f32 | v_cvt_sr_bf8_f32 => {
            let fp8 = op == v_cvt_sr_fp8_f32;
            let (convert, saturate) = (narrow8(w.isa, fp8), w.fp16_ovfl());
            let (a, b) = (w.f32s(i, 0), w.raw(i, 1));
            let old = w.v[usize::from(i.dst)];
            let shift = 8 * u32::from(i.op_sel >> 2 & 3);
            // As many random bits as the mantissa loses, the highest ones.
            let lost = if fp8 { 20 } else { 21 };
            let byte = |l: usize| {
                let random = f64::from(b[l] >> (32 - lost)) / f64::from(1 << lost);
                u32::from(convert(a[l], saturate, Some(random)))
            };
            w.put(
                i,
                std::array::from_fn(|l| old[l] & !(0xff << shift) | byte(l) << shift),
            );
        }
        v_cvt_pk_u8_f32 => {
            let (a, at, old) = (w.f32s(i, 0), w.raw(i, 1), w.raw(i, 2));
            let mode = w.round32();
            w.put(
                i,
                std::array::from_fn(|l| byte_at(old[l], at[l], to_u8(a[l], mode))),
            );
        }
        v_cvt_pkaccum_u8_f32 => {
            let (a, at, old) = (w.f32s(i, 0), w.raw(i, 1), w.v[usize::from(i.dst)]);
            let mode = w.round32();
            w.put(
                i,
                std::array::from_fn(|l| byte_at(old[l], at[l], to_u8(a[l], mode))),
            );
        }
        v_cvt_pk_i16_f32 => w.pair(i, |a, b| {
            sat_i16(f64::from(a)) | sat_i16(f64::from(b)) << 16
        }),
        v_cvt_pk_u16_f32 => w.pair(i, |a, b| {
            sat_u16(f64::from(a)) | sat_u16(f64::from(b)) << 16
        }),
        v_cvt_pk_u16_u32 => w.u2(i, |a, b| a.min(0xffff) | b.min(0xffff) << 16),
        v_cvt_pk_i16_i32 => w.u2(i, |a, b| {
            let half = |v: u32| (v as i32).clamp(-0x8000, 0x7fff) as u32 & 0xffff;
            half(a) | half(b) << 16
        }),
        _ => return Ok(false),
    }
    Ok(true)
}
