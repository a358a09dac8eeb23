// SPDX-License-Identifier: GPL-2.0

//! Waits for events: the loop and the results of WAIT_EVENTS.
//!
//! A wait adds each of its requests to the [`Waiters`] of the event and sleeps on its own condition
//! variable. Signalling an event marks its requests as activated, destroying it marks them as
//! failed. Memory is allocated before the lock is taken.
//!
//! [`Waiters`]: super::waiters::Waiters

use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{Arc, CondVarTimeoutResult},
    time::{msecs_to_jiffies, Instant, Jiffies, Monotonic},
};

use super::{
    table::{Event, EventTable, Events},
    types::{EventPayload, SIGNAL_LIMIT},
    waiters::{Link, Wait},
};

/// `timeout` of a wait that polls.
const IMMEDIATE: u32 = 0;
/// `timeout` of an infinite wait.
const INFINITE: u32 = u32::MAX;
/// Longest finite timeout in milliseconds.
// CAST: Positive.
const MAX_MS: u32 = i32::MAX as u32;

/// One awaited event.
#[derive(Clone, Copy)]
pub(crate) struct WaitRequest {
    /// The event id.
    pub(crate) id: u32,
    /// Age of a signal event that was last returned to the caller: an event with a different age
    /// counts as signalled. 0 if the caller does not use ages.
    pub(crate) last_age: u64,
}

/// Result of a wait that did not fail.
pub(crate) enum WaitOutcome {
    /// One, or all, of the events were signalled; a payload per request.
    Complete(KVec<EventPayload>),
    /// The time is over.
    Timeout,
}

/// A wait, for the waiting thread.
struct Waiting<'a> {
    wait: Arc<Wait>,
    requests: &'a [WaitRequest],
    /// Serial number of the event of each request: an id may be reused while the wait sleeps.
    serials: KVec<u64>,
    payloads: KVec<EventPayload>,
    /// Memory for requests that are not linked.
    links: KVec<Link>,
}

impl<'a> Waiting<'a> {
    fn new(requests: &'a [WaitRequest]) -> Result<Self> {
        let count = requests.len();
        let wait = Wait::new(count)?;
        let mut links = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            links.push_within_capacity(Link::new(GFP_KERNEL)?)?;
        }
        Ok(Self {
            wait,
            requests,
            serials: KVec::with_capacity(count, GFP_KERNEL)?,
            payloads: KVec::with_capacity(count, GFP_KERNEL)?,
            links,
        })
    }

    /// Looks up the events and links the wait into those that are not signalled. `EINVAL` if one
    /// does not exist.
    fn link(&mut self, table: &mut EventTable) -> Result {
        for request in self.requests {
            let event = table.events.get(&request.id).ok_or(EINVAL)?;
            self.serials.push_within_capacity(event.serial)?;
        }
        // No failure is possible from here on.
        for (index, request) in self.requests.iter().enumerate() {
            let event = table.events.get_mut(&request.id).ok_or(EINVAL)?;
            if event.begin_wait(request.last_age) {
                self.wait.activate(index);
            } else {
                let link = self.links.pop().ok_or(EINVAL)?;
                event.waiters.add(&self.wait, index, link);
            }
        }
        Ok(())
    }

    fn event<'i>(&self, table: &'i mut EventTable, index: usize) -> Option<&'i mut Event> {
        let (request, serial) = (self.requests.get(index)?, self.serials.get(index)?);
        let event = table.events.get_mut(&request.id)?;
        (event.serial == *serial).then_some(event)
    }

    /// Unlinks the wait. With `restarts`, signals consumed from auto-reset events are restored for
    /// the restarted system call.
    fn unlink(&mut self, table: &mut EventTable, restarts: bool) {
        for index in 0..self.serials.len() {
            let activated = self.wait.is_activated(index);
            let Some(event) = self.event(table, index) else {
                continue;
            };
            if let Some(link) = event.waiters.remove(&self.wait, index) {
                // Freed after the lock is released.
                let _ = self.links.push_within_capacity(link);
            }
            if restarts && activated && event.auto_reset {
                event.set();
            }
        }
    }

    /// Collects the payloads of activated events. `EINVAL` if an event was destroyed.
    fn collect(&mut self, table: &mut EventTable) -> Result {
        for (index, request) in self.requests.iter().enumerate() {
            let activated = self.wait.is_activated(index);
            let event = self.event(table, index).ok_or(EINVAL)?;
            let payload = if activated {
                event.payload(request.last_age)
            } else {
                EventPayload::None
            };
            self.payloads.push_within_capacity(payload)?;
        }
        Ok(())
    }
}

