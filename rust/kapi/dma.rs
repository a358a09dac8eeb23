// SPDX-License-Identifier: GPL-2.0

//! Memory that a device accesses by DMA: coherent buffers, and runs of system pages.
//!
//! Unlike `kernel::dma::Coherent`, these objects may be allocated outside of probe, and may outlive
//! the binding of the driver. Coherent buffers are resources of the binding: they are freed at
//! unbind, because behind an IOMMU `dma_free_attrs()` frees wrong pages afterwards. The DMA
//! mappings of [`Pages`] live until the last user drops them.
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
        // SAFETY: The mask is set, so the driver was bound a moment ago. If an unbind has released
        // its resources meanwhile, the check below sees that and removes the resource again; if it
        // does so later, it frees the memory.
        let memory = Devres::new(unsafe { dev.as_bound() }, memory)?;
        check_mask(dev)?;
        Ok(Self { memory, dma, size })
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

/// `1 << order` contiguous system pages, mapped for the device.
struct Run {
    page: NonNull<bindings::page>,
    order: u32,
    dma: u64,
}

/// System memory of a buffer object: zeroed pages in runs as large as the page allocator has,
/// mapped for the device in both directions.
///
/// # Invariants
///
/// Every run is owned by the object, in lowmem, and mapped for `dev`; the runs together have
/// exactly `pages` pages; `index[i]` is the first page number of `runs[i]`. No reference to the
/// memory exists: all accesses are volatile.
pub(crate) struct Pages {
    dev: ARef<device::Device>,
    runs: KVVec<Run>,
    index: KVVec<usize>,
    pages: usize,
}

// SAFETY: The pages are owned by the object; unmapping and freeing them may be done by any task.
unsafe impl Send for Pages {}
// SAFETY: Addresses do not change, and the memory is accessed with volatile, naturally aligned
// words, which may race with the device and with other CPUs.
unsafe impl Sync for Pages {}

/// Order of the largest run: 2 MiB.
const MAX_ORDER: u32 = 9;

impl Pages {
    /// Allocates and maps memory of at least `size` bytes. `EINVAL` for none, `ENOMEM` on failure,
    /// `ENODEV` before [`set_mask`].
    pub(crate) fn new(dev: &device::Device, size: usize) -> Result<Self> {
        let pages = size.div_ceil(PAGE_SIZE);
        if pages == 0 {
            return Err(EINVAL);
        }
        check_mask(dev)?;
        let mut this = Self {
            dev: dev.into(),
            runs: KVVec::new(),
            index: KVVec::new(),
            pages: 0,
        };
        while this.pages < pages {
            let left = pages - this.pages;
            let mut order = left.ilog2().min(MAX_ORDER);
            loop {
                match this.add_run(order) {
                    Ok(()) => break,
                    Err(e) if order == 0 => return Err(e),
                    Err(_) => order -= 1,
                }
            }
        }
        Ok(this)
    }

    fn add_run(&mut self, order: u32) -> Result {
        self.runs.reserve(1, GFP_KERNEL)?;
        self.index.reserve(1, GFP_KERNEL)?;
        // SAFETY: The allocation may sleep, and so may the callers; any order may be asked for.
        let page = unsafe { ours::rkfd_helper_alloc_zeroed_pages(order) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;
        let size = PAGE_SIZE << order;
        // SAFETY: `dev` is valid, with a mask that does not change; `page` is the head of `size`
        // bytes that were allocated above.
        let dma = unsafe {
            bindings::dma_map_page_attrs(
                raw(&self.dev),
                page.as_ptr(),
                0,
                size,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                0,
            )
        };
        // SAFETY: `dev` is valid; `dma` is what was returned for it.
        if unsafe { ours::rkfd_helper_dma_mapping_error(raw(&self.dev), dma) } {
            // SAFETY: `page` was allocated above with this order and is not used elsewhere.
            unsafe { bindings::__free_pages(page.as_ptr(), order) };
            return Err(ENOMEM);
        }
        self.index.push(self.pages, GFP_KERNEL)?;
        self.runs.push(Run { page, order, dma }, GFP_KERNEL)?;
        self.pages += 1 << order;
        Ok(())
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.pages * PAGE_SIZE
    }

    fn find(&self, page: usize) -> Result<(&Run, usize)> {
        if page >= self.pages {
            return Err(EINVAL);
        }
        let i = self.index.partition_point(|&first| first <= page) - 1;
        Ok((&self.runs[i], page - self.index[i]))
    }

    /// Returns the DMA address of page `page`, and the number of pages that are contiguous from it
    /// on, itself included. `EINVAL` out of bounds.
    pub(crate) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        let (run, skip) = self.find(page)?;
        Ok((run.dma + (skip * PAGE_SIZE) as u64, (1 << run.order) - skip))
    }

    /// Returns the physical address of page `page`; `EINVAL` out of bounds.
    pub(crate) fn phys(&self, page: usize) -> Result<u64> {
        let (run, skip) = self.find(page)?;
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
        let (run, skip) = self.find(offset / PAGE_SIZE)?;
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

impl Drop for Pages {
    fn drop(&mut self) {
        for run in &self.runs {
            // SAFETY: By the type invariant the run is mapped with this size and direction, and
            // owned by the object.
            unsafe {
                bindings::dma_unmap_page_attrs(
                    raw(&self.dev),
                    run.dma,
                    PAGE_SIZE << run.order,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    0,
                );
                bindings::__free_pages(run.page.as_ptr(), run.order);
            }
        }
    }
}
