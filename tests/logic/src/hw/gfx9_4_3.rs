// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gfx9_4_3`.

#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/format.rs"]
mod format;

pub(super) mod gmc {
    pub(crate) struct Gmc;
}
