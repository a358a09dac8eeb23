// SPDX-License-Identifier: GPL-2.0

//! What ioctls ask about the caller and its memory.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    uaccess::{UserPtr, UserSlice},
};

use crate::kapi::task;

/// May the caller checkpoint processes?
pub(super) fn may_checkpoint() -> bool {
    task::capable(task::Capability::CheckpointRestore) || task::capable(task::Capability::SysAdmin)
}

/// Could `len` bytes at `addr` belong to user space? Says nothing about what is mapped there.
pub(super) fn access_ok(addr: u64, len: usize) -> Result {
    if task::access_ok(addr, len) {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// Copies an array of 32-bit numbers in.
pub(super) fn read_u32s(addr: u64, count: usize) -> Result<KVec<u32>> {
    let bytes = count.checked_mul(4).ok_or(EOVERFLOW)?;
    // The caller chooses the size: that there is not so much memory is no news for the log.
    let mut out = KVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
    let mut reader = UserSlice::new(UserPtr::from_addr(addr as usize), bytes).reader();
    for _ in 0..count {
        out.push(reader.read::<u32>()?, GFP_KERNEL)?;
    }
    Ok(out)
}
