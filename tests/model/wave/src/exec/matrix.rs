// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Matrix instructions of gfx942: `D = A * B + C` on blocks spread across the lanes (MFMA), and
//! with a sparse A that has two nonzero elements of every four (SMFMAC).
//!
//! EXEC is ignored. Sums run from the lowest k to the highest, each product fused into the f32 sum;
//! silicon does not guarantee an order.
//!
//! The columns of a row of D are in consecutive lanes of a register: a row is computed at once.

use super::valu::Tried;
use crate::float;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Wave, LANES};

/// Element type of A and B.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    /// f32 of which the upper 10 bits of the mantissa count. The others are rounded according to
    /// the ISA (7.1), and dropped by a simulator that agrees with MI300X on random operands
    /// (MMA-Sim).
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

    /// Returns the lane of the first column of a row of C or D, the others follow, and the index of
    /// the element in the lanes.
    fn output(&self, block: usize, row: usize) -> (usize, usize) {
        if self.a == Kind::F64 {
            // Rows alternate between the groups of lanes.
            return (self.size * (block + self.blocks * (row % 4)), row / 4);
        }
        if self.size == 4 {
            return (4 * block, row);
        }
        // Four rows per lane, then the next group of lanes.
        let groups = LANES / self.size;
        let per_block = self.size * self.size / LANES;
        let group = row / 4;
        let index = per_block * block + group / groups * 4 + row % 4;
        (self.size * (group % groups), index)
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

/// Returns C as a constant: of a source that is not a vector register.
fn constant(w: &Wave, src: Src, wide: bool) -> u64 {
    if wide {
        w.scalar64(src)
    } else {
        w.scalar(src).into()
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

/// Most elements of A and of B.
const ELEMENTS: usize = 1024;
/// Most columns.
const COLUMNS: usize = 32;
/// Most registers of D.
const REGISTERS: usize = 32;

/// Element of A, B, C and D as a number.
trait Number: Copy + Default {
    /// Converts an element of A or B.
    fn read(bits: u64, kind: Kind) -> Self;

    /// Adds the products of `x` and each of `y` to the sums.
    fn fuse(x: Self, y: &[Self], sums: &mut [Self]);
}

impl Number for f64 {
    fn read(bits: u64, _: Kind) -> Self {
        f64::from_bits(bits)
    }

    fn fuse(x: f64, y: &[f64], sums: &mut [f64]) {
        for (sum, &y) in sums.iter_mut().zip(y) {
            *sum = x.mul_add(y, *sum);
        }
    }
}

impl Number for i32 {
    fn read(bits: u64, _: Kind) -> Self {
        i32::from(bits as u8 as i8)
    }

    fn fuse(x: i32, y: &[i32], sums: &mut [i32]) {
        for (sum, &y) in sums.iter_mut().zip(y) {
            *sum = sum.wrapping_add(x * y);
        }
    }
}

impl Number for f32 {
    fn read(bits: u64, kind: Kind) -> Self {
        value(bits, kind)
    }

    /// A product of two f32 is exact in f64, so that only the rounding of the sum to f64 can change
    /// the result: if the f64 is in the middle between two f32. Then, and for subnormal numbers and
    /// NaN, it is computed by `mul_add`, which is a call on hosts without the instruction.
    fn fuse(x: f32, y: &[f32], sums: &mut [f32]) {
        let mut rounded = [0.0; COLUMNS];
        let mut doubtful = false;
        for ((to, &y), &sum) in rounded.iter_mut().zip(y).zip(&*sums) {
            let exact = f64::from(x) * f64::from(y) + f64::from(sum);
            let is_middle = exact.to_bits() & 0x1fff_ffff == 0x1000_0000;
            let is_normal = exact.abs() >= f64::from(f32::MIN_POSITIVE) || exact == 0.0;
            doubtful |= is_middle | !is_normal;
            *to = exact as f32;
        }
        if doubtful {
            for ((to, &y), &sum) in rounded.iter_mut().zip(y).zip(&*sums) {
                *to = x.mul_add(y, sum);
            }
        }
        sums.copy_from_slice(&rounded[..sums.len()]);
    }
}

/// Operands of an instruction.
struct Operands<T> {
    shape: Shape,
    /// Elements of A by block, row and position in the row.
    a: [T; ELEMENTS],
    /// The k of each.
    k: [u8; ELEMENTS],
    /// Elements of a row of A.
    per_row: usize,
    /// Elements of B by block, k and column.
    b: [T; ELEMENTS],
}

impl<T: Number> Operands<T> {
    /// Reads all elements of A and B.
    fn dense(w: &Wave, shape: Shape, a: usize, b: usize, blgp: u8) -> Self {
        let mut this = Self::columns(w, shape, b, blgp);
        let Shape {
            size,
            depth,
            blocks,
            ..
        } = shape;
        for line in 0..blocks * size {
            for k in 0..depth {
                let (lane, index) = shape.input(line / size, line % size, k);
                this.a[line * depth + k] = T::read(element(w, a, lane, index, shape.a), shape.a);
                this.k[line * depth + k] = k as u8;
            }
        }
        this
    }

    /// Reads all elements of B.
    fn columns(w: &Wave, shape: Shape, b: usize, blgp: u8) -> Self {
        let Shape {
            size,
            depth,
            blocks,
            ..
        } = shape;
        let mut this = Operands {
            shape,
            a: [T::default(); ELEMENTS],
            k: [0; ELEMENTS],
            per_row: depth,
            b: [T::default(); ELEMENTS],
        };
        for line in 0..blocks * depth {
            let (block, k) = (line / depth, line % depth);
            for column in 0..size {
                let (lane, index) = shape.input(block, column, k);
                let bits = element(w, b, b_lane(blgp, lane), index, shape.b);
                this.b[line * size + column] = T::read(bits, shape.b);
            }
        }
        this
    }

    /// As `dense`, but A has two of every four elements. Two bits per element in `index` give its
    /// position; `which` selects the part of `index`.
    fn sparse(w: &Wave, shape: Shape, a: usize, b: usize, index: usize, which: u8) -> Self {
        let mut this = Self::columns(w, shape, b, 0);
        this.per_row = shape.depth / 2;
        // Elements of A per lane.
        let here = shape.size * shape.depth / LANES / 2;
        for row in 0..shape.size {
            for n in 0..this.per_row {
                let (lane, at) = (row + shape.size * (n / here), n % here);
                let places = w.v[index][lane] >> (2 * here * usize::from(which));
                let place = places >> (2 * at) & 3;
                let k = 2 * here * (n / here) + at / 2 * 4 + place as usize;
                let to = row * this.per_row + n;
                this.a[to] = T::read(element(w, a, lane, at, shape.a), shape.a);
                this.k[to] = k as u8;
            }
        }
        this
    }

    /// Calls `run(lane, index, sums)` for each row of D, with `sums` a function that adds the
    /// products to the row. `of` returns the block of A for block `n`.
    fn rows(&self, of: impl Fn(usize) -> usize, mut run: impl FnMut(usize, usize, &Row<'_, T>)) {
        let Shape { size, depth, .. } = self.shape;
        for block in 0..self.shape.blocks {
            for row in 0..size {
                let line = (of(block) * size + row) * self.per_row;
                let (lane, index) = self.shape.output(block, row);
                let row = Row {
                    a: &self.a[line..line + self.per_row],
                    k: &self.k[line..line + self.per_row],
                    b: &self.b[block * depth * size..(block + 1) * depth * size],
                };
                run(lane, index, &row);
            }
        }
    }
}

/// Row of A with its block of B.
struct Row<'a, T> {
    a: &'a [T],
    k: &'a [u8],
    b: &'a [T],
}

impl<T: Number> Row<'_, T> {
    /// Adds the products to a row of sums.
    fn add(&self, sums: &mut [T]) {
        let size = sums.len();
        for (&x, &k) in self.a.iter().zip(self.k) {
            let at = usize::from(k) * size;
            T::fuse(x, &self.b[at..at + size], sums);
        }
    }
}

/// f64 sums, with the signs of A, B and C flipped by `neg`.
fn double(w: &mut Wave, i: &Valu, operands: &mut Operands<f64>, neg: u8) {
    let sign = |n: u8| u64::from(neg >> n & 1) << 63;
    let flip = |x: &mut f64, sign: u64| *x = f64::from_bits(x.to_bits() ^ sign);
    operands.a.iter_mut().for_each(|x| flip(x, sign(0)));
    operands.b.iter_mut().for_each(|x| flip(x, sign(1)));
    let size = operands.shape.size;
    let mut out = [[0; LANES]; REGISTERS];
    operands.rows(
        |block| block,
        |lane, index, row| {
            let mut sums = [0.0; COLUMNS];
            let sums = &mut sums[..size];
            for (n, sum) in (lane..).zip(sums.iter_mut()) {
                let bits = match i.src[2] {
                    Src::Vgpr(reg) => {
                        let at = usize::from(reg) + 2 * index;
                        u64::from(w.v[at][n]) | u64::from(w.v[at + 1][n]) << 32
                    }
                    src => constant(w, src, true),
                };
                *sum = f64::from_bits(bits ^ sign(2));
            }
            row.add(sums);
            for (n, sum) in (lane..).zip(sums) {
                let bits = sum.to_bits();
                out[2 * index][n] = bits as u32;
                out[2 * index + 1][n] = (bits >> 32) as u32;
            }
        },
    );
    finish(w, i, &out);
}

/// Writes D. All of its registers have all lanes.
fn finish(w: &mut Wave, i: &Valu, out: &[[u32; LANES]; REGISTERS]) {
    for (n, lanes) in out.iter().take(i.dst_regs.into()).enumerate() {
        w.v[usize::from(i.dst) + n] = *lanes;
    }
}

/// Conversions from and to the bits of a register.
type Bits<T> = (fn(u32) -> T, fn(T) -> u32);

/// f32 or integer sums on top of `c`; `from` and `to` convert an element of C and D.
fn single<T: Number>(
    w: &mut Wave,
    i: &Valu,
    operands: &Operands<T>,
    of: impl Fn(usize) -> usize,
    c: Src,
    (from, to): Bits<T>,
) {
    let size = operands.shape.size;
    let mut out = [[0; LANES]; REGISTERS];
    operands.rows(of, |lane, index, row| {
        let mut sums = [T::default(); COLUMNS];
        let sums = &mut sums[..size];
        match c {
            Src::Vgpr(reg) => {
                let lanes = &w.v[usize::from(reg) + index][lane..lane + size];
                for (sum, &bits) in sums.iter_mut().zip(lanes) {
                    *sum = from(bits);
                }
            }
            src => sums.fill(from(constant(w, src, false) as u32)),
        }
        row.add(sums);
        for (bits, &sum) in out[index][lane..lane + size].iter_mut().zip(&*sums) {
            *bits = to(sum);
        }
    });
    finish(w, i, &out);
}

const FLOAT: Bits<f32> = (f32::from_bits, f32::to_bits);
const INTEGER: Bits<i32> = (|bits| bits as i32, |sum| sum as u32);

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
    let (index, c) = (register(i.src[2])?, Src::Vgpr(i.dst));
    if shape.a == Kind::I8 {
        let operands = Operands::sparse(w, shape, a, b, index, which);
        single(w, i, &operands, |block| block, c, INTEGER);
    } else {
        let operands = Operands::sparse(w, shape, a, b, index, which);
        single(w, i, &operands, |block| block, c, FLOAT);
    }
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
        double(w, i, &mut Operands::dense(w, shape, a, b, 0), blgp);
        return Ok(true);
    }
    // A can come from another block of the same group.
    let of = |block: usize| (block >> cbsz << cbsz) + usize::from(abid);
    if shape.a == Kind::I8 {
        let operands = Operands::dense(w, shape, a, b, blgp);
        single(w, i, &operands, of, i.src[2], INTEGER);
    } else {
        let operands = Operands::dense(w, shape, a, b, blgp);
        single(w, i, &operands, of, i.src[2], FLOAT);
    }
    Ok(true)
}
