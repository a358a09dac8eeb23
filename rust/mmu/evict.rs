// SPDX-License-Identifier: GPL-2.0

//! Eviction of BOs from VRAM to system memory, and their restore.

use core::ops::Range;

use kernel::{
    prelude::*,
    sync::{atomic::Atomic, Arc},
};

use super::{
    inner::{BoInner, EvictedBo, QueueOwner},
    placement::{BoFlags, BoKind, Placement, SystemPages},
};
use crate::{
    card::{
        account,
        vram::{VramRange, VramUser},
    },
    gpu::{
        lru::{EvictableBo, QueueUse, Victims},
        Gpu,
    },
    kapi::{fence::Timeout, resv::Usage},
};

/// Allocates VRAM for a BO in its memory partition, with eviction of `victims` there. Errors as
/// [`EvictionLru::alloc_or_evict`]; `EIO` on a dead GPU, whose waves may still write to freed VRAM.
///
/// [`EvictionLru::alloc_or_evict`]: crate::gpu::lru::EvictionLru::alloc_or_evict
pub(super) fn alloc(
    gpu: &Arc<Gpu>,
    user: VramUser,
    size: u64,
    flags: BoFlags,
    victims: Victims,
) -> Result<VramRange> {
    if gpu.health().is_dead() {
        return Err(EIO);
    }
    // The reservation of a BO of a process leaves the rest to page tables. Here it may be less:
    // MQDs are allocated after the reservation.
    let reserved = match user {
        VramUser::Process => 0,
        _ => account::reserved_for_tables(gpu.vram().size()),
    };
    let range = gpu.vram().usable_range(flags.memory);
    if size.saturating_add(reserved) > range.end - range.start {
        return Err(ENOMEM);
    }
    gpu.lru().alloc_or_evict(gpu.vram(), victims, &range, || {
        gpu.vram()
            .alloc_evictable(user, size, flags.contiguous, reserved, flags.memory)
    })
}

impl EvictableBo for BoInner {
    fn stamp(&self) -> &Atomic<u64> {
        &self.stamp
    }

    fn is_in_vram(&self) -> bool {
        self.in_vram()
    }

    fn is_within(&self, range: &Range<u64>) -> bool {
        self.overlaps(range)
    }

    fn queue_use(&self) -> QueueUse {
        BoInner::queue_use(self)
    }

    fn evict(self: Arc<Self>, wait: bool) -> Result {
        let bo = &self;
        let gpu = bo.gpu();
        gpu.check_usable()?;
        let _guard = bo.resv().try_lock().ok_or(EBUSY)?;
        if !bo.in_vram() || bo.is_retired() {
            return Ok(());
        }
        if !wait && !is_idle(bo)? {
            return Err(EBUSY);
        }
        let system = SystemPages::for_eviction(gpu.card(), bo.size())?;
        evict_queues(bo)?;
        wait_idle(bo)?;
        bo.relocate(Placement::System(system))?;
        gpu.lru().touch(&**bo);
        gpu.lru().count_move(bo.size());
        gpu.lru().count_eviction();
        Ok(())
    }
}

impl EvictedBo {
    /// Moves the BO back to VRAM for queues of `owner`. For those of a process, BOs of files may
    /// leave VRAM; for those of a file, and BOs of files, it stays in system memory if VRAM is
    /// full.
    ///
    /// `ENOMEM` without free VRAM, `EIO` when the GPU is hung, `ENODEV` when it is unplugged.
    pub(crate) fn restore(&self, owner: QueueOwner) -> Result {
        let _guard = self.0.resv().lock();
        if self.0.is_retired() || self.0.in_vram() {
            return Ok(());
        }
        // BOs of files do not keep the queues of a process from running.
        let owner = match self.0.vram_user() {
            VramUser::Render => QueueOwner::File,
            _ => owner,
        };
        match owner {
            QueueOwner::Process if !move_to_vram(&self.0, Victims::NoProcessQueues)? => Err(ENOMEM),
            QueueOwner::Process => Ok(()),
            QueueOwner::File => move_to_vram(&self.0, Victims::NoUserQueues).map(|_| ()),
        }
    }
}

/// Evicts the user queues of all processes that map the BO. The reservation, which is locked,
/// excludes new mappings.
fn evict_queues(bo: &Arc<BoInner>) -> Result {
    for handler in bo.eviction_handlers()? {
        handler.evict_queues(EvictedBo(bo.clone()))?;
    }
    Ok(())
}

/// Returns whether all fences of the BO have signaled. If its reservation is locked, it stays so.
fn is_idle(bo: &BoInner) -> Result<bool> {
    bo.resv().wait(Usage::Bookkeep, false, Timeout::NONE)
}

/// Waits for all fences of the BO. The reservation, which is locked, excludes new ones.
fn wait_idle(bo: &BoInner) -> Result {
    bo.resv().wait(Usage::Bookkeep, true, Timeout::FOREVER)?;
    Ok(())
}

/// Moves a BO back to VRAM, from which `victims` may be evicted; returns false if that is full. The
/// caller holds the reservation.
fn move_to_vram(bo: &Arc<BoInner>, victims: Victims) -> Result<bool> {
    let gpu = bo.gpu();
    gpu.check_usable()?;
    let range = match alloc(gpu, bo.vram_user(), bo.size(), bo.flags(), victims) {
        Err(e) if e == ENOMEM => return Ok(false),
        other => other?,
    };
    // Processes may have mapped the BO since its eviction: their queues run.
    evict_queues(bo)?;
    wait_idle(bo)?;
    bo.relocate(Placement::Vram(Arc::new(range, GFP_KERNEL)?))?;
    gpu.lru().touch(&**bo);
    gpu.lru().count_move(bo.size());
    Ok(true)
}

/// Validates a BO for user queues: moves it to its preferred placement VRAM if that is free, or can
/// be freed by eviction of BOs without user queues. The caller holds the reservation.
///
/// `ERESTARTSYS` after a signal, `EIO` when the GPU is hung, `ENODEV` when it is unplugged.
pub(super) fn validate_inner(bo: &Arc<BoInner>) -> Result {
    validate_with(bo, Victims::NoUserQueues)
}

/// As [`validate_inner`], for a job, whose fence is in the reservation when that is unlocked. Does
/// not wait for jobs of others: a BO that is in use, or that spaces with user queues map, stays
/// where it is, and none in use is evicted.
pub(super) fn validate_for_job(bo: &Arc<BoInner>) -> Result {
    validate_with(bo, Victims::Idle)
}

fn validate_with(bo: &Arc<BoInner>, victims: Victims) -> Result {
    bo.gpu().lru().touch(&**bo);
    if bo.preferred() != BoKind::Vram || bo.in_vram() {
        return Ok(());
    }
    if victims == Victims::Idle && (bo.queue_use() != QueueUse::Unused || !is_idle(bo)?) {
        return Ok(());
    }
    match move_to_vram(bo, victims) {
        // Usable in system memory.
        Err(e) if e != ERESTARTSYS && e != ENODEV && e != EIO => Ok(()),
        other => other.map(|_| ()),
    }
}
