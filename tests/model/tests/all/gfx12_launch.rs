// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernel launch on a GC 12.0 card without its scheduler: an AQL queue mapped by registers, gfx12
//! page tables, a wave32 kernel, its signal, preemption by a register.

use std::sync::Arc;
use std::time::Instant;

use crate::common::process::{words, Process, DOORBELL, KERNARG, RING, RPTR, USER, VA, WPTR};
use crate::common::{self, with_cp, VRAM};
use gpu_model::chips::rx9070::CHIP;
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_12_0_0 as gc, nbif_6_3_1 as nbif, Reg};
use rkfd_abi::mqd::v12::{dw, Mqd, HQD_FIRST, HQD_LAST};

/// MC address of VRAM.
const FB: u64 = (CHIP.fb_location as u64) << 24;
// VRAM offsets.
const MQD: u64 = 0x15_0000;
const TABLES: u64 = 0x20_0000;
/// Size of user memory in bytes.
const USER_SIZE: u64 = 64 << 20;

// User addresses.
const SAVE: u64 = VA + 0x10_0000;
const A: u64 = VA + 0x100_0000;
const B: u64 = VA + 0x200_0000;
const C: u64 = VA + 0x300_0000;

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

impl Process for Bench {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Bench {
    fn address(reg: Reg) -> u32 {
        CHIP.base(Ip::Gc, 0, reg.seg).unwrap() + reg.off
    }

    fn reg(&self, reg: Reg, value: u32) {
        self.gpu.reg_write(Self::address(reg), value);
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
        for (port, value) in [(0, 0x3000_0007), (3, 0x3000_000d)] {
            let port = nbif::regGDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL.at(port);
            let port = CHIP.base(Ip::Nbif, 0, port.seg).unwrap() + port.off;
            self.gpu.reg_write(port, value);
        }
        let run = gc::CP_MEC_RS64_CNTL__MEC_PIPE0_ACTIVE.mask
            | gc::CP_MEC_RS64_CNTL__MEC_PIPE1_ACTIVE.mask;
        self.reg(gc::regCP_MEC_RS64_CNTL, run);
        self.reg(gc::regCP_PQ_STATUS, 2);
        self.reg(gc::regGRBM_GFX_CNTL, VMID << 4);
        self.reg(gc::regSH_MEM_BASES, 0x0001_0002);
        self.reg(gc::regGRBM_GFX_CNTL, 0);
    }

    /// Maps all user memory.
    fn page_tables(&self) {
        let root = self.put_tables(TABLES, USER_SIZE, 1 | 7 << 4 | 1 << 63);
        let base = gc::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(2 * VMID);
        self.reg(base, root as u32);
        let end = gc::regGCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.at(2 * VMID);
        self.reg(end, !0);
        self.reg(end.at(1), 0xf);
        let cntl = 1 | 3 << 1 | 0x00ff_fc00;
        self.reg(gc::regGCVM_CONTEXT0_CNTL.at(VMID), cntl);
    }

    fn start_queue(&self) {
        let mut mqd = Mqd::zeroed();
        mqd.header = rkfd_abi::mqd::v12::HEADER;
        mqd.cp_mqd_base_addr_lo = (FB + MQD) as u32;
        mqd.cp_mqd_base_addr_hi = ((FB + MQD) >> 32) as u32;
        mqd.cp_hqd_vmid = VMID;
        mqd.cp_hqd_persistent_state = 1 << 30 | 0x55 << 8;
        mqd.cp_hqd_pq_base_lo = (RING >> 8) as u32;
        mqd.cp_hqd_pq_base_hi = (RING >> 40) as u32;
        mqd.cp_hqd_pq_control = gc::CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR.put(2) | 9;
        mqd.cp_hqd_aql_control = 1;
        mqd.cp_hqd_pq_rptr_report_addr_lo = RPTR as u32;
        mqd.cp_hqd_pq_rptr_report_addr_hi = (RPTR >> 32) as u32;
        mqd.cp_hqd_pq_wptr_poll_addr_lo = WPTR as u32;
        mqd.cp_hqd_pq_wptr_poll_addr_hi = (WPTR >> 32) as u32;
        mqd.cp_hqd_pq_doorbell_control = 1 << 30 | DOORBELL << 2;
        mqd.cp_hqd_ctx_save_base_addr_lo = SAVE as u32;
        mqd.cp_hqd_ctx_save_base_addr_hi = (SAVE >> 32) as u32;
        mqd.cp_hqd_cntl_stack_size = 0x3000;
        mqd.cp_hqd_ctx_save_size = 0x8_0000;
        self.put(MQD, mqd.dwords());
        self.put_ring();
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

    /// Writes the kernel and its arguments.
    fn kernel(&self) {
        self.put_kernel(true, &VECTOR_ADD);
        for (n, va) in (0..).zip([A, B, C]) {
            self.user(KERNARG + 8 * n, &words(va));
        }
    }
}

fn with_bench(test: impl FnOnce(&Bench)) {
    let gpu = common::card(&CHIP, Knobs::default());
    with_cp(&gpu, || {
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
            bench.put_dispatch(round, 256, COUNT);
            bench.until("signal", Process::is_signalled);
        }
        let mut bytes = vec![0; COUNT as usize * 4];
        bench.gpu.vram.read(C - VA + USER, &mut bytes).unwrap();
        let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        let got: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        assert_eq!(got, numbers(COUNT, 8));
        bench.assert_clean();
    });
}

#[test]
fn dequeue_request_preempts_queue() {
    with_bench(|bench| {
        // Long enough to be interrupted, short enough for a test.
        bench.put_dispatch(0, 256, 1 << 20);
        bench.reg(gc::regGRBM_GFX_CNTL, SELECT);
        bench.reg(gc::regCP_HQD_DEQUEUE_REQUEST, 3);
        let active = Bench::address(gc::regCP_HQD_ACTIVE);
        bench.until("dequeued", |b| b.gpu.reg_read(active) == 0);
        bench.reg(gc::regGRBM_GFX_CNTL, 0);
        let rptr = bench.get(MQD + dw::cp_hqd_pq_rptr as u64 * 4) as u32;
        assert!(rptr == 0 || bench.is_signalled(), "read pointer {rptr:#x}");
        bench.assert_clean();
    });
}

/// Prints the time of the demo's vector; meaningful only with
/// `cargo test --release -p gpu_model --test all gfx12_launch:: -- --nocapture`.
#[test]
fn vector_add_time() {
    with_bench(|bench| {
        for round in 0..3 {
            let since = Instant::now();
            bench.put_dispatch(round, 256, 1 << 20);
            bench.until("signal", Process::is_signalled);
            println!("1048576 additions in {:?}", since.elapsed());
        }
    });
}
