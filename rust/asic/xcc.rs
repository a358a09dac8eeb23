// SPDX-License-Identifier: GPL-2.0

//! Graphics cores (XCCs) of a card and of its partitions.

use core::ops::Deref;

use kernel::prelude::*;

/// Most XCCs of a card (`AMDGPU_MAX_GC_INSTANCES`, `amdgpu_gfx.h`).
pub(crate) const MAX_XCCS: usize = 8;

/// A graphics core (XCC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Xcc {
    /// Number among the XCCs of the card that work, in messages and per-XCC tables of the driver.
    pub(crate) logical: u8,
    /// Number on the package, in registers, interrupt entries and firmware.
    pub(crate) physical: u8,
}

/// The XCCs of a card or of a node, in ascending order; at least one. The index in the list of a
/// node is the number that its MQDs and CU masks use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XccList {
    list: [Xcc; MAX_XCCS],
    len: usize,
}

impl XccList {
    /// Returns the list of all physical XCCs in `mask`. `ENODEV` when there is none, `EINVAL` when
    /// there are more than a card can have.
    pub(super) fn new(mut mask: u64) -> Result<Self> {
        let mut all = Self {
            list: [Xcc::default(); MAX_XCCS],
            len: 0,
        };
        if mask == 0 {
            return Err(ENODEV);
        }
        while mask != 0 {
            *all.list.get_mut(all.len).ok_or(EINVAL)? = Xcc {
                logical: u8::try_from(all.len)?,
                physical: u8::try_from(mask.trailing_zeros())?,
            };
            all.len += 1;
            mask &= mask - 1;
        }
        Ok(all)
    }

    /// Returns the XCCs of partition `index` of `count` partitions of equal size. `EINVAL` when the
    /// list cannot be divided so.
    pub(crate) fn partition(&self, index: u32, count: u32) -> Result<Self> {
        let (index, count) = (usize::try_from(index)?, usize::try_from(count)?);
        if count == 0 || self.len % count != 0 || index >= count {
            return Err(EINVAL);
        }
        let len = self.len / count;
        let mut part = Self {
            list: [Xcc::default(); MAX_XCCS],
            len,
        };
        part.list[..len].copy_from_slice(&self.list[index * len..][..len]);
        Ok(part)
    }

    /// Returns the first XCC.
    pub(crate) fn first(&self) -> Xcc {
        self.list[0]
    }

    /// Returns the number of XCCs.
    pub(crate) fn count(&self) -> u32 {
        self.len as u32
    }
}

impl Deref for XccList {
    type Target = [Xcc];

    fn deref(&self) -> &[Xcc] {
        &self.list[..self.len]
    }
}
