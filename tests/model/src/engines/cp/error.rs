// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Errors of PM4 packets.

/// Exception codes of `uapi/linux/kfd_ioctl.h` (`enum kfd_dbg_trap_exception_code`).
pub mod ec {
    /// EC_QUEUE_PACKET_RESERVED.
    pub const PACKET_RESERVED: u32 = 19;
    /// EC_QUEUE_PACKET_UNSUPPORTED.
    pub const PACKET_UNSUPPORTED: u32 = 20;
}

crate::errors! {
    /// An error that stops the queue of a packet.
    #[derive(Copy)]
    pub enum PacketError {
        /// Type 0.
        Type0 => "type 0 packet",
        /// Type 1.
        Type1 => "type 1 packet",
        /// No such opcode.
        Opcode => "unknown opcode",
        /// The length does not match the opcode.
        Length => "wrong length",
        /// It extends beyond the end of the IB.
        Truncated => "packet exceeds its buffer",
        /// The maximum nesting depth of IBs is exceeded.
        IbNesting => "IBs are nested too deep",
        /// A user queue accesses a register other than its own.
        PrivilegedRegister => "privileged register",
        /// A user queue requests a privileged IB.
        PrivilegedIb => "privileged IB",
        /// A register outside of the range of its packet.
        RegisterRange => "register outside of the packet's range",
        /// Unsupported destination.
        WriteDataDestination => "WRITE_DATA destination",
        /// Unsupported source.
        CopyDataSource => "COPY_DATA source",
        /// Unsupported destination.
        CopyDataDestination => "COPY_DATA destination",
        /// Unsupported operation.
        WaitRegMemOperation => "WAIT_REG_MEM operation",
        /// Unsupported comparison.
        WaitRegMemFunction => "WAIT_REG_MEM function",
        /// An event with a write to memory.
        EventWriteMemory => "EVENT_WRITE to memory",
        /// Unsupported destination.
        ReleaseMemDestination => "RELEASE_MEM destination",
        /// Unsupported data selection.
        ReleaseMemData => "RELEASE_MEM data",
        /// Unsupported interrupt selection.
        ReleaseMemInterrupt => "RELEASE_MEM interrupt",
        /// PROTECTED_FENCE_SIGNAL in an IB: the fence has a position in the ring.
        FenceInIb => "PROTECTED_FENCE_SIGNAL in an IB",
        /// PROTECTED_FENCE_SIGNAL in a queue whose MQD has no fence, or without doorbell.
        NoFence => "PROTECTED_FENCE_SIGNAL in a queue without a fence",
        /// Unsupported source.
        DmaDataSource => "DMA_DATA source",
        /// Unsupported destination.
        DmaDataDestination => "DMA_DATA destination",
        /// Unsupported operation.
        AtomicMemOperation => "ATOMIC_MEM operation",
        /// A dispatch in a queue without compute state.
        Dispatch => "dispatch",
        /// Invalid `COMPUTE_*` registers; the strict log has the reason.
        DispatchState => "COMPUTE_* registers of a dispatch",
        /// A scheduler packet on a chip whose queues are scheduled by MES.
        NoHws => "scheduler packet on a chip without HWS",
        /// A scheduler packet in a user queue.
        NotScheduler => "scheduler packet in a queue other than KIQ or HIQ",
        /// A packet of the HIQ in the KIQ or vice versa.
        WrongScheduler => "scheduler packet in the wrong queue",
        /// Unknown engine.
        MapQueuesEngine => "MAP_QUEUES for an engine that does not exist",
        /// Unsupported destination.
        InvalidateTlbsDestination => "INVALIDATE_TLBS destination",
        /// PREEMPT_NO_UNMAP in the HIQ.
        PreemptNoUnmap => "PREEMPT_NO_UNMAP in a queue other than the KIQ",
        /// The valid bit or the size is 0.
        RunlistInvalid => "runlist is not valid",
        /// RUN_LIST without resources.
        NoResources => "runlist before SET_RESOURCES",
        /// Invalid packets in the runlist; the strict log has the reason.
        Runlist => "runlist",
    }
}

impl PacketError {
    /// Returns the exception code of the bad-opcode interrupt.
    pub fn code(self) -> u32 {
        match self {
            Self::Length
            | Self::Truncated
            | Self::RunlistInvalid
            | Self::NoResources
            | Self::Runlist => ec::PACKET_RESERVED,
            _ => ec::PACKET_UNSUPPORTED,
        }
    }
}
