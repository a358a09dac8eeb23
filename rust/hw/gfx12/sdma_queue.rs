// SPDX-License-Identifier: GPL-2.0

//! User SDMA queues of SDMA 7.0: MQDs and queue registers.

use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    mqd::v12_sdma::{dw, SdmaMqd as Image},
    regs::{gc_12_0_0 as s, name, Word},
    sdma::v7::QUEUE_REG_STRIDE,
};

use super::sdma::Sdma;
use crate::hw::{
    mqd::QueueSpec,
    sdma::{ring_names, RingNames},
    sdma_queue::{sdma_mqd_words, SdmaMqdWords, SdmaQueueVersion},
};

/// SDMA MQDs of gfx12 (`struct v12_sdma_mqd`, `v12_structs.h`).
pub(super) struct SdmaQueue;

/// Context quantum (`amdgpu_sdma_phase_quantum`, `kfd_mqd_manager_v12.c`).
const QUANTUM: u32 = 32;
const SCHED_CNTL: Word<name::sdma_queue::SCHEDULE_CNTL> = Word::new(dw::sdmax_rlcx_sched_cntl);

impl SdmaQueueVersion for SdmaQueue {
    type Engines = Sdma;
    const DWORDS: usize = Image::DWORDS;
    const AT: &'static SdmaMqdWords = &sdma_mqd_words!(dw);
    const PLACE: &'static RingNames = &ring_names!(s, SDMA0_QUEUE0_);
    const STRIDE: u32 = QUEUE_REG_STRIDE;

    fn update(spec: &QueueSpec, m: &mut [u32]) {
        let poll = s::SDMA0_QUEUE0_RB_CNTL__MCU_WPTR_POLL_ENABLE;
        Self::AT.sdmax_rlcx_rb_cntl.or(m, poll.put(1));
        m[dw::sdmax_rlcx_rb_wptr_poll_addr_lo] = lo(spec.wptr_va);
        m[dw::sdmax_rlcx_rb_wptr_poll_addr_hi] = hi(spec.wptr_va);
        SCHED_CNTL.set(
            m,
            s::SDMA0_QUEUE0_SCHEDULE_CNTL__CONTEXT_QUANTUM.put(QUANTUM),
        );
    }
}
