// SPDX-License-Identifier: GPL-2.0

//! Memory hubs (GC's own and MMHUB 4.1.0) and the page table format of gfx12.
//!
//! Page tables have four plain levels; an entry says of itself that it is a page and not a table,
//! at whichever level. The memory hub loses acknowledgements when its power goes off: invalidating
//! takes a semaphore there.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    pte::{self, gfx12 as bits},
    regs::{gc_12_0_0 as gc, mmhub_4_1_0 as mm, Field, Reg},
};

use crate::{
    gpu::mmio::{Block, Mmio},
    hw::{FlushType, GmcHal, HubSetup, Level, McLayout, PteAttrs},
};

/// See the file.
pub(super) struct Gmc;

/// Registers that both kinds of hub have, with each hub's own address.
struct HubRegs {
    /// The memory hub, not that of the graphics core.
    memory: bool,
    agp_base: Reg,
    agp_bot: Reg,
    agp_top: Reg,
    aperture_low: Reg,
    aperture_high: Reg,
    aperture_default_lsb: Reg,
    aperture_default_msb: Reg,
    fault_default_lo: Reg,
    fault_default_hi: Reg,
    fault_cntl: Reg,
    fault_cntl2: Reg,
    fault_status: Reg,
    l1_tlb: Reg,
    l2_cntl: Reg,
    l2_cntl2: Reg,
    l2_cntl3: Reg,
    l2_cntl4: Reg,
    l2_cntl5: Reg,
    l2_cntl3_value: u32,
    context0_cntl: Reg,
    context1_cntl: Reg,
    base_lo: Reg,
    start_lo: Reg,
    end_lo: Reg,
    identity_low_lo: Reg,
    identity_low_hi: Reg,
    identity_high_lo: Reg,
    identity_high_hi: Reg,
    identity_offset_lo: Reg,
    identity_offset_hi: Reg,
    inv_sem: Reg,
    inv_req: Reg,
    inv_ack: Reg,
    inv_range_lo: Reg,
    inv_range_hi: Reg,
}

/// Values of the L2 control registers from which the driver starts: they differ by hub.
const GFX_L2_CNTL3: u32 = 0x8012_0007;
const MEM_L2_CNTL3: u32 = 0x8010_0007;
const L2_CNTL4: u32 = 0x0000_00c1;
const L2_CNTL5: u32 = 0x0000_3fe0;

static GFX_HUB: HubRegs = HubRegs {
    memory: false,
    agp_base: gc::regGCMC_VM_AGP_BASE,
    agp_bot: gc::regGCMC_VM_AGP_BOT,
    agp_top: gc::regGCMC_VM_AGP_TOP,
    aperture_low: gc::regGCMC_VM_SYSTEM_APERTURE_LOW_ADDR,
    aperture_high: gc::regGCMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    aperture_default_lsb: gc::regGCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB,
    aperture_default_msb: gc::regGCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB,
    fault_default_lo: gc::regGCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
    fault_default_hi: gc::regGCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32,
    fault_cntl: gc::regGCVM_L2_PROTECTION_FAULT_CNTL,
    fault_cntl2: gc::regGCVM_L2_PROTECTION_FAULT_CNTL2,
    fault_status: gc::regGCVM_L2_PROTECTION_FAULT_STATUS_LO32,
    l1_tlb: gc::regGCMC_VM_MX_L1_TLB_CNTL,
    l2_cntl: gc::regGCVM_L2_CNTL,
    l2_cntl2: gc::regGCVM_L2_CNTL2,
    l2_cntl3: gc::regGCVM_L2_CNTL3,
    l2_cntl4: gc::regGCVM_L2_CNTL4,
    l2_cntl5: gc::regGCVM_L2_CNTL5,
    l2_cntl3_value: GFX_L2_CNTL3,
    context0_cntl: gc::regGCVM_CONTEXT0_CNTL,
    context1_cntl: gc::regGCVM_CONTEXT1_CNTL,
    base_lo: gc::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
    start_lo: gc::regGCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
    end_lo: gc::regGCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    identity_low_lo: gc::regGCVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
    identity_low_hi: gc::regGCVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32,
    identity_high_lo: gc::regGCVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32,
    identity_high_hi: gc::regGCVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32,
    identity_offset_lo: gc::regGCVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32,
    identity_offset_hi: gc::regGCVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32,
    inv_sem: gc::regGCVM_INVALIDATE_ENG0_SEM,
    inv_req: gc::regGCVM_INVALIDATE_ENG0_REQ,
    inv_ack: gc::regGCVM_INVALIDATE_ENG0_ACK,
    inv_range_lo: gc::regGCVM_INVALIDATE_ENG0_ADDR_RANGE_LO32,
    inv_range_hi: gc::regGCVM_INVALIDATE_ENG0_ADDR_RANGE_HI32,
};

