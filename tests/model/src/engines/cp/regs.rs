// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of the command processor: the HQD banks (one per me, pipe and queue) and the few
//! that exist once.
//!
//! The thread that serves the guest and the engine thread share [`Banks`] under a lock that is
//! held for single accesses only. A write that means work comes back as a [`Wake`] for the engine.

use std::collections::HashMap;

use rkfd_abi::bits::join;
use rkfd_abi::regs::gc_9_4_3 as gc;
use rkfd_abi::regs::Reg;

use crate::regs::{Decl, Ip, RegId, Selector, Unit};

use super::Wake;

/// MECs.
pub const MES: usize = 2;
/// Pipes of a MEC.
pub const PIPES: usize = 4;
/// Queues of a pipe.
pub const QUEUES: usize = 8;
/// HQDs of the chip.
pub const SLOTS: usize = MES * PIPES * QUEUES;

const FIRST: u32 = gc::regCP_HQD_GFX_CONTROL.off;
const LAST: u32 = gc::regCP_HQD_AQL_DISPATCH_ID_HI.off;
const BANK: usize = (LAST - FIRST + 1) as usize;

/// One of the 64 HQDs: its index is `me * 32 + pipe * 8 + queue` with MEC1 as me 0, which is also
/// the bit number in the queue mask of SET_RESOURCES. Above them are the contexts of DMA engines
/// ([`super::sdma`]), which have no registers here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// The HQD of a me (0: MEC1), pipe and queue.
    pub fn new(me: u32, pipe: u32, queue: u32) -> Self {
        Self(((me & 1) * 32 + (pipe & 3) * 8 + (queue & 7)) as u8)
    }

    /// The HQD that `GRBM_GFX_CNTL` selects, if it selects one of a MEC.
    pub fn selected(sel: Selector) -> Option<Self> {
        let me = u32::from(sel.me).checked_sub(1)?;
        (me < 2).then(|| Self::new(me, sel.pipe.into(), sel.queue.into()))
    }

    /// ME number as registers and interrupts count it: 1 is MEC1.
    pub fn me(self) -> u32 {
        u32::from(self.0) / 32 + 1
    }

    /// Pipe in the MEC.
    pub fn pipe(self) -> u32 {
        u32::from(self.0) / 8 % 4
    }

    /// Queue in the pipe.
    pub fn queue(self) -> u32 {
        u32::from(self.0) % 8
    }

    /// The `ring_id` of its interrupts.
    pub fn ring_id(self) -> u8 {
        use rkfd_abi::ih::cp_ring::{ME, PIPE, QUEUE};
        (ME.put(self.me()) | PIPE.put(self.pipe()) | QUEUE.put(self.queue())) as u8
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.as_rlc() {
            Some((engine, rlc)) => write!(f, "sdma{engine}.{rlc}"),
            None => write!(f, "{}.{}.{}", self.me(), self.pipe(), self.queue()),
        }
    }
}

const fn id(reg: Reg) -> RegId {
    RegId::new(reg.seg, reg.off)
}

const fn decl(reg: Reg) -> Decl {
    Decl::new(reg.name, Ip::Gc, id(reg)).unit(Unit::Cp)
}

/// What this unit answers for.
pub const REGISTERS: &[Decl] = &[
    Decl::new("regCP_HQD_*", Ip::Gc, RegId::new(0, FIRST))
        .array(LAST - FIRST + 1, 1)
        .unit(Unit::Cp),
    decl(gc::regCP_MEC_CNTL),
    decl(gc::regCP_PQ_STATUS),
    decl(gc::regCP_PQ_WPTR_POLL_CNTL),
    decl(gc::regCP_PQ_WPTR_POLL_CNTL1),
    decl(gc::regCP_MEC_DOORBELL_RANGE_LOWER),
    decl(gc::regCP_MEC_DOORBELL_RANGE_UPPER),
    decl(gc::regCP_IQ_WAIT_TIME1),
    decl(gc::regCP_IQ_WAIT_TIME2),
    decl(gc::regSPI_COMPUTE_QUEUE_RESET),
    decl(gc::regCPC_INT_STATUS),
    decl(gc::regCPC_INT_CNTX_ID),
    decl(gc::regRLC_CP_SCHEDULERS),
];

/// One HQD's registers.
#[derive(Clone)]
pub struct Bank([u32; BANK]);

