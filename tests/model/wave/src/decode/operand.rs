// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operand codes: registers within the wave's allocation, and constants.

use super::{violation, Bad};
use crate::inst::Src;
use crate::op::Ty;
use crate::Isa;

/// Registers of a wave that operands can name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Instruction set.
    pub(crate) isa: Isa,
    /// Lane masks are 32 bits wide.
    pub(crate) wave32: bool,
    /// Number of architectural VGPRs.
    pub(crate) arch: u16,
    /// Number of accumulators.
    pub(crate) acc: u16,
    /// Number of SGPRs.
    pub(crate) sgprs: u16,
    /// Index of FLAT_SCRATCH, XNACK_MASK and VCC.
    pub(crate) alias: u8,
    /// The wave is in the trap handler: ttmp registers are accessible.
    pub(crate) privileged: bool,
}

/// Indices of a wave's scalar registers: the operand codes of gfx942, where those of FLAT_SCRATCH,
/// XNACK_MASK and VCC are mapped to the last SGPRs of the wave. The gfx1201 decoder maps its codes
/// to these.
pub(crate) mod code {
    pub(crate) const FLAT_SCRATCH: u8 = 102;
    pub(crate) const XNACK_MASK: u8 = 104;
    pub(crate) const VCC: u8 = 106;
    pub(crate) const TTMP0: u8 = 108;
    pub(crate) const M0: u8 = 124;
    pub(crate) const EXEC: u8 = 126;
    /// 16 registers that read as zero: NULL as a source on gfx1201.
    pub(crate) const ZERO: u8 = 128;
    /// 16 registers that are never read: NULL as a destination on gfx1201.
    pub(crate) const SINK: u8 = 144;
    /// Number of indices.
    pub(crate) const COUNT: usize = 160;
    pub(crate) const SHARED_BASE: u8 = 235;
    pub(crate) const SHARED_LIMIT: u8 = 236;
    pub(crate) const PRIVATE_BASE: u8 = 237;
    pub(crate) const PRIVATE_LIMIT: u8 = 238;
    pub(crate) const VCCZ: u8 = 251;
    pub(crate) const EXECZ: u8 = 252;
}

impl Limits {
    /// Checks a tuple of architectural VGPRs and returns its index in the register file.
    pub(crate) fn vgpr(&self, first: u32, count: u16) -> Result<u16, Bad> {
        let first = first as u16;
        if count > 1 && first % 2 != 0 {
            return violation(format!(
                "v{first} is odd: {count} registers need an even one"
            ));
        }
        if first + count > self.arch {
            return violation(format!("v{} of {} VGPRs", first + count - 1, self.arch));
        }
        Ok(first)
    }

    /// Checks a tuple of accumulators and returns its index in the register file.
    pub(crate) fn accumulator(&self, first: u32, count: u16) -> Result<u16, Bad> {
        let first = first as u16;
        if count > 1 && first % 2 != 0 {
            return violation(format!(
                "a{first} is odd: {count} registers need an even one"
            ));
        }
        if first + count > self.acc {
            return violation(format!(
                "a{} of {} accumulators",
                first + count - 1,
                self.acc
            ));
        }
        Ok(self.arch + first)
    }

    /// Checks a tuple of VGPRs or, if `acc`, accumulators.
    pub(crate) fn either(&self, acc: bool, first: u32, count: u16) -> Result<u16, Bad> {
        if acc {
            self.accumulator(first, count)
        } else {
            self.vgpr(first, count)
        }
    }

