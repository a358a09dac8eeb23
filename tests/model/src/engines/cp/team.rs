// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues that all XCCs of a partition have mapped, each from its own MQD, and the progress of the
//! partition's XCCs on their HIQ.
//!
//! On silicon each XCC reads every packet. In the model one XCC executes the packets of a user
//! queue, the leader: the first of the partition for AQL, `pm4_target_xcc_in_xcp` for PM4. The
//! workgroups of an AQL dispatch are dealt to all XCCs, and use the hub, VMID and CUs of each, so
//! the leader needs all of them, and they keep the queue mapped until the leader has unmapped it.
//!
//! Packets of the HIQ are executed by every XCC; the first one writes the fence of QUERY_STATUS
//! once the others have passed the packet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::chips::Cu;

/// An address space of an XCC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Physical instance of the XCC.
    pub xcc: u8,
    /// VMID there.
    pub vmid: u8,
}

/// Place of execution of workgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// XCC, and VMID of the queue's process there.
    pub space: Space,
    /// CUs for the queue's waves there.
    pub cus: Arc<[Cu]>,
}

/// Contents of the MQDs in which all XCCs have to agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Byte address of the ring.
    pub ring: u64,
    /// Size of the ring in dwords.
    pub size: u64,
    /// Address for read pointer reports.
    pub rptr_report: u64,
    /// Address of the write pointer.
    pub wptr_poll: u64,
    /// Dword index of the doorbell.
    pub doorbell: Option<u32>,
    /// Distance of the MQDs in bytes.
    pub stride: u32,
    /// `compute_tg_chunk_size`: workgroups in succession on an XCC.
    pub chunk: u32,
    /// `pm4_target_xcc_in_xcp`, 0 for AQL.
    pub target: u32,
}

/// Membership of a mapped queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// MQD of the first XCC, which identifies the queue.
    pub mqd: u64,
    /// Mapping of the team that the XCC has joined.
    pub epoch: u64,
    /// Number in the order in which workgroups are dealt, for AQL; otherwise of the XCC.
    pub place: usize,
    /// Whether this XCC executes the packets.
    pub leads: bool,
    /// Whether workgroups run on all XCCs.
    pub spread: bool,
    /// Workgroups in succession on an XCC.
    pub chunk: u64,
}

/// Waves that an XCC saves for a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waves {
    /// Number.
    pub count: u64,
    /// Bytes of their state.
    pub bytes: u64,
}

/// State of a queue when its leader unmapped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Read pointer, as in the queue.
    pub rptr: u64,
    /// Write pointer.
    pub wptr: u64,
    /// Saved waves by place; empty if none are restored.
    pub saved: Vec<Waves>,
}

crate::errors! {
    /// An XCC that cannot join.
    pub enum JoinError {
        /// The place does not exist, or another XCC has it.
        Place { place: usize, size: usize } => "XCC {place} of {size} does not exist or is taken",
        /// The MQDs disagree.
        Terms { own: Terms, others: Terms } => "it contains {own:x?}, others {others:x?}",
    }
}

struct Team {
    epoch: u64,
    terms: Terms,
    sites: Vec<Option<Site>>,
    led: bool,
    /// An XCC resets the queue.
    stop: bool,
    /// The leader has stopped the workgroups.
    stopped: bool,
}

/// Progress on an HIQ.
#[derive(Default)]
struct Hiq {
    /// MQD that the first XCC has to have, and terms.
    terms: Option<(u64, Terms)>,
    /// Read pointers by XCC, in dwords and never wrapped.
    rptrs: HashMap<u8, u64>,
    /// Reported read pointer.
    reported: u64,
    /// Position of the runlist and number of its time slice that the first XCC has begun.
    slice: (u64, u64),
}

