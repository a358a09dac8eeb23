// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Register positions and fields of a hub, by generation.
//!
//! All hubs have the same registers, in blocks with different layouts.

use gpu_regs::{
    gc_12_0_0 as gc12, gc_9_4_3 as gc9, mmhub_1_8_0 as mm9, mmhub_4_1_0 as mm12, Field, Reg,
};

use crate::chips::Generation;
use crate::engines::gmc::Hub;
use crate::regs::RegId;

/// Invalidation engines per hub.
pub const ENGINES: u32 = 18;
/// Contexts per hub, one of each VMID.
pub const CONTEXTS: u32 = 16;

/// Offsets in segment 0, and the fields that the model uses.
#[derive(Debug)]
pub struct Layout {
    /// First register.
    pub first: u32,
    /// Number of registers, including gaps.
    pub count: u32,
    pub(super) l2_cntl2: u32,
    pub(super) l2_cntl3: u32,
    /// Reset value of `VM_L2_CNTL3`.
    pub(super) l2_cntl3_reset: u32,
    pub(super) fault_cntl: u32,
    pub(super) fault_status: u32,
    pub(super) fault_addr: u32,
    pub(super) fault_default: u32,
    pub(super) context0_cntl: u32,
    /// Reset value of `VM_CONTEXTn_CNTL`.
    pub(super) context_cntl_reset: u32,
    pub(super) eng0_sem: u32,
    pub(super) eng0_req: u32,
    pub(super) eng0_ack: u32,
    /// Address range of an engine: two registers each.
    pub(super) eng0_range: u32,
    pub(super) base: u32,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) fb_offset: u32,
    /// MC_VM_XGMI_LFB_CNTL; MC_VM_XGMI_LFB_SIZE is the next register.
    pub(super) lfb: Option<u32>,
    pub(super) fb_base: u32,
    pub(super) fb_top: u32,
    pub(super) agp_top: u32,
    pub(super) agp_bot: u32,
    pub(super) agp_base: u32,
    pub(super) aperture_low: u32,
    /// MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR: low half, high half.
    pub(super) aperture_default: u32,
    pub(super) aperture_high: u32,
    pub(super) l1_cntl: u32,
    pub(super) fields: Fields,
    /// Whether an engine acquired by reading its semaphore stays acquired until 0 is written.
    pub(super) semaphores: bool,
    /// Whether the host has to hold the semaphore of an engine that it requests an invalidation of:
    /// power gating could lose the ACK otherwise (`gmc_v12_0_flush_vm_hub`).
    pub(super) needs_semaphore: bool,
    /// Whether a read of the fault status returns what the one before could have found, and updates
    /// it for the next ("fast GRBM interface", `gmc_v12_0_process_interrupt`).
    pub(super) status_is_late: bool,
    /// Invalidation engines of the firmware, which the driver must not use: 2 and 3
    /// (`AMDGPU_VMHUB_INV_ENG_BITMAP`), and with MES 5 and 6.
    pub(super) firmware_engines: u32,
}

/// Fields of the context and status registers.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) depth: Field,
    pub(super) block_size: Field,
    pub(super) retry: Field,
    /// Interrupt enables; the next higher bit enables the default page.
    pub(super) range: Field,
    pub(super) dummy: Field,
    pub(super) pde0: Field,
    pub(super) valid: Field,
    pub(super) read: Field,
    pub(super) write: Field,
    pub(super) execute: Field,
    /// Fields of an invalidation request.
    pub(super) clear_fault: Field,
    pub(super) l1_ptes: Field,
    pub(super) l2_ptes: Field,
    pub(super) l2_pdes: [Field; 3],
}

impl Layout {
    /// Returns the layout of a hub.
    pub fn of(generation: Generation, hub: Hub) -> &'static Self {
        match (generation, hub) {
            (Generation::Gfx9, Hub::Gfx(_)) => &GFX9,
            (Generation::Gfx9, Hub::Mm(_)) => &MM9,
            (Generation::Gfx12, Hub::Gfx(_)) => &GFX12,
            (Generation::Gfx12, Hub::Mm(_)) => &MM12,
        }
    }

    /// Returns whether the register belongs to the hub.
    pub fn covers(&self, reg: RegId) -> bool {
        reg.seg == 0 && (self.first..self.first + self.count).contains(&reg.off)
    }
}

