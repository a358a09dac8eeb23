// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA 7 of a GC 12.0 card: kernel rings by registers, packets, user queues mapped and unmapped by
//! the scheduler, resets.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, VRAM};
use gpu_model::chips::rx9070::CHIP;
use gpu_model::engines::gmc::cu::{CuNumber, Via};
use gpu_model::engines::gmc::Access;
use gpu_model::engines::sdma::rlc::{RlcMap, UserQueues};
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_12_0_0 as gc, nbif_6_3_1 as nbif, osssys_7_0_0 as oss, Reg};
use gpu_wave::{Isa, Scope, WaveSlots};
use rkfd_abi::mqd::v12_sdma::{dw, SdmaMqd};
use rkfd_abi::pte;
use rkfd_abi::sdma::poll_regmem;
use rkfd_abi::sdma::v7::{self as pkt, gcr};

/// MC address of VRAM.
const FB: u64 = (CHIP.fb_location as u64) << 24;
/// Bus address of the IH ring.
const IH_RING: u64 = 0x8_0000;
/// VRAM offsets: rings and pointers of the engines, page tables, test pages.
const RINGS: u64 = 0x40_0000;
const TABLES: u64 = 0x60_0000;
const WORK: u64 = 0x100_0000;
const RING: u64 = 4096;
/// Address of the 2 MiB of VRAM from `WORK` on in VMID 9.
const USER: u64 = 0x40_0000_0000;
const VMID: u8 = 9;

fn lo(value: u64) -> u32 {
    value as u32
}

fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

struct Card {
    gpu: Arc<Gpu>,
    wptr: [u64; 2],
    interrupts: u64,
}

impl Drop for Card {
    fn drop(&mut self) {
        self.gpu.sdma.stop();
    }
}

impl Card {
    fn bare() -> Self {
        Self::of(common::card(&CHIP, Knobs::default()))
    }

    fn of(gpu: Arc<Gpu>) -> Self {
        assert_eq!(gpu.sdma.count(), 2);
        for n in 0..2 {
            let engine = gpu.clone();
            std::thread::spawn(move || engine.sdma.run(&engine, n));
        }
        let card = Self {
            gpu,
            wptr: [0; 2],
            interrupts: 0,
        };
        let top = FB + VRAM - 1;
        for (ip, reg, value) in [
            (
                Ip::Gc,
                gc::regGCMC_VM_SYSTEM_APERTURE_LOW_ADDR,
                lo(FB >> 18),
            ),
            (
                Ip::Gc,
                gc::regGCMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
                lo(top >> 18),
            ),
            (Ip::Gc, gc::regGCMC_VM_MX_L1_TLB_CNTL, 1 | 3 << 3 | 1 << 6),
            (Ip::Nbif, nbif::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, 1),
            (Ip::Osssys, oss::regIH_RB_BASE, lo(IH_RING >> 8)),
            (Ip::Osssys, oss::regIH_RB_BASE_HI, hi(IH_RING >> 8)),
            (
                Ip::Osssys,
                oss::regIH_RB_CNTL,
                1 | 14 << 1 | 1 << 16 | 1 << 20 | 2 << 28,
            ),
        ] {
            card.write(ip, reg, value);
        }
        card.route(40);
        card.user_memory(pte::MTYPE_NC);
        card
    }

    /// Routes doorbells from that of engine 0 on.
    fn route(&self, dwords: u32) {
        let port = 1 | Self::doorbell(0) << 7 | dwords << 17;
        self.write(Ip::Nbif, nbif::regGDC_S2A0_S2A_DOORBELL_ENTRY_2_CTRL, port);
    }

    /// Returns a card with both engines and their rings running.
    fn new() -> Self {
        Self::bare().started()
    }

    fn started(mut self) -> Self {
        for n in 0..2 {
            self.start(n, 0);
        }
        self
    }

