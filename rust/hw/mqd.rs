// SPDX-License-Identifier: GPL-2.0

//! Compute MQDs: HAL trait and code shared by all versions.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    regs::{name, Value, Word},
};

use super::names::names;

/// Packet format of a compute queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueFormat {
    /// Rings of PM4 packets; pointers count dwords.
    Pm4,
    /// Rings of 64-byte AQL packets; pointers count packets.
    Aql,
}

/// Engine and queue number of a user SDMA queue, fixed for its lifetime. Compute queues are
/// assigned to HQD slots by the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdmaQueueId {
    /// Number of the engine: in its node for packets and MQDs, in the card for registers and
    /// doorbells, where all nodes number theirs in turn.
    pub(crate) engine: u32,
    /// Queue of the engine.
    pub(crate) queue: u32,
}

/// Hardware description of a user queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSpec {
    /// Packet format of a compute queue.
    pub(crate) format: QueueFormat,
    /// Engine and queue of an SDMA queue, whose pointers count bytes.
    pub(crate) sdma: Option<SdmaQueueId>,
    /// GPU virtual address of the ring.
    pub(crate) ring_va: u64,
    /// Bytes of the ring, a power of two; 0 keeps the queue inactive.
    pub(crate) ring_size: u32,
    /// Address of the read pointer report.
    pub(crate) rptr_va: u64,
    /// Address of the write pointer.
    pub(crate) wptr_va: u64,
    /// Address of the write pointer in VMID 0; 0 if no scheduler reads it.
    pub(crate) wptr_kernel: u64,
    /// EOP buffer, 0 for none.
    pub(crate) eop_va: u64,
    /// Bytes of the EOP buffer.
    pub(crate) eop_size: u32,
    /// CWSR area, 0 for none.
    pub(crate) cwsr_va: u64,
    /// Bytes of the CWSR area of one XCC.
    pub(crate) cwsr_size: u32,
    /// Bytes of its control stack.
    pub(crate) ctl_stack_size: u32,
    /// Trap handler (TBA), 0 for none.
    pub(crate) tba: u64,
    /// Priority of user space, 0 to 15.
    pub(crate) priority: u8,
    /// Queue percentage; 0 keeps the queue inactive.
    pub(crate) percent: u8,
    /// Doorbell: dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// The queue owns GWS.
    pub(crate) gws: bool,
    /// XCC that executes PM4 packets (`pm4_target_xcc`).
    pub(crate) pm4_target_xcc: u8,
    /// Further parameters of a queue of the render node.
    pub(crate) render: Option<RenderQueue>,
}

/// Parameters of a queue of the render node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderQueue {
    /// Priority among all queues, one of `rkfd_abi::mes::priority`.
    pub(crate) level: u8,
    /// Address of its fence in VMID 0.
    pub(crate) fence: u64,
}

impl QueueSpec {
    /// A PM4 queue without memory.
    pub(crate) const PM4: Self = Self {
        format: QueueFormat::Pm4,
        sdma: None,
        ring_va: 0,
        ring_size: 0,
        rptr_va: 0,
        wptr_va: 0,
        wptr_kernel: 0,
        eop_va: 0,
        eop_size: 0,
        cwsr_va: 0,
        cwsr_size: 0,
        ctl_stack_size: 0,
        tba: 0,
        priority: 0,
        percent: 100,
        doorbell: 0,
        gws: false,
        pm4_target_xcc: 0,
        render: None,
    };

    /// Returns whether the queue can be active (C: `QUEUE_IS_ACTIVE`).
    pub(crate) fn is_runnable(&self) -> bool {
        self.ring_size > 0 && self.ring_va != 0 && self.percent > 0
    }
}

/// Byte offset of the masks of CUs and render backends, two dwords, from the start of the MQD of a
/// KIQ (`dynamic_cu_mask` of `struct v9_mqd_allocation`).
pub(crate) const KIQ_DYNAMIC_MASKS: usize = 2056;

