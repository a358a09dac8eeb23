// SPDX-License-Identifier: GPL-2.0

//! `CTX`: contexts, in which user space submits.
//!
//! A context has streams, one for each ring that user space names; they are made when they are first used. It
//! lives as long as its handle and the ioctls that use it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use super::{stream::Stream, FileData, Render};
use crate::{
    gpu::Gpu,
    kapi::{
        drm::{Device, File, Handler},
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
    priority: i32,
    /// Resets of the GPU or an engine when the context was made.
    resets: u32,
    /// Losses of VRAM then.
    losses: u32,
    /// The same when user space last asked.
    resets_seen: Atomic<u32>,
    #[pin]
    dma: Mutex<[Option<Arc<Stream>>; DMA_RINGS]>,
}

/// The priority that user space means. What is none counts as normal, as ever.
fn valid_priority(asked: i32) -> i32 {
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
    fn new(gpu: &Gpu, priority: i32) -> Result<Arc<Self>> {
        if priority > uapi::AMDGPU_CTX_PRIORITY_NORMAL as i32 && !task::capable(Capability::SysNice)
        {
            return Err(EACCES);
        }
        let now = resets(gpu);
        Arc::pin_init(
            pin_init!(Self {
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

    /// The stream of a ring. Fails with the error of the job that it scheduled last, if that failed.
    pub(super) fn stream(&self, file: &FileData, ring: Ring) -> Result<Arc<Stream>> {
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
        let stream = match slot {
            Some(stream) => stream.clone(),
            None => {
                let new = Stream::new(file.gpu()?, self.sched_priority(), file.owner)?;
                slot.insert(new).clone()
            }
        };
        drop(dma);
        stream.check()?;
        Ok(stream)
    }

    /// Calls `f` for each stream that there is.
    pub(super) fn for_each(&self, mut f: impl FnMut(&Stream)) {
        for at in 0..DMA_RINGS {
            let stream = self.dma.lock().get(at).cloned().flatten();
            if let Some(stream) = stream {
                f(&stream);
            }
        }
    }

    /// Did a job of the context take too long?
    fn is_guilty(&self) -> bool {
        let mut guilty = false;
        self.for_each(|stream| guilty |= stream.check() == Err(ETIME));
        guilty
    }

    /// Was an engine reset since this was last asked?
    fn state(&self, gpu: &Gpu) -> uapi::drm_amdgpu_ctx {
        let now = resets(gpu);
        let status = if self.resets_seen.xchg(now, Relaxed) == now {
            uapi::AMDGPU_CTX_NO_RESET
        } else {
            uapi::AMDGPU_CTX_UNKNOWN_RESET
        };
        uapi::ctx_state_out(0, status)
    }

    /// Was an engine reset since the context was made, and because of it?
    fn state2(&self, gpu: &Gpu) -> uapi::drm_amdgpu_ctx {
        let mut flags = 0;
        if self.resets != resets(gpu) {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_RESET;
        }
        if self.losses != losses(gpu) {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
        }
        if self.is_guilty() {
            flags |= uapi::AMDGPU_CTX_QUERY2_FLAGS_GUILTY;
        }
        uapi::ctx_state_out(flags.into(), 0)
    }
}

/// `CTX`.
pub(super) struct Contexts;

impl Handler<Render> for Contexts {
    type Arg = uapi::drm_amdgpu_ctx;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_CTX;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let data = file.data();
        let gpu = data.gpu()?;
        let asked = uapi::ctx_in(arg);
        let flags = match asked.op {
            uapi::AMDGPU_CTX_OP_SET_STABLE_PSTATE => uapi::AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK,
            _ => 0,
        };
        if asked.flags & !flags != 0 {
            return Err(EINVAL);
        }
        match asked.op {
            uapi::AMDGPU_CTX_OP_ALLOC_CTX => {
                let ctx = Ctx::new(gpu, valid_priority(asked.priority))?;
                *arg = uapi::ctx_alloc_out(data.contexts.lock().add(ctx)?);
            }
            uapi::AMDGPU_CTX_OP_FREE_CTX => {
                let ctx = data.contexts.lock().remove(asked.ctx_id);
                // Dropped without the lock: it may have to wait for its jobs to start.
                drop(ctx.ok_or(EINVAL)?);
            }
            uapi::AMDGPU_CTX_OP_QUERY_STATE => *arg = data.ctx(asked.ctx_id)?.state(gpu),
            uapi::AMDGPU_CTX_OP_QUERY_STATE2 => *arg = data.ctx(asked.ctx_id)?.state2(gpu),
            uapi::AMDGPU_CTX_OP_GET_STABLE_PSTATE => {
                data.ctx(asked.ctx_id)?;
                *arg = uapi::ctx_pstate_out(uapi::AMDGPU_CTX_STABLE_PSTATE_NONE);
            }
            // The clocks do as they like, which the firmware of this hardware does not let be changed
            // to one of the others.
            uapi::AMDGPU_CTX_OP_SET_STABLE_PSTATE => {
                data.ctx(asked.ctx_id)?;
                if asked.flags != uapi::AMDGPU_CTX_STABLE_PSTATE_NONE {
                    return Err(EINVAL);
                }
            }
            _ => return Err(EINVAL),
        }
        Ok(0)
    }
}
