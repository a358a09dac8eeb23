// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SMEM of gfx1201: scalar loads, cache control and prefetch.

use super::super::{bits, illegal, violation, Decoded, Limits};
use super::flat::scope;
use super::operand::{sgpr, sgpr_dst, NULL};
use crate::inst::{Body, Inst, ScalarLoad};

/// Returns the number of bytes loaded, and whether they are signed, of a non-buffer load.
fn load(code: u32) -> Option<(u8, bool)> {
    Some(match code {
        0x0..=0x4 => (4 << code, false),
        0x5 => (12, false),
        0x8 => (1, true),
        0x9 => (1, false),
        0xa => (2, true),
        0xb => (2, false),
        _ => return None,
    })
}

pub(super) fn smem(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 18, 13);
    let hint = Ok(Inst {
        bytes: 0,
        body: Body::CacheControl,
    });
    let base = |regs| sgpr(limits, bits(word, 5, 0) << 1, regs);
    let soffset = match bits(second, 31, 25) {
        NULL => None,
        reg => Some(sgpr(limits, reg, 1)?),
    };
    let offset = ((bits(second, 23, 0) << 8) as i32) >> 8;
    let buffer = match code {
        0x00..=0x0f => false,
        0x10..=0x1f => true,
        // s_dcache_inv.
        0x21 => {
            return Ok(Inst {
                bytes: 0,
                body: Body::ScalarInvalidate,
            })
        }
        // s_atc_probe, s_prefetch_* of data and instructions: never fault.
        0x25 | 0x28 => return hint,
        0x22 | 0x24 | 0x26 => return base(2).and(hint),
        0x23 | 0x27 => return base(4).and(hint),
        _ => return illegal(format!("SMEM opcode {code:#x}")),
    };
    let Some((bytes, signed)) = load(code & 0xf) else {
        return illegal(format!("SMEM opcode {code:#x}"));
    };
    if buffer && offset < 0 {
        return violation("s_buffer_load with a negative offset".into());
    }
    let regs = u16::from(bytes.div_ceil(4));
    Ok(Inst {
        bytes: 0,
        body: Body::ScalarLoad(ScalarLoad {
            data: sgpr_dst(limits, bits(word, 12, 6), regs)?,
            base: base(if buffer { 4 } else { 2 })?,
            buffer,
            bytes,
            signed,
            offset,
            soffset,
            scope: scope(bits(word, 22, 21)),
        }),
    })
}
