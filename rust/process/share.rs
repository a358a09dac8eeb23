// SPDX-License-Identifier: GPL-2.0

//! Export and import of buffers as dma-bufs.
//!
//! The GEM object is shared, with the metadata of user space: all processes access the same memory,
//! wherever it is moved, and the last reference frees it. The memory is accounted once.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{
    buffer::{AllocFlags, Buffer},
    pdd::ProcessDevice,
};
use crate::{
    gpu::Gpu,
    kapi::dmabuf::DmaBuf,
    mmu::{
        gem::{Gem, Metadata, Object},
        Bo, BoKind, CpuAccess,
    },
    uapi,
};

/// Returns the domain flag of `ALLOC_MEMORY_OF_GPU` for a buffer; `EINVAL` if it cannot be shared.
fn domain(bo: &Bo) -> Result<u32> {
    match bo.preferred() {
        BoKind::Vram => Ok(uapi::KFD_IOC_ALLOC_MEM_FLAGS_VRAM),
        BoKind::Gtt => Ok(uapi::KFD_IOC_ALLOC_MEM_FLAGS_GTT),
        BoKind::Doorbell | BoKind::MmioRemap | BoKind::User => Err(EINVAL),
    }
}

/// A buffer behind a dma-buf.
pub(crate) struct SharedBuffer(ARef<Object>);

impl SharedBuffer {
    /// Returns the buffer behind a file descriptor. `EBADF` without such a descriptor, `EINVAL` if
    /// it is no buffer of this driver, `ENODEV` if its GPU is unplugged.
    pub(crate) fn from_fd(fd: u32) -> Result<Self> {
        let object = Object::of_dma_buf(&DmaBuf::from_fd(fd)?).ok_or(EINVAL)?;
        domain(object.bo())?;
        if object.bo().gpu().is_unplugged() {
            return Err(ENODEV);
        }
        Ok(Self(object))
    }

    /// Returns the GPU that the buffer was allocated on.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.0.bo().gpu()
    }

    /// Returns the partition that the buffer was allocated for, if any.
    pub(crate) fn partition(&self) -> Option<u32> {
        self.0.partition()
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.0.bo().size()
    }

    /// Returns the flags of `ALLOC_MEMORY_OF_GPU`.
    pub(crate) fn flags(&self) -> Result<u32> {
        let bo = self.0.bo();
        let public = match bo.flags().cpu_access {
            CpuAccess::Required => uapi::KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC,
            CpuAccess::Possible | CpuAccess::Never => 0,
        };
        Ok(domain(bo)? | public)
    }

    /// Returns the metadata of user space.
    pub(crate) fn metadata(&self) -> Metadata {
        self.0.metadata()
    }
}

impl ProcessDevice {
    /// Exports a buffer of this GPU as a dma-buf; `EINVAL` without such a handle.
    pub(crate) fn export(&self, id: u32) -> Result<DmaBuf> {
        self.buffers().lock().get(id).ok_or(EINVAL)?.export()
    }

    /// Imports a dma-buf, to be mapped at `va`, and returns its handle. This process may write and
    /// execute the buffer, independent of the exporter's access rights. Errors as
    /// [`SharedBuffer::from_fd`]; `EFAULT` if no handle can be allocated.
    pub(crate) fn import(&self, fd: u32, va: u64) -> Result<u32> {
        let file = self.file()?;
        let gem = Gem::import(&DmaBuf::from_fd(fd)?, &file)?;
        let flags = domain(gem.bo())?
            | uapi::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
            | uapi::KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
        let buffer = Buffer::imported(gem, va, AllocFlags(flags));
        self.buffers().lock().insert(buffer).map_err(|_| EFAULT)
    }
}
