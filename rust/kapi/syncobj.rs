// SPDX-License-Identifier: GPL-2.0

//! DRM synchronization objects, and sync files.
//!
//! C headers: [`include/drm/drm_syncobj.h`](srctree/include/drm/drm_syncobj.h),
//! [`include/linux/dma-fence-chain.h`](srctree/include/linux/dma-fence-chain.h),
//! [`include/linux/sync_file.h`](srctree/include/linux/sync_file.h)
//!
//! # Examples
//!
//! ```ignore
//! // Point 7 of a timeline is reached when the job has ended.
//! let timeline = Syncobj::lookup(file, handle).ok_or(ENOENT)?;
//! let link = Link::new()?;
//! let done = job.arm().push();
//! timeline.add_point(link, &done, 7);
//!
//! // Wait for point 5, without blocking for a submission.
//! let fence = syncobj::find_fence(file, handle, 5, 0)?;
//! fence.wait_interruptible(Timeout::from_ms(100))?;
//! ```

use core::{
    mem::MaybeUninit,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::to_result,
    fs::file::{flags, File, FileDescriptorReservation},
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};

use super::{drm, fence::Fence};
use crate::bindings as ours;

const _: () = assert!(size_of::<ours::dma_fence_chain>() == ours::SIZEOF_DMA_FENCE_CHAIN as usize);

/// A synchronization object: a reference to a fence, or to a timeline of them (`struct
/// drm_syncobj`).
///
/// # Invariants
///
/// Initialized.
#[repr(transparent)]
pub(crate) struct Syncobj(Opaque<ours::drm_syncobj>);

// SAFETY: The last reference may be dropped by any task.
unsafe impl Send for Syncobj {}
// SAFETY: All methods call functions that take the lock of the object.
unsafe impl Sync for Syncobj {}

