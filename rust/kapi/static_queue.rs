// SPDX-License-Identifier: GPL-2.0

//! Work queues in statics of [`global_mutex!`](crate::kapi::global::global_mutex).
//!
//! # Examples
//!
//! ```ignore
//! global_mutex! {
//!     /// Work queue of the workers.
//!     QUEUE: Option<OwnedQueue> = None;
//!     init init
//! }
//!
//! let installed = QUEUE.install(Builder::ordered().build(c"rkfd_example")?);
//! QUEUE.enqueue(work);
//! drop(installed); // Waits for the work.
//! ```

use kernel::{
    sync::{lock::GlobalLockBackend, Arc},
    time::Delta,
    workqueue::RawWorkItem,
};

use super::{
    global::Global,
    workqueue::{Delayed, DelayedItem, OwnedQueue},
};

trait Place: Sync {
    fn take(&'static self) -> Option<OwnedQueue>;
}

impl<B> Place for Global<B>
where
    B: GlobalLockBackend<Item = Option<OwnedQueue>>,
    Self: Sync,
{
    fn take(&'static self) -> Option<OwnedQueue> {
        self.lock().take()
    }
}

/// A work queue in a static. Dropping this object removes it, and waits for its items.
pub(crate) struct Installed(&'static dyn Place);

impl Drop for Installed {
    fn drop(&mut self) {
        // Not under the lock of the static, which items take.
        let queue = self.0.take();
        drop(queue);
    }
}

impl<B> Global<B>
where
    B: GlobalLockBackend<Item = Option<OwnedQueue>>,
    Self: Sync,
{
    /// Stores a queue until the result is dropped.
    pub(crate) fn install(&'static self, queue: OwnedQueue) -> Installed {
        *self.lock() = Some(queue);
        Installed(self)
    }

    /// Queues an item, unless it is queued already. Returns false without a queue.
    pub(crate) fn enqueue<W, const ID: u64>(&'static self, item: W) -> bool
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        let refused = match &*self.lock() {
            Some(queue) => queue.enqueue(item),
            None => return false,
        };
        // Without the lock: it may be the last reference.
        drop(refused);
        true
    }

    /// Queues an item after a delay as [`OwnedQueue::enqueue_delayed`], unless it is queued already
    /// or there is no queue.
    pub(crate) fn enqueue_delayed<T: DelayedItem>(
        &'static self,
        item: &Arc<Delayed<T>>,
        delay: Delta,
    ) {
        if let Some(queue) = &*self.lock() {
            // The caller keeps a reference.
            let _ = queue.enqueue_delayed(item.clone(), delay);
        }
    }
}
