// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Interface between the command processor and the rest of the chip: a trait, so that tests can use
//! a mock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, Reg};

use gpu_wave::Scope;

use super::shared::{SharedQueues, Space};
use crate::chips::{Cu, Generation};
use crate::engines::doorbells::Doorbells;
use crate::engines::gmc::cu::{Cache, CuNumber, Via};
use crate::engines::gmc::l2::Caches;
use crate::engines::gmc::{Access, FaultKind, Hub, Rmw, VmFault};
use crate::engines::ih::Entry;
use crate::engines::mes::regs::Pipes;
use crate::engines::nbio;
use crate::engines::sdma::rlc::UserQueues;
use crate::engines::smu;
use crate::event;
use crate::gpu::{Gpu, Xcc};
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::trace::Trace;

/// `CID` values of the fault status register, for [`Env::raise_fault`].
pub mod client {
    /// Command processor fetcher.
    pub const CPF: u8 = 4;
    /// Command processor, compute.
    pub const CPC: u8 = 5;
    /// Vector memory of a shader.
    pub const TCP: u8 = 8;
    /// Instruction fetch of a shader.
    pub const SQC_INST: u8 = 9;
}

/// Hubs in which firmware invalidates translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hubs {
    /// The graphics hub.
    Graphics,
    /// The memory hubs that the XCC's firmware programs.
    Memory,
    /// Both.
    All,
}

