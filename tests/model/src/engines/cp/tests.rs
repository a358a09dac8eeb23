// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of whole queues on the mock chip: the engine as in the model, with worker threads and the
//! shader interpreter.

mod aql;
mod fence;
mod gfx12;
mod gws;
mod hws;
mod inject;
mod kernel;
#[path = "../../../tests/all/saver.rs"]
mod saver;
mod scratch;
mod user;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpu_regs::gc_9_4_3 as gc;
use gpu_regs::Reg;
use rkfd_abi::aql::{self as abi_aql, header, kernel_dispatch as kd, queue as amd_queue, signal};
use rkfd_abi::mqd::v9::{self, dw};
use rkfd_abi::pm4::{self, op};

use super::dispatch::Pool;
use super::engine::Engine;
use super::env::Env;
use super::regs::Banks;
use super::shader::Interpreter;
use super::slot::Slot;
use super::testing::{Act, Mock};
use super::Wake;
use crate::chips::Generation;
use crate::mailbox::{Mailbox, Recv};
use crate::regs::{RegId, Selector};
use saver::HANDLER;

const KIQ_RING: u64 = 0x1_0000;
const KIQ_RPTR: u64 = 0x1_8000;
const KIQ_WPTR: u64 = 0x1_8008;
const KIQ_MQD: u64 = 0x2_8000;
const KIQ_SLOT: (u8, u8, u8) = (2, 1, 0);
const HIQ_MQD: u64 = 0x2_0000;
const HIQ_RING: u64 = 0x2_2000;
const HIQ_RPTR: u64 = 0x2_3000;
const HIQ_WPTR: u64 = 0x2_3008;
const HIQ_DOORBELL: u32 = 0x800;
const FENCE: u64 = 0x2_4000;
const LIST: u64 = 0x3_0000;
const CODE: u64 = 0x4_0000;
/// Save area of user queue 0.
const SAVE: u64 = 0x80_0000;
const SAVE_SIZE: u32 = 0x8_0000;
/// Trap handler.
const TBA: u64 = CODE + 0x8000;
/// Base of user queue 0; each user queue has 64 KiB: MQD, control stack, ring, amd_queue_t.
const USER: u64 = 0x10_0000;
const SIGNALS: u64 = 0x5_0000;
const HWS_MASK: u64 = 0xfcfc_fcfc;

/// The chip, the driver's pointers, and the engine's parts.
struct Rig {
    mock: Mock,
    banks: Mutex<Banks>,
    mail: Mailbox<Wake>,
    pool: Pool,
}

/// A running engine with the state of a driver.
struct Card<'a> {
    rig: &'a Rig,
    engine: Engine<'a>,
    kiq_wptr: u64,
    hiq_wptr: u64,
}

/// Runs `test` with an engine and two workers.
fn with_card(test: impl FnOnce(&mut Card<'_>)) {
    with_card_of(Mock::default(), test);
}

fn with_card_of(mock: Mock, test: impl FnOnce(&mut Card<'_>)) {
    let rig = Rig {
        banks: Mutex::new(Banks::new(mock.generation(), crate::gpu::Boot::Warm)),
        mock,
        mail: Mailbox::default(),
        pool: Pool::default(),
    };
    struct Close<'a>(&'a Rig);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            self.0.pool.close();
        }
    }
    std::thread::scope(|scope| {
        let env: &dyn Env = &rig.mock;
        for _ in 0..2 {
            scope.spawn(|| rig.pool.work(env, &Interpreter, &rig.mail));
        }
        let engine = Engine::new(env, &rig.banks, &rig.mail, &rig.pool);
        let mut card = Card {
            rig: &rig,
            engine,
            kiq_wptr: 0,
            hiq_wptr: 0,
        };
        card.enable_interrupts();
        // A failed test must not leave endless kernels to the workers.
        let close = Close(&rig);
        test(&mut card);
        for queue in card.engine.queues.iter().flatten() {
            queue.work.jobs().iter().for_each(|job| job.request_stop());
        }
        drop(close);
    });
}

