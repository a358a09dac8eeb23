// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of a hub: contexts, apertures, invalidation engines, fault status.

pub mod layout;

use std::sync::atomic::{AtomicU32, Ordering};

use gpu_regs::gc_9_4_3 as gc;

use super::placement::Placement;
use super::tlb::{Entry, Mtype};
use super::walk::{Context, Format};
use super::{Access, FaultKind, Hub, VmFault};
use crate::chips::Chip;
use crate::log::Strict;
use crate::regs::RegId;
use crate::strict;
use layout::{Layout, CONTEXTS, ENGINES};

/// Permission bits of a fault, in `PERMISSION_FAULTS` and in the interrupt entry.
pub mod permission {
    /// The translation is not valid.
    pub const VALID: u32 = 1;
    /// Not readable.
    pub const READ: u32 = 2;
    /// Not writable.
    pub const WRITE: u32 = 4;
    /// Not executable.
    pub const EXECUTE: u32 = 8;
}

/// Address range of an invalidation engine that drivers set, once for all engines
/// (`gfxhub_v1_2_xcc_program_invalidation`).
const ALL_PAGES: u64 = 0x1f_ffff_ffff;

/// Invalidation engine that drivers use on the CPU.
const CPU_ENGINE: u32 = 17;

/// A request to an invalidation engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Invalidation engine.
    engine: u32,
    /// Value of the REQ register, whose lower half is a mask of VMIDs on all hubs.
    pub value: u32,
    /// Mask of the directory levels whose cached entries are dropped.
    pub levels: u8,
    /// Whether cached PTEs are dropped. One of the two caches refills from the other, so that a
    /// request for one of them drops nothing.
    pub drops_pages: bool,
    /// Whether the ACK register tells its completion.
    pub has_ack: bool,
}

impl Request {
    /// Returns the mask of VMIDs.
    pub fn vmids(self) -> u16 {
        self.value as u16
    }

    /// Returns whether the CPU has requested it for the kernel's VMID.
    pub fn is_of_kernel(self) -> bool {
        self.engine == CPU_ENGINE && self.vmids() & 1 != 0
    }
}

/// Translations to invalidate after a register write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// A request to an invalidation engine.
    Request(Request),
    /// All translations (`VM_L2_CNTL2`).
    All,
}

/// A latched fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latched {
    /// Permission bits.
    pub permission: u32,
    /// Whether to raise an interrupt.
    pub interrupt: bool,
    /// Whether the access continues with the default page.
    pub default_page: bool,
}

/// Registers of one hub.
pub struct HubRegs {
    at: &'static Layout,
    format: &'static Format,
    values: Box<[AtomicU32]>,
    /// Invalidation engines that were acquired.
    taken: AtomicU32,
    /// Invalidation engines that have not acknowledged their request.
    requested: AtomicU32,
    /// What the next read of a late fault status returns.
    status: AtomicU32,
    placement: Placement,
}

impl HubRegs {
    /// Returns the power-on state.
    pub fn new(chip: &Chip, hub: Hub, placement: Placement) -> Self {
        let at = Layout::of(chip.generation, hub);
        let regs = Self {
            at,
            format: Format::of(chip.generation),
            values: (0..at.count).map(|_| AtomicU32::new(0)).collect(),
            taken: AtomicU32::new(0),
            requested: AtomicU32::new(0),
            status: AtomicU32::new(0),
            placement,
        };
        regs.reset();
        regs
    }

    /// Resets to power-on state, with VRAM placed by the VBIOS.
    pub fn reset(&self) {
        for value in &self.values {
            value.store(0, Ordering::Relaxed);
        }
        self.taken.store(0, Ordering::Relaxed);
        self.requested.store(0, Ordering::Relaxed);
        self.status.store(0, Ordering::Relaxed);
        self.restore_fb_location();
        if let Some(lfb) = self.at.lfb {
            let [cntl, size] = self.placement.lfb();
            self.set(lfb, cntl);
            self.set(lfb + 1, size);
        }
        self.set(self.at.l2_cntl3, self.at.l2_cntl3_reset);
        for context in 0..CONTEXTS {
            let cntl = self.at.context0_cntl + context;
            self.set(cntl, self.at.context_cntl_reset);
        }
        // The AGP aperture is off: its bottom is above its top.
        self.set(self.at.agp_bot, 0xff_ffff);
    }

