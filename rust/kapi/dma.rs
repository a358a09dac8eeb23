// SPDX-License-Identifier: GPL-2.0

//! Memory that a device accesses by DMA: coherent buffers, and runs of system pages.
//!
//! Unlike `kernel::dma::Coherent`, these objects may be allocated outside of probe, and may outlive
//! the binding of the driver. The memory is not usable for DMA after that: at unbind coherent
//! buffers are freed and pages are unmapped, because the DMA operations of the device end there.
//!
//! C header: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h)
//!
//! # Examples
//!
//! ```ignore
//! dma::set_mask(pdev, 48)?;
//! let ring = dma::Coherent::new(pdev.as_ref(), 4096)?;
//! ring.write32(0, header)?;
//! device.set_ring_base(ring.dma_address());
//! ```

use core::ptr::NonNull;

use kernel::{
    bindings,
    device,
    devres::Devres,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

use super::raw_device as raw;
use crate::bindings as ours;

/// Sets the streaming and the coherent DMA mask of a device that is being probed.
///
/// Once per binding (`EBUSY`), and before memory of this file can be allocated or mapped for the
/// device: that fails with `ENODEV` until the mask is set, and after the unbind.
pub(crate) fn set_mask(pdev: &pci::Device<device::Core<'_>>, bits: u32) -> Result {
    let mask = if bits >= 64 { !0 } else { (1u64 << bits) - 1 };
    let dev: &device::Device = pdev.as_ref();
    // SAFETY: The device is valid, and its lock is held (context `Core`). The mask must not change
    // while memory is allocated or mapped: the helper refuses to set it twice, and `check_mask()`
    // refuses to allocate or map before.
    kernel::error::to_result(unsafe { ours::rkfd_helper_dma_set_mask(raw(dev), mask) })
}

/// Fails with `ENODEV` unless [`set_mask`] was called in this binding of the device.
pub(super) fn check_mask(dev: &device::Device) -> Result {
    // SAFETY: The device is valid; its list of resources is under a lock of its own.
    if unsafe { ours::rkfd_helper_dma_mask_is_set(raw(dev)) } {
        Ok(())
    } else {
        Err(ENODEV)
    }
}

/// Ties `data` to the binding of `dev`: it is dropped with the result, or at unbind if that comes
/// first. `ENODEV` unless the driver is bound, `ENOMEM` without memory.
pub(super) fn until_unbind<T: Send>(dev: &device::Device, data: T) -> Result<Devres<T>> {
    check_mask(dev)?;
    // SAFETY: The mask is set, so the driver was bound a moment ago. An unbind that runs at the
    // same time may have released its resources already: then `data` lives until it is dropped,
    // which needs a valid device and no binding.
    Devres::new(unsafe { dev.as_bound() }, data)
}

/// An allocation of coherent memory.
///
/// # Invariants
///
/// `cpu` points to `size` bytes that `dma_alloc_attrs()` returned for `dev`, page aligned, and
/// `dma` is their DMA address. No reference to them exists: all accesses are volatile.
struct Allocation {
    dev: ARef<device::Device>,
    cpu: NonNull<u8>,
    dma: u64,
    size: usize,
}

// SAFETY: The memory is owned by the object, and `dma_free_attrs()` may be called by any task.
unsafe impl Send for Allocation {}
// SAFETY: All accesses are volatile and of naturally aligned words. Such accesses may race with
// the device and with other CPUs: the kernel's memory model makes each of them atomic.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: By the type invariant device, size and addresses are those of the allocation, and
        // nothing borrows it any more.
        unsafe {
            bindings::dma_free_attrs(
                raw(&self.dev),
                self.size,
                self.cpu.as_ptr().cast(),
                self.dma,
                0,
            )
        };
    }
}

/// A zeroed, cache-coherent buffer that CPU and device share, contiguous for both. Freed at unbind:
/// accesses fail with `ENODEV` then.
pub(crate) struct Coherent {
    memory: Devres<Allocation>,
    dma: u64,
    size: usize,
}

