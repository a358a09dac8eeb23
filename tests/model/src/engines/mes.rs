// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MES: the scheduler firmware of gfx12. A driver submits frames of 64 dwords that add and remove
//! queues; MES maps and unmaps them.
//!
//! It runs on two pipes of ME 3. Pipe 1 is started by registers and replaces the KIQ: it maps the
//! ring of pipe 0, and executes requests about registers and TLBs. Pipe 0 schedules. Everything
//! here runs on the thread of the command processor, through the trait [`Hardware`].
//!
//! | module | is responsible for |
//! |---|---|
//! | [`regs`] | registers of the two pipes |
//! | [`frames`] | frames that are not about queues |
//! | [`queues`] | frames about queues: add, remove, suspend, resume, reset |
//! | [`schedule`] | assignment of VMIDs and HQD slots, quanta |
//! | [`context`] | process and gang contexts in the driver's memory |
//!
//! AMD does not publish these, so they are made up: the contents of the contexts, the error codes
//! ([`code`]), the weighing of priorities (see [`schedule`]).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rkfd_abi::mes::{self, error_category, ErrorWord, Frame, FRAME_DWORDS};

use crate::engines::cp::env::{client, Env};
use crate::engines::cp::fault::raise_of_driver;
use crate::engines::cp::queue::Step;
use crate::engines::cp::save::LoadError;
use crate::engines::cp::slot::Slot;
use crate::{event, strict};
use error::FrameError;

pub use error::code;

pub mod context;
pub mod error;
pub mod frames;
pub mod queues;
pub mod regs;
pub mod schedule;

#[cfg(test)]
mod tests;

/// Value of the version register: firmware 0x8b of interface 0x14.
pub const VERSION: u32 =
    mes::VERSION.put(0x8b) | mes::VERSION_API.put(mes::API_VERSION) | mes::VERSION_FEATURE.put(1);

/// Parameters of mapping a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// HQD slot.
    pub slot: Slot,
    /// MQD, an address of VMID 0.
    pub mqd: u64,
    /// Write pointer, an address of VMID 0.
    pub wptr: u64,
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
    /// Address space.
    pub vmid: u8,
    /// PASID.
    pub pasid: u16,
    /// Whether it is a ring of MES itself.
    pub ring: bool,
}

/// Activity of a mapped queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// No work left.
    Idle,
    /// Executing or waiting.
    Busy,
    /// Stopped by a fault or a bad packet.
    Halted,
}

/// The HQD slots, and the chip around them.
pub trait Hardware {
    /// The chip.
    fn env(&self) -> &dyn Env;
    /// Announces that doorbells of this index belong to a queue, even if it is not mapped.
    fn expect(&mut self, doorbell: u32, sdma: bool);
    /// Assigns a VMID to a process.
    fn claim(&mut self, vmid: u8, pasid: u16, root: u64);
    /// Loads a queue from its MQD.
    fn load(&mut self, load: &Load) -> Result<(), LoadError>;
    /// Starts to unmap a queue: preempts it, or resets it.
    fn begin_unload(&mut self, slot: Slot, reset: bool);
    /// Returns whether a queue is mapped to a slot.
    fn is_mapped(&self, slot: Slot) -> bool;
    /// Returns whether the queue in a slot has work that has not run since it was mapped.
    fn awaits_slice(&self, slot: Slot) -> bool;
    /// Returns the activity of the queue in a slot.
    fn activity(&self, slot: Slot) -> Activity;
}

/// Progress of a frame without error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Done.
    Done,
    /// Not complete; retry after this time.
    Wait(Duration),
}

/// Result of a frame.
type FrameResult = Result<Progress, FrameError>;

/// The ring of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// First byte, an address of VMID 0.
    pub base: u64,
    /// Dwords.
    pub size: u64,
    /// Read pointer in dwords, never wrapped.
    pub rptr: u64,
    /// Write pointer in dwords, never wrapped.
    pub wptr: u64,
}

/// One pipe.
#[derive(Debug, Default)]
struct Pipe {
    /// SET_HW_RSRC was executed.
    configured: bool,
    /// Register base addresses of the graphics core.
    gc_base: [u32; 8],
    /// Timeout for unmapping a queue.
    unmap_timeout: Option<Duration>,
    /// When the pending frame was first tried.
    since: Option<Instant>,
    /// Number of pipe resets already handled.
    resets: u64,
    /// Fences of this ring are delayed, because the previous frame was about a user queue.
    late: bool,
    /// When the pending frame is executed, if that is delayed.
    due: Option<Instant>,
    /// WAIT_REG_MEM has written its first register.
    wrote: bool,
    /// Hangs until it is reset.
    hangs: bool,
}

/// Parameters of SET_HW_RSRC.
#[derive(Debug, Clone, Default)]
struct Resources {
    vmid_mask: u16,
    compute: Vec<Slot>,
    sdma: Vec<Slot>,
    hqds: usize,
    aggregated: [u32; mes::PRIORITY_LEVELS],
    /// Whether doorbells of unmapped queues are monitored.
    doorbells: bool,
    single_process: bool,
}

