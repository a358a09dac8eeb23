// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL: user queue packets and the in-memory structures that the packet processor reads.
//!
//! Sources: HSA Platform System Architecture 1.2 (packets), HSA runtime headers `hsa.h`,
//! `hsa_ext_amd.h`, `amd_hsa_queue.h`, `amd_hsa_signal.h` (layouts), LLVM's AMDGPU usage guide
//! (kernel descriptor). Offsets and sizes are in bytes; all values are little endian.

/// Size of an AQL packet, in bytes.
pub const PACKET_SIZE: usize = 64;

/// The first 16 bits of every packet.
pub mod header {
    use crate::bits::Field;

    /// Packet type, one of `TYPE_*`.
    pub const TYPE: Field = Field::span(7, 0);
    /// Barrier bit: the packet waits for all earlier packets of the queue to complete.
    pub const BARRIER: Field = Field::span(8, 8);
    /// Acquire fence scope, one of `SCOPE_*`.
    pub const ACQUIRE_FENCE_SCOPE: Field = Field::span(10, 9);
    /// Release fence scope, one of `SCOPE_*`.
    pub const RELEASE_FENCE_SCOPE: Field = Field::span(12, 11);
    /// Reserved bits, must be zero.
    pub const RESERVED: u32 = 0xe000;

    /// Vendor-specific; the format is the byte at [`super::vendor::FORMAT`].
    pub const TYPE_VENDOR_SPECIFIC: u32 = 0;
    /// Slot not yet written; the packet processor waits.
    pub const TYPE_INVALID: u32 = 1;
    /// Kernel dispatch.
    pub const TYPE_KERNEL_DISPATCH: u32 = 2;
    /// Barrier-AND: waits for all dependencies.
    pub const TYPE_BARRIER_AND: u32 = 3;
    /// Agent dispatch.
    pub const TYPE_AGENT_DISPATCH: u32 = 4;
    /// Barrier-OR: waits for any dependency.
    pub const TYPE_BARRIER_OR: u32 = 5;

    /// No fence.
    pub const SCOPE_NONE: u32 = 0;
    /// Agent scope.
    pub const SCOPE_AGENT: u32 = 1;
    /// System scope.
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
    /// u16: see [`WORKGROUP_SIZE_X`].
    pub const WORKGROUP_SIZE_Y: usize = 6;
    /// u16: see [`WORKGROUP_SIZE_X`].
    pub const WORKGROUP_SIZE_Z: usize = 8;
    /// u16: must be zero.
    pub const RESERVED0: usize = 10;
    /// u32: work-items of the grid, per dimension.
    pub const GRID_SIZE_X: usize = 12;
    /// u32: see [`GRID_SIZE_X`].
    pub const GRID_SIZE_Y: usize = 16;
    /// u32: see [`GRID_SIZE_X`].
    pub const GRID_SIZE_Z: usize = 20;
    /// u32: scratch bytes per work-item.
    pub const PRIVATE_SEGMENT_SIZE: usize = 24;
    /// u32: LDS bytes per workgroup.
    pub const GROUP_SEGMENT_SIZE: usize = 28;
    /// u64: address of the kernel descriptor.
    pub const KERNEL_OBJECT: usize = 32;
    /// u64: address of the kernarg segment.
    pub const KERNARG_ADDRESS: usize = 40;
    /// u64: must be zero.
    pub const RESERVED2: usize = 48;

    /// Setup: number of dimensions, 1 to 3.
    pub const SETUP_DIMENSIONS: Field = Field::span(1, 0);
    /// Setup: reserved bits, must be zero.
    pub const SETUP_RESERVED: u32 = 0xfffc;
}

