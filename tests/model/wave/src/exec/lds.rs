// SPDX-License-Identifier: GPL-2.0 OR MIT

//! DS instructions: LDS of the workgroup, lane crossbar and GWS.

use super::{atomic, Ctx};
use crate::inst::{Access, Atomic, Half, Lds, LdsOp};
use crate::wave::{bad_address, violation, Halt, Lanes, State, Step, Wave, LANES};
use crate::{Gws, GwsReply, Isa};

/// Returns the bytes of an LDS cell, or `None` if it does not lie inside of the allocation.
pub(crate) fn cell(lds: &mut [u8], at: u64, bytes: usize) -> Option<&mut [u8]> {
    let at = usize::try_from(at).ok()?;
    lds.get_mut(at..at.checked_add(bytes)?)
}

/// Returns the bytes of a cell, zeros outside of the allocation.
fn load(lds: &mut [u8], at: u64, bytes: usize) -> &[u8] {
    match cell(lds, at, bytes) {
        Some(cell) => cell,
        None => &[0; 16][..bytes],
    }
}

fn load_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b))
}

/// Returns the dwords of a cell. Zero are all of them if part of the cell is outside of the
/// allocation, on gfx1201 those that are partly outside.
fn load_dwords(lds: &mut [u8], isa: Isa, at: u64, bytes: usize) -> [u32; 4] {
    let mut dwords = [0; 4];
    if isa == Isa::Gfx942 && cell(lds, at, bytes).is_none() {
        return dwords;
    }
    for (n, dword) in dwords.iter_mut().enumerate().take(bytes.div_ceil(4)) {
        let here = (bytes - 4 * n).min(4);
        *dword = load_word(load(lds, at + 4 * n as u64, here)) as u32;
    }
    dwords
}

/// Stores to a cell. Dropped are all bytes if part of the cell is outside of the allocation, on
/// gfx1201 those outside.
fn store(lds: &mut [u8], isa: Isa, at: u64, data: &[u8]) {
    match (cell(lds, at, data.len()), isa) {
        (Some(cell), _) => cell.copy_from_slice(data),
        (None, Isa::Gfx942) => {}
        (None, Isa::Gfx1201) => {
            for (n, &byte) in data.iter().enumerate() {
                if let Some(cell) = cell(lds, at + n as u64, 1) {
                    cell[0] = byte;
                }
            }
        }
    }
}

/// Returns the bytes of registers of a lane from `reg` on, from bit `shift` of each.
fn bytes_of(w: &Wave, reg: usize, lane: usize, bytes: usize, shift: u32) -> [u8; 16] {
    let mut data = [0; 16];
    for (n, dword) in data.chunks_mut(4).enumerate().take(bytes.div_ceil(4)) {
        dword.copy_from_slice(&(w.v[reg + n][lane] >> shift).to_le_bytes());
    }
    data
}

/// Returns an address in LDS. It has 32 bits: a negative base with an offset is inside.
fn address(base: u32, offset: u32) -> u64 {
    base.wrapping_add(offset).into()
}

/// Iterates over the active lanes in order.
pub(crate) fn active(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |l| mask >> l & 1 != 0)
}

/// Returns the register after a load of `value`, given its old contents. With SRAM ECC, d16 loads
/// would write the whole register; the cards of the model do not report it (`C2PMSG_127`).
pub(super) fn extend(value: u32, bytes: u8, signed: bool, half: Half, old: u32) -> u32 {
    let wide = match (bytes, signed) {
        (1, true) => i32::from(value as u8 as i8) as u32,
        (2, true) => i32::from(value as u16 as i16) as u32,
        _ => value,
    };
    match half {
        Half::Whole => wide,
        Half::Low => wide & 0xffff | old & 0xffff_0000,
        Half::High => wide << 16 | old & 0xffff,
    }
}

