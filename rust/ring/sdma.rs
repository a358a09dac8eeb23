// SPDX-License-Identifier: GPL-2.0

//! Kernel rings on the SDMA engines: one ring and one scheduler per engine.
//!
//! DRM scheduler entities submit [`Job`]s: those of user space run in the address space of a
//! process; [`Clients`] submits the driver's own clears, copies and PTE writes. An engine whose job
//! times out is reset.

use kernel::{prelude::*, sync::Arc};

use super::wait;
use crate::{
    card::Card,
    hw::RegisterDump,
    kapi::sched::Scheduler, //
};

mod client;
pub(crate) mod debugfs;
mod group;
mod host;
mod job;
mod packet;
mod pte_run;
mod recover;
mod ring;
mod vmid;

pub(crate) use client::{Clients, Move};
pub(crate) use host::SdmaHost;
pub(crate) use job::{Job, JobVm};
pub(crate) use pte_run::PteRun;
pub(crate) use ring::{Ib, MAX_IBS};

use recover::Shared;
use ring::Ring;

/// Limit for jobs to end in [`Sdma::drain`]. The job timeout is shorter.
const DRAIN_TIMEOUT_MS: i64 = 30_000;

/// One scheduler per ring.
type Schedulers = KVec<Arc<Scheduler<Job>>>;

/// The kernel's rings on the SDMA engines of a card.
pub(crate) struct Sdma {
    rings: KVec<Arc<Ring>>,
    schedulers: Schedulers,
    shared: Arc<Shared>,
    clients: Pin<KBox<Clients>>,
}

impl Sdma {
    /// Starts the rings of all engines. `ETIMEDOUT` when one does not execute packets, `ENOMEM`
    /// without memory.
    pub(crate) fn start(card: &Arc<Card>, host: &Arc<dyn SdmaHost>) -> Result<KBox<Self>> {
        // Allocated first: nothing may fail between the start of a ring and its owner.
        let memory = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let count = card.config().num_sdma;
        let shared = Shared::new(card)?;
        let mut rings = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        let started = (0..count).try_for_each(|engine| -> Result {
            rings.push(Ring::start(card, host, engine)?, GFP_KERNEL)?;
            Ok(())
        });
        let made = started.and_then(|()| Self::schedule(card, &rings, &shared));
        let (schedulers, clients) = match made {
            Ok(made) => made,
            Err(e) => {
                stop_rings(card, &rings);
                rings.iter().for_each(|ring| ring.free());
                return Err(e);
            }
        };
        Ok(memory.write(Self {
            rings,
            schedulers,
            shared,
            clients,
        }))
    }

    fn schedule(
        card: &Card,
        rings: &[Arc<Ring>],
        shared: &Arc<Shared>,
    ) -> Result<(Schedulers, Pin<KBox<Clients>>)> {
        let mut schedulers = KVec::with_capacity(rings.len(), GFP_KERNEL)?;
        for ring in rings {
            schedulers.push(job::scheduler(card.dev(), ring, shared)?, GFP_KERNEL)?;
        }
        let clients = Clients::new(&schedulers, card.generation().sdma.packets())?;
        Ok((schedulers, clients))
    }

    /// Stops all rings. Pending and later jobs fail with `ENODEV`, pending ones of user space with
    /// `ECANCELED`.
    pub(crate) fn stop(&self, card: &Card) {
        {
            let _guard = self.shared.resetting.lock();
            stop_rings(card, &self.rings);
        }
        self.rings.iter().for_each(|ring| ring.free());
        // Waits for queued jobs of the driver, which fail by now.
        self.clients.stop();
    }

    /// Fails all pending and later jobs with `EIO`, those of user space with `ECANCELED`, until
    /// [`Sdma::restart`]: the card is hung.
    pub(crate) fn fail_all_jobs(&self) {
        for ring in &self.rings {
            ring.fail_all_jobs();
        }
    }

    /// Stops all rings, but keeps their memory. Pending and later jobs fail with `EIO`, those of
    /// user space with `ECANCELED`, until [`Sdma::restart`].
    pub(crate) fn halt(&self, card: &Card) {
        let _guard = self.shared.resetting.lock();
        halt_rings(card, &self.rings, EIO);
        for ring in &self.rings {
            ring.end_jobs();
        }
    }

