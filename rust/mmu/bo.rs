// SPDX-License-Identifier: GPL-2.0

//! Buffer objects: memory that a process can map on a GPU.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use crate::{
    doorbell::Slice,
    gpu::{memory::VramRange, Gpu},
    hw::PteAttrs,
    kapi::dma::Pages,
};

/// A counted reference to a buffer object.
pub(crate) type BoRef = Arc<Bo>;

/// Where the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoKind {
    /// VRAM of the object's GPU.
    Vram,
    /// System memory that the object owns.
    Gtt,
    /// The doorbells of a process.
    Doorbell,
    /// The page with the HDP flush registers.
    MmioRemap,
}

/// What the owner asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoFlags {
    /// The GPU may write.
    pub(crate) writable: bool,
    /// The GPU may fetch shaders from it.
    pub(crate) executable: bool,
    /// No caching on the GPU.
    pub(crate) uncached: bool,
    /// Fine-grained coherence within the system.
    pub(crate) coherent: bool,
    /// Coherence across devices.
    pub(crate) ext_coherent: bool,
    /// One piece of VRAM.
    pub(crate) contiguous: bool,
    /// User space wants to map it to the CPU.
    pub(crate) public: bool,
}

/// How the CPU has to map a page of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuCache {
    /// Ordinary memory.
    Cached,
    /// Device memory without side effects.
    WriteCombined,
    /// Registers.
    Uncached,
}

enum Backing {
    Vram(VramRange),
    System(Pages),
    Doorbell(Arc<Slice>),
    MmioRemap,
}

/// A buffer object.
pub(crate) struct Bo {
    // Field order: the memory goes before the GPU that it is memory of.
    backing: Backing,
    gpu: Arc<Gpu>,
    size: u64,
    flags: BoFlags,
}

impl Bo {
    /// Allocates `size` bytes of zeroed VRAM.
    pub(crate) fn vram(gpu: &Arc<Gpu>, size: u64, flags: BoFlags) -> Result<Self> {
        gpu.mmio()?;
        let size = page_up(size)?;
        let range = gpu.vram().alloc(size, flags.contiguous)?;
        range.clear()?;
        gpu.hub().hdp_flush()?;
        Ok(Self::with(gpu, size, flags, Backing::Vram(range)))
    }

    /// Allocates `size` bytes of zeroed system memory.
    pub(crate) fn gtt(gpu: &Arc<Gpu>, size: u64, flags: BoFlags) -> Result<Self> {
        gpu.mmio()?;
        let size = page_up(size)?;
        gpu.take_gtt(size)?;
        let pages = usize::try_from(size)
            .map_err(Error::from)
            .and_then(|bytes| Pages::new(gpu.dev(), bytes))
            .inspect_err(|_| gpu.gtt_given_back(size))?;
        Ok(Self::with(gpu, size, flags, Backing::System(pages)))
    }

    /// Makes the doorbells of a process an object.
    pub(crate) fn doorbell(slice: &Arc<Slice>, flags: BoFlags) -> Result<Self> {
        let gpu = slice.gpu();
        gpu.mmio()?;
        let size = slice.size() as u64;
        Ok(Self::with(
            gpu,
            size,
            flags,
            Backing::Doorbell(slice.clone()),
        ))
    }

    /// Makes the page with the HDP flush registers an object.
    pub(crate) fn mmio_remap(gpu: &Arc<Gpu>, flags: BoFlags) -> Result<Self> {
        gpu.mmio()?;
        Ok(Self::with(gpu, PAGE_SIZE as u64, flags, Backing::MmioRemap))
    }

    fn with(gpu: &Arc<Gpu>, size: u64, flags: BoFlags, backing: Backing) -> Self {
        Self {
            backing,
            gpu: gpu.clone(),
            size,
            flags,
        }
    }

