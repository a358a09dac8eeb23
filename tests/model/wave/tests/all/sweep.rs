// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Every opcode of every encoding against LLVM's disassembler, in both directions: what LLVM knows
//! is executed or listed in `tests/not-executed`, and what the decoder accepts is known to LLVM.

pub(crate) mod gfx1201;
pub(crate) mod gfx942;

use crate::common::bench::{state, Bench, Fill, State};
use crate::common::llvm::{self, Target};
use gpu_wave::probe::{self, Probe};
use gpu_wave::Isa;
use std::collections::{BTreeMap, BTreeSet};

/// `s_nop 0`, for words that an instruction does not have.
pub(crate) const NOP: u32 = 0xbf80_0000;

/// Returns words of one encoding with this opcode.
type Make = fn(u32) -> Vec<[u32; 3]>;

/// Encoding.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) opcodes: u32,
    /// Number of opcodes that LLVM knows.
    known: usize,
    pub(crate) make: Make,
}

fn class(name: &'static str, opcodes: u32, known: usize, make: Make) -> Class {
    Class {
        name,
        opcodes,
        known,
        make,
    }
}

pub(crate) fn classes(isa: Isa) -> Vec<Class> {
    match isa {
        Isa::Gfx942 => gfx942::classes(),
        Isa::Gfx1201 => gfx1201::classes(),
    }
}

fn decode(target: Target, words: [u32; 3]) -> Probe {
    match target {
        Target::Gfx942 => probe::instruction(words[0], words[1]),
        _ => probe::gfx1201(words, target == Target::Wave32),
    }
}

/// Returns the mnemonic without the encoding's suffix.
fn stem(name: &str) -> &str {
    let suffixes = ["_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"];
    let found = suffixes.iter().find_map(|s| name.strip_suffix(s));
    found.unwrap_or(name)
}

/// Words, with LLVM's mnemonic.
type Variant = ([u32; 3], Option<String>);

fn mnemonic((_, name): &Variant) -> Option<&str> {
    name.as_deref().map(stem)
}

/// Instructions that are not executed: chip, encoding, mnemonic. The chip is followed by `-wave64`
/// for what only waves of this size do not execute.
type Listed = BTreeSet<(String, String, String)>;

/// Returns the entries of `tests/not-executed` of a chip. Lines that begin with a blank have
/// mnemonics, the line before them chip, encoding and the reason.
fn not_executed(of: &str) -> Listed {
    let mut listed = Listed::new();
    let mut head = None;
    for line in include_str!("../not-executed").lines() {
        if line.starts_with(' ') {
            let (chip, encoding): &(String, String) = head.as_ref().expect("a head before");
            for name in line.split_whitespace() {
                let entry = (chip.clone(), encoding.clone(), name.to_owned());
                assert!(listed.insert(entry), "{name} is listed twice");
            }
        } else if !line.is_empty() && !line.starts_with('#') {
            let (place, reason) = line.split_once(": ").expect("a reason");
            assert!(reason.len() > 10, "{line}: no reason");
            let (chip, encoding) = place.split_once(' ').expect("an encoding");
            head = Some((chip.to_owned(), encoding.to_owned()));
        }
    }
    listed.retain(|(chip, ..)| chip.split('-').next() == Some(of));
    listed
}

/// Instructions that the decoder has and LLVM 19 has not: it does not know all 16-bit operands, and
/// not `ds_bpermute_fi_b32`. The decoder has no names of memory instructions.
const UNKNOWN_TO_LLVM: [(&str, &str); 5] = [
    ("VDS", ""),
    ("VOP1", "v_swap_b16"),
    ("VOP3", "v_mov_b16"),
    ("VOP3 DPP16", "v_mov_b16"),
    ("VOP3 DPP8", "v_mov_b16"),
];

/// Opcode in a sweep.
struct Opcode<'a> {
    target: Target,
    chip: &'a str,
    encoding: &'static str,
    opcode: u32,
    variants: Vec<Variant>,
}

impl std::fmt::Display for Opcode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} {:#x}", self.target, self.encoding, self.opcode)
    }
}

/// Findings of a sweep.
struct Sweep {
    wrong: Vec<String>,
    listed: Listed,
    /// Used entries of the lists.
    used: Listed,
    newer: BTreeSet<(&'static str, String)>,
}

impl Sweep {
    /// Compares all encodings.
    fn run(&mut self, target: Target, chip: &str) {
        let classes = classes(target.isa());
        let (mut keys, mut words) = (Vec::new(), Vec::new());
        for class in &classes {
            for op in 0..class.opcodes {
                for variant in (class.make)(op) {
                    keys.push((class.name, op));
                    words.push(variant);
                }
            }
        }
        let names = llvm::disassemble_each_for(target, &words);
        let mut opcodes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((key, words), name) in keys.into_iter().zip(words).zip(names) {
            opcodes.entry(key).or_default().push((words, name));
        }
        for class in &classes {
            let keys = (0..class.opcodes).map(|op| (class.name, op));
            let is_known = |key| opcodes[&key].iter().any(|(_, name)| name.is_some());
            let known = keys.filter(|&key| is_known(key)).count();
            // A smaller number: no variant has operands that fit an opcode any more.
            let expected = match (class.name, target) {
                ("VOPD", Target::Wave64) => 0,
                _ => class.known,
            };
            if known != expected {
                let name = class.name;
                let text = format!("{target:?} {name}: LLVM knows {known} opcodes, not {expected}");
                self.wrong.push(text);
            }
        }
        let known: BTreeSet<&str> = opcodes.values().flatten().filter_map(mnemonic).collect();
        self.outside(target, &known);
        let bench = Bench::on(target, std::iter::empty());
        let before = state(1, Fill::Bits);
        for ((encoding, opcode), variants) in opcodes {
            let opcode = Opcode {
                target,
                chip,
                encoding,
                opcode,
                variants,
            };
            self.decode(&opcode);
            self.execute(&opcode, &bench, &before);
        }
    }

