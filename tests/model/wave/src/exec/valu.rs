// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vector ALU: dispatch to the families, and the shared loops over lanes.

use super::control::GPR_IDX_EN;
use super::{compare, convert, cross, dot, extremes, f16, f32, f64, int, matrix, media, packed};
use super::{relative, wmma};
use crate::inst::{Shape, Src, Valu, VectorOp};
use crate::op::{Op, OPS};
use crate::wave::{lanes_of, Halt, Lanes, Lanes64, Step, Wave, LANES};
use crate::Isa;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether the family implements the instruction.
pub(super) type Tried = Result<bool, Halt>;

const FAMILIES: [fn(&mut Wave, &Valu, Op) -> Tried; 15] = [
    int::step32,
    f32::step,
    cross::step,
    int::step_wide,
    int::step16,
    convert::step,
    f64::step,
    packed::step,
    matrix::step,
    f16::step,
    media::step,
    extremes::step,
    dot::step,
    wmma::step,
    relative::step,
];

/// Family of each instruction once known; initially an invalid number.
static KNOWN: [AtomicU8; OPS] = [const { AtomicU8::new(u8::MAX) }; OPS];

/// Adds the index in M0 to the vector registers selected by M0 (source 0, 1, 2, destination). A
/// source outside of the allocation is v0; with such a destination the instruction has no effect.
fn indexed(w: &Wave, i: &Valu) -> Option<Valu> {
    let (index, which) = (w.m0() as u16 & 0xff, w.m0() >> 12 & 0xf);
    let shifted = |reg: u16, regs: u16| {
        // An accumulator stays one.
        let limit = if reg < w.arch {
            w.arch.into()
        } else {
            w.v.len()
        };
        Some(reg + index).filter(|to| usize::from(to + regs) <= limit)
    };
    let mut i = *i;
    for (n, src) in i.src.iter_mut().enumerate() {
        if let (Src::Vgpr(reg), true) = (*src, which >> n & 1 != 0) {
            *src = Src::Vgpr(shifted(reg, i.src_regs[n].into()).unwrap_or(0));
        }
    }
    if which & 8 != 0 && i.dst_regs > 0 {
        i.dst = shifted(i.dst, i.dst_regs.into())?;
    }
    Some(i)
}

pub(super) fn step(w: &mut Wave, i: &Valu) -> Step {
    if w.mode & GPR_IDX_EN == 0 || w.isa != Isa::Gfx942 {
        return plain_step(w, i);
    }
    match indexed(w, i) {
        Some(i) => plain_step(w, &i),
        None => Ok(()),
    }
}

fn plain_step(w: &mut Wave, i: &Valu) -> Step {
    w.mask = match i.shape {
        Shape::Dpp(dpp) if w.isa == Isa::Gfx1201 => w.dpp16_mask(dpp)?,
        Shape::Dpp(dpp) => w.dpp_mask(dpp)?,
        _ => w.exec(),
    };
    let op = match i.op {
        VectorOp::Cmp { cmp, write_exec } => return compare::step(w, i, cmp, write_exec),
        VectorOp::Op(op) => op,
    };
    let known = &KNOWN[op as usize];
    if let Some(family) = FAMILIES.get(usize::from(known.load(Ordering::Relaxed))) {
        if family(w, i, op)? {
            return Ok(());
        }
    }
    for (n, family) in (0..).zip(FAMILIES) {
        if family(w, i, op)? {
            known.store(n, Ordering::Relaxed);
            return Ok(());
        }
    }
    Err(Halt::Illegal(format!("{op:?} is not implemented")))
}

/// Executes a VOPD: both halves read their sources before either writes.
pub(super) fn dual(w: &mut Wave, pair: &[Valu; 2]) -> Step {
    let [x, y] = pair;
    let crossed = y.src.iter().any(|&src| src == Src::Vgpr(x.dst));
    if !crossed {
        plain_step(w, x)?;
        return plain_step(w, y);
    }
    let at = usize::from(x.dst);
    let old = w.v[at];
    plain_step(w, x)?;
    let new = std::mem::replace(&mut w.v[at], old);
    plain_step(w, y)?;
    w.v[at] = new;
    Ok(())
}

