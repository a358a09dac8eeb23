// SPDX-License-Identifier: GPL-2.0

//! The scheduler of DRM: entities queue jobs, which wait for fences, and schedulers run them on hardware queues.
//!
//! Who keeps what: a job holds all schedulers that its entity may use, and so does the entity. A scheduler that
//! goes away therefore has neither jobs nor entities. What a job carries is dropped on a work queue of
//! its own (see [`Running`]), never by the scheduler's worker: there it may take any lock and wait for anything.

use core::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};

use kernel::{
    bindings, device,
    error::to_result,
    impl_has_work, new_mutex, new_work,
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        atomic::{Atomic, Full, Relaxed},
        Arc, Mutex, MutexGuard,
    },
    types::Opaque,
    workqueue::{Queue, Work, WorkItem},
};

use super::fence::{Fence, Timeout};
use crate::bindings as ours;

// What bindgen made of the structs must be what C has: unions of types that it does not follow are guesses.
const _: () = {
    assert!(size_of::<ours::drm_sched_entity>() == ours::SIZEOF_DRM_SCHED_ENTITY as usize);
    assert!(size_of::<ours::drm_sched_fence>() == ours::SIZEOF_DRM_SCHED_FENCE as usize);
    assert!(size_of::<ours::drm_sched_job>() == ours::SIZEOF_DRM_SCHED_JOB as usize);
    assert!(size_of::<ours::drm_gpu_scheduler>() == ours::SIZEOF_DRM_GPU_SCHEDULER as usize);
};

/// The work queue of [`Running`], an address; 0 while there is none.
static REAPER: Atomic<usize> = Atomic::new(0);

/// Schedulers that exist.
static LIVE: Atomic<i32> = Atomic::new(0);

/// What the module needs to have jobs: the queue on which they are dropped.
///
/// No memory is reclaimed by what runs on it, so it may wait for queues that promise no progress either. Dropping
/// it waits until no scheduler and thus no job is left.
///
/// # Invariants
///
/// The pointer is a work queue that this object owns, and [`REAPER`] is its address.
pub(crate) struct Running(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues are used from everywhere.
unsafe impl Send for Running {}
// SAFETY: As above.
unsafe impl Sync for Running {}

impl Running {
    /// Makes the queue; there is only one.
    pub(crate) fn new() -> Result<Self> {
        let name = c"rkfd_jobs".as_char_ptr();
        // SAFETY: The name lives for the call, which copies it.
        let raw = unsafe { ours::rkfd_helper_alloc_unbound_workqueue(name, false) }.cast();
        let queue = NonNull::<bindings::workqueue_struct>::new(raw).ok_or(ENOMEM)?;
        if REAPER.cmpxchg(0, raw as usize, Full).is_err() {
            // SAFETY: Nobody else knows the new queue.
            unsafe { bindings::destroy_workqueue(raw) };
            return Err(EBUSY);
        }
        // INVARIANT: A new queue, whose address was stored above.
        Ok(Self(queue))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A scheduler that is being made either counts already or does not find the queue.
        REAPER.xchg(0, Full);
        // SAFETY: The variable is static.
        unsafe { ours::rkfd_helper_wait_until_zero(LIVE.as_ptr()) };
        // SAFETY: By the type invariant. Only schedulers, their entities and their jobs enqueue anything; what
        // they have enqueued runs to its end.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Counts a scheduler among those that [`Running`] waits for, and keeps the queue.
///
/// # Invariants
///
/// The queue exists as long as this object.
struct Alive(NonNull<bindings::workqueue_struct>);

impl Alive {
    fn new() -> Result<Self> {
        LIVE.fetch_add(1, Full);
        match NonNull::new(REAPER.load(Relaxed) as *mut bindings::workqueue_struct) {
            // INVARIANT: Counted above, before the address was read: it is destroyed after `drop`.
            Some(queue) => Ok(Self(queue)),
            None => {
                gone();
                Err(ENODEV)
            }
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        gone();
    }
}

fn gone() {
    if LIVE.fetch_sub(1, Full) == 1 {
        // SAFETY: The address is only compared with those that are waited for.
        unsafe { bindings::wake_up_var(LIVE.as_ptr().cast()) };
    }
}

/// What jobs do. None of these functions may allocate memory that has to be waited for, nor take a lock under
/// which anybody waits for a fence.
pub(crate) trait JobOps: Send + Unpin + Sized + 'static {
    /// The hardware queue of a scheduler.
    type Queue: Send + Sync;

    /// The job's turn has come, all it depends on has happened. What it returns is waited for, and then it is
    /// called again; after `None` follows [`Self::run`]. After an error the job ends with it instead.
    fn prepare(&mut self, _queue: &Self::Queue, _cx: &Prepare<'_>) -> Result<Option<ARef<Fence>>> {
        Ok(None)
    }

    /// Gives the job to the hardware, once. It is done when the fence is signaled, or at once after an error.
    fn run(&mut self, queue: &Self::Queue) -> Result<ARef<Fence>>;

    /// The job, the oldest on the hardware, has taken too long. If its
    /// fence is still not signaled when this returns, it gets the same time again.
    fn timed_out(&mut self, queue: &Self::Queue);
}

/// What a job knows when its turn has come.
///
/// # Invariants
///
/// `entity` is the job's, which is valid as long as this object: nobody takes the job from it meanwhile.
pub(crate) struct Prepare<'a> {
    finished: &'a Fence,
    entity: *mut ours::drm_sched_entity,
}

impl Prepare<'_> {
    /// The fence of the job's end.
    pub(crate) fn finished(&self) -> ARef<Fence> {
        self.finished.into()
    }

    /// The context of the fences of the entity's jobs' ends.
    pub(crate) fn entity_context(&self) -> u64 {
        self.finished.context()
    }

    /// How the job before this one of the entity ended, as far as is known.
    pub(crate) fn entity_error(&self) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe { ours::drm_sched_entity_error(self.entity) })
    }
}

