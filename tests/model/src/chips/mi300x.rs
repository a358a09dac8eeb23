// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MI300X, reduced to one AID with one XCC.
//!
//! Bases come from AMD's register headers, whose address blocks name the byte address of each
//! segment; NBIF segments 6 and 7 hold no register of the headers and carry the values of the
//! neighbouring NBIO generation.

use super::{Chip, GcInfo, Generation, IpInstance};
use crate::regs::Ip;

const fn ip(ip: Ip, instance: u8, version: [u8; 3], bases: &'static [u32]) -> IpInstance {
    IpInstance {
        ip,
        instance,
        version,
        bases,
    }
}

/// The card.
pub const CHIP: Chip = Chip {
    name: "mi300x",
    generation: Generation::Gfx9,
    pci_ids: [0x1002, 0x74a1, 0x1002, 0x74a1],
    pci_class: 0x12_0000,
    pci_revision: 0,
    rev_id: 1,
    register_bar: 2 << 20,
    ips: &[
        ip(Ip::Gc, 0, [9, 4, 3], &[0x2000, 0xa000]),
        ip(Ip::Mmhub, 0, [1, 8, 0], &[0x18000]),
        ip(Ip::Athub, 0, [1, 8, 0], &[0xc20, 0x11800]),
        ip(Ip::Osssys, 0, [4, 4, 2], &[0x10a0]),
        ip(Ip::Hdp, 0, [4, 4, 2], &[0xf20]),
        ip(
            Ip::Nbif,
            0,
            [7, 9, 0],
            &[
                0x0, 0x14, 0xd20, 0xea0, 0x10400, 0x50_0000, 0x241_b000, 0x241_b000, 0x404_0000,
            ],
        ),
        ip(Ip::Mp0, 0, [13, 0, 6], &[0x16000]),
        ip(Ip::Mp1, 0, [13, 0, 6], &[0x16000]),
        ip(Ip::Smuio, 0, [13, 0, 3], &[0x16800, 0x16800, 0x16a00]),
        ip(Ip::Sdma, 0, [4, 4, 2], &[0x1260]),
        ip(Ip::Sdma, 1, [4, 4, 2], &[0x1860]),
        ip(Ip::Sdma, 2, [4, 4, 2], &[0x19400]),
        ip(Ip::Sdma, 3, [4, 4, 2], &[0x19800]),
        ip(Ip::Umc, 0, [12, 0, 0], &[0x14000]),
    ],
    gc: GcInfo {
        num_se: 4,
        sh_per_se: 1,
        cu_per_sh: 10,
        cus_per_unit: 1,
        inactive: &[0x200, 0, 0x200, 0],
        rb_per_se: 0,
        tccs: 16,
        gprs: 512,
        wave_size: 64,
        waves_per_simd: 8,
        scratch_slots_per_cu: 32,
        lds_kib: 64,
        tcp_kib: 32,
        cu_per_sqc: 2,
        sqc_inst_kib: 64,
        sqc_data_kib: 16,
        gl1_kib: 0,
        tcc_kib: 4096,
        sdp_interfaces: 16,
    },
    cold_boot: true,
    default_vram: 8 << 30,
    fb_location: 0x8000,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_38_of_40_cus() {
        assert_eq!(CHIP.gc.active_cus(), 38);
        let arrays = (CHIP.gc.num_se * CHIP.gc.sh_per_se) as usize;
        assert_eq!(CHIP.gc.inactive.len(), arrays);
    }
}
