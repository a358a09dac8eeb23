// SPDX-License-Identifier: GPL-2.0

//! Capabilities of the current task.
//!
//! C header: [`include/linux/capability.h`](srctree/include/linux/capability.h)

use kernel::{bindings, prelude::*};

/// A capability.
#[derive(Clone, Copy)]
pub(crate) enum Capability {
    /// `CAP_CHECKPOINT_RESTORE`.
    CheckpointRestore,
    /// `CAP_PERFMON`.
    Perfmon,
    /// `CAP_SYS_ADMIN`.
    SysAdmin,
    /// `CAP_SYS_NICE`.
    SysNice,
}

/// Returns whether the current task has a capability in the initial user namespace.
pub(crate) fn capable(capability: Capability) -> bool {
    let number = match capability {
        Capability::CheckpointRestore => bindings::CAP_CHECKPOINT_RESTORE,
        Capability::Perfmon => bindings::CAP_PERFMON,
        Capability::SysAdmin => bindings::CAP_SYS_ADMIN,
        Capability::SysNice => bindings::CAP_SYS_NICE,
    };
    // SAFETY: The number is a valid capability; the function reads the credentials of the current
    // task.
    unsafe { bindings::capable(number as c_int) }
}
