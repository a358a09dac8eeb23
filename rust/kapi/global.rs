// SPDX-License-Identifier: GPL-2.0

//! Locks in statics.

/// Declares a static mutex and the function that makes it usable.
///
/// The module calls that function once, before it registers anything with the kernel, so that no
/// other code of the module runs earlier.
macro_rules! global_mutex {
    ($(#[$meta:meta])* $name:ident: $ty:ty = $value:expr; init $init:ident) => {
        kernel::sync::global_lock! {
            $(#[$meta])*
            // SAFETY: `$init()` runs first thing in the module's init function.
            pub(self) unsafe(uninit) static $name: Mutex<$ty> = $value;
        }

        /// Makes the lock of this file usable; called once, at module load.
        pub(crate) fn $init() {
            // SAFETY: The module calls this exactly once, before the lock is used.
            unsafe { $name.init() };
        }
    };
}
pub(crate) use global_mutex;

/// As [`global_mutex!`], for a spinlock.
macro_rules! global_spinlock {
    ($(#[$meta:meta])* $name:ident: $ty:ty = $value:expr; init $init:ident) => {
        kernel::sync::global_lock! {
            $(#[$meta])*
            // SAFETY: `$init()` runs first thing in the module's init function.
            pub(self) unsafe(uninit) static $name: SpinLock<$ty> = $value;
        }

        /// Makes the lock of this file usable; called once, at module load.
        fn $init() {
            // SAFETY: The module calls this exactly once, before the lock is used.
            unsafe { $name.init() };
        }
    };
}
pub(crate) use global_spinlock;
