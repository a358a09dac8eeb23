// SPDX-License-Identifier: GPL-2.0

//! A ring of 32-bit words: room, wrap, commit, doorbell.
//!
//! The write pointer never wraps; only its position modulo the size of the ring counts in the
//! read pointer that the hardware reports. What both count differs by [`Format`]. One word stays
//! free, so that full and empty differ.

use kernel::{fmt, prelude::*, sync::barrier};
use rkfd_abi::{pm4, sdma};

use super::Batch;
use crate::{
    card::{gart::Buffer, Card},
    trace,
};

/// So many packets that do nothing are written in one go.
const FILL: usize = 64;

/// What reads a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// A packet of one word that does nothing.
    nop: u32,
    /// By how much a word moves the pointers.
    step: u64,
}

impl Format {
    /// The command processor: pointers count words.
    pub(crate) const PM4: Self = Self {
        nop: pm4::NOP_SINGLE,
        step: 1,
    };
    /// A DMA engine: pointers count bytes.
    pub(crate) const SDMA: Self = Self {
        nop: sdma::NOP_SINGLE,
        step: 4,
    };
}

/// What happens when a batch does not fit before the end of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// It continues at the start.
    Split,
    /// The rest is filled with NOPs.
    Fill,
}

/// Where a ring and its pointers are in a buffer.
pub(crate) struct Layout {
    /// Byte offset of the ring.
    pub(crate) ring: usize,
    /// 32-bit words of the ring, a power of two.
    pub(crate) dwords: usize,
    /// Byte offset at which the hardware reports its read pointer.
    pub(crate) rptr: usize,
    /// Byte offset of the write pointer, 64 bits.
    pub(crate) wptr: usize,
}

/// The write side of a ring.
pub(crate) struct Writer {
    buffer: Buffer,
    layout: Layout,
    format: Format,
    wrap: Wrap,
    /// Every commit ends on a multiple of this many words.
    align: usize,
    doorbell: u32,
    /// Words written since the start.
    wptr: u64,
    name: &'static CStr,
}

impl Writer {
    /// Makes the write side of an empty ring.
    pub(crate) fn new(
        name: &'static CStr,
        buffer: Buffer,
        layout: Layout,
        format: Format,
        wrap: Wrap,
        align: usize,
        doorbell: u32,
    ) -> Result<Self> {
        if !layout.dwords.is_power_of_two() || align == 0 || layout.dwords % align != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            buffer,
            layout,
            format,
            wrap,
            align,
            doorbell,
            wptr: 0,
            name,
        })
    }

    /// The memory of the ring.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Address of the ring for the GPU.
    pub(crate) fn ring_addr(&self) -> u64 {
        self.buffer.gpu_addr() + self.layout.ring as u64
    }

    /// Bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> u32 {
        (self.layout.dwords * 4) as u32
    }

    /// Address at which the hardware reports its read pointer.
    pub(crate) fn rptr_addr(&self) -> u64 {
        self.buffer.gpu_addr() + self.layout.rptr as u64
    }

    /// Address of the write pointer for the GPU.
    pub(crate) fn wptr_addr(&self) -> u64 {
        self.buffer.gpu_addr() + self.layout.wptr as u64
    }

    /// The doorbell.
    pub(crate) fn doorbell(&self) -> u32 {
        self.doorbell
    }

    /// The write pointer as the hardware counts it.
    pub(crate) fn wptr(&self) -> u64 {
        self.wptr * self.format.step
    }

    /// Prints the ring in a line, for debugfs.
    pub(crate) fn show(&self, name: &str, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rptr = self.rptr().unwrap_or(0);
        writeln!(
            f,
            "  {name}: type {kind}, doorbell {:#x}, rptr {rptr:#x}, wptr {:#x}",
            self.doorbell,
            self.wptr()
        )
    }

    /// The read pointer as the hardware counts it.
    pub(crate) fn rptr(&self) -> Result<u64> {
        self.buffer.read64(self.layout.rptr)
    }

    /// Forgets what was written: the hardware starts from the beginning again.
    pub(crate) fn reset(&mut self) -> Result {
        self.wptr = 0;
        self.buffer.write64(self.layout.rptr, 0)?;
        self.buffer.write64(self.layout.wptr, 0)?;
        self.buffer.publish()
    }

    /// The hardware has read everything. For rings whose read pointer nobody reports.
    pub(crate) fn all_read(&self) -> Result {
        self.buffer.write64(self.layout.rptr, self.wptr())
    }

    /// Words that can be written.
    fn room(&self) -> Result<usize> {
        let mask = self.layout.dwords - 1;
        let rptr = u64::from(self.buffer.read32(self.layout.rptr)?) / self.format.step;
        let rptr = rptr as usize & mask;
        let used = (self.wptr as usize).wrapping_sub(rptr) & mask;
        Ok(mask - used)
    }

    /// Writes words for which there is room, those behind the end of the ring at its start.
    fn put(&mut self, words: &[u32]) -> Result {
        let at = self.wptr as usize & (self.layout.dwords - 1);
        let (here, wrapped) = words.split_at(words.len().min(self.layout.dwords - at));
        self.buffer.write32s(self.layout.ring + at * 4, here)?;
        self.buffer.write32s(self.layout.ring, wrapped)?;
        self.wptr += words.len() as u64;
        Ok(())
    }

    /// Writes packets that do nothing.
    fn fill(&mut self, count: usize) -> Result {
        let nops = [self.format.nop; FILL];
        let mut left = count;
        while left > 0 {
            let n = left.min(FILL);
            self.put(&nops[..n])?;
            left -= n;
        }
        Ok(())
    }

    /// Writes the packets and rings the doorbell. `ENOMEM` when the ring is full: nothing was
    /// written then.
    pub(crate) fn submit(&mut self, card: &Card, batch: &Batch) -> Result {
        self.send(card, batch, batch.name())
    }

    /// The same for words that somebody else has put together; `name` is for the trace.
    pub(crate) fn send(&mut self, card: &Card, words: &[u32], name: &CStr) -> Result {
        let at = self.wptr as usize & (self.layout.dwords - 1);
        let to_end = self.layout.dwords - at;
        let skip = match self.wrap {
            Wrap::Fill if words.len() >= to_end => to_end,
            _ => 0,
        };
        let end = at + skip + words.len();
        let pad = end.next_multiple_of(self.align) - end;
        if skip + words.len() + pad > self.room()? {
            return Err(ENOMEM);
        }
        self.fill(skip)?;
        self.put(words)?;
        self.fill(pad)?;
        // The hardware must see the packets before the pointer, and the pointer before the bell.
        barrier::mb(barrier::Full);
        self.buffer.write64(self.layout.wptr, self.wptr())?;
        barrier::mb(barrier::Full);
        trace::packet(card.id(), self.name, name, words.len() as u32, self.wptr());
        card.doorbells().ring64(self.doorbell, self.wptr())
    }
}
