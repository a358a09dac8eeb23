// SPDX-License-Identifier: GPL-2.0

//! VBIOS: the bytes of VRAM that it reserves for the boot firmware, its names and its versions.
//!
//! The image comes from the expansion ROM (`amdgpu_read_bios`), or is read through registers
//! (`amdgpu_read_bios_from_rom`). It is not trusted: tables outside of it are ignored.

use kernel::{device::Core, pci, prelude::*};

use crate::kapi::pci::read_rom;

mod image;

pub(crate) use image::Vbios;

impl Vbios {
    /// Returns the VBIOS of a card, `None` if it has none. `from` reads the start of the board's
    /// ROM through registers, and returns false if there are none.
    pub(crate) fn read(
        pdev: &pci::Device<Core<'_>>,
        from: impl Fn(&mut [u8]) -> Result<bool>,
    ) -> Option<Self> {
        let expansion = read_rom(pdev).ok().and_then(Self::checked);
        expansion.or_else(|| Self::read_by(from))
    }
}
