// SPDX-License-Identifier: GPL-2.0

//! Compute MQDs of gfx12: initial values of user queues and MES rings.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    mqd::v12::{dw, Mqd as Image, HEADER, HQ_STATUS0_DISPATCH_PTR, HQ_STATUS0_PCIE_ATOMICS},
    regs::{gc_12_0_0 as gc, name, Value, Word},
};

use crate::hw::mqd::{
    mqd_fields, mqd_words, order, pq_size, update_scheduled, MqdCommon, MqdContext, MqdFields,
    MqdKind, MqdVersion, MqdWords, QueueFormat, QueueSpec, RenderQueue,
};

/// Compute MQDs of gfx12 (`struct v12_compute_mqd`, `v12_structs.h`).
pub(super) struct Mqd;

/// Places of the MQD words.
pub(super) const AT: MqdWords = mqd_words!(dw);

static COMMON: MqdCommon = MqdCommon {
    dwords: Image::DWORDS,
    at: AT,
    fields: mqd_fields!(gc),
    se_masks: &[
        dw::compute_static_thread_mgmt_se0,
        dw::compute_static_thread_mgmt_se1,
        dw::compute_static_thread_mgmt_se2,
        dw::compute_static_thread_mgmt_se3,
        dw::compute_static_thread_mgmt_se4,
        dw::compute_static_thread_mgmt_se5,
        dw::compute_static_thread_mgmt_se6,
        dw::compute_static_thread_mgmt_se7,
    ],
    header: HEADER,
    preload_size: 0x55,
    dispatch_ptr: HQ_STATUS0_DISPATCH_PTR,
    pci_atomics: HQ_STATUS0_PCIE_ATOMICS,
};

/// `compute_misc_reserved` of kernel queues (`gfx_v9_4_3_xcc_mqd_init`, `mes_v12_0_mqd_init`).
const MISC_RESERVED: u32 = 7;
/// Register defaults (`reg..._DEFAULT`, `gfx_v12_0.c` and `mes_v12_0.c`).
const EOP_CONTROL_DEFAULT: Value<name::CP_HQD_EOP_CONTROL> = Value::new(0x0000_0006);
const MQD_CONTROL_DEFAULT: Value<name::CP_MQD_CONTROL> = Value::new(0x0000_0100);
const PQ_CONTROL_DEFAULT: Value<name::CP_HQD_PQ_CONTROL> = Value::new(0x0030_8509);
const PERSISTENT_STATE_DEFAULT: Value<name::CP_HQD_PERSISTENT_STATE> = Value::new(0x0be0_5501);
const IB_CONTROL_DEFAULT: Value<name::CP_HQD_IB_CONTROL> = Value::new(0x0030_0000);
const QUANTUM_DEFAULT: Value<name::CP_HQD_QUANTUM> = Value::new(0x0000_0a00);
/// `AMDGPU_GFX_PIPE_PRIO_NORMAL`.
const PIPE_PRIORITY_NORMAL: u32 = 1;
/// RPTR_BLOCK_SIZE: log2 of a page's dwords, less one.
const RPTR_BLOCK_PAGE: u32 = 9;
/// MQD dword of CP_HQD_GFX_CONTROL in a MES ring's MQD (`reserved_184`, `mes_v12_0_mqd_init`).
const GFX_CONTROL: Word<name::CP_HQD_GFX_CONTROL> = Word::new(184);
/// Reports doorbells of unmapped queues to MES.
const DB_UPDATED: Value<name::CP_HQD_GFX_CONTROL> =
    gc::CP_HQD_GFX_CONTROL__DB_UPDATED_MSG_EN.put(1);

