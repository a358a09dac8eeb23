// SPDX-License-Identifier: GPL-2.0

//! Directories and text files in sysfs.
//!
//! C headers: [`include/linux/kobject.h`](srctree/include/linux/kobject.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)
//!
//! # Examples
//!
//! ```ignore
//! let mut files = KVec::new();
//! files.push(File::new(c"gpu_id", move |out: &mut Text<'_>| {
//!     Ok(writeln!(out, "{id}")?)
//! })?, GFP_KERNEL)?;
//! let dir = Dir::new(&Parent::Device(dev), c"node0", files)?;
//! ```

use core::{
    fmt::{self, Write},
    ptr::NonNull,
};

use kernel::{
    bindings, device, error::to_result, page::PAGE_SIZE, prelude::*, str::CString, sync::Arc,
    types::Opaque,
};

use super::module_use::ModuleUse;
use crate::bindings as ours;

/// The buffer of a file's text. Text beyond a page less one byte is cut off.
pub(crate) struct Text<'a> {
    buf: &'a mut [u8],
    used: usize,
}

/// Writes the text of a file into the buffer of a `show` callback; returns its length, or the
/// negative errno.
///
/// # Safety
///
/// `buf` is a page that sysfs gave to the caller, and nobody else uses it during the call.
pub(super) unsafe fn show_text(file: &dyn Show, buf: *mut c_char) -> isize {
    // SAFETY: By the safety requirement the buffer is a page, which sysfs has zeroed.
    let buf = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE - 1) };
    let mut out = Text { buf, used: 0 };
    match file.show(&mut out) {
        Ok(()) => out.used as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// Passes `count` bytes of text at `buf` to the `store` handler of a file, if it has one; returns
/// `count`, or the negative errno.
///
/// # Safety
///
/// `buf` has `count` bytes, which do not change during the call.
pub(super) unsafe fn store_text(
    store: Option<&dyn Store>,
    buf: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: By the safety requirement.
    let text = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };
    match store.map_or(Err(EIO), |store| store.store(text)) {
        Ok(()) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

impl Text<'_> {
    /// Appends bytes that are no text. `ENOSPC` beyond the buffer.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result {
        let to = self.buf[self.used..].get_mut(..bytes.len()).ok_or(ENOSPC)?;
        to.copy_from_slice(bytes);
        self.used += bytes.len();
        Ok(())
    }
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

/// The text of a file.
pub(crate) trait Show: Send + Sync + 'static {
    /// Writes the text.
    fn show(&self, out: &mut Text<'_>) -> Result;
}

impl<F: Fn(&mut Text<'_>) -> Result + Send + Sync + 'static> Show for F {
    fn show(&self, out: &mut Text<'_>) -> Result {
        self(out)
    }
}

/// The effect of a write to a file.
pub(crate) trait Store: Send + Sync + 'static {
    /// Handles the written text.
    fn store(&self, text: &[u8]) -> Result;
}

impl<F: Fn(&[u8]) -> Result + Send + Sync + 'static> Store for F {
    fn store(&self, text: &[u8]) -> Result {
        self(text)
    }
}

/// The name of a file.
enum Name {
    Constant(&'static CStr),
    Copy(CString),
}

/// A file: its name, its text, and the effect of a write.
pub(crate) struct File {
    name: Name,
    mode: u16,
    show: KBox<dyn Show>,
    store: Option<KBox<dyn Store>>,
}

impl File {
    /// Makes a file that is readable by all (mode 0444). `ENOMEM` without memory.
    pub(crate) fn new(name: &CStr, show: impl Show) -> Result<Self> {
        Self::named(Name::Copy(CString::try_from(name)?), show)
    }

    /// As [`Self::new`], without a copy of the name.
    pub(crate) fn constant(name: &'static CStr, show: impl Show) -> Result<Self> {
        Self::named(Name::Constant(name), show)
    }

    fn named(name: Name, show: impl Show) -> Result<Self> {
        Ok(Self {
            name,
            mode: 0o444,
            show: KBox::new(show, GFP_KERNEL)?,
            store: None,
        })
    }

    /// Makes it readable by root only (mode 0400).
    pub(crate) fn for_root(mut self) -> Self {
        self.mode = 0o400;
        self
    }

