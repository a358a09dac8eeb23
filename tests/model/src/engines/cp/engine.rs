// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The engine: everything the MECs do, on one thread. It takes messages (doorbells, register
//! writes that mean work, workgroups that ended), looks at every mapped queue in turn, and sleeps
//! when no queue can go on.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_wave::Apertures;
use rkfd_abi::ih::source;
use rkfd_abi::pm4::op;
use rkfd_abi::regs::gc_9_4_3 as gc;

use super::env::{client, Env};
use super::exec::{ec, POLL};
use super::pm4::{shape, Fetched, Packet, Stream};
use super::queue::{Class, Config, Format, Halt, Leaving, Queue, Step, Unmap, Work};
use super::regs::{Banks, Slot, SLOTS};
use super::save::Saves;
use super::sched::Sched;
use super::{dispatch::Pool, Wake};
use crate::engines::gmc::VmFault;
use crate::mailbox::{Mailbox, Recv};
use crate::{event, strict};

/// How long a reset waits for workgroups to stop.
const RESET_PATIENCE: Duration = Duration::from_secs(1);
/// How long after its doorbell a queue may be mapped.
const ORPHAN: Duration = Duration::from_millis(100);
/// Packets of one queue that are executed before the next queue has its turn.
const BURST: usize = 16;

/// What became of a packet.
#[derive(Debug)]
pub enum Outcome {
    /// Done.
    Next,
    /// Not yet; look again after this time.
    Wait(Duration),
    /// Not yet; a message will come.
    Idle,
    /// Done; go on in a buffer, with (false) or without (true) coming back.
    Enter(Stream, bool),
    /// Done, and so are the next dwords.
    Skip(u64),
    /// The packet stops the queue: exception code, what is wrong.
    Bad(u32, &'static str),
}

/// Who has a VMID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vmid {
    /// Process; 0 is nobody.
    pub pasid: u16,
    /// Page-table root.
    pub root: u64,
}

/// The engine's own state.
pub struct Engine<'a> {
    /// The chip around.
    pub env: &'a dyn Env,
    /// Registers, shared with the thread that serves the guest.
    pub banks: &'a Mutex<Banks>,
    /// Messages.
    pub mail: &'a Mailbox<Wake>,
    /// Compute units.
    pub pool: &'a Pool,
    /// Mapped queues by slot.
    pub queues: Vec<Option<Queue>>,
    /// Scheduler firmware.
    pub sched: Sched,
    /// Address spaces.
    pub vmids: [Vmid; 16],
    /// Work of queues that are off the hardware.
    pub saves: Saves,
    known_doorbells: HashSet<u32>,
    /// Doorbells of no known queue: index, value, when.
    orphans: Vec<(u32, u64, Instant)>,
    jobs: u64,
    turn: usize,
}

