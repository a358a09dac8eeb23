// SPDX-License-Identifier: GPL-2.0

//! TLB invalidation for an address space.

use kernel::prelude::*;

use crate::{
    gpu::{dma, Gpu},
    hw::FlushType,
    kapi::task::NoReclaim,
};

/// Drops what the GPU has cached of the page tables of a PASID; complete on return.
///
/// Which VMIDs the process has at the moment only the firmware knows, so it is asked. When
/// the GPU hangs or is gone there is nothing that could still translate.
pub(crate) fn flush_pasid(gpu: &Gpu, pasid: u32, kind: FlushType) -> Result {
    if gpu.check_usable().is_err() {
        return Ok(());
    }
    {
        // Invalidations of user memory take the lock of the ring.
        let _no_reclaim = NoReclaim::new();
        // Old translations must not outlive the memory that they lead to.
        gpu.invalidate_pasid(pasid, kind).inspect_err(|_| {
            gpu.wedge("TLBs were not invalidated");
        })?;
    }
    // VMIDs of the render node's jobs are the driver's own. A job that runs now shall not reach
    // what was unmapped either.
    let vmids = dma::vmids_of(gpu, pasid);
    for vmid in (1..u32::BITS).filter(|n| vmids & 1 << n != 0) {
        gpu.hub().flush_vmid(vmid, kind).inspect_err(|_| {
            gpu.wedge("TLBs were not invalidated");
        })?;
    }
    Ok(())
}
