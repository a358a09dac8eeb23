// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA 7 (gfx12): opcodes, packets and limits.
//!
//! Sources: `amdgpu/sdma_v6_0_0_pkt_open.h` (layouts, also used by the SDMA 7 driver),
//! `amdgpu/sdma_v7_0.c` (limits, the longer COPY, registers by byte address),
//! `include/soc24_enum.h` (atomic operations: those of [`atomic_op`](super::atomic_op)). Fields in
//! common with a packet of the parent module are at the same position, but for sub-window copies.

use super::Packet;
use crate::bits::{name_in, Field};
use crate::regs::gc_12_0_0 as regs;

pub use super::{header, HEADER_OP, HEADER_SUB_OP, IB_ALIGN, INDIRECT_END_ALIGN_DW, MAX_BYTES};

/// Queues per engine, including the kernel queue.
pub const QUEUES: usize = 8;
/// Maximum number of engines in the register layout.
pub const ENGINES: usize = 2;
/// Dwords between the registers of adjacent queues.
pub const QUEUE_REG_STRIDE: u32 =
    regs::regSDMA0_QUEUE1_RB_CNTL.off - regs::regSDMA0_QUEUE0_RB_CNTL.off;
/// Dwords between the registers of the two engines, except [`HYP_REGS`].
pub const ENGINE_REG_STRIDE: u32 =
    regs::regSDMA1_QUEUE0_RB_CNTL.off - regs::regSDMA0_QUEUE0_RB_CNTL.off;
/// Dwords between the registers of the two engines in segment 1 ([`HYP_REGS`]).
pub const HYP_REG_STRIDE: u32 = regs::regSDMA1_MCU_CNTL.off - regs::regSDMA0_MCU_CNTL.off;
/// Registers of engine 0 in segment 1.
pub const HYP_REGS: core::ops::RangeInclusive<u32> = 0x5880..=0x589a;
/// Size of the context save area (CSA) of a preempted IB, in bytes.
pub const CSA_SIZE: u64 = 32;

/// Ring id of interrupts: the queue.
pub const RING_ID_QUEUE: Field = Field::span(3, 0);
/// Ring id of interrupts: the engine.
pub const RING_ID_ENGINE: Field = Field::span(7, 4);

macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Opcodes.
        #[allow(missing_docs)]
        pub mod op {
            $(pub const $name: u8 = $value;)*
            /// All opcodes with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
        }
    };
}

opcodes! {
    NOP = 0,
    COPY = 1,
    WRITE = 2,
    INDIRECT = 4,
    FENCE = 5,
    TRAP = 6,
    SEM = 7,
    POLL_REGMEM = 8,
    COND_EXE = 9,
    ATOMIC = 10,
    CONST_FILL = 11,
    PTEPDE = 12,
    TIMESTAMP = 13,
    SRBM_WRITE = 14,
    PRE_EXE = 15,
    GPUVM_INV = 16,
    GCR_REQ = 17,
    DUMMY_TRAP = 32,
}

macro_rules! sub_opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Sub-opcodes, named after their opcode. Opcodes without sub-opcodes use 0.
        #[allow(missing_docs)]
        pub mod sub_op {
            $(pub const $name: u8 = $value;)*
            /// All sub-opcodes with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
            /// GCR_REQ of a user queue. From ROCr's `sdma_registers.h` (`SDMA_SUBOP_USER_GCR`), not
            /// in the driver's header.
            pub const USER_GCR: u8 = 1;
        }
    };
}

