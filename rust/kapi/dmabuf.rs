// SPDX-License-Identifier: GPL-2.0

//! DMA buffers: memory of a device as a file that processes share.
//!
//! Those of this module are GEM objects, see [`super::gem::Object`]. Drivers of other devices
//! cannot attach to them: their mappings would not be updated when the memory moves.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)
//!
//! # Examples
//!
//! ```ignore
//! let fd = handle.export(true)?.into_fd(O_CLOEXEC)?;
//!
//! let buf = DmaBuf::from_fd(fd)?;
//! let object = gem::Object::<Buffer>::of_dma_buf(&buf).ok_or(EINVAL)?;
//! ```

use core::{mem, ptr::NonNull};

use kernel::{bindings, error::from_err_ptr, prelude::*};

/// A counted reference to a DMA buffer of any driver.
///
/// # Invariants
///
/// The pointer is a DMA buffer, one reference to which this object owns.
pub(crate) struct DmaBuf(NonNull<bindings::dma_buf>);

// SAFETY: The reference may be dropped by any task.
unsafe impl Send for DmaBuf {}
// SAFETY: Shared references only read members that are constant after the export.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Returns the buffer of a descriptor of the current process: `EBADF` if there is no such
    /// descriptor, `EINVAL` if its file is not a DMA buffer.
    pub(crate) fn from_fd(fd: u32) -> Result<Self> {
        // SAFETY: Any number may be looked up; the result is an error, or a reference that is
        // handed over.
        unsafe { Self::from_raw(bindings::dma_buf_get(fd as c_int)) }
    }

    /// Takes over a reference, or returns the error.
    ///
    /// # Safety
    ///
    /// `raw` is a DMA buffer with a reference that is handed over, or an error pointer.
    pub(super) unsafe fn from_raw(raw: *mut bindings::dma_buf) -> Result<Self> {
        // INVARIANT: By the safety requirement.
        Ok(Self(NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?))
    }

    pub(super) fn raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    /// Returns the GEM object of the buffer if it is one of this module. It lives as long as the
    /// buffer.
    pub(super) fn gem_object(&self) -> Option<NonNull<bindings::drm_gem_object>> {
        // SAFETY: The buffer is valid by the type invariant.
        unsafe { gem_object(self.raw()) }
    }

    /// Creates a descriptor of the buffer in the current process; `flags` as of `open()`. `EMFILE`
    /// without a free one.
    pub(crate) fn into_fd(self, flags: u32) -> Result<u32> {
        // SAFETY: The buffer is valid by the type invariant; on success the descriptor owns the
        // reference, which is forgotten below.
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
        // SAFETY: By the type invariant one reference is owned, which is given up here.
        unsafe { bindings::dma_buf_put(self.raw()) }
    }
}

struct Ops(bindings::dma_buf_ops);

// SAFETY: The table is constant: function pointers that are never written.
unsafe impl Sync for Ops {}

/// Operations of all DMA buffers of this module: their address identifies them.
static OPS: Ops = Ops(bindings::dma_buf_ops {
    attach: Some(attach),
    release: Some(bindings::drm_gem_dmabuf_release),
    mmap: Some(bindings::drm_gem_dmabuf_mmap),
    ..pin_init::zeroed()
});

/// Refuses the attachment of a device.
///
/// # Safety
///
/// No requirements.
unsafe extern "C" fn attach(
    _buf: *mut bindings::dma_buf,
    _attachment: *mut bindings::dma_buf_attachment,
) -> c_int {
    EOPNOTSUPP.to_errno()
}

/// Gives a DMA buffer the operations of this module.
///
/// # Safety
///
/// `buf` is new, and of a GEM object of this module.
pub(super) unsafe fn adopt(buf: *mut bindings::dma_buf) {
    // SAFETY: The buffer is new, so nobody else accesses the member.
    unsafe { (*buf).ops = &raw const OPS.0 };
}

/// Returns the GEM object of a DMA buffer of this module; `None` for others.
///
/// # Safety
///
/// `buf` is a valid DMA buffer.
unsafe fn gem_object(buf: *mut bindings::dma_buf) -> Option<NonNull<bindings::drm_gem_object>> {
    // SAFETY: The buffer is valid by the safety requirement. Only `adopt` sets these operations,
    // for buffers of GEM objects, whose private data is the object (`drm_gem_prime_export()`).
    unsafe {
        if (*buf).ops != &raw const OPS.0 {
            return None;
        }
        NonNull::new((*buf).priv_.cast())
    }
}

/// Imports a buffer into a DRM device of this module (`drm_driver.gem_prime_import`): `EINVAL`
/// unless it is one that the same device exported.
///
/// # Safety
///
/// Called by the DRM core for a device of this module and a valid buffer.
pub(super) unsafe extern "C" fn import(
    dev: *mut bindings::drm_device,
    buf: *mut bindings::dma_buf,
) -> *mut bindings::drm_gem_object {
    // SAFETY: The buffer is valid by the safety requirement. The object lives as long as the
    // buffer; its device does not change. The core takes over the reference that is taken here.
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
