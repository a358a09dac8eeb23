// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Speed of the interpreter by kind of kernel: `cargo bench -p gpu_wave --bench wave`, part of
//! `make bench`. Each kernel is a loop, run as a workgroup of 256 work-items. Prints the fastest
//! round of each kind. The results of all rounds are compared with those computed on the host.
//! `-- NAME...` runs only the kinds whose names contain one of these.

#[path = "../tests/common/mod.rs"]
mod common;

use common::flat::Flat;
use common::llvm::{self, Target};
use common::place::{CODE, DATA};
use common::Recorder;
use gpu_wave::{Dispatch, Memory, Workgroup};
use std::time::{Duration, Instant};

const ITEMS: u16 = 256;
/// A round takes some milliseconds: most are over before another process gets the CPU.
const ROUNDS: u32 = 50;
/// Registers v10..v13 of a kernel: loaded at its start, stored at its end.
const CELLS: u32 = 4;
/// Bytes of a cell in memory, for all work-items.
const CELL_BYTES: u32 = ITEMS as u32 * 4;

/// What a kernel does beyond executing instructions.
enum Work {
    None,
    /// Floating-point operations in an iteration of a wave.
    Flops(u64),
    /// Bytes accessed in an iteration of a work-item.
    Bytes(u64),
}

/// A kernel: a loop around `repeat` times `body`.
struct Kind {
    name: &'static str,
    target: Target,
    /// Before the loop.
    start: &'static str,
    body: &'static str,
    repeat: u32,
    /// After the loop.
    end: &'static str,
    iterations: u32,
    work: Work,
    /// Computes what `times` bodies make of the cells; the last argument is the number of
    /// iterations.
    expected: fn(cells: &mut [u32; CELLS as usize], times: u32, iterations: u32),
}

fn scalar(target: Target) -> Kind {
    Kind {
        name: "scalar",
        target,
        start: "s_mov_b32 s5, 1\n s_mov_b32 s6, 0x9e3779b1\n",
        body: "s_xor_b32 s5, s5, s4\n s_mul_i32 s5, s5, s6\n s_add_u32 s5, s5, s4\n\
            s_lshr_b32 s7, s5, 15\n s_xor_b32 s5, s5, s7\n",
        repeat: 2,
        end: "v_mov_b32 v10, s5\n",
        iterations: 2_500,
        work: Work::None,
        expected: |cells, times, iterations| {
            let mut x = 1_u32;
            for n in (1..=iterations).rev() {
                for _ in 0..times / iterations {
                    x = (x ^ n).wrapping_mul(0x9e37_79b1).wrapping_add(n);
                    x ^= x >> 15;
                }
            }
            cells[0] = x;
        },
    }
}

fn vector(target: Target) -> Kind {
    Kind {
        name: "vector f32",
        target,
        start: "v_cvt_f32_u32 v10, v10\n v_cvt_f32_u32 v11, v11\n v_cvt_f32_u32 v12, v12\n\
            v_cvt_f32_u32 v13, v13\n v_mov_b32 v2, 0x3f7d70a4\n v_mov_b32 v3, 1.0\n",
        body: "v_fma_f32 v10, v10, v2, v3\n v_fma_f32 v11, v11, v2, v3\n\
            v_fma_f32 v12, v12, v2, v3\n v_fma_f32 v13, v13, v2, v3\n",
        repeat: 4,
        end: "",
        iterations: 200,
        work: Work::Flops(4 * 4 * 2 * target.lanes() as u64),
        expected: |cells, times, _| {
            for cell in cells {
                let mut x = *cell as f32;
                for _ in 0..times {
                    x = x.mul_add(f32::from_bits(0x3f7d_70a4), 1.0);
                }
                *cell = x.to_bits();
            }
        },
    }
}

/// Returns the cells after loads of all and stores to their neighbours.
fn rotated(cells: &mut [u32; CELLS as usize], times: u32, _: u32) {
    for _ in 0..times {
        cells[0] = cells[0].wrapping_add(1);
        cells.rotate_left(1);
    }
}

fn memory(target: Target) -> Kind {
    Kind {
        name: "memory",
        target,
        start: "",
        body: "global_load_dword v10, v1, s[0:1]\n global_load_dword v11, v1, s[0:1] offset:1024\n\
            global_load_dword v12, v1, s[0:1] offset:2048\n\
            global_load_dword v13, v1, s[0:1] offset:3072\n s_waitcnt vmcnt(0)\n\
            v_add_u32 v10, 1, v10\n\
            global_store_dword v1, v11, s[0:1]\n global_store_dword v1, v12, s[0:1] offset:1024\n\
            global_store_dword v1, v13, s[0:1] offset:2048\n\
            global_store_dword v1, v10, s[0:1] offset:3072\n",
        repeat: 1,
        end: "global_load_dword v10, v1, s[0:1]\n global_load_dword v11, v1, s[0:1] offset:1024\n\
            global_load_dword v12, v1, s[0:1] offset:2048\n\
            global_load_dword v13, v1, s[0:1] offset:3072\n s_waitcnt vmcnt(0)\n",
        iterations: 301,
        work: Work::Bytes(8 * 4),
        expected: rotated,
    }
}

