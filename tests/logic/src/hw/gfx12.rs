// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gfx12`.

#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx12/format.rs"]
mod format;

pub(super) mod gmc {
    pub(crate) struct Gmc;
}
