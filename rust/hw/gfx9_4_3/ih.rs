// SPDX-License-Identifier: GPL-2.0

//! The interrupt ring (OSSSYS 4.4.2) and its entries.

use kernel::prelude::*;
use rkfd_abi::{
    discovery::hwid,
    ih::{self, client, fault, source, sq},
    regs::{nbio_7_9_0 as nbio, osssys_4_4_2 as oss},
};

use crate::{
    gpu::mmio::{Block, Mmio},
    hw::{IhEntry, IhEvent, IhHal, IhSetup, Report, SqSender, VmFault, IH_ENTRY_DWORDS},
};

/// See the file.
pub(super) struct Ih;

/// The ring's memory is addressed on the bus.
const MC_SPACE_BUS: u32 = 1;

/// The ring id of an SDMA engine's kernel ring.
const KERNEL_SDMA_RING: u32 = 0;

fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::OSSSYS, 0)
}

impl Ih {
    fn toggle(&self, b: Block<'_>, enable: bool) -> Result {
        let mut v = b.rd(oss::regIH_RB_CNTL)?;
        v = oss::IH_RB_CNTL__RB_ENABLE.set(v, enable.into());
        v = oss::IH_RB_CNTL__RB_GPU_TS_ENABLE.set(v, 1);
        if enable {
            // The clear bit acts when it goes from 0 to 1.
            for clear in [0, 1, 0] {
                v = oss::IH_RB_CNTL__WPTR_OVERFLOW_CLEAR.set(v, clear);
                b.wr(oss::regIH_RB_CNTL, v)?;
            }
        }
        v = oss::IH_RB_CNTL__ENABLE_INTR.set(v, enable.into());
        b.wr(oss::regIH_RB_CNTL, v)?;
        if !enable {
            b.wr(oss::regIH_RB_RPTR, 0)?;
            b.wr(oss::regIH_RB_WPTR, 0)?;
        }
        Ok(())
    }
}

fn shader_message(raw: &[u32; IH_ENTRY_DWORDS]) -> IhEvent {
    let data = sq::DATA.get(raw) | sq::DATA_MID.get(raw) << 12 | sq::DATA_HI.get(raw) << 16;
    let from = match sq::ENCODING.get(raw) {
        sq::ENCODING_INST if sq::PRIV.get(raw) != 0 => {
            let exceptions = data >> sq::REPORT_EXCEPTIONS_SHIFT & sq::REPORT_EXCEPTIONS_MASK;
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

impl IhHal for Ih {
    fn start(&self, mmio: &Mmio, s: &IhSetup) -> Result {
        let b = block(mmio)?;
        self.toggle(b, false)?;

        let n = mmio.block(hwid::NBIF, 0)?;
        n.wr(nbio::regBIF_BX0_INTERRUPT_CNTL2, (s.dummy_dma >> 8) as u32)?;
        n.set(
            nbio::regBIF_BX0_INTERRUPT_CNTL,
            &[
                (nbio::BIF_BX0_INTERRUPT_CNTL__IH_DUMMY_RD_OVERRIDE, 0),
                (nbio::BIF_BX0_INTERRUPT_CNTL__IH_REQ_NONSNOOP_EN, 0),
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
            (
                client::GRBM_CP | client::SE0SH | client::SE1SH | client::SE2SH | client::SE3SH,
                source::SQ_INTERRUPT_MSG,
            ) => shader_message(raw),
            (c, source::SDMA_TRAP) => match client::SDMA.iter().position(|s| *s == c) {
                Some(n) => IhEvent::SdmaTrap {
                    ctx0: ctx0 & 0x0fff_ffff,
                    engine: n as u32 + super::sdma::first_of_node(ih::NODE_ID.get(raw)),
                    kernel: ring == KERNEL_SDMA_RING,
                },
                None => IhEvent::Other,
            },
            (client::VMC | client::UTCL2, source::VM_FAULT) => IhEvent::VmFault(VmFault {
                addr: u64::from(fault::ADDR_LO.get(raw)) << 12
                    | u64::from(fault::ADDR_HI.get(raw)) << 44,
                gfx: client == client::UTCL2,
                write: fault::WRITE.get(raw) != 0,
                retry: fault::RETRY.get(raw) != 0,
                not_present: fault::RING_PROT_VALID.is_set(ring),
                no_read: fault::RING_PROT_READ.is_set(ring),
                no_write: fault::RING_PROT_WRITE.is_set(ring),
            }),
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
