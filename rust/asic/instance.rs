// SPDX-License-Identifier: GPL-2.0

//! Instances of IP blocks: hardware id, version and base addresses of the registers.

use kernel::prelude::*;

use rkfd_abi::regs::Reg;

/// The version of an IP block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    /// Major version.
    pub(crate) major: u8,
    /// Minor version.
    pub(crate) minor: u8,
    /// Revision.
    pub(crate) rev: u8,
}

impl Version {
    /// Makes a version.
    pub(crate) const fn new(major: u8, minor: u8, rev: u8) -> Self {
        Self { major, minor, rev }
    }
}

impl kernel::fmt::Display for Version {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        f.write_fmt(fmt!("{}.{}.{}", self.major, self.minor, self.rev))
    }
}

/// Segments of base addresses that an instance can have.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// An instance of an IP block.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// Hardware id of the block.
    pub(crate) hw_id: u16,
    /// Physical instance number, within the package.
    pub(crate) inst: u8,
    /// Its version.
    pub(crate) version: Version,
    /// Number of valid entries of `bases`.
    pub(crate) num_bases: u8,
    /// Base addresses of the register segments, in dwords.
    pub(crate) bases: [u32; MAX_SEGMENTS],
}

impl Instance {
    /// Returns the absolute dword address of `reg`, `index` dwords further on. Errors as
    /// [`super::mmio::Block::address`].
    pub(crate) fn address<R>(&self, reg: Reg<R>, index: u32) -> Result<u32> {
        if reg.seg >= self.num_bases {
            return Err(ENXIO);
        }
        let base = self.bases.get(usize::from(reg.seg)).ok_or(ENXIO)?;
        base.checked_add(reg.off)
            .and_then(|a| a.checked_add(index))
            .ok_or(EINVAL)
    }
}
