// SPDX-License-Identifier: GPL-2.0

//! Features of the boot CPU.
//!
//! C header: [`arch/x86/include/asm/cpufeature.h`](srctree/arch/x86/include/asm/cpufeature.h)

use crate::bindings as ours;

/// Returns whether the CPUs are AMD's.
pub(crate) fn is_amd() -> bool {
    // SAFETY: Reads data of the boot CPU that are constant after boot.
    unsafe { ours::rkfd_helper_cpu_is_amd() }
}

/// Returns whether the kernel runs in a virtual machine (`X86_FEATURE_HYPERVISOR`).
pub(crate) fn in_guest() -> bool {
    // SAFETY: Reads data of the boot CPU that are constant after boot.
    unsafe { ours::rkfd_helper_in_guest() }
}