/// Executes a load, store or atomic of LDS at `addresses`.
pub(super) fn access(
    w: &mut Wave,
    lds: &mut [u8],
    access: Access,
    mask: u64,
    addresses: &[u64; LANES],
    data: [u16; 2],
    dst: Option<u16>,
) -> Step {
    let ([data0, data1], isa) = (data.map(usize::from), w.isa);
    // Fast path: whole dwords.
    match access {
        Access::Load { bytes: 4, .. } => {
            let to = &mut w.v[usize::from(dst.unwrap_or_default())];
            for l in active(mask) {
                to[l] = load_word(load(lds, addresses[l], 4)) as u32;
            }
            return Ok(());
        }
        Access::Store { bytes: 4, .. } => {
            let from = &w.v[data0];
            for l in active(mask) {
                store(lds, isa, addresses[l], &from[l].to_le_bytes());
            }
            return Ok(());
        }
        _ => {}
    }
    for l in active(mask) {
        match access {
            Access::Load {
                bytes,
                signed,
                half,
            } => {
                let at = usize::from(dst.unwrap_or_default());
                let size = usize::from(bytes);
                let dwords = load_dwords(lds, isa, addresses[l], size);
                for (n, &value) in dwords.iter().enumerate().take(size.div_ceil(4)) {
                    let to = &mut w.v[at + n][l];
                    *to = extend(value, bytes, signed, half, *to);
                }
            }
            Access::Store { bytes, high } => {
                let (size, shift) = (usize::from(bytes), if high { 16 } else { 0 });
                let data = bytes_of(w, data0, l, size, shift);
                store(lds, isa, addresses[l], &data[..size]);
            }
            Access::Atomic { op, size } => {
                if addresses[l] % u64::from(size) != 0 {
                    return bad_address(format!("LDS atomic at {:#x}", addresses[l]));
                }
                let operand = |reg: usize| match size {
                    8 => u64::from(w.v[reg][l]) | u64::from(w.v[reg + 1][l]) << 32,
                    _ => u64::from(w.v[reg][l]),
                };
                let two = matches!(
                    op,
                    Atomic::CmpSwap | Atomic::FCmpSwap | Atomic::MsKor | Atomic::Wrap
                );
                let second = if two { operand(data1) } else { 0 };
                let flush = w.mode >> 4 & 3 == 0;
                let old = load_word(load(lds, addresses[l], size.into()));
                let new = atomic::apply(op, size, old, operand(data0), second, flush);
                if let Some(cell) = cell(lds, addresses[l], size.into()) {
                    cell.copy_from_slice(&new.to_le_bytes()[..size.into()]);
                }
                if let Some(dst) = dst {
                    let dst = usize::from(dst);
                    w.v[dst][l] = old as u32;
                    if size == 8 {
                        w.v[dst + 1][l] = (old >> 32) as u32;
                    }
                }
            }
            Access::LoadLds { .. }
            | Access::Typed(_)
            | Access::LoadTranspose { .. }
            | Access::Block { .. } => {
                return violation("not an access to LDS");
            }
        }
    }
    Ok(())
}

/// Accesses two cells. Equal offsets are one on gfx942, with the first data.
fn pair(
    w: &mut Wave,
    lds: &mut [u8],
    i: &Lds,
    bytes: u8,
    stride: u32,
    read: bool,
    write: bool,
) -> Step {
    let (size, isa) = (usize::from(bytes), w.isa);
    let words = size / 4;
    let is_one = isa == Isa::Gfx942 && i.offset[0] == i.offset[1];
    let written = if is_one { 1 } else { 2 };
    for l in active(w.exec()) {
        let base = w.v[usize::from(i.addr)][l];
        let at = |n: usize| address(base, u32::from(i.offset[n]) * stride);
        let mut old = [0u32; 4];
        for n in 0..2 {
            let dwords = load_dwords(lds, isa, at(n), size);
            old[n * words..][..words].copy_from_slice(&dwords[..words]);
        }
        if write {
            for n in 0..written {
                let data = bytes_of(w, i.data[n].into(), l, size, 0);
                store(lds, isa, at(n), &data[..size]);
            }
        }
        if read {
            for (k, value) in old.iter().take(2 * words).enumerate() {
                w.v[usize::from(i.dst) + k][l] = *value;
            }
        }
    }
    Ok(())
}

/// Returns the source lane of `ds_swizzle`.
fn swizzle(offset: u32, lane: u32) -> Result<u32, Halt> {
    let in_half = lane & 31;
    let from = match offset {
        0..=0x7fff => {
            let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
            (in_half & and | or) ^ xor
        }
        0x8000..=0x80ff => (in_half & !3) + (offset >> (2 * (lane & 3)) & 3),
        0xc000..=0xdfff => {
            let (mask, by) = (offset & 31, offset >> 5 & 31);
            let by = if offset >> 10 & 1 != 0 { 32 - by } else { by };
            in_half & mask | (in_half + by) & 31 & !mask
        }
        // FFT: the bits outside of the mask, reversed, below those in the mask.
        0xe000.. => {
            let mask = offset & 31;
            in_half.reverse_bits() >> 27 >> mask.count_ones() | in_half & mask
        }
        _ => return violation(format!("ds_swizzle offset {offset:#x}")),
    };
    Ok((lane & 32) + from)
}

pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Lds) -> Step {
    let offset = u32::from(i.offset[0]) | u32::from(i.offset[1]) << 8;
    let exec = w.exec();
    let dst = usize::from(i.dst);
    let lanes = w.lanes();
    match i.op {
        LdsOp::Nop => {}
        LdsOp::Gws(op) => {
            let lane = exec.trailing_zeros() as usize % LANES;
            let request = Gws {
                op,
                resource: ((w.m0() >> 16) + offset & 0x3f) as u8,
                value: w.v[usize::from(i.addr)][lane],
            };
            match ctx.host.gws(&request) {
                Some(GwsReply::Go) => {}
                Some(GwsReply::Wait(ticket)) => w.state = State::Gws(ticket),
                None => return violation(format!("{request:?}: no such GWS resource")),
            }
        }
        LdsOp::Access(what) => {
            let base = &w.v[usize::from(i.addr)];
            let addresses = std::array::from_fn(|l| address(base[l], offset));
            let to = i.returns.then_some(i.dst);
            access(w, ctx.lds, what, exec, &addresses, i.data, to)?;
        }
        LdsOp::Read2 { bytes, stride } => pair(w, ctx.lds, i, bytes, stride, true, false)?,
        LdsOp::Write2 { bytes, stride } => pair(w, ctx.lds, i, bytes, stride, false, true)?,
        LdsOp::Exchange2 { bytes, stride } => pair(w, ctx.lds, i, bytes, stride, true, true)?,
        LdsOp::Swizzle => {
            let from: Lanes = w.v[usize::from(i.addr)];
            let mut out = [0; LANES];
            for (l, out) in out.iter_mut().enumerate() {
                let source = swizzle(offset, l as u32)? as usize;
                *out = if exec >> source & 1 != 0 {
                    from[source]
                } else {
                    0
                };
            }
            w.write(dst, exec, &out);
        }
        LdsOp::Permute => {
            let (addr, data) = (w.v[usize::from(i.addr)], w.v[usize::from(i.data[0])]);
            let mut out = [0; LANES];
            for l in active(exec) {
                out[(addr[l].wrapping_add(offset) / 4) as usize % lanes] = data[l];
            }
            w.write(dst, exec, &out);
        }
        LdsOp::BPermute { inactive } => {
            let (addr, data) = (w.v[usize::from(i.addr)], w.v[usize::from(i.data[0])]);
            let out = std::array::from_fn(|l| {
                let source = (addr[l].wrapping_add(offset) / 4) as usize % lanes;
                if inactive || exec >> source & 1 != 0 {
                    data[source]
                } else {
                    0
                }
            });
            w.write(dst, exec, &out);
        }
        LdsOp::Append | LdsOp::Consume => {
            let at = u64::from(w.m0() & 0xffff) + u64::from(offset);
            let old = load_word(load(ctx.lds, at, 4)) as u32;
            let count = exec.count_ones();
            let new = match i.op {
                LdsOp::Append => old.wrapping_add(count),
                _ => old.wrapping_sub(count),
            };
            if let Some(cell) = cell(ctx.lds, at, 4) {
                cell.copy_from_slice(&new.to_le_bytes());
            }
            w.write(dst, exec, &[old; LANES]);
        }
        LdsOp::ReadAddTid | LdsOp::WriteAddTid => {
            let base = u64::from(w.m0() & 0xffff) + u64::from(offset);
            let addresses = std::array::from_fn(|l| base + 4 * l as u64);
            let what = match i.op {
                LdsOp::ReadAddTid => Access::Load {
                    bytes: 4,
                    signed: false,
                    half: Half::Whole,
                },
                _ => Access::Store {
                    bytes: 4,
                    high: false,
                },
            };
            access(w, ctx.lds, what, exec, &addresses, i.data, Some(i.dst))?;
        }
    }
    Ok(())
}
