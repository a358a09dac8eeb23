// SPDX-License-Identifier: GPL-2.0

//! KIQ by registers, HIQ slot, and MAP_PROCESS of GC 9.4.3.

use kernel::prelude::*;
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    doorbell::layout1,
    mqd::v9::HIQ_FAILED_DOORBELLS,
    pm4::map_process as p,
    regs::{gc_9_4_3 as gc, name, Reg, Untyped, Value},
};

use super::{
    gfx::{self, block, chains_xnack, Gfx},
    mqd::{AT, KIQ_RESET_MERGE},
    queue_reset,
};
use crate::{
    asic::{
        config::Config,
        mmio::{Block, Mmio},
        xcc::Xcc,
    },
    hw::{
        gfx::{GfxHal, GfxVersion, HqdSlot},
        sched::{KiqHal, MapProcess},
    },
};

/// The KIQ of GC 9.4.3.
pub(super) struct Kiq;

/// Process quantum under oversubscription, in ms (`pm_map_process_aldebaran`,
/// `kfd_packet_manager_v9.c`).
const QUANTUM: u32 = 10;
/// `CP_HQD_PERSISTENT_STATE_DEFAULT`, `gfx_v9_4_3.c`.
const PERSISTENT_STATE_REST: Value<name::CP_HQD_PERSISTENT_STATE> = Value::new(0x0be0_5301);
/// First MEC firmware that supports a grace period of 0 (`pm_grace_period_0_supported`).
const NO_GRACE_MEC_FW: u32 = 96;
/// Maximum grace period of waves, the width of SCH_WAVE.
const MAX_GRACE: u32 = 0xff;
const KIQ: HqdSlot = HqdSlot {
    me: 2,
    pipe: 1,
    queue: 0,
};
const HIQ: HqdSlot = HqdSlot {
    me: 2,
    pipe: 0,
    queue: 0,
};

/// Returns the offset of an XCC's doorbells from those of the first, as a 64-bit doorbell index.
fn doorbell_offset(xcc: Xcc) -> u32 {
    u32::from(xcc.logical) * layout1::XCC_RANGE
}

/// Returns the address of a register in packets, which address the registers of their XCC as those
/// of physical XCC 0: by the low 16 bits (`gfx_v9_4_3_normalize_xcc_reg_offset`).
fn packet_address<R>(mmio: &Mmio, reg: Reg<R>) -> Result<u32> {
    Ok(block(mmio)?.address(reg, 0)? & 0xffff)
}

/// Ends the queue in the selected slot; one that is not dequeued in time is made inactive.
/// `ETIMEDOUT` for that one.
fn dequeue(b: Block<'_>) -> Result {
    if gc::CP_HQD_ACTIVE__ACTIVE.get(b.rd(gc::regCP_HQD_ACTIVE)?) == 0 {
        return Ok(());
    }
    b.wr(gc::regCP_HQD_DEQUEUE_REQUEST, 1)?;
    let left = b.poll(gc::regCP_HQD_ACTIVE, 0, |v| {
        gc::CP_HQD_ACTIVE__ACTIVE.get(v) == 0
    });
    if left.is_err() {
        b.wr(gc::regCP_HQD_ACTIVE, 0)?;
    }
    b.wr(gc::regCP_HQD_DEQUEUE_REQUEST, 0)?;
    left.map(|_| ())
}

impl KiqHal for Kiq {
    fn doorbell(&self, xcc: Xcc) -> u32 {
        layout1::KIQ_START + doorbell_offset(xcc)
    }

    fn hiq_slot(&self) -> HqdSlot {
        HIQ
    }

    fn merge(&self, mmio: &Mmio, xcc: Xcc, mqd: &mut [u32]) -> Result {
        let b = mmio.xcc(xcc)?;
        Gfx::NAMES.with_bank(mmio, b, KIQ, 0, || {
            for (reg, word, ours) in KIQ_RESET_MERGE {
                let word = mqd.get_mut(*word).ok_or(EINVAL)?;
                *word = (*word & ours) | (b.rd(*reg)?.raw() & !ours);
            }
            Ok(())
        })
    }

