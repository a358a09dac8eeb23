// SPDX-License-Identifier: GPL-2.0

//! Migration of pages between system memory and device-private pages.
//!
//! A [`Migration`] holds pages that are locked and unmapped. The caller gives each a destination,
//! copies the contents, and commits; pages without a destination, or all of them if it is dropped
//! instead, are mapped again where they are.
//!
//! C header: [`include/linux/migrate.h`](srctree/include/linux/migrate.h)
//!
//! # Examples
//!
//! ```ignore
//! let mut migration = Migration::to_device(area, first, pages, &region)?;
//! migration.take(&region, &block, memory)?;
//! let system = migration.map_system(dma)?;
//! copy(&system)?;
//! drop(system);
//! migration.commit();
//! ```

use core::{
    marker::PhantomData,
    ops::{Deref, Range},
    ptr,
    ptr::NonNull,
};

use kernel::{
    error::to_result,
    mm::{
        virt::{flags, vm_flags_t},
        MmapReadGuard,
    },
    num::casts::u32_as_usize,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};

use super::{
    devmem::{Block, CpuFault, Filling, Owner, Region},
    dma::{self, Mapping, Run},
    hmm::Mapped,
    vma::LockedArea,
};
use crate::bindings as ours;

const VALID: c_ulong = ours::MIGRATE_PFN_VALID as c_ulong;
const MIGRATE: c_ulong = ours::MIGRATE_PFN_MIGRATE as c_ulong;

/// Returns whether pages of an area can be migrated: those of anonymous memory.
fn is_movable(area: &LockedArea<'_>) -> bool {
    const SPECIAL: vm_flags_t = flags::IO | flags::PFNMAP | flags::MIXEDMAP | flags::DONTEXPAND;
    // SAFETY: The area exists and does not change: a lock is held by its type.
    let anonymous = unsafe { ours::rkfd_helper_vma_is_anonymous(area.as_ptr()) };
    anonymous && area.flags() & SPECIAL == 0
}

/// Calls `f` with each area of `pages` whose pages can be migrated, and those in it, until it
/// returns an error.
pub(crate) fn for_each_movable(
    locked: &MmapReadGuard<'_>,
    pages: Range<u64>,
    mut f: impl FnMut(&LockedArea<'_>, Range<u64>) -> Result,
) -> Result {
    let mut first = pages.start;
    while first < pages.end {
        let Some(area) = LockedArea::at(locked, usize::try_from(first << PAGE_SHIFT)?) else {
            first += 1;
            continue;
        };
        let end = ((area.end() >> PAGE_SHIFT) as u64).min(pages.end);
        if is_movable(&area) {
            f(&area, first..end)?;
        }
        first = end;
    }
    Ok(())
}

/// How the pages were found.
#[derive(Clone, Copy)]
enum Origin {
    /// In an area, by `migrate_vma_setup()`.
    Area(ours::migrate_vma),
    /// By their PFNs, by `migrate_device_pfns()`.
    Pages,
}

/// Pages that are being migrated.
///
/// # Invariants
///
/// Both lists have the same length, and are those that the kernel's functions got and filled. An
/// entry of `dst` that is not 0 is a locked page with a reference of this object. The pages were
/// not finalized.
pub(crate) struct Migration<'a, T: Owner> {
    origin: Origin,
    src: KVVec<c_ulong>,
    dst: KVVec<c_ulong>,
    /// Pages go to system memory.
    to_system: bool,
    committed: bool,
    /// The mmap lock is held.
    _area: PhantomData<&'a LockedArea<'a>>,
    /// Device memory is that of a region of this type.
    _owner: PhantomData<fn(T)>,
}

impl<'a, T: Owner> Migration<'a, T> {
    fn new(pages: usize, to_system: bool) -> Result<Self> {
        Ok(Self {
            origin: Origin::Pages,
            src: KVVec::zeroed(pages, GFP_KERNEL)?,
            dst: KVVec::zeroed(pages, GFP_KERNEL)?,
            to_system,
            committed: false,
            _area: PhantomData,
            _owner: PhantomData,
        })
    }

