// SPDX-License-Identifier: GPL-2.0

//! Counts objects that call into the module's code, for the module's exit to wait for.
//!
//! A safe `core::mem::forget` of such an object must not become a call into freed code. Each holds
//! a [`ModuleUse`]; a leaked one makes the exit function wait forever instead.
//!
//! C header: [`include/linux/wait_bit.h`](srctree/include/linux/wait_bit.h)

use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{Atomic, Full},
};

use crate::bindings as ours;

/// Number of [`ModuleUse`] tokens.
static USES: Atomic<i32> = Atomic::new(0);

/// 1 while a [`Barrier`] exists.
static OPEN: Atomic<i32> = Atomic::new(0);

/// A use of the module's code that [`Barrier`] waits for.
///
/// # Invariants
///
/// Counted in [`USES`]; a [`Barrier`] exists as long as the token.
pub(super) struct ModuleUse(());

impl ModuleUse {
    /// Takes a token. `ENODEV` before the [`Barrier`] exists, and from its drop on.
    pub(super) fn new() -> Result<Self> {
        USES.fetch_add(1, Full);
        // INVARIANT: Counted above. Both sides use fully ordered operations: either the drop of the
        // barrier reads the new count, or this function reads `OPEN` as cleared.
        let this = Self(());
        if OPEN.fetch_add(0, Full) == 0 {
            return Err(ENODEV);
        }
        Ok(this)
    }

    /// Gives up the token without ending the use, until [`Self::from_counted`].
    pub(super) fn into_counted(self) {
        core::mem::forget(self);
    }

    /// Reverts [`Self::into_counted`].
    ///
    /// # Safety
    ///
    /// Called once for each [`Self::into_counted`].
    pub(super) unsafe fn from_counted() -> Self {
        // INVARIANT: The count of the token that was given up is taken over.
        Self(())
    }
}

impl Drop for ModuleUse {
    fn drop(&mut self) {
        if USES.fetch_sub(1, Full) == 1 {
            // SAFETY: `USES` is static; the function uses its address as a key only.
            unsafe { bindings::wake_up_var(USES.as_ptr().cast()) };
        }
    }
}

/// Permits [`ModuleUse::new`]. Dropping it waits until no token is left.
///
/// # Invariants
///
/// The only one; [`OPEN`] is 1.
pub(super) struct Barrier(());

impl Barrier {
    /// Creates the barrier; `EBUSY` if there is one.
    pub(super) fn new() -> Result<Self> {
        OPEN.cmpxchg(0, 1, Full).map_err(|_| EBUSY)?;
        // INVARIANT: Set above.
        Ok(Self(()))
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        OPEN.xchg(0, Full);
        // SAFETY: `USES` is static, and `Drop` of the last token wakes waiters for its address.
        unsafe { ours::rkfd_helper_wait_until_zero(USES.as_ptr()) };
        // SAFETY: Sleeping is fine here. A token may be dropped in a callback of SRCU that frees
        // an MMU notifier: this waits until such callbacks have returned.
        unsafe { bindings::mmu_notifier_synchronize() };
        // SAFETY: Sleeping is fine here. A token may be dropped in a function of the module that a
        // work item of the kernel calls, which may be preempted before it returns: this waits until
        // each task has left it.
        unsafe { ours::rkfd_helper_synchronize_rcu_tasks() };
    }
}
