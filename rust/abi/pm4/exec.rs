// SPDX-License-Identifier: GPL-2.0 OR MIT

//! General packets: memory and register access, synchronisation, dispatch.
//!
//! Sources: `amdgpu/soc15d.h`; RELEASE_MEM and register WRITE_DATA also
//! `amdkfd/kfd_pm4_headers_ai.h`; COND_EXEC as emitted by `amdgpu/gfx_v9_4_3.c`.

packet! {
    /// NOP: the body is skipped. See also [`NOP_SINGLE`](super::NOP_SINGLE).
    nop = NOP, 1 dwords, payload from 1;
}

packet! {
    /// SET_BASE: sets a base address for later indirect packets.
    set_base = SET_BASE, 4 dwords;
    BASE_INDEX: 1 [3:0];
    ADDRESS_LO: 2 [31:3];
    ADDRESS_HI: 3 [31:0];
}

packet! {
    /// DISPATCH_DIRECT: launches a grid with the state of the COMPUTE_* registers.
    dispatch_direct = DISPATCH_DIRECT, 5 dwords;
    /// In workgroups, or in work-items if the initiator selects them.
    DIM_X: 1 [31:0];
    DIM_Y: 2 [31:0];
    DIM_Z: 3 [31:0];
    /// Value of register COMPUTE_DISPATCH_INITIATOR.
    DISPATCH_INITIATOR: 4 [31:0];
}

packet! {
    /// DISPATCH_INDIRECT: DISPATCH_DIRECT with the dimensions in memory (MEC form).
    dispatch_indirect = DISPATCH_INDIRECT, 4 dwords;
    ADDR_LO: 1 [31:2];
    ADDR_HI: 2 [31:0];
    DISPATCH_INITIATOR: 3 [31:0];
}

packet! {
    /// ATOMIC_MEM: an L2 atomic.
    atomic_mem = ATOMIC_MEM, 9 dwords;
    ATOMIC: 1 [5:0];
    /// One of `COMMAND_*`.
    COMMAND: 1 [11:8];
    CACHE_POLICY: 1 [26:25];
    ADDR_LO: 2 [31:0];
    ADDR_HI: 3 [31:0];
    SRC_DATA_LO: 4 [31:0];
    SRC_DATA_HI: 5 [31:0];
    CMP_DATA_LO: 6 [31:0];
    CMP_DATA_HI: 7 [31:0];
    LOOP_INTERVAL: 8 [12:0];
    => values {
        /// Execute once.
        pub const COMMAND_SINGLE_PASS: u32 = 0;
        /// Loop until the comparison succeeds.
        pub const COMMAND_LOOP_UNTIL_COMPARE_SATISFIED: u32 = 1;
    }
}

packet! {
    /// COND_EXEC: skips the next dwords if a dword in memory is zero.
    cond_exec = COND_EXEC, 5 dwords;
    ADDR_LO: 1 [31:2];
    ADDR_HI: 2 [31:0];
    /// Number of dwords to skip.
    EXEC_COUNT: 4 [13:0];
}

packet! {
    /// PRED_EXEC: only the selected XCCs execute the next dwords.
    pred_exec = PRED_EXEC, 2 dwords;
    EXEC_COUNT: 1 [13:0];
    VIRTUAL_XCC_ID_SELECT: 1 [31:24];
}

