// SPDX-License-Identifier: GPL-2.0

//! Interrupt ring of OSSSYS 4.4.2 and its IH entries.

use kernel::prelude::*;
use rkfd_abi::{
    bits::lo32,
    ih::{self, client, node, source, sq},
    regs::{nbio_7_9_0 as nbio, osssys_4_4_2 as oss},
};

use super::{gmc::XCCS_PER_AID, sdma::of_node};
use crate::{
    asic::{
        mmio::{Block, InstanceMap},
        xcc::Xcc,
    },
    hw::{
        ih::{
            ih_names, page_fault, shader_message, IhEvent, IhNames, IhSetup, IhVersion, RawEntry,
        },
        nbio::{nbio_names, NbioNames},
    },
};

/// The interrupt ring of OSSSYS 4.4.2.
pub(super) struct Ih;

/// Ring id of an SDMA engine's kernel ring.
const KERNEL_SDMA_RING: u32 = 0;
/// Ring id of the announcement of entries in ring 1 (`vega20_ih_self_irq`).
const RETRY_RING: u32 = 1;

impl IhVersion for Ih {
    const NAMES: &'static IhNames = &ih_names!(oss);
    const BUS: &'static NbioNames = &nbio_names!(nbio);
    const MC_SPACE: u32 = 1;

    fn switch(b: Block<'_>, on: bool) -> Result {
        let mut v = b.rd(oss::regIH_RB_CNTL)?;
        v = oss::IH_RB_CNTL__RB_ENABLE.set(v, on.into());
        v = oss::IH_RB_CNTL__RB_GPU_TS_ENABLE.set(v, 1);
        if on {
            // WPTR_OVERFLOW_CLEAR acts on a rising edge, and rearms with the last write.
            for clear in [0, 1] {
                v = oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR.set(v, clear);
                b.wr(oss::regIH_RB_CNTL, v)?;
            }
            v = oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR.set(v, 0);
        }
        v = oss::IH_RB_CNTL__ENABLE_INTR.set(v, on.into());
        b.wr(oss::regIH_RB_CNTL, v)
    }

    /// As `vega20_ih_irq_init` and `vega20_ih_toggle_ring_interrupts`.
    fn start_retry(b: Block<'_>, s: &IhSetup) -> Result {
        Self::stop_retry(b)?;
        b.wr(oss::regIH_RB_BASE_RING1, lo32(s.retry_ring >> 8))?;
        b.wr(oss::regIH_RB_BASE_HI_RING1, lo32(s.retry_ring >> 40) & 0xff)?;
        b.set(
            oss::regIH_RB_CNTL_RING1,
            &[
                (oss::IH_RB_CNTL__MC_SPACE, Self::MC_SPACE),
                (oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR, 1),
                (oss::IH_RB_CNTL__WPTR_OVERFLOW_ENABLE, 1),
                (oss::IH_RB_CNTL__RB_SIZE, (s.retry_size / 4).ilog2()),
                (oss::IH_RB_CNTL__WPTR_WRITEBACK_ENABLE, 1),
                (oss::IH_RB_CNTL__MC_SNOOP, 1),
                (oss::IH_RB_CNTL__MC_RO, 0),
                (oss::IH_RB_CNTL__MC_VMID, 0),
                (oss::IH_RB_CNTL__RB_FULL_DRAIN_ENABLE, 1),
            ],
        )?;
        let doorbell = |index: u32| {
            oss::IH_DOORBELL_RPTR__OFFSET.put(index) | oss::IH_DOORBELL_RPTR__ENABLE.put(1)
        };
        b.wr(oss::regIH_DOORBELL_RPTR_RING1, doorbell(s.retry_doorbell))?;
        b.wr(oss::regIH_DOORBELL_RETRY_CAM, doorbell(s.cam_doorbell))?;
        b.set(
            oss::regIH_RETRY_INT_CAM_CNTL,
            &[(oss::IH_RETRY_INT_CAM_CNTL__ENABLE, 1)],
        )?;
        let mut v = b.rd(oss::regIH_RB_CNTL_RING1)?;
        v = oss::IH_RB_CNTL__RB_ENABLE.set(v, 1);
        v = oss::IH_RB_CNTL__RB_GPU_TS_ENABLE.set(v, 1);
        for clear in [0, 1, 0] {
            v = oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR.set(v, clear);
            b.wr(oss::regIH_RB_CNTL_RING1, v)?;
        }
        Ok(())
    }

