// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of a translation hub.
//!
//! The graphics hub and the memory hub have the same block of registers; the memory hub's lies
//! 0x340 dwords higher. Everything here uses the offsets of the graphics hub.

use std::sync::atomic::{AtomicU32, Ordering};

use rkfd_abi::regs::{gc_9_4_3 as gc, mmhub_1_8_0 as mmhub};

use super::tlb::Entry;
use super::walk::Context;
use super::{Access, FaultKind, Hub, VmFault};
use crate::log::Strict;
use crate::regs::RegId;
use crate::strict;

/// First register of the block.
const FIRST: u32 = gc::regVM_L2_CNTL.off;
const COUNT: u32 = gc::regMC_VM_MX_L1_TLB_CNTL.off + 1 - FIRST;
/// Distance of the memory hub's block.
const MM_SHIFT: u32 = mmhub::regVM_L2_CNTL.off - FIRST;

const L2_CNTL2: u32 = gc::regVM_L2_CNTL2.off;
const L2_CNTL3: u32 = gc::regVM_L2_CNTL3.off;
const L2_FAULT_CNTL: u32 = gc::regVM_L2_PROTECTION_FAULT_CNTL.off;
const L2_FAULT_STATUS: u32 = gc::regVM_L2_PROTECTION_FAULT_STATUS.off;
const L2_FAULT_ADDR_LO: u32 = gc::regVM_L2_PROTECTION_FAULT_ADDR_LO32.off;
const L2_FAULT_ADDR_HI: u32 = gc::regVM_L2_PROTECTION_FAULT_ADDR_HI32.off;
const L2_FAULT_DEFAULT_LO: u32 = gc::regVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32.off;
const CONTEXT0_CNTL: u32 = gc::regVM_CONTEXT0_CNTL.off;
const ENG0_SEM: u32 = gc::regVM_INVALIDATE_ENG0_SEM.off;
const ENG0_REQ: u32 = gc::regVM_INVALIDATE_ENG0_REQ.off;
const ENG0_ACK: u32 = gc::regVM_INVALIDATE_ENG0_ACK.off;
const CONTEXT0_BASE_LO: u32 = gc::regVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.off;
const CONTEXT0_START_LO: u32 = gc::regVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.off;
const CONTEXT0_END_LO: u32 = gc::regVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.off;
const FB_OFFSET: u32 = gc::regMC_VM_FB_OFFSET.off;
const FB_LOCATION_BASE: u32 = gc::regMC_VM_FB_LOCATION_BASE.off;
const FB_LOCATION_TOP: u32 = gc::regMC_VM_FB_LOCATION_TOP.off;
const AGP_TOP: u32 = gc::regMC_VM_AGP_TOP.off;
const AGP_BOT: u32 = gc::regMC_VM_AGP_BOT.off;
const AGP_BASE: u32 = gc::regMC_VM_AGP_BASE.off;
const APERTURE_LOW: u32 = gc::regMC_VM_SYSTEM_APERTURE_LOW_ADDR.off;
const APERTURE_HIGH: u32 = gc::regMC_VM_SYSTEM_APERTURE_HIGH_ADDR.off;
const L1_TLB_CNTL: u32 = gc::regMC_VM_MX_L1_TLB_CNTL.off;

/// Invalidation engines of a hub.
pub const ENGINES: u32 = 18;

/// Permission bits of a fault, as `PERMISSION_FAULTS` and the interrupt entry have them.
mod permission {
    pub const VALID: u32 = 1;
    pub const READ: u32 = 2;
    pub const WRITE: u32 = 4;
    pub const EXECUTE: u32 = 8;
}

/// What a register write asks the hub to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// An invalidation request, in the layout of the REQ register.
    Request(u32),
    /// All translations (`VM_L2_CNTL2`).
    All,
}

/// A fault as the registers and the interrupt entry describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latched {
    /// Permission bits.
    pub permission: u32,
    /// An interrupt is due.
    pub interrupt: bool,
    /// The access goes on with the default page.
    pub default_page: bool,
}

/// See the module.
pub struct HubRegs {
    values: Box<[AtomicU32]>,
    fb_location: u32,
    vram_size: u64,
}

impl HubRegs {
    /// Power-on state of a card whose VRAM begins at `fb_location` << 24.
    pub fn new(fb_location: u32, vram_size: u64) -> Self {
        let regs = Self {
            values: (0..COUNT).map(|_| AtomicU32::new(0)).collect(),
            fb_location,
            vram_size,
        };
        regs.reset();
        regs
    }

    /// Power-on state; the video BIOS has placed VRAM.
    pub fn reset(&self) {
        for value in &self.values {
            value.store(0, Ordering::Relaxed);
        }
        self.set(FB_LOCATION_BASE, self.fb_location);
        let top = (u64::from(self.fb_location) << 24) + self.vram_size - 1;
        self.set(FB_LOCATION_TOP, (top >> 24) as u32);
        self.set(L2_CNTL3, 0x8010_0007);
        // The AGP aperture is off: its bottom lies above its top.
        self.set(AGP_BOT, 0xff_ffff);
    }

