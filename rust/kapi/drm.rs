// SPDX-License-Identifier: GPL-2.0

//! DRM devices with a render node.
//!
//! A thin layer over the C interface: `kernel::drm` exists only where DRM is built in.

use core::{any::TypeId, marker::PhantomData, ptr::NonNull};

use kernel::{
    bindings, device,
    error::{from_err_ptr, to_result},
    fs,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        Arc,
    },
    transmute::FromBytes,
    types::{ForeignOwnable, Opaque},
};

/// A driver of DRM devices.
pub(crate) trait Driver: Sized + Send + Sync + 'static {
    /// What belongs to an open file.
    type File: Send + Sync + 'static;
    /// Name, as `DRM_IOCTL_VERSION` tells it.
    const NAME: &'static CStr;
    /// Description, told likewise.
    const DESC: &'static CStr;
    /// Version of the interface.
    const VERSION: (i32, i32, i32);
    /// The driver's ioctls, by number.
    const IOCTLS: &'static [Ioctl];

    /// A file is opened.
    fn open(dev: &Device) -> Result<Arc<Self::File>>;

    /// A descriptor of a file is closed, not necessarily the last one.
    fn flush(file: &File<Self>);

    /// A file gives up its handle of a GEM object, see [`super::gem::Object::key`]. Also called for all
    /// handles that are left when the file is closed.
    fn handle_closed(file: &File<Self>, object: usize);
}

/// An ioctl of driver `D`.
pub(crate) trait Handler<D: Driver> {
    /// Its argument, which is copied in and out.
    type Arg: FromBytes;
    /// Its command word.
    const CMD: u32;
    /// Whether a process that is not privileged may use it through a render node.
    const RENDER: bool = true;

    /// Runs it.
    fn run(dev: &Device, file: &File<D>, arg: &mut Self::Arg) -> Result<i32>;
}

/// A line of the table of ioctls.
#[repr(transparent)]
pub(crate) struct Ioctl(bindings::drm_ioctl_desc);

// SAFETY: Function and name pointers to what is static.
unsafe impl Sync for Ioctl {}

impl Ioctl {
    /// No ioctl: `EINVAL`.
    pub(crate) const NONE: Self = Self(pin_init::zeroed());

    /// The ioctl that `H` handles.
    pub(crate) const fn new<D: Driver, H: Handler<D>>() -> Self {
        assert!(size_of::<H::Arg>() == (H::CMD >> 16 & 0x3fff) as usize);
        let flags = if H::RENDER {
            bindings::drm_ioctl_flags_DRM_RENDER_ALLOW | bindings::drm_ioctl_flags_DRM_AUTH
        } else {
            bindings::drm_ioctl_flags_DRM_AUTH
        };
        Self(bindings::drm_ioctl_desc {
            cmd: H::CMD,
            flags,
            func: Some(run::<D, H>),
            name: kernel::str::as_char_ptr_in_const_context(D::NAME),
        })
    }
}

/// Puts ioctls where their numbers belong in a table of `N` lines.
pub(crate) const fn ioctl_table<const N: usize, const M: usize>(list: [Ioctl; M]) -> [Ioctl; N] {
    let mut table = [const { Ioctl::NONE }; N];
    let mut i = 0;
    while i < M {
        let nr = (list[i].0.cmd & 0xff) as usize - bindings::DRM_COMMAND_BASE as usize;
        assert!(table[nr].0.func.is_none());
        table[nr] = Ioctl(bindings::drm_ioctl_desc {
            cmd: list[i].0.cmd,
            flags: list[i].0.flags,
            func: list[i].0.func,
            name: list[i].0.name,
        });
        i += 1;
    }
    table
}

/// # Safety
///
/// Called by the DRM core for a device and a file of driver `D`, with the argument of `H`'s command.
unsafe extern "C" fn run<D: Driver, H: Handler<D>>(
    dev: *mut bindings::drm_device,
    data: *mut c_void,
    file: *mut bindings::drm_file,
) -> c_int {
    // SAFETY: The device outlives the call.
    let dev = unsafe { Device::from_raw(dev) };
    // SAFETY: The file outlives the call and is one of `D`.
    let file = unsafe { File::<D>::from_raw(file) };
    // SAFETY: The core has copied as many bytes as the command word says, which is the size of the
    // argument; the buffer is ours during the call and aligned for any argument.
    let arg = unsafe { &mut *data.cast::<H::Arg>() };
    H::run(dev, file, arg).unwrap_or_else(|e| e.to_errno())
}

/// A DRM device.
///
/// # Invariants
///
/// `raw` is an initialized `struct drm_device` of this module.
#[repr(transparent)]
pub(crate) struct Device {
    raw: Opaque<bindings::drm_device>,
}

// SAFETY: DRM devices are made to be used by many tasks.
unsafe impl Send for Device {}
// SAFETY: As above.
unsafe impl Sync for Device {}

// SAFETY: The count of the device is that of `drm_dev_get/put`.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: The device is valid by the type invariant.
        unsafe { bindings::drm_dev_get(self.raw.get()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { bindings::drm_dev_put(obj.cast().as_ptr()) }
    }
}

