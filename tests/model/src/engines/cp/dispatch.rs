// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Dispatches on their way through the compute units: a [`Job`] is one dispatch, the [`Pool`]
//! shares the worker threads between all jobs.
//!
//! A worker takes a job, runs some workgroups of it for a slice of time and goes on to the next
//! job, so that an endless kernel delays the others but never stops them. A job can be stopped at
//! any time: workgroups that run are interrupted, their state stays in the job, and
//! [`Pool::submit`] lets them go on where they were, maybe under another VMID.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_wave::{Dispatch, Host, Memory, Message, Stop};

use super::env::{Env, ShaderMemory};
use super::shader::{Running, Shader};
use super::Wake;
use crate::mailbox::Mailbox;

/// How long a worker stays with one job while others wait.
const SLICE: Duration = Duration::from_millis(2);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Workgroups are left.
    Going,
    /// All workgroups have ended.
    Done,
    /// A workgroup stopped for good.
    Failed(Stop),
}

struct State {
    next: u64,
    done: u64,
    running: u32,
    paused: Vec<([u32; 3], Box<dyn Running>)>,
    failed: Option<Stop>,
    started: Option<u64>,
    ended: u64,
}

/// One dispatch.
pub struct Job {
    /// Unique in the life of the model.
    pub id: u64,
    /// What runs.
    pub dispatch: Arc<Dispatch>,
    /// Number of workgroups.
    pub total: u64,
    groups: [u32; 3],
    vmid: AtomicU8,
    stop: AtomicBool,
    state: Mutex<State>,
}

impl Job {
    /// A job that has not started.
    pub fn new(id: u64, dispatch: Dispatch) -> Arc<Self> {
        let groups = dispatch.workgroups();
        Arc::new(Self {
            id,
            total: groups
                .iter()
                .fold(1, |all: u64, &n| all.saturating_mul(n.into())),
            dispatch: Arc::new(dispatch),
            groups,
            vmid: AtomicU8::new(0),
            stop: AtomicBool::new(false),
            state: Mutex::new(State {
                next: 0,
                done: 0,
                running: 0,
                paused: Vec::new(),
                failed: None,
                started: None,
                ended: 0,
            }),
        })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let state = lock(&self.state);
        match &state.failed {
            Some(stop) if state.running == 0 => Progress::Failed(stop.clone()),
            _ if state.done == self.total => Progress::Done,
            _ => Progress::Going,
        }
    }

    /// Clock values at the first workgroup's start and the last one's end.
    pub fn times(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.started.unwrap_or(state.ended), state.ended)
    }

    /// Workgroups that have ended, and those kept half done.
    pub fn counts(&self) -> (u64, usize) {
        let state = lock(&self.state);
        (state.done, state.paused.len())
    }

    /// Asks the workers to let go of it.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// No worker has anything of it in hand.
    pub fn is_quiet(&self) -> bool {
        lock(&self.state).running == 0
    }

    fn group(&self, index: u64) -> [u32; 3] {
        let [x, y, _] = self.groups.map(u64::from);
        [
            (index % x) as u32,
            (index / x % y) as u32,
            (index / x / y) as u32,
        ]
    }

    /// The next workgroup to run: a paused one first.
    fn take(&self, shader: &dyn Shader) -> Option<([u32; 3], Box<dyn Running>)> {
        let mut state = lock(&self.state);
        if self.stop.load(Ordering::Acquire) || state.failed.is_some() {
            return None;
        }
        let unit = match state.paused.pop() {
            Some(unit) => unit,
            None if state.next < self.total => {
                let group = self.group(state.next);
                state.next += 1;
                (group, shader.start(&self.dispatch, group))
            }
            None => return None,
        };
        state.running += 1;
        Some(unit)
    }

    fn has_work(&self) -> bool {
        let state = lock(&self.state);
        !self.stop.load(Ordering::Acquire)
            && state.failed.is_none()
            && (state.next < self.total || !state.paused.is_empty())
    }

    /// Books what became of a workgroup. True when the engine has to look at the job.
    fn give_back(
        &self,
        unit: ([u32; 3], Box<dyn Running>),
        result: Result<(), Stop>,
        now: u64,
    ) -> bool {
        let mut state = lock(&self.state);
        state.running -= 1;
        match result {
            Ok(()) => {
                state.done += 1;
                state.ended = now;
            }
            Err(Stop::Interrupted) => state.paused.push(unit),
            Err(stop) => {
                state.failed.get_or_insert(stop);
            }
        }
        let stopping = state.failed.is_some() || self.stop.load(Ordering::Acquire);
        state.done == self.total || (stopping && state.running == 0)
    }
}