impl Coherent {
    /// Allocates `size` bytes, rounded up to whole pages. `ENOMEM` on failure, `ENODEV` before
    /// [`set_mask`].
    pub(crate) fn new(dev: &device::Device, size: usize) -> Result<Self> {
        let size = size
            .max(1)
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(EINVAL)?;
        check_mask(dev)?;
        let mut dma = 0;
        // SAFETY: `dev` is a valid device whose mask is set and does not change; the size is not
        // zero, and NULL is handled below.
        let cpu = unsafe {
            bindings::dma_alloc_attrs(
                raw(dev),
                size,
                &mut dma,
                bindings::GFP_KERNEL | bindings::__GFP_ZERO,
                0,
            )
        };
        let cpu = NonNull::new(cpu.cast::<u8>()).ok_or(ENOMEM)?;
        // INVARIANT: `dma_alloc_attrs()` returned both addresses for this size.
        let memory = Allocation {
            dev: dev.into(),
            cpu,
            dma,
            size,
        };
        Ok(Self {
            memory: until_unbind(dev, memory)?,
            dma,
            size,
        })
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the DMA address of the buffer.
    pub(crate) fn dma_address(&self) -> u64 {
        self.dma
    }

    /// Calls `access` with the address of byte `offset`, valid for `count` times `T`. `EINVAL` out
    /// of bounds or unaligned, `ENODEV` after the unbind.
    fn at<T, R>(&self, offset: usize, count: usize, access: impl FnOnce(*mut T) -> R) -> Result<R> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(EINVAL)?;
        let end = offset.checked_add(bytes).ok_or(EINVAL)?;
        if end > self.size || offset % align_of::<T>() != 0 {
            return Err(EINVAL);
        }
        // The guard keeps an unbind from freeing the memory during the access.
        let memory = self.memory.try_access().ok_or(ENODEV)?;
        // SAFETY: `offset..end` lies inside the allocation by the check above.
        let ptr = unsafe { memory.cpu.as_ptr().add(offset) };
        Ok(access(ptr.cast()))
    }

    /// Reads the dword at byte `offset`. `EINVAL` out of bounds or unaligned, `ENODEV` after the
    /// unbind, as all accesses.
    pub(crate) fn read32(&self, offset: usize) -> Result<u32> {
        // SAFETY: `at()` passes a valid, aligned address inside the allocation.
        self.at(offset, 1, |ptr: *mut u32| unsafe { ptr.read_volatile() })
    }

    /// Writes the dword at byte `offset`.
    pub(crate) fn write32(&self, offset: usize, value: u32) -> Result {
        // SAFETY: `at()` passes a valid, aligned address inside the allocation.
        self.at(offset, 1, |ptr: *mut u32| unsafe {
            ptr.write_volatile(value)
        })
    }

    /// Writes dwords from byte `offset` on, in ascending order.
    pub(crate) fn write32s(&self, offset: usize, from: &[u32]) -> Result {
        self.at(offset, from.len(), |ptr: *mut u32| {
            for (i, value) in from.iter().enumerate() {
                // SAFETY: `at()` passes the aligned address of `from.len()` dwords of the
                // allocation.
                unsafe { ptr.add(i).write_volatile(*value) };
            }
        })
    }

    /// Reads dwords from byte `offset` on.
    pub(crate) fn read32s(&self, offset: usize, to: &mut [u32]) -> Result {
        self.at(offset, to.len(), |ptr: *mut u32| {
            for (i, value) in to.iter_mut().enumerate() {
                // SAFETY: `at()` passes the aligned address of `to.len()` dwords of the allocation.
                *value = unsafe { ptr.add(i).read_volatile() };
            }
        })
    }

    /// Copies `from` to byte `offset`, which must be a multiple of 8.
    pub(crate) fn write_bytes(&self, offset: usize, from: &[u8]) -> Result {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        self.at(offset, from.len(), |ptr: *mut u8| {
            let words = from.chunks_exact(8);
            let tail = words.remainder();
            for (i, word) in words.enumerate() {
                let word = word.try_into().map_or(0, u64::from_ne_bytes);
                // SAFETY: `at()` passes the address of `from.len()` bytes of the allocation, which
                // is a multiple of 8 because the allocation is page aligned.
                unsafe { ptr.cast::<u64>().add(i).write_volatile(word) };
            }
            for (i, byte) in tail.iter().enumerate() {
                // SAFETY: As for the words, the byte is one of the `from.len()` of the address.
                unsafe { ptr.add(from.len() - tail.len() + i).write_volatile(*byte) };
            }
        })
    }

