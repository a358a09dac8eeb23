// SPDX-License-Identifier: GPL-2.0 OR MIT

//! gfx942 decoder against LLVM's disassembler (lengths) and on random words.

use crate::common;
use crate::common::{llvm, place, Machine, Ram, Recorder, Rng};
use gpu_wave::probe::{self, Probe};
use gpu_wave::{Dispatch, Scratch, Workgroup};

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