sub_opcodes! {
    TIMESTAMP_SET = 0,
    TIMESTAMP_GET = 1,
    TIMESTAMP_GET_GLOBAL = 2,
    COPY_LINEAR = 0,
    COPY_LINEAR_SUB_WIND = 4,
    COPY_TILED = 1,
    COPY_TILED_SUB_WIND = 5,
    COPY_T2T_SUB_WIND = 6,
    COPY_SOA = 3,
    COPY_DIRTY_PAGE = 7,
    COPY_LINEAR_PHY = 8,
    COPY_LINEAR_SUB_WIND_LARGE = 36,
    COPY_LINEAR_BC = 16,
    COPY_TILED_BC = 17,
    COPY_LINEAR_SUB_WIND_BC = 20,
    COPY_TILED_SUB_WIND_BC = 21,
    COPY_T2T_SUB_WIND_BC = 22,
    WRITE_LINEAR = 0,
    WRITE_TILED = 1,
    WRITE_TILED_BC = 17,
    PTEPDE_GEN = 0,
    PTEPDE_COPY = 1,
    PTEPDE_RMW = 2,
    PTEPDE_COPY_BACKWARDS = 3,
    MEM_INCR = 1,
    DATA_FILL_MULTI = 1,
    POLL_REG_WRITE_MEM = 1,
    POLL_DBIT_WRITE_MEM = 2,
    POLL_MEM_VERIFY = 3,
    VM_INVALIDATION = 4,
}

/// Returns the name of an opcode of [`op`].
pub const fn opcode_name(opcode: u8) -> Option<&'static str> {
    name_in(op::ALL, opcode)
}

packet! {
    /// NOP: skips `COUNT` dwords after the header.
    nop = "NOP", NOP, 0, 1 dwords, payload from 1;
    COUNT: 0 [29:16];
}

packet! {
    /// COPY linear: copies bytes.
    copy_linear = "COPY_LINEAR", COPY, sub_op::COPY_LINEAR, 7 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    /// 1: the packet is a [`copy_linear_cpv`](super::copy_linear_cpv).
    CPV: 0 [19:19];
    /// 1: copy from the last byte to the first.
    BACKWARDS: 0 [25:25];
    /// 1: the packet is a [`copy_broadcast`](super::copy_broadcast).
    BROADCAST: 0 [27:27];
    /// Bytes - 1.
    COUNT: 1 [29:0];
    /// Byte swap of the destination.
    DST_SW: 2 [17:16];
    DST_CACHE_POLICY: 2 [20:18];
    /// Byte swap of the source.
    SRC_SW: 2 [25:24];
    SRC_CACHE_POLICY: 2 [28:26];
    SRC_ADDR_LO: 3 [31:0];
    SRC_ADDR_HI: 4 [31:0];
    DST_ADDR_LO: 5 [31:0];
    DST_ADDR_HI: 6 [31:0];
}

packet! {
    /// COPY linear with the CPV bit: an additional dword with compression parameters, zero for
    /// none.
    copy_linear_cpv = "COPY_LINEAR", COPY, sub_op::COPY_LINEAR, 8 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    /// Must be 1.
    CPV: 0 [19:19];
    /// 1: copy from the last byte to the first.
    BACKWARDS: 0 [25:25];
    BROADCAST: 0 [27:27];
    /// Bytes - 1.
    COUNT: 1 [29:0];
    /// Byte swap of the destination.
    DST_SW: 2 [17:16];
    DST_CACHE_POLICY: 2 [20:18];
    /// Byte swap of the source.
    SRC_SW: 2 [25:24];
    SRC_CACHE_POLICY: 2 [28:26];
    SRC_ADDR_LO: 3 [31:0];
    SRC_ADDR_HI: 4 [31:0];
    DST_ADDR_LO: 5 [31:0];
    DST_ADDR_HI: 6 [31:0];
    DCC_DATA_FORMAT: 7 [5:0];
    DCC_NUM_TYPE: 7 [11:9];
    DCC_READ_CM: 7 [17:16];
    DCC_WRITE_CM: 7 [19:18];
    DCC_MAX_COM: 7 [25:24];
    DCC_MAX_UCOM: 7 [26:26];
}

packet! {
    /// COPY linear with the broadcast bit: copies bytes to two destinations.
    copy_broadcast = "COPY_BROADCAST_LINEAR", COPY, sub_op::COPY_LINEAR, 9 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    CPV: 0 [19:19];
    /// Must be 1.
    BROADCAST: 0 [27:27];
    /// Bytes - 1.
    COUNT: 1 [29:0];
    DST2_SW: 2 [9:8];
    DST2_CACHE_POLICY: 2 [12:10];
    DST1_SW: 2 [17:16];
    DST1_CACHE_POLICY: 2 [20:18];
    SRC_SW: 2 [25:24];
    SRC_CACHE_POLICY: 2 [28:26];
    SRC_ADDR_LO: 3 [31:0];
    SRC_ADDR_HI: 4 [31:0];
    DST1_ADDR_LO: 5 [31:0];
    DST1_ADDR_HI: 6 [31:0];
    DST2_ADDR_LO: 7 [31:0];
    DST2_ADDR_HI: 8 [31:0];
}

