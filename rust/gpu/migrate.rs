// SPDX-License-Identifier: GPL-2.0

//! Migration of memory of processes to VRAM and back, by SDMA copies.
//!
//! VRAM is allocated before pages are locked. A copy is waited for with pages and the mmap lock
//! held: it depends on the kernel's rings only, whose jobs end or time out without either.

use core::ops::Range;

use kernel::{
    mm::MmWithUser,
    page::PAGE_SHIFT,
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    time::{delay::fsleep, Delta},
};

use super::{
    dma::{self, Direction},
    lru::{EvictableBo, EvictionLru, Victims},
    migrated::{pieces, Host, Migrated, Moved, Place},
    Gpu,
};
use crate::{
    card::{account, vram::VramUser},
    kapi::{
        devmem::{Filling, Region},
        migrate::{self, Migration},
        vma::LockedArea,
    },
};

/// Passes over the migrated memory at unbind, and the pause between two.
const ROUNDS: u32 = 200;
const PAUSE: Delta = Delta::from_millis(10);

impl Host for Gpu {
    fn check_working(&self) -> Result {
        self.check_usable()
    }

    fn is_reset_since(&self, resets: u32) -> bool {
        self.health().resets() != resets
    }

    fn bring_back(&self, mut migration: Migration<'_, Migrated>) -> Result<Moved> {
        if migration.is_empty() {
            return Ok(Moved::default());
        }
        let resets = self.health().resets();
        let lost = !migration.alloc_system(|block| block.resets() == resets)?;
        let vram = migration.device(&self.migrated)?;
        if vram.is_empty() {
            return Ok(Moved { pages: 0, lost });
        }
        let system = migration.map_system(self.dma())?;
        dma::migrate(self, &system, &vram, Direction::ToSystem)?;
        drop(system);
        // The contents were lost before or during the copy.
        self.check_contents(resets)?;
        let pages = migration.commit();
        Ok(Moved { pages, lost })
    }

    fn evictable(&self) -> &EvictionLru {
        self.lru()
    }

    fn region(&self) -> &Region<Migrated> {
        &self.migrated
    }
}

impl Gpu {
    /// Returns VRAM that is mapped as memory of processes.
    pub(crate) fn migrated(&self) -> &Region<Migrated> {
        &self.migrated
    }

