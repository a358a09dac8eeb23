// SPDX-License-Identifier: GPL-2.0

//! Compute MQDs of gfx9: initial values.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    mqd::v9::{dw, Mqd as Image, HEADER},
    regs::{gc_9_4_3 as gc, name, Field, Reg, Untyped, Value, Word},
};

use crate::hw::mqd::{
    mqd_fields, mqd_words, order, pq_size, update_scheduled, MqdCommon, MqdContext, MqdFields,
    MqdKind, MqdVersion, MqdWords, QueueFormat, QueueSpec, Words, KIQ_DYNAMIC_MASKS,
};

/// Compute MQDs of gfx9 (`struct v9_mqd`, `v9_structs.h`).
pub(super) struct Mqd;

/// Places of the MQD words.
pub(super) const AT: MqdWords = mqd_words!(dw);
const PGM_RSRC2: Word<name::COMPUTE_PGM_RSRC2> = Word::new(dw::compute_pgm_rsrc2);
const RESOURCE_LIMITS: Word<name::COMPUTE_RESOURCE_LIMITS> = Word::new(dw::compute_resource_limits);

static COMMON: MqdCommon = MqdCommon {
    dwords: Image::DWORDS,
    at: AT,
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
    pci_atomics: 0,
};

/// `compute_misc_reserved` of kernel queues (`gfx_v9_4_3_xcc_mqd_init`, `mes_v12_0_mqd_init`).
const KIQ_MISC_RESERVED: u32 = 3;

// Behind `struct v9_mqd`, `wptr_poll_mem` and `rptr_report_mem`.
const _: () = assert!(KIQ_DYNAMIC_MASKS == Image::DWORDS * 4 + 8);

/// Initialises what user queues and the HIQ share (`init_mqd`, `kfd_mqd_manager_v9.c`).
fn init_scheduled(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
    COMMON.init_scheduled(cx, spec, m);
    update_scheduled::<Mqd>(cx, spec, &mut &mut *m);
    set_limits(spec, &mut &mut *m);
    if spec.tba != 0 {
        PGM_RSRC2.or(m, gc::COMPUTE_PGM_RSRC2__TRAP_PRESENT.put(1));
    }
    m[dw::cp_mqd_stride_size] = cx.stride;
}

/// Sets the XCC's share of a user queue (`init_mqd_v9_4_3`).
fn set_xcc_share(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
    match spec.format {
        QueueFormat::Aql => {
            m[dw::compute_tg_chunk_size] = 1;
            m[dw::compute_current_logic_xcc_id] = cx.first_share.wrapping_add(cx.xcc) % cx.num_xcc;
        }
        QueueFormat::Pm4 => set_pm4_share(spec, &mut &mut *m),
    }
}

/// PM4 queues run on one XCC (`update_mqd_v9_4_3`).
fn set_pm4_share(spec: &QueueSpec, m: &mut dyn Words) {
    m.set(dw::compute_current_logic_xcc_id, 0);
    m.set(dw::compute_tg_chunk_size, 0);
    m.set(dw::pm4_target_xcc_in_xcp, spec.pm4_target_xcc.into());
}

/// Sets FORCE_SIMD_DIST for queues with GWS (`update_mqd`, `kfd_mqd_manager_v9.c`).
fn set_limits(spec: &QueueSpec, m: &mut dyn Words) {
    let alone = gc::COMPUTE_RESOURCE_LIMITS__FORCE_SIMD_DIST;
    let limits = m.read(RESOURCE_LIMITS).set(alone, spec.gws.into());
    m.write(RESOURCE_LIMITS, limits);
}

/// Initialises the MQD of the KIQ, which is loaded by registers (`gfx_v9_4_3_xcc_mqd_init`).
fn init_kiq(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) {
    COMMON.init_ring(spec, m);
    m[dw::compute_misc_reserved] = KIQ_MISC_RESERVED;
    let masks = cx.addr + KIQ_DYNAMIC_MASKS as u64;
    m[dw::dynamic_cu_mask_addr_lo] = lo(masks);
    m[dw::dynamic_cu_mask_addr_hi] = hi(masks);
    AT.cp_hqd_eop_control.set(
        m,
        gc::CP_HQD_EOP_CONTROL__EOP_SIZE.put(order(spec.eop_size / 4) - 1),
    );
    AT.cp_hqd_pq_control.set(
        m,
        gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.put(pq_size(spec))
            | gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
            | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1),
    );
    AT.cp_hqd_persistent_state.set(
        m,
        gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE.put(COMMON.preload_size),
    );
    AT.cp_hqd_ib_control
        .set(m, gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.put(3));
    AT.cp_hqd_quantum.set(m, COMMON.quantum());
}

