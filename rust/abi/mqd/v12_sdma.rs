// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA MQD of gfx12 (`struct v12_sdma_mqd`, `include/v12_structs.h`): 128 dwords.
//!
//! The first [`REGISTERS`] dwords are the queue registers from `RB_CNTL` on, in register order.
//! `sdma_engine_id` and `sdma_queue_id` are a convention between driver and scheduler firmware.

/// Number of register dwords.
pub const REGISTERS: usize = 47;

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
    sdmax_rlcx_rb_rptr_addr_lo,
    sdmax_rlcx_rb_rptr_addr_hi,
    sdmax_rlcx_ib_cntl,
    sdmax_rlcx_ib_rptr,
    sdmax_rlcx_ib_offset,
    sdmax_rlcx_ib_base_lo,
    sdmax_rlcx_ib_base_hi,
    sdmax_rlcx_ib_size,
    sdmax_rlcx_doorbell,
    sdmax_rlcx_doorbell_log,
    sdmax_rlcx_doorbell_offset,
    sdmax_rlcx_csa_addr_lo,
    sdmax_rlcx_csa_addr_hi,
    sdmax_rlcx_sched_cntl,
    sdmax_rlcx_ib_sub_remain,
    sdmax_rlcx_preempt,
    sdmax_rlcx_dummy_reg,
    sdmax_rlcx_rb_wptr_poll_addr_lo,
    sdmax_rlcx_rb_wptr_poll_addr_hi,
    sdmax_rlcx_rb_aql_cntl,
    sdmax_rlcx_minor_ptr_update,
    sdmax_rlcx_mcu_dbg0,
    sdmax_rlcx_mcu_dbg1,
    sdmax_rlcx_context_switch_status,
    sdmax_rlcx_midcmd_cntl,
    sdmax_rlcx_midcmd_data0,
    sdmax_rlcx_midcmd_data1,
    sdmax_rlcx_midcmd_data2,
    sdmax_rlcx_midcmd_data3,
    sdmax_rlcx_midcmd_data4,
    sdmax_rlcx_midcmd_data5,
    sdmax_rlcx_midcmd_data6,
    sdmax_rlcx_midcmd_data7,
    sdmax_rlcx_midcmd_data8,
    sdmax_rlcx_midcmd_data9,
    sdmax_rlcx_midcmd_data10,
    sdmax_rlcx_wait_unsatisfied_thd,
    sdmax_rlcx_mqd_base_addr_lo,
    sdmax_rlcx_mqd_base_addr_hi,
    sdmax_rlcx_mqd_control,
    reserved_47: [79],
    sdma_engine_id,
    sdma_queue_id,
}
