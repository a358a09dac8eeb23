// SPDX-License-Identifier: GPL-2.0

//! Doorbells of user queues of the render node. Each has one queue.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use rkfd_abi::doorbell;

use crate::kapi::sched_mm::NoReclaim;

/// The owner of a doorbell.
pub(crate) trait DoorbellOwner: Send + Sync {
    /// The queue has raised the interrupt of its fence. Called by the interrupt thread.
    fn fence_interrupt(&self);

    /// The queue has stopped at an invalid packet, or accessed a register without privilege. Called
    /// by the interrupt thread.
    fn fault(self: Arc<Self>);
}

/// A doorbell in use.
struct Used {
    /// Dword index in the BAR.
    index: u32,
    /// PASID of its queue.
    pasid: u32,
    owner: Arc<dyn DoorbellOwner>,
}

impl Used {
    /// Returns the number in its slice, by which the CP names it.
    fn id(&self) -> u32 {
        self.index / doorbell::DWORDS % doorbell::PER_PROCESS as u32
    }
}

/// The doorbells in use. The interrupt thread takes the lock: no memory is reclaimed under it.
#[pin_data]
pub(crate) struct UserDoorbells {
    #[pin]
    used: Mutex<KVVec<Used>>,
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

    fn find(&self, is_it: impl Fn(&Used) -> bool) -> Option<Arc<dyn DoorbellOwner>> {
        let used = self.used.lock();
        let found = used.iter().find(|used| is_it(used));
        found.map(|used| used.owner.clone())
    }

    /// Passes on the interrupt of a fence, if the doorbell is in use.
    pub(super) fn fence_interrupt(&self, doorbell: u32) {
        if let Some(owner) = self.find(|used| used.index == doorbell) {
            owner.fence_interrupt();
        }
    }

    /// Passes on a fault of the queue of a PASID with number `id` in its slice of doorbells, if it
    /// is one of the render node (`amdgpu_userq_process_reset_irq`).
    pub(super) fn fault(&self, pasid: u32, id: u32) {
        if let Some(owner) = self.find(|used| used.pasid == pasid && used.id() == id) {
            owner.fault();
        }
    }
}

/// Use of a doorbell by a queue. Dropping it ends it.
pub(crate) struct DoorbellUse {
    list: Arc<UserDoorbells>,
    index: u32,
}

impl DoorbellUse {
    /// Takes the doorbell at dword `index` of the BAR, for a queue of a PASID. `EBUSY` if it has a
    /// queue, `ENOMEM` without memory.
    pub(crate) fn new(
        list: &Arc<UserDoorbells>,
        index: u32,
        pasid: u32,
        owner: Arc<dyn DoorbellOwner>,
    ) -> Result<Self> {
        let _no_reclaim = NoReclaim::new();
        let mut used = list.used.lock();
        if used.iter().any(|other| other.index == index) {
            return Err(EBUSY);
        }
        let new = Used {
            index,
            pasid,
            owner,
        };
        used.push(new, GFP_KERNEL)?;
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
        used.retain(|other| other.index != self.index);
    }
}
