// SPDX-License-Identifier: GPL-2.0

//! DRM devices with a render node, their files and ioctls.
//!
//! `kernel::drm` only exists in kernels with `CONFIG_DRM=y`; this works with a modular DRM core.
//!
//! C headers: [`include/drm/drm_drv.h`](srctree/include/drm/drm_drv.h),
//! [`include/drm/drm_file.h`](srctree/include/drm/drm_file.h),
//! [`include/drm/drm_ioctl.h`](srctree/include/drm/drm_ioctl.h)
//!
//! # Examples
//!
//! ```ignore
//! struct Version;
//!
//! impl drm::Handler<Render> for Version {
//!     type Arg = drm_render_version;
//!     const CMD: u32 = DRM_IOCTL_RENDER_VERSION;
//!
//!     fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
//!         arg.minor = file.data().minor();
//!         Ok(())
//!     }
//! }
//!
//! let dev = drm::Device::new::<Render>(parent, data, &[])?;
//! let registration = drm::Registration::new(dev)?;
//! ```

use core::{
    any::TypeId,
    marker::PhantomData,
    ptr::{self, NonNull},
};

use kernel::{
    bindings, device,
    error::{from_err_ptr, to_result},
    fs::{self, LocalFile},
    new_mutex,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        atomic::{Atomic, AtomicFlag, Full, Relaxed},
        Arc, Mutex,
    },
    transmute::FromBytes,
    types::{ForeignOwnable, Opaque},
};

use super::{counted::CountedMap, module_use::ModuleUse};

mod fdinfo;
pub(crate) mod wedged;

pub(crate) use fdinfo::{Fdinfo, MemoryStats};

/// A driver of DRM devices (`struct drm_driver`).
#[vtable]
pub(crate) trait Driver: Sized + Send + Sync + 'static {
    /// The driver's data of a device.
    type Data: Send + Sync + 'static;
    /// The driver's data of an open file.
    type File: Send + Sync + 'static;
    /// Name in the reply to `DRM_IOCTL_VERSION`.
    const NAME: &'static CStr;
    /// Description in the reply to `DRM_IOCTL_VERSION`.
    const DESC: &'static CStr;
    /// Major, minor and patch level of the interface.
    const VERSION: (i32, i32, i32);
    /// The driver's ioctls, indexed by number; see [`ioctl_table`].
    const IOCTLS: &'static [Ioctl<Self>];

    /// Opens a file of a device with these data, and returns its own. `client_id` is a number above
    /// 0 that no other file has had.
    fn open(data: &Arc<Self::Data>, minor: Minor, client_id: u64) -> Result<Arc<Self::File>>;

    /// Called when a descriptor of a file is closed, not necessarily the last one.
    fn flush(file: &File<Self>);

    /// Called at the release of a file, before its handles are closed.
    fn release(file: &File<Self>);

    /// Called when a file closes its last handle of the GEM object with key `object`
    /// ([`super::gem::Object::key`]), also at the release of the file. Another thread may create a
    /// new one meanwhile, see [`File::has_handle`].
    fn handle_closed(file: &File<Self>, object: usize);

    /// Prints the lines of a file in `/proc/PID/fdinfo` after those of the DRM core. An error ends
    /// the text.
    fn show_fdinfo(file: &File<Self>, out: &mut Fdinfo<'_>) -> Result;
}

/// The minor that a file was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Minor {
    /// The primary node of the device or of an alias.
    Primary,
    /// The render node: 0 is that of the device, above are those of its aliases in their order.
    Render(usize),
}

/// An ioctl of driver `D`.
pub(crate) trait Handler<D: Driver> {
    /// The argument, which the DRM core copies in and out.
    type Arg: FromBytes;
    /// The command word.
    const CMD: u32;
    /// Whether it is permitted on render nodes (`DRM_RENDER_ALLOW`).
    const RENDER: bool = true;

    /// Runs the ioctl.
    fn run(dev: &Device, file: &File<D>, arg: &mut Self::Arg) -> Result;
}

