// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Driver and user process of a card with 8 XCCs.

use std::ops::Range;
use std::sync::Arc;

use gpu_model::chips::mi300x::CHIP;
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio, Reg};
use rkfd_abi::mqd::v9::Mqd;
use rkfd_abi::pm4;

use crate::common::process::{words, Process, CODE, DOORBELL, KERNARG, RING, RPTR, VA, WPTR};
use crate::common::{addr_of, card, enable_context, open_apertures, put_kiq_mqd, with_cp, FB};
use crate::saver::HANDLER;

pub const XCCS: Range<u8> = 0..8;

// VRAM offsets. What each XCC has of its own is `PART` apart.
pub const PART: u64 = 0x2000;
pub const KIQ_RING: u64 = 0x10_0000;
pub const KIQ_MQD: u64 = 0x18_0000;
pub const KIQ_POINTERS: u64 = 0x11_0000;
pub const HIQ_MQD: u64 = 0x12_0000;
pub const HIQ_RING: u64 = 0x13_0000;
pub const HIQ_RPTR: u64 = 0x13_8000;
pub const HIQ_WPTR: u64 = 0x13_8008;
pub const LIST: u64 = 0x14_0000;
pub const MQD: u64 = 0x15_0000;
pub const SDMA_MQD: u64 = 0x16_0000;
pub const FENCE: u64 = 0x17_0000;
pub const TABLES: u64 = 0x20_0000;
pub const OTHER_TABLES: u64 = 0x21_0000;

// User addresses.
pub const OUT: u64 = VA + 0x6_0000;
pub const COUNTER: u64 = VA + 0x7_0000;
pub const USER_FENCE: u64 = VA + 0x7_0008;
pub const STARTED: u64 = OUT + 0x800;
/// The kernel waits until this is not 0.
pub const GATE: u64 = OUT + 0x1000;
/// Trap handler.
pub const TBA: u64 = CODE + 0x8000;
pub const SAVE: u64 = VA + 0x20_0000;
pub const SAVE_SIZE: u64 = 0x1_0000;
pub const STACK: u64 = 0x1000;

pub const HIQ_DOORBELL: u32 = 0x800;
pub const SDMA_DOORBELL: u32 = 0x200;
pub const PASID: u32 = 0x21;

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

/// Driver and user process.
pub struct Bench {
    pub gpu: Arc<Gpu>,
    kiq_wptrs: [u64; 8],
    pub hiq_wptr: u64,
    /// Number of AQL packets.
    packets: u64,
}

impl Process for Bench {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Bench {
    pub fn mqd(&self, base: u64, xcc: u8, n: usize) -> u32 {
        self.get(base + u64::from(xcc) * PART + n as u64 * 4) as u32
    }

    pub fn reg(&self, xcc: u8, reg: Reg, value: u32) {
        self.gpu.reg_write(addr_of(Ip::Gc, xcc, reg), value);
    }

    /// Opens the aperture over VRAM of all hubs, and maps user memory in all VMIDs of the graphics
    /// hubs once they have a root.
    pub fn open(&self) {
        let hubs = || XCCS.map(Hub::Gfx).chain((0..4).map(Hub::Mm));
        open_apertures(&self.gpu, hubs());
        for hub in hubs() {
            for vmid in 1..16 {
                enable_context(&self.gpu, hub, vmid, 3, 0, 0);
            }
        }
        self.put_tables(TABLES, 4 << 20, 1 | 7 << 4 | 1 << 54);
    }

    /// Sets the mode of the partitions that the PSP reports.
    pub fn set_mode(&self, mode: u32) {
        let status = nbio::regBIF_BX_PF0_PARTITION_COMPUTE_STATUS;
        let slot = self.gpu.regs.by_id(self.gpu.chip, Ip::Nbif, status);
        slot.unwrap()
            .set(nbio::BIF_BX_PF0_PARTITION_COMPUTE_STATUS__PARTITION_MODE.put(mode));
    }

    pub fn start_kiq(&self, xcc: u8) {
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
        let mqd = KIQ_MQD + part;
        put_kiq_mqd(&self.gpu, mqd);
        set64(gc::regCP_MQD_BASE_ADDR, FB + mqd);
        set64(gc::regCP_HQD_PQ_BASE, (FB + KIQ_RING + part) >> 8);
        self.reg(xcc, gc::regCP_HQD_PQ_CONTROL, 0xc000_0000 | 8);
        let pointers = FB + KIQ_POINTERS + part;
        set64(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR, pointers);
        set64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, pointers + 8);
        self.reg(xcc, gc::regCP_HQD_ACTIVE, 1);
        self.reg(xcc, gc::regCP_PQ_STATUS, 2);
        self.reg(xcc, gc::regGRBM_GFX_CNTL, 0);
    }

