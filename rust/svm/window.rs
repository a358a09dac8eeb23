// SPDX-License-Identifier: GPL-2.0

//! Windows: interval notifiers over 64 MiB of user memory each, and the blocks mirrored in them.
//!
//! The lock of a window is taken by its MMU notifier: nothing is allocated, freed or faulted in
//! under it. Removed objects are returned to the caller, which drops them without the lock.

use core::ops::Range;

use kernel::{
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};

use super::block::{Block, BlockMap};
use crate::{
    kapi::{
        hmm::{Interval, Invalidation, Reason, Watch},
        sched_mm::{NoReclaimGuard, NoReclaimMutex},
    },
    mmu::{Pages, BLOCK_PAGES},
};

/// Blocks of a window.
pub(super) const BLOCKS: usize = 32;
/// Pages of a window.
pub(super) const WINDOW_PAGES: u64 = (BLOCKS * BLOCK_PAGES) as u64;

/// Bytes of a window without blocks.
pub(super) const WINDOW_BYTES: u64 = (size_of::<Interval<Window>>()
    + size_of::<NoReclaimMutex<WindowState>>()
    + size_of::<[Pages; BLOCKS]>()) as u64;

/// Why memory was unmapped from GPUs (`enum KFD_SVM_UNMAP_TRIGGERS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnmapTrigger {
    /// An MMU notifier.
    Notifier,
    /// An MMU notifier of a migration.
    Migration,
    /// The process unmapped it, or removed the access.
    Cpu,
}

/// The owner of the windows. Called with the lock of a window held, by MMU notifiers: the methods
/// neither allocate nor wait for memory.
pub(super) trait Owner: Send + Sync {
    /// Returns whether GPUs repeat accesses to memory that is not mapped.
    fn retries(&self) -> bool;

    /// Evicts the queues, unless they are evicted, and schedules the worker that maps invalid pages
    /// again and restores them.
    fn evict(&self);

    /// Pages were unmapped by the process: if a queue cannot run without one of them, all queues of
    /// the process are evicted permanently.
    fn gone(&self, pages: &Range<u64>);

    /// Pages were unmapped from GPUs.
    fn unmapped(&self, gpus: u64, pages: &Range<u64>, why: UnmapTrigger);
}

/// The blocks of a window.
pub(super) struct WindowState {
    blocks: [Option<KBox<Block>>; BLOCKS],
    /// Pages that the process has unmapped since they were last removed from the attributes.
    gone: KBox<[Pages; BLOCKS]>,
    /// Whether any were added since [`Self::take_any_gone`].
    any_gone: bool,
    /// Whether blocks may be without attributes.
    suspect: bool,
}

impl WindowState {
    /// Returns a block.
    pub(super) fn block(&mut self, index: usize) -> Option<&mut Block> {
        self.blocks.get_mut(index)?.as_deref_mut()
    }

    /// Returns all blocks with their indices.
    pub(super) fn blocks(&mut self) -> impl Iterator<Item = (usize, &mut Block)> {
        let blocks = self.blocks.iter_mut().enumerate();
        blocks.filter_map(|(i, block)| Some((i, block.as_deref_mut()?)))
    }

    /// Adds a block, unless there is one. Returns the block if it was not added, for the caller to
    /// drop.
    pub(super) fn add(&mut self, index: usize, block: KBox<Block>) -> Option<KBox<Block>> {
        match self.blocks.get_mut(index) {
            Some(slot @ None) => {
                *slot = Some(block);
                None
            }
            _ => Some(block),
        }
    }

    /// Removes a block with all its PTEs.
    pub(super) fn take(&mut self, index: usize) -> Option<KBox<Block>> {
        let mut block = self.blocks.get_mut(index)?.take()?;
        for map in block.maps().iter_mut().flatten() {
            if !map.zap(Pages::ALL).is_empty() {
                map.mirror.flush();
            }
        }
        Some(block)
    }

    /// Returns whether there is no block.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.iter().all(Option::is_none)
    }

    /// Removes a GPU from a block. Returns its mappings, for the caller to drop.
    pub(super) fn remove_gpu(&mut self, index: usize, gpu: usize) -> Option<BlockMap> {
        let block = self.blocks.get_mut(index)?.as_mut()?;
        let mut map = block.maps.get_mut(gpu)?.take()?;
        if !map.zap(Pages::ALL).is_empty() {
            map.mirror.flush();
        }
        Some(map)
    }

    /// Takes the pages of a block that the process has unmapped.
    pub(super) fn take_gone(&mut self, index: usize) -> Pages {
        let gone = self.gone.get_mut(index).map(core::mem::take);
        gone.unwrap_or_default()
    }

    /// Adds pages of a block that the process has unmapped.
    pub(super) fn add_gone(&mut self, index: usize, pages: Pages) {
        if let Some(gone) = self.gone.get_mut(index) {
            *gone = gone.or(pages);
        }
        self.any_gone = true;
    }

    /// Returns whether the process has unmapped any page since the last call. The caller takes the
    /// pages of all blocks, and removes their attributes.
    pub(super) fn take_any_gone(&mut self) -> bool {
        self.suspect |= self.any_gone;
        core::mem::take(&mut self.any_gone)
    }

    /// Records that blocks may be without attributes, or that there are none.
    pub(super) fn suspect(&mut self) {
        self.suspect = true;
    }

    /// Returns whether that was recorded since the last call.
    pub(super) fn take_suspect(&mut self) -> bool {
        core::mem::take(&mut self.suspect)
    }

    /// Flushes the TLBs of some GPUs.
    pub(super) fn flush(&self, gpus: u64) {
        for gpu in (0..u64::BITS as usize).filter(|gpu| gpus >> gpu & 1 != 0) {
            let map = self
                .blocks
                .iter()
                .flatten()
                .find_map(|block| block.maps.get(gpu)?.as_ref());
            if let Some(map) = map {
                map.mirror.flush();
            }
        }
    }
}