    fn start(&self, mmio: &Mmio, xcc: Xcc, doorbell: u32, mqd: &[u32]) -> Result {
        let b = mmio.xcc(xcc)?;
        let slot = KIQ.me << 5 | KIQ.pipe << 3 | KIQ.queue;
        b.set(
            gc::regRLC_CP_SCHEDULERS,
            &[(gc::RLC_CP_SCHEDULERS__scheduler0, slot | 0x80)],
        )?;
        let word = |i: usize| mqd.get(i).copied().ok_or(EINVAL);
        Gfx::NAMES.with_bank(mmio, b, KIQ, 0, || {
            let load = |list: &[(Reg<Untyped>, usize)]| -> Result {
                for (reg, i) in list {
                    b.wr(*reg, word(*i)?)?;
                }
                Ok(())
            };
            b.set(
                gc::regCP_PQ_WPTR_POLL_CNTL,
                &[(gc::CP_PQ_WPTR_POLL_CNTL__EN, 0)],
            )?;
            load(&[
                gc::regCP_HQD_EOP_BASE_ADDR.from_word(AT.cp_hqd_eop_base_addr_lo),
                gc::regCP_HQD_EOP_BASE_ADDR_HI.from_word(AT.cp_hqd_eop_base_addr_hi),
                gc::regCP_HQD_EOP_CONTROL.from_word(AT.cp_hqd_eop_control),
                gc::regCP_HQD_PQ_DOORBELL_CONTROL.from_word(AT.cp_hqd_pq_doorbell_control),
            ])?;
            if gc::CP_HQD_ACTIVE__ACTIVE.get(b.rd(gc::regCP_HQD_ACTIVE)?) != 0 {
                // A halted MEC does not dequeue what a driver before has left.
                dequeue(b).or_else(|e| if e == ETIMEDOUT { Ok(()) } else { Err(e) })?;
                load(&[
                    gc::regCP_HQD_PQ_RPTR.from_word(AT.cp_hqd_pq_rptr),
                    gc::regCP_HQD_PQ_WPTR_LO.from_word(AT.cp_hqd_pq_wptr_lo),
                    gc::regCP_HQD_PQ_WPTR_HI.from_word(AT.cp_hqd_pq_wptr_hi),
                ])?;
            }
            load(&[
                gc::regCP_MQD_BASE_ADDR.from_word(AT.cp_mqd_base_addr_lo),
                gc::regCP_MQD_BASE_ADDR_HI.from_word(AT.cp_mqd_base_addr_hi),
                gc::regCP_MQD_CONTROL.from_word(AT.cp_mqd_control),
                gc::regCP_HQD_PQ_BASE.from_word(AT.cp_hqd_pq_base_lo),
                gc::regCP_HQD_PQ_BASE_HI.from_word(AT.cp_hqd_pq_base_hi),
                gc::regCP_HQD_PQ_CONTROL.from_word(AT.cp_hqd_pq_control),
                gc::regCP_HQD_PQ_RPTR_REPORT_ADDR.from_word(AT.cp_hqd_pq_rptr_report_addr_lo),
                gc::regCP_HQD_PQ_RPTR_REPORT_ADDR_HI.from_word(AT.cp_hqd_pq_rptr_report_addr_hi),
                gc::regCP_HQD_PQ_WPTR_POLL_ADDR.from_word(AT.cp_hqd_pq_wptr_poll_addr_lo),
                gc::regCP_HQD_PQ_WPTR_POLL_ADDR_HI.from_word(AT.cp_hqd_pq_wptr_poll_addr_hi),
            ])?;
            // Doorbell range of kernel queues, in bytes.
            b.wr(gc::regCP_MEC_DOORBELL_RANGE_LOWER, doorbell * 4)?;
            b.wr(
                gc::regCP_MEC_DOORBELL_RANGE_UPPER,
                (layout1::USERQUEUE_END + doorbell_offset(xcc)) * 2 * 4,
            )?;
            load(&[
                gc::regCP_HQD_PQ_DOORBELL_CONTROL.from_word(AT.cp_hqd_pq_doorbell_control),
                gc::regCP_HQD_PQ_WPTR_LO.from_word(AT.cp_hqd_pq_wptr_lo),
                gc::regCP_HQD_PQ_WPTR_HI.from_word(AT.cp_hqd_pq_wptr_hi),
                gc::regCP_HQD_VMID.from_word(AT.cp_hqd_vmid),
                gc::regCP_HQD_PERSISTENT_STATE.from_word(AT.cp_hqd_persistent_state),
                gc::regCP_HQD_ACTIVE.from_word(AT.cp_hqd_active),
            ])?;
            b.set(
                gc::regCP_PQ_STATUS,
                &[(gc::CP_PQ_STATUS__DOORBELL_ENABLE, 1)],
            )
        })?;
        gfx::release(mmio, xcc)
    }

