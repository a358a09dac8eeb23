// SPDX-License-Identifier: GPL-2.0

//! Exceptions of the queues of a process on one GPU, by doorbell: those to be delivered to the
//! runtime, and those that a debugger has not cleared.
//!
//! The interrupt thread records exceptions here, without allocation and without a lock that is held
//! across hardware access.

use core::ops::{BitOr, BitOrAssign};

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
};

use crate::uapi;

/// Exceptions: bit n - 1 for `EC_*` number n (`KFD_EC_MASK()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exceptions(pub(crate) u64);

impl Exceptions {
    /// All exceptions.
    pub(crate) const ALL: Self = Self(u64::MAX);
    /// A new queue, until the debugger clears the exception.
    pub(crate) const QUEUE_NEW: Self = Self::one(uapi::EC_QUEUE_NEW);
    /// A queue was destroyed, an exception of the GPU.
    pub(crate) const QUEUE_DELETE: Self = Self::one(uapi::EC_DEVICE_QUEUE_DELETE);
    /// A VM fault.
    pub(crate) const MEMORY_VIOLATION: Self = Self::one(uapi::EC_DEVICE_MEMORY_VIOLATION);
    /// RUNTIME_ENABLE was called.
    pub(crate) const RUNTIME: Self = Self::one(uapi::EC_PROCESS_RUNTIME);

    /// Exceptions of queues (`KFD_EC_MASK_QUEUE`): of waves, of packets, of the scheduler.
    pub(crate) const OF_QUEUES: Self = Self(
        Self::range(
            uapi::EC_QUEUE_WAVE_ABORT,
            uapi::EC_QUEUE_WAVE_APERTURE_VIOLATION,
        )
        .0 | Self::OF_PACKETS.0
            | Self::range(uapi::EC_QUEUE_PREEMPTION_ERROR, uapi::EC_QUEUE_NEW).0,
    );

    /// Exceptions of packets (`KFD_EC_MASK_PACKET`).
    pub(crate) const OF_PACKETS: Self = Self::range(
        uapi::EC_QUEUE_PACKET_DISPATCH_DIM_INVALID,
        uapi::EC_QUEUE_PACKET_VENDOR_UNSUPPORTED,
    );

    /// Exceptions of GPUs (`KFD_EC_MASK_DEVICE`).
    pub(crate) const OF_DEVICES: Self =
        Self::range(uapi::EC_DEVICE_QUEUE_DELETE, uapi::EC_DEVICE_NEW);

    /// Exceptions of processes (`KFD_EC_MASK_PROCESS`).
    pub(crate) const OF_PROCESSES: Self =
        Self::range(uapi::EC_PROCESS_RUNTIME, uapi::EC_PROCESS_DEVICE_REMOVE);

    const fn range(first: u32, last: u32) -> Self {
        Self((1 << last) - (1 << (first - 1)))
    }

    const fn one(code: u32) -> Self {
        Self::range(code, code)
    }

    /// Returns the exception with this number.
    pub(crate) fn of_code(code: u32) -> Option<Self> {
        let bit = code.checked_sub(1).and_then(|n| 1u64.checked_shl(n))?;
        Some(Self(bit))
    }

