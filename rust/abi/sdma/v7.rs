// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA 7: opcodes, packets and limits of the DMA engines of gfx12.
//!
//! Sources: `amdgpu/sdma_v6_0_0_pkt_open.h` (layouts, which the driver of SDMA 7 uses),
//! `amdgpu/sdma_v7_0.c` (limits, the longer COPY, registers by byte address),
//! `include/soc24_enum.h` (atomic operations: those of [`atomic_op`](super::atomic_op)). A field
//! that a packet of the parent module has is here too, at the same place.

use super::Packet;
use crate::bits::{name_in, Field};
use crate::regs::gc_12_0_0 as regs;

pub use super::{header, HEADER_OP, HEADER_SUB_OP, IB_ALIGN, INDIRECT_END_ALIGN_DW, MAX_BYTES};

/// Queues of an engine, the kernel's included.
pub const QUEUES: usize = 8;
/// Engines that the registers have room for.
pub const ENGINES: usize = 2;
/// Dwords between the registers of two neighbouring queues.
pub const QUEUE_REG_STRIDE: u32 =
    regs::regSDMA0_QUEUE1_RB_CNTL.off - regs::regSDMA0_QUEUE0_RB_CNTL.off;
/// Dwords between the registers of the two engines, but for [`HYP_REG_STRIDE`].
pub const ENGINE_REG_STRIDE: u32 =
    regs::regSDMA1_QUEUE0_RB_CNTL.off - regs::regSDMA0_QUEUE0_RB_CNTL.off;
/// Dwords between the registers of the two engines in segment 1: [`HYP_REGS`].
pub const HYP_REG_STRIDE: u32 = regs::regSDMA1_MCU_CNTL.off - regs::regSDMA0_MCU_CNTL.off;
/// The first engine's registers in segment 1.
pub const HYP_REGS: core::ops::RangeInclusive<u32> = 0x5880..=0x589a;
/// Where an engine saves its state when a buffer is preempted: bytes.
pub const CSA_SIZE: u64 = 32;

/// Interrupts: the queue in the ring id.
pub const RING_ID_QUEUE: Field = Field::span(3, 0);
/// Interrupts: the engine in the ring id.
pub const RING_ID_ENGINE: Field = Field::span(7, 4);

