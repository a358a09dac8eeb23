// SPDX-License-Identifier: GPL-2.0

//! The kernel's use of the DMA engines: one ring and one scheduler per engine.
//!
//! Who has a scheduler's entity submits [`Job`]s: of user space, which run in the address space of
//! a process, or through [`Sdma::fill`], [`Sdma::copy`] and [`Sdma::write_ptes`] what the driver
//! itself needs. An engine that does not get on is reset, see [`Sdma::recover`].

use kernel::{
    device,
    error::Error,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex, SetOnce,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

use crate::{
    gpu::Gpu,
    hw::{DmaPacketHal, HqdDump},
    kapi::sched::{Entity, Priority, Scheduler},
    trace,
};

mod client;
pub(crate) mod debugfs;
mod job;
mod packet;
mod ring;
mod vmid;

pub(crate) use client::{Move, PteRun};
pub(crate) use job::Job;
pub(crate) use ring::Ib;

use ring::Ring;
use vmid::Vmids;

/// Most indirect buffers of a job, as the C driver allows.
pub(crate) const MAX_IBS: usize = 49;

/// How long jobs may take when the engines are about to stop.
const DRAIN_TIMEOUT: Delta = Delta::from_secs(30);

/// Who has user queues on the engines: whoever is above and registered.
pub(crate) trait UserQueues: Sync {
    /// Takes all user queues of the GPU off the hardware, until [`UserQueues::resume`]. Called
    /// while an engine hangs: what is on that engine may not let itself be preempted.
    fn suspend(&self, gpu: &Gpu) -> Result;

    /// Puts them back.
    fn resume(&self, gpu: &Gpu) -> Result;
}

static USER_QUEUES: SetOnce<&'static dyn UserQueues> = SetOnce::new();

/// Registers who has user queues; the first one stays.
pub(crate) fn set_user_queues(queues: &'static dyn UserQueues) {
    USER_QUEUES.populate(queues);
}

/// Jobs that belong together: when one fails, those behind it fail too.
pub(super) struct Group(Atomic<i32>);

impl Group {
    fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), GFP_KERNEL)?)
    }

    fn fail(&self, error: Error) {
        self.0.store(error.to_errno(), Relaxed);
    }

    fn error(&self) -> Option<Error> {
        match self.0.load(Relaxed) {
            0 => None,
            e => Some(Error::from_errno(e)),
        }
    }
}

/// What all rings of a GPU share.
#[pin_data]
pub(super) struct Shared {
    vmids: Arc<Vmids>,
    /// One engine is reset at a time.
    #[pin]
    resetting: Mutex<()>,
    resets: Atomic<u32>,
}

/// The kernel's rings on the DMA engines of a GPU.
#[pin_data]
pub(crate) struct Sdma {
    rings: KVec<Arc<Ring>>,
    schedulers: KVec<Arc<Scheduler<Job>>>,
    shared: Arc<Shared>,
    packets: &'static dyn DmaPacketHal,
    /// Entities of the driver's own jobs, while there are any.
    #[pin]
    clients: Mutex<Option<Clients>>,
}

/// One entity for each kind of work, so that work of one kind that has to wait for something
/// does not hold up the others.
struct Clients {
    fill: Entity<Job>,
    copy: Entity<Job>,
    ptes: Entity<Job>,
}

impl Sdma {
    /// Starts the rings of all engines.
    pub(crate) fn start(gpu: &Arc<Gpu>) -> Result<Pin<KBox<Self>>> {
        // First of all: nothing may fail once the rings run and nobody stops them.
        let memory = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let count = gpu.config().num_sdma;
        let end = gpu.generation().caps.first_user_vmid;
        let vmids = Vmids::new(end, count as usize)?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                vmids,
                resetting <- new_mutex!(()),
                resets: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        let mut rings = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        let started = (0..count).try_for_each(|engine| -> Result {
            rings.push(Ring::start(gpu, engine)?, GFP_KERNEL)?;
            Ok(())
        });
        let made = started.and_then(|()| Self::schedule(gpu.dev(), &rings, &shared));
        let (schedulers, clients) = match made {
            Ok(made) => made,
            Err(e) => {
                stop_rings(gpu, &rings);
                return Err(e);
            }
        };
        memory.write_pin_init(try_pin_init!(Self {
            rings,
            schedulers,
            shared,
            packets: gpu.generation().sdma.packets(),
            clients <- new_mutex!(Some(clients)),
        }))
    }

