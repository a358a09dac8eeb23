// SPDX-License-Identifier: GPL-2.0

//! Jobs up to the push to their entity.
//!
//! C header: [`include/drm/gpu_scheduler.h`](srctree/include/drm/gpu_scheduler.h)

use core::{mem::ManuallyDrop, ptr};

use kernel::{
    error::to_result,
    new_mutex, new_work,
    prelude::*,
    sync::{aref::ARef, MutexGuard},
    types::Opaque,
};

use super::{
    entity::{Entity, EntityQueue},
    scheduler::{JobOps, Pending},
};
use crate::{bindings as ours, kapi::fence::Fence};

/// A job that is not queued yet. Dropping it undoes its creation.
///
/// # Invariants
///
/// The job is initialized for the entity of `entity`, and not armed.
pub(crate) struct Job<'a, J: JobOps> {
    pending: Pin<KBox<Pending<J>>>,
    entity: &'a Entity<J>,
}

impl<'a, J: JobOps> Job<'a, J> {
    /// Creates a job that takes `credits` of its scheduler, at most as many as that has. `ESRCH` if
    /// the entity was killed.
    pub(crate) fn new(entity: &'a Entity<J>, credits: u32, payload: J) -> Result<Self> {
        let queue = entity.queue();
        if queue.is_stopped() {
            return Err(ESRCH);
        }
        // A job with more credits than its scheduler would never run.
        let schedulers = queue.list.as_slice();
        let most = schedulers.iter().map(|s| s.credits()).min().unwrap_or(1);
        let owner = entity.owner();
        let pending = KBox::pin_init(
            try_pin_init!(Pending {
                raw <- Opaque::try_ffi_init(|raw| {
                    // SAFETY: The slot is uninitialized pinned memory. The entity is initialized,
                    // and lives for `'a`; once pushed, the job is in the queue of the entity,
                    // which is not freed before its jobs are.
                    to_result(unsafe {
                        ours::drm_sched_job_init(
                            raw,
                            queue.raw.get(),
                            credits.clamp(1, most),
                            owner as *mut c_void,
                            owner as u64,
                        )
                    })
                }),
                payload <- new_mutex!(payload, "Job::payload"),
                work <- new_work!("Job::work"),
                list: queue.list.clone(),
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: Initialized above.
        Ok(Self { pending, entity })
    }

    /// Makes the job wait for `fence`; `ENOMEM` on failure.
    pub(crate) fn add_dependency(&mut self, fence: ARef<Fence>) -> Result {
        // SAFETY: By the type invariant the job is initialized and not armed. The function consumes
        // the reference, on failure too.
        to_result(unsafe {
            ours::drm_sched_job_add_dependency(
                self.pending.raw.get(),
                ARef::into_raw(fence).cast().as_ptr(),
            )
        })
    }

    /// Initializes the fences of the job. This cannot be undone: an armed job is always pushed.
    ///
    /// Until then no other job of the entity can be armed; a second attempt by the same thread
    /// deadlocks.
    pub(crate) fn arm(self) -> ArmedJob<'a, J> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, and its field not used again: the box is moved.
        let pending = unsafe { ptr::read(&this.pending) };
        let entity = this.entity.queue();
        let guard = entity.lock.lock();
        // SAFETY: By the type invariant the job is initialized and not armed. Its entity is valid,
        // and `lock` keeps others from arming jobs of it, as the function requires.
        unsafe { ours::drm_sched_job_arm(pending.raw.get()) };
        // INVARIANT: Armed above, under the lock that is handed over.
        ArmedJob {
            pending: ManuallyDrop::new(pending),
            entity,
            _guard: guard,
        }
    }
}

impl<J: JobOps> Drop for Job<'_, J> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the job is initialized and not armed; `arm` skips this.
        unsafe { ours::drm_sched_job_cleanup(self.pending.raw.get()) }
    }
}

/// A job with fences. Dropping it pushes it, as [`Self::push`] does.
///
/// # Invariants
///
/// The job is armed and not pushed; the lock of its entity is held since it was armed.
pub(crate) struct ArmedJob<'a, J: JobOps> {
    /// Present until `drop`.
    pending: ManuallyDrop<Pin<KBox<Pending<J>>>>,
    entity: &'a EntityQueue<J>,
    _guard: MutexGuard<'a, ()>,
}

impl<J: JobOps> ArmedJob<'_, J> {
    fn fences(&self) -> *mut ours::drm_sched_fence {
        // SAFETY: The job is initialized; `s_fence` is not written after its init.
        unsafe { (*self.pending.raw.get()).s_fence }
    }

    /// Returns the fence that is signaled when the job has ended, with its error.
    pub(crate) fn finished(&self) -> ARef<Fence> {
        // SAFETY: Arming has initialized the fence, and the job holds it while it is borrowed.
        unsafe { Fence::borrow_raw(&raw mut (*self.fences()).finished) }.into()
    }

    /// Returns the fence that is signaled when the job is submitted to the hardware.
    pub(crate) fn scheduled(&self) -> ARef<Fence> {
        // SAFETY: Arming has initialized the fence, and the job holds it while it is borrowed.
        unsafe { Fence::borrow_raw(&raw mut (*self.fences()).scheduled) }.into()
    }

    /// Queues the job on its entity, and returns the fence of its end.
    pub(crate) fn push(self) -> ARef<Fence> {
        self.finished()
    }
}

impl<J: JobOps> Drop for ArmedJob<'_, J> {
    fn drop(&mut self) {
        // SAFETY: The field is not used after `drop`.
        let pending = unsafe { ManuallyDrop::take(&mut self.pending) };
        // SAFETY: The memory stays where it is until `free_job` makes a pinned box of it again.
        let raw = KBox::into_raw(unsafe { Pin::into_inner_unchecked(pending) });
        // SAFETY: The job is the first field of `Pending`, is armed, and the lock of its entity is
        // held since then, so that jobs are pushed in the order of their seqnos.
        unsafe { ours::drm_sched_entity_push_job(raw.cast()) };
        if self.entity.is_stopped() {
            // Killed meanwhile: no worker takes jobs from the queue of a stopped entity. SAFETY:
            // The entity is initialized, and its lock held, which excludes other kills.
            unsafe { ours::drm_sched_entity_kill(self.entity.raw.get()) };
        }
    }
}
