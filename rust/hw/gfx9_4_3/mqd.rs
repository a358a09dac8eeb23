// SPDX-License-Identifier: GPL-2.0

//! Compute MQDs: the values that a queue starts with.

use kernel::prelude::*;
use rkfd_abi::{
    mqd::v9::{dw, Mqd as Image},
    regs::gc_9_4_3 as gc,
};

use crate::hw::{MqdContext, MqdHal, MqdKind, QueueFormat, QueueSpec, Words};

/// See the file.
pub(super) struct Mqd;

/// The header by which the firmware knows an MQD.
const HEADER: u32 = 0xc031_0800;
/// Words that are preloaded when a queue is connected.
const PRELOAD_SIZE: u32 = 0x53;
/// The largest end-of-pipe ring that the hardware handles, as its size field counts.
const MAX_EOP_SIZE: u32 = 0xa;
/// Makes the CP keep the address of the dispatch for a debugger.
const HQ_STATUS_DISPATCH_PTR: u32 = 1 << 14;
/// A misc word that the kernel's own queues carry.
const KIQ_MISC_RESERVED: u32 = 3;

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// The hardware's idea of a user priority: low, medium, high.
const fn pipe_priority(priority: u8) -> u32 {
    match priority {
        0..=6 => 0,
        7..=10 => 1,
        _ => 2,
    }
}

/// log2, rounded up.
const fn order(value: u32) -> u32 {
    value.next_power_of_two().trailing_zeros()
}

fn image(words: &mut [u32]) -> Result<&mut Image> {
    let words = words.try_into().map_err(|_| EINVAL)?;
    Ok(Image::from_dwords(words))
}

fn pq_size(spec: &QueueSpec) -> u32 {
    order(spec.ring_size / 4).saturating_sub(1)
}

/// What a user queue and the HIQ have in common.
fn init_scheduled(cx: &MqdContext, spec: &QueueSpec, m: &mut Image) {
    m.cp_hqd_persistent_state = gc::CP_HQD_PERSISTENT_STATE__PRELOAD_REQ.put(1)
        | gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.put(PRELOAD_SIZE);
    m.cp_hqd_pq_control = gc::CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE.put(5)
        | gc::CP_HQD_PQ_CONTROL__UNORD_DISPATCH.put(1);
    m.cp_mqd_control = gc::CP_MQD_CONTROL__PRIV_STATE.put(1);
    m.cp_hqd_quantum = quantum();
    m.cp_hqd_hq_status0 = HQ_STATUS_DISPATCH_PTR;
    if spec.format == QueueFormat::Aql {
        m.cp_hqd_aql_control = gc::CP_HQD_AQL_CONTROL__CONTROL0.put(1);
    }
    if spec.tba != 0 {
        m.compute_pgm_rsrc2 |= gc::COMPUTE_PGM_RSRC2__TRAP_PRESENT.put(1);
    }
    if spec.cwsr_va != 0 {
        let area = spec.cwsr_va + u64::from(cx.xcc) * u64::from(spec.cwsr_size);
        m.cp_hqd_persistent_state |= gc::CP_HQD_PERSISTENT_STATE__QSWITCH_MODE.put(1);
        m.cp_hqd_ctx_save_base_addr_lo = lo(area);
        m.cp_hqd_ctx_save_base_addr_hi = hi(area);
        m.cp_hqd_ctx_save_size = spec.cwsr_size;
        m.cp_hqd_cntl_stack_size = spec.ctl_stack_size;
        m.cp_hqd_cntl_stack_offset = spec.ctl_stack_size;
        m.cp_hqd_wg_state_offset = spec.ctl_stack_size;
    }
    m.cp_mqd_stride_size = cx.stride;
}

fn quantum() -> u32 {
    gc::CP_HQD_QUANTUM__QUANTUM_EN.put(1)
        | gc::CP_HQD_QUANTUM__QUANTUM_SCALE.put(1)
        | gc::CP_HQD_QUANTUM__QUANTUM_DURATION.put(1)
}