    fn stop(&self, mmio: &Mmio, xcc: Xcc) -> Result {
        let b = mmio.xcc(xcc)?;
        Gfx::NAMES.with_bank(mmio, b, KIQ, 0, || {
            let dequeued = dequeue(b);
            b.wr(gc::regCP_HQD_IQ_TIMER, 0)?;
            b.wr(gc::regCP_HQD_IB_CONTROL, 0)?;
            b.wr(gc::regCP_HQD_PERSISTENT_STATE, PERSISTENT_STATE_REST)?;
            b.wr(
                gc::regCP_HQD_PQ_DOORBELL_CONTROL,
                gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.put(1),
            )?;
            b.wr(gc::regCP_HQD_PQ_DOORBELL_CONTROL, 0)?;
            b.wr(gc::regCP_HQD_PQ_RPTR, 0)?;
            b.wr(gc::regCP_HQD_PQ_WPTR_HI, 0)?;
            b.wr(gc::regCP_HQD_PQ_WPTR_LO, 0)?;
            dequeued
        })
    }

    fn scratch_packet_reg(&self, mmio: &Mmio) -> Result<u32> {
        packet_address(mmio, gc::regSCRATCH_REG0)
    }

    fn write_scratch(&self, mmio: &Mmio, xcc: Xcc, value: u32) -> Result {
        mmio.xcc(xcc)?.wr(gc::regSCRATCH_REG0, value)
    }

    fn read_scratch(&self, mmio: &Mmio, xcc: Xcc) -> Result<u32> {
        mmio.xcc(xcc)?.rd(gc::regSCRATCH_REG0).map(Value::raw)
    }

    fn dequeue_wait(&self, mmio: &Mmio, xcc: Xcc) -> Result<(u32, u32)> {
        let value = mmio.xcc(xcc)?.rd(gc::regCP_IQ_WAIT_TIME2)?;
        let reg = packet_address(mmio, gc::regCP_IQ_WAIT_TIME2)?;
        Ok((reg, gc::CP_IQ_WAIT_TIME2__QUE_SLEEP.set(value, 1).raw()))
    }

    fn with_grace(&self, value: u32, grace: u32, mec_fw: u32) -> u32 {
        if grace == 0 && mec_fw >= NO_GRACE_MEC_FW {
            return value;
        }
        let grace = grace.clamp(1, MAX_GRACE);
        gc::CP_IQ_WAIT_TIME2__SCH_WAVE
            .set(Value::new(value), grace)
            .raw()
    }

    fn doorbell_in(&self, mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<Option<u32>> {
        queue_reset::doorbell(mmio, xcc, slot)
    }

    fn reset_slots(&self, mmio: &Mmio, slots: &[(Xcc, HqdSlot)]) -> Result {
        queue_reset::reset(mmio, slots)
    }

    fn hung_doorbell_dword(&self) -> usize {
        HIQ_FAILED_DOORBELLS
    }

    fn map_process_dwords(&self) -> usize {
        p::DWORDS
    }

    fn map_process(&self, m: &MapProcess, out: &mut [u32]) -> Result {
        if out.len() != p::DWORDS {
            return Err(EINVAL);
        }
        out.fill(0);
        out[0] = p::PACKET.header();
        p::PASID.set(out, m.pasid);
        p::PROCESS_QUANTUM.set(out, QUANTUM);
        p::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_LO32.set(out, lo(m.root));
        p::VM_CONTEXT_PAGE_TABLE_BASE_ADDR_HI32.set(out, hi(m.root));
        p::SH_MEM_BASES.set(out, m.sh_mem_bases.raw());
        p::SH_MEM_CONFIG.set(out, m.sh_mem_config.raw());
        if m.tba != 0 {
            p::SQ_SHADER_TBA_LO.set(out, lo(m.tba >> 8));
            p::SQ_SHADER_TBA_HI.set(out, lo(m.tba >> 40));
            p::SQ_SHADER_TMA_LO.set(out, lo(m.tma >> 8));
            p::SQ_SHADER_TMA_HI.set(out, lo(m.tma >> 40));
        }
        p::SPI_GDBG_PER_VMID_CNTL.set(out, Gfx.wave_debug(&m.debug).raw());
        let watch = [
            p::TCP_WATCH_CNTL0,
            p::TCP_WATCH_CNTL1,
            p::TCP_WATCH_CNTL2,
            p::TCP_WATCH_CNTL3,
        ];
        for (field, control) in watch.iter().zip(m.debug.watch) {
            field.set(out, control);
        }
        p::SINGLE_MEMOPS.set(out, m.debug.single_memop.into());
        p::NUM_GWS.set(out, m.num_gws);
        p::SDMA_ENABLE.set(out, 1);
        p::NUM_QUEUES.set(out, m.num_queues);
        Ok(())
    }

    fn xnack_chain(&self, config: &Config) -> bool {
        chains_xnack(config)
    }
}
