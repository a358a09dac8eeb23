// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The scheduler's packets: what the HIQ, the KIQ and a runlist consist of.
//!
//! Sources: `amdkfd/kfd_pm4_headers_ai.h`, `amdkfd/kfd_pm4_headers_aldebaran.h`; the bits that
//! only a KIQ uses from `amdgpu/soc15d.h`.

packet! {
    /// SET_RESOURCES: what the scheduling firmware may hand out.
    set_resources = SET_RESOURCES, 8 dwords;
    /// VMIDs the scheduler owns, bit n = VMID n.
    VMID_MASK: 1 [15:0];
    /// Patience with a queue that does not preempt, in units of 100 ms.
    UNMAP_LATENCY: 1 [23:16];
    ENB_XNACK_RETRY_DISABLE_CHECK: 1 [28:28];
    /// One of `QUEUE_TYPE_*`.
    QUEUE_TYPE: 1 [31:29];
    /// HQDs the scheduler owns: bit = pipe * queues per pipe + queue, of MEC 1.
    QUEUE_MASK_LO: 2 [31:0];
    QUEUE_MASK_HI: 3 [31:0];
    GWS_MASK_LO: 4 [31:0];
    GWS_MASK_HI: 5 [31:0];
    OAC_MASK: 6 [15:0];
    GDS_HEAP_BASE: 7 [9:0];
    GDS_HEAP_SIZE: 7 [20:11];
    => values {
        /// The sender is a kernel interface queue.
        pub const QUEUE_TYPE_KIQ: u32 = 0;
        /// The sender is the HSA interface queue.
        pub const QUEUE_TYPE_HIQ: u32 = 1;
        /// The sender is the debug interface queue.
        pub const QUEUE_TYPE_DIQ: u32 = 4;
    }
}

packet! {
    /// RUN_LIST: execute an indirect buffer of MAP_PROCESS and MAP_QUEUES packets.
    run_list = RUN_LIST, 4 dwords;
    /// Address bits 31:2.
    IB_BASE_LO: 1 [31:2];
    IB_BASE_HI: 2 [31:0];
    /// In dwords.
    IB_SIZE: 3 [19:0];
    /// The buffer is entered without return: a runlist that ends in itself cycles.
    CHAIN: 3 [20:20];
    OFFLOAD_POLLING: 3 [21:21];
    CHAINED_RUNLIST_IDLE_DISABLE: 3 [22:22];
    VALID: 3 [23:23];
    /// Processes that may be mapped at the same time.
    PROCESS_CNT: 3 [27:24];
}

packet! {
    /// MAP_PROCESS of GC 9.4.2 and later (`pm4_mes_map_process_aldebaran`).
    map_process = MAP_PROCESS, 21 dwords;
    PASID: 1 [15:0];
    SINGLE_MEMOPS: 1 [16:16];
    EXEC_CLEANER_SHADER: 1 [17:17];
    DEBUG_VMID: 1 [21:18];
    NEW_DEBUG: 1 [22:22];
    TMZ: 1 [23:23];
    DIQ_ENABLE: 1 [24:24];
    PROCESS_QUANTUM: 1 [31:25];
    /// Root directory address with its PTE flags.
    VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32: 2 [31:0];
    VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32: 3 [31:0];
    /// Register SH_MEM_BASES of the process's VMID.
    SH_MEM_BASES: 4 [31:0];
    /// Register SH_MEM_CONFIG of the process's VMID.
    SH_MEM_CONFIG: 5 [31:0];
    /// Trap handler address >> 8.
    SQ_SHADER_TBA_LO: 6 [31:0];
    SQ_SHADER_TBA_HI: 7 [31:0];
    /// Trap handler memory >> 8.
    SQ_SHADER_TMA_LO: 8 [31:0];
    SQ_SHADER_TMA_HI: 9 [31:0];
    GDS_ADDR_LO: 11 [31:0];
    GDS_ADDR_HI: 12 [31:0];
    NUM_GWS: 13 [6:0];
    SDMA_ENABLE: 13 [7:7];
    NUM_OAC: 13 [11:8];
    GDS_SIZE_HI: 13 [15:12];
    GDS_SIZE: 13 [21:16];
    /// MAP_QUEUES packets that follow.
    NUM_QUEUES: 13 [31:22];
    SPI_GDBG_PER_VMID_CNTL: 14 [31:0];
    TCP_WATCH_CNTL0: 15 [31:0];
    TCP_WATCH_CNTL1: 16 [31:0];
    TCP_WATCH_CNTL2: 17 [31:0];
    TCP_WATCH_CNTL3: 18 [31:0];
    COMPLETION_SIGNAL_LO: 19 [31:0];
    COMPLETION_SIGNAL_HI: 20 [31:0];
}

