// SPDX-License-Identifier: GPL-2.0

//! Bus interface (NBIO, NBIF): HAL trait and code shared by all versions.

use kernel::{prelude::*, sync::barrier};
use rkfd_abi::{
    bits::{hi32, lo32},
    discovery::hwid,
    mmio as abi,
    regs::name,
};

use super::names::names;
use crate::asic::{
    caps::Caps,
    mmio::{Block, Instance, Mmio, Window},
    partition::NpsModes,
};

/// Bus interface. Register accesses return `ENODEV` after unbind.
pub(crate) trait NbioHal: Sync {
    /// Returns the window of registers beyond the BAR, with the instance `nbif` of the bus
    /// interface. Errors as [`Block::address`].
    fn window(&self, nbif: &Instance) -> Result<Window>;

    /// Enables doorbells and the HDP flush remap; `remap` is the byte offset of the remapped HDP
    /// flush registers in the register BAR.
    fn start(&self, mmio: &Mmio, remap: u32) -> Result;

    /// Returns the memory partition modes; `None` for a card without partitions.
    fn nps_modes(&self, mmio: &Mmio) -> Result<Option<NpsModes>>;

    /// Reads the form of the board.
    fn board(&self, mmio: &Mmio) -> Result<&'static str>;

    /// Reads the vendor of the VRAM, which the VBIOS has left; 0 if it is unknown.
    fn vram_vendor(&self, mmio: &Mmio) -> Result<u32>;

    /// Reads the start of the board's ROM. Returns false if it is not behind registers.
    fn read_rom(&self, mmio: &Mmio, out: &mut [u8]) -> Result<bool>;

    /// Reads the silicon revision.
    fn rev_id(&self, mmio: &Mmio) -> Result<u32>;

    /// Routes doorbells of the IH ring and the SDMA engines.
    fn route_doorbells(&self, mmio: &Mmio, caps: &Caps) -> Result;

    /// Routes writes of the GPU to the doorbell BAR, at bus address `bar`, back to the doorbells.
    fn open_selfring(&self, mmio: &Mmio, bar: u64) -> Result;

    /// Disables the doorbell aperture and the self-ring aperture.
    fn stop(&self, mmio: &Mmio) -> Result;

    /// Flushes HDP: CPU writes to VRAM become visible to the GPU.
    fn hdp_flush(&self, mmio: &Mmio, remap: u32) -> Result;
}

names! { $
    /// Registers and fields of all versions.
    struct NbioNames, nbio_names of name {
        regs {
            BIF_BX0_BIOS_SCRATCH_4,
            BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL,
            BIF_BX0_REMAP_HDP_REG_FLUSH_CNTL,
            RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN { BIF_DOORBELL_APER_EN, },
            RCC_STRAP0_RCC_DEV0_EPF0_STRAP0 { STRAP_ATI_REV_ID_DEV0_F0, },
            BIF_BX0_INTERRUPT_CNTL { IH_DUMMY_RD_OVERRIDE, IH_REQ_NONSNOOP_EN, },
            BIF_BX0_INTERRUPT_CNTL2,
            BIF_BX_PF0_GPU_HDP_FLUSH_REQ { SDMA0, },
            BIF_BX_PF0_GPU_HDP_FLUSH_DONE,
            BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_LOW,
            BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_HIGH,
            BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL {
                DOORBELL_SELFRING_GPA_APER_EN, DOORBELL_SELFRING_GPA_APER_MODE,
            },
        }
    }
}

/// A version of the bus interface.
pub(super) trait NbioVersion: Sync {
    /// Its registers.
    const NAMES: &'static NbioNames;

    /// See [`NbioHal::window`].
    fn window(nbif: &Instance) -> Result<Window>;

    /// Runs before doorbells are enabled.
    fn init(mmio: &Mmio, b: Block<'_>) -> Result {
        let _ = (mmio, b);
        Ok(())
    }

    /// See [`NbioHal::nps_modes`].
    fn nps_modes(b: Block<'_>) -> Result<Option<NpsModes>> {
        let _ = b;
        Ok(None)
    }

    /// See [`NbioHal::board`].
    fn board(mmio: &Mmio) -> Result<&'static str> {
        let _ = mmio;
        Ok("cem")
    }

    /// See [`NbioHal::read_rom`].
    fn read_rom(mmio: &Mmio, b: Block<'_>, out: &mut [u8]) -> Result<bool> {
        let _ = (mmio, b, out);
        Ok(false)
    }

    /// See [`NbioHal::route_doorbells`].
    fn route(mmio: &Mmio, b: Block<'_>, caps: &Caps) -> Result;
}

