// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Speed of the interpreter: `cargo test --release -p gpu_wave --test speed -- --nocapture`. A
//! debug build runs a small part, without meaningful times.

mod common;

use common::flat::Flat;
use common::llvm::{self, Target, TARGETS};
use common::place::{CODE, KERNARG};
use common::{elf, Args, Recorder};
use gpu_wave::abi::{KernelDescriptor, Launch};
use gpu_wave::{Memory, Workgroup};
use std::time::{Duration, Instant};

/// Runs `name` with 2^20 work-items; prints the time per wave instruction.
fn measure(source: &str, name: &str, args: &Args) -> Duration {
    let items = if cfg!(debug_assertions) {
        1 << 12
    } else {
        1 << 20
    };
    measure_items(source, name, items, args)
}

/// Runs `name` with `items` work-items on each target; prints the time per wave instruction.
/// Returns the time of the slowest.
fn measure_items(source: &str, name: &str, items: u32, args: &Args) -> Duration {
    let times = TARGETS.map(|target| measure_on(target, source, name, items, args));
    times.into_iter().max().expect("there are targets")
}

fn measure_on(target: Target, source: &str, name: &str, items: u32, args: &Args) -> Duration {
    let image = llvm::compile(target, name, source, &["-O3"]);
    let ram = common::Ram::new(CODE, 0x4_0000);
    let object = elf::Object::load(&image, CODE, &ram);
    let mut bytes = vec![0; 0x4_0000];
    ram.read(CODE, &mut bytes).unwrap();
    let memory = Flat::new(0x400_0000);
    memory.write(CODE, &bytes).unwrap();
    memory.write(KERNARG, &args.bytes).unwrap();
    let kernel_object = object.symbol(&format!("{name}.kd"));
    let mut kd = [0; 64];
    memory.read(kernel_object, &mut kd).unwrap();
    let kd = KernelDescriptor::parse(&kd).unwrap();
    let launch = Launch {
        isa: target.isa(),
        kernel_object,
        grid: [items, 1, 1],
        workgroup: [256, 1, 1],
        group_segment_size: kd.group_segment_fixed_size,
        kernarg: KERNARG,
        ..Launch::default()
    };
    let dispatch = launch.dispatch(&kd, &memory).unwrap();
    let host = Recorder::default();
    let start = Instant::now();
    let mut executed = 0;
    for x in 0..dispatch.workgroups()[0] {
        let mut workgroup = Workgroup::new(&dispatch, [x, 0, 0]).unwrap();
        workgroup.run(&memory, &host).unwrap();
        executed += workgroup.executed();
    }
    let time = start.elapsed();
    println!(
        "{name} {target:?}: {} waves, {executed} wave instructions in {time:?}: {:.1} ns each",
        items as usize / target.lanes(),
        time.as_nanos() as f64 / executed as f64
    );
    time
}

const SOURCE: &str = include_str!("kernels/basic.cl");

#[test]
fn vector_add_of_the_demo() {
    let at = |n: u64| CODE + 0x20_0000 + n * 0x40_0000;
    let args = Args::new().u64(at(0)).u64(at(1)).u64(at(2));
    let time = measure(SOURCE, "vadd", &args);
    assert!(
        time < Duration::from_secs(3),
        "the demo's dispatch takes {time:?}"
    );
}

const BLIT: &str = include_str!("kernels/speed.cl");

/// Copies and fills of 16 MiB.
#[test]
fn copies_and_fills() {
    const BYTES: u64 = if cfg!(debug_assertions) {
        1 << 18
    } else {
        16 << 20
    };
    const ITEMS: u32 = 16 << 10;
    let (from, to) = (CODE + 0x20_0000, CODE + 0x200_0000);
    let copy = |size: u64| {
        let args = Args::new().u64(from).u64(to);
        args.u64(BYTES / size).u32(ITEMS)
    };
    measure_items(BLIT, "copy16", ITEMS, &copy(16));
    measure_items(BLIT, "copy1", ITEMS, &copy(1));
    let args = Args::new().u64(to).u64(from).u32(1).u64(BYTES / 8);
    measure_items(BLIT, "fill8", (BYTES / 8) as u32, &args);
}

#[test]
fn reduction() {
    let args = Args::new().u64(CODE + 0x20_0000).u64(CODE + 0x300_0000);
    measure(SOURCE, "reduce", &args);
}
