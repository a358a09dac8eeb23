// SPDX-License-Identifier: GPL-2.0

//! Buffers that go from process to process, as DMA buffers.
//!
//! What is shared is the GEM object, with what user space attached to it: every process that has it
//! sees the same memory, wherever that moves, and the last one frees it. What was set aside for the
//! memory is set aside once, however many processes have it.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{
    memory::{Flags, Mem},
    Device,
};
use crate::{
    gpu::Gpu,
    kapi::dmabuf::DmaBuf,
    mmu::{
        gem::{Gem, Metadata, Object},
        BoKind, BoRef, CpuAccess,
    },
    uapi,
};

/// What kind of memory a buffer is, as `ALLOC_MEMORY_OF_GPU` would name it.
fn kind(bo: &BoRef) -> Result<u32> {
    match bo.preferred() {
        BoKind::Vram => Ok(uapi::KFD_IOC_ALLOC_MEM_FLAGS_VRAM),
        BoKind::Gtt => Ok(uapi::KFD_IOC_ALLOC_MEM_FLAGS_GTT),
        BoKind::Doorbell | BoKind::MmioRemap | BoKind::User => Err(EINVAL),
    }
}

/// A buffer that somebody shares.
pub(crate) struct Shared(ARef<Object>);

impl Shared {
    /// The buffer behind a descriptor: `EBADF` if there is no such descriptor, `EINVAL` if it is no
    /// buffer of this driver, `ENODEV` if its GPU was taken away.
    pub(crate) fn from_fd(fd: u32) -> Result<Self> {
        let object = Object::of_dma_buf(&DmaBuf::from_fd(fd)?).ok_or(EINVAL)?;
        kind(object.bo())?;
        if object.bo().gpu().is_gone() {
            return Err(ENODEV);
        }
        Ok(Self(object))
    }

    /// The GPU it was allocated on.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.0.bo().gpu()
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.0.bo().size()
    }

    /// What it is, as flags of `ALLOC_MEMORY_OF_GPU`.
    pub(crate) fn flags(&self) -> Result<u32> {
        let bo = self.0.bo();
        let public = match bo.flags().cpu_access {
            CpuAccess::Required => uapi::KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC,
            CpuAccess::Possible | CpuAccess::Never => 0,
        };
        Ok(kind(bo)? | public)
    }

    /// What user space attached to it.
    pub(crate) fn metadata(&self) -> Metadata {
        self.0.metadata().lock().clone()
    }
}

impl Device {
    /// Makes a buffer of this GPU one that can be shared.
    pub(crate) fn export(&self, id: u32) -> Result<DmaBuf> {
        self.memory().lock().get(id).ok_or(EINVAL)?.export()
    }

    /// Takes a buffer that somebody shares under a handle, to be mapped at `va`. Whatever the
    /// exporter may do with it, this process may write to it and run it.
    pub(crate) fn import(&self, fd: u32, va: u64) -> Result<u32> {
        let file = self.file()?;
        let gem = Gem::import(&DmaBuf::from_fd(fd)?, &file)?;
        let flags = kind(gem.bo())?
            | uapi::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
            | uapi::KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
        let mem = Mem::imported(gem, va, Flags(flags));
        self.memory().lock().insert(mem).map_err(|_| EFAULT)
    }
}
