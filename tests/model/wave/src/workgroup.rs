// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Runs the waves of a workgroup in slices and synchronises them at barriers.

use crate::code::{BadCode, Page};
use crate::decode::{self, Bad, Limits};
use crate::exec::{self, Barrier, Ctx, BARRIERS};
use crate::flight::Flight;
use crate::wave::{Halt, State, Wave, FIRST_WAVE};
use crate::{Dispatch, Host, Isa, Memory, SavedWave, Stop, WaveSlots};
use std::ops::Deref;
use std::sync::Arc;

/// Instructions per slice of a wave.
const SLICE: u64 = 4096;
/// LDS of a compute unit, in bytes.
const LDS_BYTES: u32 = 64 << 10;
/// Maximum number of work-items per workgroup.
const MAX_ITEMS: u32 = 1024;
/// Initial contents of LDS.
const UNDEFINED: u8 = 0xa5;

/// Workgroup on a compute unit. `D` is `&Dispatch`, or `Arc<Dispatch>` for a workgroup kept across
/// an interruption.
pub struct Workgroup<D> {
    dispatch: D,
    /// Operand limits outside and inside of the trap handler.
    limits: [Limits; 2],
    /// Instructions per slice of a wave.
    slice: u64,
    waves: Vec<Wave>,
    /// Index of the next wave to run.
    turn: usize,
    /// The waves have started, or are restored.
    started: bool,
    /// The workgroup has run.
    ran: bool,
    /// A wave that ran in this round can continue.
    ready: bool,
    lds: Vec<u8>,
    /// Barriers of gfx1201.
    barriers: [Barrier; BARRIERS],
}

impl<D: Deref<Target = Dispatch>> Workgroup<D> {
    /// Returns the workgroup with id `wg`, before its first instruction.
    ///
    /// # Errors
    ///
    /// [`Stop::BadDispatch`] if the dispatch is invalid.
    pub fn new(dispatch: D, wg: [u32; 3]) -> Result<Self, Stop> {
        let d: &Dispatch = &dispatch;
        let bad = |text: String| Err(Stop::BadDispatch(text));
        let extent = d.workgroup_extent(wg)?;
        let items = extent.iter().try_fold(1u32, |a, &b| a.checked_mul(b));
        let Some(items) = items.filter(|&n| n <= MAX_ITEMS) else {
            return bad(format!("workgroup of {extent:?} work-items"));
        };
        if d.lds_bytes > LDS_BYTES {
            return bad(format!("{} bytes of LDS", d.lds_bytes));
        }
        if d.entry % 256 != 0 {
            return bad(format!("entry {:#x} is not 256-byte aligned", d.entry));
        }
        let count = (d.rsrc2 >> 1 & 0x1f) as usize;
        if d.user_sgprs.len() != count {
            let given = d.user_sgprs.len();
            return bad(format!("{given} user SGPRs given, rsrc2 has {count}"));
        }
        // On gfx1201 workgroup ids are in trap temporaries.
        let system = match d.isa {
            Isa::Gfx942 => (d.rsrc2 >> 7 & 0xf).count_ones() as usize,
            Isa::Gfx1201 => 0,
        };
        if count + system > d.sgprs() {
            return bad(format!(
                "{} start values for {} SGPRs",
                count + system,
                d.sgprs()
            ));
        }
        let count = items.div_ceil(d.lanes());
        let waves = (0..count)
            .map(|index| Wave::new(d, wg, extent, index))
            .collect();
        Ok(Workgroup {
            limits: [d.limits(false), d.limits(true)],
            slice: SLICE,
            waves,
            turn: 0,
            started: false,
            ran: false,
            ready: false,
            lds: vec![UNDEFINED; d.lds_bytes as usize],
            barriers: [Barrier::new(count); BARRIERS],
            dispatch,
        })
    }

