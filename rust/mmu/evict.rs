// SPDX-License-Identifier: GPL-2.0

//! Eviction of BOs from VRAM to system memory, and their return.

use kernel::{
    prelude::*,
    sync::{atomic::Atomic, Arc},
};

use super::{
    inner::{BoInner, EvictedBo},
    placement::{BoKind, Placement, SystemPages},
};
use crate::{
    card::{account, vram::VramRange},
    gpu::{
        lru::{EvictableBo, Victims},
        Gpu,
    },
    kapi::{fence::Timeout, resv::Usage},
};

/// Allocates VRAM for a BO, with eviction of `victims`. Errors as [`EvictionLru::alloc_or_evict`];
/// `EIO` on a GPU that stays hung: its waves may still write to what was freed since.
///
/// [`EvictionLru::alloc_or_evict`]: crate::gpu::lru::EvictionLru::alloc_or_evict
pub(super) fn alloc(
    gpu: &Arc<Gpu>,
    size: u64,
    contiguous: bool,
    victims: Victims,
) -> Result<VramRange> {
    if gpu.health().is_dead() {
        return Err(EIO);
    }
    let leave = account::left_to_tables(gpu.vram().size());
    if size.saturating_add(leave) > gpu.vram().usable() {
        return Err(ENOMEM);
    }
    gpu.lru().alloc_or_evict(gpu.vram(), victims, || {
        gpu.vram().alloc_for_buffer(size, contiguous, leave)
    })
}

impl EvictableBo for BoInner {
    fn stamp(&self) -> &Atomic<u64> {
        &self.stamp
    }

    fn is_in_vram(&self) -> bool {
        self.in_vram()
    }

    fn has_user_queues(&self) -> bool {
        self.has_eviction_handler()
    }

    fn evict(self: Arc<Self>) -> Result {
        let bo = &self;
        let gpu = bo.gpu();
        gpu.check_usable()?;
        let _held = bo.resv().try_lock().ok_or(EBUSY)?;
        if !bo.in_vram() || bo.is_retired() {
            return Ok(());
        }
        let system = SystemPages::new(gpu.card(), bo.size())?;
        evict_queues(bo)?;
        wait_for_users(bo)?;
        bo.relocate(Placement::System(system))?;
        gpu.lru().touch(&**bo);
        gpu.lru().count_move(bo.size());
        gpu.lru().count_eviction();
        Ok(())
    }
}

impl EvictedBo {
    /// Moves the BO back to VRAM. `ENOMEM` when there is no room, `EIO` or `ENODEV` when the device
    /// cannot be used.
    pub(crate) fn restore(&self) -> Result {
        let _held = self.0.resv().lock();
        if self.0.is_retired() || self.0.in_vram() {
            return Ok(());
        }
        return_to_vram(&self.0)
    }
}

/// Unmaps the user queues of all processes that map the BO. The reservation, which is locked,
/// excludes new mappings.
fn evict_queues(bo: &Arc<BoInner>) -> Result {
    for handler in bo.eviction_handlers()? {
        handler.evict_queues(EvictedBo(bo.clone()))?;
    }
    Ok(())
}

/// Waits until no job uses the BO. The reservation, which is locked, excludes new ones.
fn wait_for_users(bo: &BoInner) -> Result {
    bo.resv().wait(Usage::Bookkeep, true, Timeout::FOREVER)?;
    Ok(())
}

/// Moves a BO back to VRAM. The caller holds the reservation.
fn return_to_vram(bo: &Arc<BoInner>) -> Result {
    let gpu = bo.gpu();
    gpu.check_usable()?;
    let range = alloc(gpu, bo.size(), bo.flags().contiguous, Victims::NoUserQueues)?;
    // Processes that mapped it while it was in system memory access it there.
    evict_queues(bo)?;
    wait_for_users(bo)?;
    bo.relocate(Placement::Vram(Arc::new(range, GFP_KERNEL)?))?;
    gpu.lru().touch(&**bo);
    gpu.lru().count_move(bo.size());
    Ok(())
}

/// Validates a BO for a job: moves it to VRAM if it prefers that and there is room, or there are
/// victims without user queues. The caller holds the reservation until the job's fence is in it.
///
/// `ERESTARTSYS` after a signal, `EIO` or `ENODEV` when the device cannot be used.
pub(super) fn validate_inner(bo: &Arc<BoInner>) -> Result {
    bo.gpu().lru().touch(&**bo);
    if bo.preferred() != BoKind::Vram || bo.in_vram() {
        return Ok(());
    }
    match return_to_vram(bo) {
        // Usable in system memory.
        Err(e) if e != ERESTARTSYS && e != ENODEV && e != EIO => Ok(()),
        other => other,
    }
}
