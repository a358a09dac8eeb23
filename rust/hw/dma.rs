// SPDX-License-Identifier: GPL-2.0

//! Encoding of the SDMA packets that the kernel emits.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo, DwField},
    sdma::{self, Packet},
};

/// Dwords of the longest packet.
pub(crate) const DMA_PACKET_DWORDS: usize = 16;

/// A register access in an SDMA packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegValue {
    /// Dword address of the register.
    pub(crate) reg: u32,
    /// Value to write, or bits to wait for.
    pub(crate) value: u32,
}

/// HDP flush by an SDMA engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HdpFlush {
    /// Dword address of GPU_HDP_FLUSH_REQ.
    pub(crate) request: u32,
    /// Dword address of GPU_HDP_FLUSH_DONE.
    pub(crate) done: u32,
    /// The engine's bit in both registers.
    pub(crate) mask: u32,
}

/// An SDMA command. Addresses are in the address space of the VMID that executes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DmaPacket {
    /// Writes a dword to memory.
    Write {
        /// Destination address.
        addr: u64,
        /// Value.
        value: u32,
    },
    /// Writes a dword to memory after all preceding commands.
    Fence {
        /// Destination address.
        addr: u64,
        /// Value.
        value: u32,
    },
    /// Raises an interrupt.
    Trap {
        /// Context word of the IH entry.
        context: u32,
    },
    /// Writes a register.
    WriteReg(RegValue),
    /// Polls a register until all bits of the value are set.
    WaitReg(RegValue),
    /// Polls a dword in memory until it has a value.
    WaitMem {
        /// Address.
        addr: u64,
        /// Value.
        value: u32,
    },
    /// Flushes HDP.
    HdpFlush(HdpFlush),
    /// Writes back and invalidates the caches of the graphics core. Empty for an SDMA that does not
    /// use them.
    MemSync,
    /// Executes an IB; the address is aligned down to [`sdma::IB_ALIGN`].
    Indirect {
        /// VMID of the IB.
        vmid: u32,
        /// Address of the IB.
        addr: u64,
        /// Dwords of the IB.
        dwords: u32,
    },
    /// Fills memory with a dword.
    Fill {
        /// Destination address.
        dst: u64,
        /// Bytes, a multiple of 4.
        len: u32,
        /// The fill value.
        value: u32,
    },
    /// Copies memory.
    Copy {
        /// Source address.
        src: u64,
        /// Destination address.
        dst: u64,
        /// Bytes.
        len: u32,
    },
    /// Writes PTEs with constant flags and a growing address.
    Ptes {
        /// Address of the first PTE.
        pe: u64,
        /// Address in the first PTE.
        addr: u64,
        /// All bits besides the address.
        flags: u64,
        /// Increment of the address from PTE to PTE, in bytes.
        incr: u64,
        /// Number of PTEs.
        count: u32,
    },
}

/// SDMA packet encoding of a version. The defaults are those of SDMA 4.4.2.
pub(crate) trait DmaPacketHal: Sync {
    /// Returns a NOP packet of one dword.
    fn nop(&self) -> u32 {
        sdma::NOP_SINGLE
    }

    /// Returns the alignment in dwords of the end of an INDIRECT packet in the ring.
    fn indirect_end_align(&self) -> usize {
        sdma::INDIRECT_END_ALIGN_DW
    }

    /// Returns the maximum bytes of a copy or fill.
    fn max_bytes(&self) -> u32 {
        sdma::MAX_BYTES
    }

    /// Returns the maximum PTEs of a packet.
    fn max_ptes(&self) -> u32 {
        sdma::ptepde_gen::COUNT.field.max() + 1
    }

    /// Writes a packet to `out`, which is zeroed. Returns its length in dwords; `EINVAL` when it
    /// does not fit.
    fn emit(&self, packet: &DmaPacket, out: &mut [u32; DMA_PACKET_DWORDS]) -> Result<usize> {
        emit(packet, out)
    }
}

/// Poll interval in engine clocks (`SDMA_PKT_POLL_REGMEM_DW5_INTERVAL(10)`,
/// `sdma_v4_4_2_wait_reg_mem`).
const POLL_INTERVAL: u32 = 10;
/// The same for memory (`sdma_v4_4_2_ring_emit_pipeline_sync`).
const MEM_POLL_INTERVAL: u32 = 4;

/// Writes a packet of this shape with these fields, others zero. Returns its length in dwords;
/// `EINVAL` when `out` is too short.
pub(super) fn put(out: &mut [u32], shape: &Packet, fields: &[(DwField, u32)]) -> Result<usize> {
    let out = out.get_mut(..shape.dwords).ok_or(EINVAL)?;
    out[0] = shape.header();
    for (field, value) in fields {
        field.set(out, *value);
    }
    Ok(shape.dwords)
}

/// Encodes POLL_REGMEM without flags, which waits until some bits have a value. `addr` are the two
/// halves of the address.
fn poll(
    out: &mut [u32; DMA_PACKET_DWORDS],
    addr: (u32, u32),
    value: u32,
    mask: u32,
    interval: u32,
) -> Result<usize> {
    use sdma::poll_regmem as p;
    put(
        out,
        &p::PACKET,
        &[
            (p::FUNC, p::FUNC_EQUAL),
            (p::ADDR_LO, addr.0),
            (p::ADDR_HI, addr.1),
            (p::VALUE, value),
            (p::MASK, mask),
            (p::INTERVAL, interval),
            (p::RETRY_COUNT, p::RETRY_FOR_EVER),
        ],
    )
}

/// Encodes a packet for SDMA 4.4.2; later versions keep the positions of its fields. Errors as
/// [`DmaPacketHal::emit`].
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
        DmaPacket::MemSync => Ok(0),
        DmaPacket::Trap { context } => {
            use sdma::trap as p;
            put(out, &p::PACKET, &[(p::INT_CONTEXT, context)])
        }
        DmaPacket::WriteReg(r) => {
            use sdma::srbm_write as p;
            let all_bytes = p::BYTE_EN.field.max();
            let fields = [(p::BYTE_EN, all_bytes), (p::DATA, r.value)];
            let len = put(out, &p::PACKET, &fields)?;
            // The whole dword, see the packet.
            *out.get_mut(p::ADDR.dw).ok_or(EINVAL)? = r.reg;
            Ok(len)
        }
        DmaPacket::WaitReg(r) => poll(out, (r.reg << 2, 0), r.value, r.value, POLL_INTERVAL),
        DmaPacket::WaitMem { addr, value } => {
            let len = poll(out, (lo(addr), hi(addr)), value, !0, MEM_POLL_INTERVAL)?;
            sdma::poll_regmem::MEM_POLL.set(out, 1);
            Ok(len)
        }
        DmaPacket::HdpFlush(flush) => {
            let registers = (flush.done << 2, flush.request << 2);
            let len = poll(out, registers, flush.mask, flush.mask, POLL_INTERVAL)?;
            sdma::poll_regmem::HDP_FLUSH.set(out, 1);
            Ok(len)
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
