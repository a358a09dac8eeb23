// SPDX-License-Identifier: GPL-2.0

//! TLB invalidation for an address space.

use kernel::prelude::*;

use crate::{
    gpu::{dma, Gpu},
    hw::FlushType,
    kapi::sched_mm::NoReclaim,
};

/// Makes written page tables visible to the GPU and invalidates the TLB entries of a PASID.
/// Complete on return.
///
/// VMIDs are assigned by firmware, which therefore executes the flush. Does nothing when the GPU is
/// hung or unplugged. Wedges the card on an error: `ETIMEDOUT` or `ETIME` when the hardware does
/// not respond.
pub(crate) fn flush_pasid(gpu: &Gpu, pasid: u32, kind: FlushType) -> Result {
    if gpu.check_usable().is_err() {
        return Ok(());
    }
    // A walk after the invalidation must not find old entries.
    gpu.hub().hdp_flush()?;
    {
        // MMU notifiers take the lock of the ring.
        let _no_reclaim = NoReclaim::new();
        // TLB entries must not outlive the memory that they map.
        gpu.invalidate_pasid(pasid, kind).inspect_err(|_| {
            gpu.wedge("TLBs were not invalidated");
        })?;
    }
    // VMIDs of render node jobs are assigned by the driver. Running jobs must not access unmapped
    // memory either.
    let mut vmids = dma::vmids_of(gpu, pasid);
    while vmids != 0 {
        let vmid = vmids.trailing_zeros();
        vmids &= vmids - 1;
        gpu.hub().flush_vmid(vmid, kind).inspect_err(|_| {
            gpu.wedge("TLBs were not invalidated");
        })?;
    }
    Ok(())
}
