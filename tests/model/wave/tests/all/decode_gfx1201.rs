// SPDX-License-Identifier: GPL-2.0 OR MIT

//! gfx1201 decoder against LLVM's disassembler (lengths) and on random words.

use crate::common;
use crate::common::llvm::{self, Target};
use crate::common::{place, Machine, Ram, Recorder, Rng};
use crate::sweep;
use gpu_wave::probe::{self, Probe};
use gpu_wave::{Dispatch, Isa, Scratch, Workgroup};
use std::sync::atomic::Ordering;

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
    let mut good = Vec::new();
    for class in sweep::classes(Isa::Gfx1201) {
        if matches!(class.name, "SOPP" | "SOP1") {
            continue;
        }
        for words in (0..class.opcodes).flat_map(class.make) {
            if let Probe::Instruction { bytes, .. } = probe::gfx1201(words, true) {
                good.push(words[..bytes / 4].to_vec());
            }
        }
    }
    let mut rng = Rng(43);
    let mut executed = 0;
    for round in 0..10_000 {
        let ram = Ram::new(place::BASE, 0x2_0000);
        let mut code = Vec::new();
        for _ in 0..24 {
            if rng.u32() % 8 == 0 {
                code.push(noise(&mut rng));
            } else {
                code.extend(&good[rng.u32() as usize % good.len()]);
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
