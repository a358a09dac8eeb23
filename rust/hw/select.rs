// SPDX-License-Identifier: GPL-2.0

//! Selection of a generation by the version of the graphics core.

use kernel::prelude::*;

use super::{generation::Generation, gfx12, gfx9_4_3};
use crate::asic::mmio::Version;

/// Returns the generation that drives GC version `gc`, or `ENODEV`.
pub(crate) fn select(gc: Version) -> Result<&'static Generation> {
    let all = Iterator::chain(gfx9_4_3::GENERATIONS.iter(), gfx12::GENERATIONS);
    all.into_iter()
        .find(|(v, _)| *v == gc)
        .map(|(_, g)| *g)
        .ok_or(ENODEV)
}
