// SPDX-License-Identifier: GPL-2.0

//! Images of compute queues in memory: what the driver wants in them, and what all versions have.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    regs::{name, Value, Word},
};

use super::names::names;

/// The packet processor of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueFormat {
    /// Rings of PM4 packets; pointers count dwords.
    Pm4,
    /// Rings of 64-byte AQL packets; pointers count packets.
    Aql,
}

/// The place of a user queue on an SDMA engine. Unlike compute queues, which the scheduler puts
/// wherever there is room, it has its own for life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdmaPlace {
    /// The engine.
    pub(crate) engine: u32,
    /// Its queue.
    pub(crate) queue: u32,
}

/// What the hardware has to know of a user queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueSpec {
    /// Who reads the ring of a compute queue.
    pub(crate) format: QueueFormat,
    /// Where the queue is if an SDMA engine reads its ring, with pointers in bytes.
    pub(crate) sdma: Option<SdmaPlace>,
    /// GPU virtual address of the ring.
    pub(crate) ring_va: u64,
    /// Bytes of the ring, a power of two; 0 keeps the queue inactive.
    pub(crate) ring_size: u32,
    /// Where the CP reports its read pointer.
    pub(crate) rptr_va: u64,
    /// Where user space keeps the write pointer.
    pub(crate) wptr_va: u64,
    /// The write pointer in the kernel's address space (VMID 0); 0 if no scheduler reads it.
    pub(crate) wptr_kernel: u64,
    /// The end-of-pipe buffer, 0 for none.
    pub(crate) eop_va: u64,
    /// Bytes of the end-of-pipe buffer.
    pub(crate) eop_size: u32,
    /// The context save area of the queue, 0 for none.
    pub(crate) cwsr_va: u64,
    /// Bytes of the context save area of one XCC.
    pub(crate) cwsr_size: u32,
    /// Bytes of the control stack in it.
    pub(crate) ctl_stack_size: u32,
    /// Address of the trap handler, 0 for none.
    pub(crate) tba: u64,
    /// Priority as user space gives it, 0 to 15.
    pub(crate) priority: u8,
    /// Share in percent; 0 keeps the queue inactive.
    pub(crate) percent: u8,
    /// Absolute doorbell: index of the 32-bit word in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// The queue owns the global wave sync resource.
    pub(crate) gws: bool,
    /// XCC of the partition that runs PM4 packets without a predicate.
    pub(crate) pm4_target_xcc: u8,
}

impl QueueSpec {
    /// The queue has all that it takes to run.
    pub(crate) fn is_runnable(&self) -> bool {
        self.ring_size > 0 && self.ring_va != 0 && self.percent > 0
    }
}

/// What kind of queue an MQD describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MqdKind {
    /// A compute queue of a user process.
    User,
    /// The queue through which the kernel feeds the firmware scheduler.
    Hiq,
    /// The queue through which the kernel maps the HIQ and programs registers.
    Kiq,
    /// A ring of the scheduler with a processor of its own.
    Mes,
}

/// What goes into an MQD besides the [`QueueSpec`].
pub(crate) struct MqdContext {
    /// The queue's kind.
    pub(crate) kind: MqdKind,
    /// Address of the MQD for the CP.
    pub(crate) addr: u64,
    /// Logical number of the XCC within the partition.
    pub(crate) xcc: u32,
    /// XCCs of the partition.
    pub(crate) num_xcc: u32,
    /// Bytes from the MQD of one XCC to that of the next.
    pub(crate) stride: u32,
}

/// The image of a queue in memory.
pub(crate) trait MqdHal: Sync {
    /// 32-bit words of an MQD.
    fn dwords(&self) -> usize;

    /// Fills a zeroed image for a new queue. `EINVAL` for a kind that the generation has not.
    fn init(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut [u32]) -> Result;

    /// Changes the fields of an image that may change in the life of a queue.
    fn update(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut dyn Words);

    /// Sets the compute units that an XCC's part of the queue may use, one word per shader engine.
    fn set_cu_mask(&self, masks: &[u32], image: &mut dyn Words);
}

/// The words of an image: one that is being built, or one where the hardware finds it, where reads
/// are slow.
pub(crate) trait Words {
    /// Reads a word.
    fn get(&mut self, dword: usize) -> u32;

    /// Writes a word.
    fn set(&mut self, dword: usize, value: u32);
}

impl dyn Words + '_ {
    /// Reads the word of a register.
    pub(crate) fn read<R>(&mut self, word: Word<R>) -> Value<R> {
        Value::new(self.get(word.index()))
    }

    /// Writes the word of a register.
    pub(crate) fn write<R>(&mut self, word: Word<R>, value: impl Into<Value<R>>) {
        self.set(word.index(), value.into().raw());
    }
}