    fn in_area(
        area: &'a LockedArea<'_>,
        start: usize,
        pages: usize,
        region: &Region<T>,
        fault: Option<&CpuFault<'_>>,
        to_system: bool,
    ) -> Result<Self> {
        let end = pages
            .checked_mul(PAGE_SIZE)
            .and_then(|bytes| start.checked_add(bytes))
            .filter(|end| start >= area.start() && *end <= area.end());
        let end = end.ok_or(EINVAL)?;
        let mut this = Self::new(pages, to_system)?;
        let flags = if to_system {
            ours::migrate_vma_direction_MIGRATE_VMA_SELECT_DEVICE_PRIVATE
        } else {
            ours::migrate_vma_direction_MIGRATE_VMA_SELECT_SYSTEM
        };
        let mut args = ours::migrate_vma {
            vma: area.as_ptr(),
            src: this.src.as_mut_ptr(),
            dst: this.dst.as_mut_ptr(),
            start,
            end,
            pgmap_owner: region.key().0,
            flags: flags as c_ulong,
            fault_page: fault.map_or(ptr::null_mut(), |fault| fault.page.as_ptr()),
            ..pin_init::zeroed()
        };
        // SAFETY: The mmap lock is held by the type of the area. The lists have an entry for each
        // page. The page of the fault is locked.
        to_result(unsafe { ours::migrate_vma_setup(&mut args) })?;
        this.origin = Origin::Area(args);
        Ok(this)
    }

    /// Collects `pages` pages of system memory from address `start` on, and addresses without a
    /// page. `EINVAL` beyond the area or for one that cannot be migrated, `ENOMEM` without memory.
    /// MMU notifiers run.
    pub(crate) fn to_device(
        area: &'a LockedArea<'_>,
        start: usize,
        pages: usize,
        region: &Region<T>,
    ) -> Result<Self> {
        Self::in_area(area, start, pages, region, None, false)
    }

    /// Collects pages of the region of `pages` addresses from `start` on. Errors as
    /// [`Self::to_device`].
    pub(crate) fn to_system(
        area: &'a LockedArea<'_>,
        start: usize,
        pages: usize,
        region: &Region<T>,
        fault: Option<&'a CpuFault<'_>>,
    ) -> Result<Self> {
        Self::in_area(area, start, pages, region, fault, true)
    }

    /// Collects the pages of the memory of a region at each of `at`, wherever they are mapped.
    /// `EINVAL` for memory without `struct page`s, `ENOMEM` without memory.
    pub(crate) fn evict(
        region: &'a Region<T>,
        pages: usize,
        at: impl Iterator<Item = u64>,
    ) -> Result<Self> {
        let mut src = KVVec::with_capacity(pages, GFP_KERNEL)?;
        region.for_pfns(at.take(pages), |pfn| Ok(src.push_within_capacity(pfn)?))?;
        let mut this = Self::new(src.len(), true)?;
        // SAFETY: The PFNs are those of pages of the region, whose `struct page`s exist as long as
        // the region.
        to_result(unsafe { ours::migrate_device_pfns(src.as_mut_ptr(), src.len()) })?;
        this.src = src;
        Ok(this)
    }

    /// Returns the number of pages of `block` that were collected, on the way to system memory.
    pub(crate) fn count_of(&self, block: &Block<T>) -> usize {
        let is_of = |item: &T| ptr::eq(item, &**block);
        let own = |index: &usize| self.to_system && self.block_at(*index, is_of) == Some(true);
        (0..self.len()).filter(own).count()
    }

    /// Returns the result of `f` for the block of the page of an address, on the way to system
    /// memory; `None` if it was not collected.
    fn block_at<R>(&self, index: usize, f: impl FnOnce(&T) -> R) -> Option<R> {
        if !self.has(index) {
            return None;
        }
        // SAFETY: The entry is that of a page that exists.
        let page = unsafe { ours::rkfd_helper_migrate_pfn_to_page(*self.src.get(index)?) };
        // SAFETY: Only pages of a region of this type are collected on the way to system memory.
        // The page is locked and has a reference until the migration ends.
        unsafe { Region::block_of(NonNull::new(page)?, f) }
    }

