// SPDX-License-Identifier: GPL-2.0

//! `USERQ`: creates and frees user queues.

use kernel::{page::PAGE_SIZE, prelude::*};

use rkfd_abi::mes::priority;

use crate::{
    drm::{
        file::{may_be_urgent, FileData, Render},
        userq::{self, Request},
        userq_fence::UserFences,
    },
    kapi::{
        drm::{Device, File, Handler},
        uaccess,
    },
    mmu::gem::Object,
    uapi,
};

/// Returns the IP types with user queues; `ENOTSUPP` if there are none.
pub(super) fn supported(data: &FileData) -> Result<u32> {
    match userq::ip_mask(data.gpu()?) {
        0 => Err(ENOTSUPP),
        mask => Ok(mask),
    }
}

/// Returns whether arguments of a new queue are well-formed.
fn is_valid(input: &uapi::drm_amdgpu_userq_in) -> bool {
    let flags = uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_MASK
        | uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_SECURE;
    let pointer = |va: u64| va != 0 && va % 8 == 0;
    input.flags & !flags == 0
        && matches!(
            input.ip_type,
            uapi::AMDGPU_HW_IP_GFX | uapi::AMDGPU_HW_IP_COMPUTE | uapi::AMDGPU_HW_IP_DMA
        )
        && input.queue_va != 0
        && input.queue_va != u64::MAX
        && input.queue_size.is_power_of_two()
        && input.queue_size >= PAGE_SIZE as u64
        && pointer(input.wptr_va)
        && pointer(input.rptr_va)
}

/// Returns whether only operation and id are set.
fn is_free(input: &uapi::drm_amdgpu_userq_in) -> bool {
    let rest = [
        input.queue_va,
        input.queue_size,
        input.rptr_va,
        input.wptr_va,
        input.mqd,
        input.mqd_size,
        input.ip_type.into(),
        input.doorbell_handle.into(),
        input.doorbell_offset.into(),
        input.flags.into(),
    ];
    rest.iter().all(|value| *value == 0)
}

/// Returns the MES priority of a queue. `EACCES` for a high one that the file may not use.
fn level(file: &File<Render>, flags: u32) -> Result<u8> {
    let wanted = (flags & uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_MASK)
        >> uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_SHIFT;
    match wanted {
        uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_LOW => Ok(priority::LOW),
        uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_NORMAL_HIGH => Ok(priority::MEDIUM),
        uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_HIGH if !may_be_urgent(file) => Err(EACCES),
        uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_HIGH => Ok(priority::HIGH),
        _ => Ok(priority::NORMAL),
    }
}

/// Creates a queue. The errors are those of [`userq::UserQueues::create`], `EFAULT` for parameters
/// that are not readable.
fn create(file: &File<Render>, input: &uapi::drm_amdgpu_userq_in) -> Result<u32> {
    let data = file.data();
    let level = level(file, input.flags)?;
    // No secure memory.
    let secure = input.flags & uapi::AMDGPU_USERQ_CREATE_FLAGS_QUEUE_SECURE != 0;
    if secure || supported(data)? >> input.ip_type & 1 == 0 {
        return Err(EINVAL);
    }
    let doorbells = Object::lookup(file, input.doorbell_handle).ok_or(EINVAL)?;
    let parameters = size_of::<uapi::drm_amdgpu_userq_mqd_compute_gfx11>();
    if input.mqd_size != parameters as u64 {
        return Err(EINVAL);
    }
    let compute: uapi::drm_amdgpu_userq_mqd_compute_gfx11 = uaccess::read(input.mqd)?;
    let request = Request {
        ring: input.queue_va,
        ring_bytes: u32::try_from(input.queue_size)?,
        rptr: input.rptr_va,
        wptr: input.wptr_va,
        eop: compute.eop_va,
        doorbells,
        doorbell: input.doorbell_offset,
        level,
    };
    let node = data.partition.node().ok_or(ENODEV)?;
    let vm = data.vm()?;
    let fences = UserFences::new(data.partition.fences(), data.gpu()?)?;
    let id = data.queues.lock().create(node, &vm, &request, &fences)?;
    Ok(id)
}

/// `USERQ`.
pub(super) struct UserQueueOp;

impl Handler<Render> for UserQueueOp {
    type Arg = uapi::drm_amdgpu_userq;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_USERQ;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        supported(file.data())?;
        let input = uapi::userq_in(arg);
        match input.op {
            uapi::AMDGPU_USERQ_OP_CREATE if is_valid(input) => {
                *arg = uapi::userq_out(create(file, input)?);
            }
            uapi::AMDGPU_USERQ_OP_FREE if is_free(input) => {
                file.data().queues.lock().free(input.queue_id)?;
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}
