// SPDX-License-Identifier: GPL-2.0 OR MIT

//! IH ring: entries, wrap, overflow, write pointer shadow, MSIs.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use crate::common::{addr, adverse, gpu_with, route_ih};
use gpu_model::chips::mi300x::ONE_XCC;
use gpu_model::engines::ih::Entry;
use gpu_model::gpu::Gpu;
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{nbio_7_9_0 as nbio, osssys_4_4_2 as ih, Reg};

const RING: u64 = 0x10_0000;
const SHADOW: u64 = 0x20_0000;
/// Ring of eight entries, in bytes: 64 dwords.
const SIZE: u32 = 256;
const DOORBELL: u32 = 0x1a0 * 2;
const CLEAR: u32 = 1 << 31;

fn write(gpu: &Gpu, reg: Reg, value: u32) {
    gpu.reg_write(addr(Ip::Osssys, reg), value);
}

fn read(gpu: &Gpu, reg: Reg) -> u32 {
    gpu.reg_read(addr(Ip::Osssys, reg))
}

/// Ring, rearm and doorbell enabled.
fn cntl() -> u32 {
    1 | 6 << 1 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21 | 1 << 28
}

fn card(knobs: Knobs) -> (std::sync::Arc<Gpu>, File) {
    start(gpu_with(knobs))
}

fn start(gpu: std::sync::Arc<Gpu>) -> (std::sync::Arc<Gpu>, File) {
    write(&gpu, ih::regIH_RB_BASE, (RING >> 8) as u32);
    write(&gpu, ih::regIH_RB_BASE_HI, (RING >> 40) as u32);
    write(&gpu, ih::regIH_RB_WPTR_ADDR_LO, SHADOW as u32);
    write(&gpu, ih::regIH_RB_WPTR_ADDR_HI, (SHADOW >> 32) as u32);
    write(&gpu, ih::regIH_DOORBELL_RPTR, DOORBELL | 1 << 28);
    route_ih(&gpu, DOORBELL, 8);
    write(&gpu, ih::regIH_RB_CNTL, cntl());
    gpu.reg_write(
        addr(Ip::Nbif, nbio::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN),
        1,
    );
    let flags = rustix::event::EventfdFlags::NONBLOCK;
    let event = File::from(rustix::event::eventfd(0, flags).unwrap());
    let other: OwnedFd = event.try_clone().unwrap().into();
    gpu.msix.set(0, vec![Some(File::from(other))]);
    (gpu, event)
}

fn messages(mut event: &File) -> u64 {
    let mut count = [0; 8];
    match event.read_exact(&mut count) {
        Ok(()) => u64::from_ne_bytes(count),
        Err(_) => 0,
    }
}

fn eop(ctx: u32) -> Entry {
    Entry {
        client_id: 0x14,
        source_id: 181,
        ring_id: 4,
        vmid: 8,
        node_id: 1,
        ctx: [ctx, 2, 3, 4],
        ..Entry::default()
    }
}

fn word(gpu: &Gpu, entry: u64, word: u64) -> u32 {
    gpu.dma.load32(RING + entry * 32 + word * 4).unwrap()
}

#[test]
fn entry_layout_and_pasid() {
    let (gpu, event) = card(Knobs::default());
    gpu.map_vmid(0, 8, 0x8042, 1);
    gpu.ih.post(eop(0x77));
    assert_eq!(word(&gpu, 0, 0), 0x14 | 181 << 8 | 4 << 16 | 8 << 24);
    assert_eq!(word(&gpu, 0, 3), 0x8042 | 1 << 16);
    let ctx: Vec<u32> = (4..8).map(|i| word(&gpu, 0, i)).collect();
    assert_eq!(ctx, [0x77, 2, 3, 4]);
    assert_eq!(gpu.dma.load32(SHADOW), Ok(32));
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 32);
    assert_eq!(messages(&event), 1);
    // The same VMID of the memory hub has a separate LUT entry.
    gpu.ih.post(Entry {
        mm_hub: true,
        node_id: 0,
        vmid: 9,
        ..eop(1)
    });
    assert_eq!(word(&gpu, 1, 0) >> 31, 1);
    assert_eq!(word(&gpu, 1, 3), 0);
}

#[test]
fn knobs_change_node_and_vmid_but_not_the_pasid() {
    let knobs = Knobs::default();
    assert!(knobs.set("ih.node", 4) && knobs.set("ih.vmid", 10));
    let (gpu, _event) = card(knobs);
    gpu.map_vmid(0, 8, 0x8042, 1);
    gpu.ih.post(eop(0x77));
    assert_eq!(word(&gpu, 0, 0), 0x14 | 181 << 8 | 4 << 16 | 10 << 24);
    assert_eq!(word(&gpu, 0, 3), 0x8042 | 3 << 16);
    // Not those of the kernel.
    gpu.ih.post(Entry { vmid: 0, ..eop(1) });
    assert_eq!(word(&gpu, 1, 0) >> 24, 0);
    assert_eq!(word(&gpu, 1, 3), 1 << 16);
    for name in ["ih.node", "ih.vmid"] {
        assert_eq!(gpu.knobs.hits(name), Some(1));
    }
}

