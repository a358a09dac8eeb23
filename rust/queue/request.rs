// SPDX-License-Identifier: GPL-2.0

//! Parameters of CREATE_QUEUE and UPDATE_QUEUE, and the [`QueueSpec`] built from them.

use crate::{
    dqm::SdmaEngineChoice,
    hw::{QueueFormat, QueueSpec, SdmaQueueId},
};

/// The engine type that a new queue is requested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueEngine {
    /// Compute, on the CP.
    Compute,
    /// SDMA, on an engine of the given kind or with the given number.
    Sdma(SdmaEngineChoice),
}

/// The type of an existing queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// Compute, PM4 or AQL.
    Compute,
    /// On a PCIe SDMA engine.
    Sdma,
    /// On an xGMI SDMA engine.
    SdmaXgmi,
}

/// Parameters of CREATE_QUEUE. Addresses are GPU virtual addresses, sizes are in bytes.
#[derive(Clone, Debug)]
pub(crate) struct QueueRequest {
    /// The engine type.
    pub(crate) engine: QueueEngine,
    /// Packet format of the ring of a compute queue.
    pub(crate) format: QueueFormat,
    /// The ring.
    pub(crate) ring_va: u64,
    /// Size of the ring, a power of two; 0 for an inactive queue.
    pub(crate) ring_size: u32,
    /// Size of the metadata behind the ring, 0 for none.
    pub(crate) metadata_size: u32,
    /// Address at which the engine reports its read pointer.
    pub(crate) rptr_va: u64,
    /// The write pointer.
    pub(crate) wptr_va: u64,
    /// The end-of-pipe buffer, 0 for none.
    pub(crate) eop_va: u64,
    /// Size of the end-of-pipe buffer.
    pub(crate) eop_size: u32,
    /// The context save area, 0 for none.
    pub(crate) cwsr_va: u64,
    /// Size of the context save area of one XCC.
    pub(crate) cwsr_size: u32,
    /// Size of the control stack in the context save area.
    pub(crate) ctl_stack_size: u32,
    /// Priority, 0 to 15.
    pub(crate) priority: u8,
    /// Share in percent; 0 for an inactive queue.
    pub(crate) percent: u8,
    /// XCC of the partition that runs PM4 packets without a predicate.
    pub(crate) pm4_target_xcc: u8,
}

/// Resources that the driver assigns to a new queue.
pub(super) struct QueueResources {
    /// Queue slot on an SDMA engine; `None` for a compute queue.
    pub(super) sdma: Option<SdmaQueueId>,
    /// Address of the write pointer in VMID 0; 0 if the scheduler does not read it.
    pub(super) wptr_kernel: u64,
    /// Index of the doorbell's 32-bit word in the BAR.
    pub(super) doorbell: u32,
    /// Address of the first-level trap handler, 0 for none.
    pub(super) tba: u64,
}

impl QueueRequest {
    /// Returns the bytes of ring and metadata together.
    pub(super) fn ring_and_metadata(&self) -> u64 {
        u64::from(self.ring_size) + u64::from(self.metadata_size)
    }

    /// Returns the description from which the MQD is built.
    pub(super) fn spec(&self, resources: &QueueResources) -> QueueSpec {
        QueueSpec {
            format: self.format,
            sdma: resources.sdma,
            ring_va: self.ring_va,
            ring_size: self.ring_size,
            rptr_va: self.rptr_va,
            wptr_va: self.wptr_va,
            wptr_kernel: resources.wptr_kernel,
            eop_va: self.eop_va,
            eop_size: self.eop_size,
            cwsr_va: self.cwsr_va,
            cwsr_size: self.cwsr_size,
            ctl_stack_size: self.ctl_stack_size,
            tba: resources.tba,
            priority: self.priority,
            percent: self.percent,
            doorbell: resources.doorbell,
            // Assigned by ALLOC_QUEUE_GWS later.
            gws: false,
            pm4_target_xcc: self.pm4_target_xcc,
            render: None,
        }
    }
}

/// Parameters of UPDATE_QUEUE, as in [`QueueRequest`].
pub(crate) struct QueueUpdate {
    /// The ring.
    pub(crate) ring_va: u64,
    /// Size of the ring in bytes.
    pub(crate) ring_size: u32,
    /// Share in percent.
    pub(crate) percent: u8,
    /// Priority, 0 to 15.
    pub(crate) priority: u8,
    /// XCC of the partition that runs PM4 packets without a predicate.
    pub(crate) pm4_target_xcc: u8,
}

impl QueueUpdate {
    /// Returns `spec` with the new values.
    pub(super) fn apply(&self, spec: &QueueSpec) -> QueueSpec {
        QueueSpec {
            ring_va: self.ring_va,
            ring_size: self.ring_size,
            percent: self.percent,
            priority: self.priority,
            pm4_target_xcc: self.pm4_target_xcc,
            ..*spec
        }
    }
}
