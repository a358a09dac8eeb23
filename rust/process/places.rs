// SPDX-License-Identifier: GPL-2.0

//! Work queues for items that wait for user space.
//!
//! Access to user memory, or to the pipe that notifies a debugger, may block for an unlimited time:
//! on userfaultfd, or because of a reader that is blocked by it. A work queue runs a
//! limited number of items at a time. If all processes shared one, the blocked items of some would
//! keep those of all others from running.
//!
//! Each process has a place on a work queue, which a few processes share: all their items can be
//! blocked without using it up. The work queues are kept for later processes, as each has a
//! structure per CPU.

use core::mem;

use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
    workqueue::RawWorkItem,
};

use crate::kapi::{
    global::global_spinlock,
    workqueue::{Builder, OwnedQueue},
};

/// Number of processes that share a work queue.
///
/// A process has three kinds of items, of which one runs and one waits for its end: 96 items. The
/// limit of a NUMA node is its share of `WQ_MAX_ACTIVE` by its CPUs, 102 on 20 equal nodes.
const PER_QUEUE: usize = 16;
/// `WQ_MAX_ACTIVE`.
const LIMIT: c_int = 2048;
/// Interval at which the module unload looks for places that are in use.
const POLL_INTERVAL: Delta = Delta::from_millis(1);

struct Entry {
    queue: Arc<OwnedQueue>,
    next: Option<KBox<Entry>>,
}

/// A list of places. Does not allocate or free memory.
struct Places {
    first: Option<KBox<Entry>>,
    count: usize,
}

impl Places {
    const fn new() -> Self {
        Self {
            first: None,
            count: 0,
        }
    }

    fn push(&mut self, mut entry: KBox<Entry>) {
        entry.next = self.first.take();
        self.first = Some(entry);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<KBox<Entry>> {
        let mut entry = self.first.take()?;
        self.first = entry.next.take();
        self.count -= 1;
        Some(entry)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // One by one: a list that is dropped as a whole needs stack for each entry.
        while self.pop().is_some() {}
    }
}

/// The places that no process has, and the number of all places.
struct Pool {
    free: Places,
    total: usize,
}

global_spinlock! {
    /// Places on work queues.
    POOL: Pool = Pool { free: Places::new(), total: 0 };
    init init_lock
}

/// Makes the lock of this file usable; called once, at module load.
pub(super) fn init() {
    init_lock();
}

/// The place of a process.
///
/// Dropped with the process, perhaps by an item of the work queue, which therefore stays.
pub(super) struct Place(Option<KBox<Entry>>);

impl Place {
    /// Takes a free place, or creates a work queue. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Self> {
        let free = POOL.lock().free.pop();
        if free.is_some() {
            return Ok(Self(free));
        }
        let queue = Builder::unbound()
            .max_active(LIMIT)
            .build(c"rkfd_exceptions")?;
        let queue = Arc::new(queue, GFP_KERNEL)?;
        let mut new = Places::new();
        for _ in 0..PER_QUEUE {
            let entry = Entry {
                queue: queue.clone(),
                next: None,
            };
            new.push(KBox::new(entry, GFP_KERNEL)?);
        }
        let place = Self(new.pop());
        let mut pool = POOL.lock();
        pool.total += PER_QUEUE;
        while let Some(entry) = new.pop() {
            pool.free.push(entry);
        }
        Ok(place)
    }

    /// Queues an item of the process, unless it is queued already. Allocates nothing.
    pub(super) fn enqueue<W, const ID: u64>(&self, item: W)
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        if let Some(entry) = &self.0 {
            let refused = entry.queue.enqueue(item);
            // It is not the last reference: the caller has one.
            drop(refused);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            POOL.lock().free.push(entry);
        }
    }
}

/// The work queues. Dropping this object waits until there is no process, and for all items.
pub(super) struct Queues(());

impl Queues {
    /// Returns the object that ends the work queues. Processes may exist while it does.
    pub(super) fn new() -> Self {
        Self(())
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // Processes that have ended are referred to until their items have run.
        let free = loop {
            let mut pool = POOL.lock();
            if pool.free.count == pool.total {
                pool.total = 0;
                break mem::replace(&mut pool.free, Places::new());
            }
            drop(pool);
            fsleep(POLL_INTERVAL);
        };
        // Waits for items that are about to end.
        drop(free);
    }
}
