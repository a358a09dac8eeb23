// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues that all XCCs of a partition have mapped, each from its own MQD, and the progress of the
//! partition's XCCs on their HIQ.
//!
//! On silicon each XCC reads every packet. In the model one XCC executes the packets of a user
//! queue, the master XCC: the first of the partition for AQL, `pm4_target_xcc_in_xcp` for PM4. The
//! workgroups of an AQL dispatch are distributed over all XCCs, and use the hub, VMID and CUs of
//! each, so the master needs all of them, and they keep the queue mapped until the master has
//! unmapped it.
//!
//! Packets of the HIQ are executed by every XCC; the first one writes the fence of QUERY_STATUS
//! once the others have passed the packet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::queue::{SaveArea, SavedState};
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
    /// Context save area there.
    pub area: Option<SaveArea>,
    /// Waves to restore from it.
    pub saved: Option<SavedState>,
}

/// Contents that have to be equal in the MQDs of all XCCs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonFields {
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
pub struct Mapping {
    /// MQD of the first XCC, which identifies the queue.
    pub mqd: u64,
    /// Number of the mapping of the queue, the same on all XCCs.
    pub epoch: u64,
    /// Number in the order in which workgroups are distributed, for AQL; otherwise of the XCC.
    pub place: usize,
    /// Whether this XCC executes the packets.
    pub is_master: bool,
    /// Whether workgroups run on all XCCs.
    pub spread: bool,
    /// Workgroups in succession on an XCC.
    pub chunk: u64,
}

/// Waves that an XCC saves for a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waves {
    /// Number.
    pub count: u64,
    /// Bytes of their state.
    pub bytes: u64,
    /// Dwords of the control stack (gfx9).
    pub stack: Vec<u32>,
}

/// State of a queue when its master unmapped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterState {
    /// Read pointer, as in the queue.
    pub rptr: u64,
    /// Write pointer.
    pub wptr: u64,
    /// Saved waves by place; empty if none are restored.
    pub saved: Vec<Waves>,
    /// The waves of all save areas were restored, if there were any.
    pub restored: bool,
}

crate::errors! {
    /// An XCC that cannot map a queue.
    pub enum MapError {
        /// The place does not exist, or another XCC has it.
        Place { place: usize, size: usize } => "XCC {place} of {size} does not exist or is taken",
        /// The MQDs are inconsistent.
        CommonFields { own: CommonFields, others: CommonFields } => "it contains {own:x?}, others {others:x?}",
    }
}

struct SharedQueue {
    epoch: u64,
    common: CommonFields,
    sites: Vec<Option<Site>>,
    master_mapped: bool,
    /// An XCC resets the queue.
    stop: bool,
    /// The master has stopped the workgroups.
    stopped: bool,
}

/// Progress on an HIQ.
#[derive(Default)]
struct Hiq {
    /// MQD that the first XCC has to have, and common fields.
    common: Option<(u64, CommonFields)>,
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
        self.stack.extend(other.stack);
    }
}

#[derive(Default)]
struct State {
    epoch: u64,
    queues: HashMap<u64, SharedQueue>,
    /// By epoch: state of a queue that the master has unmapped, and the number of XCCs that have
    /// not.
    left: HashMap<u64, (MasterState, usize)>,
    /// By doorbell.
    hiqs: HashMap<u32, Hiq>,
    /// VMIDs of the scheduler, by XCC that has an HIQ.
    schedulers: HashMap<u8, u16>,
}

/// State of a queue for its master XCC.
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
pub struct SharedQueues(Mutex<State>);

impl SharedQueues {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Maps the queue with this MQD on the first of `size` XCCs on one of them. Returns the epoch,
    /// and why the XCC does not fit.
    pub fn map(
        &self,
        mqd: u64,
        size: usize,
        common: &CommonFields,
        (place, is_master): (usize, bool),
        site: Site,
    ) -> (u64, Option<MapError>) {
        let State { epoch, queues, .. } = &mut *self.lock();
        let queue = queues.entry(mqd).or_insert_with(|| {
            *epoch += 1;
            SharedQueue {
                epoch: *epoch,
                common: common.clone(),
                sites: vec![None; size],
                master_mapped: false,
                stop: false,
                stopped: false,
            }
        });
        let mut error = None;
        if queue.common != *common {
            let (own, others) = (common.clone(), queue.common.clone());
            error = Some(MapError::CommonFields { own, others });
        }
        match queue.sites.get_mut(place) {
            Some(slot) if slot.as_ref().is_none_or(|s| s.space.xcc == site.space.xcc) => {
                *slot = Some(site)
            }
            _ => error = Some(MapError::Place { place, size }),
        }
        queue.master_mapped |= is_master;
        (queue.epoch, error)
    }

