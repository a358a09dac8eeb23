// SPDX-License-Identifier: GPL-2.0

//! Blocks: the pages of 2 MiB of user memory that GPUs map, with their PTEs and DMA mappings.
//!
//! They are part of a window, whose lock guards them.

use core::ops::Range;

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

use crate::{
    hw::{AccessKind, PteAttrs},
    kapi::{
        dma::Runs,
        hmm::{FoundPage, Mapped},
    },
    mmu::{Mirror, Pages, BLOCK_PAGES},
};

/// Pages of a block that were mapped together, with the DMA mapping of those in system memory.
pub(super) struct Piece {
    /// The pages whose PTEs use it.
    pages: Pages,
    /// `None` if all are in VRAM.
    memory: Option<Mapped>,
    next: Option<KBox<Piece>>,
}

impl Piece {
    /// Returns that of `pages`, with the DMA mapping of those in system memory.
    pub(super) fn new(pages: Pages, memory: Option<Mapped>) -> Result<KBox<Self>> {
        let next = None;
        let piece = Self {
            pages,
            memory,
            next,
        };
        Ok(KBox::new(piece, GFP_KERNEL)?)
    }
}

/// DMA mappings that are not used any more.
#[derive(Default)]
pub(super) struct Garbage(Option<KBox<Piece>>);

impl Drop for Garbage {
    fn drop(&mut self) {
        // One by one: no recursion.
        let mut next = self.0.take();
        while let Some(mut piece) = next {
            next = piece.next.take();
        }
    }
}

/// A block on a GPU.
pub(super) struct BlockMap {
    pub(super) mirror: Arc<Mirror>,
    /// Pages with a valid PTE.
    valid: Pages,
    /// Those of them that the GPU may write to.
    writable: Pages,
    /// Those of them that the GPU may execute.
    executable: Pages,
    /// First pages of fragments.
    heads: Pages,
    /// Pages of all pieces, each of which is in one piece.
    covered: Pages,
    pieces: Garbage,
}

impl BlockMap {
    /// Returns a block without valid PTEs.
    pub(super) fn new(mirror: Arc<Mirror>) -> Self {
        Self {
            mirror,
            valid: Pages::NONE,
            writable: Pages::NONE,
            executable: Pages::NONE,
            heads: Pages::NONE,
            covered: Pages::NONE,
            pieces: Garbage(None),
        }
    }

    /// Returns the mirror.
    pub(super) fn mirror(&self) -> &Arc<Mirror> {
        &self.mirror
    }

    /// Returns the pages with a valid PTE.
    pub(super) fn valid(&self) -> Pages {
        self.valid
    }

    /// Returns whether the GPU may access a page.
    pub(super) fn allows(&self, page: usize, kind: AccessKind) -> bool {
        let pages = match kind {
            AccessKind::Read => self.valid,
            AccessKind::Write => self.writable,
            AccessKind::Execute => self.executable,
        };
        pages.has(page)
    }

    /// Returns the valid pages of all fragments that contain one of `pages`: a TLB may hold any of
    /// them as part of one entry.
    fn fragments(&self, pages: Pages) -> Pages {
        if self.valid.without(pages).is_empty() {
            return self.valid;
        }
        let (hit, others) = (self.valid.and(pages), Pages::ALL.without(self.valid));
        let mut all = Pages::NONE;
        let mut page = 0;
        while let Some(at) = hit.next(page) {
            let after_gap = others.last(at).map_or(0, |gap| gap + 1);
            let first = self.heads.last(at).unwrap_or(0).max(after_gap);
            let before_gap = others.next(at).unwrap_or(BLOCK_PAGES);
            page = self
                .heads
                .next(at + 1)
                .unwrap_or(before_gap)
                .min(before_gap);
            all.add_range(first, page);
        }
        all
    }

    /// Zaps the PTEs of `pages`, and of all fragments that contain one of them. Returns those that
    /// were valid. The caller flushes the TLBs if there are any.
    pub(super) fn zap(&mut self, pages: Pages) -> Pages {
        if self.valid.and(pages).is_empty() {
            return Pages::NONE;
        }
        let zapped = self.fragments(pages);
        // An unplugged GPU does not access memory.
        let _ = self.mirror.clear(zapped);
        self.valid = self.valid.without(zapped);
        self.writable = self.writable.without(zapped);
        self.executable = self.executable.without(zapped);
        self.heads = self.heads.without(zapped);
        zapped
    }

    /// Zaps the PTEs of those among `pages` that were valid and are not: they may be from a copy of
    /// the page tables.
    pub(super) fn zap_again(&self, pages: Pages) {
        let zapped = self.covered.without(self.valid);
        // An unplugged GPU does not access memory.
        let _ = self.mirror.clear(zapped.and(pages));
    }

