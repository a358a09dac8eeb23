// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Differences of gfx1201: hardware registers, messages with a reply, and split barriers (signal
//! and wait).

use super::super::Ctx;
use super::{field_mask, split};
use crate::flight::Counter;
use crate::inst::Salu;
use crate::op::Op;
use crate::trap::gfx1201 as bits;
use crate::wave::{violation, Halt, State, Step, Wave};

/// Hardware register numbers of `s_getreg` and `s_setreg`.
mod hwreg {
    pub(super) const MODE: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const STATE_PRIV: u32 = 4;
    pub(super) const GPR_ALLOC: u32 = 5;
    pub(super) const LDS_ALLOC: u32 = 6;
    pub(super) const IB_STS: u32 = 7;
    pub(super) const EXCP_FLAG_PRIV: u32 = 17;
    pub(super) const EXCP_FLAG_USER: u32 = 18;
    pub(super) const TRAP_CTRL: u32 = 19;
    pub(super) const SCRATCH_BASE_LO: u32 = 20;
    pub(super) const SCRATCH_BASE_HI: u32 = 21;
    pub(super) const HW_ID1: u32 = 23;
    pub(super) const HW_ID2: u32 = 24;
    pub(super) const SCHED_MODE: u32 = 26;
    pub(super) const IB_STS2: u32 = 28;
    pub(super) const SHADER_CYCLES_LO: u32 = 29;
    pub(super) const SHADER_CYCLES_HI: u32 = 30;
}

/// Messages with a reply.
mod message {
    pub(super) const GET_DOORBELL: u32 = 0x80;
    pub(super) const GET_TMA: u32 = 0x82;
    pub(super) const GET_REALTIME: u32 = 0x83;
    pub(super) const SAVE_WAVE: u32 = 0x84;
    pub(super) const GET_TBA: u32 = 0x85;
    pub(super) const GET_SE_AID_ID: u32 = 0x87;
}

/// Writable MODE bits: FP_ROUND, FP_DENORM, FP16_OVFL, SCALAR_PREFETCH_EN, DISABLE_PERF. Other
/// gfx942 bits are fixed: see [`Wave::new`].
const MODE: u32 = 0xff | 3 << 23 | 1 << 27;
const EXCP_FLAG_USER: u32 = 0x7f | 3 << 30;
const TRAP_CTRL: u32 = 0x3ff;
const SCHED_MODE: u32 = 3;

/// Barriers of a workgroup: that of the program and that of the trap handler.
pub(crate) const BARRIERS: usize = 2;

/// Split barrier: waves signal it and wait until all have signalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    /// Initial number of waves of the workgroup.
    waves: u32,
    /// Number of waves that have not ended.
    members: u32,
    signals: u32,
    /// Number of completions.
    round: u32,
}

impl Barrier {
    pub(crate) fn new(waves: u32) -> Self {
        Barrier {
            waves,
            members: waves,
            signals: 0,
            round: 0,
        }
    }

    /// Returns the barriers of a workgroup of which only `members` waves are restored.
    pub(crate) fn restored(waves: u32, members: u32) -> Self {
        Barrier {
            members,
            ..Barrier::new(waves)
        }
    }

    /// A wave signals. Returns whether it is the first.
    fn signal(&mut self) -> bool {
        if !self.is_valid() {
            return false;
        }
        self.signals += 1;
        let first = self.signals == 1;
        self.complete();
        first
    }

    /// A wave ends.
    pub(crate) fn leave(&mut self) {
        self.members -= 1;
        self.complete();
    }

    /// Returns whether there is a barrier: a workgroup of one wave has none.
    fn is_valid(&self) -> bool {
        self.waves > 1
    }

    fn complete(&mut self) {
        if self.signals != 0 && self.signals >= self.members {
            self.signals = 0;
            self.round = self.round.wrapping_add(1);
        }
    }
}

/// Returns the barrier of an instruction: -1 is the workgroup's, -2 the trap handler's.
fn barrier(w: &Wave, number: i32) -> Result<usize, Halt> {
    match number {
        -1 => Ok(0),
        -2 if w.privileged => Ok(1),
        other => violation(format!("barrier {other}")),
    }
}

impl Wave {
    /// Returns whether the barrier completed since the wave's last wait, and consumes that
    /// completion.
    pub(crate) fn passes(&mut self, n: usize, barriers: &[Barrier; BARRIERS]) -> bool {
        let passes = self.rounds[n] != barriers[n].round;
        self.rounds[n] = barriers[n].round;
        passes
    }

