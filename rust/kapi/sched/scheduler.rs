// SPDX-License-Identifier: GPL-2.0

//! Schedulers, the operations of jobs, and the memory of a job from its init to its end.
//!
//! C header: [`include/drm/gpu_scheduler.h`](srctree/include/drm/gpu_scheduler.h)

use core::ptr;

use kernel::{
    bindings, device,
    error::to_result,
    impl_has_work,
    prelude::*,
    str::CString,
    sync::{aref::ARef, Arc, Mutex},
    types::Opaque,
    workqueue::{Work, WorkItem},
};

use super::reaper::Reaper;
use crate::{
    bindings as ours,
    kapi::fence::{signalling::Signalling, Fence, Timeout},
};

/// Operations of a job (`struct drm_sched_backend_ops`).
///
/// All of them run in the fence signalling path: they must not allocate memory with `GFP_KERNEL`,
/// nor take a lock under which another thread waits for a fence.
#[vtable]
pub(crate) trait JobOps: Send + Unpin + Sized + 'static {
    /// The hardware queue of a scheduler.
    type Queue: Send + Sync;

    /// Called when all dependencies are signaled, before [`Self::run`]. A returned fence becomes
    /// one more dependency, after which this is called again. With an error the job ends without
    /// [`Self::run`].
    fn prepare(&mut self, _queue: &Self::Queue, _cx: &Prepare<'_>) -> Result<Option<ARef<Fence>>> {
        Ok(None)
    }

    /// Submits the job to the hardware; called once. The job has ended when the returned fence is
    /// signaled, or at once with an error.
    fn run(&mut self, queue: &Self::Queue) -> Result<ARef<Fence>>;

    /// The job, the oldest on the hardware, exceeded the scheduler's timeout. If its fence is not
    /// signaled on return, the timeout starts anew.
    fn timed_out(&mut self, queue: &Self::Queue);
}

/// The argument of [`JobOps::prepare`].
///
/// # Invariants
///
/// `entity` is the entity of the job, and valid for `'a`: the scheduler does not take the job from
/// the entity during the call.
pub(crate) struct Prepare<'a> {
    finished: &'a Fence,
    entity: *mut ours::drm_sched_entity,
}

impl Prepare<'_> {
    /// Returns the fence of the job's end.
    pub(crate) fn finished(&self) -> ARef<Fence> {
        self.finished.into()
    }

    /// Returns the fence context of the "finished" fences of the entity.
    pub(crate) fn entity_context(&self) -> u64 {
        self.finished.context()
    }

    /// Returns the error of the last job of the entity that was submitted, as far as known.
    pub(crate) fn entity_error(&self) -> Result {
        // SAFETY: The entity is valid by the type invariant; the function takes the RCU lock that
        // its last fence needs.
        to_result(unsafe { ours::drm_sched_entity_error(self.entity) })
    }
}

/// Runs jobs on one hardware queue (`struct drm_gpu_scheduler`).
///
/// # Invariants
///
/// `raw` is an initialized scheduler with `Self::OPS`; its jobs are all the first field of a
/// `Pending<J>`, and hold a reference to the scheduler.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Scheduler<J: JobOps> {
    #[pin]
    raw: Opaque<ours::drm_gpu_scheduler>,
    queue: J::Queue,
    name: CString,
    dev: ARef<device::Device>,
    credits: u32,
    // Last: until it is dropped the module cannot be unloaded.
    reaper: Reaper,
}

// SAFETY: A scheduler may be torn down by any task that can sleep; the other fields are `Send`.
unsafe impl<J: JobOps> Send for Scheduler<J> {}
// SAFETY: Shared references give out nothing of `raw` but its address, which C functions use under
// the scheduler's own locks; `J::Queue` is `Sync`.
unsafe impl<J: JobOps> Sync for Scheduler<J> {}

impl<J: JobOps> Scheduler<J> {
    const OPS: ours::drm_sched_backend_ops = ours::drm_sched_backend_ops {
        prepare_job: if J::HAS_PREPARE {
            Some(Self::prepare_job)
        } else {
            None
        },
        run_job: Some(Self::run_job),
        timedout_job: Some(Self::timedout_job),
        free_job: Some(Self::free_job),
        // `drm_sched_fini()` is only called without pending jobs.
        cancel_job: None,
    };

