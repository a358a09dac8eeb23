// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operands from another lane (DPP) or a part of a register (SDWA).

use crate::inst::{Dpp, Sdwa, Shape, Valu};
use crate::wave::{violation, Halt, Lanes, Wave, LANES};
use crate::Isa;

/// Returns the lane that DPP selects for source 0 of `lane`, or `None`.
fn source_lane(ctrl: u16, lane: usize) -> Option<usize> {
    let (row, r) = (lane & !15, lane & 15);
    let n = usize::from(ctrl & 15);
    match ctrl {
        0..=0xff => Some((lane & !3) + usize::from(ctrl >> (2 * (lane & 3)) & 3)),
        0x101..=0x10f => (r + n < 16).then_some(lane + n),
        0x111..=0x11f => (r >= n).then(|| lane - n),
        0x121..=0x12f => Some(row + (r + 16 - n) % 16),
        0x130 => (lane + 1 < LANES).then_some(lane + 1),
        0x134 => Some((lane + 1) % LANES),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + LANES - 1) % LANES),
        0x140 => Some(row + 15 - r),
        0x141 => Some((lane & !7) + 7 - (lane & 7)),
        0x142 => (lane >= 16).then(|| row - 1),
        0x143 => (lane >= 32).then_some(31),
        0x150..=0x15f => Some(row + n),
        _ => None,
    }
}

fn defined(ctrl: u16) -> bool {
    matches!(
        ctrl,
        0..=0xff
            | 0x101..=0x10f
            | 0x111..=0x11f
            | 0x121..=0x12f
            | 0x130
            | 0x134
            | 0x138
            | 0x13c
            | 0x140..=0x143
            | 0x150..=0x15f
    )
}

/// Returns the part of a 32-bit value selected by SDWA.
fn select(sel: u8, sext: bool, value: u32) -> u32 {
    match (sel, sext) {
        (0..=3, false) => value >> (8 * sel) & 0xff,
        (0..=3, true) => i32::from((value >> (8 * sel)) as i8) as u32,
        (4 | 5, false) => value >> (16 * (sel - 4)) & 0xffff,
        (4 | 5, true) => i32::from((value >> (16 * (sel - 4))) as i16) as u32,
        _ => value,
    }
}

/// Inserts a result into the part of `old` selected by SDWA.
pub(crate) fn sdwa_merge(sdwa: Sdwa, old: u32, value: u32) -> u32 {
    let (shift, bits) = match sdwa.dst_sel {
        sel @ 0..=3 => (8 * u32::from(sel), 8),
        sel @ 4..=5 => (16 * u32::from(sel - 4), 16),
        _ => return value,
    };
    let mask = ((1u32 << bits) - 1) << shift;
    let part = value << shift & mask;
    match sdwa.dst_unused {
        0 => part,
        // Sign-extended above, zero below.
        1 => {
            let up = 32 - bits - shift;
            ((part << up) as i32 >> up) as u32
        }
        _ => old & !mask | part,
    }
}

/// Returns the lane of the same row that gfx1201 DPP16 selects for source 0 of `lane`, or `None`.
fn source_lane_16(ctrl: u16, lane: usize) -> Option<usize> {
    match ctrl {
        0x160..=0x16f => Some(lane ^ usize::from(ctrl & 15)),
        _ => source_lane(ctrl, lane),
    }
}

impl Wave {
    /// Applies DPP or SDWA to source `n`.
    pub(crate) fn shaped(&self, i: &Valu, n: usize, lanes: Lanes) -> Lanes {
        match i.shape {
            Shape::Dpp(dpp) if n == 0 && self.isa == Isa::Gfx1201 => {
                let readable = if dpp.inactive { u64::MAX } else { self.exec() };
                std::array::from_fn(|l| match source_lane_16(dpp.ctrl, l) {
                    Some(from) if readable >> from & 1 != 0 => lanes[from],
                    _ => 0,
                })
            }
            Shape::Dpp8(dpp) if n == 0 => {
                let readable = if dpp.inactive { u64::MAX } else { self.exec() };
                std::array::from_fn(|l| {
                    let from = l & !7 | (dpp.lanes >> (3 * (l & 7)) & 7) as usize;
                    if readable >> from & 1 != 0 {
                        lanes[from]
                    } else {
                        0
                    }
                })
            }
            Shape::Dpp(dpp) if n == 0 => {
                let exec = self.exec();
                std::array::from_fn(|l| match source_lane(dpp.ctrl, l) {
                    Some(from) if exec >> from & 1 != 0 => lanes[from],
                    _ => 0,
                })
            }
            Shape::Sdwa(sdwa) if n < 2 => lanes.map(|v| select(sdwa.src_sel[n], sdwa.sext[n], v)),
            _ => lanes,
        }
    }

    /// Returns the lanes that a gfx1201 instruction with DPP16 writes.
    pub(crate) fn dpp16_mask(&self, dpp: Dpp) -> Result<u64, Halt> {
        if !matches!(
            dpp.ctrl,
            0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x140 | 0x141 | 0x150..=0x16f
        ) {
            return violation(format!("dpp_ctrl {:#x}", dpp.ctrl));
        }
        let exec = self.exec();
        let readable = if dpp.inactive { u64::MAX } else { exec };
        let mut mask = 0;
        for lane in 0..LANES {
            let valid = match source_lane_16(dpp.ctrl, lane) {
                Some(from) => readable >> from & 1 != 0,
                None => false,
            };
            let row = dpp.row_mask >> (lane / 16) & 1 != 0;
            let bank = dpp.bank_mask >> (lane % 16 / 4) & 1 != 0;
            if row && bank && (valid || dpp.bound_ctrl) {
                mask |= 1 << lane;
            }
        }
        Ok(mask & exec)
    }

    /// Returns the lanes that an instruction with DPP writes.
    pub(crate) fn dpp_mask(&self, dpp: Dpp) -> Result<u64, Halt> {
        if !defined(dpp.ctrl) {
            return violation(format!("dpp_ctrl {:#x}", dpp.ctrl));
        }
        let exec = self.exec();
        let mut mask = 0;
        for lane in 0..LANES {
            let valid = match source_lane(dpp.ctrl, lane) {
                Some(from) => exec >> from & 1 != 0,
                None => false,
            };
            let row = dpp.row_mask >> (lane / 16) & 1 != 0;
            let bank = dpp.bank_mask >> (lane % 16 / 4) & 1 != 0;
            if row && bank && (valid || dpp.bound_ctrl) {
                mask |= 1 << lane;
            }
        }
        Ok(mask & exec)
    }
}
