// SPDX-License-Identifier: GPL-2.0

//! Areas of user memory, and PCI BARs in those of the character device.
//!
//! The fault handler inserts the page at the address that [`DeviceMemory::phys`] returns.
//! [`zap_all`] zaps all mappings when memory is revoked.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/pseudo_fs.h`](srctree/include/linux/pseudo_fs.h)
//!
//! # Examples
//!
//! ```ignore
//! struct Doorbells { gpu: Arc<Gpu>, phys: u64 }
//!
//! impl vma::DeviceMemory for Doorbells {
//!     fn phys(&self) -> Result<u64> {
//!         if self.gpu.is_unplugged() { Err(ENODEV) } else { Ok(self.phys) }
//!     }
//! }
//!
//! // In the mmap file operation.
//! area.map_device(gpu.pdev(), Arc::new(Doorbells { gpu, phys }, GFP_KERNEL)?)
//! ```

use core::{marker::PhantomData, ops::Deref, ptr::NonNull};

use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    mm::{virt::VmaRef, MmapReadGuard},
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering, Atomic},
        Arc,
    },
    types::ForeignOwnable,
};

use crate::bindings as ours;

/// Returns whether an area is the initial heap or stack of its process.
pub(crate) fn is_heap_or_stack(area: &VmaRef) -> bool {
    // SAFETY: The area exists, and its mmap lock or its own lock is held, by its type.
    unsafe { ours::rkfd_helper_vma_is_heap_or_stack(area.as_ptr()) }
}

/// Returns whether a userfaultfd handles faults of an area.
pub(crate) fn is_armed(area: &VmaRef) -> bool {
    // SAFETY: The area exists, and its mmap lock or its own lock is held, by its type.
    unsafe { ours::rkfd_helper_vma_is_armed(area.as_ptr()) }
}

/// Returns whether a userfaultfd may write-protect pages of an area.
pub(crate) fn reports_writes(area: &VmaRef) -> bool {
    // SAFETY: The area exists, and its mmap lock or its own lock is held, by its type.
    unsafe { ours::rkfd_helper_vma_reports_writes(area.as_ptr()) }
}

/// An area whose mmap lock is held. A [`VmaRef`] may be held by its own lock only.
///
/// # Invariants
///
/// The mmap lock is held by the current task, for the lifetime `'a`.
pub(crate) struct LockedArea<'a>(&'a VmaRef);

impl<'a> LockedArea<'a> {
    /// Returns the area at an address; `None` without one.
    pub(crate) fn at(locked: &'a MmapReadGuard<'_>, addr: usize) -> Option<Self> {
        // INVARIANT: The guard holds the mmap lock.
        locked.vma_lookup(addr).map(Self)
    }

    /// Returns an area.
    ///
    /// # Safety
    ///
    /// The area exists, and the current task holds its mmap lock, during `'a`.
    pub(in crate::kapi) unsafe fn from_raw(area: *const bindings::vm_area_struct) -> Self {
        // INVARIANT: By the safety requirement.
        // SAFETY: By the safety requirement.
        Self(unsafe { VmaRef::from_raw(area) })
    }
}

impl Deref for LockedArea<'_> {
    type Target = VmaRef;

    fn deref(&self) -> &VmaRef {
        self.0
    }
}

/// Device memory that user space may map.
///
/// Safe to implement: each fault checks that the address is in a memory BAR of the device that
/// [`NewArea::map_device`] was called with.
pub(crate) trait DeviceMemory: Send + Sync + 'static {
    /// Returns the physical address of the memory; an error once it is revoked. After a revocation
    /// [`zap_all`] must be called, else mappings keep the pages they have.
    fn phys(&self) -> Result<u64>;
}

/// The argument of a `mmap` file operation.
///
/// # Invariants
///
/// `vma` is the area that a `mmap` file operation was called with; that call is still running, and
/// the mmap lock is held for writing.
pub(crate) struct NewArea<'a> {
    vma: NonNull<bindings::vm_area_struct>,
    _p: PhantomData<&'a ()>,
}

