// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The scheduler firmware: the packets of KIQ and HIQ, and the runlist.
//!
//! A runlist that fits is mapped once. One that does not (its driver chained it to itself) is cut
//! into windows: as many queues as there are slots and VMIDs for, from a cursor on; when the
//! quantum is over, queues outside of the next window are preempted and the new ones are mapped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rkfd_abi::ih::source;
use rkfd_abi::mqd::v9;
use rkfd_abi::pm4::{self, op};
use rkfd_abi::regs::gc_9_4_3 as gc;

use super::engine::{Engine, Outcome, Vmid};
use super::env::client;
use super::exec::ec;
use super::pm4::{Fetched, Packet, Stream};
use super::queue::{Class, Queue, Unmap};
use super::regs::Slot;
use super::save::Map;
use crate::engines::gmc::VmFault;
use crate::{event, strict};

/// Patience before SET_RESOURCES said how much.
const DEFAULT_LATENCY: Duration = Duration::from_secs(4);

/// What SET_RESOURCES gave to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resources {
    vmid_mask: u16,
    queue_mask: u64,
    latency: Duration,
}

/// A MAP_QUEUES of the runlist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    process: usize,
    mqd: u64,
    wptr: u64,
    doorbell: u32,
    is_static: bool,
}

/// A MAP_PROCESS of the runlist.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pasid: u16,
    root: u64,
    regs: Vec<(rkfd_abi::regs::Reg, u32)>,
    quantum: Duration,
}

/// A runlist being executed.
#[derive(Debug, Default)]
struct Runlist {
    processes: Vec<Process>,
    entries: Vec<Entry>,
    limit: usize,
    /// Entries that are on the hardware.
    mapped: HashMap<usize, Slot>,
    /// First entry of the window.
    start: usize,
    /// End of the slice.
    until: Option<Instant>,
    /// The next window, while queues are leaving for it.
    next: Option<Vec<usize>>,
}

/// An UNMAP_QUEUES that is not done.
#[derive(Debug)]
struct Unmapping {
    by: Slot,
    slots: Vec<Slot>,
    since: Instant,
}

/// The scheduler's state.
#[derive(Debug, Default)]
pub struct Sched {
    resources: Option<Resources>,
    kiq_mask: u64,
    runlist: Option<Runlist>,
    unmapping: Vec<Unmapping>,
}

impl Sched {
    /// Queues of the runlist, and how many of them are mapped.
    pub fn counts(&self) -> (usize, usize) {
        self.runlist
            .as_ref()
            .map_or((0, 0), |list| (list.entries.len(), list.mapped.len()))
    }
}