/// Runs jobs on one hardware queue.
///
/// # Invariants
///
/// `raw` is an initialized scheduler with `Self::OPS`, all of whose jobs are the first field of a `Pending<J>`.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Scheduler<J: JobOps> {
    #[pin]
    raw: Opaque<ours::drm_gpu_scheduler>,
    queue: J::Queue,
    name: CString,
    dev: ARef<device::Device>,
    credits: u32,
    // Last: until it is gone the module stays.
    alive: Alive,
}

// SAFETY: Schedulers are used from everywhere, and what is ours in them is `Sync`.
unsafe impl<J: JobOps> Send for Scheduler<J> {}
// SAFETY: As above.
unsafe impl<J: JobOps> Sync for Scheduler<J> {}

impl<J: JobOps> Scheduler<J> {
    const OPS: ours::drm_sched_backend_ops = ours::drm_sched_backend_ops {
        prepare_job: Some(Self::prepare_job),
        run_job: Some(Self::run_job),
        timedout_job: Some(Self::timedout_job),
        free_job: Some(Self::free_job),
        // There is nothing to cancel in a scheduler that goes away.
        cancel_job: None,
    };

    /// Makes a scheduler for `queue`, on which jobs of up to `credits` together may be at a time, none of them for
    /// longer than `timeout`.
    pub(crate) fn new(
        name: &CStr,
        credits: u32,
        timeout: Timeout,
        dev: &device::Device,
        queue: J::Queue,
    ) -> Result<Arc<Self>> {
        let name = CString::try_from(name)?;
        let dev: ARef<device::Device> = dev.into();
        let args = ours::drm_sched_init_args {
            ops: const { &Self::OPS },
            num_rqs: ours::drm_sched_priority_DRM_SCHED_PRIORITY_COUNT as u32,
            credit_limit: credits.max(1),
            timeout: timeout.raw(),
            name: name.as_char_ptr(),
            dev: super::raw_device(&dev),
            ..pin_init::zeroed()
        };
        Arc::pin_init(
            try_pin_init!(Self {
                alive: Alive::new()?,
                queue,
                name,
                dev,
                credits: credits.max(1),
                // INVARIANT: Initialized here; jobs only come from `ArmedJob`.
                raw <- Opaque::try_ffi_init(|raw: *mut ours::drm_gpu_scheduler| {
                    // SAFETY: The memory is ours, and pinned. Operations are static; name and device live
                    // as long as the scheduler, wherever the object that holds them is moved to.
                    unsafe {
                        raw.write_bytes(0, 1);
                        to_result(ours::drm_sched_init(raw, &args))
                    }
                }),
            }),
            GFP_KERNEL,
        )
    }

    fn raw(&self) -> *mut ours::drm_gpu_scheduler {
        self.raw.get()
    }

