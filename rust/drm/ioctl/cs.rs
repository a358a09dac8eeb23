// SPDX-License-Identifier: GPL-2.0

//! `CS`: user space hands commands to the scheduler of an engine.
//!
//! All that user space passed is copied, and all that may wait for user space is waited for, before a lock is taken.
//! Then the reservations of all buffers are locked, the buffers are brought where the commands expect them, and the
//! job is made, armed, published and pushed. Nothing fails after the job is armed.

use kernel::{prelude::*, sync::Arc};

use crate::{
    drm::{
        bo_list::BoList,
        dependencies::Dependencies,
        file::{FileData, Render},
    },
    kapi::{
        drm::{Device, File, Handler},
        resv::{LockSet, Usage},
        sched, task,
    },
    mmu::{self, BoRef},
    ring::sdma::Job,
    uapi,
};

mod chunks;

use chunks::{Request, Work};

/// What a job keeps as long as it runs.
struct Keep {
    _list: Arc<BoList>,
    _user_fence: Option<BoRef>,
}

/// `CS`.
pub(super) struct Submit;

impl Handler<Render> for Submit {
    type Arg = uapi::drm_amdgpu_cs;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_CS;

    fn run(dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result<i32> {
        let data = file.data();
        let asked = uapi::cs_in(arg);
        if data.gpu()?.is_hung() {
            return Err(EBUSY);
        }
        let request = Request::read(file, asked)?;
        let work = request.work(file)?;
        let list = match (asked.bo_list_handle, &request.bo_list) {
            (0, None) => BoList::empty()?,
            (0, Some(list)) => list.clone(),
            (_, Some(_)) => return Err(EINVAL),
            (handle, None) => data.bo_lists.lock().get(handle).cloned().ok_or(ENOENT)?,
        };
        // Before the locks: there is no hurry then.
        request.entity.wait_for_room()?;
        // The device stays until the job is pushed; what is pushed ends with it.
        let number = dev
            .while_plugged(|| submit(data, &request, work, &list))
            .ok_or(ENODEV)??;
        *arg = uapi::cs_out(number);
        Ok(0)
    }
}

/// Adds the implicit dependencies of a job on a buffer: kernel work and jobs of other files. Jobs
/// of the same file synchronize explicitly, and all jobs do on a buffer with `EXPLICIT_SYNC`
/// (`amdgpu_sync_test_fence`).
fn add_implicit(data: &FileData, bo: &BoRef, after: &mut Dependencies) -> Result {
    for fence in bo.resv().fences(Usage::Read)? {
        let wait = match fence.owner() {
            None | Some(0) => true,
            Some(owner) => owner != data.owner && !bo.flags().explicit_sync,
        };
        if wait && !fence.is_signaled() {
            after.add(fence)?;
        }
    }
    Ok(())
}

/// Returns `ERESTARTSYS` if the process is killed. For loops whose length user space controls.
fn check_killed() -> Result {
    if task::fatal_signal_pending() {
        return Err(ERESTARTSYS);
    }
    Ok(())
}

/// Locks, checks, and hands over to the scheduler.
fn submit(data: &FileData, request: &Request, work: Work, list: &Arc<BoList>) -> Result<u64> {
    let vm = data.vm()?;
    let Work {
        ibs,
        mut after,
        signals,
    } = work;
    let user_fence = request.user_fence.as_ref();
    let keep = KBox::new(
        Keep {
            _list: list.clone(),
            _user_fence: user_fence.map(|fence| fence.bo.clone()),
        },
        GFP_KERNEL,
    )?;
    let bos = || Iterator::chain(list.bos(), user_fence.map(|fence| &fence.bo));
    let mut resvs = KVVec::new();
    for bo in bos() {
        resvs.push(bo.resv().clone(), GFP_KERNEL)?;
    }

    let locks = LockSet::new(&resvs, true)?;
    for bo in bos() {
        check_killed()?;
        mmu::validate(bo)?;
        add_implicit(data, bo, &mut after)?;
    }
    for guard in locks.iter() {
        guard.reserve(1)?;
    }
    let number_at = match user_fence {
        // The engine writes 32-bit words.
        Some(fence) => Some(fence.bo.kernel_addr()? + u64::from(fence.offset & !3)),
        None => None,
    };

    request.entity.submit(
        |entity, number| {
            let mut job = Job::user(&vm, ibs, keep)?;
            if let Some(at) = number_at {
                job = job.with_user_fence(at, number);
            }
            let mut job = sched::Job::new(entity, 1, job)?;
            for fence in after.iter() {
                check_killed()?;
                job.add_dependency(fence.clone())?;
            }
            Ok(job)
        },
        |finished| {
            for guard in locks.iter() {
                guard.add_fence(finished, Usage::Write);
            }
            for signal in signals {
                signal.signal_with(finished);
            }
        },
    )
}
