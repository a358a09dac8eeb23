// SPDX-License-Identifier: GPL-2.0 OR MIT

//! WMMA and SWMMAC kernels of gfx1201 compiled by clang, compared with products in plain Rust.

use crate::common::llvm::Target;
use crate::common::place::DATA;
use crate::common::{Args, Machine, Rng};
use gpu_wave::Memory;

const SOURCE: &str = include_str!("../kernels/wmma.cl");
const A: u64 = DATA;
const B: u64 = DATA + 0x10_0000;
const D: u64 = DATA + 0x20_0000;
const SIZE: usize = 16;

fn machine() -> Machine {
    Machine::compile_for(Target::Wave32, "wmma", SOURCE, &["-O2"])
}

/// Small integers, exact in each format and sum; bf8 has a 3-bit significand.
fn numbers(count: usize, seed: u64, most: i32) -> Vec<i32> {
    let mut rng = Rng(seed);
    let span = 2 * most as u32 + 1;
    (0..count)
        .map(|_| (rng.u32() % span) as i32 - most)
        .collect()
}

/// Returns C + A * B; A is 16 x `depth`, B `depth` x 16, row-major.
fn product(a: &[i32], b: &[i32], c: &[i32], depth: usize) -> Vec<i32> {
    let cell = |n: usize| {
        let (row, column) = (n / SIZE, n % SIZE);
        let part = |k: usize| a[row * depth + k] * b[k * SIZE + column];
        c[n] + (0..depth).map(part).sum::<i32>()
    };
    (0..SIZE * SIZE).map(cell).collect()
}

fn half(x: i32) -> u16 {
    if x == 0 {
        return 0;
    }
    let magnitude = x.unsigned_abs();
    let exponent = 31 - magnitude.leading_zeros();
    let sign = if x < 0 { 0x8000 } else { 0 };
    sign | ((exponent + 15) << 10 | (magnitude << 10 >> exponent) & 0x3ff) as u16
}

fn bf16(x: i32) -> u16 {
    ((x as f32).to_bits() >> 16) as u16
}

/// Returns an fp8 or bf8, by the width of the mantissa.
fn eight(x: i32, mantissa: u32) -> u8 {
    if x == 0 {
        return 0;
    }
    let bias = if mantissa == 3 { 7 } else { 15 };
    let magnitude = x.unsigned_abs();
    let exponent = 31 - magnitude.leading_zeros();
    let sign = if x < 0 { 0x80 } else { 0 };
    let rest = (magnitude << mantissa >> exponent) & ((1 << mantissa) - 1);
    sign | ((exponent + bias) << mantissa | rest) as u8
}

fn put16(m: &Machine, va: u64, values: &[i32], convert: fn(i32) -> u16) {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|&v| convert(v).to_le_bytes())
        .collect();
    m.ram.write(va, &bytes).unwrap();
}

fn put8(m: &Machine, va: u64, values: &[i32], convert: fn(i32) -> u8) {
    let bytes: Vec<u8> = values.iter().map(|&v| convert(v)).collect();
    m.ram.write(va, &bytes).unwrap();
}

fn run(m: &Machine, name: &str, place: u32) {
    let args = Args::new().u64(A).u64(B).u64(D).u32(place);
    m.launch(name, [32, 1, 1], [32, 1, 1], &args);
}

fn put_d(m: &Machine, values: &[i32], float: bool) {
    let bits = |&v: &i32| {
        if float {
            (v as f32).to_bits()
        } else {
            v as u32
        }
    };
    m.ram
        .put_u32(D, &values.iter().map(bits).collect::<Vec<_>>());
}

fn get_d(m: &Machine, float: bool) -> Vec<i32> {
    let value = |&v: &u32| {
        if float {
            f32::from_bits(v) as i32
        } else {
            v as i32
        }
    };
    m.ram.get_u32(D, SIZE * SIZE).iter().map(value).collect()
}

#[test]
fn dense_16_bits() {
    let m = machine();
    let (a, b, c) = (numbers(256, 1, 7), numbers(256, 2, 7), numbers(256, 3, 7));
    let want = product(&a, &b, &c, 16);
    for (name, convert) in [
        ("f32_f16", half as fn(i32) -> u16),
        ("f16_f16", half),
        ("f32_bf16", bf16),
    ] {
        put16(&m, A, &a, convert);
        put16(&m, B, &b, convert);
        put_d(&m, &c, true);
        run(&m, name, 0);
        assert_eq!(get_d(&m, true), want, "{name}");
    }
    // Sums that are exact in bf16.
    let (a, b) = (numbers(256, 4, 1), numbers(256, 5, 2));
    put16(&m, A, &a, bf16);
    put16(&m, B, &b, bf16);
    put_d(&m, &c, true);
    run(&m, "bf16_bf16", 0);
    assert_eq!(get_d(&m, true), product(&a, &b, &c, 16), "bf16_bf16");
}

#[test]
fn dense_8_bits() {
    let m = machine();
    let c = numbers(256, 6, 100);
    let (a, b) = (numbers(256, 7, 127), numbers(256, 8, 127));
    put8(&m, A, &a, |v| v as u8);
    put8(&m, B, &b, |v| v as u8);
    put_d(&m, &c, false);
    run(&m, "i32_iu8", 0);
    assert_eq!(get_d(&m, false), product(&a, &b, &c, 16), "i32_iu8");
    // A is fp8, B is bf8.
    let (a, b) = (numbers(256, 9, 15), numbers(256, 10, 7));
    put8(&m, A, &a, |v| eight(v, 3));
    put8(&m, B, &b, |v| eight(v, 2));
    put_d(&m, &c, true);
    run(&m, "f32_fp8", 0);
    assert_eq!(get_d(&m, true), product(&a, &b, &c, 16), "f32_fp8");
}

/// Returns a sparse A with its zeros: each pair is at `place` and `place` + 1 among four.
fn spread(a: &[i32], place: usize) -> Vec<i32> {
    let mut out = vec![0; SIZE * 32];
    for (n, &v) in a.iter().enumerate() {
        let (row, at) = (n / 16, n % 16);
        out[row * 32 + at / 2 * 4 + place + at % 2] = v;
    }
    out
}

#[test]
fn sparse() {
    let m = machine();
    let (a, b, c) = (
        numbers(256, 11, 7),
        numbers(512, 12, 7),
        numbers(256, 13, 7),
    );
    for place in 0..3 {
        let want = product(&spread(&a, place), &b, &c, 32);
        put16(&m, A, &a, half);
        put16(&m, B, &b, half);
        put_d(&m, &c, true);
        run(&m, "sparse_f32_f16", place as u32);
        assert_eq!(get_d(&m, true), want, "f16, {place}");
        put8(&m, A, &a, |v| v as u8);
        put8(&m, B, &b, |v| v as u8);
        put_d(&m, &c, false);
        run(&m, "sparse_i32_iu8", place as u32);
        assert_eq!(get_d(&m, false), want, "iu8, {place}");
    }
}
