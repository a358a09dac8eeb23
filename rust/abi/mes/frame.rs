// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames with an opcode of their own. Those of MISC are in `misc`.

frame! {
    /// SET_HW_RSRC (`MESAPI_SET_HW_RESOURCES`): resources a pipe may schedule, and its options.
    set_hw_rsrc = SET_HW_RSRC, status 50;
    words {
        VMID_MASK_MMHUB: 1 [31:0];
        /// VMIDs of user queues, bit n = VMID n.
        VMID_MASK_GFXHUB: 2 [31:0];
        GDS_SIZE: 3 [31:0];
        PAGING_VMID: 4 [31:0];
        DISABLE_RESET: 54 [0:0];
        USE_DIFFERENT_VMID_COMPUTE: 54 [1:1];
        DISABLE_MES_LOG: 54 [2:2];
        APPLY_MMHUB_PGVM_INVALIDATE_ACK_LOSS_WA: 54 [3:3];
        APPLY_GRBM_REMOTE_REGISTER_DUMMY_READ_WA: 54 [4:4];
        SECOND_GFX_PIPE_ENABLED: 54 [5:5];
        ENABLE_LEVEL_PROCESS_QUANTUM_CHECK: 54 [6:6];
        LEGACY_SCH_MODE: 54 [7:7];
        DISABLE_ADD_QUEUE_WPTR_MC_ADDR: 54 [8:8];
        ENABLE_MES_EVENT_INT_LOGGING: 54 [9:9];
        ENABLE_REG_ACTIVE_POLL: 54 [10:10];
        USE_DISABLE_QUEUE_IN_LEGACY_UQ_PREEMPTION: 54 [11:11];
        SEND_WRITE_DATA: 54 [12:12];
        OS_TDR_TIMEOUT_OVERRIDE: 54 [13:13];
        USE_RS64MEM_FOR_PROC_GANG_CTX: 54 [14:14];
        HALT_ON_MISALIGNED_ACCESS: 54 [15:15];
        USE_ADD_QUEUE_UNMAP_FLAG_ADDR: 54 [16:16];
        ENABLE_MES_SCH_STB_LOG: 54 [17:17];
        LIMIT_SINGLE_PROCESS: 54 [18:18];
        /// 0 off, 1 basic, 2 basic+, 3 basic++.
        UNMAPPED_DOORBELL_HANDLING: 54 [20:19];
        ENABLE_MES_FENCE_INT: 54 [21:21];
        ENABLE_LR_COMPUTE_WA: 54 [23:22];
        ENABLE_COMPUTE_PIPE_RESET: 54 [24:24];
        OVERSUBSCRIPTION_TIMER: 55 [31:0];
        OS_TDR_TIMEOUT_IN_SEC: 62 [31:0];
    }
    quads {
        G_SCH_CTX_GPU_MC_PTR: 22;
        QUERY_STATUS_FENCE_GPU_MC_PTR: 24;
        DOORBELL_INFO: 56;
        EVENT_INTR_HISTORY_GPU_MC_PTR: 58;
        TIMESTAMP: 60;
    }
    arrays {
        /// HQDs of each compute pipe, bit n = queue n.
        COMPUTE_HQD_MASK: 5 x crate::mes::COMPUTE_PIPES;
        GFX_HQD_MASK: 13 x crate::mes::GFX_PIPES;
        /// Queues of each SDMA engine, bit n = queue n.
        SDMA_HQD_MASK: 15 x crate::mes::SDMA_PIPES;
        /// Dword index on the doorbell BAR, by priority level.
        AGGREGATED_DOORBELLS: 17 x crate::mes::PRIORITY_LEVELS;
        GC_BASE: 26 x 8;
        MMHUB_BASE: 34 x 8;
        OSSSYS_BASE: 42 x 8;
    }
}

frame! {
    /// SET_HW_RSRC_1 (`MESAPI_SET_HW_RESOURCES_1`): further options.
    set_hw_rsrc_1 = SET_HW_RSRC_1, status 2;
    words {
        ENABLE_MES_DEBUG_CTX: 8 [0:0];
        MES_COOP_MODE: 8 [1:1];
        MES_DEBUG_CTX_SIZE: 12 [31:0];
        /// Unit 100 ms.
        MES_KIQ_UNMAP_TIMEOUT: 13 [31:0];
    }
    quads {
        TIMESTAMP: 6;
        MES_DEBUG_CTX_MC_ADDR: 10;
        COOP_SCH_SHARED_MC_ADDR: 14;
        CLEANER_SHADER_FENCE_MC_ADDR: 16;
    }
}