    /// Sets the location of VRAM to that of the VBIOS.
    pub fn restore_fb_location(&self) {
        self.set(self.at.fb_base, (self.placement.aperture() >> 24) as u32);
        let last = self.placement.aperture_last();
        self.set(self.at.fb_top, (last >> 24) as u32);
    }

    /// Clears the location of VRAM.
    pub fn lose_fb_location(&self) {
        self.set(self.at.fb_base, 0);
        self.set(self.at.fb_top, 0);
    }

    fn value(&self, reg: u32) -> &AtomicU32 {
        &self.values[(reg - self.at.first) as usize]
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

    /// Handles a guest read.
    pub fn read(&self, reg: RegId) -> u32 {
        if !self.at.covers(reg) {
            return 0;
        }
        match reg.off.wrapping_sub(self.at.eng0_sem) {
            engine if engine < ENGINES => self.acquire(engine),
            _ if self.at.status_is_late && reg.off == self.at.fault_status => {
                self.status.swap(self.get(reg.off), Ordering::AcqRel)
            }
            _ => self.get(reg.off),
        }
    }

    /// Acquires an invalidation engine: returns 1 if it was free.
    fn acquire(&self, engine: u32) -> u32 {
        let bit = 1 << engine;
        // Without competing agents the semaphore is always granted.
        let before = match self.at.semaphores {
            true => self.taken.fetch_or(bit, Ordering::AcqRel),
            false => 0,
        };
        u32::from(before & bit == 0)
    }

    /// Takes the semaphore of the engine that the CPU uses, if it needs that.
    pub fn take_semaphore(&self) -> bool {
        self.at.needs_semaphore && self.acquire(CPU_ENGINE) != 0
    }

    /// Returns the invalidation engine that a write of the host requests without its semaphore.
    pub fn without_semaphore(&self, reg: RegId) -> Option<u32> {
        let engine = reg.off.wrapping_sub(self.at.eng0_req);
        let is_request = self.at.covers(reg) && engine < ENGINES && self.at.needs_semaphore;
        (is_request && self.taken.load(Ordering::Acquire) >> engine & 1 == 0).then_some(engine)
    }

    /// Returns the register with the ACK of the requests that `reg` takes.
    pub fn ack_of(&self, reg: RegId) -> Option<RegId> {
        let engine = reg.off.wrapping_sub(self.at.eng0_req);
        let is_request = self.at.covers(reg) && engine < ENGINES;
        is_request.then(|| RegId::new(reg.seg, self.at.eng0_ack + engine))
    }

    /// Handles a guest write; returns the translations to invalidate.
    pub fn write(&self, reg: RegId, value: u32, strict: &Strict) -> Option<Drop> {
        if !self.at.covers(reg) {
            return None;
        }
        let (at, off) = (self.at, reg.off);
        let engine = |first: u32| (first..first + ENGINES).contains(&off);
        if engine(at.eng0_sem) {
            if value == 0 {
                let bit = 1 << (off - at.eng0_sem);
                self.taken.fetch_and(!bit, Ordering::AcqRel);
            }
        } else if engine(at.eng0_req) {
            let number = off - at.eng0_req;
            if at.firmware_engines >> number & 1 != 0 {
                strict!(
                    strict,
                    "gmc",
                    "invalidation by engine {number}, which belongs to the firmware"
                );
            }
            // Drivers also send requests to a hub that is not set up yet, without an effect.
            let enabled = gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB.is_set(self.get(at.l1_cntl));
            let range = self.get64(at.eng0_range + 2 * number);
            if enabled && range != ALL_PAGES {
                strict!(
                    strict,
                    "gmc",
                    "invalidation {value:#x} by engine {number} of the address range {range:#x}"
                );
            }
            if self.requested.fetch_or(1 << number, Ordering::AcqRel) >> number & 1 != 0 {
                strict!(
                    strict,
                    "gmc",
                    "invalidation {value:#x} by engine {number} before it has acknowledged {:#x}",
                    self.get(off)
                );
            }
            self.set(off, value);
            self.set(at.eng0_ack + number, 0);
            if at.fields.clear_fault.is_set(value) {
                self.clear_fault();
            }
            let fields = &at.fields;
            let levels = fields.l2_pdes.iter().enumerate();
            let levels = levels.map(|(level, field)| u8::from(field.is_set(value)) << level);
            return Some(Drop::Request(Request {
                engine: number,
                value,
                levels: levels.sum(),
                drops_pages: fields.l1_ptes.is_set(value) && fields.l2_ptes.is_set(value),
                has_ack: true,
            }));
        } else if off == at.l2_cntl2 {
            let bits = gc::VM_L2_CNTL2__INVALIDATE_ALL_L1_TLBS.mask
                | gc::VM_L2_CNTL2__INVALIDATE_L2_CACHE.mask;
            self.set(off, value & !bits);
            return (value & bits != 0).then_some(Drop::All);
        } else if off == at.l1_cntl {
            self.set(off, value);
            if gc::MC_VM_MX_L1_TLB_CNTL__ENABLE_L1_TLB.is_set(value) {
                self.check_stray(strict);
            }
        } else if off == at.fault_cntl {
            if value & 1 != 0 {
                self.clear_fault();
            }
            self.set(off, value & !1);
        } else if !engine(at.eng0_ack) && !self.is_status(off) {
            self.set(off, value);
        }
        None
    }

    /// Sets the ACK bits of a completed request.
    pub fn acknowledge(&self, request: Request) {
        if request.has_ack {
            self.set(self.at.eng0_ack + request.engine, request.vmids().into());
        }
        let bit = 1 << request.engine;
        self.requested.fetch_and(!bit, Ordering::AcqRel);
    }

    fn is_status(&self, off: u32) -> bool {
        [
            self.at.fault_status,
            self.at.fault_addr,
            self.at.fault_addr + 1,
        ]
        .contains(&off)
    }

    fn clear_fault(&self) {
        for reg in [
            self.at.fault_status,
            self.at.fault_addr,
            self.at.fault_addr + 1,
        ] {
            self.set(reg, 0);
        }
    }

    /// Returns the format of page tables.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Returns the physical address of VRAM as page tables use it.
    pub fn fb_offset(&self) -> u64 {
        (u64::from(self.get(self.at.fb_offset)) << 24) + self.placement.offset()
    }

    /// Returns the page-table root of a VMID.
    pub fn root(&self, vmid: u8) -> u64 {
        self.get64(self.at.base + 2 * u32::from(vmid & 15))
    }

    /// Sets the page-table root of a VMID.
    pub fn set_root(&self, vmid: u8, root: u64) {
        let lo = self.at.base + 2 * u32::from(vmid & 15);
        self.set(lo, root as u32);
        self.set(lo + 1, (root >> 32) as u32);
    }

    /// Returns the context of a VMID for the page-table walker.
    pub fn context(&self, vmid: u8) -> Context {
        let vmid = u32::from(vmid & 15);
        let cntl = self.get(self.at.context0_cntl + vmid);
        Context {
            format: self.format,
            enabled: gc::VM_CONTEXT1_CNTL__ENABLE_CONTEXT.is_set(cntl),
            depth: self.at.fields.depth.get(cntl) as u8,
            block_size: self.at.fields.block_size.get(cntl) as u8,
            root: self.get64(self.at.base + 2 * vmid),
            first_page: self.get64(self.at.start + 2 * vmid),
            last_page: self.get64(self.at.end + 2 * vmid),
        }
    }

    /// Returns whether the context of a VMID requests to retry faults.
    pub fn retries(&self, vmid: u8) -> bool {
        let cntl = self.get(self.at.context0_cntl + u32::from(vmid & 15));
        self.at.fields.retry.is_set(cntl)
    }

    /// Checks the page that accesses outside of all apertures go to: in the card's own VRAM.
    fn check_stray(&self, strict: &Strict) {
        let page = self.get64(self.at.aperture_default) << 12;
        let in_vram = page.checked_sub(self.fb_offset());
        let vram = self.placement.end() - self.placement.start();
        if in_vram.is_none_or(|offset| offset >= vram) {
            strict!(
                strict,
                "gmc",
                "the L1 TLB is enabled with stray accesses at {page:#x}, outside VRAM"
            );
        }
    }

    /// Translates an address of VMID 0 in the system aperture; `None` if the address belongs to
    /// context 0.
    pub fn unmapped(&self, va: u64, strict: &Strict) -> Option<Result<Entry, FaultKind>> {
        let l1 = self.get(self.at.l1_cntl);
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
        let low = u64::from(self.get(self.at.aperture_low)) << 18;
        let high = u64::from(self.get(self.at.aperture_high)) << 18 | 0x3_ffff;
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
            // MC_VM_MX_L1_TLB_CNTL.MTYPE, which the C driver sets to UC.
            mtype: Mtype::Uc,
            snooped: false,
        };
        let fb = u64::from(self.get(self.at.fb_base) & 0xff_ffff) << 24;
        let fb_top = u64::from(self.get(self.at.fb_top) & 0xff_ffff) << 24 | 0xff_ffff;
        if (fb..=fb_top).contains(&va) {
            if let Some(offset) = self
                .placement
                .in_vram(page - fb + self.placement.aperture())
            {
                return Some(Ok(entry(offset, false)));
            }
        }
        let agp = u64::from(self.get(self.at.agp_bot)) << 24;
        let agp_top = u64::from(self.get(self.at.agp_top)) << 24 | 0xff_ffff;
        if (agp..=agp_top).contains(&va) {
            let base = u64::from(self.get(self.at.agp_base)) << 24;
            return Some(Ok(entry(page - agp + base, true)));
        }
        strict!(
            strict,
            "gmc",
            "VMID 0 access to {va:#x}: inside the system aperture, but neither VRAM nor AGP"
        );
        Some(Err(FaultKind::Range))
    }

