// SPDX-License-Identifier: GPL-2.0

//! Free of VRAM: freed blocks are zeroed before they return to the allocator.
//!
//! The CPU zeroes small blocks, unless the L2 cache of the GPU, which only SDMA reaches, may still
//! write back to them. Other blocks wait in a list: a worker takes them in batches, zeroes each
//! batch with fill jobs of at most [`JOB_MAX`] bytes and returns it to the allocator. Memory that
//! jobs still use is not in the list: it is freed when the last of their fences signals. A page map
//! records the pages that are known to be zero.
//!
//! While no SDMA ring runs (early in probe, after a hang), and without memory for the list or a
//! job, freed pages stay dirty, and are zeroed on allocation: small ones by the CPU, which zeroes
//! others if SDMA does not. After dirty pages were freed whose lines may be in L2, SDMA zeroes all
//! dirty pages until the card is reset, or the allocation fails.

use core::mem;

use kernel::{
    alloc::flags::__GFP_NOWARN,
    device, new_condvar, new_mutex,
    prelude::*,
    sizes::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Release},
        Arc, CondVar, Mutex,
    },
    time::{delay::fsleep, Delta},
    workqueue::new_delayed_work,
};

use super::{
    page_map::PageMap,
    pool::{Blocks, VramPool},
};
use crate::{
    asic::caps::Caps,
    kapi::{
        fence::{Fence, Timeout},
        sched::Holder,
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
};

/// Up to this many bytes are zeroed by the CPU: a fill job costs as much.
const CPU_MAX: u64 = SZ_64K as u64;
/// Bytes that the CPU zeroes between two checks for signals.
const CPU_STEP: u64 = SZ_1M as u64;
/// Maximum of bytes per fill job. An engine must complete a job before the timeout of the DRM
/// scheduler, however much is zeroed at a time.
const JOB_MAX: u64 = SZ_2G as u64;
/// Entries that the worker takes at a time.
const BATCH: usize = 256;
/// Time until the next run of the worker when there is no memory for a batch.
const RETRY: Delta = Delta::from_millis(1);
/// Timeout for the list to drain at unbind, in polls of 10 ms.
const DETACH_POLLS: u32 = 1500;
/// Timeout of an allocation that waits for a card reset, in polls of 10 ms.
const RESET_POLLS: u32 = 3000;

/// Fills VRAM with zeroes.
pub(crate) trait ClearEngine: Send + Sync {
    /// Starts to zero `pieces` (offset in VRAM and length in bytes) and returns the fence of the
    /// job. `EIO` or `ENODEV` when the engine does not run, `ENOMEM` without memory.
    fn clear(&self, pieces: &mut dyn Iterator<Item = (u64, u64)>) -> Result<ARef<Fence>>;
}

/// Starts to zero `pieces` (offset in VRAM and length in bytes) and returns the fences of the jobs.
/// Errors as [`ClearEngine::clear`]; then no job runs any more.
fn start(
    engine: &dyn ClearEngine,
    pieces: impl Iterator<Item = (u64, u64)>,
) -> Result<KVVec<ARef<Fence>>> {
    let mut fences = KVVec::new();
    submit(engine, pieces, &mut fences).inspect_err(|_| {
        for fence in &fences {
            fence.wait();
        }
    })?;
    Ok(fences)
}

/// As [`start`]; returns `None` if no ring runs: a reset of the card empties L2 before one does.
fn start_if_running(
    engine: &dyn ClearEngine,
    pieces: impl Iterator<Item = (u64, u64)>,
) -> Result<Option<KVVec<ARef<Fence>>>> {
    match start(engine, pieces) {
        Err(e) if e == EIO || e == ENODEV => Ok(None),
        started => started.map(Some),
    }
}

/// Submits jobs that zero `pieces`, and adds their fences to `fences`.
fn submit(
    engine: &dyn ClearEngine,
    pieces: impl Iterator<Item = (u64, u64)>,
    fences: &mut KVVec<ARef<Fence>>,
) -> Result {
    let mut job: KVVec<(u64, u64)> = KVVec::new();
    let mut room = JOB_MAX;
    for (mut at, mut left) in pieces {
        while left > 0 {
            let len = left.min(room);
            job.push((at, len), GFP_KERNEL)?;
            at += len;
            left -= len;
            room -= len;
            if room == 0 {
                fences.reserve(1, GFP_KERNEL)?;
                let fence = engine.clear(&mut job.iter().copied())?;
                fences.push_within_capacity(fence)?;
                job.clear();
                room = JOB_MAX;
            }
        }
    }
    if !job.is_empty() {
        fences.reserve(1, GFP_KERNEL)?;
        let fence = engine.clear(&mut job.iter().copied())?;
        fences.push_within_capacity(fence)?;
    }
    Ok(())
}

/// An entry of the deferred free list.
enum Deferred {
    /// Blocks of VRAM without a user.
    Blocks(Blocks),
    /// Memory that the worker drops, since its owner may hold any lock.
    Memory(#[expect(dead_code, reason = "is only dropped")] Arc<dyn Send + Sync>),
}

/// Memory that the GPU may access until fences have signaled.
struct InUse {
    clearing: Arc<Delayed<Clearing>>,
    /// `None` only while it is dropped.
    memory: Option<Arc<dyn Send + Sync>>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Its blocks are in the list before it is not counted any more.
        drop(self.memory.take());
        let mut state = self.clearing.state.lock();
        state.in_use -= 1;
        state.rounds += 1;
        drop(state);
        self.clearing.progress.notify_all();
    }
}

/// The engine that zeroes VRAM, and the work queue of the worker.
struct Attached {
    engine: Arc<dyn ClearEngine>,
    queue: OwnedQueue,
}

struct State {
    /// Present from [`Clearing::attach`] to [`Clearing::detach`].
    attached: Option<Attached>,
    list: KVVec<Deferred>,
    /// Number of [`InUse`] objects.
    in_use: usize,
    /// Entries that the worker has taken.
    in_work: usize,
    /// Batches completed, and [`InUse`] objects dropped.
    rounds: u64,
}

/// The deferred free list of a card's VRAM and the map of zeroed pages.
#[pin_data]
pub(super) struct Clearing {
    pool: Arc<VramPool>,
    /// Pages known to be zero.
    #[pin]
    clean: PageMap,
    /// The L2 cache may write back to freed blocks.
    in_l2: bool,
    /// The L2 cache may write back to dirty pages: some were freed without being zeroed since the
    /// last card reset.
    stale: Atomic<bool>,
    /// A card reset is in progress, see [`Clearing::begin_loss`].
    lost: Atomic<bool>,
    #[pin]
    state: Mutex<State>,
    /// Notified when `rounds` changes.
    #[pin]
    progress: CondVar,
}

impl Clearing {
    /// Returns an empty list. All pages of `pool` count as dirty: a previous driver may have left
    /// data in them.
    pub(super) fn new(pool: &Arc<VramPool>, caps: &Caps) -> Result<Arc<Delayed<Self>>> {
        let clean = PageMap::new(pool.usable())?;
        let clearing = try_pin_init!(Self {
            pool: pool.clone(),
            clean <- clean,
            in_l2: caps.sdma_in_l2,
            stale: Atomic::new(false),
            lost: Atomic::new(false),
            state <- new_mutex!(State {
                attached: None,
                list: KVVec::new(),
                in_use: 0,
                in_work: 0,
                rounds: 0,
            }, "rkfd_clearing"),
            progress <- new_condvar!(),
        });
        Arc::pin_init(
            Delayed::new(new_delayed_work!("rkfd_clear"), clearing),
            GFP_KERNEL,
        )
    }

    /// Zeroes by `engine` from now on, or by the one that is attached. `ENOMEM` without memory for
    /// the work queue.
    pub(super) fn attach(&self, engine: Arc<dyn ClearEngine>) -> Result {
        if self.state.lock().attached.is_some() {
            return Ok(());
        }
        let attached = Attached {
            engine,
            queue: Builder::ordered().mem_reclaim().build(c"rkfd_clear")?,
        };
        self.state.lock().attached = Some(attached);
        Ok(())
    }

    /// Waits until no freed memory is in use and the list is empty, for 15 s at most, then detaches
    /// the engine.
    pub(super) fn detach(&self, dev: &device::Device) {
        for _ in 0..DETACH_POLLS {
            let state = self.state.lock();
            if state.list.is_empty() && state.in_work == 0 && state.in_use == 0 {
                break;
            }
            drop(state);
            fsleep(Delta::from_millis(10));
        }
        let (attached, list, in_use) = {
            let mut state = self.state.lock();
            // The engine may be attached again before a reset.
            self.set_stale();
            state.rounds += 1;
            let list = mem::take(&mut state.list);
            (state.attached.take(), list, state.in_use)
        };
        self.progress.notify_all();
        if list.len() + in_use > 0 {
            dev_warn!(
                dev,
                "{} freed VRAM ranges were not cleared\n",
                list.len() + in_use
            );
        }
        drop(list);
        // Waits for the worker; may drop the last reference to the engine.
        drop(attached);
    }

    /// Zeroes `blocks`, then returns them to the allocator.
    pub(super) fn free(this: &Arc<Delayed<Self>>, blocks: Blocks) {
        if this.in_l2 || blocks.size() > CPU_MAX {
            Self::defer(this, Deferred::Blocks(blocks));
        } else if this.state.lock().attached.is_some() && !this.lost.load(Acquire) {
            // A card reset between the stores and set_since() undoes both.
            let epoch = this.clean.epoch();
            let mut pieces = blocks.pieces().iter();
            if pieces.all(|(start, len)| this.clear_by_cpu(*start, *len).is_ok()) {
                this.clean.set_since(epoch, blocks.pieces());
            }
        }
    }

    /// Drops `memory` when all fences have signaled, without locks of the caller.
    pub(super) fn drop_after(
        this: &Arc<Delayed<Self>>,
        memory: Arc<dyn Send + Sync>,
        until: KVec<ARef<Fence>>,
    ) {
        if until.is_empty() {
            return Self::defer(this, Deferred::Memory(memory));
        }
        match Holder::new() {
            Ok(holder) => {
                this.state.lock().in_use += 1;
                let in_use = InUse {
                    clearing: this.clone(),
                    memory: Some(memory),
                };
                holder.drop_after(in_use, until);
            }
            Err(_) => {
                // The results of the jobs are ignored: the memory is free once they have ended.
                for fence in &until {
                    fence.wait();
                }
                drop(memory);
            }
        }
    }

    fn defer(this: &Arc<Delayed<Self>>, entry: Deferred) {
        let mut state = this.state.lock();
        let State { attached, list, .. } = &mut *state;
        // Without an engine nothing accesses the memory; the pages stay dirty.
        let rest = match attached {
            Some(attached) => {
                let reserved = list.reserve(1, GFP_KERNEL | __GFP_NOWARN);
                if reserved.is_ok() && list.len() < list.capacity() {
                    let pushed = list.push_within_capacity(entry);
                    debug_assert!(pushed.is_ok());
                    // Fails if the work is already pending.
                    let _ = attached.queue.enqueue(this.clone());
                    None
                } else {
                    Some(entry)
                }
            }
            None => Some(entry),
        };
        if rest.is_some() && attached.is_some() {
            this.set_stale();
        }
        drop(state);
        drop(rest);
    }

    /// Records that blocks which the GPU has used are about to be freed dirty.
    fn set_stale(&self) {
        self.stale.store(self.in_l2, Release);
    }

    /// Schedules the worker after [`RETRY`], unless it is scheduled or there is no engine.
    fn retry(this: &Arc<Delayed<Self>>) {
        if let Some(attached) = &this.state.lock().attached {
            // Fails if the work is already pending.
            let _ = attached.queue.enqueue_delayed(this.clone(), RETRY);
        }
    }

    /// Waits until the next batch is freed. Returns false if the list is empty, with `for_fences`
    /// also if no memory is in use; `ERESTARTSYS` after a signal.
    pub(super) fn wait_for_batch(&self, for_fences: bool) -> Result<bool> {
        let mut state = self.state.lock();
        let round = state.rounds;
        let awaited = !for_fences || state.in_use == 0;
        if state.in_work == 0 && state.list.is_empty() && awaited {
            return Ok(false);
        }
        while state.rounds == round {
            if self.progress.wait_interruptible(&mut state) {
                return Err(ERESTARTSYS);
            }
        }
        Ok(true)
    }

    /// Marks the contents of VRAM as lost until [`Clearing::end_loss`]: the card is about to
    /// be reset.
    pub(super) fn begin_loss(&self) {
        self.lost.store(true, Release);
        self.clean.unset_all();
    }

    /// Marks all pages dirty. VRAM can be accessed again.
    pub(super) fn end_loss(&self) {
        self.clean.unset_all();
        // The reset has emptied L2.
        self.stale.store(false, Release);
        self.lost.store(false, Release);
    }

    /// Zeroes those of `pieces` (offset, length) that are not known to be zero, and marks all of
    /// them dirty.
    ///
    /// Waits for a card reset to end, for 30 s at most, then returns `EIO`. `ERESTARTSYS` after a
    /// signal. If only SDMA may zero them, `ENOMEM` without memory for its jobs, or the error of
    /// one.
    pub(super) fn make_clean(&self, pieces: &[(u64, u64)]) -> Result {
        for poll in 0..RESET_POLLS {
            // The caller may hold locks of its process.
            if poll > 0 && kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
            if !self.lost.load(Acquire) {
                let epoch = self.clean.epoch();
                let cleared = self.clear_dirty(pieces);
                if !self.lost.load(Acquire) && self.clean.epoch() == epoch {
                    return cleared;
                }
            }
            fsleep(Delta::from_millis(10));
        }
        Err(EIO)
    }

    fn clear_dirty(&self, pieces: &[(u64, u64)]) -> Result {
        // `None`: the drop of an empty list calls the allocator, too.
        let mut dirty: Option<KVVec<(u64, u64)>> = None;
        let mut bytes = 0;
        self.clean.take(pieces, &mut |start, len| {
            let dirty = dirty.get_or_insert_with(KVVec::new);
            dirty.push((start, len), GFP_KERNEL)?;
            bytes += len;
            Ok(())
        })?;
        let Some(dirty) = dirty else {
            return Ok(());
        };
        // Before the engine: without one nothing is written back before a reset.
        let stale = self.stale.load(Acquire);
        if bytes > CPU_MAX || stale {
            match self.clear_by_engine(&dirty) {
                Ok(true) => return Ok(()),
                Err(e) if stale || e == ERESTARTSYS => return Err(e),
                Ok(false) | Err(_) => {}
            }
        }
        for (start, len) in &dirty {
            self.clear_by_cpu(*start, *len)?;
        }
        Ok(())
    }

    /// Zeroes `pieces` by the engine. Returns false if it does not run. `ERESTARTSYS` after a
    /// signal: jobs may still run then. `ENOMEM` without memory, else the error of a job.
    fn clear_by_engine(&self, pieces: &[(u64, u64)]) -> Result<bool> {
        let engine = self
            .state
            .lock()
            .attached
            .as_ref()
            .map(|a| a.engine.clone());
        let Some(engine) = engine else {
            return Ok(false);
        };
        let Some(fences) = start_if_running(&*engine, pieces.iter().copied())? else {
            return Ok(false);
        };
        // After a signal the range is freed, and cleared once more behind these fills.
        let cleared = fences.iter().try_for_each(|fence| {
            fence.wait_interruptible(Timeout::FOREVER)?;
            fence.result()
        });
        if cleared.is_err_and(|e| e != ERESTARTSYS) {
            // The other jobs must not zero the range after its allocation.
            fences.iter().for_each(|fence| fence.wait());
        }
        cleared.map(|()| true)
    }

    fn clear_by_cpu(&self, start: u64, len: u64) -> Result {
        let mut done = 0;
        while done < len {
            let step = CPU_STEP.min(len - done);
            let at = usize::try_from(start + done)?;
            self.pool.bar().zero(at, usize::try_from(step)?)?;
            done += step;
            if len > CPU_STEP && kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
        }
        Ok(())
    }

    /// Moves entries to `batch`, as many as it has capacity for. Returns the engine, or `None` when
    /// the list is empty.
    fn next_batch(&self, batch: &mut KVec<Deferred>) -> Option<Arc<dyn ClearEngine>> {
        let mut state = self.state.lock();
        let State { attached, list, .. } = &mut *state;
        let engine = attached.as_ref()?.engine.clone();
        if list.is_empty() {
            return None;
        }
        while batch.len() < batch.capacity() {
            let Some(entry) = list.pop() else {
                break;
            };
            let pushed = batch.push_within_capacity(entry);
            debug_assert!(pushed.is_ok());
        }
        state.in_work = batch.len();
        Some(engine)
    }

    /// Zeroes and drops a batch.
    fn finish_batch(&self, engine: &dyn ClearEngine, batch: &mut KVec<Deferred>) {
        let blocks = || {
            batch.iter().filter_map(|entry| match entry {
                Deferred::Blocks(blocks) => Some(blocks),
                Deferred::Memory(_) => None,
            })
        };
        if blocks().next().is_some() {
            // A card reset between the fill and set_since() undoes both.
            let epoch = self.clean.epoch();
            let pieces = blocks().flat_map(|b| b.pieces()).copied();
            let cleared = start_if_running(engine, pieces).and_then(|started| {
                let Some(fences) = started else {
                    return Ok(false);
                };
                fences.iter().for_each(|fence| fence.wait());
                fences.iter().try_for_each(|fence| fence.result())?;
                Ok(true)
            });
            match cleared {
                Ok(true) => blocks().for_each(|b| self.clean.set_since(epoch, b.pieces())),
                Ok(false) => {}
                Err(_) => self.set_stale(),
            }
        }
        batch.clear();
        let mut state = self.state.lock();
        state.in_work = 0;
        state.rounds += 1;
        drop(state);
        self.progress.notify_all();
    }
}

impl DelayedItem for Clearing {
    fn run(this: Arc<Delayed<Self>>) {
        let mut batch = KVec::new();
        loop {
            let wanted = this.state.lock().list.len().min(BATCH);
            if batch.reserve(wanted, GFP_KERNEL).is_err() && batch.capacity() == 0 {
                return Self::retry(&this);
            }
            let Some(engine) = this.next_batch(&mut batch) else {
                return;
            };
            this.finish_batch(&*engine, &mut batch);
        }
    }
}