    /// Unmaps a queue on its master XCC. `left` is for the others.
    pub fn unmap_master(&self, mapping: &Mapping, left: MasterState) {
        let mut state = self.lock();
        let own = |queue: &&mut SharedQueue| queue.epoch == mapping.epoch;
        let Some(queue) = state.queues.get_mut(&mapping.mqd).filter(own) else {
            return;
        };
        let others = queue.sites.iter().flatten().count().saturating_sub(1);
        state.queues.remove(&mapping.mqd);
        if others != 0 {
            state.left.insert(mapping.epoch, (left, others));
        }
    }

    /// Unmaps a queue on another XCC, and requests its workgroups to stop if the master has not.
    /// Returns the state if the master has unmapped the queue before.
    pub fn unmap(&self, mapping: &Mapping, xcc: u8) -> Option<MasterState> {
        let mut state = self.lock();
        if let Some(queue) = state.queues.get_mut(&mapping.mqd) {
            if queue.epoch == mapping.epoch {
                for site in &mut queue.sites {
                    *site = site.take().filter(|site| site.space.xcc != xcc);
                }
                queue.stop |= queue.master_mapped;
                if !queue.master_mapped && queue.sites.iter().all(Option::is_none) {
                    state.queues.remove(&mapping.mqd);
                }
                return None;
            }
        }
        let (left, others) = state.left.get_mut(&mapping.epoch)?;
        let left = left.clone();
        *others -= 1;
        if *others == 0 {
            state.left.remove(&mapping.epoch);
        }
        Some(left)
    }

    /// Returns the number of waves that another XCC is to save, 0 if the master has not unmapped
    /// the queue.
    pub fn left_waves(&self, mapping: &Mapping) -> u64 {
        let state = self.lock();
        let left = state.left.get(&mapping.epoch);
        let waves = left.and_then(|(left, _)| left.saved.get(mapping.place));
        waves.map_or(0, |waves| waves.count)
    }

    /// Returns whether another XCC may unmap its part of the queue: no workgroups run there. With
    /// `force`, requests it.
    pub fn may_unmap(&self, mapping: &Mapping, force: bool) -> bool {
        let mut state = self.lock();
        let Some(queue) = state.queues.get_mut(&mapping.mqd) else {
            return true;
        };
        queue.stop |= force && queue.epoch == mapping.epoch;
        queue.epoch != mapping.epoch || !queue.master_mapped || queue.stopped
    }

    /// Returns whether the workgroups of a queue are to stop without being saved.
    pub fn is_reset(&self, mapping: &Mapping) -> bool {
        self.ready(mapping) == Ready::Stop
    }

    /// Returns whether the master may run workgroups.
    pub fn ready(&self, mapping: &Mapping) -> Ready {
        let state = self.lock();
        let own = |queue: &&SharedQueue| queue.epoch == mapping.epoch;
        match state.queues.get(&mapping.mqd).filter(own) {
            Some(queue) if queue.stop => Ready::Stop,
            Some(queue) if queue.sites.iter().all(Option::is_some) => Ready::All,
            _ => Ready::NotYet,
        }
    }

    /// Returns the places of execution of a queue that is ready, in the order in which workgroups
    /// are distributed.
    pub fn sites(&self, mapping: &Mapping) -> Vec<Site> {
        let state = self.lock();
        let sites = state.queues.get(&mapping.mqd).map(|queue| &queue.sites);
        sites.into_iter().flatten().flatten().cloned().collect()
    }

    /// Records that the master has stopped the workgroups, after [`Ready::Stop`].
    pub fn set_stopped(&self, mapping: &Mapping) {
        if let Some(queue) = self.lock().queues.get_mut(&mapping.mqd) {
            queue.stopped = true;
        }
    }

