// SPDX-License-Identifier: GPL-2.0

//! SDMA 7 packets where they differ from SDMA 4.4.2. Layouts are in `abi`.

use kernel::prelude::*;
use rkfd_abi::sdma::v7::{self as sdma, gcr};

use crate::hw::dma::{emit, put, DmaPacket, DmaPacketHal, DMA_PACKET_DWORDS};

/// Cache actions of [`DmaPacket::MemSync`] (`sdma_v7_0_ring_emit_mem_sync`).
const MEM_SYNC: u32 = gcr::GL2_INV.mask
    | gcr::GL2_WB.mask
    | gcr::GLM_INV.mask
    | gcr::GL1_INV.mask
    | gcr::GLV_INV.mask
    | gcr::GLK_INV.mask
    | gcr::GLI_INV.put(1);

/// SDMA 7 packets.
pub(super) struct DmaPackets;

impl DmaPacketHal for DmaPackets {
    fn emit(&self, packet: &DmaPacket, out: &mut [u32; DMA_PACKET_DWORDS]) -> Result<usize> {
        if let DmaPacket::WriteReg(r) = packet {
            use sdma::register_write as p;
            let fields = [(p::ADDR, r.reg << 2), (p::DATA, r.value)];
            return put(out, &p::PACKET, &fields);
        }
        if let DmaPacket::MemSync = packet {
            use sdma::gcr_req as p;
            let (low, high) = (MEM_SYNC & 0xffff, MEM_SYNC >> 16);
            let fields = [(p::GCR_CONTROL_15_0, low), (p::GCR_CONTROL_18_16, high)];
            return put(out, &p::PACKET, &fields);
        }
        let len = emit(packet, out)?;
        match packet {
            DmaPacket::Fence { .. } => {
                use sdma::fence as p;
                p::MTYPE.set(out, p::MTYPE_UC);
                Ok(len)
            }
            DmaPacket::Fill { .. } => {
                out[0] |= sdma::const_fill::COMPRESS.put(1);
                Ok(len)
            }
            DmaPacket::Copy { .. } => {
                // One more dword: no compression.
                use sdma::copy_linear_cpv as p;
                p::CPV.set(out, 1);
                Ok(p::DWORDS)
            }
            _ => Ok(len),
        }
    }
}
