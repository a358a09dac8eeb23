// SPDX-License-Identifier: GPL-2.0

//! PM4 packets that the kernel sends, one type each. Layouts come from `abi`; field values follow
//! the C driver (`kfd_packet_manager_v9.c`, `amdgpu_gfx.c`).

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    pm4,
};

use super::Packet;

/// SET_RESOURCES: declares the sending queue and the resources of the scheduler.
pub(crate) struct SetResources {
    /// Sent by the HIQ, else by the KIQ.
    pub(crate) hiq: bool,
    /// Mask of VMIDs of processes.
    pub(crate) vmid_mask: u32,
    /// Mask of queue slots of processes.
    pub(crate) queue_mask: u64,
    /// Timeout of the firmware for the preemption of a queue, in ms.
    pub(crate) unmap_latency_ms: u32,
    /// Mask of global wave sync entries.
    pub(crate) gws_mask: u64,
    /// Processes with and without retry faults (XNACK) may share a chained runlist.
    pub(crate) xnack_chain: bool,
}

impl Packet for SetResources {
    const NAME: &'static CStr = c"SET_RESOURCES";
    const DWORDS: usize = pm4::set_resources::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::set_resources as p;
        out[0] = p::PACKET.header();
        let kind = if self.hiq {
            p::QUEUE_TYPE_HIQ
        } else {
            p::QUEUE_TYPE_KIQ
        };
        p::QUEUE_TYPE.set(out, kind);
        p::VMID_MASK.set(out, self.vmid_mask);
        p::UNMAP_LATENCY.set(out, self.unmap_latency_ms / 100);
        p::ENB_XNACK_RETRY_DISABLE_CHECK.set(out, self.xnack_chain.into());
        p::QUEUE_MASK_LO.set(out, lo(self.queue_mask));
        p::QUEUE_MASK_HI.set(out, hi(self.queue_mask));
        p::GWS_MASK_LO.set(out, lo(self.gws_mask));
        p::GWS_MASK_HI.set(out, hi(self.gws_mask));
    }
}

/// MAP_QUEUES for the HIQ, by the KIQ.
pub(crate) struct MapHiq {
    /// Pipe of the MEC.
    pub(crate) pipe: u32,
    /// Queue of the pipe.
    pub(crate) queue: u32,
    /// MEC, 1 or 2.
    pub(crate) me: u32,
    /// Doorbell of the HIQ.
    pub(crate) doorbell: u32,
    /// GPU address of its MQD.
    pub(crate) mqd: u64,
    /// GPU address of its write pointer.
    pub(crate) wptr: u64,
}

impl Packet for MapHiq {
    const NAME: &'static CStr = c"MAP_QUEUES(HIQ)";
    const DWORDS: usize = pm4::map_queues::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::map_queues as p;
        out[0] = p::PACKET.header();
        p::QUEUE_SEL.set(out, p::QUEUE_SEL_SPECIFIED);
        p::QUEUE.set(out, self.queue);
        p::PIPE.set(out, self.pipe);
        p::ME.set(out, self.me - 1);
        p::QUEUE_TYPE.set(out, p::QUEUE_TYPE_NORMAL_COMPUTE);
        p::ENGINE_SEL.set(out, p::ENGINE_SEL_HIQ);
        p::NUM_QUEUES.set(out, 1);
        p::DOORBELL_OFFSET.set(out, self.doorbell);
        p::MQD_ADDR_LO.set(out, lo(self.mqd));
        p::MQD_ADDR_HI.set(out, hi(self.mqd));
        p::WPTR_ADDR_LO.set(out, lo(self.wptr));
        p::WPTR_ADDR_HI.set(out, hi(self.wptr));
    }
}

/// MAP_QUEUES for a user queue. The scheduler chooses the slot of a compute queue.
pub(crate) struct MapUserQueue {
    /// SDMA engine of an SDMA queue.
    pub(crate) sdma_engine: Option<u32>,
    /// Doorbell of the queue.
    pub(crate) doorbell: u32,
    /// GPU address of its MQD.
    pub(crate) mqd: u64,
    /// Address of its write pointer in the address space of the process.
    pub(crate) wptr: u64,
    /// The queue owns the global wave sync (GWS).
    pub(crate) gws: bool,
}

