// SPDX-License-Identifier: GPL-2.0

//! The DMA engines, SDMA 4.4.2: the kernel's ring of each, and the registers of other blocks that
//! packets on it write.
//!
//! Firmware has been loaded and runs. An engine uses the memory hub of its AID and the
//! invalidation engine of the hub that has its number; the CPU's is another one.

use kernel::{
    io::poll::read_poll_timeout,
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    discovery::hwid,
    regs::{
        mmhub_1_8_0 as mm, nbio_7_9_0 as nbio, osssys_4_4_2 as oss, sdma_4_4_2 as s, Field, Reg,
    },
};

use super::{dma_packet::DmaPackets, smu};
use crate::{
    gpu::mmio::{Block, Mmio, POLL_TIMEOUT_US},
    hw::{DmaPacketHal, HdpFlush, HqdDump, RegValue, SdmaHal, SdmaRing, VmSwitch},
};

/// See the file.
pub(super) struct Sdma;

/// Engines of an AID.
const PER_AID: u32 = 4;
/// Interrupt nodes of an AID.
const NODES_PER_AID: u32 = 4;
/// Client number of an AID's first engine in the status of its hub.
const FIRST_FAULT_CLIENT: u32 = 256;
/// Number of banks in the address configuration.
const NUM_BANKS: u32 = 4;
/// Page faults are reported less often than by default, so that they do not flood.
const UTCL1_TIMEOUT: u32 = 0x0080_0080;
/// How long an engine needs at least to come back from its reset.
const RESET_US: i64 = 50;
/// Distances in the memory hub, in dwords.
const CONTEXT_STRIDE: u32 = mm::regVM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32.off
    - mm::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.off;

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// The first engine of the AID with this interrupt node.
pub(super) fn first_of_node(node: u32) -> u32 {
    node / NODES_PER_AID * PER_AID
}

fn block(mmio: &Mmio, engine: u32) -> Result<Block<'_>> {
    mmio.block(hwid::SDMA0, u8::try_from(engine)?)
}

/// The memory hub of an engine.
fn hub(mmio: &Mmio, engine: u32) -> Result<Block<'_>> {
    mmio.block(hwid::MMHUB, u8::try_from(engine / PER_AID)?)
}

impl Sdma {
    /// The parts of an engine's start that do not concern a ring.
    fn start_engine(&self, b: Block<'_>) -> Result {
        for reg in [s::regSDMA_GB_ADDR_CONFIG, s::regSDMA_GB_ADDR_CONFIG_READ] {
            b.set(
                reg,
                &[
                    (s::SDMA_GB_ADDR_CONFIG__NUM_BANKS, NUM_BANKS),
                    (s::SDMA_GB_ADDR_CONFIG__PIPE_INTERLEAVE_SIZE, 0),
                ],
            )?;
        }
        // User queues take turns with the kernel's ring.
        b.set(s::regSDMA_CNTL, &[(s::SDMA_CNTL__AUTO_CTXSW_ENABLE, 1)])?;
        b.wr(s::regSDMA_UTCL1_TIMEOUT, UTCL1_TIMEOUT)?;
        b.wr(s::regSDMA_SEM_WAIT_FAIL_TIMER_CNTL, 0)
    }