impl Bank {
    fn power_on() -> Self {
        let mut bank = Self([0; BANK]);
        // What AMD calls CP_HQD_PERSISTENT_STATE_DEFAULT.
        bank.set(gc::regCP_HQD_PERSISTENT_STATE, 0x0be0_5301);
        bank
    }

    /// Value of a register of the bank.
    pub fn get(&self, reg: Reg) -> u32 {
        self.0[(reg.off - FIRST) as usize]
    }

    /// Two consecutive registers as one value, low half first.
    pub fn get64(&self, reg: Reg) -> u64 {
        join(self.get(reg), self.get(reg.at(1)))
    }

    /// Changes a register of the bank.
    pub fn set(&mut self, reg: Reg, value: u32) {
        self.0[(reg.off - FIRST) as usize] = value;
    }

    /// Changes two consecutive registers.
    pub fn set64(&mut self, reg: Reg, value: u64) {
        self.set(reg, value as u32);
        self.set(reg.at(1), (value >> 32) as u32);
    }

    /// Is `CP_HQD_ACTIVE` set?
    pub fn active(&self) -> bool {
        gc::CP_HQD_ACTIVE__ACTIVE.is_set(self.get(gc::regCP_HQD_ACTIVE))
    }

    /// The doorbell it listens to: dword index on the BAR.
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
    hqd: Vec<Bank>,
    once: HashMap<RegId, u32>,
    /// HQDs whose write pointer is to be read from memory when they start.
    poll_once: u64,
}

impl Default for Banks {
    fn default() -> Self {
        Self {
            hqd: vec![Bank::power_on(); SLOTS],
            once: HashMap::new(),
            poll_once: 0,
        }
    }
}

/// An access to a bank while `GRBM_GFX_CNTL` selects none.
#[derive(Debug, PartialEq, Eq)]
pub struct NoBank;

impl Banks {
    /// The bank of a slot.
    pub fn slot(&self, slot: Slot) -> &Bank {
        &self.hqd[usize::from(slot.0) % SLOTS]
    }

    /// The bank of a slot, to change.
    pub fn slot_mut(&mut self, slot: Slot) -> &mut Bank {
        &mut self.hqd[usize::from(slot.0) % SLOTS]
    }

    /// A register that exists once.
    pub fn once(&self, reg: Reg) -> u32 {
        self.once.get(&id(reg)).copied().unwrap_or(0)
    }

    /// Takes the request to read the write pointer of `slot` from memory.
    pub fn take_poll_once(&mut self, slot: Slot) -> bool {
        let bit = 1 << slot.0;
        let asked = self.poll_once & bit != 0;
        self.poll_once &= !bit;
        asked
    }

    /// The active HQD that listens to a doorbell.
    pub fn find_doorbell(&self, index: u32) -> Option<Slot> {
        let position = self
            .hqd
            .iter()
            .position(|bank| bank.doorbell() == Some(index))?;
        Some(Slot(position as u8))
    }

    /// Is the KIQ the queue in `slot`?
    pub fn is_kiq(&self, slot: Slot) -> bool {
        let schedulers = self.once(gc::regRLC_CP_SCHEDULERS);
        let kiq = 0x80 | slot.me() << 5 | slot.pipe() << 3 | slot.queue();
        gc::RLC_CP_SCHEDULERS__scheduler0.get(schedulers) == kiq
    }

    /// Is the MEC of `slot` halted?
    pub fn halted(&self, slot: Slot) -> bool {
        let cntl = self.once(gc::regCP_MEC_CNTL);
        match slot.me() {
            1 => gc::CP_MEC_CNTL__MEC_ME1_HALT.is_set(cntl),
            _ => gc::CP_MEC_CNTL__MEC_ME2_HALT.is_set(cntl),
        }
    }

    /// Are doorbells listened to at all?
    pub fn doorbells_enabled(&self) -> bool {
        gc::CP_PQ_STATUS__DOORBELL_ENABLE.is_set(self.once(gc::regCP_PQ_STATUS))
    }

    fn is_banked(reg: RegId) -> bool {
        reg.seg == 0 && (FIRST..=LAST).contains(&reg.off)
    }

    /// A read from the register BAR or a packet.
    pub fn read(&self, sel: Selector, reg: RegId) -> Result<u32, NoBank> {
        if Self::is_banked(reg) {
            let slot = Slot::selected(sel).ok_or(NoBank)?;
            return Ok(self.slot(slot).0[(reg.off - FIRST) as usize]);
        }
        Ok(self.once.get(&reg).copied().unwrap_or(0))
    }