fn lds(target: Target) -> Kind {
    Kind {
        name: "LDS",
        target,
        start: "ds_write_b32 v1, v10\n ds_write_b32 v1, v11 offset:1024\n\
            ds_write_b32 v1, v12 offset:2048\n ds_write_b32 v1, v13 offset:3072\n",
        body: "ds_read_b32 v10, v1\n ds_read_b32 v11, v1 offset:1024\n\
            ds_read_b32 v12, v1 offset:2048\n ds_read_b32 v13, v1 offset:3072\n\
            s_waitcnt lgkmcnt(0)\n v_add_u32 v10, 1, v10\n\
            ds_write_b32 v1, v11\n ds_write_b32 v1, v12 offset:1024\n\
            ds_write_b32 v1, v13 offset:2048\n ds_write_b32 v1, v10 offset:3072\n",
        repeat: 1,
        end: "ds_read_b32 v10, v1\n ds_read_b32 v11, v1 offset:1024\n\
            ds_read_b32 v12, v1 offset:2048\n ds_read_b32 v13, v1 offset:3072\n\
            s_waitcnt lgkmcnt(0)\n",
        iterations: 301,
        work: Work::Bytes(8 * 4),
        expected: rotated,
    }
}

/// Adds `step` to each cell as a float, `times` times: exact.
fn added(cells: &mut [u32; CELLS as usize], times: u32, step: u32) {
    for cell in cells {
        *cell = ((*cell + times * step) as f32).to_bits();
    }
}

/// The elements of A are 0.5, those of B 4.0: each of K products adds 2.
fn matrix(target: Target) -> Kind {
    let start = "v_mov_b32 v2, 0x38003800\n v_mov_b32 v3, v2\n v_mov_b32 v4, v2\n\
        v_mov_b32 v5, v2\n v_mov_b32 v6, 0x44004400\n v_mov_b32 v7, v6\n v_mov_b32 v8, v6\n\
        v_mov_b32 v9, v6\n v_mov_b32 v14, 0\n v_mov_b32 v15, 0\n v_mov_b32 v16, 0\n\
        v_mov_b32 v17, 0\n v_cvt_f32_u32 v10, v10\n v_cvt_f32_u32 v11, v11\n\
        v_cvt_f32_u32 v12, v12\n v_cvt_f32_u32 v13, v13\n s_nop 7\n";
    let body = match target {
        Target::Gfx942 => "v_mfma_f32_16x16x16_f16 v[10:13], v[2:3], v[6:7], v[10:13]\n",
        _ => "v_wmma_f32_16x16x16_f16 v[10:17], v[2:5], v[6:9], v[10:17]\n",
    };
    Kind {
        name: "matrix f16",
        target,
        start,
        body,
        repeat: 8,
        end: "s_nop 15\n s_nop 15\n",
        iterations: 6,
        work: Work::Flops(8 * 2 * 16 * 16 * 16),
        expected: |cells, times, _| added(cells, times, 2 * 16),
    }
}

/// As [`matrix`], with single-precision elements. gfx1201 has no such instructions.
fn matrix_f32() -> Kind {
    Kind {
        name: "matrix f32",
        target: Target::Gfx942,
        start: "v_mov_b32 v2, 0.5\n v_mov_b32 v6, 4.0\n v_cvt_f32_u32 v10, v10\n\
            v_cvt_f32_u32 v11, v11\n v_cvt_f32_u32 v12, v12\n v_cvt_f32_u32 v13, v13\n s_nop 7\n",
        body: "v_mfma_f32_16x16x4_f32 v[10:13], v2, v6, v[10:13]\n",
        repeat: 8,
        end: "s_nop 15\n s_nop 15\n",
        iterations: 20,
        work: Work::Flops(8 * 2 * 16 * 16 * 4),
        expected: |cells, times, _| added(cells, times, 2 * 4),
    }
}

/// gfx1201 spelling.
const NAMES: [(&str, &str); 7] = [
    ("global_load_dword", "global_load_b32"),
    ("global_store_dword", "global_store_b32"),
    ("ds_read_b32", "ds_load_b32"),
    ("ds_write_b32", "ds_store_b32"),
    ("s_waitcnt vmcnt(0)", "s_wait_loadcnt 0"),
    ("s_waitcnt lgkmcnt(0)", "s_wait_dscnt 0"),
    ("v_add_u32", "v_add_nc_u32"),
];

/// One access to each cell.
fn each_cell(access: impl Fn(u32, u32) -> String) -> String {
    (0..CELLS).map(|n| access(10 + n, n * CELL_BYTES)).collect()
}

