// SPDX-License-Identifier: GPL-2.0

//! Mapping of registered memory on GPUs, block by block.
//!
//! Pages are faulted in, mapped for DMA by each device, and entered in the page tables if none of
//! them was invalidated since before the fault, under the lock of the window. All memory is
//! allocated before that lock is taken. If neighbours of an accessed page keep changing, it is
//! mapped alone, so that invalidations of other pages do not delay it indefinitely.
//!
//! Valid pages that share a fragment with a page whose PTE is written are mapped again with it.
//! Other pages of the block are left alone.

use core::ops::Range;

use kernel::{
    mm::{virt::flags, MmWithUser},
    page::PAGE_SHIFT,
    prelude::*,
    sync::Arc,
};

use super::{
    attributes::{AttributeMap, AttributeRange, Attributes},
    block::{Block, BlockMap, Found, Garbage, Piece, Segment, Where},
    shared::{Svm, MAX_GPUS},
    window::WindowRef,
};
use crate::{
    gpu::Gpu,
    hw::PteAttrs,
    kapi::{
        hmm::{FoundPage, Key, Mapped, Wanted},
        task, vma,
    },
    mmu::{Pages, BLOCK_PAGES},
    uapi,
};

/// Attempts to map a part of a block whose pages keep changing.
const TRIES: u32 = 10;
/// The first of them that maps the accessed page only.
const ALONE: u32 = 5;

/// GPUs in a mask.
pub(super) fn gpus_in(mask: u64) -> impl Iterator<Item = usize> {
    (0..MAX_GPUS).filter(move |gpu| mask >> gpu & 1 != 0)
}

/// Handling of memory that the process does not map, or that cannot be faulted in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// An error.
    Refuse,
    /// They are skipped.
    Skip,
}

/// An access of a GPU to a page that it does not map.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// The page.
    pub(super) page: u64,
    /// The GPU, as a mask. It may access the range of the page, whatever the attributes are.
    pub(super) gpu: u64,
    /// First page of that range.
    pub(super) range: u64,
}

/// Pages of a block and the GPUs to map them on.
pub(super) struct Target {
    /// First page of the block.
    pub(super) base: u64,
    /// The pages.
    pub(super) pages: Pages,
    /// GPUs, as far as they have access.
    pub(super) gpus: u64,
    /// The access for which they are mapped: pages around it are, as far as they do not change.
    pub(super) access: Option<Access>,
}

impl Target {
    /// Returns the first and the end of the pages in the address space.
    fn bounds(&self) -> (u64, u64) {
        let (first, end) = self.pages.bounds();
        (self.base + first as u64, self.base + end as u64)
    }

    /// Returns the page of the access in the block, if it is there.
    fn accessed(&self) -> Option<usize> {
        let page = self.access?.page.checked_sub(self.base)? as usize;
        (page < BLOCK_PAGES).then_some(page)
    }
}

/// Pages that cannot be faulted in, and the cards that others were found on.
struct Missing {
    /// Pages that are looked for again when they are invalidated, and by the worker.
    refused: Pages,
    /// Pages that another thread of the process provides without an invalidation (userfaultfd).
    awaited: Pages,
    /// Cards in whose VRAM there are pages, with the number of their resets before.
    cards: KVec<(Arc<Gpu>, u32)>,
}

/// Pages that do not have to be mapped again after they were mapped.
struct Settled {
    /// All of them.
    pages: Pages,
    /// Those that the process cannot access.
    absent: Pages,
    /// Those of them that cannot be faulted in.
    refused: Pages,
}

/// Memory that is allocated before the lock of a window is taken.
struct Prepared {
    gpu: usize,
    piece: Option<KBox<Piece>>,
}

impl Missing {
    fn new() -> Self {
        Self {
            refused: Pages::NONE,
            awaited: Pages::NONE,
            cards: KVec::new(),
        }
    }

    /// Returns whether a card has lost contents since the pages were found.
    fn is_outdated(&self) -> bool {
        let mut cards = self.cards.iter();
        cards.any(|(gpu, resets)| gpu.has_lost_contents(*resets))
    }

