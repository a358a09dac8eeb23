// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of the command processor: the HQD banks (one per me, pipe and queue) and the registers
//! that exist once.
//!
//! The thread that serves the guest and the engine thread share [`Banks`] under a lock that is held
//! for single accesses only. A write with side effects returns a [`Wake`] for the engine.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, Reg};
use rkfd_abi::bits::join;
use rkfd_abi::ih::source;

use crate::chips::Generation;
use crate::gpu::Boot;
use crate::regs::{Decl, Ip, RegId, Selector, Unit};

use super::dispatch::Job;
use super::slot::{Slot, MEC_SLOTS, SLOTS};
use super::Wake;

/// Halt bits of the processors of the graphics pipe, either of which stops it.
const GRAPHICS_HALTS: u32 = gc12::CP_ME_CNTL__ME_HALT.mask | gc12::CP_ME_CNTL__PFP_HALT.mask;

/// Banks are stored in the register order of gfx9, and gfx9 names are used for both generations.
const FIRST: u32 = gc::regCP_HQD_GFX_CONTROL.off;
const LAST: u32 = gc::regCP_HQD_AQL_DISPATCH_ID_HI.off;
/// Registers that exist on gfx12 only, after `CP_HQD_PQ_WPTR_HI`.
const MORE: u32 = gc12::regCP_HQD_DEQUEUE_STATUS.off - gc12::regCP_HQD_PQ_WPTR_HI.off;
const BANK: usize = (LAST + MORE - FIRST + 1) as usize;

const fn id(reg: Reg) -> RegId {
    RegId::new(reg.seg, reg.off)
}

const fn decl(reg: Reg) -> Decl {
    Decl::new(reg.name, Ip::Gc, id(reg)).unit(Unit::Cp)
}

/// Name of the registers with the number of waves of each queue of a pipe.
const COUNTS: &str = "regSPI_CSQ_WF_ACTIVE_COUNT_*";

/// Returns the registers of this unit.
pub fn registers(generation: Generation) -> Vec<Decl> {
    let all = |name, first: Reg, count| {
        Decl::new(name, Ip::Gc, id(first))
            .array(count, 1)
            .unit(Unit::Cp)
    };
    let mut decls = match generation {
        Generation::Gfx9 => vec![
            all("regCP_HQD_*", gc::regCP_HQD_GFX_CONTROL, LAST - FIRST + 1),
            all(COUNTS, gc::regSPI_CSQ_WF_ACTIVE_COUNT_0, 8),
        ],
        Generation::Gfx12 => vec![
            all("regCP_HQD_GFX_*", gc12::regCP_HQD_GFX_CONTROL, 2),
            all(
                "regCP_HQD_*",
                gc12::regCP_MQD_BASE_ADDR,
                gc12::regCP_HQD_DEQUEUE_STATUS.off - gc12::regCP_MQD_BASE_ADDR.off + 1,
            ),
            decl(gc12::regCP_MEC_RS64_CNTL),
            decl(gc12::regCP_ME_CNTL),
            decl(gc12::regCP_INT_CNTL_RING0),
            decl(gc12::regCP_RB_DOORBELL_RANGE_LOWER),
            decl(gc12::regCP_RB_DOORBELL_RANGE_UPPER),
            all(COUNTS, gc12::regSPI_CSQ_WF_ACTIVE_COUNT_0, 4),
        ],
    };
    if generation == Generation::Gfx12 {
        decls.extend(crate::engines::mes::regs::registers());
    }
    decls.extend(match generation {
        Generation::Gfx9 => ONCE_GFX9.iter().map(|&r| decl(r)).collect::<Vec<_>>(),
        Generation::Gfx12 => ONCE_GFX12.iter().map(|(r, _)| decl(*r)).collect(),
    });
    decls
}

