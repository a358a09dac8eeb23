// SPDX-License-Identifier: GPL-2.0

//! MMU notifier of an address space: a callback before it is torn down.
//!
//! [`super::hmm`] has the notifiers of ranges.
//!
//! C header: [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h)
//!
//! # Examples
//!
//! ```ignore
//! struct Teardown;
//!
//! #[vtable]
//! impl mmu_notifier::Exit for Teardown {
//!     fn mm_exit(mm_key: usize) {
//!         stop_queues_of(mm_key);
//!     }
//! }
//!
//! // In a system call of the process.
//! let mm = kernel::current!().mm().ok_or(EINVAL)?;
//! let registration = mmu_notifier::Registration::<Teardown>::new(mm)?;
//! ```

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{bindings, error::to_result, mm::MmWithUser, prelude::*, types::Opaque};

use super::module_use::ModuleUse;

/// Operations of a notifier (`struct mmu_notifier_ops`).
#[vtable]
pub(crate) trait Exit: 'static {
    /// Called before the `mm_struct` with this key ([`super::sched_mm::current_mm_key`]) is torn
    /// down: its last thread exits, or is in `execve()`. At most once per registration; may sleep.
    fn mm_exit(mm_key: usize);
}

/// The memory of a notifier.
#[repr(C)]
struct Notifier {
    /// First: `free` casts from it.
    raw: Opaque<bindings::mmu_notifier>,
    // Until the memory is freed the module cannot be unloaded: `OPS` and `free` are part of it.
    _use: ModuleUse,
}

/// A registration of `T` for the `mm_struct` of one process.
///
/// The key of the `mm_struct` is not reused while the registration exists. Dropping it does not
/// wait for a callback that is running.
///
/// # Invariants
///
/// `notifier` is registered with `Self::OPS`, and part of a boxed [`Notifier`] that the kernel owns
/// from [`Drop`] on, until `free`.
pub(crate) struct Registration<T: Exit> {
    notifier: NonNull<bindings::mmu_notifier>,
    _p: PhantomData<T>,
}

// SAFETY: A notifier may be put by any task; no `T` is stored.
unsafe impl<T: Exit> Send for Registration<T> {}
// SAFETY: There are no methods on shared references.
unsafe impl<T: Exit> Sync for Registration<T> {}

impl<T: Exit> Registration<T> {
    const OPS: bindings::mmu_notifier_ops = bindings::mmu_notifier_ops {
        release: Some(Self::release),
        free_notifier: Some(Self::free),
        ..pin_init::zeroed()
    };

    /// Registers for an address space. `ENOMEM` without memory, `EINTR` if a fatal signal is
    /// pending, `ENODEV` when the module is about to exit.
    ///
    /// Takes the mmap lock for writing.
    pub(crate) fn new(mm: &MmWithUser) -> Result<Self> {
        let notifier = KBox::new(
            Notifier {
                raw: Opaque::new(bindings::mmu_notifier {
                    ops: const { &Self::OPS },
                    ..pin_init::zeroed()
                }),
                _use: ModuleUse::new()?,
            },
            GFP_KERNEL,
        )?;
        let raw = NonNull::from(KBox::leak(notifier)).cast::<bindings::mmu_notifier>();
        // SAFETY: The notifier is the first field of heap memory that stays in place until `free`.
        // The mm has users by its type.
        let ret = unsafe { bindings::mmu_notifier_register(raw.as_ptr(), mm.as_raw()) };
        if let Err(e) = to_result(ret) {
            // SAFETY: The registration failed, so the memory is still owned by this function.
            drop(unsafe { KBox::from_raw(raw.cast::<Notifier>().as_ptr()) });
            return Err(e);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            notifier: raw,
            _p: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by the kernel with a registered notifier.
    unsafe extern "C" fn release(
        _notifier: *mut bindings::mmu_notifier,
        mm: *mut bindings::mm_struct,
    ) {
        T::mm_exit(mm as usize);
    }

    /// # Safety
    ///
    /// Called by the kernel, once, with a notifier of this type that nothing uses any more.
    unsafe extern "C" fn free(notifier: *mut bindings::mmu_notifier) {
        // SAFETY: `new` leaked a box of this type, whose first field is the notifier.
        drop(unsafe { KBox::from_raw(notifier.cast::<Notifier>()) });
    }
}

impl<T: Exit> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the notifier is registered, with one user, which is given
        // up here; the kernel calls `free` when no callback runs any more.
        unsafe { bindings::mmu_notifier_put(self.notifier.as_ptr()) }
    }
}

/// Waits until dropped registrations are freed.
pub(crate) fn synchronize() {
    // SAFETY: Waits for a grace period of SRCU, which no callback of this file calls.
    unsafe { bindings::mmu_notifier_synchronize() }
}
