// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The compute MQD of gfx9 (`struct v9_mqd`, `include/v9_structs.h`): 512 dwords.
//!
//! Dwords 39 to 42 and 225, 226 have two readings in AMD's header; the struct has the one of
//! GC 9.4.3, [`dw`] has the names of the other as well. The packet processor keeps state in the
//! reserved parts: they are not free.

mqd! {
    /// A compute queue's descriptor in memory.
    Mqd, 512;
    header,
    compute_dispatch_initiator,
    compute_dim_x,
    compute_dim_y,
    compute_dim_z,
    compute_start_x,
    compute_start_y,
    compute_start_z,
    compute_num_thread_x,
    compute_num_thread_y,
    compute_num_thread_z,
    compute_pipelinestat_enable,
    compute_perfcount_enable,
    compute_pgm_lo,
    compute_pgm_hi,
    compute_tba_lo,
    compute_tba_hi,
    compute_tma_lo,
    compute_tma_hi,
    compute_pgm_rsrc1,
    compute_pgm_rsrc2,
    compute_vmid,
    compute_resource_limits,
    compute_static_thread_mgmt_se0,
    compute_static_thread_mgmt_se1,
    compute_tmpring_size,
    compute_static_thread_mgmt_se2,
    compute_static_thread_mgmt_se3,
    compute_restart_x,
    compute_restart_y,
    compute_restart_z,
    compute_thread_trace_enable,
    compute_misc_reserved,
    compute_dispatch_id,
    compute_threadgroup_id,
    compute_relaunch,
    compute_wave_restore_addr_lo,
    compute_wave_restore_addr_hi,
    compute_wave_restore_control,
    compute_current_logic_xcc_id,
    compute_restart_cg_tg_id,
    compute_tg_chunk_size,
    compute_restore_tg_chunk_size,
    reserved_43: [22],
    compute_user_data_0,
    compute_user_data_1,
    compute_user_data_2,
    compute_user_data_3,
    compute_user_data_4,
    compute_user_data_5,
    compute_user_data_6,
    compute_user_data_7,
    compute_user_data_8,
    compute_user_data_9,
    compute_user_data_10,
    compute_user_data_11,
    compute_user_data_12,
    compute_user_data_13,
    compute_user_data_14,
    compute_user_data_15,
    cp_compute_csinvoc_count_lo,
    cp_compute_csinvoc_count_hi,
    reserved_83: [3],
    cp_mqd_query_time_lo,
    cp_mqd_query_time_hi,
    cp_mqd_connect_start_time_lo,
    cp_mqd_connect_start_time_hi,
    cp_mqd_connect_end_time_lo,
    cp_mqd_connect_end_time_hi,
    cp_mqd_connect_end_wf_count,
    cp_mqd_connect_end_pq_rptr,
    cp_mqd_connect_end_pq_wptr,
    cp_mqd_connect_end_ib_rptr,
    cp_mqd_readindex_lo,
    cp_mqd_readindex_hi,
    cp_mqd_save_start_time_lo,
    cp_mqd_save_start_time_hi,
    cp_mqd_save_end_time_lo,
    cp_mqd_save_end_time_hi,
    cp_mqd_restore_start_time_lo,
    cp_mqd_restore_start_time_hi,
    cp_mqd_restore_end_time_lo,
    cp_mqd_restore_end_time_hi,
    disable_queue,
    reserved_107: [1],
    gds_cs_ctxsw_cnt0,
    gds_cs_ctxsw_cnt1,
    gds_cs_ctxsw_cnt2,
    gds_cs_ctxsw_cnt3,
    reserved_112: [2],
    cp_pq_exe_status_lo,
    cp_pq_exe_status_hi,
    cp_packet_id_lo,
    cp_packet_id_hi,
    cp_packet_exe_status_lo,
    cp_packet_exe_status_hi,
    gds_save_base_addr_lo,
    gds_save_base_addr_hi,
    gds_save_mask_lo,
    gds_save_mask_hi,
    ctx_save_base_addr_lo,
    ctx_save_base_addr_hi,
    dynamic_cu_mask_addr_lo,
    dynamic_cu_mask_addr_hi,
    cp_mqd_base_addr_lo,
    cp_mqd_base_addr_hi,
    cp_hqd_active,
    cp_hqd_vmid,
    cp_hqd_persistent_state,
    cp_hqd_pipe_priority,
    cp_hqd_queue_priority,
    cp_hqd_quantum,
    cp_hqd_pq_base_lo,
    cp_hqd_pq_base_hi,
    cp_hqd_pq_rptr,
    cp_hqd_pq_rptr_report_addr_lo,
    cp_hqd_pq_rptr_report_addr_hi,
    cp_hqd_pq_wptr_poll_addr_lo,
    cp_hqd_pq_wptr_poll_addr_hi,
    cp_hqd_pq_doorbell_control,
    reserved_144: [1],
    cp_hqd_pq_control,
    cp_hqd_ib_base_addr_lo,
    cp_hqd_ib_base_addr_hi,
    cp_hqd_ib_rptr,
    cp_hqd_ib_control,
    cp_hqd_iq_timer,
    cp_hqd_iq_rptr,
    cp_hqd_dequeue_request,
    cp_hqd_dma_offload,
    cp_hqd_sema_cmd,
    cp_hqd_msg_type,
    cp_hqd_atomic0_preop_lo,
    cp_hqd_atomic0_preop_hi,
    cp_hqd_atomic1_preop_lo,
    cp_hqd_atomic1_preop_hi,
    cp_hqd_hq_status0,
    cp_hqd_hq_control0,
    cp_mqd_control,
    cp_hqd_hq_status1,
    cp_hqd_hq_control1,
    cp_hqd_eop_base_addr_lo,
    cp_hqd_eop_base_addr_hi,
    cp_hqd_eop_control,
    cp_hqd_eop_rptr,
    cp_hqd_eop_wptr,
    cp_hqd_eop_done_events,
    cp_hqd_ctx_save_base_addr_lo,
    cp_hqd_ctx_save_base_addr_hi,
    cp_hqd_ctx_save_control,
    cp_hqd_cntl_stack_offset,
    cp_hqd_cntl_stack_size,
    cp_hqd_wg_state_offset,
    cp_hqd_ctx_save_size,
    cp_hqd_gds_resource_state,
    cp_hqd_error,
    cp_hqd_eop_wptr_mem,
    cp_hqd_aql_control,
    cp_hqd_pq_wptr_lo,
    cp_hqd_pq_wptr_hi,
    reserved_184: [8],
    iqtimer_pkt_header,
    iqtimer_pkt_dw0,
    iqtimer_pkt_dw1,
    iqtimer_pkt_dw2,
    iqtimer_pkt_dw3,
    iqtimer_pkt_dw4,
    iqtimer_pkt_dw5,
    iqtimer_pkt_dw6,
    iqtimer_pkt_dw7,
    iqtimer_pkt_dw8,
    iqtimer_pkt_dw9,
    iqtimer_pkt_dw10,
    iqtimer_pkt_dw11,
    iqtimer_pkt_dw12,
    iqtimer_pkt_dw13,
    iqtimer_pkt_dw14,
    iqtimer_pkt_dw15,
    iqtimer_pkt_dw16,
    iqtimer_pkt_dw17,
    iqtimer_pkt_dw18,
    iqtimer_pkt_dw19,
    iqtimer_pkt_dw20,
    iqtimer_pkt_dw21,
    iqtimer_pkt_dw22,
    iqtimer_pkt_dw23,
    iqtimer_pkt_dw24,
    iqtimer_pkt_dw25,
    iqtimer_pkt_dw26,
    iqtimer_pkt_dw27,
    iqtimer_pkt_dw28,
    iqtimer_pkt_dw29,
    iqtimer_pkt_dw30,
    iqtimer_pkt_dw31,
    pm4_target_xcc_in_xcp,
    cp_mqd_stride_size,
    reserved_227: [1],
    set_resources_header,
    set_resources_dw1,
    set_resources_dw2,
    set_resources_dw3,
    set_resources_dw4,
    set_resources_dw5,
    set_resources_dw6,
    set_resources_dw7,
    reserved_236: [4],
    queue_doorbell_id0,
    queue_doorbell_id1,
    queue_doorbell_id2,
    queue_doorbell_id3,
    queue_doorbell_id4,
    queue_doorbell_id5,
    queue_doorbell_id6,
    queue_doorbell_id7,
    queue_doorbell_id8,
    queue_doorbell_id9,
    queue_doorbell_id10,
    queue_doorbell_id11,
    queue_doorbell_id12,
    queue_doorbell_id13,
    queue_doorbell_id14,
    queue_doorbell_id15,
    reserved_256: [256],
}

