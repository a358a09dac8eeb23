// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Preempts the compiled kernels of the interpreter's tests: at each instruction boundary, or at
//! random ones if there are many. The memory at the end equals that of an undisturbed run. After
//! an even number of turns results come late.

use std::sync::atomic::Ordering;

use super::common::llvm::Target;
use super::common::place::{CODE, DATA};
use super::common::{Args, Machine, Recorder, Rng};
use super::save::{stock_handler, Area};
use super::{gfx12, module};
use gpu_wave::{Dispatch, Isa, Memory, Stop, Trap, Workgroup};

/// Behind the code.
const HANDLER: u64 = CODE + 0xe_0000;
const TMA: u64 = HANDLER + 0x1_0000;
const AREA: u64 = DATA + 0x100_0000;

/// Two inputs and the output.
const A: u64 = DATA;
const B: u64 = DATA + 0x1_0000;
const C: u64 = DATA + 0x2_0000;
const DATA_BYTES: usize = 0x3_0000;

/// Turns of one instruction up to which a kernel is preempted after each.
const SMALL: u64 = 500;

/// A kernel, its workgroup, and its arguments.
struct Case {
    source: &'static str,
    name: &'static str,
    grid: [u32; 3],
    group: [u16; 3],
    id: [u32; 3],
    args: Args,
}

fn case(source: &'static str, name: &'static str, items: u16, args: Args) -> Case {
    Case {
        source,
        name,
        grid: [items.into(), 1, 1],
        group: [items, 1, 1],
        id: [0; 3],
        args,
    }
}

fn to_c() -> Args {
    Args::new().u64(A).u64(C)
}

fn from_both() -> Args {
    Args::new().u64(A).u64(B).u64(C)
}

/// Returns the kernels of a target.
fn cases(target: Target) -> Vec<Case> {
    let vectors = from_both().u64(B).u64(C + 0x4000).u64(C + 0x8000);
    let mut all = vec![
        case("basic", "vadd", 256, from_both()),
        case(
            "basic",
            "fill",
            256,
            Args::new().u64(C).u32(0xabcd).u32(250),
        ),
        case("basic", "saxpy", 64, Args::new().f32(1.7).u64(A).u64(B)),
        case("basic", "copy16", 64, Args::new().u64(C).u64(A)),
        case("basic", "bytes", 64, Args::new().u64(B).u64(A).u64(C)),
        case("basic", "reduce", 256, to_c()),
        case(
            "basic",
            "histogram",
            64,
            Args::new().u64(A).u64(B).u64(B + 64),
        ),
        case("basic", "collatz", 64, to_c()),
        // The last, partial workgroup.
        Case {
            grid: [13, 7, 9],
            group: [5, 3, 4],
            id: [2, 2, 2],
            ..case("basic", "grid3", 64, Args::new().u64(C).u32(13).u32(7))
        },
        case("basic", "stack", 64, to_c()),
        case("wide", "calls", 64, to_c()),
        case("wide", "lanes", 64, to_c().u32(64)),
        case("wide", "transpose", 64, to_c()),
        case("wide", "vectors", 64, vectors),
        case("wide", "sort", 256, Args::new().u64(A)),
    ];
    for name in ["int64", "int32", "floats", "doubles", "halves", "half2s"] {
        all.push(case("wide", name, 64, from_both().u32(64)));
    }
    match target {
        Target::Gfx942 => {
            for name in ["f32_32x32x2", "f16_16x16x16", "i8_16x16x32", "f64_16x16x4"] {
                all.push(case("matrix", name, 64, from_both()));
            }
            all.push(case("matrix", "indexed", 64, to_c().u32(5)));
        }
        Target::Wave32 => {
            for name in ["f32_f16", "i32_iu8"] {
                all.push(case("wmma", name, 32, from_both()));
            }
        }
        Target::Wave64 => {}
    }
    all
}

fn source(name: &str) -> &'static str {
    match name {
        "basic" => include_str!("../model/wave/tests/kernels/basic.cl"),
        "wide" => include_str!("../model/wave/tests/kernels/wide.cl"),
        "matrix" => include_str!("../model/wave/tests/kernels/matrix.cl"),
        _ => include_str!("../model/wave/tests/kernels/wmma.cl"),
    }
}

/// A kernel in memory, with the trap handler that saves its waves.
struct Loaded {
    machine: Machine,
    name: &'static str,
    dispatch: Dispatch,
    id: [u32; 3],
    data: Vec<u8>,
}

/// Result of a run.
struct Run {
    data: Vec<u8>,
    /// Turns of one instruction.
    turns: u64,
}

