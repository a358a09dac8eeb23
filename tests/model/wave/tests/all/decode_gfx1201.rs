// SPDX-License-Identifier: GPL-2.0 OR MIT

//! gfx1201 decoder against LLVM's disassembler (opcodes, mnemonics, lengths); every decoded opcode
//! must execute.

use crate::common;
use crate::common::bench::{state, Bench, Fill};
use crate::common::llvm::{self, Target};
use crate::common::{place, Machine, Ram, Recorder, Rng};
use gpu_wave::probe::{self, Probe};
use gpu_wave::{Dispatch, Isa, Scratch, Workgroup};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Returns words of one encoding with opcode `op`; the operands are valid for most opcodes.
type Make = fn(u32) -> Vec<[u32; 2]>;

/// `s_nop 0`, for encodings without a second word.
const NOP: u32 = 0xbf80_0000;

/// Encoding, number of opcodes, words.
fn encodings() -> Vec<(&'static str, u32, Make)> {
    vec![
        ("SOP2", 0x60, |op| {
            vec![[0x8000_0000 | op << 23 | 4 << 16 | 8 << 8 | 6, NOP]]
        }),
        ("SOPK", 0x1c, |op| {
            vec![[0xb000_0000 | op << 23 | 4 << 16 | 1, NOP]]
        }),
        ("SOP1", 0x80, |op| {
            let word = 0xbe80_0000 | op << 8;
            vec![
                [word | 4 << 16 | 2, NOP],
                [word | 2, NOP],
                [word | 4 << 16 | 128, NOP],
            ]
        }),
        ("SOPC", 0x7f, |op| {
            vec![[0xbf00_0000 | op << 16 | 8 << 8 | 4, NOP]]
        }),
        ("SOPP", 0x80, |op| {
            vec![
                [0xbf80_0000 | op << 16 | 1, NOP],
                [0xbf80_0000 | op << 16, NOP],
            ]
        }),
        ("VOP2", 62, |op| {
            vec![[op << 25 | 2 << 17 | 4 << 9 | 0x106, NOP]]
        }),
        ("VOP1", 0x80, |op| {
            let word = 0x7e00_0000 | op << 9;
            vec![[word | 2 << 17 | 0x104, NOP], [word, NOP]]
        }),
        ("VOPC", 0x100, |op| {
            vec![[0x7c00_0000 | op << 17 | 2 << 9 | 0x104, NOP]]
        }),
        ("VOP3", 0x400, |op| {
            let word = 0xd400_0000 | op << 16 | 2;
            let (a, b, c) = (0x102, 0x104 << 9, 0x106 << 18);
            vec![
                [word, a | b | c],
                [word, a | b],
                [word, a],
                [word & !2 | 0x7e, a | b],
                [word, a | b | 6 << 18],
                [word, a | 4 << 9],
                [word, a | 4 << 9 | 6 << 18],
                [word, 4],
                [word & !2, 0],
            ]
        }),
        ("VOP3P", 0x80, |op| {
            let word = 0xcc00_0000 | op << 16 | 2 | 1 << 14;
            let (a, b, c) = (0x1800_0102, 0x104 << 9, 0x106 << 18);
            vec![[word, a | b | c], [word & !(1 << 14), a | b], [word, a]]
        }),
    ]
}

/// Returns whether LLVM 19 has another name for it, or none.
fn newer(name: &str) -> bool {
    ["v_mov_b16", "v_swap_b16"].contains(&name)
}

