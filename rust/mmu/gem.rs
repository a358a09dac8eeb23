// SPDX-License-Identifier: GPL-2.0

//! Buffer objects as files of the render node know them: with a place to map them from, and handles.

use kernel::{
    fs::File,
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Mutex},
};

use super::{
    bo::BoRef,
    placement::{BoKind, CpuAccess, CpuCache},
};
use crate::kapi::{
    dmabuf::DmaBuf,
    drm,
    gem::{self, Caching, DriverObject, HandleRef},
    resv::Resv,
};

/// Words of the data that user space may attach to an object.
pub(crate) const METADATA_WORDS: usize = 64;

/// What user space attaches to an object for those who import it. The kernel does not look at it.
#[derive(Clone)]
pub(crate) struct Metadata {
    pub(crate) tiling: u64,
    pub(crate) flags: u64,
    pub(crate) bytes: u32,
    pub(crate) data: [u32; METADATA_WORDS],
}

/// What a GEM object holds.
#[pin_data]
pub(crate) struct Shared {
    bo: BoRef,
    #[pin]
    metadata: Mutex<Metadata>,
}

/// A GEM object.
pub(crate) type Object = gem::Object<Shared>;

impl Shared {
    /// The memory.
    pub(crate) fn bo(&self) -> &BoRef {
        &self.bo
    }

    /// What user space attached.
    pub(crate) fn metadata(&self) -> &Mutex<Metadata> {
        &self.metadata
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
            // Doorbells ring for one process, and the registers belong to the GPU.
            BoKind::Doorbell | BoKind::MmioRemap => Err(EINVAL),
            // Whoever owns the pages may take them away at any time.
            BoKind::User => Err(EPERM),
        }
    }

    fn may_map(&self) -> Result {
        let is_user = self.bo.preferred() == BoKind::User;
        // The process has its own view of its own memory.
        if is_user || self.bo.flags().cpu_access == CpuAccess::Never {
            return Err(EPERM);
        }
        Ok(())
    }

    fn resv(&self) -> &Resv {
        self.bo.resv()
    }

    fn show_pages(&self, first: usize, f: &mut dyn FnMut(u64, Caching) -> bool) -> Result {
        self.bo.show_pages(first, &mut |phys, cache| {
            let caching = match cache {
                CpuCache::Cached => Caching::WriteBack,
                CpuCache::WriteCombined => Caching::WriteCombine,
                CpuCache::Uncached => Caching::Uncached,
            };
            f(phys, caching)
        })
    }
}

/// Makes the GEM object of a buffer.
pub(crate) fn object(dev: &drm::Device, bo: BoRef) -> Result<ARef<Object>> {
    let size = usize::try_from(bo.size())?;
    let object = Object::new(
        dev,
        size,
        try_pin_init!(Shared {
            bo,
            metadata <- new_mutex!(Metadata {
                tiling: 0,
                flags: 0,
                bytes: 0,
                data: [0; METADATA_WORDS],
            }),
        }),
    )?;
    object.bo().set_view(object.view())?;
    Ok(object)
}

/// A buffer that one file of the render node may map, for as long as this lives.
pub(crate) struct Gem {
    object: HandleRef<Shared>,
    file: ARef<File>,
}

impl Gem {
    /// Lets `file`, an open file of the render node of any GPU, map `bo`.
    pub(crate) fn new(bo: BoRef, file: &File) -> Result<Self> {
        let dev = drm::device_of(file).ok_or(EINVAL)?;
        Self::of(HandleRef::new(object(dev, bo)?), file)
    }

    /// Lets `file` map the buffer that a DMA buffer shows. `EINVAL` if that is none of ours,
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

    /// The buffer as a file; whether the CPU may write to it says who first asks for it.
    pub(crate) fn export(&self, writable: bool) -> Result<DmaBuf> {
        self.object.export(writable)
    }

    /// Where in the file the buffer is mapped.
    pub(crate) fn mmap_offset(&self) -> u64 {
        self.object.mmap_offset()
    }

    /// The memory.
    pub(crate) fn bo(&self) -> &BoRef {
        self.object.bo()
    }
}

impl Drop for Gem {
    fn drop(&mut self) {
        self.object.revoke(&self.file);
    }
}