/// gfx9 registers that exist once.
const ONCE_GFX9: [Reg; 22] = [
    gc::regCPC_INT_CNTL,
    gc::regCP_ME1_PIPE0_INT_CNTL,
    gc::regCP_ME1_PIPE1_INT_CNTL,
    gc::regCP_ME1_PIPE2_INT_CNTL,
    gc::regCP_ME1_PIPE3_INT_CNTL,
    gc::regCP_ME2_PIPE0_INT_CNTL,
    gc::regCP_ME2_PIPE1_INT_CNTL,
    gc::regCP_ME2_PIPE2_INT_CNTL,
    gc::regCP_ME2_PIPE3_INT_CNTL,
    gc::regCP_MEC_CNTL,
    gc::regCP_PQ_STATUS,
    gc::regCP_PQ_WPTR_POLL_CNTL,
    gc::regCP_PQ_WPTR_POLL_CNTL1,
    gc::regCP_MEC_DOORBELL_RANGE_LOWER,
    gc::regCP_MEC_DOORBELL_RANGE_UPPER,
    gc::regCP_IQ_WAIT_TIME1,
    gc::regCP_IQ_WAIT_TIME2,
    gc::regSPI_COMPUTE_QUEUE_RESET,
    gc::regSPI_CSQ_WF_ACTIVE_STATUS,
    gc::regCPC_INT_STATUS,
    gc::regCPC_INT_CNTX_ID,
    gc::regRLC_CP_SCHEDULERS,
];

/// Their gfx12 counterparts, paired with the gfx9 name. The fields are at the same positions.
const ONCE_GFX12: [(Reg, Reg); 12] = [
    (gc12::regCPC_INT_CNTL, gc::regCPC_INT_CNTL),
    (
        gc12::regCP_MEC_DOORBELL_RANGE_LOWER,
        gc::regCP_MEC_DOORBELL_RANGE_LOWER,
    ),
    (
        gc12::regCP_MEC_DOORBELL_RANGE_UPPER,
        gc::regCP_MEC_DOORBELL_RANGE_UPPER,
    ),
    (gc12::regCP_ME1_PIPE0_INT_CNTL, gc::regCP_ME1_PIPE0_INT_CNTL),
    (gc12::regCP_ME1_PIPE1_INT_CNTL, gc::regCP_ME1_PIPE1_INT_CNTL),
    (gc12::regCP_PQ_STATUS, gc::regCP_PQ_STATUS),
    (gc12::regCP_PQ_WPTR_POLL_CNTL, gc::regCP_PQ_WPTR_POLL_CNTL),
    (
        gc12::regSPI_COMPUTE_QUEUE_RESET,
        gc::regSPI_COMPUTE_QUEUE_RESET,
    ),
    (
        gc12::regSPI_CSQ_WF_ACTIVE_STATUS,
        gc::regSPI_CSQ_WF_ACTIVE_STATUS,
    ),
    (gc12::regCPC_INT_STATUS, gc::regCPC_INT_STATUS),
    (gc12::regCPC_INT_CNTX_ID, gc::regCPC_INT_CNTX_ID),
    (gc12::regRLC_CP_SCHEDULERS, gc::regRLC_CP_SCHEDULERS),
];

/// Translates a gfx12 register to its gfx9 name.
fn gfx12_name(reg: RegId) -> RegId {
    let first = gc12::regCP_MQD_BASE_ADDR;
    let wptr_hi = gc12::regCP_HQD_PQ_WPTR_HI.off;
    let gfx = gc12::regCP_HQD_GFX_CONTROL.off;
    if reg.seg == first.seg && (first.off..=wptr_hi).contains(&reg.off) {
        return RegId::new(0, gc::regCP_MQD_BASE_ADDR.off + reg.off - first.off);
    }
    if reg.seg == first.seg && (wptr_hi + 1..=wptr_hi + MORE).contains(&reg.off) {
        return RegId::new(0, LAST + reg.off - wptr_hi);
    }
    if reg.seg == first.seg && (gfx..=gfx + 1).contains(&reg.off) {
        return RegId::new(0, FIRST + reg.off - gfx);
    }
    let once = ONCE_GFX12.iter().find(|(ours, _)| id(*ours) == reg);
    once.map_or(reg, |(_, name)| id(*name))
}

/// Registers of one HQD.
#[derive(Clone)]
pub struct Bank([u32; BANK]);

impl Bank {
    fn power_on() -> Self {
        let mut bank = Self([0; BANK]);
        // CP_HQD_PERSISTENT_STATE_DEFAULT in AMD's headers.
        bank.set(gc::regCP_HQD_PERSISTENT_STATE, 0x0be0_5301);
        bank
    }

