// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Card with running SDMA engines, and the driver's side of their kernel rings.

use std::sync::Arc;

use gpu_model::chips::mi300x::ONE_XCC;
use gpu_model::engines::gmc::Hub;
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, nbio_7_9_0 as nbio, osssys_4_4_2 as oss, sdma_4_4_2 as sdma, Reg};
use rkfd_abi::sdma as pkt;

use crate::common::{addr, enable_context, gpu_with, open_aperture, FB};

/// VRAM offsets: IH ring, page tables, rings and pointers of engine n, test pages.
pub const IH_RING: u64 = 0x8_0000;
pub const TABLE: u64 = 0x10_0000;
pub const RINGS: u64 = 0x40_0000;
pub const WORK: u64 = 0x100_0000;
/// Size of a kernel ring, in bytes.
pub const RING: u64 = 4096;
/// GART address of system memory, in VMID 0 and VMID 3.
pub const GART: u64 = 0x10_0000_0000;
pub const GART_SIZE: u64 = 32 << 20;
/// Address of the VRAM from `WORK` on in VMID 3.
pub const USER: u64 = 0x20_0000_0000;
pub const USER_SIZE: u64 = 64 << 20;
/// VMID of jobs.
pub const VMID: u32 = 3;

/// Card with SDMA engines.
pub struct Card {
    pub gpu: Arc<Gpu>,
    pub wptr: [u64; 4],
    interrupts: u64,
}

impl Drop for Card {
    fn drop(&mut self) {
        self.gpu.sdma.stop();
        self.gpu.xccs[0].cp.stop();
    }
}

/// Routes the doorbells of the SDMA engines of AID 0.
pub fn route_sdma(gpu: &Gpu) {
    use nbio::{
        regDOORBELL0_CTRL_ENTRY_0, regS2A_DOORBELL_ENTRY_1_CTRL,
        DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_OFFSET_ENTRY as OFFSET,
        DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_SIZE_ENTRY as SIZE,
        S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_ENABLE as ENABLE,
    };
    for (n, port) in (0..).zip([0, 1, 4, 5]) {
        let range = OFFSET.put(Card::doorbell(n)) | SIZE.put(20);
        let reg = regDOORBELL0_CTRL_ENTRY_0.at(1 + n as u32);
        gpu.reg_write(addr(Ip::Nbif, reg), range);
        let reg = regS2A_DOORBELL_ENTRY_1_CTRL.at(port);
        gpu.reg_write(addr(Ip::Nbif, reg), ENABLE.mask);
    }
}

pub fn lo(value: u64) -> u32 {
    value as u32
}

pub fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

impl Card {
    /// Returns a card with running engines and enabled rings.
    pub fn new() -> Self {
        let card = Self::bare(Knobs::default());
        for n in 0..4 {
            card.start_ring(n, 0);
        }
        card
    }

    /// Returns a card with running engines and disabled rings.
    pub fn bare(knobs: Knobs) -> Self {
        let gpu = gpu_with(knobs);
        for n in 0..gpu.sdma.count() {
            let engine = gpu.clone();
            std::thread::spawn(move || engine.sdma.run(&engine, n));
        }
        open_aperture(&gpu);
        let enable = addr(Ip::Nbif, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN);
        gpu.reg_write(enable, 1);
        route_sdma(&gpu);
        let card = Self {
            gpu,
            wptr: [0; 4],
            interrupts: 0,
        };
        card.page_tables();
        card.interrupt_ring();
        card
    }

    fn page_tables(&self) {
        // The GART, and above it a flat table of VMID 3 with the GART and VRAM.
        for n in 0..GART_SIZE >> 12 {
            let entry = n << 12 | 0x77;
            self.put64(TABLE + n * 8, entry);
            self.put64(TABLE + 0x2_0000 + n * 8, entry);
        }
        enable_context(&self.gpu, Hub::Mm(0), 0, 0, 0, TABLE | 1);
        self.range(0, GART, GART_SIZE);
        for n in 0..USER_SIZE >> 12 {
            let entry = (WORK + (n << 12)) | 0x71;
            self.put64(TABLE + 0x4_0000 + n * 8, entry);
        }
        enable_context(&self.gpu, Hub::Mm(0), VMID, 0, 0, (TABLE + 0x4_0000) | 1);
        self.range(VMID, USER, USER_SIZE);
    }

