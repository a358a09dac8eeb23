// SPDX-License-Identifier: GPL-2.0

//! Pending retry faults of a process on a GPU.
//!
//! Each occupies a slot of the retry CAM until it is acknowledged, so that their number is bounded:
//! none is lost for lack of memory.

use core::mem;

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
};
use rkfd_abi::ih;

use crate::{gpu::Gpu, hw::VmFault};

/// Slots of the retry CAM that an entry can name.
const SLOTS: usize = 1 << ih::fault::CAM_INDEX.field.width();

/// A fault that could not be handled.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Refused {
    page: u64,
    /// The state of the memory of the process ([`crate::svm::Svm::changes`]).
    changes: u64,
}

/// Pending faults, by their slot.
#[pin_data]
pub(super) struct RetryFaults {
    /// Taken by the interrupt thread: nothing is allocated under it.
    #[pin]
    waiting: SpinLock<KVVec<Option<VmFault>>>,
    /// Faults that were dropped once, by their page modulo the number of slots: as many can be
    /// repeated at a time. Used by the worker.
    #[pin]
    refused: SpinLock<KVVec<Option<Refused>>>,
}

impl RetryFaults {
    /// Returns a table without faults, with slots if the GPU has retry faults.
    pub(super) fn new(gpu: &Gpu) -> Result<Arc<Self>> {
        let (mut slots, mut refused) = (KVVec::new(), KVVec::new());
        if gpu.generation().caps.retries {
            slots.resize(SLOTS, None, GFP_KERNEL)?;
            refused.resize(SLOTS, None, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock!(slots, "rkfd_retry"),
                refused <- new_spinlock!(refused, "rkfd_refused"),
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

    /// Records that the fault of a page could not be handled with the memory of the process in
    /// state `changes`. Returns whether that was recorded before: the access was repeated.
    pub(super) fn refuse(&self, page: u64, changes: u64) -> bool {
        let fault = Some(Refused { page, changes });
        let mut refused = self.refused.lock();
        let slot = refused.get_mut((page % SLOTS as u64) as usize);
        slot.is_none_or(|slot| mem::replace(slot, fault) == fault)
    }

    /// Removes the record of [`Self::refuse`], as the fault of the page was handled.
    pub(super) fn forget(&self, page: u64) {
        let mut refused = self.refused.lock();
        if let Some(slot) = refused.get_mut((page % SLOTS as u64) as usize) {
            slot.take_if(|fault| fault.page == page);
        }
    }
}
