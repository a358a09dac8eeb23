// SPDX-License-Identifier: GPL-2.0

//! User SDMA queues of SDMA 4.4.2: MQDs and RLC queue registers.

use rkfd_abi::{
    mqd::v9_sdma::{dw, SdmaMqd as Image},
    regs::sdma_4_4_2 as s,
    sdma::RLC_REG_STRIDE,
};

use super::sdma::Sdma;
use crate::hw::{
    sdma::{ring_names, RingNames},
    sdma_queue::{sdma_mqd_words, SdmaMqdWords, SdmaQueueVersion},
};

/// SDMA MQDs of gfx9 (`struct v9_sdma_mqd`, `v9_structs.h`).
pub(super) struct SdmaQueue;

impl SdmaQueueVersion for SdmaQueue {
    type Engines = Sdma;
    const DWORDS: usize = Image::DWORDS;
    const AT: &'static SdmaMqdWords = &sdma_mqd_words!(dw);
    const PLACE: &'static RingNames = &ring_names!(s, SDMA_RLC0_);
    const STRIDE: u32 = RLC_REG_STRIDE;
}
