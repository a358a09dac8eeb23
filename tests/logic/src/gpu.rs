// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/gpu`: a card that has only VRAM, and SDMA engines that write PTEs.

use kernel::{prelude::*, sync::Arc};

use crate::{
    card::vram::{Vram, MC, PA},
    hw::PageFormat,
};

pub(crate) mod dma;
#[allow(clippy::all)]
#[path = "../../../rust/gpu/spaces.rs"]
pub(crate) mod spaces;
#[cfg(test)]
mod spaces_check;

/// A hardware generation.
pub(crate) struct Generation {
    /// The page table format.
    pub(crate) gmc: &'static dyn PageFormat,
}

/// A device.
pub(crate) struct Gpu {
    generation: Generation,
    vram: Arc<Vram>,
}

impl Gpu {
    /// Returns one with a page table format.
    pub(crate) fn new(gmc: &'static dyn PageFormat) -> Arc<Self> {
        Arc::new(Self {
            generation: Generation { gmc },
            vram: Vram::new(),
        })
    }

    /// Returns the generation.
    pub(crate) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Returns the hubs.
    pub(crate) fn hub(&self) -> Hub<'_> {
        Hub(&self.vram)
    }

    /// Returns VRAM.
    pub(crate) fn vram(&self) -> &Arc<Vram> {
        &self.vram
    }

    /// Returns the physical address of an offset in VRAM.
    pub(crate) fn vram_pa(&self, offset: u64) -> u64 {
        PA + offset
    }

    /// Returns the MC address of an offset in VRAM.
    pub(crate) fn vram_mc(&self, offset: u64) -> u64 {
        MC + offset
    }
}

/// The path to VRAM.
pub(crate) struct Hub<'a>(&'a Vram);

impl Hub<'_> {
    /// Flushes the HDP.
    pub(crate) fn hdp_flush(&self) -> Result {
        self.0.hdp_flush();
        Ok(())
    }
}
