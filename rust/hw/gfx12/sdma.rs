// SPDX-License-Identifier: GPL-2.0

//! The DMA engines, SDMA 7.0: the kernel's ring of each (its queue 0), and the registers of other
//! blocks that packets on it write.
//!
//! The engines are part of the graphics core: their registers are among its registers, they use
//! its hub, and of that the invalidation engine that has their number.

use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    discovery::hwid,
    regs::{gc_12_0_0 as s, nbif_6_3_1 as nbif, osssys_7_0_0 as oss, Field, Reg},
    sdma::v7::{ENGINES, ENGINE_REG_STRIDE, HYP_REG_STRIDE},
};

use super::{dma_packet::DmaPackets, gmc};
use crate::{
    gpu::mmio::{Block, Mmio},
    hw::{DmaPacketHal, FlushType, HdpFlush, HqdDump, RegValue, SdmaHal, SdmaRing, VmSwitch},
};

/// See the file.
pub(super) struct Sdma;

/// The client number of the first engine in the status of the hub.
const FIRST_FAULT_CLIENT: u32 = 13;
/// Units of 100 ms after which an engine thinks that a queue hangs.
const HANG_COUNT: u32 = 1;
/// Translations are repeated so many times.
const REDO_DELAY: u32 = 9;
/// Addresses are not copied with their translation.
const RESP_MODE: u32 = 3;
/// What stays of the translation's page register: all but the cache policies, whose default is 0.
const UTCL1_PAGE_KEEP: u32 = 0x00ff_0fff;
/// How long each step of an engine's reset takes.
const RESET_US: i64 = 100;
/// From one context's page table root to the next one's, in dwords.
const CONTEXT_STRIDE: u32 = s::regGCVM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32.off
    - s::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.off;
/// The queue that is the kernel's ring.
const KERNEL_QUEUE: u32 = 0;

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// The registers of an engine: those of the core, moved.
#[derive(Clone, Copy)]
pub(super) struct Engine<'a> {
    core: Block<'a>,
    engine: u32,
}

impl<'a> Engine<'a> {
    pub(super) fn new(mmio: &'a Mmio, engine: u32) -> Result<Self> {
        if engine as usize >= ENGINES {
            return Err(EINVAL);
        }
        let core = mmio.block(hwid::GC, 0)?;
        Ok(Self { core, engine })
    }

    fn index(self, reg: Reg) -> u32 {
        let stride = if reg.seg == s::regSDMA0_MCU_CNTL.seg {
            HYP_REG_STRIDE
        } else {
            ENGINE_REG_STRIDE
        };
        self.engine * stride
    }

    pub(super) fn rd_at(self, reg: Reg, index: u32) -> Result<u32> {
        self.core.rd_at(reg, self.index(reg) + index)
    }

    pub(super) fn rd(self, reg: Reg) -> Result<u32> {
        self.rd_at(reg, 0)
    }

    fn wr(self, reg: Reg, value: u32) -> Result {
        self.core.wr_at(reg, self.index(reg), value)
    }

    fn set(self, reg: Reg, fields: &[(Field, u32)]) -> Result {
        let value = self.rd(reg)?;
        let value = fields
            .iter()
            .fold(value, |v, (field, to)| field.set(v, *to));
        self.wr(reg, value)
    }
}

impl Sdma {
    fn start_ring(&self, b: Engine<'_>, ring: &SdmaRing) -> Result {
        b.set(
            s::regSDMA0_QUEUE0_RB_CNTL,
            &[
                (s::SDMA0_QUEUE0_RB_CNTL__RB_ENABLE, 0),
                (s::SDMA0_QUEUE0_RB_CNTL__RB_SIZE, (ring.size / 4).ilog2()),
                (s::SDMA0_QUEUE0_RB_CNTL__RB_PRIV, 1),
            ],
        )?;
        for pointer in [
            s::regSDMA0_QUEUE0_RB_RPTR,
            s::regSDMA0_QUEUE0_RB_RPTR_HI,
            s::regSDMA0_QUEUE0_RB_WPTR,
            s::regSDMA0_QUEUE0_RB_WPTR_HI,
        ] {
            b.wr(pointer, 0)?;
        }
        b.wr(s::regSDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO, lo(ring.wptr))?;
        b.wr(s::regSDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI, hi(ring.wptr))?;
        b.wr(s::regSDMA0_QUEUE0_RB_RPTR_ADDR_HI, hi(ring.rptr))?;
        b.wr(s::regSDMA0_QUEUE0_RB_RPTR_ADDR_LO, lo(ring.rptr) & !3)?;
        b.wr(s::regSDMA0_QUEUE0_RB_BASE, lo(ring.base >> 8))?;
        b.wr(s::regSDMA0_QUEUE0_RB_BASE_HI, lo(ring.base >> 40))?;

        // The write pointer may only go back while this is on.
        b.wr(s::regSDMA0_QUEUE0_MINOR_PTR_UPDATE, 1)?;
        b.wr(s::regSDMA0_QUEUE0_RB_WPTR, 0)?;
        b.wr(s::regSDMA0_QUEUE0_RB_WPTR_HI, 0)?;
        b.set(
            s::regSDMA0_QUEUE0_DOORBELL,
            &[(s::SDMA0_QUEUE0_DOORBELL__ENABLE, 1)],
        )?;
        b.set(
            s::regSDMA0_QUEUE0_DOORBELL_OFFSET,
            &[(s::SDMA0_QUEUE0_DOORBELL_OFFSET__OFFSET, ring.doorbell)],
        )?;
        b.wr(s::regSDMA0_QUEUE0_MINOR_PTR_UPDATE, 0)
    }