impl Kind {
    /// Returns the machine code. s\[0:1\] is the address of the cells, s4 counts iterations, v1 is
    /// the offset of a work-item in a cell.
    fn code(&self) -> Vec<u32> {
        let load = each_cell(|v, at| format!("global_load_dword v{v}, v1, s[0:1] offset:{at}\n"));
        let store = each_cell(|v, at| format!("global_store_dword v1, v{v}, s[0:1] offset:{at}\n"));
        let text = format!(
            "v_lshlrev_b32 v1, 2, v0\n {load} s_waitcnt vmcnt(0)\n {start}\n\
             s_mov_b32 s4, {count}\n loop:\n {body}\n s_sub_u32 s4, s4, 1\n\
             s_cmp_lg_u32 s4, 0\n s_cbranch_scc1 loop\n {end}\n {store} s_endpgm\n",
            start = self.start,
            count = self.iterations,
            body = self.body.repeat(self.repeat as usize),
            end = self.end,
        );
        let text = match self.target {
            Target::Gfx942 => text,
            _ => NAMES
                .iter()
                .fold(text, |text, (from, to)| text.replace(from, to)),
        };
        llvm::assemble_for(self.target, &text)
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch {
            isa: self.target.isa(),
            wave32: self.target == Target::Wave32,
            grid: [ITEMS.into(), 1, 1],
            workgroup: [ITEMS, 1, 1],
            entry: CODE,
            // 32 VGPRs at least, 32 SGPRs, of which 2 are set by the dispatch.
            rsrc1: 7 | 2 << 6,
            rsrc2: 2 << 1,
            rsrc3: 15,
            user_sgprs: vec![DATA as u32, (DATA >> 32) as u32],
            lds_bytes: CELLS * CELL_BYTES,
            ..Dispatch::default()
        }
    }

    /// Runs the kernel. Returns the time, and the number of executed wave instructions.
    fn round(&self, memory: &Flat) -> (Duration, u64) {
        let cell = |item: u32, n: u32| DATA + u64::from(n * CELL_BYTES + item * 4);
        let initial = |item: u32| [0, 1, 2, 3].map(|n| item * CELLS + n);
        for item in 0..ITEMS.into() {
            for (n, value) in (0..).zip(initial(item)) {
                let written = memory.write(cell(item, n), &value.to_le_bytes());
                written.expect("memory of the cells");
            }
        }
        let dispatch = self.dispatch();
        let host = Recorder::default();
        let start = Instant::now();
        let mut workgroup = Workgroup::new(&dispatch, [0; 3]).expect("a valid dispatch");
        workgroup.run(memory, &host).expect("a valid kernel");
        let time = start.elapsed();
        for item in 0..ITEMS.into() {
            let mut expected = initial(item);
            (self.expected)(
                &mut expected,
                self.iterations * self.repeat,
                self.iterations,
            );
            for (n, value) in (0..).zip(expected) {
                let mut bytes = [0; 4];
                let read = memory.read(cell(item, n), &mut bytes);
                read.expect("memory of the cells");
                let found = u32::from_le_bytes(bytes);
                let (name, target) = (self.name, self.target);
                assert_eq!(
                    found, value,
                    "{target:?} {name}: work-item {item}, cell {n}"
                );
            }
        }
        (time, workgroup.executed())
    }

    /// Prints the speed of the fastest round.
    fn measure(&self) {
        let memory = Flat::new((DATA - CODE) as u32 + CELLS * CELL_BYTES);
        let code: Vec<u8> = self.code().iter().flat_map(|w| w.to_le_bytes()).collect();
        memory.write(CODE, &code).expect("memory of the code");
        self.round(&memory);
        let rounds = (0..ROUNDS).map(|_| self.round(&memory));
        let (time, executed) = rounds.min().expect("there are rounds");
        let rate = |number: u64| number as f64 / time.as_secs_f64().max(1e-9);
        let iterations = u64::from(self.iterations);
        let waves = u64::from(ITEMS) / self.target.lanes() as u64;
        let work = match self.work {
            Work::None => String::new(),
            Work::Flops(n) => {
                let rate = rate(n * iterations * waves);
                format!(", {:.3} GFLOP/s", rate / 1e9)
            }
            Work::Bytes(n) => {
                let rate = rate(n * iterations * u64::from(ITEMS));
                format!(", {:.3} GB/s", rate / 1e9)
            }
        };
        let target = match self.target {
            Target::Gfx942 => "gfx942",
            _ => "gfx1201",
        };
        println!(
            "wave: {target:<7} {:<10} {:8.3} M instructions/s{work}",
            self.name,
            rate(executed) / 1e6
        );
    }
}

fn main() {
    // cargo adds `--bench`.
    let names: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    for target in [Target::Gfx942, Target::Wave32] {
        let kinds = [scalar, vector, memory, lds, matrix].map(|kind| kind(target));
        let f32 = (target == Target::Gfx942).then(matrix_f32);
        for kind in kinds.into_iter().chain(f32) {
            if names.is_empty() || names.iter().any(|name| kind.name.contains(name)) {
                kind.measure();
            }
        }
    }
}