    /// Selects the queue of the runlist: ME 1, pipe 0, queue 2, the first of the queue mask.
    pub fn select_queue(&self, xcc: u8) {
        self.reg(xcc, gc::regGRBM_GFX_CNTL, 1 << 2 | 2 << 8);
    }

    /// Resets the selected queue in RLC safe mode.
    pub fn reset_queue(&self, xcc: u8) {
        let message = |message: u32| {
            let command = gc::RLC_SAFE_MODE__CMD.mask | gc::RLC_SAFE_MODE__MESSAGE.put(message);
            self.reg(xcc, gc::regRLC_SAFE_MODE, command);
        };
        message(1);
        self.reg(xcc, gc::regSPI_COMPUTE_QUEUE_RESET, 1);
        message(0);
    }

    /// Returns whether the selected queue is active.
    pub fn active(&self, xcc: u8) -> u32 {
        self.gpu
            .reg_read(addr_of(Ip::Gc, xcc, gc::regCP_HQD_ACTIVE))
    }

    pub fn kiq(&mut self, xcc: u8, packet: &[u32]) {
        let wptr = &mut self.kiq_wptrs[usize::from(xcc)];
        let at = KIQ_RING + u64::from(xcc) * PART + *wptr * 4;
        *wptr += packet.len() as u64;
        let wptr = *wptr;
        self.put(at, packet);
        self.gpu.doorbell(u64::from(xcc) * 8, wptr, 8);
    }

    pub fn hiq(&mut self, packet: &[u32]) {
        self.put(HIQ_RING + self.hiq_wptr * 4, packet);
        self.hiq_wptr += packet.len() as u64;
        self.put(HIQ_WPTR, &words(self.hiq_wptr));
        self.gpu
            .doorbell(u64::from(HIQ_DOORBELL) * 4, self.hiq_wptr, 8);
    }

