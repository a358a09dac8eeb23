// SPDX-License-Identifier: GPL-2.0

//! Contexts, in which user space submits jobs.
//!
//! A context has one entity for each ring that user space names, created on first use. It lives as
//! long as its handle and the ioctls that use it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use super::{
    ctx_entity::{CtxEntity, Spent},
    partition::FilePartition,
};
use crate::{gpu::Gpu, kapi::sched::Priority, ring::sdma::MAX_IBS, uapi};

/// Rings of each engine type, by `AMDGPU_HW_IP_*` (`amdgpu_ctx_num_entities`, `amdgpu_ctx.c`).
const RINGS: [u32; uapi::AMDGPU_HW_IP_NUM as usize] = {
    let mut rings = [1; uapi::AMDGPU_HW_IP_NUM as usize];
    rings[uapi::AMDGPU_HW_IP_COMPUTE as usize] = 4;
    rings[uapi::AMDGPU_HW_IP_DMA as usize] = DMA_RINGS as u32;
    rings
};

/// SDMA rings that user space may name.
pub(super) const DMA_RINGS: usize = 2;

/// Limit of IBs of one submission to an SDMA ring.
pub(super) const DMA_MAX_IBS: u32 = MAX_IBS as u32;

/// A ring as user space names it.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    /// `AMDGPU_HW_IP_*`.
    pub(super) kind: u32,
    /// 0: each engine type has one instance, with several rings.
    pub(super) instance: u32,
    /// Below the number of rings of the engine type.
    pub(super) index: u32,
}

/// A context.
#[pin_data]
pub(super) struct Ctx {
    partition: Arc<FilePartition>,
    /// Owner of the fences of its jobs, see [`crate::kapi::fence::Fence::owner`].
    owner: usize,
    /// Time of jobs that no entity keeps any more.
    spent: Arc<Spent>,
    priority: i32,
    /// Count of resets when the context was created.
    resets: u32,
    /// Count of losses of VRAM when the context was created.
    losses: u32,
    /// Count of resets at the last query.
    resets_seen: Atomic<u32>,
    #[pin]
    dma: Mutex<[Option<Arc<CtxEntity>>; DMA_RINGS]>,
}

/// Returns `priority` if it is a priority, else the normal one: user space that predates priorities
/// passes garbage (`amdgpu_ctx_ioctl`).
pub(super) fn valid_priority(priority: i32) -> i32 {
    const HIGH: i32 = uapi::AMDGPU_CTX_PRIORITY_HIGH as i32;
    const VERY_HIGH: i32 = uapi::AMDGPU_CTX_PRIORITY_VERY_HIGH as i32;
    match priority {
        uapi::AMDGPU_CTX_PRIORITY_VERY_LOW | uapi::AMDGPU_CTX_PRIORITY_LOW | HIGH | VERY_HIGH => {
            priority
        }
        _ => uapi::AMDGPU_CTX_PRIORITY_NORMAL as i32,
    }
}

/// Returns how often the contents of VRAM were lost; `u32::MAX` if the GPU is hung.
fn losses(gpu: &Gpu) -> u32 {
    if gpu.is_hung() {
        u32::MAX
    } else {
        gpu.health().resets()
    }
}

impl Ctx {
    /// Returns a new context.
    pub(super) fn new(
        partition: &Arc<FilePartition>,
        owner: usize,
        spent: &Arc<Spent>,
        priority: i32,
    ) -> Result<Arc<Self>> {
        let gpu = partition.gpu();
        let now = gpu.begun_resets();
        Arc::pin_init(
            pin_init!(Self {
                partition: partition.clone(),
                owner,
                spent: spent.clone(),
                priority,
                resets: now,
                losses: losses(gpu),
                resets_seen: Atomic::new(now),
                dma <- new_mutex!([const { None }; DMA_RINGS]),
            }),
            GFP_KERNEL,
        )
    }

    fn sched_priority(&self) -> Priority {
        match self.priority.signum() {
            -1 => Priority::Low,
            1 => Priority::High,
            _ => Priority::Normal,
        }
    }

    fn gpu(&self) -> &Gpu {
        self.partition.gpu()
    }

    /// Returns the entity of a ring. `EINVAL` if there is no such ring; `ENOENT` if it takes no
    /// jobs of user space on a card with partitions, else `EINVAL`; `ENODEV` if the GPU is removed
    /// or does not have the partition of the file in its current mode, else the error of the job
    /// that was scheduled last.
    pub(super) fn entity(&self, ring: Ring) -> Result<Arc<CtxEntity>> {
        let rings = RINGS.get(usize::try_from(ring.kind)?).ok_or(EINVAL)?;
        if ring.instance != 0 || ring.index >= *rings {
            return Err(EINVAL);
        }
        if ring.kind != uapi::AMDGPU_HW_IP_DMA {
            // Errors of the C driver without a scheduler: `amdgpu_ctx_init_entity`, or with
            // partitions `amdgpu_xcp_select_scheds`.
            self.partition.select()?;
            return Err(match self.gpu().generation().caps.partitions {
                true => ENOENT,
                false => EINVAL,
            });
        }
        let mut dma = self.dma.lock();
        let slot = dma.get_mut(usize::try_from(ring.index)?).ok_or(EINVAL)?;
        let entity = match slot {
            Some(entity) => entity.clone(),
            None => {
                if self.gpu().is_unplugged() {
                    return Err(ENODEV);
                }
                let priority = self.sched_priority();
                let new = CtxEntity::new(&self.partition, priority, self.owner, &self.spent)?;
                slot.insert(new).clone()
            }
        };
        drop(dma);
        entity.check()?;
        Ok(entity)
    }

    /// Calls `f` for each entity, without a lock.
    pub(super) fn for_each_entity(&self, mut f: impl FnMut(&CtxEntity)) {
        for at in 0..DMA_RINGS {
            let entity = self.dma.lock().get(at).cloned().flatten();
            if let Some(entity) = entity {
                f(&entity);
            }
        }
    }

    /// Returns the count of losses of VRAM when the context was created.
    pub(super) fn losses(&self) -> u32 {
        self.losses
    }

    /// Returns whether VRAM was lost since the context was created.
    pub(super) fn has_lost_vram(&self) -> bool {
        self.losses != losses(self.gpu())
    }

    /// Returns whether a job of the context timed out.
    fn is_guilty(&self) -> bool {
        let mut guilty = false;
        self.for_each_entity(|entity| guilty |= entity.check() == Err(ETIME));
        guilty
    }

    /// Returns the result of `QUERY_STATE`: whether there was a reset since the last query.
    pub(super) fn state(&self) -> uapi::drm_amdgpu_ctx {
        let now = self.gpu().begun_resets();
        let status = if self.resets_seen.xchg(now, Relaxed) == now {
            uapi::AMDGPU_CTX_NO_RESET
        } else {
            uapi::AMDGPU_CTX_UNKNOWN_RESET
        };
        uapi::ctx_state_out(0, status)
    }

    /// Returns the result of `QUERY_STATE2`: whether there was a reset, or VRAM was lost, since the
    /// context was created, whether the context caused it, and whether it is in progress.
    pub(super) fn state2(&self) -> uapi::drm_amdgpu_ctx {
        let mut flags = 0;
        if self.resets != self.gpu().begun_resets() {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_RESET;
        }
        if self.has_lost_vram() {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
        }
        let health = self.gpu().health();
        if self.gpu().is_hung() && !health.is_dead() {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS;
        }
        if self.is_guilty() {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_GUILTY;
        }
        uapi::ctx_state_out(flags.into(), 0)
    }
}
