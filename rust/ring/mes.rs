// SPDX-License-Identifier: GPL-2.0

//! The rings of the micro engine scheduler (MES): one per pipe.
//!
//! The ring of the KIQ pipe is loaded through registers and maps the ring of the scheduler pipe.
//! Each frame is followed by a QUERY_SCHEDULER_STATUS whose fence signals that the frame was
//! processed; the result is in a status word of the frame's own. A ring has one frame in flight at
//! a time.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Mutex,
    },
    types::ScopeGuard,
};

use crate::{
    card::Card,
    hw::{FlushType, MesPipe, MesVersion, MES_PRIORITIES},
};

pub(crate) mod debugfs;
pub(crate) mod frame;
mod pipe;

pub(crate) use pipe::{Failure, HungQueue};

use frame::{
    ChangeConfig, FindHung, Frame, InvalidateTlbs, MapRing, QueryStatus, SetResources,
    SetResources1, UnmapRing,
};
use pipe::Ring;

/// Oldest firmware that accepts [`SetResources1`] on the scheduler pipe.
const HAS_RESOURCES_1: u32 = 0x4b;
/// Oldest firmware that accepts REMOVE_QUEUE after a queue reset.
const HAS_REMOVE_AFTER_RESET: u32 = 0x5a;
/// Oldest firmware that invalidates TLBs by PASID.
const HAS_INV_TLBS: u32 = 0x84;
/// Oldest firmware that reports hung queues (`amdgpu_mes_queue_reset_by_mes_supported`).
const HAS_HUNG_QUEUES: u32 = 0x8d;
/// Oldest firmware that limits the number of processes at run time (`gfx_v12_0_sw_init`).
const HAS_CHANGE_CONFIG: u32 = 0x64;
/// Oldest firmware with an oversubscription timer.
const HAS_OVERSUBSCRIPTION_TIMER: u32 = 0x8b;
/// Value of the oversubscription timer (`mes_v12_0_set_hw_resources()`).
const OVERSUBSCRIPTION_TIMER: u32 = 50;

/// Calls `submit` once more if its frame fails while MES responds.
fn again(submit: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    match submit() {
        Err(Failure::Status(_) | Failure::NoStatus) => submit(),
        done => done,
    }
}

/// The MES rings of a GPU.
#[pin_data]
pub(crate) struct Mes {
    version: MesVersion,
    /// Number of starts of the firmware.
    starts: Atomic<u32>,
    /// Ring of the scheduler pipe: adds and removes user queues.
    #[pin]
    scheduler: Mutex<Ring>,
    /// Ring of the KIQ pipe: maps the scheduler ring and invalidates TLBs.
    #[pin]
    kiq: Mutex<Ring>,
}

impl Mes {
    /// Starts both pipes and checks that they process frames. `ETIMEDOUT` when one does not
    /// respond, `ENOMEM` without memory.
    pub(crate) fn start(card: &Card) -> Result<Pin<KBox<Self>>> {
        // Allocated first: nothing may fail for lack of memory once the rings run.
        let memory = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let mut kiq = Ring::new(card, MesPipe::Kiq)?;
        let mut scheduler = Ring::new(card, MesPipe::Scheduler)?;
        let version = Self::run(card, &mut kiq, &mut scheduler)?;
        memory.write_pin_init(try_pin_init!(Self {
            version,
            starts: Atomic::new(1),
            scheduler <- new_mutex!(scheduler),
            kiq <- new_mutex!(kiq),
        }))
    }

    /// Restarts both pipes after [`Mes::stop`] or a GPU reset. `ETIMEDOUT` when one does not
    /// respond.
    pub(crate) fn restart(&self, card: &Card) -> Result {
        let mut scheduler = self.scheduler.lock();
        let mut kiq = self.kiq.lock();
        scheduler.reset()?;
        kiq.reset()?;
        self.starts.fetch_add(1, Relaxed);
        Self::run(card, &mut kiq, &mut scheduler).map(|_| ())
    }

    fn run(card: &Card, kiq: &mut Ring, scheduler: &mut Ring) -> Result<MesVersion> {
        let hal = card.generation().need_mes()?;
        let mmio = card.mmio()?;
        // The caller may free the rings after an error: halt the pipes before.
        let halt = ScopeGuard::new(|| {
            if hal.halt(mmio).is_err() {
                card.wedge("MES was not halted");
            }
        });
        hal.start(mmio, card.config().entries.mes)?;
        hal.load_ring(mmio, MesPipe::Kiq, kiq.write_mqd(card)?)?;
        Self::set_up(card, kiq, scheduler).inspect_err(|e| {
            dev_err!(card.dev(), "MES does not process frames: {e:?}\n");
        })?;
        let version = hal.version(mmio, MesPipe::Scheduler)?;
        dev_dbg!(card.dev(), "MES {:#x} started\n", version.scheduler);
        halt.dismiss();
        Ok(version)
    }

