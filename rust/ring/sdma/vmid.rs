// SPDX-License-Identifier: GPL-2.0

//! VMIDs of kernel ring jobs: those below the firmware scheduler's. Address spaces share them; the
//! last owner keeps a VMID until another address space needs it. A table per memory hub: each hub
//! has VM contexts of its own.

use core::ptr;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

use super::ring::JOBS;
use crate::kapi::fence::Fence;

/// One VMID.
struct Slot {
    vmid: u32,
    /// PASID and page table base of the address space mapped; 0 and 0 for none.
    owner: (u32, u64),
    /// Fences of jobs in the VMID: of the scheduler, from [`Vmids::emitted`] on of the ring.
    active: KVec<ARef<Fence>>,
    /// Fence of the job that switches the VMID to its owner, and its ring: jobs of other rings that
    /// are not ordered after it have to switch too.
    switched: Option<(ARef<Fence>, u32)>,
    /// Clock value of the last use.
    used: u64,
}

impl Slot {
    /// Removes finished jobs. Returns the first that is not.
    fn busy(&mut self) -> Option<&ARef<Fence>> {
        self.active.retain(|fence| !fence.is_signaled());
        self.active.first()
    }

    fn drop_owner(&mut self) {
        self.owner = (0, 0);
        self.switched = None;
    }

    fn needs_switch(&self, owner: (u32, u64), ring: u32) -> bool {
        if self.owner != owner {
            return true;
        }
        match &self.switched {
            None => true,
            Some((fence, on)) => *on != ring && !fence.is_signaled(),
        }
    }
}

struct Table {
    slots: KVec<Slot>,
    /// Per ring, the fence it waits for because no VMID is idle; later jobs wait for it too.
    waits: KVec<Option<ARef<Fence>>>,
    clock: u64,
}

/// Result of [`Vmids::grab`].
pub(super) enum Grab {
    /// No VMID is idle: retry after this fence.
    Wait(ARef<Fence>),
    /// The job runs in this VMID.
    Vmid {
        /// VMID.
        vmid: u32,
        /// Whether the ring has to switch it to the job's address space first.
        switch: bool,
    },
}

/// The VMIDs of a memory hub that kernel rings use.
#[pin_data]
pub(super) struct Vmids {
    #[pin]
    table: Mutex<Table>,
}

impl Vmids {
    /// Manages VMIDs from 1 to below `end`, for `rings` rings. `ENOMEM` without memory.
    pub(super) fn new(end: u32, rings: usize) -> Result<Arc<Self>> {
        // Jobs on the rings, and one per ring about to be submitted.
        let jobs = rings * (JOBS as usize + 1);
        let mut slots = KVec::new();
        for vmid in 1..end {
            slots.push(
                Slot {
                    vmid,
                    owner: (0, 0),
                    active: KVec::with_capacity(jobs, GFP_KERNEL)?,
                    switched: None,
                    used: 0,
                },
                GFP_KERNEL,
            )?;
        }
        let mut waits = KVec::with_capacity(rings, GFP_KERNEL)?;
        for _ in 0..rings {
            waits.push(None, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(Table {
                    slots,
                    waits,
                    clock: 0,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a VMID for a job in the address space `owner` (PASID and page table base) on ring
    /// `ring`, until `finished` signals. `EINVAL` without such a ring, `ENODEV` without VMIDs.
    pub(super) fn grab(&self, owner: (u32, u64), ring: u32, finished: ARef<Fence>) -> Result<Grab> {
        let mut table = self.table.lock();
        let Table {
            slots,
            waits,
            clock,
        } = &mut *table;
        let waits = waits.get_mut(ring as usize).ok_or(EINVAL)?;
        if let Some(fence) = waits.as_ref().filter(|f| !f.is_signaled()) {
            return Ok(Grab::Wait(fence.clone()));
        }
        *waits = None;

        let mut idle: Option<(u64, usize)> = None;
        let mut oldest: Option<(u64, ARef<Fence>)> = None;
        for (i, slot) in slots.iter_mut().enumerate() {
            let used = slot.used;
            match slot.busy() {
                None if idle.is_none_or(|(best, _)| used < best) => idle = Some((used, i)),
                Some(fence) if oldest.as_ref().is_none_or(|(best, _)| used < *best) => {
                    oldest = Some((used, fence.clone()));
                }
                _ => {}
            }
        }
        let Some((_, idle)) = idle else {
            let (_, fence) = oldest.ok_or(ENODEV)?;
            *waits = Some(fence.clone());
            return Ok(Grab::Wait(fence));
        };
        let at = slots.iter().position(|s| s.owner == owner).unwrap_or(idle);
        let slot = slots.get_mut(at).ok_or(EINVAL)?;
        // Within capacity. Not GFP_KERNEL: `finished` must not depend on reclaim.
        slot.active.push(finished, GFP_ATOMIC)?;
        let switch = slot.needs_switch(owner, ring);
        if switch {
            slot.switched = None;
        }
        slot.owner = owner;
        *clock += 1;
        slot.used = *clock;
        Ok(Grab::Vmid {
            vmid: slot.vmid,
            switch,
        })
    }

    /// Records that the job with the fence `finished` is on ring `ring` and ends with `done`, and
    /// whether the ring switches the VMID before.
    ///
    /// Jobs that wait for a VMID depend on `done`: an entity does not wait for `finished` of its
    /// own jobs, nor for that of a job that its own scheduler has run, but calls `prepare` again.
    pub(super) fn emitted(
        &self,
        vmid: u32,
        (finished, done): (&Fence, &ARef<Fence>),
        ring: u32,
        switches: bool,
    ) {
        let mut table = self.table.lock();
        let Some(slot) = table.slots.iter_mut().find(|s| s.vmid == vmid) else {
            return;
        };
        let mut active = slot.active.iter_mut();
        if let Some(fence) = active.find(|fence| ptr::eq(&***fence, finished)) {
            *fence = done.clone();
        }
        if switches {
            slot.switched = Some((done.clone(), ring));
        }
    }

    /// Returns the mask of VMIDs owned by the address space with this PASID.
    pub(super) fn of(&self, pasid: u32) -> u32 {
        let table = self.table.lock();
        let owned = table.slots.iter().filter(|s| s.owner.0 == pasid);
        owned.fold(0, |mask, slot| mask | 1 << slot.vmid)
    }

    /// Drops the owners of all VMIDs.
    pub(super) fn drop_all_owners(&self) {
        for slot in &mut self.table.lock().slots {
            slot.drop_owner();
        }
    }

    /// Drops the address space with this PASID from all VMIDs, and the fences of finished jobs,
    /// which would stay until the next job.
    pub(super) fn drop_owner(&self, pasid: u32) {
        let mut table = self.table.lock();
        let Table { slots, waits, .. } = &mut *table;
        for slot in slots {
            slot.busy();
            if slot.owner.0 == pasid {
                slot.drop_owner();
            }
        }
        for wait in waits {
            wait.take_if(|fence| fence.is_signaled());
        }
    }
}
