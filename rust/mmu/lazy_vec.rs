// SPDX-License-Identifier: GPL-2.0

//! A vector that costs nothing while it is empty: even the drop of an empty [`KVVec`] calls the
//! allocator.

use core::{
    iter::Flatten,
    ops::{Deref, DerefMut},
    option,
};

use kernel::{
    alloc::{AllocError, Flags},
    prelude::*,
};

/// A [`KVVec`] that exists from the first reservation on. The methods are those of [`KVVec`].
pub(super) struct LazyVec<T>(Option<KVVec<T>>);

impl<T> LazyVec<T> {
    /// Returns an empty vector.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    fn vec(&mut self) -> &mut KVVec<T> {
        self.0.get_or_insert_with(KVVec::new)
    }

    pub(super) fn reserve(&mut self, more: usize, flags: Flags) -> Result<(), AllocError> {
        self.vec().reserve(more, flags)
    }

    pub(super) fn push(&mut self, value: T, flags: Flags) -> Result<(), AllocError> {
        self.vec().push(value, flags)
    }

    pub(super) fn push_within_capacity(&mut self, value: T) -> Result {
        Ok(self.0.as_mut().ok_or(ENOMEM)?.push_within_capacity(value)?)
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.0.as_mut()?.pop()
    }

    pub(super) fn clear(&mut self) {
        if let Some(all) = &mut self.0 {
            all.clear();
        }
    }

    pub(super) fn retain(&mut self, f: impl FnMut(&mut T) -> bool) {
        if let Some(all) = &mut self.0 {
            all.retain(f);
        }
    }
}

impl<T> Default for LazyVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<KVVec<T>> for LazyVec<T> {
    fn from(all: KVVec<T>) -> Self {
        Self(Some(all))
    }
}

impl<T> Deref for LazyVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> DerefMut for LazyVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl<T> IntoIterator for LazyVec<T> {
    type Item = T;
    type IntoIter = Flatten<option::IntoIter<KVVec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}
