// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VBUFFER of gfx1201.

use super::super::{bits, illegal, violation, Decoded, Limits, WORDS};
use super::flat::{access, registers, returns, scope_of, tuple};
use super::operand::{sgpr, vgpr, NULL};
use crate::format::Format;
use crate::inst::{Access, Body, Inst, Segment, Src, Typed, Vmem};

pub(super) fn buffer([word, second, third]: [u32; WORDS], limits: &Limits) -> Decoded {
    let code = bits(word, 21, 14);
    let format = bits(second, 29, 23);
    let found = match code {
        0x00..=0x0f => Some(Access::Typed(Typed::new(code, None))),
        0x26 | 0x27 => Some(Access::Typed(Typed::high(code == 0x27))),
        0x80..=0x8f => match Format::gfx1201(format) {
            None => return violation(format!("typed VBUFFER with format {format}")),
            format => Some(Access::Typed(Typed::new(code - 0x80, format))),
        },
        _ => access(code),
    };
    let Some(access) = found else {
        return illegal(format!("VBUFFER opcode {code:#x}"));
    };
    if bits(word, 22, 22) == 1 {
        return violation("VBUFFER with TFE".into());
    }
    if bits(third, 31, 31) == 1 {
        return violation("VBUFFER with a negative offset".into());
    }
    let (offen, idxen) = (bits(second, 30, 30) == 1, bits(second, 31, 31) == 1);
    let returns = returns(access, second);
    let (data, dst) = registers(limits, access, returns);
    let vdata = tuple(limits, bits(second, 7, 0), data.max(dst))?;
    let addr = match u16::from(offen) + u16::from(idxen) {
        0 => None,
        n => Some(vgpr(limits, bits(third, 7, 0), n)?),
    };
    let soffset = match bits(word, 6, 0) {
        NULL => Src::Imm(0),
        reg => Src::Sgpr(sgpr(limits, reg, 1)?),
    };
    Ok(Inst {
        bytes: 0,
        body: Body::Vmem(Vmem {
            segment: Segment::Buffer { offen, idxen },
            access,
            addr,
            data: vdata,
            dst: vdata,
            returns,
            saddr: Some(sgpr(limits, bits(second, 17, 9), 4)?),
            soffset,
            offset: bits(third, 31, 8) as i32,
            scope: scope_of(second),
        }),
    })
}
