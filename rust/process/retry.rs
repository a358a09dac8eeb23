// SPDX-License-Identifier: GPL-2.0

//! Retry faults of a process on a GPU that wait to be handled.
//!
//! Each occupies a slot of the retry CAM until it is acknowledged, so that there are never more
//! than slots: none is lost for lack of memory.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};
use rkfd_abi::ih;

use crate::{gpu::Gpu, hw::VmFault};

/// Slots of the retry CAM that an entry can name.
const SLOTS: usize = 1 << ih::fault::CAM_INDEX.field.width();

/// Faults that wait, by their slot.
#[pin_data]
pub(super) struct RetryFaults {
    /// Taken by the interrupt thread: nothing is allocated under it.
    #[pin]
    waiting: SpinLock<KVVec<Option<VmFault>>>,
}

impl RetryFaults {
    /// Returns a table without faults, with slots if the GPU has retry faults.
    pub(super) fn new(gpu: &Gpu) -> Result<Arc<Self>> {
        let mut slots = KVVec::new();
        if gpu.generation().caps.retries {
            slots.resize(SLOTS, None, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock!(slots, "rkfd_retry"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a fault. Returns false without such a slot.
    pub(super) fn add(&self, fault: &VmFault) -> bool {
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
    pub(super) fn take(&self, from: usize) -> Option<VmFault> {
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().skip(from).find_map(Option::take)
    }
}
