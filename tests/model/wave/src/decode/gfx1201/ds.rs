// SPDX-License-Identifier: GPL-2.0 OR MIT

//! VDS of gfx1201.

use super::super::{bits, illegal, violation, Decoded, Limits};
use super::flat::tuple;
use super::operand::vgpr;
use crate::inst::{Access, Atomic, Body, Half, Inst, Lds, LdsOp};

const fn load(bytes: u8, signed: bool, half: Half) -> LdsOp {
    LdsOp::Access(Access::Load {
        bytes,
        signed,
        half,
    })
}

const fn store(bytes: u8, high: bool) -> LdsOp {
    LdsOp::Access(Access::Store { bytes, high })
}

/// Returns the atomic in a row of 0x20 opcodes. There are four rows: 32 and 64 bits, without and
/// with return of the old value.
fn row(low: u32, returns: bool, size: u8) -> Option<Atomic> {
    Some(match low {
        0x00 => Atomic::Add,
        0x01 => Atomic::Sub,
        0x02 => Atomic::RSub,
        0x03 => Atomic::Inc,
        0x04 => Atomic::Dec,
        0x05 => Atomic::SMin,
        0x06 => Atomic::SMax,
        0x07 => Atomic::UMin,
        0x08 => Atomic::UMax,
        0x09 => Atomic::And,
        0x0a => Atomic::Or,
        0x0b => Atomic::Xor,
        0x0c => Atomic::MsKor,
        0x0d if returns => Atomic::Swap,
        0x10 => Atomic::CmpSwap,
        0x12 => Atomic::FMin,
        0x13 => Atomic::FMax,
        0x15 if !returns && size == 4 => Atomic::FAdd,
        _ => return None,
    })
}

/// Returns the operation, and whether it returns data.
fn operation(code: u32) -> Option<(LdsOp, bool)> {
    let plain = |op| Some((op, false));
    let returns = |op| Some((op, true));
    let rmw = |op, size| LdsOp::Access(Access::Atomic { op, size });
    match code {
        0x0d => plain(store(4, false)),
        0x0e => plain(LdsOp::Write2 {
            bytes: 4,
            stride: 4,
        }),
        0x0f => plain(LdsOp::Write2 {
            bytes: 4,
            stride: 256,
        }),
        0x14 => plain(LdsOp::Nop),
        0x1e => plain(store(1, false)),
        0x1f => plain(store(2, false)),
        0x2e => returns(LdsOp::Exchange2 {
            bytes: 4,
            stride: 4,
        }),
        0x2f => returns(LdsOp::Exchange2 {
            bytes: 4,
            stride: 256,
        }),
        0x35 => returns(LdsOp::Swizzle),
        0x36 => returns(load(4, false, Half::Whole)),
        0x37 => returns(LdsOp::Read2 {
            bytes: 4,
            stride: 4,
        }),
        0x38 => returns(LdsOp::Read2 {
            bytes: 4,
            stride: 256,
        }),
        0x39 => returns(load(1, true, Half::Whole)),
        0x3a => returns(load(1, false, Half::Whole)),
        0x3b => returns(load(2, true, Half::Whole)),
        0x3c => returns(load(2, false, Half::Whole)),
        0x3d => returns(LdsOp::Consume),
        0x3e => returns(LdsOp::Append),
        0x4d => plain(store(8, false)),
        0x4e => plain(LdsOp::Write2 {
            bytes: 8,
            stride: 8,
        }),
        0x4f => plain(LdsOp::Write2 {
            bytes: 8,
            stride: 512,
        }),
        0x6e => returns(LdsOp::Exchange2 {
            bytes: 8,
            stride: 8,
        }),
        0x6f => returns(LdsOp::Exchange2 {
            bytes: 8,
            stride: 512,
        }),
        0x76 => returns(load(8, false, Half::Whole)),
        0x77 => returns(LdsOp::Read2 {
            bytes: 8,
            stride: 8,
        }),
        0x78 => returns(LdsOp::Read2 {
            bytes: 8,
            stride: 512,
        }),
        0x79 => returns(rmw(Atomic::FAdd, 4)),
        0x7e => returns(rmw(Atomic::CondXchg, 8)),
        0x98 | 0xa8 => Some((rmw(Atomic::CondSub, 4), code >= 0xa8)),
        0x99 | 0xa9 => Some((rmw(Atomic::SubClamp, 4), code >= 0xa8)),
        0x9a | 0xaa => Some((rmw(Atomic::PkAddF16, 4), code >= 0xa8)),
        0x9b | 0xab => Some((rmw(Atomic::PkAddBf16, 4), code >= 0xa8)),
        0xa0 => plain(store(1, true)),
        0xa1 => plain(store(2, true)),
        0xa2 => returns(load(1, false, Half::Low)),
        0xa3 => returns(load(1, false, Half::High)),
        0xa4 => returns(load(1, true, Half::Low)),
        0xa5 => returns(load(1, true, Half::High)),
        0xa6 => returns(load(2, false, Half::Low)),
        0xa7 => returns(load(2, false, Half::High)),
        0xb0 => plain(LdsOp::WriteAddTid),
        0xb1 => returns(LdsOp::ReadAddTid),
        0xb2 => returns(LdsOp::Permute),
        0xb3 => returns(LdsOp::BPermute { inactive: false }),
        0xcd => returns(LdsOp::BPermute { inactive: true }),
        0xde => plain(store(12, false)),
        0xdf => plain(store(16, false)),
        0xfe => returns(load(12, false, Half::Whole)),
        0xff => returns(load(16, false, Half::Whole)),
        0x00..=0x1f => row(code, false, 4).map(|op| (rmw(op, 4), false)),
        0x20..=0x3f => row(code - 0x20, true, 4).map(|op| (rmw(op, 4), true)),
        0x40..=0x5f => row(code - 0x40, false, 8).map(|op| (rmw(op, 8), false)),
        0x60..=0x7f => row(code - 0x60, true, 8).map(|op| (rmw(op, 8), true)),
        _ => None,
    }
}