/// An entry of the table of ioctls (`struct drm_ioctl_desc`).
///
/// # Invariants
///
/// The function, if any, is [`run`] for driver `D` and a handler with this command word.
#[repr(transparent)]
pub(crate) struct Ioctl<D>(bindings::drm_ioctl_desc, PhantomData<fn() -> D>);

// SAFETY: The descriptor is never written, and its pointers are to statics.
unsafe impl<D> Sync for Ioctl<D> {}

impl<D: Driver> Ioctl<D> {
    /// An unused number: `EINVAL`.
    pub(crate) const NONE: Self = Self(pin_init::zeroed(), PhantomData);
}

// For no driver: `Ioctl::new::<D, H>()` names the driver once.
impl Ioctl<()> {
    /// The entry of the ioctl that `H` handles.
    pub(crate) const fn new<D: Driver, H: Handler<D>>() -> Ioctl<D> {
        assert!(size_of::<H::Arg>() == (H::CMD >> 16 & 0x3fff) as usize);
        let flags = if H::RENDER {
            bindings::drm_ioctl_flags_DRM_RENDER_ALLOW | bindings::drm_ioctl_flags_DRM_AUTH
        } else {
            bindings::drm_ioctl_flags_DRM_AUTH
        };
        let desc = bindings::drm_ioctl_desc {
            cmd: H::CMD,
            flags,
            func: Some(run::<D, H>),
            name: kernel::str::as_char_ptr_in_const_context(D::NAME),
        };
        // INVARIANT: By construction.
        Ioctl(desc, PhantomData)
    }
}

/// Returns a table of `N` entries with the ioctls of `list` at the index of their number.
pub(crate) const fn ioctl_table<D: Driver, const N: usize, const M: usize>(
    list: [Ioctl<D>; M],
) -> [Ioctl<D>; N] {
    let mut table = [const { Ioctl::NONE }; N];
    let mut i = 0;
    while i < M {
        let nr = (list[i].0.cmd & 0xff) as usize - bindings::DRM_COMMAND_BASE as usize;
        assert!(table[nr].0.func.is_none());
        table[nr].0 = bindings::drm_ioctl_desc {
            cmd: list[i].0.cmd,
            flags: list[i].0.flags,
            func: list[i].0.func,
            name: list[i].0.name,
        };
        i += 1;
    }
    table
}

/// # Safety
///
/// Called by the DRM core for a device and a file of driver `D`, with the argument of `H`'s
/// command.
unsafe extern "C" fn run<D: Driver, H: Handler<D>>(
    dev: *mut bindings::drm_device,
    data: *mut c_void,
    file: *mut bindings::drm_file,
) -> c_int {
    // SAFETY: The device is held by the open file during the call.
    let dev = unsafe { Device::from_raw(dev) };
    // SAFETY: The file is open during the call, and one of `D` by the safety requirement.
    let file = unsafe { File::<D>::from_raw(file) };
    // SAFETY: The core passes a buffer of at least the size in the command word, which `Ioctl::new`
    // compared with the argument's; it is initialized (what user space did not pass is zeroed),
    // aligned for any argument, and used by this call alone. `Arg` is valid for all bit patterns.
    let arg = unsafe { &mut *data.cast::<H::Arg>() };
    H::run(dev, file, arg).map_or_else(|e| e.to_errno(), |()| 0)
}

/// A DRM device of this module.
///
/// # Invariants
///
/// `raw` is an initialized `struct drm_device`, allocated by [`Device::alloc`] as part of this
/// type. `data` is null for an alias, otherwise the [`Arc::into_foreign`] of the data of the
/// driver. All fields but the first two are constant once [`Device::new`] has returned.
#[repr(C)]
pub(crate) struct Device {
    raw: Opaque<bindings::drm_device>,
    /// 1 from the first registration on.
    registered: Atomic<i32>,
    data: *mut c_void,
    aliases: KVec<Alias>,
}

