// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Rules of gfx1201.
//!
//! * A vector instruction reads a pair of SGPRs. If afterwards an instruction writes a register of
//!   the pair, `s_wait_alu` must wait for the write (a scalar one by SA_SDST, a vector one by
//!   VA_SDST or VA_VCC) before it is read: by a vector instruction, or by a scalar one if a scalar
//!   one wrote it. Eight `ds_nop` (four for wave32) end the memory of reads, a scalar load that of
//!   writes. Trap temporaries and VCC are SGPRs, M0 and EXEC are not. The program may have read all
//!   of them, and no write may be left at a jump out of the handler. A restored wave is new.
//! * SCHED_MODE of the program may be one in which hardware waits for less: the handler saves it
//!   and sets mode 0, after it has waited for all ALUs, before it writes a register. It does not
//!   write any after it has set the program's mode, for which it has waited again.
//! * Stores are complete at the end of a saved wave, and accesses to LDS at a barrier of the
//!   handler.

use super::{is_foreign, name, registers, Code, State, M0, VCC};
use crate::gfx12::handler;
use gpu_wave::probe::{Effects, Unit};
use gpu_wave::Isa;

const SCHED_MODE: i32 = 26;

/// Operand code of -2, the barrier of trap handlers.
const TRAP_BARRIER: i32 = 0xc2;

/// Fields of `s_wait_alu`.
const SA_SDST: i32 = 1;
const VA_VCC: i32 = 1 << 1;
const VA_SDST: i32 = 7 << 9;
/// All: VM_VSRC, HOLD_CNT, VA_SSRC and VA_VDST as well.
const ALUS: i32 = SA_SDST | VA_VCC | VA_SDST | 7 << 2 | 1 << 7 | 1 << 8 | 15 << 12;

/// Number of `ds_nop` in a row that is enough for wave64.
const NOPS: u8 = 8;

#[derive(Clone, PartialEq)]
struct Wave {
    /// Pairs of registers that a vector instruction has read, one bit for each register.
    read: u128,
    /// Registers of them that were written by the scalar ALU.
    scalar: u128,
    /// Registers of them that were written by the vector ALU.
    vector: u128,
    /// `ds_nop` in a row.
    nops: u8,
    /// SCHED_MODE may be the program's.
    relaxed: bool,
    /// SCHED_MODE may be the handler's.
    normal: bool,
    /// The program's mode may not have been read.
    unsaved: bool,
    /// An ALU may not be done.
    busy: bool,
    /// Stores may be in flight.
    stores: bool,
    /// Accesses to LDS may be in flight.
    lds: bool,
}

/// At the entry for traps: the program may have done anything.
const TRAP: Wave = Wave {
    read: u128::MAX,
    scalar: u128::MAX,
    vector: u128::MAX,
    nops: 0,
    relaxed: true,
    normal: false,
    unsaved: true,
    busy: true,
    stores: true,
    lds: true,
};

/// At the entry for the restore: a new wave.
const RESTORE: Wave = Wave {
    read: 0,
    scalar: 0,
    vector: 0,
    nops: 0,
    relaxed: false,
    normal: true,
    unsaved: false,
    busy: false,
    stores: false,
    lds: false,
};

const VCCS: u128 = 3 << VCC;

/// Returns the pair of a register.
fn pair(register: u8) -> u128 {
    3 << (register & !1)
}

/// Returns the SGPRs of ranges.
fn sgprs(ranges: &[std::ops::Range<u8>]) -> impl Iterator<Item = u8> + '_ {
    registers(ranges).filter(|&n| n < M0)
}

impl Wave {
    /// Returns the registers that need a wait before this instruction.
    fn unready(&self, i: &Effects) -> Vec<String> {
        let writes = match i.unit {
            Unit::Vector => self.scalar | self.vector,
            Unit::Scalar => self.scalar,
            _ => 0,
        };
        let found = sgprs(&i.reads).filter(|&n| self.read & writes & 1 << n != 0);
        found
            .map(|n| format!("{} needs s_wait_alu", name(n)))
            .collect()
    }

    fn wait_alu(&mut self, mask: i32) {
        if mask & SA_SDST == 0 {
            self.scalar = 0;
        }
        if mask & VA_SDST == 0 {
            self.vector &= VCCS;
        }
        if mask & VA_VCC == 0 {
            self.vector &= !VCCS;
        }
        if mask & ALUS == 0 {
            self.busy = false;
        }
    }

