// SPDX-License-Identifier: GPL-2.0

//! Memory of processes in VRAM: migration to system memory on CPU faults and by eviction.

use core::ops::Range;

use kernel::{
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{atomic::Atomic, Arc, Completion, Mutex},
};

use super::lru::{EvictableBo, EvictionLru, QueueUse};
use crate::{
    card::vram::VramRange,
    kapi::{
        devmem::{Block, CpuFault, Owner, Region},
        migrate::Migration,
    },
};

/// Pages that are migrated at a time: those of 2 MiB.
const PIECE: usize = 512;
/// The same in log2: maximum number of pages that a CPU fault migrates to system memory.
const PIECE_ORDER: u32 = PIECE.ilog2();

/// Splits pages of a process into those that are migrated at a time, each of one block.
pub(crate) fn pieces(pages: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = pages.start;
    core::iter::from_fn(move || {
        let next = (at / PIECE as u64 + 1) * PIECE as u64;
        let piece = at..next.min(pages.end);
        at = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Cause of a migration (`enum KFD_MIGRATE_TRIGGERS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveTrigger {
    /// A prefetch.
    Prefetch,
    /// An access of a GPU.
    GpuFault,
    /// An access of the CPU.
    CpuFault,
    /// Eviction from VRAM.
    Eviction,
}

/// A migration.
pub(crate) struct MoveInfo {
    /// Pages of the process.
    pub(crate) pages: Range<u64>,
    /// The id of the GPU.
    pub(crate) gpu: u32,
    /// To its VRAM, or from there.
    pub(crate) to_vram: bool,
    /// Location of the last prefetch.
    pub(crate) prefetch: u32,
    /// Preferred location.
    pub(crate) preferred: u32,
    /// Cause.
    pub(crate) trigger: MoveTrigger,
}

/// Informed about migrations. May be called with any locks held.
pub(crate) trait MoveReport: Send + Sync {
    /// VRAM of a GPU is allocated for migrated memory.
    fn vram_allocated(&self, gpu: u32, bytes: u64);

    /// It is freed.
    fn vram_freed(&self, gpu: u32, bytes: u64);

    /// A migration starts.
    fn begin(&self, info: &MoveInfo);

    /// It has ended; `pages` were moved.
    fn end(&self, info: &MoveInfo, pages: u64, result: Result);
}

/// The node and the attributes of migrated memory.
#[derive(Clone)]
pub(crate) struct Place {
    /// The id of the GPU.
    pub(crate) gpu: u32,
    /// Memory partition.
    pub(crate) memory: Option<u32>,
    /// Pages that a CPU fault migrates to system memory, in log2.
    pub(crate) granularity: u32,
    /// Location of the last prefetch.
    pub(crate) prefetch: u32,
    /// Preferred location.
    pub(crate) preferred: u32,
    /// Receives the migrations.
    pub(crate) report: Arc<dyn MoveReport>,
}

impl Place {
    /// Returns the migration of `pages`.
    pub(crate) fn info(&self, pages: Range<u64>, to_vram: bool, trigger: MoveTrigger) -> MoveInfo {
        MoveInfo {
            pages,
            gpu: self.gpu,
            to_vram,
            prefetch: self.prefetch,
            preferred: self.preferred,
            trigger,
        }
    }

    /// Reports the end of a migration to system memory. Returns its error.
    fn end(&self, info: &MoveInfo, moved: Result<Moved>) -> Result {
        let pages = moved.map_or(0, |moved| moved.pages);
        let result = moved.map(|_| ());
        self.report.end(info, pages, result);
        result
    }
}

/// Result of a migration to system memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    /// Number of pages that were moved.
    pub(super) pages: u64,
    /// Contents of other pages were lost by a reset of the card.
    pub(super) lost: bool,
}

/// The device of migrated memory.
pub(super) trait Host: Send + Sync {
    /// Returns `ENODEV` when the device is unplugged, `EIO` when it is hung.
    fn check_working(&self) -> Result;

    /// Returns whether the device was reset since it had been `resets` times.
    fn is_reset_since(&self, resets: u32) -> bool;

    /// As [`Self::check_working`]; `EIO` also if [`Self::is_reset_since`].
    fn check_contents(&self, resets: u32) -> Result {
        self.check_working()?;
        if self.is_reset_since(resets) {
            return Err(EIO);
        }
        Ok(())
    }

    /// Returns whether contents of VRAM were lost since the device had been reset `resets` times,
    /// or are about to be: it is hung.
    fn has_lost_contents(&self, resets: u32) -> bool {
        self.check_contents(resets) == Err(EIO)
    }

    /// Moves collected pages to new system memory, without those whose contents were lost. `EIO`
    /// also if the card is reset meanwhile.
    fn bring_back(&self, migration: Migration<'_, Migrated>) -> Result<Moved>;

    /// Returns the evictable BOs.
    fn evictable(&self) -> &EvictionLru;

    /// Returns VRAM that is mapped as memory of processes.
    fn region(&self) -> &Region<Migrated>;
}

/// Counted VRAM.
struct Counted {
    vram: VramRange,
    gpu: u32,
    report: Arc<dyn MoveReport>,
}

impl Counted {
    fn new(vram: VramRange, place: &Place) -> Self {
        place.report.vram_allocated(place.gpu, vram.size());
        Self {
            vram,
            gpu: place.gpu,
            report: place.report.clone(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.report.vram_freed(self.gpu, self.vram.size());
    }
}

/// VRAM with pages of a process.
pub(crate) struct Migrated {
    host: Arc<dyn Host>,
    /// The pages of the process when it was migrated.
    pages: Range<u64>,
    place: Place,
    /// Number of card resets: after another one the contents are lost.
    resets: u32,
    stamp: Atomic<u64>,
    /// Offset and bytes of each part of the VRAM.
    parts: KVec<(u64, u64)>,
    /// `None` once all pages are free, or after an eviction of lost contents. A leaf.
    vram: Pin<KBox<Mutex<Option<Counted>>>>,
    freed: Pin<KBox<Completion>>,
}

impl Migrated {
    /// Returns `vram` for `pages` of a process, on a device that was reset `resets` times.
    pub(super) fn new(
        host: Arc<dyn Host>,
        pages: Range<u64>,
        place: &Place,
        resets: u32,
        vram: VramRange,
    ) -> Result<Self> {
        let vram = Counted::new(vram, place);
        let mut parts = KVec::new();
        parts.extend_from_slice(vram.vram.pieces(), GFP_KERNEL)?;
        Ok(Self {
            host,
            pages,
            place: place.clone(),
            resets,
            stamp: Atomic::new(0),
            parts,
            vram: KBox::pin_init(new_mutex!(Some(vram), "rkfd_migrated"), GFP_KERNEL)?,
            freed: KBox::pin_init(Completion::new(), GFP_KERNEL)?,
        })
    }

    /// Returns how often the card had been reset when the memory was migrated.
    pub(super) fn resets(&self) -> u32 {
        self.resets
    }

    /// Returns the id of the node in whose VRAM it is.
    pub(crate) fn node(&self) -> u32 {
        self.place.gpu
    }

    /// See [`Host::has_lost_contents`].
    pub(crate) fn has_lost_contents(&self) -> bool {
        self.host.has_lost_contents(self.resets)
    }

    /// Returns the first page of the process.
    pub(super) fn first(&self) -> u64 {
        self.pages.start
    }

    /// Returns the offsets of its pages in VRAM, in order.
    pub(super) fn offsets(&self) -> impl Iterator<Item = u64> + '_ {
        let parts = self.parts.iter();
        parts.flat_map(|(start, len)| (*start..start + len).step_by(PAGE_SIZE))
    }

    fn count(&self) -> usize {
        (self.pages.end - self.pages.start) as usize
    }
}

impl Owner for Migrated {
    fn cpu_fault(this: &Arc<Block<Self>>, fault: &CpuFault<'_>) -> Result {
        this.host.check_contents(this.resets)?;
        let area = fault.area();
        let size = PAGE_SIZE << this.place.granularity.min(PIECE_ORDER);
        let start = (fault.addr() / size * size).max(area.start());
        let end = (fault.addr() / size * size + size).min(area.end());
        let pages = (start >> PAGE_SHIFT) as u64..(end >> PAGE_SHIFT) as u64;
        let info = this.place.info(pages, false, MoveTrigger::CpuFault);
        this.place.report.begin(&info);
        let count = (end - start) >> PAGE_SHIFT;
        let moved = Migration::to_system(area, start, count, this.host.region(), Some(fault))
            .and_then(|migration| this.host.bring_back(migration));
        // If the page of the fault was lost meanwhile, its next fault fails.
        this.place.end(&info, moved)
    }

    fn released(this: &Arc<Block<Self>>) {
        this.host.evictable().remove(&**this);
        let vram = this.vram.lock().take();
        drop(vram);
        this.freed.complete_all();
    }
}

impl EvictableBo for Block<Migrated> {
    fn stamp(&self) -> &Atomic<u64> {
        &self.stamp
    }

    fn is_in_vram(&self) -> bool {
        self.vram.lock().is_some()
    }

    fn is_within(&self, range: &Range<u64>) -> bool {
        let vram = self.vram.lock();
        vram.as_ref()
            .is_some_and(|counted| counted.vram.overlaps(range))
    }

    /// CPU and GPUs can access it in system memory, too: the restore of a BO may evict it.
    fn queue_use(&self) -> QueueUse {
        QueueUse::Unused
    }

    fn is_migrated(&self) -> bool {
        true
    }

    fn is_lost(&self) -> bool {
        self.host.is_reset_since(self.resets)
    }

    /// Migrates all pages to system memory, in all processes that map them. No job uses them. Lost
    /// pages stay what they are, without VRAM.
    fn evict(self: Arc<Self>, _wait: bool) -> Result {
        self.host.check_working()?;
        let info = self
            .place
            .info(self.pages.clone(), false, MoveTrigger::Eviction);
        if self.is_filling() {
            return Err(EBUSY);
        }
        let Some(held) = Block::hold(&self) else {
            // All pages are free: a work queue frees the VRAM.
            self.freed.wait_for_completion();
            return Ok(());
        };
        // Else the memory may be that of another block already.
        if !self.is_in_vram() {
            return Err(EINVAL);
        }
        let region = self.host.region();
        let migration = Migration::evict(region, self.count(), self.offsets())?;
        // Lost pages of a block that has no VRAM any more may be among them.
        let own = migration.count_of(&self);
        if self.host.is_reset_since(self.resets) {
            // All are unmapped from GPUs, and are not mapped there again.
            if own + 1 != self.users() {
                return Err(EBUSY);
            }
            let vram = self.vram.lock().take();
            drop(migration);
            drop(vram);
            self.host.evictable().count_eviction();
            return Ok(());
        }
        if own == 0 && self.users() > 1 {
            return Err(EBUSY);
        }
        self.place.report.begin(&info);
        let moved = self.host.bring_back(migration);
        self.place.end(&info, moved)?;
        drop(held);
        if self.is_used() {
            return Err(EBUSY);
        }
        // VRAM can be allocated when this returns.
        self.freed.wait_for_completion();
        self.host
            .evictable()
            .count_move((self.count() * PAGE_SIZE) as u64);
        self.host.evictable().count_eviction();
        Ok(())
    }
}
