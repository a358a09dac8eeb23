// SPDX-License-Identifier: GPL-2.0

//! Memory hubs (GC's own and MMHUB 1.8.0) and the page table format of gfx9.
//!
//! Page tables have four levels. The hubs are told of three: with "translate further" the lowest
//! directory works like a page table whose pages are 2 MiB, and an entry of it that points to a
//! real page table says so with TF.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    pte,
    regs::{gc_9_4_3 as gc, mmhub_1_8_0 as mm, Field, Reg},
};

use crate::{
    gpu::mmio::{Block, Mmio},
    hw::{FlushType, GmcHal, HubSetup, Level, McLayout, PteAttrs},
};

/// See the file.
pub(super) struct Gmc;

/// Registers that both kinds of hub have, with each hub's own address.
struct HubRegs {
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
    inv_req: Reg,
    inv_ack: Reg,
    inv_range_lo: Reg,
    inv_range_hi: Reg,
}

macro_rules! hub_regs {
    ($m:ident) => {
        HubRegs {
            agp_base: $m::regMC_VM_AGP_BASE,
            agp_bot: $m::regMC_VM_AGP_BOT,
            agp_top: $m::regMC_VM_AGP_TOP,
            aperture_low: $m::regMC_VM_SYSTEM_APERTURE_LOW_ADDR,
            aperture_high: $m::regMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
            aperture_default_lsb: $m::regMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB,
            aperture_default_msb: $m::regMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB,
            fault_default_lo: $m::regVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
            fault_default_hi: $m::regVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32,
            fault_cntl: $m::regVM_L2_PROTECTION_FAULT_CNTL,
            fault_cntl2: $m::regVM_L2_PROTECTION_FAULT_CNTL2,
            fault_status: $m::regVM_L2_PROTECTION_FAULT_STATUS,
            l1_tlb: $m::regMC_VM_MX_L1_TLB_CNTL,
            l2_cntl: $m::regVM_L2_CNTL,
            l2_cntl2: $m::regVM_L2_CNTL2,
            l2_cntl3: $m::regVM_L2_CNTL3,
            l2_cntl4: $m::regVM_L2_CNTL4,
            context0_cntl: $m::regVM_CONTEXT0_CNTL,
            context1_cntl: $m::regVM_CONTEXT1_CNTL,
            base_lo: $m::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
            start_lo: $m::regVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
            end_lo: $m::regVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
            identity_low_lo: $m::regVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
            identity_low_hi: $m::regVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32,
            identity_high_lo: $m::regVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32,
            identity_high_hi: $m::regVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32,
            identity_offset_lo: $m::regVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32,
            identity_offset_hi: $m::regVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32,
            inv_req: $m::regVM_INVALIDATE_ENG0_REQ,
            inv_ack: $m::regVM_INVALIDATE_ENG0_ACK,
            inv_range_lo: $m::regVM_INVALIDATE_ENG0_ADDR_RANGE_LO32,
            inv_range_hi: $m::regVM_INVALIDATE_ENG0_ADDR_RANGE_HI32,
        }
    };
}

static GFX_HUB: HubRegs = hub_regs!(gc);
static MM_HUB: HubRegs = hub_regs!(mm);

/// Values of VM_L2_CNTL3 and CNTL4 from which the driver starts.
const L2_CNTL3_DEFAULT: u32 = 0x8010_0007;
const L2_CNTL4_DEFAULT: u32 = 0x0000_00c1;
/// Engines that invalidate TLBs; the last is the CPU's.
const ENGINES: u32 = 18;
const CPU_ENGINE: u32 = 17;
/// Contexts besides that of VMID 0.
const USER_CONTEXTS: u32 = 15;
/// Distance of a context's 64-bit registers, in dwords.
const ADDR_STRIDE: u32 = 2;
/// The memory type for the L1 TLB's own accesses.
const MTYPE_UC: u32 = pte::MTYPE_UC as u32;

const fn lo(value: u64) -> u32 {
    value as u32
}

