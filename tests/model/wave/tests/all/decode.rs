// SPDX-License-Identifier: GPL-2.0 OR MIT

//! gfx942 decoder against LLVM's disassembler (opcodes, mnemonics, lengths) and on random words.

use crate::common;
use crate::common::bench::{state, Bench, Fill};
use crate::common::{llvm, place, Machine, Ram, Recorder, Rng};
use gpu_wave::probe::{self, Probe};
use gpu_wave::{Dispatch, Scratch, Workgroup};
use std::collections::BTreeMap;

/// Returns words of one encoding with opcode `op`; the operands are valid for most opcodes.
type Make = fn(u32) -> Vec<[u32; 2]>;

/// Encoding, number of opcodes, words.
fn encodings() -> Vec<(&'static str, u32, Make)> {
    vec![
        ("SOP2", 0x60, |op| {
            vec![[0x8000_0000 | op << 23 | 4 << 16 | 2 << 8 | 6, 0]]
        }),
        ("SOPK", 0x1c, |op| {
            vec![[0xb000_0000 | op << 23 | 4 << 16 | 1, 1]]
        }),
        ("SOP1", 0x100, |op| {
            vec![[0xbe80_0000 | 4 << 16 | op << 8 | 2, 0]]
        }),
        ("SOPC", 0x7d, |op| {
            vec![[0xbf00_0000 | op << 16 | 2 << 8 | 4, 0]]
        }),
        ("SOPP", 0x80, |op| {
            vec![[0xbf80_0000 | op << 16 | 1, 0], [0xbf80_0000 | op << 16, 0]]
        }),
        ("SMEM", 0x100, |op| {
            vec![
                [0xc000_0000 | op << 18 | 1 << 17 | 4 << 6 | 2, 16],
                [0xc000_0000 | op << 18, 0],
            ]
        }),
        ("VOP2", 62, |op| {
            vec![[op << 25 | 2 << 17 | 4 << 9 | 0x106, 0x1234]]
        }),
        ("VOP1", 0x100, |op| {
            vec![[0x7e00_0000 | 2 << 17 | op << 9 | 0x104, 0]]
        }),
        ("VOPC", 0x100, |op| {
            vec![[0x7c00_0000 | op << 17 | 2 << 9 | 0x104, 0]]
        }),
        ("VOP3", 0x380, |op| {
            let word = 0xd000_0000 | op << 16 | 2;
            let (a, b, c) = (0x102, 0x104 << 9, 0x106 << 18);
            vec![
                [word, a | b | c],
                [word, a | b],
                [word, a],
                [word, a | 4 << 9],
            ]
        }),
        ("VOP3P", 0x80, |op| {
            let word = 0xd380_0000 | op << 16 | 2 | 4 << 12;
            let (a, b, c) = (0x1800_0102, 0x104 << 9, 0x106 << 18);
            vec![[word, a | b | c], [word & !(4 << 12), a | b], [word, a]]
        }),
        ("DS", 0x100, |op| {
            let word = 0xd800_0000 | op << 17 | 16;
            vec![
                [word, 2 | 4 << 8 | 6 << 16 | 8 << 24],
                [word, 2 | 4 << 8],
                [word, 2 | 4 << 8 | 6 << 16],
                [word, 2 | 8 << 24],
                [word, 2 | 4 << 8 | 8 << 24],
                [word, 8 << 24],
            ]
        }),
        ("FLAT", 0x80, |op| flat(0xdc00_0000, op)),
        ("GLOBAL", 0x80, |op| flat(0xdc00_8000, op)),
        ("SCRATCH", 0x80, |op| flat(0xdc00_4000, op)),
        ("MUBUF", 0x80, |op| {
            let word = 0xe000_0000 | op << 18;
            vec![
                [word | 1 << 13 | 16, 2 | 4 << 8 | 1 << 16 | 5 << 24],
                [word, 0],
            ]
        }),
    ]
}

fn flat(word: u32, op: u32) -> Vec<[u32; 2]> {
    let word = word | op << 18;
    let off = 2 | 0x7f << 16;
    vec![
        [word, off | 4 << 8 | 6 << 24],
        [word, off | 4 << 8],
        [word, off | 6 << 24],
    ]
}

