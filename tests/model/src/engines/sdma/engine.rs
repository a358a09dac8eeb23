// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The thread of one engine: it tracks the registers of its contexts, executes packets of one
//! context after the other, and sleeps when none can proceed.

mod contexts;

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use gpu_regs::sdma_4_4_2 as regs;
use rkfd_abi::sdma::NOP_SINGLE;

use super::bank::{Bank, ContextId, CONTEXTS};
use super::context::{Context, Halt};
use super::error::PacketError;
use super::layout::Layout;
use super::{Shared, Wake};
use crate::engines::gmc::{Hub, VmFault};
use crate::gpu::Gpu;
use crate::mailbox::Recv;
use crate::{event, strict};

/// Packets of one context per turn, and the time after which no further one is started.
const BURST: usize = 64;
const SLICE: Duration = Duration::from_millis(4);
/// Poll interval of a waiting packet: initial and maximum.
const POLL: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// Poll interval of write pointers in memory.
const WPTR_POLL: Duration = Duration::from_millis(1);
/// Interval between the attempts of an access that is retried.
const RETRY_POLL: Duration = Duration::from_micros(100);
/// Dwords per fetch.
const FETCH: usize = 16;

/// Result of executing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done; length in dwords.
    Next(u64),
    /// Done, and an IB is entered; the context holds it.
    Entered,
    /// Partly done.
    More,
    /// Waits for a condition.
    Wait,
    /// The engine hangs in it.
    Hang,
    /// The packet stops its context.
    Bad(PacketError),
}

/// State of a context after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Busy,
    Idle,
    Poll(Duration),
}

/// A fence delayed by a knob.
struct Late {
    due: Instant,
    vmid: u8,
    va: u64,
    data: u32,
}