static MEM_HUB: HubRegs = HubRegs {
    memory: true,
    agp_base: mm::regMMMC_VM_AGP_BASE,
    agp_bot: mm::regMMMC_VM_AGP_BOT,
    agp_top: mm::regMMMC_VM_AGP_TOP,
    aperture_low: mm::regMMMC_VM_SYSTEM_APERTURE_LOW_ADDR,
    aperture_high: mm::regMMMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    aperture_default_lsb: mm::regMMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB,
    aperture_default_msb: mm::regMMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB,
    fault_default_lo: mm::regMMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
    fault_default_hi: mm::regMMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32,
    fault_cntl: mm::regMMVM_L2_PROTECTION_FAULT_CNTL,
    fault_cntl2: mm::regMMVM_L2_PROTECTION_FAULT_CNTL2,
    fault_status: mm::regMMVM_L2_PROTECTION_FAULT_STATUS_LO32,
    l1_tlb: mm::regMMMC_VM_MX_L1_TLB_CNTL,
    l2_cntl: mm::regMMVM_L2_CNTL,
    l2_cntl2: mm::regMMVM_L2_CNTL2,
    l2_cntl3: mm::regMMVM_L2_CNTL3,
    l2_cntl4: mm::regMMVM_L2_CNTL4,
    l2_cntl5: mm::regMMVM_L2_CNTL5,
    l2_cntl3_value: MEM_L2_CNTL3,
    context0_cntl: mm::regMMVM_CONTEXT0_CNTL,
    context1_cntl: mm::regMMVM_CONTEXT1_CNTL,
    base_lo: mm::regMMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
    start_lo: mm::regMMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
    end_lo: mm::regMMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    identity_low_lo: mm::regMMVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
    identity_low_hi: mm::regMMVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32,
    identity_high_lo: mm::regMMVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32,
    identity_high_hi: mm::regMMVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32,
    identity_offset_lo: mm::regMMVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32,
    identity_offset_hi: mm::regMMVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32,
    inv_sem: mm::regMMVM_INVALIDATE_ENG0_SEM,
    inv_req: mm::regMMVM_INVALIDATE_ENG0_REQ,
    inv_ack: mm::regMMVM_INVALIDATE_ENG0_ACK,
    inv_range_lo: mm::regMMVM_INVALIDATE_ENG0_ADDR_RANGE_LO32,
    inv_range_hi: mm::regMMVM_INVALIDATE_ENG0_ADDR_RANGE_HI32,
};

/// Engines that invalidate TLBs; the last is the CPU's.
const ENGINES: u32 = 18;
const CPU_ENGINE: u32 = 17;
/// Contexts besides that of VMID 0.
const USER_CONTEXTS: u32 = 15;
/// Distance of a context's 64-bit registers, in dwords.
const ADDR_STRIDE: u32 = 2;
/// The memory type for the L1 TLB's own accesses.
const MTYPE_UC: u32 = pte::MTYPE_UC as u32;
/// Bottom of an AGP aperture that is off, in units of 16 MiB.
const AGP_OFF_BOTTOM: u32 = 0x00ff_ffff;

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// All hubs of the package.
fn hubs(mmio: &Mmio) -> impl Iterator<Item = (Block<'_>, &'static HubRegs)> {
    let gfx = mmio.blocks(hwid::GC).map(|b| (b, &GFX_HUB));
    let mem = mmio.blocks(hwid::MMHUB).map(|b| (b, &MEM_HUB));
    Iterator::chain(gfx, mem)
}

/// What an invalidation engine is asked for to drop the translations of a VMID.
pub(super) fn invalidate_request(vmid: u32, kind: FlushType) -> u32 {
    use gc::*;
    GCVM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ.put(1 << vmid)
        | GCVM_INVALIDATE_ENG0_REQ__FLUSH_TYPE.put(kind as u32)
        | GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES.put(1)
        | GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.put(1)
        | GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1.put(1)
        | GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2.put(1)
        | GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES.put(1)
}

/// The context control register of the address space of a process.
pub(super) fn context_cntl(from: u32) -> u32 {
    CONTEXT1
        .iter()
        .fold(from, |value, (field, to)| field.set(value, *to))
}