macro_rules! opcodes {
    ($($name:ident = $value:literal),* $(,)?) => {
        /// Opcodes.
        #[allow(missing_docs)]
        pub mod op {
            $(pub const $name: u8 = $value;)*
            /// All of them with their names.
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
        /// Sub-opcodes, named by their opcode first. An opcode without any has sub-opcode 0.
        #[allow(missing_docs)]
        pub mod sub_op {
            $(pub const $name: u8 = $value;)*
            /// All of them with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
            /// GCR_REQ of a user queue. Not in the driver's header: ROCr's `sdma_registers.h`
            /// (`SDMA_SUBOP_USER_GCR`).
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

/// The name of an opcode, when it is one of [`op`].
pub const fn opcode_name(opcode: u8) -> Option<&'static str> {
    name_in(op::ALL, opcode)
}

packet! {
    /// NOP: `COUNT` dwords after the header are skipped.
    nop = "NOP", NOP, 0, 1 dwords, payload from 1;
    COUNT: 0 [29:16];
}

packet! {
    /// COPY linear: bytes from one place to another.
    copy_linear = "COPY_LINEAR", COPY, sub_op::COPY_LINEAR, 7 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    /// Set: the packet is a [`copy_linear_cpv`](super::copy_linear_cpv).
    CPV: 0 [19:19];
    /// From the last byte to the first.
    BACKWARDS: 0 [25:25];
    /// Set: the packet is a [`copy_broadcast`](super::copy_broadcast).
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
    /// COPY linear with the CPV bit: one more dword says how memory is compressed, zero for not
    /// at all.
    copy_linear_cpv = "COPY_LINEAR", COPY, sub_op::COPY_LINEAR, 8 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    /// Must be set.
    CPV: 0 [19:19];
    /// From the last byte to the first.
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
    /// COPY linear with the broadcast bit: bytes to two places.
    copy_broadcast = "COPY_BROADCAST_LINEAR", COPY, sub_op::COPY_LINEAR, 9 dwords;
    ENCRYPT: 0 [16:16];
    TMZ: 0 [18:18];
    CPV: 0 [19:19];
    /// Must be set.
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
    /// COPY of a box between two linear volumes. Coordinates, pitches and sizes count elements.
    copy_subwin = "COPY_LINEAR_SUBWIN", COPY, sub_op::COPY_LINEAR_SUB_WIND, 13 dwords;
    TMZ: 0 [18:18];
    CPV: 0 [19:19];
    /// Base 2 logarithm of the bytes of an element, 0 to 4.
    ELEMENTSIZE: 0 [31:29];
    SRC_ADDR_LO: 1 [31:0];
    SRC_ADDR_HI: 2 [31:0];
    SRC_X: 3 [13:0];
    SRC_Y: 3 [29:16];
    SRC_Z: 4 [12:0];
    /// Elements of a row - 1.
    SRC_PITCH: 4 [31:13];
    /// Elements of a slice - 1.
    SRC_SLICE_PITCH: 5 [27:0];
    DST_ADDR_LO: 6 [31:0];
    DST_ADDR_HI: 7 [31:0];
    DST_X: 8 [13:0];
    DST_Y: 8 [29:16];
    DST_Z: 9 [12:0];
    /// Elements of a row - 1.
    DST_PITCH: 9 [31:13];
    /// Elements of a slice - 1.
    DST_SLICE_PITCH: 10 [27:0];
    /// Width - 1.
    RECT_X: 11 [13:0];
    /// Height - 1.
    RECT_Y: 11 [29:16];
    /// Depth - 1.
    RECT_Z: 12 [12:0];
    DST_SW: 12 [17:16];
    DST_CACHE_POLICY: 12 [20:18];
    SRC_SW: 12 [25:24];
    SRC_CACHE_POLICY: 12 [28:26];
}

packet! {
    /// WRITE linear: the packet's dwords to memory.
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
    /// INDIRECT: run an indirect buffer. See [`IB_ALIGN`](super::IB_ALIGN) and
    /// [`INDIRECT_END_ALIGN_DW`](super::INDIRECT_END_ALIGN_DW).
    indirect = "INDIRECT", INDIRECT, 0, 6 dwords;
    VMID: 0 [19:16];
    PRIV: 0 [31:31];
    IB_BASE_LO: 1 [31:0];
    IB_BASE_HI: 2 [31:0];
    /// In dwords.
    IB_SIZE: 3 [19:0];
    /// Where the engine saves its state when the buffer is preempted: [`CSA_SIZE`](super::CSA_SIZE).
    CSA_ADDR_LO: 4 [31:0];
    CSA_ADDR_HI: 5 [31:0];
}

packet! {
    /// FENCE: one dword to memory once everything before is done.
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
        /// The fence's dword is not cached.
        pub const MTYPE_UC: u32 = 3;
    }
}

packet! {
    /// TRAP: an interrupt.
    trap = "TRAP", TRAP, 0, 2 dwords;
    /// The interrupt's first context word.
    INT_CONTEXT: 1 [27:0];
}

packet! {
    /// SEM: signal or wait for a semaphore in memory.
    semaphore = "SEMAPHORE", SEM, 0, 3 dwords;
    WRITE_ONE: 0 [29:29];
    SIGNAL: 0 [30:30];
    MAILBOX: 0 [31:31];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
}

packet! {
    /// POLL_REGMEM: wait until a register or a dword of memory compares, or flush the HDP: write
    /// the reference to the request register and wait for the done register. Functions and retry
    /// count have the values of [the older packet](crate::sdma::poll_regmem).
    poll_regmem = "POLL_REGMEM", POLL_REGMEM, 0, 6 dwords;
    CACHE_POLICY: 0 [22:20];
    CPV: 0 [24:24];
    /// `ADDR_LO` and `ADDR_HI` are byte addresses of the done and the request register.
    HDP_FLUSH: 0 [26:26];
    FUNC: 0 [30:28];
    /// Memory, not a register.
    MEM_POLL: 0 [31:31];
    /// Memory: a multiple of 4. Register: its byte address.
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    /// What is compared with.
    VALUE: 3 [31:0];
    /// Bits that are compared.
    MASK: 4 [31:0];
    /// Time between two reads.
    INTERVAL: 5 [15:0];
    /// Reads before it gives up; all ones: it never does.
    RETRY_COUNT: 5 [27:16];
}

packet! {
    /// POLL_REGMEM, invalidate: a request to an invalidation engine of each hub that is named,
    /// over when they acknowledge.
    vm_invalidation = "VM_INVALIDATION", POLL_REGMEM, sub_op::VM_INVALIDATION, 4 dwords;
    /// Engine of the graphics hub; all ones: none.
    GFX_ENG_ID: 0 [20:16];
    /// Engine of the memory hub; all ones: none.
    MM_ENG_ID: 0 [28:24];
    /// What is written to the request register.
    INVALIDATEREQ: 1 [31:0];
    ADDRESSRANGELO: 2 [31:0];
    /// VMIDs that have to be acknowledged.
    INVALIDATEACK: 3 [15:0];
    ADDRESSRANGEHI: 3 [20:16];
    RESERVED: 3 [31:23];
}

packet! {
    /// COND_EXE: skip the next dwords unless a dword in memory has the reference's value.
    cond_exe = "COND_EXE", COND_EXE, 0, 5 dwords;
    CACHE_POLICY: 0 [26:24];
    CPV: 0 [28:28];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
    REFERENCE: 3 [31:0];
    /// Dwords to skip.
    EXEC_COUNT: 4 [13:0];
}

packet! {
    /// ATOMIC: one atomic operation on memory.
    atomic = "ATOMIC", ATOMIC, 0, 8 dwords;
    /// Compare and swap: again until it swapped.
    LOOP: 0 [16:16];
    TMZ: 0 [18:18];
    CACHE_POLICY: 0 [22:20];
    CPV: 0 [24:24];
    /// One of [`atomic_op`](crate::sdma::atomic_op) with its flags.
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
    /// ATOMIC, increment: a quadword of memory one up.
    mem_incr = "MEM_INCR", ATOMIC, sub_op::MEM_INCR, 3 dwords;
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    ADDR_LO: 1 [31:0];
    ADDR_HI: 2 [31:0];
}

packet! {
    /// CONST_FILL: one value all over a range.
    const_fill = "CONSTANT_FILL", CONST_FILL, 0, 5 dwords;
    /// Byte swap, as the header file has it. SDMA 7 has [`COMPRESS`] in its low bit.
    SW: 0 [17:16];
    CACHE_POLICY: 0 [26:24];
    CPV: 0 [28:28];
    /// One of `FILLSIZE_*`.
    FILLSIZE: 0 [31:30];
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    SRC_DATA: 3 [31:0];
    /// Bytes - 1. Its two low bits do not count when dwords are filled.
    COUNT: 4 [29:0];
    => values {
        /// What is filled may be compressed.
        pub const COMPRESS: crate::bits::Field = crate::bits::Field::span(16, 16);
        /// The value is a byte.
        pub const FILLSIZE_BYTE: u32 = 0;
        /// The value is a dword.
        pub const FILLSIZE_DWORD: u32 = 2;
    }
}

packet! {
    /// PTEPDE, generate: `COUNT` + 1 quadwords `MASK | (INIT + n * INCR)`.
    ptepde_gen = "WRITE_INCR", PTEPDE, sub_op::PTEPDE_GEN, 10 dwords;
    CACHE_POLICY: 0 [26:24];
    CPV: 0 [28:28];
    /// A multiple of 8.
    DST_ADDR_LO: 1 [31:0];
    DST_ADDR_HI: 2 [31:0];
    /// Flags of every entry.
    MASK_DW0: 3 [31:0];
    MASK_DW1: 4 [31:0];
    /// Address in the first entry.
    INIT_DW0: 5 [31:0];
    INIT_DW1: 6 [31:0];
    /// Added from one entry to the next.
    INCR_DW0: 7 [31:0];
    INCR_DW1: 8 [31:0];
    /// Entries - 1.
    COUNT: 9 [18:0];
}

packet! {
    /// TIMESTAMP set: the engine's local counter.
    timestamp_set = "TIMESTAMP_SET", TIMESTAMP, sub_op::TIMESTAMP_SET, 3 dwords;
    INIT_DATA_LO: 1 [31:0];
    INIT_DATA_HI: 2 [31:0];
}

packet! {
    /// TIMESTAMP get: the local counter to memory.
    timestamp_get = "TIMESTAMP_GET", TIMESTAMP, sub_op::TIMESTAMP_GET, 3 dwords;
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    /// Address bits 31:3.
    WRITE_ADDR_LO: 1 [31:3];
    WRITE_ADDR_HI: 2 [31:0];
}

packet! {
    /// TIMESTAMP get global: the GPU's reference clock to memory.
    timestamp_get_global = "TIMESTAMP_GET_GLOBAL", TIMESTAMP, sub_op::TIMESTAMP_GET_GLOBAL, 3 dwords;
    L2_POLICY: 0 [25:24];
    LLC_POLICY: 0 [26:26];
    CPV: 0 [28:28];
    /// Address bits 31:3.
    WRITE_ADDR_LO: 1 [31:3];
    WRITE_ADDR_HI: 2 [31:0];
}

packet! {
    /// SRBM_WRITE: a register, all of it. On SDMA 7 the address counts bytes.
    register_write = "SRBM_WRITE", SRBM_WRITE, 0, 3 dwords;
    BYTE_EN: 0 [31:28];
    /// Byte address.
    ADDR: 1 [17:0];
    APERTUREID: 1 [31:20];
    DATA: 2 [31:0];
}

packet! {
    /// GPUVM_INV: invalidates translations.
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
    /// GCR_REQ: writes back and invalidates caches, all or a range of 128-byte lines.
    gcr_req = "GCR_REQ", GCR_REQ, 0, 5 dwords;
    /// Bits 31:7 of the first address.
    BASE_VA_31_7: 1 [31:7];
    BASE_VA_47_32: 2 [15:0];
    /// Low half of the [`gcr`](super::gcr) bits.
    GCR_CONTROL_15_0: 2 [31:16];
    GCR_CONTROL_18_16: 3 [2:0];
    LIMIT_VA_31_7: 3 [31:7];
    LIMIT_VA_47_32: 4 [15:0];
    VMID: 4 [27:24];
}

/// Every packet described here. The lengths of COPY linear differ in the broadcast and CPV bits.
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

/// What GCR_REQ does: `GCR_CONTROL`.
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
    /// All of them with their names.
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
    fn what_both_versions_have_is_at_the_same_place() {
        for p in PACKETS {
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
