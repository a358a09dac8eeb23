// SPDX-License-Identifier: GPL-2.0 OR MIT

//! SDMA user queues in the scheduler: mapping them to engines and unmapping them, as with compute
//! queues. Their packets are executed by [`crate::engines::sdma`].

use std::time::Duration;

use gpu_regs::sdma_4_4_2 as regs;
use rkfd_abi::bits::join;
use rkfd_abi::sdma::RLC_QUEUES;

use super::engine::Engine;
use super::env::client;
use super::fault::raise_of_driver;
use super::queue::Unmap;
use super::save::LoadError;
use super::slot::{Slot, SLOTS};
use crate::engines::gmc::VmFault;
use crate::engines::sdma::layout::Version;
use crate::engines::sdma::rlc::RlcMap;
use crate::trace::Detail;
use crate::{event, strict};

/// Poll interval for an engine to release a queue; its message usually comes first.
const POLL: Duration = Duration::from_millis(1);

/// A mapped SDMA queue.
#[derive(Debug, Clone)]
pub struct SdmaQueue {
    /// Engine and context.
    pub slot: Slot,
    /// MQD, an address of VMID 0.
    pub mqd: u64,
    /// Address space.
    pub vmid: u8,
    /// PASID.
    pub pasid: u16,
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
    /// Static queue: not affected by "all non static".
    pub is_static: bool,
    /// Dequeue requested.
    pub leaving: bool,
    /// The engine was notified.
    pub notified: bool,
}

/// Parameters of MAP_QUEUES, or of ADD_QUEUE on MES.
#[derive(Debug, Clone, Copy)]
pub struct SdmaMap {
    /// Engine.
    pub engine: u8,
    /// Its number in packet and MQD.
    pub number: u8,
    /// The RLC queue on the engine, if the firmware names it and not the MQD.
    pub rlc: Option<u8>,
    /// MQD, an address of VMID 0.
    pub mqd: u64,
    /// Write pointer address: in the queue's address space, on MES in VMID 0.
    pub wptr: u64,
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
    /// Address space.
    pub vmid: u8,
    /// PASID.
    pub pasid: u16,
    /// Static queue: not affected by "all non static".
    pub is_static: bool,
}

impl Slot {
    /// Returns the slot of a context of an SDMA engine, numbered after the HQDs.
    pub fn rlc(engine: u8, rlc: u8) -> Self {
        Self(SLOTS as u8 + engine * RLC_QUEUES as u8 + rlc)
    }

    /// Returns engine and context, if the slot is one of an SDMA engine.
    pub fn as_rlc(self) -> Option<(u8, u8)> {
        let n = self.0.checked_sub(SLOTS as u8)?;
        Some((n / RLC_QUEUES as u8, n % RLC_QUEUES as u8))
    }
}

crate::errors! {
    /// An MQD that does not match the packet that maps it.
    enum SdmaMqdError {
        /// Another engine.
        Engine { engine: u32, packet: u8 } => "it contains engine {engine}, {packet} in the packet",
        /// Another doorbell.
        Doorbell { doorbell: u32 } => "it contains doorbell {doorbell:#x}",
        /// The doorbell belongs to another engine.
        Route { engine: u8 } => "its doorbell is not routed to engine {engine}",
        /// A user queue with privileges.
        Privileged => "the ring is privileged",
        /// The ring has no address.
        NoRing => "ring address is 0",
        /// No such queue.
        Queue { wanted: u32 } => "queue {wanted} does not exist",
        /// All queues of the engine are in use.
        Full { engine: u8 } => "no free queue on engine {engine}",
    }
}

