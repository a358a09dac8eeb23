// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A mock chip for tests: flat memory for all address spaces, a map of registers, a list of
//! interrupts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gpu_regs::Reg;
use gpu_wave::Scope;

use super::env::{Env, Hubs};
use super::shared::SharedQueues;
use crate::chips::{Cu, Generation};
use crate::engines::doorbells::Doorbells;
use crate::engines::gmc::cu::{Cache, CuNumber, Via};
use crate::engines::gmc::{Access, FaultKind, Hub, Rmw, VmFault};
use crate::engines::ih::Entry;
use crate::engines::mes::regs::Pipes;
use crate::engines::sdma::layout::Layout;
use crate::engines::sdma::rlc::{RlcMap, UserQueues};
use crate::knobs::Knobs;
use crate::log::Strict;
use crate::trace::Trace;

/// Bytes of memory.
pub const MEMORY: usize = 32 << 20;

/// Registers that request an HDP flush and show its end.
pub const HDP_FLUSH: (u32, u32) = (0xe26, 0xe27);

/// A side effect of the command processor, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Wrote memory.
    Write(u64, Vec<u8>),
    /// Posted an interrupt.
    Interrupt(Entry),
    /// Assigned a VMID to a process.
    MapVmid(u8, u16, u64),
    /// Flushed TLB entries.
    Invalidate(u8, Hubs),
    /// Raised a fault at an address.
    Fault(u64),
    /// A retried access at this address.
    Retry(u64),
    /// Sent an atomic operation.
    Atomic(u64),
    /// Wrote the L2 back for a scope.
    WriteBack(Scope),
    /// Invalidated lines of the L2 for a scope.
    InvalidateL2(Scope),
    /// Wrote back and invalidated the L2.
    FlushL2,
    /// Stored in the scalar cache.
    ScalarStore,
    /// Wrote the scalar cache back.
    WriteBackScalar,
    /// Invalidated caches of the CUs.
    InvalidateCus(Vec<Cache>),
    /// Invalidated the caches of the CUs, or not.
    MayInvalidateCus,
    /// Invalidated the vector cache of a CU.
    InvalidateCu(CuNumber),
    /// Loaded for a shader, if there are caches.
    Load(Scope, Option<Via>),
    /// Stored for a shader, if there are caches.
    Store(Scope, Option<CuNumber>),
    /// Completed an atomic operation of a shader.
    AfterAtomic(CuNumber),
}

struct State {
    memory: Vec<u8>,
    holes: BTreeSet<u64>,
    /// Accesses to holes are to be retried.
    retry: bool,
    regs: BTreeMap<u32, u32>,
    vmid_regs: HashMap<(u8, u32), u32>,
    acts: Vec<Act>,
    clock: u64,
    has_l2: bool,
    response_time: Duration,
}

/// A card without SDMA engines.
struct NoEngines;

impl UserQueues for NoEngines {
    fn layout(&self) -> &'static Layout {
        Layout::of([4, 4, 2])
    }
    fn expect_doorbell(&self, _: u32) {}
    fn is_free(&self, _: u8, _: u8) -> bool {
        false
    }
    fn is_routed(&self, _: u8, _: u32) -> bool {
        false
    }
    fn map(&self, _: &RlcMap<'_>, _: &dyn Fn() -> Result<u64, VmFault>) -> Result<(), VmFault> {
        Ok(())
    }
    fn unmap(&self, _: u8, _: u8) {}
    fn cancel_unmap(&self, _: u8, _: u8) {}
    fn dequeued_image(&self, _: u8, _: u8) -> Option<Vec<(usize, u32)>> {
        None
    }
}

/// See the module.
pub struct Mock {
    generation: Generation,
    strict: Strict,
    trace: Trace,
    knobs: Knobs,
    mes: Pipes,
    doorbells: Doorbells,
    shared: SharedQueues,
    state: Mutex<State>,
}

impl Default for Mock {
    fn default() -> Self {
        Self {
            generation: Generation::Gfx9,
            strict: Strict::quiet(),
            trace: Trace::off(),
            knobs: Knobs::default(),
            mes: Pipes::default(),
            doorbells: Doorbells::new("cp", 1),
            shared: SharedQueues::default(),
            state: Mutex::new(State {
                memory: vec![0; MEMORY],
                holes: BTreeSet::new(),
                retry: false,
                regs: BTreeMap::new(),
                vmid_regs: HashMap::new(),
                acts: Vec::new(),
                clock: 0,
                has_l2: false,
                response_time: Duration::ZERO,
            }),
        }
    }
}

impl Mock {
    /// Returns a gfx12 chip.
    pub fn gfx12() -> Self {
        Self {
            generation: Generation::Gfx12,
            ..Self::default()
        }
    }

    /// Adds an L2, of which the acts are recorded.
    pub fn add_l2(&self) {
        self.lock().has_l2 = true;
    }

