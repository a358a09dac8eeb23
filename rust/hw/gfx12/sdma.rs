// SPDX-License-Identifier: GPL-2.0

//! SDMA 7.0: the kernel ring (queue 0) of each engine, and the registers of other blocks that its
//! packets write.
//!
//! The engines are part of GC: their registers are in its block, they use GFXHUB and the
//! invalidation engine of their number.

use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    discovery::hwid,
    regs::{gc_12_0_0 as s, nbif_6_3_1 as nbif, osssys_7_0_0 as oss, Reg, Untyped, Value},
    sdma::v7::{ENGINES, ENGINE_REG_STRIDE, HYP_REG_STRIDE},
};

use super::{dma_packet::DmaPackets, gfx::Gfx, gmc};
use crate::{
    asic::mmio::{Block, InstanceMap, Mmio},
    hw::{
        dma::DmaPacketHal,
        gfx::GfxVersion,
        gmc::HubNames,
        nbio::{nbio_names, NbioNames},
        sdma::{engine_names, ring_names, Engine, EngineNames, RingNames, SdmaRing, SdmaVersion},
    },
};

/// SDMA 7.0.
pub(super) struct Sdma;

/// UTCL2 client id of SDMA0 in the fault status (`gfxhub_client_ids`, `gfxhub_v12_0.c`).
const FIRST_FAULT_CLIENT: u32 = 13;
/// Queue hang timeout in units of 100 ms (`sdma_v7_0_gfx_resume_instance`).
const HANG_COUNT: u32 = 1;
/// UTCL1 redo delay (`sdma_v7_0_gfx_resume_instance`).
const REDO_DELAY: u32 = 9;
/// UTCL1 response mode: non-copy addresses (`sdma_v7_0_gfx_resume_instance`).
const RESP_MODE: u32 = 3;
/// L2 cache policy of reads: no allocation (`CACHE_READ_POLICY_L2__DEFAULT`, `sdma_common.h`).
const READ_POLICY: u32 = 2;
/// L2 cache policy of writes: bypass (`CACHE_WRITE_POLICY_L2__DEFAULT`, `sdma_common.h`).
const WRITE_POLICY: u32 = 3;
/// Delay after each step of a soft reset in us (`sdma_v7_0_soft_reset`).
const RESET_US: i64 = 100;
/// Queue of the kernel ring.
const KERNEL_QUEUE: u32 = 0;

fn start_ring(e: Engine<'_>, ring: &SdmaRing) -> Result {
    let n = Sdma::RING;
    e.set(
        n.RB_CNTL,
        &[
            (n.RB_CNTL__RB_ENABLE, 0),
            (n.RB_CNTL__RB_SIZE, (ring.size / 4).ilog2()),
            (s::SDMA0_QUEUE0_RB_CNTL__RB_PRIV, 1),
        ],
    )?;
    n.poll_wptr(e, ring)?;
    n.place(e, ring)?;

    // The write pointer may only decrease while MINOR_PTR_UPDATE is set.
    e.wr(n.MINOR_PTR_UPDATE, 1)?;
    n.clear(e)?;
    n.ring_by(e, Some(ring.doorbell))?;
    e.wr(n.MINOR_PTR_UPDATE, 0)
}

/// Programs the engine-wide registers.
fn start_engine(e: Engine<'_>) -> Result {
    e.set(
        s::regSDMA0_WATCHDOG_CNTL,
        &[(s::SDMA0_WATCHDOG_CNTL__QUEUE_HANG_COUNT, HANG_COUNT)],
    )?;
    e.set(
        s::regSDMA0_UTCL1_CNTL,
        &[
            (s::SDMA0_UTCL1_CNTL__RESP_MODE, RESP_MODE),
            (s::SDMA0_UTCL1_CNTL__REDO_DELAY, REDO_DELAY),
        ],
    )?;
    e.set(
        s::regSDMA0_UTCL1_PAGE,
        &[
            (s::SDMA0_UTCL1_PAGE__RD_L2_POLICY, READ_POLICY),
            (s::SDMA0_UTCL1_PAGE__WR_L2_POLICY, WRITE_POLICY),
        ],
    )?;
    e.set(
        s::regSDMA0_MCU_CNTL,
        &[(s::SDMA0_MCU_CNTL__HALT, 0), (s::SDMA0_MCU_CNTL__RESET, 0)],
    )
}

/// Resets the whole engine (`sdma_v7_0_soft_reset`).
fn soft_reset(e: Engine<'_>, engine: u32) -> Result {
    e.set(
        s::regSDMA0_MCU_CNTL,
        &[(s::SDMA0_MCU_CNTL__HALT, 1), (s::SDMA0_MCU_CNTL__RESET, 1)],
    )?;
    e.wr(s::regSDMA0_QUEUE0_PREEMPT, 0)?;
    let bit = s::GRBM_SOFT_RESET__SOFT_RESET_SDMA0.mask() << engine;
    for value in [bit, 0] {
        fsleep(Delta::from_micros(RESET_US));
        e.block.wr(s::regGRBM_SOFT_RESET, value)?;
        // The read back posts the write.
        e.block.rd(s::regGRBM_SOFT_RESET)?;
    }
    fsleep(Delta::from_micros(RESET_US));
    Ok(())
}

