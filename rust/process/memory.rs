// SPDX-License-Identifier: GPL-2.0

//! Memory ioctls of a process: allocation, handles, mapping on GPUs, release.
//!
//! A buffer is freed only when no GPU maps it, and unmapped only when no queue has pinned the
//! mapping.

use kernel::{num::casts::usize_as_u64, page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{
    buffer::{AllocFlags, Buffer},
    pdd::ProcessDevice,
    userptr::{UserMemory, UserptrRegistration},
};
use crate::{
    card::account::{self, Kind, Share},
    kapi::{uaccess, workqueue::Delayed},
    mmu::{gem::Gem, Bo, BoFlags},
    uapi,
};

/// Parameters of ALLOC_MEMORY_OF_GPU.
pub(crate) struct AllocRequest {
    /// GPU virtual address.
    pub(crate) va: u64,
    /// Size in bytes.
    pub(crate) size: u64,
    /// The flags.
    pub(crate) flags: AllocFlags,
    /// CPU address of a userptr.
    pub(crate) user_va: u64,
}

/// Result of [`ProcessDevice::insert`].
pub(crate) struct AllocatedBuffer {
    /// The handle on this GPU.
    pub(crate) id: u32,
    /// The mmap offset in the render node.
    pub(crate) mmap_offset: u64,
}

/// Allocates the memory of a buffer, with the errors of the C driver in its order
/// (`amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu()`): `EINVAL` for invalid flags or sizes, `ENOMEM`
/// above a limit or without memory.
fn create_bo(
    device: &ProcessDevice,
    share: &Arc<Share>,
    user: &Arc<Delayed<UserMemory>>,
    request: &AllocRequest,
) -> Result<(Bo, Option<UserptrRegistration>)> {
    let flags = request.flags;
    let gpu = device.gpu();
    let is_gtt = flags.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_GTT);
    let is_doorbell = flags.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL);
    if !flags.is_vram() && !is_gtt {
        let is_io = is_doorbell || flags.has(uapi::KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
        let is_user = flags.is_user() && request.user_va != 0;
        if !is_user && (!is_io || request.size > u64::from(u32::MAX)) {
            return Err(EINVAL);
        }
    }
    let size = if flags.is_aql() {
        request.size / 2
    } else {
        request.size
    };
    // Also refuses a size that overflows when rounded up.
    let size = size
        .checked_next_multiple_of(usize_as_u64(PAGE_SIZE))
        .filter(|size| *size > 0)
        .ok_or(EINVAL)?;
    let attrs = flags.bo_flags();
    if flags.is_user() {
        let start = uaccess::untagged_addr(request.user_va);
        let (bo, registration) = UserMemory::create(user, device.node(), start, size, attrs)?;
        return Ok((bo, Some(registration)));
    }
    let bo = if flags.is_vram() {
        let reservation = account::reserve(gpu.vram(), share, Kind::Vram, size)?;
        let attrs = BoFlags {
            memory: Some(share.memory().index()),
            ..attrs
        };
        Bo::vram(gpu, size, attrs, reservation)?
    } else if is_gtt {
        let reservation = account::reserve(gpu.vram(), share, Kind::Gtt, size)?;
        Bo::gtt(gpu, size, attrs, Some(reservation))?
    } else if is_doorbell {
        Bo::doorbell(gpu, device.doorbells()?.pages(), attrs)?
    } else {
        Bo::mmio_remap(gpu, attrs)?
    };
    Ok((bo, None))
}

impl ProcessDevice {
    /// Allocates a buffer, which the file of `ACQUIRE_VM` may map. Accesses user memory for a
    /// userptr. `ENODEV` before `ACQUIRE_VM`, else as [`UserMemory::create`] and for invalid flags
    /// and sizes `EINVAL`, above a limit `ENOMEM`.
    pub(crate) fn create(
        &self,
        user: &Arc<Delayed<UserMemory>>,
        request: &AllocRequest,
    ) -> Result<Buffer> {
        let owner = self.owner()?;
        let (bo, userptr) = create_bo(self, &owner.memory, user, request)?;
        // As in the C driver, other memory has no partition.
        let partition = request.flags.is_vram().then_some(owner.partition);
        let gem = Gem::new(bo, &owner.file, partition)?;
        Ok(Buffer::new(gem, userptr, request.va, request.flags))
    }