packet! {
    /// COPY of a sub-window between two linear volumes. Coordinates, pitches and sizes in elements.
    /// The fields are wider than in the header, which describes SDMA 6: those of ROCr
    /// (`SDMA_PKT_COPY_LINEAR_RECT_GFX12`, `sdma_registers.h`).
    copy_subwin = "COPY_LINEAR_SUBWIN", COPY, sub_op::COPY_LINEAR_SUB_WIND, 13 dwords;
    TMZ: 0 [18:18];
    CPV: 0 [19:19];
    NPD: 0 [28:28];
    /// log2 of the size of an element in bytes, 0 to 4.
    ELEMENTSIZE: 0 [31:29];
    SRC_ADDR_LO: 1 [31:0];
    SRC_ADDR_HI: 2 [31:0];
    SRC_X: 3 [15:0];
    SRC_Y: 3 [31:16];
    SRC_Z: 4 [13:0];
    /// Row pitch - 1.
    SRC_PITCH: 4 [31:16];
    /// Slice pitch - 1.
    SRC_SLICE_PITCH: 5 [31:0];
    DST_ADDR_LO: 6 [31:0];
    DST_ADDR_HI: 7 [31:0];
    DST_X: 8 [15:0];
    DST_Y: 8 [31:16];
    DST_Z: 9 [13:0];
    /// Row pitch - 1.
    DST_PITCH: 9 [31:16];
    /// Slice pitch - 1.
    DST_SLICE_PITCH: 10 [31:0];
    /// Width - 1.
    RECT_X: 11 [15:0];
    /// Height - 1.
    RECT_Y: 11 [31:16];
    /// Depth - 1.
    RECT_Z: 12 [13:0];
    DST_CACHE_POLICY: 12 [22:20];
    SRC_CACHE_POLICY: 12 [30:28];
}

packet! {
    /// WRITE linear: writes the dwords of the packet to memory.
    write = "WRITE_UNTILED", WRITE, sub_op::WRITE_LINEAR, 5 dwords, payload from 4;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    CPV: 0 [28:28];
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    /// Dwords - 1.
    COUNT: 3 [19:0];
    SW: 3 [25:24];
    CACHE_POLICY: 3 [28:26];
}

packet! {
    /// INDIRECT: executes an IB. See [`IB_ALIGN`](super::IB_ALIGN) and
    /// [`INDIRECT_END_ALIGN_DW`](super::INDIRECT_END_ALIGN_DW).
    indirect = "INDIRECT", INDIRECT, 0, 6 dwords;
    VMID: 0 [19:16];
    PRIV: 0 [31:31];
    IB_BASE_LO: 1 [31:0];
    IB_BASE_HI: 2 [31:0];
    /// In dwords.
    IB_SIZE: 3 [19:0];
    /// Address where the engine saves its state when the IB is preempted:
    /// [`CSA_SIZE`](super::CSA_SIZE).
    CSA_ADDR_LO: 4 [31:0];
    CSA_ADDR_HI: 5 [31:0];
}

packet! {
    /// FENCE: writes a dword to memory after all earlier packets complete.
    fence = "FENCE", FENCE, 0, 4 dwords;
    /// One of `MTYPE_*`.
    MTYPE: 0 [18:16];
    GCC: 0 [19:19];
    SYS: 0 [20:20];
    SNP: 0 [22:22];
    GPA: 0 [23:23];
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    /// A multiple of 4.
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    DATA: 3 [31:0];
    => values {
        /// Uncached.
        pub const MTYPE_UC: u32 = 3;
    }
}

packet! {
    /// TRAP: raises an interrupt.
    trap = "TRAP", TRAP, 0, 2 dwords;
    /// Interrupt `CONTEXT_ID0`.
    INT_CONTEXT: 1 [27:0];
}

