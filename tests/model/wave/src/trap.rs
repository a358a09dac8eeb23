// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Entry to and return from the trap handler.

use crate::decode::code;
use crate::wave::{violation, Halt, State, Step, Wave};
use crate::{FaultKind, Host, Isa, Trap, WaveStart, Where};

/// TRAPSTS bits.
pub(crate) mod trapsts {
    /// Watchpoint 0; 1 to 3 follow from [`ADDR_WATCH1_SHIFT`] on.
    pub(crate) const ADDR_WATCH0: u32 = 1 << 7;
    pub(crate) const ADDR_WATCH1_SHIFT: u32 = 12;
    pub(crate) const WAVE_START: u32 = 1 << 23;
    pub(crate) const TRAP_AFTER_INST: u32 = 1 << 25;
    pub(crate) const MEM_VIOL: u32 = 1 << 8;
    pub(crate) const SAVECTX: u32 = 1 << 10;
    pub(crate) const ILLEGAL_INST: u32 = 1 << 11;
}

/// MODE bits of gfx942.
pub(crate) mod mode {
    pub(crate) const DEBUG_EN: u32 = 1 << 11;
    pub(crate) const EXCP_EN_SHIFT: u32 = 12;
    pub(crate) const EXCP_EN: u32 = 0x1ff << EXCP_EN_SHIFT;
}

/// Number of the address watch exception in EXCP_EN and TRAP_CTRL.
const ADDR_WATCH: u32 = 7;

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
    /// An uncorrectable memory error: scalar stores are dropped.
    pub(crate) const ECC_ERR: u32 = 1 << 17;
    /// SPI_PRIO, SKIP_EXPORT, COND_DBG_USER, COND_DBG_SYS, ALLOW_REPLAY: stored, without effect.
    pub(crate) const KEPT: u32 = 3 << 1 | 1 << 18 | 3 << 20 | 1 << 22;
}

/// Bits of gfx1201.
pub(crate) mod gfx1201 {
    /// EXCP_FLAG_PRIV.
    pub(crate) mod excp {
        /// Watchpoints 0 to 3.
        pub(crate) const ADDR_WATCH: u32 = 0xf;
        pub(crate) const MEMVIOL: u32 = 1 << 4;
        pub(crate) const SAVE_CONTEXT: u32 = 1 << 5;
        pub(crate) const ILLEGAL_INST: u32 = 1 << 6;
        pub(crate) const WAVE_START: u32 = 1 << 8;
        pub(crate) const TRAP_AFTER_INST: u32 = 1 << 11;
    }

    /// TRAP_CTRL.
    pub(crate) mod ctrl {
        pub(crate) const TRAP_AFTER_INST: u32 = 1 << 9;
    }

    /// STATUS, read-only.
    pub(crate) mod status {
        pub(crate) const PRIV: u32 = 1 << 5;
        pub(crate) const TRAP_EN: u32 = 1 << 6;
        pub(crate) const EXECZ: u32 = 1 << 9;
        pub(crate) const VCCZ: u32 = 1 << 10;
        pub(crate) const IN_WG: u32 = 1 << 11;
        pub(crate) const TRAP_BARRIER_COMPLETE: u32 = 1 << 15;
        pub(crate) const VALID: u32 = 1 << 16;
        pub(crate) const NO_VGPRS: u32 = 1 << 24;
        pub(crate) const WAVE64: u32 = 1 << 29;
    }

    /// STATE_PRIV.
    pub(crate) mod state {
        pub(crate) const BARRIER_COMPLETE: u32 = 1 << 2;
        pub(crate) const SCC: u32 = 1 << 9;
        pub(crate) const USER_PRIO_SHIFT: u32 = 12;
        pub(crate) const HALT: u32 = 1 << 14;
        pub(crate) const SCRATCH_EN: u32 = 1 << 18;
        /// WG_RR_EN, SLEEP_WAKEUP, SYS_PRIO, POISON_ERR, COND_DBG_USER, COND_DBG_SYS, PERF_EN,
        /// TTRACE_EN: stored, without effect.
        pub(crate) const KEPT: u32 = 3 | 3 << 10 | 7 << 15 | 3 << 19;
    }
}

/// Virtual address bits of a program counter.
const PC_MASK: u64 = (1 << 48) - 1;
/// Returns the trap id in place, above the program counter in `ttmp1:ttmp0`.
fn trap_id(isa: Isa, id: u8) -> u64 {
    match isa {
        Isa::Gfx942 => u64::from(id) << 48,
        Isa::Gfx1201 => u64::from(id & 0xf) << 60,
    }
}

