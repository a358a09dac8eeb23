// SPDX-License-Identifier: GPL-2.0

//! Reservations: the lock of a buffer's placement, and the fences of its users.
//!
//! Several reservations are locked together by a [`LockSet`], which resolves deadlocks with the
//! wound/wait algorithm of `ww_mutex`.
//!
//! C header: [`include/linux/dma-resv.h`](srctree/include/linux/dma-resv.h)
//!
//! # Examples
//!
//! ```ignore
//! // Submit a job that reads `source` and writes `target`.
//! let set = LockSet::new(&[source.clone(), target.clone()], true)?;
//! for guard in set.iter() {
//!     guard.reserve(1)?;
//! }
//! for fence in target.fences(Usage::Read)? {
//!     job.add_dependency(fence)?;
//! }
//! // From here on nothing may fail.
//! let done = job.arm().push();
//! for guard in set.iter() {
//!     guard.add_fence(&done, Usage::Write);
//! }
//! ```

use core::{cell::Cell, ptr::null_mut};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::{NotThreadSafe, Opaque},
};

use super::fence::{waited, Fence, Timeout};
use crate::bindings as ours;

/// The usage of a fence in a reservation (`enum dma_resv_usage`). A query for one usage includes
/// those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Usage {
    /// The kernel moves or clears the memory: all users wait.
    #[allow(
        dead_code,
        reason = "whoever moves memory waits for the end of it under the lock"
    )]
    Kernel = bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL as isize,
    /// A write: readers and writers wait.
    Write = bindings::dma_resv_usage_DMA_RESV_USAGE_WRITE as isize,
    /// A read: writers wait.
    Read = bindings::dma_resv_usage_DMA_RESV_USAGE_READ as isize,
    /// An access without implicit synchronization: only moving and freeing the memory waits.
    Bookkeep = bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP as isize,
}

impl Usage {
    fn raw(self) -> bindings::dma_resv_usage {
        self as bindings::dma_resv_usage
    }
}

/// A reservation (`struct dma_resv`).
///
/// # Invariants
///
/// `raw` is initialized.
#[pin_data(PinnedDrop)]
pub(crate) struct Resv {
    #[pin]
    raw: Opaque<bindings::dma_resv>,
}

// SAFETY: A reservation that is not locked may be freed by any task.
unsafe impl Send for Resv {}
// SAFETY: Methods on shared references take the lock, or use RCU.
unsafe impl Sync for Resv {}

impl Resv {
    /// Creates a reservation, unlocked and without fences. `ENOMEM` without memory.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                // INVARIANT: Initialized here.
                // SAFETY: The slot is uninitialized pinned memory.
                raw <- Opaque::ffi_init(|raw| unsafe { bindings::dma_resv_init(raw) }),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn raw(&self) -> *mut bindings::dma_resv {
        self.raw.get()
    }

    /// Makes the guard of a lock that was taken.
    ///
    /// # Safety
    ///
    /// This thread has locked the reservation, and no other guard is made of that.
    unsafe fn guard(self: &Arc<Self>) -> Guard {
        // INVARIANT: Locked by the safety requirement; no slot is known to be reserved.
        Guard {
            resv: self.clone(),
            slots: Cell::new(0),
            _not_send: NotThreadSafe,
        }
    }

    /// Locks the reservation. Deadlocks if this thread holds it or, possibly, another one: use
    /// [`LockSet`] for several.
    pub(crate) fn lock(self: &Arc<Self>) -> Guard {
        // SAFETY: The reservation is initialized by the type invariant. An uninterruptible lock
        // without a context cannot fail, so the guard is made of a lock that was taken.
        unsafe {
            ours::rkfd_helper_dma_resv_lock(self.raw(), null_mut(), false);
            self.guard()
        }
    }

