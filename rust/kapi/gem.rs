// SPDX-License-Identifier: GPL-2.0

//! GEM objects: memory that files of a DRM device know by handles and map.

use core::{any::TypeId, ops::Deref, ptr::NonNull};

use kernel::{
    bindings,
    error::to_result,
    fs,
    page::PAGE_SIZE,
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};

use super::{
    dmabuf::{self, DmaBuf},
    drm::{self, Device},
    resv::Resv,
};
use crate::bindings as ours;

/// How user space sees the memory of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// As ordinary memory.
    WriteBack,
    /// As device memory without side effects.
    WriteCombine,
    /// As registers.
    Uncached,
}

/// What a GEM object holds.
pub(crate) trait Payload: Sized + Send + Sync + 'static {
    /// It is registers, and mapped as such.
    fn is_registers(&self) -> bool;

    /// Whether other processes may get it, and the error if not.
    fn may_share(&self) -> Result;

    /// Whether the CPU may map it, and the error if not.
    fn may_map(&self) -> Result;

    /// Who uses the memory.
    fn resv(&self) -> &Resv;

    /// Calls `f` with the physical addresses of the pages from `first` on, and how they are mapped,
    /// until it returns false or the last page is done. The memory stays there meanwhile. An error
    /// if not even the first page is there. Called while the device is plugged in.
    fn show_pages(&self, first: usize, f: &mut dyn FnMut(u64, Caching) -> bool) -> Result;
}

/// The CPU's mappings of an object, which may be gone already.
pub(crate) struct View {
    dev: ARef<Device>,
    offset: u64,
    size: usize,
}

impl View {
    /// Empties the mappings: whoever touches them next comes to [`Payload::show_pages`].
    pub(crate) fn zap(&self) {
        // SAFETY: The inode lives as long as the device. If the object has gone and its place in the file
        // belongs to another one, that one's mappings are emptied, which does no harm.
        unsafe {
            bindings::unmap_mapping_range(
                (*(*self.dev.raw()).anon_inode).i_mapping,
                self.offset as bindings::loff_t,
                self.size as bindings::loff_t,
                1,
            )
        }
    }
}

/// A GEM object with a payload.
///
/// # Invariants
///
/// `raw` is an initialized GEM object with `Self::FUNCS`, which holds a reference to its device, and `id` is
/// the id of `T`. All GEM objects of devices of this module are of this type, for some `T`.
#[repr(C)]
#[pin_data]
pub(crate) struct Object<T: Payload> {
    raw: Opaque<bindings::drm_gem_object>,
    id: TypeId,
    #[pin]
    payload: T,
}

// SAFETY: GEM objects are used from everywhere, and so is the payload.
unsafe impl<T: Payload> Send for Object<T> {}
// SAFETY: As above.
unsafe impl<T: Payload> Sync for Object<T> {}

