// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Placement of VRAM by the VBIOS, in the address space of the memory controller.
//!
//! The GPUs of an xGMI hive share one FB aperture, which starts at the same address on all of
//! them: the VRAM of GPU n is segment n of it. A GPU alone has an aperture of the size of its VRAM.
//!
//! The end of VRAM belongs to the boot firmware: the PSP's TMR, which has the engines' firmware,
//! and the IP discovery table. The driver may read the latter, and write nothing there.

use std::ops::Range;

use crate::chips::{Chip, Generation};
use crate::engines::rom::reserved_by_firmware;

/// GPUs of a hive.
pub const HIVE_GPUS: u8 = 8;

/// Least size of a segment, the VRAM of an MI300X.
const SEGMENT: u64 = 192 << 30;

/// Region of the boot firmware of gfx9, in bytes: the reservation of the C driver if there is no
/// VBIOS that specifies its size (`amdgpu_ttm_init_fw_resv_region`).
const FIRMWARE: u64 = 280 << 20;
/// Smallest VRAM with these; a smaller one has an eighth, so that there is room for tests.
const LEAST: u64 = 512 << 20;

/// Returns the regions of the boot firmware in `vram` bytes: one at the end, and a second one,
/// which may be empty. `vbios` is the size of the first in the tables of a VBIOS, if the card of
/// gfx9 has one, `second` that of the second region, for firmware of gfx12 that has one.
pub fn firmware_regions(
    chip: &Chip,
    vram: u64,
    vbios: Option<u64>,
    second: Option<u64>,
) -> [Range<u64>; 2] {
    let size = match chip.generation {
        Generation::Gfx9 => match vbios {
            Some(size) => size,
            None if vram >= LEAST => FIRMWARE,
            None => vram / 8,
        },
        Generation::Gfx12 => reserved_by_firmware(vram),
    };
    [vram - size..vram, vram / 4..vram / 4 + second.unwrap_or(0)]
}

/// The FB aperture and the part of it that is the card's VRAM.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    aperture: u64,
    vram: u64,
    hive_node: Option<u8>,
}

impl Placement {
    /// Returns the placement of `vram` bytes for a card alone, or at position `hive_node` of a
    /// hive.
    pub fn new(chip: &Chip, vram: u64, hive_node: Option<u8>) -> Self {
        Self {
            aperture: u64::from(chip.fb_location) << 24,
            vram,
            hive_node,
        }
    }

    /// Returns the first address of the FB aperture.
    pub fn aperture(&self) -> u64 {
        self.aperture
    }

    /// Returns the last address of the FB aperture.
    pub fn aperture_last(&self) -> u64 {
        let size = match self.hive_node {
            Some(_) => self.segment() * u64::from(HIVE_GPUS),
            None => self.vram,
        };
        self.aperture + size - 1
    }

    /// Returns the address of the card's VRAM.
    pub fn start(&self) -> u64 {
        self.aperture + self.offset()
    }

    /// Returns the address behind the card's VRAM.
    pub fn end(&self) -> u64 {
        self.start() + self.vram
    }

    /// Returns the offset of the card's VRAM in the memory of the hive.
    pub fn offset(&self) -> u64 {
        self.segment() * u64::from(self.hive_node.unwrap_or(0))
    }

    /// Returns the position in the hive, `None` for a card alone.
    pub fn hive_node(&self) -> Option<u8> {
        self.hive_node
    }

    /// Returns the offset in the card's VRAM of the address `mc`; `None` outside of it.
    pub fn in_vram(&self, mc: u64) -> Option<u64> {
        let offset = mc.checked_sub(self.start())?;
        (offset < self.vram).then_some(offset)
    }

    /// Returns MC_VM_XGMI_LFB_CNTL and MC_VM_XGMI_LFB_SIZE: region of the card, last region; size
    /// of a region in units of 16 MiB.
    pub fn lfb(&self) -> [u32; 2] {
        match self.hive_node {
            Some(node) => [
                u32::from(node) | u32::from(HIVE_GPUS - 1) << 4,
                (self.segment() >> 24) as u32,
            ],
            None => [0, 0],
        }
    }

    fn segment(&self) -> u64 {
        self.vram.max(SEGMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::{mi300x::CHIP, rx9070};

    #[test]
    fn vram_of_a_hive_is_a_segment_of_the_aperture() {
        let alone = Placement::new(&CHIP, 1 << 30, None);
        assert_eq!(alone.lfb(), [0, 0]);
        assert_eq!(alone.start(), alone.aperture());
        assert_eq!(alone.aperture_last() + 1, alone.end());
        let fifth = Placement::new(&CHIP, 1 << 30, Some(5));
        assert_eq!(fifth.lfb(), [0x75, 0x3000]);
        assert_eq!(fifth.aperture(), alone.aperture());
        assert_eq!(fifth.start(), alone.start() + 5 * (0x3000 << 24));
        assert_eq!(fifth.in_vram(alone.start()), None);
        assert_eq!(fifth.in_vram(fifth.start() + 8), Some(8));
        assert_eq!(fifth.in_vram(fifth.end()), None);
        assert_eq!(
            fifth.aperture_last() + 1 - fifth.aperture(),
            8 * (192 << 30)
        );
    }

    #[test]
    fn second_region_of_firmware_is_apart_from_the_first() {
        let vram = 1 << 30;
        let [end, none] = firmware_regions(&rx9070::CHIP, vram, None, None);
        assert!(end.end == vram && none.is_empty());
        let [same, second] = firmware_regions(&rx9070::CHIP, vram, None, Some(64 << 20));
        assert!(same == end && second.end < end.start);
        assert_eq!(second.end - second.start, 64 << 20);
    }
}
