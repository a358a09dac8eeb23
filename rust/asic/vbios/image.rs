// SPDX-License-Identifier: GPL-2.0

//! Image of a VBIOS. It uses no hardware: `tests/logic` checks it.

use kernel::prelude::*;

use rkfd_abi::discovery::TMR_OFFSET;

use crate::asic::bytes::array_at;

/// Offset of the length of the image, in units of [`LENGTH_UNIT`] (`AMD_VBIOS_LENGTH`).
const LENGTH: usize = 2;
const LENGTH_UNIT: usize = 512;
/// Offset of the number of strings (`OFFSET_TO_GET_ATOMBIOS_NUMBER_OF_STRINGS`).
const STRING_COUNT: usize = 0x2f;
/// Offset of the date, `MM/DD/YY` and the time (`OFFSET_TO_VBIOS_DATE`).
const DATE: usize = 0x50;
/// Offset of the offset of the strings (`OFFSET_TO_GET_ATOMBIOS_STRING_START`).
const STRINGS: usize = 0x6e;
/// Offset of the part number of an image without strings (`OFFSET_TO_VBIOS_PART_NUMBER`).
const PART_NUMBER: usize = 0x80;
/// Maximum number of characters of the part number (`BIOS_STRING_LENGTH`).
const PART_NUMBER_LENGTH: usize = 43;
/// Range in which a text of an image without strings is searched.
const TEXTS: core::ops::Range<usize> = 3..1024;
/// Text that starts the part number of such an image (`BIOS_ATOM_PREFIX`).
const PART_NUMBER_PREFIX: &[u8] = b"ATOMBIOS";
/// Text that precedes the version (`BIOS_VERSION_PREFIX`), and the bytes up to the version.
const VERSION_PREFIX: (&[u8], usize) = (b"ATOMBIOSBK-AMD", 18);
/// Size of the buffers for the version and the build number, with a NUL (`STRLEN_NORMAL`).
const SHORT: usize = 32;
/// Size of the buffer for the name, with a NUL (`STRLEN_LONG`).
const LONG: usize = 64;

/// Offset of the signature, and the signature (`ATOM_ATI_MAGIC_PTR`, `ATOM_ATI_MAGIC`).
const MAGIC: (usize, &[u8]) = (0x30, b" 761295520");
/// Offset of the offset of the ROM header (`ATOM_ROM_TABLE_PTR`).
const HEADER: usize = 0x48;
/// Offset of the signature in the ROM header (`atom_rom_header_v2_2`).
const ATOM: (usize, &[u8]) = (4, b"ATOM");
/// Offset of the offset of the configuration string in the ROM header (`ATOM_ROM_CFG_PTR`).
const CONFIG: usize = 0xc;
/// Offset of the offset of the master list of data tables in the ROM header.
const DATA_TABLES: usize = 0x20;
/// Bytes of a table before its contents (`atom_common_table_header`).
const TABLE_HEADER: usize = 4;
/// Index of `firmwareinfo` (`atom_master_list_of_data_tables_v2_1`).
const FIRMWARE_INFO: usize = 4;
/// Offset of the revision of the firmware in `firmwareinfo`.
const REVISION: usize = 4;
/// Offset of `firmware_capability` in `atom_firmware_info_v3_1` and later ones.
const CAPABILITY: usize = 0x10;
/// `ATOM_FIRMWARE_CAP_ENABLE_2STAGE_BIST_TRAINING`.
const TWO_STAGE_TRAINING: u32 = 0x400;
/// Offset of `ras_rom_i2c_slave_addr` in `atom_firmware_info_v3_4` and later ones.
const EEPROM_ADDRESS: usize = 0x33;
/// Offset of `fw_reserved_size_in_kb` in `atom_firmware_info_v3_4` and `_v3_5`.
const RESERVED_KIB: usize = 0x54;

/// The VBIOS of a card.
pub(crate) struct Vbios(KVVec<u8>);

impl Vbios {
    /// Returns the VBIOS that `from` reads: the start of the board's ROM. `None` if it returns
    /// false, or there is no VBIOS.
    pub(super) fn read_by(from: impl Fn(&mut [u8]) -> Result<bool>) -> Option<Self> {
        let read = |size| -> Result<Option<Self>> {
            let mut image = KVVec::zeroed(size, GFP_KERNEL)?;
            Ok(if from(&mut image)? {
                Self::checked(image)
            } else {
                None
            })
        };
        let start = read(MAGIC.0 + MAGIC.1.len()).ok()??;
        read(usize::from(*start.0.get(LENGTH)?) * LENGTH_UNIT).ok()?
    }

    /// Returns the VBIOS, `None` if the signatures are wrong.
    pub(super) fn checked(image: KVVec<u8>) -> Option<Self> {
        let vbios = Self(image);
        (vbios.has(0, b"\x55\xaa") && vbios.has(MAGIC.0, MAGIC.1)).then_some(vbios)
    }

