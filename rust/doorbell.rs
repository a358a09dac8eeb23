// SPDX-License-Identifier: GPL-2.0

//! Pages of the doorbell BAR: the slices of processes, and those of buffers of the render node.
//!
//! A slice is 8 KiB and has the doorbells of one process on one card, which maps exactly one.

use kernel::{
    bitmap::BitmapVec,
    new_mutex,
    num::casts::u32_as_usize,
    prelude::*,
    sync::{Arc, Mutex},
};
use rkfd_abi::doorbell::{PER_PROCESS, PROCESS_SLICE};

use crate::{
    card::{aperture::BYTES, Card},
    hw::SdmaQueueId,
};

/// Pages of the doorbell BAR of a card. Dropping it frees them.
pub(crate) struct DoorbellPages {
    card: Arc<Card>,
    /// First slice, and number of slices.
    first: usize,
    count: usize,
    bytes: usize,
}

impl DoorbellPages {
    /// Takes pages of `bytes` bytes. `ENOMEM` when there are not as many in a row.
    pub(crate) fn new(card: &Arc<Card>, bytes: usize) -> Result<Arc<Self>> {
        let count = bytes.div_ceil(PROCESS_SLICE);
        let first = card.doorbells().take_slices(count)?;
        let pages = Self {
            card: card.clone(),
            first,
            count,
            bytes,
        };
        Ok(Arc::new(pages, GFP_KERNEL)?)
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes
    }

    /// Returns the byte offset in the BAR.
    fn offset(&self) -> usize {
        self.card.doorbells().slice_offset(self.first)
    }

    /// Returns the CPU physical address, for mapping to user space.
    pub(crate) fn phys(&self) -> u64 {
        self.card.doorbells().phys() + self.offset() as u64
    }

    /// Returns the dword index in the BAR of a doorbell, as MQDs and packets take it. `EINVAL`
    /// beyond the end.
    pub(crate) fn index(&self, doorbell: u32) -> Result<u32> {
        let at = u32_as_usize(doorbell)
            .checked_mul(BYTES as usize)
            .filter(|at| *at < self.bytes)
            .ok_or(EINVAL)?;
        Ok(u32::try_from((self.offset() + at) / 4)?)
    }
}

impl Drop for DoorbellPages {
    fn drop(&mut self) {
        self.card.doorbells().put_slices(self.first, self.count);
    }
}

/// The doorbell slice of a process on one card.
#[pin_data]
pub(crate) struct Slice {
    card: Arc<Card>,
    pages: Arc<DoorbellPages>,
    /// Doorbells in use. Those of the window that NBIO does not route to the CP always are; an
    /// `IdPool` cannot reserve them.
    #[pin]
    used: Mutex<BitmapVec>,
}

/// A doorbell of a queue. Dropping it frees it.
pub(crate) struct Doorbell {
    slice: Arc<Slice>,
    id: usize,
    /// Allocated from `used`. Doorbells of SDMA queues follow from engine and queue instead.
    pooled: bool,
}

impl Slice {
    /// Takes a slice of the card's BAR. `ENOMEM` when there is none.
    pub(crate) fn new(card: &Arc<Card>) -> Result<Arc<Self>> {
        let caps = card.generation().caps;
        let mut used = BitmapVec::new(PER_PROCESS, GFP_KERNEL)?;
        let (first, last) = caps.non_cp_doorbells;
        for half in 0..2 {
            let shift = half * caps.doorbell_mirror;
            for id in first + shift..=last + shift {
                used.set_bit(id as usize);
            }
        }
        let pages = DoorbellPages::new(card, PROCESS_SLICE)?;
        Arc::pin_init(
            pin_init!(Self {
                card: card.clone(),
                pages,
                used <- new_mutex!(used),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the pages.
    pub(crate) fn pages(&self) -> &Arc<DoorbellPages> {
        &self.pages
    }

    /// Allocates the doorbell of a compute queue. `EBUSY` when there is none.
    pub(crate) fn alloc_cp(self: &Arc<Self>) -> Result<Doorbell> {
        let mut used = self.used.lock();
        let id = used.next_zero_bit(0).ok_or(EBUSY)?;
        used.set_bit(id);
        Ok(Doorbell {
            slice: self.clone(),
            id,
            pooled: true,
        })
    }

    /// Returns the doorbell of an SDMA queue; `place` has the engine's number in the card. NBIO
    /// routes by the offset in the page, so it follows from engine and queue: queues alternate
    /// between the two halves of the slice (`allocate_doorbell()` in
    /// `kfd_device_queue_manager.c`).
    pub(crate) fn of_sdma(self: &Arc<Self>, place: SdmaQueueId) -> Doorbell {
        let caps = self.card.generation().caps;
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

impl Doorbell {
    /// Returns the dword index in the BAR, as MQDs and packets take it.
    pub(crate) fn index(&self) -> u32 {
        ((self.slice.pages.offset() + self.offset_in_slice()) / 4) as u32
    }

    /// Returns the index in the slice.
    pub(crate) fn id(&self) -> u32 {
        self.id as u32
    }

    /// Returns the byte offset in the slice, as user space takes it.
    pub(crate) fn offset_in_slice(&self) -> usize {
        self.id * BYTES as usize
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if self.pooled {
            self.slice.used.lock().clear_bit(self.id);
        }
    }
}