    fn user_memory(&self, mtype: u64) {
        const V: u64 = 1;
        const LEAF: u64 = V | 1 << 5 | 1 << 6 | 1 << 63;
        let index = |low: u32| USER >> low & 0x1ff;
        self.put64(TABLES + index(39) * 8, (TABLES + 0x1000) | V);
        self.put64(TABLES + 0x1000 + index(30) * 8, (TABLES + 0x2000) | V);
        self.put64(
            TABLES + 0x2000 + index(21) * 8,
            WORK | LEAF | pte::gfx12::MTYPE.put(mtype),
        );
        let vmid = u32::from(VMID);
        let base = gc::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(2 * vmid);
        self.write(Ip::Gc, base, lo(TABLES | V));
        let end = gc::regGCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.at(2 * vmid);
        self.write(Ip::Gc, end, !0);
        self.write(Ip::Gc, end.at(1), 0xf);
        let cntl = 1 | 3 << 1 | 0x00ff_fc00;
        self.write(Ip::Gc, gc::regGCVM_CONTEXT0_CNTL.at(vmid), cntl);
    }

    fn write(&self, ip: Ip, reg: Reg, value: u32) {
        let at = CHIP.base(ip, 0, reg.seg).unwrap() + reg.off;
        self.gpu.reg_write(at, value);
    }

    fn address(n: usize, reg: Reg) -> u32 {
        let step = [pkt::ENGINE_REG_STRIDE, pkt::HYP_REG_STRIDE][usize::from(reg.seg)];
        CHIP.base(Ip::Gc, 0, reg.seg).unwrap() + reg.off + n as u32 * step
    }

    fn set(&self, n: usize, reg: Reg, value: u32) {
        self.gpu.reg_write(Self::address(n, reg), value);
    }

    fn read(&self, n: usize, reg: Reg) -> u32 {
        self.gpu.reg_read(Self::address(n, reg))
    }

    fn put64(&self, offset: u64, value: u64) {
        self.gpu.vram.write(offset, &value.to_le_bytes()).unwrap();
    }

    fn get32(&self, offset: u64) -> u32 {
        self.gpu.vram.load32(offset).unwrap()
    }

    fn ring(n: usize) -> u64 {
        RINGS + n as u64 * 0x1_0000
    }

    fn report(n: usize) -> u64 {
        Self::ring(n) + 0x8000
    }

    fn doorbell(n: usize) -> u32 {
        (0x100 + 10 * n as u32) * 2
    }

    /// Starts a ring, as a driver does at start and after a reset.
    fn start(&mut self, n: usize, pointer: u64) {
        self.wptr[n] = pointer;
        let set = |reg, value| self.set(n, reg, value);
        let (base, report) = (FB + Self::ring(n), FB + Self::report(n));
        let control = 10 << 1 | 1 << 11 | 1 << 12 | 1 << 23;
        set(gc::regSDMA0_QUEUE0_RB_CNTL, control);
        set(gc::regSDMA0_QUEUE0_RB_RPTR, lo(pointer));
        set(gc::regSDMA0_QUEUE0_RB_RPTR_HI, hi(pointer));
        set(gc::regSDMA0_QUEUE0_RB_RPTR_ADDR_LO, lo(report));
        set(gc::regSDMA0_QUEUE0_RB_RPTR_ADDR_HI, hi(report));
        set(gc::regSDMA0_QUEUE0_RB_BASE, lo(base >> 8));
        set(gc::regSDMA0_QUEUE0_RB_BASE_HI, hi(base >> 8));
        set(gc::regSDMA0_QUEUE0_MINOR_PTR_UPDATE, 1);
        set(gc::regSDMA0_QUEUE0_RB_WPTR, lo(pointer));
        set(gc::regSDMA0_QUEUE0_RB_WPTR_HI, hi(pointer));
        set(gc::regSDMA0_QUEUE0_DOORBELL_OFFSET, Self::doorbell(n) << 2);
        set(gc::regSDMA0_QUEUE0_DOORBELL, 1 << 28);
        set(gc::regSDMA0_QUEUE0_MINOR_PTR_UPDATE, 0);
        set(gc::regSDMA0_MCU_CNTL, 0);
        set(gc::regSDMA0_QUEUE0_RB_CNTL, control | 1);
        set(gc::regSDMA0_QUEUE0_IB_CNTL, 1);
        set(gc::regSDMA0_CNTL, 1);
    }

