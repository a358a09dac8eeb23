// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA user queues: mapped by a runlist, driven by doorbells, their state kept in MQDs across
//! preemption.

use std::time::Duration;

use crate::common::sdma::{copy, hi, lo, poll, Card};
use crate::common::{self, addr, enable_context, put_kiq_mqd, FB};
use gpu_model::engines::gmc::Hub;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, sdma_4_4_2 as sdma, Reg};
use rkfd_abi::mqd::v9::{self, Mqd};
use rkfd_abi::mqd::v9_sdma::{dw, SdmaMqd};
use rkfd_abi::pm4;
use rkfd_abi::sdma as pkt;

// VRAM offsets.
const KIQ_RING: u64 = 0x60_0000;
const KIQ_MQD: u64 = 0x60_8000;
const POINTERS: u64 = 0x61_0000;
const HIQ_MQD: u64 = 0x62_0000;
const HIQ_RING: u64 = 0x63_0000;
const LIST: u64 = 0x64_0000;
const FENCE: u64 = 0x66_0000;
const MQDS: u64 = 0x68_0000;
const TABLES: u64 = 0x70_0000;
/// User memory, mapped at `VA` in every process.
const MEMORY: u64 = 0x800_0000;
const VA: u64 = 0x1_0000_0000;
const SIZE: u64 = 64 << 20;

const HIQ_DOORBELL: u32 = 0x800;

/// SDMA user queue: index, engine, queue of the engine, process.
#[derive(Clone, Copy)]
struct User {
    n: u64,
    engine: u32,
    queue: u32,
    process: u32,
}

impl User {
    fn pasid(self) -> u32 {
        0x20 + self.process
    }
    fn mqd(self) -> u64 {
        MQDS + self.n * 0x1000
    }
    /// User addresses of ring, read pointer, write pointer, and a data page.
    fn ring(self) -> u64 {
        VA + self.n * 0x1_0000
    }
    fn rptr(self) -> u64 {
        self.ring() + 0x8000
    }
    fn wptr(self) -> u64 {
        self.ring() + 0x8008
    }
    fn data(self) -> u64 {
        self.ring() + 0xa000
    }
    /// Returns the dword index on the BAR, following Linux's layout of the process's two doorbell
    /// pages.
    fn doorbell(self) -> u32 {
        let base = (0x100 + 10 * self.engine).next_multiple_of(4);
        let qword = base + (self.queue & 1) * 512 + (self.queue >> 1);
        0x1000 + self.process * 0x800 + qword * 2
    }
}

struct Bench {
    card: Card,
    kiq: u64,
    hiq: u64,
    fence: u64,
}

impl std::ops::Deref for Bench {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.card
    }
}

impl Bench {
    fn new() -> Self {
        let card = Card::bare(Knobs::default());
        let engine = card.gpu.clone();
        std::thread::spawn(move || engine.xccs[0].cp.run(&engine));
        for n in 0..4 {
            card.start_ring(n, 0);
        }
        let mut bench = Self {
            card,
            kiq: 0,
            hiq: 0,
            fence: 0,
        };
        bench.page_tables();
        bench.start_kiq();
        bench.start_hiq();
        bench
    }

    fn put(&self, offset: u64, words: &[u32]) {
        for (n, word) in words.iter().enumerate() {
            let at = offset + n as u64 * 4;
            self.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
        }
    }

    fn user64(&self, va: u64) -> u64 {
        self.get64(va - VA + MEMORY)
    }

    fn user32(&self, va: u64) -> u32 {
        self.get32(va - VA + MEMORY)
    }

    fn put_user(&self, va: u64, words: &[u32]) {
        self.put(va - VA + MEMORY, words);
    }

