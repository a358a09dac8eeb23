// SPDX-License-Identifier: GPL-2.0

//! Ioctls of features that the driver does not have: checks of arguments and the errno of a kernel
//! without the feature. `Documentation/abi.rst` lists them.

use kernel::{prelude::*, sync::Arc};

use crate::process::Process;

/// Deprecated debugger ioctls: `EPERM`.
pub(super) fn debugger<T>(_: &Arc<Process>, _: &mut T) -> Result {
    Err(EPERM)
}

/// `CRIU_OP`: `EINVAL`, as for an unknown operation.
pub(super) fn criu() -> Result {
    Err(EINVAL)
}
