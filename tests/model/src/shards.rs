// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A lock for data that every access reads and that rarely changes: one copy per shard, a thread
//! reads its own shard, a writer changes all of them. Readers on different cores do not share a
//! cache line.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

const SHARDS: usize = 8;

#[repr(align(128))]
#[derive(Default)]
struct Shard<T>(RwLock<T>);

/// See the module documentation.
#[derive(Default)]
pub struct Shards<T> {
    shards: [Shard<T>; SHARDS],
}

fn mine() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}

impl<T> Shards<T> {
    /// Returns the value, which does not change while the guard lives.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.shards[mine()]
            .0
            .read()
            .unwrap_or_else(|e| e.into_inner())
    }

    /// Changes each copy after all readers are done; new readers wait for the change, which is the
    /// same for all. Returns the result for one of them.
    pub fn update<R>(&self, mut change: impl FnMut(&mut T) -> R) -> R {
        let mut guards = self.lock_all();
        let result = change(&mut guards[0]);
        for guard in guards.iter_mut().skip(1) {
            change(guard);
        }
        result
    }

    /// Calls `f` after all readers are done; new readers wait for its end.
    pub fn exclude<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guards = self.lock_all();
        f()
    }

    fn lock_all(&self) -> [RwLockWriteGuard<'_, T>; SHARDS] {
        // Fixed order, so that two writers do not deadlock.
        self.shards
            .each_ref()
            .map(|s| s.0.write().unwrap_or_else(|e| e.into_inner()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_visible_to_all_threads() {
        let shards = Shards::<u32>::default();
        assert_eq!(shards.update(|v| std::mem::replace(v, 7)), 0);
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| assert_eq!(*shards.read(), 7));
            }
        });
    }
}
