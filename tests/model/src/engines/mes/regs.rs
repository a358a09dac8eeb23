// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of MES: halt and reset of its two pipes, registers banked by pipe, doorbells of
//! unmapped queues. The rings' own registers are HQDs and belong to the command processor.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use gpu_regs::{gc_12_0_0 as gc, Reg};
use rkfd_abi::mes;

use crate::log::Strict;
use crate::regs::{Decl, Ip, RegId, Selector, Unit};
use crate::strict;

/// Registers banked by pipe.
const BANKED: &[Reg] = &[
    gc::regCP_MES_PRGRM_CNTR_START,
    gc::regCP_MES_PRGRM_CNTR_START_HI,
    gc::regCP_MES_HEADER_DUMP,
    gc::regCP_MES_INSTR_PNTR,
    gc::regCP_MES_MSCRATCH_HI,
    gc::regCP_MES_MSCRATCH_LO,
    gc::regCP_MES_IC_OP_CNTL,
    gc::regCP_MES_GP3_LO,
    gc::regCP_MES_GP3_HI,
    gc::regCP_MES_IC_BASE_LO,
    gc::regCP_MES_IC_BASE_HI,
    gc::regCP_MES_IC_BASE_CNTL,
    gc::regCP_MES_MDBASE_LO,
    gc::regCP_MES_MDBASE_HI,
    gc::regCP_MES_MIBOUND_LO,
    gc::regCP_MES_MDBOUND_LO,
];

/// Registers that exist once.
const ONCE: &[Reg] = &[
    gc::regCP_MES_CNTL,
    gc::regCP_UNMAPPED_DOORBELL,
    gc::regCP_MES_DOORBELL_CONTROL1,
    gc::regCP_MES_DOORBELL_CONTROL2,
    gc::regCP_MES_DOORBELL_CONTROL3,
    gc::regCP_MES_DOORBELL_CONTROL4,
    gc::regCP_MES_DOORBELL_CONTROL5,
];

/// Lowest bit of the process part of a doorbell address: bit 13, since KFD allocates two pages per
/// process.
const PROC_LSB: u32 = 13;

/// Returns the registers of this unit.
pub fn registers() -> Vec<Decl> {
    let decl = |reg: &Reg| Decl::new(reg.name, Ip::Gc, (*reg).into()).unit(Unit::Mes);
    BANKED.iter().chain(ONCE).map(decl).collect()
}

#[derive(Default)]
struct State {
    once: HashMap<RegId, u32>,
    banked: [HashMap<RegId, u32>; mes::PIPES],
    resets: [u64; mes::PIPES],
    /// Pipes whose firmware is not loaded.
    missing: [bool; mes::PIPES],
    /// Versions of the firmware that the PSP has loaded.
    versions: [Option<u32>; mes::PIPES],
}

/// Registers of both pipes.
pub struct Pipes {
    state: Mutex<State>,
}

impl Default for Pipes {
    fn default() -> Self {
        Self {
            state: Mutex::new(State::power_on()),
        }
    }
}

impl State {
    fn power_on() -> Self {
        let mut state = Self::default();
        // Firmware is loaded and halted.
        let halt = gc::CP_MES_CNTL__MES_HALT.mask;
        state.once.insert(gc::regCP_MES_CNTL.into(), halt);
        state
    }

    fn get(&self, reg: Reg) -> u32 {
        self.once.get(&reg.into()).copied().unwrap_or(0)
    }

    fn runs(&self, pipe: u32) -> bool {
        let cntl = self.get(gc::regCP_MES_CNTL);
        let active = [
            gc::CP_MES_CNTL__MES_PIPE0_ACTIVE,
            gc::CP_MES_CNTL__MES_PIPE1_ACTIVE,
        ];
        let reset = [
            gc::CP_MES_CNTL__MES_PIPE0_RESET,
            gc::CP_MES_CNTL__MES_PIPE1_RESET,
        ];
        let pipe = pipe as usize % mes::PIPES;
        active[pipe].is_set(cntl)
            && !self.missing[pipe]
            && !reset[pipe].is_set(cntl)
            && !gc::CP_MES_CNTL__MES_HALT.is_set(cntl)
    }
}

