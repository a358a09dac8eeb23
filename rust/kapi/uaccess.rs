// SPDX-License-Identifier: GPL-2.0

//! User addresses, and access to user memory at 64-bit addresses.
//!
//! C headers: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h),
//! [`include/linux/compat.h`](srctree/include/linux/compat.h)

use kernel::{
    num::casts::arch::u64_as_usize,
    prelude::*,
    transmute::FromBytes,
    uaccess::{UserPtr, UserSlice},
};

use crate::bindings as ours;

/// Returns the `len` bytes of user memory at `addr`.
pub(crate) fn user_slice(addr: u64, len: usize) -> UserSlice {
    UserSlice::new(UserPtr::from_addr(u64_as_usize(addr)), len)
}

/// Reads a value from user memory. `EFAULT` if it cannot be read.
pub(crate) fn read<T: FromBytes>(addr: u64) -> Result<T> {
    user_slice(addr, size_of::<T>()).reader().read()
}

/// Writes bytes to user memory. `EFAULT` if they cannot be written.
pub(crate) fn write(addr: u64, bytes: &[u8]) -> Result {
    user_slice(addr, bytes.len()).writer().write_slice(bytes)
}

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
