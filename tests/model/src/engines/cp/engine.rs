// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The engine thread of the MECs. It handles messages (doorbells, register writes, ended
//! workgroups), steps every mapped queue in turn, and sleeps when no queue can proceed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, Reg};
use gpu_wave::{Apertures, GwsResources, Trap};
use rkfd_abi::ih::source;
use rkfd_abi::pm4::op;

use super::aql::poll_again;
use super::env::{client, Env};
use super::error::PacketError;
use super::exec::POLL;
use super::fault::raise_of_driver;
use super::pm4::{shape, Fetched, Packet, Stream};
use super::queue::{Class, Format, Halt, Queue, Step, Unmap, Work};
use super::regs::Banks;
use super::save::Saves;
use super::sched::Sched;
use super::sdma::SdmaQueue;
use super::shared::Space;
use super::slot::{Slot, SLOTS};
use super::{dispatch::Pool, Wake};
use crate::chips::Generation;
use crate::engines::gmc::VmFault;
use crate::engines::mes::Mes;
use crate::mailbox::{Mailbox, Recv};
use crate::{event, strict};

/// Timeout of a reset for workgroups to stop.
const RESET_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum nesting depth of IBs.
const IB_DEPTH: usize = 2;
/// Poll interval for the other XCCs of a partition; their message usually comes first.
/// Interval between the attempts of an access that is retried.
pub(super) const RETRY_POLL: Duration = Duration::from_micros(100);
pub(super) const XCC_POLL: Duration = Duration::from_millis(1);
/// Polls are the rarer the longer they have had no result, up to this time.
const LONGEST_POLL: Duration = Duration::from_millis(4);
/// Packets of one queue per turn.
const BURST: usize = 16;

/// Result of executing a packet.
#[derive(Debug)]
pub enum Outcome {
    /// Done.
    Next,
    /// Not complete; retry after this time.
    Wait(Duration),
    /// Not complete; a message will follow.
    Idle,
    /// Done; continue in an IB, with (false) or without (true) return.
    Enter(Stream, bool),
    /// Done; skip this number of dwords.
    Skip(u64),
    /// The packet stops the queue.
    Bad(PacketError),
}

/// Owner of a VMID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vmid {
    /// PASID; 0 if the VMID is free.
    pub pasid: u16,
    /// Page-table root.
    pub root: u64,
}

/// State of the engine thread.
pub struct Engine<'a> {
    /// The surrounding chip.
    pub env: &'a dyn Env,
    /// Registers, shared with the thread that serves the guest.
    pub banks: &'a Mutex<Banks>,
    /// Mailbox.
    pub mail: &'a Mailbox<Wake>,
    /// Compute units.
    pub pool: &'a Pool,
    /// Mapped queues by slot.
    pub queues: Vec<Option<Queue>>,
    /// SDMA user queues.
    pub sdma_queues: Vec<SdmaQueue>,
    /// State of the HWS.
    pub sched: Sched,
    /// State of MES (gfx12).
    pub mes: Mes,
    /// Address spaces.
    pub vmids: [Vmid; 16],
    /// Saved work of unmapped queues.
    pub saves: Saves,
    /// GWS of queues, by MQD address.
    pub(super) gws: HashMap<u64, Arc<GwsResources>>,
    jobs: u64,
    turn: usize,
}

impl<'a> Engine<'a> {
    /// Returns an engine in power-on state.
    pub fn new(
        env: &'a dyn Env,
        banks: &'a Mutex<Banks>,
        mail: &'a Mailbox<Wake>,
        pool: &'a Pool,
    ) -> Self {
        Self {
            env,
            banks,
            mail,
            pool,
            queues: (0..SLOTS).map(|_| None).collect(),
            sdma_queues: Vec::new(),
            sched: Sched::default(),
            mes: Mes::default(),
            vmids: [Vmid::default(); 16],
            saves: Saves::default(),
            gws: HashMap::new(),
            jobs: 0,
            turn: 0,
        }
    }

    pub(super) fn banks(&self) -> MutexGuard<'a, Banks> {
        self.banks.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn generation(&self) -> Generation {
        self.env.generation()
    }

    pub(super) fn new_job_id(&mut self) -> u64 {
        self.jobs += 1;
        self.jobs
    }

    /// Returns a per-VMID register of an address space.
    fn vmid_reg(&self, space: Space, reg: Reg) -> u32 {
        if space.xcc == self.env.xcc() {
            return self.env.vmid_reg(space.vmid, reg);
        }
        let other = self.env.peer(space.xcc);
        other.map_or(0, |env| env.vmid_reg(space.vmid, reg))
    }

