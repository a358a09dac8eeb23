// SPDX-License-Identifier: GPL-2.0

//! Health of a card: working, hung, under reset by one task, or hung for good.

use core::ptr;

use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// The card can be used.
const WORKS: u32 = 0;
/// The card does not respond.
const HUNG: u32 = 1;
/// The card is being reset.
const RESETTING: u32 = 2;
/// The card does not respond and will not be reset.
const DEAD: u32 = 3;

/// Health of a card.
pub(crate) struct Health {
    state: Atomic<u32>,
    /// Address of the task that resets the card; only compared.
    by: Atomic<usize>,
    resets: Atomic<u32>,
    /// The next reset is because of an uncorrectable error of memory.
    memory_error: Atomic<bool>,
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
            memory_error: Atomic::new(false),
        }
    }

    /// Records an uncorrectable error of memory, until the next reset.
    pub(crate) fn set_memory_error(&self) {
        self.memory_error.store(true, Relaxed);
    }

    /// Returns whether there was an uncorrectable error of memory since the last reset.
    pub(crate) fn has_memory_error(&self) -> bool {
        self.memory_error.load(Relaxed)
    }

    /// Returns whether the current task must not use the card: it is hung, or another task resets
    /// it.
    pub(super) fn is_unusable(&self) -> bool {
        match self.state.load(Acquire) {
            WORKS => false,
            RESETTING => self.by.load(Relaxed) != this_task(),
            _ => true,
        }
    }

    /// Returns the number of card resets.
    pub(crate) fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }

    /// Marks a working card as hung. Returns false if it was not working before.
    pub(crate) fn mark_hung(&self) -> bool {
        self.state.cmpxchg(WORKS, HUNG, Full).is_ok()
    }

    /// Marks a hung card as one that will not be reset.
    pub(super) fn give_up(&self) {
        // Fails unless the card is hung.
        let _ = self.state.cmpxchg(HUNG, DEAD, Full);
    }

    /// Undoes [`Health::give_up`]: the PCI core is about to reset the card.
    pub(crate) fn expect_reset(&self) {
        // Fails unless the card is dead.
        let _ = self.state.cmpxchg(DEAD, HUNG, Full);
    }

    /// Returns whether the card is hung and will not be reset.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.load(Acquire) == DEAD
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
            self.memory_error.store(false, Relaxed);
            resets = resets.wrapping_add(1);
            self.resets.store(resets, Relaxed);
        }
        self.by.store(0, Relaxed);
        self.state.store(if ok { WORKS } else { DEAD }, Release);
        resets
    }
}