    fn range(&self, vmid: u32, from: u64, size: u64) {
        for (reg, page) in [
            (gc::regVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, from >> 12),
            (
                gc::regVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
                (from + size - 1) >> 12,
            ),
        ] {
            let reg = reg.at(2 * vmid);
            crate::common::hub_write(&self.gpu, Hub::Mm(0), reg, lo(page));
            crate::common::hub_write(&self.gpu, Hub::Mm(0), reg.at(1), hi(page));
        }
    }

    fn interrupt_ring(&self) {
        let set = |reg, value| self.gpu.reg_write(addr(Ip::Osssys, reg), value);
        set(oss::regIH_RB_BASE, lo((FB + IH_RING) >> 8));
        set(oss::regIH_RB_BASE_HI, hi((FB + IH_RING) >> 8));
        // 2^14 dwords, addresses in VMID 0.
        set(
            oss::regIH_RB_CNTL,
            1 | 14 << 1 | 1 << 16 | 1 << 20 | 4 << 28,
        );
    }

    /// Returns the interrupts since the last call: client, source, ring, VMID, context.
    pub fn interrupts(&mut self) -> Vec<[u32; 5]> {
        let wptr = self.gpu.reg_read(addr(Ip::Osssys, oss::regIH_RB_WPTR));
        let mut found = Vec::new();
        while self.interrupts % 0x1_0000 != u64::from(wptr) {
            let at = IH_RING + self.interrupts % 0x1_0000;
            let head = self.gpu.vram.load32(at).unwrap();
            let ctx = self.gpu.vram.load32(at + 16).unwrap();
            found.push([
                head & 0xff,
                head >> 8 & 0xff,
                head >> 16 & 0xff,
                head >> 24 & 0xf,
                ctx,
            ]);
            self.interrupts += 32;
        }
        let rptr = addr(Ip::Osssys, oss::regIH_RB_RPTR);
        self.gpu.reg_write(rptr, wptr);
        found
    }

    pub fn put64(&self, offset: u64, value: u64) {
        self.gpu.vram.write(offset, &value.to_le_bytes()).unwrap();
    }

    pub fn get32(&self, offset: u64) -> u32 {
        self.gpu.vram.load32(offset).unwrap()
    }

    pub fn get64(&self, offset: u64) -> u64 {
        self.gpu.vram.load64(offset).unwrap()
    }

    pub fn reg(n: usize, reg: Reg) -> u32 {
        ONE_XCC.base(Ip::Sdma, n as u8, 0).unwrap() + reg.off
    }

    pub fn set(&self, n: usize, reg: Reg, value: u32) {
        self.gpu.reg_write(Self::reg(n, reg), value);
    }

    pub fn read(&self, n: usize, reg: Reg) -> u32 {
        self.gpu.reg_read(Self::reg(n, reg))
    }

    pub fn ring(n: usize) -> u64 {
        RINGS + n as u64 * 0x1_0000
    }

    /// Returns the address of engine `n`'s read pointer report; its fence is 16 bytes further.
    pub fn report(n: usize) -> u64 {
        Self::ring(n) + 0x8000
    }

    pub fn fence_at(n: usize) -> u64 {
        Self::report(n) + 16
    }

