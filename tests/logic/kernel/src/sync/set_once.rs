// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::sync::SetOnce`.

use std::sync::OnceLock;

/// A value that is set once.
pub struct SetOnce<T>(OnceLock<T>);

impl<T> SetOnce<T> {
    /// Returns one that is not set.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the value, `None` if it is not set.
    pub fn as_ref(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the value; returns false if it was set.
    pub fn populate(&self, value: T) -> bool {
        self.0.set(value).is_ok()
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}
