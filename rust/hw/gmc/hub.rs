// SPDX-License-Identifier: GPL-2.0

//! GPUVM hubs: apertures, L1 and L2 TLB, contexts; shared by all versions.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    pte,
    regs::{name, Field, Reg, Value},
};

use super::super::names::names;
use crate::asic::mmio::Block;

/// Address layout of the hubs, as firmware programmed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct McLayout {
    /// First byte of the FB aperture (FB_LOCATION_BASE): of the VRAM of all GPUs of an xGMI hive.
    pub(crate) fb_start: u64,
    /// Last byte of the FB aperture (FB_LOCATION_TOP).
    pub(crate) fb_end: u64,
    /// Start of the card's VRAM in the FB aperture.
    pub(crate) vram_start: u64,
    /// Physical address of the card's VRAM in PTEs.
    pub(crate) vram_offset: u64,
    /// The card is a GPU of an xGMI hive.
    pub(crate) in_hive: bool,
}

/// Setup of VMID 0 and default pages.
pub(crate) struct HubSetup {
    /// The layout that `GmcHal::layout` returned.
    pub(crate) layout: McLayout,
    /// Physical address of the GART page table in VRAM.
    pub(crate) gart_table: u64,
    /// First byte of the GART aperture.
    pub(crate) gart_start: u64,
    /// Last byte of the GART aperture.
    pub(crate) gart_end: u64,
    /// Physical address in VRAM of the default page of the system aperture.
    pub(crate) scratch_pa: u64,
    /// Bus address of the default page of faulting accesses.
    pub(crate) dummy_dma: u64,
}

/// The type of a TLB invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushType {
    /// Invalidates translations.
    Legacy = 0,
    /// Invalidates translations and waits for requests that use them.
    Heavyweight = 2,
}

names! { $
    /// Registers and fields of GFXHUB and MMHUB in all versions.
    struct HubNames, hub_names of name {
        regs {
            MC_VM_FB_LOCATION_BASE { FB_BASE, },
            MC_VM_FB_LOCATION_TOP { FB_TOP, },
            MC_VM_AGP_BASE,
            MC_VM_AGP_BOT,
            MC_VM_AGP_TOP,
            MC_VM_SYSTEM_APERTURE_LOW_ADDR,
            MC_VM_SYSTEM_APERTURE_HIGH_ADDR,
            MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB,
            MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB,
            MC_VM_MX_L1_TLB_CNTL {
                ENABLE_L1_TLB,
                SYSTEM_ACCESS_MODE,
                ENABLE_ADVANCED_DRIVER_MODEL,
                SYSTEM_APERTURE_UNMAPPED_ACCESS,
                MTYPE,
            },
            VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
            VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32,
            VM_L2_PROTECTION_FAULT_CNTL {
                RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
                PDE1_PROTECTION_FAULT_ENABLE_DEFAULT,
                PDE2_PROTECTION_FAULT_ENABLE_DEFAULT,
                TRANSLATE_FURTHER_PROTECTION_FAULT_ENABLE_DEFAULT,
                NACK_PROTECTION_FAULT_ENABLE_DEFAULT,
                DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
                READ_PROTECTION_FAULT_ENABLE_DEFAULT,
                WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
                EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
                CRASH_ON_NO_RETRY_FAULT,
                CRASH_ON_RETRY_FAULT,
                CLEAR_PROTECTION_FAULT_STATUS_ADDR,
            },
            VM_L2_PROTECTION_FAULT_CNTL2 { ACTIVE_PAGE_MIGRATION_PTE_READ_RETRY, },
            VM_L2_CNTL {
                ENABLE_L2_CACHE,
                L2_PDE0_CACHE_TAG_GENERATION_MODE,
                PDE_FAULT_CLASSIFICATION,
                CONTEXT1_IDENTITY_ACCESS_MODE,
                IDENTITY_MODE_FRAGMENT_SIZE,
            },
            VM_L2_CNTL2 { INVALIDATE_ALL_L1_TLBS, INVALIDATE_L2_CACHE, },
            VM_L2_CNTL3 { BANK_SELECT, L2_CACHE_BIGK_FRAGMENT_SIZE, },
            VM_L2_CNTL4 { VMC_TAP_PDE_REQUEST_PHYSICAL, VMC_TAP_PTE_REQUEST_PHYSICAL, },
            VM_CONTEXT0_CNTL {
                ENABLE_CONTEXT,
                PAGE_TABLE_DEPTH,
                RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
            },
            VM_CONTEXT1_CNTL {
                ENABLE_CONTEXT,
                PAGE_TABLE_DEPTH,
                RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
                VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
                READ_PROTECTION_FAULT_ENABLE_DEFAULT,
                WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
                EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
                PAGE_TABLE_BLOCK_SIZE,
                RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
                RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
                VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
                READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
                WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
                EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            },
            VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
            VM_CONTEXT1_PAGE_TABLE_BASE_ADDR_LO32,
            VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
            VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
            VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
            VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32,
            VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32,
            VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32,
            VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32,
            VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32,
            VM_INVALIDATE_ENG0_SEM,
            VM_INVALIDATE_ENG0_REQ {
                PER_VMID_INVALIDATE_REQ,
                INVALIDATE_L2_PTES,
                INVALIDATE_L2_PDE0,
                INVALIDATE_L2_PDE1,
                INVALIDATE_L2_PDE2,
                INVALIDATE_L1_PTES,
                FLUSH_TYPE,
            },
            VM_INVALIDATE_ENG0_ACK,
            VM_INVALIDATE_ENG0_ADDR_RANGE_LO32,
            VM_INVALIDATE_ENG0_ADDR_RANGE_HI32,
            VM_L2_CNTL5,
        }
    }
}