    /// Allocates a handle for a buffer; `EFAULT` if that fails.
    pub(crate) fn insert(&self, buffer: Buffer) -> Result<AllocatedBuffer> {
        let mmap_offset = buffer.mmap_offset();
        let vram = buffer.vram_usage();
        let id = self.buffers().lock().insert(buffer).map_err(|_| EFAULT)?;
        self.add_vram_usage(vram);
        Ok(AllocatedBuffer { id, mmap_offset })
    }

    /// Frees a buffer. `EINVAL` without such a handle, `EBUSY` if a GPU maps it.
    pub(crate) fn free(&self, id: u32) -> Result {
        let mut buffers = self.buffers().lock();
        let buffer = buffers.get(id).ok_or(EINVAL)?;
        if buffer.is_mapped() {
            return Err(EBUSY);
        }
        let buffer = buffers.remove(id).ok_or(EINVAL)?;
        drop(buffers);
        self.drop_buffer(buffer);
        Ok(())
    }

    /// Drops a buffer. Mappings of the CPU keep the memory.
    fn drop_buffer(&self, buffer: Buffer) {
        self.sub_vram_usage(buffer.vram_usage());
    }

    /// Returns whether a handle names a buffer of this GPU.
    pub(crate) fn has_buffer(&self, id: u32) -> bool {
        self.buffers().lock().get(id).is_some()
    }

    /// Returns the BO of a buffer.
    pub(super) fn bo(&self, id: u32) -> Option<Bo> {
        self.buffers().lock().get(id).map(|b| b.bo().clone())
    }

    /// Maps a buffer of this GPU on `on`. `ENODEV` before `ACQUIRE_VM` of `on`, `ENOMEM` without
    /// such a handle, `EINVAL` if the address range is taken.
    pub(crate) fn map(&self, id: u32, on: &ProcessDevice) -> Result {
        let vm = on.vm()?;
        let mut buffers = self.buffers().lock();
        let buffer = buffers.get_mut(id).ok_or(ENOMEM)?;
        buffer.map(on.id(), &vm)
    }

    /// Unmaps a buffer of this GPU on `on`. `ENOMEM` without such a handle, `EINVAL` if it is not
    /// mapped, `EBUSY` if a queue has pinned the mapping.
    pub(crate) fn unmap(&self, id: u32, on: &ProcessDevice) -> Result {
        let vm = on.vm().map_err(|_| EINVAL)?;
        let mut buffers = self.buffers().lock();
        let buffer = buffers.get_mut(id).ok_or(ENOMEM)?;
        buffer.unmap(on.id(), &vm)
    }
}

/// Buffers that [`release`] unmaps at a time.
const BATCH: usize = 64;

/// Unmaps the buffers of all GPUs on `device`, then frees the buffers of `device`. No queue pins a
/// mapping on `device` any more.
pub(super) fn release(devices: &[Arc<ProcessDevice>], device: &ProcessDevice) {
    for peer in devices {
        unmap_for_release(peer, device);
        unmap_for_release(device, peer);
    }
    loop {
        let Some(buffer) = device.buffers().lock().pop() else {
            break;
        };
        device.drop_buffer(buffer);
    }
}

/// Unmaps the buffers of `owner` that are mapped on `on`. A failure is logged only: the mapping
/// ends with the address space. A program can cause `EBUSY`: user queues of the render node pin the
/// mappings of their rings.
fn unmap_for_release(owner: &ProcessDevice, on: &ProcessDevice) {
    let Ok(vm) = on.vm() else { return };
    let unmap = |ranges: &[(u64, u64)]| {
        let result = vm.unmap_all(ranges);
        if let Err(e) = result.or_else(|e| if e == EBUSY { Ok(()) } else { Err(e) }) {
            dev_err!(
                on.gpu().dev(),
                "GPU {:#x}: some of {} buffers were not unmapped: {e:?}\n",
                on.id(),
                ranges.len()
            );
        }
    };
    let mut buffers = owner.buffers().lock();
    let mapped = buffers.values_mut().flat_map(|b| b.take_mapped(on.id()));
    let mut batch = [(0, 0); BATCH];
    let mut count = 0;
    for range in mapped.flatten() {
        batch[count] = range;
        count += 1;
        if count == BATCH {
            unmap(&batch);
            count = 0;
        }
    }
    if count > 0 {
        unmap(&batch[..count]);
    }
}
