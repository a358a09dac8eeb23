// SPDX-License-Identifier: GPL-2.0

//! A copy of VRAM contents in system memory.

use kernel::prelude::*;

use crate::{card::Card, kapi::dma::Pages};

/// A part of VRAM.
pub(super) struct Part {
    /// Offset in VRAM.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u64,
    /// The copy.
    pub(super) pages: Pages,
}

/// The copy.
pub(super) struct VramImage(pub(super) KVVec<Part>);

impl VramImage {
    /// Writes all parts back by the CPU. `ENODEV` when the device is unplugged.
    pub(super) fn restore(&self, card: &Card) -> Result {
        let bar = card.vram().bar();
        for part in &self.0 {
            let (offset, len) = (usize::try_from(part.offset)?, usize::try_from(part.len)?);
            part.pages.for_runs(|at, bytes| {
                let bytes = &bytes[..bytes.len().min(len.saturating_sub(at))];
                bar.write(offset + at, bytes)
            })?;
        }
        Ok(())
    }
}
