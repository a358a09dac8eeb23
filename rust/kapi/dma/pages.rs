// SPDX-License-Identifier: GPL-2.0

//! System pages that are owned by the driver and mapped for a device.

use core::ops::Range;

use kernel::{
    num::casts::u32_as_usize,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

use super::{
    device::Device,
    mapping::{Mapping, PeerMapping},
    runs::{DmaRuns, Run, Runs},
};
use crate::{
    bindings as ours,
    kapi::{raw_device as raw, task},
};

/// Contents of new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Zeroes.
    Zero,
    /// Those of former owners: the caller overwrites all of it.
    Undefined,
}

/// Order of the largest extent: 2 MiB.
const MAX_ORDER: u32 = 9;

/// Pages in runs as large as the page allocator has, at physical addresses.
///
/// # Invariants
///
/// Every run was allocated with an order, is owned by the object, and is in lowmem; together they
/// have exactly the pages `0..pages`, in order. No reference to the memory exists: all accesses are
/// volatile, of naturally aligned words, and may race with the device and with other CPUs.
struct Extents {
    list: KVVec<Run>,
    pages: u32,
}

impl Extents {
    fn new(device: &Device, pages: u32, contents: Contents) -> Result<Self> {
        let mut this = Self {
            list: KVVec::new(),
            pages: 0,
        };
        let mut order = MAX_ORDER;
        while this.pages < pages {
            if task::fatal_signal_pending() {
                return Err(EINTR);
            }
            let left = pages - this.pages;
            // An order that has failed once is not tried again.
            order = order.min(left.ilog2());
            loop {
                match this.add(device, order, contents) {
                    Ok(()) => break,
                    Err(e) if order == 0 => return Err(e),
                    Err(_) => order -= 1,
                }
            }
        }
        Ok(this)
    }

    fn add(&mut self, device: &Device, order: u32, contents: Contents) -> Result {
        self.list.reserve(1, GFP_KERNEL)?;
        let zero = contents == Contents::Zero;
        // SAFETY: The allocation may sleep, and so may the callers; any order may be requested. The
        // device is valid.
        let page = unsafe { ours::rkfd_helper_alloc_pages(raw(device.dev()), order, zero) };
        if page.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: The page was allocated above.
        let addr = unsafe { ours::rkfd_helper_page_to_phys(page) };
        let (first, count) = (self.pages, 1 << order);
        // INVARIANT: The pages were allocated above, with this order.
        self.list.push_within_capacity(Run { first, count, addr })?;
        self.pages += count;
        Ok(())
    }

    /// Returns the kernel address of byte `skip` of `run`, which is one of a `list`.
    fn cpu(run: &Run, skip: usize) -> *mut u8 {
        // SAFETY: By the type invariant the run is in lowmem, which has kernel addresses.
        let first = unsafe { ours::rkfd_helper_phys_to_virt(run.addr) };
        first.cast::<u8>().wrapping_add(skip)
    }
}

impl Drop for Extents {
    fn drop(&mut self) {
        for run in &self.list {
            // SAFETY: By the type invariant the pages are owned by the object, and were allocated
            // with the order of which `count` is the power.
            unsafe { ours::rkfd_helper_free_pages(run.addr, run.count.ilog2()) };
        }
    }
}

/// System memory of a buffer object, mapped for the device in both directions. It is unmapped at
/// unbind, and stays accessible to the CPU.
pub(crate) struct Pages {
    // Field order: unmapped before the memory is freed.
    mapping: Mapping,
    extents: Arc<Extents>,
}

impl Pages {
    /// Allocates and maps memory of at least `size` bytes. `EINVAL` for none, `ENOMEM` on failure,
    /// `EINTR` after `SIGKILL`, `ENODEV` after the unbind.
    pub(crate) fn new(device: &Arc<Device>, size: usize, contents: Contents) -> Result<Self> {
        // Runs count pages with 32 bits.
        let pages = u32::try_from(size.div_ceil(PAGE_SIZE)).map_err(|_| ENOMEM)?;
        if pages == 0 {
            return Err(EINVAL);
        }
        let extents = Arc::new(Extents::new(device, pages, contents)?, GFP_KERNEL)?;
        // SAFETY: The pages are freed after the mapping is dropped. An access of the device after
        // that is a defect of its driver.
        let mapping = unsafe { Mapping::new(device, &extents.list)? };
        Ok(Self { mapping, extents })
    }