/// Returns the bit of TRAPSTS or EXCP_FLAG_PRIV by which a wave saves its context.
fn save_context(isa: Isa) -> u32 {
    match isa {
        Isa::Gfx942 => trapsts::SAVECTX,
        Isa::Gfx1201 => gfx1201::excp::SAVE_CONTEXT,
    }
}

impl Wave {
    /// Returns whether the wave enters the trap handler to save its context.
    pub(crate) fn wants_save(&self) -> bool {
        self.trapsts & save_context(self.isa) != 0 && !self.privileged && !self.state.is_over()
    }

    /// Requests that the wave saves its context.
    pub(crate) fn request_save(&mut self) {
        self.trapsts |= save_context(self.isa);
    }

    /// Enters the trap handler to save the context. A wave at a barrier executes the instruction
    /// again when it is restored, as does one whose wait for GWS was cancelled.
    pub(crate) fn enter_to_save(&mut self, handler: Trap, host: &dyn Host) {
        let rewind = match self.state {
            State::Barrier | State::Signals(_) => 4,
            State::Gws(ticket) if host.cancel_gws(ticket) => 8,
            _ => 0,
        };
        self.pc = self.pc.wrapping_sub(rewind);
        self.state = State::Ready;
        self.privileged = true;
        self.set_s64(code::TTMP0, self.pc & PC_MASK);
        self.pc = handler.tba;
    }

    /// Starts the wave as a debugger demands.
    pub(crate) fn start_as(&mut self, start: &WaveStart) {
        let (exceptions, all) = match self.isa {
            Isa::Gfx942 => (&mut self.mode, mode::EXCP_EN),
            Isa::Gfx1201 => (&mut self.trap_ctrl, 0xff),
        };
        if start.replace {
            *exceptions &= !all;
        }
        *exceptions |= start.exceptions << all.trailing_zeros() & all;
        if start.single_step {
            match self.isa {
                Isa::Gfx942 => self.mode |= mode::DEBUG_EN,
                Isa::Gfx1201 => self.trap_ctrl |= gfx1201::ctrl::TRAP_AFTER_INST,
            }
        }
        if start.trap_on_start {
            self.trapsts |= match self.isa {
                Isa::Gfx942 => trapsts::WAVE_START,
                Isa::Gfx1201 => gfx1201::excp::WAVE_START,
            };
            self.raised = true;
        }
        if start.ecc_error && self.isa == Isa::Gfx942 {
            self.status |= status::ECC_ERR;
        }
        if start.halted {
            self.halt = true;
            self.state = State::Halted;
        }
    }

    /// Sets the watchpoints that an access has hit, and traps after the instruction if enabled.
    pub(crate) fn watched(&mut self, hits: u32) {
        if hits == 0 || self.privileged {
            return;
        }
        let (flags, enabled) = match self.isa {
            Isa::Gfx942 => {
                let others = hits >> 1 << trapsts::ADDR_WATCH1_SHIFT;
                let first = (hits & 1) * trapsts::ADDR_WATCH0;
                (others | first, self.mode >> mode::EXCP_EN_SHIFT)
            }
            Isa::Gfx1201 => (hits & gfx1201::excp::ADDR_WATCH, self.trap_ctrl),
        };
        self.trapsts |= flags;
        self.raised |= enabled >> ADDR_WATCH & 1 != 0;
    }

    /// Returns whether a trap follows each instruction. Only the trap handler changes it.
    pub(crate) fn is_single_step(&self) -> bool {
        match self.isa {
            Isa::Gfx942 => self.mode & mode::DEBUG_EN != 0,
            Isa::Gfx1201 => self.trap_ctrl & gfx1201::ctrl::TRAP_AFTER_INST != 0,
        }
    }

    /// Ends an instruction in single-step mode.
    pub(crate) fn step_over(&mut self) {
        if !self.state.is_over() {
            self.trapsts |= match self.isa {
                Isa::Gfx942 => trapsts::TRAP_AFTER_INST,
                Isa::Gfx1201 => gfx1201::excp::TRAP_AFTER_INST,
            };
            self.raised = true;
        }
    }

    /// Enters the trap handler for an exception that was raised between instructions.
    pub(crate) fn enter_raised(&mut self, handler: Trap, host: &dyn Host) {
        host.trapped(&self.place(), "exception");
        self.raised = false;
        self.privileged = true;
        self.set_s64(code::TTMP0, self.pc & PC_MASK);
        self.pc = handler.tba;
    }