packet! {
    /// MAP_PROCESS of gfx9 before GC 9.4.2 (`pm4_mes_map_process`).
    map_process_v9 = MAP_PROCESS, 16 dwords;
    PASID: 1 [15:0];
    EXEC_CLEANER_SHADER: 1 [17:17];
    DEBUG_VMID: 1 [21:18];
    NEW_DEBUG: 1 [22:22];
    DIQ_ENABLE: 1 [24:24];
    PROCESS_QUANTUM: 1 [31:25];
    VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32: 2 [31:0];
    VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32: 3 [31:0];
    SH_MEM_BASES: 4 [31:0];
    SH_MEM_CONFIG: 5 [31:0];
    SQ_SHADER_TBA_LO: 6 [31:0];
    SQ_SHADER_TBA_HI: 7 [31:0];
    SQ_SHADER_TMA_LO: 8 [31:0];
    SQ_SHADER_TMA_HI: 9 [31:0];
    GDS_ADDR_LO: 11 [31:0];
    GDS_ADDR_HI: 12 [31:0];
    NUM_GWS: 13 [6:0];
    SDMA_ENABLE: 13 [7:7];
    NUM_OAC: 13 [11:8];
    GDS_SIZE_HI: 13 [15:12];
    GDS_SIZE: 13 [21:16];
    NUM_QUEUES: 13 [31:22];
    COMPLETION_SIGNAL_LO: 14 [31:0];
    COMPLETION_SIGNAL_HI: 15 [31:0];
}