    /// Returns the image.
    pub(crate) fn image(&self) -> &[u8] {
        &self.0
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
    /// (`amdgpu_atomfirmware_get_fw_reserved_fb_size`); without that number the place of the IP
    /// discovery table.
    pub(crate) fn reserved(&self) -> u64 {
        let kib = match self.table(FIRMWARE_INFO) {
            Some((at, 3, 4 | 5)) => self.u32(at + RESERVED_KIB).unwrap_or(0),
            _ => 0,
        };
        match kib {
            0 => TMR_OFFSET,
            _ => u64::from(kib) << 10,
        }
    }

    /// Returns whether the driver is to train the memory while the secure OS does not run
    /// (`amdgpu_atomfirmware_mem_training_supported`, `psp_v14_0_memory_training`).
    pub(crate) fn trains_memory(&self) -> bool {
        let Some((at, format, content)) = self.table(FIRMWARE_INFO) else {
            return false;
        };
        let capability = self.u32(at + CAPABILITY).unwrap_or(0);
        (format, content) >= (3, 1) && capability & TWO_STAGE_TRAINING != 0
    }

    /// Returns the address of the table of bad pages on the bus of the board's EEPROMs; `None` if
    /// it has the usual one (`amdgpu_atomfirmware_ras_rom_addr`, `ras_eeprom_i2c_config`).
    pub(crate) fn bad_page_table(&self) -> Option<u32> {
        let (at, format, content) = self.table(FIRMWARE_INFO)?;
        if (format, content) < (3, 4) {
            return None;
        }
        // The byte on the bus: the type of the device, bits 18:16 of the address, read or write.
        match *self.0.get(at + EEPROM_ADDRESS)? {
            0 => None,
            byte => Some((u32::from(byte) & 0xf) >> 1 << 16),
        }
    }

    /// Returns the bytes from `at` up to a NUL, at most `most`; none outside of the image.
    fn text(&self, at: usize, most: usize) -> &[u8] {
        let rest = self.0.get(at..).unwrap_or_default();
        let rest = &rest[..rest.len().min(most)];
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns the offset of the byte after the next NUL from `at` on.
    fn after_text(&self, at: usize) -> usize {
        at.saturating_add(self.text(at, usize::MAX).len())
            .saturating_add(1)
    }

    /// Returns the offset of a text that starts in `range`.
    fn find(&self, text: &[u8], mut range: core::ops::Range<usize>) -> Option<usize> {
        range.find(|at| self.has(*at, text))
    }

    /// Returns the part number of the board (`atom_get_vbios_pn`).
    pub(crate) fn part_number(&self) -> &[u8] {
        let strings = match self.0.get(STRING_COUNT) {
            Some(0) | None => PART_NUMBER,
            Some(_) => self.u16(STRINGS).unwrap_or(PART_NUMBER),
        };
        let at = match self.0.get(strings) {
            Some(0) | None => self.find(PART_NUMBER_PREFIX, TEXTS),
            Some(_) => Some(strings),
        };
        let text = at.map_or(&[][..], |at| self.text(at, PART_NUMBER_LENGTH));
        let end = text.iter().position(|byte| !(b' '..=b'z').contains(byte));
        &text[..end.unwrap_or(text.len())]
    }

    /// Returns the build number, which may be empty (`atom_get_vbios_build`).
    pub(crate) fn build(&self) -> &[u8] {
        let Some(header) = self.u16(HEADER) else {
            return &[];
        };
        let Some(config) = self.u16(header + CONFIG) else {
            return &[];
        };
        // The configuration and the list of changes precede it.
        let at = self.after_text(self.after_text(config));
        self.text(at, header.saturating_sub(at).min(SHORT - 1))
    }

    /// Returns the name of the board (`atom_get_vbios_name`).
    pub(crate) fn name(&self) -> &[u8] {
        const UNKNOWN: &[u8] = b"--N/A--";
        let (Some(&count @ 1..), Some(strings)) = (self.0.get(STRING_COUNT), self.u16(STRINGS))
        else {
            return UNKNOWN;
        };
        // CR and LF follow the strings.
        let at = (0..count).fold(strings, |at, _| self.after_text(at)) + 2;
        if at >= self.0.len() {
            return UNKNOWN;
        }
        let text = self.text(at, LONG - 1);
        let end = text.iter().rposition(|byte| *byte != b' ');
        &text[..end.map_or(0, |last| last + 1)]
    }

    /// Returns the version (`atom_get_vbios_version`); it may be empty.
    pub(crate) fn version(&self) -> &[u8] {
        let range = match (self.u16(STRINGS), self.u16(HEADER)) {
            (Some(start), Some(end)) if start < end => start..end,
            _ => TEXTS,
        };
        match self.find(VERSION_PREFIX.0, range) {
            Some(at) => self.text(at + VERSION_PREFIX.1, SHORT),
            None => &[],
        }
    }

    /// Returns the date, `20YY/MM/DD HH:MM` (`atom_get_vbios_date`).
    pub(crate) fn date(&self) -> [u8; 16] {
        let mut date = *b"20  /  /        ";
        // Year, month, day, time: place here, place there, characters.
        for (to, from, len) in [(2, 6, 2), (5, 0, 2), (8, 3, 2), (11, 9, 5)] {
            for (at, byte) in date[to..to + len].iter_mut().enumerate() {
                *byte = self.0.get(DATE + from + at).copied().unwrap_or(0);
            }
        }
        date
    }

    /// Returns the revision of the firmware (`ulFirmwareRevision`), 0 without that table.
    pub(crate) fn revision(&self) -> u32 {
        let at = self.table(FIRMWARE_INFO).map(|(at, ..)| at + REVISION);
        at.and_then(|at| self.u32(at)).unwrap_or(0)
    }
}
