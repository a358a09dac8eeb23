// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Register addresses and fields, one module per IP block and version.
//!
//! An address has three parts: the instance's base addresses (from IP discovery, in dwords), the
//! index `seg` into them (`..._BASE_IDX` in AMD's headers) and the dword offset `off`. The modules
//! are written by `scripts/gen-regs.py`; what belongs in them is listed in `scripts/gen-regs.list`.
//! Names are the vendor's: `regCP_HQD_ACTIVE`, `CP_HQD_ACTIVE__ACTIVE`.

pub use crate::bits::Field;

pub mod athub_1_8_0;
pub mod gc_12_0_0;
pub mod gc_9_4_3;
pub mod hdp_4_4_2;
pub mod hdp_7_0_0;
pub mod mmhub_1_8_0;
pub mod mmhub_4_1_0;
pub mod mp_13_0_6;
pub mod mp_14_0_2;
pub mod nbif_6_3_1;
pub mod nbio_7_9_0;
pub mod osssys_4_4_2;
pub mod osssys_7_0_0;
pub mod sdma_4_4_2;
pub mod smuio_13_0_3;
pub mod smuio_14_0_2;

/// A register of an IP block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg {
    /// The header's name, with its `reg` prefix.
    pub name: &'static str,
    /// Index into the instance's base addresses.
    pub seg: u8,
    /// Dword offset from that base address.
    pub off: u32,
}

impl Reg {
    /// Absolute dword address for an instance with these base addresses; `None` when the
    /// instance lists too few of them.
    pub const fn dword(self, bases: &[u32]) -> Option<u32> {
        if (self.seg as usize) < bases.len() {
            bases[self.seg as usize].checked_add(self.off)
        } else {
            None
        }
    }

    /// The register `n` dwords further on: an element of a register array.
    pub const fn at(self, n: u32) -> Self {
        Self {
            name: self.name,
            seg: self.seg,
            off: self.off + n,
        }
    }
}

/// A register and all the bits that its header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegInfo {
    /// The register.
    pub reg: Reg,
    /// Union of the masks of its fields; 0 when the header lists none.
    pub mask: u32,
}

/// GC registers inside PM4 packets are local to the XCC that runs the packet: dword addresses of
/// that window, whatever the XCC's own base (`gfx_v9_4_3_normalize_xcc_reg_offset`,
/// `amdgpu/gfx_v9_4_3.c`).
pub const XCC_REG_WINDOW_LOW: core::ops::Range<u32> = 0x2000..0x3400;
/// The second such window.
pub const XCC_REG_WINDOW_HIGH: core::ops::Range<u32> = 0xa000..0x10000;

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> [(&'static str, &'static [RegInfo]); 16] {
        [
            ("gc", gc_9_4_3::ALL),
            ("mmhub", mmhub_1_8_0::ALL),
            ("nbio", nbio_7_9_0::ALL),
            ("osssys", osssys_4_4_2::ALL),
            ("hdp", hdp_4_4_2::ALL),
            ("athub", athub_1_8_0::ALL),
            ("mp", mp_13_0_6::ALL),
            ("sdma", sdma_4_4_2::ALL),
            ("smuio", smuio_13_0_3::ALL),
            ("gc 12", gc_12_0_0::ALL),
            ("mmhub 4", mmhub_4_1_0::ALL),
            ("nbif", nbif_6_3_1::ALL),
            ("osssys 7", osssys_7_0_0::ALL),
            ("hdp 7", hdp_7_0_0::ALL),
            ("mp 14", mp_14_0_2::ALL),
            ("smuio 14", smuio_14_0_2::ALL),
        ]
    }

    #[test]
    fn tables_are_sorted_and_names_unique() {
        for (name, all) in tables() {
            assert!(!all.is_empty(), "{name}");
            let mut seen = std::collections::HashSet::new();
            for info in all {
                assert!(info.reg.name.starts_with("reg"), "{}", info.reg.name);
                assert!(seen.insert(info.reg.name), "{}", info.reg.name);
            }
            for pair in all.windows(2) {
                let key = |i: &RegInfo| (i.reg.seg, i.reg.off);
                assert!(key(&pair[0]) <= key(&pair[1]), "{}", pair[1].reg.name);
            }
        }
    }

    #[test]
    fn addresses_need_their_segment() {
        let reg = gc_9_4_3::regSCRATCH_REG0;
        assert_eq!(reg.dword(&[0x2000, 0xa000]), Some(0xc040));
        assert_eq!(reg.dword(&[0x2000]), None);
        assert_eq!(
            reg.at(1),
            Reg {
                ..gc_9_4_3::regSCRATCH_REG1.renamed(reg.name)
            }
        );
    }

    impl Reg {
        fn renamed(self, name: &'static str) -> Self {
            Self { name, ..self }
        }
    }

    #[test]
    fn arrays_have_the_strides_that_drivers_count_on() {
        use gc_9_4_3::*;
        assert_eq!(regVM_CONTEXT1_CNTL.at(14).off, regVM_CONTEXT15_CNTL.off);
        assert_eq!(
            regVM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32.at(28).off,
            regVM_CONTEXT15_PAGE_TABLE_BASE_ADDR_LO32.off
        );
        assert_eq!(
            regVM_INVALIDATE_ENG0_REQ.at(17).off,
            regVM_INVALIDATE_ENG17_REQ.off
        );
        assert_eq!(
            regVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.at(34).off,
            regVM_INVALIDATE_ENG17_ADDR_RANGE_LO32.off
        );
        use sdma_4_4_2::*;
        assert_eq!(regSDMA_RLC1_RB_CNTL.off - regSDMA_RLC0_RB_CNTL.off, 0x58);
        assert_eq!(
            regSDMA_RLC7_RB_CNTL.off - regSDMA_RLC0_RB_CNTL.off,
            7 * 0x58
        );
    }
}