    /// The parts of an engine's start that do not concern a ring.
    fn start_engine(&self, b: Engine<'_>) -> Result {
        b.set(
            s::regSDMA0_WATCHDOG_CNTL,
            &[(s::SDMA0_WATCHDOG_CNTL__QUEUE_HANG_COUNT, HANG_COUNT)],
        )?;
        b.set(
            s::regSDMA0_UTCL1_CNTL,
            &[
                (s::SDMA0_UTCL1_CNTL__RESP_MODE, RESP_MODE),
                (s::SDMA0_UTCL1_CNTL__REDO_DELAY, REDO_DELAY),
            ],
        )?;
        let page = b.rd(s::regSDMA0_UTCL1_PAGE)?;
        b.wr(s::regSDMA0_UTCL1_PAGE, page & UTCL1_PAGE_KEEP)?;
        b.set(
            s::regSDMA0_MCU_CNTL,
            &[(s::SDMA0_MCU_CNTL__HALT, 0), (s::SDMA0_MCU_CNTL__RESET, 0)],
        )
    }

    /// Resets the whole engine.
    fn soft_reset(&self, b: Engine<'_>) -> Result {
        b.set(
            s::regSDMA0_MCU_CNTL,
            &[(s::SDMA0_MCU_CNTL__HALT, 1), (s::SDMA0_MCU_CNTL__RESET, 1)],
        )?;
        b.wr(s::regSDMA0_QUEUE0_PREEMPT, 0)?;
        let bit = s::GRBM_SOFT_RESET__SOFT_RESET_SDMA0.mask << b.engine;
        for value in [bit, 0] {
            fsleep(Delta::from_micros(RESET_US));
            b.core.wr(s::regGRBM_SOFT_RESET, value)?;
            // Reading back makes sure that it arrived.
            b.core.rd(s::regGRBM_SOFT_RESET)?;
        }
        fsleep(Delta::from_micros(RESET_US));
        Ok(())
    }
}

impl SdmaHal for Sdma {
    fn start(&self, mmio: &Mmio, engine: u32, ring: &SdmaRing) -> Result {
        let b = Engine::new(mmio, engine)?;
        self.start_ring(b, ring)?;
        self.start_engine(b)?;
        b.set(
            s::regSDMA0_QUEUE0_RB_CNTL,
            &[
                (s::SDMA0_QUEUE0_RB_CNTL__RPTR_WRITEBACK_ENABLE, 1),
                (s::SDMA0_QUEUE0_RB_CNTL__WPTR_POLL_ENABLE, 0),
                (s::SDMA0_QUEUE0_RB_CNTL__MCU_WPTR_POLL_ENABLE, 1),
                (s::SDMA0_QUEUE0_RB_CNTL__RB_ENABLE, 1),
            ],
        )?;
        b.set(
            s::regSDMA0_QUEUE0_IB_CNTL,
            &[(s::SDMA0_QUEUE0_IB_CNTL__IB_ENABLE, 1)],
        )?;
        b.set(s::regSDMA0_CNTL, &[(s::SDMA0_CNTL__TRAP_ENABLE, 1)])
    }

    fn stop(&self, mmio: &Mmio, engine: u32) -> Result {
        let b = Engine::new(mmio, engine)?;
        b.set(
            s::regSDMA0_QUEUE0_RB_CNTL,
            &[(s::SDMA0_QUEUE0_RB_CNTL__RB_ENABLE, 0)],
        )?;
        b.set(
            s::regSDMA0_QUEUE0_IB_CNTL,
            &[(s::SDMA0_QUEUE0_IB_CNTL__IB_ENABLE, 0)],
        )?;
        b.set(
            s::regSDMA0_QUEUE0_DOORBELL,
            &[(s::SDMA0_QUEUE0_DOORBELL__ENABLE, 0)],
        )?;
        b.set(
            s::regSDMA0_QUEUE0_DOORBELL_OFFSET,
            &[(s::SDMA0_QUEUE0_DOORBELL_OFFSET__OFFSET, 0)],
        )
    }

