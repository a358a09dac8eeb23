// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernel launch on a card: KIQ by registers, HIQ by a KIQ packet, an AQL queue by a runlist, a
//! kernel with page tables, its signal and its interrupt; all through BARs and VRAM.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{addr, enable_context, gpu, open_aperture, FB};
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::{Gpu, Reset};
use gpu_model::regs::Ip;
use gpu_regs::Reg;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio};
use rkfd_abi::aql::{self, header, kernel_dispatch as kd, queue as amd_queue, signal};
use rkfd_abi::mqd::v9::Mqd;
use rkfd_abi::pm4::{self, op};

// VRAM offsets.
const KIQ_RING: u64 = 0x10_0000;
const POINTERS: u64 = 0x11_0000;
const HIQ_MQD: u64 = 0x12_0000;
const HIQ_RING: u64 = 0x13_0000;
const LIST: u64 = 0x14_0000;
const MQD: u64 = 0x15_0000;
const FENCE: u64 = 0x16_0000;
const TABLES: u64 = 0x20_0000;
/// Start of user memory: 64 MiB, mapped at `VA`.
const USER: u64 = 0x400_0000;
const USER_SIZE: u64 = 64 << 20;

// User addresses.
const VA: u64 = 0x1_0000_0000;
const RING: u64 = VA;
const QUEUE: u64 = VA + 0x1_0000;
const SIGNAL: u64 = VA + 0x2_0000;
const KERNARG: u64 = VA + 0x3_0000;
const CODE: u64 = VA + 0x4_0000;
const SAVE: u64 = VA + 0x10_0000;
const A: u64 = VA + 0x100_0000;
const B: u64 = VA + 0x200_0000;
const C: u64 = VA + 0x300_0000;

const HIQ_DOORBELL: u32 = 0x800;
const DOORBELL: u32 = 0x1000;
const PASID: u32 = 0x21;

/// `c[i] = a[i] + b[i]`, 256 work-items per workgroup, kernel arguments a, b, c.
const VECTOR_ADD: [u32; 18] = [
    // s_load_dwordx4 s[4:7], s[0:1], 0x0
    0xc00a_0100,
    0x0000_0000,
    // s_load_dwordx2 s[8:9], s[0:1], 0x10
    0xc006_0200,
    0x0000_0010,
    // s_lshl_b32 s2, s2, 8
    0x8e02_8802,
    // v_add_u32_e32 v0, s2, v0
    0x6800_0002,
    // v_lshlrev_b32_e32 v0, 2, v0
    0x2400_0082,
    // s_waitcnt lgkmcnt(0)
    0xbf8c_c07f,
    // global_load_dword v1, v0, s[4:5]
    0xdc50_8000,
    0x0104_0000,
    // global_load_dword v2, v0, s[6:7]
    0xdc50_8000,
    0x0206_0000,
    // s_waitcnt vmcnt(0)
    0xbf8c_0f70,
    // v_add_u32_e32 v1, v1, v2
    0x6802_0501,
    // global_store_dword v0, v1, s[8:9]
    0xdc70_8000,
    0x0008_0100,
    // s_endpgm
    0xbf81_0000,
    0xbf81_0000,
];

/// Driver and user process.
struct Bench {
    gpu: Arc<Gpu>,
    kiq_wptr: u64,
    hiq_wptr: u64,
}

impl Bench {
    fn put(&self, offset: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.gpu.vram.write(offset, &bytes).unwrap();
    }

