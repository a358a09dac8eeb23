// SPDX-License-Identifier: GPL-2.0

//! Watchdog: reports AQL and SDMA queues that stop retiring packets. It changes nothing.
//!
//! A compute queue is stalled if, at several checks in succession, its read pointer is unchanged
//! and below its write pointer, the packet there is a kernel dispatch or a barrier whose signals
//! are 0, the queue is mapped, and no compute queue has waves on the XCCs of the node. A
//! long-running kernel has waves, and a dispatch without free resources waits for waves of other
//! queues. An SDMA queue is stalled if the packet does not wait for memory, and the engine has
//! selected the queue.
//!
//! Pointers, packet and signals are read from memory. Registers are read only if the pointers of a
//! queue suggest a stall: of a compute queue first the wave status of each shader engine, and
//! without waves the HQD slots; of an SDMA queue the registers of its slot.

use kernel::{
    prelude::*,
    sync::Arc,
    time::Delta,
    workqueue::new_delayed_work, //
};

use super::{
    queues::{DqmQueue, Queues},
    sched::{NodeResources, SchedOps},
    slots,
    watch::Pointers,
};
use crate::{
    gpu::Gpu,
    hw::{QueueFormat, SdmaQueueId},
    kapi::workqueue::{Builder, Delayed, DelayedItem, OwnedQueue},
    trace,
};

/// Interval of the checks.
const PERIOD: Delta = Delta::from_millis(2000);
/// Successive checks without progress after which a stalled queue is reported: 4 to 8 s.
const CHECKS: u32 = 3;

/// Checks queues.
pub(super) trait QueueCheck: Send + Sync {
    /// Checks all queues. Returns whether there are queues to check later.
    fn check_queues(&self) -> bool;

    /// Schedules the next check.
    fn schedule_check(&self);
}

struct Check(Arc<dyn QueueCheck>);

impl DelayedItem for Check {
    fn run(this: Arc<Delayed<Self>>) {
        if this.0.check_queues() {
            this.0.schedule_check();
        }
    }
}

/// The worker of a node.
pub(super) struct Watchdog {
    queue: OwnedQueue,
    check: Arc<Delayed<Check>>,
}

impl Watchdog {
    /// Returns the worker of the queues of `target`. `ENOMEM` without memory.
    pub(super) fn new(target: Arc<dyn QueueCheck>) -> Result<Self> {
        let check = Delayed::new(new_delayed_work!("rkfd_watchdog"), Check(target));
        Ok(Self {
            queue: Builder::ordered().freezable().build(c"rkfd_watchdog")?,
            check: Arc::pin_init(check, GFP_KERNEL)?,
        })
    }

    /// Schedules a check, unless it is scheduled.
    pub(super) fn schedule(&self) {
        // Fails if it is.
        let _ = self.queue.enqueue_delayed(self.check.clone(), PERIOD);
    }

    /// Ends the checks, of which none is scheduled any more. Waits for one that runs.
    pub(super) fn end(self) {
        // The queue is frozen if the device is removed while the system sleeps.
        Delayed::cancel(&self.check);
    }
}

/// A queue that may be stalled.
pub(super) struct Suspect {
    queue: Arc<DqmQueue>,
    now: Pointers,
}

impl Suspect {
    /// Returns those of `queues` that may be stalled. `ENOMEM` without memory.
    pub(super) fn find_all(queues: KVec<Arc<DqmQueue>>) -> Result<KVec<Self>> {
        let mut found = KVec::new();
        for suspect in queues.into_iter().filter_map(Self::find) {
            found.push(suspect, GFP_KERNEL)?;
        }
        Ok(found)
    }

