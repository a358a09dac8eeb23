// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues over the 8 XCCs of a partition: a KIQ on each, one HIQ, runlists with an MQD per XCC.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_model::chips::mi300x::CHIP_8XCC;
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio, Reg};
use rkfd_abi::aql::{self, header, kernel_dispatch as kd, queue as amd_queue, signal};
use rkfd_abi::mqd::v9::{dw, Mqd};
use rkfd_abi::mqd::v9_sdma::SdmaMqd;
use rkfd_abi::pm4::{self, op};

use crate::common::{card, enable_context, hub_write, FB, VRAM};

const XCCS: Range<u8> = 0..8;

// VRAM offsets. What each XCC has of its own is `PART` apart.
const PART: u64 = 0x1000;
const KIQ_RING: u64 = 0x10_0000;
const KIQ_POINTERS: u64 = 0x11_0000;
const HIQ_MQD: u64 = 0x12_0000;
const HIQ_RING: u64 = 0x13_0000;
const HIQ_RPTR: u64 = 0x13_8000;
const HIQ_WPTR: u64 = 0x13_8008;
const LIST: u64 = 0x14_0000;
const MQD: u64 = 0x15_0000;
const SDMA_MQD: u64 = 0x16_0000;
const FENCE: u64 = 0x17_0000;
const TABLES: u64 = 0x20_0000;
const OTHER_TABLES: u64 = 0x21_0000;
/// Start of user memory: 4 MiB, mapped at `VA`.
const USER: u64 = 0x400_0000;

// User addresses.
const VA: u64 = 0x1_0000_0000;
const RING: u64 = VA;
const QUEUE: u64 = VA + 0x1_0000;
const SIGNAL: u64 = VA + 0x2_0000;
const CODE: u64 = VA + 0x4_0000;
const KERNARG: u64 = VA + 0x5_0000;
const OUT: u64 = VA + 0x6_0000;
const COUNTER: u64 = VA + 0x7_0000;
const USER_FENCE: u64 = VA + 0x7_0008;
const STARTED: u64 = OUT + 0x800;
/// The kernel waits until this is not 0.
const GATE: u64 = OUT + 0x1000;
const SAVE: u64 = VA + 0x20_0000;
const SAVE_SIZE: u64 = 0x1_0000;
const STACK: u64 = 0x1000;

const HIQ_DOORBELL: u32 = 0x800;
const DOORBELL: u32 = 0x1000;
const SDMA_DOORBELL: u32 = 0x200;
const PASID: u32 = 0x21;

/// Workgroup n stores `XCC_ID + 1` at `started[n]`, waits for the gate and stores it at `out[n]`.
const STORE_XCC: [u32; 19] = [
    // s_load_dwordx2 s[4:5], s[0:1], 0x0
    0xc006_0100,
    0x0000_0000,
    // s_getreg_b32 s3, hwreg(HW_REG_XCC_ID)
    0xb883_f814,
    // s_add_u32 s3, s3, 1
    0x8003_8103,
    // s_lshl_b32 s2, s2, 2
    0x8e02_8202,
    // v_mov_b32 v0, s2
    0x7e00_0202,
    // v_mov_b32 v1, s3
    0x7e02_0203,
    // s_waitcnt lgkmcnt(0)
    0xbf8c_c07f,
    // global_store_dword v0, v1, s[4:5] offset:0x800
    0xdc70_8800,
    0x0004_0100,
    // s_load_dword s6, s[4:5], 0x1000
    0xc002_0182,
    0x0000_1000,
    // s_waitcnt lgkmcnt(0)
    0xbf8c_c07f,
    // s_cmp_eq_u32 s6, 0
    0xbf06_8006,
    // s_cbranch_scc1: to s_load_dword s6
    0xbf85_fffb,
    // global_store_dword v0, v1, s[4:5]
    0xdc70_8000,
    0x0004_0100,
    // s_endpgm
    0xbf81_0000,
    0xbf81_0000,
];

fn at(ip: Ip, instance: u8, reg: Reg) -> u32 {
    CHIP_8XCC.base(ip, instance, reg.seg).unwrap() + reg.off
}

fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Driver and user process.
struct Bench {
    gpu: Arc<Gpu>,
    kiq_wptrs: [u64; 8],
    hiq_wptr: u64,
    wptr: u64,
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

    fn get32(&self, offset: u64) -> u32 {
        self.get(offset) as u32
    }

    fn user(&self, va: u64, words: &[u32]) {
        self.put(va - VA + USER, words);
    }

    fn user64(&self, va: u64) -> u64 {
        self.get(va - VA + USER)
    }

    fn mqd(&self, base: u64, xcc: u8, n: usize) -> u32 {
        self.get32(base + u64::from(xcc) * PART + n as u64 * 4)
    }

    fn reg(&self, xcc: u8, reg: Reg, value: u32) {
        self.gpu.reg_write(at(Ip::Gc, xcc, reg), value);
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let late = since.elapsed() > Duration::from_secs(20);
            assert!(!late, "{what}: {:#?}", self.gpu.strict.lines());
            std::thread::yield_now();
        }
    }

    fn assert_clean(&self) {
        assert_eq!(self.gpu.strict.lines(), Vec::<String>::new());
    }

    /// Opens the aperture over VRAM of all hubs, and maps user memory in all VMIDs of the graphics
    /// hubs once they have a root.
    fn open(&self) {
        let aids = (0..4).map(Hub::Mm);
        for hub in XCCS.map(Hub::Gfx).chain(aids) {
            let write = |reg, value: u64| hub_write(&self.gpu, hub, reg, value as u32);
            let top = FB + VRAM - 1;
            write(gc::regMC_VM_SYSTEM_APERTURE_LOW_ADDR, FB >> 18);
            write(gc::regMC_VM_SYSTEM_APERTURE_HIGH_ADDR, top >> 18);
            write(gc::regMC_VM_MX_L1_TLB_CNTL, 1 | 3 << 3 | 1 << 6);
            for vmid in 1..16 {
                enable_context(&self.gpu, hub, vmid, 3, 0, 0);
            }
        }
        let (pdb1, pdb0) = (TABLES + 0x1000, TABLES + 0x2000);
        let entry = |table: u64, index: u64, value| self.put(table + index * 8, &words(value));
        entry(TABLES, VA >> 39 & 0x1ff, pdb1 | 1);
        entry(pdb1, VA >> 30 & 0x1ff, pdb0 | 1);
        for n in 0..2 {
            let rights = 1 | 7 << 4 | 1 << 54;
            entry(pdb0, (VA >> 21 & 0x1ff) + n, (USER + (n << 21)) | rights);
        }
    }

    fn start_kiq(&self, xcc: u8) {
        self.reg(xcc, gc::regRLC_CP_SCHEDULERS, 0x80 | 2 << 5 | 1 << 3);
        // ME 2, pipe 1, queue 0.
        self.reg(xcc, gc::regGRBM_GFX_CNTL, 1 | 2 << 2);
        let set64 = |reg: Reg, value: u64| {
            self.reg(xcc, reg, value as u32);
            self.reg(xcc, reg.at(1), (value >> 32) as u32);
        };
        let part = u64::from(xcc) * PART;
        let doorbell = u32::from(xcc) * 2;
        self.reg(
            xcc,
            gc::regCP_HQD_PQ_DOORBELL_CONTROL,
            1 << 30 | doorbell << 2,
        );
        set64(gc::regCP_HQD_PQ_BASE, (FB + KIQ_RING + part) >> 8);
        self.reg(xcc, gc::regCP_HQD_PQ_CONTROL, 0xc000_0000 | 8);
        let pointers = FB + KIQ_POINTERS + part;
        set64(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR, pointers);
        set64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, pointers + 8);
        self.reg(xcc, gc::regCP_HQD_ACTIVE, 1);
        self.reg(xcc, gc::regCP_PQ_STATUS, 2);
        self.reg(xcc, gc::regGRBM_GFX_CNTL, 0);
    }

    fn kiq(&mut self, xcc: u8, packet: &[u32]) {
        let wptr = &mut self.kiq_wptrs[usize::from(xcc)];
        let at = KIQ_RING + u64::from(xcc) * PART + *wptr * 4;
        *wptr += packet.len() as u64;
        let wptr = *wptr;
        self.put(at, packet);
        self.gpu.doorbell(u64::from(xcc) * 8, wptr, 8);
    }

    fn hiq(&mut self, packet: &[u32]) {
        self.put(HIQ_RING + self.hiq_wptr * 4, packet);
        self.hiq_wptr += packet.len() as u64;
        self.put(HIQ_WPTR, &words(self.hiq_wptr));
        self.gpu
            .doorbell(u64::from(HIQ_DOORBELL) * 4, self.hiq_wptr, 8);
    }

    /// Writes an MQD for each XCC.
    fn put_mqds(&self, base: u64, fill: impl Fn(u8, &mut Mqd)) {
        for xcc in XCCS {
            let mut mqd = Mqd::zeroed();
            mqd.header = 0xc031_0800;
            mqd.compute_static_thread_mgmt_se0 = !0;
            mqd.compute_static_thread_mgmt_se1 = !0;
            mqd.cp_mqd_stride_size = PART as u32;
            let own = base + u64::from(xcc) * PART;
            [mqd.cp_mqd_base_addr_lo, mqd.cp_mqd_base_addr_hi] = words(FB + own);
            fill(xcc, &mut mqd);
            self.put(own, mqd.dwords());
        }
    }

    fn put_hiq(&self, fill: impl Fn(u8, &mut Mqd)) {
        self.put_mqds(HIQ_MQD, |xcc, mqd| {
            [mqd.cp_hqd_pq_base_lo, mqd.cp_hqd_pq_base_hi] = words((FB + HIQ_RING) >> 8);
            let keep = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put(u32::from(xcc != 0));
            mqd.cp_hqd_pq_control = 0xc000_0000 | 8 | keep;
            let rptr = words(FB + HIQ_RPTR);
            [
                mqd.cp_hqd_pq_rptr_report_addr_lo,
                mqd.cp_hqd_pq_rptr_report_addr_hi,
            ] = rptr;
            let wptr = words(FB + HIQ_WPTR);
            [
                mqd.cp_hqd_pq_wptr_poll_addr_lo,
                mqd.cp_hqd_pq_wptr_poll_addr_hi,
            ] = wptr;
            mqd.cp_hqd_pq_doorbell_control = HIQ_DOORBELL << 2;
            fill(xcc, mqd);
        });
    }

    fn map_hiq(&mut self, xccs: Range<u8>) {
        let wptr = words(FB + HIQ_WPTR);
        for xcc in xccs {
            let mqd = words(FB + HIQ_MQD + u64::from(xcc) * PART);
            self.kiq(
                xcc,
                &[
                    pm4::map_queues::PACKET.header(),
                    1 << 29 | 1 << 26 | 1 << 18,
                    HIQ_DOORBELL << 2,
                    mqd[0],
                    mqd[1],
                    wptr[0],
                    wptr[1],
                ],
            );
        }
    }

    /// Sends SET_RESOURCES with an unmap latency of 100 ms.
    fn set_resources(&mut self) {
        self.hiq(&[
            pm4::set_resources::PACKET.header(),
            1 << 29 | 1 << 16 | 0xfff8,
            0xfcfc_fcfc,
            0,
            !0,
            !0,
            0,
            0,
        ]);
    }

    /// Starts KIQs and HIQ, and writes an MQD of an AQL queue for each XCC, and its kernel.
    fn start(&mut self) {
        self.open();
        let enable = at(Ip::Nbif, 0, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN);
        self.gpu.reg_write(enable, 1);
        XCCS.for_each(|xcc| self.start_kiq(xcc));
        self.put_hiq(|_, _| {});
        self.put_aql(|_, _| {});
        for n in 0..64 {
            self.user(RING + n * 64, &[1]);
        }
        let mut descriptor = [0u32; 16];
        descriptor[4] = 256;
        // ACCUM_OFFSET, VGPRs and SGPRs, user SGPRs and workgroup id, kernarg pointer.
        descriptor[11] = 3;
        descriptor[12] = 1 | 2 << 6;
        descriptor[13] = 2 << 1 | 1 << 7;
        descriptor[14] = 1 << 3;
        self.user(CODE, &descriptor);
        self.user(CODE + 256, &STORE_XCC);
        self.user(KERNARG, &words(OUT));
        self.user(GATE, &[1]);
    }

    fn put_queue(&self, rptr: u64, wptr: u64, fill: impl Fn(u8, &mut Mqd)) {
        self.put_mqds(MQD, |xcc, mqd| {
            mqd.cp_hqd_persistent_state = 1 << 30;
            [mqd.cp_hqd_pq_base_lo, mqd.cp_hqd_pq_base_hi] = words(RING >> 8);
            [
                mqd.cp_hqd_pq_rptr_report_addr_lo,
                mqd.cp_hqd_pq_rptr_report_addr_hi,
            ] = words(rptr);
            [
                mqd.cp_hqd_pq_wptr_poll_addr_lo,
                mqd.cp_hqd_pq_wptr_poll_addr_hi,
            ] = words(wptr);
            mqd.cp_hqd_pq_doorbell_control = DOORBELL << 2;
            let save = words(SAVE + u64::from(xcc) * SAVE_SIZE);
            [
                mqd.cp_hqd_ctx_save_base_addr_lo,
                mqd.cp_hqd_ctx_save_base_addr_hi,
            ] = save;
            mqd.cp_hqd_cntl_stack_size = STACK as u32;
            mqd.cp_hqd_ctx_save_size = SAVE_SIZE as u32;
            fill(xcc, mqd);
        });
    }

    /// Writes MQDs of an AQL queue. The first workgroup runs on XCC 6.
    fn put_aql(&self, fill: impl Fn(u8, &mut Mqd)) {
        let (rptr, wptr) = (
            QUEUE + amd_queue::READ_DISPATCH_ID as u64,
            QUEUE + amd_queue::WRITE_DISPATCH_ID as u64,
        );
        self.put_queue(rptr, wptr, |xcc, mqd| {
            let keep = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put(u32::from(xcc != 0));
            mqd.cp_hqd_pq_control = 2 << 25 | 9 | keep;
            mqd.cp_hqd_aql_control = 1;
            mqd.compute_tg_chunk_size = 1;
            mqd.compute_current_logic_xcc_id = (2 + u32::from(xcc)) % 8;
            fill(xcc, mqd);
        });
    }

    /// Sends a runlist of the queue, behind that of another process with an SDMA queue if `sdma`.
    fn run_list(&mut self, sdma: bool) {
        let process = |pasid: u32, tables: u64| {
            let mut packet = vec![0; 21];
            packet[0] = pm4::map_process::PACKET.header();
            packet[1] = pasid | 10 << 25;
            packet[2] = tables as u32 | 1;
            packet[4] = 0x0001_0002;
            packet[13] = 1 << 22;
            packet
        };
        let queue = |how: u32, doorbell: u32, mqd: u64, wptr: u64| {
            let (mqd, wptr) = (words(FB + mqd), words(wptr));
            let header = pm4::map_queues::PACKET.header();
            let head = [header, 1 << 29 | how, doorbell << 2];
            [&head[..], &mqd, &wptr].concat()
        };
        let mut list = Vec::new();
        if sdma {
            list.extend(process(PASID + 1, OTHER_TABLES));
            list.extend(queue(2 << 26 | 1 << 4, SDMA_DOORBELL, SDMA_MQD, VA));
        }
        list.extend(process(PASID, TABLES));
        let wptr = QUEUE + amd_queue::WRITE_DISPATCH_ID as u64;
        list.extend(queue(1 << 4, DOORBELL, MQD, wptr));
        self.put(LIST, &list);
        let at = words(FB + LIST);
        self.hiq(&[
            pm4::run_list::PACKET.header(),
            at[0],
            at[1],
            1 << 23 | list.len() as u32,
        ]);
    }

    fn query(&mut self, value: u32) {
        let fence = words(FB + FENCE);
        self.hiq(&[
            pm4::query_status::PACKET.header(),
            2 << 30,
            0,
            fence[0],
            fence[1],
            value,
            0,
        ]);
    }

    fn unmap_all(&mut self, value: u32) {
        self.hiq(&[pm4::unmap_queues::PACKET.header(), 3 << 4, 0, 0, 0, 0]);
        self.query(value);
    }

    fn fence_is(&self, value: u64) -> bool {
        self.get(FENCE) == value
    }

    /// Dispatches workgroups of one wave with a completion signal of value 1.
    fn dispatch(&mut self, groups: u32) {
        self.user(SIGNAL + signal::KIND as u64, &[1, 0]);
        self.user(SIGNAL + signal::VALUE as u64, &[1, 0]);
        let mut p = [0u8; 64];
        let head = header::TYPE_KERNEL_DISPATCH | 1 << 8 | 2 << 9 | 2 << 11;
        p[..2].copy_from_slice(&(head as u16).to_le_bytes());
        p[kd::SETUP] = 1;
        for (n, size) in [64u16, 1, 1].iter().enumerate() {
            p[kd::WORKGROUP_SIZE_X + 2 * n..][..2].copy_from_slice(&size.to_le_bytes());
        }
        for (n, size) in [groups * 64, 1, 1].iter().enumerate() {
            p[kd::GRID_SIZE_X + 4 * n..][..4].copy_from_slice(&size.to_le_bytes());
        }
        p[kd::KERNEL_OBJECT..][..8].copy_from_slice(&CODE.to_le_bytes());
        p[kd::KERNARG_ADDRESS..][..8].copy_from_slice(&KERNARG.to_le_bytes());
        p[aql::COMPLETION_SIGNAL..][..8].copy_from_slice(&SIGNAL.to_le_bytes());
        let offset = RING - VA + USER + self.wptr % 64 * 64;
        self.gpu.vram.write(offset, &p).unwrap();
        self.wptr += 1;
        let wptr = QUEUE + amd_queue::WRITE_DISPATCH_ID as u64;
        self.user(wptr, &words(self.wptr));
        self.gpu.doorbell(u64::from(DOORBELL) * 4, self.wptr - 1, 8);
    }

    fn signal(&self) -> u64 {
        self.user64(SIGNAL + signal::VALUE as u64)
    }

    /// Waits until workgroups have started.
    fn until_started(&self, groups: u64) {
        let started = |b: &Self, n| b.user64(STARTED + n * 4) as u32 != 0;
        self.until("started", |b| (0..groups).all(|n| started(b, n)));
    }

    /// Returns the XCCs of the first workgroups.
    fn xccs_of(&self, groups: u64) -> Vec<u32> {
        let out = |n| self.user64(OUT + n * 4) as u32;
        (0..groups).map(|n| out(n).wrapping_sub(1)).collect()
    }
}

