// SPDX-License-Identifier: GPL-2.0

//! Tasks: names and thread groups.
//!
//! C header: [`include/linux/sched.h`](srctree/include/linux/sched.h)

use core::fmt::Write;

use kernel::{bindings, task::Task};

/// Returns whether `SIGKILL` is pending for the current task (`__fatal_signal_pending()`).
pub(crate) fn fatal_signal_pending() -> bool {
    let task: *const bindings::task_struct = kernel::current!().as_ptr();
    // SAFETY: The current task is valid. Another task may set the bit meanwhile: a volatile read of
    // one word sees the set before or after that.
    let pending = unsafe { core::ptr::read_volatile(&raw const (*task).pending.signal.sig[0]) };
    pending & (1 << (bindings::SIGKILL - 1)) != 0
}

/// Returns whether `task` is the leader of the current thread group.
pub(crate) fn is_current_leader(task: &Task) -> bool {
    core::ptr::eq(kernel::current!().group_leader(), task)
}

/// The name of a task (`comm`).
pub(crate) struct Name([u8; 16]);

impl Name {
    /// Reads the present name.
    pub(crate) fn of(task: &Task) -> Self {
        let task: *const bindings::task_struct = core::ptr::from_ref(task).cast();
        // SAFETY: The task is valid by its type. A concurrent change of the name may yield a
        // mixture of both; the bytes are copied, and no terminator is relied on.
        let name = unsafe { core::ptr::read_volatile(&raw const (*task).comm) };
        Self(name)
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for byte in self.0.iter().take_while(|b| **b != 0) {
            f.write_char(char::from(*byte))?;
        }
        Ok(())
    }
}
