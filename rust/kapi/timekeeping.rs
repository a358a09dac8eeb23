// SPDX-License-Identifier: GPL-2.0

//! Reads of the kernel's clocks in nanoseconds.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use kernel::bindings;

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn ktime_get_ns() -> i64 {
    // SAFETY: The clock can be read while the timekeeping is not suspended, as in all tasks.
    unsafe { bindings::ktime_get() }
}

/// Returns `CLOCK_MONOTONIC_RAW` in nanoseconds.
pub(crate) fn ktime_get_raw_ns() -> u64 {
    // SAFETY: The clock can be read in any context.
    unsafe { bindings::ktime_get_raw() as u64 }
}
