// SPDX-License-Identifier: GPL-2.0 OR MIT

//! FLAT, GLOBAL, SCRATCH, MUBUF and MTBUF instructions.

use super::operand::Limits;
use super::{bits, illegal, violation, Bad, Decoded};
use crate::format::Format;
use crate::inst::{Access, Atomic, Body, Components, Half, Inst, Segment, Src, Typed, Vmem};
use crate::op::Ty;
use crate::Scope;

/// Scalar address operand code for none.
const SADDR_OFF: u32 = 0x7f;

/// Returns the load, store or atomic; the opcodes are common to all four families.
fn access(code: u32) -> Option<Access> {
    let load = |bytes, signed, half| {
        Some(Access::Load {
            bytes,
            signed,
            half,
        })
    };
    let store = |bytes, high| Some(Access::Store { bytes, high });
    match code {
        0x10 => load(1, false, Half::Whole),
        0x11 => load(1, true, Half::Whole),
        0x12 => load(2, false, Half::Whole),
        0x13 => load(2, true, Half::Whole),
        0x14..=0x17 => load(4 * (code as u8 - 0x13), false, Half::Whole),
        0x18 => store(1, false),
        0x19 => store(1, true),
        0x1a => store(2, false),
        0x1b => store(2, true),
        0x1c..=0x1f => store(4 * (code as u8 - 0x1b), false),
        0x20 => load(1, false, Half::Low),
        0x21 => load(1, false, Half::High),
        0x22 => load(1, true, Half::Low),
        0x23 => load(1, true, Half::High),
        0x24 => load(2, false, Half::Low),
        0x25 => load(2, false, Half::High),
        0x40..=0x6c => atomic(code),
        _ => None,
    }
}

fn atomic(code: u32) -> Option<Access> {
    let (op, size) = match code {
        0x4d => (Atomic::FAdd, 4),
        0x4e => (Atomic::PkAddF16, 4),
        0x4f => (Atomic::FAdd, 8),
        0x50 => (Atomic::FMin, 8),
        0x51 => (Atomic::FMax, 8),
        0x52 => (Atomic::PkAddBf16, 4),
        _ => cell(code)?,
    };
    Some(Access::Atomic { op, size })
}

/// Returns the integer atomic and the size of its cell. Scalar atomics have the same low opcode
/// bits.
pub(super) fn cell(code: u32) -> Option<(Atomic, u8)> {
    let op = match code & 0x1f {
        0x0 => Atomic::Swap,
        0x1 => Atomic::CmpSwap,
        0x2 => Atomic::Add,
        0x3 => Atomic::Sub,
        0x4 => Atomic::SMin,
        0x5 => Atomic::UMin,
        0x6 => Atomic::SMax,
        0x7 => Atomic::UMax,
        0x8 => Atomic::And,
        0x9 => Atomic::Or,
        0xa => Atomic::Xor,
        0xb => Atomic::Inc,
        0xc => Atomic::Dec,
        _ => return None,
    };
    Some((op, if code < 0x60 { 4 } else { 8 }))
}

/// Returns the load to LDS, by opcode.
fn lds_load(code: u32) -> Option<Access> {
    let (bytes, signed) = match code {
        0x26 | 0x10 => (1, false),
        0x27 | 0x11 => (1, true),
        0x28 | 0x12 => (2, false),
        0x29 | 0x13 => (2, true),
        0x2a | 0x14 => (4, false),
        _ => return None,
    };
    Some(Access::LoadLds { bytes, signed })
}

/// Returns the number of registers of stored and of returned data.
fn registers(access: Access, returns: bool) -> (u16, u16) {
    match access {
        Access::Load { bytes, .. } => (0, u16::from(bytes).div_ceil(4)),
        Access::Store { bytes, .. } => (u16::from(bytes).div_ceil(4), 0),
        Access::Atomic { op, size } => {
            let n = u16::from(size) / 4;
            let operands = if op == Atomic::CmpSwap { 2 } else { 1 };
            (n * operands, if returns { n } else { 0 })
        }
        Access::Typed(typed) if typed.store => (typed.count(), 0),
        Access::Typed(typed) => (0, typed.count()),
        Access::LoadLds { .. } | Access::LoadTranspose { .. } | Access::Block { .. } => (0, 0),
    }
}

fn tuple(limits: &Limits, acc: bool, reg: u32, count: u16) -> Result<u16, Bad> {
    match count {
        0 => Ok(0),
        _ => limits.either(acc, reg, count),
    }
}

