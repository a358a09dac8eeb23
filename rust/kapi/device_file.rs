// SPDX-License-Identifier: GPL-2.0

//! Text files of a device in sysfs, some of which can be written.
//!
//! C header: [`include/linux/device.h`](srctree/include/linux/device.h)

use core::ptr::NonNull;

use kernel::{
    bindings, device, error::to_result, prelude::*, str::CString, sync::aref::ARef, types::Opaque,
};

use super::{
    kobject::{show_text, store_text, Show, Store},
    module_use::ModuleUse, //
};
use crate::bindings as ours;

/// The C side of a file, with the Rust side.
#[repr(C)]
struct Attribute {
    raw: Opaque<bindings::device_attribute>,
    name: CString,
    show: KBox<dyn Show>,
    store: Option<KBox<dyn Store>>,
    // Until the file is removed the module cannot be unloaded: the handlers are part of it.
    _use: ModuleUse,
}

/// A file of a device. Dropping it removes it and waits for its readers and writers.
///
/// # Invariants
///
/// The pointer is a leaked box that this object owns; the device has the attribute in it.
pub(crate) struct DeviceFile {
    dev: ARef<device::Device>,
    attribute: NonNull<Attribute>,
}

// SAFETY: A file may be removed by any task that can sleep; its handlers are `Send`.
unsafe impl Send for DeviceFile {}
// SAFETY: Shared references give out nothing.
unsafe impl Sync for DeviceFile {}

impl DeviceFile {
    /// Creates a file that is readable by all (mode 0444) and, with `store`, writable by root
    /// (0644). `EEXIST` if there is one of this name, `ENOMEM` without memory, `ENODEV` when the
    /// module is about to exit.
    pub(crate) fn new(
        dev: &device::Device,
        name: &CStr,
        show: impl Show,
        store: Option<KBox<dyn Store>>,
    ) -> Result<Self> {
        let name = CString::try_from(name)?;
        // With lock debugging there are more fields.
        #[allow(clippy::needless_update)]
        let attr = bindings::attribute {
            name: name.as_char_ptr(),
            mode: if store.is_some() { 0o644 } else { 0o444 },
            ..pin_init::zeroed()
        };
        let raw = Opaque::new(bindings::device_attribute {
            attr,
            __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 {
                show: Some(show_file),
            },
            __bindgen_anon_2: bindings::device_attribute__bindgen_ty_2 {
                store: Some(store_file),
            },
        });
        let attribute = KBox::new(
            Attribute {
                raw,
                name,
                show: KBox::new(show, GFP_KERNEL)?,
                store,
                _use: ModuleUse::new()?,
            },
            GFP_KERNEL,
        )?;
        let attribute = NonNull::from(KBox::leak(attribute));
        // SAFETY: The box is valid and not shared yet; the attribute is the first field of the
        // device attribute. The class is static.
        unsafe {
            ours::rkfd_helper_sysfs_device_attr_init(
                (*attribute.as_ptr())
                    .raw
                    .get()
                    .cast::<bindings::attribute>(),
            );
        }
        // SAFETY: The device is valid during the borrow; the attribute stays in place until it is
        // removed by `Drop`.
        let created = to_result(unsafe {
            bindings::device_create_file(super::raw_device(dev), (*attribute.as_ptr()).raw.get())
        });
        if let Err(e) = created {
            // SAFETY: Leaked above; the device does not have the attribute.
            drop(unsafe { KBox::from_raw(attribute.as_ptr()) });
            return Err(e);
        }
        // INVARIANT: Leaked and created above.
        Ok(Self {
            dev: dev.into(),
            attribute,
        })
    }
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the device has the attribute. The removal waits for calls
        // of the handlers.
        unsafe {
            bindings::device_remove_file(
                super::raw_device(&self.dev),
                (*self.attribute.as_ptr()).raw.get(),
            );
        }
        // SAFETY: By the type invariant this is a leaked box, and nobody else refers to it now.
        drop(unsafe { KBox::from_raw(self.attribute.as_ptr()) });
    }
}

/// # Safety
///
/// Called by the kernel for the attribute of a [`DeviceFile`] and a buffer of a page.
unsafe extern "C" fn show_file(
    _dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: The attribute is the first field of an `Attribute`, which does not change, and which
    // the removal of the file keeps valid during the call.
    let attribute = unsafe { &*attribute.cast::<Attribute>() };
    // SAFETY: By the safety requirement; this call is the only user of the buffer.
    unsafe { show_text(&*attribute.show, buf) }
}

/// # Safety
///
/// Called by the kernel for the attribute of a [`DeviceFile`] and `count` bytes of text.
unsafe extern "C" fn store_file(
    _dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buf: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The attribute is the first field of an `Attribute`, which does not change, and which
    // the removal of the file keeps valid during the call.
    let attribute = unsafe { &*attribute.cast::<Attribute>() };
    // SAFETY: By the safety requirement the buffer has `count` bytes, which do not change.
    unsafe { store_text(attribute.store.as_deref(), buf, count) }
}