/// Returns the NBIF registers.
pub(super) fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::NBIF, 0)
}

impl NbioNames {
    /// Sets up the dummy reads that order data before interrupts (`nbio_v7_9_ih_control`).
    pub(super) fn start_interrupts(&self, mmio: &Mmio, dummy_dma: u64) -> Result {
        let b = block(mmio)?;
        b.wr(self.BIF_BX0_INTERRUPT_CNTL2, lo32(dummy_dma >> 8))?;
        b.set(
            self.BIF_BX0_INTERRUPT_CNTL,
            &[
                (self.BIF_BX0_INTERRUPT_CNTL__IH_DUMMY_RD_OVERRIDE, 0),
                (self.BIF_BX0_INTERRUPT_CNTL__IH_REQ_NONSNOOP_EN, 0),
            ],
        )
    }

    fn open_doorbells(&self, b: Block<'_>, open: bool) -> Result {
        let bit = self.RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN__BIF_DOORBELL_APER_EN;
        b.set(
            self.RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN,
            &[(bit, open.into())],
        )
    }
}

impl<T: NbioVersion> NbioHal for T {
    fn window(&self, nbif: &Instance) -> Result<Window> {
        T::window(nbif)
    }

    fn start(&self, mmio: &Mmio, remap: u32) -> Result {
        let (b, n) = (block(mmio)?, T::NAMES);
        T::init(mmio, b)?;
        b.wr(
            n.BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL,
            remap + abi::REMAP_HDP_MEM_FLUSH_CNTL,
        )?;
        b.wr(
            n.BIF_BX0_REMAP_HDP_REG_FLUSH_CNTL,
            remap + abi::REMAP_HDP_REG_FLUSH_CNTL,
        )?;
        n.open_doorbells(b, true)
    }

    fn nps_modes(&self, mmio: &Mmio) -> Result<Option<NpsModes>> {
        T::nps_modes(block(mmio)?)
    }

    fn board(&self, mmio: &Mmio) -> Result<&'static str> {
        T::board(mmio)
    }

    fn vram_vendor(&self, mmio: &Mmio) -> Result<u32> {
        /// Bits of the vendor (`amdgpu_atomfirmware_get_umc_info`, `gmc_v9_0_init_vram_info`).
        const VENDOR: u32 = 0xf;
        let scratch = block(mmio)?.rd(T::NAMES.BIF_BX0_BIOS_SCRATCH_4)?;
        Ok(scratch.raw() & VENDOR)
    }

    fn read_rom(&self, mmio: &Mmio, out: &mut [u8]) -> Result<bool> {
        T::read_rom(mmio, block(mmio)?, out)
    }

    fn rev_id(&self, mmio: &Mmio) -> Result<u32> {
        let n = T::NAMES;
        let strap = block(mmio)?.rd(n.RCC_STRAP0_RCC_DEV0_EPF0_STRAP0)?;
        Ok(n.RCC_STRAP0_RCC_DEV0_EPF0_STRAP0__STRAP_ATI_REV_ID_DEV0_F0
            .get(strap))
    }

    fn route_doorbells(&self, mmio: &Mmio, caps: &Caps) -> Result {
        T::route(mmio, block(mmio)?, caps)
    }

    /// Writes the registers in the C driver's order and with its size 0
    /// (`nbio_v7_9_enable_doorbell_selfring_aperture`).
    fn open_selfring(&self, mmio: &Mmio, bar: u64) -> Result {
        let (b, n) = (block(mmio)?, T::NAMES);
        b.wr(n.BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_LOW, lo32(bar))?;
        b.wr(n.BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_BASE_HIGH, hi32(bar))?;
        b.wr(
            n.BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL,
            n.BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL__DOORBELL_SELFRING_GPA_APER_EN
                .put(1)
                | n.BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL__DOORBELL_SELFRING_GPA_APER_MODE
                    .put(1),
        )
    }

    fn stop(&self, mmio: &Mmio) -> Result {
        let (b, n) = (block(mmio)?, T::NAMES);
        n.open_doorbells(b, false)?;
        b.wr(n.BIF_BX_PF0_DOORBELL_SELFRING_GPA_APER_CNTL, 0)
    }

    fn hdp_flush(&self, mmio: &Mmio, remap: u32) -> Result {
        // Stores to the BAR may be write-combined.
        barrier::mb(barrier::Full);
        // A read waits for the flush. Of another register, as in the C driver: that of the flush
        // cannot be read on all platforms.
        let flush = remap + abi::REMAP_HDP_MEM_FLUSH_CNTL;
        mmio.write_then_read(flush, 0, abi::RCC_CONFIG_MEMSIZE)?;
        Ok(())
    }
}
