// SPDX-License-Identifier: GPL-2.0

//! To be told when the memory of a process goes away.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{bindings, error::to_result, prelude::*, types::Opaque};

/// Who is told.
pub(crate) trait Exit: 'static {
    /// The memory with this key (see [`super::task::current_mm_key`]) is about to be torn down: its last
    /// thread has exited or is in execve(). Called at most once a registration; may sleep.
    fn mm_exit(mm_key: usize);
}

/// Subscribes `T` to the end of one process's memory.
///
/// The key of the memory stays in use while this exists. Dropping it ends the subscription; a call that
/// runs at that time runs on.
///
/// # Invariants
///
/// `notifier` is registered with `Self::OPS`, and owned by the kernel after [`Drop`], until `free`.
pub(crate) struct Registration<T: Exit> {
    notifier: NonNull<bindings::mmu_notifier>,
    _p: PhantomData<T>,
}

// SAFETY: A subscription can be ended by any task.
unsafe impl<T: Exit> Send for Registration<T> {}
// SAFETY: There are no methods on shared references.
unsafe impl<T: Exit> Sync for Registration<T> {}

impl<T: Exit> Registration<T> {
    const OPS: bindings::mmu_notifier_ops = bindings::mmu_notifier_ops {
        release: Some(Self::release),
        free_notifier: Some(Self::free),
        ..pin_init::zeroed()
    };

    /// Subscribes to the current process's memory; `EINVAL` for a kernel thread.
    ///
    /// Takes the mmap lock for writing.
    pub(crate) fn new() -> Result<Self> {
        let current = kernel::current!();
        let mm = current.mm().ok_or(EINVAL)?;
        let notifier = KBox::new(
            Opaque::new(bindings::mmu_notifier {
                ops: const { &Self::OPS },
                ..pin_init::zeroed()
            }),
            GFP_KERNEL,
        )?;
        let raw = KBox::into_raw(notifier);
        // SAFETY: The notifier is on the heap and stays there until `free`; the mm has users: it is
        // that of the current task.
        let result = to_result(unsafe {
            bindings::mmu_notifier_register(Opaque::cast_into(raw), mm.as_raw())
        });
        if let Err(e) = result {
            // SAFETY: Not registered, so it is still ours.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(e);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            notifier: NonNull::new(Opaque::cast_into(raw)).ok_or(ENOMEM)?,
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
    /// Called by the kernel with a notifier that nobody uses any more.
    unsafe extern "C" fn free(notifier: *mut bindings::mmu_notifier) {
        // SAFETY: It came from `KBox::into_raw` in `new`.
        drop(unsafe { KBox::from_raw(notifier.cast::<Opaque<bindings::mmu_notifier>>()) });
    }
}

impl<T: Exit> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is registered, with one user; the kernel frees it through
        // `free` when no callback runs any more.
        unsafe { bindings::mmu_notifier_put(self.notifier.as_ptr()) }
    }
}

/// Waits until all dropped registrations are freed. To be called before the module's code goes away.
pub(crate) fn synchronize() {
    // SAFETY: Waits only.
    unsafe { bindings::mmu_notifier_synchronize() }
}
