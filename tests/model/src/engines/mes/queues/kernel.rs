// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Kernel queues: MAP_LEGACY_KQ of ADD_QUEUE, UNMAP_LEGACY_QUEUE of REMOVE_QUEUE.

use rkfd_abi::doorbell::{self, navi10};
use rkfd_abi::mes::{self, queue_type};

use super::Words;
use crate::engines::cp::save::LoadError;
use crate::engines::cp::slot::Slot;
use crate::engines::mes::error::FrameError;
use crate::engines::mes::frames::reachable;
use crate::engines::mes::{FrameResult, Hardware, Load, Mes, Progress, POLL};
use crate::strict;

/// A kernel queue, in the slot that the driver chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legacy {
    slot: Slot,
    pub(super) doorbell: u32,
    leaving: bool,
}

fn slot_of(kind: u32, pipe: u32, queue: u32) -> Option<Slot> {
    match (u8::try_from(kind).ok()?, pipe, queue) {
        (queue_type::SCHQ, mes::PIPE_SCHED, 0) => Some(Slot::new(2, pipe, 0)),
        (queue_type::GFX, 0, 0) => Some(Slot::GRAPHICS),
        (queue_type::COMPUTE, 0..=1, 0..=3) => Some(Slot::new(0, pipe, queue)),
        _ => None,
    }
}

impl Mes {
    /// Maps a kernel queue to the slot in the frame.
    pub(super) fn map_legacy(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::add_queue as aq;
        let kind = aq::QUEUE_TYPE.get(words);
        let schq = kind == u32::from(queue_type::SCHQ);
        let Some(slot) = slot_of(kind, aq::PIPE_ID.get(words), aq::QUEUE_ID.get(words)) else {
            return Err(FrameError::NoKernelSlot { kind });
        };
        if schq != (pipe == mes::PIPE_KIQ) {
            return Err(FrameError::KernelQueuePipe);
        }
        if self.resources.compute.contains(&slot) {
            return Err(FrameError::SlotReserved { slot });
        }
        let doorbell = aq::DOORBELL_OFFSET.get(words);
        if schq && doorbell != navi10::MES_RING0 * doorbell::DWORDS {
            return Err(FrameError::KernelDoorbell { doorbell });
        }
        if hw.is_mapped(slot) {
            return Err(FrameError::SlotTaken { slot });
        }
        let load = Load {
            slot,
            mqd: aq::MQD_ADDR.get(words),
            wptr: aq::WPTR_ADDR.get(words),
            doorbell,
            vmid: 0,
            pasid: 0,
            ring: schq,
        };
        if let Err(fault) = reachable(hw.env(), load.wptr) {
            return Err(FrameError::Memory {
                what: "write pointer",
                fault,
            });
        }
        match hw.load(&load) {
            Ok(()) => {
                self.legacy.push(Legacy {
                    slot,
                    doorbell,
                    leaving: false,
                });
                Ok(Progress::Done)
            }
            Err(LoadError::Invalid) => Err(FrameError::Mqd { mqd: load.mqd }),
            Err(LoadError::Fault { fault }) => Err(FrameError::Memory { what: "MQD", fault }),
        }
    }

    /// Unmaps a kernel queue.
    pub(super) fn unmap_legacy(
        &mut self,
        hw: &mut dyn Hardware,
        pipe: u32,
        words: &Words,
    ) -> FrameResult {
        use mes::remove_queue as rq;
        let kind = rq::QUEUE_TYPE.get(words);
        let Some(slot) = slot_of(kind, rq::PIPE_ID.get(words), rq::QUEUE_ID.get(words)) else {
            return Err(FrameError::NoKernelSlot { kind });
        };
        let doorbell = rq::DOORBELL_OFFSET.get(words);
        let found = |l: &Legacy| l.slot == slot && l.doorbell == doorbell;
        // The scheduler's own ring is unmapped through the other pipe, and its state is dropped.
        let Some(n) = self.legacy.iter().position(found) else {
            return Err(FrameError::NoKernelQueue { doorbell, slot });
        };
        let schq = kind == u32::from(queue_type::SCHQ);
        if schq != (pipe == mes::PIPE_KIQ) {
            return Err(FrameError::KernelQueuePipe);
        }
        if schq && self.queues.iter().any(|q| q.slot.is_some()) {
            strict!(
                hw.env().strict(),
                "mes",
                "the scheduler's ring is unmapped while user queues are mapped"
            );
        }
        if !std::mem::replace(&mut self.legacy[n].leaving, true) {
            hw.begin_unload(slot, false);
        }
        if hw.is_mapped(slot) {
            if self.waited(pipe) < self.unmap_timeout(pipe) {
                return Ok(Progress::Wait(POLL));
            }
            return Err(FrameError::KernelPreemption { slot });
        }
        self.legacy.remove(n);
        Ok(Progress::Done)
    }
}