impl NewArea<'_> {
    /// Wraps the argument of a `mmap` file operation.
    ///
    /// # Safety
    ///
    /// Called from that file operation with its area; the value does not outlive the call.
    pub(super) unsafe fn from_raw(vma: NonNull<bindings::vm_area_struct>) -> Self {
        // INVARIANT: By the safety requirement.
        Self {
            vma,
            _p: PhantomData,
        }
    }

    fn raw(&self) -> *mut bindings::vm_area_struct {
        self.vma.as_ptr()
    }

    /// Returns the first user address.
    pub(crate) fn start(&self) -> usize {
        // SAFETY: By the type invariant the area is valid and does not change: the mmap lock is
        // held.
        unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.vm_start }
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: By the type invariant the area is valid and does not change: the mmap lock is
        // held.
        let end = unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.vm_end };
        end - self.start()
    }

    /// Returns the offset in the file that was passed to `mmap()`, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        // SAFETY: By the type invariant the area is valid and does not change: the mmap lock is
        // held.
        let pages = unsafe { (*self.raw()).vm_pgoff };
        pages as u64 * PAGE_SIZE as u64
    }

    /// Maps `memory`, part of a BAR of `pdev`, uncached, from its first byte on. Not inherited by
    /// `fork()`.
    ///
    /// `EINVAL` for a private area that may become writable: `vmf_insert_pfn_prot()` has a `BUG_ON`
    /// for PFN maps with copy-on-write.
    pub(crate) fn map_device(self, pdev: &pci::Device, memory: Arc<dyn DeviceMemory>) -> Result {
        // SAFETY: By the type invariant the area is valid and does not change: the mmap lock is
        // held.
        let flags = unsafe { (*self.raw()).__bindgen_anon_2.vm_flags };
        if flags & (bindings::VM_SHARED | bindings::VM_MAYWRITE) == bindings::VM_MAYWRITE {
            return Err(EINVAL);
        }
        let pdev = pdev.into();
        let shared = Arc::new(Shared { pdev, memory }, GFP_KERNEL)?;
        let flags = bindings::VM_IO
            | bindings::VM_PFNMAP
            | bindings::VM_DONTCOPY
            | bindings::VM_DONTEXPAND
            | bindings::VM_NORESERVE
            | bindings::VM_DONTDUMP;
        // SAFETY: By the type invariant the area is being set up, with the mmap lock held for
        // writing: flags and protection may be changed.
        unsafe {
            ours::rkfd_helper_vm_flags_set(self.raw(), flags);
            ours::rkfd_helper_vma_set_noncached(self.raw());
        }
        // SAFETY: By the type invariant the area is being set up, and its private data are those of
        // the file operation. `close` frees them.
        unsafe {
            (*self.raw()).vm_private_data = shared.into_foreign();
            (*self.raw()).vm_ops = &raw const OPS.0;
        }
        Ok(())
    }
}

/// The private data of areas: one mapping, and its copies.
struct Shared {
    pdev: ARef<pci::Device>,
    memory: Arc<dyn DeviceMemory>,
}

struct Ops(bindings::vm_operations_struct);

// SAFETY: The table is constant: function pointers that are never written.
unsafe impl Sync for Ops {}

static OPS: Ops = Ops(bindings::vm_operations_struct {
    open: Some(open),
    close: Some(close),
    fault: Some(fault),
    may_split: Some(may_split),
    ..pin_init::zeroed()
});

/// Called when the area was moved or copied.
///
/// # Safety
///
/// Only called by the kernel as an operation of an area set up by `map_device`.
unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The private data were copied from an area of `map_device`, which still owns them.
    let shared = unsafe { Arc::<Shared>::borrow((*vma).vm_private_data) };
    let private = Arc::from(shared).into_foreign();
    // SAFETY: The area is new, and not visible to faults before this returns.
    unsafe { (*vma).vm_private_data = private };
}

/// # Safety
///
/// Only called by the kernel as an operation of an area set up by `map_device`.
unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The private data came from `into_foreign()` in `map_device` or `open`, and are owned
    // by this area, for which this is the last operation that is called.
    drop(unsafe { Arc::<Shared>::from_foreign((*vma).vm_private_data) });
}

/// Refuses to split the area: the memory is mapped from its first byte.
///
/// # Safety
///
/// Only called by the kernel as an operation of an area set up by `map_device`.
unsafe extern "C" fn may_split(_vma: *mut bindings::vm_area_struct, _addr: usize) -> c_int {
    EINVAL.to_errno()
}

/// # Safety
///
/// Only called by the kernel as an operation of an area set up by `map_device`.
unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: The kernel passes a valid fault, whose area exists while it is handled.
    let (vma, address) = unsafe {
        let inner = (*vmf).__bindgen_anon_1;
        (inner.vma, inner.address)
    };
    // SAFETY: The area is valid, and does not change: the mmap or VMA lock is held.
    let (private, start) = unsafe {
        (
            (*vma).vm_private_data,
            (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_start,
        )
    };
    // SAFETY: They are an `Arc<Shared>` until `close`, which the mmap or VMA lock keeps from
    // running.
    let shared = unsafe { Arc::<Shared>::borrow(private) };
    let address = address & !(PAGE_SIZE - 1);
    let Ok(phys) = shared.memory.phys() else {
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    };
    let Some(phys) = phys.checked_add((address - start) as u64) else {
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    };
    if !super::pci::bar_contains(&shared.pdev, phys, PAGE_SIZE as u64) {
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    }
    let pfn = phys / PAGE_SIZE as u64;
    // SAFETY: The area is a PFN map without copy-on-write by `map_device`, and the address lies in
    // it. The page is registers or memory of a device, as checked above.
    let done = unsafe { ours::rkfd_helper_vmf_insert(vma, address, pfn as usize, false, true) };
    // A concurrent revocation either zaps the page just inserted, or is detected here.
    if shared.memory.phys().is_err() {
        zap_all();
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    }
    done
}

/// The inode in whose address space all mappings of the character device are.
static INODE: Atomic<*mut bindings::inode> = Atomic::new(core::ptr::null_mut());

