// SPDX-License-Identifier: GPL-2.0

//! User queues of the SDMA engines: their images, and the registers of the places that the
//! scheduler loads them into.

use kernel::prelude::*;
use rkfd_abi::{
    mqd::v12_sdma::SdmaMqd as Image,
    regs::{gc_12_0_0 as sdma, Reg},
    sdma::v7::QUEUE_REG_STRIDE,
};

use super::sdma::Engine;
use crate::{
    gpu::mmio::Mmio,
    hw::{HqdDump, QueueSpec, SdmaPlace, SdmaQueueHal},
};

/// See the file.
pub(super) struct SdmaQueue;

/// How often the engine reports its read pointer.
const RPTR_WRITEBACK_TIMER: u32 = 6;
/// How long a queue keeps the engine when others wait.
const QUANTUM: u32 = 32;
/// What the dummy register of a queue holds.
const DUMMY: u32 = 0xf;

/// What a dump shows.
const DUMPED: &[Reg] = &[
    sdma::regSDMA0_QUEUE0_RB_CNTL,
    sdma::regSDMA0_QUEUE0_RB_BASE,
    sdma::regSDMA0_QUEUE0_RB_BASE_HI,
    sdma::regSDMA0_QUEUE0_RB_RPTR,
    sdma::regSDMA0_QUEUE0_RB_RPTR_HI,
    sdma::regSDMA0_QUEUE0_RB_WPTR,
    sdma::regSDMA0_QUEUE0_RB_WPTR_HI,
    sdma::regSDMA0_QUEUE0_RB_RPTR_ADDR_HI,
    sdma::regSDMA0_QUEUE0_RB_RPTR_ADDR_LO,
    sdma::regSDMA0_QUEUE0_IB_CNTL,
    sdma::regSDMA0_QUEUE0_CONTEXT_STATUS,
    sdma::regSDMA0_QUEUE0_DOORBELL,
    sdma::regSDMA0_QUEUE0_DOORBELL_OFFSET,
    sdma::regSDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI,
    sdma::regSDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO,
    sdma::regSDMA0_QUEUE0_MINOR_PTR_UPDATE,
];

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

impl SdmaQueueHal for SdmaQueue {
    fn dwords(&self) -> usize {
        Image::DWORDS
    }

    fn update(&self, place: SdmaPlace, spec: &QueueSpec, words: &mut [u32]) -> Result {
        let mut m = Image::zeroed();
        if words.len() != Image::DWORDS {
            return Err(EINVAL);
        }
        m.dwords_mut().copy_from_slice(words);
        let size = (spec.ring_size / 4).next_power_of_two().trailing_zeros();
        // The scheduler fills the VMID in.
        m.sdmax_rlcx_rb_cntl = sdma::SDMA0_QUEUE0_RB_CNTL__RB_SIZE.put(size)
            | sdma::SDMA0_QUEUE0_RB_CNTL__RPTR_WRITEBACK_ENABLE.put(1)
            | sdma::SDMA0_QUEUE0_RB_CNTL__RPTR_WRITEBACK_TIMER.put(RPTR_WRITEBACK_TIMER)
            | sdma::SDMA0_QUEUE0_RB_CNTL__MCU_WPTR_POLL_ENABLE.put(1);
        m.sdmax_rlcx_rb_base = lo(spec.ring_va >> 8);
        m.sdmax_rlcx_rb_base_hi = hi(spec.ring_va >> 8);
        m.sdmax_rlcx_rb_rptr_addr_lo = lo(spec.rptr_va);
        m.sdmax_rlcx_rb_rptr_addr_hi = hi(spec.rptr_va);
        m.sdmax_rlcx_rb_wptr_poll_addr_lo = lo(spec.wptr_va);
        m.sdmax_rlcx_rb_wptr_poll_addr_hi = hi(spec.wptr_va);
        m.sdmax_rlcx_doorbell_offset =
            sdma::SDMA0_QUEUE0_DOORBELL_OFFSET__OFFSET.put(spec.doorbell);
        m.sdmax_rlcx_sched_cntl = sdma::SDMA0_QUEUE0_SCHEDULE_CNTL__CONTEXT_QUANTUM.put(QUANTUM);
        m.sdma_engine_id = place.engine;
        m.sdma_queue_id = place.queue;
        m.sdmax_rlcx_dummy_reg = DUMMY;
        // Nobody keeps an engine for as long as it takes to work off an indirect buffer.
        m.sdmax_rlcx_ib_cntl |= sdma::SDMA0_QUEUE0_IB_CNTL__SWITCH_INSIDE_IB.put(1);
        words.copy_from_slice(m.dwords());
        Ok(())
    }

    fn held_doorbell(&self, mmio: &Mmio, place: SdmaPlace) -> Result<Option<u32>> {
        let b = Engine::new(mmio, place.engine)?;
        let at = place.queue * QUEUE_REG_STRIDE;
        let status = b.rd_at(sdma::regSDMA0_QUEUE0_CONTEXT_STATUS, at)?;
        if !sdma::SDMA0_QUEUE0_CONTEXT_STATUS__SELECTED.is_set(status) {
            return Ok(None);
        }
        let offset = b.rd_at(sdma::regSDMA0_QUEUE0_DOORBELL_OFFSET, at)?;
        let doorbell = sdma::SDMA0_QUEUE0_DOORBELL_OFFSET__OFFSET.get(offset);
        Ok((doorbell != 0).then_some(doorbell))
    }

    fn dump(&self, mmio: &Mmio, place: SdmaPlace) -> Result<Option<HqdDump>> {
        let b = Engine::new(mmio, place.engine)?;
        let at = place.queue * QUEUE_REG_STRIDE;
        let cntl = b.rd_at(sdma::regSDMA0_QUEUE0_RB_CNTL, at)?;
        if !sdma::SDMA0_QUEUE0_RB_CNTL__RB_ENABLE.is_set(cntl) {
            return Ok(None);
        }
        let mut out = HqdDump::with_capacity(DUMPED.len(), GFP_KERNEL)?;
        for reg in DUMPED {
            out.push((reg.name, b.rd_at(*reg, at)?), GFP_KERNEL)?;
        }
        Ok(Some(out))
    }
}