// SAFETY: The count of the object is that of `drm_gem_object_get/put`.
unsafe impl<T: Payload> AlwaysRefCounted for Object<T> {
    fn inc_ref(&self) {
        // SAFETY: The object is valid by the type invariant.
        unsafe { ours::rkfd_helper_drm_gem_object_get(self.raw.get()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { ours::rkfd_helper_drm_gem_object_put(obj.cast().as_ptr()) }
    }
}

impl<T: Payload> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

/// Pages that one fault fills in, as far as they belong to the area.
const FAULT_AROUND: usize = 16;

impl<T: Payload> Object<T> {
    const FUNCS: bindings::drm_gem_object_funcs = bindings::drm_gem_object_funcs {
        free: Some(Self::free),
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
        ..pin_init::zeroed()
    };

    /// Makes an object of `size` bytes, a multiple of the page size, that files can map.
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
                raw: Opaque::zeroed(),
                id: TypeId::of::<T>(),
                payload <- payload,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: Only references to the object are given out, none of which lets it be moved.
        let object = NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(object) }));
        let raw: *mut bindings::drm_gem_object = object.cast().as_ptr();
        dev.inc_ref();
        // SAFETY: The device is valid, the object zeroed and on the heap. What the object holds of its
        // device is the reference taken above.
        unsafe {
            (*raw).funcs = const { &Self::FUNCS };
            // Lives as long as the payload.
            (*raw).resv = (*object.as_ptr()).payload.resv().raw();
            bindings::drm_gem_private_object_init(dev.raw(), raw, size);
        }
        // INVARIANT: Initialized above.
        // SAFETY: The reference of its birth is handed over.
        let object = unsafe { ARef::from_raw(object) };
        // SAFETY: The object is valid; on error it is freed as any other.
        to_result(unsafe { bindings::drm_gem_create_mmap_offset(raw) })?;
        Ok(object)
    }

    /// The object behind a DMA buffer; `None` if it is of another kind, or another driver's.
    pub(crate) fn of_dma_buf(buf: &DmaBuf) -> Option<ARef<Self>> {
        let raw = buf.gem_object()?;
        let object: NonNull<Self> = raw.cast();
        // SAFETY: The object lives as long as the buffer. By the type invariant the id lies where it
        // does in `Self`, whatever `T` is.
        if unsafe { (*object.as_ptr()).id } != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: The id shows that the object is part of a `Self`, which lives meanwhile.
        Some(unsafe { object.as_ref() }.into())
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: The object holds its device.
        unsafe { Device::from_raw((*self.raw.get()).dev) }
    }

    /// What tells the object from all others that exist.
    pub(crate) fn key(&self) -> usize {
        self.raw.get() as usize
    }

    /// Where in a file of the device the object is mapped.
    pub(crate) fn mmap_offset(&self) -> u64 {
        // SAFETY: The offset was made in `new`.
        unsafe { ours::rkfd_helper_drm_vma_node_offset_addr(&raw mut (*self.raw.get()).vma_node) }
    }

    /// The CPU's mappings.
    pub(crate) fn view(&self) -> View {
        View {
            dev: self.device().into(),
            offset: self.mmap_offset(),
            // SAFETY: The object is valid.
            size: unsafe { (*self.raw.get()).size },
        }
    }

    /// Lets a file map the object, without a handle. Calls are counted.
    pub(crate) fn allow(&self, file: &fs::File) -> Result {
        let file = drm::drm_file(file).ok_or(EINVAL)?;
        // SAFETY: Object and file are valid.
        to_result(unsafe {
            bindings::drm_vma_node_allow(&raw mut (*self.raw.get()).vma_node, file)
        })
    }

    /// Takes back one [`Self::allow`].
    pub(crate) fn revoke(&self, file: &fs::File) {
        if let Some(file) = drm::drm_file(file) {
            // SAFETY: Object and file are valid.
            unsafe { bindings::drm_vma_node_revoke(&raw mut (*self.raw.get()).vma_node, file) }
        }
    }

    /// Gives a file a handle of the object, with which it may also map it.
    pub(crate) fn create_handle<D: drm::Driver>(&self, file: &drm::File<D>) -> Result<u32> {
        let mut handle = 0;
        // SAFETY: Object and file are valid.
        to_result(unsafe {
            bindings::drm_gem_handle_create(file.raw(), self.raw.get(), &mut handle)
        })?;
        Ok(handle)
    }

    /// The object behind a handle of a file; `None` if there is none or it is of another kind.
    pub(crate) fn lookup<D: drm::Driver>(file: &drm::File<D>, handle: u32) -> Option<ARef<Self>> {
        // SAFETY: The file is valid.
        let raw = unsafe { bindings::drm_gem_object_lookup(file.raw(), handle) };
        let raw = NonNull::new(raw)?;
        let object: NonNull<Self> = raw.cast();
        // SAFETY: The object is valid: we have a reference. By the type invariant the id lies where it
        // does in `Self`, whatever `T` is.
        if unsafe { (*object.as_ptr()).id } != TypeId::of::<T>() {
            // SAFETY: Gives up the reference of the lookup.
            unsafe { ours::rkfd_helper_drm_gem_object_put(raw.as_ptr()) };
            return None;
        }
        // SAFETY: The id shows that the object is part of a `Self`; the reference is handed over.
        Some(unsafe { ARef::from_raw(object) })
    }

    /// # Safety
    ///
    /// Called by the DRM core for an object of this type without references.
    unsafe extern "C" fn free(raw: *mut bindings::drm_gem_object) {
        // SAFETY: The object is valid until the box below is dropped; it held the device.
        unsafe {
            let dev = NonNull::from(Device::from_raw((*raw).dev));
            bindings::drm_gem_object_release(raw);
            drop(KBox::from_raw(raw.cast::<Self>()));
            Device::dec_ref(dev);
        }
    }

    /// # Safety
    ///
    /// Called by the DRM core for an object of this type of which a file gives up its handle.
    unsafe extern "C" fn close(raw: *mut bindings::drm_gem_object, file: *mut bindings::drm_file) {
        // SAFETY: Objects of this type have handles only in files of devices of this module.
        unsafe { drm::handle_closed(file, raw as usize) };
    }

    /// Makes the file of an object that is shared. Its mappings count among those of the device: they are
    /// emptied when the memory moves, and when the device is unplugged.
    ///
    /// # Safety
    ///
    /// Called by the DRM core for an object of this type.
    unsafe extern "C" fn export(
        raw: *mut bindings::drm_gem_object,
        flags: c_int,
    ) -> *mut bindings::dma_buf {
        // SAFETY: The object is part of a `Self`.
        if let Err(e) = unsafe { &*raw.cast::<Self>() }.may_share() {
            return e.to_ptr();
        }
        // SAFETY: The object is valid.
        let buf = unsafe { bindings::drm_gem_prime_export(raw, flags) };
        if kernel::error::from_err_ptr(buf).is_ok() {
            // SAFETY: The file is new, nobody maps it yet. The inode lives as long as the device, which the
            // object holds, which the file holds.
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
        // SAFETY: The object is part of a `Self` and lives as long as the area.
        let this = unsafe { &*raw.cast::<Self>() };
        if let Err(e) = this.may_map() {
            return e.to_errno();
        }
        // SAFETY: The area is being set up: reading its flags is fine.
        let mut flags = unsafe { (*vma).__bindgen_anon_2.vm_flags };
        const ACCESS: bindings::vm_flags_t =
            bindings::VM_READ | bindings::VM_WRITE | bindings::VM_EXEC;
        let private =
            |flags| flags & (bindings::VM_SHARED | bindings::VM_MAYWRITE) == bindings::VM_MAYWRITE;
        if private(flags) && flags & ACCESS == 0 {
            // A private mapping that nobody may touch only reserves addresses, if it stays so.
            // SAFETY: As above.
            unsafe { ours::rkfd_helper_vm_flags_clear(vma, bindings::VM_MAYWRITE) };
            flags &= !bindings::VM_MAYWRITE;
        }
        if private(flags) {
            return EINVAL.to_errno();
        }
        let mut flags =
            bindings::VM_IO | bindings::VM_PFNMAP | bindings::VM_DONTEXPAND | bindings::VM_DONTDUMP;
        if this.is_registers() {
            // Registers are nothing that a child should inherit.
            flags |= bindings::VM_DONTCOPY;
        }
        // SAFETY: The area is being set up: flags and protection may be changed.
        unsafe {
            ours::rkfd_helper_vm_flags_set(vma, flags);
            // Memory is mapped as its place demands, which is seen when a page is touched.
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
        // SAFETY: As above; the private data of an area of ours are its object.
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
        this.device()
            .while_plugged(|| {
                let count = ((end - address) / PAGE_SIZE).min(FAULT_AROUND);
                let mut result = bindings::vm_fault_reason_VM_FAULT_SIGBUS;
                let mut i = 0;
                let shown = this.show_pages(page, &mut |phys, caching| {
                    let pfn = phys as usize / PAGE_SIZE;
                    let wc = caching == Caching::WriteCombine;
                    // SAFETY: The area is a PFN map by `mmap`, and the address lies in it.
                    let inserted = unsafe {
                        ours::rkfd_helper_vmf_insert(vma, address + i * PAGE_SIZE, pfn, wc)
                    };
                    if i == 0 {
                        result = inserted;
                    }
                    i += 1;
                    i < count && inserted == bindings::vm_fault_reason_VM_FAULT_NOPAGE
                });
                match shown {
                    // The signal first; then the page is touched again.
                    Err(e) if e == EINTR || e == ERESTARTSYS => {
                        bindings::vm_fault_reason_VM_FAULT_NOPAGE
                    }
                    _ => result,
                }
            })
            .unwrap_or(bindings::vm_fault_reason_VM_FAULT_SIGBUS)
    }
}

/// An object that somebody has who is no file. That counts as a handle: as long as an object has handles it
/// remembers its DMA buffer, of which there is never more than one.
///
/// # Invariants
///
/// One handle of the object's count is ours.
pub(crate) struct Held<T: Payload>(ARef<Object<T>>);

impl<T: Payload> Held<T> {
    /// Counts as a handle.
    pub(crate) fn new(object: ARef<Object<T>>) -> Self {
        // SAFETY: The object is valid.
        unsafe { ours::rkfd_helper_drm_gem_hold(object.raw.get(), core::ptr::null_mut()) };
        // INVARIANT: Counted above.
        Self(object)
    }

    /// The object behind a DMA buffer, as [`Object::of_dma_buf`].
    pub(crate) fn import(buf: &DmaBuf) -> Option<Self> {
        let object = Object::of_dma_buf(buf)?;
        // SAFETY: Object and buffer are valid, and the buffer shows the object.
        unsafe { ours::rkfd_helper_drm_gem_hold(object.raw.get(), buf.raw()) };
        // INVARIANT: Counted above.
        Some(Self(object))
    }

    /// The DMA buffer of the object, made if there is none; the CPU may write to it if `writable` is set by
    /// whoever makes it.
    pub(crate) fn export(&self, writable: bool) -> Result<DmaBuf> {
        let flags = if writable { bindings::O_RDWR } else { 0 };
        // SAFETY: The object is valid and has a handle. The reference is handed over.
        unsafe {
            DmaBuf::from_raw(ours::rkfd_helper_drm_gem_export(
                self.0.raw.get(),
                flags as c_int,
            ))
        }
    }
}

impl<T: Payload> Deref for Held<T> {
    type Target = Object<T>;

    fn deref(&self) -> &Object<T> {
        &self.0
    }
}

impl<T: Payload> Drop for Held<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { ours::rkfd_helper_drm_gem_let_go(self.0.raw.get()) }
    }
}
