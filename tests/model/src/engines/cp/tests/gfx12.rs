// SPDX-License-Identifier: GPL-2.0 OR MIT

//! gfx12 queues: the interface of a scheduler other than the HWS, and packets with a different
//! format.

use gpu_regs::gc_12_0_0 as gc12;
use gpu_wave::Scope;
use rkfd_abi::mqd::v12;
use rkfd_abi::pm4::gfx12;

use super::super::queue::{Class, Halt, Unmap};
use super::super::save::Map;
use super::super::testing::Act;
use super::fence::{on_cus, on_l2};
use super::*;
use crate::engines::gmc::cu::Cache;
use crate::engines::mes::{Hardware, Load};

const PASID: u16 = 9;
const VMID: u8 = 8;
const SLOT: Slot = Slot(0);
const KERNARG: u64 = 0x7_0000;
/// `s_endpgm`.
const ENDPGM: u32 = 0xbfb0_0000;
/// `s_branch` to itself.
const FOREVER: u32 = 0xbfa0_ffff;
/// Trap handler that saves and restores EXEC and the program counter.
const HANDLER: [u32; 27] = [
    // s_branch main
    0xbfa0_0001,
    // s_branch restore
    0xbfa0_0012,
    // main: s_mov_b64 ttmp[2:3], exec
    0xbeee_017e,
    // s_sendmsg_rtn_b64 ttmp[8:9], sendmsg(MSG_RTN_SAVE_WAVE)
    0xbef4_4d84,
    // s_wait_kmcnt 0
    0xbfc7_0000,
    // s_and_b32 ttmp9, ttmp9, 0xffff
    0x8b75_ff75,
    0x0000_ffff,
    // s_mov_b32 exec_lo, 15
    0xbefe_008f,
    // v_writelane_b32 v0, ttmp0, 0
    0xd761_0000,
    0x0001_006c,
    // v_writelane_b32 v0, ttmp1, 1
    0xd761_0000,
    0x0001_026d,
    // v_writelane_b32 v0, ttmp2, 2
    0xd761_0000,
    0x0001_046e,
    // v_writelane_b32 v0, ttmp3, 3
    0xd761_0000,
    0x0001_066f,
    // global_store_addtid_b32 v0, ttmp[8:9] scope:SCOPE_SYS
    0xee0a_4074,
    0x000c_0000,
    0x0000_0000,
    // s_endpgm_saved
    0xbfb1_0000,
    // restore: s_and_b32 exec_hi, exec_hi, 0xffff
    0x8b7f_ff7f,
    0x0000_ffff,
    // s_load_b128 ttmp[0:3], exec, 0x0 scope:SCOPE_SYS
    0xf460_5b3f,
    0xf800_0000,
    // s_wait_kmcnt 0
    0xbfc7_0000,
    // s_mov_b64 exec, ttmp[2:3]
    0xbefe_016e,
    // s_rfe_b64 ttmp[0:1]
    0xbe80_4a6c,
];
/// GC segment 0 in dwords.
const SEGMENT0: u32 = 0x1260;