// SAFETY: `drm_syncobj_get/put` are an atomic count that keeps the object allocated.
unsafe impl AlwaysRefCounted for Syncobj {
    fn inc_ref(&self) {
        // SAFETY: A shared reference implies that the count is not zero.
        unsafe { ours::rkfd_helper_drm_syncobj_get(self.raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference, so the count is not zero before.
        unsafe { ours::rkfd_helper_drm_syncobj_put(obj.cast().as_ptr()) }
    }
}

impl Syncobj {
    /// Creates an object with a fence, or with none. `ENOMEM` without memory.
    pub(crate) fn new(fence: Option<&Fence>) -> Result<ARef<Self>> {
        let mut raw = null_mut();
        let fence = fence.map_or(null_mut(), Fence::raw);
        // SAFETY: The fence is NULL or borrowed; the object takes a reference of its own.
        to_result(unsafe { ours::drm_syncobj_create(&mut raw, 0, fence) })?;
        let raw = NonNull::new(raw.cast()).ok_or(ENOMEM)?;
        // SAFETY: The creation leaves one reference, which is handed over.
        Ok(unsafe { ARef::from_raw(raw) })
    }

    /// Returns the object of a handle of a file; `None` if there is none.
    pub(crate) fn lookup<D: drm::Driver>(file: &drm::File<D>, handle: u32) -> Option<ARef<Self>> {
        // SAFETY: The file is open during the borrow; any number may be looked up.
        let raw = unsafe { ours::drm_syncobj_find(file.raw(), handle) };
        // SAFETY: The lookup took a reference, which is handed over.
        NonNull::new(raw.cast()).map(|raw| unsafe { ARef::from_raw(raw) })
    }

    fn raw(&self) -> *mut ours::drm_syncobj {
        self.0.get()
    }

    /// Replaces the fence of the object.
    pub(crate) fn replace(&self, fence: Option<&Fence>) {
        let fence = fence.map_or(null_mut(), Fence::raw);
        // SAFETY: The object is initialized by the type invariant; the fence is NULL or borrowed,
        // and the object takes a reference of its own.
        unsafe { ours::drm_syncobj_replace_fence(self.raw(), fence) }
    }

    /// Adds a point to the timeline that `fence` signals. Points must ascend: the core logs it
    /// (`DRM_DEBUG`) if they do not.
    pub(crate) fn add_point(&self, link: Link, fence: &Fence, point: u64) {
        let link: *mut ours::dma_fence_chain = KBox::into_raw(link.0).cast();
        // SAFETY: Object and fence are valid; the timeline takes a reference to the fence. The
        // link is uninitialized memory of kmalloc, which the function initializes and takes over:
        // it is freed with `kfree_rcu()`.
        unsafe { ours::drm_syncobj_add_point(self.raw(), link, fence.raw(), point) }
    }

    /// Creates a handle of the object in a file. `ENOMEM` without memory.
    pub(crate) fn create_handle<D: drm::Driver>(&self, file: &drm::File<D>) -> Result<u32> {
        let mut handle = 0;
        // SAFETY: The object is initialized and the file open, both during the borrow; the handle
        // takes a reference of its own.
        to_result(unsafe { ours::drm_syncobj_get_handle(file.raw(), self.raw(), &mut handle) })?;
        Ok(handle)
    }

    /// Creates a file descriptor of the object in the current process. `EMFILE` or `ENFILE` if
    /// there is none left.
    pub(crate) fn create_fd(&self) -> Result<i32> {
        let mut fd = -1;
        // SAFETY: The object is initialized; the descriptor takes a reference of its own.
        to_result(unsafe { ours::drm_syncobj_get_fd(self.raw(), &mut fd) })?;
        Ok(fd)
    }
}

/// Returns the fence of a point (0: of the object itself) of the object of a handle of a file.
///
/// `flags` are `DRM_SYNCOBJ_WAIT_FLAGS_*`; with `WAIT_FOR_SUBMIT` it waits for the fence, which
/// callers that hold locks must not do. `ENOENT` without such an object, `EINVAL` without a fence.
pub(crate) fn find_fence<D: drm::Driver>(
    file: &drm::File<D>,
    handle: u32,
    point: u64,
    flags: u64,
) -> Result<ARef<Fence>> {
    let mut fence = null_mut();
    // SAFETY: The file is open during the borrow; the function checks handle, point and flags.
    to_result(unsafe {
        ours::drm_syncobj_find_fence(file.raw(), handle, point, flags, &mut fence)
    })?;
    // SAFETY: On success the result is a reference, which is handed over.
    unsafe { Fence::from_raw_or_null(fence) }.ok_or(EINVAL)
}

/// Memory for a point of a timeline, allocated before the fence exists.
pub(crate) struct Link(KBox<MaybeUninit<ours::dma_fence_chain>>);

// SAFETY: Uninitialized memory, which may be freed by any task.
unsafe impl Send for Link {}
// SAFETY: There are no methods on shared references.
unsafe impl Sync for Link {}

impl Link {
    /// Allocates it. `ENOMEM` without memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL)?))
    }
}

/// Creates a file descriptor of a sync file with `fence` in the current process. `EMFILE` without a
/// free descriptor, `ENOMEM` without memory.
pub(crate) fn sync_file_fd(fence: &Fence) -> Result<i32> {
    let fd = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
    // SAFETY: The fence is borrowed; the sync file takes a reference of its own.
    let raw = unsafe { ours::sync_file_create(fence.raw()) };
    let raw = NonNull::new(raw).ok_or(ENOMEM)?;
    // SAFETY: The sync file is owned by its `struct file`, the only reference to which is handed
    // over. It is in no descriptor table, so that no `fdget_pos()` of it is active.
    let file =
        unsafe { ARef::<File>::from_raw(NonNull::new_unchecked((*raw.as_ptr()).file.cast())) };
    let number = fd.reserved_fd() as i32;
    fd.fd_install(file);
    Ok(number)
}
