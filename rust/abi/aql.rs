// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL: packets of user queues, and the structures in memory that the packet processor reads.
//!
//! Sources: HSA Platform System Architecture 1.2 (packets), HSA runtime headers `hsa.h`,
//! `hsa_ext_amd.h`, `amd_hsa_queue.h`, `amd_hsa_signal.h` (layouts), LLVM's AMDGPU usage guide
//! (kernel descriptor). Offsets and sizes count bytes, everything is little endian.

/// Bytes of one AQL packet.
pub const PACKET_SIZE: usize = 64;

/// The first 16 bits of every packet.
pub mod header {
    use crate::bits::Field;

    /// Packet type, one of `TYPE_*`.
    pub const TYPE: Field = Field::span(7, 0);
    /// Wait until every earlier packet of the queue has completed.
    pub const BARRIER: Field = Field::span(8, 8);
    /// Acquire fence scope, one of `SCOPE_*`.
    pub const ACQUIRE_FENCE_SCOPE: Field = Field::span(10, 9);
    /// Release fence scope, one of `SCOPE_*`.
    pub const RELEASE_FENCE_SCOPE: Field = Field::span(12, 11);
    /// Bits that must be zero.
    pub const RESERVED: u32 = 0xe000;

    /// Format is the vendor's: the byte at [`super::vendor::FORMAT`] says which.
    pub const TYPE_VENDOR_SPECIFIC: u32 = 0;
    /// Not yet written; the packet processor waits.
    pub const TYPE_INVALID: u32 = 1;
    /// Kernel dispatch.
    pub const TYPE_KERNEL_DISPATCH: u32 = 2;
    /// Barrier: all dependencies.
    pub const TYPE_BARRIER_AND: u32 = 3;
    /// Agent dispatch.
    pub const TYPE_AGENT_DISPATCH: u32 = 4;
    /// Barrier: any dependency.
    pub const TYPE_BARRIER_OR: u32 = 5;

    /// No fence.
    pub const SCOPE_NONE: u32 = 0;
    /// The agent's own memory view.
    pub const SCOPE_AGENT: u32 = 1;
    /// The whole system.
    pub const SCOPE_SYSTEM: u32 = 2;
}

/// Offset of the header in every packet (u16).
pub const HEADER: usize = 0;
/// Offset of the completion signal in every packet (u64, address of a [`signal`]).
pub const COMPLETION_SIGNAL: usize = 56;

/// Kernel dispatch packet.
pub mod kernel_dispatch {
    use crate::bits::Field;

    /// u16: setup word.
    pub const SETUP: usize = 2;
    /// u16: work-items per workgroup.
    pub const WORKGROUP_SIZE_X: usize = 4;
    /// u16.
    pub const WORKGROUP_SIZE_Y: usize = 6;
    /// u16.
    pub const WORKGROUP_SIZE_Z: usize = 8;
    /// u16: must be zero.
    pub const RESERVED0: usize = 10;
    /// u32: work-items of the whole grid.
    pub const GRID_SIZE_X: usize = 12;
    /// u32.
    pub const GRID_SIZE_Y: usize = 16;
    /// u32.
    pub const GRID_SIZE_Z: usize = 20;
    /// u32: bytes per work-item.
    pub const PRIVATE_SEGMENT_SIZE: usize = 24;
    /// u32: bytes per workgroup.
    pub const GROUP_SEGMENT_SIZE: usize = 28;
    /// u64: address of the kernel descriptor.
    pub const KERNEL_OBJECT: usize = 32;
    /// u64: address of the kernel's arguments.
    pub const KERNARG_ADDRESS: usize = 40;
    /// u64: must be zero.
    pub const RESERVED2: usize = 48;

    /// Setup: number of dimensions, 1 to 3.
    pub const SETUP_DIMENSIONS: Field = Field::span(1, 0);
    /// Setup: bits that must be zero.
    pub const SETUP_RESERVED: u32 = 0xfffc;
}

/// Agent dispatch packet.
pub mod agent_dispatch {
    /// u16: the function.
    pub const TYPE: usize = 2;
    /// u32: must be zero.
    pub const RESERVED0: usize = 4;
    /// u64: where the results go.
    pub const RETURN_ADDRESS: usize = 8;
    /// `u64[4]`.
    pub const ARG: usize = 16;
    /// u64: must be zero.
    pub const RESERVED2: usize = 48;
}

/// Barrier-AND and barrier-OR packets.
pub mod barrier {
    /// u16: must be zero.
    pub const RESERVED0: usize = 2;
    /// u32: must be zero.
    pub const RESERVED1: usize = 4;
    /// `u64[5]`: signals, 0 = none.
    pub const DEP_SIGNAL: usize = 8;
    /// Number of dependencies.
    pub const DEP_SIGNALS: usize = 5;
    /// u64: must be zero.
    pub const RESERVED2: usize = 48;
}

