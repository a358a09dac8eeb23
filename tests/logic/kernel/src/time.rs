// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::time`. A jiffy is a millisecond.

use std::{cell::Cell, marker::PhantomData, time::Duration};

thread_local! {
    static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Advances the clocks of this thread.
pub fn advance(by: Duration) {
    AHEAD.set(AHEAD.get() + by);
}

/// A time in jiffies.
pub type Jiffies = u64;

/// Converts a time.
pub fn msecs_to_jiffies(ms: u32) -> Jiffies {
    ms.into()
}

/// `CLOCK_MONOTONIC`.
pub struct Monotonic;

/// A point in time of a clock.
pub struct Instant<C> {
    at: std::time::Instant,
    clock: PhantomData<C>,
}

/// A difference of times.
#[derive(PartialEq, PartialOrd)]
pub struct Delta(Duration);

impl<C> Instant<C> {
    /// Returns the current time.
    pub fn now() -> Self {
        Self {
            at: std::time::Instant::now() + AHEAD.get(),
            clock: PhantomData,
        }
    }

    /// Returns the time since then.
    pub fn elapsed(&self) -> Delta {
        Delta(std::time::Instant::now() + AHEAD.get() - self.at)
    }
}

impl Delta {
    /// Returns a number of seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Returns whole milliseconds.
    pub fn as_millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}