    /// Returns whether there is one of `these`.
    pub(crate) fn has(self, these: Self) -> bool {
        self.0 & these.0 != 0
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns these without `others`.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl BitOr for Exceptions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Exceptions {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// Set in the word of a doorbell that a queue has. Exceptions use bits 0 to 48 (`EC_MAX` is 50).
const HAS_QUEUE: u64 = 1 << 63;

/// The exceptions at a doorbell, as words of [`HAS_QUEUE`] and [`Exceptions`].
#[derive(Default)]
struct Doorbell {
    /// To be delivered to the runtime.
    pending: Word,
    /// Not cleared by a debugger.
    status: Word,
    /// Those of packets for which the queue is to be unmapped.
    invalid: Word,
}

struct Word(Atomic<u64>);

impl Default for Word {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Word {
    /// Replaces the exceptions, if there is a queue. Returns the old ones.
    fn update(&self, f: impl Fn(Exceptions) -> Exceptions) -> Option<Exceptions> {
        let mut old = self.0.load(Relaxed);
        while old & HAS_QUEUE != 0 {
            let exceptions = Exceptions(old & !HAS_QUEUE);
            match self.0.cmpxchg(old, f(exceptions).0 | HAS_QUEUE, Full) {
                Ok(_) => return Some(exceptions),
                Err(now) => old = now,
            }
        }
        None
    }

    fn get(&self) -> Exceptions {
        Exceptions(self.0.load(Relaxed) & !HAS_QUEUE)
    }
}

/// The exceptions of a process on one GPU.
pub(crate) struct ExceptionTable(KVVec<Doorbell>);

impl ExceptionTable {
    /// Returns the table of a slice of `doorbells` doorbells, none of which has a queue.
    pub(crate) fn new(doorbells: usize) -> Result<Arc<Self>> {
        let mut table = KVVec::with_capacity(doorbells, GFP_KERNEL)?;
        for _ in 0..doorbells {
            table.push(Doorbell::default(), GFP_KERNEL)?;
        }
        Ok(Arc::new(Self(table), GFP_KERNEL)?)
    }

    fn get(&self, doorbell: u32) -> Option<&Doorbell> {
        self.0.get(u32_as_usize(doorbell))
    }

    /// Adds exceptions to those to be delivered. Returns false if no queue has the doorbell.
    pub(crate) fn raise(&self, doorbell: u32, exceptions: Exceptions) -> bool {
        self.get(doorbell)
            .and_then(|d| d.pending.update(|old| old | exceptions))
            .is_some()
    }

    /// Adds exceptions to those that a debugger clears. Has no effect without such a queue.
    pub(crate) fn record(&self, doorbell: u32, exceptions: Exceptions) {
        if let Some(d) = self.get(doorbell) {
            let _ = d.status.update(|old| old | exceptions);
        }
    }

    /// Records exceptions of packets for which the queue is to be unmapped. Returns false if no
    /// queue has the doorbell.
    pub(crate) fn set_invalid(&self, doorbell: u32, exceptions: Exceptions) -> bool {
        self.get(doorbell)
            .and_then(|d| d.invalid.update(|old| old | exceptions))
            .is_some()
    }

    /// Removes what [`Self::set_invalid`] has recorded. Returns whether there was anything.
    pub(crate) fn take_invalid(&self, doorbell: u32) -> bool {
        self.get(doorbell)
            .and_then(|d| d.invalid.update(|_| Exceptions::default()))
            .is_some_and(|exceptions| !exceptions.is_empty())
    }

    /// Iterates over the doorbells of queues that are to be unmapped.
    pub(crate) fn invalid(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.0)
            .filter(|(_, d)| !d.invalid.get().is_empty())
            .map(|(doorbell, _)| doorbell)
    }

    /// Removes and returns the exceptions to be delivered.
    pub(crate) fn take(&self, doorbell: u32) -> Exceptions {
        self.get(doorbell)
            .and_then(|d| d.pending.update(|_| Exceptions::default()))
            .unwrap_or_default()
    }

    /// Iterates over the doorbells of queues with exceptions to be delivered.
    pub(crate) fn pending(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.0)
            .filter(|(_, d)| !d.pending.get().is_empty())
            .map(|(doorbell, _)| doorbell)
    }

    /// Registers the queue that has a doorbell, which is new to a debugger.
    pub(super) fn register(self: &Arc<Self>, doorbell: u32) -> ExceptionRegistration {
        if let Some(d) = self.get(doorbell) {
            d.pending.0.store(HAS_QUEUE, Relaxed);
            d.invalid.0.store(HAS_QUEUE, Relaxed);
            d.status
                .0
                .store(HAS_QUEUE | Exceptions::QUEUE_NEW.0, Relaxed);
        }
        ExceptionRegistration {
            table: self.clone(),
            doorbell,
        }
    }
}

/// The exceptions of a queue; dropping it discards them.
pub(crate) struct ExceptionRegistration {
    table: Arc<ExceptionTable>,
    doorbell: u32,
}

impl ExceptionRegistration {
    /// Returns the exceptions that no debugger has cleared.
    pub(crate) fn status(&self) -> Exceptions {
        self.table
            .get(self.doorbell)
            .map_or_else(Exceptions::default, |d| d.status.get())
    }

    /// Raises exceptions again that were cleared.
    pub(crate) fn put_back(&self, these: Exceptions) {
        self.table.record(self.doorbell, these);
    }

    /// Clears exceptions. Returns those from before: none that is raised meanwhile is cleared
    /// unseen.
    pub(crate) fn clear(&self, these: Exceptions) -> Exceptions {
        self.table
            .get(self.doorbell)
            .and_then(|d| d.status.update(|old| old.without(these)))
            .unwrap_or_default()
    }
}

impl Drop for ExceptionRegistration {
    fn drop(&mut self) {
        if let Some(d) = self.table.get(self.doorbell) {
            d.pending.0.xchg(0, Full);
            d.invalid.0.xchg(0, Full);
            d.status.0.xchg(0, Full);
        }
    }
}