    fn submit(&mut self, n: usize, words: &[u32]) {
        for word in words {
            let at = Self::ring(n) + self.wptr[n] % RING;
            self.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
            self.wptr[n] += 4;
        }
        let offset = u64::from(Self::doorbell(n)) * 4;
        self.gpu.doorbell(offset, self.wptr[n], 8);
    }

    /// Writes packets followed by FENCE and TRAP, and waits for them.
    fn run(&mut self, n: usize, words: &[u32]) {
        let at = Self::report(n) + 16;
        let value = self.get32(at).wrapping_add(1);
        self.submit(n, words);
        let head = pkt::fence::HEADER | pkt::fence::MTYPE.put(pkt::fence::MTYPE_UC);
        self.submit(n, &[head, lo(FB + at), hi(FB + at), value]);
        self.submit(n, &[pkt::trap::HEADER, 0]);
        self.until("fence", |c| c.get32(at) == value);
        let wptr = self.wptr[n];
        self.until("read pointer", |c| {
            u64::from(c.get32(Self::report(n))) == wptr
        });
    }

    /// Returns the interrupts since the last call: client, source, ring, VMID, context.
    fn interrupts(&mut self) -> Vec<[u32; 5]> {
        let wptr = CHIP.base(Ip::Osssys, 0, 0).unwrap() + oss::regIH_RB_WPTR.off;
        let wptr = self.gpu.reg_read(wptr);
        let mut found = Vec::new();
        while self.interrupts % 0x1_0000 != u64::from(wptr) {
            let at = IH_RING + self.interrupts % 0x1_0000;
            let word = |at| self.gpu.dma.load32(at).unwrap();
            let head = word(at);
            let [client, source, ring, vmid] = head.to_le_bytes().map(u32::from);
            found.push([client, source, ring, vmid & 0xf, word(at + 16)]);
            self.interrupts += 32;
        }
        self.write(Ip::Osssys, oss::regIH_RB_RPTR, wptr);
        found
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        common::until(&self.gpu, what, || done(self));
    }

    fn assert_clean(&self) {
        assert_eq!(self.gpu.strict.lines(), [""; 0]);
    }
}

/// Returns a COPY linear as the driver writes it, with the compression dword.
fn copy(src: u64, dst: u64, bytes: u32) -> [u32; 8] {
    use pkt::copy_linear_cpv as p;
    let head = p::HEADER | p::CPV.put(1);
    [head, bytes - 1, 0, lo(src), hi(src), lo(dst), hi(dst), 0]
}

#[test]
fn kernel_ring_runs_reports_and_interrupts() {
    let mut card = Card::new();
    for n in 0..2 {
        let at = WORK + 0x1000 * n as u64;
        card.put64(at, 0x1122_3344_5566_7788);
        card.run(n, &copy(FB + at, FB + at + 0x100, 8));
        assert_eq!(card.get32(at + 0x104), 0x1122_3344);
        let status = card.read(n, gc::regSDMA0_QUEUE0_CONTEXT_STATUS);
        assert_eq!(status, gc::SDMA0_QUEUE0_CONTEXT_STATUS__IDLE.mask);
        assert!(gc::SDMA0_STATUS_REG__IDLE.is_set(card.read(n, gc::regSDMA0_STATUS_REG)));
        let ring = (n as u32) << 4;
        assert_eq!(card.interrupts(), [[0x0a, 49, ring, 0, 0]]);
    }
    card.assert_clean();
}

