// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory of BOs, and what pages of it translate to.

use super::super::placement::Placement;
use super::{BLOCK, PAGE};
use crate::{
    card::vram::{PA, TABLES},
    hw::PteAttrs,
};

/// Memory that BOs have, by address in PTEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    /// VRAM, in one piece that is aligned to 2 MiB.
    Vram,
    /// VRAM behind an odd page.
    OddVram,
    /// System memory, in pieces of one to three pages.
    System,
    /// System memory in one piece that is aligned to 2 MiB.
    HugeSystem,
}

impl Memory {
    pub(super) fn placement(self, len: u64) -> Placement {
        Placement::new(&self.pieces(len), self.is_system())
    }

    /// Returns addresses and bytes.
    fn pieces(self, len: u64) -> Vec<(u64, u64)> {
        match self {
            Self::Vram => vec![(PA + TABLES + BLOCK, len)],
            Self::OddVram => vec![(PA + TABLES + 8 * BLOCK + 3 * PAGE, len)],
            Self::HugeSystem => vec![(0x4_0000_0000, len)],
            Self::System => {
                let mut pieces = Vec::new();
                let mut sizes = [1, 1, 2, 1, 3].into_iter().cycle();
                let mut at = 0;
                while at < len {
                    let size = sizes.next().map_or(PAGE, |pages| pages * PAGE);
                    pieces.push((0x1_2345_6000 + 2 * at, size.min(len - at)));
                    at += size;
                }
                pieces
            }
        }
    }

    pub(super) fn is_system(self) -> bool {
        matches!(self, Self::System | Self::HugeSystem)
    }

    pub(super) fn attrs(self) -> PteAttrs {
        PteAttrs {
            system: self.is_system(),
            local: !self.is_system(),
            read: true,
            write: self != Self::OddVram,
            exec: self == Self::Vram,
            ..PteAttrs::default()
        }
    }

    /// Returns what the page at byte `at` of a BO translates to.
    pub(super) fn page(self, at: u64, len: u64) -> Found {
        let mut first = 0;
        for (address, bytes) in self.pieces(len) {
            if at < first + bytes {
                let base = if self.is_system() { 0 } else { PA };
                let attrs = self.attrs();
                return Found::Page {
                    address: address + at - first - base,
                    system: attrs.system,
                    write: attrs.write,
                    execute: attrs.exec,
                };
            }
            first += bytes;
        }
        panic!("no byte {at:#x} in a BO of {len:#x}");
    }
}

/// Result of a page-table walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    NoRetry,
    Page {
        address: u64,
        system: bool,
        write: bool,
        execute: bool,
    },
}
