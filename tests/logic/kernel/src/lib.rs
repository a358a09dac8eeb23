// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The parts of the `kernel` crate that the files of the module in `rkfd_logic` use, on the
//! standard library.
//!
//! Names, signatures and errors are those of the kernel. Allocations fail where a test requests it
//! ([`alloc::failing`]); locks and atomics are those of `loom` within [`model::explore`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// `kernel::fmt`.
pub mod fmt {
    pub use std::fmt::*;
}

/// Makes the arguments of a text.
#[macro_export]
macro_rules! fmt {
    ($($arguments:tt)*) => {
        ::std::format_args!($($arguments)*)
    };
}

/// `kernel::num`.
pub mod num {
    /// `kernel::num::casts`.
    pub mod casts {
        /// Returns a number that fits.
        pub const fn u32_as_usize(value: u32) -> usize {
            value as usize
        }
    }
}

/// `kernel::page`.
pub mod page {
    /// Bits of the offset in a page.
    pub const PAGE_SHIFT: usize = 12;
    /// Bytes of a page.
    pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;
}

/// `kernel::sizes`.
pub mod sizes {
    /// 4 KiB.
    pub const SZ_4K: usize = 4 << 10;
    /// 2 MiB.
    pub const SZ_2M: usize = 2 << 20;
    /// 16 MiB.
    pub const SZ_16M: usize = 16 << 20;
}

pub mod alloc;
pub mod error;
pub mod id_pool;
pub mod init;
pub mod model;
pub mod rbtree;
pub mod sync;
pub mod time;

/// `kernel::prelude`.
pub mod prelude {
    pub use crate::{
        alloc::{flags::*, ArcPinInit, KBox, KVVec, KVec},
        error::{code::*, Error, Result},
        fmt,
        init::PinInit,
        pin_init, try_pin_init,
    };
    pub use rkfd_kernel_macros::pin_data;
    pub use std::pin::Pin;
}
