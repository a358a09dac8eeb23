// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MI300X: with 8 XCCs on 4 AIDs, and reduced to one AID with one XCC.
//!
//! Bases come from AMD's register headers, whose address blocks name the byte address of each
//! segment; NBIF segments 6 and 7 hold no register of the headers and carry the values of the
//! neighbouring NBIO generation.
//!
//! Bases of the second and further instances are in no source; silicon's discovery table has them.
//! These follow from two facts: drivers form an address inside an XCC from the low 16 bits of the
//! BAR's dword address, in the ranges 0x2000..0x3400 and 0xa000..0x10000
//! (`gfx_v9_4_3_normalize_xcc_reg_offset`), so XCCs are multiples of 0x10000 dwords apart; and the
//! register BAR has room for 8 such steps. The blocks of AID 0 between 0x10000 and 0x20000 are in
//! the gaps of XCC 1's ranges, hence those of AID n are n * 0x20000 higher. NBIF has the same bases
//! on all AIDs, since the SMN distinguishes its addresses by the die (`WREG32_SOC15_EXT`).

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

/// Segments of XCC n.
macro_rules! xcc {
    ($n:literal) => {
        ip(
            Ip::Gc,
            $n,
            [9, 4, 3],
            &[0x2000 + $n * XCC_STEP, 0xa000 + $n * XCC_STEP],
        )
    };
}

/// Segment of a block with one, in instance n, whose AID is the second number.
macro_rules! on_aid {
    ($ip:ident, $n:literal, $version:expr, $aid:literal, $base:literal) => {
        ip(Ip::$ip, $n, $version, &[$base + $aid * AID_STEP])
    };
}

/// Distance of XCCs, in dwords.
const XCC_STEP: u32 = 0x1_0000;
/// Distance of AIDs, in dwords.
const AID_STEP: u32 = 2 * XCC_STEP;

const MMHUB: [u8; 3] = [1, 8, 0];
const SDMA: [u8; 3] = [4, 4, 2];

const NBIF: &[u32] = &[
    0x0, 0x14, 0xd20, 0xea0, 0x10400, 0x50_0000, 0x241_b000, 0x241_b000, 0x404_0000,
];

/// Shader core layout of an XCC.
const GC: GcInfo = GcInfo {
    num_se: 4,
    sh_per_se: 1,
    cu_per_sh: 10,
    cus_per_unit: 1,
    inactive: &[&[0x200, 0, 0x200, 0]],
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
    // Infinity Cache of the card. The model lists one UMC; the number on hardware is not known.
    mall_kib: 256 << 10,
    sdp_interfaces: 16,
};

