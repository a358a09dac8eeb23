// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Errors of frames, and their codes in error words.

use rkfd_abi::mes::error_category;

use crate::engines::cp::slot::Slot;
use crate::engines::gmc::VmFault;

/// Codes in error words. The codes of AMD's firmware are not published.
pub mod code {
    /// Invalid value of a field, or undefined bits set.
    pub const FIELD: u8 = 1;
    /// The size in the header does not match the opcode.
    pub const SIZE: u8 = 2;
    /// Not allowed in this state, or on this pipe.
    pub const STATE: u8 = 3;
    /// Unknown queue, gang or process.
    pub const NOT_FOUND: u8 = 4;
    /// Already exists.
    pub const EXISTS: u8 = 5;
    /// Inaccessible address.
    pub const MEMORY: u8 = 6;
    /// The MQD does not match the frame.
    pub const MQD: u8 = 7;
    /// Timeout of the hardware.
    pub const TIMEOUT: u8 = 8;
    /// Not supported by the firmware.
    pub const UNSUPPORTED: u8 = 9;
    /// Fault injection.
    pub const INJECTED: u8 = 0xee;
}

crate::errors! {
    /// A frame that was not executed.
    #[derive(Copy)]
    pub enum FrameError {
        /// Wrong size in the header.
        Size { dwords: u32 } => "{dwords} dwords",
        /// Wrong type in the header.
        Type { kind: u32 } => "type {kind}",
        /// Undefined bits.
        UndefinedBits { dw: usize, bits: u32 } => "dword {dw} has undefined bits {bits:#x}",
        /// A field or option that is not supported.
        Unsupported { name: &'static str } => "{name}",
        /// An inaccessible address.
        Memory { what: &'static str, fault: VmFault } => "{what}: {fault}",
        /// The pipe has no resources yet.
        NotConfigured => "before SET_HW_RSRC",
        /// A frame of the scheduling pipe on the other one.
        WrongPipe => "on the wrong pipe",
        /// Fault injection.
        Injected => "fault injection",

        /// SET_HW_RSRC without register bases.
        NoRegisterBases => "register base addresses are 0",
        /// VMIDs for the pipe that does not schedule.
        VmidsOnOtherPipe => "the other pipe does not schedule and has no VMIDs",
        /// Invalid VMIDs.
        VmidMask { mask: u32 } => "VMID mask {mask:#x}",
        /// No such compute queue.
        ComputeQueue { pipe: usize, queue: u32 } => "compute pipe {pipe} has no queue {queue}",
        /// No such SDMA queue.
        SdmaQueue { engine: usize, queue: u8 } => "SDMA engine {engine} has no queue {queue}",
        /// An empty mask of compute queues.
        NoComputeQueues => "no compute queues",
        /// SET_HW_RSRC at run time.
        QueuesExist => "SET_HW_RSRC while queues exist",
        /// SET_HW_RSRC_1 without timeout.
        NoUnmapTimeout => "unmap timeout is 0",
        /// Invalid page-table root.
        Root { root: u64 } => "page-table root {root:#x} is not valid",
        /// A context without process.
        NoProcess => "no such process",
        /// Unknown operation of WAIT_REG_MEM.
        WaitOperation { op: u8 } => "operation {op}",
        /// WAIT_REG_MEM timed out.
        Register { reg: u32, value: u32 } => "register {reg:#x} is {value:#x}",
        /// Remote register access.
        Rrmt => "RRMT on a chip of one die",
        /// Unknown hub.
        Hub { hub: u32 } => "hub {hub}",
        /// Unknown flush type.
        FlushType => "flush type",
        /// Unknown selection, or an invalid VMID.
        InvalidationId { id: u32 } => "VMID or PASID {id:#x}",

        /// A user queue on the other pipe.
        UserQueuePipe => "user queue on the pipe that does not schedule",
        /// Unknown or different queue type.
        QueueType { kind: u8 } => "queue type {kind}",
        /// A quantum of 0.
        NoQuantum { name: &'static str } => "{name} is 0",
        /// Invalid priority.
        Priority { level: u32, inner: u32 } => "priority {level}, in its process {inner}",
        /// Misaligned or identical contexts.
        Contexts { process: u64, gang: u64 } => "contexts at {process:#x} and {gang:#x}",
        /// A second queue in a gang.
        GangExists { gang: u64, doorbell: u32 } =>
            "gang context {gang:#x} has doorbell {doorbell:#x}",
        /// A doorbell in use.
        DoorbellExists { doorbell: u32 } => "doorbell {doorbell:#x}",
        /// A doorbell that is not routed to the engine.
        DoorbellRoute { doorbell: u32, kind: u8 } => "doorbell {doorbell:#x} of queue type {kind}",
        /// An MQD in use.
        MqdExists { mqd: u64 } => "MQD {mqd:#x}",
        /// Misaligned write pointer.
        WptrAlignment { wptr: u64 } => "write pointer at {wptr:#x}",
        /// Invalid process id.
        Process { id: u32 } => "process {id:#x}",
        /// Invalid address range.
        VaRange { start: u64, end: u64 } => "pages {start:#x} to {end:#x}",
        /// Misaligned trap handler.
        TrapHandler { tba: u64, tma: u64 } => "trap handler {tba:#x}, memory {tma:#x}",
        /// A context that is not enabled.
        VmContextCntl { cntl: u32 } => "vm_context_cntl {cntl:#x}",
        /// A second context of a process.
        ContextDiffers { pasid: u16 } => "process {pasid:#x} has another context",
        /// The context of another process.
        ContextOwner { at: u64, pasid: u16 } => "context {at:#x} is that of process {pasid:#x}",
        /// The root of a mapped process changes.
        MappedRoot { root: u64, mapped: u64 } =>
            "page-table root {root:#x}, mapped with {mapped:#x}",

        /// The MQD names a slot that MES does not own.
        MqdSlot { mqd: u64, queue: u32, engine: u32 } =>
            "MQD {mqd:#x}: queue {queue} of engine {engine}",
        /// The MQD has another ring size.
        MqdRing { mqd: u64, ring: u32, size: u32 } =>
            "MQD {mqd:#x}: ring of {ring:#x} dwords, {size:#x} in the frame",
        /// The MQD has another packet format.
        MqdAql { mqd: u64, aql: bool } => "MQD {mqd:#x}: AQL {aql} differs from the frame",
        /// The MQD has another write pointer.
        MqdWptr { mqd: u64, poll: u64, wptr: u64 } =>
            "MQD {mqd:#x}: write pointer at {poll:#x} for the process, {wptr:#x} for the firmware",
        /// The MQD has another doorbell.
        MqdDoorbell { mqd: u64, doorbell: u32 } => "MQD {mqd:#x}: doorbell {doorbell:#x}",
        /// The MQD cannot be loaded; the strict log has the reason.
        Mqd { mqd: u64 } => "MQD {mqd:#x}",

        /// No slot for kernel queues.
        NoKernelSlot { kind: u32 } => "no kernel queue of type {kind} in that slot",
        /// A kernel queue on the other pipe.
        KernelQueuePipe => "kernel queue on the wrong pipe",
        /// A slot for user queues.
        SlotReserved { slot: Slot } => "{slot} is reserved for user queues",
        /// A slot in use.
        SlotTaken { slot: Slot } => "{slot} has a queue",
        /// An SDMA queue in use.
        SdmaSlotTaken { slot: Slot, doorbell: u32 } => "{slot} has doorbell {doorbell:#x}",
        /// Wrong doorbell of the scheduler's ring.
        KernelDoorbell { doorbell: u32 } => "doorbell {doorbell:#x}",
        /// No kernel queue to unmap.
        NoKernelQueue { doorbell: u32, slot: Slot } =>
            "no kernel queue with doorbell {doorbell:#x} in {slot}",

        /// No queue with that doorbell.
        NoQueue { doorbell: u32 } => "no queue has doorbell {doorbell:#x}",
        /// The queue of a doorbell differs from the frame.
        QueueMismatch { doorbell: u32, gang: u64, kind: u8 } =>
            "doorbell {doorbell:#x} has gang {gang:#x}, type {kind}",
        /// REMOVE_QUEUE_AFTER_RESET of a mapped queue.
        NotReset => "the queue was not reset",
        /// No gang with that context.
        NoGang { gang: u64 } => "no gang {gang:#x}",
        /// Contradictory flags of RESET.
        ResetModes => "more than one kind of reset",
        /// Unmapping a user queue timed out.
        Preemption { doorbell: u32 } => "queue of doorbell {doorbell:#x}: preemption timed out",
        /// Unmapping a kernel queue timed out.
        KernelPreemption { slot: Slot } => "{slot}: preemption timed out",
        /// Suspending timed out.
        Suspend { count: usize } => "preemption of {count} queues timed out",
        /// Resetting timed out.
        Reset => "reset of queues timed out",
    }
}

impl FrameError {
    /// Returns the code in the error word.
    pub fn code(&self) -> u8 {
        use FrameError as E;
        match self {
            E::Size { .. } => code::SIZE,
            E::NotConfigured
            | E::WrongPipe
            | E::QueuesExist
            | E::UserQueuePipe
            | E::KernelQueuePipe
            | E::NotReset => code::STATE,
            E::NoProcess | E::NoQueue { .. } | E::NoKernelQueue { .. } | E::NoGang { .. } => {
                code::NOT_FOUND
            }
            E::GangExists { .. }
            | E::DoorbellExists { .. }
            | E::MqdExists { .. }
            | E::SdmaSlotTaken { .. }
            | E::ContextDiffers { .. }
            | E::ContextOwner { .. }
            | E::SlotReserved { .. }
            | E::SlotTaken { .. } => code::EXISTS,
            E::Memory { .. } => code::MEMORY,
            E::Mqd { .. }
            | E::MqdSlot { .. }
            | E::MqdRing { .. }
            | E::MqdAql { .. }
            | E::MqdWptr { .. }
            | E::MqdDoorbell { .. } => code::MQD,
            E::Register { .. }
            | E::Preemption { .. }
            | E::KernelPreemption { .. }
            | E::Suspend { .. }
            | E::Reset => code::TIMEOUT,
            E::Unsupported { .. } => code::UNSUPPORTED,
            E::Injected => code::INJECTED,
            _ => code::FIELD,
        }
    }

    /// Returns the category in the error word: an error of the driver, or of the hardware.
    pub fn category(&self) -> u8 {
        match self.code() {
            code::TIMEOUT => error_category::SCHEDULING,
            code::INJECTED => error_category::UNKNOWN,
            _ => error_category::API,
        }
    }
}
