// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Matrix instructions of gfx942: `D = A * B + C` on blocks spread across the lanes (MFMA), and
//! with a sparse A that has two nonzero elements of every four (SMFMAC).
//!
//! EXEC is ignored. Sums run from the lowest k to the highest, each product fused into the f32 sum;
//! silicon does not guarantee an order.

use super::valu::Tried;
use crate::float;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Wave, LANES};

/// Element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    /// f32 with 10 mantissa bits.
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

/// Rows (= columns), depth, number of blocks, element types of A and B.
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
        v_mfma_f64_4x4x4_4b_f64 => (4, 4, 4, F64, F64),
        v_mfma_f32_16x16x32_bf8_bf8 => (16, 32, 1, Bf8, Bf8),
        v_mfma_f32_16x16x32_bf8_fp8 => (16, 32, 1, Bf8, Fp8),
        v_mfma_f32_16x16x32_fp8_bf8 => (16, 32, 1, Fp8, Bf8),
        v_mfma_f32_16x16x32_fp8_fp8 => (16, 32, 1, Fp8, Fp8),
        v_mfma_f32_32x32x16_bf8_bf8 => (32, 16, 1, Bf8, Bf8),
        v_mfma_f32_32x32x16_bf8_fp8 => (32, 16, 1, Bf8, Fp8),
        v_mfma_f32_32x32x16_fp8_bf8 => (32, 16, 1, Fp8, Bf8),
        v_mfma_f32_32x32x16_fp8_fp8 => (32, 16, 1, Fp8, Fp8),
        v_smfmac_f32_16x16x32_f16 => (16, 32, 1, F16, F16),
        v_smfmac_f32_32x32x16_f16 => (32, 16, 1, F16, F16),
        v_smfmac_f32_16x16x32_bf16 => (16, 32, 1, Bf16, Bf16),
        v_smfmac_f32_32x32x16_bf16 => (32, 16, 1, Bf16, Bf16),
        v_smfmac_i32_16x16x64_i8 => (16, 64, 1, I8, I8),
        v_smfmac_i32_32x32x32_i8 => (32, 32, 1, I8, I8),
        v_smfmac_f32_16x16x64_bf8_bf8 => (16, 64, 1, Bf8, Bf8),
        v_smfmac_f32_16x16x64_bf8_fp8 => (16, 64, 1, Bf8, Fp8),
        v_smfmac_f32_16x16x64_fp8_bf8 => (16, 64, 1, Fp8, Bf8),
        v_smfmac_f32_16x16x64_fp8_fp8 => (16, 64, 1, Fp8, Fp8),
        v_smfmac_f32_32x32x32_bf8_bf8 => (32, 32, 1, Bf8, Bf8),
        v_smfmac_f32_32x32x32_bf8_fp8 => (32, 32, 1, Bf8, Fp8),
        v_smfmac_f32_32x32x32_fp8_bf8 => (32, 32, 1, Fp8, Bf8),
        v_smfmac_f32_32x32x32_fp8_fp8 => (32, 32, 1, Fp8, Fp8),
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
    /// Returns lane and index in the lane of element (`row` or column, `k`) of a block of A or B.
    fn input(&self, block: usize, row: usize, k: usize) -> (usize, usize) {
        let per_lane = self.size * self.depth * self.blocks / LANES;
        (
            row + self.size * (block + self.blocks * (k / per_lane)),
            k % per_lane,
        )
    }

    /// Returns lane and index in the lane of element (`row`, `column`) of a block of C or D.
    fn output(&self, block: usize, row: usize, column: usize) -> (usize, usize) {
        if self.a == Kind::F64 {
            // Rows alternate between the groups of lanes.
            let group = block + self.blocks * (row % 4);
            return (column + self.size * group, row / 4);
        }
        if self.size == 4 {
            return (column + 4 * block, row);
        }
        // Four rows per lane, then the next group of lanes.
        let groups = LANES / self.size;
        let per_block = self.size * self.size / LANES;
        let group = row / 4;
        let index = per_block * block + group / groups * 4 + row % 4;
        (column + self.size * (group % groups), index)
    }
}

/// Returns element `index` of a lane, from register `reg` on.
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

