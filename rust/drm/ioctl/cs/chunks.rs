// SPDX-License-Identifier: GPL-2.0

//! Parses the chunks of a submission, which are copied once, in two passes as the C driver does
//! (`amdgpu_cs_pass1`, `amdgpu_cs_pass2`): the first finds the ring and counts the IBs, the second
//! collects IBs, dependencies and syncobjs. No lock is held.

use kernel::{prelude::*, sync::Arc, transmute::FromBytes};

use crate::{
    drm::{
        bo_list::BoList,
        ctx::{Ctx, Ring, DMA_MAX_IBS},
        ctx_entity::CtxEntity,
        dependencies::Dependencies,
        file::Render,
        ioctl::{bo_list, wait::JobId},
        syncobj_signal::SyncobjSignal,
        user,
    },
    kapi::{drm::File, syncobj},
    mmu::{gem, Bo},
    ring::sdma::Ib,
    uapi,
};

/// Limit of an IB in dwords: the size field of the `INDIRECT_BUFFER` packet of SDMA has 20 bits.
const MAX_IB_DWORDS: u32 = 0xf_ffff;

struct Chunk {
    id: u32,
    data: KVVec<u8>,
}

/// Returns the elements of a chunk. An incomplete element at the end is ignored.
fn elements<'a, T: FromBytes + 'a>(data: &'a [u8]) -> impl Iterator<Item = T> + 'a {
    data.chunks_exact(size_of::<T>())
        .filter_map(T::from_bytes_copy)
}

/// Returns the first element of a chunk; `EINVAL` if it is too short.
fn first<T: FromBytes>(data: &[u8]) -> Result<T> {
    elements(data).next().ok_or(EINVAL)
}

/// Location to which the sequence number of the job is written when it is done.
pub(super) struct UserFence {
    /// The buffer, of one page.
    pub(super) bo: Bo,
    /// Bytes from its start.
    pub(super) offset: u32,
}

/// A submission after the first pass.
pub(super) struct Request {
    chunks: KVec<Chunk>,
    pub(super) ctx: Arc<Ctx>,
    /// The entity of all IBs.
    pub(super) entity: Arc<CtxEntity>,
    /// From a chunk `FENCE`.
    pub(super) user_fence: Option<UserFence>,
    /// From a chunk `BO_HANDLES`.
    pub(super) bo_list: Option<Arc<BoList>>,
}

/// Result of the second pass.
pub(super) struct Work {
    /// IBs that are not empty.
    pub(super) ibs: KVec<Ib>,
    /// Explicit dependencies.
    pub(super) after: Dependencies,
    /// Syncobjs that receive the fence of the job.
    pub(super) signals: KVec<SyncobjSignal>,
}

fn ring_of(ib: &uapi::drm_amdgpu_cs_chunk_ib) -> Ring {
    Ring {
        kind: ib.ip_type,
        instance: ib.ip_instance,
        index: ib.ring,
    }
}

fn read_chunk(at: u64) -> Result<Chunk> {
    let head: KVec<uapi::drm_amdgpu_cs_chunk> = user::read_array(at, 1)?;
    let head = head.first().ok_or(EINVAL)?;
    if head.length_dw > i32::MAX as u32 / 4 {
        return Err(EINVAL);
    }
    Ok(Chunk {
        id: head.chunk_id,
        data: user::read_bytes(head.chunk_data, usize::try_from(head.length_dw)? * 4)?,
    })
}

fn user_fence(file: &File<Render>, data: &[u8]) -> Result<UserFence> {
    let input: uapi::drm_amdgpu_cs_chunk_fence = first(data)?;
    let object = gem::Object::lookup(file, input.handle).ok_or(EINVAL)?;
    let bo = object.bo().clone();
    let page = kernel::page::PAGE_SIZE;
    if bo.size() != page as u64 || usize::try_from(input.offset)? > page - size_of::<u64>() {
        return Err(EINVAL);
    }
    Ok(UserFence {
        bo,
        offset: input.offset,
    })
}

impl Request {
    /// Copies the chunks of a submission and does the first pass. `EINVAL` for malformed chunks or
    /// IBs for several rings, `ECANCELED` if VRAM was lost since the context was created, else the
    /// errors of the lookups.
    pub(super) fn read(file: &File<Render>, input: &uapi::drm_amdgpu_cs_in) -> Result<Self> {
        if input.num_chunks == 0 {
            return Err(EINVAL);
        }
        let ctx = file.data().ctx(input.ctx_id)?;
        let list: KVec<u64> = user::read_array(input.chunks, input.num_chunks)?;
        let mut chunks = KVec::with_capacity(list.len(), user::sized())?;
        let mut entity: Option<Arc<CtxEntity>> = None;
        let (mut ibs, mut gang) = (0, false);
        let (mut user_fence, mut bo_list) = (None, None);
        for at in list {
            let chunk = read_chunk(at)?;
            match chunk.id {
                uapi::AMDGPU_CHUNK_ID_IB => {
                    let ib: uapi::drm_amdgpu_cs_chunk_ib = first(&chunk.data)?;
                    let its = ctx.entity(ring_of(&ib))?;
                    let leader = entity.get_or_insert_with(|| its.clone());
                    gang |= !Arc::ptr_eq(leader, &its);
                    if ibs == DMA_MAX_IBS {
                        return Err(EINVAL);
                    }
                    ibs += 1;
                }
                uapi::AMDGPU_CHUNK_ID_FENCE if user_fence.is_none() => {
                    user_fence = Some(self::user_fence(file, &chunk.data)?);
                }
                uapi::AMDGPU_CHUNK_ID_BO_HANDLES if bo_list.is_none() => {
                    bo_list = Some(bo_list::read(file, &first(&chunk.data)?)?);
                }
                uapi::AMDGPU_CHUNK_ID_CP_GFX_SHADOW => {
                    first::<uapi::drm_amdgpu_cs_chunk_cp_gfx_shadow>(&chunk.data)?;
                }
                uapi::AMDGPU_CHUNK_ID_DEPENDENCIES
                | uapi::AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES
                | uapi::AMDGPU_CHUNK_ID_SYNCOBJ_IN
                | uapi::AMDGPU_CHUNK_ID_SYNCOBJ_OUT
                | uapi::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT
                | uapi::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL => {}
                _ => return Err(EINVAL),
            }
            chunks.push(chunk, GFP_KERNEL)?;
        }
        let entity = entity.ok_or(EINVAL)?;
        // Its buffers have lost their contents.
        if ctx.has_lost_vram() {
            return Err(ECANCELED);
        }
        // Gang submission is not advertised in `ids_flags`.
        if gang {
            return Err(EINVAL);
        }
        Ok(Self {
            chunks,
            ctx,
            entity,
            user_fence,
            bo_list,
        })
    }

    /// Does the second pass. May wait until user space submits the point of a timeline syncobj.
    pub(super) fn work(&self, file: &File<Render>) -> Result<Work> {
        let mut work = Work {
            ibs: KVec::new(),
            after: Dependencies::new(),
            signals: KVec::new(),
        };
        let mut signalled = false;
        for Chunk { id, data } in &self.chunks {
            match *id {
                uapi::AMDGPU_CHUNK_ID_IB => work.add_ib(&self.ctx, &first(data)?)?,
                uapi::AMDGPU_CHUNK_ID_DEPENDENCIES => work.add_jobs(file, data, false)?,
                uapi::AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES => work.add_jobs(file, data, true)?,
                uapi::AMDGPU_CHUNK_ID_SYNCOBJ_IN => {
                    for wait in elements::<uapi::drm_amdgpu_cs_chunk_sem>(data) {
                        work.add_syncobj(file, wait.handle, 0, 0)?;
                    }
                }
                uapi::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT => {
                    for wait in elements::<uapi::drm_amdgpu_cs_chunk_syncobj>(data) {
                        work.add_syncobj(file, wait.handle, wait.point, wait.flags.into())?;
                    }
                }
                uapi::AMDGPU_CHUNK_ID_SYNCOBJ_OUT
                | uapi::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL
                    if signalled =>
                {
                    return Err(EINVAL);
                }
                uapi::AMDGPU_CHUNK_ID_SYNCOBJ_OUT => {
                    signalled = true;
                    work.reserve::<uapi::drm_amdgpu_cs_chunk_sem>(data)?;
                    for signal in elements::<uapi::drm_amdgpu_cs_chunk_sem>(data) {
                        work.add_signal(file, signal.handle, 0)?;
                    }
                }
                uapi::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL => {
                    signalled = true;
                    work.reserve::<uapi::drm_amdgpu_cs_chunk_syncobj>(data)?;
                    for signal in elements::<uapi::drm_amdgpu_cs_chunk_syncobj>(data) {
                        work.add_signal(file, signal.handle, signal.point)?;
                    }
                }
                uapi::AMDGPU_CHUNK_ID_CP_GFX_SHADOW => {
                    let shadow: uapi::drm_amdgpu_cs_chunk_cp_gfx_shadow = first(data)?;
                    let known = uapi::AMDGPU_CS_CHUNK_CP_GFX_SHADOW_FLAGS_INIT_SHADOW;
                    if shadow.flags & !u64::from(known) != 0 {
                        return Err(EINVAL);
                    }
                }
                _ => {}
            }
        }
        Ok(work)
    }
}

impl Work {
    fn add_ib(&mut self, ctx: &Ctx, ib: &uapi::drm_amdgpu_cs_chunk_ib) -> Result {
        // A job may have failed since the first pass.
        ctx.entity(ring_of(ib))?;
        let dwords = ib.ib_bytes / 4;
        if ib.flags & uapi::AMDGPU_IB_FLAG_CE != 0 || dwords > MAX_IB_DWORDS {
            return Err(EINVAL);
        }
        if dwords == 0 {
            return Ok(());
        }
        let ib = Ib {
            va: ib.va_start,
            dwords,
            flags: ib.flags,
        };
        Ok(self.ibs.push(ib, GFP_KERNEL)?)
    }

    /// Adds dependencies on jobs: until they are `scheduled`, or until they are done.
    fn add_jobs(&mut self, file: &File<Render>, data: &[u8], scheduled: bool) -> Result {
        for job in elements::<uapi::drm_amdgpu_cs_chunk_dep>(data) {
            user::check_killed()?;
            let name = JobId {
                ctx: job.ctx_id,
                ring: Ring {
                    kind: job.ip_type,
                    instance: job.ip_instance,
                    index: job.ring,
                },
                seq: job.handle,
            };
            let fence = match name.find(file.data())? {
                Some(job) if scheduled => job.scheduled,
                Some(job) => job.finished,
                None => continue,
            };
            self.after.add(fence)?;
        }
        Ok(())
    }

    /// Adds a dependency on the fence of a syncobj.
    fn add_syncobj(&mut self, file: &File<Render>, handle: u32, point: u64, flags: u64) -> Result {
        user::check_killed()?;
        let fence = syncobj::find_fence(file, handle, point, flags)?;
        self.after.add(fence)
    }

    /// Reserves memory for the elements of a chunk. `ENOMEM` if they need more than kmalloc() has,
    /// as in the C driver: each takes memory that is not accounted for.
    fn reserve<T>(&mut self, data: &[u8]) -> Result {
        let count = data.len() / size_of::<T>();
        Ok(self.signals.reserve(count, user::sized())?)
    }

    /// Adds a syncobj that receives the fence of the job.
    fn add_signal(&mut self, file: &File<Render>, handle: u32, point: u64) -> Result {
        user::check_killed()?;
        let target = SyncobjSignal::new(file, handle, point, EINVAL)?;
        Ok(self.signals.push(target, GFP_KERNEL)?)
    }
}
