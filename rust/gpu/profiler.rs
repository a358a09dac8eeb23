// SPDX-License-Identifier: GPL-2.0

//! The profiler lock of a device: one process at a time counts performance events on it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Mutex,
    },
};

/// The profiler lock.
#[pin_data]
pub(crate) struct ProfilerLock {
    /// The process, by a number that is not 0; 0 for none. Written with `changing` held.
    holder: Atomic<usize>,
    /// Held while the queues are changed, too.
    #[pin]
    changing: Mutex<()>,
}

impl ProfilerLock {
    /// Returns a lock that no process holds.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            holder: Atomic::new(0),
            changing <- new_mutex!((), "rkfd_profiler"),
        })
    }

    /// Takes the lock for a process, then calls `f` for the queues that there are. `EALREADY` if it
    /// holds it, `EBUSY` if another process does, or the error of `f`, after which it holds it.
    pub(crate) fn take(&self, process: usize, f: impl FnOnce() -> Result) -> Result {
        let _changing = self.changing.lock();
        match self.holder.load(Relaxed) {
            0 => self.holder.store(process, Relaxed),
            held if held == process => return Err(EALREADY),
            _ => return Err(EBUSY),
        }
        f()
    }

    /// Releases the lock of a process, then calls `f` for the queues that there are. `EINVAL` if it
    /// does not hold it, or the error of `f`.
    pub(crate) fn release(&self, process: usize, f: impl FnOnce() -> Result) -> Result {
        let _changing = self.changing.lock();
        if self.holder.load(Relaxed) != process {
            return Err(EINVAL);
        }
        self.holder.store(0, Relaxed);
        f()
    }

    /// Returns whether a process holds the lock. Queues that are added under the lock of their
    /// [`Dqm`](crate::dqm::Dqm) from now on are counted if it does: `f` of [`Self::take`] changes
    /// the others under that lock.
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Relaxed) != 0
    }
}
