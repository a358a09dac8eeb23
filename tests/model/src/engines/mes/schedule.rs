// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The scheduler: assigns VMIDs to processes and HQD slots to queues.
//!
//! As long as everything fits, every queue is mapped. With oversubscription an idle queue is
//! unmapped when another needs its slot, and mapped again when its doorbell is rung; a busy one is
//! unmapped when its quantum expires, or at once for one of higher priority. Waiting raises the
//! priority over time, which prevents starvation. A mapped queue's process needs a VMID; when none
//! is free, all queues of another process are unmapped. SDMA queues have no doorbell that reaches
//! the firmware: their write pointers are polled.

mod work;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gpu_regs::gc_12_0_0 as gc;
use rkfd_abi::mes;

use super::context::Debugger;
use super::{Activity, Hardware, Load, Mes};
use crate::engines::cp::env::{client, Env};
use crate::engines::cp::fault::raise_of_driver;
use crate::engines::cp::save::LoadError;
use crate::engines::cp::slot::Slot;
use crate::{event, strict};
use work::{check_queue, compute_wptr, sdma_rptr};

/// Interval of scheduling passes with oversubscription.
const CROWDED: Duration = Duration::from_millis(1);
/// Waiting time that raises the priority by one.
const AGE: Duration = Duration::from_millis(50);

/// A process with queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// PASID.
    pub pasid: u16,
    /// Whether its queues are those of `/dev/kfd`.
    pub kfd: bool,
    /// Page-table root.
    pub root: u64,
    /// Trap handler.
    pub tba: u64,
    /// Trap handler memory.
    pub tma: u64,
    /// Traps enabled by ADD_QUEUE.
    pub trap_en: bool,
    /// `VM_CONTEXT_CNTL` of the VMID.
    pub vm_context_cntl: u32,
    /// `SH_MEM_CONFIG` of the VMID, if it differs from the driver's default.
    pub sh_mem_config: u32,
    /// Debugger settings.
    pub debugger: Debugger,
    /// Process quantum.
    pub quantum: Duration,
    /// VMID, if assigned.
    pub vmid: Option<u8>,
}

/// Reason for unmapping a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmapReason {
    /// Idle, while another queue waits.
    Idle,
    /// Quantum expired.
    Slice,
    /// Preempted by a queue of higher priority.
    Priority,
    /// Its process loses its VMID.
    Vmid,
    /// REMOVE_QUEUE.
    Remove,
    /// SUSPEND.
    Suspend,
    /// RESET.
    Reset,
}

/// A user queue.
#[derive(Debug, Clone)]
pub struct UserQueue {
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
    /// Whether its packets are AQL.
    pub aql: bool,
    /// Size of the ring in dwords.
    pub dwords: u32,
    /// SDMA queue: the slot that its MQD names.
    pub sdma: Option<Slot>,
    /// MQD, an address of VMID 0.
    pub mqd: u64,
    /// Write pointer, an address of VMID 0.
    pub wptr: u64,
    /// Address of the process context.
    pub process: u64,
    /// Address of the gang context.
    pub gang: u64,
    /// Gang priority level.
    pub level: usize,
    /// Priority in the level.
    pub inner: u32,
    /// Slot, if mapped.
    pub slot: Option<Slot>,
    /// Pending unmap.
    pub leaving: Option<UnmapReason>,
    /// When it was mapped, or began to wait.
    pub since: Instant,
    /// Whether it has, or may have, work.
    pub ready: bool,
    /// Write pointer known to the hardware when the queue became idle.
    pub seen: u64,
    /// Suspended by SUSPEND.
    pub suspended: bool,
    /// Unmapping timed out.
    pub hung: bool,
    /// Not to be mapped again: being removed, reset, or stopped by a fault.
    pub parked: bool,
}

impl UserQueue {
    fn weight(&self) -> u64 {
        self.level as u64 * 8 + u64::from(self.inner)
    }

    fn urgency(&self, now: Instant) -> u64 {
        let waited = now.saturating_duration_since(self.since);
        self.weight() + (waited.as_millis() / AGE.as_millis()) as u64
    }

    fn waits(&self) -> bool {
        self.slot.is_none() && self.ready && !self.suspended && !self.parked
    }

    /// Returns its type, as encoded in frames.
    pub fn kind(&self) -> u8 {
        match self.sdma {
            Some(_) => mes::queue_type::SDMA,
            None => mes::queue_type::COMPUTE,
        }
    }
}

