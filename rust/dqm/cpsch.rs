// SPDX-License-Identifier: GPL-2.0

//! Scheduling by the CP firmware (CPSCH): the driver sends a runlist, the firmware assigns queue
//! slots and VMIDs, in time slices when oversubscribed.

use kernel::{fmt, prelude::*, sync::Arc};

use super::{
    queues::{DqmProcess, DqmQueue, Queues},
    runlist,
    sched::{NodeResources, SchedOps, Scope},
    slots,
};
use crate::{
    asic::xcc::{Xcc, MAX_XCCS},
    gpu::Gpu,
    hw::{HqdSlot, SdmaQueueId},
    kapi::log_limit::LogLimit,
    mqd::Mqd,
    ring::{
        hiq::Hiq,
        packet::{Filter, RunList, SetResources, UnmapQueues, WriteRegister},
    },
    trace,
};

/// Returns the timeout for the preemption of all queues in ms.
fn preemption_timeout() -> i64 {
    crate::module_parameters::queue_preemption_timeout_ms
        .value()
        .into()
}

/// Returns the timeout of the firmware for one queue in ms: two fit into the time above, from
/// 223 ms on. The packet has it in units of 100 ms, with 8 bits.
fn unmap_latency_ms() -> u32 {
    let all = crate::module_parameters::queue_preemption_timeout_ms.value();
    ((all - all / 10) / 2).clamp(100, 25_500)
}

/// The CPSCH scheduler.
pub(super) struct Cpsch {
    node: NodeResources,
    hiq: Option<Hiq>,
    /// Memory of runlists; holds the runlist of the hardware while `active`.
    list: Option<runlist::RunlistBuffer>,
    /// Larger memory for the next runlist.
    longer: Option<runlist::RunlistBuffer>,
    active: bool,
    /// MQDs of SDMA queues that were not preempted: the firmware still lists the queues, and writes
    /// the MQDs when it unmaps them, after the reset of their engine. Kept until all queues are
    /// unmapped. (The reset of a compute queue frees its slot.)
    kept_mqds: KVec<Arc<Mqd>>,
    /// Room for compute queues that were not preempted, during their reset.
    hung: KVec<Arc<DqmQueue>>,
    oversubscribed: bool,
    /// Rate limit of the message about oversubscription.
    warnings: LogLimit,
    /// Register (dword address for packets) and value of the waits for waves, without a grace
    /// period of a debugger.
    dequeue_wait: (u32, u32),
    /// Number of runlists sent.
    sent: u64,
}

impl Cpsch {
    /// Returns a scheduler of a node that is not started.
    pub(super) fn new(node: &NodeResources) -> Self {
        Self {
            node: *node,
            hiq: None,
            list: None,
            longer: None,
            active: false,
            kept_mqds: KVec::new(),
            hung: KVec::new(),
            oversubscribed: false,
            warnings: LogLimit::new(),
            dequeue_wait: (0, 0),
            sent: 0,
        }
    }

    /// Unmaps queues and checks that none is left. `ETIME` when the firmware does not respond or a
    /// queue cannot be reset.
    fn unmap_and_check(&mut self, gpu: &Gpu, queues: &mut Queues, filter: Filter) -> Result {
        if !self.active {
            return Ok(());
        }
        let hiq = self.hiq.as_mut().ok_or(ENODEV)?;
        let done = hiq.unmap(
            gpu,
            &UnmapQueues {
                filter,
                reset: false,
            },
            preemption_timeout(),
        );
        if let Err(e) = done {
            // With any other error the GPU hangs already.
            if e == ETIME {
                dev_err!(
                    gpu.dev(),
                    "queues were not preempted within {} ms\n",
                    preemption_timeout()
                );
                self.record_coredump(gpu, queues, "preemption timed out", None);
            }
            gpu.wedge_by_scheduler("preemption timed out");
            return Err(e);
        }
        // The firmware reports no error when the preemption of a compute queue times out: it stores
        // the queue's doorbell in the MQD of the HIQ.
        let mut hung = false;
        let before = self.kept_mqds.len();
        hiq.take_hung_doorbells(gpu, |xcc, doorbell| {
            hung = true;
            dev_err!(
                gpu.dev(),
                "XCC {}: a queue with doorbell {doorbell:#x} was not preempted\n",
                xcc.logical
            );
        })?;
        if hung {
            let freed = self.free_slots(gpu, queues);
            self.hung.clear();
            if let Err(e) = freed {
                dev_err!(gpu.dev(), "hung queues were not reset: {e:?}\n");
                gpu.wedge_by_scheduler("a queue was not preempted");
                return Err(ETIME);
            }
        }
        // The firmware does not report SDMA queues: check the engines.
        let mut from = 0;
        while let Some((index, place, doorbell)) = queues.sdma.find_held(gpu, from)? {
            self.free_engine(gpu, queues, place, doorbell)?;
            from = index + 1;
        }
        if self.kept_mqds.len() == before {
            self.kept_mqds.clear();
        }
        self.active = false;
        Ok(())
    }

