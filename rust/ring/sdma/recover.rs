// SPDX-License-Identifier: GPL-2.0

//! Reset of a hung SDMA engine.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc,
        Mutex, //
    },
};

use super::{ring::Ring, vmid::Vmids};
use crate::{
    card::Card,
    kapi::fence::{
        hw::{HwFence, Timeline, UnusedFence},
        Fence,
    },
    trace,
};

/// State shared by all rings of a card.
#[pin_data]
pub(super) struct Shared {
    /// One table per hub.
    vmids: KVec<Arc<Vmids>>,
    /// Hub of each engine.
    hubs: KVec<usize>,
    /// Serializes engine resets.
    #[pin]
    pub(super) resetting: Mutex<()>,
    job_resets: Atomic<u32>,
    /// During a suspend: signaled at its end, which jobs of user space wait for. A leaf.
    #[pin]
    paused: Mutex<Option<HwFence>>,
    pauses: Timeline,
}

impl Shared {
    /// Returns the state for the rings of all engines. `ENOMEM` without memory.
    pub(super) fn new(card: &Card) -> Result<Arc<Self>> {
        let count = card.config().num_sdma;
        let end = card.generation().caps.first_user_vmid;
        let hal = card.generation().sdma;
        let mmio = card.mmio()?;
        let (mut vmids, mut hubs) = (KVec::new(), KVec::new());
        for engine in 0..count {
            let hub = usize::try_from(hal.hub_number(mmio, engine)?)?;
            while vmids.len() <= hub {
                vmids.push(Vmids::new(end, count as usize)?, GFP_KERNEL)?;
            }
            hubs.push(hub, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                vmids,
                hubs,
                resetting <- new_mutex!(()),
                job_resets: Atomic::new(0),
                paused <- new_mutex!(None, "rkfd_sdma_paused"),
                pauses: Timeline::new(c"sdma_paused"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes jobs of user space that are prepared from now on wait for [`Self::unpause`]. `ENOMEM`
    /// without memory.
    pub(super) fn pause(&self) -> Result {
        let memory = UnusedFence::new()?;
        *self.paused.lock() = Some(self.pauses.emit(memory));
        Ok(())
    }

    /// Reverts [`Self::pause`].
    pub(super) fn unpause(&self) {
        let fence = self.paused.lock().take();
        if let Some(fence) = fence {
            fence.signal();
        }
    }

    /// Returns the fence that jobs of user space have to wait for.
    pub(super) fn paused(&self) -> Option<ARef<Fence>> {
        let paused = self.paused.lock();
        paused.as_ref().map(|fence| fence.fence().clone())
    }

    /// Returns the VMIDs of the hub of an engine. `EINVAL` without such an engine.
    pub(super) fn vmids_of(&self, engine: u32) -> Result<&Vmids> {
        let hub = self.hubs.get(engine as usize).ok_or(EINVAL)?;
        self.vmids.get(*hub).map(|vmids| &**vmids).ok_or(EINVAL)
    }

    /// Returns the VMIDs of each hub.
    pub(super) fn all_vmids(&self) -> impl Iterator<Item = &Vmids> {
        self.vmids.iter().map(|vmids| &**vmids)
    }

    /// Returns the number of engine resets after job timeouts.
    pub(super) fn job_resets(&self) -> u32 {
        self.job_resets.load(Relaxed)
    }

    /// Resets the engine of `ring` after a job timeout. The oldest job fails with `ETIME`; later
    /// ones are resubmitted. Returns whether the engine was reset. `EIO` when the card is hung.
    ///
    /// User queues are unmapped first, because those on the engine would be lost. That resets the
    /// engine if it does not release one of them: then the job was not executed, and is resubmitted
    /// with the others.
    pub(super) fn recover(&self, ring: &Ring) -> Result<bool> {
        let (card, host) = ring.parents()?;
        card.check_usable()?;
        let Some(guilty) = ring.oldest() else {
            return Ok(false);
        };
        let before = ring.resets();
        let mut result = Ok(());
        host.without_user_queues(&mut || {
            let _guard = self.resetting.lock();
            if ring.oldest() == Some(guilty) && ring.resets() == before {
                // Incremented before the end of the job is visible.
                self.job_resets.fetch_add(1, Relaxed);
                result = self.reset(&card, ring, |seq, _| seq == guilty);
            }
        });
        // The card hangs if the engine could not be reset.
        result.and(card.check_usable())?;
        Ok(ring.resets() != before)
    }

    /// Resets an engine, see [`Ring::reset`]. Wedges the card when that fails. The caller holds
    /// `resetting`.
    pub(super) fn reset(
        &self,
        card: &Card,
        ring: &Ring,
        guilty: impl FnOnce(u32, bool) -> bool,
    ) -> Result {
        card.check_usable()?;
        trace::sdma_reset(
            card.id(),
            ring.engine(),
            u64::from(ring.oldest().unwrap_or(0)),
        );
        ring.reset(guilty, ETIME).inspect_err(|_| {
            card.wedge("an SDMA engine was not reset");
        })
    }
}
