// SPDX-License-Identifier: GPL-2.0

//! Directories and read-only text files in sysfs.

use core::{
    fmt::{self, Write},
    ptr::NonNull,
};

use kernel::{
    bindings, device, error::to_result, page::PAGE_SIZE, prelude::*, str::CString, types::Opaque,
};

use crate::bindings as ours;

/// Where the text of a file is written to. What does not fit into a page is cut off.
pub(crate) struct Text<'a> {
    buf: &'a mut [u8],
    used: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.buf.len() - self.used;
        let n = s.len().min(room);
        self.buf[self.used..self.used + n].copy_from_slice(&s.as_bytes()[..n]);
        self.used += n;
        if n < s.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// Makes the text of a file.
pub(crate) trait Show: Send + Sync + 'static {
    /// Writes the text.
    fn show(&self, out: &mut Text<'_>) -> Result;
}

impl<F: Fn(&mut Text<'_>) -> Result + Send + Sync + 'static> Show for F {
    fn show(&self, out: &mut Text<'_>) -> Result {
        self(out)
    }
}

/// A file: its name and who makes its text.
pub(crate) struct File {
    name: CString,
    show: KBox<dyn Show>,
}

impl File {
    /// A file that everybody may read.
    pub(crate) fn new(name: &CStr, show: impl Show) -> Result<Self> {
        Ok(Self {
            name: CString::try_from(name)?,
            show: KBox::new(show, GFP_KERNEL)?,
        })
    }
}

/// What the kernel sees of a file, and what belongs to it.
#[repr(C)]
struct Attribute {
    raw: Opaque<bindings::attribute>,
    file: File,
}

/// What the kernel sees of a directory, and what belongs to it.
#[repr(C)]
struct Node {
    kobj: Opaque<bindings::kobject>,
    /// Never changed once the files exist.
    files: KVec<Attribute>,
}

/// Below what a directory hangs.
pub(crate) enum Parent<'a> {
    /// A device.
    Device(&'a device::Device),
    /// Another directory.
    Dir(&'a Dir),
    /// `/sys/module`. The name must not be there, see [`is_module_shown`].
    Modules,
}

impl Parent<'_> {
    fn raw(&self) -> *mut bindings::kobject {
        match self {
            Parent::Device(dev) => {
                let dev: *mut bindings::device = super::raw_device(dev);
                // SAFETY: The device is valid; only the address of a field is computed.
                unsafe { &raw mut (*dev).kobj }
            }
            // SAFETY: By the invariant of `Dir` the node is valid.
            Parent::Dir(dir) => unsafe { Opaque::cast_into(&raw const (*dir.0.as_ptr()).kobj) },
            // Being in the set makes it a child of the set's own directory.
            Parent::Modules => core::ptr::null_mut(),
        }
    }

    /// The set that the directory joins.
    fn kset(&self) -> *mut bindings::kset {
        match self {
            Parent::Modules => modules(),
            _ => core::ptr::null_mut(),
        }
    }
}

/// The set behind `/sys/module`; the kernel does not export it by name.
fn modules() -> *mut bindings::kset {
    // SAFETY: This module is there while its code runs, and was put into the set before its init
    // function was called.
    unsafe { (*super::this_module()).mkobj.kobj.kset }
}

/// Whether `/sys/module` shows a module `name`: one that is loaded or being loaded, or is built in and
/// has something to show.
pub(crate) fn is_module_shown(name: &CStr) -> bool {
    // SAFETY: The set lives as long as the kernel; the name is a C string.
    let found = unsafe { bindings::kset_find_obj(modules(), name.as_char_ptr()) };
    if found.is_null() {
        return false;
    }
    // SAFETY: `kset_find_obj` took a reference for us.
    unsafe { bindings::kobject_put(found) };
    true
}

/// A directory. Dropping it takes it out of sysfs and waits for readers of its files; its children have to
/// be dropped before.
///
/// # Invariants
///
/// The pointer is a node that was added to sysfs, with a reference that this object owns.
pub(crate) struct Dir(NonNull<Node>);

// SAFETY: Everything in a node is `Send`, and kobjects are used from everywhere.
unsafe impl Send for Dir {}
// SAFETY: As above; the files are not changed.
unsafe impl Sync for Dir {}

struct Type(bindings::kobj_type, bindings::sysfs_ops);

// SAFETY: Never written after build time.
unsafe impl Sync for Type {}

static TYPE: Type = Type(
    bindings::kobj_type {
        release: Some(release),
        sysfs_ops: &raw const TYPE.1,
        ..pin_init::zeroed()
    },
    bindings::sysfs_ops {
        show: Some(show),
        ..pin_init::zeroed()
    },
);

impl Dir {
    /// Makes directory `name` with `files` in it.
    pub(crate) fn new(parent: &Parent<'_>, name: &CStr, files: KVec<File>) -> Result<Self> {
        let mut attributes = KVec::with_capacity(files.len(), GFP_KERNEL)?;
        for file in files {
            // With lock debugging there are more fields.
            #[allow(clippy::needless_update)]
            let raw = Opaque::new(bindings::attribute {
                name: file.name.as_char_ptr(),
                mode: 0o444,
                ..pin_init::zeroed()
            });
            // SAFETY: `raw` is a valid attribute that nobody else knows. The class is static.
            unsafe { ours::rkfd_helper_sysfs_attr_init(raw.get()) };
            attributes.push(Attribute { raw, file }, GFP_KERNEL)?;
        }
        let node = KBox::new(
            Node {
                kobj: Opaque::zeroed(),
                files: attributes,
            },
            GFP_KERNEL,
        )?;
        let node = KBox::into_raw(node);
        // SAFETY: `node` is valid, and nobody else knows it yet.
        unsafe {
            (*Opaque::cast_into(&raw const (*node).kobj)).kset = parent.kset();
        }
        // SAFETY: `node` is valid, zeroed but for the set and stays where it is until `release`.
        let added = to_result(unsafe {
            bindings::kobject_init_and_add(
                Opaque::cast_into(&raw const (*node).kobj),
                &raw const TYPE.0,
                parent.raw(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        });
        if let Err(e) = added {
            // SAFETY: Initialized, even on error; this frees it through `release`.
            unsafe { bindings::kobject_put(Opaque::cast_into(&raw const (*node).kobj)) };
            return Err(e);
        }
        // INVARIANT: Added above, with the reference of its birth. Dropping it on error undoes all.
        let dir = Self(NonNull::new(node).ok_or(ENOMEM)?);
        // SAFETY: Valid, and the files are not changed any more.
        for attribute in unsafe { &(*node).files } {
            // SAFETY: The kobject was added; the attribute lives as long as it.
            to_result(unsafe {
                bindings::sysfs_create_file_ns(
                    Opaque::cast_into(&raw const (*node).kobj),
                    attribute.raw.get(),
                    core::ptr::null(),
                )
            })?;
        }
        Ok(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Removal drains readers of the files.
        unsafe {
            let kobj = Opaque::cast_into(&raw const (*self.0.as_ptr()).kobj);
            bindings::kobject_del(kobj);
            bindings::kobject_put(kobj);
        }
    }
}

/// # Safety
///
/// Called by the kernel for a kobject in a [`Node`], when its last reference is gone.
unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
    // SAFETY: The kobject is the first field of a `Node` that came from `KBox::into_raw`.
    drop(unsafe { KBox::from_raw(kobj.cast::<Node>()) });
}

/// # Safety
///
/// Called by the kernel for a kobject in a [`Node`], one of its attributes and a buffer of a page.
unsafe extern "C" fn show(
    _kobj: *mut bindings::kobject,
    attribute: *mut bindings::attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: The attribute is the first field of an `Attribute`, which is not changed.
    let attribute = unsafe { &*attribute.cast::<Attribute>() };
    // SAFETY: The buffer is a zeroed page, only used by this call.
    let buf = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE - 1) };
    let mut out = Text { buf, used: 0 };
    match attribute.file.show.show(&mut out) {
        Ok(()) => out.used as isize,
        Err(e) => e.to_errno() as isize,
    }
}
