// SPDX-License-Identifier: GPL-2.0

//! Clearing of VRAM: what somebody leaves behind is filled with zeroes by the DMA engines before
//! others get it.
//!
//! What is given back waits in a list, from which a worker takes all that is there, clears it in one
//! go, and returns it to the allocator. A map of the clean pages remembers what does not have to be
//! cleared again. Where no DMA engine runs (early in probe, after a hang), what was left stays
//! marked dirty, and the processor clears it when it is allocated.

use core::{any::Any, mem};

use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sizes::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Release},
        Arc, CondVar, Mutex,
    },
    time::{delay::fsleep, Delta},
    workqueue::WorkItem,
};

use super::{
    dma,
    memory::{Blocks, Vram, PAGE},
    Gpu,
};
use crate::kapi::{fence::Fence, workqueue::OrderedQueue};

/// Up to so many bytes the processor clears as fast as an engine can be told to.
const CPU_MAX: u64 = SZ_64K as u64;
/// So many bytes the processor clears before it looks for signals.
const CPU_STEP: u64 = SZ_1M as u64;
/// What the worker clears in one go.
const BATCH: usize = 256;
/// How long the worker sleeps when all that is left is still in use.
const POLL: Delta = Delta::from_millis(1);
/// How long the end of a GPU waits for what is still to be cleared, in polls of 10 ms.
const LAST_POLLS: u32 = 1500;

/// How long who wants memory waits for a reset of the card, in polls of 10 ms.
const RESET_POLLS: u32 = 3000;

/// One bit for each page of VRAM: something is true of it.
#[pin_data]
pub(super) struct PageMap {
    #[pin]
    inner: Mutex<Bits>,
}

struct Bits {
    words: KVVec<u64>,
    /// How often [`PageMap::unset_all`] was called.
    epoch: u64,
}

impl PageMap {
    /// A map in which it is true of no page.
    pub(super) fn new(bytes: u64) -> Result<impl PinInit<Self, Error>> {
        let pages = usize::try_from(bytes / PAGE)?;
        let words = KVVec::from_elem(0u64, pages.div_ceil(64), GFP_KERNEL)?;
        Ok(try_pin_init!(Self {
            inner <- new_mutex!(Bits { words, epoch: 0 }, "rkfd_pages"),
        }))
    }

    /// Notes that it is true of `pieces`.
    pub(super) fn set(&self, pieces: &[(u64, u64)]) {
        self.inner.lock().set(pieces);
    }

    /// The same, unless [`PageMap::unset_all`] was called since [`PageMap::epoch`] gave `epoch`.
    fn set_since(&self, epoch: u64, pieces: &[(u64, u64)]) {
        let mut inner = self.inner.lock();
        if inner.epoch == epoch {
            inner.set(pieces);
        }
    }

    /// Notes that it is not true of `pieces`.
    pub(super) fn unset(&self, pieces: &[(u64, u64)]) {
        self.inner.lock().unset(pieces);
    }

    /// Notes that it is true of no page.
    pub(super) fn unset_all(&self) {
        let mut inner = self.inner.lock();
        inner.words.fill(0);
        inner.epoch += 1;
    }

    /// A number that changes with each [`PageMap::unset_all`].
    fn epoch(&self) -> u64 {
        self.inner.lock().epoch
    }

    /// Offset and size of what it is true of, in pieces as long as possible.
    pub(super) fn pieces(&self) -> Result<KVVec<(u64, u64)>> {
        let mut pieces: KVVec<(u64, u64)> = KVVec::new();
        let inner = self.inner.lock();
        for (i, word) in inner.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                let count = (left >> bit).trailing_ones();
                left &= !((!0u64 >> (64 - count)) << bit);
                let start = (i as u64 * 64 + u64::from(bit)) * PAGE;
                let len = u64::from(count) * PAGE;
                match pieces.last_mut() {
                    Some((s, l)) if *s + *l == start => *l += len,
                    _ => pieces.push((start, len), GFP_KERNEL)?,
                }
            }
        }
        Ok(pieces)
    }

    /// Takes `pieces` out of the map. Calls `missing` with each part of which it was not true.
    fn take(&self, pieces: &[(u64, u64)], missing: &mut impl FnMut(u64, u64) -> Result) -> Result {
        let mut inner = self.inner.lock();
        for (start, len) in pieces {
            // Behind the last page of which it is true.
            let mut from = *start;
            let mut result = Ok(());
            for_words(*start, *len, |i, mask| {
                let word_at = i as u64 * 64 * PAGE;
                let mut held = inner.words[i] & mask;
                while held != 0 && result.is_ok() {
                    let bit = held.trailing_zeros();
                    let count = (held >> bit).trailing_ones();
                    held &= !((!0u64 >> (64 - count)) << bit);
                    let first = word_at + u64::from(bit) * PAGE;
                    if from < first {
                        result = missing(from, first - from);
                    }
                    from = first + u64::from(count) * PAGE;
                }
            });
            result?;
            if from < start + len {
                missing(from, start + len - from)?;
            }
        }
        inner.unset(pieces);
        Ok(())
    }
}

