// SPDX-License-Identifier: GPL-2.0

//! Placements of a BO: where its memory is, and where it should be.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, SetOnce},
};

use super::userptr::UserPages;
use crate::{
    card::{gart::GartMapping, vram::VramRange, Card},
    doorbell::Slice,
    kapi::dma::Pages,
};

/// Preferred placement of a BO (`AMDGPU_GEM_DOMAIN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoKind {
    /// VRAM of the BO's card.
    Vram,
    /// System memory owned by the BO.
    Gtt,
    /// The doorbell slice of a process.
    Doorbell,
    /// The page with the remapped HDP flush registers.
    MmioRemap,
    /// Memory of a process (userptr).
    User,
}

/// CPU access to a BO (`AMDGPU_GEM_CREATE_*CPU_ACCESS*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CpuAccess {
    /// May happen.
    #[default]
    Possible,
    /// Required by user space.
    Required,
    /// Excluded by user space.
    Never,
}

/// Allocation flags of a BO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoFlags {
    /// Uncached on the GPU (MTYPE UC).
    pub(crate) uncached: bool,
    /// Fine-grained coherence within the system.
    pub(crate) coherent: bool,
    /// Coherence across devices.
    pub(crate) ext_coherent: bool,
    /// Contiguous in VRAM.
    pub(crate) contiguous: bool,
    /// CPU access.
    pub(crate) cpu_access: CpuAccess,
    /// No implicit synchronization between jobs that use it.
    pub(crate) explicit_sync: bool,
}

/// GPU access permissions of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Read.
    pub(crate) read: bool,
    /// Write.
    pub(crate) write: bool,
    /// Execute.
    pub(crate) exec: bool,
}

/// Caching of CPU mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuCache {
    /// Ordinary memory.
    Cached,
    /// Device memory without side effects.
    WriteCombined,
    /// Registers.
    Uncached,
}

/// System memory of a BO, accounted as GTT.
pub(super) struct SystemPages {
    // Field order: unmapped before the memory is freed.
    mapping: SetOnce<GartMapping>,
    pages: Pages,
    card: Arc<Card>,
    bytes: u64,
}

impl SystemPages {
    /// Allocates `bytes` of zeroed system memory. `ENOMEM` without memory or beyond the GTT limit.
    pub(super) fn new(card: &Arc<Card>, bytes: u64) -> Result<Arc<Self>> {
        card.take_gtt(bytes)?;
        let pages = usize::try_from(bytes)
            .map_err(Error::from)
            .and_then(|bytes| Pages::new(card.dma(), bytes))
            .inspect_err(|_| card.put_gtt(bytes))?;
        let system = Self {
            mapping: SetOnce::new(),
            pages,
            card: card.clone(),
            bytes,
        };
        Ok(Arc::new(system, GFP_KERNEL)?)
    }

    /// Returns the pages.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns the address of the first page in VMID 0; mapped at the first call, until the memory
    /// is freed. `ENOMEM` when the GART is full.
    pub(super) fn kernel_addr(&self) -> Result<u64> {
        if self.mapping.as_ref().is_none() {
            let mapping = self.card.map_pages(&self.pages, 0, PAGE_SIZE as u64)?;
            self.mapping.populate(mapping);
        }
        self.mapping.as_ref().map(GartMapping::addr).ok_or(EINVAL)
    }
}

impl Drop for SystemPages {
    fn drop(&mut self) {
        self.card.put_gtt(self.bytes);
    }
}

/// Current placement of a BO.
#[derive(Clone)]
pub(super) enum Placement {
    /// VRAM.
    Vram(Arc<VramRange>),
    /// System memory owned by the BO.
    System(Arc<SystemPages>),
    /// A doorbell slice.
    Doorbell(Arc<Slice>),
    /// The remapped HDP flush registers.
    MmioRemap,
    /// Pages of a process.
    User(Arc<UserPages>),
    /// A userptr BO without valid pages.
    Nowhere,
}

impl Placement {
    /// Returns the name for trace events.
    pub(super) fn name(&self) -> &'static CStr {
        match self {
            Self::Vram(_) => c"VRAM",
            Self::System(_) => c"GTT",
            Self::Doorbell(_) | Self::MmioRemap => c"registers",
            Self::User(_) | Self::Nowhere => c"user",
        }
    }

    /// Returns the address that PTEs of `card`, the owner of the memory, use for byte `at`, and the
    /// bytes that follow in one piece. `EFAULT` without valid pages, `EINVAL` beyond the end.
    pub(super) fn run(&self, card: &Card, at: u64) -> Result<(u64, u64)> {
        Ok(match self {
            Self::Vram(range) => {
                let (offset, len) = range.run(at)?;
                (card.vram_pa(offset), len)
            }
            Self::System(system) => {
                let (dma, count) = system.pages.dma_run(usize::try_from(at)? / PAGE_SIZE)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            Self::Doorbell(slice) => (slice.phys() + at, (slice.size() as u64).saturating_sub(at)),
            Self::MmioRemap => (card.hdp_remap_phys() + at, PAGE_SIZE as u64 - at),
            Self::User(pages) => {
                let (dma, count) = pages.dma_run(usize::try_from(at)? / PAGE_SIZE)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            Self::Nowhere => return Err(EFAULT),
        })
    }
}