struct Fops(bindings::file_operations);

// SAFETY: Never written after build time.
unsafe impl Sync for Fops {}

/// File operations of all devices of this module: the address tells our files from others.
static FOPS: Fops = Fops(bindings::file_operations {
    owner: super::this_module(),
    open: Some(bindings::drm_open),
    flush: Some(flush),
    release: Some(bindings::drm_release),
    unlocked_ioctl: Some(bindings::drm_ioctl),
    #[cfg(CONFIG_COMPAT)]
    compat_ioctl: Some(bindings::drm_compat_ioctl),
    poll: Some(bindings::drm_poll),
    read: Some(bindings::drm_read),
    llseek: Some(bindings::noop_llseek),
    mmap: Some(bindings::drm_gem_mmap),
    #[cfg(CONFIG_PROC_FS)]
    show_fdinfo: Some(bindings::drm_show_fdinfo),
    fop_flags: bindings::FOP_UNSIGNED_OFFSET,
    ..pin_init::zeroed()
});

/// What the private data of an open file start with, whoever the driver is.
#[repr(C)]
struct Header {
    driver: TypeId,
    /// Passes [`Driver::flush`] on.
    flush: unsafe fn(*mut bindings::drm_file),
    /// Passes [`Driver::handle_closed`] on.
    handle_closed: unsafe fn(*mut bindings::drm_file, usize),
}

/// What the private data of an open file point to.
#[repr(C)]
struct Private<T> {
    header: Header,
    data: Arc<T>,
}

/// # Safety
///
/// Called by the kernel for a file with our operations.
unsafe extern "C" fn flush(file: *mut bindings::file, _id: bindings::fl_owner_t) -> c_int {
    // SAFETY: A file with these operations was opened by `drm_open`, which set the private data; those of ours
    // start with a header, whose function is that of the file's driver.
    unsafe {
        let file: *mut bindings::drm_file = (*file).private_data.cast();
        ((*(*file).driver_priv.cast::<Header>()).flush)(file);
    }
    0
}

/// Tells the driver of an open file that the file has given up its handle of an object.
///
/// # Safety
///
/// `file` is an open file of a device of this module.
pub(super) unsafe fn handle_closed(file: *mut bindings::drm_file, object: usize) {
    // SAFETY: The private data of such files start with a header.
    let header = unsafe { &*(*file).driver_priv.cast::<Header>() };
    // SAFETY: The function is that of the file's driver.
    unsafe { (header.handle_closed)(file, object) };
}

/// The C table of a driver.
struct Table<D: Driver>(PhantomData<D>);

impl<D: Driver> Table<D> {
    const TABLE: bindings::drm_driver = bindings::drm_driver {
        open: Some(Self::open),
        postclose: Some(Self::postclose),
        gem_prime_import: Some(super::dmabuf::import),
        major: D::VERSION.0,
        minor: D::VERSION.1,
        patchlevel: D::VERSION.2,
        name: kernel::str::as_char_ptr_in_const_context(D::NAME).cast_mut(),
        desc: kernel::str::as_char_ptr_in_const_context(D::DESC).cast_mut(),
        driver_features: bindings::drm_driver_feature_DRIVER_GEM
            | bindings::drm_driver_feature_DRIVER_RENDER
            | bindings::drm_driver_feature_DRIVER_SYNCOBJ
            | bindings::drm_driver_feature_DRIVER_SYNCOBJ_TIMELINE,
        ioctls: D::IOCTLS.as_ptr().cast(),
        num_ioctls: D::IOCTLS.len() as c_int,
        fops: &raw const FOPS.0,
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the DRM core for a new file of a device of driver `D`.
    unsafe extern "C" fn open(
        dev: *mut bindings::drm_device,
        file: *mut bindings::drm_file,
    ) -> c_int {
        // SAFETY: The device outlives the call.
        match D::open(unsafe { Device::from_raw(dev) }) {
            Ok(data) => {
                let header = Header {
                    driver: TypeId::of::<D>(),
                    flush: Self::flush,
                    handle_closed: Self::handle_closed,
                };
                let Ok(private) = KBox::new(Private { header, data }, GFP_KERNEL) else {
                    return ENOMEM.to_errno();
                };
                // SAFETY: The file is new; its private data are ours.
                unsafe { (*file).driver_priv = private.into_foreign() };
                0
            }
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// `file` is an open file of a device of driver `D`.
    unsafe fn flush(file: *mut bindings::drm_file) {
        // SAFETY: By the safety requirement; the file outlives the call.
        D::flush(unsafe { File::from_raw(file) });
    }

    /// # Safety
    ///
    /// `file` is an open file of a device of driver `D`.
    unsafe fn handle_closed(file: *mut bindings::drm_file, object: usize) {
        // SAFETY: By the safety requirement; the file outlives the call.
        D::handle_closed(unsafe { File::from_raw(file) }, object);
    }

    /// # Safety
    ///
    /// Called by the DRM core for a file that `open` was called for, when nobody uses it any more.
    unsafe extern "C" fn postclose(_dev: *mut bindings::drm_device, file: *mut bindings::drm_file) {
        // SAFETY: `open` put them there.
        drop(unsafe { KBox::<Private<D::File>>::from_foreign((*file).driver_priv) });
    }
}

impl Device {
    /// Allocates a device of driver `D` below `parent`. Nobody sees it before [`Registration::new`].
    pub(crate) fn new<D: Driver>(parent: &device::Device) -> Result<ARef<Self>> {
        // SAFETY: The parent is valid, the table is static, and a plain `drm_device` is asked for.
        let raw = from_err_ptr(unsafe {
            bindings::__drm_dev_alloc(
                super::raw_device(parent),
                const { &Table::<D>::TABLE },
                size_of::<bindings::drm_device>(),
                0,
            )
        })?;
        let raw = NonNull::new(raw.cast::<Self>()).ok_or(ENOMEM)?;
        // SAFETY: The reference of its birth is handed over.
        Ok(unsafe { ARef::from_raw(raw) })
    }

    /// # Safety
    ///
    /// `raw` is a valid device of this module for the lifetime of the result.
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::drm_device) -> &'a Self {
        // SAFETY: By the safety requirement; the layout is the same.
        unsafe { &*raw.cast() }
    }

    pub(super) fn raw(&self) -> *mut bindings::drm_device {
        self.raw.get()
    }

    /// The device that this one is below of.
    pub(crate) fn parent(&self) -> &device::Device {
        // SAFETY: The parent is set at allocation and held by the DRM device.
        unsafe { device::Device::from_raw((*self.raw()).dev) }
    }

    /// Runs `f` while the device cannot be unplugged; `None` when it was.
    pub(crate) fn while_plugged<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        let mut index = 0;
        // SAFETY: The device is valid.
        if !unsafe { bindings::drm_dev_enter(self.raw(), &mut index) } {
            return None;
        }
        let result = f();
        // SAFETY: Entered above.
        unsafe { bindings::drm_dev_exit(index) };
        Some(result)
    }
}

