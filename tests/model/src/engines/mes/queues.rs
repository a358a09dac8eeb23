// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames about queues: add, remove, suspend, resume, reset.

mod add;
pub mod kernel;

use std::time::{Duration, Instant};

use rkfd_abi::mes::{self, op, Frame, FRAME_DWORDS};

use super::context;
use super::error::FrameError;
use super::schedule::UnmapReason;
use super::{FrameResult, Hardware, Mes, Progress, POLL, UNMAP_TIMEOUT};
use crate::engines::cp::env::Env;
use crate::event;

type Words = [u32; FRAME_DWORDS];

/// Returns whether fault injection applies to a frame: it is about user queues, or has the opcode
/// that a knob selects.
pub(super) fn may_fail(env: &dyn Env, shape: &Frame, words: &Words) -> bool {
    let selected = match env.knobs().mes_op.get() {
        0 => return is_about_user_queues(shape, words),
        selected => selected,
    };
    let own = match shape.misc {
        Some(misc) => 0x100 | u64::from(misc),
        None if shape.opcode == 0 => 0x200,
        None => shape.opcode.into(),
    };
    if own == selected {
        env.knobs().mes_op.hit();
    }
    own == selected
}

/// Returns whether a frame is about user queues.
pub(super) fn is_about_user_queues(shape: &Frame, words: &Words) -> bool {
    match shape.opcode {
        op::ADD_QUEUE => mes::add_queue::MAP_LEGACY_KQ.get(words) == 0,
        op::REMOVE_QUEUE => mes::remove_queue::UNMAP_LEGACY_QUEUE.get(words) == 0,
        op::SUSPEND | op::RESUME | op::RESET => true,
        _ => false,
    }
}

impl Mes {
    /// Returns the timeout for unmapping a queue.
    fn unmap_timeout(&self, pipe: u32) -> Duration {
        self.pipes[pipe as usize]
            .unmap_timeout
            .unwrap_or(UNMAP_TIMEOUT)
    }

    /// Marks a queue that was not preempted in time.
    fn hang(&mut self, env: &dyn Env, n: usize) {
        self.queues[n].hung = true;
        let knob = &env.knobs().hws_stuck_xcc;
        if knob.on() {
            knob.hit();
        }
    }

    /// Returns how long the pending frame of a pipe has been tried.
    fn waited(&self, pipe: u32) -> Duration {
        let since = self.pipes[pipe as usize].since;
        since.map_or(Duration::ZERO, |s| s.elapsed())
    }