    /// Reads the pointers of a queue. `None` if the queue is not watched, or cannot be stalled.
    fn find(queue: Arc<DqmQueue>) -> Option<Self> {
        let (is_sdma, pointers, ring) = {
            let state = queue.state.lock();
            let spec = &state.spec;
            let is_sdma = spec.sdma.is_some();
            let watched = state.active && (is_sdma || spec.format == QueueFormat::Aql);
            watched.then_some((
                is_sdma,
                (spec.rptr_va, spec.wptr_va),
                (spec.ring_va, spec.ring_size),
            ))?
        };
        let read = |va| queue.vm.peek64(va).ok();
        let now = Pointers::read(is_sdma, pointers, ring, read)?;
        let may_be_stalled = queue.watch.lock().look(&now);
        may_be_stalled.then_some(Self { queue, now })
    }
}

/// Returns whether an SDMA engine of the node has selected a queue.
fn is_selected(gpu: &Gpu, node: &NodeResources, place: SdmaQueueId, doorbell: u32) -> Result<bool> {
    let place = node.sdma.of_card(place);
    let held = gpu
        .generation()
        .sdma_queue
        .held_doorbell(gpu.mmio()?, place)?;
    Ok(held == Some(doorbell))
}

/// Returns whether a compute queue is mapped on an XCC.
fn is_mapped(gpu: &Gpu, node: &NodeResources, doorbell: u32) -> Result<bool> {
    let (hal, mmio) = (gpu.generation().gfx, gpu.mmio()?);
    for xcc in node.xccs.iter() {
        for slot in slots::queue_slots(gpu.generation().caps) {
            if hal.doorbell_in(mmio, *xcc, slot)? == Some(doorbell) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn has_waves(gpu: &Gpu, node: &NodeResources) -> Result<bool> {
    let (hal, mmio) = (gpu.generation().gfx, gpu.mmio()?);
    for xcc in node.xccs.iter() {
        if hal.wave_queues(mmio, *xcc, gpu.config().num_se)? != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks suspects by registers, and reports one of those that are stalled: the others follow at
/// the next checks, so that there is one line in the log per period. Errors of register accesses.
pub(super) fn check(
    gpu: &Gpu,
    node: &NodeResources,
    sched: &dyn SchedOps,
    queues: &Queues,
    suspects: &[Suspect],
) -> Result {
    let mut busy = None;
    let mut reported = false;
    for Suspect { queue, now } in suspects {
        let (active, sdma, doorbell) = {
            let state = queue.state.lock();
            (state.active, state.spec.sdma, state.spec.doorbell)
        };
        let stands = match sdma {
            Some(place) => is_selected(gpu, node, place, doorbell)?,
            None => {
                let busy = match busy {
                    Some(busy) => busy,
                    None => *busy.insert(has_waves(gpu, node)?),
                };
                !busy && is_mapped(gpu, node, doorbell)?
            }
        };
        let mut watch = queue.watch.lock();
        if !(active && stands) {
            watch.restart();
        } else if watch.stands(CHECKS) && !reported {
            watch.set_reported();
            drop(watch);
            let why = match sdma {
                Some(_) => "an SDMA queue is stalled",
                None => "a compute queue is stalled",
            };
            report(gpu, node, sched, queues, queue, now, why);
            reported = true;
        }
    }
    Ok(())
}

fn report(
    gpu: &Gpu,
    node: &NodeResources,
    sched: &dyn SchedOps,
    queues: &Queues,
    queue: &DqmQueue,
    &Pointers {
        rptr, wptr, header, ..
    }: &Pointers,
    why: &str,
) {
    let process = queue.slot();
    let (pid, pasid, qid) = (process.pid(), process.pasid(), queue.qid());
    let doorbell = queue.spec().doorbell;
    dev_warn!(
        gpu.dev(),
        "queue {qid} of process {pid} (PASID {pasid}) is stalled: doorbell {doorbell:#x}, packet {rptr:#x} of {wptr:#x} with header {header:#x} does not run\n"
    );
    trace::queue_stalled(node.id, pid, pasid, qid, doorbell, rptr, wptr);
    sched.record_coredump(gpu, queues, why, Some(queue));
}