packet! {
    /// SEM: signals or waits for a semaphore in memory.
    semaphore = "SEMAPHORE", SEM, 0, 3 dwords;
    WRITE_ONE: 0 [29:29];
    SIGNAL: 0 [30:30];
    MAILBOX: 0 [31:31];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
}

packet! {
    /// POLL_REGMEM: polls a register or a dword in memory, or flushes HDP: writes the reference to
    /// the request register and polls the done register. Functions and retry count as in
    /// [`crate::sdma::poll_regmem`].
    poll_regmem = "POLL_REGMEM", POLL_REGMEM, 0, 6 dwords;
    CACHE_POLICY: 0 [22:20];
    CPV: 0 [24:24];
    /// 1: `ADDR_LO` and `ADDR_HI` are byte addresses of the done and the request register.
    HDP_FLUSH: 0 [26:26];
    FUNC: 0 [30:28];
    /// 1: memory; 0: register.
    MEM_POLL: 0 [31:31];
    /// Memory: a multiple of 4. Register: its byte address.
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    /// Reference value.
    VALUE: 3 [31:0];
    /// Mask of the compared bits.
    MASK: 4 [31:0];
    /// Interval between two reads.
    INTERVAL: 5 [15:0];
    /// Number of reads before giving up; all ones: unlimited.
    RETRY_COUNT: 5 [27:16];
}

packet! {
    /// POLL_REGMEM, invalidate: sends a request to an invalidation engine of each selected hub and
    /// waits for the acknowledgement.
    vm_invalidation = "VM_INVALIDATION", POLL_REGMEM, sub_op::VM_INVALIDATION, 4 dwords;
    /// Invalidation engine of the graphics hub; all ones: none.
    GFX_ENG_ID: 0 [20:16];
    /// Invalidation engine of the memory hub; all ones: none.
    MM_ENG_ID: 0 [28:24];
    /// Value for the request register.
    INVALIDATEREQ: 1 [31:0];
    ADDRESSRANGELO: 2 [31:0];
    /// VMIDs whose acknowledgement is awaited.
    INVALIDATEACK: 3 [15:0];
    ADDRESSRANGEHI: 3 [20:16];
    RESERVED: 3 [31:23];
}

packet! {
    /// COND_EXE: skips the next dwords unless a dword in memory equals the reference.
    cond_exe = "COND_EXE", COND_EXE, 0, 5 dwords;
    CACHE_POLICY: 0 [26:24];
    CPV: 0 [28:28];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    REFERENCE: 3 [31:0];
    /// Number of dwords to skip.
    EXEC_COUNT: 4 [13:0];
}

packet! {
    /// ATOMIC: an atomic operation on memory.
    atomic = "ATOMIC", ATOMIC, 0, 8 dwords;
    /// Compare-and-swap: loop until it swaps.
    LOOP: 0 [16:16];
    TMZ: 0 [18:18];
    CACHE_POLICY: 0 [22:20];
    CPV: 0 [24:24];
    /// One of [`atomic_op`](crate::sdma::atomic_op) with flags.
    ATOMIC_OP: 0 [31:25];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    SRC_DATA_LO: 3 [31:0];
    SRC_DATA_HI: 4 [31:0];
    CMP_DATA_LO: 5 [31:0];
    CMP_DATA_HI: 6 [31:0];
    LOOP_INTERVAL: 7 [12:0];
}

packet! {
    /// ATOMIC, increment: increments a qword in memory.
    mem_incr = "MEM_INCR", ATOMIC, sub_op::MEM_INCR, 3 dwords;
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
}

packet! {
    /// CONST_FILL: fills a range with a value.
    const_fill = "CONSTANT_FILL", CONST_FILL, 0, 5 dwords;
    /// Byte swap, as in the header file. On SDMA 7 the low bit is [`COMPRESS`].
    SW: 0 [17:16];
    CACHE_POLICY: 0 [26:24];
    CPV: 0 [28:28];
    /// One of `FILLSIZE_*`.
    FILLSIZE: 0 [31:30];
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    SRC_DATA: 3 [31:0];
    /// Bytes - 1. The two low bits are ignored in dword fills.
    COUNT: 4 [29:0];
    => values {
        /// The filled range may be compressed.
        pub const COMPRESS: crate::bits::Field = crate::bits::Field::span(16, 16);
        /// Byte value.
        pub const FILLSIZE_BYTE: u32 = 0;
        /// Dword value.
        pub const FILLSIZE_DWORD: u32 = 2;
    }
}