frame! {
    /// ADD_QUEUE (`MESAPI__ADD_QUEUE`): adds a queue to the schedule, or maps a kernel queue to a
    /// fixed HQD.
    add_queue = ADD_QUEUE, status 38;
    words {
        /// PASID.
        PROCESS_ID: 1 [31:0];
        INPROCESS_GANG_PRIORITY: 16 [31:0];
        /// One of [`priority`](crate::mes::priority).
        GANG_GLOBAL_PRIORITY_LEVEL: 17 [31:0];
        /// Dword index on the doorbell BAR.
        DOORBELL_OFFSET: 18 [31:0];
        /// One of [`queue_type`](crate::mes::queue_type).
        QUEUE_TYPE: 28 [31:0];
        GDS_BASE: 29 [31:0];
        /// KFD queues: ring size in dwords (`kfd_queue_size`).
        GDS_SIZE: 30 [31:0];
        GWS_BASE: 31 [31:0];
        GWS_SIZE: 32 [31:0];
        OA_MASK: 33 [31:0];
        VM_CONTEXT_CNTL: 36 [31:0];
        PAGING: 37 [0:0];
        DEBUG_VMID: 37 [4:1];
        PROGRAM_GDS: 37 [5:5];
        IS_GANG_SUSPENDED: 37 [6:6];
        IS_TMZ_QUEUE: 37 [7:7];
        MAP_KIQ_UTILITY_QUEUE: 37 [8:8];
        IS_KFD_PROCESS: 37 [9:9];
        TRAP_EN: 37 [10:10];
        IS_AQL_QUEUE: 37 [11:11];
        SKIP_PROCESS_CTX_CLEAR: 37 [12:12];
        /// Maps the queue to the HQD given by `PIPE_ID` and `QUEUE_ID`, permanently.
        MAP_LEGACY_KQ: 37 [13:13];
        EXCLUSIVELY_SCHEDULED: 37 [14:14];
        IS_LONG_RUNNING: 37 [15:15];
        IS_DWM_QUEUE: 37 [16:16];
        SCH_ID: 44 [31:0];
        PROCESS_CONTEXT_ARRAY_INDEX: 48 [31:0];
        GANG_CONTEXT_ARRAY_INDEX: 49 [31:0];
        PIPE_ID: 50 [31:0];
        QUEUE_ID: 51 [31:0];
        ALIGNMENT_MODE_SETTING: 52 [31:0];
        FULL_SH_MEM_CONFIG_DATA: 53 [31:0];
    }
    quads {
        PAGE_TABLE_BASE_ADDR: 2;
        PROCESS_VA_START: 4;
        PROCESS_VA_END: 6;
        /// Unit 100 ns.
        PROCESS_QUANTUM: 8;
        PROCESS_CONTEXT_ADDR: 10;
        /// Unit 100 ns.
        GANG_QUANTUM: 12;
        GANG_CONTEXT_ADDR: 14;
        MQD_ADDR: 20;
        /// GPU virtual address in VMID 0.
        WPTR_ADDR: 22;
        H_CONTEXT: 24;
        H_QUEUE: 26;
        TRAP_HANDLER_ADDR: 34;
        TMA_ADDR: 42;
        TIMESTAMP: 46;
    }
}

frame! {
    /// REMOVE_QUEUE (`MESAPI__REMOVE_QUEUE`): removes a queue from the schedule.
    remove_queue = REMOVE_QUEUE, status 6;
    words {
        /// Dword index on the doorbell BAR.
        DOORBELL_OFFSET: 1 [31:0];
        UNMAP_KIQ_UTILITY_QUEUE: 4 [1:1];
        PREEMPT_LEGACY_GFX_QUEUE: 4 [2:2];
        /// Unmaps the kernel queue in the HQD given by `PIPE_ID` and `QUEUE_ID`.
        UNMAP_LEGACY_QUEUE: 4 [3:3];
        /// The queue was reset: drop its state without preemption.
        REMOVE_QUEUE_AFTER_RESET: 4 [4:4];
        PIPE_ID: 10 [31:0];
        QUEUE_ID: 11 [31:0];
        TF_DATA: 14 [31:0];
        /// One of [`queue_type`](crate::mes::queue_type).
        QUEUE_TYPE: 15 [31:0];
        GANG_CONTEXT_ARRAY_INDEX: 18 [31:0];
    }
    quads {
        GANG_CONTEXT_ADDR: 2;
        TF_ADDR: 12;
        TIMESTAMP: 16;
    }
}

frame! {
    /// SUSPEND (`MESAPI__SUSPEND`): preempts gangs and excludes them from the schedule.
    suspend = SUSPEND, status 8;
    words {
        SUSPEND_ALL_GANGS: 1 [0:0];
        QUERY_STATUS: 1 [1:1];
        SUSPEND_ALL_SDMA_GANGS: 1 [2:2];
        SUSPEND_FENCE_VALUE: 6 [31:0];
        SCH_ID: 12 [31:0];
        DOORBELL_OFFSET: 13 [31:0];
        LEGACY_UQ_TYPE: 16 [31:0];
        LEGACY_UQ_PRIORITY_LEVEL: 17 [31:0];
        GANG_CONTEXT_ARRAY_INDEX: 18 [31:0];
    }
    quads {
        /// Used unless all gangs are suspended.
        GANG_CONTEXT_ADDR: 2;
        SUSPEND_FENCE_ADDR: 4;
        TIMESTAMP: 14;
    }
}

