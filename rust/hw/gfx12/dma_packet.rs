// SPDX-License-Identifier: GPL-2.0

//! The packets of SDMA 7. Layouts come from `abi`.

use kernel::prelude::*;
use rkfd_abi::sdma::{poll_regmem as poll, v7 as sdma, NOP_SINGLE};

use crate::hw::{
    dma::{hi, lo, put},
    DmaPacket, DmaPacketHal, DMA_PACKET_DWORDS,
};

/// See the file.
pub(super) struct DmaPackets;

/// Time between two reads of a register.
const POLL_INTERVAL: u32 = 10;

impl DmaPacketHal for DmaPackets {
    fn nop(&self) -> u32 {
        NOP_SINGLE
    }

    fn indirect_end_align(&self) -> usize {
        sdma::INDIRECT_END_ALIGN_DW
    }

    fn max_bytes(&self) -> u32 {
        sdma::MAX_BYTES
    }

    fn max_ptes(&self) -> u32 {
        sdma::ptepde_gen::COUNT.field.max() + 1
    }

    fn emit(&self, packet: &DmaPacket, out: &mut [u32; DMA_PACKET_DWORDS]) -> Result<usize> {
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
                        (p::MTYPE, p::MTYPE_UC),
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
                use sdma::register_write as p;
                put(
                    out,
                    &p::PACKET,
                    &[(p::ADDR, r.reg << 2), (p::DATA, r.value)],
                )
            }
            DmaPacket::WaitReg(r) => {
                use sdma::poll_regmem as p;
                put(
                    out,
                    &p::PACKET,
                    &[
                        (p::FUNC, poll::FUNC_EQUAL),
                        (p::ADDR_LO, r.reg << 2),
                        (p::VALUE, r.value),
                        (p::MASK, r.value),
                        (p::INTERVAL, POLL_INTERVAL),
                        (p::RETRY_COUNT, poll::RETRY_FOR_EVER),
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
                        (p::FUNC, poll::FUNC_EQUAL),
                        (p::ADDR_LO, flush.done << 2),
                        (p::ADDR_HI, flush.request << 2),
                        (p::VALUE, flush.mask),
                        (p::MASK, flush.mask),
                        (p::INTERVAL, POLL_INTERVAL),
                        (p::RETRY_COUNT, poll::RETRY_FOR_EVER),
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
                let words = put(
                    out,
                    &p::PACKET,
                    &[
                        (p::FILLSIZE, p::FILLSIZE_DWORD),
                        (p::DST_ADDR_LO, lo(dst)),
                        (p::DST_ADDR_HI, hi(dst)),
                        (p::SRC_DATA, value),
                        (p::COUNT, len - 1),
                    ],
                )?;
                out[0] |= p::COMPRESS.put(1);
                Ok(words)
            }
            DmaPacket::Copy { src, dst, len } => {
                use sdma::copy_linear_cpv as p;
                put(
                    out,
                    &p::PACKET,
                    &[
                        (p::CPV, 1),
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
}