impl Wave {
    /// Executes `f` with `mode` in the bits `mask` of MODE.
    pub(super) fn in_mode<T>(&mut self, mask: u32, mode: u32, f: impl FnOnce(&mut Wave) -> T) -> T {
        let before = self.mode;
        self.mode = before & !mask | mode;
        let result = f(self);
        self.mode = before;
        result
    }

    /// Returns the factor of the output modifier of a float, whose mode keeps denormal results or
    /// not. With these, and with MODE.IEEE, it is ignored.
    pub(super) fn output_factor(&self, i: &Valu, keeps_denormals: bool) -> Option<f32> {
        if i.omod == 0 || keeps_denormals || self.ieee() {
            return None;
        }
        Some([1.0, 2.0, 4.0, 0.5][usize::from(i.omod)])
    }

    /// Unary 32-bit operation.
    pub(super) fn u1(&mut self, i: &Valu, f: impl Fn(u32) -> u32) {
        let ra;
        let a = lanes_of!(self, i, 0, ra);
        let mut out = [0; LANES];
        for l in 0..LANES {
            out[l] = f(a[l]);
        }
        self.put(i, out);
    }

    /// Binary 32-bit operation.
    pub(super) fn u2(&mut self, i: &Valu, f: impl Fn(u32, u32) -> u32) {
        let (ra, rb);
        let (a, b) = (lanes_of!(self, i, 0, ra), lanes_of!(self, i, 1, rb));
        let mut out = [0; LANES];
        for l in 0..LANES {
            out[l] = f(a[l], b[l]);
        }
        self.put(i, out);
    }

    /// Ternary 32-bit operation.
    pub(super) fn u3(&mut self, i: &Valu, f: impl Fn(u32, u32, u32) -> u32) {
        let (ra, rb, rc);
        let (a, b) = (lanes_of!(self, i, 0, ra), lanes_of!(self, i, 1, rb));
        let c = lanes_of!(self, i, 2, rc);
        let mut out = [0; LANES];
        for l in 0..LANES {
            out[l] = f(a[l], b[l], c[l]);
        }
        self.put(i, out);
    }

    /// Returns a 16-bit source in the low half, selected by `op_sel`.
    pub(super) fn raw16(&self, i: &Valu, n: usize) -> Lanes {
        let lanes = self.raw(i, n);
        let shift = if i.vop3 && i.op_sel >> n & 1 != 0 {
            16
        } else {
            0
        };
        lanes.map(|v| v >> shift & 0xffff)
    }

    /// Writes a 16-bit result. Older gfx942 instructions zero the other half; those introduced with
    /// `op_sel`, and all of gfx1201, preserve it.
    pub(super) fn put16(&mut self, i: &Valu, lanes: Lanes, keep_high: bool) {
        let reg = usize::from(i.dst);
        let high = i.vop3 && i.op_sel & 8 != 0;
        let keep_high = keep_high || self.isa == Isa::Gfx1201;
        let out = match (high, keep_high && i.vop3) {
            (true, _) => {
                let old = self.v[reg];
                std::array::from_fn(|l| lanes[l] << 16 | old[l] & 0xffff)
            }
            (false, true) => {
                let old = self.v[reg];
                std::array::from_fn(|l| lanes[l] & 0xffff | old[l] & 0xffff_0000)
            }
            (false, false) => lanes.map(|v| v & 0xffff),
        };
        self.put(i, out);
    }

    /// Writes one bit per active lane to the scalar destination; the other bits become zero.
    pub(super) fn put_mask(&mut self, i: &Valu, bits: u64) {
        let mask = self.mask;
        self.set_lane_mask(i.sdst, bits & mask);
    }

    /// Binary 64-bit operation with a 32-bit first operand.
    pub(super) fn shift64(&mut self, i: &Valu, f: impl Fn(u32, u64) -> u64) {
        let (a, b) = (self.raw(i, 0), self.raw64(i, 1));
        let out: Lanes64 = std::array::from_fn(|l| f(a[l], b[l]));
        self.put64(i, &out);
    }

    /// Returns the carry-in: VCC, or the pair of source 2.
    pub(super) fn carry_in(&self, i: &Valu) -> u64 {
        match i.src[2] {
            Src::None => self.vcc(),
            src => self.scalar64(src),
        }
    }
}
