// SPDX-License-Identifier: GPL-2.0 OR MIT

//! FLAT, GLOBAL, SCRATCH, MUBUF and MTBUF instructions; VFLAT, VGLOBAL, VSCRATCH and VBUFFER of
//! gfx1201.

use super::lds::{self, active, extend};
use super::{atomic, Ctx};
use crate::inst::{Access, Atomic, Half, Segment, Vmem};
use crate::wave::{bad_address, violation, Halt, Step, Wave, FIRST_REPLAY, LANES};
use crate::{Fault, FaultKind, Isa, Memory, Scope};

mod buffer;
mod transpose;
mod typed;

/// Maximum number of bytes per lane.
const MAX_BYTES: usize = 16;
/// Buffer for the data of a wave: `CELL` bytes per lane at most, in lane order and without gaps.
type Room<const CELL: usize> = [[u8; CELL]; LANES];
/// One address per lane.
type Addresses = [u64; LANES];

/// Where the cells of the lanes are.
#[derive(Clone, Copy)]
enum Cells<'a> {
    /// All lanes are active, and their cells contiguous from this address on.
    Run(u64),
    Lanes(&'a Addresses),
}

pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem) -> Step {
    let exec = w.replayed();
    w.complete = 0;
    let result = match exec {
        0 => Ok(()),
        _ => execute(w, ctx, i, exec),
    };
    if w.isa == Isa::Gfx942 {
        match &result {
            Err(Halt::Fault { fault, .. }) if fault.retry => w.replay_later(),
            _ => w.ib_sts &= !FIRST_REPLAY,
        }
    }
    result
}

/// Executes an access of these lanes. On a fault `complete` has those that need not repeat it.
fn execute(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, exec: u64) -> Step {
    if let Access::Block { store } = i.access {
        return block(w, ctx, i, exec, store);
    }
    match i.segment {
        Segment::Global => {
            let plain = match i.access {
                Access::Load { bytes, .. } | Access::Store { bytes, .. } => Some(bytes),
                _ => None,
            };
            if let Some(start) = plain.and_then(|bytes| global_run(w, i, bytes, exec)) {
                return transfer(w, ctx, i, exec, Cells::Run(start));
            }
            let addresses = global_addresses(w, i);
            match i.access {
                Access::LoadTranspose { element } => {
                    transpose::load(w, ctx, i, element, exec, &addresses)
                }
                _ => memory(w, ctx, i, exec, &addresses),
            }
        }
        Segment::GlobalByThread => {
            let base = i.saddr.map_or(0, |saddr| w.s64(saddr));
            let base = base.wrapping_add_signed(i.offset.into());
            let addresses = std::array::from_fn(|l| base.wrapping_add(4 * l as u64));
            memory(w, ctx, i, exec, &addresses)
        }
        Segment::Flat => flat(w, ctx, i, exec),
        Segment::Scratch => {
            let offsets = scratch_offsets(w, i);
            scratch(w, ctx, i, exec, &offsets)
        }
        Segment::Buffer { .. } => match i.access {
            Access::Typed(typed) => typed::step(w, ctx, i, &typed, exec),
            _ => buffer_access(w, ctx, i, exec),
        },
    }
}

/// Executes a block load or store: a dword for each of 32 registers, without those that are clear
/// in M0.
fn block(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, exec: u64, store: bool) -> Step {
    let access = match store {
        true => Access::Store {
            bytes: 4,
            high: false,
        },
        false => Access::Load {
            bytes: 4,
            signed: false,
            half: Half::Whole,
        },
    };
    let m0 = w.m0();
    for n in (0..32).filter(|n| m0 >> n & 1 != 0) {
        let (data, dst) = (i.data + n, i.dst + n);
        if usize::from(if store { data } else { dst }) >= w.v.len() {
            return violation(format!(
                "block of {} and more VGPRs at v{}",
                n + 1,
                data.max(dst) - n
            ));
        }
        let offset = i.offset + 4 * i32::from(n);
        let part = Vmem {
            access,
            data,
            dst,
            offset,
            ..*i
        };
        let done = execute(w, ctx, &part, exec);
        // A lane is complete after its last dword only.
        w.complete = 0;
        done?;
    }
    Ok(())
}