    /// Adds an XCC to an HIQ. `mqd` is the MQD that the first XCC has to have. Returns the others'
    /// MQD and common fields if they differ.
    pub fn map_hiq(
        &self,
        hiq: u32,
        xcc: u8,
        mqd: u64,
        common: &CommonFields,
        rptr: u64,
    ) -> Option<(u64, CommonFields)> {
        let mut state = self.lock();
        let hiq = state.hiqs.entry(hiq).or_default();
        hiq.rptrs.insert(xcc, rptr);
        let all = hiq.common.get_or_insert_with(|| (mqd, common.clone()));
        (*all != (mqd, common.clone())).then(|| all.clone())
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
    pub fn unmap_hiq(&self, doorbell: u32, xcc: u8) {
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

    /// Records that an XCC has an HIQ, and the VMIDs of its scheduler.
    pub fn set_scheduler(&self, xcc: u8, vmids: u16) {
        self.lock().schedulers.insert(xcc, vmids);
    }

    /// Records that an XCC has no HIQ any more.
    pub fn remove_scheduler(&self, xcc: u8) {
        self.lock().schedulers.remove(&xcc);
    }

    /// Returns the XCCs that have an HIQ, and the VMIDs of their schedulers.
    pub fn schedulers(&self) -> Vec<(u8, u16)> {
        let state = self.lock();
        let mut all: Vec<_> = state.schedulers.iter().map(|(xcc, v)| (*xcc, *v)).collect();
        all.sort_unstable();
        all
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

    fn common() -> CommonFields {
        CommonFields {
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
            area: None,
            saved: None,
        }
    }

    fn mapping(epoch: u64, is_master: bool) -> Mapping {
        Mapping {
            mqd: MQD,
            epoch,
            place: 0,
            is_master,
            spread: true,
            chunk: 1,
        }
    }

    fn left(rptr: u64) -> MasterState {
        MasterState {
            rptr,
            wptr: rptr + 1,
            saved: Vec::new(),
            restored: true,
        }
    }

    #[test]
    fn a_queue_is_ready_when_all_xccs_have_mapped_it() {
        let shared = SharedQueues::default();
        let map = |place, xcc| shared.map(MQD, 2, &common(), (place, xcc == 2), site(xcc));
        let (epoch, error) = map(1, 2);
        assert!(error.is_none());
        assert_eq!(shared.ready(&mapping(epoch, true)), Ready::NotYet);
        assert!(map(1, 3).1.is_some(), "taken");
        assert!(map(2, 3).1.is_some(), "outside");
        assert_eq!(map(0, 3), (epoch, None));
        let all = Ready::All;
        assert_eq!(shared.ready(&mapping(epoch, true)), all);
        assert_eq!(shared.sites(&mapping(epoch, true)), [site(3), site(2)]);
        assert!(!shared.may_unmap(&mapping(epoch, false), false));
        // The master unmaps and maps it again before the other XCC unmaps it.
        shared.unmap_master(&mapping(epoch, true), left(77));
        let (next, _) = map(1, 2);
        assert_ne!(next, epoch);
        assert!(shared.may_unmap(&mapping(epoch, false), false));
        assert_eq!(shared.unmap(&mapping(epoch, false), 3), Some(left(77)));
        assert_eq!(shared.unmap(&mapping(epoch, false), 3), None);
        assert_eq!(shared.ready(&mapping(next, true)), Ready::NotYet);
        assert_eq!(map(0, 3), (next, None));
        assert_eq!(shared.ready(&mapping(next, true)), all);
        let other = CommonFields {
            ring: 0x4000,
            ..common()
        };
        let (_, error) = shared.map(MQD, 2, &other, (0, false), site(3));
        assert!(error.is_some());
    }

    #[test]
    fn a_reset_stops_the_leader_first() {
        let shared = SharedQueues::default();
        let (epoch, _) = shared.map(MQD, 2, &common(), (0, true), site(0));
        shared.map(MQD, 2, &common(), (1, false), site(1));
        let (master, other) = (mapping(epoch, true), mapping(epoch, false));
        assert!(!shared.may_unmap(&other, true));
        assert_eq!(shared.ready(&master), Ready::Stop);
        shared.set_stopped(&master);
        assert!(shared.may_unmap(&other, true));
        assert_eq!(shared.unmap(&other, 1), None);
        assert_eq!(shared.ready(&master), Ready::Stop);
    }

    #[test]
    fn hiq_advances_with_the_slowest_xcc() {
        let shared = SharedQueues::default();
        let hiq = 0x20;
        let reports = Mutex::new(Vec::new());
        let advance = |xcc, rptr| {
            let report = |rptr| reports.lock().unwrap().push(rptr);
            shared.advance(hiq, xcc, rptr, &[0, 1], &report);
        };
        assert!(shared.map_hiq(hiq, 0, MQD, &common(), 0).is_none());
        advance(0, 10);
        assert_eq!(shared.slowest(hiq, &[0, 1]), None);
        assert!(shared.map_hiq(hiq, 1, MQD + 8, &common(), 0).is_some());
        advance(1, 4);
        advance(0, 12);
        advance(1, 12);
        assert_eq!(shared.slowest(hiq, &[0, 1]), Some(12));
        assert_eq!(*reports.lock().unwrap(), [4, 12]);
        shared.begin_slice(hiq, (2, 3));
        assert_eq!(shared.slice(hiq), (2, 3));
        shared.unmap_hiq(hiq, 1);
        assert_eq!(shared.slowest(hiq, &[0, 1]), None);
        shared.unmap_hiq(hiq, 0);
        assert_eq!(shared.slice(hiq), (0, 0));
    }
}
