// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Message queue from the thread that serves the BARs to an engine thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Result of [`Mailbox::recv`].
#[derive(Debug, PartialEq, Eq)]
pub enum Recv<T> {
    /// A message.
    Message(T),
    /// Timeout.
    Timeout,
    /// The mailbox is closed and empty.
    Closed,
}

/// Unbounded queue of messages; sending never blocks.
pub struct Mailbox<T> {
    state: Mutex<(VecDeque<T>, bool)>,
    wake: Condvar,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new((VecDeque::new(), false)),
            wake: Condvar::new(),
        }
    }
}

impl<T> Mailbox<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, (VecDeque<T>, bool)> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Enqueues a message. Dropped after [`close`](Self::close).
    pub fn send(&self, message: T) {
        let mut state = self.lock();
        if !state.1 {
            state.0.push_back(message);
            self.wake.notify_one();
        }
    }

    /// Dequeues the oldest message, waiting for it (`None`: without timeout).
    pub fn recv(&self, timeout: Option<Duration>) -> Recv<T> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut state = self.lock();
        loop {
            if let Some(message) = state.0.pop_front() {
                return Recv::Message(message);
            }
            if state.1 {
                return Recv::Closed;
            }
            state = match deadline {
                None => self.wake.wait(state).unwrap_or_else(|e| e.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Recv::Timeout;
                    }
                    self.wake
                        .wait_timeout(state, left)
                        .unwrap_or_else(|e| e.into_inner())
                        .0
                }
            };
        }
    }

    /// Returns whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.lock().0.is_empty()
    }

    /// Rejects further messages and ends the receiver.
    pub fn close(&self) {
        self.lock().1 = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_timeout_and_close() {
        let mailbox = Mailbox::default();
        mailbox.send(1);
        mailbox.send(2);
        mailbox.close();
        mailbox.send(3);
        assert_eq!(mailbox.recv(None), Recv::Message(1));
        assert_eq!(mailbox.recv(None), Recv::Message(2));
        assert_eq!(mailbox.recv(None), Recv::Closed);
        let empty = Mailbox::<u8>::default();
        assert_eq!(empty.recv(Some(Duration::from_millis(1))), Recv::Timeout);
    }
}