const fn span(first: Reg, last: Reg) -> u32 {
    assert!(first.seg == 0 && last.seg == 0 && last.off >= first.off);
    last.off + 1 - first.off
}

macro_rules! gfx9 {
    ($regs:ident, $lfb:expr) => {
        Layout {
            first: $regs::regVM_L2_CNTL.off,
            count: span($regs::regVM_L2_CNTL, $regs::regMC_VM_MX_L1_TLB_CNTL),
            l2_cntl3_reset: 0x8010_0007,
            semaphores: false,
            needs_semaphore: false,
            status_is_late: false,
            firmware_engines: 0xc,
            l2_cntl2: $regs::regVM_L2_CNTL2.off,
            l2_cntl3: $regs::regVM_L2_CNTL3.off,
            fault_cntl: $regs::regVM_L2_PROTECTION_FAULT_CNTL.off,
            fault_status: $regs::regVM_L2_PROTECTION_FAULT_STATUS.off,
            fault_addr: $regs::regVM_L2_PROTECTION_FAULT_ADDR_LO32.off,
            fault_default: $regs::regVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32.off,
            context0_cntl: $regs::regVM_CONTEXT0_CNTL.off,
            context_cntl_reset: 0,
            eng0_sem: $regs::regVM_INVALIDATE_ENG0_SEM.off,
            eng0_req: $regs::regVM_INVALIDATE_ENG0_REQ.off,
            eng0_ack: $regs::regVM_INVALIDATE_ENG0_ACK.off,
            eng0_range: $regs::regVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.off,
            base: $regs::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.off,
            start: $regs::regVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.off,
            end: $regs::regVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.off,
            fb_offset: $regs::regMC_VM_FB_OFFSET.off,
            lfb: $lfb,
            fb_base: $regs::regMC_VM_FB_LOCATION_BASE.off,
            fb_top: $regs::regMC_VM_FB_LOCATION_TOP.off,
            agp_top: $regs::regMC_VM_AGP_TOP.off,
            agp_bot: $regs::regMC_VM_AGP_BOT.off,
            agp_base: $regs::regMC_VM_AGP_BASE.off,
            aperture_low: $regs::regMC_VM_SYSTEM_APERTURE_LOW_ADDR.off,
            aperture_default: $regs::regMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB.off,
            aperture_high: $regs::regMC_VM_SYSTEM_APERTURE_HIGH_ADDR.off,
            l1_cntl: $regs::regMC_VM_MX_L1_TLB_CNTL.off,
            fields: Fields {
                depth: $regs::VM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH,
                block_size: $regs::VM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE,
                retry: $regs::VM_CONTEXT1_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
                range: $regs::VM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                dummy: $regs::VM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                pde0: $regs::VM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
                valid: $regs::VM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
                read: $regs::VM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
                write: $regs::VM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                execute: $regs::VM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                clear_fault: $regs::VM_INVALIDATE_ENG0_REQ__CLEAR_PROTECTION_FAULT_STATUS_ADDR,
                l1_ptes: $regs::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES,
                l2_ptes: $regs::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES,
                l2_pdes: [
                    $regs::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0,
                    $regs::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1,
                    $regs::VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2,
                ],
            },
        }
    };
}

static GFX9: Layout = gfx9!(gc9, Some(gc9::regMC_VM_XGMI_LFB_CNTL.off));
static MM9: Layout = gfx9!(mm9, None);

