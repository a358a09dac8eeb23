// SPDX-License-Identifier: GPL-2.0

//! Handling of GPU accesses to memory that is not mapped (retry faults).

use core::ops::Range;

use kernel::{
    mm::{virt::flags, MmWithUser},
    page::PAGE_SHIFT,
    prelude::*,
    sync::Arc,
};

use super::{
    attributes::{AttributeRange, Change, GRANULARITY, SYSTEM},
    map::{Access, Holes, Target},
    migrate::Destination,
    shared::{State, Svm},
    window::WINDOW_PAGES,
};
use crate::{
    gpu::migrated::MoveTrigger,
    hw::AccessKind,
    kapi::{
        hmm::{FoundPage, Wanted},
        vma,
        workqueue::Delayed,
    },
    mmu::{Pages, BLOCK_PAGES},
    uapi,
};

/// Maximum of pages mapped by a fault, in log2: 1 GiB (`svm_range_set_max_pages`).
const GRANULARITY_LIMIT: u32 = 18;

/// The process of a fault.
pub(crate) trait FaultReport {
    /// Returns whether pages of userptr BOs that a GPU maps, at any address, are among `pages`.
    fn has_userptr(&self, pages: Range<u64>) -> bool;

    /// Pages are being mapped.
    fn begin(&self);

    /// The handling has ended; `moved`: a migration to VRAM was tried, or one from there succeeded.
    fn end(&self, moved: bool);
}

impl Svm {
    /// Maps the page of an access of GPU `gpu` with id `gpu_id`, with pages around it. The access
    /// is repeated afterwards; it may fault again if the memory changes.
    ///
    /// `EFAULT` without such memory, `EPERM` if the process or the GPU may not access it this way,
    /// `EACCES` without access of the GPU, `ESRCH` if the process is ending, `EAGAIN` if the page
    /// is not mapped because it keeps changing or a userfaultfd has to provide it, otherwise as
    /// [`Svm::set`].
    pub(crate) fn fault(
        this: &Arc<Delayed<Self>>,
        gpu: usize,
        gpu_id: u32,
        page: u64,
        kind: AccessKind,
        report: &dyn FaultReport,
    ) -> Result {
        if !this.retries() {
            return Err(EFAULT);
        }
        if this.is_mapped(gpu, page, kind) {
            return Ok(());
        }
        let mm = this.user()?;
        let mut guard = this.lock()?;
        let state: &mut State = &mut guard;
        this.tidy(state, &mm)?;
        let served = Self::serve(this, state, &mm, gpu, gpu_id, page, kind, report);
        drop(guard);
        match served {
            // Others of its block have to be waited for.
            Err(e) if e == EAGAIN && this.is_mapped(gpu, page, kind) => Ok(()),
            other => other,
        }
    }

    /// Returns whether a GPU maps a page as it is accessed.
    fn is_mapped(&self, gpu: usize, page: u64, kind: AccessKind) -> bool {
        let Some(window) = self.window(page) else {
            return false;
        };
        let offset = (page % WINDOW_PAGES) as usize;
        let mut state = window.watch().lock();
        let map = state
            .block(offset / BLOCK_PAGES)
            .and_then(|block| block.map(gpu));
        map.is_some_and(|map| map.allows(offset % BLOCK_PAGES, kind))
    }

