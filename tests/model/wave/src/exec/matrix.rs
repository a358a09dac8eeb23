// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Matrix instructions (MFMA): `D = A * B + C` on blocks that lie across the lanes.
//!
//! They ignore EXEC. Sums go from the lowest k to the highest, each product fused into the f32 sum;
//! silicon promises no order.

use super::valu::Tried;
use crate::float;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Wave, LANES};

/// What the elements of A and B are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    /// f32 of which 10 bits of the mantissa count.
    Xf32,
    F16,
    Bf16,
    I8,
    Fp8,
    Bf8,
    F64,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::F32 | Kind::Xf32 => 4,
            Kind::F16 | Kind::Bf16 => 2,
            Kind::I8 | Kind::Fp8 | Kind::Bf8 => 1,
            Kind::F64 => 8,
        }
    }
}

/// Rows (= columns), depth, number of blocks, elements of A and of B.
#[derive(Clone, Copy)]
struct Shape {
    size: usize,
    depth: usize,
    blocks: usize,
    a: Kind,
    b: Kind,
}

fn shape(op: Op) -> Option<Shape> {
    use Kind::*;
    use Op::*;
    let (size, depth, blocks, a, b) = match op {
        v_mfma_f32_32x32x1_2b_f32 => (32, 1, 2, F32, F32),
        v_mfma_f32_16x16x1_4b_f32 => (16, 1, 4, F32, F32),
        v_mfma_f32_4x4x1_16b_f32 => (4, 1, 16, F32, F32),
        v_mfma_f32_32x32x2_f32 => (32, 2, 1, F32, F32),
        v_mfma_f32_16x16x4_f32 => (16, 4, 1, F32, F32),
        v_mfma_f32_32x32x4_xf32 => (32, 4, 1, Xf32, Xf32),
        v_mfma_f32_16x16x8_xf32 => (16, 8, 1, Xf32, Xf32),
        v_mfma_f32_32x32x4_2b_f16 => (32, 4, 2, F16, F16),
        v_mfma_f32_16x16x4_4b_f16 => (16, 4, 4, F16, F16),
        v_mfma_f32_4x4x4_16b_f16 => (4, 4, 16, F16, F16),
        v_mfma_f32_32x32x8_f16 => (32, 8, 1, F16, F16),
        v_mfma_f32_16x16x16_f16 => (16, 16, 1, F16, F16),
        v_mfma_f32_32x32x4_2b_bf16 => (32, 4, 2, Bf16, Bf16),
        v_mfma_f32_16x16x4_4b_bf16 => (16, 4, 4, Bf16, Bf16),
        v_mfma_f32_4x4x4_16b_bf16 => (4, 4, 16, Bf16, Bf16),
        v_mfma_f32_32x32x8_bf16 => (32, 8, 1, Bf16, Bf16),
        v_mfma_f32_16x16x16_bf16 => (16, 16, 1, Bf16, Bf16),
        v_mfma_i32_32x32x4_2b_i8 => (32, 4, 2, I8, I8),
        v_mfma_i32_16x16x4_4b_i8 => (16, 4, 4, I8, I8),
        v_mfma_i32_4x4x4_16b_i8 => (4, 4, 16, I8, I8),
        v_mfma_i32_32x32x16_i8 => (32, 16, 1, I8, I8),
        v_mfma_i32_16x16x32_i8 => (16, 32, 1, I8, I8),
        v_mfma_f64_16x16x4_f64 => (16, 4, 1, F64, F64),
        v_mfma_f32_16x16x32_bf8_bf8 => (16, 32, 1, Bf8, Bf8),
        v_mfma_f32_16x16x32_bf8_fp8 => (16, 32, 1, Bf8, Fp8),
        v_mfma_f32_16x16x32_fp8_bf8 => (16, 32, 1, Fp8, Bf8),
        v_mfma_f32_16x16x32_fp8_fp8 => (16, 32, 1, Fp8, Fp8),
        v_mfma_f32_32x32x16_bf8_bf8 => (32, 16, 1, Bf8, Bf8),
        v_mfma_f32_32x32x16_bf8_fp8 => (32, 16, 1, Bf8, Fp8),
        v_mfma_f32_32x32x16_fp8_bf8 => (32, 16, 1, Fp8, Bf8),
        v_mfma_f32_32x32x16_fp8_fp8 => (32, 16, 1, Fp8, Fp8),
        _ => return None,
    };
    Some(Shape {
        size,
        depth,
        blocks,
        a,
        b,
    })
}

impl Shape {
    /// The lane and the index in the lane of element (`row` or column, `k`) of a block of A or B.
    fn input(&self, block: usize, row: usize, k: usize) -> (usize, usize) {
        let per_lane = self.size * self.depth * self.blocks / LANES;
        let groups = self.depth / per_lane;
        (
            row + self.size * (k / per_lane + groups * block),
            k % per_lane,
        )
    }

