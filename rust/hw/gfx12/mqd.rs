// SPDX-License-Identifier: GPL-2.0

//! Compute MQDs: the values that a queue starts with, and those of the rings of MES.

use kernel::prelude::*;
use rkfd_abi::{
    mqd::v12::{dw, Mqd as Image, HEADER, HQ_STATUS0_DISPATCH_PTR},
    regs::gc_12_0_0 as gc,
};

use crate::hw::{MqdContext, MqdHal, MqdKind, QueueFormat, QueueSpec, Words};

/// See the file.
pub(super) struct Mqd;

/// Words that are preloaded when a queue is connected.
const PRELOAD_SIZE: u32 = 0x55;
/// The largest end-of-pipe ring that the hardware handles, as its size field counts.
const MAX_EOP_SIZE: u32 = 0xa;
/// A misc word that the kernel's own queues carry.
const MISC_RESERVED: u32 = 7;
/// What registers of a queue slot hold before the driver's fields are put in.
const EOP_CONTROL_DEFAULT: u32 = 0x0000_0006;
const MQD_CONTROL_DEFAULT: u32 = 0x0000_0100;
const PQ_CONTROL_DEFAULT: u32 = 0x0030_8509;
const PERSISTENT_STATE_DEFAULT: u32 = 0x0be0_5501;
const IB_CONTROL_DEFAULT: u32 = 0x0030_0000;
const QUANTUM_DEFAULT: u32 = 0x0000_0a00;
/// Log2 of a page's words, less one: how much of a ring is read until its pointer is reported.
const RPTR_BLOCK_PAGE: u32 = 9;
/// The word of a MES ring's image that goes to a register of the CP's own: [`DB_UPDATED`].
const GFX_CONTROL: usize = 184;
/// Doorbells of queues that are not on the hardware are told to the scheduler.
const DB_UPDATED: u32 = gc::CP_HQD_GFX_CONTROL__DB_UPDATED_MSG_EN.put(1);

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

fn init_user(spec: &QueueSpec, m: &mut Image) {
    m.compute_static_thread_mgmt_se4 = !0;
    m.compute_static_thread_mgmt_se5 = !0;
    m.compute_static_thread_mgmt_se6 = !0;
    m.compute_static_thread_mgmt_se7 = !0;
    m.cp_hqd_persistent_state = gc::CP_HQD_PERSISTENT_STATE__PRELOAD_REQ.put(1)
        | gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.put(PRELOAD_SIZE);
    m.cp_hqd_pq_control = gc::CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE.put(5)
        | gc::CP_HQD_PQ_CONTROL__UNORD_DISPATCH.put(1);
    m.cp_mqd_control = gc::CP_MQD_CONTROL__PRIV_STATE.put(1);
    m.cp_hqd_quantum = gc::CP_HQD_QUANTUM__QUANTUM_EN.put(1)
        | gc::CP_HQD_QUANTUM__QUANTUM_SCALE.put(1)
        | gc::CP_HQD_QUANTUM__QUANTUM_DURATION.put(1);
    m.cp_hqd_hq_status0 = HQ_STATUS0_DISPATCH_PTR;
    if spec.format == QueueFormat::Aql {
        m.cp_hqd_aql_control = gc::CP_HQD_AQL_CONTROL__CONTROL0.put(1);
    }
    if spec.cwsr_va != 0 {
        m.cp_hqd_persistent_state |= gc::CP_HQD_PERSISTENT_STATE__QSWITCH_MODE.put(1);
        m.cp_hqd_ctx_save_base_addr_lo = lo(spec.cwsr_va);
        m.cp_hqd_ctx_save_base_addr_hi = hi(spec.cwsr_va);
        m.cp_hqd_ctx_save_size = spec.cwsr_size;
        m.cp_hqd_cntl_stack_size = spec.ctl_stack_size;
        m.cp_hqd_cntl_stack_offset = spec.ctl_stack_size;
        m.cp_hqd_wg_state_offset = spec.ctl_stack_size;
    }
}