/// Interface of the chip to the command processor of an XCC.
pub trait Env: Sync {
    /// Returns the physical instance of the XCC.
    fn xcc(&self) -> u8;
    /// Returns whether the XCC's firmware schedules the queues of an SDMA engine.
    fn serves(&self, engine: u8) -> bool;
    /// Returns the physical instance of the SDMA engine with this number in the partition.
    fn sdma_engine(&self, number: u8) -> Option<u8>;
    /// Doorbells of all XCCs.
    fn doorbells(&self) -> &Doorbells;
    /// Waits until the doorbells that the GPU has written have arrived.
    fn settle_doorbells(&self) {}
    /// Queues that several XCCs execute.
    fn shared(&self) -> &SharedQueues;
    /// Returns the physical instances of the XCCs of the partition, by logical number. `None`:
    /// their registers are inconsistent, or do not match the mode of the PSP.
    fn partition(&self) -> Option<Vec<u8>>;
    /// Reports a compute partition mode that the memory partition mode excludes.
    fn check_memory_mode(&self) {}
    /// Returns the interface of another XCC.
    fn peer(&self, xcc: u8) -> Option<Box<dyn Env + '_>>;
    /// Makes the command processor of an XCC rescan its queues.
    fn wake(&self, xcc: u8);
    /// Generation of the chip.
    fn generation(&self) -> Generation;
    /// Strict log.
    fn strict(&self) -> &Strict;
    /// Event log.
    fn trace(&self) -> &Trace;
    /// Fault injection.
    fn knobs(&self) -> &Knobs;
    /// Returns the response time of the firmware; 0 except in adversarial mode.
    fn response_time(&self) -> Duration {
        Duration::ZERO
    }
    /// Returns a seed for the delays of memory instructions in a workgroup, `None` if results are
    /// not delayed: only in adversarial mode they are.
    fn late(&self) -> Option<u64> {
        None
    }
    /// Reads memory of an address space.
    fn read(&self, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault>;
    /// Fetches instructions.
    fn fetch(&self, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault>;
    /// Writes memory of an address space.
    fn write(&self, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault>;
    /// Returns the fault that a store to memory of an address space would have.
    fn may_write(&self, vmid: u8, va: u64) -> Result<(), VmFault>;
    /// Returns whether there are L2s.
    fn has_l2(&self) -> bool {
        false
    }
    /// Loads for a shader, through the L2, and through a cache of the CUs that the scope permits.
    fn load(
        &self,
        vmid: u8,
        va: u64,
        buf: &mut [u8],
        _: (Scope, Option<Via>),
    ) -> Result<(), VmFault> {
        self.read(vmid, va, buf)
    }
    /// Stores for a shader, through the L2, on a CU.
    fn store(
        &self,
        vmid: u8,
        va: u64,
        data: &[u8],
        _: (Scope, Option<CuNumber>),
    ) -> Result<(), VmFault> {
        self.write(vmid, va, data)
    }
    /// Stores for a scalar instruction of a shader: may stay in the scalar cache.
    fn scalar_store(&self, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault> {
        self.write(vmid, va, data)
    }
    /// Writes the scalar cache back.
    fn write_back_scalar(&self) {}
    /// Writes the L2 back, if other clients of the scope use another L2.
    fn write_back(&self, _: Scope) {}
    /// Invalidates lines of the L2 that may be stale, if other clients of the scope use another L2.
    fn invalidate_l2(&self, _: Scope) {}
    /// Writes back and invalidates the whole L2.
    fn flush_l2(&self) {}
    /// Completes an atomic operation of a shader on a CU.
    fn after_atomic(&self, _vmid: u8, _va: u64, _size: u8, _: CuNumber) {}
    /// Invalidates caches of all CUs.
    fn invalidate_cus(&self, _: &[Cache]) {}
    /// Invalidates the vector cache of a CU.
    fn invalidate_cu(&self, _: CuNumber) {}
    /// Invalidates the caches of the CUs if the adversary chooses to: optional by the
    /// specification.
    fn may_invalidate_cus(&self) {}
    /// Atomic read-modify-write of 4 or 8 bytes; returns the old value.
    fn atomic(
        &self,
        vmid: u8,
        va: u64,
        size: u8,
        rmw: Rmw,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, VmFault>;
    /// Raises the interrupt of an access that is retried.
    fn raise_retry(&self, fault: &VmFault, client: u8);
    /// Reports a fault; `client` is one of [`client`].
    fn raise_fault(&self, fault: &VmFault, client: u8);
    /// Posts an interrupt.
    fn interrupt(&self, entry: Entry);
    /// Makes power firmware report that it throttles the card.
    fn throttle(&self) {}
    /// Reads a register by its dword address.
    fn reg_read(&self, addr: u32) -> u32;
    /// Writes a register by its dword address.
    fn reg_write(&self, addr: u32, value: u32);
    /// Returns whether these are the registers that request an HDP flush and show its end.
    fn is_hdp_flush(&self, request: u32, done: u32) -> bool;
    /// Assigns a VMID to a process.
    fn map_vmid(&self, vmid: u8, pasid: u16, root: u64);
    /// Returns a per-VMID register (`SH_MEM_*`, `SQ_SHADER_TBA_*`, ...).
    fn vmid_reg(&self, vmid: u8, reg: Reg) -> u32;
    /// Sets a per-VMID register.
    fn set_vmid_reg(&self, vmid: u8, reg: Reg, value: u32);
    /// Flushes the TLB entries of a VMID.
    fn invalidate(&self, vmid: u8, hubs: Hubs);
    /// Returns the 100 MHz reference counter.
    fn clock(&self) -> u64;
    /// Returns the active CUs.
    fn compute_units(&self) -> Vec<Cu>;
    /// Returns the number of shader engines.
    fn shader_engines(&self) -> u32;
    /// The SDMA engines.
    fn sdma(&self) -> &dyn UserQueues;
    /// Registers of MES.
    fn mes(&self) -> &Pipes;
}

impl dyn Env + '_ {
    /// Reads a 32-bit value.
    pub fn read32(&self, vmid: u8, va: u64) -> Result<u32, VmFault> {
        let mut buf = [0; 4];
        self.read(vmid, va, &mut buf)?;
        Ok(u32::from_le_bytes(buf))
    }

    /// Reads a 64-bit value.
    pub fn read64(&self, vmid: u8, va: u64) -> Result<u64, VmFault> {
        let mut buf = [0; 8];
        self.read(vmid, va, &mut buf)?;
        Ok(u64::from_le_bytes(buf))
    }

    /// Writes a 32-bit value.
    pub fn write32(&self, vmid: u8, va: u64, value: u32) -> Result<(), VmFault> {
        self.write(vmid, va, &value.to_le_bytes())
    }

    /// Writes a 64-bit value.
    pub fn write64(&self, vmid: u8, va: u64, value: u64) -> Result<(), VmFault> {
        self.write(vmid, va, &value.to_le_bytes())
    }

    /// Reads `count` dwords.
    pub fn read_dwords(&self, vmid: u8, va: u64, count: usize) -> Result<Vec<u32>, VmFault> {
        let mut bytes = vec![0; count * 4];
        self.read(vmid, va, &mut bytes)?;
        let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }
}

/// The card, accessed by one of its XCCs.
pub struct XccEnv<'a> {
    /// The card.
    pub gpu: &'a Gpu,
    /// The XCC.
    pub xcc: &'a Xcc,
}

impl XccEnv<'_> {
    fn hub(&self) -> Hub {
        Hub::Gfx(self.xcc.instance)
    }

    /// Returns the scope of an access for the L2: an agent with one L2 is like a workgroup.
    fn effective(&self, scope: Scope) -> Scope {
        let single = || self.gpu.gmc.l2().is_some() && self.gpu.partition_size() == 1;
        match scope {
            Scope::Agent if single() => Scope::Workgroup,
            scope => scope,
        }
    }

    /// Returns the L2s, if not all of the scope use that of this XCC.
    fn l2_for(&self, scope: Scope) -> Option<&Caches> {
        let l2 = self.gpu.gmc.l2()?;
        (self.effective(scope) >= Scope::Agent).then_some(l2)
    }

    /// Returns a fault for clients of the XCC: retried only if the VMID permits it.
    fn seen(&self, fault: VmFault) -> VmFault {
        VmFault {
            retry: fault.retry && self.gpu.waits_for_faults(self.xcc, fault.vmid),
            ..fault
        }
    }
}

impl Env for XccEnv<'_> {
    fn xcc(&self) -> u8 {
        self.xcc.instance
    }

    fn serves(&self, engine: u8) -> bool {
        match self.gpu.sdma.layout().hub(engine) {
            Hub::Mm(aid) => self.gpu.serves(self.xcc.instance, aid),
            Hub::Gfx(xcc) => xcc == self.xcc.instance,
        }
    }

    fn sdma_engine(&self, number: u8) -> Option<u8> {
        self.gpu.sdma_engine(self.xcc.instance, number)
    }

    fn doorbells(&self) -> &Doorbells {
        &self.gpu.doorbells
    }

    fn settle_doorbells(&self) {
        if !self.gpu.selfring.settle() {
            event!(self.gpu.trace, "nbio", "selfring_late");
        }
    }

    fn shared(&self) -> &SharedQueues {
        &self.gpu.shared
    }

    fn partition(&self) -> Option<Vec<u8>> {
        let instances = |xcc| -> Vec<u8> {
            let members = self.gpu.partition(xcc);
            members.iter().map(|xcc| xcc.instance).collect()
        };
        let own = instances(self.xcc.instance);
        let agree =
            own.len() == self.gpu.partition_size() && own.iter().all(|xcc| instances(*xcc) == own);
        agree.then_some(own)
    }

    fn check_memory_mode(&self) {
        self.gpu.memory.check(self.gpu);
    }

    fn peer(&self, xcc: u8) -> Option<Box<dyn Env + '_>> {
        let (gpu, xcc) = (self.gpu, self.gpu.xcc(xcc)?);
        Some(Box::new(XccEnv { gpu, xcc }))
    }

