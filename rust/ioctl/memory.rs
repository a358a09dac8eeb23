// SPDX-License-Identifier: GPL-2.0

//! `ACQUIRE_VM`, `ALLOC_MEMORY_OF_GPU`, `FREE_MEMORY_OF_GPU`, `MAP_MEMORY_TO_GPU`,
//! `UNMAP_MEMORY_FROM_GPU`, `AVAILABLE_MEMORY`.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{process::device_of_handle, user};
use crate::{
    drm,
    gpu::account,
    kapi::drm::file_from_fd,
    process::{
        memory::{Flags, Request},
        mmap, Device, Process,
    },
    uapi::*,
};

pub(super) fn acquire_vm(process: &Arc<Process>, args: &mut kfd_ioctl_acquire_vm_args) -> Result {
    let file = file_from_fd(args.drm_fd).map_err(|_| EINVAL)?;
    let _state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    device.acquire_vm(process.pid(), process.user_memory(), file, |file| {
        drm::vm_of_file(file, device.gpu())
    })
}

pub(super) fn alloc(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_alloc_memory_of_gpu_args,
) -> Result {
    if args.size == 0 {
        return Err(EINVAL);
    }
    let flags = Flags(args.flags);
    let mut state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    let vram = device.gpu().vram();
    if flags.has(KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) && flags.is_vram() && vram.visible() < vram.size()
    {
        return Err(EINVAL);
    }
    device.vm()?;
    let is_mmio = flags.has(KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
    if flags.has(KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
        if args.size != u64::from(device.gpu().generation().caps.doorbell_slice) {
            return Err(EINVAL);
        }
        device.doorbells()?;
    } else if is_mmio {
        if args.size != PAGE_SIZE as u64 {
            return Err(EINVAL);
        }
    }
    let request = Request {
        va: args.va_addr,
        size: args.size,
        flags,
        user_va: args.mmap_offset,
    };
    let buffer = if flags.is_user() {
        // User memory is not touched under the lock.
        drop(state);
        let buffer = device.create(process.user_memory(), &request)?;
        state = process.lock()?;
        // It may be gone meanwhile.
        device.vm()?;
        buffer
    } else {
        device.create(process.user_memory(), &request)?
    };
    let allocated = device.insert(buffer)?;
    drop(state);
    args.handle = u64::from(args.gpu_id) << 32 | u64::from(allocated.id);
    // The page of registers is mapped through the file of the ioctl, all else by the render node.
    args.mmap_offset = if is_mmio {
        mmap::TYPE_MMIO | mmap::gpu_id(args.gpu_id)
    } else {
        allocated.mmap_offset
    };
    Ok(())
}

pub(super) fn free(process: &Arc<Process>, args: &mut kfd_ioctl_free_memory_of_gpu_args) -> Result {
    let _state = process.lock()?;
    if process.events().page_handle() == Some(args.handle) {
        return Err(EPERM);
    }
    let (device, id) = device_of_handle(process, args.handle)?;
    device.free(id)
}

/// Checks what MAP and UNMAP have in common and copies the list of GPUs.
fn device_ids(array: u64, count: u32, done: u32) -> Result<KVec<u32>> {
    if count == 0 || done > count {
        return Err(EINVAL);
    }
    user::read_u32s(array, count as usize)
}

/// Calls `f` for every GPU of the list from `done` on, counting.
fn for_devices(
    process: &Process,
    ids: &[u32],
    done: &mut u32,
    mut f: impl FnMut(&Device) -> Result,
) -> Result {
    for id in ids.iter().skip(*done as usize) {
        f(process.device(*id)?)?;
        *done += 1;
    }
    Ok(())
}

pub(super) fn map(process: &Arc<Process>, args: &mut kfd_ioctl_map_memory_to_gpu_args) -> Result {
    let ids = device_ids(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
    let _state = process.lock()?;
    let (device, handle) = device_of_handle(process, args.handle)?;
    device.vm()?;
    if !device.has_memory(handle) {
        return Err(ENOMEM);
    }
    for_devices(process, &ids, &mut args.n_success, |on| {
        device.map(handle, on)
    })
}

pub(super) fn unmap(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_unmap_memory_from_gpu_args,
) -> Result {
    let ids = device_ids(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
    let _state = process.lock()?;
    let (device, handle) = device_of_handle(process, args.handle)?;
    if !device.has_memory(handle) {
        return Err(ENOMEM);
    }
    for_devices(process, &ids, &mut args.n_success, |on| {
        device.unmap(handle, on)
    })
}

pub(super) fn available(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_available_memory_args,
) -> Result {
    let _state = process.lock()?;
    args.available = account::vram_available(process.device(args.gpu_id)?.gpu());
    Ok(())
}
