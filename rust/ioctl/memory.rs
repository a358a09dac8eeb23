// SPDX-License-Identifier: GPL-2.0

//! `ACQUIRE_VM`, `ALLOC_MEMORY_OF_GPU`, `FREE_MEMORY_OF_GPU`, `MAP_MEMORY_TO_GPU`,
//! `UNMAP_MEMORY_FROM_GPU`, `AVAILABLE_MEMORY`.

use kernel::{
    num::casts::{u32_as_usize, usize_as_u64},
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};
use rkfd_abi::doorbell::PROCESS_SLICE;

use super::user;
use crate::{
    card::account,
    drm,
    kapi::drm::file_from_fd,
    process::{make_handle, memory::AllocRequest, mmap, table, AllocFlags, Process, ProcessDevice},
    uapi::*,
};

/// `ACQUIRE_VM`. `EINVAL` if the descriptor is no render node of the GPU or its address space
/// belongs to another process, `EBUSY` for a second render node, `ENODEV` if the GPU is unplugged.
pub(super) fn acquire_vm(process: &Arc<Process>, args: &mut kfd_ioctl_acquire_vm_args) -> Result {
    let file = file_from_fd(args.drm_fd);
    if matches!(&file, Err(e) if *e == EBADF) {
        return Err(EINVAL);
    }
    let _state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    // A second file is refused before its type is checked, as in the C driver.
    let file = file.map_err(|e| {
        if device.check_acquired().is_ok() {
            EBUSY
        } else {
            e
        }
    })?;
    table::acquire_vm(process, args.gpu_id, file, |file| {
        drm::vm_of_file(file, device.gpu())
    })?;
    // The runtime may be enabled, and a debugger attached.
    if process.runtime_enabled() {
        device.node().dqm().set_runtime(&device.slot()?, true)?;
    }
    process.show_debugger();
    Ok(())
}

/// Returns `EADDRINUSE` if one of `size` bytes at `va` is registered as shared virtual memory.
fn check_shared(process: &Process, va: u64, size: u64) -> Result {
    let last = va.wrapping_add(size - 1);
    if last >= va
        && process
            .svm()
            .overlaps(va >> PAGE_SHIFT, (last >> PAGE_SHIFT) + 1)?
    {
        return Err(EADDRINUSE);
    }
    Ok(())
}

