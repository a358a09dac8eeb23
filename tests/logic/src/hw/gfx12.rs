// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gfx12`.

#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx12/caps.rs"]
mod caps;
#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx12/format.rs"]
mod format;
#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx12/trap.rs"]
mod trap;

/// Numbers of the generation.
pub(crate) static CAPS: &crate::asic::caps::Caps = &caps::CAPS;

pub(super) mod gmc {
    pub(crate) struct Gmc;
}
