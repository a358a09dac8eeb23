// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Read-modify-write operations on memory and LDS.

use crate::float;
use crate::inst::Atomic;

fn float_op(op: Atomic, size: u8, old: u64, data: u64, flush: bool) -> u64 {
    if size == 8 {
        let (a, b) = (f64::from_bits(old), f64::from_bits(data));
        let r = match op {
            Atomic::FAdd => a + b,
            Atomic::FMin => float::pick64(a, b, false, true),
            _ => float::pick64(a, b, true, true),
        };
        let r = if r.is_nan() { float::nan64(&[a, b]) } else { r };
        return r.to_bits();
    }
    let load = |v: u64| {
        let x = f32::from_bits(v as u32);
        if flush {
            float::flush32(x)
        } else {
            x
        }
    };
    let (a, b) = (load(old), load(data));
    let r = match op {
        Atomic::FAdd => a + b,
        Atomic::FMin => float::pick32(a, b, false, true),
        _ => float::pick32(a, b, true, true),
    };
    let r = if r.is_nan() { float::nan32(&[a, b]) } else { r };
    let r = if flush { float::flush32(r) } else { r };
    u64::from(r.to_bits())
}

fn halves(old: u64, data: u64, f: impl Fn(u16, u16) -> u16) -> u64 {
    let low = f(old as u16, data as u16);
    let high = f((old >> 16) as u16, (data >> 16) as u16);
    u64::from(low) | u64::from(high) << 16
}

fn add_f16(a: u16, b: u16) -> u16 {
    float::to_f16(
        f64::from(float::from_f16(a)) + f64::from(float::from_f16(b)),
        0,
    )
}

fn add_bf16(a: u16, b: u16) -> u16 {
    float::to_bf16(float::from_bf16(a) + float::from_bf16(b))
}

/// Returns the new value of a cell of `size` bytes. Compare-and-swap compares with `data` and
/// stores `data2`. `flush`: f32 denormals are flushed.
pub(super) fn apply(op: Atomic, size: u8, old: u64, data: u64, data2: u64, flush: bool) -> u64 {
    let mask = if size == 4 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    };
    let signed = |v: u64| {
        if size == 4 {
            i64::from(v as u32 as i32)
        } else {
            v as i64
        }
    };
    let new = match op {
        Atomic::Swap => data,
        Atomic::CmpSwap => {
            if old == data {
                data2
            } else {
                old
            }
        }
        Atomic::Add => old.wrapping_add(data),
        Atomic::Sub => old.wrapping_sub(data),
        Atomic::RSub => data.wrapping_sub(old),
        Atomic::SMin => {
            if signed(data) < signed(old) {
                data
            } else {
                old
            }
        }
        Atomic::SMax => {
            if signed(data) > signed(old) {
                data
            } else {
                old
            }
        }
        Atomic::UMin => old.min(data),
        Atomic::UMax => old.max(data),
        Atomic::And => old & data,
        Atomic::Or => old | data,
        Atomic::Xor => old ^ data,
        Atomic::Inc => {
            if old >= data {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if old == 0 || old > data {
                data
            } else {
                old - 1
            }
        }
        Atomic::MsKor => old & !data | data2,
        Atomic::Wrap => {
            if old >= data {
                old - data
            } else {
                old.wrapping_add(data2)
            }
        }
        Atomic::SubClamp => old.saturating_sub(data),
        Atomic::CondSub => old.checked_sub(data).unwrap_or(old),
        Atomic::CondXchg => {
            let half = |shift: u32| match (data >> shift) as u32 {
                new if new >> 31 != 0 => u64::from(new & !(1 << 31)) << shift,
                _ => old & u64::from(u32::MAX) << shift,
            };
            half(0) | half(32)
        }
        Atomic::FCmpSwap => {
            let equal = if size == 8 {
                f64::from_bits(old) == f64::from_bits(data)
            } else {
                f32::from_bits(old as u32) == f32::from_bits(data as u32)
            };
            if equal {
                data2
            } else {
                old
            }
        }
        Atomic::FAdd | Atomic::FMin | Atomic::FMax => float_op(op, size, old, data, flush),
        Atomic::PkAddF16 => halves(old, data, add_f16),
        Atomic::PkAddBf16 => halves(old, data, add_bf16),
    };
    new & mask
}
