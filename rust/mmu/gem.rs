// SPDX-License-Identifier: GPL-2.0

//! GEM objects of BOs, with mmap offset and handles in files of the render node.

use kernel::{
    fs::File,
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Mutex},
};

use super::{
    bo::Bo,
    placement::{BoKind, CpuAccess, CpuCache},
};
use crate::kapi::{
    dmabuf::DmaBuf,
    drm,
    gem::{self, Caching, DriverObject, Frame, HandleRef, RemoteAccess},
    resv::Resv,
};

/// Dwords of the metadata that user space may attach to a BO.
pub(crate) const METADATA_WORDS: usize = 64;

/// Metadata of a BO for its importers (`DRM_AMDGPU_GEM_METADATA`); opaque to the kernel.
#[derive(Clone)]
pub(crate) struct Metadata {
    /// Tiling flags.
    pub(crate) tiling: u64,
    /// Flags of user space.
    pub(crate) flags: u64,
    /// Length of `data` in bytes.
    pub(crate) bytes: u32,
    /// Metadata of user space.
    pub(crate) data: [u32; METADATA_WORDS],
}

impl Metadata {
    /// Those of a new BO.
    const NONE: Self = Self {
        tiling: 0,
        flags: 0,
        bytes: 0,
        data: [0; METADATA_WORDS],
    };
}

/// Driver part of a GEM object.
#[pin_data]
pub(crate) struct Shared {
    bo: Bo,
    partition: Option<u32>,
    /// Few BOs have any.
    #[pin]
    metadata: Mutex<Option<KBox<Metadata>>>,
}

/// GEM object of a BO.
pub(crate) type Object = gem::Object<Shared>;

impl Shared {
    /// Returns the BO.
    pub(crate) fn bo(&self) -> &Bo {
        &self.bo
    }

    /// Returns the partition of the file for which the BO was allocated, if it had one.
    pub(crate) fn partition(&self) -> Option<u32> {
        self.partition
    }

    /// Returns the metadata attached by user space.
    pub(crate) fn metadata(&self) -> Metadata {
        let stored = self.metadata.lock();
        stored.as_deref().cloned().unwrap_or(Metadata::NONE)
    }

    /// Calls `f` with the metadata, which it may change. `ENOMEM` without memory.
    pub(crate) fn change_metadata(&self, f: impl FnOnce(&mut Metadata)) -> Result {
        let mut stored = self.metadata.lock();
        if stored.is_none() {
            *stored = Some(KBox::new(Metadata::NONE, GFP_KERNEL)?);
        }
        stored.as_deref_mut().map(f).ok_or(ENOMEM)
    }
}

#[vtable]
impl DriverObject for Shared {
    fn is_registers(&self) -> bool {
        self.bo.is_registers()
    }

    fn may_share(&self) -> Result {
        match self.bo.preferred() {
            BoKind::Vram | BoKind::Gtt => Ok(()),
            // Doorbells belong to one process, and MMIO remap registers to the GPU.
            BoKind::Doorbell | BoKind::MmioRemap => Err(EINVAL),
            // The owner of a userptr can unmap its pages at any time.
            BoKind::User => Err(EPERM),
        }
    }

    fn may_map(&self) -> Result {
        let is_user = self.bo.preferred() == BoKind::User;
        // The owner of a userptr already maps it.
        if is_user || self.bo.flags().cpu_access == CpuAccess::Never {
            return Err(EPERM);
        }
        Ok(())
    }

    fn resv(&self) -> &Resv {
        self.bo.resv()
    }

    fn show_pages(
        &self,
        first: usize,
        wait: bool,
        f: &mut dyn FnMut(Frame<'_>, Caching) -> bool,
    ) -> Result {
        self.bo.show_pages(first, wait, &mut |frame, cache| {
            let caching = match cache {
                CpuCache::Cached => Caching::WriteBack,
                CpuCache::WriteCombined => Caching::WriteCombine,
                CpuCache::Uncached => Caching::Uncached,
            };
            f(frame, caching)
        })
    }

    fn wait_for_move(&self) -> Result {
        self.bo.resv().lock_interruptible().map(drop)
    }

    fn access(&self, at: usize, data: &mut RemoteAccess<'_>) -> Result {
        self.bo.access(at, data)
    }
}

/// Returns a new GEM object of a BO of a partition. `ENOMEM` without memory.
pub(crate) fn object(dev: &drm::Device, bo: Bo, partition: Option<u32>) -> Result<ARef<Object>> {
    let size = usize::try_from(bo.size())?;
    let object = Object::new(
        dev,
        size,
        try_pin_init!(Shared {
            bo,
            partition,
            metadata <- new_mutex!(None),
        }),
    )?;
    object.bo().set_view(object.view())?;
    Ok(object)
}

/// A GEM object with permission for one file of the render node to mmap it, until dropped.
pub(crate) struct Gem {
    object: HandleRef<Shared>,
    file: ARef<File>,
}

impl Gem {
    /// Permits `file`, a file of the render node of any GPU, to mmap `bo`, a BO of a partition.
    /// `EINVAL` for another file, `ENOMEM` without memory.
    pub(crate) fn new(bo: Bo, file: &File, partition: Option<u32>) -> Result<Self> {
        let dev = drm::device_of(file).ok_or(EINVAL)?;
        Self::of(HandleRef::new(object(dev, bo, partition)?), file)
    }

    /// Permits `file` to mmap the BO of a DMA buffer. `EINVAL` if the buffer is not of this driver,
    /// `EOPNOTSUPP` if it is of another GPU than `file`.
    pub(crate) fn import(buf: &DmaBuf, file: &File) -> Result<Self> {
        let object: HandleRef<Shared> = HandleRef::import(buf).ok_or(EINVAL)?;
        let dev = drm::device_of(file).ok_or(EINVAL)?;
        if !core::ptr::eq(object.device(), dev) {
            return Err(EOPNOTSUPP);
        }
        Self::of(object, file)
    }

    fn of(object: HandleRef<Shared>, file: &File) -> Result<Self> {
        object.allow(file)?;
        Ok(Self {
            object,
            file: file.into(),
        })
    }

    /// Exports the BO as a DMA buffer. `writable` has an effect on the first export only. `ENOMEM`
    /// without memory.
    pub(crate) fn export(&self, writable: bool) -> Result<DmaBuf> {
        self.object.export(writable)
    }

    /// Returns the offset for mmap in the file.
    pub(crate) fn mmap_offset(&self) -> u64 {
        self.object.mmap_offset()
    }

    /// Returns the BO.
    pub(crate) fn bo(&self) -> &Bo {
        self.object.bo()
    }
}

impl Drop for Gem {
    fn drop(&mut self) {
        self.object.revoke(&self.file);
    }
}