/// What may change in the life of a queue.
fn update_scheduled(cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
    let aql = spec.format == QueueFormat::Aql;
    let mut pq_control =
        gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.set(m.get(dw::cp_hqd_pq_control), pq_size(spec));
    let mut doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.put(spec.doorbell);
    if aql {
        pq_control |= gc::CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR.put(2)
            | gc::CP_HQD_PQ_CONTROL__QUEUE_FULL_EN.put(1)
            | gc::CP_HQD_PQ_CONTROL__WPP_CLAMP_EN.put(1);
        // Only the first XCC reports how far the queue was read.
        pq_control = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.set(pq_control, (cx.xcc != 0).into());
        doorbell |= gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_BIF_DROP.put(1);
    }
    let eop_control = if spec.eop_size > 0 {
        order(spec.eop_size / 8).min(MAX_EOP_SIZE)
    } else {
        0
    };
    let ib_control = gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.put(3)
        | gc::CP_HQD_IB_CONTROL__IB_EXE_DISABLE.put(1);
    let limits = gc::COMPUTE_RESOURCE_LIMITS__FORCE_SIMD_DIST
        .set(m.get(dw::compute_resource_limits), spec.gws.into());
    for (dword, value) in [
        (dw::cp_hqd_pq_control, pq_control),
        (dw::cp_hqd_pq_base_lo, lo(spec.ring_va >> 8)),
        (dw::cp_hqd_pq_base_hi, hi(spec.ring_va >> 8)),
        (dw::cp_hqd_pq_rptr_report_addr_lo, lo(spec.rptr_va)),
        (dw::cp_hqd_pq_rptr_report_addr_hi, hi(spec.rptr_va)),
        (dw::cp_hqd_pq_wptr_poll_addr_lo, lo(spec.wptr_va)),
        (dw::cp_hqd_pq_wptr_poll_addr_hi, hi(spec.wptr_va)),
        (dw::cp_hqd_pq_doorbell_control, doorbell),
        (dw::cp_hqd_ib_control, ib_control),
        (dw::cp_hqd_eop_control, eop_control),
        (dw::cp_hqd_eop_base_addr_lo, lo(spec.eop_va >> 8)),
        (dw::cp_hqd_eop_base_addr_hi, hi(spec.eop_va >> 8)),
        (dw::cp_hqd_iq_timer, 0),
        (dw::cp_hqd_vmid, 0),
        (dw::cp_hqd_pipe_priority, pipe_priority(spec.priority)),
        (dw::compute_resource_limits, limits),
    ] {
        m.set(dword, value);
    }
    if spec.cwsr_va != 0 {
        m.set(dw::cp_hqd_ctx_save_control, 0);
    }
}

/// A user queue's share of the work, for nodes of several XCCs.
fn set_xcc_share(cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
    match spec.format {
        QueueFormat::Aql => {
            m.set(dw::compute_tg_chunk_size, 1);
            m.set(dw::compute_current_logic_xcc_id, cx.xcc % cx.num_xcc);
        }
        QueueFormat::Pm4 => {
            m.set(dw::compute_current_logic_xcc_id, 0);
            m.set(dw::compute_tg_chunk_size, 0);
            m.set(dw::pm4_target_xcc_in_xcp, spec.pm4_target_xcc.into());
        }
    }
}

/// The KIQ is not connected by the scheduler: all of it goes into registers as it is.
fn init_kiq(cx: &MqdContext, spec: &QueueSpec, m: &mut Image) {
    m.compute_misc_reserved = KIQ_MISC_RESERVED;
    let masks = cx.addr + (Image::DWORDS * 4) as u64;
    m.dynamic_cu_mask_addr_lo = lo(masks);
    m.dynamic_cu_mask_addr_hi = hi(masks);
    m.cp_hqd_eop_base_addr_lo = lo(spec.eop_va >> 8);
    m.cp_hqd_eop_base_addr_hi = hi(spec.eop_va >> 8);
    m.cp_hqd_eop_control = gc::CP_HQD_EOP_CONTROL__EOP_SIZE.put(order(spec.eop_size / 4) - 1);
    m.cp_hqd_pq_doorbell_control = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET
        .put(spec.doorbell)
        | gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.put(1);
    m.cp_hqd_pq_base_lo = lo(spec.ring_va >> 8);
    m.cp_hqd_pq_base_hi = hi(spec.ring_va >> 8);
    m.cp_hqd_pq_control = gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.put(pq_size(spec))
        | gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
        | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1);
    m.cp_hqd_pq_rptr_report_addr_lo = lo(spec.rptr_va) & !3;
    m.cp_hqd_pq_rptr_report_addr_hi = hi(spec.rptr_va) & 0xffff;
    m.cp_hqd_pq_wptr_poll_addr_lo = lo(spec.wptr_va) & !3;
    m.cp_hqd_pq_wptr_poll_addr_hi = hi(spec.wptr_va) & 0xffff;
    m.cp_hqd_persistent_state = gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.put(PRELOAD_SIZE);
    m.cp_hqd_ib_control = gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.put(3);
    m.cp_hqd_quantum = quantum();
    m.cp_hqd_active = 1;
}

