// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Execution of dispatches on the compute units: a [`Job`] is one dispatch, the [`Pool`] shares the
//! worker threads between all jobs.
//!
//! A worker takes a job, runs some of its workgroups for a time slice and proceeds to the next job,
//! so an endless kernel delays the others but never stops them. A job can be stopped at any time:
//! running workgroups are interrupted, their state stays in the job, and [`Pool::submit`] resumes
//! them, possibly under another VMID.
//!
//! Workgroups start in order. The number in flight is limited to those that fit on the compute
//! units ([`Job::new`]); when none has ended for some time they take turns: a kernel whose
//! workgroups wait for each other completes, as on silicon, if all of them fit.
//!
//! The workgroups of a job on several XCCs are distributed over them in turn, and use the memory
//! hub and the CUs of theirs; the workers are those of the XCC that executes the packet.

mod host;
mod place;
mod pool;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gpu_wave::{Dispatch, GwsResources, Stop, WaveSlots};

use super::cwsr::{SavedGroup, Saving};
use super::env::Env;
use super::shader::{Running, Shader};
use super::shared::{Space, Waves};
use super::Wake;
use crate::chips::{Cu, Generation};
use crate::engines::gmc::cu::CuNumber;
use crate::event;
use crate::mailbox::Mailbox;
use crate::trace::Trace;
pub use place::fits;
use place::{slots, Place};
pub use pool::Pool;

/// Time slice of a workgroup while others of its job are runnable: normally, and once workgroups
/// seem to wait for each other.
const TURN: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(1)];
/// Number of slices without the end of a workgroup after which they seem to.
const STUCK: u32 = 4;
/// Bytes of LDS of a compute unit.
pub const LDS: u32 = 64 << 10;
/// Wave slots of a compute unit, in both generations.
pub const WAVES: u64 = 32;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Progress of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Workgroups are left.
    Going,
    /// All workgroups have ended.
    Done,
    /// A workgroup stopped with an error.
    Failed(Stop),
}

/// An interrupt message of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveMessage {
    /// M0.
    pub m0: u32,
    /// Whether a trap handler sent it.
    pub privileged: bool,
    /// XCC and VMID of the wave.
    pub space: Space,
}

/// GWS allocation of a queue.
#[derive(Clone)]
pub struct GwsShare {
    /// Number of resources.
    pub size: u32,
    /// The resources.
    pub resources: Arc<GwsResources>,
}

/// A workgroup that has started.
struct Unit {
    index: u64,
    /// Where it runs.
    cu: CuNumber,
    state: Box<dyn Running>,
    /// SAVECTX is raised in its waves.
    is_saving: bool,
}

#[derive(Default)]
struct State {
    next: u64,
    done: u64,
    running: u32,
    /// Address space of each share.
    spaces: Vec<Space>,
    /// Started and interrupted, longest waiting first.
    paused: VecDeque<Unit>,
    /// Started and not ended: execution unit and slot there.
    live: BTreeMap<u64, (usize, u32)>,
    /// Number of these in each share.
    live_in: Vec<usize>,
    /// Number of ended workgroups of each share.
    done_in: Vec<u64>,
    /// Occupied slots of each execution unit.
    slots: Vec<u64>,
    /// Saved workgroups to restore.
    restored: VecDeque<SavedGroup>,
    /// Workgroups that cannot continue.
    halted: Vec<Unit>,
    /// Save in progress, and the place of the first share there: no workgroup starts, and those
    /// that have started are saved.
    saving: Option<(Arc<Saving>, usize)>,
    /// Slices that ended since a workgroup last did.
    stuck: u32,
    /// The error, and the address space of its workgroup.
    failed: Option<(Stop, Space)>,
    started: Option<u64>,
    ended: u64,
}

/// The part of a job that runs on one XCC.
struct Share {
    dispatch: Arc<Dispatch>,
    cus: Arc<[Cu]>,
    /// Its execution units among those of the job.
    units: Range<usize>,
}

