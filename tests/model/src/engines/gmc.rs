// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory controller and GPUVM: every memory access of an engine is translated by a hub, for a
//! VMID. Each XCC has a graphics hub, each AID a memory hub.
//!
//! * VMID 0 is the memory controller's own address space: addresses inside the system aperture go
//!   unmapped to VRAM or AGP, the others through context 0 (the GART).
//! * VMIDs 1..15 have a page-table tree each.
//!
//! Translations are cached in a TLB until an invalidation request or a new mapping of the VMID
//! drops them, so a driver that omits a TLB flush keeps using the old mapping. In adversarial mode
//! page directory entries are cached too, and with a PTE the translations of the pages that its
//! fragment includes; a request drops only the translations that its fields name, and is
//! acknowledged late; the old translations are used until then; shaders access memory through L2s
//! ([`l2`]) and caches of the CUs ([`cu`]).

pub mod bulk;
pub mod cached;
pub mod cu;
pub mod directory;
pub mod hub;
pub mod l2;
pub mod links;
pub mod pending;
pub mod placement;
pub mod suspects;
pub mod tlb;
pub mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLockReadGuard};

use gpu_regs::gc_9_4_3 as gc;

use crate::adversary::Adversary;
use crate::chips::Chip;
use crate::dma::GuestMemory;
use crate::engines::nbio::selfring::SelfRing;
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::regs::{Ip, RegId};
use crate::strict;
use crate::trace::{Detail, Trace};
use crate::vram::Vram;
use cu::{Cache, CuCaches};
use directory::Directories;
use hub::HubRegs;
use l2::Caches;
use pending::Pending;
use placement::Placement;
use suspects::Suspects;
use tlb::{Entry, Mtype, Tlb};

/// `FLUSH_TYPE` of a heavyweight flush.
pub const HEAVYWEIGHT: u32 = 2;

/// log2 of the pages that the TLB of an adversarial card caches by one PTE, at most.
const FRAGMENT_PAGES: u32 = 5;

/// A translation hub, with its instance.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hub {
    /// Graphics hub of an XCC: command processor, shaders; on gfx12 SDMA too.
    Gfx(u8),
    /// Memory hub of an AID: everything else; SDMA of gfx9, on AID 0 the interrupt handler.
    Mm(u8),
}

impl Hub {
    /// Memory hub of the card's common engines: PSP and interrupt handler.
    pub const MM: Self = Self::Mm(0);

    /// Returns the block that contains the hub's registers, and its instance.
    pub const fn block(self) -> (Ip, u8) {
        match self {
            Self::Gfx(n) => (Ip::Gc, n),
            Self::Mm(n) => (Ip::Mmhub, n),
        }
    }
}

/// Kind of hub, followed by the instance if that is not 0.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, n) = match self {
            Self::Gfx(n) => ("Gfx", n),
            Self::Mm(n) => ("Mm", n),
        };
        match n {
            0 => f.write_str(name),
            n => write!(f, "{name}{n}"),
        }
    }
}

/// Access type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Execute,
    /// Atomic read-modify-write.
    Atomic,
}

/// How an atomic operation reaches system memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rmw {
    /// By an AtomicOp request. Without AtomicOp Requester Enable it is not sent, has no effect and
    /// returns 0.
    Request,
    /// By a read and a write, as firmware does it without AtomicOp requests. The model excludes the
    /// guest's CPUs in between.
    ReadWrite,
}

/// Cause of a failed translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The context is not enabled.
    ContextDisabled,
    /// Outside the range of the context.
    Range,
    /// A PDE at this level (0 is next to the page table) is not valid.
    Pde(u8),
    /// The PTE is not valid.
    NotPresent,
    /// The PTE has the driver's flags for faults that are not retried.
    NoRetry,
    /// No read permission.
    Read,
    /// No write permission.
    Write,
    /// No execute permission.
    Execute,
    /// Misaligned atomic.
    Misaligned,
    /// No memory at the physical address.
    Bus,
    /// The card may not access the bus (Bus Master Enable).
    NoMaster,
}

/// A failed access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VmFault {
    /// Hub.
    pub hub: Hub,
    /// Address space.
    pub vmid: u8,
    /// Faulting address.
    pub va: u64,
    /// Access type.
    pub access: Access,
    /// Cause.
    pub kind: FaultKind,
    /// The context requests a retry, which a client may disable.
    pub retry: bool,
}

