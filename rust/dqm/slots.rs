// SPDX-License-Identifier: GPL-2.0

//! VMIDs and queue slots of the CP firmware scheduler.

use crate::hw::{Caps, HqdSlot, VMIDS};

/// Returns the mask of VMIDs for processes.
pub(super) fn vmid_mask(caps: &Caps) -> u32 {
    (caps.first_user_vmid..VMIDS).fold(0, |mask, vmid| mask | 1 << vmid)
}

/// Returns the maximum number of processes mapped at a time.
pub(super) fn max_processes(caps: &Caps) -> u32 {
    VMIDS - caps.first_user_vmid
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
