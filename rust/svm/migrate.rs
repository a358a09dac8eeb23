// SPDX-License-Identifier: GPL-2.0

//! Migration of registered memory to the VRAM of a GPU and back.

use core::ops::Range;

use kernel::{mm::MmWithUser, page::PAGE_SHIFT, prelude::*};

use super::{
    attributes::{Attributes, SYSTEM, UNDEFINED},
    shared::{Location, Svm},
};
use crate::{
    card::account::{self, Kind},
    gpu::{
        migrated::{pieces, Migrated, MoveTrigger, Place},
        Gpu,
    },
    kapi::{
        devmem::Located,
        hmm::{FoundPage, Wanted},
    },
    mmu::Pages,
};

/// Destination of pages.
pub(super) enum Destination {
    /// Their current location.
    Anywhere,
    /// In system memory.
    System,
    /// In the VRAM of a GPU.
    Vram(Location),
}

impl Svm {
    /// Returns the destination of a prefetch (`svm_range_best_prefetch_location`): to system memory
    /// if a GPU of another card is to access them in place.
    pub(super) fn prefetch_target(&self, attributes: &Attributes) -> Destination {
        let location = match attributes.prefetch {
            UNDEFINED => return Destination::Anywhere,
            SYSTEM => return Destination::System,
            id => self.location(id),
        };
        let Some(location) = location else {
            return Destination::System;
        };
        let shared = if self.retries() {
            attributes.in_place
        } else {
            attributes.gpus()
        };
        if shared & !self.members_of(location.gpu()) & self.joined() != 0 {
            return Destination::System;
        }
        Destination::Vram(location)
    }

    /// Returns the destination of pages after a fault of GPU `gpu` with id `id`
    /// (`svm_range_best_restore_location`); `EACCES` if the GPU has no access.
    pub(super) fn fault_target(
        &self,
        attributes: &Attributes,
        gpu: usize,
        id: u32,
    ) -> Result<Destination> {
        let vram = |id| {
            self.location(id)
                .map_or(Destination::Anywhere, Destination::Vram)
        };
        if attributes.preferred == id {
            return Ok(vram(id));
        }
        if attributes.preferred == SYSTEM {
            return Ok(Destination::System);
        }
        let preferred = self.location(attributes.preferred);
        let on_this_card = |there: &Location| self.vm(gpu).is_some_and(|vm| vm.is_of(there.gpu()));
        if let Some(there) = preferred.filter(on_this_card) {
            return Ok(Destination::Vram(there));
        }
        if attributes.access >> gpu & 1 != 0 {
            return Ok(vram(id));
        }
        if attributes.in_place >> gpu & 1 != 0 {
            return Ok(Destination::Anywhere);
        }
        Err(EACCES)
    }

    fn place(&self, attributes: &Attributes, gpu: u32, memory: Option<u32>) -> Place {
        Place {
            gpu,
            memory,
            granularity: attributes.granularity,
            prefetch: attributes.prefetch,
            preferred: attributes.preferred,
            report: self.moves().clone(),
        }
    }

    /// Moves pages to their destination. Returns whether there was a migration, also if all pages
    /// were in that VRAM. Errors and locks as of [`Self::move_to_vram`] and
    /// [`Self::move_to_system`].
    pub(super) fn move_pages(
        &self,
        mm: &MmWithUser,
        attributes: &Attributes,
        pages: Range<u64>,
        to: &Destination,
        trigger: MoveTrigger,
    ) -> Result<bool> {
        match to {
            Destination::Anywhere => Ok(false),
            Destination::System => {
                self.move_to_system(mm, attributes, pages, self.joined(), trigger)
            }
            Destination::Vram(to) => {
                self.move_to_vram(mm, attributes, pages, to, trigger)?;
                Ok(true)
            }
        }
    }

    /// Migrates pages of anonymous memory to VRAM. The remaining pages are not moved after an
    /// error: `ENOSPC` if the VRAM that processes may reserve is less, otherwise as
    /// [`Gpu::migrate_to_vram`]. The caller holds [`Svm::state`], and not the mmap lock.
    fn move_to_vram(
        &self,
        mm: &MmWithUser,
        attributes: &Attributes,
        pages: Range<u64>,
        to: &Location,
        trigger: MoveTrigger,
    ) -> Result {
        let others = self.joined() & !self.members_of(to.gpu());
        if others != 0 {
            self.move_to_system(mm, attributes, pages.clone(), others, trigger)?;
        }
        if trigger == MoveTrigger::Prefetch {
            self.leave_other_nodes(mm, attributes, &pages, to)?;
        }
        let bytes = (pages.end - pages.start) << PAGE_SHIFT;
        // Only for a check, as in the C driver: others may evict the pages.
        let reserved = account::reserve(to.gpu().vram(), &to.share, Kind::Vram, bytes);
        drop(reserved.map_err(|_| ENOSPC)?);
        let place = self.place(attributes, to.id, Some(to.memory()));
        let info = place.info(pages.clone(), true, trigger);
        place.report.begin(&info);
        let outside = |pages| self.outside_vram(mm, to.gpu(), pages);
        let mut count = 0;
        let moved = to
            .gpu()
            .migrate_to_vram(mm, pages, &place, outside, &mut count);
        place.report.end(&info, count, moved);
        moved
    }