    /// Creates a scheduler for `queue` with a limit of `credits` of jobs on the hardware, each of
    /// which has `timeout` to finish. `ENODEV` without a [`WorkqueueGuard`](super::WorkqueueGuard).
    pub(crate) fn new(
        name: &CStr,
        credits: u32,
        timeout: Timeout,
        dev: &device::Device,
        queue: J::Queue,
    ) -> Result<Arc<Self>> {
        let name = CString::try_from(name)?;
        let dev: ARef<device::Device> = dev.into();
        let reaper = Reaper::new()?;
        let args = ours::drm_sched_init_args {
            ops: const { &Self::OPS },
            num_rqs: ours::drm_sched_priority_DRM_SCHED_PRIORITY_COUNT as u32,
            credit_limit: credits.max(1),
            timeout: timeout.raw(),
            timeout_wq: reaper.timeouts().cast(),
            name: name.as_char_ptr(),
            dev: crate::kapi::raw_device(&dev),
            ..pin_init::zeroed()
        };
        Arc::pin_init(
            try_pin_init!(Self {
                reaper,
                queue,
                name,
                dev,
                credits: credits.max(1),
                // INVARIANT: Initialized here; jobs only come from `ArmedJob`.
                raw <- Opaque::try_ffi_init(|raw: *mut ours::drm_gpu_scheduler| {
                    // SAFETY: The slot is uninitialized pinned memory. `OPS` is static; name (heap
                    // memory that `CString` does not move), device and, by `reaper`, the work queue
                    // are owned by the scheduler.
                    unsafe {
                        raw.write_bytes(0, 1);
                        to_result(ours::drm_sched_init(raw, &args))
                    }
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the largest number of credits that a job may take.
    pub(super) fn credits(&self) -> u32 {
        self.credits
    }

    /// Returns the work queue on which jobs and entities, which hold the scheduler, are freed.
    pub(super) fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    /// Waits until each job that was prepared was run, too: those that run from now on are prepared
    /// after this call. Callers do not overlap.
    pub(crate) fn flush(&self) {
        // SAFETY: `raw` is initialized by the type invariant. Stopping waits for the worker, which
        // prepares and runs a job at once.
        unsafe {
            ours::drm_sched_wqueue_stop(self.raw());
            ours::drm_sched_wqueue_start(self.raw());
        }
    }

    fn raw(&self) -> *mut ours::drm_gpu_scheduler {
        self.raw.get()
    }

    /// # Safety
    ///
    /// `job` is an armed job of a scheduler of this type, valid for the lifetime of the results.
    unsafe fn parts<'a>(job: *mut ours::drm_sched_job) -> (&'a Pending<J>, &'a Self) {
        // SAFETY: By the type invariant a job is the first field of a `Pending<J>`, and a scheduler
        // that of a `Self`. Arming set `sched`, which the job holds.
        unsafe { (&*job.cast(), &*(*job).sched.cast()) }
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job at the head of the queue of its entity.
    unsafe extern "C" fn prepare_job(
        job: *mut ours::drm_sched_job,
        entity: *mut ours::drm_sched_entity,
    ) -> *mut bindings::dma_fence {
        // SAFETY: Jobs in the queue of an entity are armed, and this one stays there meanwhile.
        let (pending, scheduler) = unsafe { Self::parts(job) };
        // SAFETY: An armed job has fences, which it holds.
        let finished = unsafe { &raw mut (*(*job).s_fence).finished };
        let _signalling = Signalling::new();
        // INVARIANT: The scheduler takes jobs from entities in its worker only, which runs this
        // function.
        let cx = Prepare {
            // SAFETY: Initialized by arming; the job holds the fence during the call.
            finished: unsafe { Fence::borrow_raw(finished) },
            entity,
        };
        let result = pending.payload.lock().prepare(&scheduler.queue, &cx);
        match result {
            // The scheduler takes over the reference.
            Ok(Some(fence)) => ARef::into_raw(fence).cast().as_ptr(),
            Ok(None) => ptr::null_mut(),
            Err(e) => {
                // SAFETY: `finished` is valid during the call: the armed job holds it. `to_errno`
                // is in -4095..0, as `dma_fence_set_error()` requires.
                unsafe { ours::rkfd_helper_dma_fence_set_error(finished, e.to_errno()) };
                ptr::null_mut()
            }
        }
    }

    /// # Safety
    ///
    /// Called by the scheduler, once, for a job whose dependencies are signaled.
    unsafe extern "C" fn run_job(job: *mut ours::drm_sched_job) -> *mut bindings::dma_fence {
        // SAFETY: The job was armed before it was pushed, and is not freed before this returns.
        let (pending, scheduler) = unsafe { Self::parts(job) };
        let _signalling = Signalling::new();
        // SAFETY: The job holds its fences. `error` is only written before the fence is signaled,
        // by `prepare_job`, which has returned.
        let error = unsafe { (*(*job).s_fence).finished.error };
        let mut payload = pending.payload.lock();
        let result = to_result(error).and_then(|()| payload.run(&scheduler.queue));
        match result {
            // The scheduler takes over the reference.
            Ok(fence) => ARef::into_raw(fence).cast().as_ptr(),
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job that `run_job` was called for, and that is not freed
    /// during the call.
    unsafe extern "C" fn timedout_job(job: *mut ours::drm_sched_job) -> ours::drm_gpu_sched_stat {
        // SAFETY: The job is armed, and valid during the call by the safety requirement.
        let (pending, scheduler) = unsafe { Self::parts(job) };
        let _signalling = Signalling::new();
        pending.payload.lock().timed_out(&scheduler.queue);
        // The core removed the job from its list before the call, and adds it again for this status
        // only: with any other one the job would never be freed.
        ours::drm_gpu_sched_stat_DRM_GPU_SCHED_STAT_NO_HANG
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job whose "finished" fence is signaled, as the last use of it.
    unsafe extern "C" fn free_job(job: *mut ours::drm_sched_job) {
        // SAFETY: The job is armed, and valid until it is freed below.
        let (_, scheduler) = unsafe { Self::parts(job) };
        // SAFETY: Used for one item below, the job, which holds the scheduler.
        let queue = unsafe { scheduler.reaper.queue() };
        // SAFETY: The job was initialized and has ended; cleanup is called once, here.
        unsafe { ours::drm_sched_job_cleanup(job) };
        // SAFETY: `ArmedJob` made the pointer from a pinned box of this type, and this is the last
        // use of it.
        let pending = unsafe { Pin::new_unchecked(KBox::from_raw(job.cast::<Pending<J>>())) };
        queue.enqueue(pending);
    }
}

#[pinned_drop]
impl<J: JobOps> PinnedDrop for Scheduler<J> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `raw` is initialized by the type invariant, and without jobs and entities, as
        // they hold the scheduler. A callback of a fence may still be about to wake it: callbacks
        // run under the spinlock of their fence, an RCU read-side section, so they have returned
        // after the grace period, and `drm_sched_fini()` cancels the work they queued. Readers of
        // the timeline name of its jobs' fences are RCU readers as well, and all of these fences
        // are signaled.
        unsafe {
            ours::drm_sched_wqueue_stop(self.raw());
            bindings::synchronize_rcu();
            ours::drm_sched_fini(self.raw());
        }
    }
}

/// The schedulers of an entity, as the array that C takes.
///
/// # Invariants
///
/// `raw` and `owned` are the same schedulers, at least one.
pub(super) struct SchedulerList<J: JobOps> {
    raw: KVec<*mut ours::drm_gpu_scheduler>,
    owned: KVec<Arc<Scheduler<J>>>,
}

// SAFETY: The pointers are those of `owned`, and `Arc<Scheduler<J>>` is `Send`.
unsafe impl<J: JobOps> Send for SchedulerList<J> {}
// SAFETY: The pointers are those of `owned`, and `Scheduler<J>` is `Sync`.
unsafe impl<J: JobOps> Sync for SchedulerList<J> {}

impl<J: JobOps> SchedulerList<J> {
    /// Makes a list; `EINVAL` for an empty one.
    pub(super) fn new(schedulers: &[Arc<Scheduler<J>>]) -> Result<Arc<Self>> {
        if schedulers.is_empty() {
            return Err(EINVAL);
        }
        let mut raw = KVec::with_capacity(schedulers.len(), GFP_KERNEL)?;
        let mut owned = KVec::with_capacity(schedulers.len(), GFP_KERNEL)?;
        for scheduler in schedulers {
            raw.push(scheduler.raw(), GFP_KERNEL)?;
            owned.push(scheduler.clone(), GFP_KERNEL)?;
        }
        // INVARIANT: Filled above, from a list that is not empty.
        Ok(Arc::new(Self { raw, owned }, GFP_KERNEL)?)
    }

    /// Returns the array for C.
    pub(super) fn as_mut_ptr(&self) -> *mut *mut ours::drm_gpu_scheduler {
        self.raw.as_ptr().cast_mut()
    }

    /// Returns the schedulers.
    pub(super) fn as_slice(&self) -> &[Arc<Scheduler<J>>] {
        &self.owned
    }
}

/// The memory of a job, from its init until it is freed on the reaper's queue.
#[repr(C)]
#[pin_data]
pub(super) struct Pending<J: JobOps> {
    /// First: [`Scheduler`] casts from it.
    #[pin]
    pub(super) raw: Opaque<ours::drm_sched_job>,
    /// A lock, since a job may time out while `run` is still executing.
    #[pin]
    pub(super) payload: Mutex<J>,
    #[pin]
    pub(super) work: Work<Self>,
    pub(super) list: Arc<SchedulerList<J>>,
}

// SAFETY: `drm_sched_job` is not tied to a task; payload and list are `Send`.
unsafe impl<J: JobOps> Send for Pending<J> {}
// SAFETY: The payload is under a mutex; the scheduler serializes accesses to `raw`.
unsafe impl<J: JobOps> Sync for Pending<J> {}

impl_has_work! {
    impl{J: JobOps} HasWork<Pending<J>> for Pending<J> { self.work }
}

impl<J: JobOps> WorkItem for Pending<J> {
    type Pointer = Pin<KBox<Self>>;

    /// Frees the job. The work item of a killed one (`drm_sched_entity_kill_jobs_work()`), from
    /// which `free_job` was called, does not use it afterwards; [`Barrier`] waits until it has left
    /// `free_job`.
    ///
    /// [`Barrier`]: crate::kapi::module_use::Barrier
    fn run(pending: Pin<KBox<Self>>) {
        drop(pending);
    }
}