    fn page_tables(&self) {
        let (pdb1, pdb0) = (TABLES + 0x1000, TABLES + 0x2000);
        self.put64(TABLES + (VA >> 39 & 0x1ff) * 8, pdb1 | 1);
        self.put64(pdb1 + (VA >> 30 & 0x1ff) * 8, pdb0 | 1);
        for n in 0..SIZE >> 21 {
            let entry = (MEMORY + (n << 21)) | 0x71 | 1 << 54;
            self.put64(pdb0 + ((VA >> 21 & 0x1ff) + n) * 8, entry);
        }
        for hub in [Hub::Gfx(0), Hub::Mm(0)] {
            for vmid in 3..16 {
                enable_context(&self.gpu, hub, vmid, 3, 0, 0);
                let start = gc::regVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.at(2 * vmid);
                common::hub_write(&self.gpu, hub, start, 0);
                common::hub_write(&self.gpu, hub, start.at(1), 0);
            }
        }
    }

    fn reg(&self, reg: Reg, value: u32) {
        self.gpu.reg_write(addr(Ip::Gc, reg), value);
    }

    fn start_kiq(&self) {
        self.reg(gc::regRLC_CP_SCHEDULERS, 0x80 | 2 << 5 | 1 << 3);
        self.reg(gc::regGRBM_GFX_CNTL, 1 | 2 << 2);
        let set64 = |reg: Reg, value: u64| {
            self.reg(reg, lo(value));
            self.reg(reg.at(1), hi(value));
        };
        put_kiq_mqd(&self.gpu, KIQ_MQD);
        set64(gc::regCP_MQD_BASE_ADDR, FB + KIQ_MQD);
        self.reg(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 1 << 30);
        set64(gc::regCP_HQD_PQ_BASE, (FB + KIQ_RING) >> 8);
        self.reg(gc::regCP_HQD_PQ_CONTROL, 0xc000_0000 | 9);
        set64(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR, FB + POINTERS);
        set64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, FB + POINTERS + 8);
        self.reg(gc::regCP_HQD_ACTIVE, 1);
        self.reg(gc::regCP_PQ_STATUS, 2);
        self.reg(gc::regGRBM_GFX_CNTL, 0);
    }

    fn start_hiq(&mut self) {
        let mut mqd = Mqd::zeroed();
        mqd.header = 0xc031_0800;
        mqd.compute_static_thread_mgmt_se0 = !0;
        mqd.cp_mqd_base_addr_lo = lo(FB + HIQ_MQD);
        mqd.cp_mqd_base_addr_hi = hi(FB + HIQ_MQD);
        let (ring, pointers) = ((FB + HIQ_RING) >> 8, FB + POINTERS + 0x10);
        mqd.cp_hqd_pq_base_lo = lo(ring);
        mqd.cp_hqd_pq_base_hi = hi(ring);
        mqd.cp_hqd_pq_control = 0xc000_0000 | 8;
        mqd.cp_hqd_pq_rptr_report_addr_lo = lo(pointers);
        mqd.cp_hqd_pq_rptr_report_addr_hi = hi(pointers);
        mqd.cp_hqd_pq_wptr_poll_addr_lo = lo(pointers) + 8;
        mqd.cp_hqd_pq_wptr_poll_addr_hi = hi(pointers);
        mqd.cp_hqd_pq_doorbell_control = HIQ_DOORBELL << 2;
        self.put(HIQ_MQD, mqd.dwords());
        let (mqd, wptr) = (FB + HIQ_MQD, FB + POINTERS + 0x18);
        let words = [
            pm4::map_queues::PACKET.header(),
            1 << 29 | 1 << 26 | 1 << 18,
            HIQ_DOORBELL << 2,
            lo(mqd),
            hi(mqd),
            lo(wptr),
            hi(wptr),
        ];
        self.put(KIQ_RING, &words);
        self.kiq += words.len() as u64;
        self.gpu.doorbell(0, self.kiq, 8);
        let resources = pm4::set_resources::PACKET.header();
        // Unmap latency of 300 ms.
        let first = 1 << 29 | 3 << 16 | 0xfff8;
        self.hiq(&[resources, first, 0xfcfc_fcfc, 0, !0, !0, 0, 0]);
    }

    fn hiq(&mut self, words: &[u32]) {
        for word in words {
            self.put(HIQ_RING + self.hiq % 512 * 4, &[*word]);
            self.hiq += 1;
        }
        self.put64(POINTERS + 0x18, self.hiq);
        let offset = u64::from(HIQ_DOORBELL) * 4;
        self.gpu.doorbell(offset, self.hiq, 8);
    }

    /// Sends QUERY_STATUS and waits for its fence.
    fn hiq_fence(&mut self) {
        self.fence += 1;
        let (to, value) = (FB + FENCE, self.fence);
        let head = pm4::query_status::PACKET.header();
        self.hiq(&[head, 2 << 30, 0, lo(to), hi(to), lo(value), hi(value)]);
        self.until("HIQ fence", |c| c.get64(FENCE) == value);
    }

    /// Creates a queue with a ring of 4 KiB.
    fn queue(&self, user: User) {
        let mut mqd = SdmaMqd::zeroed();
        mqd.sdmax_rlcx_rb_cntl = 10 << 1 | 1 << 12 | 6 << 16;
        mqd.sdmax_rlcx_rb_base = lo(user.ring() >> 8);
        mqd.sdmax_rlcx_rb_base_hi = hi(user.ring() >> 8);
        mqd.sdmax_rlcx_rb_rptr_addr_lo = lo(user.rptr());
        mqd.sdmax_rlcx_rb_rptr_addr_hi = hi(user.rptr());
        mqd.sdmax_rlcx_doorbell_offset = user.doorbell() << 2;
        mqd.sdmax_rlcx_dummy_reg = 0xf;
        mqd.sdmax_rlcx_ib_cntl = 1 << 8;
        mqd.sdma_engine_id = user.engine;
        mqd.sdma_queue_id = user.queue;
        self.put(user.mqd(), mqd.dwords());
    }

    fn run_list(&mut self, users: &[User], chain: bool) {
        let mut list = Vec::new();
        let mut process = None;
        for user in users {
            if process != Some(user.process) {
                process = Some(user.process);
                let same = users.iter().filter(|u| u.process == user.process);
                let mut map = vec![0; 21];
                map[0] = pm4::map_process::PACKET.header();
                map[1] = user.pasid() | 10 << 25;
                map[2] = lo(TABLES | 1);
                map[3] = hi(TABLES | 1);
                map[4] = 0x0001_0002;
                map[13] = (same.count() as u32) << 22 | 1 << 7;
                list.extend(map);
            }
            let (mqd, wptr) = (FB + user.mqd(), user.wptr());
            list.extend([
                pm4::map_queues::PACKET.header(),
                1 << 29 | 1 << 4 | 1 << 2 | user.engine << 26,
                user.doorbell() << 2,
                lo(mqd),
                hi(mqd),
                lo(wptr),
                hi(wptr),
            ]);
        }
        let (at, size) = (FB + LIST, list.len() as u32);
        let head = pm4::run_list::PACKET.header();
        if chain {
            list.extend([head, lo(at), hi(at), 1 << 23 | 1 << 20 | size]);
        }
        self.put(LIST, &list);
        let size = list.len() as u32;
        self.hiq(&[head, lo(at), hi(at), 1 << 23 | size]);
        self.hiq_fence();
    }

    fn unmap_all(&mut self) {
        let head = pm4::unmap_queues::PACKET.header();
        self.hiq(&[head, 2 << 4 | 1 << 2, 0, 0, 0, 0]);
        self.hiq_fence();
    }

    fn submit(&self, user: User, words: &[u32]) {
        let mut wptr = self.user64(user.wptr());
        for word in words {
            self.put_user(user.ring() + wptr % 4096, &[*word]);
            wptr += 4;
        }
        self.put_user(user.wptr(), &[lo(wptr), hi(wptr)]);
        let offset = u64::from(user.doorbell()) * 4;
        self.gpu.doorbell(offset, wptr, 8);
    }

    /// Waits until a queue is idle.
    fn idle(&self, user: User) {
        self.until("queue", |_| {
            self.user64(user.rptr()) == self.user64(user.wptr())
        });
    }

    fn mqd(&self, user: User, n: usize) -> u32 {
        self.get32(user.mqd() + n as u64 * 4)
    }

    /// Reads a register of the queue's RLC context, given by that of the first context.
    fn rlc(&self, user: User, reg: Reg) -> u32 {
        let reg = reg.at(user.queue * pkt::RLC_REG_STRIDE);
        self.read(user.engine as usize, reg)
    }
}

