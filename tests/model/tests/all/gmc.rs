// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Page-table walker on hand-built tables, both gfx9 layouts, and the TLB.

use std::time::{Duration, Instant};

use crate::common::{
    addr, adverse, enable_context, gpu, hub_read, hub_write, open_aperture, FB, VRAM,
};
use gpu_model::chips::mi300x::ONE_XCC;
use gpu_model::engines::gmc::{Access, FaultKind, Hub, Rmw, Target, VmFault};
use gpu_model::gpu::Gpu;
use gpu_model::regs::Ip;
use gpu_regs::gc_9_4_3 as gc;
use gpu_wave::Scope;

const V: u64 = 1;
const S: u64 = 2;
const C: u64 = 4;
const X: u64 = 1 << 4;
const R: u64 = 1 << 5;
const W: u64 = 1 << 6;
const PRT: u64 = 1 << 51;
const P: u64 = 1 << 54;
const TF: u64 = 1 << 56;
const BFS9: u64 = 9 << 59;

fn put(gpu: &Gpu, table: u64, index: u64, entry: u64) {
    gpu.vram
        .write(table + index * 8, &entry.to_le_bytes())
        .unwrap();
}

/// Page tables in VRAM for the 4 KiB page at `va`.
struct Tables {
    pdb2: u64,
    pdb1: u64,
    pdb0: u64,
    ptb: u64,
}

const T: Tables = Tables {
    pdb2: 0x10_0000,
    pdb1: 0x10_1000,
    pdb0: 0x10_2000,
    ptb: 0x10_3000,
};

fn bits(va: u64, low: u32) -> u64 {
    va >> low & 0x1ff
}

/// Four levels: depth 3, block size 0.
fn plain(gpu: &Gpu, vmid: u32, va: u64, pte: u64) {
    put(gpu, T.pdb2, bits(va, 39), T.pdb1 | V);
    put(gpu, T.pdb1, bits(va, 30), T.pdb0 | V);
    put(gpu, T.pdb0, bits(va, 21), T.ptb | V);
    put(gpu, T.ptb, bits(va, 12), pte);
    enable_context(gpu, Hub::Gfx(0), vmid, 3, 0, T.pdb2 | V);
}

/// Translate-further layout: depth 2, block size 9.
fn further(gpu: &Gpu, vmid: u32, va: u64, pte: u64) {
    put(gpu, T.pdb2, bits(va, 39), T.pdb1 | V);
    put(gpu, T.pdb1, bits(va, 30), T.pdb0 | V | BFS9);
    put(gpu, T.pdb0, bits(va, 21), T.ptb | V | TF);
    put(gpu, T.ptb, bits(va, 12), pte);
    enable_context(gpu, Hub::Gfx(0), vmid, 2, 9, T.pdb2 | V);
}

fn target(gpu: &Gpu, vmid: u8, va: u64, access: Access) -> Result<Target, FaultKind> {
    gpu.gmc
        .translate(Hub::Gfx(0), vmid, va, access)
        .map(|pa| pa.target)
        .map_err(|f| f.kind)
}

const VA: u64 = 0x7fab_cdef_5000;

#[test]
fn both_layouts_translate_with_permissions() {
    for build in [plain, further] {
        let gpu = gpu();
        build(&gpu, 5, VA, 0x20_0000 | V | R | W);
        let at = VA + 0x123;
        assert_eq!(
            target(&gpu, 5, at, Access::Read),
            Ok(Target::Vram(0x20_0123))
        );
        assert_eq!(
            target(&gpu, 5, at, Access::Write),
            Ok(Target::Vram(0x20_0123))
        );
        assert_eq!(
            target(&gpu, 5, at, Access::Execute),
            Err(FaultKind::Execute)
        );
        assert_eq!(
            target(&gpu, 5, VA + 0x1000, Access::Read),
            Err(FaultKind::NotPresent)
        );
        assert_eq!(
            target(&gpu, 6, VA, Access::Read),
            Err(FaultKind::ContextDisabled)
        );
        let pa = gpu.gmc.translate(Hub::Gfx(0), 5, at, Access::Read).unwrap();
        assert_eq!(pa.left, 0x1000 - 0x123);
        assert_eq!(gpu.strict.lines(), [""; 0]);
    }
}