/// Returns the XCCs of workgroups that are distributed in chunks from XCC 6 on.
fn distributed(groups: u32, chunk: u32) -> Vec<u32> {
    (0..groups).map(|n| (n / chunk + 6) % 8).collect()
}

fn with_bench(knobs: Knobs, test: impl FnOnce(&mut Bench)) {
    let gpu = card(&CHIP_8XCC, knobs);
    struct Stop(Arc<Gpu>);
    impl Drop for Stop {
        fn drop(&mut self) {
            self.0.xccs.iter().for_each(|xcc| xcc.cp.stop());
        }
    }
    std::thread::scope(|scope| {
        for xcc in &gpu.xccs {
            let gpu = &gpu;
            scope.spawn(move || xcc.cp.run(gpu));
        }
        let _stop = Stop(gpu.clone());
        let mut bench = Bench {
            gpu: gpu.clone(),
            kiq_wptrs: [0; 8],
            hiq_wptr: 0,
            wptr: 0,
        };
        bench.start();
        test(&mut bench);
    });
}

fn with_hiq(test: impl FnOnce(&mut Bench)) {
    with_bench(Knobs::default(), |bench| {
        bench.map_hiq(XCCS);
        bench.set_resources();
        test(bench);
    });
}

#[test]
fn workgroups_are_distributed_over_all_xccs() {
    with_hiq(|bench| {
        bench.run_list(false);
        bench.dispatch(20);
        bench.until("signal", |b| b.signal() != 1);
        assert_eq!(bench.xccs_of(20), distributed(20, 1));
        // One completion, one update of the read index.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.signal(), 0);
        let rptr = QUEUE + amd_queue::READ_DISPATCH_ID as u64;
        bench.until("read index", |b| b.user64(rptr) == 1);
        bench.unmap_all(100);
        bench.until("fence", |b| b.fence_is(100));
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::cp_hqd_pq_rptr), 16);
        }
        bench.put_aql(|_, mqd| {
            mqd.compute_tg_chunk_size = 3;
            (mqd.cp_hqd_pq_rptr, mqd.cp_hqd_pq_wptr_lo) = (16, 16);
        });
        bench.run_list(false);
        bench.dispatch(20);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(20), distributed(20, 3));
        bench.assert_clean();
    });
}