impl Process {
    /// Programs its per-VMID registers.
    pub fn program(&self, env: &dyn Env) {
        let Some(vmid) = self.vmid else {
            return;
        };
        let trap = match self.trap_en || self.debugger.trap_en != 0 {
            true => gc::SPI_GDBG_PER_VMID_CNTL__TRAP_EN.mask,
            false => 0,
        };
        for (reg, value) in [
            (gc::regSQ_SHADER_TBA_LO, (self.tba >> 8) as u32),
            (gc::regSQ_SHADER_TBA_HI, (self.tba >> 40) as u32),
            (gc::regSQ_SHADER_TMA_LO, (self.tma >> 8) as u32),
            (gc::regSQ_SHADER_TMA_HI, (self.tma >> 40) as u32),
            (gc::regSPI_GDBG_PER_VMID_CNTL, self.debugger.spi_gdbg | trap),
            (gc::regTCP_WATCH0_CNTL, self.debugger.watch[0]),
            (gc::regTCP_WATCH1_CNTL, self.debugger.watch[1]),
            (gc::regTCP_WATCH2_CNTL, self.debugger.watch[2]),
            (gc::regTCP_WATCH3_CNTL, self.debugger.watch[3]),
        ] {
            env.set_vmid_reg(vmid, reg, value);
        }
        if self.sh_mem_config != 0 {
            env.set_vmid_reg(vmid, gc::regSH_MEM_CONFIG, self.sh_mem_config);
        } else if env.vmid_reg(vmid, gc::regSH_MEM_CONFIG) == 0 {
            strict!(
                env.strict(),
                "mes",
                "SH_MEM_CONFIG of VMID {vmid} was never set"
            );
        }
    }
}

impl Mes {
    /// Runs a scheduling pass: maps and unmaps queues. Returns when to run it again.
    pub(super) fn schedule(&mut self, hw: &mut dyn Hardware) -> Option<Duration> {
        if self.pipes.iter().any(|p| p.hangs) || !hw.env().mes().runs(mes::PIPE_SCHED) {
            return None;
        }
        self.settle(hw);
        let poll = self.poll(hw.env());
        let now = Instant::now();
        let mut waiting: Vec<usize> = (0..self.queues.len())
            .filter(|&n| self.queues[n].waits())
            .collect();
        waiting.sort_by_key(|&n| {
            let queue = &self.queues[n];
            (std::cmp::Reverse(queue.urgency(now)), queue.since)
        });
        let mut reserved = Reserved::default();
        let mut left = false;
        for n in waiting {
            left |= !self.place(hw, n, now, &mut reserved);
        }
        match left {
            true => Some(CROWDED),
            false => poll,
        }
    }

    /// Handles queues that are no longer mapped.
    fn settle(&mut self, hw: &dyn Hardware) {
        for queue in &mut self.queues {
            let Some(slot) = queue.slot.filter(|s| !hw.is_mapped(*s)) else {
                continue;
            };
            queue.slot = None;
            queue.hung = false;
            queue.since = Instant::now();
            let why = queue.leaving.take();
            event!(
                hw.env().trace(),
                "mes",
                "unmapped",
                "doorbell={:#x} slot={slot} why={why:?}",
                queue.doorbell
            );
            match why {
                // `None`: unmapped by registers.
                None | Some(UnmapReason::Reset | UnmapReason::Remove) => queue.parked = true,
                Some(_) if queue.sdma.is_some() => {
                    let rptr = sdma_rptr(hw.env(), queue.mqd);
                    let wptr = hw.env().read64(0, queue.wptr).ok();
                    queue.ready = rptr.is_none() || rptr != wptr;
                    queue.seen = wptr.unwrap_or(0);
                }
                Some(UnmapReason::Idle) => {
                    // A doorbell rung before the unmap completed is in the MQD, a later one only in
                    // memory.
                    let (seen, left) = compute_wptr(hw.env(), queue).unwrap_or((0, true));
                    queue.seen = seen;
                    queue.ready = left;
                    check_queue(hw.env(), queue);
                }
                Some(_) => queue.ready = true,
            }
        }
    }

