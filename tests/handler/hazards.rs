// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hazards of the module's trap handlers: what the hardware leaves to the program, and the
//! interpreter does not model. All paths from the two entries are followed until nothing changes.
//!
//! Rules: [`gfx942`] and [`gfx12`]; those of AMD's compiler (`GCNHazardRecognizer.cpp` and
//! `AMDGPUWaitSGPRHazards.cpp` in LLVM), of the ISA manuals, and of the end of a wave. A wait
//! without which no rule is violated is superfluous.

mod gfx12;
mod gfx942;

use std::collections::{BTreeMap, BTreeSet};

use gpu_wave::probe::{effects, Effects, Unit};
use gpu_wave::Isa;

/// Registers, by the numbers of [`Effects`].
const VCC: u8 = 106;
const M0: u8 = 124;
const EXEC: u8 = 126;
/// First number that is no scalar register.
const END: u8 = 128;

/// What is known of the wave before an instruction.
trait State: Clone + PartialEq {
    /// Adds what is possible on another path.
    fn merge(&mut self, other: &Self);

    /// Executes an instruction; returns what it violates.
    fn step(&mut self, i: &Effects) -> Vec<String>;
}

/// Code of a handler, by the index of its words.
struct Code(BTreeMap<usize, Effects>);

impl Code {
    fn new(isa: Isa, words: &[u32]) -> Self {
        let mut code = BTreeMap::new();
        let mut at = 0;
        while at < words.len() {
            let word = |n| words.get(at + n).copied().unwrap_or(0);
            let found = effects(isa, [word(0), word(1), word(2)]);
            let i = found.unwrap_or_else(|| panic!("{:#x}: no instruction", at * 4));
            let next = at + i.words;
            code.insert(at, i);
            at = next;
        }
        Self(code)
    }

    /// Returns where the wave may be after an instruction.
    fn after(&self, at: usize) -> Vec<usize> {
        let i = &self.0[&at];
        let next = at + i.words;
        let target = next.wrapping_add_signed(i.imm as isize);
        match i.name.as_str() {
            "s_branch" | "s_call_b64" => vec![target],
            name if name.starts_with("s_cbranch") => vec![next, target],
            "s_endpgm" | "s_endpgm_saved" | "s_rfe_b64" => Vec::new(),
            // Behind the calls that use the register, or to the second level.
            "s_setpc_b64" => {
                let calls = self.0.iter().filter(|(_, call)| call.name == "s_call_b64");
                let from = calls.filter(|(_, call)| call.writes == i.reads);
                from.map(|(at, call)| at + call.words).collect()
            }
            _ => vec![next],
        }
    }

    /// Returns the violations from the entries on, with one of the instructions left out.
    fn check<S: State>(&self, entries: [S; 2], without: Option<usize>) -> BTreeSet<String> {
        let mut states: BTreeMap<usize, S> = (0..).zip(entries).collect();
        let mut todo: BTreeSet<usize> = states.keys().copied().collect();
        while let Some(at) = todo.pop_first() {
            let mut state = states[&at].clone();
            if without != Some(at) {
                state.step(&self.0[&at]);
            }
            for next in self.after(at) {
                assert!(self.0.contains_key(&next), "{:#x}: leaves the code", at * 4);
                let Some(known) = states.get_mut(&next) else {
                    states.insert(next, state.clone());
                    todo.insert(next);
                    continue;
                };
                let mut merged = known.clone();
                merged.merge(&state);
                if merged != *known {
                    *known = merged;
                    todo.insert(next);
                }
            }
        }
        let unreached = self.0.keys().find(|at| !states.contains_key(at));
        assert_eq!(unreached, None, "never executed");
        let kept = states.iter_mut().filter(|(&at, _)| without != Some(at));
        let found = kept.flat_map(|(&at, state)| {
            let i = &self.0[&at];
            let line = move |what: String| format!("{:#05x} {}: {what}", at * 4, i.name);
            state.step(i).into_iter().map(line)
        });
        found.collect()
    }

    /// Returns the instructions that are there for the rules: those of these names, and waits and
    /// writes back before the end of a wave.
    fn required(&self, names: &[&str]) -> Vec<usize> {
        let named = |(_, i): &(&usize, &Effects)| names.contains(&i.name.as_str());
        let mut found: Vec<usize> = self.0.iter().filter(named).map(|(&at, _)| at).collect();
        let ends = self.0.iter().filter(|(_, i)| i.name == "s_endpgm_saved");
        for (&end, _) in ends {
            let before = self.0.range(..end).rev();
            let last = before.take_while(|(_, i)| !i.store && !i.name.starts_with("s_cbranch"));
            let waits = |name: &str| name.starts_with("s_wait") || name == "s_dcache_wb";
            let last = last.filter(|(_, i)| waits(&i.name));
            found.extend(last.map(|(&at, _)| at));
        }
        found
    }

    /// Checks the code, and that it violates a rule without each of the instructions in
    /// [`Self::required`].
    fn check_all<S: State>(&self, entries: [S; 2], names: &[&str]) {
        let none = BTreeSet::new();
        assert_eq!(self.check(entries.clone(), None), none);
        let required = self.required(names);
        let superfluous = |at: &&usize| self.check(entries.clone(), Some(**at)).is_empty();
        let superfluous: Vec<String> = required
            .iter()
            .filter(superfluous)
            .map(|at| format!("{:#05x} {}", at * 4, self.0[at].name))
            .collect();
        assert_eq!(superfluous, Vec::<String>::new(), "of {}", required.len());
    }
}

/// Returns the registers of these ranges that are scalar registers.
fn registers(ranges: &[std::ops::Range<u8>]) -> impl Iterator<Item = u8> + '_ {
    ranges.iter().cloned().flatten().filter(|&n| n < END)
}

/// Returns the mnemonic of a register.
fn name(register: u8) -> String {
    match register {
        VCC | 107 => "vcc".into(),
        108..=123 => format!("ttmp{}", register - 108),
        M0 => "m0".into(),
        EXEC.. => "exec".into(),
        n => format!("s{n}"),
    }
}

/// Returns whether an instruction is one for which there are no rules here, since the handlers have
/// none: transcendentals, matrices, divisions, and parts of registers.
fn is_foreign(i: &Effects) -> bool {
    let prefixes = [
        "v_exp",
        "v_log",
        "v_rcp",
        "v_rsq",
        "v_sqrt",
        "v_sin",
        "v_cos",
        "v_div",
        "v_mfma",
        "v_smfmac",
        "v_wmma",
        "v_swmmac",
        "v_dot",
        "v_s_",
        "v_permlane",
    ];
    let of_vectors = i.unit == Unit::Vector;
    of_vectors && (i.modified || prefixes.iter().any(|prefix| i.name.starts_with(prefix)))
}