    fn get(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.gpu.vram.read(offset, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn user(&self, va: u64, words: &[u32]) {
        self.put(va - VA + USER, words);
    }

    fn user64(&self, va: u64, value: u64) {
        self.user(va, &[value as u32, (value >> 32) as u32]);
    }

    fn reg(&self, reg: Reg, value: u32) {
        self.gpu.reg_write(addr(Ip::Gc, reg), value);
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let late = since.elapsed() > Duration::from_secs(20);
            assert!(!late, "{what}: {:#?}", self.gpu.strict.lines());
            std::thread::yield_now();
        }
    }

    fn kiq(&mut self, packet: &[u32]) {
        self.put(KIQ_RING + self.kiq_wptr * 4, packet);
        self.kiq_wptr += packet.len() as u64;
        self.gpu.doorbell(0, self.kiq_wptr, 8);
    }

    fn hiq(&mut self, packet: &[u32]) {
        self.put(HIQ_RING + self.hiq_wptr * 4, packet);
        self.hiq_wptr += packet.len() as u64;
        self.put(POINTERS + 0x18, &[self.hiq_wptr as u32, 0]);
        self.gpu
            .doorbell(u64::from(HIQ_DOORBELL) * 4, self.hiq_wptr, 8);
    }

    fn start_kiq(&self) {
        let enable = addr(Ip::Nbif, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN);
        self.gpu.reg_write(enable, 1);
        self.reg(gc::regRLC_CP_SCHEDULERS, 0x80 | 2 << 5 | 1 << 3);
        // ME 2, pipe 1, queue 0.
        self.reg(gc::regGRBM_GFX_CNTL, 1 | 2 << 2);
        let set64 = |reg: Reg, value: u64| {
            self.reg(reg, value as u32);
            self.reg(reg.at(1), (value >> 32) as u32);
        };
        self.reg(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 1 << 30);
        set64(gc::regCP_HQD_PQ_BASE, (FB + KIQ_RING) >> 8);
        self.reg(gc::regCP_HQD_PQ_CONTROL, 0xc000_0000 | 9);
        set64(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR, FB + POINTERS);
        set64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, FB + POINTERS + 8);
        self.reg(gc::regCP_HQD_ACTIVE, 1);
        self.reg(gc::regCP_PQ_STATUS, 2);
        self.reg(gc::regGRBM_GFX_CNTL, 0);
    }

    fn mqd(&self, at: u64, fill: impl FnOnce(&mut Mqd)) {
        let mut mqd = Mqd::zeroed();
        mqd.header = 0xc031_0800;
        mqd.compute_static_thread_mgmt_se0 = !0;
        mqd.cp_mqd_base_addr_lo = (FB + at) as u32;
        mqd.cp_mqd_base_addr_hi = ((FB + at) >> 32) as u32;
        fill(&mut mqd);
        self.put(at, mqd.dwords());
    }

    fn start_hiq(&mut self) {
        self.mqd(HIQ_MQD, |mqd| {
            let ring = (FB + HIQ_RING) >> 8;
            let pointers = FB + POINTERS + 0x10;
            mqd.cp_hqd_pq_base_lo = ring as u32;
            mqd.cp_hqd_pq_base_hi = (ring >> 32) as u32;
            mqd.cp_hqd_pq_control = 0xc000_0000 | 8;
            mqd.cp_hqd_pq_rptr_report_addr_lo = pointers as u32;
            mqd.cp_hqd_pq_rptr_report_addr_hi = (pointers >> 32) as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_lo = pointers as u32 + 8;
            mqd.cp_hqd_pq_wptr_poll_addr_hi = (pointers >> 32) as u32;
            mqd.cp_hqd_pq_doorbell_control = HIQ_DOORBELL << 2;
        });
        let hi = (FB >> 32) as u32;
        let (mqd, wptr) = (FB + HIQ_MQD, FB + POINTERS + 0x18);
        self.kiq(&[
            pm4::map_queues::PACKET.header(),
            1 << 29 | 1 << 26 | 1 << 18,
            HIQ_DOORBELL << 2,
            mqd as u32,
            hi,
            wptr as u32,
            hi,
        ]);
        self.hiq(&[
            pm4::set_resources::PACKET.header(),
            1 << 29 | 40 << 16 | 0xfff8,
            0xfcfc_fcfc,
            0,
            !0,
            !0,
            0,
            0,
        ]);
    }

    /// Maps all user memory by 2 MiB pages; returns the root.
    fn page_tables(&self) -> u64 {
        let entry = |table: u64, index: u64, value: u64| {
            self.put(table + index * 8, &[value as u32, (value >> 32) as u32]);
        };
        let (pdb1, pdb0) = (TABLES + 0x1000, TABLES + 0x2000);
        entry(TABLES, VA >> 39 & 0x1ff, pdb1 | 1);
        entry(pdb1, VA >> 30 & 0x1ff, pdb0 | 1);
        for n in 0..USER_SIZE >> 21 {
            let rights = 1 | 7 << 4 | 1 << 54;
            entry(pdb0, (VA >> 21 & 0x1ff) + n, (USER + (n << 21)) | rights);
        }
        for vmid in 1..16 {
            enable_context(&self.gpu, Hub::Gfx(0), vmid, 3, 0, 0);
        }
        TABLES | 1
    }