    /// Reads the qword at byte `offset`.
    pub(crate) fn read64(&self, offset: usize) -> Result<u64> {
        // SAFETY: `at()` passes a valid, aligned address inside the allocation.
        self.at(offset, 1, |ptr: *mut u64| unsafe { ptr.read_volatile() })
    }

    /// Writes the qword at byte `offset`.
    pub(crate) fn write64(&self, offset: usize, value: u64) -> Result {
        // SAFETY: `at()` passes a valid, aligned address inside the allocation.
        self.at(offset, 1, |ptr: *mut u64| unsafe {
            ptr.write_volatile(value)
        })
    }
}

/// DMA mappings of pages in both directions. Dropping it unmaps.
///
/// # Invariants
///
/// Each element is address and size of a mapping for `dev`.
pub(super) struct DmaMappings {
    dev: ARef<device::Device>,
    ranges: KVVec<(u64, usize)>,
}

// SAFETY: DMA mappings may be removed by any task.
unsafe impl Send for DmaMappings {}
// SAFETY: Shared references only read addresses, which do not change.
unsafe impl Sync for DmaMappings {}

impl DmaMappings {
    /// Returns no mappings for `dev`.
    pub(super) fn new(dev: &device::Device) -> Self {
        Self {
            dev: dev.into(),
            ranges: KVVec::new(),
        }
    }

    /// Maps the `size` bytes of the contiguous pages from `page` on. `ENOMEM` on failure, `ENODEV`
    /// before [`set_mask`].
    ///
    /// # Safety
    ///
    /// `page` is the first of pages with `size` bytes that exist until the mapping is removed.
    pub(super) unsafe fn map(&mut self, page: *mut bindings::page, size: usize) -> Result {
        check_mask(&self.dev)?;
        self.ranges.reserve(1, GFP_KERNEL)?;
        // SAFETY: `dev` is valid, with a mask that does not change; the caller guarantees the
        // pages.
        let dma = unsafe {
            bindings::dma_map_page_attrs(
                raw(&self.dev),
                page,
                0,
                size,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                0,
            )
        };
        // SAFETY: `dev` is valid; `dma` is what was returned for it.
        if unsafe { ours::rkfd_helper_dma_mapping_error(raw(&self.dev), dma) } {
            return Err(ENOMEM);
        }
        self.ranges.push_within_capacity((dma, size))?;
        Ok(())
    }

    /// Returns the DMA address of mapping `index`. `EINVAL` without such a mapping.
    pub(super) fn dma(&self, index: usize) -> Result<u64> {
        self.ranges.get(index).map(|(dma, _)| *dma).ok_or(EINVAL)
    }
}

impl Drop for DmaMappings {
    fn drop(&mut self) {
        for (dma, size) in &self.ranges {
            // SAFETY: By the type invariant it is mapped with this size and direction.
            unsafe {
                bindings::dma_unmap_page_attrs(
                    raw(&self.dev),
                    *dma,
                    *size,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    0,
                )
            };
        }
    }
}

/// `1 << order` contiguous system pages. Dropping it frees them.
///
/// # Invariants
///
/// The object owns the pages, which are in lowmem.
struct Run {
    page: NonNull<bindings::page>,
    order: u32,
}

// SAFETY: The pages are owned by the object and may be freed by any task.
unsafe impl Send for Run {}
// SAFETY: Shared references only read the address, which does not change.
unsafe impl Sync for Run {}

