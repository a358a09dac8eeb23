// SPDX-License-Identifier: GPL-2.0

//! DMA fences, the consumer's side: waits and results. [`hw`] has the producer's, [`signalling`]
//! the annotation of code that fences wait for.
//!
//! C header: [`include/linux/dma-fence.h`](srctree/include/linux/dma-fence.h)
//!
//! # Examples
//!
//! ```ignore
//! let done: ARef<Fence> = job.arm().push();
//! if done.wait_interruptible(Timeout::from_ms(100))? {
//!     done.result()?;
//! } else {
//!     return Err(ETIME);
//! }
//! ```

pub(crate) mod hw;
pub(crate) mod signalling;

use core::ptr::NonNull;

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};

use crate::bindings as ours;

/// A timeout of a wait, in jiffies.
///
/// # Invariants
///
/// Not negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timeout(isize);

impl Timeout {
    /// Does not wait.
    pub(crate) const NONE: Self = Self(0);
    /// No limit (`MAX_SCHEDULE_TIMEOUT`).
    pub(crate) const FOREVER: Self = Self(isize::MAX);

    /// Returns a timeout of `ms` milliseconds, rounded up to jiffies.
    pub(crate) fn from_ms(ms: u32) -> Self {
        // SAFETY: A function of its argument, for any value.
        Self::from_jiffies(unsafe { bindings::__msecs_to_jiffies(ms) })
    }

    /// Returns the time left until `ns` on the monotonic clock, in nanoseconds. A value that is
    /// negative as a signed number is no limit, as in `amdgpu_gem_timeout()`.
    pub(crate) fn until(ns: u64) -> Self {
        let Ok(ns) = i64::try_from(ns) else {
            return Self::FOREVER;
        };
        // SAFETY: The clock can be read in any context.
        let left = ns.saturating_sub(unsafe { bindings::ktime_get() });
        match u64::try_from(left) {
            // SAFETY: A function of its argument, for any value.
            Ok(left) => Self::from_jiffies(unsafe { ours::rkfd_helper_nsecs_to_jiffies(left) }),
            Err(_) => Self::NONE,
        }
    }

    fn from_jiffies(jiffies: usize) -> Self {
        // INVARIANT: At most `isize::MAX - 1`, which is not `FOREVER` either.
        Self(isize::try_from(jiffies).map_or(isize::MAX - 1, |j| j.min(isize::MAX - 1)))
    }

    /// Returns the jiffies, as C takes them; never negative.
    pub(super) fn raw(self) -> c_long {
        self.0
    }
}

/// Converts the result of a wait in C: whether it ended before the timeout, or the error.
pub(super) fn waited(ret: c_long) -> Result<bool> {
    if ret < 0 {
        to_result(ret as c_int)?;
    }
    Ok(ret > 0)
}

/// A fence of any driver (`struct dma_fence`).
///
/// # Invariants
///
/// Initialized. Usable without the module that emitted it once it is signaled; until then its
/// producer keeps that module loaded, see [`hw::HwFence`].
#[repr(transparent)]
pub(crate) struct Fence(Opaque<bindings::dma_fence>);

// SAFETY: The last reference may be dropped in any context (`dma_fence_release()` uses RCU).
unsafe impl Send for Fence {}
// SAFETY: All methods call functions that take the lock of the fence or read atomically.
unsafe impl Sync for Fence {}

