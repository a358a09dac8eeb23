// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PCI configuration space of the card.
//!
//! | offset | what |
//! |---|---|
//! | 0x00 | type 0 header; BAR0 VRAM and BAR2 doorbells (64-bit, prefetchable), BAR5 registers |
//! | 0x30 | expansion ROM, if the card has a VBIOS that is read through it |
//! | 0x50 | power management |
//! | 0x64 | PCI Express, version 2, endpoint, with function-level reset |
//! | 0xc0 | MSI-X: 4 vectors, table in BAR5 at 0x42000, pending bits in BAR5 at 0x43000 |
//! | 0x100 | vendor-specific extended capability |
//!
//! The MSI-X structures have the same position as on the card:
//! `RCC_DEV0_EPF0_GFXMSIX_VECT0_ADDR_LO` is dword 0x400 of the NBIF segment at 0x10400, which is
//! byte 0x42000 of the register BAR. The client emulates the table itself, so accesses to those two
//! pages never arrive here.

use crate::chips::Chip;
use crate::engines::rom::Rom;
use crate::gpu::DOORBELL_BAR;

/// Bytes of extended configuration space.
pub const CONFIG_SIZE: usize = 4096;
/// MSI-X vectors of the card.
pub const MSIX_VECTORS: u16 = 4;
/// Byte offset of the MSI-X table in BAR5.
pub const MSIX_TABLE: u32 = 0x4_2000;
/// Byte offset of the pending bits in BAR5.
pub const MSIX_PBA: u32 = 0x4_3000;

/// Device control 2: AtomicOp Requester Enable (`PCI_EXP_DEVCTL2_ATOMIC_REQ`).
const ATOMIC_REQUESTER: u8 = 1 << 6;

/// Offset of the doorbell BAR, BAR2.
const DOORBELL_BAR_AT: usize = 0x18;
/// Expansion ROM: address decode enable (`PCI_ROM_ADDRESS_ENABLE`).
const ROM_ENABLE: u32 = 1;
/// Command register.
const COMMAND: usize = 0x04;
/// In it: Bus Master Enable (`PCI_COMMAND_MASTER`).
const MASTER: u8 = 1 << 2;
const CAP_PM: usize = 0x50;
const CAP_EXP: usize = 0x64;
const CAP_MSIX: usize = 0xc0;
const EXT_VENDOR: usize = 0x100;

const BAR_TYPE_64: u32 = 4;
const BAR_PREFETCH: u32 = 8;

/// Side effect of a write to configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// None.
    None,
    /// The address of the doorbell BAR was written.
    DoorbellBar,
    /// Function-level reset.
    Reset,
}

/// Configuration space: values, and writable bits.
pub struct Config {
    bytes: Box<[u8; CONFIG_SIZE]>,
    writable: Box<[u8; CONFIG_SIZE]>,
    initial: Box<[u8; CONFIG_SIZE]>,
}

/// Returns the size of the BAR through which `vram` bytes of VRAM are visible: a power of two.
pub fn frame_buffer_bar(vram: u64) -> u64 {
    vram.next_power_of_two()
}

/// Returns the size of the BAR of the expansion ROM: a power of two, 0 if there is none.
pub fn expansion_rom(rom: &Rom) -> u64 {
    match rom.expansion() {
        0 => 0,
        size => size.next_power_of_two().max(2048) as u64,
    }
}

impl Config {
    /// Returns the configuration space of `chip` with `vram` bytes behind BAR0 and an expansion ROM
    /// of `rom` bytes.
    pub fn new(chip: &Chip, vram: u64, rom: u64) -> Self {
        let mut config = Self {
            bytes: Box::new([0; CONFIG_SIZE]),
            writable: Box::new([0; CONFIG_SIZE]),
            initial: Box::new([0; CONFIG_SIZE]),
        };
        config.header(chip, vram);
        if rom != 0 {
            config.put32(0x30, 0, !(rom as u32 - 1) | ROM_ENABLE);
        }
        config.power_management();
        config.express();
        config.msix();
        config.vendor();
        config.initial = config.bytes.clone();
        config
    }

