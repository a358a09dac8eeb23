// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SOP2, SOPK, SOP1, SOPC, SOPP and SMEM.

use super::operand::Limits;
use super::{bits, illegal, violation, vmem, Bad, Decoded};
use crate::inst::{Atomic, Body, Inst, Salu, ScalarAtomic, Smem, Src};
use crate::op::{self, Info, Op, Ty};

fn find(encoding: &str, info: Option<&'static Info>, code: u32) -> Result<&'static Info, Bad> {
    match info {
        Some(info) => Ok(info),
        None => illegal(format!("{encoding} opcode {code:#x}")),
    }
}

fn scalar(salu: Salu) -> Inst {
    Inst {
        bytes: 0,
        body: Body::Salu(salu),
    }
}

/// Returns a source operand. Signed 64-bit operations sign-extend a literal, all others
/// zero-extend.
fn source(limits: &Limits, info: &Info, n: usize, code: u32, literal: u32) -> Result<Src, Bad> {
    let ty = info.src.get(n).copied().unwrap_or(Ty::None);
    if ty == Ty::None {
        return Ok(Src::None);
    }
    if code == 255 && ty == Ty::B64 && info.name.ends_with("_i64") {
        return Ok(Src::Imm(i64::from(literal as i32) as u64));
    }
    limits.src(code, ty, literal)
}

fn destination(limits: &Limits, info: &Info, code: u32) -> Result<u8, Bad> {
    match info.dst.regs() {
        0 => Ok(0),
        n => limits.sgpr_dst(code, n),
    }
}

pub(super) fn sop2(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 29, 23);
    let info = find("SOP2", op::sop2(code as u16), code)?;
    Ok(scalar(Salu {
        op: info.op,
        dst: destination(limits, info, bits(word, 22, 16))?,
        src: [
            source(limits, info, 0, bits(word, 7, 0), literal)?,
            source(limits, info, 1, bits(word, 15, 8), literal)?,
        ],
        imm: 0,
        literal,
    }))
}

pub(super) fn sopk(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 27, 23);
    let info = find("SOPK", op::sopk(code as u16), code)?;
    let reg = bits(word, 22, 16);
    // s_setreg and the comparisons read the register that other opcodes write.
    let reads = matches!(info.op, Op::s_setreg_b32) || info.name.starts_with("s_cmpk");
    let dst = match info.op {
        Op::s_setreg_imm32_b32 => 0,
        _ if reads => limits.sgpr(reg, 1)?,
        _ => limits.sgpr_dst(reg, info.dst.regs())?,
    };
    let imm = i32::from(word as u16 as i16);
    Ok(scalar(Salu {
        op: info.op,
        dst,
        src: [Src::None; 2],
        imm,
        literal,
    }))
}

pub(super) fn sop1(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 15, 8);
    let info = find("SOP1", op::sop1(code as u16), code)?;
    Ok(scalar(Salu {
        op: info.op,
        dst: destination(limits, info, bits(word, 22, 16))?,
        src: [
            source(limits, info, 0, bits(word, 7, 0), literal)?,
            Src::None,
        ],
        imm: 0,
        literal,
    }))
}

pub(super) fn sopc(word: u32, literal: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 22, 16);
    let info = find("SOPC", op::sopc(code as u16), code)?;
    Ok(scalar(Salu {
        op: info.op,
        dst: 0,
        src: [
            source(limits, info, 0, bits(word, 7, 0), literal)?,
            source(limits, info, 1, bits(word, 15, 8), literal)?,
        ],
        imm: bits(word, 15, 8) as i32,
        literal,
    }))
}

pub(super) fn sopp(word: u32) -> Decoded {
    let code = bits(word, 22, 16);
    let info = find("SOPP", op::sopp(code as u16), code)?;
    let imm = i32::from(word as u16 as i16);
    Ok(scalar(Salu {
        op: info.op,
        dst: 0,
        src: [Src::None; 2],
        imm,
        literal: 0,
    }))
}

/// Returns the offset and the scalar register with an additional one.
fn offsets(word: u32, second: u32, limits: &Limits) -> Result<(i32, Option<u8>), Bad> {
    let (imm, soffset_en) = (bits(word, 17, 17) == 1, bits(word, 14, 14) == 1);
    let offset = ((bits(second, 20, 0) << 11) as i32) >> 11;
    let register = |field| limits.sgpr(field, 1).map(Some);
    Ok(match (imm, soffset_en) {
        (true, false) => (offset, None),
        (true, true) => (offset, register(bits(second, 31, 25))?),
        (false, true) => (0, register(bits(second, 31, 25))?),
        (false, false) => (0, register(bits(second, 6, 0))?),
    })
}

/// Decodes `s_buffer_atomic_*` (from 0x40 on) and `s_atomic_*` (from 0x80 on).
fn atomic(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 25, 18);
    // The operations are those of vector memory.
    let found = vmem::cell(code & 0x3f | 0x40).filter(|_| code < 0xc0);
    let Some((op, size)) = found else {
        return illegal(format!("SMEM opcode {code:#x}"));
    };
    let regs = u16::from(size) / 4;
    let operands = if op == Atomic::CmpSwap { 2 } else { 1 };
    let buffer = code < 0x80;
    let (offset, soffset) = offsets(word, second, limits)?;
    if buffer && offset < 0 {
        return violation("s_buffer_atomic with a negative offset".into());
    }
    Ok(Inst {
        bytes: 0,
        body: Body::ScalarAtomic(ScalarAtomic {
            op,
            size,
            data: limits.sgpr_dst(bits(word, 12, 6), regs * operands)?,
            base: limits.sgpr(bits(word, 5, 0) << 1, if buffer { 4 } else { 2 })?,
            buffer,
            returns: bits(word, 16, 16) == 1,
            offset,
            soffset,
        }),
    })
}

pub(super) fn smem(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 25, 18);
    if code >= 0x40 {
        return atomic(word, second, limits);
    }
    let info = find("SMEM", op::smem(code as u16), code)?;
    let dwords = info.dst.regs();
    let addressed = !matches!(
        info.op,
        Op::s_memtime
            | Op::s_memrealtime
            | Op::s_dcache_inv
            | Op::s_dcache_wb
            | Op::s_dcache_inv_vol
            | Op::s_dcache_wb_vol
            | Op::s_dcache_discard
            | Op::s_dcache_discard_x2
            | Op::s_atc_probe
            | Op::s_atc_probe_buffer
    );
    let store = info.name.contains("store");
    let data = match (dwords, store) {
        (0, _) => 0,
        (n, true) => limits.sgpr(bits(word, 12, 6), n)?,
        (n, false) => limits.sgpr_dst(bits(word, 12, 6), n)?,
    };
    let base_regs = if info.name.starts_with("s_buffer") {
        4
    } else {
        2
    };
    let base = match addressed {
        true => limits.sgpr(bits(word, 5, 0) << 1, base_regs)?,
        false => 0,
    };
    let (offset, soffset) = match addressed {
        true => offsets(word, second, limits)?,
        false => (0, None),
    };
    if base_regs == 4 && offset < 0 {
        return violation(format!("{} with a negative offset", info.name));
    }
    let dwords = dwords as u8;
    let smem = Smem {
        op: info.op,
        glc: bits(word, 16, 16) == 1,
        data,
        base,
        dwords,
        offset,
        soffset,
    };
    Ok(Inst {
        bytes: 0,
        body: Body::Smem(smem),
    })
}
