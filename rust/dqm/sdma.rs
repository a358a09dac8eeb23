// SPDX-License-Identifier: GPL-2.0

//! The places of user queues on the SDMA engines: who has which.
//!
//! User space sees two kinds of engines and counts the places of each kind across its engines:
//! number `n` is on the kind's engine `n % engines`, so that queues spread before they share.

use kernel::{new_mutex, prelude::*, sync::Arc, sync::Mutex};

use crate::{
    asic::config::Config,
    gpu::Gpu,
    hw::{Caps, SdmaPlace},
};

/// Which place a queue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// On any engine of the PCIe kind.
    Pcie,
    /// On any engine of the xGMI kind.
    Xgmi,
    /// On the engine with this number.
    Engine(u32),
}

/// The places of a GPU. The lock is a leaf.
#[pin_data]
pub(super) struct Places {
    /// Engines of the first kind; those of the second follow.
    pcie: u32,
    engines: u32,
    per_engine: u32,
    /// The first queue of an engine that a user may have.
    first: u32,
    /// By engine, then queue.
    #[pin]
    taken: Mutex<KVec<bool>>,
}

/// A place that was taken. Dropping it gives it back.
pub(crate) struct Slot {
    places: Arc<Places>,
    place: SdmaPlace,
}

impl Places {
    pub(super) fn new(config: &Config, caps: &Caps) -> Result<Arc<Self>> {
        let per_engine = config.sdma_queues_per_engine;
        let count = (config.num_sdma * per_engine) as usize;
        let taken = KVec::from_elem(false, count, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                pcie: config.num_sdma_pcie,
                engines: config.num_sdma,
                per_engine,
                first: caps.sdma_reserved_queues,
                taken <- new_mutex!(taken),
            }),
            GFP_KERNEL,
        )
    }

    fn index(&self, place: SdmaPlace) -> usize {
        (place.engine * self.per_engine + place.queue) as usize
    }

    /// Takes a place; `ENOMEM` when there is none left.
    pub(super) fn take(self: &Arc<Self>, wanted: Wanted) -> Result<Slot> {
        let engines = match wanted {
            Wanted::Pcie => 0..self.pcie,
            Wanted::Xgmi => self.pcie..self.engines,
            Wanted::Engine(n) if n < self.engines => n..n + 1,
            Wanted::Engine(_) => return Err(EINVAL),
        };
        let mut taken = self.taken.lock();
        for queue in self.first..self.per_engine {
            for engine in engines.clone() {
                let place = SdmaPlace { engine, queue };
                if let Some(slot @ false) = taken.get_mut(self.index(place)) {
                    *slot = true;
                    return Ok(Slot {
                        places: self.clone(),
                        place,
                    });
                }
            }
        }
        Err(ENOMEM)
    }

    /// The first queue, from number `from` on, that its engine still has after all were taken off:
    /// its number, place and doorbell.
    pub(super) fn find_held(
        &self,
        gpu: &Gpu,
        from: usize,
    ) -> Result<Option<(usize, SdmaPlace, u32)>> {
        let hal = gpu.generation().sdma_queue;
        let taken = self.taken.lock();
        for (index, _) in taken.iter().enumerate().skip(from).filter(|(_, t)| **t) {
            let place = SdmaPlace {
                engine: index as u32 / self.per_engine,
                queue: index as u32 % self.per_engine,
            };
            if let Some(doorbell) = hal.held_doorbell(gpu.mmio()?, place)? {
                return Ok(Some((index, place, doorbell)));
            }
        }
        Ok(None)
    }
}

impl Slot {
    /// Where it is.
    pub(crate) fn place(&self) -> SdmaPlace {
        self.place
    }

    /// On an engine of the xGMI kind.
    pub(crate) fn is_xgmi(&self) -> bool {
        self.place.engine >= self.places.pcie
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let index = self.places.index(self.place);
        if let Some(slot) = self.places.taken.lock().get_mut(index) {
            *slot = false;
        }
    }
}
