// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames about queues: add, remove, suspend, resume, reset.

use std::time::{Duration, Instant};

use gpu_regs::gc_12_0_0 as gc;
use rkfd_abi::bits::join;
use rkfd_abi::doorbell::{self, navi10};
use rkfd_abi::mes::{self, op, queue_type, Frame, FRAME_DWORDS};
use rkfd_abi::mqd::{v12, v12_sdma};
use rkfd_abi::pte;

use super::context::{self, Debugger};
use super::error::FrameError;
use super::frames::reachable;
use super::schedule::{Process, UserQueue, Why};
use super::{FrameResult, Hardware, Load, Mes, Progress, LOOK, PATIENCE};
use crate::engines::cp::env::Env;
use crate::engines::cp::regs::Slot;
use crate::engines::cp::save::LoadError;
use crate::{event, strict};

type Words = [u32; FRAME_DWORDS];

/// A kernel queue, in the slot that the driver chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legacy {
    slot: Slot,
    doorbell: u32,
    leaving: bool,
}

/// Returns whether a frame is about user queues; fault injection applies to those.
pub(super) fn is_about_user_queues(shape: &Frame, words: &Words) -> bool {
    match shape.opcode {
        op::ADD_QUEUE => mes::add_queue::MAP_LEGACY_KQ.get(words) == 0,
        op::REMOVE_QUEUE => mes::remove_queue::UNMAP_LEGACY_QUEUE.get(words) == 0,
        op::SUSPEND | op::RESUME | op::RESET => true,
        _ => false,
    }
}

fn slot_of(kind: u32, pipe: u32, queue: u32) -> Option<Slot> {
    match (u8::try_from(kind).ok()?, pipe, queue) {
        (queue_type::SCHQ, mes::PIPE_SCHED, 0) => Some(Slot::new(2, pipe, 0)),
        (queue_type::COMPUTE, 0..=1, 0..=3) => Some(Slot::new(0, pipe, queue)),
        _ => None,
    }
}

impl Mes {
    fn patience(&self, pipe: u32) -> Duration {
        self.pipes[pipe as usize].patience.unwrap_or(PATIENCE)
    }

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

    /// Parses the queue of an ADD_QUEUE, and validates it.
    fn read_queue(&self, env: &dyn Env, words: &Words) -> Result<UserQueue, FrameError> {
        use mes::add_queue as aq;
        let kind = aq::QUEUE_TYPE.get(words) as u8;
        if kind != queue_type::COMPUTE && kind != queue_type::SDMA {
            return Err(FrameError::QueueType { kind });
        }
        if aq::IS_KFD_PROCESS.get(words) == 0 {
            return Err(FrameError::Unsupported {
                name: "not a KFD queue",
            });
        }
        for quantum in [aq::PROCESS_QUANTUM, aq::GANG_QUANTUM] {
            if quantum.get(words) == 0 {
                return Err(FrameError::NoQuantum { name: quantum.name });
            }
        }
        let level = aq::GANG_GLOBAL_PRIORITY_LEVEL.get(words);
        let inner = aq::INPROCESS_GANG_PRIORITY.get(words);
        if level as usize >= mes::PRIORITY_LEVELS || inner as usize >= mes::PRIORITY_LEVELS {
            return Err(FrameError::Priority { level, inner });
        }
        let (process, gang) = (
            aq::PROCESS_CONTEXT_ADDR.get(words),
            aq::GANG_CONTEXT_ADDR.get(words),
        );
        if process == gang || process & 0xfff != 0 || gang & 0xfff != 0 {
            return Err(FrameError::Contexts { process, gang });
        }
        for (what, at) in [("process context", process), ("gang context", gang)] {
            if let Err(fault) = reachable(env, at) {
                return Err(FrameError::Memory { what: what, fault });
            }
        }
        if let Some(other) = self.queues.iter().find(|q| q.gang == gang) {
            return Err(FrameError::GangExists {
                gang,
                doorbell: other.doorbell,
            });
        }
        let doorbell = aq::DOORBELL_OFFSET.get(words);
        let known = self.queues.iter().any(|q| q.doorbell == doorbell)
            || self.legacy.iter().any(|l| l.doorbell == doorbell);
        if known {
            return Err(FrameError::DoorbellExists { doorbell });
        }
        let to_cp = doorbell::navi10_routes_to_cp(doorbell / doorbell::DWORDS);
        if doorbell % doorbell::DWORDS != 0 || to_cp != (kind == queue_type::COMPUTE) {
            return Err(FrameError::DoorbellRoute { doorbell, kind });
        }
        let mqd = aq::MQD_ADDR.get(words);
        if self.queues.iter().any(|q| q.mqd == mqd) {
            return Err(FrameError::MqdExists { mqd });
        }
        let wptr = aq::WPTR_ADDR.get(words);
        if wptr % 8 != 0 {
            return Err(FrameError::WptrAlignment { wptr });
        }
        // It has to be an address in VMID 0, not one of the process.
        if let Err(fault) = reachable(env, wptr) {
            return Err(FrameError::Memory {
                what: "write pointer",
                fault,
            });
        }
        let sdma = self.check_mqd(env, words, mqd, wptr)?;
        Ok(UserQueue {
            doorbell,
            aql: aq::IS_AQL_QUEUE.get(words) != 0,
            dwords: aq::GDS_SIZE.get(words).max(1),
            sdma,
            mqd,
            wptr,
            process,
            gang,
            level: level as usize,
            inner,
            slot: None,
            leaving: None,
            since: Instant::now(),
            ready: true,
            seen: 0,
            suspended: aq::IS_GANG_SUSPENDED.get(words) != 0,
            hung: false,
            parked: false,
        })
    }