impl FaultKind {
    /// Returns whether a context retries the access
    /// (`RETRY_PERMISSION_OR_INVALID_PAGE_FAULT`).
    fn is_retried(self) -> bool {
        matches!(
            self,
            Self::Pde(_) | Self::NotPresent | Self::Read | Self::Write | Self::Execute
        )
    }
}

impl VmFault {
    /// Returns whether the card may not access the bus, which is no defect of the driver.
    pub fn is_refused(&self) -> bool {
        self.kind == FaultKind::NoMaster
    }
}

impl fmt::Display for VmFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} hub vmid {} {:?} at {:#x}: {:?}",
            self.hub, self.vmid, self.access, self.va, self.kind
        )
    }
}

/// Location of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Offset in video memory.
    Vram(u64),
    /// Bus address of guest memory.
    System(u64),
}

/// Result of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pa {
    /// Location of the byte.
    pub target: Target,
    /// Memory type of its page.
    pub mtype: Mtype,
    /// Accesses are coherent.
    pub snooped: bool,
    /// Bytes up to the end of its page.
    pub left: u64,
}

/// All hubs, their registers and TLBs.
pub struct Gmc {
    strict: Arc<Strict>,
    trace: Arc<Trace>,
    vram: Arc<Vram>,
    dma: Arc<GuestMemory>,
    selfring: Arc<SelfRing>,
    adversary: Option<Arc<Adversary>>,
    knobs: Arc<Knobs>,
    l2: Option<Arc<Caches>>,
    /// With L2s only.
    cus: Option<CuCaches>,
    gfx: Vec<HubState>,
    mm: Vec<HubState>,
    firmware: [Range<u64>; 2],
    bad: BTreeSet<u64>,
    /// Whether the guest's processors cache all of its memory.
    cached: bool,
    /// The boot firmware has not set the location of VRAM yet.
    fb_pending: AtomicBool,
    /// Whether the data fabric forwards atomic operations; `None` for one that always does.
    fabric_forwards: Option<AtomicBool>,
}

struct HubState {
    hub: Hub,
    regs: HubRegs,
    tlb: Tlb,
    /// Adversarial mode only.
    directories: Option<Directories>,
    pending: Pending,
    suspects: Suspects,
}

impl HubState {
    /// Drops all translations.
    fn drop_all(&self) {
        self.tlb.drop_all();
        self.directories.iter().for_each(Directories::drop_all);
    }

    /// Drops the translations that an invalidation request names, and acknowledges it.
    fn complete(&self, request: hub::Request) {
        let vmids = request.vmids();
        for vmid in (0..16).filter(|v| vmids >> v & 1 != 0) {
            match &self.directories {
                None => self.tlb.drop_vmid(vmid),
                Some(directories) => {
                    directories.drop_levels(vmid, request.levels);
                    if request.drops_pages {
                        self.tlb.drop_vmid(vmid);
                    }
                }
            }
        }
        self.regs.acknowledge(request);
    }
}

impl Gmc {
    /// Returns the hubs of `chip` in power-on state.
    pub fn new(
        strict: Arc<Strict>,
        trace: Arc<Trace>,
        vram: Arc<Vram>,
        dma: Arc<GuestMemory>,
        selfring: Arc<SelfRing>,
        chip: &Chip,
        placement: Placement,
    ) -> Self {
        let hubs = |ip, hub: fn(u8) -> Hub| {
            let state = |n| HubState {
                hub: hub(n),
                regs: HubRegs::new(chip, hub(n), placement),
                tlb: Tlb::default(),
                directories: None,
                pending: Pending::default(),
                suspects: Suspects::default(),
            };
            (0..chip.span(ip)).map(state).collect()
        };
        let (gfx, mm) = (hubs(Ip::Gc, Hub::Gfx), hubs(Ip::Mmhub, Hub::Mm));
        Self {
            strict,
            trace,
            vram,
            dma,
            selfring,
            adversary: None,
            knobs: Arc::default(),
            l2: None,
            cus: None,
            gfx,
            mm,
            firmware: [0..0, 0..0],
            bad: BTreeSet::new(),
            cached: false,
            fb_pending: AtomicBool::new(false),
            fabric_forwards: chip.base(Ip::Df, 0, 0).map(|_| AtomicBool::default()),
        }
    }