impl Gmc {
    /// VMID 0: its page table and the apertures that bypass it.
    fn start_apertures(&self, hub: Block<'_>, r: &HubRegs, s: &HubSetup) -> Result {
        let table = s.gart_table | pte::VALID;
        hub.wr(r.base_lo, lo(table))?;
        hub.wr_at(r.base_lo, 1, hi(table))?;
        hub.wr(r.start_lo, lo(s.gart_start >> 12))?;
        hub.wr_at(r.start_lo, 1, lo(s.gart_start >> 44))?;
        hub.wr(r.end_lo, lo(s.gart_end >> 12))?;
        hub.wr_at(r.end_lo, 1, lo(s.gart_end >> 44))?;

        // The AGP aperture is off: its bottom lies above its top.
        hub.wr(r.agp_base, 0)?;
        hub.wr(r.agp_bot, AGP_OFF_BOTTOM)?;
        hub.wr(r.agp_top, 0)?;
        hub.wr(r.aperture_low, lo(s.layout.fb_start >> 18))?;
        hub.wr(r.aperture_high, lo(s.layout.fb_end >> 18))?;
        hub.wr(r.aperture_default_lsb, lo(s.scratch_pa >> 12))?;
        hub.wr(r.aperture_default_msb, lo(s.scratch_pa >> 44))?;
        hub.wr(r.fault_default_lo, lo(s.dummy_dma >> 12))?;
        hub.wr(r.fault_default_hi, lo(s.dummy_dma >> 44))?;
        hub.set(
            r.fault_cntl2,
            &[(
                gc::GCVM_L2_PROTECTION_FAULT_CNTL2__ACTIVE_PAGE_MIGRATION_PTE_READ_RETRY,
                1,
            )],
        )
    }

    fn start_caches(&self, hub: Block<'_>, r: &HubRegs) -> Result {
        use gc::*;
        hub.set(
            r.l1_tlb,
            &[
                (GCMC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB, 1),
                (GCMC_VM_MX_L1_TLB_CNTL__SYSTEM_ACCESS_MODE, 3),
                (GCMC_VM_MX_L1_TLB_CNTL__ENABLE_ADVANCED_DRIVER_MODEL, 1),
                (GCMC_VM_MX_L1_TLB_CNTL__SYSTEM_APERTURE_UNMAPPED_ACCESS, 0),
                (GCMC_VM_MX_L1_TLB_CNTL__ECO_BITS, 0),
                (GCMC_VM_MX_L1_TLB_CNTL__MTYPE, MTYPE_UC),
            ],
        )?;
        hub.set(
            r.l2_cntl,
            &[
                (GCVM_L2_CNTL__ENABLE_L2_CACHE, 1),
                (GCVM_L2_CNTL__ENABLE_L2_FRAGMENT_PROCESSING, 0),
                (GCVM_L2_CNTL__ENABLE_DEFAULT_PAGE_OUT_TO_SYSTEM_MEMORY, 1),
                (GCVM_L2_CNTL__L2_PDE0_CACHE_TAG_GENERATION_MODE, 0),
                (GCVM_L2_CNTL__PDE_FAULT_CLASSIFICATION, 0),
                (GCVM_L2_CNTL__CONTEXT1_IDENTITY_ACCESS_MODE, 1),
                (GCVM_L2_CNTL__IDENTITY_MODE_FRAGMENT_SIZE, 0),
            ],
        )?;
        hub.set(
            r.l2_cntl2,
            &[
                (GCVM_L2_CNTL2__INVALIDATE_ALL_L1_TLBS, 1),
                (GCVM_L2_CNTL2__INVALIDATE_L2_CACHE, 1),
            ],
        )?;
        let mut cntl3 = GCVM_L2_CNTL3__BANK_SELECT.set(r.l2_cntl3_value, 9);
        cntl3 = GCVM_L2_CNTL3__L2_CACHE_BIGK_FRAGMENT_SIZE.set(cntl3, 6);
        hub.wr(r.l2_cntl3, cntl3)?;
        let mut cntl4 = GCVM_L2_CNTL4__VMC_TAP_PDE_REQUEST_PHYSICAL.set(L2_CNTL4, 0);
        cntl4 = GCVM_L2_CNTL4__VMC_TAP_PTE_REQUEST_PHYSICAL.set(cntl4, 0);
        hub.wr(r.l2_cntl4, cntl4)?;
        let cntl5 = GCVM_L2_CNTL5__L2_CACHE_SMALLK_FRAGMENT_SIZE.set(L2_CNTL5, 0);
        hub.wr(r.l2_cntl5, cntl5)
    }

