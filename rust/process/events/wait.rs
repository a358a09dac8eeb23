// SPDX-License-Identifier: GPL-2.0

//! Waiting for events.
//!
//! A wait links one [`Node`] per awaited event into that event's list and sleeps on its own
//! condition variable. Who signals an event marks the nodes' waits; who destroys one marks them
//! failed. All links are made of memory that was allocated before the lock was taken.

use kernel::{
    new_condvar,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, CondVar, CondVarTimeoutResult,
    },
    time::{msecs_to_jiffies, Instant, Jiffies, Monotonic},
};

use super::{Event, Events, HwException, Inner, Kind, MemoryException, SIGNAL_LIMIT};

/// `timeout` of a wait that only looks.
const IMMEDIATE: u32 = 0;
/// `timeout` of a wait without end.
const INFINITE: u32 = u32::MAX;

const PENDING: u32 = 0;
const ACTIVATED: u32 = 1;
const DESTROYED: u32 = 2;

/// One awaited event.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) id: u32,
    /// For signal events: the age that the caller has seen, or 0 if ages do not matter to it.
    pub(crate) last_age: u64,
}

/// What an activated event tells its waiter.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    None,
    Age(u64),
    Memory(MemoryException),
    Hw(HwException),
}

/// How a wait that did not fail ended.
pub(crate) enum Outcome {
    /// All, or one, of the events were signalled; one payload per request.
    Complete(KVec<Payload>),
    Timeout,
}

/// One `WAIT_EVENTS` call.
#[pin_data]
struct Wait {
    #[pin]
    wake: CondVar,
    /// One of the states above per request; written under the lock of the events.
    states: KVec<Atomic<u32>>,
}

