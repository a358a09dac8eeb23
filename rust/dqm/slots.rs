// SPDX-License-Identifier: GPL-2.0

//! VMIDs and queue slots of the CP firmware scheduler.

use crate::hw::{Caps, HqdSlot, VMIDS};

/// VMIDs for the processes of a node, of which each mapped one has one.
#[derive(Clone, Copy)]
pub(crate) struct Vmids {
    first: u32,
    count: u32,
}

impl Vmids {
    /// Returns all VMIDs for processes.
    pub(crate) fn all(caps: &Caps) -> Self {
        Self {
            first: caps.first_user_vmid,
            count: VMIDS - caps.first_user_vmid,
        }
    }

    /// Returns the half of them for node `index`: the two XCCs of an AID share its memory hub
    /// (`kgd2kfd_device_init`, `kfd_device.c`).
    pub(crate) fn half(caps: &Caps, index: u32) -> Self {
        let count = Self::all(caps).count / 2;
        Self {
            first: VMIDS - (2 - index % 2) * count,
            count,
        }
    }

    /// Returns the number of VMIDs.
    pub(super) fn count(self) -> u32 {
        self.count
    }

    /// Returns the mask.
    pub(super) fn mask(self) -> u32 {
        ((1 << self.count) - 1) << self.first
    }

    /// Returns whether a VMID is one of them.
    pub(crate) fn contains(self, vmid: u32) -> bool {
        self.mask().checked_shr(vmid).is_some_and(|m| m & 1 != 0)
    }

    /// Returns the maximum number of processes mapped at a time (`kgd2kfd_device_init`,
    /// `amdkfd/kfd_device.c`).
    pub(super) fn max_processes(self) -> u32 {
        let limit = u32::try_from(crate::module_parameters::hws_max_conc_proc.value());
        limit.map_or(self.count, |limit| limit.min(self.count))
    }
}

/// Returns the queue slots of MEC 1 that the firmware may use: all except those of the kernel.
pub(super) fn queue_slots(caps: &Caps) -> impl Iterator<Item = HqdSlot> + '_ {
    (0..caps.pipes_per_mec).flat_map(|pipe| {
        let queues = caps.kernel_queues_per_pipe..caps.queues_per_pipe;
        queues.map(move |queue| HqdSlot { me: 1, pipe, queue })
    })
}

/// Returns the mask of [`queue_slots`].
pub(super) fn queue_mask(caps: &Caps) -> u64 {
    queue_slots(caps).fold(0, |mask, slot| {
        mask | 1 << (slot.pipe * caps.queues_per_pipe + slot.queue)
    })
}

/// Returns the maximum number of compute queues mapped at a time.
pub(super) fn max_queues(caps: &Caps) -> u32 {
    queue_mask(caps).count_ones()
}
