// SPDX-License-Identifier: GPL-2.0

//! Work queues that the module creates and destroys, and items with a delay.
//!
//! `kernel::workqueue` has the queues of the system only. [`Builder`] and [`OwnedQueue`] are shaped
//! as that file would grow them.
//!
//! `destroy_workqueue()` does not wait for items whose delay has not passed: their timers would
//! queue them on freed memory. A [`Delayed`] item holds a token of its queue until it runs, and
//! dropping the queue waits for the tokens.
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
//!
//! An item with a delay:
//!
//! ```ignore
//! struct Retry { tries: Atomic<u32> }
//!
//! impl DelayedItem for Retry {
//!     fn run(this: Arc<Delayed<Self>>) {
//!         this.tries.fetch_add(1, Relaxed);
//!     }
//! }
//!
//! let item = Delayed::new(new_delayed_work!("retry"), Retry { tries: Atomic::new(0) });
//! let item = Arc::pin_init(item, GFP_KERNEL)?;
//! // Fails if the item is queued already.
//! let _ = restore.enqueue_delayed(item.clone(), Delta::from_millis(100));
//! ```

use core::{ops::Deref, ptr::NonNull};

use kernel::{
    bindings, container_of, impl_has_delayed_work, new_spinlock,
    prelude::*,
    sync::{Arc, Completion, SpinLock},
    time::{msecs_to_jiffies, Delta, Jiffies},
    workqueue::{DelayedWork, Queue, RawWorkItem, Work, WorkItem},
};

use super::module_use::ModuleUse;
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

    /// Limits the number of items at a time, `WQ_MAX_ACTIVE` at most. Each NUMA node has a share of
    /// it, by its CPUs.
    pub(crate) const fn max_active(mut self, limit: c_int) -> Self {
        self.max_active = limit;
        self
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

    /// Creates the queue. `name` is that of the worker in `ps` and `wq_dump`. `ENOMEM` on failure,
    /// `ENODEV` when the module is about to exit.
    pub(crate) fn build(self, name: &CStr) -> Result<OwnedQueue> {
        let token = ModuleUse::new()?;
        self.build_with(name, Some(token))
    }

    /// Creates the queue of the owner of the [`Barrier`](super::module_use::Barrier), which cannot
    /// wait for it: the owner drops both. `ENOMEM` on failure.
    pub(in crate::kapi) fn build_for_barrier(self, name: &CStr) -> Result<OwnedQueue> {
        self.build_with(name, None)
    }

    fn build_with(self, name: &CStr, module_use: Option<ModuleUse>) -> Result<OwnedQueue> {
        let idle = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        let token = Arc::new(Token(idle.clone()), GFP_KERNEL)?;
        // SAFETY: `name` is NUL-terminated, valid for the call, and copied by it; flags and limit
        // are a combination that `alloc_workqueue()` accepts by construction.
        let raw = unsafe {
            ours::rkfd_helper_alloc_workqueue(name.as_char_ptr(), self.flags, self.max_active)
        };
        // INVARIANT: A new queue, which nobody else destroys; all clones of `token` are made by
        // `enqueue_delayed()`.
        Ok(OwnedQueue {
            raw: NonNull::new(raw.cast()).ok_or(ENOMEM)?,
            token: Some(token),
            idle,
            _use: module_use,
        })
    }
}

/// Returns a delay, rounded up; none for a negative one.
fn jiffies(delay: Delta) -> Jiffies {
    msecs_to_jiffies(delay.as_millis_ceil().clamp(0, u32::MAX.into()) as u32)
}

/// Held by a queue and by its items with a delay that have not run yet.
struct Token(Arc<Completion>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.complete_all();
    }
}

/// A work queue of the module's own. Dropping it waits until all queued items have run, including
/// those whose delay has not passed yet.
///
/// It does not dereference to [`Queue`], on which any delayed work could be queued.
///
/// # Invariants
///
/// `raw` is a work queue that this object owns. Each delayed work that is queued on it, or whose
/// timer will do so, belongs to a [`Delayed`] item that holds a clone of `token`. `idle` is
/// completed when `token` and its clones are gone.
pub(crate) struct OwnedQueue {
    raw: NonNull<bindings::workqueue_struct>,
    /// `None` only while the queue is dropped.
    token: Option<Arc<Token>>,
    idle: Arc<Completion>,
    // Until the queue is destroyed the module cannot be unloaded: functions of items are part of
    // it. `None` for the queue of the barrier.
    _use: Option<ModuleUse>,
}