    pub(crate) fn barrier_complete(&self, n: usize, barriers: &[Barrier; BARRIERS]) -> bool {
        self.rounds[n] != barriers[n].round
    }

    /// Sets whether the barrier has completed since the wave's last wait.
    fn set_barrier_complete(&mut self, n: usize, complete: bool, barriers: &[Barrier; BARRIERS]) {
        self.rounds[n] = barriers[n].round.wrapping_sub(complete.into());
    }
}

/// `s_getreg` of gfx1201.
pub(super) fn getreg(w: &Wave, ctx: &Ctx<'_>, imm: i32) -> Result<u32, Halt> {
    let (reg, offset, size) = split(imm);
    let d = ctx.dispatch;
    let bit = |on: bool, mask: u32| if on { mask } else { 0 };
    let value = match reg {
        hwreg::MODE => w.mode & MODE,
        hwreg::STATUS => {
            bit(w.privileged, bits::status::PRIV)
                | bit(d.trap.is_some(), bits::status::TRAP_EN)
                | bit(w.exec() == 0, bits::status::EXECZ)
                | bit(w.vcc() == 0, bits::status::VCCZ)
                | bit(d.waves_per_workgroup() > 1, bits::status::IN_WG)
                | bit(
                    w.barrier_complete(1, ctx.barriers),
                    bits::status::TRAP_BARRIER_COMPLETE,
                )
                | bits::status::VALID
                | bit(w.no_vgprs, bits::status::NO_VGPRS)
                | bit(!w.wave32, bits::status::WAVE64)
        }
        hwreg::STATE_PRIV => {
            w.state_priv(d.scratch.wave_stride != 0)
                | bit(
                    w.barrier_complete(0, ctx.barriers),
                    bits::state::BARRIER_COMPLETE,
                )
        }
        // In units of 4 VGPRs, of 32 lanes or of 64.
        hwreg::GPR_ALLOC => (d.vgprs() as u32 / 4 - 1) << 12,
        hwreg::LDS_ALLOC => (d.lds_bytes / 512) << 12,
        // DS_CNT, LOAD_CNT, KM_CNT.
        hwreg::IB_STS => w.in_flight(Counter::Ds) << 3 | w.in_flight(Counter::Load) << 9,
        hwreg::IB_STS2 => w.in_flight(Counter::Km),
        hwreg::EXCP_FLAG_PRIV => w.trapsts,
        hwreg::EXCP_FLAG_USER => w.excp_user,
        hwreg::TRAP_CTRL => w.trap_ctrl,
        hwreg::SCRATCH_BASE_LO => w.scratch as u32,
        hwreg::SCRATCH_BASE_HI => (w.scratch >> 32) as u32,
        hwreg::HW_ID1 => w.slots.hw_id1(w.index),
        hwreg::HW_ID2 => 0,
        hwreg::SCHED_MODE => w.ib_sts,
        hwreg::SHADER_CYCLES_LO => ctx.host.shader_clock() as u32,
        hwreg::SHADER_CYCLES_HI => (ctx.host.shader_clock() >> 32) as u32,
        other => return violation(format!("s_getreg of hardware register {other}")),
    };
    Ok((value & field_mask(offset, size)) >> offset)
}

/// `s_setreg` of gfx1201.
pub(super) fn setreg(w: &mut Wave, ctx: &Ctx<'_>, imm: i32, value: u32) -> Step {
    let (reg, offset, size) = split(imm);
    let mask = field_mask(offset, size);
    let value = value << offset & mask;
    let put = |to: &mut u32, writable: u32| *to = *to & !(mask & writable) | value & writable;
    match reg {
        hwreg::MODE => put(&mut w.mode, MODE),
        hwreg::EXCP_FLAG_USER => put(&mut w.excp_user, EXCP_FLAG_USER),
        hwreg::SCHED_MODE => put(&mut w.ib_sts, SCHED_MODE),
        hwreg::TRAP_CTRL if w.privileged => put(&mut w.trap_ctrl, TRAP_CTRL),
        hwreg::EXCP_FLAG_PRIV if w.privileged => put(&mut w.trapsts, u32::MAX),
        hwreg::STATE_PRIV if w.privileged => {
            w.set_state_priv(mask, value);
            let complete = bits::state::BARRIER_COMPLETE;
            if mask & complete != 0 {
                w.set_barrier_complete(0, value & complete != 0, ctx.barriers);
            }
        }
        hwreg::SCRATCH_BASE_LO | hwreg::SCRATCH_BASE_HI if w.privileged => {
            let shift = 32 * u32::from(reg == hwreg::SCRATCH_BASE_HI);
            let mask = u64::from(mask) << shift;
            w.scratch = w.scratch & !mask | u64::from(value) << shift;
        }
        other => return violation(format!("s_setreg of hardware register {other}")),
    }
    Ok(())
}

