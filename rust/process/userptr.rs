// SPDX-License-Identifier: GPL-2.0

//! Userptr buffers of a process, and eviction of its queues while their pages change.
//!
//! The pages of a userptr are not pinned. Before the kernel changes them the MMU notifier evicts
//! the queues of the process on all its GPUs. A worker faults the pages in again, rewrites the page
//! tables, and restores the queues if nothing has changed meanwhile. As in the C driver, memory
//! that has been unmapped does not keep the queues evicted: its PTEs are invalid.

use core::ops::Range;

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
    time::Delta,
    workqueue::new_delayed_work,
};

use super::{gpu_queues::GpuQueues, smi::EvictionTrigger};
use crate::{
    card::account::{self, Kind},
    dqm::DqmProcess,
    kapi::{
        global::global_mutex,
        hmm::Mark,
        sched_mm::{NoReclaimGuard, NoReclaimMutex},
        static_queue::Installed,
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
    mmu::{Bo, BoFlags, Invalidations, UserBuffer, UserptrNotifier, UserptrSeq},
    node::Node,
};

/// Delay of the worker after an invalidation (`AMDGPU_USERPTR_RESTORE_DELAY_MS`), doubled after
/// each failure in a row, five times at most.
const RESTORE_DELAY: Delta = Delta::from_millis(1);
/// Attempts of one run of the worker.
const RESTORE_ROUNDS: u32 = 4;
/// Attempts to get the pages of a new buffer.
const CREATE_TRIES: u32 = 10;

global_mutex! {
    /// Work queue of the workers; frozen during suspend.
    QUEUE: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue of [`UserMemory`].
pub(super) fn create_workqueue() -> Result<Installed> {
    Ok(QUEUE.install(Builder::unbound().freezable().build(c"rkfd_userptr")?))
}

/// A buffer that is refreshed after invalidations.
struct Registered {
    buffer: UserBuffer,
    /// Invalidations before the pages in the page tables were read.
    mapped: Invalidations,
    /// Invalidations before a refresh that found no memory.
    missing: Option<Invalidations>,
}

impl Registered {
    /// Returns whether the page tables have to be rewritten.
    fn is_invalid(&self) -> bool {
        self.mapped != self.buffer.invalidations()
    }

    /// Returns whether a refresh is pointless: the page tables are valid, or there was no memory
    /// and no invalidation since.
    fn is_settled(&self) -> bool {
        !self.is_invalid() || self.missing == Some(self.buffer.invalidations())
    }
}

struct UserMemoryState {
    gpus: KVec<GpuQueues>,
    /// By [`UserBuffer::key`].
    buffers: RBTree<usize, Registered>,
    /// Invalidations since the queues were restored; 0 if they are not evicted.
    invalidations: u64,
}

/// The userptr buffers of a process.
#[pin_data]
pub(crate) struct UserMemory {
    /// Taken by the MMU notifier.
    #[pin]
    state: NoReclaimMutex<UserMemoryState>,
    /// Failed runs of the worker in a row.
    failures: Atomic<u64>,
}

/// MMU notifier of the buffers.
struct UserptrInvalidator(Arc<Delayed<UserMemory>>);

impl UserptrNotifier for UserptrInvalidator {
    fn invalidate(&self, seq: &UserptrSeq, mark: Mark<'_>) {
        let mut guard = self.0.lock();
        let state: &mut UserMemoryState = &mut guard;
        mark.set();
        seq.increment();
        let Some(registered) = state.buffers.get(&seq.key()) else {
            // No GPU maps these pages yet.
            return;
        };
        state.invalidations += 1;
        let first = state.invalidations == 1;
        // Not only the first time: the worker may have restored some GPUs before it failed.
        state.gpus.iter_mut().for_each(GpuQueues::evict);
        // Jobs of the render node may access the address space, too.
        registered.buffer.zap();
        drop(guard);
        if first {
            UserMemory::schedule(&self.0);
        }
    }
}

impl UserMemory {
    /// Returns a process without userptr buffers.
    pub(super) fn new() -> Result<Arc<Delayed<Self>>> {
        let memory = pin_init!(Self {
            state <- NoReclaimMutex::new(new_mutex!(
                UserMemoryState {
                    gpus: KVec::new(),
                    buffers: RBTree::new(),
                    invalidations: 0,
                },
                "rkfd_userptr"
            )),
            failures: Atomic::new(0),
        });
        Arc::pin_init(
            Delayed::new(new_delayed_work!("rkfd_userptr"), memory),
            GFP_KERNEL,
        )
    }

    fn lock(&self) -> NoReclaimGuard<'_, UserMemoryState> {
        self.state.lock()
    }

    /// Returns whether any of `pages` is one of a buffer that a GPU maps.
    pub(super) fn overlaps(&self, pages: &Range<u64>) -> bool {
        let guard = self.lock();
        let mut buffers = guard.buffers.values();
        buffers.any(|registered| registered.buffer.overlaps(pages))
    }

    /// Schedules the worker, unless it is.
    fn schedule(this: &Arc<Delayed<Self>>) {
        let delay = RESTORE_DELAY * (1i64 << this.failures.load(Relaxed).min(5));
        QUEUE.enqueue_delayed(this, delay);
    }

    /// Adds a GPU on which the process may have queues from now on. `ENOMEM` without memory.
    pub(super) fn join(&self, node: &Arc<Node>, process: &Arc<DqmProcess>) -> Result {
        let mut guard = self.lock();
        let state: &mut UserMemoryState = &mut guard;
        let mut gpu = GpuQueues::new(node, process, EvictionTrigger::Userptr);
        state.gpus.reserve(1, GFP_KERNEL)?;
        if state.invalidations > 0 {
            gpu.evict();
        }
        state.gpus.push_within_capacity(gpu)?;
        Ok(())
    }

    /// Removes a GPU on which the process has no queues any more.
    pub(super) fn part(&self, process: &Arc<DqmProcess>) {
        let mut guard = self.lock();
        let gpus = &mut guard.gpus;
        let at = gpus.iter().position(|g| g.is_of(process));
        let removed = at.and_then(|at| gpus.remove(at).ok());
        drop(guard);
        drop(removed);
    }

    /// Creates a buffer of the `size` bytes at `start` of the current process, which is the owner
    /// of `this`, for node `on`. Accesses user memory.
    ///
    /// `EFAULT` if nothing is mapped there, `EPERM` if it is not writable, `EOVERFLOW` for an
    /// invalid range, `EAGAIN` if the pages keep changing, `ENOMEM` above a limit or without
    /// memory.
    pub(super) fn create(
        this: &Arc<Delayed<Self>>,
        on: &Node,
        start: u64,
        size: u64,
        flags: BoFlags,
    ) -> Result<(Bo, UserptrRegistration)> {
        let gpu = on.gpu();
        let reservation = account::reserve(gpu.vram(), on.memory(), Kind::User, size)?;
        let invalidator = Arc::new(UserptrInvalidator(this.clone()), GFP_KERNEL)?;
        let bo = Bo::user(gpu, start, size, flags, invalidator, reservation)?;
        let buffer = UserBuffer::of(&bo).ok_or(EINVAL)?;
        for _ in 0..CREATE_TRIES {
            let mapped = match buffer.refresh() {
                Err(e) if e == EBUSY => return Err(EAGAIN),
                other => other?,
            };
            let registered = Registered {
                buffer: buffer.clone(),
                mapped,
                missing: None,
            };
            let node = RBTreeNode::new(buffer.key(), registered, GFP_KERNEL)?;
            let mut guard = this.lock();
            if buffer.invalidations() != mapped {
                drop(guard);
                continue;
            }
            guard.buffers.insert(node);
            drop(guard);
            let registration = UserptrRegistration {
                all: this.clone(),
                buffer,
            };
            return Ok((bo, registration));
        }
        Err(EAGAIN)
    }

    /// Returns the buffers for which `pick` returns true; `None` if the queues are not evicted.
    fn select(&self, pick: fn(&Registered) -> bool) -> Result<Option<KVVec<UserBuffer>>> {
        let mut list = KVVec::new();
        loop {
            let guard = self.lock();
            if guard.invalidations == 0 {
                return Ok(None);
            }
            let picked = || guard.buffers.values().filter(|b| pick(b));
            let count = picked().count();
            if count <= list.capacity() {
                for registered in picked() {
                    list.push_within_capacity(registered.buffer.clone())?;
                }
                return Ok(Some(list));
            }
            drop(guard);
            list.reserve(count, GFP_KERNEL)?;
        }
    }

    /// Calls `f` with the state of a buffer, unless it was freed.
    fn update(&self, buffer: &UserBuffer, f: impl FnOnce(&mut Registered)) {
        let mut guard = self.lock();
        if let Some(registered) = guard.buffers.get_mut(&buffer.key()) {
            f(registered);
        }
    }

    /// Refreshes all buffers and restores the queues. Returns false if that has to be tried again.
    fn restore(&self) -> Result<bool> {
        // Also memory that was missing: it may be mapped again without an invalidation.
        let mut pick: fn(&Registered) -> bool = Registered::is_invalid;
        for _ in 0..RESTORE_ROUNDS {
            let Some(list) = self.select(pick)? else {
                return Ok(true);
            };
            for buffer in &list {
                let before = buffer.invalidations();
                match buffer.refresh() {
                    Ok(mapped) => self.update(buffer, |registered| registered.mapped = mapped),
                    // The queues are restored nevertheless: an access faults, or the GPU of the BO
                    // is unplugged.
                    Err(e) if e == EFAULT || e == ENODEV => {
                        self.update(buffer, |registered| registered.missing = Some(before));
                    }
                    // The process is ending.
                    Err(e) if e == ESRCH => return Ok(true),
                    // Freed meanwhile, or tried again in the next round, after the other buffers;
                    // also while the GPU hangs: processes without queues survive a reset.
                    Err(_) => {}
                }
            }
            // May be the last references, which are not dropped under the lock.
            drop(list);
            if self.restore_queues()? {
                return Ok(true);
            }
            pick = |registered| !registered.is_settled();
        }
        Ok(false)
    }

    /// Restores the queues on all GPUs if all buffers are settled; returns false otherwise.
    fn restore_queues(&self) -> Result<bool> {
        let mut guard = self.lock();
        let state: &mut UserMemoryState = &mut guard;
        if !state.buffers.values().all(Registered::is_settled) {
            return Ok(false);
        }
        for gpu in state.gpus.iter_mut() {
            gpu.restore()?;
        }
        state.invalidations = 0;
        Ok(true)
    }
}

impl DelayedItem for UserMemory {
    fn run(this: Arc<Delayed<Self>>) {
        match this.restore() {
            Ok(true) => this.failures.store(0, Relaxed),
            Ok(false) | Err(_) => {
                this.failures.fetch_add(1, Relaxed);
                for gpu in &this.lock().gpus {
                    gpu.postponed();
                }
                Self::schedule(&this);
            }
        }
    }
}

/// Registers a userptr buffer for refreshes. Zaps its PTEs when dropped: the notifier does not any
/// more, and a queue of another GPU may have pinned the mapping.
pub(super) struct UserptrRegistration {
    all: Arc<Delayed<UserMemory>>,
    buffer: UserBuffer,
}

impl Drop for UserptrRegistration {
    fn drop(&mut self) {
        let mut guard = self.all.lock();
        let removed = guard.buffers.remove_node(&self.buffer.key());
        self.buffer.end();
        drop(guard);
        drop(removed);
    }
}
