// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Scheduler packets of the HIQ, the KIQ and the runlist.
//!
//! Sources: `amdkfd/kfd_pm4_headers_ai.h`, `amdkfd/kfd_pm4_headers_aldebaran.h`; KIQ-only bits from
//! `amdgpu/soc15d.h`.

packet! {
    /// SET_RESOURCES: resources that the scheduler firmware (HWS) may assign.
    set_resources = SET_RESOURCES, 8 dwords;
    /// VMIDs owned by the scheduler, bit n = VMID n.
    VMID_MASK: 1 [15:0];
    /// Timeout of a queue preemption, unit 100 ms.
    UNMAP_LATENCY: 1 [23:16];
    ENB_XNACK_RETRY_DISABLE_CHECK: 1 [28:28];
    /// One of `QUEUE_TYPE_*`.
    QUEUE_TYPE: 1 [31:29];
    /// HQDs owned by the scheduler: bit = pipe * queues per pipe + queue, of MEC 1.
    QUEUE_MASK_LO: 2 [31:0];
    QUEUE_MASK_HI: 3 [31:0];
    GWS_MASK_LO: 4 [31:0];
    GWS_MASK_HI: 5 [31:0];
    OAC_MASK: 6 [15:0];
    GDS_HEAP_BASE: 7 [9:0];
    GDS_HEAP_SIZE: 7 [20:11];
    => values {
        /// Sent by the KIQ.
        pub const QUEUE_TYPE_KIQ: u32 = 0;
        /// Sent by the HIQ.
        pub const QUEUE_TYPE_HIQ: u32 = 1;
        /// Sent by the DIQ.
        pub const QUEUE_TYPE_DIQ: u32 = 4;
    }
}

packet! {
    /// RUN_LIST: executes an IB of MAP_PROCESS and MAP_QUEUES packets.
    run_list = RUN_LIST, 4 dwords;
    /// Address bits 31:2.
    IB_BASE_LO: 1 [31:2];
    IB_BASE_HI: 2 [31:0];
    /// In dwords.
    IB_SIZE: 3 [19:0];
    /// Chained without return; a runlist chained to itself cycles (oversubscription).
    CHAIN: 3 [20:20];
    OFFLOAD_POLLING: 3 [21:21];
    CHAINED_RUNLIST_IDLE_DISABLE: 3 [22:22];
    VALID: 3 [23:23];
    /// Number of processes mapped concurrently.
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
    /// Root page directory address with its PDE flags.
    VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32: 2 [31:0];
    VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32: 3 [31:0];
    /// SH_MEM_BASES of the process's VMID.
    SH_MEM_BASES: 4 [31:0];
    /// SH_MEM_CONFIG of the process's VMID.
    SH_MEM_CONFIG: 5 [31:0];
    /// Trap handler address (TBA) >> 8.
    SQ_SHADER_TBA_LO: 6 [31:0];
    SQ_SHADER_TBA_HI: 7 [31:0];
    /// Trap handler memory address (TMA) >> 8.
    SQ_SHADER_TMA_LO: 8 [31:0];
    SQ_SHADER_TMA_HI: 9 [31:0];
    GDS_ADDR_LO: 11 [31:0];
    GDS_ADDR_HI: 12 [31:0];
    NUM_GWS: 13 [6:0];
    SDMA_ENABLE: 13 [7:7];
    NUM_OAC: 13 [11:8];
    GDS_SIZE_HI: 13 [15:12];
    GDS_SIZE: 13 [21:16];
    /// Number of MAP_QUEUES packets that follow.
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
    /// MAP_QUEUES: maps one queue from its MQD.
    map_queues = MAP_QUEUES, 7 dwords;
    /// One of `EXTENDED_ENGINE_SEL_*`.
    EXTENDED_ENGINE_SEL: 1 [3:2];
    /// One of `QUEUE_SEL_*`.
    QUEUE_SEL: 1 [5:4];
    /// KIQ form.
    VMID: 1 [11:8];
    /// HWS form: the queue may use GWS. Shares no bit with the KIQ form's queue.
    GWS_CONTROL_QUEUE: 1 [12:12];
    /// KIQ form: queue of the HQD.
    QUEUE: 1 [15:13];
    /// KIQ form: pipe of the HQD.
    PIPE: 1 [17:16];
    /// KIQ form: ME of the HQD, 0 = MEC 1.
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
        /// HWS form, used in runlists.
        FORM_HWS = [
            EXTENDED_ENGINE_SEL, QUEUE_SEL, GWS_CONTROL_QUEUE, QUEUE_TYPE, ENGINE_SEL, NUM_QUEUES,
            CHECK_DISABLE, DOORBELL_OFFSET, MQD_ADDR_LO, MQD_ADDR_HI, WPTR_ADDR_LO, WPTR_ADDR_HI,
        ];
        /// KIQ form, with an explicit HQD.
        FORM_KIQ = [
            EXTENDED_ENGINE_SEL, QUEUE_SEL, VMID, QUEUE, PIPE, ME, QUEUE_TYPE, ALLOC_FORMAT,
            ENGINE_SEL, NUM_QUEUES, CHECK_DISABLE, DOORBELL_OFFSET, MQD_ADDR_LO, MQD_ADDR_HI,
            WPTR_ADDR_LO, WPTR_ADDR_HI,
        ];
    }
    => values {
        /// The HQD given in the packet.
        pub const QUEUE_SEL_SPECIFIED: u32 = 0;
        /// An HQD selected by the scheduler.
        pub const QUEUE_SEL_HWS_DETERMINED: u32 = 1;
        /// Normal compute or SDMA queue.
        pub const QUEUE_TYPE_NORMAL_COMPUTE: u32 = 0;
        /// DIQ.
        pub const QUEUE_TYPE_DEBUG_INTERFACE: u32 = 1;
        /// Static queue: unmapped only by doorbell or with `QUEUE_SEL_ALL`.
        pub const QUEUE_TYPE_NORMAL_LATENCY_STATIC: u32 = 2;
        /// Low latency static queue.
        pub const QUEUE_TYPE_LOW_LATENCY_STATIC: u32 = 3;
        /// Compute engine (MEC).
        pub const ENGINE_SEL_COMPUTE: u32 = 0;
        /// KIQ form: the queue is the HIQ (`amdgpu/gfx_v9_4_3.c`).
        pub const ENGINE_SEL_HIQ: u32 = 1;
        /// SDMA engine 0; unless `EXTENDED_ENGINE_SEL` is legacy, `ENGINE_SEL` is the engine
        /// number.
        pub const ENGINE_SEL_SDMA0: u32 = 2;
        /// SDMA engine 1.
        pub const ENGINE_SEL_SDMA1: u32 = 3;
        /// `ENGINE_SEL` is one of `ENGINE_SEL_*`.
        pub const EXTENDED_ENGINE_SEL_LEGACY: u32 = 0;
        /// `ENGINE_SEL` is the number of an SDMA engine, 0 to 7.
        pub const EXTENDED_ENGINE_SEL_SDMA0_TO_7: u32 = 1;
        /// `ENGINE_SEL` + 8 is the number of an SDMA engine, 8 to 15.
        pub const EXTENDED_ENGINE_SEL_SDMA8_TO_15: u32 = 2;
    }
}

