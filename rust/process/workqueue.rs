// SPDX-License-Identifier: GPL-2.0

//! Lifetime of the work queues of `process`, which are in statics.

use crate::kapi::workqueue::OwnedQueue;

/// A work queue in a static. Dropping this object removes it, and waits for its items.
pub(super) struct WorkqueueGuard(fn(Option<OwnedQueue>) -> Option<OwnedQueue>);

impl WorkqueueGuard {
    /// Stores `queue` with `replace`, which returns the previous one.
    pub(super) fn new(
        queue: OwnedQueue,
        replace: fn(Option<OwnedQueue>) -> Option<OwnedQueue>,
    ) -> Self {
        replace(Some(queue));
        Self(replace)
    }
}

impl Drop for WorkqueueGuard {
    fn drop(&mut self) {
        // Not under the lock of the static, which items take.
        let queue = (self.0)(None);
        drop(queue);
    }
}