fn write(to: u64, value: u32) -> [u32; 5] {
    [pkt::write::HEADER, lo(to), hi(to), 0, value]
}

fn users(count: u32) -> Vec<User> {
    (0..count)
        .map(|n| User {
            n: n.into(),
            engine: n % 4,
            queue: n / 4,
            process: n,
        })
        .collect()
}

#[test]
fn all_contexts_run_by_doorbell() {
    let mut bench = Bench::new();
    // All contexts of all engines, in one process.
    let all: Vec<User> = users(32)
        .into_iter()
        .map(|u| User { process: 0, ..u })
        .collect();
    for user in &all {
        bench.queue(*user);
    }
    bench.run_list(&all, false);
    bench.card.interrupts();
    for (n, user) in all.iter().enumerate() {
        let value = 0x1000 + n as u32;
        bench.submit(*user, &write(user.data(), value));
        let to = user.data() + 8;
        bench.submit(*user, &[pkt::fence::HEADER, lo(to), hi(to), value]);
        bench.submit(*user, &[pkt::trap::HEADER, value]);
        bench.idle(*user);
        assert_eq!(bench.user32(user.data()), value);
        assert_eq!(bench.user32(to), value);
        let client = [8, 9, 1, 4][n % 4];
        let found = bench.card.interrupts();
        let vmid = found[0][3];
        assert!((3..16).contains(&vmid));
        assert_eq!(found, [[client, 224, 2 + user.queue, vmid, value]]);
    }
    bench.assert_clean();
}