/// Remaining time of a wait.
enum Remaining {
    Nothing,
    Forever,
    Jiffies(Jiffies),
}

impl Remaining {
    fn new(timeout_ms: u32) -> Self {
        match timeout_ms {
            IMMEDIATE => Self::Nothing,
            INFINITE => Self::Forever,
            // `msecs_to_jiffies()` returns infinity for more.
            ms => Self::Jiffies(msecs_to_jiffies(ms.min(MAX_MS)) + 1),
        }
    }
}

impl EventTable {
    /// Completes a wait for any of `requests` without linking it, if an event is signalled
    /// already: the usual case in a busy program. Returns false and changes nothing otherwise.
    fn try_complete(
        &mut self,
        requests: &[WaitRequest],
        payloads: &mut KVec<EventPayload>,
    ) -> Result<bool> {
        let mut over = false;
        for request in requests {
            let event = self.events.get(&request.id).ok_or(EINVAL)?;
            over |= event.is_signaled_for(request.last_age);
        }
        if !over {
            return Ok(false);
        }
        for request in requests {
            let event = self.events.get_mut(&request.id).ok_or(EINVAL)?;
            let payload = match event.begin_wait(request.last_age) {
                true => event.payload(request.last_age),
                false => EventPayload::None,
            };
            payloads.push_within_capacity(payload)?;
        }
        Ok(true)
    }
}

impl Events {
    /// Waits for one of `requests`, or with `all` for all of them, at most `timeout_ms`
    /// milliseconds (0 polls, `u32::MAX` is infinite).
    ///
    /// `ENOMEM` for more than [`SIGNAL_LIMIT`] requests, `EINVAL` for an unknown event, `EIO` if
    /// one is destroyed meanwhile, `ERESTARTSYS` after a signal; `timeout_ms` is the remaining
    /// time then.
    pub(crate) fn wait(
        &self,
        requests: &[WaitRequest],
        all: bool,
        timeout_ms: &mut u32,
    ) -> Result<WaitOutcome> {
        if requests.len() > u32_as_usize(SIGNAL_LIMIT) {
            return Err(ENOMEM);
        }
        // With `all`, two requests may name one auto-reset event, whose signal satisfies only one.
        if !all || requests.len() == 1 {
            let mut payloads = KVec::with_capacity(requests.len(), GFP_KERNEL)?;
            if self.table.lock().try_complete(requests, &mut payloads)? {
                return Ok(WaitOutcome::Complete(payloads));
            }
        }
        let mut waiting = Waiting::new(requests)?;
        let started = Instant::<Monotonic>::now();
        let mut left = Remaining::new(*timeout_ms);

        let mut table = self.table.lock();
        waiting.link(&mut table)?;
        let result = loop {
            if let Some(over) = waiting.wait.test(all) {
                break over
                    .and_then(|()| waiting.collect(&mut table))
                    .map(|()| true);
            }
            let interrupted = match left {
                Remaining::Nothing => break Ok(false),
                Remaining::Forever => waiting.wait.wake.wait_interruptible(&mut table),
                Remaining::Jiffies(jiffies) => {
                    let wake = &waiting.wait.wake;
                    match wake.wait_interruptible_timeout(&mut table, jiffies) {
                        CondVarTimeoutResult::Woken { jiffies } => {
                            left = Remaining::Jiffies(jiffies);
                            false
                        }
                        CondVarTimeoutResult::Timeout => {
                            left = Remaining::Nothing;
                            false
                        }
                        CondVarTimeoutResult::Signal { .. } => true,
                    }
                }
            };
            if interrupted && waiting.wait.test(all).is_none() {
                if *timeout_ms != INFINITE {
                    let ms = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
                    *timeout_ms = timeout_ms.saturating_sub(ms);
                }
                break Err(ERESTARTSYS);
            }
        };
        let restarts = matches!(result, Err(e) if e == ERESTARTSYS);
        waiting.unlink(&mut table, restarts);
        drop(table);

        Ok(if result? {
            WaitOutcome::Complete(core::mem::take(&mut waiting.payloads))
        } else {
            WaitOutcome::Timeout
        })
    }
}