    /// Initialises the trap temporaries of gfx942: workgroup id in ttmp8 to ttmp10, index of the
    /// wave in ttmp11.
    pub(crate) fn describe_to_handler(&mut self) {
        let ttmp = usize::from(code::TTMP0);
        self.s[ttmp..ttmp + 16].fill(0);
        self.s[ttmp + 8..ttmp + 11].copy_from_slice(&self.workgroup);
        self.s[ttmp + 11] = self.index & 0x3f;
    }

    /// Initialises the trap temporaries of gfx1201: workgroup id in ttmp9 and ttmp7, index of the
    /// wave in ttmp8.
    pub(crate) fn describe_workgroup(&mut self, three: bool) {
        let ttmp = usize::from(code::TTMP0);
        let [x, y, z] = self.workgroup;
        self.s[ttmp..ttmp + 16].fill(0);
        self.s[ttmp + 7] = if three { y & 0xffff | z << 16 } else { y };
        self.s[ttmp + 8] = (self.index & 0x1f) << 25;
        self.s[ttmp + 9] = x;
    }

    /// Returns STATE_PRIV of gfx1201 for `s_getreg`, without the barrier bit.
    pub(crate) fn state_priv(&self, scratch: bool) -> u32 {
        use gfx1201::state;
        let bit = |on: bool, mask: u32| if on { mask } else { 0 };
        bit(self.scc, state::SCC)
            | u32::from(self.priority) << state::USER_PRIO_SHIFT
            | bit(self.halt, state::HALT)
            | bit(scratch, state::SCRATCH_EN)
            | self.status
    }

    /// `s_setreg` of the bits `mask` of STATE_PRIV. Read-only bits are preserved.
    pub(crate) fn set_state_priv(&mut self, mask: u32, value: u32) {
        use gfx1201::state;
        if mask & state::SCC != 0 {
            self.scc = value & state::SCC != 0;
        }
        if mask & state::HALT != 0 {
            self.halt = value & state::HALT != 0;
        }
        let prio = 3 << state::USER_PRIO_SHIFT;
        if mask & prio == prio {
            self.priority = (value >> state::USER_PRIO_SHIFT & 3) as u8;
        }
        let kept = mask & state::KEPT;
        self.status = self.status & !kept | value & kept;
    }

    /// Returns STATUS for `s_getreg`.
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

    /// `s_setreg` of the bits `mask` of STATUS. Read-only bits are preserved. ECC_ERR can only be
    /// cleared: the wave stops for good if it is set.
    pub(crate) fn set_status(&mut self, mask: u32, value: u32) -> Step {
        if mask & value & status::ECC_ERR != 0 {
            return violation("s_setreg sets STATUS.ECC_ERR");
        }
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
        let kept = mask & (status::KEPT | status::ECC_ERR);
        self.status = self.status & !kept | value & kept;
        Ok(())
    }

    /// Returns whether scalar stores of the wave are dropped.
    pub(crate) fn has_ecc_error(&self) -> bool {
        self.isa == Isa::Gfx942 && self.status & status::ECC_ERR != 0
    }

    /// Enters the trap handler, with the program counter at the instruction that did not complete.
    /// Returns the reason if it does not trap.
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
        let (illegal, memory) = match self.isa {
            Isa::Gfx942 => (trapsts::ILLEGAL_INST, trapsts::MEM_VIOL),
            Isa::Gfx1201 => (gfx1201::excp::ILLEGAL_INST, gfx1201::excp::MEMVIOL),
        };
        let (cause, id, why) = match &halt {
            Halt::Trap(id) => (0, *id, format!("s_trap {id}")),
            Halt::Illegal(text) | Halt::Violation(text) => (illegal, 0, text.clone()),
            Halt::Address(text) => (memory, 0, text.clone()),
            Halt::Fault { fault, .. } if fault.kind == FaultKind::Misaligned => {
                (memory, 0, fault.to_string())
            }
            Halt::Fault { .. } | Halt::Message(_) => return Err(halt),
        };
        host.trapped(at, &why);
        self.trapsts |= cause;
        self.privileged = true;
        let saved = self.pc & PC_MASK | trap_id(self.isa, id);
        self.set_s64(code::TTMP0, saved);
        self.pc = handler.tba;
        Ok(())
    }

    /// `s_rfe_b64`: leaves the trap handler.
    pub(crate) fn return_from_trap(&mut self, pc: u64) -> Step {
        if !self.privileged {
            return violation("s_rfe outside a trap handler");
        }
        self.privileged = false;
        self.pc = pc & PC_MASK;
        // Instructions after the return need the unprivileged decoder.
        self.state = if self.halt {
            State::Halted
        } else {
            State::Yield
        };
        Ok(())
    }
}
