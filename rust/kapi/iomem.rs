// SPDX-License-Identifier: GPL-2.0

//! A prefetchable PCI BAR, mapped write-combined until the device is unbound.
//!
//! C headers: [`include/linux/io.h`](srctree/include/linux/io.h),
//! [`include/linux/pci.h`](srctree/include/linux/pci.h)
//!
//! # Examples
//!
//! ```ignore
//! let vram = WcBar::new(pdev, 0, c"rkfd/vram")?;
//! vram.zero(0, 4096)?;
//! vram.write32s(0, &packet)?;
//! ```

use core::ptr::NonNull;

use kernel::{
    bindings,
    device::{Bound, Core},
    devres::Devres,
    pci,
    prelude::*,
    sync::aref::ARef,
    transmute::AsBytes, //
};

use super::pci::raw;
use crate::bindings as ours;

/// Bytes that are accessed in one RCU read-side section, which the unbind waits for.
const CHUNK: usize = 64 * 1024;

/// The mapping of a BAR.
///
/// # Invariants
///
/// `cpu` is the result of `ioremap_wc()` for `size` bytes of `bar`, whose region this object has
/// requested.
struct Mapping {
    pdev: ARef<pci::Device>,
    bar: i32,
    cpu: NonNull<u8>,
    size: usize,
}

// SAFETY: The mapping may be released by any task that can sleep.
unsafe impl Send for Mapping {}
// SAFETY: All accesses are I/O accesses (`readl()` and the like), which may race.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the region is mapped and requested; both are undone once.
        unsafe {
            bindings::iounmap(self.cpu.as_ptr().cast());
            bindings::pci_release_region(raw(&self.pdev), self.bar);
        }
    }
}

/// A write-combined mapping of a whole BAR.
pub(crate) struct WcBar {
    map: Devres<Mapping>,
    phys: u64,
    size: usize,
}

impl WcBar {
    /// Requests and maps BAR `bar`. `ENODEV` if it has no size, `EBUSY` if it is in use, `ENOMEM`
    /// if it cannot be mapped.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>, bar: u32, name: &'static CStr) -> Result<Self> {
        let phys = pdev.resource_start(bar)?;
        let size = usize::try_from(pdev.resource_len(bar)?)?;
        if size == 0 {
            return Err(ENODEV);
        }
        let num = i32::try_from(bar)?;
        let normal: &pci::Device = pdev;
        // SAFETY: The device is valid; `resource_start` has checked the number of the BAR; the name
        // is static, as the resource refers to it.
        kernel::error::to_result(unsafe {
            bindings::pci_request_region(raw(normal), num, name.as_char_ptr())
        })?;
        // SAFETY: The range is a BAR with a size, which was requested above.
        let cpu = unsafe { bindings::ioremap_wc(phys, size) };
        let Some(cpu) = NonNull::new(cpu.cast::<u8>()) else {
            // SAFETY: The region was requested above, and is not mapped.
            unsafe { bindings::pci_release_region(raw(normal), num) };
            return Err(ENOMEM);
        };
        // INVARIANT: Mapped and requested above.
        let mapping = Mapping {
            pdev: normal.into(),
            bar: num,
            cpu,
            size,
        };
        let bound: &pci::Device<Bound> = pdev;
        Ok(Self {
            map: Devres::new(bound.as_ref(), mapping)?,
            phys,
            size,
        })
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the physical address of the BAR.
    pub(crate) fn phys(&self) -> u64 {
        self.phys
    }

    /// Calls `f` with the address of `len` mapped bytes at `offset`. `EINVAL` out of bounds,
    /// `ENODEV` after the unbind; so do all accesses.
    fn with<R>(&self, offset: usize, len: usize, f: impl FnOnce(*mut u8) -> R) -> Result<R> {
        if offset.checked_add(len).is_none_or(|end| end > self.size) {
            return Err(EINVAL);
        }
        let map = self.map.try_access().ok_or(ENODEV)?;
        debug_assert!(map.size == self.size);
        // SAFETY: The range is part of the mapping, as checked above; the guard keeps the mapping
        // during `f`.
        Ok(f(unsafe { map.cpu.as_ptr().add(offset) }))
    }

    /// Reads the 64-bit word at byte `offset`, which must be aligned.
    pub(crate) fn read64(&self, offset: usize) -> Result<u64> {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        // SAFETY: `with()` passes the address of 8 mapped bytes, aligned as the mapping and
        // `offset`.
        self.with(offset, 8, |p| unsafe { bindings::readq(p.cast()) })
    }

    /// Reads the 32-bit word at byte `offset`, which must be aligned.
    pub(crate) fn read32(&self, offset: usize) -> Result<u32> {
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        // SAFETY: `with()` passes the address of 4 mapped bytes, aligned as the mapping and
        // `offset`.
        self.with(offset, 4, |p| unsafe { bindings::readl(p.cast()) })
    }

