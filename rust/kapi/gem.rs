// SPDX-License-Identifier: GPL-2.0

//! GEM objects: memory that files of a DRM device refer to by handles, and map.
//!
//! C header: [`include/drm/drm_gem.h`](srctree/include/drm/drm_gem.h)
//!
//! # Examples
//!
//! ```ignore
//! let buffer = try_pin_init!(Buffer { bo });
//! let object: ARef<gem::Object<Buffer>> = gem::Object::new(dev, size, buffer)?;
//! let handle = object.create_handle(file)?;
//!
//! let object = gem::Object::<Buffer>::lookup(file, handle).ok_or(ENOENT)?;
//! object.view().zap();
//!
//! // In `DriverObject::show_pages`, of an object in a `gem::Memory`.
//! f(self.memory.frame(first)?, Caching::WriteBack);
//! ```

use core::{any::TypeId, ops::Deref, ptr::NonNull};

use kernel::{
    alloc::flags::{GFP_KERNEL_ACCOUNT, __GFP_ZERO},
    bindings,
    error::to_result,
    fs::{self, LocalFile},
    page::{Page, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        SetOnce,
    },
    types::Opaque,
};

use super::{
    dmabuf::{self, DmaBuf},
    drm::{self, Device},
    resv::Resv,
};
use crate::bindings as ours;

mod frame;

pub(crate) use frame::{Caching, Frame, Memory, View};

