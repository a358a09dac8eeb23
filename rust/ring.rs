// SPDX-License-Identifier: GPL-2.0

//! Kernel rings (HIQ, KIQ, MES, SDMA) and the packets written to them.

use core::ops::Deref;

use kernel::{
    prelude::*,
    processor::cpu_relax,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

pub(crate) mod hiq;
pub(crate) mod kiq;
pub(crate) mod mes;
pub(crate) mod packet;
pub(crate) mod sdma;
pub(crate) mod writer;

/// Returns how many ms a job may take; `None` without a limit (module parameter `lockup_timeout`).
pub(crate) fn lockup_ms() -> Option<u32> {
    const DEFAULT: u32 = 10_000;
    match crate::module_parameters::lockup_timeout.value() {
        0 => Some(DEFAULT),
        ms => ms.try_into().ok(),
    }
}

/// Maximum dwords of a [`Batch`].
const MAX_BATCH: usize = 16;

/// Busy-poll this long before sleeping: most replies arrive sooner than a wakeup, and all replies
/// of working hardware arrive within this time.
const SPIN: Delta = Delta::from_millis(1);
/// Sleep between polls after that, as a part of the time that has passed, and its maximum: waits
/// for hardware that does not reply last for seconds.
const NAPS: i64 = 32;
const LONGEST_NAP: Delta = Delta::from_millis(5);

/// Polls until `done` returns true. `ETIMEDOUT` `timeout_ms` after the first poll; errors of `done`
/// are passed on.
fn wait(timeout_ms: i64, mut done: impl FnMut() -> Result<bool>) -> Result {
    let mut start = None;
    let mut waited = Delta::ZERO;
    loop {
        if done()? {
            return Ok(());
        }
        if waited > Delta::from_millis(timeout_ms) {
            return Err(ETIMEDOUT);
        }
        let start = *start.get_or_insert_with(Instant::<Monotonic>::now);
        if waited < SPIN {
            cpu_relax();
        } else {
            let nap = waited.as_nanos() / NAPS;
            fsleep(Delta::from_nanos(nap.min(LONGEST_NAP.as_nanos())));
        }
        // Before the next poll, which may be late.
        waited = start.elapsed();
    }
}

/// A PM4 packet.
pub(crate) trait Packet {
    /// Name of the packet in trace events.
    const NAME: &'static CStr;
    /// Length in dwords, header included.
    const DWORDS: usize;

    /// Writes the packet to `out`, which holds [`Packet::DWORDS`] zeroed dwords.
    fn emit(&self, out: &mut [u32]);
}

/// Consecutive PM4 packets that are submitted together.
///
/// Stored inline: unmapping queues must not depend on a memory allocation.
pub(crate) struct Batch {
    words: [u32; MAX_BATCH],
    len: usize,
    first: Option<&'static CStr>,
}

impl Batch {
    /// Returns an empty batch.
    pub(crate) fn new() -> Self {
        Self {
            words: [0; MAX_BATCH],
            len: 0,
            first: None,
        }
    }

    /// Appends a packet. `EINVAL` if the batch would exceed 16 dwords.
    pub(crate) fn push<P: Packet>(&mut self, packet: &P) -> Result {
        let end = self.len + P::DWORDS;
        let words = self.words.get_mut(self.len..end).ok_or(EINVAL)?;
        packet.emit(words);
        self.len = end;
        self.first.get_or_insert(P::NAME);
        Ok(())
    }

    /// Returns the name of the first packet.
    pub(crate) fn name(&self) -> &'static CStr {
        self.first.unwrap_or(c"none")
    }
}

impl Deref for Batch {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words[..self.len]
    }
}
