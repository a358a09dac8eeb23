// SPDX-License-Identifier: GPL-2.0

//! Entities: queues of jobs that run one after the other.
//!
//! C header: [`include/drm/gpu_scheduler.h`](srctree/include/drm/gpu_scheduler.h)

use core::{mem::ManuallyDrop, ptr};

use kernel::{
    bindings,
    error::to_result,
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{Arc, Mutex},
    types::Opaque,
    workqueue::{Work, WorkItem},
};

use super::scheduler::{JobOps, Scheduler, SchedulerList};
use crate::{
    bindings as ours,
    kapi::fence::{Fence, Timeout},
};

/// Priority of an entity (`enum drm_sched_priority`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Jobs of the kernel itself.
    Kernel = ours::drm_sched_priority_DRM_SCHED_PRIORITY_KERNEL as isize,
    /// Above the default.
    High = ours::drm_sched_priority_DRM_SCHED_PRIORITY_HIGH as isize,
    /// The default.
    Normal = ours::drm_sched_priority_DRM_SCHED_PRIORITY_NORMAL as isize,
    /// Runs when no other entity has a job.
    Low = ours::drm_sched_priority_DRM_SCHED_PRIORITY_LOW as isize,
}

/// A queue of jobs, which run in order, on the least loaded of its schedulers.
///
/// Dropping it waits until the hardware has all jobs (at most 1 s in an exiting process, or until
/// the process is killed); jobs that are queued then end with `ESRCH`.
pub(crate) struct Entity<J: JobOps> {
    /// Present until `drop`.
    queue: ManuallyDrop<Pin<KBox<EntityQueue<J>>>>,
    owner: usize,
}

/// The memory of an entity.
///
/// # Invariants
///
/// `raw` is an initialized entity with the schedulers of `list`, all of whose jobs are those of a
/// `Pending<J>`.
#[pin_data]
pub(super) struct EntityQueue<J: JobOps> {
    #[pin]
    pub(super) raw: Opaque<ours::drm_sched_entity>,
    /// Held from arming a job to pushing it, so that seqnos are in queue order. It also makes a
    /// kill the only consumer of the queue of a stopped entity.
    #[pin]
    pub(super) lock: Mutex<()>,
    pub(super) list: Arc<SchedulerList<J>>,
    #[pin]
    work: Work<Self>,
}

// SAFETY: An entity is not tied to a task; the list is `Send`.
unsafe impl<J: JobOps> Send for EntityQueue<J> {}
// SAFETY: C accesses the entity under its own locks or atomically, Rust under `lock`.
unsafe impl<J: JobOps> Sync for EntityQueue<J> {}

impl_has_work! {
    impl{J: JobOps} HasWork<EntityQueue<J>> for EntityQueue<J> { self.work }
}

impl<J: JobOps> WorkItem for EntityQueue<J> {
    type Pointer = Pin<KBox<Self>>;

    fn run(queue: Pin<KBox<Self>>) {
        // The callback of a former dependency may still use entity and scheduler, under the
        // spinlock of its fence. None is added any more: one grace period is enough.
        // SAFETY: A work item may sleep, and holds no RCU read lock.
        unsafe { bindings::synchronize_rcu() };
        drop(queue);
    }
}

impl<J: JobOps> EntityQueue<J> {
    /// Ends the queued jobs with `ESRCH`, in order, as soon as their dependencies are signaled.
    fn kill(&self) {
        let _guard = self.lock.lock();
        // SAFETY: The entity is initialized by the type invariant. Killing it again is fine; `lock`
        // excludes a concurrent kill.
        unsafe { ours::drm_sched_entity_kill(self.raw.get()) }
    }

    /// Returns whether the entity was killed.
    pub(super) fn is_stopped(&self) -> bool {
        // SAFETY: The entity is initialized by the type invariant; the flag is read atomically.
        unsafe { ours::rkfd_helper_sched_entity_stopped(self.raw.get()) }
    }

    fn flush(&self, timeout: Timeout) {
        // SAFETY: The entity is initialized, and `list` holds the schedulers whose wait queues the
        // function uses. Sleeping is allowed, as for every caller of this method.
        if unsafe { ours::rkfd_helper_sched_entity_flush(self.raw.get(), timeout.raw()) } {
            self.kill();
        }
    }

