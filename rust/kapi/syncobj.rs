// SPDX-License-Identifier: GPL-2.0

//! Synchronization objects and files: how user space passes fences around.

use core::{mem::MaybeUninit, ptr::NonNull};

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

/// A synchronization object: holds a fence, or a chain of them with ascending points.
///
/// # Invariants
///
/// An initialized synchronization object.
#[repr(transparent)]
pub(crate) struct Syncobj(Opaque<ours::drm_syncobj>);

// SAFETY: Synchronization objects are made to be shared.
unsafe impl Send for Syncobj {}
// SAFETY: As above.
unsafe impl Sync for Syncobj {}

// SAFETY: The count is that of `drm_syncobj_get/put`.
unsafe impl AlwaysRefCounted for Syncobj {
    fn inc_ref(&self) {
        // SAFETY: The object is valid by the type invariant.
        unsafe { ours::rkfd_helper_drm_syncobj_get(self.raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { ours::rkfd_helper_drm_syncobj_put(obj.cast().as_ptr()) }
    }
}

impl Syncobj {
    /// A new one, with a fence or none.
    pub(crate) fn new(fence: Option<&Fence>) -> Result<ARef<Self>> {
        let mut raw = core::ptr::null_mut();
        let fence = fence.map_or(core::ptr::null_mut(), Fence::raw);
        // SAFETY: The fence is valid or NULL.
        to_result(unsafe { ours::drm_syncobj_create(&mut raw, 0, fence) })?;
        let raw = NonNull::new(raw.cast()).ok_or(ENOMEM)?;
        // SAFETY: The reference of its birth is handed over.
        Ok(unsafe { ARef::from_raw(raw) })
    }

    /// The object behind a handle of a file.
    pub(crate) fn lookup<D: drm::Driver>(file: &drm::File<D>, handle: u32) -> Option<ARef<Self>> {
        // SAFETY: The file is valid.
        let raw = unsafe { ours::drm_syncobj_find(file.raw(), handle) };
        // SAFETY: The reference of the lookup is handed over.
        NonNull::new(raw.cast()).map(|raw| unsafe { ARef::from_raw(raw) })
    }

    fn raw(&self) -> *mut ours::drm_syncobj {
        self.0.get()
    }

    /// Makes it hold this fence, or none.
    pub(crate) fn replace(&self, fence: Option<&Fence>) {
        let fence = fence.map_or(core::ptr::null_mut(), Fence::raw);
        // SAFETY: Object and fence are valid; the object takes a reference of its own.
        unsafe { ours::drm_syncobj_replace_fence(self.raw(), fence) }
    }

    /// Adds a point to its time line, which `fence` reaches.
    pub(crate) fn add_point(&self, link: Link, fence: &Fence, point: u64) {
        let link: *mut ours::dma_fence_chain = KBox::into_raw(link.0).cast();
        // SAFETY: Object and fence are valid. The link is memory of the allocator that `dma_fence_free` gives it
        // back to, and is handed over.
        unsafe { ours::drm_syncobj_add_point(self.raw(), link, fence.raw(), point) }
    }

    /// Gives a file a handle of the object.
    pub(crate) fn create_handle<D: drm::Driver>(&self, file: &drm::File<D>) -> Result<u32> {
        let mut handle = 0;
        // SAFETY: File and object are valid.
        to_result(unsafe { ours::drm_syncobj_get_handle(file.raw(), self.raw(), &mut handle) })?;
        Ok(handle)
    }

    /// Gives this process a file descriptor of the object.
    pub(crate) fn create_fd(&self) -> Result<i32> {
        let mut fd = -1;
        // SAFETY: The object is valid.
        to_result(unsafe { ours::drm_syncobj_get_fd(self.raw(), &mut fd) })?;
        Ok(fd)
    }
}

/// The fence of a point (0: the whole) of the object behind a handle of a file. `flags` are those of
/// `DRM_SYNCOBJ_WAIT_FLAGS`: with `WAIT_FOR_SUBMIT` it waits until there is one, which is only for callers without
/// locks.
pub(crate) fn find_fence<D: drm::Driver>(
    file: &drm::File<D>,
    handle: u32,
    point: u64,
    flags: u64,
) -> Result<ARef<Fence>> {
    let mut fence = core::ptr::null_mut();
    // SAFETY: The file is valid.
    to_result(unsafe {
        ours::drm_syncobj_find_fence(file.raw(), handle, point, flags, &mut fence)
    })?;
    // SAFETY: The reference is handed over.
    unsafe { Fence::from_raw_or_null(fence) }.ok_or(EINVAL)
}

/// Memory for a point of a time line, for those who must not fail when they add it.
pub(crate) struct Link(KBox<MaybeUninit<ours::dma_fence_chain>>);

// SAFETY: Memory, nothing else.
unsafe impl Send for Link {}
// SAFETY: As above.
unsafe impl Sync for Link {}

impl Link {
    /// Allocates it.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL)?))
    }
}

/// Gives this process a file descriptor of a synchronization file with the fence.
pub(crate) fn sync_file_fd(fence: &Fence) -> Result<i32> {
    let fd = FileDescriptorReservation::get_unused_fd_flags(flags::O_CLOEXEC)?;
    // SAFETY: The fence is valid; the file takes a reference of its own.
    let raw = unsafe { ours::sync_file_create(fence.raw()) };
    let raw = NonNull::new(raw).ok_or(ENOMEM)?;
    // SAFETY: A new sync file, which goes with its file: the reference to that is ours. Nobody else knows it, so
    // nobody is using its position.
    let file =
        unsafe { ARef::<File>::from_raw(NonNull::new_unchecked((*raw.as_ptr()).file.cast())) };
    let number = fd.reserved_fd() as i32;
    fd.fd_install(file);
    Ok(number)
}