    fn schedule(
        dev: &device::Device,
        rings: &[Arc<Ring>],
        shared: &Arc<Shared>,
    ) -> Result<(KVec<Arc<Scheduler<Job>>>, Clients)> {
        let mut schedulers = KVec::with_capacity(rings.len(), GFP_KERNEL)?;
        for ring in rings {
            schedulers.push(job::scheduler(dev, ring, shared)?, GFP_KERNEL)?;
        }
        let clients = Clients {
            fill: Entity::new(Priority::Kernel, &schedulers, 0)?,
            copy: Entity::new(Priority::Kernel, &schedulers, 0)?,
            ptes: Entity::new(Priority::Kernel, &schedulers, 0)?,
        };
        Ok((schedulers, clients))
    }

    /// Stops all rings. Jobs that are not done end with `ENODEV`, and those that come later.
    pub(crate) fn stop(&self, gpu: &Gpu) {
        {
            let _guard = self.shared.resetting.lock();
            stop_rings(gpu, &self.rings);
        }
        // Waits for jobs of theirs that are on their way; they only have to fail by now.
        let clients = self.clients.lock().take();
        drop(clients);
    }

    /// The GPU hangs: all jobs end with an error, also those that come later, until
    /// [`Sdma::restart`].
    pub(crate) fn give_up(&self) {
        for ring in &self.rings {
            ring.give_up(EIO);
        }
    }

    /// Stops all rings, but keeps their memory. Jobs that are not done end with `EIO`, and those that
    /// come later, until [`Sdma::restart`].
    pub(crate) fn halt(&self, gpu: &Gpu) {
        let _guard = self.shared.resetting.lock();
        for ring in &self.rings {
            report(gpu, ring, ring.halt(EIO));
        }
    }

    /// Puts the rings, empty, on the engines again, after [`Sdma::halt`] or a reset of the GPU.
    pub(crate) fn restart(&self, gpu: &Gpu) -> Result {
        let _guard = self.shared.resetting.lock();
        // The registers of the address spaces may have been lost.
        self.shared.vmids.forget_all();
        for ring in &self.rings {
            ring.restart().inspect_err(|e| {
                let name = ring.name().to_str().unwrap_or("sdma");
                dev_err!(gpu.dev(), "{name} does not execute packets: {e:?}\n");
            })?;
        }
        Ok(())
    }

    /// Resets an engine that a user queue keeps. All of the engine's user queues are lost; a job of
    /// the kernel ends with `ETIME` if it is what keeps the engine, and is sent again otherwise.
    pub(crate) fn reset_engine(&self, gpu: &Gpu, engine: u32) -> Result {
        let ring = self.rings.get(engine as usize).ok_or(EINVAL)?;
        let _guard = self.shared.resetting.lock();
        self.shared.reset(gpu, ring, |_, selected| selected)
    }

    /// Waits until the engines have done all jobs that they were given. Nobody may give them new
    /// ones.
    pub(crate) fn drain(&self) -> Result {
        for ring in &self.rings {
            let start = Instant::<Monotonic>::now();
            while ring.oldest().is_some() {
                // A job that takes too long is ended before, by its scheduler.
                if start.elapsed() > DRAIN_TIMEOUT {
                    return Err(ETIME);
                }
                fsleep(Delta::from_millis(1));
            }
        }
        Ok(())
    }

