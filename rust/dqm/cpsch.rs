// SPDX-License-Identifier: GPL-2.0

//! Scheduling by the command processor's firmware: the driver hands over a runlist, the firmware
//! finds slots and address space ids and takes turns when there are too few.

use kernel::prelude::*;

use super::{runlist, Policy, Queues};
use crate::{
    gpu::{gart::Buffer, Gpu},
    hw::Caps,
    ring::{
        hiq::Hiq,
        packet::{Filter, RunList, SetResources, UnmapQueues},
    },
    trace,
};

/// How long the firmware may take to preempt all queues.
const PREEMPTION_TIMEOUT_MS: i64 = 9000;
/// How long it is told to wait for one queue: so that two fit into the time above.
const UNMAP_LATENCY_MS: u32 = 4050;
/// VMIDs of the hardware.
const VMIDS: u32 = 16;

/// The policy.
pub(super) struct Cpsch {
    hiq: Option<Hiq>,
    /// The runlist that the hardware works with.
    active: Option<Buffer>,
    /// Its words, kept for debugfs after it was taken off.
    last: KVec<u32>,
    oversubscribed: bool,
}

impl Cpsch {
    /// A scheduler that does not run yet.
    pub(super) fn new() -> Self {
        Self {
            hiq: None,
            active: None,
            last: KVec::new(),
            oversubscribed: false,
        }
    }

    /// Takes queues off the hardware and makes sure that they are.
    fn take_off(&mut self, gpu: &Gpu, queues: &Queues, filter: Filter) -> Result {
        if self.active.is_none() {
            return Ok(());
        }
        let hiq = self.hiq.as_mut().ok_or(ENODEV)?;
        let done = hiq.unmap(
            gpu,
            &UnmapQueues {
                filter,
                reset: false,
            },
            PREEMPTION_TIMEOUT_MS,
        );
        if let Err(e) = done {
            dev_err!(
                gpu.dev(),
                "queues were not preempted within {PREEMPTION_TIMEOUT_MS} ms\n"
            );
            self.fail(gpu, "preemption timed out");
            return Err(e);
        }
        // A compute queue that does not react makes the firmware give up without an error: it
        // leaves the queue's doorbell in the HIQ's MQD.
        if let Some(doorbell) = hiq.take_hung_doorbell(gpu)? {
            let owner = queues.find_doorbell(doorbell);
            match &owner {
                Some(queue) => {
                    dev_err!(
                        gpu.dev(),
                        "queue {} of process {} (PASID {}) was not preempted\n",
                        queue.qid(),
                        queue.slot().pid(),
                        queue.slot().pasid()
                    );
                    queue.mark_reset();
                }
                None => dev_err!(
                    gpu.dev(),
                    "a queue with doorbell {doorbell:#x} was not preempted\n"
                ),
            }
            self.fail(gpu, "a queue did not stop");
            return Err(ETIME);
        }
        self.active = None;
        Ok(())
    }

    fn fail(&mut self, gpu: &Gpu, why: &str) {
        gpu.declare_hung(why);
    }
}

/// The VMIDs that processes get.
fn vmid_mask(caps: &Caps) -> u32 {
    (caps.first_user_vmid..VMIDS).fold(0, |mask, vmid| mask | 1 << vmid)
}

/// How many processes can be on the hardware at a time.
pub(super) fn max_processes(caps: &Caps) -> u32 {
    VMIDS - caps.first_user_vmid
}

/// The queue slots of the first MEC that the firmware may use: all but the kernel's.
fn queue_mask(caps: &Caps) -> u64 {
    let mut mask = 0;
    for pipe in 0..caps.pipes_per_mec {
        for queue in caps.kernel_queues_per_pipe..caps.queues_per_pipe {
            mask |= 1u64 << (pipe * caps.queues_per_pipe + queue);
        }
    }
    mask
}

/// How many queues can be on the hardware at a time.
pub(super) fn max_queues(caps: &Caps) -> u32 {
    queue_mask(caps).count_ones()
}

impl Policy for Cpsch {
    fn start(&mut self, gpu: &Gpu) -> Result {
        let g = gpu.generation();
        let mut hiq = Hiq::start(gpu)?;
        let (reg, value) = g.gfx.dequeue_wait(gpu.mmio()?, 0)?;
        let told = hiq
            .set_resources(
                gpu,
                &SetResources {
                    hiq: true,
                    vmid_mask: vmid_mask(g.caps),
                    queue_mask: queue_mask(g.caps),
                    unmap_latency_ms: UNMAP_LATENCY_MS,
                    gws_mask: !0,
                    xnack_chain: g.packet.xnack_chain(),
                },
            )
            .and_then(|()| hiq.write_register(gpu, reg, value))
            // A fence behind both: the scheduler listens.
            .and_then(|()| hiq.fence(gpu, PREEMPTION_TIMEOUT_MS));
        if let Err(e) = told {
            dev_err!(gpu.dev(), "the firmware scheduler does not answer: {e:?}\n");
            if hiq.stop(gpu).is_err() {
                self.fail(gpu, "the HIQ was not unmapped");
            }
            return Err(e);
        }
        self.hiq = Some(hiq);
        Ok(())
    }

    fn stop(&mut self, gpu: &Gpu, queues: &Queues) -> Result {
        // A GPU that hangs was halted: there is nobody to talk to.
        let unmapped = if gpu.is_hung() {
            Ok(())
        } else {
            self.take_off(gpu, queues, Filter::All)
        };
        let stopped = match self.hiq.as_mut() {
            Some(hiq) if !gpu.is_hung() => hiq.stop(gpu),
            _ => Ok(()),
        };
        self.hiq = None;
        self.active = None;
        unmapped.and(stopped)
    }

    fn unmap(&mut self, gpu: &Gpu, queues: &Queues) -> Result {
        self.take_off(gpu, queues, Filter::Dynamic)
    }

    fn map(&mut self, gpu: &Gpu, queues: &Queues) -> Result {
        if self.active.is_some() {
            return Ok(());
        }
        let hiq = self.hiq.as_mut().ok_or(ENODEV)?;
        let list = runlist::build(gpu, queues)?;
        if list.oversubscribed && !self.oversubscribed {
            dev_warn!(
                gpu.dev(),
                "runlist is oversubscribed: {}; expect reduced performance\n",
                list.reason()
            );
        }
        self.oversubscribed = list.oversubscribed;
        trace::runlist(
            gpu.id(),
            list.buffer.gpu_addr(),
            list.words.len() as u32,
            list.processes,
            list.queues,
            list.oversubscribed,
        );
        hiq.run_list(
            gpu,
            &RunList {
                addr: list.buffer.gpu_addr(),
                dwords: list.words.len() as u32,
                chain: false,
                processes: list.processes.min(max_processes(gpu.generation().caps)),
            },
        )?;
        self.last = list.words;
        self.active = Some(list.buffer);
        Ok(())
    }

    fn runlist_words(&self) -> Result<KVec<u32>> {
        let mut out = KVec::with_capacity(self.last.len(), GFP_KERNEL)?;
        if self.active.is_some() {
            out.extend_from_slice(&self.last, GFP_KERNEL)?;
        }
        Ok(out)
    }

    fn scheduler_mqd(&self, gpu: &Gpu) -> Result<KVec<u32>> {
        match &self.hiq {
            Some(hiq) => hiq.mqd_words(gpu),
            None => Ok(KVec::new()),
        }
    }
}