/// Executes an access to a buffer: out of bounds, loads return zero and stores are dropped. The
/// dwords of a load or store are in bounds one by one, an atomic as a whole.
fn buffer_access(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, exec: u64) -> Step {
    let bytes = match i.access {
        Access::Load { bytes, .. } | Access::Store { bytes, .. } => bytes,
        Access::Atomic { size, .. } => {
            let cells = buffer::cells(w, i, size.into(), size.into());
            let inside = cells.inside[0];
            if i.returns {
                for reg in 0..usize::from(size / 4) {
                    w.write(usize::from(i.dst) + reg, exec & !inside, &[0; LANES]);
                }
            }
            return memory(w, ctx, i, exec & inside, &cells.addresses);
        }
        Access::LoadLds { bytes, .. } => {
            let cells = buffer::cells(w, i, bytes.into(), bytes.into());
            let inside = cells.inside[0];
            let zero = &[0; LANES * MAX_BYTES];
            store_lds(w, ctx.lds, i, zero, exec & !inside);
            return memory(w, ctx, i, exec & inside, &cells.addresses);
        }
        Access::Typed(_) | Access::LoadTranspose { .. } | Access::Block { .. } => {
            return violation("not an untyped buffer access");
        }
    };
    let cells = buffer::cells(w, i, bytes.into(), bytes.min(4).into());
    let dwords = usize::from(bytes).div_ceil(4);
    let any = cells.inside[..dwords].iter().fold(0, |m, part| m | part);
    let all = cells.inside[..dwords].iter().fold(exec, |m, part| m & part);
    if let Access::Load { half, .. } = i.access {
        for reg in 0..dwords {
            let dst = usize::from(i.dst) + reg;
            // Of a d16 load the other half stays.
            let zero = w.v[dst].map(|old| extend(0, bytes, false, half, old));
            w.write(dst, exec & !all, &zero);
        }
    }
    memory(w, ctx, i, all, &cells.addresses)?;
    if any == all {
        return Ok(());
    }
    // Lanes that are partly in bounds: dword by dword.
    for (n, inside) in (0u8..).zip(&cells.inside[..dwords]) {
        let access = match i.access {
            Access::Store { high, .. } => Access::Store { bytes: 4, high },
            _ => Access::Load {
                bytes: 4,
                signed: false,
                half: Half::Whole,
            },
        };
        let dword = Vmem {
            access,
            dst: i.dst + u16::from(n),
            data: i.data + u16::from(n),
            ..*i
        };
        let addresses = cells.addresses.map(|a| a.wrapping_add(4 * u64::from(n)));
        memory(w, ctx, &dword, exec & inside & !all, &addresses)?;
    }
    Ok(())
}

/// Returns the address of the first cell, if all lanes are active and their cells contiguous.
fn global_run(w: &Wave, i: &Vmem, bytes: u8, exec: u64) -> Option<u64> {
    let lanes = w.lanes();
    if exec != u64::MAX >> (LANES - lanes) {
        return None;
    }
    let (at, size) = (usize::from(i.addr?), u32::from(bytes));
    let low = &w.v[at][..lanes];
    let first = low[0];
    // The offsets of the last lane do not overflow, either.
    first.checked_add(lanes as u32 * size)?;
    let (mut differs, mut next) = (0, first);
    for &v in low {
        differs |= v ^ next;
        next = next.wrapping_add(size);
    }
    let base = match i.saddr {
        Some(saddr) => w.s64(saddr),
        None => {
            let high = &w.v[at + 1][..lanes];
            differs |= high.iter().fold(0, |d, &v| d | v ^ high[0]);
            u64::from(high[0]) << 32
        }
    };
    let start = base.wrapping_add_signed(i.offset.into());
    (differs == 0).then(|| start.wrapping_add(first.into()))
}

fn global_addresses(w: &Wave, i: &Vmem) -> Addresses {
    let offset = i64::from(i.offset) as u64;
    let at = usize::from(i.addr.unwrap_or_default());
    let low = &w.v[at];
    match i.saddr {
        Some(saddr) => {
            let base = w.s64(saddr).wrapping_add(offset);
            std::array::from_fn(|l| base.wrapping_add(u64::from(low[l])))
        }
        None => {
            let high = &w.v[at + 1];
            std::array::from_fn(|l| {
                (u64::from(low[l]) | u64::from(high[l]) << 32).wrapping_add(offset)
            })
        }
    }
}

