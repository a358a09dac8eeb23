// SPDX-License-Identifier: GPL-2.0

//! The bus interface (NBIF 6.3.1) and the host data path (HDP 7.0.0).

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    regs::{name, nbif_6_3_1 as n, Value},
};

use crate::{
    asic::{
        caps::Caps,
        mmio::{Block, Mmio},
    },
    hw::nbio::{nbio_names, NbioNames, NbioVersion},
};

/// See the file.
pub(super) struct Nbio;

/// Doorbells of the command processor, as the driver of the vendor enables them.
const CP_PORT_0: u32 = 0x3000_0007;
const CP_PORT_3: u32 = 0x3000_000d;
/// Doorbells (32-bit words) of the interrupt ring.
const IH_RANGE: u32 = 2;
/// Number of the interrupt ring's port on the other side.
const IH_PORT: u32 = 0;
/// Doorbells (32-bit words) of an SDMA engine.
const SDMA_RANGE: u32 = 20;
/// Number of the DMA engines' port on the other side.
const SDMA_PORT: u32 = 0xe;
/// Address bits 31:28 by which it is told.
const SDMA_ADDRESS: u32 = 3;

/// A port through which doorbells go; all have the layout of the first.
fn port(
    id: u32,
    address: u32,
    first: u32,
    size: u32,
) -> Value<name::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL> {
    n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_ENABLE.put(1)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWID.put(id)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_OFFSET.put(first)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_SIZE.put(size)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWADDR_31_28_VALUE.put(address)
}

impl NbioVersion for Nbio {
    const NAMES: &'static NbioNames = &nbio_names!(n);

    fn route(mmio: &Mmio, b: Block<'_>, caps: &Caps) -> Result {
        b.wr(n::regGDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL, CP_PORT_0)?;
        b.wr(n::regGDC_S2A0_S2A_DOORBELL_ENTRY_3_CTRL, CP_PORT_3)?;
        b.wr(
            n::regGDC_S2A0_S2A_DOORBELL_ENTRY_1_CTRL,
            port(IH_PORT, 0, caps.ih_doorbell * 2, IH_RANGE),
        )?;
        // One range for all engines.
        let engines = mmio.blocks(hwid::SDMA0).count() + mmio.blocks(hwid::SDMA1).count();
        b.wr(
            n::regGDC_S2A0_S2A_DOORBELL_ENTRY_2_CTRL,
            port(
                SDMA_PORT,
                SDMA_ADDRESS,
                caps.sdma_doorbell * 2,
                SDMA_RANGE * engines as u32,
            ),
        )
    }
}
