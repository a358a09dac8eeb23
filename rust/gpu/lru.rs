// SPDX-License-Identifier: GPL-2.0

//! LRU list of the evictable BOs of a card, and allocation with eviction.

use core::ops::Range;

use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex, SpinLock,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

use crate::{card::vram::Vram, kapi::task};

/// Passes over the list while some BOs were busy.
const ROUNDS: u32 = 50;
/// Pause between two passes.
const PAUSE: Delta = Delta::from_millis(10);

/// Bytes per us that jobs may move, in log2 (`log2_max_MBps`).
const MOVE_RATE: u32 = 3;
/// Time for moves that accumulates without any, in us.
const MOVE_TIME_MAX: i64 = 200_000;
/// VRAM that is free enough to be filled at once: bytes, or the fraction of all.
const FREE_BYTES: u64 = 128 << 20;
const FREE_FRACTION: u64 = 8;

/// Time in which jobs may move BOs (`accum_us`).
struct MoveTime {
    /// In us; negative after moves that took longer.
    left: i64,
    /// Last update.
    at: Instant<Monotonic>,
}

/// The bytes that the BOs of a job may move. Dropping it accounts for those that were moved.
pub(crate) struct MoveBudget<'a> {
    lru: &'a EvictionLru,
    bytes: u64,
    moved: u64,
}

impl MoveBudget<'_> {
    /// Returns whether no BO is to be moved any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.moved >= self.bytes
    }

    /// Counts a BO that was moved to VRAM, and as many bytes that may have left it.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.moved = self.moved.saturating_add(bytes.saturating_mul(2));
    }
}

impl Drop for MoveBudget<'_> {
    fn drop(&mut self) {
        let us = i64::try_from(self.moved >> MOVE_RATE).unwrap_or(i64::MAX);
        let mut time = self.lru.move_time.lock();
        time.left = time.left.saturating_sub(us);
    }
}

/// A BO that can be moved out of VRAM.
pub(crate) trait EvictableBo: Send + Sync {
    /// Returns the key of the BO in the list; 0: it is not in the list. Written by the list only.
    fn stamp(&self) -> &Atomic<u64>;

    /// Returns whether the BO is in VRAM.
    fn is_in_vram(&self) -> bool;

    /// Returns whether memory of the BO is in `range` of VRAM.
    fn is_within(&self, range: &Range<u64>) -> bool;

    /// Returns the user queues that access the BO.
    fn queue_use(&self) -> QueueUse;

    /// Returns whether it is not a BO, but migrated memory of a process.
    fn is_migrated(&self) -> bool {
        false
    }

    /// Returns whether its contents were lost in a reset of the card: an eviction only frees VRAM.
    fn is_lost(&self) -> bool {
        false
    }

    /// Moves the BO to system memory, with `wait` after the jobs that use it. `EBUSY` when it is in
    /// use, `ENOMEM` without system memory, `ERESTARTSYS` after a signal.
    fn evict(self: Arc<Self>, wait: bool) -> Result;
}

/// Which BOs may be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victims {
    /// All.
    All,
    /// All but BOs of KFD in use by user queues of a process.
    NoProcessQueues,
    /// Those that no process or file with user queues maps.
    NoUserQueues,
    /// Of those, the ones that no job uses: nothing waits for jobs of others.
    Idle,
    /// As [`Self::NoUserQueues`], for memory of a process: without such memory that was lost, whose
    /// `struct page`s stay in use when its VRAM is freed.
    Migration,
}

/// The user queues that access a BO.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueUse {
    /// None.
    Unused,
    /// Those that may use it in system memory: of files of the render node, or of processes of KFD
    /// in whose address space a file has mapped its BO.
    Files,
    /// Those of processes of KFD, of which it is a BO.
    Processes,
}

impl Victims {
    fn include(self, bo: &dyn EvictableBo) -> bool {
        let limit = match self {
            Self::All => QueueUse::Processes,
            Self::NoProcessQueues => QueueUse::Files,
            Self::NoUserQueues | Self::Idle | Self::Migration => QueueUse::Unused,
        };
        bo.queue_use() <= limit && !(self == Self::Migration && bo.is_lost())
    }
}

/// Bit of the key of a BO that is not in VRAM: behind all that are.
const OUT: u64 = 1 << 63;

/// BOs by the time of their last use, see [`EvictableBo::stamp`].
type Bos = RBTree<u64, Arc<dyn EvictableBo>>;

struct List {
    bos: Bos,
    /// Memory of the last BO that was removed, for the next one: alternate calls do not allocate.
    kept: Option<RBTreeNodeReservation<u64, Arc<dyn EvictableBo>>>,
    /// Time of the last use of any BO.
    clock: u64,
}

impl List {
    /// Returns the key of a BO that is used now.
    fn next_key(&mut self, bo: &dyn EvictableBo) -> u64 {
        self.clock += 1;
        if bo.is_in_vram() {
            self.clock
        } else {
            self.clock | OUT
        }
    }
}

/// The evictable BOs of a card.
#[pin_data]
pub(crate) struct EvictionLru {
    #[pin]
    list: Mutex<List>,
    bytes_moved: Atomic<u64>,
    evictions: Atomic<u64>,
    #[pin]
    move_time: SpinLock<MoveTime>,
}