impl std::ops::AddAssign for Waves {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

#[derive(Default)]
struct State {
    epoch: u64,
    teams: HashMap<u64, Team>,
    /// Left teams by epoch, and the number of XCCs that have not left.
    left: HashMap<u64, (Left, usize)>,
    /// By doorbell.
    hiqs: HashMap<u32, Hiq>,
}

/// State of a team for its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// All XCCs have mapped the queue.
    All,
    /// Some have not mapped it yet.
    NotYet,
    /// An XCC resets the queue: its workgroups have to stop.
    Stop,
}

/// See the module documentation.
#[derive(Default)]
pub struct Teams(Mutex<State>);

impl Teams {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds an XCC to the team of the queue with this MQD on the first of `size` XCCs. Returns the
    /// team's epoch, and why the XCC does not fit.
    pub fn join(
        &self,
        mqd: u64,
        size: usize,
        terms: &Terms,
        (place, leads): (usize, bool),
        site: Site,
    ) -> (u64, Option<JoinError>) {
        let State { epoch, teams, .. } = &mut *self.lock();
        let team = teams.entry(mqd).or_insert_with(|| {
            *epoch += 1;
            Team {
                epoch: *epoch,
                terms: terms.clone(),
                sites: vec![None; size],
                led: false,
                stop: false,
                stopped: false,
            }
        });
        let mut error = None;
        if team.terms != *terms {
            let (own, others) = (terms.clone(), team.terms.clone());
            error = Some(JoinError::Terms { own, others });
        }
        match team.sites.get_mut(place) {
            Some(slot) if slot.as_ref().is_none_or(|s| s.space.xcc == site.space.xcc) => {
                *slot = Some(site)
            }
            _ => error = Some(JoinError::Place { place, size }),
        }
        team.led |= leads;
        (team.epoch, error)
    }

    /// Removes the leader from a queue's team, and with it the team. `left` is for the others.
    pub fn disband(&self, member: &Member, left: Left) {
        let mut state = self.lock();
        let own = |team: &&mut Team| team.epoch == member.epoch;
        let Some(team) = state.teams.get_mut(&member.mqd).filter(own) else {
            return;
        };
        let others = team.sites.iter().flatten().count().saturating_sub(1);
        state.teams.remove(&member.mqd);
        if others != 0 {
            state.left.insert(member.epoch, (left, others));
        }
    }

    /// Removes another XCC from a queue's team. Returns the state that the leader left, if it was
    /// there.
    pub fn leave(&self, member: &Member, xcc: u8) -> Option<Left> {
        let mut state = self.lock();
        if let Some(team) = state.teams.get_mut(&member.mqd) {
            if team.epoch == member.epoch {
                for site in &mut team.sites {
                    *site = site.take().filter(|site| site.space.xcc != xcc);
                }
                if !team.led && team.sites.iter().all(Option::is_none) {
                    state.teams.remove(&member.mqd);
                }
                return None;
            }
        }
        let (left, others) = state.left.get_mut(&member.epoch)?;
        let left = left.clone();
        *others -= 1;
        if *others == 0 {
            state.left.remove(&member.epoch);
        }
        Some(left)
    }

    /// Returns whether another XCC may unmap its part of the queue: no workgroups run there. With
    /// `force`, requests it.
    pub fn may_leave(&self, member: &Member, force: bool) -> bool {
        let mut state = self.lock();
        let Some(team) = state.teams.get_mut(&member.mqd) else {
            return true;
        };
        team.stop |= force && team.epoch == member.epoch;
        team.epoch != member.epoch || !team.led || team.stopped
    }

    /// Returns whether the leader may run workgroups.
    pub fn ready(&self, member: &Member) -> Ready {
        let state = self.lock();
        let own = |team: &&Team| team.epoch == member.epoch;
        match state.teams.get(&member.mqd).filter(own) {
            Some(team) if team.stop => Ready::Stop,
            Some(team) if team.sites.iter().all(Option::is_some) => Ready::All,
            _ => Ready::NotYet,
        }
    }

