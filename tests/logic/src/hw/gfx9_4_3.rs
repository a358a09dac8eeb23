// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gfx9_4_3`.

#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/caps.rs"]
mod caps;
#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/format.rs"]
mod format;
#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/trap.rs"]
mod trap;

/// Numbers of the generation.
pub(crate) static CAPS: &crate::asic::caps::Caps = &caps::CAPS;

pub(super) mod gmc {
    pub(crate) struct Gmc;
}