// SAFETY: The last reference may be dropped by any task.
unsafe impl Send for Device {}
// SAFETY: Shared references give out what does not change after the allocation, and call
// functions that lock or use atomics; the driver's data are `Send` and `Sync`.
unsafe impl Sync for Device {}

// SAFETY: `drm_dev_get/put` are an atomic count that keeps the device allocated.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: A shared reference implies that the count is not zero.
        unsafe { bindings::drm_dev_get(self.raw.get()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference, so the count is not zero before.
        unsafe { bindings::drm_dev_put(obj.cast().as_ptr()) }
    }
}

struct Fops(bindings::file_operations);

// SAFETY: The table is constant: function pointers that are never written.
unsafe impl Sync for Fops {}

/// File operations of all devices of this module: their address identifies files of this module.
static FOPS: Fops = Fops(bindings::file_operations {
    owner: super::this_module(),
    open: Some(bindings::drm_open),
    flush: Some(flush),
    release: Some(release),
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

/// The start of the private data of an open file, the same for all drivers.
#[repr(C)]
#[pin_data]
struct Header {
    driver: TypeId,
    /// Calls [`Driver::flush`].
    flush: unsafe fn(*mut bindings::drm_file),
    /// Calls [`Driver::release`].
    release: unsafe fn(*mut bindings::drm_file),
    /// Calls [`Driver::handle_closed`].
    handle_closed: unsafe fn(*mut bindings::drm_file, usize),
    /// The file is being released: its handles may refer to objects that are freed.
    released: AtomicFlag,
    /// Keys of GEM objects, counted by handles. A leaf.
    #[pin]
    handles: Mutex<CountedMap<usize, ()>>,
}

/// The private data of an open file.
#[repr(C)]
#[pin_data]
struct Private<T> {
    #[pin]
    header: Header,
    data: Arc<T>,
}

/// # Safety
///
/// Called by the kernel for an open file with the operations [`FOPS`].
unsafe extern "C" fn flush(file: *mut bindings::file, _id: bindings::fl_owner_t) -> c_int {
    // SAFETY: `drm_open()` set the private data of such a file to an open file of a device of this
    // module. The function of its header is that of the file's driver.
    unsafe {
        let file: *mut bindings::drm_file = (*file).private_data.cast();
        (header(file).flush)(file);
    }
    0
}

/// # Safety
///
/// Called by the kernel for the last reference to a file with the operations [`FOPS`].
unsafe extern "C" fn release(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: `drm_open()` set the private data of such a file to an open file of a device of this
    // module. The function of its header is that of the file's driver, and the file is still open
    // for the DRM core, whose function comes last.
    unsafe {
        let of_drm: *mut bindings::drm_file = (*file).private_data.cast();
        let header = header(of_drm);
        (header.release)(of_drm);
        header.released.store(true, Relaxed);
        bindings::drm_release(inode, file)
    }
}

/// Returns the header of a file.
///
/// # Safety
///
/// `file` is an open file of a device of this module during the lifetime of the result.
unsafe fn header<'a>(file: *mut bindings::drm_file) -> &'a Header {
    // SAFETY: `Table::open` set the private data of such a file, which start with a header.
    unsafe { &*(*file).driver_priv.cast() }
}

/// Counts a handle of an object that an open file gets. `ENOMEM` without memory.
///
/// # Safety
///
/// `file` is an open file of a device of this module.
pub(super) unsafe fn handle_opened(file: *mut bindings::drm_file, object: usize) -> Result {
    // SAFETY: The file is open during the call, and that of a device of this module, by the safety
    // requirement.
    let handles = &unsafe { header(file) }.handles;
    CountedMap::add(handles, object, ())
}

/// Calls [`Driver::handle_closed`] of the driver of an open file for the last handle of an object.
///
/// # Safety
///
/// `file` is an open file of a device of this module.
pub(super) unsafe fn handle_closed(file: *mut bindings::drm_file, object: usize) {
    // SAFETY: By the safety requirement.
    let header = unsafe { header(file) };
    let last = header.handles.lock().remove(&object);
    if last.is_some() {
        // SAFETY: The function is that of the file's driver, and the file is open.
        unsafe { (header.handle_closed)(file, object) };
    }
}

/// The `struct drm_driver` of a driver.
struct Table<D: Driver>(PhantomData<D>);

impl<D: Driver> Table<D> {
    const TABLE: bindings::drm_driver = bindings::drm_driver {
        open: Some(Self::open),
        postclose: Some(Self::postclose),
        release: Some(Self::release),
        #[cfg(CONFIG_PROC_FS)]
        show_fdinfo: Some(Self::show_fdinfo),
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
        // SAFETY: The device is held by the file during the call. It is no alias, since no minor
        // refers to one, so its data are those of driver `D`. The file is being opened by a minor.
        let opened = unsafe {
            let dev = Device::from_raw(dev);
            let data = Arc::<D::Data>::borrow(dev.data);
            D::open(&data.into(), dev.minor((*file).minor), (*file).client_id)
        };
        match opened {
            Ok(data) => {
                let header = pin_init!(Header {
                    driver: TypeId::of::<D>(),
                    flush: Self::flush,
                    release: Self::release_file,
                    handle_closed: Self::handle_closed,
                    released: AtomicFlag::new(false),
                    handles <- new_mutex!(CountedMap::new(), "rkfd_handles"),
                });
                let private = pin_init!(Private { header <- header, data });
                let Ok(private) = KBox::pin_init(private, GFP_KERNEL) else {
                    return ENOMEM.to_errno();
                };
                // SAFETY: The file is being opened; this member is the driver's.
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
        // SAFETY: By the safety requirement; the caller keeps the file open.
        D::flush(unsafe { File::from_raw(file) });
    }

    /// # Safety
    ///
    /// `file` is an open file of a device of driver `D`.
    unsafe fn release_file(file: *mut bindings::drm_file) {
        // SAFETY: By the safety requirement; the caller keeps the file open.
        D::release(unsafe { File::from_raw(file) });
    }

    /// # Safety
    ///
    /// `file` is an open file of a device of driver `D`.
    unsafe fn handle_closed(file: *mut bindings::drm_file, object: usize) {
        // SAFETY: By the safety requirement; the caller keeps the file open.
        D::handle_closed(unsafe { File::from_raw(file) }, object);
    }

    /// # Safety
    ///
    /// Called by the DRM core for an open file of a device of driver `D`, with a printer.
    unsafe extern "C" fn show_fdinfo(
        printer: *mut bindings::drm_printer,
        file: *mut bindings::drm_file,
    ) {
        // SAFETY: By the safety requirement: the file is open, and the printer is that of this
        // call.
        let (file, mut out) = unsafe { (File::from_raw(file), Fdinfo::from_raw(printer)) };
        // The reader gets the lines before the error.
        let _ = D::show_fdinfo(file, &mut out);
    }

    /// # Safety
    ///
    /// Called by the DRM core for a file that `open` succeeded for, as the last use of it.
    unsafe extern "C" fn postclose(_dev: *mut bindings::drm_device, file: *mut bindings::drm_file) {
        // SAFETY: `open` stored a box of this type, and nothing uses the file after this.
        drop(unsafe { Pin::<KBox<Private<D::File>>>::from_foreign((*file).driver_priv) });
    }

    /// # Safety
    ///
    /// Called by the DRM core, once for each device, when its last reference is dropped.
    unsafe extern "C" fn release(dev: *mut bindings::drm_device) {
        let dev: *mut Device = dev.cast();
        // SAFETY: The device is the first field of a `Device`, whose fields `Device::alloc` has
        // initialized, and nothing uses it any more. `data` is null or a foreign `Arc` of this
        // type. The allocation is freed by the core, without dropping the fields.
        unsafe {
            drop((&raw mut (*dev).aliases).replace(KVec::new()));
            if !(*dev).data.is_null() {
                drop(Arc::<D::Data>::from_foreign((*dev).data));
            }
        }
        // SAFETY: `Device::alloc` stored one token for each device.
        drop(unsafe { ModuleUse::from_counted() });
    }
}

/// A DRM device whose minors open files of another device (C: `amdgpu_xcp_dev_alloc()`).
///
/// The other device owns it, and files hold the other device: its minors exist as long as a file.
///
/// # Invariants
///
/// The minors refer to a device that outlives this object.
struct Alias(ARef<Device>);

impl Alias {
    /// Makes the minors of a device refer to `to`.
    ///
    /// # Safety
    ///
    /// `dev` is new: not registered, and not used by others. `to` is a device that outlives the
    /// result.
    unsafe fn new(dev: ARef<Device>, to: *mut bindings::drm_device) -> Self {
        let this = Self(dev);
        // INVARIANT: By the safety requirement.
        // SAFETY: The same; the minors are not in use before the registration.
        unsafe { this.refer_to(to) };
        this
    }

    /// # Safety
    ///
    /// The device is not registered, and no file is open by its minors.
    unsafe fn refer_to(&self, to: *mut bindings::drm_device) {
        let raw = self.0.raw();
        // SAFETY: A device with `DRIVER_RENDER` has both minors from its allocation until it is
        // freed; nothing else uses them by the safety requirement.
        unsafe {
            (*(*raw).render).dev = to;
            (*(*raw).primary).dev = to;
        }
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        // The core warns when it frees a minor that refers to another device.
        // SAFETY: The owner is being released, or was never given out: no file and no registration,
        // which hold it, is left.
        unsafe { self.refer_to(self.0.raw()) };
    }
}

impl Device {
    /// Allocates a device of driver `D` below `parent`; it is not visible to user space before
    /// [`Registration::new`]. The unload of the module waits for its last reference, since C uses
    /// the driver's table until then.
    ///
    /// For each of `aliases` there is another device below that parent, with minors of its own:
    /// files opened by these are files of this device.
    pub(crate) fn new<D: Driver>(
        parent: &device::Device,
        data: Arc<D::Data>,
        aliases: &[&device::Device],
    ) -> Result<ARef<Self>> {
        let dev = Self::alloc::<D>(parent)?;
        let mut list = KVec::with_capacity(aliases.len(), GFP_KERNEL)?;
        for parent in aliases {
            let alias = Self::alloc::<D>(parent)?;
            // SAFETY: The alias is new. `dev` owns it from below on; on an error `list` is dropped
            // before `dev`.
            list.push_within_capacity(unsafe { Alias::new(alias, dev.raw()) })?;
        }
        let raw = ARef::into_raw(dev);
        let this = raw.as_ptr();
        // INVARIANT: A foreign `Arc` of the driver's data.
        // SAFETY: The device is new: there is no other reference, and the pointer is that of its
        // allocation. The fields are initialized, and the list is empty, so that it need not be
        // dropped.
        unsafe {
            (&raw mut (*this).data).write(data.into_foreign());
            (&raw mut (*this).aliases).write(list);
        }
        // SAFETY: The reference is that of `into_raw()`.
        Ok(unsafe { ARef::from_raw(raw) })
    }

    /// Allocates a device of driver `D` without data and aliases.
    fn alloc<D: Driver>(parent: &device::Device) -> Result<ARef<Self>> {
        let token = ModuleUse::new()?;
        // SAFETY: The parent is valid, the table is static. The memory is large enough for a
        // `Self`, whose first field is the `drm_device`.
        let raw = from_err_ptr(unsafe {
            bindings::__drm_dev_alloc(
                super::raw_device(parent),
                const { &Table::<D>::TABLE },
                size_of::<Self>(),
                0,
            )
        })?;
        let raw = NonNull::new(raw.cast::<Self>()).ok_or(ENOMEM)?;
        // `release` takes it back.
        token.into_counted();
        let this = raw.as_ptr();
        // SAFETY: The memory is that of a `Self`, which nothing else uses yet.
        unsafe {
            (&raw mut (*this).registered).write(Atomic::new(0));
            (&raw mut (*this).data).write(ptr::null_mut());
            (&raw mut (*this).aliases).write(KVec::new());
        }
        // SAFETY: The allocation leaves one reference, which is handed over.
        Ok(unsafe { ARef::from_raw(raw) })
    }

    /// Returns minor numbers and parent devices of the render nodes of the device and its aliases.
    pub(crate) fn render_nodes(&self) -> impl Iterator<Item = (u32, &device::Device)> + '_ {
        self.devices().map(|dev| {
            // SAFETY: A device with `DRIVER_RENDER` has that minor from its allocation until it is
            // freed.
            let minor = unsafe { (*dev.render()).index as u32 };
            (minor, dev.parent())
        })
    }

    /// Returns the kind of `minor`, a minor of the device or of an alias.
    fn minor(&self, minor: *mut bindings::drm_minor) -> Minor {
        self.devices()
            .position(|dev| dev.render() == minor)
            .map_or(Minor::Primary, Minor::Render)
    }

    /// Returns the device and its aliases.
    fn devices(&self) -> impl Iterator<Item = &Self> {
        Iterator::chain(
            core::iter::once(self),
            self.aliases.iter().map(|alias| &*alias.0),
        )
    }

    /// Returns the render node's minor.
    fn render(&self) -> *mut bindings::drm_minor {
        // SAFETY: The pointer is set by the allocation, and constant until the device is freed.
        unsafe { (*self.raw()).render }
    }

    /// # Safety
    ///
    /// `raw` is a valid device of this module for the lifetime of the result.
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::drm_device) -> &'a Self {
        // SAFETY: All devices of this module are the first field of a `Self`.
        unsafe { &*raw.cast() }
    }

    pub(super) fn raw(&self) -> *mut bindings::drm_device {
        self.raw.get()
    }

    /// Returns the parent device.
    pub(crate) fn parent(&self) -> &device::Device {
        // SAFETY: The parent is set by the allocation, and held by the DRM device.
        unsafe { device::Device::from_raw((*self.raw()).dev) }
    }

    /// Runs `f` in a section that unplugging waits for (`drm_dev_enter()`); `None` if the device is
    /// unplugged.
    pub(crate) fn while_plugged<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        let mut index = 0;
        // SAFETY: The device is initialized by the type invariant.
        if !unsafe { bindings::drm_dev_enter(self.raw(), &mut index) } {
            return None;
        }
        let result = f();
        // SAFETY: The index is that of the `drm_dev_enter()` above, in the same task.
        unsafe { bindings::drm_dev_exit(index) };
        Some(result)
    }
}

