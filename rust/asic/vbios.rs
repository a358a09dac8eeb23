// SPDX-License-Identifier: GPL-2.0

//! VBIOS: the bytes of VRAM that it reserves for the boot firmware.
//!
//! The image comes from the expansion ROM (`amdgpu_read_bios`). It is not trusted: a table outside
//! of it is one that does not exist.

use kernel::{device::Core, pci, prelude::*};

use super::array_at;
use crate::kapi::pci::read_rom;

/// Offset of the signature, and the signature (`ATOM_ATI_MAGIC_PTR`, `ATOM_ATI_MAGIC`).
const MAGIC: (usize, &[u8]) = (0x30, b" 761295520");
/// Offset of the offset of the ROM header (`ATOM_ROM_TABLE_PTR`).
const HEADER: usize = 0x48;
/// Offset of the signature in the ROM header (`atom_rom_header_v2_2`).
const ATOM: (usize, &[u8]) = (4, b"ATOM");
/// Offset of the offset of the master list of data tables in the ROM header.
const DATA_TABLES: usize = 0x20;
/// Bytes of a table before its contents (`atom_common_table_header`).
const TABLE_HEADER: usize = 4;
/// Index of `firmwareinfo` (`atom_master_list_of_data_tables_v2_1`).
const FIRMWARE_INFO: usize = 4;
/// Offset of `fw_reserved_size_in_kb` in `atom_firmware_info_v3_4` and `_v3_5`.
const RESERVED_KIB: usize = 0x54;

/// The VBIOS of a card.
pub(crate) struct Vbios(KVVec<u8>);

impl Vbios {
    /// Returns the VBIOS of a card, `None` if it has none.
    pub(crate) fn read(pdev: &pci::Device<Core<'_>>) -> Option<Self> {
        let vbios = Self(read_rom(pdev).ok()?);
        (vbios.has(0, b"\x55\xaa") && vbios.has(MAGIC.0, MAGIC.1)).then_some(vbios)
    }

    /// Returns whether `bytes` are at byte `at`.
    fn has(&self, at: usize, bytes: &[u8]) -> bool {
        self.0.get(at..).is_some_and(|rest| rest.starts_with(bytes))
    }

    fn u16(&self, at: usize) -> Option<usize> {
        Some(u16::from_le_bytes(array_at(&self.0, at)?).into())
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(array_at(&self.0, at)?))
    }

    /// Returns offset, format and content revision of a data table.
    fn table(&self, index: usize) -> Option<(usize, u8, u8)> {
        let header = self.u16(HEADER)?;
        if !self.has(header + ATOM.0, ATOM.1) {
            return None;
        }
        let list = self.u16(header + DATA_TABLES)?;
        let at = self.u16(list + TABLE_HEADER + 2 * index)?;
        (at != 0).then_some((at, *self.0.get(at + 2)?, *self.0.get(at + 3)?))
    }

    /// Returns the bytes at the end of VRAM that belong to the boot firmware
    /// (`amdgpu_atomfirmware_get_fw_reserved_fb_size`), `None` if the tables do not say.
    pub(crate) fn reserved(&self) -> Option<u64> {
        match self.table(FIRMWARE_INFO)? {
            (at, 3, 4 | 5) => Some(u64::from(self.u32(at + RESERVED_KIB)?) << 10),
            _ => None,
        }
    }
}