/// What may change in the life of a queue.
fn update_user(spec: &QueueSpec, m: &mut dyn Words) {
    let mut pq_control =
        gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.set(m.get(dw::cp_hqd_pq_control), pq_size(spec));
    let mut doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.put(spec.doorbell);
    if spec.format == QueueFormat::Aql {
        pq_control |= gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put(1)
            | gc::CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR.put(2)
            | gc::CP_HQD_PQ_CONTROL__QUEUE_FULL_EN.put(1);
        doorbell |= gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_BIF_DROP.put(1);
    }
    let eop_control = if spec.eop_size > 0 {
        order(spec.eop_size / 8).min(MAX_EOP_SIZE)
    } else {
        0
    };
    let ib_control = gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.put(3);
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
    ] {
        m.set(dword, value);
    }
    if spec.cwsr_va != 0 {
        m.set(dw::cp_hqd_ctx_save_control, 0);
    }
}

/// A ring of MES: one goes into registers as it is, the other is mapped through it.
fn init_mes(spec: &QueueSpec, m: &mut Image) {
    m.compute_misc_reserved = MISC_RESERVED;
    m.cp_hqd_eop_base_addr_lo = lo(spec.eop_va >> 8);
    m.cp_hqd_eop_base_addr_hi = hi(spec.eop_va >> 8);
    m.cp_hqd_eop_control = gc::CP_HQD_EOP_CONTROL__EOP_SIZE
        .set(EOP_CONTROL_DEFAULT, order(spec.eop_size / 4).max(1) - 1);
    m.cp_mqd_control = gc::CP_MQD_CONTROL__VMID.set(MQD_CONTROL_DEFAULT, 0);
    m.cp_hqd_pq_base_lo = lo(spec.ring_va >> 8);
    m.cp_hqd_pq_base_hi = hi(spec.ring_va >> 8);
    m.cp_hqd_pq_rptr_report_addr_lo = lo(spec.rptr_va) & !3;
    m.cp_hqd_pq_rptr_report_addr_hi = hi(spec.rptr_va) & 0xffff;
    m.cp_hqd_pq_wptr_poll_addr_lo = lo(spec.wptr_va) & !7;
    m.cp_hqd_pq_wptr_poll_addr_hi = hi(spec.wptr_va) & 0xffff;
    let fields = [
        (gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE, pq_size(spec)),
        (gc::CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE, RPTR_BLOCK_PAGE),
        (gc::CP_HQD_PQ_CONTROL__UNORD_DISPATCH, 1),
        (gc::CP_HQD_PQ_CONTROL__TUNNEL_DISPATCH, 0),
        (gc::CP_HQD_PQ_CONTROL__PRIV_STATE, 1),
        (gc::CP_HQD_PQ_CONTROL__KMD_QUEUE, 1),
        (gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR, 1),
    ];
    m.cp_hqd_pq_control = fields
        .iter()
        .fold(PQ_CONTROL_DEFAULT, |v, (field, to)| field.set(v, *to));
    m.cp_hqd_pq_doorbell_control = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET
        .put(spec.doorbell)
        | gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.put(1);
    m.cp_hqd_vmid = 0;
    m.cp_hqd_active = 1;
    m.cp_hqd_persistent_state =
        gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.set(PERSISTENT_STATE_DEFAULT, PRELOAD_SIZE);
    m.cp_hqd_ib_control = IB_CONTROL_DEFAULT;
    m.cp_hqd_iq_timer = 0;
    m.cp_hqd_quantum = QUANTUM_DEFAULT;
    m.dwords_mut()[GFX_CONTROL] = DB_UPDATED;
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
        m.cp_mqd_base_addr_lo = lo(cx.addr) & !3;
        m.cp_mqd_base_addr_hi = hi(cx.addr);
        match cx.kind {
            MqdKind::User => {
                init_user(spec, m);
                update_user(spec, m.dwords_mut());
            }
            MqdKind::Mes => init_mes(spec, m),
            MqdKind::Hiq | MqdKind::Kiq => return Err(EINVAL),
        }
        Ok(())
    }

    fn update(&self, _cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
        update_user(spec, m);
    }

    fn set_cu_mask(&self, masks: &[u32], m: &mut dyn Words) -> Result {
        for (i, dword) in [
            dw::compute_static_thread_mgmt_se0,
            dw::compute_static_thread_mgmt_se1,
            dw::compute_static_thread_mgmt_se2,
            dw::compute_static_thread_mgmt_se3,
            dw::compute_static_thread_mgmt_se4,
            dw::compute_static_thread_mgmt_se5,
            dw::compute_static_thread_mgmt_se6,
            dw::compute_static_thread_mgmt_se7,
        ]
        .into_iter()
        .enumerate()
        {
            // Engines that the card does not have get none.
            m.set(dword, masks.get(i).copied().unwrap_or(0));
        }
        Ok(())
    }
}
