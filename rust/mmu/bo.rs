// SPDX-License-Identifier: GPL-2.0

//! Buffer objects: memory that a process can map on a GPU.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{
    evict::{self, Victims},
    store::{Place, Store, System},
    user::{self, Keeper},
};
use crate::{
    doorbell::Slice,
    gpu::{account::Reservation, memory::VramRange, Gpu},
    kapi::{gem::View, resv::Resv},
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
    /// Memory of a process.
    User,
}

/// Whether the CPU accesses a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CpuAccess {
    /// It may.
    #[default]
    Possible,
    /// User space said that it will.
    Required,
    /// User space said that it will not.
    Never,
}

/// What the owner asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoFlags {
    /// No caching on the GPU.
    pub(crate) uncached: bool,
    /// Fine-grained coherence within the system.
    pub(crate) coherent: bool,
    /// Coherence across devices.
    pub(crate) ext_coherent: bool,
    /// One piece of VRAM.
    pub(crate) contiguous: bool,
    pub(crate) cpu_access: CpuAccess,
    /// Jobs do not wait for each other because both use it.
    pub(crate) explicit_sync: bool,
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

/// A buffer object.
pub(crate) struct Bo {
    /// Others that hold it for a moment, to move it, do not keep the object.
    store: Arc<Store>,
}

impl Bo {
    /// Allocates `size` bytes of zeroed VRAM, moving other buffers away if need be. `reservation`
    /// is kept as long as the memory.
    pub(crate) fn vram(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        reservation: Reservation,
    ) -> Result<Self> {
        gpu.mmio()?;
        let size = page_up(size)?;
        let range = evict::alloc(gpu, size, flags.contiguous, Victims::All)?;
        Self::in_vram(gpu, size, flags, range, Some(reservation))
    }

    /// Allocates `size` bytes of zeroed VRAM, moving other buffers away if need be, or of system
    /// memory as long as there is no room in VRAM.
    pub(crate) fn prefer_vram(gpu: &Arc<Gpu>, size: u64, flags: BoFlags) -> Result<Self> {
        gpu.mmio()?;
        let size = page_up(size)?;
        match evict::alloc(gpu, size, flags.contiguous, Victims::All) {
            Ok(range) => Self::in_vram(gpu, size, flags, range, None),
            Err(e) if e == ENOMEM => {
                let place = Place::System(System::new(gpu, size)?);
                Self::with(gpu, size, flags, BoKind::Vram, place, None)
            }
            Err(e) => Err(e),
        }
    }

    fn in_vram(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        range: VramRange,
        reservation: Option<Reservation>,
    ) -> Result<Self> {
        // The processor may have cleared it.
        gpu.hub().hdp_flush()?;
        let place = Place::Vram(Arc::new(range, GFP_KERNEL)?);
        Self::with(gpu, size, flags, BoKind::Vram, place, reservation)
    }

    /// Allocates `size` bytes of zeroed system memory.
    pub(crate) fn gtt(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        reservation: Option<Reservation>,
    ) -> Result<Self> {
        gpu.mmio()?;
        let size = page_up(size)?;
        let place = Place::System(System::new(gpu, size)?);
        Self::with(gpu, size, flags, BoKind::Gtt, place, reservation)
    }

    /// Makes the `size` bytes at `start` of the current process an object, which shows nothing until
    /// [`super::UserBuffer::refresh`]. Both are rounded to whole pages.
    pub(crate) fn user(
        gpu: &Arc<Gpu>,
        start: u64,
        size: u64,
        flags: BoFlags,
        keeper: Arc<dyn Keeper>,
        reservation: Reservation,
    ) -> Result<Self> {
        gpu.mmio()?;
        let size = page_up(size)?;
        let start = start / PAGE_SIZE as u64 * PAGE_SIZE as u64;
        let memory = user::watch(start, size, keeper)?;
        let store = Store::of_user(gpu, size, flags, memory, reservation)?;
        Ok(Self { store })
    }

    /// Makes the doorbells of a process an object.
    pub(crate) fn doorbell(slice: &Arc<Slice>, flags: BoFlags) -> Result<Self> {
        let gpu = slice.gpu();
        gpu.mmio()?;
        let place = Place::Doorbell(slice.clone());
        let size = slice.size() as u64;
        Self::with(gpu, size, flags, BoKind::Doorbell, place, None)
    }

    /// Makes the page with the HDP flush registers an object.
    pub(crate) fn mmio_remap(gpu: &Arc<Gpu>, flags: BoFlags) -> Result<Self> {
        gpu.mmio()?;
        let size = PAGE_SIZE as u64;
        let place = Place::MmioRemap;
        Self::with(gpu, size, flags, BoKind::MmioRemap, place, None)
    }

    fn with(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        preferred: BoKind,
        place: Place,
        reservation: Option<Reservation>,
    ) -> Result<Self> {
        let bo = Self {
            store: Store::new(gpu, size, flags, preferred, place, reservation)?,
        };
        if preferred == BoKind::Vram {
            gpu.evictable().add(&bo.store)?;
        }
        Ok(bo)
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The GPU that the object belongs to.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.store.gpu()
    }

    /// Where the owner wants the memory to be.
    pub(crate) fn preferred(&self) -> BoKind {
        self.store.preferred()
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn size(&self) -> u64 {
        self.store.size()
    }

    /// What the owner asked for.
    pub(crate) fn flags(&self) -> BoFlags {
        self.store.flags()
    }

    /// Who uses the memory. Its lock keeps the memory where it is.
    pub(crate) fn resv(&self) -> &Arc<Resv> {
        self.store.resv()
    }

    /// The CPU has to map it as registers.
    pub(super) fn is_registers(&self) -> bool {
        matches!(self.preferred(), BoKind::Doorbell | BoKind::MmioRemap)
    }

    /// Calls `f` with the CPU physical addresses of the pages from `first` on until it returns
    /// false or the last page is done. Waits for a move.
    pub(super) fn show_pages(
        &self,
        first: usize,
        f: &mut dyn FnMut(u64, CpuCache) -> bool,
    ) -> Result {
        let _held = self.resv().lock_interruptible()?;
        let place = self.store.place();
        let mut page = first;
        loop {
            match self.store.phys(&place, page) {
                Ok((phys, cache)) => {
                    if !f(phys, cache) {
                        return Ok(());
                    }
                }
                Err(e) if page == first => return Err(e),
                Err(_) => return Ok(()),
            }
            page += 1;
        }
    }

    /// Says how the CPU's mappings are taken away.
    pub(super) fn set_view(&self, view: View) -> Result {
        self.store.set_view(view)
    }

    /// The address of the first page for kernel queues (VMID 0). The caller holds the lock of the
    /// reservation; the address stays as long as unsignaled fences are in it.
    pub(crate) fn kernel_addr(&self) -> Result<u64> {
        self.store.kernel_addr()
    }

    /// Reads the 64-bit word at byte `at`; for objects that never leave system memory.
    pub(crate) fn read64(&self, at: usize) -> Result<u64> {
        self.store.fixed().ok_or(EINVAL)?.read64(at)
    }

    /// Writes the 64-bit word at byte `at`; for objects that never leave system memory.
    pub(crate) fn write64(&self, at: usize, value: u64) -> Result {
        self.store.fixed().ok_or(EINVAL)?.write64(at, value)
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        self.store.retire();
        self.store.gpu().evictable().remove(&self.store);
    }
}

fn page_up(size: u64) -> Result<u64> {
    size.checked_next_multiple_of(PAGE_SIZE as u64)
        .filter(|s| *s > 0)
        .ok_or(EINVAL)
}