    /// Adds a page, with the error of its walk.
    fn add(&mut self, page: usize, error: Error) {
        if error == EAGAIN {
            self.awaited.add(page);
        } else {
            self.refused.add(page);
        }
    }

    /// Returns the error of a page if it is missing.
    fn error_of(&self, page: usize) -> Result {
        if self.refused.has(page) {
            return Err(EFAULT);
        }
        if self.awaited.has(page) {
            return Err(EAGAIN);
        }
        Ok(())
    }
}

impl Svm {
    /// Returns the GPUs on which pages with these attributes are to be mapped now; `mapped` map
    /// some of them, and `near` are those of the VRAM with the pages.
    pub(super) fn wanted(&self, attributes: &Attributes, mapped: u64, near: u64) -> u64 {
        if !self.retries() {
            return attributes.gpus();
        }
        let gpus = mapped & attributes.gpus() | attributes.in_place | near & attributes.access;
        if gpus == 0 && attributes.has(uapi::KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED) {
            return attributes.access;
        }
        gpus
    }

    /// Adds a block, unless there is one, and its mirrors on `gpus` that have not left. `EINVAL`
    /// without a window or for a GPU without an address space.
    fn add_block(&self, window: &WindowRef, index: usize, gpus: u64) -> Result {
        let window = window.watch();
        if window.lock().block(index).is_none() {
            let block = Block::new(self.gpus())?;
            let left = window.lock().add(index, block);
            drop(left);
        }
        let va = window.first() + (index * BLOCK_PAGES) as u64;
        for gpu in gpus_in(gpus) {
            let known = window
                .lock()
                .block(index)
                .is_some_and(|block| block.map(gpu).is_some());
            if known {
                continue;
            }
            let Some(at) = self.location_at(gpu) else {
                if self.has_left(gpu) {
                    continue;
                }
                return Err(EINVAL);
            };
            let mirror = at.vm.mirror(va << PAGE_SHIFT, at.memory())?;
            let mut map = Some(BlockMap::new(mirror));
            let mut state = window.lock();
            if !self.has_left(gpu) {
                if let Some(slot) = state.block(index).and_then(|b| b.maps().get_mut(gpu)) {
                    *slot = map.take();
                }
            }
            drop(state);
            drop(map);
        }
        Ok(())
    }

    /// Reserves the pages of `target` in the address spaces of the GPUs that may access them.
    /// Returns those at which a BO is mapped, by GPU.
    fn claim(
        (window, index): (&WindowRef, usize),
        attributes: &AttributeMap,
        target: &Target,
    ) -> Result<KVec<(usize, Pages)>> {
        let mut taken = KVec::new();
        for gpu in gpus_in(target.gpus) {
            let Some(mirror) = Self::mirror(window, index, gpu) else {
                continue;
            };
            let pages = mirror.claim(Self::accessible(attributes, target, 1 << gpu))?;
            if !pages.is_empty() {
                taken.push((gpu, pages), GFP_KERNEL)?;
            }
        }
        Ok(taken)
    }

    /// Returns `segments` with `pages` left out on a GPU.
    fn leave_out(segments: &[Segment], gpu: usize, pages: Pages) -> Result<KVec<Segment>> {
        let others = Pages::ALL.without(pages);
        let mut split = KVec::new();
        for segment in segments {
            let mut first = segment.first;
            while first < segment.end {
                let (same, gpus) = if pages.has(first) {
                    (others.next(first), segment.gpus & !(1 << gpu))
                } else {
                    (pages.next(first), segment.gpus)
                };
                let end = same.unwrap_or(BLOCK_PAGES).min(segment.end);
                if gpus != 0 {
                    let part = Segment {
                        first,
                        end,
                        gpus,
                        ..*segment
                    };
                    split.push(part, GFP_KERNEL)?;
                }
                first = end;
            }
        }
        Ok(split)
    }

    /// Releases the addresses of a block that are not among `pages`.
    pub(super) fn release_pages(&self, window: &WindowRef, index: usize, pages: Pages) {
        for gpu in 0..self.gpus() {
            if let Some(mirror) = Self::mirror(window, index, gpu) {
                mirror.keep(pages);
            }
        }
    }

