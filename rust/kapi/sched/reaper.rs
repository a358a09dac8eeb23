// SPDX-License-Identifier: GPL-2.0

//! The work queues on which jobs and entities are freed, and on which jobs time out.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::ptr::NonNull;

use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{Atomic, Full, Relaxed},
    workqueue::Queue,
};

use crate::kapi::{
    module_use::{Barrier, ModuleUse},
    workqueue::{Builder, OwnedQueue},
};

/// Address of the queue of [`WorkqueueGuard`] on which jobs are freed; 0 without one.
static QUEUE: Atomic<usize> = Atomic::new(0);
/// Address of that on which jobs time out; valid while [`QUEUE`] is.
static TIMEOUTS: Atomic<usize> = Atomic::new(0);

/// Owns the work queues on which jobs are freed and on which they time out; the module needs them
/// to create schedulers.
///
/// The former has no `WQ_MEM_RECLAIM`: its items may wait for queues without a rescuer. The latter
/// has it: a timeout ends fences, for which reclaim may wait in other drivers. Dropping the
/// guard waits until all schedulers, and with them all jobs, and all other objects that call into
/// the module are gone; [`Scheduler::new`](super::Scheduler::new) fails with `ENODEV` from then on.
///
/// # Invariants
///
/// [`QUEUE`] is the address of `_queue`, and [`TIMEOUTS`] that of `_timeouts`, while `barrier`
/// exists.
pub(crate) struct WorkqueueGuard {
    // Waits for all users of the queue; `None` only while the guard is created or dropped.
    barrier: Option<Barrier>,
    _queue: OwnedQueue,
    _timeouts: OwnedQueue,
}

impl WorkqueueGuard {
    /// Creates the queues; `EBUSY` if there are some.
    pub(crate) fn new() -> Result<Self> {
        let queue = Builder::unbound().build_for_barrier(c"rkfd_jobs")?;
        let timeouts = Builder::unbound()
            .mem_reclaim()
            .build_for_barrier(c"rkfd_timeouts")?;
        QUEUE
            .cmpxchg(0, queue.as_raw() as usize, Full)
            .map_err(|_| EBUSY)?;
        TIMEOUTS.xchg(timeouts.as_raw() as usize, Full);
        // On error the address is cleared by `Drop`.
        let mut this = Self {
            barrier: None,
            _queue: queue,
            _timeouts: timeouts,
        };
        // INVARIANT: Stored above.
        this.barrier = Some(Barrier::new()?);
        Ok(this)
    }
}

impl Drop for WorkqueueGuard {
    fn drop(&mut self) {
        drop(self.barrier.take());
        QUEUE.xchg(0, Full);
        // The queues are dropped next: items that are queued run to their end.
    }
}

/// Keeps the queues of [`WorkqueueGuard`], on behalf of a scheduler, or of device memory.
///
/// # Invariants
///
/// The queues exist as long as `_use`: [`WorkqueueGuard`] waits for all tokens before it destroys
/// them.
pub(in crate::kapi) struct Reaper {
    queue: NonNull<bindings::workqueue_struct>,
    _use: ModuleUse,
}

// SAFETY: Work queues are thread safe, and the token is a counter.
unsafe impl Send for Reaper {}
// SAFETY: `enqueue_and_release` only reads the pointer, and `queue_work` is thread safe.
unsafe impl Sync for Reaper {}

impl Reaper {
    /// Keeps the queues; `ENODEV` without a [`WorkqueueGuard`].
    pub(in crate::kapi) fn new() -> Result<Self> {
        let token = ModuleUse::new()?;
        let queue = NonNull::new(QUEUE.load(Relaxed) as *mut _).ok_or(ENODEV)?;
        // INVARIANT: The token was taken before the address was read, so the guard's barrier is
        // there until the token is dropped.
        Ok(Self { queue, _use: token })
    }

    /// Returns the queue on which jobs time out, which lasts as long as this object.
    pub(super) fn timeouts(&self) -> *mut bindings::workqueue_struct {
        TIMEOUTS.load(Relaxed) as *mut _
    }

    /// Returns a reference to the queue that outlives this object, for an item that drops it.
    ///
    /// # Safety
    ///
    /// The result is only used to enqueue one item that holds this object. (Destroying the queue
    /// drains it first, so it lasts until that item has run.)
    pub(in crate::kapi) unsafe fn queue<'a>(&self) -> &'a Queue {
        // SAFETY: By the type invariant and the safety requirement the queue exists until the item
        // was enqueued.
        unsafe { Queue::from_raw(self.queue.as_ptr()) }
    }
}