/// The driver's part of a GEM object (`struct drm_gem_object_funcs`).
///
/// Safe to implement: only a [`Frame`] gets into user page tables, a page of system memory that is
/// zapped before it is freed ([`Memory`]), or of a BAR of the device, zapped at its unplug. All of
/// an object's addresses show one page of zeroes then, which it owns. Before the unplug, a driver
/// that moves the object calls [`View::zap`]; until then mappings keep the pages that they have.
#[vtable]
pub(crate) trait DriverObject: Sized + Send + Sync + 'static {
    /// Returns whether the object is registers: mapped uncached, not inherited by `fork()`.
    fn is_registers(&self) -> bool;

    /// Returns whether the object may be exported as a DMA buffer, or the error if not.
    fn may_share(&self) -> Result;

    /// Returns whether the CPU may map the object, or the error if not.
    fn may_map(&self) -> Result;

    /// Returns the reservation of the object.
    fn resv(&self) -> &Resv;

    /// Calls `f` with the pages from page `first` on and their caching mode, until it returns
    /// `false` or there are no more. A move zaps after the call, or mappings keep pages of it. An
    /// error if the first page is not available: without `wait`, `EBUSY` during a move. Called
    /// while the device is plugged in.
    fn show_pages(
        &self,
        first: usize,
        wait: bool,
        f: &mut dyn FnMut(Frame<'_>, Caching) -> bool,
    ) -> Result;

    /// Waits for a move. An error after a signal.
    fn wait_for_move(&self) -> Result;

    /// Reads or writes the bytes at `at`, within one page, for a debugger. Called while the device
    /// is plugged in.
    fn access(&self, at: usize, data: &mut RemoteAccess<'_>) -> Result;
}

/// An access of a debugger (`access_remote_vm()`: `ptrace()`, `/proc/PID/mem`).
pub(crate) enum RemoteAccess<'a> {
    /// A read.
    Read(&'a mut [u8]),
    /// A write.
    Write(&'a [u8]),
}

/// A GEM object with its driver's part.
///
/// # Invariants
///
/// `raw` is an initialized GEM object with `Self::FUNCS`, which holds a reference to its device;
/// `id` is the id of `T`. All GEM objects of devices of this module are of this type, for some `T`.
#[repr(C)]
#[pin_data]
pub(crate) struct Object<T: DriverObject> {
    #[pin]
    raw: Opaque<bindings::drm_gem_object>,
    id: TypeId,
    /// Shown after the unplug of the device.
    zeroes: SetOnce<Page>,
    #[pin]
    payload: T,
}

// SAFETY: The last reference may be dropped by any task; the driver's part is `Send`.
unsafe impl<T: DriverObject> Send for Object<T> {}
// SAFETY: Methods on shared references call functions that lock; the driver's part is `Sync`.
unsafe impl<T: DriverObject> Sync for Object<T> {}

// SAFETY: `drm_gem_object_get/put` are an atomic count that keeps the object allocated.
unsafe impl<T: DriverObject> AlwaysRefCounted for Object<T> {
    fn inc_ref(&self) {
        // SAFETY: A shared reference implies that the count is not zero.
        unsafe { ours::rkfd_helper_drm_gem_object_get(self.raw.get()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference, so the count is not zero before.
        unsafe { ours::rkfd_helper_drm_gem_object_put(obj.cast().as_ptr()) }
    }
}

impl<T: DriverObject> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

/// Pages that one fault inserts at most.
const FAULT_AROUND: usize = 16;

impl<T: DriverObject> Object<T> {
    const FUNCS: bindings::drm_gem_object_funcs = bindings::drm_gem_object_funcs {
        free: Some(Self::free),
        open: Some(Self::open),
        close: Some(Self::close),
        export: Some(Self::export),
        mmap: Some(Self::mmap),
        vm_ops: &Self::VM_OPS,
        ..pin_init::zeroed()
    };

    const VM_OPS: bindings::vm_operations_struct = bindings::vm_operations_struct {
        open: Some(bindings::drm_gem_vm_open),
        close: Some(bindings::drm_gem_vm_close),
        fault: Some(Self::fault),
        access: Some(Self::access),
        ..pin_init::zeroed()
    };

    /// Creates an object of `size` bytes that files can map. `EINVAL` if the size is zero or not a
    /// multiple of the page size.
    pub(crate) fn new(
        dev: &Device,
        size: usize,
        payload: impl PinInit<T, Error>,
    ) -> Result<ARef<Self>> {
        if size == 0 || size % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let object = KBox::pin_init(
            try_pin_init!(Self {
                // The allocation zeroes it.
                raw <- Opaque::ffi_init(|_| ()),
                id: TypeId::of::<T>(),
                zeroes: SetOnce::new(),
                payload <- payload,
            }),
            GFP_KERNEL | __GFP_ZERO,
        )?;
        // SAFETY: Only shared references to the object are given out, through which it is not
        // moved.
        let object = NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(object) }));
        let raw: *mut bindings::drm_gem_object = object.cast().as_ptr();
        dev.inc_ref();
        // SAFETY: The device is valid; the object is zeroed heap memory that is not shared yet. Its
        // reference to the device was taken above. The reservation is part of what `payload` owns:
        // it is borrowed from it, and nothing has mutable access to `payload` before `free`.
        unsafe {
            (*raw).funcs = const { &Self::FUNCS };
            (*raw).resv = (*object.as_ptr()).payload.resv().raw();
            bindings::drm_gem_private_object_init(dev.raw(), raw, size);
        }
        // INVARIANT: Initialized above.
        // SAFETY: The init leaves one reference, which is handed over.
        let object = unsafe { ARef::from_raw(object) };
        // SAFETY: The object is initialized; on error it is freed through its last reference.
        to_result(unsafe { bindings::drm_gem_create_mmap_offset(raw) })?;
        Ok(object)
    }

    /// Returns the object of a DMA buffer; `None` if it has another type, or is another driver's.
    pub(crate) fn of_dma_buf(buf: &DmaBuf) -> Option<ARef<Self>> {
        let raw = buf.gem_object()?;
        let object: NonNull<Self> = raw.cast();
        // SAFETY: The buffer holds the object, one of this module. By the type invariant it is an
        // `Object` of some type, and `repr(C)` puts the id at the same offset in all of them.
        if unsafe { (*object.as_ptr()).id } != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: The id is that of `T`, so the object is a `Self`; the buffer holds it.
        Some(unsafe { object.as_ref() }.into())
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: The object holds its device, one of this module, by the type invariant.
        unsafe { Device::from_raw((*self.raw.get()).dev) }
    }

    /// Returns a key that is unique among the objects that exist.
    pub(crate) fn key(&self) -> usize {
        self.raw.get() as usize
    }

    /// Returns the offset at which files of the device map the object, in bytes.
    pub(crate) fn mmap_offset(&self) -> u64 {
        // SAFETY: `new` allocated the offset, which does not change.
        unsafe { ours::rkfd_helper_drm_vma_node_offset_addr(&raw mut (*self.raw.get()).vma_node) }
    }

    /// Returns the CPU mappings.
    pub(crate) fn view(&self) -> View {
        // SAFETY: The size is only written by the init of the object.
        let size = unsafe { (*self.raw.get()).size };
        View::new(self.device(), self.mmap_offset(), size)
    }

    /// Permits a file to map the object without a handle. Calls are counted. `EINVAL` if the file
    /// is not one of a device of this module.
    pub(crate) fn allow(&self, file: &fs::File) -> Result {
        let file = drm::drm_file(file).ok_or(EINVAL)?;
        // SAFETY: The object is initialized and the file open, both during the borrow; the node has
        // a lock of its own.
        to_result(unsafe {
            bindings::drm_vma_node_allow(&raw mut (*self.raw.get()).vma_node, file)
        })
    }

    /// Reverts one [`Self::allow`].
    pub(crate) fn revoke(&self, file: &fs::File) {
        if let Some(file) = drm::drm_file(file) {
            // SAFETY: The object is initialized and the file open, both during the borrow; revoking
            // what was not allowed has no effect.
            unsafe { bindings::drm_vma_node_revoke(&raw mut (*self.raw.get()).vma_node, file) }
        }
    }

    /// Creates a handle of the object in a file, which permits mapping it too.
    pub(crate) fn create_handle<D: drm::Driver>(&self, file: &drm::File<D>) -> Result<u32> {
        let mut handle = 0;
        // SAFETY: The object is initialized and the file open, both during the borrow.
        to_result(unsafe {
            bindings::drm_gem_handle_create(file.raw(), self.raw.get(), &mut handle)
        })?;
        Ok(handle)
    }

    /// Returns the object of a handle of a file; `None` if there is none, or it has another type.
    pub(crate) fn lookup<D: drm::Driver>(file: &drm::File<D>, handle: u32) -> Option<ARef<Self>> {
        // SAFETY: The file is open during the borrow.
        let raw = unsafe { bindings::drm_gem_object_lookup(file.raw(), handle) };
        // SAFETY: The lookup took a reference, which is handed over.
        unsafe { Self::from_reference(NonNull::new(raw)?) }
    }

    /// Returns the objects of this type that a file has handles of, once for each handle: none
    /// during its release. Handles that are created or closed meanwhile may be missing.
    pub(crate) fn all_of<D: drm::Driver>(
        file: &drm::File<D>,
    ) -> impl Iterator<Item = ARef<Self>> + '_ {
        let mut handle = 0;
        core::iter::from_fn(move || loop {
            if file.is_released() {
                return None;
            }
            // SAFETY: The file is open during the borrow.
            let raw = unsafe { ours::rkfd_helper_drm_gem_next(file.raw(), &mut handle) };
            let raw = NonNull::new(raw)?;
            handle += 1;
            // SAFETY: The function took a reference, which is handed over.
            if let Some(object) = unsafe { Self::from_reference(raw) } {
                return Some(object);
            }
        })
    }

    /// Returns whether several handles or a DMA buffer refer to the object.
    pub(crate) fn is_shared(&self) -> bool {
        // SAFETY: The object is initialized; the function only reads it.
        unsafe { ours::rkfd_helper_drm_gem_is_shared(self.raw.get()) }
    }

    /// Returns the object behind a handle; `None` if it has another type.
    ///
    /// # Safety
    ///
    /// `raw` is the object of a handle of a file of this module, a reference to which is handed
    /// over.
    unsafe fn from_reference(raw: NonNull<bindings::drm_gem_object>) -> Option<ARef<Self>> {
        let object: NonNull<Self> = raw.cast();
        // SAFETY: Files of this module only have handles of objects of this module (imports of
        // others are refused): an `Object` of some type, and `repr(C)` puts the id at the same
        // offset in all of them.
        if unsafe { (*object.as_ptr()).id } != TypeId::of::<T>() {
            // SAFETY: The reference is given up, and the object not used after.
            unsafe { ours::rkfd_helper_drm_gem_object_put(raw.as_ptr()) };
            return None;
        }
        // SAFETY: The id is that of `T`, so the object is a `Self`; the reference is handed over.
        Some(unsafe { ARef::from_raw(object) })
    }

    /// # Safety
    ///
    /// Called by the DRM core for an object of this type without references.
    unsafe extern "C" fn free(raw: *mut bindings::drm_gem_object) {
        // SAFETY: The object is initialized, and valid until the box is dropped: it came from such
        // a box in `new`. Its reference to the device is dropped last.
        unsafe {
            let dev = NonNull::from(Device::from_raw((*raw).dev));
            bindings::drm_gem_object_release(raw);
            drop(KBox::from_raw(raw.cast::<Self>()));
            Device::dec_ref(dev);
        }
    }

    /// # Safety
    ///
    /// Called by the DRM core for an object of this type and an open file that gets a handle of it.
    unsafe extern "C" fn open(
        raw: *mut bindings::drm_gem_object,
        file: *mut bindings::drm_file,
    ) -> c_int {
        // SAFETY: Only files of devices of this module get handles of such objects, and the file is
        // open by the safety requirement.
        match unsafe { drm::handle_opened(file, raw as usize) } {
            Ok(()) => 0,
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// Called by the DRM core for an object of this type and an open file that closes its handle.
    unsafe extern "C" fn close(raw: *mut bindings::drm_gem_object, file: *mut bindings::drm_file) {
        // SAFETY: Only files of devices of this module have handles of such objects, and the file
        // is open by the safety requirement.
        unsafe { drm::handle_closed(file, raw as usize) };
    }

    /// Creates the DMA buffer of an object. Its mappings join those of the device: [`View::zap`]
    /// and the unplug of the device zap them too.
    ///
    /// # Safety
    ///
    /// Called by the DRM core for an object of this type.
    unsafe extern "C" fn export(
        raw: *mut bindings::drm_gem_object,
        flags: c_int,
    ) -> *mut bindings::dma_buf {
        // SAFETY: The object is a `Self`, and valid during the call, by the safety requirement.
        if let Err(e) = unsafe { &*raw.cast::<Self>() }.may_share() {
            return e.to_ptr();
        }
        // SAFETY: The object is valid by the safety requirement.
        let buf = unsafe { bindings::drm_gem_prime_export(raw, flags) };
        if kernel::error::from_err_ptr(buf).is_ok() {
            // SAFETY: The file is new, so nobody maps it yet. The inode lives as long as the
            // device, which the object holds, which the file holds. The buffer is of a GEM object
            // of this module, as `adopt` demands.
            unsafe {
                (*(*buf).file).f_mapping = (*(*(*raw).dev).anon_inode).i_mapping;
                dmabuf::adopt(buf);
            }
        }
        buf
    }

    /// # Safety
    ///
    /// Called by the DRM core for an object of this type and a new area.
    unsafe extern "C" fn mmap(
        raw: *mut bindings::drm_gem_object,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: The object is a `Self` by the safety requirement, and the area holds it.
        let this = unsafe { &*raw.cast::<Self>() };
        if let Err(e) = this.may_map() {
            return e.to_errno();
        }
        // SAFETY: The area is being set up with the mmap lock held: its flags do not change.
        let mut flags = unsafe { (*vma).__bindgen_anon_2.vm_flags };
        const ACCESS: bindings::vm_flags_t =
            bindings::VM_READ | bindings::VM_WRITE | bindings::VM_EXEC;
        let private =
            |flags| flags & (bindings::VM_SHARED | bindings::VM_MAYWRITE) == bindings::VM_MAYWRITE;
        if private(flags) && flags & ACCESS == 0 {
            // An inaccessible private mapping only reserves addresses, provided that it stays so.
            // SAFETY: The area is being set up with the mmap lock held for writing.
            unsafe { ours::rkfd_helper_vm_flags_clear(vma, bindings::VM_MAYWRITE) };
            flags &= !bindings::VM_MAYWRITE;
        }
        if private(flags) {
            return EINVAL.to_errno();
        }
        let mut flags =
            bindings::VM_IO | bindings::VM_PFNMAP | bindings::VM_DONTEXPAND | bindings::VM_DONTDUMP;
        if this.is_registers() {
            // A child does not inherit registers.
            flags |= bindings::VM_DONTCOPY;
        }
        // SAFETY: The area is being set up with the mmap lock held for writing: flags and
        // protection may be changed.
        unsafe {
            ours::rkfd_helper_vm_flags_set(vma, flags);
            // The caching mode of memory depends on its placement: the fault handler sets it.
            if this.is_registers() {
                ours::rkfd_helper_vma_set_noncached(vma);
            }
        }
        0
    }

    /// # Safety
    ///
    /// Called by the kernel for an area that was set up by `mmap`.
    unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: The kernel passes a valid fault, whose area exists while it is handled.
        let (vma, address) = unsafe {
            let inner = (*vmf).__bindgen_anon_1;
            (inner.vma, inner.address & !(PAGE_SIZE - 1))
        };
        // SAFETY: The DRM core made the object, a `Self`, the private data of the area, which holds
        // it. The area does not change: the mmap or VMA lock is held. The node is set since `new`.
        let (this, start, end, page) = unsafe {
            let this = &*(*vma).vm_private_data.cast::<Self>();
            let range = (*vma).__bindgen_anon_1.__bindgen_anon_1;
            let node = (*this.raw.get()).vma_node.vm_node.start as usize;
            let first = (*vma).vm_pgoff.wrapping_sub(node);
            (
                this,
                range.vm_start,
                range.vm_end,
                first + (address - range.vm_start) / PAGE_SIZE,
            )
        };
        debug_assert!(address >= start);
        // SAFETY: The fault is valid.
        let may_retry = unsafe { ours::rkfd_helper_fault_may_retry(vmf) };
        let mut moves = false;
        let result = this
            .device()
            .while_plugged(|| {
                let count = ((end - address) / PAGE_SIZE).min(FAULT_AROUND);
                let mut result = bindings::vm_fault_reason_VM_FAULT_SIGBUS;
                let mut i = 0;
                let view = this.view();
                let shown = this.show_pages(page, !may_retry, &mut |frame, caching| {
                    // SAFETY: The area is a PFN map without copy-on-write by `mmap`, and locked by
                    // the fault. It maps part of the object, so its mappings are among those of the
                    // view. The section is one of the object's device.
                    let inserted =
                        unsafe { frame.insert(vma, address + i * PAGE_SIZE, caching, &view) };
                    if i == 0 {
                        result = inserted;
                    }
                    i += 1;
                    i < count && inserted == bindings::vm_fault_reason_VM_FAULT_NOPAGE
                });
                match shown {
                    // Handles the signal first; the access is then repeated.
                    Err(e) if e == EINTR || e == ERESTARTSYS => {
                        bindings::vm_fault_reason_VM_FAULT_NOPAGE
                    }
                    Err(e) if e == EBUSY && may_retry => {
                        moves = true;
                        bindings::vm_fault_reason_VM_FAULT_RETRY
                    }
                    _ => result,
                }
            })
            // SAFETY: As in the section above.
            .unwrap_or_else(|| unsafe { this.insert_zeroes(vma, address) });
        if moves {
            // The file keeps the module loaded. Its last reference is dropped by task work, after
            // this function has returned; that of the object may be dropped below.
            // SAFETY: The area has the file of its `mmap()`, which it holds. A call that uses the
            // position of the file without a lock is one of this task: there are two references.
            let file: ARef<LocalFile> = unsafe { LocalFile::from_raw_file((*vma).vm_file) }.into();
            let object: ARef<Self> = this.into();
            // The process may map memory during the move, which may take seconds.
            // SAFETY: The fault is valid and may be retried. Its area, and the references of that
            // to the object and to the file, are not used below.
            if unsafe { ours::rkfd_helper_fault_unlock(vmf) } {
                // A signal is handled before the access is repeated.
                let _ = object.wait_for_move();
            }
            drop(object);
            drop(file);
        }
        result
    }

    /// Inserts a page of zeroes at `address` of an area: processes that have mapped objects of a
    /// device outlive it. Returns the result of the fault.
    ///
    /// # Safety
    ///
    /// The area is a PFN map without copy-on-write that holds the object, and its mmap or VMA lock
    /// is held.
    unsafe fn insert_zeroes(
        &self,
        vma: *mut bindings::vm_area_struct,
        address: usize,
    ) -> bindings::vm_fault_t {
        if self.zeroes.as_ref().is_none() {
            let Ok(page) = Page::alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO) else {
                return bindings::vm_fault_reason_VM_FAULT_OOM;
            };
            self.zeroes.populate(page);
        }
        // Another fault stores its page: the access is repeated.
        let Some(page) = self.zeroes.as_ref() else {
            return bindings::vm_fault_reason_VM_FAULT_NOPAGE;
        };
        // SAFETY: The page is valid.
        let phys = unsafe { ours::rkfd_helper_page_to_phys(page.as_ptr()) };
        let pfn = phys as usize / PAGE_SIZE;
        // SAFETY: The area by the safety requirement; the function checks the address. The page is
        // freed with the object, after the last area that holds it.
        unsafe { ours::rkfd_helper_vmf_insert(vma, address, pfn, false, false) }
    }

    /// Reads or writes up to `len` bytes of an area for a debugger. Returns their number or an
    /// errno.
    ///
    /// # Safety
    ///
    /// Called by the kernel, with the mmap lock held, for an address in an area that was set up by
    /// `mmap`, and `len` bytes of kernel memory at `buf`.
    unsafe extern "C" fn access(
        vma: *mut bindings::vm_area_struct,
        address: usize,
        buf: *mut c_void,
        len: c_int,
        write: c_int,
    ) -> c_int {
        // SAFETY: The DRM core made the object, a `Self`, the private data of the area, which holds
        // it. The area does not change: the mmap lock is held. The node is set since `new`.
        let (this, end, at) = unsafe {
            let this = &*(*vma).vm_private_data.cast::<Self>();
            let range = (*vma).__bindgen_anon_1.__bindgen_anon_1;
            let node = (*this.raw.get()).vma_node.vm_node.start as usize;
            let first = (*vma).vm_pgoff.wrapping_sub(node) * PAGE_SIZE;
            (this, range.vm_end, first + (address - range.vm_start))
        };
        // SAFETY: The area is valid during the call, and its flags do not change: the mmap lock is
        // held.
        let flags = unsafe { (*vma).__bindgen_anon_2.vm_flags };
        // The caller may write to areas that are not writable, as if they were private.
        if write != 0 && flags & bindings::VM_WRITE == 0 {
            return EACCES.to_errno();
        }
        // The caller repeats the call for the rest.
        let in_page = PAGE_SIZE - address % PAGE_SIZE;
        let count = (end - address).min(in_page).min(len.max(0) as usize);
        if write == 0 {
            // SAFETY: `count` is at most `len`.
            unsafe { buf.cast::<u8>().write_bytes(0, count) };
        }
        let mut data = match write {
            // SAFETY: `count` bytes of memory that nothing else accesses, initialized above.
            0 => RemoteAccess::Read(unsafe { core::slice::from_raw_parts_mut(buf.cast(), count) }),
            // SAFETY: `count` bytes of memory that nothing writes meanwhile, and the caller has
            // initialized.
            _ => RemoteAccess::Write(unsafe { core::slice::from_raw_parts(buf.cast(), count) }),
        };
        let done = this
            .device()
            .while_plugged(|| DriverObject::access(&**this, at, &mut data));
        match done {
            Some(Ok(())) => count as c_int,
            Some(Err(e)) => e.to_errno(),
            None => EIO.to_errno(),
        }
    }
}

