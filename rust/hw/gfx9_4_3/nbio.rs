// SPDX-License-Identifier: GPL-2.0

//! NBIO 7.9.0: doorbell fences and routing, BACO; the form of the board.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    regs::{name, nbio_7_9_0 as n, smuio_13_0_3 as smuio, Reg},
};

use super::sdma;
use crate::{
    asic::{
        caps::Caps,
        mmio::{Block, Instance, Mmio, Window},
        partition::{NpsMode, NpsModes},
    },
    hw::nbio::{nbio_names, NbioNames, NbioVersion},
};

/// NBIO 7.9.0.
pub(super) struct Nbio;

/// Doorbell range of the IH rings, in dwords (`nbio_v7_9_ih_doorbell_range`).
const IH_RANGE: u32 = 8;
/// Doorbell range of an SDMA engine, in dwords (`aqua_vanjaram_doorbell_index_init`).
const SDMA_RANGE: u32 = 20;

/// `CHANGE_STATUE` while a switch of the memory partition mode is requested
/// (`nbio_v7_9_is_nps_switch_requested`).
const SWITCH_REQUESTED: u32 = 8;

/// Range register, port register, AWID and address bits 31:28 of an SDMA engine's doorbells.
type Engine = (
    Reg<name::DOORBELL0_CTRL_ENTRY_0>,
    Reg<name::S2A_DOORBELL_ENTRY_1_CTRL>,
    u32,
    u32,
);

/// Engines of AID 0 (`nbio_v7_9_sdma_doorbell_range`). The range registers of AID n are n times the
/// length of this list further on, the port registers are at the same addresses of its NBIO.
const ENGINES: [Engine; sdma::PER_AID as usize] = [
    (
        n::regDOORBELL0_CTRL_ENTRY_1,
        n::regS2A_DOORBELL_ENTRY_1_CTRL,
        0xe,
        0x1,
    ),
    (
        n::regDOORBELL0_CTRL_ENTRY_2,
        n::regS2A_DOORBELL_ENTRY_2_CTRL,
        0x8,
        0x2,
    ),
    (
        n::regDOORBELL0_CTRL_ENTRY_3,
        n::regS2A_DOORBELL_ENTRY_5_CTRL,
        0x9,
        0x8,
    ),
    (
        n::regDOORBELL0_CTRL_ENTRY_4,
        n::regS2A_DOORBELL_ENTRY_6_CTRL,
        0xa,
        0x9,
    ),
];

/// Returns logical number, AID and number on the AID of each SDMA engine.
fn engines(mmio: &Mmio) -> impl Iterator<Item = (u32, u8, usize)> + '_ {
    (0u8..).map_while(|logical| {
        let physical = mmio.instances().physical(hwid::SDMA0, logical).ok()?;
        let (aid, number) = (physical / sdma::PER_AID, physical % sdma::PER_AID);
        Some((u32::from(logical), aid, usize::from(number)))
    })
}

/// Returns the mask of the AIDs of the card: AID 0 and those with a pair of SDMA engines or two
/// (`aqua_vanjaram_init_soc_config`).
fn aids(mmio: &Mmio) -> u32 {
    let mut found = [0u8; 4];
    for (_, aid, number) in engines(mmio) {
        if let Some(engines) = found.get_mut(usize::from(aid)) {
            *engines |= 1 << number;
        }
    }
    (0u8..)
        .zip(found)
        .filter(|(_, engines)| matches!(engines, 0b0011 | 0b1100 | 0b1111))
        .fold(1, |mask, (aid, _)| mask | 1 << aid)
}

impl NbioVersion for Nbio {
    const NAMES: &'static NbioNames = &nbio_names!(n);

    /// `nbio_v7_9_get_pcie_index_offset`.
    fn window(nbif: &Instance) -> Result<Window> {
        Ok(Window {
            index: nbif.address(n::regBIF_BX0_PCIE_INDEX2, 0)?,
            index_high: Some(nbif.address(n::regBIF_BX0_PCIE_INDEX2_HI, 0)?),
            data: nbif.address(n::regBIF_BX0_PCIE_DATA2, 0)?,
        })
    }

