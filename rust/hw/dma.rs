// SPDX-License-Identifier: GPL-2.0

//! What the kernel has DMA engines do, and how the packets for it are written down.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo, DwField},
    sdma::{self, Packet},
};

/// Words of the longest packet.
pub(crate) const DMA_PACKET_DWORDS: usize = 16;

/// A register as packets of a DMA engine address it, and what belongs into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegValue {
    /// Its dword address.
    pub(crate) reg: u32,
    /// The value, or the bits that are waited for.
    pub(crate) value: u32,
}

/// How a DMA engine flushes what the CPU wrote to VRAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HdpFlush {
    /// Dword address of the register that takes the request.
    pub(crate) request: u32,
    /// Dword address of the register that says that it is done.
    pub(crate) done: u32,
    /// The engine's bit in both.
    pub(crate) mask: u32,
}

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

/// The packet language of a version of the DMA engines: the oldest one, and what is different.
pub(crate) trait DmaPacketHal: Sync {
    /// A packet of one word that does nothing.
    fn nop(&self) -> u32 {
        sdma::NOP_SINGLE
    }

    /// An indirect call ends at a multiple of so many words of the ring.
    fn indirect_end_align(&self) -> usize {
        sdma::INDIRECT_END_ALIGN_DW
    }

    /// The most bytes that a packet may copy or fill.
    fn max_bytes(&self) -> u32 {
        sdma::MAX_BYTES
    }

    /// The most page table entries that a packet may write.
    fn max_ptes(&self) -> u32 {
        sdma::ptepde_gen::COUNT.field.max() + 1
    }

    /// Writes a packet to `out`, which is zeroed. Returns its length.
    fn emit(&self, packet: &DmaPacket, out: &mut [u32; DMA_PACKET_DWORDS]) -> Result<usize> {
        emit(packet, out)
    }
}

/// Time between two reads of a register.
const POLL_INTERVAL: u32 = 10;

/// Writes a packet of this shape, whose other fields are zero. Returns its length.
pub(super) fn put(out: &mut [u32], shape: &Packet, fields: &[(DwField, u32)]) -> Result<usize> {
    let out = out.get_mut(..shape.dwords).ok_or(EINVAL)?;
    out[0] = shape.header();
    for (field, value) in fields {
        field.set(out, *value);
    }
    Ok(shape.dwords)
}

/// Writes a packet as the oldest version knows it. Later ones have its fields at the same places.
pub(super) fn emit(packet: &DmaPacket, out: &mut [u32; DMA_PACKET_DWORDS]) -> Result<usize> {
    match *packet {
        DmaPacket::Write { addr, value } => {
            use sdma::write as p;
            let len = put(
                out,
                &p::PACKET,
                &[
                    (p::DST_ADDR_LO, lo(addr)),
                    (p::DST_ADDR_HI, hi(addr)),
                    (p::COUNT, 0),
                ],
            )?;
            *out.get_mut(len - 1).ok_or(EINVAL)? = value;
            Ok(len)
        }
        DmaPacket::Fence { addr, value } => {
            use sdma::fence as p;
            put(
                out,
                &p::PACKET,
                &[
                    (p::ADDR_LO, lo(addr)),
                    (p::ADDR_HI, hi(addr)),
                    (p::DATA, value),
                ],
            )
        }
        DmaPacket::Trap { context } => {
            use sdma::trap as p;
            put(out, &p::PACKET, &[(p::INT_CONTEXT, context)])
        }
        DmaPacket::WriteReg(r) => {
            use sdma::srbm_write as p;
            let all_bytes = p::BYTE_EN.field.max();
            put(
                out,
                &p::PACKET,
                &[
                    (p::BYTE_EN, all_bytes),
                    (p::ADDR, r.reg),
                    (p::DATA, r.value),
                ],
            )
        }
        DmaPacket::WaitReg(r) => {
            use sdma::poll_regmem as p;
            put(
                out,
                &p::PACKET,
                &[
                    (p::FUNC, p::FUNC_EQUAL),
                    (p::ADDR_LO, r.reg << 2),
                    (p::VALUE, r.value),
                    (p::MASK, r.value),
                    (p::INTERVAL, POLL_INTERVAL),
                    (p::RETRY_COUNT, p::RETRY_FOR_EVER),
                ],
            )
        }
        DmaPacket::HdpFlush(flush) => {
            use sdma::poll_regmem as p;
            put(
                out,
                &p::PACKET,
                &[
                    (p::HDP_FLUSH, 1),
                    (p::FUNC, p::FUNC_EQUAL),
                    (p::ADDR_LO, flush.done << 2),
                    (p::ADDR_HI, flush.request << 2),
                    (p::VALUE, flush.mask),
                    (p::MASK, flush.mask),
                    (p::INTERVAL, POLL_INTERVAL),
                    (p::RETRY_COUNT, p::RETRY_FOR_EVER),
                ],
            )
        }
        DmaPacket::Indirect { vmid, addr, dwords } => {
            use sdma::indirect as p;
            let addr = addr & !(sdma::IB_ALIGN - 1);
            put(
                out,
                &p::PACKET,
                &[
                    (p::VMID, vmid),
                    (p::IB_BASE_LO, lo(addr)),
                    (p::IB_BASE_HI, hi(addr)),
                    (p::IB_SIZE, dwords),
                ],
            )
        }
        DmaPacket::Fill { dst, len, value } => {
            use sdma::const_fill as p;
            put(
                out,
                &p::PACKET,
                &[
                    (p::FILLSIZE, p::FILLSIZE_DWORD),
                    (p::DST_ADDR_LO, lo(dst)),
                    (p::DST_ADDR_HI, hi(dst)),
                    (p::SRC_DATA, value),
                    (p::COUNT, len - 1),
                ],
            )
        }
        DmaPacket::Copy { src, dst, len } => {
            use sdma::copy_linear as p;
            put(
                out,
                &p::PACKET,
                &[
                    (p::COUNT, len - 1),
                    (p::SRC_ADDR_LO, lo(src)),
                    (p::SRC_ADDR_HI, hi(src)),
                    (p::DST_ADDR_LO, lo(dst)),
                    (p::DST_ADDR_HI, hi(dst)),
                ],
            )
        }
        DmaPacket::Ptes {
            pe,
            addr,
            flags,
            incr,
            count,
        } => {
            use sdma::ptepde_gen as p;
            put(
                out,
                &p::PACKET,
                &[
                    (p::DST_ADDR_LO, lo(pe)),
                    (p::DST_ADDR_HI, hi(pe)),
                    (p::MASK_DW0, lo(flags)),
                    (p::MASK_DW1, hi(flags)),
                    (p::INIT_DW0, lo(addr)),
                    (p::INIT_DW1, hi(addr)),
                    (p::INCR_DW0, lo(incr)),
                    (p::INCR_DW1, hi(incr)),
                    (p::COUNT, count - 1),
                ],
            )
        }
    }
}
