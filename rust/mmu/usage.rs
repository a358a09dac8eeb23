// SPDX-License-Identifier: GPL-2.0

//! Memory usage of an address space by region, for `/proc/PID/fdinfo`.

use kernel::prelude::*;

use super::{
    bo::Bo,
    gem::Object,
    placement::{BoKind, Placement},
    vm::Vm,
};
use crate::kapi::drm::{self, MemoryStats};

/// Current or preferred region of memory (`TTM_PL_*`, `AMDGPU_PL_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Region {
    /// User memory.
    Cpu,
    /// System memory that the GPU maps.
    Gtt,
    /// VRAM.
    Vram,
    /// Doorbells.
    Doorbell,
    /// Remapped registers.
    MmioRemap,
}

impl Region {
    /// All regions, in the order of the C driver.
    pub(crate) const ALL: [Self; 5] = [
        Self::Cpu,
        Self::Gtt,
        Self::Vram,
        Self::Doorbell,
        Self::MmioRemap,
    ];

    /// Returns the region that a BO prefers.
    fn preferred(kind: BoKind) -> Self {
        match kind {
            BoKind::Vram => Self::Vram,
            BoKind::Gtt => Self::Gtt,
            BoKind::User => Self::Cpu,
            BoKind::Doorbell => Self::Doorbell,
            BoKind::MmioRemap => Self::MmioRemap,
        }
    }

    /// Returns the region of a placement. `None` for user memory that the GPU maps, which the C
    /// driver counts in a region that it does not print (`AMDGPU_PL_PREEMPT`).
    fn of(placement: &Placement) -> Option<Self> {
        match placement {
            Placement::Vram(_) => Some(Self::Vram),
            Placement::System(_) => Some(Self::Gtt),
            Placement::User(_) => None,
            Placement::Doorbell(_) => Some(Self::Doorbell),
            Placement::MmioRemap => Some(Self::MmioRemap),
            Placement::Nowhere => Some(Self::Cpu),
        }
    }

    /// Returns the name in fdinfo.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Cpu => c"cpu",
            Self::Gtt => c"gtt",
            Self::Vram => c"vram",
            Self::Doorbell => c"doorbell",
            Self::MmioRemap => c"mmioremap",
        }
    }
}

/// The memory of an address space: the BOs that its file has handles of, and those that KFD maps.
/// Without its page tables.
#[derive(Default)]
pub(crate) struct Usage {
    regions: [MemoryStats; Region::ALL.len()],
    /// Bytes of BOs that prefer VRAM, and are elsewhere.
    pub(crate) evicted: u64,
}

/// A BO and whether several files have it.
type Entry = (Bo, bool);

impl Usage {
    /// Returns the memory of `file`, and of BOs that KFD maps in its address space `vm`, if it has
    /// one. `ENOMEM` without memory.
    pub(crate) fn of<D: drm::Driver>(file: &drm::File<D>, vm: Option<&Vm>) -> Result<Self> {
        let mut bos: KVVec<Entry> = KVVec::new();
        for object in Object::all_of(file) {
            bos.push((object.bo().clone(), object.is_shared()), GFP_KERNEL)?;
        }
        let mut next = vm.map(|_| 0);
        while let Some((bo, after)) = vm.zip(next).and_then(|(vm, va)| vm.mapping_from(va)) {
            bos.push((bo, false), GFP_KERNEL)?;
            next = after;
        }
        // A BO is counted once, as shared if one of its entries is.
        bos.sort_unstable_by_key(|(bo, is_shared)| (bo.key(), !is_shared));
        let mut usage = Self::default();
        let mut last = None;
        for (bo, is_shared) in &bos {
            if last != Some(bo.key()) {
                usage.add(bo, *is_shared);
            }
            last = Some(bo.key());
        }
        Ok(usage)
    }

    /// Adds a BO.
    fn add(&mut self, bo: &Bo, is_shared: bool) {
        let preferred = Region::preferred(bo.preferred());
        let placed = Region::of(&bo.inner().placement());
        let stats = self.region_mut(preferred);
        if is_shared {
            stats.shared += bo.size();
        } else {
            stats.private += bo.size();
        }
        if let Some(placed) = placed {
            self.region_mut(placed).resident += bo.size();
        }
        if preferred == Region::Vram && placed != Some(preferred) {
            self.evicted += bo.size();
        }
    }

    fn region_mut(&mut self, region: Region) -> &mut MemoryStats {
        // CAST: The variants are numbered from 0 on.
        &mut self.regions[region as usize]
    }

    /// Returns the memory of a region.
    pub(crate) fn region(&self, region: Region) -> &MemoryStats {
        // CAST: The variants are numbered from 0 on.
        &self.regions[region as usize]
    }
}
