// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MI325X: the blocks of MI300X with HBM3E (`gmc_v9_0_sw_init`: GC 9.4.3, device id 0x..5).

use super::mi300x;
use super::Chip;

/// The card.
pub const CHIP: Chip = Chip {
    name: "mi325x",
    product: Some("AMD Instinct MI325X OAM"),
    pci_ids: [0x1002, 0x74a5, 0x1002, 0x74a5],
    default_vram: 256 << 30,
    ..mi300x::CHIP
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::Ip;

    #[test]
    fn has_304_cus() {
        let cus = CHIP.instances(Ip::Gc).map(|xcc| CHIP.gc.cus(xcc).len());
        assert_eq!(cus.sum::<usize>(), 304);
    }
}