    /// Compares an MQD with its frame. Returns the slot of an SDMA queue.
    fn check_mqd(
        &self,
        env: &dyn Env,
        words: &Words,
        mqd: u64,
        wptr: u64,
    ) -> Result<Option<Slot>, FrameError> {
        use mes::add_queue as aq;
        let compute = aq::QUEUE_TYPE.get(words) == u32::from(queue_type::COMPUTE);
        let dwords = if compute {
            v12::Mqd::DWORDS
        } else {
            v12_sdma::SdmaMqd::DWORDS
        };
        let image = match env.read_dwords(0, mqd, dwords) {
            Ok(image) => image,
            Err(fault) => return Err(FrameError::Memory { what: "MQD", fault }),
        };
        let size = aq::GDS_SIZE.get(words);
        if !compute {
            use v12_sdma::dw;
            let place = (image[dw::sdma_engine_id], image[dw::sdma_queue_id]);
            let slot = self
                .resources
                .sdma
                .iter()
                .find(|s| s.as_rlc().map(|(e, q)| (u32::from(e), u32::from(q))) == Some(place));
            let Some(slot) = slot else {
                return Err(FrameError::MqdSlot {
                    mqd,
                    queue: place.1,
                    engine: place.0,
                });
            };
            if let Some(other) = self.queues.iter().find(|q| q.sdma == Some(*slot)) {
                return Err(FrameError::SdmaSlotTaken {
                    slot: *slot,
                    doorbell: other.doorbell,
                });
            }
            return Ok(Some(*slot));
        }
        use v12::dw;
        let control = image[dw::cp_hqd_pq_control];
        let ring = 2u32 << gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.get(control);
        if ring != size {
            return Err(FrameError::MqdRing { mqd, ring, size });
        }
        let aql = image[dw::cp_hqd_aql_control] & 1 != 0;
        if aql != (aq::IS_AQL_QUEUE.get(words) != 0) {
            return Err(FrameError::MqdAql { mqd, aql });
        }
        let poll = join(
            image[dw::cp_hqd_pq_wptr_poll_addr_lo],
            image[dw::cp_hqd_pq_wptr_poll_addr_hi],
        );
        if (poll ^ wptr) & 0xfff != 0 {
            return Err(FrameError::MqdWptr { mqd, poll, wptr });
        }
        let doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET
            .get(image[dw::cp_hqd_pq_doorbell_control]);
        if doorbell != aq::DOORBELL_OFFSET.get(words) {
            return Err(FrameError::MqdDoorbell { mqd, doorbell });
        }
        Ok(None)
    }