/// Kind of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MqdKind {
    /// A compute queue of a user process.
    User,
    /// A compute queue of the render node.
    Render,
    /// Hardware interface queue (HIQ).
    Hiq,
    /// Kernel interface queue (KIQ).
    Kiq,
    /// MES ring.
    Mes,
}

/// MQD parameters besides the [`QueueSpec`].
pub(crate) struct MqdContext {
    /// Kind of queue.
    pub(crate) kind: MqdKind,
    /// Address of the MQD for the CP.
    pub(crate) addr: u64,
    /// Logical number of the XCC within the partition.
    pub(crate) xcc: u32,
    /// XCCs of the partition.
    pub(crate) num_xcc: u32,
    /// Share of an AQL dispatch that the first of them takes, modulo their number; the others take
    /// the following ones (C: `current_logical_xcc_start`).
    pub(crate) first_share: u32,
    /// Bytes from the MQD of one XCC to that of the next.
    pub(crate) stride: u32,
    /// Firmware may send AtomicOp requests to system memory.
    pub(crate) pci_atomics: bool,
}

/// Compute MQDs.
pub(crate) trait MqdHal: Sync {
    /// Returns the dwords of an MQD.
    fn dwords(&self) -> usize;

    /// Initialises a zeroed MQD. `EINVAL` for a wrong length or a kind that the generation lacks.
    fn init(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut [u32]) -> Result;

    /// Updates the fields that may change during the life of a queue.
    fn update(&self, cx: &MqdContext, spec: &QueueSpec, image: &mut dyn Words);

    /// Sets the CU mask of an XCC, one dword per shader engine.
    fn set_cu_mask(&self, masks: &[u32], image: &mut dyn Words);

    /// Returns the number of dwords of a CU mask: one per shader engine.
    fn cu_mask_dwords(&self) -> usize;

    /// Reads the CU mask to `mask`. Does not sleep.
    fn cu_mask(&self, image: &mut dyn Words, mask: &mut [u32]);

    /// Sets whether performance counters count the waves of the queue.
    fn set_perfcount(&self, enable: bool, image: &mut dyn Words);

    /// Returns the use of the context save area.
    fn save_state(&self, image: &mut dyn Words) -> SaveState;
}

/// Use of a queue's context save area: the control stack grows down from `stack_size`, the wave
/// state grows up from there. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SaveState {
    /// Size of the control stack.
    pub(crate) stack_size: u32,
    /// Offset of its start.
    pub(crate) stack_offset: u32,
    /// Offset of the end of the wave state.
    pub(crate) state_offset: u32,
}