    /// Starts the rings, empty, after [`Sdma::halt`] or a card reset. `ETIMEDOUT` when one does not
    /// execute packets.
    pub(crate) fn restart(&self, card: &Card) -> Result {
        let _guard = self.shared.resetting.lock();
        // The VM context registers may have been lost.
        for vmids in self.shared.all_vmids() {
            vmids.drop_all_owners();
        }
        for ring in &self.rings {
            ring.restart().inspect_err(|e| {
                let name = ring.name().to_str().unwrap_or("sdma");
                dev_err!(card.dev(), "{name} does not execute packets: {e:?}\n");
            })?;
        }
        Ok(())
    }

    /// Resets an engine with a user queue that is not preemptible. All user queues of the engine
    /// are lost; a kernel job fails with `ETIME` if it occupies the engine, and is resubmitted
    /// otherwise. `EINVAL` without such an engine.
    pub(crate) fn reset_engine(&self, card: &Card, engine: u32) -> Result {
        let ring = self.rings.get(engine as usize).ok_or(EINVAL)?;
        let _guard = self.shared.resetting.lock();
        self.shared.reset(card, ring, |_, selected| selected)
    }

    /// Keeps jobs of user space that are not on a ring yet from being run until [`Self::unpause`].
    /// `ENOMEM` without memory.
    pub(crate) fn pause(&self) -> Result {
        self.shared.pause()?;
        self.schedulers.iter().for_each(|s| s.flush());
        Ok(())
    }

    /// Reverts [`Self::pause`].
    pub(crate) fn unpause(&self) {
        self.shared.unpause();
    }

    /// Waits until all jobs have ended. The caller prevents new ones. `ETIME` after 30 s.
    pub(crate) fn drain(&self) -> Result {
        self.rings.iter().try_for_each(|ring| {
            let drained = wait(DRAIN_TIMEOUT_MS, || Ok(ring.oldest().is_none()));
            drained.map_err(|_| ETIME)
        })
    }

    /// Returns the entities of the driver's own jobs.
    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Returns the schedulers, one per engine.
    pub(crate) fn schedulers(&self) -> &[Arc<Scheduler<Job>>] {
        &self.schedulers
    }

    /// Returns the number of engine resets after job timeouts.
    pub(crate) fn job_resets(&self) -> u32 {
        self.shared.job_resets()
    }

    /// Returns the mask of kernel VMIDs that hold the address space with this PASID in any hub:
    /// their TLBs have to be flushed too when its page tables change.
    pub(crate) fn vmids_of(&self, pasid: u32) -> u32 {
        let vmids = self.shared.all_vmids();
        vmids.fold(0, |mask, vmids| mask | vmids.of(pasid))
    }

    /// Drops an address space that is about to be freed from all kernel VMIDs.
    pub(crate) fn drop_owner(&self, pasid: u32) {
        for vmids in self.shared.all_vmids() {
            vmids.drop_owner(pasid);
        }
    }

    /// Completes jobs after a trap of the ring of `engine`. Called in the interrupt thread.
    pub(crate) fn trap(&self, engine: u32, context: u32) {
        if let Some(ring) = self.rings.get(engine as usize) {
            ring.trap(context);
        }
    }

    /// Marks the jobs in `vmid` of the engines in a mask as failed with `EFAULT` after a VM fault.
    /// Called in the interrupt thread.
    pub(crate) fn fault(&self, engines: u32, vmid: u32) {
        for ring in &self.rings {
            if engines & 1 << ring.engine() != 0 {
                ring.fault(vmid);
            }
        }
    }

    /// Returns the registers of an engine, for debugfs. `ENODEV` when the device is unplugged.
    pub(crate) fn dump(&self, card: &Card, engine: u32) -> Result<RegisterDump> {
        card.generation().sdma.dump(card.mmio()?, engine)
    }
}

/// Stops the engines of all rings. One that does not stop hangs the card, which cuts it off from
/// memory: that of pending jobs may be freed when they end.
fn halt_rings(card: &Card, rings: &[Arc<Ring>], error: Error) {
    let mut halted = Ok(());
    for ring in rings {
        let result = ring.halt(error);
        if let Err(e) = result {
            let engine = ring.engine();
            dev_err!(card.dev(), "SDMA engine {engine} did not stop: {e:?}\n");
        }
        halted = halted.and(result);
    }
    if halted.is_err() {
        card.wedge("an SDMA engine was not stopped");
    }
}

fn stop_rings(card: &Card, rings: &[Arc<Ring>]) {
    halt_rings(card, rings, ENODEV);
    for ring in rings {
        ring.stop();
    }
}
