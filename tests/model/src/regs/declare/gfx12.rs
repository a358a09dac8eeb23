// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers of GC 12.0 cards.

use gpu_regs::{
    athub_4_1_0 as athub, df_4_15 as df, gc_12_0_0 as gc, hdp_7_0_0 as hdp, mmhub_4_1_0 as mmhub,
    mp_14_0_2 as mp, nbif_6_3_1 as nbif, osssys_7_0_0 as osssys, smuio_14_0_2 as smuio,
    thm_14_0_2 as thm,
};

use rkfd_abi::sdma::RLC_QUEUES;

use super::{Block, PowerOn};
use crate::chips::Chip;
use crate::engines::rom::{ASIC_INIT_COMPLETE, HYNIX, OFFSET};
use crate::regs::{Decl, Ip, RegId};

/// Dwords between the registers of two SDMA queues, and from the first of a queue to the first one
/// without a name.
const QUEUE_STRIDE: u32 = gc::regSDMA0_QUEUE1_RB_CNTL.off - gc::regSDMA0_QUEUE0_RB_CNTL.off;
const UNNAMED: u32 = 0x1c;

/// Returns the tables of its blocks. Two headers hold more than one block: GC includes SDMA, and
/// one header holds both processors.
pub fn blocks() -> Vec<Block> {
    vec![
        Block::new(Ip::Gc, gc::ALL).without(&["regSDMA0_", "regSDMA1_"]),
        Block::new(Ip::Sdma, gc::ALL).only("regSDMA0_"),
        Block::new(Ip::Sdma, gc::ALL).only("regSDMA1_").instance(1),
        Block::new(Ip::Mmhub, mmhub::ALL),
        Block::new(Ip::Athub, athub::ALL),
        Block::new(Ip::Osssys, osssys::ALL),
        Block::new(Ip::Hdp, hdp::ALL),
        Block::new(Ip::Nbif, nbif::ALL),
        Block::new(Ip::Df, df::ALL),
        Block::new(Ip::Mp0, mp::ALL).without(&["regMP1_"]),
        Block::new(Ip::Mp1, mp::ALL).only("regMP1_"),
        Block::new(Ip::Thm, thm::ALL),
        Block::new(Ip::Smuio, smuio::ALL),
    ]
}

/// Adjusts declarations by rules instead of single registers.
pub fn finish(decls: &mut Vec<Decl>) {
    // A dword without a name in the header. The stock driver reads BIOS_SCRATCH_7 here before it
    // has the offset of the scratch registers (`amdgpu_atombios_scratch_need_asic_init` with a
    // `bios_scratch_reg_offset` of 0).
    decls.push(Decl::new("NBIF_UNNAMED", Ip::Nbif, RegId::new(0, 7)).mask(0));
    // Two dwords between the registers of a queue, which the stock driver reads when it dumps them
    // (`hqd_sdma_dump_v12`).
    for (engine, first) in [
        (0, gc::regSDMA0_QUEUE0_RB_CNTL),
        (1, gc::regSDMA1_QUEUE0_RB_CNTL),
    ] {
        for queue in 0..RLC_QUEUES as u32 {
            let off = first.off + queue * QUEUE_STRIDE + UNNAMED;
            let decl = Decl::new("SDMA_UNNAMED", Ip::Sdma, RegId::new(first.seg, off));
            decls.push(decl.instance(engine).array(2, 1).mask(0));
        }
    }
    for d in decls.iter_mut().filter(|d| d.ip == Ip::Sdma) {
        if d.name.ends_with("_CONTEXT_STATUS") {
            d.reset = gc::SDMA0_QUEUE0_CONTEXT_STATUS__IDLE.mask;
            d.mask = 0;
        }
    }
}

/// Returns registers that do not read 0 after power-on.
pub fn power_on(chip: &Chip, vram: u64) -> Vec<PowerOn> {
    let strap = nbif::RCC_STRAP0_RCC_DEV0_EPF0_STRAP0__STRAP_ATI_REV_ID_DEV0_F0
        .put(chip.rev_id.into())
        | u32::from(chip.pci_ids[1]);
    let info = &chip.gc;
    let tiling = gc::GB_ADDR_CONFIG__NUM_PIPES.put(info.tccs.ilog2())
        | gc::GB_ADDR_CONFIG__MAX_COMPRESSED_FRAGS.put(2)
        | gc::GB_ADDR_CONFIG__NUM_PKRS.put((info.num_se * info.sh_per_se).ilog2())
        | gc::GB_ADDR_CONFIG__NUM_SHADER_ENGINES.put(info.num_se.ilog2())
        | gc::GB_ADDR_CONFIG__NUM_RB_PER_SE.put(info.rb_per_se.ilog2());
    vec![
        (
            Ip::Nbif,
            nbif::regRCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE,
            (vram >> 20) as u32,
            true,
        ),
        (
            Ip::Nbif,
            nbif::regRCC_STRAP0_RCC_DEV0_EPF0_STRAP0,
            strap,
            true,
        ),
        (
            Ip::Nbif,
            nbif::regRCC_DEV0_EPF0_RCC_IOV_FUNC_IDENTIFIER,
            0,
            true,
        ),
        // Idle: no unit busy, the always-set bits of an idle chip.
        (Ip::Gc, gc::regGRBM_STATUS, 0x3028, true),
        (Ip::Gc, gc::regGRBM_STATUS2, 0x8, true),
        (Ip::Gc, gc::regGB_ADDR_CONFIG, tiling, false),
        (
            Ip::Gc,
            gc::regRLC_CNTL,
            gc::RLC_CNTL__RLC_ENABLE_F32.mask,
            false,
        ),
        // Set once the RLC has given all firmware to the engines.
        (Ip::Gc, gc::regRLC_RLCS_BOOTLOAD_STATUS, 0, true),
        // The system firmware has executed asic_init of the VBIOS.
        (
            Ip::Nbif,
            nbif::regBIF_BX0_BIOS_SCRATCH_7,
            ASIC_INIT_COMPLETE,
            false,
        ),
        (Ip::Nbif, nbif::regBIF_BX0_BIOS_SCRATCH_4, HYNIX, false),
        (Ip::Nbif, nbif::regREGS_ROM_OFFSET_CTRL, OFFSET, true),
        // It has booted its secure OS; its mailbox is ready.
        (Ip::Mp0, mp::regMPASP_SMN_C2PMSG_33, 0x8000_0000, true),
        (Ip::Mp0, mp::regMPASP_SMN_C2PMSG_35, 0x8000_0000, false),
        (Ip::Mp0, mp::regMPASP_SMN_C2PMSG_64, 0x8000_0000, false),
        (Ip::Mp0, mp::regMPASP_SMN_C2PMSG_81, 0x003a_0068, true),
    ]
}