static GFX12: Layout = Layout {
    first: gc12::regGCMC_VM_FB_OFFSET.off,
    count: span(
        gc12::regGCMC_VM_FB_OFFSET,
        gc12::regGCVM_CONTEXT15_PAGE_TABLE_END_ADDR_HI32,
    ),
    l2_cntl3_reset: 0x8012_0007,
    semaphores: true,
    needs_semaphore: false,
    status_is_late: true,
    firmware_engines: 0x6c,
    l2_cntl2: gc12::regGCVM_L2_CNTL2.off,
    l2_cntl3: gc12::regGCVM_L2_CNTL3.off,
    fault_cntl: gc12::regGCVM_L2_PROTECTION_FAULT_CNTL.off,
    fault_status: gc12::regGCVM_L2_PROTECTION_FAULT_STATUS_LO32.off,
    fault_addr: gc12::regGCVM_L2_PROTECTION_FAULT_ADDR_LO32.off,
    fault_default: gc12::regGCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32.off,
    context0_cntl: gc12::regGCVM_CONTEXT0_CNTL.off,
    context_cntl_reset: 0x00ff_fc00,
    eng0_sem: gc12::regGCVM_INVALIDATE_ENG0_SEM.off,
    eng0_req: gc12::regGCVM_INVALIDATE_ENG0_REQ.off,
    eng0_ack: gc12::regGCVM_INVALIDATE_ENG0_ACK.off,
    eng0_range: gc12::regGCVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.off,
    base: gc12::regGCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.off,
    start: gc12::regGCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.off,
    end: gc12::regGCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.off,
    fb_offset: gc12::regGCMC_VM_FB_OFFSET.off,
    lfb: None,
    fb_base: gc12::regGCMC_VM_FB_LOCATION_BASE.off,
    fb_top: gc12::regGCMC_VM_FB_LOCATION_TOP.off,
    agp_top: gc12::regGCMC_VM_AGP_TOP.off,
    agp_bot: gc12::regGCMC_VM_AGP_BOT.off,
    agp_base: gc12::regGCMC_VM_AGP_BASE.off,
    aperture_low: gc12::regGCMC_VM_SYSTEM_APERTURE_LOW_ADDR.off,
    aperture_default: gc12::regGCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB.off,
    aperture_high: gc12::regGCMC_VM_SYSTEM_APERTURE_HIGH_ADDR.off,
    l1_cntl: gc12::regGCMC_VM_MX_L1_TLB_CNTL.off,
    fields: Fields {
        depth: gc12::GCVM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH,
        block_size: gc12::GCVM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE,
        retry: gc12::GCVM_CONTEXT1_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
        range: gc12::GCVM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        dummy: gc12::GCVM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        pde0: gc12::GCVM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
        valid: gc12::GCVM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
        read: gc12::GCVM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
        write: gc12::GCVM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        execute: gc12::GCVM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        clear_fault: gc12::GCVM_INVALIDATE_ENG0_REQ__CLEAR_PROTECTION_FAULT_STATUS_ADDR,
        l1_ptes: gc12::GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES,
        l2_ptes: gc12::GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES,
        l2_pdes: [
            gc12::GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0,
            gc12::GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1,
            gc12::GCVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2,
        ],
    },
};