/// Calls of [`zap_all`] that are running.
static ZAPS: Atomic<i32> = Atomic::new(0);

/// The file system of that inode.
struct Fs(core::cell::UnsafeCell<bindings::file_system_type>);

// SAFETY: Only passed to `simple_pin_fs()`, which accesses it under locks of the VFS.
unsafe impl Sync for Fs {}

static FS: Fs = Fs(core::cell::UnsafeCell::new(bindings::file_system_type {
    name: kernel::str::as_char_ptr_in_const_context(c"rkfd"),
    init_fs_context: Some(init_fs_context),
    kill_sb: Some(bindings::kill_anon_super),
    // No owner: the pinned mount would prevent the unload. It is released with the inode.
    ..pin_init::zeroed()
}));

/// # Safety
///
/// Only called by the kernel as an operation of [`FS`].
unsafe extern "C" fn init_fs_context(fc: *mut bindings::fs_context) -> c_int {
    const MAGIC: usize = u32::from_be_bytes(*b"rkfd") as usize;
    // SAFETY: The kernel passes a valid context that is being set up.
    if unsafe { ours::init_pseudo(fc, MAGIC) }.is_null() {
        ENOMEM.to_errno()
    } else {
        0
    }
}

/// Owns the inode of all mappings, as long as the character device exists.
///
/// # Invariants
///
/// `mount` holds a pin of [`FS`], and `inode` is an inode of it, one reference to which this object
/// owns. It is [`INODE`] once the object was returned by [`Self::new`].
pub(super) struct MappingInode {
    mount: *mut bindings::vfsmount,
    pins: c_int,
    inode: *mut bindings::inode,
}

// SAFETY: `simple_release_fs()` and `iput()` may be called by any task that can sleep.
unsafe impl Send for MappingInode {}
// SAFETY: There are no methods on shared references.
unsafe impl Sync for MappingInode {}

impl MappingInode {
    /// Creates the inode; `EBUSY` if there is one.
    pub(super) fn new() -> Result<Self> {
        let mut mount = core::ptr::null_mut();
        let mut pins = 0;
        // SAFETY: The file system type is static; mount and count are locals, NULL and 0 at first.
        to_result(unsafe { bindings::simple_pin_fs(FS.0.get(), &mut mount, &mut pins) })?;
        // SAFETY: The mount was pinned above, so its superblock is valid.
        let inode = from_err_ptr(unsafe { bindings::alloc_anon_inode((*mount).mnt_sb) });
        match inode {
            Ok(inode) => {
                // INVARIANT: Both were made above; the drop clears `INODE` only if it is set below.
                let this = Self { mount, pins, inode };
                let free = INODE.cmpxchg(core::ptr::null_mut(), inode, ordering::Full);
                free.map(|_| this).map_err(|_| EBUSY)
            }
            Err(e) => {
                // SAFETY: The mount was pinned above with this count.
                unsafe { bindings::simple_release_fs(&mut mount, &mut pins) };
                Err(e)
            }
        }
    }
}

impl Drop for MappingInode {
    fn drop(&mut self) {
        // Fails if `new` found another inode.
        let _ = INODE.cmpxchg(self.inode, core::ptr::null_mut(), ordering::Full);
        // SAFETY: The variable is static; `zap_all` wakes waiters for its address. Calls that come
        // later read NULL.
        unsafe { ours::rkfd_helper_wait_until_zero(ZAPS.as_ptr()) };
        // SAFETY: By the type invariant both are held. No open file refers to the inode: each
        // holds a reference to the module, which is being unloaded or failed to load.
        unsafe {
            bindings::iput(self.inode);
            bindings::simple_release_fs(&mut self.mount, &mut self.pins);
        }
    }
}

/// Moves the mappings of a file to the inode that [`zap_all`] works on.
///
/// # Safety
///
/// Called while `file` is being opened, between creation and drop of the [`MappingInode`].
pub(super) unsafe fn adopt(file: *mut bindings::file) {
    let inode = INODE.load(ordering::Acquire);
    if !inode.is_null() {
        // SAFETY: The file is being opened, so nobody maps it yet. By the safety requirement the
        // inode outlives the file.
        unsafe { (*file).f_mapping = (*inode).i_mapping };
    }
}

/// Zaps all mappings of the character device. The next access faults and calls
/// [`DeviceMemory::phys`] again.
pub(crate) fn zap_all() {
    ZAPS.fetch_add(1, ordering::Full);
    let inode = INODE.load(ordering::Acquire);
    if !inode.is_null() {
        // SAFETY: The inode was still set after this call was counted: the drop of `MappingInode`
        // waits for it before it puts the inode.
        unsafe { bindings::unmap_mapping_range((*inode).i_mapping, 0, 0, 1) };
    }
    if ZAPS.fetch_sub(1, ordering::Full) == 1 {
        // SAFETY: The variable is static; the function uses its address as a key only.
        unsafe { bindings::wake_up_var(ZAPS.as_ptr().cast()) };
    }
}
