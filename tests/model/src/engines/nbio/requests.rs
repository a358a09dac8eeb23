// SPDX-License-Identifier: GPL-2.0 OR MIT

//! HDP flushes that engines request: `GPU_HDP_FLUSH_REQ` and `GPU_HDP_FLUSH_DONE` have a bit per
//! engine. A bit of DONE is 0 from the request on, until the flush is complete: at once, or after a
//! time of the adversary. A flush whose end nobody looks for is not made.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::adversary::Adversary;

#[derive(Default)]
struct State {
    done: u32,
    /// Bits that were requested at once, and the time of their flush.
    pending: Vec<(Instant, u32)>,
}

/// See the module documentation.
pub struct Requests {
    adversary: Option<Arc<Adversary>>,
    state: Mutex<State>,
}

impl Requests {
    /// Returns a state without requests.
    pub fn new(adversary: Option<Arc<Adversary>>) -> Self {
        Self {
            adversary,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a request.
    pub fn add(&self, bits: u32) {
        let mut state = self.lock();
        state.done &= !bits;
        let mut due = Instant::now();
        if let Some(adversary) = &self.adversary {
            due += adversary.response_time();
        }
        state.pending.push((due, bits));
    }

    /// Completes the requests that are due. Returns whether any engine requested a flush by them:
    /// the caller makes it before it answers.
    pub fn settle(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let is_due = |(due, _): &(Instant, u32)| *due <= now;
        let due = state.pending.iter().filter(|request| is_due(request));
        let due = due.fold(0, |bits, (_, request)| bits | request);
        state.pending.retain(|request| !is_due(request));
        let pending = state
            .pending
            .iter()
            .fold(0, |bits, (_, request)| bits | request);
        state.done |= due & !pending;
        due != 0
    }

    /// Returns the bits of the engines whose last request is complete.
    pub fn done(&self) -> u32 {
        self.lock().done
    }

    /// Drops all requests.
    pub fn reset(&self) {
        *self.lock() = State::default();
    }
}