    /// Locks the reservation, as [`Self::lock`]; `EINTR` on a signal.
    pub(crate) fn lock_interruptible(self: &Arc<Self>) -> Result<Guard> {
        // SAFETY: The reservation is initialized by the type invariant.
        to_result(unsafe { ours::rkfd_helper_dma_resv_lock(self.raw(), null_mut(), true) })?;
        // SAFETY: The lock was taken above.
        Ok(unsafe { self.guard() })
    }

    /// Locks the reservation if it is not locked, be it by this thread.
    pub(crate) fn try_lock(self: &Arc<Self>) -> Option<Guard> {
        // SAFETY: The reservation is initialized by the type invariant; a guard is only made if the
        // lock was taken.
        unsafe { ours::rkfd_helper_dma_resv_trylock(self.raw()).then(|| self.guard()) }
    }

    /// Returns the fences up to a usage. Without the lock, fences may be added and removed
    /// meanwhile. `ENOMEM` without memory.
    pub(crate) fn fences(&self, usage: Usage) -> Result<KVec<ARef<Fence>>> {
        let mut count = 0;
        let mut array = null_mut();
        // SAFETY: The reservation is initialized by the type invariant, and may be unlocked: the
        // function uses RCU. It returns a new array with references.
        to_result(unsafe {
            bindings::dma_resv_get_fences(self.raw(), usage.raw(), &mut count, &mut array)
        })?;
        let count = count as usize;
        let mut fences = KVec::new();
        let mut result = fences.reserve(count, GFP_KERNEL).map_err(Error::from);
        for i in 0..count {
            // SAFETY: The array has `count` fences, with a reference each that is taken over once.
            let fence = unsafe { Fence::from_raw(*array.add(i)) };
            // All are taken over, so that all are dropped when there is no memory for them.
            result = result.and_then(|()| Ok(fences.push(fence, GFP_KERNEL)?));
        }
        // SAFETY: The array is NULL or kmalloc memory that the function passed on.
        unsafe { bindings::kfree(array.cast()) };
        result.map(|()| fences)
    }

