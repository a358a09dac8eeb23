// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Matrix instructions of gfx1201 in a wave32: `D = A * B + C` with 16 rows and columns (WMMA), and
//! with a sparse A that has two nonzero elements of every four (SWMMAC).
//!
//! Lane `l` holds row `l % 16` of A and column `l % 16` of B, C and D. Lanes from 16 on hold the
//! second half of the elements k (A and B) and of the rows (C and D). EXEC is ignored. Sums run
//! from the lowest k to the highest; silicon does not guarantee an order.

use super::convert::widen8;
use super::valu::Tried;
use crate::float;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Wave};

/// Rows and columns.
const SIZE: usize = 16;

/// Element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    I4,
}

impl Kind {
    fn bits(self) -> usize {
        match self {
            Kind::F16 | Kind::Bf16 => 16,
            Kind::Fp8 | Kind::Bf8 | Kind::I8 => 8,
            Kind::I4 => 4,
        }
    }
}

/// Element type of C and D.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    F32,
    F16,
    Bf16,
    I32,
}

/// Element types of A and B, of C and D; depth; sparse A.
struct Shape {
    a: Kind,
    b: Kind,
    sum: Sum,
    depth: usize,
    sparse: bool,
}

fn shape(op: Op) -> Option<Shape> {
    use Op::*;
    let (a, b, sum, depth, sparse) = match op {
        v_wmma_f32_16x16x16_f16 => (Kind::F16, Kind::F16, Sum::F32, 16, false),
        v_wmma_f32_16x16x16_bf16 => (Kind::Bf16, Kind::Bf16, Sum::F32, 16, false),
        v_wmma_f16_16x16x16_f16 => (Kind::F16, Kind::F16, Sum::F16, 16, false),
        v_wmma_bf16_16x16x16_bf16 => (Kind::Bf16, Kind::Bf16, Sum::Bf16, 16, false),
        v_wmma_i32_16x16x16_iu8 => (Kind::I8, Kind::I8, Sum::I32, 16, false),
        v_wmma_i32_16x16x16_iu4 => (Kind::I4, Kind::I4, Sum::I32, 16, false),
        v_wmma_i32_16x16x32_iu4 => (Kind::I4, Kind::I4, Sum::I32, 32, false),
        v_wmma_f32_16x16x16_fp8_fp8 => (Kind::Fp8, Kind::Fp8, Sum::F32, 16, false),
        v_wmma_f32_16x16x16_fp8_bf8 => (Kind::Fp8, Kind::Bf8, Sum::F32, 16, false),
        v_wmma_f32_16x16x16_bf8_fp8 => (Kind::Bf8, Kind::Fp8, Sum::F32, 16, false),
        v_wmma_f32_16x16x16_bf8_bf8 => (Kind::Bf8, Kind::Bf8, Sum::F32, 16, false),
        v_swmmac_f32_16x16x32_f16 => (Kind::F16, Kind::F16, Sum::F32, 32, true),
        v_swmmac_f32_16x16x32_bf16 => (Kind::Bf16, Kind::Bf16, Sum::F32, 32, true),
        v_swmmac_f16_16x16x32_f16 => (Kind::F16, Kind::F16, Sum::F16, 32, true),
        v_swmmac_bf16_16x16x32_bf16 => (Kind::Bf16, Kind::Bf16, Sum::Bf16, 32, true),
        v_swmmac_i32_16x16x32_iu8 => (Kind::I8, Kind::I8, Sum::I32, 32, true),
        v_swmmac_i32_16x16x32_iu4 => (Kind::I4, Kind::I4, Sum::I32, 32, true),
        v_swmmac_i32_16x16x64_iu4 => (Kind::I4, Kind::I4, Sum::I32, 64, true),
        v_swmmac_f32_16x16x32_fp8_fp8 => (Kind::Fp8, Kind::Fp8, Sum::F32, 32, true),
        v_swmmac_f32_16x16x32_fp8_bf8 => (Kind::Fp8, Kind::Bf8, Sum::F32, 32, true),
        v_swmmac_f32_16x16x32_bf8_fp8 => (Kind::Bf8, Kind::Fp8, Sum::F32, 32, true),
        v_swmmac_f32_16x16x32_bf8_bf8 => (Kind::Bf8, Kind::Bf8, Sum::F32, 32, true),
        _ => return None,
    };
    Some(Shape {
        a,
        b,
        sum,
        depth,
        sparse,
    })
}