impl EvictionLru {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(List { bos: RBTree::new(), kept: None, clock: 0 }, "rkfd_evictable"),
            bytes_moved: Atomic::new(0),
            move_time <- new_spinlock!(MoveTime { left: 0, at: Instant::now() }, "rkfd_moves"),
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
        let mut list = self.list.lock();
        let memory = match list.kept.take() {
            Some(memory) => memory,
            None => {
                drop(list);
                let memory = RBTreeNodeReservation::new(GFP_KERNEL)?;
                list = self.list.lock();
                memory
            }
        };
        let key = list.next_key(&*bo);
        bo.stamp().store(key, Relaxed);
        // Keys are unique.
        list.bos.insert(memory.into_node(key, bo));
        Ok(())
    }

    /// Removes a BO.
    pub(crate) fn remove(&self, bo: &dyn EvictableBo) {
        let mut list = self.list.lock();
        let removed = list.bos.remove_node(&bo.stamp().xchg(0, Relaxed));
        drop(list);
        // Drops the reference, which may be the last one.
        let memory = removed.map(RBTreeNode::into_reservation);
        let old = memory.and_then(|memory| self.list.lock().kept.replace(memory));
        drop(old);
    }

    /// Marks a BO, if it is in the list, as the most recently used. To be called after it moved.
    pub(crate) fn touch(&self, bo: &dyn EvictableBo) {
        // Never in the list, or being added: then it is the most recently used.
        if bo.stamp().load(Relaxed) == 0 {
            return;
        }
        let mut list = self.list.lock();
        let old = bo.stamp().load(Relaxed);
        if old & !OUT == list.clock && (old & OUT == 0) == bo.is_in_vram() {
            return;
        }
        let Some(this) = list.bos.get(&old).cloned() else {
            return;
        };
        let Some(node) = list.bos.remove_node(&old) else {
            return;
        };
        let key = list.next_key(bo);
        bo.stamp().store(key, Relaxed);
        list.bos
            .insert(node.into_reservation().into_node(key, this));
    }

    /// Returns what the BOs of a job may move now, as the C driver limits it
    /// (`amdgpu_cs_get_threshold_for_moves`).
    pub(crate) fn move_budget(&self, vram: &Vram) -> MoveBudget<'_> {
        let size = vram.size();
        let free = size.saturating_sub(vram.used_or_reserved());
        let mut time = self.move_time.lock();
        let passed = time.at.elapsed().as_micros_ceil();
        time.at = Instant::now();
        time.left = time.left.saturating_add(passed).min(MOVE_TIME_MAX);
        if free >= FREE_BYTES || free >= size / FREE_FRACTION {
            let quarter = i64::try_from(free / 4 >> MOVE_RATE).unwrap_or(i64::MAX);
            time.left = time.left.max(quarter);
        }
        MoveBudget {
            lru: self,
            // Nothing after moves that took longer.
            bytes: u64::try_from(time.left).unwrap_or(0) << MOVE_RATE,
            moved: 0,
        }
    }

    /// Counts a move of `bytes`.
    pub(crate) fn count_move(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Relaxed);
    }

    /// Counts an eviction.
    pub(crate) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Relaxed);
    }

    /// Returns the least recently used BO in VRAM that is `wanted` and has a key above `after`, and
    /// its key.
    fn find(
        &self,
        after: u64,
        wanted: impl Fn(&dyn EvictableBo) -> bool,
    ) -> Option<(u64, Arc<dyn EvictableBo>)> {
        let mut list = self.list.lock();
        let mut at = list.bos.cursor_lower_bound_mut(&(after + 1));
        while let Some(cursor) = at {
            let (key, bo) = cursor.current();
            if *key & OUT != 0 {
                return None;
            }
            if bo.is_in_vram() && wanted(&**bo) {
                return Some((*key, bo.clone()));
            }
            at = cursor.move_next();
        }
        None
    }

    /// Returns the next migrated memory of a process in VRAM with a key above `after`, and its key.
    pub(super) fn next_migrated(&self, after: u64) -> Option<(u64, Arc<dyn EvictableBo>)> {
        self.find(after, |bo| bo.is_migrated())
    }

    /// Calls `alloc`, which allocates VRAM in a range of it, and evicts BOs from there as long as
    /// it returns `ENOMEM`.
    ///
    /// `ENOMEM` when nothing is left to evict, `ERESTARTSYS` after a signal.
    pub(crate) fn alloc_or_evict<T>(
        &self,
        vram: &Vram,
        victims: Victims,
        within: &Range<u64>,
        mut alloc: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let wait = victims != Victims::Idle;
        let is_victim = |bo: &dyn EvictableBo| bo.is_within(within) && victims.include(bo);
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
                if task::fatal_signal_pending() {
                    return Err(ERESTARTSYS);
                }
                let Some((key, victim)) = self.find(after, is_victim) else {
                    // Jobs of other processes may take long: after everything else.
                    if wait && vram.wait_for_freed()? {
                        continue;
                    }
                    break;
                };
                after = key;
                match victim.evict(wait) {
                    Err(e) if e == ERESTARTSYS => return Err(e),
                    Err(e) if e == EBUSY => busy = true,
                    _ => {}
                }
            }
            // The caller may hold some of the busy BOs itself, when it prepares a job.
            if !busy || round == ROUNDS || victims != Victims::All {
                break;
            }
            fsleep(PAUSE);
        }
        Err(ENOMEM)
    }
}