    /// Returns a workgroup whose waves start in the restore routine of the trap handler. Its other
    /// waves have ended.
    ///
    /// # Errors
    ///
    /// [`Stop::BadDispatch`] if there is no trap handler.
    pub fn restore(dispatch: D, wg: [u32; 3], waves: &[SavedWave]) -> Result<Self, Stop> {
        let d: &Dispatch = &dispatch;
        let Some(trap) = d.trap else {
            return Err(Stop::BadDispatch("no trap handler restores waves".into()));
        };
        let count = d.waves_per_workgroup();
        let restored = waves.iter().map(|saved| Wave::restored(d, trap, wg, saved));
        Ok(Workgroup {
            limits: [d.limits(false), d.limits(true)],
            slice: SLICE,
            waves: restored.collect(),
            turn: 0,
            started: true,
            ran: false,
            ready: false,
            lds: vec![UNDEFINED; d.lds_bytes as usize],
            barriers: [Barrier::restored(count, waves.len() as u32); BARRIERS],
            dispatch,
        })
    }

    /// Sets the number of instructions per slice of a wave.
    pub fn set_slice(&mut self, instructions: u64) {
        self.slice = instructions;
    }

    /// Sets where the waves run. Default: wave slot 0 of the first CU.
    pub fn set_wave_slots(&mut self, slots: WaveSlots) {
        for wave in &mut self.waves {
            wave.slots = slots;
        }
    }

    /// Runs until all waves end. Can be called again after [`Stop::Interrupted`]; continues with
    /// the next wave.
    pub fn run(&mut self, mem: &dyn Memory, host: &dyn Host) -> Result<(), Stop> {
        if !std::mem::replace(&mut self.started, true) {
            let start = host.wave_start();
            self.waves.iter_mut().for_each(|wave| wave.start_as(&start));
        }
        if !std::mem::replace(&mut self.ran, true) {
            if let Some(seed) = host.late() {
                for wave in &mut self.waves {
                    wave.flight = Some(Box::new(Flight::new(seed, wave.index)));
                }
            }
        }
        loop {
            while let Some(wave) = self.waves.get_mut(self.turn) {
                self.turn += 1;
                if let (true, Some(handler)) = (wave.wants_save(), self.dispatch.trap) {
                    wave.wait_idle(&mut self.lds);
                    wave.enter_to_save(handler, host);
                }
                match wave.state {
                    State::Barrier | State::Halted | State::Reply | State::Ended | State::Saved => {
                        continue
                    }
                    State::Signals(n) if !wave.barrier_complete(n, &self.barriers) => continue,
                    State::Gws(ticket) if !host.gws_over(ticket) => {}
                    _ => {
                        if let State::Signals(n) = wave.state {
                            wave.passes(n, &self.barriers);
                        }
                        wave.state = State::Ready;
                        let mut ctx = Ctx {
                            mem,
                            host,
                            dispatch: &self.dispatch,
                            lds: &mut self.lds,
                            barriers: &mut self.barriers,
                        };
                        let limits = &self.limits[usize::from(wave.privileged)];
                        slice(wave, &mut ctx, limits, self.slice)?;
                        if wave.state.is_over() {
                            self.barriers.iter_mut().for_each(Barrier::leave);
                        }
                    }
                }
                let waits = matches!(wave.state, State::Barrier | State::Halted | State::Reply);
                if !wave.state.is_over() && !waits {
                    self.ready = true;
                    if host.poll() {
                        return Err(Stop::Interrupted);
                    }
                }
            }
            self.turn = 0;
            let replied = self.reply_to_save(host);
            if std::mem::take(&mut self.ready) || replied {
                continue;
            }
            // The last wave that others waited for may have ended in this round.
            let barriers = &self.barriers;
            let complete =
                |w: &Wave| matches!(w.state, State::Signals(n) if w.barrier_complete(n, barriers));
            // A restored wave that returned to its halt in this round may have to be saved again.
            let saves = |w: &Wave| w.wants_save() && self.dispatch.trap.is_some();
            if self.waves.iter().any(|w| complete(w) || saves(w)) {
                continue;
            }
            // Waves of other workgroups are not ready to be saved.
            if self.waves.iter().any(|w| w.state == State::Reply) {
                if host.poll() {
                    return Err(Stop::Interrupted);
                }
                continue;
            }
            // A halted wave never reaches a barrier.
            if let Some(wave) = self.waves.iter().find(|w| w.state == State::Halted) {
                return Err(Stop::Halted { at: wave.place() });
            }
            let waits = |w: &&Wave| matches!(w.state, State::Signals(_));
            if let Some(wave) = self.waves.iter().find(waits) {
                let text = "s_barrier_wait for waves that do not signal".into();
                return Err(Stop::Violation {
                    at: wave.place(),
                    text,
                });
            }
            if !self.open_barrier() {
                let saved = self.waves.iter().any(|w| w.state == State::Saved);
                return if saved { Err(Stop::Saved) } else { Ok(()) };
            }
            if host.poll() {
                return Err(Stop::Interrupted);
            }
        }
    }

