// SPDX-License-Identifier: GPL-2.0

//! NBIF 6.3.1: doorbell routing; the board's ROM.

use core::ops::Range;

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    regs::{name, nbif_6_3_1 as n, smuio_14_0_2 as smuio, Reg, Value},
};

use crate::{
    asic::{
        caps::Caps,
        mmio::{Block, Instance, Mmio, Window},
    },
    hw::nbio::{nbio_names, NbioNames, NbioVersion},
};

/// NBIF 6.3.1.
pub(super) struct Nbio;

/// Doorbell entries of the CP (`nbif_v6_3_1_gc_doorbell_init`).
const CP_PORT_0: u32 = 0x3000_0007;
const CP_PORT_3: u32 = 0x3000_000d;
/// Doorbell range of the IH ring, in dwords (`nbif_v6_3_1_ih_doorbell_range`).
const IH_RANGE: u32 = 2;
/// AWID of the IH doorbell port (`nbif_v6_3_1_ih_doorbell_range`).
const IH_PORT: u32 = 0;
/// Doorbell range of an SDMA engine, in dwords (`adev->doorbell_index.sdma_doorbell_range`,
/// `soc24.c`).
const SDMA_RANGE: u32 = 20;
/// AWID of the SDMA doorbell port (`nbif_v6_3_1_sdma_doorbell_range`).
const SDMA_PORT: u32 = 0xe;
/// Address bits 31:28 of that port (`nbif_v6_3_1_sdma_doorbell_range`).
const SDMA_ADDRESS: u32 = 3;

/// Unit of the offset of the VBIOS in the ROM, in bits of a byte address.
const ROM_OFFSET_SHIFT: u32 = 17;

/// Changes the control word of a doorbell port; all ports share the layout of port 0.
fn set_port<R>(b: Block<'_>, reg: Reg<R>, id: u32, address: u32, range: Range<u32>) -> Result {
    let before = Value::<name::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL>::new(b.rd(reg)?.raw());
    let fields = before.with(&[
        (
            n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_ENABLE,
            1,
        ),
        (
            n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWID,
            id,
        ),
        (
            n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_OFFSET,
            range.start,
        ),
        (
            n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_RANGE_SIZE,
            range.end - range.start,
        ),
        (
            n::GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL__S2A_DOORBELL_PORT0_AWADDR_31_28_VALUE,
            address,
        ),
    ]);
    b.wr(reg, fields.raw())
}

impl NbioVersion for Nbio {
    const NAMES: &'static NbioNames = &nbio_names!(n);

    /// `nbif_v6_3_1_get_pcie_index_offset`.
    fn window(nbif: &Instance) -> Result<Window> {
        Ok(Window {
            index: nbif.address(n::regBIF_BX_PF0_RSMU_INDEX, 0)?,
            index_high: None,
            data: nbif.address(n::regBIF_BX_PF0_RSMU_DATA, 0)?,
        })
    }

    /// The VBIOS is behind firmware of the PSP, and the index advances with each dword
    /// (`amdgpu_soc15_read_bios_from_rom`, `nbif_v6_3_1_get_rom_offset`).
    fn read_rom(mmio: &Mmio, b: Block<'_>, out: &mut [u8]) -> Result<bool> {
        let offset = b.rd(n::regREGS_ROM_OFFSET_CTRL)?;
        let start = n::REGS_ROM_OFFSET_CTRL__ROM_OFFSET.get(offset) << ROM_OFFSET_SHIFT;
        let b = mmio.block(hwid::SMUIO, 0)?;
        b.wr(smuio::regROM_INDEX, start)?;
        for bytes in out.chunks_mut(size_of::<u32>()) {
            let dword = b.rd(smuio::regROM_DATA)?.raw().to_le_bytes();
            bytes.copy_from_slice(&dword[..bytes.len()]);
        }
        Ok(true)
    }

    fn init(_mmio: &Mmio, b: Block<'_>) -> Result {
        // Function 2 is reset when it leaves D3 (`nbif_v6_3_1_init_registers`).
        b.set(
            n::regRCC_DEV0_EPF2_STRAP2,
            &[(n::RCC_DEV0_EPF2_STRAP2__STRAP_NO_SOFT_RESET_DEV0_F2, 0)],
        )
    }

    fn route(mmio: &Mmio, b: Block<'_>, caps: &Caps) -> Result {
        b.wr(n::regGDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL, CP_PORT_0)?;
        b.wr(n::regGDC_S2A0_S2A_DOORBELL_ENTRY_3_CTRL, CP_PORT_3)?;
        let ih = caps.ih_doorbell * 2;
        set_port(
            b,
            n::regGDC_S2A0_S2A_DOORBELL_ENTRY_1_CTRL,
            IH_PORT,
            0,
            ih..ih + IH_RANGE,
        )?;
        // One range for all engines.
        let engines = mmio.blocks(hwid::SDMA0).count() + mmio.blocks(hwid::SDMA1).count();
        let sdma = caps.sdma_doorbell * 2;
        set_port(
            b,
            n::regGDC_S2A0_S2A_DOORBELL_ENTRY_2_CTRL,
            SDMA_PORT,
            SDMA_ADDRESS,
            sdma..sdma + SDMA_RANGE * u32::try_from(engines)?,
        )
    }
}
