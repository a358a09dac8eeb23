// SPDX-License-Identifier: GPL-2.0

//! Packets whose form is this generation's.

use kernel::prelude::*;
use rkfd_abi::pm4::map_process as p;

use crate::hw::{MapProcess, PacketHal};

/// See the file.
pub(super) struct Packets;

/// How long a process keeps the hardware when there are too many, in milliseconds.
const QUANTUM: u32 = 10;

impl PacketHal for Packets {
    fn map_process_dwords(&self) -> usize {
        p::DWORDS
    }

    fn map_process(&self, m: &MapProcess, out: &mut [u32]) -> Result {
        if out.len() != p::DWORDS {
            return Err(EINVAL);
        }
        out.fill(0);
        out[0] = p::PACKET.header();
        p::PASID.set(out, m.pasid);
        p::PROCESS_QUANTUM.set(out, QUANTUM);
        p::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32.set(out, m.root as u32);
        p::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32.set(out, (m.root >> 32) as u32);
        p::SH_MEM_BASES.set(out, m.sh_mem_bases);
        p::SH_MEM_CONFIG.set(out, m.sh_mem_config);
        if m.tba != 0 {
            p::SQ_SHADER_TBA_LO.set(out, (m.tba >> 8) as u32);
            p::SQ_SHADER_TBA_HI.set(out, (m.tba >> 40) as u32);
            p::SQ_SHADER_TMA_LO.set(out, (m.tma >> 8) as u32);
            p::SQ_SHADER_TMA_HI.set(out, (m.tma >> 40) as u32);
        }
        p::NUM_GWS.set(out, m.num_gws);
        p::SDMA_ENABLE.set(out, 1);
        p::NUM_QUEUES.set(out, m.num_queues);
        Ok(())
    }

    fn xnack_chain(&self) -> bool {
        // Needs MEC firmware 184 or later, and the driver does not load firmware yet.
        false
    }
}
