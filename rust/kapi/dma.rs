// SPDX-License-Identifier: GPL-2.0

//! Memory a device reaches by DMA: coherent buffers and runs of system pages.
//!
//! Unlike `kernel::dma::Coherent`, these objects may be allocated outside of probe and may outlive
//! the binding of the driver: they hold a reference to the device and give their memory back when
//! the last user drops them.

use core::ptr::NonNull;

use kernel::{
    bindings,
    device,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::aref::ARef, //
};

use crate::bindings as ours;

/// Sets the streaming and the coherent DMA mask of a device that is being probed.
pub(crate) fn set_mask(pdev: &pci::Device<device::Core<'_>>, bits: u32) -> Result {
    let mask = if bits >= 64 { !0 } else { (1u64 << bits) - 1 };
    let dev: &device::Device = pdev.as_ref();
    // SAFETY: The device is valid by its type; it is in its probe callback (context `Core`), so
    // that no DMA allocation of this driver exists yet.
    kernel::error::to_result(unsafe { bindings::dma_set_mask_and_coherent(raw(dev), mask) })
}

fn raw(dev: &device::Device) -> *mut bindings::device {
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// A zeroed, physically contiguous, cache-coherent buffer that CPU and device share.
///
/// # Invariants
///
/// `cpu` points to `size` bytes that `dma_alloc_attrs()` returned for `dev`, page aligned, and
/// `dma` is their address as the device sees it.
pub(crate) struct Coherent {
    dev: ARef<device::Device>,
    cpu: NonNull<u8>,
    dma: u64,
    size: usize,
}

// SAFETY: The memory is owned by the object and can be freed from any task.
unsafe impl Send for Coherent {}
// SAFETY: All accesses through a shared reference are volatile and of a single word; races with
// the device and with other CPUs are what this memory is for.
unsafe impl Sync for Coherent {}

impl Coherent {
    /// Allocates `size` bytes, rounded up to whole pages.
    pub(crate) fn new(dev: &device::Device, size: usize) -> Result<Self> {
        let size = size
            .max(1)
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(EINVAL)?;
        let mut dma = 0;
        // SAFETY: `dev` is a valid device; the result is checked below.
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
        // INVARIANT: `dma_alloc_attrs()` succeeded with this size.
        Ok(Self {
            dev: dev.into(),
            cpu,
            dma,
            size,
        })
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The address of the buffer for the device.
    pub(crate) fn dma_address(&self) -> u64 {
        self.dma
    }

    fn at<T>(&self, offset: usize) -> Result<*mut T> {
        let end = offset.checked_add(size_of::<T>()).ok_or(EINVAL)?;
        if end > self.size || offset % align_of::<T>() != 0 {
            return Err(EINVAL);
        }
        // SAFETY: `offset..end` lies inside the allocation by the check above.
        Ok(unsafe { self.cpu.as_ptr().add(offset) }.cast())
    }

    /// Reads the 32-bit word at byte `offset`.
    pub(crate) fn read32(&self, offset: usize) -> Result<u32> {
        let ptr = self.at::<u32>(offset)?;
        // SAFETY: `at()` returns a valid, aligned address inside the allocation.
        Ok(unsafe { ptr.read_volatile() })
    }

    /// Writes the 32-bit word at byte `offset`.
    pub(crate) fn write32(&self, offset: usize, value: u32) -> Result {
        let ptr = self.at::<u32>(offset)?;
        // SAFETY: `at()` returns a valid, aligned address inside the allocation.
        unsafe { ptr.write_volatile(value) };
        Ok(())
    }

    fn words(&self, offset: usize, count: usize) -> Result<*mut u32> {
        let end = count.checked_mul(4).and_then(|len| len.checked_add(offset));
        if end.is_none_or(|end| end > self.size) {
            return Err(EINVAL);
        }
        self.at(offset)
    }

    /// Writes 32-bit words from byte `offset` on, in order.
    pub(crate) fn write32s(&self, offset: usize, from: &[u32]) -> Result {
        let ptr = self.words(offset, from.len())?;
        for (i, value) in from.iter().enumerate() {
            // SAFETY: `words()` returns the aligned address of `from.len()` words of the allocation.
            unsafe { ptr.add(i).write_volatile(*value) };
        }
        Ok(())
    }

    /// Reads 32-bit words from byte `offset` on.
    pub(crate) fn read32s(&self, offset: usize, to: &mut [u32]) -> Result {
        let ptr = self.words(offset, to.len())?;
        for (i, value) in to.iter_mut().enumerate() {
            // SAFETY: `words()` returns the aligned address of `to.len()` words of the allocation.
            *value = unsafe { ptr.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies `from` to byte `offset`.
    pub(crate) fn write_bytes(&self, offset: usize, from: &[u8]) -> Result {
        let end = offset.checked_add(from.len()).ok_or(EINVAL)?;
        if end > self.size {
            return Err(EINVAL);
        }
        // SAFETY: `offset..end` lies inside the allocation, which no slice of Rust refers to; a race
        // with the device is up to the caller, as with single words.
        unsafe {
            core::ptr::copy_nonoverlapping(
                from.as_ptr(),
                self.cpu.as_ptr().add(offset),
                from.len(),
            );
        }
        Ok(())
    }

    /// Reads the 64-bit word at byte `offset`.
    pub(crate) fn read64(&self, offset: usize) -> Result<u64> {
        let ptr = self.at::<u64>(offset)?;
        // SAFETY: `at()` returns a valid, aligned address inside the allocation.
        Ok(unsafe { ptr.read_volatile() })
    }

    /// Writes the 64-bit word at byte `offset`.
    pub(crate) fn write64(&self, offset: usize, value: u64) -> Result {
        let ptr = self.at::<u64>(offset)?;
        // SAFETY: `at()` returns a valid, aligned address inside the allocation.
        unsafe { ptr.write_volatile(value) };
        Ok(())
    }
}

impl Drop for Coherent {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is exactly what `dma_alloc_attrs()` returned.
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

/// A run of `1 << order` system pages, mapped for the device.
struct Run {
    page: NonNull<bindings::page>,
    order: u32,
    dma: u64,
}

/// System memory behind a buffer object: zeroed pages in runs as large as the allocator gives,
/// mapped for the device in both directions.
///
/// # Invariants
///
/// Every run is owned by the object and is mapped for `dev`; the runs together hold exactly
/// `pages` pages; `index[i]` is the first page number of `runs[i]`.
pub(crate) struct Pages {
    dev: ARef<device::Device>,
    runs: KVVec<Run>,
    index: KVVec<usize>,
    pages: usize,
}

// SAFETY: Pages are owned by the object and can be freed from any task.
unsafe impl Send for Pages {}
// SAFETY: A shared reference only reads addresses, and copies bytes through raw pointers.
unsafe impl Sync for Pages {}

/// The largest run that is tried: 2 MiB.
const MAX_ORDER: u32 = 9;

impl Pages {
    /// Allocates and maps memory of at least `size` bytes.
    pub(crate) fn new(dev: &device::Device, size: usize) -> Result<Self> {
        let pages = size.div_ceil(PAGE_SIZE);
        if pages == 0 {
            return Err(EINVAL);
        }
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
        // SAFETY: Allocating pages has no precondition besides a sleeping context.
        let page = unsafe { ours::rkfd_helper_alloc_zeroed_pages(order) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;
        let size = PAGE_SIZE << order;
        // SAFETY: `dev` is valid, `page` is the head of `size` bytes owned by us.
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

    /// The size in bytes.
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

    /// The device address of page `page` and how many pages follow it (itself included)
    /// contiguously.
    pub(crate) fn dma_run(&self, page: usize) -> Result<(u64, usize)> {
        let (run, skip) = self.find(page)?;
        Ok((run.dma + (skip * PAGE_SIZE) as u64, (1 << run.order) - skip))
    }

    /// The physical address of page `page`.
    pub(crate) fn phys(&self, page: usize) -> Result<u64> {
        let (run, skip) = self.find(page)?;
        // SAFETY: `run.page` is a valid page by the type invariant.
        let base = unsafe { ours::rkfd_helper_page_to_phys(run.page.as_ptr()) };
        Ok(base + (skip * PAGE_SIZE) as u64)
    }

    /// Calls `f` with the memory, run by run, and where in it each begins. The device must not write
    /// to it meanwhile.
    pub(crate) fn for_runs(&self, mut f: impl FnMut(usize, &[u8]) -> Result) -> Result {
        for (run, first) in self.runs.iter().zip(&self.index) {
            let (at, len) = (first * PAGE_SIZE, PAGE_SIZE << run.order);
            let ptr = self.cpu(at, len)?;
            // SAFETY: `cpu()` checked the range, which lives as long as `self`; nobody writes to
            // it, as the caller sees to for the device and there is no other way for the CPU.
            f(at, unsafe { core::slice::from_raw_parts(ptr, len) })?;
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
        // SAFETY: `run.page` is a valid lowmem page (GFP_KERNEL); the offset is inside the run.
        Ok(unsafe {
            ours::rkfd_helper_page_address(run.page.as_ptr())
                .cast::<u8>()
                .add(inside)
        })
    }

    /// Reads the 64-bit word at byte `offset`, which must be aligned.
    pub(crate) fn read64(&self, offset: usize) -> Result<u64> {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        let ptr = self.cpu(offset, 8)?.cast::<u64>();
        // SAFETY: `cpu()` checked the range; the alignment was checked above.
        Ok(unsafe { ptr.read_volatile() })
    }

    /// Writes the 64-bit word at byte `offset`, which must be aligned.
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
            // SAFETY: By the type invariant the run is mapped and owned by this object.
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