/// One dispatch.
pub struct Job {
    /// Unique in a run of the model.
    pub id: u64,
    /// The dispatch, on the first of its XCCs.
    pub dispatch: Arc<Dispatch>,
    /// By XCC, in the order in which workgroups are distributed.
    shares: Vec<Share>,
    /// Workgroups in succession on an XCC.
    chunk: u64,
    /// Number of workgroups.
    pub total: u64,
    /// An execution unit, and how many workgroups fit on it.
    place: Place,
    slots: u32,
    /// Workgroups of an XCC with the same index there modulo this share scratch memory.
    reach: u64,
    gws: Option<GwsShare>,
    priority: AtomicU8,
    stop: AtomicBool,
    /// A save is in progress.
    saves: AtomicBool,
    /// It had a time slice since it was last submitted.
    had_slice: AtomicBool,
    /// Number of time slices since then that ended in the trap handler.
    restores: AtomicU8,
    /// Interrupt messages of the waves that the engine has not taken yet. They are stored in the
    /// job, not in the engine's mailbox: the job may end before the engine reads its mailbox again.
    messages: Mutex<Vec<WaveMessage>>,
    state: Mutex<State>,
}

impl Job {
    /// Returns a job on one XCC that has not started, for the compute units `cus`.
    pub fn new(id: u64, dispatch: Dispatch, cus: Arc<[Cu]>, gws: Option<GwsShare>) -> Arc<Self> {
        Self::spread(id, vec![(dispatch, cus)], 1, gws)
    }

    /// Returns a job on several XCCs that has not started: `chunk` workgroups in succession run on
    /// the first, the next on the second, and so on. `on` has the dispatch as it is on each XCC,
    /// and the compute units there.
    pub fn spread(
        id: u64,
        on: Vec<(Dispatch, Arc<[Cu]>)>,
        chunk: u64,
        gws: Option<GwsShare>,
    ) -> Arc<Self> {
        let place = match on.first() {
            Some((dispatch, _)) => Place::of(dispatch),
            None => Place::of(&Dispatch::default()),
        };
        let mut units = 0;
        let xccs = on.len() as u64;
        let share = |(dispatch, cus): (Dispatch, Arc<[Cu]>)| {
            let first = units;
            units += cus.len() / place.cus as usize;
            let dispatch = Dispatch {
                xccs,
                chunk,
                ..dispatch
            };
            Share {
                dispatch: Arc::new(dispatch),
                cus,
                units: first..units,
            }
        };
        let shares: Vec<_> = on.into_iter().map(share).collect();
        let dispatch = shares
            .first()
            .map_or_else(Arc::default, |s| s.dispatch.clone());
        let groups = dispatch.workgroups();
        let reach = match dispatch.scratch.slots {
            0 => u64::MAX,
            slots => (slots / u64::from(dispatch.waves_per_workgroup()).max(1)).max(1),
        };
        Arc::new(Self {
            id,
            total: groups
                .iter()
                .fold(1, |all: u64, &n| all.saturating_mul(n.into())),
            slots: slots(&dispatch, &place),
            place,
            reach,
            gws,
            dispatch,
            chunk: chunk.max(1),
            priority: AtomicU8::new(0),
            stop: AtomicBool::new(false),
            saves: AtomicBool::new(false),
            had_slice: AtomicBool::new(false),
            restores: AtomicU8::new(0),
            messages: Mutex::default(),
            state: Mutex::new(State {
                slots: vec![0; units],
                live_in: vec![0; shares.len()],
                done_in: vec![0; shares.len()],
                ..State::default()
            }),
            shares,
        })
    }

    /// Returns the progress.
    pub fn progress(&self) -> Progress {
        let state = lock(&self.state);
        match &state.failed {
            Some((stop, _)) if state.running == 0 => Progress::Failed(stop.clone()),
            _ if state.done == self.total => Progress::Done,
            _ => Progress::Going,
        }
    }

