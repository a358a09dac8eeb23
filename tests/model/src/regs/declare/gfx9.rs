// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of GC 9.4.3 cards.

use gpu_regs::{
    athub_1_8_0 as athub, gc_9_4_3 as gc, hdp_4_4_2 as hdp, mmhub_1_8_0 as mmhub, mp_13_0_6 as mp,
    nbio_7_9_0 as nbio, osssys_4_4_2 as osssys, sdma_4_4_2 as sdma, smuio_13_0_3 as smuio,
};

use rkfd_abi::sdma::{RLC_QUEUES, RLC_REG_STRIDE};

use super::{Block, PowerOn};
use crate::chips::Chip;
use crate::engines::rom::{ASIC_INIT_COMPLETE, HYNIX};
use crate::regs::{Decl, Ip};

/// Returns the tables of its blocks.
pub fn blocks() -> Vec<Block> {
    vec![
        Block::new(Ip::Gc, gc::ALL),
        Block::new(Ip::Mmhub, mmhub::ALL),
        Block::new(Ip::Athub, athub::ALL),
        Block::new(Ip::Osssys, osssys::ALL),
        Block::new(Ip::Hdp, hdp::ALL),
        Block::new(Ip::Nbif, nbio::ALL),
        // One header holds both processors; MP1 shares MP0's base.
        Block::new(Ip::Mp0, mp::ALL),
        Block::new(Ip::Smuio, smuio::ALL),
        Block::new(Ip::Sdma, sdma::ALL),
    ]
}

/// Adjusts declarations by rules instead of single registers.
pub fn finish(chip: &Chip, decls: &mut [Decl]) {
    // One partition (SPX).
    let xccs: Vec<u8> = chip.instances(Ip::Gc).collect();
    for d in decls.iter_mut().filter(|d| d.ip == Ip::Gc) {
        if d.id == gc::regCP_HYP_XCP_CTL.into() {
            let logical = xccs.iter().position(|n| *n == d.instance).unwrap_or(0);
            d.reset = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(xccs.len() as u32)
                | gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.put(logical as u32);
        }
    }
    for d in decls.iter_mut().filter(|d| d.ip == Ip::Sdma) {
        if d.name.ends_with("_CONTEXT_STATUS") {
            d.reset = sdma::SDMA_GFX_CONTEXT_STATUS__IDLE.mask;
            d.mask = 0;
        }
        // The header declares them for the first user queue only; each has them, and the stock
        // driver reads them accordingly (amdgpu_amdkfd_gc_9_4_3.c). Nothing is counted: they read
        // 0.
        if d.name.starts_with("regSDMA_RLC0_UTILIZATION_") {
            *d = d.array(RLC_QUEUES as u32, RLC_REG_STRIDE).mask(0);
        }
    }
    // FLUSH_INVALIDATE_CACHE, a bit that the header of 4.0 declares and that of 4.4.2 does not. The
    // stock driver sets it on both (hdp_v4_0_init_registers).
    for d in decls.iter_mut().filter(|d| d.ip == Ip::Hdp) {
        if d.id == hdp::regHDP_MISC_CNTL.into() {
            d.mask |= 1;
        }
    }
}

/// Returns the modes in which the XCCs can be partitioned: bits SPX, DPX, TPX, QPX, CPX.
fn compute_modes(chip: &Chip) -> u32 {
    match chip.instances(Ip::Gc).count() {
        1 => 1,
        n => (1..=4)
            .filter(|partitions| n % partitions == 0 && *partitions < n)
            .fold(1 << 4, |modes, partitions| modes | 1 << (partitions - 1)),
    }
}

/// Returns registers that do not read 0 after power-on.
pub fn power_on(chip: &Chip, vram: u64) -> Vec<PowerOn> {
    let strap = nbio::RCC_STRAP0_RCC_DEV0_EPF0_STRAP0__STRAP_ATI_REV_ID_DEV0_F0
        .put(chip.rev_id.into())
        | u32::from(chip.pci_ids[1]);
    let nps1 = nbio::BIF_BX_PF0_PARTITION_MEM_STATUS__NPS_MODE.put(1);
    vec![
        (
            Ip::Nbif,
            nbio::regRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE,
            (vram >> 20) as u32,
            true,
        ),
        (
            Ip::Nbif,
            nbio::regRCC_STRAP0_RCC_DEV0_EPF0_STRAP0,
            strap,
            true,
        ),
        (
            Ip::Nbif,
            nbio::regRCC_DEV0_EPF0_RCC_IOV_FUNC_IDENTIFIER,
            0,
            true,
        ),
        // One partition (SPX), one memory partition.
        (
            Ip::Nbif,
            nbio::regBIF_BX_PF0_PARTITION_COMPUTE_CAP,
            compute_modes(chip),
            true,
        ),
        (Ip::Nbif, nbio::regBIF_BX_PF0_PARTITION_MEM_CAP, 1, true),
        (
            Ip::Nbif,
            nbio::regBIF_BX_PF0_PARTITION_COMPUTE_STATUS,
            0,
            true,
        ),
        (
            Ip::Nbif,
            nbio::regBIF_BX_PF0_PARTITION_MEM_STATUS,
            nps1,
            true,
        ),
        (Ip::Gc, gc::regGRBM_GFX_INDEX, 0xe000_0000, false),
        // Idle: no unit busy, the always-set bits of an idle chip.
        (Ip::Gc, gc::regGRBM_STATUS, 0x3028, true),
        (Ip::Gc, gc::regGRBM_STATUS2, 0x8, true),
        (Ip::Gc, gc::regGB_ADDR_CONFIG, 0x2a11_4042, false),
        (
            Ip::Gc,
            gc::regRLC_CNTL,
            gc::RLC_CNTL__RLC_ENABLE_F32.mask,
            false,
        ),
        (Ip::Sdma, sdma::regSDMA_STATUS_REG, 0x46de_e557, true),
        // Package type OAM.
        (
            Ip::Smuio,
            smuio::regSMUIO_MCM_CONFIG,
            smuio::SMUIO_MCM_CONFIG__PKG_TYPE.put(1),
            true,
        ),
        // The system firmware has executed asic_init of the VBIOS.
        (
            Ip::Nbif,
            nbio::regBIF_BX0_BIOS_SCRATCH_7,
            ASIC_INIT_COMPLETE,
            false,
        ),
        (Ip::Nbif, nbio::regBIF_BX0_BIOS_SCRATCH_4, HYNIX, false),
        // Interrupts of the SMU are masked.
        (Ip::Mp0, mp::regMP1_SMN_IH_SW_INT_CTRL, 1, false),
        // The PSP has booted its secure OS; its mailbox is ready.
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_33, 0x8000_0000, true),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_35, 0x8000_0000, false),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_58, 0x0036_0068, true),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_64, 0x8000_0000, false),
        (Ip::Mp0, mp::regMP0_SMN_C2PMSG_81, 0x0036_0068, true),
    ]
}