impl Card<'_> {
    fn mock(&self) -> &Mock {
        &self.rig.mock
    }

    /// Enables all interrupts of all pipes.
    fn enable_interrupts(&self) {
        let control = match self.rig.mock.generation() {
            Generation::Gfx9 => gc::regCPC_INT_CNTL,
            Generation::Gfx12 => gpu_regs::gc_12_0_0::regCPC_INT_CNTL,
        };
        for me in 1..=2 {
            for pipe in 0..4 {
                self.write_reg((me, pipe, 0), control, !0);
            }
        }
    }

    fn write_reg(&self, (me, pipe, queue): (u8, u8, u8), reg: Reg, value: u32) {
        let sel = Selector {
            me,
            pipe,
            queue,
            vmid: 0,
        };
        let mut wakes = Vec::new();
        let id = RegId::new(reg.seg, reg.off);
        self.engine
            .banks()
            .write(sel, id, value, &mut wakes)
            .unwrap();
        wakes.into_iter().for_each(|w| self.rig.mail.send(w));
    }

    fn bank(&self, slot: Slot, reg: Reg) -> u32 {
        self.engine.banks().slot(slot).get(reg)
    }

    fn pump(&mut self) -> Option<Duration> {
        while let Recv::Message(message) = self.rig.mail.recv(Some(Duration::ZERO)) {
            self.engine.handle(message);
        }
        self.engine.turn()
    }

    /// Runs until `done`, for at most 30 s: the host may be busy.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let since = Instant::now();
        loop {
            self.pump();
            if done(self) {
                return;
            }
            if since.elapsed() > Duration::from_secs(30) {
                panic!("{what}: {:#?}", self.mock().strict().lines());
            }
            std::thread::yield_now();
        }
    }

    /// Runs until only a message can cause progress, or until the time is over.
    fn settle(&mut self) {
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(20) {
            if self.pump().is_none() && self.rig.mail.is_empty() {
                return;
            }
        }
    }

    fn assert_clean(&self) {
        assert_eq!(self.mock().strict().lines(), Vec::<String>::new());
    }

    /// Activates the KIQ by registers, as a driver does first.
    fn start_kiq(&mut self) {
        self.put_kiq_mqd(!0);
        self.activate_kiq();
    }

    /// Writes the MQD, and the masks of CUs and render backends that follow it.
    fn put_kiq_mqd(&self, masks: u64) {
        self.put_mqd(KIQ_MQD, |mqd| {
            mqd.dynamic_cu_mask_addr_lo = KIQ_MQD as u32 + 0x800;
        });
        self.mock().put64(KIQ_MQD + 0x800, masks);
    }

    fn activate_kiq(&mut self) {
        self.write_reg(KIQ_SLOT, gc::regRLC_CP_SCHEDULERS, 0x80 | 2 << 5 | 1 << 3);
        let put = |reg, value| self.write_reg(KIQ_SLOT, reg, value);
        put(gc::regCP_MQD_BASE_ADDR, KIQ_MQD as u32);
        put(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 1 << 30);
        put(gc::regCP_HQD_PQ_BASE, (KIQ_RING >> 8) as u32);
        put(gc::regCP_HQD_PQ_CONTROL, 0xc000_0000 | 9 << 8 | 8);
        put(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR, KIQ_RPTR as u32);
        put(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, KIQ_WPTR as u32);
        put(gc::regCP_HQD_PQ_RPTR, 0);
        put(gc::regCP_HQD_PQ_WPTR_LO, 0);
        put(gc::regCP_HQD_PQ_WPTR_HI, 0);
        put(gc::regCP_HQD_VMID, 0);
        put(gc::regCP_HQD_ACTIVE, 1);
        put(gc::regCP_PQ_STATUS, 2);
        self.settle();
    }

    fn ring(&mut self, ring: u64, dwords: u64, wptr: u64, packets: &[u32]) -> u64 {
        for (n, word) in packets.iter().enumerate() {
            let at = (wptr + n as u64) % dwords;
            self.mock().put32(ring + at * 4, *word);
        }
        wptr + packets.len() as u64
    }

    fn kiq(&mut self, packets: &[u32]) {
        self.kiq_wptr = self.ring(KIQ_RING, 512, self.kiq_wptr, packets);
        self.rig.mail.send(Wake::Doorbell(0, self.kiq_wptr, 8));
    }

    fn hiq(&mut self, packets: &[u32]) {
        self.hiq_wptr = self.ring(HIQ_RING, 512, self.hiq_wptr, packets);
        self.mock().put64(HIQ_WPTR, self.hiq_wptr);
        self.rig
            .mail
            .send(Wake::Doorbell(HIQ_DOORBELL, self.hiq_wptr, 8));
    }

    fn put_mqd(&self, at: u64, f: impl FnOnce(&mut v9::Mqd)) {
        let mut mqd = v9::Mqd::zeroed();
        mqd.header = 0xc031_0800;
        mqd.compute_static_thread_mgmt_se0 = !0;
        mqd.cp_mqd_base_addr_lo = at as u32;
        f(&mut mqd);
        for (n, word) in mqd.dwords().iter().enumerate() {
            self.mock().put32(at + n as u64 * 4, *word);
        }
    }

    fn mqd(&self, at: u64, n: usize) -> u32 {
        self.mock().get32(at + n as u64 * 4)
    }

    /// Maps the HIQ by a KIQ packet, and sets its resources.
    fn start_hiq(&mut self) {
        self.put_mqd(HIQ_MQD, |mqd| {
            mqd.cp_hqd_pq_base_lo = (HIQ_RING >> 8) as u32;
            mqd.cp_hqd_pq_control = 0xc000_0000 | 8;
            mqd.cp_hqd_pq_rptr_report_addr_lo = HIQ_RPTR as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_lo = HIQ_WPTR as u32;
            mqd.cp_hqd_pq_doorbell_control = HIQ_DOORBELL << 2;
        });
        self.kiq(&[
            pm4::header(op::MAP_QUEUES, 6),
            1 << 29 | 1 << 26 | 1 << 18,
            HIQ_DOORBELL << 2,
            HIQ_MQD as u32,
            0,
            HIQ_WPTR as u32,
            0,
        ]);
        self.hiq(&[
            pm4::header(op::SET_RESOURCES, 7),
            1 << 29 | 1 << 16 | 0xfff8,
            HWS_MASK as u32,
            0,
            !0,
            !0,
            0,
            0,
        ]);
        self.settle();
    }

    fn start(&mut self) {
        self.start_kiq();
        self.start_hiq();
        self.assert_clean();
        assert_eq!(self.engine.queues.iter().flatten().count(), 2);
    }

    /// Writes the MQD of AQL queue `n` of process `pasid`.
    fn put_queue(&self, n: u64) -> User {
        let user = User { n };
        self.put_mqd(user.mqd(), |mqd| {
            mqd.cp_hqd_persistent_state = 1 << 30 | 0x53 << 8;
            mqd.cp_hqd_pq_base_lo = (user.aql_ring() >> 8) as u32;
            // 64 packets of 64 bytes.
            mqd.cp_hqd_pq_control = 2 << 25 | 9;
            mqd.cp_hqd_aql_control = 1;
            mqd.cp_hqd_pq_rptr_report_addr_lo = user.rptr() as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_lo = user.wptr() as u32;
            mqd.cp_hqd_pq_doorbell_control = user.doorbell() << 2;
            mqd.cp_hqd_ctx_save_base_addr_lo = user.save() as u32;
            mqd.cp_hqd_cntl_stack_size = 0x1000;
            mqd.cp_hqd_cntl_stack_offset = 0x1000;
            mqd.cp_hqd_wg_state_offset = 0x1000;
            mqd.cp_hqd_ctx_save_size = SAVE_SIZE;
            mqd.compute_pgm_rsrc2 = gc::COMPUTE_PGM_RSRC2__TRAP_PRESENT.mask;
        });
        for (n, &word) in (0..).zip(&HANDLER) {
            self.mock().put32(TBA + 4 * n, word);
        }
        for packet in 0..64 {
            self.mock().put32(user.aql_ring() + packet * 64, 1);
        }
        user
    }

    /// Maps the queue without trap handler from now on.
    fn without_handler(&self, user: User) {
        let at = user.mqd() + dw::compute_pgm_rsrc2 as u64 * 4;
        self.mock().put32(at, 0);
    }

    fn run_list(&mut self, processes: &[(u16, &[User])], chain: bool) {
        self.run_list_with(processes, chain, &[]);
    }

    /// Sends a runlist in which the queues `gws` use the GWS of their processes.
    fn run_list_with(&mut self, processes: &[(u16, &[User])], chain: bool, gws: &[User]) {
        for user in gws {
            self.mark_gws(*user, gc::COMPUTE_RESOURCE_LIMITS__FORCE_SIMD_DIST.mask);
        }
        self.run_list_as(processes, chain, gws);
    }

    /// Sets COMPUTE_RESOURCE_LIMITS of a queue.
    fn mark_gws(&self, user: User, limits: u32) {
        let at = user.mqd() + dw::compute_resource_limits as u64 * 4;
        self.mock().put32(at, limits);
    }

    fn run_list_as(&mut self, processes: &[(u16, &[User])], chain: bool, gws: &[User]) {
        let mut words = Vec::new();
        for (pasid, users) in processes {
            let mut packet = [0u32; 21];
            packet[0] = pm4::map_process::PACKET.header();
            packet[1] = 1 << 25 | u32::from(*pasid);
            packet[2] = 0x8000_0001 + u32::from(*pasid) * 0x1000;
            packet[4] = 0x0001_0002;
            packet[6] = (TBA >> 8) as u32;
            packet[13] = (users.len() as u32) << 22;
            if users.iter().any(|user| gws.contains(user)) {
                packet[13] |= 64;
            }
            words.extend(packet);
            for user in *users {
                words.extend([
                    pm4::map_queues::PACKET.header(),
                    1 << 29 | u32::from(gws.contains(user)) << 12 | 1 << 4,
                    user.doorbell() << 2,
                    user.mqd() as u32,
                    0,
                    user.wptr() as u32,
                    0,
                ]);
            }
        }
        let valid = 1 << 23;
        if chain {
            let size = words.len() as u32 + 4;
            let head = pm4::run_list::PACKET.header();
            words.extend([head, LIST as u32, 0, valid | 1 << 20 | size]);
        }
        for (n, word) in words.iter().enumerate() {
            self.mock().put32(LIST + n as u64 * 4, *word);
        }
        self.hiq(&[
            pm4::run_list::PACKET.header(),
            LIST as u32,
            0,
            valid | words.len() as u32,
        ]);
    }

    /// Sends UNMAP_QUEUES with a fence.
    fn unmap_all(&mut self) {
        self.mock().put64(FENCE, 10);
        self.hiq(&[
            pm4::unmap_queues::PACKET.header(),
            3 << 4,
            0,
            0,
            0,
            0,
            pm4::query_status::PACKET.header(),
            2 << 30,
            0,
            FENCE as u32,
            0,
            100,
            0,
        ]);
    }

    fn fence_is_written(&self) -> bool {
        self.mock().get64(FENCE) == 100
    }

    /// Returns the mapped queue of a user.
    fn queue_of(&self, user: User) -> Option<&super::queue::Queue> {
        let mut queues = self.engine.queues.iter().flatten();
        queues.find(|q| q.config.doorbell == Some(user.doorbell()))
    }

    /// Writes a packet to the ring, without a doorbell.
    fn push(&self, user: User, packet: &[u8; 64]) -> u64 {
        let index = self.mock().get64(user.wptr());
        let at = user.aql_ring() + index % 64 * 64;
        self.mock().put(at, packet);
        self.mock().put64(user.wptr(), index + 1);
        index
    }

    fn ring_doorbell(&self, user: User, index: u64) {
        self.rig
            .mail
            .send(Wake::Doorbell(user.doorbell(), index, 8));
    }

    fn submit(&self, user: User, packet: &[u8; 64]) {
        let index = self.push(user, packet);
        self.ring_doorbell(user, index);
    }

    /// Writes a kernel: descriptor at the returned address, code behind it.
    fn kernel(&self, n: u64, code: &[u32]) -> u64 {
        let at = CODE + n * 0x1000;
        let mut descriptor = [0u8; 64];
        descriptor[16..24].copy_from_slice(&256u64.to_le_bytes());
        // ACCUM_OFFSET 3: 16 VGPRs.
        descriptor[44..48].copy_from_slice(&3u32.to_le_bytes());
        // 8 * (1 + 1) VGPRs, 16 * 2 SGPRs.
        descriptor[48..52].copy_from_slice(&(1u32 | 2 << 6).to_le_bytes());
        // Two user SGPRs (kernarg), workgroup id x.
        descriptor[52..56].copy_from_slice(&(2u32 << 1 | 1 << 7).to_le_bytes());
        descriptor[56..58].copy_from_slice(&(1u16 << 3).to_le_bytes());
        self.mock().put(at, &descriptor);
        for (i, word) in code.iter().enumerate() {
            self.mock().put32(at + 256 + i as u64 * 4, *word);
        }
        at
    }

    /// Writes a completion signal with value 1; with an event if `event` is not 0.
    fn signal(&self, n: u64, event: u32) -> u64 {
        let at = SIGNALS + n * 64;
        self.mock().put64(at + signal::KIND as u64, 1);
        self.mock().put64(at + signal::VALUE as u64, 1);
        let mailbox = SIGNALS + 0x8000 + u64::from(event) * 8;
        let mailbox = if event == 0 { 0 } else { mailbox };
        self.mock()
            .put64(at + signal::EVENT_MAILBOX_PTR as u64, mailbox);
        self.mock().put32(at + signal::EVENT_ID as u64, event);
        at
    }

    fn signal_value(&self, at: u64) -> i64 {
        self.mock().get64(at + signal::VALUE as u64) as i64
    }
}