    fn value(&self, reg: u32) -> &AtomicU32 {
        &self.values[(reg - FIRST) as usize]
    }

    fn get(&self, reg: u32) -> u32 {
        self.value(reg).load(Ordering::Acquire)
    }

    fn set(&self, reg: u32, value: u32) {
        self.value(reg).store(value, Ordering::Release);
    }

    fn get64(&self, lo: u32) -> u64 {
        u64::from(self.get(lo)) | u64::from(self.get(lo + 1)) << 32
    }

    /// The offset inside the block, if the register belongs to it.
    pub fn normalise(hub: Hub, reg: RegId) -> Option<u32> {
        let shift = match hub {
            Hub::Gfx => 0,
            Hub::Mm => MM_SHIFT,
        };
        let off = reg.off.checked_sub(shift)?;
        (reg.seg == 0 && (FIRST..FIRST + COUNT).contains(&off)).then_some(off)
    }

    /// A read by the guest.
    pub fn read(&self, hub: Hub, reg: RegId) -> u32 {
        match Self::normalise(hub, reg) {
            // Nobody else competes for an engine, so the semaphore is always granted.
            Some(off) if (ENG0_SEM..ENG0_SEM + ENGINES).contains(&off) => 1,
            Some(off) => self.get(off),
            None => 0,
        }
    }

    /// A write by the guest; returns which translations it drops.
    pub fn write(&self, hub: Hub, reg: RegId, value: u32) -> Option<Drop> {
        let off = Self::normalise(hub, reg)?;
        match off {
            _ if (ENG0_REQ..ENG0_REQ + ENGINES).contains(&off) => {
                self.set(off, value);
                // The request is carried out before the guest can read again.
                self.set(off - ENG0_REQ + ENG0_ACK, value & 0xffff);
                if gc::VM_INVALIDATE_ENG0_REQ__CLEAR_PROTECTION_FAULT_STATUS_ADDR.is_set(value) {
                    self.clear_fault();
                }
                return Some(Drop::Request(value));
            }
            L2_CNTL2 => {
                let bits = gc::VM_L2_CNTL2__INVALIDATE_ALL_L1_TLBS.mask
                    | gc::VM_L2_CNTL2__INVALIDATE_L2_CACHE.mask;
                self.set(off, value & !bits);
                return (value & bits != 0).then_some(Drop::All);
            }
            _ if (ENG0_ACK..ENG0_ACK + ENGINES).contains(&off) => {}
            L2_FAULT_STATUS | L2_FAULT_ADDR_LO | L2_FAULT_ADDR_HI => {}
            L2_FAULT_CNTL => {
                if value & 1 != 0 {
                    self.clear_fault();
                }
                self.set(off, value & !1);
            }
            _ => self.set(off, value),
        }
        None
    }

    fn clear_fault(&self) {
        for reg in [L2_FAULT_STATUS, L2_FAULT_ADDR_LO, L2_FAULT_ADDR_HI] {
            self.set(reg, 0);
        }
    }

    /// Physical address of the first byte of VRAM, as page tables use it.
    pub fn fb_offset(&self) -> u64 {
        u64::from(self.get(FB_OFFSET)) << 24
    }

    /// Page-table root of a VMID.
    pub fn root(&self, vmid: u8) -> u64 {
        self.get64(CONTEXT0_BASE_LO + 2 * u32::from(vmid & 15))
    }

    /// Sets the page-table root of a VMID.
    pub fn set_root(&self, vmid: u8, root: u64) {
        let lo = CONTEXT0_BASE_LO + 2 * u32::from(vmid & 15);
        self.set(lo, root as u32);
        self.set(lo + 1, (root >> 32) as u32);
    }

    /// The context of a VMID as the walker needs it.
    pub fn context(&self, vmid: u8) -> Context {
        let vmid = u32::from(vmid & 15);
        let cntl = self.get(CONTEXT0_CNTL + vmid);
        Context {
            enabled: gc::VM_CONTEXT1_CNTL__ENABLE_CONTEXT.is_set(cntl),
            depth: gc::VM_CONTEXT1_CNTL__PAGE_TABLE_DEPTH.get(cntl) as u8,
            block_size: gc::VM_CONTEXT1_CNTL__PAGE_TABLE_BLOCK_SIZE.get(cntl) as u8,
            root: self.get64(CONTEXT0_BASE_LO + 2 * vmid),
            first_page: self.get64(CONTEXT0_START_LO + 2 * vmid),
            last_page: self.get64(CONTEXT0_END_LO + 2 * vmid),
        }
    }

