// SPDX-License-Identifier: GPL-2.0

//! Device memory in user mappings of a character device.
//!
//! Mappings are filled by page faults, each of which asks whether the memory may still be touched.
//! [`zap_all`] empties all of them; so nobody keeps a way to memory that was taken away.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        Arc,
    },
    types::ForeignOwnable,
};

use crate::bindings as ours;

/// Device memory that user space may map.
pub(crate) trait DeviceMemory: Send + Sync + 'static {
    /// The physical address of the memory; an error when it was taken away. Whoever takes it away calls
    /// [`zap_all`] afterwards.
    fn phys(&self) -> Result<u64>;
}

/// A user mapping that is being made.
///
/// # Invariants
///
/// `vma` is the area that a `mmap` file operation was called with; that call is still running, and the
/// mmap lock is held for writing.
pub(crate) struct NewArea<'a> {
    vma: NonNull<bindings::vm_area_struct>,
    _p: PhantomData<&'a ()>,
}

impl NewArea<'_> {
    /// Wraps the argument of a `mmap` file operation.
    ///
    /// # Safety
    ///
    /// Called from that file operation, and the value does not outlive the call.
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

    /// First user address.
    pub(crate) fn start(&self) -> usize {
        // SAFETY: By the type invariant the area is valid and ours to read.
        unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.vm_start }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: As above.
        let end = unsafe { (*self.raw()).__bindgen_anon_1.__bindgen_anon_1.vm_end };
        end - self.start()
    }

    /// Offset in the file, as given to mmap().
    pub(crate) fn offset(&self) -> u64 {
        // SAFETY: As above.
        let pages = unsafe { (*self.raw()).vm_pgoff };
        pages as u64 * PAGE_SIZE as u64
    }

    /// Shows `memory` in the area, uncached, from its first byte on. A fork does not inherit it.
    ///
    /// `EINVAL` for a private area that could be written: the kernel insists (by `BUG_ON`) that a page
    /// of a device is never put into an area whose writes would have to be copied.
    pub(crate) fn map_device(self, memory: Arc<dyn DeviceMemory>) -> Result {
        // SAFETY: By the type invariant the area is valid and ours to read.
        let flags = unsafe { (*self.raw()).__bindgen_anon_2.vm_flags };
        if flags & (bindings::VM_SHARED | bindings::VM_MAYWRITE) == bindings::VM_MAYWRITE {
            return Err(EINVAL);
        }
        let boxed = KBox::new(Shared { memory }, GFP_KERNEL)?;
        let flags = bindings::VM_IO
            | bindings::VM_PFNMAP
            | bindings::VM_DONTCOPY
            | bindings::VM_DONTEXPAND
            | bindings::VM_NORESERVE
            | bindings::VM_DONTDUMP;
        // SAFETY: By the type invariant flags and protection may be changed.
        unsafe {
            ours::rkfd_helper_vm_flags_set(self.raw(), flags);
            ours::rkfd_helper_vma_set_noncached(self.raw());
        }
        // SAFETY: By the type invariant; `close` takes back what the private data own.
        unsafe {
            (*self.raw()).vm_private_data = boxed.into_foreign();
            (*self.raw()).vm_ops = &raw const OPS.0;
        }
        Ok(())
    }
}

/// What the private data of an area point to.
struct Shared {
    memory: Arc<dyn DeviceMemory>,
}

struct Ops(bindings::vm_operations_struct);

// SAFETY: Never written after build time.
unsafe impl Sync for Ops {}

static OPS: Ops = Ops(bindings::vm_operations_struct {
    open: Some(open),
    close: Some(close),
    fault: Some(fault),
    may_split: Some(may_split),
    ..pin_init::zeroed()
});

/// The area was moved or copied.
///
/// # Safety
///
/// Only called by the kernel as an operation of an area set up by `map_device`.
unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The private data are those of the area that this one was copied from.
    let shared = unsafe { &*(*vma).vm_private_data.cast::<Shared>() };
    let copy = KBox::new(
        Shared {
            memory: shared.memory.clone(),
        },
        GFP_KERNEL,
    );
    // Without memory the copy has none to show: its faults fail.
    let private = copy.map_or(core::ptr::null_mut(), |b| b.into_foreign().cast());
    // SAFETY: The area is new and its private data are ours to set.
    unsafe { (*vma).vm_private_data = private };
}

/// # Safety
///
/// As for [`open`].
unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The area goes away; the private data are not used after this.
    let private = unsafe { (*vma).vm_private_data };
    if !private.is_null() {
        // SAFETY: They came from `into_foreign()` of this type, in `map_device` or `open`.
        drop(unsafe { KBox::<Shared>::from_foreign(private.cast()) });
    }
}

/// The memory is shown from its first byte, so an area cannot be cut.
///
/// # Safety
///
/// As for [`open`].
unsafe extern "C" fn may_split(_vma: *mut bindings::vm_area_struct, _addr: usize) -> c_int {
    EINVAL.to_errno()
}