    fn start_contexts(&self, hub: Block<'_>, r: &HubRegs) -> Result {
        hub.set(
            r.context0_cntl,
            &[
                (gc::GCVM_CONTEXT0_CNTL__ENABLE_CONTEXT, 1),
                (gc::GCVM_CONTEXT0_CNTL__PAGE_TABLE_DEPTH, 0),
                (
                    gc::GCVM_CONTEXT0_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
                    0,
                ),
            ],
        )?;
        hub.wr(r.identity_low_lo, 0xffff_ffff)?;
        hub.wr(r.identity_low_hi, 0xf)?;
        hub.wr(r.identity_high_lo, 0)?;
        hub.wr(r.identity_high_hi, 0)?;
        hub.wr(r.identity_offset_lo, 0)?;
        hub.wr(r.identity_offset_hi, 0)?;

        let last = (1u64 << (pte::VA_BITS - pte::PAGE_SHIFT)) - 1;
        for i in 0..USER_CONTEXTS {
            let v = hub.rd_at(r.context1_cntl, i)?;
            hub.wr_at(r.context1_cntl, i, context_cntl(v))?;
            let at = (i + 1) * ADDR_STRIDE;
            hub.wr_at(r.start_lo, at, 0)?;
            hub.wr_at(r.start_lo, at + 1, 0)?;
            hub.wr_at(r.end_lo, at, lo(last))?;
            hub.wr_at(r.end_lo, at + 1, hi(last))?;
        }
        for engine in 0..ENGINES {
            hub.wr_at(r.inv_range_lo, engine * ADDR_STRIDE, 0xffff_ffff)?;
            hub.wr_at(r.inv_range_hi, engine * ADDR_STRIDE, 0x1f)?;
        }
        // Faults go to the default page and are reported, they do not stop the hub.
        hub.set(r.fault_cntl, FAULT_CNTL)
    }

    /// Invalidates by the CPU's engine of a hub.
    fn invalidate(&self, hub: Block<'_>, r: &HubRegs, vmid: u32, request: u32) -> Result {
        hub.wr_at(r.inv_req, CPU_ENGINE, request)?;
        hub.poll(r.inv_ack, CPU_ENGINE, |ack| ack & (1 << vmid) != 0)?;
        Ok(())
    }
}

/// Fields of the contexts of processes. Faults are not retried.
const CONTEXT1: &[(Field, u32)] = &[
    (gc::GCVM_CONTEXT1_CNTL__ENABLE_CONTEXT, 1),
    (gc::GCVM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH, pte::LEVELS - 1),
    (
        gc::GCVM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE,
        pte::LEVEL_BITS - 9,
    ),
    (
        gc::GCVM_CONTEXT1_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
        0,
    ),
];

/// Fields that let the faults of a context raise interrupts.
const FAULT_INTERRUPTS: &[Field] = &[
    gc::GCVM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
    gc::GCVM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
    gc::GCVM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
    gc::GCVM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
    gc::GCVM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
    gc::GCVM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
    gc::GCVM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
];

const FAULT_CNTL: &[(Field, u32)] = &[
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__PDE1_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__PDE2_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__TRANSLATE_FURTHER_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__NACK_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__READ_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::GCVM_L2_PROTECTION_FAULT_CNTL__CRASH_ON_NO_RETRY_FAULT,
        0,
    ),
    (gc::GCVM_L2_PROTECTION_FAULT_CNTL__CRASH_ON_RETRY_FAULT, 0),
];

impl GmcHal for Gmc {
    fn layout(&self, mmio: &Mmio) -> Result<McLayout> {
        let mem = mmio.block(hwid::MMHUB, 0)?;
        let base =
            mm::MMMC_VM_FB_LOCATION_BASE__FB_BASE.get(mem.rd(mm::regMMMC_VM_FB_LOCATION_BASE)?);
        let top = mm::MMMC_VM_FB_LOCATION_TOP__FB_TOP.get(mem.rd(mm::regMMMC_VM_FB_LOCATION_TOP)?);
        let offset = mem.rd(mm::regMMMC_VM_FB_OFFSET)?;
        if top < base {
            return Err(EINVAL);
        }
        Ok(McLayout {
            fb_start: u64::from(base) << 24,
            fb_end: (u64::from(top) << 24) | 0xff_ffff,
            vram_offset: u64::from(offset) << 24,
        })
    }

    fn start(&self, mmio: &Mmio, setup: &HubSetup) -> Result {
        for (hub, r) in hubs(mmio) {
            self.start_apertures(hub, r, setup)?;
            self.start_caches(hub, r)?;
            self.start_contexts(hub, r)?;
            for i in 0..=USER_CONTEXTS {
                let v = hub.rd_at(r.context0_cntl, i)?;
                let v = FAULT_INTERRUPTS.iter().fold(v, |v, field| field.set(v, 1));
                hub.wr_at(r.context0_cntl, i, v)?;
            }
        }
        // A fault does not halt the command processor.
        for b in mmio.blocks(hwid::GC) {
            b.set(
                gc::regCP_DEBUG,
                &[(gc::CP_DEBUG__CPG_UTCL1_ERROR_HALT_DISABLE, 1)],
            )?;
        }
        Ok(())
    }

