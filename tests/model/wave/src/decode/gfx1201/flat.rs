// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VFLAT, VGLOBAL and VSCRATCH of gfx1201, and the table of loads, stores and atomics, shared with
//! VBUFFER.

use super::super::{bits, illegal, violation, Bad, Decoded, Limits, WORDS};
use super::operand::{sgpr, vgpr, NULL};
use crate::inst::{Access, Atomic, Body, Half, Inst, Segment, Src, Vmem};
use crate::Scope;

/// Returns the load, store or atomic; the opcodes are common to all families.
pub(super) fn access(code: u32) -> Option<Access> {
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
        0x19 => store(2, false),
        0x1a..=0x1d => store(4 * (code as u8 - 0x19), false),
        0x1e => load(1, false, Half::Low),
        0x1f => load(1, true, Half::Low),
        0x20 => load(2, false, Half::Low),
        0x21 => load(1, false, Half::High),
        0x22 => load(1, true, Half::High),
        0x23 => load(2, false, Half::High),
        0x24 => store(1, true),
        0x25 => store(2, true),
        _ => atomic(code).map(|(op, size)| Access::Atomic { op, size }),
    }
}

fn atomic(code: u32) -> Option<(Atomic, u8)> {
    let op = match code {
        0x33 | 0x41 => Atomic::Swap,
        0x34 | 0x42 => Atomic::CmpSwap,
        0x35 | 0x43 => Atomic::Add,
        0x36 | 0x44 => Atomic::Sub,
        0x37 => Atomic::SubClamp,
        0x38 | 0x45 => Atomic::SMin,
        0x39 | 0x46 => Atomic::UMin,
        0x3a | 0x47 => Atomic::SMax,
        0x3b | 0x48 => Atomic::UMax,
        0x3c | 0x49 => Atomic::And,
        0x3d | 0x4a => Atomic::Or,
        0x3e | 0x4b => Atomic::Xor,
        0x3f | 0x4c => Atomic::Inc,
        0x40 | 0x4d => Atomic::Dec,
        0x50 => Atomic::CondSub,
        0x51 => Atomic::FMin,
        0x52 => Atomic::FMax,
        0x56 => Atomic::FAdd,
        0x59 => Atomic::PkAddF16,
        0x5a => Atomic::PkAddBf16,
        _ => return None,
    };
    let wide = matches!(code, 0x41..=0x4d);
    Some((op, if wide { 8 } else { 4 }))
}

/// Returns the number of registers of stored and of returned data.
pub(super) fn registers(limits: &Limits, access: Access, returns: bool) -> (u16, u16) {
    match access {
        Access::Load { bytes, .. } => (0, u16::from(bytes).div_ceil(4)),
        Access::Store { bytes, .. } => (u16::from(bytes).div_ceil(4), 0),
        Access::Atomic { op, size } => {
            let n = u16::from(size) / 4;
            let operands = if op == Atomic::CmpSwap { 2 } else { 1 };
            (n * operands, if returns { n } else { 0 })
        }
        Access::LoadLds { .. } => (0, 0),
        // The others are checked when M0 is known.
        Access::Block { store } => (u16::from(store), u16::from(!store)),
        Access::Typed(typed) if typed.store => (typed.count(), 0),
        Access::Typed(typed) => (0, typed.count()),
        // 256 elements are in 32 or 64 lanes.
        Access::LoadTranspose { element } => {
            (0, u16::from(element) * if limits.wave32 { 2 } else { 1 })
        }
    }
}

/// Returns whether data is returned: a load, or an atomic with the return bit in its temporal hint.
pub(super) fn returns(access: Access, second: u32) -> bool {
    match access {
        Access::Atomic { .. } => bits(second, 20, 20) == 1,
        Access::Store { .. } | Access::Block { store: true } => false,
        _ => true,
    }
}

/// Returns the index of a VGPR tuple, or 0 if `count` is 0.
pub(super) fn tuple(limits: &Limits, reg: u32, count: u16) -> Result<u16, Bad> {
    match count {
        0 => Ok(0),
        _ => vgpr(limits, reg, count),
    }
}

/// Returns the offset in the third word: 24 bits, signed.
fn offset(third: u32) -> i32 {
    third as i32 >> 8
}

/// Returns the scope with this number.
pub(super) fn scope(field: u32) -> Scope {
    match field {
        0 => Scope::Wave,
        1 => Scope::Workgroup,
        2 => Scope::Agent,
        _ => Scope::System,
    }
}