packet! {
    /// PTEPDE, generate: writes `COUNT` + 1 qwords `MASK | (INIT + n * INCR)`.
    ptepde_gen = "WRITE_INCR", PTEPDE, sub_op::PTEPDE_GEN, 10 dwords;
    CACHE_POLICY: 0 [26:24];
    CPV: 0 [28:28];
    /// A multiple of 8.
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    /// Flags of each entry.
    MASK_DW0: 3 [31:0];
    MASK_DW1: 4 [31:0];
    /// Address of the first entry.
    INIT_DW0: 5 [31:0];
    INIT_DW1: 6 [31:0];
    /// Increment per entry.
    INCR_DW0: 7 [31:0];
    INCR_DW1: 8 [31:0];
    /// Entries - 1.
    COUNT: 9 [18:0];
}

packet! {
    /// TIMESTAMP set: sets the engine's local counter.
    timestamp_set = "TIMESTAMP_SET", TIMESTAMP, sub_op::TIMESTAMP_SET, 3 dwords;
    INIT_DATA_LO: 1 [31:0];
    INIT_DATA_HI: 2 [31:0];
}

packet! {
    /// TIMESTAMP get: writes the local counter to memory.
    timestamp_get = "TIMESTAMP_GET", TIMESTAMP, sub_op::TIMESTAMP_GET, 3 dwords;
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    /// Address bits 31:3.
    WRITE_ADDR_LO: 1 [31:3];
    WRITE_ADDR_HI: 2 [31:0];
}

packet! {
    /// TIMESTAMP get global: writes the GPU reference clock to memory.
    timestamp_get_global = "TIMESTAMP_GET_GLOBAL", TIMESTAMP, sub_op::TIMESTAMP_GET_GLOBAL,
        3 dwords;
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    /// Address bits 31:3.
    WRITE_ADDR_LO: 1 [31:3];
    WRITE_ADDR_HI: 2 [31:0];
}

packet! {
    /// SRBM_WRITE: writes a register, all bytes. The address is in bytes on SDMA 7.
    register_write = "SRBM_WRITE", SRBM_WRITE, 0, 3 dwords;
    BYTE_EN: 0 [31:28];
    /// Byte address.
    ADDR: 1 [17:0];
    APERTUREID: 1 [31:20];
    DATA: 2 [31:0];
}

packet! {
    /// GPUVM_INV: TLB flush.
    gpuvm_inv = "GPUVM_INV", GPUVM_INV, 0, 4 dwords;
    PER_VMID_INV_REQ: 1 [15:0];
    FLUSH_TYPE: 1 [18:16];
    L2_PTES: 1 [19:19];
    L2_PDE0: 1 [20:20];
    L2_PDE1: 1 [21:21];
    L2_PDE2: 1 [22:22];
    L1_PTES: 1 [23:23];
    CLR_PROTECTION_FAULT_STATUS_ADDR: 1 [24:24];
    LOG_REQUEST: 1 [25:25];
    FOUR_KILOBYTES: 1 [26:26];
    S: 2 [0:0];
    PAGE_VA_42_12: 2 [31:1];
    PAGE_VA_47_43: 3 [5:0];
}

packet! {
    /// GCR_REQ: writes back and invalidates caches, entirely or over a range of 128-byte lines.
    gcr_req = "GCR_REQ", GCR_REQ, 0, 5 dwords;
    /// Bits 31:7 of the start address.
    BASE_VA_31_7: 1 [31:7];
    BASE_VA_47_32: 2 [15:0];
    /// Low half of the [`gcr`](super::gcr) bits.
    GCR_CONTROL_15_0: 2 [31:16];
    GCR_CONTROL_18_16: 3 [2:0];
    LIMIT_VA_31_7: 3 [31:7];
    LIMIT_VA_47_32: 4 [15:0];
    VMID: 4 [27:24];
}

