// SPDX-License-Identifier: GPL-2.0

//! The worker that maps invalidated pages again and then restores the queues.

use kernel::{
    prelude::*,
    sync::{
        atomic::{ordering, Relaxed},
        Arc,
    },
    time::Delta,
};

use super::{
    map::{gpus_in, Holes, Target},
    shared::{State, Svm},
};
use crate::{
    kapi::{
        global::global_mutex,
        static_queue::Installed,
        workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    },
    mmu::{Pages, BLOCK_PAGES},
};

/// Delay of the worker after an invalidation (`AMDGPU_SVM_RANGE_RESTORE_DELAY_MS`), doubled after
/// each failure in a row, five times at most.
const RESTORE_DELAY: Delta = Delta::from_millis(1);
/// Delay after which pages that could not be faulted in are looked for again, doubled after each
/// run that leaves some, up to a second.
const REFUSED_DELAY: Delta = Delta::from_millis(8);
/// Attempts of one run of the worker if pages are invalidated meanwhile.
const ROUNDS: u32 = 4;

global_mutex! {
    /// Work queue of the workers; frozen during suspend.
    QUEUE: Option<OwnedQueue> = None;
    init init
}

/// Creates the work queue.
pub(crate) fn create_workqueue() -> Result<Installed> {
    Ok(QUEUE.install(Builder::unbound().freezable().build(c"rkfd_svm")?))
}

/// Result of a run of the worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restored {
    /// No page is left.
    All,
    /// Pages are left that cannot be faulted in. They do not keep the queues evicted.
    ButRefused,
    /// Pages cannot be mapped at present, or other ones are invalidated again and again.
    Incomplete,
}

impl Svm {
    /// Schedules the worker, unless it is.
    pub(super) fn schedule(this: &Arc<Delayed<Self>>) {
        let delay = RESTORE_DELAY * (1i64 << this.failures.load(Relaxed).min(5));
        if let Some(queue) = &*QUEUE.lock() {
            match this.waits_for_refused.xchg(false, Relaxed) {
                true => queue.requeue_delayed(this, delay),
                // Fails if it is queued already.
                false => drop(queue.enqueue_delayed(this.clone(), delay)),
            }
        }
    }

    /// Schedules the worker for pages that could not be faulted in, unless it is.
    fn schedule_refused(this: &Arc<Delayed<Self>>) {
        let runs = this.refused_runs.load(Relaxed);
        this.refused_runs.store((runs + 1).min(7), Relaxed);
        if let Some(queue) = &*QUEUE.lock() {
            let delay = REFUSED_DELAY * (1i64 << runs);
            let queued = queue.enqueue_delayed(this.clone(), delay).is_ok();
            this.waits_for_refused.store(queued, Relaxed);
        }
    }

    /// Invalidates everything that was mapped on GPUs whose page tables were lost. PTEs that were
    /// written since are valid, and TLBs may have them.
    fn forget_lost(&self) {
        let lost = self.lost.xchg(0, ordering::Full);
        if lost == 0 {
            return;
        }
        self.for_windows(|window| {
            let mut state = window.watch().lock();
            let mut stale = 0;
            for (_, block) in state.blocks() {
                for gpu in gpus_in(lost) {
                    let zapped = block.map(gpu).map(|map| map.zap(Pages::ALL));
                    let zapped = zapped.unwrap_or_default();
                    if !zapped.is_empty() {
                        block.spoil(zapped);
                        stale |= 1 << gpu;
                    }
                }
            }
            state.flush(stale);
        });
    }

    /// Maps the invalid pages again, and those that were refused before.
    fn refresh(&self) -> Result<Restored> {
        let mm = self.user()?;
        let mut guard = self.lock()?;
        let state: &mut State = &mut guard;
        self.tidy(state, &mm)?;
        self.forget_lost();
        let retries = self.retries();
        let mut left = Restored::All;
        let mut result = Ok(());
        self.for_windows(|window| {
            for index in 0..super::window::BLOCKS {
                let mut locked = window.watch().lock();
                let invalid = locked.block(index).map(|block| {
                    block.retry_refused(retries);
                    block.invalid()
                });
                let Some(invalid) = invalid.filter(|pages| !pages.is_empty()) else {
                    continue;
                };
                drop(locked);
                let base = window.watch().first() + (index * BLOCK_PAGES) as u64;
                let mut target = Target {
                    base,
                    pages: invalid,
                    gpus: self.present(),
                    access: None,
                };
                match self.map_block(&mm, &state.attributes, &mut target, Holes::Skip) {
                    Ok(()) => {}
                    Err(e) if e == ENOMEM => result = Err(e),
                    // Such as `ENODEV` for a GPU that is unplugged meanwhile.
                    Err(_) => left = Restored::Incomplete,
                }
                let mut locked = window.watch().lock();
                let refused = locked.block(index).map(|block| block.refused(retries));
                if left == Restored::All && refused.is_some_and(|pages| !pages.is_empty()) {
                    left = Restored::ButRefused;
                }
            }
        });
        drop(guard);
        result.map(|()| left)
    }

    /// Maps the invalid pages again, and restores the queues unless the result is
    /// [`Restored::Incomplete`].
    fn restore(&self) -> Result<Restored> {
        for _ in 0..ROUNDS {
            let batch = self.queues().batch();
            match self.refresh() {
                // The process is ending.
                Err(e) if e == ESRCH => return Ok(Restored::All),
                Ok(left) if left != Restored::Incomplete => {
                    if self.queues().restore(batch)? {
                        return Ok(left);
                    }
                }
                incomplete => return incomplete,
            }
        }
        Ok(Restored::Incomplete)
    }
}

impl DelayedItem for Svm {
    fn run(this: Arc<Delayed<Self>>) {
        this.waits_for_refused.store(false, Relaxed);
        match this.restore() {
            Ok(Restored::All) => {
                this.failures.store(0, Relaxed);
                this.refused_runs.store(0, Relaxed);
            }
            Ok(Restored::ButRefused) => {
                this.failures.store(0, Relaxed);
                Self::schedule_refused(&this);
            }
            Ok(Restored::Incomplete) | Err(_) => {
                this.failures.fetch_add(1, Relaxed);
                this.queues().postponed();
                Self::schedule(&this);
            }
        }
    }
}
