// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of one engine, shared by the thread that serves the guest, the scheduler firmware and
//! the engine's own thread.
//!
//! An engine has ten contexts with the same block of registers each: the GFX and the PAGE queue of
//! the kernel, and eight RLC queues. SDMA 7 has eight: queue 0 is the kernel's, called GFX here,
//! and queue n is RLC queue n.

use std::fmt;

use gpu_regs::Reg;
use gpu_regs::{gc_12_0_0 as gc, sdma_4_4_2 as regs};
use rkfd_abi::bits::join;
use rkfd_abi::sdma::RLC_QUEUES;

use super::layout::{Layout, Version};
use crate::gpu::Boot;

/// Contexts per engine.
pub const CONTEXTS: usize = 2 + RLC_QUEUES;
/// Dwords of an engine's register space.
const REGISTERS: usize = 0x400;
/// A context of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u8);

impl ContextId {
    /// The kernel's ring.
    pub const GFX: Self = Self(0);
    /// The kernel's second ring.
    pub const PAGE: Self = Self(1);

    /// Returns the context of user queue `n`.
    pub const fn rlc(n: u8) -> Self {
        Self(2 + n)
    }

    /// Returns whether it is one of the kernel's rings.
    pub const fn is_kernel(self) -> bool {
        self.0 < 2
    }

    /// Returns the number of a user queue.
    pub const fn as_rlc(self) -> Option<u8> {
        self.0.checked_sub(2)
    }

    /// Returns all contexts that any version has.
    pub fn every() -> impl Iterator<Item = Self> {
        (0..CONTEXTS as u8).map(Self)
    }
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("gfx"),
            1 => f.write_str("page"),
            n => write!(f, "rlc{}", n - 2),
        }
    }
}

/// Result of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// The write pointer moved.
    Moved(ContextId),
    /// The write pointer is ahead of the doorbell's value.
    Behind(ContextId),
    /// No enabled context has this doorbell.
    NoQueue,
}

/// See the module documentation.
pub struct Bank {
    layout: &'static Layout,
    values: Vec<u32>,
    /// Counts changes of `RB_ENABLE`, to detect off and on again.
    starts: [u32; CONTEXTS],
    /// Dequeue requested by the scheduler.
    leaving: [bool; CONTEXTS],
    /// Inside a packet or an IB.
    active: [bool; CONTEXTS],
    /// Stopped by an exception.
    stopped: [bool; CONTEXTS],
    /// PASIDs of the queues, for the event log.
    pasids: [u16; CONTEXTS],
    /// The context whose packets are being executed.
    selected: Option<ContextId>,
    boot: Boot,
    /// Unhalted without firmware.
    stalled: bool,
}

impl Bank {
    /// Returns the registers in power-on state.
    pub fn new(layout: &'static Layout, boot: Boot) -> Self {
        let mut values = vec![0; REGISTERS];
        let power_on = match boot {
            Boot::Cold => layout.power_on,
            Boot::Warm => layout.warm,
        };
        for (reg, value) in power_on {
            if let Some(at) = layout.of_engine(*reg) {
                values[at] = *value;
            }
        }
        Self {
            layout,
            values,
            starts: [0; CONTEXTS],
            leaving: [false; CONTEXTS],
            active: [false; CONTEXTS],
            stopped: [false; CONTEXTS],
            pasids: [0; CONTEXTS],
            selected: None,
            boot,
            stalled: false,
        }
    }

    /// Resets to power-on state. Earlier starts are detected as gone.
    pub fn reset(&mut self) {
        let starts = self.starts.map(|n| n.wrapping_add(1));
        *self = Self {
            starts,
            ..Self::new(self.layout, self.boot)
        };
    }

    /// Sets the state after the engine's next reset.
    pub fn set_boot(&mut self, boot: Boot) {
        self.boot = boot;
    }

    /// Marks the engine as started by the PSP. Resets of the engine alone start it again.
    pub fn start(&mut self) {
        self.boot = Boot::Warm;
        self.stalled = false;
        if let Some(at) = self.layout.of_engine(regs::regSDMA_F32_CNTL) {
            self.values[at] &= !self.layout.halts;
        }
    }