/// Returns the distance of a register between engines, in dwords.
fn stride(reg: Reg<Untyped>) -> u32 {
    if reg.seg == s::regSDMA0_MCU_CNTL.seg {
        HYP_REG_STRIDE
    } else {
        ENGINE_REG_STRIDE
    }
}

impl SdmaVersion for Sdma {
    const ENGINE: &'static EngineNames = &engine_names!(s, SDMA0_);
    const RING: &'static RingNames = &ring_names!(s, SDMA0_QUEUE0_);
    const BUS: &'static NbioNames = &nbio_names!(nbif);
    const HUB: &'static HubNames = &gmc::GFX.names;
    const PASIDS: Reg<Untyped> = oss::regIH_VMID_0_LUT.untyped();
    const DUMPED: &'static [Reg<Untyped>] = &[
        s::regSDMA0_MCU_CNTL.untyped(),
        s::regSDMA0_CNTL.untyped(),
        s::regSDMA0_STATUS_REG.untyped(),
        s::regSDMA0_QUEUE_STATUS0.untyped(),
        s::regSDMA0_QUEUE0_RB_CNTL.untyped(),
        s::regSDMA0_QUEUE0_RB_BASE.untyped(),
        s::regSDMA0_QUEUE0_RB_BASE_HI.untyped(),
        s::regSDMA0_QUEUE0_RB_RPTR.untyped(),
        s::regSDMA0_QUEUE0_RB_RPTR_HI.untyped(),
        s::regSDMA0_QUEUE0_RB_WPTR.untyped(),
        s::regSDMA0_QUEUE0_RB_WPTR_HI.untyped(),
        s::regSDMA0_QUEUE0_IB_CNTL.untyped(),
        s::regSDMA0_QUEUE0_IB_BASE_LO.untyped(),
        s::regSDMA0_QUEUE0_IB_BASE_HI.untyped(),
        s::regSDMA0_QUEUE0_IB_SIZE.untyped(),
        s::regSDMA0_QUEUE0_IB_OFFSET.untyped(),
        s::regSDMA0_QUEUE0_CONTEXT_STATUS.untyped(),
        s::regSDMA0_QUEUE0_DOORBELL.untyped(),
        s::regSDMA0_QUEUE0_DOORBELL_OFFSET.untyped(),
    ];
    const PACKETS: &'static dyn DmaPacketHal = &DmaPackets;

    fn engine(mmio: &Mmio, engine: u32) -> Result<Engine<'_>> {
        if usize::try_from(engine)? >= ENGINES {
            return Err(EINVAL);
        }
        let core = mmio.block(hwid::GC, 0)?;
        Ok(Engine::among(core, engine, stride))
    }

    fn hub_number(_mmio: &Mmio, _engine: u32) -> Result<u32> {
        Ok(0)
    }

    const INVALIDATION_ENGINES: &'static [u32] = &[0, 1];
    const ACK_IS_LATE: bool = true;

    fn hub(mmio: &Mmio, engine: u32) -> Result<(Block<'_>, u32)> {
        Ok((mmio.block(hwid::GC, 0)?, engine))
    }

    fn start(e: Engine<'_>, ring: &SdmaRing) -> Result {
        let n = Self::RING;
        start_ring(e, ring)?;
        start_engine(e)?;
        e.set(
            n.RB_CNTL,
            &[
                (n.RB_CNTL__RPTR_WRITEBACK_ENABLE, 1),
                (s::SDMA0_QUEUE0_RB_CNTL__WPTR_POLL_ENABLE, 0),
                (s::SDMA0_QUEUE0_RB_CNTL__MCU_WPTR_POLL_ENABLE, 1),
                (n.RB_CNTL__RB_ENABLE, 1),
            ],
        )?;
        e.set(n.IB_CNTL, &[(n.IB_CNTL__IB_ENABLE, 1)])?;
        e.set(Self::ENGINE.CNTL, &[(Self::ENGINE.CNTL__TRAP_ENABLE, 1)])
    }

    fn stopped(e: Engine<'_>) -> Result {
        e.set(s::regSDMA0_MCU_CNTL, &[(s::SDMA0_MCU_CNTL__HALT, 1)])
    }

    fn reset(mmio: &Mmio, engine: u32) -> Result {
        let e = Self::engine(mmio, engine)?;
        // Reset the queue alone first; other queues of the engine continue.
        let ring = 1u32 << KERNEL_QUEUE;
        let request = s::regSDMA0_QUEUE_RESET_REQ;
        // As in the C driver, in RLC safe mode (`mes_v12_0_reset_queue_mmio`).
        let _safe_mode = mmio.lock_safe_mode();
        let done = Gfx::NAMES.in_safe_mode(e.block, || {
            e.wr(request, ring)?;
            e.block
                .poll(request, e.index(request), |v| v.raw() & ring == 0)
        });
        match done {
            Ok(_) => Ok(()),
            Err(_) => soft_reset(e, engine),
        }
    }

    fn fault_engines(_map: &InstanceMap, status: u32, _node: u32) -> u32 {
        let client = s::GCVM_L2_PROTECTION_FAULT_STATUS_LO32__CID.get(Value::new(status));
        let all = (1 << ENGINES) - 1;
        let named = client.checked_sub(FIRST_FAULT_CLIENT);
        match named.and_then(|n| 1u32.checked_shl(n)) {
            Some(engine) if engine & all != 0 => engine,
            _ => all,
        }
    }
}
