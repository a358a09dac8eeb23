// SPDX-License-Identifier: GPL-2.0

//! Helpers of ioctls: arguments, capabilities of the caller, access to its memory.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    transmute::{AsBytes, FromBytes},
};

use crate::kapi::{
    capability::{capable, Capability},
    uaccess::{self, user_slice},
};

/// Returns the argument struct at the start of the data.
pub(super) fn args<T: FromBytes + AsBytes>(data: &mut [u8]) -> Result<&mut T> {
    T::from_bytes_mut_prefix(data)
        .map(|(args, _)| args)
        .ok_or(EINVAL)
}

/// Returns whether the caller may checkpoint processes.
pub(super) fn may_checkpoint() -> bool {
    capable(Capability::CheckpointRestore) || capable(Capability::SysAdmin)
}

/// Returns whether the caller may observe the performance of all processes.
pub(super) fn may_profile() -> bool {
    capable(Capability::Perfmon) || capable(Capability::SysAdmin)
}

/// Returns `EFAULT` if `len` bytes at `addr` are outside of the user address range. Does not check
/// for mappings there.
pub(super) fn access_ok(addr: u64, len: usize) -> Result {
    if uaccess::access_ok(addr, len) {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// Reads an array of 32-bit numbers. `EFAULT` if it cannot be read, `ENOMEM` without memory.
pub(super) fn read_u32s(addr: u64, count: usize) -> Result<KVec<u32>> {
    // Size is user-controlled: suppress the allocation warning.
    let mut out = KVec::zeroed(count, GFP_KERNEL | __GFP_NOWARN)?;
    fill_u32s(addr, &mut out)?;
    Ok(out)
}

/// Reads as many 32-bit numbers as there is room for. `EFAULT` if they cannot be read.
pub(super) fn fill_u32s(addr: u64, to: &mut [u32]) -> Result {
    let bytes = AsBytes::as_bytes_mut(to);
    user_slice(addr, bytes.len()).reader().read_slice(bytes)
}

/// Writes an array of 32-bit numbers. `EFAULT` if it cannot be written.
pub(super) fn write_u32s(addr: u64, values: &[u32]) -> Result {
    uaccess::write(addr, AsBytes::as_bytes(values))
}
