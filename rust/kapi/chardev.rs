// SPDX-License-Identifier: GPL-2.0

//! A character device with a class of its own: `/sys/devices/virtual/<name>/<name>` and
//! `/dev/<name>`.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/device/class.h`](srctree/include/linux/device/class.h)
//!
//! # Examples
//!
//! ```ignore
//! #[vtable]
//! impl chardev::File for Control {
//!     type Private = Arc<Client>;
//!     const NAME: &'static CStr = c"kfd";
//!
//!     fn open() -> Result<Arc<Client>> {
//!         Client::new()
//!     }
//!     // ...
//! }
//!
//! let registration = chardev::Registration::<Control>::new()?;
//! ```

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    bindings, device,
    error::{from_err_ptr, to_result},
    prelude::*,
    types::ForeignOwnable,
};

use super::{
    module_use::ModuleUse,
    vma::{self, NewArea},
};

/// File operations of a character device (`struct file_operations`).
#[vtable]
pub(crate) trait File: Sized + Send + Sync + 'static {
    /// The private data of an open file.
    type Private: ForeignOwnable + Send + Sync;
    /// Name of class and device.
    const NAME: &'static CStr;

    /// Opens the device for the current process.
    fn open() -> Result<Self::Private>;

    /// Runs an ioctl of the current process. Returns a value that is not negative, or an error.
    fn ioctl(
        private: <Self::Private as ForeignOwnable>::Borrowed<'_>,
        cmd: u32,
        arg: usize,
    ) -> Result<isize>;

    /// Sets up a mapping of the current process.
    fn mmap(private: <Self::Private as ForeignOwnable>::Borrowed<'_>, area: NewArea<'_>) -> Result;
}

/// A registered character device.
///
/// # Invariants
///
/// `class` is registered, `device` is a registered device of it with number `major`:0, and
/// the major is registered with `Self::FOPS`.
pub(crate) struct Registration<T: File> {
    major: c_uint,
    /// Registered by its address.
    class: &'static bindings::class,
    device: NonNull<bindings::device>,
    // Dropped after the device is gone.
    _inode: vma::MappingInode,
    // Dropped last: class and operations are part of the module.
    _use: ModuleUse,
    _p: PhantomData<T>,
}

// SAFETY: The device may be removed by any task that can sleep; no `T` is stored.
unsafe impl<T: File> Send for Registration<T> {}
// SAFETY: Shared references only give out `&Device`, which is `Sync`.
unsafe impl<T: File> Sync for Registration<T> {}

const MINORS: c_uint = 256;

impl<T: File> Registration<T> {
    const CLASS: bindings::class = bindings::class {
        name: kernel::str::as_char_ptr_in_const_context(T::NAME),
        ..pin_init::zeroed()
    };

    const FOPS: bindings::file_operations = bindings::file_operations {
        owner: super::this_module(),
        open: Some(Self::open),
        release: Some(Self::release),
        unlocked_ioctl: Some(Self::ioctl),
        #[cfg(CONFIG_COMPAT)]
        compat_ioctl: bindings::compat_ptr_ioctl,
        mmap: Some(Self::mmap),
        ..pin_init::zeroed()
    };

    /// Registers class and device. `EBUSY` if one is registered, `ENODEV` when the module is about
    /// to exit.
    pub(crate) fn new() -> Result<Self> {
        let token = ModuleUse::new()?;
        let inode = vma::MappingInode::new()?;
        let name = kernel::str::as_char_ptr_in_const_context(T::NAME);
        let class: &'static bindings::class = const { &Self::CLASS };
        // SAFETY: Name and operations are static; their owner is this module.
        let major =
            unsafe { bindings::__register_chrdev(0, 0, MINORS, name, const { &Self::FOPS }) };
        to_result(major)?;
        let major = major as c_uint;
        // SAFETY: The class is static, and not registered: there is one registration at a time,
        // since there is one `MappingInode`.
        if let Err(e) = to_result(unsafe { bindings::class_register(class) }) {
            // SAFETY: The numbers were registered above.
            unsafe { bindings::__unregister_chrdev(major, 0, MINORS, name) };
            return Err(e);
        }
        // SAFETY: The class is registered, and the format takes the one string that is passed.
        let device = from_err_ptr(unsafe {
            bindings::device_create(
                class,
                core::ptr::null_mut(),
                Self::number(major),
                core::ptr::null_mut(),
                c"%s".as_char_ptr(),
                name,
            )
        });
        match device.and_then(|d| NonNull::new(d).ok_or(ENOMEM)) {
            // INVARIANT: All parts were registered above.
            Ok(device) => Ok(Self {
                major,
                class,
                device,
                _inode: inode,
                _use: token,
                _p: PhantomData,
            }),
            Err(e) => {
                // SAFETY: Class and numbers were registered above, and the class has no devices.
                unsafe {
                    bindings::class_unregister(class);
                    bindings::__unregister_chrdev(major, 0, MINORS, name);
                }
                Err(e)
            }
        }
    }

    /// Returns the device, as a parent in sysfs.
    pub(crate) fn device(&self) -> &device::Device {
        // SAFETY: By the type invariant the device exists as long as `self`.
        unsafe { device::Device::from_raw(self.device.as_ptr()) }
    }

    const fn number(major: c_uint) -> bindings::dev_t {
        major << 20
    }

    /// # Safety
    ///
    /// Called by the kernel for a file that is being opened.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The inode is valid during the call, and that of a character device.
        if unsafe { (*inode).i_rdev } & 0xfffff != 0 {
            return ENODEV.to_errno();
        }
        match T::open() {
            Ok(private) => {
                // SAFETY: The file is being opened: its private data are the driver's, and it has
                // no mappings. The registration, with the inode, outlives open files, which hold
                // the module.
                unsafe {
                    (*file).private_data = private.into_foreign();
                    vma::adopt(file);
                }
                0
            }
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called by the kernel, once, as the last use of an open file.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` stored private data of this type; this is the last use of the file.
        drop(unsafe { T::Private::from_foreign((*file).private_data) });
        0
    }

    /// # Safety
    ///
    /// Called by the kernel for an open file.
    unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: `open` stored private data of this type, which are owned until `release`.
        let private = unsafe { T::Private::borrow((*file).private_data) };
        match T::ioctl(private, cmd, arg) {
            Ok(value) => value as c_long,
            Err(e) => e.to_errno() as c_long,
        }
    }

    /// # Safety
    ///
    /// Called by the kernel for an open file and a new area.
    unsafe extern "C" fn mmap(
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: `open` stored private data of this type, which are owned until `release`.
        let private = unsafe { T::Private::borrow((*file).private_data) };
        let Some(vma) = NonNull::new(vma) else {
            return EINVAL.to_errno();
        };
        // SAFETY: This is the file operation, and the value is consumed by the call.
        let area = unsafe { NewArea::from_raw(vma) };
        T::mmap(private, area).map_or_else(|e| e.to_errno(), |()| 0)
    }
}

impl<T: File> Drop for Registration<T> {
    fn drop(&mut self) {
        let name = kernel::str::as_char_ptr_in_const_context(T::NAME);
        // SAFETY: By the type invariant all three are registered. No file is open: each holds a
        // reference to the module, whose init failed or whose exit runs.
        unsafe {
            bindings::device_destroy(self.class, Self::number(self.major));
            bindings::class_unregister(self.class);
            bindings::__unregister_chrdev(self.major, 0, MINORS, name);
        }
    }
}
