// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::sync::atomic`.

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering as StdOrdering},
};

use loom::sync::atomic::AtomicU64 as ModelU64;

use crate::model;

/// A type with atomic accesses.
pub trait AtomicType: Copy {
    /// Returns it as a word.
    fn into_word(self) -> u64;
    /// Returns it from a word.
    fn from_word(word: u64) -> Self;
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        impl AtomicType for $name {
            fn into_word(self) -> u64 {
                self.into()
            }

            fn from_word(word: u64) -> Self {
                // The low bits: arithmetic wraps in them.
                word as $name
            }
        }
    )*};
}

integers! { u32 u64 }

impl AtomicType for bool {
    fn into_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Self {
        word != 0
    }
}

/// Order of an access.
pub trait Ordering {
    /// For the standard library.
    const OF: StdOrdering;
}

macro_rules! orderings {
    ($($name:ident)*) => {$(
        #[doc = concat!(stringify!($name), ".")]
        pub struct $name;

        impl Ordering for $name {
            const OF: StdOrdering = StdOrdering::$name;
        }
    )*};
}

orderings! { Relaxed Acquire Release }

enum Word {
    Std(AtomicU64),
    Model(ModelU64),
}

macro_rules! access {
    ($self:ident, $word:ident => $do:expr) => {
        match &$self.word {
            Word::Std($word) => $do,
            Word::Model($word) => $do,
        }
    };
}

/// A value with atomic accesses.
pub struct Atomic<T> {
    word: Word,
    of: PhantomData<T>,
}

impl<T: AtomicType> Atomic<T> {
    /// Returns a value.
    pub fn new(value: T) -> Self {
        let word = value.into_word();
        Self {
            word: match model::is_active() {
                false => Word::Std(AtomicU64::new(word)),
                true => Word::Model(ModelU64::new(word)),
            },
            of: PhantomData,
        }
    }

    /// Reads it.
    pub fn load<O: Ordering>(&self, _: O) -> T {
        T::from_word(access!(self, word => word.load(O::OF)))
    }

    /// Writes it.
    pub fn store<O: Ordering>(&self, value: T, _: O) {
        access!(self, word => word.store(value.into_word(), O::OF));
    }

    /// Writes it and returns the value before.
    pub fn xchg<O: Ordering>(&self, value: T, _: O) -> T {
        T::from_word(access!(self, word => word.swap(value.into_word(), O::OF)))
    }

    /// Adds to it and returns the value before.
    pub fn fetch_add<O: Ordering>(&self, value: T, _: O) -> T {
        T::from_word(access!(self, word => word.fetch_add(value.into_word(), O::OF)))
    }

    /// Subtracts from it and returns the value before.
    pub fn fetch_sub<O: Ordering>(&self, value: T, _: O) -> T {
        T::from_word(access!(self, word => word.fetch_sub(value.into_word(), O::OF)))
    }
}
