// SPDX-License-Identifier: GPL-2.0

//! Doorbells: the BAR, the part of it that the kernel keeps, and the slices of processes.
//!
//! A doorbell is known by the index of its 32-bit word in the BAR; it is 64 bits wide. Slices are
//! 8 KiB, one per process and GPU, and user space maps exactly one.

use kernel::{
    device::Core,
    devres::DevresLt,
    io::Io,
    new_mutex,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::{
    gpu::Gpu,
    hw::{Caps, SdmaPlace},
};

/// The BAR of the doorbells.
const BAR: u32 = 2;
/// Bytes of a doorbell.
const BYTES: u32 = 8;
/// Doorbells of a slice.
pub(crate) const PER_SLICE: usize = 1024;

/// The doorbell BAR.
#[pin_data]
pub(crate) struct Aperture {
    bar: DevresLt<pci::Bar<'static>>,
    phys: u64,
    slice_bytes: usize,
    /// Bytes at the start of the BAR that belong to the kernel's own engines.
    kernel_bytes: usize,
    /// First doorbell index (32-bit words) of the page that the scheduler takes its doorbells from:
    /// that of the HIQ, or those that stand for many queues.
    kernel_page: u32,
    /// Which slices are taken.
    #[pin]
    slices: Mutex<KVVec<bool>>,
}

impl Aperture {
    /// Maps the BAR.
    pub(crate) fn new<'a>(
        pdev: &'a pci::Device<Core<'_>>,
        caps: &'a Caps,
    ) -> Result<impl PinInit<Self, Error> + 'a> {
        let phys = pdev.resource_start(BAR)?;
        let size = usize::try_from(pdev.resource_len(BAR)?)?;
        // The kernel's doorbells: its engines, a second page for the page queues of the SDMA
        // engines (which the bus interface finds in the mirror), and a page for the scheduler.
        let engines = (caps.max_kernel_doorbell as usize + 1) * BYTES as usize;
        let engines = (engines + 0x400 * 4).next_multiple_of(PAGE_SIZE);
        let slice_bytes = caps.doorbell_slice as usize;
        let kernel_bytes = (engines + PAGE_SIZE).next_multiple_of(slice_bytes);
        let count = size.saturating_sub(kernel_bytes) / slice_bytes;
        if count == 0 {
            dev_err!(
                pdev,
                "doorbell BAR of {size} bytes has no room for a process\n"
            );
            return Err(ENOSPC);
        }
        let bar = pdev.iomap_region(BAR, c"rkfd/doorbells")?.into_devres()?;
        let slices = KVVec::from_elem(false, count, GFP_KERNEL)?;
        Ok(try_pin_init!(Self {
            bar,
            phys,
            slice_bytes,
            kernel_bytes,
            kernel_page: (engines / 4) as u32,
            slices <- new_mutex!(slices),
        }))
    }

    /// Writes a 64-bit doorbell.
    pub(crate) fn ring64(&self, index: u32, value: u64) -> Result {
        let bar = self.bar.try_access().ok_or(ENODEV)?;
        (&*bar).try_write64(value, index as usize * 4)
    }

    /// Writes a doorbell of an engine that takes 32 bits.
    pub(crate) fn ring32(&self, index: u32, value: u32) -> Result {
        let bar = self.bar.try_access().ok_or(ENODEV)?;
        (&*bar).try_write32(value, index as usize * 4)
    }

    /// The doorbells that stand for all queues of a priority, lowest first.
    pub(crate) fn aggregated<const N: usize>(&self) -> [u32; N] {
        core::array::from_fn(|n| self.kernel_page + n as u32 * (BYTES / 4))
    }

    /// The doorbell of the HIQ.
    pub(crate) fn hiq(&self) -> u32 {
        self.kernel_page
    }
}

/// A process's doorbells on one GPU.
#[pin_data(PinnedDrop)]
pub(crate) struct Slice {
    gpu: Arc<Gpu>,
    number: usize,
    /// Which doorbells are taken; those of the window that is not routed to the CP always are.
    #[pin]
    used: Mutex<KVVec<bool>>,
}

/// A doorbell of a queue. Dropping it gives it back.
pub(crate) struct Doorbell {
    slice: Arc<Slice>,
    id: usize,
    /// Goes back to those that are free. The doorbells of SDMA queues are bound to their place.
    pooled: bool,
}

impl Slice {
    /// Takes a slice of the GPU's BAR; `ENOMEM` when none is left.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        let caps = gpu.generation().caps;
        let mut used = KVVec::from_elem(false, PER_SLICE, GFP_KERNEL)?;
        let (first, last) = caps.non_cp_doorbells;
        for half in 0..2 {
            let shift = half * caps.doorbell_mirror;
            for id in first + shift..=last + shift {
                if let Some(slot) = used.get_mut(id as usize) {
                    *slot = true;
                }
            }
        }
        let number = {
            let mut slices = gpu.doorbells().slices.lock();
            let number = slices.iter().position(|s| !s).ok_or(ENOMEM)?;
            slices[number] = true;
            number
        };
        let made = Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                number,
                used <- new_mutex!(used),
            }),
            GFP_KERNEL,
        );
        if made.is_err() {
            gpu.doorbells().slices.lock()[number] = false;
        }
        made
    }

    /// The GPU.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Bytes of a slice.
    pub(crate) fn size(&self) -> usize {
        self.gpu.doorbells().slice_bytes
    }

    fn offset(&self) -> usize {
        let bar = self.gpu.doorbells();
        bar.kernel_bytes + self.number * bar.slice_bytes
    }

    /// The CPU physical address, for mapping it to user space.
    pub(crate) fn phys(&self) -> u64 {
        self.gpu.doorbells().phys + self.offset() as u64
    }

    /// Takes a free doorbell of a compute queue; `EBUSY` when there is none.
    pub(crate) fn alloc_cp(self: &Arc<Self>) -> Result<Doorbell> {
        let mut used = self.used.lock();
        let id = used.iter().position(|u| !u).ok_or(EBUSY)?;
        used[id] = true;
        Ok(Doorbell {
            slice: self.clone(),
            id,
            pooled: true,
        })
    }

    /// The doorbell of an SDMA queue. The bus interface routes by the place in the page, so it
    /// follows from the place on the engine: queues take turns in the two halves of the slice.
    pub(crate) fn of_sdma(self: &Arc<Self>, place: SdmaPlace) -> Doorbell {
        let caps = self.gpu.generation().caps;
        let first = caps.sdma_doorbell + place.engine * caps.sdma_doorbell_stride;
        let first = first.next_multiple_of(caps.sdma_doorbell_block);
        let id = first + place.queue % 2 * caps.doorbell_mirror + place.queue / 2;
        Doorbell {
            slice: self.clone(),
            id: id as usize,
            pooled: false,
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Slice {
    fn drop(self: Pin<&mut Self>) {
        self.gpu.doorbells().slices.lock()[self.number] = false;
    }
}

impl Doorbell {
    /// Index of the 32-bit word in the BAR, as queues and packets want it.
    pub(crate) fn index(&self) -> u32 {
        ((self.slice.offset() + self.offset_in_slice()) / 4) as u32
    }

    /// Which one it is of the slice.
    pub(crate) fn id(&self) -> u32 {
        self.id as u32
    }

    /// Byte offset in the slice, as user space wants it.
    pub(crate) fn offset_in_slice(&self) -> usize {
        self.id * BYTES as usize
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if self.pooled {
            self.slice.used.lock()[self.id] = false;
        }
    }
}
