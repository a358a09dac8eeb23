// SPDX-License-Identifier: GPL-2.0

//! The page table format of gfx12: four levels; the IS_PTE bit marks a leaf at any level.

use rkfd_abi::pte::{self, gfx12 as bits};

use super::gmc::Gmc;
use crate::hw::gmc::{FormatVersion, Level, Mtype, PteAttrs};

impl FormatVersion for Gmc {
    const GART: u64 = bits::MTYPE.put(pte::MTYPE_UC) | bits::IS_PTE;
    const NO_RETRY: u64 = pte::VALID | pte::SYSTEM | bits::PRT;

    fn own_flags(a: PteAttrs) -> u64 {
        let mtype = if a.uncached || a.mtype == Mtype::Uncached {
            pte::MTYPE_UC
        } else {
            pte::MTYPE_NC
        };
        let snooped = if a.system { pte::SNOOPED } else { 0 };
        bits::IS_PTE | bits::MTYPE.put(mtype) | snooped
    }

    // An invalid block.
    fn empty_block(_level: Level) -> u64 {
        bits::IS_PTE
    }
}
