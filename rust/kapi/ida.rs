// SPDX-License-Identifier: GPL-2.0

//! Numbers that are in use once.

use kernel::{bindings, prelude::*, types::Opaque};

/// A set of numbers in use.
#[pin_data(PinnedDrop)]
pub(crate) struct Ida {
    #[pin]
    inner: Opaque<bindings::ida>,
}

// SAFETY: The set has its own lock.
unsafe impl Send for Ida {}
// SAFETY: As above.
unsafe impl Sync for Ida {}

impl Ida {
    /// The empty set.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- Opaque::ffi_init(|slot: *mut bindings::ida| {
                // SAFETY: The slot is valid for writing; zeroed is an empty array without lock debugging
                // state, which `xa_init_flags` completes.
                unsafe {
                    slot.write(pin_init::zeroed());
                    bindings::xa_init_flags(
                        &raw mut (*slot).xa,
                        bindings::XA_FLAGS_ALLOC | IDA_LOCK_IRQ,
                    );
                }
            }),
        })
    }

    /// Takes the lowest free number in `min..=max`; `ENOSPC` when all are taken.
    pub(crate) fn alloc(&self, min: u32, max: u32) -> Result<u32> {
        // SAFETY: Initialized by `new`.
        let id =
            unsafe { bindings::ida_alloc_range(self.inner.get(), min, max, bindings::GFP_KERNEL) };
        kernel::error::to_result(id)?;
        Ok(id as u32)
    }

    /// Gives a number back.
    pub(crate) fn free(&self, id: u32) {
        // SAFETY: Initialized by `new`. A number that is not in use only draws a warning.
        unsafe { bindings::ida_free(self.inner.get(), id) }
    }
}

/// `XA_FLAGS_LOCK_IRQ`, part of `IDA_INIT_FLAGS`.
const IDA_LOCK_IRQ: bindings::gfp_t = bindings::xa_lock_type_XA_LOCK_IRQ;

#[pinned_drop]
impl PinnedDrop for Ida {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialized by `new`, not used any more.
        unsafe { bindings::ida_destroy(self.inner.get()) }
    }
}
