// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Activation and dequeue requests of a queue, and forced removal. Orderly preemption is in
//! [`save`](super::save).

use std::sync::Arc;
use std::time::Instant;

use gpu_regs::gc_9_4_3 as gc;
use rkfd_abi::mqd::v9::dw;

use super::cwsr::Saving;
use super::engine::Engine;
use super::queue::{Class, Config, Eop, Format, Halt, Leaving, Queue, Unmap, Work};
use super::slot::Slot;
use crate::chips::Generation;
use crate::engines::gmc::cu::Cache;
use crate::knobs::Knob;
use crate::{event, strict};

impl Engine<'_> {
    /// Activates a queue after a register write set `CP_HQD_ACTIVE`: the KIQ, or a queue of a
    /// driver without HWS.
    pub(super) fn activate_by_register(&mut self, slot: Slot) {
        let class = match self.generation() {
            Generation::Gfx12 if slot.me() == 3 => Class::Mes,
            Generation::Gfx9 if self.banks().is_kiq(slot) => Class::Kiq,
            _ => Class::Normal,
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

    /// Drops a queue after a register write cleared `CP_HQD_ACTIVE`, which does not end its waves.
    pub(super) fn deactivate_by_register(&mut self, slot: Slot) {
        let queue = self.queues[usize::from(slot.0)].as_ref();
        let jobs = queue.map_or_else(Vec::new, |queue| queue.work.jobs());
        if jobs.iter().any(|job| !job.is_stopping()) {
            strict!(
                self.env.strict(),
                "cp",
                "CP_HQD_ACTIVE of queue {slot} is cleared while its waves run"
            );
        }
        self.drop_queue(slot, "CP_HQD_ACTIVE cleared");
    }

    /// Activates the queue that a bank describes. Returns whether its configuration is valid.
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
                Config::from_bank(self.generation(), bank),
                bank.get(gc::regCP_HQD_PQ_RPTR),
                bank.get64(gc::regCP_HQD_PQ_WPTR_LO),
            )
        };
        let config = match config {
            Ok(config) => config,
            Err(error) => {
                strict!(
                    self.env.strict(),
                    "cp",
                    "queue {slot} cannot start: {error}"
                );
                return false;
            }
        };
        self.check_eop(slot, &config);
        if class == Class::Kiq && self.generation() == Generation::Gfx9 {
            self.check_dynamic_masks(slot, config.mqd);
        }
        let wptr = match config.format {
            Format::Pm4 => wptr,
            Format::Aql => wptr / 16,
        };
        let rptr = config.widen_rptr(rptr, wptr);
        if let Some(doorbell) = config.doorbell {
            self.env.doorbells().expect(doorbell);
        }
        event!(
            self.env.trace(),
            "cp",
            "queue_start",
            "xcc={} queue={slot} class={class:?} format={:?} vmid={} pasid={pasid} base={:#x} \
             dwords={:#x} rptr={rptr:#x} wptr={wptr:#x} doorbell={:#x} mqd={:#x}",
            self.env.xcc(),
            config.format,
            config.vmid,
            config.base,
            config.size,
            config.doorbell.unwrap_or(u32::MAX),
            config.mqd
        );
        // Their VMID may have been that of another process.
        self.env.invalidate_cus(&Cache::ALL);
        self.queues[usize::from(slot.0)] = Some(Queue {
            slot,
            class,
            rptr,
            wptr,
            eop: 0,
            halt: Halt::No,
            stalled: false,
            noted: usize::MAX,
            leaving: None,
            pasid,
            cus: self.env.compute_units().into(),
            gws: None,
            traps: false,
            is_static,
            shared: None,
            held: false,
            saved: None,
            restores: None,
            saving: None,
            work: Work::new(&config, rptr),
            config,
        });
        true
    }

    /// Reports a KIQ whose masks of CUs and render backends, to which its MQD points, do not have
    /// all (`gfx_v9_4_3_xcc_kiq_init_queue`).
    fn check_dynamic_masks(&self, slot: Slot, mqd: u64) {
        let word = |at: u64| self.env.read32(0, at).unwrap_or(0);
        let field = |n: usize| u64::from(word(mqd.wrapping_add(n as u64 * 4)));
        let at = field(dw::dynamic_cu_mask_addr_lo) | field(dw::dynamic_cu_mask_addr_hi) << 32;
        let masks = [word(at), word(at.wrapping_add(4))];
        if masks != [!0; 2] {
            strict!(
                self.env.strict(),
                "cp",
                "KIQ {slot}: the masks of CUs and render backends at {at:#x} are {masks:x?}"
            );
        }
    }

    /// Reports an EOP buffer that is too large or not writable.
    fn check_eop(&self, slot: Slot, config: &Config) {
        let Some(eop) = config.eop else { return };
        if eop.size > Eop::MAX_SIZE {
            strict!(
                self.env.strict(),
                "cp",
                "queue {slot}: EOP_SIZE {:#x} is above {:#x}",
                eop.size,
                Eop::MAX_SIZE
            );
        }
        let end = eop.base.saturating_add(eop.bytes());
        let pages = std::iter::successors(Some(eop.base), |at| (at | 0xfff).checked_add(1));
        let mut faults = pages
            .take_while(|at| *at < end)
            .filter_map(|at| self.env.may_write(config.vmid, at).err());
        if let Some(fault) = faults.next() {
            strict!(
                self.env.strict(),
                "cp",
                "queue {slot}: EOP buffer of {:#x} bytes at {:#x}: {fault}",
                eop.bytes(),
                eop.base
            );
        }
    }

    /// Announces that doorbells of this index belong to a queue, even if it is not mapped.
    pub(super) fn expect_doorbell(&self, doorbell: u32, sdma: bool) {
        match sdma {
            true => self.env.sdma().expect_doorbell(doorbell),
            false => self.env.doorbells().expect(doorbell),
        }
    }

    /// Returns whether this XCC has the number in a knob, which counts from 1.
    pub(super) fn is_in(&self, knob: &Knob) -> bool {
        knob.get() == u64::from(self.env.xcc()) + 1
    }

    /// Returns the knob that keeps all user queues on the hardware.
    pub(super) fn no_preemption(&self) -> Option<&Knob> {
        let knobs = self.env.knobs();
        let all = Some(&knobs.hws_no_preempt).filter(|knob| knob.on());
        all.or_else(|| Some(&knobs.hws_hang_xcc).filter(|knob| self.is_in(knob)))
    }

    /// Returns whether preemption does not even time out.
    pub(super) fn never_preempts(&self) -> bool {
        let knobs = self.env.knobs();
        knobs.hws_no_preempt.get() == 1 || self.is_in(&knobs.hws_hang_xcc)
    }

    /// Returns whether a knob keeps the queue on the hardware.
    pub(super) fn is_stuck(&self, slot: Slot) -> bool {
        let queue = self.queues[usize::from(slot.0)].as_ref();
        queue.is_some_and(|q| q.pasid != 0) && self.no_preemption().is_some()
    }

    /// Returns whether a knob keeps a queue on the hardware, whose workgroups have stopped, because
    /// it has waves on this XCC.
    pub(super) fn has_stuck_waves(&self, queue: &Queue) -> bool {
        let here = queue.pasid != 0 && self.is_in(&self.env.knobs().hws_stuck_xcc);
        here && self.stopped_waves(queue) != 0
    }

    /// Starts to unmap a queue.
    pub(super) fn start_unmap(&mut self, slot: Slot, how: Unmap, keep: bool) {
        let stuck = self.is_stuck(slot);
        let isa = self.isa();
        let queue = self.queues[usize::from(slot.0)].as_ref();
        let sites = queue.map_or_else(Vec::new, |queue| self.sites(queue));
        let Some(queue) = &mut self.queues[usize::from(slot.0)] else {
            self.banks().slot_mut(slot).set(gc::regCP_HQD_ACTIVE, 0);
            return;
        };
        // Without a save area, running waves have to end.
        let how = match how {
            Unmap::Preempt if queue.config.save_area.is_none() => Unmap::Drain,
            how => how,
        };
        let saves = how == Unmap::Preempt && queue.restores.is_none();
        if how != Unmap::Drain && !saves && !stuck {
            for job in queue.work.jobs() {
                job.request_stop();
            }
        }
        queue.leaving = Some(Leaving {
            how,
            since: Instant::now(),
            keep,
            forced: false,
            lost: false,
        });
        if saves && !stuck && queue.saving.is_none() {
            let saving = Arc::new(Saving::new(isa, sites.iter().map(|site| site.area)));
            for job in queue.work.jobs() {
                let first = if job.is_spread() {
                    0
                } else {
                    queue.area_index()
                };
                self.pool.save(&job, &saving, first);
            }
            queue.saving = Some(saving);
        }
        event!(
            self.env.trace(),
            "cp",
            "unmap_start",
            "xcc={} queue={slot} how={how:?} pasid={} in_flight={}",
            self.env.xcc(),
            queue.pasid,
            u8::from(queue.work.in_flight())
        );
    }

    /// Unmaps a queue because of a register write, or resets it.
    pub(super) fn force_off(&mut self, slot: Slot, how: Unmap) {
        let queue = self.queues[usize::from(slot.0)].as_ref();
        let knob = &self.env.knobs().cp_pipe_reset;
        if how == Unmap::Reset && knob.on() && queue.is_some_and(|q| q.pasid != 0) {
            knob.hit();
            return;
        }
        self.unmap_by_force(slot, how);
    }

    fn unmap_by_force(&mut self, slot: Slot, how: Unmap) {
        self.start_unmap(slot, how, false);
        if let Some(queue) = &mut self.queues[usize::from(slot.0)] {
            let leaving = queue.leaving.as_mut();
            let how = leaving.map_or(how, |leaving| {
                leaving.forced = true;
                leaving.how
            });
            if how != Unmap::Drain {
                queue.work.jobs().iter().for_each(|job| job.request_stop());
            }
        }
    }

    /// Drops a queue with everything in flight.
    pub(super) fn drop_queue(&mut self, slot: Slot, why: &str) {
        let Some(queue) = self.queues[usize::from(slot.0)].take() else {
            return;
        };
        for job in queue.work.jobs() {
            job.request_stop();
        }
        self.unmap_shared(&queue, Vec::new());
        self.drop_scheduler(&queue);
        event!(
            self.env.trace(),
            "cp",
            "queue_dropped",
            "xcc={} queue={slot} pasid={} why={why:?}",
            self.env.xcc(),
            queue.pasid
        );
    }

    /// Handles `SPI_COMPUTE_QUEUE_RESET`: kills the waves, and completes a pending dequeue request.
    pub(super) fn reset_queue(&mut self, slot: Slot) {
        if self.queues[usize::from(slot.0)].is_some() {
            self.force_off(slot, Unmap::Reset);
        }
    }

    /// Handles the reset of a pipe: the same for its queues, without a write to their MQDs, which
    /// the driver may have unmapped meanwhile.
    pub(super) fn reset_pipe(&mut self, me: u32, pipe: u32) {
        for queue in 0..8 {
            let slot = Slot::new(me, pipe, queue);
            if self.queues[usize::from(slot.0)].is_some() {
                self.unmap_by_force(slot, Unmap::Reset);
            }
            let queue = self.queues[usize::from(slot.0)].as_mut();
            if let Some(leaving) = queue.and_then(|queue| queue.leaving.as_mut()) {
                leaving.lost = true;
            }
        }
    }
}