impl Bits {
    fn set(&mut self, pieces: &[(u64, u64)]) {
        for (start, len) in pieces {
            for_words(*start, *len, |i, mask| self.words[i] |= mask);
        }
    }

    fn unset(&mut self, pieces: &[(u64, u64)]) {
        for (start, len) in pieces {
            for_words(*start, *len, |i, mask| self.words[i] &= !mask);
        }
    }
}

/// Calls `f` with each word of the map that has bits for these bytes, and which ones.
fn for_words(start: u64, len: u64, mut f: impl FnMut(usize, u64)) {
    let end = (start + len) / PAGE;
    let mut page = start / PAGE;
    while page < end {
        let bit = page % 64;
        let count = (64 - bit).min(end - page);
        let mask = (!0u64 >> (64 - count)) << bit;
        f((page / 64) as usize, mask);
        page += count;
    }
}

/// What somebody has left behind.
enum Left {
    /// VRAM that nobody uses any more.
    Blocks(Blocks),
    /// Memory that the GPU may use until all of these are signaled.
    InUse {
        memory: Arc<dyn Any + Send + Sync>,
        until: KVec<ARef<Fence>>,
    },
}

impl Left {
    fn is_ready(&self) -> bool {
        match self {
            Self::Blocks(_) => true,
            Self::InUse { until, .. } => until.iter().all(|fence| fence.is_signaled()),
        }
    }
}

/// Who clears.
struct Cleaner {
    gpu: Arc<Gpu>,
    queue: OrderedQueue,
}

struct State {
    /// There from [`Vram::attach`] to [`Vram::detach`].
    cleaner: Option<Cleaner>,
    left: KVVec<Left>,
    /// How much of what was left is in the worker's hands.
    in_work: usize,
    rounds: u64,
}

/// What is to be cleared.
#[pin_data]
pub(super) struct Clearing {
    #[pin]
    state: Mutex<State>,
    /// Something was cleared.
    #[pin]
    progress: CondVar,
}

impl Clearing {
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            state <- new_mutex!(State {
                cleaner: None,
                left: KVVec::new(),
                in_work: 0,
                rounds: 0,
            }, "rkfd_clearing"),
            progress <- new_condvar!(),
        })
    }
}

impl Vram {
    /// From now on `gpu`'s DMA engines clear.
    pub(super) fn attach(&self, gpu: &Arc<Gpu>) -> Result {
        let cleaner = Cleaner {
            gpu: gpu.clone(),
            queue: OrderedQueue::new(c"rkfd_clear")?,
        };
        self.clearing.state.lock().cleaner = Some(cleaner);
        Ok(())
    }

    /// Waits until all is cleared that was given back, then does without DMA engines.
    pub(super) fn detach(&self) {
        for _ in 0..LAST_POLLS {
            let state = self.clearing.state.lock();
            if state.left.is_empty() && state.in_work == 0 {
                break;
            }
            drop(state);
            fsleep(Delta::from_millis(10));
        }
        let (cleaner, left) = {
            let mut state = self.clearing.state.lock();
            state.rounds += 1;
            (state.cleaner.take(), mem::take(&mut state.left))
        };
        self.clearing.progress.notify_all();
        if !left.is_empty() {
            pr_warn!("{} pieces of memory could not be cleared\n", left.len());
        }
        drop(left);
        // Waits for the worker; the last reference to the GPU may go with it.
        drop(cleaner);
    }

    /// Has somebody's blocks cleared and returned to the allocator.
    pub(super) fn clear_and_free(self: &Arc<Self>, blocks: Blocks) {
        self.leave(Left::Blocks(blocks));
    }

    /// Drops `memory` when all fences are signaled.
    pub(crate) fn drop_after(
        self: &Arc<Self>,
        memory: Arc<dyn Any + Send + Sync>,
        until: KVec<ARef<Fence>>,
    ) {
        self.leave(Left::InUse { memory, until });
    }

    fn leave(self: &Arc<Self>, what: Left) {
        let mut state = self.clearing.state.lock();
        let State { cleaner, left, .. } = &mut *state;
        // Without a cleaner no engine runs that could still use it; it stays marked dirty.
        let rest = match cleaner {
            Some(cleaner) => {
                let reserved = left.reserve(1, GFP_KERNEL);
                if reserved.is_ok() && left.len() < left.capacity() {
                    // There is room.
                    let pushed = left.push_within_capacity(what);
                    debug_assert!(pushed.is_ok());
                    // Not again if the worker waits for its turn already.
                    let _ = cleaner.queue.enqueue(self.clone());
                    None
                } else {
                    Some(what)
                }
            }
            None => Some(what),
        };
        drop(state);
        if let Some(Left::InUse { memory, until }) = rest {
            for fence in &until {
                // Whether its job was successful is not our business.
                let _ = dma::wait(fence);
            }
            drop(memory);
        }
    }

    /// Waits until some memory that is being cleared is free; false if there is none.
    pub(crate) fn wait_for_cleared(&self) -> Result<bool> {
        let mut state = self.clearing.state.lock();
        let round = state.rounds;
        if state.left.is_empty() && state.in_work == 0 {
            return Ok(false);
        }
        while state.rounds == round {
            if self.clearing.progress.wait_interruptible(&mut state) {
                return Err(ERESTARTSYS);
            }
        }
        Ok(true)
    }

