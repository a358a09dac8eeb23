// SPDX-License-Identifier: GPL-2.0

//! Locks in statics that initialize themselves.
//!
//! The caller of `kernel::sync::global_lock!` has to guarantee, by `unsafe`, that `init` runs once,
//! and before the first use. [`Global`] guarantees it: the first use initializes the lock.
//!
//! C header: [`include/linux/mutex.h`](srctree/include/linux/mutex.h)
//!
//! # Examples
//!
//! ```ignore
//! global_mutex! {
//!     /// GPUs that were probed.
//!     GPUS: KVec<Arc<Gpu>> = KVec::new();
//!     init init
//! }
//!
//! init(); // Optional: moves the work out of the first use.
//! GPUS.lock().push(gpu, GFP_KERNEL)?;
//! ```

use kernel::sync::{
    atomic::{Acquire, Atomic, Relaxed, Release},
    lock::{GlobalGuard, GlobalLock, GlobalLockBackend},
};

/// The lock was not used yet.
const UNINIT: i32 = 0;
/// A thread is initializing the lock.
const BUSY: i32 = 1;
/// The lock is initialized.
const READY: i32 = 2;

/// A lock in a static, initialized by its first use.
///
/// # Invariants
///
/// Only this object initializes `lock`, and only it gives access to it. `state` is [`READY`] once
/// `lock` is initialized.
pub(crate) struct Global<B: GlobalLockBackend + 'static> {
    lock: &'static GlobalLock<B>,
    state: Atomic<i32>,
}

impl<B: GlobalLockBackend> Global<B> {
    /// Wraps a lock that is not initialized.
    ///
    /// # Safety
    ///
    /// Nothing else initializes or uses `lock`.
    pub(crate) const unsafe fn new(lock: &'static GlobalLock<B>) -> Self {
        // INVARIANT: By the safety requirement.
        Self {
            lock,
            state: Atomic::new(UNINIT),
        }
    }

    /// Locks, and initializes the lock before if need be.
    pub(crate) fn lock(&'static self) -> GlobalGuard<B> {
        self.init();
        self.lock.lock()
    }

    /// Initializes the lock. Idempotent.
    pub(crate) fn init(&'static self) {
        if self.state.load(Acquire) != READY {
            self.init_slow();
        }
    }

    #[cold]
    fn init_slow(&'static self) {
        if self.state.cmpxchg(UNINIT, BUSY, Relaxed).is_ok() {
            // SAFETY: By the type invariant nobody else calls `init`, and of the callers of this
            // function one at most gets here.
            unsafe { self.lock.init() };
            // INVARIANT: Initialized above.
            self.state.store(READY, Release);
        }
        while self.state.load(Acquire) != READY {
            core::hint::spin_loop();
        }
    }
}

/// Declares a static lock, and a function that initializes it ahead of its first use.
macro_rules! global {
    ($kind:ident, $vis:vis, $(#[$meta:meta])* $name:ident: $ty:ty = $value:expr; $init:ident) => {
        kernel::macros::paste! {
            kernel::sync::global_lock! {
                // SAFETY: Only used through the `Global` below, which initializes it first.
                pub(self) unsafe(uninit) static [<$name _UNINIT>]: $kind<$ty> = $value;
            }

            $(#[$meta])*
            static $name: $crate::kapi::global::Global<[<$name _UNINIT>]> =
                // SAFETY: The lock was made for this object alone.
                unsafe { $crate::kapi::global::Global::new(&[<$name _UNINIT>]) };
        }

        /// Initializes the lock of this file ahead of its first use.
        $vis fn $init() {
            $name.init();
        }
    };
}
pub(crate) use global;

/// Declares a static [`Global`] mutex.
macro_rules! global_mutex {
    ($(#[$meta:meta])* $name:ident: $ty:ty = $value:expr; init $init:ident) => {
        $crate::kapi::global::global! {
            Mutex, pub(crate), $(#[$meta])* $name: $ty = $value; $init
        }
    };
}
pub(crate) use global_mutex;

/// Declares a static [`Global`] spinlock.
macro_rules! global_spinlock {
    ($(#[$meta:meta])* $name:ident: $ty:ty = $value:expr; init $init:ident) => {
        $crate::kapi::global::global! {
            SpinLock, , $(#[$meta])* $name: $ty = $value; $init
        }
    };
}
pub(crate) use global_spinlock;
