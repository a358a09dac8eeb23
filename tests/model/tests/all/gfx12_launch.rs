// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernel launch on a GC 12.0 card without its scheduler: an AQL queue mapped by registers, gfx12
//! page tables, a wave32 kernel, its signal, preemption by a register.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{self, VRAM};
use gpu_model::chips::rx9070::CHIP;
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_12_0_0 as gc, nbif_6_3_1 as nbif, Reg};
use rkfd_abi::aql::{self, header, kernel_dispatch as kd, queue as amd_queue, signal};
use rkfd_abi::mqd::v12::{dw, Mqd, HQD_FIRST, HQD_LAST};

/// MC address of VRAM.
const FB: u64 = (CHIP.fb_location as u64) << 24;
// VRAM offsets.
const MQD: u64 = 0x15_0000;
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

const DOORBELL: u32 = 0x1000;
const VMID: u32 = 8;
/// ME 1, pipe 1, queue 2.
const SELECT: u32 = 1 | 1 << 2 | 2 << 8;

/// `c[i] = a[i] + b[i]`, 256 work-items per workgroup, kernel arguments a, b, c.
const VECTOR_ADD: [u32; 20] = [
    // s_load_b128 s[4:7], s[0:1], 0x0
    0xf400_4100,
    0xf800_0000,
    // s_load_b64 s[8:9], s[0:1], 0x10
    0xf400_2200,
    0xf800_0010,
    // s_lshl_b32 s2, ttmp9, 8
    0x8402_8875,
    // v_add_nc_u32_e32 v0, s2, v0
    0x4a00_0002,
    // v_lshlrev_b32_e32 v0, 2, v0
    0x3000_0082,
    // s_wait_kmcnt 0x0
    0xbfc7_0000,
    // global_load_b32 v1, v0, s[4:5]
    0xee05_0004,
    0x0000_0001,
    0x0000_0000,
    // global_load_b32 v2, v0, s[6:7]
    0xee05_0006,
    0x0000_0002,
    0x0000_0000,
    // s_wait_loadcnt 0x0
    0xbfc0_0000,
    // v_add_nc_u32_e32 v1, v1, v2
    0x4a02_0501,
    // global_store_b32 v0, v1, s[8:9]
    0xee06_8008,
    0x0080_0000,
    0x0000_0000,
    // s_endpgm
    0xbfb0_0000,
];

/// Driver and user process.
struct Bench {
    gpu: Arc<Gpu>,
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

    fn address(reg: Reg) -> u32 {
        CHIP.base(Ip::Gc, 0, reg.seg).unwrap() + reg.off
    }

