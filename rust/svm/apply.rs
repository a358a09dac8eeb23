// SPDX-License-Identifier: GPL-2.0

//! Changes of attributes: which blocks are mapped, unmapped and prefetched after them.

use core::ops::Range;

use kernel::{mm::MmWithUser, prelude::*, sync::atomic::Relaxed};

use super::{
    attributes::{AttributeRange, Attributes, Change},
    map::{gpus_in, Holes, Target},
    migrate::Destination,
    shared::{State, Svm},
    window::{UnmapTrigger, WINDOW_PAGES},
};
use crate::{
    gpu::migrated::MoveTrigger,
    mmu::{Pages, BLOCK_PAGES},
};

impl Svm {
    /// Returns the pages of a block that are in the same fragments of some GPUs as `pages`, without
    /// those.
    fn around(&self, base: u64, pages: Pages, gpus: u64) -> Pages {
        let Some(window) = self.window(base) else {
            return Pages::NONE;
        };
        let index = (base % WINDOW_PAGES) as usize / BLOCK_PAGES;
        let mut state = window.watch().lock();
        let all = state.block(index).map(|b| b.with_fragments(pages, gpus));
        all.unwrap_or_default().without(pages)
    }

    /// Zaps pages of a block on some GPUs, see [`Window::hide`](super::window::Window::hide).
    fn hide(&self, base: u64, pages: Pages, gpus: u64) {
        if let Some(window) = self.window(base) {
            let index = (base % WINDOW_PAGES) as usize / BLOCK_PAGES;
            window.watch().hide(index, pages, gpus);
        }
    }

    /// Maps pages according to attributes that have changed from `old`.
    pub(super) fn apply(
        &self,
        mm: &MmWithUser,
        state: &State,
        old: &[AttributeRange],
        pages: Range<u64>,
        changes: &[Change],
    ) -> Result {
        let attributes = &state.attributes;
        let retries = self.retries();
        let concerned = changes.iter().any(|c| c.concerns_mapping(retries));
        let prefetches = changes.iter().any(|c| matches!(c, Change::Prefetch(_)));
        let mut result = Ok(());
        for range in attributes.overlapping(pages.start, pages.end) {
            let part = range.first.max(pages.start)..range.end.min(pages.end);
            let known = |first: u64, end: u64| {
                let from = old.partition_point(|o| o.end <= first);
                old.iter().skip(from).take_while(move |o| o.first < end)
            };
            let before = |first, end| known(first, end).fold(0, |sum, o| sum | o.attributes.gpus());
            let unchanged = |first: u64, end: u64| {
                let base = first / BLOCK_PAGES as u64 * BLOCK_PAGES as u64;
                let in_block = |page: u64| (page - base) as usize;
                known(first, end)
                    .filter(|o| o.attributes == range.attributes)
                    .fold(Pages::NONE, |sum, o| {
                        let (from, to) = (o.first.max(first), o.end.min(end));
                        sum.or(Pages::range(in_block(from), in_block(to)))
                    })
            };
            let (first, end) = (part.start, part.end);
            let moved = if prefetches {
                self.prefetch(mm, &range.attributes, part.clone())
            } else {
                Ok(None)
            };
            let moved_to = moved.ok().flatten();
            // Without retry faults the worker maps what was mapped before.
            let concerned = concerned || retries && moved_to.is_some();
            let near = moved_to.unwrap_or(0);
            let mut removed = 0;
            let mapped = Self::for_blocks(part, |base, first, end| {
                let (from, to) = (base + first as u64, base + end as u64);
                let mapped = self.mapped(base, first, end);
                let lost = before(from, to) & !range.attributes.gpus() & mapped;
                removed |= lost;
                let mut target = Target {
                    base,
                    pages: Pages::range(first, end),
                    gpus: 0,
                    access: None,
                };
                if lost != 0 {
                    // Fragments that reach beyond are split first: the rest stays mapped.
                    let mut rest = Target {
                        base,
                        pages: self.around(base, target.pages, lost),
                        gpus: lost,
                        access: None,
                    };
                    let split = self.map_block(mm, attributes, &mut rest, Holes::Skip);
                    if let Err(e) = split {
                        pr_debug!("pages around {from:#x} are not mapped: {e:?}\n");
                    }
                    self.hide(base, target.pages, lost);
                }
                if concerned {
                    target.gpus = self.wanted(&range.attributes, mapped & !lost, near);
                }
                if target.gpus == 0 {
                    return Ok(());
                }
                let kept = self.kept(base, unchanged(from, to), target.gpus);
                target.pages = target.pages.without(kept);
                self.map_block(mm, attributes, &mut target, Holes::Refuse)
            });
            if removed != 0 {
                let pages = first..end;
                self.queues().unmapped(removed, &pages, UnmapTrigger::Cpu);
            }
            if mapped.is_err() {
                result = mapped;
            }
            if let Err(e) = moved {
                result = Err(e);
            }
        }
        result
    }

    /// Migrates pages to their prefetch location. Returns the GPU of the VRAM, 0 for system memory,
    /// or `None` if they were not moved. Errors of a migration to system memory.
    fn prefetch(
        &self,
        mm: &MmWithUser,
        attributes: &Attributes,
        pages: Range<u64>,
    ) -> Result<Option<u64>> {
        let to = self.prefetch_target(attributes);
        let moved = self.move_pages(mm, attributes, pages, &to, MoveTrigger::Prefetch);
        let Destination::Vram(to) = to else {
            return moved.map(|moved| moved.then_some(0));
        };
        // As in the C driver, the memory is used where it is after an error.
        if let Err(e) = moved {
            pr_debug!("memory was not moved to VRAM: {e:?}\n");
            return Ok(None);
        }
        Ok(Some(1 << to.index))
    }

    /// Returns those of some pages of a block, whose attributes have not changed, that `gpus` map
    /// as they are.
    fn kept(&self, base: u64, pages: Pages, gpus: u64) -> Pages {
        // What was lost is mapped again.
        if pages.is_empty() || gpus & self.lost.load(Relaxed) != 0 {
            return Pages::NONE;
        }
        let Some(window) = self.window(base) else {
            return Pages::NONE;
        };
        let index = (base % WINDOW_PAGES) as usize / BLOCK_PAGES;
        let mut state = window.watch().lock();
        let Some(block) = state.block(index) else {
            return Pages::NONE;
        };
        let settled = pages.without(block.invalid());
        gpus_in(gpus & !self.left()).fold(settled, |kept, gpu| {
            kept.and(block.map(gpu).map(|map| map.valid()).unwrap_or_default())
        })
    }

    /// Returns the GPUs that map any page of a part of a block.
    fn mapped(&self, base: u64, first: usize, end: usize) -> u64 {
        let Some(window) = self.window(base) else {
            return 0;
        };
        let index = (base % WINDOW_PAGES) as usize / BLOCK_PAGES;
        let mut state = window.watch().lock();
        state
            .block(index)
            .map_or(0, |block| block.mapped_by(Pages::range(first, end)))
    }
}