    /// Returns the regions of VRAM that belong to the boot firmware. The first is at the end, the
    /// second may be empty.
    pub fn firmware_regions(&self) -> &[Range<u64>; 2] {
        &self.firmware
    }

    /// Returns whether an offset in VRAM belongs to the boot firmware.
    pub fn is_firmware(&self, offset: u64) -> bool {
        self.firmware.iter().any(|region| region.contains(&offset))
    }

    /// Sets the adversary, if there is one.
    pub fn with_adversary(mut self, adversary: Option<Arc<Adversary>>) -> Self {
        if adversary.is_some() {
            for hub in self.gfx.iter_mut().chain(&mut self.mm) {
                hub.directories = Some(Directories::default());
            }
        }
        self.adversary = adversary;
        self
    }

    /// Sets the knobs; without them no fault is injected.
    pub fn with_knobs(mut self, knobs: Arc<Knobs>) -> Self {
        self.knobs = knobs;
        self
    }

    /// Sets the L2s, if they are modelled. With an adversary the CUs have caches, too.
    pub fn with_l2(mut self, l2: Option<Arc<Caches>>) -> Self {
        self.cus = match (&l2, &self.adversary) {
            (Some(_), Some(adversary)) => Some(CuCaches::new(adversary.clone(), self.gfx.len())),
            _ => None,
        };
        self.l2 = l2;
        self
    }

    /// Sets the regions of VRAM that belong to the boot firmware; there are none by default.
    pub fn with_firmware_regions(mut self, regions: [Range<u64>; 2]) -> Self {
        self.firmware = regions;
        self
    }

    /// Sets whether the guest's processors cache all of its memory.
    pub fn with_cached_memory(mut self, cached: bool) -> Self {
        self.cached = cached;
        self
    }

    /// Sets the pages of VRAM that are bad.
    pub fn with_bad_pages(mut self, pages: BTreeSet<u64>) -> Self {
        self.bad = pages;
        self
    }

    /// Returns the offsets of the pages of VRAM that are bad, in ascending order.
    pub fn bad_pages(&self) -> &BTreeSet<u64> {
        &self.bad
    }

    fn hub(&self, hub: Hub) -> &HubState {
        match hub {
            Hub::Gfx(n) => &self.gfx[usize::from(n)],
            Hub::Mm(n) => &self.mm[usize::from(n)],
        }
    }

    /// Resets to power-on state.
    pub fn reset(&self) {
        for hub in self.gfx.iter().chain(&self.mm) {
            hub.pending.clear();
            hub.suspects.clear();
            hub.regs.reset();
            hub.drop_all();
        }
        self.l2.iter().for_each(|l2| l2.discard());
        self.cus.iter().for_each(CuCaches::discard);
        self.fb_pending.store(false, Ordering::Release);
        self.set_fabric_forwards_atomics(false);
    }

    /// Sets whether the data fabric forwards atomic operations on system memory to the bus.
    pub fn set_fabric_forwards_atomics(&self, on: bool) {
        let set = |forwards: &AtomicBool| forwards.store(on, Ordering::Release);
        self.fabric_forwards.iter().for_each(set);
    }

    /// Ends [`Self::await_fb_location`]: the boot firmware sets the location of VRAM in the hubs.
    pub fn restore_fb_location(&self) {
        if self.fb_pending.swap(false, Ordering::AcqRel) {
            let hubs = self.gfx.iter().chain(&self.mm);
            hubs.for_each(|hub| hub.regs.restore_fb_location());
        }
    }

    /// Clears the location of VRAM, which the boot firmware sets after a reset, until
    /// [`Self::restore_fb_location`].
    pub fn await_fb_location(&self) {
        self.lose_fb_location();
        self.fb_pending.store(true, Ordering::Release);
    }

    /// Clears the location of VRAM that the VBIOS has set in the hubs.
    pub fn lose_fb_location(&self) {
        let hubs = self.gfx.iter().chain(&self.mm);
        hubs.for_each(|hub| hub.regs.lose_fb_location());
    }