/// Agent dispatch packet.
pub mod agent_dispatch {
    /// u16: function code.
    pub const TYPE: usize = 2;
    /// u32: must be zero.
    pub const RESERVED0: usize = 4;
    /// u64: address of the return location.
    pub const RETURN_ADDRESS: usize = 8;
    /// `u64[4]`: arguments.
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
    /// `u64[5]`: addresses of the dependency signals, 0 for none.
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
    /// PM4 format: an INDIRECT_BUFFER packet inside the AQL packet.
    pub const FORMAT_PM4_IB: u8 = 1;
    /// Barrier-value format: a barrier on the value of one signal.
    pub const FORMAT_BARRIER_VALUE: u8 = 2;
    /// PM4 format, `u32[4]`: the INDIRECT_BUFFER packet.
    pub const IB_JUMP_CMD: usize = 4;
    /// PM4 format, u32: dwords left to skip in this packet.
    pub const DW_CNT_REMAIN: usize = 20;
    /// Required value of `DW_CNT_REMAIN`.
    pub const DW_CNT_REMAIN_VALUE: u32 = 10;
    /// Barrier-value format, u64: address of the signal.
    pub const BARRIER_SIGNAL: usize = 8;
    /// Barrier-value format, i64: the value to compare with.
    pub const BARRIER_VALUE: usize = 16;
    /// Barrier-value format, i64: mask applied to the signal's value.
    pub const BARRIER_MASK: usize = 24;
    /// Barrier-value format, u32: 0 equal, 1 not equal, 2 less, 3 greater or equal.
    pub const BARRIER_CONDITION: usize = 32;
}

/// `amd_queue_t`: the queue descriptor in user memory.
///
/// CREATE_QUEUE takes the addresses of `read_dispatch_id` and `write_dispatch_id` as read and write
/// pointer. The packet processor locates the structure through
/// [`READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET`](queue::READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET).
pub mod queue {
    use crate::bits::Field;

    /// Size of the structure, in bytes.
    pub const SIZE: usize = 256;
    /// Alignment of the structure, in bytes.
    pub const ALIGN: usize = 64;
    /// u32: `hsa_queue_t` type.
    pub const TYPE: usize = 0;
    /// u32: `hsa_queue_t` features.
    pub const FEATURES: usize = 4;
    /// u64: base address of the ring buffer.
    pub const BASE_ADDRESS: usize = 8;
    /// u64: handle of the doorbell signal.
    pub const DOORBELL_SIGNAL: usize = 16;
    /// u32: size of the ring buffer, in packets.
    pub const RING_SIZE: usize = 24;
    /// u64: queue id.
    pub const ID: usize = 32;
    /// u32: capabilities, `CAPS_*`.
    pub const CAPS: usize = 40;
    /// u64: write index, in packets.
    pub const WRITE_DISPATCH_ID: usize = 56;
    /// u32: bits 63:32 of the LDS aperture.
    pub const GROUP_SEGMENT_APERTURE_BASE_HI: usize = 64;
    /// u32: bits 63:32 of the scratch aperture.
    pub const PRIVATE_SEGMENT_APERTURE_BASE_HI: usize = 68;
    /// u32: highest CU id.
    pub const MAX_CU_ID: usize = 72;
    /// u32: highest wave id.
    pub const MAX_WAVE_ID: usize = 76;
    /// u64: legacy doorbell state.
    pub const MAX_LEGACY_DOORBELL_DISPATCH_ID_PLUS_1: usize = 80;
    /// u32: lock of the legacy doorbell.
    pub const LEGACY_DOORBELL_LOCK: usize = 88;
    /// u64: read index, in packets.
    pub const READ_DISPATCH_ID: usize = 128;
    /// u32: offset of `READ_DISPATCH_ID` from the start of the structure.
    pub const READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET: usize = 136;
    /// u32: value of register COMPUTE_TMPRING_SIZE.
    pub const COMPUTE_TMPRING_SIZE: usize = 140;
    /// `u32[4]`: buffer descriptor of the scratch backing memory.
    pub const SCRATCH_RESOURCE_DESCRIPTOR: usize = 144;
    /// u64: address of the scratch backing memory.
    pub const SCRATCH_BACKING_MEMORY_LOCATION: usize = 160;
    /// u64: size of the scratch backing memory, in bytes.
    pub const SCRATCH_BACKING_MEMORY_BYTE_SIZE: usize = 168;
    /// u32: scratch bytes per lane of a wave64.
    pub const SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 176;
    /// u32: `PROPERTIES_*`.
    pub const QUEUE_PROPERTIES: usize = 180;
    /// u64: last packet index that used scratch (asynchronous reclaim).
    pub const SCRATCH_LAST_USED_INDEX: usize = 184;
    /// u64: handle of the signal raised when the queue becomes inactive.
    pub const QUEUE_INACTIVE_SIGNAL: usize = 192;
    /// u64: last packet index that used the alternate scratch (asynchronous reclaim).
    pub const ALT_SCRATCH_LAST_USED_INDEX: usize = 208;
    /// u64: address of the alternate scratch (asynchronous reclaim).
    pub const ALT_SCRATCH_BACKING_MEMORY_LOCATION: usize = 216;
    /// u64: size of the alternate scratch, in bytes (asynchronous reclaim).
    pub const ALT_SCRATCH_BACKING_MEMORY_BYTE_SIZE: usize = 224;
    /// u32: largest grid on the alternate scratch (asynchronous reclaim).
    pub const ALT_SCRATCH_DISPATCH_LIMIT_X: usize = 232;
    /// u32: see [`ALT_SCRATCH_DISPATCH_LIMIT_X`].
    pub const ALT_SCRATCH_DISPATCH_LIMIT_Y: usize = 236;
    /// u32: see [`ALT_SCRATCH_DISPATCH_LIMIT_X`].
    pub const ALT_SCRATCH_DISPATCH_LIMIT_Z: usize = 240;
    /// u32: alternate scratch bytes per lane of a wave64 (asynchronous reclaim).
    pub const ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 244;
    /// u32: COMPUTE_TMPRING_SIZE of the alternate scratch (asynchronous reclaim).
    pub const ALT_COMPUTE_TMPRING_SIZE: usize = 248;