    /// Splits pages of a block by attributes and permissions of the process. Pages that the process
    /// may not read are left out; a hole among those of `strict` is `EFAULT`.
    fn plan(
        &self,
        mm: &MmWithUser,
        attributes: &AttributeMap,
        target: &Target,
        strict: Pages,
    ) -> Result<KVec<Segment>> {
        let mut segments = KVec::new();
        let (first, end) = target.bounds();
        let others = Pages::ALL.without(target.pages);
        let in_block = |page: u64| (page - target.base) as usize;
        let locked = mm.mmap_read_lock();
        for range in attributes.overlapping(first, end) {
            let mut at = range.first.max(first);
            let stop = range.end.min(end);
            while at < stop {
                let Some(next) = target.pages.next(in_block(at)) else {
                    break;
                };
                at = target.base + next as u64;
                if at >= stop {
                    break;
                }
                let area = locked.vma_lookup(usize::try_from(at << PAGE_SHIFT)?);
                let Some(area) = area else {
                    if strict.has(next) {
                        return Err(EFAULT);
                    }
                    at += 1;
                    continue;
                };
                let run = target.base + others.next(next).unwrap_or(BLOCK_PAGES) as u64;
                let next = stop.min(run).min((area.end() >> PAGE_SHIFT) as u64);
                let access = target.access.filter(|access| access.range == range.first);
                let gpus = range.attributes.gpus() & target.gpus | access.map_or(0, |a| a.gpu);
                if area.flags() & flags::READ != 0 && gpus != 0 {
                    let a = &range.attributes;
                    let writable = area.flags() & flags::WRITE != 0;
                    let segment = Segment {
                        first: in_block(at),
                        end: in_block(next),
                        gpus,
                        writable,
                        reported: vma::reports_writes(area),
                        attrs: PteAttrs {
                            system: true,
                            read: true,
                            write: writable && !a.has(uapi::KFD_IOCTL_SVM_FLAG_GPU_RO),
                            exec: a.has(uapi::KFD_IOCTL_SVM_FLAG_GPU_EXEC),
                            ext_coherent: a.has(uapi::KFD_IOCTL_SVM_FLAG_EXT_COHERENT),
                            ..PteAttrs::default()
                        },
                        always: a.has(uapi::KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED),
                    };
                    segments.push(segment, GFP_KERNEL)?;
                }
                at = next;
            }
        }
        Ok(segments)
    }

    /// Returns the pages of `target` to which other present GPUs than its own have access.
    fn of_others(&self, attributes: &AttributeMap, target: &Target) -> Pages {
        let others = self.present() & !target.gpus;
        Self::accessible(attributes, target, others)
    }

    /// Returns the pages of `target` to which any of `gpus` has access.
    fn accessible(attributes: &AttributeMap, target: &Target, gpus: u64) -> Pages {
        let base = target.base;
        let (first, end) = target.bounds();
        let allowed = |range: &AttributeRange| {
            let access = target.access.filter(|access| access.range == range.first);
            range.attributes.gpus() | access.map_or(0, |access| access.gpu)
        };
        let all = attributes
            .overlapping(first, end)
            .filter(|range| allowed(range) & gpus != 0)
            .fold(Pages::NONE, |sum, range| {
                let (from, to) = (range.first.max(first) - base, range.end.min(end) - base);
                sum.or(Pages::range(from as usize, to as usize))
            });
        all.and(target.pages)
    }

    /// Returns the pages of `target` to which its GPUs have access, but not the process.
    fn absent(attributes: &AttributeMap, target: &Target, segments: &[Segment]) -> Pages {
        let wanted = Self::accessible(attributes, target, target.gpus);
        segments
            .iter()
            .fold(wanted, |rest, segment| rest.without(segment.pages()))
    }