    /// Maps a queue, or starts to free a slot for it. Returns whether it is mapped.
    fn place(
        &mut self,
        hw: &mut dyn Hardware,
        n: usize,
        now: Instant,
        reserved: &mut Reserved,
    ) -> bool {
        let vmid = self.vmid_for(hw, n, now, reserved);
        let slot = self.slot_for(hw, n, now, reserved);
        let (Some(vmid), Some(slot)) = (vmid, slot) else {
            return false;
        };
        let queue = &self.queues[n];
        let Some(process) = self.processes.get_mut(&queue.process) else {
            return false;
        };
        if process.vmid != Some(vmid) {
            let pasid = process.pasid;
            let root = process.root;
            process.vmid = Some(vmid);
            let process = process.clone();
            let at = queue.process;
            for (_, other) in self.processes.iter_mut().filter(|(p, _)| **p != at) {
                other.vmid = other.vmid.filter(|v| *v != vmid);
            }
            hw.claim(vmid, pasid, root);
            process.program(hw.env());
            hw.env()
                .reg_write(self.context_cntl(vmid), process.vm_context_cntl);
            event!(
                hw.env().trace(),
                "mes",
                "vmid",
                "vmid={vmid} pasid={pasid:#x} root={root:#x}"
            );
        }
        let Some(pasid) = self.processes.get(&self.queues[n].process).map(|p| p.pasid) else {
            return false;
        };
        let queue = &mut self.queues[n];
        let load = Load {
            slot,
            mqd: queue.mqd,
            wptr: queue.wptr,
            doorbell: queue.doorbell,
            vmid,
            pasid,
            ring: false,
        };
        match hw.load(&load) {
            Ok(()) => {
                event!(
                    hw.env().trace(),
                    "mes",
                    "mapped",
                    "doorbell={:#x} slot={slot} vmid={vmid} pasid={pasid:#x} waited_us={}",
                    queue.doorbell,
                    now.saturating_duration_since(queue.since).as_micros()
                );
                queue.slot = Some(slot);
                queue.since = Instant::now();
                queue.ready = true;
                reserved.taken.insert(slot);
                true
            }
            // The strict log has the reason.
            Err(LoadError::Invalid) => {
                queue.parked = true;
                true
            }
            Err(LoadError::Fault { fault }) => {
                raise_of_driver(
                    hw.env(),
                    "mes",
                    &fault,
                    client::CPC,
                    format_args!(
                        "queue of doorbell {:#x}: MQD {:#x}",
                        queue.doorbell, queue.mqd
                    ),
                );
                queue.parked = true;
                true
            }
        }
    }

    /// Returns the VMID of a queue's process, if available; otherwise starts to free one.
    fn vmid_for(
        &mut self,
        hw: &mut dyn Hardware,
        n: usize,
        now: Instant,
        reserved: &mut Reserved,
    ) -> Option<u8> {
        let own = self.queues[n].process;
        let mapped = |queues: &[UserQueue], process: u64| {
            queues
                .iter()
                .any(|q| q.process == process && q.slot.is_some())
        };
        let busy: Vec<u64> = self
            .processes
            .iter()
            .filter(|(at, p)| p.vmid.is_some() && mapped(&self.queues, **at))
            .map(|(at, _)| *at)
            .collect();
        let limit = match self.resources.single_process {
            true => 1,
            false => 16,
        };
        let held = self.processes.get(&own).and_then(|p| p.vmid);
        if let Some(vmid) = held.filter(|_| busy.contains(&own) || busy.len() < limit) {
            // Other processes wait for it once all queues of this one are unmapped.
            return (!self.all_unmapping(own)).then_some(vmid);
        }
        if busy.len() < limit {
            let mask = self.resources.vmid_mask;
            let taken = |v: u8| busy.iter().any(|at| self.processes[at].vmid == Some(v));
            let held = |v: u8| self.processes.values().any(|p| p.vmid == Some(v));
            let free = |v: &u8| mask >> v & 1 != 0 && !taken(*v);
            let never = (1..16u8).filter(free).find(|v| !held(*v));
            if let Some(vmid) = never.or_else(|| (1..16u8).find(free)) {
                return Some(vmid);
            }
        }
        // One process is unmapped for each that waits.
        if reserved.processes.contains(&own) {
            return None;
        }
        let vacating = busy.iter().filter(|at| self.all_unmapping(**at)).count();
        if vacating > reserved.processes.len() {
            reserved.processes.insert(own);
            return None;
        }
        let victim = busy.iter().copied().find(|at| {
            !self.all_unmapping(*at) && {
                let on: Vec<usize> = (0..self.queues.len())
                    .filter(|&m| self.queues[m].process == *at && self.queues[m].slot.is_some())
                    .collect();
                on.iter().all(|&m| self.may_unmap(hw, m, n, now).is_some())
            }
        });
        if let Some(victim) = victim {
            for m in 0..self.queues.len() {
                if self.queues[m].process == victim && self.queues[m].slot.is_some() {
                    self.start_unmap(hw, m, UnmapReason::Vmid);
                }
            }
            reserved.processes.insert(own);
        }
        None
    }

