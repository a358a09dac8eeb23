// SPDX-License-Identifier: GPL-2.0

//! LRU list of the evictable BOs of a card, and allocation with eviction.

use core::ptr;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    time::{delay::fsleep, Delta},
};

use crate::card::vram::Vram;

/// Passes over the list while some BOs were busy.
const ROUNDS: u32 = 50;
/// Pause between two passes.
const PAUSE: Delta = Delta::from_millis(10);

/// A BO that can be moved out of VRAM.
pub(crate) trait EvictableBo: Send + Sync {
    /// Returns the time stamp of the last use, see [`EvictionLru::touch`].
    fn stamp(&self) -> &Atomic<u64>;

    /// Returns whether the BO is in VRAM.
    fn is_in_vram(&self) -> bool;

    /// Returns whether a process with user queues maps the BO.
    fn has_user_queues(&self) -> bool;

    /// Moves the BO to system memory. `EBUSY` when it is in use, `ENOMEM` without system memory,
    /// `ERESTARTSYS` after a signal.
    fn evict(self: Arc<Self>) -> Result;
}

/// Which BOs may be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victims {
    /// All.
    All,
    /// Those that no process with user queues maps.
    NoUserQueues,
}

/// The evictable BOs of a card.
#[pin_data]
pub(crate) struct EvictionLru {
    #[pin]
    list: Mutex<KVVec<Arc<dyn EvictableBo>>>,
    clock: Atomic<u64>,
    bytes_moved: Atomic<u64>,
    evictions: Atomic<u64>,
}

impl EvictionLru {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVVec::new(), "rkfd_evictable"),
            clock: Atomic::new(1),
            bytes_moved: Atomic::new(0),
            evictions: Atomic::new(0),
        })
    }

    /// Returns the bytes moved in either direction.
    pub(crate) fn bytes_moved(&self) -> u64 {
        self.bytes_moved.load(Relaxed)
    }

    /// Returns the number of evictions.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// Adds a BO as the most recently used. `ENOMEM` without memory.
    pub(crate) fn add(&self, bo: Arc<dyn EvictableBo>) -> Result {
        self.touch(&*bo);
        self.list.lock().push(bo, GFP_KERNEL)?;
        Ok(())
    }

    /// Removes a BO.
    pub(crate) fn remove(&self, bo: &Arc<dyn EvictableBo>) {
        let mut list = self.list.lock();
        let removed = match list
            .iter()
            .position(|b| ptr::addr_eq(&raw const **b, &raw const **bo))
        {
            Some(at) => {
                let last = list.len() - 1;
                list.swap(at, last);
                list.pop()
            }
            None => None,
        };
        drop(list);
        drop(removed);
    }

    /// Marks a BO as the most recently used.
    pub(crate) fn touch(&self, bo: &dyn EvictableBo) {
        bo.stamp().store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Counts a move of `bytes`.
    pub(crate) fn count_move(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Relaxed);
    }

    /// Counts an eviction.
    pub(crate) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Relaxed);
    }

    /// Returns the least recently used BO in VRAM with a stamp above `after`.
    fn pick(&self, after: u64, victims: Victims) -> Option<Arc<dyn EvictableBo>> {
        self.list
            .lock()
            .iter()
            .filter(|b| b.is_in_vram() && b.stamp().load(Relaxed) > after)
            .filter(|b| victims == Victims::All || !b.has_user_queues())
            .min_by_key(|b| b.stamp().load(Relaxed))
            .cloned()
    }

    /// Calls `alloc`, which allocates VRAM, and evicts BOs as long as it returns `ENOMEM`.
    ///
    /// `ENOMEM` when nothing is left to evict, `ERESTARTSYS` after a signal.
    pub(crate) fn alloc_or_evict<T>(
        &self,
        vram: &Vram,
        victims: Victims,
        mut alloc: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for round in 0.. {
            let mut after = 0;
            let mut busy = false;
            loop {
                match alloc() {
                    Err(e) if e == ENOMEM => {}
                    other => return other,
                }
                if vram.wait_for_cleared()? {
                    continue;
                }
                let Some(victim) = self.pick(after, victims) else {
                    break;
                };
                after = victim.stamp().load(Relaxed);
                match victim.evict() {
                    Err(e) if e == ERESTARTSYS => return Err(e),
                    Err(e) if e == EBUSY => busy = true,
                    _ => {}
                }
            }
            // The caller may hold some of the busy BOs itself, when it prepares a job.
            if !busy || round == ROUNDS || victims == Victims::NoUserQueues {
                break;
            }
            fsleep(PAUSE);
        }
        Err(ENOMEM)
    }
}
