// SPDX-License-Identifier: GPL-2.0 OR MIT

//! UNMAP_QUEUES: selection of queues, waiting, and timeout.

use std::time::{Duration, Instant};

use rkfd_abi::mqd::v9;
use rkfd_abi::pm4;

use super::engine::{Engine, Outcome};
use super::error::PacketError;
use super::pm4::Packet;
use super::queue::{Class, Queue, Unmap};
use super::sched::DEFAULT_LATENCY;
use super::slot::Slot;
use crate::engines::gmc::VmFault;
use crate::{event, strict};

/// A pending UNMAP_QUEUES.
#[derive(Debug)]
pub(super) struct Unmapping {
    pub(super) by: Slot,
    pub(super) slots: Vec<Slot>,
    pub(super) since: Instant,
}

impl Engine<'_> {
    pub(super) fn unmap_queues(
        &mut self,
        queue: &mut Queue,
        p: &Packet,
    ) -> Result<Outcome, VmFault> {
        use pm4::unmap_queues as uq;
        let at = self.sched.unmapping.iter().position(|u| u.by == queue.slot);
        let Some(at) = at else {
            let late = Duration::from_millis(self.env.knobs().kiq_late.get());
            if queue.class == Class::Kiq && !late.is_zero() {
                if let Some(left) = self.later(queue.slot, || late) {
                    return Ok(Outcome::Wait(left));
                }
                self.env.knobs().kiq_late.hit();
            }
            return match self.begin_unmap(queue, p) {
                // Idle queues are unmapped in the engine's next turn.
                Ok(()) => Ok(Outcome::Wait(Duration::ZERO)),
                Err(outcome) => Ok(outcome),
            };
        };
        let keep = p.get(uq::ACTION) == uq::ACTION_PREEMPT_NO_UNMAP;
        let left: Vec<Slot> = self.sched.unmapping[at]
            .slots
            .iter()
            .copied()
            .filter(|s| self.is_leaving(*s))
            .collect();
        if !left.is_empty() {
            let latency = self.sched.resources.map_or(DEFAULT_LATENCY, |r| r.latency);
            if self.never_preempts() || self.sched.unmapping[at].since.elapsed() < latency {
                return Ok(Outcome::Wait(Duration::from_millis(1)));
            }
            self.preemption_timeout(queue, &left)?;
        }
        self.sched.unmapping.remove(at);
        event!(
            self.env.trace(),
            "hws",
            "unmap_done",
            "xcc={} queue={} failed={}",
            self.env.xcc(),
            queue.slot,
            left.len()
        );
        if keep {
            let to = p.join(uq::FENCE_ADDR_LO, uq::FENCE_ADDR_HI);
            self.env
                .write32(queue.config.vmid, to, p.get(uq::FENCE_SEQ))?;
        }
        Ok(Outcome::Next)
    }

    fn begin_unmap(&mut self, queue: &Queue, p: &Packet) -> Result<(), Outcome> {
        use pm4::unmap_queues as uq;
        let action = p.get(uq::ACTION);
        let select = p.get(uq::QUEUE_SEL);
        let no_unmap = action == uq::ACTION_PREEMPT_NO_UNMAP;
        let form = match (select, no_unmap) {
            (uq::QUEUE_SEL_SPECIFIED, false) => uq::FORM_DOORBELL,
            (uq::QUEUE_SEL_SPECIFIED, true) => uq::FORM_PREEMPT_NO_UNMAP,
            (uq::QUEUE_SEL_PASID, _) => uq::FORM_PASID,
            _ => uq::FORM_ALL,
        };
        self.check(queue, p, &uq::PACKET, form);
        if no_unmap && queue.class != Class::Kiq {
            return Err(Outcome::Bad(PacketError::PreemptNoUnmap));
        }
        let how = match action {
            uq::ACTION_RESET => Unmap::Reset,
            _ => Unmap::Preempt,
        };
        event!(
            self.env.trace(),
            "hws",
            "unmap_queues",
            "xcc={} queue={} action={action} select={select} param={:#x}",
            self.env.xcc(),
            queue.slot,
            p.words[2]
        );
        let slots = match select {
            uq::QUEUE_SEL_SPECIFIED => {
                let fields = [
                    uq::DOORBELL_OFFSET0,
                    uq::DOORBELL_OFFSET1,
                    uq::DOORBELL_OFFSET2,
                    uq::DOORBELL_OFFSET3,
                ];
                let count = (p.get(uq::NUM_QUEUES) as usize).clamp(1, fields.len());
                self.slots_of_doorbells(
                    &fields[..count]
                        .iter()
                        .map(|f| p.get(*f))
                        .collect::<Vec<_>>(),
                )
            }
            uq::QUEUE_SEL_PASID => {
                let wanted = p.get(uq::PASID) as u16;
                self.scheduled(|pasid, _| pasid == wanted)
            }
            uq::QUEUE_SEL_ALL => self.scheduled(|_, _| true),
            _ => self.scheduled(|_, is_static| !is_static),
        };
        self.remove_entries(select, p, &slots);
        for &slot in &slots {
            if !self.is_leaving(slot) || how == Unmap::Reset {
                self.start_unmap_any(slot, how, no_unmap);
            }
        }
        // Unmapping the HIQ from the KIQ unmaps everything that it scheduled.
        let unmaps_hiq = slots.iter().any(|s| {
            self.queues
                .get(usize::from(s.0))
                .and_then(Option::as_ref)
                .is_some_and(|q| q.class == Class::Hiq)
        });
        let list_is_mapped = self
            .sched
            .runlist
            .as_ref()
            .is_some_and(|l| !l.mapped.is_empty());
        if unmaps_hiq && list_is_mapped && self.no_preemption().is_none() {
            strict!(
                self.env.strict(),
                "hws",
                "the HIQ is unmapped while queues of its runlist are mapped"
            );
        }
        self.sched.unmapping.push(Unmapping {
            by: queue.slot,
            slots,
            since: Instant::now(),
        });
        Ok(())
    }

    fn slots_of_doorbells(&self, doorbells: &[u32]) -> Vec<Slot> {
        let banks = self.banks();
        let mut slots = Vec::new();
        for &doorbell in doorbells {
            let sdma = self.sdma_queues.iter().find(|q| q.doorbell == doorbell);
            match banks.find_doorbell(doorbell).or(sdma.map(|q| q.slot)) {
                Some(slot) => slots.push(slot),
                None => strict!(
                    self.env.strict(),
                    "hws",
                    "UNMAP_QUEUES: no queue with doorbell {doorbell:#x} is mapped"
                ),
            }
        }
        slots
    }

    /// Returns mapped queues of the runlist that match `filter` (PASID, static).
    fn scheduled(&self, filter: impl Fn(u16, bool) -> bool) -> Vec<Slot> {
        let mask = self.sched.resources.map_or(0, |r| r.queue_mask);
        let compute = self.queues.iter().flatten();
        let compute = compute
            .filter(|q| mask >> q.slot.0 & 1 != 0 && filter(q.pasid, q.is_static))
            .map(|q| q.slot);
        let sdma = self.sdma_queues.iter();
        let sdma = sdma
            .filter(|q| filter(q.pasid, q.is_static))
            .map(|q| q.slot);
        compute.chain(sdma).collect()
    }

    /// Keeps a queue mapped that was not unmapped in time.
    fn keep(&mut self, slot: Slot) -> Option<(u16, u32)> {
        let mut queue = self.queues.get_mut(usize::from(slot.0))?.take()?;
        queue.leaving = None;
        self.resume(&mut queue);
        let named = (queue.pasid, queue.config.doorbell.unwrap_or(0));
        self.queues[usize::from(slot.0)] = Some(queue);
        Some(named)
    }

    /// Handles the timeout: the queues stay mapped, and the doorbells of compute queues are written
    /// to the HIQ's MQD. The driver finds SDMA queues by the engines' registers
    /// (`kfd_device_queue_manager.c`, `unmap_queues_cpsch`).
    fn preemption_timeout(&mut self, hiq: &Queue, left: &[Slot]) -> Result<(), VmFault> {
        let mut named = 0;
        for slot in left {
            let sdma = self.keep_sdma(*slot);
            let is_sdma = sdma.is_some();
            let Some((pasid, doorbell)) = sdma.or_else(|| self.keep(*slot)) else {
                continue;
            };
            event!(
                self.env.trace(),
                "hws",
                "preemption_failed",
                "xcc={} queue={slot} pasid={pasid} doorbell={doorbell:#x}",
                self.env.xcc()
            );
            let knob = &self.env.knobs().hws_stuck_xcc;
            if !is_sdma && self.no_preemption().is_none() && self.is_in(knob) {
                knob.hit();
            }
            if !is_sdma && named < v9::HIQ_FAILED_DOORBELLS_LEN && hiq.config.mqd != 0 {
                let dword = (v9::HIQ_FAILED_DOORBELLS + named) as u64;
                let at = hiq.config.mqd.wrapping_add(dword * 4);
                self.env.write32(0, at, doorbell)?;
                named += 1;
            }
        }
        Ok(())
    }
}