impl Words for &mut [u32] {
    fn get(&mut self, dword: usize) -> u32 {
        self[dword]
    }

    fn set(&mut self, dword: usize, value: u32) {
        self[dword] = value;
    }
}

names! { $
    /// Words of an image that all versions have.
    struct MqdWords, mqd_words of name {
        plain {
            header,
            compute_pipelinestat_enable,
            cp_hqd_pipe_priority,
            cp_hqd_hq_status0,
            cp_hqd_ctx_save_control,
            cp_hqd_cntl_stack_offset,
            cp_hqd_cntl_stack_size,
            cp_hqd_wg_state_offset,
            cp_hqd_ctx_save_size,
        }
        words {
            cp_mqd_base_addr_lo: CP_MQD_BASE_ADDR,
            cp_mqd_base_addr_hi: CP_MQD_BASE_ADDR_HI,
            cp_mqd_control: CP_MQD_CONTROL,
            cp_hqd_active: CP_HQD_ACTIVE,
            cp_hqd_vmid: CP_HQD_VMID,
            cp_hqd_persistent_state: CP_HQD_PERSISTENT_STATE,
            cp_hqd_quantum: CP_HQD_QUANTUM,
            cp_hqd_pq_base_lo: CP_HQD_PQ_BASE,
            cp_hqd_pq_base_hi: CP_HQD_PQ_BASE_HI,
            cp_hqd_pq_rptr: CP_HQD_PQ_RPTR,
            cp_hqd_pq_rptr_report_addr_lo: CP_HQD_PQ_RPTR_REPORT_ADDR,
            cp_hqd_pq_rptr_report_addr_hi: CP_HQD_PQ_RPTR_REPORT_ADDR_HI,
            cp_hqd_pq_wptr_poll_addr_lo: CP_HQD_PQ_WPTR_POLL_ADDR,
            cp_hqd_pq_wptr_poll_addr_hi: CP_HQD_PQ_WPTR_POLL_ADDR_HI,
            cp_hqd_pq_wptr_lo: CP_HQD_PQ_WPTR_LO,
            cp_hqd_pq_wptr_hi: CP_HQD_PQ_WPTR_HI,
            cp_hqd_pq_doorbell_control: CP_HQD_PQ_DOORBELL_CONTROL,
            cp_hqd_pq_control: CP_HQD_PQ_CONTROL,
            cp_hqd_ib_control: CP_HQD_IB_CONTROL,
            cp_hqd_iq_timer: CP_HQD_IQ_TIMER,
            cp_hqd_eop_base_addr_lo: CP_HQD_EOP_BASE_ADDR,
            cp_hqd_eop_base_addr_hi: CP_HQD_EOP_BASE_ADDR_HI,
            cp_hqd_eop_control: CP_HQD_EOP_CONTROL,
            cp_hqd_ctx_save_base_addr_lo: CP_HQD_CTX_SAVE_BASE_ADDR_LO,
            cp_hqd_ctx_save_base_addr_hi: CP_HQD_CTX_SAVE_BASE_ADDR_HI,
            cp_hqd_aql_control: CP_HQD_AQL_CONTROL,
        }
    }
}

names! { $
    /// Fields of these words.
    struct MqdFields, mqd_fields of name {
        fields {
            CP_HQD_PERSISTENT_STATE { PRELOAD_REQ, PRELOAD_SIZE, QSWITCH_MODE, },
            CP_HQD_PQ_CONTROL {
                QUEUE_SIZE,
                RPTR_BLOCK_SIZE,
                UNORD_DISPATCH,
                SLOT_BASED_WPTR,
                QUEUE_FULL_EN,
            },
            CP_HQD_PQ_DOORBELL_CONTROL { DOORBELL_OFFSET, DOORBELL_EN, DOORBELL_BIF_DROP, },
            CP_HQD_IB_CONTROL { MIN_IB_AVAIL_SIZE, },
            CP_HQD_AQL_CONTROL { CONTROL0, },
            CP_HQD_QUANTUM { QUANTUM_EN, QUANTUM_SCALE, QUANTUM_DURATION, },
            CP_MQD_CONTROL { PRIV_STATE, },
        }
    }
}

/// What all versions have, with a version's places and numbers.
pub(super) struct MqdCommon {
    /// Words of an image.
    pub(super) dwords: usize,
    /// Where words are.
    pub(super) at: MqdWords,
    /// Where fields are.
    pub(super) fields: MqdFields,
    /// The words that say which compute units may be used, one for each shader engine.
    pub(super) se_masks: &'static [usize],
    /// The header by which the firmware knows an image.
    pub(super) header: u32,
    /// Words that are preloaded when a queue is connected.
    pub(super) preload_size: u32,
    /// Makes the CP keep the address of the dispatch for a debugger.
    pub(super) dispatch_ptr: u32,
}

