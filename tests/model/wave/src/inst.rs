// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decoded instructions.

use crate::format::Format;
use crate::op::Op;
use crate::{GwsOp, Scope};

/// Source operand; constants are converted to the operand's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    /// Unused.
    None,
    /// Index in the wave's register file (accumulators follow the architectural VGPRs).
    Vgpr(u16),
    /// Scalar register, by operand code.
    Sgpr(u8),
    /// Inline or literal constant.
    Imm(u64),
    /// Other scalar value, by operand code (apertures, vccz, execz, scc).
    Special(u8),
}

/// DPP (data-parallel primitives): lane selection of source 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dpp {
    pub(crate) ctrl: u16,
    pub(crate) bound_ctrl: bool,
    pub(crate) row_mask: u8,
    pub(crate) bank_mask: u8,
    /// FI: reads lanes that are inactive in EXEC (gfx1201).
    pub(crate) inactive: bool,
}

/// DPP8: 3-bit lane selection of source 0 in each group of 8 lanes (gfx1201).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dpp8 {
    pub(crate) lanes: u32,
    /// FI: reads lanes that are inactive in EXEC.
    pub(crate) inactive: bool,
}

/// SDWA (sub-dword addressing): selected parts of sources and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sdwa {
    pub(crate) dst_sel: u8,
    pub(crate) dst_unused: u8,
    pub(crate) src_sel: [u8; 2],
    pub(crate) sext: [bool; 2],
}

/// Operand modifiers of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    Dpp(Dpp),
    Dpp8(Dpp8),
    Sdwa(Sdwa),
}

/// Scalar ALU or control instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salu {
    pub(crate) op: Op,
    pub(crate) dst: u8,
    pub(crate) src: [Src; 2],
    /// SIMM16, sign-extended.
    pub(crate) imm: i32,
    /// Literal of `s_setreg_imm32_b32`.
    pub(crate) literal: u32,
}

/// Scalar memory instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smem {
    pub(crate) op: Op,
    /// Globally coherent: a load misses in the scalar cache.
    pub(crate) glc: bool,
    pub(crate) data: u8,
    pub(crate) base: u8,
    pub(crate) dwords: u8,
    pub(crate) offset: i32,
    /// Scalar register with an additional offset.
    pub(crate) soffset: Option<u8>,
}

impl Smem {
    /// Returns the scope of a load or store.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.glc, false)
    }
}

/// Scalar load of gfx1201.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarLoad {
    pub(crate) data: u8,
    /// First register of the address or resource.
    pub(crate) base: u8,
    /// The base is a buffer resource.
    pub(crate) buffer: bool,
    /// 1, 2 or a multiple of 4.
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
    pub(crate) offset: i32,
    /// Scalar register with an additional offset.
    pub(crate) soffset: Option<u8>,
    pub(crate) scope: Scope,
}

/// Scalar atomic of gfx942.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarAtomic {
    pub(crate) op: Atomic,
    /// 4 or 8 bytes.
    pub(crate) size: u8,
    pub(crate) data: u8,
    /// First register of the address or resource.
    pub(crate) base: u8,
    /// The base is a buffer resource.
    pub(crate) buffer: bool,
    /// The old value is returned.
    pub(crate) returns: bool,
    pub(crate) offset: i32,
    /// Scalar register with an additional offset.
    pub(crate) soffset: Option<u8>,
}

/// Comparison: condition and operand type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    /// Float relation as four bits: less, equal, greater, unordered.
    Float { relation: u8, bits: u8 },
    /// Integer relation as three bits: less, equal, greater.
    Int {
        relation: u8,
        bits: u8,
        signed: bool,
    },
    /// Class test against a mask.
    Class { bits: u8 },
}

/// Operation of a vector ALU instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorOp {
    Op(Op),
    /// Comparison; `write_exec` for `v_cmpx`.
    Cmp {
        cmp: Cmp,
        write_exec: bool,
    },
}

/// Vector ALU instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valu {
    pub(crate) op: VectorOp,
    /// Register file index; scalar operand code for a scalar destination.
    pub(crate) dst: u16,
    /// Scalar register pair for carry, scale flag or comparison result.
    pub(crate) sdst: u8,
    pub(crate) src: [Src; 3],
    /// Number of vector registers of destination and sources.
    pub(crate) dst_regs: u8,
    pub(crate) src_regs: [u8; 3],
    /// One bit per source.
    pub(crate) abs: u8,
    pub(crate) neg: u8,
    pub(crate) neg_hi: u8,
    /// Bit 3: destination half in VOP3.
    pub(crate) op_sel: u8,
    pub(crate) op_sel_hi: u8,
    pub(crate) omod: u8,
    pub(crate) clamp: bool,
    /// VOP3 encoding: `op_sel` applies.
    pub(crate) vop3: bool,
    pub(crate) shape: Shape,
    /// `cbsz`, `abid`, `blgp` of a matrix instruction.
    pub(crate) matrix: [u8; 3],
}

/// Read-modify-write of a memory cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Swap,
    CmpSwap,
    Add,
    Sub,
    RSub,
    SMin,
    UMin,
    SMax,
    UMax,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    MsKor,
    FAdd,
    FMin,
    FMax,
    FCmpSwap,
    PkAddF16,
    PkAddBf16,
    Wrap,
    /// Subtracts, clamped to 0.
    SubClamp,
    /// Subtracts if the result is not negative.
    CondSub,
    /// Stores each dword whose bit 31 is set, with that bit cleared.
    CondXchg,
}

