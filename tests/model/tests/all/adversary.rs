// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Adversarial mode: late and partial invalidations, cached page directories, late responses.

use crate::common::{addr, adverse, enable_context, hub_read, hub_write, until};
use gpu_model::chips::mi300x::ONE_XCC;
use gpu_model::engines::gmc::{Access, FaultKind, Hub, Target};
use gpu_model::gpu::Gpu;
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, smu as mailbox};

const HUB: Hub = Hub::Gfx(0);
const VMID: u8 = 3;
const VA: u64 = 0x7000_1000;
const V: u64 = 1;
const RW: u64 = 1 << 5 | 1 << 6;
/// Root, middle and last directory, page table.
const TABLES: [u64; 4] = [0x10_0000, 0x10_1000, 0x10_2000, 0x10_3000];

fn put(gpu: &Gpu, table: u64, shift: u32, entry: u64) {
    let at = table + (VA >> shift & 0x1ff) * 8;
    gpu.vram.write(at, &entry.to_le_bytes()).unwrap();
}

/// Maps `VA` to `page` through the page table at `table`.
fn map(gpu: &Gpu, table: u64, page: u64) {
    put(gpu, TABLES[0], 39, TABLES[1] | V);
    put(gpu, TABLES[1], 30, TABLES[2] | V);
    put(gpu, TABLES[2], 21, table | V);
    put(gpu, table, 12, page | V | RW);
}

fn mapped(page: u64) -> std::sync::Arc<Gpu> {
    let gpu = adverse(&ONE_XCC, 5);
    map(&gpu, TABLES[3], page);
    enable_context(&gpu, HUB, VMID.into(), 3, 0, TABLES[0] | V);
    assert_eq!(target(&gpu), Ok(Target::Vram(page)));
    gpu
}

fn target(gpu: &Gpu) -> Result<Target, FaultKind> {
    let pa = gpu.gmc.translate(HUB, VMID, VA, Access::Read);
    pa.map(|pa| pa.target).map_err(|f| f.kind)
}

/// All caches of the VMID.
fn everything() -> u32 {
    gc::VM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ.put(1 << VMID)
        | gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES.put(1)
        | gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.put(1)
        | gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1.put(1)
        | gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2.put(1)
        | gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES.put(1)
}

fn acknowledged(gpu: &Gpu) -> bool {
    let ack = gc::regVM_INVALIDATE_ENG0_ACK.at(17);
    hub_read(gpu, HUB, ack) & 1 << VMID != 0
}

/// Sends a request to engine 17 and waits for its ACK.
fn invalidate(gpu: &Gpu, request: u32) {
    hub_write(gpu, HUB, gc::regVM_INVALIDATE_ENG0_REQ.at(17), request);
    until(gpu, "no ACK", || acknowledged(gpu));
}

#[test]
fn translations_are_used_until_the_ack() {
    // The time of a completion is chance: seen too late in some of the rounds only.
    let mut used = 0;
    for _ in 0..20 {
        let gpu = mapped(0x20_0000);
        for n in 0..20 {
            let page = 0x30_0000 + n * 0x1000;
            map(&gpu, TABLES[3], page);
            let before = target(&gpu);
            assert_ne!(before, Ok(Target::Vram(page)));
            let req = gc::regVM_INVALIDATE_ENG0_REQ.at(17);
            hub_write(&gpu, HUB, req, everything());
            used += u32::from(target(&gpu) == before);
            until(&gpu, "no ACK", || acknowledged(&gpu));
            assert_eq!(target(&gpu), Ok(Target::Vram(page)));
        }
    }
    assert!(used > 0);
}

#[test]
fn requests_drop_what_they_name() {
    for (omitted, stale) in [
        (gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES, true),
        (gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES, true),
        (gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0, false),
    ] {
        let gpu = mapped(0x20_0000);
        map(&gpu, TABLES[3], 0x30_0000);
        invalidate(&gpu, everything() & !omitted.mask);
        let page = if stale { 0x20_0000 } else { 0x30_0000 };
        assert_eq!(target(&gpu), Ok(Target::Vram(page)));
        invalidate(&gpu, everything());
        assert_eq!(target(&gpu), Ok(Target::Vram(0x30_0000)));
    }
}

