// SPDX-License-Identifier: GPL-2.0

//! RAS: HAL trait for protected memory and its bad pages.

use kernel::prelude::*;

use crate::asic::mmio::Mmio;

/// Pages of a row of memory.
pub(crate) const ROW_PAGES: usize = 16;

/// RAS. Methods return `ENODEV` after unbind.
pub(crate) trait RasHal: Sync {
    /// Returns whether the memory has RAS; the board has an EEPROM with a table of bad pages then.
    fn protects_memory(&self, mmio: &Mmio) -> Result<bool>;

    /// Returns the address of the table on the bus of the EEPROM.
    fn table(&self) -> u32;

    /// Returns the offsets in VRAM of all pages that fail together with the one at `page`, in mode
    /// NPS1, on a card with a PCI device id. They may be beyond the end of VRAM.
    fn row(&self, mmio: &Mmio, device: u16, page: u64) -> [u64; ROW_PAGES];
}