    fn is_selected(&self, mmio: &Mmio, engine: u32) -> Result<bool> {
        let status = Engine::new(mmio, engine)?.rd(s::regSDMA0_QUEUE0_CONTEXT_STATUS)?;
        Ok(s::SDMA0_QUEUE0_CONTEXT_STATUS__SELECTED.is_set(status))
    }

    fn is_idle(&self, mmio: &Mmio, engine: u32) -> Result<bool> {
        let status = Engine::new(mmio, engine)?.rd(s::regSDMA0_STATUS_REG)?;
        Ok(s::SDMA0_STATUS_REG__IDLE.is_set(status))
    }

    fn reset(&self, mmio: &Mmio, engine: u32) -> Result {
        let b = Engine::new(mmio, engine)?;
        // First the ring alone; what else is on the engine goes on then.
        let ring = 1u32 << KERNEL_QUEUE;
        b.wr(s::regSDMA0_QUEUE_RESET_REQ, ring)?;
        let index = b.index(s::regSDMA0_QUEUE_RESET_REQ);
        let done = b
            .core
            .poll(s::regSDMA0_QUEUE_RESET_REQ, index, |v| v & ring == 0);
        match done {
            Ok(_) => Ok(()),
            Err(_) => self.soft_reset(b),
        }
    }

    fn vm_switch(
        &self,
        mmio: &Mmio,
        engine: u32,
        vmid: u32,
        root: u64,
        pasid: u32,
    ) -> Result<VmSwitch> {
        let hub = mmio.block(hwid::GC, 0)?;
        let request = gmc::invalidate_request(vmid, FlushType::Legacy);
        let at = |block: Block<'_>, reg: Reg, index: u32, value: u32| -> Result<RegValue> {
            let reg = block.address(reg, index)?;
            Ok(RegValue { reg, value })
        };
        let base = s::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32;
        let ih = mmio.block(hwid::OSSSYS, 0)?;
        Ok(VmSwitch {
            writes: [
                at(hub, base, vmid * CONTEXT_STRIDE, lo(root))?,
                at(hub, base, vmid * CONTEXT_STRIDE + 1, hi(root))?,
                at(ih, oss::regIH_VMID_0_LUT, vmid, pasid)?,
                at(hub, s::regGCVM_INVALIDATE_ENG0_REQ, engine, request)?,
            ],
            done: at(hub, s::regGCVM_INVALIDATE_ENG0_ACK, engine, 1 << vmid)?,
        })
    }

    fn hdp_flush(&self, mmio: &Mmio, engine: u32) -> Result<HdpFlush> {
        let b = mmio.block(hwid::NBIF, 0)?;
        Ok(HdpFlush {
            request: b.address(nbif::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ, 0)?,
            done: b.address(nbif::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE, 0)?,
            mask: nbif::BIF_BX_PF0_GPU_HDP_FLUSH_REQ__SDMA0.mask << engine,
        })
    }

    fn fault_engine(&self, status: u32, _node: u32) -> Option<u32> {
        let client = s::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__CID.get(status);
        let n = client.checked_sub(FIRST_FAULT_CLIENT)?;
        ((n as usize) < ENGINES).then_some(n)
    }

    fn packets(&self) -> &'static dyn DmaPacketHal {
        &DmaPackets
    }

    fn dump(&self, mmio: &Mmio, engine: u32) -> Result<HqdDump> {
        const REGS: &[Reg] = &[
            s::regSDMA0_MCU_CNTL,
            s::regSDMA0_CNTL,
            s::regSDMA0_STATUS_REG,
            s::regSDMA0_QUEUE_STATUS0,
            s::regSDMA0_QUEUE0_RB_CNTL,
            s::regSDMA0_QUEUE0_RB_BASE,
            s::regSDMA0_QUEUE0_RB_BASE_HI,
            s::regSDMA0_QUEUE0_RB_RPTR,
            s::regSDMA0_QUEUE0_RB_RPTR_HI,
            s::regSDMA0_QUEUE0_RB_WPTR,
            s::regSDMA0_QUEUE0_RB_WPTR_HI,
            s::regSDMA0_QUEUE0_IB_CNTL,
            s::regSDMA0_QUEUE0_IB_BASE_LO,
            s::regSDMA0_QUEUE0_IB_BASE_HI,
            s::regSDMA0_QUEUE0_IB_SIZE,
            s::regSDMA0_QUEUE0_IB_OFFSET,
            s::regSDMA0_QUEUE0_CONTEXT_STATUS,
            s::regSDMA0_QUEUE0_DOORBELL,
            s::regSDMA0_QUEUE0_DOORBELL_OFFSET,
        ];
        let b = Engine::new(mmio, engine)?;
        let mut dump = KVec::with_capacity(REGS.len(), GFP_KERNEL)?;
        for reg in REGS {
            let name = reg.name.strip_prefix("reg").unwrap_or(reg.name);
            dump.push((name, b.rd(*reg)?), GFP_KERNEL)?;
        }
        Ok(dump)
    }
}
