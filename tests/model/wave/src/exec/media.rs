// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sums of absolute differences over sliding byte windows, and cube map coordinates.

use super::int::{msad_u8, sad_u8};
use super::valu::Tried;
use crate::inst::{Src, Valu};
use crate::op::Op;
use crate::wave::{violation, Halt, Lanes, Wave, LANES};

/// Cube map faces by number: +x, -x, +y, -y, +z, -z.
fn cube(op: Op, [x, y, z]: [f32; 3]) -> f32 {
    use Op::*;
    let along_z = z.abs() >= x.abs() && z.abs() >= y.abs();
    let along_y = !along_z && y.abs() >= x.abs();
    let signed = |negative: bool, v: f32| if negative { -v } else { v };
    match (op, along_z, along_y) {
        (v_cubeid_f32, true, _) => 4.0 + f32::from(z < 0.0),
        (v_cubeid_f32, _, true) => 2.0 + f32::from(y < 0.0),
        (v_cubeid_f32, ..) => f32::from(x < 0.0),
        (v_cubesc_f32, true, _) => signed(z < 0.0, x),
        (v_cubesc_f32, _, true) => x,
        (v_cubesc_f32, ..) => -signed(x < 0.0, z),
        (v_cubetc_f32, false, true) => signed(y < 0.0, z),
        (v_cubetc_f32, ..) => -y,
        (_, true, _) => 2.0 * z,
        (_, _, true) => 2.0 * y,
        _ => 2.0 * x,
    }
}

/// Returns the four 4-byte windows that start at bytes 0 to 3 of `bytes`.
fn windows(bytes: u64) -> [u32; 4] {
    [0, 8, 16, 24].map(|shift| (bytes >> shift) as u32)
}

/// Four 16-bit sums, each added to its part of `c`.
fn packed(w: &mut Wave, i: &Valu, sad: fn(u32, u32) -> u32) {
    let (a, b, c) = (w.raw64(i, 0), w.raw(i, 1), w.raw64(i, 2));
    let lane = |l: usize| {
        let parts = windows(a[l]).into_iter().enumerate();
        parts.fold(0, |out, (n, window)| {
            let sum = (c[l] >> (16 * n) & 0xffff) as u32 + sad(window, b[l]);
            let sum = if i.clamp {
                sum.min(0xffff)
            } else {
                sum & 0xffff
            };
            out | u64::from(sum) << (16 * n)
        })
    };
    let out = std::array::from_fn(lane);
    w.put64(i, &out);
}

/// Four 32-bit sums, each added to its register of source 2.
fn wide(w: &mut Wave, i: &Valu) -> Result<(), Halt> {
    let (a, b) = (w.raw64(i, 0), w.raw(i, 1));
    let Src::Vgpr(c) = i.src[2] else {
        return violation("v_mqsad_u32_u8 with a scalar addend");
    };
    let mut out: [Lanes; 4] = [[0; LANES]; 4];
    for (n, out) in out.iter_mut().enumerate() {
        let c = &w.v[usize::from(c) + n];
        for l in 0..LANES {
            let sum = u64::from(c[l]) + u64::from(msad_u8(windows(a[l])[n], b[l]));
            out[l] = if i.clamp {
                sum.min(u32::MAX.into()) as u32
            } else {
                sum as u32
            };
        }
    }
    let mask = w.mask;
    for (n, out) in out.iter().enumerate() {
        w.write(usize::from(i.dst) + n, mask, out);
    }
    Ok(())
}

pub(super) fn step(w: &mut Wave, i: &Valu, op: Op) -> Tried {
    use Op::*;
    match op {
        v_cubeid_f32 | v_cubesc_f32 | v_cubetc_f32 | v_cubema_f32 => {
            let [x, y, z] = [0, 1, 2].map(|n| w.f32s(i, n));
            w.put_f32(i, std::array::from_fn(|l| cube(op, [x[l], y[l], z[l]])));
        }
        v_qsad_pk_u16_u8 => packed(w, i, sad_u8),
        v_mqsad_pk_u16_u8 => packed(w, i, msad_u8),
        v_mqsad_u32_u8 => wide(w, i)?,
        _ => return Ok(false),
    }
    Ok(true)
}
