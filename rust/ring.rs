// SPDX-License-Identifier: GPL-2.0

//! Rings that the kernel owns, and the packets it puts on them.

use core::ops::Deref;

use kernel::prelude::*;

pub(crate) mod hiq;
pub(crate) mod kiq;
pub(crate) mod packet;
pub(crate) mod writer;

/// Words of the longest packet that goes onto a ring.
pub(crate) const MAX_PACKET: usize = 16;

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
#[derive(Default)]
pub(crate) struct Batch {
    words: KVec<u32>,
    last: Option<&'static CStr>,
}

impl Batch {
    /// An empty batch.
    pub(crate) fn new() -> Self {
        Self {
            words: KVec::new(),
            last: None,
        }
    }

    /// Appends a packet.
    pub(crate) fn push<P: Packet>(&mut self, packet: &P) -> Result {
        let mut words = [0u32; MAX_PACKET];
        let words = words.get_mut(..P::DWORDS).ok_or(EINVAL)?;
        packet.emit(words);
        self.words.extend_from_slice(words, GFP_KERNEL)?;
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
        &self.words
    }
}