    /// Returns a register of the bank.
    pub fn get(&self, reg: Reg) -> u32 {
        self.0[(reg.off - FIRST) as usize]
    }

    /// Returns two consecutive registers as one value, low half first.
    pub fn get64(&self, reg: Reg) -> u64 {
        join(self.get(reg), self.get(reg.at(1)))
    }

    /// Sets a register of the bank.
    pub fn set(&mut self, reg: Reg, value: u32) {
        self.0[(reg.off - FIRST) as usize] = value;
    }

    /// Sets two consecutive registers.
    pub fn set64(&mut self, reg: Reg, value: u64) {
        self.set(reg, value as u32);
        self.set(reg.at(1), (value >> 32) as u32);
    }

    /// Returns whether `CP_HQD_ACTIVE` is set.
    pub fn active(&self) -> bool {
        gc::CP_HQD_ACTIVE__ACTIVE.is_set(self.get(gc::regCP_HQD_ACTIVE))
    }

    /// Returns its doorbell as a dword index on the BAR, if enabled.
    pub fn doorbell(&self) -> Option<u32> {
        use gc::{
            CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN as EN,
            CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET as OFFSET,
        };
        let value = self.get(gc::regCP_HQD_PQ_DOORBELL_CONTROL);
        (self.active() && EN.is_set(value)).then(|| OFFSET.get(value))
    }
}

/// All registers of the unit.
pub struct Banks {
    generation: Generation,
    hqd: Vec<Bank>,
    once: HashMap<RegId, u32>,
    /// `CPC_INT_CNTL` by me and pipe.
    interrupts: HashMap<(u32, u32), u32>,
    /// HQDs that read their write pointer from memory on activation.
    poll_once: u64,
    /// The MECs were unhalted without firmware.
    stalled: bool,
    /// Queues that were active when their MEC or their pipe was stopped.
    held: BTreeSet<Slot>,
    /// A slot that is active without a queue, see [`Self::leave_active`].
    left: Option<Slot>,
    /// See [`Self::take_continued`].
    continued: Option<Slot>,
    /// Dispatches in flight by slot, of the queues whose packets this XCC executes.
    jobs: Vec<Vec<Arc<Job>>>,
}

/// Error: access to a bank while `GRBM_GFX_CNTL` selects none.
#[derive(Debug, PartialEq, Eq)]
pub struct NoBank;

impl Banks {
    /// Returns the power-on state.
    pub fn new(generation: Generation, boot: Boot) -> Self {
        let mut once = HashMap::new();
        if generation == Generation::Gfx9 && boot == Boot::Cold {
            // `mmCP_MEC_CNTL_DEFAULT`: both halted. On a warm card the previous driver left them
            // running.
            let halt = gc::CP_MEC_CNTL__MEC_ME1_HALT.mask | gc::CP_MEC_CNTL__MEC_ME2_HALT.mask;
            once.insert(id(gc::regCP_MEC_CNTL), halt);
        }
        if generation == Generation::Gfx12 {
            // Firmware is loaded and halted.
            let halt = gc12::CP_MEC_RS64_CNTL__MEC_HALT.mask;
            once.insert(id(gc12::regCP_MEC_RS64_CNTL), halt);
            once.insert(id(gc12::regCP_ME_CNTL), GRAPHICS_HALTS);
            // The defaults of gc_11_0_0_default.h; there are none of gfx12.
            once.insert(id(gc12::regCP_RB_DOORBELL_RANGE_UPPER), 0x108);
            once.insert(id(gc::regCP_MEC_DOORBELL_RANGE_LOWER), 0x110);
            once.insert(id(gc::regCP_MEC_DOORBELL_RANGE_UPPER), 0xffc);
        }
        Self {
            generation,
            hqd: vec![Bank::power_on(); SLOTS],
            once,
            interrupts: HashMap::new(),
            poll_once: 0,
            stalled: false,
            held: BTreeSet::new(),
            left: None,
            continued: None,
            jobs: vec![Vec::new(); MEC_SLOTS],
        }
    }

    /// Returns the bank of a slot.
    pub fn slot(&self, slot: Slot) -> &Bank {
        &self.hqd[usize::from(slot.0) % SLOTS]
    }

