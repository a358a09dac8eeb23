// SPDX-License-Identifier: GPL-2.0

//! Completions that can be waited for with a time limit.

use kernel::{bindings, prelude::*, time::Jiffies, types::Opaque};

use crate::bindings as ours;

/// Something that happens once, until it is made not to have happened.
#[pin_data]
pub(crate) struct Completion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: A completion is made to be used by several tasks.
unsafe impl Send for Completion {}
// SAFETY: As above.
unsafe impl Sync for Completion {}

impl Completion {
    /// Nothing has happened yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing and pinned.
                unsafe { bindings::init_completion(slot) }
            }),
        })
    }

    /// It has happened: wakes everybody, now and later.
    pub(crate) fn complete_all(&self) {
        // SAFETY: Initialized by `new`.
        unsafe { bindings::complete_all(self.inner.get()) }
    }

    /// Wakes one waiter.
    pub(crate) fn complete(&self) {
        // SAFETY: Initialized by `new`.
        unsafe { bindings::complete(self.inner.get()) }
    }

    /// It has not happened. To be called while nobody waits.
    pub(crate) fn reinit(&self) {
        // SAFETY: Initialized by `new`; at worst, a waiter waits on.
        unsafe { ours::rkfd_helper_reinit_completion(self.inner.get()) }
    }

    /// Waits until it happens; `ETIME` after `timeout`. Signals do not end the wait.
    pub(crate) fn wait_timeout(&self, timeout: Jiffies) -> Result {
        // SAFETY: Initialized by `new`.
        match unsafe { bindings::wait_for_completion_timeout(self.inner.get(), timeout) } {
            0 => Err(ETIME),
            _ => Ok(()),
        }
    }

    /// As [`Self::wait_timeout`]; a signal ends the wait with `ERESTARTSYS`.
    pub(crate) fn wait_interruptible_timeout(&self, timeout: Jiffies) -> Result {
        // SAFETY: Initialized by `new`.
        match unsafe {
            bindings::wait_for_completion_interruptible_timeout(self.inner.get(), timeout)
        } {
            0 => Err(ETIME),
            n if n < 0 => Err(ERESTARTSYS),
            _ => Ok(()),
        }
    }
}