    /// The card is being reset: nobody knows any more what VRAM holds, or reaches it, until
    /// [`Vram::forget_contents`].
    pub(super) fn begin_loss(&self) {
        self.lost.store(true, Release);
        self.clean.unset_all();
    }

    /// VRAM can be reached, and may have lost what it held: nothing is known to be zero any more.
    pub(super) fn forget_contents(&self) {
        self.clean.unset_all();
        self.lost.store(false, Release);
    }

    /// Clears what is not known to be clean of memory that somebody is about to get. Waits for a
    /// reset of the card, in which zeroes would be lost, for `EIO` at last.
    pub(super) fn make_clean(&self, pieces: &[(u64, u64)]) -> Result {
        for _ in 0..RESET_POLLS {
            if !self.lost.load(Acquire) {
                let epoch = self.clean.epoch();
                self.clear_unclean(pieces)?;
                if !self.lost.load(Acquire) && self.clean.epoch() == epoch {
                    return Ok(());
                }
            }
            fsleep(Delta::from_millis(10));
        }
        Err(EIO)
    }

    fn clear_unclean(&self, pieces: &[(u64, u64)]) -> Result {
        let mut dirty: KVVec<(u64, u64)> = KVVec::new();
        let mut bytes = 0;
        // Somebody will write to them.
        self.clean.take(pieces, &mut |start, len| {
            dirty.push((start, len), GFP_KERNEL)?;
            bytes += len;
            Ok(())
        })?;
        if bytes > CPU_MAX {
            let gpu = self
                .clearing
                .state
                .lock()
                .cleaner
                .as_ref()
                .map(|c| c.gpu.clone());
            if let Some(gpu) = gpu {
                if let Ok(fence) = dma::clear(&gpu, dirty.iter()) {
                    // What is given back after a signal is cleared once more, behind this.
                    match dma::wait_interruptible(&fence) {
                        Err(e) if e != ERESTARTSYS => {}
                        other => return other,
                    }
                }
            }
        }
        for (start, len) in &dirty {
            self.clear_by_cpu(*start, *len)?;
        }
        Ok(())
    }

    fn clear_by_cpu(&self, start: u64, len: u64) -> Result {
        let mut done = 0;
        while done < len {
            let step = CPU_STEP.min(len - done);
            let at = usize::try_from(start + done)?;
            self.bar().zero(at, usize::try_from(step)?)?;
            done += step;
            if len > CPU_STEP && kernel::current!().signal_pending() {
                return Err(ERESTARTSYS);
            }
        }
        Ok(())
    }

    fn left_count(&self) -> usize {
        self.clearing.state.lock().left.len()
    }

    /// Takes what is ready off the list; `None` when nothing is there at all.
    fn next_batch(&self, batch: &mut KVec<Left>) -> Option<Arc<Gpu>> {
        let mut state = self.clearing.state.lock();
        let State { cleaner, left, .. } = &mut *state;
        let gpu = cleaner.as_ref()?.gpu.clone();
        if left.is_empty() {
            return None;
        }
        let mut i = 0;
        while i < left.len() && batch.len() < batch.capacity() {
            if left[i].is_ready() {
                let last = left.len() - 1;
                left.swap(i, last);
                if let Some(what) = left.pop() {
                    let pushed = batch.push_within_capacity(what);
                    debug_assert!(pushed.is_ok());
                }
            } else {
                i += 1;
            }
        }
        state.in_work = batch.len();
        Some(gpu)
    }

    /// Clears a batch and lets go of it.
    fn finish_batch(&self, gpu: &Gpu, batch: &mut KVec<Left>) {
        let blocks = || {
            batch.iter().filter_map(|what| match what {
                Left::Blocks(blocks) => Some(blocks),
                Left::InUse { .. } => None,
            })
        };
        if blocks().next().is_some() {
            // A reset between the clear and the note of it undoes both.
            let epoch = self.clean.epoch();
            let cleared = dma::clear(gpu, blocks().flat_map(|b| b.pieces()))
                .and_then(|fence| dma::wait(&fence));
            if cleared.is_ok() {
                blocks().for_each(|b| self.clean.set_since(epoch, b.pieces()));
            }
        }
        batch.clear();
        let mut state = self.clearing.state.lock();
        state.in_work = 0;
        state.rounds += 1;
        drop(state);
        self.clearing.progress.notify_all();
    }
}

impl WorkItem for Vram {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut batch = KVec::new();
        loop {
            let wanted = this.left_count().min(BATCH);
            if batch.reserve(wanted, GFP_KERNEL).is_err() && batch.capacity() == 0 {
                // There will be memory for the list later.
                fsleep(POLL);
                continue;
            }
            let Some(gpu) = this.next_batch(&mut batch) else {
                return;
            };
            if batch.is_empty() {
                fsleep(POLL);
            } else {
                this.finish_batch(&gpu, &mut batch);
            }
        }
    }
}
