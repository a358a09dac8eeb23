// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernel launch on a card: KIQ by registers, HIQ by a KIQ packet, an AQL queue by a runlist, a
//! kernel with page tables, its signal and its interrupt; all through BARs and VRAM.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::process::{words, Process, DOORBELL, KERNARG, RING, RPTR, USER, VA, WPTR};
use crate::common::{addr, enable_context, gpu, open_aperture, put_kiq_mqd, with_cp, FB};
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::{Gpu, Reset};
use gpu_model::regs::Ip;
use gpu_regs::Reg;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio};
use rkfd_abi::mqd::v9::Mqd;
use rkfd_abi::pm4::{self, op};

// VRAM offsets.
const KIQ_RING: u64 = 0x10_0000;
const KIQ_MQD: u64 = 0x10_8000;
const POINTERS: u64 = 0x11_0000;
const HIQ_MQD: u64 = 0x12_0000;
const HIQ_RING: u64 = 0x13_0000;
const LIST: u64 = 0x14_0000;
const MQD: u64 = 0x15_0000;
const FENCE: u64 = 0x16_0000;
const TABLES: u64 = 0x20_0000;
/// Size of user memory in bytes.
const USER_SIZE: u64 = 64 << 20;

// User addresses.
const SAVE: u64 = VA + 0x10_0000;
const A: u64 = VA + 0x100_0000;
const B: u64 = VA + 0x200_0000;
const C: u64 = VA + 0x300_0000;

const HIQ_DOORBELL: u32 = 0x800;
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

impl Process for Bench {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Bench {
    fn reg(&self, reg: Reg, value: u32) {
        self.gpu.reg_write(addr(Ip::Gc, reg), value);
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

    /// Maps all user memory; returns the root.
    fn page_tables(&self) -> u64 {
        for vmid in 1..16 {
            enable_context(&self.gpu, Hub::Gfx(0), vmid, 3, 0, 0);
        }
        self.put_tables(TABLES, USER_SIZE, 1 | 7 << 4 | 1 << 54)
    }

    fn start_queue(&mut self) {
        let root = self.page_tables();
        self.mqd(MQD, |mqd| {
            mqd.cp_hqd_persistent_state = 1 << 30;
            mqd.cp_hqd_pq_base_lo = (RING >> 8) as u32;
            mqd.cp_hqd_pq_base_hi = (RING >> 40) as u32;
            mqd.cp_hqd_pq_control = 2 << 25 | 9;
            mqd.cp_hqd_aql_control = 1;
            mqd.cp_hqd_pq_rptr_report_addr_lo = RPTR as u32;
            mqd.cp_hqd_pq_rptr_report_addr_hi = (RPTR >> 32) as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_lo = WPTR as u32;
            mqd.cp_hqd_pq_wptr_poll_addr_hi = (WPTR >> 32) as u32;
            mqd.cp_hqd_pq_doorbell_control = DOORBELL << 2;
            mqd.cp_hqd_ctx_save_base_addr_lo = SAVE as u32;
            mqd.cp_hqd_ctx_save_base_addr_hi = (SAVE >> 32) as u32;
            mqd.cp_hqd_cntl_stack_size = 0x3000;
            mqd.cp_hqd_ctx_save_size = 0x8_0000;
        });
        self.put_ring();
        let mut list = vec![0; 21];
        list[0] = pm4::map_process::PACKET.header();
        list[1] = PASID | 10 << 25;
        list[2] = root as u32;
        list[3] = (root >> 32) as u32;
        list[4] = 0x0001_0002;
        list[13] = 1 << 22;
        let (mqd, wptr) = (FB + MQD, WPTR);
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

    /// Writes the kernel and its arguments.
    fn kernel(&self) {
        self.put_kernel(false, &VECTOR_ADD);
        for (n, va) in (0..).zip([A, B, C]) {
            self.user(KERNARG + 8 * n, &words(va));
        }
    }
}

fn with_bench(test: impl FnOnce(&mut Bench)) {
    let gpu = gpu();
    with_cp(&gpu, || {
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
        for round in 0..3 {
            bench.put_dispatch(round, 256, COUNT);
            bench.until("signal", Process::is_signalled);
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
        bench.assert_clean();
    });
}

#[test]
fn reset_during_dispatch() {
    with_bench(|bench| {
        bench.start_queue();
        bench.kernel();
        bench.put_dispatch(0, 256, 1 << 20);
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
        for round in 0..3 {
            let since = Instant::now();
            bench.put_dispatch(round, 256, 1 << 20);
            bench.until("signal", Process::is_signalled);
            println!("1048576 additions in {:?}", since.elapsed());
        }
    });
}
