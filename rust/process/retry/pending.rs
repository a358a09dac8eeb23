// SPDX-License-Identifier: GPL-2.0

//! Pending retry faults of a process on a GPU.
//!
//! Each occupies a slot of the retry CAM until it is acknowledged, so that their number is bounded:
//! none is lost for lack of memory.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};
use rkfd_abi::ih;

use super::refused::Refusals;
use crate::{gpu::Gpu, hw::VmFault};

/// Slots of the retry CAM that an entry can name.
const SLOTS: usize = 1 << ih::fault::CAM_INDEX.field.width();

/// Pending faults, by their slot.
#[pin_data]
pub(crate) struct RetryFaults {
    /// Taken by the interrupt thread: nothing is allocated under it.
    #[pin]
    waiting: SpinLock<KVVec<Option<VmFault>>>,
    /// Faults that are acknowledged later. Used by the worker.
    #[pin]
    postponed: SpinLock<KVVec<VmFault>>,
    /// Faults that were dropped. Used by the worker.
    #[pin]
    refused: SpinLock<Refusals>,
}

impl RetryFaults {
    /// Returns a table without faults, with slots if the GPU has retry faults.
    pub(crate) fn new(gpu: &Gpu) -> Result<Arc<Self>> {
        let count = if gpu.generation().caps.retries {
            SLOTS
        } else {
            0
        };
        let mut slots = KVVec::new();
        slots.resize(count, None, GFP_KERNEL)?;
        let postponed = KVVec::with_capacity(count, GFP_KERNEL)?;
        let refused = Refusals::new(count)?;
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock!(slots, "rkfd_retry"),
                postponed <- new_spinlock!(postponed, "rkfd_postponed"),
                refused <- new_spinlock!(refused, "rkfd_refused"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a fault. Returns false without such a slot.
    pub(crate) fn add(&self, fault: &VmFault) -> bool {
        let mut waiting = self.waiting.lock();
        match waiting.get_mut(fault.cam as usize) {
            Some(slot) => {
                *slot = Some(*fault);
                true
            }
            None => false,
        }
    }

    /// Removes a fault, from slot `from` on.
    pub(crate) fn take(&self, from: usize) -> Option<VmFault> {
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().skip(from).find_map(Option::take)
    }

    /// Keeps a fault of [`Self::take`] until [`Self::take_postponed`]. Returns false without room,
    /// which is for one fault per slot.
    pub(crate) fn postpone(&self, fault: &VmFault) -> bool {
        self.postponed.lock().push_within_capacity(*fault).is_ok()
    }

    /// Removes a postponed fault.
    pub(crate) fn take_postponed(&self) -> Option<VmFault> {
        self.postponed.lock().pop()
    }

    /// Records that a fault could not be handled, see [`Refusals::refuse`].
    pub(crate) fn refuse(&self, page: u64, changes: u64) -> bool {
        self.refused.lock().refuse(page, changes)
    }

    /// Removes the record of [`Self::refuse`], as the fault of the page was handled.
    pub(crate) fn forget(&self, page: u64) {
        self.refused.lock().forget(page);
    }
}