/// All packets described here. The lengths of COPY linear differ in the broadcast and CPV bits.
pub const PACKETS: &[Packet] = &[
    nop::PACKET,
    copy_linear::PACKET,
    copy_linear_cpv::PACKET,
    copy_broadcast::PACKET,
    copy_subwin::PACKET,
    write::PACKET,
    indirect::PACKET,
    fence::PACKET,
    trap::PACKET,
    semaphore::PACKET,
    poll_regmem::PACKET,
    vm_invalidation::PACKET,
    cond_exe::PACKET,
    atomic::PACKET,
    mem_incr::PACKET,
    const_fill::PACKET,
    ptepde_gen::PACKET,
    timestamp_set::PACKET,
    timestamp_get::PACKET,
    timestamp_get_global::PACKET,
    register_write::PACKET,
    gpuvm_inv::PACKET,
    gcr_req::PACKET,
];

/// Cache actions of GCR_REQ: bits of `GCR_CONTROL`.
#[allow(missing_docs)]
pub mod gcr {
    use crate::bits::Field;

    pub const GLI_INV: Field = Field::span(1, 0);
    pub const GL1_RANGE: Field = Field::span(3, 2);
    pub const GLM_WB: Field = Field::span(4, 4);
    pub const GLM_INV: Field = Field::span(5, 5);
    pub const GLK_WB: Field = Field::span(6, 6);
    pub const GLK_INV: Field = Field::span(7, 7);
    pub const GLV_INV: Field = Field::span(8, 8);
    pub const GL1_INV: Field = Field::span(9, 9);
    pub const GL2_US: Field = Field::span(10, 10);
    pub const GL2_RANGE: Field = Field::span(12, 11);
    pub const GL2_DISCARD: Field = Field::span(13, 13);
    pub const GL2_INV: Field = Field::span(14, 14);
    pub const GL2_WB: Field = Field::span(15, 15);
    pub const SEQ: Field = Field::span(17, 16);
    pub const RANGE_IS_PA: Field = Field::span(18, 18);
    /// All bits with their names.
    pub const ALL: &[(&str, Field)] = &[
        ("GLI_INV", GLI_INV),
        ("GL1_RANGE", GL1_RANGE),
        ("GLM_WB", GLM_WB),
        ("GLM_INV", GLM_INV),
        ("GLK_WB", GLK_WB),
        ("GLK_INV", GLK_INV),
        ("GLV_INV", GLV_INV),
        ("GL1_INV", GL1_INV),
        ("GL2_US", GL2_US),
        ("GL2_RANGE", GL2_RANGE),
        ("GL2_DISCARD", GL2_DISCARD),
        ("GL2_INV", GL2_INV),
        ("GL2_WB", GL2_WB),
        ("SEQ", SEQ),
        ("RANGE_IS_PA", RANGE_IS_PA),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_inside_and_do_not_overlap() {
        for p in PACKETS {
            let mut seen = [0u32; 16];
            seen[0] = HEADER_OP.mask | HEADER_SUB_OP.mask;
            for f in p.fields {
                assert!(f.dw < p.dwords, "{}.{}", p.name, f.name);
                assert_eq!(seen[f.dw] & f.field.mask, 0, "{}.{}", p.name, f.name);
                seen[f.dw] |= f.field.mask;
            }
        }
    }

    #[test]
    fn common_fields_match_sdma4() {
        // The fields of sub-window copies have moved.
        for p in PACKETS
            .iter()
            .filter(|p| p.name != copy_subwin::PACKET.name)
        {
            let Some(old) = super::super::PACKETS
                .iter()
                .find(|q| q.name == p.name && q.dwords == p.dwords)
            else {
                continue;
            };
            assert_eq!((p.op, p.sub_op), (old.op, old.sub_op), "{}", p.name);
            for f in old.fields {
                let ours = p.fields.iter().find(|g| g.name == f.name);
                let ours = ours.unwrap_or_else(|| panic!("{} has no {}", p.name, f.name));
                assert_eq!((ours.dw, ours.field.shift), (f.dw, f.field.shift));
                assert_eq!(ours.field.mask & f.field.mask, f.field.mask, "{}", p.name);
            }
        }
    }
}
