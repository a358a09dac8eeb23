// SPDX-License-Identifier: GPL-2.0

//! RAS of UMC 12.0: capability of the card, rows of memory.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    eeprom::TABLE_AT,
    psp::{RAS_BLOCKS, RAS_CAPABILITY},
};

use super::caps::has_hbm3e;
use crate::{
    asic::mmio::Mmio,
    hw::ras::{RasHal, ROW_PAGES},
};

pub(super) struct Ras;

/// Returns the address bits of the columns and the row that fail together in mode NPS1, on a card
/// with this number of memory controllers (`__get_nps_pa_flip_bits`, `ras_umc_v12_0.c`).
fn row_bits(controllers: usize, hbm3e: bool) -> [u32; 4] {
    match (controllers, hbm3e) {
        (8, false) => [13, 15, 20, 34],
        (8, true) => [13, 15, 20, 33],
        (_, false) => [15, 16, 21, 35],
        (_, true) => [15, 16, 21, 34],
    }
}

impl RasHal for Ras {
    // `psp_v13_0_get_ras_capability`.
    fn blocks(&self, mmio: &Mmio) -> Result<u32> {
        let capability = mmio.block(hwid::MP0, 0)?.rd(RAS_CAPABILITY)?.raw();
        Ok(RAS_BLOCKS.get(capability))
    }

    fn table(&self) -> u32 {
        TABLE_AT
    }

    // `lookup_bad_pages_in_a_row`.
    fn row(&self, mmio: &Mmio, device: u16, page: u64) -> [u64; ROW_PAGES] {
        let bits = row_bits(mmio.blocks(hwid::UMC).count(), has_hbm3e(device));
        let first = bits.iter().fold(page, |page, bit| page & !(1 << bit));
        core::array::from_fn(|n| {
            let bits = bits.iter().enumerate();
            bits.fold(first, |page, (i, bit)| page | (n as u64 >> i & 1) << bit)
        })
    }
}
