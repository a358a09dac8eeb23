// SPDX-License-Identifier: GPL-2.0

//! Pending exceptions of the queues of a process on one GPU, by doorbell.
//!
//! The interrupt thread records exceptions here, without allocation and without a lock that is held
//! across hardware access.

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
};

/// Set in the word of a doorbell that a queue has. Exceptions use bits 0 to 48 (`EC_MAX` is 50).
const HAS_QUEUE: u64 = 1 << 63;

/// A word for each doorbell: [`HAS_QUEUE`] and the exceptions, bit n - 1 for `EC_*` number n.
pub(crate) struct PendingExceptions(KVVec<Atomic<u64>>);

impl PendingExceptions {
    /// Returns the state for a slice of so many doorbells, none of which has a queue.
    pub(crate) fn new(doorbells: usize) -> Result<Arc<Self>> {
        let mut words = KVVec::with_capacity(doorbells, GFP_KERNEL)?;
        for _ in 0..doorbells {
            words.push(Atomic::new(0), GFP_KERNEL)?;
        }
        Ok(Arc::new(Self(words), GFP_KERNEL)?)
    }

    fn word(&self, doorbell: u32) -> Option<&Atomic<u64>> {
        self.0.get(u32_as_usize(doorbell))
    }

    /// Replaces the word of a doorbell that has a queue. Returns the old exceptions; `None` if the
    /// doorbell has no queue.
    fn update(&self, doorbell: u32, f: impl Fn(u64) -> u64) -> Option<u64> {
        let word = self.word(doorbell)?;
        let mut old = word.load(Relaxed);
        while old & HAS_QUEUE != 0 {
            match word.cmpxchg(old, f(old) | HAS_QUEUE, Full) {
                Ok(_) => return Some(old & !HAS_QUEUE),
                Err(now) => old = now,
            }
        }
        None
    }

    /// Adds exceptions to those of a queue. Returns false if no queue has the doorbell.
    pub(crate) fn raise(&self, doorbell: u32, exceptions: u64) -> bool {
        self.update(doorbell, |old| old | exceptions).is_some()
    }

    /// Removes and returns the exceptions of a queue.
    pub(crate) fn take(&self, doorbell: u32) -> u64 {
        self.update(doorbell, |_| 0).unwrap_or(0)
    }

    /// Iterates over the doorbells of queues that have exceptions.
    pub(crate) fn pending(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.0)
            .filter(|(_, word)| word.load(Relaxed) & !HAS_QUEUE != 0)
            .map(|(doorbell, _)| doorbell)
    }

    /// Registers the queue that has a doorbell.
    pub(super) fn register(self: &Arc<Self>, doorbell: u32) -> ExceptionRegistration {
        if let Some(word) = self.word(doorbell) {
            word.store(HAS_QUEUE, Relaxed);
        }
        ExceptionRegistration {
            pending: self.clone(),
            doorbell,
        }
    }
}

/// Collects the exceptions of a queue; dropping it discards them.
pub(super) struct ExceptionRegistration {
    pending: Arc<PendingExceptions>,
    doorbell: u32,
}

impl Drop for ExceptionRegistration {
    fn drop(&mut self) {
        if let Some(word) = self.pending.word(self.doorbell) {
            word.xchg(0, Full);
        }
    }
}
