// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SOPP (branches, barriers, messages, traps) and hardware registers. Differences of gfx1201 are in
//! [`gfx1201`].

pub(crate) mod gfx1201;

use super::Ctx;
use crate::decode::code;
use crate::flight::Counter;
use crate::inst::Salu;
use crate::op::Op;
use crate::trap::mode;
use crate::wave::{violation, Halt, State, Step, Wave};
use crate::{Isa, Message};

/// Hardware register numbers of `s_getreg` and `s_setreg`.
mod hwreg {
    pub(super) const MODE: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const TRAPSTS: u32 = 3;
    pub(super) const HW_ID: u32 = 4;
    pub(super) const GPR_ALLOC: u32 = 5;
    pub(super) const LDS_ALLOC: u32 = 6;
    pub(super) const IB_STS: u32 = 7;
    pub(super) const SH_MEM_BASES: u32 = 15;
    pub(super) const TBA_LO: u32 = 16;
    pub(super) const TBA_HI: u32 = 17;
    pub(super) const TMA_LO: u32 = 18;
    pub(super) const TMA_HI: u32 = 19;
    pub(super) const XCC_ID: u32 = 20;
}

/// Message ids of `s_sendmsg`.
const MSG_SAVEWAVE: u8 = 4;
const MSG_GET_DOORBELL: u8 = 10;

/// Writable IB_STS bits: FIRST_REPLAY and RCNT.
const IB_STS_WRITABLE: u32 = 0x3f << 15;

/// Writable MODE bits.
const MODE_WRITABLE: u32 = 0x3ff | 0x1ff << 12 | 1 << 23 | GPR_IDX_EN | VSKIP;

/// MODE: vector register operands are relative to M0.
pub(super) const GPR_IDX_EN: u32 = 1 << 27;
/// MODE: vector instructions are skipped.
pub(super) const VSKIP: u32 = 1 << 28;

/// Returns register, offset and width in the immediate of `s_getreg`.
fn split(imm: i32) -> (u32, u32, u32) {
    let imm = imm as u32;
    (imm & 0x3f, imm >> 6 & 0x1f, (imm >> 11 & 0x1f) + 1)
}

fn field_mask(offset: u32, size: u32) -> u32 {
    ((1u64 << size) - 1 << offset) as u32
}

pub(super) fn getreg(w: &Wave, ctx: &Ctx<'_>, imm: i32) -> Result<u32, Halt> {
    if w.isa == Isa::Gfx1201 {
        return gfx1201::getreg(w, ctx, imm);
    }
    let (reg, offset, size) = split(imm);
    let d = ctx.dispatch;
    let value = match reg {
        hwreg::MODE => w.mode,
        hwreg::STATUS => w.status_register(d.trap.is_some(), d.waves_per_workgroup() > 1),
        hwreg::TRAPSTS => w.trapsts,
        hwreg::HW_ID => w.slots.hw_id(w.index),
        hwreg::GPR_ALLOC => {
            (d.rsrc1 & 0x3f) << 6 | (d.rsrc3 & 0x3f) << 12 | (d.rsrc1 >> 7 & 7) << 24
        }
        hwreg::LDS_ALLOC => (d.lds_bytes / 256) << 12,
        hwreg::IB_STS => {
            let (vm, lgkm) = (w.in_flight(Counter::Load), w.in_flight(Counter::Ds));
            w.ib_sts | vm & 0xf | lgkm << 8 | (vm >> 4) << 22
        }
        hwreg::SH_MEM_BASES => {
            (w.apertures.private >> 48) as u32 | ((w.apertures.shared >> 48) as u32) << 16
        }
        hwreg::XCC_ID => d.xcc_id,
        hwreg::TBA_LO | hwreg::TBA_HI | hwreg::TMA_LO | hwreg::TMA_HI if w.privileged => {
            let trap = d.trap.unwrap_or_default();
            match reg {
                hwreg::TBA_LO => (trap.tba >> 8) as u32,
                hwreg::TBA_HI => (trap.tba >> 40 & 0xff) as u32,
                hwreg::TMA_LO => (trap.tma >> 8) as u32,
                _ => (trap.tma >> 40 & 0xff) as u32,
            }
        }
        other => return violation(format!("s_getreg of hardware register {other}")),
    };
    Ok((value & field_mask(offset, size)) >> offset)
}

pub(super) fn setreg(w: &mut Wave, ctx: &Ctx<'_>, imm: i32, value: u32) -> Step {
    if w.isa == Isa::Gfx1201 {
        return gfx1201::setreg(w, ctx, imm, value);
    }
    let (reg, offset, size) = split(imm);
    let mask = field_mask(offset, size);
    let value = value << offset & mask;
    match reg {
        hwreg::MODE => {
            let debug = if w.privileged { mode::DEBUG_EN } else { 0 };
            let writable = mask & (MODE_WRITABLE | debug);
            w.mode = w.mode & !writable | value & writable;
        }
        hwreg::TRAPSTS => w.trapsts = w.trapsts & !mask | value,
        hwreg::STATUS if w.privileged => return w.set_status(mask, value),
        hwreg::IB_STS if w.privileged => {
            let mask = mask & IB_STS_WRITABLE;
            w.ib_sts = w.ib_sts & !mask | value & mask;
        }
        other => return violation(format!("s_setreg of hardware register {other}")),
    }
    Ok(())
}

pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Salu, bytes: u8) -> Step {
    use Op::*;
    let taken = match i.op {
        s_branch => true,
        s_cbranch_scc0 => !w.scc,
        s_cbranch_scc1 => w.scc,
        s_cbranch_vccz => w.vcc() == 0,
        s_cbranch_vccnz => w.vcc() != 0,
        s_cbranch_execz => w.exec() == 0,
        s_cbranch_execnz => w.exec() != 0,
        // No debugger attached.
        s_cbranch_cdbgsys
        | s_cbranch_cdbguser
        | s_cbranch_cdbgsys_or_user
        | s_cbranch_cdbgsys_and_user => false,
        _ => return other(w, ctx, i, bytes),
    };
    if taken {
        w.pc = w.pc.wrapping_add_signed(i64::from(i.imm) * 4);
    }
    Ok(())
}

/// Sets STATUS.HALT; in a trap handler it takes effect at the return.
fn sethalt(w: &mut Wave, halt: bool) {
    w.halt = halt;
    if halt && !w.privileged {
        w.state = State::Halted;
    }
}

/// `MSG_DEALLOC_VGPRS` of gfx1201: releases the wave's VGPRs.
const MSG_DEALLOC_VGPRS: u32 = 3;

fn other(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Salu, bytes: u8) -> Step {
    use Op::*;
    if w.isa == Isa::Gfx1201 {
        if let Some(step) = gfx1201::step(w, ctx, i) {
            return step;
        }
    }
    let imm = i.imm as u32;
    let index = w.scalar(i.src[0]);
    match i.op {
        // Waits are in [`flight`](crate::flight).
        s_nop | s_waitcnt | s_wakeup | s_incperflevel | s_decperflevel | s_ttracedata => {}
        s_icache_inv => {
            ctx.mem.invalidate_code();
            ctx.dispatch.invalidate_code();
            // The next slice finds the page of the program counter anew.
            w.state = State::Yield;
        }
        s_setprio => w.priority = (imm & 3) as u8,
        s_sleep => w.state = State::Yield,
        s_barrier => w.state = State::Barrier,
        s_endpgm => w.state = State::Ended,
        s_endpgm_saved if w.privileged => w.state = State::Saved,
        s_endpgm_saved => return violation("s_endpgm_saved outside a trap handler"),
        s_setkill if imm & 1 == 0 => {}
        s_setkill => w.state = State::Ended,
        s_sethalt => sethalt(w, imm & 1 != 0),
        s_trap => return Err(Halt::Trap(imm as u8)),
        s_sendmsg if w.isa == Isa::Gfx1201 && imm & 0xffff == MSG_DEALLOC_VGPRS => {
            w.no_vgprs = true;
        }
        s_sendmsg
            if w.isa == Isa::Gfx942 && imm as u8 & 0xf == MSG_GET_DOORBELL && w.privileged =>
        {
            // The reply is in EXEC.
            w.set_exec(u64::from(ctx.dispatch.doorbell_id & 0x3ff));
        }
        s_sendmsg if w.isa == Isa::Gfx942 && imm as u8 & 0xf == MSG_SAVEWAVE && w.privileged => {
            // The address of the record comes in EXEC.
            w.asks = Some(code::EXEC);
            w.state = State::Yield;
        }
        s_sendmsg | s_sendmsghalt => {
            let id_bits = match w.isa {
                Isa::Gfx942 => 4,
                Isa::Gfx1201 => 8,
            };
            let message = Message {
                id: (imm & (1 << id_bits) - 1) as u8,
                op: ((imm & 0xffff) >> id_bits) as u16,
                m0: w.m0(),
                privileged: w.privileged,
                pc: w.pc.wrapping_sub(u64::from(bytes)),
                workgroup: w.workgroup,
                wave: w.index,
            };
            if !ctx.host.message(&message) {
                return Err(Halt::Message(message));
            }
            if i.op == s_sendmsghalt {
                sethalt(w, true);
            }
        }
        s_set_gpr_idx_on | s_set_gpr_idx_idx => {
            let m0 = &mut w.s[usize::from(code::M0)];
            *m0 = *m0 & !0xff | index & 0xff;
            if i.op == s_set_gpr_idx_on {
                *m0 = *m0 & !0xf000 | (imm & 0xf) << 12;
                w.mode |= GPR_IDX_EN;
            }
        }
        s_set_gpr_idx_off => w.mode &= !GPR_IDX_EN,
        s_set_gpr_idx_mode => {
            let m0 = &mut w.s[usize::from(code::M0)];
            *m0 = *m0 & !0xf000 | (imm & 0xf) << 12;
        }
        other => return Err(Halt::Illegal(format!("{other:?} is not implemented"))),
    }
    Ok(())
}