    /// # Safety
    ///
    /// `job` is an armed job of a scheduler of this type, which stays valid for the lifetime of the results.
    unsafe fn parts<'a>(job: *mut ours::drm_sched_job) -> (&'a Pending<J>, &'a Self) {
        // SAFETY: By the type invariant, a job is the first field of a `Pending<J>`, a scheduler that of a
        // `Self`. The job holds the scheduler, which is set since it was armed.
        unsafe { (&*job.cast(), &*(*job).sched.cast()) }
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job that is the next of its entity.
    unsafe extern "C" fn prepare_job(
        job: *mut ours::drm_sched_job,
        entity: *mut ours::drm_sched_entity,
    ) -> *mut bindings::dma_fence {
        // SAFETY: By the safety requirement.
        let (pending, scheduler) = unsafe { Self::parts(job) };
        // SAFETY: The job holds its fences.
        let finished = unsafe { &raw mut (*(*job).s_fence).finished };
        // INVARIANT: The scheduler waits for us before it does anything else with the entity.
        let cx = Prepare {
            // SAFETY: As above.
            finished: unsafe { Fence::borrow_raw(finished) },
            entity,
        };
        let result = pending.state.lock().payload.prepare(&scheduler.queue, &cx);
        match result {
            // The scheduler takes over our reference.
            Ok(Some(fence)) => ARef::into_raw(fence).cast().as_ptr(),
            Ok(None) => ptr::null_mut(),
            Err(e) => {
                // SAFETY: The fence is valid, and an `Error` is a negative error number.
                unsafe { ours::rkfd_helper_dma_fence_set_error(finished, e.to_errno()) };
                ptr::null_mut()
            }
        }
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job that is ready to run, once.
    unsafe extern "C" fn run_job(job: *mut ours::drm_sched_job) -> *mut bindings::dma_fence {
        // SAFETY: By the safety requirement.
        let (pending, scheduler) = unsafe { Self::parts(job) };
        // SAFETY: The job holds its fences; nobody signals this one while it is not running.
        let error = unsafe { (*(*job).s_fence).finished.error };
        let mut state = pending.state.lock();
        state.taken = true;
        let result = to_result(error).and_then(|()| state.payload.run(&scheduler.queue));
        match result {
            // The scheduler takes over our reference.
            Ok(fence) => ARef::into_raw(fence).cast().as_ptr(),
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job that was run, or is being run, and that is not freed during the call.
    unsafe extern "C" fn timedout_job(job: *mut ours::drm_sched_job) -> ours::drm_gpu_sched_stat {
        // SAFETY: By the safety requirement.
        let (pending, scheduler) = unsafe { Self::parts(job) };
        pending.state.lock().payload.timed_out(&scheduler.queue);
        // The scheduler took the job out of its list. All other answers would leave it there, and nobody would
        // free it.
        ours::drm_gpu_sched_stat_DRM_GPU_SCHED_STAT_NO_HANG
    }

    /// # Safety
    ///
    /// Called by the scheduler for a job whose last fence is signaled, as the last use of it.
    unsafe extern "C" fn free_job(job: *mut ours::drm_sched_job) {
        // SAFETY: By the safety requirement.
        let (_, scheduler) = unsafe { Self::parts(job) };
        let queue = scheduler.alive.0;
        // SAFETY: The job was armed and has ended.
        unsafe { ours::drm_sched_job_cleanup(job) };
        // SAFETY: `ArmedJob::push` made the pointer from such a box, which was pinned.
        let pending = unsafe { Pin::new_unchecked(KBox::from_raw(job.cast::<Pending<J>>())) };
        // SAFETY: The job holds the scheduler, which holds the queue: it drains before it is destroyed, so it
        // lasts until this item has run, even if that drops the last of them.
        unsafe { Queue::from_raw(queue.as_ptr()) }.enqueue(pending);
    }
}

#[pinned_drop]
impl<J: JobOps> PinnedDrop for Scheduler<J> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. No job and no entity is left, as they hold the scheduler. Callbacks of
        // fences that may still be about to wake it run in RCU read-side sections (under the spinlock of
        // a fence): after the grace period they are through, `drm_sched_fini` takes back what they have queued,
        // and new ones there are none. Who reads the names of its jobs' fences does so under RCU too, and
        // they are all signaled.
        unsafe {
            ours::drm_sched_wqueue_stop(self.raw());
            bindings::synchronize_rcu();
            ours::drm_sched_fini(self.raw());
        }
    }
}

/// Schedulers, in the form that C wants.
struct List<J: JobOps> {
    raw: KVec<*mut ours::drm_gpu_scheduler>,
    owned: KVec<Arc<Scheduler<J>>>,
}

// SAFETY: The pointers are those of the schedulers, which are `Sync`.
unsafe impl<J: JobOps> Send for List<J> {}
// SAFETY: As above.
unsafe impl<J: JobOps> Sync for List<J> {}

impl<J: JobOps> List<J> {
    fn new(schedulers: &[Arc<Scheduler<J>>]) -> Result<Arc<Self>> {
        let mut raw = KVec::with_capacity(schedulers.len(), GFP_KERNEL)?;
        let mut owned = KVec::with_capacity(schedulers.len(), GFP_KERNEL)?;
        for scheduler in schedulers {
            raw.push(scheduler.raw(), GFP_KERNEL)?;
            owned.push(scheduler.clone(), GFP_KERNEL)?;
        }
        Ok(Arc::new(Self { raw, owned }, GFP_KERNEL)?)
    }
}

/// Which entity's jobs are run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// The driver's own.
    Kernel = ours::drm_sched_priority_DRM_SCHED_PRIORITY_KERNEL as isize,
    /// Before others.
    High = ours::drm_sched_priority_DRM_SCHED_PRIORITY_HIGH as isize,
    /// As others.
    Normal = ours::drm_sched_priority_DRM_SCHED_PRIORITY_NORMAL as isize,
    /// When nothing else is to do.
    Low = ours::drm_sched_priority_DRM_SCHED_PRIORITY_LOW as isize,
}