    /// Latches a fault in the status registers and returns its consequences.
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
            FaultKind::NotPresent | FaultKind::NoRetry => (permission::VALID | access, 0),
            FaultKind::Read => (permission::READ, 0),
            FaultKind::Write => (permission::WRITE, 0),
            FaultKind::Execute => (permission::EXECUTE, 0),
            FaultKind::Misaligned | FaultKind::Bus | FaultKind::NoMaster => (0, 6),
        };
        let old = self.get(self.at.fault_status);
        if old == 0 {
            use gc::*;
            let atomic = u32::from(fault.access == Access::Atomic);
            self.set(
                self.at.fault_status,
                VM_L2_PROTECTION_FAULT_STATUS__WALKER_ERROR.put(walker)
                    | VM_L2_PROTECTION_FAULT_STATUS__PERMISSION_FAULTS.put(permission)
                    | VM_L2_PROTECTION_FAULT_STATUS__CID.put(client.into())
                    | VM_L2_PROTECTION_FAULT_STATUS__RW.put(rw)
                    | VM_L2_PROTECTION_FAULT_STATUS__ATOMIC.put(atomic)
                    | VM_L2_PROTECTION_FAULT_STATUS__VMID.put(u32::from(fault.vmid & 15)),
            );
            self.set(self.at.fault_addr, (fault.va >> 12) as u32);
            self.set(self.at.fault_addr + 1, (fault.va >> 44) as u32);
        } else {
            self.set(self.at.fault_status, old | 1);
        }
        // Interrupt and default-page enables of the context are pairs of bits.
        let fields = &self.at.fields;
        let pair = match fault.kind {
            FaultKind::Range | FaultKind::ContextDisabled => fields.range,
            FaultKind::Misaligned | FaultKind::Bus | FaultKind::NoMaster => fields.dummy,
            FaultKind::Pde(_) => fields.pde0,
            FaultKind::NotPresent | FaultKind::NoRetry => fields.valid,
            FaultKind::Read => fields.read,
            FaultKind::Write => fields.write,
            FaultKind::Execute => fields.execute,
        }
        .shift;
        let cntl = self.get(self.at.context0_cntl + u32::from(fault.vmid & 15));
        Latched {
            permission,
            interrupt: cntl >> pair & 1 != 0,
            default_page: cntl >> (pair + 1) & 1 != 0,
        }
    }

    /// Returns the bus address of the default page.
    pub fn default_page(&self) -> u64 {
        self.get64(self.at.fault_default) << 12
    }
}