pub(super) fn flat(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 24, 18);
    let name = ["FLAT", "SCRATCH", "GLOBAL", "FLAT segment 3"][bits(word, 15, 14) as usize];
    let segment = match bits(word, 15, 14) {
        0 => Segment::Flat,
        1 => Segment::Scratch,
        2 => Segment::Global,
        _ => return illegal(format!("FLAT opcode {code:#x} of segment 3")),
    };
    let found = match segment {
        Segment::Flat => access(code),
        Segment::Scratch => access(code).filter(|a| !matches!(a, Access::Atomic { .. })),
        _ => access(code),
    };
    let found = match (found, segment) {
        (None, Segment::Global | Segment::Scratch) if code >= 0x26 => lds_load(code),
        (found, _) => found,
    };
    let Some(access) = found else {
        return illegal(format!("{name} opcode {code:#x}"));
    };
    if bits(word, 13, 13) == 1 && segment != Segment::Scratch {
        return illegal(format!("{name} opcode {code:#x} with bit 13 set"));
    }
    // Bit 13 of SCRATCH is SVE (vector offset enable).
    let sc0 = bits(word, 16, 16) == 1;
    let returns = matches!(access, Access::Load { .. }) || sc0;
    let acc = bits(second, 23, 23) == 1;
    let (data, dst) = registers(access, returns);
    let mut offset = ((bits(word, 12, 0) << 19) as i32) >> 19;
    let mut saddr = match bits(second, 22, 16) {
        SADDR_OFF => None,
        reg if segment == Segment::Scratch => Some(limits.sgpr(reg, 1)?),
        reg => Some(limits.sgpr(reg, 2)?),
    };
    let addr = match segment {
        Segment::Scratch if bits(word, 13, 13) == 0 => None,
        Segment::Scratch => Some(limits.vgpr(bits(second, 7, 0), 1)?),
        Segment::Global if saddr.is_some() => Some(limits.vgpr(bits(second, 7, 0), 1)?),
        _ => Some(limits.vgpr(bits(second, 7, 0), 2)?),
    };
    if segment == Segment::Flat {
        // FLAT has an unsigned 12-bit offset and no scalar address.
        if bits(word, 12, 12) == 1 {
            return violation("FLAT with a negative offset".into());
        }
        offset = bits(word, 11, 0) as i32;
        saddr = None;
    }
    Ok(Inst {
        bytes: 0,
        body: Body::Vmem(Vmem {
            segment,
            access,
            addr,
            data: tuple(limits, acc, bits(second, 15, 8), data)?,
            dst: tuple(limits, acc, bits(second, 31, 24), dst)?,
            returns,
            saddr,
            soffset: Src::None,
            offset,
            scope: scope_of(sc0, bits(word, 25, 25) == 1, bits(word, 17, 17) == 1),
        }),
    })
}

/// Returns the scope of an access. With NT, which misses in the vector cache, it is not the wave.
fn scope_of(sc0: bool, sc1: bool, nt: bool) -> Scope {
    let scope = Scope::new(sc0, sc1);
    if nt {
        return scope.max(Scope::Workgroup);
    }
    scope
}

pub(super) fn mubuf(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 24, 18);
    let scope = Scope::new(bits(word, 14, 14) == 1, bits(word, 15, 15) == 1);
    let control = match code {
        0x28 | 0x29 => Some(Body::L2 {
            write_back: code == 0x28,
            invalidate: code == 0x29,
            scope,
        }),
        // buffer_wbinvl1, buffer_wbinvl1_vol.
        0x3e | 0x3f => Some(Body::L2 {
            write_back: false,
            invalidate: true,
            scope: Scope::Workgroup,
        }),
        _ => None,
    };
    if let Some(body) = control {
        return Ok(Inst { bytes: 0, body });
    }
    let lds = bits(word, 16, 16) == 1;
    let found = match (lds, code) {
        (true, 0) => {
            let mut typed = Typed::new(code, None);
            typed.registers = Components::Lds;
            Some(Access::Typed(typed))
        }
        (true, 0x10..=0x1f) => lds_load(code),
        (true, _) => None,
        (false, 0..=0xf) => Some(Access::Typed(Typed::new(code, None))),
        (false, 0x26 | 0x27) => Some(Access::Typed(Typed::high(code == 0x27))),
        // Packed bf16 has no buffer form.
        (false, 0x52) => None,
        (false, _) => access(code),
    };
    match found {
        Some(access) => {
            let nt = bits(word, 17, 17) == 1;
            let scope = scope_of(bits(word, 14, 14) == 1, bits(word, 15, 15) == 1, nt);
            buffer(access, scope, word, second, limits)
        }
        None => illegal(format!("MUBUF opcode {code:#x}")),
    }
}

pub(super) fn mtbuf(word: u32, second: u32, limits: &Limits) -> Decoded {
    let (data, number) = (bits(word, 22, 19), bits(word, 25, 23));
    let Some(format) = Format::gfx942(data, number) else {
        return violation(format!(
            "MTBUF with data format {data} and number format {number}"
        ));
    };
    let typed = Typed::new(bits(word, 18, 15), Some(format));
    let nt = bits(second, 22, 22) == 1;
    let scope = scope_of(bits(word, 14, 14) == 1, bits(second, 21, 21) == 1, nt);
    buffer(Access::Typed(typed), scope, word, second, limits)
}

fn buffer(access: Access, scope: Scope, word: u32, second: u32, limits: &Limits) -> Decoded {
    let (offen, idxen) = (bits(word, 12, 12) == 1, bits(word, 13, 13) == 1);
    let returns = match access {
        Access::Atomic { .. } => bits(word, 14, 14) == 1,
        _ => true,
    };
    let acc = bits(second, 23, 23) == 1;
    let (data, dst) = registers(access, returns);
    let vdata = tuple(limits, acc, bits(second, 15, 8), data.max(dst))?;
    let addr_regs = u16::from(offen) + u16::from(idxen);
    let addr = match addr_regs {
        0 => None,
        n => Some(limits.vgpr(bits(second, 7, 0), n)?),
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
            saddr: Some(limits.sgpr(bits(second, 20, 16) << 2, 4)?),
            soffset: limits.src(bits(second, 31, 24), Ty::B32, 0)?,
            offset: bits(word, 11, 0) as i32,
            scope,
        }),
    })
}
