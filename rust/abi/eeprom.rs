// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Table of bad pages in the EEPROM of a board.
//!
//! Source: `drivers/gpu/drm/amd/ras/core/eeprom.c` and `eeprom.h`. The table begins with a header,
//! followed by information about the board from version 2.1 on, and the records. All bytes of it
//! add up to 0.

/// Bytes of the EEPROM.
pub const SIZE: usize = 256 << 10;
/// Address of the table on the bus of MI300 boards, of which bits 16 to 18 select the device
/// (`EEPROM_I2C_MADDR_4`).
pub const TABLE_AT: u32 = 0x4_0000;
/// Version 1 (`RAS_TABLE_VER_V1`).
pub const VERSION_1: u32 = 0x1_0000;
/// Version 2.1 (`RAS_TABLE_VER_V2_1`).
pub const VERSION_2_1: u32 = 0x2_1000;
/// Version 3 (`RAS_TABLE_VER_V3`).
pub const VERSION_3: u32 = 0x3_0000;
/// Offset of the checksum in the table.
pub const CHECKSUM: usize = 16;

/// Page frame number in [`record::PAGE`].
pub const PFN: u64 = (1 << 40) - 1;
/// Shift of the memory partition mode (7 bits) in [`record::PAGE`]: the number of ranges; 0 in old
/// records, which are of mode NPS1.
pub const NPS_SHIFT: u32 = 40;

/// Header of the table: offsets in bytes.
pub mod header {
    /// Bytes.
    pub const SIZE: usize = 20;
    /// [`GOOD`] or [`BAD`].
    pub const SIGNATURE: usize = 0;
    /// Version.
    pub const VERSION: usize = 4;
    /// Offset of the oldest record; the area of the records is a ring.
    pub const FIRST_RECORD: usize = 8;
    /// Bytes of header, information and records.
    pub const TABLE_SIZE: usize = 12;
    /// Signature of a table (`RAS_TABLE_HDR_VAL`).
    pub const GOOD: u32 = 0x414d_4452;
    /// Signature of a table with more bad pages than allowed (`RAS_TABLE_HDR_BAD`).
    pub const BAD: u32 = 0x4241_4447;
}

/// Information about the board, behind the header.
pub mod info {
    /// Bytes (`RAS_TABLE_V2_1_INFO_SIZE`).
    pub const SIZE: usize = 256;
}

/// A record: offsets in bytes.
pub mod record {
    /// Bytes.
    pub const SIZE: usize = 24;
    /// Type of the error.
    pub const ERROR_TYPE: usize = 0;
    /// 48 bits: a page of the row, and the mode in which it is that page.
    pub const PAGE: usize = 18;
    /// Type of an error that is not corrected (`RAS_EEPROM_ERR_NON_RECOVERABLE`).
    pub const NON_RECOVERABLE: u8 = 2;
}