/// Access to MQD dwords, in system memory or in VRAM, where reads are slow.
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
    /// MQD words of all versions.
    struct MqdWords, mqd_words of name {
        plain {
            header,
            compute_pipelinestat_enable,
            compute_perfcount_enable,
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
    /// Fields of these words in all versions.
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

/// MQD layout and numbers of a version.
pub(super) struct MqdCommon {
    /// Dwords of an MQD.
    pub(super) dwords: usize,
    /// Words.
    pub(super) at: MqdWords,
    /// Fields.
    pub(super) fields: MqdFields,
    /// Dwords of the CU masks (static_thread_mgmt), one per shader engine.
    pub(super) se_masks: &'static [usize],
    /// MQD header magic.
    pub(super) header: u32,
    /// CP_HQD_PERSISTENT_STATE.PRELOAD_SIZE (`init_mqd`, `kfd_mqd_manager_v9.c`,
    /// `kfd_mqd_manager_v12.c`).
    pub(super) preload_size: u32,
    /// `cp_hqd_hq_status0` bit that enables DISPATCH_PTR, for debuggers (`init_mqd`).
    pub(super) dispatch_ptr: u32,
    /// `cp_hqd_hq_status0` bit for AtomicOp requests of firmware, 0 for none (`init_mqd`).
    pub(super) pci_atomics: u32,
}

/// A version of the compute MQD.
pub(super) trait MqdVersion: Sync {
    /// Layout and numbers.
    const COMMON: &'static MqdCommon;
    /// Further fields of CP_HQD_IB_CONTROL.
    const IB_CONTROL: Value<name::CP_HQD_IB_CONTROL>;

    /// Initialises the MQD of a kind of queue; the common part is done. `EINVAL` for a kind that
    /// the generation lacks.
    fn init(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) -> Result;

    /// Adds this version's fields to CP_HQD_PQ_CONTROL.
    fn pq_control(
        cx: &MqdContext,
        spec: &QueueSpec,
        value: Value<name::CP_HQD_PQ_CONTROL>,
    ) -> Value<name::CP_HQD_PQ_CONTROL>;

    /// Updates the mutable fields of this version.
    fn update(cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
        let _ = (cx, spec, m);
    }
}

/// Maximum CP_HQD_EOP_CONTROL.EOP_SIZE (`update_mqd`: `min(0xA, ...)`).
const MAX_EOP_SIZE: u32 = 0xa;

/// CU masks that kernel rings set (`gfx_v9_4_3_xcc_mqd_init`, `mes_v12_0_mqd_init`).
const RING_ENGINES: usize = 4;

/// Maps a user priority to a pipe priority: low, medium, high (`pipe_priority_map`,
/// `kfd_mqd_manager.c`).
const fn pipe_priority(priority: u8) -> u32 {
    match priority {
        0..=6 => 0,
        7..=10 => 1,
        _ => 2,
    }
}

/// Returns log2, rounded up.
pub(super) const fn order(value: u32) -> u32 {
    value.next_power_of_two().trailing_zeros()
}

/// Returns CP_HQD_PQ_CONTROL.QUEUE_SIZE: log2 of the ring's dwords, less one.
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

    /// Enables all CUs of the first `engines` shader engines.
    fn allow_engines(&self, engines: usize, m: &mut [u32]) {
        for mask in self.se_masks.iter().take(engines) {
            m[*mask] = !0;
        }
    }

    /// Returns CP_HQD_QUANTUM of a queue (`init_mqd`).
    pub(super) fn quantum(&self) -> Value<name::CP_HQD_QUANTUM> {
        let f = &self.fields;
        f.CP_HQD_QUANTUM__QUANTUM_EN.put(1)
            | f.CP_HQD_QUANTUM__QUANTUM_SCALE.put(1)
            | f.CP_HQD_QUANTUM__QUANTUM_DURATION.put(1)
    }

    /// Initialises the MQD of a queue that the scheduler maps (`init_mqd`).
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
        let atomics = if cx.pci_atomics { self.pci_atomics } else { 0 };
        m[at.cp_hqd_hq_status0] = self.dispatch_ptr | atomics;
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

    /// See [`MqdHal::save_state`].
    pub(super) fn save_state(&self, image: &mut dyn Words) -> SaveState {
        SaveState {
            stack_size: image.get(self.at.cp_hqd_cntl_stack_size),
            stack_offset: image.get(self.at.cp_hqd_cntl_stack_offset),
            state_offset: image.get(self.at.cp_hqd_wg_state_offset),
        }
    }

    /// Initialises the MQD of a kernel ring that is loaded by registers. Control words and further
    /// alignment are the version's.
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

/// Updates the mutable fields of a queue that the scheduler maps (`update_mqd`).
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

    fn set_perfcount(&self, enable: bool, image: &mut dyn Words) {
        image.set(T::COMMON.at.compute_perfcount_enable, enable.into());
    }

    fn set_cu_mask(&self, masks: &[u32], image: &mut dyn Words) {
        for (i, at) in T::COMMON.se_masks.iter().enumerate() {
            // Absent shader engines get an empty mask.
            image.set(*at, masks.get(i).copied().unwrap_or(0));
        }
    }

    fn cu_mask_dwords(&self) -> usize {
        T::COMMON.se_masks.len()
    }

    fn cu_mask(&self, image: &mut dyn Words, mask: &mut [u32]) {
        for (dword, at) in mask.iter_mut().zip(T::COMMON.se_masks) {
            *dword = image.get(*at);
        }
    }

    fn save_state(&self, image: &mut dyn Words) -> SaveState {
        T::COMMON.save_state(image)
    }
}
