// SPDX-License-Identifier: GPL-2.0

//! User queues of the SDMA engines: their images, and the registers of the places ("RLC queues")
//! that the scheduler loads them into.

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

/// See the file.
pub(super) struct SdmaQueue;

impl SdmaQueueVersion for SdmaQueue {
    type Engines = Sdma;
    const DWORDS: usize = Image::DWORDS;
    const AT: &'static SdmaMqdWords = &sdma_mqd_words!(dw);
    const PLACE: &'static RingNames = &ring_names!(s, SDMA_RLC0_);
    const STRIDE: u32 = RLC_REG_STRIDE;
}
