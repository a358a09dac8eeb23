// SPDX-License-Identifier: GPL-2.0

//! The GART: the address space of VMID 0 in which the kernel's own system memory appears to the
//! GPU, and buffers in it (rings, MQDs, fences, runlists).
//!
//! It is one flat table of PTEs in VRAM, with a copy in memory, as VRAM may be lost. Free page numbers
//! are a bitmap. A [`Window`] shows memory of buffers to the DMA engines while they copy it.

use kernel::{
    device, new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sizes::*,
    sync::{barrier, Arc, Mutex},
};

use super::{
    hub::Hub,
    memory::{Vram, VramRange},
};
use crate::{
    hw::{FlushType, McLayout},
    kapi::dma::{Coherent, Pages},
};

/// Bytes of the GART aperture.
const SIZE: u64 = 512 * SZ_1M as u64;
/// Bytes of a PTE.
const PTE_BYTES: usize = 8;
const FOUR_GIB: u64 = 4 * SZ_1G as u64;
/// The hubs cannot address the hole in the middle of the address space: lowest address of it.
const HOLE_START: u64 = 0x8000_0000_0000;

/// Free and used pages of the aperture.
struct Bitmap {
    words: KVVec<u64>,
    pages: usize,
    /// What the table holds.
    ptes: KVVec<u64>,
}

impl Bitmap {
    fn new(pages: usize) -> Result<Self> {
        let words = KVVec::from_elem(0u64, pages.div_ceil(64), GFP_KERNEL)?;
        let ptes = KVVec::from_elem(0u64, pages, GFP_KERNEL)?;
        Ok(Self { words, pages, ptes })
    }

    fn is_set(&self, page: usize) -> bool {
        self.words[page / 64] & (1 << (page % 64)) != 0
    }

    fn set(&mut self, page: usize, used: bool) {
        if used {
            self.words[page / 64] |= 1 << (page % 64);
        } else {
            self.words[page / 64] &= !(1 << (page % 64));
        }
    }

    /// Takes `count` pages in a row, the first of them a multiple of `align`.
    fn take(&mut self, count: usize, align: usize) -> Option<usize> {
        let mut start = 0;
        while start + count <= self.pages {
            match (start..start + count).rev().find(|p| self.is_set(*p)) {
                Some(used) => start = (used + 1).next_multiple_of(align),
                None => {
                    for page in start..start + count {
                        self.set(page, true);
                    }
                    return Some(start);
                }
            }
        }
        None
    }
}

/// The GART of a GPU.
#[pin_data]
pub(crate) struct Gart {
    hub: Arc<Hub>,
    table: VramRange,
    start: u64,
    #[pin]
    pages: Mutex<Bitmap>,
}