    /// Replaces DMA mappings of the pages of `new` by it. Returns those that are not used any more.
    fn replace_pieces(&mut self, mut new: KBox<Piece>) -> Garbage {
        let mut left = self.covered.and(new.pages);
        self.covered = self.covered.or(new.pages);
        let mut old = self.pieces.0.take();
        let mut garbage = None;
        let mut kept = None;
        // The pieces behind the last one that overlaps stay as they are.
        while !left.is_empty() {
            let Some(mut piece) = old else { break };
            old = piece.next.take();
            left = left.without(piece.pages);
            piece.pages = piece.pages.without(new.pages);
            let list = if piece.pages.is_empty() {
                &mut garbage
            } else {
                &mut kept
            };
            piece.next = list.take();
            *list = Some(piece);
        }
        while let Some(mut piece) = kept {
            kept = piece.next.take();
            piece.next = old;
            old = Some(piece);
        }
        new.next = old;
        self.pieces.0 = Some(new);
        Garbage(garbage)
    }
}

/// 2 MiB of user memory.
pub(super) struct Block {
    /// Pages that were invalidated since [`Self::watch`].
    changed: Pages,
    /// Pages that the worker has to map again before it restores the queues.
    invalid: Pages,
    /// Pages that are to be mapped, but that the process cannot access at the moment.
    absent: Pages,
    /// Those of them that cannot be faulted in, as behind the end of a file: no notifier reports
    /// the end of that.
    refused: Pages,
    /// Pages that stay mapped, also if GPUs repeat accesses.
    always: Pages,
    /// By GPU.
    pub(super) maps: KVec<Option<BlockMap>>,
}

impl Block {
    /// Returns a block for `gpus` GPUs that no GPU maps.
    pub(super) fn new(gpus: usize) -> Result<KBox<Self>> {
        let mut maps = KVec::with_capacity(gpus, GFP_KERNEL)?;
        for _ in 0..gpus {
            maps.push_within_capacity(None)?;
        }
        let block = Self {
            changed: Pages::NONE,
            invalid: Pages::NONE,
            absent: Pages::NONE,
            refused: Pages::NONE,
            always: Pages::NONE,
            maps,
        };
        Ok(KBox::new(block, GFP_KERNEL)?)
    }

    /// Records invalidations from now on.
    pub(super) fn watch(&mut self) {
        self.changed = Pages::NONE;
    }

    /// Returns whether any of `pages` was invalidated since [`Self::watch`].
    pub(super) fn has_changed(&self, pages: Pages) -> bool {
        !self.changed.and(pages).is_empty()
    }

    /// Returns the pages that have to be mapped again.
    pub(super) fn invalid(&self) -> Pages {
        self.invalid
    }

    /// Returns the pages that stay mapped.
    pub(super) fn always(&self) -> Pages {
        self.always
    }

    /// Marks pages that were mapped again, except for those that are `absent`, of which some were
    /// `refused`.
    pub(super) fn settle(&mut self, pages: Pages, absent: Pages, refused: Pages) {
        self.invalid = self.invalid.without(pages);
        self.absent = self.absent.without(pages).or(absent);
        self.refused = self.refused.without(pages).or(refused);
    }

    /// Returns the pages that were refused, and stay mapped otherwise.
    pub(super) fn refused(&self, retries: bool) -> Pages {
        let kept = if retries { self.always } else { Pages::ALL };
        self.refused.and(kept)
    }

    /// Adds the pages that were refused to those that have to be mapped again.
    pub(super) fn retry_refused(&mut self, retries: bool) {
        let refused = self.refused(retries);
        self.refused = Pages::NONE;
        self.spoil(refused);
    }

    /// Marks pages that have to be mapped again.
    pub(super) fn spoil(&mut self, pages: Pages) {
        self.invalid = self.invalid.or(pages);
        self.absent = self.absent.without(pages);
        self.refused = self.refused.without(pages);
    }

    /// Records an invalidation of pages, which the process may have unmapped. Returns the pages to
    /// be mapped again after those are zapped.
    pub(super) fn invalidate(&mut self, pages: Pages, unmapped: bool) -> Pages {
        self.changed = self.changed.or(pages);
        let lost = self.fragments(pages, u64::MAX);
        if unmapped {
            self.settle(pages, Pages::NONE, Pages::NONE);
            return lost.without(pages);
        }
        // Absent pages may be accessible now.
        lost.or(self.absent.and(pages))
    }

    /// Returns the block on each GPU.
    pub(super) fn maps(&mut self) -> &mut [Option<BlockMap>] {
        &mut self.maps
    }