impl Loaded {
    fn new(target: Target, case: &Case, handler: &[u32]) -> Self {
        let machine = Machine::compile_for(target, case.source, source(case.source), &["-O2"]);
        let mut dispatch = machine.dispatch(case.name, case.grid, case.group, &case.args.bytes, 0);
        dispatch.trap = Some(Trap {
            tba: HANDLER,
            tma: TMA,
        });
        machine.ram.put_u32(HANDLER, handler);
        // Small numbers: the kernels with a loop per item end soon.
        let mut rng = Rng(7);
        let mut data = vec![0; DATA_BYTES];
        for word in data[..(C - DATA) as usize].chunks_exact_mut(4) {
            word.copy_from_slice(&(rng.u32() % 4000 + 1).to_le_bytes());
        }
        Loaded {
            machine,
            name: case.name,
            dispatch,
            id: case.id,
            data,
        }
    }

    /// Runs the kernel, and saves and restores its waves after `at` turns. Returns `None` if it has
    /// ended by then.
    fn run(&self, at: u64) -> Option<Run> {
        let (d, ram) = (&self.dispatch, &self.machine.ram);
        let ([x, y, z], [columns, rows, _]) = (self.id, d.workgroups());
        let index = (x + columns * (y + rows * z)).into();
        let host = Area {
            start: AREA,
            sizes: (d.record_bytes(), d.lds_bytes.into()),
            scratch: d.scratch,
            first: d.wave_number(index, 0),
            recorder: Recorder::late((at % 2 == 0).then_some(at)),
            ..Area::default()
        };
        let patience = &host.recorder.patience;
        let mut was_saved = false;
        ram.put(DATA, &self.data);
        let mut group = Workgroup::new(d, self.id).unwrap();
        group.set_slice(1);
        patience.store(at, Ordering::Relaxed);
        let mut result = group.run(ram, &host);
        let turns = at - patience.load(Ordering::Relaxed);
        if result == Err(Stop::Interrupted) {
            group.save();
            result = group.run(ram, &host);
            if result == Err(Stop::Saved) {
                was_saved = true;
                let saved = std::mem::take(&mut *host.saved.lock().unwrap());
                result = Workgroup::restore(d, self.id, &saved)
                    .unwrap()
                    .run(ram, &host);
            }
        }
        if let Err(stop) = result {
            panic!("{} preempted after {at} turns: {stop}", self.name);
        }
        let mut data = vec![0; DATA_BYTES];
        ram.read(DATA, &mut data).unwrap();
        (was_saved || turns < at).then_some(Run { data, turns })
    }
}

/// Preempts each kernel at each boundary, or at `random` boundaries of a large one.
fn preempt(targets: &[Target], handler: &[u32], random: u64) {
    let mut rng = Rng(random);
    for &target in targets {
        for case in cases(target) {
            let kernel = Loaded::new(target, &case, handler);
            let undisturbed = kernel.run(u64::MAX).expect("not interrupted");
            let check = |at| {
                if let Some(run) = kernel.run(at) {
                    let differs = run.data.iter().zip(&undisturbed.data);
                    let differs = differs.enumerate().find(|(_, (a, b))| a != b);
                    assert!(
                        differs.is_none(),
                        "{target:?} {} preempted after {at} turns of {}: byte {differs:x?}",
                        case.name,
                        undisturbed.turns
                    );
                }
            };
            if undisturbed.turns <= SMALL {
                (1..undisturbed.turns).for_each(check);
            } else {
                for _ in 0..random {
                    check(1 + rng.u64() % (undisturbed.turns - 1));
                }
            }
        }
    }
}

const GFX942: &[Target] = &[Target::Gfx942];
const GFX12: &[Target] = &[Target::Wave32, Target::Wave64];

#[test]
fn module_handler_saves_kernels() {
    preempt(GFX942, &module::FIRST_LEVEL, 50);
}

#[test]
fn stock_handler_saves_kernels() {
    preempt(GFX942, &stock_handler(Isa::Gfx942), 50);
}

#[test]
fn module_handler_of_gfx12_saves_kernels() {
    preempt(GFX12, gfx12::handler(), 50);
}

#[test]
fn stock_handler_of_gfx12_saves_kernels() {
    preempt(GFX12, &stock_handler(Isa::Gfx1201), 50);
}

#[test]
#[ignore = "takes minutes"]
fn handlers_save_kernels_at_10000_boundaries() {
    preempt(GFX942, &module::FIRST_LEVEL, 10_000);
    preempt(GFX942, &stock_handler(Isa::Gfx942), 10_000);
    preempt(GFX12, gfx12::handler(), 10_000);
    preempt(GFX12, &stock_handler(Isa::Gfx1201), 10_000);
}
