// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::alloc`: memory whose allocation may fail.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use crate::{error::Error, init::PinInit, sync};

/// An allocation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocError;

/// A vector has no room for the value.
#[derive(PartialEq, Eq, Debug)]
pub struct PushError<T>(pub T);

/// A vector has no such element.
#[derive(PartialEq, Eq, Debug)]
pub struct RemoveError;

/// Flags of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(u32);

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// `kernel::alloc::flags`.
pub mod flags {
    use super::Flags;

    /// May sleep.
    pub const GFP_KERNEL: Flags = Flags(1);
    /// Does not sleep.
    pub const GFP_ATOMIC: Flags = Flags(2);
    /// Logs nothing when it fails.
    pub const __GFP_NOWARN: Flags = Flags(4);
}

thread_local! {
    /// Allocations that succeed before one fails.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether all after it fail, too.
    static ALL: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<u64> = const { Cell::new(0) };
}

/// Whether allocation `n` only, or it and all later ones fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fail {
    /// That one.
    Once(u64),
    /// From that one on.
    From(u64),
}

/// Runs `f` with failing allocations of this thread, counted from 0. Returns its result, and
/// whether any has failed.
pub fn failing<T>(which: Fail, f: impl FnOnce() -> T) -> (T, bool) {
    let (n, all) = match which {
        Fail::Once(n) => (n, false),
        Fail::From(n) => (n, true),
    };
    let outer = (LEFT.replace(Some(n)), ALL.replace(all), FAILED.replace(0));
    let result = f();
    LEFT.set(outer.0);
    ALL.set(outer.1);
    (result, FAILED.replace(outer.2) > 0)
}

/// An allocation that fails if the test requests it. Panics if it may sleep in a spinlock.
pub fn allocate(flags: Flags) -> Result<(), AllocError> {
    let sleeps = flags.0 & flags::GFP_KERNEL.0 != 0;
    assert!(
        !sleeps || !sync::is_atomic(),
        "GFP_KERNEL while a spinlock is held"
    );
    match LEFT.get() {
        None => Ok(()),
        Some(0) => {
            FAILED.set(FAILED.get() + 1);
            if !ALL.get() {
                LEFT.set(None);
            }
            Err(AllocError)
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            Ok(())
        }
    }
}

/// A vector that grows as the kernel's: to twice its capacity, or to what is required.
#[derive(Debug)]
pub struct KVec<T> {
    items: Vec<T>,
    /// The capacity that was requested; that of `items` may be larger.
    capacity: usize,
}

/// A vector in `vmalloc()` memory: the same on the host.
pub type KVVec<T> = KVec<T>;

impl<T> KVec<T> {
    /// Returns an empty vector.
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            capacity: 0,
        }
    }

    /// Returns an empty vector for `capacity` elements.
    pub fn with_capacity(capacity: usize, flags: Flags) -> Result<Self, AllocError> {
        let mut vec = Self::new();
        vec.reserve(capacity, flags)?;
        Ok(vec)
    }

    /// Returns `n` copies of a value.
    pub fn from_elem(value: T, n: usize, flags: Flags) -> Result<Self, AllocError>
    where
        T: Clone,
    {
        let mut vec = Self::with_capacity(n, flags)?;
        vec.items.resize(n, value);
        Ok(vec)
    }

    /// Returns `n` values of zero.
    pub fn zeroed(n: usize, flags: Flags) -> Result<Self, AllocError>
    where
        T: Zeroable,
    {
        let mut vec = Self::with_capacity(n, flags)?;
        vec.items.resize_with(n, T::zeroed);
        Ok(vec)
    }

    /// Returns the elements that fit without an allocation.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `additional` elements more.
    pub fn reserve(&mut self, additional: usize, flags: Flags) -> Result<(), AllocError> {
        let len = self.items.len();
        if self.capacity - len >= additional {
            return Ok(());
        }
        allocate(flags)?;
        self.capacity = (self.capacity * 2).max(len + additional);
        self.items.reserve_exact(self.capacity - len);
        Ok(())
    }

    /// Appends a value.
    pub fn push(&mut self, value: T, flags: Flags) -> Result<(), AllocError> {
        self.reserve(1, flags)?;
        self.items.push(value);
        Ok(())
    }

    /// Appends a value if there is room.
    pub fn push_within_capacity(&mut self, value: T) -> Result<(), PushError<T>> {
        if self.items.len() == self.capacity {
            return Err(PushError(value));
        }
        self.items.push(value);
        Ok(())
    }

    /// Makes the length `n`, with copies of a value behind the others.
    pub fn resize(&mut self, n: usize, value: T, flags: Flags) -> Result<(), AllocError>
    where
        T: Clone,
    {
        self.reserve(n.saturating_sub(self.items.len()), flags)?;
        self.items.resize(n, value);
        Ok(())
    }

    /// Removes the last value.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop()
    }

    /// Removes a value.
    pub fn remove(&mut self, at: usize) -> Result<T, RemoveError> {
        if at >= self.items.len() {
            return Err(RemoveError);
        }
        Ok(self.items.remove(at))
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Keeps the values that `f` accepts.
    pub fn retain(&mut self, f: impl FnMut(&mut T) -> bool) {
        self.items.retain_mut(f);
    }
}

impl<T> Default for KVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for KVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for KVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<T> IntoIterator for KVec<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a KVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut KVec<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

/// A value whose bytes may all be zero.
pub trait Zeroable {
    /// Returns it.
    fn zeroed() -> Self;
}

impl Zeroable for u8 {
    fn zeroed() -> Self {
        0
    }
}

impl Zeroable for u64 {
    fn zeroed() -> Self {
        0
    }
}

impl<T> Zeroable for Option<KBox<T>> {
    fn zeroed() -> Self {
        None
    }
}

impl<T: Zeroable, const N: usize> Zeroable for [T; N] {
    fn zeroed() -> Self {
        std::array::from_fn(|_| T::zeroed())
    }
}

/// Memory of one value.
#[derive(Debug)]
pub struct KBox<T: ?Sized>(Box<T>);

impl<T> KBox<T> {
    /// Allocates a value.
    pub fn new(value: T, flags: Flags) -> Result<Self, AllocError> {
        allocate(flags)?;
        Ok(Self(Box::new(value)))
    }

    /// Allocates a value of zero.
    pub fn zeroed(flags: Flags) -> Result<Self, AllocError>
    where
        T: Zeroable,
    {
        Self::new(T::zeroed(), flags)
    }
}

impl<T: ?Sized> From<Box<T>> for KBox<T> {
    fn from(value: Box<T>) -> Self {
        Self(value)
    }
}

impl<T: ?Sized> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for KBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Functions of the kernel's `Arc` that that of the standard library has not.
pub trait ArcPinInit<T> {
    /// Allocates and initializes a value.
    fn pin_init<E>(init: impl PinInit<T, E>, flags: Flags) -> Result<Arc<T>, Error>
    where
        Error: From<E>;
}

impl<T> ArcPinInit<T> for Arc<T> {
    fn pin_init<E>(init: impl PinInit<T, E>, flags: Flags) -> Result<Arc<T>, Error>
    where
        Error: From<E>,
    {
        allocate(flags)?;
        Ok(Arc::new(init.build()?))
    }
}