    /// Migrates to VRAM what is in system memory of `pages` of a process, those without a page
    /// included, as far as it is anonymous memory. `outside` returns the runs of some pages that
    /// are not in VRAM yet: each gets VRAM of its own. Adds the number of pages that were moved to
    /// `moved`, also after an error.
    ///
    /// `ENOMEM` without VRAM, after eviction of others, or memory; `ENODEV` when the device is
    /// being unplugged, `EIO` when it is hung. The caller does not hold the mmap lock.
    pub(crate) fn migrate_to_vram(
        self: &Arc<Self>,
        mm: &MmWithUser,
        pages: Range<u64>,
        place: &Place,
        outside: impl Fn(Range<u64>) -> Result<KVec<Range<u64>>>,
        moved: &mut u64,
    ) -> Result {
        for piece in pieces(pages) {
            for run in outside(piece)? {
                let block = self.new_block(run.clone(), place)?;
                let locked = mm.mmap_read_lock();
                migrate::for_each_movable(&locked, run, |area, pages| {
                    *moved += self.fill(&block, area, pages)?;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Returns VRAM for pages of a process.
    fn new_block(self: &Arc<Self>, pages: Range<u64>, place: &Place) -> Result<Filling<Migrated>> {
        // Before the allocation, which clears it.
        let resets = self.health().resets();
        self.check_usable()?;
        let bytes = (pages.end - pages.start) << PAGE_SHIFT;
        let reserved = account::reserved_for_tables(self.vram().size());
        let within = self.vram().usable_range(place.memory);
        // Queues of processes cannot run without their BOs in VRAM; this memory can stay in system
        // memory.
        let victims = Victims::Migration;
        let vram = self
            .lru()
            .alloc_or_evict(self.vram(), victims, &within, || {
                self.vram()
                    .alloc_evictable(VramUser::Svm, bytes, false, reserved, place.memory)
            })?;
        for (start, len) in vram.pieces() {
            self.migrated.cover(*start, *len)?;
        }
        let block = Filling::new(Migrated::new(self.clone(), pages, place, resets, vram)?)?;
        let listed: Arc<dyn EvictableBo> = (*block).clone();
        self.lru().add(listed)?;
        // The lock of the list orders the two: the unbind finds the block there, or has set this.
        if self.no_migration.load(Relaxed) {
            return Err(ENODEV);
        }
        Ok(block)
    }

    /// Migrates pages of an area into VRAM of `block`. Returns how many were moved. `EIO` if the
    /// card was reset since that was allocated.
    fn fill(
        &self,
        block: &Filling<Migrated>,
        area: &LockedArea<'_>,
        pages: Range<u64>,
    ) -> Result<u64> {
        let start = usize::try_from(pages.start << PAGE_SHIFT)?;
        let count = (pages.end - pages.start) as usize;
        let first = (pages.start - block.first()) as usize;
        let mut migration = Migration::to_device(area, start, count, &self.migrated)?;
        if migration.is_empty() {
            return Ok(0);
        }
        migration.take(
            &self.migrated,
            block,
            block.offsets().skip(first).take(count),
        )?;
        let vram = migration.device(&self.migrated)?;
        if !vram.is_empty() {
            let system = migration.map_system(self.dma())?;
            dma::migrate(self, &system, &vram, Direction::ToVram)?;
        }
        // As long as nothing is lost with the VRAM.
        self.check_contents(block.resets())?;
        Ok(migration.commit())
    }

    /// Migrates those of `pages` of a process that are in VRAM of this card to system memory. Calls
    /// `begin` before each migration, with the id of the node in whose VRAM the first page is, and
    /// adds the number of moved pages to `moved`, also after an error. `EIO` when the device is
    /// hung, or if contents of some pages were lost by a reset; `ENODEV` when it is unplugged,
    /// `ENOMEM` without memory. The caller does not hold the mmap lock.
    pub(crate) fn migrate_to_system(
        &self,
        mm: &MmWithUser,
        pages: Range<u64>,
        mut begin: impl FnMut(u32),
        moved: &mut u64,
    ) -> Result {
        // The walk invalidates the PTEs of GPUs, also of pages in system memory. After a reset
        // there may be pages that have no VRAM any more.
        if self.vram().used_by(VramUser::Svm) == 0 && self.health().resets() == 0 {
            return Ok(());
        }
        let mut lost = false;
        for piece in pieces(pages) {
            let locked = mm.mmap_read_lock();
            migrate::for_each_movable(&locked, piece, |area, pages| {
                let start = usize::try_from(pages.start << PAGE_SHIFT)?;
                let count = (pages.end - pages.start) as usize;
                let migration = Migration::to_system(area, start, count, &self.migrated, None)?;
                if migration.is_empty() {
                    return Ok(());
                }
                if let Some(node) = migration.first_block(Migrated::node) {
                    begin(node);
                }
                let back = self.bring_back(migration)?;
                *moved += back.pages;
                lost |= back.lost;
                Ok(())
            })?;
        }
        if lost {
            return Err(EIO);
        }
        Ok(())
    }

    /// See [`Host::has_lost_contents`].
    pub(crate) fn has_lost_contents(&self, resets: u32) -> bool {
        Host::has_lost_contents(self, resets)
    }

    /// Disables migration to VRAM permanently, and migrates all memory of processes back. Pages
    /// that cannot be migrated are lost: their processes get `SIGBUS`.
    pub(crate) fn end_migration(&self) {
        self.no_migration.store(true, Relaxed);
        for _ in 0..ROUNDS {
            let mut after = 0;
            let mut left = false;
            while let Some((key, block)) = self.lru().next_migrated(after) {
                after = key;
                left |= block.evict(true).is_err();
            }
            if !left {
                return;
            }
            if self.check_usable().is_err() {
                break;
            }
            fsleep(PAUSE);
        }
        dev_warn!(
            self.dev(),
            "memory of processes in VRAM could not be migrated back\n"
        );
    }
}
