// SPDX-License-Identifier: GPL-2.0

//! What the scheduler of the command processor's firmware has to hand out: VMIDs and queue slots.

use crate::hw::{Caps, HqdSlot, VMIDS};

/// The VMIDs that processes get.
pub(super) fn vmid_mask(caps: &Caps) -> u32 {
    (caps.first_user_vmid..VMIDS).fold(0, |mask, vmid| mask | 1 << vmid)
}

/// How many processes can be on the hardware at a time.
pub(super) fn max_processes(caps: &Caps) -> u32 {
    VMIDS - caps.first_user_vmid
}

/// The queue slots of the first MEC that the firmware may use: all but the kernel's.
pub(super) fn queue_slots(caps: &Caps) -> impl Iterator<Item = HqdSlot> + '_ {
    (0..caps.pipes_per_mec).flat_map(|pipe| {
        let queues = caps.kernel_queues_per_pipe..caps.queues_per_pipe;
        queues.map(move |queue| HqdSlot { me: 1, pipe, queue })
    })
}

/// The same as a mask.
pub(super) fn queue_mask(caps: &Caps) -> u64 {
    queue_slots(caps).fold(0, |mask, slot| {
        mask | 1 << (slot.pipe * caps.queues_per_pipe + slot.queue)
    })
}

/// How many queues can be on the hardware at a time.
pub(super) fn max_queues(caps: &Caps) -> u32 {
    queue_mask(caps).count_ones()
}