#[test]
fn engine_needs_its_microcontroller() {
    let mut card = Card::bare();
    assert!(gc::SDMA0_MCU_CNTL__HALT.is_set(card.read(1, gc::regSDMA0_MCU_CNTL)));
    card.start(1, 0);
    card.set(1, gc::regSDMA0_MCU_CNTL, 1);
    card.submit(1, &[0]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(card.get32(Card::report(1)), 0);
    card.set(1, gc::regSDMA0_MCU_CNTL, 0);
    card.run(1, &[]);
    card.assert_clean();
}

#[test]
fn sdma7_packets() {
    let mut card = Card::new();
    let at = FB + WORK;
    // Older form of COPY, cache actions, an increment, a fill with the compression bit.
    use pkt::copy_linear as c;
    card.put64(WORK, 41);
    card.run(0, &[c::HEADER, 7, 0, lo(at), hi(at), lo(at + 16), hi(at)]);
    card.run(0, &[pkt::mem_incr::HEADER, lo(at + 16), hi(at + 16)]);
    assert_eq!((card.get32(WORK), card.get32(WORK + 16)), (41, 42));
    let all = gcr::GL2_WB.mask | gcr::GL2_INV.mask | gcr::GLV_INV.mask | gcr::GLI_INV.put(1);
    let control = pkt::gcr_req::GCR_CONTROL_15_0.put(all);
    card.run(0, &[pkt::gcr_req::HEADER, 0, control, 0, 0]);
    let user = pkt::header(pkt::op::GCR_REQ, pkt::sub_op::USER_GCR);
    card.run(0, &[user, 0, control, 0, 0]);
    use pkt::const_fill as f;
    let head = f::HEADER | f::COMPRESS.mask | f::FILLSIZE.put(f::FILLSIZE_DWORD);
    card.run(0, &[head, lo(at + 64), hi(at), 0x5a5a_0001, 31]);
    assert_eq!(
        [60, 64, 92, 96].map(|n| card.get32(WORK + n)),
        [0, 0x5a5a_0001, 0x5a5a_0001, 0]
    );
    // A register write by byte address, and a poll of it.
    let scratch = CHIP.base(Ip::Gc, 0, gc::regSCRATCH_REG0.seg).unwrap() + gc::regSCRATCH_REG0.off;
    card.run(0, &[pkt::register_write::HEADER, scratch * 4, 0xcafe]);
    assert_eq!(card.gpu.reg_read(scratch), 0xcafe);
    use pkt::poll_regmem as p;
    let head = p::HEADER | p::FUNC.put(3);
    card.run(0, &[head, scratch * 4, 0, 0xcafe, !0, 0xfff << 16 | 10]);
    card.assert_clean();
}

#[test]
fn sub_window_copy_has_fields_of_16_bits() {
    let mut card = Card::new();
    use pkt::copy_subwin as p;
    let (src, dst) = (FB + WORK, FB + WORK + 0x10_0000);
    // 4-byte elements, rows of 128: 75 x 40 at (1, 2) to (0, 0), rows of 256.
    for y in 0..42u64 {
        for x in 0..128u64 {
            card.put64(WORK + 4 * (128 * y + x), y << 8 | x);
        }
    }
    let words = [
        p::HEADER | p::ELEMENTSIZE.put(2),
        lo(src),
        hi(src),
        1 | p::SRC_Y.put(2),
        127 << 16,
        0,
        lo(dst),
        hi(dst),
        0,
        255 << 16,
        0,
        74 | 39 << 16,
        0,
    ];
    card.run(0, &words);
    for y in 0..40u64 {
        let row = WORK + 0x10_0000 + 4 * 256 * y;
        for x in [0, 1, 74] {
            let value = ((y + 2) << 8 | (x + 1)) as u32;
            assert_eq!(card.get32(row + 4 * x), value, "({x}, {y})");
        }
        assert_eq!(card.get32(row + 4 * 75), 0, "row {y}");
    }
    card.assert_clean();
}

#[test]
fn bad_packet_stops_ring_until_reset() {
    for words in [
        [copy(FB, FB, 8)[..7].to_vec(), vec![1 << 16]].concat(),
        vec![pkt::header(18, 0), 0],
        vec![
            pkt::header(pkt::op::POLL_REGMEM, pkt::sub_op::VM_INVALIDATION),
            0,
            0,
            0,
        ],
    ] {
        let mut card = Card::new();
        card.submit(1, &words);
        card.until("exception", |c| {
            let status = c.read(1, gc::regSDMA0_QUEUE0_CONTEXT_STATUS);
            gc::SDMA0_QUEUE0_CONTEXT_STATUS__EXCEPTION.is_set(status)
        });
        assert!(card.gpu.strict.lines()[0].contains("stops at"));
        card.write(
            Ip::Gc,
            gc::regGRBM_SOFT_RESET,
            gc::GRBM_SOFT_RESET__SOFT_RESET_SDMA1.mask,
        );
        card.write(Ip::Gc, gc::regGRBM_SOFT_RESET, 0);
        card.until("reset", |c| c.read(1, gc::regSDMA0_QUEUE0_RB_CNTL) == 0);
        assert_ne!(card.read(0, gc::regSDMA0_QUEUE0_RB_CNTL), 0);
        card.start(1, 0);
        card.put64(Card::report(1), 0);
        card.run(1, &[0]);
        card.run(0, &[0]);
    }
}

const MQD_RING: u64 = WORK + 0x1_0000;

/// Returns the MQD of a queue of VMID 9 whose ring is at 64 KiB of user memory.
fn image(engine: u32, doorbell: u32) -> SdmaMqd {
    let mut mqd = SdmaMqd::zeroed();
    let base = USER + 0x1_0000;
    mqd.sdmax_rlcx_rb_cntl = 10 << 1 | 1 << 12 | 6 << 16 | 1 << 11;
    mqd.sdmax_rlcx_rb_base = lo(base >> 8);
    mqd.sdmax_rlcx_rb_base_hi = hi(base >> 8);
    mqd.sdmax_rlcx_rb_rptr_addr_lo = lo(base + 0x8000);
    mqd.sdmax_rlcx_rb_rptr_addr_hi = hi(base + 0x8000);
    mqd.sdmax_rlcx_doorbell_offset = doorbell << 2;
    mqd.sdmax_rlcx_ib_cntl = 1 << 8;
    mqd.sdma_engine_id = engine;
    mqd
}

#[test]
fn doorbells_need_a_route() {
    let mut card = Card::new();
    // A range for engine 0 only.
    card.route(20);
    card.run(0, &[0]);
    assert_eq!(card.gpu.strict.lines(), [""; 0]);
    card.submit(1, &[0]);
    assert!(card.gpu.strict.lines()[0].contains("not routed to its SDMA engine"));
    assert_eq!(card.read(1, gc::regSDMA0_QUEUE0_RB_WPTR), 0);
    // Those of processes are dropped without a report.
    let own = u64::from(Card::doorbell(1) + 0x400) * 4;
    card.gpu.doorbell(own, 4, 8);
    assert_eq!(card.gpu.strict.unexpected(), 1);
}

#[test]
fn user_queue_map_unmap_remap() {
    let mut card = Card::new();
    // Second page of a process's doorbells, engine 1, queue 3.
    let doorbell = (0x400 + 0x10a + 512 + 1) * 2;
    let mut mqd = image(1, doorbell);
    let sdma = &card.gpu.sdma;
    assert!(sdma.is_routed(1, doorbell) && !sdma.is_routed(0, doorbell));
    assert!(sdma.is_free(1, 3) && !sdma.is_free(1, 0));
    let put = |card: &Card, at: u64, words: &[u32]| {
        for (n, word) in words.iter().enumerate() {
            let at = MQD_RING + at + n as u64 * 4;
            card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
        }
    };
    let map = |card: &Card, mqd: &SdmaMqd, wptr| {
        let map = RlcMap {
            engine: 1,
            rlc: 3,
            image: mqd.dwords(),
            vmid: VMID,
            pasid: 0x8001,
            doorbell,
        };
        card.gpu.sdma.map(&map, &|| Ok(wptr)).unwrap();
    };
    // Polls a word, then writes a fence and traps.
    use pkt::poll_regmem as p;
    let head = p::HEADER | p::FUNC.put(3) | p::MEM_POLL.put(1);
    put(
        &card,
        0,
        &[head, lo(USER), hi(USER), 7, !0, 0xfff << 16 | 4],
    );
    put(&card, 24, &[pkt::fence::HEADER, lo(USER + 8), hi(USER), 99]);
    put(&card, 40, &[pkt::trap::HEADER, 0x123]);
    map(&card, &mqd, 0);
    assert!(!card.gpu.sdma.is_free(1, 3));
    card.gpu.doorbell(u64::from(doorbell) * 4, 48, 8);
    card.until("waiting", |c| {
        let status = c.read(1, gc::regSDMA0_QUEUE3_CONTEXT_STATUS);
        !gc::SDMA0_QUEUE0_CONTEXT_STATUS__IDLE.is_set(status)
    });
    // The kernel ring continues meanwhile.
    card.run(1, &[0]);
    card.gpu.sdma.unmap(1, 3);
    card.until("unmapped", |c| c.gpu.sdma.dequeued_image(1, 3).is_some());
    for (n, value) in card.gpu.sdma.dequeued_image(1, 3).unwrap() {
        mqd.dwords_mut()[n] = value;
    }
    assert_eq!(mqd.dwords()[dw::sdmax_rlcx_rb_wptr], 48);
    assert_eq!(mqd.sdmax_rlcx_rb_rptr, 0);
    assert_eq!(mqd.sdmax_rlcx_rb_cntl & 0xf00_0001, 0);
    card.put64(WORK, 7);
    map(&card, &mqd, 48);
    card.until("done", |c| c.get32(WORK + 8) == 99);
    card.until("reported", |c| c.get32(MQD_RING + 0x8000) == 48);
    let ring = 1 << 4 | 3;
    let found = card.interrupts();
    assert!(
        found.contains(&[0x0a, 49, ring, VMID.into(), 0x123]),
        "{found:x?}"
    );
    card.assert_clean();
}

#[test]
fn reset_queue_is_dropped() {
    let card = Card::new();
    let doorbell = (0x400 + 0x100 + 1) * 2;
    let mqd = image(0, doorbell);
    let map = RlcMap {
        engine: 0,
        rlc: 2,
        image: mqd.dwords(),
        vmid: VMID,
        pasid: 0x8001,
        doorbell,
    };
    card.gpu.sdma.map(&map, &|| Ok(0)).unwrap();
    card.gpu.sdma.reset_queue(0, 2);
    card.until("queue dropped", |c| c.gpu.sdma.is_free(0, 2));
    assert_ne!(card.read(0, gc::regSDMA0_QUEUE0_RB_CNTL), 0);
    card.assert_clean();
}

#[test]
fn faults_go_to_graphics_hub() {
    let mut card = Card::new();
    let mqd = image(0, (0x400 + 0x100 + 1) * 2);
    let nowhere = USER + (4 << 20);
    for (n, word) in [pkt::fence::HEADER, lo(nowhere), hi(nowhere), 1]
        .iter()
        .enumerate()
    {
        let at = MQD_RING + n as u64 * 4;
        card.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
    }
    let map = RlcMap {
        engine: 0,
        rlc: 2,
        image: mqd.dwords(),
        vmid: VMID,
        pasid: 0x8001,
        doorbell: (0x400 + 0x100 + 1) * 2,
    };
    card.gpu.sdma.map(&map, &|| Ok(16)).unwrap();
    card.until("fault", |c| !c.gpu.strict.lines().is_empty());
    let line = card.gpu.strict.lines()[0].clone();
    assert!(line.contains("fault of client 13"), "{line}");
    card.until("interrupt", |c| {
        let wptr = CHIP.base(Ip::Osssys, 0, 0).unwrap() + oss::regIH_RB_WPTR.off;
        c.gpu.reg_read(wptr) != 0
    });
    let first = card.interrupts()[0];
    assert_eq!((first[0], first[3]), (0x0a, VMID.into()));
    assert_eq!(u64::from(first[4]), nowhere >> 12);
}

/// A store of a shader to the user's memory.
fn store(card: &Card, at: u64, value: u64) {
    let data = value.to_le_bytes();
    let gmc = &card.gpu.gmc;
    gmc.shader_store((0, VMID), USER + at, &data, (Scope::Wave, None))
        .unwrap();
}

/// A load of a shader.
fn load(card: &Card, at: u64) -> u64 {
    let mut data = [0; 8];
    let gmc = &card.gpu.gmc;
    gmc.shader_load(
        (0, VMID),
        USER + at,
        &mut data,
        Access::Read,
        (Scope::Wave, None),
    )
    .unwrap();
    u64::from_le_bytes(data)
}

#[test]
fn gcr_requests_act_on_the_l2() {
    for (write_back, invalidate) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let mut card = Card::of(common::adverse(&CHIP, 3)).started();
        assert_eq!(load(&card, 0x1000), 0);
        card.put64(WORK + 0x1000, 5);
        store(&card, 0, 7);
        assert_eq!((load(&card, 0x1000), card.get32(WORK)), (0, 0));
        let control = gcr::GL2_WB.put(write_back) | gcr::GL2_INV.put(invalidate);
        let control = pkt::gcr_req::GCR_CONTROL_15_0.put(control | gcr::GLV_INV.mask);
        card.run(0, &[pkt::gcr_req::HEADER, 0, control, 0, 0]);
        assert_eq!(load(&card, 0x1000), 5 * u64::from(invalidate));
        assert_eq!(card.get32(WORK), 7 * write_back);
        assert_eq!(load(&card, 0), 7);
        card.assert_clean();
    }
}