fn register(src: Src) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(reg) => Ok(usize::from(reg)),
        _ => violation("matrix operand is not a vector register"),
    }
}

/// Returns element `n` of a lane, from register `reg` on.
fn element(w: &Wave, reg: usize, lane: usize, n: usize, kind: Kind) -> u32 {
    let (at, bits) = (n * kind.bits(), kind.bits());
    let word = w.v[reg + at / 32][lane];
    word >> (at % 32) & ((1u64 << bits) - 1) as u32
}

/// Returns the columns of B, or the rows of a dense A: elements by k.
fn dense(w: &Wave, reg: usize, depth: usize, kind: Kind) -> Vec<Vec<u32>> {
    let here = depth / 2;
    let line = |line: usize| {
        let cell = |k: usize| element(w, reg, line + SIZE * (k / here), k % here, kind);
        (0..depth).map(cell).collect()
    };
    (0..SIZE).map(line).collect()
}

/// Returns the rows of a sparse A, with zeros filled in: the index gives the positions of each two
/// elements among four.
fn sparse(w: &Wave, reg: usize, shape: &Shape, index: usize, key: u32) -> Vec<Vec<u32>> {
    let here = shape.depth / 4;
    let line = |row: usize| {
        let mut line = vec![0; shape.depth];
        for n in 0..shape.depth / 2 {
            let (lane, at) = (row + SIZE * (n / here), n % here);
            // 2 bits per element of the lane.
            let places = w.v[index][lane] >> (key * 2 * here as u32);
            let place = (places >> (2 * at) & 3) as usize;
            line[n / 2 * 4 + place] = element(w, reg, lane, at, shape.a);
        }
        line
    };
    (0..SIZE).map(line).collect()
}

/// Returns lane and index of (`row`, `column`) of C and D.
fn place(row: usize, column: usize) -> (usize, usize) {
    (column + SIZE * (row / 8), row % 8)
}

/// Returns an element of C as bits; 16-bit elements are packed.
fn addend(w: &Wave, i: &Valu, sum: Sum, (lane, index): (usize, usize)) -> u32 {
    let half = matches!(sum, Sum::F16 | Sum::Bf16);
    let src = if i.matrix[0] != 0 {
        Src::Vgpr(i.dst)
    } else {
        i.src[2]
    };
    match (src, half) {
        (Src::Vgpr(reg), true) => {
            w.v[usize::from(reg) + index / 2][lane] >> (16 * (index % 2)) & 0xffff
        }
        (Src::Vgpr(reg), false) => w.v[usize::from(reg) + index][lane],
        (src, true) => w.scalar(src) & 0xffff,
        (src, false) => w.scalar(src),
    }
}

/// Returns an element of A or B as a float; odd and even elements have separate signs.
fn value(w: &Wave, i: &Valu, n: usize, kind: Kind, k: usize, bits: u32) -> f64 {
    let x = match kind {
        Kind::F16 => float::from_f16(bits as u16),
        Kind::Bf16 => float::from_bf16(bits as u16),
        _ => return widen8(w.isa, kind == Kind::Fp8)(bits as u8).into(),
    };
    let turn = if k % 2 == 0 { i.neg } else { i.neg_hi };
    f64::from(if turn >> n & 1 != 0 { -x } else { x })
}