    #[allow(clippy::too_many_arguments, reason = "the access and its context")]
    fn serve(
        this: &Arc<Delayed<Self>>,
        state: &mut State,
        mm: &MmWithUser,
        gpu: usize,
        gpu_id: u32,
        page: u64,
        kind: AccessKind,
        report: &dyn FaultReport,
    ) -> Result {
        let range = match state.attributes.get(page) {
            Some(range) => range,
            None => {
                let new = Self::register(this, state, mm, page, report);
                // The window may be unused.
                new.inspect_err(|_| this.suspect(state, page, page + 1))?
            }
        };
        let locked = mm.mmap_read_lock();
        let area = locked.vma_lookup(usize::try_from(page << PAGE_SHIFT)?);
        let has = area.map_or(0, |area| area.flags());
        let is_armed = area.is_some_and(vma::is_armed);
        drop(locked);
        // Unmapped meanwhile: the access faults again if it is repeated.
        if has == 0 {
            return Err(EAGAIN);
        }
        let attributes = &range.attributes;
        let writable = has & flags::WRITE != 0;
        let denied = match kind {
            AccessKind::Read => false,
            AccessKind::Write => !writable || attributes.has(uapi::KFD_IOCTL_SVM_FLAG_GPU_RO),
            AccessKind::Execute => !attributes.has(uapi::KFD_IOCTL_SVM_FLAG_GPU_EXEC),
        };
        if has & flags::READ == 0 || denied {
            return Err(EPERM);
        }
        let to = this.fault_target(attributes, gpu, gpu_id)?;
        if is_armed {
            // Before anything is moved or reported: the access is repeated until the page is there.
            this.check_provided(mm, gpu, page, writable)?;
        }
        report.begin();
        let size = 1u64 << attributes.granularity.min(GRANULARITY_LIMIT);
        let first = (page / size * size).max(range.first);
        let end = (page / size * size).saturating_add(size).min(range.end);
        // After an error they are used where they are.
        let moved = this.move_pages(mm, attributes, first..end, &to, MoveTrigger::GpuFault);
        if let Err(e) = &moved {
            pr_debug!("memory was not moved: {e:?}\n");
        }
        // The block of the page counts; a failure in another one is not that of the access.
        let base = page / BLOCK_PAGES as u64 * BLOCK_PAGES as u64;
        let mut result = Ok(());
        let others = Self::for_blocks(first..end, |at, first, end| {
            let mut target = Target {
                base: at,
                pages: Pages::range(first, end),
                gpus: 1 << gpu,
                access: Some(Access {
                    page,
                    gpu: 1 << gpu,
                    range: range.first,
                }),
            };
            let mapped = this.map_block(mm, &state.attributes, &mut target, Holes::Skip);
            if at == base {
                result = mapped;
            }
            mapped
        });
        report.end(matches!(to, Destination::Vram(_)) || moved == Ok(true));
        if others.is_err() {
            pr_debug!("pages around {page:#x} are not mapped\n");
        }
        result
    }

    /// Returns `EAGAIN` if a page has to be waited for, as a userfaultfd provides it.
    fn check_provided(&self, mm: &MmWithUser, gpu: usize, page: u64, write: bool) -> Result {
        let window = self.window(page).ok_or(EINVAL)?;
        let vm = self.vm(gpu);
        let owner = vm.map(|vm| vm.gpu().migrated().key());
        let wanted = if write { Wanted::Write } else { Wanted::Read };
        let mut found = [FoundPage::NONE];
        let at = (page % WINDOW_PAGES) as usize;
        let walked = window.find_pages(mm, at, &mut found, wanted, owner);
        let missing = found.iter().find_map(|page| page.error());
        match walked.err().or(missing) {
            Some(e) if e == EAGAIN => Err(e),
            // Other errors are those of the map.
            _ => Ok(()),
        }
    }

    /// Registers unregistered memory around a page: the part of its mapping in the same 2 MiB that
    /// is not registered, or the page if a BO is mapped elsewhere in it. `EFAULT` without memory
    /// there, or if a BO is mapped at the page or the page is one of a userptr BO.
    fn register(
        this: &Arc<Delayed<Self>>,
        state: &mut State,
        mm: &MmWithUser,
        page: u64,
        report: &dyn FaultReport,
    ) -> Result<AttributeRange> {
        Self::add_windows(this, state, mm, page, page + 1)?;
        let locked = mm.mmap_read_lock();
        // Windows record unmaps from here on.
        let area = locked
            .vma_lookup(usize::try_from(page << PAGE_SHIFT)?)
            .filter(|area| area.flags() & (flags::IO | flags::PFNMAP | flags::MIXEDMAP) == 0)
            .ok_or(EFAULT)?;
        let size = 1 << GRANULARITY;
        let mut first = (page / size * size).max((area.start() >> PAGE_SHIFT) as u64);
        let mut end = (page / size * size + size).min((area.end() >> PAGE_SHIFT) as u64);
        for range in state.attributes.overlapping(first, end) {
            if range.end <= page {
                first = first.max(range.end);
            } else {
                end = end.min(range.first);
            }
        }
        let is_taken = |first: u64, end: u64| {
            let (va, len) = (first << PAGE_SHIFT, (end - first) << PAGE_SHIFT);
            let maps = |gpu| this.vm(gpu).is_some_and(|vm| vm.maps(va, len));
            (0..this.gpus()).any(maps) || report.has_userptr(first..end)
        };
        if is_taken(first, end) {
            if is_taken(page, page + 1) {
                return Err(EFAULT);
            }
            (first, end) = (page, page + 1);
        }
        let near = vma::is_heap_or_stack(area);
        drop(locked);
        let system = [Change::Preferred(SYSTEM)];
        let changes = if near { &system[..] } else { &[] };
        state
            .attributes
            .change(first, end, &this.default(), changes)?;
        state.attributes.get(page).ok_or(EFAULT)
    }
}