static MM12: Layout = Layout {
    first: mm12::regMMMC_VM_FB_OFFSET.off,
    count: span(
        mm12::regMMMC_VM_FB_OFFSET,
        mm12::regMMVM_CONTEXT15_PAGE_TABLE_END_ADDR_HI32,
    ),
    l2_cntl3_reset: 0x8010_0007,
    semaphores: true,
    needs_semaphore: true,
    status_is_late: false,
    firmware_engines: 0x6c,
    l2_cntl2: mm12::regMMVM_L2_CNTL2.off,
    l2_cntl3: mm12::regMMVM_L2_CNTL3.off,
    fault_cntl: mm12::regMMVM_L2_PROTECTION_FAULT_CNTL.off,
    fault_status: mm12::regMMVM_L2_PROTECTION_FAULT_STATUS_LO32.off,
    fault_addr: mm12::regMMVM_L2_PROTECTION_FAULT_ADDR_LO32.off,
    fault_default: mm12::regMMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32.off,
    context0_cntl: mm12::regMMVM_CONTEXT0_CNTL.off,
    context_cntl_reset: 0x03ff_fc00,
    eng0_sem: mm12::regMMVM_INVALIDATE_ENG0_SEM.off,
    eng0_req: mm12::regMMVM_INVALIDATE_ENG0_REQ.off,
    eng0_ack: mm12::regMMVM_INVALIDATE_ENG0_ACK.off,
    eng0_range: mm12::regMMVM_INVALIDATE_ENG0_ADDR_RANGE_LO32.off,
    base: mm12::regMMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.off,
    start: mm12::regMMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.off,
    end: mm12::regMMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.off,
    fb_offset: mm12::regMMMC_VM_FB_OFFSET.off,
    lfb: None,
    fb_base: mm12::regMMMC_VM_FB_LOCATION_BASE.off,
    fb_top: mm12::regMMMC_VM_FB_LOCATION_TOP.off,
    agp_top: mm12::regMMMC_VM_AGP_TOP.off,
    agp_bot: mm12::regMMMC_VM_AGP_BOT.off,
    agp_base: mm12::regMMMC_VM_AGP_BASE.off,
    aperture_low: mm12::regMMMC_VM_SYSTEM_APERTURE_LOW_ADDR.off,
    aperture_default: mm12::regMMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB.off,
    aperture_high: mm12::regMMMC_VM_SYSTEM_APERTURE_HIGH_ADDR.off,
    l1_cntl: mm12::regMMMC_VM_MX_L1_TLB_CNTL.off,
    fields: Fields {
        depth: mm12::MMVM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH,
        block_size: mm12::MMVM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE,
        retry: mm12::MMVM_CONTEXT1_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
        range: mm12::MMVM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        dummy: mm12::MMVM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        pde0: mm12::MMVM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
        valid: mm12::MMVM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
        read: mm12::MMVM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
        write: mm12::MMVM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        execute: mm12::MMVM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        clear_fault: mm12::MMVM_INVALIDATE_ENG0_REQ__CLEAR_PROTECTION_FAULT_STATUS_ADDR,
        l1_ptes: mm12::MMVM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES,
        l2_ptes: mm12::MMVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES,
        l2_pdes: [
            mm12::MMVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0,
            mm12::MMVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1,
            mm12::MMVM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2,
        ],
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks assumptions of the layout about all generations: bits of single registers, and that
    /// 64-bit halves, engines and contexts are consecutive.
    #[test]
    fn hubs_differ_only_by_table() {
        assert_eq!(gc9::VM_CONTEXT1_CNTL__ENABLE_CONTEXT.mask, 1);
        for field in [
            gc12::GCVM_CONTEXT1_CNTL__ENABLE_CONTEXT,
            mm12::MMVM_CONTEXT1_CNTL__ENABLE_CONTEXT,
        ] {
            assert_eq!(field, gc9::VM_CONTEXT1_CNTL__ENABLE_CONTEXT);
        }
        for (ours, theirs) in [
            (
                gc12::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__VMID,
                gc9::VM_L2_PROTECTION_FAULT_STATUS__VMID,
            ),
            (
                gc12::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__CID,
                gc9::VM_L2_PROTECTION_FAULT_STATUS__CID,
            ),
            (
                gc12::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__PERMISSION_FAULTS,
                gc9::VM_L2_PROTECTION_FAULT_STATUS__PERMISSION_FAULTS,
            ),
            (
                gc12::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__RW,
                gc9::VM_L2_PROTECTION_FAULT_STATUS__RW,
            ),
            (
                gc12::GCMC_VM_MX_L1_TLB_CNTL__SYSTEM_ACCESS_MODE,
                gc9::MC_VM_MX_L1_TLB_CNTL__SYSTEM_ACCESS_MODE,
            ),
            (
                gc12::GCVM_L2_CNTL2__INVALIDATE_L2_CACHE,
                gc9::VM_L2_CNTL2__INVALIDATE_L2_CACHE,
            ),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!(
            gc12::regGCVM_CONTEXT15_PAGE_TABLE_BASE_ADDR_LO32.off,
            GFX12.base + 30
        );
        assert_eq!(
            gc12::regGCVM_INVALIDATE_ENG17_ADDR_RANGE_LO32.off,
            GFX12.eng0_range + 34
        );
        assert_eq!(mm12::regMMVM_CONTEXT15_CNTL.off, MM12.context0_cntl + 15);
        assert_eq!(mm12::regMMVM_INVALIDATE_ENG17_ACK.off, MM12.eng0_ack + 17);
        assert_eq!(gc12::regGCVM_INVALIDATE_ENG17_REQ.off, GFX12.eng0_req + 17);
    }

    #[test]
    fn every_register_of_a_hub_lies_in_its_span() {
        for layout in [&GFX9, &MM9, &GFX12, &MM12] {
            for off in [
                layout.l1_cntl,
                layout.fb_offset,
                layout.lfb.map_or(layout.first, |cntl| cntl + 1),
                layout.aperture_high,
                layout.agp_base,
                layout.end + 31,
                layout.eng0_sem,
                layout.eng0_range + 35,
                layout.l2_cntl3,
                layout.fault_status,
            ] {
                assert!(layout.covers(RegId::new(0, off)), "{off:#x}");
            }
            assert!(!layout.covers(RegId::new(1, layout.first)));
        }
    }
}
