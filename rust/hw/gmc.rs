// SPDX-License-Identifier: GPL-2.0

//! GPUVM hubs and page table formats: HAL trait and code shared by all versions.

use kernel::prelude::*;
use rkfd_abi::{discovery::hwid, pte};

use crate::asic::mmio::{Block, Mmio};

mod hub;

pub(super) use hub::{hub_names, Hub, HubNames, HubNumbers, CPU_ENGINE};
pub(crate) use hub::{FlushType, HubSetup, McLayout};

/// Page table level: 0 is the PTB, 3 the root (PDB2).
pub(crate) type Level = u32;

/// Attributes of a mapping, independent of the PTE format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PteAttrs {
    /// Bus address, not VRAM.
    pub(crate) system: bool,
    /// VRAM of the memory partition of the address space.
    pub(crate) local: bool,
    /// Readable. KFD mappings always set it.
    pub(crate) read: bool,
    /// Writable.
    pub(crate) write: bool,
    /// Executable.
    pub(crate) exec: bool,
    /// Uncached (KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED).
    pub(crate) uncached: bool,
    /// Coherent across devices (KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT).
    pub(crate) ext_coherent: bool,
}

/// A set of hubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hubs {
    /// MMHUBs.
    Memory,
    /// GFXHUBs.
    Core,
    /// All.
    All,
}

/// GPUVM hubs and the page table format. Register accesses return `ENODEV` after unbind.
pub(crate) trait GmcHal: Sync {
    /// Reads the address layout that firmware programmed. `EINVAL` when the FB aperture is empty.
    fn layout(&self, mmio: &Mmio) -> Result<McLayout>;

    /// Maps the VRAM BAR to VRAM in the HDP, before the BAR is used or HDP flushed.
    fn start_hdp(&self, mmio: &Mmio, layout: &McLayout) -> Result;

    /// Programs apertures, TLBs, VMID 0 and the static part of other contexts in these hubs.
    fn start(&self, mmio: &Mmio, hubs: Hubs, setup: &HubSetup) -> Result;

    /// Disables translation in these hubs.
    fn stop(&self, mmio: &Mmio, hubs: Hubs) -> Result;

    /// Invalidates a VMID in these hubs, by registers. `ETIMEDOUT` when an ACK does not come.
    fn flush_vmid(&self, mmio: &Mmio, hubs: Hubs, vmid: u32, kind: FlushType) -> Result;

    /// Reads and clears the fault status of the hub that a fault entry names by hub kind and IH
    /// node. `ENODEV` when the node has no hub.
    fn fault_status(&self, mmio: &Mmio, gfx: bool, inst: u32) -> Result<u32>;

    /// Returns the PTE flags of a page.
    fn pte_flags(&self, attrs: PteAttrs) -> u64;

    /// Returns the PTE flags of the GART.
    fn gart_flags(&self) -> u64;

    /// Returns the leaf entry at `level` for a page or block at `addr`; `fragment` is the log2 of
    /// the contiguous pages around it.
    fn leaf(&self, level: Level, addr: u64, flags: u64, fragment: u32) -> u64;

    /// Returns the PDE at `level` that points to a table at `addr`.
    fn table(&self, level: Level, addr: u64) -> u64;

    /// Returns the entry at `level` when nothing is mapped.
    fn empty(&self, level: Level) -> u64;

    /// Returns an entry at level 0 that makes accesses fault, also if those to invalid pages are
    /// repeated (`AMDGPU_VM_NORETRY_FLAGS_TF`).
    fn no_retry(&self) -> u64;

    /// Returns the page table base, for registers and MAP_PROCESS, of a root at `addr`.
    fn root(&self, addr: u64) -> u64;
}

/// A version of the hubs and the page table format.
pub(super) trait GmcVersion: Sync {
    /// GFXHUB.
    const GFX: &'static Hub;
    /// MMHUB.
    const MEM: &'static Hub;
    /// GART flags of this version.
    const GART: u64;
    /// See [`GmcHal::no_retry`].
    const NO_RETRY: u64;

    /// Reads FB_OFFSET, in units of 16 MiB.
    fn fb_offset(mmio: &Mmio) -> Result<u32>;

    /// Returns the offset of the card's VRAM in the memory of its xGMI hive, `None` without a hive.
    /// `EINVAL` for a position that no hive has.
    fn hive_segment(mmio: &Mmio) -> Result<Option<u64>> {
        let _ = mmio;
        Ok(None)
    }

    /// See [`GmcHal::start_hdp`]. HDP 7 needs no set-up.
    fn start_hdp(mmio: &Mmio, layout: &McLayout) -> Result {
        let _ = (mmio, layout);
        Ok(())
    }

    /// Programs further registers of a hub.
    fn start_hub(hub: Block<'_>, at: &Hub) -> Result {
        let _ = (hub, at);
        Ok(())
    }