    /// Faults some pages of a block in. Those of `strict` cause an error, others are added to
    /// `missing`.
    fn find_run(
        mm: &MmWithUser,
        (window, index): (&WindowRef, usize),
        run: Range<usize>,
        (wanted, owner): (Wanted, Option<Key>),
        strict: Pages,
        found: &mut Found,
        missing: &mut Missing,
    ) -> Result {
        let mut at = run.start;
        let mut size = run.len();
        while at < run.end {
            // Pages of one kind: an error of one may fail the walk of all.
            let others = if strict.has(at) {
                Pages::ALL.without(strict)
            } else {
                strict
            };
            let end = others.next(at).unwrap_or(BLOCK_PAGES);
            let end = end.min(run.end).min(at + size);
            let pages = found.pages_mut(at..end)?;
            match window.find_pages(mm, index * BLOCK_PAGES + at, pages, wanted, owner) {
                Ok(()) => {
                    for (page, found) in (at..).zip(pages.iter()) {
                        match found.error() {
                            Some(e) if strict.has(page) => return Err(e),
                            Some(e) => missing.add(page, e),
                            None => {}
                        }
                    }
                    at = end;
                    size = (size * 2).min(BLOCK_PAGES);
                }
                Err(e) if strict.has(at) || ![EFAULT, EPERM, EAGAIN].contains(&e) => return Err(e),
                Err(_) if end - at > 1 => size = (end - at) / 2,
                Err(e) => {
                    missing.add(at, e);
                    at = end;
                }
            }
        }
        Ok(())
    }

    /// Faults the pages of `segments` in, and finds where they are. Pages stay in the VRAM of the
    /// only card whose GPUs may access them. An error of one of the pages of `strict`; returns what
    /// is missing of the others.
    fn find(
        &self,
        mm: &MmWithUser,
        at_block: (&WindowRef, usize),
        segments: &[Segment],
        strict: Pages,
        found: &mut Found,
    ) -> Result<Missing> {
        let mut missing = Missing::new();
        for segment in segments {
            let card = self.card_of(segment.gpus);
            let owner = card.as_ref().map(|gpu| gpu.migrated().key());
            let all = segment.first..segment.end;
            let wanted = if segment.writable {
                Wanted::Write
            } else {
                Wanted::Read
            };
            let how = (wanted, owner);
            Self::find_run(mm, at_block, all, how, strict, found, &mut missing)?;
            // Without their owner they are migrated to system memory, and copied.
            let shared = match &card {
                Some(gpu) if segment.writable => Self::shared(gpu, segment, found)?,
                _ => Pages::NONE,
            };
            shared.runs(|first, end| {
                let how = (wanted, None);
                Self::find_run(mm, at_block, first..end, how, strict, found, &mut missing)
            })?;
            let (pages, places) = found.parts_mut(segment.first..segment.end)?;
            for (place, page) in places.iter_mut().zip(pages.iter()) {
                *place = if page.is_some() {
                    Where::System
                } else {
                    Where::Nowhere
                };
            }
            if let Some(gpu) = card {
                let resets = gpu.health().resets();
                let (mut any, mut lost) = (false, Pages::NONE);
                gpu.migrated().locate(pages, |index, page| {
                    let is_lost = page.with_block(|block| block.has_lost_contents()) == Some(true);
                    if let Some(place) = places.get_mut(index) {
                        *place = if is_lost {
                            lost.add(segment.first + index);
                            Where::Nowhere
                        } else {
                            any = true;
                            Where::Vram(page.offset())
                        };
                    }
                });
                if !lost.and(strict).is_empty() {
                    return Err(EIO);
                }
                missing.refused = missing.refused.or(lost);
                if any {
                    missing.cards.push((gpu, resets), GFP_KERNEL)?;
                }
            }
        }
        Ok(missing)
    }

    /// Returns the pages of a segment in the VRAM of a card that have to be copied before a write:
    /// the process shares them with others, as after a fork, or a userfaultfd may report the write.
    ///
    /// Other read-only pages, as after a change of the protection, a scan of NUMA balancing, or the
    /// exit of the other process, are written to where they are. If that changes before they are
    /// mapped, they are invalidated.
    fn shared(gpu: &Gpu, segment: &Segment, found: &mut Found) -> Result<Pages> {
        let mut shared = Pages::NONE;
        let pages: &[FoundPage] = found.pages_mut(segment.first..segment.end)?;
        gpu.migrated().locate(pages, |index, page| {
            let is_writable = pages.get(index).is_some_and(|found| found.is_writable());
            if !is_writable && (segment.reported || !page.is_exclusive()) {
                shared.add(segment.first + index);
            }
        });
        Ok(shared)
    }

