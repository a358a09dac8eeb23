// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The compute units: worker threads that run the workgroups of jobs in time slices.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use gpu_wave::Stop;

use super::host::WorkerHost;
use super::{lock, Job};
use crate::engines::cp::cwsr::Saving;
use crate::engines::cp::env::{Env, ShaderMemory};
use crate::engines::cp::shader::Shader;
use crate::engines::cp::shared::Site;
use crate::engines::cp::Wake;
use crate::event;
use crate::mailbox::Mailbox;

/// Time slice of a job while others wait.
const SLICE: Duration = Duration::from_millis(2);
/// Time slices that a job may spend in the trap handler before it counts as having had one. A
/// slice is time of the host, which a busy one gives to others: a wave that is saved as soon as it
/// is restored would never proceed.
const RESTORES: u8 = 100;
/// One of this many time slices is given to the job that waits longest, independent of its
/// priority: running waves are not preempted on silicon.
const FAIR: u64 = 8;

struct Jobs {
    ready: VecDeque<Arc<Job>>,
    /// Number of time slices.
    slices: u64,
    closed: bool,
}

/// The compute units.
pub struct Pool {
    jobs: Mutex<Jobs>,
    wake: Condvar,
    /// Workers that run a workgroup.
    busy: Arc<AtomicUsize>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            jobs: Mutex::new(Jobs {
                ready: VecDeque::new(),
                slices: 0,
                closed: false,
            }),
            wake: Condvar::new(),
            busy: Arc::default(),
        }
    }
}

impl Pool {
    /// Returns a pool that counts the workers which run a workgroup in `busy`.
    pub fn new(busy: Arc<AtomicUsize>) -> Self {
        Self {
            busy,
            ..Self::default()
        }
    }

    /// Queues a job for the workers, again after it was stopped. `sites` are the XCCs of the job,
    /// in the order in which workgroups are distributed.
    pub fn submit(&self, job: &Arc<Job>, sites: &[Site], priority: u8) {
        job.priority.store(priority, Ordering::Release);
        {
            let mut state = lock(&job.state);
            state.spaces = sites.iter().map(|site| site.space).collect();
            state.stuck = 0;
            state.saving = None;
        }
        for share in &job.shares {
            share.dispatch.invalidate_code();
        }
        job.saves.store(false, Ordering::Release);
        job.had_slice.store(false, Ordering::Release);
        job.restores.store(0, Ordering::Release);
        job.stop.store(false, Ordering::Release);
        lock(&self.jobs).ready.push_back(job.clone());
        self.wake.notify_all();
    }

    /// Saves the workgroups of a job that have started. `first` is the place of its first share.
    pub fn save(&self, job: &Arc<Job>, saving: &Arc<Saving>, first: usize) {
        {
            let mut state = lock(&job.state);
            let restored = state.restored.iter().map(|group| group.index);
            for index in state.live.keys().copied().chain(restored) {
                saving.expect(first + job.place_of(index), (job.id, index));
            }
            state.saving = Some((saving.clone(), first));
            let halted = std::mem::take(&mut state.halted);
            state.paused.extend(halted);
        }
        job.saves.store(true, Ordering::Release);
        self.requeue(job);
    }

    /// Ends the worker threads.
    pub fn close(&self) {
        lock(&self.jobs).closed = true;
        self.wake.notify_all();
    }

    pub(super) fn others_wait(&self, id: u64) -> bool {
        lock(&self.jobs).ready.iter().any(|job| job.id != id)
    }

    /// Waits for a runnable job, and moves it to the end of the run queue. Takes the job of the
    /// highest priority, but every [`FAIR`]th time the one that waits longest.
    fn pick(&self) -> Option<Arc<Job>> {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.closed {
                return None;
            }
            jobs.ready.retain(|job| job.has_work());
            jobs.slices += 1;
            let rank = |job: &Arc<Job>| job.priority.load(Ordering::Acquire);
            let top = match jobs.slices % FAIR {
                0 => None,
                _ => jobs.ready.iter().map(rank).max(),
            };
            let chosen = |job| top.is_none_or(|top| rank(job) == top);
            let at = jobs.ready.iter().position(chosen).unwrap_or(0);
            if let Some(job) = jobs.ready.remove(at) {
                jobs.ready.push_back(job.clone());
                return Some(job);
            }
            jobs = self.wake.wait(jobs).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Runs a worker thread.
    pub fn work(&self, env: &dyn Env, shader: &dyn Shader, mail: &Mailbox<Wake>) {
        while let Some(job) = self.pick() {
            self.busy.fetch_add(1, Ordering::Relaxed);
            self.slice(env, shader, mail, &job);
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Requeues a job that left the run queue when all its runnable workgroups were taken.
    fn requeue(&self, job: &Arc<Job>) {
        let mut jobs = lock(&self.jobs);
        if job.has_work() && !jobs.ready.iter().any(|other| other.id == job.id) {
            jobs.ready.push_back(job.clone());
            self.wake.notify_one();
        }
    }

    fn slice(&self, env: &dyn Env, shader: &dyn Shader, mail: &Mailbox<Wake>, job: &Arc<Job>) {
        let deadline = Instant::now() + SLICE;
        let mut proceeds = true;
        loop {
            let was_launched = job.is_launched();
            let Some((mut unit, turn, space)) = job.take(shader, env.trace()) else {
                break;
            };
            let other = match space.xcc == env.xcc() {
                true => None,
                false => env.peer(space.xcc),
            };
            let on = other.as_deref().unwrap_or(env);
            let memory = ShaderMemory::on_cu(on, space.vmid, on.has_l2().then_some(unit.cu));
            let host = WorkerHost {
                env,
                on,
                pool: self,
                job,
                mail,
                space,
                index: unit.index,
                is_saving: unit.is_saving,
                deadline,
                turn: Instant::now() + turn,
                waits: AtomicBool::new(false),
                nacked: AtomicBool::new(false),
            };
            lock(&job.state).started.get_or_insert_with(|| env.clock());
            if !was_launched && job.is_launched() {
                // The packet after it may be taken.
                mail.send(Wake::Job(job.id));
            }
            let result = unit.state.run(&memory, &host);
            let interrupted = result == Err(Stop::Interrupted);
            if let Err(halted @ Stop::Halted { .. }) = &result {
                event!(env.trace(), "sq", "halted", "job={} {halted}", job.id);
            }
            proceeds = !interrupted || !unit.state.is_in_handler();
            let waits = host.waits.load(Ordering::Relaxed);
            if job.complete_workgroup((unit, space), result, waits, env) {
                mail.send(Wake::Job(job.id));
            }
            if interrupted || Instant::now() >= deadline {
                break;
            }
        }
        if proceeds || job.restores.fetch_add(1, Ordering::AcqRel) >= RESTORES {
            job.had_slice.store(true, Ordering::Release);
        }
        self.requeue(job);
    }
}
