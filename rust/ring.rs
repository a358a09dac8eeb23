// SPDX-License-Identifier: GPL-2.0

//! Rings that the kernel owns, and the packets it puts on them.

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

/// Words of the longest batch.
const MAX_BATCH: usize = 64;

/// For so long an answer is looked for without a pause: most come sooner than a sleeper would be awake again, and all
/// that is healthy comes in this time.
const SPIN: Delta = Delta::from_millis(1);
/// Pauses after that: the first, and the longest. Each is twice as long as the one before.
const NAP_US: i64 = 10;
const LONGEST_NAP_US: i64 = 320;

/// Looks at memory until `done`; `ETIMEDOUT` when that does not come, and whatever `done` fails with.
fn wait(timeout_ms: i64, mut done: impl FnMut() -> Result<bool>) -> Result {
    let start = Instant::<Monotonic>::now();
    let mut nap = NAP_US;
    loop {
        // Before the last look, which may come late.
        let waited = start.elapsed();
        if done()? {
            return Ok(());
        }
        if waited > Delta::from_millis(timeout_ms) {
            return Err(ETIMEDOUT);
        }
        if waited < SPIN {
            cpu_relax();
        } else {
            fsleep(Delta::from_micros(nap));
            nap = (nap * 2).min(LONGEST_NAP_US);
        }
    }
}

/// A PM4 packet: knows its length and how it is written down.
pub(crate) trait Packet {
    /// What it is called, for the trace.
    const NAME: &'static CStr;
    /// 32-bit words with the header.
    const DWORDS: usize;

    /// Writes the packet to `out`, which has [`Packet::DWORDS`] zeroed words.
    fn emit(&self, out: &mut [u32]);
}

/// Packets that are written one behind the other in one go.
///
/// They are kept in place: what takes queues off the hardware must not fail for want of memory.
pub(crate) struct Batch {
    words: [u32; MAX_BATCH],
    len: usize,
    last: Option<&'static CStr>,
}

impl Batch {
    /// An empty batch.
    pub(crate) fn new() -> Self {
        Self {
            words: [0; MAX_BATCH],
            len: 0,
            last: None,
        }
    }

    /// Appends a packet; `EINVAL` if the batch gets too long.
    pub(crate) fn push<P: Packet>(&mut self, packet: &P) -> Result {
        let end = self.len + P::DWORDS;
        let words = self.words.get_mut(self.len..end).ok_or(EINVAL)?;
        packet.emit(words);
        self.len = end;
        self.last = Some(P::NAME);
        Ok(())
    }

    /// What the last packet is called.
    pub(crate) fn name(&self) -> &'static CStr {
        self.last.unwrap_or(c"none")
    }
}

impl Deref for Batch {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words[..self.len]
    }
}
