// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Product data in the FRU EEPROM of a board.
//!
//! Sources: IPMI Platform Management FRU Information Storage Definition 1.3; `amdgpu_fru_eeprom.c`
//! for the address. A common header lists the areas. An area is a multiple of [`UNIT`] bytes, which
//! add up to 0, as those of the header do.

/// Address on the bus of MI300 boards, of which bits 16 to 19 select the device
/// (`FRU_EEPROM_MADDR_8`).
pub const FRU_AT: u32 = 0x8_0000;
/// Unit of offsets and lengths of areas.
pub const UNIT: usize = 8;
/// Version of the header and of each area.
pub const VERSION: u8 = 1;
/// Mask of the length in the byte before the text of a field.
pub const LENGTH_MASK: u8 = 0x3f;

/// Common header: offsets in bytes.
pub mod header {
    /// Bytes.
    pub const SIZE: usize = 8;
    /// [`super::VERSION`].
    pub const VERSION: usize = 0;
    /// Offset of the board area in units, 0 if there is none.
    pub const BOARD: usize = 3;
    /// Offset of the product area in units, 0 if there is none.
    pub const PRODUCT: usize = 4;
    /// Checksum.
    pub const CHECKSUM: usize = 7;
}

/// Product area: offsets in bytes. Its fields are manufacturer, name, part number, version, serial
/// number, asset tag and file id.
pub mod product {
    /// [`super::VERSION`].
    pub const VERSION: usize = 0;
    /// Length in units.
    pub const LENGTH: usize = 1;
    /// The first field.
    pub const FIELDS: usize = 3;
}