    fn start_ring(&self, b: Block<'_>, ring: &SdmaRing) -> Result {
        let fields: &[(Field, u32)] = &[
            (s::SDMA_GFX_RB_CNTL__RB_SIZE, (ring.size / 4).ilog2()),
            (s::SDMA_GFX_RB_CNTL__RPTR_WRITEBACK_ENABLE, 1),
        ];
        b.set(s::regSDMA_GFX_RB_CNTL, fields)?;
        b.wr(s::regSDMA_GFX_RB_RPTR_ADDR_HI, hi(ring.rptr))?;
        b.wr(s::regSDMA_GFX_RB_RPTR_ADDR_LO, lo(ring.rptr) & !3)?;
        b.wr(s::regSDMA_GFX_RB_BASE, lo(ring.base >> 8))?;
        b.wr(s::regSDMA_GFX_RB_BASE_HI, lo(ring.base >> 40))?;

        // The write pointer may only go back while this is on.
        b.wr(s::regSDMA_GFX_MINOR_PTR_UPDATE, 1)?;
        for pointer in [
            s::regSDMA_GFX_RB_RPTR,
            s::regSDMA_GFX_RB_RPTR_HI,
            s::regSDMA_GFX_RB_WPTR,
            s::regSDMA_GFX_RB_WPTR_HI,
        ] {
            b.wr(pointer, 0)?;
        }
        b.set(
            s::regSDMA_GFX_DOORBELL,
            &[(s::SDMA_GFX_DOORBELL__ENABLE, 1)],
        )?;
        b.set(
            s::regSDMA_GFX_DOORBELL_OFFSET,
            &[(s::SDMA_GFX_DOORBELL_OFFSET__OFFSET, ring.doorbell)],
        )?;
        b.wr(s::regSDMA_GFX_MINOR_PTR_UPDATE, 0)?;

        b.wr(s::regSDMA_GFX_RB_WPTR_POLL_ADDR_LO, lo(ring.wptr))?;
        b.wr(s::regSDMA_GFX_RB_WPTR_POLL_ADDR_HI, hi(ring.wptr))?;
        b.set(
            s::regSDMA_GFX_RB_WPTR_POLL_CNTL,
            &[(s::SDMA_GFX_RB_WPTR_POLL_CNTL__F32_POLL_ENABLE, 0)],
        )?;
        b.set(
            s::regSDMA_GFX_RB_CNTL,
            &[(s::SDMA_GFX_RB_CNTL__RB_ENABLE, 1)],
        )?;
        b.set(
            s::regSDMA_GFX_IB_CNTL,
            &[(s::SDMA_GFX_IB_CNTL__IB_ENABLE, 1)],
        )
    }

    fn is_halted(&self, b: Block<'_>) -> Result<bool> {
        Ok(s::SDMA_F32_CNTL__HALT.is_set(b.rd(s::regSDMA_F32_CNTL)?))
    }
}

impl SdmaHal for Sdma {
    fn start(&self, mmio: &Mmio, engine: u32, ring: &SdmaRing) -> Result {
        let b = block(mmio, engine)?;
        if self.is_halted(b)? {
            // Without firmware there is nobody who would read the ring.
            return Err(EIO);
        }
        self.start_engine(b)?;
        self.start_ring(b, ring)?;
        b.set(
            s::regSDMA_CNTL,
            &[
                (s::SDMA_CNTL__UTC_L1_ENABLE, 1),
                (s::SDMA_CNTL__TRAP_ENABLE, 1),
            ],
        )
    }

    fn stop(&self, mmio: &Mmio, engine: u32) -> Result {
        let b = block(mmio, engine)?;
        b.set(
            s::regSDMA_GFX_RB_CNTL,
            &[(s::SDMA_GFX_RB_CNTL__RB_ENABLE, 0)],
        )?;
        b.set(
            s::regSDMA_GFX_IB_CNTL,
            &[(s::SDMA_GFX_IB_CNTL__IB_ENABLE, 0)],
        )?;
        b.set(s::regSDMA_CNTL, &[(s::SDMA_CNTL__UTC_L1_ENABLE, 0)])?;
        b.set(
            s::regSDMA_GFX_DOORBELL,
            &[(s::SDMA_GFX_DOORBELL__ENABLE, 0)],
        )?;
        b.set(
            s::regSDMA_GFX_DOORBELL_OFFSET,
            &[(s::SDMA_GFX_DOORBELL_OFFSET__OFFSET, 0)],
        )
    }

    fn is_selected(&self, mmio: &Mmio, engine: u32) -> Result<bool> {
        let status = block(mmio, engine)?.rd(s::regSDMA_GFX_CONTEXT_STATUS)?;
        Ok(s::SDMA_GFX_CONTEXT_STATUS__SELECTED.is_set(status))
    }

