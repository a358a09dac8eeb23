// SPDX-License-Identifier: GPL-2.0 OR MIT

//! DS instructions.

use super::operand::Limits;
use super::{bits, illegal, violation, Decoded};
use crate::inst::{Access, Atomic, Body, Half, Inst, Lds, LdsOp};
use crate::GwsOp;

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

/// Returns the atomic for the low five opcode bits.
fn atomic(low: u32) -> Option<Atomic> {
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
        0x0d => Atomic::Swap,
        0x10 => Atomic::CmpSwap,
        0x11 => Atomic::FCmpSwap,
        0x12 => Atomic::FMin,
        0x13 => Atomic::FMax,
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
        0x15 => plain(rmw(Atomic::FAdd, 4)),
        0x17 => plain(rmw(Atomic::PkAddF16, 4)),
        0x18 => plain(rmw(Atomic::PkAddBf16, 4)),
        0x1d => plain(LdsOp::WriteAddTid),
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
        0x34 => returns(rmw(Atomic::Wrap, 4)),
        0x35 => returns(rmw(Atomic::FAdd, 4)),
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
        0x3d => returns(LdsOp::Swizzle),
        0x3e => returns(LdsOp::Permute),
        0x3f => returns(LdsOp::BPermute { inactive: false }),
        0x4d => plain(store(8, false)),
        0x4e => plain(LdsOp::Write2 {
            bytes: 8,
            stride: 8,
        }),
        0x4f => plain(LdsOp::Write2 {
            bytes: 8,
            stride: 512,
        }),
        0x54 => plain(store(1, true)),
        0x55 => plain(store(2, true)),
        0x56 => returns(load(1, false, Half::Low)),
        0x57 => returns(load(1, false, Half::High)),
        0x58 => returns(load(1, true, Half::Low)),
        0x59 => returns(load(1, true, Half::High)),
        0x5a => returns(load(2, false, Half::Low)),
        0x5b => returns(load(2, false, Half::High)),
        0x5c => plain(rmw(Atomic::FAdd, 8)),
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
        0x7c => returns(rmw(Atomic::FAdd, 8)),
        0x7e => returns(rmw(Atomic::CondXchg, 8)),
        0x98 => plain(LdsOp::Gws(GwsOp::SemaReleaseAll)),
        0x99 => plain(LdsOp::Gws(GwsOp::Init)),
        0x9a => plain(LdsOp::Gws(GwsOp::SemaV)),
        0x9b => plain(LdsOp::Gws(GwsOp::SemaBr)),
        0x9c => plain(LdsOp::Gws(GwsOp::SemaP)),
        0x9d => plain(LdsOp::Gws(GwsOp::Barrier)),
        0xb6 => returns(LdsOp::ReadAddTid),
        0xb7 => returns(rmw(Atomic::PkAddF16, 4)),
        0xb8 => returns(rmw(Atomic::PkAddBf16, 4)),
        0xbd => returns(LdsOp::Consume),
        0xbe => returns(LdsOp::Append),
        0xde => plain(store(12, false)),
        0xdf => plain(store(16, false)),
        0xfe => returns(load(12, false, Half::Whole)),
        0xff => returns(load(16, false, Half::Whole)),
        0x00..=0x13 => atomic(code).map(|op| (rmw(op, 4), false)),
        0x20..=0x33 => atomic(code - 0x20).map(|op| (rmw(op, 4), true)),
        0x40..=0x53 => atomic(code - 0x40).map(|op| (rmw(op, 8), false)),
        0x60..=0x73 => atomic(code - 0x60).map(|op| (rmw(op, 8), true)),
        _ => None,
    }
}

/// Returns the number of registers of data 0, data 1 and the destination.
fn registers(op: LdsOp, returns: bool) -> [u16; 3] {
    let regs = |bytes: u8| u16::from(bytes).div_ceil(4);
    match op {
        LdsOp::Access(Access::Load { bytes, .. }) => [0, 0, regs(bytes)],
        LdsOp::Access(Access::Store { bytes, .. }) => [regs(bytes), 0, 0],
        LdsOp::Access(Access::Atomic { op, size }) => {
            let two = matches!(
                op,
                Atomic::CmpSwap | Atomic::FCmpSwap | Atomic::MsKor | Atomic::Wrap
            );
            let n = regs(size);
            [n, if two { n } else { 0 }, if returns { n } else { 0 }]
        }
        LdsOp::Access(_) | LdsOp::Gws(_) | LdsOp::Nop => [0; 3],
        LdsOp::Read2 { bytes, .. } => [0, 0, 2 * regs(bytes)],
        LdsOp::Write2 { bytes, .. } => [regs(bytes), regs(bytes), 0],
        LdsOp::Exchange2 { bytes, .. } => [regs(bytes), regs(bytes), 2 * regs(bytes)],
        LdsOp::Swizzle | LdsOp::Append | LdsOp::Consume | LdsOp::ReadAddTid => [0, 0, 1],
        LdsOp::Permute | LdsOp::BPermute { .. } => [1, 0, 1],
        LdsOp::WriteAddTid => [1, 0, 0],
    }
}

pub(super) fn ds(word: u32, second: u32, limits: &Limits) -> Decoded {
    let code = bits(word, 24, 17);
    let Some((op, returns)) = operation(code) else {
        return illegal(format!("DS opcode {code:#x}"));
    };
    let wave_sync = matches!(op, LdsOp::Gws(_));
    match (wave_sync, bits(word, 16, 16) == 1) {
        (false, true) => {
            return illegal(format!("DS opcode {code:#x} on GDS: gfx942 has none"));
        }
        (true, false) => return illegal(format!("DS opcode {code:#x} without GDS")),
        _ => {}
    }
    let acc = bits(word, 25, 25) == 1;
    let [data0, data1, dst] = registers(op, returns);
    let tuple = |n: u16, field: u32| match n {
        0 => Ok(0),
        _ => limits.either(acc, field, n),
    };
    // GWS has its operand there.
    let addressed = !matches!(
        op,
        LdsOp::Gws(GwsOp::SemaV | GwsOp::SemaP | GwsOp::SemaReleaseAll)
            | LdsOp::Append
            | LdsOp::Consume
            | LdsOp::ReadAddTid
            | LdsOp::WriteAddTid
            | LdsOp::Nop
    );
    let lds = Lds {
        op,
        addr: if addressed {
            limits.vgpr(bits(second, 7, 0), 1)?
        } else {
            0
        },
        data: [
            tuple(data0, bits(second, 15, 8))?,
            tuple(data1, bits(second, 23, 16))?,
        ],
        dst: tuple(dst, bits(second, 31, 24))?,
        returns,
        offset: [bits(word, 7, 0) as u8, bits(word, 15, 8) as u8],
    };
    if lds.op == LdsOp::Nop && second != 0 {
        return violation("ds_nop with operands".into());
    }
    Ok(Inst {
        bytes: 0,
        body: Body::Lds(lds),
    })
}
