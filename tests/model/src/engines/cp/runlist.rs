// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Runlists: parsing, mapping, and time slices.
//!
//! A runlist that fits is mapped once. An oversubscribed one (its driver chained it to itself) is
//! divided into windows: as many queues as there are slots and VMIDs for, starting at a cursor;
//! when the quantum expires, queues outside the next window are preempted and the new ones are
//! mapped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gpu_regs::{gc_9_4_3 as gc, Reg};
use rkfd_abi::pm4::{self, op};

use super::engine::{Engine, Outcome, Vmid};
use super::env::client;
use super::exec::ec;
use super::pm4::{Fetched, Packet, Stream};
use super::queue::{Class, Queue, Unmap};
use super::regs::Slot;
use super::save::Map;
use super::sdma::SdmaMap;
use crate::engines::gmc::VmFault;
use crate::{event, strict};

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
    /// SDMA engine; `None`: a compute queue.
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
    /// End of the quantum.
    until: Option<Instant>,
    /// Entries of the next window, while queues are being preempted for it.
    next: Option<Vec<usize>>,
}

impl Engine<'_> {
    pub(super) fn run_list(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::run_list as rl;
        self.check(queue, p, &rl::PACKET, rl::FIELDS);
        let base = p.address(rl::IB_BASE_LO, rl::IB_BASE_HI);
        let size = p.get(rl::IB_SIZE);
        if !p.has(rl::VALID) || size == 0 {
            return Ok(Outcome::Bad(ec::PACKET_RESERVED, "runlist is not valid"));
        }
        if self.sched.resources.is_none() {
            return Ok(Outcome::Bad(
                ec::PACKET_RESERVED,
                "runlist before SET_RESOURCES",
            ));
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
        let mut list = match self.read_list(queue, base, size)? {
            Ok(list) => list,
            Err(text) => {
                strict!(self.env.strict(), "hws", "runlist {base:#x}: {text}");
                return Ok(Outcome::Bad(ec::PACKET_RESERVED, "runlist"));
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
            "base={base:#x} dwords={size} processes={} queues={} chain={} limit={}",
            list.processes.len(),
            list.entries.len(),
            u8::from(list.until.is_some()),
            list.limit
        );
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
        self.sched.runlist = Some(list);
        self.enter_window(queue.slot, &window);
        Ok(Outcome::Next)
    }

    /// Parses a runlist. `until` is set if it is chained to itself.
    fn read_list(
        &mut self,
        queue: &Queue,
        base: u64,
        size: u32,
    ) -> Result<Result<Runlist, String>, VmFault> {
        let mut stream = Stream {
            vmid: 0,
            base,
            wrap: None,
            pos: 0,
            end: size.into(),
        };
        let mut list = Runlist::default();
        // Fewer may follow than MAP_PROCESS announces: the stock driver counts inactive queues
        // (`pm_map_process_v9` sends `queue_count`) and lists only active ones.
        let mut expected = 0;
        loop {
            let p = match stream.fetch(self.env)? {
                Fetched::End => break,
                Fetched::Filler => {
                    stream.pos += 1;
                    continue;
                }
                Fetched::Packet(p) => p,
                other => return Ok(Err(format!("dword {}: {other:x?}", stream.pos))),
            };
            event!(
                self.env.trace(),
                "hws",
                "runlist_packet",
                "op={:#x} words={:x?}",
                p.opcode,
                p.words
            );
            match p.opcode {
                op::NOP => {}
                op::MAP_PROCESS => match self.map_process(queue, &p) {
                    Ok((process, queues)) => {
                        expected = queues;
                        list.processes.push(process);
                    }
                    Err(text) => return Ok(Err(text)),
                },
                op::MAP_QUEUES => {
                    if expected == 0 {
                        return Ok(Err("MAP_QUEUES not announced by MAP_PROCESS".into()));
                    }
                    expected -= 1;
                    match self.map_entry(queue, &p, list.processes.len() - 1) {
                        Ok(entry) => list.entries.push(entry),
                        Err(text) => return Ok(Err(text)),
                    }
                }
                op::RUN_LIST => {
                    use pm4::run_list as rl;
                    self.check(queue, &p, &rl::PACKET, rl::FIELDS);
                    let target = p.address(rl::IB_BASE_LO, rl::IB_BASE_HI);
                    if !p.has(rl::CHAIN) || target != base || p.get(rl::IB_SIZE) > size {
                        return Ok(Err(format!("chained to {target:#x}: {:x?}", p.words)));
                    }
                    list.until = Some(Instant::now());
                }
                other => return Ok(Err(format!("opcode {other:#x}"))),
            }
            stream.pos += p.len();
        }
        Ok(Ok(list))
    }

    fn map_process(&self, queue: &Queue, p: &Packet) -> Result<(Process, u32), String> {
        use pm4::map_process as mp;
        if p.words.len() != mp::DWORDS {
            return Err(format!("MAP_PROCESS of {} dwords", p.words.len()));
        }
        self.check(queue, p, &mp::PACKET, mp::FIELDS);
        let pasid = p.get(mp::PASID) as u16;
        let root = p.join(
            mp::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32,
            mp::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32,
        );
        if pasid == 0 {
            return Err("MAP_PROCESS of PASID 0".into());
        }
        if root & rkfd_abi::pte::VALID == 0 {
            return Err(format!(
                "page-table root {root:#x} of PASID {pasid} is not valid"
            ));
        }
        // The packet has the trap handler's address >> 8, as the registers do.
        let regs = vec![
            (gc::regSH_MEM_BASES, p.get(mp::SH_MEM_BASES)),
            (gc::regSH_MEM_CONFIG, p.get(mp::SH_MEM_CONFIG)),
            (gc::regSQ_SHADER_TBA_LO, p.get(mp::SQ_SHADER_TBA_LO)),
            (gc::regSQ_SHADER_TBA_HI, p.get(mp::SQ_SHADER_TBA_HI)),
            (gc::regSQ_SHADER_TMA_LO, p.get(mp::SQ_SHADER_TMA_LO)),
            (gc::regSQ_SHADER_TMA_HI, p.get(mp::SQ_SHADER_TMA_HI)),
            (
                gc::regSPI_GDBG_PER_VMID_CNTL,
                p.get(mp::SPI_GDBG_PER_VMID_CNTL),
            ),
        ];
        let queues = p.get(mp::NUM_QUEUES);
        let quantum = p.get(mp::PROCESS_QUANTUM);
        let num_gws = p.get(mp::NUM_GWS);
        let all_gws = self.sched.resources.map_or(0, |r| r.num_gws);
        if num_gws > all_gws {
            return Err(format!("{num_gws} of {all_gws} GWS for PASID {pasid}"));
        }
        event!(
            self.env.trace(),
            "hws",
            "map_process",
            "pasid={pasid} root={root:#x} queues={queues} quantum={quantum} sh_mem_bases={:#x} \
             sh_mem_config={:#x} tba={:#x} gws={num_gws}",
            p.get(mp::SH_MEM_BASES),
            p.get(mp::SH_MEM_CONFIG),
            p.join(mp::SQ_SHADER_TBA_LO, mp::SQ_SHADER_TBA_HI) << 8
        );
        let process = Process {
            pasid,
            root,
            regs,
            quantum: Duration::from_millis(quantum.max(1).into()),
            num_gws,
        };
        Ok((process, queues))
    }

    fn map_entry(&self, queue: &Queue, p: &Packet, process: usize) -> Result<Entry, String> {
        use pm4::map_queues as mq;
        if p.words.len() != mq::DWORDS {
            return Err(format!("MAP_QUEUES of {} dwords", p.words.len()));
        }
        self.check(queue, p, &mq::PACKET, mq::FORM_HWS);
        let engine = p.get(mq::ENGINE_SEL);
        let extended = p.get(mq::EXTENDED_ENGINE_SEL);
        let sdma = match (extended, engine) {
            (mq::EXTENDED_ENGINE_SEL_LEGACY, mq::ENGINE_SEL_COMPUTE) => None,
            (mq::EXTENDED_ENGINE_SEL_LEGACY, mq::ENGINE_SEL_SDMA0) => Some(0),
            (mq::EXTENDED_ENGINE_SEL_LEGACY, mq::ENGINE_SEL_SDMA1) => Some(1),
            (mq::EXTENDED_ENGINE_SEL_SDMA0_TO_7, n) => Some(n as u8),
            (mq::EXTENDED_ENGINE_SEL_SDMA8_TO_15, n) => Some(n as u8 + 8),
            _ => {
                return Err(format!(
                    "MAP_QUEUES for engine {engine} (extended {extended})"
                ))
            }
        };
        let entry = Entry {
            sdma,
            process,
            mqd: p.join(mq::MQD_ADDR_LO, mq::MQD_ADDR_HI),
            wptr: p.join(mq::WPTR_ADDR_LO, mq::WPTR_ADDR_HI),
            doorbell: p.get(mq::DOORBELL_OFFSET),
            is_static: p.get(mq::QUEUE_TYPE) >= mq::QUEUE_TYPE_NORMAL_LATENCY_STATIC,
            gws: p.has(mq::GWS_CONTROL_QUEUE),
        };
        event!(
            self.env.trace(),
            "hws",
            "map_queues",
            "mqd={:#x} wptr={:#x} doorbell={:#x} engine={engine} extended={extended} type={} gws={}",
            entry.mqd,
            entry.wptr,
            entry.doorbell,
            p.get(mq::QUEUE_TYPE),
            u8::from(entry.gws)
        );
        if p.get(mq::NUM_QUEUES) != 1 {
            return Err(format!("MAP_QUEUES of {} queues", p.get(mq::NUM_QUEUES)));
        }
        if p.get(mq::QUEUE_SEL) != mq::QUEUE_SEL_HWS_DETERMINED {
            return Err(format!(
                "MAP_QUEUES with queue_sel {}",
                p.get(mq::QUEUE_SEL)
            ));
        }
        if sdma.is_some() {
            // The process may ring it before the queue is mapped.
            self.env.sdma().expect_doorbell(entry.doorbell);
        }
        Ok(entry)
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
            if let Some(engine) = entry.sdma {
                let map = SdmaMap {
                    engine,
                    rlc: None,
                    mqd: entry.mqd,
                    wptr: entry.wptr,
                    doorbell: entry.doorbell,
                    vmid,
                    pasid: process.pasid,
                    is_static: entry.is_static,
                };
                match self.map_sdma(&map) {
                    Ok(Some(slot)) => {
                        list.mapped.insert(index, slot);
                    }
                    Ok(None) => {}
                    Err(fault) => self.map_fault(hiq, entry.mqd, &fault),
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
            };
            match self.map(&map) {
                Ok(true) => {
                    list.mapped.insert(index, slot);
                }
                Ok(false) => {}
                Err(fault) => self.map_fault(hiq, entry.mqd, &fault),
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

    fn map_fault(&self, hiq: Slot, mqd: u64, fault: &VmFault) {
        strict!(
            self.env.strict(),
            "hws",
            "queue {hiq}: MQD {mqd:#x}: {fault}"
        );
        self.env.raise_fault(fault, client::CPC);
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
            "vmid={vmid} pasid={} root={:#x}",
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
        let hiq = self
            .queues
            .iter()
            .flatten()
            .find(|q| q.class == Class::Hiq)
            .map_or(Slot(32), |q| q.slot);
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
        let until = list
            .until
            .filter(|_| list.mapped.len() < list.entries.len());
        let wait = match until {
            None => None,
            Some(until) if now < until => Some(until - now),
            Some(_) => {
                let current = self.window(&list, list.start).len().max(1);
                let start = (list.start + current) % list.entries.len();
                let next = self.window(&list, start);
                event!(
                    self.env.trace(),
                    "hws",
                    "slice",
                    "from={} to={start} queues={}",
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

    /// Removes explicitly unmapped queues from the runlist, so the next quantum does not map them
    /// again.
    pub(super) fn forget_entries(&mut self, select: u32, p: &Packet, slots: &[Slot]) {
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
