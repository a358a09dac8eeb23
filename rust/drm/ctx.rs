// SPDX-License-Identifier: GPL-2.0

//! `CTX`: contexts, in which user space submits.
//!
//! A context has entitys, one for each ring that user space names; they are made when they are first used. It
//! lives as long as its handle and the ioctls that use it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use super::ctx_entity::CtxEntity;
use crate::{
    gpu::Gpu,
    kapi::{
        sched::Priority,
        task::{self, Capability},
    },
    uapi,
};

/// Rings of each kind of engine, by number of the kind.
const RINGS: [u32; uapi::AMDGPU_HW_IP_NUM as usize] = {
    let mut rings = [1; uapi::AMDGPU_HW_IP_NUM as usize];
    rings[uapi::AMDGPU_HW_IP_COMPUTE as usize] = 4;
    rings[uapi::AMDGPU_HW_IP_DMA as usize] = DMA_RINGS as u32;
    rings
};

/// Rings that user space may name of the DMA engines.
pub(super) const DMA_RINGS: usize = 2;

/// Limit of IBs of one submission to a DMA ring.
pub(super) const DMA_MAX_IBS: u32 = 49;

/// A ring as user space names it.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) kind: u32,
    pub(super) instance: u32,
    pub(super) index: u32,
}

/// A context.
#[pin_data]
pub(super) struct Ctx {
    gpu: Arc<Gpu>,
    /// Owner of the fences of its jobs, see [`crate::kapi::fence::Fence::owner`].
    owner: usize,
    priority: i32,
    /// Resets of the GPU or an engine when the context was made.
    resets: u32,
    /// Losses of VRAM then.
    losses: u32,
    /// The same when user space last asked.
    resets_seen: Atomic<u32>,
    #[pin]
    dma: Mutex<[Option<Arc<CtxEntity>>; DMA_RINGS]>,
}

/// The priority that user space means. What is none counts as normal, as ever.
pub(super) fn valid_priority(asked: i32) -> i32 {
    const HIGH: i32 = uapi::AMDGPU_CTX_PRIORITY_HIGH as i32;
    const VERY_HIGH: i32 = uapi::AMDGPU_CTX_PRIORITY_VERY_HIGH as i32;
    match asked {
        uapi::AMDGPU_CTX_PRIORITY_VERY_LOW | uapi::AMDGPU_CTX_PRIORITY_LOW | HIGH | VERY_HIGH => {
            asked
        }
        _ => uapi::AMDGPU_CTX_PRIORITY_NORMAL as i32,
    }
}

/// How often an engine, or the whole GPU, was reset. One that hangs counts as well.
fn resets(gpu: &Gpu) -> u32 {
    gpu.sdma()
        .map_or(u32::MAX, |sdma| sdma.resets().wrapping_add(gpu.resets()))
}

/// How often what was in VRAM got lost.
pub(super) fn losses(gpu: &Gpu) -> u32 {
    if gpu.is_hung() {
        u32::MAX
    } else {
        gpu.resets()
    }
}

impl Ctx {
    pub(super) fn new(gpu: &Arc<Gpu>, owner: usize, priority: i32) -> Result<Arc<Self>> {
        if priority > uapi::AMDGPU_CTX_PRIORITY_NORMAL as i32 && !task::capable(Capability::SysNice)
        {
            return Err(EACCES);
        }
        let now = resets(gpu);
        Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                owner,
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

    /// The entity of a ring. Fails with the error of the job that it scheduled last, if that failed.
    pub(super) fn entity(&self, ring: Ring) -> Result<Arc<CtxEntity>> {
        let rings = RINGS.get(ring.kind as usize).ok_or(EINVAL)?;
        // There is one instance of each kind, with several rings.
        if ring.instance != 0 || ring.index >= *rings {
            return Err(EINVAL);
        }
        if ring.kind != uapi::AMDGPU_HW_IP_DMA {
            // No scheduler in the partition, says the C driver.
            return Err(ENOENT);
        }
        let mut dma = self.dma.lock();
        let slot = dma.get_mut(ring.index as usize).ok_or(EINVAL)?;
        let entity = match slot {
            Some(entity) => entity.clone(),
            None => {
                if self.gpu.is_gone() {
                    return Err(ENODEV);
                }
                let new = CtxEntity::new(&self.gpu, self.sched_priority(), self.owner)?;
                slot.insert(new).clone()
            }
        };
        drop(dma);
        entity.check()?;
        Ok(entity)
    }

    /// Calls `f` for each entity that there is.
    pub(super) fn for_each_entity(&self, mut f: impl FnMut(&CtxEntity)) {
        for at in 0..DMA_RINGS {
            let entity = self.dma.lock().get(at).cloned().flatten();
            if let Some(entity) = entity {
                f(&entity);
            }
        }
    }

    /// Did a job of the context take too long?
    fn is_guilty(&self) -> bool {
        let mut guilty = false;
        self.for_each_entity(|entity| guilty |= entity.check() == Err(ETIME));
        guilty
    }

    /// Was an engine reset since this was last asked?
    pub(super) fn state(&self) -> uapi::drm_amdgpu_ctx {
        let now = resets(&self.gpu);
        let status = if self.resets_seen.xchg(now, Relaxed) == now {
            uapi::AMDGPU_CTX_NO_RESET
        } else {
            uapi::AMDGPU_CTX_UNKNOWN_RESET
        };
        uapi::ctx_state_out(0, status)
    }

    /// Was an engine reset since the context was made, and because of it?
    pub(super) fn state2(&self) -> uapi::drm_amdgpu_ctx {
        let mut flags = 0;
        if self.resets != resets(&self.gpu) {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_RESET;
        }
        if self.losses != losses(&self.gpu) {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
        }
        if self.is_guilty() {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_GUILTY;
        }
        uapi::ctx_state_out(flags.into(), 0)
    }
}
