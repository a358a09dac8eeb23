// SPDX-License-Identifier: GPL-2.0

//! Watchdog state of a queue: its pointers, and the number of checks without progress.

use rkfd_abi::{
    aql::{barrier, header, signal, PACKET_SIZE},
    sdma::{op, HEADER_OP},
};

/// Pointers of a queue in memory, and the packet at the read pointer.
#[derive(Clone, Copy)]
pub(super) struct Pointers {
    pub(super) rptr: u64,
    pub(super) wptr: u64,
    pub(super) header: u32,
    ready: bool,
}

/// Returns whether an AQL packet is ready to be processed: a kernel dispatch, or a barrier whose
/// dependencies are met. Other packets may wait for the CPU, and PM4 in vendor packets for memory.
/// `None` if `read` returns `None`.
fn is_ready_aql(at: u64, packet: u32, read: impl Fn(u64) -> Option<u64>) -> Option<bool> {
    let all = match header::TYPE.get(packet) {
        header::TYPE_KERNEL_DISPATCH => return Some(true),
        header::TYPE_BARRIER_AND => true,
        header::TYPE_BARRIER_OR => false,
        _ => return Some(false),
    };
    let mut first = at.checked_add(barrier::DEP_SIGNAL as u64)?;
    let (mut done, mut open) = (false, false);
    for _ in 0..barrier::DEP_SIGNALS {
        let dependency = read(first)?;
        first = first.checked_add(8)?;
        if dependency == 0 {
            continue;
        }
        match read(dependency.checked_add(signal::VALUE as u64)?)? {
            0 => done = true,
            _ => open = true,
        }
    }
    Some(!open || (done && !all))
}

/// Returns whether an SDMA packet completes without waiting for memory. An IB may contain packets
/// that wait, and an atomic may loop until it succeeds.
fn is_ready_sdma(packet: u32) -> bool {
    let waits = [
        op::INDIRECT,
        op::SEM,
        op::POLL_REGMEM,
        op::COND_EXE,
        op::ATOMIC,
        op::PRE_EXE,
    ];
    !waits.contains(&(HEADER_OP.get(packet) as u8))
}

impl Pointers {
    /// Reads the pointers and the header with `read`, which returns the qword at an address; `None`
    /// if `read` returns `None`. Pointers are in bytes for an SDMA queue, in packets for an AQL
    /// queue.
    pub(super) fn read(
        is_sdma: bool,
        (rptr_va, wptr_va): (u64, u64),
        (ring_va, ring_size): (u64, u32),
        read: impl Fn(u64) -> Option<u64>,
    ) -> Option<Self> {
        let (rptr, wptr) = (read(rptr_va)?, read(wptr_va)?);
        let unit = if is_sdma { 1 } else { PACKET_SIZE as u64 };
        let at = rptr.checked_rem(u64::from(ring_size) / unit)? * unit;
        let at = ring_va.checked_add(at)?;
        let word = (read(at & !7)? >> (8 * (at & 4))) as u32;
        let header = if is_sdma { word } else { word & 0xffff };
        let ready = rptr < wptr
            && match is_sdma {
                true => is_ready_sdma(header),
                false => is_ready_aql(at, header, read)?,
            };
        Some(Self {
            rptr,
            wptr,
            header,
            ready,
        })
    }
}

/// Watchdog state of a queue.
#[derive(Default)]
pub(super) struct Watch {
    rptr: u64,
    /// Successive checks at which the read pointer was `rptr`, and nothing was executed.
    still: u32,
    reported: bool,
}

impl Watch {
    /// Compares the pointers with those of the last check. Returns whether the queue may be stalled
    /// and is not reported yet.
    pub(super) fn look(&mut self, now: &Pointers) -> bool {
        if self.rptr != now.rptr || now.rptr == now.wptr {
            *self = Self {
                rptr: now.rptr,
                ..Self::default()
            };
            // Progress, or an empty ring: start over.
            return false;
        }
        if !now.ready {
            self.still = 0;
        }
        now.ready && !self.reported
    }

    /// Resets the count of checks without progress: the queue is busy, or not mapped.
    pub(super) fn restart(&mut self) {
        self.still = 0;
    }

    /// Counts a check at which the queue was mapped and nothing was executed. Returns whether the
    /// count has reached `limit`.
    pub(super) fn stands(&mut self, limit: u32) -> bool {
        self.still = self.still.saturating_add(1);
        self.still >= limit
    }

    /// Records that the queue was reported.
    pub(super) fn set_reported(&mut self) {
        self.reported = true;
    }
}