/// State of the engine's thread.
pub(super) struct Engine<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) n: u8,
    pub(super) layout: &'static Layout,
    shared: &'a Shared,
    contexts: [Option<Context>; CONTEXTS],
    /// Starts rejected because of invalid registers.
    refused: [Option<u32>; CONTEXTS],
    late: VecDeque<Late>,
    /// A knob made the engine hang in this context.
    hung: Option<ContextId>,
    /// Packets without a bit of SDMA_CNTL were reported. A driver clears it before it resets the
    /// engine because of a queue that does not stop, so that there is one report until the reset.
    control_reported: bool,
    turn: usize,
    /// Offset of the local counter from the reference clock.
    pub(super) clock_offset: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(gpu: &'a Gpu, n: u8, shared: &'a Shared) -> Self {
        Self {
            gpu,
            n,
            layout: shared.bank().layout(),
            shared,
            contexts: [const { None }; CONTEXTS],
            refused: [None; CONTEXTS],
            late: VecDeque::new(),
            hung: None,
            control_reported: false,
            turn: 0,
            clock_offset: 0,
        }
    }

    pub(super) fn bank(&self) -> MutexGuard<'a, Bank> {
        self.shared.bank()
    }

    /// Runs until the mailbox is closed.
    pub(super) fn run(&mut self) {
        let mut wait = Some(Duration::ZERO);
        loop {
            match self.shared.mail.recv(wait) {
                Recv::Message(Wake::Rescan) | Recv::Timeout => {}
                Recv::Message(Wake::Reset(done)) => {
                    self.reset();
                    done.one(self.gpu);
                }
                Recv::Message(Wake::ResetQueue(id)) => self.reset_queue(id),
                Recv::Closed => break,
            }
            wait = if self.shared.mail.is_empty() {
                self.turn()
            } else {
                Some(Duration::ZERO)
            };
        }
    }

    /// Resets everything; nothing resumes.
    fn reset(&mut self) {
        event!(self.gpu.trace, "sdma", "reset", "engine={}", self.n);
        self.bank().reset();
        self.contexts = [const { None }; CONTEXTS];
        self.late.clear();
        self.hung = None;
        self.control_reported = false;
        self.clock_offset = 0;
    }

    /// Disables and empties a queue's ring, and ends a hang in it.
    fn reset_queue(&mut self, id: ContextId) {
        event!(
            self.gpu.trace,
            "sdma",
            "queue_reset",
            "engine={} queue={id}",
            self.n
        );
        self.contexts[usize::from(id.0)] = None;
        self.hung = self.hung.filter(|hung| *hung != id);
        let mut bank = self.bank();
        for reg in [regs::regSDMA_GFX_RB_CNTL, regs::regSDMA_GFX_DOORBELL] {
            bank.put(id, reg, 0);
        }
        bank.set_wptr(id, 0);
        bank.set_leaving(id, false);
        bank.publish(id, 0, false, false);
        drop(bank);
        self.gpu.rescan();
    }

    /// Returns the hub that translates the engine's addresses.
    pub(super) fn hub(&self) -> Hub {
        self.layout.hub(self.n)
    }

    /// Makes one pass over all contexts. Returns how long to sleep; `None`: until a message comes.
    fn turn(&mut self) -> Option<Duration> {
        let mut sleep: Option<Duration> = None;
        let mut sooner = |time: Duration| {
            sleep = Some(sleep.map_or(time, |s: Duration| s.min(time)));
        };
        self.follow_registers();
        if let Some(time) = self.write_late_fences() {
            sooner(time);
        }
        if self.hung.is_some() || self.is_halted() {
            return sleep;
        }
        let mut blocked = None;
        self.turn = self.turn.wrapping_add(1);
        for n in 0..CONTEXTS {
            let at = (n + self.turn) % CONTEXTS;
            let Some(mut context) = self.contexts[at].take() else {
                continue;
            };
            let step = self.step(&mut context);
            let stuck = context.has_work() && step != Step::Busy;
            if stuck && blocked.is_none_or(|id| context.id < id) {
                blocked = Some(context.id);
            }
            self.contexts[at] = Some(context);
            match step {
                Step::Busy => sooner(Duration::ZERO),
                Step::Poll(time) => sooner(time),
                Step::Idle => {}
            }
            if self.hung.is_some() {
                return sleep;
            }
        }
        self.bank().select(blocked);
        sleep
    }

    fn is_halted(&self) -> bool {
        self.bank().halted()
    }

    /// Writes the delayed fences that are due. Returns when the next one is.
    fn write_late_fences(&mut self) -> Option<Duration> {
        while let Some(late) = self.late.front() {
            let left = late.due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left);
            }
            let late = self.late.pop_front()?;
            event!(
                self.gpu.trace,
                "sdma",
                "late_fence",
                "engine={} va={:#x} data={:#x}",
                self.n,
                late.va,
                late.data
            );
            if let Err(fault) = self
                .gpu
                .gmc
                .write32(self.hub(), late.vmid, late.va, late.data)
            {
                self.gpu.raise_fault(&fault, self.cid());
            }
        }
        None
    }

    /// Delays a fence.
    pub(super) fn fence_later(&mut self, after: Duration, vmid: u8, va: u64, data: u32) {
        self.late.push_back(Late {
            due: Instant::now() + after,
            vmid,
            va,
            data,
        });
    }

    /// Executes packets of one context.
    fn step(&mut self, context: &mut Context) -> Step {
        if context.halt != Halt::No {
            return Step::Idle;
        }
        if !context.has_work() {
            // The write of the read pointer report has to be retried.
            if context.reported != context.rptr && self.is_enabled(context) {
                return self.report(context).unwrap_or(Step::Busy);
            }
            return self.poll_wptr(context);
        }
        self.bank().begin(context.id);
        let mut step = Step::Busy;
        let since = Instant::now();
        for _ in 0..BURST {
            if !context.has_work() || since.elapsed() > SLICE || !self.is_enabled(context) {
                break;
            }
            match self.step_packet(context) {
                Ok(Step::Busy) => {}
                Ok(other) => {
                    step = other;
                    break;
                }
                Err(fault) if self.retry(context, &fault) => {
                    step = Step::Poll(RETRY_POLL);
                    break;
                }
                Err(fault) => {
                    self.fault(context, &fault);
                    if context.halt != Halt::No {
                        step = Step::Idle;
                        break;
                    }
                    // Fetched data is lost; it reads as zero, which is a NOP.
                    match context.ib {
                        Some(ib) => context.advance(ib.size - ib.pos),
                        None => context.halt = Halt::Fault,
                    }
                }
            }
        }
        match (self.report(context), step) {
            (Some(poll), Step::Idle) => poll,
            _ => step,
        }
    }

    /// Reports the progress of a context to registers and memory. Returns when to retry if the
    /// write has to be retried.
    fn report(&mut self, context: &mut Context) -> Option<Step> {
        let stopped = context.halt != Halt::No;
        let inside = context.is_inside() || self.hung == Some(context.id);
        let current = {
            let mut bank = self.bank();
            let current = bank.start_of(context.id) == context.start;
            if current {
                bank.publish(context.id, context.rptr, inside, stopped);
            }
            current
        };
        if !current || context.reported == context.rptr {
            return None;
        }
        if let Some(to) = context.config.rptr_report {
            let vmid = context.config.vmid;
            if let Err(fault) = self.gpu.gmc.write64(self.hub(), vmid, to, context.rptr) {
                if self.retry(context, &fault) {
                    return Some(Step::Poll(RETRY_POLL));
                }
                self.fault(context, &fault);
            }
        }
        context.reported = context.rptr;
        None
    }

    fn poll_wptr(&mut self, context: &mut Context) -> Step {
        let Some(at) = context.config.wptr_poll else {
            return Step::Idle;
        };
        match self.gpu.gmc.read64(self.hub(), context.config.vmid, at) {
            Ok(wptr) => {
                let mut bank = self.bank();
                if wptr > bank.wptr(context.id) {
                    bank.set_wptr(context.id, wptr);
                    return Step::Busy;
                }
                Step::Poll(WPTR_POLL)
            }
            Err(fault) if self.retry(context, &fault) => Step::Poll(RETRY_POLL),
            Err(fault) => {
                self.fault(context, &fault);
                context.halt = Halt::Fault;
                Step::Idle
            }
        }
    }

    /// Executes one packet, or a part of it. Fails if fetching faults.
    fn step_packet(&mut self, context: &mut Context) -> Result<Step, VmFault> {
        let there = context.available();
        let mut words = [0; FETCH];
        let count = there.min(FETCH as u64) as usize;
        let words = &mut words[..count];
        context.fetch(&self.gpu.gmc, 0, words)?;
        let length = self.length(words);
        if length > there {
            let inside = context.ib.is_some();
            strict!(
                self.gpu.strict,
                "sdma",
                "engine {}: queue {} pasid {}: packet {:#x} of {length} dwords, {there} available",
                self.n,
                context.id,
                context.pasid,
                words[0]
            );
            if inside {
                self.bad_packet(context, words, PacketError::Truncated);
            }
            return Ok(Step::Idle);
        }
        if words[0] != NOP_SINGLE && context.progress == 0 && context.looks == 0 {
            event!(
                self.gpu.trace,
                "sdma",
                "packet",
                "engine={} queue={} vmid={} ib={} op={} words={:x?}",
                self.n,
                context.id,
                context.vmid(),
                u8::from(context.ib.is_some()),
                (self.layout.opcode_name)(words[0] as u8).unwrap_or("?"),
                &words[..count.min(length as usize)]
            );
        }
        let words = &words[..count.min(length as usize)];
        match self.execute(context, words) {
            Ok(Outcome::Next(length)) => context.advance(length),
            Ok(Outcome::Entered | Outcome::More) => {}
            Ok(Outcome::Wait) => {
                context.looks = context.looks.saturating_add(1);
                let doubled = POLL[0].saturating_mul(1 << context.looks.min(16));
                return Ok(Step::Poll(doubled.min(POLL[1])));
            }
            Ok(Outcome::Hang) => {
                event!(
                    self.gpu.trace,
                    "sdma",
                    "hang",
                    "engine={} queue={}",
                    self.n,
                    context.id
                );
                self.hung = Some(context.id);
                return Ok(Step::Idle);
            }
            Ok(Outcome::Bad(error)) => {
                self.bad_packet(context, words, error);
                return Ok(Step::Idle);
            }
            Err(fault) if self.retry(context, &fault) => return Ok(Step::Poll(RETRY_POLL)),
            Err(fault) => {
                self.fault(context, &fault);
                if context.halt != Halt::No {
                    return Ok(Step::Idle);
                }
                context.advance(length);
            }
        }
        Ok(Step::Busy)
    }

    /// Returns whether a ring is still enabled, without a dequeue request.
    fn is_enabled(&mut self, context: &Context) -> bool {
        let control = {
            let bank = self.bank();
            if bank.start_of(context.id) != context.start || bank.is_leaving(context.id) {
                return false;
            }
            bank.get(regs::regSDMA_CNTL)
        };
        let needs = self.layout.control_for_packets;
        if control & needs != needs && !self.control_reported {
            self.control_reported = true;
            strict!(
                self.gpu.strict,
                "sdma",
                "engine {}: packets with SDMA_CNTL {control:#x}: UTC_L1_ENABLE is 0",
                self.n
            );
        }
        true
    }

    fn bad_packet(&mut self, context: &mut Context, words: &[u32], error: PacketError) {
        strict!(
            self.gpu.strict,
            "sdma",
            "engine {}: queue {} pasid {} stops at {:#x}: {error} ({words:x?})",
            self.n,
            context.id,
            context.pasid,
            context.rptr
        );
        context.halt = Halt::BadPacket;
    }

    /// Returns the engine's client id in the fault status register.
    fn cid(&self) -> u16 {
        self.layout.cid(self.n)
    }

    /// Raises the interrupt of an access of a user queue that is retried. Returns whether it is.
    /// The engine has no mode of its own: it follows that of the process in the SQ.
    fn retry(&self, context: &Context, fault: &VmFault) -> bool {
        let retried = fault.retry
            && !context.id.is_kernel()
            && self.gpu.hub_waits_for_faults(self.hub(), fault.vmid);
        if retried {
            self.gpu.raise_retry(fault, self.cid());
        }
        retried
    }

    /// Reports a failed access. The engine continues if there is a default page: reads return
    /// nothing useful, writes are lost.
    pub(super) fn fault(&mut self, context: &mut Context, fault: &VmFault) {
        event!(
            self.gpu.trace,
            "sdma",
            "fault",
            "engine={} queue={} pasid={} {fault}",
            self.n,
            context.id,
            context.pasid
        );
        if !self.gpu.raise_fault(fault, self.cid()) {
            context.halt = Halt::Fault;
        }
    }

    /// Posts an interrupt of this engine, if the bits of `enable` are set in `SDMA_CNTL`.
    pub(super) fn post(&self, context: &Context, source: u32, enable: u32, ctx: u32) {
        let control = self.bank().get(regs::regSDMA_CNTL);
        if control & enable != enable {
            event!(
                self.gpu.trace,
                "sdma",
                "interrupt_masked",
                "engine={} source={source} SDMA_CNTL={control:#x}",
                self.n
            );
            return;
        }
        let vmid = context.vmid();
        self.gpu
            .ih
            .post(self.layout.entry(self.n, context.id, vmid, source, ctx));
    }
}
