// SPDX-License-Identifier: GPL-2.0

//! The profiler lock of a device: one process at a time counts performance events on it.

use kernel::{new_mutex, prelude::*, sync::Mutex};

/// The profiler lock.
#[pin_data]
pub(crate) struct ProfilerLock {
    /// The process, by a number that is not 0; 0 for none. A leaf.
    #[pin]
    holder: Mutex<usize>,
}

impl ProfilerLock {
    /// Returns a lock that no process holds.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            holder <- new_mutex!(0, "rkfd_profiler"),
        })
    }

    /// Takes the lock for a process. `EALREADY` if it holds it, `EBUSY` if another process does.
    pub(crate) fn take(&self, process: usize) -> Result {
        let mut holder = self.holder.lock();
        match *holder {
            0 => *holder = process,
            held if held == process => return Err(EALREADY),
            _ => return Err(EBUSY),
        }
        Ok(())
    }

    /// Releases the lock of a process. `EINVAL` if it does not hold it.
    pub(crate) fn release(&self, process: usize) -> Result {
        let mut holder = self.holder.lock();
        if *holder != process {
            return Err(EINVAL);
        }
        *holder = 0;
        Ok(())
    }

    /// Returns whether a process holds the lock.
    pub(crate) fn is_held(&self) -> bool {
        *self.holder.lock() != 0
    }
}
