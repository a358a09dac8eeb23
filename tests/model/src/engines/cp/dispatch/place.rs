// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Number of workgroups of a dispatch that fit on a compute unit.

use gpu_wave::{Dispatch, Isa};

use super::LDS;

/// Maximum number of multi-wave workgroups on a compute unit.
const GROUPS: u64 = 16;
/// `COMPUTE_PGM_RSRC1.WGP_MODE` of gfx12: a workgroup uses both CUs of a workgroup processor.
const WGP_MODE: u32 = 1 << 29;

/// Resources of a workgroup's execution unit: a CU, or the two of a workgroup processor.
pub(super) struct Place {
    pub(super) cus: u32,
    pub(super) simds: u64,
    /// Wave slots of a SIMD.
    waves: u64,
    /// VGPRs of a SIMD, for one lane of one wave.
    vgprs: u64,
}

impl Place {
    pub(super) fn of(d: &Dispatch) -> Self {
        match d.isa {
            Isa::Gfx942 => Self {
                cus: 1,
                simds: 4,
                waves: 8,
                vgprs: 512,
            },
            Isa::Gfx1201 => {
                let cus = if d.rsrc1 & WGP_MODE != 0 { 2 } else { 1 };
                Self {
                    cus,
                    simds: 2 * u64::from(cus),
                    waves: 16,
                    vgprs: if d.wave32 { 1536 } else { 768 },
                }
            }
        }
    }
}

/// Returns whether a SIMD has enough registers for the waves of one workgroup.
pub fn fits(d: &Dispatch) -> bool {
    let place = Place::of(d);
    let waves = u64::from(d.waves_per_workgroup()).div_ceil(place.simds);
    waves * d.vgprs() as u64 <= place.vgprs
}

/// Returns the number of workgroups that fit on an execution unit, at most 64.
pub(super) fn slots(d: &Dispatch, place: &Place) -> u32 {
    let waves = u64::from(d.waves_per_workgroup()).max(1);
    let in_simd = (place.vgprs / d.vgprs().max(1) as u64).clamp(1, place.waves);
    let by_waves = (place.simds * in_simd / waves).max(1);
    let by_lds = (LDS * place.cus)
        .checked_div(d.lds_bytes)
        .map_or(u64::MAX, u64::from);
    let by_slots = if waves > 1 { GROUPS } else { u64::MAX };
    by_waves.min(by_lds).min(by_slots).clamp(1, 64) as u32
}
