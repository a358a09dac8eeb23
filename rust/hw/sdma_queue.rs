// SPDX-License-Identifier: GPL-2.0

//! User SDMA queues: HAL trait, MQDs and queue registers shared by all versions.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    regs::{name::sdma_queue, Reg, Untyped},
};

use super::{
    gfx::RegisterDump,
    mqd::{order, QueueSpec, SdmaQueueId},
    names::names,
    sdma::{RingNames, SdmaVersion},
};
use crate::asic::mmio::Mmio;

/// User SDMA queues. Register accesses return `ENODEV` after unbind or for a missing engine.
pub(crate) trait SdmaQueueHal: Sync {
    /// Returns the dwords of an MQD.
    fn dwords(&self) -> usize;

    /// Initialises a zeroed MQD of the queue at `place`, or updates its mutable fields. `EINVAL`
    /// for a wrong length.
    fn update(&self, place: SdmaQueueId, spec: &QueueSpec, image: &mut [u32]) -> Result;

    /// Returns the doorbell of the selected queue at `place`, as dword index in the doorbell BAR.
    fn held_doorbell(&self, mmio: &Mmio, place: SdmaQueueId) -> Result<Option<u32>>;

    /// Dumps the queue registers of a place if its ring is enabled. `ENOMEM` for the list.
    fn dump(&self, mmio: &Mmio, place: SdmaQueueId) -> Result<Option<RegisterDump>>;
}

names! { $
    /// MQD words of all versions.
    struct SdmaMqdWords, sdma_mqd_words of sdma_queue {
        plain {
            sdmax_rlcx_rb_rptr_addr_hi,
            sdmax_rlcx_rb_rptr_addr_lo,
            sdmax_rlcx_dummy_reg,
            sdma_engine_id,
            sdma_queue_id,
        }
        words {
            sdmax_rlcx_rb_cntl: RB_CNTL,
            sdmax_rlcx_rb_base: RB_BASE,
            sdmax_rlcx_rb_base_hi: RB_BASE_HI,
            sdmax_rlcx_ib_cntl: IB_CNTL,
            sdmax_rlcx_doorbell_offset: DOORBELL_OFFSET,
        }
    }
}

/// RPTR_WRITEBACK_TIMER (`update_mqd_sdma`, `kfd_mqd_manager_v9.c`).
const RPTR_WRITEBACK_TIMER: u32 = 6;
/// `SDMA_RLC_DUMMY_DEFAULT`, `kfd_mqd_manager_v9.c`.
const DUMMY: u32 = 0xf;

/// A version of the user SDMA queues.
pub(super) trait SdmaQueueVersion: Sync {
    /// The engines.
    type Engines: SdmaVersion;
    /// Dwords of an MQD.
    const DWORDS: usize;
    /// Places of the MQD words.
    const AT: &'static SdmaMqdWords;
    /// Registers of queue 0.
    const PLACE: &'static RingNames;
    /// Dwords between the registers of adjacent queues.
    const STRIDE: u32;

    /// Updates the fields of this version.
    fn update(spec: &QueueSpec, m: &mut [u32]) {
        let _ = (spec, m);
    }
}

impl<T: SdmaQueueVersion> SdmaQueueHal for T {
    fn dwords(&self) -> usize {
        T::DWORDS
    }

    fn update(&self, place: SdmaQueueId, spec: &QueueSpec, m: &mut [u32]) -> Result {
        if m.len() != T::DWORDS {
            return Err(EINVAL);
        }
        let (at, n) = (T::AT, T::PLACE);
        // The scheduler sets the VMID.
        at.sdmax_rlcx_rb_cntl.set(
            m,
            n.RB_CNTL__RB_SIZE.put(order(spec.ring_size / 4))
                | n.RB_CNTL__RPTR_WRITEBACK_ENABLE.put(1)
                | n.RB_CNTL__RPTR_WRITEBACK_TIMER.put(RPTR_WRITEBACK_TIMER),
        );
        at.sdmax_rlcx_rb_base.set(m, lo(spec.ring_va >> 8));
        at.sdmax_rlcx_rb_base_hi.set(m, hi(spec.ring_va >> 8));
        m[at.sdmax_rlcx_rb_rptr_addr_lo] = lo(spec.rptr_va);
        m[at.sdmax_rlcx_rb_rptr_addr_hi] = hi(spec.rptr_va);
        at.sdmax_rlcx_doorbell_offset
            .set(m, n.DOORBELL_OFFSET__OFFSET.put(spec.doorbell));
        m[at.sdma_engine_id] = place.engine;
        m[at.sdma_queue_id] = place.queue;
        m[at.sdmax_rlcx_dummy_reg] = DUMMY;
        // An IB may be preempted by other queues.
        at.sdmax_rlcx_ib_cntl
            .or(m, n.IB_CNTL__SWITCH_INSIDE_IB.put(1));
        T::update(spec, m);
        Ok(())
    }

    fn held_doorbell(&self, mmio: &Mmio, place: SdmaQueueId) -> Result<Option<u32>> {
        let e = T::Engines::engine(mmio, place.engine)?;
        let (n, at) = (T::PLACE, place.queue * T::STRIDE);
        let status = e.rd_at(n.CONTEXT_STATUS, at)?;
        if !n.CONTEXT_STATUS__SELECTED.is_set(status) {
            return Ok(None);
        }
        let doorbell = n
            .DOORBELL_OFFSET__OFFSET
            .get(e.rd_at(n.DOORBELL_OFFSET, at)?);
        Ok((doorbell != 0).then_some(doorbell))
    }

    fn dump(&self, mmio: &Mmio, place: SdmaQueueId) -> Result<Option<RegisterDump>> {
        let e = T::Engines::engine(mmio, place.engine)?;
        let (n, at) = (T::PLACE, place.queue * T::STRIDE);
        if !n.RB_CNTL__RB_ENABLE.is_set(e.rd_at(n.RB_CNTL, at)?) {
            return Ok(None);
        }
        e.dump(&dumped(n), at).map(Some)
    }
}

/// Dumped registers.
fn dumped(n: &RingNames) -> [Reg<Untyped>; 16] {
    [
        n.RB_CNTL.untyped(),
        n.RB_BASE.untyped(),
        n.RB_BASE_HI.untyped(),
        n.RB_RPTR.untyped(),
        n.RB_RPTR_HI.untyped(),
        n.RB_WPTR.untyped(),
        n.RB_WPTR_HI.untyped(),
        n.RB_RPTR_ADDR_HI.untyped(),
        n.RB_RPTR_ADDR_LO.untyped(),
        n.IB_CNTL.untyped(),
        n.CONTEXT_STATUS.untyped(),
        n.DOORBELL.untyped(),
        n.DOORBELL_OFFSET.untyped(),
        n.RB_WPTR_POLL_ADDR_HI.untyped(),
        n.RB_WPTR_POLL_ADDR_LO.untyped(),
        n.MINOR_PTR_UPDATE.untyped(),
    ]
}