packet! {
    /// MAP_QUEUES: put one queue on the hardware from its MQD.
    map_queues = MAP_QUEUES, 7 dwords;
    /// One of `EXTENDED_ENGINE_SEL_*`.
    EXTENDED_ENGINE_SEL: 1 [3:2];
    /// One of `QUEUE_SEL_*`.
    QUEUE_SEL: 1 [5:4];
    /// KIQ form.
    VMID: 1 [11:8];
    /// HWS form: the queue may use the global wave sync. Shares no bit with the KIQ form's queue.
    GWS_CONTROL_QUEUE: 1 [12:12];
    /// KIQ form: the HQD's queue.
    QUEUE: 1 [15:13];
    /// KIQ form: the HQD's pipe.
    PIPE: 1 [17:16];
    /// KIQ form: the HQD's ME, 0 = MEC 1.
    ME: 1 [19:18];
    /// One of `QUEUE_TYPE_*`.
    QUEUE_TYPE: 1 [23:21];
    /// KIQ form: 0 all on one pipe, 1 all on all pipes.
    ALLOC_FORMAT: 1 [25:24];
    /// One of `ENGINE_SEL_*`.
    ENGINE_SEL: 1 [28:26];
    NUM_QUEUES: 1 [31:29];
    CHECK_DISABLE: 2 [1:1];
    /// Dword index on the doorbell BAR.
    DOORBELL_OFFSET: 2 [27:2];
    MQD_ADDR_LO: 3 [31:0];
    MQD_ADDR_HI: 4 [31:0];
    WPTR_ADDR_LO: 5 [31:0];
    WPTR_ADDR_HI: 6 [31:0];
    => forms {
        /// As the scheduler's runlist carries it.
        FORM_HWS = [
            EXTENDED_ENGINE_SEL, QUEUE_SEL, GWS_CONTROL_QUEUE, QUEUE_TYPE, ENGINE_SEL, NUM_QUEUES,
            CHECK_DISABLE, DOORBELL_OFFSET, MQD_ADDR_LO, MQD_ADDR_HI, WPTR_ADDR_LO, WPTR_ADDR_HI,
        ];
        /// As the KIQ sends it, with an explicit slot.
        FORM_KIQ = [
            EXTENDED_ENGINE_SEL, QUEUE_SEL, VMID, QUEUE, PIPE, ME, QUEUE_TYPE, ALLOC_FORMAT,
            ENGINE_SEL, NUM_QUEUES, CHECK_DISABLE, DOORBELL_OFFSET, MQD_ADDR_LO, MQD_ADDR_HI,
            WPTR_ADDR_LO, WPTR_ADDR_HI,
        ];
    }
    => values {
        /// The slot that the packet names.
        pub const QUEUE_SEL_SPECIFIED: u32 = 0;
        /// A slot of the scheduler's choice.
        pub const QUEUE_SEL_HWS_DETERMINED: u32 = 1;
        /// Ordinary compute (or SDMA) queue.
        pub const QUEUE_TYPE_NORMAL_COMPUTE: u32 = 0;
        /// Debug interface queue.
        pub const QUEUE_TYPE_DEBUG_INTERFACE: u32 = 1;
        /// Static queue: unmapped only by name or by "all".
        pub const QUEUE_TYPE_NORMAL_LATENCY_STATIC: u32 = 2;
        /// Static queue, low latency.
        pub const QUEUE_TYPE_LOW_LATENCY_STATIC: u32 = 3;
        /// Compute engine (MEC).
        pub const ENGINE_SEL_COMPUTE: u32 = 0;
        /// KIQ form: the queue is the HIQ (`amdgpu/gfx_v9_4_3.c`).
        pub const ENGINE_SEL_HIQ: u32 = 1;
        /// First SDMA engine; with `EXTENDED_ENGINE_SEL` not legacy, `ENGINE_SEL` is the engine.
        pub const ENGINE_SEL_SDMA0: u32 = 2;
        /// Second SDMA engine.
        pub const ENGINE_SEL_SDMA1: u32 = 3;
        /// Graphics engine.
        pub const ENGINE_SEL_GFX: u32 = 4;
        /// `ENGINE_SEL` has the values above.
        pub const EXTENDED_ENGINE_SEL_LEGACY: u32 = 0;
        /// `ENGINE_SEL` is the number of one of SDMA 0 to 7.
        pub const EXTENDED_ENGINE_SEL_SDMA0_TO_7: u32 = 1;
        /// `ENGINE_SEL` plus 8 is the number of one of SDMA 8 to 15.
        pub const EXTENDED_ENGINE_SEL_SDMA8_TO_15: u32 = 2;
    }
}

