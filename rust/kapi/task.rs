// SPDX-License-Identifier: GPL-2.0

//! What to know about the current task.

use kernel::task::Task;

use crate::bindings as ours;

/// A name for the current task's memory, or `None` for a kernel thread.
///
/// It is unique among the memories that exist; a [`super::mmu_notifier::Registration`] keeps it from
/// being used again.
pub(crate) fn current_mm_key() -> Option<usize> {
    kernel::current!().mm().map(|mm| mm.as_raw() as usize)
}

/// Is the current system call one of a 32-bit program?
pub(crate) fn in_compat_syscall() -> bool {
    // SAFETY: Looks at the current task only.
    unsafe { ours::rkfd_helper_in_compat_syscall() }
}

/// Is `task` the leader of the current thread group?
pub(crate) fn is_current_leader(task: &Task) -> bool {
    core::ptr::eq(kernel::current!().group_leader(), task)
}