#[test]
fn directories_are_cached_until_their_level_is_named() {
    let gpu = mapped(0x20_0000);
    // Another page table; the old one still has the old page.
    map(&gpu, 0x10_4000, 0x30_0000);
    let keep = gc::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.mask;
    invalidate(&gpu, everything() & !keep);
    assert_eq!(target(&gpu), Ok(Target::Vram(0x20_0000)));
    invalidate(&gpu, everything());
    assert_eq!(target(&gpu), Ok(Target::Vram(0x30_0000)));
    // Firmware and a new owner of the VMID drop all.
    map(&gpu, TABLES[3], 0x40_0000);
    gpu.gmc.invalidate(HUB, 1 << VMID);
    assert_eq!(target(&gpu), Ok(Target::Vram(0x40_0000)));
}

/// Stores a word as the host does while there are queues with VMIDs.
fn store_with(gpu: &Gpu, at: u64, word: u64, vmids: u16) {
    gpu.hdp.write(at, &word.to_le_bytes()).unwrap();
    gpu.gmc.check_link(&gpu.hdp, at, word, |_| vmids);
}

fn store(gpu: &Gpu, at: u64, word: u64) {
    store_with(gpu, at, word, 1 << VMID);
}

#[test]
fn tables_are_flushed_before_a_directory_points_to_them() {
    let [_, middle, last, _] = TABLES;
    let (new, below) = (0x10_4000, 0x10_5000);
    let init = |gpu: &Gpu, table| (0..512).for_each(|i| store(gpu, table + i * 8, 1 << 4));
    let link = |gpu: &Gpu, directory, table| store(gpu, directory + 8, table | V);
    let gpu = mapped(0x20_0000);
    init(&gpu, new);
    gpu.hdp.flush();
    link(&gpu, last, new);
    assert_eq!(gpu.strict.unexpected(), 0);
    // Neither by a directory that nothing walks yet, nor as a page.
    let gpu = mapped(0x20_0000);
    init(&gpu, new);
    init(&gpu, below);
    link(&gpu, new, below);
    store(&gpu, TABLES[3] + 8, new | V | RW);
    gpu.hdp.flush();
    link(&gpu, middle, new);
    assert_eq!(gpu.strict.unexpected(), 0);
    // Nor of a process without queues.
    let gpu = mapped(0x20_0000);
    init(&gpu, new);
    store_with(&gpu, last + 8, new | V, !(1 << VMID));
    assert_eq!(gpu.strict.unexpected(), 0);
    for (directory, live) in [(last, true), (middle, true), (0x20_0000, false)] {
        let gpu = mapped(0x20_0000);
        init(&gpu, new);
        link(&gpu, directory, new);
        assert_eq!(gpu.strict.unexpected(), u64::from(live), "{directory:#x}");
    }
    // By a directory that another one points to, which may be in VRAM at any time.
    let gpu = mapped(0x20_0000);
    init(&gpu, new);
    gpu.hdp.flush();
    link(&gpu, middle, new);
    init(&gpu, below);
    link(&gpu, new, below);
    assert_eq!(gpu.strict.unexpected(), 1);
}

#[test]
fn responses_are_late() {
    let gpu = adverse(&ONE_XCC, 2);
    let mp = |reg| addr(Ip::Mp0, reg);
    let mut late = 0;
    for _ in 0..50 {
        gpu.reg_write(mp(mailbox::RESPONSE), 0);
        gpu.reg_write(mp(mailbox::ARGUMENT), 41);
        gpu.reg_write(mp(mailbox::MESSAGE), 1);
        late += u32::from(gpu.reg_read(mp(mailbox::RESPONSE)) == 0);
        until(&gpu, "no response", || {
            gpu.reg_read(mp(mailbox::RESPONSE)) != 0
        });
        assert_eq!(gpu.reg_read(mp(mailbox::ARGUMENT)), 42);
    }
    assert!(late > 25);
    gpu.reg_write(mp(mailbox::RESPONSE), 0);
    gpu.reg_write(mp(mailbox::MESSAGE), 1);
    gpu.reg_write(mp(mailbox::MESSAGE), 1);
    let lines = gpu.strict.lines();
    assert!(
        lines[0].contains("while the last one is not answered"),
        "{lines:?}"
    );
}
