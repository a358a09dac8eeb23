// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::sync::aref`.

use std::{ops::Deref, sync::Arc};

/// A reference to a value that counts its references.
pub struct ARef<T>(Arc<T>);

impl<T> ARef<T> {
    /// Returns the number of references to the object.
    pub fn references(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl<T> From<T> for ARef<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for ARef<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for ARef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