impl MqdVersion for Mqd {
    const COMMON: &'static MqdCommon = &COMMON;
    const IB_CONTROL: Value<name::CP_HQD_IB_CONTROL> = gc::CP_HQD_IB_CONTROL__IB_EXE_DISABLE.put(1);

    fn init(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) -> Result {
        match cx.kind {
            MqdKind::Kiq => init_kiq(cx, spec, m),
            MqdKind::Hiq => {
                init_scheduled(cx, spec, m);
                // These dwords alias static_thread_mgmt_se4 to se7, which the HIQ sets to all CUs.
                m[dw::compute_current_logic_xcc_id] = !0;
                m[dw::compute_restart_cg_tg_id] = !0;
                m[dw::compute_tg_chunk_size] = !0;
                m[dw::compute_restore_tg_chunk_size] = !0;
                AT.cp_hqd_pq_control.or(
                    m,
                    gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
                        | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1)
                        | gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put((cx.xcc != 0).into()),
                );
            }
            MqdKind::User => {
                init_scheduled(cx, spec, m);
                m[dw::compute_restart_cg_tg_id] = !0;
                m[dw::compute_restore_tg_chunk_size] = !0;
                set_xcc_share(cx, spec, m);
            }
            MqdKind::Mes | MqdKind::Render => return Err(EINVAL),
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

    fn pq_control(
        cx: &MqdContext,
        spec: &QueueSpec,
        value: Value<name::CP_HQD_PQ_CONTROL>,
    ) -> Value<name::CP_HQD_PQ_CONTROL> {
        if spec.format != QueueFormat::Aql {
            return value;
        }
        // Only the first XCC reports the read pointer.
        gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.set(value, (cx.xcc != 0).into())
            | gc::CP_HQD_PQ_CONTROL__WPP_CLAMP_EN.put(1)
    }
}

/// Returns an MQD word of which the driver sets these fields; other bits come from the register.
const fn merge<R>(reg: Reg<R>, word: Word<R>, ours: &[Field<R>]) -> (Reg<Untyped>, usize, u32) {
    let mut mask = 0;
    let mut i = 0;
    while i < ours.len() {
        mask |= ours[i].mask();
        i += 1;
    }
    (reg.untyped(), word.index(), mask)
}

/// Registers merged into the KIQ's MQD: register, dword, mask of the driver's bits.
pub(super) const KIQ_RESET_MERGE: &[(Reg<Untyped>, usize, u32)] = &[
    merge(
        gc::regCP_HQD_EOP_CONTROL,
        AT.cp_hqd_eop_control,
        &[gc::CP_HQD_EOP_CONTROL__EOP_SIZE],
    ),
    merge(
        gc::regCP_MQD_CONTROL,
        AT.cp_mqd_control,
        &[gc::CP_MQD_CONTROL__VMID],
    ),
    merge(
        gc::regCP_HQD_PQ_CONTROL,
        AT.cp_hqd_pq_control,
        &[
            gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE,
            gc::CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE,
            gc::CP_HQD_PQ_CONTROL__UNORD_DISPATCH,
            gc::CP_HQD_PQ_CONTROL__ROQ_PQ_IB_FLIP,
            gc::CP_HQD_PQ_CONTROL__PRIV_STATE,
            gc::CP_HQD_PQ_CONTROL__KMD_QUEUE,
        ],
    ),
    merge(
        gc::regCP_HQD_PERSISTENT_STATE,
        AT.cp_hqd_persistent_state,
        &[gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE],
    ),
    merge(
        gc::regCP_HQD_IB_CONTROL,
        AT.cp_hqd_ib_control,
        &[gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE],
    ),
    merge(
        gc::regCP_HQD_QUANTUM,
        AT.cp_hqd_quantum,
        &[
            gc::CP_HQD_QUANTUM__QUANTUM_EN,
            gc::CP_HQD_QUANTUM__QUANTUM_SCALE,
            gc::CP_HQD_QUANTUM__QUANTUM_DURATION,
        ],
    ),
];