/// A device that user space sees. Dropping it unplugs the device: no ioctl starts any more, all mappings are
/// emptied; open files stay.
///
/// # Invariants
///
/// The device is registered.
pub(crate) struct Registration(ARef<Device>);

impl Registration {
    /// Shows a device to user space.
    pub(crate) fn new(dev: ARef<Device>) -> Result<Self> {
        // SAFETY: The device is valid and not registered: `Device::new` gives none that is, and a
        // second call fails on the minors.
        to_result(unsafe { bindings::drm_dev_register(dev.raw(), 0) })?;
        // INVARIANT: Registered above.
        Ok(Self(dev))
    }

    /// The minor number of the render node.
    pub(crate) fn render_minor(&self) -> u32 {
        // SAFETY: A registered device with the feature RENDER has the minor until it is freed.
        unsafe { (*(*self.0.raw()).render).index as u32 }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::drm_dev_unplug(self.0.raw()) }
    }
}

/// An open file of a device of driver `D`.
///
/// # Invariants
///
/// `raw` is an open file whose private data are a `KBox<Private<D::File>>`.
#[repr(transparent)]
pub(crate) struct File<D: Driver> {
    raw: Opaque<bindings::drm_file>,
    _p: PhantomData<D>,
}

impl<D: Driver> File<D> {
    /// # Safety
    ///
    /// `raw` is an open file of a device of driver `D` for the lifetime of the result.
    unsafe fn from_raw<'a>(raw: *mut bindings::drm_file) -> &'a Self {
        // SAFETY: By the safety requirement; the layout is the same.
        unsafe { &*raw.cast() }
    }

    pub(super) fn raw(&self) -> *mut bindings::drm_file {
        self.raw.get()
    }

    /// What belongs to the file.
    pub(crate) fn data(&self) -> &Arc<D::File> {
        // SAFETY: By the type invariant.
        unsafe { &(*(*self.raw()).driver_priv.cast::<Private<D::File>>()).data }
    }

    /// Finds out whether an open file is one of driver `D`'s.
    pub(crate) fn of(file: &fs::File) -> Option<&Self> {
        let drm = drm_file(file)?;
        // SAFETY: Files of this module have private data that start with a header.
        if unsafe { (*(*drm).driver_priv.cast::<Header>()).driver } != TypeId::of::<D>() {
            return None;
        }
        // SAFETY: Checked above to be one of `D`; it lives as long as the borrowed file.
        Some(unsafe { Self::from_raw(drm) })
    }
}

/// The DRM side of an open file of a device of this module.
pub(super) fn drm_file(file: &fs::File) -> Option<*mut bindings::drm_file> {
    let raw = file.as_ptr();
    // SAFETY: The file is valid.
    if unsafe { (*raw).f_op } != &raw const FOPS.0 {
        return None;
    }
    // SAFETY: A file with these operations was opened by `drm_open`, which set the private data.
    Some(unsafe { (*raw).private_data.cast() })
}

/// The device of an open file, if it is one of this module's.
pub(crate) fn device_of(file: &fs::File) -> Option<&Device> {
    let drm = drm_file(file)?;
    // SAFETY: An open file's minor and device exist as long as the file.
    Some(unsafe { Device::from_raw((*(*drm).minor).dev) })
}
