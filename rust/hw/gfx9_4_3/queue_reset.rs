// SPDX-License-Identifier: GPL-2.0

//! Reset of a hung queue in its HQD slot: waves are killed, then the pipe is reset if needed
//! (`kgd_gfx_v9_hqd_reset`, `amdgpu_amdkfd_gfx_v9.c`).

use kernel::{
    io::poll::read_poll_timeout,
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::regs::gc_9_4_3 as gc;

use super::gfx::Gfx;
use crate::{
    asic::{
        mmio::{Block, Mmio},
        xcc::Xcc,
    },
    hw::gfx::{GfxVersion, HqdSlot},
};

/// Timeout until the slot is inactive.
const TIMEOUT: Delta = Delta::from_millis(4050);
/// Poll interval.
const NAP: Delta = Delta::from_micros(500);

fn is_active(b: Block<'_>) -> Result<bool> {
    Ok(gc::CP_HQD_ACTIVE__ACTIVE.is_set(b.rd(gc::regCP_HQD_ACTIVE)?))
}

/// Returns the doorbell of the active queue in a slot of MEC 1 (`kgd_gfx_v9_hqd_get_pq_addr`).
pub(super) fn doorbell(mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<Option<u32>> {
    let b = mmio.xcc(xcc)?;
    Gfx::NAMES.with_bank(mmio, b, slot, 0, || {
        Gfx::NAMES.in_safe_mode(b, || {
            if !is_active(b)? {
                return Ok(None);
            }
            let control = b.rd(gc::regCP_HQD_PQ_DOORBELL_CONTROL)?;
            Ok(Some(
                gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.get(control),
            ))
        })
    })
}

/// Resets the queue in a slot of MEC 1. `ETIMEDOUT` when it stays active.
pub(super) fn reset(mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result {
    let b = mmio.xcc(xcc)?;
    Gfx::NAMES.with_bank(mmio, b, slot, 0, || {
        Gfx::NAMES.in_safe_mode(b, || dequeue_and_wait(b, slot))
    })
}

/// See [`reset`].
fn dequeue_and_wait(b: Block<'_>, slot: HqdSlot) -> Result {
    let gone = || read_poll_timeout(|| is_active(b), |active| !*active, NAP, TIMEOUT);
    // The firmware's dequeue request takes effect with the reset.
    b.wr(gc::regSPI_COMPUTE_QUEUE_RESET, 1)?;
    if gone().is_ok() {
        return Ok(());
    }
    let pipe = gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET.mask() << slot.pipe;
    b.wr(gc::regCP_MEC_CNTL, pipe)?;
    fsleep(Delta::from_micros(1));
    b.wr(gc::regCP_MEC_CNTL, 0)?;
    gone().map(|_| ())
}
