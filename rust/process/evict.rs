// SPDX-License-Identifier: GPL-2.0

//! Queues off the GPU while buffers of their process are out of VRAM.
//!
//! Queues access memory without asking anybody. So before a buffer that a process maps leaves VRAM
//! all queues that the process has on this GPU are taken off, and put back when all its buffers
//! have returned. A worker tries that some time after the last buffer had to go, again and again.

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
    workqueue::{Work, WorkItem},
};

use super::smi::{self, Trigger};
use crate::{
    dqm::{GpuDqm, ProcessSlot},
    kapi::{global::global_mutex, workqueue::OrderedQueue},
    mmu::{Away, Owner},
    trace,
};

/// How long a process computes at least before its queues are taken off again.
const MIN_ACTIVE: Delta = Delta::from_millis(10);
/// How long after an eviction, or a failure, the worker tries to undo it.
const BACK_OFF: Delta = Delta::from_millis(100);

global_mutex! {
    /// Where the worker runs; it waits while the machine sleeps.
    QUEUE: Option<OrderedQueue> = None;
    init init
}

/// Evicted processes are restored while this exists; dropping it waits for those that are.
pub(super) struct RestoreQueue(());

impl RestoreQueue {
    pub(super) fn new() -> Result<Self> {
        *QUEUE.lock() = Some(OrderedQueue::freezable(c"rkfd_restore")?);
        Ok(Self(()))
    }
}

impl Drop for RestoreQueue {
    fn drop(&mut self) {
        let queue = QUEUE.lock().take();
        drop(queue);
    }
}

struct State {
    /// Since when the queues are off.
    since: Option<Instant<Monotonic>>,
    /// When they were put back last.
    restored: Option<Instant<Monotonic>>,
    /// What has to return first.
    away: KVec<Away>,
}

/// A process on a GPU whose buffers may have to leave VRAM.
#[pin_data]
pub(super) struct Evictor {
    process: Arc<ProcessSlot>,
    /// Inside the locks of reservations, outside that of the queue manager.
    #[pin]
    state: Mutex<State>,
    /// Held while the worker works.
    #[pin]
    at_work: Mutex<()>,
    /// The process has left the GPU.
    ended: AtomicFlag,
    #[pin]
    work: Work<Evictor>,
}

impl_has_work! {
    impl HasWork<Self> for Evictor { self.work }
}

impl Evictor {
    pub(super) fn new(process: &Arc<ProcessSlot>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                process: process.clone(),
                state <- new_mutex!(
                    State {
                        since: None,
                        restored: None,
                        away: KVec::new(),
                    },
                    "rkfd_evictor"
                ),
                at_work <- new_mutex!(()),
                ended: AtomicFlag::new(false),
                work <- new_work!("rkfd_restore"),
            }),
            GFP_KERNEL,
        )
    }

    /// Milliseconds for which the queues were off, for whatever reason.
    pub(super) fn evicted_ms(&self) -> u64 {
        self.process.evicted_ms()
    }

    /// The process leaves the GPU: nothing is restored any more when this returns.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
        let _at_work = self.at_work.lock();
        let away = core::mem::take(&mut self.state.lock().away);
        drop(away);
    }

    fn schedule(self: &Arc<Self>) {
        if let Some(queue) = &*QUEUE.lock() {
            // Not again if it waits for its turn already.
            let _ = queue.enqueue(self.clone());
        }
    }

    /// Takes the queues off, if that was not done before.
    fn quiesce(self: &Arc<Self>, what: Away) -> Result {
        let mut state = self.state.lock();
        if self.ended.load(Relaxed) {
            // There are no queues any more.
            return Ok(());
        }
        state.away.reserve(1, GFP_KERNEL)?;
        if state.since.is_none() {
            if let Some(restored) = state.restored {
                let active = restored.elapsed();
                if active < MIN_ACTIVE {
                    fsleep(MIN_ACTIVE - active);
                }
            }
            let gpu = self.process.gpu();
            let dqm = gpu.dqm()?;
            smi::evicted(gpu, self.process.pid(), Trigger::Move);
            if let Err(e) = dqm.evict(&self.process) {
                // The memory stays where it is, and the queues may go on if they can.
                let _ = dqm.restore(&self.process);
                return Err(e);
            }
            state.since = Some(Instant::now());
            trace::process(self.process.pid(), self.process.pasid(), c"evicted");
        }
        if !state.away.iter().any(|away| away.is(&what)) {
            state.away.push_within_capacity(what)?;
        }
        drop(state);
        self.schedule();
        Ok(())
    }

    /// Brings all buffers back, then the queues. False if that did not work out; `Err` if it never
    /// will.
    fn restore(&self) -> Result<bool> {
        let _at_work = self.at_work.lock();
        loop {
            let mut state = self.state.lock();
            if state.since.is_none() {
                return Ok(true);
            }
            if self.ended.load(Relaxed) {
                return Ok(true);
            }
            let Some(away) = state.away.pop() else {
                // The lock is held: no buffer goes before the queues are back.
                match self.process.gpu().dqm()?.restore(&self.process) {
                    Err(e) if e == ENOMEM => return Ok(false),
                    other => other?,
                }
                state.since = None;
                state.restored = Some(Instant::now());
                smi::restored(self.process.gpu(), self.process.pid(), false);
                trace::process(self.process.pid(), self.process.pasid(), c"restored");
                return Ok(true);
            };
            drop(state);
            match away.bring_back() {
                Ok(()) => {}
                Err(e) if e == EIO || e == ENODEV => return Err(e),
                Err(_) => {
                    self.state.lock().away.push(away, GFP_KERNEL)?;
                    return Ok(false);
                }
            }
        }
    }
}

impl WorkItem for Evictor {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let since = this.state.lock().since;
        let waited = since.map_or(BACK_OFF, |since| since.elapsed());
        if waited < BACK_OFF {
            fsleep(BACK_OFF - waited);
        }
        match this.restore() {
            Ok(true) => {}
            Ok(false) => {
                fsleep(BACK_OFF);
                this.schedule();
            }
            Err(e) => pr_err!(
                "queues of process {} stay off GPU {:#x}: {e:?}\n",
                this.process.pid(),
                this.process.gpu().id()
            ),
        }
    }
}

/// An address space whose process has an evictor.
pub(super) struct Tenant(Arc<Evictor>);

impl Tenant {
    pub(super) fn new(evictor: &Arc<Evictor>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(evictor.clone()), GFP_KERNEL)?)
    }
}

impl Owner for Tenant {
    fn quiesce(&self, what: Away) -> Result {
        self.0.quiesce(what)
    }
}
