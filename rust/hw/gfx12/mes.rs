// SPDX-License-Identifier: GPL-2.0

//! Micro engine scheduler, MES v12: unified firmware on two pipes.
//!
//! Firmware is loaded by the PSP before. The ring of pipe 1 is loaded by registers and replaces the
//! KIQ: it maps the ring of pipe 0.

use kernel::{prelude::*, time::delay::fsleep, time::Delta};
use rkfd_abi::{
    bits::{hi32, lo32},
    discovery::hwid,
    doorbell::navi10 as db,
    regs::{gc_12_0_0 as gc, name, Field, Reg, Untyped, Value},
    sdma::v7::ENGINES,
};

use super::{
    caps::CAPS,
    gfx::{block, dump_slot, Gfx, MEC_RESETS},
    gmc,
    mqd::AT,
};
use crate::{
    asic::mmio::{Block, Mmio},
    hw::{
        gfx::{GfxVersion, HqdSlot, RegisterDump, DEQUEUE_RESET},
        sched::{MesHal, MesPipe, MesResources, MesVersion, MES_PRIORITIES},
    },
};

/// MES v12.
pub(super) struct Mes;

/// Start time of unified MES in us (`mes_v12_0_enable`).
const START_US: i64 = 500;
/// Log2 of a process's doorbell slice: two pages (`mes_v12_0_enable_unmapped_doorbell_handling`).
const PROC_LSB: u32 = 0xd;
/// MMHUB VMIDs that MES may assign: 8 to 15, as on GFXHUB (`adev->mes.vmid_mask_mmhub`,
/// `amdgpu_mes.c`).
const MMHUB_VMIDS: u32 = 0xff00;
/// Firmware version in CP_MES_GP3_LO (`mes_v12_0_kiq_hw_init`, `AMDGPU_MES_*_VERSION_MASK`).
const VERSION: Field<name::CP_MES_GP3_LO> = Field::span(11, 0);
const API_VERSION: Field<name::CP_MES_GP3_LO> = Field::span(23, 12);
const FEATURE_VERSION: Field<name::CP_MES_GP3_LO> = Field::span(31, 24);

/// Registers loaded from the MQD, in this order, before and after CP_MQD_CONTROL
/// (`mes_v12_0_queue_init_register`).
const RING_REGS: &[(Reg<Untyped>, usize)] = &[
    gc::regCP_MQD_BASE_ADDR.from_word(AT.cp_mqd_base_addr_lo),
    gc::regCP_MQD_BASE_ADDR_HI.from_word(AT.cp_mqd_base_addr_hi),
];
const RING_REGS_BEHIND: &[(Reg<Untyped>, usize)] = &[
    gc::regCP_HQD_PQ_BASE.from_word(AT.cp_hqd_pq_base_lo),
    gc::regCP_HQD_PQ_BASE_HI.from_word(AT.cp_hqd_pq_base_hi),
    gc::regCP_HQD_PQ_RPTR_REPORT_ADDR.from_word(AT.cp_hqd_pq_rptr_report_addr_lo),
    gc::regCP_HQD_PQ_RPTR_REPORT_ADDR_HI.from_word(AT.cp_hqd_pq_rptr_report_addr_hi),
    gc::regCP_HQD_PQ_CONTROL.from_word(AT.cp_hqd_pq_control),
    gc::regCP_HQD_PQ_WPTR_POLL_ADDR.from_word(AT.cp_hqd_pq_wptr_poll_addr_lo),
    gc::regCP_HQD_PQ_WPTR_POLL_ADDR_HI.from_word(AT.cp_hqd_pq_wptr_poll_addr_hi),
    gc::regCP_HQD_PQ_DOORBELL_CONTROL.from_word(AT.cp_hqd_pq_doorbell_control),
    gc::regCP_HQD_PERSISTENT_STATE.from_word(AT.cp_hqd_persistent_state),
    gc::regCP_HQD_ACTIVE.from_word(AT.cp_hqd_active),
];

/// Aggregated doorbell registers, lowest priority first (`mes_v12_0_init_aggregated_doorbell`).
const AGGREGATED: [Reg<name::CP_MES_DOORBELL_CONTROL1>; MES_PRIORITIES] = [
    gc::regCP_MES_DOORBELL_CONTROL1,
    gc::regCP_MES_DOORBELL_CONTROL2,
    gc::regCP_MES_DOORBELL_CONTROL3,
    gc::regCP_MES_DOORBELL_CONTROL4,
    gc::regCP_MES_DOORBELL_CONTROL5,
];

const fn slot(pipe: MesPipe) -> HqdSlot {
    HqdSlot {
        me: 3,
        pipe: pipe as u32,
        queue: 0,
    }
}

