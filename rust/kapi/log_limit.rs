// SPDX-License-Identifier: GPL-2.0

//! Rate limit of messages that hardware or user space can trigger.
//!
//! C headers: [`include/linux/ratelimit_types.h`](srctree/include/linux/ratelimit_types.h), whose
//! structure has a lock of its own.

use kernel::time::{Delta, Instant, Monotonic};

/// The rate limit of one kind of message.
#[derive(Default)]
pub(crate) struct LogLimit {
    since: Option<Instant<Monotonic>>,
    lines: u32,
}

impl LogLimit {
    const LINES: u32 = 10;
    const WINDOW: Delta = Delta::from_secs(5);

    /// Returns a limit without messages so far.
    pub(crate) const fn new() -> Self {
        Self {
            since: None,
            lines: 0,
        }
    }

    /// Counts a message. Returns `None` if it is suppressed, else the number of messages that were
    /// suppressed before it and not returned yet.
    pub(crate) fn allows(&mut self) -> Option<u32> {
        let mut suppressed = 0;
        match &self.since {
            Some(since) if since.elapsed() <= Self::WINDOW => {}
            _ => {
                suppressed = self.lines.saturating_sub(Self::LINES);
                *self = Self {
                    since: Some(Instant::now()),
                    lines: 0,
                }
            }
        }
        self.lines = self.lines.saturating_add(1);
        (self.lines <= Self::LINES).then_some(suppressed)
    }
}
