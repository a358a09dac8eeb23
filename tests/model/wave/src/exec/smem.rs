// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Scalar memory instructions: loads, stores, atomics and clocks of gfx942, and loads of gfx1201.

use super::{atomic, Ctx};
use crate::inst::{Atomic, ScalarAtomic, ScalarLoad, Smem};
use crate::op::Op;
use crate::wave::{Halt, Step, Wave};
use crate::{Fault, FaultKind};

/// Maximum number of dwords per instruction.
const MAX_DWORDS: usize = 16;

/// Returns the address of a non-buffer access: 64-bit base and byte offsets, of each of which the
/// two lowest bits are ignored.
fn address(w: &Wave, i: &Smem, base: u64) -> u64 {
    let soffset = scalar_offset(w, i.soffset) as i64;
    // Scratch: the register counts cells of 64 bytes.
    let scratch = matches!(
        i.op,
        Op::s_scratch_load_dword
            | Op::s_scratch_load_dwordx2
            | Op::s_scratch_load_dwordx4
            | Op::s_scratch_store_dword
            | Op::s_scratch_store_dwordx2
            | Op::s_scratch_store_dwordx4
    );
    let soffset = soffset * if scratch { 64 } else { 1 };
    let offset = (i64::from(i.offset) & !3) + (soffset & !3);
    (base & !3).wrapping_add_signed(offset)
}

/// Returns base and size in bytes of the buffer resource at `first`.
fn buffer(w: &Wave, first: u8) -> (u64, u64) {
    let at = usize::from(first);
    let base = u64::from(w.s[at]) | u64::from(w.s[at + 1] & 0xffff) << 32;
    let stride = u64::from(w.s[at + 1] >> 16 & 0x3fff);
    let records = u64::from(w.s[at + 2]);
    let size = if stride == 0 {
        records
    } else {
        records * stride
    };
    (base, size)
}

/// Returns the address of a buffer access, aligned as in [`address`], and the bytes of the buffer
/// from there on.
fn buffer_cell(w: &Wave, i: &Smem) -> (u64, u64) {
    let (base, size) = buffer(w, i.base);
    let offset = u64::from(i.offset as u32 & !3) + (scalar_offset(w, i.soffset) & !3);
    (
        (base & !3).wrapping_add(offset),
        size.saturating_sub(offset) & !3,
    )
}

/// Returns the data of a store.
fn dwords(w: &Wave, i: &Smem) -> [u8; MAX_DWORDS * 4] {
    let at = usize::from(i.data);
    let mut bytes = [0; MAX_DWORDS * 4];
    for (to, from) in bytes
        .chunks_exact_mut(4)
        .zip(&w.s[at..at + usize::from(i.dwords)])
    {
        to.copy_from_slice(&from.to_le_bytes());
    }
    bytes
}

fn scalar_offset(w: &Wave, soffset: Option<u8>) -> u64 {
    soffset.map_or(0, |reg| w.s[usize::from(reg)].into())
}

pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Smem) -> Step {
    use Op::*;
    match i.op {
        s_dcache_inv | s_dcache_inv_vol => {
            ctx.mem.invalidate_scalar();
            Ok(())
        }
        s_dcache_wb | s_dcache_wb_vol => {
            ctx.mem.write_back_scalar();
            Ok(())
        }
        s_dcache_discard | s_dcache_discard_x2 | s_atc_probe | s_atc_probe_buffer => Ok(()),
        s_memtime => {
            w.set_s64(i.data, ctx.host.shader_clock());
            Ok(())
        }
        s_memrealtime => {
            w.set_s64(i.data, ctx.host.realtime());
            Ok(())
        }
        s_load_dword
        | s_load_dwordx2
        | s_load_dwordx4
        | s_load_dwordx8
        | s_load_dwordx16
        | s_scratch_load_dword
        | s_scratch_load_dwordx2
        | s_scratch_load_dwordx4 => {
            let va = address(w, i, w.s64(i.base));
            let mut bytes = [0; MAX_DWORDS * 4];
            let bytes = &mut bytes[..usize::from(i.dwords) * 4];
            let loaded = ctx.mem.load_scalar(va, bytes, i.scope());
            loaded.map_err(|fault| Halt::Fault {
                fault,
                write: false,
            })?;
            put(w, i.data, bytes);
            Ok(())
        }
        s_store_dword
        | s_store_dwordx2
        | s_store_dwordx4
        | s_scratch_store_dword
        | s_scratch_store_dwordx2
        | s_scratch_store_dwordx4 => {
            let va = address(w, i, w.s64(i.base));
            let bytes = dwords(w, i);
            store(w, ctx, i, va, &bytes[..usize::from(i.dwords) * 4])
        }
        s_buffer_store_dword | s_buffer_store_dwordx2 | s_buffer_store_dwordx4 => {
            let (va, size) = buffer_cell(w, i);
            let bytes = dwords(w, i);
            // Dwords beyond the buffer are dropped.
            let inside = size.min(u64::from(i.dwords) * 4) as usize;
            match inside {
                0 => Ok(()),
                inside => store(w, ctx, i, va, &bytes[..inside]),
            }
        }
        s_buffer_load_dword
        | s_buffer_load_dwordx2
        | s_buffer_load_dwordx4
        | s_buffer_load_dwordx8
        | s_buffer_load_dwordx16 => {
            let (va, size) = buffer_cell(w, i);
            let mut bytes = [0; MAX_DWORDS * 4];
            let bytes = &mut bytes[..usize::from(i.dwords) * 4];
            // Dwords beyond the buffer read as zero.
            let inside = size.min(bytes.len() as u64) as usize;
            if inside > 0 {
                ctx.mem
                    .load_scalar(va, &mut bytes[..inside], i.scope())
                    .map_err(|fault| Halt::Fault {
                        fault,
                        write: false,
                    })?;
            }
            put(w, i.data, bytes);
            Ok(())
        }
        other => Err(Halt::Illegal(format!("{other:?} is not implemented"))),
    }
}

