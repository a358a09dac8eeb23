// SPDX-License-Identifier: GPL-2.0

//! Registers of GFXHUB and MMHUB 1.8.0: start, TLB flushes, status of faults.
//!
//! Of the four levels of page tables the hubs are programmed with three, see [`super::format`].

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32, lo32},
    discovery::hwid,
    ih::node,
    pte,
    regs::{gc_9_4_3 as gc, hdp_4_4_2 as hdp, mmhub_1_8_0 as mm, name, Field, Value},
};

use crate::{
    asic::mmio::{Block, Mmio},
    hw::gmc::{hub_names, hubs, FlushType, GmcVersion, Hub, HubNames, HubNumbers, Hubs, McLayout},
};

/// XCCs of an AID.
pub(super) const XCCS_PER_AID: u32 = 2;

/// The hubs and page table format of gfx9.
pub(super) struct Gmc;

static NUMBERS: HubNumbers = HubNumbers {
    l1_tlb: &[(gc::MC_VM_MX_L1_TLB_CNTL__ATC_EN, 1)],
    l2_cntl: &[(gc::VM_L2_CNTL__ENABLE_L2_FRAGMENT_PROCESSING, 1)],
    context0: &[(gc::VM_CONTEXT0_CNTL__PAGE_TABLE_BLOCK_SIZE, 0)],
    bank_select: 12,
    big_fragment: 9,
    depth: pte::LEVELS - 2,
    block_size: pte::LEVEL_BITS,
    // SH_MEM_CONFIG selects it per process.
    retry: true,
};

/// Default of VM_L2_CNTL3 (`regVM_L2_CNTL3_DEFAULT`, `gfxhub_v1_2.c`, `mmhub_v1_8.c`).
const L2_CNTL3: Value<name::VM_L2_CNTL3> = Value::new(0x8010_0007);

static GFX: Hub = Hub {
    names: hub_names!(gc),
    fault_status: gc::regVM_L2_PROTECTION_FAULT_STATUS,
    l2_cntl3: L2_CNTL3,
    numbers: &NUMBERS,
};

/// MMHUB of an AID.
pub(super) static MEM: Hub = Hub {
    names: hub_names!(mm),
    fault_status: mm::regVM_L2_PROTECTION_FAULT_STATUS,
    l2_cntl3: L2_CNTL3,
    numbers: &NUMBERS,
};

impl GmcVersion for Gmc {
    const GFX: &'static Hub = &GFX;
    const MEM: &'static Hub = &MEM;

    fn fb_offset(mmio: &Mmio) -> Result<u32> {
        let b = mmio.block(hwid::GC, 0)?;
        b.rd(gc::regMC_VM_FB_OFFSET).map(Value::raw)
    }

    // `gfxhub_v1_2_get_xgmi_info`.
    fn hive_segment(mmio: &Mmio) -> Result<Option<u64>> {
        const GPUS: u32 = 8;
        let b = mmio.block(hwid::GC, 0)?;
        let cntl = b.rd(gc::regMC_VM_XGMI_LFB_CNTL)?;
        let last = gc::MC_VM_XGMI_LFB_CNTL__PF_MAX_REGION.get(cntl);
        let node = gc::MC_VM_XGMI_LFB_CNTL__PF_LFB_REGION.get(cntl);
        if last == 0 {
            return Ok(None);
        }
        if last >= GPUS || node >= GPUS {
            return Err(EINVAL);
        }
        let size = b.rd(gc::regMC_VM_XGMI_LFB_SIZE)?;
        let size = gc::MC_VM_XGMI_LFB_SIZE__PF_LFB_SIZE.get(size);
        Ok(Some(u64::from(node) * (u64::from(size) << 24)))
    }

    fn start_hdp(mmio: &Mmio, layout: &McLayout) -> Result {
        // `hdp_v4_0_init_registers`. The header of HDP 4.4.2 does not declare the field, that of
        // HDP 4.0 does.
        const FLUSH_INVALIDATE_CACHE: Field<name::HDP_MISC_CNTL> = Field::span(0, 0);
        let b = mmio.block(hwid::HDP, 0)?;
        b.set(hdp::regHDP_MISC_CNTL, &[(FLUSH_INVALIDATE_CACHE, 1)])?;
        let base = layout.vram_start >> 8;
        b.wr(hdp::regHDP_NONSURFACE_BASE, lo32(base))?;
        b.wr(hdp::regHDP_NONSURFACE_BASE_HI, hi32(base))
    }

    fn started(mmio: &Mmio) -> Result {
        // SDMA writes must probe-invalidate RW lines (`mmhub_v1_8_init_snoop_override_regs`).
        const SDMA_CLIENT: u32 = 1 << 15;
        const DAGBS: u32 = 5;
        let distance =
            mm::regDAGB1_WRCLI_GPU_SNOOP_OVERRIDE.off - mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE.off;
        for hub in mmio.blocks(hwid::MMHUB) {
            for i in 0..DAGBS {
                for reg in [
                    mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE.untyped(),
                    mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE.untyped(),
                ] {
                    let v = hub.rd_at(reg, i * distance)?;
                    hub.wr_at(reg, i * distance, v | SDMA_CLIENT.into())?;
                }
            }
        }
        Ok(())
    }

    fn flush_vmid(mmio: &Mmio, set: Hubs, vmid: u32, kind: FlushType) -> Result {
        // A heavyweight flush first: the requested one races with accesses to the same cache line
        // (`gmc_v9_0_flush_gpu_tlb`).
        for kind in [FlushType::Heavyweight, kind] {
            for (block, hub) in hubs::<Self>(mmio, set) {
                hub.names.invalidate(block, vmid, kind)?;
            }
        }
        Ok(())
    }

    fn faulting(mmio: &Mmio, gfx: bool, inst: u32) -> Result<(Block<'_>, &'static Hub)> {
        // IH nodes are physical: four per AID, the AID and then its XCCs
        // (`gfx_v9_4_3_ih_to_xcc_inst`, `gmc_v9_0_process_interrupt`).
        let aid = inst / node::PER_AID;
        if gfx {
            let xcc = inst / (node::PER_AID / XCCS_PER_AID);
            let xcc = mmio.instances().logical(hwid::GC, u8::try_from(xcc)?)?;
            Ok((mmio.block(hwid::GC, xcc)?, &GFX))
        } else {
            Ok((mmio.block(hwid::MMHUB, u8::try_from(aid)?)?, &MEM))
        }
    }
}