impl Run {
    /// Allocates `1 << order` zeroed pages. `ENOMEM` on failure.
    fn new(order: u32) -> Result<Self> {
        // SAFETY: The allocation may sleep, and so may the callers; any order may be asked for.
        let page = unsafe { ours::rkfd_helper_alloc_zeroed_pages(order) };
        // INVARIANT: The pages were just allocated, without `__GFP_HIGHMEM`.
        Ok(Self {
            page: NonNull::new(page).ok_or(ENOMEM)?,
            order,
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pages are owned, with this order.
        unsafe { bindings::__free_pages(self.page.as_ptr(), self.order) };
    }
}

/// System memory of a buffer object: zeroed pages in runs as large as the page allocator has,
/// mapped for the device in both directions until the driver is unbound.
///
/// # Invariants
///
/// The runs together have exactly `pages` pages; `index[i]` is the first page number of `runs[i]`,
/// and mapping `i` is that of `runs[i]`. No reference to the memory exists: all accesses are
/// volatile.
pub(crate) struct Pages {
    // Field order: unmapped before the pages are freed.
    mappings: Devres<DmaMappings>,
    runs: KVVec<Run>,
    index: KVVec<usize>,
    pages: usize,
}

/// Order of the largest run: 2 MiB.
const MAX_ORDER: u32 = 9;

impl Pages {
    /// Allocates and maps memory of at least `size` bytes. `EINVAL` for none, `ENOMEM` on failure,
    /// `ENODEV` before [`set_mask`].
    pub(crate) fn new(dev: &device::Device, size: usize) -> Result<Self> {
        let wanted = size.div_ceil(PAGE_SIZE);
        if wanted == 0 {
            return Err(EINVAL);
        }
        // Declaration order: `mappings` is dropped before `runs` after an error.
        let mut runs = KVVec::new();
        let mut mappings = DmaMappings::new(dev);
        let mut index = KVVec::new();
        let mut pages = 0;
        while pages < wanted {
            let mut order = (wanted - pages).ilog2().min(MAX_ORDER);
            let run = loop {
                match Run::new(order) {
                    Ok(run) => break run,
                    Err(e) if order == 0 => return Err(e),
                    Err(_) => order -= 1,
                }
            };
            index.push(pages, GFP_KERNEL)?;
            let page = run.page.as_ptr();
            runs.push(run, GFP_KERNEL)?;
            // SAFETY: `runs` owns the pages and outlives `mappings`.
            unsafe { mappings.map(page, PAGE_SIZE << order)? };
            pages += 1 << order;
        }
        Ok(Self {
            mappings: until_unbind(dev, mappings)?,
            runs,
            index,
            pages,
        })
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.pages * PAGE_SIZE
    }

    /// Returns index and run of page `page`, and its number in the run. `EINVAL` out of bounds.
    fn find(&self, page: usize) -> Result<(usize, &Run, usize)> {
        if page >= self.pages {
            return Err(EINVAL);
        }
        let i = self.index.partition_point(|&first| first <= page) - 1;
        Ok((i, &self.runs[i], page - self.index[i]))
    }

    /// Returns the DMA address of page `page`, and the number of pages that are contiguous from it
    /// on, itself included. `EINVAL` out of bounds, `ENODEV` after the unbind.
    pub(crate) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        let (i, run, skip) = self.find(page)?;
        let dma = self.mappings.try_access().ok_or(ENODEV)?.dma(i)?;
        Ok((dma + (skip * PAGE_SIZE) as u64, (1 << run.order) - skip))
    }

    /// Returns the physical address of page `page`; `EINVAL` out of bounds.
    pub(crate) fn phys(&self, page: usize) -> Result<u64> {
        let (_, run, skip) = self.find(page)?;
        // SAFETY: The page exists, since the object owns it by the type invariant.
        let base = unsafe { ours::rkfd_helper_page_to_phys(run.page.as_ptr()) };
        Ok(base + (skip * PAGE_SIZE) as u64)
    }

    /// Calls `f` with the offset and a copy of each page, in order. What the device writes
    /// meanwhile is in the copy or not, for each aligned word of 64 bits. `ENOMEM` without memory
    /// for the copy.
    pub(crate) fn for_runs(&self, mut f: impl FnMut(usize, &[u8]) -> Result) -> Result {
        const WORD: usize = size_of::<u64>();
        let mut copy = KVec::from_elem(0u8, PAGE_SIZE, GFP_KERNEL)?;
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
        let (_, run, skip) = self.find(offset / PAGE_SIZE)?;
        let inside = skip * PAGE_SIZE + offset % PAGE_SIZE;
        if inside + len > PAGE_SIZE << run.order {
            return Err(EINVAL);
        }
        // SAFETY: The page has a kernel address, as it is in lowmem by the type invariant (no
        // `__GFP_HIGHMEM`); `inside..inside + len` is part of the run.
        Ok(unsafe {
            ours::rkfd_helper_page_address(run.page.as_ptr())
                .cast::<u8>()
                .add(inside)
        })
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
