// SPDX-License-Identifier: GPL-2.0

//! Work queues that the module creates and destroys.
//!
//! `kernel::workqueue` has the queues of the system only. [`Builder`] and [`OwnedQueue`] are shaped
//! as that file would grow them.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! # Examples
//!
//! ```ignore
//! // One item at a time, in the order of queueing; makes progress under memory pressure.
//! let reset = Builder::ordered().mem_reclaim().build(c"rkfd_reset")?;
//! // Any number of items at a time, frozen while the system sleeps.
//! let restore = Builder::unbound().freezable().build(c"rkfd_restore")?;
//! // At most four items at a time.
//! let copy = Builder::unbound().max_active(4).build(c"rkfd_copy")?;
//!
//! restore.enqueue(work);
//! ```

use core::{marker::PhantomData, ops::Deref, ptr::NonNull};

use kernel::{bindings, prelude::*, workqueue::Queue};

use crate::bindings as ours;

/// Flags and limits of a work queue that is to be created.
#[derive(Clone, Copy)]
pub(crate) struct Builder {
    flags: c_uint,
    max_active: c_int,
}

impl Builder {
    /// Items run on any CPU and at the same time (`WQ_UNBOUND`, default limit).
    pub(crate) const fn unbound() -> Self {
        Self {
            flags: bindings::wq_flags_WQ_UNBOUND,
            max_active: 0,
        }
    }

    /// Items run one at a time, in the order of queueing (`alloc_ordered_workqueue()`).
    pub(crate) const fn ordered() -> Self {
        Self {
            flags: bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags___WQ_ORDERED,
            max_active: 1,
        }
    }

    /// Adds a rescuer thread: items make progress under memory pressure (`WQ_MEM_RECLAIM`). They
    /// must not wait for items of a queue without one.
    pub(crate) const fn mem_reclaim(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_MEM_RECLAIM;
        self
    }

    /// No item starts while user space is frozen (`WQ_FREEZABLE`).
    pub(crate) const fn freezable(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_FREEZABLE;
        self
    }

    /// Limits the number of items that run at the same time; no effect on an ordered queue, which
    /// stays at one.
    #[allow(dead_code, reason = "part of the interface, without a user here")]
    pub(crate) const fn max_active(mut self, items: u16) -> Self {
        if self.flags & bindings::wq_flags___WQ_ORDERED == 0 {
            self.max_active = items as c_int;
        }
        self
    }

    /// Creates the queue; `ENOMEM` on failure. `name` is that of the worker in `ps` and `wq_dump`.
    pub(crate) fn build(self, name: &CStr) -> Result<OwnedQueue> {
        // SAFETY: `name` is NUL-terminated, valid for the call, and copied by it; flags and limit
        // are a combination that `alloc_workqueue()` accepts by construction.
        let raw = unsafe {
            ours::rkfd_helper_alloc_workqueue(name.as_char_ptr(), self.flags, self.max_active)
        };
        // INVARIANT: A new queue, which nobody else destroys.
        NonNull::new(raw.cast()).map(OwnedQueue).ok_or(ENOMEM)
    }
}

/// A work queue of the module's own. Dropping it waits until all queued items have run.
///
/// # Invariants
///
/// The pointer is a work queue that this object owns.
pub(crate) struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: `destroy_workqueue()` may be called by any task that can sleep.
unsafe impl Send for OwnedQueue {}
// SAFETY: A shared reference gives out `&Queue` only, which is `Sync`.
unsafe impl Sync for OwnedQueue {}

impl Deref for OwnedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the queue exists as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is the owner. References to the queue borrow from
        // `self`, so nothing is queued any more; the call drains the queue first.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) }
    }
}

/// A kind of [`PresetQueue`].
pub(crate) trait Preset {
    /// Flags and limits of the kind.
    const BUILDER: Builder;
}

/// One item at a time, with a rescuer.
pub(crate) enum Ordered {}

impl Preset for Ordered {
    const BUILDER: Builder = Builder::ordered().mem_reclaim();
}

/// Any number of items, without a rescuer.
pub(crate) enum Unbound {}

impl Preset for Unbound {
    const BUILDER: Builder = Builder::unbound();
}

/// An [`OwnedQueue`] whose flags are part of its type.
pub(crate) struct PresetQueue<P: Preset>(OwnedQueue, PhantomData<fn() -> P>);

/// A queue that runs one item at a time, in the order of queueing, under memory pressure too.
pub(crate) type OrderedQueue = PresetQueue<Ordered>;

/// A queue whose items run at the same time, on any CPU.
pub(crate) type UnboundQueue = PresetQueue<Unbound>;

impl<P: Preset> PresetQueue<P> {
    /// Creates a queue; `ENOMEM` on failure.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        Ok(Self(P::BUILDER.build(name)?, PhantomData))
    }

    /// Creates a queue whose items do not start while user space is frozen; `ENOMEM` on failure.
    pub(crate) fn freezable(name: &CStr) -> Result<Self> {
        Ok(Self(P::BUILDER.freezable().build(name)?, PhantomData))
    }
}

impl<P: Preset> Deref for PresetQueue<P> {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.0
    }
}
