// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Runlists: parsing, mapping, and time slices.
//!
//! A runlist that fits is mapped once. An oversubscribed one (its driver chained it to itself) is
//! divided into windows: as many queues as there are slots and VMIDs for, starting at a cursor;
//! when the quantum expires, queues outside the next window are preempted and the new ones are
//! mapped.

mod parse;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gpu_regs::{gc_9_4_3 as gc, Reg};
use rkfd_abi::mqd::v9::dw;
use rkfd_abi::pm4;

use super::engine::{Engine, Outcome, Vmid};
use super::env::client;
use super::error::PacketError;
use super::fault::raise_of_driver;
use super::pm4::Packet;
use super::queue::{Class, Queue, Unmap};
use super::save::{LoadError, Map};
use super::sdma::SdmaMap;
use super::slot::Slot;
use crate::engines::gmc::VmFault;
use crate::{event, strict};
use parse::RunlistError;

/// Interval at which the end of a quantum is checked that a job of the window extends.
const SLICE_POLL: Duration = Duration::from_millis(1);

/// A MAP_QUEUES of the runlist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    process: usize,
    mqd: u64,
    wptr: u64,
    doorbell: u32,
    is_static: bool,
    /// Uses the GWS of its process.
    gws: bool,
    /// Number of the SDMA engine in the partition; `None`: a compute queue.
    sdma: Option<u8>,
}

/// A MAP_PROCESS of the runlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pasid: u16,
    root: u64,
    regs: Vec<(Reg, u32)>,
    quantum: Duration,
    /// GWS resources for the queue that uses them.
    num_gws: u32,
}

/// The runlist being executed.
#[derive(Debug, Default)]
pub(super) struct Runlist {
    processes: Vec<Process>,
    pub(super) entries: Vec<Entry>,
    limit: usize,
    /// Mapped entries.
    pub(super) mapped: HashMap<usize, Slot>,
    /// First entry of the window.
    start: usize,
    /// Position of its packet on the HIQ.
    pub(super) position: u64,
    /// Number of the time slice. All XCCs of a partition proceed with the first one.
    pub(super) slice: u64,
    /// End of the quantum.
    until: Option<Instant>,
    /// Entries of the next window, while queues are being preempted for it.
    next: Option<Vec<usize>>,
}

