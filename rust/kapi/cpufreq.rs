// SPDX-License-Identifier: GPL-2.0

//! CPU frequencies.
//!
//! C header: [`include/linux/cpufreq.h`](srctree/include/linux/cpufreq.h)

use kernel::bindings;

/// Returns the highest clock of CPU 0 in MHz; 0 if unknown.
pub(crate) fn cpu_max_mhz() -> u32 {
    // SAFETY: The function accepts any CPU number, and returns 0 without a policy.
    unsafe { bindings::cpufreq_quick_get_max(0) / 1000 }
}