    /// Sets TRAPSTS.SAVECTX, on gfx1201 EXCP_FLAG_PRIV.SAVE_CONTEXT, of all waves, which then enter
    /// the trap handler, if there is one, to save their context. [`Workgroup::run`] stops with
    /// [`Stop::Saved`] when all waves have ended.
    pub fn save(&mut self) {
        for wave in self.waves.iter_mut().filter(|w| !w.state.is_over()) {
            wave.request_save();
        }
    }

    /// Returns whether all waves that have not ended have sent MSG_SAVEWAVE.
    fn all_ask(&self) -> bool {
        let mut waves = self.waves.iter().filter(|w| !w.state.is_over());
        waves.clone().next().is_some() && waves.all(|w| w.asks.is_some())
    }

    /// Replies to MSG_SAVEWAVE once all waves have sent it. Returns whether it did.
    fn reply_to_save(&mut self, host: &dyn Host) -> bool {
        if !self.all_ask() {
            return false;
        }
        let left = self.waves.iter_mut().filter(|w| !w.state.is_over());
        let mut left: Vec<&mut Wave> = left.collect();
        let indices: Vec<u32> = left.iter().map(|w| w.index).collect();
        let Some(records) = host.save_waves(left[0].workgroup, &indices) else {
            return false;
        };
        for (n, (wave, record)) in left.iter_mut().zip(records).enumerate() {
            let first = if n == 0 { FIRST_WAVE } else { 0 };
            if let Some(to) = wave.asks.take() {
                wave.set_s64(to, record | first);
            }
            if wave.state == State::Reply {
                wave.state = State::Ready;
            }
        }
        true
    }

    /// Returns whether all waves that have not ended are in the trap handler, which restores them
    /// for example.
    pub fn is_in_handler(&self) -> bool {
        let mut waves = self.waves.iter().filter(|w| !w.state.is_over());
        waves.all(|wave| wave.privileged)
    }

    /// Returns the number of instructions executed by all waves.
    pub fn executed(&self) -> u64 {
        self.waves.iter().map(|wave| wave.executed).sum()
    }

    /// Releases the waves if all that have not ended are at the barrier. Returns `false` if none is
    /// left.
    fn open_barrier(&mut self) -> bool {
        let mut any = false;
        for wave in self
            .waves
            .iter_mut()
            .filter(|wave| wave.state == State::Barrier)
        {
            wave.state = State::Ready;
            any = true;
        }
        any
    }
}

/// Runs all waves of workgroup `wg` to their end.
pub fn run_workgroup(
    mem: &dyn Memory,
    host: &dyn Host,
    d: &Dispatch,
    wg: [u32; 3],
) -> Result<(), Stop> {
    Workgroup::new(d, wg)?.run(mem, host)
}