    /// Makes it writable by root, too (mode 0644). `ENOMEM` without memory.
    pub(crate) fn writable(mut self, store: impl Store) -> Result<Self> {
        self.mode = 0o644;
        self.store = Some(KBox::new(store, GFP_KERNEL)?);
        Ok(self)
    }
}

/// The C side of a file, with the Rust side.
#[repr(C)]
struct Attribute {
    raw: Opaque<bindings::attribute>,
    file: File,
}

/// The C side of a directory, with its files.
#[repr(C)]
struct Node {
    kobj: Opaque<bindings::kobject>,
    /// Constant: sysfs refers to the attributes.
    files: KVec<Attribute>,
    // Until the directory is freed the module cannot be unloaded: `TYPE` is part of it.
    _use: ModuleUse,
}

/// The parent of a directory.
pub(crate) enum Parent<'a> {
    /// A device.
    Device(&'a device::Device),
    /// Another directory.
    Dir(&'a Dir),
    /// `/sys/module`, where the name must not exist, see [`is_module_shown`].
    Modules,
}

impl Parent<'_> {
    fn raw(&self) -> *mut bindings::kobject {
        match self {
            Parent::Device(dev) => {
                let dev: *mut bindings::device = super::raw_device(dev);
                // SAFETY: The device is valid during the borrow; the address of a field is
                // computed.
                unsafe { &raw mut (*dev).kobj }
            }
            // SAFETY: By the invariant of `Dir` the node is valid; the address of a field is
            // computed.
            Parent::Dir(dir) => unsafe { Opaque::cast_into(&raw const (*dir.0.as_ptr()).kobj) },
            // `kobject_add()` makes it a child of its kset's kobject.
            Parent::Modules => core::ptr::null_mut(),
        }
    }

    /// Returns the kset that the directory joins.
    fn kset(&self) -> *mut bindings::kset {
        match self {
            Parent::Modules => modules(),
            _ => core::ptr::null_mut(),
        }
    }
}

/// Returns the kset of `/sys/module` (`module_kset`, which is not exported).
fn modules() -> *mut bindings::kset {
    // SAFETY: The module exists while its code runs; `mod_sysfs_setup()` set the kset before the
    // init function was called.
    unsafe { (*super::this_module()).mkobj.kobj.kset }
}

/// Returns whether `/sys/module` has an entry `name`: a module that is loaded or being loaded, or
/// one that is built in and has parameters or a version.
pub(crate) fn is_module_shown(name: &CStr) -> bool {
    // SAFETY: The kset is never freed; the name is NUL-terminated and valid for the call.
    let found = unsafe { bindings::kset_find_obj(modules(), name.as_char_ptr()) };
    if found.is_null() {
        return false;
    }
    // SAFETY: `kset_find_obj()` took a reference, which is given up here.
    unsafe { bindings::kobject_put(found) };
    true
}

/// A directory. Dropping it removes it from sysfs, with its children, and waits for readers and
/// writers of its files.
///
/// # Invariants
///
/// The pointer is a node that was added to sysfs, one reference to which this object owns.
pub(crate) struct Dir(NonNull<Node>);

// SAFETY: A node may be removed by any task that can sleep; its files are `Send`.
unsafe impl Send for Dir {}
// SAFETY: Shared references give out the kobject as a parent only, and the files, which are `Sync`,
// do not change.
unsafe impl Sync for Dir {}

struct Type(bindings::kobj_type, bindings::sysfs_ops);

// SAFETY: The tables are constant: pointers that are never written.
unsafe impl Sync for Type {}

static TYPE: Type = Type(
    bindings::kobj_type {
        release: Some(release),
        sysfs_ops: &raw const TYPE.1,
        ..pin_init::zeroed()
    },
    bindings::sysfs_ops {
        show: Some(show),
        store: Some(store),
    },
);

impl Dir {
    /// Creates directory `name` with `files`. `EEXIST` if there is one, `ENOMEM` without memory,
    /// `ENODEV` when the module is about to exit.
    pub(crate) fn new(parent: &Parent<'_>, name: &CStr, files: KVec<File>) -> Result<Self> {
        let mut attributes = KVec::with_capacity(files.len(), GFP_KERNEL)?;
        for file in files {
            // With lock debugging there are more fields.
            #[allow(clippy::needless_update)]
            let raw = Opaque::new(bindings::attribute {
                name: match &file.name {
                    Name::Constant(name) => name.as_char_ptr(),
                    Name::Copy(name) => name.as_char_ptr(),
                },
                mode: file.mode,
                ..pin_init::zeroed()
            });
            // SAFETY: `raw` is a valid attribute that is not shared yet. The class is static.
            unsafe { ours::rkfd_helper_sysfs_attr_init(raw.get()) };
            attributes.push(Attribute { raw, file }, GFP_KERNEL)?;
        }
        let node = KBox::new(
            Node {
                kobj: Opaque::zeroed(),
                files: attributes,
                _use: ModuleUse::new()?,
            },
            GFP_KERNEL,
        )?;
        let node = KBox::into_raw(node);
        // SAFETY: `node` is valid, and not shared yet.
        unsafe {
            (*Opaque::cast_into(&raw const (*node).kobj)).kset = parent.kset();
        }
        // SAFETY: The kobject is zeroed but for the kset, and stays in place until `release`. Type
        // and format are static, the latter takes one string; the parent is valid during the
        // borrow.
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
            // SAFETY: The kobject is initialized on error too; its last reference calls `release`.
            unsafe { bindings::kobject_put(Opaque::cast_into(&raw const (*node).kobj)) };
            return Err(e);
        }
        // INVARIANT: Added above, with the reference of its init. On error `Drop` removes it.
        let dir = Self(NonNull::new(node).ok_or(ENOMEM)?);
        // SAFETY: `dir` keeps the node valid; the files do not change.
        for attribute in unsafe { &(*node).files } {
            // SAFETY: The kobject was added; the attribute is part of its node, and freed with it.
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

    /// Creates symbolic link `name` to `target`; it is removed with this directory. `EEXIST` if
    /// there is an entry of this name, `ENOMEM` without memory.
    pub(crate) fn link(&self, name: &CStr, target: &Dir) -> Result {
        self.create_link(name, &Parent::Dir(target))
    }

    fn create_link(&self, name: &CStr, target: &Parent<'_>) -> Result {
        // SAFETY: By the type invariant this kobject was added to sysfs; the target is a directory
        // or a device, which are in sysfs too, as a device is bound or being bound. They stay so
        // during the borrows; the name is NUL-terminated.
        to_result(unsafe {
            bindings::sysfs_create_link(Parent::Dir(self).raw(), target.raw(), name.as_char_ptr())
        })
    }
}

/// A symbolic link to a device. Dropping it removes it.
///
/// # Invariants
///
/// The directory has a link of this name, which only this object removes.
pub(crate) struct DeviceLink {
    dir: Arc<Dir>,
    name: CString,
}

impl DeviceLink {
    /// Creates a link to `dev` with its name in `dir`. `EEXIST` if there is an entry of this name,
    /// `ENOMEM` without memory.
    pub(crate) fn new(dir: &Arc<Dir>, dev: &device::Device) -> Result<Self> {
        let name = CString::try_from(dev.name())?;
        dir.create_link(&name, &Parent::Device(dev))?;
        // INVARIANT: Created above.
        Ok(Self {
            dir: dir.clone(),
            name,
        })
    }
}

impl Drop for DeviceLink {
    fn drop(&mut self) {
        // SAFETY: The directory is in sysfs until its last reference is dropped, and by the type
        // invariant has the link.
        unsafe {
            bindings::sysfs_remove_link(Parent::Dir(&self.dir).raw(), self.name.as_char_ptr())
        };
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the kobject was added, and one reference is owned. Its
        // removal waits for calls of `show` and `store`.
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
    // SAFETY: The kobject is the first field of a `Node` that `Dir::new` leaked from a box; this
    // was its last reference.
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
    // SAFETY: The attribute is the first field of an `Attribute` of a node, which does not change,
    // and which the removal of the file keeps valid during the call.
    let attribute = unsafe { &*attribute.cast::<Attribute>() };
    // SAFETY: By the safety requirement; this call is the only user of the buffer.
    unsafe { show_text(&*attribute.file.show, buf) }
}

/// # Safety
///
/// Called by the kernel for a kobject in a [`Node`], one of its attributes and `count` bytes of
/// text.
unsafe extern "C" fn store(
    _kobj: *mut bindings::kobject,
    attribute: *mut bindings::attribute,
    buf: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The attribute is the first field of an `Attribute` of a node, which does not change,
    // and which the removal of the file keeps valid during the call.
    let attribute = unsafe { &*attribute.cast::<Attribute>() };
    // SAFETY: By the safety requirement the buffer has `count` bytes, which do not change.
    unsafe { store_text(attribute.file.store.as_deref(), buf, count) }
}