    /// Writes an MQD for each XCC.
    pub fn put_mqds(&self, base: u64, fill: impl Fn(u8, &mut Mqd)) {
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

    pub fn put_hiq(&self, fill: impl Fn(u8, &mut Mqd)) {
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

    pub fn map_hiq(&mut self, xccs: Range<u8>) {
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

    /// Sends SET_RESOURCES with an unmap latency in units of 100 ms.
    pub fn set_resources(&mut self, latency: u32) {
        self.hiq(&[
            pm4::set_resources::PACKET.header(),
            1 << 29 | latency << 16 | 0xfff8,
            0xfcfc_fcfc,
            0,
            !0,
            !0,
            0,
            0,
        ]);
    }

    /// Starts KIQs and HIQ, and writes an MQD of an AQL queue for each XCC, and its kernel.
    pub fn start(&mut self) {
        self.open();
        let enable = addr_of(Ip::Nbif, 0, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN);
        self.gpu.reg_write(enable, 1);
        XCCS.for_each(|xcc| self.start_kiq(xcc));
        self.put_hiq(|_, _| {});
        self.put_aql(|_, _| {});
        self.put_ring();
        self.put_kernel(false, &STORE_XCC);
        self.user(TBA, &HANDLER);
        self.user(KERNARG, &words(OUT));
        self.user(GATE, &[1]);
    }

    pub fn put_queue(&self, fill: impl Fn(u8, &mut Mqd)) {
        self.put_mqds(MQD, |xcc, mqd| {
            mqd.cp_hqd_persistent_state = 1 << 30;
            [mqd.cp_hqd_pq_base_lo, mqd.cp_hqd_pq_base_hi] = words(RING >> 8);
            [
                mqd.cp_hqd_pq_rptr_report_addr_lo,
                mqd.cp_hqd_pq_rptr_report_addr_hi,
            ] = words(RPTR);
            [
                mqd.cp_hqd_pq_wptr_poll_addr_lo,
                mqd.cp_hqd_pq_wptr_poll_addr_hi,
            ] = words(WPTR);
            mqd.cp_hqd_pq_doorbell_control = DOORBELL << 2;
            let save = words(SAVE + u64::from(xcc) * SAVE_SIZE);
            [
                mqd.cp_hqd_ctx_save_base_addr_lo,
                mqd.cp_hqd_ctx_save_base_addr_hi,
            ] = save;
            mqd.cp_hqd_cntl_stack_size = STACK as u32;
            mqd.compute_pgm_rsrc2 = gc::COMPUTE_PGM_RSRC2__TRAP_PRESENT.mask;
            mqd.cp_hqd_ctx_save_size = SAVE_SIZE as u32;
            fill(xcc, mqd);
        });
    }

    /// Writes MQDs of an AQL queue. The first workgroup runs on XCC 6.
    pub fn put_aql(&self, fill: impl Fn(u8, &mut Mqd)) {
        self.put_queue(|xcc, mqd| {
            let keep = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.put(u32::from(xcc != 0));
            mqd.cp_hqd_pq_control = 2 << 25 | 9 | keep;
            mqd.cp_hqd_aql_control = 1;
            mqd.compute_tg_chunk_size = 1;
            mqd.compute_current_logic_xcc_id = (2 + u32::from(xcc)) % 8;
            fill(xcc, mqd);
        });
    }

    /// Sends a runlist of the queue, behind that of another process with an SDMA queue if `sdma`.
    pub fn run_list(&mut self, sdma: bool) {
        let process = |pasid: u32, tables: u64| {
            let mut packet = vec![0; 21];
            packet[0] = pm4::map_process::PACKET.header();
            packet[1] = pasid | 10 << 25;
            packet[2] = tables as u32 | 1;
            packet[4] = 0x0001_0002;
            [packet[6], packet[7]] = words(TBA >> 8);
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
        list.extend(queue(1 << 4, DOORBELL, MQD, WPTR));
        self.put(LIST, &list);
        let at = words(FB + LIST);
        self.hiq(&[
            pm4::run_list::PACKET.header(),
            at[0],
            at[1],
            1 << 23 | list.len() as u32,
        ]);
    }

    pub fn query(&mut self, value: u32) {
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

    /// Unmaps all queues.
    pub fn unmap_all(&mut self) {
        self.hiq(&[pm4::unmap_queues::PACKET.header(), 3 << 4, 0, 0, 0, 0]);
        self.fence();
    }

    /// Waits for a QUERY_STATUS.
    pub fn fence(&mut self) {
        let value = self.get(FENCE) + 1;
        self.query(value as u32);
        self.until("fence", |b| b.fence_is(value));
    }

    pub fn fence_is(&self, value: u64) -> bool {
        self.get(FENCE) == value
    }

    /// Dispatches workgroups of one wave.
    pub fn dispatch(&mut self, groups: u32) {
        self.put_dispatch(self.packets, 64, groups * 64);
        self.packets += 1;
    }

    /// Maps the queue, and dispatches 16 workgroups that wait for the gate.
    pub fn run_waiting(&mut self) {
        self.user(GATE, &[0]);
        self.run_list(false);
        self.dispatch(16);
        self.until_started(16);
    }

    /// Waits until workgroups have started.
    pub fn until_started(&self, groups: u64) {
        let started = |b: &Self, n| b.user64(STARTED + n * 4) as u32 != 0;
        self.until("started", |b| (0..groups).all(|n| started(b, n)));
    }

    /// Returns the XCCs of the first workgroups.
    pub fn xccs_of(&self, groups: u64) -> Vec<u32> {
        let out = |n| self.user64(OUT + n * 4) as u32;
        (0..groups).map(|n| out(n).wrapping_sub(1)).collect()
    }
}

/// Runs a test on a card without an HIQ.
pub fn with_bench(knobs: Knobs, test: impl FnOnce(&mut Bench)) {
    let gpu = card(&CHIP, knobs);
    with_cp(&gpu, || {
        let mut bench = Bench {
            gpu: gpu.clone(),
            kiq_wptrs: [0; 8],
            hiq_wptr: 0,
            packets: 0,
        };
        bench.start();
        test(&mut bench);
    });
}

/// Unmap latency beyond the limit of `until`, so that no preemption times out on a busy host.
pub const PATIENT: u32 = 0xff;

/// Unmap latency of 5 s, in units of 100 ms: long enough for XCCs that preempt on a busy host.
pub const LATENCY: u32 = 50;

/// Runs a test with an HIQ on all XCCs.
pub fn with_hiq(test: impl FnOnce(&mut Bench)) {
    with_bench(Knobs::default(), |bench| {
        bench.map_hiq(XCCS);
        bench.set_resources(PATIENT);
        test(bench);
    });
}
