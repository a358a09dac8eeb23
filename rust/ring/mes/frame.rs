// SPDX-License-Identifier: GPL-2.0

//! The frames that the driver sends to MES, and how they are written down.

use rkfd_abi::mes::{self as abi, add_queue, remove_queue};

use crate::hw::{FlushType, MesResources, MES_PRIORITIES};

/// A frame's words.
pub(crate) type Words = [u32; abi::FRAME_DWORDS];

/// A frame. Header and completion fence are the ring's business.
pub(crate) trait Frame {
    /// What it looks like.
    const SHAPE: &'static abi::Frame;
    /// What it is called, for the trace.
    const NAME: &'static kernel::prelude::CStr;

    /// Writes its fields to `words`, which are zero.
    fn fill(&self, words: &mut Words);

    /// The doorbell of the queue that it is about, for the trace; 0 for none.
    fn doorbell(&self) -> u32 {
        0
    }
}

/// Who reads a queue's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueType {
    Compute,
    Sdma,
    /// A ring of MES.
    Scheduler,
}

impl QueueType {
    fn code(self) -> u32 {
        u32::from(match self {
            Self::Compute => abi::queue_type::COMPUTE,
            Self::Sdma => abi::queue_type::SDMA,
            Self::Scheduler => abi::queue_type::SCHQ,
        })
    }
}

/// What a pipe may hand out, and how it behaves.
pub(super) struct SetResources<'a> {
    /// `None` for the pipe that schedules nothing.
    pub(super) hands_out: Option<(&'a MesResources, [u32; MES_PRIORITIES])>,
    /// Where registers are.
    pub(super) bases: &'a MesResources,
    /// Memory for what the pipe keeps.
    pub(super) context: u64,
    /// Where the pipe answers questions about its state.
    pub(super) status_fence: u64,
    /// How often the scheduler looks for queues that wait for a slot without having rung.
    pub(super) oversubscription_timer: u32,
}

/// Doorbells of queues that are not on the hardware: MES looks which queue it was.
const UNMAPPED_DOORBELLS_BASIC_PLUS: u32 = 2;

impl Frame for SetResources<'_> {
    const SHAPE: &'static abi::Frame = &abi::set_hw_rsrc::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"SET_HW_RSRC";

    fn fill(&self, words: &mut Words) {
        use abi::set_hw_rsrc::*;
        if let Some((r, doorbells)) = &self.hands_out {
            VMID_MASK_MMHUB.set(words, r.vmid_mask_mmhub);
            VMID_MASK_GFXHUB.set(words, r.vmid_mask_gfxhub);
            for (array, values) in [
                (COMPUTE_HQD_MASK, &r.compute_hqd_mask[..]),
                (GFX_HQD_MASK, &r.gfx_hqd_mask[..]),
                (SDMA_HQD_MASK, &r.sdma_hqd_mask[..]),
                (AGGREGATED_DOORBELLS, &doorbells[..]),
            ] {
                for (n, value) in values.iter().enumerate() {
                    array.set(words, n, *value);
                }
            }
        }
        for (array, values) in [
            (GC_BASE, &self.bases.gc_base),
            (MMHUB_BASE, &self.bases.mmhub_base),
            (OSSSYS_BASE, &self.bases.osssys_base),
        ] {
            for (n, value) in values.iter().enumerate() {
                array.set(words, n, *value);
            }
        }
        G_SCH_CTX_GPU_MC_PTR.set(words, self.context);
        QUERY_STATUS_FENCE_GPU_MC_PTR.set(words, self.status_fence);
        DISABLE_RESET.set(words, 1);
        DISABLE_MES_LOG.set(words, 1);
        USE_DIFFERENT_VMID_COMPUTE.set(words, 1);
        ENABLE_REG_ACTIVE_POLL.set(words, 1);
        ENABLE_LEVEL_PROCESS_QUANTUM_CHECK.set(words, 1);
        UNMAPPED_DOORBELL_HANDLING.set(words, UNMAPPED_DOORBELLS_BASIC_PLUS);
        OVERSUBSCRIPTION_TIMER.set(words, self.oversubscription_timer);
    }
}

/// What came to that later.
pub(super) struct SetResources1 {
    /// Where the end of a program that cleans the compute units is announced.
    pub(super) cleaner_fence: u64,
}

/// How long a kernel queue may take to leave its slot, in units of 100 ms.
const KERNEL_UNMAP_TIMEOUT: u32 = 10;

