// SPDX-License-Identifier: GPL-2.0

//! The doorbell BAR: writing doorbells, those of the kernel, and the slices given to processes.
//!
//! A doorbell is 64 bits wide and named by the index of its first dword in the BAR.

use kernel::{
    bitmap::BitmapVec,
    device::Core,
    devres::DevresLt,
    io::Io,
    new_mutex,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    ptr::Alignment,
    sync::Mutex, //
};
use rkfd_abi::{
    doorbell::{self, PROCESS_SLICE},
    mmio::BAR_DOORBELL, //
};

use crate::{asic::caps::Caps, kapi::bitmap::BitmapRanges};

/// Bytes of a doorbell.
pub(crate) const BYTES: u32 = doorbell::SIZE as u32;

/// The doorbell BAR.
#[pin_data]
pub(crate) struct Aperture {
    bar: DevresLt<pci::Bar<'static>>,
    phys: u64,
    /// Bytes at the start of the BAR for queues of the kernel.
    kernel_bytes: usize,
    /// First doorbell index (dwords) of the scheduler's page: the HIQ, or the aggregated doorbells
    /// of MES.
    kernel_page: u32,
    /// Slices in use. Not an `IdPool`, whose capacity is 64 at least.
    #[pin]
    slices: Mutex<BitmapVec>,
}

impl Aperture {
    /// Maps the BAR. `ENOSPC` when it has no room for a process.
    pub(crate) fn new<'a>(
        pdev: &'a pci::Device<Core<'_>>,
        caps: &'a Caps,
    ) -> Result<impl PinInit<Self, Error> + 'a> {
        let phys = pdev.resource_start(BAR_DOORBELL)?;
        let size = usize::try_from(pdev.resource_len(BAR_DOORBELL)?)?;
        // Doorbells of the kernel: its engines, a second page for the page queues of the SDMA
        // engines (NBIO routes the mirror to them), and a page for the scheduler
        // (amdgpu_doorbell_init()).
        let engines = (caps.max_kernel_doorbell as usize + 1) * BYTES as usize;
        let engines = (engines + 0x400 * 4).next_multiple_of(PAGE_SIZE);
        let kernel_bytes = (engines + PAGE_SIZE).next_multiple_of(PROCESS_SLICE);
        let count = size.saturating_sub(kernel_bytes) / PROCESS_SLICE;
        if count == 0 {
            dev_err!(
                pdev,
                "no room for a process in the doorbell BAR of {size} bytes\n"
            );
            return Err(ENOSPC);
        }
        let bar = pdev
            .iomap_region(BAR_DOORBELL, c"rkfd/doorbells")?
            .into_devres()?;
        let slices = BitmapVec::new(count, GFP_KERNEL)?;
        Ok(try_pin_init!(Self {
            bar,
            phys,
            kernel_bytes,
            kernel_page: (engines / 4) as u32,
            slices <- new_mutex!(slices),
        }))
    }

    /// Writes the 64-bit doorbell at dword `index`. `ENODEV` when the device is unplugged.
    pub(crate) fn ring64(&self, index: u32, value: u64) -> Result {
        let bar = self.bar.try_access().ok_or(ENODEV)?;
        (&*bar).try_write64(value, index as usize * 4)
    }

    /// Writes the 32-bit doorbell at dword `index`. `ENODEV` when the device is unplugged.
    pub(crate) fn ring32(&self, index: u32, value: u32) -> Result {
        let bar = self.bar.try_access().ok_or(ENODEV)?;
        (&*bar).try_write32(value, index as usize * 4)
    }

    /// Returns the aggregated doorbells of MES, one per priority, lowest first.
    pub(crate) fn aggregated<const N: usize>(&self) -> [u32; N] {
        core::array::from_fn(|n| self.kernel_page + n as u32 * (BYTES / 4))
    }

    /// Returns the doorbell of the HIQ of node `index` (`kfd_get_kernel_doorbell`).
    pub(crate) fn hiq(&self, index: u32) -> u32 {
        self.kernel_page + index * (BYTES / 4)
    }

    /// Returns the byte offset of slice `number` in the BAR.
    pub(crate) fn slice_offset(&self, number: usize) -> usize {
        self.kernel_bytes + number * PROCESS_SLICE
    }

    /// Returns the CPU physical address of the BAR.
    pub(crate) fn phys(&self) -> u64 {
        self.phys
    }

    /// Returns the number of slices in use.
    pub(crate) fn slices_in_use(&self) -> usize {
        let slices = self.slices.lock();
        let mut taken = 0;
        let mut next = slices.next_bit(0);
        while let Some(number) = next {
            taken += 1;
            // A search from the end is an error of the caller (CONFIG_RUST_BITMAP_HARDENED).
            let rest = number + 1 < slices.len();
            next = rest.then(|| slices.next_bit(number + 1)).flatten();
        }
        taken
    }

    /// Takes `count` adjacent slices that are free and returns the number of the first. `ENOMEM`
    /// when there are none.
    pub(crate) fn take_slices(&self, count: usize) -> Result<usize> {
        let mut slices = self.slices.lock();
        let first = slices
            .find_zero_area(count, Alignment::new::<1>())
            .ok_or(ENOMEM)?;
        slices.set_range(first, count);
        Ok(first)
    }

    /// Returns slices of [`Aperture::take_slices`].
    pub(crate) fn put_slices(&self, first: usize, count: usize) {
        self.slices.lock().clear_range(first, count);
    }
}