/// A queue of jobs, which run one after the other, each batch on that of its schedulers that has least to do.
///
/// Dropping it waits until the hardware has got all jobs, or until the process is killed; what is queued
/// then ends with `ESRCH`.
pub(crate) struct Entity<J: JobOps> {
    /// There until `drop`.
    queue: ManuallyDrop<Pin<KBox<EntityQueue<J>>>>,
    owner: usize,
}

/// The memory of an entity.
///
/// # Invariants
///
/// `raw` is an initialized entity, none of whose jobs is of another type than `J`. Its list of schedulers is that
/// of `list`.
#[pin_data]
struct EntityQueue<J: JobOps> {
    #[pin]
    raw: Opaque<ours::drm_sched_entity>,
    /// From arming a job to pushing it: the order of the fences is that of the queue. Also makes killing
    /// the only one that takes jobs out of a queue that is stopped.
    #[pin]
    lock: Mutex<()>,
    list: Arc<List<J>>,
    #[pin]
    work: Work<Self>,
}

// SAFETY: What C does with an entity it does under its own locks.
unsafe impl<J: JobOps> Send for EntityQueue<J> {}
// SAFETY: As above.
unsafe impl<J: JobOps> Sync for EntityQueue<J> {}

impl_has_work! {
    impl{J: JobOps} HasWork<EntityQueue<J>> for EntityQueue<J> { self.work }
}

impl<J: JobOps> WorkItem for EntityQueue<J> {
    type Pointer = Pin<KBox<Self>>;

    fn run(queue: Pin<KBox<Self>>) {
        // The callback of a fence that the entity waited for may still be using entity and scheduler, under the
        // spinlock of the fence. It is not started anew.
        // SAFETY: May sleep here.
        unsafe { bindings::synchronize_rcu() };
        drop(queue);
    }
}

impl<J: JobOps> EntityQueue<J> {
    /// Ends the jobs that are queued, in order, as soon as what they depend on has happened.
    fn kill(&self) {
        let _guard = self.lock.lock();
        // SAFETY: The entity is valid. It may be killed again and again, by one at a time.
        unsafe { ours::drm_sched_entity_kill(self.raw.get()) }
    }

    fn is_stopped(&self) -> bool {
        // SAFETY: The entity is valid.
        unsafe { ours::rkfd_helper_sched_entity_stopped(self.raw.get()) }
    }

    fn flush(&self, timeout: Timeout) {
        // SAFETY: The entity is valid, and so are its schedulers.
        if unsafe { ours::rkfd_helper_sched_entity_flush(self.raw.get(), timeout.raw()) } {
            self.kill();
        }
    }
}

/// How long an exiting process waits for the jobs it has queued.
const FLUSH_MS: u32 = 1000;

