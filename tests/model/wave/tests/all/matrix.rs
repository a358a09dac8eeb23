// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MFMA and SMFMAC kernels compiled by clang, compared with products in plain Rust; register
//! indexing at run time.

use crate::common::place::DATA;
use crate::common::{Args, Machine, Rng};
use gpu_wave::Memory;

const SOURCE: &str = include_str!("../kernels/matrix.cl");
const A: u64 = DATA;
const B: u64 = DATA + 0x10_0000;
const D: u64 = DATA + 0x20_0000;

fn machine() -> Machine {
    Machine::compile("matrix", SOURCE, &["-O2"])
}

fn run(m: &Machine, name: &str) {
    m.launch(
        name,
        [64, 1, 1],
        [64, 1, 1],
        &Args::new().u64(A).u64(B).u64(D),
    );
}

/// Small integers: exact in any order of summation.
fn numbers(count: usize, seed: u64) -> Vec<i32> {
    let mut rng = Rng(seed);
    (0..count).map(|_| (rng.u32() % 31) as i32 - 15).collect()
}

fn put_f32(m: &Machine, va: u64, values: &[i32]) {
    m.ram.put_u32(
        va,
        &values
            .iter()
            .map(|&v| (v as f32).to_bits())
            .collect::<Vec<_>>(),
    );
}

fn get_f32(m: &Machine, count: usize) -> Vec<i32> {
    m.ram
        .get_u32(D, count)
        .iter()
        .map(|&v| f32::from_bits(v) as i32)
        .collect()
}

/// Returns C + A * B; A is `size` x `depth`, B `depth` x `size`, row-major.
fn product(a: &[i32], b: &[i32], c: &[i32], size: usize, depth: usize) -> Vec<i32> {
    let cell = |n: usize| {
        let (row, column) = (n / size, n % size);
        let sum: i32 = (0..depth)
            .map(|k| a[row * depth + k] * b[k * size + column])
            .sum();
        c[n] + sum
    };
    (0..size * size).map(cell).collect()
}

#[test]
fn f32_with_addend() {
    let m = machine();
    let (a, b, c) = (numbers(64, 1), numbers(64, 2), numbers(1024, 3));
    put_f32(&m, A, &a);
    put_f32(&m, B, &b);
    put_f32(&m, D, &c);
    run(&m, "f32_32x32x2");
    assert_eq!(get_f32(&m, 1024), product(&a, &b, &c, 32, 2));
}

#[test]
fn f32_blocks() {
    let m = machine();
    let (a, b) = (numbers(64, 4), numbers(64, 5));
    put_f32(&m, A, &a);
    put_f32(&m, B, &b);
    for (name, size) in [("f32_32x32x1", 32), ("f32_4x4x1", 4)] {
        run(&m, name);
        let zero = vec![0; size * size];
        let blocks = a.chunks(size).zip(b.chunks(size));
        let want: Vec<i32> = blocks
            .flat_map(|(a, b)| product(a, b, &zero, size, 1))
            .collect();
        assert_eq!(get_f32(&m, want.len()), want, "{name}");
    }
}

/// Returns a small number as f16.
fn half(v: i32) -> u16 {
    let (sign, m) = (if v < 0 { 0x8000 } else { 0 }, v.unsigned_abs());
    if m == 0 {
        return sign;
    }
    let e = 31 - m.leading_zeros();
    sign | ((e + 15) << 10 | (m << 10 >> e & 0x3ff)) as u16
}

fn put_f16(m: &Machine, va: u64, values: &[i32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|&v| half(v).to_le_bytes()).collect();
    m.ram.put(va, &bytes);
}

fn put_bytes(m: &Machine, va: u64, values: &[i32]) {
    let bytes: Vec<u8> = values.iter().map(|&v| v as u8).collect();
    m.ram.put(va, &bytes);
}

fn put_f64(m: &Machine, va: u64, values: &[i32]) {
    let bytes = values.iter().flat_map(|&v| f64::from(v).to_le_bytes());
    m.ram.put(va, &bytes.collect::<Vec<u8>>());
}

#[test]
fn f16() {
    let m = machine();
    let (a, b) = (numbers(256, 6), numbers(256, 7));
    put_f16(&m, A, &a);
    put_f16(&m, B, &b);
    run(&m, "f16_16x16x16");
    assert_eq!(get_f32(&m, 256), product(&a, &b, &[0; 256], 16, 16));
}