/// Canonical addresses have the upper bits of bit 47.
#[test]
fn upper_half_of_the_address_space() {
    let gpu = gpu();
    let va = 0xffff_ffc0_0000;
    plain(&gpu, 5, va, 0x20_0000 | V | R | W);
    let sign = 0xffff << 48;
    assert_eq!(
        target(&gpu, 5, sign | va, Access::Read),
        target(&gpu, 5, va, Access::Read)
    );
    assert!(target(&gpu, 5, sign | va, Access::Read).is_ok());
    let wrong = target(&gpu, 5, 1 << 48 | va, Access::Read);
    assert_eq!(wrong, Err(FaultKind::Range));
}

#[test]
fn fault_reports_level_of_missing_directory() {
    let gpu = gpu();
    plain(&gpu, 3, VA, V | R);
    assert_eq!(
        target(&gpu, 3, VA ^ 1 << 45, Access::Read),
        Err(FaultKind::Pde(2))
    );
    assert_eq!(
        target(&gpu, 3, VA ^ 1 << 35, Access::Read),
        Err(FaultKind::Pde(1))
    );
    assert_eq!(
        target(&gpu, 3, VA ^ 1 << 25, Access::Read),
        Err(FaultKind::Pde(0))
    );
    assert_eq!(
        target(&gpu, 3, 1 << 48, Access::Read),
        Err(FaultKind::Range)
    );
    hub_write(
        &gpu,
        Hub::Gfx(0),
        gc::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.at(6),
        0,
    );
    assert_eq!(target(&gpu, 3, VA, Access::Read), Err(FaultKind::Pde(2)));
}

#[test]
fn huge_pages_of_both_layouts() {
    // 2 MiB by PDE_PTE of a PDB0 entry.
    let card = gpu();
    plain(&card, 3, VA, 0);
    put(&card, T.pdb0, bits(VA, 21), 0x80_0000 | V | R | P);
    let low = VA & 0x1f_ffff;
    assert_eq!(
        target(&card, 3, VA, Access::Read),
        Ok(Target::Vram(0x80_0000 + low))
    );
    // 2 MiB as an entry of a translate-further block, without PDE_PTE.
    let card = gpu();
    further(&card, 3, VA, 0);
    put(&card, T.pdb0, bits(VA, 21), 0x80_0000 | V | R);
    assert_eq!(
        target(&card, 3, VA, Access::Read),
        Ok(Target::Vram(0x80_0000 + low))
    );
    // 1 GiB of system memory by PDE_PTE.
    put(
        &card,
        T.pdb1,
        bits(VA, 30),
        0x40_0000_0000 | V | S | C | R | W | P,
    );
    card.gmc.invalidate(Hub::Gfx(0), 1 << 3);
    let low = VA & 0x3fff_ffff;
    assert_eq!(
        target(&card, 3, VA, Access::Write),
        Ok(Target::System(0x40_0000_0000 + low))
    );
    // Any target address is valid.
    put(&card, T.pdb1, bits(VA, 30), 0x40_0020_1000 | V | S | R | P);
    card.gmc.invalidate(Hub::Gfx(0), 1 << 3);
    assert_eq!(
        target(&card, 3, VA, Access::Read),
        Ok(Target::System(0x40_0020_1000 + low))
    );
    assert_eq!(card.strict.lines(), [""; 0]);
    let card = gpu();
    further(&card, 3, VA, 0);
    put(&card, T.pdb0, bits(VA, 21), 0x7f_a000 | V | R);
    assert_eq!(
        target(&card, 3, VA, Access::Read),
        Ok(Target::Vram(0x7f_a000 + (VA & 0x1f_ffff)))
    );
    assert_eq!(card.strict.lines(), [""; 0]);
}

#[test]
fn fragments_must_be_consistent() {
    let gpu = gpu();
    let va = 0x7000_0000;
    further(&gpu, 3, va, 0);
    for i in 0..16 {
        put(&gpu, T.ptb, i, 0x20_0000 + (i << 12) | V | R | W | 4 << 7);
    }
    for i in 0..16 {
        assert!(target(&gpu, 3, va + (i << 12), Access::Read).is_ok());
    }
    // A smaller fragment of the same memory.
    put(&gpu, T.ptb, 15, 0x20_f000 | V | R | W | 2 << 7);
    gpu.gmc.invalidate(Hub::Gfx(0), 1 << 3);
    assert!(target(&gpu, 3, va, Access::Read).is_ok());
    assert_eq!(gpu.strict.lines(), [""; 0]);
    put(&gpu, T.ptb, 15, 0x50_0000 | V | R | W | 4 << 7);
    gpu.gmc.invalidate(Hub::Gfx(0), 1 << 3);
    assert!(target(&gpu, 3, va, Access::Read).is_ok());
    access_for_a_while(&gpu, va);
    assert!(gpu.strict.lines()[0].contains("claims a fragment"));
}