#[test]
fn vmids_of_a_process_differ_by_xcc() {
    with_hiq(|bench| {
        // Only XCC 0 maps queues of SDMA engine 0. The MQD has no ring: the VMID is assigned all
        // the same.
        let mut mqd = SdmaMqd::zeroed();
        mqd.sdmax_rlcx_doorbell_offset = SDMA_DOORBELL << 2;
        bench.put(SDMA_MQD, mqd.dwords());
        bench.run_list(true);
        bench.dispatch(16);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(16), distributed(16, 1));
        let root = |xcc, vmid| bench.gpu.gmc.root(Hub::Gfx(xcc), vmid);
        assert_eq!((root(0, 3), root(0, 4)), (OTHER_TABLES | 1, TABLES | 1));
        for xcc in 1..8 {
            assert_eq!((root(xcc, 3), root(xcc, 4)), (TABLES | 1, 0));
        }
        let lines = bench.gpu.strict.lines();
        assert!(lines.iter().all(|l| l.contains("SDMA MQD")), "{lines:#?}");
    });
}

#[test]
fn pm4_runs_on_its_target_only() {
    with_hiq(|bench| {
        const TARGET: u32 = 5;
        let pointers = QUEUE + amd_queue::READ_DISPATCH_ID as u64;
        let wptr = QUEUE + amd_queue::WRITE_DISPATCH_ID as u64;
        bench.put_queue(pointers, wptr, |_, mqd| {
            mqd.cp_hqd_pq_control = 8;
            mqd.pm4_target_xcc_in_xcp = TARGET;
        });
        let set = |reg: Reg, values: &[u32]| {
            let header = pm4::header(op::SET_SH_REG, 1 + values.len() as u32);
            let start = 0x2000 + reg.off - pm4::set_sh_reg::START;
            [&[header, start], values].concat()
        };
        let entry = words((CODE + 256) >> 8);
        let (counter, fence) = (words(COUNTER), words(USER_FENCE));
        let ring = [
            set(gc::regCOMPUTE_NUM_THREAD_X, &[64, 1, 1]),
            set(gc::regCOMPUTE_PGM_LO, &entry),
            set(gc::regCOMPUTE_PGM_RSRC1, &[1 | 2 << 6, 2 << 1 | 1 << 7]),
            set(gc::regCOMPUTE_PGM_RSRC3, &[3]),
            set(gc::regCOMPUTE_USER_DATA_0, &words(KERNARG)),
            vec![pm4::header(op::DISPATCH_DIRECT, 4), 10, 1, 1, 1],
            // Add 1.
            vec![
                pm4::header(op::ATOMIC_MEM, 8),
                0x2f,
                counter[0],
                counter[1],
                1,
                0,
                0,
                0,
                0,
            ],
            vec![
                pm4::header(op::RELEASE_MEM, 7),
                0x14 | 5 << 8,
                1 << 29,
                fence[0],
                fence[1],
                1,
                0,
                0,
            ],
        ]
        .concat();
        bench.user(RING, &ring);
        bench.user(wptr, &[ring.len() as u32, 0]);
        bench.user(GATE, &[0]);
        bench.run_list(false);
        // The queue is mapped again while its workgroups wait.
        bench.until_started(10);
        bench.unmap_all(100);
        bench.until("fence", |b| b.fence_is(100));
        for xcc in XCCS {
            let saved = bench.mqd(MQD, xcc, dw::compute_wave_restore_control);
            assert_eq!(saved, u32::from(u32::from(xcc) == TARGET));
        }
        bench.run_list(false);
        bench.user(GATE, &[1]);
        bench.until("fence", |b| b.user64(USER_FENCE) == 1);
        assert_eq!(bench.xccs_of(10), [TARGET; 10]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.user64(COUNTER), 1);
        bench.assert_clean();
    });
}

