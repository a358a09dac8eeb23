// SPDX-License-Identifier: GPL-2.0

//! SDMA 4.4.2: the kernel ring of each engine, and the registers of other blocks that its packets
//! write.
//!
//! Firmware is loaded before. An engine uses the MMHUB of its AID, and an invalidation engine there
//! that neither the firmware nor the CPU uses.

use kernel::{
    io::poll::read_poll_timeout,
    prelude::*,
    time::{delay::fsleep, Delta},
};
use rkfd_abi::{
    discovery::hwid,
    regs::{
        mmhub_1_8_0 as mm, nbio_7_9_0 as nbio, osssys_4_4_2 as oss, sdma_4_4_2 as s, Reg, Untyped,
        Value,
    },
};

use super::{gmc, smu};
use crate::{
    asic::mmio::{Block, InstanceMap, Mmio, POLL_TIMEOUT_US},
    hw::{
        dma::DmaPacketHal,
        gmc::HubNames,
        nbio::{nbio_names, NbioNames},
        sdma::{engine_names, ring_names, Engine, EngineNames, RingNames, SdmaRing, SdmaVersion},
    },
};

/// SDMA 4.4.2.
pub(super) struct Sdma;

/// SDMA 4.4.2 packets, the defaults of [`DmaPacketHal`].
struct DmaPackets;

impl DmaPacketHal for DmaPackets {}

/// SDMA engines of an AID (`adev->sdma.num_inst_per_aid`).
pub(super) const PER_AID: u8 = 4;
/// IH nodes of an AID.
const NODES_PER_AID: u32 = 4;
/// UTCL2 client id of an AID's first engine in the fault status.
const FIRST_FAULT_CLIENT: u32 = 256;
/// NUM_BANKS of SDMA_GB_ADDR_CONFIG (`sdma_v4_4_2_inst_init_golden_registers`).
const NUM_BANKS: u32 = 4;
/// SDMA_UTCL1_TIMEOUT: longer than the default, to limit the rate of page faults
/// (`sdma_v4_4_2_inst_ctx_switch_enable`).
const UTCL1_TIMEOUT: u32 = 0x0080_0080;
/// Time slices in units of 1024 cycles (`amdgpu_sdma_phase_quantum`).
const PHASE_QUANTUM: u32 = 32;
/// Minimum time of an engine reset in us (`sdma_v4_4_2_soft_reset_engine`).
const RESET_US: i64 = 50;

/// Returns the logical number of engine `index` of the AID with interrupt node `node`; `None` when
/// there is no such engine (`sdma_v4_4_2_process_trap_irq`, `amdgpu/sdma_v4_4_2.c`).
pub(super) fn of_node(map: &InstanceMap, node: u32, index: u32) -> Option<u32> {
    let physical = node / NODES_PER_AID * u32::from(PER_AID) + index;
    let physical = u8::try_from(physical).ok()?;
    map.logical(hwid::SDMA0, physical).ok().map(u32::from)
}

/// Programs the engine-wide registers.
fn start_engine(e: Engine<'_>) -> Result {
    for reg in [s::regSDMA_GB_ADDR_CONFIG, s::regSDMA_GB_ADDR_CONFIG_READ] {
        e.set(
            reg,
            &[
                (s::SDMA_GB_ADDR_CONFIG__NUM_BANKS, NUM_BANKS),
                (s::SDMA_GB_ADDR_CONFIG__PIPE_INTERLEAVE_SIZE, 0),
            ],
        )?;
    }
    // User queues are time-sliced with the kernel ring.
    for reg in [
        s::regSDMA_PHASE0_QUANTUM,
        s::regSDMA_PHASE1_QUANTUM,
        s::regSDMA_PHASE2_QUANTUM,
    ] {
        e.wr(reg, s::SDMA_PHASE0_QUANTUM__VALUE.put(PHASE_QUANTUM))?;
    }
    e.set(s::regSDMA_CNTL, &[(s::SDMA_CNTL__AUTO_CTXSW_ENABLE, 1)])?;
    e.wr(s::regSDMA_UTCL1_TIMEOUT, UTCL1_TIMEOUT)?;
    e.wr(s::regSDMA_SEM_WAIT_FAIL_TIMER_CNTL, 0)
}

fn start_ring(e: Engine<'_>, ring: &SdmaRing) -> Result {
    let n = Sdma::RING;
    e.set(
        n.RB_CNTL,
        &[
            (n.RB_CNTL__RB_SIZE, (ring.size / 4).ilog2()),
            (n.RB_CNTL__RPTR_WRITEBACK_ENABLE, 1),
        ],
    )?;
    n.place(e, ring)?;

    // The write pointer may only decrease while MINOR_PTR_UPDATE is set.
    e.wr(n.MINOR_PTR_UPDATE, 1)?;
    n.clear(e)?;
    n.ring_by(e, Some(ring.doorbell))?;
    e.wr(n.MINOR_PTR_UPDATE, 0)?;

    n.poll_wptr(e, ring)?;
    e.set(
        s::regSDMA_GFX_RB_WPTR_POLL_CNTL,
        &[(s::SDMA_GFX_RB_WPTR_POLL_CNTL__F32_POLL_ENABLE, 0)],
    )?;
    e.set(n.RB_CNTL, &[(n.RB_CNTL__RB_ENABLE, 1)])?;
    e.set(n.IB_CNTL, &[(n.IB_CNTL__IB_ENABLE, 1)])
}