/// AMD's vendor-specific packets.
pub mod vendor {
    /// u8: one of `FORMAT_*`. (ROCr writes 16 bits for the PM4 format.)
    pub const FORMAT: usize = 2;
    /// A PM4 INDIRECT_BUFFER packet inside an AQL packet.
    pub const FORMAT_PM4_IB: u8 = 1;
    /// A barrier on the value of one signal.
    pub const FORMAT_BARRIER_VALUE: u8 = 2;
    /// PM4 form, `u32[4]`: the INDIRECT_BUFFER packet.
    pub const IB_JUMP_CMD: usize = 4;
    /// PM4 form, u32: dwords that remain to be skipped in this packet.
    pub const DW_CNT_REMAIN: usize = 20;
    /// What `DW_CNT_REMAIN` has to be.
    pub const DW_CNT_REMAIN_VALUE: u32 = 10;
    /// PM4 form, `u32[8]`: must be zero.
    pub const PM4_RESERVED: usize = 24;
    /// Barrier-value form, u64: the signal.
    pub const BARRIER_SIGNAL: usize = 8;
    /// Barrier-value form, i64: compared with.
    pub const BARRIER_VALUE: usize = 16;
    /// Barrier-value form, i64: mask of the signal's value.
    pub const BARRIER_MASK: usize = 24;
    /// Barrier-value form, u32: 0 equal, 1 not equal, 2 less, 3 greater or equal.
    pub const BARRIER_CONDITION: usize = 32;
}

/// `amd_queue_t`: the queue's descriptor in user memory.
///
/// `read_dispatch_id` and `write_dispatch_id` are what CREATE_QUEUE gets as read and write
/// pointer; the packet processor finds the structure through
/// [`READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET`](queue::READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET).
pub mod queue {
    use crate::bits::Field;

    /// Bytes of the structure.
    pub const SIZE: usize = 256;
    /// Its alignment.
    pub const ALIGN: usize = 64;
    /// u32: `hsa_queue_t` type.
    pub const TYPE: usize = 0;
    /// u32: `hsa_queue_t` features.
    pub const FEATURES: usize = 4;
    /// u64: the ring.
    pub const BASE_ADDRESS: usize = 8;
    /// u64: the doorbell signal.
    pub const DOORBELL_SIGNAL: usize = 16;
    /// u32: packets in the ring.
    pub const RING_SIZE: usize = 24;
    /// u64: the queue's id.
    pub const ID: usize = 32;
    /// u32: capabilities, `CAPS_*`.
    pub const CAPS: usize = 40;
    /// u64: next packet index to be written.
    pub const WRITE_DISPATCH_ID: usize = 56;
    /// u32: high half of the LDS aperture.
    pub const GROUP_SEGMENT_APERTURE_BASE_HI: usize = 64;
    /// u32: high half of the scratch aperture.
    pub const PRIVATE_SEGMENT_APERTURE_BASE_HI: usize = 68;
    /// u32.
    pub const MAX_CU_ID: usize = 72;
    /// u32.
    pub const MAX_WAVE_ID: usize = 76;
    /// u64.
    pub const MAX_LEGACY_DOORBELL_DISPATCH_ID_PLUS_1: usize = 80;
    /// u32.
    pub const LEGACY_DOORBELL_LOCK: usize = 88;
    /// u64: packet index up to which packets were consumed.
    pub const READ_DISPATCH_ID: usize = 128;
    /// u32: offset of `READ_DISPATCH_ID` from the structure's start.
    pub const READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET: usize = 136;
    /// u32: register COMPUTE_TMPRING_SIZE.
    pub const COMPUTE_TMPRING_SIZE: usize = 140;
    /// `u32[4]`: buffer descriptor of the scratch memory.
    pub const SCRATCH_RESOURCE_DESCRIPTOR: usize = 144;
    /// u64: scratch memory.
    pub const SCRATCH_BACKING_MEMORY_LOCATION: usize = 160;
    /// u64: its size.
    pub const SCRATCH_BACKING_MEMORY_BYTE_SIZE: usize = 168;
    /// u32: scratch bytes per lane of a wave of 64.
    pub const SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 176;
    /// u32: `PROPERTIES_*`.
    pub const QUEUE_PROPERTIES: usize = 180;
    /// u64: with asynchronous reclaim.
    pub const SCRATCH_LAST_USED_INDEX: usize = 184;
    /// u64: signal raised when the queue stops.
    pub const QUEUE_INACTIVE_SIGNAL: usize = 192;
    /// u64: with asynchronous reclaim.
    pub const ALT_SCRATCH_LAST_USED_INDEX: usize = 208;
    /// u64: with asynchronous reclaim.
    pub const ALT_SCRATCH_BACKING_MEMORY_LOCATION: usize = 216;
    /// u64: with asynchronous reclaim.
    pub const ALT_SCRATCH_BACKING_MEMORY_BYTE_SIZE: usize = 224;
    /// u32: with asynchronous reclaim.
    pub const ALT_SCRATCH_DISPATCH_LIMIT_X: usize = 232;
    /// u32: with asynchronous reclaim.
    pub const ALT_SCRATCH_DISPATCH_LIMIT_Y: usize = 236;
    /// u32: with asynchronous reclaim.
    pub const ALT_SCRATCH_DISPATCH_LIMIT_Z: usize = 240;
    /// u32: with asynchronous reclaim.
    pub const ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 244;
    /// u32: with asynchronous reclaim.
    pub const ALT_COMPUTE_TMPRING_SIZE: usize = 248;