    /// `amd_queue_v2_t`, used by a runtime that sets [`CAPS_SW_ASYNC_RECLAIM`]: redefines reserved
    /// words of the first 256 bytes and extends the structure (`amd_hsa_queue.h` of ROCr 6.4).
    pub mod v2 {
        /// u64: last packet index that may use scratch.
        pub const SCRATCH_MAX_USE_INDEX: usize = 184;
        /// u64: last packet index that may use the alternate scratch.
        pub const ALT_SCRATCH_MAX_USE_INDEX: usize = 200;
        /// `u32[4]`: buffer descriptor of the alternate scratch.
        pub const ALT_SCRATCH_RESOURCE_DESCRIPTOR: usize = 208;
        /// u64: address of the alternate scratch.
        pub const ALT_SCRATCH_BACKING_MEMORY_LOCATION: usize = 224;
        /// `u32[3]`: largest grid that may use the alternate scratch.
        pub const ALT_SCRATCH_DISPATCH_LIMIT: usize = 232;
        /// u32: alternate scratch bytes per lane of a wave64.
        pub const ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 244;
        /// u32: COMPUTE_TMPRING_SIZE of the alternate scratch.
        pub const ALT_COMPUTE_TMPRING_SIZE: usize = 248;
        /// Two u64 per XCC: last packet index that used scratch, and alternate scratch.
        pub const SCRATCH_LAST_USED_INDEX: usize = 256;
    }

    /// Capability set by the CP: asynchronous scratch reclaim.
    pub const CAPS_CP_ASYNC_RECLAIM: Field = Field::span(0, 0);
    /// Capability set by the runtime: asynchronous scratch reclaim.
    pub const CAPS_SW_ASYNC_RECLAIM: Field = Field::span(1, 1);
    /// Property: a trap handler is enabled.
    pub const PROPERTIES_ENABLE_TRAP_HANDLER: Field = Field::span(0, 0);
    /// Property: 64-bit pointers.
    pub const PROPERTIES_IS_PTR64: Field = Field::span(1, 1);
    /// Property: debugger SGPRs.
    pub const PROPERTIES_ENABLE_TRAP_HANDLER_DEBUG_SGPRS: Field = Field::span(2, 2);
    /// Property: write timestamps into completion signals.
    pub const PROPERTIES_ENABLE_PROFILING: Field = Field::span(3, 3);
    /// Property: scratch is used by one dispatch only.
    pub const PROPERTIES_USE_SCRATCH_ONCE: Field = Field::span(4, 4);
}

