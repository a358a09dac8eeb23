// SPDX-License-Identifier: GPL-2.0

//! Tasks: lookup, names, thread groups, tracers.
//!
//! C headers: [`include/linux/sched.h`](srctree/include/linux/sched.h),
//! [`include/linux/ptrace.h`](srctree/include/linux/ptrace.h)

use core::{fmt::Write, ptr::NonNull};

use kernel::{
    bindings,
    sync::aref::ARef,
    task::{Pid, Task},
};

use crate::bindings as ours;

/// Returns the task with this id in the PID namespace of the current task.
pub(crate) fn find(nr: Pid) -> Option<ARef<Task>> {
    // SAFETY: Takes any number; returns a task with a reference, or null.
    let task = NonNull::new(unsafe { ours::rkfd_helper_find_task(nr) })?;
    // SAFETY: The reference of the function above is handed over. The types are the same.
    Some(unsafe { ARef::from_raw(task.cast()) })
}

/// Returns the leader of a task's thread group; `None` if the task has ended.
pub(crate) fn leader_of(task: &Task) -> Option<ARef<Task>> {
    // SAFETY: The task is valid by its type; returns a task with a reference, or null.
    let leader = NonNull::new(unsafe { ours::rkfd_helper_group_leader(task.as_ptr().cast()) })?;
    // SAFETY: The reference of the function above is handed over. The types are the same.
    Some(unsafe { ARef::from_raw(leader.cast()) })
}

/// Returns whether the current task has attached to `task` by `ptrace()`.
pub(crate) fn is_traced_by_current(task: &Task) -> bool {
    // SAFETY: The task is valid by its type; its tracer is read under RCU.
    unsafe { ours::rkfd_helper_is_traced_by_current(task.as_ptr().cast()) }
}

/// Returns whether the current task is a kernel thread without user memory.
pub(crate) fn is_kthread() -> bool {
    // SAFETY: Reads fields of the current task that only it changes.
    unsafe { ours::rkfd_helper_is_kthread() }
}

/// Returns whether `SIGKILL` is pending for the current task (`__fatal_signal_pending()`).
pub(crate) fn fatal_signal_pending() -> bool {
    let task: *const bindings::task_struct = kernel::current!().as_ptr();
    // SAFETY: The current task is valid. Another task may set the bit meanwhile: a volatile read of
    // one word returns the set before or after that.
    let pending = unsafe { core::ptr::read_volatile(&raw const (*task).pending.signal.sig[0]) };
    pending & (1 << (bindings::SIGKILL - 1)) != 0
}

/// Sends `SIGBUS` to a task (`send_sig()`). Does not sleep.
pub(crate) fn send_sigbus(task: &Task) {
    // CAST: Signal numbers are below 65.
    let signal = bindings::SIGBUS as i32;
    // SAFETY: The task is valid by its type, also after it has ended: then the function does
    // nothing. Nothing in this crate holds the lock of a signal handler table.
    unsafe { bindings::send_sig(signal, task.as_ptr(), 0) };
}

/// Returns whether `task` is the leader of the current thread group.
pub(crate) fn is_current_leader(task: &Task) -> bool {
    core::ptr::eq(kernel::current!().group_leader(), task)
}

/// The ids of a thread group.
#[derive(Clone, Copy)]
pub(crate) struct Pids {
    /// Number of the address space, given by the caller of [`Self::of`]: never reused, unlike ids.
    pub(crate) serial: u64,
    /// In the initial PID namespace: no other group has it.
    pub(crate) global: Pid,
    /// In its own PID namespace: the result of `getpid()`.
    pub(crate) own: Pid,
}

impl Pids {
    /// Returns those of the group of this leader; `serial` is 0 without a number.
    pub(crate) fn of(leader: &Task, serial: u64) -> Self {
        let namespace = leader.get_pid_ns();
        Self {
            serial,
            global: leader.pid(),
            own: leader.tgid_nr_ns(namespace.as_deref()),
        }
    }
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

    /// Returns the bytes, which need not be UTF-8.
    pub(crate) fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        self.0
            .get(..end.unwrap_or(self.0.len()))
            .unwrap_or_default()
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for byte in self.bytes() {
            f.write_char(char::from(*byte))?;
        }
        Ok(())
    }
}