#[test]
fn bytes() {
    let m = machine();
    let (a, b) = (numbers(512, 8), numbers(512, 9));
    put_bytes(&m, A, &a);
    put_bytes(&m, B, &b);
    run(&m, "i8_16x16x32");
    let got: Vec<i32> = m.ram.get_u32(D, 256).iter().map(|&v| v as i32).collect();
    assert_eq!(got, product(&a, &b, &[0; 256], 16, 32));
}

#[test]
fn f64() {
    let m = machine();
    let (a, b) = (numbers(64, 10), numbers(64, 11));
    put_f64(&m, A, &a);
    put_f64(&m, B, &b);
    run(&m, "f64_16x16x4");
    let got: Vec<i32> = m
        .ram
        .get_u64(D, 256)
        .iter()
        .map(|&v| f64::from_bits(v) as i32)
        .collect();
    assert_eq!(got, product(&a, &b, &[0; 256], 16, 4));
}

#[test]
fn f64_blocks() {
    let m = machine();
    let (a, b, c) = (numbers(64, 13), numbers(64, 14), numbers(64, 15));
    put_f64(&m, A, &a);
    put_f64(&m, B, &b);
    put_f64(&m, D, &c);
    run(&m, "f64_4x4x4");
    let got = m.ram.get_u64(D, 64);
    let got: Vec<i32> = got.iter().map(|&v| f64::from_bits(v) as i32).collect();
    let blocks = a.chunks(16).zip(b.chunks(16)).zip(c.chunks(16));
    let want: Vec<i32> = blocks
        .flat_map(|((a, b), c)| product(a, b, c, 4, 4))
        .collect();
    assert_eq!(got, want);
}

/// Numbers with two nonzero elements, at any position, in every four.
fn sparse_numbers(count: usize, seed: u64) -> Vec<i32> {
    let mut rng = Rng(seed);
    let mut fours = Vec::new();
    for _ in 0..count / 4 {
        let mut four = [0; 4];
        let first = rng.u32() as usize % 4;
        let second = (first + 1 + rng.u32() as usize % 3) % 4;
        four[first] = 1 + (rng.u32() % 15) as i32;
        four[second] = -1 - (rng.u32() % 15) as i32;
        fours.extend(four);
    }
    fours
}

#[test]
fn sparse_f16() {
    let m = machine();
    let (a, b, c) = (sparse_numbers(512, 16), numbers(512, 17), numbers(256, 18));
    put_f16(&m, A, &a);
    put_f16(&m, B, &b);
    put_f32(&m, D, &c);
    run(&m, "sparse_f16");
    assert_eq!(get_f32(&m, 256), product(&a, &b, &c, 16, 32));
}

#[test]
fn sparse_bytes() {
    let m = machine();
    let (a, b) = (sparse_numbers(1024, 19), numbers(1024, 20));
    put_bytes(&m, A, &a);
    put_bytes(&m, B, &b);
    run(&m, "sparse_i8");
    let got: Vec<i32> = m.ram.get_u32(D, 1024).iter().map(|&v| v as i32).collect();
    assert_eq!(got, product(&a, &b, &[0; 1024], 32, 32));
}

#[test]
fn indexed_registers() {
    for level in ["-O1", "-O2", "-O3"] {
        let m = Machine::compile("matrix", SOURCE, &[level]);
        let mut rng = Rng(12);
        let data: Vec<u32> = (0..128).map(|_| rng.u32()).collect();
        m.ram.put_u32(A, &data);
        for n in [0, 5, 13, 30] {
            let args = Args::new().u64(A).u64(D).u32(n);
            m.launch("indexed", [128, 1, 1], [64, 1, 1], &args);
            for (i, v) in (0u32..).zip(&data) {
                let mut vector: Vec<u32> = (1..=16).map(|k| v.wrapping_mul(k)).collect();
                vector[(n & 15) as usize] = i;
                let want = vector[((n + 3) & 15) as usize] ^ vector[(v & 15) as usize];
                let mut got = [0; 4];
                m.ram.read(D + 4 * u64::from(i), &mut got).unwrap();
                assert_eq!(u32::from_le_bytes(got), want, "{level} index {n} item {i}");
            }
        }
    }
}