#[test]
fn fragments_must_be_consistent_inside() {
    let gpu = gpu();
    let va = 0x7000_0000;
    further(&gpu, 3, va, 0);
    for i in 0..16 {
        let to = if i == 6 { 0x50_0000 } else { 0x20_0000 };
        put(&gpu, T.ptb, i, to + (i << 12) | V | R | W | 4 << 7);
    }
    let neighbour = va + (4 << 12);
    assert!(target(&gpu, 3, neighbour, Access::Read).is_ok());
    access_for_a_while(&gpu, neighbour);
    assert!(gpu.strict.lines()[0].contains("entry 0x6 of its table"));
}

/// Lets the hub check PTEs again that were inconsistent.
fn access_for_a_while(gpu: &Gpu, va: u64) {
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(60));
        assert!(target(gpu, 3, va, Access::Read).is_ok());
    }
}

#[test]
fn fragments_may_be_inconsistent_during_an_update() {
    let gpu = gpu();
    let va = 0x7000_0000;
    further(&gpu, 3, va, 0);
    let pte = |i: u64| 0x20_0000 + (i << 12) | V | R | W | 4 << 7;
    for i in 0..15 {
        put(&gpu, T.ptb, i, pte(i));
    }
    put(&gpu, T.ptb, 15, 0x50_0000 | V | R | W | 4 << 7);
    // A walk does not delay the flush that makes the group consistent.
    let start = Instant::now();
    assert!(target(&gpu, 3, va, Access::Read).is_ok());
    gpu.gmc.invalidate(Hub::Gfx(0), 1 << 3);
    assert!(start.elapsed() < Duration::from_millis(15));
    put(&gpu, T.ptb, 15, pte(15));
    access_for_a_while(&gpu, va);
    assert_eq!(gpu.strict.lines(), [""; 0]);
}

#[test]
fn an_adversary_caches_fragments() {
    let gpu = adverse(&ONE_XCC, 1);
    let va = 0x7000_0000;
    further(&gpu, 3, va, 0);
    for i in 0..16 {
        put(&gpu, T.ptb, i, 0x20_0000 + (i << 12) | V | R | W | 4 << 7);
    }
    let page = |i: u64| target(&gpu, 3, va + (i << 12), Access::Read);
    assert_eq!(page(3), Ok(Target::Vram(0x20_3000)));
    put(&gpu, T.ptb, 4, 0);
    assert_eq!(page(4), Ok(Target::Vram(0x20_4000)));
    gpu.gmc.invalidate(Hub::Gfx(0), 1 << 3);
    assert!(page(4).is_err());
    // By the PTE of another page of the group.
    assert_eq!(page(5), Ok(Target::Vram(0x20_5000)));
    assert_eq!(page(4), Ok(Target::Vram(0x20_4000)));
}

#[test]
fn page_tables_in_guest_memory() {
    let gpu = gpu();
    plain(&gpu, 4, VA, 0);
    let system_table = 0x5000;
    put(&gpu, T.pdb0, bits(VA, 21), system_table | V | S | C);
    let pte: u64 = 0x9000 | V | S | C | R | W | X;
    gpu.dma
        .write(system_table + 8 * bits(VA, 12), &pte.to_le_bytes())
        .unwrap();
    gpu.gmc
        .write64(Hub::Gfx(0), 4, VA + 8, 0x1122_3344_5566_7788)
        .unwrap();
    assert_eq!(gpu.dma.load64(0x9008), Ok(0x1122_3344_5566_7788));
    let mut code = [0; 4];
    let (space, access) = ((0, 4), Access::Execute);
    gpu.gmc
        .shader_load(space, VA + 8, &mut code, access, (Scope::Wave, None))
        .unwrap();
    assert_eq!(code, [0x88, 0x77, 0x66, 0x55]);
}