/// Returns whether the data of an instruction is stored.
pub(crate) fn stores(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        s_store_dword
            | s_store_dwordx2
            | s_store_dwordx4
            | s_scratch_store_dword
            | s_scratch_store_dwordx2
            | s_scratch_store_dwordx4
            | s_buffer_store_dword
            | s_buffer_store_dwordx2
            | s_buffer_store_dwordx4
    )
}

/// Stores, and drops what the scalar cache has loaded of it.
fn store(w: &Wave, ctx: &Ctx<'_>, i: &Smem, va: u64, data: &[u8]) -> Step {
    if w.has_ecc_error() {
        return Ok(());
    }
    let stored = ctx.mem.store_scalar(va, data, i.scope());
    ctx.mem.invalidate_scalar();
    stored.map_err(|fault| Halt::Fault { fault, write: true })
}

fn put(w: &mut Wave, data: u8, bytes: &[u8]) {
    let at = usize::from(data);
    for (to, from) in w.s[at..].iter_mut().zip(bytes.chunks_exact(4)) {
        *to = u32::from_le_bytes([from[0], from[1], from[2], from[3]]);
    }
}

/// Executes an atomic of gfx942.
pub(super) fn atomic(w: &mut Wave, ctx: &mut Ctx<'_>, i: &ScalarAtomic) -> Step {
    let offset = scalar_offset(w, i.soffset).wrapping_add_signed(i.offset.into());
    let size = u64::from(i.size);
    let (base, inside) = if i.buffer {
        let (base, bytes) = buffer(w, i.base);
        (base, offset.saturating_add(size) <= bytes)
    } else {
        (w.s64(i.base), true)
    };
    let operand = |at: u8| match i.size {
        8 => w.s64(at),
        _ => w.s[usize::from(at)].into(),
    };
    let (data, data2) = match i.op {
        Atomic::CmpSwap => (operand(i.data + i.size / 4), operand(i.data)),
        _ => (operand(i.data), 0),
    };
    let va = base.wrapping_add(offset);
    let refused = |fault| Halt::Fault { fault, write: true };
    if va % size != 0 {
        let kind = FaultKind::Misaligned;
        return Err(refused(Fault {
            va,
            kind,
            retry: false,
        }));
    }
    // Beyond a buffer it is dropped and returns zero.
    let mut old = 0;
    if inside {
        let mut change = |old: u64| atomic::apply(i.op, i.size, old, data, data2, false);
        ctx.mem.write_back_scalar();
        old = ctx.mem.atomic(va, i.size, &mut change).map_err(refused)?;
        ctx.mem.invalidate_scalar();
    }
    if i.returns {
        put(w, i.data, &old.to_le_bytes()[..usize::from(i.size)]);
    }
    Ok(())
}

/// Executes a load of gfx1201. The base is aligned to dwords, the address to the data.
pub(super) fn load(w: &mut Wave, ctx: &mut Ctx<'_>, i: &ScalarLoad) -> Step {
    let size = usize::from(i.bytes);
    let unit = size.min(4) as u64;
    let offset = scalar_offset(w, i.soffset).wrapping_add_signed(i.offset.into()) & !(unit - 1);
    let (base, inside) = if i.buffer {
        let (base, records) = buffer(w, i.base);
        // Dwords beyond the buffer read as zero.
        let left = records.saturating_sub(offset);
        let left = if size < 4 { left } else { left & !3 };
        (base, left.min(size as u64) as usize)
    } else {
        (w.s64(i.base), size)
    };
    let va = (base & !3).wrapping_add(offset);
    let mut bytes = [0; MAX_DWORDS * 4];
    // A sub-dword load that crosses the end of a buffer returns zero.
    if inside >= size.min(4) {
        ctx.mem
            .load_scalar(va, &mut bytes[..inside], i.scope)
            .map_err(|fault| Halt::Fault {
                fault,
                write: false,
            })?;
    }
    match (size, i.signed) {
        (1, true) => w.s[usize::from(i.data)] = i32::from(bytes[0] as i8) as u32,
        (2, true) => {
            let half = i16::from_le_bytes([bytes[0], bytes[1]]);
            w.s[usize::from(i.data)] = i32::from(half) as u32;
        }
        _ => put(w, i.data, &bytes[..size.next_multiple_of(4)]),
    }
    Ok(())
}