/// Returns an element as an integer: `neg` selects signed A and B.
fn integer(i: &Valu, n: usize, kind: Kind, bits: u32) -> i64 {
    let up = 32 - kind.bits() as u32;
    if i.neg >> n & 1 != 0 {
        i64::from((bits << up) as i32 >> up)
    } else {
        i64::from(bits)
    }
}

/// Returns the bits of an element of D.
fn cell(w: &Wave, i: &Valu, shape: &Shape, a: &[u32], b: &[u32], c: u32) -> u32 {
    let pairs = || a.iter().zip(b).enumerate();
    if shape.sum == Sum::I32 {
        let product = |(_, (&x, &y)): (usize, (&u32, &u32))| {
            integer(i, 0, shape.a, x) * integer(i, 1, shape.b, y)
        };
        let sum = pairs().map(product).sum::<i64>() + i64::from(c as i32);
        return if i.clamp {
            sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32
        } else {
            sum as u32
        };
    }
    let c = match shape.sum {
        Sum::F16 => f64::from(float::from_f16(c as u16)),
        Sum::Bf16 => f64::from(float::from_bf16(c as u16)),
        _ => f64::from(f32::from_bits(c)),
    };
    let c = if i.neg_hi & 4 != 0 { c.abs() } else { c };
    let c = if i.neg & 4 != 0 { -c } else { c };
    let product =
        |k: usize, x: u32, y: u32| value(w, i, 0, shape.a, k, x) * value(w, i, 1, shape.b, k, y);
    match shape.sum {
        // Each product is fused into the f32 sum.
        Sum::F32 => {
            let add = |sum: f32, (k, (&x, &y)): (usize, (&u32, &u32))| {
                float::add_odd(product(k, x, y), f64::from(sum)) as f32
            };
            pairs().fold(c as f32, add).to_bits()
        }
        _ => {
            let add = |sum: f64, (k, (&x, &y)): (usize, (&u32, &u32))| {
                float::add_odd(product(k, x, y), sum)
            };
            let sum = pairs().fold(c, add);
            u32::from(if shape.sum == Sum::F16 {
                float::to_f16(sum, float::round::NEAREST)
            } else {
                float::f64_to_bf16(sum)
            })
        }
    }
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    let Some(shape) = shape(op) else {
        return Ok(false);
    };
    if !w.wave32 {
        return Err(Halt::Illegal(format!(
            "{op:?} in a wave64 is not implemented"
        )));
    }
    let (ra, rb) = (register(i.src[0])?, register(i.src[1])?);
    let mut i = *i;
    let a = if shape.sparse {
        let key = u32::from(i.op_sel & 1);
        // A register holds the positions of 16 elements.
        if key != 0 && shape.depth / 4 == 16 {
            return violation(format!("{op:?}: index key {key}"));
        }
        let rows = sparse(w, ra, &shape, register(i.src[2])?, key);
        // The destination is the addend, without modifiers.
        i.matrix[0] = 1;
        i.neg &= 3;
        i.neg_hi &= 3;
        rows
    } else {
        dense(w, ra, shape.depth, shape.a)
    };
    let b = dense(w, rb, shape.depth, shape.b);
    let mut cells = Vec::with_capacity(SIZE * SIZE);
    for (row, a) in a.iter().enumerate() {
        for (column, b) in b.iter().enumerate() {
            let at = place(row, column);
            let c = addend(w, &i, shape.sum, at);
            cells.push((at, cell(w, &i, &shape, a, b, c)));
        }
    }
    let dst = usize::from(i.dst);
    let half = matches!(shape.sum, Sum::F16 | Sum::Bf16);
    for ((lane, index), bits) in cells {
        if half {
            let to = &mut w.v[dst + index / 2][lane];
            let shift = 16 * (index % 2);
            *to = *to & !(0xffff << shift) | bits << shift;
        } else {
            w.v[dst + index][lane] = bits;
        }
    }
    Ok(true)
}