/// Returns the dword base addresses of a block's register segments.
fn bases(b: Block<'_>) -> [u32; 8] {
    let mut out = [0; 8];
    for (seg, base) in (0u8..).zip(&mut out) {
        let first = Reg::<Untyped>::new("segment", seg, 0);
        // Missing segments stay 0.
        *base = b.address(first, 0).unwrap_or(0);
    }
    out
}

fn is_active(v: Value<name::CP_HQD_ACTIVE>) -> bool {
    gc::CP_HQD_ACTIVE__ACTIVE.is_set(v)
}

/// Resets a pipe of the MEC and its queues, which must not be active when the reset ends
/// (`mes_v12_0_reset_compute_pipe_mmio`).
fn reset_pipe(mmio: &Mmio, b: Block<'_>, pipe: u32) -> Result {
    let reset = *MEC_RESETS.get(usize::try_from(pipe)?).ok_or(EINVAL)?;
    b.set(gc::regCP_MEC_RS64_CNTL, &[(reset, 1)])?;
    let mut cleared = Ok(());
    for queue in 0..CAPS.queues_per_pipe {
        let slot = HqdSlot { me: 1, pipe, queue };
        cleared = cleared.and(Gfx::NAMES.with_bank(mmio, b, slot, 0, || {
            b.wr(gc::regCP_HQD_ACTIVE, 0)?;
            b.wr(gc::regCP_HQD_DEQUEUE_REQUEST, 0)
        }));
    }
    b.set(gc::regCP_MEC_RS64_CNTL, &[(reset, 0)])?;
    cleared
}

impl MesHal for Mes {
    fn start(&self, mmio: &Mmio, entry: u64) -> Result {
        let b = block(mmio)?;
        let kiq = slot(MesPipe::Kiq);
        b.set(
            gc::regRLC_CP_SCHEDULERS,
            &[(
                gc::RLC_CP_SCHEDULERS__scheduler0,
                kiq.me << 5 | kiq.pipe << 3 | kiq.queue | 0x80,
            )],
        )?;
        let mut active = Value::ZERO;
        for (pipe, reset, run) in [
            (
                MesPipe::Scheduler,
                gc::CP_MES_CNTL__MES_PIPE0_RESET,
                gc::CP_MES_CNTL__MES_PIPE0_ACTIVE,
            ),
            (
                MesPipe::Kiq,
                gc::CP_MES_CNTL__MES_PIPE1_RESET,
                gc::CP_MES_CNTL__MES_PIPE1_ACTIVE,
            ),
        ] {
            active |= run.put(1);
            Gfx::NAMES.with_bank(mmio, b, slot(pipe), 0, || {
                b.set(gc::regCP_MES_CNTL, &[(reset, 1)])?;
                b.wr(gc::regCP_MES_PRGRM_CNTR_START, lo32(entry >> 2))?;
                b.wr(gc::regCP_MES_PRGRM_CNTR_START_HI, hi32(entry >> 2))?;
                b.wr(gc::regCP_MES_CNTL, active)
            })?;
        }
        fsleep(Delta::from_micros(START_US));
        Ok(())
    }

    fn halt(&self, mmio: &Mmio) -> Result {
        block(mmio)?.set(
            gc::regCP_MES_CNTL,
            &[
                (gc::CP_MES_CNTL__MES_PIPE0_ACTIVE, 0),
                (gc::CP_MES_CNTL__MES_PIPE1_ACTIVE, 0),
                (gc::CP_MES_CNTL__MES_INVALIDATE_ICACHE, 1),
                (gc::CP_MES_CNTL__MES_PIPE0_RESET, 1),
                (gc::CP_MES_CNTL__MES_PIPE1_RESET, 1),
                (gc::CP_MES_CNTL__MES_HALT, 1),
            ],
        )
    }

    fn doorbell(&self, pipe: MesPipe) -> u32 {
        match pipe {
            MesPipe::Scheduler => db::MES_RING0,
            MesPipe::Kiq => db::MES_RING1,
        }
    }

    fn load_ring(&self, mmio: &Mmio, pipe: MesPipe, mqd: &[u32]) -> Result {
        let b = block(mmio)?;
        let load = |list: &[(Reg<Untyped>, usize)]| -> Result {
            for (reg, i) in list {
                b.wr(*reg, mqd.get(*i).copied().ok_or(EINVAL)?)?;
            }
            Ok(())
        };
        Gfx::NAMES.with_bank(mmio, b, slot(pipe), 0, || {
            b.set(gc::regCP_HQD_VMID, &[(gc::CP_HQD_VMID__VMID, 0)])?;
            b.set(
                gc::regCP_HQD_PQ_DOORBELL_CONTROL,
                &[(gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN, 0)],
            )?;
            load(RING_REGS)?;
            b.wr(gc::regCP_MQD_CONTROL, 0)?;
            load(RING_REGS_BEHIND)
        })
    }

