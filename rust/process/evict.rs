// SPDX-License-Identifier: GPL-2.0

//! Eviction of the queues of a process while its buffers are out of VRAM.
//!
//! Queues access memory without fences. Before a buffer that is mapped by a process leaves VRAM,
//! all queues of the process on this GPU are unmapped; they are restored when all its buffers are
//! back: by a worker, 100 ms after the last eviction, and every 100 ms until it succeeds, or until
//! the card is given up. A reset by the PCI core starts the worker again.

use core::mem;

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
    workqueue::new_delayed_work,
};

use super::smi::{self, EvictionTrigger};
use crate::{
    dqm::DqmProcess,
    kapi::{
        global::global_mutex,
        static_queue::Installed,
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
    mmu::{EvictedBo, EvictionHandler, QueueOwner},
    node::Node,
    trace,
};

/// Minimum time between restoring and evicting the queues of a process
/// (`PROCESS_ACTIVE_TIME_MS`).
const MIN_ACTIVE: Delta = Delta::from_millis(10);
/// Delay of the worker after the first eviction, and after a failure (`PROCESS_RESTORE_TIME_MS`).
const BACK_OFF: Delta = Delta::from_millis(100);

global_mutex! {
    /// Work queue of the workers; frozen during suspend.
    QUEUE: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue of [`Evictor`].
pub(super) fn create_workqueue() -> Result<Installed> {
    let queue = Builder::ordered().mem_reclaim().freezable();
    Ok(QUEUE.install(queue.build(c"rkfd_restore")?))
}

/// Jobs on the queues of an [`Evictor`].
pub(crate) trait Quiesce: Send + Sync {
    /// Waits for all jobs that others may wait for. There are no new ones meanwhile.
    fn wait(&self);
}

/// Interval at which a job checks whether the queues are restored.
const POLL: Delta = Delta::from_millis(1);

struct EvictorState {
    /// Time of the eviction; `None` if the queues are not evicted.
    since: Option<Instant<Monotonic>>,
    /// Time of the last restore.
    restored: Option<Instant<Monotonic>>,
    /// Buffers that are out of VRAM, by [`EvictedBo::key`].
    evicted: RBTree<usize, EvictedBo>,
}

/// Evicts and restores the queues of a process, or of a file of the render node, on a GPU.
#[pin_data]
pub(crate) struct Evictor {
    node: Arc<Node>,
    process: Arc<DqmProcess>,
    /// To be done before the queues are evicted.
    jobs: Option<Arc<dyn Quiesce>>,
    /// Inside reservation locks, outside the lock of the device queue manager.
    #[pin]
    state: Mutex<EvictorState>,
    /// Held while the worker restores.
    #[pin]
    restoring: Mutex<()>,
    /// The process has left the GPU.
    ended: AtomicFlag,
}

impl Evictor {
    /// Returns the evictor of a process, whose jobs are to be done before each eviction.
    pub(crate) fn new(
        node: &Arc<Node>,
        process: &Arc<DqmProcess>,
        jobs: Option<Arc<dyn Quiesce>>,
    ) -> Result<Arc<Delayed<Self>>> {
        let evictor = pin_init!(Self {
            node: node.clone(),
            process: process.clone(),
            jobs,
            state <- new_mutex!(
                EvictorState {
                    since: None,
                    restored: None,
                    evicted: RBTree::new(),
                },
                "rkfd_evictor"
            ),
            restoring <- new_mutex!(()),
            ended: AtomicFlag::new(false),
        });
        Arc::pin_init(
            Delayed::new(new_delayed_work!("rkfd_restore"), evictor),
            GFP_KERNEL,
        )
    }

    /// Returns for how many ms the queues have been evicted, for any reason.
    pub(super) fn evicted_ms(&self) -> u64 {
        self.process.evicted_ms()
    }

    /// Ends evictions and restores: the process leaves the GPU. No restore is in progress when this
    /// returns.
    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
        let _restoring = self.restoring.lock();
        let evicted = mem::take(&mut self.state.lock().evicted);
        drop(evicted);
    }

    /// Calls `f` if the queues are not evicted; they are not during the call. `None` if they are,
    /// or are being evicted or restored.
    pub(crate) fn if_running<R>(this: &Arc<Delayed<Self>>, f: impl FnOnce() -> R) -> Option<R> {
        // An eviction holds it while it waits for fences.
        let state = this.state.try_lock()?;
        state.since.is_none().then(f)
    }

    /// Waits until the queues are restored. `ERESTARTSYS` after a signal, `EIO` when the GPU is
    /// hung, `ENODEV` when it is unplugged. The caller holds no lock of a BO.
    pub(crate) fn await_running(this: &Arc<Delayed<Self>>) -> Result {
        while Self::if_running(this, || ()).is_none() {
            // They are not restored on such a card.
            this.node.gpu().check_usable()?;
            if kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
            fsleep(POLL);
        }
        Ok(())
    }

    /// Schedules the worker, unless it is.
    fn schedule(this: &Arc<Delayed<Self>>, delay: Delta) {
        QUEUE.enqueue_delayed(this, delay);
    }

    /// Evicts the queues, unless they are evicted, before `buffer` leaves VRAM. Fails if the
    /// hardware does not unmap them or without memory; the buffer has to stay then.
    fn evict_queues(this: &Arc<Delayed<Self>>, buffer: EvictedBo) -> Result {
        let mut state = this.state.lock();
        if this.ended.load(Relaxed) {
            // The queues are unmapped permanently.
            return Ok(());
        }
        let buffer = RBTreeNode::new(buffer.key(), buffer, GFP_KERNEL)?;
        if state.since.is_none() {
            if let Some(restored) = state.restored {
                let active = restored.elapsed();
                if active < MIN_ACTIVE {
                    fsleep(MIN_ACTIVE - active);
                }
            }
            if let Some(jobs) = &this.jobs {
                jobs.wait();
            }
            let dqm = this.node.dqm();
            if this.process.owner() == QueueOwner::Process {
                smi::evicted(this.node.id(), this.process.pids(), EvictionTrigger::Ttm);
            }
            if let Err(e) = dqm.evict(&this.process) {
                // The buffer stays; continue the queues if possible, else in the worker.
                if dqm.restore(&this.process).is_err() {
                    state.since = Some(Instant::now());
                    drop(state);
                    Self::schedule(this, BACK_OFF);
                } else if this.process.owner() == QueueOwner::Process {
                    smi::restored(this.node.id(), this.process.pids(), false);
                }
                return Err(e);
            }
            state.since = Some(Instant::now());
            trace::process(this.process.pid(), this.process.pasid(), c"evicted");
        }
        let known = state.evicted.insert(buffer);
        let evicted_for = state.since.map_or(Delta::ZERO, |since| since.elapsed());
        drop(state);
        drop(known);
        Self::schedule(this, BACK_OFF - evicted_for);
        Ok(())
    }

    /// Drops freed buffers, which return their system memory.
    fn drop_freed(&self) {
        let mut freed = RBTree::new();
        let mut state = self.state.lock();
        let mut cursor = state.evicted.cursor_front_mut();
        while let Some(at) = cursor {
            cursor = match at.current().1.is_freed() {
                true => {
                    let (next, node) = at.remove_current();
                    freed.insert(node);
                    next
                }
                false => at.move_next(),
            };
        }
        drop(state);
        drop(freed);
    }

    /// Moves all buffers back to VRAM, then restores the queues. Returns false if that has to be
    /// tried again, also while the GPU hangs: processes without queues survive a reset.
    /// [`EvictionHandler::restore_later`] follows if a GPU that was given up is reset nevertheless.
    fn restore(&self) -> bool {
        let _restoring = self.restoring.lock();
        // Also those behind one that VRAM has no room for.
        self.drop_freed();
        loop {
            let mut state = self.state.lock();
            if state.since.is_none() || self.ended.load(Relaxed) {
                return true;
            }
            let first = state.evicted.values().next().cloned();
            let Some(buffer) = first else {
                // Under the lock: no buffer is evicted before the queues are restored.
                if self.node.dqm().restore(&self.process).is_err() {
                    return false;
                }
                state.since = None;
                state.restored = Some(Instant::now());
                if self.process.owner() == QueueOwner::Process {
                    smi::restored(self.node.id(), self.process.pids(), false);
                }
                trace::process(self.process.pid(), self.process.pasid(), c"restored");
                return true;
            };
            let node = state.evicted.remove_node(&buffer.key());
            drop(state);
            match buffer.restore(self.process.owner()) {
                Ok(()) => {}
                // The driver was unbound.
                Err(e) if e == ENODEV => return true,
                Err(_) => {
                    let mut state = self.state.lock();
                    let known = node.and_then(|node| state.evicted.insert(node));
                    drop(state);
                    drop(known);
                    return self.node.gpu().health().is_dead();
                }
            }
        }
    }
}

impl DelayedItem for Evictor {
    fn run(this: Arc<Delayed<Self>>) {
        if !this.restore() {
            Self::schedule(&this, BACK_OFF);
        }
    }
}

/// The evictor of the owner of an address space.
pub(crate) struct VmEvictor(Arc<Delayed<Evictor>>);

impl VmEvictor {
    /// Returns the object to be registered with the address space.
    pub(crate) fn new(evictor: &Arc<Delayed<Evictor>>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(evictor.clone()), GFP_KERNEL)?)
    }
}

impl EvictionHandler for VmEvictor {
    fn evict_queues(&self, what: EvictedBo) -> Result {
        Evictor::evict_queues(&self.0, what)
    }

    fn restore_later(&self) {
        Evictor::schedule(&self.0, BACK_OFF);
    }
}
