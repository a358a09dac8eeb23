// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::sync`.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::{Mutex as StdMutex, MutexGuard as StdGuard, PoisonError},
};

use crate::{init::PinInit, model};

pub use std::sync::Arc;

pub mod aref;
pub mod atomic;
mod condvar;
mod set_once;

pub use condvar::{CondVar, CondVarTimeoutResult};
pub use set_once::SetOnce;

thread_local! {
    /// Spinlocks that the thread, or all threads of `loom`, hold.
    static SPINNING: Cell<u32> = const { Cell::new(0) };
}

/// Whether a spinlock is held, so that nothing may sleep.
pub(crate) fn is_atomic() -> bool {
    // `loom` has one counter for all of its threads.
    !model::is_active() && SPINNING.get() > 0
}

enum Inner<T> {
    Std(StdMutex<T>),
    Model(loom::sync::Mutex<T>),
}

enum InnerGuard<'a, T> {
    Std(StdGuard<'a, T>),
    Model(loom::sync::MutexGuard<'a, T>),
}

/// A lock. `SPIN`: a spinlock.
pub struct Lock<T, const SPIN: bool>(Inner<T>);

/// A mutex.
pub type Mutex<T> = Lock<T, false>;
/// A spinlock.
pub type SpinLock<T> = Lock<T, true>;

/// A lock that is held.
pub struct Guard<'a, T, const SPIN: bool> {
    /// `None` only while a condition variable has it.
    inner: Option<InnerGuard<'a, T>>,
}

impl<T, const SPIN: bool> Lock<T, SPIN> {
    /// Returns an initializer.
    pub fn new(value: T) -> impl PinInit<Self> {
        crate::init::FromFn(move || Ok(Self::of(value)))
    }

    /// Returns a lock.
    pub fn of(value: T) -> Self {
        Self(match model::is_active() {
            false => Inner::Std(StdMutex::new(value)),
            true => Inner::Model(loom::sync::Mutex::new(value)),
        })
    }

    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_, T, SPIN> {
        let inner = match &self.0 {
            Inner::Std(lock) => {
                InnerGuard::Std(lock.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Inner::Model(lock) => {
                InnerGuard::Model(lock.lock().unwrap_or_else(PoisonError::into_inner))
            }
        };
        if SPIN {
            SPINNING.set(SPINNING.get() + 1);
        }
        Guard { inner: Some(inner) }
    }
}

impl<T, const SPIN: bool> Drop for Guard<'_, T, SPIN> {
    fn drop(&mut self) {
        if SPIN {
            SPINNING.set(SPINNING.get() - 1);
        }
    }
}

impl<T, const SPIN: bool> Deref for Guard<'_, T, SPIN> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.inner {
            Some(InnerGuard::Std(guard)) => guard,
            Some(InnerGuard::Model(guard)) => guard,
            None => unreachable!("a lock that a condition variable has"),
        }
    }
}

impl<T, const SPIN: bool> DerefMut for Guard<'_, T, SPIN> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(InnerGuard::Std(guard)) => guard,
            Some(InnerGuard::Model(guard)) => guard,
            None => unreachable!("a lock that a condition variable has"),
        }
    }
}

/// An initializer of a mutex, with or without a name for lockdep.
#[macro_export]
macro_rules! new_mutex {
    ($value:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::Mutex::new($value)
    };
}

/// As [`new_mutex`], of a spinlock.
#[macro_export]
macro_rules! new_spinlock {
    ($value:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLock::new($value)
    };
}

/// As [`new_mutex`], of a condition variable.
#[macro_export]
macro_rules! new_condvar {
    ($($name:literal)?) => {
        $crate::sync::CondVar::new()
    };
}

pub use crate::{new_condvar, new_mutex, new_spinlock};