    /// Returns the bank of a slot, mutably.
    pub fn slot_mut(&mut self, slot: Slot) -> &mut Bank {
        &mut self.hqd[usize::from(slot.0) % SLOTS]
    }

    /// Returns a register that exists once.
    pub fn once(&self, reg: Reg) -> u32 {
        self.once.get(&id(reg)).copied().unwrap_or(0)
    }

    /// Takes the poll-once request for the write pointer of `slot`.
    pub fn take_poll_once(&mut self, slot: Slot) -> bool {
        let bit = 1u64.checked_shl(slot.0.into()).unwrap_or(0);
        let pending = self.poll_once & bit != 0;
        self.poll_once &= !bit;
        pending
    }

    /// Returns the active HQD with that doorbell.
    pub fn find_doorbell(&self, index: u32) -> Option<Slot> {
        let position = self
            .hqd
            .iter()
            .position(|bank| bank.doorbell() == Some(index))?;
        Some(Slot(position as u8))
    }

    /// Returns whether the queue in `slot` is the KIQ.
    pub fn is_kiq(&self, slot: Slot) -> bool {
        let schedulers = self.once(gc::regRLC_CP_SCHEDULERS);
        let kiq = 0x80 | slot.me() << 5 | slot.pipe() << 3 | slot.queue();
        gc::RLC_CP_SCHEDULERS__scheduler0.get(schedulers) == kiq
    }

    /// Returns whether the pipe of `slot` raises the interrupt `source`: its bit is set in
    /// `CPC_INT_CNTL` of that pipe or in `CP_ME?_PIPE?_INT_CNTL`. Whether these are one register
    /// is not documented.
    pub fn raises(&self, slot: Slot, source: u32) -> bool {
        let enable = match source {
            source::CP_PRIV_REG_FAULT => gc::CP_ME1_PIPE0_INT_CNTL__PRIV_REG_INT_ENABLE,
            source::CP_BAD_OPCODE => gc::CP_ME1_PIPE0_INT_CNTL__OPCODE_ERROR_INT_ENABLE,
            source::CP_END_OF_PIPE => gc::CP_ME1_PIPE0_INT_CNTL__TIME_STAMP_INT_ENABLE,
            _ => return true,
        };
        let first = match slot.me() {
            0 => return enable.is_set(self.once(gc12::regCP_INT_CNTL_RING0)),
            1 => gc::regCP_ME1_PIPE0_INT_CNTL,
            2 => gc::regCP_ME2_PIPE0_INT_CNTL,
            _ => return true,
        };
        let banked = self.interrupts.get(&(slot.me(), slot.pipe())).copied();
        enable.is_set(self.once(first.at(slot.pipe())) | banked.unwrap_or(0))
    }

    /// Returns whether the pipe of `slot` raises the interrupt of PROTECTED_FENCE_SIGNAL: both bits
    /// are set in `CP_ME1_PIPE?_INT_CNTL` (`gfx_v12_0_set_compute_eop_interrupt_state`).
    pub fn raises_fence(&self, slot: Slot) -> bool {
        let needed = gc12::CP_ME1_PIPE0_INT_CNTL__TIME_STAMP_INT_ENABLE.mask
            | gc12::CP_ME1_PIPE0_INT_CNTL__GENERIC0_INT_ENABLE.mask;
        let cntl = self.once(gc::regCP_ME1_PIPE0_INT_CNTL.at(slot.pipe()));
        slot.me() == 1 && cntl & needed == needed
    }

    /// Returns whether a doorbell of the first page (dword index on the BAR) belongs to the rings
    /// of the graphics pipe (`CP_RB_DOORBELL_RANGE_*`, in bytes). Those of processes, on the other
    /// pages, do not depend on the ranges.
    pub fn is_graphics_doorbell(&self, index: u32) -> bool {
        self.generation == Generation::Gfx12 && self.graphics_range().contains(&(index * 4))
    }

    fn graphics_range(&self) -> RangeInclusive<u32> {
        let at = |reg| self.once(reg) & 0xffc;
        at(gc12::regCP_RB_DOORBELL_RANGE_LOWER)..=at(gc12::regCP_RB_DOORBELL_RANGE_UPPER)
    }