#[test]
fn gcr_requests_act_on_the_caches_of_cus() {
    let vector = Via::Vector(CuNumber::of(&WaveSlots::default(), Isa::Gfx1201));
    for via in [Via::Scalar, Via::Code, vector] {
        for (control, invalidates) in [
            (0, false),
            (gcr::GLK_INV.mask, via == Via::Scalar),
            (gcr::GLI_INV.put(1), via == Via::Code),
            (gcr::GLV_INV.mask, via == vector),
        ] {
            let trial = |_| {
                let mut card = Card::of(common::adverse(&CHIP, 3)).started();
                let load = |card: &Card| {
                    let mut data = [0; 8];
                    let how = (Scope::Wave, Some(via));
                    let gmc = &card.gpu.gmc;
                    gmc.shader_load((0, VMID), USER, &mut data, Access::Read, how)
                        .unwrap();
                    u64::from_le_bytes(data)
                };
                assert_eq!(load(&card), 0);
                store(&card, 0, 7);
                let control = pkt::gcr_req::GCR_CONTROL_15_0.put(control);
                card.run(0, &[pkt::gcr_req::HEADER, 0, control, 0, 0]);
                load(&card)
            };
            // The adversary may fetch a line again.
            let seen: Vec<u64> = (0..4).map(trial).collect();
            match invalidates {
                true => assert_eq!(seen, [7; 4], "{via:?} {control:#x}"),
                false => assert!(seen.contains(&0), "{via:?} {control:#x}"),
            }
        }
    }
}