#[test]
fn preempted_waves_are_saved_on_each_xcc() {
    with_hiq(|bench| {
        bench.user(GATE, &[0]);
        bench.run_list(false);
        bench.dispatch(16);
        bench.until_started(16);
        bench.unmap_all(100);
        bench.until("fence", |b| b.fence_is(100));
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::cp_hqd_active), 0);
            assert_eq!(bench.mqd(MQD, xcc, dw::compute_wave_restore_control), 1);
            let stack = bench.mqd(MQD, xcc, dw::cp_hqd_cntl_stack_offset);
            assert!(u64::from(stack) < STACK, "XCC {xcc}: {stack:#x}");
            let record = SAVE + u64::from(xcc) * SAVE_SIZE + STACK;
            assert_ne!(bench.user64(record), 0);
        }
        // Nothing runs.
        bench.user(GATE, &[1]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(bench.xccs_of(16), [!0; 16]);
        bench.run_list(false);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(16), distributed(16, 1));
        bench.unmap_all(101);
        bench.until("fence", |b| b.fence_is(101));
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::compute_wave_restore_control), 0);
        }
        bench.assert_clean();
    });
}

#[test]
fn each_xcc_checks_its_save_area() {
    with_hiq(|bench| {
        bench.user(GATE, &[0]);
        bench.run_list(false);
        bench.dispatch(16);
        bench.until_started(16);
        bench.unmap_all(100);
        bench.until("fence", |b| b.fence_is(100));
        bench.user(SAVE + 3 * SAVE_SIZE + STACK, &[0, 0]);
        bench.run_list(false);
        bench.until("report", |b| !b.gpu.strict.lines().is_empty());
        let line = bench.gpu.strict.lines()[0].clone();
        assert!(line.contains("was overwritten"), "{line}");
        bench.user(GATE, &[1]);
    });
}

