// SPDX-License-Identifier: GPL-2.0

//! The addresses that programs may map on a GPU.
//!
//! Page tables translate 48 bits: the hardware removes the sign extension of canonical addresses.

use core::ops::Range;

use kernel::{prelude::*, sizes::*};

use rkfd_abi::pte::{HOLE_END, HOLE_START, VA_BITS};

/// First address (`AMDGPU_VA_RESERVED_BOTTOM`): null pointers fault.
const START: u64 = SZ_64K as u64;
/// Bytes at the top that the C driver reserves for the trap handler, semaphores and the context
/// save area (`AMDGPU_VA_RESERVED_TOP`).
const RESERVED_TOP: u64 = SZ_64K as u64 + 2 * SZ_2M as u64;
/// End, without sign extension.
pub(super) const END: u64 = (1 << VA_BITS) - RESERVED_TOP;

/// The lower half.
pub(crate) const LOW: Range<u64> = START..HOLE_START;
/// The upper half, in canonical form.
pub(crate) const HIGH: Range<u64> = HOLE_END..HOLE_END | END;

/// Returns an address without sign extension (`AMDGPU_GMC_HOLE_MASK`).
pub(crate) fn translated(va: u64) -> u64 {
    va & ((1 << VA_BITS) - 1)
}

/// Returns the `len` addresses from `va` on, without sign extension. `EINVAL` for reserved ones,
/// and from the hole between the halves.
pub(crate) fn checked(va: u64, len: u64) -> Result<Range<u64>> {
    if va < START || (HOLE_START..HOLE_END).contains(&va) {
        return Err(EINVAL);
    }
    let first = translated(va);
    let end = first.checked_add(len).filter(|end| *end <= END);
    Ok(first..end.ok_or(EINVAL)?)
}