/// Numbers of a version of the hubs.
pub(crate) struct HubNumbers {
    /// Further fields of MC_VM_MX_L1_TLB_CNTL.
    pub(crate) l1_tlb: &'static [(Field<name::MC_VM_MX_L1_TLB_CNTL>, u32)],
    /// Further fields of VM_L2_CNTL.
    pub(crate) l2_cntl: &'static [(Field<name::VM_L2_CNTL>, u32)],
    /// Further fields of VM_CONTEXT0_CNTL.
    pub(crate) context0: &'static [(Field<name::VM_CONTEXT0_CNTL>, u32)],
    /// VM_L2_CNTL3.BANK_SELECT.
    pub(crate) bank_select: u32,
    /// VM_L2_CNTL3.L2_CACHE_BIGK_FRAGMENT_SIZE.
    pub(crate) big_fragment: u32,
    /// PAGE_TABLE_DEPTH: directory levels above the page table.
    pub(crate) depth: u32,
    /// PAGE_TABLE_BLOCK_SIZE: log2 of the page table's entries, less 9.
    pub(crate) block_size: u32,
    /// Retry faults are supported.
    pub(crate) retry: bool,
}

/// A hub.
pub(crate) struct Hub {
    /// Its registers.
    pub(crate) names: HubNames,
    /// Fault status register.
    pub(crate) fault_status: Reg<name::VM_L2_PROTECTION_FAULT_STATUS>,
    /// Default of VM_L2_CNTL3 (`regVM_L2_CNTL3_DEFAULT`, `gfxhub_v1_2.c`, `mmhub_v1_8.c`).
    pub(crate) l2_cntl3: Value<name::VM_L2_CNTL3>,
    /// Numbers of the version.
    pub(crate) numbers: &'static HubNumbers,
}

/// Default of VM_L2_CNTL4 (`reg..VM_L2_CNTL4_DEFAULT`, `gfxhub_v12_0.c`, `mmhub_v1_8.c`).
const L2_CNTL4: Value<name::VM_L2_CNTL4> = Value::new(0x0000_00c1);
/// Invalidation engines of a hub.
const ENGINES: u32 = 18;
/// Invalidation engine of the CPU (`eng = 17`, `gmc_v9_0_flush_gpu_tlb`).
pub(crate) const CPU_ENGINE: u32 = 17;
/// Contexts besides VMID 0.
const USER_CONTEXTS: u32 = 15;
/// Stride of a context's 64-bit registers, in dwords.
const ADDR_STRIDE: u32 = 2;
/// MTYPE of L1 TLB accesses.
const MTYPE_UC: u32 = pte::MTYPE_UC as u32;
/// AGP_BOT of a disabled AGP aperture, in units of 16 MiB.
const AGP_OFF_BOTTOM: u32 = 0x00ff_ffff;

