// SPDX-License-Identifier: GPL-2.0

//! Compute partition modes: the numbers of nodes into which the XCCs of a card can be divided.

use super::xcc::XccList;

/// Maximum number of partitions of a card (`MAX_XCP`, `amdgpu_xcp.h`).
pub(crate) const MAX_PARTITIONS: u32 = 8;

/// A compute partition mode (`enum amdgpu_gfx_partition`, `amdgpu_gfx.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComputePartition {
    /// One partition.
    Spx,
    /// Two partitions.
    Dpx,
    /// Three partitions.
    Tpx,
    /// Four partitions.
    Qpx,
    /// A partition per XCC.
    Cpx,
}

impl ComputePartition {
    /// All modes, in the order in which user space reads them.
    pub(crate) const ALL: [Self; 5] = [Self::Spx, Self::Dpx, Self::Tpx, Self::Qpx, Self::Cpx];

    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spx => "SPX",
            Self::Dpx => "DPX",
            Self::Tpx => "TPX",
            Self::Qpx => "QPX",
            Self::Cpx => "CPX",
        }
    }

    /// Returns the mode whose name `text` starts with, in upper or lower case.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| {
            text.get(..mode.name().len())
                .is_some_and(|start| start.eq_ignore_ascii_case(mode.name().as_bytes()))
        })
    }

    /// Returns the number of partitions of a card with `xccs` XCCs.
    pub(crate) fn partitions(self, xccs: u32) -> u32 {
        match self {
            Self::Spx => 1,
            Self::Dpx => 2,
            Self::Tpx => 3,
            Self::Qpx => 4,
            Self::Cpx => xccs,
        }
    }

    /// Returns whether a card with these XCCs and one memory partition (NPS1) supports the mode
    /// (`amdgpu_xcp_update_supported_modes`, `amdgpu_xcp.c`; `__aqua_vanjaram_is_valid_mode`,
    /// `aqua_vanjaram.c`).
    pub(crate) fn is_available(self, xccs: &XccList) -> bool {
        let counts: &[u32] = match self {
            Self::Spx => &[1, 2, 4, 6, 8],
            Self::Dpx => &[4, 8],
            Self::Tpx => &[6],
            Self::Qpx => &[8],
            Self::Cpx => &[2, 4, 6, 8],
        };
        counts.contains(&xccs.count())
    }
}