/// The whole card.
pub const CHIP: Chip = Chip {
    name: "mi300x",
    ips: &[
        xcc!(0),
        xcc!(1),
        xcc!(2),
        xcc!(3),
        xcc!(4),
        xcc!(5),
        xcc!(6),
        xcc!(7),
        on_aid!(Mmhub, 0, MMHUB, 0, 0x18000),
        on_aid!(Mmhub, 1, MMHUB, 1, 0x18000),
        on_aid!(Mmhub, 2, MMHUB, 2, 0x18000),
        on_aid!(Mmhub, 3, MMHUB, 3, 0x18000),
        ip(Ip::Athub, 0, [1, 8, 0], &[0xc20, 0x11800]),
        ip(Ip::Osssys, 0, [4, 4, 2], &[0x10a0]),
        ip(Ip::Hdp, 0, [4, 4, 2], &[0xf20]),
        ip(Ip::Nbif, 0, [7, 9, 0], NBIF),
        ip(Ip::Nbif, 1, [7, 9, 0], NBIF),
        ip(Ip::Nbif, 2, [7, 9, 0], NBIF),
        ip(Ip::Nbif, 3, [7, 9, 0], NBIF),
        ip(Ip::Mp0, 0, [13, 0, 6], &[0x16000]),
        ip(Ip::Mp1, 0, [13, 0, 6], &[0x16000]),
        ip(Ip::Smuio, 0, [13, 0, 3], &[0x16800, 0x16800, 0x16a00]),
        on_aid!(Sdma, 0, SDMA, 0, 0x1260),
        on_aid!(Sdma, 1, SDMA, 0, 0x1860),
        on_aid!(Sdma, 2, SDMA, 0, 0x19400),
        on_aid!(Sdma, 3, SDMA, 0, 0x19800),
        on_aid!(Sdma, 4, SDMA, 1, 0x1260),
        on_aid!(Sdma, 5, SDMA, 1, 0x1860),
        on_aid!(Sdma, 6, SDMA, 1, 0x19400),
        on_aid!(Sdma, 7, SDMA, 1, 0x19800),
        on_aid!(Sdma, 8, SDMA, 2, 0x1260),
        on_aid!(Sdma, 9, SDMA, 2, 0x1860),
        on_aid!(Sdma, 10, SDMA, 2, 0x19400),
        on_aid!(Sdma, 11, SDMA, 2, 0x19800),
        on_aid!(Sdma, 12, SDMA, 3, 0x1260),
        on_aid!(Sdma, 13, SDMA, 3, 0x1860),
        on_aid!(Sdma, 14, SDMA, 3, 0x19400),
        on_aid!(Sdma, 15, SDMA, 3, 0x19800),
        ip(Ip::Umc, 0, [12, 0, 0], &[0x14000]),
    ],
    default_vram: 192 << 30,
    ..ONE_XCC
};

/// One AID with one XCC.
pub const ONE_XCC: Chip = Chip {
    name: "mi300x-1xcc",
    product: Some("AMD Instinct MI300X OAM"),
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
        ip(Ip::Nbif, 0, [7, 9, 0], NBIF),
        ip(Ip::Mp0, 0, [13, 0, 6], &[0x16000]),
        ip(Ip::Mp1, 0, [13, 0, 6], &[0x16000]),
        ip(Ip::Smuio, 0, [13, 0, 3], &[0x16800, 0x16800, 0x16a00]),
        ip(Ip::Sdma, 0, [4, 4, 2], &[0x1260]),
        ip(Ip::Sdma, 1, [4, 4, 2], &[0x1860]),
        ip(Ip::Sdma, 2, [4, 4, 2], &[0x19400]),
        ip(Ip::Sdma, 3, [4, 4, 2], &[0x19800]),
        ip(Ip::Umc, 0, [12, 0, 0], &[0x14000]),
    ],
    harvested: &[],
    gc: GC,
    default_vram: 8 << 30,
    fb_location: 0x8000,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_the_whole_card() {
        let count = |ip| CHIP.instances(ip).count();
        let counts = [Ip::Gc, Ip::Mmhub, Ip::Nbif, Ip::Sdma].map(count);
        assert_eq!(counts, [8, 4, 4, 16]);
        // All of an XCC's registers are in the BAR, and have its own low 16 bits.
        for n in CHIP.instances(Ip::Gc) {
            for (seg, end) in [(0, 0x3400), (1, 0x1_0000)] {
                let first = CHIP.base(Ip::Gc, 0, seg).unwrap();
                let base = CHIP.base(Ip::Gc, n, seg).unwrap();
                assert_eq!(base & 0xffff, first);
                assert!(u64::from(base - first + end) * 4 <= CHIP.register_bar);
            }
        }
        for n in 4..16 {
            let base = |n| CHIP.base(Ip::Sdma, n, 0).unwrap();
            assert_eq!(base(n), base(n - 4) + AID_STEP);
        }
    }

    #[test]
    fn has_38_of_40_cus() {
        assert_eq!(ONE_XCC.gc.cus(0).len(), 38);
        let arrays = (ONE_XCC.gc.num_se * ONE_XCC.gc.sh_per_se) as usize;
        assert_eq!(ONE_XCC.gc.inactive(0).len(), arrays);
    }
}
