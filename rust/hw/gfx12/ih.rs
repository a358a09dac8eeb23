// SPDX-License-Identifier: GPL-2.0

//! The interrupt ring (OSSSYS 7.0.0) and the entries of gfx12.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    ih::{self, fault, gfx12, soc21 as client, source, sq_v11 as sq},
    regs::{nbif_6_3_1 as nbif, osssys_7_0_0 as oss},
    sdma::v7 as sdma,
};

use crate::{
    gpu::mmio::{Block, Mmio},
    hw::{IhEntry, IhEvent, IhHal, IhSetup, Report, SqSender, VmFault, IH_ENTRY_DWORDS},
};

/// See the file.
pub(super) struct Ih;

/// The ring's memory is addressed on the bus.
const MC_SPACE_BUS: u32 = 2;
/// How long the hardware collects interrupts of page faults.
const MSI_STORM_DELAY: u32 = 3;
/// The queue of an SDMA engine that is the kernel's ring.
const KERNEL_SDMA_QUEUE: u32 = 0;

fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::OSSSYS, 0)
}

impl Ih {
    fn toggle(&self, b: Block<'_>, enable: bool) -> Result {
        b.set(
            oss::regIH_RB_CNTL,
            &[
                (oss::IH_RB_CNTL__RB_ENABLE, enable.into()),
                (oss::IH_RB_CNTL__ENABLE_INTR, enable.into()),
            ],
        )?;
        if !enable {
            b.wr(oss::regIH_RB_RPTR, 0)?;
            b.wr(oss::regIH_RB_WPTR, 0)?;
        }
        Ok(())
    }

    /// Page faults come in storms.
    fn start_storm_control(&self, b: Block<'_>) -> Result {
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
}

fn shader_message(raw: &[u32; IH_ENTRY_DWORDS]) -> IhEvent {
    let data = sq::DATA.get(raw);
    let from = match sq::ENCODING.get(raw) {
        sq::ENCODING_INST if sq::PRIV.get(raw) != 0 => {
            let exceptions = (data & sq::REPORT_EXCEPTIONS_MASK) >> sq::REPORT_EXCEPTIONS_SHIFT;
            SqSender::TrapHandler(Report {
                doorbell: data & sq::REPORT_DOORBELL_MASK,
                exceptions: exceptions.into(),
            })
        }
        sq::ENCODING_INST => SqSender::Program,
        sq::ENCODING_ERROR => SqSender::Error,
        _ => SqSender::Hardware,
    };
    IhEvent::SqMessage { data, from }
}

fn page_fault(raw: &[u32; IH_ENTRY_DWORDS], gfx: bool) -> IhEvent {
    let ring = ih::RING_ID.get(raw);
    IhEvent::VmFault(VmFault {
        addr: u64::from(fault::ADDR_LO.get(raw)) << 12 | u64::from(fault::ADDR_HI.get(raw)) << 44,
        gfx,
        write: fault::WRITE.get(raw) != 0,
        retry: fault::RETRY.get(raw) != 0,
        not_present: fault::RING_PROT_VALID.is_set(ring),
        no_read: fault::RING_PROT_READ.is_set(ring),
        no_write: fault::RING_PROT_WRITE.is_set(ring),
    })
}

impl IhHal for Ih {
    fn start(&self, mmio: &Mmio, s: &IhSetup) -> Result {
        let b = block(mmio)?;
        self.toggle(b, false)?;

        let n = mmio.block(hwid::NBIF, 0)?;
        n.wr(nbif::regBIF_BX0_INTERRUPT_CNTL2, (s.dummy_dma >> 8) as u32)?;
        n.set(
            nbif::regBIF_BX0_INTERRUPT_CNTL,
            &[
                (nbif::BIF_BX0_INTERRUPT_CNTL__IH_DUMMY_RD_OVERRIDE, 0),
                (nbif::BIF_BX0_INTERRUPT_CNTL__IH_REQ_NONSNOOP_EN, 0),
            ],
        )?;
        b.set(
            oss::regIH_CHICKEN,
            &[(oss::IH_CHICKEN__MC_SPACE_GPA_ENABLE, 1)],
        )?;

        b.wr(oss::regIH_RB_BASE, (s.ring >> 8) as u32)?;
        b.wr(oss::regIH_RB_BASE_HI, (s.ring >> 40) as u32 & 0xff)?;
        b.set(
            oss::regIH_RB_CNTL,
            &[
                (oss::IH_RB_CNTL__MC_SPACE, MC_SPACE_BUS),
                (oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR, 1),
                (oss::IH_RB_CNTL__WPTR_OVERFLOW_ENABLE, 1),
                (oss::IH_RB_CNTL__RB_SIZE, (s.size / 4).ilog2()),
                (oss::IH_RB_CNTL__WPTR_WRITEBACK_ENABLE, 1),
                (oss::IH_RB_CNTL__MC_SNOOP, 1),
                (oss::IH_RB_CNTL__MC_RO, 0),
                (oss::IH_RB_CNTL__MC_VMID, 0),
                (oss::IH_RB_CNTL__RPTR_REARM, 1),
            ],
        )?;
        b.wr(oss::regIH_RB_WPTR_ADDR_LO, s.wptr as u32)?;
        b.wr(oss::regIH_RB_WPTR_ADDR_HI, (s.wptr >> 32) as u32 & 0xffff)?;
        b.wr(oss::regIH_RB_WPTR, 0)?;
        b.wr(oss::regIH_RB_RPTR, 0)?;
        b.wr(
            oss::regIH_DOORBELL_RPTR,
            oss::IH_DOORBELL_RPTR__OFFSET.put(s.doorbell) | oss::IH_DOORBELL_RPTR__ENABLE.put(1),
        )?;
        // The clear bit acts when it goes from 0 to 1.
        self.clear_overflow(mmio)?;
        self.start_storm_control(b)?;
        self.toggle(b, true)
    }