#[test]
fn no_retry_ptes_and_reserved_bits() {
    let card = gpu();
    plain(&card, 3, VA, V | S | PRT);
    assert_eq!(target(&card, 3, VA, Access::Read), Err(FaultKind::NoRetry));
    assert_eq!(card.strict.lines(), [""; 0]);
    plain(&card, 3, VA, V | R | 1 << 49);
    assert!(target(&card, 3, VA, Access::Read).is_ok());
    assert!(card.strict.lines()[0].contains("reserved"));
    let card = gpu();
    plain(&card, 3, VA, V | R | 1 << 40);
    assert_eq!(target(&card, 3, VA, Access::Read), Err(FaultKind::Bus));
    assert!(card.strict.lines()[0].contains("outside VRAM"));
}

#[test]
fn tlb_keeps_translations_until_invalidated() {
    let gpu = gpu();
    further(&gpu, 7, VA, 0x20_0000 | V | R);
    assert_eq!(
        target(&gpu, 7, VA, Access::Read),
        Ok(Target::Vram(0x20_0000))
    );
    put(&gpu, T.ptb, bits(VA, 12), 0x30_0000 | V | R);
    // No invalidation: the old translation.
    assert_eq!(
        target(&gpu, 7, VA, Access::Read),
        Ok(Target::Vram(0x20_0000))
    );
    // Invalidation of another VMID or hub: still the old translation.
    hub_write(&gpu, Hub::Gfx(0), gc::regVM_INVALIDATE_ENG17_REQ, 1 << 6);
    hub_write(&gpu, Hub::Mm(0), gc::regVM_INVALIDATE_ENG17_REQ, 1 << 7);
    assert_eq!(
        target(&gpu, 7, VA, Access::Read),
        Ok(Target::Vram(0x20_0000))
    );
    assert_eq!(
        hub_read(&gpu, Hub::Gfx(0), gc::regVM_INVALIDATE_ENG17_ACK),
        1 << 6
    );
    // Engines 2 and 3 belong to the firmware.
    for engine in (0..18).filter(|engine| !(2..4).contains(engine)) {
        put(
            &gpu,
            T.ptb,
            bits(VA, 12),
            (0x40_0000 + (engine << 12)) | V | R,
        );
        hub_write(
            &gpu,
            Hub::Gfx(0),
            gc::regVM_INVALIDATE_ENG0_REQ.at(engine as u32),
            1 << 7,
        );
        assert_eq!(
            hub_read(
                &gpu,
                Hub::Gfx(0),
                gc::regVM_INVALIDATE_ENG0_ACK.at(engine as u32)
            ),
            1 << 7
        );
        assert_eq!(
            hub_read(
                &gpu,
                Hub::Gfx(0),
                gc::regVM_INVALIDATE_ENG0_SEM.at(engine as u32)
            ),
            1
        );
        assert_eq!(
            target(&gpu, 7, VA, Access::Read),
            Ok(Target::Vram(0x40_0000 + (engine << 12)))
        );
    }
    // A new PASID for the VMID flushes its translations as well.
    put(&gpu, T.ptb, bits(VA, 12), 0x70_0000 | V | R);
    gpu.map_vmid(0, 7, 0x8001, T.pdb2 | V);
    assert_eq!(
        target(&gpu, 7, VA, Access::Read),
        Ok(Target::Vram(0x70_0000))
    );
    assert_eq!(gpu.gmc.root(Hub::Mm(0), 7), T.pdb2 | V);
}

#[test]
fn vmid0_system_aperture_and_flat_gart() {
    let gpu = gpu();
    assert_eq!(
        target(&gpu, 0, FB, Access::Read),
        Err(FaultKind::ContextDisabled)
    );
    assert!(gpu.strict.lines()[0].contains("L1 TLB"));
    open_aperture(&gpu);
    assert_eq!(
        target(&gpu, 0, FB + 0x1234, Access::Write),
        Ok(Target::Vram(0x1234))
    );
    // GART: 16 pages at 4 GiB, page table in VRAM.
    let gart = 0x1_0000_0000u64;
    enable_context(&gpu, Hub::Gfx(0), 0, 0, 0, T.ptb | V);
    let start = gc::regVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32;
    hub_write(&gpu, Hub::Gfx(0), start, (gart >> 12) as u32);
    let end = gc::regVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32;
    hub_write(&gpu, Hub::Gfx(0), end, (gart >> 12) as u32 + 15);
    hub_write(&gpu, Hub::Gfx(0), end.at(1), 0);
    put(&gpu, T.ptb, 3, 0x8000 | V | S | C | R | W | X | 3 << 57);
    assert_eq!(
        target(&gpu, 0, gart + 0x3010, Access::Read),
        Ok(Target::System(0x8010))
    );
    assert_eq!(
        target(&gpu, 0, gart + 0x4000, Access::Read),
        Err(FaultKind::NotPresent)
    );
    assert_eq!(
        target(&gpu, 0, gart + 0x1_0000, Access::Read),
        Err(FaultKind::Range)
    );
    assert_eq!(
        target(&gpu, 0, gart - 1, Access::Read),
        Err(FaultKind::Range)
    );
    assert_eq!(gpu.strict.lines().len(), 1);
}

