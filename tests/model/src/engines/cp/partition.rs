// SPDX-License-Identifier: GPL-2.0 OR MIT

//! An XCC as one of several in a partition: its part of the queues that all of them map, and of the
//! HIQ. See [`shared`](super::shared).

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpu_regs::gc_9_4_3 as gc;
use gpu_wave::abi::Launch;
use rkfd_abi::mqd::v9::dw;

use super::engine::{Engine, Outcome, XCC_POLL};
use super::env::client;
use super::queue::{Class, Config, Format, Left, Queue, Unmap};
use super::runlist::Runlist;
use super::save::Map;
use super::sched::QueryWait;
use super::shared::{CommonFields, Mapping, MasterState, Ready, Site, Space, Waves};
use crate::chips::XCCS_PER_AID;
use crate::engines::gmc::VmFault;
use crate::strict;

/// Longest time for the other XCCs to map the HIQ.
const HIQ_TIMEOUT: Duration = Duration::from_secs(2);

fn common(config: &Config, mqd: &[u32]) -> CommonFields {
    let pm4 = config.format == Format::Pm4;
    CommonFields {
        ring: config.base,
        size: config.size,
        rptr_report: config.rptr_report,
        wptr_poll: config.wptr_poll,
        doorbell: config.doorbell,
        stride: mqd[dw::cp_mqd_stride_size],
        chunk: mqd[dw::compute_tg_chunk_size],
        target: if pm4 {
            mqd[dw::pm4_target_xcc_in_xcp]
        } else {
            0
        },
    }
}

/// Returns the error in NO_UPDATE_RPTR of an MQD: only the XCC that reports the read pointer has it
/// clear.
fn wrong_rptr_update(mqd: &[u32], reports: bool) -> Option<&'static str> {
    let keeps = gc::CP_HQD_PQ_CONTROL__NO_UPDATE_RPTR.is_set(mqd[dw::cp_hqd_pq_control]);
    (keeps == reports).then_some("NO_UPDATE_RPTR is for all XCCs but the first")
}

