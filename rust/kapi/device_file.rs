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
struct Sides {
    raw: Opaque<bindings::device_attribute>,
    name: CString,
    show: KBox<dyn Show>,
    store: Option<KBox<dyn Store>>,
    // Until the file is removed the module cannot be unloaded: the handlers are part of it.
    _use: ModuleUse,
}

/// A file for a device: name, mode and handlers. An owner that adds it to a device removes it there
/// before it drops this.
///
/// # Invariants
///
/// The pointer is a leaked box that this object owns.
pub(crate) struct Attribute(NonNull<Sides>);

// SAFETY: The handlers are `Send`.
unsafe impl Send for Attribute {}
// SAFETY: Shared references give out a pointer only.
unsafe impl Sync for Attribute {}

impl Attribute {
    /// Makes a file that is readable by all (mode 0444) and, with `store`, writable by root (0644).
    /// `ENOMEM` without memory, `ENODEV` when the module is about to exit.
    pub(crate) fn new(
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
        let sides = KBox::new(
            Sides {
                raw,
                name,
                show: KBox::new(show, GFP_KERNEL)?,
                store,
                _use: ModuleUse::new()?,
            },
            GFP_KERNEL,
        )?;
        // INVARIANT: Leaked here.
        let this = Self(NonNull::from(KBox::leak(sides)));
        // SAFETY: The attribute is valid and not shared yet. The class is static.
        unsafe { ours::rkfd_helper_sysfs_device_attr_init(this.raw()) };
        Ok(this)
    }

    /// Returns the C side, which is valid and stays in place as long as `self`.
    pub(super) fn raw(&self) -> *mut bindings::attribute {
        // The attribute is the first field of the device attribute.
        self.device_attribute().cast()
    }

    fn device_attribute(&self) -> *mut bindings::device_attribute {
        // SAFETY: By the type invariant the box is valid; the address of a field is computed.
        unsafe { (*self.0.as_ptr()).raw.get() }
    }
}

impl Drop for Attribute {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this is a leaked box. No device has it: an owner that adds
        // it to one removes it before it drops this.
        drop(unsafe { KBox::from_raw(self.0.as_ptr()) });
    }
}

/// A file of a device. Dropping it removes it and waits for its readers and writers.
///
/// # Invariants
///
/// The device has the attribute.
pub(crate) struct DeviceFile {
    dev: ARef<device::Device>,
    attribute: Attribute,
}

impl DeviceFile {
    /// Creates a file as [`Attribute::new`], with its errors, and those of [`DeviceFile::add`].
    pub(crate) fn new(
        dev: &device::Device,
        name: &CStr,
        show: impl Show,
        store: Option<KBox<dyn Store>>,
    ) -> Result<Self> {
        Self::add(dev, Attribute::new(name, show, store)?)
    }

    /// Adds a file to a device. `EEXIST` if there is one of this name, `ENOMEM` without memory.
    pub(crate) fn add(dev: &device::Device, attribute: Attribute) -> Result<Self> {
        // SAFETY: The device is valid during the borrow; the attribute stays in place until it is
        // removed by `Drop`.
        to_result(unsafe {
            bindings::device_create_file(super::raw_device(dev), attribute.device_attribute())
        })?;
        // INVARIANT: Created above.
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
                self.attribute.device_attribute(),
            );
        }
    }
}

/// # Safety
///
/// Called by the kernel for the C side of an [`Attribute`] and a buffer of a page.
unsafe extern "C" fn show_file(
    _dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: The attribute is the first field of `Sides`, which does not change, and which the
    // removal of the file keeps valid during the call.
    let sides = unsafe { &*attribute.cast::<Sides>() };
    // SAFETY: By the safety requirement; this call is the only user of the buffer.
    unsafe { show_text(&*sides.show, buf) }
}

/// # Safety
///
/// Called by the kernel for the C side of an [`Attribute`] and `count` bytes of text.
unsafe extern "C" fn store_file(
    _dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buf: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The attribute is the first field of `Sides`, which does not change, and which the
    // removal of the file keeps valid during the call.
    let sides = unsafe { &*attribute.cast::<Sides>() };
    // SAFETY: By the safety requirement the buffer has `count` bytes, which do not change.
    unsafe { store_text(sides.store.as_deref(), buf, count) }
}
