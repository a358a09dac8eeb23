// SPDX-License-Identifier: GPL-2.0

//! Compute partition modes: the numbers of nodes into which the XCCs of a card can be divided; and
//! memory partition modes (NPS), the numbers of ranges into which its VRAM is divided.

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

    /// Returns the mode in which the driver starts a card with `xccs` XCCs and `memory` memory
    /// partitions; `None` without such a mode (`__aqua_vanjaram_get_auto_mode`, `aqua_vanjaram.c`).
    pub(crate) fn initial(xccs: u32, memory: u32) -> Option<Self> {
        match memory {
            1 => Some(Self::Spx),
            _ if memory == xccs || memory == xccs / 2 => Some(Self::Cpx),
            2 => Some(Self::Dpx),
            _ => None,
        }
    }

    /// Returns whether a card with these XCCs can have the mode in NPS mode `nps`
    /// (`__aqua_vanjaram_is_valid_mode`, `aqua_vanjaram.c`).
    pub(crate) fn is_available(self, xccs: &XccList, nps: Option<NpsMode>) -> bool {
        // One XCC cannot be divided.
        let divides = self != Self::Cpx || xccs.count() > 1;
        divides && self.is_supported(xccs) && nps.is_some_and(|nps| self.is_compatible(nps))
    }

    /// Returns whether a card has the mode in NPS mode `nps` (`__aqua_vanjaram_get_px_mode_info`,
    /// `aqua_vanjaram.c`).
    pub(crate) fn is_compatible(self, nps: NpsMode) -> bool {
        match self {
            Self::Spx => nps == NpsMode::ONE,
            Self::Dpx => matches!(nps.0, 1 | 2),
            Self::Tpx | Self::Qpx | Self::Cpx => matches!(nps.0, 1 | 4),
        }
    }

    /// Returns whether a card with these XCCs has the mode in some NPS mode
    /// (`amdgpu_xcp_update_supported_modes`, `amdgpu_xcp.c`).
    pub(crate) fn is_supported(self, xccs: &XccList) -> bool {
        let counts: &[u32] = match self {
            Self::Spx | Self::Cpx => &[1, 2, 4, 6, 8],
            Self::Dpx => &[4, 8],
            Self::Tpx => &[6],
            Self::Qpx => &[8],
        };
        counts.contains(&xccs.count())
    }
}

/// A memory partition mode (`enum amdgpu_memory_partition`, `amdgpu_gmc.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NpsMode(u32);

impl NpsMode {
    /// One memory partition.
    pub(crate) const ONE: Self = Self(1);

    /// All modes, in the order in which user space reads them.
    pub(crate) const ALL: [Self; 6] = [Self(1), Self(2), Self(3), Self(4), Self(6), Self(8)];

    /// Returns mode `number`, if there is one.
    pub(crate) fn new(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.0 == number)
    }

    /// Returns the number of the mode.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns the number of memory partitions that a card in this mode should have
    /// (`amdgpu_gmc_init_sw_mem_ranges`, `amdgpu_gmc.c`).
    pub(crate) fn partitions(self) -> u32 {
        match self.0 {
            count @ (1 | 2 | 4 | 8) => count,
            _ => 1,
        }
    }

    /// Returns the mode whose name `text` starts with, in upper or lower case.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (name, rest) = text.split_at_checked(3)?;
        let digit = rest.first()?.checked_sub(b'0')?;
        Self::new(u32::from(digit)).filter(|_| name.eq_ignore_ascii_case(b"NPS"))
    }
}

/// The memory partition modes of a card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NpsModes {
    /// The current one; `None` if it is unknown.
    pub(crate) current: Option<NpsMode>,
    /// Those that the card reports: mode n is bit n - 1. 0 if it reports none.
    pub(crate) capability: u32,
    /// The next reset switches the mode.
    pub(crate) requested: bool,
}

impl NpsModes {
    /// Returns whether the mode can be requested (`gmc_v9_0_init_nps_details`).
    pub(crate) fn supports(&self, mode: NpsMode) -> bool {
        if self.current.is_some() && self.capability != 0 {
            return self.capability & 1 << (mode.0 - 1) != 0;
        }
        matches!(mode.0, 1 | 4)
    }

    /// Returns the number of modes that can be requested.
    pub(crate) fn count(&self) -> usize {
        let modes = NpsMode::ALL.into_iter();
        modes.filter(|mode| self.supports(*mode)).count()
    }
}
