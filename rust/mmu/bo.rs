// SPDX-License-Identifier: GPL-2.0

//! Buffer objects: allocation, identity and CPU access.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{
    evict,
    inner::BoInner,
    placement::{BoFlags, BoKind, CpuCache, KernelAddr, Placement, SystemPages},
    userptr::{self, UserptrNotifier},
};
use crate::{
    card::{
        account::Reservation,
        vram::{VramRange, VramUser},
    },
    doorbell::DoorbellPages,
    gpu::{
        lru::{MoveBudget, Victims},
        Gpu,
    },
    kapi::{
        gem::{Frame, RemoteAccess, View},
        resv::Resv,
    },
};

/// A counted reference to a BO. Dropping the last one frees its memory once the GPU has stopped
/// using it.
pub(crate) struct Bo {
    inner: Arc<BoInner>,
}

impl Bo {
    /// Allocates `size` zeroed bytes in VRAM, with eviction. `reservation` lives as long as the
    /// memory. `ENOMEM` without room, `ENODEV` when the device is unplugged, `EIO` when the GPU
    /// stays hung, `ERESTARTSYS` after a signal.
    pub(crate) fn vram(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        reservation: Reservation,
    ) -> Result<Self> {
        gpu.check_plugged()?;
        let size = page_up(size)?;
        let range = evict::alloc(gpu, VramUser::Process, size, flags, Victims::All)?;
        Self::in_vram(gpu, size, flags, range, Some(reservation))
    }

