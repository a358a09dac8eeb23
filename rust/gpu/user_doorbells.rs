// SPDX-License-Identifier: GPL-2.0

//! Doorbells of user queues of the render node. Each has one queue.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::kapi::sched_mm::NoReclaim;

/// The owner of a doorbell.
pub(crate) trait DoorbellOwner: Send + Sync {
    /// The queue has raised the interrupt of its fence. Called by the interrupt thread.
    fn fence_interrupt(&self);
}

/// The doorbells in use, by dword index in the BAR, and their owners. The interrupt thread takes
/// the lock: no memory is reclaimed under it.
#[pin_data]
pub(crate) struct UserDoorbells {
    #[pin]
    used: Mutex<KVVec<(u32, Arc<dyn DoorbellOwner>)>>,
}

impl UserDoorbells {
    /// Returns an empty list. `ENOMEM` without memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                used <- new_mutex!(KVVec::new(), "rkfd_user_doorbells"),
            }),
            GFP_KERNEL,
        )
    }

    /// Passes on the interrupt of a fence, if the doorbell is in use.
    pub(super) fn fence_interrupt(&self, doorbell: u32) {
        let owner = {
            let used = self.used.lock();
            let found = used.iter().find(|(index, _)| *index == doorbell);
            found.map(|(_, owner)| owner.clone())
        };
        if let Some(owner) = owner {
            owner.fence_interrupt();
        }
    }
}

/// Use of a doorbell by a queue. Dropping it ends it.
pub(crate) struct DoorbellUse {
    list: Arc<UserDoorbells>,
    index: u32,
}

impl DoorbellUse {
    /// Takes the doorbell at dword `index` of the BAR. `EBUSY` if it has a queue, `ENOMEM` without
    /// memory.
    pub(crate) fn new(
        list: &Arc<UserDoorbells>,
        index: u32,
        owner: Arc<dyn DoorbellOwner>,
    ) -> Result<Self> {
        let _no_reclaim = NoReclaim::new();
        let mut used = list.used.lock();
        if used.iter().any(|(other, _)| *other == index) {
            return Err(EBUSY);
        }
        used.push((index, owner), GFP_KERNEL)?;
        Ok(Self {
            list: list.clone(),
            index,
        })
    }

    /// Returns the dword index in the BAR.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for DoorbellUse {
    fn drop(&mut self) {
        let mut used = self.list.used.lock();
        used.retain(|(index, _)| *index != self.index);
    }
}