    /// Returns the block on a GPU.
    pub(super) fn map(&mut self, gpu: usize) -> Option<&mut BlockMap> {
        self.maps.get_mut(gpu)?.as_mut()
    }

    /// Returns the GPUs that map any of `pages`.
    pub(super) fn mapped_by(&self, pages: Pages) -> u64 {
        let maps = self.maps.iter().enumerate();
        maps.filter_map(|(gpu, map)| Some((gpu, map.as_ref()?)))
            .filter(|(_, map)| !map.valid.and(pages).is_empty())
            .fold(0, |sum, (gpu, _)| sum | 1 << gpu)
    }

    /// Returns the valid pages of all fragments of some GPUs that contain one of `pages`.
    pub(super) fn fragments(&self, pages: Pages, gpus: u64) -> Pages {
        let maps = self.maps.iter().enumerate();
        maps.filter_map(|(gpu, map)| map.as_ref().filter(|_| gpus >> gpu & 1 != 0))
            .fold(Pages::NONE, |sum, map| sum.or(map.fragments(pages)))
    }

    /// Returns `pages` and the valid pages in fragments of some GPUs that contain one of them, or
    /// of those again.
    pub(super) fn with_fragments(&self, pages: Pages, gpus: u64) -> Pages {
        let mut all = pages;
        loop {
            let sum = all.or(self.fragments(all, gpus));
            if sum == all {
                return all;
            }
            all = sum;
        }
    }

    /// Zaps pages on some GPUs, and the fragments that they are part of. Returns the GPUs whose
    /// TLBs the caller flushes.
    pub(super) fn zap(&mut self, pages: Pages, gpus: u64) -> u64 {
        let mut stale = 0;
        for (gpu, map) in self.maps.iter_mut().enumerate() {
            let Some(map) = map.as_mut().filter(|_| gpus >> gpu & 1 != 0) else {
                continue;
            };
            if !map.zap(pages).is_empty() {
                stale |= 1 << gpu;
            }
        }
        stale
    }
}

/// Pages to be mapped in the same way.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// First page in the block.
    pub(super) first: usize,
    /// End in the block.
    pub(super) end: usize,
    /// GPUs that may access the pages.
    pub(super) gpus: u64,
    /// Whether the process may write to them, and GPUs.
    pub(super) writable: bool,
    /// Writes may have to be reported to user space (userfaultfd).
    pub(super) reported: bool,
    /// Attributes of the PTEs.
    pub(super) attrs: PteAttrs,
    /// The pages stay mapped.
    pub(super) always: bool,
}

impl Segment {
    /// Returns the pages.
    pub(super) fn pages(&self) -> Pages {
        Pages::range(self.first, self.end)
    }
}

/// Location of a page of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// There is none.
    Nowhere,
    /// In system memory.
    System,
    /// At an offset of the VRAM of the card.
    Vram(u64),
}

/// Pages of a part of a block, as they were found.
pub(super) struct Found {
    /// First page of the part.
    first: usize,
    /// The pages.
    pub(super) pages: KVec<FoundPage>,
    /// Their locations.
    pub(super) places: KVec<Where>,
}

impl Found {
    /// Returns a part of which nothing was found. `ENOMEM` without memory.
    pub(super) fn new(part: Range<usize>) -> Result<Self> {
        let pages = KVec::zeroed(part.len(), GFP_KERNEL)?;
        let mut places = KVec::new();
        places.resize(part.len(), Where::Nowhere, GFP_KERNEL)?;
        let first = part.start;
        Ok(Self {
            first,
            pages,
            places,
        })
    }

    /// Returns the indices of pages; `None` for pages before the part.
    fn within(&self, pages: Range<usize>) -> Option<Range<usize>> {
        Some(pages.start.checked_sub(self.first)?..pages.end.checked_sub(self.first)?)
    }

    /// Returns pages of the part; `EINVAL` for others.
    pub(super) fn pages_mut(&mut self, pages: Range<usize>) -> Result<&mut [FoundPage]> {
        let within = self.within(pages).ok_or(EINVAL)?;
        self.pages.get_mut(within).ok_or(EINVAL)
    }

    /// Returns pages of the part and their locations; `EINVAL` for others.
    pub(super) fn parts_mut(
        &mut self,
        pages: Range<usize>,
    ) -> Result<(&[FoundPage], &mut [Where])> {
        let within = self.within(pages).ok_or(EINVAL)?;
        let places = self.places.get_mut(within.clone()).ok_or(EINVAL)?;
        Ok((self.pages.get(within).ok_or(EINVAL)?, places))
    }