/// A registered device with its aliases. Dropping it unplugs the device: no ioctl starts any more,
/// and all mappings are zapped; open files stay.
///
/// # Invariants
///
/// Of the device and its aliases the first `count` are registered, and this is their only
/// registration.
pub(crate) struct Registration {
    dev: ARef<Device>,
    count: usize,
}

impl Registration {
    /// Registers a device and its aliases, once in their life: `EBUSY` afterwards.
    pub(crate) fn new(dev: ARef<Device>) -> Result<Self> {
        dev.registered.cmpxchg(0, 1, Full).map_err(|_| EBUSY)?;
        let mut this = Self { dev, count: 0 };
        while let Some(next) = this.dev.devices().nth(this.count) {
            // SAFETY: The device is initialized by its type invariant, and was never registered:
            // the flag was not set. (A second `drm_dev_register()` would add the minors' devices
            // twice.)
            to_result(unsafe { bindings::drm_dev_register(next.raw(), 0) })?;
            // INVARIANT: Registered above.
            this.count += 1;
        }
        Ok(this)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Aliases first: the device that their files belong to is still plugged.
        for at in (0..self.count).rev() {
            if let Some(dev) = self.dev.devices().nth(at) {
                // SAFETY: Registered by the type invariant; unplugged once, here.
                unsafe { bindings::drm_dev_unplug(dev.raw()) };
            }
        }
    }
}

