// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `global_load_tr_b128` and `global_load_tr_b64` of gfx1201: load of a 16x16 matrix of 16-bit or
//! 8-bit elements for WMMA, with rows and columns exchanged.

use super::{read, Addresses, Cells, LANES, MAX_BYTES};
use crate::exec::Ctx;
use crate::inst::Vmem;
use crate::wave::{violation, Step, Wave};

/// Lanes with an address, each of 8 consecutive elements.
const ROWS: usize = 32;
/// Elements of a row.
const COLUMNS: usize = 8;

/// Returns row and column of element `n` in the 8 elements that lane `lane` of a wave32 gets.
fn source(lane: usize, n: usize, element: u8) -> (usize, usize) {
    let row = match element {
        // Groups of 8 lanes exchange rows and columns of 8x8 elements.
        2 => lane / 8 * 8 + n,
        // 16 lanes have 8 rows of 16 elements, in two halves of 4 lanes each.
        _ => lane / 16 * 16 + n / 4 * 8 + lane / 8 % 2 * 4 + n % 4,
    };
    (row, lane % 8)
}

/// Executes the load. In a wave64 only lanes 0 to 31 have an address, and a lane of the wave32 is
/// two lanes: 32 lanes apart, with the lower and the upper half of its elements.
pub(super) fn load(
    w: &mut Wave,
    ctx: &mut Ctx<'_>,
    i: &Vmem,
    element: u8,
    exec: u64,
    addresses: &Addresses,
) -> Step {
    let lanes = w.lanes();
    if exec != u64::MAX >> (LANES - lanes) {
        return violation(format!(
            "transposing load with inactive lanes: EXEC {exec:#x}"
        ));
    }
    let size = usize::from(element);
    let row = COLUMNS * size;
    let mut room = [0; LANES * MAX_BYTES];
    let all = u64::MAX >> (LANES - ROWS);
    read(
        (ctx.mem, i.scope),
        &mut room,
        row,
        all,
        Cells::Lanes(addresses),
        ROWS,
    )?;
    let count = COLUMNS * ROWS / lanes;
    let mut out = [[0u32; LANES]; MAX_BYTES / 4];
    for lane in 0..lanes {
        for n in 0..count {
            let (from, column) = source(lane % ROWS, n + lane / ROWS * count, element);
            let at = from * row + column * size;
            let bytes = &room[at..at + size];
            let value = bytes.iter().rev().fold(0, |v, &b| v << 8 | u32::from(b));
            out[n * size / 4][lane] |= value << (8 * (n * size % 4));
        }
    }
    for (n, lanes) in out.iter().take(count * size / 4).enumerate() {
        w.write(usize::from(i.dst) + n, exec, lanes);
    }
    Ok(())
}