/// Addresses of a user queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    n: u64,
}

impl User {
    fn base(self) -> u64 {
        USER + self.n * 0x1_0000
    }

    fn mqd(self) -> u64 {
        self.base()
    }

    fn aql_ring(self) -> u64 {
        self.base() + 0x4000
    }

    fn amd_queue(self) -> u64 {
        self.base() + 0x6000
    }

    fn rptr(self) -> u64 {
        self.amd_queue() + amd_queue::READ_DISPATCH_ID as u64
    }

    fn wptr(self) -> u64 {
        self.amd_queue() + amd_queue::WRITE_DISPATCH_ID as u64
    }

    fn save(self) -> u64 {
        SAVE + self.n * u64::from(SAVE_SIZE)
    }

    fn doorbell(self) -> u32 {
        0x1000 + 2 * self.n as u32
    }
}

/// Returns a dispatch packet: `groups` workgroups of 64.
fn dispatch(kernel: u64, kernarg: u64, groups: u32, signal: u64, barrier: bool) -> [u8; 64] {
    let mut p = [0u8; 64];
    let head = header::TYPE_KERNEL_DISPATCH | u32::from(barrier) << 8 | 2 << 9 | 2 << 11;
    p[..2].copy_from_slice(&(head as u16).to_le_bytes());
    p[kd::SETUP..][..2].copy_from_slice(&1u16.to_le_bytes());
    for (n, size) in [64u16, 1, 1].iter().enumerate() {
        p[kd::WORKGROUP_SIZE_X + 2 * n..][..2].copy_from_slice(&size.to_le_bytes());
    }
    for (n, size) in [64 * groups, 1, 1].iter().enumerate() {
        p[kd::GRID_SIZE_X + 4 * n..][..4].copy_from_slice(&size.to_le_bytes());
    }
    p[kd::KERNEL_OBJECT..][..8].copy_from_slice(&kernel.to_le_bytes());
    p[kd::KERNARG_ADDRESS..][..8].copy_from_slice(&kernarg.to_le_bytes());
    p[abi_aql::COMPLETION_SIGNAL..][..8].copy_from_slice(&signal.to_le_bytes());
    p
}

