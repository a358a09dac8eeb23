// SPDX-License-Identifier: GPL-2.0

//! State of a queue for the watchdog: its pointers, and since when they stand still.

use rkfd_abi::aql::{header, PACKET_SIZE};

/// Pointers of an AQL queue in memory, in packets, and the header of the packet at the read
/// pointer.
#[derive(Clone, Copy)]
pub(super) struct Pointers {
    pub(super) rptr: u64,
    pub(super) wptr: u64,
    pub(super) header: u32,
}

impl Pointers {
    /// Reads the pointers and the header with `read`, which returns the qword at an address;
    /// `None` where it does.
    pub(super) fn read(
        (rptr_va, wptr_va): (u64, u64),
        (ring_va, ring_size): (u64, u32),
        read: impl Fn(u64) -> Option<u64>,
    ) -> Option<Self> {
        let (rptr, wptr) = (read(rptr_va)?, read(wptr_va)?);
        let packet = PACKET_SIZE as u64;
        let at = rptr.checked_rem(u64::from(ring_size) / packet)? * packet;
        Some(Self {
            rptr,
            wptr,
            header: read(ring_va.checked_add(at)?)? as u32 & 0xffff,
        })
    }

    /// Returns whether a kernel dispatch is to be executed next. Others may wait: barriers for
    /// signals, PM4 in vendor packets for memory.
    fn has_dispatch(&self) -> bool {
        let is_dispatch = header::TYPE.get(self.header) == header::TYPE_KERNEL_DISPATCH;
        self.rptr < self.wptr && is_dispatch
    }
}

/// What the watchdog knows of a queue.
#[derive(Default)]
pub(super) struct Watch {
    rptr: u64,
    /// Successive checks at which the read pointer stood there, and nothing was executed.
    still: u32,
    reported: bool,
}

impl Watch {
    /// Compares the pointers with those of the last check. Returns whether the queue may be
    /// stalled, and is not reported yet.
    pub(super) fn look(&mut self, now: &Pointers) -> bool {
        if self.rptr != now.rptr || now.rptr == now.wptr {
            *self = Self {
                rptr: now.rptr,
                ..Self::default()
            };
            // It stands there since now.
            return false;
        }
        if !now.has_dispatch() {
            self.still = 0;
        }
        now.has_dispatch() && !self.reported
    }

    /// Forgets how long the queue stands: it is busy, or not mapped.
    pub(super) fn is_busy(&mut self) {
        self.still = 0;
    }

    /// Counts a check at which the queue was mapped and nothing executed. Returns whether these
    /// are `limit`, to be reported once.
    pub(super) fn stands(&mut self, limit: u32) -> bool {
        self.still = self.still.saturating_add(1);
        self.still >= limit
    }

    /// Notes that the queue was reported.
    pub(super) fn set_reported(&mut self) {
        self.reported = true;
    }
}