    /// Returns the places of execution of a team that is ready, in the order in which workgroups
    /// are dealt.
    pub fn sites(&self, member: &Member) -> Vec<Site> {
        let state = self.lock();
        let sites = state.teams.get(&member.mqd).map(|team| &team.sites);
        sites.into_iter().flatten().flatten().cloned().collect()
    }

    /// Records that the leader has stopped the workgroups, after [`Ready::Stop`].
    pub fn set_stopped(&self, member: &Member) {
        if let Some(team) = self.lock().teams.get_mut(&member.mqd) {
            team.stopped = true;
        }
    }

    /// Adds an XCC to an HIQ. `mqd` is the MQD that the first XCC has to have. Returns the others'
    /// MQD and terms if they differ.
    pub fn join_hiq(
        &self,
        hiq: u32,
        xcc: u8,
        mqd: u64,
        terms: &Terms,
        rptr: u64,
    ) -> Option<(u64, Terms)> {
        let mut state = self.lock();
        let hiq = state.hiqs.entry(hiq).or_default();
        hiq.rptrs.insert(xcc, rptr);
        let all = hiq.terms.get_or_insert_with(|| (mqd, terms.clone()));
        (*all != (mqd, terms.clone())).then(|| all.clone())
    }

    /// Records the read pointer of an XCC on an HIQ, and calls `report` with that of the slowest of
    /// `xccs` if it changed.
    pub fn advance(&self, hiq: u32, xcc: u8, rptr: u64, xccs: &[u8], report: &dyn Fn(u64)) {
        let mut state = self.lock();
        let hiq = state.hiqs.entry(hiq).or_default();
        hiq.rptrs.insert(xcc, rptr);
        // In order, since the lock is held.
        if let Some(slowest) = slowest(hiq, xccs).filter(|rptr| *rptr > hiq.reported) {
            hiq.reported = slowest;
            report(slowest);
        }
    }

    /// Removes an XCC from an HIQ.
    pub fn leave_hiq(&self, doorbell: u32, xcc: u8) {
        let mut state = self.lock();
        if let Some(hiq) = state.hiqs.get_mut(&doorbell) {
            hiq.rptrs.remove(&xcc);
            if hiq.rptrs.is_empty() {
                state.hiqs.remove(&doorbell);
            }
        }
    }

    /// Returns the smallest read pointer of `xccs` on an HIQ. `None`: not all have mapped it.
    pub fn slowest(&self, hiq: u32, xccs: &[u8]) -> Option<u64> {
        slowest(self.lock().hiqs.get(&hiq)?, xccs)
    }

    /// Records that the first XCC begins a time slice of the runlist at a position of the HIQ.
    pub fn begin_slice(&self, hiq: u32, slice: (u64, u64)) {
        self.lock().hiqs.entry(hiq).or_default().slice = slice;
    }

    /// Returns the time slice that the first XCC has begun: position of the runlist, number.
    pub fn slice(&self, hiq: u32) -> (u64, u64) {
        self.lock().hiqs.get(&hiq).map_or((0, 0), |hiq| hiq.slice)
    }

    /// Removes everything.
    pub fn reset(&self) {
        let mut state = self.lock();
        let epoch = state.epoch;
        *state = State {
            epoch,
            ..State::default()
        };
    }
}