    /// Sets whether the engine is stalled, regardless of its halt bit.
    pub fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// Returns whether the engine executes nothing.
    pub fn halted(&self) -> bool {
        self.stalled || self.get(regs::regSDMA_F32_CNTL) & self.layout.halts != 0
    }

    /// Returns whether all bits that stop the engine are set.
    pub fn held(&self) -> bool {
        self.get(regs::regSDMA_F32_CNTL) & self.layout.halts == self.layout.halts
    }

    /// Returns the layout of the engine's version.
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// Returns a register of the engine.
    pub fn get(&self, reg: Reg) -> u32 {
        self.layout.of_engine(reg).map_or(0, |at| self.values[at])
    }

    /// Returns a register of a context, named as in the GFX queue.
    pub fn of(&self, id: ContextId, reg: Reg) -> u32 {
        let at = self.layout.of_context(id, reg);
        at.map_or(0, |at| self.values[at])
    }

    /// Returns two registers of a context, low half first.
    pub fn wide(&self, id: ContextId, lo: Reg, hi: Reg) -> u64 {
        join(self.of(id, lo), self.of(id, hi))
    }

    /// Sets a register of a context, named as in the GFX queue.
    pub fn put(&mut self, id: ContextId, reg: Reg, value: u32) {
        let Some(at) = self.layout.of_context(id, reg) else {
            return;
        };
        if reg == regs::regSDMA_GFX_RB_CNTL {
            let enable = regs::SDMA_GFX_RB_CNTL__RB_ENABLE;
            if enable.is_set(self.values[at] ^ value) {
                self.starts[usize::from(id.0)] = self.starts[usize::from(id.0)].wrapping_add(1);
                self.stopped[usize::from(id.0)] = false;
            }
        }
        self.values[at] = value;
    }

    /// Sets two registers of a context.
    pub fn put_wide(&mut self, id: ContextId, lo: Reg, hi: Reg, value: u64) {
        self.put(id, lo, value as u32);
        self.put(id, hi, (value >> 32) as u32);
    }

    /// Handles a driver's read, by offset in the engine.
    pub fn read(&self, local: u32) -> u32 {
        if self.layout.of_engine(regs::regSDMA_STATUS_REG) == Some(local as usize) {
            let idle = regs::SDMA_STATUS_REG__IDLE.mask;
            let busy = self.layout.contexts().any(|id| !self.is_idle(id));
            return self.layout.idle_status & !if busy { idle } else { 0 };
        }
        match self.layout.context_of(local) {
            Some((id, Some(off))) if off == regs::regSDMA_GFX_CONTEXT_STATUS.off => self.status(id),
            _ => self.values.get(local as usize).copied().unwrap_or(0),
        }
    }

    /// Handles a driver's write, by offset in the engine.
    pub fn write(&mut self, local: u32, value: u32) {
        match self.layout.context_of(local) {
            Some((id, Some(off))) if off == regs::regSDMA_GFX_RB_CNTL.off => {
                self.put(id, regs::regSDMA_GFX_RB_CNTL, value);
            }
            _ => {
                if let Some(slot) = self.values.get_mut(local as usize) {
                    *slot = value;
                }
            }
        }
    }

    /// Returns whether the ring of a context is enabled.
    pub fn enabled(&self, id: ContextId) -> bool {
        regs::SDMA_GFX_RB_CNTL__RB_ENABLE.is_set(self.of(id, regs::regSDMA_GFX_RB_CNTL))
    }

    /// Returns the number of the current start of a context.
    pub fn start_of(&self, id: ContextId) -> u32 {
        self.starts[usize::from(id.0)]
    }

    /// Returns the read pointer register.
    pub fn rptr(&self, id: ContextId) -> u64 {
        self.wide(id, regs::regSDMA_GFX_RB_RPTR, regs::regSDMA_GFX_RB_RPTR_HI)
    }

    /// Returns the write pointer register.
    pub fn wptr(&self, id: ContextId) -> u64 {
        self.wide(id, regs::regSDMA_GFX_RB_WPTR, regs::regSDMA_GFX_RB_WPTR_HI)
    }

