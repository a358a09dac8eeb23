// SPDX-License-Identifier: GPL-2.0

//! Copies of what a lock guards, for which no memory is allocated under the lock.

use kernel::prelude::*;

/// Takes a lock, with an empty vector that has room for `len` items of what it guards. `ENOMEM`
/// without memory.
pub(crate) fn lock_with_room<G, T>(
    lock: impl Fn() -> G,
    len: impl Fn(&G) -> usize,
) -> Result<(G, KVVec<T>)> {
    let mut room = KVVec::new();
    loop {
        let guard = lock();
        let needed = len(&guard);
        if room.capacity() >= needed {
            return Ok((guard, room));
        }
        drop(guard);
        room.reserve(needed, GFP_KERNEL)?;
    }
}