    /// Returns the clock at the first workgroup's start and at the last one's end.
    pub fn times(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.started.unwrap_or(state.ended), state.ended)
    }

    /// Returns whether all workgroups have started, or have ended.
    pub fn is_launched(&self) -> bool {
        let state = lock(&self.state);
        state.next >= self.total && state.restored.is_empty()
    }

    /// Returns the number of waves that have started and not ended.
    pub fn live_waves(&self) -> u64 {
        let groups = lock(&self.state).live.len() as u64;
        groups * u64::from(self.dispatch.waves_per_workgroup())
    }

    /// Returns the number of waves that started and did not end on `xcc`, in shader engine `se` of
    /// it or in any.
    pub fn waves_on(&self, xcc: u8, se: Option<u32>) -> u32 {
        let state = lock(&self.state);
        let shares = || self.shares.iter().zip(&state.spaces);
        let groups = state.live.values().filter(|(unit, _)| {
            shares().any(|(share, space)| {
                let first = share.units.start;
                let cus = self.place.cus as usize;
                space.xcc == xcc
                    && share.units.contains(unit)
                    && share
                        .cus
                        .get((unit - first) * cus..)
                        .and_then(|cus| cus.first())
                        .is_some_and(|cu| se.is_none_or(|se| cu.se == se))
            })
        });
        groups.count() as u32 * self.dispatch.waves_per_workgroup()
    }

    /// Returns the address space of the workgroup that stopped with an error.
    pub fn failed_in(&self) -> Option<Space> {
        lock(&self.state).failed.as_ref().map(|(_, space)| *space)
    }

    /// Returns whether workgroups run on several XCCs.
    pub fn is_spread(&self) -> bool {
        self.shares.len() > 1
    }

    /// Returns the waves of interrupted workgroups on the XCC with this number in the order in
    /// which workgroups are distributed.
    pub fn waves(&self, place: usize) -> Waves {
        let state = lock(&self.state);
        let paused = state.paused.iter().map(|unit| unit.index);
        let groups = paused.chain(state.halted.iter().map(|unit| unit.index));
        let groups = groups.filter(|n| self.place_of(*n) == place).count() as u64;
        let d = &self.dispatch;
        let in_group = u64::from(d.waves_per_workgroup());
        let wave = (d.vgprs() * 256 + d.sgprs() * 4 + 256) as u64;
        Waves {
            count: groups * in_group,
            bytes: groups * (in_group * wave + u64::from(d.lds_bytes)),
            stack: Vec::new(),
        }
    }

    /// Takes the messages sent since the last call; complete once the job is done.
    pub fn take_messages(&self) -> Vec<WaveMessage> {
        std::mem::take(&mut lock(&self.messages))
    }

    /// Returns the number of workgroups that have started and not ended.
    #[cfg(test)]
    pub fn in_flight(&self) -> usize {
        lock(&self.state).live.len()
    }

    /// Requests that the workers stop the job.
    pub fn request_stop(&self) {
        lock(&self.state).saving = None;
        self.saves.store(false, Ordering::Release);
        self.stop.store(true, Ordering::Release);
    }

    /// Returns whether a stop was requested.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns whether no worker runs a workgroup of the job and, if they are saved, none is left.
    pub fn is_stopped(&self) -> bool {
        let state = lock(&self.state);
        state.running == 0 && (state.saving.is_none() || state.is_saved())
    }

    /// Returns whether the job is runnable and had no time slice since it was submitted. On silicon
    /// the waves of all mapped queues run at the same time: none may be preempted before.
    pub fn awaits_slice(&self) -> bool {
        !self.had_slice.load(Ordering::Acquire) && self.has_work()
    }

    /// Queues a saved workgroup.
    pub fn restore(&self, group: SavedGroup) {
        lock(&self.state).restored.push_back(group);
    }

    /// Returns the index of a workgroup's share.
    fn place_of(&self, index: u64) -> usize {
        match self.shares.len() {
            0 | 1 => 0,
            n => (index / self.chunk % n as u64) as usize,
        }
    }

    /// Returns the number of workgroups of a share.
    fn count_in(&self, place: usize) -> u64 {
        let round = self.chunk.saturating_mul(self.shares.len().max(1) as u64);
        let rest = (self.total % round).saturating_sub(place as u64 * self.chunk);
        self.total / round * self.chunk + rest.min(self.chunk)
    }

    /// Returns whether workers may run workgroups: the job is submitted to all of its XCCs, and
    /// neither stopped nor failed.
    fn may_run(&self, state: &State) -> bool {
        !self.stop.load(Ordering::Acquire)
            && (state.failed.is_none() || state.saving.is_some())
            && state.spaces.len() == self.shares.len()
    }

    /// Returns whether another workgroup may start.
    fn may_start(&self, state: &State) -> bool {
        let fits = || {
            let place = self.place_of(state.next);
            let units = self.shares.get(place).map_or(0, |share| share.units.len());
            let live = state.live_in.get(place).copied().unwrap_or(0);
            live < units * self.slots as usize
        };
        let has_scratch = || {
            let place = self.place_of(state.next);
            let mut live = state.live.keys();
            let first = live.find(|n| self.place_of(**n) == place);
            let number = |index| self.dispatch.index_on_xcc(index);
            first.is_none_or(|first| number(state.next) - number(*first) < self.reach)
        };
        state.saving.is_none()
            && state.next < self.total
            && fits()
            && (self.reach == u64::MAX || has_scratch())
    }

    /// Occupies a slot for workgroup `index`: on the execution unit with the fewest workgroups, of
    /// these the next one in turn.
    fn take_slots(&self, state: &mut State, index: u64) -> WaveSlots {
        let place = self.place_of(index);
        let Share { cus, units, .. } = &self.shares[place];
        let Range { start, end } = *units;
        // Workgroups of this XCC before this one, if a chunk is one workgroup.
        let turn = start + (index / self.shares.len() as u64) as usize % units.len().max(1);
        let order = (turn..end).chain(start..turn);
        let Some(unit) = order.min_by_key(|&unit| state.slots[unit].count_ones()) else {
            return WaveSlots::default();
        };
        let slot = state.slots[unit].trailing_ones();
        state.slots[unit] |= 1u64.checked_shl(slot).unwrap_or(0);
        state.live.insert(index, (unit, slot));
        state.live_in[place] += 1;
        let cu = cus[(unit - start) * self.place.cus as usize];
        WaveSlots {
            se: cu.se,
            sh: cu.sh,
            cu: cu.cu,
            simds: self.place.simds as u32,
            slot: slot * self.dispatch.waves_per_workgroup(),
        }
    }

    /// Returns the next workgroup to run, its time slice, and its address space. Interrupted
    /// workgroups come first unless they seem to wait for one that has not started.
    fn take(&self, shader: &dyn Shader, trace: &Trace) -> Option<(Unit, Duration, Space)> {
        let mut state = lock(&self.state);
        if !self.may_run(&state) {
            return None;
        }
        let stuck = state.stuck >= STUCK;
        let fresh = (stuck || state.paused.is_empty()) && self.may_start(&state);
        let mut unit = if let Some(group) = state.restored.pop_front() {
            let slots = self.take_slots(&mut state, group.index);
            let dispatch = &self.shares[self.place_of(group.index)].dispatch;
            Unit {
                index: group.index,
                cu: CuNumber::of(&slots, dispatch.isa),
                state: shader.restore(
                    dispatch,
                    dispatch.workgroup_at(group.index),
                    slots,
                    &group.waves,
                ),
                is_saving: false,
            }
        } else if fresh {
            let index = state.next;
            state.next += 1;
            let slots = self.take_slots(&mut state, index);
            self.trace_start(&state, index, trace);
            Unit {
                index,
                cu: CuNumber::of(&slots, self.dispatch.isa),
                state: shader.start(
                    &self.shares[self.place_of(index)].dispatch,
                    self.dispatch.workgroup_at(index),
                    slots,
                ),
                is_saving: false,
            }
        } else {
            state.paused.pop_front()?
        };
        if state.saving.is_some() && !unit.is_saving {
            unit.state.save();
            unit.is_saving = true;
        }
        state.running += 1;
        let space = state.spaces[self.place_of(unit.index)];
        Some((unit, TURN[usize::from(stuck)], space))
    }

    /// Logs the start of the first workgroup on an XCC.
    fn trace_start(&self, state: &State, index: u64, trace: &Trace) {
        let place = self.place_of(index);
        if index != place as u64 * self.chunk {
            return;
        }
        let (xcc, groups) = (state.spaces[place].xcc, self.count_in(place));
        event!(
            trace,
            "sq",
            "waves_start",
            "job={} xcc={xcc} workgroups={groups} waves={} cus={}",
            self.id,
            groups * u64::from(self.dispatch.waves_per_workgroup()),
            self.shares[place].cus.len()
        );
    }

    /// Returns whether a workgroup is runnable.
    fn has_work(&self) -> bool {
        let state = lock(&self.state);
        let started = !state.paused.is_empty() || !state.restored.is_empty();
        self.may_run(&state) && (started || self.may_start(&state))
    }

    /// Records the result of a workgroup. Returns whether the engine has to be woken.
    fn complete_workgroup(
        &self,
        (unit, space): (Unit, Space),
        result: Result<(), Stop>,
        waits: bool,
        env: &dyn Env,
    ) -> bool {
        let mut state = lock(&self.state);
        state.running -= 1;
        match result {
            Ok(()) => {
                let place = self.place_of(unit.index);
                state.done += 1;
                state.done_in[place] += 1;
                if state.done_in[place] == self.count_in(place) {
                    event!(
                        env.trace(),
                        "sq",
                        "waves_end",
                        "job={} xcc={}",
                        self.id,
                        space.xcc
                    );
                }
                state.ended = env.clock();
                state.stuck = 0;
                self.leave_slots(&mut state, unit.index);
            }
            Err(Stop::Saved) => self.leave_slots(&mut state, unit.index),
            Err(Stop::Interrupted) => {
                state.stuck = match waits {
                    true => STUCK,
                    false => state.stuck.saturating_add(1),
                };
                state.paused.push_back(unit);
            }
            // A save that began while it ran.
            Err(Stop::Halted { .. }) if state.saving.is_some() && !unit.is_saving => {
                state.paused.push_back(unit);
            }
            // Its waves keep their slots, and the dispatch does not complete.
            Err(Stop::Halted { .. }) => state.halted.push(unit),
            Err(stop) => {
                state.failed.get_or_insert((stop, space));
                self.leave_slots(&mut state, unit.index);
            }
        }
        let stopping = state.failed.is_some() || self.stop.load(Ordering::Acquire);
        let saved = state.saving.is_some() && state.is_saved();
        state.done == self.total || ((stopping || saved) && state.running == 0)
    }

    fn leave_slots(&self, state: &mut State, index: u64) {
        if let Some((saving, first)) = &state.saving {
            saving.ended(first + self.place_of(index), (self.id, index));
        }
        if let Some((place, slot)) = state.live.remove(&index) {
            state.slots[place] &= !1u64.checked_shl(slot).unwrap_or(0);
            state.live_in[self.place_of(index)] -= 1;
        }
    }
}