    /// Makes firmware respond late.
    pub fn set_response_time(&self, time: Duration) {
        self.lock().response_time = time;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Records an act if there are caches.
    fn note_cached(&self, act: Act) {
        let mut state = self.lock();
        if state.has_l2 {
            state.acts.push(act);
        }
    }

    /// Stores a dword without recording it.
    pub fn put32(&self, va: u64, value: u32) {
        self.lock().memory[va as usize..][..4].copy_from_slice(&value.to_le_bytes());
    }

    /// Stores a qword without recording it.
    pub fn put64(&self, va: u64, value: u64) {
        self.lock().memory[va as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }

    /// Stores bytes without recording it.
    pub fn put(&self, va: u64, data: &[u8]) {
        self.lock().memory[va as usize..][..data.len()].copy_from_slice(data);
    }

    /// Loads a dword.
    pub fn get32(&self, va: u64) -> u32 {
        let state = self.lock();
        let b = &state.memory[va as usize..][..4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    /// Loads a qword.
    pub fn get64(&self, va: u64) -> u64 {
        u64::from(self.get32(va)) | u64::from(self.get32(va + 4)) << 32
    }

    /// Makes the 4 KiB page of `va` fault from now on.
    pub fn unmap(&self, va: u64) {
        self.lock().holes.insert(va >> 12);
    }

    /// Makes accesses to the page wait until [`Mock::map`].
    pub fn nack(&self, va: u64) {
        self.lock().retry = true;
        self.unmap(va);
    }

    /// Makes the page accessible again.
    pub fn map(&self, va: u64) {
        self.lock().holes.remove(&(va >> 12));
    }

    /// Returns whether an access to the page was retried.
    pub fn is_retried(&self, va: u64) -> bool {
        let is = |act: &Act| matches!(act, Act::Retry(at) if at >> 12 == va >> 12);
        self.lock().acts.iter().any(is)
    }

    /// Returns a register by dword address.
    pub fn reg(&self, addr: u32) -> u32 {
        self.lock().regs.get(&addr).copied().unwrap_or(0)
    }

    /// Sets a register by dword address.
    pub fn set_reg(&self, addr: u32, value: u32) {
        self.lock().regs.insert(addr, value);
    }

    /// Takes the recorded side effects.
    pub fn acts(&self) -> Vec<Act> {
        std::mem::take(&mut self.lock().acts)
    }

    /// Returns the interrupts so far, without taking them.
    pub fn interrupts(&self) -> Vec<Entry> {
        let entry = |act: &Act| match act {
            Act::Interrupt(entry) => Some(*entry),
            _ => None,
        };
        self.lock().acts.iter().filter_map(entry).collect()
    }

    /// Returns the faults so far, without taking them.
    pub fn faults(&self) -> Vec<u64> {
        let va = |act: &Act| match act {
            Act::Fault(va) => Some(*va),
            _ => None,
        };
        self.lock().acts.iter().filter_map(va).collect()
    }

    fn check(&self, vmid: u8, va: u64, len: usize, access: Access) -> Result<(), VmFault> {
        let state = self.lock();
        let end = va.saturating_add(len as u64);
        let hole = (va >> 12..=end.saturating_sub(1) >> 12).find(|p| state.holes.contains(p));
        let outside = end > MEMORY as u64;
        if hole.is_none() && !outside {
            return Ok(());
        }
        Err(VmFault {
            hub: Hub::Gfx(0),
            vmid,
            va: hole.map_or(va, |page| va.max(page << 12)),
            access,
            kind: FaultKind::NotPresent,
            retry: state.retry,
        })
    }
}

impl Env for Mock {
    fn xcc(&self) -> u8 {
        0
    }

    fn serves(&self, _: u8) -> bool {
        true
    }

    fn sdma_engine(&self, number: u8) -> Option<u8> {
        Some(number)
    }

    fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    fn shared(&self) -> &SharedQueues {
        &self.shared
    }

    fn partition(&self) -> Option<Vec<u8>> {
        Some(vec![0])
    }

    fn peer(&self, _: u8) -> Option<Box<dyn Env + '_>> {
        None
    }

    fn wake(&self, _: u8) {}

    fn generation(&self) -> Generation {
        self.generation
    }

    fn strict(&self) -> &Strict {
        &self.strict
    }

    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn read(&self, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault> {
        self.check(vmid, va, buf.len(), Access::Read)?;
        buf.copy_from_slice(&self.lock().memory[va as usize..][..buf.len()]);
        Ok(())
    }

    fn may_write(&self, vmid: u8, va: u64) -> Result<(), VmFault> {
        self.check(vmid, va, 1, Access::Write)
    }

    fn response_time(&self) -> Duration {
        self.lock().response_time
    }

    fn has_l2(&self) -> bool {
        self.lock().has_l2
    }

    fn scalar_store(&self, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault> {
        self.note_cached(Act::ScalarStore);
        self.write(vmid, va, data)
    }

    fn write_back_scalar(&self) {
        self.note_cached(Act::WriteBackScalar);
    }

    fn write_back(&self, scope: Scope) {
        self.lock().acts.push(Act::WriteBack(scope));
    }

    fn invalidate_l2(&self, scope: Scope) {
        self.lock().acts.push(Act::InvalidateL2(scope));
    }

    fn flush_l2(&self) {
        self.lock().acts.push(Act::FlushL2);
    }

    fn invalidate_cus(&self, caches: &[Cache]) {
        self.note_cached(Act::InvalidateCus(caches.to_vec()));
    }

    fn invalidate_cu(&self, cu: CuNumber) {
        self.lock().acts.push(Act::InvalidateCu(cu));
    }

    fn load(
        &self,
        vmid: u8,
        va: u64,
        buf: &mut [u8],
        (scope, via): (Scope, Option<Via>),
    ) -> Result<(), VmFault> {
        self.note_cached(Act::Load(scope, via));
        self.read(vmid, va, buf)
    }

    fn store(
        &self,
        vmid: u8,
        va: u64,
        data: &[u8],
        (scope, cu): (Scope, Option<CuNumber>),
    ) -> Result<(), VmFault> {
        self.note_cached(Act::Store(scope, cu));
        self.write(vmid, va, data)
    }

    fn after_atomic(&self, _: u8, _: u64, _: u8, cu: CuNumber) {
        self.note_cached(Act::AfterAtomic(cu));
    }

    fn may_invalidate_cus(&self) {
        self.lock().acts.push(Act::MayInvalidateCus);
    }

    fn fetch(&self, vmid: u8, va: u64, buf: &mut [u8]) -> Result<(), VmFault> {
        self.check(vmid, va, buf.len(), Access::Execute)?;
        buf.copy_from_slice(&self.lock().memory[va as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&self, vmid: u8, va: u64, data: &[u8]) -> Result<(), VmFault> {
        self.check(vmid, va, data.len(), Access::Write)?;
        let mut state = self.lock();
        state.memory[va as usize..][..data.len()].copy_from_slice(data);
        state.acts.push(Act::Write(va, data.to_vec()));
        Ok(())
    }

    fn atomic(
        &self,
        vmid: u8,
        va: u64,
        size: u8,
        rmw: Rmw,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, VmFault> {
        if rmw == Rmw::Request {
            self.lock().acts.push(Act::Atomic(va));
        }
        self.check(vmid, va, size.into(), Access::Atomic)?;
        let mut state = self.lock();
        let cell = &mut state.memory[va as usize..][..size.into()];
        let mut bytes = [0; 8];
        bytes[..size.into()].copy_from_slice(cell);
        let old = u64::from_le_bytes(bytes);
        let new = f(old).to_le_bytes();
        cell.copy_from_slice(&new[..size.into()]);
        state.acts.push(Act::Write(va, new[..size.into()].to_vec()));
        Ok(old)
    }

    fn raise_retry(&self, fault: &VmFault, _: u8) {
        self.lock().acts.push(Act::Retry(fault.va));
    }

    fn raise_fault(&self, fault: &VmFault, _: u8) {
        self.lock().acts.push(Act::Fault(fault.va));
    }

    fn interrupt(&self, entry: Entry) {
        self.lock().acts.push(Act::Interrupt(entry));
    }

    fn reg_read(&self, addr: u32) -> u32 {
        self.reg(addr)
    }

    fn reg_write(&self, addr: u32, value: u32) {
        self.set_reg(addr, value);
    }

    fn is_hdp_flush(&self, request: u32, done: u32) -> bool {
        (request, done) == HDP_FLUSH
    }

    fn map_vmid(&self, vmid: u8, pasid: u16, root: u64) {
        self.lock().acts.push(Act::MapVmid(vmid, pasid, root));
    }

    fn vmid_reg(&self, vmid: u8, reg: Reg) -> u32 {
        let key = (vmid, reg.off);
        self.lock().vmid_regs.get(&key).copied().unwrap_or(0)
    }

    fn set_vmid_reg(&self, vmid: u8, reg: Reg, value: u32) {
        self.lock().vmid_regs.insert((vmid, reg.off), value);
    }

    fn invalidate(&self, vmid: u8, hubs: Hubs) {
        self.lock().acts.push(Act::Invalidate(vmid, hubs));
    }

    fn clock(&self) -> u64 {
        let mut state = self.lock();
        state.clock += 1;
        state.clock
    }

    fn compute_units(&self) -> Vec<Cu> {
        let cu = |cu| Cu {
            se: 0,
            sh: 0,
            cu,
            bit: cu,
        };
        vec![cu(0), cu(1)]
    }

    fn shader_engines(&self) -> u32 {
        1
    }

    fn sdma(&self) -> &dyn UserQueues {
        &NoEngines
    }

    fn mes(&self) -> &Pipes {
        &self.mes
    }
}
