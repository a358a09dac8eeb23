// SPDX-License-Identifier: GPL-2.0

//! Doorbells of user queues of the render node. Each has one queue.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// The doorbells in use, by dword index in the BAR.
#[pin_data]
pub(crate) struct UserDoorbells {
    #[pin]
    used: Mutex<KVVec<u32>>,
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
}

/// Use of a doorbell by a queue. Dropping it ends it.
pub(crate) struct DoorbellUse {
    list: Arc<UserDoorbells>,
    index: u32,
}

impl DoorbellUse {
    /// Takes the doorbell at dword `index` of the BAR. `EBUSY` if it has a queue, `ENOMEM` without
    /// memory.
    pub(crate) fn new(list: &Arc<UserDoorbells>, index: u32) -> Result<Self> {
        let mut used = list.used.lock();
        if used.contains(&index) {
            return Err(EBUSY);
        }
        used.push(index, GFP_KERNEL)?;
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
        used.retain(|index| *index != self.index);
    }
}