/// A version of the images.
pub(super) trait MqdVersion: Sync {
    /// What it has in common with the others.
    const COMMON: &'static MqdCommon;
    /// What the control word of indirect buffers has besides.
    const IB_CONTROL: Value<name::CP_HQD_IB_CONTROL>;

    /// Fills in what a queue of this kind starts with; only what all kinds have is there yet.
    fn init(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) -> Result;

    /// The control word of a ring, with what only this version has of it.
    fn pq_control(
        cx: &MqdContext,
        spec: &QueueSpec,
        value: Value<name::CP_HQD_PQ_CONTROL>,
    ) -> Value<name::CP_HQD_PQ_CONTROL>;

    /// Fills in what only this version has of what may change in the life of a user queue.
    fn update(cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
        let _ = (cx, spec, m);
    }
}

/// The largest end-of-pipe ring that the hardware handles, as its size field counts.
const MAX_EOP_SIZE: u32 = 0xa;

/// Shader engines whose masks a ring of the kernel fills in, which starts no shaders.
const RING_ENGINES: usize = 4;

/// The hardware's idea of a user priority: low, medium, high.
const fn pipe_priority(priority: u8) -> u32 {
    match priority {
        0..=6 => 0,
        7..=10 => 1,
        _ => 2,
    }
}

/// log2, rounded up.
pub(super) const fn order(value: u32) -> u32 {
    value.next_power_of_two().trailing_zeros()
}

/// The size field of a queue's ring.
pub(super) fn pq_size(spec: &QueueSpec) -> u32 {
    order(spec.ring_size / 4).saturating_sub(1)
}

impl MqdCommon {
    fn init(&self, cx: &MqdContext, m: &mut [u32]) {
        let at = &self.at;
        m[at.header] = self.header;
        m[at.compute_pipelinestat_enable] = 1;
        at.cp_mqd_base_addr_lo.set(m, lo(cx.addr));
        at.cp_mqd_base_addr_hi.set(m, hi(cx.addr));
    }

    /// All compute units of the first so many shader engines may be used.
    fn allow_engines(&self, engines: usize, m: &mut [u32]) {
        for mask in self.se_masks.iter().take(engines) {
            m[*mask] = !0;
        }
    }

    /// How long the queue keeps the hardware when others wait.
    pub(super) fn quantum(&self) -> Value<name::CP_HQD_QUANTUM> {
        let f = &self.fields;
        f.CP_HQD_QUANTUM__QUANTUM_EN.put(1)
            | f.CP_HQD_QUANTUM__QUANTUM_SCALE.put(1)
            | f.CP_HQD_QUANTUM__QUANTUM_DURATION.put(1)
    }

    /// A queue that the scheduler connects.
    pub(super) fn init_scheduled(&self, cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
        let (at, f) = (&self.at, &self.fields);
        self.allow_engines(self.se_masks.len(), m);
        at.cp_hqd_persistent_state.set(
            m,
            f.CP_HQD_PERSISTENT_STATE__PRELOAD_REQ.put(1)
                | f.CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE
                    .put(self.preload_size),
        );
        at.cp_hqd_pq_control.set(
            m,
            f.CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE.put(5)
                | f.CP_HQD_PQ_CONTROL__UNORD_DISPATCH.put(1),
        );
        at.cp_mqd_control
            .set(m, f.CP_MQD_CONTROL__PRIV_STATE.put(1));
        at.cp_hqd_quantum.set(m, self.quantum());
        m[at.cp_hqd_hq_status0] = self.dispatch_ptr;
        if spec.format == QueueFormat::Aql {
            at.cp_hqd_aql_control
                .set(m, f.CP_HQD_AQL_CONTROL__CONTROL0.put(1));
        }
        if spec.cwsr_va != 0 {
            let area = spec.cwsr_va + u64::from(cx.xcc) * u64::from(spec.cwsr_size);
            at.cp_hqd_persistent_state
                .or(m, f.CP_HQD_PERSISTENT_STATE__QSWITCH_MODE.put(1));
            at.cp_hqd_ctx_save_base_addr_lo.set(m, lo(area));
            at.cp_hqd_ctx_save_base_addr_hi.set(m, hi(area));
            m[at.cp_hqd_ctx_save_size] = spec.cwsr_size;
            m[at.cp_hqd_cntl_stack_size] = spec.ctl_stack_size;
            m[at.cp_hqd_cntl_stack_offset] = spec.ctl_stack_size;
            m[at.cp_hqd_wg_state_offset] = spec.ctl_stack_size;
        }
    }

