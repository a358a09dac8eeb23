// SPDX-License-Identifier: GPL-2.0

//! The GART: system memory in the address space of VMID 0, and buffers in it (rings, MQDs, fences,
//! runlists).
//!
//! The table is one flat array of PTEs in VRAM, with a copy in system memory because VRAM may be
//! lost. Free pages are a bitmap. A [`GartMapping`] maps pages of BOs while SDMA copies them.

use kernel::{
    bitmap::BitmapVec,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    ptr::Alignment,
    sizes::*,
    sync::{barrier, Arc, Mutex},
};

use rkfd_abi::pte::HOLE_START;

use super::{
    hub::Hub,
    vram::{Vram, VramRange, VramUser},
};
use crate::{
    hw::{FlushType, McLayout},
    kapi::{
        bitmap::BitmapRanges,
        dma::{self, Access, Coherent},
    },
};

/// Bytes of the GART aperture.
const SIZE: u64 = 512 * SZ_1M as u64;
/// Bytes of a PTE.
const PTE_BYTES: usize = 8;
const FOUR_GIB: u64 = 4 * SZ_1G as u64;

/// Pages of the aperture.
struct PageTable {
    /// Pages in use.
    used: BitmapVec,
    in_use: usize,
    /// Pages in use that were unmapped and may be in TLBs.
    stale: BitmapVec,
    /// Number of calls of [`Self::keep`].
    failures: u64,
    /// Copy of the table.
    ptes: KVVec<u64>,
}

impl PageTable {
    fn new(pages: usize) -> Result<Self> {
        let mut used = BitmapVec::new(pages, GFP_KERNEL)?;
        // Address 0 stays unmapped: a null pointer faults.
        used.set_bit(0);
        let ptes = KVVec::<u64>::zeroed(pages, GFP_KERNEL)?;
        Ok(Self {
            used,
            in_use: 1,
            stale: BitmapVec::new(pages, GFP_KERNEL)?,
            failures: 0,
            ptes,
        })
    }

    /// Takes `count` consecutive pages, the first a multiple of `align`, a power of two. `ENOMEM`
    /// when there is no room, `EINVAL` for another `align`.
    fn take(&mut self, count: usize, align: usize) -> Result<usize> {
        let align = Alignment::new_checked(align).ok_or(EINVAL)?;
        let page = self.used.find_zero_area(count, align).ok_or(ENOMEM)?;
        self.used.set_range(page, count);
        self.in_use += count;
        Ok(page)
    }

    fn put(&mut self, page: usize, count: usize) {
        self.used.clear_range(page, count);
        self.in_use -= count;
    }

    /// Keeps unmapped pages until [`Self::put_stale`].
    fn keep(&mut self, page: usize, count: usize) {
        self.stale.set_range(page, count);
        self.failures += 1;
    }

    /// Puts the pages that were kept before [`Self::failures`] was `failures`, unless others were
    /// since.
    fn put_stale(&mut self, failures: u64) {
        if self.failures != failures {
            return;
        }
        let mut from = 0;
        while let Some(page) = self.stale.next_bit(from) {
            self.stale.clear_range(page, 1);
            self.put(page, 1);
            from = page + 1;
        }
    }
}

/// The GART of a card.
#[pin_data]
pub(crate) struct Gart {
    hub: Arc<Hub>,
    dma: Arc<dma::Device>,
    table: VramRange,
    start: u64,
    #[pin]
    pages: Mutex<PageTable>,
}

/// Returns the start of the aperture: beside the frame buffer, on a 4 GiB boundary, on the smaller
/// side that is large enough (`amdgpu_gmc_gart_location()`). `ENOSPC` when none is.
fn place(layout: &McLayout) -> Result<u64> {
    let before = layout.fb_start;
    let after_fb = layout
        .fb_end
        .checked_add(1)
        .ok_or(EINVAL)?
        .next_multiple_of(FOUR_GIB);
    let after = HOLE_START.saturating_sub(after_fb);
    if SIZE > before.max(after) {
        return Err(ENOSPC);
    }
    let start = if (before >= SIZE && before < after) || after < SIZE {
        0
    } else {
        HOLE_START - SIZE
    };
    Ok(start & !(FOUR_GIB - 1))
}

impl Gart {
    /// Pages of the aperture.
    pub(crate) const PAGES: usize = (SIZE / PAGE_SIZE as u64) as usize;
    /// Size in bytes of the table that [`Gart::new`] takes.
    pub(crate) const TABLE_BYTES: u64 = SIZE / PAGE_SIZE as u64 * PTE_BYTES as u64;

