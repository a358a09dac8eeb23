// SPDX-License-Identifier: GPL-2.0

//! Copies arrays from user space; loops whose length it controls.

use kernel::{
    alloc::{flags, Allocator, Flags, Vec},
    prelude::*,
    transmute::FromBytes,
};

use crate::kapi::{task, uaccess::user_slice};

/// Returns the allocation flags for sizes that user space controls: no allocation warning.
pub(super) fn sized() -> Flags {
    GFP_KERNEL | flags::__GFP_NOWARN
}

/// Returns `ERESTARTSYS` if the process is killed. For loops whose length user space controls.
pub(super) fn check_killed() -> Result {
    if task::fatal_signal_pending() {
        return Err(ERESTARTSYS);
    }
    Ok(())
}

/// Returns a copy of the `count` elements at user address `addr`. `EFAULT` if they are not
/// readable, `EOVERFLOW` or `ENOMEM` for too many.
pub(super) fn read_array<T: FromBytes, A: Allocator>(addr: u64, count: u32) -> Result<Vec<T, A>> {
    let count = usize::try_from(count)?;
    let bytes = count.checked_mul(size_of::<T>()).ok_or(EOVERFLOW)?;
    let mut out = Vec::with_capacity(count, sized())?;
    let mut reader = user_slice(addr, bytes).reader();
    for _ in 0..count {
        out.push(reader.read()?, GFP_KERNEL)?;
    }
    Ok(out)
}

/// Returns a copy of the `len` bytes at user address `addr`. `EFAULT` if they are not readable,
/// `ENOMEM` for too many.
pub(super) fn read_bytes(addr: u64, len: usize) -> Result<KVVec<u8>> {
    let mut out = KVVec::new();
    user_slice(addr, len).read_all(&mut out, sized())?;
    Ok(out)
}