/// Runs a wave for a number of instructions, or until it enters or leaves the trap handler.
fn slice(
    wave: &mut Wave,
    ctx: &mut Ctx<'_>,
    limits: &Limits,
    instructions: u64,
) -> Result<(), Stop> {
    let privileged = wave.privileged;
    let single_step = !privileged && wave.is_single_step();
    let code = if privileged {
        &ctx.dispatch.trap_code
    } else {
        &ctx.dispatch.code
    };
    let mut page: Arc<Page> = code.page(wave.pc);
    for _ in 0..instructions {
        if let (true, Some(handler)) = (wave.raised && !wave.privileged, ctx.dispatch.trap) {
            wave.wait_idle(ctx.lds);
            wave.enter_raised(handler, ctx.host);
            return Ok(());
        }
        let pc = wave.pc;
        if pc % 4 != 0 {
            let text = format!("instruction address {pc:#x} is not a multiple of 4");
            return stopped(wave, ctx, Halt::Address(text));
        }
        if !page.holds(pc) {
            page = code.page(pc);
        }
        let inst = match page.get(pc, ctx.mem, limits) {
            Ok(inst) => inst,
            Err(bad) => {
                let halt = halt_of_code(&bad);
                if nacked(wave, ctx, &halt) {
                    return Ok(());
                }
                return stopped(wave, ctx, halt);
            }
        };
        wave.pc = pc.wrapping_add(u64::from(inst.bytes));
        wave.executed += 1;
        if let Err(halt) = exec::step(wave, ctx, inst) {
            // The program counter stays at the instruction that stopped the wave.
            wave.pc = pc;
            if nacked(wave, ctx, &halt) {
                return Ok(());
            }
            return stopped(wave, ctx, halt);
        }
        if single_step {
            wave.step_over();
        }
        if wave.state != State::Ready {
            break;
        }
    }
    Ok(())
}

/// Lets a wave wait whose access has to be retried. Returns whether it is such an access.
#[cold]
fn nacked(wave: &mut Wave, ctx: &Ctx<'_>, halt: &Halt) -> bool {
    let Halt::Fault { fault, write } = halt else {
        return false;
    };
    if fault.retry {
        ctx.host.nack(fault, *write);
        wave.state = State::Nack;
    }
    fault.retry
}

/// Handles an instruction that did not complete: enters the trap handler or stops the workgroup.
#[cold]
fn stopped(wave: &mut Wave, ctx: &mut Ctx<'_>, halt: Halt) -> Result<(), Stop> {
    let at = wave.place();
    let words = || {
        let word = |va: u64| {
            let mut dword = [0; 4];
            ctx.mem
                .fetch(va, &mut dword)
                .map_or(0, |()| u32::from_le_bytes(dword))
        };
        let first = word(at.pc);
        match decode::length(ctx.dispatch.isa, &[first]) {
            1 => [first, 0],
            _ => [first, word(at.pc.wrapping_add(4))],
        }
    };
    wave.wait_idle(ctx.lds);
    match wave.trap(halt, ctx.dispatch.trap, &at, ctx.host) {
        Ok(()) => Ok(()),
        Err(halt) => Err(match halt {
            Halt::Fault { fault, write } => Stop::Fault { fault, write, at },
            Halt::Illegal(text) => Stop::IllegalInstruction {
                at,
                words: words(),
                text,
            },
            Halt::Violation(text) | Halt::Address(text) => Stop::Violation { at, text },
            Halt::Trap(id) => Stop::Trap { at, id },
            Halt::Message(message) => Stop::Message(message),
        }),
    }
}

fn halt_of_code(bad: &BadCode) -> Halt {
    match bad {
        BadCode::Fetch(fault) => Halt::Fault {
            fault: *fault,
            write: false,
        },
        BadCode::Decode(Bad::Illegal(text)) => Halt::Illegal(text.clone()),
        BadCode::Decode(Bad::Violation(text)) => Halt::Violation(text.clone()),
    }
}