    /// Maps the memory for another device, too. Errors as [`Pages::new`].
    pub(crate) fn map_for(&self, device: &Arc<Device>) -> Result<PeerMapping> {
        // SAFETY: The result holds the pages until it is unmapped.
        let mapping = unsafe { Mapping::new(device, &self.extents.list)? };
        Ok(PeerMapping::new(mapping, Some(self.extents.clone())))
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        u32_as_usize(self.extents.pages) * PAGE_SIZE
    }

    /// Returns the physical address of page `page`; `EINVAL` out of bounds.
    pub(in crate::kapi) fn phys(&self, page: usize) -> Result<u64> {
        let (run, skip) = Run::find(&self.extents.list, page)?;
        Ok(run.addr_of(skip))
    }

    /// Calls `f` with the offset and a copy of each page, in order. Concurrent writes of the device
    /// are copied or not, for each aligned word of 64 bits. `ENOMEM` without memory for the copy.
    pub(crate) fn for_runs(&self, mut f: impl FnMut(usize, &[u8]) -> Result) -> Result {
        const WORD: usize = size_of::<u64>();
        let mut copy = KVec::<u8>::zeroed(PAGE_SIZE, GFP_KERNEL)?;
        for at in (0..self.size()).step_by(PAGE_SIZE) {
            let from = self.cpu(at, PAGE_SIZE)?.cast::<u64>();
            for (i, to) in copy.chunks_exact_mut(WORD).enumerate() {
                // SAFETY: `cpu()` checked the page, which is aligned; `i` is an index of its words.
                let word = unsafe { from.add(i).read_volatile() };
                to.copy_from_slice(&word.to_ne_bytes());
            }
            f(at, &copy)?;
        }
        Ok(())
    }

    fn cpu(&self, offset: usize, len: usize) -> Result<*mut u8> {
        if offset.checked_add(len).is_none_or(|end| end > self.size()) {
            return Err(EINVAL);
        }
        let (run, skip) = Run::find(&self.extents.list, offset / PAGE_SIZE)?;
        let inside = skip * PAGE_SIZE + offset % PAGE_SIZE;
        if inside + len > PAGE_SIZE * u32_as_usize(run.count) {
            return Err(EINVAL);
        }
        Ok(Extents::cpu(run, inside))
    }

    /// Copies the bytes at `offset`; `EINVAL` out of bounds. The device or user space may change
    /// them meanwhile.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> Result {
        for (at, to) in (offset..).zip(to) {
            // SAFETY: `cpu()` checked the byte.
            *to = unsafe { self.cpu(at, 1)?.read_volatile() };
        }
        Ok(())
    }

    /// Writes the bytes at `offset`, as [`Self::read`].
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result {
        for (at, &from) in (offset..).zip(from) {
            // SAFETY: `cpu()` checked the byte.
            unsafe { self.cpu(at, 1)?.write_volatile(from) };
        }
        Ok(())
    }

    /// Reads the 64-bit word at byte `offset`; `EINVAL` out of bounds or unaligned.
    pub(crate) fn read64(&self, offset: usize) -> Result<u64> {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        let ptr = self.cpu(offset, 8)?.cast::<u64>();
        // SAFETY: `cpu()` checked the range; the alignment was checked above.
        Ok(unsafe { ptr.read_volatile() })
    }

    /// Writes the 64-bit word at byte `offset`; `EINVAL` out of bounds or unaligned.
    pub(crate) fn write64(&self, offset: usize, value: u64) -> Result {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        let ptr = self.cpu(offset, 8)?.cast::<u64>();
        // SAFETY: `cpu()` checked the range; the alignment was checked above.
        unsafe { ptr.write_volatile(value) };
        Ok(())
    }
}

impl Runs for Pages {
    fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        self.mapping.dma_run(page)
    }

    fn dma_runs(&self, pages: Range<usize>) -> Result<DmaRuns<'_>> {
        self.mapping.dma_runs(pages)
    }
}