    /// Returns the flat apertures of an address space.
    pub(super) fn apertures(&self, space: Space) -> Apertures {
        let bases = match self.generation() {
            Generation::Gfx9 => gc::regSH_MEM_BASES,
            Generation::Gfx12 => gc12::regSH_MEM_BASES,
        };
        let bases = self.vmid_reg(space, bases);
        Apertures {
            shared: u64::from(gc::SH_MEM_BASES__SHARED_BASE.get(bases)) << 48,
            private: u64::from(gc::SH_MEM_BASES__PRIVATE_BASE.get(bases)) << 48,
        }
    }

    /// Returns the trap handler of a queue's waves in an address space.
    pub(super) fn trap_handler(&self, queue: &Queue, space: Space) -> Option<Trap> {
        let reg = |r| u64::from(self.vmid_reg(space, r));
        // Bits 39:8 and 47:40 of the addresses.
        let at = |lo, hi| reg(lo) << 8 | (reg(hi) & 0xff) << 40;
        let (tba, tma, traps) = match self.generation() {
            Generation::Gfx9 => (
                at(gc::regSQ_SHADER_TBA_LO, gc::regSQ_SHADER_TBA_HI),
                at(gc::regSQ_SHADER_TMA_LO, gc::regSQ_SHADER_TMA_HI),
                queue.traps,
            ),
            Generation::Gfx12 => (
                at(gc12::regSQ_SHADER_TBA_LO, gc12::regSQ_SHADER_TBA_HI),
                at(gc12::regSQ_SHADER_TMA_LO, gc12::regSQ_SHADER_TMA_HI),
                gc12::SPI_GDBG_PER_VMID_CNTL__TRAP_EN
                    .is_set(self.vmid_reg(space, gc12::regSPI_GDBG_PER_VMID_CNTL)),
            ),
        };
        (traps && tba != 0).then_some(Trap { tba, tma })
    }

    /// Runs until the mailbox is closed. `after_reset` is called after each reset.
    pub fn run(&mut self, after_reset: &dyn Fn()) {
        let mut wait = None;
        let mut since = Instant::now();
        loop {
            match self.mail.recv(wait) {
                Recv::Message(message) => {
                    since = Instant::now();
                    self.handle(message);
                    if message == Wake::Reset {
                        after_reset();
                    }
                    if !self.mail.is_empty() {
                        wait = Some(Duration::ZERO);
                        continue;
                    }
                }
                Recv::Timeout => {}
                Recv::Closed => break,
            }
            wait = self.turn();
            match wait {
                Some(Duration::ZERO) => since = Instant::now(),
                Some(time) => wait = Some(time.max((since.elapsed() / 32).min(LONGEST_POLL))),
                None => {}
            }
        }
        for job in self.queues.iter().flatten().flat_map(|q| q.work.jobs()) {
            job.request_stop();
        }
    }

    /// Handles one message.
    pub fn handle(&mut self, message: Wake) {
        match message {
            Wake::Rescan | Wake::Job(_) => {}
            Wake::Doorbell(index, value, width) => self.doorbell(index, value, width),
            Wake::Activate(slot) => self.activate_by_register(slot),
            Wake::Deactivate(slot) => self.deactivate_by_register(slot),
            Wake::Dequeue(slot, request) => {
                let how = match request {
                    2 => Unmap::Reset,
                    3 => Unmap::Preempt,
                    _ => Unmap::Drain,
                };
                self.force_off(slot, how);
            }
            Wake::Wptr(slot) => self.wptr_by_register(slot),
            Wake::PollOnce(mask) => {
                for n in (0..u64::BITS as u8).filter(|n| mask >> n & 1 != 0) {
                    self.poll_wptr(Slot(n));
                }
            }
            Wake::ResetQueue(slot) => self.reset_queue(slot),
            Wake::ResetPipe(me, pipe) => self.reset_pipe(me, pipe),
            Wake::SoftwareInterrupt => {
                let kiq = self.queues.iter().flatten().find(|q| q.class == Class::Kiq);
                if let Some(kiq) = kiq {
                    // Source 178: the driver's own fence interrupt.
                    self.post(kiq, 178, [0, 0]);
                }
            }
            Wake::Reset => self.reset(),
        }
    }

    fn reset(&mut self) {
        let jobs: Vec<_> = self
            .queues
            .iter()
            .flatten()
            .flat_map(|q| q.work.jobs())
            .collect();
        for slot in 0..SLOTS as u8 {
            self.drop_queue(Slot(slot), "reset");
        }
        self.sched = Sched::default();
        self.mes = Mes::default();
        self.vmids = [Vmid::default(); 16];
        self.saves = Saves::default();
        self.gws.clear();
        self.sdma_queues.clear();
        let since = Instant::now();
        while !jobs.iter().all(|job| job.is_stopped()) && since.elapsed() < RESET_TIMEOUT {
            std::thread::sleep(POLL);
        }
        event!(self.env.trace(), "cp", "reset");
    }