struct Jobs {
    ready: VecDeque<Arc<Job>>,
    closed: bool,
}

/// The compute units.
pub struct Pool {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            jobs: Mutex::new(Jobs {
                ready: VecDeque::new(),
                closed: false,
            }),
            wake: Condvar::new(),
        }
    }
}

/// What a running workgroup may ask.
struct WorkerHost<'a> {
    env: &'a dyn Env,
    pool: &'a Pool,
    job: &'a Job,
    mail: &'a Mailbox<Wake>,
    deadline: Instant,
}

impl Host for WorkerHost<'_> {
    fn message(&self, message: &Message) -> bool {
        // MSG_INTERRUPT; the engine knows the queue and with it the doorbell and VMID.
        if message.id == 1 {
            self.mail.send(Wake::ShaderMessage(self.job.id, message.m0));
        }
        message.id == 1
    }

    fn realtime(&self) -> u64 {
        self.env.clock()
    }

    fn shader_clock(&self) -> u64 {
        // The shader clock runs at 2.1 GHz: 21 times the reference.
        self.env.clock().wrapping_mul(21)
    }

    fn poll(&self) -> bool {
        self.job.stop.load(Ordering::Acquire)
            || (Instant::now() >= self.deadline && self.pool.others_wait(self.job.id))
    }
}

impl Pool {
    /// Hands a job to the workers, or back to them after it was stopped.
    pub fn submit(&self, job: &Arc<Job>, vmid: u8) {
        job.vmid.store(vmid, Ordering::Release);
        job.stop.store(false, Ordering::Release);
        lock(&self.jobs).ready.push_back(job.clone());
        self.wake.notify_all();
    }

    /// Lets the workers end.
    pub fn close(&self) {
        lock(&self.jobs).closed = true;
        self.wake.notify_all();
    }

    fn others_wait(&self, id: u64) -> bool {
        lock(&self.jobs).ready.iter().any(|job| job.id != id)
    }

    /// Waits for a job that has workgroups left, and puts it at the end of the line.
    fn pick(&self) -> Option<Arc<Job>> {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.closed {
                return None;
            }
            while let Some(job) = jobs.ready.pop_front() {
                if job.has_work() {
                    jobs.ready.push_back(job.clone());
                    return Some(job);
                }
            }
            jobs = self.wake.wait(jobs).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Body of a worker thread.
    pub fn work(&self, env: &dyn Env, shader: &dyn Shader, mail: &Mailbox<Wake>) {
        while let Some(job) = self.pick() {
            let vmid = job.vmid.load(Ordering::Acquire);
            let memory = ShaderMemory::new(env, vmid);
            self.slice(env, shader, mail, &job, &memory);
        }
    }

    fn slice(
        &self,
        env: &dyn Env,
        shader: &dyn Shader,
        mail: &Mailbox<Wake>,
        job: &Arc<Job>,
        memory: &dyn Memory,
    ) {
        let deadline = Instant::now() + SLICE;
        let host = WorkerHost {
            env,
            pool: self,
            job,
            mail,
            deadline,
        };
        while let Some(mut unit) = job.take(shader) {
            lock(&job.state).started.get_or_insert_with(|| env.clock());
            let result = unit.1.run(memory, &host);
            let interrupted = result == Err(Stop::Interrupted);
            if job.give_back(unit, result, env.clock()) {
                mail.send(Wake::Job(job.id));
            }
            if interrupted {
                // It left the line if this was its last unit; it has work again now.
                let mut jobs = lock(&self.jobs);
                if job.has_work() && !jobs.ready.iter().any(|other| other.id == job.id) {
                    jobs.ready.push_back(job.clone());
                    self.wake.notify_one();
                }
                return;
            }
            if Instant::now() >= deadline {
                return;
            }
        }
    }
}