/// Where the aperture goes: beside the frame buffer, on a 4 GiB boundary, on the side with less
/// room that is still enough.
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
    /// Bytes of the table that [`Gart::new`] wants.
    pub(crate) const TABLE_BYTES: u64 = SIZE / PAGE_SIZE as u64 * PTE_BYTES as u64;

    /// Makes an empty GART with its table in `table`. The hubs are not told yet.
    pub(crate) fn new(hub: Arc<Hub>, layout: &McLayout, table: VramRange) -> Result<Arc<Self>> {
        let start = place(layout)?;
        if table.size() < Self::TABLE_BYTES || table.run(0)?.1 < Self::TABLE_BYTES {
            return Err(EINVAL);
        }
        let mut map = Bitmap::new((SIZE / PAGE_SIZE as u64) as usize)?;
        // Address 0 stays free: a forgotten pointer shall fault.
        map.set(0, true);
        Arc::pin_init(
            try_pin_init!(Self {
                hub,
                table,
                start,
                pages <- new_mutex!(map),
            }),
            GFP_KERNEL,
        )
    }

    /// First byte of the aperture.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Last byte of the aperture.
    pub(crate) fn end(&self) -> u64 {
        self.start + SIZE - 1
    }

    /// Offset of the table in VRAM.
    pub(crate) fn table_offset(&self) -> u64 {
        self.table.start()
    }

    /// Writes entries. Under the lock, so that table and copy stay the same.
    fn write(&self, page: usize, count: usize, mut pte: impl FnMut(usize) -> u64) -> Result {
        let mut pages = self.pages.lock();
        let copy = pages.ptes.get_mut(page..page + count).ok_or(EINVAL)?;
        for (i, entry) in copy.iter_mut().enumerate() {
            *entry = pte(i);
        }
        self.write_table(page, copy)
    }

    fn write_table(&self, page: usize, ptes: &[u64]) -> Result {
        let at = usize::try_from(self.table.start())? + page * PTE_BYTES;
        let bar = self.table.vram().bar();
        bar.write64s(at, ptes.len(), |i| ptes[i])
    }

    /// Writes the whole table once more. The caller flushes the host data path and the TLBs.
    pub(crate) fn restore(&self) -> Result {
        self.write_table(0, &self.pages.lock().ptes)
    }

    fn flush(&self) -> Result {
        self.hub.hdp_flush()?;
        self.hub.flush_vmid(0, FlushType::Legacy)
    }

    /// Maps `count` pages of system memory that start at bus address `dma`, to an address that is a
    /// multiple of `align` pages.
    fn map(self: &Arc<Self>, dma: u64, count: usize, align: usize) -> Result<Mapping> {
        self.map_runs(count, align, |i| {
            Ok((dma + (i * PAGE_SIZE) as u64, count - i))
        })
    }

    /// Maps `count` pages of system memory. `run(i)` says at which bus address page `i` is and how
    /// many pages follow there in one piece.
    fn map_runs(
        self: &Arc<Self>,
        count: usize,
        align: usize,
        run: impl Fn(usize) -> Result<(u64, usize)>,
    ) -> Result<Mapping> {
        let page = self.pages.lock().take(count, align).ok_or(ENOMEM)?;
        // Dropped on error, which unmaps.
        let mapping = Mapping {
            gart: self.clone(),
            page,
            count,
        };
        let gmc = self.hub.generation().gmc;
        let flags = gmc.gart_flags();
        let mut done = 0;
        while done < count {
            let (dma, len) = run(done)?;
            let len = len.min(count - done);
            self.write(page + done, len, |i| {
                gmc.leaf(0, dma + (i * PAGE_SIZE) as u64, flags, 0)
            })?;
            done += len;
        }
        self.flush()?;
        Ok(mapping)
    }

    /// Shows `len` bytes of `pages` from byte `at` on to kernel queues, as long as the result
    /// lives. The pages have to live longer.
    pub(crate) fn window(self: &Arc<Self>, pages: &Pages, at: u64, len: u64) -> Result<Window> {
        let first = usize::try_from(at)? / PAGE_SIZE;
        let count = usize::try_from(len)?.div_ceil(PAGE_SIZE);
        self.map_runs(count, 1, |i| pages.dma_run(first + i))
            .map(Window)
    }

    fn unmap(&self, page: usize, count: usize) {
        // When the device is gone there is no table any more; the pages are free either way.
        let cleared = self.write(page, count, |_| 0).and_then(|()| self.flush());
        if cleared.is_err_and(|e| e != ENODEV) {
            pr_err!("GART: {count} pages at {page} could not be unmapped, they stay in use\n");
            return;
        }
        let mut pages = self.pages.lock();
        for p in page..page + count {
            pages.set(p, false);
        }
    }
}

/// Kernel memory that CPU and GPU share, contiguous for both: system memory mapped in the GART,
/// or VRAM reached through the BAR.
pub(crate) struct Buffer {
    place: Place,
}

enum Place {
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

/// System memory that kernel queues of the GPU reach for a while.
pub(crate) struct Window(Mapping);

impl Window {
    /// Its address for kernel queues of the GPU (VMID 0).
    pub(crate) fn addr(&self) -> u64 {
        self.0.addr()
    }
}

impl Buffer {
    /// Allocates a zeroed buffer of at least `size` bytes in system memory. Its address for the GPU
    /// is a multiple of `align`.
    pub(crate) fn system(
        gart: &Arc<Gart>,
        dev: &device::Device,
        size: usize,
        align: usize,
    ) -> Result<Self> {
        let mem = Coherent::new(dev, size)?;
        let align = align.div_ceil(PAGE_SIZE).max(1);
        let mapping = gart.map(mem.dma_address(), mem.size() / PAGE_SIZE, align)?;
        Ok(Self {
            place: Place::System { mapping, mem },
        })
    }