    /// Makes one pass over all queues. Returns how long to sleep; `None`: until a message comes.
    pub fn turn(&mut self) -> Option<Duration> {
        let mut sleep: Option<Duration> = None;
        let mut sooner = |time: Duration| {
            sleep = Some(sleep.map_or(time, |s: Duration| s.min(time)));
        };
        if let Some(time) = self.finish_unmaps() {
            sooner(time);
        }
        if let Some(time) = self.finish_sdma_unmaps() {
            sooner(time);
        }
        if let Some(time) = self.rotate() {
            sooner(time);
        }
        if let Some(time) = self.turn_mes() {
            sooner(time);
        }
        if let Some(time) = self.env.doorbells().report(self.env.strict()) {
            sooner(time);
        }
        self.turn = self.turn.wrapping_add(1);
        for n in 0..SLOTS {
            let slot = (n + self.turn) % SLOTS;
            // Taken out of the table while it runs: its packets may map and unmap others.
            let Some(mut queue) = self.queues[slot].take() else {
                continue;
            };
            let step = self.step(&mut queue);
            self.note_jobs(&mut queue);
            self.queues[slot] = Some(queue);
            match step {
                Step::Busy => sooner(Duration::ZERO),
                Step::Poll(time) => sooner(time),
                Step::Idle => {}
            }
        }
        sleep
    }

    /// Counts the dispatches in flight in `SPI_CSQ_WF_ACTIVE_STATUS`.
    fn note_jobs(&mut self, queue: &mut Queue) {
        let jobs = queue.work.jobs();
        if jobs.len() != queue.noted || !jobs.is_empty() {
            queue.noted = jobs.len();
            self.banks().set_jobs(queue.slot, jobs);
        }
    }

    fn step(&mut self, queue: &mut Queue) -> Step {
        self.shader_messages(queue);
        if queue.leaving.is_some() || queue.is_secondary() || self.banks().halted(queue.slot) {
            return Step::Idle;
        }
        if !self.shared_ready(queue) {
            return Step::Poll(XCC_POLL);
        }
        match queue.halt {
            Halt::No => {}
            Halt::Scratch(signal) => match self.scratch_granted(queue, signal) {
                true => queue.halt = Halt::No,
                false => return poll_again(queue),
            },
            _ => return Step::Idle,
        }
        match queue.config.format {
            _ if queue.class == Class::Mes => self.step_mes(queue),
            Format::Pm4 => self.step_pm4(queue),
            Format::Aql => self.step_aql(queue),
        }
    }

    /// Executes PM4 packets of the ring.
    fn step_pm4(&mut self, queue: &mut Queue) -> Step {
        self.reap_pm4(queue);
        for n in 0..BURST {
            let inside = matches!(&queue.work, Work::Pm4(pm4) if !pm4.ibs.is_empty());
            let empty = !inside && queue.rptr == queue.wptr;
            if empty || queue.halt != Halt::No {
                // The executed packets may have made other queues runnable.
                return if n == 0 { Step::Idle } else { Step::Busy };
            }
            let mut ring = Stream {
                vmid: queue.config.vmid,
                base: queue.config.base,
                wrap: Some(queue.config.size),
                pos: queue.rptr,
                end: queue.wptr,
            };
            let mut ibs = match &mut queue.work {
                Work::Pm4(pm4) => std::mem::take(&mut pm4.ibs),
                Work::Aql(_) => Vec::new(),
            };
            let step = self.step_stream(queue, &mut ring, &mut ibs);
            if let Work::Pm4(pm4) = &mut queue.work {
                pm4.ibs = ibs;
            }
            if ring.pos != queue.rptr {
                queue.rptr = ring.pos;
                self.report_rptr(queue);
            }
            match step {
                Step::Busy => {}
                Step::Idle if n != 0 => return Step::Busy,
                step => return step,
            }
        }
        Step::Busy
    }