#[test]
fn queue_unmap_and_remap() {
    let mut bench = Bench::new();
    let user = User {
        n: 5,
        engine: 2,
        queue: 3,
        process: 1,
    };
    bench.queue(user);
    bench.run_list(&[user], false);
    bench.submit(user, &write(user.data(), 1));
    bench.idle(user);
    assert_ne!(bench.rlc(user, sdma::regSDMA_RLC0_RB_CNTL) & 1, 0);
    bench.unmap_all();
    assert_eq!(bench.rlc(user, sdma::regSDMA_RLC0_RB_CNTL) & 1, 0);
    assert_eq!(bench.rlc(user, sdma::regSDMA_RLC0_CONTEXT_STATUS), 4);
    assert_eq!(bench.mqd(user, dw::sdmax_rlcx_rb_rptr), 20);
    assert_eq!(bench.mqd(user, dw::sdmax_rlcx_rb_wptr), 20);
    // Doorbell rung while unmapped: mapping polls the write pointer in memory.
    bench.submit(user, &write(user.data(), 2));
    assert_eq!(bench.user32(user.data()), 1);
    bench.run_list(&[user], false);
    bench.idle(user);
    assert_eq!(bench.user32(user.data()), 2);
    // Preempted during a poll, and in an IB that polls.
    let (gate, buffer) = (user.data() + 0x100, user.data() + 0x200);
    let mut words = write(user.data(), 3).to_vec();
    words.extend(poll(gate, 1));
    words.extend(write(user.data(), 4));
    bench.put_user(buffer, &words);
    let size = words.len() as u32;
    let mut ring = vec![pkt::NOP_SINGLE; 4];
    while (10 + ring.len() + 6) % 8 != 0 {
        ring.push(pkt::NOP_SINGLE);
    }
    ring.extend([pkt::indirect::HEADER, lo(buffer), hi(buffer), size, 0, 0]);
    ring.extend(write(user.data() + 4, 5));
    bench.submit(user, &ring);
    bench.until("inside", |_| bench.user32(user.data()) == 3);
    for _ in 0..5 {
        bench.unmap_all();
        assert_eq!(bench.mqd(user, dw::sdmax_rlcx_ib_size), size);
        assert_eq!(bench.mqd(user, dw::sdmax_rlcx_ib_offset), 5 << 2);
        bench.run_list(&[user], false);
    }
    assert_eq!(bench.user64(user.data()), 3);
    bench.put_user(gate, &[1]);
    bench.idle(user);
    bench.until("rest", |_| bench.user64(user.data()) == 5 << 32 | 4);
    bench.assert_clean();
}

