// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Exploration of all interleavings of threads, by `loom`.

use std::cell::Cell;

pub use loom::thread;

thread_local! {
    /// The threads of `loom` are coroutines of the thread that explores.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// Whether locks are to be those of `loom`.
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
}

/// Runs `f`, which starts threads by [`thread::spawn`], once for each interleaving of their locks
/// and atomic accesses. Panics if one of them panics, and at a deadlock.
pub fn explore(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    ACTIVE.set(true);
    builder.check(f);
    ACTIVE.set(false);
}
