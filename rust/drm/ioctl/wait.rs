// SPDX-License-Identifier: GPL-2.0

//! `WAIT_CS`, `WAIT_FENCES`, `FENCE_TO_HANDLE`: wait for submitted jobs, or export their fences.

use kernel::{prelude::*, sync::aref::ARef};

use crate::{
    drm::{
        ctx::Ring,
        ctx_entity::Submission,
        file::{FileData, Render},
        user,
    },
    kapi::{
        drm::{Device, File, Handler},
        fence::{Fence, Timeout},
        syncobj::{sync_file_fd, Syncobj},
    },
    uapi,
};

/// A job as user space names it.
pub(super) struct JobId {
    /// Context handle.
    pub(super) ctx: u32,
    /// The ring it was submitted to.
    pub(super) ring: Ring,
    /// Sequence number that `CS` returned.
    pub(super) seq: u64,
}

impl JobId {
    /// Returns the fences of the job; `None` if they are no longer kept, which implies that it is
    /// done. `EINVAL` for an unknown context, ring or job.
    pub(super) fn find(&self, data: &FileData) -> Result<Option<Submission>> {
        data.ctx(self.ctx)?.entity(self.ring)?.submission(self.seq)
    }

    fn finished(&self, data: &FileData) -> Result<Option<ARef<Fence>>> {
        Ok(self.find(data)?.map(|job| job.finished))
    }
}

impl From<&uapi::drm_amdgpu_fence> for JobId {
    fn from(fence: &uapi::drm_amdgpu_fence) -> Self {
        Self {
            ctx: fence.ctx_id,
            ring: Ring {
                kind: fence.ip_type,
                instance: fence.ip_instance,
                index: fence.ring,
            },
            seq: fence.seq_no,
        }
    }
}

/// Waits for a fence until `deadline`, in ns of the monotonic clock. Returns false at the deadline,
/// else the result of the fence; `ERESTARTSYS` if a signal arrives.
fn wait(fence: &Fence, deadline: u64) -> Result<bool> {
    if !fence.wait_interruptible(Timeout::until(deadline))? {
        return Ok(false);
    }
    fence.result()?;
    Ok(true)
}

/// `WAIT_CS`: waits for one job.
pub(super) struct WaitCs;

impl Handler<Render> for WaitCs {
    type Arg = uapi::drm_amdgpu_wait_cs;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_WAIT_CS;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let input = uapi::wait_cs_in(arg);
        let job = JobId {
            ctx: input.ctx_id,
            ring: Ring {
                kind: input.ip_type,
                instance: input.ip_instance,
                index: input.ring,
            },
            seq: input.handle,
        };
        let done = match job.finished(file.data())? {
            Some(fence) => wait(&fence, input.timeout)?,
            None => true,
        };
        *arg = uapi::wait_cs_out(u64::from(!done));
        Ok(())
    }
}

/// `WAIT_FENCES`: waits for all or the first of several jobs.
pub(super) struct WaitFences;

/// Waits for all fences. Returns false at the deadline.
fn wait_all(data: &FileData, fences: &[uapi::drm_amdgpu_fence], deadline: u64) -> Result<bool> {
    for fence in fences {
        if let Some(fence) = JobId::from(fence).finished(data)? {
            if !wait(&fence, deadline)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Removes duplicates of fences. Keeps the first of each, and the order.
fn remove_duplicates(fences: &mut KVec<(usize, ARef<Fence>)>) {
    let address = |fence: &ARef<Fence>| core::ptr::from_ref(&**fence) as usize;
    fences.sort_unstable_by_key(|(i, fence)| (address(fence), *i));
    let mut last = 0;
    fences.retain(|(_, fence)| core::mem::replace(&mut last, address(fence)) != address(fence));
    fences.sort_unstable_by_key(|(i, _)| *i);
}

/// Waits for the first fence. Returns its index, and itself if it is still kept; `None` at the
/// deadline.
fn wait_any(
    data: &FileData,
    fences: &[uapi::drm_amdgpu_fence],
    deadline: u64,
) -> Result<Option<(usize, Option<ARef<Fence>>)>> {
    let mut found = KVec::with_capacity(fences.len(), user::sized())?;
    for (i, fence) in fences.iter().enumerate() {
        match JobId::from(fence).finished(data)? {
            Some(fence) => found.push((i, fence), GFP_KERNEL)?,
            None => return Ok(Some((i, None))),
        }
    }
    // Fences may be named several times. `ENOMEM` for more distinct ones.
    if found.len() > Fence::MAX_ANY {
        remove_duplicates(&mut found);
    }
    let fences = found.iter().map(|(_, fence)| &**fence);
    let first = Fence::wait_any(fences, Timeout::until(deadline))?;
    let first = first.and_then(|at| found.get(at).cloned());
    Ok(first.map(|(i, fence)| (i, Some(fence))))
}

impl Handler<Render> for WaitFences {
    type Arg = uapi::drm_amdgpu_wait_fences;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_WAIT_FENCES;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let input = uapi::wait_fences_in(arg);
        if input.fence_count == 0 {
            return Err(EINVAL);
        }
        let fences: KVec<uapi::drm_amdgpu_fence> =
            user::read_array(input.fences, input.fence_count)?;
        if input.wait_all != 0 {
            let done = wait_all(file.data(), &fences, input.timeout_ns)?;
            *arg = uapi::wait_fences_out(u32::from(done), 0);
            return Ok(());
        }
        match wait_any(file.data(), &fences, input.timeout_ns)? {
            Some((first, fence)) => {
                *arg = uapi::wait_fences_out(1, u32::try_from(first)?);
                // The index is valid also if that job failed.
                fence.map_or(Ok(()), |fence| fence.result())?;
            }
            None => *arg = uapi::wait_fences_out(0, !0),
        }
        Ok(())
    }
}

/// `FENCE_TO_HANDLE`: exports the fence of a job as a syncobj or a sync file.
pub(super) struct FenceToHandle;

impl Handler<Render> for FenceToHandle {
    type Arg = uapi::drm_amdgpu_fence_to_handle;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let input = uapi::fence_to_handle_in(arg);
        let fence = JobId::from(&input.fence)
            .finished(file.data())?
            .unwrap_or_else(Fence::stub);
        let handle = match input.what {
            uapi::AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ => {
                Syncobj::new(Some(&fence))?.create_handle(file)?
            }
            uapi::AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD => {
                u32::try_from(Syncobj::new(Some(&fence))?.create_fd()?)?
            }
            uapi::AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD => u32::try_from(sync_file_fd(&fence)?)?,
            _ => return Err(EINVAL),
        };
        *arg = uapi::fence_to_handle_out(handle);
        Ok(())
    }
}