impl Engine<'_> {
    /// Returns whether a queue is mapped to a slot of either kind.
    pub(super) fn is_mapped(&self, slot: Slot) -> bool {
        match slot.as_rlc() {
            None => self.queues[usize::from(slot.0)].is_some(),
            Some(_) => self.sdma_queues.iter().any(|q| q.slot == slot),
        }
    }

    /// Returns whether the queue of a slot of either kind has a pending dequeue request.
    pub(super) fn is_leaving(&self, slot: Slot) -> bool {
        match slot.as_rlc() {
            None => self.queues[usize::from(slot.0)]
                .as_ref()
                .is_some_and(|q| q.leaving.is_some()),
            Some(_) => self.sdma_queues.iter().any(|q| q.slot == slot && q.leaving),
        }
    }

    /// Starts to unmap a queue from an SDMA engine or an HQD.
    pub(super) fn start_unmap_any(&mut self, slot: Slot, how: Unmap, keep: bool) {
        if slot.as_rlc().is_none() {
            if let Some(knob) = self.no_preemption().filter(|_| self.is_stuck(slot)) {
                knob.hit();
            }
            self.start_unmap(slot, how, keep);
            return;
        }
        if let Some(knob) = self.no_preemption() {
            knob.hit();
        }
        for queue in self.sdma_queues.iter_mut().filter(|q| q.slot == slot) {
            queue.leaving = true;
            event!(
                self.env.trace(),
                "hws",
                "sdma_unmap",
                "xcc={} queue={slot} pasid={} how={how:?}",
                self.env.xcc(),
                queue.pasid
            );
        }
    }

    /// Returns the engine that an MQD names.
    pub fn sdma_engine_of(&self, mqd: u64) -> Result<u32, VmFault> {
        let at = self.env.sdma().layout().mqd.engine;
        self.env.read32(0, mqd.wrapping_add(at as u64 * 4))
    }

    /// Loads a queue from its MQD.
    pub fn map_sdma(&mut self, map: &SdmaMap) -> Result<Slot, LoadError> {
        let layout = self.env.sdma().layout();
        let dw = layout.mqd;
        let mqd = self.env.read_dwords(0, map.mqd, dw.dwords)?;
        if self.env.trace().detail_enabled(Detail::Mqds) {
            event!(
                self.env.trace(),
                "hws",
                "sdma_mqd",
                "xcc={} pasid={} mqd={:#x} words={mqd:x?}",
                self.env.xcc(),
                map.pasid,
                map.mqd
            );
        }
        let wrong = |error: SdmaMqdError| {
            strict!(
                self.env.strict(),
                "hws",
                "SDMA MQD {:#x} of doorbell {:#x}: {error}",
                map.mqd,
                map.doorbell
            );
        };
        let port = self.env.sdma();
        if mqd[dw.engine] != u32::from(map.number) {
            wrong(SdmaMqdError::Engine {
                engine: mqd[dw.engine],
                packet: map.number,
            });
        }
        let offset = mqd[dw.doorbell_offset];
        let doorbell = regs::SDMA_GFX_DOORBELL_OFFSET__OFFSET.get(offset);
        if doorbell != map.doorbell {
            wrong(SdmaMqdError::Doorbell { doorbell });
        }
        if !port.is_routed(map.engine, map.doorbell) {
            wrong(SdmaMqdError::Route { engine: map.engine });
        }
        if mqd[dw.rb_cntl] & regs::SDMA_GFX_RB_CNTL__RB_PRIV.mask != 0 {
            wrong(SdmaMqdError::Privileged);
        }
        let base = join(mqd[dw.rb_base[0]], mqd[dw.rb_base[1]]);
        if base == 0 {
            wrong(SdmaMqdError::NoRing);
            return Err(LoadError::Invalid);
        }
        let wanted = mqd[dw.queue];
        let free = |rlc: &u8| port.is_free(map.engine, *rlc);
        let all = 0..RLC_QUEUES as u8;
        let own = all.clone().find(|n| u32::from(*n) == wanted);
        if own.is_none() {
            wrong(SdmaMqdError::Queue { wanted });
        }
        let place = match map.rlc {
            Some(rlc) => Some(rlc).filter(free),
            None => own.filter(free).or_else(|| all.clone().find(free)),
        };
        let Some(rlc) = place else {
            wrong(SdmaMqdError::Full { engine: map.engine });
            return Err(LoadError::Invalid);
        };
        // MES reads it in VMID 0: the page tables of the process are not set up yet.
        let space = match layout.version {
            Version::V4 => map.vmid,
            Version::V7 => 0,
        };
        let slot = Slot::rlc(map.engine, rlc);
        let queue = RlcMap {
            engine: map.engine,
            rlc,
            image: &mqd,
            vmid: map.vmid,
            pasid: map.pasid,
            doorbell: map.doorbell,
        };
        port.map(&queue, &|| {
            let wptr = self.env.read64(space, map.wptr)?;
            event!(
                self.env.trace(),
                "hws",
                "sdma_map",
                "xcc={} queue={slot} vmid={} pasid={} mqd={:#x} doorbell={:#x} wptr={wptr:#x}",
                self.env.xcc(),
                map.vmid,
                map.pasid,
                map.mqd,
                map.doorbell
            );
            Ok(wptr)
        })?;
        self.sdma_queues.push(SdmaQueue {
            slot,
            mqd: map.mqd,
            vmid: map.vmid,
            pasid: map.pasid,
            doorbell: map.doorbell,
            is_static: map.is_static,
            leaving: false,
            notified: false,
        });
        Ok(slot)
    }

    /// Notifies engines about pending dequeue requests, and writes the MQDs of completed ones.
    /// Returns when to call it again.
    pub(super) fn finish_sdma_unmaps(&mut self) -> Option<Duration> {
        let stuck = self.no_preemption().is_some();
        let port = self.env.sdma();
        let mut again = None;
        for mut queue in std::mem::take(&mut self.sdma_queues) {
            let Some((engine, rlc)) = queue.slot.as_rlc() else {
                continue;
            };
            if queue.leaving && !queue.notified && !stuck {
                port.unmap(engine, rlc);
                queue.notified = true;
            }
            let left = match queue.leaving && queue.notified {
                true => port.dequeued_image(engine, rlc),
                false => None,
            };
            let Some(image) = left else {
                if queue.leaving {
                    again = Some(POLL);
                }
                self.sdma_queues.push(queue);
                continue;
            };
            event!(
                self.env.trace(),
                "hws",
                "sdma_unmapped",
                "xcc={} queue={} pasid={} mqd={:#x}",
                self.env.xcc(),
                queue.slot,
                queue.pasid,
                queue.mqd
            );
            for (n, value) in image {
                let at = queue.mqd.wrapping_add(n as u64 * 4);
                if let Err(fault) = self.env.write32(0, at, value) {
                    raise_of_driver(
                        self.env,
                        "hws",
                        &fault,
                        client::CPC,
                        format_args!("queue {}: cannot write MQD", queue.slot),
                    );
                    break;
                }
            }
        }
        again
    }

    /// Keeps a queue mapped that was not unmapped in time.
    pub(super) fn keep_sdma(&mut self, slot: Slot) -> Option<(u16, u32)> {
        let (engine, rlc) = slot.as_rlc()?;
        let queue = self.sdma_queues.iter_mut().find(|q| q.slot == slot)?;
        queue.leaving = false;
        if std::mem::take(&mut queue.notified) {
            self.env.sdma().cancel_unmap(engine, rlc);
        }
        Some((queue.pasid, queue.doorbell))
    }
}