fn with_gfx12(test: impl FnOnce(&mut Card<'_>)) {
    with_card_of(Mock::gfx12(), test);
}

fn start_mec(card: &mut Card<'_>) {
    let active = gc12::CP_MEC_RS64_CNTL__MEC_PIPE0_ACTIVE.mask
        | gc12::CP_MEC_RS64_CNTL__MEC_PIPE1_ACTIVE.mask;
    card.write_reg((0, 0, 0), gc12::regCP_MEC_RS64_CNTL, active);
    card.write_reg((0, 0, 0), gc12::regCP_PQ_STATUS, 2);
}

/// Writes a PM4 queue of 512 dwords in the place of queue 0.
fn put_pm4(card: &Card<'_>) -> User {
    let user = User { n: 0 };
    let mut mqd = v12::Mqd::zeroed();
    mqd.header = v12::HEADER;
    mqd.compute_static_thread_mgmt_se0 = !0;
    mqd.cp_mqd_base_addr_lo = user.mqd() as u32;
    mqd.cp_hqd_persistent_state = 1 << 30 | 0x55 << 8;
    mqd.cp_hqd_pq_base_lo = (user.aql_ring() >> 8) as u32;
    mqd.cp_hqd_pq_control = 8;
    mqd.cp_hqd_pq_rptr_report_addr_lo = user.rptr() as u32;
    mqd.cp_hqd_pq_wptr_poll_addr_lo = user.wptr() as u32;
    mqd.cp_hqd_pq_doorbell_control = user.doorbell() << 2;
    mqd.cp_hqd_ctx_save_base_addr_lo = user.save() as u32;
    mqd.cp_hqd_cntl_stack_size = 0x1000;
    mqd.cp_hqd_cntl_stack_offset = 0x1000;
    mqd.cp_hqd_wg_state_offset = 0x1000;
    mqd.cp_hqd_ctx_save_size = 0x4000;
    for (n, word) in mqd.dwords().iter().enumerate() {
        card.mock().put32(user.mqd() + n as u64 * 4, *word);
    }
    user
}

fn map(card: &mut Card<'_>, user: User, wptr: u64) -> bool {
    let map = Map {
        slot: SLOT,
        mqd: user.mqd(),
        wptr,
        doorbell: user.doorbell(),
        vmid: VMID,
        pasid: PASID,
        class: Class::Normal,
        is_static: false,
        gws: 0,
        scheduled: false,
    };
    card.engine.map(&map).is_ok()
}

/// Maps a queue.
fn start(card: &mut Card<'_>) -> User {
    start_mec(card);
    let user = put_pm4(card);
    for (n, &word) in (0..).zip(&HANDLER) {
        card.mock().put32(TBA + 4 * n, word);
    }
    let trap_en = gc12::SPI_GDBG_PER_VMID_CNTL__TRAP_EN.mask;
    let mock = card.mock();
    mock.set_vmid_reg(VMID, gc12::regSQ_SHADER_TBA_LO, (TBA >> 8) as u32);
    mock.set_vmid_reg(VMID, gc12::regSPI_GDBG_PER_VMID_CNTL, trap_en);
    assert!(map(card, user, user.wptr()));
    card.settle();
    card.assert_clean();
    user
}

fn submit(card: &mut Card<'_>, user: User, packets: &[u32]) {
    let wptr = card.mock().get64(user.wptr());
    let wptr = card.ring(user.aql_ring(), 512, wptr, packets);
    card.mock().put64(user.wptr(), wptr);
    card.ring_doorbell(user, wptr);
}

/// Returns a fence of event 6 after a write-back of all caches.
fn fence(value: u32) -> [u32; 8] {
    use gfx12::release_mem as rm;
    let mut words = [0; 8];
    words[0] = rm::PACKET.header();
    rm::EVENT_TYPE.set(&mut words, 0x14);
    rm::EVENT_INDEX.set(&mut words, 5);
    rm::GCR_SEQ.set(&mut words, 1);
    rm::GCR_GL2_WB.set(&mut words, 1);
    rm::DATA_SEL.set(&mut words, pm4::release_mem::DATA_SEL_32_BIT_LOW);
    rm::INT_SEL.set(
        &mut words,
        pm4::release_mem::INT_SEL_INTERRUPT_AFTER_WRITE_CONFIRM,
    );
    rm::ADDRESS_LO_32B.set(&mut words, (FENCE >> 2) as u32);
    rm::DATA_LO.set(&mut words, value);
    rm::INT_CTXID.set(&mut words, 6);
    words
}

fn set_sh(reg: Reg, values: &[u32]) -> Vec<u32> {
    let mut packet = vec![
        pm4::header(op::SET_SH_REG, 1 + values.len() as u32),
        SEGMENT0 + reg.off - pm4::set_sh_reg::START,
    ];
    packet.extend(values);
    packet
}

/// Returns the packets that launch `groups` wave32 workgroups of 64.
fn launch(code: u64, groups: u32) -> Vec<u32> {
    let mut words = set_sh(gc12::regCOMPUTE_NUM_THREAD_X, &[64, 1, 1]);
    let entry = [(code >> 8) as u32, (code >> 40) as u32];
    words.extend(set_sh(gc12::regCOMPUTE_PGM_LO, &entry));
    words.extend(set_sh(gc12::regCOMPUTE_PGM_RSRC1, &[1, 2 << 1]));
    words.extend(set_sh(gc12::regCOMPUTE_PGM_RSRC3, &[0]));
    words.extend(set_sh(gc12::regCOMPUTE_USER_DATA_0, &[KERNARG as u32, 0]));
    let initiator = 1 | gc12::COMPUTE_DISPATCH_INITIATOR__CS_W32_EN.mask;
    words.extend([pm4::header(op::DISPATCH_DIRECT, 4), groups, 1, 1, initiator]);
    words
}

#[test]
fn queues_need_a_running_mec() {
    with_gfx12(|card| {
        card.write_reg((0, 0, 0), gc12::regCP_PQ_STATUS, 2);
        let user = put_pm4(card);
        assert!(map(card, user, user.wptr()));
        submit(card, user, &fence(1));
        card.settle();
        assert_eq!(card.mock().get32(FENCE), 0);
        start_mec(card);
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        let entry = card.mock().interrupts()[0];
        assert_eq!((entry.client_id, entry.source_id), (0x14, 181));
        assert_eq!((entry.vmid, entry.node_id, entry.ctx[0]), (VMID, 0, 6));
        assert_eq!(card.mqd(user.mqd(), v12::dw::cp_hqd_active), 1);
        card.assert_clean();
    });
}

#[test]
fn protected_fences_have_the_position_in_the_ring() {
    with_gfx12(|card| {
        let user = start(card);
        let signal = [pm4::header(gfx12::protected_fence_signal::OPCODE, 1), 0];
        let field = user.mqd() + v12::dw::fence_address_lo as u64 * 4;
        card.mock().put64(field, FENCE + 8);
        let mut packets = fence(1).to_vec();
        packets.extend(signal);
        submit(card, user, &packets);
        card.until("fence", |c| c.mock().get64(FENCE + 8) == 10);
        assert_eq!(card.mock().interrupts().len(), 1, "only of RELEASE_MEM");
        let enable = gc12::CP_ME1_PIPE0_INT_CNTL__TIME_STAMP_INT_ENABLE.mask
            | gc12::CP_ME1_PIPE0_INT_CNTL__GENERIC0_INT_ENABLE.mask;
        for pipe in [
            gc12::regCP_ME1_PIPE0_INT_CNTL,
            gc12::regCP_ME1_PIPE1_INT_CNTL,
        ] {
            card.write_reg((0, 0, 0), pipe, enable);
        }
        submit(card, user, &signal);
        card.until("second fence", |c| c.mock().get64(FENCE + 8) == 12);
        let last = *card.mock().interrupts().last().unwrap();
        assert_eq!((last.source_id, last.vmid), (181, VMID));
        assert_eq!(last.ctx[0], user.doorbell());
        card.assert_clean();
    });
}

#[test]
fn protected_fences_need_a_fence() {
    with_gfx12(|card| {
        let user = start(card);
        let signal = pm4::header(gfx12::protected_fence_signal::OPCODE, 1);
        submit(card, user, &[signal, 0]);
        card.settle();
        assert_eq!(card.queue_of(user).unwrap().halt, Halt::BadPacket);
    });
}

#[test]
fn wptr_addresses_alias() {
    with_gfx12(|card| {
        let user = put_pm4(card);
        assert!(map(card, user, user.wptr() + 8));
        let lines = card.mock().strict().lines();
        assert!(lines[0].contains("write pointer"), "{lines:?}");
    });
}

#[test]
fn cache_packets_have_gfx12_layout() {
    with_gfx12(|card| {
        let user = start(card);
        let mut acquire = [0; 8];
        acquire[0] = gfx12::acquire_mem::PACKET.header();
        acquire[2] = !0;
        // CP_COHER_SIZE_HI has 8 bits; the others have no effect.
        acquire[3] = !0;
        acquire[7] = gfx12::acquire_mem::GCR_CNTL_MASK;
        submit(card, user, &acquire);
        submit(card, user, &fence(1));
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        card.assert_clean();
        // The TC actions of gfx9 are reserved here.
        let mut old = fence(2);
        old[1] |= 1 << 18 | 1 << 24;
        submit(card, user, &old);
        card.until("fence", |c| c.mock().get32(FENCE) == 2);
        let lines = card.mock().strict().lines();
        assert!(lines[0].contains("reserved bits 0x1000000"), "{lines:?}");
        submit(
            card,
            user,
            &[pm4::acquire_mem::PACKET.header(), 0, 0, 0, 0, 0, 0],
        );
        card.until("halt", |c| {
            c.queue_of(user).is_some_and(|q| q.halt == Halt::BadPacket)
        });
        let entry = *card.mock().interrupts().last().unwrap();
        assert_eq!((entry.source_id, entry.ctx[0] >> 10), (183, 19));
    });
}

#[test]
fn gcr_actions_of_packets() {
    use gfx12::{acquire_mem as am, release_mem as rm};
    with_gfx12(|card| {
        let user = start(card);
        card.mock().add_l2();
        let write_back = Act::WriteBack(Scope::System);
        let invalidate = Act::InvalidateL2(Scope::System);
        for (n, (wb, inv)) in (1..).zip([(0, 0), (1, 0), (0, 1), (1, 1)]) {
            let mut expected = Vec::new();
            expected.extend((wb == 1).then_some(&write_back));
            expected.extend((inv == 1).then_some(&invalidate));
            let mut release = fence(n);
            rm::GCR_GL2_WB.set(&mut release, wb);
            rm::GCR_GL2_INV.set(&mut release, inv);
            rm::GCR_GLV_INV.set(&mut release, wb);
            card.mock().acts();
            submit(card, user, &release);
            card.until("fence", |c| c.mock().get32(FENCE) == n);
            card.settle();
            let acts = card.mock().acts();
            assert_eq!(on_l2(&acts), expected, "release {wb} {inv}");
            let vector = Act::InvalidateCus(vec![Cache::Vector]);
            assert_eq!(on_cus(&acts), Vec::from_iter((wb == 1).then_some(&vector)));
            // The fence is written after the actions.
            let written = |a: &Act| matches!(a, Act::Write(FENCE, _));
            assert!(acts.iter().rposition(written) > acts.iter().rposition(|a| *a == write_back));

            let mut acquire = [0; 8];
            acquire[0] = am::PACKET.header();
            am::GCR_CNTL_GL2_WB.set(&mut acquire, wb);
            am::GCR_CNTL_GL2_INV.set(&mut acquire, inv);
            // Those of the CUs.
            am::GCR_CNTL_GLK_INV.set(&mut acquire, wb);
            am::GCR_CNTL_GLI_INV.set(&mut acquire, inv);
            am::GCR_CNTL_GLV_INV.set(&mut acquire, inv);
            let scalar = Act::InvalidateCus(vec![Cache::Scalar]);
            let code = Act::InvalidateCus(vec![Cache::Code]);
            let vector = Act::InvalidateCus(vec![Cache::Vector]);
            let selected = [(wb, &scalar), (inv, &code), (inv, &vector)];
            let cus = selected.iter().filter(|(on, _)| *on == 1);
            let cus: Vec<_> = cus.map(|(_, act)| *act).collect();
            submit(card, user, &acquire);
            card.settle();
            let acts = card.mock().acts();
            assert_eq!(on_l2(&acts), expected, "acquire {wb} {inv}");
            assert_eq!(on_cus(&acts), cus, "acquire {wb} {inv}");
        }
        card.assert_clean();
    });
}

#[test]
fn hws_packets_are_bad_opcodes() {
    for packet in [
        pm4::set_resources::PACKET,
        pm4::map_queues::PACKET,
        pm4::run_list::PACKET,
        pm4::unmap_queues::PACKET,
    ] {
        with_gfx12(|card| {
            let user = start(card);
            let mut words = vec![0; packet.dwords];
            words[0] = packet.header();
            submit(card, user, &words);
            card.until("halt", |c| {
                c.queue_of(user).is_some_and(|q| q.halt == Halt::BadPacket)
            });
        });
    }
}

#[test]
fn wave32_dispatch_survives_preemption() {
    with_gfx12(|card| {
        let user = start(card);
        card.mock().put32(CODE, ENDPGM);
        card.mock().put32(CODE + 0x1000, FOREVER);
        submit(card, user, &launch(CODE, 5));
        submit(card, user, &fence(1));
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        submit(card, user, &launch(CODE + 0x1000, 1));
        submit(card, user, &fence(2));
        card.until("running", |c| {
            let job = c
                .queue_of(user)
                .and_then(|q| q.work.jobs().first().cloned());
            job.is_some_and(|job| {
                assert!(job.dispatch.wave32);
                assert_eq!(job.dispatch.waves_per_workgroup(), 2);
                job.in_flight() == 1
            })
        });
        card.engine.start_unmap_any(SLOT, Unmap::Preempt, false);
        card.until("unmapped", |c| !c.engine.is_mapped(SLOT));
        let mqd = |n| card.mqd(user.mqd(), n);
        assert_eq!(mqd(v12::dw::compute_wave_restore_control), 1);
        assert_eq!(mqd(v12::dw::cp_hqd_active), 0);
        // Leader, state of the queue, dispatch, workgroup, resources, and two waves.
        let used = 0x1000 - mqd(v12::dw::cp_hqd_cntl_stack_offset);
        assert_eq!(used, 4 * (2 + 1 + 1 + 1 + 2 + 2));
        // 16 VGPRs, SGPRs, hardware registers and trap temporaries of two waves.
        let used = mqd(v12::dw::cp_hqd_wg_state_offset) - 0x1000;
        assert_eq!(used, 2 * (16 * 128 + 512 + 128));
        assert!(map(card, user, user.wptr()));
        card.settle();
        assert_eq!(mqd_of(card, user, v12::dw::compute_wave_restore_control), 0);
        assert!(card.queue_of(user).unwrap().work.in_flight());
        // The modified code takes effect for the next dispatch only: this one ends by a reset.
        card.engine.start_unmap_any(SLOT, Unmap::Reset, false);
        card.until("unmapped", |c| !c.engine.is_mapped(SLOT));
        assert_eq!(card.mock().get32(FENCE), 1);
        card.assert_clean();
    });
}

fn mqd_of(card: &Card<'_>, user: User, n: usize) -> u32 {
    card.mqd(user.mqd(), n)
}

#[test]
fn mes_ring_starts_by_registers() {
    with_gfx12(|card| {
        let ring = 0x2_2000u64;
        let put = |reg, value| card.write_reg((3, 1, 0), reg, value);
        put(gc12::regCP_HQD_PQ_BASE, (ring >> 8) as u32);
        put(gc12::regCP_HQD_PQ_CONTROL, 0xc000_0000 | 9);
        put(gc12::regCP_HQD_PQ_WPTR_POLL_ADDR, HIQ_WPTR as u32);
        put(gc12::regCP_HQD_PQ_RPTR_REPORT_ADDR, HIQ_RPTR as u32);
        put(gc12::regCP_HQD_PQ_DOORBELL_CONTROL, 1 << 30 | 0x18 << 2);
        put(gc12::regCP_HQD_ACTIVE, 1);
        put(gc12::regCP_PQ_STATUS, 2);
        card.settle();
        let slot = Slot::new(2, 1, 0);
        let queue = card.engine.queues[usize::from(slot.0)].as_ref().unwrap();
        assert_eq!((queue.class, queue.config.size), (Class::Mes, 1024));
        assert_eq!(queue.config.doorbell, Some(0x18));
        card.assert_clean();
    });
}

/// Maps the kernel queue of the graphics pipe in the place of queue 0, by a frame with a
/// doorbell.
fn start_graphics(card: &mut Card<'_>, doorbell: u32) -> bool {
    let user = User { n: 0 };
    let words = [
        (128, user.mqd() as u32),
        (130, 1),
        (136, (user.aql_ring() >> 8) as u32),
        (139, user.rptr() as u32),
        (141, user.wptr() as u32),
        (143, 1 << 30 | user.doorbell() << 2),
        (145, 8),
        (162, gc12::CP_GFX_MQD_CONTROL__PRIV_STATE.mask),
    ];
    for (n, word) in words {
        card.mock().put32(user.mqd() + 4 * n, word);
    }
    card.write_reg((0, 0, 0), gc12::regCP_PQ_STATUS, 2);
    let load = Load {
        slot: Slot::GRAPHICS,
        mqd: user.mqd(),
        wptr: user.wptr(),
        doorbell,
        vmid: 0,
        pasid: 0,
        ring: false,
    };
    card.engine.load(&load).is_ok()
}

#[test]
fn graphics_queue_needs_a_running_pipe() {
    with_gfx12(|card| {
        let user = User { n: 0 };
        assert!(start_graphics(card, user.doorbell()));
        let interrupts = gc12::CP_INT_CNTL_RING0__TIME_STAMP_INT_ENABLE.mask;
        card.write_reg((0, 0, 0), gc12::regCP_INT_CNTL_RING0, interrupts);
        submit(card, user, &fence(1));
        card.settle();
        assert_eq!(card.mock().get32(FENCE), 0);
        card.write_reg((0, 0, 0), gc12::regCP_ME_CNTL, 0);
        card.until("fence", |c| c.mock().get32(FENCE) == 1);
        let entry = card.mock().interrupts()[0];
        assert_eq!((entry.source_id, entry.ring_id, entry.vmid), (181, 0, 0));
        // The packet of this pipe has no bit that makes it valid.
        let ib = 0x7_8000;
        for (n, word) in (0..).zip(fence(2)) {
            card.mock().put32(ib + 4 * n, word);
        }
        let packet = [pm4::header(op::INDIRECT_BUFFER, 3), ib as u32, 0, 8];
        submit(card, user, &packet);
        card.until("fence in the IB", |c| c.mock().get32(FENCE) == 2);
        card.engine.begin_unload(Slot::GRAPHICS, false);
        card.until("unmapped", |c| c.mqd(user.mqd(), 130) == 0);
        assert_eq!(
            [138, 149].map(|n| card.mqd(user.mqd(), n)),
            [12, 12],
            "pointers"
        );
        card.assert_clean();
    });
}

#[test]
fn graphics_mqd_has_to_match_its_frame() {
    with_gfx12(|card| {
        assert!(!start_graphics(card, User { n: 1 }.doorbell()));
        let lines = card.mock().strict().lines();
        assert!(lines[0].contains("graphics MQD"), "{lines:?}");
    });
}

/// Maps an AQL queue in the place of queue 0.
fn start_aql(card: &mut Card<'_>) -> User {
    start_aql_with(card, 0)
}

/// Maps an AQL queue with `status` in `cp_hqd_hq_status0`.
fn start_aql_with(card: &mut Card<'_>, status: u32) -> User {
    start_mec(card);
    let user = put_pm4(card);
    for (n, &word) in (0..).zip(&HANDLER) {
        card.mock().put32(TBA + 4 * n, word);
    }
    let trap_en = gc12::SPI_GDBG_PER_VMID_CNTL__TRAP_EN.mask;
    let mock = card.mock();
    mock.set_vmid_reg(VMID, gc12::regSQ_SHADER_TBA_LO, (TBA >> 8) as u32);
    mock.set_vmid_reg(VMID, gc12::regSPI_GDBG_PER_VMID_CNTL, trap_en);
    let put = |n: usize, value: u32| card.mock().put32(user.mqd() + n as u64 * 4, value);
    put(v12::dw::cp_hqd_pq_control, 2 << 18 | 9);
    put(v12::dw::cp_hqd_aql_control, 1);
    put(v12::dw::cp_hqd_hq_status0, status);
    for packet in 0..64 {
        card.mock().put32(user.aql_ring() + packet * 64, 1);
    }
    assert!(map(card, user, user.wptr()));
    card.settle();
    card.assert_clean();
    user
}

/// Writes a wave32 kernel of 16 VGPRs with a kernarg pointer.
fn kernel(card: &Card<'_>, code: &[u32]) -> u64 {
    let mut descriptor = [0u8; 64];
    descriptor[16..24].copy_from_slice(&256u64.to_le_bytes());
    descriptor[48..52].copy_from_slice(&1u32.to_le_bytes());
    descriptor[52..56].copy_from_slice(&(2u32 << 1).to_le_bytes());
    descriptor[56..58].copy_from_slice(&(1u16 << 3 | 1 << 10).to_le_bytes());
    card.mock().put(CODE, &descriptor);
    for (n, word) in code.iter().enumerate() {
        card.mock().put32(CODE + 256 + n as u64 * 4, *word);
    }
    CODE
}

#[test]
fn wave32_messages_and_signals() {
    with_gfx12(|card| {
        let user = start_aql(card);
        // s_mov_b32 m0, 5; s_sendmsg sendmsg(MSG_INTERRUPT); s_endpgm
        let kernel = kernel(card, &[0xbefd_0085, 0xbfb6_0001, ENDPGM]);
        let signal = card.signal(0, 3);
        // Half a wave.
        let mut packet = dispatch(kernel, KERNARG, 1, signal, true);
        packet[kd::WORKGROUP_SIZE_X] = 16;
        packet[kd::GRID_SIZE_X] = 16;
        card.submit(user, &packet);
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.until("message", |c| c.mock().interrupts().len() == 2);
        let all = card.mock().interrupts();
        let message = all.iter().find(|e| e.source_id == 239).unwrap();
        assert_eq!((message.client_id, message.vmid), (0x0a, VMID));
        assert_eq!((message.ctx[0], message.ctx[1] >> 6 & 3), (5, 1));
        let event = all.iter().find(|e| e.source_id == 181).unwrap();
        assert_eq!((event.client_id, event.node_id, event.ctx[0]), (0x14, 0, 3));
        assert_eq!(card.mock().get64(user.rptr()), 1);
        card.assert_clean();
    });
}

#[test]
fn wave32_scratch_request_code() {
    with_gfx12(|card| {
        let user = start_aql(card);
        let inactive = card.signal(1, 4);
        card.mock()
            .put64(inactive + abi_aql::signal::VALUE as u64, 0);
        let queue = user.amd_queue();
        let put32 = |card: &Card<'_>, at: usize, value: u32| {
            card.mock().put32(queue + at as u64, value);
        };
        card.mock()
            .put64(queue + amd_queue::QUEUE_INACTIVE_SIGNAL as u64, inactive);
        let kernel = kernel(card, &[ENDPGM]);
        let signal = card.signal(0, 0);
        let mut packet = dispatch(kernel, KERNARG, 4, signal, true);
        packet[kd::PRIVATE_SEGMENT_SIZE] = 64;
        // 32 bytes for each of 64 lanes are 64 for each of 32, but not half of it.
        put32(card, amd_queue::SCRATCH_WAVE64_LANE_BYTE_SIZE, 16);
        card.submit(user, &packet);
        card.until("request", |c| c.signal_value(inactive) == 0x400);
        put32(card, amd_queue::SCRATCH_WAVE64_LANE_BYTE_SIZE, 32);
        // Two waves of 8 * 256 bytes.
        put32(card, amd_queue::COMPUTE_TMPRING_SIZE, 2 | 8 << 12);
        put32(card, amd_queue::SCRATCH_BACKING_MEMORY_LOCATION, 0x30_0000);
        card.mock()
            .put64(inactive + abi_aql::signal::VALUE as u64, 0);
        card.until("signal", |c| c.signal_value(signal) == 0);
        card.assert_clean();
    });
}

#[test]
fn signals_are_atomic_on_the_bus_if_the_mqd_allows_it() {
    for (status, atomic) in [(0, false), (v12::HQ_STATUS0_PCIE_ATOMICS, true)] {
        with_gfx12(|card| {
            let user = start_aql_with(card, status);
            let kernel = kernel(card, &[ENDPGM]);
            let signal = card.signal(0, 3);
            card.submit(user, &dispatch(kernel, KERNARG, 1, signal, true));
            card.until("signal", |c| c.signal_value(signal) == 0);
            let sent = card.mock().acts().contains(&Act::Atomic(signal + 8));
            assert_eq!(sent, atomic);
            card.assert_clean();
        });
    }
}
