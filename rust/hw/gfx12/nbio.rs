// SPDX-License-Identifier: GPL-2.0

//! The bus interface (NBIF 6.3.1) and the host data path (HDP 7.0.0).

use kernel::prelude::*;
use rkfd_abi::{discovery::hwid, mmio as abi, regs::nbif_6_3_1 as n};

use crate::{
    gpu::mmio::Mmio,
    hw::{Caps, NbioHal},
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
fn port(id: u32, address: u32, first: u32, size: u32) -> u32 {
    n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_ENABLE.put(1)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWID.put(id)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_OFFSET.put(first)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_SIZE.put(size)
        | n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWADDR_31_28_VALUE.put(address)
}

impl NbioHal for Nbio {
    fn start(&self, mmio: &Mmio, remap: u32) -> Result {
        let b = mmio.block(hwid::NBIF, 0)?;
        b.wr(
            n::regBIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL,
            remap + abi::REMAP_HDP_MEM_FLUSH_CNTL,
        )?;
        b.wr(
            n::regBIF_BX0_REMAP_HDP_REG_FLUSH_CNTL,
            remap + abi::REMAP_HDP_REG_FLUSH_CNTL,
        )?;
        b.set(
            n::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN,
            &[(
                n::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN__BIF_DOORBELL_APER_EN,
                1,
            )],
        )?;
        b.wr(
            n::regBIF_BX0_BIF_FB_EN,
            n::BIF_BX0_BIF_FB_EN__FB_READ_EN.put(1) | n::BIF_BX0_BIF_FB_EN__FB_WRITE_EN.put(1),
        )
    }

    fn rev_id(&self, mmio: &Mmio) -> Result<u32> {
        let strap = mmio
            .block(hwid::NBIF, 0)?
            .rd(n::regRCC_STRAP0_RCC_DEV0_EPF0_STRAP0)?;
        Ok(n::RCC_STRAP0_RCC_DEV0_EPF0_STRAP0__STRAP_ATI_REV_ID_DEV0_F0.get(strap))
    }

    fn route_doorbells(&self, mmio: &Mmio, caps: &Caps) -> Result {
        let b = mmio.block(hwid::NBIF, 0)?;
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

    fn stop(&self, mmio: &Mmio) -> Result {
        mmio.block(hwid::NBIF, 0)?.set(
            n::regRCC_DEV0_EPF0_RCC_DOORBELL_APER_EN,
            &[(
                n::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN__BIF_DOORBELL_APER_EN,
                0,
            )],
        )
    }

    fn hdp_flush(&self, mmio: &Mmio, remap: u32) -> Result {
        let at = remap + abi::REMAP_HDP_MEM_FLUSH_CNTL;
        mmio.write_byte_offset(at, 0)?;
        // Reading back waits for the flush.
        mmio.read_byte_offset(at)?;
        Ok(())
    }
}