    fn reg(&self, reg: Reg, value: u32) {
        self.gpu.reg_write(Self::address(reg), value);
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let late = since.elapsed() > Duration::from_secs(20);
            assert!(!late, "{what}: {:#?}", self.gpu.strict.lines());
            std::thread::yield_now();
        }
    }

    /// Initialises the card as a driver does.
    fn start_card(&self) {
        let top = FB + VRAM - 1;
        self.reg(gc::regGCMC_VM_SYSTEM_APERTURE_LOW_ADDR, (FB >> 18) as u32);
        self.reg(gc::regGCMC_VM_SYSTEM_APERTURE_HIGH_ADDR, (top >> 18) as u32);
        self.reg(gc::regGCMC_VM_MX_L1_TLB_CNTL, 1 | 3 << 3 | 1 << 6);
        let enable = nbif::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN;
        let enable = CHIP.base(Ip::Nbif, 0, enable.seg).unwrap() + enable.off;
        self.gpu.reg_write(enable, 1);
        let run = gc::CP_MEC_RS64_CNTL__MEC_PIPE0_ACTIVE.mask
            | gc::CP_MEC_RS64_CNTL__MEC_PIPE1_ACTIVE.mask;
        self.reg(gc::regCP_MEC_RS64_CNTL, run);
        self.reg(gc::regCP_PQ_STATUS, 2);
        self.reg(gc::regGRBM_GFX_CNTL, VMID << 4);
        self.reg(gc::regSH_MEM_BASES, 0x0001_0002);
        self.reg(gc::regGRBM_GFX_CNTL, 0);
    }

    /// Maps all user memory by 2 MiB pages.
    fn page_tables(&self) {
        let entry = |table: u64, index: u64, value: u64| {
            self.put(table + index * 8, &[value as u32, (value >> 32) as u32]);
        };
        let (pdb1, pdb0) = (TABLES + 0x1000, TABLES + 0x2000);
        entry(TABLES, VA >> 39 & 0x1ff, pdb1 | 1);
        entry(pdb1, VA >> 30 & 0x1ff, pdb0 | 1);
        for n in 0..USER_SIZE >> 21 {
            let rights = 1 | 7 << 4 | 1 << 63;
            entry(pdb0, (VA >> 21 & 0x1ff) + n, (USER + (n << 21)) | rights);
        }
        let base = gc::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(2 * VMID);
        self.reg(base, TABLES as u32 | 1);
        let end = gc::regGCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.at(2 * VMID);
        self.reg(end, !0);
        self.reg(end.at(1), 0xf);
        let cntl = 1 | 3 << 1 | 0x00ff_fc00;
        self.reg(gc::regGCVM_CONTEXT0_CNTL.at(VMID), cntl);
    }

    fn start_queue(&self) {
        let mut mqd = Mqd::zeroed();
        let rptr = QUEUE + amd_queue::READ_DISPATCH_ID as u64;
        let wptr = QUEUE + amd_queue::WRITE_DISPATCH_ID as u64;
        mqd.header = rkfd_abi::mqd::v12::HEADER;
        mqd.cp_mqd_base_addr_lo = (FB + MQD) as u32;
        mqd.cp_mqd_base_addr_hi = ((FB + MQD) >> 32) as u32;
        mqd.cp_hqd_vmid = VMID;
        mqd.cp_hqd_persistent_state = 1 << 30 | 0x55 << 8;
        mqd.cp_hqd_pq_base_lo = (RING >> 8) as u32;
        mqd.cp_hqd_pq_base_hi = (RING >> 40) as u32;
        mqd.cp_hqd_pq_control = gc::CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR.put(2) | 9;
        mqd.cp_hqd_aql_control = 1;
        mqd.cp_hqd_pq_rptr_report_addr_lo = rptr as u32;
        mqd.cp_hqd_pq_rptr_report_addr_hi = (rptr >> 32) as u32;
        mqd.cp_hqd_pq_wptr_poll_addr_lo = wptr as u32;
        mqd.cp_hqd_pq_wptr_poll_addr_hi = (wptr >> 32) as u32;
        mqd.cp_hqd_pq_doorbell_control = 1 << 30 | DOORBELL << 2;
        mqd.cp_hqd_ctx_save_base_addr_lo = SAVE as u32;
        mqd.cp_hqd_ctx_save_base_addr_hi = (SAVE >> 32) as u32;
        mqd.cp_hqd_cntl_stack_size = 0x3000;
        mqd.cp_hqd_ctx_save_size = 0x8_0000;
        self.put(MQD, mqd.dwords());
        for n in 0..64 {
            self.user(RING + n * 64, &[1]);
        }
        self.reg(gc::regGRBM_GFX_CNTL, SELECT);
        for n in HQD_FIRST..=HQD_LAST {
            let reg = gc::regCP_MQD_BASE_ADDR.at((n - HQD_FIRST) as u32);
            if n != dw::cp_hqd_active {
                self.reg(reg, mqd.dwords()[n]);
            }
        }
        self.reg(gc::regCP_HQD_ACTIVE, 1);
        self.reg(gc::regGRBM_GFX_CNTL, 0);
    }

    fn kernel(&self) {
        let mut descriptor = [0u32; 16];
        descriptor[4] = 256;
        // VGPRs; user SGPRs; kernarg pointer, wave32.
        descriptor[12] = 1;
        descriptor[13] = 2 << 1 | 1 << 7;
        descriptor[14] = 1 << 3 | 1 << 10;
        self.user(CODE, &descriptor);
        self.user(CODE + 256, &VECTOR_ADD);
        for (n, va) in [A, B, C].iter().enumerate() {
            self.user64(KERNARG + 8 * n as u64, *va);
        }
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

fn with_bench(test: impl FnOnce(&Bench)) {
    let gpu = common::card(&CHIP, Knobs::default());
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
        let bench = Bench { gpu: gpu.clone() };
        bench.start_card();
        bench.page_tables();
        bench.kernel();
        bench.start_queue();
        test(&bench);
    });
}

fn numbers(count: u32, factor: u32) -> Vec<u32> {
    (0..count).map(|n| n.wrapping_mul(factor)).collect()
}

#[test]
fn wave32_vector_add() {
    with_bench(|bench| {
        const COUNT: u32 = 1 << 17;
        bench.user(A, &numbers(COUNT, 3));
        bench.user(B, &numbers(COUNT, 5));
        for round in 0..3 {
            bench.launch(round, COUNT);
            bench.until("signal", Bench::signalled);
        }
        let mut bytes = vec![0; COUNT as usize * 4];
        bench.gpu.vram.read(C - VA + USER, &mut bytes).unwrap();
        let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        let got: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        assert_eq!(got, numbers(COUNT, 8));
        assert_eq!(bench.gpu.strict.lines(), Vec::<String>::new());
    });
}

#[test]
fn dequeue_request_preempts_queue() {
    with_bench(|bench| {
        // Long enough to be interrupted, short enough for a test.
        bench.launch(0, 1 << 20);
        bench.reg(gc::regGRBM_GFX_CNTL, SELECT);
        bench.reg(gc::regCP_HQD_DEQUEUE_REQUEST, 3);
        let active = Bench::address(gc::regCP_HQD_ACTIVE);
        bench.until("dequeued", |b| b.gpu.reg_read(active) == 0);
        bench.reg(gc::regGRBM_GFX_CNTL, 0);
        let rptr = bench.get(MQD + dw::cp_hqd_pq_rptr as u64 * 4) as u32;
        assert!(rptr == 0 || bench.signalled(), "read pointer {rptr:#x}");
        assert_eq!(bench.gpu.strict.lines(), Vec::<String>::new());
    });
}

/// Prints the time of the demo's vector; meaningful only with
/// `cargo test --release -p gpu_model --test all gfx12_launch:: -- --nocapture`.
#[test]
fn vector_add_time() {
    with_bench(|bench| {
        for round in 0..3 {
            let since = Instant::now();
            bench.launch(round, 1 << 20);
            bench.until("signal", Bench::signalled);
            println!("1048576 additions in {:?}", since.elapsed());
        }
    });
}