    /// For VMID 0: the translation of an address that the system aperture covers, or `None` if
    /// the address belongs to context 0.
    pub fn unmapped(&self, va: u64, strict: &Strict) -> Option<Result<Entry, FaultKind>> {
        let l1 = self.get(L1_TLB_CNTL);
        let mode = gc::MC_VM_MX_L1_TLB_CNTL__SYSTEM_ACCESS_MODE.get(l1);
        if !gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB.is_set(l1) || mode != 3 {
            strict!(
                strict,
                "gmc",
                "VMID 0 access to {va:#x} with MC_VM_MX_L1_TLB_CNTL {l1:#x}: the L1 TLB must be \
                 enabled with system access mode 3"
            );
            return Some(Err(FaultKind::ContextDisabled));
        }
        let low = u64::from(self.get(APERTURE_LOW)) << 18;
        let high = u64::from(self.get(APERTURE_HIGH)) << 18 | 0x3_ffff;
        if !(low..=high).contains(&va) {
            return None;
        }
        let page = va & !0xfff;
        let entry = |page, system| Entry {
            page,
            system,
            read: true,
            write: true,
            execute: true,
        };
        let fb = u64::from(self.get(FB_LOCATION_BASE) & 0xff_ffff) << 24;
        let fb_top = u64::from(self.get(FB_LOCATION_TOP) & 0xff_ffff) << 24 | 0xff_ffff;
        if (fb..=fb_top).contains(&va) && page - fb < self.vram_size {
            return Some(Ok(entry(page - fb, false)));
        }
        let agp = u64::from(self.get(AGP_BOT)) << 24;
        let agp_top = u64::from(self.get(AGP_TOP)) << 24 | 0xff_ffff;
        if (agp..=agp_top).contains(&va) {
            let base = u64::from(self.get(AGP_BASE)) << 24;
            return Some(Ok(entry(page - agp + base, true)));
        }
        strict!(
            strict,
            "gmc",
            "VMID 0 access to {va:#x}: inside the system aperture, but neither VRAM nor AGP"
        );
        Some(Err(FaultKind::Range))
    }

    /// Records a fault in the status registers and says what follows from it.
    pub fn latch(&self, fault: &VmFault, client: u16) -> Latched {
        let (access, rw) = match fault.access {
            Access::Read => (permission::READ, 0),
            Access::Write => (permission::WRITE, 1),
            Access::Execute => (permission::EXECUTE, 0),
            Access::Atomic => (permission::WRITE, 1),
        };
        let (permission, walker) = match fault.kind {
            FaultKind::Range | FaultKind::ContextDisabled => (0, 1),
            FaultKind::Pde(level) => (permission::VALID | access, 2 + u32::from(level)),
            FaultKind::NotPresent => (permission::VALID | access, 0),
            FaultKind::Read => (permission::READ, 0),
            FaultKind::Write => (permission::WRITE, 0),
            FaultKind::Execute => (permission::EXECUTE, 0),
            FaultKind::Misaligned | FaultKind::Bus => (0, 6),
        };
        let old = self.get(L2_FAULT_STATUS);
        if old == 0 {
            use gc::*;
            let atomic = u32::from(fault.access == Access::Atomic);
            self.set(
                L2_FAULT_STATUS,
                VM_L2_PROTECTION_FAULT_STATUS__WALKER_ERROR.put(walker)
                    | VM_L2_PROTECTION_FAULT_STATUS__PERMISSION_FAULTS.put(permission)
                    | VM_L2_PROTECTION_FAULT_STATUS__CID.put(client.into())
                    | VM_L2_PROTECTION_FAULT_STATUS__RW.put(rw)
                    | VM_L2_PROTECTION_FAULT_STATUS__ATOMIC.put(atomic)
                    | VM_L2_PROTECTION_FAULT_STATUS__VMID.put(u32::from(fault.vmid & 15)),
            );
            self.set(L2_FAULT_ADDR_LO, (fault.va >> 12) as u32);
            self.set(L2_FAULT_ADDR_HI, (fault.va >> 44) as u32);
        } else {
            self.set(L2_FAULT_STATUS, old | 1);
        }
        // Interrupt and default-page enables of the context are pairs of bits.
        let pair = match fault.kind {
            FaultKind::Range | FaultKind::ContextDisabled => {
                gc::VM_CONTEXT1_CNTL__RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT
            }
            FaultKind::Misaligned | FaultKind::Bus => {
                gc::VM_CONTEXT1_CNTL__DUMMY_PAGE_PROTECTION_FAULT_ENABLE_INTERRUPT
            }
            FaultKind::Pde(_) => gc::VM_CONTEXT1_CNTL__PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
            FaultKind::NotPresent => gc::VM_CONTEXT1_CNTL__VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
            FaultKind::Read => gc::VM_CONTEXT1_CNTL__READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
            FaultKind::Write => gc::VM_CONTEXT1_CNTL__WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            FaultKind::Execute => gc::VM_CONTEXT1_CNTL__EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
        }
        .shift;
        let cntl = self.get(CONTEXT0_CNTL + u32::from(fault.vmid & 15));
        Latched {
            permission,
            interrupt: cntl >> pair & 1 != 0,
            default_page: cntl >> (pair + 1) & 1 != 0,
        }
    }

    /// Bus address of the page that stands in for a faulting one.
    pub fn default_page(&self) -> u64 {
        self.get64(L2_FAULT_DEFAULT_LO) << 12
    }
}
