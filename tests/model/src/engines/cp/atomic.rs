// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomic operations of the L2 cache, by their ATOMIC_MEM codes.

/// Computes the new value from (old, source, compare).
pub type Operation = fn(u64, u64, u64) -> u64;

/// Returns operand size in bytes and operation (old, source, compare) of a code: `TC_OP_ATOMIC_*`
/// of `vega10_enum.h`, `GL2_OP_ATOMIC_*` of `soc24_enum.h`.
pub fn operation(code: u32) -> Option<(u8, Operation)> {
    // Bit 5: 64 bits.
    let wide = code & 0x20 != 0;
    fn smin32(a: u64, b: u64, _: u64) -> u64 {
        (a as i32).min(b as i32) as u32 as u64
    }
    fn smax32(a: u64, b: u64, _: u64) -> u64 {
        (a as i32).max(b as i32) as u32 as u64
    }
    fn smin64(a: u64, b: u64, _: u64) -> u64 {
        (a as i64).min(b as i64) as u64
    }
    fn smax64(a: u64, b: u64, _: u64) -> u64 {
        (a as i64).max(b as i64) as u64
    }
    let operation: Operation = match code & 0x1f {
        0x07 => |_, src, _| src,
        0x08 => |old, src, cmp| if old == cmp { src } else { old },
        0x0f => |old, src, _| old.wrapping_add(src),
        0x10 => |old, src, _| old.wrapping_sub(src),
        0x11 if wide => smin64,
        0x11 => smin32,
        0x12 => |old, src, _| old.min(src),
        0x13 if wide => smax64,
        0x13 => smax32,
        0x14 => |old, src, _| old.max(src),
        0x15 => |old, src, _| old & src,
        0x16 => |old, src, _| old | src,
        0x17 => |old, src, _| old ^ src,
        0x18 => |old, src, _| if old >= src { 0 } else { old + 1 },
        0x19 => |old, src, _| {
            if old == 0 || old > src {
                src
            } else {
                old - 1
            }
        },
        _ => return None,
    };
    Some((if wide { 8 } else { 4 }, operation))
}