packet! {
    /// WRITE_DATA: writes dwords to registers or memory.
    write_data = WRITE_DATA, 5 dwords, payload from 4;
    /// One of `DST_SEL_*`.
    DST_SEL: 1 [11:8];
    /// 1: write every dword to the same address.
    ADDR_INCR: 1 [16:16];
    RESUME_VF: 1 [19:19];
    /// 1: wait for write confirmation.
    WR_CONFIRM: 1 [20:20];
    CACHE_POLICY: 1 [26:25];
    ENGINE_SEL: 1 [31:30];
    /// Register form: dword address.
    DST_MMREG_ADDR: 2 [17:0];
    /// GDS form.
    DST_GDS_ADDR: 2 [15:0];
    /// Memory form: address bits 31:2.
    DST_MEM_ADDR_LO: 2 [31:2];
    DST_MEM_ADDR_HI: 3 [31:0];
    => forms {
        /// Register destination.
        FORM_REGISTER = [
            DST_SEL, ADDR_INCR, RESUME_VF, WR_CONFIRM, CACHE_POLICY, ENGINE_SEL, DST_MMREG_ADDR,
        ];
        /// Memory destination.
        FORM_MEMORY = [
            DST_SEL, ADDR_INCR, RESUME_VF, WR_CONFIRM, CACHE_POLICY, ENGINE_SEL, DST_MEM_ADDR_LO,
            DST_MEM_ADDR_HI,
        ];
    }
    => values {
        /// A register.
        pub const DST_SEL_REGISTER: u32 = 0;
        /// Memory through the L2 cache.
        pub const DST_SEL_TC_L2: u32 = 2;
        /// GDS.
        pub const DST_SEL_GDS: u32 = 3;
        /// Memory.
        pub const DST_SEL_MEMORY: u32 = 5;
        /// ADC persistent state.
        pub const DST_SEL_ADC_PERSISTENT_STATE: u32 = 6;
    }
}

packet! {
    /// WAIT_REG_MEM: polls a register or a dword in memory.
    wait_reg_mem = WAIT_REG_MEM, 7 dwords;
    /// One of `FUNCTION_*`.
    FUNCTION: 1 [2:0];
    /// One of `MEM_SPACE_*`.
    MEM_SPACE: 1 [5:4];
    /// One of `OPERATION_*`.
    OPERATION: 1 [7:6];
    ENGINE: 1 [8:8];
    MES_INTR_PIPE: 1 [23:22];
    MES_ACTION: 1 [24:24];
    CACHE_POLICY: 1 [26:25];
    /// Memory form: address bits 31:2.
    MEM_POLL_ADDR_LO: 2 [31:2];
    /// Register form: dword address.
    REG_POLL_ADDR: 2 [17:0];
    /// Register pair form: dword address of the register to write first.
    REG_WRITE_ADDR1: 2 [17:0];
    MEM_POLL_ADDR_HI: 3 [31:0];
    /// Register pair form: dword address of the register to poll.
    REG_WRITE_ADDR2: 3 [17:0];
    REFERENCE: 4 [31:0];
    MASK: 5 [31:0];
    /// Unit 16 clocks.
    POLL_INTERVAL: 6 [15:0];
    OPTIMIZE_ACE_OFFLOAD_MODE: 6 [31:31];
    => forms {
        /// Polls memory.
        FORM_MEMORY = [
            FUNCTION, MEM_SPACE, OPERATION, ENGINE, CACHE_POLICY, MEM_POLL_ADDR_LO,
            MEM_POLL_ADDR_HI, REFERENCE, MASK, POLL_INTERVAL, OPTIMIZE_ACE_OFFLOAD_MODE,
        ];
        /// Polls a register.
        FORM_REGISTER = [
            FUNCTION, MEM_SPACE, OPERATION, ENGINE, REG_POLL_ADDR, REFERENCE, MASK, POLL_INTERVAL,
            OPTIMIZE_ACE_OFFLOAD_MODE,
        ];
        /// Writes the reference to a register, then polls another.
        FORM_WRITE_WAIT = [
            FUNCTION, MEM_SPACE, OPERATION, ENGINE, REG_WRITE_ADDR1, REG_WRITE_ADDR2, REFERENCE,
            MASK, POLL_INTERVAL, OPTIMIZE_ACE_OFFLOAD_MODE,
        ];
    }
    => values {
        /// Always true.
        pub const FUNCTION_ALWAYS: u32 = 0;
        /// Value < reference.
        pub const FUNCTION_LESS: u32 = 1;
        /// Value <= reference.
        pub const FUNCTION_LESS_EQUAL: u32 = 2;
        /// Value == reference.
        pub const FUNCTION_EQUAL: u32 = 3;
        /// Value != reference.
        pub const FUNCTION_NOT_EQUAL: u32 = 4;
        /// Value >= reference.
        pub const FUNCTION_GREATER_EQUAL: u32 = 5;
        /// Value > reference.
        pub const FUNCTION_GREATER: u32 = 6;
        /// A register.
        pub const MEM_SPACE_REGISTER: u32 = 0;
        /// Memory.
        pub const MEM_SPACE_MEMORY: u32 = 1;
        /// Poll.
        pub const OPERATION_WAIT: u32 = 0;
        /// Write a register, then poll another.
        pub const OPERATION_WRITE_WAIT: u32 = 1;
        /// Poll memory; the queue can be preempted meanwhile.
        pub const OPERATION_WAIT_PREEMPTABLE: u32 = 3;
    }
}