impl<J: JobOps> Entity<J> {
    /// Makes a queue for jobs that run on any of these schedulers. `owner` marks their fences, see
    /// [`Fence::owner`].
    pub(crate) fn new(
        priority: Priority,
        schedulers: &[Arc<Scheduler<J>>],
        owner: usize,
    ) -> Result<Self> {
        if schedulers.is_empty() {
            return Err(EINVAL);
        }
        let list = List::new(schedulers)?;
        let array = list.raw.as_ptr().cast_mut();
        let queue = KBox::pin_init(
            try_pin_init!(EntityQueue {
                // INVARIANT: Initialized here; jobs only come from `Job<J>`.
                raw <- Opaque::try_ffi_init(|raw| {
                    // SAFETY: The memory is ours, and pinned. The list is not empty; all it consists of lives as
                    // long as the entity.
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

    /// How the last job that was given to the hardware ended, as far as is known.
    pub(crate) fn error(&self) -> Result {
        // SAFETY: The entity is valid.
        to_result(unsafe { ours::drm_sched_entity_error(self.queue.raw.get()) })
    }

    /// Waits until all jobs are handed to the hardware, or the process is killed. Called when a
    /// descriptor is closed. An exiting process waits for `timeout` at most; if it was killed, its
    /// queued jobs end with `ESRCH`.
    pub(crate) fn flush(&self, timeout: Timeout) {
        self.queue.flush(timeout);
    }
}

impl<J: JobOps> Drop for Entity<J> {
    fn drop(&mut self) {
        // SAFETY: Nobody uses the field any more.
        let queue = unsafe { ManuallyDrop::take(&mut self.queue) };
        queue.flush(Timeout::from_ms(FLUSH_MS));
        queue.kill();
        let raw = queue.raw.get();
        // SAFETY: The entity is valid. It is stopped, so nothing but the callback of what it waits for touches
        // `dependency` any more. Taking the callback away takes the lock of the fence: either it had not been
        // called, then the reference that belongs to `dependency` is ours now; or it has run to its
        // end, and has dropped that reference. (`drm_sched_entity_fini` alone would race with it.)
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
        let reaper = queue.list.owned[0].alive.0;
        // SAFETY: The entity holds the scheduler, which holds the queue: it drains before it is destroyed, so it
        // lasts until this item has run, even if that drops the last of them.
        unsafe { Queue::from_raw(reaper.as_ptr()) }.enqueue(queue);
    }
}

/// The memory of a job.
#[repr(C)]
#[pin_data]
struct Pending<J: JobOps> {
    #[pin]
    raw: Opaque<ours::drm_sched_job>,
    /// A job may time out while it is still being given to the hardware.
    #[pin]
    state: Mutex<State<J>>,
    #[pin]
    work: Work<Self>,
    list: Arc<List<J>>,
}

struct State<J> {
    payload: J,
    /// The scheduler has run the job; otherwise it was killed.
    taken: bool,
}

// SAFETY: Jobs are made to go from thread to thread; the payload is `Send`, and under a lock.
unsafe impl<J: JobOps> Send for Pending<J> {}
// SAFETY: As above.
unsafe impl<J: JobOps> Sync for Pending<J> {}

impl_has_work! {
    impl{J: JobOps} HasWork<Pending<J>> for Pending<J> { self.work }
}

impl<J: JobOps> WorkItem for Pending<J> {
    type Pointer = Pin<KBox<Self>>;

    fn run(pending: Pin<KBox<Self>>) {
        if !pending.state.lock().taken {
            // SAFETY: The job is valid.
            let work = unsafe { &raw mut (*pending.raw.get()).__bindgen_anon_1 };
            // SAFETY: A job that was killed is freed by a work item in itself, which must have come to its end,
            // or it would return into a module that is gone.
            unsafe { bindings::flush_work(work.cast()) };
        }
        drop(pending);
    }
}

/// A job that is not queued yet. Dropping it leaves no trace.
///
/// # Invariants
///
/// The job is initialized and not armed; its entity is that of `entity`.
pub(crate) struct Job<'a, J: JobOps> {
    pending: Pin<KBox<Pending<J>>>,
    entity: &'a Entity<J>,
}

impl<'a, J: JobOps> Job<'a, J> {
    /// Makes a job that takes `credits` of those of the scheduler.
    pub(crate) fn new(entity: &'a Entity<J>, credits: u32, payload: J) -> Result<Self> {
        let queue = &entity.queue;
        if queue.is_stopped() {
            return Err(ESRCH);
        }
        // More would never run.
        let most = queue
            .list
            .owned
            .iter()
            .map(|s| s.credits)
            .min()
            .unwrap_or(1);
        let owner = entity.owner as *mut c_void;
        let pending = KBox::pin_init(
            try_pin_init!(Pending {
                raw <- Opaque::try_ffi_init(|raw| {
                    // SAFETY: The memory is ours, and pinned. The entity is valid, and outlives the job as
                    // long as that refers to it: `'a` until it is pushed, then it is the entity that has it.
                    to_result(unsafe {
                        ours::drm_sched_job_init(
                            raw,
                            queue.raw.get(),
                            credits.clamp(1, most),
                            owner,
                            0,
                        )
                    })
                }),
                state <- new_mutex!(State { payload, taken: false }, "Job::state"),
                work <- new_work!("Job::work"),
                list: queue.list.clone(),
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: Initialized above.
        Ok(Self { pending, entity })
    }

    /// The job does not start before `fence` is signaled.
    pub(crate) fn add_dependency(&mut self, fence: ARef<Fence>) -> Result {
        // SAFETY: The job is initialized and not armed; the reference is handed over.
        to_result(unsafe {
            ours::drm_sched_job_add_dependency(
                self.pending.raw.get(),
                ARef::into_raw(fence).cast().as_ptr(),
            )
        })
    }

    /// From here on there is no way back: the job gets its fences, and its place in the entity's queue. Until it
    /// is pushed nobody else can arm a job of this entity, not even this thread.
    pub(crate) fn arm(self) -> ArmedJob<'a, J> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, and its field not used again.
        let pending = unsafe { ptr::read(&this.pending) };
        let entity = &this.entity.queue;
        let guard = entity.lock.lock();
        // SAFETY: The job is initialized, its entity valid, and its lock held.
        unsafe { ours::drm_sched_job_arm(pending.raw.get()) };
        // INVARIANT: Armed above.
        ArmedJob {
            pending: ManuallyDrop::new(pending),
            entity,
            _guard: guard,
        }
    }
}

impl<J: JobOps> Drop for Job<'_, J> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { ours::drm_sched_job_cleanup(self.pending.raw.get()) }
    }
}

/// A job with fences, to be pushed at once. Dropping it pushes it too.
///
/// # Invariants
///
/// The job is armed and not pushed; the lock of its entity is held.
pub(crate) struct ArmedJob<'a, J: JobOps> {
    /// There until `drop`.
    pending: ManuallyDrop<Pin<KBox<Pending<J>>>>,
    entity: &'a EntityQueue<J>,
    _guard: MutexGuard<'a, ()>,
}

impl<J: JobOps> ArmedJob<'_, J> {
    fn fences(&self) -> *mut ours::drm_sched_fence {
        // SAFETY: The job is valid; it holds its fences, which it has by the type invariant.
        unsafe { (*self.pending.raw.get()).s_fence }
    }

    /// Signaled when the job has ended, with its error.
    pub(crate) fn finished(&self) -> ARef<Fence> {
        // SAFETY: The fence is initialized by the type invariant.
        unsafe { Fence::borrow_raw(&raw mut (*self.fences()).finished) }.into()
    }

    /// Signaled when the job is given to the hardware.
    pub(crate) fn scheduled(&self) -> ARef<Fence> {
        // SAFETY: The fence is initialized by the type invariant.
        unsafe { Fence::borrow_raw(&raw mut (*self.fences()).scheduled) }.into()
    }

    /// Queues the job, and returns the fence of its end.
    pub(crate) fn push(self) -> ARef<Fence> {
        self.finished()
    }
}

impl<J: JobOps> Drop for ArmedJob<'_, J> {
    fn drop(&mut self) {
        // SAFETY: Nobody uses the field any more.
        let pending = unsafe { ManuallyDrop::take(&mut self.pending) };
        // SAFETY: The box is never moved out of until `free_job` makes a box of the pointer again.
        let raw = KBox::into_raw(unsafe { Pin::into_inner_unchecked(pending) });
        // SAFETY: The job, the first field, is armed, and the lock of its entity held since then.
        unsafe { ours::drm_sched_entity_push_job(raw.cast()) };
        if self.entity.is_stopped() {
            // Killed meanwhile, and nobody may look into the queue again.
            // SAFETY: The entity is valid, and its lock held.
            unsafe { ours::drm_sched_entity_kill(self.entity.raw.get()) };
        }
    }
}