    /// A write from the register BAR or a packet; what the engine has to do about it is added to
    /// `wakes`.
    pub fn write(
        &mut self,
        sel: Selector,
        reg: RegId,
        value: u32,
        wakes: &mut Vec<Wake>,
    ) -> Result<(), NoBank> {
        if Self::is_banked(reg) {
            let slot = Slot::selected(sel).ok_or(NoBank)?;
            self.write_bank(slot, reg.off, value, wakes);
            return Ok(());
        }
        self.once.insert(reg, value);
        if reg == id(gc::regSPI_COMPUTE_QUEUE_RESET) {
            let slot = Slot::selected(sel).ok_or(NoBank)?;
            if value & 1 != 0 {
                wakes.push(Wake::ResetQueue(slot));
            }
        } else if reg == id(gc::regCP_MEC_CNTL) {
            let first = gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET.shift;
            // Six reset bits: pipes 0 to 3 of MEC1, 0 and 1 of MEC2.
            for pipe in (0..6).filter(|n| value >> (first + n) & 1 != 0) {
                wakes.push(Wake::ResetPipe(u32::from(pipe) / 4, u32::from(pipe) % 4));
            }
            wakes.push(Wake::Look);
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
        let bank = self.slot_mut(slot);
        let was_active = bank.active();
        bank.0[(off - FIRST) as usize] = value;
        if off == gc::regCP_HQD_ACTIVE.off {
            match (was_active, bank.active()) {
                (false, true) => wakes.push(Wake::Activate(slot)),
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
mod tests {
    use super::*;

    fn sel(me: u8, pipe: u8, queue: u8) -> Selector {
        Selector {
            me,
            pipe,
            queue,
            vmid: 0,
        }
    }

    #[test]
    fn banks_are_apart_and_me_zero_has_none() {
        let mut banks = Banks::default();
        let mut wakes = Vec::new();
        let reg = id(gc::regCP_HQD_PQ_BASE);
        banks.write(sel(1, 2, 3), reg, 5, &mut wakes).unwrap();
        banks.write(sel(2, 2, 3), reg, 6, &mut wakes).unwrap();
        assert_eq!(banks.read(sel(1, 2, 3), reg), Ok(5));
        assert_eq!(banks.read(sel(2, 2, 3), reg), Ok(6));
        assert_eq!(banks.read(sel(1, 2, 4), reg), Ok(0));
        assert_eq!(banks.read(sel(0, 0, 0), reg), Err(NoBank));
        assert!(wakes.is_empty());
    }

    #[test]
    fn activation_and_dequeue_wake_the_engine() {
        let mut banks = Banks::default();
        let mut wakes = Vec::new();
        let slot = Slot::new(1, 1, 0);
        let s = sel(2, 1, 0);
        let dequeue = id(gc::regCP_HQD_DEQUEUE_REQUEST);
        banks.write(s, dequeue, 1, &mut wakes).unwrap();
        assert!(wakes.is_empty(), "not active");
        banks
            .write(s, id(gc::regCP_HQD_ACTIVE), 1, &mut wakes)
            .unwrap();
        banks.write(s, dequeue, 1, &mut wakes).unwrap();
        assert_eq!(wakes, [Wake::Activate(slot), Wake::Dequeue(slot, 1)]);
        assert_eq!(slot.ring_id(), 2 << 2 | 1);
        banks
            .write(
                s,
                id(gc::regRLC_CP_SCHEDULERS),
                0x80 | 2 << 5 | 1 << 3,
                &mut wakes,
            )
            .unwrap();
        assert!(banks.is_kiq(slot));
    }

    #[test]
    fn doorbells_match_only_active_and_enabled_queues() {
        let mut banks = Banks::default();
        let slot = Slot::new(0, 3, 7);
        let bank = banks.slot_mut(slot);
        bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 0x1000 << 2);
        assert_eq!(bank.doorbell(), None);
        bank.set(gc::regCP_HQD_ACTIVE, 1);
        assert_eq!(bank.doorbell(), None);
        bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 1 << 30 | 0x1000 << 2);
        assert_eq!(banks.find_doorbell(0x1000), Some(slot));
        assert_eq!(banks.find_doorbell(0x1001), None);
    }
}
