// SPDX-License-Identifier: GPL-2.0

//! Reset of a hung queue in its HQD slots, one on each XCC: waves are killed, then the pipes are
//! reset if needed (`kgd_gfx_v9_hqd_reset`, `amdgpu_amdkfd_gfx_v9.c`).
//!
//! An XCC that does not end its part takes the whole timeout: all XCCs are reset at a time.

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

/// Timeout until all slots are inactive.
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

/// Resets the queues in slots of MEC 1, one of each XCC. `ETIMEDOUT` when one stays active.
pub(super) fn reset(mmio: &Mmio, slots: &[(Xcc, HqdSlot)]) -> Result {
    let _guard = mmio.lock_bank();
    on_selected(mmio, slots, &mut || dequeue_and_wait(mmio, slots))
}

/// Runs `f` with the slots selected, and their XCCs in safe mode. The caller holds the bank lock.
fn on_selected(mmio: &Mmio, slots: &[(Xcc, HqdSlot)], f: &mut dyn FnMut() -> Result) -> Result {
    let Some(((xcc, slot), others)) = slots.split_first() else {
        return f();
    };
    let b = mmio.xcc(*xcc)?;
    Gfx::NAMES.with_selected(b, *slot, 0, || {
        Gfx::NAMES.in_safe_mode(b, || on_selected(mmio, others, f))
    })
}

/// See [`reset`].
fn dequeue_and_wait(mmio: &Mmio, slots: &[(Xcc, HqdSlot)]) -> Result {
    let is_any_active = || {
        let mut blocks = slots.iter().map(|(xcc, _)| mmio.xcc(*xcc));
        blocks.try_fold(false, |any, b| Ok(any || is_active(b?)?))
    };
    let gone = || read_poll_timeout(is_any_active, |active| !*active, NAP, TIMEOUT);
    for (xcc, _) in slots {
        // The firmware's dequeue request takes effect with the reset.
        mmio.xcc(*xcc)?.wr(gc::regSPI_COMPUTE_QUEUE_RESET, 1)?;
    }
    if gone().is_ok() {
        return Ok(());
    }
    for (xcc, slot) in slots {
        let b = mmio.xcc(*xcc)?;
        if is_active(b)? {
            let pipe = gc::CP_MEC_CNTL__MEC_ME1_PIPE0_RESET.mask() << slot.pipe;
            b.wr(gc::regCP_MEC_CNTL, pipe)?;
            fsleep(Delta::from_micros(1));
            b.wr(gc::regCP_MEC_CNTL, 0)?;
        }
    }
    gone().map(|_| ())
}