/// Returns the first register of an operand.
fn register(src: Src) -> Result<usize, Halt> {
    match src {
        Src::Vgpr(reg) => Ok(reg.into()),
        _ => violation("matrix operand is not a vector register"),
    }
}

/// Returns an element of C: registers or a constant.
fn addend(w: &Wave, src: Src, index: usize, lane: usize, wide: bool) -> u64 {
    match src {
        Src::Vgpr(reg) if wide => {
            let at = usize::from(reg) + 2 * index;
            u64::from(w.v[at][lane]) | u64::from(w.v[at + 1][lane]) << 32
        }
        Src::Vgpr(reg) => u64::from(w.v[usize::from(reg) + index][lane]),
        // The constant was converted for an f32.
        Src::Imm(bits) if wide => f64::from(f32::from_bits(bits as u32)).to_bits(),
        other => u64::from(w.scalar(other)),
    }
}

/// Returns the lane that provides B to `lane` (BLGP).
fn b_lane(blgp: u8, lane: usize) -> usize {
    match blgp {
        0 => lane,
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % LANES,
        _ => lane % 16 + 16 * usize::from(blgp - 4),
    }
}

/// Row of A or column of B: depth and bits of each element.
type Line = Vec<(usize, u64)>;

/// Operands of an instruction.
struct Operands {
    shape: Shape,
    /// Lines by block and row.
    a: Vec<Line>,
    /// Lines by block and column; element n is at depth n.
    b: Vec<Line>,
}

impl Operands {
    /// Reads all elements of A and B.
    fn dense(w: &Wave, shape: Shape, a: usize, b: usize, blgp: u8) -> Self {
        let lines = |reg: usize, kind: Kind, from: &dyn Fn(usize) -> usize| {
            let line = |n: usize| -> Line {
                let cell = |k: usize| {
                    let (lane, index) = shape.input(n / shape.size, n % shape.size, k);
                    (k, element(w, reg, from(lane), index, kind))
                };
                (0..shape.depth).map(cell).collect()
            };
            (0..shape.blocks * shape.size).map(line).collect()
        };
        Operands {
            shape,
            a: lines(a, shape.a, &|lane| lane),
            b: lines(b, shape.b, &|lane| b_lane(blgp, lane)),
        }
    }

    /// As `dense`, but A has two of every four elements. Two bits per element in `index` give its
    /// position; `which` selects the part of `index`.
    fn sparse(w: &Wave, shape: Shape, a: usize, b: usize, index: usize, which: u8) -> Self {
        let mut this = Self::dense(w, shape, b, b, 0);
        // Elements of A per lane.
        let here = shape.size * shape.depth / LANES / 2;
        let line = |row: usize| -> Line {
            let cell = |n: usize| {
                let (lane, at) = (row + shape.size * (n / here), n % here);
                let places = w.v[index][lane] >> (2 * here * usize::from(which));
                let place = places >> (2 * at) & 3;
                let k = 2 * here * (n / here) + at / 2 * 4 + place as usize;
                (k, element(w, a, lane, at, shape.a))
            };
            (0..shape.depth / 2).map(cell).collect()
        };
        this.a = (0..shape.size).map(line).collect();
        this
    }

    /// Calls `addend(lane, index)` for each element of D and returns the sum of products on top of
    /// it, with lane and index. `of` returns the block of A for block `n`.
    fn sums<T: Copy, S>(
        &self,
        of: impl Fn(usize) -> usize,
        convert: [&dyn Fn(u64) -> T; 2],
        addend: impl Fn(usize, usize) -> S,
        fuse: impl Fn(T, T, S) -> S,
    ) -> Vec<(usize, usize, S)> {
        let Shape { size, blocks, .. } = self.shape;
        let [convert_a, convert_b] = convert;
        let with = |lines: &[Line], convert: &dyn Fn(u64) -> T| -> Vec<Vec<(usize, T)>> {
            let line = |line: &Line| line.iter().map(|&(k, bits)| (k, convert(bits))).collect();
            lines.iter().map(line).collect()
        };
        let (a, b) = (with(&self.a, convert_a), with(&self.b, convert_b));
        let mut out = Vec::with_capacity(blocks * size * size);
        for block in 0..blocks {
            for row in 0..size {
                let line = &a[of(block) * size + row];
                for column in 0..size {
                    let other = &b[block * size + column];
                    let (lane, index) = self.shape.output(block, row, column);
                    let sum = line
                        .iter()
                        .fold(addend(lane, index), |sum, &(k, x)| fuse(x, other[k].1, sum));
                    out.push((lane, index, sum));
                }
            }
        }
        out
    }
}