frame! {
    /// RESUME (`MESAPI__RESUME`): makes suspended gangs schedulable again.
    resume = RESUME, status 4;
    words {
        RESUME_ALL_GANGS: 1 [0:0];
        DOORBELL_OFFSET: 8 [31:0];
        GANG_CONTEXT_ARRAY_INDEX: 12 [31:0];
    }
    quads {
        /// Used unless all gangs are resumed.
        GANG_CONTEXT_ADDR: 2;
        TIMESTAMP: 10;
    }
}

frame! {
    /// RESET (`MESAPI__RESET`): detects and resets hung queues.
    reset = RESET, status 28;
    words {
        /// Resets the queue of `DOORBELL_OFFSET` only, not its gang.
        RESET_QUEUE_ONLY: 1 [0:0];
        HANG_DETECT_THEN_RESET: 1 [1:1];
        HANG_DETECT_ONLY: 1 [2:2];
        RESET_LEGACY_GFX: 1 [3:3];
        USE_CONNECTED_QUEUE_INDEX: 1 [4:4];
        USE_CONNECTED_QUEUE_INDEX_P1: 1 [5:5];
        DOORBELL_OFFSET: 4 [31:0];
        /// One of [`queue_type`](crate::mes::queue_type).
        QUEUE_TYPE: 8 [31:0];
        PIPE_ID_LP: 9 [31:0];
        QUEUE_ID_LP: 10 [31:0];
        VMID_ID_LP: 11 [31:0];
        DOORBELL_OFFSET_LP: 14 [31:0];
        PIPE_ID_HP: 18 [31:0];
        QUEUE_ID_HP: 19 [31:0];
        VMID_ID_HP: 20 [31:0];
        DOORBELL_OFFSET_HP: 24 [31:0];
        ACTIVE_VMIDS: 32 [31:0];
        GANG_CONTEXT_ARRAY_INDEX: 36 [31:0];
        CONNECTED_QUEUE_INDEX: 37 [31:0];
        CONNECTED_QUEUE_INDEX_P1: 38 [31:0];
    }
    quads {
        GANG_CONTEXT_ADDR: 2;
        /// Address where MES writes the doorbells of hung queues followed by their `HUNG_*` words:
        /// two arrays, each with as many elements as SET_HW_RSRC has HQDs.
        DOORBELL_OFFSET_ADDR: 6;
        MQD_MC_ADDR_LP: 12;
        WPTR_ADDR_LP: 16;
        MQD_MC_ADDR_HP: 22;
        WPTR_ADDR_HP: 26;
        TIMESTAMP: 34;
    }
}

frame! {
    /// QUERY_SCHEDULER_STATUS (`MESAPI__QUERY_MES_STATUS`): fence behind earlier frames.
    query_scheduler_status = QUERY_SCHEDULER_STATUS, status 2;
    words {
        /// One of [`query_op`](crate::mes::query_op).
        SUBOPCODE: 1 [31:0];
    }
    quads {
        TIMESTAMP: 6;
        PROC_CTX_ARRAY_SIZE_ADDR: 8;
        GANG_CTX_ARRAY_SIZE_ADDR: 10;
    }
}

frame! {
    /// UPDATE_ROOT_PAGE_TABLE (`MESAPI__UPDATE_ROOT_PAGE_TABLE`): new root page directory of a
    /// process.
    update_root_page_table = UPDATE_ROOT_PAGE_TABLE, status 6;
    words {
        PROCESS_CONTEXT_ARRAY_INDEX: 12 [31:0];
    }
    quads {
        PAGE_TABLE_BASE_ADDR: 2;
        PROCESS_CONTEXT_ADDR: 4;
        TIMESTAMP: 10;
    }
}

frame! {
    /// INV_TLBS (`MESAPI__INV_TLBS`): TLB flush.
    inv_tlbs = INV_TLBS, status 2;
    words {
        /// One of `INV_SEL_*`.
        INV_SEL: 6 [7:0];
        /// 0 legacy, 1 lightweight, 2 heavyweight.
        FLUSH_TYPE: 6 [15:8];
        /// PASID or VMID.
        INV_SEL_ID: 6 [31:16];
        /// One of `HUB_*`.
        HUB_ID: 7 [31:0];
    }
    quads {
        INV_RANGE_VA_START: 8;
        INV_RANGE_SIZE: 10;
    }
}