#[test]
fn preemption_during_long_copy() {
    let mut bench = Bench::new();
    let user = User {
        n: 0,
        engine: 1,
        queue: 0,
        process: 0,
    };
    bench.queue(user);
    let (src, dst, len) = (VA + 0x100_0000, VA + 0x220_0000, 16u32 << 20);
    for n in 0..u64::from(len) / 4096 {
        bench.put_user(src + n * 4096, &[n as u32 + 1]);
    }
    bench.run_list(&[user], false);
    for _ in 0..8 {
        bench.submit(user, &copy(src, dst, len));
    }
    for _ in 0..20 {
        bench.unmap_all();
        bench.run_list(&[user], false);
    }
    bench.idle(user);
    for n in 0..u64::from(len) / 4096 {
        assert_eq!(bench.user32(dst + n * 4096), n as u32 + 1);
    }
    bench.assert_clean();
}

#[test]
fn more_processes_than_vmids() {
    let mut bench = Bench::new();
    let all = users(20);
    for user in &all {
        bench.queue(*user);
    }
    bench.run_list(&all, true);
    for round in 1..6u32 {
        for user in &all {
            bench.submit(*user, &write(user.data(), round));
        }
        // Some of them wait for queues that may not be mapped.
        for pair in all.chunks(2) {
            bench.submit(pair[0], &poll(pair[1].data() + 8, round));
            bench.submit(pair[1], &write(pair[1].data() + 8, round));
        }
        for user in &all {
            bench.idle(*user);
            assert_eq!(bench.user32(user.data()), round);
        }
    }
    bench.unmap_all();
    bench.assert_clean();
}

#[test]
fn waiting_queue_blocks_neither_engine_nor_kernel_ring() {
    let mut bench = Bench::new();
    let [one, two] = [0, 1].map(|queue| User {
        n: queue.into(),
        engine: 0,
        queue,
        process: queue,
    });
    bench.queue(one);
    bench.queue(two);
    bench.run_list(&[one, two], false);
    bench.submit(one, &poll(one.data(), 9));
    bench.submit(two, &write(two.data(), 7));
    bench.idle(two);
    bench.card.finish(0);
    assert_eq!(bench.rlc(one, sdma::regSDMA_RLC0_CONTEXT_STATUS), 1);
    bench.put_user(one.data(), &[9]);
    bench.idle(one);
    bench.assert_clean();
}

#[test]
fn faults_are_confined_to_their_process() {
    let mut bench = Bench::new();
    let user = users(1)[0];
    bench.queue(user);
    bench.run_list(&[user], false);
    bench.card.interrupts();
    bench.submit(user, &copy(user.data(), 0x7_0000_0000, 16));
    bench.submit(user, &write(user.data(), 1));
    bench.idle(user);
    let found = bench.card.interrupts();
    assert_eq!((found[0][0], found[0][4]), (0x12, 0x70_0000));
    // Users can neither write registers nor use other VMIDs.
    bench.submit(user, &[pkt::srbm_write::HEADER | 0xf << 28, 0x2040, 1]);
    bench.idle(user);
    assert_eq!(bench.card.interrupts()[0][1], 247);
    bench.card.finish(0);
}

/// Drivers find it by its engine: only doorbells of compute queues are reported.
#[test]
fn hung_sdma_queue_is_not_reported_by_doorbell() {
    let mut bench = Bench::new();
    let user = users(1)[0];
    bench.queue(user);
    bench.run_list(&[user], false);
    bench.gpu.knobs.hws_no_preempt.set(2);
    bench.unmap_all();
    let failed = HIQ_MQD + v9::HIQ_FAILED_DOORBELLS as u64 * 4;
    assert_eq!(bench.get32(failed), 0);
    assert_eq!(bench.rlc(user, sdma::regSDMA_RLC0_RB_CNTL) & 1, 1);
    bench.submit(user, &write(user.data(), 1));
    bench.idle(user);
    bench.gpu.knobs.hws_no_preempt.set(0);
    std::thread::sleep(Duration::from_millis(5));
    bench.unmap_all();
    assert_eq!(bench.rlc(user, sdma::regSDMA_RLC0_RB_CNTL) & 1, 0);
}

