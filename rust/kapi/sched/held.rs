// SPDX-License-Identifier: GPL-2.0

//! Objects that are kept until fences have signaled, and dropped on the work queue of
//! [`WorkqueueGuard`](super::WorkqueueGuard). Each waits by a callback of one fence after another:
//! the cost of others does not depend on how many wait.
//!
//! C header: [`include/linux/dma-fence.h`](srctree/include/linux/dma-fence.h)

use core::mem::MaybeUninit;

use kernel::{
    bindings, container_of, impl_has_work, new_work,
    prelude::*,
    sync::aref::ARef,
    types::Opaque,
    workqueue::{Work, WorkItem},
};

use super::reaper::Reaper;
use crate::kapi::fence::Fence;

/// Memory for an object that fences keep.
pub(crate) struct Holder<T: Send + 'static> {
    memory: KBox<MaybeUninit<Held<T>>>,
    reaper: Reaper,
}

impl<T: Send + 'static> Holder<T> {
    /// Allocates it. `ENOMEM` without memory, `ENODEV` without a work queue.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            memory: KBox::new_uninit(GFP_KERNEL)?,
            reaper: Reaper::new()?,
        })
    }

    /// Drops `value` on the work queue when all fences have signaled. Does not allocate.
    pub(crate) fn drop_after(self, value: T, until: KVec<ARef<Fence>>) {
        let Ok(held) = self.memory.write_pin_init(pin_init!(Held {
            callback: Opaque::zeroed(),
            work <- new_work!("rkfd_held"),
            value,
            until,
            reaper: self.reaper,
        }));
        if let Some(held) = Held::wait(held) {
            Held::enqueue(held);
        }
    }
}

/// An object and the fences that keep it.
///
/// # Invariants
///
/// `callback` is in the list of at most one fence, the last of `until`. The callback then owns this
/// object.
#[pin_data]
struct Held<T: Send + 'static> {
    callback: Opaque<bindings::dma_fence_cb>,
    #[pin]
    work: Work<Self>,
    // Field order: `value` may run code of the module.
    value: T,
    until: KVec<ARef<Fence>>,
    reaper: Reaper,
}

impl_has_work! {
    impl{T: Send + 'static} HasWork<Self> for Held<T> { self.work }
}

// SAFETY: The callback is only used by its one owner; all else is `Send`.
unsafe impl<T: Send + 'static> Send for Held<T> {}

impl<T: Send + 'static> Held<T> {
    /// Waits for the next fence, if one is left: passes the object to its callback. Returns it
    /// otherwise.
    fn wait(mut this: Pin<KBox<Self>>) -> Option<Pin<KBox<Self>>> {
        loop {
            let until = this.as_mut().project().until;
            // A reference of this function's own: once the callback was added it may run, and drop
            // the others.
            let Some(fence) = until.last().cloned() else {
                return Some(this);
            };
            // SAFETY: The object is not moved, and pinned again below or by the callback.
            let raw = KBox::into_raw(unsafe { Pin::into_inner_unchecked(this) });
            // SAFETY: The object is valid. INVARIANT: The callback is in no list, since this
            // function owns the object.
            let callback = unsafe { (*raw).callback.get() };
            // SAFETY: Fence and callback are valid; the latter until it was called, as it owns the
            // object that it is part of.
            let ret = unsafe {
                bindings::dma_fence_add_callback(fence.raw(), callback, Some(Self::signaled))
            };
            if ret == 0 {
                return None;
            }
            // The fence has signaled.
            //
            // SAFETY: The callback was not added: the object is still that of `into_raw` above.
            this = unsafe { Pin::new_unchecked(KBox::from_raw(raw)) };
            drop(this.as_mut().project().until.pop());
        }
    }

    /// # Safety
    ///
    /// Called by the kernel, with the lock of the fence, for a callback that `wait` has added.
    unsafe extern "C" fn signaled(
        _fence: *mut bindings::dma_fence,
        callback: *mut bindings::dma_fence_cb,
    ) {
        let callback: *mut Opaque<bindings::dma_fence_cb> = callback.cast();
        // SAFETY: Only `wait` passes this function, with the field of an object.
        let raw = unsafe { container_of!(callback, Self, callback) };
        // SAFETY: By the type invariant the callback owns the object, which `wait` did not move.
        // INVARIANT: C has removed the callback from the list.
        let held = unsafe { Pin::new_unchecked(KBox::from_raw(raw)) };
        Self::enqueue(held);
    }

    fn enqueue(this: Pin<KBox<Self>>) {
        // SAFETY: Used for this item only, which holds the reaper.
        let queue = unsafe { this.reaper.queue() };
        queue.enqueue(this);
    }
}

impl<T: Send + 'static> WorkItem for Held<T> {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        drop(Self::wait(this));
    }
}