    /// `amd_queue_v2_t`, which a runtime has that sets [`CAPS_SW_ASYNC_RECLAIM`]: other words in the reserved
    /// places of the first 256 bytes, and more behind them (`amd_hsa_queue.h` of ROCr 6.4).
    pub mod v2 {
        /// u64: the last packet index that may use the scratch memory.
        pub const SCRATCH_MAX_USE_INDEX: usize = 184;
        /// u64: the same of the alternate scratch memory.
        pub const ALT_SCRATCH_MAX_USE_INDEX: usize = 200;
        /// `u32[4]`: buffer descriptor of the alternate scratch memory.
        pub const ALT_SCRATCH_RESOURCE_DESCRIPTOR: usize = 208;
        /// u64: the alternate scratch memory.
        pub const ALT_SCRATCH_BACKING_MEMORY_LOCATION: usize = 224;
        /// `u32[3]`: the largest grid that may use it.
        pub const ALT_SCRATCH_DISPATCH_LIMIT: usize = 232;
        /// u32: its bytes per lane of a wave of 64.
        pub const ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 244;
        /// u32: its COMPUTE_TMPRING_SIZE.
        pub const ALT_COMPUTE_TMPRING_SIZE: usize = 248;
        /// Of each XCC two u64: the last packet index that used the scratch memory, and the alternate one.
        pub const SCRATCH_LAST_USED_INDEX: usize = 256;
    }

    /// Capability set by the packet processor: asynchronous scratch reclaim.
    pub const CAPS_CP_ASYNC_RECLAIM: Field = Field::span(0, 0);
    /// Capability set by the runtime: asynchronous scratch reclaim.
    pub const CAPS_SW_ASYNC_RECLAIM: Field = Field::span(1, 1);
    /// Property: a trap handler is set up.
    pub const PROPERTIES_ENABLE_TRAP_HANDLER: Field = Field::span(0, 0);
    /// Property: pointers are 64 bits.
    pub const PROPERTIES_IS_PTR64: Field = Field::span(1, 1);
    /// Property: debugger SGPRs.
    pub const PROPERTIES_ENABLE_TRAP_HANDLER_DEBUG_SGPRS: Field = Field::span(2, 2);
    /// Property: write time stamps into completion signals.
    pub const PROPERTIES_ENABLE_PROFILING: Field = Field::span(3, 3);
    /// Property: scratch is for one dispatch only.
    pub const PROPERTIES_USE_SCRATCH_ONCE: Field = Field::span(4, 4);
}

/// `amd_signal_t`: a signal in memory.
pub mod signal {
    /// Bytes of the structure, and its alignment.
    pub const SIZE: usize = 64;
    /// i64: one of `KIND_*`.
    pub const KIND: usize = 0;
    /// i64: the value; for a doorbell kind the address of the doorbell.
    pub const VALUE: usize = 8;
    /// u64: address of the event slot, 0 = none.
    pub const EVENT_MAILBOX_PTR: usize = 16;
    /// u32: the event.
    pub const EVENT_ID: usize = 24;
    /// u64: GPU clock when the dispatch started.
    pub const START_TS: usize = 32;
    /// u64: GPU clock when it ended.
    pub const END_TS: usize = 40;
    /// u64: the queue, for doorbell kinds.
    pub const QUEUE_PTR: usize = 48;
    /// Not a signal.
    pub const KIND_INVALID: i64 = 0;
    /// A value that anybody may change.
    pub const KIND_USER: i64 = 1;
    /// A queue's doorbell.
    pub const KIND_DOORBELL: i64 = -1;
    /// A queue's doorbell before gfx8.
    pub const KIND_LEGACY_DOORBELL: i64 = -2;
}

/// Kernel descriptor (amdhsa), 64 bytes, 64-byte aligned.
pub mod kernel_descriptor {
    use crate::bits::Field;

