// SPDX-License-Identifier: GPL-2.0

//! The user queues of a process whose GPUs share its memory: eviction in batches.

use core::ops::Range;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::{
    gpu_queues::GpuQueues,
    smi::{self, EvictionTrigger},
};
use crate::{
    dqm::DqmProcess,
    gpu::migrated::{MoveInfo, MoveReport},
    kapi::{
        sched_mm::{NoReclaimGuard, NoReclaimMutex},
        task::Pids,
    },
    node::Node,
    svm::{Queues, UnmapTrigger},
    trace,
};

/// Numbers of a process on a GPU, for sysfs.
pub(super) struct Counters {
    /// VRAM usage in bytes: BOs and migrated memory.
    pub(super) vram: Atomic<u64>,
    /// Retry faults that were handled, successfully or not.
    pub(super) faults: Atomic<u64>,
    /// Pages that were moved to VRAM.
    pub(super) page_in: Atomic<u64>,
    /// Pages that were moved to system memory.
    pub(super) page_out: Atomic<u64>,
}

impl Counters {
    /// Returns zeroes.
    pub(super) fn new() -> Result<Arc<Self>> {
        let this = Self {
            vram: Atomic::new(0),
            faults: Atomic::new(0),
            page_in: Atomic::new(0),
            page_out: Atomic::new(0),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }
}

/// Sends migrations of memory of a process to SMI clients, and counts them.
pub(super) struct Moves {
    pids: Pids,
    /// By the id of the GPU.
    counters: KVec<(u32, Arc<Counters>)>,
}

impl Moves {
    /// Returns that of a process, with its counters by the id of the GPU.
    pub(super) fn new(pids: Pids, counters: KVec<(u32, Arc<Counters>)>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { pids, counters }, GFP_KERNEL)?)
    }

    fn counters_of(&self, gpu: u32) -> Option<&Counters> {
        let mut counters = self.counters.iter();
        counters.find(|(id, _)| *id == gpu).map(|(_, c)| &**c)
    }
}

impl MoveReport for Moves {
    fn vram_allocated(&self, gpu: u32, bytes: u64) {
        if let Some(counters) = self.counters_of(gpu) {
            counters.vram.fetch_add(bytes, Relaxed);
        }
    }

    fn vram_freed(&self, gpu: u32, bytes: u64) {
        if let Some(counters) = self.counters_of(gpu) {
            counters.vram.fetch_sub(bytes, Relaxed);
        }
    }

    fn begin(&self, info: &MoveInfo) {
        let what = if info.to_vram {
            c"migrate_to_vram"
        } else {
            c"migrate_to_system"
        };
        trace::svm_pages(self.pids.global, info.gpu, what, &info.pages);
        smi::migration_start(self.pids, info);
    }

    fn end(&self, info: &MoveInfo, pages: u64, result: Result) {
        if let Some(counters) = self.counters_of(info.gpu) {
            let counter = if info.to_vram {
                &counters.page_in
            } else {
                &counters.page_out
            };
            counter.fetch_add(pages, Relaxed);
        }
        trace::svm_pages(self.pids.global, info.gpu, c"migrated", &info.pages);
        smi::migration_end(self.pids, info, result);
    }
}

struct SvmQueuesState {
    /// By the index of the GPU in the process.
    gpus: KVec<Option<GpuQueues>>,
    /// Evictions since the queues were restored; 0 if they are not evicted.
    batch: u64,
}

/// The queues of a process.
#[pin_data]
pub(super) struct SvmQueues {
    /// Taken by MMU notifiers.
    #[pin]
    state: NoReclaimMutex<SvmQueuesState>,
}

impl SvmQueues {
    /// Returns those of a process on `gpus` GPUs, without queues.
    pub(super) fn new(gpus: usize) -> Result<Arc<Self>> {
        let mut list = KVec::with_capacity(gpus, GFP_KERNEL)?;
        for _ in 0..gpus {
            list.push_within_capacity(None)?;
        }
        let state = SvmQueuesState {
            gpus: list,
            batch: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- NoReclaimMutex::new(new_mutex!(state, "rkfd_svm_queues")),
            }),
            GFP_KERNEL,
        )
    }

    fn lock(&self) -> NoReclaimGuard<'_, SvmQueuesState> {
        self.state.lock()
    }

    /// Adds a GPU on which the process may have queues from now on. Does nothing if it was added,
    /// until [`Self::part`]. `EINVAL` without such a GPU.
    pub(super) fn join(&self, index: usize, node: &Arc<Node>, process: &Arc<DqmProcess>) -> Result {
        let mut guard = self.lock();
        let state: &mut SvmQueuesState = &mut guard;
        let slot = state.gpus.get_mut(index).ok_or(EINVAL)?;
        // Another one would evict the queues once more, for one restore.
        if slot.is_some() {
            return Ok(());
        }
        let mut gpu = GpuQueues::new(node, process, EvictionTrigger::Svm);
        if state.batch > 0 {
            gpu.evict();
        }
        *slot = Some(gpu);
        Ok(())
    }

    /// Removes a GPU on which the process has no queues any more.
    pub(super) fn part(&self, index: usize) {
        let mut guard = self.lock();
        let removed = guard.gpus.get_mut(index).and_then(Option::take);
        drop(guard);
        drop(removed);
    }
}

impl Queues for SvmQueues {
    fn evict(&self) -> bool {
        let mut guard = self.lock();
        let state: &mut SvmQueuesState = &mut guard;
        state.batch += 1;
        // Not only the first time: some GPUs may have been restored before a failure.
        state.gpus.iter_mut().flatten().for_each(GpuQueues::evict);
        state.batch == 1
    }

    fn batch(&self) -> u64 {
        self.lock().batch
    }

    fn restore(&self, batch: u64) -> Result<bool> {
        let mut guard = self.lock();
        let state: &mut SvmQueuesState = &mut guard;
        if state.batch != batch {
            return Ok(false);
        }
        for gpu in state.gpus.iter_mut().flatten() {
            gpu.restore()?;
        }
        state.batch = 0;
        Ok(true)
    }

    fn postponed(&self) {
        let guard = self.lock();
        if guard.batch > 0 {
            guard.gpus.iter().flatten().for_each(GpuQueues::postponed);
        }
    }

    fn stop(&self) {
        let mut guard = self.lock();
        guard.gpus.iter_mut().flatten().for_each(GpuQueues::stop);
    }

    fn unmapped(&self, gpus: u64, pages: &Range<u64>, why: UnmapTrigger) {
        for (index, gpu) in self.lock().gpus.iter().enumerate() {
            if let Some(gpu) = gpu.as_ref().filter(|_| gpus >> index & 1 != 0) {
                trace::svm_pages(gpu.pids().global, gpu.gpu_id(), c"unmapped", pages);
                smi::unmapped(gpu.gpu_id(), gpu.pids(), pages, why);
            }
        }
    }

    fn mapped(&self, gpus: u64, pages: &Range<u64>) {
        if !trace::svm_is_enabled() {
            return;
        }
        for (index, gpu) in self.lock().gpus.iter().enumerate() {
            if let Some(gpu) = gpu.as_ref().filter(|_| gpus >> index & 1 != 0) {
                trace::svm_pages(gpu.pids().global, gpu.gpu_id(), c"mapped", pages);
            }
        }
    }
}