    /// Waits for the fences up to a usage; returns `false` on timeout, `ERESTARTSYS` on a signal if
    /// `interruptible`.
    pub(crate) fn wait(&self, usage: Usage, interruptible: bool, timeout: Timeout) -> Result<bool> {
        // SAFETY: The reservation is initialized by the type invariant, and may be unlocked; the
        // timeout is not negative.
        waited(unsafe {
            bindings::dma_resv_wait_timeout(
                self.raw(),
                usage.raw(),
                interruptible,
                timeout.raw() as usize,
            )
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Resv {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The reservation is initialized by the type invariant. It is not locked: guards
        // hold a reference, and one that was forgotten keeps this from running.
        unsafe { bindings::dma_resv_fini(self.raw()) }
    }
}

/// Most fences to reserve room for: `dma_resv_reserve_fences()` adds the number of fences present.
const MAX_SLOTS: u32 = 1 << 16;

/// A locked reservation. Dropping it unlocks.
///
/// # Invariants
///
/// This thread has locked the reservation, which has room for `slots` more fences.
pub(crate) struct Guard {
    resv: Arc<Resv>,
    slots: Cell<u32>,
    _not_send: NotThreadSafe,
}

impl Guard {
    /// Returns the reservation.
    pub(crate) fn resv(&self) -> &Arc<Resv> {
        &self.resv
    }

    /// Reserves room for `count` more fences. `ENOMEM` without memory, `EINVAL` beyond
    /// [`MAX_SLOTS`].
    pub(crate) fn reserve(&self, count: u32) -> Result {
        let slots = self.slots.get().checked_add(count);
        let slots = slots.filter(|n| *n <= MAX_SLOTS).ok_or(EINVAL)?;
        if count > 0 {
            // SAFETY: The reservation is locked by the type invariant, and the number is not zero.
            to_result(unsafe { bindings::dma_resv_reserve_fences(self.resv.raw(), slots) })?;
            // INVARIANT: There is room for that many beyond the fences present.
            self.slots.set(slots);
        }
        Ok(())
    }

    /// Adds a fence. Without a reserved slot, and without memory for one, it waits for the fence
    /// instead: call [`Self::reserve`] before the fence is one of a job that is not pushed yet.
    pub(crate) fn add_fence(&self, fence: &Fence, usage: Usage) {
        if self.slots.get() == 0 && self.reserve(1).is_err() {
            return fence.wait();
        }
        // SAFETY: The reservation is locked and has room by the type invariant. It takes a
        // reference to the fence.
        unsafe { bindings::dma_resv_add_fence(self.resv.raw(), fence.raw(), usage.raw()) };
        // INVARIANT: At most one slot was used: a fence of a known context replaces the old one.
        self.slots.set(self.slots.get() - 1);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this thread has locked it; the type is not `Send`.
        unsafe { ours::rkfd_helper_dma_resv_unlock(self.resv.raw()) }
    }
}

/// A context of `ww_mutex`, under which a thread locks several reservations.
///
/// # Invariants
///
/// Initialized. In heap memory, so that it stays valid for reservations that are locked with it if
/// it is forgotten.
struct Context(Pin<KBox<Opaque<bindings::ww_acquire_ctx>>>);

impl Context {
    fn new() -> Result<Self> {
        // INVARIANT: Initialized here.
        let init = Opaque::ffi_init(|raw| {
            // SAFETY: The slot is uninitialized pinned memory.
            unsafe { ours::rkfd_helper_ww_acquire_init(raw) }
        });
        Ok(Self(KBox::pin_init(init, GFP_KERNEL)?))
    }

    fn raw(&self) -> *mut bindings::ww_acquire_ctx {
        self.0.get()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: Initialized by the type invariant. `LockSet` drops all guards of locks that were
        // taken with the context before.
        unsafe { ours::rkfd_helper_ww_acquire_fini(self.raw()) }
    }
}

/// Several reservations, all locked. Dropping it unlocks them.
///
/// # Invariants
///
/// All reservations that are locked with `context` are in `guards`, which is dropped first.
pub(crate) struct LockSet {
    guards: KVVec<Guard>,
    context: Context,
}

impl LockSet {
    /// Locks all of `resvs`, in which one may occur repeatedly. `ENOMEM` without memory, `EINTR` on
    /// a signal if `interruptible`.
    pub(crate) fn new(resvs: &[Arc<Resv>], interruptible: bool) -> Result<Self> {
        let mut set = Self {
            guards: KVVec::with_capacity(resvs.len(), GFP_KERNEL)?,
            context: Context::new()?,
        };
        // The reservation on which an older context won: to be locked first, all others unlocked.
        let mut contended: Option<&Arc<Resv>> = None;
        'again: loop {
            if let Some(resv) = contended {
                // SAFETY: The reservation is initialized; nothing is locked with the context, as
                // the function demands, since the guards were dropped.
                to_result(unsafe {
                    ours::rkfd_helper_dma_resv_lock_slow(
                        resv.raw(),
                        set.context.raw(),
                        interruptible,
                    )
                })?;
                // SAFETY: The lock was taken above.
                set.guards.push(unsafe { resv.guard() }, GFP_KERNEL)?;
            }
            for resv in resvs {
                // SAFETY: The reservation and the context are initialized by their invariants.
                let result = to_result(unsafe {
                    ours::rkfd_helper_dma_resv_lock(resv.raw(), set.context.raw(), interruptible)
                });
                match result {
                    // SAFETY: The lock was taken above.
                    Ok(()) => set.guards.push(unsafe { resv.guard() }, GFP_KERNEL)?,
                    Err(e) if e == EALREADY => {}
                    Err(e) if e == EDEADLK => {
                        set.guards.clear();
                        contended = Some(resv);
                        continue 'again;
                    }
                    Err(e) => return Err(e),
                }
            }
            break;
        }
        Ok(set)
    }

    /// Returns all guards, one for each reservation.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter()
    }
}