/// Returns whether the atomic has two operands.
fn two(op: LdsOp) -> bool {
    matches!(
        op,
        LdsOp::Access(Access::Atomic {
            op: Atomic::CmpSwap | Atomic::MsKor,
            ..
        })
    )
}

/// Returns the number of registers of data 0, data 1 and the destination.
fn registers(op: LdsOp, returns: bool) -> [u16; 3] {
    let regs = |bytes: u8| u16::from(bytes).div_ceil(4);
    match op {
        LdsOp::Access(Access::Load { bytes, .. }) => [0, 0, regs(bytes)],
        LdsOp::Access(Access::Store { bytes, .. }) => [regs(bytes), 0, 0],
        LdsOp::Access(Access::Atomic { size, .. }) => {
            let n = regs(size);
            [n, n * u16::from(two(op)), n * u16::from(returns)]
        }
        LdsOp::Read2 { bytes, .. } => [0, 0, 2 * regs(bytes)],
        LdsOp::Write2 { bytes, .. } => [regs(bytes), regs(bytes), 0],
        LdsOp::Exchange2 { bytes, .. } => [regs(bytes), regs(bytes), 2 * regs(bytes)],
        LdsOp::Swizzle | LdsOp::Append | LdsOp::Consume | LdsOp::ReadAddTid => [0, 0, 1],
        LdsOp::Permute | LdsOp::BPermute { .. } => [1, 0, 1],
        LdsOp::WriteAddTid => [1, 0, 0],
        LdsOp::Access(_) | LdsOp::Gws(_) | LdsOp::Nop => [0; 3],
    }
}

pub(super) fn ds(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 25, 18);
    let Some((op, returns)) = operation(code) else {
        return illegal(format!("VDS opcode {code:#x}"));
    };
    if bits(word, 17, 16) != 0 {
        return violation(format!("VDS opcode {code:#x} with reserved bits"));
    }
    if op == LdsOp::Nop && second != 0 {
        return violation("ds_nop with operands".into());
    }
    let [n0, n1, n2] = registers(op, returns);
    let mut data = [
        tuple(limits, bits(second, 15, 8), n0)?,
        tuple(limits, bits(second, 23, 16), n1)?,
    ];
    // The value to store precedes the one to compare with, unlike on gfx942.
    if matches!(
        op,
        LdsOp::Access(Access::Atomic {
            op: Atomic::CmpSwap,
            ..
        })
    ) {
        data.swap(0, 1);
    }
    let addressed = !matches!(
        op,
        LdsOp::Append | LdsOp::Consume | LdsOp::ReadAddTid | LdsOp::WriteAddTid | LdsOp::Nop
    );
    let addr = match addressed {
        true => vgpr(limits, bits(second, 7, 0), 1)?,
        false => 0,
    };
    Ok(Inst {
        bytes: 0,
        body: Body::Lds(Lds {
            op,
            addr,
            data,
            dst: tuple(limits, bits(second, 31, 24), n2)?,
            returns,
            offset: [bits(word, 7, 0) as u8, bits(word, 15, 8) as u8],
        }),
    })
}
