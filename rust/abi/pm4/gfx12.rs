// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PM4 packets whose layout on gfx12 differs from the one in [`super`]: cache actions go through
//! the GCR (graphics cache rinse) instead of the TC of gfx9.
//!
//! Source: `amdgpu/nvd.h`, shared by gfx10 to GC 12.0. Packets not listed here have the gfx9
//! layout.

use super::Packet;

packet! {
    /// RELEASE_MEM: end-of-pipe event with cache actions, a write and an interrupt (MEC form).
    release_mem = RELEASE_MEM, 8 dwords;
    EVENT_TYPE: 1 [5:0];
    /// See [`release_mem`](super::super::release_mem).
    EVENT_INDEX: 1 [11:8];
    /// Metadata cache: write back.
    GCR_GLM_WB: 1 [12:12];
    /// Metadata cache: invalidate.
    GCR_GLM_INV: 1 [13:13];
    /// Vector L0 cache: invalidate.
    GCR_GLV_INV: 1 [14:14];
    /// L1 cache of the shader array: invalidate.
    GCR_GL1_INV: 1 [15:15];
    GCR_GL2_US: 1 [16:16];
    /// 0: all.
    GCR_GL2_RANGE: 1 [18:17];
    GCR_GL2_DISCARD: 1 [19:19];
    /// L2 cache: invalidate.
    GCR_GL2_INV: 1 [20:20];
    /// L2 cache: write back.
    GCR_GL2_WB: 1 [21:21];
    /// 0 in parallel, 1 forward, 2 reverse.
    GCR_SEQ: 1 [23:22];
    CACHE_POLICY: 1 [26:25];
    /// Set for a trailing fence.
    EXECUTE: 1 [28:28];
    /// One of `DST_SEL_*` of the gfx9 packet; the fields that follow use its values, too.
    DST_SEL: 2 [17:16];
    INT_SEL: 2 [26:24];
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
        /// `DATA_SEL`: system clock counter.
        pub const DATA_SEL_SYSTEM_CLOCK_COUNTER: u32 = 4;
    }
}

packet! {
    /// ACQUIRE_MEM: cache actions over an address range, ahead of later packets.
    acquire_mem = ACQUIRE_MEM, 8 dwords;
    ENGINE_SEL: 1 [31:31];
    /// Unit 256 bytes.
    COHER_SIZE: 2 [31:0];
    /// The header names 8 bits; the C driver sets 24 (`gfx_v12_0_emit_mem_sync`).
    COHER_SIZE_HI: 3 [23:0];
    /// Unit 256 bytes.
    COHER_BASE_LO: 4 [31:0];
    COHER_BASE_HI: 5 [23:0];
    /// Unit 16 clocks.
    POLL_INTERVAL: 6 [15:0];
    /// Instruction cache: 0 nothing, 1 all, 2 the range, 3 first and last line of the range.
    GCR_CNTL_GLI_INV: 7 [1:0];
    /// 0 all, 2 the range, 3 first and last line of the range.
    GCR_CNTL_GL1_RANGE: 7 [3:2];
    GCR_CNTL_GLM_WB: 7 [4:4];
    GCR_CNTL_GLM_INV: 7 [5:5];
    /// Scalar cache: write back.
    GCR_CNTL_GLK_WB: 7 [6:6];
    /// Scalar cache: invalidate.
    GCR_CNTL_GLK_INV: 7 [7:7];
    GCR_CNTL_GLV_INV: 7 [8:8];
    GCR_CNTL_GL1_INV: 7 [9:9];
    GCR_CNTL_GL2_US: 7 [10:10];
    /// 0 all, 1 volatile, 2 the range, 3 first and last line of the range.
    GCR_CNTL_GL2_RANGE: 7 [12:11];
    GCR_CNTL_GL2_DISCARD: 7 [13:13];
    GCR_CNTL_GL2_INV: 7 [14:14];
    GCR_CNTL_GL2_WB: 7 [15:15];
    /// 0 in parallel, 1 forward, 2 reverse.
    GCR_CNTL_SEQ: 7 [17:16];
    GCR_RANGE_IS_PA: 7 [18:18];
    => values {
        /// Defined bits of dword 7 (`PACKET3_ACQUIRE_MEM__GCR_CNTL`).
        pub const GCR_CNTL_MASK: u32 = 0x7ffff;
    }
}

packet! {
    /// ATOMIC_MEM: an L2 atomic; the operation field is one bit wider than on gfx9.
    atomic_mem = ATOMIC_MEM, 9 dwords;
    ATOMIC: 1 [6:0];
    /// See [`atomic_mem`](super::super::atomic_mem).
    COMMAND: 1 [11:8];
    CACHE_POLICY: 1 [26:25];
    ADDR_LO: 2 [31:0];
    ADDR_HI: 3 [31:0];
    SRC_DATA_LO: 4 [31:0];
    SRC_DATA_HI: 5 [31:0];
    CMP_DATA_LO: 6 [31:0];
    CMP_DATA_HI: 7 [31:0];
    LOOP_INTERVAL: 8 [12:0];
}

/// PROTECTED_FENCE_SIGNAL: writes the position behind it to the fence of the queue, and raises an
/// interrupt with its doorbell. Not in the kernel's headers: IGT (`lib/amdgpu`) and Mesa
/// (`amdgpu_cs.c`) send it on user queues of the render node, `amdgpu_userq_fence.c` and
/// `gfx_v12_0_eop_irq` receive the result.
pub mod protected_fence_signal {
    /// The opcode.
    pub const OPCODE: u8 = 0xd0;
    /// Size in dwords, header included; the other dword has no meaning.
    pub const DWORDS: usize = 2;
}

/// `SRC_SEL` of COPY_DATA, in addition to those of gfx9: system clock counter.
pub const COPY_DATA_SRC_SEL_SYSTEM_CLOCK_COUNT: u32 = 10;

/// All packets described here.
pub const PACKETS: &[Packet] = &[release_mem::PACKET, acquire_mem::PACKET, atomic_mem::PACKET];