// SAFETY: `dma_fence_get/put` are an atomic count that keeps the fence allocated.
unsafe impl AlwaysRefCounted for Fence {
    fn inc_ref(&self) {
        // SAFETY: A shared reference implies that the count is not zero.
        unsafe { ours::rkfd_helper_dma_fence_get(self.raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference, so the count is not zero before.
        unsafe { ours::rkfd_helper_dma_fence_put(obj.cast().as_ptr()) }
    }
}

impl Fence {
    /// Returns a fence that is signaled without an error.
    pub(crate) fn stub() -> ARef<Self> {
        // SAFETY: The function returns a reference to an initialized static fence.
        unsafe { Self::from_raw(bindings::dma_fence_get_stub()) }
    }

    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// `raw` is an initialized fence, one reference to which is handed over.
    pub(super) unsafe fn from_raw(raw: *mut bindings::dma_fence) -> ARef<Self> {
        // SAFETY: Not NULL and owned by the safety requirement; the type is transparent.
        unsafe { ARef::from_raw(NonNull::new_unchecked(raw.cast())) }
    }

    /// Takes over a reference; `None` for NULL.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or as for [`Self::from_raw`].
    pub(super) unsafe fn from_raw_or_null(raw: *mut bindings::dma_fence) -> Option<ARef<Self>> {
        // SAFETY: Not NULL here, so the safety requirement is that of `from_raw`.
        (!raw.is_null()).then(|| unsafe { Self::from_raw(raw) })
    }

    /// Borrows a fence.
    ///
    /// # Safety
    ///
    /// `raw` is an initialized fence that lives as long as the result.
    pub(super) unsafe fn borrow_raw<'a>(raw: *mut bindings::dma_fence) -> &'a Self {
        // SAFETY: Valid for `'a` by the safety requirement; the type is transparent.
        unsafe { &*raw.cast() }
    }

    pub(super) fn raw(&self) -> *mut bindings::dma_fence {
        self.0.get()
    }

    /// Returns whether the fence is signaled.
    pub(crate) fn is_signaled(&self) -> bool {
        // SAFETY: The fence is initialized by the type invariant, and held by the reference.
        unsafe { ours::rkfd_helper_dma_fence_is_signaled(self.raw()) }
    }

    /// Returns when the fence was signaled, in nanoseconds of `CLOCK_MONOTONIC`; `None` before.
    pub(crate) fn signaled_at(&self) -> Option<i64> {
        let mut time = 0;
        // SAFETY: The fence is initialized by the type invariant, and held by the reference.
        unsafe { ours::rkfd_helper_dma_fence_signaled_at(self.raw(), &mut time) }.then_some(time)
    }

    /// Returns the result of a signaled fence; `None` before.
    pub(crate) fn status(&self) -> Option<Result> {
        // SAFETY: The fence is initialized by the type invariant, and held by the reference.
        match unsafe { bindings::dma_fence_get_status(self.raw()) } {
            0 => None,
            1 => Some(Ok(())),
            e => Some(to_result(e)),
        }
    }

    /// Returns the error of a signaled fence; no error before it is signaled.
    pub(crate) fn result(&self) -> Result {
        self.status().unwrap_or(Ok(()))
    }

    /// Returns the fence context: fences of one context are signaled in the order of their seqnos.
    pub(crate) fn context(&self) -> u64 {
        // SAFETY: The field is only written by the init of the fence.
        unsafe { (*self.raw()).context }
    }

    /// Returns the number of the fence in its context.
    pub(crate) fn seqno(&self) -> u64 {
        // SAFETY: The field is only written by the init of the fence.
        unsafe { (*self.raw()).seqno }
    }

    /// Returns the owner of the entity ([`super::sched::Entity::new`]) whose job the fence belongs
    /// to; `None` for a fence that is not a scheduler's.
    pub(crate) fn owner(&self) -> Option<usize> {
        // SAFETY: The fence is initialized; the function compares its operations.
        let fence = unsafe { ours::to_drm_sched_fence(self.raw()) };
        // SAFETY: The fence is part of that `drm_sched_fence`, so both have the same lifetime; the
        // owner is only written by its init.
        (!fence.is_null()).then(|| unsafe { (*fence).owner } as usize)
    }

    /// Waits; returns `false` on timeout. Not interruptible.
    pub(crate) fn wait_timeout(&self, timeout: Timeout) -> bool {
        // SAFETY: The fence is initialized, and the timeout not negative, as the function demands.
        let ret = unsafe { bindings::dma_fence_wait_timeout(self.raw(), false, timeout.raw()) };
        // Negative values are for interruptible waits only.
        ret != 0
    }

    /// Waits until the fence is signaled. Not interruptible.
    pub(crate) fn wait(&self) {
        self.wait_timeout(Timeout::FOREVER);
    }

    /// Waits; returns `false` on timeout, `ERESTARTSYS` on a signal.
    pub(crate) fn wait_interruptible(&self, timeout: Timeout) -> Result<bool> {
        // SAFETY: The fence is initialized, and the timeout not negative, as the function demands.
        waited(unsafe { bindings::dma_fence_wait_timeout(self.raw(), true, timeout.raw()) })
    }

    /// Maximum number of fences of [`Self::wait_any`]: the kernel allocates 32 bytes for each,
    /// contiguous, and warns beyond 4 MiB.
    pub(crate) const MAX_ANY: usize = 1 << 17;

    /// Waits for the first of several fences, and returns its index; `None` on timeout and for an
    /// empty slice, `ERESTARTSYS` on a signal, `ENOMEM` without memory or for more than
    /// [`Self::MAX_ANY`].
    pub(crate) fn wait_any<'a>(
        fences: impl ExactSizeIterator<Item = &'a Fence>,
        timeout: Timeout,
    ) -> Result<Option<usize>> {
        if fences.len() == 0 {
            return Ok(None);
        }
        if fences.len() > Self::MAX_ANY {
            return Err(ENOMEM);
        }
        let mut raw = KVec::with_capacity(fences.len(), GFP_KERNEL)?;
        for fence in fences {
            raw.push(fence.raw(), GFP_KERNEL)?;
        }
        let mut first = 0;
        // SAFETY: The array has that many fences, which `fences` holds during the call; it is not
        // empty, and the timeout is not negative.
        let ret = unsafe {
            bindings::dma_fence_wait_any_timeout(
                raw.as_mut_ptr(),
                u32::try_from(raw.len())?,
                true,
                timeout.raw(),
                &mut first,
            )
        };
        Ok(waited(ret)?.then_some(first as usize))
    }
}