/// Data that a memory instruction moves per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Load of `bytes` (1, 2 or a multiple of 4).
    Load { bytes: u8, signed: bool, half: Half },
    /// Store of `bytes`; `high` stores the upper half of the register.
    Store { bytes: u8, high: bool },
    /// Read-modify-write of `size` (4 or 8) bytes.
    Atomic { op: Atomic, size: u8 },
    /// Load of `bytes` into LDS.
    LoadLds { bytes: u8, signed: bool },
    /// Load or store of a buffer element with conversion.
    Typed(Typed),
    /// Load of a matrix of elements of `element` bytes, 8 for each lane, with transposition.
    LoadTranspose { element: u8 },
    /// Load or store of consecutive dwords in the registers that are set in M0.
    Block { store: bool },
}

/// Where the components of a buffer element are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Components {
    /// One register each.
    Dwords,
    /// d16: halves of registers, low half first.
    Halves,
    /// d16_hi: the only component is in the high half.
    HighHalf,
    /// The only component is loaded into LDS.
    Lds,
}

/// Load or store of a buffer element with conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) store: bool,
    /// Number of components in registers.
    pub(crate) components: u8,
    pub(crate) registers: Components,
    /// The format, if it is that of the instruction and not of the resource.
    pub(crate) format: Option<Format>,
}

impl Typed {
    /// Returns the instruction by the low four opcode bits, common to all encodings: components,
    /// store, d16.
    pub(crate) fn new(code: u32, format: Option<Format>) -> Self {
        Typed {
            store: code & 4 != 0,
            components: (code & 3) as u8 + 1,
            registers: if code & 8 != 0 {
                Components::Halves
            } else {
                Components::Dwords
            },
            format,
        }
    }

    /// Returns `buffer_{load,store}_format_d16_hi_x`.
    pub(crate) fn high(store: bool) -> Self {
        Typed {
            store,
            components: 1,
            registers: Components::HighHalf,
            format: None,
        }
    }

    /// Returns the number of registers.
    pub(crate) fn count(self) -> u16 {
        match self.registers {
            Components::Dwords => self.components.into(),
            Components::Halves => u16::from(self.components).div_ceil(2),
            Components::HighHalf => 1,
            Components::Lds => 0,
        }
    }
}

/// Destination of a sub-dword load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Extended to the full register.
    Whole,
    /// d16: the low half; the high half is preserved.
    Low,
    /// d16_hi: the high half; the low half is preserved.
    High,
}

/// Vector memory segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Flat,
    Global,
    /// Consecutive dwords, one per lane (`global_*_addtid`).
    GlobalByThread,
    Scratch,
    Buffer {
        offen: bool,
        idxen: bool,
    },
}

/// Vector memory instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vmem {
    pub(crate) segment: Segment,
    pub(crate) access: Access,
    /// First address register.
    pub(crate) addr: Option<u16>,
    /// First register of the data to store.
    pub(crate) data: u16,
    /// First register of a load, or of the returned old value of an atomic.
    pub(crate) dst: u16,
    /// The atomic returns the old value.
    pub(crate) returns: bool,
    /// Scalar base (FLAT family) or first register of the resource (MUBUF).
    pub(crate) saddr: Option<u8>,
    /// Scalar offset (MUBUF).
    pub(crate) soffset: Src,
    pub(crate) offset: i32,
    /// Scope of a load or store.
    pub(crate) scope: Scope,
}

/// Operation of a DS instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LdsOp {
    Access(Access),
    /// Two cells of `bytes` each; offsets in units of `stride`.
    Read2 {
        bytes: u8,
        stride: u32,
    },
    Write2 {
        bytes: u8,
        stride: u32,
    },
    Exchange2 {
        bytes: u8,
        stride: u32,
    },
    Swizzle,
    Permute,
    BPermute {
        /// Reads lanes that are inactive in EXEC (gfx1201).
        inactive: bool,
    },
    Append,
    Consume,
    ReadAddTid,
    WriteAddTid,
    Gws(GwsOp),
    Nop,
}

/// DS instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lds {
    pub(crate) op: LdsOp,
    pub(crate) addr: u16,
    pub(crate) data: [u16; 2],
    pub(crate) dst: u16,
    pub(crate) returns: bool,
    pub(crate) offset: [u8; 2],
}

/// Instruction, by family.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Salu(Salu),
    Smem(Smem),
    ScalarLoad(ScalarLoad),
    ScalarAtomic(ScalarAtomic),
    Valu(Valu),
    /// VOPD of gfx1201: both read their sources before either writes.
    Dual(Box<[Valu; 2]>),
    Vmem(Vmem),
    Lds(Lds),
    /// Writes the L2 back, and drops lines of it and of the vector cache: `buffer_wbl2`,
    /// `buffer_inv` and `buffer_wbinvl1` of gfx942, `global_wb`, `global_inv` and `global_wbinv` of
    /// gfx1201.
    L2 {
        write_back: bool,
        invalidate: bool,
        scope: Scope,
    },
    /// `s_dcache_inv` of gfx1201.
    ScalarInvalidate,
    /// Prefetches and probes, which have no effect.
    CacheControl,
}

/// Decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    /// Length, in bytes.
    pub(crate) bytes: u8,
    pub(crate) body: Body,
}