#[test]
fn failed_preemption_is_in_each_hiq_mqd() {
    let knobs = Knobs::default();
    knobs.hws_no_preempt.set(2);
    with_bench(knobs, |bench| {
        bench.map_hiq(XCCS);
        bench.set_resources();
        bench.user(GATE, &[0]);
        bench.run_list(false);
        bench.dispatch(16);
        bench.until_started(16);
        bench.unmap_all(100);
        bench.until("fence", |b| b.fence_is(100));
        for xcc in XCCS {
            let failed = bench.mqd(HIQ_MQD, xcc, dw::queue_doorbell_id0);
            assert_eq!(failed, DOORBELL);
        }
        // It runs on.
        bench.user(GATE, &[1]);
        bench.until("signal", |b| b.signal() == 0);
        bench.assert_clean();
    });
}

/// A register write unmaps the queue on one XCC while its workgroups run on all.
#[test]
fn reset_of_one_xcc_stops_the_queue() {
    with_hiq(|bench| {
        bench.user(GATE, &[0]);
        bench.run_list(false);
        bench.dispatch(16);
        bench.until_started(16);
        let active = |b: &Bench, xcc| {
            // ME 1, pipe 0, queue 2: the first of the queue mask.
            b.reg(xcc, gc::regGRBM_GFX_CNTL, 1 << 2 | 2 << 8);
            b.gpu.reg_read(at(Ip::Gc, xcc, gc::regCP_HQD_ACTIVE))
        };
        assert_eq!(active(bench, 4), 1);
        bench.reg(4, gc::regSPI_COMPUTE_QUEUE_RESET, 1);
        bench.until("reset", |b| active(b, 4) == 0);
        bench.user(GATE, &[1]);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((bench.signal(), bench.xccs_of(16)), (1, vec![!0; 16]));
        bench.unmap_all(100);
        bench.until("fence", |b| b.fence_is(100));
        // Waves of the other XCCs are not saved either: the dispatch starts again from its packet.
        for xcc in XCCS {
            assert_eq!(bench.mqd(MQD, xcc, dw::compute_wave_restore_control), 0);
        }
        bench.run_list(false);
        bench.until("signal", |b| b.signal() == 0);
        assert_eq!(bench.xccs_of(16), distributed(16, 1));
        bench.unmap_all(101);
        bench.until("fence", |b| b.fence_is(101));
        bench.assert_clean();
    });
}