    /// Keeps the MQD of an SDMA queue that was not preempted.
    fn keep_mqd(&mut self, queue: &DqmQueue) {
        if self
            .kept_mqds
            .push_within_capacity(queue.mqd.clone())
            .is_err()
        {
            // More than `reserve` has counted: leak the MQD.
            core::mem::forget(queue.mqd.clone());
        }
    }

    /// Resets compute queues that were not preempted, which are still in their slots, and marks
    /// them as lost. `ENOENT` when there is none or one is unknown, `ENOMEM` when there are more
    /// than [`SchedOps::reserve`] has counted, or the error of the slot's reset.
    fn free_slots(&mut self, gpu: &Gpu, queues: &mut Queues) -> Result {
        let hal = gpu.generation().need_kiq()?;
        let mmio = gpu.mmio()?;
        let caps = gpu.generation().caps;
        let xccs = self.node.xccs;
        let all = || slots::queue_slots(caps).flat_map(|slot| xccs.iter().map(move |x| (*x, slot)));
        // First all: the reset of one may reset its pipe, which ends the others there.
        for (xcc, slot) in all() {
            let Some(doorbell) = hal.doorbell_in(mmio, xcc, slot)? else {
                continue;
            };
            let queue = queues.find_doorbell(doorbell).ok_or(ENOENT)?;
            // A queue has a slot on several XCCs.
            if !self.hung.iter().any(|q| Arc::ptr_eq(q, &queue)) {
                let why = "a compute queue was not preempted";
                self.record_coredump(gpu, queues, why, Some(&queue));
                self.hung.push_within_capacity(queue).map_err(|_| ENOMEM)?;
            }
        }
        // The slots of a queue, which are on all XCCs, at a time; as often as an XCC has slots.
        for _ in slots::queue_slots(caps) {
            let mut held: [(Xcc, HqdSlot); MAX_XCCS] = Default::default();
            let mut count = 0;
            for xcc in xccs.iter() {
                if let Some(slot) = first_held(gpu, *xcc)? {
                    held[count] = (*xcc, slot);
                    count += 1;
                }
            }
            if count == 0 {
                break;
            }
            hal.reset_slots(mmio, &held[..count])?;
        }
        if self.hung.is_empty() {
            return Err(ENOENT);
        }
        for queue in &self.hung {
            queues.mark_lost(gpu, queue);
        }
        Ok(())
    }

    /// Marks an SDMA queue that was not preempted as lost and resets its engine. `ETIME` when that
    /// fails; the card is wedged then.
    fn free_engine(
        &mut self,
        gpu: &Gpu,
        queues: &mut Queues,
        place: SdmaQueueId,
        doorbell: u32,
    ) -> Result {
        let (engine, queue) = (place.engine, place.queue);
        dev_err!(
            gpu.dev(),
            "queue {queue} of SDMA engine {engine} (doorbell {doorbell:#x}) was not preempted\n"
        );
        if let Some(owner) = queues.find_doorbell(doorbell) {
            let why = "an SDMA queue was not preempted";
            self.record_coredump(gpu, queues, why, Some(&owner));
            if queues.mark_lost(gpu, &owner) {
                self.keep_mqd(&owner);
            }
        }
        let reset = gpu
            .sdma()
            .and_then(|sdma| sdma.reset_engine(gpu, engine))
            .and_then(|()| {
                gpu.generation()
                    .sdma_queue
                    .held_doorbell(gpu.mmio()?, place)
            });
        if !matches!(reset, Ok(None)) {
            gpu.wedge_by_scheduler("an SDMA queue was not preempted");
            return Err(ETIME);
        }
        Ok(())
    }