/// f64 sums, with the signs of A, B and C flipped by `neg`.
fn double(w: &mut Wave, i: &Valu, operands: &Operands, neg: u8) {
    let signed = |n: u8, bits: u64| f64::from_bits(bits ^ u64::from(neg >> n & 1) << 63);
    let sums = operands.sums(
        |block| block,
        [&|bits| signed(0, bits), &|bits| signed(1, bits)],
        |lane, index| signed(2, addend(w, i.src[2], index, lane, true)),
        f64::mul_add,
    );
    let dst = usize::from(i.dst);
    for (lane, index, sum) in sums {
        let bits = sum.to_bits();
        w.v[dst + 2 * index][lane] = bits as u32;
        w.v[dst + 2 * index + 1][lane] = (bits >> 32) as u32;
    }
}

/// f32 or integer sums on top of `c`.
fn single(w: &mut Wave, i: &Valu, operands: &Operands, of: impl Fn(usize) -> usize, c: Src) {
    let Shape { a, b, .. } = operands.shape;
    let c = |lane: usize, index: usize| addend(w, c, index, lane, false) as u32;
    let sums = if a == Kind::I8 {
        let byte = |bits: u64| i32::from(bits as u8 as i8);
        operands.sums(of, [&byte, &byte], c, |x, y, sum| {
            sum.wrapping_add((x * y) as u32)
        })
    } else {
        let sums = operands.sums(
            of,
            [&|bits| value(bits, a), &|bits| value(bits, b)],
            |lane, index| f32::from_bits(c(lane, index)),
            f32::mul_add,
        );
        let bits = |(lane, index, sum): (usize, usize, f32)| (lane, index, sum.to_bits());
        sums.into_iter().map(bits).collect()
    };
    let dst = usize::from(i.dst);
    for (lane, index, bits) in sums {
        w.v[dst + index][lane] = bits;
    }
}

/// SMFMAC: source 2 has the positions of the elements of A, the destination is the addend.
fn sparse(w: &mut Wave, i: &Valu, op: Op, shape: Shape) -> Result<(), Halt> {
    let [cbsz, abid, blgp] = i.matrix;
    // A register holds the positions for four instructions with 16-bit elements, or two with bytes.
    // With nonzero CBSZ always the first.
    let which = if cbsz == 0 { abid } else { 0 };
    if blgp != 0 || usize::from(which) >= 2 * shape.a.bytes() {
        return violation(format!("{op:?}: cbsz {cbsz}, abid {abid}, blgp {blgp}"));
    }
    let (a, b) = (register(i.src[0])?, register(i.src[1])?);
    let operands = Operands::sparse(w, shape, a, b, register(i.src[2])?, which);
    single(w, i, &operands, |block| block, Src::Vgpr(i.dst));
    Ok(())
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    let Some(shape) = shape(op) else {
        return Ok(false);
    };
    if i.src_regs[2] == 1 {
        sparse(w, i, op, shape)?;
        return Ok(true);
    }
    let [cbsz, abid, blgp] = i.matrix;
    if usize::from(abid) >= 1 << cbsz || 1 << cbsz > shape.blocks {
        return violation(format!("{op:?}: cbsz {cbsz}, abid {abid}"));
    }
    let (a, b) = (register(i.src[0])?, register(i.src[1])?);
    if shape.a == Kind::F64 {
        // BLGP holds the signs here.
        let operands = Operands::dense(w, shape, a, b, 0);
        double(w, i, &operands, blgp);
    } else {
        let operands = Operands::dense(w, shape, a, b, blgp);
        // A can come from another block of the same group.
        let of = |block: usize| (block >> cbsz << cbsz) + usize::from(abid);
        single(w, i, &operands, of, i.src[2]);
    }
    Ok(true)
}
