// SPDX-License-Identifier: GPL-2.0

//! RAS: HAL trait for protected memory and its bad pages.

use kernel::prelude::*;

use crate::asic::mmio::Mmio;

/// Pages of a row of memory.
pub(crate) const ROW_PAGES: usize = 16;

/// RAS. Methods return `ENODEV` after unbind.
pub(crate) trait RasHal: Sync {
    /// Returns the blocks that have RAS, a bit each ([`ras_block`]). If the memory does, the board
    /// has an EEPROM with a table of bad pages.
    ///
    /// [`ras_block`]: rkfd_abi::psp::ras_block
    fn blocks(&self, mmio: &Mmio) -> Result<u32>;

    /// Returns the address of the table on the bus of the EEPROM, unless the VBIOS has another.
    fn table(&self) -> u32;

    /// Returns the offsets in VRAM of all pages that fail together with the one at `page`, in mode
    /// NPS1, on a card with a PCI device id. They may be beyond the end of VRAM.
    fn row(&self, mmio: &Mmio, device: u16, page: u64) -> [u64; ROW_PAGES];
}
