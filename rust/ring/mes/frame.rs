// SPDX-License-Identifier: GPL-2.0

//! MES API frames that the driver sends (`mes_v12_api_def.h`).

use rkfd_abi::mes::{self as abi, add_queue, remove_queue};

use crate::hw::{FlushType, MesResources, WaveDebug, MES_PRIORITIES};

/// Dwords of a frame.
pub(crate) type Words = [u32; abi::FRAME_DWORDS];

/// A MES API frame. The ring adds header and completion fence.
pub(crate) trait Frame {
    /// Layout of the frame.
    const SHAPE: &'static abi::Frame;
    /// Name of the frame in trace events.
    const NAME: &'static kernel::prelude::CStr;

    /// Writes the fields to `words`, which are zeroed.
    fn fill(&self, words: &mut Words);

    /// Returns the doorbell of the queue that the frame refers to, for trace events; 0 for none.
    fn doorbell(&self) -> u32 {
        0
    }
}

/// Queue type of MES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueType {
    Compute,
    Sdma,
    /// A ring of MES itself.
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

/// SET_HW_RESOURCES: hardware resources of a pipe and its behaviour.
pub(super) struct SetResources<'a> {
    /// VMIDs, queue slots and aggregated doorbells; `None` for the KIQ pipe.
    pub(super) schedulable: Option<(&'a MesResources, [u32; MES_PRIORITIES])>,
    /// Register apertures.
    pub(super) bases: &'a MesResources,
    /// GPU address of the pipe's scheduler context.
    pub(super) context: u64,
    /// GPU address at which QUERY_SCHEDULER_STATUS signals its fence.
    pub(super) status_fence: u64,
    /// Interval at which MES polls unmapped queues for work; unknown unit.
    pub(super) oversubscription_timer: u32,
}

/// `unmapped_doorbell_handling`: MES identifies the queue by its doorbell.
const UNMAPPED_DOORBELLS_BASIC_PLUS: u32 = 2;

impl Frame for SetResources<'_> {
    const SHAPE: &'static abi::Frame = &abi::set_hw_rsrc::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"SET_HW_RSRC";

    fn fill(&self, words: &mut Words) {
        use abi::set_hw_rsrc::*;
        if let Some((r, doorbells)) = &self.schedulable {
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

/// SET_HW_RESOURCES_1.
pub(super) struct SetResources1 {
    /// GPU address of the cleaner shader's fence.
    pub(super) cleaner_fence: u64,
}

/// Timeout for the unmapping of a kernel queue, in units of 100 ms.
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

/// ADD_QUEUE: makes a user queue schedulable.
pub(crate) struct AddQueue {
    /// Type of the queue.
    pub(crate) queue_type: QueueType,
    /// PASID of the process.
    pub(crate) pasid: u32,
    /// Page table base with flags.
    pub(crate) root: u64,
    /// Last page number of the address space.
    pub(crate) last_page: u64,
    /// VM context control register of the address space.
    pub(crate) vm_context_control: u32,
    /// First-level trap handler, 0 for none, and its memory.
    pub(crate) tba: u64,
    pub(crate) tma: u64,
    /// The process context is not cleared: SET_SHADER_DEBUGGER has initialized it.
    pub(crate) skip_process_ctx_clear: bool,
    /// GPU address of the process context of MES.
    pub(crate) process_context: u64,
    /// GPU address of the gang context of MES.
    pub(crate) gang_context: u64,
    /// Priority among the queues of the process, one of `rkfd_abi::mes::priority`.
    pub(crate) priority: u8,
    /// Priority among all queues, one of these.
    pub(crate) level: u8,
    /// The queue is one of `/dev/kfd`, with a trap handler.
    pub(crate) kfd: bool,
    /// Dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// GPU address of the MQD.
    pub(crate) mqd: u64,
    /// GPU address of the write pointer, in VMID 0.
    pub(crate) wptr: u64,
    /// Size of the ring in dwords.
    pub(crate) ring_dwords: u32,
    /// Ring of AQL packets, else of PM4 packets.
    pub(crate) aql: bool,
}

/// Time slice of a process when oversubscribed: 10 ms in units of 100 ns.
const PROCESS_QUANTUM: u64 = 100_000;
/// Time slice of a gang (a queue) of the process: 1 ms in units of 100 ns.
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
        GANG_GLOBAL_PRIORITY_LEVEL.set(words, self.level.into());
        DOORBELL_OFFSET.set(words, self.doorbell);
        MQD_ADDR.set(words, self.mqd);
        WPTR_ADDR.set(words, self.wptr);
        QUEUE_TYPE.set(words, self.queue_type.code());
        GDS_SIZE.set(words, self.ring_dwords);
        TRAP_HANDLER_ADDR.set(words, self.tba);
        TMA_ADDR.set(words, self.tma);
        VM_CONTEXT_CNTL.set(words, self.vm_context_control);
        IS_KFD_PROCESS.set(words, self.kfd.into());
        TRAP_EN.set(words, self.kfd.into());
        IS_AQL_QUEUE.set(words, self.aql.into());
        SKIP_PROCESS_CTX_CLEAR.set(words, self.skip_process_ctx_clear.into());
    }

    fn doorbell(&self) -> u32 {
        self.doorbell
    }
}

