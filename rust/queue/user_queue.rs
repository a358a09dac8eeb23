// SPDX-License-Identifier: GPL-2.0

//! One user queue: its buffers, doorbell, SDMA queue slot and MQD.

use kernel::{kvec, prelude::*, sync::Arc};

use super::{
    buffers::{QueueBuffers, SharedMemory},
    cu_mask,
    exceptions::{ExceptionRegistration, ExceptionTable, Exceptions},
    request::{QueueEngine, QueueKind, QueueRequest, QueueResources, QueueUpdate},
};
use crate::{
    doorbell::{Doorbell, Slice},
    dqm::{DqmProcess, DqmQueue, SdmaQueueSlot},
    hw::{QueueSpec, SaveState},
    mmu::Vm,
    node::Node,
    trace::Steps,
};

/// The process and node that a queue is created for.
pub(crate) struct QueueTarget {
    /// The node.
    pub(crate) node: Arc<Node>,
    /// Address space of the process on the GPU.
    pub(crate) vm: Arc<Vm>,
    /// Doorbells of the process on the GPU.
    pub(crate) doorbells: Arc<Slice>,
    /// The process in the device queue manager (qpd).
    pub(crate) slot: Arc<DqmProcess>,
    /// Exceptions of the process on the GPU.
    pub(crate) exceptions: Arc<ExceptionTable>,
    /// Shared virtual memory of the process.
    pub(crate) shared: SharedMemory,
}

/// Words that the driver writes to a context save area.
pub(crate) struct SavedWords {
    /// User address.
    pub(crate) at: u64,
    /// The words.
    pub(crate) words: KVec<u32>,
}

/// Use of a context save area.
#[derive(Default)]
pub(crate) struct WaveState {
    /// A header per XCC, and the control stack if the hardware has it elsewhere.
    pub(crate) words: KVec<SavedWords>,
    /// Bytes of the control stack of the first XCC.
    pub(crate) stack_used: u32,
    /// Bytes of its wave state.
    pub(crate) state_used: u32,
}

/// A user queue.
pub(crate) struct Queue {
    // Field order: the MQD first, then SDMA queue slot and doorbell, then the buffers.
    hw: Arc<DqmQueue>,
    exceptions: ExceptionRegistration,
    sdma: Option<SdmaQueueSlot>,
    doorbell: Doorbell,
    buffers: QueueBuffers,
    target: QueueTarget,
    metadata_size: u32,
    /// DESTROY_QUEUE waits, or has waited, until it is resumed.
    destroying: bool,
}

impl Queue {
    /// Acquires all resources of a queue and builds its MQD. [`Self::start`] adds it to the device
    /// queue manager.
    ///
    /// `ENOMEM` without a free SDMA queue slot, `EBUSY` without a free doorbell, `EPERM` if the
    /// GPU has too many queues.
    pub(super) fn new(
        id: u32,
        target: QueueTarget,
        mut buffers: QueueBuffers,
        request: &QueueRequest,
        steps: &mut Steps,
    ) -> Result<KBox<Self>> {
        let dqm = target.node.dqm();
        let mut wptr_kernel = 0;
        if dqm.reads_wptr() {
            wptr_kernel = buffers.map_wptr_to_kernel(request.wptr_va)?;
            steps.mark(id, c"wptr");
        }
        let sdma = match request.engine {
            QueueEngine::Compute => None,
            QueueEngine::Sdma(wanted) => Some(dqm.take_sdma(wanted)?),
        };
        let sdma_id = sdma.as_ref().map(SdmaQueueSlot::place);
        if sdma_id.is_some() {
            steps.mark(id, c"engine");
        }
        let doorbell = match sdma_id {
            None => target.doorbells.alloc_cp()?,
            Some(place) => target.doorbells.of_sdma(target.node.sdma().of_card(place)),
        };
        steps.mark(id, c"doorbell");

        let spec = request.spec(&QueueResources {
            sdma: sdma_id,
            wptr_kernel,
            doorbell: doorbell.index(),
            tba: target.slot.trap_handler(),
        });
        let hw = dqm.new_queue(&target.slot, &target.vm, id, spec, None)?;
        steps.mark(id, c"mqd");
        let queue = KBox::new_uninit(GFP_KERNEL)?;
        Ok(queue.write(Self {
            hw,
            exceptions: target.exceptions.register(doorbell.id()),
            sdma,
            doorbell,
            buffers,
            target,
            metadata_size: request.metadata_size,
            destroying: false,
        }))
    }

    /// Adds the queue to the device queue manager, which maps it if it is runnable. Nothing has
    /// changed after an error.
    pub(super) fn start(&self) -> Result {
        self.target.node.dqm().add(&self.hw)
    }

    /// Unmaps the queue and removes it from the device queue manager.
    ///
    /// The queue is removed in any case; an error means that the hardware did not confirm it.
    pub(super) fn stop(&self) -> Result {
        self.target.node.dqm().remove(&self.hw)
    }

    /// Returns the node.
    pub(crate) fn node(&self) -> &Node {
        &self.target.node
    }