    /// Returns the result of `f` for the block of the first page that was collected in device
    /// memory; `None` without one.
    pub(crate) fn first_block<R>(&self, f: impl Fn(&T) -> R) -> Option<R> {
        (0..self.len()).find_map(|index| self.block_at(index, &f))
    }

    /// Returns the number of addresses.
    pub(crate) fn len(&self) -> usize {
        self.src.len()
    }

    /// Returns whether the page of an address was collected, or there is none.
    pub(crate) fn has(&self, index: usize) -> bool {
        let entry = self.src.get(index).copied().unwrap_or(0);
        entry & MIGRATE != 0 && (!self.to_system || entry & VALID != 0)
    }

    /// Returns whether nothing was collected.
    pub(crate) fn is_empty(&self) -> bool {
        !(0..self.len()).any(|index| self.has(index))
    }

    /// Makes the memory of `block` at each of `at` the destination of the page of an address, if it
    /// was collected and that memory has a free page. `EINVAL` if they have one, otherwise as
    /// [`Region::take`].
    pub(crate) fn take(
        &mut self,
        region: &Region<T>,
        block: &Filling<T>,
        at: impl Iterator<Item = u64>,
    ) -> Result {
        if self.to_system || self.dst.iter().any(|slot| *slot != 0) {
            return Err(EINVAL);
        }
        let src = &self.src;
        let has = |index: usize| src.get(index).is_some_and(|entry| entry & MIGRATE != 0);
        let wanted = at.enumerate().filter(|(index, _)| has(*index));
        let dst = &mut self.dst;
        region.take(block, wanted, |index, pfn| {
            if let Some(slot) = dst.get_mut(index) {
                // INVARIANT: The page is locked and has a reference.
                *slot = pfn << ours::MIGRATE_PFN_SHIFT | VALID;
            }
        })
    }

    /// Returns the memory of a region that the pages of [`Self::system`] are copied from or to, in
    /// their order: start and bytes of each contiguous part.
    pub(crate) fn device(&self, region: &Region<T>) -> Result<KVVec<(u64, u64)>> {
        const PAGE: u64 = PAGE_SIZE as u64;
        let side = if self.to_system { &self.src } else { &self.dst };
        let entries = self.system().filter_map(|index| side.get(index));
        let mut runs = KVVec::<(u64, u64)>::with_capacity(self.system().count(), GFP_KERNEL)?;
        region.locate_pfns(
            entries.map(|entry| entry >> ours::MIGRATE_PFN_SHIFT),
            |at| {
                match runs.last_mut() {
                    Some((start, len)) if *start + *len == at => *len += PAGE,
                    _ => runs.push_within_capacity((at, PAGE))?,
                }
                Ok(())
            },
        )?;
        Ok(runs)
    }

    /// Allocates pages of system memory for the collected pages that have none, and for whose
    /// blocks `pick` returns true. Returns whether all have one. `ENOMEM` without memory:
    /// some have one.
    pub(crate) fn alloc_system(&mut self, pick: impl Fn(&T) -> bool) -> Result<bool> {
        if !self.to_system {
            return Err(EINVAL);
        }
        let mut complete = true;
        for index in 0..self.len() {
            if !self.has(index) || self.dst.get(index).is_some_and(|page| *page != 0) {
                continue;
            }
            if self.block_at(index, &pick) != Some(true) {
                complete = false;
                continue;
            }
            let (area, addr) = match &self.origin {
                Origin::Area(args) => (args.vma, args.start + (index << PAGE_SHIFT)),
                Origin::Pages => (ptr::null_mut(), 0),
            };
            // SAFETY: The area, if there is one, exists: its lock is held.
            let new = unsafe { ours::rkfd_helper_alloc_locked_page(area, addr) };
            if new == 0 {
                return Err(ENOMEM);
            }
            if let Some(slot) = self.dst.get_mut(index) {
                // INVARIANT: The page is locked and has a reference.
                *slot = new;
            }
        }
        Ok(complete)
    }