/// Reads a register, sets the fields of both lists, writes it back.
fn set<R>(
    b: Block<'_>,
    reg: Reg<R>,
    common: &[(Field<R>, u32)],
    own: &[(Field<R>, u32)],
) -> Result {
    b.wr(reg, b.rd(reg)?.with(common).with(own))
}

impl HubNames {
    /// Reads FB_LOCATION_BASE and _TOP, in units of 16 MiB.
    pub(super) fn frame_buffer(&self, b: Block<'_>) -> Result<(u32, u32)> {
        let base = b.rd(self.MC_VM_FB_LOCATION_BASE)?;
        let top = b.rd(self.MC_VM_FB_LOCATION_TOP)?;
        Ok((
            self.MC_VM_FB_LOCATION_BASE__FB_BASE.get(base),
            self.MC_VM_FB_LOCATION_TOP__FB_TOP.get(top),
        ))
    }

    /// Returns the invalidation request of a VMID (`gmc_v9_0_get_invalidate_req`).
    pub(crate) fn invalidate_request(
        &self,
        vmid: u32,
        kind: FlushType,
    ) -> Value<name::VM_INVALIDATE_ENG0_REQ> {
        self.VM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ
            .put(1 << vmid)
            | self.VM_INVALIDATE_ENG0_REQ__FLUSH_TYPE.put(kind as u32)
            | self.VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PTES.put(1)
            | self.VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE0.put(1)
            | self.VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE1.put(1)
            | self.VM_INVALIDATE_ENG0_REQ__INVALIDATE_L2_PDE2.put(1)
            | self.VM_INVALIDATE_ENG0_REQ__INVALIDATE_L1_PTES.put(1)
    }

    /// Invalidates a VMID by the CPU's engine. `ETIMEDOUT` when the ACK does not come.
    pub(crate) fn invalidate(&self, b: Block<'_>, vmid: u32, kind: FlushType) -> Result {
        let request = self.invalidate_request(vmid, kind);
        b.wr_at(self.VM_INVALIDATE_ENG0_REQ, CPU_ENGINE, request)?;
        b.poll(self.VM_INVALIDATE_ENG0_ACK, CPU_ENGINE, |ack| {
            ack.raw() & (1 << vmid) != 0
        })?;
        Ok(())
    }
}

impl Hub {
    /// Programs VMID 0's page table and the AGP and system apertures.
    pub(super) fn start_apertures(&self, b: Block<'_>, s: &HubSetup) -> Result {
        let n = &self.names;
        let table = s.gart_table | pte::VALID;
        b.wr(n.VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, lo(table))?;
        b.wr_at(n.VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, 1, hi(table))?;
        let (start, end) = (s.gart_start >> 12, s.gart_end >> 12);
        b.wr(n.VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, lo(start))?;
        b.wr_at(n.VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, 1, hi(start))?;
        b.wr(n.VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, lo(end))?;
        b.wr_at(n.VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, 1, hi(end))?;

        // AGP is disabled: bottom above top.
        b.wr(n.MC_VM_AGP_BASE, 0)?;
        b.wr(n.MC_VM_AGP_BOT, AGP_OFF_BOTTOM)?;
        b.wr(n.MC_VM_AGP_TOP, 0)?;
        let (first, last) = (s.layout.fb_start >> 18, s.layout.fb_end >> 18);
        b.wr(n.MC_VM_SYSTEM_APERTURE_LOW_ADDR, lo(first))?;
        b.wr(n.MC_VM_SYSTEM_APERTURE_HIGH_ADDR, lo(last))?;
        let (stray, fault) = (s.scratch_pa >> 12, s.dummy_dma >> 12);
        b.wr(n.MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB, lo(stray))?;
        b.wr(n.MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB, hi(stray))?;
        b.wr(n.VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32, lo(fault))?;
        b.wr(n.VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32, hi(fault))?;
        let retry = n.VM_L2_PROTECTION_FAULT_CNTL2__ACTIVE_PAGE_MIGRATION_PTE_READ_RETRY;
        b.set(n.VM_L2_PROTECTION_FAULT_CNTL2, &[(retry, 1)])
    }