#[test]
fn region_of_the_boot_firmware_is_not_accessible() {
    let gpu = gpu();
    let (va, firmware) = (0x1234_5000, VRAM - VRAM / 8);
    plain(&gpu, 3, va, (firmware - 0x1000) | V | R | W);
    assert!(target(&gpu, 3, va, Access::Write).is_ok());
    assert_eq!(gpu.strict.unexpected(), 0);
    plain(&gpu, 4, va, firmware | V | R | W);
    assert_eq!(target(&gpu, 4, va, Access::Read), Err(FaultKind::Bus));
    assert_eq!(gpu.strict.unexpected(), 1);
    // By the driver, through the system aperture.
    open_aperture(&gpu);
    let at = FB + firmware;
    assert!(gpu.gmc.write32(Hub::Mm(0), 0, at - 4, 1).is_ok());
    assert!(gpu.gmc.write32(Hub::Mm(0), 0, at, 1).is_err());
    assert_eq!(gpu.strict.unexpected(), 2);
}

#[test]
fn page_crossing_access_and_atomics() {
    let gpu = gpu();
    plain(&gpu, 3, VA, 0x20_0000 | V | R | W);
    put(&gpu, T.ptb, bits(VA, 12) + 1, 0x9000 | V | S | C | R | W);
    gpu.gmc
        .vm_write(Hub::Gfx(0), 3, VA + 0xffe, &[1, 2, 3, 4])
        .unwrap();
    let mut buf = [0; 4];
    gpu.vram.read(0x20_0ffe, &mut buf[..2]).unwrap();
    gpu.dma.read(0x9000, &mut buf[2..]).unwrap();
    assert_eq!(buf, [1, 2, 3, 4]);
    gpu.gmc
        .vm_read(Hub::Gfx(0), 3, VA + 0xffe, &mut buf)
        .unwrap();
    assert_eq!(buf, [1, 2, 3, 4]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let add = &mut |v: u64| v + 1;
                    gpu.gmc
                        .vm_atomic(Hub::Gfx(0), 3, VA + 0x40, 8, Rmw::Request, add)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(gpu.gmc.read64(Hub::Gfx(0), 3, VA + 0x40), Ok(4000));
    let misaligned = gpu
        .gmc
        .vm_atomic(Hub::Gfx(0), 3, VA + 0x44, 8, Rmw::Request, &mut |v| v);
    assert_eq!(misaligned.map_err(|f| f.kind), Err(FaultKind::Misaligned));
    put(&gpu, T.ptb, bits(VA, 12) + 2, 0xf000_0000 | V | S | R);
    assert_eq!(
        gpu.gmc
            .read32(Hub::Gfx(0), 3, VA + 0x2000)
            .map_err(|f| f.kind),
        Err(FaultKind::Bus)
    );
}

#[test]
fn atomic_without_requester_enable_has_no_effect() {
    let gpu = gpu();
    plain(&gpu, 3, VA, 0x20_0000 | V | R | W);
    put(&gpu, T.ptb, bits(VA, 12) + 1, 0x9000 | V | S | C | R | W);
    gpu.dma.set_atomics(false);
    let (vram, system) = (VA, VA + 0x1000);
    let add = &mut |v: u64| v + 1;
    for at in [vram, system] {
        gpu.gmc.write64(Hub::Gfx(0), 3, at, 7).unwrap();
    }
    assert_eq!(
        gpu.gmc
            .vm_atomic(Hub::Gfx(0), 3, vram, 8, Rmw::Request, add),
        Ok(7)
    );
    assert_eq!(
        gpu.gmc
            .vm_atomic(Hub::Gfx(0), 3, system, 8, Rmw::ReadWrite, add),
        Ok(7)
    );
    assert_eq!(gpu.strict.unexpected(), 0);
    assert_eq!(
        gpu.gmc
            .vm_atomic(Hub::Gfx(0), 3, system, 8, Rmw::Request, add),
        Ok(0)
    );
    assert_eq!(gpu.gmc.read64(Hub::Gfx(0), 3, system), Ok(8));
    let lines = gpu.strict.lines();
    assert!(lines[0].contains("requests are not enabled"), "{lines:?}");
    gpu.dma.set_atomics(true);
    assert_eq!(
        gpu.gmc
            .vm_atomic(Hub::Gfx(0), 3, system, 8, Rmw::Request, add),
        Ok(8)
    );
    assert_eq!(gpu.strict.unexpected(), 1);
}

/// A context with RETRY_PERMISSION_OR_INVALID_PAGE_FAULT requests to repeat what a page table may
/// grant later.
#[test]
fn contexts_request_to_retry() {
    let gpu = gpu();
    let fault = |va, access| {
        let fault = gpu.gmc.translate(Hub::Gfx(0), 3, va, access).unwrap_err();
        (fault.kind, fault.retry)
    };
    plain(&gpu, 3, VA, V | R);
    assert_eq!(fault(VA, Access::Write), (FaultKind::Write, false));
    let cntl = gc::regVM_CONTEXT0_CNTL.at(3);
    let value = hub_read(&gpu, Hub::Gfx(0), cntl);
    hub_write(&gpu, Hub::Gfx(0), cntl, value | 1 << 7);
    assert_eq!(fault(VA, Access::Write), (FaultKind::Write, true));
    assert_eq!(
        fault(VA + 0x1000, Access::Read),
        (FaultKind::NotPresent, true)
    );
    // Nothing is cached: a PTE that becomes valid is used without a TLB flush.
    put(&gpu, T.ptb, bits(VA, 12) + 1, V | R);
    assert!(target(&gpu, 3, VA + 0x1000, Access::Read).is_ok());
    put(&gpu, T.ptb, bits(VA, 12) + 2, V | S | PRT);
    assert_eq!(
        fault(VA + 0x2000, Access::Read),
        (FaultKind::NoRetry, false)
    );
}

#[test]
fn fault_status_latches_first_fault() {
    let gpu = gpu();
    plain(&gpu, 9, VA, V | R);
    let fault = gpu.gmc.write32(Hub::Gfx(0), 9, VA, 1).unwrap_err();
    assert_eq!(
        (fault.kind, fault.va, fault.vmid),
        (FaultKind::Write, VA, 9)
    );
    assert!(
        gpu.raise_fault(&fault, 8),
        "not redirected to the default page"
    );
    let status = hub_read(&gpu, Hub::Gfx(0), gc::regVM_L2_PROTECTION_FAULT_STATUS);
    assert_eq!(gc::VM_L2_PROTECTION_FAULT_STATUS__VMID.get(status), 9);
    assert_eq!(gc::VM_L2_PROTECTION_FAULT_STATUS__CID.get(status), 8);
    assert_eq!(gc::VM_L2_PROTECTION_FAULT_STATUS__RW.get(status), 1);
    assert_eq!(
        gc::VM_L2_PROTECTION_FAULT_STATUS__PERMISSION_FAULTS.get(status),
        4
    );
    assert_eq!(
        gc::VM_L2_PROTECTION_FAULT_STATUS__MORE_FAULTS.get(status),
        0
    );
    let low = hub_read(&gpu, Hub::Gfx(0), gc::regVM_L2_PROTECTION_FAULT_ADDR_LO32);
    assert_eq!(u64::from(low), VA >> 12 & 0xffff_ffff);
    let other = VmFault {
        va: 0x1000,
        ..fault
    };
    gpu.raise_fault(&other, 5);
    let status = hub_read(&gpu, Hub::Gfx(0), gc::regVM_L2_PROTECTION_FAULT_STATUS);
    assert_eq!(
        gc::VM_L2_PROTECTION_FAULT_STATUS__MORE_FAULTS.get(status),
        1
    );
    assert_eq!(gc::VM_L2_PROTECTION_FAULT_STATUS__CID.get(status), 8);
    let cntl = addr(Ip::Gc, gc::regVM_L2_PROTECTION_FAULT_CNTL);
    gpu.reg_write(cntl, gpu.reg_read(cntl) | 1);
    assert_eq!(
        hub_read(&gpu, Hub::Gfx(0), gc::regVM_L2_PROTECTION_FAULT_STATUS),
        0
    );
}