impl Wait {
    fn new(count: usize) -> Result<Arc<Self>> {
        let mut states = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            states.push(Atomic::new(PENDING), GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self { wake <- new_condvar!("rkfd_wait_events"), states }),
            GFP_KERNEL,
        )
    }

    fn state(&self, index: usize) -> u32 {
        self.states
            .get(index)
            .map_or(DESTROYED, |s| s.load(Relaxed))
    }

    fn mark(&self, index: usize, state: u32) {
        if let Some(s) = self.states.get(index) {
            s.store(state, Relaxed);
        }
    }

    /// Whether the wait is over: `None` while it is not, `EIO` if an event was destroyed.
    fn test(&self, all: bool) -> Option<Result> {
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

/// A wait in the list of an event.
struct Node {
    next: Option<KBox<Node>>,
    wait: Arc<Wait>,
    index: usize,
}

/// The waits of one event.
pub(super) struct List(Option<KBox<Node>>);

impl List {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn push(&mut self, mut node: KBox<Node>) {
        node.next = self.0.take();
        self.0 = Some(node);
    }

    fn pop(&mut self) -> Option<KBox<Node>> {
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

    /// Wakes all with success.
    pub(super) fn activate(&self) {
        self.mark(ACTIVATED);
    }

    /// Wakes all with failure.
    pub(super) fn fail(&self) {
        self.mark(DESTROYED);
    }

    /// Moves all nodes of `wait` to `out` and notes in `linked` that they are in no list any more.
    fn unlink(&mut self, wait: &Arc<Wait>, out: &mut List, linked: &mut [bool]) {
        let mut kept = List::new();
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

impl Drop for List {
    // Without this a long list would be dropped recursively.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl Event {
    /// Whether a wait for it would have nothing to wait for.
    fn is_over(&self, last_age: u64) -> bool {
        self.signaled || (self.wants_age(last_age) && self.age != last_age)
    }

    /// Starts a wait: true if there is nothing to wait for.
    fn begin_wait(&mut self, last_age: u64) -> bool {
        let over = self.is_over(last_age);
        self.signaled = self.signaled && !self.auto_reset;
        over
    }

    fn wants_age(&self, last_age: u64) -> bool {
        self.kind == Kind::SIGNAL && last_age != 0
    }

    fn payload(&self, last_age: u64) -> Payload {
        match self.kind {
            Kind::MEMORY => Payload::Memory(self.memory),
            Kind::HW_EXCEPTION => Payload::Hw(self.hw),
            _ if self.wants_age(last_age) => Payload::Age(self.age),
            _ => Payload::None,
        }
    }
}

/// A wait in progress, seen by its own thread.
struct Waiting<'a> {
    wait: Arc<Wait>,
    requests: &'a [Request],
    /// Which event each request means, so that a later one with the same id is not taken for it.
    serials: KVec<u64>,
    payloads: KVec<Payload>,
    nodes: KVec<KBox<Node>>,
    /// Whether the node of a request is in the list of its event. The list of an event that many
    /// requests name is walked once for all of them.
    linked: KVec<bool>,
    /// Nodes that were unlinked, to be freed after the lock.
    done: List,
}

impl<'a> Waiting<'a> {
    fn new(requests: &'a [Request]) -> Result<Self> {
        let count = requests.len();
        let wait = Wait::new(count)?;
        let mut nodes = KVec::with_capacity(count, GFP_KERNEL)?;
        for index in (0..count).rev() {
            let node = Node {
                next: None,
                wait: wait.clone(),
                index,
            };
            nodes.push(KBox::new(node, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self {
            wait,
            requests,
            serials: KVec::with_capacity(count, GFP_KERNEL)?,
            payloads: KVec::with_capacity(count, GFP_KERNEL)?,
            nodes,
            linked: KVec::from_elem(false, count, GFP_KERNEL)?,
            done: List::new(),
        })
    }

    /// Finds the events and links the wait into those that are not signalled.
    fn link(&mut self, inner: &mut Inner) -> Result {
        for request in self.requests {
            let event = inner.events.get(&request.id).ok_or(EINVAL)?;
            self.serials.push_within_capacity(event.serial)?;
        }
        // Nodes are popped in the order of the requests; nothing below can fail any more.
        for request in self.requests {
            let (Some(node), Some(event)) = (self.nodes.pop(), inner.events.get_mut(&request.id))
            else {
                return Err(EINVAL);
            };
            if event.begin_wait(request.last_age) {
                self.wait.mark(node.index, ACTIVATED);
                self.done.push(node);
            } else {
                if let Some(linked) = self.linked.get_mut(node.index) {
                    *linked = true;
                }
                event.waiters.push(node);
            }
        }
        Ok(())
    }

    fn event<'i>(&self, inner: &'i mut Inner, index: usize) -> Option<&'i mut Event> {
        let (request, serial) = (self.requests.get(index)?, self.serials.get(index)?);
        let event = inner.events.get_mut(&request.id)?;
        (event.serial == *serial).then_some(event)
    }

    /// Unlinks the wait. If it `restarts`, the signals that it took off auto-reset events are put
    /// back for the next try.
    fn unlink(&mut self, inner: &mut Inner, restarts: bool) {
        let mut done = core::mem::replace(&mut self.done, List::new());
        let mut linked = core::mem::take(&mut self.linked);
        for index in 0..self.serials.len() {
            let activated = self.wait.state(index) == ACTIVATED;
            if let Some(event) = self.event(inner, index) {
                if linked.get(index).copied().unwrap_or(false) {
                    event.waiters.unlink(&self.wait, &mut done, &mut linked);
                }
                if restarts && activated && event.auto_reset {
                    event.set();
                }
            }
        }
        self.done = done;
        self.linked = linked;
    }

    /// Collects what the activated events have to tell.
    fn collect(&mut self, inner: &mut Inner) -> Result {
        for (index, request) in self.requests.iter().enumerate() {
            let activated = self.wait.state(index) == ACTIVATED;
            let event = self.event(inner, index).ok_or(EINVAL)?;
            let payload = if activated {
                event.payload(request.last_age)
            } else {
                Payload::None
            };
            self.payloads.push_within_capacity(payload)?;
        }
        Ok(())
    }
}

/// Time that is left to a wait.
enum Left {
    Nothing,
    Forever,
    Jiffies(Jiffies),
}

impl Left {
    fn new(timeout_ms: u32) -> Self {
        match timeout_ms {
            IMMEDIATE => Self::Nothing,
            INFINITE => Self::Forever,
            // Above this, milliseconds count as infinite where jiffies are made of them.
            ms => Self::Jiffies(msecs_to_jiffies(ms.min(i32::MAX as u32)) + 1),
        }
    }
}

impl Inner {
    /// The wait for one of `requests` if it is over as it begins, which needs no links: most waits
    /// of a busy program are. False, and nothing has changed, if it is not.
    fn look(&mut self, requests: &[Request], payloads: &mut KVec<Payload>) -> Result<bool> {
        let mut over = false;
        for request in requests {
            let event = self.events.get(&request.id).ok_or(EINVAL)?;
            over |= event.is_over(request.last_age);
        }
        if !over {
            return Ok(false);
        }
        for request in requests {
            let event = self.events.get_mut(&request.id).ok_or(EINVAL)?;
            let payload = match event.begin_wait(request.last_age) {
                true => event.payload(request.last_age),
                false => Payload::None,
            };
            payloads.push_within_capacity(payload)?;
        }
        Ok(true)
    }
}

impl Events {
    /// Waits for all or one of `requests`, at most `timeout_ms`.
    ///
    /// Fails with `EINVAL` for an unknown event, `EIO` if one is destroyed meanwhile, and
    /// `ERESTARTSYS` if a signal comes first; then `timeout_ms` is what was left.
    pub(crate) fn wait(
        &self,
        requests: &[Request],
        all: bool,
        timeout_ms: &mut u32,
    ) -> Result<Outcome> {
        if requests.len() > SIGNAL_LIMIT as usize {
            return Err(ENOMEM);
        }
        // Of several requests for all, two may name one event, and its signal is for one of them.
        if !all || requests.len() == 1 {
            let mut payloads = KVec::with_capacity(requests.len(), GFP_KERNEL)?;
            if self.inner.lock().look(requests, &mut payloads)? {
                return Ok(Outcome::Complete(payloads));
            }
        }
        let mut waiting = Waiting::new(requests)?;
        let started = Instant::<Monotonic>::now();
        let mut left = Left::new(*timeout_ms);

        let mut inner = self.inner.lock();
        waiting.link(&mut inner)?;
        let result = loop {
            if let Some(over) = waiting.wait.test(all) {
                break over
                    .and_then(|()| waiting.collect(&mut inner))
                    .map(|()| true);
            }
            let interrupted = match left {
                Left::Nothing => break Ok(false),
                Left::Forever => waiting.wait.wake.wait_interruptible(&mut inner),
                Left::Jiffies(jiffies) => {
                    let wake = &waiting.wait.wake;
                    match wake.wait_interruptible_timeout(&mut inner, jiffies) {
                        CondVarTimeoutResult::Woken { jiffies } => {
                            left = Left::Jiffies(jiffies);
                            false
                        }
                        CondVarTimeoutResult::Timeout => {
                            left = Left::Nothing;
                            false
                        }
                        CondVarTimeoutResult::Signal { .. } => true,
                    }
                }
            };
            if interrupted && waiting.wait.test(all).is_none() {
                if *timeout_ms != INFINITE {
                    let ms = started.elapsed().as_millis().clamp(0, u32::MAX.into()) as u32;
                    *timeout_ms = timeout_ms.saturating_sub(ms);
                }
                break Err(ERESTARTSYS);
            }
        };
        let restarts = matches!(result, Err(e) if e == ERESTARTSYS);
        waiting.unlink(&mut inner, restarts);
        drop(inner);

        Ok(if result? {
            Outcome::Complete(core::mem::take(&mut waiting.payloads))
        } else {
            Outcome::Timeout
        })
    }
}