/// 64 MiB of user memory with an interval notifier.
pub(super) struct Window {
    /// First page.
    first: u64,
    owner: Arc<dyn Owner>,
    /// Taken by the MMU notifier.
    state: Arc<NoReclaimMutex<WindowState>>,
}

/// A window and its notifier.
pub(super) type WindowRef = Arc<Interval<Window>>;

impl Window {
    /// Returns window number `number` without blocks.
    pub(super) fn new(number: u64, owner: Arc<dyn Owner>) -> Result<Self> {
        let gone = KBox::new([Pages::NONE; BLOCKS], GFP_KERNEL)?;
        let state = WindowState {
            blocks: [const { None }; BLOCKS],
            gone,
            any_gone: false,
            suspect: false,
        };
        Ok(Self {
            first: number * WINDOW_PAGES,
            owner,
            state: Arc::pin_init(
                NoReclaimMutex::new(new_mutex!(state, "rkfd_svm_window")),
                GFP_KERNEL,
            )?,
        })
    }

    /// Returns the address of a window in bytes.
    pub(super) fn start(number: u64) -> Result<usize> {
        Ok(usize::try_from(number * WINDOW_PAGES << PAGE_SHIFT)?)
    }

    /// Returns the first page.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Zaps pages of a block on some GPUs, to which they have no access any more. What else was in
    /// the same fragments is mapped again by the worker, or by retry faults.
    pub(super) fn hide(&self, index: usize, pages: Pages, gpus: u64) {
        let mut state = self.lock();
        let Some(block) = state.block(index) else {
            return;
        };
        let mut lost = block.fragments(pages, gpus).without(pages);
        if self.owner.retries() {
            lost = lost.and(block.always());
        }
        if !lost.is_empty() {
            block.spoil(lost);
            self.owner.evict();
        }
        let stale = block.zap(pages, gpus);
        state.flush(stale);
    }

    /// Takes the lock.
    pub(super) fn lock(&self) -> NoReclaimGuard<'_, WindowState> {
        self.state.lock()
    }
}

#[vtable]
impl Watch for Window {
    fn invalidate(&self, what: Invalidation<'_>) {
        let mut state = self.lock();
        what.mark.set();
        if what.reason == Reason::Release {
            // All queues are unmapped before the pages are freed.
            return;
        }
        let first = (what.range.start / PAGE_SIZE) as u64 - self.first;
        let end = what.range.end.div_ceil(PAGE_SIZE) as u64 - self.first;
        let pages = self.first + first..self.first + end;
        let unmapped = what.reason == Reason::Unmap;
        let retries = self.owner.retries();
        let inside = |index: usize| {
            let base = index * BLOCK_PAGES;
            let page = |at: u64| (at as usize).clamp(base, base + BLOCK_PAGES) - base;
            Pages::range(page(first), page(end))
        };
        let mut evict = false;
        let mut gpus = 0;
        let blocks = first as usize / BLOCK_PAGES..(end as usize).div_ceil(BLOCK_PAGES);
        for index in blocks.clone() {
            let pages = inside(index);
            if unmapped {
                state.add_gone(index, pages);
            }
            let Some(block) = state.block(index) else {
                continue;
            };
            gpus |= block.mapped_by(pages);
            let mut lost = block.invalidate(pages, unmapped);
            if retries {
                lost = lost.and(block.always());
            }
            if !lost.is_empty() {
                block.spoil(lost);
                evict = true;
            }
        }
        if unmapped {
            self.owner.gone(&pages);
        }
        if evict {
            self.owner.evict();
        }
        if gpus == 0 {
            return;
        }
        let mut stale = 0;
        for index in blocks {
            if let Some(block) = state.block(index) {
                stale |= block.zap(inside(index), u64::MAX);
            }
        }
        state.flush(stale);
        if unmapped || retries {
            let why = match what.reason {
                Reason::Unmap => UnmapTrigger::Cpu,
                Reason::Migrate => UnmapTrigger::Migration,
                _ => UnmapTrigger::Notifier,
            };
            self.owner.unmapped(gpus, &pages, why);
        }
    }
}
