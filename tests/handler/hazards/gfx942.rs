// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Rules of gfx942: the number of wait states, of other instructions or `s_nop`, from an
//! instruction to one that depends on it. And at the end of a saved wave stores are complete, those
//! of scalar memory written back by `s_dcache_wb`; at a barrier accesses to LDS are complete.

use std::collections::BTreeMap;

use super::{is_foreign, name, registers, Code, State, EXEC, M0};
use crate::module;
use gpu_wave::probe::{Effects, Unit};
use gpu_wave::Isa;

/// What later instructions may depend on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The vector ALU wrote a scalar register.
    Scalar(u8),
    /// The vector ALU wrote a vector register.
    Vector(u16),
    /// The scalar ALU wrote M0.
    M0,
    /// `s_setreg`.
    Hwreg(u8),
    /// The program started a matrix instruction.
    Matrix,
}

/// Hardware registers.
const MODE: u8 = 1;
const STATUS: u8 = 2;
const TRAPSTS: u8 = 3;

/// Wait states from a matrix instruction of 16 passes to a read of its result: the most of all.
const MATRIX: u8 = 19;

#[derive(Clone, PartialEq)]
struct Wave {
    /// Wait states since the events of the last [`MATRIX`].
    since: BTreeMap<Event, u8>,
    /// Accesses to vector memory may be in flight.
    memory: bool,
    /// Accesses to LDS or scalar memory, or a write back, may be in flight.
    others: bool,
    /// The scalar cache may have data of stores.
    dirty: bool,
    /// Accesses to LDS may be in flight.
    lds: bool,
    /// Loads to LDS may be in flight.
    loads_lds: bool,
}

impl Wave {
    /// Returns the state at the entry for the restore: a new wave.
    fn new() -> Self {
        Self {
            since: BTreeMap::new(),
            memory: false,
            others: false,
            dirty: false,
            lds: false,
            loads_lds: false,
        }
    }

    /// Returns the state at the entry for traps: the program may just have done anything, but not
    /// have written STATUS. Its accesses to LDS are complete, as the C driver's handler assumes.
    fn trapped() -> Self {
        let scalars = (0..super::END).map(Event::Scalar);
        let hwregs = (0..64).filter(|&n| n != STATUS).map(Event::Hwreg);
        let events = scalars.chain(hwregs).chain([Event::M0, Event::Matrix]);
        Self {
            since: events.map(|event| (event, 0)).collect(),
            memory: true,
            others: true,
            dirty: true,
            ..Self::new()
        }
    }

    /// Advances by wait states.
    fn pass(&mut self, states: u8) {
        self.since.retain(|_, since| {
            *since = since.saturating_add(states);
            *since < MATRIX
        });
    }

    fn end(&mut self, i: &Effects, found: &mut Vec<String>) {
        let mut fail = |what: &str| found.push(what.into());
        if i.name == "s_endpgm_saved" {
            if self.memory {
                fail("accesses to vector memory in flight");
            }
            if self.dirty {
                fail("stores in the scalar cache");
            }
            if self.others {
                fail("accesses to scalar memory in flight");
            }
        }
        if i.name == "s_barrier" && (self.lds || self.loads_lds) {
            fail("accesses to LDS in flight");
        }
        let imm = i.imm as u16;
        if i.name == "s_waitcnt" && imm & 0xc00f == 0 {
            (self.memory, self.loads_lds) = (false, false);
        }
        if i.name == "s_waitcnt" && imm & 0xf00 == 0 {
            (self.others, self.lds) = (false, false);
        }
        self.memory |= i.unit == Unit::VectorMemory;
        self.others |= matches!(i.unit, Unit::ScalarMemory | Unit::Lds);
        self.lds |= i.unit == Unit::Lds;
        self.loads_lds |= i.loads_lds;
        self.dirty |= i.unit == Unit::ScalarMemory && i.store;
        if i.name == "s_dcache_wb" {
            self.dirty = false;
        }
    }
}

/// Returns the hardware register of `s_getreg` or `s_setreg`.
fn hwreg(i: &Effects) -> Option<u8> {
    i.name.contains("etreg").then_some(i.imm as u8 & 0x3f)
}

