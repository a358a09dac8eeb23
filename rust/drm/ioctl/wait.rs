// SPDX-License-Identifier: GPL-2.0

//! `WAIT_CS`, `WAIT_FENCES`, `FENCE_TO_HANDLE`: what becomes of jobs that were submitted.

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
pub(super) struct JobName {
    pub(super) ctx: u32,
    pub(super) ring: Ring,
    pub(super) number: u64,
}

impl JobName {
    /// The job; `None` if it is over for long.
    pub(super) fn find(&self, data: &FileData) -> Result<Option<Submission>> {
        data.ctx(self.ctx)?
            .entity(self.ring)?
            .submission(self.number)
    }

    fn finished(&self, data: &FileData) -> Result<Option<ARef<Fence>>> {
        Ok(self.find(data)?.map(|job| job.finished))
    }
}

impl From<&uapi::drm_amdgpu_fence> for JobName {
    fn from(fence: &uapi::drm_amdgpu_fence) -> Self {
        Self {
            ctx: fence.ctx_id,
            ring: Ring {
                kind: fence.ip_type,
                instance: fence.ip_instance,
                index: fence.ring,
            },
            number: fence.seq_no,
        }
    }
}

/// Waits for a fence; false when the time is over before, and the error of what failed.
fn wait(fence: &Fence, deadline: u64) -> Result<bool> {
    if !fence.wait_interruptible(Timeout::until(deadline))? {
        return Ok(false);
    }
    fence.result()?;
    Ok(true)
}

/// `WAIT_CS`.
pub(super) struct WaitCs;

impl Handler<Render> for WaitCs {
    type Arg = uapi::drm_amdgpu_wait_cs;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_WAIT_CS;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let asked = uapi::wait_cs_in(arg);
        let job = JobName {
            ctx: asked.ctx_id,
            ring: Ring {
                kind: asked.ip_type,
                instance: asked.ip_instance,
                index: asked.ring,
            },
            number: asked.handle,
        };
        let done = match job.finished(file.data())? {
            Some(fence) => wait(&fence, asked.timeout)?,
            None => true,
        };
        *arg = uapi::wait_cs_out(u64::from(!done));
        Ok(0)
    }
}

/// `WAIT_FENCES`.
pub(super) struct WaitFences;

/// Waits for all; false when the time is over before.
fn wait_all(data: &FileData, fences: &[uapi::drm_amdgpu_fence], deadline: u64) -> Result<bool> {
    for fence in fences {
        if let Some(fence) = JobName::from(fence).finished(data)? {
            if !wait(&fence, deadline)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Waits for any: its index, and its fence if it is remembered.
fn wait_any(
    data: &FileData,
    fences: &[uapi::drm_amdgpu_fence],
    deadline: u64,
) -> Result<Option<(usize, Option<ARef<Fence>>)>> {
    let mut found = KVec::with_capacity(fences.len(), user::sized())?;
    for (i, fence) in fences.iter().enumerate() {
        match JobName::from(fence).finished(data)? {
            Some(fence) => found.push(fence, GFP_KERNEL)?,
            None => return Ok(Some((i, None))),
        }
    }
    let first = Fence::wait_any(&found, Timeout::until(deadline))?;
    Ok(first.map(|i| (i, found.get(i).cloned())))
}

impl Handler<Render> for WaitFences {
    type Arg = uapi::drm_amdgpu_wait_fences;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_WAIT_FENCES;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let asked = uapi::wait_fences_in(arg);
        if asked.fence_count == 0 {
            return Err(EINVAL);
        }
        let fences: KVec<uapi::drm_amdgpu_fence> =
            user::read_array(asked.fences, asked.fence_count as usize)?;
        if asked.wait_all != 0 {
            let done = wait_all(file.data(), &fences, asked.timeout_ns)?;
            *arg = uapi::wait_fences_out(u32::from(done), 0);
            return Ok(0);
        }
        match wait_any(file.data(), &fences, asked.timeout_ns)? {
            Some((first, fence)) => {
                *arg = uapi::wait_fences_out(1, first as u32);
                // The answer is handed out also when that job failed.
                fence.map_or(Ok(()), |fence| fence.result())?;
            }
            None => *arg = uapi::wait_fences_out(0, !0),
        }
        Ok(0)
    }
}

/// `FENCE_TO_HANDLE`.
pub(super) struct FenceToHandle;

impl Handler<Render> for FenceToHandle {
    type Arg = uapi::drm_amdgpu_fence_to_handle;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let asked = uapi::fence_to_handle_in(arg);
        let fence = JobName::from(&asked.fence)
            .finished(file.data())?
            .unwrap_or_else(Fence::stub);
        let handle = match asked.what {
            uapi::AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ => {
                Syncobj::new(Some(&fence))?.create_handle(file)?
            }
            uapi::AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD => {
                Syncobj::new(Some(&fence))?.create_fd()? as u32
            }
            uapi::AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD => sync_file_fd(&fence)? as u32,
            _ => return Err(EINVAL),
        };
        *arg = uapi::fence_to_handle_out(handle);
        Ok(0)
    }
}
