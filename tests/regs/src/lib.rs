// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Register addresses and fields of the GPU model, one module per IP block and version.
//!
//! The modules are generated at build time from AMD's `asic_reg` headers in the kernel source tree
//! that `RKFD_KERNEL_SRC` names (`scripts/in-root` sets it); `registers.list` selects the
//! registers. Names are the headers': `regCP_HQD_ACTIVE`, `CP_HQD_ACTIVE__ACTIVE`. The driver has
//! its own, smaller table in `rkfd_abi::regs`.
//!
//! An address has three parts: the instance's base addresses (from IP discovery, in dwords), the
//! index `seg` into them (`..._BASE_IDX` in the headers) and the dword offset `off`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use rkfd_abi::bits::Field;

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
    /// Returns the absolute dword address for an instance with these base addresses; `None` when
    /// the instance lists too few of them.
    pub const fn dword(self, bases: &[u32]) -> Option<u32> {
        if (self.seg as usize) < bases.len() {
            bases[self.seg as usize].checked_add(self.off)
        } else {
            None
        }
    }

    /// Returns the register `n` dwords further on: an element of a register array.
    pub const fn at(self, n: u32) -> Self {
        Self {
            name: self.name,
            seg: self.seg,
            off: self.off + n,
        }
    }

    /// The model's form of a register that driver and model share by its role.
    const fn shared<R>(reg: rkfd_abi::regs::Reg<R>) -> Self {
        Self {
            name: reg.name,
            seg: reg.seg,
            off: reg.off,
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

include!(concat!(env!("OUT_DIR"), "/regs.rs"));

macro_rules! shared {
    ($(#[$meta:meta])* $module:ident: $($name:ident)*) => {
        $(#[$meta])*
        pub mod $module {
            use super::Reg;
            $(
                #[doc = concat!("[`rkfd_abi::", stringify!($module), "::", stringify!($name), "`].")]
                pub const $name: Reg = Reg::shared(rkfd_abi::$module::$name);
            )*
        }
    };
}

shared! {
    /// The PSP's mailbox registers by role.
    psp: MAILBOX BOOTLOADER BOOTLOADER_ADDRESS VERSION COMMAND RING_WPTR RING_ADDRESS_LO
        RING_ADDRESS_HI RING_SIZE SIGN_OF_LIFE BOOTLOADER_STATUS RAS_CAPABILITY
}
shared! {
    /// The SMU's mailbox registers by role.
    smu: MESSAGE ARGUMENT RESPONSE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> [(&'static str, &'static [RegInfo]); 17] {
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
            ("thm 14", thm_14_0_2::ALL),
            ("smuio 14", smuio_14_0_2::ALL),
        ]
    }

    #[test]
    fn psp_14_0_has_the_mailboxes_of_13_0() {
        use mp_14_0_2 as mp;
        for (role, there) in [
            (psp::BOOTLOADER, mp::regMPASP_SMN_C2PMSG_35),
            (psp::BOOTLOADER_ADDRESS, mp::regMPASP_SMN_C2PMSG_36),
            (psp::COMMAND, mp::regMPASP_SMN_C2PMSG_64),
            (psp::RING_WPTR, mp::regMPASP_SMN_C2PMSG_67),
            (psp::RING_ADDRESS_LO, mp::regMPASP_SMN_C2PMSG_69),
            (psp::RING_ADDRESS_HI, mp::regMPASP_SMN_C2PMSG_70),
            (psp::RING_SIZE, mp::regMPASP_SMN_C2PMSG_71),
            (psp::SIGN_OF_LIFE, mp::regMPASP_SMN_C2PMSG_81),
        ] {
            assert_eq!(
                (role.seg, role.off),
                (there.seg, there.off),
                "{}",
                there.name
            );
        }
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
        let next = gc_9_4_3::regSCRATCH_REG1;
        assert_eq!(reg.dword(&[0x2000, 0xa000]), Some(0xc040));
        assert_eq!(reg.dword(&[0x2000]), None);
        assert_eq!((reg.at(1).seg, reg.at(1).off), (next.seg, next.off));
    }
}