impl MqdHal for Mqd {
    fn dwords(&self) -> usize {
        Image::DWORDS
    }

    fn init(&self, cx: &MqdContext, spec: &QueueSpec, words: &mut [u32]) -> Result {
        let m = image(words)?;
        m.header = HEADER;
        m.compute_pipelinestat_enable = 1;
        m.compute_static_thread_mgmt_se0 = !0;
        m.compute_static_thread_mgmt_se1 = !0;
        m.compute_static_thread_mgmt_se2 = !0;
        m.compute_static_thread_mgmt_se3 = !0;
        m.cp_mqd_base_addr_lo = lo(cx.addr);
        m.cp_mqd_base_addr_hi = hi(cx.addr);
        match cx.kind {
            MqdKind::Kiq => init_kiq(cx, spec, m),
            MqdKind::Hiq => {
                init_scheduled(cx, spec, m);
                // The HIQ keeps what a queue gets in the place of further shader engines.
                m.compute_current_logic_xcc_id = !0;
                m.compute_restart_cg_tg_id = !0;
                m.compute_tg_chunk_size = !0;
                m.compute_restore_tg_chunk_size = !0;
                update_scheduled(cx, spec, m.dwords_mut());
                m.cp_hqd_pq_control |= gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
                    | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1)
                    | gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put((cx.xcc != 0).into());
            }
            MqdKind::User => {
                init_scheduled(cx, spec, m);
                m.compute_restart_cg_tg_id = !0;
                m.compute_restore_tg_chunk_size = !0;
                update_scheduled(cx, spec, m.dwords_mut());
                set_xcc_share(cx, spec, m.dwords_mut());
            }
            MqdKind::Mes => return Err(EINVAL),
        }
        Ok(())
    }

    fn update(&self, cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
        update_scheduled(cx, spec, m);
        match spec.format {
            QueueFormat::Aql => m.set(dw::compute_tg_chunk_size, 1),
            QueueFormat::Pm4 => set_xcc_share(cx, spec, m),
        }
    }

    fn set_cu_mask(&self, masks: &[u32], m: &mut dyn Words) -> Result {
        for (i, dword) in [
            dw::compute_static_thread_mgmt_se0,
            dw::compute_static_thread_mgmt_se1,
            dw::compute_static_thread_mgmt_se2,
            dw::compute_static_thread_mgmt_se3,
        ]
        .into_iter()
        .enumerate()
        {
            m.set(dword, masks.get(i).copied().ok_or(EINVAL)?);
        }
        Ok(())
    }
}

/// Words of an image that go into registers, and the words' names in the image.
pub(super) const KIQ_RESET_MERGE: &[(rkfd_abi::regs::Reg, usize, u32)] = &[
    (
        gc::regCP_HQD_EOP_CONTROL,
        dw::cp_hqd_eop_control,
        gc::CP_HQD_EOP_CONTROL__EOP_SIZE.mask,
    ),
    (
        gc::regCP_MQD_CONTROL,
        dw::cp_mqd_control,
        gc::CP_MQD_CONTROL__VMID.mask,
    ),
    (
        gc::regCP_HQD_PQ_CONTROL,
        dw::cp_hqd_pq_control,
        gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.mask
            | gc::CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE.mask
            | gc::CP_HQD_PQ_CONTROL__UNORD_DISPATCH.mask
            | gc::CP_HQD_PQ_CONTROL__ROQ_PQ_IB_FLIP.mask
            | gc::CP_HQD_PQ_CONTROL__PRIV_STATE.mask
            | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.mask,
    ),
    (
        gc::regCP_HQD_PERSISTENT_STATE,
        dw::cp_hqd_persistent_state,
        gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.mask,
    ),
    (
        gc::regCP_HQD_IB_CONTROL,
        dw::cp_hqd_ib_control,
        gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.mask,
    ),
    (
        gc::regCP_HQD_QUANTUM,
        dw::cp_hqd_quantum,
        gc::CP_HQD_QUANTUM__QUANTUM_EN.mask
            | gc::CP_HQD_QUANTUM__QUANTUM_SCALE.mask
            | gc::CP_HQD_QUANTUM__QUANTUM_DURATION.mask,
    ),
];