#[test]
fn node_ids_of_xccs_and_aids() {
    use gpu_model::chips::Generation;
    use gpu_model::engines::gmc::{Access, FaultKind, Hub, VmFault};
    let fault = |hub| VmFault {
        hub,
        vmid: 8,
        va: 0x1000,
        access: Access::Read,
        kind: FaultKind::NotPresent,
        retry: false,
    };
    let node = |hub| gpu_model::gpu::fault_entry(Generation::Gfx9, &fault(hub), 0).node_id;
    let xccs = [1, 2, 5, 6, 9, 10, 13, 14];
    for (xcc, id) in (0..).zip(xccs) {
        assert_eq!(gpu_model::engines::ih::xcc_node(xcc), id);
        assert_eq!(node(Hub::Gfx(xcc)), id);
    }
    for (aid, id) in (0..).zip([0, 4, 8, 12]) {
        assert_eq!(node(Hub::Mm(aid)), id);
    }
}

#[test]
fn pasid_lut_writes_take_effect() {
    let (gpu, _event) = card(Knobs::default());
    write(&gpu, ih::regIH_VMID_LUT_INDEX, 1);
    write(&gpu, ih::regIH_VMID_0_LUT.at(8), 0x55);
    assert_eq!(read(&gpu, ih::regIH_VMID_0_LUT.at(8)), 0x55);
    write(&gpu, ih::regIH_VMID_LUT_INDEX, 0);
    assert_eq!(read(&gpu, ih::regIH_VMID_0_LUT.at(8)), 0);
    gpu.ih.post(eop(1));
    assert_eq!(word(&gpu, 0, 3) & 0xffff, 0x55);
}

/// The message of an entry is sent when the read pointer is behind that entry: the ring is empty,
/// and there is no further message until the read pointer is written again.
#[test]
fn late_msi_finds_an_empty_ring() {
    let (gpu, event) = start(adverse(&ONE_XCC, 1));
    let ring = |rptr| gpu.doorbell(u64::from(DOORBELL) * 4, rptr, 4);
    gpu.ih.post(eop(1));
    assert_eq!(messages(&event), 1);
    gpu.ih.post(eop(2));
    ring(64);
    assert_eq!(messages(&event), 1);
    gpu.ih.post(eop(3));
    assert_eq!(messages(&event), 0);
    ring(64);
    assert_eq!(messages(&event), 1);
    ring(96);
    assert_eq!(messages(&event), 0);
}

