// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of a translation hub.
//!
//! The graphics hub and the memory hub have the same block of registers; the memory hub's lies
//! 0x340 dwords higher. Everything here uses the offsets of the graphics hub.

use std::sync::atomic::{AtomicU32, Ordering};

use super::tlb::Entry;
use super::walk::Context;
use super::{Access, FaultKind, Hub, VmFault};
use crate::log::Strict;
use crate::regs::RegId;
use crate::strict;

/// First register of the block.
const FIRST: u32 = 0x820;
const COUNT: u32 = 0x160;
/// Distance of the memory hub's block.
const MM_SHIFT: u32 = 0x340;

const L2_FAULT_CNTL: u32 = 0x827;
const L2_FAULT_STATUS: u32 = 0x82b;
const L2_FAULT_ADDR_LO: u32 = 0x82c;
const L2_FAULT_ADDR_HI: u32 = 0x82d;
const L2_FAULT_DEFAULT_LO: u32 = 0x82e;
const CONTEXT0_CNTL: u32 = 0x860;
const ENG0_SEM: u32 = 0x871;
const ENG0_REQ: u32 = 0x883;
const ENG0_ACK: u32 = 0x895;
const CONTEXT0_BASE_LO: u32 = 0x8cb;
const CONTEXT0_START_LO: u32 = 0x8eb;
const CONTEXT0_END_LO: u32 = 0x90b;
const FB_OFFSET: u32 = 0x947;
const FB_LOCATION_BASE: u32 = 0x95c;
const FB_LOCATION_TOP: u32 = 0x95d;
const AGP_TOP: u32 = 0x95e;
const AGP_BOT: u32 = 0x95f;
const AGP_BASE: u32 = 0x960;
const APERTURE_LOW: u32 = 0x961;
const APERTURE_HIGH: u32 = 0x962;
const L1_TLB_CNTL: u32 = 0x963;

/// Invalidation engines of a hub.
pub const ENGINES: u32 = 18;

/// Permission bits of a fault, as `PERMISSION_FAULTS` and the interrupt entry have them.
mod permission {
    pub const VALID: u32 = 1;
    pub const READ: u32 = 2;
    pub const WRITE: u32 = 4;
    pub const EXECUTE: u32 = 8;
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

    /// A write by the guest; returns an invalidation request if it was one.
    pub fn write(&self, hub: Hub, reg: RegId, value: u32) -> Option<u32> {
        let off = Self::normalise(hub, reg)?;
        match off {
            _ if (ENG0_REQ..ENG0_REQ + ENGINES).contains(&off) => {
                self.set(off, value);
                // The request is carried out before the guest can read again.
                self.set(off - ENG0_REQ + ENG0_ACK, value & 0xffff);
                if value >> 23 & 1 != 0 {
                    self.clear_fault();
                }
                return Some(value);
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
            enabled: cntl & 1 != 0,
            depth: (cntl >> 1 & 3) as u8,
            block_size: (cntl >> 3 & 15) as u8,
            root: self.get64(CONTEXT0_BASE_LO + 2 * vmid),
            first_page: self.get64(CONTEXT0_START_LO + 2 * vmid),
            last_page: self.get64(CONTEXT0_END_LO + 2 * vmid),
        }
    }

    /// For VMID 0: the translation of an address that the system aperture covers, or `None` if
    /// the address belongs to context 0.
    pub fn unmapped(&self, va: u64, strict: &Strict) -> Option<Result<Entry, FaultKind>> {
        let l1 = self.get(L1_TLB_CNTL);
        if l1 & 1 == 0 || l1 >> 3 & 3 != 3 {
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
    pub fn latch(&self, fault: &VmFault, client: u8) -> Latched {
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
            let atomic = u32::from(fault.access == Access::Atomic);
            self.set(
                L2_FAULT_STATUS,
                walker << 1
                    | permission << 4
                    | u32::from(client) << 9
                    | rw << 18
                    | atomic << 19
                    | u32::from(fault.vmid) << 20,
            );
            self.set(L2_FAULT_ADDR_LO, (fault.va >> 12) as u32);
            self.set(L2_FAULT_ADDR_HI, (fault.va >> 44) as u32);
        } else {
            self.set(L2_FAULT_STATUS, old | 1);
        }
        // Interrupt and default-page enables of the context: bit pairs from 9 on.
        let pair = match fault.kind {
            FaultKind::Range | FaultKind::ContextDisabled => 9,
            FaultKind::Misaligned | FaultKind::Bus => 11,
            FaultKind::Pde(_) => 13,
            FaultKind::NotPresent => 15,
            FaultKind::Read => 17,
            FaultKind::Write => 19,
            FaultKind::Execute => 21,
        };
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
