// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Addresses of the lanes of a load or store. Contiguous cells are one access: cells that only look
//! contiguous are not.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::llvm::{self, Target};
use crate::common::place::CODE;
use crate::common::{one_wave, Recorder};
use gpu_wave::{run_workgroup, Dispatch, Fault, Memory};

/// Where a kernel stores what its lanes have loaded.
const RESULTS: u64 = 0x7000_0000_0000;

/// Memory without bounds: the contents of a dword follow from its address.
struct Echo {
    code: Vec<u8>,
    written: Mutex<BTreeMap<u64, u8>>,
}

fn contents(va: u64) -> u32 {
    (va as u32).wrapping_add(((va >> 32) as u32).wrapping_mul(0x9e37_79b1))
}

impl Memory for Echo {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        for (at, byte) in (va..).zip(buf) {
            *byte = contents(at & !3).to_le_bytes()[at as usize & 3];
        }
        Ok(())
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        let mut written = self.written.lock().unwrap();
        written.extend((va..).zip(data.iter().copied()));
        Ok(())
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let at = (va - CODE) as usize;
        buf.copy_from_slice(&self.code[at..at + buf.len()]);
        Ok(())
    }

    fn atomic(&self, _: u64, _: u8, _: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        unreachable!("no atomics")
    }
}

impl Echo {
    fn dword(&self, va: u64) -> Option<u32> {
        let written = self.written.lock().unwrap();
        let byte = |n| written.get(&(va + n)).copied();
        Some(u32::from_le_bytes([byte(0)?, byte(1)?, byte(2)?, byte(3)?]))
    }
}

/// Address of each lane: `base`, and `low` and `high` of the address in registers.
struct Case {
    name: &'static str,
    base: u64,
    low: fn(u32) -> u32,
    high: Option<fn(u32) -> u32>,
    /// EXEC.
    active: u64,
}

const CASES: [Case; 7] = [
    Case {
        name: "contiguous",
        base: 0x1_0000_1000,
        low: |l| 0x40 + 4 * l,
        high: None,
        active: u64::MAX,
    },
    Case {
        name: "a gap",
        base: 0x1_0000_1000,
        low: |l| 4 * l + if l > 20 { 4 } else { 0 },
        high: None,
        active: u64::MAX,
    },
    Case {
        name: "inactive lanes",
        base: 0x1_0000_1000,
        low: |l| 4 * l,
        high: None,
        active: !0x10,
    },
    Case {
        name: "offsets that wrap",
        base: 0x1_0000_1000,
        low: |l| (4 * l).wrapping_sub(0x20),
        high: None,
        active: u64::MAX,
    },
    Case {
        name: "addresses in registers",
        base: 0,
        low: |l| 0x1000 + 4 * l,
        high: Some(|_| 3),
        active: u64::MAX,
    },
    Case {
        name: "addresses beyond 4 GiB",
        base: 0,
        low: |l| (4 * l).wrapping_sub(0x20),
        high: Some(|l| if l < 8 { 3 } else { 4 }),
        active: u64::MAX,
    },
    Case {
        name: "other high halves",
        base: 0,
        low: |l| 0x1000 + 4 * l,
        high: Some(|l| l % 2),
        active: u64::MAX,
    },
];

/// Moves a value for each lane to a register.
fn each_lane(register: &str, target: Target, value: impl Fn(u32) -> u32) -> String {
    let lanes = 0..target.lanes() as u32;
    lanes
        .map(|l| {
            let value = value(l);
            match target {
                Target::Gfx942 => {
                    format!("s_mov_b32 m0, {l}\n s_mov_b32 s9, {value:#x}\n v_writelane_b32 {register}, s9, m0\n")
                }
                _ => format!("s_mov_b32 s9, {value:#x}\n v_writelane_b32 {register}, s9, {l}\n"),
            }
        })
        .collect()
}