    /// Looks for instructions in all values of the highest bits: the encodings above are complete.
    fn outside(&mut self, target: Target, known: &BTreeSet<&str>) {
        let second = 2 | 4 << 8 | 1 << 16 | 5 << 24;
        let words: Vec<[u32; 3]> = (0..1 << 12)
            .flat_map(|top| [2, 0x4_0106, 0x2_0400].map(|low| [top << 20 | low, second, NOP]))
            .collect();
        let names = llvm::disassemble_each_for(target, &words);
        for (words, name) in words.into_iter().zip(names) {
            if let Some(name) = name
                .as_deref()
                .map(stem)
                .filter(|name| !known.contains(name))
            {
                let text = format!("{target:?} {:#x} {name}: in no encoding", words[0]);
                self.wrong.push(text);
            }
        }
    }

    /// Notes an instruction that is not executed: an error, unless it is listed.
    fn missing(&mut self, opcode: &Opcode<'_>, name: &str, why: &str) {
        let wave64 = format!("{}-wave64", opcode.chip);
        let mut chips = vec![opcode.chip];
        if opcode.target == Target::Wave64 {
            chips.push(&wave64);
        }
        let entries = chips.into_iter().map(|chip| {
            let (chip, encoding) = (chip.to_owned(), opcode.encoding.to_owned());
            (chip, encoding, name.to_owned())
        });
        match entries
            .into_iter()
            .find(|entry| self.listed.contains(entry))
        {
            Some(entry) => drop(self.used.insert(entry)),
            None => self.wrong.push(format!("{opcode} {name}: {why}")),
        }
    }

    fn decode(&mut self, opcode: &Opcode<'_>) {
        let (mut accepted, mut known, mut refused) = (None, None, None);
        for (words, name) in &opcode.variants {
            let ours = decode(opcode.target, *words);
            if let Probe::Instruction { name, .. } = &ours {
                accepted = Some(name.clone().unwrap_or_default());
            }
            let Some(theirs) = name.as_deref().map(stem) else {
                continue;
            };
            known = Some(theirs);
            match ours {
                Probe::Instruction {
                    name: Some(ours), ..
                } if opcode.encoding != "VOPD" && ours != theirs => {
                    let text = format!("{opcode}: {ours}, LLVM says {theirs}");
                    self.wrong.push(text);
                }
                Probe::Instruction { .. } | Probe::Violation(_) => {}
                Probe::Illegal(text) => refused = Some((theirs, text)),
            }
        }
        match (known, accepted) {
            (None, Some(name)) => {
                let newer = (opcode.encoding, name.as_str());
                if UNKNOWN_TO_LLVM.contains(&newer) {
                    self.newer.insert((opcode.encoding, name));
                } else {
                    self.wrong.push(format!("{opcode} {name}: unknown to LLVM"));
                }
            }
            (Some(name), None) => self.missing(opcode, name, "not decoded"),
            (Some(_), Some(_)) => {
                if let Some((name, text)) = refused {
                    self.wrong.push(format!("{opcode} {name}: {text}"));
                }
            }
            (None, None) => {}
        }
    }

    /// Executes the first variant known to both.
    fn execute(&mut self, opcode: &Opcode<'_>, bench: &Bench, before: &State) {
        for (words, name) in &opcode.variants {
            let Some(name) = name.as_deref().map(stem) else {
                continue;
            };
            let Probe::Instruction { bytes, .. } = decode(opcode.target, *words) else {
                continue;
            };
            // Any other stop is a valid one: the operands are not.
            let stop = bench.run_words(&words[..bytes / 4], before).err();
            let text = stop.map(|stop| stop.to_string()).unwrap_or_default();
            if text.contains("not implemented") {
                self.missing(opcode, name, &text);
            }
            return;
        }
    }
}

fn sweep(chip: &str, targets: &[Target]) {
    let mut all = Sweep {
        wrong: Vec::new(),
        listed: not_executed(chip),
        used: Listed::new(),
        newer: BTreeSet::new(),
    };
    for &target in targets {
        all.run(target, chip);
    }
    for (chip, encoding, name) in all.listed.difference(&all.used) {
        let text = format!("{chip} {encoding} {name}: listed as not executed, but it is");
        all.wrong.push(text);
    }
    for (encoding, name) in UNKNOWN_TO_LLVM {
        if chip == "gfx1201" && !all.newer.contains(&(encoding, name.to_owned())) {
            all.wrong.push(format!("{encoding} {name}: known to LLVM"));
        }
    }
    let wrong = all.wrong;
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_opcode_of_gfx942() {
    sweep("gfx942", &[Target::Gfx942]);
}

#[test]
fn every_opcode_of_gfx1201() {
    sweep("gfx1201", &[Target::Wave32, Target::Wave64]);
}
