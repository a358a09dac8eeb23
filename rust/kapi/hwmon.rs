// SPDX-License-Identifier: GPL-2.0

//! Hardware monitoring devices: `/sys/class/hwmon/hwmon*`, where user space finds sensors.
//!
//! C header: [`include/linux/hwmon.h`](srctree/include/linux/hwmon.h)

use core::ptr::NonNull;

use kernel::{bindings, device, error::from_err_ptr, prelude::*};

use super::{device_file::Attribute, module_use::ModuleUse};
use crate::bindings as ours;

/// A hardware monitoring device. Dropping it removes it with its files.
///
/// # Invariants
///
/// The pointer is a registered hardware monitoring device that this object owns. The device refers
/// to the groups, they to the group, it to the list, and that to the files.
pub(crate) struct Hwmon {
    dev: NonNull<bindings::device>,
    _groups: KBox<[*const bindings::attribute_group; 2]>,
    _group: KBox<bindings::attribute_group>,
    _list: KVec<*mut bindings::attribute>,
    _files: KVec<Attribute>,
    // Until the device is removed the module cannot be unloaded: the name is part of it.
    _use: ModuleUse,
}

// SAFETY: A device may be removed by any task that can sleep; its files are `Send`.
unsafe impl Send for Hwmon {}
// SAFETY: Shared references give out nothing.
unsafe impl Sync for Hwmon {}

impl Hwmon {
    /// Registers a device below `parent` with `files`, and a file `name` that contains `name`: the
    /// uevent comes after all of them. `EEXIST` if two files have one name, `ENOMEM` without
    /// memory, `ENODEV` when the module is about to exit.
    pub(crate) fn new(
        parent: &device::Device,
        name: &'static CStr,
        files: KVec<Attribute>,
    ) -> Result<Self> {
        let token = ModuleUse::new()?;
        let mut list = KVec::with_capacity(files.len() + 1, GFP_KERNEL)?;
        for file in &files {
            list.push_within_capacity(file.raw())?;
        }
        list.push_within_capacity(core::ptr::null_mut())?;
        let group = bindings::attribute_group {
            __bindgen_anon_2: bindings::attribute_group__bindgen_ty_2 {
                attrs: list.as_mut_ptr(),
            },
            ..pin_init::zeroed()
        };
        let group = KBox::new(group, GFP_KERNEL)?;
        let mut groups = KBox::new([&raw const *group, core::ptr::null()], GFP_KERNEL)?;
        // SAFETY: The parent is valid during the borrow and outlives its child, as the child has a
        // reference; the name is static. Groups and list end with NULL; they and the files stay in
        // place until the device is unregistered. There are no driver data.
        let dev = from_err_ptr(unsafe {
            ours::hwmon_device_register_with_groups(
                super::raw_device(parent),
                name.as_char_ptr(),
                core::ptr::null_mut(),
                groups.as_mut_ptr(),
            )
        })?;
        // INVARIANT: Registered above, with these groups.
        Ok(Self {
            dev: NonNull::new(dev).ok_or(EINVAL)?,
            _groups: groups,
            _group: group,
            _list: list,
            _files: files,
            _use: token,
        })
    }
}

impl Drop for Hwmon {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Waits for readers and writers of the files; nothing uses
        // the device or its groups after this.
        unsafe { ours::hwmon_device_unregister(self.dev.as_ptr()) };
    }
}