/// State of the firmware.
#[derive(Default)]
pub struct Mes {
    pipes: [Pipe; mes::PIPES],
    resources: Resources,
    /// Processes by context address.
    processes: BTreeMap<u64, schedule::Process>,
    queues: Vec<schedule::UserQueue>,
    legacy: Vec<queues::kernel::Legacy>,
    /// Fences that a knob or the adversary delays.
    late: VecDeque<(Instant, u64, u64)>,
    polled: Option<Instant>,
}

/// Timeout for unmapping a queue before SET_HW_RSRC_1 sets one.
const UNMAP_TIMEOUT: Duration = Duration::from_secs(1);
/// Poll interval of a pending frame.
const POLL: Duration = Duration::from_micros(500);

impl Mes {
    /// Drops the state of a pipe that was reset or halted since the last call.
    fn drop_reset_pipes(&mut self, hw: &dyn Hardware) {
        for n in 0..mes::PIPES {
            let resets = hw.env().mes().resets(n as u32);
            if std::mem::replace(&mut self.pipes[n].resets, resets) == resets {
                continue;
            }
            self.pipes[n] = Pipe {
                resets,
                ..Pipe::default()
            };
            if n != mes::PIPE_SCHED as usize {
                continue;
            }
            // A halted firmware writes nothing.
            self.late.clear();
            let mapped = self.queues.iter().filter(|q| q.slot.is_some()).count();
            if mapped != 0 {
                strict!(
                    hw.env().strict(),
                    "mes",
                    "the scheduler is reset while {mapped} user queues are mapped"
                );
            }
            self.queues.clear();
            self.processes.clear();
            self.legacy.clear();
            self.resources = Resources::default();
        }
    }

    /// Steps the ring of a pipe: executes the first frame, if any.
    pub fn step(&mut self, hw: &mut dyn Hardware, pipe: u32, ring: &mut Ring) -> Step {
        self.drop_reset_pipes(hw);
        let index = pipe as usize % mes::PIPES;
        if !hw.env().mes().runs(pipe) || self.pipes[index].hangs || ring.rptr == ring.wptr {
            return Step::Idle;
        }
        let frame = FRAME_DWORDS as u64;
        if ring.rptr % frame != 0 || (ring.wptr - ring.rptr) % frame != 0 || ring.size % frame != 0
        {
            strict!(
                hw.env().strict(),
                "mes",
                "pipe {pipe}: incomplete frames between {:#x} and {:#x} of {:#x} dwords",
                ring.rptr,
                ring.wptr,
                ring.size
            );
            self.pipes[index].hangs = true;
            return Step::Idle;
        }
        let at = ring.base + ring.rptr % ring.size * 4;
        let words = match hw.env().read_dwords(0, at, FRAME_DWORDS) {
            Ok(words) => words,
            Err(fault) => {
                raise_of_driver(
                    hw.env(),
                    "mes",
                    &fault,
                    client::CPF,
                    format_args!("pipe {pipe}: its ring"),
                );
                self.pipes[index].hangs = true;
                return Step::Idle;
            }
        };
        let mut frame = [0; FRAME_DWORDS];
        frame.copy_from_slice(&words);
        match self.frame(hw, pipe, &frame) {
            Some(wait) => return Step::Poll(wait),
            None if self.pipes[index].hangs => return Step::Idle,
            None => {}
        }
        self.pipes[index].since = None;
        ring.rptr += FRAME_DWORDS as u64;
        Step::Busy
    }

    /// Executes a frame. Returns when to retry if it is not complete.
    fn frame(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &[u32; FRAME_DWORDS],
    ) -> Option<Duration> {
        let index = pipe as usize % mes::PIPES;
        let first = self.pipes[index].since.is_none();
        self.pipes[index].since.get_or_insert_with(Instant::now);
        let opcode = mes::HEADER_OPCODE.get(words[0]) as u8;
        let Some(shape) = mes::shape(words) else {
            // The address of its status is unknown.
            strict!(
                hw.env().strict(),
                "mes",
                "pipe {pipe}: frame {:#x} {:#x}: {}",
                words[0],
                words[1],
                mes::op_name(opcode)
                    .map_or("unknown opcode".into(), |n| format!("{n} is not supported"))
            );
            return None;
        };
        if first {
            log(hw.env(), pipe, shape, words);
        }
        let result = match check(shape, words) {
            Err(error) => Err(error),
            Ok(()) => match self.inject(hw.env(), index, shape, words, first) {
                Injected::Hang => return None,
                Injected::Error => Err(FrameError::Injected),
                Injected::Nothing => self.execute(hw, pipe, shape, words),
            },
        };
        let error = match result {
            Ok(Progress::Wait(time)) => return Some(time),
            Ok(Progress::Done) => None,
            Err(error) => Some(error),
        };
        self.complete(hw.env(), pipe, shape, words, error);
        None
    }

