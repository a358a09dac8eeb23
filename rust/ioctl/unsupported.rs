// SPDX-License-Identifier: GPL-2.0

//! Ioctls of features that the driver does not have: checks of arguments and the errno of a kernel
//! without the feature. `Documentation/abi.rst` lists them.

use core::mem::{offset_of, size_of};

use kernel::{num::casts::u32_as_usize, prelude::*, sync::Arc};

use crate::{process::Process, uapi::*};

/// Returns the 32-bit word at byte `at`; `EINVAL` behind the end.
fn word(data: &[u8], at: usize) -> Result<u32> {
    data.get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_ne_bytes)
        .ok_or(EINVAL)
}

/// Deprecated debugger ioctls: `EPERM`.
pub(super) fn debugger<T>(_: &Arc<Process>, _: &mut T) -> Result {
    Err(EPERM)
}

/// `SVM`: `EPERM` as a kernel without `CONFIG_HSA_AMD_SVM`, `EINVAL` if the attributes do not fit
/// the size of the command. The topology does not report the capability.
pub(super) fn svm(_: &Arc<Process>, data: &mut [u8], given: usize) -> Result<isize> {
    const HEADER: usize = size_of::<kfd_ioctl_svm_args>();
    const ATTRIBUTE: usize = size_of::<kfd_ioctl_svm_attribute>();

    let count = word(data, offset_of!(kfd_ioctl_svm_args, nattr))?;
    let needed = u32_as_usize(count)
        .checked_mul(ATTRIBUTE)
        .and_then(|n| n.checked_add(HEADER))
        .ok_or(EINVAL)?;
    if given < needed {
        return Err(EINVAL);
    }
    Err(EPERM)
}

/// `CRIU_OP`: `EINVAL`, as for an unknown operation.
pub(super) fn criu(_: &Arc<Process>, _: &mut [u8], _: usize) -> Result<isize> {
    Err(EINVAL)
}