impl Packet for MapUserQueue {
    const NAME: &'static CStr = c"MAP_QUEUES";
    const DWORDS: usize = pm4::map_queues::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::map_queues as p;
        out[0] = p::PACKET.header();
        p::QUEUE_SEL.set(out, p::QUEUE_SEL_HWS_DETERMINED);
        p::GWS_CONTROL_QUEUE.set(out, self.gws.into());
        let (extended, engine) = match self.sdma_engine {
            None => (p::EXTENDED_ENGINE_SEL_LEGACY, p::ENGINE_SEL_COMPUTE),
            // Engines 0 and 1 have legacy encodings.
            Some(n @ 0..=1) => (p::EXTENDED_ENGINE_SEL_LEGACY, p::ENGINE_SEL_SDMA0 + n),
            Some(n @ 2..=7) => (p::EXTENDED_ENGINE_SEL_SDMA0_TO_7, n),
            Some(n) => (p::EXTENDED_ENGINE_SEL_SDMA8_TO_15, n % 8),
        };
        p::EXTENDED_ENGINE_SEL.set(out, extended);
        p::QUEUE_TYPE.set(out, p::QUEUE_TYPE_NORMAL_COMPUTE);
        p::ENGINE_SEL.set(out, engine);
        p::NUM_QUEUES.set(out, 1);
        p::DOORBELL_OFFSET.set(out, self.doorbell);
        p::MQD_ADDR_LO.set(out, lo(self.mqd));
        p::MQD_ADDR_HI.set(out, hi(self.mqd));
        p::WPTR_ADDR_LO.set(out, lo(self.wptr));
        p::WPTR_ADDR_HI.set(out, hi(self.wptr));
    }
}

/// Queue selection of UNMAP_QUEUES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Queue with this doorbell.
    Doorbell(u32),
    /// All queues that are not static.
    Dynamic,
    /// All queues.
    All,
}

/// UNMAP_QUEUES.
pub(crate) struct UnmapQueues {
    /// Selected queues.
    pub(crate) filter: Filter,
    /// Reset the queues instead of preempting them: their state is lost.
    pub(crate) reset: bool,
}

impl Packet for UnmapQueues {
    const NAME: &'static CStr = c"UNMAP_QUEUES";
    const DWORDS: usize = pm4::unmap_queues::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::unmap_queues as p;
        out[0] = p::PACKET.header();
        let action = if self.reset {
            p::ACTION_RESET
        } else {
            p::ACTION_PREEMPT
        };
        p::ACTION.set(out, action);
        p::ENGINE_SEL.set(out, 0);
        match self.filter {
            Filter::Doorbell(index) => {
                p::QUEUE_SEL.set(out, p::QUEUE_SEL_SPECIFIED);
                p::NUM_QUEUES.set(out, 1);
                p::DOORBELL_OFFSET0.set(out, index);
            }
            Filter::Dynamic => p::QUEUE_SEL.set(out, p::QUEUE_SEL_ALL_NON_STATIC),
            Filter::All => p::QUEUE_SEL.set(out, p::QUEUE_SEL_ALL),
        }
    }
}

/// QUERY_STATUS: signals a fence after all earlier packets.
pub(crate) struct QueryStatus {
    /// GPU address of the fence.
    pub(crate) addr: u64,
    /// Value of the fence.
    pub(crate) value: u64,
}

impl Packet for QueryStatus {
    const NAME: &'static CStr = c"QUERY_STATUS";
    const DWORDS: usize = pm4::query_status::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::query_status as p;
        out[0] = p::PACKET.header();
        p::INTERRUPT_SEL.set(out, p::INTERRUPT_SEL_COMPLETION);
        p::COMMAND.set(out, p::COMMAND_FENCE_ONLY_AFTER_WRITE_ACK);
        p::ADDR_LO.set(out, lo(self.addr));
        p::ADDR_HI.set(out, hi(self.addr));
        p::DATA_LO.set(out, lo(self.value));
        p::DATA_HI.set(out, hi(self.value));
    }
}

