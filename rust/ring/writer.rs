// SPDX-License-Identifier: GPL-2.0

//! Write side of a ring buffer: free space, wrap-around, write pointer, doorbell.
//!
//! The write pointer never wraps. The read pointer that the hardware reports counts modulo the size
//! of the ring. The unit of both depends on [`Format`]. One dword stays free, to distinguish a full
//! ring from an empty one.

use kernel::{fmt, prelude::*, sync::barrier};
use rkfd_abi::{pm4, sdma};

use super::Batch;
use crate::{
    card::{
        gart::{Buffer, BufferAccess},
        Card, //
    },
    hw::{MqdContext, MqdKind, QueueSpec},
    trace,
};

/// Packet format of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// NOP packet of one dword.
    nop: u32,
    /// Returns the header of a NOP packet with so many dwords behind it, which are skipped.
    long_nop: Option<fn(u32) -> u32>,
    /// Increment of the pointers per dword.
    step: u64,
}

impl Format {
    /// PM4, command processor: pointers in dwords.
    pub(crate) const PM4: Self = Self {
        nop: pm4::NOP_SINGLE,
        long_nop: Some(|body| pm4::header(pm4::op::NOP, body)),
        step: 1,
    };
    /// SDMA: pointers in bytes.
    pub(crate) const SDMA: Self = Self {
        nop: sdma::NOP_SINGLE,
        long_nop: None,
        step: 4,
    };
}

/// Placement of a batch that does not fit before the end of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// It wraps around.
    Split,
    /// The rest of the ring is filled with NOPs and the batch is placed at the start.
    Fill,
}

/// Byte offsets of a ring and its pointers in a buffer.
pub(crate) struct Layout {
    /// Byte offset of the ring.
    pub(crate) ring: usize,
    /// Size of the ring in dwords, a power of two.
    pub(crate) dwords: usize,
    /// Byte offset at which the hardware reports its read pointer.
    pub(crate) rptr: usize,
    /// Byte offset of the 64-bit write pointer.
    pub(crate) wptr: usize,
}

/// The write side of a ring.
pub(crate) struct Writer {
    buffer: Buffer,
    layout: Layout,
    format: Format,
    wrap: Wrap,
    /// Submissions are padded to a multiple of this many dwords.
    align: usize,
    doorbell: u32,
    /// Dwords written since the start.
    wptr: u64,
    name: &'static CStr,
}

impl Writer {
    /// Returns the write side of an empty ring. `EINVAL` unless its size is a power of two and a
    /// multiple of `align` dwords.
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

    /// Returns the buffer that holds the ring.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Returns the GPU address of the ring.
    pub(crate) fn ring_addr(&self) -> u64 {
        self.buffer.gpu_addr() + self.layout.ring as u64
    }

    /// Returns the size of the ring in bytes.
    pub(crate) fn ring_bytes(&self) -> u32 {
        (self.layout.dwords * 4) as u32
    }

    /// Returns the GPU address at which the hardware reports its read pointer.
    pub(crate) fn rptr_addr(&self) -> u64 {
        self.buffer.gpu_addr() + self.layout.rptr as u64
    }

    /// Returns the GPU address of the write pointer.
    pub(crate) fn wptr_addr(&self) -> u64 {
        self.buffer.gpu_addr() + self.layout.wptr as u64
    }

    /// Returns the dword index in the doorbell BAR.
    pub(crate) fn doorbell(&self) -> u32 {
        self.doorbell
    }

    /// Returns the description of the ring as a compute queue that has `eop_bytes` bytes at `eop`
    /// of the buffer as its EOP buffer.
    pub(crate) fn queue_spec(&self, eop: usize, eop_bytes: usize) -> QueueSpec {
        QueueSpec {
            ring_va: self.ring_addr(),
            ring_size: self.ring_bytes(),
            rptr_va: self.rptr_addr(),
            wptr_va: self.wptr_addr(),
            eop_va: self.buffer.gpu_addr() + eop as u64,
            eop_size: eop_bytes as u32,
            doorbell: self.doorbell,
            ..QueueSpec::PM4
        }
    }

    /// Returns the parameters of the MQD of the ring, at byte `at` of the buffer.
    pub(crate) fn mqd_context(&self, card: &Card, kind: MqdKind, at: usize) -> MqdContext {
        MqdContext {
            kind,
            addr: self.buffer.gpu_addr() + at as u64,
            xcc: 0,
            num_xcc: card.xccs().count(),
            first_share: 0,
            stride: 0,
            pci_atomics: card.config().pci_atomics,
        }
    }

    /// Returns a copy of the MQD at byte `at` of the buffer, for debugfs. `ENOMEM` without memory.
    pub(crate) fn mqd_words(&self, card: &Card, at: usize) -> Result<KVec<u32>> {
        let mut words = KVec::<u32>::zeroed(card.generation().mqd.dwords(), GFP_KERNEL)?;
        self.buffer.read_dwords(at, &mut words)?;
        Ok(words)
    }