impl Engine<'_> {
    /// Returns the number of XCCs in the partition.
    fn xccs(&self) -> usize {
        self.sched.members.len().max(1)
    }

    /// Returns the logical number of an XCC in the partition.
    fn position_of(&self, xcc: u8) -> usize {
        let members = &self.sched.members;
        members.iter().position(|own| *own == xcc).unwrap_or(0)
    }

    /// Returns the logical number of this XCC in its partition.
    pub(super) fn position(&self) -> usize {
        self.position_of(self.env.xcc())
    }

    /// Returns whether this XCC is alone in its partition.
    pub(super) fn is_alone(&self) -> bool {
        self.xccs() == 1
    }

    /// Returns whether this XCC is alone in its partition, or the first one.
    pub(super) fn is_first(&self) -> bool {
        self.position() == 0
    }

    /// Makes the other XCCs rescan their queues.
    fn wake_others(&self) {
        let members = self.sched.members.iter();
        let others = members.filter(|xcc| **xcc != self.env.xcc());
        others.for_each(|xcc| self.env.wake(*xcc));
    }

    /// Returns a queue's address space on this XCC.
    pub(super) fn space(&self, queue: &Queue) -> Space {
        Space {
            xcc: self.env.xcc(),
            vmid: queue.config.vmid,
        }
    }

    /// Returns this XCC as place of execution.
    pub(super) fn site(&self, queue: &Queue) -> Site {
        Site {
            space: self.space(queue),
            cus: queue.cus.clone(),
            area: queue.config.save_area,
            saved: queue.saved,
        }
    }

    /// Returns the places of execution of a queue's AQL dispatches.
    pub(super) fn sites(&self, queue: &Queue) -> Vec<Site> {
        match queue.spread() {
            Some(mapping) => self.env.shared().sites(&mapping),
            None => vec![self.site(queue)],
        }
    }

    /// Submits work of a queue that was stopped; with several XCCs, once all have mapped the queue.
    pub(super) fn resume(&self, queue: &mut Queue) {
        queue.held = true;
        if queue.spread().is_none() {
            self.submit(queue);
        }
    }

    fn submit(&self, queue: &mut Queue) {
        if !std::mem::take(&mut queue.held) {
            return;
        }
        let (all, own) = (self.sites(queue), [self.site(queue)]);
        let jobs = queue.work.jobs();
        if queue.restores.take().is_some() {
            for site in &all {
                self.restore_waves(queue, site, &jobs);
            }
        }
        if let Some(saving) = queue.saving.take() {
            if let Some(area) = saving.overflow() {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {}: the waves exceed the save area of {:#x} bytes with a control stack \
                     of {:#x}",
                    queue.slot,
                    area.size,
                    area.stack
                );
            }
            for (place, site) in all.iter().enumerate() {
                self.restore_unmapped(queue, site, &saving.waves(place), &jobs);
            }
        }
        for job in jobs {
            // PM4 in packets of an AQL queue runs here.
            let sites = if job.is_spread() { &all[..] } else { &own };
            self.pool.submit(&job, sites, queue.config.priority);
        }
    }

    /// Returns whether the other XCCs permit that a queue runs here. Submits work that waits for
    /// them.
    pub(super) fn shared_ready(&self, queue: &mut Queue) -> bool {
        let Some(mapping) = queue.spread() else {
            return true;
        };
        match self.env.shared().ready(&mapping) {
            Ready::All => {
                self.submit(queue);
                true
            }
            Ready::NotYet => false,
            Ready::Stop => {
                self.stop_if_reset(queue);
                false
            }
        }
    }

    /// Stops the work of a queue that another XCC resets. Returns whether one does.
    pub(super) fn stop_if_reset(&self, queue: &Queue) -> bool {
        let mapping = queue.spread().filter(|mapping| mapping.is_master);
        let Some(mapping) = mapping.filter(|mapping| self.env.shared().is_reset(mapping)) else {
            return false;
        };
        queue.work.jobs().iter().for_each(|job| job.request_stop());
        if queue.is_stopped() {
            self.env.shared().set_stopped(&mapping);
        }
        true
    }

    /// Returns the address of this XCC's MQD: those of a queue are `cp_mqd_stride_size` apart.
    pub(super) fn own_mqd(&self, map: &Map) -> Result<u64, VmFault> {
        let position = self.position() as u64;
        if !map.scheduled || position == 0 {
            return Ok(map.mqd);
        }
        let at = map.mqd.wrapping_add(dw::cp_mqd_stride_size as u64 * 4);
        let stride = self.env.read32(0, at)?;
        Ok(map.mqd.wrapping_add(position * u64::from(stride)))
    }

    /// Maps a queue of a runlist together with the other XCCs. `first` is the MQD of the first one.
    pub(super) fn map_shared(&self, queue: &mut Queue, map: &Map, first: u64, mqd: &[u32]) {
        let size = self.xccs();
        if !map.scheduled || size == 1 {
            return;
        }
        let position = self.position();
        let common = common(&queue.config, mqd);
        let spread = queue.config.format == Format::Aql;
        let place = match spread {
            true => mqd[dw::compute_current_logic_xcc_id] as usize,
            false => position,
        };
        let is_master = position == common.target as usize;
        let shared = self.env.shared();
        let (epoch, error) = shared.map(first, size, &common, (place, is_master), self.site(queue));
        let wrong = |text: &dyn std::fmt::Display| {
            strict!(
                self.env.strict(),
                "cp",
                "MQD {:#x} of XCC {position} of {size}: {text}",
                map.mqd
            );
        };
        if let Some(error) = error {
            wrong(&error);
        }
        if let Some(text) = wrong_rptr_update(mqd, is_master).filter(|_| spread) {
            wrong(&text);
        }
        if spread && common.chunk == 0 {
            wrong(&"compute_tg_chunk_size is 0");
        }
        if common.target as usize >= size {
            wrong(&"pm4_target_xcc_in_xcp does not exist");
        }
        queue.shared = Some(Mapping {
            mqd: first,
            epoch,
            place,
            is_master,
            spread,
            chunk: common.chunk.into(),
        });
        if !is_master {
            if let Some(master) = self.sched.members.get(common.target as usize) {
                self.env.wake(*master);
            }
        }
    }

    /// Returns whether the other XCCs permit to unmap a queue here: the workgroups of a dispatch
    /// may use this XCC until the master has unmapped the queue. With `force`, stops them.
    pub(super) fn may_unmap(&self, queue: &Queue, force: bool) -> bool {
        match queue.spread().filter(|mapping| !mapping.is_master) {
            None => true,
            Some(mapping) => {
                let may = self.env.shared().may_unmap(&mapping, force);
                if !may && force {
                    self.wake_others();
                }
                may
            }
        }
    }

    /// Unmaps a queue of several XCCs here. `saved` are the waves that each XCC saves, on the
    /// master XCC. Returns the master's state on the others.
    pub(super) fn unmap_shared(&self, queue: &Queue, saved: Vec<Waves>) -> Option<MasterState> {
        let mapping = queue.shared?;
        let shared = self.env.shared();
        if !mapping.is_master {
            return shared.unmap(&mapping, self.env.xcc());
        }
        shared.unmap_master(
            &mapping,
            MasterState {
                rptr: queue.rptr,
                wptr: queue.wptr,
                saved,
                restored: queue.restores.is_none(),
            },
        );
        self.wake_others();
        None
    }

    /// Returns the number of waves of a queue on this XCC, once its workgroups have stopped.
    pub(super) fn stopped_waves(&self, queue: &Queue) -> u64 {
        match queue.shared.filter(|mapping| !mapping.is_master) {
            Some(mapping) => self.env.shared().left_waves(&mapping),
            None => self.waves_at(queue, queue.place()).count,
        }
    }

    /// Returns the waves of the interrupted workgroups of a queue on an XCC, on its master XCC.
    fn waves_at(&self, queue: &Queue, place: usize) -> Waves {
        let mut all = Waves::default();
        for job in queue.work.jobs() {
            if job.is_spread() || place == queue.place() {
                all += job.waves(if job.is_spread() { place } else { 0 });
            }
        }
        if let Some(saving) = &queue.saving {
            let area = if queue.spread().is_some() { place } else { 0 };
            all += saving.waves(area);
        }
        all
    }

    /// Unmaps a queue of several XCCs here, at its unmapping. Returns the waves to save.
    pub(super) fn waves_to_save(&self, queue: &mut Queue, how: Unmap) -> Left {
        if queue.is_secondary() {
            let left = self.unmap_shared(queue, Vec::new());
            let restored = left.as_ref().is_some_and(|left| left.restored);
            if let Some(left) = &left {
                (queue.rptr, queue.wptr) = (left.rptr, left.wptr);
            }
            let waves = left.and_then(|left| left.saved.get(queue.place()).cloned());
            return match queue.restores.filter(|_| !restored) {
                // The waves here are lost.
                _ if how == Unmap::Reset => Left::Nothing,
                Some(save) => Left::Unchanged(save),
                None => waves.map_or(Left::Nothing, Left::Waves),
            };
        }
        // The waves on an XCC that was reset are lost, and with them the dispatches.
        let shared = queue.spread();
        let reset = shared.is_some_and(|mapping| self.env.shared().is_reset(&mapping));
        let keep = how == Unmap::Preempt && queue.has_state() && !reset;
        let waves = |place| self.waves_at(queue, place);
        let saved = match keep && shared.is_some() {
            true => (0..self.xccs()).map(waves).collect(),
            false => Vec::new(),
        };
        let own = waves(queue.place());
        self.unmap_shared(queue, saved);
        match queue.restores {
            _ if !keep => Left::Nothing,
            Some(save) => Left::Unchanged(save),
            None => Left::Waves(own),
        }
    }

    /// Moves the scratch of a launch to the part of an XCC: all have the same size.
    pub(super) fn place_scratch(&self, launch: &mut Launch, xcc: u8) {
        let part = launch.scratch.slots * launch.scratch.wave_stride;
        let offset = self.position_of(xcc) as u64 * part;
        launch.scratch.base = launch.scratch.base.wrapping_add(offset);
        let [lo, hi, ..] = &mut launch.scratch_descriptor;
        let base = (u64::from(*hi & 0xffff) << 32 | u64::from(*lo)).wrapping_add(offset);
        *lo = base as u32;
        *hi = *hi & !0xffff | (base >> 32) as u32 & 0xffff;
    }

    /// Reads the partition, when the HIQ is mapped.
    pub(super) fn read_partition(&mut self) {
        self.env.check_memory_mode();
        self.sched.members = self.env.partition().unwrap_or_else(|| {
            strict!(
                self.env.strict(),
                "hws",
                "CP_HYP_XCP_CTL of the XCCs disagree about the partition of XCC {}, or with the \
                 mode of the PSP",
                self.env.xcc()
            );
            vec![self.env.xcc()]
        });
    }

    /// Checks that the partition is the one in which the HIQ was mapped.
    pub(super) fn check_partition(&self, queue: &Queue) {
        let current = self.env.partition();
        if current.as_ref() != Some(&self.sched.members) {
            strict!(
                self.env.strict(),
                "hws",
                "RUN_LIST on HIQ {}, mapped for XCCs {:?}, in partition {current:?}",
                queue.slot,
                self.sched.members
            );
        }
    }

    /// Claims the VMIDs of SET_RESOURCES. XCCs of an AID share its memory hub: they are in one
    /// partition, or have VMIDs of their own (`kgd2kfd_device_init`).
    pub(super) fn own_vmids(&self, vmids: u16) {
        let (shared, xcc) = (self.env.shared(), self.env.xcc());
        shared.set_scheduler(xcc, vmids);
        let beside = |other: &u8| other / XCCS_PER_AID == xcc / XCCS_PER_AID;
        for (other, theirs) in shared.schedulers() {
            let foreign = beside(&other) && !self.sched.members.contains(&other);
            if foreign && theirs & vmids != 0 {
                strict!(
                    self.env.strict(),
                    "hws",
                    "SET_RESOURCES: VMID mask {vmids:#x} of XCC {xcc}, {theirs:#x} of XCC {other} \
                     in another partition on the same AID"
                );
            }
        }
    }

    /// Begins to execute the packets of an HIQ together with the other XCCs.
    pub(super) fn map_hiq(&self, queue: &Queue, mqd: &[u32]) {
        let (Some(doorbell), size) = (queue.config.doorbell, self.xccs()) else {
            return;
        };
        if size == 1 {
            return;
        }
        let position = self.position();
        let common = common(&queue.config, mqd);
        let offset = u64::from(common.stride) * position as u64;
        let first = queue.config.mqd.wrapping_sub(offset);
        let (shared, xcc) = (self.env.shared(), self.env.xcc());
        let wrong = |text: &dyn std::fmt::Display| {
            strict!(
                self.env.strict(),
                "hws",
                "HIQ {} of XCC {position} of {size}: {text}",
                queue.slot
            );
        };
        if let Some(others) = shared.map_hiq(doorbell, xcc, first, &common, queue.rptr) {
            wrong(&format_args!(
                "first MQD {first:#x}, {common:x?}, others have {others:x?}"
            ));
        }
        if let Some(text) = wrong_rptr_update(mqd, position == 0) {
            wrong(&text);
        }
    }

    /// Returns the doorbell of an HIQ that several XCCs execute.
    fn shared_hiq(&self, queue: &Queue) -> Option<u32> {
        let shared = queue.class == Class::Hiq && self.xccs() > 1;
        queue.config.doorbell.filter(|_| shared)
    }

    /// Removes this XCC from an HIQ.
    pub(super) fn unmap_hiq(&self, queue: &Queue) {
        if let Some(doorbell) = self.shared_hiq(queue) {
            self.env.shared().unmap_hiq(doorbell, self.env.xcc());
        }
    }

    /// Reports the read pointer of an HIQ that several XCCs execute: that of the slowest. Returns
    /// whether it is one.
    pub(super) fn report_hiq(&mut self, queue: &mut Queue) -> bool {
        let Some(doorbell) = self.shared_hiq(queue) else {
            return false;
        };
        let config = &queue.config;
        let failed = Cell::new(None);
        let report = |rptr| {
            let (to, value) = (config.rptr_report, config.narrow_rptr(rptr));
            if to != 0 {
                failed.set(self.env.write32(config.vmid, to, value).err());
            }
        };
        let (shared, members) = (self.env.shared(), &self.sched.members);
        shared.advance(doorbell, self.env.xcc(), queue.rptr, members, &report);
        if let Some(first) = members.first().filter(|xcc| **xcc != self.env.xcc()) {
            self.env.wake(*first);
        }
        if let Some(fault) = failed.take() {
            self.fault(queue, &fault, client::CPC);
        }
        true
    }

    /// Returns the outcome of QUERY_STATUS on this XCC unless it is to write the fence: the first
    /// XCC of the partition does, once the others have passed the packet.
    pub(super) fn query_by_another(&mut self, queue: &Queue) -> Option<Outcome> {
        let doorbell = self.shared_hiq(queue)?;
        if !self.is_first() {
            return Some(Outcome::Next);
        }
        let others = &self.sched.members[1..];
        let slowest = self.env.shared().slowest(doorbell, others);
        if slowest.is_some_and(|rptr| rptr > queue.rptr) {
            self.sched.query = None;
            return None;
        }
        let wait = self.sched.query.get_or_insert_with(|| QueryWait {
            since: Instant::now(),
            reported: false,
        });
        let late = slowest.is_none() && wait.since.elapsed() > HIQ_TIMEOUT;
        if late && !std::mem::replace(&mut wait.reported, true) {
            strict!(
                self.env.strict(),
                "hws",
                "QUERY_STATUS on an HIQ that is not mapped on all of XCCs {:?}",
                self.sched.members
            );
        }
        Some(Outcome::Wait(XCC_POLL))
    }

    /// Begins a time slice of a runlist on the other XCCs, if this one is the first.
    pub(super) fn begin_slice(&self, hiq: &Queue, list: &Runlist) {
        if let (Some(doorbell), true) = (self.shared_hiq(hiq), self.is_first()) {
            let slice = (list.position, list.slice);
            self.env.shared().begin_slice(doorbell, slice);
            self.wake_others();
        }
    }

    /// Returns whether the first XCC has begun a later time slice of a runlist; `None` on that XCC.
    pub(super) fn is_behind(&self, hiq: Option<&Queue>, list: &Runlist) -> Option<bool> {
        if self.is_first() {
            return None;
        }
        let doorbell = self.shared_hiq(hiq?)?;
        let (position, slice) = self.env.shared().slice(doorbell);
        Some(position == list.position && slice > list.slice)
    }
}