impl Engine<'_> {
    /// Executes a packet of the scheduler.
    pub(super) fn schedule(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        match (p.opcode, queue.class) {
            (_, Class::Normal) => Ok(Outcome::Bad(
                ec::PACKET_UNSUPPORTED,
                "scheduler packet in a queue that is not the scheduler's",
            )),
            (op::SET_RESOURCES, _) => Ok(self.set_resources(queue, p)),
            (op::RUN_LIST, Class::Hiq) => self.run_list(queue, p),
            (op::MAP_QUEUES, Class::Kiq) => self.kiq_map(queue, p),
            (op::UNMAP_QUEUES, _) => self.unmap_queues(queue, p),
            (op::QUERY_STATUS, _) => self.query_status(queue, p),
            (op::INVALIDATE_TLBS, _) => Ok(self.invalidate_tlbs(queue, p)),
            _ => Ok(Outcome::Bad(
                ec::PACKET_UNSUPPORTED,
                "scheduler packet in the wrong queue",
            )),
        }
    }

    fn set_resources(&mut self, queue: &Queue, p: &Packet) -> Outcome {
        use pm4::set_resources as sr;
        let vmid_mask = p.get(sr::VMID_MASK) as u16;
        let queue_mask = p.join(sr::QUEUE_MASK_LO, sr::QUEUE_MASK_HI);
        let latency = Duration::from_millis(100) * p.get(sr::UNMAP_LATENCY);
        event!(
            self.env.trace(),
            "hws",
            "set_resources",
            "queue={} vmid_mask={vmid_mask:#x} queue_mask={queue_mask:#x} latency_ms={}",
            queue.slot,
            latency.as_millis()
        );
        if queue.class == Class::Kiq {
            // From the KIQ, dwords 4 and 5 are the address of the cleaner shader.
            self.sched.kiq_mask = queue_mask;
            if p.get(sr::QUEUE_TYPE) != sr::QUEUE_TYPE_KIQ || vmid_mask != 0 {
                strict!(
                    self.env.strict(),
                    "hws",
                    "SET_RESOURCES of the KIQ: {:x?}",
                    p.words
                );
            }
            return Outcome::Next;
        }
        self.check(queue, p, &sr::PACKET, sr::FIELDS);
        let wrong = if p.get(sr::QUEUE_TYPE) != sr::QUEUE_TYPE_HIQ {
            Some("queue type is not HIQ")
        } else if vmid_mask & 1 != 0 || vmid_mask == 0 {
            Some("VMID mask")
        } else if queue_mask == 0 || queue_mask >> 32 != 0 {
            Some("queue mask names queues outside of MEC1, or none")
        } else if queue_mask & self.sched.kiq_mask != 0 {
            Some("queue mask names queues that the KIQ handed out")
        } else if latency.is_zero() {
            Some("no unmap latency")
        } else {
            None
        };
        if let Some(text) = wrong {
            strict!(
                self.env.strict(),
                "hws",
                "SET_RESOURCES: {text} ({:x?})",
                p.words
            );
        }
        self.sched.resources = Some(Resources {
            vmid_mask,
            queue_mask,
            latency: if latency.is_zero() {
                DEFAULT_LATENCY
            } else {
                latency
            },
        });
        Outcome::Next
    }

    /// MAP_QUEUES of the KIQ: one queue into the slot that the packet names.
    fn kiq_map(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::map_queues as mq;
        self.check(queue, p, &mq::PACKET, mq::FORM_KIQ);
        let slot = Slot::new(p.get(mq::ME), p.get(mq::PIPE), p.get(mq::QUEUE));
        let class = match p.get(mq::ENGINE_SEL) {
            mq::ENGINE_SEL_COMPUTE => Class::Normal,
            mq::ENGINE_SEL_HIQ => Class::Hiq,
            _ => {
                return Ok(Outcome::Bad(
                    ec::PACKET_UNSUPPORTED,
                    "MAP_QUEUES for an engine that is not there",
                ))
            }
        };
        if p.get(mq::NUM_QUEUES) != 1 || p.get(mq::QUEUE_SEL) != mq::QUEUE_SEL_SPECIFIED {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES of the KIQ: {:x?}",
                p.words
            );
        }
        let taken = self.queues[usize::from(slot.0)].is_some() || slot == queue.slot;
        if taken || self.banks().slot(slot).active() {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES: queue {slot} is already mapped"
            );
            return Ok(Outcome::Next);
        }
        if class == Class::Normal && self.sched.kiq_mask >> slot.0 & 1 == 0 {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES: queue {slot} is not in the mask {:#x} of SET_RESOURCES",
                self.sched.kiq_mask
            );
        }
        let vmid = p.get(mq::VMID) as u8;
        let map = Map {
            slot,
            mqd: p.join(mq::MQD_ADDR_LO, mq::MQD_ADDR_HI),
            wptr: p.join(mq::WPTR_ADDR_LO, mq::WPTR_ADDR_HI),
            doorbell: p.get(mq::DOORBELL_OFFSET),
            vmid,
            pasid: self.vmids[usize::from(vmid & 15)].pasid,
            class,
            is_static: true,
        };
        event!(
            self.env.trace(),
            "hws",
            "kiq_map",
            "slot={slot} class={class:?} mqd={:#x} doorbell={:#x}",
            map.mqd,
            map.doorbell
        );
        self.map(&map)?;
        Ok(Outcome::Next)
    }

    fn run_list(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
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
                "runlist {base:#x} while queues of another are mapped"
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

    /// Reads a runlist from memory. `until` is set when it is chained to itself.
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
                op::MAP_PROCESS => {
                    if expected != 0 {
                        return Ok(Err(format!("MAP_PROCESS promised {expected} more queues")));
                    }
                    match self.map_process(queue, &p) {
                        Ok((process, queues)) => {
                            expected = queues;
                            list.processes.push(process);
                        }
                        Err(text) => return Ok(Err(text)),
                    }
                }
                op::MAP_QUEUES => {
                    if expected == 0 {
                        return Ok(Err("MAP_QUEUES that no MAP_PROCESS promised".into()));
                    }
                    expected -= 1;
                    match self.map_entry(queue, &p, list.processes.len() - 1) {
                        Ok(Some(entry)) => list.entries.push(entry),
                        Ok(None) => {}
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
        if expected != 0 {
            return Ok(Err(format!("MAP_PROCESS promised {expected} more queues")));
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
        // The packet has the trap handler's address >> 8, and so have the registers.
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
        event!(
            self.env.trace(),
            "hws",
            "map_process",
            "pasid={pasid} root={root:#x} queues={queues} quantum={quantum} sh_mem_bases={:#x} \
             sh_mem_config={:#x} tba={:#x}",
            p.get(mp::SH_MEM_BASES),
            p.get(mp::SH_MEM_CONFIG),
            p.join(mp::SQ_SHADER_TBA_LO, mp::SQ_SHADER_TBA_HI) << 8
        );
        let process = Process {
            pasid,
            root,
            regs,
            quantum: Duration::from_millis(quantum.max(1).into()),
        };
        Ok((process, queues))
    }

    fn map_entry(
        &self,
        queue: &Queue,
        p: &Packet,
        process: usize,
    ) -> Result<Option<Entry>, String> {
        use pm4::map_queues as mq;
        if p.words.len() != mq::DWORDS {
            return Err(format!("MAP_QUEUES of {} dwords", p.words.len()));
        }
        self.check(queue, p, &mq::PACKET, mq::FORM_HWS);
        let entry = Entry {
            process,
            mqd: p.join(mq::MQD_ADDR_LO, mq::MQD_ADDR_HI),
            wptr: p.join(mq::WPTR_ADDR_LO, mq::WPTR_ADDR_HI),
            doorbell: p.get(mq::DOORBELL_OFFSET),
            is_static: p.get(mq::QUEUE_TYPE) >= mq::QUEUE_TYPE_NORMAL_LATENCY_STATIC,
        };
        let engine = p.get(mq::ENGINE_SEL);
        let extended = p.get(mq::EXTENDED_ENGINE_SEL);
        event!(
            self.env.trace(),
            "hws",
            "map_queues",
            "mqd={:#x} wptr={:#x} doorbell={:#x} engine={engine} extended={extended} type={}",
            entry.mqd,
            entry.wptr,
            entry.doorbell,
            p.get(mq::QUEUE_TYPE)
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
        if extended != mq::EXTENDED_ENGINE_SEL_LEGACY || engine != mq::ENGINE_SEL_COMPUTE {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES for engine {engine} (extended {extended}): only compute is modelled"
            );
            return Ok(None);
        }
        Ok(Some(entry))
    }

    /// The entries from `start` on that fit the hardware together.
    fn window(&self, list: &Runlist, start: usize) -> Vec<usize> {
        let Some(resources) = self.sched.resources else {
            return Vec::new();
        };
        let slots = resources.queue_mask.count_ones() as usize;
        let vmids = (resources.vmid_mask.count_ones() as usize).min(list.limit);
        let mut window = Vec::new();
        let mut processes: Vec<usize> = Vec::new();
        for n in 0..list.entries.len() {
            let index = (start + n) % list.entries.len();
            let process = list.entries[index].process;
            if !processes.contains(&process) {
                if processes.len() == vmids {
                    break;
                }
                processes.push(process);
            }
            if window.len() == slots {
                break;
            }
            window.push(index);
        }
        window
    }

    /// Maps the entries of `window` that are not mapped yet, and starts a slice.
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
            };
            match self.map(&map) {
                Ok(true) => {
                    list.mapped.insert(index, slot);
                }
                Ok(false) => {}
                Err(fault) => {
                    strict!(
                        self.env.strict(),
                        "hws",
                        "queue {hiq}: MQD {:#x}: {fault}",
                        entry.mqd
                    );
                    self.env.raise_fault(&fault, client::CPC);
                }
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

    /// The VMID of a process: the one it has, one it had, or a free one.
    fn vmid_for(&mut self, process: &Process) -> Option<u8> {
        let mask = self.sched.resources?.vmid_mask;
        let used = |v: u8| self.queues.iter().flatten().any(|q| q.config.vmid == v);
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

    /// Time slices of a chained runlist. Returns when to look again.
    pub(super) fn rotate(&mut self) -> Option<Duration> {
        let mut list = self.sched.runlist.take()?;
        list.mapped
            .retain(|_, slot| self.queues[usize::from(slot.0)].is_some());
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
                    self.start_unmap(slot, Unmap::Preempt, false);
                }
                list.next = Some(next);
                Some(Duration::ZERO)
            }
        };
        self.sched.runlist = Some(list);
        wait
    }

    fn unmap_queues(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::unmap_queues as uq;
        let at = self.sched.unmapping.iter().position(|u| u.by == queue.slot);
        let Some(at) = at else {
            return match self.begin_unmap(queue, p) {
                // What is idle leaves at the engine's next turn.
                Ok(()) => Ok(Outcome::Wait(Duration::ZERO)),
                Err(outcome) => Ok(outcome),
            };
        };
        let keep = p.get(uq::ACTION) == uq::ACTION_PREEMPT_NO_UNMAP;
        let left: Vec<Slot> = self.sched.unmapping[at]
            .slots
            .iter()
            .copied()
            .filter(|s| {
                self.queues[usize::from(s.0)]
                    .as_ref()
                    .is_some_and(|q| q.leaving.is_some())
            })
            .collect();
        if !left.is_empty() {
            let latency = self.sched.resources.map_or(DEFAULT_LATENCY, |r| r.latency);
            let hangs = self.env.knobs().hws_no_preempt.get() == 1;
            if hangs || self.sched.unmapping[at].since.elapsed() < latency {
                return Ok(Outcome::Wait(Duration::from_millis(1)));
            }
            self.give_up(queue, &left)?;
        }
        self.sched.unmapping.remove(at);
        event!(
            self.env.trace(),
            "hws",
            "unmap_done",
            "queue={} failed={}",
            queue.slot,
            left.len()
        );
        if keep {
            let to = p.join(uq::FENCE_ADDR_LO, uq::FENCE_ADDR_HI);
            self.env
                .write32(queue.config.vmid, to, p.get(uq::FENCE_SEQ))?;
        }
        Ok(Outcome::Next)
    }

    fn begin_unmap(&mut self, queue: &Queue, p: &Packet) -> Result<(), Outcome> {
        use pm4::unmap_queues as uq;
        let action = p.get(uq::ACTION);
        let select = p.get(uq::QUEUE_SEL);
        let no_unmap = action == uq::ACTION_PREEMPT_NO_UNMAP;
        let form = match (select, no_unmap) {
            (uq::QUEUE_SEL_SPECIFIED, false) => uq::FORM_DOORBELL,
            (uq::QUEUE_SEL_SPECIFIED, true) => uq::FORM_PREEMPT_NO_UNMAP,
            (uq::QUEUE_SEL_PASID, _) => uq::FORM_PASID,
            _ => uq::FORM_ALL,
        };
        self.check(queue, p, &uq::PACKET, form);
        if no_unmap && queue.class != Class::Kiq {
            return Err(Outcome::Bad(
                ec::PACKET_UNSUPPORTED,
                "PREEMPT_NO_UNMAP outside of the KIQ",
            ));
        }
        let how = match action {
            uq::ACTION_RESET => Unmap::Reset,
            _ => Unmap::Preempt,
        };
        event!(
            self.env.trace(),
            "hws",
            "unmap_queues",
            "queue={} action={action} select={select} param={:#x}",
            queue.slot,
            p.words[2]
        );
        let slots = match select {
            uq::QUEUE_SEL_SPECIFIED => {
                let fields = [
                    uq::DOORBELL_OFFSET0,
                    uq::DOORBELL_OFFSET1,
                    uq::DOORBELL_OFFSET2,
                    uq::DOORBELL_OFFSET3,
                ];
                let count = (p.get(uq::NUM_QUEUES) as usize).clamp(1, fields.len());
                self.slots_of_doorbells(
                    &fields[..count]
                        .iter()
                        .map(|f| p.get(*f))
                        .collect::<Vec<_>>(),
                )
            }
            uq::QUEUE_SEL_PASID => {
                let pasid = p.get(uq::PASID) as u16;
                self.scheduled(|q| q.pasid == pasid)
            }
            uq::QUEUE_SEL_ALL => self.scheduled(|_| true),
            _ => self.scheduled(|q| !q.is_static),
        };
        self.forget_entries(select, p, &slots);
        for &slot in &slots {
            let already = self.queues[usize::from(slot.0)]
                .as_ref()
                .is_some_and(|q| q.leaving.is_some());
            if !already || how == Unmap::Reset {
                self.start_unmap(slot, how, no_unmap);
            }
        }
        // A KIQ takes the HIQ away with everything that it scheduled.
        let hiq_goes = slots.iter().any(|s| {
            self.queues[usize::from(s.0)]
                .as_ref()
                .is_some_and(|q| q.class == Class::Hiq)
        });
        if hiq_goes {
            if self
                .sched
                .runlist
                .as_ref()
                .is_some_and(|l| !l.mapped.is_empty())
            {
                strict!(
                    self.env.strict(),
                    "hws",
                    "the HIQ is unmapped while queues of its runlist are mapped"
                );
            }
            self.sched.runlist = None;
            self.sched.resources = None;
        }
        self.sched.unmapping.push(Unmapping {
            by: queue.slot,
            slots,
            since: Instant::now(),
        });
        Ok(())
    }

    fn slots_of_doorbells(&self, doorbells: &[u32]) -> Vec<Slot> {
        let banks = self.banks();
        let mut slots = Vec::new();
        for &doorbell in doorbells {
            match banks.find_doorbell(doorbell) {
                Some(slot) => slots.push(slot),
                None => strict!(
                    self.env.strict(),
                    "hws",
                    "UNMAP_QUEUES: no queue with doorbell {doorbell:#x} is mapped"
                ),
            }
        }
        slots
    }

    /// Mapped queues that the runlist put there and that `filter` wants.
    fn scheduled(&self, filter: impl Fn(&Queue) -> bool) -> Vec<Slot> {
        let mask = self.sched.resources.map_or(0, |r| r.queue_mask);
        self.queues
            .iter()
            .flatten()
            .filter(|q| mask >> q.slot.0 & 1 != 0 && filter(q))
            .map(|q| q.slot)
            .collect()
    }

    /// What is unmapped on request does not come back with the next slice.
    fn forget_entries(&mut self, select: u32, p: &Packet, slots: &[Slot]) {
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

    /// The time is over: the queues stay, and the driver finds their doorbells in the HIQ's MQD.
    fn give_up(&mut self, hiq: &Queue, left: &[Slot]) -> Result<(), VmFault> {
        for (n, slot) in left.iter().enumerate() {
            let Some(queue) = &mut self.queues[usize::from(slot.0)] else {
                continue;
            };
            queue.leaving = None;
            for job in queue.work.jobs() {
                self.pool.submit(&job, queue.config.vmid);
            }
            let doorbell = queue.config.doorbell.unwrap_or(0);
            event!(
                self.env.trace(),
                "hws",
                "preemption_failed",
                "queue={slot} pasid={} doorbell={doorbell:#x}",
                queue.pasid
            );
            if n < v9::HIQ_FAILED_DOORBELLS_LEN && hiq.config.mqd != 0 {
                let at = hiq.config.mqd + (v9::HIQ_FAILED_DOORBELLS + n) as u64 * 4;
                self.env.write32(0, at, doorbell)?;
            }
        }
        Ok(())
    }

    fn query_status(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::query_status as qs;
        let form = match p.get(qs::INTERRUPT_SEL) {
            qs::INTERRUPT_SEL_PROCESS => qs::FORM_PASID,
            _ => qs::FORM_DOORBELL,
        };
        self.check(queue, p, &qs::PACKET, form);
        let command = p.get(qs::COMMAND);
        let to = p.join(qs::ADDR_LO, qs::ADDR_HI);
        let data = p.join(qs::DATA_LO, qs::DATA_HI);
        let never = self.env.knobs().hws_fence_never.on();
        event!(
            self.env.trace(),
            "hws",
            "query_status",
            "queue={} command={command} addr={to:#x} data={data:#x} written={}",
            queue.slot,
            u8::from(!never && command != qs::COMMAND_INTERRUPT_ONLY)
        );
        if to % 8 != 0 {
            strict!(self.env.strict(), "hws", "QUERY_STATUS fence at {to:#x}");
        }
        if never {
            return Ok(Outcome::Next);
        }
        if command != qs::COMMAND_INTERRUPT_ONLY {
            self.env.write64(queue.config.vmid, to, data)?;
        }
        if matches!(
            command,
            qs::COMMAND_INTERRUPT_ONLY | qs::COMMAND_FENCE_WAIT_FOR_WRITE_ACK_SEND_INTERRUPT
        ) {
            let ctx = p.get(qs::CONTEXT_ID);
            self.post(queue, source::CP_COMPUTE_QUERY_STATUS, [ctx, 0]);
        }
        Ok(Outcome::Next)
    }

    fn invalidate_tlbs(&mut self, queue: &Queue, p: &Packet) -> Outcome {
        use pm4::invalidate_tlbs as it;
        self.check(queue, p, &it::PACKET, it::FIELDS);
        if p.get(it::DST_SEL) != it::DST_SEL_PASID {
            return Outcome::Bad(ec::PACKET_UNSUPPORTED, "INVALIDATE_TLBS destination");
        }
        let pasid = p.get(it::PASID) as u16;
        for vmid in 1..16u8 {
            if self.vmids[usize::from(vmid)].pasid == pasid {
                self.env.invalidate(vmid, p.has(it::ALL_HUB));
            }
        }
        Outcome::Next
    }
}
