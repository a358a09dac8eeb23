// SPDX-License-Identifier: GPL-2.0

//! `CS`: submits IBs to the scheduler of an engine.
//!
//! All arguments are copied from user space, and all waits for other submissions of user space are
//! done, before a lock is taken. Then the reservations of all buffers are locked, the buffers are
//! validated, and the job is created, armed, published and pushed. Nothing fails after arming.

use kernel::{prelude::*, sync::Arc};

use crate::{
    drm::{
        bo_list::BoList,
        dependencies::Dependencies,
        file::{FileData, Render},
        user,
    },
    kapi::{
        drm::{Device, File, Handler},
        resv::{LockSet, Usage},
        sched,
    },
    mmu::{self, Bo, KernelAddr},
    ring::sdma::Job,
    uapi,
};

mod chunks;

use chunks::{Request, Work};

/// References that a job holds until it is done.
struct JobRefs {
    _list: Arc<BoList>,
    // Field order: the address goes before the BO.
    _fence_addr: Option<KernelAddr>,
    _user_fence: Option<Bo>,
}

/// `CS`: submits IBs.
pub(super) struct Submit;

impl Handler<Render> for Submit {
    type Arg = uapi::drm_amdgpu_cs;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_CS;

    fn run(dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let data = file.data();
        let input = uapi::cs_in(arg);
        if data.gpu()?.is_hung() {
            return Err(EBUSY);
        }
        let request = Request::read(file, input)?;
        let work = request.work(file)?;
        let list = match (input.bo_list_handle, &request.bo_list) {
            (0, None) => BoList::empty()?,
            (0, Some(list)) => list.clone(),
            (_, Some(_)) => return Err(EINVAL),
            (handle, None) => data.bo_lists.lock().get(handle).cloned().ok_or(ENOENT)?,
        };
        // Waits before the reservations are locked, so that others do not wait for them.
        request.entity.wait_for_room()?;
        // Not unplugged before the job is pushed: removal of the GPU ends all pushed jobs.
        let number = dev
            .while_plugged(|| submit(data, &request, work, &list))
            .ok_or(ENODEV)??;
        *arg = uapi::cs_out(number);
        Ok(())
    }
}

/// Adds the implicit dependencies of a job on a buffer: kernel work and jobs of other files. Jobs
/// of the same file synchronize explicitly, and all jobs do on a buffer with `EXPLICIT_SYNC`
/// (`amdgpu_sync_test_fence`).
fn add_implicit(data: &FileData, bo: &Bo, after: &mut Dependencies) -> Result {
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

/// Locks and validates the buffers, and pushes the job. Returns its sequence number.
fn submit(data: &FileData, request: &Request, work: Work, list: &Arc<BoList>) -> Result<u64> {
    let vm = data.vm()?;
    let Work {
        ibs,
        mut after,
        signals,
    } = work;
    let user_fence = request.user_fence.as_ref();
    let bos = || Iterator::chain(list.bos(), user_fence.map(|fence| &fence.bo));
    let mut resvs = KVVec::new();
    for bo in bos() {
        resvs.push(bo.resv().clone(), GFP_KERNEL)?;
    }

    let locks = LockSet::new(&resvs, true)?;
    let gpu = data.gpu()?;
    let mut budget = gpu.lru().move_budget(gpu.vram());
    for bo in bos() {
        user::check_killed()?;
        mmu::validate_within(bo, &mut budget)?;
        add_implicit(data, bo, &mut after)?;
    }
    drop(budget);
    for guard in locks.iter() {
        guard.reserve(1)?;
    }
    let fence_addr = user_fence.map(|fence| fence.bo.kernel_addr()).transpose()?;
    // The engine writes dwords.
    let seq_addr = Option::zip(fence_addr.as_ref(), user_fence)
        .map(|(addr, fence)| addr.get() + u64::from(fence.offset & !3));
    let refs = KBox::new(
        JobRefs {
            _list: list.clone(),
            _fence_addr: fence_addr,
            _user_fence: user_fence.map(|fence| fence.bo.clone()),
        },
        GFP_KERNEL,
    )?;

    request.entity.submit(
        |entity, number| {
            let mut job = Job::user(vm.job_vm(), ibs, request.ctx.losses(), refs)?;
            if let Some(at) = seq_addr {
                job = job.with_user_fence(at, number);
            }
            let mut job = sched::Job::new(entity, 1, job)?;
            for fence in after.iter() {
                user::check_killed()?;
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
