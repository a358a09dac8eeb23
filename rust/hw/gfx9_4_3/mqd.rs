// SPDX-License-Identifier: GPL-2.0

//! Compute MQDs: the values that a queue starts with.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    mqd::v9::{dw, Mqd as Image, HEADER},
    regs::gc_9_4_3 as gc,
};

use crate::hw::{
    mqd::{
        mqd_fields, mqd_words, order, pq_size, update_scheduled, MqdCommon, MqdFields, MqdVersion,
        MqdWords,
    },
    MqdContext, MqdKind, QueueFormat, QueueSpec, Words,
};

/// See the file.
pub(super) struct Mqd;

static COMMON: MqdCommon = MqdCommon {
    dwords: Image::DWORDS,
    at: mqd_words!(dw),
    fields: mqd_fields!(gc),
    se_masks: &[
        dw::compute_static_thread_mgmt_se0,
        dw::compute_static_thread_mgmt_se1,
        dw::compute_static_thread_mgmt_se2,
        dw::compute_static_thread_mgmt_se3,
    ],
    header: HEADER,
    preload_size: 0x53,
    dispatch_ptr: 1 << 14,
};

/// A misc word that the kernel's own queues carry.
const KIQ_MISC_RESERVED: u32 = 3;

/// What a user queue and the HIQ have in common.
fn init_scheduled(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
    COMMON.init_scheduled(cx, spec, m);
    update_scheduled::<Mqd>(cx, spec, &mut &mut *m);
    set_limits(spec, &mut &mut *m);
    if spec.tba != 0 {
        m[dw::compute_pgm_rsrc2] |= gc::COMPUTE_PGM_RSRC2__TRAP_PRESENT.put(1);
    }
    m[dw::cp_mqd_stride_size] = cx.stride;
}

/// A user queue's share of the work, for nodes of several XCCs.
fn set_xcc_share(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
    match spec.format {
        QueueFormat::Aql => {
            m[dw::compute_tg_chunk_size] = 1;
            m[dw::compute_current_logic_xcc_id] = cx.xcc % cx.num_xcc;
        }
        QueueFormat::Pm4 => set_pm4_share(spec, &mut &mut *m),
    }
}

/// The share of a queue of PM4 packets: one XCC's.
fn set_pm4_share(spec: &QueueSpec, m: &mut dyn Words) {
    m.set(dw::compute_current_logic_xcc_id, 0);
    m.set(dw::compute_tg_chunk_size, 0);
    m.set(dw::pm4_target_xcc_in_xcp, spec.pm4_target_xcc.into());
}

/// A queue of which some waves may only run on SIMDs of their own.
fn set_limits(spec: &QueueSpec, m: &mut dyn Words) {
    let limits = m.get(dw::compute_resource_limits);
    let alone = gc::COMPUTE_RESOURCE_LIMITS__FORCE_SIMD_DIST;
    m.set(
        dw::compute_resource_limits,
        alone.set(limits, spec.gws.into()),
    );
}

/// The KIQ is not connected by the scheduler: all of it goes into registers as it is.
fn init_kiq(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
    COMMON.init_ring(spec, m);
    m[dw::compute_misc_reserved] = KIQ_MISC_RESERVED;
    let masks = cx.addr + (Image::DWORDS * 4) as u64;
    m[dw::dynamic_cu_mask_addr_lo] = lo(masks);
    m[dw::dynamic_cu_mask_addr_hi] = hi(masks);
    m[dw::cp_hqd_eop_control] = gc::CP_HQD_EOP_CONTROL__EOP_SIZE.put(order(spec.eop_size / 4) - 1);
    m[dw::cp_hqd_pq_control] = gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.put(pq_size(spec))
        | gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
        | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1);
    m[dw::cp_hqd_persistent_state] =
        gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.put(COMMON.preload_size);
    m[dw::cp_hqd_ib_control] = gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.put(3);
    m[dw::cp_hqd_quantum] = COMMON.quantum();
}

impl MqdVersion for Mqd {
    const COMMON: &'static MqdCommon = &COMMON;
    const IB_CONTROL: u32 = gc::CP_HQD_IB_CONTROL__IB_EXE_DISABLE.put(1);

    fn init(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) -> Result {
        match cx.kind {
            MqdKind::Kiq => init_kiq(cx, spec, m),
            MqdKind::Hiq => {
                init_scheduled(cx, spec, m);
                // The HIQ keeps what a queue gets in the place of further shader engines.
                m[dw::compute_current_logic_xcc_id] = !0;
                m[dw::compute_restart_cg_tg_id] = !0;
                m[dw::compute_tg_chunk_size] = !0;
                m[dw::compute_restore_tg_chunk_size] = !0;
                m[dw::cp_hqd_pq_control] |= gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
                    | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1)
                    | gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put((cx.xcc != 0).into());
            }
            MqdKind::User => {
                init_scheduled(cx, spec, m);
                m[dw::compute_restart_cg_tg_id] = !0;
                m[dw::compute_restore_tg_chunk_size] = !0;
                set_xcc_share(cx, spec, m);
            }
            MqdKind::Mes => return Err(EINVAL),
        }
        Ok(())
    }

    fn update(_cx: &MqdContext, spec: &QueueSpec, m: &mut dyn Words) {
        set_limits(spec, m);
        match spec.format {
            QueueFormat::Aql => m.set(dw::compute_tg_chunk_size, 1),
            QueueFormat::Pm4 => set_pm4_share(spec, m),
        }
    }

    fn pq_control(cx: &MqdContext, spec: &QueueSpec, value: u32) -> u32 {
        if spec.format != QueueFormat::Aql {
            return value;
        }
        // Only the first XCC reports how far the queue was read.
        gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.set(value, (cx.xcc != 0).into())
            | gc::CP_HQD_PQ_CONTROL__WPP_CLAMP_EN.put(1)
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