    /// Waits until the hardware has all jobs, in an exiting process for [`FLUSH_MS`], and cancels
    /// the others.
    fn end(&self) {
        self.flush(Timeout::from_ms(FLUSH_MS));
        self.kill();
    }
}

/// How long an exiting process waits for its queued jobs, in milliseconds.
const FLUSH_MS: u32 = 1000;

impl<J: JobOps> Entity<J> {
    /// Creates an entity on `schedulers`, of which there must be one at least (`EINVAL`). `owner`
    /// is what [`Fence::owner`] returns for the fences of its jobs: the client id of a DRM file, or
    /// 0. Trace events have it, too.
    pub(crate) fn new(
        priority: Priority,
        schedulers: &[Arc<Scheduler<J>>],
        owner: usize,
    ) -> Result<Self> {
        let list = SchedulerList::new(schedulers)?;
        let array = list.as_mut_ptr();
        let queue = KBox::pin_init(
            try_pin_init!(EntityQueue {
                // INVARIANT: Initialized here; jobs only come from `Job<J>`.
                raw <- Opaque::try_ffi_init(|raw| {
                    // SAFETY: The slot is uninitialized pinned memory. The array is not empty, is
                    // as long as `len` states, and is owned by the entity through `list`.
                    to_result(unsafe {
                        ours::drm_sched_entity_init(
                            raw,
                            priority as ours::drm_sched_priority,
                            array,
                            schedulers.len() as u32,
                            ptr::null_mut(),
                        )
                    })
                }),
                lock <- new_mutex!((), "Entity::lock"),
                list,
                work <- new_work!("Entity::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            queue: ManuallyDrop::new(queue),
            owner,
        })
    }

    /// Returns the memory of the entity.
    pub(super) fn queue(&self) -> &EntityQueue<J> {
        &self.queue
    }

    /// Returns the owner that [`Self::new`] was called with.
    pub(super) fn owner(&self) -> usize {
        self.owner
    }

    /// Returns the error of the last job that was submitted to the hardware, as far as known.
    pub(crate) fn error(&self) -> Result {
        // SAFETY: The entity is initialized by the invariant of `EntityQueue`; the function takes
        // the RCU lock that its last fence needs.
        to_result(unsafe { ours::drm_sched_entity_error(self.queue.raw.get()) })
    }

    /// Waits until the hardware has all jobs, for the `flush` file operation. In an exiting process
    /// it waits for `timeout` at most; if the process was killed, jobs that are queued then end
    /// with `ESRCH`.
    pub(crate) fn flush(&self, timeout: Timeout) {
        self.queue.flush(timeout);
    }

    /// Ends the entity, as its drop does otherwise: waits until the hardware has all jobs, for a
    /// second in an exiting process, and cancels the others.
    pub(crate) fn end(&self) {
        self.queue.end();
    }
}

impl<J: JobOps> Drop for Entity<J> {
    fn drop(&mut self) {
        // SAFETY: The field is not used after `drop`.
        let queue = unsafe { ManuallyDrop::take(&mut self.queue) };
        queue.end();
        let raw = queue.raw.get();
        // SAFETY: The entity is initialized and stopped, so only the callback of its dependency
        // accesses `dependency`. `dma_fence_remove_callback()` takes the lock of the fence: on
        // success the callback has not run, and the reference of `dependency` is dropped here;
        // otherwise the callback has returned and has dropped it. (`drm_sched_entity_fini()` on its
        // own would race with the callback.) It is called once, here.
        unsafe {
            let fence = ours::rkfd_helper_sched_entity_dependency(raw);
            if let Some(fence) = Fence::from_raw_or_null(fence) {
                if bindings::dma_fence_remove_callback(fence.raw(), &raw mut (*raw).cb) {
                    (*raw).dependency = ptr::null_mut();
                    drop(Fence::from_raw(fence.raw()));
                }
            }
            ours::drm_sched_entity_fini(raw);
        }
        // SAFETY: Used for one item, the entity, which holds the scheduler and thus the reaper.
        let reaper = unsafe { queue.list.as_slice()[0].reaper().queue() };
        reaper.enqueue(queue);
    }
}
