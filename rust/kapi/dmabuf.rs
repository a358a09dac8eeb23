// SPDX-License-Identifier: GPL-2.0

//! DMA buffers: memory of a device as a file, which goes from process to process.
//!
//! Those of this module are GEM objects, see [`super::gem::Object`]. Drivers of other devices cannot
//! attach to them: nothing here would follow when the memory moves.

use core::{mem, ptr::NonNull};

use kernel::{bindings, error::from_err_ptr, prelude::*};

/// A counted reference to a DMA buffer, of whichever driver.
///
/// # Invariants
///
/// The pointer is a DMA buffer, and one reference to it is ours.
pub(crate) struct DmaBuf(NonNull<bindings::dma_buf>);

// SAFETY: DMA buffers are files, which are used from everywhere.
unsafe impl Send for DmaBuf {}
// SAFETY: As above.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// The buffer behind a descriptor of the current process: `EBADF` if there is no such
    /// descriptor, `EINVAL` if it is of another kind.
    pub(crate) fn from_fd(fd: u32) -> Result<Self> {
        // SAFETY: Looks the descriptor up; the reference is handed over.
        unsafe { Self::from_raw(bindings::dma_buf_get(fd as c_int)) }
    }

    /// # Safety
    ///
    /// `raw` is a DMA buffer with a reference that is handed over, or the pointer of an error.
    pub(super) unsafe fn from_raw(raw: *mut bindings::dma_buf) -> Result<Self> {
        // INVARIANT: By the safety requirement.
        Ok(Self(NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?))
    }

    pub(super) fn raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    /// The GEM object that the buffer shows, if it is one of this module's. It lives as long as the
    /// buffer.
    pub(super) fn gem_object(&self) -> Option<NonNull<bindings::drm_gem_object>> {
        // SAFETY: The buffer is valid. Only `adopt` sets these operations, on buffers that show
        // objects.
        unsafe { gem_object(self.raw()) }
    }

    /// Makes the buffer a new descriptor of the current process, with flags as of `open`.
    pub(crate) fn into_fd(self, flags: u32) -> Result<u32> {
        // SAFETY: The buffer is valid; on success our reference becomes the descriptor's.
        let fd = unsafe { bindings::dma_buf_fd(self.raw(), flags as c_int) };
        if fd < 0 {
            return Err(Error::from_errno(fd));
        }
        mem::forget(self);
        Ok(fd as u32)
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::dma_buf_put(self.raw()) }
    }
}

struct Ops(bindings::dma_buf_ops);

// SAFETY: Never written after build time.
unsafe impl Sync for Ops {}

/// The operations of all DMA buffers of this module: the address tells ours from others.
static OPS: Ops = Ops(bindings::dma_buf_ops {
    attach: Some(attach),
    release: Some(bindings::drm_gem_dmabuf_release),
    mmap: Some(bindings::drm_gem_dmabuf_mmap),
    ..pin_init::zeroed()
});

/// # Safety
///
/// Called by the kernel for a buffer of ours and a device of another driver.
unsafe extern "C" fn attach(
    _buf: *mut bindings::dma_buf,
    _attachment: *mut bindings::dma_buf_attachment,
) -> c_int {
    EOPNOTSUPP.to_errno()
}

/// Makes a DMA buffer ours.
///
/// # Safety
///
/// `buf` is new, and shows a GEM object of this module.
pub(super) unsafe fn adopt(buf: *mut bindings::dma_buf) {
    // SAFETY: By the safety requirement nobody uses the buffer yet.
    unsafe { (*buf).ops = &raw const OPS.0 };
}

/// The GEM object that a DMA buffer of this module shows.
///
/// # Safety
///
/// `buf` is a valid DMA buffer.
unsafe fn gem_object(buf: *mut bindings::dma_buf) -> Option<NonNull<bindings::drm_gem_object>> {
    // SAFETY: By the safety requirement. Buffers with these operations have their object as private
    // data.
    unsafe {
        if (*buf).ops != &raw const OPS.0 {
            return None;
        }
        NonNull::new((*buf).priv_.cast())
    }
}

/// Finds the object when a file of a DRM device of this module imports a buffer: one that the same
/// device has exported, no other.
///
/// # Safety
///
/// Called by the DRM core for a device of this module and a valid buffer.
pub(super) unsafe extern "C" fn import(
    dev: *mut bindings::drm_device,
    buf: *mut bindings::dma_buf,
) -> *mut bindings::drm_gem_object {
    // SAFETY: By the safety requirement; the object lives as long as the buffer, and its device is
    // never changed. The core gets a reference of its own.
    unsafe {
        match gem_object(buf) {
            Some(object) if (*object.as_ptr()).dev == dev => {
                crate::bindings::rkfd_helper_drm_gem_object_get(object.as_ptr());
                object.as_ptr()
            }
            _ => EINVAL.to_ptr(),
        }
    }
}
