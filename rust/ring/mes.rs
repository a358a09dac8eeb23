// SPDX-License-Identifier: GPL-2.0

//! The rings to MES, the scheduler with a processor of its own: one for each of its pipes.
//!
//! The ring of the KIQ pipe is loaded by registers and maps the other one. A frame goes on a ring
//! together with a question about the scheduler's status, whose answer says that the frame was
//! dealt with; how it went is in a status word of the frame's own. One frame is under way at a time.

use kernel::{new_mutex, prelude::*, sync::Mutex, types::ScopeGuard};

use crate::{
    card::Card,
    hw::{FlushType, MesPipe, MesVersion, MES_PRIORITIES},
};

pub(crate) mod debugfs;
pub(crate) mod frame;
mod pipe;

pub(crate) use pipe::Failure;

use frame::{Frame, InvalidateTlbs, MapRing, QueryStatus, SetResources, SetResources1, UnmapRing};
use pipe::Ring;

/// Firmware from this version on takes [`SetResources1`] on the scheduling pipe.
const HAS_RESOURCES_1: u32 = 0x4b;
/// Firmware from this version on can forget a queue that was reset.
const HAS_REMOVE_AFTER_RESET: u32 = 0x5a;
/// Firmware from this version on invalidates TLBs by PASID.
const HAS_INV_TLBS: u32 = 0x84;
/// Firmware from this version on wants the timer for queues that wait for a slot.
const HAS_OVERSUBSCRIPTION_TIMER: u32 = 0x8b;
/// Its value.
const OVERSUBSCRIPTION_TIMER: u32 = 50;

/// The rings of a GPU, running.
#[pin_data]
pub(crate) struct Mes {
    version: MesVersion,
    /// Where user queues are added and removed.
    #[pin]
    scheduler: Mutex<Ring>,
    /// Where the scheduler's ring is mapped, and where TLBs are invalidated.
    #[pin]
    kiq: Mutex<Ring>,
}

impl Mes {
    /// Starts both pipes and tests that they execute frames.
    pub(crate) fn start(card: &Card) -> Result<Pin<KBox<Self>>> {
        // First of all: nothing may fail for want of memory once the rings run.
        let memory = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let mut kiq = Ring::new(card, MesPipe::Kiq)?;
        let mut scheduler = Ring::new(card, MesPipe::Scheduler)?;
        let version = Self::run(card, &mut kiq, &mut scheduler)?;
        memory.write_pin_init(try_pin_init!(Self {
            version,
            scheduler <- new_mutex!(scheduler),
            kiq <- new_mutex!(kiq),
        }))
    }

    /// Starts both pipes again after [`Mes::stop`] or a reset of the GPU.
    pub(crate) fn restart(&self, card: &Card) -> Result {
        let mut scheduler = self.scheduler.lock();
        let mut kiq = self.kiq.lock();
        scheduler.reset()?;
        kiq.reset()?;
        Self::run(card, &mut kiq, &mut scheduler).map(|_| ())
    }

    fn run(card: &Card, kiq: &mut Ring, scheduler: &mut Ring) -> Result<MesVersion> {
        let hal = card.generation().need_mes()?;
        let mmio = card.mmio()?;
        // The memory of the rings may go after an error: the pipes have to stop before.
        let halt = ScopeGuard::new(|| {
            if hal.halt(mmio).is_err() {
                card.wedge("MES was not halted");
            }
        });
        hal.start(mmio)?;
        hal.load_ring(mmio, MesPipe::Kiq, &kiq.image(card)?)?;
        Self::set_up(card, kiq, scheduler).inspect_err(|e| {
            dev_err!(card.dev(), "MES does not execute frames: {e:?}\n");
        })?;
        let version = hal.version(mmio, MesPipe::Scheduler)?;
        dev_dbg!(card.dev(), "MES {:#x} runs\n", version.scheduler);
        halt.dismiss();
        Ok(version)
    }

    fn set_up(card: &Card, kiq: &mut Ring, scheduler: &mut Ring) -> Result {
        let hal = card.generation().need_mes()?;
        let mmio = card.mmio()?;
        let resources = hal.resources(mmio)?;
        let doorbells: [u32; MES_PRIORITIES] = card.doorbells().aggregated();
        let tell = |ring: &mut Ring, pipe, later| -> Result {
            let version = hal.version(mmio, pipe)?.scheduler;
            let timer = if version < HAS_OVERSUBSCRIPTION_TIMER {
                0
            } else {
                OVERSUBSCRIPTION_TIMER
            };
            let schedules = pipe == MesPipe::Scheduler;
            let frame = SetResources {
                hands_out: schedules.then_some((&resources, doorbells)),
                bases: &resources,
                context: ring.context_addr(),
                status_fence: ring.status_fence_addr(),
                oversubscription_timer: timer,
            };
            ring.submit(card, &frame)?;
            if version >= later {
                let cleaner_fence = ring.cleaner_fence_addr();
                ring.submit(card, &SetResources1 { cleaner_fence })?;
            }
            Ok(())
        };
        tell(kiq, MesPipe::Kiq, 0)?;
        hal.hear_unmapped_doorbells(mmio)?;
        scheduler.image(card)?;
        kiq.submit(
            card,
            &MapRing {
                pipe: MesPipe::Scheduler as u32,
                doorbell: scheduler.doorbell(),
                mqd: scheduler.mqd_addr(),
                wptr: scheduler.wptr_addr(),
            },
        )?;
        tell(scheduler, MesPipe::Scheduler, HAS_RESOURCES_1)?;
        hal.set_aggregated_doorbells(mmio, &doorbells)?;
        scheduler.submit(card, &QueryStatus)?;
        Ok(())
    }

    /// Takes the rings off the pipes and halts them.
    pub(crate) fn stop(&self, card: &Card) -> Result {
        let hal = card.generation().need_mes()?;
        let doorbell = self.scheduler.lock().doorbell();
        let mut kiq = self.kiq.lock();
        let unmap = UnmapRing {
            pipe: MesPipe::Scheduler as u32,
            doorbell,
        };
        let unmapped = if card.is_hung() {
            Ok(())
        } else {
            kiq.submit(card, &unmap).map_err(Error::from)
        };
        let unloaded = hal.unload_ring(card.hub().raw_mmio(), MesPipe::Kiq);
        let halted = hal.halt(card.hub().raw_mmio());
        unmapped.and(unloaded).and(halted)
    }

    fn ring(&self, pipe: MesPipe) -> &Mutex<Ring> {
        match pipe {
            MesPipe::Scheduler => &self.scheduler,
            MesPipe::Kiq => &self.kiq,
        }
    }

    /// Sends a frame to the scheduler and waits until it was dealt with. A scheduler that does not
    /// answer at all is the end of the GPU.
    pub(crate) fn schedule<F: Frame>(&self, card: &Card, frame: &F) -> Result<(), Failure> {
        self.scheduler.lock().submit(card, frame)
    }

    /// A queue that was reset can be removed.
    pub(crate) fn removes_after_reset(&self) -> bool {
        self.version.scheduler >= HAS_REMOVE_AFTER_RESET
    }

    /// Drops a process's translations; complete on return. `None` if the firmware does not do that.
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
        Some(self.kiq.lock().submit(card, &frame).map_err(Error::from))
    }
}