impl<'a> Engine<'a> {
    /// An engine in power-on state.
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
            sched: Sched::default(),
            vmids: [Vmid::default(); 16],
            saves: Saves::default(),
            known_doorbells: HashSet::new(),
            orphans: Vec::new(),
            jobs: 0,
            turn: 0,
        }
    }

    pub(super) fn banks(&self) -> MutexGuard<'a, Banks> {
        self.banks.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn new_job_id(&mut self) -> u64 {
        self.jobs += 1;
        self.jobs
    }

    /// The flat apertures of a VMID.
    pub(super) fn apertures(&self, vmid: u8) -> Apertures {
        let bases = self.env.vmid_reg(vmid, gc::regSH_MEM_BASES);
        Apertures {
            shared: u64::from(gc::SH_MEM_BASES__SHARED_BASE.get(bases)) << 48,
            private: u64::from(gc::SH_MEM_BASES__PRIVATE_BASE.get(bases)) << 48,
        }
    }

    /// Runs until the mailbox is closed. `after_reset` is called after each reset.
    pub fn run(&mut self, after_reset: &dyn Fn()) {
        let mut wait = None;
        loop {
            match self.mail.recv(wait) {
                Recv::Message(message) => {
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
        }
        for job in self.queues.iter().flatten().flat_map(|q| q.work.jobs()) {
            job.request_stop();
        }
    }

    /// Takes one message.
    pub fn handle(&mut self, message: Wake) {
        match message {
            Wake::Look | Wake::Job(_) => {}
            Wake::Doorbell(index, value, width) => self.doorbell(index, value, width),
            Wake::Activate(slot) => self.activate_by_register(slot),
            Wake::Deactivate(slot) => self.drop_queue(slot, "CP_HQD_ACTIVE cleared"),
            Wake::Dequeue(slot, request) => {
                let how = match request {
                    2 => Unmap::Reset,
                    3 => Unmap::Preempt,
                    _ => Unmap::Drain,
                };
                self.start_unmap(slot, how, false);
            }
            Wake::Wptr(slot) => self.wptr_by_register(slot),
            Wake::PollOnce(mask) => {
                for n in (0..SLOTS as u8).filter(|n| mask >> n & 1 != 0) {
                    self.poll_wptr(Slot(n));
                }
            }
            Wake::ResetQueue(slot) => self.reset_queue(slot),
            Wake::ResetPipe(me, pipe) => {
                for queue in 0..8 {
                    self.reset_queue(Slot::new(me, pipe, queue));
                }
            }
            Wake::SoftwareInterrupt => {
                let kiq = self.queues.iter().flatten().find(|q| q.class == Class::Kiq);
                if let Some(kiq) = kiq {
                    // Source 178: the driver's own fence interrupt.
                    self.post(kiq, 178, [0, 0]);
                }
            }
            Wake::ShaderMessage(job, m0) => self.shader_message(job, m0),
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
        self.vmids = [Vmid::default(); 16];
        self.saves = Saves::default();
        self.known_doorbells.clear();
        self.orphans.clear();
        let since = Instant::now();
        while !jobs.iter().all(|job| job.is_quiet()) && since.elapsed() < RESET_PATIENCE {
            std::thread::sleep(POLL);
        }
        event!(self.env.trace(), "cp", "reset");
    }

    /// Looks at everything once. Returns how long to sleep; `None` is until a message comes.
    pub fn turn(&mut self) -> Option<Duration> {
        let mut sleep: Option<Duration> = None;
        let mut sooner = |time: Duration| {
            sleep = Some(sleep.map_or(time, |s: Duration| s.min(time)));
        };
        if let Some(time) = self.finish_unmaps() {
            sooner(time);
        }
        if let Some(time) = self.rotate() {
            sooner(time);
        }
        if let Some(time) = self.report_orphans() {
            sooner(time);
        }
        self.turn = self.turn.wrapping_add(1);
        for n in 0..SLOTS {
            let slot = (n + self.turn) % SLOTS;
            // Out of the table while it runs: its packets may map and unmap others.
            let Some(mut queue) = self.queues[slot].take() else {
                continue;
            };
            let step = self.step(&mut queue);
            self.queues[slot] = Some(queue);
            match step {
                Step::Busy => sooner(Duration::ZERO),
                Step::Poll(time) => sooner(time),
                Step::Idle => {}
            }
        }
        sleep
    }

    fn step(&mut self, queue: &mut Queue) -> Step {
        if queue.leaving.is_some() || self.banks().halted(queue.slot) {
            return Step::Idle;
        }
        match queue.halt {
            Halt::No => {}
            Halt::Scratch(signal) => match self.scratch_granted(queue, signal) {
                true => queue.halt = Halt::No,
                false => return Step::Poll(POLL),
            },
            _ => return Step::Idle,
        }
        match queue.config.format {
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
                // What was executed may have given others something to do.
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

    /// Executes one packet of the innermost buffer, or of `ring` when there is none.
    pub(super) fn step_stream(
        &mut self,
        queue: &mut Queue,
        ring: &mut Stream,
        ibs: &mut Vec<Stream>,
    ) -> Step {
        let stream = ibs.last().unwrap_or(ring).clone();
        let fetched = match stream.fetch(self.env) {
            Ok(fetched) => fetched,
            Err(fault) => {
                self.fault(queue, &fault, client::CPF);
                return Step::Idle;
            }
        };
        let (length, outcome) = match fetched {
            Fetched::End => {
                // Only a buffer ends; the ring was looked at before.
                ibs.pop();
                return Step::Busy;
            }
            Fetched::Filler => {
                // A driver pads with hundreds of them.
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
                    "queue {}: packet {header:#x} of {need} dwords, {left} are there",
                    queue.slot
                );
                if ibs.is_empty() {
                    return Step::Idle;
                }
                self.bad_packet(queue, ec::PACKET_RESERVED, "packet reaches over its buffer");
                return Step::Idle;
            }
            Fetched::Bad(header, what) => {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {}: {header:#x}: {what}",
                    queue.slot
                );
                self.bad_packet(queue, ec::PACKET_UNSUPPORTED, what);
                return Step::Idle;
            }
            Fetched::Packet(packet) => match self.dispatch_packet(queue, &packet) {
                Ok(outcome) => (packet.len(), outcome),
                Err(fault) => {
                    self.fault(queue, &fault, client::CPC);
                    return Step::Idle;
                }
            },
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
                advance(ring, ibs, length);
                if chain {
                    ibs.pop();
                }
                ibs.push(next);
            }
            Outcome::Wait(time) => return Step::Poll(time),
            Outcome::Idle => return Step::Idle,
            Outcome::Bad(code, what) => {
                self.bad_packet(queue, code, what);
                return Step::Idle;
            }
        }
        Step::Busy
    }

    /// Checks the length and sends a packet to who executes it.
    fn dispatch_packet(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        if let Some(shape) = shape(p.opcode, p.words.len()) {
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
                return Ok(Outcome::Bad(ec::PACKET_RESERVED, "wrong length"));
            }
        }
        if queue.class != Class::Normal && p.opcode != op::NOP {
            event!(
                self.env.trace(),
                "cp",
                "packet",
                "queue={} op={:#x} words={:x?}",
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

    /// A packet stops its queue.
    pub(super) fn bad_packet(&mut self, queue: &mut Queue, code: u32, what: &str) {
        strict!(
            self.env.strict(),
            "cp",
            "queue {} pasid {} stops at {:#x}: {what}",
            queue.slot,
            queue.pasid,
            queue.rptr
        );
        queue.halt = Halt::BadPacket;
        let ctx = queue.config.doorbell_id() | code << 10;
        self.post(queue, source::CP_BAD_OPCODE, [ctx, 0]);
    }

    /// A fault stops a queue until it is taken off the hardware.
    pub(super) fn fault(&mut self, queue: &mut Queue, fault: &VmFault, client: u8) {
        event!(
            self.env.trace(),
            "cp",
            "fault",
            "queue={} pasid={} {fault}",
            queue.slot,
            queue.pasid
        );
        if queue.config.vmid == 0 {
            // Nobody is to blame but the driver.
            strict!(
                self.env.strict(),
                "cp",
                "queue {} of the kernel: {fault}",
                queue.slot
            );
        }
        queue.halt = Halt::Fault;
        self.env.raise_fault(fault, client);
    }

    /// Tells memory and the register how far a queue is.
    pub(super) fn report_rptr(&mut self, queue: &mut Queue) {
        let register = queue.config.narrow_rptr(queue.rptr);
        self.banks()
            .slot_mut(queue.slot)
            .set(gc::regCP_HQD_PQ_RPTR, register);
        let (vmid, to) = (queue.config.vmid, queue.config.rptr_report);
        if to == 0 {
            return;
        }
        let written = match queue.config.format {
            Format::Pm4 => self.env.write32(vmid, to, register),
            Format::Aql => self.env.write64(vmid, to, queue.rptr),
        };
        if let Err(fault) = written {
            self.fault(queue, &fault, client::CPC);
        }
    }

    fn doorbell(&mut self, index: u32, value: u64, width: u8) {
        let (slot, enabled) = {
            let banks = self.banks();
            (banks.find_doorbell(index), banks.doorbells_enabled())
        };
        if !enabled {
            strict!(
                self.env.strict(),
                "cp",
                "doorbell {index:#x} value {value:#x} while CP_PQ_STATUS.DOORBELL_ENABLE is 0"
            );
            return;
        }
        let Some(slot) = slot else {
            if !self.known_doorbells.contains(&index) {
                self.orphans.push((index, value, Instant::now()));
            }
            event!(
                self.env.trace(),
                "cp",
                "doorbell_unmapped",
                "index={index:#x} value={value:#x}"
            );
            return;
        };
        {
            let mut banks = self.banks();
            let bank = banks.slot_mut(slot);
            let control = bank.get(gc::regCP_HQD_PQ_DOORBELL_CONTROL);
            let hit = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_HIT.mask;
            bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, control | hit);
        }
        let Some(mut queue) = self.queues[usize::from(slot.0)].take() else {
            return;
        };
        match (queue.config.format, width) {
            (Format::Pm4, 8) => self.set_wptr(&mut queue, value),
            (Format::Pm4, _) => {
                let high = queue.wptr & !0xffff_ffff;
                let low = value & 0xffff_ffff;
                let carry = u64::from(low < queue.wptr & 0xffff_ffff) << 32;
                self.set_wptr(&mut queue, high + carry + low);
            }
            (Format::Aql, _) => {
                self.read_wptr(&mut queue);
                if value > queue.wptr && queue.halt == Halt::No {
                    strict!(
                        self.env.strict(),
                        "cp",
                        "queue {slot}: doorbell {value:#x}, but the write index in memory is {:#x}",
                        queue.wptr
                    );
                }
            }
        }
        self.queues[usize::from(slot.0)] = Some(queue);
    }

    /// A doorbell may come before the packet that maps its queue was executed: mapping reads the
    /// write pointer from memory, so nothing is lost. When no queue comes, it is an error.
    fn report_orphans(&mut self) -> Option<Duration> {
        let strict = self.env.strict();
        self.orphans.retain(|(index, value, since)| {
            let wait = since.elapsed() < ORPHAN;
            if !wait {
                strict!(
                    strict,
                    "cp",
                    "doorbell {index:#x} value {value:#x} belongs to no queue"
                );
            }
            wait
        });
        (!self.orphans.is_empty()).then_some(ORPHAN)
    }

    /// Moves the write pointer, if it makes sense.
    fn set_wptr(&mut self, queue: &mut Queue, wptr: u64) {
        let behind = queue.wptr.wrapping_sub(wptr);
        if queue.config.format == Format::Pm4 && (1..=queue.config.capacity()).contains(&behind) {
            // The doorbell was rung before the queue was mapped, and mapping read a later value.
            return;
        }
        let filled = wptr.wrapping_sub(queue.rptr);
        let most = match queue.config.format {
            Format::Pm4 => queue.config.capacity(),
            // Producers take an index first and wait for its slot to be free afterwards.
            Format::Aql => 1 << 28,
        };
        if filled > most {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: write pointer {wptr:#x}, read pointer {:#x}, ring of {:#x}",
                queue.slot,
                queue.rptr,
                queue.config.capacity()
            );
            return;
        }
        queue.wptr = wptr;
        let scale = if queue.config.format == Format::Aql {
            16
        } else {
            1
        };
        self.banks()
            .slot_mut(queue.slot)
            .set64(gc::regCP_HQD_PQ_WPTR_LO, wptr.wrapping_mul(scale));
    }

    /// Reads the write pointer from memory.
    pub(super) fn read_wptr(&mut self, queue: &mut Queue) {
        let (vmid, at) = (queue.config.vmid, queue.config.wptr_poll);
        match self.env.read64(vmid, at) {
            Ok(wptr) => self.set_wptr(queue, wptr),
            Err(fault) => self.fault(queue, &fault, client::CPF),
        }
    }

    fn poll_wptr(&mut self, slot: Slot) {
        if let Some(mut queue) = self.queues[usize::from(slot.0)].take() {
            self.banks().take_poll_once(slot);
            self.read_wptr(&mut queue);
            self.queues[usize::from(slot.0)] = Some(queue);
        }
    }

    fn wptr_by_register(&mut self, slot: Slot) {
        let wptr = self.banks().slot(slot).get64(gc::regCP_HQD_PQ_WPTR_LO);
        if let Some(mut queue) = self.queues[usize::from(slot.0)].take() {
            match queue.config.format {
                Format::Pm4 => self.set_wptr(&mut queue, wptr),
                Format::Aql => self.set_wptr(&mut queue, wptr / 16),
            }
            self.queues[usize::from(slot.0)] = Some(queue);
        }
    }

    /// `CP_HQD_ACTIVE` was set by a register write: the KIQ, or a driver without HWS.
    fn activate_by_register(&mut self, slot: Slot) {
        let class = match self.banks().is_kiq(slot) {
            true => Class::Kiq,
            false => Class::Normal,
        };
        let pasid = {
            let vmid = self.banks().slot(slot).get(gc::regCP_HQD_VMID) & 15;
            self.vmids[vmid as usize].pasid
        };
        self.activate(slot, class, pasid, false);
        if self.banks().take_poll_once(slot) {
            self.poll_wptr(slot);
        }
    }

    /// Starts the queue that a bank describes. True if it makes sense.
    pub(super) fn activate(
        &mut self,
        slot: Slot,
        class: Class,
        pasid: u16,
        is_static: bool,
    ) -> bool {
        let (config, rptr, wptr) = {
            let banks = self.banks();
            let bank = banks.slot(slot);
            (
                Config::from_bank(bank),
                bank.get(gc::regCP_HQD_PQ_RPTR),
                bank.get64(gc::regCP_HQD_PQ_WPTR_LO),
            )
        };
        let config = match config {
            Ok(config) => config,
            Err(text) => {
                strict!(self.env.strict(), "cp", "queue {slot} cannot start: {text}");
                return false;
            }
        };
        let wptr = match config.format {
            Format::Pm4 => wptr,
            Format::Aql => wptr / 16,
        };
        let rptr = config.widen_rptr(rptr, wptr);
        if let Some(doorbell) = config.doorbell {
            self.known_doorbells.insert(doorbell);
            self.orphans.retain(|(index, ..)| *index != doorbell);
        }
        event!(
            self.env.trace(),
            "cp",
            "queue_start",
            "queue={slot} class={class:?} format={:?} vmid={} pasid={pasid} base={:#x} dwords={:#x} \
             rptr={rptr:#x} wptr={wptr:#x} doorbell={:#x} mqd={:#x}",
            config.format,
            config.vmid,
            config.base,
            config.size,
            config.doorbell.unwrap_or(u32::MAX),
            config.mqd
        );
        self.queues[usize::from(slot.0)] = Some(Queue {
            slot,
            class,
            rptr,
            wptr,
            halt: Halt::No,
            leaving: None,
            pasid,
            is_static,
            work: Work::new(&config, rptr),
            config,
        });
        true
    }

    /// Does fault injection keep the queue on the hardware?
    fn is_stuck(&self, slot: Slot) -> bool {
        let queue = self.queues[usize::from(slot.0)].as_ref();
        queue.is_some_and(|q| q.pasid != 0) && self.env.knobs().hws_no_preempt.on()
    }

    /// Begins to take a queue off the hardware.
    pub(super) fn start_unmap(&mut self, slot: Slot, how: Unmap, keep: bool) {
        let stuck = self.is_stuck(slot);
        let Some(queue) = &mut self.queues[usize::from(slot.0)] else {
            self.banks().slot_mut(slot).set(gc::regCP_HQD_ACTIVE, 0);
            return;
        };
        // Without an area to save to, what runs has to end.
        let how = match how {
            Unmap::Preempt if queue.config.save_area.is_none() => Unmap::Drain,
            how => how,
        };
        if how != Unmap::Drain && !stuck {
            for job in queue.work.jobs() {
                job.request_stop();
            }
        }
        queue.leaving = Some(Leaving {
            how,
            since: Instant::now(),
            keep,
        });
        event!(
            self.env.trace(),
            "cp",
            "unmap_start",
            "queue={slot} how={how:?} pasid={} in_flight={}",
            queue.pasid,
            u8::from(queue.work.in_flight())
        );
    }

    /// A queue vanishes with everything it has in flight.
    fn drop_queue(&mut self, slot: Slot, why: &str) {
        let Some(queue) = self.queues[usize::from(slot.0)].take() else {
            return;
        };
        for job in queue.work.jobs() {
            job.request_stop();
        }
        event!(
            self.env.trace(),
            "cp",
            "queue_dropped",
            "queue={slot} pasid={} why={why:?}",
            queue.pasid
        );
    }

    /// `SPI_COMPUTE_QUEUE_RESET` or a pipe reset: waves die, and a dequeue that was asked for
    /// takes effect.
    fn reset_queue(&mut self, slot: Slot) {
        if self.queues[usize::from(slot.0)].is_some() {
            self.start_unmap(slot, Unmap::Reset, false);
            if let Some(queue) = &mut self.queues[usize::from(slot.0)] {
                queue.class = match queue.class {
                    Class::Hiq => Class::Normal,
                    class => class,
                };
            }
        }
    }
}