    /// Programs L1 TLB and L2 cache.
    pub(super) fn start_caches(&self, b: Block<'_>) -> Result {
        let (n, v) = (&self.names, self.numbers);
        let l1 = [
            (n.MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB, 1),
            (n.MC_VM_MX_L1_TLB_CNTL__SYSTEM_ACCESS_MODE, 3),
            (n.MC_VM_MX_L1_TLB_CNTL__ENABLE_ADVANCED_DRIVER_MODEL, 1),
            (n.MC_VM_MX_L1_TLB_CNTL__SYSTEM_APERTURE_UNMAPPED_ACCESS, 0),
            (n.MC_VM_MX_L1_TLB_CNTL__MTYPE, MTYPE_UC),
        ];
        set(b, n.MC_VM_MX_L1_TLB_CNTL, &l1, v.l1_tlb)?;
        let l2 = [
            (n.VM_L2_CNTL__ENABLE_L2_CACHE, 1),
            (n.VM_L2_CNTL__L2_PDE0_CACHE_TAG_GENERATION_MODE, 0),
            (n.VM_L2_CNTL__PDE_FAULT_CLASSIFICATION, 0),
            (n.VM_L2_CNTL__CONTEXT1_IDENTITY_ACCESS_MODE, 1),
            (n.VM_L2_CNTL__IDENTITY_MODE_FRAGMENT_SIZE, 0),
        ];
        set(b, n.VM_L2_CNTL, &l2, v.l2_cntl)?;
        b.set(
            n.VM_L2_CNTL2,
            &[
                (n.VM_L2_CNTL2__INVALIDATE_ALL_L1_TLBS, 1),
                (n.VM_L2_CNTL2__INVALIDATE_L2_CACHE, 1),
            ],
        )?;
        let cntl3 = [
            (n.VM_L2_CNTL3__BANK_SELECT, v.bank_select),
            (n.VM_L2_CNTL3__L2_CACHE_BIGK_FRAGMENT_SIZE, v.big_fragment),
        ];
        b.wr(n.VM_L2_CNTL3, self.l2_cntl3.with(&cntl3))?;
        let cntl4 = [
            (n.VM_L2_CNTL4__VMC_TAP_PDE_REQUEST_PHYSICAL, 0),
            (n.VM_L2_CNTL4__VMC_TAP_PTE_REQUEST_PHYSICAL, 0),
        ];
        b.wr(n.VM_L2_CNTL4, L2_CNTL4.with(&cntl4))
    }

    /// Programs the contexts and the fault handling.
    pub(super) fn start_contexts(&self, b: Block<'_>) -> Result {
        let n = &self.names;
        let context0 = [
            (n.VM_CONTEXT0_CNTL__ENABLE_CONTEXT, 1),
            (n.VM_CONTEXT0_CNTL__PAGE_TABLE_DEPTH, 0),
            (
                n.VM_CONTEXT0_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
                0,
            ),
        ];
        set(b, n.VM_CONTEXT0_CNTL, &context0, self.numbers.context0)?;
        b.wr(n.VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32, !0)?;
        b.wr(n.VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32, 0xf)?;
        b.wr(n.VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32, 0)?;
        b.wr(n.VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32, 0)?;
        b.wr(n.VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32, 0)?;
        b.wr(n.VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32, 0)?;

        let (start, end) = (
            n.VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
            n.VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
        );
        let last = (1u64 << (pte::VA_BITS - pte::PAGE_SHIFT)) - 1;
        for i in 0..USER_CONTEXTS {
            let value = b.rd_at(n.VM_CONTEXT1_CNTL, i)?;
            b.wr_at(n.VM_CONTEXT1_CNTL, i, self.context_cntl(value))?;
            let at = (i + 1) * ADDR_STRIDE;
            b.wr_at(start, at, 0)?;
            b.wr_at(start, at + 1, 0)?;
            b.wr_at(end, at, lo(last))?;
            b.wr_at(end, at + 1, hi(last))?;
        }
        for engine in 0..ENGINES {
            let at = engine * ADDR_STRIDE;
            b.wr_at(n.VM_INVALIDATE_ENG0_ADDR_RANGE_LO32, at, !0)?;
            b.wr_at(n.VM_INVALIDATE_ENG0_ADDR_RANGE_HI32, at, 0x1f)?;
        }
        b.set(n.VM_L2_PROTECTION_FAULT_CNTL, &self.fault_cntl())?;
        let interrupts = self.interrupts();
        for i in 0..=USER_CONTEXTS {
            let value = b.rd_at(n.VM_CONTEXT0_CNTL, i)?;
            b.wr_at(n.VM_CONTEXT0_CNTL, i, value.with(&interrupts))?;
        }
        Ok(())
    }

