// SPDX-License-Identifier: GPL-2.0

//! `/sys/module/amdgpu`, which user space reads to find out whether the driver is loaded.
//!
//! `rocminfo` and the test programs of ROCm read this directory instead of opening `/dev/kfd`:
//! `initstate` is "live", `parameters/emu_mode` is 0, no emulation. AMD's device plugin for
//! Kubernetes finds the devices by `drivers/pci:amdgpu`. rkfd and amdgpu cannot be loaded at the
//! same time: loading rkfd fails with `EBUSY`, loading amdgpu with `EINVAL`, as of a module that is
//! loaded already.

use core::fmt::Write;

use kernel::{device, prelude::*, sync::Arc};

use crate::kapi::{
    global::global_mutex,
    kobject::{is_module_shown, DeviceLink, Dir, File, Parent, Text},
};

/// Name of the module directory.
const NAME: &CStr = c"amdgpu";

global_mutex! {
    /// `drivers/pci:amdgpu`, while it is registered.
    DEVICES: Option<Arc<Dir>> = None;
    init init
}

/// The registered directory. Dropping it removes it.
pub(crate) struct Registration {
    // Field order: children are removed first.
    _drivers: Dir,
    _parameters: Dir,
    _module: Dir,
}

impl Registration {
    /// Creates the directory; `EBUSY` if amdgpu is loaded.
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
        let drivers = Dir::new(&Parent::Dir(&module), c"drivers", KVec::new())?;
        let devices = Dir::new(&Parent::Dir(&drivers), c"pci:amdgpu", KVec::new())?;
        *DEVICES.lock() = Some(Arc::new(devices, GFP_KERNEL)?);
        Ok(Self {
            _drivers: drivers,
            _parameters: parameters,
            _module: module,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let devices = DEVICES.lock().take();
        drop(devices);
    }
}

/// Lists a device that the driver is bound to, until the result is dropped. `ENOMEM` without
/// memory, `ENODEV` while the module is loaded or unloaded.
pub(crate) fn list(dev: &device::Device) -> Result<DeviceLink> {
    let devices = DEVICES.lock().clone();
    DeviceLink::new(&devices.ok_or(ENODEV)?, dev)
}

/// Returns a list of one file with constant contents.
fn one(name: &CStr, text: &'static str) -> Result<KVec<File>> {
    let mut files = KVec::with_capacity(1, GFP_KERNEL)?;
    let file = File::new(name, move |out: &mut Text<'_>| {
        out.write_str(text).map_err(|_| EFBIG)
    })?;
    files.push(file, GFP_KERNEL)?;
    Ok(files)
}
