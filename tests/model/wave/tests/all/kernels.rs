// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernels compiled by clang, results checked against Rust.

use crate::common::llvm::{Target, TARGETS};
use crate::common::place::DATA;
use crate::common::{Args, Machine, Rng};

const BASIC: &str = include_str!("../kernels/basic.cl");
const LEVELS: [&str; 3] = ["-O1", "-O2", "-O3"];

/// Compiles a kernel source for each target and optimisation level, and returns their labels.
fn machines<'a>(
    name: &'a str,
    source: &'a str,
    levels: &'a [&str],
) -> impl Iterator<Item = (String, Target, Machine)> + 'a {
    TARGETS.into_iter().flat_map(move |target| {
        levels.iter().map(move |level| {
            let machine = Machine::compile_for(target, name, source, &[level]);
            (format!("{target:?} {level}"), target, machine)
        })
    })
}

fn each_level(test: impl Fn(&Machine)) {
    for (_, _, machine) in machines("basic", BASIC, &LEVELS) {
        test(&machine);
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
        // OpenCL C contracts this to a fused multiply-add.
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
    for (level, _, m) in machines("basic", BASIC, &["-O0", "-O1", "-O2", "-O3"]) {
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

const WIDE: &str = include_str!("../kernels/wide.cl");
const N: usize = 256;

/// Runs kernel `name` with N work-items on two arrays of `T` at each level, and checks the outputs:
/// `expected` returns those of one work-item.
fn two_inputs<T: Word>(
    name: &str,
    a: &[T],
    b: &[T],
    expected: impl Fn(T, T) -> Vec<T>,
    same: impl Fn(T, T) -> bool,
) {
    for (level, _, m) in machines("wide", WIDE, &["-O0", "-O1", "-O2", "-O3"]) {
        m.ram.put(A, &T::bytes(a));
        m.ram.put(B, &T::bytes(b));
        let args = Args::new().u64(A).u64(B).u64(C).u32(N as u32);
        m.launch(name, [N as u32, 1, 1], [64, 1, 1], &args);
        for i in 0..N {
            for (k, want) in expected(a[i], b[i]).into_iter().enumerate() {
                let got = T::read(&m, C, k * N + i);
                assert!(
                    same(got, want),
                    "{level} item {i} output {k}: got {got:x?}, expected {want:x?}, from {:x?} {:x?}",
                    a[i],
                    b[i]
                );
            }
        }
    }
}

trait Word: Copy + std::fmt::LowerHex + std::fmt::Debug {
    const SIZE: usize;
    fn from_bits(bits: u64) -> Self;
    fn to_bits(self) -> u64;

    fn bytes(values: &[Self]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|v| v.to_bits().to_le_bytes()[..Self::SIZE].to_vec())
            .collect()
    }

    fn read(m: &Machine, base: u64, index: usize) -> Self {
        let mut cell = [0; 8];
        let va = base + (index * Self::SIZE) as u64;
        gpu_wave::Memory::read(&m.ram, va, &mut cell[..Self::SIZE]).expect("in memory");
        Self::from_bits(u64::from_le_bytes(cell))
    }
}

impl Word for u16 {
    const SIZE: usize = 2;
    fn from_bits(bits: u64) -> Self {
        bits as u16
    }
    fn to_bits(self) -> u64 {
        self.into()
    }
}

impl Word for u32 {
    const SIZE: usize = 4;
    fn from_bits(bits: u64) -> Self {
        bits as u32
    }
    fn to_bits(self) -> u64 {
        self.into()
    }
}

impl Word for u64 {
    const SIZE: usize = 8;
    fn from_bits(bits: u64) -> Self {
        bits
    }
    fn to_bits(self) -> u64 {
        self
    }
}

fn random64(seed: u64) -> Vec<u64> {
    let mut rng = Rng(seed);
    (0..N).map(|_| rng.u64() >> (rng.u32() % 64)).collect()
}

#[test]
fn integers_of_64_bits() {
    two_inputs(
        "int64",
        &random64(11),
        &random64(12),
        |x, y| {
            let y = y | 1;
            let (sx, sy) = (x as i64, y as i64);
            let choose = if sx < sy {
                x.wrapping_sub(y)
            } else {
                x.wrapping_add(y)
            };
            vec![
                x.wrapping_mul(y),
                x / y,
                x % y,
                sx.wrapping_div(sy >> 33 | 1) as u64,
                (x << (y & 63)) ^ (sx >> (x & 63)) as u64 ^ (x >> 7),
                u64::from(x.count_ones() + 100 * y.leading_zeros() + 10000 * y.trailing_zeros()),
                choose,
            ]
        },
        |a, b| a == b,
    );
}

#[test]
fn integers_of_32_bits() {
    let narrow = |seed| {
        random64(seed)
            .into_iter()
            .map(|v| v as u32)
            .collect::<Vec<_>>()
    };
    two_inputs(
        "int32",
        &narrow(13),
        &narrow(14),
        |x, y| {
            let y = y | 1;
            let (sx, sy) = (x as i32, y as i32);
            vec![
                x / y,
                x % (y & 0xff),
                if sy == -1 { 0 } else { (sx / sy) as u32 },
                (u64::from(x) * u64::from(y) >> 32) as u32,
                (x / 7).wrapping_add((sx % 10) as u32),
                x >> 3 & 0xff | y << 24,
                x.rotate_left(y & 31),
                match x & 7 {
                    0 => y.wrapping_mul(3),
                    1 => y.wrapping_add(5),
                    2 => y ^ 9,
                    5 => y >> 2,
                    _ => !y,
                },
            ]
        },
        |a, b| a == b,
    );
}

#[test]
fn floats() {
    let values = |seed| {
        let mut rng = Rng(seed);
        (0..N).map(|_| rng.f32().to_bits()).collect::<Vec<_>>()
    };
    let close = |a: u32, b: u32| a == b || f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan();
    two_inputs(
        "floats",
        &values(15),
        &values(16),
        |x, y| {
            let (x, y) = (f32::from_bits(x), f32::from_bits(y));
            let out = [
                x / y,
                x.abs().sqrt(),
                x.floor() + y.ceil(),
                x.min(y) - x.max(1.0),
                x as i32 as f32 + y.abs() as u32 as f32,
                x.trunc() * y.round_ties_even(),
                if x > y { x } else { -y },
                x as i64 as f32 + y.abs() as u64 as f32,
            ];
            out.map(f32::to_bits).to_vec()
        },
        move |a, b| close(a, b) || a.abs_diff(b) <= 3,
    );
}

#[test]
fn doubles() {
    let values = |seed| {
        let mut rng = Rng(seed);
        let value = |bits: u64| bits & 0x800f_ffff_ffff_ffff | (1023 - 20 + bits % 41) << 52;
        (0..N).map(|_| value(rng.u64())).collect::<Vec<_>>()
    };
    two_inputs(
        "doubles",
        &values(17),
        &values(18),
        |x, y| {
            let (x, y) = (f64::from_bits(x), f64::from_bits(y));
            let out = [
                x / y,
                x.abs().sqrt(),
                x.floor() + y.ceil(),
                x.mul_add(y, 1.0),
                f64::from(x as i32) - f64::from(y as f32),
                x as i64 as f64 + y.abs() as u64 as f64,
                x.min(y) * x.max(y),
            ];
            out.map(f64::to_bits).to_vec()
        },
        |a, b| a == b,
    );
}

#[test]
fn halves() {
    // Small integers: every result except the quotient is exact.
    let half = |v: i32| -> u16 {
        let m = v.unsigned_abs();
        let sign = if v < 0 { 0x8000 } else { 0 };
        if m == 0 {
            return sign;
        }
        let e = 31 - m.leading_zeros();
        sign | ((e + 15) << 10 | (m << 10 >> e & 0x3ff)) as u16
    };
    let numbers = |seed: u64| {
        let mut rng = Rng(seed);
        (0..N)
            .map(|_| (rng.u32() % 41) as i32 - 20)
            .filter(|&v| v != 0)
            .chain(1..)
            .take(N)
            .map(|v| v % 40)
            .map(|v| if v == 0 { 1 } else { v })
            .collect::<Vec<i32>>()
    };
    let (a, b) = (numbers(19), numbers(20));
    let to = |v: &[i32]| v.iter().map(|&v| half(v)).collect::<Vec<u16>>();
    let back = |h: u16| -> i32 {
        (-60..=2000)
            .find(|&v| half(v) == h)
            .expect("a whole number")
    };
    two_inputs(
        "halves",
        &to(&a),
        &to(&b),
        |x, y| {
            let (x, y) = (back(x), back(y));
            let mut out = vec![
                half(x + y),
                half(x * y),
                half(x + 1),
                half(x.max(y)),
                half(x),
            ];
            if x % y == 0 {
                out.push(half(x / y));
            }
            out
        },
        |a, b| a == b || a & 0x7fff == 0 && b & 0x7fff == 0,
    );
}

#[test]
fn packed_halves() {
    for (level, _, m) in machines("wide", WIDE, &["-O2"]) {
        // 2.0 and 3.0, 0.5 and -1.0.
        let (a, b) = (0x4200_4000, 0xbc00_3800);
        m.ram.put_u32(A, &[a; 64]);
        m.ram.put_u32(B, &[b; 64]);
        m.launch(
            "half2s",
            [64, 1, 1],
            [64, 1, 1],
            &Args::new().u64(A).u64(B).u64(C).u32(64),
        );
        // 2.5 and 2.0; 3.0 and 0.0.
        assert_eq!(m.ram.get_u32(C, 64), [0x4000_4100; 64], "{level}");
        assert_eq!(m.ram.get_u32(C + 256, 64), [0x0000_4200; 64], "{level}");
    }
}

#[test]
fn vectors() {
    for (level, _, m) in machines("wide", WIDE, &["-O0", "-O2", "-O3"]) {
        let mut rng = Rng(21);
        let mut floats = || (0..4 * N).map(|_| rng.f32()).collect::<Vec<f32>>();
        let (a, b) = (floats(), floats());
        let put = |va, v: &[f32]| {
            m.ram
                .put_u32(va, &v.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        };
        put(A, &a);
        put(B, &b);
        let bytes: Vec<u8> = (0..4 * N).map(|_| rng.u32() as u8).collect();
        let (c, d, e) = (DATA + 0x30_0000, DATA + 0x40_0000, DATA + 0x50_0000);
        m.ram.put(c, &bytes);
        let args = Args::new().u64(A).u64(B).u64(C).u64(c).u64(d).u64(e);
        m.launch("vectors", [N as u32, 1, 1], [64, 1, 1], &args);
        for i in 0..N {
            let x: Vec<f32> = (0..4)
                .map(|k| a[4 * i + k].mul_add(b[4 * i + k], a[4 * i + 3 - k]))
                .collect();
            let got = m.ram.get_u32(C + 16 * i as u64, 4);
            assert_eq!(
                got,
                [1, 0, 3, 2].map(|k: usize| x[k].to_bits()),
                "{level} {i}"
            );
            let v: Vec<i32> = bytes[4 * i..4 * i + 4].iter().map(|&b| b.into()).collect();
            let short = |k: usize, f: i32| (v[k] * f) as u32 & 0xffff;
            let want = [
                short(0, 3) | short(1, -4) << 16,
                short(2, 5) | short(3, -6) << 16,
            ];
            assert_eq!(m.ram.get_u32(d + 8 * i as u64, 2), want, "{level} {i}");
            let want = [(v[0] as u64) << 40, -i64::from(v[1]) as u64];
            assert_eq!(m.ram.get_u64(e + 16 * i as u64, 2), want, "{level} {i}");
        }
    }
}

#[test]
fn calls_and_stack() {
    let mix = |a: u32, b: u32, depth: u32| {
        let k = (a ^ b) & 7;
        a.wrapping_mul(k + depth).wrapping_add(b) ^ b >> 3
    };
    for (level, _, m) in machines("wide", WIDE, &["-O0", "-O1", "-O2", "-O3"]) {
        let data = random(N, 22);
        m.ram.put_u32(A, &data);
        m.launch(
            "calls",
            [N as u32, 1, 1],
            [64, 1, 1],
            &Args::new().u64(A).u64(C),
        );
        let out = m.ram.get_u32(C, N);
        for i in 0..N {
            let want = (0..5).fold(data[i], |v, k| mix(v, i as u32, k));
            assert_eq!(out[i], want, "{level} item {i}");
        }
    }
}

#[test]
fn lane_operations() {
    for (level, target, m) in machines("wide", WIDE, &["-O1", "-O2", "-O3"]) {
        let data = random(N, 23);
        m.ram.put_u32(A, &data);
        let args = Args::new().u64(A).u64(C).u32(N as u32);
        m.launch("lanes", [N as u32, 1, 1], [64, 1, 1], &args);
        let out = m.ram.get_u32(C, 6 * N);
        for (i, &v) in data.iter().enumerate() {
            let lanes = target.lanes();
            let (wave, lane) = (i / lanes * lanes, i % lanes);
            let of = |l: usize| data[wave + l];
            let sum = (0..=lane).fold(0u32, |s, l| s.wrapping_add(of(l)));
            assert_eq!(out[i], sum, "{level} prefix sum {i}");
            assert_eq!(out[i + N], of((lane + 5) % lanes), "{level} rotation {i}");
            let odd = (0..lane).filter(|&l| of(l) & 1 != 0).count();
            assert_eq!(out[i + 2 * N] as usize, odd, "{level} ballot {i}");
            assert_eq!(out[i + 3 * N], of(0) ^ of(17), "{level} broadcast {i}");
            assert_eq!(out[i + 4 * N], of(lane ^ 1), "{level} swizzle {i}");
            let first = (0..lanes).find(|&l| of(l) & 2 != 0).unwrap_or(0);
            let want = if v & 2 != 0 { wave + first + 1 } else { 0 };
            assert_eq!(
                out[i + 5 * N] as usize,
                want,
                "{level} first active lane {i}"
            );
        }
    }
}

#[test]
fn atomics_of_several_kinds() {
    for (level, _, m) in machines("wide", WIDE, &["-O1", "-O3"]) {
        let data = random(N, 24);
        m.ram.put_u32(A, &data);
        m.ram.put_u32(
            B,
            &[u32::MAX, i32::MIN as u32, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        );
        let args = Args::new().u64(A).u64(B).u64(B + 32).u64(B + 40);
        m.launch("atomic_kinds", [N as u32, 1, 1], [64, 1, 1], &args);
        let want = [
            *data.iter().min().unwrap(),
            data.iter().map(|&v| v as i32).max().unwrap() as u32,
            data.iter().fold(0, |r, v| r | v & 0xf0f0),
            data.iter().fold(0, |r, v| r ^ v),
            data.iter().fold(1u32, |r, v| r.wrapping_mul(v | 1)),
        ];
        assert_eq!(m.ram.get_u32(B, 5), want, "{level}");
        let sum: u64 = data.iter().map(|&v| u64::from(v) << 4).sum();
        assert_eq!(m.ram.get_u64(B + 32, 1), [sum], "{level}");
        let sum: u32 = data.iter().map(|v| v & 0xff).sum();
        assert_eq!(
            m.ram.get_u64(B + 40, 1),
            [f64::from(sum).to_bits()],
            "{level}"
        );
    }
}

#[test]
fn transpose_and_sort_in_lds() {
    for (level, _, m) in machines("wide", WIDE, &["-O0", "-O2", "-O3"]) {
        let mut rng = Rng(25);
        let data: Vec<u64> = (0..3 * 256).map(|_| rng.u64()).collect();
        m.ram.put(A, &u64::bytes(&data));
        m.launch(
            "transpose",
            [3 * 64, 1, 1],
            [64, 1, 1],
            &Args::new().u64(A).u64(C),
        );
        let out = m.ram.get_u64(C, 3 * 256);
        for (i, v) in out.iter().enumerate() {
            let (tile, x, y) = (i / 256 * 256, i % 16, i / 16 % 16);
            assert_eq!(*v, data[tile + x * 16 + y], "{level} {i}");
        }

        let mut data = random(1024, 26);
        m.ram.put_u32(A, &data);
        m.launch("sort", [512, 1, 1], [256, 1, 1], &Args::new().u64(A));
        data.chunks_mut(512).for_each(<[u32]>::sort_unstable);
        assert_eq!(m.ram.get_u32(A, 1024), data, "{level}");
    }
}

#[test]
fn dispatch_packet_and_wave_ids() {
    for (level, _, m) in machines("wide", WIDE, &["-O2"]) {
        m.launch("self", [128, 1, 1], [64, 1, 1], &Args::new().u64(C));
        for (i, words) in m.ram.get_u32(C, 8 * 128).chunks(8).enumerate() {
            let group = i as u32 / 64;
            assert_eq!(words[..6], [64, 128, 1, group, 1, 0], "{level} item {i}");
        }
        let messages = m.host.messages.lock().unwrap();
        let got: Vec<_> = messages.iter().map(|m| (m.id, m.m0)).collect();
        assert_eq!(got, [(1, 0x12_3456)], "{level}");
    }
}