impl Engine<'_> {
    pub(super) fn run_list(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::run_list as rl;
        self.check(queue, p, &rl::PACKET, rl::FIELDS);
        self.check_partition(queue);
        let base = p.address(rl::IB_BASE_LO, rl::IB_BASE_HI);
        let size = p.get(rl::IB_SIZE);
        if !p.has(rl::VALID) || size == 0 {
            return Ok(Outcome::Bad(PacketError::RunlistInvalid));
        }
        if self.sched.resources.is_none() {
            return Ok(Outcome::Bad(PacketError::NoResources));
        }
        if self
            .sched
            .runlist
            .as_ref()
            .is_some_and(|l| !l.mapped.is_empty())
        {
            strict!(
                self.env.strict(),
                "hws",
                "runlist {base:#x} while queues of the previous one are mapped"
            );
        }
        let mut list = match self.read_list(queue, base, size) {
            Ok(list) => list,
            Err(RunlistError::Fault { fault }) => return Err(fault),
            Err(error) => {
                strict!(self.env.strict(), "hws", "runlist {base:#x}: {error}");
                return Ok(Outcome::Bad(PacketError::Runlist));
            }
        };
        list.limit = match p.get(rl::PROCESS_CNT) {
            0 => 16,
            n => n as usize,
        };
        event!(
            self.env.trace(),
            "hws",
            "run_list",
            "xcc={} base={base:#x} dwords={size} processes={} queues={} chain={} limit={}",
            self.env.xcc(),
            list.processes.len(),
            list.entries.len(),
            u8::from(list.until.is_some()),
            list.limit
        );
        // Their doorbells may ring before their window is mapped for the first time.
        for entry in &list.entries {
            self.expect_doorbell(entry.doorbell, entry.sdma.is_some());
        }
        let cyclic = list.until.is_some();
        let count = list.entries.len();
        let window = self.window(&list, 0);
        if window.len() < count && !cyclic {
            strict!(
                self.env.strict(),
                "hws",
                "runlist {base:#x} has {count} queues, {} fit, and it is not chained",
                window.len()
            );
        }
        list.position = queue.rptr;
        self.begin_slice(queue, &list);
        self.sched.runlist = Some(list);
        self.enter_window(queue.slot, &window);
        Ok(Outcome::Next)
    }

    /// Returns the entries from `start` on that fit on the hardware together.
    fn window(&self, list: &Runlist, start: usize) -> Vec<usize> {
        let Some(resources) = self.sched.resources else {
            return Vec::new();
        };
        let slots = resources.queue_mask.count_ones() as usize;
        let vmids = (resources.vmid_mask.count_ones() as usize).min(list.limit);
        let mut window = Vec::new();
        let mut compute = 0;
        let mut gws: Option<usize> = None;
        let mut processes: Vec<usize> = Vec::new();
        for n in 0..list.entries.len() {
            let index = (start + n) % list.entries.len();
            let process = list.entries[index].process;
            // GWS has one owner at a time.
            if list.entries[index].gws && gws.replace(process).is_some_and(|p| p != process) {
                break;
            }
            if !processes.contains(&process) {
                if processes.len() == vmids {
                    break;
                }
                processes.push(process);
            }
            // SDMA contexts do not run out: a driver allocates no more than there are.
            if list.entries[index].sdma.is_none() {
                if compute == slots {
                    break;
                }
                compute += 1;
            }
            window.push(index);
        }
        window
    }

    /// Maps the entries of `window` that are not mapped yet, and starts a quantum.
    fn enter_window(&mut self, hiq: Slot, window: &[usize]) {
        let Some(mut list) = self.sched.runlist.take() else {
            return;
        };
        for &index in window {
            if list.mapped.contains_key(&index) {
                continue;
            }
            let entry = list.entries[index];
            let engine = entry.sdma.map(|n| (n, self.env.sdma_engine(n)));
            if let Some((number, None)) = engine {
                strict!(
                    self.env.strict(),
                    "hws",
                    "MAP_QUEUES: the partition has no SDMA engine {number}"
                );
                continue;
            }
            let engine = engine.and_then(|(number, engine)| Some((number, engine?)));
            if !engine.is_none_or(|(_, engine)| self.env.serves(engine)) {
                continue;
            }
            let process = &list.processes[entry.process];
            let Some(vmid) = self.vmid_for(process) else {
                strict!(
                    self.env.strict(),
                    "hws",
                    "no VMID for PASID {}",
                    process.pasid
                );
                continue;
            };
            if let Some((number, engine)) = engine {
                let map = SdmaMap {
                    engine,
                    number,
                    rlc: None,
                    mqd: entry.mqd,
                    wptr: entry.wptr,
                    doorbell: entry.doorbell,
                    vmid,
                    pasid: process.pasid,
                    is_static: entry.is_static,
                };
                match self.map_sdma(&map) {
                    Ok(slot) => {
                        list.mapped.insert(index, slot);
                    }
                    Err(LoadError::Invalid) => {}
                    Err(LoadError::Fault { fault }) => self.map_fault(hiq, entry.mqd, &fault),
                }
                continue;
            }
            let Some(slot) = self.free_slot() else {
                strict!(
                    self.env.strict(),
                    "hws",
                    "no hardware queue for doorbell {:#x}",
                    entry.doorbell
                );
                continue;
            };
            let map = Map {
                slot,
                mqd: entry.mqd,
                wptr: entry.wptr,
                doorbell: entry.doorbell,
                vmid,
                pasid: process.pasid,
                class: Class::Normal,
                is_static: entry.is_static,
                gws: if entry.gws { process.num_gws } else { 0 },
                scheduled: true,
            };
            match self.map(&map) {
                Ok(()) => {
                    if map.gws != 0 {
                        self.check_gws(&map);
                    }
                    list.mapped.insert(index, slot);
                }
                Err(LoadError::Invalid) => {}
                Err(LoadError::Fault { fault }) => self.map_fault(hiq, entry.mqd, &fault),
            }
        }
        let quantum = window
            .first()
            .map(|&n| list.processes[list.entries[n].process].quantum);
        if list.until.is_some() {
            list.until = Some(Instant::now() + quantum.unwrap_or(Duration::from_millis(10)));
        }
        self.sched.runlist = Some(list);
    }

    /// Reports a queue with GWS whose waves may share a SIMD (`update_mqd` of
    /// `kfd_mqd_manager_v9.c`).
    fn check_gws(&self, map: &Map) {
        let at = dw::compute_resource_limits as u64 * 4;
        let limits = self.env.read32(0, map.mqd.wrapping_add(at)).unwrap_or(0);
        if !gc::COMPUTE_RESOURCE_LIMITS__FORCE_SIMD_DIST.is_set(limits) {
            strict!(
                self.env.strict(),
                "hws",
                "queue {} has GWS, but COMPUTE_RESOURCE_LIMITS is {limits:#x}",
                map.slot
            );
        }
    }

    fn map_fault(&self, hiq: Slot, mqd: u64, fault: &VmFault) {
        raise_of_driver(
            self.env,
            "hws",
            fault,
            client::CPC,
            format_args!("queue {hiq}: MQD {mqd:#x}"),
        );
    }

    /// Returns the VMID of a process: its current one, a former one, or a free one.
    fn vmid_for(&mut self, process: &Process) -> Option<u8> {
        let mask = self.sched.resources?.vmid_mask;
        let used = |v: u8| {
            self.queues.iter().flatten().any(|q| q.config.vmid == v)
                || self.sdma_queues.iter().any(|q| q.vmid == v)
        };
        let mut own = (1..16u8).filter(|v| mask >> v & 1 != 0);
        let had = own
            .clone()
            .find(|&v| self.vmids[usize::from(v)].pasid == process.pasid);
        if let Some(vmid) = had.filter(|&v| used(v)) {
            return Some(vmid);
        }
        let never = own
            .clone()
            .find(|&v| !used(v) && self.vmids[usize::from(v)].pasid == 0);
        let vmid = had.or(never).or_else(|| own.find(|&v| !used(v)))?;
        self.vmids[usize::from(vmid)] = Vmid {
            pasid: process.pasid,
            root: process.root,
        };
        self.env.map_vmid(vmid, process.pasid, process.root);
        for &(reg, value) in &process.regs {
            self.env.set_vmid_reg(vmid, reg, value);
        }
        event!(
            self.env.trace(),
            "hws",
            "vmid",
            "xcc={} vmid={vmid} pasid={} root={:#x}",
            self.env.xcc(),
            process.pasid,
            process.root
        );
        Some(vmid)
    }

    fn free_slot(&self) -> Option<Slot> {
        let mask = self.sched.resources?.queue_mask;
        let banks = self.banks();
        (0..64u8)
            .filter(|n| mask >> n & 1 != 0)
            .map(Slot)
            .find(|&s| self.queues[usize::from(s.0)].is_none() && !banks.slot(s).active())
    }

    /// Rotates a chained runlist. Returns when to call it again.
    pub(super) fn rotate(&mut self) -> Option<Duration> {
        let mut list = self.sched.runlist.take()?;
        list.mapped.retain(|_, slot| self.is_mapped(*slot));
        let hiq_queue = self.queues.iter().flatten().find(|q| q.class == Class::Hiq);
        let hiq = hiq_queue.map_or(Slot(32), |q| q.slot);
        if let Some(next) = list.next.take() {
            let leaving = list.mapped.keys().any(|index| !next.contains(index));
            if leaving {
                list.next = Some(next);
                self.sched.runlist = Some(list);
                return Some(Duration::from_millis(1));
            }
            list.start = next.first().copied().unwrap_or(0);
            self.sched.runlist = Some(list);
            self.enter_window(hiq, &next);
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let more = |_: &Instant| match self.is_alone() {
            true => list.mapped.len() < list.entries.len(),
            // Queues of SDMA engines are mapped by one XCC, but the window is the same on all.
            false => self.window(&list, list.start).len() < list.entries.len(),
        };
        let until = list.until.filter(more);
        let until = until.and_then(|end| match self.is_behind(hiq_queue, &list) {
            None if now >= end && self.awaits_slices(&list) => Some(now + SLICE_POLL),
            None => Some(end),
            Some(true) => Some(now),
            Some(false) => None,
        });
        let wait = match until {
            None => None,
            Some(until) if now < until => Some(until - now),
            Some(_) => {
                list.slice += 1;
                if let Some(queue) = hiq_queue {
                    self.begin_slice(queue, &list);
                }
                let current = self.window(&list, list.start).len().max(1);
                let start = (list.start + current) % list.entries.len();
                let next = self.window(&list, start);
                event!(
                    self.env.trace(),
                    "hws",
                    "slice",
                    "xcc={} from={} to={start} queues={}",
                    self.env.xcc(),
                    list.start,
                    next.len()
                );
                let leaving = list
                    .mapped
                    .iter()
                    .filter(|(index, _)| !next.contains(index));
                for (_, &slot) in leaving {
                    self.start_unmap_any(slot, Unmap::Preempt, false);
                }
                list.next = Some(next);
                Some(Duration::ZERO)
            }
        };
        self.sched.runlist = Some(list);
        wait
    }

    /// Returns whether a job of a mapped queue awaits its first time slice.
    fn awaits_slices(&self, list: &Runlist) -> bool {
        list.mapped.values().any(|&slot| self.awaits_slice(slot))
    }

    /// Returns whether a job of a queue awaits its first time slice.
    pub(super) fn awaits_slice(&self, slot: Slot) -> bool {
        let queue = self.queues.get(usize::from(slot.0));
        let jobs = queue
            .and_then(Option::as_ref)
            .map(|queue| queue.work.jobs());
        jobs.is_some_and(|jobs| jobs.iter().any(|job| job.awaits_slice()))
    }

    /// Removes explicitly unmapped queues from the runlist, so the next quantum does not map them
    /// again.
    pub(super) fn remove_entries(&mut self, select: u32, p: &Packet, slots: &[Slot]) {
        use pm4::unmap_queues as uq;
        let Some(list) = &mut self.sched.runlist else {
            return;
        };
        let pasid = p.get(uq::PASID) as u16;
        let keep: Vec<bool> = (0..list.entries.len())
            .map(|index| match select {
                uq::QUEUE_SEL_ALL => false,
                uq::QUEUE_SEL_ALL_NON_STATIC => list.entries[index].is_static,
                uq::QUEUE_SEL_PASID => list.processes[list.entries[index].process].pasid != pasid,
                _ => !list.mapped.get(&index).is_some_and(|s| slots.contains(s)),
            })
            .collect();
        if !keep.contains(&true) {
            self.sched.runlist = None;
            return;
        }
        let mut renumber = HashMap::new();
        let mut entries = Vec::new();
        for (index, entry) in list.entries.iter().enumerate() {
            if keep[index] {
                renumber.insert(index, entries.len());
                entries.push(*entry);
            }
        }
        list.mapped = list
            .mapped
            .iter()
            .filter_map(|(index, slot)| Some((*renumber.get(index)?, *slot)))
            .collect();
        list.next = None;
        list.start = 0;
        list.entries = entries;
    }
}