/// Returns the packets of ROCr for one copy: waits for signals, flushes, takes timestamps, copies
/// in pieces, decrements a signal and signals its event.
fn runtime_copy(user: User, pieces: &[(u64, u64, u32)], signal: u64, event: u32) -> Vec<u32> {
    let mut words = Vec::new();
    // A signal has 64 bits, a poll compares 32.
    words.extend(poll(signal + 0x40 + 4, 0));
    words.extend(poll(signal + 0x40, 0));
    // As written by ROCr: neither memory nor HDP flush, with a condition that is always true.
    words.extend([pkt::poll_regmem::HEADER, 0, 0x8000_0000, 0, 0, 0]);
    let time = |at: u64| [0x20d, lo(at), hi(at)];
    words.extend(time(signal + 0x20));
    for &(src, dst, bytes) in pieces {
        words.extend(copy(src, dst, bytes));
    }
    words.extend([pkt::poll_regmem::HEADER, 0, 0x8000_0000, 0, 0, 0]);
    words.extend(time(signal + 0x28));
    let value = signal + 8;
    let add = (pkt::atomic_op::ADD | pkt::atomic_op::QUADWORD) << 25 | u32::from(pkt::op::ATOMIC);
    words.extend([add, lo(value), hi(value), !0, !0, 0, 0, 0]);
    let mailbox = user.data() + 0x800;
    words.extend([pkt::fence::HEADER, lo(mailbox), hi(mailbox), event]);
    words.extend([pkt::trap::HEADER, event]);
    words
}

#[test]
fn rocr_copy_packets_run_in_order() {
    let mut bench = Bench::new();
    let users: Vec<User> = (0..2)
        .map(|n| User {
            n,
            engine: 1,
            queue: n as u32,
            process: 0,
        })
        .collect();
    for user in &users {
        bench.queue(*user);
    }
    bench.run_list(&users, false);
    bench.card.interrupts();
    let (src, dst, piece) = (VA + 0x100_0000, VA + 0x220_0000, 0x3f_ffe0u32);
    let pages = 3 * u64::from(piece) / 4096;
    for n in 0..pages {
        bench.put_user(src + n * 4096, &[n as u32 + 7]);
    }
    let pieces: Vec<_> = (0..3)
        .map(|n| {
            (
                src + n * u64::from(piece),
                dst + n * u64::from(piece),
                piece,
            )
        })
        .collect();
    // The second copy reads the result of the first; both are submitted at once.
    let signals = users.clone().into_iter().map(|u| u.data() + 0x400);
    let signals: Vec<u64> = signals.collect();
    let back = [(dst, src + 0x200_0000, 1 << 20)];
    bench.put_user(signals[0] + 8, &[1]);
    bench.put_user(signals[1] + 8, &[1]);
    bench.put_user(signals[1] + 0x40, &[1]);
    bench.submit(users[1], &runtime_copy(users[1], &back, signals[1], 6));
    bench.submit(users[0], &runtime_copy(users[0], &pieces, signals[0], 5));
    bench.until("first", |_| bench.user64(signals[0] + 8) == 0);
    assert_eq!(bench.user64(signals[1] + 8), 1, "second copy did not wait");
    // Preempted and remapped while it waits.
    bench.unmap_all();
    bench.run_list(&users, false);
    bench.put_user(signals[1] + 0x40, &[0]);
    bench.until("second", |_| bench.user64(signals[1] + 8) == 0);
    users.iter().for_each(|user| bench.idle(*user));
    for n in 0..pages {
        assert_eq!(bench.user32(dst + n * 4096), n as u32 + 7);
    }
    assert_eq!(bench.user32(src + 0x200_0000), 7);
    let times: Vec<u64> = signals
        .iter()
        .flat_map(|s| [bench.user64(s + 0x20), bench.user64(s + 0x28)])
        .collect();
    assert!(times[0] < times[1] && times[2] < times[3], "{times:?}");
    let events: Vec<u32> = bench.card.interrupts().iter().map(|i| i[4]).collect();
    assert_eq!(events, [5, 6]);
    bench.assert_clean();
}
