// SPDX-License-Identifier: GPL-2.0

//! Interrupt ring of OSSSYS 7.0.0 and IH entries of gfx12.

use kernel::prelude::*;
use rkfd_abi::{
    ih::{gfx12, soc21 as client, source, sq_v11 as sq},
    regs::{nbif_6_3_1 as nbif, osssys_7_0_0 as oss},
    sdma::v7 as sdma,
};

use crate::{
    asic::mmio::{Block, InstanceMap},
    hw::{
        ih::{
            ih_names, page_fault, shader_message, IhEvent, IhNames, IhVersion, RawEntry,
            MC_SPACE_GART,
        },
        nbio::{nbio_names, NbioNames},
    },
};

/// The interrupt ring of OSSSYS 7.0.0.
pub(super) struct Ih;

/// IH_MSI_STORM_CTRL delay for page faults (`ih_v7_0_irq_init`).
const MSI_STORM_DELAY: u32 = 3;
/// SDMA queue of the kernel ring.
const KERNEL_SDMA_QUEUE: u32 = 0;

impl IhVersion for Ih {
    const NAMES: &'static IhNames = &ih_names!(oss);
    const BUS: &'static NbioNames = &nbio_names!(nbif);
    // Bus addresses need IH_CHICKEN, which is the PSP's if it loads the firmware
    // (`ih_v7_0_sw_init`).
    const MC_SPACE: u32 = MC_SPACE_GART;

    fn switch(b: Block<'_>, on: bool) -> Result {
        b.set(
            oss::regIH_RB_CNTL,
            &[
                (oss::IH_RB_CNTL__RB_ENABLE, on.into()),
                (oss::IH_RB_CNTL__ENABLE_INTR, on.into()),
            ],
        )
    }

    fn prepare(b: Block<'_>) -> Result {
        Self::NAMES.clear_overflow(b)?;
        // Page faults (client 18) are storm clients (`ih_v7_0_irq_init`).
        b.set(
            oss::regIH_STORM_CLIENT_LIST_CNTL,
            &[(oss::IH_STORM_CLIENT_LIST_CNTL__CLIENT18_IS_STORM_CLIENT, 1)],
        )?;
        b.set(
            oss::regIH_INT_FLOOD_CNTL,
            &[(oss::IH_INT_FLOOD_CNTL__FLOOD_CNTL_ENABLE, 1)],
        )?;
        b.set(
            oss::regIH_MSI_STORM_CTRL,
            &[(oss::IH_MSI_STORM_CTRL__DELAY, MSI_STORM_DELAY)],
        )
    }

    fn event(_map: &InstanceMap, entry: &RawEntry<'_>) -> IhEvent {
        match (entry.client, entry.source) {
            (client::GRBM_CP | client::GFX, source::SQ_INTERRUPT_MSG) => message(entry.words),
            (client::GFX, gfx12::SDMA_TRAP) => IhEvent::SdmaTrap {
                ctx0: entry.ctx0 & 0x0fff_ffff,
                engine: sdma::RING_ID_ENGINE.get(entry.ring),
                kernel: sdma::RING_ID_QUEUE.get(entry.ring) == KERNEL_SDMA_QUEUE,
            },
            (client::GFX, gfx12::VM_FAULT) => page_fault(entry, true),
            (client::VMC, source::VM_FAULT) => page_fault(entry, false),
            _ => IhEvent::Other,
        }
    }
}

fn message(words: &[u32]) -> IhEvent {
    let data = sq::DATA.get(words);
    let exceptions = (data & sq::REPORT_EXCEPTIONS_MASK) >> sq::REPORT_EXCEPTIONS_SHIFT;
    let privileged = sq::PRIV.get(words) != 0;
    shader_message(data, sq::ENCODING.get(words), privileged, exceptions)
}