    /// Executes one packet of the innermost IB, or of `ring` if there is none.
    pub(super) fn step_stream(
        &mut self,
        queue: &mut Queue,
        ring: &mut Stream,
        ibs: &mut Vec<Stream>,
    ) -> Step {
        let stream = ibs.last().unwrap_or(ring).clone();
        let fetched = match stream.fetch(self.env) {
            Ok(fetched) => fetched,
            Err(fault) => return self.fault_or_retry(queue, &fault, client::CPF),
        };
        let (length, outcome) = match fetched {
            Fetched::End => {
                // Only an IB can end here; the ring was checked before.
                ibs.pop();
                return Step::Busy;
            }
            Fetched::Filler => {
                // Drivers pad with hundreds of NOPs.
                let mut next = stream.clone();
                next.pos = next.pos.wrapping_add(1);
                while matches!(next.fetch(self.env), Ok(Fetched::Filler)) {
                    next.pos = next.pos.wrapping_add(1);
                }
                (next.pos.wrapping_sub(stream.pos), Outcome::Next)
            }
            Fetched::Short { header, need, left } => {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {}: packet {header:#x} of {need} dwords, {left} available",
                    queue.slot
                );
                if ibs.is_empty() {
                    return Step::Idle;
                }
                self.bad_packet(queue, PacketError::Truncated);
                return Step::Idle;
            }
            Fetched::Bad(header, error) => {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {}: {header:#x}: {error}",
                    queue.slot
                );
                self.bad_packet(queue, error);
                return Step::Idle;
            }
            Fetched::Packet(packet) => {
                let in_ring = ibs.is_empty();
                let injected = in_ring.then(|| self.inject(queue, &packet)).flatten();
                match injected.map_or_else(|| self.dispatch_packet(queue, &packet), Ok) {
                    Ok(outcome) => (packet.len(), outcome),
                    Err(fault) => return self.fault_or_retry(queue, &fault, client::CPC),
                }
            }
        };
        let advance = |ring: &mut Stream, ibs: &mut Vec<Stream>, by: u64| {
            let stream = ibs.last_mut().unwrap_or(ring);
            stream.pos = stream
                .pos
                .wrapping_add(by.min(stream.end.wrapping_sub(stream.pos)));
        };
        match outcome {
            Outcome::Next => advance(ring, ibs, length),
            Outcome::Skip(more) => advance(ring, ibs, length + more),
            Outcome::Enter(next, chain) => {
                if !chain && ibs.len() == IB_DEPTH {
                    self.bad_packet(queue, PacketError::IbNesting);
                    return Step::Idle;
                }
                advance(ring, ibs, length);
                if chain {
                    ibs.pop();
                }
                ibs.push(next);
            }
            Outcome::Wait(time) => return Step::Poll(time),
            Outcome::Idle => return Step::Idle,
            Outcome::Bad(error) => {
                self.bad_packet(queue, error);
                return Step::Idle;
            }
        }
        Step::Busy
    }

    /// Checks the length of a packet and executes it.
    fn dispatch_packet(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        if let Some(shape) = shape(self.generation(), p.opcode, p.words.len()) {
            if p.opcode != op::NOP && !p.length_fits(shape) {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {}: {} of {} dwords: {:x?}",
                    queue.slot,
                    shape.name,
                    p.len(),
                    p.words
                );
                return Ok(Outcome::Bad(PacketError::Length));
            }
        }
        if queue.class != Class::Normal && p.opcode != op::NOP {
            event!(
                self.env.trace(),
                "cp",
                "packet",
                "xcc={} queue={} op={:#x} words={:x?}",
                self.env.xcc(),
                queue.slot,
                p.opcode,
                p.words
            );
        }
        match p.opcode {
            op::SET_RESOURCES
            | op::MAP_PROCESS
            | op::MAP_QUEUES
            | op::UNMAP_QUEUES
            | op::QUERY_STATUS
            | op::RUN_LIST
            | op::INVALIDATE_TLBS => self.schedule(queue, p),
            _ => self.execute(queue, p),
        }
    }

    /// Stops a queue because of a bad packet.
    pub(super) fn bad_packet(&mut self, queue: &mut Queue, error: PacketError) {
        strict!(
            self.env.strict(),
            "cp",
            "queue {} pasid {} stops at {:#x}: {error}",
            queue.slot,
            queue.pasid,
            queue.rptr
        );
        queue.halt = Halt::BadPacket;
        let ctx = queue.config.doorbell_id() | error.code() << 10;
        self.post(queue, source::CP_BAD_OPCODE, [ctx, 0]);
    }

    /// Executes a packet again if an access of it has to be retried, else stops the queue.
    pub(super) fn fault_or_retry(
        &mut self,
        queue: &mut Queue,
        fault: &VmFault,
        client: u8,
    ) -> Step {
        if fault.retry {
            self.env.raise_retry(fault, client);
            return Step::Poll(RETRY_POLL);
        }
        self.fault(queue, fault, client);
        Step::Idle
    }

    /// Stops a queue until it is unmapped, because of a fault.
    pub(super) fn fault(&mut self, queue: &mut Queue, fault: &VmFault, client: u8) {
        event!(
            self.env.trace(),
            "cp",
            "fault",
            "xcc={} queue={} pasid={} {fault}",
            self.env.xcc(),
            queue.slot,
            queue.pasid
        );
        queue.halt = Halt::Fault;
        if queue.config.vmid == 0 {
            return raise_of_driver(
                self.env,
                "cp",
                fault,
                client,
                format_args!("kernel queue {}", queue.slot),
            );
        }
        self.env.raise_fault(fault, client);
    }
}