/// A handle of an object that belongs to no file.
///
/// As long as an object has handles it refers to its DMA buffer: so it never has two of them.
///
/// # Invariants
///
/// One of the object's handle count belongs to this object.
pub(crate) struct HandleRef<T: DriverObject>(ARef<Object<T>>);

impl<T: DriverObject> HandleRef<T> {
    /// Adds a handle.
    pub(crate) fn new(object: ARef<Object<T>>) -> Self {
        // SAFETY: The object is initialized, and held by `object`; the count is under a lock.
        unsafe { ours::rkfd_helper_drm_gem_hold(object.raw.get(), core::ptr::null_mut()) };
        // INVARIANT: Counted above.
        Self(object)
    }

    /// Adds a handle of the object of a DMA buffer; `None` as for [`Object::of_dma_buf`].
    pub(crate) fn import(buf: &DmaBuf) -> Option<Self> {
        let object = Object::of_dma_buf(buf)?;
        // SAFETY: Object and buffer are held meanwhile, and the buffer is one of the object.
        unsafe { ours::rkfd_helper_drm_gem_hold(object.raw.get(), buf.raw()) };
        // INVARIANT: Counted above.
        Some(Self(object))
    }

    /// Returns the DMA buffer of the object, and creates it if there is none. Whether the CPU may
    /// write to it (`writable`) is decided by its creation.
    pub(crate) fn export(&self, writable: bool) -> Result<DmaBuf> {
        let flags = if writable { bindings::O_RDWR } else { 0 };
        // SAFETY: The object has a handle by the type invariant, as the helper demands. The result
        // is an error or a reference, which is handed over.
        unsafe {
            DmaBuf::from_raw(ours::rkfd_helper_drm_gem_export(
                self.0.raw.get(),
                flags as c_int,
            ))
        }
    }
}

impl<T: DriverObject> Deref for HandleRef<T> {
    type Target = Object<T>;

    fn deref(&self) -> &Object<T> {
        &self.0
    }
}

impl<T: DriverObject> Drop for HandleRef<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant one handle belongs to this object, which is given up once.
        unsafe { ours::rkfd_helper_drm_gem_let_go(self.0.raw.get()) }
    }
}
