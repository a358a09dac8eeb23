// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The board's ROM with the VBIOS image, which the driver reads through SMUIO
//! (`amdgpu_soc15_read_bios_from_rom`) on gfx12, and through the expansion ROM
//! (`amdgpu_read_bios`) on gfx9.
//!
//! The image has the parts that `amdgpu_get_bios`, `amdgpu_atom_parse` and `amdgpu_atomfirmware.c`
//! read, in the layout of `include/atomfirmware.h`: identification, the master lists, and the data
//! tables `firmwareinfo`, `smu_info`, `gfx_info` and `umc_info`. The system firmware has run its
//! `asic_init`, as on a card that is in the machine at power-on: `BIOS_SCRATCH_7` reads so. The
//! function is listed with a body that ends at once, since nothing is left for it to do.

use std::sync::atomic::{AtomicU32, Ordering};

use gpu_regs::{nbif_6_3_1 as nbif, nbio_7_9_0 as nbio, smuio_14_0_2 as smuio};

use crate::chips::{Chip, Generation};
use crate::engines::smu::eeprom::bus_address;
use crate::gpu::Gpu;
use crate::regs::{Ip, RegId, Slot};
use crate::strict;

const INDEX: RegId = RegId::new(0, smuio::regROM_INDEX.off);
const DATA: RegId = RegId::new(0, smuio::regROM_DATA.off);

/// Place of the image in the ROM on gfx12, `REGS_ROM_OFFSET_CTRL`: firmware of the PSP precedes it.
pub const OFFSET: u32 = 1;
/// Unit of [`OFFSET`], in bits of a byte address (`amdgpu_soc15_read_bios_from_rom`).
const OFFSET_SHIFT: u32 = 17;

/// `ATOM_S7_ASIC_INIT_COMPLETE_MASK` of `BIOS_SCRATCH_7`.
pub const ASIC_INIT_COMPLETE: u32 = 1 << 9;
/// Vendor of the memory in `BIOS_SCRATCH_4` (`HYNIX`, `include/atombios.h`), which `asic_init` has
/// found out.
pub const HYNIX: u32 = 6;

/// Address of the table of bad pages on the bus of the board's EEPROMs, of which the VBIOS has the
/// byte on the bus (`ras_rom_i2c_slave_addr`).
pub const BAD_PAGES_AT: u32 = 0;

/// Byte addresses in the image that the driver expects to be fixed.
mod fixed {
    /// Length in units of 512 bytes.
    pub const LENGTH: usize = 2;
    /// Code that the BIOS of the machine calls.
    pub const ENTRY: usize = 3;
    /// Offset of the PCI data structure.
    pub const PCI_DATA: usize = 0x18;
    /// Number of strings (`OFFSET_TO_GET_ATOMBIOS_NUMBER_OF_STRINGS`).
    pub const STRING_COUNT: usize = 0x2f;
    /// `ATOM_ATI_MAGIC`.
    pub const MAGIC: usize = 0x30;
    /// Offset of the ROM header (`ATOM_ROM_TABLE_PTR`).
    pub const HEADER: usize = 0x48;
    /// Date, `MM/DD/YY,HH:MM` (`OFFSET_TO_VBIOS_DATE`).
    pub const DATE: usize = 0x50;
    /// Offset of the strings (`OFFSET_TO_GET_ATOMBIOS_STRING_START`).
    pub const STRINGS: usize = 0x6e;
}

/// Indices in `atom_master_list_of_data_tables_v2_1`.
mod data_table {
    pub const FIRMWARE_INFO: usize = 4;
    pub const SMU_INFO: usize = 8;
    pub const GFX_INFO: usize = 14;
    pub const UMC_INFO: usize = 24;
    pub const COUNT: usize = 35;
}

/// Entries of `atom_master_list_of_command_functions_v2_1`; `asic_init` is the first.
const FUNCTIONS: usize = 81;
/// `ATOM_OP_EOT`.
const END_OF_FUNCTION: u8 = 91;
/// RET (far) of x86.
const RETURN: u8 = 0xcb;
/// Bytes of the PCI data structure.
const PCI_DATA_SIZE: usize = 0x18;
/// Last image, in the indicator of the PCI data structure.
const LAST_IMAGE: u8 = 1 << 7;
/// Reference clock of the card in 10 kHz.
const REFERENCE_CLOCK: u32 = 10_000;