    /// Where the memory is.
    pub(crate) fn kind(&self) -> BoKind {
        match self.backing {
            Backing::Vram(_) => BoKind::Vram,
            Backing::System(_) => BoKind::Gtt,
            Backing::Doorbell(_) => BoKind::Doorbell,
            Backing::MmioRemap => BoKind::MmioRemap,
        }
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// What the owner asked for.
    pub(crate) fn flags(&self) -> BoFlags {
        self.flags
    }

    /// How the CPU has to map it.
    pub(crate) fn cpu_cache(&self) -> CpuCache {
        match self.backing {
            Backing::Vram(_) => CpuCache::WriteCombined,
            Backing::System(_) => CpuCache::Cached,
            Backing::Doorbell(_) | Backing::MmioRemap => CpuCache::Uncached,
        }
    }

    /// The CPU physical address of page `page`, for mapping it to user space.
    pub(crate) fn phys(&self, page: usize) -> Result<u64> {
        let at = (page * PAGE_SIZE) as u64;
        if at >= self.size {
            return Err(EINVAL);
        }
        // A page of a device that has been left must not get new users.
        match &self.backing {
            Backing::System(pages) => pages.phys(page),
            Backing::Vram(range) => {
                self.gpu.mmio()?;
                Ok(self.gpu.vram().bar().phys() + range.run(at)?.0)
            }
            Backing::Doorbell(slice) => {
                self.gpu.mmio()?;
                Ok(slice.phys() + at)
            }
            Backing::MmioRemap => {
                self.gpu.mmio()?;
                Ok(self.gpu.hdp_remap_phys())
            }
        }
    }

    /// The address that page tables of `gpu` use for byte `at`, how many bytes follow in one
    /// piece, and what kind of memory it is.
    pub(super) fn run(&self, gpu: &Gpu, at: u64) -> Result<(u64, u64)> {
        if at >= self.size {
            return Err(EINVAL);
        }
        let left = self.size - at;
        let (addr, len) = match &self.backing {
            Backing::Vram(range) => {
                if !core::ptr::eq(gpu, &*self.gpu) {
                    // Peers reach each other's VRAM over the bus, which is not there yet.
                    return Err(EOPNOTSUPP);
                }
                let (offset, len) = range.run(at)?;
                (gpu.vram_pa(offset), len)
            }
            Backing::System(pages) => {
                let page = usize::try_from(at)? / PAGE_SIZE;
                let (dma, count) = pages.dma_run(page)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            Backing::Doorbell(slice) => (slice.phys() + at, left),
            Backing::MmioRemap => (self.gpu.hdp_remap_phys() + at, left),
        };
        Ok((addr, len.min(left)))
    }

    /// What a mapping of the object may do.
    pub(super) fn attrs(&self) -> PteAttrs {
        let io = matches!(self.backing, Backing::Doorbell(_) | Backing::MmioRemap);
        PteAttrs {
            system: !matches!(self.backing, Backing::Vram(_)),
            read: true,
            write: self.flags.writable,
            exec: self.flags.executable,
            uncached: self.flags.uncached || io,
            ext_coherent: self.flags.ext_coherent,
            io,
        }
    }

    /// Reads the 64-bit word at byte `at`; for objects in system memory.
    pub(crate) fn read64(&self, at: usize) -> Result<u64> {
        match &self.backing {
            Backing::System(pages) => pages.read64(at),
            _ => Err(EINVAL),
        }
    }

    /// Writes the 64-bit word at byte `at`; for objects in system memory.
    pub(crate) fn write64(&self, at: usize, value: u64) -> Result {
        match &self.backing {
            Backing::System(pages) => pages.write64(at, value),
            _ => Err(EINVAL),
        }
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        if matches!(self.backing, Backing::System(_)) {
            self.gpu.gtt_given_back(self.size);
        }
    }
}

fn page_up(size: u64) -> Result<u64> {
    size.checked_next_multiple_of(PAGE_SIZE as u64)
        .filter(|s| *s > 0)
        .ok_or(EINVAL)
}