/// # Safety
///
/// As for [`open`].
unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: The kernel passes a valid fault whose area exists while it is handled.
    let (vma, address) = unsafe {
        let inner = (*vmf).__bindgen_anon_1;
        (inner.vma, inner.address)
    };
    // SAFETY: As above.
    let (private, start) = unsafe {
        (
            (*vma).vm_private_data,
            (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_start,
        )
    };
    if private.is_null() {
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    }
    // SAFETY: They point to a `Shared` until `close`, which waits for faults by the mmap or VMA lock.
    let shared = unsafe { &*private.cast::<Shared>() };
    let address = address & !(PAGE_SIZE - 1);
    let Ok(phys) = shared.memory.phys() else {
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    };
    let pfn = (phys + (address - start) as u64) / PAGE_SIZE as u64;
    // SAFETY: The area is a PFN map by `map_device`, and the address lies in it.
    let done = unsafe { ours::rkfd_helper_vmf_insert(vma, address, pfn as usize, false) };
    // Whoever takes the memory away either sees the page just inserted, or is seen here.
    if shared.memory.phys().is_err() {
        zap_all();
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    }
    done
}

/// The inode whose address space all mappings of the character device belong to.
static INODE: Atomic<*mut bindings::inode> = Atomic::new(core::ptr::null_mut());

/// The file system of that inode.
struct Fs(core::cell::UnsafeCell<bindings::file_system_type>);

// SAFETY: Only the kernel's own functions touch it, under their locks.
unsafe impl Sync for Fs {}

static FS: Fs = Fs(core::cell::UnsafeCell::new(bindings::file_system_type {
    name: kernel::str::as_char_ptr_in_const_context(c"rkfd"),
    init_fs_context: Some(init_fs_context),
    kill_sb: Some(bindings::kill_anon_super),
    // No owner: the pinned mount would keep the module from being unloaded. It goes with the inode.
    ..pin_init::zeroed()
}));

/// # Safety
///
/// Only called by the kernel as an operation of [`FS`].
unsafe extern "C" fn init_fs_context(fc: *mut bindings::fs_context) -> c_int {
    const MAGIC: usize = u32::from_be_bytes(*b"rkfd") as usize;
    // SAFETY: `fc` is valid and being set up.
    if unsafe { ours::init_pseudo(fc, MAGIC) }.is_null() {
        ENOMEM.to_errno()
    } else {
        0
    }
}

/// Owner of the inode behind all mappings; one exists while the character device does.
///
/// # Invariants
///
/// `mount` holds a pin of [`FS`], and [`INODE`] a reference to an inode of it.
pub(super) struct MappingInode {
    mount: *mut bindings::vfsmount,
    pins: c_int,
}

// SAFETY: The pin may be released by any task.
unsafe impl Send for MappingInode {}
// SAFETY: There are no methods on shared references.
unsafe impl Sync for MappingInode {}

impl MappingInode {
    /// Makes the inode; `EBUSY` if there is one.
    pub(super) fn new() -> Result<Self> {
        if !INODE.load(ordering::Relaxed).is_null() {
            return Err(EBUSY);
        }
        let mut mount = core::ptr::null_mut();
        let mut pins = 0;
        // SAFETY: The file system type is static.
        to_result(unsafe { bindings::simple_pin_fs(FS.0.get(), &mut mount, &mut pins) })?;
        // SAFETY: The mount is pinned.
        let inode = from_err_ptr(unsafe { bindings::alloc_anon_inode((*mount).mnt_sb) });
        match inode {
            Ok(inode) => {
                INODE.store(inode, ordering::Release);
                // INVARIANT: Both were made above.
                Ok(Self { mount, pins })
            }
            Err(e) => {
                // SAFETY: Pinned above.
                unsafe { bindings::simple_release_fs(&mut mount, &mut pins) };
                Err(e)
            }
        }
    }
}

impl Drop for MappingInode {
    fn drop(&mut self) {
        let inode = INODE.xchg(core::ptr::null_mut(), ordering::Full);
        // SAFETY: By the type invariant both are held; no file is open any more that uses them,
        // because each holds a reference to the module.
        unsafe {
            bindings::iput(inode);
            bindings::simple_release_fs(&mut self.mount, &mut self.pins);
        }
    }
}

/// Lets the mappings of an open file count among those that [`zap_all`] empties.
///
/// # Safety
///
/// Called while `file` is being opened, between creation and drop of the [`MappingInode`].
pub(super) unsafe fn adopt(file: *mut bindings::file) {
    let inode = INODE.load(ordering::Acquire);
    if !inode.is_null() {
        // SAFETY: The file is not visible to others yet; the inode lives while files are open.
        unsafe { (*file).f_mapping = (*inode).i_mapping };
    }
}

/// Empties all mappings of the character device. The next access faults and asks the memory again.
pub(crate) fn zap_all() {
    let inode = INODE.load(ordering::Acquire);
    if !inode.is_null() {
        // SAFETY: The inode lives as long as the character device, which outlives all drivers' devices.
        unsafe { bindings::unmap_mapping_range((*inode).i_mapping, 0, 0, 1) };
    }
}