/// Properties of the image of a generation.
struct Board {
    /// Part number, ASIC, bus and memory, as strings of the image.
    names: &'static [u8],
    /// `ATOM_DGPU_VRAM_TYPE_*`.
    vram_type: u8,
    /// Channels of the memory, and the logarithm of their width in bits, from AMD's specification
    /// of the card: 256 bits in all on gfx12, 2048 for each AID on gfx9, which is what the C driver
    /// multiplies by the number of AIDs (`amdgpu_gmc_get_vram_info`).
    channels: (u8, u8),
}

const NAVI48: Board = Board {
    names: b"113-RKFD-MODEL\0NAVI48\0PCI_EXPRESS\0GDDR6\0\r\nrkfd GPU model\0",
    // ATOM_DGPU_VRAM_TYPE_GDDR6.
    vram_type: 0x70,
    channels: (16, 4),
};
const MI300: Board = Board {
    names: b"113-RKFD-MODEL\0MI300\0PCI_EXPRESS\0HBM3\0\r\nrkfd GPU model\0",
    // ATOM_DGPU_VRAM_TYPE_HBM3.
    vram_type: 0x80,
    channels: (32, 6),
};

/// An image under construction.
struct Image(Vec<u8>);

impl Image {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put16(&mut self, at: usize, value: usize) {
        self.put(at, &(value as u16).to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    /// Appends a table with its `atom_common_table_header`; returns its offset.
    fn table(&mut self, size: usize, format: u8, content: u8) -> usize {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        let at = self.0.len();
        self.0.resize(at + size, 0);
        self.put16(at, size);
        self.put(at + 2, &[format, content]);
        at
    }

    fn append(&mut self, bytes: &[u8]) -> usize {
        let at = self.0.len();
        self.0.extend_from_slice(bytes);
        at
    }
}

/// Returns the first dword of `BIOS_SCRATCH_0`.
fn scratch(chip: &Chip) -> u32 {
    let (seg, off) = match chip.generation {
        Generation::Gfx9 => {
            let reg = nbio::regBIF_BX0_BIOS_SCRATCH_0;
            (reg.seg, reg.off)
        }
        Generation::Gfx12 => {
            let reg = nbif::regBIF_BX0_BIOS_SCRATCH_0;
            (reg.seg, reg.off)
        }
    };
    chip.base(Ip::Nbif, 0, seg).unwrap_or(0) + off
}

/// Returns the VBIOS image of `chip`, which reserves `reserved` bytes at the end of video memory.
pub fn image(chip: &Chip, reserved: u64) -> Vec<u8> {
    let board = match chip.generation {
        Generation::Gfx9 => MI300,
        Generation::Gfx12 => NAVI48,
    };
    let mut rom = Image(vec![0; 0x80]);
    rom.put(0, &[0x55, 0xaa]);
    rom.put(fixed::MAGIC, b" 761295520");
    rom.put(fixed::DATE, b"01/01/25,00:00");
    rom.put(fixed::STRING_COUNT, &[4]);
    // The name of the board and the version follow.
    let strings = rom.append(board.names);
    rom.put16(fixed::STRINGS, strings);
    rom.append(b"ATOMBIOSBK-AMD VER000.000.000.000.000000\0");
    rom.append(&[0; 32]);
    // Configuration file, change list and build number precede the header.
    let config = rom.append(b"model\0none\x0000000001\0");
    let header = rom.table(0x28, 2, 2);
    rom.put16(fixed::HEADER, header);
    rom.put(header + 0x04, b"ATOM");
    rom.put16(header + 0x0c, config);
    rom.put16(header + 0x18, chip.pci_ids[2].into());
    rom.put16(header + 0x1a, chip.pci_ids[3].into());
    let functions = rom.table(4 + 2 * FUNCTIONS, 2, 1);
    rom.put16(header + 0x1e, functions);
    let tables = rom.table(4 + 2 * data_table::COUNT, 2, 1);
    rom.put16(header + 0x20, tables);

    // No parameters besides the bytes that the header of a function counts as used.
    let asic_init = rom.table(7, 2, 1);
    rom.put(asic_init + 6, &[END_OF_FUNCTION]);
    rom.put16(functions + 4, asic_init);

    let list = |rom: &mut Image, index: usize, at: usize| rom.put16(tables + 4 + 2 * index, at);
    // atom_firmware_info_v3_4: without 2-stage memory training, ECC and virtualization.
    let firmware = rom.table(0x6c, 3, 4);
    rom.put32(firmware + 0x04, 1);
    rom.put32(firmware + 0x18, scratch(chip));
    rom.put(firmware + 0x33, &[bus_address(BAD_PAGES_AT)]);
    rom.put32(firmware + 0x54, (reserved >> 10) as u32);
    list(&mut rom, data_table::FIRMWARE_INFO, firmware);
    // atom_smu_info_v4_0.
    let smu = rom.table(0x120, 4, 0);
    rom.put32(smu + 0x10, REFERENCE_CLOCK);
    list(&mut rom, data_table::SMU_INFO, smu);
    // atom_gfx_info_v3_0.
    let info = &chip.gc;
    let gfx = rom.table(0x88, 3, 0);
    let cus = [info.num_se, 0, info.cu_per_sh, info.sh_per_se];
    let back_ends = [info.rb_per_se, info.tccs];
    for (n, value) in cus.iter().chain(&back_ends).enumerate() {
        rom.put(gfx + 6 + n, &[*value as u8]);
    }
    rom.put32(gfx + 0x28, REFERENCE_CLOCK);
    list(&mut rom, data_table::GFX_INFO, gfx);
    // atom_umc_info_v4_0.
    let umc = rom.table(0x54, 4, 0);
    rom.put(umc + 0x1a, &[board.vram_type]);
    rom.put32(umc + 0x1c, REFERENCE_CLOCK);
    rom.put(umc + 0x40, &[board.channels.0, board.channels.1]);
    list(&mut rom, data_table::UMC_INFO, umc);

    // The structure by which the PCI core finds the size of an expansion ROM. The entry point is
    // x86 code that only returns.
    rom.put(fixed::ENTRY, &[RETURN]);
    rom.0.resize(rom.0.len().next_multiple_of(4), 0);
    let pci = rom.append(&[0; PCI_DATA_SIZE]);
    rom.put16(fixed::PCI_DATA, pci);
    rom.put(pci, b"PCIR");
    rom.put16(pci + 0x4, chip.pci_ids[0].into());
    rom.put16(pci + 0x6, chip.pci_ids[1].into());
    rom.put16(pci + 0xa, PCI_DATA_SIZE);
    rom.put(pci + 0xd, &chip.pci_class.to_le_bytes()[..3]);

    rom.0.resize(rom.0.len().next_multiple_of(512), 0);
    rom.put16(pci + 0x10, rom.0.len() / 512);
    rom.put(pci + 0x15, &[LAST_IMAGE]);
    let length = (rom.0.len() / 512) as u8;
    rom.put(fixed::LENGTH, &[length]);
    // The bytes of the image add up to 0.
    let sum = rom.0.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let last = rom.0.len() - 1;
    rom.put(last, &[sum.wrapping_neg()]);
    rom.0
}

/// Bytes at the end of video memory that firmware uses: the boot firmware's TMR and what follows
/// it, among that the discovery binary.
pub fn reserved_by_firmware(vram: u64) -> u64 {
    RESERVED.min(vram / 8)
}

/// Most of these bytes.
const RESERVED: u64 = 64 << 20;

/// The ROM behind its index register.
#[derive(Default)]
pub struct Rom {
    image: Vec<u8>,
    expansion: bool,
    at: AtomicU32,
}

impl Rom {
    /// Returns the ROM of `chip`. `vbios` has the bytes that it reserves on gfx9, where `None` is
    /// a card without a VBIOS.
    pub fn new(chip: &Chip, vram: u64, vbios: Option<u64>) -> Self {
        let reserved = match chip.generation {
            Generation::Gfx9 => vbios,
            Generation::Gfx12 => Some(reserved_by_firmware(vram)),
        };
        Self {
            image: reserved.map_or(Vec::new(), |bytes| image(chip, bytes)),
            expansion: chip.generation == Generation::Gfx9,
            at: AtomicU32::new(0),
        }
    }