    fn init(mmio: &Mmio, b: Block<'_>) -> Result {
        let xccs = mmio.instances().xccs()?;
        let xccs = xccs.iter().fold(0u32, |mask, xcc| mask | 1 << xcc.physical);
        b.wr(n::regXCC_DOORBELL_FENCE, 0xff & !xccs)?;
        b.wr(n::regBIFC_GFX_INT_MONITOR_MASK, 0x7ff)?;
        let slave = n::XCC_DOORBELL_FENCE__SHUB_SLV_MODE.put(1);
        let aids = aids(mmio);
        for aid in (1u8..4).filter(|aid| aids & 1 << aid != 0) {
            let own = mmio.block(hwid::NBIF, aid)?.on_aid(aid);
            own.wr(n::regXCC_DOORBELL_FENCE, slave)?;
        }
        let baco = b.rd(n::regBIF_BX0_BACO_CNTL)?;
        let modes = [
            n::BIF_BX0_BACO_CNTL__BACO_EN,
            n::BIF_BX0_BACO_CNTL__BACO_DUMMY_EN,
        ];
        if modes.iter().any(|mode| mode.is_set(baco)) {
            b.set(n::regBIF_BX0_BACO_CNTL, &modes.map(|mode| (mode, 0)))?;
        }
        b.wr(n::regBIFC_DOORBELL_ACCESS_EN_PF, 0xfffff)
    }

    /// Two bits of the field are used (`smuio_v13_0_3_get_pkg_type`).
    fn board(mmio: &Mmio) -> Result<&'static str> {
        let config = mmio.block(hwid::SMUIO, 0)?.rd(smuio::regSMUIO_MCM_CONFIG)?;
        Ok(match smuio::SMUIO_MCM_CONFIG__PKG_TYPE.get(config) & 3 {
            0 => "cem",
            1 => "oam",
            _ => "unknown",
        })
    }

    /// Mode n is bit n - 1 (`nbio_v7_9_get_memory_partition_mode`).
    fn nps_modes(b: Block<'_>) -> Result<Option<NpsModes>> {
        let status = b.rd(n::regBIF_BX_PF0_PARTITION_MEM_STATUS)?;
        let mode = n::BIF_BX_PF0_PARTITION_MEM_STATUS__NPS_MODE.get(status);
        let change = n::BIF_BX_PF0_PARTITION_MEM_STATUS__CHANGE_STATUE.get(status);
        Ok(Some(NpsModes {
            current: match mode {
                0 => None,
                bits => NpsMode::new(bits.trailing_zeros() + 1),
            },
            capability: b.rd(n::regBIF_BX_PF0_PARTITION_MEM_CAP)?.raw(),
            requested: change == SWITCH_REQUESTED,
        }))
    }

    fn route(mmio: &Mmio, b: Block<'_>, caps: &Caps) -> Result {
        let range = |first: u32, size| {
            n::DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_OFFSET_ENTRY.put(first)
                | n::DOORBELL0_CTRL_ENTRY_0__BIF_DOORBELL0_RANGE_SIZE_ENTRY.put(size)
        };
        let port = |id, high, size| {
            n::S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_ENABLE.put(1)
                | n::S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_AWID.put(id)
                | n::S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_RANGE_OFFSET.put(id)
                | n::S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_RANGE_SIZE.put(size)
                | n::S2A_DOORBELL_ENTRY_1_CTRL__S2A_DOORBELL_PORT1_AWADDR_31_28_VALUE.put(high)
        };
        b.wr(
            n::regDOORBELL0_CTRL_ENTRY_0,
            range(caps.ih_doorbell * 2, IH_RANGE),
        )?;
        b.wr(n::regS2A_DOORBELL_ENTRY_3_CTRL, port(0, 0, IH_RANGE))?;

        // AID 0 has the ranges of all engines, each AID the ports of its own.
        for (logical, aid, number) in engines(mmio) {
            let (entry, ctrl, id, high) = ENGINES[number];
            let first = (caps.sdma_doorbell + logical * caps.sdma_doorbell_stride) * 2;
            let per_aid = ENGINES.len() as u32;
            b.wr_at(entry, u32::from(aid) * per_aid, range(first, SDMA_RANGE))?;
            let own = mmio.block(hwid::NBIF, aid)?.on_aid(aid);
            own.wr(ctrl, port(id, high, SDMA_RANGE))?;
        }
        Ok(())
    }
}