/// Instructions of gfx9 in LLVM that are not supported here: graphics, GDS, scalar atomics and
/// scratch, typed texture accesses.
fn left_out(name: &str) -> bool {
    [
        // The words lack the GDS bit.
        "ds_gws",
        "format",
        "s_atomic",
        "s_buffer_atomic",
        "s_atc",
        "s_dcache_discard",
    ]
    .iter()
    .any(|part| name.contains(part))
        || [
            "buffer_store_lds_dword",
            "buffer_wbinvl1",
            "buffer_wbinvl1_vol",
            "s_endpgm_ordered_ps_done",
        ]
        .contains(&name)
        || ["ds_min_rtn_f", "ds_condxchg32", "s_scratch"]
            .iter()
            .any(|p| name.starts_with(p))
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
    let names = llvm::disassemble_each(&words);
    let mut wrong = Vec::new();
    let mut known = BTreeMap::new();
    for ((encoding, op, [first, second]), name) in keys.iter().zip(names) {
        let found = probe::instruction(*first, *second);
        let slot: &mut bool = known.entry((encoding, op)).or_default();
        let Some(name) = name else {
            continue;
        };
        // Some mnemonics include the encoding.
        let name = name.trim_end_matches("_e32").trim_end_matches("_e64");
        *slot |= matches!(found, Probe::Instruction { .. });
        match found {
            Probe::Instruction {
                name: Some(ours), ..
            } if ours != name => {
                wrong.push(format!("{encoding} {op:#x}: {ours}, LLVM says {name}"));
            }
            Probe::Instruction { .. } | Probe::Violation(_) => {}
            Probe::Illegal(_) if left_out(name) => {}
            Probe::Illegal(text) => wrong.push(format!("{encoding} {op:#x} {name}: {text}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let decoded = known.values().filter(|&&k| k).count();
    assert!(decoded > 900, "only {decoded} opcodes");
}

#[test]
fn lengths_agree_with_objdump() {
    for (name, source) in common::SOURCES {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            let image = llvm::compile(llvm::Target::Gfx942, name, source, &[level]);
            let lines = llvm::disassemble(&image);
            assert!(lines.len() > 50, "{name} {level}: disassembly too short");
            let machine = Machine::load(&image);
            for line in lines {
                let words = machine.ram.get_u32(place::CODE + line.address, 2);
                let (text, length) = (&line.text, probe::length(words[0]));
                assert_eq!(
                    length, line.bytes,
                    "{name} {level} {:x}: {text}",
                    line.address
                );
                match probe::instruction(words[0], words[1]) {
                    Probe::Instruction { .. } => {}
                    other => panic!("{name} {level} {:x}: {text}: {other:?}", line.address),
                }
            }
        }
    }
}

/// Returns a word that is more likely an instruction than a random one.
fn noise(rng: &mut Rng) -> u32 {
    let heads = [
        0x8000_0000,
        0xb000_0000,
        0xbe80_0000,
        0xbf00_0000,
        0xc000_0000,
        0xd000_0000,
        0xd380_0000,
        0xd800_0000,
        0xdc00_0000,
        0xe000_0000,
        0x7c00_0000,
        0x7e00_0000,
        0,
    ];
    let word = rng.u32();
    let mut head = word;
    if rng.u32() % 4 != 0 {
        head = heads[rng.u32() as usize % heads.len()] | word & 0x03ff_ffff;
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
    let mut rng = Rng(42);
    let mut executed = 0;
    for round in 0..20_000 {
        let ram = Ram::new(place::BASE, 0x2_0000);
        let code: Vec<u32> = (0..48).map(|_| noise(&mut rng)).collect();
        ram.put_u32(place::BASE, &code);
        let base = place::BASE + 0x1_0000;
        let dispatch = Dispatch {
            grid: [1 + rng.u32() % 150, 1, 1],
            workgroup: [128, 1, 1],
            entry: place::BASE,
            rsrc1: 31 | 12 << 6 | rng.u32() & 0x00ff_f000,
            rsrc2: 4 << 1 | 7 << 7 | 2 << 11,
            rsrc3: 47,
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
        host.patience.store(2, std::sync::atomic::Ordering::Relaxed);
        let mut workgroup = Workgroup::new(&dispatch, [0, 0, 0]).expect("valid dispatch");
        // Any stop is valid, but its text must not be empty.
        if let Err(stop) = workgroup.run(&ram, &host) {
            assert!(!stop.to_string().is_empty(), "round {round}");
        }
        executed += workgroup.executed();
    }
    assert!(executed > 30_000, "only {executed} instructions ran");
}

#[test]
fn every_opcode_runs_or_is_reported() {
    let bench = Bench::new(std::iter::empty());
    let before = state(1, Fill::Bits);
    let mut missing = Vec::new();
    for (encoding, count, make) in encodings() {
        if encoding == "SOPP" || encoding == "SOPK" {
            continue;
        }
        for op in 0..count {
            let variant = make(op)[0];
            if let Probe::Instruction { name, bytes } = probe::instruction(variant[0], variant[1]) {
                let words = &variant[..bytes / 4];
                if let Err(gpu_wave::Stop::IllegalInstruction { text, .. }) =
                    bench.run_words(words, &before)
                {
                    assert!(
                        text.contains("not implemented"),
                        "{encoding} {op:#x}: {text}"
                    );
                    missing.push(name.unwrap_or(text));
                }
            }
        }
    }
    let expected = common::NOT_IMPLEMENTED;
    let new: Vec<_> = missing
        .iter()
        .filter(|m| !expected.iter().any(|e| m.starts_with(e)))
        .collect();
    assert!(new.is_empty(), "decoded but not implemented: {new:?}");
}
