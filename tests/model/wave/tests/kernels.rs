// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernels compiled by clang, run from start to end, results checked against Rust.

mod common;

use common::place::DATA;
use common::{Args, Machine, Rng};

const BASIC: &str = include_str!("kernels/basic.cl");
const LEVELS: [&str; 3] = ["-O1", "-O2", "-O3"];

fn each_level(test: impl Fn(&Machine)) {
    for level in LEVELS {
        test(&Machine::compile("basic", BASIC, &[level]));
    }
}

fn random(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng(seed);
    (0..count).map(|_| rng.u32()).collect()
}

const A: u64 = DATA;
const B: u64 = DATA + 0x10_0000;
const C: u64 = DATA + 0x20_0000;

#[test]
fn vector_add() {
    each_level(|m| {
        let (a, b) = (random(4096, 1), random(4096, 2));
        m.ram.put_u32(A, &a);
        m.ram.put_u32(B, &b);
        m.launch(
            "vadd",
            [4096, 1, 1],
            [256, 1, 1],
            &Args::new().u64(A).u64(B).u64(C),
        );
        let expected: Vec<u32> = a.iter().zip(&b).map(|(a, b)| a.wrapping_add(*b)).collect();
        assert_eq!(m.ram.get_u32(C, 4096), expected);
    });
}

#[test]
fn fill_with_partial_workgroup() {
    each_level(|m| {
        m.launch(
            "fill",
            [1000, 1, 1],
            [256, 1, 1],
            &Args::new().u64(C).u32(0xabcd).u32(990),
        );
        let out = m.ram.get_u32(C, 1024);
        for (i, v) in out.iter().enumerate() {
            assert_eq!(
                *v,
                if i < 990 { 0xabcd ^ i as u32 } else { 0 },
                "element {i}"
            );
        }
    });
}

#[test]
fn saxpy() {
    each_level(|m| {
        let mut rng = Rng(3);
        let x: Vec<f32> = (0..640).map(|_| rng.f32()).collect();
        let y: Vec<f32> = (0..640).map(|_| rng.f32()).collect();
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        m.ram.put_u32(A, &bits(&x));
        m.ram.put_u32(B, &bits(&y));
        m.launch(
            "saxpy",
            [640, 1, 1],
            [64, 1, 1],
            &Args::new().f32(1.7).u64(A).u64(B),
        );
        // OpenCL C contracts to a fused multiply-add.
        let expected: Vec<f32> = x
            .iter()
            .zip(&y)
            .map(|(x, y)| 1.7f32.mul_add(*x, *y))
            .collect();
        assert_eq!(m.ram.get_u32(B, 640), bits(&expected));
    });
}

#[test]
fn copies_of_several_widths() {
    each_level(|m| {
        let data = random(4 * 192, 4);
        m.ram.put_u32(A, &data);
        m.launch(
            "copy16",
            [192, 1, 1],
            [64, 1, 1],
            &Args::new().u64(C).u64(A),
        );
        assert_eq!(m.ram.get_u32(C, data.len()), data);

        m.launch(
            "bytes",
            [128, 1, 1],
            [64, 1, 1],
            &Args::new().u64(B).u64(A).u64(C),
        );
        let bytes: Vec<u8> = data
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .take(128)
            .collect();
        let narrow: Vec<u8> = m
            .ram
            .get_u32(B, 32)
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        let wide = m.ram.get_u32(C, 64);
        for (i, &byte) in bytes.iter().enumerate() {
            assert_eq!(narrow[i], byte.wrapping_add(3), "byte {i}");
            let half = (wide[i / 2] >> (16 * (i % 2))) as u16;
            assert_eq!(half, i16::from(byte as i8) as u16, "short {i}");
        }
    });
}

#[test]
fn reduction_in_lds() {
    each_level(|m| {
        let data = random(8 * 1024, 5);
        m.ram.put_u32(A, &data);
        m.launch(
            "reduce",
            [8 * 256, 1, 1],
            [256, 1, 1],
            &Args::new().u64(A).u64(C),
        );
        let expected: Vec<u32> = data
            .chunks(1024)
            .map(|c| c.iter().fold(0, |s: u32, v| s.wrapping_add(*v)))
            .collect();
        assert_eq!(m.ram.get_u32(C, 8), expected);
    });
}

#[test]
fn atomics() {
    each_level(|m| {
        let data = random(640, 6);
        m.ram.put_u32(A, &data);
        m.ram.put_u32(B, &[0; 17]);
        m.launch(
            "histogram",
            [640, 1, 1],
            [64, 1, 1],
            &Args::new().u64(A).u64(B).u64(B + 64),
        );
        let mut expected = [0; 16];
        data.iter().for_each(|v| expected[(v & 15) as usize] += 1);
        assert_eq!(m.ram.get_u32(B, 16), expected);
        assert_eq!(f32::from_bits(m.ram.get_u32(B + 64, 1)[0]), 640.0);
    });
}

#[test]
fn divergent_loop() {
    each_level(|m| {
        let data: Vec<u32> = (1..=256).collect();
        m.ram.put_u32(A, &data);
        m.launch(
            "collatz",
            [256, 1, 1],
            [64, 1, 1],
            &Args::new().u64(A).u64(C),
        );
        let steps = |mut v: u32| {
            let mut n = 0;
            while v != 1 {
                v = if v & 1 == 1 { 3 * v + 1 } else { v / 2 };
                n += 1;
            }
            n
        };
        let expected: Vec<u32> = data.iter().map(|&v| steps(v)).collect();
        assert_eq!(m.ram.get_u32(C, 256), expected);
    });
}

#[test]
fn three_dimensions_with_partial_workgroups() {
    each_level(|m| {
        let (nx, ny, nz) = (13, 7, 9);
        m.launch(
            "grid3",
            [nx, ny, nz],
            [5, 3, 4],
            &Args::new().u64(C).u32(nx).u32(ny),
        );
        let out = m.ram.get_u32(C, (nx * ny * nz) as usize);
        for (i, v) in (0..).zip(out) {
            let (x, y, z) = (i % nx, i / nx % ny, i / nx / ny);
            assert_eq!(v, x | y << 8 | z << 16, "{x},{y},{z}");
        }
    });
}

#[test]
fn stack_array() {
    let mut levels = LEVELS.to_vec();
    levels.push("-O0");
    for level in levels {
        let m = Machine::compile("basic", BASIC, &[level]);
        let data = random(256, 8);
        m.ram.put_u32(A, &data);
        m.launch("stack", [256, 1, 1], [64, 1, 1], &Args::new().u64(A).u64(C));
        let expected: Vec<u32> = data
            .iter()
            .map(|&v| {
                let mut a: Vec<u32> = (1..=32).map(|k| v.wrapping_mul(k)).collect();
                let mut s = 0u32;
                for k in 0..8u32 {
                    let at = v >> (k * 2) & 31;
                    a[at as usize] = a[at as usize].wrapping_add(k);
                    s = s
                        .wrapping_mul(31)
                        .wrapping_add(a[(at * 7 + k & 31) as usize]);
                }
                s
            })
            .collect();
        assert_eq!(m.ram.get_u32(C, 256), expected, "{level}");
    }
}
