// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::error`.

use std::convert::Infallible;

use crate::alloc::{AllocError, PushError};

/// An errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error(i32);

/// A result, with an errno unless stated otherwise.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Errnos, as `include/uapi/asm-generic/errno*.h` and `include/linux/errno.h` number them.
pub mod code {
    macro_rules! errnos {
        ($($name:ident = $number:literal: $text:literal,)*) => {$(
            #[doc = $text]
            pub const $name: super::Error = super::Error($number);
        )*};
    }

    errnos! {
        ESRCH = 3: "No such process.",
        EIO = 5: "I/O error.",
        ENXIO = 6: "No such device or address.",
        ENOMEM = 12: "Out of memory.",
        EFAULT = 14: "Bad address.",
        EBUSY = 16: "Device or resource busy.",
        ENODEV = 19: "No such device.",
        EINVAL = 22: "Invalid argument.",
        ENOSPC = 28: "No space left on device.",
        EADDRINUSE = 98: "Address already in use.",
        ERESTARTSYS = 512: "Restart the system call.",
    }
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        code::ENOMEM
    }
}

impl<T> From<PushError<T>> for Error {
    fn from(_: PushError<T>) -> Self {
        code::EINVAL
    }
}

impl From<std::num::TryFromIntError> for Error {
    fn from(_: std::num::TryFromIntError) -> Self {
        code::EINVAL
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