/// Returns the reply of `s_sendmsg_rtn`.
fn reply(w: &Wave, ctx: &Ctx<'_>, id: u32) -> Result<u64, Halt> {
    let trap = || ctx.dispatch.trap.unwrap_or_default();
    Ok(match id {
        message::GET_REALTIME => ctx.host.realtime(),
        message::GET_SE_AID_ID => 0,
        message::GET_DOORBELL if w.privileged => u64::from(ctx.dispatch.doorbell_id & 0x3ff),
        message::GET_TMA if w.privileged => trap().tma >> 8,
        message::GET_TBA if w.privileged => trap().tba >> 8,
        _ => return violation(format!("s_sendmsg_rtn of message {id:#x}")),
    })
}

/// Returns whether a wave sends `MSG_RTN_SAVE_WAVE`.
pub(crate) fn is_save_wave(w: &Wave, i: &Salu) -> bool {
    i.imm as u32 & 0xff == message::SAVE_WAVE && w.privileged
}

/// Executes an instruction specific to gfx1201; returns `None` for others.
pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Salu) -> Option<Step> {
    use Op::*;
    let imm = i.imm as u32;
    match i.op {
        // Nothing is timed. Waits are in [`flight`](crate::flight).
        s_clause
        | s_delay_alu
        | s_wait_alu
        | s_wait_idle
        | s_wait_event
        | s_singleuse_vdst
        | s_version
        | s_ttracedata_imm
        | s_wait_loadcnt
        | s_wait_storecnt
        | s_wait_samplecnt
        | s_wait_bvhcnt
        | s_wait_expcnt
        | s_wait_dscnt
        | s_wait_kmcnt
        | s_wait_loadcnt_dscnt
        | s_wait_storecnt_dscnt => {}
        s_round_mode => w.mode = w.mode & !0xf | imm & 0xf,
        s_denorm_mode => w.mode = w.mode & !0xf0 | (imm & 0xf) << 4,
        s_sleep_var => w.state = State::Yield,
        // The wave waits for the reply, as it does before it reads one.
        s_sendmsg_rtn_b64 if is_save_wave(w, i) => {
            w.asks = Some(i.dst);
            w.state = State::Reply;
        }
        s_sendmsg_rtn_b32 | s_sendmsg_rtn_b64 => match reply(w, ctx, i.imm as u32 & 0xff) {
            Ok(value) if i.op == s_sendmsg_rtn_b64 => w.set_s64(i.dst, value),
            Ok(value) => w.s[usize::from(i.dst)] = value as u32,
            Err(halt) => return Some(Err(halt)),
        },
        s_barrier_signal | s_barrier_signal_isfirst => {
            match barrier(w, w.scalar(i.src[0]) as i32) {
                Ok(n) => {
                    let first = ctx.barriers[n].signal();
                    if i.op == s_barrier_signal_isfirst {
                        w.scc = first;
                    }
                }
                Err(halt) => return Some(Err(halt)),
            }
        }
        s_get_barrier_state => match barrier(w, w.scalar(i.src[0]) as i32) {
            Ok(n) => {
                let of = ctx.barriers[n];
                let valid = u32::from(of.is_valid());
                w.s[usize::from(i.dst)] = valid | of.members << 4 | of.signals << 16;
            }
            Err(halt) => return Some(Err(halt)),
        },
        s_barrier_wait => match barrier(w, i.imm) {
            Ok(n) if !ctx.barriers[n].is_valid() => {}
            Ok(n) => {
                if !w.passes(n, ctx.barriers) {
                    w.state = State::Signals(n);
                }
            }
            Err(halt) => return Some(Err(halt)),
        },
        s_code_end => {
            let text = "s_code_end: past the end of the program".into();
            return Some(Err(Halt::Illegal(text)));
        }
        _ => return None,
    }
    Some(Ok(()))
}