    fn stop_retry(b: Block<'_>) -> Result {
        b.set(
            oss::regIH_RB_CNTL_RING1,
            &[
                (oss::IH_RB_CNTL__RB_ENABLE, 0),
                (oss::IH_RB_CNTL__RB_GPU_TS_ENABLE, 1),
            ],
        )?;
        b.wr(oss::regIH_RB_RPTR_RING1, 0)?;
        b.wr(oss::regIH_RB_WPTR_RING1, 0)
    }

    fn read_retry_wptr(b: Block<'_>) -> Result<u32> {
        b.rd(oss::regIH_RB_WPTR_RING1).map(|v| v.raw())
    }

    fn clear_retry_overflow(b: Block<'_>) -> Result {
        let bit = oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR;
        b.set(oss::regIH_RB_CNTL_RING1, &[(bit, 1)])?;
        b.set(oss::regIH_RB_CNTL_RING1, &[(bit, 0)])
    }

    /// As `kfd_setup_interrupt_bitmap` (`kfd_device.c`).
    fn nodes(xccs: &[Xcc]) -> Option<u32> {
        let ids = |xcc: &Xcc| {
            let physical = u32::from(xcc.physical);
            let xcd = match physical % XCCS_PER_AID {
                0 => node::XCD0,
                _ => node::XCD1,
            };
            (1 << node::AID | 1 << xcd) << (physical / XCCS_PER_AID * node::PER_AID)
        };
        Some(xccs.iter().fold(0, |mask, xcc| mask | ids(xcc)))
    }

    fn event(map: &InstanceMap, entry: &RawEntry<'_>) -> IhEvent {
        match (entry.client, entry.source) {
            (
                client::GRBM_CP | client::SE0SH | client::SE1SH | client::SE2SH | client::SE3SH,
                source::SQ_INTERRUPT_MSG,
            ) => message(entry.words),
            (c, source::SDMA_TRAP) => {
                let index = (0u32..).zip(client::SDMA).find(|(_, s)| *s == c);
                match index.and_then(|(index, _)| of_node(map, entry.node, index)) {
                    Some(engine) => IhEvent::SdmaTrap {
                        ctx0: entry.ctx0 & 0x0fff_ffff,
                        engine,
                        kernel: entry.ring == KERNEL_SDMA_RING,
                    },
                    None => IhEvent::Other,
                }
            }
            (client::MP1, source::SMU_TO_DRIVER) => {
                IhEvent::Smu(entry.ctx0, ih::CONTEXT_ID1.get(entry.words))
            }
            (c, source::SDMA_ECC) if client::SDMA.contains(&c) => IhEvent::Poison,
            (client::VMC | client::UTCL2, source::UTCL2_POISON) => IhEvent::Poison,
            (client::IH, source::RING) if entry.ring == RETRY_RING => IhEvent::RetryRing,
            (client::VMC, source::VM_FAULT) => page_fault(entry, false),
            (client::UTCL2, source::VM_FAULT) => page_fault(entry, true),
            _ => IhEvent::Other,
        }
    }
}

fn message(words: &[u32]) -> IhEvent {
    let data = sq::DATA.get(words) | sq::DATA_MID.get(words) << 12 | sq::DATA_HI.get(words) << 16;
    let exceptions = data >> sq::REPORT_EXCEPTIONS_SHIFT & sq::REPORT_EXCEPTIONS_MASK;
    let privileged = sq::PRIV.get(words) != 0;
    let encoding = sq::ENCODING.get(words);
    let error = data >> sq::ERROR_TYPE_SHIFT & sq::ERROR_TYPE_MASK;
    // `event_interrupt_wq_v9`: all other types are errors of memory cells.
    if encoding == sq::ENCODING_ERROR
        && !matches!(
            error,
            sq::ERROR_ILLEGAL_INSTRUCTION | sq::ERROR_MEMORY_VIOLATION
        )
    {
        return IhEvent::Poison;
    }
    shader_message(data, encoding, privileged, exceptions)
}