    fn inject(
        &mut self,
        env: &dyn Env,
        pipe: usize,
        shape: &Frame,
        words: &[u32; FRAME_DWORDS],
        first: bool,
    ) -> Injected {
        let user = queues::is_about_user_queues(shape, words);
        if user || shape.opcode != mes::op::QUERY_SCHEDULER_STATUS {
            self.pipes[pipe].late = user;
        }
        if !first || !queues::may_fail(env, shape, words) {
            return Injected::Nothing;
        }
        if env.knobs().mes_hang.reach() {
            event!(
                env.trace(),
                "mes",
                "inject",
                "pipe={pipe} what=hang op={}",
                shape.name
            );
            self.pipes.iter_mut().for_each(|p| p.hangs = true);
            return Injected::Hang;
        }
        if env.knobs().mes_error.reach() {
            event!(
                env.trace(),
                "mes",
                "inject",
                "pipe={pipe} what=error op={}",
                shape.name
            );
            return Injected::Error;
        }
        Injected::Nothing
    }

    /// Writes the status and fence of a frame.
    fn complete(
        &mut self,
        env: &dyn Env,
        pipe: u32,
        shape: &Frame,
        words: &[u32; FRAME_DWORDS],
        error: Option<FrameError>,
    ) {
        let to = shape.fence_addr().get(words);
        let value = match &error {
            None => shape.fence_value().get(words),
            Some(error) => {
                if error.category() == error_category::API {
                    let name = shape.name;
                    strict!(env.strict(), "mes", "pipe {pipe}: {name}: {error}");
                }
                ErrorWord {
                    code: error.code(),
                    opcode: shape.opcode,
                    misc: shape.misc.unwrap_or(0),
                    category: error.category(),
                }
                .encode()
            }
        };
        let lost = queues::may_fail(env, shape, words) && env.knobs().mes_no_status.reach();
        event!(
            env.trace(),
            "mes",
            "done",
            "pipe={pipe} op={} status={value:#x} addr={to:#x} written={} error={:?}",
            shape.name,
            u8::from(!lost),
            error.map_or(String::new(), |e| e.to_string())
        );
        if lost {
            return;
        }
        let late = env.knobs().mes_late.get();
        let time = if late != 0 && self.pipes[pipe as usize % mes::PIPES].late {
            env.knobs().mes_late.hit();
            Duration::from_millis(late)
        } else {
            env.response_time()
        };
        if time.is_zero() {
            write_status(env, to, value);
        } else {
            self.late.push_back((Instant::now() + time, to, value));
        }
    }

    /// Writes the delayed fences that are due. Returns when to call it again.
    fn write_late(&mut self, env: &dyn Env) -> Option<Duration> {
        while let Some(&(when, to, value)) = self.late.front() {
            let left = when.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left);
            }
            self.late.pop_front();
            event!(
                env.trace(),
                "mes",
                "late_status",
                "addr={to:#x} status={value:#x}"
            );
            write_status(env, to, value);
        }
        None
    }

    /// Runs everything besides the rings. Returns when to call it again.
    pub fn turn(&mut self, hw: &mut dyn Hardware) -> Option<Duration> {
        self.drop_reset_pipes(hw);
        let late = self.write_late(hw.env());
        let again = self.schedule(hw);
        [late, again].into_iter().flatten().min()
    }

    /// Drops the parameters of a pipe when its ring is unmapped.
    pub fn ring_ends(&mut self, pipe: u32) {
        let pipe = &mut self.pipes[pipe as usize % mes::PIPES];
        pipe.since = None;
        pipe.due = None;
    }
}

enum Injected {
    Nothing,
    Error,
    Hang,
}

fn write_status(env: &dyn Env, to: u64, value: u64) {
    if to == 0 || to % 8 != 0 {
        strict!(env.strict(), "mes", "status of a frame at {to:#x}");
        return;
    }
    if let Err(fault) = env.write64(0, to, value) {
        raise_of_driver(
            env,
            "mes",
            &fault,
            client::CPC,
            format_args!("status of a frame at {to:#x}"),
        );
    }
}

/// Logs a frame in one line, with every nonzero field.
fn log(env: &dyn Env, pipe: u32, shape: &Frame, words: &[u32; FRAME_DWORDS]) {
    if !env.trace().enabled() {
        return;
    }
    let mut fields = String::new();
    shape.each(words, |name, n, value| {
        let name = name.to_lowercase();
        match n {
            Some(n) => fields += &format!(" {name}[{n}]={value:#x}"),
            None => fields += &format!(" {name}={value:#x}"),
        }
    });
    event!(
        env.trace(),
        "mes",
        "frame",
        "pipe={pipe} op={}{fields}",
        shape.name
    );
}

/// Checks a frame independently of its opcode.
fn check(shape: &Frame, words: &[u32; FRAME_DWORDS]) -> Result<(), FrameError> {
    let dwords = mes::HEADER_DWSIZE.get(words[0]);
    if dwords != FRAME_DWORDS as u32 {
        return Err(FrameError::Size { dwords });
    }
    let kind = mes::HEADER_TYPE.get(words[0]);
    if kind != mes::TYPE_SCHEDULER {
        return Err(FrameError::Type { kind });
    }
    for (dw, word) in words.iter().enumerate() {
        let bits = word & shape.undefined(dw);
        if bits != 0 {
            return Err(FrameError::UndefinedBits { dw, bits });
        }
    }
    Ok(())
}