const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// All hubs of the package.
fn hubs(mmio: &Mmio) -> impl Iterator<Item = (Block<'_>, &'static HubRegs)> {
    let gfx = mmio.blocks(hwid::GC).map(|b| (b, &GFX_HUB));
    let mem = mmio.blocks(hwid::MMHUB).map(|b| (b, &MM_HUB));
    Iterator::chain(gfx, mem)
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
                gc::VM_L2_PROTECTION_FAULT_CNTL2__ACTIVE_PAGE_MIGRATION_PTE_READ_RETRY,
                1,
            )],
        )
    }

    fn start_caches(&self, hub: Block<'_>, r: &HubRegs) -> Result {
        hub.set(
            r.l1_tlb,
            &[
                (gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB, 1),
                (gc::MC_VM_MX_L1_TLB_CNTL__SYSTEM_ACCESS_MODE, 3),
                (gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_ADVANCED_DRIVER_MODEL, 1),
                (gc::MC_VM_MX_L1_TLB_CNTL__SYSTEM_APERTURE_UNMAPPED_ACCESS, 0),
                (gc::MC_VM_MX_L1_TLB_CNTL__MTYPE, MTYPE_UC),
                (gc::MC_VM_MX_L1_TLB_CNTL__ATC_EN, 1),
            ],
        )?;
        hub.set(
            r.l2_cntl,
            &[
                (gc::VM_L2_CNTL__ENABLE_L2_CACHE, 1),
                (gc::VM_L2_CNTL__ENABLE_L2_FRAGMENT_PROCESSING, 1),
                (gc::VM_L2_CNTL__L2_PDE0_CACHE_TAG_GENERATION_MODE, 0),
                (gc::VM_L2_CNTL__PDE_FAULT_CLASSIFICATION, 0),
                (gc::VM_L2_CNTL__CONTEXT1_IDENTITY_ACCESS_MODE, 1),
                (gc::VM_L2_CNTL__IDENTITY_MODE_FRAGMENT_SIZE, 0),
            ],
        )?;
        hub.set(
            r.l2_cntl2,
            &[
                (gc::VM_L2_CNTL2__INVALIDATE_ALL_L1_TLBS, 1),
                (gc::VM_L2_CNTL2__INVALIDATE_L2_CACHE, 1),
            ],
        )?;
        let mut cntl3 = gc::VM_L2_CNTL3__BANK_SELECT.set(L2_CNTL3_DEFAULT, 12);
        cntl3 = gc::VM_L2_CNTL3__L2_CACHE_BIGK_FRAGMENT_SIZE.set(cntl3, 9);
        hub.wr(r.l2_cntl3, cntl3)?;
        let mut cntl4 = gc::VM_L2_CNTL4__VMC_TAP_PDE_REQUEST_PHYSICAL.set(L2_CNTL4_DEFAULT, 0);
        cntl4 = gc::VM_L2_CNTL4__VMC_TAP_PTE_REQUEST_PHYSICAL.set(cntl4, 0);
        hub.wr(r.l2_cntl4, cntl4)
    }

    fn start_contexts(&self, hub: Block<'_>, r: &HubRegs) -> Result {
        hub.set(
            r.context0_cntl,
            &[
                (gc::VM_CONTEXT0_CNTL__ENABLE_CONTEXT, 1),
                (gc::VM_CONTEXT0_CNTL__PAGE_TABLE_DEPTH, 0),
                (gc::VM_CONTEXT0_CNTL__PAGE_TABLE_BLOCK_SIZE, 0),
                (
                    gc::VM_CONTEXT0_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
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
            let mut v = hub.rd_at(r.context1_cntl, i)?;
            for (field, to) in CONTEXT1 {
                v = field.set(v, *to);
            }
            hub.wr_at(r.context1_cntl, i, v)?;
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
}

/// Bottom of an AGP aperture that is off, in units of 16 MiB.
const AGP_OFF_BOTTOM: u32 = 0x00ff_ffff;

/// Fields of the contexts of processes. Retry faults must be possible, since every process
/// chooses for itself.
const CONTEXT1: &[(Field, u32)] = &[
    (gc::VM_CONTEXT1_CNTL__ENABLE_CONTEXT, 1),
    (gc::VM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH, pte::LEVELS - 2),
    (
        gc::VM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (gc::VM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE, pte::LEVEL_BITS),
    (
        gc::VM_CONTEXT1_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
        1,
    ),
];

/// Fields that let the faults of a context raise interrupts.
const FAULT_INTERRUPTS: &[(Field, u32)] = &[
    (
        gc::VM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
    (
        gc::VM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        1,
    ),
];

const FAULT_CNTL: &[(Field, u32)] = &[
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__PDE1_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__PDE2_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__TRANSLATE_FURTHER_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__NACK_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__READ_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (
        gc::VM_L2_PROTECTION_FAULT_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
        1,
    ),
    (gc::VM_L2_PROTECTION_FAULT_CNTL__CRASH_ON_NO_RETRY_FAULT, 0),
    (gc::VM_L2_PROTECTION_FAULT_CNTL__CRASH_ON_RETRY_FAULT, 0),
];

impl GmcHal for Gmc {
    fn layout(&self, mmio: &Mmio) -> Result<McLayout> {
        let mem = mmio.block(hwid::MMHUB, 0)?;
        let base = mm::MC_VM_FB_LOCATION_BASE__FB_BASE.get(mem.rd(mm::regMC_VM_FB_LOCATION_BASE)?);
        let top = mm::MC_VM_FB_LOCATION_TOP__FB_TOP.get(mem.rd(mm::regMC_VM_FB_LOCATION_TOP)?);
        let offset = mmio.block(hwid::GC, 0)?.rd(gc::regMC_VM_FB_OFFSET)?;
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
                let mut v = hub.rd_at(r.context0_cntl, i)?;
                for (field, to) in FAULT_INTERRUPTS {
                    v = field.set(v, *to);
                }
                hub.wr_at(r.context0_cntl, i, v)?;
            }
        }
        // Writes of the SDMA engines must probe the caches.
        const SDMA_CLIENT: u32 = 1 << 15;
        const DAGBS: u32 = 5;
        let distance =
            mm::regDAGB1_WRCLI_GPU_SNOOP_OVERRIDE.off - mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE.off;
        for hub in mmio.blocks(hwid::MMHUB) {
            for i in 0..DAGBS {
                for reg in [
                    mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE,
                    mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
                ] {
                    let v = hub.rd_at(reg, i * distance)?;
                    hub.wr_at(reg, i * distance, v | SDMA_CLIENT)?;
                }
            }
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
                    (gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB, 0),
                    (gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_ADVANCED_DRIVER_MODEL, 0),
                ],
            )?;
            hub.set(r.l2_cntl, &[(gc::VM_L2_CNTL__ENABLE_L2_CACHE, 0)])?;
            hub.wr(r.l2_cntl3, 0)?;
        }
        Ok(())
    }

    fn flush_vmid(&self, mmio: &Mmio, vmid: u32, kind: FlushType) -> Result {
        use gc::*;
        let request = VM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ.put(1 << vmid)
            | VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES.put(1)
            | VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.put(1)
            | VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1.put(1)
            | VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2.put(1)
            | VM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES.put(1);
        // A heavyweight flush first: the other one races with accesses to the same line.
        for kind in [FlushType::Heavyweight, kind] {
            let request = request | VM_INVALIDATE_ENG0_REQ__FLUSH_TYPE.put(kind as u32);
            for (hub, r) in hubs(mmio) {
                hub.wr_at(r.inv_req, CPU_ENGINE, request)?;
                hub.poll(r.inv_ack, CPU_ENGINE, |ack| ack & (1 << vmid) != 0)?;
            }
        }
        Ok(())
    }

    fn fault_status(&self, mmio: &Mmio, gfx: bool, inst: u32) -> Result<u32> {
        // Nodes of interrupts: four per AID, the AID itself and then its XCCs.
        const NODES_PER_AID: u32 = 4;
        let aid = inst / NODES_PER_AID;
        let (hub, r) = if gfx {
            let xcc = aid * 2 + (inst % NODES_PER_AID).saturating_sub(1);
            (mmio.block(hwid::GC, xcc as u8)?, &GFX_HUB)
        } else {
            (mmio.block(hwid::MMHUB, aid as u8)?, &MM_HUB)
        };
        let status = hub.rd(r.fault_status)?;
        hub.set(
            r.fault_cntl,
            &[(
                gc::VM_L2_PROTECTION_FAULT_CNTL__CLEAR_PROTECTION_FAULT_STATUS_ADDR,
                1,
            )],
        )?;
        Ok(status)
    }

    fn pte_flags(&self, a: PteAttrs) -> u64 {
        let mtype = if a.uncached || a.io {
            pte::MTYPE_UC
        } else if a.ext_coherent {
            if a.system {
                pte::MTYPE_UC
            } else {
                pte::MTYPE_CC
            }
        } else if a.system {
            pte::MTYPE_UC
        } else {
            pte::MTYPE_RW
        };
        let mut flags = pte::VALID | pte::SNOOPED | pte::MTYPE.put(mtype);
        for (on, bit) in [
            (a.system, pte::SYSTEM),
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
            | pte::MTYPE.put(pte::MTYPE_UC)
    }

    fn leaf(&self, _level: Level, addr: u64, flags: u64, fragment: u32) -> u64 {
        // A block in the lowest directory is an ordinary entry, see the top of the file.
        (addr & pte::PTE_ADDR) | flags | pte::FRAG.put(u64::from(fragment))
    }

    fn table(&self, level: Level, addr: u64) -> u64 {
        let entry = (addr & pte::PDE_ADDR) | pte::VALID;
        match level {
            1 => entry | pte::TF,
            2 => entry | pte::PDE_BFS.put(u64::from(pte::LEVEL_BITS)),
            _ => entry,
        }
    }

    fn empty(&self, level: Level) -> u64 {
        match level {
            // Works around the order in which the walker finds faults.
            0 => pte::EXECUTABLE,
            // An invalid block: no flag says so at this level, an odd address does.
            1 => pte::PAGE_SIZE,
            _ => pte::PDE_PTE,
        }
    }

    fn root(&self, addr: u64) -> u64 {
        addr | pte::VALID
    }
}