    fn wake(&self, xcc: u8) {
        if let Some(xcc) = self.gpu.xcc(xcc) {
            xcc.cp.rescan();
        }
    }

    fn generation(&self) -> Generation {
        self.gpu.chip.generation
    }

    fn response_time(&self) -> Duration {
        let adversary = self.gpu.adversary.as_ref();
        adversary.map_or(Duration::ZERO, |adversary| adversary.response_time())
    }

    fn late(&self) -> Option<u64> {
        let adversary = self.gpu.adversary.as_ref();
        adversary.map(|adversary| adversary.seed())
    }

    fn strict(&self) -> &Strict {
        &self.gpu.strict
    }

    fn trace(&self) -> &Trace {
        &self.gpu.trace
    }

    fn knobs(&self) -> &Knobs {
        &self.gpu.knobs
    }

    fn read(&self, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault> {
        let result = self.gpu.gmc.vm_read(self.hub(), vmid, va, buf);
        result.map_err(|fault| self.seen(fault))
    }

    fn fetch(&self, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault> {
        let (space, gmc) = ((self.xcc.instance, vmid), &self.gpu.gmc);
        let result = gmc.shader_load(
            space,
            va,
            buf,
            Access::Execute,
            (Scope::Wave, Some(Via::Code)),
        );
        result.map_err(|fault| self.seen(fault))
    }

    fn load(
        &self,
        vmid: u8,
        va: u64,
        buf: &mut [u8],
        (scope, via): (Scope, Option<Via>),
    ) -> Result<(), VmFault> {
        let (space, gmc) = ((self.xcc.instance, vmid), &self.gpu.gmc);
        let how = (self.effective(scope), via);
        let result = gmc.shader_load(space, va, buf, Access::Read, how);
        result.map_err(|fault| self.seen(fault))
    }

    fn store(
        &self,
        vmid: u8,
        va: u64,
        data: &[u8],
        (scope, cu): (Scope, Option<CuNumber>),
    ) -> Result<(), VmFault> {
        let space = (self.xcc.instance, vmid);
        let how = (self.effective(scope), cu);
        let result = self.gpu.gmc.shader_store(space, va, data, how);
        result.map_err(|fault| self.seen(fault))
    }

    fn may_write(&self, vmid: u8, va: u64) -> Result<(), VmFault> {
        let gmc = &self.gpu.gmc;
        gmc.translate(self.hub(), vmid, va, Access::Write)
            .map(|_| ())
    }

    fn has_l2(&self) -> bool {
        self.gpu.gmc.l2().is_some()
    }

    fn scalar_store(&self, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault> {
        let space = (self.xcc.instance, vmid);
        let result = self.gpu.gmc.scalar_store(space, va, data);
        result.map_err(|fault| self.seen(fault))
    }

    fn write_back_scalar(&self) {
        self.gpu.gmc.write_back_scalar(self.xcc.instance);
    }

    fn write_back(&self, scope: Scope) {
        if let Some(l2) = self.l2_for(scope) {
            l2.write_back(self.xcc.instance);
        }
    }

    fn invalidate_l2(&self, scope: Scope) {
        if let Some(l2) = self.l2_for(scope) {
            l2.invalidate(self.xcc.instance);
        }
    }

    fn flush_l2(&self) {
        if let Some(l2) = self.gpu.gmc.l2() {
            l2.flush(self.xcc.instance);
        }
    }

    fn invalidate_cus(&self, caches: &[Cache]) {
        if let Some(cus) = self.gpu.gmc.cus() {
            cus.invalidate(self.xcc.instance, caches);
        }
    }

    fn after_atomic(&self, vmid: u8, va: u64, size: u8, cu: CuNumber) {
        let space = (self.xcc.instance, vmid);
        self.gpu.gmc.after_atomic(space, va, size.into(), cu);
    }

    fn invalidate_cu(&self, cu: CuNumber) {
        if let Some(cus) = self.gpu.gmc.cus() {
            cus.invalidate_cu(self.xcc.instance, cu);
        }
    }

    fn may_invalidate_cus(&self) {
        if let Some(cus) = self.gpu.gmc.cus() {
            cus.may_invalidate(self.xcc.instance, &Cache::ALL);
        }
    }

    fn write(&self, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault> {
        let result = self.gpu.gmc.vm_write(self.hub(), vmid, va, data);
        result.map_err(|fault| self.seen(fault))
    }

    fn atomic(
        &self,
        vmid: u8,
        va: u64,
        size: u8,
        rmw: Rmw,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, VmFault> {
        let result = self.gpu.gmc.vm_atomic(self.hub(), vmid, va, size, rmw, f);
        result.map_err(|fault| self.seen(fault))
    }

    fn raise_retry(&self, fault: &VmFault, client: u8) {
        self.gpu.raise_retry(fault, client.into());
    }

    fn raise_fault(&self, fault: &VmFault, client: u8) {
        self.gpu.raise_fault(fault, client.into());
    }

    fn interrupt(&self, entry: Entry) {
        self.gpu.ih.post(entry);
    }

    fn throttle(&self) {
        smu::throttle(self.gpu);
    }

    fn reg_read(&self, addr: u32) -> u32 {
        self.gpu.reg_read(self.gpu.local(self.xcc.instance, addr))
    }

    fn reg_write(&self, addr: u32, value: u32) {
        let addr = self.gpu.local(self.xcc.instance, addr);
        self.gpu.reg_write(addr, value);
    }

    fn is_hdp_flush(&self, request: u32, done: u32) -> bool {
        nbio::is_hdp_flush(self.gpu, request, done)
    }

    fn map_vmid(&self, vmid: u8, pasid: u16, root: u64) {
        self.gpu.map_vmid(self.xcc.instance, vmid, pasid, root);
    }

    fn vmid_reg(&self, vmid: u8, reg: Reg) -> u32 {
        self.xcc.gc.vmid_reg(vmid, reg)
    }

    fn set_vmid_reg(&self, vmid: u8, reg: Reg, value: u32) {
        self.xcc.gc.set_vmid_reg(vmid, reg, value);
    }

    fn invalidate(&self, vmid: u8, hubs: Hubs) {
        if hubs != Hubs::Memory {
            self.gpu.gmc.invalidate(self.hub(), 1 << vmid);
        }
        if hubs != Hubs::Graphics {
            for aid in self.gpu.served(self.xcc.instance) {
                self.gpu.gmc.invalidate(Hub::Mm(aid), 1 << vmid);
            }
        }
    }

    fn clock(&self) -> u64 {
        self.gpu.clock()
    }

    fn compute_units(&self) -> Vec<Cu> {
        self.gpu.chip.gc.cus(self.xcc.instance)
    }

    fn shader_engines(&self) -> u32 {
        self.gpu.chip.gc.num_se
    }

    fn sdma(&self) -> &dyn UserQueues {
        &self.gpu.sdma
    }

    fn mes(&self) -> &Pipes {
        &self.xcc.mes
    }
}

/// A watchpoint (`TCP_WATCHn_*`).
#[derive(Clone, Copy)]
struct Watch {
    bit: u32,
    va: u64,
    /// Address bits that are compared.
    mask: u64,
    /// `KFD_DBG_TRAP_ADDRESS_WATCH_MODE_*`: reads, others, atomics, all.
    mode: u32,
}

/// Kind of an access, for watchpoints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watched {
    Read,
    Write,
    Atomic,
}

impl Watch {
    /// Bytes that are compared at once.
    const BLOCK: u64 = 128;

    /// Returns the watchpoints of a VMID.
    fn of(env: &dyn Env, vmid: u8) -> Vec<Self> {
        // The fields are at the same positions in both generations, but for the length of MASK.
        let regs = match env.generation() {
            Generation::Gfx9 => [
                (
                    gc::regTCP_WATCH0_ADDR_L,
                    gc::regTCP_WATCH0_ADDR_H,
                    gc::regTCP_WATCH0_CNTL,
                ),
                (
                    gc::regTCP_WATCH1_ADDR_L,
                    gc::regTCP_WATCH1_ADDR_H,
                    gc::regTCP_WATCH1_CNTL,
                ),
                (
                    gc::regTCP_WATCH2_ADDR_L,
                    gc::regTCP_WATCH2_ADDR_H,
                    gc::regTCP_WATCH2_CNTL,
                ),
                (
                    gc::regTCP_WATCH3_ADDR_L,
                    gc::regTCP_WATCH3_ADDR_H,
                    gc::regTCP_WATCH3_CNTL,
                ),
            ],
            Generation::Gfx12 => [
                (
                    gc12::regTCP_WATCH0_ADDR_L,
                    gc12::regTCP_WATCH0_ADDR_H,
                    gc12::regTCP_WATCH0_CNTL,
                ),
                (
                    gc12::regTCP_WATCH1_ADDR_L,
                    gc12::regTCP_WATCH1_ADDR_H,
                    gc12::regTCP_WATCH1_CNTL,
                ),
                (
                    gc12::regTCP_WATCH2_ADDR_L,
                    gc12::regTCP_WATCH2_ADDR_H,
                    gc12::regTCP_WATCH2_CNTL,
                ),
                (
                    gc12::regTCP_WATCH3_ADDR_L,
                    gc12::regTCP_WATCH3_ADDR_H,
                    gc12::regTCP_WATCH3_CNTL,
                ),
            ],
        };
        let field = match env.generation() {
            Generation::Gfx9 => gc::TCP_WATCH0_CNTL__MASK,
            Generation::Gfx12 => gc12::TCP_WATCH0_CNTL__MASK,
        };
        let low = u64::from(field.mask) * Self::BLOCK | (Self::BLOCK - 1);
        let mut all = Vec::new();
        for (n, (addr_l, addr_h, cntl)) in regs.into_iter().enumerate() {
            let cntl = env.vmid_reg(vmid, cntl);
            if gc::TCP_WATCH0_CNTL__VALID.is_set(cntl) {
                let va = u64::from(env.vmid_reg(vmid, addr_l));
                all.push(Self {
                    bit: 1 << n,
                    va: va | u64::from(env.vmid_reg(vmid, addr_h) & 0xffff) << 32,
                    mask: !low & ((1 << 48) - 1) | u64::from(field.get(cntl)) * Self::BLOCK,
                    mode: gc::TCP_WATCH0_CNTL__MODE.get(cntl),
                });
            }
        }
        all
    }

    fn hits(&self, va: u64, len: usize, kind: Watched) -> bool {
        let watched = match self.mode {
            0 => kind == Watched::Read,
            1 => kind != Watched::Read,
            2 => kind == Watched::Atomic,
            _ => true,
        };
        let first = va / Self::BLOCK;
        let last = va.saturating_add(len.max(1) as u64 - 1) / Self::BLOCK;
        watched && (first..=last).any(|n| (n * Self::BLOCK ^ self.va) & self.mask == 0)
    }
}

/// The memory of one address space, for the shader interpreter.
pub struct ShaderMemory<'a> {
    env: &'a dyn Env,
    vmid: u8,
    /// The CU of the waves; `None` for another client, and without caches.
    cu: Option<CuNumber>,
    watch: Vec<Watch>,
    /// Watchpoints that were hit.
    hits: AtomicU32,
}

impl<'a> ShaderMemory<'a> {
    /// Returns the memory of address space `vmid`, for the command processor.
    pub fn new(env: &'a dyn Env, vmid: u8) -> Self {
        Self::on_cu(env, vmid, None)
    }

    /// Returns the memory of address space `vmid`, for waves on a CU.
    pub fn on_cu(env: &'a dyn Env, vmid: u8, cu: Option<CuNumber>) -> Self {
        Self {
            env,
            vmid,
            cu,
            watch: Watch::of(env, vmid),
            hits: AtomicU32::new(0),
        }
    }

    /// Returns the address in the form of page tables: 48 bits of a sign-extended one.
    fn translate(va: u64) -> u64 {
        match va >> 47 {
            0x1_ffff => va & ((1 << 48) - 1),
            _ => va,
        }
    }

    fn note(&self, va: u64, len: usize, kind: Watched) {
        for watch in self.watch.iter().filter(|w| w.hits(va, len, kind)) {
            self.hits.fetch_or(watch.bit, Ordering::Relaxed);
        }
    }
}

fn shader_fault(fault: VmFault) -> gpu_wave::Fault {
    let kind = match fault.kind {
        FaultKind::Read => gpu_wave::FaultKind::Read,
        FaultKind::Write => gpu_wave::FaultKind::Write,
        FaultKind::Execute => gpu_wave::FaultKind::Execute,
        FaultKind::Misaligned => gpu_wave::FaultKind::Misaligned,
        _ => gpu_wave::FaultKind::NotPresent,
    };
    gpu_wave::Fault {
        va: fault.va,
        kind,
        retry: fault.retry,
    }
}

/// Converts a fault of the interpreter to a VM fault.
pub fn vm_fault(space: Space, fault: &gpu_wave::Fault, write: bool) -> VmFault {
    let kind = match fault.kind {
        gpu_wave::FaultKind::NotPresent => FaultKind::NotPresent,
        gpu_wave::FaultKind::Read => FaultKind::Read,
        gpu_wave::FaultKind::Write => FaultKind::Write,
        gpu_wave::FaultKind::Execute => FaultKind::Execute,
        gpu_wave::FaultKind::Misaligned => FaultKind::Misaligned,
    };
    let access = match (kind, write) {
        (FaultKind::Execute, _) => Access::Execute,
        (_, true) => Access::Write,
        (_, false) => Access::Read,
    };
    VmFault {
        hub: Hub::Gfx(space.xcc),
        vmid: space.vmid,
        va: fault.va,
        access,
        kind,
        retry: fault.retry,
    }
}

impl gpu_wave::Memory for ShaderMemory<'_> {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), gpu_wave::Fault> {
        self.load(va, buf, Scope::Wave)
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), gpu_wave::Fault> {
        self.store(va, data, Scope::Wave)
    }

    fn load(&self, va: u64, buf: &mut [u8], scope: Scope) -> Result<(), gpu_wave::Fault> {
        let va = Self::translate(va);
        self.note(va, buf.len(), Watched::Read);
        self.env
            .load(self.vmid, va, buf, (scope, self.cu.map(Via::Vector)))
            .map_err(shader_fault)
    }

    fn load_scalar(&self, va: u64, buf: &mut [u8], scope: Scope) -> Result<(), gpu_wave::Fault> {
        let va = Self::translate(va);
        self.note(va, buf.len(), Watched::Read);
        self.env
            .load(self.vmid, va, buf, (scope, Some(Via::Scalar)))
            .map_err(shader_fault)
    }

    fn store_scalar(&self, va: u64, data: &[u8], scope: Scope) -> Result<(), gpu_wave::Fault> {
        let va = Self::translate(va);
        self.note(va, data.len(), Watched::Write);
        let stored = if self.cu.is_some() && scope == Scope::Wave {
            self.env.scalar_store(self.vmid, va, data)
        } else {
            self.env.write_back_scalar();
            self.env.store(self.vmid, va, data, (Scope::Wave, self.cu))
        };
        stored.map_err(shader_fault)
    }

    fn write_back_scalar(&self) {
        self.env.write_back_scalar();
    }

    fn invalidate_scalar(&self) {
        self.env.invalidate_cus(&[Cache::Scalar]);
    }

    fn invalidate_code(&self) {
        self.env.invalidate_cus(&[Cache::Code]);
    }

    fn store(&self, va: u64, data: &[u8], scope: Scope) -> Result<(), gpu_wave::Fault> {
        let va = Self::translate(va);
        self.note(va, data.len(), Watched::Write);
        self.env
            .store(self.vmid, va, data, (scope, self.cu))
            .map_err(shader_fault)
    }

    fn write_back(&self, scope: Scope) {
        self.env.write_back(scope);
    }

    fn invalidate(&self, scope: Scope) {
        self.env.invalidate_l2(scope);
        let is_gfx12 = self.env.generation() == Generation::Gfx12;
        if let (Some(cu), true) = (self.cu, scope > Scope::Wave || !is_gfx12) {
            self.env.invalidate_cu(cu);
        }
        // There the scope includes the scalar cache.
        if is_gfx12 && scope > Scope::Wave {
            self.env.invalidate_cus(&[Cache::Scalar]);
        }
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), gpu_wave::Fault> {
        self.env.fetch(self.vmid, va, buf).map_err(shader_fault)
    }

    fn atomic(
        &self,
        va: u64,
        size: u8,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, gpu_wave::Fault> {
        let va = Self::translate(va);
        self.note(va, size.into(), Watched::Atomic);
        let old = self.env.atomic(self.vmid, va, size, Rmw::Request, f);
        if let Some(cu) = self.cu {
            self.env.after_atomic(self.vmid, va, size, cu);
        }
        old.map_err(shader_fault)
    }

    fn take_watched(&self) -> u32 {
        match self.watch.is_empty() {
            true => 0,
            false => self.hits.swap(0, Ordering::Relaxed),
        }
    }
}
