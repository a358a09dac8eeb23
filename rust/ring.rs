// SPDX-License-Identifier: GPL-2.0

//! Rings that the kernel owns, and the packets it puts on them.

use core::ops::Deref;

use kernel::prelude::*;

pub(crate) mod hiq;
pub(crate) mod kiq;
pub(crate) mod mes;
pub(crate) mod packet;
pub(crate) mod sdma;
pub(crate) mod writer;

/// Words of the longest batch.
const MAX_BATCH: usize = 64;

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