/// Returns what an instruction depends on, and how many wait states it needs since then.
fn needs(i: &Effects) -> Vec<(Event, u8)> {
    let mut needs = Vec::new();
    let of_lanes = i.name.starts_with("v_read") || i.name.starts_with("v_writelane");
    let states = match i.unit {
        Unit::VectorMemory => 5,
        // That of the lane select is the largest.
        Unit::Vector if of_lanes => 4,
        Unit::Vector => 2,
        _ => 0,
    };
    needs.extend(registers(&i.reads).map(|n| (Event::Scalar(n), states)));
    if of_lanes {
        let vectors = i.vector_reads.iter().cloned().flatten();
        needs.extend(vectors.map(|n| (Event::Vector(n), 1)));
        needs.extend([EXEC, EXEC + 1].map(|n| (Event::Scalar(n), 4)));
    }
    if matches!(i.unit, Unit::Vector | Unit::VectorMemory | Unit::Lds) {
        // MODE.VSKIP.
        needs.extend([(Event::Matrix, MATRIX), (Event::Hwreg(MODE), 2)]);
    }
    let names = ["s_movrel", "s_sendmsg", "s_ttracedata", "ds_gws"];
    if i.loads_lds || names.iter().any(|name| i.name.starts_with(name)) {
        needs.push((Event::M0, 1));
    }
    needs.extend(hwreg(i).map(|n| (Event::Hwreg(n), 2)));
    if i.name == "s_rfe_b64" {
        needs.push((Event::Hwreg(TRAPSTS), 1));
    }
    needs
}

/// Returns the events of an instruction.
fn events(i: &Effects) -> Vec<Event> {
    let mut events = Vec::new();
    match i.unit {
        Unit::Vector => {
            events.extend(registers(&i.writes).map(Event::Scalar));
            let vectors = i.vector_writes.iter().cloned().flatten();
            events.extend(vectors.map(Event::Vector));
        }
        Unit::Scalar if registers(&i.writes).any(|n| n == M0) => events.push(Event::M0),
        _ => {}
    }
    if i.name.starts_with("s_setreg") {
        events.extend(hwreg(i).map(Event::Hwreg));
    }
    if i.name == "s_setvskip" {
        events.push(Event::Hwreg(MODE));
    }
    events
}

impl Event {
    fn name(self) -> String {
        match self {
            Self::Scalar(n) => format!("vector ALU's write of {}", name(n)),
            Self::Vector(n) => format!("write of v{n}"),
            Self::M0 => "write of m0".into(),
            Self::Hwreg(n) => format!("s_setreg of {n}"),
            Self::Matrix => "matrix instruction".into(),
        }
    }
}

impl State for Wave {
    fn merge(&mut self, other: &Self) {
        for (&event, &states) in &other.since {
            let since = self.since.entry(event).or_insert(states);
            *since = states.min(*since);
        }
        self.memory |= other.memory;
        self.others |= other.others;
        self.dirty |= other.dirty;
        self.lds |= other.lds;
        self.loads_lds |= other.loads_lds;
    }

    fn step(&mut self, i: &Effects) -> Vec<String> {
        let mut found = Vec::new();
        if is_foreign(i) {
            found.push("no rules for this instruction".into());
        }
        for (event, states) in needs(i) {
            let since = self.since.get(&event).copied().unwrap_or(MATRIX);
            if since < states {
                let what = event.name();
                found.push(format!("{since} of {states} wait states since {what}"));
            }
        }
        self.end(i, &mut found);
        self.pass(match i.name.as_str() {
            "s_nop" => i.imm as u8 + 1,
            _ => 1,
        });
        self.since.extend(events(i).into_iter().map(|e| (e, 0)));
        found
    }
}

#[test]
fn handler_of_gfx942_has_no_hazards() {
    let mut code = Code::new(Isa::Gfx942, &module::FIRST_LEVEL);
    let entries = [Wave::trapped(), Wave::new()];
    code.check_all(entries.clone(), &["s_nop"]);
    // Nor does one wait longer than it must.
    let longer = code
        .0
        .iter()
        .filter(|(_, i)| i.name == "s_nop" && i.imm > 0);
    for at in longer.map(|(&at, _)| at).collect::<Vec<_>>() {
        let wait = |code: &mut Code, more| code.0.get_mut(&at).unwrap().imm += more;
        wait(&mut code, -1);
        let found = code.check(entries.clone(), None);
        assert!(!found.is_empty(), "{:#x} is too long", at * 4);
        wait(&mut code, 1);
    }
}