    /// The lane and the index in the lane of element (`row`, `column`) of a block of C or D.
    fn output(&self, block: usize, row: usize, column: usize) -> (usize, usize) {
        if self.a == Kind::F64 {
            // Rows go around the groups of lanes one by one.
            return (column + self.size * (row % 4), row / 4);
        }
        if self.size == 4 {
            return (column + 4 * block, row);
        }
        // Four rows of a lane, then the next group of lanes.
        let groups = LANES / self.size;
        let per_block = self.size * self.size / LANES;
        let group = row / 4;
        let index = per_block * block + group / groups * 4 + row % 4;
        (column + self.size * (group % groups), index)
    }
}

fn element(w: &Wave, reg: usize, lane: usize, index: usize, kind: Kind) -> u64 {
    if kind == Kind::F64 {
        return u64::from(w.v[reg][lane]) | u64::from(w.v[reg + 1][lane]) << 32;
    }
    let byte = index * kind.bytes();
    let word = w.v[reg + byte / 4][lane] >> (8 * (byte % 4));
    u64::from(match kind.bytes() {
        4 => word,
        2 => word & 0xffff,
        _ => word & 0xff,
    })
}

fn value(bits: u64, kind: Kind) -> f32 {
    match kind {
        Kind::Xf32 => f32::from_bits(bits as u32 & !0x1fff),
        Kind::F16 => float::from_f16(bits as u16),
        Kind::Bf16 => float::from_bf16(bits as u16),
        Kind::Fp8 => float::from_fp8(bits as u8),
        Kind::Bf8 => float::from_bf8(bits as u8),
        _ => f32::from_bits(bits as u32),
    }
}

/// First register of an operand.
fn register(src: Src) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(reg) => Ok(reg.into()),
        _ => violation("a matrix operand that is no vector register"),
    }
}

/// C: registers, or the same constant everywhere.
fn addend(w: &Wave, src: Src, index: usize, lane: usize, wide: bool) -> u64 {
    match src {
        Src::Vgpr(reg) if wide => {
            let at = usize::from(reg) + 2 * index;
            u64::from(w.v[at][lane]) | u64::from(w.v[at + 1][lane]) << 32
        }
        Src::Vgpr(reg) => u64::from(w.v[usize::from(reg) + index][lane]),
        // The constant was made for an f32.
        Src::Imm(bits) if wide => f64::from(f32::from_bits(bits as u32)).to_bits(),
        other => u64::from(w.scalar(other)),
    }
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    let Some(shape) = shape(op) else {
        return Ok(false);
    };
    let [cbsz, abid, blgp] = i.matrix;
    if blgp != 0 || usize::from(abid) >= 1 << cbsz || 1 << cbsz > shape.blocks {
        return violation(format!("{op:?}: cbsz {cbsz}, abid {abid}, blgp {blgp}"));
    }
    let (a, b) = (register(i.src[0])?, register(i.src[1])?);
    let wide = shape.a == Kind::F64;
    let mut results = Vec::with_capacity(shape.blocks * shape.size * shape.size);
    for block in 0..shape.blocks {
        // A may come from another block of the same group.
        let a_block = (block >> cbsz << cbsz) + usize::from(abid);
        for row in 0..shape.size {
            for column in 0..shape.size {
                let (lane, index) = shape.output(block, row, column);
                let c = addend(w, i.src[2], index, lane, wide);
                let pairs = (0..shape.depth).map(|k| {
                    let (lane_a, at_a) = shape.input(a_block, row, k);
                    let (lane_b, at_b) = shape.input(block, column, k);
                    (
                        element(w, a, lane_a, at_a, shape.a),
                        element(w, b, lane_b, at_b, shape.b),
                    )
                });
                let sum = match shape.a {
                    Kind::F64 => pairs
                        .fold(f64::from_bits(c), |s, (x, y)| {
                            f64::from_bits(x).mul_add(f64::from_bits(y), s)
                        })
                        .to_bits(),
                    Kind::I8 => u64::from(pairs.fold(c as u32, |s, (x, y)| {
                        let product = i32::from(x as i8) * i32::from(y as i8);
                        s.wrapping_add(product as u32)
                    })),
                    _ => {
                        let sum = pairs.fold(f32::from_bits(c as u32), |s, (x, y)| {
                            value(x, shape.a).mul_add(value(y, shape.b), s)
                        });
                        u64::from(sum.to_bits())
                    }
                };
                results.push((lane, index, sum));
            }
        }
    }
    let dst = usize::from(i.dst);
    for (lane, index, bits) in results {
        if wide {
            w.v[dst + 2 * index][lane] = bits as u32;
            w.v[dst + 2 * index + 1][lane] = (bits >> 32) as u32;
        } else {
            w.v[dst + index][lane] = bits as u32;
        }
    }
    Ok(true)
}