    /// A ring of the kernel that goes into registers as it is. How its pointers are aligned and
    /// what its control words hold is the version's.
    pub(super) fn init_ring(&self, spec: &QueueSpec, m: &mut [u32]) {
        let (at, f) = (&self.at, &self.fields);
        self.allow_engines(RING_ENGINES, m);
        at.cp_hqd_pq_base_lo.set(m, lo(spec.ring_va >> 8));
        at.cp_hqd_pq_base_hi.set(m, hi(spec.ring_va >> 8));
        at.cp_hqd_eop_base_addr_lo.set(m, lo(spec.eop_va >> 8));
        at.cp_hqd_eop_base_addr_hi.set(m, hi(spec.eop_va >> 8));
        at.cp_hqd_pq_rptr_report_addr_lo
            .set(m, lo(spec.rptr_va) & !3);
        at.cp_hqd_pq_rptr_report_addr_hi
            .set(m, hi(spec.rptr_va) & 0xffff);
        at.cp_hqd_pq_wptr_poll_addr_lo.set(m, lo(spec.wptr_va) & !3);
        at.cp_hqd_pq_wptr_poll_addr_hi
            .set(m, hi(spec.wptr_va) & 0xffff);
        at.cp_hqd_pq_doorbell_control.set(
            m,
            f.CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET
                .put(spec.doorbell)
                | f.CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.put(1),
        );
        at.cp_hqd_active.set(m, 1);
    }
}

/// What may change in the life of a queue that the scheduler connects.
pub(super) fn update_scheduled<T: MqdVersion>(
    cx: &MqdContext,
    spec: &QueueSpec,
    m: &mut dyn Words,
) {
    let (at, f) = (&T::COMMON.at, &T::COMMON.fields);
    let size = f.CP_HQD_PQ_CONTROL__QUEUE_SIZE;
    let mut control = m.read(at.cp_hqd_pq_control).set(size, pq_size(spec));
    let mut doorbell = f
        .CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET
        .put(spec.doorbell);
    if spec.format == QueueFormat::Aql {
        control |=
            f.CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR.put(2) | f.CP_HQD_PQ_CONTROL__QUEUE_FULL_EN.put(1);
        doorbell |= f.CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_BIF_DROP.put(1);
    }
    let ib_control = f.CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.put(3) | T::IB_CONTROL;
    let eop_control = match spec.eop_size {
        0 => 0,
        size => order(size / 8).min(MAX_EOP_SIZE),
    };
    m.write(at.cp_hqd_pq_control, T::pq_control(cx, spec, control));
    m.write(at.cp_hqd_pq_base_lo, lo(spec.ring_va >> 8));
    m.write(at.cp_hqd_pq_base_hi, hi(spec.ring_va >> 8));
    m.write(at.cp_hqd_pq_rptr_report_addr_lo, lo(spec.rptr_va));
    m.write(at.cp_hqd_pq_rptr_report_addr_hi, hi(spec.rptr_va));
    m.write(at.cp_hqd_pq_wptr_poll_addr_lo, lo(spec.wptr_va));
    m.write(at.cp_hqd_pq_wptr_poll_addr_hi, hi(spec.wptr_va));
    m.write(at.cp_hqd_pq_doorbell_control, doorbell);
    m.write(at.cp_hqd_ib_control, ib_control);
    m.write(at.cp_hqd_eop_control, eop_control);
    m.write(at.cp_hqd_eop_base_addr_lo, lo(spec.eop_va >> 8));
    m.write(at.cp_hqd_eop_base_addr_hi, hi(spec.eop_va >> 8));
    m.write(at.cp_hqd_iq_timer, 0);
    m.write(at.cp_hqd_vmid, 0);
    m.set(at.cp_hqd_pipe_priority, pipe_priority(spec.priority));
    if spec.cwsr_va != 0 {
        m.set(at.cp_hqd_ctx_save_control, 0);
    }
}

impl<T: MqdVersion> MqdHal for T {
    fn dwords(&self) -> usize {
        T::COMMON.dwords
    }

    fn init(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut [u32]) -> Result {
        if image.len() != T::COMMON.dwords {
            return Err(EINVAL);
        }
        T::COMMON.init(cx, image);
        T::init(cx, spec, image)
    }

    fn update(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut dyn Words) {
        update_scheduled::<T>(cx, spec, image);
        T::update(cx, spec, image);
    }

    fn set_cu_mask(&self, masks: &[u32], image: &mut dyn Words) {
        for (i, at) in T::COMMON.se_masks.iter().enumerate() {
            // Engines that the card does not have get none.
            image.set(*at, masks.get(i).copied().unwrap_or(0));
        }
    }
}