#[test]
fn opcodes_agree_with_llvm() {
    let mut words = Vec::new();
    let mut keys = Vec::new();
    for (encoding, count, make) in encodings() {
        for op in 0..count {
            for variant in make(op) {
                keys.push((encoding, op, variant));
                words.push(variant);
            }
        }
    }
    let names = llvm::disassemble_each_for(Target::Wave32, &words);
    let mut wrong = Vec::new();
    let mut decoded = BTreeMap::new();
    for ((encoding, op, [first, second]), name) in keys.iter().zip(names) {
        let found = probe::gfx1201([*first, *second, 0], true);
        let Some(name) = name else {
            continue;
        };
        // Some mnemonics include the encoding.
        let name = name.trim_end_matches("_e32").trim_end_matches("_e64");
        match found {
            Probe::Instruction {
                name: Some(ours), ..
            } if ours != name => {
                wrong.push(format!("{encoding} {op:#x}: {ours}, LLVM says {name}"));
            }
            Probe::Instruction { .. } => {
                decoded.insert((*encoding, *op), name.to_owned());
            }
            Probe::Violation(_) => {}
            Probe::Illegal(text) => wrong.push(format!("{encoding} {op:#x} {name}: {text}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(decoded.len() > 900, "only {} opcodes", decoded.len());
    // Vice versa: no opcodes unknown to LLVM.
    let mut invented = Vec::new();
    for (encoding, op, [first, second]) in keys {
        if let Probe::Instruction { name, .. } = probe::gfx1201([first, second, 0], true) {
            let name = name.unwrap_or_default();
            if !decoded.contains_key(&(encoding, op)) && !newer(&name) {
                invented.push(format!("{encoding} {op:#x}: {name}"));
            }
        }
    }
    assert!(invented.is_empty(), "{}", invented.join("\n"));
}

#[test]
fn lengths_agree_with_objdump() {
    for target in [Target::Wave32, Target::Wave64] {
        for (name, source) in &common::SOURCES[..2] {
            for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
                let image = llvm::compile(target, name, source, &[level]);
                let lines = llvm::disassemble(&image);
                assert!(lines.len() > 50, "{name} {level}: disassembly too short");
                let machine = Machine::load(&image);
                for line in lines {
                    let at = place::CODE + line.address;
                    let words = machine.ram.get_u32(at, 3);
                    let wave32 = target == Target::Wave32;
                    let what = format!("{name} {level} {:x}: {}", line.address, line.text);
                    match probe::gfx1201([words[0], words[1], words[2]], wave32) {
                        Probe::Instruction { bytes, .. } => {
                            assert_eq!(bytes, line.bytes, "{what}");
                        }
                        other => panic!("{what}: {other:?}"),
                    }
                }
            }
        }
    }
}

/// Prefixes of decoded but not implemented instructions.
const NOT_IMPLEMENTED: &[&str] = &[];

#[test]
fn every_alu_opcode_runs() {
    let bench = Bench::on(Target::Wave32, std::iter::empty());
    let before = state(1, Fill::Bits);
    let mut missing = Vec::new();
    for (encoding, count, make) in encodings() {
        if matches!(encoding, "SOPP" | "SOPK" | "SOP1") {
            continue;
        }
        for op in 0..count {
            for [first, second] in make(op) {
                let found = probe::gfx1201([first, second, 0], true);
                let Probe::Instruction { name, bytes } = found else {
                    continue;
                };
                let words = [first, second, 0];
                if let Err(gpu_wave::Stop::IllegalInstruction { text, .. }) =
                    bench.run_words(&words[..bytes / 4], &before)
                {
                    missing.push(name.unwrap_or(text));
                }
            }
        }
    }
    missing.retain(|m| !NOT_IMPLEMENTED.iter().any(|e| m.starts_with(e)));
    assert!(
        missing.is_empty(),
        "decoded but not implemented: {missing:?}"
    );
}

/// Returns a word that is more likely an instruction than a random one.
fn noise(rng: &mut Rng) -> u32 {
    let heads = [
        0x8000_0000,
        0xb000_0000,
        0xbe80_0000,
        0xbf00_0000,
        0xf400_0000,
        0xd400_0000,
        0xd600_0000,
        0xcc00_0000,
        0xc800_0000,
        0xd800_0000,
        0xec00_0000,
        0xed00_0000,
        0xee00_0000,
        0xc400_0000,
        0x7c00_0000,
        0x7e00_0000,
        0,
    ];
    let word = rng.u32();
    let mut head = word;
    if rng.u32() % 4 != 0 {
        head = heads[rng.u32() as usize % heads.len()] | word & 0x01ff_ffff;
    }
    // Small register numbers are within the allocation.
    match rng.u32() % 3 {
        0 => head,
        1 => head & 0xffff_9f1f,
        _ => head & 0xfff1_1f1f,
    }
}

#[test]
fn random_code_never_panics() {
    // Valid instructions: random words alone stop too early.
    let good: Vec<[u32; 2]> = encodings()
        .into_iter()
        .filter(|(encoding, ..)| !matches!(*encoding, "SOPP" | "SOP1"))
        .flat_map(|(_, count, make)| (0..count).flat_map(make))
        .filter(|&[first, second]| {
            let found = probe::gfx1201([first, second, 0], true);
            matches!(found, Probe::Instruction { .. })
        })
        .collect();
    let mut rng = Rng(43);
    let mut executed = 0;
    for round in 0..10_000 {
        let ram = Ram::new(place::BASE, 0x2_0000);
        let mut code = Vec::new();
        for _ in 0..24 {
            if rng.u32() % 8 == 0 {
                code.push(noise(&mut rng));
            } else {
                code.extend(good[rng.u32() as usize % good.len()]);
            }
        }
        ram.put_u32(place::BASE, &code);
        let base = place::BASE + 0x1_0000;
        let dispatch = Dispatch {
            isa: Isa::Gfx1201,
            wave32: round % 2 == 0,
            grid: [1 + rng.u32() % 150, 1, 1],
            workgroup: [128, 1, 1],
            entry: place::BASE,
            rsrc1: 31 | rng.u32() & 0x000f_f000,
            rsrc2: 4 << 1 | 7 << 7 | 2 << 11,
            user_sgprs: vec![
                base as u32,
                (base >> 32) as u32,
                base as u32,
                (base >> 32) as u32,
            ],
            lds_bytes: 4096,
            scratch: Scratch {
                base,
                wave_stride: 4096,
                slots: 8,
            },
            ..Dispatch::default()
        };
        let host = Recorder::default();
        host.patience.store(2, Ordering::Relaxed);
        let mut workgroup = Workgroup::new(&dispatch, [0, 0, 0]).expect("valid dispatch");
        // Any stop is valid, but its text must not be empty.
        if let Err(stop) = workgroup.run(&ram, &host) {
            assert!(!stop.to_string().is_empty(), "round {round}");
        }
        executed += workgroup.executed();
    }
    assert!(executed > 10_000, "only {executed} instructions ran");
}
