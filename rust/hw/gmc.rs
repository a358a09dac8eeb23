// SPDX-License-Identifier: GPL-2.0

//! GPUVM hubs: HAL trait and code shared by all versions. Page table formats are in [`format`].

use kernel::prelude::*;
use rkfd_abi::discovery::hwid;

use crate::asic::mmio::{Block, Mmio};

mod format;
mod hub;

pub(super) use format::FormatVersion;
pub(crate) use format::{Level, Mtype, PageFormat, PteAttrs};
pub(super) use hub::{hub_names, Hub, HubNames, HubNumbers, CPU_ENGINE};
pub(crate) use hub::{FlushType, HubSetup, McLayout};

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

/// GPUVM hubs, with the page table format. Register accesses return `ENODEV` after unbind.
pub(crate) trait GmcHal: PageFormat {
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
}

/// A version of the hubs and the page table format.
pub(super) trait GmcVersion: FormatVersion {
    /// GFXHUB.
    const GFX: &'static Hub;
    /// MMHUB.
    const MEM: &'static Hub;

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
}
