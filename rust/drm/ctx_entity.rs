// SPDX-License-Identifier: GPL-2.0

//! What user space knows as a ring of a context: an entity of the GPU's schedulers, whose jobs run one after the
//! other, and the fences of its last jobs by the numbers that were handed out for them.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

use crate::{
    gpu::Gpu,
    kapi::{
        fence::{Fence, Timeout},
        sched::{self, Entity, Priority},
    },
    ring::sdma::Job,
};

/// Jobs that may be on their way at a time; also the fences that are remembered.
const JOBS: usize = 32;

/// A job that was handed to the scheduler.
#[derive(Clone)]
pub(super) struct Submission {
    /// It goes to an engine.
    pub(super) scheduled: ARef<Fence>,
    /// The engine is done with it.
    pub(super) finished: ARef<Fence>,
}

struct History {
    /// The number of the next job.
    next: u64,
    /// The last jobs, by their number modulo [`JOBS`].
    sent: [Option<Submission>; JOBS],
}

impl History {
    fn slot(&mut self, number: u64) -> &mut Option<Submission> {
        &mut self.sent[(number % JOBS as u64) as usize]
    }

    /// What has to be finished before there is room for one more.
    fn in_the_way(&mut self) -> Option<ARef<Fence>> {
        let next = self.next;
        let oldest = self.slot(next).as_ref()?;
        (!oldest.finished.is_signaled()).then(|| oldest.finished.clone())
    }
}

/// A ring of a context.
#[pin_data]
pub(super) struct CtxEntity {
    entity: Entity<Job>,
    /// Held from the number to the hand-over of a job, so that jobs go in the order of their numbers.
    #[pin]
    history: Mutex<History>,
}

impl CtxEntity {
    /// A stream whose jobs run on any of the GPU's DMA engines. `owner` tells jobs of one address space from others.
    pub(super) fn new(gpu: &Gpu, priority: Priority, owner: usize) -> Result<Arc<Self>> {
        let entity = Entity::new(priority, gpu.sdma()?.schedulers(), owner)?;
        Arc::pin_init(
            pin_init!(Self {
                entity,
                history <- new_mutex!(History {
                    next: 1,
                    sent: [const { None }; JOBS],
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Fails with the error of the job that was scheduled last.
    pub(super) fn check(&self) -> Result {
        self.entity.error()
    }

    /// Waits until all jobs are handed to an engine, an exiting process for `timeout` at most. The
    /// queued jobs of a killed process end instead.
    pub(super) fn flush(&self, timeout: Timeout) {
        self.entity.flush(timeout);
    }

    /// Waits until the last job is done, a signal arrives or `timeout` expires.
    pub(super) fn wait_idle(&self, timeout: Timeout) {
        if let Ok(Some(last)) = self.submission(u64::MAX) {
            // All outcomes are the same to the caller, which closes a descriptor.
            let _ = last.finished.wait_interruptible(timeout);
        }
    }

    /// The job with a number, the last one for all ones; `None` if it is so old that it is over, `EINVAL` if there
    /// was none.
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
        if history.next - number > JOBS as u64 {
            return Ok(None);
        }
        Ok(history.slot(number).clone())
    }

    /// Waits until there is room for a job.
    pub(super) fn wait_for_room(&self) -> Result {
        loop {
            let Some(fence) = self.history.lock().in_the_way() else {
                return Ok(());
            };
            fence.wait_interruptible(Timeout::FOREVER)?;
        }
    }

    /// Hands a job to the scheduler and returns its number.
    ///
    /// `build` makes the job, given its number. `publish` shows its fence to whoever has to wait for it; it is called
    /// when nothing can fail any more.
    pub(super) fn submit(
        &self,
        build: impl for<'a> FnOnce(&'a Entity<Job>, u64) -> Result<sched::Job<'a, Job>>,
        publish: impl FnOnce(&ARef<Fence>),
    ) -> Result<u64> {
        loop {
            let mut history = self.history.lock();
            if let Some(fence) = history.in_the_way() {
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
            *history.slot(number) = Some(sent);
            job.push();
            return Ok(number);
        }
    }
}