    /// Notes the reads and writes of an ALU.
    fn note(&mut self, i: &Effects) {
        for n in sgprs(&i.reads) {
            match i.unit {
                Unit::Vector => self.read |= pair(n),
                // The scalar ALU waits for the vector ALU.
                _ if VCCS & 1 << n != 0 => self.vector &= !VCCS,
                _ => self.vector &= VCCS,
            }
        }
        for n in sgprs(&i.writes).filter(|&n| self.read & 1 << n != 0) {
            let (to, other) = match i.unit {
                Unit::Vector => (&mut self.vector, &mut self.scalar),
                _ => (&mut self.scalar, &mut self.vector),
            };
            *to |= 1 << n;
            if VCCS & 1 << n != 0 {
                *other &= !VCCS;
            }
        }
    }

    /// Reads or sets SCHED_MODE.
    fn mode(&mut self, i: &Effects, found: &mut Vec<String>) {
        match i.name.as_str() {
            "s_getreg_b32" => self.unsaved = false,
            "s_setreg_imm32_b32" => {
                if self.unsaved {
                    found.push("the program's SCHED_MODE is lost".into());
                }
                if i.literal != 0 {
                    found.push("not the normal SCHED_MODE".into());
                }
                (self.relaxed, self.normal) = (false, true);
            }
            _ => (self.relaxed, self.normal) = (true, false),
        }
        if self.busy && i.name != "s_getreg_b32" {
            found.push("SCHED_MODE changes while an ALU is busy".into());
        }
    }
}

impl State for Wave {
    fn merge(&mut self, other: &Self) {
        self.read |= other.read;
        self.scalar |= other.scalar;
        self.vector |= other.vector;
        self.nops = self.nops.min(other.nops);
        self.relaxed |= other.relaxed;
        self.normal |= other.normal;
        self.unsaved |= other.unsaved;
        self.busy |= other.busy;
        self.stores |= other.stores;
        self.lds |= other.lds;
    }

    fn step(&mut self, i: &Effects) -> Vec<String> {
        let mut found = self.unready(i);
        let mut fail = |what: &str| found.push(what.into());
        if is_foreign(i) {
            fail("no rules for this instruction");
        }
        if i.name == "ds_nop" {
            self.nops = (self.nops + 1).min(NOPS);
            if self.nops == NOPS {
                self.read = 0;
            }
            return found;
        }
        self.nops = 0;
        self.stores |= i.store;
        self.lds |= i.unit == Unit::Lds;

        let register = i.name.contains("etreg").then_some(i.imm & 0x3f);
        let writes = !i.writes.is_empty() && !i.writes.iter().all(|range| range.is_empty());
        let writes = writes || i.unit != Unit::Scalar;
        let leaves = matches!(i.name.as_str(), "s_rfe_b64" | "s_setpc_b64");
        if self.relaxed && writes && register != Some(SCHED_MODE) {
            fail("in the program's SCHED_MODE");
        }
        if leaves && (self.scalar | self.vector) != 0 {
            fail("jumps with writes that need s_wait_alu");
        }
        match i.name.as_str() {
            "s_rfe_b64" if self.normal => fail("the program's SCHED_MODE is not set"),
            "s_endpgm_saved" if self.stores => fail("stores in flight"),
            "s_barrier_signal" if i.imm == TRAP_BARRIER && self.lds => {
                fail("accesses to LDS in flight")
            }
            _ => {}
        }
        if register == Some(SCHED_MODE) {
            self.mode(i, &mut found);
        }
        self.busy |= writes;

        let zero = i.imm & 0x3f == 0;
        match i.name.as_str() {
            "s_wait_alu" => self.wait_alu(i.imm),
            "s_wait_idle" => (self.stores, self.lds) = (false, false),
            "s_wait_storecnt" if zero => self.stores = false,
            "s_wait_dscnt" | "s_wait_loadcnt_dscnt" | "s_wait_storecnt_dscnt" if zero => {
                self.lds = false;
            }
            _ => {}
        }
        match i.unit {
            Unit::ScalarMemory => (self.scalar, self.vector) = (0, 0),
            Unit::Scalar | Unit::Vector => self.note(i),
            Unit::VectorMemory | Unit::Lds => {}
        }
        found
    }
}

#[test]
fn handler_of_gfx12_has_no_hazards() {
    let code = Code::new(Isa::Gfx1201, handler());
    let names = ["s_wait_alu", "ds_nop", "s_nop"];
    code.check_all([TRAP, RESTORE], &names);
}

#[test]
fn scheduling_mode_of_the_program_is_kept() {
    let code = Code::new(Isa::Gfx1201, handler());
    let modes = code.0.iter();
    let of_mode = |i: &Effects| i.name.contains("etreg") && i.imm & 0x3f == SCHED_MODE;
    let modes: Vec<usize> = modes
        .filter(|(_, i)| of_mode(i))
        .map(|(&at, _)| at)
        .collect();
    // Read and cleared at the entry, and set at two ends.
    assert_eq!(modes.len(), 4);
    for at in modes {
        let found = code.check([TRAP, RESTORE], Some(at));
        assert!(!found.is_empty(), "{:#x} is superfluous", at * 4);
    }
}