    /// Runs after the last hub is programmed.
    fn started(mmio: &Mmio) -> Result;

    /// See [`GmcHal::flush_vmid`].
    fn flush_vmid(mmio: &Mmio, hubs: Hubs, vmid: u32, kind: FlushType) -> Result;

    /// Returns the hub that raised a fault, with its status up to date.
    fn faulting(mmio: &Mmio, gfx: bool, inst: u32) -> Result<(Block<'_>, &'static Hub)>;

    /// PTE flags of this version.
    fn own_flags(attrs: PteAttrs) -> u64;

    /// Further flags of a PDE.
    fn table_flags(level: Level) -> u64 {
        let _ = level;
        0
    }

    /// The entry above level 0 when nothing is mapped.
    fn empty_block(level: Level) -> u64;
}

/// Returns these hubs of the card.
pub(super) fn hubs<T: GmcVersion>(
    mmio: &Mmio,
    hubs: Hubs,
) -> impl Iterator<Item = (Block<'_>, &'static Hub)> + '_ {
    let gfx = mmio.blocks(hwid::GC).map(|b| (b, T::GFX));
    let mem = mmio.blocks(hwid::MMHUB).map(|b| (b, T::MEM));
    let gfx = gfx.filter(move |_| hubs != Hubs::Memory);
    Iterator::chain(gfx, mem.filter(move |_| hubs != Hubs::Core))
}

impl<T: GmcVersion> GmcHal for T {
    fn no_retry(&self) -> u64 {
        T::NO_RETRY
    }

    fn layout(&self, mmio: &Mmio) -> Result<McLayout> {
        let mem = mmio.block(hwid::MMHUB, 0)?;
        let (base, top) = T::MEM.names.frame_buffer(mem)?;
        if top < base {
            return Err(EINVAL);
        }
        let fb_start = u64::from(base) << 24;
        let hive = T::hive_segment(mmio)?;
        let segment = hive.unwrap_or(0);
        Ok(McLayout {
            fb_start,
            fb_end: (u64::from(top) << 24) | 0xff_ffff,
            vram_start: fb_start + segment,
            vram_offset: (u64::from(T::fb_offset(mmio)?) << 24) + segment,
            in_hive: hive.is_some(),
        })
    }

    fn start_hdp(&self, mmio: &Mmio, layout: &McLayout) -> Result {
        T::start_hdp(mmio, layout)
    }

    fn start(&self, mmio: &Mmio, set: Hubs, setup: &HubSetup) -> Result {
        for (block, hub) in hubs::<T>(mmio, set) {
            hub.start_apertures(block, setup)?;
            hub.start_caches(block)?;
            T::start_hub(block, hub)?;
            hub.start_contexts(block)?;
        }
        match set {
            Hubs::Memory => Ok(()),
            Hubs::Core | Hubs::All => T::started(mmio),
        }
    }

    fn stop(&self, mmio: &Mmio, set: Hubs) -> Result {
        for (block, hub) in hubs::<T>(mmio, set) {
            hub.stop(block)?;
        }
        Ok(())
    }

    fn flush_vmid(&self, mmio: &Mmio, set: Hubs, vmid: u32, kind: FlushType) -> Result {
        T::flush_vmid(mmio, set, vmid, kind)
    }

    fn fault_status(&self, mmio: &Mmio, gfx: bool, inst: u32) -> Result<u32> {
        let (block, hub) = T::faulting(mmio, gfx, inst)?;
        hub.take_fault_status(block)
    }

    fn pte_flags(&self, a: PteAttrs) -> u64 {
        let mut flags = pte::VALID | T::own_flags(a);
        for (on, bit) in [
            (a.system, pte::SYSTEM),
            (a.read, pte::READABLE),
            (a.write, pte::WRITEABLE),
            (a.exec, pte::EXECUTABLE),
        ] {
            if on {
                flags |= bit;
            }
        }
        flags
    }

    fn gart_flags(&self) -> u64 {
        pte::VALID
            | pte::SYSTEM
            | pte::SNOOPED
            | pte::READABLE
            | pte::WRITEABLE
            | pte::EXECUTABLE
            | T::GART
    }

    fn leaf(&self, _level: Level, addr: u64, flags: u64, fragment: u32) -> u64 {
        (addr & pte::PTE_ADDR) | flags | pte::FRAG.put(u64::from(fragment))
    }

    fn table(&self, level: Level, addr: u64) -> u64 {
        (addr & pte::PDE_ADDR) | pte::VALID | T::table_flags(level)
    }

    fn empty(&self, level: Level) -> u64 {
        match level {
            // Works around the order in which the walker detects faults (`AMDGPU_PTE_EXECUTABLE`,
            // `amdgpu_vm_pt_clear`).
            0 => pte::EXECUTABLE,
            _ => T::empty_block(level),
        }
    }

    fn root(&self, addr: u64) -> u64 {
        addr | pte::VALID
    }
}