impl State {
    /// Returns whether no workgroup is left to save, if none runs.
    fn is_saved(&self) -> bool {
        self.paused.is_empty() && self.restored.is_empty() && self.halted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::cp::shared::Site;

    /// The worker that picks a job without XCCs finds no workgroup and would pick it again.
    #[test]
    fn a_job_without_its_xccs_has_no_work() {
        let dispatch = || Dispatch {
            grid: [64, 1, 1],
            workgroup: [64, 1, 1],
            ..Dispatch::default()
        };
        let cu = Cu {
            se: 0,
            sh: 0,
            cu: 0,
            bit: 0,
        };
        let on = vec![(dispatch(), [cu].into()), (dispatch(), [cu].into())];
        let job = Job::spread(1, on, 1, None);
        let pool = Pool::default();
        let site = |xcc| Site {
            space: Space { xcc, vmid: 8 },
            cus: [cu].into(),
            area: None,
            saved: None,
        };
        pool.submit(&job, &[site(0)], 0);
        assert!(!job.has_work());
        pool.submit(&job, &[site(0), site(1)], 0);
        assert!(job.has_work());
    }

    #[test]
    fn the_workgroups_of_all_xccs_are_counted_once() {
        for (groups, xccs, chunk) in [(1, 3, 1), (17, 4, 2), (24, 8, 1), (23, 3, 5), (7, 1, 4)] {
            let dispatch = || Dispatch {
                grid: [64 * groups, 1, 1],
                workgroup: [64, 1, 1],
                ..Dispatch::default()
            };
            let on = (0..xccs).map(|_| (dispatch(), Arc::default())).collect();
            let job = Job::spread(1, on, chunk, None);
            let mut counted = vec![0; xccs];
            for index in 0..job.total {
                counted[job.place_of(index)] += 1;
            }
            let computed: Vec<_> = (0..xccs).map(|place| job.count_in(place)).collect();
            assert_eq!(
                computed, counted,
                "{groups} on {xccs}, {chunk} in succession"
            );
        }
    }
}
