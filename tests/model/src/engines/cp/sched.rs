// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The HWS: its state, and the packets of KIQ and HIQ. Runlists are in [`runlist`](super::runlist),
//! UNMAP_QUEUES is in [`unmap`](super::unmap).

use std::time::{Duration, Instant};

use rkfd_abi::ih::source;
use rkfd_abi::pm4::{self, op};

use super::engine::{Engine, Outcome};
use super::env::Hubs;
use super::error::PacketError;
use super::pm4::Packet;
use super::queue::{Class, Halt, Queue};
use super::runlist::Runlist;
use super::save::{LoadError, Map};
use super::slot::Slot;
use super::unmap::Unmapping;
use crate::chips::Generation;
use crate::engines::gmc::{VmFault, HEAVYWEIGHT};
use crate::{event, strict};

/// Unmap latency before SET_RESOURCES sets one.
pub(super) const DEFAULT_LATENCY: Duration = Duration::from_secs(4);

/// Parameters of SET_RESOURCES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) vmid_mask: u16,
    pub(super) queue_mask: u64,
    pub(super) latency: Duration,
    /// Number of GWS resources.
    pub(super) num_gws: u32,
}

/// A QUERY_STATUS that waits for the other XCCs.
#[derive(Debug)]
pub(super) struct QueryWait {
    pub(super) since: Instant,
    /// An HIQ that is not mapped on all XCCs was reported.
    pub(super) reported: bool,
}

/// State of the HWS.
#[derive(Debug, Default)]
pub struct Sched {
    pub(super) resources: Option<Resources>,
    pub(super) kiq_mask: u64,
    pub(super) runlist: Option<Runlist>,
    pub(super) unmapping: Vec<Unmapping>,
    /// Physical instances of the XCCs of the partition, by logical number; read when the HIQ is
    /// mapped.
    pub(super) members: Vec<u8>,
    /// QUERY_STATUS that waits for the other XCCs.
    pub(super) query: Option<QueryWait>,
    /// Read pointers of the rings at the last packet that `hws.op` counted.
    pub(super) counted: Vec<(Slot, u64)>,
    /// When the delayed packet of a ring is executed.
    pub(super) delays: Vec<(Slot, Instant)>,
    /// PASID of the last INVALIDATE_TLBS, if that was a heavyweight flush.
    flushed: Option<u16>,
}

impl Sched {
    /// Returns the number of queues in the runlist, and of mapped ones.
    pub fn counts(&self) -> (usize, usize) {
        self.runlist
            .as_ref()
            .map_or((0, 0), |list| (list.entries.len(), list.mapped.len()))
    }
}