    fn stop(&self, mmio: &Mmio) -> Result {
        let b = block(mmio)?;
        self.toggle(b, false)?;
        b.wr(oss::regIH_DOORBELL_RPTR, 0)
    }

    fn wptr(&self, raw: u32) -> (u32, bool) {
        let field = oss::IH_RB_WPTR__RB_OVERFLOW;
        (raw & !field.mask, field.is_set(raw))
    }

    fn read_wptr(&self, mmio: &Mmio) -> Result<u32> {
        block(mmio)?.rd(oss::regIH_RB_WPTR)
    }

    fn clear_overflow(&self, mmio: &Mmio) -> Result {
        let b = block(mmio)?;
        b.set(
            oss::regIH_RB_CNTL,
            &[(oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR, 1)],
        )?;
        // At once, so that the next overflow is seen.
        b.set(
            oss::regIH_RB_CNTL,
            &[(oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR, 0)],
        )
    }

    fn decode(&self, raw: &[u32; IH_ENTRY_DWORDS]) -> IhEntry {
        let client = ih::CLIENT_ID.get(raw);
        let source = ih::SOURCE_ID.get(raw);
        let ring = ih::RING_ID.get(raw);
        let ctx0 = ih::CONTEXT_ID0.get(raw);
        let event = match (client, source) {
            (client::GRBM_CP, source::CP_END_OF_PIPE) => IhEvent::CpEop { ctx0 },
            (client::GRBM_CP, source::CP_BAD_OPCODE) => IhEvent::CpBadOpcode {
                doorbell: ih::bad_opcode::DOORBELL.get(raw),
                code: ih::bad_opcode::CODE.get(raw),
            },
            (client::GRBM_CP, source::CP_PRIV_REG_FAULT | source::CP_PRIV_INSTR_FAULT) => {
                IhEvent::CpPrivileged
            }
            (client::GRBM_CP | client::GFX, source::SQ_INTERRUPT_MSG) => shader_message(raw),
            (client::GFX, gfx12::SDMA_TRAP) => IhEvent::SdmaTrap {
                ctx0: ctx0 & 0x0fff_ffff,
                engine: sdma::RING_ID_ENGINE.get(ring),
                kernel: sdma::RING_ID_QUEUE.get(ring) == KERNEL_SDMA_QUEUE,
            },
            (client::GFX, gfx12::VM_FAULT) => page_fault(raw, true),
            (client::VMC, source::VM_FAULT) => page_fault(raw, false),
            _ => IhEvent::Other,
        };
        IhEntry {
            client: client as u8,
            source: source as u8,
            ring: ring as u8,
            vmid: ih::VMID.get(raw) as u8,
            pasid: ih::PASID.get(raw) as u16,
            node: ih::NODE_ID.get(raw) as u8,
            ctx0,
            event,
        }
    }
}
