// SPDX-License-Identifier: GPL-2.0

//! Platform devices without a driver, as parents of other devices.
//!
//! C header: [`include/linux/platform_device.h`](srctree/include/linux/platform_device.h)
//!
//! # Examples
//!
//! ```ignore
//! let parent = platform::Device::new(c"partition_0")?;
//! let dev = drm::Device::new::<Render>(parent.as_dev(), data, &[])?;
//! ```

use core::ptr::NonNull;

use kernel::{bindings, device, error::from_err_ptr, prelude::*};

/// A registered platform device. Dropping it unregisters the device; references to the generic
/// device keep its memory.
///
/// # Invariants
///
/// The pointer is a registered platform device, and this is its only registration.
pub(crate) struct Device(NonNull<bindings::platform_device>);

// SAFETY: A platform device may be unregistered by any task that can sleep.
unsafe impl Send for Device {}
// SAFETY: Shared references give out the generic device only, which is reference-counted and
// locks itself.
unsafe impl Sync for Device {}

impl Device {
    /// Registers a device without parent and resources, whose name has to be unique: `EEXIST`, with
    /// a warning, if it is not. `ENOMEM` without memory.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let info = bindings::platform_device_info {
            name: kernel::str::as_char_ptr_in_const_context(name),
            id: bindings::PLATFORM_DEVID_NONE,
            ..pin_init::zeroed()
        };
        // SAFETY: The description is valid during the call, which copies the name.
        let raw = from_err_ptr(unsafe { bindings::platform_device_register_full(&info) })?;
        // INVARIANT: Registered above.
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?))
    }

    /// Returns the generic device.
    pub(crate) fn as_dev(&self) -> &device::Device {
        // SAFETY: The device is registered by the type invariant, at least as long as the borrow;
        // its generic device is part of it.
        unsafe { device::Device::from_raw(&raw mut (*self.0.as_ptr()).dev) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The device is registered by the type invariant; it is unregistered once, here.
        unsafe { bindings::platform_device_unregister(self.0.as_ptr()) };
    }
}