    /// Allocates a zeroed buffer of at least `size` bytes in VRAM. `fb_start` is where VRAM
    /// begins for the hubs.
    pub(crate) fn vram(
        hub: &Arc<Hub>,
        vram: &Arc<Vram>,
        fb_start: u64,
        size: usize,
    ) -> Result<Self> {
        let range = vram.alloc(size as u64, true)?;
        Ok(Self {
            place: Place::Vram {
                addr: fb_start + range.start(),
                range,
                hub: hub.clone(),
            },
        })
    }

    /// The address of the buffer for kernel queues of the GPU (VMID 0).
    pub(crate) fn gpu_addr(&self) -> u64 {
        match &self.place {
            Place::System { mapping, .. } => mapping.addr(),
            Place::Vram { addr, .. } => *addr,
        }
    }

    fn bar_offset(&self, range: &VramRange, at: usize, len: usize) -> Result<usize> {
        let end = at.checked_add(len).ok_or(EINVAL)?;
        if end as u64 > range.size() {
            return Err(EINVAL);
        }
        Ok(usize::try_from(range.start())? + at)
    }

    /// Reads the 32-bit word at byte `at`.
    pub(crate) fn read32(&self, at: usize) -> Result<u32> {
        match &self.place {
            Place::System { mem, .. } => mem.read32(at),
            Place::Vram { range, .. } => range.vram().bar().read32(self.bar_offset(range, at, 4)?),
        }
    }

    /// Reads the 64-bit word at byte `at`.
    pub(crate) fn read64(&self, at: usize) -> Result<u64> {
        match &self.place {
            Place::System { mem, .. } => mem.read64(at),
            Place::Vram { range, .. } => range.vram().bar().read64(self.bar_offset(range, at, 8)?),
        }
    }

    /// Writes the 32-bit word at byte `at`. In VRAM it reaches the GPU with [`Buffer::publish`].
    pub(crate) fn write32(&self, at: usize, value: u32) -> Result {
        match &self.place {
            Place::System { mem, .. } => mem.write32(at, value),
            Place::Vram { .. } => self.write32s(at, &[value]),
        }
    }

    /// Writes 32-bit words from byte `at` on. In VRAM they reach the GPU with [`Buffer::publish`].
    pub(crate) fn write32s(&self, at: usize, from: &[u32]) -> Result {
        match &self.place {
            Place::System { mem, .. } => mem.write32s(at, from),
            Place::Vram { range, .. } => {
                let at = self.bar_offset(range, at, size_of_val(from))?;
                range.vram().bar().write32s(at, from)
            }
        }
    }

    /// Writes the 64-bit word at byte `at`. In VRAM it reaches the GPU with [`Buffer::publish`].
    pub(crate) fn write64(&self, at: usize, value: u64) -> Result {
        match &self.place {
            Place::System { mem, .. } => mem.write64(at, value),
            Place::Vram { range, .. } => range
                .vram()
                .bar()
                .write64(self.bar_offset(range, at, 8)?, value),
        }
    }

    /// Copies bytes to the byte offset `at`. In VRAM they reach the GPU with [`Buffer::publish`].
    pub(crate) fn write_bytes(&self, at: usize, from: &[u8]) -> Result {
        match &self.place {
            Place::System { mem, .. } => mem.write_bytes(at, from),
            Place::Vram { range, .. } => range
                .vram()
                .bar()
                .write(self.bar_offset(range, at, from.len())?, from),
        }
    }

    /// Copies words from `from` to the byte offset `at` and makes them visible to the GPU.
    pub(crate) fn write_dwords(&self, at: usize, from: &[u32]) -> Result {
        self.write32s(at, from)?;
        self.publish()
    }

    /// Copies words from the byte offset `at` into `to`.
    pub(crate) fn read_dwords(&self, at: usize, to: &mut [u32]) -> Result {
        match &self.place {
            Place::System { mem, .. } => mem.read32s(at, to),
            Place::Vram { range, .. } => {
                let at = self.bar_offset(range, at, size_of_val(to))?;
                range.vram().bar().read32s(at, to)
            }
        }
    }

    /// Makes the CPU's writes visible to the GPU.
    pub(crate) fn publish(&self) -> Result {
        match &self.place {
            Place::System { .. } => {
                barrier::mb(barrier::Full);
                Ok(())
            }
            Place::Vram { hub, .. } => hub.hdp_flush(),
        }
    }
}
