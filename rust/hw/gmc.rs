// SPDX-License-Identifier: GPL-2.0

//! Memory hubs and page tables: what the driver wants of them, and what all versions of them do.

use kernel::prelude::*;
use rkfd_abi::{discovery::hwid, pte};

use crate::asic::mmio::{Block, Mmio};

mod hub;

pub(super) use hub::{hub_names, Hub, HubNames, HubNumbers, CPU_ENGINE};
pub(crate) use hub::{FlushType, HubSetup, McLayout};

/// Level of a page table: 0 holds the entries of pages, 3 is the root.
pub(crate) type Level = u32;

/// What a mapping may do, independent of the entry's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PteAttrs {
    /// The address is a bus address and not in VRAM.
    pub(crate) system: bool,
    /// The GPU may read. Always set by KFD mappings.
    pub(crate) read: bool,
    /// The GPU may write.
    pub(crate) write: bool,
    /// Shaders may be fetched from it.
    pub(crate) exec: bool,
    /// Caching was switched off by the owner.
    pub(crate) uncached: bool,
    /// Coherence across devices was asked for.
    pub(crate) ext_coherent: bool,
    /// The address is device registers (doorbells, remapped MMIO).
    pub(crate) io: bool,
}

/// Memory hubs and the format of page tables.
pub(crate) trait GmcHal: Sync {
    /// Reads where firmware has put VRAM.
    fn layout(&self, mmio: &Mmio) -> Result<McLayout>;

    /// Programs apertures, caches, VMID 0 and the fixed part of the other VMIDs in every hub.
    fn start(&self, mmio: &Mmio, setup: &HubSetup) -> Result;

    /// Switches all translation off.
    fn stop(&self, mmio: &Mmio) -> Result;

    /// Invalidates one VMID's translations in every hub by registers.
    fn flush_vmid(&self, mmio: &Mmio, vmid: u32, kind: FlushType) -> Result;

    /// An address translation failed with these flags: what the hub's status register says;
    /// clears it.
    fn fault_status(&self, mmio: &Mmio, gfx: bool, inst: u32) -> Result<u32>;

    /// The PTE flags of a page.
    fn pte_flags(&self, attrs: PteAttrs) -> u64;

    /// The flags of GART entries.
    fn gart_flags(&self) -> u64;

    /// The entry of a table at `level` for a page or block at `addr`; `fragment` is the log2 of
    /// the number of pages that are contiguous around it.
    fn leaf(&self, level: Level, addr: u64, flags: u64, fragment: u32) -> u64;

    /// The entry of a table at `level` that points to a table at `addr`.
    fn table(&self, level: Level, addr: u64) -> u64;

    /// What an entry of a table at `level` holds when nothing is mapped.
    fn empty(&self, level: Level) -> u64;

    /// The value of the page table base registers, and of MAP_PROCESS, for a root at `addr`.
    fn root(&self, addr: u64) -> u64;
}

/// A version of the memory hubs and of the page table format.
pub(super) trait GmcVersion: Sync {
    /// The hub of the graphics core.
    const GFX: &'static Hub;
    /// The memory hub.
    const MEM: &'static Hub;
    /// Flags of the entries of the GART that are not the same in all versions.
    const GART: u64;

    /// The physical address of the first byte of VRAM, in units of 16 MiB.
    fn fb_offset(mmio: &Mmio) -> Result<u32>;

    /// What else a hub needs to start.
    fn start_hub(hub: Block<'_>, at: &Hub) -> Result {
        let _ = (hub, at);
        Ok(())
    }

    /// What else there is to do when all hubs have started.
    fn started(mmio: &Mmio) -> Result;

    /// See [`GmcHal::flush_vmid`].
    fn flush_vmid(mmio: &Mmio, vmid: u32, kind: FlushType) -> Result;

    /// The hub in which an access failed. Its status can be read.
    fn faulting(mmio: &Mmio, gfx: bool, inst: u32) -> Result<(Block<'_>, &'static Hub)>;

    /// Flags of a page that are not the same in all versions.
    fn own_flags(attrs: PteAttrs) -> u64;

    /// What an entry that points to a table says besides.
    fn table_flags(level: Level) -> u64 {
        let _ = level;
        0
    }

    /// The entry of a table above the lowest when nothing is mapped.
    fn empty_block(level: Level) -> u64;
}

/// All hubs of the package.
pub(super) fn hubs<T: GmcVersion>(
    mmio: &Mmio,
) -> impl Iterator<Item = (Block<'_>, &'static Hub)> + '_ {
    let gfx = mmio.blocks(hwid::GC).map(|b| (b, T::GFX));
    let mem = mmio.blocks(hwid::MMHUB).map(|b| (b, T::MEM));
    Iterator::chain(gfx, mem)
}

impl<T: GmcVersion> GmcHal for T {
    fn layout(&self, mmio: &Mmio) -> Result<McLayout> {
        let mem = mmio.block(hwid::MMHUB, 0)?;
        let (base, top) = T::MEM.names.frame_buffer(mem)?;
        if top < base {
            return Err(EINVAL);
        }
        Ok(McLayout {
            fb_start: u64::from(base) << 24,
            fb_end: (u64::from(top) << 24) | 0xff_ffff,
            vram_offset: u64::from(T::fb_offset(mmio)?) << 24,
        })
    }

    fn start(&self, mmio: &Mmio, setup: &HubSetup) -> Result {
        for (block, hub) in hubs::<T>(mmio) {
            hub.start_apertures(block, setup)?;
            hub.start_caches(block)?;
            T::start_hub(block, hub)?;
            hub.start_contexts(block)?;
        }
        T::started(mmio)
    }

    fn stop(&self, mmio: &Mmio) -> Result {
        for (block, hub) in hubs::<T>(mmio) {
            hub.stop(block)?;
        }
        Ok(())
    }

    fn flush_vmid(&self, mmio: &Mmio, vmid: u32, kind: FlushType) -> Result {
        T::flush_vmid(mmio, vmid, kind)
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
            // Works around the order in which the walker finds faults.
            0 => pte::EXECUTABLE,
            _ => T::empty_block(level),
        }
    }

    fn root(&self, addr: u64) -> u64 {
        addr | pte::VALID
    }
}