impl Engine<'_> {
    /// Executes a scheduler packet.
    pub(super) fn schedule(&mut self, queue: &mut Queue, p: &Packet) -> Result<Outcome, VmFault> {
        if self.generation() == Generation::Gfx12 {
            // gfx12: MES schedules.
            return Ok(Outcome::Bad(PacketError::NoHws));
        }
        match (p.opcode, queue.class) {
            (_, Class::Normal) => Ok(Outcome::Bad(PacketError::NotScheduler)),
            (op::SET_RESOURCES, _) => Ok(self.set_resources(queue, p)),
            (op::RUN_LIST, Class::Hiq) => self.run_list(queue, p),
            (op::MAP_QUEUES, Class::Kiq) => self.kiq_map(queue, p),
            (op::UNMAP_QUEUES, _) => self.unmap_queues(queue, p),
            (op::QUERY_STATUS, _) => self.query_status(queue, p),
            (op::INVALIDATE_TLBS, _) => Ok(self.invalidate_tlbs(queue, p)),
            _ => Ok(Outcome::Bad(PacketError::WrongScheduler)),
        }
    }

    /// Injects a fault into a packet of the HIQ or KIQ. A packet that is executed in several steps
    /// counts once.
    pub(super) fn inject(&mut self, queue: &mut Queue, p: &Packet) -> Option<Outcome> {
        let ring = match queue.class {
            Class::Hiq => 0,
            Class::Kiq => 0x100,
            Class::Mes | Class::Normal => return None,
        };
        let knobs = self.env.knobs();
        if knobs.hws_op.get() != ring | u64::from(p.opcode) {
            return None;
        }
        let this = (queue.slot, queue.rptr);
        if self.sched.counted.contains(&this) {
            return None;
        }
        self.sched.counted.retain(|(slot, _)| *slot != queue.slot);
        self.sched.counted.push(this);
        knobs.hws_op.hit();
        let (what, outcome) = if knobs.hws_drop.reach() {
            ("drop", Outcome::Next)
        } else if knobs.hws_hang_op.reach() {
            queue.halt = Halt::Hung;
            ("hang", Outcome::Idle)
        } else {
            return None;
        };
        event!(
            self.env.trace(),
            "hws",
            "inject",
            "xcc={} queue={} what={what} op={:#x}",
            self.env.xcc(),
            queue.slot,
            p.opcode
        );
        Some(outcome)
    }

    /// Drops the scheduler's state when the HIQ is unmapped; other queues stay mapped.
    pub(super) fn drop_scheduler(&mut self, queue: &Queue) {
        if queue.class == Class::Hiq {
            self.sched.runlist = None;
            self.sched.resources = None;
            self.sched.query = None;
            self.unmap_hiq(queue);
            self.env.shared().remove_scheduler(self.env.xcc());
        }
        self.sched.unmapping.retain(|u| u.by != queue.slot);
        self.sched.delays.retain(|(slot, _)| *slot != queue.slot);
        self.sched.counted.retain(|(slot, _)| *slot != queue.slot);
        if queue.class == Class::Mes {
            self.mes.ring_ends(queue.slot.pipe());
        }
    }

    fn set_resources(&mut self, queue: &Queue, p: &Packet) -> Outcome {
        use pm4::set_resources as sr;
        let vmid_mask = p.get(sr::VMID_MASK) as u16;
        let queue_mask = p.join(sr::QUEUE_MASK_LO, sr::QUEUE_MASK_HI);
        let latency = Duration::from_millis(100) * p.get(sr::UNMAP_LATENCY);
        event!(
            self.env.trace(),
            "hws",
            "set_resources",
            "xcc={} queue={} vmid_mask={vmid_mask:#x} queue_mask={queue_mask:#x} latency_ms={}",
            self.env.xcc(),
            queue.slot,
            latency.as_millis()
        );
        if queue.class == Class::Kiq {
            // On the KIQ, dwords 4 and 5 are the address of the cleaner shader.
            self.sched.kiq_mask = queue_mask;
            if p.get(sr::QUEUE_TYPE) != sr::QUEUE_TYPE_KIQ || vmid_mask != 0 {
                strict!(
                    self.env.strict(),
                    "hws",
                    "SET_RESOURCES of the KIQ: {:x?}",
                    p.words
                );
            }
            return Outcome::Next;
        }
        self.check(queue, p, &sr::PACKET, sr::FIELDS);
        let wrong = if p.get(sr::QUEUE_TYPE) != sr::QUEUE_TYPE_HIQ {
            Some("queue type is not HIQ")
        } else if vmid_mask & 1 != 0 || vmid_mask == 0 {
            Some("VMID mask")
        } else if queue_mask == 0 || queue_mask >> 32 != 0 {
            Some("queue mask has no queue, or queues outside MEC1")
        } else if queue_mask & self.sched.kiq_mask != 0 {
            Some("queue mask differs from that of the KIQ")
        } else if latency.is_zero() {
            Some("unmap latency is 0")
        } else {
            None
        };
        if let Some(text) = wrong {
            strict!(
                self.env.strict(),
                "hws",
                "SET_RESOURCES: {text} ({:x?})",
                p.words
            );
        }
        self.own_vmids(vmid_mask);
        self.sched.resources = Some(Resources {
            vmid_mask,
            queue_mask,
            latency: if latency.is_zero() {
                DEFAULT_LATENCY
            } else {
                latency
            },
            num_gws: p.get(sr::GWS_MASK_LO).count_ones() + p.get(sr::GWS_MASK_HI).count_ones(),
        });
        Outcome::Next
    }

    /// Executes MAP_QUEUES on the KIQ: one queue, to the slot that the packet names.
    fn kiq_map(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::map_queues as mq;
        self.check(queue, p, &mq::PACKET, mq::FORM_KIQ);
        let slot = Slot::new(p.get(mq::ME), p.get(mq::PIPE), p.get(mq::QUEUE));
        let class = match p.get(mq::ENGINE_SEL) {
            mq::ENGINE_SEL_COMPUTE => Class::Normal,
            mq::ENGINE_SEL_HIQ => Class::Hiq,
            _ => return Ok(Outcome::Bad(PacketError::MapQueuesEngine)),
        };
        if p.get(mq::NUM_QUEUES) != 1 || p.get(mq::QUEUE_SEL) != mq::QUEUE_SEL_SPECIFIED {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES of the KIQ: {:x?}",
                p.words
            );
        }
        let taken = self.queues[usize::from(slot.0)].is_some() || slot == queue.slot;
        if taken || self.banks().slot(slot).active() {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES: queue {slot} is already mapped"
            );
            return Ok(Outcome::Next);
        }
        if class == Class::Normal && self.sched.kiq_mask >> slot.0 & 1 == 0 {
            strict!(
                self.env.strict(),
                "hws",
                "MAP_QUEUES: queue {slot} is not in the mask {:#x} of SET_RESOURCES",
                self.sched.kiq_mask
            );
        }
        let vmid = p.get(mq::VMID) as u8;
        let map = Map {
            slot,
            mqd: p.join(mq::MQD_ADDR_LO, mq::MQD_ADDR_HI),
            wptr: p.join(mq::WPTR_ADDR_LO, mq::WPTR_ADDR_HI),
            doorbell: p.get(mq::DOORBELL_OFFSET),
            vmid,
            pasid: self.vmids[usize::from(vmid & 15)].pasid,
            class,
            is_static: true,
            gws: 0,
            scheduled: false,
        };
        event!(
            self.env.trace(),
            "hws",
            "kiq_map",
            "xcc={} slot={slot} class={class:?} mqd={:#x} doorbell={:#x}",
            self.env.xcc(),
            map.mqd,
            map.doorbell
        );
        match self.map(&map) {
            Ok(()) | Err(LoadError::Invalid) => Ok(Outcome::Next),
            Err(LoadError::Fault { fault }) => Err(fault),
        }
    }

    fn query_status(&mut self, queue: &Queue, p: &Packet) -> Result<Outcome, VmFault> {
        use pm4::query_status as qs;
        let form = match p.get(qs::INTERRUPT_SEL) {
            qs::INTERRUPT_SEL_PROCESS => qs::FORM_PASID,
            _ => qs::FORM_DOORBELL,
        };
        self.check(queue, p, &qs::PACKET, form);
        if let Some(outcome) = self.query_by_another(queue) {
            return Ok(outcome);
        }
        let env = self.env;
        if let Some(left) = self.later(queue.slot, || env.response_time()) {
            return Ok(Outcome::Wait(left));
        }
        let command = p.get(qs::COMMAND);
        let to = p.join(qs::ADDR_LO, qs::ADDR_HI);
        let data = p.join(qs::DATA_LO, qs::DATA_HI);
        let never = self.env.knobs().hws_fence_never.on();
        event!(
            self.env.trace(),
            "hws",
            "query_status",
            "xcc={} queue={} command={command} addr={to:#x} data={data:#x} written={}",
            self.env.xcc(),
            queue.slot,
            u8::from(!never && command != qs::COMMAND_INTERRUPT_ONLY)
        );
        if to % 8 != 0 {
            strict!(self.env.strict(), "hws", "QUERY_STATUS fence at {to:#x}");
        }
        if never {
            self.env.knobs().hws_fence_never.hit();
            return Ok(Outcome::Next);
        }
        if command != qs::COMMAND_INTERRUPT_ONLY {
            self.env.write64(queue.config.vmid, to, data)?;
        }
        if matches!(
            command,
            qs::COMMAND_INTERRUPT_ONLY | qs::COMMAND_FENCE_WAIT_FOR_WRITE_ACK_SEND_INTERRUPT
        ) {
            let ctx = p.get(qs::CONTEXT_ID);
            self.post(queue, source::CP_COMPUTE_QUERY_STATUS, [ctx, 0]);
        }
        Ok(Outcome::Next)
    }

    /// Returns how long the packet of a ring is not executed yet: `time`, which is called once for
    /// each packet, from the first call on.
    pub(super) fn later(
        &mut self,
        slot: Slot,
        time: impl FnOnce() -> Duration,
    ) -> Option<Duration> {
        let now = Instant::now();
        let delays = &mut self.sched.delays;
        let Some(at) = delays.iter().position(|(ring, _)| *ring == slot) else {
            let time = time();
            if time.is_zero() {
                return None;
            }
            delays.push((slot, now + time));
            return Some(time);
        };
        let left = delays[at].1.saturating_duration_since(now);
        if left.is_zero() {
            delays.swap_remove(at);
            return None;
        }
        Some(left)
    }

    fn invalidate_tlbs(&mut self, queue: &Queue, p: &Packet) -> Outcome {
        use pm4::invalidate_tlbs as it;
        // Until its completion the old translations are used.
        let env = self.env;
        if let Some(left) = self.later(queue.slot, || env.response_time()) {
            return Outcome::Wait(left);
        }
        self.check(queue, p, &it::PACKET, it::FIELDS);
        if p.get(it::DST_SEL) != it::DST_SEL_PASID {
            return Outcome::Bad(PacketError::InvalidateTlbsDestination);
        }
        let hubs = match p.has(it::ALL_HUB) {
            true => Hubs::All,
            false => Hubs::Graphics,
        };
        let pasid = p.get(it::PASID) as u16;
        let heavy = p.get(it::FLUSH_TYPE) == HEAVYWEIGHT;
        // GC 9.4.3: the first of two flushes races with accesses in flight, which may cache the old
        // translation again (`flush_tlb_needs_extra_type_2`).
        let effective = self.sched.flushed == Some(pasid);
        self.sched.flushed = heavy.then_some(pasid);
        for vmid in 1..16u8 {
            if self.vmids[usize::from(vmid)].pasid == pasid {
                if effective {
                    self.env.invalidate(vmid, hubs);
                }
                if heavy && self.env.has_l2() {
                    self.env.flush_l2();
                }
            }
        }
        Outcome::Next
    }
}