    /// Allocates `size` zeroed bytes in VRAM, with eviction, or in system memory while there is no
    /// room in VRAM. Errors as [`Bo::vram`].
    pub(crate) fn prefer_vram(gpu: &Arc<Gpu>, size: u64, flags: BoFlags) -> Result<Self> {
        gpu.check_plugged()?;
        let size = page_up(size)?;
        match evict::alloc(gpu, VramUser::Render, size, flags, Victims::All) {
            Ok(range) => Self::in_vram(gpu, size, flags, range, None),
            Err(e) if e == ENOMEM => {
                let placement = Placement::System(SystemPages::new(gpu.card(), size)?);
                Self::with(gpu, size, flags, BoKind::Vram, placement, None)
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
        let placement = Placement::Vram(Arc::new(range, GFP_KERNEL)?);
        Self::with(gpu, size, flags, BoKind::Vram, placement, reservation)
    }

    /// Allocates `size` zeroed bytes in system memory. `ENOMEM` without memory or beyond the GTT
    /// limit, `ENODEV` when the device is unplugged.
    pub(crate) fn gtt(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        reservation: Option<Reservation>,
    ) -> Result<Self> {
        gpu.check_plugged()?;
        let size = page_up(size)?;
        let placement = Placement::System(SystemPages::new(gpu.card(), size)?);
        Self::with(gpu, size, flags, BoKind::Gtt, placement, reservation)
    }

    /// Returns a userptr BO of the `size` bytes at `start` of the current process, rounded to whole
    /// pages. It has no valid pages until [`super::UserBuffer::refresh`]. `EINVAL` for a bad range,
    /// `ENOMEM` without memory, `ENODEV` when the device is unplugged.
    pub(crate) fn user(
        gpu: &Arc<Gpu>,
        start: u64,
        size: u64,
        flags: BoFlags,
        notifier: Arc<dyn UserptrNotifier>,
        reservation: Reservation,
    ) -> Result<Self> {
        gpu.check_plugged()?;
        let size = page_up(size)?;
        let start = start / PAGE_SIZE as u64 * PAGE_SIZE as u64;
        let memory = userptr::watch(start, size, notifier)?;
        let inner = BoInner::of_user(gpu, size, flags, memory, reservation)?;
        Ok(Self { inner })
    }

    /// Returns a BO of doorbells of `gpu`. `ENODEV` when the device is unplugged.
    pub(crate) fn doorbell(
        gpu: &Arc<Gpu>,
        pages: &Arc<DoorbellPages>,
        flags: BoFlags,
    ) -> Result<Self> {
        gpu.check_plugged()?;
        let placement = Placement::Doorbell(pages.clone());
        let size = pages.size() as u64;
        Self::with(gpu, size, flags, BoKind::Doorbell, placement, None)
    }

    /// Returns a BO of the page with the remapped HDP flush registers. `ENODEV` when the device is
    /// unplugged.
    pub(crate) fn mmio_remap(gpu: &Arc<Gpu>, flags: BoFlags) -> Result<Self> {
        gpu.check_plugged()?;
        let size = PAGE_SIZE as u64;
        let placement = Placement::MmioRemap;
        Self::with(gpu, size, flags, BoKind::MmioRemap, placement, None)
    }

    fn with(
        gpu: &Arc<Gpu>,
        size: u64,
        flags: BoFlags,
        preferred: BoKind,
        placement: Placement,
        reservation: Option<Reservation>,
    ) -> Result<Self> {
        let bo = Self {
            inner: BoInner::new(gpu, size, flags, preferred, placement, reservation)?,
        };
        if preferred == BoKind::Vram {
            gpu.lru().add(bo.inner.clone())?;
        }
        Ok(bo)
    }

    /// Returns a number that is unique among the BOs that exist.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Returns the memory.
    pub(super) fn inner(&self) -> &Arc<BoInner> {
        &self.inner
    }

    /// Returns the device that the BO belongs to.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.inner.gpu()
    }

    /// Returns the preferred placement.
    pub(crate) fn preferred(&self) -> BoKind {
        self.inner.preferred()
    }

    /// Returns whether it is memory of the process (userptr).
    pub(crate) fn is_user(&self) -> bool {
        self.inner.user().is_some()
    }

    /// Returns the doorbells of a BO of [`Bo::doorbell`].
    pub(crate) fn doorbells(&self) -> Option<Arc<DoorbellPages>> {
        match self.inner.placement() {
            Placement::Doorbell(pages) => Some(pages),
            _ => None,
        }
    }

    /// Returns the size in bytes, a multiple of the page size.
    pub(crate) fn size(&self) -> u64 {
        self.inner.size()
    }

    /// Returns the allocation flags.
    pub(crate) fn flags(&self) -> BoFlags {
        self.inner.flags()
    }

    /// Returns the reservation. The BO does not move while it is locked.
    pub(crate) fn resv(&self) -> &Arc<Resv> {
        self.inner.resv()
    }

    /// Returns whether CPU mappings are of registers.
    pub(super) fn is_registers(&self) -> bool {
        matches!(self.preferred(), BoKind::Doorbell | BoKind::MmioRemap)
    }

    /// Calls `f` with the pages from `first` on and their caching, until it returns false or the
    /// last page is done. Waits for a move, or without `wait` returns `EBUSY`. `EINVAL` beyond the
    /// end, `ENODEV` when the device is unplugged, `ERESTARTSYS` after a signal.
    pub(super) fn show_pages(
        &self,
        first: usize,
        wait: bool,
        f: &mut dyn FnMut(Frame<'_>, CpuCache) -> bool,
    ) -> Result {
        let _held = if wait {
            self.resv().lock_interruptible()?
        } else {
            self.resv().try_lock().ok_or(EBUSY)?
        };
        let placement = self.inner.placement();
        let mut page = first;
        loop {
            match self.inner.frame(&placement, page) {
                Ok((frame, cache)) => {
                    if !f(frame, cache) {
                        return Ok(());
                    }
                }
                Err(e) if page == first => return Err(e),
                Err(_) => return Ok(()),
            }
            page += 1;
        }
    }

    /// Reads or writes the bytes at `at`, within one page. Waits for a move. Errors as those of
    /// [`BoInner::access`], `ERESTARTSYS` after a signal.
    pub(super) fn access(&self, at: usize, data: &mut RemoteAccess<'_>) -> Result {
        let _held = self.resv().lock_interruptible()?;
        self.inner.access(&self.inner.placement(), at, data)
    }

    /// Sets how CPU mappings are zapped. `EEXIST` if it was set before.
    pub(super) fn set_view(&self, view: View) -> Result {
        self.inner.set_view(view)
    }

    /// Returns the address of the first page in VMID 0, valid while the reservation is locked or
    /// holds unsignaled fences. `EINVAL` for other memory than VRAM and system memory, `ENOMEM`
    /// when the GART, or the half of it that BOs may take, is full.
    pub(crate) fn kernel_addr(&self) -> Result<KernelAddr> {
        self.inner.kernel_addr()
    }

    /// Reads the qword at byte `at`. `EINVAL` if the BO may leave system memory, or beyond the end.
    pub(crate) fn read64(&self, at: usize) -> Result<u64> {
        self.inner.fixed().ok_or(EINVAL)?.read64(at)
    }

    /// Writes the qword at byte `at`. `EINVAL` if the BO may leave system memory, or beyond the
    /// end.
    pub(crate) fn write64(&self, at: usize, value: u64) -> Result {
        self.inner.fixed().ok_or(EINVAL)?.write64(at, value)
    }
}

impl Clone for Bo {
    fn clone(&self) -> Self {
        self.inner.refs.inc();
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        if self.inner.refs.dec_and_test() {
            self.inner.retire();
            self.inner.gpu().lru().remove(&*self.inner);
        }
    }
}

fn page_up(size: u64) -> Result<u64> {
    size.checked_next_multiple_of(PAGE_SIZE as u64)
        .filter(|s| *s > 0)
        .ok_or(EINVAL)
}

/// Validates a BO for a job, see [`evict::validate_for_job`], unless its BOs have moved enough.
pub(crate) fn validate_within(bo: &Bo, budget: &mut MoveBudget<'_>) -> Result {
    if budget.is_spent() {
        bo.gpu().lru().touch(&**bo.inner());
        return Ok(());
    }
    // The reservation, which is locked, excludes moves by others.
    let was_in_vram = bo.inner().in_vram();
    evict::validate_for_job(bo.inner())?;
    if bo.inner().in_vram() && !was_in_vram {
        budget.add(bo.size());
    }
    Ok(())
}

/// See [`evict::validate_inner`].
pub(crate) fn validate(bo: &Bo) -> Result {
    evict::validate_inner(bo.inner())
}