    /// Returns VM_CONTEXTn_CNTL of a user VMID, from its previous value.
    pub(crate) fn context_cntl(
        &self,
        from: Value<name::VM_CONTEXT1_CNTL>,
    ) -> Value<name::VM_CONTEXT1_CNTL> {
        let (n, v) = (&self.names, self.numbers);
        from.with(&[
            (n.VM_CONTEXT1_CNTL__ENABLE_CONTEXT, 1),
            (n.VM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH, v.depth),
            (n.VM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_DEFAULT, 1),
            (
                n.VM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (n.VM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_DEFAULT, 1),
            (n.VM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_DEFAULT, 1),
            (n.VM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_DEFAULT, 1),
            (n.VM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_DEFAULT, 1),
            (
                n.VM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (n.VM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE, v.block_size),
            (
                n.VM_CONTEXT1_CNTL__RETRY_PERMISSION_OR_INVALID_PAGE_FAULT,
                v.retry.into(),
            ),
        ])
    }

    /// Fault interrupt enables of a context.
    pub(crate) fn interrupts(&self) -> [(Field<name::VM_CONTEXT1_CNTL>, u32); 7] {
        let n = &self.names;
        [
            n.VM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            n.VM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            n.VM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
            n.VM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
            n.VM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
            n.VM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            n.VM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        ]
        .map(|field| (field, 1))
    }

    /// Faults are redirected to the default page; they do not crash the hub.
    fn fault_cntl(&self) -> [(Field<name::VM_L2_PROTECTION_FAULT_CNTL>, u32); 13] {
        let n = &self.names;
        [
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__RANGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__PDE0_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__PDE1_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__PDE2_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__TRANSLATE_FURTHER_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__NACK_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__VALID_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__READ_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__WRITE_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (
                n.VM_L2_PROTECTION_FAULT_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_DEFAULT,
                1,
            ),
            (n.VM_L2_PROTECTION_FAULT_CNTL__CRASH_ON_NO_RETRY_FAULT, 0),
            (n.VM_L2_PROTECTION_FAULT_CNTL__CRASH_ON_RETRY_FAULT, 0),
        ]
    }

    /// Disables translation.
    pub(super) fn stop(&self, b: Block<'_>) -> Result {
        let n = &self.names;
        for i in 0..=USER_CONTEXTS {
            b.wr_at(n.VM_CONTEXT0_CNTL, i, 0)?;
        }
        b.set(
            n.MC_VM_MX_L1_TLB_CNTL,
            &[
                (n.MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB, 0),
                (n.MC_VM_MX_L1_TLB_CNTL__ENABLE_ADVANCED_DRIVER_MODEL, 0),
            ],
        )?;
        b.set(n.VM_L2_CNTL, &[(n.VM_L2_CNTL__ENABLE_L2_CACHE, 0)])?;
        b.wr(n.VM_L2_CNTL3, 0)
    }

    /// Reads and clears the fault status.
    pub(super) fn take_fault_status(&self, b: Block<'_>) -> Result<u32> {
        let n = &self.names;
        let status = b.rd(self.fault_status)?;
        let clear = n.VM_L2_PROTECTION_FAULT_CNTL__CLEAR_PROTECTION_FAULT_STATUS_ADDR;
        b.set(n.VM_L2_PROTECTION_FAULT_CNTL, &[(clear, 1)])?;
        Ok(status.raw())
    }
}
