// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MI308X: 4 AIDs with one XCC of 20 CUs and two SDMA engines each.
//!
//! The numbers of XCCs and CUs are AMD's; which are fused off differs by part. In this one physical
//! and logical numbers differ, and the CUs are different ones on each XCC.
//!
//! The SDMA engines are the first two of AIDs 0 and 2, and the last two of AIDs 1 and 3: the C
//! driver accepts either half (`aqua_vanjaram_init_soc_config`), and locates the engine of an
//! interrupt only if physical and logical number are equal modulo 4
//! (`sdma_v4_4_2_process_trap_irq`).

use super::mi300x;
use super::{Chip, GcInfo};
use crate::regs::Ip;

/// The card.
pub const CHIP: Chip = Chip {
    name: "mi308x",
    product: Some("AMD Instinct MI308X OAM"),
    pci_ids: [0x1002, 0x74a2, 0x1002, 0x74a2],
    harvested: &[
        (Ip::Gc, 0),
        (Ip::Gc, 3),
        (Ip::Gc, 4),
        (Ip::Gc, 7),
        (Ip::Sdma, 2),
        (Ip::Sdma, 3),
        (Ip::Sdma, 4),
        (Ip::Sdma, 5),
        (Ip::Sdma, 10),
        (Ip::Sdma, 11),
        (Ip::Sdma, 12),
        (Ip::Sdma, 13),
    ],
    gc: GcInfo {
        // Different CUs on each XCC, five of each shader engine on all.
        inactive: &[
            &[],
            &[0x3e0, 0x01f, 0x155, 0x2aa],
            &[0x01f, 0x3e0, 0x2aa, 0x155],
            &[],
            &[],
            &[0x155, 0x155, 0x0f8, 0x0f8],
            &[0x133, 0x2cc, 0x3e0, 0x01f],
            &[],
        ],
        ..mi300x::CHIP.gc
    },
    ..mi300x::CHIP
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_80_cus_and_two_sdma_engines_on_each_aid() {
        let xccs: Vec<u8> = CHIP.instances(Ip::Gc).collect();
        assert_eq!(xccs, [1, 2, 5, 6]);
        let cus = xccs.iter().map(|xcc| CHIP.gc.cus(*xcc).len());
        assert_eq!(cus.sum::<usize>(), 80);
        let engines: Vec<u8> = CHIP.instances(Ip::Sdma).collect();
        assert_eq!(engines, [0, 1, 6, 7, 8, 9, 14, 15]);
    }
}