packet! {
    /// INDIRECT_BUFFER: executes an IB.
    indirect_buffer = INDIRECT_BUFFER, 4 dwords;
    /// Address bits 31:2.
    IB_BASE_LO: 1 [31:2];
    IB_BASE_HI: 2 [31:0];
    /// In dwords.
    IB_SIZE: 3 [19:0];
    /// 1: chain, without return.
    CHAIN: 3 [20:20];
    OFFLOAD_POLLING: 3 [21:21];
    VALID: 3 [23:23];
    VMID: 3 [27:24];
    CACHE_POLICY: 3 [29:28];
    PRE_RESUME: 3 [30:30];
    PRIV: 3 [31:31];
}

packet! {
    /// COPY_DATA: copies 32 or 64 bits.
    copy_data = COPY_DATA, 6 dwords;
    /// One of `SRC_SEL_*`.
    SRC_SEL: 1 [3:0];
    /// One of `DST_SEL_*`.
    DST_SEL: 1 [11:8];
    SRC_CACHE_POLICY: 1 [14:13];
    /// 1: 64 bits; 0: 32 bits.
    COUNT_SEL: 1 [16:16];
    WR_CONFIRM: 1 [20:20];
    DST_CACHE_POLICY: 1 [26:25];
    PQ_EXE_STATUS: 1 [29:29];
    /// Register form: dword address.
    SRC_REG_OFFSET: 2 [17:0];
    /// Memory form, 32 bits.
    SRC_32B_ADDR_LO: 2 [31:2];
    /// Memory form, 64 bits.
    SRC_64B_ADDR_LO: 2 [31:3];
    SRC_GDS_ADDR_LO: 2 [15:0];
    IMM_DATA: 2 [31:0];
    SRC_MEMTC_ADDR_HI: 3 [31:0];
    SRC_IMM_DATA: 3 [31:0];
    /// Register form: dword address.
    DST_REG_OFFSET: 4 [17:0];
    DST_32B_ADDR_LO: 4 [31:2];
    DST_64B_ADDR_LO: 4 [31:3];
    DST_GDS_ADDR_LO: 4 [15:0];
    DST_ADDR_HI: 5 [31:0];
    => values {
        /// A register.
        pub const SRC_SEL_REGISTER: u32 = 0;
        /// Memory.
        pub const SRC_SEL_MEMORY: u32 = 1;
        /// Memory through the L2 cache.
        pub const SRC_SEL_TC_L2: u32 = 2;
        /// GDS.
        pub const SRC_SEL_GDS: u32 = 3;
        /// Performance counter.
        pub const SRC_SEL_PERFCOUNTERS: u32 = 4;
        /// Immediate data in the packet.
        pub const SRC_SEL_IMMEDIATE: u32 = 5;
        /// Return value of the last atomic.
        pub const SRC_SEL_ATOMIC_RETURN: u32 = 6;
        /// GPU clock counter.
        pub const SRC_SEL_GPU_CLOCK_COUNT: u32 = 9;
        /// A register.
        pub const DST_SEL_REGISTER: u32 = 0;
        /// Memory through the L2 cache.
        pub const DST_SEL_TC_L2: u32 = 2;
        /// GDS.
        pub const DST_SEL_GDS: u32 = 3;
        /// Performance counter.
        pub const DST_SEL_PERFCOUNTERS: u32 = 4;
        /// Memory.
        pub const DST_SEL_MEMORY: u32 = 5;
    }
}

