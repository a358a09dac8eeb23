// SPDX-License-Identifier: GPL-2.0 OR MIT

//! GC 12.0: page tables, hubs, IH ring, straps, clock and NBIF.

use std::sync::Arc;

use crate::common::{self, VRAM};
use gpu_model::chips::rx9070::CHIP;
use gpu_model::engines::gmc::{Access, FaultKind, Hub, Rmw, Target, VmFault};
use gpu_model::engines::ih::Entry;
use gpu_model::gpu::{Gpu, Reset};
use gpu_model::knobs::Knobs;
use gpu_model::regs::Ip;
use gpu_regs::{
    df_4_15 as df, gc_12_0_0 as gc, mmhub_4_1_0 as mm, nbif_6_3_1 as nbif, osssys_7_0_0 as oss,
    smuio_14_0_2 as smuio, Reg,
};

const V: u64 = 1;
const S: u64 = 2;
const C: u64 = 4;
const X: u64 = 1 << 4;
const R: u64 = 1 << 5;
const W: u64 = 1 << 6;
const PRT: u64 = 1 << 56;
const P: u64 = 1 << 63;
const VA: u64 = 0x7fab_cdef_5000;
/// Page tables in VRAM, consecutive levels.
const TABLES: u64 = 0x10_0000;

fn gpu() -> Arc<Gpu> {
    common::card(&CHIP, Knobs::default())
}

fn addr(ip: Ip, reg: Reg) -> u32 {
    CHIP.base(ip, 0, reg.seg).unwrap() + reg.off
}

fn write(gpu: &Gpu, ip: Ip, reg: Reg, value: u32) {
    gpu.bar_reg_write(addr(ip, reg), value);
}

fn read(gpu: &Gpu, ip: Ip, reg: Reg) -> u32 {
    gpu.bar_reg_read(addr(ip, reg))
}

fn put(gpu: &Gpu, table: u64, index: u64, entry: u64) {
    let at = table + index * 8;
    gpu.vram.write(at, &entry.to_le_bytes()).unwrap();
}

/// Depth 3, block size 0, all faults reported and redirected, as the driver configures it.
fn enable(gpu: &Gpu, vmid: u32, root: u64) {
    let base = gc::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(2 * vmid);
    write(gpu, Ip::Gc, base, root as u32);
    write(gpu, Ip::Gc, base.at(1), (root >> 32) as u32);
    let range = gc::regGCVM_INVALIDATE_ENG17_ADDR_RANGE_LO32;
    write(gpu, Ip::Gc, range, !0);
    write(gpu, Ip::Gc, range.at(1), 0x1f);
    let end = gc::regGCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.at(2 * vmid);
    write(gpu, Ip::Gc, end, !0);
    write(gpu, Ip::Gc, end.at(1), 0xf);
    let cntl = 1 | 3 << 1 | 0x00ff_fc00;
    write(gpu, Ip::Gc, gc::regGCVM_CONTEXT0_CNTL.at(vmid), cntl);
}

/// Maps the page of `va` by four levels.
fn map(gpu: &Gpu, vmid: u32, va: u64, pte: u64) {
    let index = |low: u32| va >> low & 0x1ff;
    put(gpu, TABLES, index(39), (TABLES + 0x1000) | V);
    put(gpu, TABLES + 0x1000, index(30), (TABLES + 0x2000) | V);
    put(gpu, TABLES + 0x2000, index(21), (TABLES + 0x3000) | V);
    put(gpu, TABLES + 0x3000, index(12), pte);
    enable(gpu, vmid, TABLES | V);
}

fn target(gpu: &Gpu, vmid: u8, va: u64, access: Access) -> Result<Target, FaultKind> {
    let pa = gpu.gmc.translate(Hub::Gfx(0), vmid, va, access);
    pa.map(|pa| pa.target).map_err(|f| f.kind)
}