    fn set_up(card: &Card, kiq: &mut Ring, scheduler: &mut Ring) -> Result {
        let hal = card.generation().need_mes()?;
        let mmio = card.mmio()?;
        let resources = hal.resources(mmio)?;
        let doorbells: [u32; MES_PRIORITIES] = card.doorbells().aggregated();
        let set_hw_resources = |ring: &mut Ring, pipe, min_resources_1| -> Result {
            let version = hal.version(mmio, pipe)?.scheduler;
            let timer = if version < HAS_OVERSUBSCRIPTION_TIMER {
                0
            } else {
                OVERSUBSCRIPTION_TIMER
            };
            let is_scheduler = pipe == MesPipe::Scheduler;
            let frame = SetResources {
                schedulable: is_scheduler.then_some((&resources, doorbells)),
                bases: &resources,
                context: ring.context_addr(),
                status_fence: ring.status_fence_addr(),
                oversubscription_timer: timer,
            };
            ring.submit(card, &frame)?;
            if version >= min_resources_1 {
                let cleaner_fence = ring.cleaner_fence_addr();
                // MES works without it (C ignores all failures).
                match ring.submit(card, &SetResources1 { cleaner_fence }) {
                    Ok(()) | Err(Failure::Status(_) | Failure::NoStatus) => {}
                    Err(failure) => return Err(failure.into()),
                }
            }
            Ok(())
        };
        set_hw_resources(kiq, MesPipe::Kiq, 0)?;
        hal.enable_unmapped_doorbells(mmio)?;
        scheduler.write_mqd(card)?;
        kiq.submit(
            card,
            &MapRing {
                pipe: MesPipe::Scheduler as u32,
                doorbell: scheduler.doorbell(),
                mqd: scheduler.mqd_addr(),
                wptr: scheduler.wptr_addr(),
            },
        )?;
        set_hw_resources(scheduler, MesPipe::Scheduler, HAS_RESOURCES_1)?;
        hal.set_aggregated_doorbells(mmio, &doorbells)?;
        scheduler.submit(card, &QueryStatus)?;
        Ok(())
    }

    /// Unmaps the rings and halts the pipes. `ETIMEDOUT` when MES does not respond.
    pub(crate) fn stop(&self, card: &Card) -> Result {
        let hal = card.generation().need_mes()?;
        let mut scheduler = self.scheduler.lock();
        scheduler.stop();
        let mut kiq = self.kiq.lock();
        let unmap = UnmapRing {
            pipe: MesPipe::Scheduler as u32,
            doorbell: scheduler.doorbell(),
        };
        let unmapped = if card.is_hung() {
            Ok(())
        } else {
            kiq.submit(card, &unmap).map_err(Error::from)
        };
        kiq.stop();
        let halted = hal.halt(card.hub().raw_mmio());
        unmapped.and(halted)
    }

    fn ring(&self, pipe: MesPipe) -> &Mutex<Ring> {
        match pipe {
            MesPipe::Scheduler => &self.scheduler,
            MesPipe::Kiq => &self.kiq,
        }
    }

    /// Submits a frame to the scheduler pipe and polls for its completion. Wedges the card when MES
    /// does not respond. Errors as [`Failure`].
    pub(crate) fn submit<F: Frame>(&self, card: &Card, frame: &F) -> Result<(), Failure> {
        self.scheduler.lock().submit(card, frame)
    }

    /// Returns whether the firmware supports [`Mes::limit_processes`].
    pub(crate) fn can_limit_processes(&self) -> bool {
        self.version.scheduler >= HAS_CHANGE_CONFIG
    }

    /// Sets whether queues of one process only are mapped at a time. Errors as [`Failure`].
    pub(crate) fn limit_processes(&self, card: &Card, single: bool) -> Result {
        let frame = ChangeConfig {
            single_process: single,
        };
        Ok(again(|| self.kiq.lock().submit(card, &frame))?)
    }

    /// Returns the number of starts of the firmware; each clears the process contexts of MES.
    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(Relaxed)
    }

    /// Returns the version of the firmware, the same on both pipes.
    pub(crate) fn version(&self) -> MesVersion {
        self.version
    }

    /// As [`Mes::submit`] for an idempotent frame: submits it once more if it fails.
    pub(crate) fn submit_again<F: Frame>(&self, card: &Card, frame: &F) -> Result<(), Failure> {
        again(|| self.submit(card, frame))
    }

    /// Returns whether the firmware accepts REMOVE_QUEUE for a queue that was reset.
    pub(crate) fn has_remove_after_reset(&self) -> bool {
        self.version.scheduler >= HAS_REMOVE_AFTER_RESET
    }

    /// Returns whether the firmware reports the queues that SUSPEND did not preempt.
    pub(crate) fn has_hung_queues(&self) -> bool {
        self.version.scheduler >= HAS_HUNG_QUEUES
    }

    /// Lists the compute queues that were not preempted, for [`Mes::hung_queue`]. Returns the
    /// entries of the list, one per slot that MES assigns. Errors as [`Failure`].
    pub(crate) fn find_hung_queues(&self, card: &Card) -> Result<usize, Failure> {
        let resources = card.generation().need_mes()?.resources(card.mmio()?)?;
        let hqds = resources.hqds();
        again(|| {
            let mut ring = self.scheduler.lock();
            let list = ring.clear_hung(hqds)?;
            ring.submit(card, &FindHung { list })
        })?;
        Ok(hqds)
    }

    /// Returns entry `n` of that list of `hqds` entries; `None` if it is not used.
    pub(crate) fn hung_queue(&self, hqds: usize, n: usize) -> Result<Option<HungQueue>> {
        self.scheduler.lock().hung(hqds, n)
    }

    /// Invalidates the TLB entries of a PASID; complete on return. Does nothing after
    /// [`Mes::stop`]: nothing uses the TLBs. `None` when the firmware does
    /// not support that or reports a failure. `ETIMEDOUT` when MES does not respond.
    pub(crate) fn invalidate_tlbs(
        &self,
        card: &Card,
        pasid: u32,
        kind: FlushType,
    ) -> Option<Result> {
        if self.version.scheduler < HAS_INV_TLBS {
            return None;
        }
        let frame = InvalidateTlbs { pasid, kind };
        let mut kiq = self.kiq.lock();
        if kiq.is_stopped() {
            return Some(Ok(()));
        }
        match kiq.submit(card, &frame) {
            Ok(()) => Some(Ok(())),
            Err(Failure::NotCompleted(e)) => Some(Err(e)),
            Err(_) => None,
        }
    }
}