impl Frame for SetResources1 {
    const SHAPE: &'static abi::Frame = &abi::set_hw_rsrc_1::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"SET_HW_RSRC_1";

    fn fill(&self, words: &mut Words) {
        use abi::set_hw_rsrc_1::*;
        MES_KIQ_UNMAP_TIMEOUT.set(words, KERNEL_UNMAP_TIMEOUT);
        CLEANER_SHADER_FENCE_MC_ADDR.set(words, self.cleaner_fence);
    }
}

/// A queue of a process that is to be scheduled.
pub(crate) struct AddQueue {
    pub(crate) queue_type: QueueType,
    /// The process.
    pub(crate) pasid: u32,
    /// Root of its page tables with flags.
    pub(crate) root: u64,
    /// The last page of its address space.
    pub(crate) last_page: u64,
    /// Context control word of its address space.
    pub(crate) vm_context_control: u32,
    /// Its first trap handler, 0 for none, and the memory of that.
    pub(crate) tba: u64,
    pub(crate) tma: u64,
    /// What MES has kept of the process before stays: a debugger has set it.
    pub(crate) keep_context: bool,
    /// Where MES keeps what it knows of the process.
    pub(crate) process_context: u64,
    /// Where MES keeps what it knows of the queue.
    pub(crate) gang_context: u64,
    /// Among queues of the process; one of `rkfd_abi::mes::priority`.
    pub(crate) priority: u8,
    /// Index of a 32-bit word in the doorbell BAR.
    pub(crate) doorbell: u32,
    pub(crate) mqd: u64,
    /// The write pointer in the kernel's address space.
    pub(crate) wptr: u64,
    /// Words of the ring.
    pub(crate) ring_dwords: u32,
    pub(crate) aql: bool,
}

/// How long a process keeps the hardware when there are too many: 10 ms in units of 100 ns.
const PROCESS_QUANTUM: u64 = 100_000;
/// The same for a queue of the process: 1 ms.
const GANG_QUANTUM: u64 = 10_000;

impl Frame for AddQueue {
    const SHAPE: &'static abi::Frame = &add_queue::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"ADD_QUEUE";

    fn fill(&self, words: &mut Words) {
        use add_queue::*;
        PROCESS_ID.set(words, self.pasid);
        PAGE_TABLE_BASE_ADDR.set(words, self.root);
        PROCESS_VA_START.set(words, 0);
        PROCESS_VA_END.set(words, self.last_page);
        PROCESS_QUANTUM.set(words, self::PROCESS_QUANTUM);
        PROCESS_CONTEXT_ADDR.set(words, self.process_context);
        GANG_QUANTUM.set(words, self::GANG_QUANTUM);
        GANG_CONTEXT_ADDR.set(words, self.gang_context);
        INPROCESS_GANG_PRIORITY.set(words, self.priority.into());
        GANG_GLOBAL_PRIORITY_LEVEL.set(words, abi::priority::NORMAL.into());
        DOORBELL_OFFSET.set(words, self.doorbell);
        MQD_ADDR.set(words, self.mqd);
        WPTR_ADDR.set(words, self.wptr);
        QUEUE_TYPE.set(words, self.queue_type.code());
        GDS_SIZE.set(words, self.ring_dwords);
        TRAP_HANDLER_ADDR.set(words, self.tba);
        TMA_ADDR.set(words, self.tma);
        VM_CONTEXT_CNTL.set(words, self.vm_context_control);
        IS_KFD_PROCESS.set(words, 1);
        TRAP_EN.set(words, 1);
        IS_AQL_QUEUE.set(words, self.aql.into());
        SKIP_PROCESS_CTX_CLEAR.set(words, self.keep_context.into());
    }

    fn doorbell(&self) -> u32 {
        self.doorbell
    }
}

/// A queue of a process that is no longer scheduled.
pub(crate) struct RemoveQueue {
    pub(crate) queue_type: QueueType,
    pub(crate) doorbell: u32,
    pub(crate) gang_context: u64,
    /// It was reset: MES only has to forget it.
    pub(crate) after_reset: bool,
}

impl Frame for RemoveQueue {
    const SHAPE: &'static abi::Frame = &remove_queue::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"REMOVE_QUEUE";