    fn is_idle(&self, mmio: &Mmio, engine: u32) -> Result<bool> {
        let status = block(mmio, engine)?.rd(s::regSDMA_STATUS_REG)?;
        Ok(s::SDMA_STATUS_REG__IDLE.is_set(status))
    }

    fn reset(&self, mmio: &Mmio, engine: u32) -> Result {
        smu::reset_sdma(mmio, engine)?;
        fsleep(Delta::from_micros(RESET_US));
        let b = block(mmio, engine)?;
        read_poll_timeout(
            || self.is_halted(b),
            |halted| !*halted,
            Delta::from_micros(1),
            Delta::from_micros(POLL_TIMEOUT_US),
        )?;
        Ok(())
    }

    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch> {
        let hub = hub(mmio, engine)?;
        let inv = engine % PER_AID;
        let request = mm::VM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ.put(1 << vmid)
            | mm::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES.put(1)
            | mm::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.put(1)
            | mm::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1.put(1)
            | mm::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2.put(1)
            | mm::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES.put(1);
        let at = |block: Block<'_>, reg: Reg, index: u32, value: u32| -> Result<RegValue> {
            let reg = block.address(reg, index)?;
            Ok(RegValue { reg, value })
        };
        let base = mm::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32;
        let ih = mmio.block(hwid::OSSSYS, 0)?;
        Ok(VmSwitch {
            writes: [
                at(hub, base, vmid * CONTEXT_STRIDE, lo(root))?,
                at(hub, base, vmid * CONTEXT_STRIDE + 1, hi(root))?,
                at(ih, oss::regIH_VMID_0_LUT_MM, vmid, pasid)?,
                at(hub, mm::regVM_INVALIDATE_ENG0_REQ, inv, request)?,
            ],
            done: at(hub, mm::regVM_INVALIDATE_ENG0_ACK, inv, 1 << vmid)?,
        })
    }

    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush> {
        let b = mmio.block(hwid::NBIF, 0)?;
        Ok(HdpFlush {
            request: b.address(nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ, 0)?,
            done: b.address(nbio::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE, 0)?,
            mask: nbio::BIF_BX_PF0_GPU_HDP_FLUSH_REQ__SDMA0.mask << (engine % PER_AID),
        })
    }

    fn fault_engine(&self, status: u32, node: u32) -> Option<u32> {
        let client = mm::VM_L2_PROTECTION_FAULT_STATUS__CID.get(status);
        let n = client.checked_sub(FIRST_FAULT_CLIENT)?;
        (n < PER_AID).then(|| first_of_node(node) + n)
    }

    fn packets(&self) -> &'static dyn DmaPacketHal {
        &DmaPackets
    }

    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<HqdDump> {
        const REGS: &[Reg] = &[
            s::regSDMA_F32_CNTL,
            s::regSDMA_CNTL,
            s::regSDMA_STATUS_REG,
            s::regSDMA_STATUS1_REG,
            s::regSDMA_GFX_RB_CNTL,
            s::regSDMA_GFX_RB_BASE,
            s::regSDMA_GFX_RB_BASE_HI,
            s::regSDMA_GFX_RB_RPTR,
            s::regSDMA_GFX_RB_RPTR_HI,
            s::regSDMA_GFX_RB_WPTR,
            s::regSDMA_GFX_RB_WPTR_HI,
            s::regSDMA_GFX_IB_CNTL,
            s::regSDMA_GFX_IB_BASE_LO,
            s::regSDMA_GFX_IB_BASE_HI,
            s::regSDMA_GFX_IB_SIZE,
            s::regSDMA_GFX_IB_OFFSET,
            s::regSDMA_GFX_CONTEXT_STATUS,
            s::regSDMA_GFX_DOORBELL,
            s::regSDMA_GFX_DOORBELL_OFFSET,
        ];
        let b = block(mmio, engine)?;
        let mut dump = KVec::with_capacity(REGS.len(), GFP_KERNEL)?;
        for reg in REGS {
            let name = reg.name.strip_prefix("reg").unwrap_or(reg.name);
            dump.push((name, b.rd(*reg)?), GFP_KERNEL)?;
        }
        Ok(dump)
    }
}
