// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The way into the trap handler and back.

use crate::decode::code;
use crate::wave::{violation, Halt, State, Step, Wave};
use crate::{FaultKind, Host, Trap, Where};

/// TRAPSTS bits.
pub(crate) mod trapsts {
    pub(crate) const MEM_VIOL: u32 = 1 << 8;
    pub(crate) const ILLEGAL_INST: u32 = 1 << 11;
}

/// STATUS bits.
pub(crate) mod status {
    pub(crate) const SCC: u32 = 1 << 0;
    pub(crate) const USER_PRIO_SHIFT: u32 = 3;
    pub(crate) const PRIV: u32 = 1 << 5;
    pub(crate) const TRAP_EN: u32 = 1 << 6;
    pub(crate) const EXECZ: u32 = 1 << 9;
    pub(crate) const VCCZ: u32 = 1 << 10;
    pub(crate) const IN_TG: u32 = 1 << 11;
    pub(crate) const HALT: u32 = 1 << 13;
    pub(crate) const VALID: u32 = 1 << 16;
    /// SPI_PRIO, SKIP_EXPORT, COND_DBG_USER, COND_DBG_SYS, ALLOW_REPLAY: kept, without an effect
    /// here.
    pub(crate) const KEPT: u32 = 3 << 1 | 1 << 18 | 3 << 20 | 1 << 22;
}

/// Virtual addresses in a program counter.
const PC_MASK: u64 = (1 << 48) - 1;
/// Where the trap id lies above the program counter in `ttmp1:ttmp0`.
const TRAP_ID_SHIFT: u32 = 48;

impl Wave {
    /// What the dispatcher tells a trap handler: in ttmp8 to ttmp10 the workgroup, in ttmp11 the
    /// wave's place in it.
    pub(crate) fn describe_to_handler(&mut self) {
        let ttmp = usize::from(code::TTMP0);
        self.s[ttmp..ttmp + 16].fill(0);
        self.s[ttmp + 8..ttmp + 11].copy_from_slice(&self.workgroup);
        self.s[ttmp + 11] = self.index & 0x3f;
    }

    /// STATUS as `s_getreg` reads it.
    pub(crate) fn status_register(&self, has_handler: bool, in_group: bool) -> u32 {
        let bit = |on: bool, mask: u32| if on { mask } else { 0 };
        bit(self.scc, status::SCC)
            | u32::from(self.priority) << status::USER_PRIO_SHIFT
            | bit(self.privileged, status::PRIV)
            | bit(has_handler, status::TRAP_EN)
            | bit(self.exec() == 0, status::EXECZ)
            | bit(self.vcc() == 0, status::VCCZ)
            | bit(in_group, status::IN_TG)
            | bit(self.halt, status::HALT)
            | status::VALID
            | self.status
    }

    /// `s_setreg` of the bits `mask` of STATUS. What the hardware keeps itself stays as it is.
    pub(crate) fn set_status(&mut self, mask: u32, value: u32) {
        if mask & status::SCC != 0 {
            self.scc = value & status::SCC != 0;
        }
        if mask & status::HALT != 0 {
            self.halt = value & status::HALT != 0;
        }
        let prio = 3 << status::USER_PRIO_SHIFT;
        if mask & prio == prio {
            self.priority = (value >> status::USER_PRIO_SHIFT & 3) as u8;
        }
        let kept = mask & status::KEPT;
        self.status = self.status & !kept | value & kept;
    }

    /// Takes the wave, which stands at the instruction that did not complete, to the trap handler if
    /// the reason is one for it. Gives the reason back if not.
    pub(crate) fn trap(
        &mut self,
        halt: Halt,
        handler: Option<Trap>,
        at: &Where,
        host: &dyn Host,
    ) -> Step {
        let (Some(handler), false) = (handler, self.privileged) else {
            return Err(halt);
        };
        let (cause, id, why) = match &halt {
            Halt::Trap(id) => (0, *id, format!("s_trap {id}")),
            Halt::Illegal(text) | Halt::Violation(text) => (trapsts::ILLEGAL_INST, 0, text.clone()),
            Halt::Address(text) => (trapsts::MEM_VIOL, 0, text.clone()),
            Halt::Fault { fault, .. } if fault.kind == FaultKind::Misaligned => {
                (trapsts::MEM_VIOL, 0, fault.to_string())
            }
            Halt::Fault { .. } | Halt::Message(_) => return Err(halt),
        };
        host.trapped(at, &why);
        self.trapsts |= cause;
        self.privileged = true;
        let saved = self.pc & PC_MASK | u64::from(id) << TRAP_ID_SHIFT;
        self.set_s64(code::TTMP0, saved);
        self.pc = handler.tba;
        Ok(())
    }

    /// `s_rfe_b64`: leaves the trap handler.
    pub(crate) fn return_from_trap(&mut self, pc: u64) -> Step {
        if !self.privileged {
            return violation("s_rfe outside of a trap handler");
        }
        self.privileged = false;
        self.pc = pc & PC_MASK;
        // The instructions that follow are those of another decoder.
        self.state = if self.halt {
            State::Halted
        } else {
            State::Yield
        };
        Ok(())
    }
}
