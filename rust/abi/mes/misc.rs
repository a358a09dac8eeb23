// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames of opcode MISC: register access, shader debugger, configuration.

/// Declares a MISC frame: the common fields and its own.
macro_rules! misc {
    (
        $(#[$meta:meta])*
        $module:ident = $misc:ident;
        words { $($words:tt)* }
        quads { $($quads:tt)* }
        $(arrays { $($arrays:tt)* })?
    ) => {
        frame! {
            $(#[$meta])*
            $module = MISC / $misc, status 2;
            words {
                /// One of [`misc_op`](crate::mes::misc_op).
                MISC_OPCODE: 1 [31:0];
                $($words)*
                DOORBELL_OFFSET: 28 [31:0];
                OS_FENCE: 29 [31:0];
            }
            quads { $($quads)* TIMESTAMP: 26; }
            $(arrays { $($arrays)* })?
        }
    };
}

misc! {
    /// WRITE_REG: writes a register.
    misc_write_reg = WRITE_REG;
    words {
        /// Dword address.
        REG_OFFSET: 6 [31:0];
        REG_VALUE: 7 [31:0];
        RRMT_OPT: 8 [31:0];
    }
    quads {}
}

misc! {
    /// INV_GART: invalidates GART translations.
    misc_inv_gart = INV_GART;
    words {}
    quads {
        INV_RANGE_VA_START: 6;
        INV_RANGE_SIZE: 8;
    }
}

misc! {
    /// QUERY_STATUS: queries the status of a context.
    misc_query_status = QUERY_STATUS;
    words {
        CONTEXT_ID: 6 [31:0];
    }
    quads {}
}

misc! {
    /// READ_REG: reads a register to memory.
    misc_read_reg = READ_REG;
    words {
        /// Dword address.
        REG_OFFSET: 6 [31:0];
        READ64BITS: 10 [0:0];
        RRMT_OPT: 11 [31:0];
    }
    quads {
        BUFFER_ADDR: 8;
    }
}

misc! {
    /// WAIT_REG_MEM: waits for a register, optionally after a write to another register.
    misc_wait_reg_mem = WAIT_REG_MEM;
    words {
        /// One of [`wait_op`](crate::mes::wait_op).
        OP: 6 [31:0];
        REFERENCE: 7 [31:0];
        MASK: 8 [31:0];
        REG_OFFSET1: 9 [31:0];
        REG_OFFSET2: 10 [31:0];
        RRMT_OPT1: 11 [31:0];
        RRMT_OPT2: 12 [31:0];
    }
    quads {}
}

misc! {
    /// SET_SHADER_DEBUGGER: sets the debug mode of a process's waves.
    misc_set_shader_debugger = SET_SHADER_DEBUGGER;
    words {
        SINGLE_MEMOP: 8 [0:0];
        SINGLE_ALU_OP: 8 [1:1];
        LDS_OOR_REPORTING: 8 [2:2];
        /// Flushes the process context. Reserved in the firmware's header, but set by the driver
        /// (`amdgpu/amdgpu_mes.h`).
        PROCESS_CTX_FLUSH: 8 [31:31];
        SPI_GDBG_PER_VMID_CNTL: 9 [31:0];
        TRAP_EN: 14 [31:0];
    }
    quads {
        PROCESS_CONTEXT_ADDR: 6;
    }
    arrays {
        TCP_WATCH_CNTL: 10 x 4;
    }
}

misc! {
    /// NOTIFY_WORK_ON_UNMAPPED_QUEUE: unmapped queues of a priority level have work.
    misc_notify_work_on_unmapped_queue = NOTIFY_WORK_ON_UNMAPPED_QUEUE;
    words {
        /// One of [`priority`](crate::mes::priority).
        QUEUE_SCH_LEVEL: 6 [31:0];
    }
    quads {}
}

misc! {
    /// CHANGE_CONFIG: changes options of SET_HW_RSRC.
    misc_change_config = CHANGE_CONFIG;
    words {
        /// Selects the option: 0 is the process limit.
        CONFIG_OPCODE: 6 [31:0];
        LIMIT_SINGLE_PROCESS: 7 [0:0];
        ENABLE_HWS_LOGGING_BUFFER: 7 [1:1];
        TDR_LEVEL: 8 [31:0];
        TDR_DELAY: 9 [31:0];
    }
    quads {}
}