/// An open file of a device of driver `D`.
///
/// # Invariants
///
/// `raw` is an open file whose private data are a `Pin<KBox<Private<D::File>>>`.
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
        // SAFETY: Valid by the safety requirement; the type is transparent.
        unsafe { &*raw.cast() }
    }

    fn header(&self) -> &Header {
        // SAFETY: The file is open during the borrow by the type invariant.
        unsafe { header(self.raw()) }
    }

    /// Returns whether the file is being released: its handles may refer to objects that are freed.
    pub(super) fn is_released(&self) -> bool {
        self.header().released.load(Relaxed)
    }

    /// Returns whether the file has a handle of the GEM object with this key.
    pub(crate) fn has_handle(&self, object: usize) -> bool {
        self.header().handles.lock().contains(&object)
    }

    /// Returns whether it is the current master of its device.
    pub(crate) fn is_master(&self) -> bool {
        // SAFETY: The file is open during the borrow by the type invariant.
        unsafe { crate::bindings::rkfd_helper_drm_is_current_master(self.raw()) }
    }

    pub(super) fn raw(&self) -> *mut bindings::drm_file {
        self.raw.get()
    }

    /// Returns the driver's data of the file.
    pub(crate) fn data(&self) -> &Arc<D::File> {
        // SAFETY: By the type invariant the private data are of this type; they are not changed
        // before `postclose`.
        unsafe { &(*(*self.raw()).driver_priv.cast::<Private<D::File>>()).data }
    }

    /// Returns the DRM side of an open file; `None` if it is not one of driver `D`.
    pub(crate) fn of(file: &fs::File) -> Option<&Self> {
        let drm = drm_file(file)?;
        // SAFETY: It is an open file of this module.
        if unsafe { header(drm) }.driver != TypeId::of::<D>() {
            return None;
        }
        // SAFETY: The header is that of driver `D`. The DRM side is freed at the release of the
        // file, which the borrow prevents.
        Some(unsafe { Self::from_raw(drm) })
    }
}