    /// Sets the read pointer register.
    pub fn set_rptr(&mut self, id: ContextId, value: u64) {
        let (lo, hi) = (regs::regSDMA_GFX_RB_RPTR, regs::regSDMA_GFX_RB_RPTR_HI);
        self.put_wide(id, lo, hi, value);
    }

    /// Sets the write pointer register.
    pub fn set_wptr(&mut self, id: ContextId, value: u64) {
        let (lo, hi) = (regs::regSDMA_GFX_RB_WPTR, regs::regSDMA_GFX_RB_WPTR_HI);
        self.put_wide(id, lo, hi, value);
    }

    /// Returns whether a context has no work.
    pub fn is_idle(&self, id: ContextId) -> bool {
        let empty = !self.enabled(id) || self.rptr(id) == self.wptr(id);
        empty && !self.active[usize::from(id.0)]
    }

    /// Returns the status register of a context.
    pub fn status(&self, id: ContextId) -> u32 {
        use regs::*;
        let idle = self.is_idle(id);
        let selected = self.selected == Some(id) && !idle;
        SDMA_GFX_CONTEXT_STATUS__IDLE.put(idle.into())
            | SDMA_GFX_CONTEXT_STATUS__SELECTED.put(selected.into())
            | SDMA_GFX_CONTEXT_STATUS__EXCEPTION.put(self.stopped[usize::from(id.0)].into())
    }

    /// Publishes the progress of a context.
    pub fn publish(&mut self, id: ContextId, rptr: u64, active: bool, stopped: bool) {
        self.set_rptr(id, rptr);
        self.active[usize::from(id.0)] = active;
        self.stopped[usize::from(id.0)] = stopped;
    }

    /// Marks a context as being executed.
    pub fn begin(&mut self, id: ContextId) {
        self.active[usize::from(id.0)] = true;
        self.selected = Some(id);
    }

    /// Sets the context whose packet occupies the engine.
    pub fn select(&mut self, id: Option<ContextId>) {
        self.selected = id;
    }

    /// Handles a doorbell: dword index on the BAR, write pointer in bytes.
    pub fn ring(&mut self, index: u32, value: u64) -> Rung {
        let matches_doorbell = |id: &ContextId| {
            let on =
                regs::SDMA_GFX_DOORBELL__ENABLE.is_set(self.of(*id, regs::regSDMA_GFX_DOORBELL));
            on && self.doorbell(*id) == index
        };
        let Some(id) = self.layout.contexts().find(matches_doorbell) else {
            return Rung::NoQueue;
        };
        let doorbell = self.of(id, regs::regSDMA_GFX_DOORBELL);
        let captured = regs::SDMA_GFX_DOORBELL__CAPTURED.mask;
        self.put(id, regs::regSDMA_GFX_DOORBELL, doorbell | captured);
        let may_shrink = self.of(id, regs::regSDMA_GFX_MINOR_PTR_UPDATE) & 1 != 0;
        if value < self.wptr(id) && !may_shrink {
            return Rung::Behind(id);
        }
        self.set_wptr(id, value);
        Rung::Moved(id)
    }

    /// Returns whether a context polls its write pointer in memory.
    pub fn polls_wptr(&self, id: ContextId) -> bool {
        match self.layout.version {
            Version::V4 => {
                let poll = self.of(id, regs::regSDMA_GFX_RB_WPTR_POLL_CNTL);
                regs::SDMA_GFX_RB_WPTR_POLL_CNTL__ENABLE.is_set(poll)
                    || regs::SDMA_GFX_RB_WPTR_POLL_CNTL__F32_POLL_ENABLE.is_set(poll)
            }
            // With MCU_WPTR_POLL_ENABLE the microcontroller reads it when a queue is mapped or its
            // doorbell is rung.
            Version::V7 => {
                let control = self.of(id, regs::regSDMA_GFX_RB_CNTL);
                gc::SDMA0_QUEUE0_RB_CNTL__WPTR_POLL_ENABLE.is_set(control)
            }
        }
    }

    /// Returns the dword index on the BAR of a context's doorbell.
    pub fn doorbell(&self, id: ContextId) -> u32 {
        regs::SDMA_GFX_DOORBELL_OFFSET__OFFSET.get(self.of(id, regs::regSDMA_GFX_DOORBELL_OFFSET))
    }

