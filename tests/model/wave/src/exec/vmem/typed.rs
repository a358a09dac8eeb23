// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Buffer accesses with conversion: `buffer_*_format_*` and `tbuffer_*`.

use super::{active, buffer, read, store_lds, write, Cells, LANES, MAX_BYTES};
use crate::exec::Ctx;
use crate::format::Format;
use crate::inst::{Access, Components, Typed, Vmem};
use crate::wave::{bad_address, violation, Halt, Step, Wave};
use crate::Isa;

/// Component selects of a resource: constants 0 and 1, then x, y, z and w.
const ONE: u32 = 1;
const X: u32 = 4;

/// Returns format and component selects.
fn element(w: &Wave, i: &Vmem, typed: &Typed) -> Result<(Format, [u32; 4]), Halt> {
    if let Some(format) = typed.format {
        return Ok((format, [X, X + 1, X + 2, X + 3]));
    }
    let word = w.s[usize::from(i.saddr.unwrap_or_default()) + 3];
    let format = match w.isa {
        Isa::Gfx942 => Format::gfx942(word >> 15 & 0xf, word >> 12 & 7),
        Isa::Gfx1201 => Format::gfx1201(word >> 12 & 0x3f),
    };
    let selects: [u32; 4] = std::array::from_fn(|n| word >> (3 * n) & 7);
    match format {
        Some(format) if !selects.iter().any(|s| matches!(s, 2 | 3)) => Ok((format, selects)),
        _ => violation(format!("buffer resource with reserved format: {word:#x}")),
    }
}

pub(super) fn step(w: &mut Wave, ctx: &mut Ctx<'_>, i: &Vmem, typed: &Typed, exec: u64) -> Step {
    let (format, selects) = element(w, i, typed)?;
    let size = format.size();
    let half = matches!(typed.registers, Components::Halves | Components::HighHalf);
    let mut room = [0; LANES * MAX_BYTES];
    // Without a resource all lanes are out of bounds.
    let mut inside = 0;
    let mut addresses = [0; LANES];
    if size > 0 {
        let cells = buffer::cells(w, i, size as u64, size as u64);
        (inside, addresses) = (exec & cells.inside[0], cells.addresses);
    }
    let align = format.alignment();
    if let Some(l) = active(inside).find(|&l| addresses[l] % align != 0) {
        let at = addresses[l];
        return bad_address(format!("buffer element of {size} bytes at {at:#x}"));
    }
    if typed.store {
        for l in active(inside) {
            let values = stored(w, i, typed, selects, l);
            format.store(values, half, &mut room[l * size..(l + 1) * size]);
        }
        let (lanes, complete) = (w.lanes(), &mut w.complete);
        return match inside {
            0 => Ok(()),
            _ => write(
                (ctx.mem, i.scope),
                &room,
                size,
                inside,
                Cells::Lanes(&addresses),
                lanes,
                complete,
            ),
        };
    }
    if inside != 0 {
        read(
            (ctx.mem, i.scope),
            &mut room,
            size,
            inside,
            Cells::Lanes(&addresses),
            w.lanes(),
        )?;
    }
    let mut loaded = [[0; LANES]; 4];
    for l in active(exec) {
        let mut values = [0; 4];
        if inside >> l & 1 != 0 {
            values = format.load(&room[l * size..(l + 1) * size], half);
        }
        for (lanes, select) in loaded.iter_mut().zip(selects) {
            lanes[l] = match select {
                0 => 0,
                ONE => format.one(half),
                _ => values[(select - X) as usize],
            };
        }
    }
    finish(w, ctx, i, typed, exec, &loaded);
    Ok(())
}

/// Writes loaded components to registers or LDS.
fn finish(
    w: &mut Wave,
    ctx: &mut Ctx<'_>,
    i: &Vmem,
    typed: &Typed,
    exec: u64,
    loaded: &[[u32; LANES]; 4],
) {
    let loaded = &loaded[..usize::from(typed.components)];
    let dst = usize::from(i.dst);
    match typed.registers {
        Components::Dwords => {
            for (n, lanes) in loaded.iter().enumerate() {
                w.write(dst + n, exec, lanes);
            }
        }
        Components::Halves => {
            for (n, pair) in loaded.chunks(2).enumerate() {
                let old = w.v[dst + n];
                let high = |l: usize| pair.get(1).map_or(old[l] & 0xffff_0000, |h| h[l] << 16);
                let lanes = std::array::from_fn(|l| pair[0][l] & 0xffff | high(l));
                w.write(dst + n, exec, &lanes);
            }
        }
        Components::HighHalf => {
            let old = w.v[dst];
            let lanes = std::array::from_fn(|l| loaded[0][l] << 16 | old[l] & 0xffff);
            w.write(dst, exec, &lanes);
        }
        Components::Lds => {
            let mut room = [0; LANES * MAX_BYTES];
            for (cell, value) in room.chunks_exact_mut(4).zip(&loaded[0]) {
                cell.copy_from_slice(&value.to_le_bytes());
            }
            let access = Access::LoadLds {
                bytes: 4,
                signed: false,
            };
            store_lds(w, ctx.lds, &Vmem { access, ..*i }, &room, exec);
        }
    }
}

/// Returns the components that lane `l` stores, in the order of memory.
fn stored(w: &Wave, i: &Vmem, typed: &Typed, selects: [u32; 4], l: usize) -> [u32; 4] {
    let data = usize::from(i.data);
    let register = |n: usize| match typed.registers {
        Components::Dwords | Components::Lds => w.v[data + n][l],
        Components::Halves => w.v[data + n / 2][l] >> (16 * (n % 2)) & 0xffff,
        Components::HighHalf => w.v[data][l] >> 16,
    };
    // Components that the instruction has not are copies of the first on gfx1201, zero on gfx942.
    let value = |n: usize| match w.isa {
        _ if n < usize::from(typed.components) => register(n),
        Isa::Gfx942 => 0,
        Isa::Gfx1201 => register(0),
    };
    std::array::from_fn(|n| {
        let from = selects.iter().position(|&s| s == X + n as u32);
        from.map_or(0, value)
    })
}