    /// Returns the runlist of the hardware; empty if there is none.
    fn words(&self) -> &[u32] {
        let list = self.list.as_ref().filter(|_| self.active);
        list.map_or(&[], |buffer| buffer.words())
    }
}

/// Returns the first slot of an XCC that has a queue.
fn first_held(gpu: &Gpu, xcc: Xcc) -> Result<Option<HqdSlot>> {
    let (hal, mmio) = (gpu.generation().need_kiq()?, gpu.mmio()?);
    for slot in slots::queue_slots(gpu.generation().caps) {
        if hal.doorbell_in(mmio, xcc, slot)?.is_some() {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Unmaps the HIQ, unless the KIQs are stopped already.
fn unmap_hiq(gpu: &Gpu, hiq: &Hiq) -> Result {
    let mut kiqs = gpu.kiqs();
    if !kiqs.is_running() {
        return Ok(());
    }
    hiq.unmap_self(gpu, &mut kiqs)
}

impl SchedOps for Cpsch {
    fn start(&mut self, gpu: &Gpu, _queues: &Queues) -> Result {
        let g = gpu.generation();
        let mut hiq = Hiq::new(gpu, self.node.index, &self.node.xccs)?;
        hiq.map(gpu, &mut gpu.kiqs())?;
        let (reg, value) = g
            .need_kiq()?
            .dequeue_wait(gpu.mmio()?, self.node.xccs.first())?;
        let result = hiq
            .send(
                gpu,
                &SetResources {
                    hiq: true,
                    vmid_mask: self.node.vmids.mask(),
                    queue_mask: slots::queue_mask(g.caps),
                    unmap_latency_ms: unmap_latency_ms(),
                    gws_mask: !0,
                    xnack_chain: g.need_kiq()?.xnack_chain(gpu.config()),
                },
            )
            .and_then(|()| hiq.send(gpu, &WriteRegister { reg, value }))
            // Fence behind both packets: checks that the scheduler responds.
            .and_then(|()| hiq.fence(gpu, preemption_timeout()));
        if let Err(e) = result {
            dev_err!(
                gpu.dev(),
                "the firmware scheduler does not respond: {e:?}\n"
            );
            if unmap_hiq(gpu, &hiq).is_err() {
                gpu.wedge_by_scheduler("the HIQ was not unmapped");
            }
            return Err(e);
        }
        self.hiq = Some(hiq);
        self.dequeue_wait = (reg, value);
        Ok(())
    }

    fn stop(&mut self, gpu: &Gpu, queues: &mut Queues) -> Result {
        // The engines of a hung GPU are halted: nothing to unmap.
        let unmapped = if gpu.is_hung() {
            Ok(())
        } else {
            self.unmap_and_check(gpu, queues, Filter::All)
        };
        let stopped = match self.hiq.as_mut() {
            Some(hiq) if !gpu.is_hung() => unmap_hiq(gpu, hiq),
            _ => Ok(()),
        };
        if stopped.is_err() {
            // Halts the XCCs: a KIQ may unmap the HIQ later, and write to its MQD.
            gpu.wedge_by_scheduler("the HIQ was not unmapped");
        }
        self.hiq = None;
        self.kept_mqds.clear();
        self.active = false;
        unmapped.and(stopped)
    }

    fn reserve(&mut self, gpu: &Gpu, queues: &Queues) -> Result {
        let words = runlist::length(gpu, queues, queues.total)?;
        let fits = |buffer: &Option<runlist::RunlistBuffer>| {
            buffer.as_ref().is_some_and(|r| r.fits(words))
        };
        if !fits(&self.list) && !fits(&self.longer) {
            self.longer = Some(runlist::RunlistBuffer::new(gpu, words)?);
        }
        self.kept_mqds.reserve(queues.total, GFP_KERNEL)?;
        self.hung.reserve(queues.total, GFP_KERNEL)?;
        Ok(())
    }

    /// All queues are unmapped to change the runlist.
    fn unmap(&mut self, gpu: &Gpu, queues: &mut Queues, _scope: Scope<'_>) -> Result {
        self.unmap_and_check(gpu, queues, Filter::Dynamic)
    }

    fn set_grace(&mut self, gpu: &Gpu, grace: Option<u32>) -> Result {
        let (reg, value) = self.dequeue_wait;
        let value = match grace {
            Some(grace) => {
                let kiq = gpu.generation().need_kiq()?;
                kiq.with_grace(value, grace, gpu.config().mec_fw)
            }
            None => value,
        };
        let hiq = self.hiq.as_mut().ok_or(ENODEV)?;
        hiq.send(gpu, &WriteRegister { reg, value })
    }

    fn map(&mut self, gpu: &Gpu, queues: &mut Queues, _scope: Scope<'_>) -> Result {
        if self.active {
            return Ok(());
        }
        self.sent += 1;
        // RUN_LIST has the number of processes.
        let max_processes = match queues.single_process {
            true => 1,
            false => self.node.vmids.max_processes(),
        };
        let hiq = self.hiq.as_mut().ok_or(ENODEV)?;
        if let Some(longer) = self.longer.take() {
            // No queue is mapped: the old runlist is not in use.
            self.list = Some(longer);
        }
        let buffer = self.list.as_mut().ok_or(ENOMEM)?;
        let list = runlist::build(gpu, max_processes, queues, buffer)?;
        let begins = list.oversubscribed && !self.oversubscribed;
        if begins && self.warnings.allows().is_some() {
            dev_warn!(
                gpu.dev(),
                "runlist is oversubscribed: {}; expect reduced performance\n",
                list.reason()
            );
        }
        self.oversubscribed = list.oversubscribed;
        trace::runlist(
            self.node.id,
            buffer.addr(),
            list.dwords,
            list.processes,
            list.queues,
            list.oversubscribed,
        );
        hiq.send(
            gpu,
            &RunList {
                addr: buffer.addr(),
                dwords: list.dwords,
                chain: false,
                processes: list.processes.min(max_processes),
            },
        )?;
        self.active = true;
        Ok(())
    }

    /// MAP_PROCESS has them: a new runlist (`debug_refresh_runlist`). Without one, as while the
    /// queues are suspended, the next has them.
    fn set_debug(&mut self, gpu: &Gpu, queues: &mut Queues, _: &DqmProcess) -> Result {
        if !self.active {
            return Ok(());
        }
        self.set_grace(gpu, Some(0))?;
        let unmapped = self.unmap_and_check(gpu, queues, Filter::All);
        let ended = self.set_grace(gpu, None);
        unmapped?;
        ended.and(self.map(gpu, queues, Scope::All))
    }

    fn record_coredump(&self, gpu: &Gpu, queues: &Queues, why: &str, queue: Option<&DqmQueue>) {
        let node = (gpu, self.node.id);
        queues.record_coredump(node, why, queue, self.words(), |f| self.show_ring(f));
    }

    fn runlists(&self) -> u64 {
        self.sent
    }

    fn runlist_words(&self) -> Result<KVec<u32>> {
        let mut out = KVec::new();
        out.extend_from_slice(self.words(), GFP_KERNEL)?;
        Ok(out)
    }

    fn scheduler_ring(&self) -> &'static str {
        "HIQ"
    }

    fn show_ring(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hiq.as_ref().map_or(Ok(()), |hiq| hiq.show(f))
    }

    fn scheduler_mqd(&self, gpu: &Gpu, index: usize) -> Result<KVec<u32>> {
        match &self.hiq {
            Some(hiq) if index < self.node.xccs.len() => hiq.mqd_words(gpu, index),
            Some(_) => Err(EINVAL),
            None => Ok(KVec::new()),
        }
    }
}