packet! {
    /// EVENT_WRITE: generates a pipeline event.
    event_write = EVENT_WRITE, 2 dwords;
    EVENT_TYPE: 1 [5:0];
    /// One of `EVENT_INDEX_*`.
    EVENT_INDEX: 1 [11:8];
    SAMP_PLST_CNTR_MODE: 1 [30:29];
    OFFLOAD_ENABLE: 1 [31:31];
    => values {
        /// Events without an index of their own.
        pub const EVENT_INDEX_OTHER: u32 = 0;
        /// Sample pipeline statistics.
        pub const EVENT_INDEX_SAMPLE_PIPELINESTATS: u32 = 2;
        /// CS partial flush.
        pub const EVENT_INDEX_CS_PARTIAL_FLUSH: u32 = 4;
        /// `EVENT_TYPE` of a CS partial flush (`CS_PARTIAL_FLUSH`, `vega10_enum.h`).
        pub const EVENT_TYPE_CS_PARTIAL_FLUSH: u32 = 7;
    }
}

packet! {
    /// EVENT_WRITE of an event with a memory write.
    event_write_mem = EVENT_WRITE, 4 dwords;
    EVENT_TYPE: 1 [5:0];
    /// See [`event_write`](super::event_write).
    EVENT_INDEX: 1 [11:8];
    SAMP_PLST_CNTR_MODE: 1 [30:29];
    OFFLOAD_ENABLE: 1 [31:31];
    /// Address bits 31:3.
    ADDRESS_LO: 2 [31:3];
    ADDRESS_HI: 3 [31:0];
}