    /// Returns the PASID of a queue.
    pub fn pasid(&self, id: ContextId) -> u16 {
        self.pasids[usize::from(id.0)]
    }

    /// Sets the PASID of a queue.
    pub fn set_pasid(&mut self, id: ContextId, pasid: u16) {
        self.pasids[usize::from(id.0)] = pasid;
    }

    /// Returns whether a dequeue is requested.
    pub fn is_leaving(&self, id: ContextId) -> bool {
        self.leaving[usize::from(id.0)]
    }

    /// Sets or clears the dequeue request.
    pub fn set_leaving(&mut self, id: ContextId, leaving: bool) {
        self.leaving[usize::from(id.0)] = leaving;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4() -> &'static Layout {
        Layout::of([4, 4, 2])
    }

    #[test]
    fn register_blocks_match() {
        let of = |reg: Reg| v4().context_of(reg.off);
        let status = Some(regs::regSDMA_GFX_CONTEXT_STATUS.off);
        let control = Some(regs::regSDMA_GFX_RB_CNTL.off);
        assert_eq!(
            of(regs::regSDMA_GFX_RB_CNTL),
            Some((ContextId::GFX, control))
        );
        assert_eq!(
            of(regs::regSDMA_PAGE_CONTEXT_STATUS),
            Some((ContextId::PAGE, status))
        );
        assert_eq!(
            of(regs::regSDMA_RLC0_CONTEXT_STATUS),
            Some((ContextId::rlc(0), status))
        );
        assert_eq!(
            of(regs::regSDMA_RLC7_RB_CNTL),
            Some((ContextId::rlc(7), control))
        );
        assert_eq!(
            of(regs::regSDMA_RLC0_DOORBELL_OFFSET).and_then(|c| c.1),
            Some(regs::regSDMA_GFX_DOORBELL_OFFSET.off)
        );
        assert_eq!(of(regs::regSDMA_CNTL), None);
    }

    #[test]
    fn doorbell_updates_wptr_of_enabled_context() {
        let mut bank = Bank::new(v4(), Boot::Warm);
        let id = ContextId::rlc(3);
        assert_eq!(bank.ring(0x200, 64), Rung::NoQueue);
        bank.put(id, regs::regSDMA_GFX_DOORBELL_OFFSET, 0x200 << 2);
        assert_eq!(bank.ring(0x200, 64), Rung::NoQueue);
        bank.put(
            id,
            regs::regSDMA_GFX_DOORBELL,
            regs::SDMA_GFX_DOORBELL__ENABLE.mask,
        );
        assert_eq!(bank.ring(0x200, 1 << 32 | 64), Rung::Moved(id));
        assert_eq!(bank.wptr(id), 1 << 32 | 64);
        assert_eq!(bank.ring(0x200, 32), Rung::Behind(id));
        bank.put(id, regs::regSDMA_GFX_MINOR_PTR_UPDATE, 1);
        assert_eq!(bank.ring(0x200, 32), Rung::Moved(id));
        assert_eq!(bank.wptr(id), 32);
    }

    #[test]
    fn enabled_context_is_idle_if_pointers_are_equal() {
        let mut bank = Bank::new(v4(), Boot::Warm);
        let status = |bank: &Bank| bank.read(regs::regSDMA_GFX_CONTEXT_STATUS.off);
        assert_eq!(status(&bank), 4);
        bank.set_wptr(ContextId::GFX, 32);
        bank.put(ContextId::GFX, regs::regSDMA_GFX_RB_CNTL, 1);
        bank.select(Some(ContextId::GFX));
        assert_eq!(status(&bank), 1);
        assert_eq!(bank.read(regs::regSDMA_STATUS_REG.off) & 1, 0);
        bank.publish(ContextId::GFX, 32, false, false);
        assert_eq!(status(&bank), 4);
        let start = bank.start_of(ContextId::GFX);
        bank.reset();
        assert_ne!(bank.start_of(ContextId::GFX), start);
        assert_eq!(bank.read(regs::regSDMA_STATUS_REG.off), v4().idle_status);
    }
}
