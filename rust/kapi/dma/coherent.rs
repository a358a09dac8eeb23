// SPDX-License-Identifier: GPL-2.0

//! Coherent DMA memory, freed at unbind.

use core::ptr::NonNull;

use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    sync::{rcu, Arc},
    transmute::{AsBytes, FromBytes},
};

use super::device::{Device, Memory, Registered};
use crate::{
    bindings as ours,
    kapi::raw_device as raw, //
};

/// Bytes that are accessed in one RCU read-side section, for which the unbind waits.
const CHUNK: usize = 64 * 1024;

/// A zeroed, cache-coherent buffer that CPU and device share, contiguous for both. Freed at unbind:
/// accesses fail with `ENODEV` then.
///
/// # Invariants
///
/// Until the unbind of its device, `cpu` points to `size` bytes of coherent memory, page aligned,
/// and `dma` is their DMA address. No reference to them exists: all accesses are volatile.
pub(crate) struct Coherent {
    memory: Registered,
    cpu: NonNull<u8>,
    dma: u64,
    size: usize,
}

// SAFETY: The memory is owned by the object, and may be freed by any task.
unsafe impl Send for Coherent {}
// SAFETY: All accesses are volatile and of naturally aligned words. Such accesses may race with
// the device and with other CPUs: the kernel's memory model makes each of them atomic.
unsafe impl Sync for Coherent {}

/// Returns the flags of an allocation for a device.
///
/// With `cma=`, `dma_alloc_contiguous()` migrates pages of processes unless the allocation must not
/// block: MMU notifiers run, which wait for locks that are held with a
/// [`NoReclaim`](crate::kapi::sched_mm::NoReclaim). The page allocator does not reclaim within that
/// in either case, and uses its reserves. With an IOMMU the function is not called if the
/// allocation may block; if not, all pages would have to be contiguous.
fn gfp(device: &Device) -> bindings::gfp_t {
    // SAFETY: Reads flags of the current task.
    if device.is_direct() && unsafe { ours::rkfd_helper_in_noreclaim() } {
        bindings::GFP_NOWAIT
    } else {
        bindings::GFP_KERNEL
    }
}