    /// Returns the write pointer in the unit of the hardware.
    pub(crate) fn wptr(&self) -> u64 {
        self.wptr * self.format.step
    }

    /// Prints the ring on one line, for debugfs.
    pub(crate) fn show(&self, name: &str, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rptr = self.rptr().unwrap_or(0);
        writeln!(
            f,
            "  {name}: type {kind}, doorbell {:#x}, rptr {rptr:#x}, wptr {:#x}",
            self.doorbell,
            self.wptr()
        )
    }

    /// Returns the read pointer in the unit of the hardware.
    pub(crate) fn rptr(&self) -> Result<u64> {
        self.buffer.read64(self.layout.rptr)
    }

    /// Empties the ring and zeroes its pointers, for a new start of the hardware.
    pub(crate) fn reset(&mut self) -> Result {
        self.wptr = 0;
        self.buffer.write64(self.layout.rptr, 0)?;
        self.buffer.write64(self.layout.wptr, 0)?;
        self.buffer.publish()
    }

    /// Marks the ring as read, for hardware that does not report a read pointer.
    /// `buffer` is an access to the ring's buffer.
    pub(crate) fn all_read(&self, buffer: &BufferAccess<'_>) -> Result {
        buffer.write64(self.layout.rptr, self.wptr())
    }

    /// Returns the free space in dwords.
    fn room(&self, buffer: &BufferAccess<'_>) -> Result<usize> {
        let mask = self.layout.dwords - 1;
        let rptr = u64::from(buffer.read32(self.layout.rptr)?) / self.format.step;
        let rptr = rptr as usize & mask;
        let used = (self.wptr as usize).wrapping_sub(rptr) & mask;
        Ok(mask - used)
    }

    /// Writes dwords that fit into the free space at `*wptr`, wrapping around at the end of the
    /// ring.
    fn put(&self, buffer: &BufferAccess<'_>, wptr: &mut u64, words: &[u32]) -> Result {
        let at = *wptr as usize & (self.layout.dwords - 1);
        let (here, wrapped) = words.split_at(words.len().min(self.layout.dwords - at));
        buffer.write32s(self.layout.ring + at * 4, here)?;
        if !wrapped.is_empty() {
            buffer.write32s(self.layout.ring, wrapped)?;
        }
        *wptr += words.len() as u64;
        Ok(())
    }

    /// Writes `count` dwords of NOPs, which end at the end of the ring or before. One packet of
    /// PM4 covers all of them: its body is not written.
    fn fill(&self, buffer: &BufferAccess<'_>, wptr: &mut u64, count: usize) -> Result {
        if count == 0 {
            return Ok(());
        }
        let at = self.layout.ring + (*wptr as usize & (self.layout.dwords - 1)) * 4;
        match self.format.long_nop {
            Some(header) if count > 1 => buffer.write32(at, header(count as u32 - 1))?,
            _ => buffer.fill32(at, count, self.format.nop)?,
        }
        *wptr += count as u64;
        Ok(())
    }

    /// Writes `words` between padding and publishes the new write pointer, which it returns.
    /// `ENOMEM` without room.
    fn write(&self, skip: usize, words: &[u32], pad: usize) -> Result<u64> {
        let buffer = self.buffer.access()?;
        if skip + words.len() + pad > self.room(&buffer)? {
            return Err(ENOMEM);
        }
        let mut wptr = self.wptr;
        self.fill(&buffer, &mut wptr, skip)?;
        self.put(&buffer, &mut wptr, words)?;
        self.fill(&buffer, &mut wptr, pad)?;
        // The packets must be visible before the write pointer, and that before the doorbell.
        barrier::mb(barrier::Full);
        buffer.write64(self.layout.wptr, wptr * self.format.step)?;
        barrier::mb(barrier::Full);
        Ok(wptr)
    }

    /// Writes packets and rings the doorbell. `ENOMEM` when the ring is full; nothing was written
    /// then.
    pub(crate) fn submit(&mut self, card: &Card, batch: &Batch) -> Result {
        self.send(card, batch, batch.name())
    }

    /// As [`Writer::submit`], for dwords that are already assembled; `name` is for trace events.
    /// Errors as there.
    pub(crate) fn send(&mut self, card: &Card, words: &[u32], name: &CStr) -> Result {
        let at = self.wptr as usize & (self.layout.dwords - 1);
        let to_end = self.layout.dwords - at;
        let skip = match self.wrap {
            Wrap::Fill if words.len() >= to_end => to_end,
            _ => 0,
        };
        let end = at + skip + words.len();
        let pad = end.next_multiple_of(self.align) - end;
        self.wptr = self.write(skip, words, pad)?;
        trace::packet(card.id(), self.name, name, words.len() as u32, self.wptr());
        card.doorbells().ring64(self.doorbell, self.wptr())
    }
}