#[test]
fn hiq_fence_follows_all_xccs() {
    with_hiq(|bench| {
        const SLOW: u8 = 3;
        bench.query(99);
        bench.until("fence", |b| b.fence_is(99));
        let halts = gc::CP_MEC_CNTL__MEC_ME1_HALT.mask | gc::CP_MEC_CNTL__MEC_ME2_HALT.mask;
        let mask = gc::RLC_CNTL__RLC_ENABLE_F32.mask;
        bench.reg(SLOW, gc::regRLC_CNTL, mask);
        bench.reg(SLOW, gc::regCP_MEC_CNTL, halts);
        bench.until("read pointer", |b| b.get(HIQ_RPTR) == b.hiq_wptr);
        let before = bench.hiq_wptr;
        bench.query(100);
        std::thread::sleep(Duration::from_millis(50));
        assert!(bench.fence_is(99));
        assert_eq!(bench.get(HIQ_RPTR), before);
        bench.reg(SLOW, gc::regCP_MEC_CNTL, 0);
        bench.gpu.rescan();
        bench.until("fence", |b| b.fence_is(100));
        bench.until("read pointer", |b| b.get(HIQ_RPTR) == b.hiq_wptr);
        bench.assert_clean();
    });
}

fn reports(bench: &Bench, text: &str) -> bool {
    bench.gpu.strict.lines().iter().any(|l| l.contains(text))
}