/// Checks that the device cgroup of the current task permits to read and write the render node with
/// this minor number. `EPERM` if it does not.
pub(crate) fn check_render_node(minor: u32) -> Result {
    // SAFETY: The function has no requirements; it reads the cgroup of the current task.
    to_result(unsafe { crate::bindings::rkfd_helper_check_render_node(minor) })
}

/// Returns the open file behind a descriptor of the current process. `EBADF` if there is none,
/// `EINVAL` if it is not a file of a DRM device of this module.
pub(crate) fn file_from_fd(fd: u32) -> Result<ARef<fs::File>> {
    let file = LocalFile::fget(fd)?;
    if drm_file(&file).is_none() {
        return Err(EINVAL);
    }
    // SAFETY: The requirement, that this thread is not in a `fdget_pos()` section of the file,
    // protects the position of the file. Nothing uses that of a file with these operations:
    // `drm_read()` ignores it, and `noop_llseek()` returns it without a meaning.
    Ok(unsafe { LocalFile::assume_no_fdget_pos(file) })
}

/// Returns the DRM side of an open file; `None` if it is not one of a device of this module.
pub(super) fn drm_file(file: &LocalFile) -> Option<*mut bindings::drm_file> {
    let raw = file.as_ptr();
    // SAFETY: The file is valid during the borrow; its operations are set by its open.
    if unsafe { (*raw).f_op } != &raw const FOPS.0 {
        return None;
    }
    // SAFETY: `drm_open()` set the private data of a file with these operations.
    Some(unsafe { (*raw).private_data.cast() })
}

/// Returns the device of an open file; `None` if it is not one of this module.
pub(crate) fn device_of(file: &fs::File) -> Option<&Device> {
    let drm = drm_file(file)?;
    // SAFETY: An open file holds its minor and its device until its release.
    Some(unsafe { Device::from_raw((*(*drm).minor).dev) })
}
