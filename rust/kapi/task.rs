// SPDX-License-Identifier: GPL-2.0

//! What to know about the current task.

use core::{fmt::Write, marker::PhantomData};

use kernel::{
    bindings,
    fs::{File, LocalFile},
    prelude::*,
    sync::aref::ARef,
    task::Task,
};

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

/// Returns whether `SIGKILL` is pending for the current task (`__fatal_signal_pending`).
pub(crate) fn fatal_signal_pending() -> bool {
    let task: *const bindings::task_struct = kernel::current!().as_ptr();
    // SAFETY: The current task is valid. Another task may set the bit meanwhile: a volatile read of
    // one word sees the set before or after that.
    let pending = unsafe { core::ptr::read_volatile(&raw const (*task).pending.signal.sig[0]) };
    pending & (1 << (bindings::SIGKILL - 1)) != 0
}

/// Is `task` the leader of the current thread group?
pub(crate) fn is_current_leader(task: &Task) -> bool {
    core::ptr::eq(kernel::current!().group_leader(), task)
}

/// The name of a task.
pub(crate) struct Name([u8; 16]);

impl Name {
    /// What it is called just now.
    pub(crate) fn of(task: &Task) -> Self {
        let task: *const bindings::task_struct = core::ptr::from_ref(task).cast();
        // SAFETY: The task is valid, and its name is always some bytes with a zero at the end. It may
        // change while it is read: that gives a mixture of both.
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

/// What a task may be allowed to do.
#[derive(Clone, Copy)]
pub(crate) enum Capability {
    /// Checkpoint and restore processes.
    CheckpointRestore,
    /// Everything that an administrator does.
    SysAdmin,
    /// Go before others.
    SysNice,
}

/// Does the current task have a capability in the initial user namespace?
pub(crate) fn capable(capability: Capability) -> bool {
    let number = match capability {
        Capability::CheckpointRestore => bindings::CAP_CHECKPOINT_RESTORE,
        Capability::SysAdmin => bindings::CAP_SYS_ADMIN,
        Capability::SysNice => bindings::CAP_SYS_NICE,
    };
    // SAFETY: Looks at the current task only.
    unsafe { bindings::capable(number as c_int) }
}

/// Could `len` bytes at `addr` belong to a user program? Says nothing about what is mapped there.
pub(crate) fn access_ok(addr: u64, len: usize) -> bool {
    // SAFETY: Compares numbers only.
    unsafe { ours::rkfd_helper_access_ok(addr, len) }
}

/// Nanoseconds of the clock that nobody adjusts.
pub(crate) fn ktime_get_raw_ns() -> u64 {
    // SAFETY: Reading the clock has no preconditions.
    unsafe { bindings::ktime_get_raw() as u64 }
}

/// Runs `f` in a kernel thread with the memory of `task` in place of user memory, if that is the one with
/// this key (see [`current_mm_key`]); `ESRCH` if not. It may take as long as the process wants.
pub(crate) fn with_memory_of<T>(task: &Task, mm_key: usize, f: impl FnOnce() -> T) -> Result<T> {
    if kernel::current!().mm().is_some() {
        return Err(EINVAL);
    }
    // SAFETY: The task is valid.
    let mm = unsafe { bindings::get_task_mm(task.as_ptr()) };
    if mm.is_null() {
        return Err(ESRCH);
    }
    let result = if mm as usize == mm_key {
        // SAFETY: The memory has a user: us. The current task is a kernel thread, as it has no memory of its
        // own, and uses no other one, since it gives each back here.
        unsafe { bindings::kthread_use_mm(mm) };
        let result = f();
        // SAFETY: Taken above.
        unsafe { bindings::kthread_unuse_mm(mm) };
        Ok(result)
    } else {
        Err(ESRCH)
    };
    // SAFETY: Taken above. The end of the memory waits for things that may wait for the caller.
    unsafe { bindings::mmput_async(mm) };
    result
}

/// The file behind a descriptor of the current process.
pub(crate) fn file_from_fd(fd: u32) -> Result<ARef<File>> {
    let file = LocalFile::fget(fd)?;
    // SAFETY: Called from system calls that hold no `fdget_pos` reference.
    Ok(unsafe { LocalFile::assume_no_fdget_pos(file) })
}

/// While this exists, allocations of the current task do not wait for memory of others to be given back.
///
/// What invalidations of user memory need (see [`super::hmm`]) must be held under this: else an allocation
/// could need the invalidation that waits for its holder.
pub(crate) struct NoReclaim {
    flags: c_uint,
    /// It belongs to the task that made it.
    _not_send: PhantomData<*mut ()>,
}

impl NoReclaim {
    /// Begins. Several nest; they have to end in the reverse order.
    pub(crate) fn new() -> Self {
        Self {
            // SAFETY: Changes a flag of the current task only.
            flags: unsafe { ours::rkfd_helper_noreclaim_save() },
            _not_send: PhantomData,
        }
    }
}

impl Drop for NoReclaim {
    fn drop(&mut self) {
        // SAFETY: The type is not `Send`: this is the task that saved the flags.
        unsafe { ours::rkfd_helper_noreclaim_restore(self.flags) }
    }
}

/// The address without what a program may hide in its upper bits.
pub(crate) fn untagged_addr(addr: u64) -> u64 {
    // SAFETY: Computes only, from what the current task has set.
    unsafe { ours::rkfd_helper_untagged_addr(addr) }
}