impl Coherent {
    /// Allocates `size` bytes, rounded up to whole pages. `ENOMEM` on failure, `ENODEV` after the
    /// unbind. MMU notifiers may run, unless there is a
    /// [`NoReclaim`](crate::kapi::sched_mm::NoReclaim).
    pub(crate) fn new(device: &Arc<Device>, size: usize) -> Result<Self> {
        let size = size
            .max(1)
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(EINVAL)?;
        let gfp = gfp(device) | bindings::__GFP_ZERO;
        let mut dma = 0;
        let mut cpu = NonNull::dangling();
        // SAFETY: The closure returns what it has allocated for its argument.
        let memory = unsafe {
            Registered::new(device, |dev| {
                // SAFETY: `dev` is valid, and bound with a mask that does not change; the size is
                // not zero, and NULL is handled below.
                let addr = bindings::dma_alloc_attrs(raw(dev), size, &mut dma, gfp, 0);
                cpu = NonNull::new(addr.cast::<u8>()).ok_or(ENOMEM)?;
                Ok(Memory::Coherent { cpu, dma, size })
            })?
        };
        // INVARIANT: `dma_alloc_attrs()` returned both addresses for this size.
        Ok(Self {
            memory,
            cpu,
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

    /// Begins a series of accesses, during which an unbind waits: it must be short, and must not
    /// sleep. `ENODEV` after the unbind.
    pub(crate) fn access(&self) -> Result<Access<'_>> {
        // INVARIANT: The guard was taken before the unbind released the memory.
        Ok(Access {
            _guard: self.memory.device().read_lock()?,
            memory: self,
        })
    }

    /// Reads the dword at byte `offset`. `EINVAL` out of bounds or unaligned, `ENODEV` after the
    /// unbind, as all accesses.
    pub(crate) fn read32(&self, offset: usize) -> Result<u32> {
        self.access()?.read32(offset)
    }

    /// Writes the dword at byte `offset`.
    pub(crate) fn write32(&self, offset: usize, value: u32) -> Result {
        self.access()?.write32(offset, value)
    }

    /// Writes dwords from byte `offset` on, in ascending order.
    pub(crate) fn write32s(&self, offset: usize, from: &[u32]) -> Result {
        let mut at = offset;
        for chunk in from.chunks(CHUNK / 4) {
            self.access()?.write32s(at, chunk)?;
            at += size_of_val(chunk);
        }
        Ok(())
    }

    /// Reads dwords from byte `offset` on.
    pub(crate) fn read32s(&self, offset: usize, to: &mut [u32]) -> Result {
        let mut at = offset;
        for chunk in to.chunks_mut(CHUNK / 4) {
            self.access()?.read32s(at, chunk)?;
            at += size_of_val(chunk);
        }
        Ok(())
    }

    /// Copies `from` to byte `offset`, which must be a multiple of 8.
    pub(crate) fn write_bytes(&self, offset: usize, from: &[u8]) -> Result {
        if offset % 8 != 0 {
            return Err(EINVAL);
        }
        let mut at = offset;
        for chunk in from.chunks(CHUNK) {
            self.access()?.write_bytes(at, chunk)?;
            at += chunk.len();
        }
        Ok(())
    }
}

/// A series of accesses to coherent memory, in an RCU read-side section.
///
/// # Invariants
///
/// The unbind has not freed the memory when the guard was taken.
pub(crate) struct Access<'a> {
    memory: &'a Coherent,
    _guard: rcu::Guard,
}

impl Access<'_> {
    /// Returns the address of byte `offset`, valid for `count` times `T`. `EINVAL` out of bounds or
    /// unaligned.
    fn at<T>(&self, offset: usize, count: usize) -> Result<*mut T> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(EINVAL)?;
        let end = offset.checked_add(bytes).ok_or(EINVAL)?;
        if end > self.memory.size || offset % align_of::<T>() != 0 {
            return Err(EINVAL);
        }
        // SAFETY: `offset..end` lies inside the allocation by the check above.
        Ok(unsafe { self.memory.cpu.as_ptr().add(offset) }.cast())
    }

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let ptr = self.at::<T>(offset, 1)?;
        // SAFETY: `at()` returns a valid, aligned address of bytes that are any `T`; the guard
        // keeps the memory.
        Ok(unsafe { ptr.read_volatile() })
    }

    fn write<T: AsBytes>(&self, offset: usize, value: T) -> Result {
        let ptr = self.at::<T>(offset, 1)?;
        // SAFETY: `at()` returns a valid, aligned address; the guard keeps the memory.
        unsafe { ptr.write_volatile(value) };
        Ok(())
    }

    /// Reads the dword at byte `offset`. `EINVAL` out of bounds or unaligned, as all accesses.
    pub(crate) fn read32(&self, offset: usize) -> Result<u32> {
        self.read(offset)
    }

    /// Writes the dword at byte `offset`.
    pub(crate) fn write32(&self, offset: usize, value: u32) -> Result {
        self.write(offset, value)
    }

    /// Reads the qword at byte `offset`.
    pub(crate) fn read64(&self, offset: usize) -> Result<u64> {
        self.read(offset)
    }

    /// Writes the qword at byte `offset`.
    pub(crate) fn write64(&self, offset: usize, value: u64) -> Result {
        self.write(offset, value)
    }

    /// Writes dwords from byte `offset` on, in ascending order.
    pub(crate) fn write32s(&self, offset: usize, from: &[u32]) -> Result {
        let ptr = self.at::<u32>(offset, from.len())?;
        for (i, value) in from.iter().enumerate() {
            // SAFETY: `at()` returns the address of `from.len()` dwords; the guard keeps them.
            unsafe { ptr.add(i).write_volatile(*value) };
        }
        Ok(())
    }

    /// Writes `value` to `count` dwords from byte `offset` on: qwords, as far as they are aligned.
    pub(crate) fn fill32(&self, offset: usize, count: usize, value: u32) -> Result {
        let ptr = self.at::<u32>(offset, count)?;
        let head = (offset / 4 % 2).min(count);
        let qwords = (count - head) / 2;
        let tail = head + 2 * qwords;
        for i in Iterator::chain(0..head, tail..count) {
            // SAFETY: `at()` returns the address of `count` dwords; the guard keeps them.
            unsafe { ptr.add(i).write_volatile(value) };
        }
        let value = u64::from(value) << 32 | u64::from(value);
        // SAFETY: `head` is at most `count`.
        let ptr = unsafe { ptr.add(head) }.cast::<u64>();
        for i in 0..qwords {
            // SAFETY: `at()` returns the address of `count` dwords, which the guard keeps: the
            // qwords end at dword `tail`, which is at most `count`. The first is aligned: the
            // memory is page aligned by the type invariant, and `offset + 4 * head` is a multiple
            // of 8.
            unsafe { ptr.add(i).write_volatile(value) };
        }
        Ok(())
    }

    fn read32s(&self, offset: usize, to: &mut [u32]) -> Result {
        let ptr = self.at::<u32>(offset, to.len())?;
        for (i, value) in to.iter_mut().enumerate() {
            // SAFETY: `at()` returns the address of `to.len()` dwords; the guard keeps them.
            *value = unsafe { ptr.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies `from` to byte `offset`: whole qwords, then the bytes of the rest.
    fn write_bytes(&self, offset: usize, from: &[u8]) -> Result {
        let words = from.chunks_exact(8);
        let tail = words.remainder();
        let ptr = self.at::<u64>(offset, words.len())?;
        for (i, word) in words.enumerate() {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            // SAFETY: `at()` returns the address of that many qwords; the guard keeps them.
            unsafe { ptr.add(i).write_volatile(word) };
        }
        let ptr = self.at::<u8>(offset + from.len() - tail.len(), tail.len())?;
        for (i, byte) in tail.iter().enumerate() {
            // SAFETY: `at()` returns the address of `tail.len()` bytes; the guard keeps them.
            unsafe { ptr.add(i).write_volatile(*byte) };
        }
        Ok(())
    }
}