    /// Returns the indices of the pages of system memory that are copied from or to.
    pub(crate) fn system(&self) -> impl Iterator<Item = usize> + '_ {
        let pairs = self.src.iter().zip(self.dst.iter()).enumerate();
        pairs.filter_map(|(index, (src, dst))| {
            (src & VALID != 0 && src & MIGRATE != 0 && *dst != 0).then_some(index)
        })
    }

    /// Maps the pages of [`Self::system`], in their order, for `dma`. `EINVAL` if there are none,
    /// `ENOMEM` without memory, `ENODEV` after the unbind.
    pub(crate) fn map_system(&self, dma: &Arc<dma::Device>) -> Result<SystemSide<'_>> {
        let side = if self.to_system { &self.dst } else { &self.src };
        let mut runs: KVVec<Run> = KVVec::new();
        for (first, index) in self.system().enumerate() {
            let entry = side.get(index).copied().unwrap_or(0);
            let addr = ((entry >> ours::MIGRATE_PFN_SHIFT) * PAGE_SIZE) as u64;
            match runs.last_mut() {
                Some(last) if last.addr_of(u32_as_usize(last.count)) == addr => last.count += 1,
                _ => {
                    let (first, count) = (u32::try_from(first)?, 1);
                    runs.push(Run { first, count, addr }, GFP_KERNEL)?;
                }
            }
        }
        if runs.is_empty() {
            return Err(EINVAL);
        }
        // SAFETY: The pages are locked and have references, until the migration ends, before which
        // the result is dropped.
        let mapping = unsafe { Mapping::new(dma, &runs) }?;
        Ok(SystemSide {
            mapped: Mapped::from_mapping(mapping),
            _migration: PhantomData,
        })
    }

    /// Moves the pages that have a destination, whose contents were copied. Returns how many were
    /// moved.
    pub(crate) fn commit(mut self) -> u64 {
        self.committed = true;
        match &mut self.origin {
            // SAFETY: The arguments are those of `migrate_vma_setup()`, whose lists exist.
            Origin::Area(args) => unsafe { ours::migrate_vma_pages(args) },
            // SAFETY: The lists are those of `migrate_device_pfns()`.
            Origin::Pages => unsafe {
                ours::migrate_device_pages(
                    self.src.as_mut_ptr(),
                    self.dst.as_mut_ptr(),
                    self.src.len(),
                )
            },
        }
        let pairs = self.src.iter().zip(self.dst.iter());
        let moved = pairs.filter(|(src, dst)| **src & MIGRATE != 0 && **dst & VALID != 0);
        moved.count() as u64
    }
}

impl<T: Owner> Drop for Migration<'_, T> {
    fn drop(&mut self) {
        if !self.committed {
            for slot in self.dst.iter_mut().filter(|slot| **slot != 0) {
                // SAFETY: By the type invariant the page is locked and has a reference, which are
                // given up once.
                unsafe {
                    let page = ours::rkfd_helper_migrate_pfn_to_page(*slot);
                    ours::rkfd_helper_unlock_put_page(page);
                }
                *slot = 0;
            }
        }
        match &mut self.origin {
            // SAFETY: The arguments are those of `migrate_vma_setup()`, whose lists exist, and the
            // pages were not finalized by the type invariant.
            Origin::Area(args) => unsafe { ours::migrate_vma_finalize(args) },
            // SAFETY: The lists are those of `migrate_device_pfns()`, and the pages were not
            // finalized by the type invariant.
            Origin::Pages => unsafe {
                ours::migrate_device_finalize(
                    self.src.as_mut_ptr(),
                    self.dst.as_mut_ptr(),
                    self.src.len(),
                )
            },
        }
    }
}

/// The pages of system memory of a migration, mapped for a device.
pub(crate) struct SystemSide<'m> {
    mapped: Mapped,
    _migration: PhantomData<&'m ()>,
}

impl Deref for SystemSide<'_> {
    type Target = Mapped;

    fn deref(&self) -> &Mapped {
        &self.mapped
    }
}

impl Drop for SystemSide<'_> {
    fn drop(&mut self) {
        // With it, the migration cannot end before this is dropped.
    }
}