    fn put16(&mut self, at: usize, value: u16, writable: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32, writable: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 4].copy_from_slice(&writable.to_le_bytes());
    }

    fn bar64(&mut self, index: usize, size: u64) {
        let mask = !(size - 1);
        let at = 0x10 + 4 * index;
        self.put32(at, BAR_TYPE_64 | BAR_PREFETCH, mask as u32 & !0xf);
        self.put32(at + 4, 0, (mask >> 32) as u32);
    }

    fn header(&mut self, chip: &Chip, vram: u64) {
        let [vendor, device, subvendor, subdevice] = chip.pci_ids;
        self.put16(0x00, vendor, 0);
        self.put16(0x02, device, 0);
        // Memory and bus-master enable, parity, SERR, INTx disable.
        self.put16(COMMAND, 0, 0x0546);
        // Capability list present.
        self.put16(0x06, 0x0010, 0);
        self.put32(0x08, chip.pci_class << 8 | u32::from(chip.pci_revision), 0);
        self.put32(0x0c, 0, 0xff);
        self.bar64(0, frame_buffer_bar(vram));
        self.bar64(2, DOORBELL_BAR);
        self.put32(0x24, 0, !(chip.register_bar as u32 - 1));
        self.put16(0x2c, subvendor, 0);
        self.put16(0x2e, subdevice, 0);
        self.bytes[0x34] = CAP_PM as u8;
        // Interrupt line is for software; pin INTA.
        self.put16(0x3c, 0x0100, 0xff);
    }

    fn power_management(&mut self) {
        // Version 3, PME from D1, D2, D3hot and D3cold, D1 and D2 supported.
        self.put16(CAP_PM, (CAP_EXP as u16) << 8 | 0x01, 0);
        self.put16(CAP_PM + 2, 0xf603, 0);
        // No soft reset on D3hot -> D0; power state and PME enable are writable.
        self.put16(CAP_PM + 4, 0x0008, 0x0103);
    }

    fn express(&mut self) {
        self.put16(CAP_EXP, (CAP_MSIX as u16) << 8 | 0x10, 0);
        // Version 2, endpoint.
        self.put16(CAP_EXP + 2, 0x0002, 0);
        // 256-byte payload, extended tags, role-based errors, function-level reset.
        self.put32(CAP_EXP + 4, 0x1000_8021, 0);
        self.put16(CAP_EXP + 8, 0x2810, 0xffff);
        // 32 GT/s x16.
        self.put32(CAP_EXP + 0xc, 0x0000_0105, 0);
        self.put16(CAP_EXP + 0x10, 0, 0x01ff);
        self.put16(CAP_EXP + 0x12, 0x0105, 0);
        // Completion timeouts; 32-, 64- and 128-bit atomic completer; 10-bit tags.
        self.put32(CAP_EXP + 0x24, 0x0001_039f, 0);
        self.put16(CAP_EXP + 0x28, 0, 0x07ff);
        // 2.5 to 32 GT/s.
        self.put32(CAP_EXP + 0x2c, 0x0000_003e, 0);
        self.put16(CAP_EXP + 0x30, 0x0005, 0x000f);
    }

    fn msix(&mut self) {
        self.put16(CAP_MSIX, 0x0011, 0);
        // Enable and function mask are writable.
        self.put16(CAP_MSIX + 2, MSIX_VECTORS - 1, 0xc000);
        self.put32(CAP_MSIX + 4, MSIX_TABLE | 5, 0);
        self.put32(CAP_MSIX + 8, MSIX_PBA | 5, 0);
    }

    fn vendor(&mut self) {
        // Id 0xb, version 1, last of the list; VSEC id 1, revision 1, 16 bytes.
        self.put32(EXT_VENDOR, 0x0001_000b, 0);
        self.put32(EXT_VENDOR + 4, 0x0101_0001, 0);
    }

    /// Reads configuration space; bytes beyond its end read as 0.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        let Ok(offset) = usize::try_from(offset) else {
            return;
        };
        for (i, byte) in data.iter_mut().enumerate() {
            if let Some(value) = self.bytes.get(offset.saturating_add(i)) {
                *byte = *value;
            }
        }
    }

    /// Writes the writable bits of `data`.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Effect {
        let Ok(offset) = usize::try_from(offset) else {
            return Effect::None;
        };
        for (i, &value) in data.iter().enumerate() {
            let at = offset.saturating_add(i);
            if at < CONFIG_SIZE {
                let mask = self.writable[at];
                self.bytes[at] = self.bytes[at] & !mask | value & mask;
            }
        }
        // Initiate-FLR is bit 15 of device control; it reads as 0.
        let control = CAP_EXP + 8 + 1;
        if self.bytes[control] & 0x80 != 0 {
            self.reset();
            return Effect::Reset;
        }
        let bar = DOORBELL_BAR_AT..DOORBELL_BAR_AT + 8;
        match offset < bar.end && bar.start < offset.saturating_add(data.len()) {
            true => Effect::DoorbellBar,
            false => Effect::None,
        }
    }

    /// Returns the bus address in the doorbell BAR.
    pub fn doorbell_bar(&self) -> u64 {
        let mut bar = [0; 8];
        bar.copy_from_slice(&self.bytes[DOORBELL_BAR_AT..DOORBELL_BAR_AT + 8]);
        u64::from_le_bytes(bar) & !0xf
    }

    /// Returns whether the function may access the bus.
    pub fn is_master(&self) -> bool {
        self.bytes[COMMAND] & MASTER != 0
    }

    /// Returns whether the function may send AtomicOp requests.
    pub fn sends_atomics(&self) -> bool {
        self.bytes[CAP_EXP + 0x28] & ATOMIC_REQUESTER != 0
    }

    /// Resets to the state after a function-level reset.
    pub fn reset(&mut self) {
        self.bytes = self.initial.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::mi300x::ONE_XCC;

    fn read32(config: &Config, at: u64) -> u32 {
        let mut b = [0; 4];
        config.read(at, &mut b);
        u32::from_le_bytes(b)
    }

    #[test]
    fn ids_of_the_card() {
        let config = Config::new(&ONE_XCC, 8 << 30, 0);
        assert_eq!(read32(&config, 0), 0x74a1_1002);
        assert_eq!(read32(&config, 8) >> 8, 0x12_0000);
        assert_eq!(read32(&config, 0x2c), 0x74a1_1002);
    }

    #[test]
    fn graphics_card_class_and_register_bar() {
        let mut config = Config::new(&crate::chips::rx9070::CHIP, 8 << 30, 0);
        assert_eq!(read32(&config, 0), 0x7550_1002);
        assert_eq!(read32(&config, 8) >> 8, 0x03_0000);
        config.write(0x24, &[0xff; 4]);
        assert_eq!(read32(&config, 0x24), 0xfff8_0000);
    }

    #[test]
    fn bar_sizing() {
        let mut config = Config::new(&ONE_XCC, 8 << 30, 0);
        let mut size = |at: u64| {
            let old = read32(&config, at);
            config.write(at, &[0xff; 4]);
            let value = read32(&config, at);
            config.write(at, &old.to_le_bytes());
            value
        };
        assert_eq!((size(0x10), size(0x14)), (0x0000_000c, 0xffff_fffe));
        assert_eq!((size(0x18), size(0x1c)), (0xffe0_000c, 0xffff_ffff));
        assert_eq!(size(0x20), 0);
        assert_eq!(size(0x24), 0xffe0_0000);
        assert_eq!(size(0x30), 0, "no expansion ROM");
    }

    #[test]
    fn capability_list_is_finite() {
        let config = Config::new(&ONE_XCC, 8 << 30, 0);
        let mut at = read32(&config, 0x34) & 0xff;
        let mut ids = Vec::new();
        while at != 0 {
            let header = read32(&config, at.into());
            ids.push(header & 0xff);
            at = header >> 8 & 0xff;
        }
        assert_eq!(ids, [0x01, 0x10, 0x11]);
        assert_eq!(read32(&config, 0x100) & 0xffff, 0x000b);
        assert_eq!(read32(&config, 0x100) >> 20, 0);
        assert_eq!(read32(&config, 0xc4), 0x4_2005);
        assert_eq!(read32(&config, 0xc8), 0x4_3005);
        assert_eq!(read32(&config, 0xc0) >> 16 & 0x7ff, 3);
    }

    #[test]
    fn read_only_bits_and_flr() {
        let mut config = Config::new(&ONE_XCC, 8 << 30, 0);
        assert_eq!(config.write(0, &[0xff; 4]), Effect::None);
        assert_eq!(read32(&config, 0), 0x74a1_1002);
        config.write(4, &[0x06, 0x04]);
        assert_eq!(read32(&config, 4) & 0xffff, 0x0406);
        config.write(0x24, &[0, 0, 0xe0, 0xfe]);
        config.write(0x8c, &[0x40, 0]);
        assert!(config.sends_atomics() && config.is_master());
        assert_eq!(config.write(0x6c, &[0x10, 0xa8]), Effect::Reset);
        assert!(!config.sends_atomics() && !config.is_master());
        assert_eq!(read32(&config, 4) & 0xffff, 0);
        assert_eq!(read32(&config, 0x24), 0);
        assert_eq!(read32(&config, 0x6c) & 0x8000, 0);
        let mut beyond = [1; 8];
        config.read(0xffc, &mut beyond);
        assert_eq!(beyond[4..], [0; 4]);
        config.write(u64::MAX, &[1, 2]);
    }
}