#[test]
fn one_msi_until_rptr_moves() {
    let (gpu, event) = card(Knobs::default());
    for i in 0..3 {
        gpu.ih.post(eop(i));
    }
    assert_eq!(messages(&event), 1);
    // Acknowledged up to the second entry: the third is pending, so a new MSI is sent.
    gpu.doorbell(u64::from(DOORBELL) * 4, 64, 4);
    assert_eq!(messages(&event), 1);
    write(&gpu, ih::regIH_RB_RPTR, 96);
    assert_eq!(messages(&event), 0);
    gpu.ih.post(eop(9));
    assert_eq!(messages(&event), 1);
    assert_eq!(read(&gpu, ih::regIH_RB_RPTR), 96);
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn one_msi_in_all_without_rearm() {
    let (gpu, event) = card(Knobs::default());
    write(&gpu, ih::regIH_RB_CNTL, cntl() & !(1 << 21));
    for n in 0..3 {
        gpu.ih.post(eop(n));
        gpu.doorbell(u64::from(DOORBELL) * 4, u64::from(32 * (n + 1)), 4);
    }
    assert_eq!(messages(&event), 1);
}

#[test]
fn ring_is_enabled_once_its_doorbell_is_routed() {
    let (gpu, _event) = card(Knobs::default());
    write(&gpu, ih::regIH_RB_CNTL, 0);
    route_ih(&gpu, DOORBELL, 0);
    let enable = 1;
    write(&gpu, ih::regIH_RB_CNTL, cntl() & !enable);
    let lines = gpu.strict.lines();
    assert!(
        lines[0].contains("before its doorbell 0x340 is routed"),
        "{lines:?}"
    );
    // Nothing else is enabled by these.
    write(&gpu, ih::regIH_RB_CNTL, cntl() & !enable);
    write(&gpu, ih::regIH_RB_CNTL, 0);
    write(&gpu, ih::regIH_DOORBELL_RPTR, DOORBELL);
    write(&gpu, ih::regIH_RB_CNTL, cntl());
    assert_eq!(gpu.strict.unexpected(), 1);
}

#[test]
fn doorbells_need_a_route() {
    let (gpu, _event) = card_with_cam(Knobs::default());
    gpu.ih.post(eop(1));
    retry(&gpu, 0x123);
    // A range for ring 0 only, or none.
    for (size, index, value) in [(2, DOORBELL_CAM, 0), (0, DOORBELL, 32)] {
        route_ih(&gpu, DOORBELL, size);
        gpu.doorbell(u64::from(index) * 4, value, 4);
        let lines = gpu.strict.lines();
        assert!(lines
            .last()
            .unwrap()
            .contains("not routed to the interrupt handler"));
    }
    assert_eq!(gpu.strict.unexpected(), 2);
    assert_eq!(read(&gpu, ih::regIH_RB_RPTR), 0);
    route_ih(&gpu, DOORBELL, 8);
    gpu.doorbell(u64::from(DOORBELL) * 4, 32, 4);
    gpu.doorbell(u64::from(DOORBELL_CAM) * 4, 0, 4);
    assert_eq!(read(&gpu, ih::regIH_RB_RPTR), 32);
    assert_eq!(gpu.strict.unexpected(), 2);
}

#[test]
fn ring_wraps() {
    let (gpu, _event) = card(Knobs::default());
    for i in 0..20u32 {
        gpu.ih.post(eop(i));
        let next = (i + 1) * 32 % SIZE;
        assert_eq!(gpu.dma.load32(SHADOW), Ok(next));
        assert_eq!(word(&gpu, u64::from(i % 8), 4), i);
        write(&gpu, ih::regIH_RB_RPTR, next);
    }
}

#[test]
fn overflow_bit_until_cleared() {
    let (gpu, _event) = card(Knobs::default());
    for i in 0..8 {
        assert_eq!(gpu.dma.load32(SHADOW).unwrap() & 1, 0);
        gpu.ih.post(eop(i));
    }
    assert_eq!(gpu.dma.load32(SHADOW), Ok(1));
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 1);
    gpu.ih.post(eop(8));
    assert_eq!(word(&gpu, 0, 4), 8, "oldest entry not overwritten");
    assert_eq!(gpu.dma.load32(SHADOW), Ok(33));
    // Recovery of the driver: move the read pointer past the write pointer, clear the bit.
    write(&gpu, ih::regIH_RB_RPTR, 64);
    write(&gpu, ih::regIH_RB_CNTL, cntl() | CLEAR);
    write(&gpu, ih::regIH_RB_CNTL, cntl());
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 32);
    gpu.ih.post(eop(9));
    assert_eq!(gpu.dma.load32(SHADOW), Ok(65), "ring not full again");
}

#[test]
fn dropped_msi_bad_rptr_and_disabled_ring() {
    let knobs = Knobs::default();
    knobs.ih_drop_msi.set(1);
    let (gpu, event) = card(knobs);
    gpu.ih.post(eop(1));
    assert_eq!(messages(&event), 0);
    write(&gpu, ih::regIH_RB_RPTR, 0);
    assert_eq!(messages(&event), 1, "no MSI for the unread entry");
    gpu.doorbell(u64::from(DOORBELL) * 4, 0x21, 4);
    assert!(gpu.strict.lines()[0].contains("read pointer"));
    write(&gpu, ih::regIH_RB_CNTL, cntl() & !1);
    gpu.ih.post(eop(2));
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 32);
    gpu.doorbell(u64::from(DOORBELL + 2) * 4, 0, 4);
    assert!(gpu.strict.lines()[1].contains("neither"));
}

#[test]
fn fault_entry_matches_driver_decode() {
    use crate::common::enable_context;
    use gpu_model::engines::gmc::Hub;
    let (gpu, event) = card(Knobs::default());
    enable_context(&gpu, Hub::Gfx(0), 8, 3, 0, 0x10_0001);
    gpu.map_vmid(0, 8, 0x8001, 0x10_0001);
    let va = 0x7654_3210_f000;
    let fault = gpu.gmc.write32(Hub::Gfx(0), 8, va, 0).unwrap_err();
    gpu.raise_fault(&fault, 8);
    assert_eq!(word(&gpu, 0, 0) & 0xffff, 0x1b);
    assert_eq!(word(&gpu, 0, 0) >> 24 & 15, 8);
    // Translation invalid, write.
    assert_eq!(word(&gpu, 0, 0) >> 16 & 0xff, 0x08 | 0x20);
    assert_eq!(word(&gpu, 0, 3), 0x8001 | 1 << 16);
    let addr = u64::from(word(&gpu, 0, 4)) << 12 | u64::from(word(&gpu, 0, 5) & 15) << 44;
    assert_eq!(addr, va);
    assert_eq!(word(&gpu, 0, 5) & 0xf0, 0x20, "write, no retry");
    assert_eq!(messages(&event), 1);
}

