// SPDX-License-Identifier: GPL-2.0

//! DMA fences: what is waited for, and the driver's own that say when a piece of hardware work is done.

use core::ptr::NonNull;

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        atomic::{Atomic, Relaxed},
    },
    types::Opaque,
};

use crate::bindings as ours;

/// How long a wait may take, in jiffies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timeout(isize);

impl Timeout {
    /// Only looks.
    pub(crate) const NONE: Self = Self(0);
    /// As long as it takes.
    pub(crate) const FOREVER: Self = Self(isize::MAX);

    /// At least so many milliseconds.
    pub(crate) fn from_ms(ms: u32) -> Self {
        // SAFETY: A pure function.
        Self::from_jiffies(unsafe { bindings::__msecs_to_jiffies(ms) })
    }

    /// Until a point of the monotonic clock, in nanoseconds, as user space gives it: what is negative as a
    /// signed number is never.
    pub(crate) fn until(ns: u64) -> Self {
        let Ok(ns) = i64::try_from(ns) else {
            return Self::FOREVER;
        };
        // SAFETY: Reading the clock has no preconditions.
        let left = ns.saturating_sub(unsafe { bindings::ktime_get() });
        match u64::try_from(left) {
            // SAFETY: A pure function.
            Ok(left) => Self::from_jiffies(unsafe { ours::rkfd_helper_nsecs_to_jiffies(left) }),
            Err(_) => Self::NONE,
        }
    }

    fn from_jiffies(jiffies: usize) -> Self {
        Self(isize::try_from(jiffies).map_or(isize::MAX - 1, |j| j.min(isize::MAX - 1)))
    }

    /// The number that C takes; never negative.
    pub(super) fn raw(self) -> c_long {
        self.0
    }
}

/// Turns what a wait of C returned into: done, or timed out, or interrupted.
pub(super) fn waited(ret: c_long) -> Result<bool> {
    if ret < 0 {
        to_result(ret as c_int)?;
    }
    Ok(ret > 0)
}

/// Something that happens once: anybody's fence.
///
/// # Invariants
///
/// An initialized fence. It does not need the module that made it: that is the promise of whoever makes fences,
/// see [`HwFence`] for ours.
#[repr(transparent)]
pub(crate) struct Fence(Opaque<bindings::dma_fence>);

// SAFETY: Fences are made to be shared.
unsafe impl Send for Fence {}
// SAFETY: As above.
unsafe impl Sync for Fence {}

