// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Errors of queue configurations and packets.

crate::errors! {
    /// An invalid ring configuration.
    pub enum ConfigError {
        /// The ring has no address.
        NoRing => "ring address is 0",
        /// Unsupported size of the ring.
        RingSize { log: u32 } => "ring of 2^{log} dwords",
        /// Byte swapping.
        Swap => "byte swapping is not modelled",
        /// AQL packets.
        Aql => "AQL packets are not modelled",
    }
}

crate::errors! {
    /// An error that stops the queue of a packet.
    #[derive(Copy)]
    pub(super) enum PacketError {
        /// Unknown opcode or sub-opcode.
        Unknown => "unknown packet",
        /// It extends beyond the end of the IB.
        Truncated => "packet exceeds its buffer",
        /// INDIRECT in an IB.
        NestedIb => "nested IB",
        /// IB_ENABLE is 0.
        IbDisabled => "IBs are not enabled",
        /// An IB of a user queue with the privilege bit.
        PrivilegedIb => "privileged IB in a user queue",
        /// Unsupported comparison.
        PollRegmemFunction => "POLL_REGMEM function",
        /// Unsupported cache policy.
        PollRegmemInvalidate => "POLL_REGMEM with cache invalidation",
        /// Unsupported operation.
        AtomicOperation => "ATOMIC operation",
        /// TMZ.
        CopyEncrypted => "COPY of encrypted memory",
        /// Byte swapping.
        CopySwap => "COPY with byte swapping",
        /// Descending addresses.
        CopyBackwards => "COPY backwards",
        /// DCC.
        CopyCompressed => "COPY of compressed memory",
        /// Unsupported size of an element.
        WindowElementSize => "COPY sub-window: element size",
        /// TMZ or byte swapping.
        WindowMode => "COPY sub-window: encrypted or swapped",
        /// Byte swapping.
        FillSwap => "CONST_FILL with byte swapping",
        /// Unsupported size of the pattern.
        FillSize => "CONST_FILL size",
        /// TMZ or byte swapping.
        WriteMode => "WRITE with encryption or byte swapping",
    }
}