    /// Returns the doorbell ranges of the graphics pipe and of the MEC if they overlap (gfx12).
    pub fn overlapping_ranges(&self) -> Option<[RangeInclusive<u32>; 2]> {
        let at = |reg| self.once(reg) & 0xffc;
        let lower = at(gc::regCP_MEC_DOORBELL_RANGE_LOWER);
        let (graphics, mec) = (
            self.graphics_range(),
            lower..=at(gc::regCP_MEC_DOORBELL_RANGE_UPPER),
        );
        let overlap = graphics.start() <= mec.end() && mec.start() <= graphics.end();
        (self.generation == Generation::Gfx12 && overlap).then_some([graphics, mec])
    }

    /// Returns whether the MEC of `slot`, or its pipe, is halted or in reset.
    pub fn halted(&self, slot: Slot) -> bool {
        if slot == Slot::GRAPHICS && self.generation == Generation::Gfx12 {
            return self.once(gc12::regCP_ME_CNTL) & GRAPHICS_HALTS != 0 || self.stalled;
        }
        // The MES has its own register.
        let is_mec = self.generation == Generation::Gfx9 || slot.me() == 1;
        is_mec && (self.stalled || self.is_halted(slot) || self.is_in_reset(slot))
    }

    fn is_halted(&self, slot: Slot) -> bool {
        if self.generation == Generation::Gfx12 {
            let cntl = self.once(gc12::regCP_MEC_RS64_CNTL);
            let active = gc12::CP_MEC_RS64_CNTL__MEC_PIPE0_ACTIVE.shift + slot.pipe() as u8;
            return gc12::CP_MEC_RS64_CNTL__MEC_HALT.is_set(cntl) || cntl >> active & 1 == 0;
        }
        let cntl = self.once(gc::regCP_MEC_CNTL);
        match slot.me() {
            1 => gc::CP_MEC_CNTL__MEC_ME1_HALT.is_set(cntl),
            _ => gc::CP_MEC_CNTL__MEC_ME2_HALT.is_set(cntl),
        }
    }

    fn is_in_reset(&self, slot: Slot) -> bool {
        let (cntl, first) = match self.generation {
            Generation::Gfx12 => (
                self.once(gc12::regCP_MEC_RS64_CNTL),
                gc12::CP_MEC_RS64_CNTL__MEC_PIPE0_RESET,
            ),
            Generation::Gfx9 => (
                self.once(gc::regCP_MEC_CNTL),
                gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET,
            ),
        };
        // Pipes 0 to 3 of MEC1, 0 and 1 of MEC2.
        let pipe = (slot.me() * 4 + slot.pipe()).wrapping_sub(4);
        pipe < 6 && cntl >> (u32::from(first.shift) + pipe) & 1 != 0
    }

    /// Returns a queue that was active when its MEC or its pipe was stopped, and with which it
    /// continues now.
    pub fn take_continued(&mut self) -> Option<Slot> {
        self.continued.take()
    }

    /// Makes a slot active with pointers that are not 0, but without a queue: firmware does not
    /// know it, and does not dequeue it.
    pub fn leave_active(&mut self, slot: Slot) {
        let bank = self.slot_mut(slot);
        bank.set(gc::regCP_HQD_ACTIVE, 1);
        bank.set(gc::regCP_HQD_PQ_RPTR, 0x28);
        bank.set(gc::regCP_HQD_PQ_WPTR_LO, 0x28);
        self.left = Some(slot);
    }

    /// Returns the HQDs of MECs with an active queue that does not run, as its MEC was stopped or,
    /// on gfx12, its pipe is in reset. A halt that keeps the instruction cache of gfx9 is a pause.
    /// A dequeue request counts on gfx12. A reset of a pipe of gfx9 changes these registers, one of
    /// gfx12 leaves them to the driver (`mes_v12_0_reset_compute_pipe_mmio`).
    fn held_queues(&self) -> BTreeSet<Slot> {
        let cntl = self.once(gc::regCP_MEC_CNTL);
        let stopped = gc::CP_MEC_CNTL__MEC_INVALIDATE_ICACHE.is_set(cntl);
        let is_held = |slot: &Slot| {
            let bank = self.slot(*slot);
            match self.generation {
                Generation::Gfx9 => bank.active() && stopped && self.is_halted(*slot),
                Generation::Gfx12 => {
                    let requested = bank.get(gc::regCP_HQD_DEQUEUE_REQUEST) != 0;
                    let is_mec = slot.me() == 1;
                    is_mec && (bank.active() || requested) && self.halted(*slot)
                }
            }
        };
        (0..MEC_SLOTS as u8).map(Slot).filter(is_held).collect()
    }