/// `amd_signal_t`: an HSA signal in memory.
pub mod signal {
    /// Size and alignment of the structure, in bytes.
    pub const SIZE: usize = 64;
    /// i64: one of `KIND_*`.
    pub const KIND: usize = 0;
    /// i64: the value; doorbell kinds: address of the doorbell.
    pub const VALUE: usize = 8;
    /// u64: address of the event mailbox, 0 for none.
    pub const EVENT_MAILBOX_PTR: usize = 16;
    /// u32: event id.
    pub const EVENT_ID: usize = 24;
    /// u64: GPU clock at the start of the dispatch.
    pub const START_TS: usize = 32;
    /// u64: GPU clock at the end of the dispatch.
    pub const END_TS: usize = 40;
    /// u64: address of the queue, for doorbell kinds.
    pub const QUEUE_PTR: usize = 48;
    /// Not a signal.
    pub const KIND_INVALID: i64 = 0;
    /// User signal.
    pub const KIND_USER: i64 = 1;
    /// Doorbell signal.
    pub const KIND_DOORBELL: i64 = -1;
    /// Doorbell signal before gfx8.
    pub const KIND_LEGACY_DOORBELL: i64 = -2;
}

/// Kernel descriptor (amdhsa), 64 bytes, 64-byte aligned.
pub mod kernel_descriptor {
    use crate::bits::Field;

    /// Size and alignment of the descriptor, in bytes.
    pub const SIZE: usize = 64;
    /// u32: static LDS size, in bytes.
    pub const GROUP_SEGMENT_FIXED_SIZE: usize = 0;
    /// u32: static scratch size per work-item, in bytes.
    pub const PRIVATE_SEGMENT_FIXED_SIZE: usize = 4;
    /// u32: size of the kernarg segment, in bytes.
    pub const KERNARG_SIZE: usize = 8;
    /// u32: value of register COMPUTE_PGM_RSRC3.
    pub const COMPUTE_PGM_RSRC3: usize = 44;
    /// u32: value of register COMPUTE_PGM_RSRC1.
    pub const COMPUTE_PGM_RSRC1: usize = 48;
    /// u32: value of register COMPUTE_PGM_RSRC2.
    pub const COMPUTE_PGM_RSRC2: usize = 52;
    /// u16: `ENABLE_SGPR_*` and other properties.
    pub const KERNEL_CODE_PROPERTIES: usize = 56;
    /// u16: user SGPRs preloaded from the kernarg segment (gfx940).
    pub const KERNARG_PRELOAD: usize = 58;
    /// Byte ranges `start..end` that must be zero.
    pub const RESERVED: [(usize, usize); 3] = [(12, 16), (24, 44), (60, 64)];

    /// Property: 4 user SGPRs, buffer descriptor of scratch.
    pub const ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER: Field = Field::span(0, 0);
    /// Property: 2 user SGPRs, address of the dispatch packet.
    pub const ENABLE_SGPR_DISPATCH_PTR: Field = Field::span(1, 1);
    /// Property: 2 user SGPRs, address of the `amd_queue_t`.
    pub const ENABLE_SGPR_QUEUE_PTR: Field = Field::span(2, 2);
    /// Property: 2 user SGPRs, address of the kernarg segment.
    pub const ENABLE_SGPR_KERNARG_SEGMENT_PTR: Field = Field::span(3, 3);
    /// Property: 2 user SGPRs, dispatch id.
    pub const ENABLE_SGPR_DISPATCH_ID: Field = Field::span(4, 4);
    /// Property: 2 user SGPRs, flat scratch init.
    pub const ENABLE_SGPR_FLAT_SCRATCH_INIT: Field = Field::span(5, 5);
    /// Property: 1 user SGPR, scratch bytes per work-item.
    pub const ENABLE_SGPR_PRIVATE_SEGMENT_SIZE: Field = Field::span(6, 6);
    /// Property: wave32 (gfx10 and later; must be 0 on gfx9).
    pub const ENABLE_WAVEFRONT_SIZE32: Field = Field::span(10, 10);
    /// Property: scratch size is not known at compile time.
    pub const USES_DYNAMIC_STACK: Field = Field::span(11, 11);
    /// Properties: reserved bits, must be zero.
    pub const PROPERTIES_RESERVED: u32 = 0xf380;
    /// Preload: number of dwords.
    pub const KERNARG_PRELOAD_LENGTH: Field = Field::span(6, 0);
    /// Preload: offset of the first dword.
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
    fn queue_pointer_offsets_match_rocr() {
        assert_eq!(queue::WRITE_DISPATCH_ID, 0x38);
        assert_eq!(queue::READ_DISPATCH_ID, 0x80);
        assert_eq!(queue::ALT_COMPUTE_TMPRING_SIZE + 8, queue::SIZE);
    }
}
