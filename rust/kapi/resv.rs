// SPDX-License-Identifier: GPL-2.0

//! Reservations: the lock of a buffer's placement, and the fences of all who use the buffer.
//!
//! Several are locked together with a [`LockSet`], which backs off where two would wait for each other.

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

/// What a fence in a reservation is for; who asks for one usage gets those before it too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Usage {
    /// The kernel moves or clears the memory: everybody waits.
    #[allow(
        dead_code,
        reason = "who moves memory waits for the end of it under the lock"
    )]
    Kernel = bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL as isize,
    /// Somebody writes to it: readers and writers wait.
    Write = bindings::dma_resv_usage_DMA_RESV_USAGE_WRITE as isize,
    /// Somebody reads it: writers wait.
    Read = bindings::dma_resv_usage_DMA_RESV_USAGE_READ as isize,
    /// Somebody uses it: waited for only by those who free or move it.
    Bookkeep = bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP as isize,
}

impl Usage {
    fn raw(self) -> bindings::dma_resv_usage {
        self as bindings::dma_resv_usage
    }
}

/// A reservation.
///
/// # Invariants
///
/// `raw` is an initialized reservation.
#[pin_data(PinnedDrop)]
pub(crate) struct Resv {
    #[pin]
    raw: Opaque<bindings::dma_resv>,
}

// SAFETY: Reservations are made to be shared.
unsafe impl Send for Resv {}
// SAFETY: As above.
unsafe impl Sync for Resv {}

impl Resv {
    /// A new one: unlocked, without fences.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                // INVARIANT: Initialized here.
                // SAFETY: The memory is ours, and pinned.
                raw <- Opaque::ffi_init(|raw| unsafe { bindings::dma_resv_init(raw) }),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn raw(&self) -> *mut bindings::dma_resv {
        self.raw.get()
    }

    /// # Safety
    ///
    /// The reservation was locked, and no other guard is made of that.
    unsafe fn guard(self: &Arc<Self>) -> Guard {
        // INVARIANT: By the safety requirement.
        Guard {
            resv: self.clone(),
            slots: Cell::new(0),
            _not_send: NotThreadSafe,
        }
    }

    /// Locks it. Not while holding another: that is what [`LockSet`] is for.
    pub(crate) fn lock(self: &Arc<Self>) -> Guard {
        // SAFETY: The reservation is valid. Without a context this does not fail.
        unsafe {
            ours::rkfd_helper_dma_resv_lock(self.raw(), null_mut(), false);
            self.guard()
        }
    }

    /// Locks it, unless a signal comes.
    pub(crate) fn lock_interruptible(self: &Arc<Self>) -> Result<Guard> {
        // SAFETY: The reservation is valid.
        to_result(unsafe { ours::rkfd_helper_dma_resv_lock(self.raw(), null_mut(), true) })?;
        // SAFETY: Locked above.
        Ok(unsafe { self.guard() })
    }

    /// Locks it if nobody else, and not this thread either, has.
    pub(crate) fn try_lock(self: &Arc<Self>) -> Option<Guard> {
        // SAFETY: The reservation is valid; the guard is made of the lock.
        unsafe { ours::rkfd_helper_dma_resv_trylock(self.raw()).then(|| self.guard()) }
    }

    /// The fences up to a usage. Without the lock some may come or go meanwhile.
    pub(crate) fn fences(&self, usage: Usage) -> Result<KVec<ARef<Fence>>> {
        let mut count = 0;
        let mut array = null_mut();
        // SAFETY: The reservation is valid; we get an array of our own with references of our own.
        to_result(unsafe {
            bindings::dma_resv_get_fences(self.raw(), usage.raw(), &mut count, &mut array)
        })?;
        let count = count as usize;
        let mut fences = KVec::new();
        let mut result = fences.reserve(count, GFP_KERNEL).map_err(Error::from);
        for i in 0..count {
            // SAFETY: The array has `count` fences, references to which are ours.
            let fence = unsafe { Fence::from_raw(*array.add(i)) };
            // All are taken over, even when there is no room for them.
            result = result.and_then(|()| Ok(fences.push(fence, GFP_KERNEL)?));
        }
        // SAFETY: The array is ours, from kmalloc or NULL.
        unsafe { bindings::kfree(array.cast()) };
        result.map(|()| fences)
    }