fn run(target: Target, case: &Case, access: &str) -> Echo {
    let wide = target.lanes() == 64;
    let exec = match wide {
        true => format!(
            "s_mov_b32 exec_lo, {:#x}\n s_mov_b32 exec_hi, {:#x}\n",
            case.active as u32,
            case.active >> 32
        ),
        false => format!("s_mov_b32 exec_lo, {:#x}\n", case.active as u32),
    };
    let text = format!(
        "{low}{high} {lane} s_mov_b32 s0, {:#x}\n s_mov_b32 s1, {:#x}\n s_mov_b32 s2, 0\n\
         s_mov_b32 s3, {:#x}\n v_mov_b32 v5, -1\n v_mov_b32 v6, -1\n v_mov_b32 v7, -1\n\
         v_mov_b32 v8, -1\n v_mov_b32 v9, -1\n {exec} {access}\n s_endpgm\n",
        case.base as u32,
        case.base >> 32,
        RESULTS >> 32,
        low = each_lane("v2", target, case.low),
        high = case
            .high
            .map_or_else(String::new, |high| each_lane("v3", target, high)),
        lane = each_lane("v4", target, |l| 16 * l),
    );
    let memory = Echo {
        code: llvm::assemble_for(target, &text)
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect(),
        written: Mutex::default(),
    };
    let dispatch = Dispatch {
        isa: target.isa(),
        wave32: target == Target::Wave32,
        grid: [target.lanes() as u32, 1, 1],
        workgroup: [target.lanes() as u16, 1, 1],
        rsrc3: if target == Target::Gfx942 {
            one_wave().rsrc3
        } else {
            0
        },
        ..one_wave()
    };
    run_workgroup(&memory, &Recorder::default(), &dispatch, [0; 3]).unwrap();
    memory
}

/// Calls `f` with the number of each lane and its address, if it is active.
fn each_address(target: Target, case: &Case, mut f: impl FnMut(u32, Option<u64>)) {
    for l in 0..target.lanes() as u32 {
        let high = case.high.map_or(0, |high| high(l));
        let offset = u64::from((case.low)(l)) | u64::from(high) << 32;
        f(l, (case.active >> l & 1 != 0).then(|| case.base + offset));
    }
}

fn address(case: &Case) -> &'static str {
    match case.high {
        Some(_) => "v[2:3], off",
        None => "v2, s[0:1]",
    }
}

#[test]
fn loads_read_the_cell_of_each_lane() {
    for target in [Target::Gfx942, Target::Wave32] {
        for case in &CASES {
            let at = address(case);
            let access = match target {
                Target::Gfx942 => format!(
                    "global_load_dword v5, {at} offset:8\n s_waitcnt vmcnt(0)\n\
                     s_mov_b64 exec, -1\n global_store_dword v4, v5, s[2:3]"
                ),
                _ => format!(
                    "global_load_b32 v5, {at} offset:8\n s_wait_loadcnt 0\n\
                     s_mov_b32 exec_lo, -1\n global_store_b32 v4, v5, s[2:3]"
                ),
            };
            let memory = run(target, case, &access);
            each_address(target, case, |l, va| {
                let found = memory.dword(RESULTS + 16 * u64::from(l));
                let name = case.name;
                let expected = va.map_or(u32::MAX, |va| contents(va + 8));
                assert_eq!(found, Some(expected), "{target:?} {name}: lane {l}");
            });
        }
    }
}

#[test]
fn stores_write_the_cell_of_each_lane() {
    for target in [Target::Gfx942, Target::Wave32] {
        for case in &CASES {
            let at = address(case);
            let (to, from) = at.split_once(", ").unwrap();
            let access = match target {
                Target::Gfx942 => format!("global_store_dword {to}, v4, {from} offset:8"),
                _ => format!("global_store_b32 {to}, v4, {from} offset:8"),
            };
            let memory = run(target, case, &access);
            let mut written = 0;
            each_address(target, case, |l, va| {
                let Some(va) = va else { return };
                let name = case.name;
                assert_eq!(
                    memory.dword(va + 8),
                    Some(16 * l),
                    "{target:?} {name}: lane {l}"
                );
                written += 4;
            });
            assert_eq!(memory.written.lock().unwrap().len(), written);
        }
    }
}

/// Cells of 8 and 16 bytes.
#[test]
fn wide_loads_read_the_cell_of_each_lane() {
    for target in [Target::Gfx942, Target::Wave32] {
        for case in &CASES {
            let at = address(case);
            let access = match target {
                Target::Gfx942 => format!(
                    "global_load_dwordx4 v[6:9], {at}\n s_waitcnt vmcnt(0)\n\
                     s_mov_b64 exec, -1\n global_store_dwordx4 v4, v[6:9], s[2:3]"
                ),
                _ => format!(
                    "global_load_b128 v[6:9], {at}\n s_wait_loadcnt 0\n\
                     s_mov_b32 exec_lo, -1\n global_store_b128 v4, v[6:9], s[2:3]"
                ),
            };
            // The addresses of the cases are those of dwords.
            let memory = run(target, case, &access);
            each_address(target, case, |l, va| {
                for n in 0..4 {
                    let found = memory.dword(RESULTS + 16 * u64::from(l) + 4 * n);
                    let name = case.name;
                    let expected = va.map_or(u32::MAX, |va| contents(va + 4 * n));
                    assert_eq!(found, Some(expected), "{target:?} {name}: lane {l}, {n}");
                }
            });
        }
    }
}