/// Returns the scope of an access, in its second word. With a temporal hint, which misses in the
/// vector cache, it is not the wave.
pub(super) fn scope_of(second: u32) -> Scope {
    let scope = scope(bits(second, 19, 18));
    match bits(second, 22, 20) {
        0 => scope,
        _ => scope.max(Scope::Workgroup),
    }
}

fn build(
    segment: Segment,
    access: Access,
    [_, second, third]: [u32; WORDS],
    addr: Option<u16>,
    saddr: Option<u8>,
    limits: &Limits,
) -> Decoded {
    let returns = returns(access, second);
    let (data, dst) = registers(limits, access, returns);
    Ok(Inst {
        bytes: 0,
        body: Body::Vmem(Vmem {
            segment,
            access,
            addr,
            data: tuple(limits, bits(second, 30, 23), data)?,
            dst: tuple(limits, bits(second, 7, 0), dst)?,
            returns,
            saddr,
            soffset: Src::None,
            offset: offset(third),
            scope: scope_of(second),
        }),
    })
}

pub(super) fn flat(words: [u32; WORDS], limits: &Limits) -> Decoded {
    let code = bits(words[0], 21, 14);
    let Some(access) = access(code) else {
        return illegal(format!("VFLAT opcode {code:#x}"));
    };
    if bits(words[0], 6, 0) != NULL {
        return violation("VFLAT with a scalar address".into());
    }
    let addr = vgpr(limits, bits(words[2], 7, 0), 2)?;
    build(Segment::Flat, access, words, Some(addr), None, limits)
}

pub(super) fn global(words: [u32; WORDS], limits: &Limits) -> Decoded {
    let code = bits(words[0], 21, 14);
    let found = match code {
        // global_inv, global_wb, global_wbinv.
        0x2b | 0x2c | 0x4f => {
            return Ok(Inst {
                bytes: 0,
                body: Body::L2 {
                    write_back: code != 0x2b,
                    invalidate: code != 0x2c,
                    scope: scope(bits(words[1], 19, 18)),
                },
            })
        }
        // global_load_addtid_b32 and global_store_addtid_b32 have no vector address.
        0x28 => Some(Access::Load {
            bytes: 4,
            signed: false,
            half: Half::Whole,
        }),
        0x29 => Some(Access::Store {
            bytes: 4,
            high: false,
        }),
        // global_load_block, global_store_block.
        0x53 | 0x54 => Some(Access::Block {
            store: code == 0x54,
        }),
        // global_load_tr_b128, global_load_tr_b64.
        0x57 => Some(Access::LoadTranspose { element: 2 }),
        0x58 => Some(Access::LoadTranspose { element: 1 }),
        _ => access(code),
    };
    let Some(access) = found else {
        return illegal(format!("VGLOBAL opcode {code:#x}"));
    };
    let saddr = match bits(words[0], 6, 0) {
        NULL => None,
        reg => Some(sgpr(limits, reg, 2)?),
    };
    let by_thread = matches!(code, 0x28 | 0x29);
    let segment = match by_thread {
        true => Segment::GlobalByThread,
        false => Segment::Global,
    };
    let addr = match (by_thread, saddr) {
        (true, None) => return violation("global_*_addtid without a scalar address".into()),
        (true, Some(_)) => None,
        (false, Some(_)) => Some(vgpr(limits, bits(words[2], 7, 0), 1)?),
        (false, None) => Some(vgpr(limits, bits(words[2], 7, 0), 2)?),
    };
    build(segment, access, words, addr, saddr, limits)
}

pub(super) fn scratch(words: [u32; WORDS], limits: &Limits) -> Decoded {
    let code = bits(words[0], 21, 14);
    let found = match code {
        // scratch_load_block, scratch_store_block.
        0x53 | 0x54 => Some(Access::Block {
            store: code == 0x54,
        }),
        _ => access(code).filter(|a| !matches!(a, Access::Atomic { .. })),
    };
    let Some(access) = found else {
        return illegal(format!("VSCRATCH opcode {code:#x}"));
    };
    let saddr = match bits(words[0], 6, 0) {
        NULL => None,
        reg => Some(sgpr(limits, reg, 1)?),
    };
    // SVE: vector offset enable.
    let addr = match bits(words[1], 17, 17) {
        0 => None,
        _ => Some(vgpr(limits, bits(words[2], 7, 0), 1)?),
    };
    build(Segment::Scratch, access, words, addr, saddr, limits)
}
