// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA MQD of gfx9 (`struct v9_sdma_mqd`, `include/v9_structs.h`): 128 dwords.
//!
//! RLC queue registers in the order of the SDMA engine. `sdma_engine_id` and `sdma_queue_id` are a
//! convention between driver and scheduler firmware.

mqd! {
    /// SDMA MQD.
    SdmaMqd, 128;
    sdmax_rlcx_rb_cntl,
    sdmax_rlcx_rb_base,
    sdmax_rlcx_rb_base_hi,
    sdmax_rlcx_rb_rptr,
    sdmax_rlcx_rb_rptr_hi,
    sdmax_rlcx_rb_wptr,
    sdmax_rlcx_rb_wptr_hi,
    sdmax_rlcx_rb_wptr_poll_cntl,
    sdmax_rlcx_rb_rptr_addr_hi,
    sdmax_rlcx_rb_rptr_addr_lo,
    sdmax_rlcx_ib_cntl,
    sdmax_rlcx_ib_rptr,
    sdmax_rlcx_ib_offset,
    sdmax_rlcx_ib_base_lo,
    sdmax_rlcx_ib_base_hi,
    sdmax_rlcx_ib_size,
    sdmax_rlcx_skip_cntl,
    sdmax_rlcx_context_status,
    sdmax_rlcx_doorbell,
    sdmax_rlcx_status,
    sdmax_rlcx_doorbell_log,
    sdmax_rlcx_watermark,
    sdmax_rlcx_doorbell_offset,
    sdmax_rlcx_csa_addr_lo,
    sdmax_rlcx_csa_addr_hi,
    sdmax_rlcx_ib_sub_remain,
    sdmax_rlcx_preempt,
    sdmax_rlcx_dummy_reg,
    sdmax_rlcx_rb_wptr_poll_addr_hi,
    sdmax_rlcx_rb_wptr_poll_addr_lo,
    sdmax_rlcx_rb_aql_cntl,
    sdmax_rlcx_minor_ptr_update,
    sdmax_rlcx_midcmd_data0,
    sdmax_rlcx_midcmd_data1,
    sdmax_rlcx_midcmd_data2,
    sdmax_rlcx_midcmd_data3,
    sdmax_rlcx_midcmd_data4,
    sdmax_rlcx_midcmd_data5,
    sdmax_rlcx_midcmd_data6,
    sdmax_rlcx_midcmd_data7,
    sdmax_rlcx_midcmd_data8,
    sdmax_rlcx_midcmd_cntl,
    reserved_42: [2],
    sdmax_rlcx_utilization_lo,
    sdmax_rlcx_utilization_hi,
    reserved_46: [80],
    sdma_engine_id,
    sdma_queue_id,
}