    /// Returns the card of all `gpus`; `None` if there are several.
    fn card_of(&self, gpus: u64) -> Option<Arc<Gpu>> {
        let vm = self.vm(gpus_in(gpus).next()?)?;
        let all = gpus & !self.members_of(vm.gpu()) == 0;
        all.then(|| vm.gpu().clone())
    }

    /// Maps found pages for DMA by the devices of all GPUs.
    fn prepare(&self, gpus: u64, segments: &[Segment], found: &Found) -> Result<KVec<Prepared>> {
        let mut all = KVec::new();
        for gpu in gpus_in(gpus) {
            let (mut pages, mut system) = (Pages::NONE, Pages::NONE);
            for segment in segments.iter().filter(|s| s.gpus >> gpu & 1 != 0) {
                let places = found.places(segment.first..segment.end);
                for (page, place) in (segment.first..).zip(places) {
                    match place {
                        Where::Nowhere => continue,
                        Where::System => system.add(page),
                        Where::Vram(_) => {}
                    }
                    pages.add(page);
                }
            }
            let Some(vm) = self.vm(gpu).filter(|_| !pages.is_empty()) else {
                continue;
            };
            let memory = if system.is_empty() {
                None
            } else {
                Some(Mapped::new(vm.gpu().dma(), found.among(system))?)
            };
            let piece = Some(Piece::new(pages, memory)?);
            all.push(Prepared { gpu, piece }, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Maps pages of a block on GPUs with access, with a window. The caller holds the lock of
    /// `attributes`, and not the mmap lock.
    ///
    /// `EFAULT` if the process does not map them, `EIO` if they were lost in a reset of the card,
    /// `EAGAIN` if they keep changing or, in a kernel thread, wait for a userfaultfd, `EADDRINUSE`
    /// if a BO is mapped there, `EINVAL` for a GPU without an address space, `ENOMEM` without
    /// memory. With [`Holes::Skip`] only the page of the access causes `EFAULT`, also if it was
    /// lost, or `EADDRINUSE`, and all pages that can be mapped are before `EAGAIN`.
    pub(super) fn map_block(
        &self,
        mm: &MmWithUser,
        attributes: &AttributeMap,
        target: &mut Target,
        holes: Holes,
    ) -> Result {
        let window = self.window(target.base).ok_or(EINVAL)?;
        let index = (target.base - window.watch().first()) as usize / BLOCK_PAGES;
        let (first, end) = target.bounds();
        let allowed = attributes.overlapping(first, end);
        if target.access.is_none() {
            target.gpus &= allowed.fold(0, |sum, range| sum | range.attributes.gpus());
        }
        // Attributes keep the bits of GPUs that have left.
        target.gpus &= !self.left();
        if target.gpus == 0 || target.pages.is_empty() {
            return Ok(());
        }
        for gpu in gpus_in(target.gpus) {
            if self.vm(gpu).is_none() && !self.has_left(gpu) {
                return Err(EINVAL);
            }
        }
        self.add_block(&window, index, target.gpus)?;
        let mut wanted = target.pages;
        for attempt in 0..TRIES {
            if let Some(page) = target.accessed().filter(|_| attempt >= ALONE) {
                wanted = Pages::range(page, page + 1);
            }
            let mut state = window.watch().lock();
            let Some(block) = state.block(index) else {
                return Err(EINVAL);
            };
            block.watch();
            // With the rest of fragments that are replaced: those pages are present, or change.
            target.pages = block.with_fragments(wanted, target.gpus);
            drop(state);
            let strict = match holes {
                Holes::Refuse => wanted,
                Holes::Skip => Pages::NONE,
            };
            let mut segments = self.plan(mm, attributes, target, strict)?;
            for (gpu, pages) in Self::claim((&window, index), attributes, target)? {
                let is_accessed = |page| pages.has(page);
                if !pages.and(strict).is_empty() || target.accessed().is_some_and(is_accessed) {
                    return Err(EADDRINUSE);
                }
                segments = Self::leave_out(&segments, gpu, pages)?;
            }
            let (first, end) = target.pages.bounds();
            let mut found = Found::new(first..end)?;
            let missing = self.find(mm, (&window, index), &segments, strict, &mut found);
            let of_access = |missing: Missing| match target.accessed() {
                Some(page) => missing.error_of(page).map(|()| missing),
                None => Ok(missing),
            };
            let missing = match missing.and_then(of_access) {
                // The memory changes: look at it again.
                Err(e) if e == EBUSY => continue,
                Err(e) if e == EFAULT || e == EPERM || e == EIO => {
                    let mut state = window.watch().lock();
                    if state.block(index).is_none_or(|b| b.has_changed(wanted)) {
                        continue;
                    }
                    return Err(e);
                }
                other => other?,
            };
            let mut prepared = self.prepare(target.gpus, &segments, &found)?;
            let absent = Self::absent(attributes, target, &segments).or(missing.refused);
            // What another GPU has to map again stays invalid.
            let kept = self.of_others(attributes, target).or(missing.awaited);
            if self.show(
                &window,
                index,
                target,
                Settled {
                    pages: target.pages.without(kept),
                    absent: absent.without(kept),
                    refused: missing.refused.without(kept),
                },
                &segments,
                (&found, &missing),
                &mut prepared,
            )? {
                return if missing.awaited.is_empty() {
                    Ok(())
                } else {
                    Err(EAGAIN)
                };
            }
        }
        Err(EAGAIN)
    }

    /// Writes the PTEs if none of the pages was invalidated. `settled` pages are mapped then.
    /// Returns whether they were written.
    #[allow(clippy::too_many_arguments, reason = "one step of `map_block`")]
    fn show(
        &self,
        window: &WindowRef,
        index: usize,
        target: &Target,
        settled: Settled,
        segments: &[Segment],
        (found, missing): (&Found, &Missing),
        prepared: &mut [Prepared],
    ) -> Result<bool> {
        // DMA mappings that are unused now: dropped after the lock is released.
        let mut unused: KVec<Garbage> = KVec::with_capacity(prepared.len(), GFP_KERNEL)?;
        let mut state = window.watch().lock();
        let unchanged = |block: &&mut Block| !block.has_changed(target.pages);
        let Some(block) = state.block(index).filter(unchanged) else {
            return Ok(false);
        };
        // After a reset from here on the worker zaps the PTEs.
        if missing.is_outdated() {
            return Ok(false);
        }
        Block::mark_dirty(segments, found);
        let mut result = Ok(());
        for new in prepared.iter_mut().filter(|new| !self.has_left(new.gpu)) {
            match block.show(new.gpu, segments, found, &mut new.piece) {
                Ok(garbage) => unused.push_within_capacity(garbage)?,
                Err(e) => result = Err(e),
            }
        }
        block.set_always(segments);
        if result.is_ok() {
            block.settle(settled.pages, settled.absent, settled.refused);
        }
        drop(state);
        drop(unused);
        result?;
        let (first, end) = target.bounds();
        let gpus = prepared.iter().fold(0, |sum, new| sum | 1 << new.gpu);
        self.queues().mapped(gpus, &(first..end));
        Ok(true)
    }

    /// Calls `f` with each block of some pages, and the pages in it. `EINTR` after SIGKILL.
    pub(super) fn for_blocks(
        pages: Range<u64>,
        mut f: impl FnMut(u64, usize, usize) -> Result,
    ) -> Result {
        let mut at = pages.start;
        let mut result = Ok(());
        while at < pages.end {
            if task::fatal_signal_pending() {
                return Err(EINTR);
            }
            let base = at / BLOCK_PAGES as u64 * BLOCK_PAGES as u64;
            let end = pages.end.min(base + BLOCK_PAGES as u64);
            // Continue with the other blocks, as the C driver does.
            if let Err(e) = f(base, (at - base) as usize, (end - base) as usize) {
                result = Err(e);
            }
            at = end;
        }
        result
    }
}
