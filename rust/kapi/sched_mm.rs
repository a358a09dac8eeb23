// SPDX-License-Identifier: GPL-2.0

//! The address space of a task, and allocation scopes.
//!
//! C headers: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h),
//! [`include/linux/kthread.h`](srctree/include/linux/kthread.h)
//!
//! # Examples
//!
//! ```ignore
//! // A lock that `hmm::Watch::invalidate` takes.
//! let scope = NoReclaim::new();
//! let tables = space.tables.lock();
//! let page = KBox::new(Entry::new(), GFP_KERNEL)?; // Does not enter reclaim.
//! ```
//!
//! A mutex that is always held in such a scope:
//!
//! ```ignore
//! let queues = NoReclaimMutex::new(new_mutex!(KVec::new(), "queues"));
//! let queues = Arc::pin_init(queues, GFP_KERNEL)?;
//! queues.lock().push(queue, GFP_KERNEL)?; // Does not enter reclaim.
//! ```

use core::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

use kernel::{
    bindings,
    mm::{MmWithUser, MmWithUserAsync},
    prelude::*,
    sync::{aref::ARef, lock::mutex::MutexGuard, Mutex},
    task::Task,
};

use crate::bindings as ours;

/// Returns a key of the current task's `mm_struct`; `None` for a kernel thread.
///
/// Unique among those that exist; a [`super::mmu_notifier::Registration`] prevents its reuse.
pub(crate) fn current_mm_key() -> Option<usize> {
    kernel::current!().mm().map(|mm| mm.as_raw() as usize)
}

/// Returns the key of an `mm_struct`, see [`current_mm_key`].
pub(crate) fn mm_key(mm: &MmWithUser) -> usize {
    mm.as_raw() as usize
}

/// Returns the address space of a task, which is not torn down while it is held; `None` for a
/// kernel thread or a task that has exited. It is dropped asynchronously (`mmput_async()`): the
/// teardown may wait for work that waits for the caller.
pub(crate) fn mm_of(task: &Task) -> Option<ARef<MmWithUserAsync>> {
    // SAFETY: The task is valid by its type; the function takes its lock.
    let mm = NonNull::new(unsafe { bindings::get_task_mm(task.as_ptr()) })?;
    // SAFETY: Hands over the user reference that `get_task_mm()` took. The type is transparent.
    Some(unsafe { ARef::from_raw(mm.cast()) })
}

/// Runs `f` with this user memory (`kthread_use_mm()`), for as long as page faults take. `EINVAL`
/// unless called by a kernel thread without user memory.
///
/// `CurrentTask::mm()` relies on `Send`: with it no `CurrentTask`, which is not `Send`, gets into
/// the scope or out of it.
pub(crate) fn with_memory<T: Send>(
    mm: &MmWithUserAsync,
    f: impl FnOnce() -> T + Send,
) -> Result<T> {
    // A user task that is exiting has no memory either, but must not call `kthread_use_mm()`.
    if !super::task::is_kthread() {
        return Err(EINVAL);
    }
    // SAFETY: There is a user reference. The current task is a kernel thread without user memory,
    // and gets back to that state below before it can get here again: within `f` the check above
    // fails.
    unsafe { bindings::kthread_use_mm(mm.as_raw()) };
    let result = f();
    // SAFETY: The current task has used this memory since the call above.
    unsafe { bindings::kthread_unuse_mm(mm.as_raw()) };
    Ok(result)
}

/// A scope in which allocations of the current task do not enter reclaim
/// (`memalloc_noreclaim_save()`).
///
/// Locks that [`super::hmm::Watch::invalidate`] takes must be held in such a scope: otherwise an
/// allocation could wait for the invalidation, which waits for the lock. The flag does not prevent
/// `cma_alloc()` from migrating pages of processes, which invalidates, too: only allocations of
/// [`super::dma::Coherent`] may reach it, and they do not within a scope.
pub(crate) struct NoReclaim {
    flags: c_uint,
    /// The flags are those of one task.
    _not_send: PhantomData<*mut ()>,
}

impl NoReclaim {
    /// Enters the scope. Scopes nest; they must end in reverse order.
    pub(crate) fn new() -> Self {
        Self {
            // SAFETY: Sets a flag of the current task, and returns its former value.
            flags: unsafe { ours::rkfd_helper_noreclaim_save() },
            _not_send: PhantomData,
        }
    }
}

impl Drop for NoReclaim {
    fn drop(&mut self) {
        // SAFETY: The type is not `Send`, so this is the task whose flag was saved. Any value is
        // fine: the function changes that one flag of the task.
        unsafe { ours::rkfd_helper_noreclaim_restore(self.flags) }
    }
}

/// A mutex that is held within a [`NoReclaim`] scope only.
#[pin_data]
pub(crate) struct NoReclaimMutex<T> {
    #[pin]
    mutex: Mutex<T>,
}

impl<T> NoReclaimMutex<T> {
    /// Wraps the mutex that [`new_mutex!`](kernel::new_mutex) returns.
    pub(crate) fn new(mutex: impl PinInit<Mutex<T>>) -> impl PinInit<Self> {
        pin_init!(Self { mutex <- mutex })
    }

    /// Takes the lock.
    pub(crate) fn lock(&self) -> NoReclaimGuard<'_, T> {
        NoReclaimGuard::new(self.mutex.lock())
    }

    /// Takes the lock, unless it is held.
    pub(crate) fn try_lock(&self) -> Option<NoReclaimGuard<'_, T>> {
        self.mutex.try_lock().map(NoReclaimGuard::new)
    }
}

/// The lock of a [`NoReclaimMutex`].
pub(crate) struct NoReclaimGuard<'a, T> {
    // Field order: unlocked before reclaim is allowed again.
    guard: MutexGuard<'a, T>,
    _scope: NoReclaim,
}

impl<'a, T> NoReclaimGuard<'a, T> {
    fn new(guard: MutexGuard<'a, T>) -> Self {
        Self {
            guard,
            _scope: NoReclaim::new(),
        }
    }
}

impl<T> Deref for NoReclaimGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: Unpin> DerefMut for NoReclaimGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