fn slowest(hiq: &Hiq, xccs: &[u8]) -> Option<u64> {
    let all: Option<Vec<u64>> = xccs.iter().map(|xcc| hiq.rptrs.get(xcc).copied()).collect();
    all?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MQD: u64 = 0x1000;

    fn terms() -> Terms {
        Terms {
            ring: 0x2000,
            size: 0x100,
            rptr_report: 0x3000,
            wptr_poll: 0x3008,
            doorbell: Some(0x1000),
            stride: 0x1000,
            chunk: 1,
            target: 0,
        }
    }

    fn site(xcc: u8) -> Site {
        Site {
            space: Space { xcc, vmid: 8 + xcc },
            cus: Vec::new().into(),
        }
    }

    fn member(epoch: u64, leads: bool) -> Member {
        Member {
            mqd: MQD,
            epoch,
            place: 0,
            leads,
            spread: true,
            chunk: 1,
        }
    }

    fn left(rptr: u64) -> Left {
        Left {
            rptr,
            wptr: rptr + 1,
            saved: Vec::new(),
        }
    }

    #[test]
    fn a_team_is_ready_when_all_have_joined() {
        let teams = Teams::default();
        let join = |place, xcc| teams.join(MQD, 2, &terms(), (place, xcc == 2), site(xcc));
        let (epoch, error) = join(1, 2);
        assert!(error.is_none());
        assert_eq!(teams.ready(&member(epoch, true)), Ready::NotYet);
        assert!(join(1, 3).1.is_some(), "taken");
        assert!(join(2, 3).1.is_some(), "outside");
        assert_eq!(join(0, 3), (epoch, None));
        let all = Ready::All;
        assert_eq!(teams.ready(&member(epoch, true)), all);
        assert_eq!(teams.sites(&member(epoch, true)), [site(3), site(2)]);
        assert!(!teams.may_leave(&member(epoch, false), false));
        // The leader unmaps and maps it again before the other XCC unmaps it.
        teams.disband(&member(epoch, true), left(77));
        let (next, _) = join(1, 2);
        assert_ne!(next, epoch);
        assert!(teams.may_leave(&member(epoch, false), false));
        assert_eq!(teams.leave(&member(epoch, false), 3), Some(left(77)));
        assert_eq!(teams.leave(&member(epoch, false), 3), None);
        assert_eq!(teams.ready(&member(next, true)), Ready::NotYet);
        assert_eq!(join(0, 3), (next, None));
        assert_eq!(teams.ready(&member(next, true)), all);
        let other = Terms {
            ring: 0x4000,
            ..terms()
        };
        let (_, error) = teams.join(MQD, 2, &other, (0, false), site(3));
        assert!(error.is_some());
    }

    #[test]
    fn a_reset_stops_the_leader_first() {
        let teams = Teams::default();
        let (epoch, _) = teams.join(MQD, 2, &terms(), (0, true), site(0));
        teams.join(MQD, 2, &terms(), (1, false), site(1));
        let (leader, other) = (member(epoch, true), member(epoch, false));
        assert!(!teams.may_leave(&other, true));
        assert_eq!(teams.ready(&leader), Ready::Stop);
        teams.set_stopped(&leader);
        assert!(teams.may_leave(&other, true));
        assert_eq!(teams.leave(&other, 1), None);
        assert_eq!(teams.ready(&leader), Ready::Stop);
    }

    #[test]
    fn hiq_advances_with_the_slowest_xcc() {
        let teams = Teams::default();
        let hiq = 0x20;
        let reports = Mutex::new(Vec::new());
        let advance = |xcc, rptr| {
            let report = |rptr| reports.lock().unwrap().push(rptr);
            teams.advance(hiq, xcc, rptr, &[0, 1], &report);
        };
        assert!(teams.join_hiq(hiq, 0, MQD, &terms(), 0).is_none());
        advance(0, 10);
        assert_eq!(teams.slowest(hiq, &[0, 1]), None);
        assert!(teams.join_hiq(hiq, 1, MQD + 8, &terms(), 0).is_some());
        advance(1, 4);
        advance(0, 12);
        advance(1, 12);
        assert_eq!(teams.slowest(hiq, &[0, 1]), Some(12));
        assert_eq!(*reports.lock().unwrap(), [4, 12]);
        teams.begin_slice(hiq, (2, 3));
        assert_eq!(teams.slice(hiq), (2, 3));
        teams.leave_hiq(hiq, 1);
        assert_eq!(teams.slowest(hiq, &[0, 1]), None);
        teams.leave_hiq(hiq, 0);
        assert_eq!(teams.slice(hiq), (0, 0));
    }
}
