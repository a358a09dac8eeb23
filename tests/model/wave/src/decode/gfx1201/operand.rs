// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operand codes of gfx1201: registers of the wave, and constants. Scalar registers are mapped to
//! the indices in [`code`]: M0 and NULL have other operand codes than on gfx942.

use super::super::operand::{code, extend, float, integer};
use super::super::{violation, Bad, Limits};
use super::LITERAL;
use crate::inst::Src;
use crate::op::Ty;

/// Operand code of NULL: reads as zero, discards writes.
pub(super) const NULL: u32 = 124;
/// Operand code of M0.
const M0: u32 = 125;
/// Operand code of VGPR 0 in 9-bit fields.
pub(super) const VGPR: u32 = 256;

/// Returns the number of registers of an operand; that of a mask depends on the wave size.
pub(super) fn regs(limits: &Limits, ty: Ty) -> u16 {
    match ty {
        Ty::Mask if limits.wave32 => 1,
        _ => ty.regs(),
    }
}

/// Checks a VGPR tuple and returns its index in the register file.
pub(super) fn vgpr(limits: &Limits, first: u32, count: u16) -> Result<u16, Bad> {
    let first = first as u16;
    if first + count > limits.arch {
        return violation(format!("v{} of {} VGPRs", first + count - 1, limits.arch));
    }
    Ok(first)
}

/// Checks a tuple of scalar source registers and returns its index.
pub(super) fn sgpr(limits: &Limits, first: u32, count: u16) -> Result<u8, Bad> {
    let count = count.max(1);
    let last = first + u32::from(count) - 1;
    let align = u32::from(count.min(4).next_power_of_two());
    if first % align != 0 && first != NULL {
        return violation(format!("s{first} is misaligned for {count} registers"));
    }
    match first {
        0..=105 if last < u32::from(limits.sgprs) => Ok(first as u8),
        0..=105 => violation(format!("s{last} of {} SGPRs", limits.sgprs)),
        106..=107 if last <= 107 => Ok(first as u8),
        108..=123 if limits.privileged && last <= 123 => Ok(first as u8),
        108..=123 => violation(format!("ttmp{} outside a trap handler", first - 108)),
        NULL if count <= 16 => Ok(code::ZERO),
        M0 if count == 1 => Ok(code::M0),
        126..=127 if last <= 127 => Ok(first as u8),
        _ => violation(format!("scalar register code {first}, {count} registers")),
    }
}

/// Checks a tuple of scalar destination registers and returns its index.
pub(super) fn sgpr_dst(limits: &Limits, first: u32, count: u16) -> Result<u8, Bad> {
    match first {
        NULL if count <= 16 => Ok(code::SINK),
        _ => sgpr(limits, first, count),
    }
}

/// Returns a source operand from a 9-bit code (8 bits in scalar instructions).
pub(super) fn src(limits: &Limits, code: u32, ty: Ty, literal: u32) -> Result<Src, Bad> {
    let count = regs(limits, ty);
    Ok(match code {
        // ttmp7 to ttmp9 hold workgroup id and wave index: readable by all waves.
        0..=127 => Src::Sgpr(match code {
            115..=117 if count == 1 => code as u8,
            _ => sgpr(limits, code, count)?,
        }),
        128..=192 => Src::Imm(integer(i64::from(code) - 128, ty)),
        193..=208 => Src::Imm(integer(192 - i64::from(code), ty)),
        235..=238 | 251..=253 => Src::Special(code as u8),
        240..=248 => Src::Imm(float(code - 240, ty)),
        LITERAL => Src::Imm(extend(literal, ty)),
        VGPR.. => Src::Vgpr(vgpr(limits, code - VGPR, count)?),
        _ => return violation(format!("source operand code {code}")),
    })
}