    /// Notes which queues a write of the register that halts MECs stopped or continued.
    fn note_held(&mut self, before: BTreeSet<Slot>) {
        let now = self.held_queues();
        let continued = self.held.difference(&now).find(|slot| {
            let bank = self.slot(**slot);
            bank.active() || bank.get(gc::regCP_HQD_DEQUEUE_REQUEST) != 0
        });
        self.continued = self.continued.or(continued.copied());
        self.held.retain(|slot| now.contains(slot));
        self.held.extend(now.difference(&before));
    }

    /// Sets whether the MECs are stalled, regardless of their halt bits.
    pub fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// Sets the dispatches in flight of the queue in `slot`.
    pub fn set_jobs(&mut self, slot: Slot, jobs: Vec<Arc<Job>>) {
        if let Some(own) = self.jobs.get_mut(usize::from(slot.0)) {
            *own = jobs;
        }
    }

    /// Returns the number of waves on `xcc` of the queue in slot `n` of MEC1, in shader engine `se`
    /// of it or in any.
    pub fn wave_count(&self, n: usize, xcc: u8, se: Option<u32>) -> u32 {
        match (self.jobs.get(n), self.hqd.get(n)) {
            (Some(jobs), Some(bank)) if bank.active() => {
                jobs.iter().map(|job| job.waves_on(xcc, se)).sum()
            }
            _ => 0,
        }
    }

    /// Returns the queues of MEC1 with waves there: the bits of `SPI_CSQ_WF_ACTIVE_STATUS`, pipe
    /// after pipe.
    pub fn wave_queues(&self, xcc: u8, se: Option<u32>) -> u32 {
        let (pipes, queues) = match self.generation {
            Generation::Gfx9 => (4, 8),
            Generation::Gfx12 => (2, 4),
        };
        (0..pipes * queues).fold(0, |map, bit| {
            let slot = Slot::new(0, bit / queues, bit % queues);
            map | u32::from(self.wave_count(slot.0.into(), xcc, se) > 0) << bit
        })
    }

    /// Returns the mask of the VMIDs with active queues.
    pub fn vmids(&self) -> u16 {
        let active = self.hqd.iter().filter(|bank| bank.active());
        let vmid = |bank: &Bank| gc::CP_HQD_VMID__VMID.get(bank.get(gc::regCP_HQD_VMID));
        active.fold(0, |map, bank| map | 1 << vmid(bank))
    }

    /// Returns whether doorbells are enabled.
    pub fn doorbells_enabled(&self) -> bool {
        gc::CP_PQ_STATUS__DOORBELL_ENABLE.is_set(self.once(gc::regCP_PQ_STATUS))
    }

    /// Sets that bit.
    pub fn enable_doorbells(&mut self) {
        let status = self.once.entry(id(gc::regCP_PQ_STATUS)).or_insert(0);
        *status |= gc::CP_PQ_STATUS__DOORBELL_ENABLE.mask;
    }

    fn is_banked(&self, sel: Selector, reg: RegId) -> bool {
        // The graphics pipe has the first two as well, but no queue here.
        let graphics = self.generation == Generation::Gfx12
            && sel.me == 0
            && (FIRST..FIRST + 2).contains(&reg.off);
        reg.seg == 0 && (FIRST..=LAST + MORE).contains(&reg.off) && !graphics
    }

    fn name(&self, reg: RegId) -> RegId {
        match self.generation {
            Generation::Gfx9 => reg,
            Generation::Gfx12 => gfx12_name(reg),
        }
    }

    /// Reads a register for the BAR or a packet.
    pub fn read(&self, sel: Selector, reg: RegId) -> Result<u32, NoBank> {
        let reg = self.name(reg);
        if self.is_banked(sel, reg) {
            let slot = Slot::selected(self.generation, sel).ok_or(NoBank)?;
            return Ok(self.slot(slot).0[(reg.off - FIRST) as usize]);
        }
        if reg == id(gc::regCPC_INT_CNTL) {
            let pipe = (sel.me.into(), sel.pipe.into());
            return Ok(self.interrupts.get(&pipe).copied().unwrap_or(0));
        }
        Ok(self.once.get(&reg).copied().unwrap_or(0))
    }