/// RUN_LIST: executes a runlist.
pub(crate) struct RunList {
    /// GPU address of the runlist.
    pub(crate) addr: u64,
    /// Length in dwords.
    pub(crate) dwords: u32,
    /// The runlist is chained to itself (oversubscription).
    pub(crate) chain: bool,
    /// Maximum number of processes mapped at a time.
    pub(crate) processes: u32,
}

impl Packet for RunList {
    const NAME: &'static CStr = c"RUN_LIST";
    const DWORDS: usize = pm4::run_list::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::run_list as p;
        out[0] = p::PACKET.header();
        p::IB_BASE_LO.set(out, lo(self.addr) >> p::IB_BASE_LO.field.shift);
        p::IB_BASE_HI.set(out, hi(self.addr));
        p::IB_SIZE.set(out, self.dwords);
        p::CHAIN.set(out, self.chain.into());
        p::CHAINED_RUNLIST_IDLE_DISABLE.set(out, self.chain.into());
        p::VALID.set(out, 1);
        p::PROCESS_CNT.set(out, self.processes);
    }
}

/// INVALIDATE_TLBS for a PASID.
pub(crate) struct InvalidateTlbs {
    /// PASID of the process.
    pub(crate) pasid: u32,
    /// Flush type in the hardware's encoding.
    pub(crate) flush_type: u32,
}

impl Packet for InvalidateTlbs {
    const NAME: &'static CStr = c"INVALIDATE_TLBS";
    const DWORDS: usize = pm4::invalidate_tlbs::DWORDS;

    fn emit(&self, out: &mut [u32]) {
        use pm4::invalidate_tlbs as p;
        out[0] = p::PACKET.header();
        p::DST_SEL.set(out, p::DST_SEL_PASID);
        p::ALL_HUB.set(out, 1);
        p::PASID.set(out, self.pasid);
        p::FLUSH_TYPE.set(out, self.flush_type);
    }
}

/// WRITE_DATA of a dword to memory.
pub(crate) struct WriteMemory {
    /// GPU address.
    pub(crate) addr: u64,
    /// Value.
    pub(crate) value: u32,
}

impl Packet for WriteMemory {
    const NAME: &'static CStr = c"WRITE_DATA(memory)";
    const DWORDS: usize = 5;

    fn emit(&self, out: &mut [u32]) {
        use pm4::write_data as p;
        out[0] = pm4::header(p::OPCODE, Self::DWORDS as u32 - 1);
        p::DST_SEL.set(out, p::DST_SEL_MEMORY);
        p::WR_CONFIRM.set(out, 1);
        p::DST_MEM_ADDR_LO.set(out, lo(self.addr) >> p::DST_MEM_ADDR_LO.field.shift);
        p::DST_MEM_ADDR_HI.set(out, hi(self.addr));
        out[4] = self.value;
    }
}

/// WRITE_DATA of a register.
pub(crate) struct WriteRegister {
    /// Dword offset of the register.
    pub(crate) reg: u32,
    /// Value.
    pub(crate) value: u32,
}

impl Packet for WriteRegister {
    const NAME: &'static CStr = c"WRITE_DATA(register)";
    const DWORDS: usize = 5;

    fn emit(&self, out: &mut [u32]) {
        use pm4::write_data as p;
        out[0] = pm4::header(p::OPCODE, Self::DWORDS as u32 - 1);
        p::DST_SEL.set(out, p::DST_SEL_REGISTER);
        p::ADDR_INCR.set(out, 1);
        p::DST_MMREG_ADDR.set(out, self.reg);
        out[4] = self.value;
    }
}

/// SET_UCONFIG_REG.
pub(crate) struct SetUconfigReg {
    /// Dword offset of the register, absolute.
    pub(crate) reg: u32,
    /// Value.
    pub(crate) value: u32,
}

impl Packet for SetUconfigReg {
    const NAME: &'static CStr = c"SET_UCONFIG_REG";
    const DWORDS: usize = 3;

    fn emit(&self, out: &mut [u32]) {
        use pm4::set_uconfig_reg as p;
        out[0] = pm4::header(p::OPCODE, Self::DWORDS as u32 - 1);
        out[1] = self.reg.wrapping_sub(p::START);
        out[2] = self.value;
    }
}