/// Initialises the common part of the MQDs of MES rings and of queues of the render node.
fn init_ring(spec: &QueueSpec, m: &mut [u32]) {
    COMMON.init_ring(spec, m);
    m[dw::compute_misc_reserved] = MISC_RESERVED;
    AT.cp_hqd_eop_control.set(
        m,
        gc::CP_HQD_EOP_CONTROL__EOP_SIZE
            .set(EOP_CONTROL_DEFAULT, order(spec.eop_size / 4).max(1) - 1),
    );
    AT.cp_mqd_control
        .set(m, gc::CP_MQD_CONTROL__VMID.set(MQD_CONTROL_DEFAULT, 0));
    let fields = [
        (gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE, pq_size(spec)),
        (gc::CP_HQD_PQ_CONTROL__RPTR_BLOCK_SIZE, RPTR_BLOCK_PAGE),
        (gc::CP_HQD_PQ_CONTROL__UNORD_DISPATCH, 1),
        (gc::CP_HQD_PQ_CONTROL__TUNNEL_DISPATCH, 0),
    ];
    AT.cp_hqd_pq_control
        .set(m, PQ_CONTROL_DEFAULT.with(&fields));
    AT.cp_hqd_vmid.set(m, 0);
    AT.cp_hqd_persistent_state.set(
        m,
        gc::CP_HQD_PERSISTENT_STATE__PRELOAD_SIZE
            .set(PERSISTENT_STATE_DEFAULT, COMMON.preload_size),
    );
}

/// Initialises the MQD of a MES ring (`mes_v12_0_mqd_init`).
fn init_mes(spec: &QueueSpec, m: &mut [u32]) {
    init_ring(spec, m);
    m[AT.cp_hqd_pq_wptr_poll_addr_lo.index()] &= !7;
    AT.cp_hqd_pq_control.or(
        m,
        gc::CP_HQD_PQ_CONTROL__PRIV_STATE.put(1)
            | gc::CP_HQD_PQ_CONTROL__KMD_QUEUE.put(1)
            | gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put(1),
    );
    AT.cp_hqd_ib_control.set(m, IB_CONTROL_DEFAULT);
    AT.cp_hqd_iq_timer.set(m, 0);
    AT.cp_hqd_quantum.set(m, QUANTUM_DEFAULT);
    GFX_CONTROL.set(m, DB_UPDATED);
}

/// Initialises the MQD of a compute queue of the render node (`gfx_v12_0_compute_mqd_init`).
fn init_render(spec: &QueueSpec, render: RenderQueue, m: &mut [u32]) {
    init_ring(spec, m);
    AT.cp_hqd_ib_control.set(
        m,
        gc::CP_HQD_IB_CONTROL__MIN_IB_AVAIL_SIZE.set(IB_CONTROL_DEFAULT, 3),
    );
    m[AT.cp_hqd_pipe_priority] = PIPE_PRIORITY_NORMAL;
    AT.cp_hqd_quantum.set(m, COMMON.quantum());
    // MES activates the queue.
    AT.cp_hqd_active.set(m, 0);
    m[dw::fence_address_lo] = lo(render.fence);
    m[dw::fence_address_hi] = hi(render.fence);
}

impl MqdVersion for Mqd {
    const COMMON: &'static MqdCommon = &COMMON;
    const IB_CONTROL: Value<name::CP_HQD_IB_CONTROL> = Value::ZERO;

    fn init(cx: &MqdContext, spec: &QueueSpec, m: &mut [u32]) -> Result {
        match cx.kind {
            MqdKind::User => {
                COMMON.init_scheduled(cx, spec, m);
                update_scheduled::<Self>(cx, spec, &mut &mut *m);
            }
            MqdKind::Render => init_render(spec, spec.render.ok_or(EINVAL)?, m),
            MqdKind::Mes => init_mes(spec, m),
            MqdKind::Hiq | MqdKind::Kiq => return Err(EINVAL),
        }
        Ok(())
    }

    fn pq_control(
        _cx: &MqdContext,
        spec: &QueueSpec,
        value: Value<name::CP_HQD_PQ_CONTROL>,
    ) -> Value<name::CP_HQD_PQ_CONTROL> {
        let aql = spec.format == QueueFormat::Aql;
        value | gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put(aql.into())
    }
}