    fn fill(&self, words: &mut Words) {
        use remove_queue::*;
        DOORBELL_OFFSET.set(words, self.doorbell);
        GANG_CONTEXT_ADDR.set(words, self.gang_context);
        QUEUE_TYPE.set(words, self.queue_type.code());
        REMOVE_QUEUE_AFTER_RESET.set(words, self.after_reset.into());
    }

    fn doorbell(&self) -> u32 {
        self.doorbell
    }
}

/// A queue of a process that does not let itself be removed is thrown out.
pub(crate) struct ResetQueue {
    pub(crate) queue_type: QueueType,
    pub(crate) doorbell: u32,
}

impl Frame for ResetQueue {
    const SHAPE: &'static abi::Frame = &abi::reset::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"RESET";

    fn fill(&self, words: &mut Words) {
        use abi::reset::*;
        RESET_QUEUE_ONLY.set(words, 1);
        QUEUE_TYPE.set(words, self.queue_type.code());
        DOORBELL_OFFSET.set(words, self.doorbell);
    }

    fn doorbell(&self) -> u32 {
        self.doorbell
    }
}

/// A ring of MES goes to its pipe.
pub(super) struct MapRing {
    pub(super) pipe: u32,
    pub(super) doorbell: u32,
    pub(super) mqd: u64,
    pub(super) wptr: u64,
}

impl Frame for MapRing {
    const SHAPE: &'static abi::Frame = &add_queue::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"ADD_QUEUE (ring)";

    fn fill(&self, words: &mut Words) {
        use add_queue::*;
        PIPE_ID.set(words, self.pipe);
        QUEUE_ID.set(words, 0);
        DOORBELL_OFFSET.set(words, self.doorbell);
        MQD_ADDR.set(words, self.mqd);
        WPTR_ADDR.set(words, self.wptr);
        QUEUE_TYPE.set(words, QueueType::Scheduler.code());
        MAP_LEGACY_KQ.set(words, 1);
    }

    fn doorbell(&self) -> u32 {
        self.doorbell
    }
}

/// A ring of MES leaves its pipe.
pub(super) struct UnmapRing {
    pub(super) pipe: u32,
    pub(super) doorbell: u32,
}

impl Frame for UnmapRing {
    const SHAPE: &'static abi::Frame = &remove_queue::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"REMOVE_QUEUE (ring)";

    fn fill(&self, words: &mut Words) {
        use remove_queue::*;
        DOORBELL_OFFSET.set(words, self.doorbell);
        PIPE_ID.set(words, self.pipe);
        QUEUE_ID.set(words, 0);
        UNMAP_LEGACY_QUEUE.set(words, 1);
        QUEUE_TYPE.set(words, QueueType::Scheduler.code());
    }

    fn doorbell(&self) -> u32 {
        self.doorbell
    }
}

/// A fence behind what came before.
pub(super) struct QueryStatus;

impl Frame for QueryStatus {
    const SHAPE: &'static abi::Frame = &abi::query_scheduler_status::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"QUERY_SCHEDULER_STATUS";

    fn fill(&self, _words: &mut Words) {}
}

/// Translations of a process are dropped.
pub(super) struct InvalidateTlbs {
    pub(super) pasid: u32,
    pub(super) kind: FlushType,
}

impl Frame for InvalidateTlbs {
    const SHAPE: &'static abi::Frame = &abi::inv_tlbs::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"INV_TLBS";

    fn fill(&self, words: &mut Words) {
        use abi::inv_tlbs::*;
        INV_SEL.set(words, abi::INV_SEL_PASID);
        FLUSH_TYPE.set(words, self.kind as u32);
        INV_SEL_ID.set(words, self.pasid);
        HUB_ID.set(words, abi::HUB_GC);
    }
}

/// How the waves of a process are debugged.
pub(crate) struct SetShaderDebugger {
    /// Where MES keeps what it knows of the process.
    pub(crate) process_context: u64,
    /// MES forgets the process instead.
    pub(crate) flush: bool,
}

impl Frame for SetShaderDebugger {
    const SHAPE: &'static abi::Frame = &abi::misc_set_shader_debugger::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"SET_SHADER_DEBUGGER";

    fn fill(&self, words: &mut Words) {
        use abi::misc_set_shader_debugger::*;
        PROCESS_CONTEXT_ADDR.set(words, self.process_context);
        PROCESS_CTX_FLUSH.set(words, self.flush.into());
        TRAP_EN.set(words, (!self.flush).into());
    }
}
