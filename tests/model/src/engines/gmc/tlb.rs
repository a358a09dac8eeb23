// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The TLB of a hub: direct mapped, bounded, readable by many threads at once.
//!
//! A slot is two words, `data` and `key ^ data`. A reader of a half-written slot computes a key
//! that does not match, and misses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::RwLockReadGuard;

use rkfd_abi::pte;

use crate::shards::Shards;

const SLOTS: usize = 1 << 13;
const VMIDS: usize = 16;
const VALID: u64 = 1 << 63;

/// A cached translation of one 4 KiB page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Byte address of the page: VRAM offset or bus address.
    pub page: u64,
    /// Whether the page is guest memory.
    pub system: bool,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
    /// Memory type.
    pub mtype: Mtype,
    /// Accesses are coherent: they probe the caches of others.
    pub snooped: bool,
}

/// Memory type of a page (`MTYPE_*`): how the L2 caches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mtype {
    /// Non-coherent.
    Nc,
    /// Read-write.
    Rw,
    /// Coherently cached.
    Cc,
    /// Uncached.
    Uc,
}

impl Mtype {
    /// Returns the memory type of a field of a PTE.
    pub fn new(field: u64) -> Self {
        match field & 3 {
            pte::MTYPE_NC => Self::Nc,
            pte::MTYPE_RW => Self::Rw,
            pte::MTYPE_CC => Self::Cc,
            _ => Self::Uc,
        }
    }
}

impl Entry {
    fn pack(self) -> u64 {
        (self.page & 0x0000_ffff_ffff_f000)
            | u64::from(self.system)
            | u64::from(self.read) << 1
            | u64::from(self.write) << 2
            | u64::from(self.execute) << 3
            | (self.mtype as u64) << 4
            | u64::from(self.snooped) << 6
            | VALID
    }

    fn unpack(data: u64) -> Self {
        Self {
            page: data & 0x0000_ffff_ffff_f000,
            system: data & 1 != 0,
            read: data & 2 != 0,
            write: data & 4 != 0,
            execute: data & 8 != 0,
            mtype: Mtype::new(data >> 4),
            snooped: data & 0x40 != 0,
        }
    }
}

#[derive(Default)]
struct Slot {
    check: AtomicU64,
    data: AtomicU64,
}

/// See the module documentation.
pub struct Tlb {
    slots: Box<[Slot]>,
    /// Whether there may be entries of a VMID.
    used: [AtomicBool; VMIDS],
    /// Held shared by an access from its translation to its end, exclusively by invalidation: once
    /// that returns, nothing uses the old translation.
    in_flight: Shards<()>,
}

impl Default for Tlb {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            used: Default::default(),
            in_flight: Shards::default(),
        }
    }
}

fn key(vmid: u8, va: u64) -> u64 {
    VALID | u64::from(vmid & 0xf) << 56 | va >> 12
}

impl Tlb {
    fn slot(&self, vmid: u8, va: u64) -> &Slot {
        let page = va >> 12;
        let hash = page ^ page >> 13 ^ u64::from(vmid) << 9;
        &self.slots[hash as usize % SLOTS]
    }

    /// Begins an access: no translation is invalidated while the guard lives.
    #[inline]
    pub fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.in_flight.read()
    }

    /// Returns the cached translation of the page of `va`.
    #[inline]
    pub fn find(&self, vmid: u8, va: u64) -> Option<Entry> {
        let slot = self.slot(vmid, va);
        let data = slot.data.load(Ordering::Acquire);
        let check = slot.check.load(Ordering::Acquire);
        (data & VALID != 0 && check ^ data == key(vmid, va)).then(|| Entry::unpack(data))
    }

    /// Caches a translation, evicting the previous one of its slot. For callers inside
    /// [`Tlb::enter`].
    pub fn insert(&self, vmid: u8, va: u64, entry: Entry) {
        let slot = self.slot(vmid, va);
        let data = entry.pack();
        slot.data.store(data, Ordering::Release);
        slot.check.store(data ^ key(vmid, va), Ordering::Release);
        self.used[usize::from(vmid) % VMIDS].store(true, Ordering::Relaxed);
    }

    /// Invalidates all entries of one VMID.
    pub fn drop_vmid(&self, vmid: u8) {
        self.in_flight.exclude(|| {
            if !self.used[usize::from(vmid) % VMIDS].swap(false, Ordering::Relaxed) {
                return;
            }
            for slot in &self.slots {
                let data = slot.data.load(Ordering::Acquire);
                let key = slot.check.load(Ordering::Acquire) ^ data;
                if key >> 56 & 0xf == u64::from(vmid) {
                    slot.data.store(0, Ordering::Release);
                }
            }
        });
    }

    /// Invalidates all entries.
    pub fn drop_all(&self) {
        self.in_flight.exclude(|| {
            for slot in &self.slots {
                slot.data.store(0, Ordering::Release);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_per_vmid_and_invalidated() {
        let tlb = Tlb::default();
        let entry = |page| Entry {
            page,
            system: true,
            read: true,
            write: false,
            execute: true,
            mtype: Mtype::Rw,
            snooped: true,
        };
        tlb.insert(3, 0x7000_1234, entry(0x5000));
        tlb.insert(4, 0x7000_1234, entry(0x6000));
        assert_eq!(tlb.find(3, 0x7000_1fff), Some(entry(0x5000)));
        assert_eq!(tlb.find(4, 0x7000_1000), Some(entry(0x6000)));
        assert_eq!(tlb.find(3, 0x7000_2000), None);
        tlb.drop_vmid(3);
        assert_eq!(tlb.find(3, 0x7000_1000), None);
        assert_eq!(tlb.find(4, 0x7000_1000), Some(entry(0x6000)));
        tlb.drop_all();
        assert_eq!(tlb.find(4, 0x7000_1000), None);
    }
}