#[test]
fn four_level_walk() {
    let gpu = gpu();
    map(&gpu, 9, VA, 0x20_0000 | V | R | W | P);
    let at = VA + 0x123;
    assert_eq!(
        target(&gpu, 9, at, Access::Write),
        Ok(Target::Vram(0x20_0123))
    );
    assert_eq!(
        target(&gpu, 9, at, Access::Execute),
        Err(FaultKind::Execute)
    );
    // Initial contents of the C driver's tables: invalid, executable.
    put(&gpu, TABLES + 0x3000, (VA >> 12 & 0x1ff) + 1, X);
    assert_eq!(
        target(&gpu, 9, VA + 0x1000, Access::Read),
        Err(FaultKind::NotPresent)
    );
    assert_eq!(
        target(&gpu, 9, VA ^ 1 << 25, Access::Read),
        Err(FaultKind::Pde(0))
    );
    assert_eq!(
        target(&gpu, 9, VA ^ 1 << 45, Access::Read),
        Err(FaultKind::Pde(2))
    );
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn leaf_at_every_level() {
    let gpu = gpu();
    map(&gpu, 9, VA, 0);
    let huge = 0x80_0000 | V | R | P | 3 << 54;
    put(&gpu, TABLES + 0x2000, VA >> 21 & 0x1ff, huge);
    assert_eq!(
        target(&gpu, 9, VA, Access::Read),
        Ok(Target::Vram(0x80_0000 + (VA & 0x1f_ffff)))
    );
    let system = 0x40_0000_0000 | V | S | C | R | W | P;
    put(&gpu, TABLES + 0x1000, VA >> 30 & 0x1ff, system);
    gpu.gmc.invalidate(Hub::Gfx(0), 1 << 9);
    assert_eq!(
        target(&gpu, 9, VA, Access::Write),
        Ok(Target::System(0x40_0000_0000 + (VA & 0x3fff_ffff)))
    );
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn gfx9_entries_are_reported() {
    // A leaf without the PTE bit.
    let card = gpu();
    map(&card, 9, VA, 0x20_0000 | V | R);
    assert!(target(&card, 9, VA, Access::Read).is_ok());
    assert!(card.strict.lines()[0].contains("without the bit"));
    // The PRT bit of gfx9.
    let card = gpu();
    map(&card, 9, VA, 0x20_0000 | V | R | P | 1 << 51);
    assert!(target(&card, 9, VA, Access::Read).is_ok());
    assert!(card.strict.lines()[0].contains("reserved"));
    // A gfx9 huge page is a directory on gfx12, with a reserved bit set.
    let card = gpu();
    map(&card, 9, VA, 0);
    let entry = 0x80_0000 | V | R | 1 << 54;
    put(&card, TABLES + 0x2000, VA >> 21 & 0x1ff, entry);
    assert_eq!(
        target(&card, 9, VA, Access::Read),
        Err(FaultKind::NotPresent)
    );
    assert!(card.strict.lines()[0].contains("reserved"));
    // Valid, PRT and without permissions: a no-retry fault.
    let card = gpu();
    map(&card, 9, VA, V | S | PRT | P);
    assert_eq!(target(&card, 9, VA, Access::Read), Err(FaultKind::NoRetry));
    assert_eq!(card.strict.lines(), [""; 0]);
}

#[test]
fn atomics_pass_a_data_fabric_that_forwards_them() {
    let gpu = gpu();
    map(&gpu, 3, VA, 0x9000 | V | S | C | R | W | P);
    let add = |rmw| {
        gpu.gmc
            .vm_atomic(Hub::Gfx(0), 3, VA, 8, rmw, &mut |v| v + 1)
    };
    let forward = |kinds: u32| write(&gpu, Ip::Df, df::regNCSConfigurationRegister1, kinds << 3);
    assert_eq!(add(Rmw::ReadWrite), Ok(0));
    forward(1 << 1 | 1 << 2 | 1 << 13);
    assert_eq!(add(Rmw::Request), Ok(1));
    assert_eq!(gpu.strict.unexpected(), 0);
    forward(1 << 1 | 1 << 2);
    assert_eq!(add(Rmw::Request), Ok(2));
    let lines = gpu.strict.lines();
    assert!(
        lines[0].contains("the data fabric processes it"),
        "{lines:?}"
    );
    forward(!0);
    gpu.reset(Reset::Mode1);
    assert_eq!(read(&gpu, Ip::Df, df::regNCSConfigurationRegister1), 0);
}

#[test]
fn invalidation_by_vmid_and_ack() {
    let gpu = gpu();
    map(&gpu, 9, VA, 0x20_0000 | V | R | P);
    let page = |at| Ok(Target::Vram(at));
    assert_eq!(target(&gpu, 9, VA, Access::Read), page(0x20_0000));
    map(&gpu, 9, VA, 0x30_0000 | V | R | P);
    for vmid in [8, 9] {
        let (req, ack) = (
            gc::regGCVM_INVALIDATE_ENG17_REQ,
            gc::regGCVM_INVALIDATE_ENG17_ACK,
        );
        assert_eq!(target(&gpu, 9, VA, Access::Read), page(0x20_0000));
        write(&gpu, Ip::Gc, req, 1 << vmid | 0xf8_0000);
        assert_eq!(read(&gpu, Ip::Gc, ack), 1 << vmid);
    }
    assert_eq!(target(&gpu, 9, VA, Access::Read), page(0x30_0000));
    // A memory hub engine is held until it is released.
    let sem = mm::regMMVM_INVALIDATE_ENG17_SEM;
    assert_eq!(read(&gpu, Ip::Mmhub, sem), 1);
    assert_eq!(read(&gpu, Ip::Mmhub, sem), 0);
    write(&gpu, Ip::Mmhub, sem, 0);
    assert_eq!(read(&gpu, Ip::Mmhub, sem), 1);
    write(&gpu, Ip::Mmhub, mm::regMMVM_INVALIDATE_ENG17_REQ, 1 << 9);
    assert_eq!(gpu.strict.lines(), [""; 0]);
    write(&gpu, Ip::Mmhub, sem, 0);
    write(&gpu, Ip::Mmhub, mm::regMMVM_INVALIDATE_ENG17_REQ, 1 << 9);
    assert_eq!(gpu.strict.unexpected(), 1);
}

#[test]
fn semaphore_of_another_agent_is_released_by_the_driver() {
    let knobs = Knobs::default();
    assert!(knobs.set("gmc.semaphore", 1));
    let gpu = common::card(&CHIP, knobs);
    let sem = mm::regMMVM_INVALIDATE_ENG17_SEM;
    assert_eq!(read(&gpu, Ip::Mmhub, sem), 0);
    write(&gpu, Ip::Mmhub, mm::regMMVM_INVALIDATE_ENG17_REQ, 1 << 9);
    write(&gpu, Ip::Mmhub, sem, 0);
    assert_eq!(read(&gpu, Ip::Mmhub, sem), 1);
    gpu.reset(Reset::Flr);
    assert_eq!(read(&gpu, Ip::Mmhub, sem), 0);
    assert_eq!(gpu.knobs.hits("gmc.semaphore"), Some(2));
    assert_eq!(gpu.strict.unexpected(), 0);
}

#[test]
fn adversary_drops_what_the_fields_of_gfx12_name() {
    use gc::*;
    let gpu = common::adverse(&CHIP, 3);
    let request = |value| {
        write(&gpu, Ip::Gc, regGCVM_INVALIDATE_ENG17_REQ, 1 << 9 | value);
        common::until(&gpu, "no ACK", || {
            read(&gpu, Ip::Gc, regGCVM_INVALIDATE_ENG17_ACK) == 1 << 9
        });
    };
    let l1 = GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES.put(1);
    let l2 = GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES.put(1);
    let last = GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.put(1);
    let page = |at| Ok(Target::Vram(at));
    map(&gpu, 9, VA, 0x20_0000 | V | R | P);
    assert_eq!(target(&gpu, 9, VA, Access::Read), page(0x20_0000));
    map(&gpu, 9, VA, 0x30_0000 | V | R | P);
    for (value, at) in [(l1, 0x20_0000), (l2, 0x20_0000), (l1 | l2, 0x30_0000)] {
        request(value);
        assert_eq!(target(&gpu, 9, VA, Access::Read), page(at));
    }
    // Another page table.
    put(
        &gpu,
        TABLES + 0x2000,
        VA >> 21 & 0x1ff,
        (TABLES + 0x4000) | V,
    );
    put(
        &gpu,
        TABLES + 0x4000,
        VA >> 12 & 0x1ff,
        0x40_0000 | V | R | P,
    );
    for (value, at) in [(l1 | l2, 0x30_0000), (l1 | l2 | last, 0x40_0000)] {
        request(value);
        assert_eq!(target(&gpu, 9, VA, Access::Read), page(at));
    }
}

#[test]
fn power_on_values_give_vram_location() {
    let gpu = gpu();
    for (ip, base, top) in [
        (
            Ip::Gc,
            gc::regGCMC_VM_FB_LOCATION_BASE,
            gc::regGCMC_VM_FB_LOCATION_TOP,
        ),
        (
            Ip::Mmhub,
            mm::regMMMC_VM_FB_LOCATION_BASE,
            mm::regMMMC_VM_FB_LOCATION_TOP,
        ),
    ] {
        assert_eq!(read(&gpu, ip, base), CHIP.fb_location);
        assert_eq!(
            read(&gpu, ip, top),
            CHIP.fb_location + (VRAM >> 24) as u32 - 1
        );
    }
    assert_eq!(read(&gpu, Ip::Gc, gc::regGCVM_L2_CNTL3), 0x8012_0007);
    assert_eq!(read(&gpu, Ip::Mmhub, mm::regMMVM_L2_CNTL3), 0x8010_0007);
    let booted = read(&gpu, Ip::Gc, gc::regRLC_RLCS_BOOTLOAD_STATUS);
    assert!(gc::RLC_RLCS_BOOTLOAD_STATUS__BOOTLOAD_COMPLETE.is_set(booted));
}

const RING: u64 = 0x10_0000;
const SHADOW: u64 = 0x20_0000;
const DOORBELL: u32 = 0x178 * 2;

/// A ring of 256 KiB at a bus address, as configured by the driver.
fn interrupt_ring(gpu: &Gpu) {
    let set = |reg, value| write(gpu, Ip::Osssys, reg, value);
    set(oss::regIH_RB_BASE, (RING >> 8) as u32);
    set(oss::regIH_RB_BASE_HI, (RING >> 40) as u32);
    set(oss::regIH_RB_WPTR_ADDR_LO, SHADOW as u32);
    set(oss::regIH_RB_WPTR_ADDR_HI, (SHADOW >> 32) as u32);
    set(oss::regIH_DOORBELL_RPTR, DOORBELL | 1 << 28);
    let enable = nbif::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN;
    write(gpu, Ip::Nbif, enable, 1);
    // A range of two dwords.
    let port = 1 | DOORBELL << 7 | 2 << 17;
    write(
        gpu,
        Ip::Nbif,
        nbif::regGDC_S2A0_S2A_DOORBELL_ENTRY_1_CTRL,
        port,
    );
    let flags = 1 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21;
    set(oss::regIH_RB_CNTL, flags | 16 << 1 | 2 << 28);
}

fn word(gpu: &Gpu, entry: u64, word: u64) -> u32 {
    gpu.dma.load32(RING + entry * 32 + word * 4).unwrap()
}

#[test]
fn interrupts_carry_pasid_of_vmid() {
    let gpu = gpu();
    interrupt_ring(&gpu);
    gpu.map_vmid(0, 8, 0x1234, 0);
    let lut = read(&gpu, Ip::Osssys, oss::regIH_VMID_0_LUT.at(8));
    assert_eq!(lut, 0x1234);
    gpu.ih.post(Entry {
        client_id: 0x0a,
        source_id: 49,
        vmid: 8,
        ctx: [7, 0, 0, 0],
        ..Entry::default()
    });
    assert_eq!(word(&gpu, 0, 0), 8 << 24 | 49 << 8 | 0x0a);
    assert_eq!(word(&gpu, 0, 3), 0x1234);
    assert_eq!(word(&gpu, 0, 4), 7);
    assert_eq!(gpu.dma.load32(SHADOW), Ok(32));
    assert_eq!(read(&gpu, Ip::Osssys, oss::regIH_RB_WPTR), 32);
    gpu.doorbell(u64::from(DOORBELL) * 4, 32, 4);
    assert_eq!(read(&gpu, Ip::Osssys, oss::regIH_RB_RPTR), 32);
    assert_eq!(gpu.strict.lines(), [""; 0]);
    // Without a range.
    let port = nbif::regGDC_S2A0_S2A_DOORBELL_ENTRY_1_CTRL;
    write(&gpu, Ip::Nbif, port, 1 | DOORBELL << 7);
    gpu.doorbell(u64::from(DOORBELL) * 4, 0, 4);
    assert_eq!(read(&gpu, Ip::Osssys, oss::regIH_RB_RPTR), 32);
    assert!(gpu.strict.lines()[0].contains("not routed to the interrupt handler"));
    // A bus address in the gfx9 form.
    let cntl = read(&gpu, Ip::Osssys, oss::regIH_RB_CNTL);
    let cntl = cntl & !(7 << 28) | 1 << 28;
    write(&gpu, Ip::Osssys, oss::regIH_RB_CNTL, cntl);
    gpu.ih.post(Entry::default());
    assert!(gpu.strict.lines()[1].contains("MC_SPACE 1"));
}

#[test]
fn fault_client_is_that_of_the_hub() {
    let gpu = gpu();
    interrupt_ring(&gpu);
    gpu.map_vmid(0, 9, 0x77, TABLES | V);
    enable(&gpu, 9, TABLES | V);
    let fault = |hub| VmFault {
        hub,
        vmid: 9,
        va: VA,
        access: Access::Write,
        kind: FaultKind::NotPresent,
        retry: false,
    };
    assert!(gpu.raise_fault(&fault(Hub::Gfx(0)), 8), "default page");
    assert_eq!(word(&gpu, 0, 0) & 0xffff, 0x0a, "GFX, source 0");
    assert_eq!(word(&gpu, 0, 0) >> 31, 0);
    assert_eq!(word(&gpu, 0, 3), 0x77);
    assert_eq!(word(&gpu, 0, 4), (VA >> 12) as u32);
    assert_eq!(word(&gpu, 0, 5), (VA >> 44) as u32 | 1 << 5);
    // The first read comes too early.
    let status = || read(&gpu, Ip::Gc, gc::regGCVM_L2_PROTECTION_FAULT_STATUS_LO32);
    assert_eq!(status(), 0);
    let status = status();
    assert_eq!(
        gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__VMID.get(status),
        9
    );
    assert_eq!(gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__CID.get(status), 8);
    assert_eq!(gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__RW.get(status), 1);
    let at = read(&gpu, Ip::Gc, gc::regGCVM_L2_PROTECTION_FAULT_ADDR_LO32);
    assert_eq!(at, (VA >> 12) as u32);
    write(&gpu, Ip::Gc, gc::regGCVM_L2_PROTECTION_FAULT_CNTL, 1);
    let late = read(&gpu, Ip::Gc, gc::regGCVM_L2_PROTECTION_FAULT_STATUS_LO32);
    assert_eq!(late, status);
    let status = read(&gpu, Ip::Gc, gc::regGCVM_L2_PROTECTION_FAULT_STATUS_LO32);
    assert_eq!(status, 0);
    // Memory hub: only the status is reported without the enables, which are set at reset.
    let cntl = mm::regMMVM_CONTEXT0_CNTL.at(9);
    let reset = read(&gpu, Ip::Mmhub, cntl);
    assert_eq!(reset, 0x03ff_fc00);
    write(&gpu, Ip::Mmhub, cntl, 0);
    assert!(!gpu.raise_fault(&fault(Hub::Mm(0)), 15));
    write(&gpu, Ip::Mmhub, cntl, 1 | 3 << 1 | reset);
    gpu.raise_fault(&fault(Hub::Mm(0)), 15);
    assert_eq!(word(&gpu, 1, 0) & 0xffff, 0x12, "VMC, source 0");
    assert_eq!(word(&gpu, 1, 0) >> 31, 1);
    assert_eq!(word(&gpu, 1, 3), 0x77);
}

#[test]
fn straps_count_wgps() {
    let gpu = gpu();
    let mut cus = 0;
    for se in 0..4 {
        for sa in 0..2 {
            let index = se << 16 | sa << 8 | 1 << 30;
            write(&gpu, Ip::Gc, gc::regGRBM_GFX_INDEX, index);
            let inactive = read(&gpu, Ip::Gc, gc::regCC_GC_SHADER_ARRAY_CONFIG)
                | read(&gpu, Ip::Gc, gc::regGC_USER_SHADER_ARRAY_CONFIG);
            let inactive = gc::CC_GC_SHADER_ARRAY_CONFIG__INACTIVE_WGPS.get(inactive);
            cus += 2 * (!inactive & 0xf).count_ones();
        }
    }
    write(&gpu, Ip::Gc, gc::regGRBM_GFX_INDEX, 0xe000_0000);
    assert_eq!(cus, 56);
    assert_eq!(gpu.strict.lines(), [""; 0]);
    write(&gpu, Ip::Gc, gc::regGRBM_GFX_INDEX, 4 << 16);
    read(&gpu, Ip::Gc, gc::regCC_GC_SHADER_ARRAY_CONFIG);
    assert!(gpu.strict.lines()[0].contains("no such array"));
}

#[test]
fn sh_mem_banked_by_vmid_and_clock_runs() {
    let gpu = gpu();
    for vmid in 0..16 {
        write(&gpu, Ip::Gc, gc::regGRBM_GFX_CNTL, vmid << 4);
        write(&gpu, Ip::Gc, gc::regSH_MEM_BASES, 0x100 + vmid);
    }
    write(&gpu, Ip::Gc, gc::regGRBM_GFX_CNTL, 5 << 4);
    assert_eq!(read(&gpu, Ip::Gc, gc::regSH_MEM_BASES), 0x105);
    assert_eq!(gpu.xccs[0].gc.vmid_reg(7, gc::regSH_MEM_BASES), 0x107);
    write(&gpu, Ip::Gc, gc::regGRBM_GFX_CNTL, 3 << 2 | 1);
    let selector = gpu.xccs[0].gc.selector();
    assert_eq!((selector.me, selector.pipe, selector.queue), (3, 1, 0));
    let clock = || read(&gpu, Ip::Smuio, smuio::regGOLDEN_TSC_COUNT_LOWER);
    let before = clock();
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(clock().wrapping_sub(before) >= 200_000, "100 MHz");
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn nbif_access_paths() {
    let gpu = gpu();
    // Registers beyond the BAR are behind the index/data pair of the RSMU.
    let far = addr(Ip::Nbif, nbif::regRCC_DEV0_EPF2_STRAP2);
    assert!(u64::from(far) * 4 > CHIP.register_bar);
    let mask = gpu.regs.get(far).unwrap().mask;
    let (index, data) = (0x14, 0x15);
    gpu.bar_reg_write(index, far * 4);
    gpu.bar_reg_write(data, index & mask);
    assert_eq!(gpu.bar_reg_read(data), index & mask);
    // The page that user space can map is the last one of the BAR.
    let page = 0x7_f000;
    let set = |reg, value| write(&gpu, Ip::Nbif, reg, value);
    set(nbif::regBIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL, page);
    set(nbif::regBIF_BX0_REMAP_HDP_REG_FLUSH_CNTL, page + 4);
    for byte in [0, 4, 8, 0xffc] {
        gpu.bar_reg_write((page + byte) / 4, 0);
        assert_eq!(gpu.bar_reg_read((page + byte) / 4), 0);
    }
    set(nbif::regBIF_BX_PF0_GPU_HDP_FLUSH_REQ, 1);
    assert_eq!(
        read(&gpu, Ip::Nbif, nbif::regBIF_BX_PF0_GPU_HDP_FLUSH_DONE) & 1,
        1
    );
    assert_eq!(gpu.strict.lines(), [""; 0]);
    // IH doorbells are ignored while the ring's doorbell is disabled.
    set(nbif::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, 1);
    gpu.doorbell(u64::from(DOORBELL) * 4, 0, 4);
    assert!(gpu.strict.lines()[0].contains("outside the command processor's part"));
    // The pair of NBIO 7.9 works, and is reported.
    gpu.bar_reg_write(0x0e, far * 4);
    assert_eq!(gpu.bar_reg_read(0x0f), index & mask);
    assert!(gpu.strict.lines()[1].contains("behind RSMU_INDEX"));
}