    /// Waits for the fences up to a usage; `false` when time is up, an error when a signal comes.
    pub(crate) fn wait(&self, usage: Usage, interruptible: bool, timeout: Timeout) -> Result<bool> {
        // SAFETY: The reservation is valid, the timeout not negative.
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
        // SAFETY: By the type invariant; guards hold a reference, so it is not locked.
        unsafe { bindings::dma_resv_fini(self.raw()) }
    }
}

/// A reservation that is locked as long as this lives.
///
/// # Invariants
///
/// This thread has locked the reservation. There is room for `slots` more fences in it.
pub(crate) struct Guard {
    resv: Arc<Resv>,
    slots: Cell<u32>,
    _not_send: NotThreadSafe,
}

impl Guard {
    /// Makes room for `count` fences more.
    pub(crate) fn reserve(&self, count: u32) -> Result {
        let slots = self.slots.get().checked_add(count).ok_or(EINVAL)?;
        if count > 0 {
            // SAFETY: The reservation is locked by the type invariant. The count is not zero.
            to_result(unsafe { bindings::dma_resv_reserve_fences(self.resv.raw(), slots) })?;
            // INVARIANT: There is room for so many.
            self.slots.set(slots);
        }
        Ok(())
    }

    /// Adds a fence. Who has not made room for it, and gets none now, waits for the fence instead: so make room
    /// before a fence is one of a job that is not pushed yet.
    pub(crate) fn add_fence(&self, fence: &Fence, usage: Usage) {
        if self.slots.get() == 0 && self.reserve(1).is_err() {
            return fence.wait();
        }
        // SAFETY: The reservation is locked, and has room for the fence, by the type invariant.
        unsafe { bindings::dma_resv_add_fence(self.resv.raw(), fence.raw(), usage.raw()) };
        // INVARIANT: At most one place was taken.
        self.slots.set(self.slots.get() - 1);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: This thread has locked it.
        unsafe { ours::rkfd_helper_dma_resv_unlock(self.resv.raw()) }
    }
}

/// The context under which a thread locks several reservations.
///
/// # Invariants
///
/// Initialized. On the heap, where it stays valid as long as anything is locked with it, even if it is
/// forgotten.
struct Context(Pin<KBox<Opaque<bindings::ww_acquire_ctx>>>);

impl Context {
    fn new() -> Result<Self> {
        // INVARIANT: Initialized here.
        let init = Opaque::ffi_init(|raw| {
            // SAFETY: The memory is ours, and pinned.
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
        // SAFETY: Initialized by the type invariant; `LockSet` unlocks what is locked with it first.
        unsafe { ours::rkfd_helper_ww_acquire_fini(self.raw()) }
    }
}

/// Several reservations, all locked.
///
/// # Invariants
///
/// All that is locked with `context` is in `guards`, which go first.
pub(crate) struct LockSet {
    guards: KVVec<Guard>,
    context: Context,
}

impl LockSet {
    /// Locks all of them; the same may be there more than once.
    pub(crate) fn new(resvs: &[Arc<Resv>], interruptible: bool) -> Result<Self> {
        let mut set = Self {
            guards: KVVec::with_capacity(resvs.len(), GFP_KERNEL)?,
            context: Context::new()?,
        };
        // The one that another thread had, which was older: it is taken first, after all was given back.
        let mut contended: Option<&Arc<Resv>> = None;
        'again: loop {
            if let Some(resv) = contended {
                // SAFETY: The reservation is valid, and nothing is locked with the context.
                to_result(unsafe {
                    ours::rkfd_helper_dma_resv_lock_slow(
                        resv.raw(),
                        set.context.raw(),
                        interruptible,
                    )
                })?;
                // SAFETY: Locked above.
                set.guards.push(unsafe { resv.guard() }, GFP_KERNEL)?;
            }
            for resv in resvs {
                // SAFETY: The reservation is valid, the context initialized.
                let result = to_result(unsafe {
                    ours::rkfd_helper_dma_resv_lock(resv.raw(), set.context.raw(), interruptible)
                });
                match result {
                    // SAFETY: Locked above.
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

    /// All guards, each once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter()
    }
}