    fn start_queue(&mut self) {
        let root = self.page_tables();
        self.mqd(MQD, |mqd| {
            let (rptr, wptr) = (
                QUEUE + amd_queue::READ_DISPATCH_ID as u64,
                QUEUE + amd_queue::WRITE_DISPATCH_ID as u64,
            );
            mqd.cp_hqd_persistent_state = 1 << 30;
            mqd.cp_hqd_pq_base_lo = (RING >> 8) as u32;
            mqd.cp_hqd_pq_base_hi = (RING >> 40) as u32;
            mqd.cp_hqd_pq_control = 2 << 25 | 9;
            mqd.cp_hqd_aql_control = 1;
            mqd.cp_hqd_pq_rptr_report_addr_lo = rptr as u32;
            mqd.cp_hqd_pq_rptr_report_addr_hi = (rptr >> 32) as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_lo = wptr as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_hi = (wptr >> 32) as u32;
            mqd.cp_hqd_pq_doorbell_control = DOORBELL << 2;
            mqd.cp_hqd_ctx_save_base_addr_lo = SAVE as u32;
            mqd.cp_hqd_ctx_save_base_addr_hi = (SAVE >> 32) as u32;
            mqd.cp_hqd_cntl_stack_size = 0x3000;
            mqd.cp_hqd_ctx_save_size = 0x8_0000;
        });
        for n in 0..64 {
            self.user(RING + n * 64, &[1]);
        }
        let mut list = vec![0; 21];
        list[0] = pm4::map_process::PACKET.header();
        list[1] = PASID | 10 << 25;
        list[2] = root as u32;
        list[3] = (root >> 32) as u32;
        list[4] = 0x0001_0002;
        list[13] = 1 << 22;
        let (mqd, wptr) = (FB + MQD, QUEUE + amd_queue::WRITE_DISPATCH_ID as u64);
        list.extend([
            pm4::map_queues::PACKET.header(),
            1 << 29 | 1 << 4,
            DOORBELL << 2,
            mqd as u32,
            (mqd >> 32) as u32,
            wptr as u32,
            (wptr >> 32) as u32,
        ]);
        self.put(LIST, &list);
        let at = FB + LIST;
        self.hiq(&[
            pm4::run_list::PACKET.header(),
            at as u32,
            (at >> 32) as u32,
            1 << 23 | list.len() as u32,
        ]);
    }

    fn kernel(&self) {
        let mut descriptor = [0u32; 16];
        descriptor[4] = 256;
        // ACCUM_OFFSET, VGPRs and SGPRs, user SGPRs and workgroup id, kernarg pointer.
        descriptor[11] = 3;
        descriptor[12] = 1 | 2 << 6;
        descriptor[13] = 2 << 1 | 1 << 7;
        descriptor[14] = 1 << 3;
        self.user(CODE, &descriptor);
        self.user(CODE + 256, &VECTOR_ADD);
    }

    fn launch(&self, index: u64, items: u32) {
        self.user64(SIGNAL + signal::KIND as u64, 1);
        self.user64(SIGNAL + signal::VALUE as u64, 1);
        let mut p = [0u8; 64];
        let head = header::TYPE_KERNEL_DISPATCH | 1 << 8 | 2 << 9 | 2 << 11;
        p[..2].copy_from_slice(&(head as u16).to_le_bytes());
        p[kd::SETUP] = 1;
        for (n, size) in [256u16, 1, 1].iter().enumerate() {
            p[kd::WORKGROUP_SIZE_X + 2 * n..][..2].copy_from_slice(&size.to_le_bytes());
        }
        for (n, size) in [items, 1, 1].iter().enumerate() {
            p[kd::GRID_SIZE_X + 4 * n..][..4].copy_from_slice(&size.to_le_bytes());
        }
        p[kd::KERNEL_OBJECT..][..8].copy_from_slice(&CODE.to_le_bytes());
        p[kd::KERNARG_ADDRESS..][..8].copy_from_slice(&KERNARG.to_le_bytes());
        p[aql::COMPLETION_SIGNAL..][..8].copy_from_slice(&SIGNAL.to_le_bytes());
        let offset = RING - VA + USER + index % 64 * 64;
        self.gpu.vram.write(offset, &p).unwrap();
        self.user64(QUEUE + amd_queue::WRITE_DISPATCH_ID as u64, index + 1);
        self.gpu.doorbell(u64::from(DOORBELL) * 4, index, 8);
    }

