// SPDX-License-Identifier: GPL-2.0

//! `PROFILER`.

use core::mem::offset_of;

use kernel::prelude::*;

use super::user;
use crate::{process::Process, uapi::*};

// The names of the constants that bindgen makes cannot be patterns.
const OP_PMC: u32 = kfd_profiler_ops_KFD_IOC_PROFILER_PMC;
const OP_VERSION: u32 = kfd_profiler_ops_KFD_IOC_PROFILER_VERSION;
const OP_PTL_CONTROL: u32 = kfd_profiler_ops_KFD_IOC_PROFILER_PTL_CONTROL;

/// `PROFILER`. `EINVAL` for an unknown operation or without such a GPU, `EOPNOTSUPP` for
/// PTL_CONTROL; PMC as [`lock`].
pub(super) fn profiler(process: &Process, data: &mut [u8]) -> Result {
    let (op, data) = data
        .split_at_mut_checked(offset_of!(kfd_ioctl_profiler_args, __bindgen_anon_1))
        .ok_or(EINVAL)?;
    match *user::args::<u32>(op)? {
        OP_VERSION => *user::args::<u32>(data)? = KFD_IOC_PROFILER_VERSION_NUM,
        OP_PMC => lock(process, user::args(data)?)?,
        OP_PTL_CONTROL => {
            let args: &mut kfd_ioctl_ptl_control = user::args(data)?;
            process.device(args.gpu_id)?;
            // The peak tops limiter (PTL) is part of GC 9.4.4 only.
            return Err(EOPNOTSUPP);
        }
        _ => return Err(EINVAL),
    }
    Ok(())
}

/// PMC. `EPERM` without `CAP_PERFMON`, `EINVAL` for a value of `lock` other than 0 and 1, otherwise
/// as [`Process::profile`].
fn lock(process: &Process, args: &mut kfd_ioctl_pmc_settings) -> Result {
    if !user::may_profile() {
        return Err(EPERM);
    }
    if args.lock > 1 {
        return Err(EINVAL);
    }
    process.profile(args.gpu_id, args.lock != 0, args.perfcount_enable == 1)
}
