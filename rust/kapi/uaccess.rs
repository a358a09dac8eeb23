// SPDX-License-Identifier: GPL-2.0

//! User addresses.
//!
//! C headers: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h),
//! [`include/linux/compat.h`](srctree/include/linux/compat.h)

use crate::bindings as ours;

/// Returns whether `len` bytes at `addr` are in the user address range, mapped or not.
pub(crate) fn access_ok(addr: u64, len: usize) -> bool {
    // SAFETY: Compares numbers, for any arguments.
    unsafe { ours::rkfd_helper_access_ok(addr, len) }
}

/// Returns the address without the tag that the current task may use in the upper bits (LAM).
pub(crate) fn untagged_addr(addr: u64) -> u64 {
    // SAFETY: Masks a number, for any argument.
    unsafe { ours::rkfd_helper_untagged_addr(addr) }
}

/// Returns whether the current system call is that of a 32-bit program.
pub(crate) fn in_compat_syscall() -> bool {
    // SAFETY: Reads flags of the current task.
    unsafe { ours::rkfd_helper_in_compat_syscall() }
}