    fn signalled(&self) -> bool {
        self.get(SIGNAL - VA + USER + signal::VALUE as u64) == 0
    }
}

fn with_bench(test: impl FnOnce(&mut Bench)) {
    let gpu = gpu();
    struct Stop(Arc<Gpu>);
    impl Drop for Stop {
        fn drop(&mut self) {
            self.0.xccs[0].cp.stop();
        }
    }
    std::thread::scope(|scope| {
        let engine = gpu.clone();
        scope.spawn(move || engine.xccs[0].cp.run(&engine));
        let _stop = Stop(gpu.clone());
        open_aperture(&gpu);
        let mut bench = Bench {
            gpu: gpu.clone(),
            kiq_wptr: 0,
            hiq_wptr: 0,
        };
        bench.start_kiq();
        bench.start_hiq();
        test(&mut bench);
    });
}

fn numbers(count: u32, factor: u32) -> Vec<u32> {
    (0..count).map(|n| n.wrapping_mul(factor)).collect()
}

#[test]
fn aql_queue_runs_vector_add() {
    with_bench(|bench| {
        const COUNT: u32 = 1 << 17;
        bench.start_queue();
        bench.kernel();
        bench.user(A, &numbers(COUNT, 3));
        bench.user(B, &numbers(COUNT, 5));
        for (n, va) in [A, B, C].iter().enumerate() {
            bench.user64(KERNARG + 8 * n as u64, *va);
        }
        for round in 0..3 {
            bench.launch(round, COUNT);
            bench.until("signal", Bench::signalled);
        }
        let mut bytes = vec![0; COUNT as usize * 4];
        bench.gpu.vram.read(C - VA + USER, &mut bytes).unwrap();
        let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        let got: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        assert_eq!(got, numbers(COUNT, 8));
        // Unmap the queue.
        let fence = FB + FENCE;
        bench.hiq(&[
            pm4::unmap_queues::PACKET.header(),
            3 << 4,
            0,
            0,
            0,
            0,
            pm4::query_status::PACKET.header(),
            2 << 30,
            0,
            fence as u32,
            (fence >> 32) as u32,
            100,
            0,
        ]);
        bench.until("fence", |b| b.get(FENCE) == 100);
        assert_eq!(bench.gpu.strict.lines(), Vec::<String>::new());
    });
}

#[test]
fn reset_during_dispatch() {
    with_bench(|bench| {
        bench.start_queue();
        bench.kernel();
        for (n, va) in [A, B, C].iter().enumerate() {
            bench.user64(KERNARG + 8 * n as u64, *va);
        }
        bench.launch(0, 1 << 20);
        std::thread::sleep(Duration::from_millis(5));
        bench.gpu.reset(Reset::Flr);
        open_aperture(&bench.gpu);
        bench.kiq_wptr = 0;
        bench.hiq_wptr = 0;
        bench.put(POINTERS, &[0; 16]);
        bench.start_kiq();
        let scratch = addr(Ip::Gc, gc::regSCRATCH_REG0);
        bench.kiq(&[
            pm4::header(op::SET_UCONFIG_REG, 2),
            scratch - pm4::set_uconfig_reg::START,
            0xdead_beef,
        ]);
        bench.until("ring test", |b| b.gpu.reg_read(scratch) == 0xdead_beef);
    });
}

/// The demo's vector completes with its signal. Prints the time, meaningful only with
/// `cargo test --release -p gpu_model --test all launch:: -- --nocapture`.
#[test]
fn vector_add_time() {
    with_bench(|bench| {
        bench.start_queue();
        bench.kernel();
        for (n, va) in [A, B, C].iter().enumerate() {
            bench.user64(KERNARG + 8 * n as u64, *va);
        }
        for round in 0..3 {
            let since = Instant::now();
            bench.launch(round, 1 << 20);
            bench.until("signal", Bench::signalled);
            println!("1048576 additions in {:?}", since.elapsed());
        }
    });
}