#[test]
fn sdma_is_a_client_of_the_l2() {
    let mut card = Card::of(common::adverse(&CHIP, 3)).started();
    assert_eq!(load(&card, 0x1000), 0);
    store(&card, 0, 7);
    let at = FB + WORK;
    card.run(0, &copy(at, at + 0x1000, 8));
    assert_eq!((load(&card, 0x1000), card.get32(WORK + 0x1000)), (7, 7));
    // A store that is not written back does not replace what SDMA writes after it.
    store(&card, 0, 9);
    use pkt::const_fill as f;
    let head = f::HEADER | f::FILLSIZE.put(f::FILLSIZE_DWORD);
    card.run(0, &[head, lo(at), hi(at), 0x55, 31]);
    assert_eq!(
        (load(&card, 0), card.get32(WORK)),
        (0x55 << 32 | 0x55, 0x55)
    );
    card.assert_clean();
}

#[test]
fn memory_types_of_ptes() {
    for (mtype, cached) in [(pte::MTYPE_NC, true), (pte::MTYPE_UC, false)] {
        let card = Card::of(common::adverse(&CHIP, 3));
        card.user_memory(mtype);
        assert_eq!(load(&card, 0x1000), 0);
        store(&card, 0, 7);
        card.put64(WORK + 0x1000, 5);
        let (seen, stored) = if cached { (0, 0) } else { (5, 7) };
        assert_eq!((load(&card, 0x1000), card.get32(WORK)), (seen, stored));
    }
}