packet! {
    /// UNMAP_QUEUES: take queues off the hardware.
    unmap_queues = UNMAP_QUEUES, 6 dwords;
    /// One of `ACTION_*`.
    ACTION: 1 [1:0];
    EXTENDED_ENGINE_SEL: 1 [3:2];
    /// One of `QUEUE_SEL_*`.
    QUEUE_SEL: 1 [5:4];
    ENGINE_SEL: 1 [28:26];
    /// Doorbells listed, when queues are named by doorbell.
    NUM_QUEUES: 1 [31:29];
    /// With `QUEUE_SEL_PASID`.
    PASID: 2 [15:0];
    /// With `QUEUE_SEL_SPECIFIED`: dword index on the doorbell BAR.
    DOORBELL_OFFSET0: 2 [27:2];
    DOORBELL_OFFSET1: 3 [27:2];
    DOORBELL_OFFSET2: 4 [27:2];
    DOORBELL_OFFSET3: 5 [27:2];
    /// With `ACTION_PREEMPT_NO_UNMAP`: fence address, low (`gfx_v9_4_3_xcc_kiq_unmap_queues`).
    FENCE_ADDR_LO: 3 [31:0];
    /// Fence address, high.
    FENCE_ADDR_HI: 4 [31:0];
    /// Fence value.
    FENCE_SEQ: 5 [31:0];
    => forms {
        /// Queues named by doorbell.
        FORM_DOORBELL = [
            ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES,
            DOORBELL_OFFSET0, DOORBELL_OFFSET1, DOORBELL_OFFSET2, DOORBELL_OFFSET3,
        ];
        /// All queues of a process.
        FORM_PASID = [ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES, PASID];
        /// All queues, or all that are not static.
        FORM_ALL = [ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES];
        /// One queue by doorbell, preempted but left mapped, with a fence.
        FORM_PREEMPT_NO_UNMAP = [
            ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES, DOORBELL_OFFSET0,
            FENCE_ADDR_LO, FENCE_ADDR_HI, FENCE_SEQ,
        ];
    }
    => values {
        /// The four forms.
        pub const FORMS: &[&[DwField]] = &[FORM_DOORBELL, FORM_PASID, FORM_ALL, FORM_PREEMPT_NO_UNMAP];
        /// Save the waves' state.
        pub const ACTION_PREEMPT: u32 = 0;
        /// Drop the queue's work.
        pub const ACTION_RESET: u32 = 1;
        /// Disable the process's queues.
        pub const ACTION_DISABLE_PROCESS: u32 = 2;
        /// KIQ only: preempt, keep the HQD.
        pub const ACTION_PREEMPT_NO_UNMAP: u32 = 3;
        /// The queues with the listed doorbells.
        pub const QUEUE_SEL_SPECIFIED: u32 = 0;
        /// The queues of a PASID.
        pub const QUEUE_SEL_PASID: u32 = 1;
        /// All queues.
        pub const QUEUE_SEL_ALL: u32 = 2;
        /// All queues that are not static.
        pub const QUEUE_SEL_ALL_NON_STATIC: u32 = 3;
    }
}

packet! {
    /// QUERY_STATUS: a fence behind everything that was sent before.
    query_status = QUERY_STATUS, 7 dwords;
    CONTEXT_ID: 1 [27:0];
    /// One of `INTERRUPT_SEL_*`.
    INTERRUPT_SEL: 1 [29:28];
    /// One of `COMMAND_*`.
    COMMAND: 1 [31:30];
    PASID: 2 [15:0];
    DOORBELL_OFFSET: 2 [27:2];
    ENGINE_SEL: 2 [30:28];
    ADDR_LO: 3 [31:0];
    ADDR_HI: 4 [31:0];
    DATA_LO: 5 [31:0];
    DATA_HI: 6 [31:0];
    => forms {
        /// About a process, or about completion.
        FORM_PASID = [
            CONTEXT_ID, INTERRUPT_SEL, COMMAND, PASID, ADDR_LO, ADDR_HI, DATA_LO, DATA_HI,
        ];
        /// About a queue.
        FORM_DOORBELL = [
            CONTEXT_ID, INTERRUPT_SEL, COMMAND, DOORBELL_OFFSET, ENGINE_SEL, ADDR_LO, ADDR_HI,
            DATA_LO, DATA_HI,
        ];
    }
    => values {
        /// The two forms.
        pub const FORMS: &[&[DwField]] = &[FORM_PASID, FORM_DOORBELL];
        /// Completion of what was sent before.
        pub const INTERRUPT_SEL_COMPLETION: u32 = 0;
        /// State of a process.
        pub const INTERRUPT_SEL_PROCESS: u32 = 1;
        /// State of a queue.
        pub const INTERRUPT_SEL_QUEUE: u32 = 2;
        /// An interrupt, no fence.
        pub const COMMAND_INTERRUPT_ONLY: u32 = 0;
        /// The fence at once.
        pub const COMMAND_FENCE_ONLY_IMMEDIATE: u32 = 1;
        /// The fence once earlier writes are acknowledged.
        pub const COMMAND_FENCE_ONLY_AFTER_WRITE_ACK: u32 = 2;
        /// The fence as above, then an interrupt.
        pub const COMMAND_FENCE_WAIT_FOR_WRITE_ACK_SEND_INTERRUPT: u32 = 3;
    }
}