    fn version(&self, mmio: &Mmio, pipe: MesPipe) -> Result<MesVersion> {
        let b = block(mmio)?;
        let word = Gfx::NAMES.with_bank(mmio, b, slot(pipe), 0, || b.rd(gc::regCP_MES_GP3_LO))?;
        Ok(MesVersion {
            scheduler: VERSION.get(word),
            api: API_VERSION.get(word),
            feature: FEATURE_VERSION.get(word),
        })
    }

    fn enable_unmapped_doorbells(&self, mmio: &Mmio) -> Result {
        block(mmio)?.set(
            gc::regCP_UNMAPPED_DOORBELL,
            &[
                (gc::CP_UNMAPPED_DOORBELL__PROC_LSB, PROC_LSB),
                (gc::CP_UNMAPPED_DOORBELL__ENABLE, 1),
            ],
        )
    }

    fn set_aggregated_doorbells(&self, mmio: &Mmio, doorbells: &[u32; MES_PRIORITIES]) -> Result {
        let b = block(mmio)?;
        for (reg, doorbell) in AGGREGATED.iter().zip(doorbells) {
            b.set(
                *reg,
                &[
                    (gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_HIT, 0),
                    (gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_OFFSET, *doorbell),
                    (gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_EN, 1),
                ],
            )?;
        }
        b.wr(
            gc::regCP_HQD_GFX_CONTROL,
            gc::CP_HQD_GFX_CONTROL__DB_UPDATED_MSG_EN.put(1),
        )
    }

    fn resources(&self, mmio: &Mmio) -> Result<MesResources> {
        let mut out = MesResources {
            vmid_mask_mmhub: MMHUB_VMIDS,
            vmid_mask_gfxhub: 0xffff & !((1 << CAPS.first_user_vmid) - 1),
            // No graphics queues.
            gfx_hqd_mask: [0; 2],
            gc_base: bases(block(mmio)?),
            mmhub_base: bases(mmio.block(hwid::MMHUB, 0)?),
            osssys_base: bases(mmio.block(hwid::OSSSYS, 0)?),
            ..MesResources::default()
        };
        let compute = (1u32 << CAPS.queues_per_pipe) - (1 << CAPS.kernel_queues_per_pipe);
        for mask in out
            .compute_hqd_mask
            .iter_mut()
            .take(usize::try_from(CAPS.pipes_per_mec)?)
        {
            *mask = compute;
        }
        let sdma = (1u32 << CAPS.sdma_queues_per_engine) - (1 << CAPS.sdma_reserved_queues);
        for mask in out.sdma_hqd_mask.iter_mut().take(ENGINES) {
            *mask = sdma;
        }
        Ok(out)
    }

    /// As in the C driver, in RLC safe mode (`mes_v12_0_reset_queue_mmio`,
    /// `mes_v12_0_reset_compute_pipe_mmio`).
    fn reset_queue(&self, mmio: &Mmio, pipe: u32, queue: u32) -> Result {
        let b = block(mmio)?;
        let slot = HqdSlot { me: 1, pipe, queue };
        let inactive = || {
            b.poll(gc::regCP_HQD_ACTIVE, 0, |v| !is_active(v))
                .map(|_| ())
        };
        let _safe_mode = mmio.lock_safe_mode();
        Gfx::NAMES.in_safe_mode(b, || {
            let reset = Gfx::NAMES.with_bank(mmio, b, slot, 0, || {
                b.wr(gc::regCP_HQD_DEQUEUE_REQUEST, DEQUEUE_RESET)?;
                b.wr(gc::regSPI_COMPUTE_QUEUE_RESET, 1)?;
                inactive()
            });
            if reset != Err(ETIMEDOUT) {
                return reset;
            }
            reset_pipe(mmio, b, pipe)?;
            Gfx::NAMES.with_bank(mmio, b, slot, 0, inactive)
        })
    }

    fn vm_context_control(&self) -> u32 {
        let cntl = gmc::GFX.context_cntl(Value::ZERO);
        cntl.with(&gmc::GFX.interrupts()).raw()
    }

    fn dump(&self, mmio: &Mmio, pipe: MesPipe) -> Result<RegisterDump> {
        const REGS: [Reg<Untyped>; 5] = [
            gc::regCP_MES_CNTL.untyped(),
            gc::regCP_MES_GP3_LO.untyped(),
            gc::regCP_MES_GP3_HI.untyped(),
            gc::regCP_MES_INSTR_PNTR.untyped(),
            gc::regCP_UNMAPPED_DOORBELL.untyped(),
        ];
        let mut out = dump_slot(mmio, slot(pipe), REGS.len())?;
        let b = block(mmio)?;
        Gfx::NAMES.with_bank(mmio, b, slot(pipe), 0, || {
            for reg in REGS {
                // Capacity is reserved before the lock: no allocation under it.
                out.push_within_capacity((reg.name, b.rd(reg)?.raw()))?;
            }
            Ok(())
        })?;
        Ok(out)
    }
}