/// `s_endpgm`.
const ENDPGM: u32 = 0xbf81_0000;

/// Stores 1 to `kernarg + 4 * workgroup id` once the dword at `kernarg + 0x1000` is not 0: a kernel
/// that waits for the host.
const GATE: [u32; 11] = [
    // s_load_dword s3, s[0:1], 0x1000
    0xc002_00c0,
    0x0000_1000,
    // s_waitcnt lgkmcnt(0)
    0xbf8c_c07f,
    // s_cmp_eq_u32 s3, 0
    0xbf06_8003,
    // s_cbranch_scc1 -5
    0xbf85_fffb,
    // v_mov_b32 v1, 1
    0x7e02_0281,
    // s_lshl_b32 s2, s2, 2
    0x8e02_8202,
    // v_mov_b32 v2, s2
    0x7e04_0202,
    // global_store_dword v2, v1, s[0:1]
    0xdc70_8000,
    0x0000_0102,
    ENDPGM,
];

#[test]
fn kiq_and_hiq_start() {
    with_card(|card| {
        card.start();
        assert_eq!(card.bank(Slot::new(1, 0, 0), gc::regCP_HQD_ACTIVE), 1);
        assert_eq!(card.mock().get32(HIQ_RPTR), 8);
        assert_eq!(card.mqd(HIQ_MQD, dw::cp_hqd_active), 1);
    });
}
