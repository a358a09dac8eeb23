// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `pin_init`: initializers. Values are moved on the host, as none of them has its address stored.

use std::convert::Infallible;

/// An initializer of a `T`.
pub trait PinInit<T, E = Infallible> {
    /// Runs it.
    fn build(self) -> Result<T, E>;
}

/// The initializer that a closure is.
pub struct FromFn<F>(pub F);

impl<T, E, F: FnOnce() -> Result<T, E>> PinInit<T, E> for FromFn<F> {
    fn build(self) -> Result<T, E> {
        (self.0)()
    }
}

/// Runs an initializer, for the macros.
pub fn build<T, E>(init: impl PinInit<T, E>) -> Result<T, E> {
    init.build()
}

/// An initializer that cannot fail of a struct, whose fields have values or (`<-`) initializers.
#[macro_export]
macro_rules! pin_init {
    ($name:ident { $($fields:tt)* }) => {
        $crate::init::FromFn(move || {
            Ok::<_, ::core::convert::Infallible>($crate::fields!($name {} $($fields)*))
        })
    };
}

/// As [`pin_init`], for fields whose initializers fail with an errno.
#[macro_export]
macro_rules! try_pin_init {
    ($name:ident { $($fields:tt)* }) => {
        $crate::init::FromFn(move || {
            Ok::<_, $crate::error::Error>($crate::fields!($name {} $($fields)*))
        })
    };
}

/// Turns the fields of an initializer into those of a struct expression.
#[doc(hidden)]
#[macro_export]
macro_rules! fields {
    ($name:ident { $($done:tt)* }) => { $name { $($done)* } };
    ($name:ident { $($done:tt)* } $field:ident <- $init:expr $(, $($rest:tt)*)?) => {
        $crate::fields!($name { $($done)* $field: $crate::init::build($init)?, } $($($rest)*)?)
    };
    ($name:ident { $($done:tt)* } $field:ident: $value:expr $(, $($rest:tt)*)?) => {
        $crate::fields!($name { $($done)* $field: $value, } $($($rest)*)?)
    };
    ($name:ident { $($done:tt)* } $field:ident $(, $($rest:tt)*)?) => {
        $crate::fields!($name { $($done)* $field, } $($($rest)*)?)
    };
}
