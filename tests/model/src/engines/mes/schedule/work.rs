// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Detection of work in unmapped queues: doorbells and write pointers.

use std::time::{Duration, Instant};

use rkfd_abi::bits::join;
use rkfd_abi::mes;
use rkfd_abi::mqd::v12;
use rkfd_abi::mqd::v12_sdma::dw as sdma_dw;

use super::UserQueue;
use crate::engines::cp::env::Env;
use crate::engines::mes::{Hardware, Mes};
use crate::{event, strict};

/// Poll interval for write pointers of unmapped queues.
const POLL: Duration = Duration::from_millis(5);
impl Mes {
    /// Handles a doorbell of an unmapped queue. Returns whether it belongs to a known queue or a
    /// priority level.
    pub fn doorbell(&mut self, hw: &dyn Hardware, index: u32, value: u64) -> bool {
        let env = hw.env();
        let level = (0..mes::PRIORITY_LEVELS).find(|&n| env.mes().aggregated(n) == Some(index));
        if let Some(level) = level {
            if self.resources.aggregated[level] != index {
                strict!(
                    env.strict(),
                    "mes",
                    "aggregated doorbell {index:#x} of level {level}: {:#x} in SET_HW_RSRC",
                    self.resources.aggregated[level]
                );
            }
            event!(
                env.trace(),
                "mes",
                "aggregated_doorbell",
                "index={index:#x} level={level}"
            );
            self.check_level(env, level);
            return true;
        }
        let Some(queue) = self.queues.iter_mut().find(|q| q.doorbell == index) else {
            return false;
        };
        let accepted =
            self.resources.doorbells && env.mes().unmapped_doorbells_enabled(env.strict());
        event!(
            env.trace(),
            "mes",
            "unmapped_doorbell",
            "doorbell={index:#x} value={value:#x} accepted={}",
            u8::from(accepted)
        );
        if accepted && !queue.ready {
            queue.ready = true;
            queue.since = Instant::now();
        }
        true
    }

    /// Checks which queues of a priority level have work.
    pub(in crate::engines::mes) fn check_level(&mut self, env: &dyn Env, level: usize) {
        for queue in self.queues.iter_mut().filter(|q| q.level == level) {
            check_queue(env, queue);
        }
    }

    /// Polls write pointers of queues whose doorbells do not reach the firmware.
    pub(super) fn poll(&mut self, env: &dyn Env) -> Option<Duration> {
        let deaf = !self.resources.doorbells;
        let quiet =
            |q: &UserQueue| q.slot.is_none() && !q.ready && !q.parked && (deaf || q.sdma.is_some());
        if !self.queues.iter().any(quiet) {
            self.polled = None;
            return None;
        }
        let now = Instant::now();
        if let Some(last) = self.polled {
            let left = POLL.saturating_sub(now.saturating_duration_since(last));
            if !left.is_zero() {
                return Some(left);
            }
        }
        self.polled = Some(now);
        for queue in self.queues.iter_mut().filter(|q| quiet(q)) {
            check_queue(env, queue);
        }
        Some(POLL)
    }
}

/// Checks an unmapped queue for work: its write pointer moved.
pub(super) fn check_queue(env: &dyn Env, queue: &mut UserQueue) {
    if queue.ready || queue.slot.is_some() {
        return;
    }
    let moved = env
        .read64(0, queue.wptr)
        .is_ok_and(|wptr| wptr != queue.seen);
    if moved {
        queue.ready = true;
        queue.since = Instant::now();
    }
}

/// Returns the write pointer of a compute queue when it was unmapped, in the units used in memory,
/// and whether the queue had work left.
pub(super) fn compute_wptr(env: &dyn Env, queue: &UserQueue) -> Option<(u64, bool)> {
    use v12::dw;
    let word = |n: usize| env.read32(0, queue.mqd + n as u64 * 4).ok();
    let wptr = join(word(dw::cp_hqd_pq_wptr_lo)?, word(dw::cp_hqd_pq_wptr_hi)?);
    let behind = (wptr as u32).wrapping_sub(word(dw::cp_hqd_pq_rptr)?);
    Some(match queue.aql {
        // The registers count dwords, the process packets.
        true => (wptr / 16, behind != 0),
        // The read pointer wraps with the ring, which is never full.
        false => (wptr, behind % queue.dwords != 0),
    })
}

/// Returns the read pointer of an SDMA queue when it was unmapped.
pub(super) fn sdma_rptr(env: &dyn Env, mqd: u64) -> Option<u64> {
    let word = |n: usize| env.read32(0, mqd + n as u64 * 4).ok();
    Some(join(
        word(sdma_dw::sdmax_rlcx_rb_rptr)?,
        word(sdma_dw::sdmax_rlcx_rb_rptr_hi)?,
    ))
}