packet! {
    /// RELEASE_MEM: end-of-pipe event with cache actions, a write and an interrupt (MEC form).
    release_mem = RELEASE_MEM, 8 dwords;
    EVENT_TYPE: 1 [5:0];
    /// One of `EVENT_INDEX_*`.
    EVENT_INDEX: 1 [11:8];
    TCL1_VOL_ACTION_ENA: 1 [12:12];
    TC_VOL_ACTION_ENA: 1 [13:13];
    TC_WB_ACTION_ENA: 1 [15:15];
    TCL1_ACTION_ENA: 1 [16:16];
    TC_ACTION_ENA: 1 [17:17];
    TC_NC_ACTION_ENA: 1 [19:19];
    TC_WC_ACTION_ENA: 1 [20:20];
    TC_MD_ACTION_ENA: 1 [21:21];
    CACHE_POLICY: 1 [26:25];
    /// Set for a trailing fence (`EOP_EXEC`).
    EXECUTE: 1 [28:28];
    PQ_EXE_STATUS: 1 [29:29];
    /// One of `DST_SEL_*`.
    DST_SEL: 2 [17:16];
    /// One of `INT_SEL_*`.
    INT_SEL: 2 [26:24];
    /// One of `DATA_SEL_*`.
    DATA_SEL: 2 [31:29];
    /// 32-bit data: address bits 31:2.
    ADDRESS_LO_32B: 3 [31:2];
    /// 64-bit data: address bits 31:3.
    ADDRESS_LO_64B: 3 [31:3];
    ADDRESS_HI: 4 [31:0];
    DATA_LO: 5 [31:0];
    DATA_HI: 6 [31:0];
    /// Interrupt `context_id0`.
    INT_CTXID: 7 [31:0];
    => values {
        /// End of pipe.
        pub const EVENT_INDEX_END_OF_PIPE: u32 = 5;
        /// Shader done.
        pub const EVENT_INDEX_SHADER_DONE: u32 = 6;
        /// `EVENT_TYPE`: flush caches, then write (`CACHE_FLUSH_TS`, `vega10_enum.h`).
        pub const EVENT_TYPE_CACHE_FLUSH_TS: u32 = 0x04;
        /// `EVENT_TYPE`: flush and invalidate caches, then write a timestamp.
        pub const EVENT_TYPE_CACHE_FLUSH_AND_INV_TS: u32 = 0x14;
        /// `EVENT_TYPE`: write at the bottom of the pipe (`BOTTOM_OF_PIPE_TS`, `vega10_enum.h`).
        pub const EVENT_TYPE_BOTTOM_OF_PIPE_TS: u32 = 0x28;
        /// `EVENT_TYPE`: shaders are done (`CS_DONE`, `vega10_enum.h`).
        pub const EVENT_TYPE_CS_DONE: u32 = 0x2f;
        /// Memory controller.
        pub const DST_SEL_MEMORY_CONTROLLER: u32 = 0;
        /// L2 cache.
        pub const DST_SEL_TC_L2: u32 = 1;
        /// Write pointer register of the queue.
        pub const DST_SEL_QUEUE_WRITE_POINTER: u32 = 2;
        /// Write pointer poll mask bit of the queue.
        pub const DST_SEL_QUEUE_WRITE_POINTER_POLL_MASK: u32 = 3;
        /// No interrupt.
        pub const INT_SEL_NONE: u32 = 0;
        /// Interrupt without data.
        pub const INT_SEL_INTERRUPT_ONLY: u32 = 1;
        /// Interrupt after write confirmation.
        pub const INT_SEL_INTERRUPT_AFTER_WRITE_CONFIRM: u32 = 2;
        /// Data after confirmation of earlier writes.
        pub const INT_SEL_DATA_AFTER_WRITE_CONFIRM: u32 = 3;
        /// `INT_CTXID`, unconditional.
        pub const INT_SEL_INT_CTXID: u32 = 4;
        /// `INT_CTXID` if a 32-bit comparison succeeds.
        pub const INT_SEL_INT_CTXID_COMPARE_32: u32 = 5;
        /// `INT_CTXID` if a 64-bit comparison succeeds.
        pub const INT_SEL_INT_CTXID_COMPARE_64: u32 = 6;
        /// No data.
        pub const DATA_SEL_NONE: u32 = 0;
        /// `DATA_LO`.
        pub const DATA_SEL_32_BIT_LOW: u32 = 1;
        /// `DATA_HI:DATA_LO`.
        pub const DATA_SEL_64_BIT: u32 = 2;
        /// GPU clock counter.
        pub const DATA_SEL_GPU_CLOCK_COUNTER: u32 = 3;
        /// CP performance counter.
        pub const DATA_SEL_CP_PERFCOUNTER: u32 = 4;
        /// GDS to memory.
        pub const DATA_SEL_GDS: u32 = 5;
    }
}

packet! {
    /// DMA_DATA: copy by the CP's DMA engine.
    dma_data = DMA_DATA, 7 dwords;
    /// 0: ME (or MEC); 1: PFP.
    ENGINE: 1 [0:0];
    SRC_CACHE_POLICY: 1 [14:13];
    /// One of `DST_SEL_*`.
    DST_SEL: 1 [21:20];
    DST_CACHE_POLICY: 1 [26:25];
    /// One of `SRC_SEL_*`.
    SRC_SEL: 1 [30:29];
    /// 1: later packets wait for the copy.
    CP_SYNC: 1 [31:31];
    /// Address or immediate data.
    SRC_ADDR_LO: 2 [31:0];
    SRC_ADDR_HI: 3 [31:0];
    DST_ADDR_LO: 4 [31:0];
    DST_ADDR_HI: 5 [31:0];
    BYTE_COUNT: 6 [25:0];
    /// 1: the source is a register.
    SAS: 6 [26:26];
    /// 1: the destination is a register.
    DAS: 6 [27:27];
    /// 1: the source address is not incremented.
    SAIC: 6 [28:28];
    /// 1: the destination address is not incremented.
    DAIC: 6 [29:29];
    /// 1: wait for the writes of earlier DMA_DATA packets first.
    RAW_WAIT: 6 [30:30];
    => values {
        /// The address in the packet, `DAS` selects memory or registers.
        pub const DST_SEL_ADDRESS: u32 = 0;
        /// GDS.
        pub const DST_SEL_GDS: u32 = 1;
        /// Memory through the L2 cache.
        pub const DST_SEL_L2: u32 = 3;
        /// The address in the packet, `SAS` selects memory or registers.
        pub const SRC_SEL_ADDRESS: u32 = 0;
        /// GDS.
        pub const SRC_SEL_GDS: u32 = 1;
        /// `SRC_ADDR_LO` is a dword of data.
        pub const SRC_SEL_DATA: u32 = 2;
        /// Memory through the L2 cache.
        pub const SRC_SEL_L2: u32 = 3;
    }
}

