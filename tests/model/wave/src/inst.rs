// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A decoded instruction.

use crate::op::Op;
use crate::GwsOp;

/// A source operand, its constants already resolved for the operand's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    /// No operand.
    None,
    /// Index in the wave's register file (accumulators follow the architectural VGPRs).
    Vgpr(u16),
    /// Scalar register by operand code.
    Sgpr(u8),
    /// Inline or literal constant.
    Imm(u64),
    /// Another scalar value by operand code (apertures, vccz, execz, scc).
    Special(u8),
}

/// Data-parallel primitive: where source 0 of a lane comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dpp {
    pub(crate) ctrl: u16,
    pub(crate) bound_ctrl: bool,
    pub(crate) row_mask: u8,
    pub(crate) bank_mask: u8,
    /// Are lanes read that EXEC leaves out? (gfx1201)
    pub(crate) inactive: bool,
}

/// Source 0 of each lane from one of its group of 8: 3 bits for each (gfx1201).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dpp8 {
    pub(crate) lanes: u32,
    /// Are lanes read that EXEC leaves out?
    pub(crate) inactive: bool,
}

/// Sub-dword addressing: which part of the sources is used and of the destination written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sdwa {
    pub(crate) dst_sel: u8,
    pub(crate) dst_unused: u8,
    pub(crate) src_sel: [u8; 2],
    pub(crate) sext: [bool; 2],
}

/// How a vector instruction reaches its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    Dpp(Dpp),
    Dpp8(Dpp8),
    Sdwa(Sdwa),
}

/// A scalar ALU or control instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salu {
    pub(crate) op: Op,
    pub(crate) dst: u8,
    pub(crate) src: [Src; 2],
    /// SIMM16, sign-extended.
    pub(crate) imm: i32,
    /// The dword after `s_setreg_imm32_b32`.
    pub(crate) literal: u32,
}

/// A scalar memory instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smem {
    pub(crate) op: Op,
    pub(crate) data: u8,
    pub(crate) base: u8,
    pub(crate) dwords: u8,
    pub(crate) offset: i32,
    /// Scalar register with a further offset.
    pub(crate) soffset: Option<u8>,
}

/// A scalar load of gfx1201.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarLoad {
    pub(crate) data: u8,
    /// First register of the address, or of the resource.
    pub(crate) base: u8,
    /// Is the base a buffer resource?
    pub(crate) buffer: bool,
    /// 1, 2 or 4 n.
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
    pub(crate) offset: i32,
    /// Scalar register with a further offset.
    pub(crate) soffset: Option<u8>,
}

/// A comparison: condition and operand type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    /// Float relation by its four bits: less, equal, greater, unordered.
    Float { relation: u8, bits: u8 },
    /// Integer relation by its three bits: less, equal, greater.
    Int {
        relation: u8,
        bits: u8,
        signed: bool,
    },
    /// Test of the number class against a mask.
    Class { bits: u8 },
}

/// What a vector ALU instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorOp {
    Op(Op),
    /// Comparison; `write_exec` for `v_cmpx`.
    Cmp {
        cmp: Cmp,
        write_exec: bool,
    },
}

/// A vector ALU instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valu {
    pub(crate) op: VectorOp,
    /// Register file index, or scalar operand code where the destination is scalar.
    pub(crate) dst: u16,
    /// Scalar pair that takes carry, scale flag or comparison.
    pub(crate) sdst: u8,
    pub(crate) src: [Src; 3],
    /// How many vector registers the destination and the sources have.
    pub(crate) dst_regs: u8,
    pub(crate) src_regs: [u8; 3],
    /// One bit for each source.
    pub(crate) abs: u8,
    pub(crate) neg: u8,
    pub(crate) neg_hi: u8,
    /// Bit 3 is the destination half in VOP3.
    pub(crate) op_sel: u8,
    pub(crate) op_sel_hi: u8,
    pub(crate) omod: u8,
    pub(crate) clamp: bool,
    /// In the VOP3 encoding: it honours `op_sel`.
    pub(crate) vop3: bool,
    pub(crate) shape: Shape,
    /// `cbsz`, `abid`, `blgp` of a matrix instruction.
    pub(crate) matrix: [u8; 3],
}

/// A read-modify-write of one memory cell.
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
    /// Subtracts, but not below zero.
    SubClamp,
    /// Subtracts if the result is not negative.
    CondSub,
    /// Stores each dword whose top bit is set, without that bit.
    CondXchg,
}

/// The shape of data that a memory instruction moves for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Load of `bytes` (1, 2 or 4 n) for each lane.
    Load { bytes: u8, signed: bool, half: Half },
    /// Store of `bytes`; `high` takes them from the upper half of the register.
    Store { bytes: u8, high: bool },
    /// Read-modify-write of `size` (4 or 8) bytes.
    Atomic { op: Atomic, size: u8 },
    /// Load of `bytes` for each lane into the LDS.
    LoadLds { bytes: u8, signed: bool },
}

/// Where a sub-dword load goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Extended to the whole register.
    Whole,
    /// d16: the low half.
    Low,
    /// d16_hi: the high half.
    High,
    /// The low half, and the high one stays as it is (gfx1201).
    LowKept,
    /// The high half, and the low one stays as it is (gfx1201).
    HighKept,
}

/// Which vector memory path an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Flat,
    Global,
    /// A dword for each lane, one behind the other.
    GlobalByThread,
    Scratch,
    Buffer {
        offen: bool,
        idxen: bool,
    },
}

/// A vector memory instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vmem {
    pub(crate) segment: Segment,
    pub(crate) access: Access,
    /// First address register.
    pub(crate) addr: Option<u16>,
    /// First register of the data to store.
    pub(crate) data: u16,
    /// First register loaded, or that takes the old value of an atomic.
    pub(crate) dst: u16,
    /// Does an atomic return the old value?
    pub(crate) returns: bool,
    /// Scalar base (FLAT family) or first register of the resource (MUBUF).
    pub(crate) saddr: Option<u8>,
    /// Scalar offset (MUBUF).
    pub(crate) soffset: Src,
    pub(crate) offset: i32,
}

/// What a DS instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LdsOp {
    Access(Access),
    /// Two cells of `bytes` each, offsets in units of `stride`.
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
    BPermute,
    Append,
    Consume,
    ReadAddTid,
    WriteAddTid,
    Gws(GwsOp),
    Nop,
}

/// A DS instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lds {
    pub(crate) op: LdsOp,
    pub(crate) addr: u16,
    pub(crate) data: [u16; 2],
    pub(crate) dst: u16,
    pub(crate) returns: bool,
    pub(crate) offset: [u8; 2],
}

/// An instruction by family.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Salu(Salu),
    Smem(Smem),
    ScalarLoad(ScalarLoad),
    Valu(Valu),
    /// Two at once (VOPD of gfx1201): both read before one writes.
    Dual(Box<[Valu; 2]>),
    Vmem(Vmem),
    Lds(Lds),
    /// Cache control: memory is coherent here, so it only orders.
    CacheControl,
}

/// A decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    /// Length in bytes.
    pub(crate) bytes: u8,
    pub(crate) body: Body,
}