    /// Checks a tuple of scalar registers.
    pub(crate) fn sgpr(&self, first: u32, count: u16) -> Result<u8, Bad> {
        let align = u32::from(count.clamp(1, 4).next_power_of_two());
        if first % align != 0 {
            return violation(format!("s{first} is misaligned for {count} registers"));
        }
        let last = first + u32::from(count.max(1)) - 1;
        let index = first as u8;
        match first {
            0..=101 if last < u32::from(self.sgprs) => Ok(index),
            0..=101 => violation(format!("s{last} of {} SGPRs", self.sgprs)),
            102..=107 if last <= 107 => Ok(self.alias + (index - code::FLAT_SCRATCH)),
            126..=127 if last <= 127 => Ok(index),
            124 if count <= 1 => Ok(index),
            108..=123 if self.privileged && last <= 123 => Ok(index),
            108..=123 => violation(format!("ttmp{} outside a trap handler", first - 108)),
            _ => violation(format!("scalar register code {first}, {count} registers")),
        }
    }

    /// Returns the index of VCC.
    pub(crate) fn vcc(&self) -> u8 {
        self.alias + (code::VCC - code::FLAT_SCRATCH)
    }

    /// Checks a scalar destination; rejects read-only registers.
    pub(crate) fn sgpr_dst(&self, first: u32, count: u16) -> Result<u8, Bad> {
        if (102..=103).contains(&first) {
            return violation("FLAT_SCRATCH is architected and read-only".into());
        }
        self.sgpr(first, count)
    }

    /// Returns a source operand from a 9-bit code (8 bits in scalar instructions).
    pub(crate) fn src(&self, code: u32, ty: Ty, literal: u32) -> Result<Src, Bad> {
        let count = ty.regs();
        Ok(match code {
            0..=127 => Src::Sgpr(self.sgpr(code, count)?),
            128..=192 => Src::Imm(integer(i64::from(code) - 128, ty)),
            193..=208 => Src::Imm(integer(192 - i64::from(code), ty)),
            235..=238 | 251..=253 => Src::Special(code as u8),
            240..=248 => Src::Imm(float(code - 240, ty)),
            255 => Src::Imm(extend(literal, ty)),
            256.. if ty == Ty::Acc => Src::Vgpr(self.accumulator(code - 256, 1)?),
            256.. => Src::Vgpr(self.vgpr(code - 256, count)?),
            _ => return violation(format!("source operand code {code}")),
        })
    }
}

/// Returns an inline integer as an operand of type `ty`.
pub(super) fn integer(value: i64, ty: Ty) -> u64 {
    match ty {
        Ty::B64 | Ty::F64 | Ty::Mask => value as u64,
        Ty::Both16 | Ty::BothB16 => both(value as u64),
        // Packed f32: the constant is in the low half.
        _ => u64::from(value as u32),
    }
}

/// Returns an inline float (0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi)) as an operand of type `ty`.
/// For packed integers it is an f32, whose low half is zero (LLVM's `getInlineEncodingV216`); of
/// packed 16-bit floats it is the low half (`getInlineEncodingV2F16` and `V2BF16`).
pub(super) fn float(index: u32, ty: Ty) -> u64 {
    const F16: [u64; 9] = [
        0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118,
    ];
    const F32: [f32; 8] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0];
    const INVERSE_2_PI: u64 = 0x3e22_f983;
    let index = index as usize;
    let single = F32
        .get(index)
        .map_or(INVERSE_2_PI, |v| u64::from(v.to_bits()));
    match ty {
        Ty::B16 | Ty::F16 | Ty::H16 | Ty::H4 => F16[index],
        Ty::Bf16 | Ty::Pb16 | Ty::Bf4 => single >> 16,
        Ty::Both16 => both(F16[index]),
        Ty::BothB16 => both(single >> 16),
        Ty::B64 | Ty::F64 | Ty::Mask => F32
            .get(index)
            .map_or(0x3fc4_5f30_6dc9_c882, |&v| f64::from(v).to_bits()),
        _ => single,
    }
}

/// Returns the lowest 16 bits in both halves.
fn both(bits: u64) -> u64 {
    let half = bits & 0xffff;
    half | half << 16
}

/// Returns a literal as an operand of type `ty`: the high half of an f64, else zero-extended.
pub(super) fn extend(literal: u32, ty: Ty) -> u64 {
    match ty {
        Ty::F64 => u64::from(literal) << 32,
        _ => u64::from(literal),
    }
}
