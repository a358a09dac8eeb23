// SPDX-License-Identifier: GPL-2.0

//! Ioctls whose feature is not there: what the arguments are checked for before that shows, and
//! the answer. `Documentation/abi.rst` has the list.

use core::mem::{offset_of, size_of};

use kernel::{prelude::*, sync::Arc, task::Pid};

use crate::{
    process::{table, Process},
    uapi::*,
};

/// The 32-bit word at byte `at` of an argument.
fn word(data: &[u8], at: usize) -> Result<u32> {
    data.get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_ne_bytes)
        .ok_or(EINVAL)
}

/// The debugger interface of the first kernels; refused ever since.
pub(super) fn debugger<T>(_: &Arc<Process>, _: &mut T) -> Result {
    Err(EPERM)
}

/// As a kernel without `CONFIG_HSA_AMD_SVM`; the topology does not promise it.
pub(super) fn svm(_: &Arc<Process>, data: &mut [u8], given: usize) -> Result {
    const HEADER: usize = size_of::<kfd_ioctl_svm_args>();
    const ATTRIBUTE: usize = size_of::<kfd_ioctl_svm_attribute>();

    let count = word(data, offset_of!(kfd_ioctl_svm_args, nattr))?;
    let needed = (count as usize)
        .checked_mul(ATTRIBUTE)
        .and_then(|n| n.checked_add(HEADER))
        .ok_or(EINVAL)?;
    if given < needed {
        return Err(EINVAL);
    }
    Err(EPERM)
}

/// No operation of checkpoint and restore is known.
pub(super) fn criu(_: &Arc<Process>, _: &mut [u8], _: usize) -> Result {
    Err(EINVAL)
}

/// There is nothing to debug with, but who is asked for is looked at first: a process that uses GPUs,
/// and the caller itself, as nobody else's debugger can be attached.
pub(super) fn debug_trap(process: &Arc<Process>, data: &mut [u8], _: usize) -> Result {
    let pid = word(data, offset_of!(kfd_ioctl_dbg_trap_args, pid))?;
    let target = table::by_user_pid(pid as Pid)?.ok_or(ESRCH)?;
    if !Arc::ptr_eq(&target, process) {
        return Err(EPERM);
    }
    Err(EINVAL)
}
