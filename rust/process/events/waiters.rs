// SPDX-License-Identifier: GPL-2.0

//! Waits and the lists that link them to events.

use kernel::{
    new_condvar,
    prelude::*,
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

    /// Marks the event of a request as signalled.
    pub(super) fn activate(&self, index: usize) {
        self.mark(index, ACTIVATED);
    }

    fn mark(&self, index: usize, state: u32) {
        if let Some(s) = self.states.get(index) {
            s.store(state, Relaxed);
        }
    }

    /// Returns `None` while the wait has to go on, `EIO` if an event was destroyed, and success
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

/// Links a wait into the list of an event.
pub(super) struct WaitNode {
    next: Option<KBox<WaitNode>>,
    wait: Arc<Wait>,
    /// Index of the request.
    pub(super) index: usize,
}

impl WaitNode {
    /// Returns a node for request `index` of `wait`.
    pub(super) fn new(wait: &Arc<Wait>, index: usize) -> Self {
        Self {
            next: None,
            wait: wait.clone(),
            index,
        }
    }
}

/// The waits of one event.
pub(super) struct WaitList(Option<KBox<WaitNode>>);

impl WaitList {
    /// Returns an empty list.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Returns whether nothing waits for the event.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a node in front.
    pub(super) fn push(&mut self, mut node: KBox<WaitNode>) {
        node.next = self.0.take();
        self.0 = Some(node);
    }

    fn pop(&mut self) -> Option<KBox<WaitNode>> {
        let mut node = self.0.take()?;
        self.0 = node.next.take();
        Some(node)
    }

    fn mark(&self, state: u32) {
        let mut at = self.0.as_ref();
        while let Some(node) = at {
            node.wait.mark(node.index, state);
            node.wait.wake.notify_all();
            at = node.next.as_ref();
        }
    }

    /// Marks the requests as signalled and wakes the waiters.
    pub(super) fn activate(&self) {
        self.mark(ACTIVATED);
    }

    /// Marks the events as destroyed and wakes the waiters.
    pub(super) fn fail(&self) {
        self.mark(DESTROYED);
    }

    /// Moves all nodes of `wait` to `out` and clears their flags in `linked`.
    pub(super) fn unlink(&mut self, wait: &Arc<Wait>, out: &mut WaitList, linked: &mut [bool]) {
        let mut kept = WaitList::new();
        while let Some(node) = self.pop() {
            if Arc::ptr_eq(&node.wait, wait) {
                if let Some(linked) = linked.get_mut(node.index) {
                    *linked = false;
                }
                out.push(node);
            } else {
                kept.push(node);
            }
        }
        while let Some(node) = kept.pop() {
            self.push(node);
        }
    }
}

impl Drop for WaitList {
    // Not recursive, as the list may be long.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