// SAFETY: `destroy_workqueue()` may be called by any task that can sleep.
unsafe impl Send for OwnedQueue {}
// SAFETY: A shared reference is used to queue items only, which any task may do at any time.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    fn queue(&self) -> &Queue {
        // SAFETY: By the type invariant the queue exists as long as `self`.
        unsafe { Queue::from_raw(self.raw.as_ptr()) }
    }

    /// Returns the C side, which exists as long as this object.
    pub(in crate::kapi) fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.raw.as_ptr()
    }

    /// Queues an item, see [`Queue::enqueue`]. An `Arc` is returned as an error if its item is
    /// queued already.
    pub(crate) fn enqueue<W, const ID: u64>(&self, item: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        self.queue().enqueue(item)
    }

    /// Queues an item after `delay`, rounded up to a jiffy; a negative delay is none. Returns the
    /// item as an error if it is queued already, on any queue.
    pub(crate) fn enqueue_delayed<T: DelayedItem>(
        &self,
        item: Arc<Delayed<T>>,
        delay: Delta,
    ) -> Result<(), Arc<Delayed<T>>> {
        let target = item.clone();
        // Held until the token is stored: the item takes it when it runs, even if it runs at once.
        let mut token = target.token.lock();
        // INVARIANT: The item gets a token if it was queued, and `self.token` exists meanwhile.
        self.queue().enqueue_delayed(item, jiffies(delay))?;
        *token = self.token.clone();
        Ok(())
    }

    /// As [`Self::enqueue_delayed`], also of an item that is queued already, which leaves its queue
    /// and its delay (`mod_delayed_work()`).
    pub(crate) fn requeue_delayed<T: DelayedItem>(&self, item: &Arc<Delayed<T>>, delay: Delta) {
        let mut token = item.token.lock();
        // The pointer that the function of the item gets.
        let pointer = Arc::into_raw(item.clone());
        // SAFETY: The queue exists by its type invariant, and the work, which was initialised with
        // the object, until it has run: it has the reference of `pointer`, or the one that it was
        // queued with. The call does not sleep.
        let was_queued = unsafe {
            bindings::mod_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                self.as_raw(),
                item.delayed(),
                jiffies(delay),
            )
        };
        // INVARIANT: The item is queued on this queue, wherever it was queued before, and
        // `self.token` exists meanwhile.
        let former = core::mem::replace(&mut *token, self.token.clone());
        drop(token);
        drop(former);
        if was_queued {
            // SAFETY: The item has its reference already: this one is that of `into_raw()`.
            drop(unsafe { Arc::from_raw(pointer) });
        }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        drop(self.token.take());
        // No timer of an item is pending after this: each item drops its token when it runs. No
        // item is queued meanwhile, as that borrows `self`.
        self.idle.wait_for_completion();
        // SAFETY: By the type invariant this is the owner, and no delayed work is going to be
        // queued. The call waits until the items that are queued have run.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr()) }
    }
}

/// The function of a [`Delayed`] item.
pub(crate) trait DelayedItem: Sized + Send + Sync + 'static {
    /// Runs the item, which may be queued again.
    fn run(this: Arc<Delayed<Self>>);
}

/// An item of [`OwnedQueue::enqueue_delayed`].
#[pin_data]
pub(crate) struct Delayed<T: DelayedItem> {
    #[pin]
    work: DelayedWork<Self>,
    /// Token of the queue from the time that the item is queued until it runs. The item is queued
    /// with a delay under this lock only.
    #[pin]
    token: SpinLock<Option<Arc<Token>>>,
    #[pin]
    item: T,
}

impl_has_delayed_work! {
    impl{T: DelayedItem} HasDelayedWork<Self> for Delayed<T> { self.work }
}

impl<T: DelayedItem> Delayed<T> {
    /// Makes an item with the work that [`new_delayed_work!`](kernel::workqueue::new_delayed_work)
    /// returns.
    pub(crate) fn new<E>(
        work: impl PinInit<DelayedWork<Self>>,
        item: impl PinInit<T, E>,
    ) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(Self {
            work <- work,
            token <- new_spinlock!(None, "rkfd_delayed"),
            item <- item,
        }? Error)
    }

    /// Takes an item that is queued from its queue, which may be frozen, and waits for it if it
    /// runs. It is not queued meanwhile.
    pub(crate) fn cancel(this: &Arc<Self>) {
        let mut token = this.token.lock();
        // SAFETY: That was initialised with the object and lives as long. The function does not
        // sleep.
        let is_cancelled = unsafe { bindings::cancel_delayed_work(this.delayed()) };
        let ended = if is_cancelled { token.take() } else { None };
        drop(token);
        drop(ended);
        if is_cancelled {
            // SAFETY: The item was queued with this pointer of an `Arc`, which its function, that
            // is not going to be called, would have got.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(this)) });
        }
        // It may run also if it was queued.
        // SAFETY: The work was initialised with the object and lives as long. The function may
        // sleep; nothing waits for this with a lock that the item takes.
        unsafe { bindings::flush_work(this.raw_work()) };
    }

    fn raw_work(&self) -> *mut bindings::work_struct {
        // SAFETY: The work is a field of `self`, which is valid.
        unsafe { Work::raw_get(DelayedWork::raw_as_work(&self.work)) }
    }

    fn delayed(&self) -> *mut bindings::delayed_work {
        // SAFETY: It is that of a `struct delayed_work`.
        unsafe { container_of!(self.raw_work(), bindings::delayed_work, work) }
    }

    /// Returns whether the item is queued, or its delay has not passed yet.
    fn is_pending(&self) -> bool {
        // SAFETY: The work was initialised with the object and lives as long. The function only
        // reads its state, under locks of its own.
        let busy = unsafe { bindings::work_busy(self.raw_work()) };
        busy & bindings::wq_misc_consts_WORK_BUSY_PENDING != 0
    }
}

impl<T: DelayedItem> Deref for Delayed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: DelayedItem> WorkItem for Delayed<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut token = this.token.lock();
        // The delay has passed: destroying the queue waits for this run. If the item was queued
        // again meanwhile, the token is that of the next run.
        let ended = if this.is_pending() {
            None
        } else {
            token.take()
        };
        drop(token);
        drop(ended);
        T::run(this);
    }
}