    fn stop(&self, mmio: &Mmio) -> Result {
        for (hub, r) in hubs(mmio) {
            for i in 0..=USER_CONTEXTS {
                hub.wr_at(r.context0_cntl, i, 0)?;
            }
            hub.set(
                r.l1_tlb,
                &[
                    (gc::GCMC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB, 0),
                    (gc::GCMC_VM_MX_L1_TLB_CNTL__ENABLE_ADVANCED_DRIVER_MODEL, 0),
                ],
            )?;
            hub.set(r.l2_cntl, &[(gc::GCVM_L2_CNTL__ENABLE_L2_CACHE, 0)])?;
            hub.wr(r.l2_cntl3, 0)?;
        }
        Ok(())
    }

    fn flush_vmid(&self, mmio: &Mmio, vmid: u32, kind: FlushType) -> Result {
        for (hub, r) in hubs(mmio) {
            if !r.memory {
                self.invalidate(hub, r, vmid, invalidate_request(vmid, kind))?;
                continue;
            }
            // The memory hub knows the one type only.
            let request = invalidate_request(vmid, FlushType::Legacy);
            hub.poll(r.inv_sem, CPU_ENGINE, |sem| sem & 1 != 0)?;
            let done = self.invalidate(hub, r, vmid, request);
            hub.wr_at(r.inv_sem, CPU_ENGINE, 0)?;
            done?;
            // Its private cache is not among what a request reaches.
            hub.set(
                mm::regMMVM_L2_BANK_SELECT_RESERVED_CID2,
                &[(
                    mm::MMVM_L2_BANK_SELECT_RESERVED_CID2__RESERVED_CACHE_PRIVATE_INVALIDATION,
                    1,
                )],
            )?;
            // Reading back waits for it.
            hub.rd(mm::regMMVM_L2_BANK_SELECT_RESERVED_CID2)?;
        }
        Ok(())
    }

    fn fault_status(&self, mmio: &Mmio, gfx: bool, _inst: u32) -> Result<u32> {
        let (hub, r) = if gfx {
            let hub = mmio.block(hwid::GC, 0)?;
            // The first read waits until the register is up to date.
            hub.rd(GFX_HUB.fault_status)?;
            (hub, &GFX_HUB)
        } else {
            (mmio.block(hwid::MMHUB, 0)?, &MEM_HUB)
        };
        let status = hub.rd(r.fault_status)?;
        hub.set(
            r.fault_cntl,
            &[(
                gc::GCVM_L2_PROTECTION_FAULT_CNTL__CLEAR_PROTECTION_FAULT_STATUS_ADDR,
                1,
            )],
        )?;
        Ok(status)
    }

    fn pte_flags(&self, a: PteAttrs) -> u64 {
        let mtype = if a.uncached || a.io {
            pte::MTYPE_UC
        } else {
            pte::MTYPE_NC
        };
        let mut flags = pte::VALID | bits::IS_PTE | bits::MTYPE.put(mtype);
        for (on, bit) in [
            (a.system, pte::SYSTEM),
            (a.system && !a.io, pte::SNOOPED),
            (a.read, pte::READABLE),
            (a.write, pte::WRITEABLE),
            (a.exec, pte::EXECUTABLE),
        ] {
            if on {
                flags |= bit;
            }
        }
        flags
    }

    fn gart_flags(&self) -> u64 {
        pte::VALID
            | pte::SYSTEM
            | pte::SNOOPED
            | pte::READABLE
            | pte::WRITEABLE
            | pte::EXECUTABLE
            | bits::MTYPE.put(pte::MTYPE_UC)
            | bits::IS_PTE
    }

    fn leaf(&self, _level: Level, addr: u64, flags: u64, fragment: u32) -> u64 {
        (addr & pte::PTE_ADDR) | flags | pte::FRAG.put(u64::from(fragment))
    }

    fn table(&self, _level: Level, addr: u64) -> u64 {
        (addr & pte::PDE_ADDR) | pte::VALID
    }

    fn empty(&self, level: Level) -> u64 {
        match level {
            // Works around the order in which the walker finds faults.
            0 => pte::EXECUTABLE,
            // An invalid block.
            _ => bits::IS_PTE,
        }
    }

    fn root(&self, addr: u64) -> u64 {
        addr | pte::VALID
    }
}
