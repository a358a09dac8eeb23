// SPDX-License-Identifier: GPL-2.0

//! What user space looks for to find out whether AMD's driver is loaded: `/sys/module/amdgpu`.
//!
//! `rocminfo` and the test programs of ROCm do not ask `/dev/kfd` but this directory. It says what is
//! true of rkfd: it is live, and does not run on an emulator that is too slow for ordinary tests.
//! Since one name stands for one driver, rkfd and amdgpu cannot be loaded at the same time: rkfd
//! refuses with `EBUSY`, the kernel refuses amdgpu, with `EINVAL`, as a module that is loaded already.

use core::fmt::Write;

use kernel::prelude::*;

use crate::kapi::kobject::{is_module_shown, Dir, File, Parent, Text};

/// The name that programs look for.
const NAME: &CStr = c"amdgpu";

/// The directory. Dropping it takes it away.
pub(crate) struct Registration {
    // Children first.
    _parameters: Dir,
    _module: Dir,
}

impl Registration {
    /// Makes it; `EBUSY` if the driver of that name is there.
    pub(crate) fn new() -> Result<Self> {
        if is_module_shown(NAME) {
            pr_err!("amdgpu is loaded; only one of the two can drive AMD's GPUs (rmmod amdgpu)\n");
            return Err(EBUSY);
        }
        let module = Dir::new(&Parent::Modules, NAME, one(c"initstate", "live\n")?)?;
        let parameters = Dir::new(
            &Parent::Dir(&module),
            c"parameters",
            one(c"emu_mode", "0\n")?,
        )?;
        Ok(Self {
            _parameters: parameters,
            _module: module,
        })
    }
}

/// One file with a text that never changes.
fn one(name: &CStr, text: &'static str) -> Result<KVec<File>> {
    let mut files = KVec::with_capacity(1, GFP_KERNEL)?;
    let file = File::new(name, move |out: &mut Text<'_>| {
        out.write_str(text).map_err(|_| EFBIG)
    })?;
    files.push(file, GFP_KERNEL)?;
    Ok(files)
}