/// Returns byte offsets in the private memory of each lane.
fn scratch_offsets(w: &Wave, i: &Vmem) -> [i64; LANES] {
    // Both offsets are signed on gfx1201.
    let wide = match w.isa {
        Isa::Gfx942 => |value: u32| i64::from(value),
        Isa::Gfx1201 => |value: u32| i64::from(value as i32),
    };
    let base = i64::from(i.offset) + i.saddr.map_or(0, |reg| wide(w.s[usize::from(reg)]));
    match i.addr {
        Some(addr) => w.v[usize::from(addr)].map(|v| wide(v) + base),
        None => [base; LANES],
    }
}

/// Returns the lanes of a flat access in the LDS window.
pub(crate) fn lanes_in_lds(w: &Wave, i: &Vmem, exec: u64) -> u64 {
    let (addresses, shared) = (global_addresses(w, i), w.apertures.shared >> 32);
    let lanes = active(exec).filter(|&l| addresses[l] >> 32 == shared);
    lanes.fold(0, |mask, l| mask | 1 << l)
}

/// Executes a flat access: LDS window, scratch window or memory.
fn flat(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, exec: u64) -> Step {
    let addresses = global_addresses(w, i);
    let (shared, private) = (w.apertures.shared >> 32, w.apertures.private >> 32);
    let (mut in_lds, mut in_scratch) = (0, 0);
    for l in active(exec) {
        let window = addresses[l] >> 32;
        in_lds |= u64::from(window == shared) << l;
        in_scratch |= u64::from(window == private) << l;
    }
    let rest = exec & !in_lds & !in_scratch;
    let low = addresses.map(|a| a & 0xffff_ffff);
    if in_lds != 0 {
        // Compare-and-swap: operands in the opposite order of DS.
        let second = i.data
            + if let Access::Atomic { size: 8, .. } = i.access {
                2
            } else {
                1
            };
        let data = match i.access {
            Access::Atomic {
                op: Atomic::CmpSwap,
                ..
            } => [second, i.data],
            _ => [i.data, i.data],
        };
        let dst = i.returns.then_some(i.dst);
        lds::access(w, ctx.lds, i.access, in_lds, &low, data, dst)?;
        w.complete |= in_lds;
    }
    if in_scratch != 0 {
        scratch(w, ctx, i, in_scratch, &low.map(|a| a as i64))?;
        w.complete |= in_scratch;
    }
    match rest {
        0 => Ok(()),
        _ => memory(w, ctx, i, rest, &addresses),
    }
}

/// Executes a load, store or atomic on memory.
fn memory(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, mask: u64, addresses: &Addresses) -> Step {
    match i.access {
        _ if mask == 0 => Ok(()),
        Access::Atomic { op, size } => atomics(w, ctx, i, op, size, mask, addresses),
        _ => transfer(w, ctx, i, mask, Cells::Lanes(addresses)),
    }
}

/// Executes a load or store.
fn transfer(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, mask: u64, cells: Cells<'_>) -> Step {
    match i.access {
        Access::Load { bytes, .. } | Access::LoadLds { bytes, .. } => match bytes {
            ..=4 => load::<4>(w, ctx, i, bytes.into(), mask, cells),
            _ => load::<MAX_BYTES>(w, ctx, i, bytes.into(), mask, cells),
        },
        Access::Store { bytes, high } => match bytes {
            ..=4 => store::<4>(w, ctx, i, (bytes.into(), high), mask, cells),
            _ => store::<MAX_BYTES>(w, ctx, i, (bytes.into(), high), mask, cells),
        },
        Access::Atomic { .. }
        | Access::Typed(_)
        | Access::LoadTranspose { .. }
        | Access::Block { .. } => violation("not a plain access"),
    }
}

/// Executes a load of `size` bytes per lane, `CELL` at most.
fn load<const CELL: usize>(
    w: &mut Wave,
    ctx: &mut Ctx<'_>,
    i: &Vmem,
    size: usize,
    mask: u64,
    cells: Cells<'_>,
) -> Step {
    let mut room: Room<CELL> = [[0; CELL]; LANES];
    let room = room.as_flattened_mut();
    read((ctx.mem, i.scope), room, size, mask, cells, w.lanes())?;
    match i.access {
        Access::Load { .. } => finish_load(w, i, room, mask),
        _ => store_lds(w, ctx.lds, i, room, mask),
    }
    w.complete |= mask;
    Ok(())
}