    /// Returns the locations of pages of the part; an empty slice for others.
    pub(super) fn places(&self, pages: Range<usize>) -> &[Where] {
        let within = self.within(pages);
        within
            .and_then(|within| self.places.get(within))
            .unwrap_or_default()
    }

    /// Marks those of `pages` that are in system memory as dirty, see [`FoundPage::mark_dirty`].
    fn mark_dirty(&self, pages: Range<usize>) {
        let found = self.within(pages.clone());
        let found = found.and_then(|within| self.pages.get(within));
        let all = found.unwrap_or_default().iter().zip(self.places(pages));
        let system = all.filter(|(_, place)| **place == Where::System);
        FoundPage::mark_dirty(system.map(|(page, _)| page));
    }

    /// Returns those of `pages` that were found.
    pub(super) fn among(&self, pages: Pages) -> impl Iterator<Item = &FoundPage> {
        let all = self.pages.iter().enumerate();
        all.filter_map(move |(at, found)| pages.has(self.first + at).then_some(found))
    }
}

impl Block {
    /// Writes the PTEs of `found` pages on a GPU, whose DMA mapping is `new`. Takes it, and
    /// returns DMA mappings that are not used any more. `EINVAL` if the GPU has no mirror.
    ///
    /// None of the pages was invalidated since before they were found.
    pub(super) fn show(
        &mut self,
        gpu: usize,
        segments: &[Segment],
        found: &Found,
        new: &mut Option<KBox<Piece>>,
    ) -> Result<Garbage> {
        let map = self.map(gpu).ok_or(EINVAL)?;
        let piece = new.as_ref().ok_or(EINVAL)?;
        // PTEs are replaced by valid ones: queues may be running. The rest of split fragments is
        // not to be accessed any more.
        let old = map.fragments(piece.pages);
        map.mirror.clear(old.without(piece.pages))?;
        let mut at = 0;
        let mut written = Pages::NONE;
        let mut writable = Pages::NONE;
        let mut executable = Pages::NONE;
        let mut heads = Pages::NONE;
        for segment in segments.iter().filter(|s| s.gpus >> gpu & 1 != 0) {
            let mut page = segment.first;
            while page < segment.end {
                let here = found.places(page..segment.end);
                let (addr, count, attrs) = match here.first() {
                    None | Some(Where::Nowhere) => {
                        page += 1;
                        continue;
                    }
                    Some(Where::System) => {
                        let memory = piece.memory.as_ref().ok_or(EINVAL)?;
                        let (addr, run) = memory.dma_run(at)?;
                        let same = here.iter().take(run).take_while(|p| **p == Where::System);
                        let count = same.count();
                        at += count;
                        (addr, count, segment.attrs)
                    }
                    Some(Where::Vram(offset)) => {
                        let next = (*offset..).step_by(PAGE_SIZE);
                        let same = here.iter().zip(next);
                        let same = same.take_while(|(p, at)| **p == Where::Vram(*at));
                        let (addr, local) = map.mirror.vram(*offset);
                        let attrs = PteAttrs {
                            system: false,
                            local,
                            ..segment.attrs
                        };
                        (addr, same.count(), attrs)
                    }
                };
                map.mirror
                    .write(page, count, addr, attrs, |head| heads.add(head))?;
                written.add_range(page, page + count);
                if segment.attrs.write {
                    writable.add_range(page, page + count);
                }
                if segment.attrs.exec {
                    executable.add_range(page, page + count);
                }
                page += count;
            }
        }
        let gone = old.or(piece.pages);
        map.valid = map.valid.without(gone).or(written);
        map.writable = map.writable.without(gone).or(writable);
        map.executable = map.executable.without(gone).or(executable);
        map.heads = map.heads.without(gone).or(heads);
        map.mirror.finish()?;
        if !old.is_empty() || map.mirror.has_refused() {
            map.mirror.flush();
        }
        let piece = new.take().ok_or(EINVAL)?;
        Ok(map.replace_pieces(piece))
    }

    /// Marks the pages of system memory that GPUs may write to as dirty. To be called before
    /// [`Self::show`], under the same lock.
    pub(super) fn mark_dirty(segments: &[Segment], found: &Found) {
        for segment in segments.iter().filter(|segment| segment.attrs.write) {
            found.mark_dirty(segment.first..segment.end);
        }
    }

    /// Records which pages of `segments` stay mapped.
    pub(super) fn set_always(&mut self, segments: &[Segment]) {
        for segment in segments {
            let pages = segment.pages();
            self.always = if segment.always {
                self.always.or(pages)
            } else {
                self.always.without(pages)
            };
        }
    }
}