    /// Reads 32-bit words from byte `offset` on, which must be aligned.
    pub(crate) fn read32s(&self, offset: usize, to: &mut [u32]) -> Result {
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        let mut at = offset;
        for chunk in to.chunks_mut(CHUNK / 4) {
            let len = size_of_val(chunk);
            self.with(at, len, |p| {
                for (i, value) in chunk.iter_mut().enumerate() {
                    // SAFETY: `with()` passes `len` mapped bytes, which are the words of `chunk`.
                    *value = unsafe { bindings::readl(p.add(i * 4).cast()) };
                }
            })?;
            at += len;
        }
        Ok(())
    }

    /// Writes the 32-bit word at byte `offset`, which must be aligned.
    pub(crate) fn write32(&self, offset: usize, value: u32) -> Result {
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        // SAFETY: `with()` passes the address of 4 mapped bytes, aligned as the mapping and
        // `offset`.
        self.with(offset, 4, |p| unsafe { bindings::writel(value, p.cast()) })
    }

    /// Writes 32-bit words from byte `offset` on, which must be aligned.
    pub(crate) fn write32s(&self, offset: usize, from: &[u32]) -> Result {
        if offset % 4 != 0 {
            return Err(EINVAL);
        }
        self.write(offset, AsBytes::as_bytes(from))
    }

    /// Writes 64-bit words from byte `offset` on, which must be aligned. Each is written at once.
    pub(crate) fn write64s(&self, offset: usize, from: &[u64]) -> Result {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        let mut at = offset;
        for chunk in from.chunks(CHUNK / 8) {
            let len = size_of_val(chunk);
            self.with(at, len, |p| {
                // SAFETY: `with()` passes the address of `len` mapped bytes, aligned as the mapping
                // and `offset`, which are the words of `chunk`.
                unsafe { ours::rkfd_helper_copy64_io(p.cast(), chunk.as_ptr(), chunk.len()) }
            })?;
            at += len;
        }
        Ok(())
    }

    /// Writes the same 64-bit word `count` times, as [`Self::write64s`].
    pub(crate) fn fill64(&self, offset: usize, count: usize, value: u64) -> Result {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        let len = count.checked_mul(8).ok_or(EINVAL)?;
        let mut done = 0;
        while done < len {
            let n = CHUNK.min(len - done);
            self.with(offset.checked_add(done).ok_or(EINVAL)?, n, |p| {
                // SAFETY: `with()` passes the address of `n` mapped bytes, aligned as the mapping
                // and `offset`.
                unsafe { ours::rkfd_helper_fill64_io(p.cast(), value, n / 8) }
            })?;
            done += n;
        }
        Ok(())
    }

    /// Writes the 64-bit word at byte `offset`, which must be aligned.
    pub(crate) fn write64(&self, offset: usize, value: u64) -> Result {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        // SAFETY: `with()` passes the address of 8 mapped bytes, aligned as the mapping and
        // `offset`.
        self.with(offset, 8, |p| unsafe { bindings::writeq(value, p.cast()) })
    }

    /// Zeroes `len` bytes from byte `offset` on.
    pub(crate) fn zero(&self, offset: usize, len: usize) -> Result {
        let mut done = 0;
        while done < len {
            let n = CHUNK.min(len - done);
            self.with(offset.checked_add(done).ok_or(EINVAL)?, n, |p| {
                // SAFETY: `with()` passes the address of `n` mapped bytes.
                unsafe { bindings::memset_io(p.cast(), 0, n) }
            })?;
            done += n;
        }
        Ok(())
    }

    /// Copies device memory from byte `offset` on into `data`.
    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) -> Result {
        let mut at = offset;
        for chunk in data.chunks_mut(CHUNK) {
            self.with(at, chunk.len(), |p| {
                // SAFETY: `with()` passes the address of `chunk.len()` mapped bytes, and `chunk` is
                // normal memory of that size.
                unsafe { bindings::memcpy_fromio(chunk.as_mut_ptr().cast(), p.cast(), chunk.len()) }
            })?;
            at += chunk.len();
        }
        Ok(())
    }

    /// Copies `data` to device memory from byte `offset` on.
    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result {
        let mut at = offset;
        for chunk in data.chunks(CHUNK) {
            self.with(at, chunk.len(), |p| {
                // SAFETY: `with()` passes the address of `chunk.len()` mapped bytes, and `chunk` is
                // normal memory of that size.
                unsafe { bindings::memcpy_toio(p.cast(), chunk.as_ptr().cast(), chunk.len()) }
            })?;
            at += chunk.len();
        }
        Ok(())
    }
}