/// REMOVE_QUEUE: unmaps a user queue.
pub(crate) struct RemoveQueue {
    /// Type of the queue.
    pub(crate) queue_type: QueueType,
    /// Dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// GPU address of the gang context of MES.
    pub(crate) gang_context: u64,
    /// The queue was reset: MES only drops its state.
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

/// RESET: resets a user queue that cannot be removed.
pub(crate) struct ResetQueue {
    /// Type of the queue.
    pub(crate) queue_type: QueueType,
    /// Dword index in the doorbell BAR.
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

/// SUSPEND of all compute queues: preempts them.
pub(crate) struct SuspendAll;

impl Frame for SuspendAll {
    const SHAPE: &'static abi::Frame = &abi::suspend::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"SUSPEND";

    fn fill(&self, words: &mut Words) {
        abi::suspend::SUSPEND_ALL_GANGS.set(words, 1);
    }
}

/// RESUME of all queues.
pub(crate) struct ResumeAll;

impl Frame for ResumeAll {
    const SHAPE: &'static abi::Frame = &abi::resume::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"RESUME";

    fn fill(&self, words: &mut Words) {
        abi::resume::RESUME_ALL_GANGS.set(words, 1);
    }
}

/// RESET that only lists the compute queues which were not preempted.
pub(super) struct FindHung {
    /// GPU address of the list.
    pub(super) list: u64,
}

impl Frame for FindHung {
    const SHAPE: &'static abi::Frame = &abi::reset::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"RESET (detect)";

    fn fill(&self, words: &mut Words) {
        use abi::reset::*;
        HANG_DETECT_ONLY.set(words, 1);
        QUEUE_TYPE.set(words, QueueType::Compute.code());
        DOORBELL_OFFSET_ADDR.set(words, self.list);
    }
}

/// ADD_QUEUE for a ring of MES itself.
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

/// REMOVE_QUEUE for a ring of MES itself.
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

/// QUERY_SCHEDULER_STATUS: signals its fence after all earlier frames.
pub(super) struct QueryStatus;

impl Frame for QueryStatus {
    const SHAPE: &'static abi::Frame = &abi::query_scheduler_status::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"QUERY_SCHEDULER_STATUS";

    fn fill(&self, _words: &mut Words) {}
}

/// INV_TLBS: invalidates the TLB entries of a PASID.
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

/// MISC SET_SHADER_DEBUGGER: debug settings of the waves of a process.
pub(crate) struct SetShaderDebugger {
    /// GPU address of the process context of MES.
    pub(crate) process_context: u64,
    /// Flush the process context instead.
    pub(crate) flush: bool,
    /// SPI_GDBG_PER_VMID_CNTL.
    pub(crate) spi_gdbg: u32,
    /// The settings.
    pub(crate) debug: WaveDebug,
}

impl Frame for SetShaderDebugger {
    const SHAPE: &'static abi::Frame = &abi::misc_set_shader_debugger::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"SET_SHADER_DEBUGGER";

    fn fill(&self, words: &mut Words) {
        use abi::misc_set_shader_debugger::*;
        PROCESS_CONTEXT_ADDR.set(words, self.process_context);
        PROCESS_CTX_FLUSH.set(words, self.flush.into());
        if self.flush {
            return;
        }
        TRAP_EN.set(words, 1);
        SPI_GDBG_PER_VMID_CNTL.set(words, self.spi_gdbg);
        SINGLE_MEMOP.set(words, self.debug.single_memop.into());
        SINGLE_ALU_OP.set(words, self.debug.single_alu_op.into());
        for (n, control) in self.debug.watch.into_iter().enumerate() {
            TCP_WATCH_CNTL.set(words, n, control);
        }
    }
}

/// MISC CHANGE_CONFIG: how many processes are mapped at a time.
pub(super) struct ChangeConfig {
    /// One.
    pub(super) single_process: bool,
}

impl Frame for ChangeConfig {
    const SHAPE: &'static abi::Frame = &abi::misc_change_config::FRAME;
    const NAME: &'static kernel::prelude::CStr = c"CHANGE_CONFIG";

    fn fill(&self, words: &mut Words) {
        use abi::misc_change_config::*;
        LIMIT_SINGLE_PROCESS.set(words, self.single_process.into());
    }
}