/// `ALLOC_MEMORY_OF_GPU`. `EADDRINUSE` in shared virtual memory, `EINVAL` for invalid flags or
/// sizes, `EOPNOTSUPP` for user memory of a secondary process, `ENODEV` before `ACQUIRE_VM`,
/// otherwise as [`ProcessDevice::create`] and [`ProcessDevice::insert`].
pub(super) fn alloc(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_alloc_memory_of_gpu_args,
) -> Result {
    if args.size == 0 {
        return Err(EINVAL);
    }
    let flags = AllocFlags(args.flags);
    // By the flag alone, also of VRAM.
    let user = flags.has(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR);
    if user && !process.is_primary() {
        return Err(EOPNOTSUPP);
    }
    // Without an address, VRAM is allocated for export only.
    if !(args.va_addr == 0 && flags.is_vram()) {
        check_shared(process, args.va_addr, args.size)?;
    }
    if user {
        check_shared(process, args.mmap_offset, args.size)?;
    }
    let mut state = process.lock()?;
    let device = process.device(args.gpu_id)?;
    let vram = device.gpu().vram();
    if flags.has(KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) && flags.is_vram() && vram.visible() < vram.size()
    {
        return Err(EINVAL);
    }
    device.check_acquired()?;
    let is_mmio = flags.has(KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
    if flags.has(KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
        if args.size != usize_as_u64(PROCESS_SLICE) {
            return Err(EINVAL);
        }
        device.doorbells()?;
    } else if is_mmio {
        if args.size != usize_as_u64(PAGE_SIZE) {
            return Err(EINVAL);
        }
    }
    let request = AllocRequest {
        va: args.va_addr,
        size: args.size,
        flags,
        user_va: args.mmap_offset,
    };
    let buffer = if flags.is_user() {
        // User memory is not accessed under the process lock.
        drop(state);
        let buffer = device.create(process.user_memory(), &request)?;
        state = process.lock()?;
        // The GPU may have been unplugged meanwhile.
        device.check_acquired()?;
        buffer
    } else {
        device.create(process.user_memory(), &request)?
    };
    let allocated = device.insert(buffer)?;
    drop(state);
    args.handle = make_handle(args.gpu_id, allocated.id);
    // The MMIO remap page is mapped through this file, everything else through the render node.
    args.mmap_offset = if is_mmio {
        mmap::TYPE_MMIO | mmap::gpu_id(args.gpu_id)
    } else {
        allocated.mmap_offset
    };
    Ok(())
}

/// `FREE_MEMORY_OF_GPU`. `EPERM` for the signal page, `EINVAL` without such a buffer, `EBUSY` while
/// a GPU maps it.
pub(super) fn free(process: &Arc<Process>, args: &mut kfd_ioctl_free_memory_of_gpu_args) -> Result {
    let _state = process.lock()?;
    if process.events().page_handle() == Some(args.handle) {
        return Err(EPERM);
    }
    let (device, id) = process.device_of_handle(args.handle)?;
    device.free(id)
}

/// The list of GPU ids of MAP and UNMAP.
enum DeviceIds {
    /// The first ones; the second field is their number.
    Few([u32; 4], usize),
    Many(KVec<u32>),
}

impl DeviceIds {
    /// Copies the list. `EINVAL` if it is empty or `done` exceeds its length, `EFAULT` if it cannot
    /// be read, `ENOMEM` without memory.
    fn read(array: u64, count: u32, done: u32) -> Result<Self> {
        if count == 0 || done > count {
            return Err(EINVAL);
        }
        let count = u32_as_usize(count);
        let mut few = [0; 4];
        if let Some(ids) = few.get_mut(..count) {
            user::fill_u32s(array, ids)?;
            return Ok(Self::Few(few, count));
        }
        user::read_u32s(array, count).map(Self::Many)
    }

    fn as_slice(&self) -> &[u32] {
        match self {
            Self::Few(ids, count) => &ids[..*count],
            Self::Many(ids) => ids,
        }
    }
}

/// Calls `f` for each GPU of the list from index `done` on, and counts `done`.
fn for_devices(
    process: &Process,
    ids: &DeviceIds,
    done: &mut u32,
    mut f: impl FnMut(&ProcessDevice) -> Result,
) -> Result {
    for id in ids.as_slice().iter().skip(u32_as_usize(*done)) {
        f(process.device(*id)?)?;
        *done += 1;
    }
    Ok(())
}

/// `MAP_MEMORY_TO_GPU`. `n_success` counts the GPUs that map the buffer, also after an error.
/// `EINVAL` for an invalid list, `EFAULT` if it cannot be read, `ENOMEM` without such a buffer,
/// otherwise as [`ProcessDevice::map`].
pub(super) fn map(process: &Arc<Process>, args: &mut kfd_ioctl_map_memory_to_gpu_args) -> Result {
    let ids = DeviceIds::read(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
    let mut map = || {
        let _state = process.lock()?;
        let (device, handle) = process.device_of_handle(args.handle)?;
        device.check_acquired()?;
        if !device.has_buffer(handle) {
            return Err(ENOMEM);
        }
        for_devices(process, &ids, &mut args.n_success, |on| {
            device.map(handle, on)
        })
    };
    match map() {
        // Addresses of memory that the process has unmapped may still be in use.
        Err(e) if e == EINVAL => process.svm().free_unmapped().and_then(|()| map()),
        result => result,
    }
}

/// `UNMAP_MEMORY_FROM_GPU`. As [`map`]; `ENOMEM` if the buffer does not exist, as in the C driver,
/// `EINVAL` if a GPU does not map it, `EBUSY` if a queue has pinned the mapping.
pub(super) fn unmap(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_unmap_memory_from_gpu_args,
) -> Result {
    let ids = DeviceIds::read(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
    let _state = process.lock()?;
    let (device, handle) = process.device_of_handle(args.handle)?;
    if !device.has_buffer(handle) {
        return Err(ENOMEM);
    }
    for_devices(process, &ids, &mut args.n_success, |on| {
        device.unmap(handle, on)
    })
}

/// `AVAILABLE_MEMORY`: bytes of VRAM that the process may allocate. `EINVAL` without such a GPU.
pub(super) fn available(
    process: &Arc<Process>,
    args: &mut kfd_ioctl_get_available_memory_args,
) -> Result {
    let _state = process.lock()?;
    let node = process.device(args.gpu_id)?.node();
    args.available = account::vram_available(node.gpu().vram(), node.memory());
    Ok(())
}
