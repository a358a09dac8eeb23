// SPDX-License-Identifier: GPL-2.0

//! SDMA queue slots of user queues.
//!
//! The topology has two kinds of engines and numbers the slots of a kind across its engines: slot
//! `n` is on engine `n % engines` of the kind, so that queues use different engines first
//! (`allocate_sdma_queue()`).

use kernel::{new_mutex, prelude::*, sync::Arc, sync::Mutex};

use crate::{
    gpu::Gpu,
    hw::{Caps, SdmaQueueId},
};

/// The SDMA engines of a node. Packets, MQDs and doorbells of its queues number them from 0.
#[derive(Clone, Copy)]
pub(crate) struct SdmaEngines {
    /// Logical number of the first one in the card.
    pub(crate) first: u32,
    /// Number.
    pub(crate) count: u32,
    /// Of these, how many user space counts as PCIe engines; the rest are xGMI engines.
    pub(crate) pcie: u32,
}

impl SdmaEngines {
    /// Returns the bitmap of the PCIe engines.
    pub(crate) fn pcie_mask(&self) -> u32 {
        (1 << self.pcie) - 1
    }

    /// Returns the slot of a queue of the node, with the engine's number in the card.
    pub(crate) fn of_card(&self, place: SdmaQueueId) -> SdmaQueueId {
        SdmaQueueId {
            engine: self.first + place.engine,
            ..place
        }
    }

    /// Returns the bitmap of the xGMI engines.
    pub(crate) fn xgmi_mask(&self) -> u32 {
        (1 << self.count) - 1 & !self.pcie_mask()
    }
}

/// Kind of engine requested for an SDMA queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdmaEngineChoice {
    /// Any engine of the PCIe kind.
    Pcie,
    /// Any engine of the xGMI kind.
    Xgmi,
    /// The engine with this number.
    Engine(u32),
}

/// SDMA queue slots of a node. The lock is a leaf.
#[pin_data]
pub(super) struct SdmaQueueIds {
    engines: SdmaEngines,
    per_engine: u32,
    /// First queue of an engine that is available to user space.
    first: u32,
    /// Bitmap of the queues of each engine.
    #[pin]
    taken: Mutex<KVec<u32>>,
}

/// An allocated SDMA queue slot. Freed on drop.
pub(crate) struct SdmaQueueSlot {
    places: Arc<SdmaQueueIds>,
    place: SdmaQueueId,
}

impl SdmaQueueIds {
    /// Returns the free slots of `per_engine` slots on each of these engines. `EINVAL` for more
    /// than 32 queues of an engine, `ENOMEM` without memory.
    pub(super) fn new(engines: SdmaEngines, per_engine: u32, caps: &Caps) -> Result<Arc<Self>> {
        if per_engine > u32::BITS {
            return Err(EINVAL);
        }
        let taken = KVec::zeroed(engines.count as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                engines,
                per_engine,
                first: caps.sdma_reserved_queues,
                taken <- new_mutex!(taken),
            }),
            GFP_KERNEL,
        )
    }

    fn index(&self, place: SdmaQueueId) -> usize {
        (place.engine * self.per_engine + place.queue) as usize
    }

    /// Allocates a slot, lowest queue number of all engines first. `EINVAL` without such an engine,
    /// `ENOMEM` when none is free.
    pub(super) fn take(self: &Arc<Self>, wanted: SdmaEngineChoice) -> Result<SdmaQueueSlot> {
        let engines = match wanted {
            SdmaEngineChoice::Pcie => 0..self.engines.pcie,
            SdmaEngineChoice::Xgmi => self.engines.pcie..self.engines.count,
            SdmaEngineChoice::Engine(n) if n < self.engines.count => n..n + 1,
            SdmaEngineChoice::Engine(_) => return Err(EINVAL),
        };
        let mut taken = self.taken.lock();
        for queue in self.first..self.per_engine {
            for engine in engines.clone() {
                let queues = taken.get_mut(engine as usize).ok_or(EINVAL)?;
                if *queues & 1 << queue == 0 {
                    *queues |= 1 << queue;
                    return Ok(SdmaQueueSlot {
                        places: self.clone(),
                        place: SdmaQueueId { engine, queue },
                    });
                }
            }
        }
        Err(ENOMEM)
    }

    /// Returns index, slot, with the engine's number in the card, and doorbell of the first queue
    /// from index `from` on that is still mapped to its engine after all queues were unmapped.
    /// `ENODEV` when the device is unplugged.
    pub(super) fn find_held(
        &self,
        gpu: &Gpu,
        from: usize,
    ) -> Result<Option<(usize, SdmaQueueId, u32)>> {
        let hal = gpu.generation().sdma_queue;
        let taken = self.taken.lock();
        for (engine, queues) in (0..).zip(&*taken) {
            let mut left = *queues;
            while left != 0 {
                let queue = left.trailing_zeros();
                left &= left - 1;
                let place = SdmaQueueId { engine, queue };
                let index = self.index(place);
                if index < from {
                    continue;
                }
                let place = self.engines.of_card(place);
                if let Some(doorbell) = hal.held_doorbell(gpu.mmio()?, place)? {
                    return Ok(Some((index, place, doorbell)));
                }
            }
        }
        Ok(None)
    }
}

impl SdmaQueueSlot {
    /// Returns the slot's engine and queue.
    pub(crate) fn place(&self) -> SdmaQueueId {
        self.place
    }

    /// Returns whether the engine is of the xGMI kind.
    pub(crate) fn is_xgmi(&self) -> bool {
        self.place.engine >= self.places.engines.pcie
    }
}

impl Drop for SdmaQueueSlot {
    fn drop(&mut self) {
        let SdmaQueueId { engine, queue } = self.place;
        if let Some(queues) = self.places.taken.lock().get_mut(engine as usize) {
            *queues &= !(1 << queue);
        }
    }
}