    /// Starts a ring, as a driver does at start and after a reset.
    pub fn start_ring(&self, n: usize, pointer: u64) {
        let set = |reg, value| self.set(n, reg, value);
        let (base, report) = (FB + Self::ring(n), FB + Self::report(n));
        let control = 10 << 1 | 1 << 12;
        set(sdma::regSDMA_GFX_RB_CNTL, control);
        set(sdma::regSDMA_GFX_RB_RPTR_ADDR_HI, hi(report));
        set(sdma::regSDMA_GFX_RB_RPTR_ADDR_LO, lo(report));
        set(sdma::regSDMA_GFX_RB_BASE, lo(base >> 8));
        set(sdma::regSDMA_GFX_RB_BASE_HI, hi(base >> 8));
        set(sdma::regSDMA_GFX_MINOR_PTR_UPDATE, 1);
        set(sdma::regSDMA_GFX_RB_RPTR, lo(pointer));
        set(sdma::regSDMA_GFX_RB_RPTR_HI, hi(pointer));
        set(sdma::regSDMA_GFX_RB_WPTR, lo(pointer));
        set(sdma::regSDMA_GFX_RB_WPTR_HI, hi(pointer));
        set(sdma::regSDMA_GFX_DOORBELL_OFFSET, Self::doorbell(n) << 2);
        set(sdma::regSDMA_GFX_DOORBELL, 1 << 28);
        set(sdma::regSDMA_GFX_MINOR_PTR_UPDATE, 0);
        set(sdma::regSDMA_GFX_RB_CNTL, control | 1);
        set(sdma::regSDMA_GFX_IB_CNTL, 1);
        set(sdma::regSDMA_CNTL, 1 | 1 << 1 | 1 << 7 | 1 << 18);
    }

    /// Returns the dword index of the doorbell on the BAR.
    pub fn doorbell(n: usize) -> u32 {
        (0x100 + 10 * n as u32) * 2
    }

    /// Writes packets to a ring without ringing the doorbell.
    pub fn write(&mut self, n: usize, words: &[u32]) {
        for word in words {
            let at = Self::ring(n) + self.wptr[n] % RING;
            self.gpu.vram.write(at, &word.to_le_bytes()).unwrap();
            self.wptr[n] += 4;
        }
    }

    pub fn kick(&self, n: usize) {
        let offset = u64::from(Self::doorbell(n)) * 4;
        self.gpu.doorbell(offset, self.wptr[n], 8);
    }

    pub fn submit(&mut self, n: usize, words: &[u32]) {
        self.write(n, words);
        self.kick(n);
    }

    /// Writes an INDIRECT at a valid alignment.
    pub fn indirect(&mut self, n: usize, vmid: u32, va: u64, dwords: u32) {
        while (self.wptr[n] / 4 + 6) % 8 != 0 {
            self.write(n, &[pkt::NOP_SINGLE]);
        }
        let head = pkt::indirect::HEADER | pkt::indirect::VMID.put(vmid);
        self.write(n, &[head, lo(va), hi(va), dwords, 0, 0]);
    }

    /// Writes FENCE and TRAP.
    pub fn fence(&mut self, n: usize, value: u32) {
        let to = FB + Self::fence_at(n);
        self.write(n, &[pkt::fence::HEADER, lo(to), hi(to), value]);
        self.submit(n, &[pkt::trap::HEADER, 0]);
    }

    /// Waits for a new fence.
    pub fn finish(&mut self, n: usize) {
        let value = self.get32(Self::fence_at(n)).wrapping_add(1);
        self.fence(n, value);
        self.until("fence", |c| c.get32(Self::fence_at(n)) == value);
        let wptr = self.wptr[n];
        self.until("read pointer", |c| c.get64(Self::report(n)) == wptr);
    }

    pub fn run(&mut self, n: usize, words: &[u32]) {
        self.submit(n, words);
        self.finish(n);
    }

    pub fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        crate::common::until(&self.gpu, what, || done(self));
    }

    pub fn assert_clean(&self) {
        assert_eq!(self.gpu.strict.lines(), [""; 0]);
    }

    /// Asserts that the first strict line contains all of `parts`.
    pub fn assert_strict(&self, parts: &[&str]) {
        let lines = self.gpu.strict.lines();
        for part in parts {
            assert!(lines.iter().any(|l| l.contains(part)), "{part}: {lines:#?}");
        }
    }
}

/// Returns a COPY linear.
pub fn copy(src: u64, dst: u64, bytes: u32) -> [u32; 7] {
    [
        pkt::copy_linear::HEADER,
        bytes - 1,
        0,
        lo(src),
        hi(src),
        lo(dst),
        hi(dst),
    ]
}

/// Returns a POLL_REGMEM of memory, condition equal.
pub fn poll(va: u64, value: u32) -> [u32; 6] {
    use pkt::poll_regmem as p;
    let head = p::HEADER | p::FUNC.put(p::FUNC_EQUAL) | p::MEM_POLL.put(1);
    [head, lo(va), hi(va), value, !0, 0xfff << 16 | 4]
}