    /// Registers the process of an ADD_QUEUE, or checks that it matches the known one.
    fn join_process(&mut self, hw: &mut dyn Hardware, words: &Words) -> Result<(), FrameError> {
        use mes::add_queue as aq;
        let at = aq::PROCESS_CONTEXT_ADDR.get(words);
        let id = aq::PROCESS_ID.get(words);
        let root = aq::PAGE_TABLE_BASE_ADDR.get(words);
        let Some(pasid) = u16::try_from(id).ok().filter(|id| *id != 0) else {
            return Err(FrameError::Process { id });
        };
        if root & pte::VALID == 0 {
            return Err(FrameError::Root { root });
        }
        let (start, end) = (
            aq::PROCESS_VA_START.get(words),
            aq::PROCESS_VA_END.get(words),
        );
        if end <= start || end >= 1 << 36 {
            return Err(FrameError::VaRange { start, end });
        }
        let (tba, tma) = (aq::TRAP_HANDLER_ADDR.get(words), aq::TMA_ADDR.get(words));
        if tba & 0xff != 0 || tma & 0xff != 0 {
            return Err(FrameError::TrapHandler { tba, tma });
        }
        let cntl = aq::VM_CONTEXT_CNTL.get(words);
        if !gc::GCVM_CONTEXT1_CNTL__ENABLE_CONTEXT.is_set(cntl) {
            return Err(FrameError::VmContextCntl { cntl });
        }
        let live = self.queues.iter().any(|q| q.process == at);
        let other = |(p, v): (&u64, &Process)| {
            *p != at && v.pasid == pasid && self.queues.iter().any(|q| q.process == *p)
        };
        if self.processes.iter().any(other) {
            return Err(FrameError::ContextDiffers { pasid });
        }
        let mut process = Process {
            pasid,
            root,
            tba,
            tma,
            trap_en: aq::TRAP_EN.get(words) != 0,
            vm_context_cntl: cntl,
            sh_mem_config: aq::FULL_SH_MEM_CONFIG_DATA.get(words),
            debugger: Debugger::default(),
            quantum: Duration::from_nanos(aq::PROCESS_QUANTUM.get(words).saturating_mul(100)),
            vmid: None,
        };
        let env = hw.env();
        if live {
            let old = &self.processes[&at];
            if old.pasid != pasid {
                return Err(FrameError::ContextOwner {
                    at,
                    pasid: old.pasid,
                });
            }
            context::check_process(env, at, pasid);
            process.debugger = old.debugger;
            process.vmid = old.vmid;
            let changed = *old != process;
            let on = self
                .queues
                .iter()
                .any(|q| q.process == at && q.slot.is_some());
            if changed && on && old.root != root {
                return Err(FrameError::MappedRoot {
                    root,
                    mapped: old.root,
                });
            }
            if changed {
                if let Some(vmid) = process.vmid {
                    hw.claim(vmid, pasid, root);
                }
                process.program(hw.env());
            }
        } else {
            let keep = aq::SKIP_PROCESS_CTX_CLEAR.get(words) != 0;
            let notes = match context::read_process(env, at) {
                Ok(notes) => notes,
                Err(fault) => {
                    return Err(FrameError::Memory {
                        what: "process context",
                        fault,
                    })
                }
            };
            match notes {
                Some((owner, debugger)) if keep && (owner == pasid || owner == 0) => {
                    process.debugger = debugger;
                }
                _ if keep => strict!(
                    env.strict(),
                    "mes",
                    "process {pasid:#x} uses its context {at:#x}, which was never set up"
                ),
                _ => {}
            }
        }
        if let Err(fault) = context::write_process(hw.env(), at, pasid, &process.debugger) {
            return Err(FrameError::Memory {
                what: "process context",
                fault,
            });
        }
        self.processes.insert(at, process);
        Ok(())
    }