/// Executes a store of `size` bytes per lane, `CELL` at most; `high`: from bit 16 of registers on.
fn store<const CELL: usize>(
    w: &mut Wave,
    ctx: &mut Ctx<'_>,
    i: &Vmem,
    (size, high): (usize, bool),
    mask: u64,
    cells: Cells<'_>,
) -> Step {
    let mut room: Room<CELL> = [[0; CELL]; LANES];
    let room = room.as_flattened_mut();
    gather_store(w, i, size, high, room);
    let (to, lanes) = ((ctx.mem, i.scope), w.lanes());
    write(to, room, size, mask, cells, lanes, &mut w.complete)
}

/// Returns the address in LDS of the first lane's dword.
pub(crate) fn lds_address(w: &Wave, i: &Vmem) -> u64 {
    u64::from(w.m0() & 0xffff).wrapping_add(i64::from(i.offset) as u64)
}

/// Moves loaded data into LDS: a dword per lane, from M0 on. Dwords beyond its end are dropped.
fn store_lds(w: &Wave, lds: &mut [u8], i: &Vmem, room: &[u8], mask: u64) {
    let Access::LoadLds { bytes, signed } = i.access else {
        return;
    };
    let size = usize::from(bytes);
    let base = lds_address(w, i);
    for l in active(mask) {
        let mut dword = [0; 4];
        dword[..size].copy_from_slice(&room[l * size..(l + 1) * size]);
        let value = extend(u32::from_le_bytes(dword), bytes, signed, Half::Whole, 0);
        if let Some(cell) = lds::cell(lds, base.wrapping_add(4 * l as u64), 4) {
            cell.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Moves loaded data into registers.
fn finish_load(w: &mut Wave, i: &Vmem, room: &[u8], mask: u64) {
    let Access::Load {
        bytes,
        signed,
        half,
    } = i.access
    else {
        return;
    };
    let size = usize::from(bytes);
    let dst = usize::from(i.dst);
    if size < 4 {
        let mut lanes = w.v[dst];
        for (lane, bytes_of) in lanes.iter_mut().zip(room.chunks_exact(size)) {
            let mut dword = [0; 4];
            dword[..size].copy_from_slice(bytes_of);
            *lane = extend(u32::from_le_bytes(dword), bytes, signed, half, *lane);
        }
        w.write(dst, mask, &lanes);
        return;
    }
    match size {
        4 => spread::<4>(w, dst, room, mask),
        8 => spread::<8>(w, dst, room, mask),
        12 => spread::<12>(w, dst, room, mask),
        _ => spread::<16>(w, dst, room, mask),
    }
}

/// Moves cells of `SIZE` bytes to one register per dword.
fn spread<const SIZE: usize>(w: &mut Wave, dst: usize, room: &[u8], mask: u64) {
    // Without gaps in EXEC.
    let lanes = mask.trailing_ones() as usize;
    let whole = mask.count_ones() as usize == lanes;
    for n in 0..SIZE / 4 {
        let dwords = room.chunks_exact(SIZE).map(|cell| {
            let cell = &cell[4 * n..4 * n + 4];
            u32::from_le_bytes([cell[0], cell[1], cell[2], cell[3]])
        });
        let to = &mut w.v[dst + n];
        if whole {
            to[..lanes]
                .iter_mut()
                .zip(dwords)
                .for_each(|(to, from)| *to = from);
            continue;
        }
        for (l, (to, from)) in to.iter_mut().zip(dwords).enumerate() {
            if mask >> l & 1 != 0 {
                *to = from;
            }
        }
    }
}

/// Collects the data of a store from registers.
fn gather_store(w: &Wave, i: &Vmem, size: usize, high: bool, room: &mut [u8]) {
    let shift = if high { 16 } else { 0 };
    let data = usize::from(i.data);
    match size {
        4 => return gather::<4>(w, data, room),
        8 => return gather::<8>(w, data, room),
        16 => return gather::<16>(w, data, room),
        _ => {}
    }
    for n in 0..size.div_ceil(4) {
        let lanes = &w.v[data + n];
        let part = size.min(4);
        for (cell, lane) in room.chunks_exact_mut(size).zip(lanes) {
            let bytes = (lane >> shift).to_le_bytes();
            cell[4 * n..4 * n + part].copy_from_slice(&bytes[..part]);
        }
    }
}

/// Collects cells of `SIZE` bytes from one register per dword.
fn gather<const SIZE: usize>(w: &Wave, data: usize, room: &mut [u8]) {
    for n in 0..SIZE / 4 {
        for (cell, lane) in room.chunks_exact_mut(SIZE).zip(&w.v[data + n]) {
            if let Ok(cell) = <&mut [u8; SIZE]>::try_from(cell) {
                let [a, b, c, d] = lane.to_le_bytes();
                cell[4 * n] = a;
                cell[4 * n + 1] = b;
                cell[4 * n + 2] = c;
                cell[4 * n + 3] = d;
            }
        }
    }
}

impl Cells<'_> {
    /// Returns [`Cells::Run`] if all lanes are active and their cells contiguous.
    fn resolve(self, size: usize, mask: u64, lanes: usize) -> Self {
        let Cells::Lanes(addresses) = self else {
            return self;
        };
        let first = addresses[0];
        let mut differs = 0;
        for (l, &address) in (0u64..).zip(&addresses[..lanes]) {
            differs |= address ^ first.wrapping_add(l * size as u64);
        }
        if mask == u64::MAX >> (LANES - lanes) && differs == 0 {
            return Cells::Run(first);
        }
        self
    }
}

/// Returns the last lane of the contiguous run of active lanes that starts at `first`.
fn run_end(first: usize, size: usize, mask: u64, addresses: &Addresses) -> usize {
    let mut last = first;
    while last + 1 < LANES
        && mask >> (last + 1) & 1 != 0
        && addresses[last + 1] == addresses[last].wrapping_add(size as u64)
    {
        last += 1;
    }
    last
}

/// Reads `size` bytes per lane of `mask`, contiguous cells in one access.
fn read(
    (mem, scope): (&dyn Memory, Scope),
    room: &mut [u8],
    size: usize,
    mask: u64,
    cells: Cells<'_>,
    lanes: usize,
) -> Step {
    let refused = |fault| Halt::Fault {
        fault,
        write: false,
    };
    let addresses = match cells.resolve(size, mask, lanes) {
        Cells::Lanes(addresses) => addresses,
        Cells::Run(start) => {
            let to = &mut room[..lanes * size];
            return mem.load(start, to, scope).map_err(refused);
        }
    };
    let mut l = mask.trailing_zeros() as usize;
    let mut previous: Option<usize> = None;
    while l < LANES {
        if mask >> l & 1 == 0 {
            l += 1;
            continue;
        }
        // Lanes often read the same cell.
        if let Some(p) = previous.filter(|&p| addresses[p] == addresses[l]) {
            room.copy_within(p * size..(p + 1) * size, l * size);
            previous = Some(l);
            l += 1;
            continue;
        }
        let last = run_end(l, size, mask, addresses);
        let to = &mut room[l * size..(last + 1) * size];
        mem.load(addresses[l], to, scope).map_err(refused)?;
        previous = Some(last);
        l = last + 1;
    }
    Ok(())
}

/// Writes `size` bytes per lane of `mask`, contiguous cells in one access. Adds the lanes that are
/// written to `complete`.
fn write(
    (mem, scope): (&dyn Memory, Scope),
    room: &[u8],
    size: usize,
    mask: u64,
    cells: Cells<'_>,
    lanes: usize,
    complete: &mut u64,
) -> Step {
    let mut run = |start: u64, first: usize, last: usize| {
        let from = &room[first * size..(last + 1) * size];
        let result = mem.store(start, from, scope);
        let all = (last + 1 - first) as u64;
        // The bytes before the one that is refused are written.
        let written = match &result {
            Ok(()) => all,
            Err(fault) => (fault.va.saturating_sub(start) / size as u64).min(all),
        };
        if written != 0 {
            *complete |= u64::MAX >> (LANES as u64 - written) << first;
        }
        result.map_err(|fault| Halt::Fault { fault, write: true })
    };
    let addresses = match cells.resolve(size, mask, lanes) {
        Cells::Lanes(addresses) => addresses,
        Cells::Run(start) => return run(start, 0, lanes - 1),
    };
    let mut l = 0;
    while l < LANES {
        if mask >> l & 1 == 0 {
            l += 1;
            continue;
        }
        let last = run_end(l, size, mask, addresses);
        run(addresses[l], l, last)?;
        l = last + 1;
    }
    Ok(())
}

fn atomics(
    w: &mut Wave,
    ctx: &mut Ctx<'_>,
    i: &Vmem,
    op: Atomic,
    size: u8,
    mask: u64,
    addresses: &Addresses,
) -> Step {
    let regs = usize::from(size) / 4;
    let at = usize::from(i.data);
    for l in active(mask) {
        let va = addresses[l];
        if va % u64::from(size) != 0 {
            let fault = Fault {
                va,
                kind: FaultKind::Misaligned,
                retry: false,
            };
            return Err(Halt::Fault { fault, write: true });
        }
        let operand = |reg: usize| match size {
            8 => u64::from(w.v[reg][l]) | u64::from(w.v[reg + 1][l]) << 32,
            _ => u64::from(w.v[reg][l]),
        };
        let (data, data2) = match op {
            Atomic::CmpSwap => (operand(at + regs), operand(at)),
            _ => (operand(at), 0),
        };
        let mut change = |old: u64| atomic::apply(op, size, old, data, data2, false);
        let old = ctx
            .mem
            .atomic(va, size, &mut change)
            .map_err(|fault| Halt::Fault { fault, write: true })?;
        if i.returns {
            let dst = usize::from(i.dst);
            w.v[dst][l] = old as u32;
            if size == 8 {
                w.v[dst + 1][l] = (old >> 32) as u32;
            }
        }
        w.complete |= 1 << l;
    }
    Ok(())
}

/// Accesses private memory. Dwords of the lanes are interleaved: lanes with the same offset access
/// consecutive addresses.
fn scratch(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, mask: u64, offsets: &[i64; LANES]) -> Step {
    let size = match i.access {
        Access::Load { bytes, .. } | Access::Store { bytes, .. } => usize::from(bytes),
        _ => return violation("atomic or LDS load of scratch"),
    };
    let lanes = w.lanes();
    let limit = (ctx.dispatch.scratch.wave_stride / lanes as u64) as i64;
    for l in active(mask) {
        if offsets[l] < 0 || offsets[l] + size as i64 > limit {
            let offset = offsets[l];
            return bad_address(format!(
                "scratch access of {size} bytes at {offset:#x}, {limit:#x} for each lane"
            ));
        }
    }
    // A piece never crosses a dword: whole dwords if all lanes are aligned, else bytes.
    let aligned = active(mask).all(|l| offsets[l] % size.min(4) as i64 == 0);
    let piece = if aligned { size.min(4) } else { 1 };
    let (base, row) = (w.scratch, 4 * lanes as u64);
    let place = |part: usize| -> Addresses {
        std::array::from_fn(|l| {
            let offset = offsets[l] as u64 + part as u64;
            // Inactive lanes may have any address.
            let first = base.wrapping_add((offset / 4).wrapping_mul(row));
            first.wrapping_add(4 * l as u64 + offset % 4)
        })
    };
    let mut room = [0; LANES * MAX_BYTES];
    let mut part_room = [0; LANES * MAX_BYTES];
    if let Access::Store { high, .. } = i.access {
        gather_store(w, i, size, high, &mut room);
    }
    for part in (0..size).step_by(piece) {
        let addresses = place(part);
        if let Access::Store { .. } = i.access {
            for l in 0..lanes {
                let from = l * size + part;
                part_room[l * piece..(l + 1) * piece].copy_from_slice(&room[from..from + piece]);
            }
            // Part of a cell: the lane repeats all of it.
            let mut parts = 0;
            write(
                (ctx.mem, i.scope),
                &part_room,
                piece,
                mask,
                Cells::Lanes(&addresses),
                lanes,
                &mut parts,
            )?;
        } else {
            read(
                (ctx.mem, i.scope),
                &mut part_room,
                piece,
                mask,
                Cells::Lanes(&addresses),
                lanes,
            )?;
            for l in 0..lanes {
                let to = l * size + part;
                room[to..to + piece].copy_from_slice(&part_room[l * piece..(l + 1) * piece]);
            }
        }
    }
    finish_load(w, i, &room, mask);
    Ok(())
}