    /// Returns the bytes of the expansion ROM, 0 if there is none.
    pub fn expansion(&self) -> usize {
        match self.expansion {
            true => self.image.len(),
            false => 0,
        }
    }

    /// Reads the expansion ROM; bytes beyond the image read as 0xff.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            *byte = *self.image.get(at as usize).unwrap_or(&0xff);
        }
    }

    /// Handles a register read; `None` for other registers.
    pub fn reg_read(&self, gpu: &Gpu, slot: &Slot) -> Option<u32> {
        match slot.id {
            INDEX => Some(self.at.load(Ordering::Acquire)),
            // The index advances with each dword.
            DATA => {
                let at = self.at.fetch_add(4, Ordering::AcqRel);
                let Some(in_image) = at.checked_sub(OFFSET << OFFSET_SHIFT) else {
                    // Firmware of the PSP, which no driver reads.
                    return Some(0);
                };
                let rest = self.image.get(in_image as usize..);
                let Some(bytes) = rest.and_then(|rest| rest.get(..4)) else {
                    strict!(
                        gpu.strict,
                        "rom",
                        "read at {in_image:#x} of {:#x} bytes",
                        self.image.len()
                    );
                    return Some(!0);
                };
                Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            _ => None,
        }
    }

    /// Handles a register write; returns false for other registers.
    pub fn reg_write(&self, gpu: &Gpu, slot: &Slot, value: u32) -> bool {
        match slot.id {
            INDEX => {
                if value % 4 != 0 {
                    strict!(gpu.strict, "rom", "ROM_INDEX {value:#x} is not aligned");
                }
                self.at.store(value & !3, Ordering::Release);
            }
            DATA => strict!(gpu.strict, "rom", "write of {value:#x} to {}", slot.name),
            _ => return false,
        }
        true
    }
}

/// Returns whether this unit handles `reg` of SMUIO.
pub fn handles(generation: Generation, reg: RegId) -> bool {
    generation == Generation::Gfx12 && matches!(reg, INDEX | DATA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::rx9070;

    fn u16_at(b: &[u8], at: usize) -> usize {
        u16::from_le_bytes([b[at], b[at + 1]]).into()
    }

    /// Follows the image as `check_atom_bios` and `amdgpu_atom_parse_data_header` do.
    #[test]
    fn image_parses_by_amd_rules() {
        let rom = image(&rx9070::CHIP, 64 << 20);
        assert_eq!(rom[..2], [0x55, 0xaa]);
        assert_eq!(usize::from(rom[2]) << 9, rom.len());
        assert_eq!(&rom[0x30..0x3a], b" 761295520");
        let header = u16_at(&rom, 0x48);
        assert_eq!(&rom[header + 4..header + 8], b"ATOM");
        let tables = u16_at(&rom, header + 0x20);
        let table = |index: usize, size: usize, revision: [u8; 2]| {
            let at = u16_at(&rom, tables + 4 + 2 * index);
            assert_eq!(u16_at(&rom, at), size);
            assert_eq!(rom[at + 2..at + 4], revision);
            at
        };
        let firmware = table(4, 108, [3, 4]);
        assert_eq!(u16_at(&rom, firmware + 24), 0x14 + 0x38, "BIOS_SCRATCH_0");
        let umc = table(24, 84, [4, 0]);
        assert_eq!(
            rom[umc + 64] as u32 * (1 << rom[umc + 65]),
            256,
            "memory width"
        );
        let gfx = table(14, 136, [3, 0]);
        assert_eq!(u16_at(&rom, gfx + 40), 10_000, "reference clock in 10 kHz");
        table(8, 288, [4, 0]);
        let card = &crate::chips::mi300x::CHIP;
        assert_eq!(Rom::new(card, 8 << 30, None).expansion(), 0);
        let rom = image(card, 512 << 20);
        let tables = u16_at(&rom, u16_at(&rom, 0x48) + 0x20);
        let firmware = u16_at(&rom, tables + 4 + 2 * 4);
        assert_eq!(rom[firmware + 2..firmware + 4], [3, 4]);
        let reserved = &rom[firmware + 0x54..firmware + 0x58];
        assert_eq!(reserved, (512u32 << 10).to_le_bytes(), "in KiB");
        let pci = u16_at(&rom, 0x18);
        assert_eq!(&rom[pci..pci + 4], b"PCIR");
        assert_eq!(u16_at(&rom, pci + 0x10) * 512, rom.len());
    }
}