    /// One scheduler per engine.
    pub(crate) fn schedulers(&self) -> &[Arc<Scheduler<Job>>] {
        &self.schedulers
    }

    /// How often an engine has been reset.
    pub(crate) fn resets(&self) -> u32 {
        self.shared.resets.load(Relaxed)
    }

    /// VMIDs of kernel rings, one bit each, that show the address space with this PASID: its
    /// translations have to be dropped there too when its page tables change.
    pub(crate) fn vmids_of(&self, pasid: u32) -> u32 {
        self.shared.vmids.of(pasid)
    }

    /// The address space with this PASID has gone.
    pub(crate) fn forget(&self, pasid: u32) {
        self.shared.vmids.forget(pasid);
    }

    /// The ring of an engine raised an interrupt. Called in the interrupt thread.
    pub(crate) fn trap(&self, engine: u32, context: u32) {
        if let Some(ring) = self.rings.get(engine as usize) {
            ring.trap(context);
        }
    }

    /// A memory access of a kernel ring failed. Called in the interrupt thread.
    ///
    /// When the hardware does not say which engine it was, every job that runs in this VMID
    /// may have been it.
    pub(crate) fn fault(&self, engine: Option<u32>, vmid: u32) {
        for ring in &self.rings {
            if engine.is_none_or(|e| e == ring.engine()) {
                ring.fault(vmid, EFAULT);
            }
        }
    }

    /// Registers of an engine, for debugfs.
    pub(crate) fn dump(&self, gpu: &Gpu, engine: u32) -> Result<HqdDump> {
        gpu.generation().sdma.dump(gpu.mmio()?, engine)
    }
}

fn stop_rings(gpu: &Gpu, rings: &[Arc<Ring>]) {
    for ring in rings {
        report(gpu, ring, ring.stop(ENODEV));
    }
}

fn report(gpu: &Gpu, ring: &Ring, stopped: Result) {
    if let Err(e) = stopped {
        let engine = ring.engine();
        dev_err!(gpu.dev(), "DMA engine {engine} did not stop: {e:?}\n");
    }
}

impl Shared {
    /// A job on `ring` takes too long: resets the engine. The oldest job ends with `ETIME`; those
    /// behind it are sent again.
    ///
    /// The user queues of the GPU are taken off first, since those on the engine would be lost.
    /// Whoever has them may find that the engine hangs, and reset it on its own.
    fn recover(&self, ring: &Ring) -> Result {
        let gpu = ring.gpu()?;
        gpu.check_usable()?;
        let Some(guilty) = ring.oldest() else {
            return Ok(());
        };
        let hook = USER_QUEUES.as_ref();
        if let Some(Err(e)) = hook.map(|hook| hook.suspend(&gpu)) {
            dev_err!(
                gpu.dev(),
                "user queues stay on an engine that is reset: {e:?}\n"
            );
        }
        let result = {
            let _guard = self.resetting.lock();
            if ring.oldest() == Some(guilty) {
                self.reset(&gpu, ring, |seq, _| seq == guilty)
            } else {
                Ok(())
            }
        };
        if let Some(Err(e)) = hook.map(|hook| hook.resume(&gpu)) {
            dev_err!(
                gpu.dev(),
                "user queues did not come back after a reset: {e:?}\n"
            );
        }
        result
    }

    /// Resets an engine. With `resetting` held.
    fn reset(&self, gpu: &Gpu, ring: &Ring, guilty: impl FnOnce(u32, bool) -> bool) -> Result {
        gpu.check_usable()?;
        trace::sdma_reset(
            gpu.id(),
            ring.engine(),
            u64::from(ring.oldest().unwrap_or(0)),
        );
        // Counted when the job's end is seen.
        self.resets.fetch_add(1, Relaxed);
        ring.reset(guilty, ETIME).inspect_err(|_| {
            gpu.declare_hung("a DMA engine was not reset");
        })
    }
}