    /// Handles a read of a register of `hub`.
    pub fn reg_read(&self, hub: Hub, reg: RegId) -> u32 {
        let state = self.hub(hub);
        self.settle(state);
        state.regs.read(reg)
    }

    /// Handles a write to a register of `hub`.
    pub fn reg_write(&self, hub: Hub, reg: RegId, value: u32) {
        let state = self.hub(hub);
        match state.regs.write(reg, value, &self.strict) {
            Some(hub::Drop::Request(request)) => self.request(hub, request),
            Some(hub::Drop::All) => state.drop_all(),
            None => {}
        }
    }

    /// Returns the register with the ACK of the invalidation requests that `reg` of `hub` takes.
    pub fn ack_of(&self, hub: Hub, reg: RegId) -> Option<RegId> {
        self.hub(hub).regs.ack_of(reg)
    }

    /// Checks a write of the host to a register of `hub`.
    pub fn check_host_write(&self, hub: Hub, reg: RegId) {
        if let Some(engine) = self.hub(hub).regs.without_semaphore(reg) {
            strict!(
                self.strict,
                "gmc",
                "{hub:?} hub: invalidation by engine {engine} without its semaphore"
            );
        }
    }

    /// Takes the semaphores of the memory hubs that the CPU uses. Returns whether there are any.
    pub fn take_semaphores(&self) -> bool {
        let takes = |hub: &HubState| hub.regs.take_semaphore();
        self.mm.iter().filter(|hub| takes(hub)).count() != 0
    }

    /// Handles a request to an invalidation engine.
    fn request(&self, hub: Hub, mut request: hub::Request) {
        self.log_invalidation(hub, request.value);
        request.has_ack = !(request.is_of_kernel() && self.knobs.gmc_lose_ack.take());
        let state = self.hub(hub);
        match &self.adversary {
            None => state.complete(request),
            Some(adversary) => state.pending.add(request, adversary.response_time()),
        }
    }

    /// Completes the invalidation requests of a hub whose time has come, and checks PTEs again.
    fn settle(&self, state: &HubState) {
        while let Some(request) = state.pending.due() {
            let heavy = gc::VM_INVALIDATE_ENG0_REQ__FLUSH_TYPE.get(request.value) == HEAVYWEIGHT;
            if let (Some(l2), Hub::Gfx(xcc), true) = (&self.l2, state.hub, heavy) {
                l2.flush(xcc);
            }
            state.complete(request);
        }
        let still = |suspect: &_| walk::still(&self.table_memory(state.hub, None), suspect);
        while let Some(suspect) = state.suspects.confirmed(still) {
            walk::report(&suspect, &self.strict);
        }
    }