    /// Returns the runs of pages of a block that are not in the VRAM of a card, at present.
    fn outside_vram(
        &self,
        mm: &MmWithUser,
        gpu: &Gpu,
        pages: Range<u64>,
    ) -> Result<KVec<Range<u64>>> {
        let count = (pages.end - pages.start) as usize;
        let there = self.in_vram(mm, gpu, &pages, |_| true)?;
        let mut runs = KVec::new();
        Pages::range(0, count).without(there).runs(|first, end| {
            let run = pages.start + first as u64..pages.start + end as u64;
            Ok(runs.push(run, GFP_KERNEL)?)
        })?;
        Ok(runs)
    }

    /// Returns which pages of a block are in the VRAM of a card, of those for which `f` returns
    /// true.
    fn in_vram(
        &self,
        mm: &MmWithUser,
        gpu: &Gpu,
        pages: &Range<u64>,
        f: impl Fn(&Located<'_, Migrated>) -> bool,
    ) -> Result<Pages> {
        let window = self.window(pages.start).ok_or(EINVAL)?;
        let count = (pages.end - pages.start) as usize;
        let mut found = KVec::<FoundPage>::zeroed(count, GFP_KERNEL)?;
        let first = (pages.start - window.watch().first()) as usize;
        let owner = Some(gpu.migrated().key());
        // After an error no page is found: the migration skips those that are there.
        let _ = window.find_pages(mm, first, &mut found, Wanted::Nothing, owner);
        let mut there = Pages::NONE;
        gpu.migrated().locate(&found, |page, at| {
            if f(at) {
                there.add(page);
            }
        });
        Ok(there)
    }

    /// Migrates pages in the VRAM of other nodes of the card of `to` to system memory, from where
    /// a prefetch takes them. A fault leaves them there: all nodes of a card map its VRAM.
    fn leave_other_nodes(
        &self,
        mm: &MmWithUser,
        attributes: &Attributes,
        pages: &Range<u64>,
        to: &Location,
    ) -> Result {
        let gpu = to.gpu();
        if self.members_of(gpu).count_ones() < 2 {
            return Ok(());
        }
        let is_elsewhere = |page: &Located<'_, Migrated>| {
            let node = page.with_block(Migrated::node);
            node.is_some_and(|node| node != to.id)
        };
        let mut runs = KVec::new();
        for block in pieces(pages.clone()) {
            let there = self.in_vram(mm, gpu, &block, is_elsewhere)?;
            there.runs(|first, end| {
                let run = block.start + first as u64..block.start + end as u64;
                Ok(runs.push(run, GFP_KERNEL)?)
            })?;
        }
        let trigger = MoveTrigger::Prefetch;
        self.leave_card(mm, attributes, pages, (gpu, &runs), trigger)?;
        Ok(())
    }

    /// Migrates those runs of `pages` that are in the VRAM of a card to system memory. Returns
    /// whether there were any. Errors and locks as of [`Self::move_to_system`].
    fn leave_card(
        &self,
        mm: &MmWithUser,
        attributes: &Attributes,
        pages: &Range<u64>,
        (from, runs): (&Gpu, &[Range<u64>]),
        trigger: MoveTrigger,
    ) -> Result<bool> {
        // Pages in the VRAM of other nodes of the card are counted on that of the first page.
        let mut begun = None;
        let mut begin = |node| {
            if begun.is_none() {
                let place = self.place(attributes, node, None);
                let info = place.info(pages.clone(), false, trigger);
                self.moves().begin(&info);
                begun = Some(info);
            }
        };
        let mut count = 0;
        let mut runs = runs.iter();
        let moved = runs
            .try_for_each(|run| from.migrate_to_system(mm, run.clone(), &mut begin, &mut count));
        let any = begun.is_some();
        if let Some(info) = begun {
            self.moves().end(&info, count, moved);
        }
        moved.map(|()| any)
    }

    /// Migrates pages in the VRAM of the cards of `gpus` to system memory. Returns whether there
    /// were any. `EIO` when a device is hung, `ENODEV` when it is unplugged, `ENOMEM` without
    /// memory. Locks as for [`Self::move_to_vram`].
    fn move_to_system(
        &self,
        mm: &MmWithUser,
        attributes: &Attributes,
        pages: Range<u64>,
        gpus: u64,
        trigger: MoveTrigger,
    ) -> Result<bool> {
        let mut left = gpus;
        let mut any = false;
        let mut result = Ok(());
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(from) = self.location_at(index) else {
                continue;
            };
            left &= !self.members_of(from.gpu());
            let all = [pages.clone()];
            match self.leave_card(mm, attributes, &pages, (from.gpu(), &all), trigger) {
                Ok(moved) => any |= moved,
                Err(e) => result = result.and(Err(e)),
            }
        }
        result.map(|()| any)
    }
}