packet! {
    /// UNMAP_QUEUES: unmaps, preempts or resets queues.
    unmap_queues = UNMAP_QUEUES, 6 dwords;
    /// One of `ACTION_*`.
    ACTION: 1 [1:0];
    EXTENDED_ENGINE_SEL: 1 [3:2];
    /// One of `QUEUE_SEL_*`.
    QUEUE_SEL: 1 [5:4];
    ENGINE_SEL: 1 [28:26];
    /// Number of doorbells listed, with `QUEUE_SEL_SPECIFIED`.
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
        /// Queues by doorbell.
        FORM_DOORBELL = [
            ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES,
            DOORBELL_OFFSET0, DOORBELL_OFFSET1, DOORBELL_OFFSET2, DOORBELL_OFFSET3,
        ];
        /// Queues of a process.
        FORM_PASID = [ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES, PASID];
        /// All queues, or all but the static ones.
        FORM_ALL = [ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES];
        /// One queue by doorbell: preempted, left mapped, with a fence.
        FORM_PREEMPT_NO_UNMAP = [
            ACTION, EXTENDED_ENGINE_SEL, QUEUE_SEL, ENGINE_SEL, NUM_QUEUES, DOORBELL_OFFSET0,
            FENCE_ADDR_LO, FENCE_ADDR_HI, FENCE_SEQ,
        ];
    }
    => values {
        /// The four forms.
        pub const FORMS: &[&[DwField]] =
            &[FORM_DOORBELL, FORM_PASID, FORM_ALL, FORM_PREEMPT_NO_UNMAP];
        /// Preempt: save the state of the waves.
        pub const ACTION_PREEMPT: u32 = 0;
        /// Reset: discard the waves.
        pub const ACTION_RESET: u32 = 1;
        /// Disable the queues of the process.
        pub const ACTION_DISABLE_PROCESS: u32 = 2;
        /// KIQ only: preempt and keep the HQD mapped.
        pub const ACTION_PREEMPT_NO_UNMAP: u32 = 3;
        /// The queues with the listed doorbells.
        pub const QUEUE_SEL_SPECIFIED: u32 = 0;
        /// The queues of `PASID`.
        pub const QUEUE_SEL_PASID: u32 = 1;
        /// All queues.
        pub const QUEUE_SEL_ALL: u32 = 2;
        /// All queues except static ones.
        pub const QUEUE_SEL_ALL_NON_STATIC: u32 = 3;
    }
}

packet! {
    /// QUERY_STATUS: fence behind all earlier packets.
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
        /// Process status, or completion.
        FORM_PASID = [
            CONTEXT_ID, INTERRUPT_SEL, COMMAND, PASID, ADDR_LO, ADDR_HI, DATA_LO, DATA_HI,
        ];
        /// Queue status.
        FORM_DOORBELL = [
            CONTEXT_ID, INTERRUPT_SEL, COMMAND, DOORBELL_OFFSET, ENGINE_SEL, ADDR_LO, ADDR_HI,
            DATA_LO, DATA_HI,
        ];
    }
    => values {
        /// Both forms.
        pub const FORMS: &[&[DwField]] = &[FORM_PASID, FORM_DOORBELL];
        /// Completion of earlier packets.
        pub const INTERRUPT_SEL_COMPLETION: u32 = 0;
        /// Process status.
        pub const INTERRUPT_SEL_PROCESS: u32 = 1;
        /// Queue status.
        pub const INTERRUPT_SEL_QUEUE: u32 = 2;
        /// Interrupt without fence.
        pub const COMMAND_INTERRUPT_ONLY: u32 = 0;
        /// Immediate fence.
        pub const COMMAND_FENCE_ONLY_IMMEDIATE: u32 = 1;
        /// Fence after earlier writes are acknowledged.
        pub const COMMAND_FENCE_ONLY_AFTER_WRITE_ACK: u32 = 2;
        /// Fence after earlier writes are acknowledged, then an interrupt.
        pub const COMMAND_FENCE_WAIT_FOR_WRITE_ACK_SEND_INTERRUPT: u32 = 3;
    }
}