const RING1: u64 = 0x30_0000;
/// Doorbells of ring 1 and of the retry CAM.
const DOORBELL1: u32 = DOORBELL + 2;
const DOORBELL_CAM: u32 = DOORBELL + 6;

/// A card whose driver has enabled ring 1, which has eight entries, and the retry CAM.
fn card_with_cam(knobs: Knobs) -> (std::sync::Arc<Gpu>, File) {
    let (gpu, event) = card(knobs);
    write(&gpu, ih::regIH_RB_BASE_RING1, (RING1 >> 8) as u32);
    write(&gpu, ih::regIH_DOORBELL_RPTR_RING1, DOORBELL1 | 1 << 28);
    write(
        &gpu,
        ih::regIH_RB_CNTL_RING1,
        1 | 6 << 1 | 1 << 16 | 1 << 20 | 1 << 28,
    );
    write(&gpu, ih::regIH_DOORBELL_RETRY_CAM, DOORBELL_CAM | 1 << 28);
    write(&gpu, ih::regIH_RETRY_INT_CAM_CNTL, 1 << 16);
    (gpu, event)
}

fn retry(gpu: &Gpu, page: u32) {
    gpu.ih.post_retry(Entry {
        client_id: 0x1b,
        vmid: 8,
        node_id: 1,
        ctx: [page, 1 << 5, 0, 0],
        ..Entry::default()
    });
}

#[test]
fn retry_faults_raise_one_interrupt_until_they_are_acknowledged() {
    let (gpu, event) = card_with_cam(Knobs::default());
    gpu.map_vmid(0, 8, 0x8042, 1);
    for _ in 0..3 {
        retry(&gpu, 0x123);
        retry(&gpu, 0x456);
    }
    assert_eq!(messages(&event), 1);
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 64);
    assert_eq!(word(&gpu, 0, 0), 0x1b | 8 << 24);
    assert_eq!(word(&gpu, 0, 3), 0x8042 | 1 << 16);
    let ctx = |entry| [4, 5, 6].map(|n| word(&gpu, entry, n));
    assert_eq!(ctx(0), [0x123, 1 << 5 | 1 << 7, 0]);
    assert_eq!(ctx(1), [0x456, 1 << 5 | 1 << 7, 1]);
    // The second slot is acknowledged: its fault is new again.
    gpu.doorbell(u64::from(DOORBELL_CAM) * 4, 1, 4);
    retry(&gpu, 0x123);
    retry(&gpu, 0x456);
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 96);
    assert_eq!(ctx(2), [0x456, 1 << 5 | 1 << 7, 1]);
    assert_eq!(gpu.strict.unexpected(), 0);
    // A slot that is not in use.
    gpu.doorbell(u64::from(DOORBELL_CAM) * 4, 9, 4);
    assert_eq!(gpu.strict.unexpected(), 1);
    // Slots that stay in use for 2 seconds.
    gpu.ih.check();
    assert_eq!(gpu.strict.unexpected(), 1);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    gpu.ih.check();
    assert_eq!(gpu.strict.unexpected(), 3);
}

#[test]
fn retry_faults_without_the_cam_raise_an_interrupt_each_time() {
    let (gpu, _event) = card(Knobs::default());
    for _ in 0..9 {
        retry(&gpu, 0x123);
    }
    // The ring has room for seven.
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR), 32 | 1);
}

#[test]
fn ring_1_is_announced_by_ring_0() {
    let knobs = Knobs::default();
    assert!(knobs.set("ih.retry_ring", 1));
    let (gpu, event) = card_with_cam(knobs);
    retry(&gpu, 0x123);
    assert_eq!(messages(&event), 1);
    assert_eq!(word(&gpu, 0, 0), 1 << 16, "client IH, source 0, ring 1");
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR_RING1), 32);
    assert_eq!(gpu.dma.load32(RING1 + 16), Ok(0x123));
    gpu.doorbell(u64::from(DOORBELL_CAM) * 4, 0, 4);
    gpu.ih.check();
    assert_eq!(gpu.strict.unexpected(), 1, "ring 1 is not read");
    gpu.doorbell(u64::from(DOORBELL1) * 4, 32, 4);
    assert_eq!(read(&gpu, ih::regIH_RB_RPTR_RING1), 32);
    gpu.ih.check();
    assert_eq!(gpu.strict.unexpected(), 1);
    // Overflow: bit 0 of the write pointer, until it is cleared.
    for page in 0..8 {
        retry(&gpu, page);
    }
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR_RING1), 32 | 1);
    let cntl = read(&gpu, ih::regIH_RB_CNTL_RING1);
    write(&gpu, ih::regIH_RB_CNTL_RING1, cntl | CLEAR);
    assert_eq!(read(&gpu, ih::regIH_RB_WPTR_RING1), 32);
}
