// SPDX-License-Identifier: GPL-2.0

//! A ring of a context: a scheduler entity, whose jobs run in order, and the fences of its last
//! jobs by sequence number.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use super::partition::{EntityCount, FilePartition};
use crate::{
    kapi::{
        fence::{Fence, Timeout},
        sched::{self, Entity, Priority},
        timekeeping::ktime_get_ns,
    },
    ring::sdma::Job,
};

/// Limit of jobs in flight, and the number of fences that are kept (`amdgpu_sched_jobs`).
const JOBS: u64 = 32;

/// The fences of a submitted job.
#[derive(Clone)]
pub(super) struct Submission {
    /// Signaled when the job is emitted to a ring.
    pub(super) scheduled: ARef<Fence>,
    /// Signaled when the job has completed.
    pub(super) finished: ARef<Fence>,
}

impl Submission {
    /// Returns how long the job has been on its ring, in nanoseconds.
    fn ns(&self) -> u64 {
        let Some(start) = self.scheduled.signaled_at() else {
            return 0;
        };
        let end = self.finished.signaled_at().unwrap_or_else(ktime_get_ns);
        u64::try_from(end - start).unwrap_or(0)
    }
}

/// Time of the jobs of a file that no entity keeps any more.
pub(super) struct Spent(Atomic<u64>);

impl Spent {
    /// Returns no time.
    pub(super) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Returns the time in nanoseconds.
    pub(super) fn ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds the time of a job.
    fn add(&self, job: &Submission) {
        self.0.fetch_add(job.ns(), Relaxed);
    }
}

struct History {
    /// Sequence number of the next job.
    next: u64,
    /// The last jobs, by sequence number modulo [`JOBS`].
    sent: [Option<Submission>; JOBS as usize],
}

impl History {
    fn slot(&mut self, number: u64) -> &mut Option<Submission> {
        // CAST: The remainder is less than 32.
        &mut self.sent[(number % JOBS) as usize]
    }

    /// Returns the jobs that are kept.
    fn kept(&self) -> impl Iterator<Item = &Submission> {
        self.sent.iter().flatten()
    }

    /// Returns the fence that the next job has to wait for, if [`JOBS`] jobs are in flight.
    fn oldest_in_flight(&mut self) -> Option<ARef<Fence>> {
        let next = self.next;
        let oldest = self.slot(next).as_ref()?;
        (!oldest.finished.is_signaled()).then(|| oldest.finished.clone())
    }
}

/// A scheduler entity of a context with the history of its jobs.
#[pin_data(PinnedDrop)]
pub(super) struct CtxEntity {
    entity: Entity<Job>,
    _count: EntityCount,
    spent: Arc<Spent>,
    /// Held from assigning a sequence number to pushing the job, so that both are in the same
    /// order.
    #[pin]
    history: Mutex<History>,
}

impl CtxEntity {
    /// Returns an entity whose jobs run on any SDMA engine of a partition. `owner` marks their
    /// fences, `spent` gets the time of those that are not kept. Errors as
    /// [`FilePartition::select`]; `ENOENT` if the partition has no engine.
    pub(super) fn new(
        partition: &FilePartition,
        priority: Priority,
        owner: usize,
        spent: &Arc<Spent>,
    ) -> Result<Arc<Self>> {
        let (engines, count) = partition.select()?;
        let schedulers = partition.gpu().sdma()?.schedulers();
        let first = engines.first as usize;
        let schedulers = schedulers
            .get(first..first + engines.count as usize)
            .filter(|schedulers| !schedulers.is_empty())
            .ok_or(ENOENT)?;
        let entity = Entity::new(priority, schedulers, owner)?;
        Arc::pin_init(
            pin_init!(Self {
                entity,
                _count: count,
                spent: spent.clone(),
                history <- new_mutex!(History {
                    next: 1,
                    sent: [const { None }; JOBS as usize],
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the time of the jobs that are kept, in nanoseconds.
    pub(super) fn ns(&self) -> u64 {
        self.history.lock().kept().map(Submission::ns).sum()
    }

    /// Returns the error of the job that was scheduled last.
    pub(super) fn check(&self) -> Result {
        self.entity.error()
    }

    /// Waits until all jobs are scheduled, an exiting process for `timeout` at most. The
    /// queued jobs of a killed process end instead.
    pub(super) fn flush(&self, timeout: Timeout) {
        self.entity.flush(timeout);
    }

    /// Waits until the last job is done, a signal arrives or `timeout` expires.
    pub(super) fn wait_idle(&self, timeout: Timeout) {
        if let Ok(Some(last)) = self.submission(u64::MAX) {
            // The caller closes a descriptor and ignores the result.
            let _ = last.finished.wait_interruptible(timeout);
        }
    }

    /// Returns the job with a sequence number, the last one for `u64::MAX`; `None` if its fences
    /// are no longer kept, which implies that it is done. `EINVAL` if there was no such job.
    pub(super) fn submission(&self, number: u64) -> Result<Option<Submission>> {
        let mut history = self.history.lock();
        let number = if number == u64::MAX {
            history.next - 1
        } else {
            number
        };
        if number >= history.next {
            return Err(EINVAL);
        }
        if history.next - number > JOBS {
            return Ok(None);
        }
        Ok(history.slot(number).clone())
    }

    /// Waits until less than [`JOBS`] jobs are in flight. `ERESTARTSYS` if a signal arrives.
    pub(super) fn wait_for_room(&self) -> Result {
        loop {
            let Some(fence) = self.history.lock().oldest_in_flight() else {
                return Ok(());
            };
            fence.wait_interruptible(Timeout::FOREVER)?;
        }
    }

    /// Pushes a job to the scheduler and returns its sequence number.
    ///
    /// `build` creates the job, given its sequence number. `publish` adds its fence to reservations
    /// and syncobjs; it is called when nothing can fail any more.
    pub(super) fn submit(
        &self,
        build: impl for<'a> FnOnce(&'a Entity<Job>, u64) -> Result<sched::Job<'a, Job>>,
        publish: impl FnOnce(&ARef<Fence>),
    ) -> Result<u64> {
        loop {
            let mut history = self.history.lock();
            if let Some(fence) = history.oldest_in_flight() {
                drop(history);
                fence.wait_interruptible(Timeout::FOREVER)?;
                continue;
            }
            let number = history.next;
            let job = build(&self.entity, number)?.arm();
            let sent = Submission {
                scheduled: job.scheduled(),
                finished: job.finished(),
            };
            publish(&sent.finished);
            history.next += 1;
            if let Some(oldest) = history.slot(number).replace(sent) {
                self.spent.add(&oldest);
            }
            job.push();
            return Ok(number);
        }
    }
}

#[pinned_drop]
impl PinnedDrop for CtxEntity {
    fn drop(self: Pin<&mut Self>) {
        // The time of a job begins when it is on a ring.
        self.entity.end();
        self.history
            .lock()
            .kept()
            .for_each(|job| self.spent.add(job));
    }
}
