// SPDX-License-Identifier: GPL-2.0

//! Work queues of our own: ordered, flushed, destroyed.

use core::{ops::Deref, ptr::NonNull};

use kernel::{bindings, prelude::*, workqueue::Queue};

use crate::bindings as ours;

/// A queue that runs one item at a time, in the order of their coming.
///
/// Dropping it waits until all items have run.
///
/// # Invariants
///
/// The pointer is a work queue that this object owns.
pub(crate) struct OrderedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues are used from everywhere.
unsafe impl Send for OrderedQueue {}
// SAFETY: As above.
unsafe impl Sync for OrderedQueue {}

impl OrderedQueue {
    /// Makes a queue; it makes progress when memory is short.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        Self::with(name, false)
    }

    /// The same, but items wait while user space is frozen, as for a suspend.
    pub(crate) fn freezable(name: &CStr) -> Result<Self> {
        Self::with(name, true)
    }

    fn with(name: &CStr, freezable: bool) -> Result<Self> {
        // SAFETY: The name lives for the call, which copies it.
        let raw =
            unsafe { ours::rkfd_helper_alloc_ordered_workqueue(name.as_char_ptr(), freezable) };
        // INVARIANT: A new queue, owned by us.
        NonNull::new(raw.cast()).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for OrderedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the queue lives as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OrderedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; this drains the queue first.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) }
    }
}

/// A queue whose items run at the same time, on any processor, and may sleep.
///
/// Dropping it waits until all items have run.
///
/// # Invariants
///
/// The pointer is a work queue that this object owns.
pub(crate) struct UnboundQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues are used from everywhere.
unsafe impl Send for UnboundQueue {}
// SAFETY: As above.
unsafe impl Sync for UnboundQueue {}

impl UnboundQueue {
    /// Makes a queue.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        Self::with(name, false)
    }

    /// The same, but items wait while user space is frozen, as for a suspend.
    pub(crate) fn freezable(name: &CStr) -> Result<Self> {
        Self::with(name, true)
    }

    fn with(name: &CStr, freezable: bool) -> Result<Self> {
        // SAFETY: The name lives for the call, which copies it.
        let raw =
            unsafe { ours::rkfd_helper_alloc_unbound_workqueue(name.as_char_ptr(), freezable) };
        // INVARIANT: A new queue, owned by us.
        NonNull::new(raw.cast()).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for UnboundQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the queue lives as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for UnboundQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; this drains the queue first.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) }
    }
}