    /// Begins an access: no translation is invalidated while the guard lives.
    fn enter<'a>(&self, state: &'a HubState) -> RwLockReadGuard<'a, ()> {
        self.settle(state);
        state.tlb.enter()
    }

    fn log_invalidation(&self, hub: Hub, request: u32) {
        let vmids = request as u16;
        crate::event!(
            self.trace,
            "gmc",
            "invalidate",
            "hub={hub:?} vmids={vmids:#x} request={request:#x}"
        );
    }

    /// Invalidates all translations of the VMIDs in the low half of `request`, as firmware does.
    pub fn invalidate(&self, hub: Hub, request: u32) {
        self.log_invalidation(hub, request);
        let vmids = request as u16;
        for vmid in (0..16).filter(|v| vmids >> v & 1 != 0) {
            self.drop_vmid(self.hub(hub), vmid);
        }
    }

    fn drop_vmid(&self, state: &HubState, vmid: u8) {
        if let Some(directories) = &state.directories {
            directories.drop_levels(vmid, !0);
        }
        state.tlb.drop_vmid(vmid);
    }

    /// Assigns a VMID of a hub to a process, as scheduler firmware does: sets the page-table root,
    /// and flushes the former owner's TLB entries and the caches of the CUs.
    pub fn map_vmid(&self, hub: Hub, vmid: u8, page_table_base: u64) {
        let state = self.hub(hub);
        if let (Some(cus), Hub::Gfx(xcc)) = (&self.cus, hub) {
            cus.invalidate(xcc, &Cache::ALL);
            cus.forget_stored(xcc, vmid);
        }
        state.suspects.drop_vmid(vmid);
        state.regs.set_root(vmid, page_table_base);
        self.drop_vmid(state, vmid);
    }

    /// Returns the page-table root of a VMID.
    pub fn root(&self, hub: Hub, vmid: u8) -> u64 {
        self.hub(hub).regs.root(vmid)
    }

    /// Latches a fault in the hub's status registers and returns its consequences.
    pub fn latch(&self, fault: &VmFault, client: u16) -> hub::Latched {
        self.hub(fault.hub).regs.latch(fault, client)
    }

    /// Returns the bus address of the hub's default page, which replaces a faulting one.
    pub fn default_page(&self, hub: Hub) -> u64 {
        self.hub(hub).regs.default_page()
    }

    /// Translates one address. Does not report a fault: [`crate::gpu::Gpu::raise_fault`] does.
    ///
    /// The result may be invalidated at once; use the `vm_` functions to access memory.
    pub fn translate(&self, hub: Hub, vmid: u8, va: u64, access: Access) -> Result<Pa, VmFault> {
        let _guard = self.enter(self.hub(hub));
        self.lookup(hub, vmid, va, access)
    }

    /// [`translate`](Self::translate) for callers inside [`Tlb::enter`].
    #[inline]
    fn lookup(&self, hub: Hub, vmid: u8, va: u64, access: Access) -> Result<Pa, VmFault> {
        let state = self.hub(hub);
        let fault = |kind: FaultKind| VmFault {
            hub,
            vmid,
            va,
            access,
            kind,
            retry: kind.is_retried() && state.regs.retries(vmid),
        };
        let entry = match state.tlb.find(vmid, va) {
            Some(entry) => entry,
            None => {
                let entry = self.walk(hub, vmid, va).map_err(fault)?;
                if !entry.system && self.is_firmware(entry.page) {
                    strict!(
                        self.strict,
                        "gmc",
                        "{hub:?} hub vmid {vmid} {access:?} of {va:#x}: the region of the boot \
                         firmware at {:#x} of VRAM",
                        entry.page
                    );
                    return Err(fault(FaultKind::Bus));
                }
                if !entry.system && self.bad.contains(&entry.page) {
                    strict!(
                        self.strict,
                        "gmc",
                        "{hub:?} hub vmid {vmid} {access:?} of {va:#x}: the bad page at {:#x} of \
                         VRAM",
                        entry.page
                    );
                }
                state.tlb.insert(vmid, va, entry);
                entry
            }
        };
        let denied = match access {
            Access::Read if !entry.read => Some(FaultKind::Read),
            Access::Write if !entry.write => Some(FaultKind::Write),
            Access::Execute if !entry.execute => Some(FaultKind::Execute),
            Access::Atomic if !entry.read => Some(FaultKind::Read),
            Access::Atomic if !entry.write => Some(FaultKind::Write),
            _ => None,
        };
        if let Some(kind) = denied {
            return Err(fault(kind));
        }
        let within = va & 0xfff;
        Ok(Pa {
            target: match entry.system {
                true => Target::System(entry.page + within),
                false => Target::Vram(entry.page + within),
            },
            mtype: entry.mtype,
            snooped: entry.snooped,
            left: 0x1000 - within,
        })
    }

    /// Reads translated memory.
    pub fn vm_read(&self, hub: Hub, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault> {
        self.vm_load(hub, vmid, va, buf, Access::Read)
    }

    fn vm_load(
        &self,
        hub: Hub,
        vmid: u8,
        va: u64,
        buf: &mut [u8],
        access: Access,
    ) -> Result<(), VmFault> {
        let mut done = 0;
        while done < buf.len() {
            let at = va.wrapping_add(done as u64);
            let _guard = self.enter(self.hub(hub));
            let pa = self.lookup(hub, vmid, at, access)?;
            let len = (buf.len() - done).min(pa.left as usize);
            let piece = &mut buf[done..done + len];
            self.before_access(hub, pa, len);
            let ok = match pa.target {
                Target::Vram(offset) => self.vram.read(offset, piece).is_ok(),
                Target::System(addr) => self.dma.read(addr, piece).is_ok(),
            };
            if !ok {
                return Err(self.bus_fault(hub, vmid, at, access, pa));
            }
            done += len;
        }
        Ok(())
    }

    /// Writes translated memory.
    pub fn vm_write(&self, hub: Hub, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault> {
        let mut done = 0;
        while done < data.len() {
            let at = va.wrapping_add(done as u64);
            let _guard = self.enter(self.hub(hub));
            let pa = self.lookup(hub, vmid, at, Access::Write)?;
            let len = (data.len() - done).min(pa.left as usize);
            let piece = &data[done..done + len];
            self.before_access(hub, pa, len);
            let ok = match pa.target {
                Target::Vram(offset) => self.vram.write(offset, piece).is_ok(),
                Target::System(addr) => self.write_system(addr, piece),
            };
            if !ok {
                return Err(self.bus_fault(hub, vmid, at, Access::Write, pa));
            }
            self.after_write(hub, pa, len as u64);
            done += len;
        }
        Ok(())
    }

    /// Writes to a bus address: guest memory, a doorbell, or a device of the client. Returns false
    /// if there is no known target; a write to the client is posted.
    fn write_system(&self, addr: u64, data: &[u8]) -> bool {
        if self.selfring.contains(addr) {
            self.selfring.post(addr, data);
            return true;
        }
        self.dma.write(addr, data).is_ok() || self.dma.is_master() && self.dma.bus.post(addr, data)
    }

    /// Replaces the value of `size` (4 or 8) bytes by `f(old)`, atomically with respect to the
    /// guest's CPUs. Returns the old value. `f` may run more than once and must not access memory.
    pub fn vm_atomic(
        &self,
        hub: Hub,
        vmid: u8,
        va: u64,
        size: u8,
        rmw: Rmw,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, VmFault> {
        if !matches!(size, 4 | 8) || va % u64::from(size) != 0 {
            return Err(VmFault {
                hub,
                vmid,
                va,
                access: Access::Atomic,
                kind: FaultKind::Misaligned,
                retry: false,
            });
        }
        let _guard = self.enter(self.hub(hub));
        let pa = self.lookup(hub, vmid, va, Access::Atomic)?;
        self.before_access(hub, pa, size.into());
        let old = match pa.target {
            Target::Vram(offset) => self.vram.atomic(offset, size, f).ok(),
            Target::System(addr) if rmw == Rmw::Request && !self.dma.sends_atomics() => {
                strict!(
                    self.strict,
                    "gmc",
                    "{hub:?} hub vmid {vmid} atomic at {va:#x} to bus address {addr:#x}: AtomicOp \
                     requests are not enabled"
                );
                Some(0)
            }
            Target::System(addr) => {
                let is_local = |forwards: &AtomicBool| !forwards.load(Ordering::Acquire);
                if rmw == Rmw::Request && self.fabric_forwards.as_ref().is_some_and(is_local) {
                    strict!(
                        self.strict,
                        "gmc",
                        "{hub:?} hub vmid {vmid} atomic at {va:#x} to bus address {addr:#x}: the \
                         data fabric processes it instead of the bus"
                    );
                }
                self.dma.atomic(addr, size, f).ok()
            }
        };
        self.after_write(hub, pa, size.into());
        old.ok_or_else(|| self.bus_fault(hub, vmid, va, Access::Atomic, pa))
    }

    /// Reads a 32-bit value.
    pub fn read32(&self, hub: Hub, vmid: u8, va: u64) -> Result<u32, VmFault> {
        let mut buf = [0; 4];
        self.vm_read(hub, vmid, va, &mut buf)?;
        Ok(u32::from_le_bytes(buf))
    }

    /// Reads a 64-bit value.
    pub fn read64(&self, hub: Hub, vmid: u8, va: u64) -> Result<u64, VmFault> {
        let mut buf = [0; 8];
        self.vm_read(hub, vmid, va, &mut buf)?;
        Ok(u64::from_le_bytes(buf))
    }

    /// Writes a 32-bit value.
    pub fn write32(&self, hub: Hub, vmid: u8, va: u64, value: u32) -> Result<(), VmFault> {
        self.vm_write(hub, vmid, va, &value.to_le_bytes())
    }

    /// Writes a 64-bit value.
    pub fn write64(&self, hub: Hub, vmid: u8, va: u64, value: u64) -> Result<(), VmFault> {
        self.vm_write(hub, vmid, va, &value.to_le_bytes())
    }

    /// Returns the fault of a translation to a physical address without memory; on silicon the
    /// fabric returns an error. A driver may disable bus mastering while engines run, so that is
    /// not reported.
    fn bus_fault(&self, hub: Hub, vmid: u8, va: u64, access: Access, pa: Pa) -> VmFault {
        let kind = match pa.target {
            Target::System(_) if !self.dma.is_master() => FaultKind::NoMaster,
            _ => FaultKind::Bus,
        };
        if kind == FaultKind::Bus {
            strict!(
                self.strict,
                "gmc",
                "{hub:?} hub vmid {vmid} {access:?} of {va:#x}: no memory at {:x?}",
                pa.target
            );
        }
        VmFault {
            hub,
            vmid,
            va,
            access,
            kind,
            retry: false,
        }
    }

    fn walk(&self, hub: Hub, vmid: u8, va: u64) -> Result<Entry, FaultKind> {
        let state = self.hub(hub);
        if vmid == 0 {
            if let Some(entry) = state.regs.unmapped(va, &self.strict) {
                return entry;
            }
        }
        let memory = self.table_memory(hub, Some(vmid));
        let (found, path) = self.walk_tables(&memory, hub, vmid, va, &self.strict);
        if self.trace.detail_enabled(Detail::Walks) {
            crate::event!(
                self.trace,
                "gmc",
                "walk",
                "hub={hub:?} vmid={vmid} va={:#x} entries={:x?}",
                va & !0xfff,
                path.entries()
            );
        }
        if let (Ok(entry), true) = (&found, self.adversary.is_some()) {
            self.insert_fragment(state, vmid, va, entry, path.fragment());
        }
        found
    }

    /// Caches the translations of the pages around `va` that the fragment of its PTE includes, as
    /// an L1 TLB does, whatever their own PTEs are.
    fn insert_fragment(&self, state: &HubState, vmid: u8, va: u64, entry: &Entry, fragment: u32) {
        let pages = 1u64 << fragment.min(FRAGMENT_PAGES);
        let page = va >> 12;
        let first = page & !(pages - 1);
        for other in (first..first + pages).filter(|other| *other != page) {
            let distance = other.wrapping_sub(page) << 12;
            let target = entry.page.wrapping_add(distance);
            let outside = !entry.system && (target >= self.vram.len() || self.is_firmware(target));
            if !outside && state.tlb.find(vmid, other << 12).is_none() {
                let entry = Entry {
                    page: target,
                    ..*entry
                };
                state.tlb.insert(vmid, other << 12, entry);
            }
        }
    }

    /// Returns the memory that contains page tables of a hub. With a VMID, for walks of the hub
    /// itself.
    fn table_memory(&self, hub: Hub, vmid: Option<u8>) -> walk::TableMemory<'_> {
        let state = self.hub(hub);
        let directories = state.directories.as_ref();
        walk::TableMemory {
            vram: &self.vram,
            dma: &self.dma,
            vram_base: state.regs.fb_offset(),
            cached: self.cached,
            cache: vmid.and_then(|vmid| Some(directories?.of(vmid))),
            suspects: vmid.map(|vmid| (&state.suspects, vmid)),
        }
    }

    fn walk_tables(
        &self,
        memory: &walk::TableMemory<'_>,
        hub: Hub,
        vmid: u8,
        va: u64,
        strict: &Strict,
    ) -> (Result<Entry, FaultKind>, walk::Path) {
        let context = self.hub(hub).regs.context(vmid);
        let mut path = walk::Path::default();
        let found = walk::walk(memory, &context, va, &mut path, strict);
        (found, path)
    }

    /// Describes the current page-table walk for an address as text. Nothing is cached or reported.
    pub fn describe(&self, hub: Hub, vmid: u8, va: u64) -> String {
        let memory = self.table_memory(hub, None);
        let (found, path) = self.walk_tables(&memory, hub, vmid, va, &Strict::quiet());
        let entries = path.entries();
        match found {
            Ok(entry) => format!("entries={entries:x?} {entry:x?}"),
            Err(kind) => format!("entries={entries:x?} {kind:?}"),
        }
    }
}
