// SPDX-License-Identifier: GPL-2.0

//! The page table format of gfx9.
//!
//! Page tables have four levels, of which the hubs are programmed with three: with "translate
//! further", PDB0 acts as a page table of 2 MiB pages, and a PDE0 that points to a page table (PTB)
//! sets TF.

use rkfd_abi::pte;

use super::gmc::Gmc;
use crate::hw::gmc::{FormatVersion, Level, Mtype, PteAttrs};

impl FormatVersion for Gmc {
    const GART: u64 = pte::MTYPE.put(pte::MTYPE_UC);
    const NO_RETRY: u64 = pte::VALID | pte::SYSTEM | pte::PRT;

    fn own_flags(a: PteAttrs) -> u64 {
        let mtype = if a.uncached {
            pte::MTYPE_UC
        } else if a.ext_coherent {
            if a.local {
                pte::MTYPE_CC
            } else {
                pte::MTYPE_UC
            }
        } else if a.local {
            pte::MTYPE_RW
        } else if a.system {
            pte::MTYPE_UC
        } else {
            // VRAM elsewhere.
            match a.mtype {
                Mtype::NonCoherent => pte::MTYPE_NC,
                Mtype::ReadWrite => pte::MTYPE_RW,
                Mtype::Coherent => pte::MTYPE_CC,
                Mtype::Uncached => pte::MTYPE_UC,
            }
        };
        pte::SNOOPED | pte::MTYPE.put(mtype)
    }

    // A 2 MiB block in PDB0 is an ordinary entry, see the top of the file.
    fn table_flags(level: Level) -> u64 {
        match level {
            1 => pte::TF,
            2 => pte::PDE_BFS.put(u64::from(pte::LEVEL_BITS)),
            _ => 0,
        }
    }

    fn empty_block(level: Level) -> u64 {
        match level {
            // An invalid block: no flag marks it at this level, an odd address does.
            1 => pte::PAGE_SIZE,
            _ => pte::PDE_PTE,
        }
    }
}
