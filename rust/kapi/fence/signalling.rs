// SPDX-License-Identifier: GPL-2.0

//! Annotation of code that fences wait for.
//!
//! C header: [`include/linux/dma-fence.h`](srctree/include/linux/dma-fence.h)
//!
//! # Examples
//!
//! ```ignore
//! let _signalling = Signalling::new();
//! self.state.lock().complete_jobs();
//! ```

use core::marker::PhantomData;

use crate::bindings as ours;

/// A section on the way to the completion of fences.
///
/// With lockdep a report if it allocates memory that may have to wait for reclaim, or takes a lock
/// under which others wait for fences. Nothing without.
pub(crate) struct Signalling {
    cookie: bool,
    /// A section is that of its task.
    _not_send: PhantomData<*mut ()>,
}

impl Signalling {
    /// Begins a section, which ends when the result is dropped. Sections may be nested.
    pub(crate) fn new() -> Self {
        Self {
            // SAFETY: May be called in any context.
            cookie: unsafe { ours::rkfd_helper_dma_fence_begin_signalling() },
            _not_send: PhantomData,
        }
    }
}

impl Drop for Signalling {
    fn drop(&mut self) {
        // SAFETY: `cookie` is the result of the begin, in the same task as the type is not `Send`.
        unsafe { ours::rkfd_helper_dma_fence_end_signalling(self.cookie) };
    }
}