    /// Writes a register for the BAR or a packet; resulting messages to the engine are appended to
    /// `wakes`.
    pub fn write(
        &mut self,
        sel: Selector,
        reg: RegId,
        value: u32,
        wakes: &mut Vec<Wake>,
    ) -> Result<(), NoBank> {
        let reg = self.name(reg);
        if self.is_banked(sel, reg) {
            let slot = Slot::selected(self.generation, sel).ok_or(NoBank)?;
            self.write_bank(slot, reg.off, value, wakes);
            return Ok(());
        }
        if reg == id(gc::regCPC_INT_CNTL) {
            self.interrupts
                .insert((sel.me.into(), sel.pipe.into()), value);
            return Ok(());
        }
        let stops = [id(gc::regCP_MEC_CNTL), id(gc12::regCP_MEC_RS64_CNTL)].contains(&reg);
        let held = stops.then(|| self.held_queues());
        self.once.insert(reg, value);
        if let Some(held) = held {
            self.note_held(held);
        }
        if reg == id(gc::regSPI_COMPUTE_QUEUE_RESET) {
            let slot = Slot::selected(self.generation, sel).ok_or(NoBank)?;
            if value & 1 != 0 {
                wakes.push(Wake::ResetQueue(slot));
            }
        } else if reg == id(gc::regCP_MEC_CNTL) {
            let first = gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET.shift;
            // Six reset bits: pipes 0 to 3 of MEC1, 0 and 1 of MEC2.
            for pipe in (0..6).filter(|n| value >> (first + n) & 1 != 0) {
                wakes.push(Wake::ResetPipe(u32::from(pipe) / 4, u32::from(pipe) % 4));
            }
            wakes.push(Wake::Rescan);
        } else if reg == id(gc12::regCP_MEC_RS64_CNTL) {
            let first = gc12::CP_MEC_RS64_CNTL__MEC_PIPE0_RESET.shift;
            for pipe in (0..4).filter(|n| value >> (first + n) & 1 != 0) {
                wakes.push(Wake::ResetPipe(0, pipe.into()));
            }
            wakes.push(Wake::Rescan);
        } else if reg == id(gc12::regCP_ME_CNTL) {
            wakes.push(Wake::Rescan);
        } else if reg == id(gc::regCP_PQ_WPTR_POLL_CNTL1) {
            // One bit per queue of MEC1.
            self.poll_once |= u64::from(value);
            wakes.push(Wake::PollOnce(u64::from(value)));
        } else if reg == id(gc::regCPC_INT_STATUS)
            && gc::CPC_INT_STATUS__GENERIC2_INT_STATUS.is_set(value)
        {
            wakes.push(Wake::SoftwareInterrupt);
        }
        Ok(())
    }

    fn write_bank(&mut self, slot: Slot, off: u32, value: u32, wakes: &mut Vec<Wake>) {
        let is_left = self.left == Some(slot);
        let bank = self.slot_mut(slot);
        let was_active = bank.active() && !is_left;
        bank.0[(off - FIRST) as usize] = value;
        if off == gc::regCP_HQD_ACTIVE.off {
            self.left = self.left.filter(|_| !is_left);
            let bank = self.slot(slot);
            match (was_active, bank.active()) {
                (false, true) => {
                    self.held.remove(&slot);
                    wakes.push(Wake::Activate(slot));
                }
                (true, false) => wakes.push(Wake::Deactivate(slot)),
                _ => {}
            }
        } else if off == gc::regCP_HQD_DEQUEUE_REQUEST.off {
            let request = gc::CP_HQD_DEQUEUE_REQUEST__DEQUEUE_REQ.get(value);
            if request != 0 && was_active {
                wakes.push(Wake::Dequeue(slot, request as u8));
            }
        } else if was_active
            && (off == gc::regCP_HQD_PQ_WPTR_LO.off || off == gc::regCP_HQD_PQ_WPTR_HI.off)
        {
            wakes.push(Wake::Wptr(slot));
        }
    }
}

#[cfg(test)]
mod tests;
