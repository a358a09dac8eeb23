// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Radeon RX 9070: Navi 48 with one workgroup processor of each shader engine fused off.
//!
//! Bases come from AMD's register headers, whose address blocks name the byte address of each
//! segment that has registers: GC 0x1260 and 0xa000, MMHUB 0x1a000, OSSSYS 0x10a0, HDP 0xf20, NBIF
//! segments 0, 2, 3 and 5, MP0 0x16000, THM 0x16600, SMUIO 0x16800 and 0x16a00. The second segment
//! of MP1 is derived from the address of its mailbox on other generations. Segments that hold no
//! register of the headers carry the values of the Navi cards before it
//! (`sienna_cichlid_ip_offset.h`), which have two segments of DF; the others, one of which has a
//! register, are at addresses that no other block uses. The number of CUs, 56, is from AMD's
//! specification of the card; cache sizes, and which workgroup processors are fused off, are not
//! verified against hardware.

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

/// Segments of the graphics core, which includes the SDMA engines.
const GC: &[u32] = &[0x1260, 0xa000, 0x1_c000, 0x240_2c00];

/// The card.
pub const CHIP: Chip = Chip {
    name: "rx9070",
    product: None,
    generation: Generation::Gfx12,
    pci_ids: [0x1002, 0x7550, 0x1002, 0x0e5f],
    pci_class: 0x03_0000,
    pci_revision: 0xc3,
    rev_id: 1,
    register_bar: 512 << 10,
    ips: &[
        ip(Ip::Gc, 0, [12, 0, 1], GC),
        ip(Ip::Mmhub, 0, [4, 1, 0], &[0x1_a000, 0x240_8800]),
        ip(Ip::Athub, 0, [4, 1, 0], &[0xc00, 0x240_8c00]),
        ip(Ip::Osssys, 0, [7, 0, 0], &[0x10a0, 0x240_a000]),
        ip(Ip::Hdp, 0, [7, 0, 0], &[0xf20, 0x240_a400]),
        ip(
            Ip::Nbif,
            0,
            [6, 3, 1],
            &[0x0, 0x14, 0xd20, 0x1_0400, 0x241_b000, 0x404_0000],
        ),
        ip(Ip::Mp0, 0, [14, 0, 3], &[0x1_6000]),
        ip(Ip::Mp1, 0, [14, 0, 3], &[0x1_6000, 0x1_6200]),
        ip(Ip::Thm, 0, [14, 0, 2], &[0x1_6600]),
        ip(Ip::Smuio, 0, [14, 0, 2], &[0x1_6800, 0x1_6a00]),
        ip(Ip::Sdma, 0, [7, 0, 1], GC),
        ip(Ip::Sdma, 1, [7, 0, 1], GC),
        ip(Ip::Umc, 0, [8, 14, 0], &[0x1_4000]),
        ip(
            Ip::Df,
            0,
            [4, 15, 1],
            &[0x7000, 0x240_b800, 0x74_0000, 0x78_0000, 0x7c_0000],
        ),
    ],
    harvested: &[],
    gc: GcInfo {
        num_se: 4,
        sh_per_se: 2,
        cu_per_sh: 8,
        cus_per_unit: 2,
        inactive: &[&[0x8, 0, 0x8, 0, 0x8, 0, 0x8, 0]],
        rb_per_se: 4,
        tccs: 32,
        gprs: 1536,
        wave_size: 32,
        waves_per_simd: 16,
        scratch_slots_per_cu: 32,
        lds_kib: 64,
        tcp_kib: 32,
        cu_per_sqc: 2,
        sqc_inst_kib: 32,
        sqc_data_kib: 16,
        gl1_kib: 0,
        tcc_kib: 8192,
        mall_kib: 64 << 10,
        sdp_interfaces: 16,
    },
    default_vram: 8 << 30,
    fb_location: 0x8000,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_56_of_64_cus() {
        assert_eq!(CHIP.gc.cus(0).len(), 56);
        let arrays = (CHIP.gc.num_se * CHIP.gc.sh_per_se) as usize;
        assert_eq!(CHIP.gc.inactive(0).len(), arrays);
    }
}