    /// Returns an empty GART with its PTEs in `table`. The hubs are not programmed yet. `EINVAL`
    /// when `table` is too small or in pieces.
    pub(crate) fn new(
        hub: Arc<Hub>,
        dma: Arc<dma::Device>,
        layout: &McLayout,
        table: VramRange,
    ) -> Result<Arc<Self>> {
        let start = place(layout)?;
        if table.size() < Self::TABLE_BYTES || table.run(0)?.1 < Self::TABLE_BYTES {
            return Err(EINVAL);
        }
        let pages = PageTable::new(Self::PAGES)?;
        Arc::pin_init(
            try_pin_init!(Self {
                hub,
                dma,
                table,
                start,
                pages <- new_mutex!(pages),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of pages in use.
    pub(crate) fn used_pages(&self) -> usize {
        self.pages.lock().in_use
    }

    /// Returns the first address of the aperture.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the last address of the aperture.
    pub(crate) fn end(&self) -> u64 {
        self.start + SIZE - 1
    }

    /// Returns the offset of the table in VRAM.
    pub(crate) fn table_offset(&self) -> u64 {
        self.table.start()
    }

    /// Writes the PTEs that `set` sets to table and copy. Under the lock, so that both stay the
    /// same.
    fn write(&self, page: usize, count: usize, set: impl FnOnce(&mut [u64]) -> Result) -> Result {
        let mut pages = self.pages.lock();
        let copy = pages.ptes.get_mut(page..page + count).ok_or(EINVAL)?;
        set(copy)?;
        self.write_table(page, copy)
    }

    fn write_table(&self, page: usize, ptes: &[u64]) -> Result {
        let at = usize::try_from(self.table.start())? + page * PTE_BYTES;
        self.table.vram().bar().write64s(at, ptes)
    }

    /// Rewrites the whole table. Complete after [`Self::flush`].
    pub(crate) fn restore(&self) -> Result {
        self.write_table(0, &self.pages.lock().ptes)
    }

    /// Makes the table visible to the GPU. `ETIMEDOUT` without an ACK of the TLBs.
    pub(crate) fn flush(&self) -> Result {
        let failures = self.pages.lock().failures;
        self.hub.hdp_flush()?;
        self.hub.flush_vmid(0, FlushType::Legacy)?;
        if failures != 0 {
            self.pages.lock().put_stale(failures);
        }
        Ok(())
    }

    /// Maps `count` pages of system memory from bus address `dma` on, at a multiple of `align`
    /// pages.
    fn map(self: &Arc<Self>, dma: u64, count: usize, align: usize) -> Result<Mapping> {
        self.map_runs(count, align, core::iter::once((dma, count)))
    }

    /// Maps `count` pages of system memory: bus address and number of pages of each contiguous
    /// part of them. `ENOMEM` when the aperture is full.
    fn map_runs(
        self: &Arc<Self>,
        count: usize,
        align: usize,
        runs: impl Iterator<Item = (u64, usize)>,
    ) -> Result<Mapping> {
        let page = self.pages.lock().take(count, align)?;
        // Dropped on error, which unmaps.
        let mapping = Mapping {
            gart: self.clone(),
            page,
            count,
        };
        let gmc = self.hub.generation().gmc;
        let flags = gmc.gart_flags();
        self.write(page, count, |ptes| {
            let mut left = ptes.iter_mut();
            for (dma, len) in runs {
                for (i, pte) in (0u64..).zip(left.by_ref().take(len)) {
                    *pte = gmc.leaf(0, dma + i * PAGE_SIZE as u64, flags, 0);
                }
            }
            Ok(())
        })?;
        self.flush()?;
        Ok(mapping)
    }

    /// Maps `len` bytes of `pages`, which are mapped for the card, from byte `at` on in VMID 0
    /// until the result is dropped. The pages have to outlive it. `ENOMEM` when the aperture is
    /// full.
    pub(crate) fn map_pages(
        self: &Arc<Self>,
        pages: &impl dma::Runs,
        at: u64,
        len: u64,
    ) -> Result<GartMapping> {
        let first = usize::try_from(at)? / PAGE_SIZE;
        let count = usize::try_from(len)?.div_ceil(PAGE_SIZE);
        self.map_runs(count, 1, pages.dma_runs(first..first + count)?)
            .map(GartMapping)
    }

    /// Maps `mem` in VMID 0 until the result is dropped, which `mem` has to outlive. `ENOMEM` when
    /// the aperture is full.
    pub(crate) fn map_coherent(self: &Arc<Self>, mem: &Coherent) -> Result<GartMapping> {
        self.map(mem.dma_address(), mem.size() / PAGE_SIZE, 1)
            .map(GartMapping)
    }

    fn unmap(&self, page: usize, count: usize) {
        // After an unbind there is no table; the pages are free either way.
        let clear = |ptes: &mut [u64]| {
            ptes.fill(0);
            Ok(())
        };
        let cleared = self.write(page, count, clear).and_then(|()| self.flush());
        if cleared.is_err_and(|e| e != ENODEV) {
            dev_err!(
                self.dma.dev(),
                "GART: {count} pages at {page} may be in TLBs and stay allocated until a flush\n"
            );
            self.pages.lock().keep(page, count);
            return;
        }
        self.pages.lock().put(page, count);
    }
}

/// A buffer of the driver that is contiguous for CPU and GPU: system memory mapped in the GART, or
/// VRAM accessed through the BAR.
pub(crate) struct Buffer {
    placement: BufferPlacement,
}

enum BufferPlacement {
    // Field order: the mapping goes before the memory.
    System {
        mapping: Mapping,
        mem: Coherent,
    },
    Vram {
        range: VramRange,
        addr: u64,
        hub: Arc<Hub>,
    },
}

struct Mapping {
    gart: Arc<Gart>,
    page: usize,
    count: usize,
}

impl Mapping {
    fn addr(&self) -> u64 {
        self.gart.start + (self.page * PAGE_SIZE) as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.gart.unmap(self.page, self.count);
    }
}

/// Pages of system memory mapped in VMID 0.
pub(crate) struct GartMapping(Mapping);

impl GartMapping {
    /// Returns the address in VMID 0.
    pub(crate) fn addr(&self) -> u64 {
        self.0.addr()
    }
}

/// A series of accesses to a [`Buffer`], see [`Buffer::access`].
pub(crate) enum BufferAccess<'a> {
    System(Access<'a>),
    Vram(&'a VramRange),
}

impl BufferAccess<'_> {
    /// Reads the dword at byte `at`. `EINVAL` beyond the end.
    pub(crate) fn read32(&self, at: usize) -> Result<u32> {
        match self {
            Self::System(access) => access.read32(at),
            Self::Vram(range) => range.vram().bar().read32(bar_offset(range, at, 4)?),
        }
    }

    /// Reads the qword at byte `at`. `EINVAL` beyond the end.
    pub(crate) fn read64(&self, at: usize) -> Result<u64> {
        match self {
            Self::System(access) => access.read64(at),
            Self::Vram(range) => range.vram().bar().read64(bar_offset(range, at, 8)?),
        }
    }

    /// Writes the dword at byte `at`. Visible to the GPU after [`Buffer::publish`]. `EINVAL` beyond
    /// the end.
    pub(crate) fn write32(&self, at: usize, value: u32) -> Result {
        match self {
            Self::System(access) => access.write32(at, value),
            Self::Vram(range) => range.vram().bar().write32(bar_offset(range, at, 4)?, value),
        }
    }

    /// Writes dwords from byte `at` on, 64 KiB at most, as [`BufferAccess::write32`].
    pub(crate) fn write32s(&self, at: usize, from: &[u32]) -> Result {
        match self {
            Self::System(access) => access.write32s(at, from),
            Self::Vram(range) => {
                let at = bar_offset(range, at, size_of_val(from))?;
                range.vram().bar().write32s(at, from)
            }
        }
    }

    /// Writes `value` to `count` dwords from byte `at` on, as [`BufferAccess::write32`].
    pub(crate) fn fill32(&self, at: usize, count: usize, value: u32) -> Result {
        match self {
            Self::System(access) => access.fill32(at, count, value),
            Self::Vram(range) => {
                let at = bar_offset(range, at, count.checked_mul(4).ok_or(EINVAL)?)?;
                let mut rest = 0..count;
                rest.try_for_each(|i| range.vram().bar().write32(at + i * 4, value))
            }
        }
    }

    /// Writes the qword at byte `at`, as [`BufferAccess::write32`].
    pub(crate) fn write64(&self, at: usize, value: u64) -> Result {
        match self {
            Self::System(access) => access.write64(at, value),
            Self::Vram(range) => range.vram().bar().write64(bar_offset(range, at, 8)?, value),
        }
    }
}

/// Returns the offset in the BAR of `len` bytes at `at` of `range`; `EINVAL` beyond its end.
fn bar_offset(range: &VramRange, at: usize, len: usize) -> Result<usize> {
    let end = at.checked_add(len).ok_or(EINVAL)?;
    if end as u64 > range.size() {
        return Err(EINVAL);
    }
    Ok(usize::try_from(range.start())? + at)
}

impl Buffer {
    /// Allocates a zeroed buffer of at least `size` bytes in system memory, at a GPU address that
    /// is a multiple of `align` bytes, a power of two. `ENOMEM` without memory or room in the GART.
    pub(crate) fn system(gart: &Arc<Gart>, size: usize, align: usize) -> Result<Self> {
        let mem = Coherent::new(&gart.dma, size)?;
        let align = align.div_ceil(PAGE_SIZE).max(1);
        let mapping = gart.map(mem.dma_address(), mem.size() / PAGE_SIZE, align)?;
        Ok(Self {
            placement: BufferPlacement::System { mapping, mem },
        })
    }

    /// Allocates a zeroed buffer of at least `size` bytes in VRAM for `user`. `vram_start` is the
    /// address of VRAM in VMID 0. Errors as [`Vram::alloc`].
    pub(crate) fn vram(
        hub: &Arc<Hub>,
        vram: &Arc<Vram>,
        vram_start: u64,
        size: usize,
        user: VramUser,
    ) -> Result<Self> {
        let range = vram.alloc(size as u64, user)?;
        Ok(Self {
            placement: BufferPlacement::Vram {
                addr: vram_start + range.start(),
                range,
                hub: hub.clone(),
            },
        })
    }

    /// Returns the address in VMID 0.
    pub(crate) fn gpu_addr(&self) -> u64 {
        match &self.placement {
            BufferPlacement::System { mapping, .. } => mapping.addr(),
            BufferPlacement::Vram { addr, .. } => *addr,
        }
    }

    /// Begins a series of accesses, which must be short and must not sleep. `ENODEV` when the
    /// driver was unbound, as all accesses.
    pub(crate) fn access(&self) -> Result<BufferAccess<'_>> {
        Ok(match &self.placement {
            BufferPlacement::System { mem, .. } => BufferAccess::System(mem.access()?),
            BufferPlacement::Vram { range, .. } => BufferAccess::Vram(range),
        })
    }

    /// See [`BufferAccess::read32`].
    pub(crate) fn read32(&self, at: usize) -> Result<u32> {
        self.access()?.read32(at)
    }

    /// See [`BufferAccess::read64`].
    pub(crate) fn read64(&self, at: usize) -> Result<u64> {
        self.access()?.read64(at)
    }

    /// See [`BufferAccess::write32`].
    pub(crate) fn write32(&self, at: usize, value: u32) -> Result {
        self.access()?.write32(at, value)
    }

    /// Writes dwords from byte `at` on, as [`Buffer::write32`].
    pub(crate) fn write32s(&self, at: usize, from: &[u32]) -> Result {
        match &self.placement {
            BufferPlacement::System { mem, .. } => mem.write32s(at, from),
            BufferPlacement::Vram { range, .. } => {
                let at = bar_offset(range, at, size_of_val(from))?;
                range.vram().bar().write32s(at, from)
            }
        }
    }

    /// See [`BufferAccess::write64`].
    pub(crate) fn write64(&self, at: usize, value: u64) -> Result {
        self.access()?.write64(at, value)
    }

    /// Copies bytes to byte `at`, as [`Buffer::write32`].
    pub(crate) fn write_bytes(&self, at: usize, from: &[u8]) -> Result {
        match &self.placement {
            BufferPlacement::System { mem, .. } => mem.write_bytes(at, from),
            BufferPlacement::Vram { range, .. } => range
                .vram()
                .bar()
                .write(bar_offset(range, at, from.len())?, from),
        }
    }

    /// Copies dwords to byte `at` and makes them visible to the GPU.
    pub(crate) fn write_dwords(&self, at: usize, from: &[u32]) -> Result {
        self.write32s(at, from)?;
        self.publish()
    }

    /// Copies dwords from byte `at` on to `to`. `EINVAL` beyond the end.
    pub(crate) fn read_dwords(&self, at: usize, to: &mut [u32]) -> Result {
        match &self.placement {
            BufferPlacement::System { mem, .. } => mem.read32s(at, to),
            BufferPlacement::Vram { range, .. } => {
                let at = bar_offset(range, at, size_of_val(to))?;
                range.vram().bar().read32s(at, to)
            }
        }
    }

    /// Makes writes of the CPU visible to the GPU: a memory barrier, or an HDP flush.
    pub(crate) fn publish(&self) -> Result {
        match &self.placement {
            BufferPlacement::System { .. } => {
                barrier::mb(barrier::Full);
                Ok(())
            }
            BufferPlacement::Vram { hub, .. } => hub.hdp_flush(),
        }
    }
}