    /// Returns the description that the MQD was last written from.
    pub(crate) fn spec(&self) -> QueueSpec {
        self.hw.spec()
    }

    /// Returns the number of the doorbell within the slice of the process, as in IH entries.
    pub(crate) fn doorbell_id(&self) -> u32 {
        self.doorbell.id()
    }

    /// Returns the byte offset of the doorbell within the slice of the process.
    pub(super) fn doorbell_offset(&self) -> usize {
        self.doorbell.offset_in_slice()
    }

    /// Returns the type of the queue.
    pub(crate) fn kind(&self) -> QueueKind {
        match &self.sdma {
            None => QueueKind::Compute,
            Some(slot) if slot.is_xgmi() => QueueKind::SdmaXgmi,
            Some(_) => QueueKind::Sdma,
        }
    }

    /// Returns the exceptions of the queue.
    pub(crate) fn exceptions(&self) -> &ExceptionRegistration {
        &self.exceptions
    }

    /// Returns whether DESTROY_QUEUE waits for the queue, or has waited and is about to destroy it.
    pub(crate) fn is_destroying(&self) -> bool {
        self.destroying
    }

    /// Sets what [`Self::is_destroying`] returns.
    pub(crate) fn set_destroying(&mut self, destroying: bool) {
        self.destroying = destroying;
    }

    /// Returns whether a debugger may suspend the queue: the exception `EC_QUEUE_NEW` was cleared,
    /// and the queue is not being destroyed.
    pub(crate) fn may_be_suspended(&self) -> bool {
        self.hw.is_suspended()
            || !self.destroying && !self.exceptions.status().has(Exceptions::QUEUE_NEW)
    }

    /// Returns the queue in the device queue manager.
    pub(crate) fn hw(&self) -> &Arc<DqmQueue> {
        &self.hw
    }

    /// Changes ring, share, priority and target XCC. A share or ring size of 0 unmaps the queue
    /// until the next update.
    ///
    /// `EFAULT` if the new ring is not mapped, `EACCES` if a queue of the process was reset. The
    /// queue is unchanged after an error, unless the GPU is hung.
    pub(crate) fn update(&mut self, update: &QueueUpdate) -> Result {
        let new_ring = if update.ring_va != 0 && update.ring_size != 0 {
            let size = u64::from(update.ring_size) + u64::from(self.metadata_size);
            Some(QueueBuffers::pin_ring(
                &self.target.vm,
                update.ring_va,
                size,
            )?)
        } else {
            None
        };
        self.set_spec(update.apply(&self.spec()))?;
        if let Some(ring) = new_ring {
            // The hardware does not access the old ring any more.
            self.buffers.set_ring(ring);
        }
        Ok(())
    }

    /// Assigns or removes global wave sync. `EINVAL` for an SDMA queue.
    pub(super) fn set_gws(&self, gws: bool) -> Result {
        if self.kind() != QueueKind::Compute {
            return Err(EINVAL);
        }
        self.set_spec(QueueSpec { gws, ..self.spec() })
    }

    /// Returns the use of a context save area at `base`, with its header. `EINVAL` for an SDMA
    /// queue or if the queue is active, `ENOMEM` without memory.
    pub(crate) fn wave_state(&self, base: u64) -> Result<WaveState> {
        if self.kind() != QueueKind::Compute {
            return Err(EINVAL);
        }
        let all = self.target.node.dqm().saved_waves(&self.hw)?;
        let mut out = WaveState::default();
        let stride = u64::from(self.spec().cwsr_size);
        for (xcc, waves) in (0..).zip(all) {
            let SaveState {
                stack_size,
                stack_offset,
                state_offset,
            } = waves.state;
            let stack_used = stack_size.wrapping_sub(stack_offset);
            let state_used = state_offset.wrapping_sub(stack_size);
            let area = base.wrapping_add(stride * xcc);
            // `struct kfd_context_save_area_header`, `wave_state`.
            let header = SavedWords {
                at: area,
                words: kvec![stack_offset, stack_used, state_offset, state_used]?,
            };
            let stack = SavedWords {
                at: area.wrapping_add(stack_offset.into()),
                words: waves.stack,
            };
            out.words.push(header, GFP_KERNEL)?;
            out.words.push(stack, GFP_KERNEL)?;
            if xcc == 0 {
                (out.stack_used, out.state_used) = (stack_used, state_used);
            }
        }
        Ok(out)
    }

    fn set_spec(&self, spec: QueueSpec) -> Result {
        self.target.node.dqm().update(&self.hw, spec)
    }

    /// Restricts the queue to the compute units in `mask`, numbered as in SET_CU_MASK. `EINVAL`
    /// if the mask splits a WGP.
    pub(crate) fn set_cu_mask(&self, mask: &[u32]) -> Result {
        // The mask has no effect on an SDMA queue; the C driver accepts it, too.
        let masks = cu_mask::distribute(&self.target.node, mask)?;
        self.target.node.dqm().set_cu_mask(&self.hw, &masks)
    }
}