packet! {
    /// ACQUIRE_MEM: cache actions over an address range, ahead of later packets.
    acquire_mem = ACQUIRE_MEM, 7 dwords;
    TC_NC_ACTION_ENA: 1 [3:3];
    TC_WC_ACTION_ENA: 1 [4:4];
    TC_INV_METADATA_ACTION_ENA: 1 [5:5];
    TCL1_VOL_ACTION_ENA: 1 [15:15];
    TC_WB_ACTION_ENA: 1 [18:18];
    TCL1_ACTION_ENA: 1 [22:22];
    TC_ACTION_ENA: 1 [23:23];
    CB_ACTION_ENA: 1 [25:25];
    DB_ACTION_ENA: 1 [26:26];
    SH_KCACHE_ACTION_ENA: 1 [27:27];
    SH_KCACHE_VOL_ACTION_ENA: 1 [28:28];
    SH_ICACHE_ACTION_ENA: 1 [29:29];
    SH_KCACHE_WB_ACTION_ENA: 1 [30:30];
    ENGINE_SEL: 1 [31:31];
    /// Unit 256 bytes.
    COHER_SIZE: 2 [31:0];
    COHER_SIZE_HI: 3 [23:0];
    /// Unit 256 bytes.
    COHER_BASE_LO: 4 [31:0];
    COHER_BASE_HI: 5 [23:0];
    /// Unit 16 clocks.
    POLL_INTERVAL: 6 [15:0];
}

packet! {
    /// SET_CONFIG_REG: writes consecutive configuration registers.
    set_config_reg = SET_CONFIG_REG, 3 dwords, payload from 2;
    /// Dwords from `START`.
    REG_OFFSET: 1 [15:0];
    => values {
        /// First register, dword address.
        pub const START: u32 = 0x2000;
        /// End of the range, exclusive.
        pub const END: u32 = 0x2c00;
    }
}

packet! {
    /// SET_SH_REG: writes consecutive shader registers.
    set_sh_reg = SET_SH_REG, 3 dwords, payload from 2;
    /// Dwords from `START`.
    REG_OFFSET: 1 [15:0];
    VMID_SHIFT: 1 [27:23];
    INDEX: 1 [31:28];
    => values {
        /// First register, dword address.
        pub const START: u32 = 0x2c00;
        /// End of the range, exclusive.
        pub const END: u32 = 0x3000;
    }
}

packet! {
    /// SET_UCONFIG_REG: writes consecutive user configuration registers.
    set_uconfig_reg = SET_UCONFIG_REG, 3 dwords, payload from 2;
    /// Dwords from `START`.
    REG_OFFSET: 1 [15:0];
    => values {
        /// First register, dword address.
        pub const START: u32 = 0xc000;
        /// End of the range in AMD's header, exclusive.
        pub const END: u32 = 0xc400;
    }
}

packet! {
    /// INVALIDATE_TLBS: flushes the TLB for one PASID or all.
    invalidate_tlbs = INVALIDATE_TLBS, 2 dwords;
    /// One of `DST_SEL_*`.
    DST_SEL: 1 [3:0];
    /// Both hubs.
    ALL_HUB: 1 [4:4];
    PASID: 1 [20:5];
    FLUSH_TYPE: 1 [31:29];
    => values {
        /// `PASID` only.
        pub const DST_SEL_PASID: u32 = 1;
    }
}
