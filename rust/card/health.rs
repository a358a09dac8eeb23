// SPDX-License-Identifier: GPL-2.0

//! Health of a card: working, hung, under reset by one task, or dead.

use core::{hint, ptr};

use kernel::{
    interrupt::local_interrupt_disable,
    sync::atomic::{Acquire, Atomic, Full, Relaxed, Release},
};

/// The card can be used.
const WORKS: u32 = 0;
/// The card does not respond.
const HUNG: u32 = 1;
/// The card is being reset.
const RESETTING: u32 = 2;
/// The card does not respond and will not be reset.
const DEAD: u32 = 3;
/// The card does not respond, and is being cut off from memory.
const HALTING: u32 = 4;

/// Cause of a reset (`enum AMDGPU_RESET_SRCS`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Any other.
    Unknown,
    /// An uncorrectable error of memory.
    Memory,
    /// The scheduler of queues (HWS or MES).
    Scheduler,
}

/// Health of a card.
pub(crate) struct Health {
    state: Atomic<u32>,
    /// Address of the task that resets the card; only compared.
    by: Atomic<usize>,
    resets: Atomic<u32>,
    /// Number of times that the card was marked hung.
    hangs: Atomic<u32>,
    /// Number of the [`Cause`] of the next reset.
    cause: Atomic<u32>,
}

fn this_task() -> usize {
    ptr::from_ref::<kernel::task::Task>(kernel::current!()) as usize
}

impl Health {
    /// Returns the health of a working card.
    pub(super) fn new() -> Self {
        Self {
            state: Atomic::new(WORKS),
            by: Atomic::new(0),
            resets: Atomic::new(0),
            hangs: Atomic::new(0),
            cause: Atomic::new(Cause::Unknown as u32),
        }
    }

    /// Records the cause of the next reset, unless there is one already.
    pub(crate) fn set_cause(&self, cause: Cause) {
        // Fails if there is one.
        let _ = self
            .cause
            .cmpxchg(Cause::Unknown as u32, cause as u32, Relaxed);
    }

    /// Returns the cause of the next reset.
    pub(crate) fn cause(&self) -> Cause {
        let cause = self.cause.load(Relaxed);
        [Cause::Memory, Cause::Scheduler]
            .into_iter()
            .find(|known| *known as u32 == cause)
            .unwrap_or(Cause::Unknown)
    }

    /// Returns whether the current task must not use the card: it is hung, or another task resets
    /// it.
    pub(super) fn is_unusable(&self) -> bool {
        match self.state() {
            WORKS => false,
            RESETTING => self.by.load(Relaxed) != this_task(),
            _ => true,
        }
    }

    /// Returns the number of card resets that have succeeded.
    pub(crate) fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }

    /// Returns how often the card was hung, or was to be reset after it had been given up.
    pub(crate) fn hangs(&self) -> u32 {
        self.hangs.load(Relaxed)
    }

    /// Returns the state, once a card that is to be cut off is.
    fn state(&self) -> u32 {
        loop {
            match self.state.load(Acquire) {
                // For the time of an access to configuration space.
                HALTING => hint::spin_loop(),
                state => return state,
            }
        }
    }

    /// Calls `cut_off`, which ends DMA by a working card, and marks the card as hung. Returns false
    /// if it was not working before.
    ///
    /// The state changes after `cut_off`: memory that the card uses may be freed from then on.
    /// `cut_off` is called with interrupts disabled, and does not use the health.
    pub(super) fn mark_hung(&self, cut_off: impl FnOnce()) -> bool {
        let _not_preempted = local_interrupt_disable();
        if self.state.cmpxchg(WORKS, HALTING, Full).is_err() {
            // Wait while another task marks it.
            self.state();
            return false;
        }
        cut_off();
        // No other task changes it: the state is HALTING.
        self.count_hang();
        self.state.store(HUNG, Release);
        true
    }

    /// For the task that has changed the state only.
    fn count_hang(&self) {
        let hangs = self.hangs.load(Relaxed).wrapping_add(1);
        self.hangs.store(hangs, Relaxed);
    }

    /// Marks a hung card as one that will not be reset.
    pub(super) fn give_up(&self) {
        // Fails unless the card is hung.
        let _ = self.state.cmpxchg(HUNG, DEAD, Full);
    }

    /// Undoes [`Health::give_up`]: the PCI core is about to reset the card.
    pub(crate) fn expect_reset(&self) {
        if self.state.cmpxchg(DEAD, HUNG, Full).is_ok() {
            self.count_hang();
        }
    }

    /// Returns whether the card is hung and will not be reset.
    pub(crate) fn is_dead(&self) -> bool {
        self.state() == DEAD
    }

    /// Starts the reset of a hung card: only the current task may use it until
    /// [`Health::end_reset`].
    pub(crate) fn begin_reset(&self) {
        self.by.store(this_task(), Relaxed);
        self.state.store(RESETTING, Release);
    }

    /// Ends [`Health::begin_reset`]: the card works if `ok`, else it stays hung. Returns the number
    /// of resets.
    pub(crate) fn end_reset(&self, ok: bool) -> u32 {
        let mut resets = self.resets.load(Relaxed);
        if ok {
            self.cause.store(Cause::Unknown as u32, Relaxed);
            resets = resets.wrapping_add(1);
            self.resets.store(resets, Relaxed);
        }
        self.by.store(0, Relaxed);
        self.state.store(if ok { WORKS } else { DEAD }, Release);
        resets
    }
}
