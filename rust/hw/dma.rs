// SPDX-License-Identifier: GPL-2.0

//! What the kernel has DMA engines do, and how the packets for it are written down.

use kernel::prelude::*;
use rkfd_abi::{bits::DwField, sdma::Packet};

use super::{HdpFlush, RegValue};

/// Words of the longest packet.
pub(crate) const DMA_PACKET_DWORDS: usize = 16;

/// Something to do for a DMA engine. Addresses are those of the VMID in which it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DmaPacket {
    /// One word to memory.
    Write {
        /// Where.
        addr: u64,
        /// What.
        value: u32,
    },
    /// One word to memory when everything before is done.
    Fence {
        /// Where.
        addr: u64,
        /// What.
        value: u32,
    },
    /// An interrupt.
    Trap {
        /// What it says.
        context: u32,
    },
    /// One word to a register.
    WriteReg(RegValue),
    /// Waits until all bits of the value are set in a register.
    WaitReg(RegValue),
    /// Makes what the CPU wrote to VRAM visible.
    HdpFlush(HdpFlush),
    /// Calls an indirect buffer; the low bits of its address do not count.
    Indirect {
        /// In which address space.
        vmid: u32,
        /// Where it is.
        addr: u64,
        /// Its words.
        dwords: u32,
    },
    /// Fills memory with a word.
    Fill {
        /// Where.
        dst: u64,
        /// So many bytes, a multiple of 4.
        len: u32,
        /// The word.
        value: u32,
    },
    /// Copies memory.
    Copy {
        /// From here.
        src: u64,
        /// To here.
        dst: u64,
        /// So many bytes.
        len: u32,
    },
    /// Writes page table entries: flags, and an address that grows from entry to entry.
    Ptes {
        /// Address of the first entry.
        pe: u64,
        /// Address in it.
        addr: u64,
        /// Everything but the address.
        flags: u64,
        /// From one entry's address to the next one's.
        incr: u64,
        /// Entries.
        count: u32,
    },
}

/// The packet language of a version of the DMA engines.
pub(crate) trait DmaPacketHal: Sync {
    /// A packet of one word that does nothing.
    fn nop(&self) -> u32;

    /// An indirect call ends at a multiple of so many words of the ring.
    fn indirect_end_align(&self) -> usize;

    /// The most bytes that a packet may copy or fill.
    fn max_bytes(&self) -> u32;

    /// The most page table entries that a packet may write.
    fn max_ptes(&self) -> u32;

    /// Writes a packet to `out`, which is zeroed. Returns its length.
    fn emit(&self, packet: &DmaPacket, out: &mut [u32; DMA_PACKET_DWORDS]) -> Result<usize>;
}

/// The low word of an address.
pub(super) const fn lo(value: u64) -> u32 {
    value as u32
}

/// The high word of an address.
pub(super) const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Writes a packet of this shape, whose other fields are zero. Returns its length.
pub(super) fn put(out: &mut [u32], shape: &Packet, fields: &[(DwField, u32)]) -> Result<usize> {
    let out = out.get_mut(..shape.dwords).ok_or(EINVAL)?;
    out[0] = shape.header();
    for (field, value) in fields {
        field.set(out, *value);
    }
    Ok(shape.dwords)
}