    fn map_legacy(&mut self, hw: &mut dyn Hardware, pipe: u32, words: &Words) -> FrameResult {
        use mes::add_queue as aq;
        let kind = aq::QUEUE_TYPE.get(words);
        let schq = kind == u32::from(queue_type::SCHQ);
        let Some(slot) = slot_of(kind, aq::PIPE_ID.get(words), aq::QUEUE_ID.get(words)) else {
            return Err(FrameError::NoKernelSlot { kind });
        };
        if schq != (pipe == mes::PIPE_KIQ) {
            return Err(FrameError::KernelQueuePipe);
        }
        if self.resources.compute.contains(&slot) {
            return Err(FrameError::SlotReserved { slot });
        }
        let doorbell = aq::DOORBELL_OFFSET.get(words);
        if schq && doorbell != navi10::MES_RING0 * doorbell::DWORDS {
            return Err(FrameError::KernelDoorbell { doorbell });
        }
        if hw.is_mapped(slot) {
            return Err(FrameError::SlotTaken { slot });
        }
        let load = Load {
            slot,
            mqd: aq::MQD_ADDR.get(words),
            wptr: aq::WPTR_ADDR.get(words),
            doorbell,
            vmid: 0,
            pasid: 0,
            ring: schq,
        };
        if let Err(fault) = reachable(hw.env(), load.wptr) {
            return Err(FrameError::Memory {
                what: "write pointer",
                fault,
            });
        }
        match hw.load(&load) {
            Ok(()) => {
                self.legacy.push(Legacy {
                    slot,
                    doorbell,
                    leaving: false,
                });
                Ok(Progress::Done)
            }
            Err(LoadError::Invalid) => Err(FrameError::Mqd { mqd: load.mqd }),
            Err(LoadError::Fault { fault }) => Err(FrameError::Memory { what: "MQD", fault }),
        }
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
            self.send_away(hw, n, Why::Remove);
            if self.waited(pipe) < self.patience(pipe) {
                return Ok(Progress::Wait(LOOK));
            }
            self.queues[n].hung = true;
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

    fn unmap_legacy(&mut self, hw: &mut dyn Hardware, pipe: u32, words: &Words) -> FrameResult {
        use mes::remove_queue as rq;
        let kind = rq::QUEUE_TYPE.get(words);
        let Some(slot) = slot_of(kind, rq::PIPE_ID.get(words), rq::QUEUE_ID.get(words)) else {
            return Err(FrameError::NoKernelSlot { kind });
        };
        let doorbell = rq::DOORBELL_OFFSET.get(words);
        let found = |l: &Legacy| l.slot == slot && l.doorbell == doorbell;
        // The scheduler's own ring is unmapped through the other pipe, and its state is dropped.
        let Some(n) = self.legacy.iter().position(found) else {
            return Err(FrameError::NoKernelQueue { doorbell, slot });
        };
        let schq = kind == u32::from(queue_type::SCHQ);
        if schq != (pipe == mes::PIPE_KIQ) {
            return Err(FrameError::KernelQueuePipe);
        }
        if schq && self.queues.iter().any(|q| q.slot.is_some()) {
            strict!(
                hw.env().strict(),
                "mes",
                "the scheduler's ring is unmapped while user queues are mapped"
            );
        }
        if !std::mem::replace(&mut self.legacy[n].leaving, true) {
            hw.begin_unload(slot, false);
        }
        if hw.is_mapped(slot) {
            if self.waited(pipe) < self.patience(pipe) {
                return Ok(Progress::Wait(LOOK));
            }
            return Err(FrameError::KernelPreemption { slot });
        }
        self.legacy.remove(n);
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
        let meant: Vec<usize> = (0..self.queues.len())
            .filter(|&n| {
                let queue = &self.queues[n];
                match (all, sdma) {
                    (false, false) => queue.gang == gang,
                    _ => queue.sdma.is_some() && sdma || queue.sdma.is_none() && all,
                }
            })
            .collect();
        if !all && !sdma && meant.is_empty() {
            return Err(FrameError::NoGang { gang });
        }
        for &n in &meant {
            self.queues[n].suspended = true;
            self.send_away(hw, n, Why::Suspend);
        }
        let stuck: Vec<usize> = meant
            .into_iter()
            .filter(|&n| self.queues[n].slot.is_some_and(|s| hw.is_mapped(s)))
            .collect();
        if !stuck.is_empty() {
            if self.waited(pipe) < self.patience(pipe) {
                return Ok(Progress::Wait(LOOK));
            }
            for &n in &stuck {
                self.queues[n].hung = true;
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
        let meant: Vec<usize> = if re::RESET_QUEUE_ONLY.get(words) != 0 {
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
                q.kind() == kind && (q.hung || q.leaving == Some(Why::Reset))
            };
            let hung: Vec<usize> = (0..self.queues.len()).filter(hung).collect();
            self.report_hung(hw.env(), &hung, re::DOORBELL_OFFSET_ADDR.get(words))?;
            if re::HANG_DETECT_ONLY.get(words) != 0 {
                return Ok(Progress::Done);
            }
            hung
        };
        for &n in &meant {
            if self.queues[n].leaving != Some(Why::Reset) {
                self.send_away(hw, n, Why::Reset);
            }
            self.queues[n].parked = true;
        }
        let stays = |n: &usize| self.queues[*n].slot.is_some_and(|s| hw.is_mapped(s));
        if meant.iter().any(stays) {
            if self.waited(pipe) < self.patience(pipe) {
                return Ok(Progress::Wait(LOOK));
            }
            return Err(FrameError::Reset);
        }
        for n in meant {
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