// SAFETY: The count is that of `dma_fence_get/put`.
unsafe impl AlwaysRefCounted for Fence {
    fn inc_ref(&self) {
        // SAFETY: The fence is valid by the type invariant.
        unsafe { ours::rkfd_helper_dma_fence_get(self.raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { ours::rkfd_helper_dma_fence_put(obj.cast().as_ptr()) }
    }
}

impl Fence {
    /// A fence that is signaled, without an error.
    pub(crate) fn stub() -> ARef<Self> {
        // SAFETY: The stub is static; we get a reference.
        unsafe { Self::from_raw(bindings::dma_fence_get_stub()) }
    }

    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// `raw` is an initialized fence, a reference to which is handed over.
    pub(super) unsafe fn from_raw(raw: *mut bindings::dma_fence) -> ARef<Self> {
        // SAFETY: By the safety requirement; the layout is the same.
        unsafe { ARef::from_raw(NonNull::new_unchecked(raw.cast())) }
    }

    /// Takes over a reference, if there is one.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or as for [`Self::from_raw`].
    pub(super) unsafe fn from_raw_or_null(raw: *mut bindings::dma_fence) -> Option<ARef<Self>> {
        // SAFETY: By the safety requirement.
        (!raw.is_null()).then(|| unsafe { Self::from_raw(raw) })
    }

    /// # Safety
    ///
    /// `raw` is an initialized fence that lives as long as the result.
    pub(super) unsafe fn borrow_raw<'a>(raw: *mut bindings::dma_fence) -> &'a Self {
        // SAFETY: By the safety requirement; the layout is the same.
        unsafe { &*raw.cast() }
    }

    pub(super) fn raw(&self) -> *mut bindings::dma_fence {
        self.0.get()
    }

    /// Has it happened?
    pub(crate) fn is_signaled(&self) -> bool {
        // SAFETY: The fence is valid.
        unsafe { ours::rkfd_helper_dma_fence_is_signaled(self.raw()) }
    }

    /// How it ended; `None` as long as it has not.
    pub(crate) fn status(&self) -> Option<Result> {
        // SAFETY: The fence is valid.
        match unsafe { bindings::dma_fence_get_status(self.raw()) } {
            0 => None,
            1 => Some(Ok(())),
            e => Some(to_result(e)),
        }
    }

    /// The error it ended with; as long as it has not ended there is none.
    pub(crate) fn result(&self) -> Result {
        self.status().unwrap_or(Ok(()))
    }

    /// Which series of fences it is part of.
    pub(crate) fn context(&self) -> u64 {
        // SAFETY: Written before the fence was shared.
        unsafe { (*self.raw()).context }
    }

    /// Whose job it is the end or the start of, see [`super::sched::Entity::new`]; `None` if it is no
    /// scheduler's.
    pub(crate) fn owner(&self) -> Option<usize> {
        // SAFETY: The fence is valid; the function looks at what kind it is.
        let fence = unsafe { ours::to_drm_sched_fence(self.raw()) };
        // SAFETY: Such a fence is as valid as the part of it that we have; the owner never changes.
        (!fence.is_null()).then(|| unsafe { (*fence).owner } as usize)
    }

    /// Waits; `false` when time is up.
    pub(crate) fn wait_timeout(&self, timeout: Timeout) -> bool {
        // SAFETY: The fence is valid, the timeout not negative.
        let ret = unsafe { bindings::dma_fence_wait_timeout(self.raw(), false, timeout.raw()) };
        // A wait that nothing interrupts has no other outcome.
        ret != 0
    }

    /// Waits until it is signaled.
    pub(crate) fn wait(&self) {
        self.wait_timeout(Timeout::FOREVER);
    }

    /// Waits; `false` when time is up, an error when a signal comes.
    pub(crate) fn wait_interruptible(&self, timeout: Timeout) -> Result<bool> {
        // SAFETY: The fence is valid, the timeout not negative.
        waited(unsafe { bindings::dma_fence_wait_timeout(self.raw(), true, timeout.raw()) })
    }

    /// Waits for the first of several; `None` when time is up, an error when a signal comes.
    pub(crate) fn wait_any(fences: &[ARef<Fence>], timeout: Timeout) -> Result<Option<usize>> {
        if fences.is_empty() {
            return Ok(None);
        }
        let mut raw = KVec::with_capacity(fences.len(), GFP_KERNEL)?;
        for fence in fences {
            raw.push(fence.raw(), GFP_KERNEL)?;
        }
        let mut first = 0;
        // SAFETY: As many fences as are said, all of which `fences` holds; the timeout is not negative.
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

/// A series of the driver's own fences, which are signaled in the order of their coming.
pub(crate) struct Timeline {
    name: &'static CStr,
    context: u64,
    last: Atomic<u64>,
}

impl Timeline {
    /// A new series; the name is for people.
    pub(crate) fn new(name: &'static CStr) -> Self {
        Self {
            name,
            // SAFETY: Counts up, nothing else.
            context: unsafe { bindings::dma_fence_context_alloc(1) },
            last: Atomic::new(0),
        }
    }

    /// The next fence, with memory that was allocated before: cannot fail.
    pub(crate) fn emit(&self, memory: UnusedFence) -> HwFence {
        let raw: *mut Memory = KBox::into_raw(memory.0);
        let seqno = self.last.fetch_add(1, Relaxed).wrapping_add(1);
        // SAFETY: The memory is ours alone; the operations are static. NULL makes the fence use its own
        // lock. The name is written before anybody knows the fence.
        unsafe {
            (*raw).name = self.name;
            bindings::dma_fence_init64(
                (*raw).fence.get(),
                &raw const OPS,
                core::ptr::null_mut(),
                self.context,
                seqno,
            );
        }
        // INVARIANT: Initialized above, not signaled.
        // SAFETY: The reference of its birth is handed over. It is the first field of memory of the
        // allocator that `dma_fence_free` gives it back to.
        HwFence(unsafe { Fence::from_raw(raw.cast()) })
    }
}

/// The memory of a fence of ours.
#[repr(C)]
struct Memory {
    fence: Opaque<bindings::dma_fence>,
    name: &'static CStr,
}

/// Memory for a fence to come, for those who must not fail or allocate when they emit it.
pub(crate) struct UnusedFence(KBox<Memory>);

// SAFETY: Memory, nothing else.
unsafe impl Send for UnusedFence {}
// SAFETY: As above.
unsafe impl Sync for UnusedFence {}

impl UnusedFence {
    /// Allocates it.
    pub(crate) fn new() -> Result<Self> {
        let memory = Memory {
            fence: Opaque::zeroed(),
            name: c"",
        };
        Ok(Self(KBox::new(memory, GFP_KERNEL)?))
    }
}

/// The driver's side of a fence of its own: whoever has it must signal it. One that is dropped before is
/// signaled with an error, so that nobody waits forever.
///
/// # Invariants
///
/// A fence that [`Timeline::emit`] made, of which this is the only owner. As long as it is not signaled it uses
/// code and data of the module; afterwards C does not call us any more for it, so that it may outlive the module
/// (there is neither a release nor a wait operation). Who calls us holds the RCU read lock, and the kernel waits
/// for all of those before it frees the memory of a module. What is left is a fence that is neither signaled nor
/// dropped: forgetting one is as forbidden as it is with registrations.
pub(crate) struct HwFence(ARef<Fence>);

impl HwFence {
    /// What others wait for.
    pub(crate) fn fence(&self) -> &ARef<Fence> {
        &self.0
    }

    /// The work is done. From any context; `false` if the fence had been signaled before.
    pub(crate) fn signal(&self) -> bool {
        // SAFETY: The fence is valid.
        unsafe { ours::rkfd_helper_dma_fence_end(self.0.raw(), 0) }
    }

    /// The work has failed. From any context; `false` if the fence had been signaled before.
    pub(crate) fn fail(&self, error: Error) -> bool {
        // SAFETY: The fence is valid, and an `Error` is a negative error number.
        unsafe { ours::rkfd_helper_dma_fence_end(self.0.raw(), error.to_errno()) }
    }
}

impl Drop for HwFence {
    fn drop(&mut self) {
        if !self.0.is_signaled() {
            self.fail(ECANCELED);
        }
    }
}

static OPS: bindings::dma_fence_ops = bindings::dma_fence_ops {
    get_driver_name: Some(driver_name),
    get_timeline_name: Some(timeline_name),
    ..pin_init::zeroed()
};

/// # Safety
///
/// May be called with anything.
unsafe extern "C" fn driver_name(_fence: *mut bindings::dma_fence) -> *const c_char {
    <crate::LocalModule as kernel::ModuleMetadata>::NAME.as_char_ptr()
}

/// # Safety
///
/// Called with a fence of ours.
unsafe extern "C" fn timeline_name(fence: *mut bindings::dma_fence) -> *const c_char {
    // SAFETY: Fences of ours are the first field of a `Memory`, whose name was written first of all.
    unsafe { (*fence.cast::<Memory>()).name.as_char_ptr() }
}
