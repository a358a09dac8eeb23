// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Executes decoded instructions, one module per family.

mod atomic;
mod compare;
mod control;
mod convert;
mod cross;
mod dot;
mod extremes;
mod f16;
mod f32;
mod f64;
mod int;
mod lds;
mod matrix;
mod media;
mod packed;
mod relative;
mod salu;
mod scalar_float;
mod smem;
mod valu;
mod vmem;
mod wmma;

pub(crate) use control::gfx1201::{is_save_wave, Barrier, BARRIERS};
pub(crate) use lds::{active, cell};
pub(crate) use smem::stores;
pub(crate) use vmem::{lanes_in_lds, lds_address};

use crate::flight;
use crate::inst::{Body, Inst};
use crate::wave::{violation, Halt, Step, Wave};
use crate::{Dispatch, Host, Isa, Memory};

/// State outside of the wave.
pub(crate) struct Ctx<'a> {
    pub(crate) mem: &'a dyn Memory,
    pub(crate) host: &'a dyn Host,
    pub(crate) dispatch: &'a Dispatch,
    pub(crate) lds: &'a mut [u8],
    /// Barriers of gfx1201.
    pub(crate) barriers: &'a mut [Barrier; BARRIERS],
}

/// Executes an instruction. The program counter is already past it.
pub(crate) fn step(wave: &mut Wave, ctx: &mut Ctx<'_>, inst: &Inst) -> Step {
    if let (Body::Salu(i), None) = (&inst.body, &wave.flight) {
        return salu::step(wave, ctx, i, inst.bytes);
    }
    if wave.mode & control::VSKIP != 0 && is_skipped(wave, &inst.body) {
        return Ok(());
    }
    let without_vgprs = |body| is_scalar(body) || matches!(body, Body::L2 { .. });
    if wave.no_vgprs && !without_vgprs(&inst.body) {
        return violation("a vector instruction after MSG_DEALLOC_VGPRS");
    }
    match wave.flight {
        None => execute(wave, ctx, inst.bytes, &inst.body),
        Some(_) => flight::step(wave, ctx, inst),
    }
}

/// Executes an instruction, with the results in its registers at the end. Inlined for the loop of
/// waves without instructions in flight.
#[inline(always)]
pub(crate) fn execute(wave: &mut Wave, ctx: &mut Ctx<'_>, bytes: u8, body: &Body) -> Step {
    match body {
        Body::Salu(i) => salu::step(wave, ctx, i, bytes),
        Body::Smem(i) => smem::step(wave, ctx, i),
        Body::ScalarLoad(i) => smem::load(wave, ctx, i),
        Body::ScalarAtomic(i) => smem::atomic(wave, ctx, i),
        Body::Valu(i) => valu::step(wave, i),
        Body::Dual(pair) => valu::dual(wave, pair),
        Body::Vmem(i) => {
            // Scalar loads do not count.
            ctx.mem.take_watched();
            let result = vmem::step(wave, ctx, i);
            let watched = ctx.mem.take_watched();
            // An access that has to be retried is watched when it is complete.
            if !matches!(&result, Err(Halt::Fault { fault, .. }) if fault.retry) {
                wave.watched(watched);
            }
            result
        }
        Body::Lds(i) => lds::step(wave, ctx, i),
        Body::L2 {
            write_back,
            invalidate,
            scope,
        } => {
            if *write_back {
                ctx.mem.write_back(*scope);
            }
            if *invalidate {
                ctx.mem.invalidate(*scope);
            }
            Ok(())
        }
        Body::ScalarInvalidate => {
            ctx.mem.invalidate_scalar();
            Ok(())
        }
        Body::CacheControl => Ok(()),
    }
}

/// Returns whether MODE.VSKIP, which is set, skips an instruction.
fn is_skipped(wave: &Wave, body: &Body) -> bool {
    wave.isa == Isa::Gfx942 && !is_scalar(body)
}

fn is_scalar(body: &Body) -> bool {
    matches!(
        body,
        Body::Salu(_)
            | Body::Smem(_)
            | Body::ScalarLoad(_)
            | Body::ScalarAtomic(_)
            | Body::ScalarInvalidate
            | Body::CacheControl
    )
}
