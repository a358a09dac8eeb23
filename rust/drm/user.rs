// SPDX-License-Identifier: GPL-2.0

//! Copies of what user space points to.

use kernel::{
    alloc::{flags, Allocator, Flags, Vec},
    prelude::*,
    transmute::FromBytes,
    uaccess::{UserPtr, UserSlice},
};

/// For memory whose size the caller chooses: that there is not so much is no news for the log.
pub(super) fn sized() -> Flags {
    GFP_KERNEL | flags::__GFP_NOWARN
}

/// A copy of the `count` elements at user address `addr`.
pub(super) fn read_array<T: FromBytes, A: Allocator>(addr: u64, count: usize) -> Result<Vec<T, A>> {
    let bytes = count.checked_mul(size_of::<T>()).ok_or(EOVERFLOW)?;
    let mut out = Vec::with_capacity(count, sized())?;
    let mut reader = UserSlice::new(UserPtr::from_addr(addr as usize), bytes).reader();
    for _ in 0..count {
        out.push(reader.read()?, GFP_KERNEL)?;
    }
    Ok(out)
}

/// A copy of the `len` bytes at user address `addr`.
pub(super) fn read_bytes(addr: u64, len: usize) -> Result<KVVec<u8>> {
    let mut out = KVVec::new();
    UserSlice::new(UserPtr::from_addr(addr as usize), len).read_all(&mut out, sized())?;
    Ok(out)
}
