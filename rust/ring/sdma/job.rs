// SPDX-License-Identifier: GPL-2.0

//! Jobs of the DRM scheduler of an SDMA ring.

use kernel::{
    device,
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{
    group::Group,
    packet::Words,
    recover::Shared,
    ring::{Frame, Ib, Memory, Ring, JOBS, MAX_IBS},
    vmid::Grab,
};
use crate::{
    kapi::{
        fence::{Fence, Timeout},
        sched::{JobOps, Prepare, Scheduler},
    },
    ring::lockup_ms,
    uapi,
};

/// The address space of a job.
pub(crate) struct JobVm {
    /// PASID of the process.
    pub(crate) pasid: u32,
    /// Page table base with its flags.
    pub(crate) root: u64,
    /// Reference to the address space, held until the job has ended.
    pub(crate) _vm: Arc<dyn Send + Sync>,
}

/// A VMID that a job has taken.
struct JobVmid {
    vmid: u32,
    /// It has to be switched to the job's address space first.
    switch: bool,
    /// The fence that [`Vmids`] records for the job.
    ///
    /// [`Vmids`]: super::vmid::Vmids
    finished: ARef<Fence>,
}

/// Packets of a job.
enum Payload {
    /// IBs in the address space of a process.
    User {
        vm: JobVm,
        ibs: KVec<Ib>,
        fence: Option<(u64, u64)>,
        /// VMID of the job; set by `prepare`.
        vmid: Option<JobVmid>,
        /// Losses of VRAM before the job was created ([`Health::resets`]).
        ///
        /// [`Health::resets`]: crate::card::health::Health::resets
        losses: u32,
        /// Fence context of the entity; set by `prepare`.
        context: u64,
    },
    /// Packets of the driver, in VMID 0.
    Kernel { packets: Words, group: Arc<Group> },
}

/// A job on an SDMA engine, with the objects it uses.
pub(crate) struct Job {
    payload: Payload,
    memory: Option<Memory>,
    /// Of a job of a process; dropped in a work queue when it has ended.
    _resources: Option<KBox<dyn Send>>,
}

impl Job {
    /// Returns a job of a process with IBs in its address space. It ends with `ECANCELED` if VRAM
    /// has been lost more often than `losses` times when it is about to run. `EINVAL` with too many
    /// IBs, `ENOMEM` without memory.
    pub(crate) fn user(
        vm: JobVm,
        ibs: KVec<Ib>,
        losses: u32,
        resources: KBox<dyn Send>,
    ) -> Result<Self> {
        if ibs.len() > MAX_IBS {
            return Err(EINVAL);
        }
        let memory = Memory::new(ibs.len())?;
        Ok(Self {
            payload: Payload::User {
                vm,
                ibs,
                fence: None,
                vmid: None,
                losses,
                context: 0,
            },
            memory: Some(memory),
            _resources: Some(resources),
        })
    }

    /// Adds a user fence: writes a 64-bit value to an address in VMID 0 after the IBs.
    pub(crate) fn with_user_fence(mut self, addr: u64, value: u64) -> Self {
        if let Payload::User { fence, .. } = &mut self.payload {
            *fence = Some((addr, value));
        }
        self
    }

    /// Returns a job of the driver. `ENOMEM` without memory.
    pub(super) fn kernel(packets: Words, group: Arc<Group>) -> Result<Self> {
        Ok(Self {
            payload: Payload::Kernel { packets, group },
            memory: Some(Memory::new(1)?),
            _resources: None,
        })
    }

    /// Returns whether the job needs encrypted memory (TMZ): decided by the first IB.
    fn is_secure(&self) -> bool {
        match &self.payload {
            Payload::Kernel { .. } => false,
            Payload::User { ibs, .. } => ibs
                .first()
                .is_some_and(|ib| ib.flags & uapi::AMDGPU_IB_FLAGS_SECURE != 0),
        }
    }

    /// Puts the job on its ring. `ECANCELED` for a job of user space if VRAM was lost since, else
    /// errors as [`Self::emit`].
    fn start(&mut self, queue: &Queue) -> Result<ARef<Fence>> {
        let (card, _) = queue.ring.parents()?;
        if let Payload::User { losses, .. } = &self.payload {
            if card.health().resets() != *losses {
                return Err(ECANCELED);
            }
        }
        if self.is_secure() {
            // The C driver fails at this point too (`amdgpu_ib_schedule`).
            if !card.generation().caps.sdma_secure {
                return Err(EINVAL);
            }
        }
        self.emit(&queue.ring, &queue.shared)
    }

    /// Puts the job on the ring. Errors as [`Ring::emit`].
    fn emit(&mut self, ring: &Arc<Ring>, shared: &Shared) -> Result<ARef<Fence>> {
        let memory = self.memory.take().ok_or(ECANCELED)?;
        match &self.payload {
            Payload::Kernel { packets, group } => ring.emit(
                &Frame {
                    vmid: 0,
                    switch: None,
                    ibs: &[],
                    packets,
                    user_fence: None,
                    group: Some(group.clone()),
                    context: 0,
                },
                memory,
            ),
            Payload::User {
                vm,
                ibs,
                fence,
                vmid,
                context,
                losses: _,
            } => {
                let JobVmid {
                    vmid,
                    switch,
                    finished,
                } = vmid.as_ref().ok_or(EINVAL)?;
                let vmid = *vmid;
                let vmids = shared.vmids_of(ring.engine())?;
                let switch = if *switch {
                    let (card, _) = ring.parents()?;
                    let hal = card.generation().sdma;
                    let engine = ring.engine();
                    Some(hal.vm_switch(card.mmio()?, engine, vmid, vm.root, vm.pasid)?)
                } else {
                    None
                };
                let frame = Frame {
                    vmid,
                    switch,
                    ibs,
                    packets: &[],
                    user_fence: *fence,
                    group: None,
                    context: *context,
                };
                let done = ring.emit(&frame, memory)?;
                vmids.emitted(vmid, (finished, &done), ring.engine(), switch.is_some());
                Ok(done)
            }
        }
    }
}

/// Ring of a scheduler, and the state that all rings share.
pub(crate) struct Queue {
    ring: Arc<Ring>,
    shared: Arc<Shared>,
}

#[vtable]
impl JobOps for Job {
    type Queue = Queue;

    fn prepare(&mut self, queue: &Queue, cx: &Prepare<'_>) -> Result<Option<ARef<Fence>>> {
        let Payload::User {
            vm, vmid, context, ..
        } = &mut self.payload
        else {
            return Ok(None);
        };
        if vmid.is_some() {
            return Ok(None);
        }
        if let Some(fence) = queue.shared.paused() {
            return Ok(Some(fence));
        }
        // The job depends on the results of a job that failed.
        cx.entity_error()?;
        *context = cx.entity_context();
        let ring = queue.ring.engine();
        let finished = cx.finished();
        let vmids = queue.shared.vmids_of(ring)?;
        match vmids.grab((vm.pasid, vm.root), ring, finished.clone())? {
            Grab::Wait(fence) => Ok(Some(fence)),
            Grab::Vmid {
                vmid: number,
                switch,
            } => {
                *vmid = Some(JobVmid {
                    vmid: number,
                    switch,
                    finished,
                });
                Ok(None)
            }
        }
    }

    fn run(&mut self, queue: &Queue) -> Result<ARef<Fence>> {
        let emitted = self.start(queue);
        match (&self.payload, emitted) {
            // The card is hung, and its reset will lose VRAM, or it is gone.
            (Payload::User { .. }, Err(e)) if e == EIO || e == ENODEV => Err(ECANCELED),
            (_, emitted) => emitted,
        }
    }

    fn timed_out(&mut self, queue: &Queue) {
        let ring = &queue.ring;
        let Ok((card, _)) = ring.parents() else {
            return;
        };
        let name = ring.name().to_str().unwrap_or("sdma");
        if ring.process_fences() > 0 {
            dev_warn!(card.dev(), "{name}: timeout, but jobs had completed\n");
            return;
        }
        if let Ok(s) = ring.snapshot() {
            dev_err!(
                card.dev(),
                "{name}: timeout, signaled seq {}, emitted seq {}\n",
                s.signaled,
                s.emitted
            );
        }
        match queue.shared.recover(ring) {
            Ok(true) => dev_err!(card.dev(), "{name}: engine was reset\n"),
            Ok(false) => dev_warn!(card.dev(), "{name}: jobs completed before a reset\n"),
            Err(e) => {
                dev_err!(card.dev(), "{name}: engine was not reset: {e:?}\n");
                // Fails all jobs, unless the card is wedged already.
                card.wedge("an SDMA engine was not reset");
            }
        }
    }
}

/// Returns the DRM scheduler of a ring. `ENOMEM` without memory.
pub(super) fn scheduler(
    dev: &device::Device,
    ring: &Arc<Ring>,
    shared: &Arc<Shared>,
) -> Result<Arc<Scheduler<Job>>> {
    let queue = Queue {
        ring: ring.clone(),
        shared: shared.clone(),
    };
    let timeout = lockup_ms().map_or(Timeout::FOREVER, Timeout::from_ms);
    Scheduler::new(ring.name(), JOBS, timeout, dev, queue)
}