    /// Bytes of the descriptor, and its alignment.
    pub const SIZE: usize = 64;
    /// u32: bytes of LDS the kernel needs.
    pub const GROUP_SEGMENT_FIXED_SIZE: usize = 0;
    /// u32: bytes of scratch a work-item needs.
    pub const PRIVATE_SEGMENT_FIXED_SIZE: usize = 4;
    /// u32: bytes of arguments.
    pub const KERNARG_SIZE: usize = 8;
    /// i64: offset of the first instruction from the descriptor, a multiple of 256.
    pub const KERNEL_CODE_ENTRY_BYTE_OFFSET: usize = 16;
    /// u32: register COMPUTE_PGM_RSRC3.
    pub const COMPUTE_PGM_RSRC3: usize = 44;
    /// u32: register COMPUTE_PGM_RSRC1.
    pub const COMPUTE_PGM_RSRC1: usize = 48;
    /// u32: register COMPUTE_PGM_RSRC2.
    pub const COMPUTE_PGM_RSRC2: usize = 52;
    /// u16: `ENABLE_SGPR_*` and others.
    pub const KERNEL_CODE_PROPERTIES: usize = 56;
    /// u16: user SGPRs preloaded from the arguments (gfx940).
    pub const KERNARG_PRELOAD: usize = 58;
    /// Byte ranges `start..end` that must be zero.
    pub const RESERVED: [(usize, usize); 3] = [(12, 16), (24, 44), (60, 64)];

    /// Properties: 4 SGPRs, buffer descriptor of scratch.
    pub const ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER: Field = Field::span(0, 0);
    /// Properties: 2 SGPRs, address of the dispatch packet.
    pub const ENABLE_SGPR_DISPATCH_PTR: Field = Field::span(1, 1);
    /// Properties: 2 SGPRs, address of the `amd_queue_t`.
    pub const ENABLE_SGPR_QUEUE_PTR: Field = Field::span(2, 2);
    /// Properties: 2 SGPRs, address of the arguments.
    pub const ENABLE_SGPR_KERNARG_SEGMENT_PTR: Field = Field::span(3, 3);
    /// Properties: 2 SGPRs, the dispatch's id.
    pub const ENABLE_SGPR_DISPATCH_ID: Field = Field::span(4, 4);
    /// Properties: 2 SGPRs, flat scratch.
    pub const ENABLE_SGPR_FLAT_SCRATCH_INIT: Field = Field::span(5, 5);
    /// Properties: 1 SGPR, scratch bytes per work-item.
    pub const ENABLE_SGPR_PRIVATE_SEGMENT_SIZE: Field = Field::span(6, 6);
    /// Properties: waves of 32 (gfx10 and later; must be 0 on gfx9).
    pub const ENABLE_WAVEFRONT_SIZE32: Field = Field::span(10, 10);
    /// Properties: scratch use is not known in advance.
    pub const USES_DYNAMIC_STACK: Field = Field::span(11, 11);
    /// Properties: bits that must be zero.
    pub const PROPERTIES_RESERVED: u32 = 0xf380;
    /// Preload: dwords.
    pub const KERNARG_PRELOAD_LENGTH: Field = Field::span(6, 0);
    /// Preload: first dword.
    pub const KERNARG_PRELOAD_OFFSET: Field = Field::span(15, 7);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bits_complete_the_words() {
        use header::*;
        let all = TYPE.mask | BARRIER.mask | ACQUIRE_FENCE_SCOPE.mask | RELEASE_FENCE_SCOPE.mask;
        assert_eq!(all ^ RESERVED, 0xffff);
        use kernel_dispatch::*;
        assert_eq!(SETUP_DIMENSIONS.mask ^ SETUP_RESERVED, 0xffff);
        use kernel_descriptor as kd;
        let properties = [
            kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER,
            kd::ENABLE_SGPR_DISPATCH_PTR,
            kd::ENABLE_SGPR_QUEUE_PTR,
            kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR,
            kd::ENABLE_SGPR_DISPATCH_ID,
            kd::ENABLE_SGPR_FLAT_SCRATCH_INIT,
            kd::ENABLE_SGPR_PRIVATE_SEGMENT_SIZE,
            kd::ENABLE_WAVEFRONT_SIZE32,
            kd::USES_DYNAMIC_STACK,
        ];
        let named = properties.iter().fold(0, |m, f| m | f.mask);
        assert_eq!(named ^ kd::PROPERTIES_RESERVED, 0xffff);
    }

    #[test]
    fn the_pointers_have_the_addresses_that_rocr_passes() {
        assert_eq!(queue::WRITE_DISPATCH_ID, 0x38);
        assert_eq!(queue::READ_DISPATCH_ID, 0x80);
        assert_eq!(queue::ALT_COMPUTE_TMPRING_SIZE + 8, queue::SIZE);
    }
}