    /// Executes ADD_QUEUE.
    pub(super) fn add_queue(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::add_queue as aq;
        for field in [
            aq::PAGING,
            aq::DEBUG_VMID,
            aq::PROGRAM_GDS,
            aq::IS_TMZ_QUEUE,
            aq::MAP_KIQ_UTILITY_QUEUE,
            aq::IS_LONG_RUNNING,
            aq::IS_DWM_QUEUE,
            aq::GWS_SIZE,
            aq::OA_MASK,
            aq::PROCESS_CONTEXT_ARRAY_INDEX,
            aq::GANG_CONTEXT_ARRAY_INDEX,
        ] {
            if field.get(words) != 0 {
                return Err(FrameError::Unsupported { name: field.name });
            }
        }
        if aq::MAP_LEGACY_KQ.get(words) != 0 {
            return self.map_legacy(hw, pipe, words);
        }
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::UserQueuePipe);
        }
        let queue = self.read_queue(hw.env(), words)?;
        self.join_process(hw, words)?;
        let pasid = aq::PROCESS_ID.get(words) as u16;
        if let Err(fault) = context::write_gang(hw.env(), queue.gang, pasid, queue.process) {
            return Err(FrameError::Memory {
                what: "gang context",
                fault,
            });
        }
        event!(
            hw.env().trace(),
            "mes",
            "queue",
            "doorbell={:#x} pasid={pasid:#x} type={} queues={}",
            queue.doorbell,
            queue.kind(),
            self.queues.len() + 1
        );
        hw.expect(queue.doorbell, queue.sdma.is_some());
        self.queues.push(queue);
        // A queue that fits is mapped before the frame completes.
        self.schedule(hw);
        Ok(Progress::Done)
    }

    /// Executes REMOVE_QUEUE.
    pub(super) fn remove_queue(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::remove_queue as rq;
        for field in [rq::UNMAP_KIQ_UTILITY_QUEUE, rq::PREEMPT_LEGACY_GFX_QUEUE] {
            if field.get(words) != 0 {
                return Err(FrameError::Unsupported { name: field.name });
            }
        }
        if rq::UNMAP_LEGACY_QUEUE.get(words) != 0 {
            return self.unmap_legacy(hw, pipe, words);
        }
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::UserQueuePipe);
        }
        let doorbell = rq::DOORBELL_OFFSET.get(words);
        let Some(n) = self.queues.iter().position(|q| q.doorbell == doorbell) else {
            return Err(FrameError::NoQueue { doorbell });
        };
        let queue = &self.queues[n];
        let gang = rq::GANG_CONTEXT_ADDR.get(words);
        if gang != queue.gang || rq::QUEUE_TYPE.get(words) != u32::from(queue.kind()) {
            return Err(FrameError::QueueMismatch {
                doorbell,
                gang: queue.gang,
                kind: queue.kind(),
            });
        }
        // The slot may have become free since the last pass.
        let mapped = queue.slot.is_some_and(|slot| hw.is_mapped(slot));
        if mapped {
            if rq::REMOVE_QUEUE_AFTER_RESET.get(words) != 0 {
                return Err(FrameError::NotReset);
            }
            self.start_unmap(hw, n, UnmapReason::Remove);
            if self.waited(pipe) < self.unmap_timeout(pipe) {
                return Ok(Progress::Wait(POLL));
            }
            self.hang(hw.env(), n);
            return Err(FrameError::Preemption { doorbell });
        }
        let queue = self.queues.remove(n);
        let pasid = self.processes.get(&queue.process).map_or(0, |p| p.pasid);
        context::check_gang(hw.env(), queue.gang, pasid);
        event!(
            hw.env().trace(),
            "mes",
            "queue_gone",
            "doorbell={doorbell:#x} pasid={pasid:#x} queues={}",
            self.queues.len()
        );
        Ok(Progress::Done)
    }

    /// Executes SUSPEND.
    pub(super) fn suspend(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::suspend as su;
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::WrongPipe);
        }
        if su::QUERY_STATUS.get(words) != 0 {
            return Err(FrameError::Unsupported {
                name: su::QUERY_STATUS.name,
            });
        }
        let all = su::SUSPEND_ALL_GANGS.get(words) != 0;
        let sdma = su::SUSPEND_ALL_SDMA_GANGS.get(words) != 0;
        let gang = su::GANG_CONTEXT_ADDR.get(words);
        let selected: Vec<usize> = (0..self.queues.len())
            .filter(|&n| {
                let queue = &self.queues[n];
                match (all, sdma) {
                    (false, false) => queue.gang == gang,
                    _ => queue.sdma.is_some() && sdma || queue.sdma.is_none() && all,
                }
            })
            .collect();
        if !all && !sdma && selected.is_empty() {
            return Err(FrameError::NoGang { gang });
        }
        for &n in &selected {
            self.queues[n].suspended = true;
            self.start_unmap(hw, n, UnmapReason::Suspend);
        }
        let stuck: Vec<usize> = selected
            .into_iter()
            .filter(|&n| self.queues[n].slot.is_some_and(|s| hw.is_mapped(s)))
            .collect();
        if !stuck.is_empty() {
            if self.waited(pipe) < self.unmap_timeout(pipe) {
                return Ok(Progress::Wait(POLL));
            }
            for &n in &stuck {
                self.hang(hw.env(), n);
            }
            return Err(FrameError::Suspend { count: stuck.len() });
        }
        let (to, value) = (
            su::SUSPEND_FENCE_ADDR.get(words),
            su::SUSPEND_FENCE_VALUE.get(words),
        );
        if to != 0 {
            if let Err(fault) = hw.env().write32(0, to, value) {
                return Err(FrameError::Memory {
                    what: "fence",
                    fault,
                });
            }
        }
        Ok(Progress::Done)
    }

    /// Executes RESUME.
    pub(super) fn resume(&mut self, pipe: u32, words: &Words) -> FrameResult {
        use mes::resume as re;
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::WrongPipe);
        }
        let all = re::RESUME_ALL_GANGS.get(words) != 0;
        let gang = re::GANG_CONTEXT_ADDR.get(words);
        let mut count = 0;
        for queue in self.queues.iter_mut().filter(|q| all || q.gang == gang) {
            queue.suspended = false;
            queue.since = Instant::now();
            count += 1;
        }
        match all || count != 0 {
            true => Ok(Progress::Done),
            false => Err(FrameError::NoGang { gang }),
        }
    }

    /// Executes RESET.
    pub(super) fn reset_queues(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::reset as re;
        if pipe != mes::PIPE_SCHED {
            return Err(FrameError::WrongPipe);
        }
        if re::RESET_LEGACY_GFX.get(words) != 0 {
            return Err(FrameError::Unsupported {
                name: re::RESET_LEGACY_GFX.name,
            });
        }
        let modes = [
            re::RESET_QUEUE_ONLY,
            re::HANG_DETECT_THEN_RESET,
            re::HANG_DETECT_ONLY,
        ];
        if modes.iter().filter(|m| m.get(words) != 0).count() != 1 {
            return Err(FrameError::ResetModes);
        }
        let kind = re::QUEUE_TYPE.get(words) as u8;
        let selected: Vec<usize> = if re::RESET_QUEUE_ONLY.get(words) != 0 {
            let doorbell = re::DOORBELL_OFFSET.get(words);
            let Some(n) = self.queues.iter().position(|q| q.doorbell == doorbell) else {
                return Err(FrameError::NoQueue { doorbell });
            };
            if self.queues[n].kind() != kind {
                return Err(FrameError::QueueType { kind });
            }
            vec![n]
        } else {
            let hung = |n: &usize| {
                let q = &self.queues[*n];
                q.kind() == kind && (q.hung || q.leaving == Some(UnmapReason::Reset))
            };
            let hung: Vec<usize> = (0..self.queues.len()).filter(hung).collect();
            self.report_hung(hw.env(), &hung, re::DOORBELL_OFFSET_ADDR.get(words))?;
            if re::HANG_DETECT_ONLY.get(words) != 0 {
                return Ok(Progress::Done);
            }
            hung
        };
        for &n in &selected {
            if self.queues[n].leaving != Some(UnmapReason::Reset) {
                self.start_unmap(hw, n, UnmapReason::Reset);
            }
            self.queues[n].parked = true;
        }
        let stays = |n: &usize| self.queues[*n].slot.is_some_and(|s| hw.is_mapped(s));
        if selected.iter().any(stays) {
            if self.waited(pipe) < self.unmap_timeout(pipe) {
                return Ok(Progress::Wait(POLL));
            }
            return Err(FrameError::Reset);
        }
        for n in selected {
            self.queues[n].hung = false;
        }
        Ok(Progress::Done)
    }

    /// Reports hung queues to the driver: doorbells, then types and slots.
    fn report_hung(&self, env: &dyn Env, hung: &[usize], to: u64) -> Result<(), FrameError> {
        let count = self.resources.hqds;
        let mut words = vec![mes::NO_DOORBELL; 2 * count];
        for (i, &n) in hung.iter().take(count).enumerate() {
            let queue = &self.queues[n];
            let Some(slot) = queue.slot else {
                continue;
            };
            let (pipe, hqd) = match slot.as_rlc() {
                Some((engine, rlc)) => (engine.into(), rlc.into()),
                None => (slot.pipe(), slot.queue()),
            };
            words[i] = queue.doorbell;
            words[count + i] = mes::HUNG_QUEUE_TYPE.put(queue.kind().into())
                | mes::HUNG_PIPE.put(pipe)
                | mes::HUNG_HQD.put(hqd);
        }
        event!(env.trace(), "mes", "hung", "queues={}", hung.len());
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        match env.write(0, to, &bytes) {
            Ok(()) => Ok(()),
            Err(fault) => Err(FrameError::Memory {
                what: "list of hung queues",
                fault,
            }),
        }
    }
}