/// Returns a poll of a register until these bits are set.
fn wait_register(at: u32, bits: u32) -> [u32; 6] {
    use poll_regmem as p;
    let mut words = [0; 6];
    words[0] = p::PACKET.header();
    for (field, value) in [
        (p::FUNC, p::FUNC_EQUAL),
        (p::ADDR_LO, at << 2),
        (p::VALUE, bits),
        (p::MASK, bits),
        (p::INTERVAL, 10),
        (p::RETRY_COUNT, p::RETRY_FOR_EVER),
    ] {
        field.set(&mut words, value);
    }
    words
}

#[test]
fn ack_behind_its_request_is_that_of_the_one_before() {
    let mut card = Card::new();
    let at = |reg: Reg| CHIP.base(Ip::Gc, 0, reg.seg).unwrap() + reg.off;
    let range = gc::regGCVM_INVALIDATE_ENG0_ADDR_RANGE_LO32;
    card.write(Ip::Gc, range, !0);
    card.write(Ip::Gc, range.at(1), 0x1f);
    let request = at(gc::regGCVM_INVALIDATE_ENG0_REQ);
    let ack = at(gc::regGCVM_INVALIDATE_ENG0_ACK);
    let head = pkt::register_write::PACKET.header();
    let write = |vmids: u32| [head, request << 2, vmids];
    let settled = [
        &write(2)[..],
        &wait_register(request, 0),
        &wait_register(ack, 2),
    ];
    card.run(0, &settled.concat());
    card.assert_clean();
    // Not acknowledged at the first look.
    card.run(0, &[&write(4)[..], &wait_register(ack, 4)].concat());
    let lines = card.gpu.strict.lines();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].contains("directly behind the request"),
        "{lines:?}"
    );
}

#[test]
fn queues_are_reset_in_safe_mode() {
    let card = Card::new();
    let safe_mode = |message| {
        let command = gc::RLC_SAFE_MODE__CMD.mask | gc::RLC_SAFE_MODE__MESSAGE.put(message);
        let at = CHIP.base(Ip::Gc, 0, gc::regRLC_SAFE_MODE.seg).unwrap();
        card.gpu.reg_write(at + gc::regRLC_SAFE_MODE.off, command);
    };
    let reports = || {
        let lines = card.gpu.strict.lines();
        let outside = lines.iter().filter(|l| l.contains("outside RLC safe mode"));
        outside.count()
    };
    assert_eq!(reports(), 0);
    card.set(1, gc::regSDMA0_QUEUE_RESET_REQ, 1);
    assert_eq!(reports(), 1);
    safe_mode(1);
    card.set(1, gc::regSDMA0_QUEUE_RESET_REQ, 1);
    assert_eq!(reports(), 1);
    safe_mode(0);
    card.set(0, gc::regSDMA0_QUEUE_RESET_REQ, 1);
    assert_eq!(reports(), 2);
}