    fn all_unmapping(&self, process: u64) -> bool {
        let mut on = self
            .queues
            .iter()
            .filter(|q| q.process == process && q.slot.is_some())
            .peekable();
        on.peek().is_some() && on.all(|q| q.leaving.is_some())
    }

    /// Returns a slot for a queue, if available; otherwise starts to free one.
    fn slot_for(
        &mut self,
        hw: &mut dyn Hardware,
        n: usize,
        now: Instant,
        reserved: &mut Reserved,
    ) -> Option<Slot> {
        if let Some(slot) = self.queues[n].sdma {
            return (!hw.is_mapped(slot) && !reserved.taken.contains(&slot)).then_some(slot);
        }
        let free = |slot: &&Slot| !hw.is_mapped(**slot) && !reserved.taken.contains(*slot);
        // The pipe with the most free slots first.
        let room = |pipe: u32| {
            let slots = self.resources.compute.iter();
            slots.filter(|s| s.pipe() == pipe).filter(free).count()
        };
        let best = self
            .resources
            .compute
            .iter()
            .filter(free)
            .max_by_key(|s| room(s.pipe()));
        if let Some(slot) = best {
            return Some(*slot);
        }
        let leaving = self
            .queues
            .iter()
            .filter(|q| q.sdma.is_none() && q.leaving.is_some())
            .count();
        if leaving > reserved.slots {
            reserved.slots += 1;
            return None;
        }
        let mut victims: Vec<(u8, Instant, usize, UnmapReason)> = (0..self.queues.len())
            .filter(|&m| {
                let queue = &self.queues[m];
                queue.sdma.is_none() && queue.slot.is_some() && queue.leaving.is_none()
            })
            .filter_map(|m| {
                let why = self.may_unmap(hw, m, n, now)?;
                let order = u8::from(why != UnmapReason::Idle);
                Some((order, self.queues[m].since, m, why))
            })
            .collect();
        victims.sort_by_key(|&(order, since, m, _)| (order, since, m));
        if let Some(&(_, _, m, why)) = victims.first() {
            self.start_unmap(hw, m, why);
            reserved.slots += 1;
        }
        None
    }

    /// Returns the reason why queue `m` may be unmapped for queue `n`, if it may.
    fn may_unmap(
        &self,
        hw: &dyn Hardware,
        m: usize,
        n: usize,
        now: Instant,
    ) -> Option<UnmapReason> {
        let (queue, other) = (&self.queues[m], &self.queues[n]);
        if let Some(why) = queue.leaving {
            return Some(why);
        }
        let slot = queue.slot?;
        let ran = now.saturating_duration_since(queue.since);
        let quantum = self
            .processes
            .get(&queue.process)
            .map_or(CROWDED, |p| p.quantum);
        match hw.activity(slot) {
            Activity::Idle | Activity::Halted => Some(UnmapReason::Idle),
            Activity::Busy if ran >= quantum && !hw.awaits_slice(slot) => Some(UnmapReason::Slice),
            Activity::Busy if other.weight() > queue.weight() && ran >= CROWDED => {
                Some(UnmapReason::Priority)
            }
            Activity::Busy => None,
        }
    }

    /// Starts to unmap a queue.
    pub(super) fn start_unmap(&mut self, hw: &mut dyn Hardware, n: usize, why: UnmapReason) {
        let queue = &mut self.queues[n];
        let Some(slot) = queue.slot else {
            return;
        };
        let reset = why == UnmapReason::Reset;
        if queue.leaving.replace(why).is_some() && !reset {
            return;
        }
        if hw.activity(slot) == Activity::Halted {
            queue.parked = true;
        }
        event!(
            hw.env().trace(),
            "mes",
            "unmap",
            "doorbell={:#x} slot={slot} why={why:?}",
            queue.doorbell
        );
        hw.begin_unload(slot, reset);
    }
}

/// Slots and VMIDs reserved for waiting queues in this pass.
#[derive(Debug, Default)]
struct Reserved {
    taken: BTreeSet<Slot>,
    slots: usize,
    processes: BTreeSet<u64>,
}