/// Older reading of dword 39 on: thread management of shader engines 4 to 7 (parts with more
/// than four engines and one XCC).
pub const compute_static_thread_mgmt_se4: usize = dw::compute_current_logic_xcc_id;

/// Dword 0 of every compute MQD: what the firmware recognises one by (`kfd_mqd_manager_v9.c`).
pub const HEADER: u32 = 0xc031_0800;

/// First dword of an HIQ's MQD where the firmware leaves the doorbells (dword index on the BAR) of
/// queues that would not preempt.
pub const HIQ_FAILED_DOORBELLS: usize = dw::queue_doorbell_id0;
/// How many of them there is room for.
pub const HIQ_FAILED_DOORBELLS_LEN: usize = 16;

/// Dwords that the packet processor loads into the HQD registers from `regCP_MQD_BASE_ADDR` on:
/// dword `HQD_FIRST + n` goes to register `regCP_MQD_BASE_ADDR + n`.
pub const HQD_FIRST: usize = dw::cp_mqd_base_addr_lo;
/// Last dword of that range.
pub const HQD_LAST: usize = dw::cp_hqd_pq_wptr_hi;

/// Bytes that one MQD occupies when allocated: a page. On gfx9 the control stack of a user queue
/// follows in the next pages.
pub const ALLOC_SIZE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::gc_9_4_3 as gc;
    use zerocopy::IntoBytes;

    #[test]
    fn index_and_field_are_the_same_dword() {
        let mut mqd = Mqd::zeroed();
        mqd.cp_hqd_pq_base_lo = 0x1234_5678;
        assert_eq!(mqd.dwords()[136], 0x1234_5678);
        assert_eq!(dw::cp_hqd_pq_base_lo, 136);
        mqd.dwords_mut()[dw::cp_hqd_vmid] = 5;
        assert_eq!(mqd.cp_hqd_vmid, 5);
        assert_eq!(mqd.as_bytes().len(), 2048);
    }

    #[test]
    fn hqd_registers_follow_the_image() {
        for (reg, dw) in [
            (gc::regCP_MQD_BASE_ADDR, dw::cp_mqd_base_addr_lo),
            (gc::regCP_HQD_ACTIVE, dw::cp_hqd_active),
            (gc::regCP_HQD_VMID, dw::cp_hqd_vmid),
            (gc::regCP_HQD_PQ_BASE, dw::cp_hqd_pq_base_lo),
            (
                gc::regCP_HQD_PQ_DOORBELL_CONTROL,
                dw::cp_hqd_pq_doorbell_control,
            ),
            (gc::regCP_HQD_PQ_CONTROL, dw::cp_hqd_pq_control),
            (gc::regCP_HQD_DEQUEUE_REQUEST, dw::cp_hqd_dequeue_request),
            (gc::regCP_MQD_CONTROL, dw::cp_mqd_control),
            (gc::regCP_HQD_EOP_BASE_ADDR, dw::cp_hqd_eop_base_addr_lo),
            (
                gc::regCP_HQD_CTX_SAVE_BASE_ADDR_LO,
                dw::cp_hqd_ctx_save_base_addr_lo,
            ),
            (gc::regCP_HQD_AQL_CONTROL, dw::cp_hqd_aql_control),
            (gc::regCP_HQD_PQ_WPTR_LO, dw::cp_hqd_pq_wptr_lo),
            (gc::regCP_HQD_PQ_WPTR_HI, dw::cp_hqd_pq_wptr_hi),
        ] {
            let n = reg.off - gc::regCP_MQD_BASE_ADDR.off;
            assert_eq!(HQD_FIRST + n as usize, dw, "{}", reg.name);
        }
    }
}
