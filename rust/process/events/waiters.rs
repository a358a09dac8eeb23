// SPDX-License-Identifier: GPL-2.0

//! Waits, and the waits of an event.

use kernel::{
    new_condvar,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, CondVar,
    },
};

/// The event has not been signalled.
const PENDING: u32 = 0;
/// The event was signalled.
const ACTIVATED: u32 = 1;
/// The event was destroyed.
const DESTROYED: u32 = 2;

/// One `WAIT_EVENTS` call, shared with the events that it waits for.
#[pin_data]
pub(super) struct Wait {
    /// Notified when a state changes.
    #[pin]
    pub(super) wake: CondVar,
    /// A state per request; written under the lock of the events.
    states: KVec<Atomic<u32>>,
}

impl Wait {
    /// Returns a wait for `count` requests, all pending.
    pub(super) fn new(count: usize) -> Result<Arc<Self>> {
        let mut states = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            states.push(Atomic::new(PENDING), GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self { wake <- new_condvar!("rkfd_wait_events"), states }),
            GFP_KERNEL,
        )
    }

    /// Returns whether the event of a request was signalled.
    pub(super) fn is_activated(&self, index: usize) -> bool {
        self.states
            .get(index)
            .is_some_and(|s| s.load(Relaxed) == ACTIVATED)
    }

    /// Returns whether the event of a request was neither signalled nor destroyed.
    fn is_pending(&self, index: usize) -> bool {
        self.states
            .get(index)
            .is_some_and(|s| s.load(Relaxed) == PENDING)
    }

    /// Marks the event of a request as signalled.
    pub(super) fn activate(&self, index: usize) {
        self.mark(index, ACTIVATED);
    }

    fn mark(&self, index: usize, state: u32) {
        if let Some(s) = self.states.get(index) {
            s.store(state, Relaxed);
        }
    }

    /// Returns `None` while the wait has to continue, `EIO` if an event was destroyed, and success
    /// if all events, or with `all` unset one, were signalled.
    pub(super) fn test(&self, all: bool) -> Option<Result> {
        let mut activated = 0;
        for state in &self.states {
            match state.load(Relaxed) {
                DESTROYED => return Some(Err(EIO)),
                ACTIVATED if !all => return Some(Ok(())),
                ACTIVATED => activated += 1,
                _ => {}
            }
        }
        (activated == self.states.len()).then_some(Ok(()))
    }
}

/// A request of a wait: the address of the wait, and the index of the request.
type Key = (usize, usize);

/// Memory to add a request to the waits of an event.
pub(super) type Link = RBTreeNodeReservation<Key, Arc<Wait>>;

/// The requests that wait for an event. A tree, as thousands of threads may wait for thousands of
/// events, and each removes its own requests under the lock of all events.
pub(super) struct Waiters {
    requests: RBTree<Key, Arc<Wait>>,
    /// Those of `requests` for which the event has not been signalled: the others stay until their
    /// thread removes them.
    pending: usize,
}

fn key(wait: &Arc<Wait>, index: usize) -> Key {
    (Arc::as_ptr(wait) as usize, index)
}

impl Waiters {
    /// Returns none.
    pub(super) fn new() -> Self {
        Self {
            requests: RBTree::new(),
            pending: 0,
        }
    }

    /// Returns whether a request still waits for a signal.
    pub(super) fn has_pending(&self) -> bool {
        self.pending != 0
    }

    /// Adds request `index` of a wait, which is pending.
    pub(super) fn add(&mut self, wait: &Arc<Wait>, index: usize, link: Link) {
        let node = link.into_node(key(wait, index), wait.clone());
        self.requests.insert(node);
        self.pending += 1;
    }

    /// Removes request `index` of a wait. Returns the memory if it was there.
    pub(super) fn remove(&mut self, wait: &Arc<Wait>, index: usize) -> Option<Link> {
        let node = self.requests.remove_node(&key(wait, index))?;
        if wait.is_pending(index) {
            self.pending -= 1;
        }
        Some(node.into_reservation())
    }

    fn mark(&self, state: u32) {
        for ((_, index), wait) in &self.requests {
            wait.mark(*index, state);
            wait.wake.notify_all();
        }
    }

    /// Marks the requests as signalled and wakes the waiters.
    pub(super) fn activate(&mut self) {
        if self.has_pending() {
            self.mark(ACTIVATED);
            self.pending = 0;
        }
    }

    /// Marks the requests as failed, as the event is destroyed, and wakes the waiters.
    pub(super) fn fail(&self) {
        self.mark(DESTROYED);
    }
}