/// Waits until the firmware of an engine runs. `ETIMEDOUT` when it does not.
fn wait_for_firmware(e: Engine<'_>) -> Result {
    read_poll_timeout(
        || e.rd(s::regSDMA_F32_CNTL),
        |control| !s::SDMA_F32_CNTL__HALT.is_set(*control),
        Delta::from_micros(1),
        Delta::from_micros(POLL_TIMEOUT_US),
    )?;
    Ok(())
}

/// Returns the physical number of an engine, from which hub and invalidation engine follow.
fn physical(mmio: &Mmio, engine: u32) -> Result<u8> {
    mmio.instances()
        .physical(hwid::SDMA0, u8::try_from(engine)?)
}

impl SdmaVersion for Sdma {
    const ENGINE: &'static EngineNames = &engine_names!(s, SDMA_);
    const RING: &'static RingNames = &ring_names!(s, SDMA_GFX_);
    const BUS: &'static NbioNames = &nbio_names!(nbio);
    const HUB: &'static HubNames = &gmc::MEM.names;
    const PASIDS: Reg<Untyped> = oss::regIH_VMID_0_LUT_MM.untyped();
    const DUMPED: &'static [Reg<Untyped>] = &[
        s::regSDMA_F32_CNTL.untyped(),
        s::regSDMA_CNTL.untyped(),
        s::regSDMA_STATUS_REG.untyped(),
        s::regSDMA_STATUS1_REG.untyped(),
        s::regSDMA_GFX_RB_CNTL.untyped(),
        s::regSDMA_GFX_RB_BASE.untyped(),
        s::regSDMA_GFX_RB_BASE_HI.untyped(),
        s::regSDMA_GFX_RB_RPTR.untyped(),
        s::regSDMA_GFX_RB_RPTR_HI.untyped(),
        s::regSDMA_GFX_RB_WPTR.untyped(),
        s::regSDMA_GFX_RB_WPTR_HI.untyped(),
        s::regSDMA_GFX_IB_CNTL.untyped(),
        s::regSDMA_GFX_IB_BASE_LO.untyped(),
        s::regSDMA_GFX_IB_BASE_HI.untyped(),
        s::regSDMA_GFX_IB_SIZE.untyped(),
        s::regSDMA_GFX_IB_OFFSET.untyped(),
        s::regSDMA_GFX_CONTEXT_STATUS.untyped(),
        s::regSDMA_GFX_DOORBELL.untyped(),
        s::regSDMA_GFX_DOORBELL_OFFSET.untyped(),
    ];
    const PACKETS: &'static dyn DmaPacketHal = &DmaPackets;

    fn engine(mmio: &Mmio, engine: u32) -> Result<Engine<'_>> {
        let block = mmio.block(hwid::SDMA0, u8::try_from(engine)?)?;
        Ok(Engine::alone(block))
    }

    fn hub_number(mmio: &Mmio, engine: u32) -> Result<u32> {
        Ok(u32::from(physical(mmio, engine)? / PER_AID))
    }

    const INVALIDATION_ENGINES: &'static [u32] = &[0, 1, 4, 5];
    const ACK_IS_LATE: bool = false;

    fn hub(mmio: &Mmio, engine: u32) -> Result<(Block<'_>, u32)> {
        let engine = physical(mmio, engine)?;
        let hub = mmio.block(hwid::MMHUB, engine / PER_AID)?;
        Ok((hub, u32::from(engine % PER_AID)))
    }

    fn start(e: Engine<'_>, ring: &SdmaRing) -> Result {
        // The PSP starts it when it has loaded it.
        wait_for_firmware(e).map_err(|e| if e == ETIMEDOUT { EIO } else { e })?;
        start_engine(e)?;
        start_ring(e, ring)?;
        e.set(
            Self::ENGINE.CNTL,
            &[
                (s::SDMA_CNTL__UTC_L1_ENABLE, 1),
                (Self::ENGINE.CNTL__TRAP_ENABLE, 1),
            ],
        )
    }

    fn reset(mmio: &Mmio, engine: u32) -> Result {
        smu::reset_sdma(mmio, engine)?;
        fsleep(Delta::from_micros(RESET_US));
        wait_for_firmware(Self::engine(mmio, engine)?)
    }

    fn fault_engines(map: &InstanceMap, status: u32, node: u32) -> u32 {
        let client = mm::VM_L2_PROTECTION_FAULT_STATUS__CID.get(Value::new(status));
        let of_aid = 0..u32::from(PER_AID);
        let named = client.checked_sub(FIRST_FAULT_CLIENT);
        let candidates = match named.filter(|n| of_aid.contains(n)) {
            Some(n) => n..n + 1,
            None => of_aid,
        };
        candidates
            .filter_map(|n| of_node(map, node, n))
            .fold(0, |mask, engine| mask | 1 << engine)
    }
}
