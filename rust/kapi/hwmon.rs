// SPDX-License-Identifier: GPL-2.0

//! Hardware monitoring devices: `/sys/class/hwmon/hwmon*`, where user space finds sensors.
//!
//! C header: [`include/linux/hwmon.h`](srctree/include/linux/hwmon.h)

use core::ptr::NonNull;

use kernel::{device, error::from_err_ptr, prelude::*};

use super::{device_file::DeviceFile, module_use::ModuleUse};
use crate::bindings as ours;

/// A hardware monitoring device. Dropping it removes its files, then the device.
///
/// # Invariants
///
/// The pointer is a registered hardware monitoring device that this object owns.
pub(crate) struct Hwmon {
    dev: NonNull<kernel::bindings::device>,
    files: KVec<DeviceFile>,
    // Until the device is removed the module cannot be unloaded: the name is part of it.
    _use: ModuleUse,
}

// SAFETY: A device may be removed by any task that can sleep; its files are `Send`.
unsafe impl Send for Hwmon {}
// SAFETY: Shared references give out nothing.
unsafe impl Sync for Hwmon {}

impl Hwmon {
    /// Registers a device below `parent` with a file `name` that contains `name`. `ENOMEM` without
    /// memory, `ENODEV` when the module is about to exit.
    pub(crate) fn new(parent: &device::Device, name: &'static CStr) -> Result<Self> {
        let token = ModuleUse::new()?;
        // SAFETY: The parent is valid during the borrow and outlives its child, as the child has a
        // reference; the name is static. There are neither driver data nor groups.
        let dev = from_err_ptr(unsafe {
            ours::hwmon_device_register_with_groups(
                super::raw_device(parent),
                name.as_char_ptr(),
                core::ptr::null_mut(),
                core::ptr::null_mut(),
            )
        })?;
        // INVARIANT: Registered above.
        Ok(Self {
            dev: NonNull::new(dev).ok_or(EINVAL)?,
            files: KVec::new(),
            _use: token,
        })
    }

    /// Adds the file that `make` creates for the device, which has the errors of both.
    pub(crate) fn add(
        &mut self,
        make: impl FnOnce(&device::Device) -> Result<DeviceFile>,
    ) -> Result {
        // SAFETY: By the type invariant the device is registered, so that it is valid.
        let file = make(unsafe { device::Device::from_raw(self.dev.as_ptr()) })?;
        Ok(self.files.push(file, GFP_KERNEL)?)
    }
}

impl Drop for Hwmon {
    fn drop(&mut self) {
        self.files.clear();
        // SAFETY: By the type invariant; nothing uses the device after this.
        unsafe { ours::hwmon_device_unregister(self.dev.as_ptr()) };
    }
}