/// Changes of the MQDs that a driver must not make, and the report.
#[test]
fn mqds_that_disagree_are_reported() {
    type Change = fn(u8, &mut Mqd);
    let changes: [(Change, &str); 5] = [
        (
            |xcc, mqd| mqd.cp_hqd_pq_base_lo += u32::from(xcc == 2),
            "others CommonFields",
        ),
        (
            |_, mqd| mqd.compute_current_logic_xcc_id = 1,
            "XCC 1 of 8 does not exist or is taken",
        ),
        (
            |xcc, mqd| mqd.compute_current_logic_xcc_id += u32::from(xcc == 0) * 8,
            "XCC 10 of 8 does not exist or is taken",
        ),
        (
            |_, mqd| mqd.cp_hqd_pq_control &= !gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.mask,
            "MQD 0x8000151000 of XCC 1 of 8: NO_UPDATE_RPTR",
        ),
        (
            |_, mqd| mqd.compute_tg_chunk_size = 0,
            "compute_tg_chunk_size is 0",
        ),
    ];
    for (change, text) in changes {
        with_hiq(|bench| {
            bench.put_aql(change);
            bench.run_list(false);
            bench.until(text, |b| reports(b, text));
        });
    }
}

#[test]
fn hiq_on_some_xccs_is_reported() {
    with_bench(Knobs::default(), |bench| {
        bench.map_hiq(0..7);
        bench.set_resources();
        bench.query(100);
        bench.until("report", |b| reports(b, "not mapped on all"));
        bench.map_hiq(7..8);
        bench.until("fence", |b| b.fence_is(100));
        assert_eq!(bench.gpu.strict.unexpected(), 1);
    });
}

#[test]
fn hiqs_that_disagree_are_reported() {
    with_bench(Knobs::default(), |bench| {
        let keep = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.mask;
        bench.put_hiq(|xcc, mqd| {
            if xcc == 4 {
                mqd.cp_hqd_pq_control &= !keep;
            }
            mqd.cp_mqd_stride_size += u32::from(xcc == 5);
        });
        bench.map_hiq(XCCS);
        let text = "of XCC 4 of 8: NO_UPDATE_RPTR";
        bench.until(text, |b| reports(b, text));
        // By XCC 5, or by the others if it was the first to map the HIQ.
        let text = "of 8: first MQD";
        bench.until(text, |b| reports(b, text));
    });
}

#[test]
fn partitions_that_disagree_are_reported() {
    with_bench(Knobs::default(), |bench| {
        let value =
            gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(8) | gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.put(1);
        bench.reg(2, gc::regCP_HYP_XCP_CTL, value);
        bench.map_hiq(0..1);
        let text = "CP_HYP_XCP_CTL of the XCCs disagree";
        bench.until(text, |b| reports(b, text));
    });
}