impl Pipes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Resets to power-on state.
    pub fn reset(&self) {
        let mut state = self.lock();
        let resets = state.resets.map(|n| n + 1);
        *state = State::power_on();
        state.resets = resets;
    }

    /// Returns whether a pipe runs.
    pub fn runs(&self, pipe: u32) -> bool {
        self.lock().runs(pipe)
    }

    /// Sets whether the firmware of each pipe is missing, without which it does not run.
    pub fn set_missing(&self, missing: [bool; mes::PIPES]) {
        self.lock().missing = missing;
    }

    /// Sets the version of the firmware of a pipe.
    pub fn set_version(&self, pipe: u8, version: u32) {
        self.lock().versions[usize::from(pipe) % mes::PIPES] = Some(version);
    }

    /// Returns how often a pipe was reset or halted.
    pub fn resets(&self, pipe: u32) -> u64 {
        self.lock().resets[pipe as usize % mes::PIPES]
    }

    /// Returns whether doorbells of unmapped queues reach the firmware.
    pub fn unmapped_doorbells_enabled(&self, strict: &Strict) -> bool {
        let value = self.lock().get(gc::regCP_UNMAPPED_DOORBELL);
        if !gc::CP_UNMAPPED_DOORBELL__ENABLE.is_set(value) {
            return false;
        }
        let lsb = gc::CP_UNMAPPED_DOORBELL__PROC_LSB.get(value);
        if lsb != PROC_LSB {
            strict!(
                strict,
                "mes",
                "CP_UNMAPPED_DOORBELL.PROC_LSB is {lsb}: queues of different processes are not distinguished"
            );
        }
        true
    }

    /// Returns the aggregated doorbell of a priority level.
    pub fn aggregated(&self, level: usize) -> Option<u32> {
        let value = self
            .lock()
            .get(gc::regCP_MES_DOORBELL_CONTROL1.at(level as u32));
        gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_EN
            .is_set(value)
            .then(|| gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_OFFSET.get(value))
    }

    fn bank(strict: &Strict, sel: Selector, reg: RegId) -> Option<usize> {
        if !BANKED.iter().any(|r| RegId::from(*r) == reg) {
            return None;
        }
        if u32::from(sel.me) != mes::ME || usize::from(sel.pipe) >= mes::PIPES {
            strict!(
                strict,
                "mes",
                "access to {reg:x?} while GRBM_GFX_CNTL selects no pipe of MES ({sel:?})"
            );
            return Some(0);
        }
        Some(sel.pipe.into())
    }

    /// Handles a register read.
    pub fn reg_read(&self, strict: &Strict, sel: Selector, reg: RegId) -> u32 {
        let bank = Self::bank(strict, sel, reg);
        let state = self.lock();
        let Some(bank) = bank else {
            return state.once.get(&reg).copied().unwrap_or(0);
        };
        if reg == gc::regCP_MES_GP3_LO.into() {
            let version = state.versions[bank].map_or(super::VERSION, |loaded| {
                super::VERSION & !mes::VERSION.mask | loaded & mes::VERSION.mask
            });
            return if state.runs(bank as u32) { version } else { 0 };
        }
        state.banked[bank].get(&reg).copied().unwrap_or(0)
    }

    /// Handles a register write.
    pub fn reg_write(&self, strict: &Strict, sel: Selector, reg: RegId, value: u32) {
        let bank = Self::bank(strict, sel, reg);
        let mut state = self.lock();
        if let Some(bank) = bank {
            state.banked[bank].insert(reg, value);
            return;
        }
        let ran = [0, 1].map(|n| state.runs(n));
        state.once.insert(reg, value);
        let active = gc::CP_MES_CNTL__MES_PIPE0_ACTIVE.shift;
        let halted = gc::CP_MES_CNTL__MES_HALT.is_set(value);
        for n in (0..mes::PIPES).filter(|n| value >> (active + *n as u8) & 1 != 0) {
            if reg == gc::regCP_MES_CNTL.into() && state.missing[n] && !halted {
                strict!(
                    strict,
                    "mes",
                    "CP_MES_CNTL {value:#x} starts pipe {n}, whose firmware is not loaded"
                );
            }
        }
        for (n, ran) in ran.into_iter().enumerate() {
            if ran && !state.runs(n as u32) {
                state.resets[n] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sel(pipe: u8) -> Selector {
        Selector {
            me: 3,
            pipe,
            ..Selector::default()
        }
    }

    #[test]
    fn pipes_start_stop_and_report_version() {
        let pipes = Pipes::default();
        let strict = Strict::quiet();
        let gp3 = gc::regCP_MES_GP3_LO.into();
        let cntl = gc::regCP_MES_CNTL.into();
        assert!(!pipes.runs(0) && !pipes.runs(1));
        assert_eq!(pipes.reg_read(&strict, sel(0), gp3), 0);
        let active = gc::CP_MES_CNTL__MES_PIPE0_ACTIVE.mask;
        pipes.reg_write(&strict, sel(0), cntl, active);
        assert!(pipes.runs(0) && !pipes.runs(1));
        assert_eq!(pipes.reg_read(&strict, sel(0), gp3), super::super::VERSION);
        assert_eq!(pipes.reg_read(&strict, sel(1), gp3), 0);
        assert_eq!(pipes.resets(0), 0);
        pipes.reg_write(&strict, sel(0), cntl, gc::CP_MES_CNTL__MES_HALT.mask);
        assert_eq!((pipes.resets(0), pipes.resets(1)), (1, 0));
        assert_eq!(strict.unexpected(), 0);
        pipes.reg_read(&strict, Selector::default(), gp3);
        assert_eq!(strict.unexpected(), 1);
    }

    #[test]
    fn banks_are_separate() {
        let pipes = Pipes::default();
        let strict = Strict::quiet();
        let reg = gc::regCP_MES_MSCRATCH_LO.into();
        pipes.reg_write(&strict, sel(0), reg, 5);
        pipes.reg_write(&strict, sel(1), reg, 6);
        assert_eq!(pipes.reg_read(&strict, sel(0), reg), 5);
        assert_eq!(pipes.reg_read(&strict, sel(1), reg), 6);
    }
}
